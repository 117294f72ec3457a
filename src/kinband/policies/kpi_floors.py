"""Floors under other KPIs than the reward, or ceilings over them, each predicted by a posterior of its own.

A configuration keeps a floor if the KPI, as predicted for the state at hand, is above it with a given probability: for
a posterior with mean m and standard deviation s that is m − βs ≥ floor, β being the quantile of the normal
distribution. The prediction is of the KPI's expected value; single measurements scatter around it by their noise.

The idea of a constraint with a model of its own, beside that of what is maximised, is that of constrained Bayesian
optimisation (Gelbart, Snoek and Adams 2014) and of SafeOpt with several constraints (Berkenkamp, Krause and Schoellig
2021). Like the latter we look at the pessimistic end. Where models come from: `kinband.kpis`.
"""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from math import inf
from statistics import NormalDist
from typing import Any

import numpy as np

from kinband.arrays import BoolArray, FloatArray, IntArray, finite_number, positive_number
from kinband.errors import BadInputError, CannotCorrectError
from kinband.kernels import Kernel, kernel_from_dict
from kinband.policies.base import PolicySpec, sweeps
from kinband.policies.calibration import Calibration
from kinband.policies.constraints import Constraint, Draft, Narrowed
from kinband.posterior import Prediction
from kinband.records import Observation, Query
from kinband.trace.rewards import Measured

_CONFIDENCE = 0.95

KPI = "kpi: "
"""What the name of a KPI follows where rules with a rate are listed."""


@dataclass(frozen=True, eq=False)
class KpiFloor:
    """What must hold of a KPI, with a stated probability, for a configuration to be chosen.

    Attributes:
        name: The KPI, as it is told and as the log calls it.
        at_least: The floor, if there is one.
        at_most: The ceiling, if there is one.
        confidence: Probability with which the expected KPI must keep them under the model, at least one half.
        delta: Instead of `confidence`, the share of measurements, and of those of trials, that may miss their bound,
            whatever the model (`calibration`), at most one half. Until 1/δ of them are known, nothing is tried but what
            has run at the station before.
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
    confidence: float = field(default=_CONFIDENCE, kw_only=True)
    delta: float | None = field(default=None, kw_only=True)
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
        if self.delta is not None:
            object.__setattr__(self, "delta", finite_number(self.delta, name="delta"))
            if not 0 < self.delta <= 0.5:
                raise BadInputError(f"delta of KPI {self.name!r} is a rate above 0 and up to 0.5, got {self.delta:g}")
            if self.confidence not in (_CONFIDENCE, 1.0 - self.delta):
                raise BadInputError(f"KPI {self.name!r} has confidence= or delta=, not both")
            object.__setattr__(self, "confidence", 1.0 - self.delta)
        object.__setattr__(self, "confidence", finite_number(self.confidence, name="confidence"))
        if not 0.5 <= self.confidence < 1:
            raise BadInputError(f"confidence is a probability from 0.5 to below 1, got {self.confidence:g}")
        if (low := self.at_least) is not None and (high := self.at_most) is not None and low >= high:
            raise BadInputError(f"KPI {self.name!r} cannot be at least {low:g} and at most {high:g}")

    @property
    def beta(self) -> float:
        """The weight of a standard deviation: the normal quantile that belongs to the confidence."""
        return NormalDist().inv_cdf(self.confidence)

    def margin(self, mean: FloatArray, std: FloatArray, *, beta: float | None = None) -> FloatArray:
        """Return by how much the pessimistic bounds of m predictions keep the floor, (m,); below zero they break it.

        `beta` is the weight of a standard deviation, where it is not that of the confidence.
        """
        beta = self.beta if beta is None else beta
        above = inf if self.at_least is None else mean - beta * std - self.at_least
        below = inf if self.at_most is None else self.at_most - mean - beta * std
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
    """Return the floors that one, several or none stand for."""
    listed: list[Any] = [] if given is None else list(given) if isinstance(given, list | tuple) else [given]
    names: set[str] = set()
    for floor in listed:
        if not isinstance(floor, KpiFloor):
            raise BadInputError(f"kpis takes KpiFloor(...) or a list of them, got {floor!r:.60}")
        if floor.name in names:
            raise BadInputError(f"kpis names {floor.name!r} twice: a floor may have at_least= and at_most= together")
        names.add(floor.name)
    return tuple(listed)


def floor_to_dict(floor: KpiFloor) -> dict[str, Any]:
    """Return a floor as JSON-able values; what is not calibrated is written as before anything could be."""
    return {name: value for name, value in vars(floor).items() if name != "delta" or value is not None}


def kpi_to_dict(kpi: Kpi) -> dict[str, Any]:
    """Return a KPI as JSON-able values."""
    return {"floor": floor_to_dict(kpi.floor), "kernel": kpi.kernel.to_dict(), "scale": kpi.scale}


def kpi_from_dict(values: Mapping[str, Any]) -> Kpi:
    """Return the KPI that `kpi_to_dict` wrote."""
    return Kpi(KpiFloor(**values["floor"]), kernel_from_dict(values["kernel"]), values["scale"])


# --- What is believed about a KPI: a posterior beside that of the reward --------------------------------------------
#
# A KPI is learned where it was told and left alone where it was not, so its rows are fewer than the rewards'; which
# reward each of them came with is kept, so that it can be put right. Beliefs follow from the order of tells alone: the
# posteriors solve their rows when they are told, and asking leaves nothing behind.


class KpiBelief:
    """What is believed about one KPI.

    Args:
        kpi: Its model.
        spec: Task matrix, engine and configurations, as the reward's.

    Attributes:
        posterior: Over g, the KPI less its mean in units of its scale.
        rows: For each row of the posterior the number of the reward that it came with, ascending.
    """

    def __init__(self, kpi: Kpi, spec: PolicySpec) -> None:
        self.kpi = kpi
        self.posterior = replace(spec, kernel=kpi.kernel, noise=kpi.noise, mean=0.0, on=None).posterior()
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
            raise CannotCorrectError(f"{self.kpi.name!r} was not told with that reward: learn the corrected log again")
        self.posterior.correct(row, self._scaled(measured)[0])

    def predict(self, queries: Sequence[Query]) -> list[Prediction]:
        """Return mean and std of the KPI at the allowed arms of each query."""
        found = [one for _, all_, sizes in sweeps(self.posterior, queries) for one in all_.split(sizes)]
        mean, scale = self.kpi.mean, self.kpi.scale
        return [Prediction(mean + scale * one.mean, scale * one.std) for one in found]

    def calibrated(self, query: Query) -> Calibration | None:
        """Return how the floor's rate has fared, None where it has none."""
        if self.kpi.floor.delta is None:
            return None
        start, deployed = Calibration(self.kpi.floor.delta), query.deployed
        return start if deployed is None else deployed.calibrated.get(f"{KPI}{self.kpi.name}", start)

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


# --- The constraint: choose among what keeps the floors -------------------------------------------------------------
#
# Before the policy is asked, every allowed configuration is held against the floors: its KPIs' pessimistic bounds must
# keep them all. What does not is not to be chosen as long as something does. Where nothing does, the configuration
# whose worst bound comes closest is played, what runs if as close as any; `policy_state` says so.
# Before anything is known all are as close as each other, and the station stays where it is; once what runs is known to
# keep a KPI high, it is the closest. Staying with what runs whatever is known of it was tried: a station that had
# wandered to where the floor is broken then stayed there for good.
#
# A floor under the reward falls back to what runs, a budget to what was declared. Either may break the floor of a KPI,
# and then is not to be chosen, yet must stay a way back: such a rule undoes a choice rather than making one. So where
# there are such rules the policy scores what is open and the ways back, and chooses among what is open. Alone, floors
# of KPIs go with any policy: it is asked with fewer configurations and learns what it always did.

_TIE = 1e-9  # in standard deviations of a KPI: bounds that differ by less are as close

NOTE = "kpis"
"""Where a decision's policy_state keeps what was predicted of KPIs."""

CONSIDERED = 32
"""Of how many of the best-scored configurations KPIs are kept, as many as a decision keeps scores of."""


@dataclass(frozen=True, eq=False)
class Judged:
    """What a query looked like against the floors.

    Attributes:
        arms: Those that were allowed, (m,).
        keeps: Which arms keep all floors, (N,).
        predictions: Of every KPI, at the arms that were allowed.
        fallback: "running" or "closest" where no arm keeps the floors, else empty.
    """

    arms: IntArray
    keeps: BoolArray
    predictions: Mapping[str, Prediction]
    fallback: str


class KpiFloors(Constraint):
    """Chooses among what keeps the floors of all KPIs.

    Args:
        kpis: Their models.
        spec: Task matrix, engine and configurations, as the reward's.
        alone: Whether no other constraint needs a way back.

    Attributes:
        beliefs: What is believed about each.
    """

    def __init__(self, kpis: Sequence[Kpi], spec: PolicySpec, *, alone: bool) -> None:
        self.beliefs = [KpiBelief(kpi, spec) for kpi in kpis]
        self._alone, self._told = alone, 0

    def narrow(self, queries: Sequence[Query]) -> Sequence[Query]:
        """Leave what keeps the floors, or the one arm that comes closest, and the ways back of other rules."""
        by_kpi = {belief.kpi.name: belief.predict(queries) for belief in self.beliefs}
        found = [{name: one[i] for name, one in by_kpi.items()} for i in range(len(queries))]
        return [self._narrowed(query, one) for query, one in zip(queries, found, strict=True)]

    def _narrowed(self, query: Query, predictions: Mapping[str, Prediction]) -> Narrowed:
        worst = self._margins(query, predictions).min(axis=0)  # of all KPIs, by allowed arm
        worst[~self._known(query)[query.arms]] = -inf
        keeps = np.zeros(len(query.X), dtype=np.bool_)
        keeps[query.arms[worst >= 0]] = True
        is_open, fallback = keeps, ""
        if not keeps.any():
            running = None if query.deployed is None else query.deployed.running
            closest = query.arms[worst >= worst.max() - _TIE]
            stays = running is not None and running in closest
            is_open = np.arange(len(query.X)) == (running if stays else closest[0])
            fallback = "running" if stays else "closest"
        values = {item.name: getattr(query, item.name) for item in fields(Query)}
        values["allowed"] = is_open if self._alone else is_open | _ways_back(query)
        return Narrowed(**values, open=is_open, seen=Judged(query.arms, keeps, predictions, fallback))

    def _known(self, query: Query) -> BoolArray:
        """Which arms may be tried by now, (N,): all, once every rate is known of 1/δ measurements."""
        every, deployed = np.ones(len(query.X), dtype=np.bool_), query.deployed
        rates = [one for belief in self.beliefs if (one := belief.calibrated(query)) is not None]
        if deployed is None or all(one.seeded for one in rates):
            return every
        known = deployed.tried_among(len(every))
        if deployed.running is not None and deployed.running < len(known):
            known[deployed.running] = True
        return known if (known & query.allowed).any() else every

    def _margins(self, query: Query, predictions: Mapping[str, Prediction]) -> FloatArray:
        """Return by how much each of m arms keeps the floors, (k, m), in standard deviations of each KPI.

        Divided so, that of several KPIs may be compared: which arm comes closest where none keeps them all.
        """
        found = list[FloatArray]()
        for belief in self.beliefs:
            kpi, one, rate = belief.kpi, predictions[belief.kpi.name], belief.calibrated(query)
            margin = kpi.floor.margin(one.mean, one.std, beta=None if rate is None else rate.quantile)
            found.append(margin / (kpi.floor.deviation or kpi.scale))
        return np.array(found)

    def judge(self, drafts: list[Draft]) -> list[Draft]:
        """Put the best open arm where the policy chose a way back."""
        chosen = [bool(draft.open[draft.plain.arms == draft.arm]) for draft in drafts]
        return [draft if kept else draft.best(draft.score) for draft, kept in zip(drafts, chosen, strict=True)]

    def policy_state(self, draft: Draft) -> Mapping[str, Any]:
        """Return what was predicted of the best-scored arms.

        It holds `open`, how many arms could be chosen, `kept`, whether what is played keeps the floors; where nothing
        does, `fallback`; and for each KPI under `means` and `widths` what was predicted for `arms`.
        """
        query = draft.query
        if not isinstance(query, Narrowed):
            return {}
        judged: Judged = query.seen
        best = draft.plain.arms[np.argsort(-draft.score, kind="stable")]
        here = query.deployed.running if query.deployed is not None and query.deployed.calibrated else None
        first = [draft.arm] if here is None or here not in judged.arms else [draft.arm, here]
        shown = list(dict.fromkeys([*first, *best.tolist()]))[:CONSIDERED]
        at = np.searchsorted(judged.arms, shown)
        note: dict[str, Any] = {"open": int(query.open.sum()), "kept": bool(judged.keeps[draft.arm])}
        note |= {"fallback": judged.fallback} if judged.fallback else {}
        note |= {
            "arms": shown,
            "means": {name: found.mean[at].tolist() for name, found in judged.predictions.items()},
            "widths": {name: found.std[at].tolist() for name, found in judged.predictions.items()},
        }
        return {NOTE: note}

    def learn(self, observations: Sequence[Observation]) -> None:
        """Take in the KPIs of observations, in order; all that come together are one block."""
        numbered = list(enumerate(observations, start=self._told))
        for belief in self.beliefs:
            belief.learn(numbered)
        self._told += len(numbered)

    def correct_kpis(self, index: int, kpis: Mapping[str, Measured]) -> None:
        """Replace KPIs of the index-th observation learned."""
        for belief in self.beliefs:
            if belief.kpi.name in kpis:
                belief.correct(index, kpis[belief.kpi.name])

    def check_like(self, pattern: "KpiFloors") -> None:
        """Raise `CannotCorrectError` where rows that were not kept would have to be joined."""
        for belief, empty in zip(self.beliefs, pattern.beliefs, strict=True):
            belief.posterior.check_extension(empty.posterior.K_Z)

    def extend_like(self, pattern: "KpiFloors") -> None:
        """Take in the tasks of stations that have joined."""
        for belief, empty in zip(self.beliefs, pattern.beliefs, strict=True):
            belief.posterior.extend_tasks(empty.posterior.K_Z)

    def state(self) -> dict[str, Any]:
        """Return the beliefs as arrays by name."""
        kept = {f"kpi{i}_{name}": array for i, one in enumerate(self.beliefs) for name, array in one.state().items()}
        return {**kept, "kpi_told": np.array([self._told], dtype=np.int64)}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take up what `state` returned."""
        for i, belief in enumerate(self.beliefs):
            start = f"kpi{i}_"
            belief.restore({name.removeprefix(start): state[name] for name in state if name.startswith(start)})
        self._told = int(state["kpi_told"][0])


def _ways_back(query: Query) -> BoolArray:
    """Which arms are what runs and what was declared, as far as they are allowed, (N,)."""
    back = np.zeros(len(query.X), dtype=np.bool_)
    deployed = query.deployed
    for arm in () if deployed is None else (deployed.running, deployed.baseline):
        if arm is not None and arm < len(back):
            back[arm] = query.allowed[arm]
    return back
