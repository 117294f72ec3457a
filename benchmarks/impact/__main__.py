"""The tables: `python -m benchmarks.impact`."""

import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from math import isfinite
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from benchmarks.command import command as as_command
from benchmarks.impact.trials import (
    LOSS,
    RULES,
    Spot,
    judged,
    judged_together,
    rolled_back,
    spots,
    stations_once,
    watched,
)
from benchmarks.impact.worlds import (
    A_DAY,
    CHANGED,
    CHANGED_FROM,
    DAYS,
    SLOTS,
    Streets,
    drawn,
    simulated_day,
    thresholds,
)
from benchmarks.running import kept, play_all
from kinband.arrays import FloatArray
from kinband.experiments.pages import check_place, marks_of, write_between
from kinband.guardrails import Fallback
from kinband.judging import RATE, Comparison, nearest
from kinband.progress import stage
from kinband.stats import Estimate, share_of, student
from kinband.version import __version__

MARKS = marks_of("impact")
KINDS = {"streets": Streets(), "streets, 3 days before": Streets()}
_WINDOWS = {
    "streets": (14 * SLOTS, 7 * SLOTS),
    "streets, 3 days before": (3 * SLOTS, SLOTS),
    "radio": (4 * A_DAY, A_DAY),
}
_WATCH = {"streets": (7 * SLOTS, 4 * SLOTS), "radio": (4 * A_DAY, 3 * A_DAY)}


def impact(
    networks: Annotated[int, typer.Option(min=1, help="Networks drawn of each kind of streets.")] = 50,
    each: Annotated[int, typer.Option(min=1, help="Placebo changes of each.")] = 4,
    cities: Annotated[int, typer.Option(min=0, help="Simulated cities; 0 for none, they take minutes each.")] = 10,
    first: Annotated[int, typer.Option(min=0, help="The first seed; those below 1001 were looked at before.")] = 2000,
    workers: Annotated[int | None, typer.Option(help="Processes for the cities.")] = None,
    out: Annotated[Path, typer.Option(help="Folder where cities are kept.")] = Path("out/impact-benchmark"),
    write: Annotated[Path | None, typer.Option(help="A page to put the tables into, such as docs/impact.md.")] = None,
) -> None:
    """Judge changes whose effect is known: do intervals hold, is nothing taken for a loss, how soon is a loss found."""
    if write is not None:
        check_place(write, MARKS)
    worlds = {name: [drawn(kind, seed=first + k) for k in range(networks)] for name, kind in KINDS.items()}
    towns = [_city(first + k, out, workers=workers, changed=not k) for k in range(cities)]
    placebos = networks * each
    if towns:
        worlds["radio"] = [town[0] for town in towns]
    per = {name: each if name != "radio" else -(-placebos // max(cities, 1)) for name in worlds}
    lines = [*_coverage(worlds, per, seed=first), "", *_watching(worlds, per, seed=first)]
    if towns:
        lines += ["", _real(*towns[0])]
    text = "\n".join([*lines, "", _about(networks, each, cities, first)]) + "\n"
    if write is not None:
        write_between(write, text, MARKS)
    print(text)


def _city(seed: int, out: Path, *, workers: int | None, changed: bool) -> tuple[FloatArray, FloatArray, int]:
    """A city's rewards without a change and, of one, with a change, (slots, stations), and its seed."""
    days = [(day, 0) for day in range(DAYS)] + [(day, CHANGED) for day in range(CHANGED_FROM, DAYS) if changed]
    jobs = [kept(out, simulated_day, seed, day, how_many) for day, how_many in days]
    rewards = [np.array(one["rewards"], dtype=np.float64) for one in play_all(jobs, workers=workers, what="simulating")]
    plain, other = rewards[:DAYS], [*rewards[:CHANGED_FROM], *rewards[DAYS:]]
    return np.concatenate(plain), np.concatenate(other), seed


def _coverage(worlds: dict[str, list[FloatArray]], per: dict[str, int], *, seed: int) -> list[str]:
    """The table of intervals."""
    head = [
        "network",
        "slots before, after",
        "95 % intervals hold",
        "of ten changes together",
        "half of an interval, points",
    ]
    ways = ["own hours before", "mean of all others", "mean of the nearest ten", "weighted (kinband)"]
    rows = [[*head, *(f"error, points: {way}" for way in ways)]]
    rows.append(["---"] * len(rows[0]))
    for name, networks in worlds.items():
        before, after = _WINDOWS[name]
        verdicts, simple, together = list[list[Estimate]](), list[dict[str, float]](), list[list[Estimate]]()
        with stage(f"placebo changes in {name}", len(networks) * per[name]) as step:
            for number, Y in enumerate(networks):
                rng = np.random.default_rng([seed, number, 1])
                verdicts.append([])
                together.append([])
                for spot in spots(Y, rng, count=per[name], before=before, after=after):
                    verdict, others = judged(Y, spot)
                    verdicts[-1].append(verdict.gain)
                    simple.append(others)
                    together[-1].append(judged_together(Y, rng, changes=10, before=before, after=after))
                    step("judging")
        size = [f"{100 * np.sqrt(np.mean([one[way] ** 2 for one in simple])):.2f}" for way in ways]
        half = f"{100 * np.mean([(one.high - one.low) / 2 for own in verdicts for one in own]):.2f}"
        rows.append([name, f"{before}, {after}", _held(verdicts), _held(together), half, *size])
    return [f"| {' | '.join(row)} |" for row in rows]


def _held(gains: Sequence[Sequence[Estimate]]) -> str:
    hits = [[gain.side(0.0) == 0 for gain in own] for own in gains]
    return f"{sum(map(sum, hits))} of {sum(map(len, hits))}: {_share(hits)}"


def _share(hits: Sequence[Sequence[bool]]) -> str:
    """A share with its interval: by networks, since what happens in one hangs together, and no narrower than by lot."""
    lot = share_of(sum(map(sum, hits)), sum(map(len, hits)))
    shares = [float(np.mean(own)) for own in hits]
    variance = float(np.var(shares, ddof=1)) / len(shares) if len(shares) > 1 else 0.0
    wide = student(lot.value, variance, len(shares))
    low, high = (min(lot.low, wide.low), max(lot.high, wide.high)) if wide.known else (lot.low, lot.high)
    return f"{lot.value:.0%} ({max(low, 0.0):.0%} to {min(high, 1.0):.0%})"


def _watching(worlds: dict[str, list[FloatArray]], per: dict[str, int], *, seed: int) -> list[str]:
    """The table of roll-backs."""
    rows = [
        ["network", "rule", "false roll-backs", "losses of 3 points found", "slots until then, median"],
        ["---"] * 5,
    ]
    for name, (before, after) in _WATCH.items():
        every = [
            [(Y, spot) for spot in _spots(Y, name, seed=[seed, number, 2], count=per[name], before=before, after=after)]
            for number, Y in enumerate(worlds.get(name, []))
        ]
        if not every:
            continue
        ours = _row(every, watched, f"watching changes in {name}")
        rows.append([name, f"by controls, {RATE:.0%} stated", *_told(ours)])
        own = {
            rule: _row(every, partial(_own, rule=rule), f"own slots in {name}, drop {rule.drop}, {rule.slots} slots")
            for rule in RULES
        }
        page = next(rule for rule in RULES if (rule.drop, rule.slots) == (0.05, 3))
        rows.append([name, "by own slots, drop 0.05, slots 3", *_told(own[page])])
        allowed = max(RATE, _mean(ours, 0))
        fair = {rule: found for rule, found in own.items() if _mean(found, 0) <= allowed}
        if fair:
            best = max(fair, key=lambda rule: _mean(fair[rule], 1))
            said = f"by own slots, drop {best.drop:g}, slots {best.slots}: the best with as few false ones"
            rows.append([name, said, *_told(fair[best])])
    return [f"| {' | '.join(row)} |" for row in rows]


def _spots(Y: FloatArray, name: str, *, seed: list[int], count: int, before: int, after: int) -> list[Spot]:
    """Spots of a network: in a simulated city every station once, which is all that its days have."""
    if name == "radio":
        return list(stations_once(Y, before=before, after=after))
    return list(spots(Y, np.random.default_rng(seed), count=count, before=before, after=after))


def _own(Y: FloatArray, spot: Spot, *, loss: float, rule: Fallback) -> float:
    return rolled_back(Y, spot, rule, loss=loss)


Found = list[FloatArray]
"""By network: slots until a roll-back without a loss and with one, (n, 2)."""


def _row(every: Sequence[Sequence[tuple[FloatArray, Spot]]], rule: Callable[..., float], what: str) -> Found:
    found = []
    with stage(what, len(every)) as step:
        for spotted in every:
            found.append(np.array([[rule(Y, spot, loss=loss) for loss in (0.0, LOSS)] for Y, spot in spotted]))
            step(what)
    return found


def _mean(found: Found, column: int) -> float:
    return float(np.isfinite(np.concatenate(found)[:, column]).mean())


def _told(found: Found) -> list[str]:
    median = float(np.median(np.concatenate(found)[:, 1]))
    said = f"{median:.0f}" if isfinite(median) else "more than half never"
    return [*(_share([np.isfinite(own[:, column]).tolist() for own in found]) for column in (0, 1)), said]


def _real(plain: FloatArray, other: FloatArray, seed: int) -> str:
    """Thresholds that were changed in the simulator: the truth is the difference of two runs with the same people."""
    hits, sizes, signs = 0, list[float](), 0
    _, who = thresholds(seed, changed=CHANGED)
    rest = np.setdiff1d(np.arange(plain.shape[1]), who)
    cut = CHANGED_FROM * A_DAY
    for station in who.tolist():
        chosen = rest[nearest(other[:cut, station], other[:cut, rest])]
        found = Comparison.of(other[:cut, station], other[:cut, chosen])
        gain = found.judged(other[cut:, station], other[cut:, chosen]).gain
        truth = float(np.nanmean(other[cut:, station] - plain[cut:, station]))
        hits += gain.low <= truth <= gain.high
        signs += gain.side(0.0) * truth > 0
        sizes.append(truth)
    spread = f"{100 * min(sizes):+.1f} to {100 * max(sizes):+.1f} points"
    return (
        f"Thresholds raised by 16 dB at {CHANGED} stations of the first city, neighbours among the controls: {hits} of "
        f"{len(sizes)} intervals hold the true effect ({spread}), and {signs} tell its sign."
    )


def _about(networks: int, each: int, cities: int, first: int) -> str:
    drawn_as = ", ".join(
        f"{name} {100 * value:g}"
        for name, value in asdict(Streets()).items()
        if name in ("dip", "shock", "city", "own", "noise")
    )
    return (
        f"Measured with kinband {__version__} by `python -m benchmarks.impact`: {networks} networks of streets with "
        f"{each} placebo changes each, {cities} simulated cities of 42 sectors over {DAYS} days with {networks * each} "
        f"in all, and a change of every station to watch, seeds from {first}. Streets have {Streets().stations} "
        f"stations; sizes in points: {drawn_as}. A slot is an hour in streets, half an hour in radio. In brackets 95 % "
        "intervals, by network: what happens in one hangs together."
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark."""
    return as_command(impact, "benchmarks.impact", sys.argv[1:] if arguments is None else arguments)


if __name__ == "__main__":
    sys.exit(main())
