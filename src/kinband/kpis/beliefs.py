"""What is believed about KPIs: one posterior each, beside that of the reward.

A KPI is learned where it was told and left alone where it was not, so its rows are fewer than the rewards'; which
reward each of them came with is kept, so that it can be put right. Beliefs follow from the order of tells alone: the
posteriors solve their rows when they are told, and asking leaves nothing behind.
"""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from kinband.arrays import FloatArray
from kinband.errors import CannotCorrectError
from kinband.kpis.floors import Kpi
from kinband.policies.contract import Setting
from kinband.posterior import AnyPosterior, Prediction, make_posterior
from kinband.posterior.contract import Question, ScoresArms
from kinband.records import Observation, Query
from kinband.trace.weighted import Measured

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
        >>> from kinband.kpis.floors import KpiFloor
        >>> floor = KpiFloor("load", at_most=0.9, mean=0.5, deviation=0.2, noise=0.01)
        >>> belief = KpiBelief(Kpi(floor, RBF(0.5), 0.2), Setting(RBF(0.5), np.eye(1), noise=0.1, arms=2))
        >>> belief.learn([(0, Observation(0, np.array([0.0]), 0, 0.9, kpis={"load": (0.75, None)}))])
        >>> found = belief.predict([Query(0, np.array([[0.0], [9.0]]), np.ones(2, dtype=bool))])[0]
        >>> found.mean.round(3), found.width.round(3)
        (array([0.7, 0.5]), array([0.089, 0.2  ]))
    """

    def __init__(self, kpi: Kpi, setting: Setting) -> None:
        self.kpi = kpi
        self.posterior: AnyPosterior = make_posterior(
            kpi.kernel, setting.K_Z, noise=kpi.noise, engine=setting.engine, budget=setting.budget,
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
        """Return mean and width of the KPI at the allowed arms of each query."""
        found: list[Prediction] = []
        for part in _parts(queries, most=max(1, _TOGETHER // max(1, len(self.posterior)))):
            found += self._predict([queries[i] for i in part])
        mean, scale = self.kpi.mean, self.kpi.scale
        return [Prediction(mean + scale * one.mean, scale * one.width) for one in found]

    def _predict(self, queries: Sequence[Query]) -> list[Prediction]:
        if isinstance(self.posterior, ScoresArms):
            return self.posterior.predict_arms([Question(q.task, q.X, q.arms) for q in queries])
        return [self.posterior.predict(np.full(len(q.arms), q.task), q.X[q.arms]) for q in queries]

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
        """Return for each query the mean and width of every KPI at its allowed arms."""
        by_kpi = {belief.kpi.name: belief.predict(queries) for belief in self.each}
        return [{name: found[i] for name, found in by_kpi.items()} for i in range(len(queries))]

    def margins(self, predictions: Mapping[str, Prediction]) -> FloatArray:
        """Return by how much each of m arms keeps the floors, (k, m), in standard deviations of each KPI.

        Divided so, that of several KPIs may be compared: which arm comes closest where none keeps them all.
        """
        rows = [
            b.kpi.floor.margin(predictions[b.kpi.name].mean, predictions[b.kpi.name].width) / _deviation(b.kpi)
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
