"""What runs of the network say: shares of satisfied sessions, beyond those of learners that count their cell alone."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.studies.neighbours.plan import CELL
from kinband.arrays import FloatArray
from kinband.experiments.compare import mean_of
from kinband.stats import Estimate


@dataclass(frozen=True)
class Record:
    """One learner on one seed.

    Attributes:
        seed: The traffic.
        learner: Its name.
        share: Share of satisfied sessions of the network in the slots that count.
        below: Share of sectors whose own share in those slots is below the floor.
        earned: Mean reward of a sector as its learner counts it, neighbours left out.
        trials: Share of decisions other than today's threshold.
    """

    seed: int
    learner: str
    share: float
    below: float
    earned: float
    trials: float


@dataclass(frozen=True)
class Finding:
    """One learner over all seeds: `gain` is its share beyond that of learners that count their cell alone, in pairs."""

    learner: str
    share: Estimate
    gain: Estimate
    below: Estimate
    earned: Estimate
    trials: float


def findings(records: Sequence[Record]) -> list[Finding]:
    """Return what records say of every learner.

    Example:
        >>> records = [Record(1, "cell", 0.7, 0.3, 0.9, 0.6), Record(1, "sector", 0.8, 0.1, 0.8, 0.5)]
        >>> [round(found.gain.value, 3) for found in findings(records)]
        [0.0, 0.1]
    """
    by_learner: dict[str, dict[int, Record]] = {}
    for record in records:
        by_learner.setdefault(record.learner, {})[record.seed] = record
    selfish = by_learner[CELL]
    found = []
    for learner, runs in by_learner.items():
        gain = np.array([run.share - selfish[seed].share for seed, run in runs.items()])
        columns = {name: _column(runs, name) for name in ("share", "below", "earned", "trials")}
        share, below, earned = (mean_of(columns[name]) for name in ("share", "below", "earned"))
        found.append(Finding(learner, share, mean_of(gain), below, earned, float(columns["trials"].mean())))
    return found


def _column(runs: Mapping[int, Record], name: str) -> FloatArray:
    return np.array([getattr(run, name) for run in runs.values()])


def table_of(found: Sequence[Finding]) -> str:
    """Return findings as a Markdown table."""
    head = ("learner", "network's share", "beyond cell", "sectors below the floor", "reward as it counts", "trials")
    lines = [head, ["---"] * len(head)]
    for f in found:
        numbers = (f"{f.share:.3f}", f"{f.gain:+.3f}", f"{f.below:.0%}", f"{f.earned:.3f}")
        lines.append((f.learner, *numbers, f"{f.trials:.0%}"))
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def draw(found: Sequence[Finding], file: Path) -> None:
    """Draw the network's share of every learner with its interval, and the reward as the learner counts it."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 0.5 * len(found) + 1.2), layout="constrained")
    axes = figure.subplots()
    places = np.arange(len(found))[::-1]
    for label, colour, estimates in (
        ("whole network, all users", "#0072B2", [f.share for f in found]),
        ("as the learner counts it", "#D55E00", [f.earned for f in found]),
    ):
        values = np.array([estimate.value for estimate in estimates])
        spans = np.array([[e.value - e.low, e.high - e.value] for e in estimates]).T
        offset = 0.12 if colour == "#0072B2" else -0.12
        axes.errorbar(values, places + offset, xerr=np.nan_to_num(spans), fmt="o", color=colour, label=label)
    axes.set_yticks(places, [f.learner for f in found])
    axes.set_xlabel("share of sessions with 5 Mbps or more")
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(frameon=False, loc="outside upper left", ncols=2)
    figure.savefig(file, dpi=120)
