"""Budgets: trials are paid out of what the configurations of today would have earned.

`Conservative` follows Wu, Shariff, Lattimore and Szepesvári, "Conservative Bandits" (2016), and Kazerouni, Ghavamzadeh,
Abbasi-Yadkori and Van Roy, "Conservative Contextual Linear Bandits" (2017). With today's configuration b and the arm a
played in its place, a decision adds f(a) − (1 − α)f(b) to the budget, which is αf(b) where today's is played. The
promise is that the sum never falls below zero. There are two budgets: of what is expected of rewards (`Budget`), and,
where a probability is stated, of the rewards themselves (`RewardBudget`).

What was told is part of what a policy believes; what is pending comes with the query, because asking must not change
beliefs.

*Staying.* A budget compares with what was declared, and that keeps it for certain. But a station that has moved on
since, to something that surely earns no less, would lose by going back, and a network whose budget is empty, because
some of it is out of order, would change everywhere at once. So where a budget holds a trial back, a station stays with
what it runs if

    f̂(running) − f̂(declared) − βσ(running − declared) ≥ 0,

and goes back to what was declared elsewhere. In expectation staying then adds no less to the budget than going back. It
scatters more, as rewards of two configurations do not scatter alike; that is counted with all other scatter.

*Replaced.* Where a guard replaced a decision, or a person rejected it, it is counted as what ran, beside b as ever:

- *b itself ran.* It is no trial. Its reward adds α of itself, and while that is awaited it counts nothing, although it
  can only add something.
- *Another configuration a ran.* It is a trial of a. While its reward is awaited it counts with the bound of a trial of
  a, by what is believed when it is said and with the β of the decision, and never with more than nothing; once told,
  as every trial does, against the context of b that was noted when asking.

What becomes of the promise: every trial of the controller's own is still let through only if the budget bears it, and
what others chose is in that budget, rewards as facts and the rest with bounds. But nobody asked the budget whether it
bears what others chose. Where that empties it, the controller plays today's configurations until they have filled it
again; that it was empty is not the controller's doing. Two finer points. Bounds hold for a configuration that was
picked by what the model knows too; whoever picks by what it does not know is not bounded by it. And δ is shared out
over one bound of a decision that awaits its reward: said before the next decision is made, what ran takes the place of
what was decided there; said later, or several times, it takes one bound more each time.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import fsum, log, log1p, sqrt
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from kinband.arrays import FloatArray, IntArray, finite_number
from kinband.errors import BadInputError, CannotCorrectError
from kinband.policies.calibration import Calibration
from kinband.policies.constraints import BUDGET, NOTE, TOGETHER, Bounds, Constraint, Draft, beta_rule, checked_rate
from kinband.policies.exploration import KrauseOng
from kinband.posterior import Column, Posterior, Prediction
from kinband.records import NO_POLICY_STATE, Observation, PolicyState

_ROUNDING = 1e-9  # a budget that misses zero by less has not been overdrawn


@dataclass(frozen=True)
class Conservative:
    """Never earn less in all than 1 − α of what the declared configurations would have earned.

    Attributes:
        alpha: Share of today's reward that trials may cost, from 0 to 1.
        per_station: Whether every station has a budget of its own, or one budget serves the network. A network pays
            for a trial out of what all its stations earn, and so dares the first one much sooner.
        least: What rewards are counted from; no configuration earns less.
        bounds: β of the bounds: None for the policy's own, or a number, a name or a rule as for `beta=`.
        delta: Instead of `bounds`, the probability with which the promise may be broken. Bounds are then those of
            `KrauseOng(delta)`, widened by as much as rewards are seen to need (`calibration`), which miss what was
            predicted of them more often than δ if the model is too sure.
        of: What is promised: the "rewards" that come, scatter and all, or what is "expected" of them. Rewards, and what
            is expected too, where a probability is stated; what is expected where none is.

    Example:
        >>> rule = Conservative(alpha=0.1, delta=0.05)
        >>> rule.delta, rule.of, Conservative(alpha=0.1).of
        (0.05, 'rewards', 'expected')
        >>> Conservative(alpha=5)
        Traceback (most recent call last):
            ...
        kinband.errors.BadInputError: alpha is a share of today's reward, between 0 and 1, got 5
    """

    alpha: float = 0.05
    per_station: bool = field(default=False, kw_only=True)
    least: float = field(default=0.0, kw_only=True)
    bounds: Bounds = field(default=None, kw_only=True)
    delta: float | None = field(default=None, kw_only=True)
    of: Literal["rewards", "expected"] | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        for name in ("alpha", "least"):  # plain floats, which JSON can hold
            object.__setattr__(self, name, finite_number(getattr(self, name), name=name))
        if not 0 <= self.alpha <= 1:
            raise BadInputError(f"alpha is a share of today's reward, between 0 and 1, got {self.alpha:g}")
        if not isinstance(self.per_station, bool | np.bool_):
            raise BadInputError(f"per_station is True or False, got {self.per_station!r:.60}")
        object.__setattr__(self, "per_station", bool(self.per_station))
        object.__setattr__(self, "delta", checked_rate(self.delta, self.bounds))
        bounds = beta_rule(self.bounds) if self.delta is None else KrauseOng(self.delta)
        object.__setattr__(self, "bounds", bounds)
        stated = isinstance(bounds, KrauseOng)
        if self.of is None:
            object.__setattr__(self, "of", "rewards" if stated else "expected")
        elif self.of not in ("rewards", "expected"):
            raise BadInputError(f"a promise is one of 'rewards' or of what is 'expected', got {self.of!r}")
        elif self.of == "rewards" and not stated:
            raise BadInputError("a promise of rewards needs the probability with which it may be broken: give delta=")

    @property
    def probability(self) -> float:
        """The δ with which a promise of rewards may be broken."""
        if not isinstance(self.bounds, KrauseOng):
            raise BadInputError("no probability is stated: give delta=")
        return self.bounds.delta

    def stretch(self, draft: Draft) -> float:
        """By how much the bounds of the model are to be widened, as far as rewards have shown."""
        return 1.0 if self.delta is None else draft.calibrated(BUDGET, Calibration(self.delta, sides=2)).stretch


# --- The budget of what is expected ---------------------------------------------------------------------------------
#
# Every decision counts with a lower bound of what it adds: one that awaits its reward with the bound of the time of
# asking; one whose reward is known with the bound of the time of telling, once that reward had been learned. Decisions
# of one round are judged one after the other, each after all before it have been counted.
#
# Wu et al. (2016) take every bound anew at every decision, and Kazerouni et al. (2017) bound the sum as one; both cost
# more with every decision made. Ours takes two bounds a decision, once and for all, at the price of a wider sum. It
# says nothing of how rewards scatter around f.


class Budget(Constraint):
    """What has been earned beyond the promise, as far as it is sure; beliefs are read only.

    Attributes:
        settled: What decisions whose reward is known add at least, summed by station, (M,).
    """

    def __init__(self, rule: Conservative, beliefs: Posterior, *, tasks: int, noise: float) -> None:
        self.rule, self._beliefs, self._noise = rule, beliefs, noise
        self.settled = np.zeros(tasks)

    def learn(self, observations: Sequence[Observation]) -> None:
        """Count decisions whose reward has just been learned; rows of a log are nobody's decisions."""
        for observation in observations:
            if "lower" in observation.policy_state.get(NOTE, {}):
                self._settle(observation, observation.policy_state[NOTE])

    def _settle(self, o: Observation, note: Mapping[str, Any]) -> None:
        """Count a decision with what is known now."""
        today = np.array(note.get("x", o.x), dtype=np.float64)
        self.settled[o.task] += self.trial_lower(o.task, o.x, today, beta=note["beta"])

    def trial_lower(self, task: int, x: FloatArray, today: FloatArray, *, beta: float) -> float:
        """Return what a trial of context x (d,) in place of today's (d,) adds at least."""
        found = margins(self._beliefs, [task], x[None], against=today[None], beta=np.array([beta]), rule=self.rule)
        return float(found[0])

    def replaced_lower(self, policy_state: PolicyState, *, task: int, x: FloatArray, ran: FloatArray) -> float | None:
        """Return what a decision for context x (d,) counts with until its reward is told, once context `ran` (d,) ran.

        None where its policy_state, as it was when asking, has no bound.
        """
        note = replaced_policy_state(policy_state, x=x, ran=ran, lower=None).get(NOTE, {})
        if "x" not in note:
            return 0.0 if note else None
        today = np.array(note["x"], dtype=np.float64)
        return min(self.trial_lower(task, ran, today, beta=float(note["beta"])), 0.0)

    def correct_reward(self) -> None:
        """Refuse: any bound may rest on the wrong reward."""
        raise CannotCorrectError("a budget rests on every reward told: learn the corrected log again")

    def judge(self, drafts: list[Draft]) -> list[Draft]:
        """Let through what the budget bears; the rest stays with what runs, or goes back to today's configuration."""
        today = [d.fallback(d.deployed.baseline) for d in drafts]
        tasks = np.array([d.query.task for d in drafts])
        kept = np.array([d.query.X[arm] for d, arm in zip(drafts, today, strict=True)])
        beta = np.array([d.beta(self.rule.bounds) * self.rule.stretch(d) for d in drafts])
        drafted = np.array([d.query.X[d.arm] for d in drafts])
        tried, safe = (
            margins(self._beliefs, tasks, X, against=kept, beta=beta, rule=self.rule) for X in (drafted, kept)
        )
        owed, judged = dict(drafts[0].deployed.pending), []
        for i, draft in enumerate(drafts):
            task, trial, lower = draft.query.task, draft.arm != today[i], float(tried[i])
            if trial and self._in_hand(owed, task) + lower < -_ROUNDING:
                trial, arm = may_stay(draft, self._beliefs, today=today[i], beta=float(beta[i]))
                draft = draft.instead(arm, by=BUDGET)
                if trial:
                    lower = self.trial_lower(task, draft.query.X[arm], kept[i], beta=float(beta[i]))
            lower = lower if trial else float(safe[i])
            owed[task] = owed.get(task, 0.0) + lower
            judged.append(draft.noting(lower=lower, beta=float(beta[i]), **({"x": kept[i].tolist()} if trial else {})))
        return judged

    def _in_hand(self, owed: Mapping[int, float], task: int) -> float:
        """Return what is in the budget for sure: of the station, or of the network."""
        if self.rule.per_station:
            return float(self.settled[task]) + owed.get(task, 0.0)
        return fsum(self.settled) + fsum(owed.values())

    def extend_like(self, pattern: "Budget") -> None:
        """Follow stations that have joined: they have earned nothing yet."""
        self.settled = np.append(self.settled, np.zeros(len(pattern.settled) - len(self.settled)))

    def state(self) -> dict[str, Any]:
        """Return what was counted as arrays by name."""
        return {"settled": self.settled.copy()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take up what `state` returned."""
        self.settled = np.array(state["settled"], dtype=np.float64)


def margins(
    posterior: Posterior, tasks: ArrayLike, X: FloatArray, *, against: FloatArray, beta: FloatArray, rule: Conservative
) -> FloatArray:
    """Return lower bounds (m,) of f(x) − (1 − α)f(b), rewards counted from `rule.least`: what trials add to a budget.

    For tasks (m,), contexts tried X (m, d), those of the declared configurations `against` (m, d) and weights of
    standard deviations `beta` (m,). The bound is that of the difference, or that of x earning nothing and b its upper
    bound, whichever is larger.
    """
    index: IntArray = np.asarray(tasks, dtype=np.int64)
    parts = [slice(start, start + TOGETHER) for start in range(0, len(X), TOGETHER)]
    return np.concatenate([_margins(posterior, index[p], X[p], against[p], beta[p], rule) for p in parts])


def _margins(
    posterior: Posterior, tasks: IntArray, X: FloatArray, against: FloatArray, beta: FloatArray, rule: Conservative
) -> FloatArray:
    m, rest = len(X), 1.0 - rule.alpha
    found = posterior.predict(np.concatenate([tasks, tasks]), np.vstack([X, against]))
    mean, C = found.mean - rule.least, found.covariance()
    mine, its = np.arange(m), np.arange(m, 2 * m)
    variance = C[mine, mine] + rest**2 * C[its, its] - 2.0 * rest * C[mine, its]
    joint = mean[:m] - rest * mean[m:] - beta * np.sqrt(np.maximum(variance, 0.0))
    upper = mean[m:] + beta * np.sqrt(np.maximum(C[its, its], 0.0))
    same = np.equal(X, against).all(axis=1)  # what runs today cannot earn less than nothing either
    worst: FloatArray = np.where(same, 0.0, -rest * np.maximum(upper, 0.0))
    return np.maximum(joint, worst)


def may_stay(draft: Draft, beliefs: Posterior, *, today: int, beta: float) -> tuple[bool, int]:
    """Return whether a station runs what surely earns no less than what was declared, and the arm to play then."""
    query, running = draft.query, draft.deployed.running
    if running is None or running == today or not query.allowed[running]:
        return False, today
    arms = [running, today]
    found = draft.believed(arms) or beliefs.predict(query.task, query.X[arms])
    mean, C = found.mean, found.covariance()
    std = sqrt(max(float(C[0, 0] + C[1, 1] - 2.0 * C[0, 1]), 0.0))
    stays = bool(mean[0] - mean[1] - beta * std >= 0.0)
    return stays, running if stays else today


# --- Of what others put in a decision's place, and of what awaits its reward ----------------------------------------


def held_lower(policy_state: PolicyState) -> float | None:
    """Return the lower bound that a decision counts with until its reward is told, if a budget is kept."""
    lower = policy_state.get(NOTE, {}).get("lower")
    return None if lower is None else float(lower)


def replaced_policy_state(
    policy_state: PolicyState, *, x: FloatArray, ran: FloatArray, lower: float | None
) -> PolicyState:
    """Return what a decision's policy_state says once another configuration ran: what a budget needs, and nothing else.

    For context x (d,) of what was decided and `ran` (d,) of what ran. `lower` is what the decision counts with until
    its reward is told; None, where nobody bounded it, stands for the worse of nothing and what was decided.
    """
    note = policy_state.get(NOTE, {})
    if "lower" not in note:
        return NO_POLICY_STATE
    today = note.get("x", x.tolist())  # only trials note what they replace: else that is what was decided
    kept = {"lower": min(note["lower"], 0.0) if lower is None else lower, "beta": note["beta"]}
    return {NOTE: kept if ran.tolist() == today else {**kept, "x": today}}


# --- How far a growing sum may stray, at all times at once ----------------------------------------------------------
#
# Two bounds that a budget of rewards keeps in reserve.
#
# *Scatter.* Rewards scatter independently around what is expected of them, so that a sum with variance v strays by
# about √v, and at all times together by little more. With probability 1 − δ no sum of sub-Gaussian terms is ever above
#
#     √(2(v + ρ) log(√((v + ρ)/ρ)/(2δ) + 1)).
#
# This is Robbins' (1970) boundary, which mixes the supermartingales exp(ls − l²v/2) over l ≥ 0 with a half-normal
# weight of precision ρ, in the closed form of Howard, Ramdas, McAuliffe and Sekhon (2021). With x² = s²/(v + ρ) the
# mixture is 2√(ρ/(v + ρ)) Φ(x) exp(x²/2), which passes 1/δ no later than the form says, as 1 − Φ(x) ≤ exp(−x²/2).
#
# *Doubt.* What is believed wrongly is wrong again and again: errors σᵢzᵢ, each zᵢ standard normal given all that was
# known when σᵢ was, may hang together in any way, and their sum may grow like Q = Σσᵢ. To unite bounds of every term
# over time costs √(4 log n) times each σᵢ. The sum costs less. Take a falling density w on q ≥ 0 and φ(z) = exp(tz).
#
#     E Σ σᵢ w(Qᵢ) φ(zᵢ) = exp(t²/2) E Σ σᵢ w(Qᵢ) ≤ exp(t²/2) ∫ w = exp(t²/2),
#
# so by Markov's inequality the sum stays below exp(t²/2)/δ for good with probability 1 − δ. Then Σ σᵢ φ(zᵢ) ≤
# exp(t²/2)/(δ w(Q)) up to any time, and φ is convex: φ(Σσᵢzᵢ/Q) ≤ Σ σᵢ φ(zᵢ)/Q. Hence at all times
#
#     Σσᵢzᵢ ≤ Q (t/2 + log(1/(δ Q w(Q)))/t).
#
# With w(q) = κ q₀^κ (q + q₀)^(−1−κ) the last logarithm grows like κ log Q: at δ = 0.05 the sum is bounded by 3.2 to 3.5
# times Q, where the union of Krause and Ong (2011) takes 5.9 times every σᵢ after a thousand decisions.

_TAIL = 0.25  # κ: how slowly the density falls


def scatter_allowance(variance: float, *, unit: float, delta: float) -> float:
    """Return what a sum of independent terms, `variance` in all, stays below at all times with probability 1 − δ.

    Args:
        variance: v, of the sum so far.
        unit: ρ, the variance around which the bound is tightest; fixed beforehand.
        delta: δ.
    """
    if variance <= 0.0:
        return 0.0
    ratio = (variance + unit) / unit
    return sqrt(2.0 * (variance + unit) * log1p(sqrt(ratio) / (2.0 * delta)))


def doubt_allowance(std: float, *, unit: float, delta: float) -> float:
    """Return what a sum of errors, whose standard deviations are `std` in all, stays below with probability 1 − δ.

    Args:
        std: Q, the sum of standard deviations so far.
        unit: q₀, the std around which the bound is tightest; fixed beforehand.
        delta: δ.
    """
    if std <= 0.0:
        return 0.0
    known = log(1.0 / (_TAIL * delta))
    t = sqrt(2.0 * (known + 1.0))
    u = std / unit
    return std * (t / 2.0 + (known + log1p(1.0 / u) + _TAIL * log1p(u)) / t)


# --- What decisions of one round add to a budget of rewards, bounded as one sum -------------------------------------
#
# Given all that was told before the round, what its decisions are about to earn, and what today's configurations would
# earn in their place, is jointly normal. So is any sum of it, and one bound serves the sum: β times the root of its
# variance, the scatter of rewards included. The sum of a bound for each decision holds as well, and is larger only
# where little is known; a decision's own bound is what it counts with if it is still pending in later rounds.

DRAFTED, TODAY, RUNNING = range(3)
"""What may be played: what was drafted, what was declared, and what the station runs."""


@dataclass(frozen=True, eq=False)
class Sum:
    """What some decisions of a round add together.

    Attributes:
        weights: Of f at what was drafted and, behind it, at what was declared and at what runs, (2m,) or (3m,).
        scatter: Variance of the rewards' part, in units of one reward's.
        alone: Sum of the decisions' own bounds.
        lower: Bound of the sum, the better of the two.
    """

    weights: FloatArray
    scatter: float = 0.0
    alone: float = 0.0
    lower: float = 0.0


class Round:
    """Beliefs about m decisions of a round, and about today's configurations in their place.

    `found` are the beliefs about what was drafted and, behind it, about what was declared and what runs, (2m,) or
    (3m,); `noise` is the variance of a reward around f.
    """

    def __init__(self, found: Prediction, *, size: int, rule: Conservative, noise: float) -> None:
        self._mean, self._covariance = found.mean - rule.least, found.covariance()
        self._alpha, self._noise, self._size = rule.alpha, noise, size

    @property
    def nothing(self) -> Sum:
        """The sum of no decision."""
        return Sum(np.zeros(len(self._mean)))

    def counted(self, total: Sum, i: int, played: int, *, beta: float) -> tuple[float, Sum]:
        """Return the bound of the i-th decision by itself, whichever of the three is played, and the sum with it."""
        own = self.own(i, played, beta=beta)
        weights, scatter = self._added(total.weights, i, played)
        scatter += total.scatter
        alone = total.alone + own
        return own, Sum(weights, scatter, alone, max(self._bound(weights, scatter, beta), alone))

    def own(self, i: int, played: int, *, beta: float) -> float:
        """Return the bound of a decision by itself; what it plays earns `least` at least."""
        bound = self._bound(*self._added(self.nothing.weights, i, played), beta)
        if played == TODAY:
            return max(bound, 0.0)
        today = self.nothing.weights
        today[self._size + i] = -(1.0 - self._alpha)
        return max(bound, min(self._bound(today, (1.0 - self._alpha) ** 2, beta), 0.0))

    def _added(self, weights: FloatArray, i: int, played: int) -> tuple[FloatArray, float]:
        """Return weights with those of a decision added, and the variance that its rewards bring."""
        weights, rest = weights.copy(), 1.0 - self._alpha
        if played == TODAY:
            weights[self._size + i] += self._alpha
            return weights, self._alpha**2
        weights[[played * self._size + i, self._size + i]] += 1.0, -rest
        return weights, 1.0 + rest**2

    def _bound(self, weights: FloatArray, scatter: float, beta: float) -> float:
        variance = max(float(weights @ self._covariance @ weights), 0.0) + scatter * self._noise
        return float(weights @ self._mean) - beta * sqrt(variance)


# --- The budget of rewards ------------------------------------------------------------------------------------------
#
# What was earned is a fact, and only what today's configuration would have earned is unknown. A decision adds
# r(a) − (1 − α)r(b). Where b itself is played that is αr(b), a fact once the reward is told. Of a trial r(a) is a fact
# too; of r(b), two things are not known: f(b), which is believed within σ(b), and how the reward would have scattered
# around it. Counting rewards where they are known is what Garcelon, Ghavamzadeh, Lazaric and Pirotta (2020) do. Three
# departures keep the price low:
#
# - *As much fact as helps.* Where a and b are uncertain for a common reason, f(a) − f(b) is known better than f(b), and
#   the scatter of r(a) would only blur it. A trial counts with k r(a) + (1 − k)f(a) − (1 − α)f(b), where k from 0 to 1
#   makes that most certain: 1 − k is (1 − α)cov(a, b)/σ(a)².
# - *Trials as one.* Errors at different contexts partly make up for each other. Eight trials at a time are bounded as
#   one sum, with what is known by then, and `doubt_allowance` serves all such blocks. Kazerouni et al. (2017) bound all
#   trials as one, anew at every decision, at a cost that grows. So are decisions of one round (`Round`).
# - *Scatter grows like a root*, since it is independent from trial to trial: `scatter_allowance` serves all trials.
#
# δ is shared out. Half of it goes to bounds of single decisions, united over all: of the round up to this one, of this
# one while its reward is awaited, of what today's could earn at most, of a trial until its block is full, and of what a
# station runs where a trial is held back (*Staying*). A quarter goes to the blocks, a quarter to scatter. Stations with
# budgets of their own divide these two quarters among them.
#
# The same reserve keeps the promise in expectation, each of the two with probability 1 − δ. In rewards a trial scatters
# by (1 − k)ε(a) − (1 − α)ε(b), in expectation by kε(a), and the larger of the two variances is counted.
#
# A trial is looked at three times: when it is judged, when its reward is told, and when its block is full. Each time
# what is believed of what is tried and of what that replaces is needed together, which takes a solved column of both.
# The scores of a decision leave both behind; so they are kept, and only what the factor has grown by since is solved.

# Trials bounded as one sum. On three seeds 4 cost about the same regret; 16 and more cost the synthetic bandit more.
_BLOCK = 8
_STD, _VARIANCE, _TOLD, _COUNT = range(4)  # columns of `doubt`


@dataclass(frozen=True, eq=False)
class Work:
    """Work that would otherwise be repeated when the reward of a trial comes.

    Attributes:
        played: What the policy inside keeps.
        replaced: The column of what the trial replaced.
    """

    played: Any
    replaced: Column | None


@dataclass(frozen=True, eq=False)
class Trial:
    """A trial whose reward is known and whose block is not full yet.

    Attributes:
        task: Whose it is.
        x: Context of what was tried, (d,).
        today: Context of what it replaced, (d,).
        share: k, how much of the reward is taken for a fact.
        reward: What it earned, counted from `least`.
        lower: Bound of what it adds until the block is full.
        columns: Of both contexts, where they are at hand.
    """

    task: int
    x: FloatArray
    today: FloatArray
    share: float
    reward: float
    lower: float
    columns: tuple[Column | None, Column | None] = (None, None)

    def row(self) -> FloatArray:
        """Return the trial as numbers, (4 + 2d,)."""
        return np.concatenate([[self.task, self.share, self.reward, self.lower], self.x, self.today])

    @classmethod
    def of(cls, row: FloatArray) -> "Trial":
        """Return the trial that `row` wrote."""
        x, today = np.split(row[4:], 2)
        share, reward, lower = row[1:4].tolist()
        return cls(int(row[0]), x, today, share, reward, lower)


class RewardBudget(Budget):
    """What has been earned beyond the promise, and what has to be kept in reserve.

    Attributes:
        settled: What decisions have added that are settled for good, by station, (M,).
        doubt: By station, (M, 4): standard deviations of its blocks, variance of its scatter, and of its rewards the
            told variance and the number.
        open: Trials whose block is not full.
    """

    def __init__(self, rule: Conservative, beliefs: Posterior, *, tasks: int, noise: float) -> None:
        super().__init__(rule, beliefs, tasks=tasks, noise=noise)
        self.doubt, self.open = np.zeros((tasks, 4)), list[Trial]()

    def _settle(self, o: Observation, note: Mapping[str, Any]) -> None:
        """Count a decision whose reward has just been learned."""
        told, reward, alpha = o.noise or 0.0, o.reward - self.rule.least, self.rule.alpha
        self.doubt[o.task, [_TOLD, _COUNT]] += told, 1
        if "x" not in note:
            self.settled[o.task] += alpha * reward
            scatter = alpha**2
        else:
            trial = self._trial(o, np.array(note["x"], dtype=np.float64), reward=reward, beta=note["beta"])
            self.open.append(trial)
            self._close(trial.task)
            scatter = max((1.0 - trial.share) ** 2 + (1.0 - alpha) ** 2, trial.share**2)
        self.doubt[o.task, _VARIANCE] += scatter * (self._noise + told)

    def trial_lower(self, task: int, x: FloatArray, today: FloatArray, *, beta: float) -> float:
        """Return what a trial of context x (d,) in place of today's (d,) adds at least."""
        found = self._beliefs.predict([task, task], np.stack([x, today]))
        alone = Round(found, size=1, rule=self.rule, noise=self._scatter())
        return float(alone.own(0, DRAFTED, beta=beta))

    def judge(self, drafts: list[Draft]) -> list[Draft]:
        """Let through what the budget bears; the rest stays with what runs, or goes back to today's configuration."""
        stretch = self.rule.stretch(drafts[0])
        held = {a: self._sure(a, stretch=stretch) for a in {self._account(d.query.task) for d in drafts}}
        for task, lower in drafts[0].deployed.pending.items():
            if self._account(task) in held:
                held[self._account(task)] += lower
        judged: list[Draft] = []
        for start in range(0, len(drafts), TOGETHER):
            judged += self._judge_together(drafts[start : start + TOGETHER], held)
        return judged

    def _judge_together(
        self, drafts: Sequence[Draft], held: dict[int, float], *, running: Sequence[int] = ()
    ) -> list[Draft]:
        """Judge a part of a round, and put what it adds at least into `held`, by account.

        What stations run is looked at only once one of them has to stay with it.
        """
        today = [d.fallback(d.deployed.baseline) for d in drafts]
        parts = [[d.arm for d in drafts], today, *([running] if running else [])]
        X = np.array([[d.query.X[arm] for d, arm in zip(drafts, arms, strict=True)] for arms in parts])
        seen = drafts[0].believed([arm for [arm] in parts]) if len(drafts) == 1 else None
        found = seen or self._beliefs.predict([d.query.task for d in drafts] * len(parts), np.concatenate(X))
        round_ = Round(found, size=len(drafts), rule=self.rule, noise=self._scatter())
        sums, judged = dict.fromkeys(held, round_.nothing), list[Draft]()
        for i, draft in enumerate(drafts):
            account, beta = self._account(draft.query.task), self._beta(draft)
            played = TODAY if draft.arm == today[i] else DRAFTED
            own, total = round_.counted(sums[account], i, played, beta=beta)
            if played == DRAFTED and self.rule.alpha < 1 and held[account] + total.lower < -_ROUNDING:
                stays, arm = may_stay(draft, self._beliefs, today=today[i], beta=beta)
                if stays and not running:
                    return self._judge_together(drafts, held, running=_running(drafts, today))
                draft = draft.instead(arm, by=BUDGET)
                own, total = round_.counted(sums[account], i, RUNNING if stays else TODAY, beta=beta)
            sums[account] = total
            draft = draft.noting(lower=own, beta=beta)
            if draft.arm != today[i]:  # a trial notes what it replaces
                draft = replace(draft.noting(x=X[TODAY, i].tolist()), replaced=draft.column(today[i]))
            judged.append(draft)
        for account, total in sums.items():
            held[account] += total.lower
        return judged

    def extend_like(self, pattern: Budget) -> None:
        """Follow stations that have joined: they have earned nothing yet."""
        super().extend_like(pattern)
        self.doubt = np.vstack([self.doubt, np.zeros((len(self.settled) - len(self.doubt), self.doubt.shape[1]))])

    def state(self) -> dict[str, Any]:
        """Return what was counted as arrays by name."""
        rows = np.array([trial.row() for trial in self.open]) if self.open else np.zeros((0, 0))
        return {**super().state(), "settled_doubt": self.doubt.copy(), "settled_open": rows}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take up what `state` returned."""
        super().restore(state)
        self.doubt = np.array(state["settled_doubt"], dtype=np.float64)
        self.open = [Trial.of(row) for row in np.array(state["settled_open"], dtype=np.float64)]

    def _trial(self, o: Observation, today: FloatArray, *, reward: float, beta: float) -> Trial:
        """Return a trial whose reward has just been learned."""
        columns = (o.cache.played, o.cache.replaced) if isinstance(o.cache, Work) else (None, None)
        bare = Trial(o.task, o.x, today, 1.0, reward, lower=0.0, columns=columns)
        found = _believed([bare], self._beliefs)
        C = found.covariance()
        left = (1.0 - self.rule.alpha) * C[0, 1] / C[0, 0] if C[0, 0] > 0 else 0.0
        trial = replace(bare, share=1.0 - min(max(float(left), 0.0), 1.0))
        added, std = self._added([trial], found)
        return replace(trial, lower=float(added[0]) - beta * std)

    def _added(self, trials: Sequence[Trial], found: Prediction) -> tuple[FloatArray, float]:
        """Return what trials add by what is believed of both contexts (2n,), (n,), and the deviation of their sum."""
        n, rest = len(trials), 1.0 - self.rule.alpha
        mean = found.mean - self.rule.least
        facts, left = np.array([(t.share * t.reward, 1.0 - t.share) for t in trials]).T
        weights = np.concatenate([left, np.full(n, -rest)])
        variance = float(weights @ found.covariance() @ weights)
        return facts + left * mean[:n] - rest * mean[n:], sqrt(max(variance, 0.0))

    def _close(self, task: int) -> None:
        """Settle the trials of a full block for good."""
        account = self._account(task)
        block = [trial for trial in self.open if self._account(trial.task) == account]
        if len(block) < _BLOCK:
            return
        added, std = self._added(block, _believed(block, self._beliefs))
        np.add.at(self.settled, [trial.task for trial in block], added)
        self.doubt[task, _STD] += std
        self.open = [trial for trial in self.open if self._account(trial.task) != account]

    def _account(self, task: int) -> int:
        """Whose budget pays for a station: its own, or the network's."""
        return task if self.rule.per_station else 0

    def _sure(self, account: int, *, stretch: float) -> float:
        """Return what an account holds for sure, a widened reserve put aside."""
        own = slice(account, account + 1) if self.rule.per_station else slice(None)
        delta = self.rule.probability / (4.0 * (len(self.settled) if self.rule.per_station else 1))
        std, variance = self.doubt[own, [_STD, _VARIANCE]].sum(axis=0)
        reserve = scatter_allowance(variance, unit=self._noise, delta=delta)
        reserve += doubt_allowance(std, unit=sqrt(self._noise), delta=delta)
        bounds = (trial.lower for trial in self.open if self._account(trial.task) == account)
        return fsum(self.settled[own]) + fsum(bounds) - stretch * reserve

    def _scatter(self) -> float:
        """Return the variance of a reward that is yet to be told, as far as it was told of others."""
        told, count = self.doubt[:, [_TOLD, _COUNT]].sum(axis=0)
        return self._noise + float(told / count if count else 0.0)

    def _beta(self, draft: Draft) -> float:
        """Return the weight of standard deviations: five bounds of every decision fail with probability δ/2 in all."""
        rule = KrauseOng(self.rule.probability / 5.0)
        beta = rule.beta(known=draft.deployed.decisions + draft.ahead, arms=1, noise=self._noise)
        return beta * self.rule.stretch(draft)


def _believed(trials: Sequence[Trial], beliefs: Posterior) -> Prediction:
    """Return what is believed of what was tried and, behind it, of what it replaced, (2n,)."""
    tasks = [t.task for t in trials] * 2
    X = np.array([t.x for t in trials] + [t.today for t in trials])
    columns = [t.columns[0] for t in trials] + [t.columns[1] for t in trials]
    return beliefs.predict(tasks, X, columns=columns)


def _running(drafts: Sequence[Draft], today: Sequence[int]) -> list[int]:
    """Return what stations run, and where that is not known or not allowed what was declared."""
    runs = [draft.deployed.running for draft in drafts]
    return [b if a is None or not d.query.allowed[a] else a for a, b, d in zip(runs, today, drafts, strict=True)]
