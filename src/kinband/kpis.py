"""Several KPIs and neighbours: what a station answers for beyond one number of its own.

Three parts, each switched on by one argument of a `Controller`, alone or together. `WeightedReward` makes the reward of
several KPIs (its home is `kinband.trace.rewards`, since logs use it too). `KpiFloor` keeps another KPI above a floor,
or below a ceiling, predicted by a posterior of its own (its home is `kinband.policies.kpi_floors`); here its model is
fitted. `NeighbourReward` lets a station earn what its neighbours earn. How to use them: docs/your-data.md.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from kinband.arrays import FloatArray, finite_number, positive_number
from kinband.errors import BadInputError
from kinband.kernels import Kernel, TaskCovariance
from kinband.model import Search, learn_model
from kinband.policies.kpi_floors import Kpi, KpiFloor
from kinband.records import Samples
from kinband.similarity import TaskMatrix
from kinband.trace import Trace
from kinband.trace.rewards import Measured, WeightedReward

__all__ = ["KpiFloor", "NeighbourReward", "WeightedReward"]

# --- Where the model of a KPI comes from: declared, or fitted to a log ----------------------------------------------
#
# Stations that are alike in what they earn are taken to be alike in their KPIs, so every KPI shares the task matrix of
# the reward. Declared, a KPI also shares the reward's kernel, in its own units: what makes two situations alike for
# one makes them alike for the other, until data say otherwise. From a log, kernel, noise and mean are fitted by
# `kinband.model`, the search beginning at the reward's kernel: that a share of dropped calls moves with the load twice
# as fast as the reward does is there to be seen, and a std that is too narrow would let floors be broken.

_FEWEST = 3  # rows that a model is fitted to at least


def declared_kpis(floors: Sequence[KpiFloor], kernel: Kernel, K_Z: TaskCovariance, *, width: int) -> tuple[Kpi, ...]:
    """Return KPIs whose model is declared, with the reward's kernel over contexts of `width` features."""
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


def _declared(floor: KpiFloor, kernel: Kernel, K_Z: TaskCovariance, *, width: int) -> Kpi:
    missing = [name for name in ("mean", "deviation", "noise") if getattr(floor, name) is None]
    if missing or floor.deviation is None:
        raise BadInputError(
            f"KPI {floor.name!r} has no log to be learned from: declare {', '.join(f'{name}=' for name in missing)} in "
            "its KpiFloor, or start from a trace that has it among its kpis"
        )
    # One standard deviation from the middle of all states: for most kernels as good a place as any.
    variance = float(kernel.diag(np.ones((1, width)))[0] * np.mean(K_Z.diagonal()))
    return Kpi(floor, kernel, floor.deviation / variance**0.5)


def _fitted(
    floor: KpiFloor, samples: Samples, *, kernel: Kernel, similarity: TaskMatrix, rng: np.random.Generator
) -> Kpi:
    values = samples.kpis.get(floor.name)
    known = np.zeros(len(samples), dtype=np.bool_) if values is None else np.isfinite(values)
    declared = floor.mean is not None and floor.deviation is not None and floor.noise is not None
    if values is None or declared or np.count_nonzero(known) < _FEWEST:
        return _declared(floor, kernel, similarity.K_Z, width=samples.X.shape[1])
    rows = replace(samples.take(known), noise=None)
    y = values[known]
    centre, spread = float(y.mean()), float(y.std()) or 1.0
    unit = float(np.sqrt(kernel.diag(rows.X).mean() * np.mean(similarity.K_Z.diagonal())))
    scale = spread / unit  # in units of g the search begins where the reward's ended
    model = learn_model(
        replace(rows, y=(y - centre) / scale), similarity, rng=rng, kernel=kernel,
        noise=None if floor.noise is None else floor.noise / scale**2,
        mean=None if floor.mean is None else (floor.mean - centre) / scale,
        search=Search(kernel=True, noise=floor.noise is None, mean=floor.mean is None, starts=1),
    )  # fmt: skip
    moved = float(np.sqrt(model.kernel.diag(rows.X).mean() * np.mean(similarity.K_Z.diagonal())))
    stretch = 1.0 if floor.deviation is None else floor.deviation / (moved * scale)
    found = {"mean": centre + scale * model.mean, "noise": model.noise * scale**2, "deviation": moved * scale}
    missing: dict[str, Any] = {name: value for name, value in found.items() if getattr(floor, name) is None}
    return Kpi(replace(floor, **missing), model.kernel, scale * stretch)


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
        return float(self.weight.get(station, 0.0) if isinstance(self.weight, Mapping) else self.weight)

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
                        f"neighbours names {name!r}, which is not a station of this controller: leave it out, or name "
                        "it in others= if it is to join, or decides nothing but earns"
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
        weight = dict(self.weight) if isinstance(self.weight, Mapping) else self.weight
        neighbours = {station: self.of(station) for station in self.neighbours}
        return {"neighbours": neighbours, "weight": weight, "others": list(self.others)}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "NeighbourReward":
        """Return the rule that `to_dict` wrote."""
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
    counts = given if isinstance(given, Mapping) else dict.fromkeys(listed, 1.0)
    return {name: positive_number(counts[name], name=f"how much {name!r} counts for {station!r}") for name in listed}


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
