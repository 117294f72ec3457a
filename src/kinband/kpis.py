"""Several KPIs and neighbours: what a station answers for beyond one number of its own.

Three parts, each switched on by one argument of a `Controller`, alone or together. `WeightedReward` makes the reward of
several KPIs (its home is `kinband.trace.rewards`, since logs use it too). `KpiFloor` keeps another KPI above a floor,
or below a ceiling, predicted by a posterior of its own. `NeighbourReward` lets a station earn what its neighbours earn.
How to use them: docs/your-data.md.
"""

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from math import inf
from statistics import NormalDist
from typing import Any

import numpy as np

from kinband.arrays import BoolArray, FloatArray, finite_number, positive_number
from kinband.errors import BadInputError, CannotCorrectError
from kinband.kernels import Kernel, kernel_from_dict
from kinband.model import Search, learn_model
from kinband.policies.base import (
    ChoosesRounds,
    Corrects,
    KeepsState,
    LearnsLogs,
    Policy,
    PolicyFactory,
    Setting,
    pick_best,
)
from kinband.policies.safety import Safety
from kinband.policies.safety.drafts import Draft
from kinband.policies.safety.floor import above_floor
from kinband.policies.safety.margins import scores_of
from kinband.policies.safety.policy import SafePolicy
from kinband.posterior import Posterior, Prediction, make_posterior
from kinband.records import Choice, Observation, Query, Samples
from kinband.similarity import TaskMatrix
from kinband.trace import Trace
from kinband.trace.rewards import Measured, WeightedReward

__all__ = ["Kpi", "KpiFloor", "KpisLike", "Measured", "NeighbourReward", "WeightedReward"]

# --- A floor under a KPI, or a ceiling over it, and how sure it must be kept ----------------------------------------
#
# A configuration keeps a floor if the KPI, as predicted for the state at hand, is above it with a given probability:
# for a posterior with mean m and std s that is m − βs ≥ floor, β being the quantile of the normal distribution. The
# prediction is of the KPI's expected value; single measurements scatter around it by their noise.
#
# The idea of a constraint with a model of its own, beside that of what is maximised, is that of constrained Bayesian
# optimisation (Gelbart, Snoek and Adams 2014) and of SafeOpt with several constraints (Berkenkamp, Krause and Schoellig
# 2021). Like the latter we look at the pessimistic end.


@dataclass(frozen=True, eq=False)
class KpiFloor:
    """What must hold of a KPI, with a stated probability, for a configuration to be chosen.

    Attributes:
        name: The KPI, as it is told and as the log calls it.
        at_least: The floor, if there is one.
        at_most: The ceiling, if there is one.
        confidence: Probability with which the expected KPI must keep them under the model, at least one half.
        mean: What the KPI is before anything is known; from a log, fitted where it is not given.
        deviation: By how much configurations and states move it, one standard deviation; likewise.
        noise: Variance of a measurement around what is expected; likewise.

    Example:
        >>> KpiFloor("drop_free_share", at_least=0.97).confidence
        0.95
        >>> KpiFloor("drop_free_share")
        Traceback (most recent call last):
            ...
        kinband.errors.BadInputError: KPI 'drop_free_share' has no floor: give at_least= or at_most=
    """

    name: str
    at_least: float | None = field(default=None, kw_only=True)
    at_most: float | None = field(default=None, kw_only=True)
    confidence: float = field(default=0.95, kw_only=True)
    mean: float | None = field(default=None, kw_only=True)
    deviation: float | None = field(default=None, kw_only=True)
    noise: float | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise BadInputError(f"a KPI needs a name, got {self.name!r}")
        if self.at_least is None and self.at_most is None:
            raise BadInputError(f"KPI {self.name!r} has no floor: give at_least= or at_most=")
        limits = {"at_least": finite_number, "at_most": finite_number, "mean": finite_number}
        checks = {**limits, "deviation": positive_number, "noise": positive_number}
        for what, check in checks.items():
            if getattr(self, what) is not None:
                object.__setattr__(self, what, check(getattr(self, what), name=f"{what} of KPI {self.name!r}"))
        object.__setattr__(self, "confidence", finite_number(self.confidence, name="confidence"))
        if not 0.5 <= self.confidence < 1:
            raise BadInputError(f"confidence is a probability from 0.5 to below 1, got {self.confidence:g}")
        if (low := self.at_least) is not None and (high := self.at_most) is not None and low >= high:
            raise BadInputError(f"KPI {self.name!r} cannot be at least {low:g} and at most {high:g}")

    @property
    def beta(self) -> float:
        """The weight of a standard deviation: the normal quantile that belongs to the confidence."""
        return NormalDist().inv_cdf(self.confidence)

    def margin(self, mean: FloatArray, std: FloatArray) -> FloatArray:
        """Return by how much the pessimistic bounds of m predictions keep the floor, (m,); below zero they break it.

        Example:
            >>> KpiFloor("load", at_most=0.9, confidence=0.5).margin(np.array([0.7, 0.95]), np.ones(2)).round(2)
            array([ 0.2 , -0.05])
        """
        above = inf if self.at_least is None else mean - self.beta * std - self.at_least
        below = inf if self.at_most is None else self.at_most - mean - self.beta * std
        least: FloatArray = np.minimum(above, below)
        return least

    def text(self) -> str:
        """Return the demand in words.

        Example:
            >>> KpiFloor("load", at_least=0.1, at_most=0.9).text()
            'at least 0.1 and at most 0.9'
        """
        parts = {"at least": self.at_least, "at most": self.at_most}
        return " and ".join(f"{words} {limit:g}" for words, limit in parts.items() if limit is not None)


@dataclass(frozen=True, eq=False)
class Kpi:
    """A floor and the model of its KPI: mean + scale · g, where g has a kernel and the stations' task matrix.

    Attributes:
        floor: What must hold, with mean, deviation and noise filled in.
        kernel: Context kernel of g.
        scale: From g to units of the KPI.

    Example:
        >>> from kinband.kernels import RBF
        >>> floor = KpiFloor("load", at_most=0.9, mean=0.5, deviation=0.2, noise=0.01)
        >>> kpi = Kpi(floor, RBF(0.5), scale=0.2)
        >>> kpi.name, round(kpi.noise, 9), kpi_from_dict(kpi_to_dict(kpi)).floor.at_most
        ('load', 0.25, 0.9)
    """

    floor: KpiFloor
    kernel: Kernel
    scale: float

    @property
    def name(self) -> str:
        """The KPI."""
        return self.floor.name

    @property
    def noise(self) -> float:
        """Variance of a measurement, in units of g."""
        return float(self.floor.noise or 0.0) / self.scale**2

    @property
    def mean(self) -> float:
        """What the KPI is before anything is known."""
        return float(self.floor.mean or 0.0)


KpisLike = KpiFloor | Sequence[KpiFloor] | None


def floors_from(given: KpisLike) -> tuple[KpiFloor, ...]:
    """Return the floors that one, several or none stand for.

    Example:
        >>> [floor.name for floor in floors_from(KpiFloor("load", at_most=0.9))], floors_from(None)
        (['load'], ())
    """
    listed: list[Any] = [] if given is None else list(given) if isinstance(given, list | tuple) else [given]
    names: set[str] = set()
    for floor in listed:
        if not isinstance(floor, KpiFloor):
            raise BadInputError(f"kpis takes KpiFloor(...) or a list of them, got {floor!r:.60}")
        if floor.name in names:
            raise BadInputError(f"kpis names {floor.name!r} twice: a floor may have at_least= and at_most= together")
        names.add(floor.name)
    return tuple(listed)


def kpi_to_dict(kpi: Kpi) -> dict[str, Any]:
    """Return a KPI as JSON-able values."""
    return {"floor": dict(vars(kpi.floor)), "kernel": kpi.kernel.to_dict(), "scale": kpi.scale}


def kpi_from_dict(values: Mapping[str, Any]) -> Kpi:
    """Return the KPI that `kpi_to_dict` wrote."""
    return Kpi(KpiFloor(**values["floor"]), kernel_from_dict(values["kernel"]), values["scale"])


def filled(floor: KpiFloor, **model: float) -> KpiFloor:
    """Return a floor whose model is filled in where it was not given.

    Example:
        >>> filled(KpiFloor("load", at_most=0.9, mean=0.5), mean=0.4, noise=0.01).mean
        0.5
    """
    missing: dict[str, Any] = {name: value for name, value in model.items() if getattr(floor, name) is None}
    return replace(floor, **missing)


# --- Where the model of a KPI comes from: declared, or fitted to a log ----------------------------------------------
#
# Stations that are alike in what they earn are taken to be alike in their KPIs, so every KPI shares the task matrix of
# the reward. Declared, a KPI also shares the reward's kernel, in its own units: what makes two situations alike for
# one makes them alike for the other, until data say otherwise. From a log, kernel, noise and mean are fitted by
# `kinband.model`, the search beginning at the reward's kernel: that a share of dropped calls moves with the load twice
# as fast as the reward does is there to be seen, and a std that is too narrow would let floors be broken.

_FEWEST = 3  # rows that a model is fitted to at least


def declared_kpis(floors: Sequence[KpiFloor], kernel: Kernel, K_Z: FloatArray, *, width: int) -> tuple[Kpi, ...]:
    """Return KPIs whose model is declared, with the reward's kernel over contexts of `width` features.

    Example:
        >>> from kinband.kernels import RBF
        >>> floor = KpiFloor("load", at_most=0.9, mean=0.5, deviation=0.1, noise=0.01)
        >>> round(declared_kpis([floor], RBF(0.5, variance=0.25), np.eye(2), width=3)[0].scale, 9)
        0.2
    """
    return tuple(_declared(floor, kernel, K_Z, width=width) for floor in floors)


def fitted_kpis(
    floors: Sequence[KpiFloor], samples: Samples, *, kernel: Kernel, similarity: TaskMatrix, rng: np.random.Generator
) -> tuple[Kpi, ...]:
    """Return KPIs whose model is fitted to the log where it has them, else as declared.

    Args:
        floors: What must hold.
        samples: The log, with KPIs as columns.
        kernel: The reward's kernel, where the search begins.
        similarity: How alike the stations are.
        rng: Draws rows.
    """
    return tuple(_fitted(floor, samples, kernel=kernel, similarity=similarity, rng=rng) for floor in floors)


def _declared(floor: KpiFloor, kernel: Kernel, K_Z: FloatArray, *, width: int) -> Kpi:
    missing = [name for name in ("mean", "deviation", "noise") if getattr(floor, name) is None]
    if missing or floor.deviation is None:
        raise BadInputError(
            f"KPI {floor.name!r} has no log to be learned from: declare {', '.join(f'{name}=' for name in missing)} in "
            "its KpiFloor, or start from a trace that has it among its kpis"
        )
    # One standard deviation from the middle of all states: for most kernels as good a place as any.
    variance = float(kernel.diag(np.ones((1, width)))[0] * np.mean(np.diagonal(K_Z)))
    return Kpi(floor, kernel, floor.deviation / variance**0.5)


def _fitted(
    floor: KpiFloor, samples: Samples, *, kernel: Kernel, similarity: TaskMatrix, rng: np.random.Generator
) -> Kpi:
    values = samples.kpis.get(floor.name)
    known = np.zeros(len(samples), dtype=np.bool_) if values is None else np.isfinite(values)
    declared = floor.mean is not None and floor.deviation is not None and floor.noise is not None
    if values is None or declared or np.count_nonzero(known) < _FEWEST:
        return _declared(floor, kernel, similarity.matrix, width=samples.X.shape[1])
    rows = replace(samples.take(known), noise=None)
    y = values[known]
    centre, spread = float(y.mean()), float(y.std()) or 1.0
    unit = float(np.sqrt(kernel.diag(rows.X).mean() * np.mean(np.diagonal(similarity.matrix))))
    scale = spread / unit  # in units of g the search begins where the reward's ended
    model = learn_model(
        replace(rows, y=(y - centre) / scale), similarity, rng=rng, kernel=kernel,
        noise=None if floor.noise is None else floor.noise / scale**2,
        mean=None if floor.mean is None else (floor.mean - centre) / scale,
        search=Search(kernel=True, noise=floor.noise is None, mean=floor.mean is None, starts=1),
    )  # fmt: skip
    moved = float(np.sqrt(model.kernel.diag(rows.X).mean() * np.mean(np.diagonal(similarity.matrix))))
    stretch = 1.0 if floor.deviation is None else floor.deviation / (moved * scale)
    found = filled(floor, mean=centre + scale * model.mean, noise=model.noise * scale**2, deviation=moved * scale)
    return Kpi(found, model.kernel, scale * stretch)


# --- What is believed about KPIs: one posterior each, beside that of the reward -------------------------------------
#
# A KPI is learned where it was told and left alone where it was not, so its rows are fewer than the rewards'; which
# reward each of them came with is kept, so that it can be put right. Beliefs follow from the order of tells alone: the
# posteriors solve their rows when they are told, and asking leaves nothing behind.

_TOGETHER = 2**24  # numbers of solved columns that are held at once (128 MB)


class KpiBelief:
    """What is believed about one KPI.

    Args:
        kpi: Its model.
        setting: Task matrix, engine and configurations, as the reward's.

    Attributes:
        posterior: Over g, the KPI less its mean in units of its scale.
        rows: For each row of the posterior the number of the reward that it came with, ascending.

    Example:
        >>> from kinband.kernels import RBF
        >>> from kinband.kpis import KpiFloor
        >>> floor = KpiFloor("load", at_most=0.9, mean=0.5, deviation=0.2, noise=0.01)
        >>> belief = KpiBelief(Kpi(floor, RBF(0.5), 0.2), Setting(RBF(0.5), np.eye(1), noise=0.1, arms=2))
        >>> belief.learn([(0, Observation(0, np.array([0.0]), 0, 0.9, kpis={"load": (0.75, None)}))])
        >>> found = belief.predict([Query(0, np.array([[0.0], [9.0]]), np.ones(2, dtype=bool))])[0]
        >>> found.mean.round(3), found.std.round(3)
        (array([0.7, 0.5]), array([0.089, 0.2  ]))
    """

    def __init__(self, kpi: Kpi, setting: Setting) -> None:
        self.kpi = kpi
        self.posterior: Posterior = make_posterior(
            kpi.kernel, setting.K_Z, noise=kpi.noise, engine=setting.engine, inducing_points=setting.inducing_points,
            configurations=setting.configurations,
        )  # fmt: skip
        self.rows: list[int] = []

    def learn(self, numbered: Sequence[tuple[int, Observation]]) -> None:
        """Take in the KPI of observations that have it, each with the number of its reward."""
        known = [(number, o, o.kpis[self.kpi.name]) for number, o in numbered if self.kpi.name in o.kpis]
        if not known:
            return
        values, noise = zip(*(self._scaled(measured) for _, _, measured in known), strict=True)
        tasks = np.array([o.task for _, o, _ in known], dtype=np.int64)
        self.posterior.update(tasks, np.array([o.x for _, o, _ in known]), values, noise=noise)
        self.rows += [number for number, _, _ in known]

    def correct(self, number: int, measured: Measured) -> None:
        """Replace the KPI that came with a reward; where it had not come, everything is learned anew."""
        row = bisect_left(self.rows, number)
        if row == len(self.rows) or self.rows[row] != number:
            raise CannotCorrectError(f"{self.kpi.name!r} was not told with that reward: learn the corrected log anew")
        self.posterior.correct(row, self._scaled(measured)[0])

    def predict(self, queries: Sequence[Query]) -> list[Prediction]:
        """Return mean and std of the KPI at the allowed arms of each query."""
        found: list[Prediction] = []
        for part in _parts(queries, most=max(1, _TOGETHER // max(1, len(self.posterior)))):
            found += self._predict([queries[i] for i in part])
        mean, scale = self.kpi.mean, self.kpi.scale
        return [Prediction(mean + scale * one.mean, scale * one.std) for one in found]

    def _predict(self, queries: Sequence[Query]) -> list[Prediction]:
        sizes = [len(q.arms) for q in queries]
        tasks = np.repeat([q.task for q in queries], sizes)
        return [*self.posterior.predict(tasks, np.concatenate([q.X[q.arms] for q in queries])).split(sizes)]

    def _scaled(self, measured: Measured) -> tuple[float, float]:
        """A measurement in units of g, with its whole variance."""
        value, noise = measured
        return (value - self.kpi.mean) / self.kpi.scale, self.kpi.noise + (noise or 0.0) / self.kpi.scale**2

    def state(self) -> dict[str, Any]:
        """Return the beliefs as arrays by name."""
        return {**self.posterior.state(), "rewards": np.array(self.rows, dtype=np.int64)}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take up what `state` returned."""
        self.posterior.restore(state)
        self.rows = [int(number) for number in state["rewards"]]


class KpiBeliefs:
    """What is believed about all KPIs with a floor.

    Args:
        kpis: Their models.
        setting: Task matrix, engine and configurations, as the reward's.
    """

    def __init__(self, kpis: Sequence[Kpi], setting: Setting) -> None:
        self.each = [KpiBelief(kpi, setting) for kpi in kpis]
        self.told = 0

    def learn(self, observations: Sequence[Observation]) -> None:
        """Take in the KPIs of observations, in order; all that come together are one block."""
        numbered = list(enumerate(observations, start=self.told))
        for belief in self.each:
            belief.learn(numbered)
        self.told += len(numbered)

    def correct(self, number: int, kpis: Mapping[str, Measured]) -> None:
        """Replace KPIs that came with a reward."""
        for belief in self.each:
            if belief.kpi.name in kpis:
                belief.correct(number, kpis[belief.kpi.name])

    def predict(self, queries: Sequence[Query]) -> list[dict[str, Prediction]]:
        """Return for each query the mean and std of every KPI at its allowed arms."""
        by_kpi = {belief.kpi.name: belief.predict(queries) for belief in self.each}
        return [{name: found[i] for name, found in by_kpi.items()} for i in range(len(queries))]

    def margins(self, predictions: Mapping[str, Prediction]) -> FloatArray:
        """Return by how much each of m arms keeps the floors, (k, m), in standard deviations of each KPI.

        Divided so, that of several KPIs may be compared: which arm comes closest where none keeps them all.
        """
        rows = [
            b.kpi.floor.margin(predictions[b.kpi.name].mean, predictions[b.kpi.name].std) / _deviation(b.kpi)
            for b in self.each
        ]
        return np.array(rows)

    def state(self) -> dict[str, Any]:
        """Return the beliefs as arrays by name."""
        kept = {f"kpi{i}_{name}": array for i, one in enumerate(self.each) for name, array in one.state().items()}
        return {**kept, "kpi_told": np.array([self.told], dtype=np.int64)}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take up what `state` returned."""
        for i, belief in enumerate(self.each):
            start = f"kpi{i}_"
            belief.restore({name.removeprefix(start): state[name] for name in state if name.startswith(start)})
        self.told = int(state["kpi_told"][0])


def _deviation(kpi: Kpi) -> float:
    return float(kpi.floor.deviation or kpi.scale)


def _parts(queries: Sequence[Query], *, most: int) -> list[list[int]]:
    """Cut queries into runs of at most so many arms, or of one query."""
    parts: list[list[int]] = []
    held = 0
    for i, query in enumerate(queries):
        if not parts or held + len(query.arms) > most:
            parts.append([])
            held = 0
        parts[-1].append(i)
        held += len(query.arms)
    return parts


# --- Rules of safety inside floors of KPIs: what may be chosen is less than what may be played ----------------------
#
# A floor under the reward falls back to what runs, a budget to what was declared. Either may break the floor of a KPI,
# and then is not to be chosen, yet must stay a way back. So a query here has two masks: `allowed`, what may be played,
# and `wanted`, what may be chosen. The policy inside scores both; the choice is made among what is wanted.


@dataclass(frozen=True, eq=False)
class Within(Query):
    """A query whose wanted arms may be chosen, and whose other allowed arms only serve as a way back.

    Example:
        >>> from kinband.records import Standing
        >>> query = Query(0, np.zeros((4, 1)), np.array([True, True, True, False]), Standing(running=2, baseline=0))
        >>> Within.of(query, np.array([False, True, False, False])).arms.tolist()
        [0, 1, 2]
    """

    wanted: BoolArray = field(default_factory=lambda: np.ones(0, dtype=np.bool_))

    @classmethod
    def of(cls, query: Query, wanted: BoolArray) -> "Within":
        """Return the query with what is wanted, and with what runs and what was declared as far as it was allowed."""
        back = np.zeros(len(query.X), dtype=np.bool_)
        standing = query.standing
        for arm in () if standing is None else (standing.running, standing.baseline):
            if arm is not None and arm < len(back):
                back[arm] = query.allowed[arm]
        values = {item.name: getattr(query, item.name) for item in fields(Query)}
        return cls(**{**values, "allowed": wanted | back}, wanted=wanted)


class SafeWithin(SafePolicy):
    """The rules of safety over what floors of KPIs have left.

    Example:
        >>> from kinband.kernels import RBF
        >>> from kinband.policies import UCB
        >>> from kinband.policies.base import Setting
        >>> from kinband.policies.safety import Floor, Safety
        >>> from kinband.records import Observation, Standing
        >>> inner = UCB.build(Setting(RBF(0.5), np.eye(1), noise=0.1, arms=2))
        >>> policy = SafeWithin(inner, Safety(floor=Floor(5.0)), tasks=1)
        >>> policy.learn(Observation(task=0, x=np.array([0.0]), arm=0, reward=2.0))
        >>> query = Query(0, np.array([[0.0], [3.0]]), np.array([True, True]), Standing(running=0))
        >>> policy.choose(Within.of(query, np.array([False, True])), np.random.default_rng(0)).arm
        1
    """

    def _draft(self, query: Query, plain: Choice, rng: np.random.Generator, *, ahead: int) -> Draft:
        """Return the best score after the switching cost among what is wanted and the floor lets through."""
        wanted = query.wanted[plain.arms] if isinstance(query, Within) else np.ones(len(plain.arms), dtype=np.bool_)
        if wanted.all():
            return super()._draft(query, plain, rng, ahead=ahead)
        whole = Draft(query, plain, scores_of(plain)[2], plain.arm, ahead)
        running, cost, floor = whole.standing.running, self.safety.cost, self.safety.floor
        score = whole.score
        if cost is not None and running is not None:
            score = score - cost.cost * (plain.arms != running)
        arms = plain.arms[wanted]
        best = plain.arm if plain.arm in arms and cost is None else int(arms[pick_best(score[wanted], rng)])
        draft = replace(whole, score=score, arm=best)
        if floor is None:
            return draft
        beta = draft.beta(floor.bounds, noise=self.inner.noise)
        passed = above_floor(_wanted_first(draft, wanted), floor, beliefs=self._beliefs, beta=beta)
        return replace(draft, arm=passed.arm, note=passed.note)


def _wanted_first(draft: Draft, wanted: BoolArray) -> Draft:
    """The draft over wanted arms and, behind them all unless it is wanted itself, what runs."""
    plain, running = draft.plain, draft.standing.running
    kept = wanted | (plain.arms == running)
    mean, std, own = (values[kept] for values in scores_of(plain))
    last = np.where(wanted[kept], draft.score[kept], draft.score[kept].min() - 1.0)
    few = replace(plain, arms=plain.arms[kept], mean=mean, std=std, score=own)
    return replace(draft, plain=few, score=last)


# --- A policy that chooses among what keeps the floors of other KPIs ------------------------------------------------
#
# Before the policy inside is asked, every allowed configuration is held against the floors: its KPIs' pessimistic
# bounds must keep them all. What does not is not to be chosen as long as something does. Where nothing does, the
# configuration whose worst bound comes closest is played, the running one if it is as close as any; the decision's
# memo says so. Before anything is known all are as close as each other, and the station stays where it is; once what
# runs is known to keep a KPI high, it is the closest. Staying with what runs whatever is known of it was tried: a
# station that had wandered to where the floor is broken then stayed there for good.
#
# The order, where trials also have to be safe (docs/learning.md): first the floors of KPIs say what may be chosen;
# then the policy scores and chooses among it, a switching cost is taken off and a floor under the reward looks at the
# trial; the budget has the last word. A rule of safety that steps in plays what runs, or what was declared, even where
# that breaks a KPI's floor: it undoes a choice rather than making one, and its promise is one over time, which nothing
# after it may spend. `within` is how the rules learn which configurations serve as that way back only.
#
# The policy inside may be any: it is asked with fewer configurations and learns what it always did.

_TIE = 1e-9  # in standard deviations of a KPI: bounds that differ by less are as close

NOTE = "kpis"
"""Where a decision's memo keeps what was predicted of KPIs."""

CONSIDERED = 32
"""Of how many of the best-scored configurations a memo keeps the KPIs, as many as a decision keeps scores of."""


@dataclass(frozen=True, eq=False)
class Judged:
    """A query after it was held against the floors.

    Attributes:
        query: What was asked.
        open: Which arms may be chosen, (N,).
        keeps: Which arms keep all floors, (N,).
        predictions: Of every KPI, at the arms that were allowed.
        fallback: "running" or "closest" where no arm keeps the floors, else empty.
    """

    query: Query
    open: BoolArray
    keeps: BoolArray
    predictions: Mapping[str, Prediction]
    fallback: str


class KpiPolicy:
    """Chooses among what keeps the floors.

    Args:
        inner: The policy that chooses.
        beliefs: What is believed about KPIs.

    Example:
        >>> from kinband.kernels import RBF
        >>> from kinband.kpis import KpiFloor
        >>> from kinband.policies import UCB
        >>> setting = Setting(RBF(0.5), np.eye(1), noise=0.1, arms=2)
        >>> floor = KpiFloor("load", at_most=0.9, mean=0.5, deviation=0.1, noise=0.001)
        >>> policy = kpi_factory(UCB.build, [Kpi(floor, RBF(0.5), 0.1)])(setting)
        >>> policy.learn(Observation(0, np.array([0.0]), 0, reward=9.0, kpis={"load": (1.1, None)}))
        >>> query = Query(0, np.array([[0.0], [3.0]]), np.array([True, True]))
        >>> choice = policy.choose(query, np.random.default_rng(0))
        >>> choice.arm, choice.memo["kpis"]["open"], choice.memo["kpis"]["kept"]
        (1, 1, True)
    """

    def __init__(self, inner: Policy, beliefs: KpiBeliefs) -> None:
        self.inner, self.beliefs = inner, beliefs

    def choose(self, query: Query, rng: np.random.Generator) -> Choice:
        """Return what the policy inside chooses among what keeps the floors."""
        judged = self._judge([query])[0]
        return self._noted(self.inner.choose(self._narrowed(judged), rng), judged)

    def choose_round(self, queries: Sequence[Query], rngs: Sequence[np.random.Generator]) -> list[Choice]:
        """Decide many stations from the same beliefs."""
        judged = self._judge(queries)
        narrowed = [self._narrowed(one) for one in judged]
        if isinstance(self.inner, ChoosesRounds):
            choices = self.inner.choose_round(narrowed, rngs)
        else:
            choices = [self.inner.choose(query, rng) for query, rng in zip(narrowed, rngs, strict=True)]
        return [self._noted(choice, one) for choice, one in zip(choices, judged, strict=True)]

    def learn(self, observation: Observation) -> None:
        """Learn one reward and the KPIs that came with it."""
        self.inner.learn(observation)
        self.beliefs.learn([observation])

    def learn_log(self, observations: Sequence[Observation]) -> None:
        """Learn many rewards and their KPIs."""
        if isinstance(self.inner, LearnsLogs):
            self.inner.learn_log(observations)
        else:
            for observation in observations:
                self.inner.learn(observation)
        self.beliefs.learn(observations)

    def correct(self, index: int, reward: float) -> None:
        """Replace the reward of the index-th observation learned."""
        if not isinstance(self.inner, Corrects):
            raise CannotCorrectError("the policy inside cannot correct a reward in place: learn the log anew")
        self.inner.correct(index, reward)

    def correct_kpis(self, index: int, kpis: Mapping[str, Measured]) -> None:
        """Replace KPIs of the index-th observation learned."""
        self.beliefs.correct(index, kpis)

    def _judge(self, queries: Sequence[Query]) -> list[Judged]:
        predictions = self.beliefs.predict(queries)
        return [_judged(q, found, self.beliefs.margins(found)) for q, found in zip(queries, predictions, strict=True)]

    def _narrowed(self, judged: Judged) -> Query:
        """The query with what may be chosen; rules of safety also see what they may fall back to."""
        if isinstance(self.inner, SafeWithin):
            return Within.of(judged.query, judged.open)
        return replace(judged.query, allowed=judged.open)

    def _noted(self, choice: Choice, judged: Judged) -> Choice:
        """The choice with a memo of the KPIs of the best-scored arms.

        It holds `open`, how many arms could be chosen, `kept`, whether what is played keeps the floors; where nothing
        does, `fallback`; and for each KPI under `means` and `widths` what was predicted for `arms`.
        """
        allowed = judged.query.arms
        order = np.arange(len(choice.arms)) if choice.score is None else np.argsort(-choice.score, kind="stable")
        shown = [choice.arm, *(int(arm) for arm in choice.arms[order] if arm != choice.arm)][:CONSIDERED]
        at = np.searchsorted(allowed, shown)
        note: dict[str, Any] = {"open": int(judged.open.sum()), "kept": bool(judged.keeps[choice.arm])}
        note |= {"fallback": judged.fallback} if judged.fallback else {}
        note |= {
            "arms": shown,
            "means": {name: found.mean[at].tolist() for name, found in judged.predictions.items()},
            "widths": {name: found.std[at].tolist() for name, found in judged.predictions.items()},
        }
        return replace(choice, memo={**choice.memo, NOTE: note})


class StoredKpiPolicy(KpiPolicy):
    """The same around a policy whose beliefs can be stored."""

    def state(self) -> dict[str, Any]:
        """Return the beliefs as arrays by name."""
        inner: Any = self.inner
        return {**inner.state(), **self.beliefs.state()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take up what `state` returned."""
        inner: Any = self.inner
        inner.restore({name: array for name, array in state.items() if not name.startswith("kpi")})
        self.beliefs.restore(state)


def kpi_factory(factory: PolicyFactory, kpis: Sequence[Kpi], *, safety: Safety | None = None) -> PolicyFactory:
    """Return a factory of the same policy under floors of KPIs and, between the two, under rules of safety."""

    def build(setting: Setting) -> Policy:
        inner: Any = factory(setting)
        if safety is not None:
            inner = SafeWithin(inner, safety, tasks=len(setting.K_Z))
        kind = StoredKpiPolicy if isinstance(inner, KeepsState) else KpiPolicy
        return kind(inner, KpiBeliefs(kpis, setting))

    return build


def _judged(query: Query, predictions: Mapping[str, Prediction], margins: FloatArray) -> Judged:
    worst = margins.min(axis=0)  # of all KPIs, by allowed arm
    keeps = np.zeros(len(query.X), dtype=np.bool_)
    keeps[query.arms[worst >= 0]] = True
    if keeps.any():
        return Judged(query, keeps, keeps, predictions, "")
    running = None if query.standing is None else query.standing.running
    closest = query.arms[worst >= worst.max() - _TIE]
    stays = running is not None and running in closest
    only = running if stays else int(closest[0])
    return Judged(query, np.arange(len(query.X)) == only, keeps, predictions, "running" if stays else "closest")


# --- What a station's neighbours earn, as part of its own reward ----------------------------------------------------
#
# A station can look good at its neighbours' expense: it sends its weak users over to them, its own share of satisfied
# users rises, theirs falls, and the network is worse off. A learner that is paid for its own count alone learns just
# that. Here a station earns (1 − w) of its own reward and w of the mean of its neighbours' in the same slot, so that
# what it does to them comes back to it. With k neighbours that matter alike, w = k/(k + 1) pays it the mean of the
# whole neighbourhood: then whatever raises what it earns raises the sum, as far as its neighbours are all whom it
# touches.
#
# Rewards that align the members of a collective with the whole are those of Wolpert and Tumer (2001). The price is
# noise: neighbours earn more or less for reasons of their own, which the station's context does not hold. More weight
# aligns better and learns more slowly; docs/your-data.md says what was measured.

Neighbours = Mapping[str, Sequence[str] | Mapping[str, float]]
"""For each station its neighbours: names, or names with how much each counts beside the others."""


@dataclass(frozen=True, eq=False)
class NeighbourReward:
    """A reward of which a part is what the neighbours earn.

    Attributes:
        neighbours: For each station its neighbours by name, all alike, or with how much each counts beside the others.
            A station that is not listed has none. Being a neighbour need not be mutual.
        weight: Share of the reward that is the neighbours', from 0 to 1: one number, or by station.
        others: Names that may be given here although the controller does not decide for them: stations yet to join, and
            cells of another layer or vendor, whose rewards are told beside (`tell_all(..., others=)`).

    Example:
        >>> rule = NeighbourReward({"a": ["b", "c"], "b": {"a": 3.0, "c": 1.0}}, weight=0.5)
        >>> rule.mixed("a", (0.8, 0.04), {"b": (0.4, None), "c": (0.6, 0.16)})
        (0.65, 0.02)
        >>> rule.mixed("b", (0.8, None), {"c": (0.6, None)})  # what did not come does not count
        (0.7, None)
    """

    neighbours: Neighbours
    weight: float | Mapping[str, float] = 0.5
    others: Sequence[str] = field(default=(), kw_only=True)

    def __post_init__(self) -> None:
        if not isinstance(self.neighbours, Mapping) or not self.neighbours:
            raise BadInputError(f"neighbours must map stations to their neighbours, got {self.neighbours!r:.60}")
        counted = {station: _counted(station, given) for station, given in self.neighbours.items()}
        object.__setattr__(self, "neighbours", counted)
        if isinstance(self.weight, Mapping):
            shares: Any = {station: _share(value) for station, value in self.weight.items()}
            if unknown := [station for station in shares if station not in counted]:
                raise BadInputError(f"weight names {unknown[0]!r}, for which no neighbours are given")
        else:
            shares = _share(self.weight)
        object.__setattr__(self, "weight", shares)
        object.__setattr__(self, "others", tuple(self.others))

    def of(self, station: str) -> dict[str, float]:
        """Return a station's neighbours and how much each counts."""
        found: Any = self.neighbours.get(station, {})
        return dict(found)

    def weight_of(self, station: str) -> float:
        """Return the share of a station's reward that is its neighbours'."""
        shares: Any = self.weight
        return float(shares.get(station, 0.0) if isinstance(shares, dict) else shares)

    def mixed(self, station: str, own: Measured, others: Mapping[str, Measured]) -> Measured:
        """Return what a station earns with what its neighbours earned, as far as that is known, and its variance.

        Without any neighbour's reward it is its own. The variance is the sum of those that are known.
        """
        counts = {name: count for name, count in self.of(station).items() if name in others}
        total, w = sum(counts.values()), self.weight_of(station)
        if not counts or not w:
            return own
        mean = sum(count * others[name][0] for name, count in counts.items()) / total
        parts = [((1.0 - w) ** 2, own[1])] + [((w * c / total) ** 2, others[n][1]) for n, c in counts.items()]
        known = [factor * variance for factor, variance in parts if variance is not None]
        return (1.0 - w) * own[0] + w * mean, sum(known) if known else None

    def check(self, stations: Iterable[str]) -> None:
        """Refuse names that no station has, or will have."""
        known = {*stations, *self.others}
        for station in self.neighbours:
            for name in (station, *self.of(station)):
                if name not in known:
                    raise BadInputError(
                        f"neighbours names {name!r}, which is no station of this controller: leave it out, or name it "
                        "in others= if it is to join, or decides nothing but earns"
                    )

    def in_log(self, trace: Trace) -> Trace:
        """Return a log whose rewards are those of stations and neighbours, matched by equal time.

        Several rows of a neighbour at one time count with their mean. A sample count becomes a variance, since a mixed
        reward is no share.

        Example:
            >>> log = {"station": ["a", "b", "a"], "time": [1, 1, 2], "tilt": [2, 4, 2], "reward": [0.8, 0.4, 0.7]}
            >>> trace = Trace.from_frame(log, {"configuration": ["tilt"]})
            >>> NeighbourReward({"a": ["b"]}, weight=0.5).in_log(trace).reward.round(2).tolist()
            [0.6, 0.4, 0.7]
        """
        if trace.time is None:
            raise BadInputError(
                "neighbours' rewards are matched by time, and the trace has none: name its column in "
                "columns={'time': ...}"
            )
        at: dict[Any, dict[str, list[int]]] = {}
        for row, (moment, station) in enumerate(zip(trace.time.tolist(), trace.station.tolist(), strict=True)):
            at.setdefault(moment, {}).setdefault(station, []).append(row)
        noise = trace.reward_noise()
        known = np.full(len(trace), np.nan) if noise is None else noise
        reward, variance = trace.reward.copy(), known.copy()
        for row, (moment, station) in enumerate(zip(trace.time.tolist(), trace.station.tolist(), strict=True)):
            there = at[moment]
            others = {n: _mean_of(there[n], trace.reward, known) for n in self.of(station) if n in there}
            own = _mean_of([row], trace.reward, known)
            reward[row], found = self.mixed(station, own, others)
            variance[row] = np.nan if found is None else found
        return replace(trace, reward=reward, noise=None if noise is None else variance, sample_count=None)

    def to_dict(self) -> dict[str, Any]:
        """Return the rule as JSON-able values."""
        shares: Any = self.weight
        weight = dict(shares) if isinstance(shares, dict) else shares
        return {
            "neighbours": {station: self.of(station) for station in self.neighbours},
            "weight": weight,
            "others": list(self.others),
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "NeighbourReward":
        """Return the rule that `to_dict` wrote.

        Example:
            >>> rule = NeighbourReward({"a": ["b"]}, weight=0.3)
            >>> NeighbourReward.from_dict(rule.to_dict()).to_dict() == rule.to_dict()
            True
        """
        return cls(values["neighbours"], values["weight"], others=values["others"])


def _counted(station: object, given: object) -> dict[str, float]:
    """The neighbours of a station and how much each counts."""
    if not isinstance(station, str) or not station:
        raise BadInputError(f"neighbours are given by station, got {station!r}")
    if isinstance(given, str) or not isinstance(given, Mapping | Iterable):
        raise BadInputError(f"the neighbours of {station!r} must be a list of stations, got {given!r:.60}")
    listed = list(given)
    if not all(isinstance(name, str) and name for name in listed) or len(set(listed)) < len(listed):
        raise BadInputError(f"the neighbours of {station!r} must be names, each once, got {listed!r:.60}")
    if station in listed:
        raise BadInputError(f"{station!r} is named among its own neighbours: leave it out")
    counts = {name: given[name] if isinstance(given, Mapping) else 1.0 for name in listed}
    for name, count in counts.items():
        if finite_number(count, name=f"how much {name!r} counts for {station!r}") <= 0:
            raise BadInputError(f"how much {name!r} counts for {station!r} must be above zero, got {count:g}")
    return {name: float(count) for name, count in counts.items()}


def _share(weight: object) -> float:
    share = finite_number(weight, name="the weight of neighbours")
    if not 0 <= share <= 1:
        raise BadInputError(f"the weight of neighbours is a share of the reward, from 0 to 1, got {share:g}")
    return share


def _mean_of(rows: Sequence[int], reward: FloatArray, noise: FloatArray) -> Measured:
    """The mean of rows and its variance, None where none is known."""
    known = [float(noise[row]) for row in rows if not np.isnan(noise[row])]
    variance = sum(known) / len(rows) ** 2 if known else None
    return float(sum(float(reward[row]) for row in rows)) / len(rows), variance
