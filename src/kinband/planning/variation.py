"""Which knobs matter: the share of a log's variation that each of them explains, with its interval.

Of the variance of rewards around their station's mean, a part is due to the state, a part to each knob, the rest to
shocks and noise. The part of a knob is its total effect (Homma and Saltelli 1996): the variance of f over the values
that the station tried of it, all else as it was, on average over rows and stations. f is what the posterior says that
a plan rests on, with its shocks of days and spells. Its mean varies less than f, since what little is known of is
shrunken, and draws from it more, since what is not known is drawn, too. So both are taken: the share lies midway, and
its interval reaches as far below the one as draws scatter, and up to the highest of the others.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from kinband.arrays import FloatArray, IntArray
from kinband.planning.coverage import setting_columns
from kinband.planning.evidence import GroupPosterior, averaged, evidence_rows
from kinband.planning.network import learn_network
from kinband.stats import LEVEL, Estimate
from kinband.trace import Trace
from kinband.trace.table import station_numbers

STATIONS = 60
"""The most stations of a log that are looked at, drawn at random."""

_TOLD = 4000  # rows that are learned from; of more, like rows are taken together
_ROWS, _VALUES = 3, 8  # of each station: rows in which a factor is varied, and the most values that it is given
_DRAWS = 400
_EDGE = 1e-9  # of the largest variance, so that covariances of nearly the same points can be factored


@dataclass(frozen=True)
class Share:
    """What a knob, or the state, explains.

    Attributes:
        name: Of the knob; "state" for the state with the hour of the day.
        share: Of the variance of rewards around their station's mean.
        varied: Stations that ran more than one value of it.
    """

    name: str
    share: Estimate
    varied: int

    def to_dict(self) -> dict[str, Any]:
        """Return it in JSON's types."""
        return {"name": self.name, "varied": self.varied, **self.share.to_dict()}


def explained_variation(trace: Trace, *, seed: int = 0) -> list[Share]:
    """Return the shares of all knobs, the largest first, and that of the state.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> log = {"station": ["a", "b"] * 60, "tilt": rng.integers(0, 3, 120), "power": rng.integers(40, 43, 120)}
        >>> log["reward"] = 0.8 - 0.1 * log["tilt"] + 0.02 * rng.normal(size=120)
        >>> shares = explained_variation(Trace.from_frame(log, {"configuration": ["tilt", "power"]}))
        >>> [(one.name, one.share.low > 0.5) for one in shares]
        [('tilt', True), ('power', False)]
    """
    rng = np.random.default_rng([seed, 5])
    trace = trace.with_space(trace.space())
    chosen = np.sort(rng.choice(len(trace.stations), min(STATIONS, len(trace.stations)), replace=False))
    if len(chosen) < len(trace.stations):
        trace = trace.select(np.isin(station_numbers(trace), chosen))
    network = learn_network(trace, together=len(trace.stations), seed=seed)
    samples, model, encoder = network.reward.samples, network.reward.model, network.encoder
    rows = averaged(evidence_rows(samples, model.noise), most=_TOLD, columns=setting_columns(encoder))
    posterior = GroupPosterior(model.kernel, model.similarity.matrix, rows, mean=model.mean, shocks=model.shocks)
    M, p = len(samples.stations), len(encoder.state.names)
    level = np.bincount(samples.tasks, samples.y, M) / np.bincount(samples.tasks, minlength=M)
    total = float(np.mean((samples.y - level[samples.tasks]) ** 2))
    factors = {knob: np.array([p + j]) for j, knob in enumerate(encoder.space.knobs)} | (
        {"state": np.arange(p)} if p else {}
    )
    found = []
    for name, columns in factors.items():
        grid = Grid.of(samples.tasks, samples.X, columns, rng)
        found.append(Share(name, share_in(*grid.spread(posterior, rng), total=total), grid.varied))
    knobs = sorted((one for one in found if one.name != "state"), key=lambda one: -one.share.value)
    return [*knobs, *(one for one in found if one.name == "state")]


def share_in(of_mean: float, of_draws: FloatArray, *, total: float) -> Estimate:
    """Return the share of a total variance that f explains, from the variance of its mean and of draws of it.

    Example:
        >>> f"{share_in(0.2, np.linspace(0.2, 0.4, 101), total=1.0):.3f}"
        '0.250 (0.105 to 0.395)'
    """
    if not total > 0:
        return Estimate(0.0, 0.0, 0.0)
    low, high = np.quantile(of_draws, [0.5 - LEVEL / 2, 0.5 + LEVEL / 2])
    mean = float(of_draws.mean())
    below = max(of_mean - (mean - float(low)), 0.0)
    return Estimate((of_mean + mean) / 2 / total, below / total, float(high) / total)


@dataclass(frozen=True, eq=False)
class Grid:
    """Points at which f is drawn: in some rows of each station, one factor with each value that the station had of it.

    Attributes:
        tasks: Station of each point, (P,).
        X: Contexts, (P, d).
        block: Which row of the log each point varies, (P,), from 0.
        weight: Share of the station's rows that had the value of a point, (P,); they sum to 1 in each block.
        varied: Stations that had more than one value.
        blocks: How many rows are varied, those of stations with a single value among them.
    """

    tasks: IntArray
    X: FloatArray
    block: IntArray
    weight: FloatArray
    varied: int
    blocks: int

    @classmethod
    def of(cls, tasks: IntArray, X: FloatArray, columns: IntArray, rng: np.random.Generator) -> "Grid":
        """Return the points for a factor that stands in some columns of the contexts X (n, d) of stations (n,)."""
        parts: list[tuple[IntArray, FloatArray, IntArray, FloatArray]] = []
        varied = blocks = 0
        for own in np.split(np.argsort(tasks, kind="stable"), np.cumsum(np.bincount(tasks))[:-1]):
            values, counts = np.unique(X[np.ix_(own, columns)], axis=0, return_counts=True)
            picked = rng.choice(own, min(_ROWS, len(own)), replace=False)
            blocks += len(picked)
            if len(values) < 2:
                continue
            varied += 1
            for row in picked.tolist():
                some, weight = values, counts / counts.sum()
                if len(values) > _VALUES:
                    some, weight = X[np.ix_(rng.choice(own, _VALUES), columns)], np.full(_VALUES, 1.0 / _VALUES)
                points = np.repeat(X[row][None], len(some), axis=0)
                points[:, columns] = some
                number = np.full(len(some), len(parts))
                parts.append((np.full(len(some), tasks[row]), points, number, weight))
        if not parts:
            none = np.zeros(0, dtype=np.int64)
            return cls(none, X[:0], none, np.zeros(0), 0, blocks)
        stations, points, number, weight = (np.concatenate(column) for column in zip(*parts, strict=True))
        return cls(stations, points, number, weight, varied, blocks)

    def spread(self, posterior: GroupPosterior, rng: np.random.Generator) -> tuple[float, FloatArray]:
        """Return the mean variance over the values of a factor, of what is expected of f and of draws of f, (400,)."""
        if not len(self.tasks):
            return 0.0, np.zeros(_DRAWS)
        rows, kernel = posterior.rows, posterior.kernel
        C = kernel.cross(rows.tasks, rows.X, self.tasks, self.X)
        V = posterior.solved(C)
        S = kernel.cross(self.tasks, self.X, self.tasks, self.X) - V.T @ V
        S[np.diag_indices(len(S))] += _EDGE * float(S.diagonal().max())
        mean = posterior.means(C)[:, None]
        F = mean + np.linalg.cholesky(S) @ rng.normal(size=(len(S), _DRAWS))
        return float(self._within(mean)[0]), self._within(F)

    def _within(self, F: FloatArray) -> FloatArray:
        """The mean over blocks of the variance of columns of values F (P, k), (k,)."""
        starts, w = np.flatnonzero(np.diff(self.block, prepend=-1)), self.weight[:, None]
        mean, square = (np.add.reduceat(w * of, starts, axis=0) for of in (F, F**2))
        return np.asarray((square - mean**2).sum(axis=0) / self.blocks)
