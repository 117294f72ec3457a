"""What the first decisions of newcomers say: regret by the way they start, and what is saved of starting alone."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from kinband.experiments.compare import mean_of, saving_of
from kinband.stats import Estimate

DESCRIBED, AVERAGE, ALONE = "described", "on average", "alone"
STARTS = (DESCRIBED, AVERAGE, ALONE)
KNOWN = "best known"
"""Not a start but a bound: to run, from the first decision on, the one configuration that turns out best for it."""


@dataclass(frozen=True)
class Draw:
    """What was found on one seed, as `Finding` sums it up.

    Attributes:
        regret: By start.
        explained: Share of the average's squared error in held-out rows that descriptors remove.
        used: Whether newcomers started from their descriptors.
    """

    regret: Mapping[str, float]
    explained: float
    used: bool


@dataclass(frozen=True)
class Finding:
    """What was found over all runs.

    Attributes:
        regret: Of a newcomer's first decisions, summed over them, a newcomer, by start.
        saved: Share of the regret of starting alone that is saved, by start.
        saved_over_average: The same of descriptors against the network's average.
        explained: Share of the average's squared error in held-out rows of the task matrix that descriptors remove.
        trusted: Share of draws in which descriptors were used: that was above zero, or there were too few stations to
            judge them by.
    """

    regret: Mapping[str, Estimate]
    saved: Mapping[str, Estimate]
    saved_over_average: Estimate
    explained: Estimate
    trusted: float


def finding(draws: Sequence[Draw], known: Sequence[float] | None = None) -> Finding:
    """Return what several seeds say together, with the bound of `best_known` on the same seeds where it is given."""
    by_start = {start: np.array([one.regret[start] for one in draws]) for start in STARTS}
    if known is not None:
        by_start[KNOWN] = np.array(known)
    explained = np.array([one.explained for one in draws])
    return Finding(
        {start: mean_of(values) for start, values in by_start.items()},
        {start: saving_of(values, by_start[ALONE]) for start, values in by_start.items()},
        saving_of(by_start[DESCRIBED], by_start[AVERAGE]),
        mean_of(explained),
        trusted=float(np.mean([one.used for one in draws])),
    )


def table_of(found: Finding) -> str:
    """Return findings as a Markdown table and two sentences."""
    lines = ["| a newcomer starts | regret of its first decisions | saved of starting alone |", "|---|---|---|"]
    lines += [f"| {start} | {found.regret[start]:.3f} | {found.saved[start]:.0%} |" for start in STARTS]
    return "\n".join(
        [
            *lines,
            "",
            f"Descriptors save {found.saved_over_average:.0%} of the regret of starting on average.",
            f"Of the average's squared error in held-out rows of the task matrix they remove {found.explained:.0%};",
            f"they were used in {found.trusted:.0%} of the draws.",
        ]
    )
