"""A trace as an environment whose truth can be learned: each station's smooth fit of its rows, plus noise.

The mean of a few nearest rows keeps their noise, so the best of many configurations is one that was lucky in the log,
which nobody can know beforehand: much of the regret counted against it can never be saved. Here configuration c in
state s is expected to earn what a regression of *all* the station's rows says of (s, c), within the rewards of the
trace, and earns it plus Gaussian noise as large as the station's residuals. So a learner that has understood a station
pays no regret, and whatever is paid could have been saved.

The noise of a slot is the station's, whichever configuration it plays: a learner sees the same as with a draw for each,
and regret against the best reward is regret in expectation. Logs are drawn from the same truth, with random
configurations in states of random rows. Which regression it is, is for the caller to say, since environments know
nothing of learners; `kinband.experiments.play.smooth` has one.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from kinband.arrays import FloatArray, IntArray, finite_number
from kinband.environments.contract import Outcome, Truth, whole_number
from kinband.environments.trace.rows import Answers, RowsEnvironment
from kinband.errors import BadInputError
from kinband.records import Samples
from kinband.trace import Trace

LEAST = 10
"""Rows that a station must have to be fitted."""


@dataclass(frozen=True, eq=False)
class SmoothFit:
    """What a regression says of one station.

    Attributes:
        mean: Contexts (n, d) → what they are expected to earn, (n,).
        deviation: Standard deviation of a reward around it.

    Example:
        >>> SmoothFit(lambda X: X.sum(axis=1), 0.1).mean(np.array([[0.2, 0.3]])).tolist()
        [0.5]
    """

    mean: Callable[[FloatArray], FloatArray]
    deviation: float


class SmoothTraceEnvironment(RowsEnvironment):
    """A trace as an environment, by a smooth fit for each station; what is played changes nothing.

    Args:
        trace: The rows that are fitted, and whose states are shown.
        fit: The regression: all rows in, a fit for each of their stations out.
        stations: The stations that play, in this order; all of the trace if not given.
        seed: As if `reset(seed)` had been called.

    Attributes:
        encoder: Makes the contexts; fitted to the trace.
        state_ranges: The least and the greatest value of each state feature in the trace.
        fits: What the regression found, station by station.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> columns = {"station": ["a", "b"] * 30, "load": rng.random(60), "tilt": rng.integers(0, 4, 60)}
        >>> columns["reward"] = 1.0 - 0.1 * (columns["tilt"] - 2) ** 2
        >>> trace = Trace.from_frame(columns, {"configuration": ["tilt"]})
        >>> def fit(samples):  # tilt, the second feature, is best in the middle
        ...     return [SmoothFit(lambda X: 1.0 - 0.1 * X[:, 1] ** 2, 0.05)] * len(samples.stations)
        >>> environment = SmoothTraceEnvironment(trace, fit, seed=1)
        >>> environment.truth("a").best in (1, 2), len(environment.log(5, rng))
        (True, 10)
    """

    reward_range = (-np.inf, np.inf)

    def __init__(
        self,
        trace: Trace,
        fit: Callable[[Samples], Sequence[SmoothFit]],
        *,
        stations: Sequence[str] | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__(trace, None, stations=stations, cache=True)
        _check_counts(self.stations, self._counts)
        rows = trace.select(np.isin(trace.station, self.stations))
        self.fits = tuple(fit(rows.samples(self.encoder, stations=self.stations)))
        self._deviations = _deviations(self.fits, self.stations)
        self._lowest, self._highest = float(rows.reward.min()), float(rows.reward.max())
        self.reset(seed)

    def truth(self, station: str) -> Truth:
        """Return what only a referee may know of the station in the present slot; ask before playing."""
        expected = super().truth(station).expected
        return Truth(expected + self._luck[self._task[station]], expected)

    def log(self, rows_per_station: int, rng: np.random.Generator) -> Samples:
        """Return a log of random configurations in states of random rows, paid as a slot pays."""
        n, M = whole_number(rows_per_station, name="rows_per_station", least=1), len(self.stations)
        tasks, arms = np.repeat(np.arange(M), n), rng.integers(self.arms, size=n * M)
        rows = rng.integers(np.repeat(self._counts, n))
        S = np.array([self._states[task][row] for task, row in zip(tasks, rows, strict=True)])
        X = self.encoder.encode(S, arms)
        expected = np.concatenate([self._expected(task, X[tasks == task]) for task in range(M)])
        y = expected + self._deviations[tasks] * rng.standard_normal(n * M)
        return Samples(self.stations, tasks, X, y, None, self.features, self.categorical, arms=arms)

    def _outcome(self, station: str, arm: int) -> Outcome:
        return Outcome(float(self.truth(station).rewards[arm]))

    def _asked(self, task: int, row: int) -> Answers:
        S = np.broadcast_to(self._states[task][row], (self.arms, self._states[task].shape[1]))
        expected = self._expected(task, self.encoder.encode(S, np.arange(self.arms)))
        expected.setflags(write=False)
        return expected, np.full(self.arms, np.nan)

    def _expected(self, task: int, X: FloatArray) -> FloatArray:
        return np.clip(self.fits[task].mean(X), self._lowest, self._highest)

    def _show(self, number: int) -> None:
        super()._show(number)
        self._luck = self._deviations * self._rng.standard_normal(len(self.stations))


def _check_counts(stations: Sequence[str], counts: IntArray) -> None:
    few = int(counts.argmin())
    if counts[few] < LEAST:
        raise BadInputError(
            f"station {stations[few]!r} has {counts[few]} row(s), a smooth fit takes at least {LEAST}: give more rows, "
            "or leave the station out by stations="
        )


def _deviations(fits: Sequence[SmoothFit], stations: Sequence[str]) -> FloatArray:
    if len(fits) != len(stations):
        raise BadInputError(f"fit must return a fit for each of {len(stations)} station(s), got {len(fits)}")
    found = np.array([finite_number(fit.deviation, name="deviation") for fit in fits])
    if (found < 0).any():
        raise BadInputError(f"a fit's deviation must not be negative, got {found.min():g}")
    return found
