"""How well `kinband conform` finds rules and deviations: `python -m benchmarks.conform`, in a few minutes.

Networks are drawn whose planners set three knobs by three rules: tilt by land use and height, power by carrier and the
distance to the next site, a threshold by region, carrier and vendor. Five of 100 values deviate, at random. Of two more
knobs one is set by a rule that holds in four of five stations only, and one by no rule. A second table says how often
the intervals of explained variation hold on logs whose truth is known.
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from benchmarks.command import command as as_command
from kinband.arrays import BoolArray, FloatArray
from kinband.experiments.pages import check_place, marks_of, write_between
from kinband.planning.conformity import KnobRule, conform
from kinband.planning.variation import explained_variation
from kinband.progress import stage
from kinband.stats import mean_of, share_of
from kinband.trace import Trace
from kinband.version import __version__

MARKS = marks_of("conform")
RULES = ("tilt", "power_dbm", "threshold_dbm")
VAGUE, NONE = "vague", "no rule"
DEVIATING = 0.05

Network = tuple[dict[str, dict[str, Any]], dict[str, dict[str, Any]], dict[str, BoolArray]]


def drawn(stations: int, seed: int) -> Network:
    """Return what the stations of a network run, what describes them, and which of them deviate in each knob."""
    rng = np.random.default_rng([seed, stations])
    sites = stations // 3
    kind = rng.choice(3, sites, p=[0.3, 0.4, 0.3])  # town, suburb, country
    height = np.clip(rng.normal(np.array([28.0, 24.0, 38.0])[kind], 6.0), 12, 60).round()
    apart = np.exp(rng.normal(np.array([-0.7, 0.2, 1.6])[kind], 0.35))
    east, north, vendor = rng.normal(0, 10, sites), rng.normal(0, 10, sites), rng.choice(2, sites)
    of = np.repeat(np.arange(sites), 3)
    carrier = np.tile([800, 1800, 2600], sites)
    truth = {
        "tilt": np.where(kind == 0, np.where(height > 28, 8, 6), np.where(kind == 1, 4, 2))[of],
        "power_dbm": np.where(carrier == 800, 46, np.where(apart[of] > 1, 43, 40)),
        "threshold_dbm": np.where(
            east[of] > 0, np.where(carrier == 2600, -100, -104), np.where(vendor[of] == 1, -108, -112)
        ),
    }
    odd: dict[str, BoolArray] = {}
    for knob, values in list(truth.items()):
        odd[knob] = rng.random(len(of)) < DEVIATING
        others = np.unique(values)
        truth[knob] = np.array(
            [rng.choice(others[others != v]) if d else v for v, d in zip(values, odd[knob], strict=True)]
        )
    often = np.where(rng.random(len(of)) < 0.8, truth["tilt"], rng.choice([2, 4, 6, 8], len(of)))
    truth |= {VAGUE: often, NONE: rng.choice([1, 2, 3], len(of))}
    names = [f"c{n:05d}" for n in range(len(of))]
    runs = {name: {knob: values[n].item() for knob, values in truth.items()} for n, name in enumerate(names)}
    described = {
        name: {
            "land_use": ("town", "suburb", "country")[kind[of[n]]], "height_m": float(height[of[n]]),
            "distance_km": float(apart[of[n]]), "east_km": float(east[of[n]]), "north_km": float(north[of[n]]),
            "vendor": ("A", "B")[vendor[of[n]]], "carrier": float(carrier[n]), "azimuth": float(rng.integers(360)),
        }
        for n, name in enumerate(names)
    }  # fmt: skip
    return runs, described, odd


def drawn_log(stations: int, rows: int, own: float, seed: int) -> tuple[Trace, dict[str, float]]:
    """Return a log and the share of its variation within stations that each knob explains, by the truth."""
    rng = np.random.default_rng([seed, stations, rows])
    of, slot = np.repeat(np.arange(stations), rows), np.tile(np.arange(rows), stations)
    load = np.clip(0.5 + 0.4 * np.sin(slot * 2 * np.pi / 24) + 0.1 * rng.normal(size=len(of)), 0, 1)
    level, best = rng.normal(0.8, 0.05, stations), 4 + own * rng.normal(size=stations)
    tilt, power = rng.choice([0, 2, 4, 6, 8], len(of)), rng.choice([40, 43, 46], len(of))
    shocks = 0.01 * rng.normal(size=slot.max() // 24 + 1)

    def f(tilt: FloatArray, power: FloatArray, rows: Any = slice(None)) -> FloatArray:
        m, x = of[rows], load[rows]
        return np.asarray(level[m] - 0.1 * x - 0.004 * (tilt - best[m]) ** 2 + 0.004 * (power - 43) * (0.8 - x))

    y = f(tilt, power) + shocks[slot // 24] + 0.05 * rng.normal(size=len(of))
    mean = np.bincount(of, y) / rows
    total = float(np.mean((y - mean[of]) ** 2))
    varied: dict[str, list[FloatArray]] = {"tilt": [], "power": []}
    for m in range(stations):
        own_rows = np.flatnonzero(of == m)
        for name, ran in (("tilt", tilt), ("power", power)):
            values, counts = np.unique(ran[own_rows], return_counts=True)
            full = [
                f(v, power[own_rows], own_rows) if name == "tilt" else f(tilt[own_rows], v, own_rows) for v in values
            ]
            w, F = counts / counts.sum(), np.array(full)
            varied[name].append(w @ F**2 - (w @ F) ** 2)
    times = np.datetime64("2024-03-04") + slot.astype("timedelta64[h]")
    columns = {"station": [f"c{m:03d}" for m in of], "time": times.astype("datetime64[us]"), "load": load}
    columns |= {"tilt": tilt, "power": power, "reward": y}
    trace = Trace.from_frame(columns, {"configuration": ["tilt", "power"], "time": "time", "state": ["load"]})
    return trace, {name: float(np.mean(np.concatenate(parts))) / total for name, parts in varied.items()}


def conform_benchmark(
    seeds: Annotated[int, typer.Option(min=1, help="Networks and logs drawn of each size.")] = 20,
    first: Annotated[int, typer.Option(min=0, help="The first seed; 0 to 9 were looked at in development.")] = 100,
    write: Annotated[Path | None, typer.Option(help="A page to put the tables into, such as docs/conform.md.")] = None,
) -> None:
    """Find the rules and deviations of networks that are known, and the shares of variation of logs that are."""
    if write is not None:
        check_place(write, MARKS)
    numbers = range(first, first + seeds)
    about = (
        f"Measured with kinband {__version__} by `python -m benchmarks.conform`: {seeds} networks and logs of each "
        f"size, seeds from {first}; brackets are 95 % intervals, over networks where there are several values each."
    )
    text = "\n".join([*_rules(numbers), "", *_variation(numbers), "", about]) + "\n"
    if write is not None:
        write_between(write, text, MARKS)
    print(text)


def _rules(seeds: Sequence[int]) -> list[str]:
    head = ["stations", "knobs", "predicted where hidden", "by the commonest value", "reported deviations that are one",
            "deviations that are reported"]  # fmt: skip
    rows = [head, ["---"] * len(head)]
    sizes = (60, 300, 1500)
    with stage("networks", len(sizes) * len(seeds)) as step:
        for stations in sizes:
            found: dict[str, list[tuple[KnobRule, int, int]]] = {"by a rule": [], VAGUE: [], NONE: []}
            for seed in seeds:
                runs, described, odd = drawn(stations, seed)
                numbers = {name: n for n, name in enumerate(runs)}
                for rule in conform(runs, described, seed=seed):
                    own = odd.get(rule.knob, np.zeros(len(runs), dtype=np.bool_))
                    right = sum(bool(own[numbers[one.station]]) for one in rule.deviations)
                    found["by a rule" if rule.knob in RULES else rule.knob].append((rule, right, int(own.sum())))
                step("drawn")
            rows += [[f"{stations:,}", name, *_told(of, known=name == "by a rule")] for name, of in found.items()]
    return [f"| {' | '.join(row)} |" for row in rows]


def _told(found: Sequence[tuple[KnobRule, int, int]], *, known: bool) -> list[str]:
    held_out = mean_of(np.array([rule.held_out.value for rule, _, _ in found]))
    commonest = mean_of(np.array([rule.commonest for rule, _, _ in found]))
    told, right, odd = (sum(column) for column in zip(*((len(r.deviations), a, b) for r, a, b in found), strict=True))
    if not known:
        return [f"{held_out:.0%}", f"{commonest.value:.0%}", f"{told:,} reported", "-"]
    shares = [f"{right:,} of {of:,}: {share_of(right, of):.0%}" for of in (told, odd)]
    return [f"{held_out:.0%}", f"{commonest.value:.0%}", *shares]


def _variation(seeds: Sequence[int]) -> list[str]:
    head = ["log", "knob", "explains in truth", "as stated, mean", "95 % intervals hold"]
    rows = [head, ["---"] * len(head)]
    logs = [(20, 48, 1.0), (40, 96, 0.0), (40, 96, 2.0), (60, 200, 1.0)]
    with stage("logs", len(logs) * len(seeds)) as step:
        for stations, hours, own in logs:
            held: dict[str, list[tuple[float, float, bool]]] = {"tilt": [], "power": []}
            for seed in seeds:
                trace, truth = drawn_log(stations, hours, own, seed)
                for one in explained_variation(trace, seed=seed):
                    if one.name in held:
                        known = truth[one.name]
                        held[one.name].append((known, one.share.value, one.share.low <= known <= one.share.high))
                step("drawn")
            for name, cases in held.items():
                told = np.array(cases)
                hits = int(told[:, 2].sum())
                said = f"{hits} of {len(told)}: {share_of(hits, len(told)):.0%}"
                kind = f"{stations} stations x {hours} hours, best tilts {own:g}° apart"
                rows.append([kind, name, f"{told[:, 0].mean():.1%}", f"{told[:, 1].mean():.1%}", said])
    return [f"| {' | '.join(row)} |" for row in rows]


def main(arguments: Sequence[str]) -> int:
    """Run the command and return its exit code."""
    return as_command(conform_benchmark, "benchmarks.conform", arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
