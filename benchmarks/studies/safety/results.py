"""What runs under rules say: how often a promise was broken, how deeply, and the regret paid for keeping it.

A run is counted by itself (`Tally`), and runs are summed up over seeds (`Finding`): regret in pairs with the learner
that has no rules, shares of runs with exact intervals, the rest with intervals by bootstrap (`metrics`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields

import numpy as np

from benchmarks.metrics import ratio_of
from benchmarks.studies.safety.rules import ALPHA, PLAIN
from kinband.arrays import FloatArray, IntArray
from kinband.experiments.compare import mean_of
from kinband.stats import Estimate, share_of


@dataclass(frozen=True, eq=False)
class Played:
    """What a run earned and what others would have, (T, M) each; `today` is the arm that was declared."""

    today: int
    arms: IntArray
    expected: FloatArray
    rewards: FloatArray
    best: FloatArray
    today_expected: FloatArray
    today_rewards: FloatArray
    before_expected: FloatArray
    """What each station would be expected to earn with what it ran in the slot before."""


@dataclass(frozen=True)
class Tally:
    """One learner on one seed, as `Finding` sums it up over seeds."""

    depth: float
    depth_in_rewards: float
    below: float
    trials: float
    changes: float
    regret: float


@dataclass(frozen=True)
class Finding:
    """One learner over all seeds.

    Attributes:
        rules: How the table calls it.
        broken: Share of runs in which the budget was overdrawn in expectation.
        broken_in_rewards: The same of the rewards that came.
        deepest: How far the budget was overdrawn at worst in expectation, in units of reward, a run.
        fallen: Share of runs with a decision that was expected to earn more than the drop below what ran before.
        below: Share of such decisions.
        trials: Share of decisions other than today's configuration.
        changes: Share of decisions other than what ran before.
        regret: In expectation, a run.
        paid: Regret beyond that of the learner without rules, as a share of the latter.
    """

    rules: str
    broken: Estimate
    broken_in_rewards: Estimate
    deepest: Estimate
    fallen: Estimate
    below: Estimate
    trials: float
    changes: float
    regret: Estimate
    paid: Estimate


def overdrawn(ours: FloatArray, today: FloatArray, *, least: float, alpha: float = ALPHA) -> float:
    """Return by how much the sum of (T, M) rewards was ever below 1 − α of today's, slot by slot, station by station.

    Example:
        >>> today = np.array([[1.0], [1.0]])
        >>> [overdrawn(np.array(ours), today, alpha=0.5, least=0.0) for ours in ([[0.75], [0.0]], [[0.6], [0.5]])]
        [0.25, 0.0]
    """
    added = (ours - least) - (1.0 - alpha) * (today - least)
    lowest = float(np.cumsum(added.ravel()).min())
    return -lowest if lowest < -1e-9 else 0.0


def tally_of(played: Played, *, least: float, drop: float) -> Tally:
    """Count one run: rewards from `least` on, and decisions that fall by more than `drop`."""
    return Tally(
        depth=overdrawn(played.expected, played.today_expected, least=least),
        depth_in_rewards=overdrawn(played.rewards, played.today_rewards, least=least),
        below=float(np.mean(played.expected < played.before_expected - drop - 1e-9)),
        trials=float(np.mean(played.arms != played.today)),
        changes=float(np.mean(played.arms[1:] != played.arms[:-1])) if len(played.arms) > 1 else 0.0,
        regret=float((played.best - played.expected).sum()),
    )


def findings(counted: Sequence[Mapping[str, Tally]]) -> list[Finding]:
    """Return what the tallies of several seeds say of every learner; the one without rules must be among them."""
    plain = np.array([by_name[PLAIN].regret for by_name in counted])
    return [_finding(name, [by_name[name] for by_name in counted], plain) for name in counted[0]]


def _finding(name: str, own: Sequence[Tally], plain: FloatArray) -> Finding:
    by_name = {field.name: np.array([getattr(one, field.name) for one in own]) for field in fields(Tally)}
    paid = ratio_of(by_name["regret"], plain)
    broken, in_rewards, fallen = (
        share_of(int(np.count_nonzero(by_name[what])), len(own)) for what in ("depth", "depth_in_rewards", "below")
    )
    shares = {what: float(by_name[what].mean()) for what in ("trials", "changes")}
    below = mean_of(by_name["below"])
    return Finding(
        name, broken, in_rewards, mean_of(by_name["depth"]), fallen, below, **shares, regret=mean_of(by_name["regret"]),
        paid=Estimate(paid.value - 1.0, paid.low - 1.0, paid.high - 1.0),
    )  # fmt: skip


def table_of(found: Sequence[Finding]) -> str:
    """Return findings as a Markdown table."""
    words = ("rules", "runs below 95 % of today", "in rewards", "deepest", "decisions below the floor", "trials")
    head = (*words, "changes", "regret", "paid")
    lines = [head, ["---"] * len(head), *map(_cells, found)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _cells(f: Finding) -> tuple[str, ...]:
    shares = (f"{share:.0%}" for share in (f.trials, f.changes))
    broken = (f"{share:.0%}" for share in (f.broken, f.broken_in_rewards))
    return f.rules, *broken, f"{f.deepest:.2f}", f"{f.below:.1%}", *shares, f"{f.regret:.1f}", f"{f.paid:+.0%}"
