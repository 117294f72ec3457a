"""A policy that chooses among what keeps the floors of other KPIs.

Before the policy inside is asked, every allowed configuration is held against the floors: its KPIs' pessimistic bounds
must keep them all. What does not is not to be chosen as long as something does. Where nothing does, the configuration
whose worst bound comes closest is played, the running one if it is as close as any; the decision's memo says so. Before
anything is known all are as close as each other, and the station stays where it is; once what runs is known to keep a
KPI high, it is the closest. Staying with what runs whatever is known of it was tried: a station that had wandered to
where the floor is broken then stayed there for good.

The order, where trials also have to be safe (docs/safety.md): first the floors of KPIs say what may be chosen at all;
then the policy scores and chooses among it, a switching cost is taken off and a floor under the reward looks at the
trial; the budget has the last word. A rule of safety that steps in plays what runs, or what was declared, even where
that breaks a KPI's floor: it undoes a choice rather than making one, and its promise is one over time, which nothing
after it may spend. `within` is how the rules learn which configurations serve as that way back only.

The policy inside may be any: it is asked with fewer configurations and learns what it always did.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from kinband.arrays import BoolArray, FloatArray
from kinband.errors import CannotCorrectError
from kinband.kpis.beliefs import KpiBeliefs
from kinband.kpis.floors import Kpi
from kinband.kpis.within import SafeWithin, Within
from kinband.policies.contract import ChoosesRounds, Corrects, KeepsState, LearnsLogs, Policy, PolicyFactory, Setting
from kinband.policies.safety import Safety
from kinband.posterior import Prediction
from kinband.records import Choice, Observation, Query
from kinband.trace.weighted import Measured

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
        >>> from kinband.kpis.floors import KpiFloor
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
            "widths": {name: found.width[at].tolist() for name, found in judged.predictions.items()},
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
