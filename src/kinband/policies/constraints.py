"""What decisions have to keep: one contract for all constraints, and two that look at each decision by itself.

A policy under constraints (`safety.Constrained`) scores every configuration as ever. Then its constraints judge the
draft of a decision one after the other, and each may put another arm in its place and note why. In this order:
`SwitchingCost` is taken off the score of every configuration but the running one; floors of KPIs (`kpi_floors`) say
what may be chosen; `Floor` looks at every trial by itself; the budget (`budget`) has the last word, because its promise
is one over time, which nothing after it may spend. What each promises: docs/learning.md.

`Floor` is the stage-wise demand of Moradipari, Thrampoulidis and Alizadeh, "Stage-wise Conservative Linear Bandits"
(2020), close to SafeOpt (Sui, Gotovos, Burdick and Krause 2015): every trial by itself.

A bound is β times a standard deviation. By default β is the policy's own, which promises nothing in numbers. With
`delta`, it is a quantile that rewards keep at the rate stated (`calibration`), whatever the model. With `bounds`, β is
that of any rule that `beta=` takes; with `KrauseOng(δ)` no trial of a run is below its floor with probability 1 − δ, if
f was drawn from the model. Where f at two configurations is uncertain for a common reason, such as a load seldom
seen, the difference between them is known far better than either, and its standard deviation is

    σ(a − b)² = σ(a)² + σ(b)² − 2 cov(a, b).

Theorem 1 and the Bayesian bounds hold for a difference as they do for a single f(x): both bound a linear function of
f by β times its standard deviation.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from typing import Any, Literal

import numpy as np

from kinband.arrays import BoolArray, FloatArray, IntArray, finite_number
from kinband.errors import BadInputError
from kinband.policies.base import pick_best
from kinband.policies.calibration import Calibration
from kinband.policies.exploration import Exploration, KrauseOng, exploration_from
from kinband.posterior import Column, Prediction
from kinband.records import Choice, Deployed, Observation, Query

NOTE = "safety"
"""Where a decision's policy_state keeps what held it back."""

FLOOR, BUDGET = "floor", "budget"
"""What held a trial back."""

TOGETHER = 32
"""Contexts whose covariance is asked for at once: memory and time stay linear in their number."""

Bounds = float | str | Exploration | None
"""What `beta=` takes, or None for the policy's own β."""


# --- The contract: a draft on its way through the constraints -------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Narrowed(Query):
    """A query whose open arms may be chosen; others that are allowed serve as a way back only.

    Attributes:
        open: Which arms may be chosen, (N,).
        seen: What the constraint that narrowed it wants to see again.
    """

    open: BoolArray = field(default_factory=lambda: np.ones(0, dtype=np.bool_))
    seen: Any = None


@dataclass(frozen=True, eq=False)
class Draft:
    """What would be played.

    Attributes:
        query: What was asked.
        plain: What the policy inside wants.
        score: Its scores (m,), less the cost of switching; zeros where it has none.
        arm: What would be played as things stand.
        policy: What scored it.
        rng: What ties are broken by.
        ahead: How many decisions of the same round come before.
        note: What is to be seen again with the reward: `running`, the arm that the station ran; where a trial was held
            back, `held_back`, what would have been played, and `by`, "floor" or "budget"; where a budget is kept,
            `lower` and `beta`, what the decision counts with until its reward is told and the weight of the bound; and
            for a trial `x`, the context of what it replaced.
        prediction: What the policy's scores were made from, where it shows that.
        replaced: The solved column of what a trial replaces, to be taken up when its reward is told.
    """

    query: Query
    plain: Choice
    score: FloatArray
    arm: int
    policy: Any = None
    rng: Any = None
    ahead: int = 0
    note: Mapping[str, Any] = field(default_factory=dict)
    prediction: Prediction | None = None
    replaced: Column | None = None

    @property
    def deployed(self) -> Deployed:
        """What the station runs, and what was declared for it."""
        if self.query.deployed is None:
            raise BadInputError("safe trials need to know what a station runs: ask through a Controller")
        return self.query.deployed

    @property
    def open(self) -> BoolArray:
        """Which of the scored arms may be chosen, (m,)."""
        arms = self.plain.arms
        return self.query.open[arms] if isinstance(self.query, Narrowed) else np.ones(len(arms), dtype=np.bool_)

    def noting(self, **values: Any) -> "Draft":
        """Return the draft with more in its note."""
        return replace(self, note={"running": self.deployed.running, **self.note, **values})

    def best(self, score: FloatArray) -> "Draft":
        """Return the draft with the best of its open arms by scores (m,)."""
        arms = self.plain.arms[self.open]
        return replace(self, score=score, arm=int(arms[pick_best(score[self.open], self.rng)]))

    def instead(self, arm: int, *, by: str) -> "Draft":
        """Return the draft with another arm, noting what was held back."""
        if arm == self.arm:
            return self
        return replace(self.noting(held_back=self.note.get("held_back", self.arm), by=by), arm=arm)

    def fallback(self, arm: int | None) -> int:
        """Return the arm that can always be played, or say that there is none."""
        if arm is None or not 0 <= arm < len(self.query.X) or not self.query.allowed[arm]:
            raise BadInputError("safe trials fall back to what a station runs, which must be known and allowed")
        return arm

    def beta(self, bounds: Bounds) -> float:
        """Return the weight of a standard deviation: the policy's own, or that of a rule, which counts decisions.

        Decisions of a round are made from the same rewards; a rule that unites over time has to tell them apart.
        """
        rule = beta_rule(bounds)
        if rule is None:
            return own_beta(self.plain)
        return rule.beta(known=self.deployed.decisions + self.ahead, arms=len(self.query.X), noise=self.policy.noise)

    def calibrated(self, rule: str, start: Calibration) -> Calibration:
        """Return how a rule with a rate has fared; `start` where nobody keeps count."""
        found: Calibration = self.deployed.calibrated.get(rule, start)
        return found

    def believed(self, arms: Sequence[int]) -> Prediction | None:
        """Return what the policy's prediction says of some arms, if it shows one."""
        return None if self.prediction is None else self.prediction.at(np.searchsorted(self.plain.arms, arms))

    def column(self, arm: int) -> Column | None:
        """Return the solved column of an arm, if the policy's prediction keeps any."""
        if self.prediction is None:
            return None
        return self.prediction.column(int(np.searchsorted(self.plain.arms, arm)))


class Constraint:
    """What decisions have to keep. By itself it keeps nothing: a constraint overrides what it has a say in."""

    def narrow(self, queries: Sequence[Query]) -> Sequence[Query]:
        """Take arms out of queries before the policy is asked."""
        return queries

    def judge(self, drafts: list[Draft]) -> list[Draft]:
        """Let drafts of one round through, or put other arms in their place."""
        return drafts

    def policy_state(self, draft: Draft) -> Mapping[str, Any]:
        """Return what a decision's policy_state shall hold besides the draft's note."""
        del draft
        return {}

    def learn(self, observations: Sequence[Observation]) -> None:
        """Take in observations that the policy has just learned."""

    def correct_reward(self) -> None:
        """Let a reward be put right in place, or raise `CannotCorrectError`."""

    def correct_kpis(self, index: int, kpis: Mapping[str, tuple[float, float | None]]) -> None:
        """Replace KPIs of the index-th observation learned."""

    def check_like(self, pattern: Any) -> None:
        """Raise `CannotCorrectError` where `extend_like` would."""

    def extend_like(self, pattern: Any) -> None:
        """Take in the tasks that a constraint of the same kind, with nothing learned, was built for."""

    def state(self) -> dict[str, Any]:
        """Return what is kept as arrays by name."""
        return {}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take up what `state` returned."""


def beta_rule(bounds: Bounds) -> Exploration | None:
    """Return the rule that `bounds` stands for, None for the policy's own."""
    return None if bounds is None else exploration_from(bounds)


def checked_rate(delta: float | None, bounds: Bounds) -> float | None:
    """Return the rate of a rule as a plain float, which JSON can hold; it takes no bounds beside it."""
    if delta is None:
        return None
    if bounds is not None and bounds != KrauseOng(delta):
        raise BadInputError("a rule takes bounds= or delta=, not both: bounds with a rate are calibrated")
    return KrauseOng(finite_number(delta, name="delta")).delta


def own_beta(choice: Choice) -> float:
    """Return the β that a UCB policy multiplied its standard deviations by, read off its scores f̂ + βσ."""
    mean, std, score = scores_of(choice)
    widest = int(std.argmax())
    return float((score[widest] - mean[widest]) / std[widest]) if std[widest] > 0 else 0.0


def scores_of(choice: Choice) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return mean, std and score (m,) each of a UCB policy's choice."""
    if choice.mean is None or choice.std is None or choice.score is None:
        raise AssertionError("a UCB policy scores every arm")
    return choice.mean, choice.std, choice.score


# --- Change only for something better -------------------------------------------------------------------------------


@dataclass(frozen=True)
class SwitchingCost(Constraint):
    """Change only for a score that is better by more than `cost`, in units of reward.

    Example:
        >>> SwitchingCost(-0.1)
        Traceback (most recent call last):
            ...
        kinband.errors.BadInputError: the switching cost must not be negative, got -0.1
    """

    cost: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "cost", finite_number(self.cost, name="the switching cost"))
        if self.cost < 0:
            raise BadInputError(f"the switching cost must not be negative, got {self.cost:g}")

    def judge(self, drafts: list[Draft]) -> list[Draft]:
        """Take the cost off every score but that of the running configuration."""
        return [self._charged(draft).noting() for draft in drafts]

    def _charged(self, draft: Draft) -> Draft:
        running = draft.deployed.running
        if self.cost == 0 or running is None:
            return draft
        return draft.best(draft.score - self.cost * (draft.plain.arms != running))


# --- Every trial by itself must be sure to cost little --------------------------------------------------------------


@dataclass(frozen=True)
class Floor(Constraint):
    """Try only what is sure to earn at most `drop` less than what the station runs.

    Against "difference", the lower bound of the difference between the two must be at least −drop: this is what an
    operator asks, and what makes both uncertain alike (a state seldom seen) cancels out. Against "mean", the trial's
    own lower bound is held against the mean of what runs: cheaper with thousands of configurations, but it takes that
    mean for certain, and tries nothing in states seldom seen.

    Attributes:
        drop: How much less a trial may earn at worst, in units of reward; infinite for no floor.
        against: "difference" or "mean".
        bounds: β of the bounds: None for the policy's own, or a number, a name or a rule as for `beta=`.
        delta: Instead of `bounds`, the share of rewards, and of those of trials, that may miss their bound
            (`calibration`). Until 1/δ rewards are known, nothing is tried but what has run at the station before.

    Example:
        >>> Floor(0.02).against, Floor(0.02, delta=0.05).delta
        ('difference', 0.05)
    """

    drop: float
    against: Literal["difference", "mean"] = field(default="difference", kw_only=True)
    bounds: Bounds = field(default=None, kw_only=True)
    delta: float | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        object.__setattr__(self, "drop", inf if self.drop == inf else finite_number(self.drop, name="drop"))
        if self.drop < 0:
            raise BadInputError(f"drop must not be negative, got {self.drop:g}")
        if self.against not in ("difference", "mean"):
            raise BadInputError(f"a floor is held against 'difference' or 'mean', got {self.against!r}")
        object.__setattr__(self, "delta", checked_rate(self.delta, self.bounds))
        object.__setattr__(self, "bounds", beta_rule(self.bounds))

    def judge(self, drafts: list[Draft]) -> list[Draft]:
        """Let the best-scored arm through that passes.

        The running configuration always passes, so nothing that scores below it can win, and arms are looked at from
        the best score down until one passes: with thousands of them, few are.
        """
        return [self._above(draft).noting() for draft in drafts]

    def _above(self, draft: Draft) -> Draft:
        running, (beta, known) = draft.fallback(draft.deployed.running), self._bounds(draft)
        ranked = _ranked(draft, running)
        for start in range(0, len(ranked), TOGETHER - 1):
            some = ranked[start : start + TOGETHER - 1]
            passes = known[some] & (self._lower(draft, some, running, beta) >= -self.drop) | (some == running)
            if passes.any():
                return draft.instead(int(some[passes.argmax()]), by=FLOOR)
        raise AssertionError("the running configuration passes its own floor")

    def _bounds(self, draft: Draft) -> tuple[float, BoolArray]:
        """Return the weight of a standard deviation, and which arms may be tried by now, (N,)."""
        every = np.ones(len(draft.query.X), dtype=np.bool_)
        if self.delta is None:
            return draft.beta(self.bounds), every
        calibration = draft.calibrated(FLOOR, Calibration(self.delta))
        return calibration.quantile, every if calibration.seeded else draft.deployed.tried_among(len(every))

    def _lower(self, draft: Draft, arms: IntArray, running: int, beta: float) -> FloatArray:
        """Return lower bounds of what arms (m,) earn beyond the running one, (m,)."""
        if self.against == "mean":
            mean, std, _ = scores_of(draft.plain)
            at = np.searchsorted(draft.plain.arms, arms)
            return np.asarray(mean[at] - beta * std[at] - mean[draft.plain.arms == running])
        found = draft.policy.posterior.predict(draft.query.task, draft.query.X[[running, *arms]])
        mean, C = found.mean, found.covariance()
        variance = np.diagonal(C)[1:] + C[0, 0] - 2.0 * C[0, 1:]
        return np.asarray(mean[1:] - mean[0] - beta * np.sqrt(np.maximum(variance, 0.0)))


def _ranked(draft: Draft, running: int) -> IntArray:
    """Open arms, best first, down to the running one; among equals what was drawn comes first."""
    arms = draft.plain.arms
    order = np.argsort(-draft.score, kind="stable")
    here = arms == running
    enough = draft.open & ((draft.score >= draft.score[here]) | ~draft.open[here])
    ranked = arms[order[enough[order]]]
    rest = ranked[ranked != draft.arm]
    return np.concatenate([[draft.arm], rest, [] if draft.open[here] else [running]]).astype(np.int64)
