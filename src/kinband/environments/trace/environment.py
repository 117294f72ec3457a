"""Any log of many stations, turned into an environment that answers for configurations that were not run.

In every slot each station is in the state of one of its own rows, drawn at random. Configuration c in state s pays the
mean reward of the k rows that are nearest to (s, c), as the paper's simulator does from its operator's trace. The paper
prints neither k nor the scales: here k is 5 by default, states are standardised over the whole trace and
configurations over the space, and categories are as far apart as `neighbours` says. "Nearest in the data set" may mean
the station's own rows or everybody's; with everybody's, all stations have the same reward function and sharing is
trivially right. Ours are the station's own, `pooled=True` is the other reading.

Rewards follow from state and configuration without chance, so what an arm earns is what it is expected to earn. They
are as good as the log: where a configuration was hardly ever run in a state, the nearest rows are far.
"""

import math
from collections.abc import Sequence

import numpy as np

from kinband.arrays import IntArray, positive_number
from kinband.environments.contract import whole_number
from kinband.environments.trace.neighbours import NearestRows, points_of
from kinband.environments.trace.rows import Answers, RowsEnvironment
from kinband.errors import BadInputError
from kinband.space import ConfigurationSpace
from kinband.trace import Trace


class TraceEnvironment(RowsEnvironment):
    """A trace as an environment, by k nearest neighbours; what is played changes nothing.

    Args:
        trace: The rows it answers from. Keep a learner's log out of them, see `split_trace`.
        space: The configurations to choose from, those of the trace if not given; may hold some that were never run.
        neighbours: How many rows are averaged, k; rows as near as the k-th count with it.
        pooled: Whether to answer from the rows of all stations instead of the station's own.
        stations: The stations that play, in this order; all of the trace if not given.
        category_distance: How far apart two configurations are that differ in one category alone, in standard
            deviations of a quantity. A large one keeps rows of other categories out while there are others.
        cache: Whether to keep every answer for the next run: one number per row and configuration that came up.
        seed: As if `reset(seed)` had been called.

    Attributes:
        encoder: Makes the contexts; fitted to the trace.
        state_ranges: The least and the greatest value of each state feature in the trace.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> columns = {"station": ["a", "b"] * 30, "load": rng.random(60), "tilt": rng.integers(0, 4, 60)}
        >>> columns["reward"] = 1.0 - 0.1 * (columns["tilt"] - 2) ** 2
        >>> environment = TraceEnvironment(Trace.from_frame(columns, {"configuration": ["tilt"]}), neighbours=2, seed=1)
        >>> environment.stations, environment.arms, list(environment.slot.states["a"])
        (('a', 'b'), 4, ['load'])
        >>> truth = environment.truth("a")
        >>> environment.play({"a": truth.best})["a"].reward == float(truth.rewards.max())
        True
    """

    def __init__(
        self,
        trace: Trace,
        space: ConfigurationSpace | None = None,
        *,
        neighbours: int = 5,
        pooled: bool = False,
        stations: Sequence[str] | None = None,
        category_distance: float = math.sqrt(2),
        cache: bool = True,
        seed: int = 0,
    ) -> None:
        k = whole_number(neighbours, name="neighbours", least=1)
        distance = positive_number(category_distance, name="category_distance")
        super().__init__(trace, space, stations=stations, cache=cache)
        self._build(self.trace, k, pooled=pooled, distance=distance)
        self.reset(seed)

    def _build(self, trace: Trace, k: int, *, pooled: bool, distance: float) -> None:
        """Put the rows into trees, one for each station or one for all."""
        samples = trace.samples(self.encoder)
        codes = {column: len(self.space.knobs[self.features[column]]) for column in self.categorical}
        points, p = points_of(samples.X, codes=codes, distance=distance), len(self.encoder.state.names)
        knobs = {column - p: count for column, count in codes.items()}
        self._configurations = points_of(self.space.features, codes=knobs, distance=distance)
        owners = [None] if pooled else self.stations
        parts = [np.arange(len(trace)) if s is None else np.flatnonzero(trace.station == s) for s in owners]
        _check_counts(owners, parts, k)
        noise = np.full(len(trace), np.nan) if samples.noise is None else samples.noise
        trees = [NearestRows(points[rows], samples.y[rows], noise[rows], count=k) for rows in parts]
        self._trees = trees * len(self.stations) if pooled else trees
        rewards = np.concatenate([tree.rewards for tree in trees])
        self.reward_range = (float(rewards.min()), float(rewards.max()))

    def _asked(self, task: int, row: int) -> Answers:
        state = self.encoder.state.transform(self._states[task][row])
        points = np.hstack([np.broadcast_to(state, (self.arms, len(state))), self._configurations])
        rewards, noise = self._trees[task].average(points)
        rewards.setflags(write=False)
        return rewards, noise


def _check_counts(owners: Sequence[str | None], parts: Sequence[IntArray], k: int) -> None:
    for station, rows in zip(owners, parts, strict=True):
        if len(rows) > k:
            continue
        what = "the trace" if station is None else f"station {station!r}"
        others = (
            "" if station is None else ", leave the station out by stations=, or answer from all rows by pooled=True"
        )
        raise BadInputError(
            f"{what} has {len(rows)} row(s), {k} neighbour(s) need at least {k + 1}, or every configuration would earn "
            f"the same: give more rows, lower neighbours{others}"
        )
