"""What a plan considers beside a station's own reward: floors of KPIs, neighbours, the age of rows, descriptors.

Each is declared by what a controller takes, too: `KpiFloor`, `NeighbourReward`, `Drift`, descriptors. A KPI that has a
floor is learned as the reward is, by a model of its own on the same rows, and so is what settings do to neighbours.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinband.arrays import BoolArray, FloatArray, IntArray
from kinband.contexts import ContextEncoder
from kinband.drift import TIME_COLUMN, Drift, forgetful, seconds, timed_encoder, timed_samples, untimed
from kinband.errors import BadInputError
from kinband.kernels import Kernel
from kinband.kpis import NeighbourReward
from kinband.likelihood import starting_kernel
from kinband.model import Model
from kinband.planning.evidence import Averages, GroupPosterior, covariances, differences, variances
from kinband.policies.kpi_floors import KpiFloor
from kinband.records import Samples
from kinband.similarity.newcomers import (
    Descriptors,
    average_row,
    descriptor_row,
    useful_descriptor_kernel,
    with_newcomers,
)
from kinband.trace import Trace
from kinband.trace.table import no_time


@dataclass(frozen=True, eq=False)
class Considerations:
    """What a plan considers beside the rewards of a log.

    Attributes:
        floors: What must hold of other KPIs of the log.
        neighbours: Whose rewards count beside a station's own.
        drift: How fast old rows cease to count.
        descriptors: What is known of stations by name, those that the log does not have among them.

    Example:
        >>> Considerations(floors=(KpiFloor("drop_rate", at_most=0.01),)).floors[0].text()
        'at most 0.01'
    """

    floors: tuple[KpiFloor, ...] = ()
    neighbours: NeighbourReward | None = None
    drift: Drift | None = None
    descriptors: Mapping[str, Descriptors] = field(default_factory=dict)

    def in_words(self) -> tuple[str, ...]:
        """Return the floors as sentences.

        Example:
            >>> Considerations(floors=(KpiFloor("drop_rate", at_most=0.01),)).in_words()
            ('drop_rate stays at most 0.01, with 95 % probability; where it is not so now, it becomes no worse.',)
        """
        worse = "where it is not so now, it becomes no worse"
        return tuple(
            f"{floor.name} stays {floor.text()}, with {100 * floor.confidence:g} % probability; {worse}."
            for floor in self.floors
        )


# --- Floors of other KPIs -------------------------------------------------------------------------------------------
#
# A setting keeps a floor if the mean of the KPI over the period does, with the floor's probability (`KpiFloor.margin`).
# Where the present setting is expected to break it, another may be better and still not good enough: then it must be
# no worse than the present one, with the same probability, from what is believed of both together.


def kpi_rows(samples: Samples, name: str) -> Samples:
    """Return the rows of a log that have a KPI, with the KPI in the place of the reward."""
    values = samples.kpis.get(name)
    known = np.zeros(len(samples), dtype=np.bool_) if values is None else np.isfinite(values)
    if values is None or np.count_nonzero(known) < 2:
        raise BadInputError(f"KPI {name!r} has a floor, but the log has it in fewer than two rows: check its column")
    rows = samples.take(known)
    return replace(rows, y=values[known], noise=None)


def keeping(
    floor: KpiFloor, evidence: GroupPosterior, averages: Averages, task: int, *, arms: IntArray, present: int
) -> tuple[BoolArray, FloatArray, FloatArray]:
    """Return which settings keep a floor, (A,), and mean (1 + A,) and std (A,) of the KPI, the present mean first.

    Args:
        floor: What must hold.
        evidence: What was told of the KPI.
        averages: The period; its first sum is the mean over all of it.
        task: The station.
        arms: The settings, (A,).
        present: What runs.
    """
    both = np.append(present, arms)
    C = covariances(evidence, averages, task, both)
    mean, std = evidence.mean + evidence.means(C), np.sqrt(variances(evidence, averages, task, arms, C[:, 1:]))
    kept = floor.margin(mean[1:], std) >= 0
    if breaks(floor, float(mean[0])):
        too_high = floor.at_most is not None and mean[0] > floor.at_most
        worse = (mean - mean[0] if too_high else mean[0] - mean)[1:]
        apart = differences(evidence, averages, task, both, C)[1:]
        kept |= worse + floor.beta * np.sqrt(apart) <= 0
    return np.asarray(kept), mean, std


def breaks(floor: KpiFloor, value: float) -> bool:
    """Return whether a KPI of this value breaks a floor.

    Example:
        >>> breaks(KpiFloor("drop_rate", at_most=0.01), 0.02)
        True
    """
    return bool(floor.margin(np.array([value]), np.zeros(1))[0] < 0)


# --- What neighbours gain and lose ----------------------------------------------------------------------------------
#
# A station can look good at its neighbours' expense (`NeighbourReward`). What its setting does to them is seen in what
# they earn in the same slot, less what their own state and setting let expect: the rest holds their noise, what their
# other neighbours did, and what this station did to them. So the mean of these rests over its neighbours is learned, as
# a function of the station's own context. A change is then judged by its own gain and what its neighbours gain
# together. Mixing rewards row by row, as a controller does, comes to the same on average; but their own settings would
# be noise in it, and where neighbours are set alike at the same time, what each does to itself would be taken for what
# it does to the other.

ALIKE_AROUND = 0.9
"""What similarity is multiplied by where it is about neighbours.

The rests are noise many times what a setting does to them. Of how differently stations treat their neighbours a
likelihood then sees nothing, and takes them for as alike as it may. With this factor intervals hold as often as they
say (`benchmarks/evening`, "neighbours").
"""

_TOGETHER = 400  # rows of a station that are held against each other at a time


def unexplained(samples: Samples, model: Model) -> FloatArray:
    """Return each reward less what is expected of its context by its station's other rows, (n,).

    It is nan where the station has no others.

    Example:
        >>> from kinband.kernels import RBF
        >>> from kinband.similarity import TaskMatrix
        >>> log = Samples(("a",), np.zeros(2, dtype=np.int64), np.zeros((2, 1)), np.array([1.0, 3.0]), None, ("load",))
        >>> model = Model(RBF(1.0), TaskMatrix(("a",), np.eye(1), "given"), noise=1.0, mean=0.0)
        >>> unexplained(log, model)  # 1 - 3/2 and 3 - 1/2
        array([-0.5,  2.5])
    """
    found = np.full(len(samples), np.nan)
    order = np.argsort(samples.tasks, kind="stable")
    noise = model.noise + model.shocks.day + model.shocks.spell
    for rows in np.split(order, np.flatnonzero(np.diff(samples.tasks[order])) + 1):
        parts = -(-len(rows) // _TOGETHER)
        for own in (rows[part::parts] for part in range(parts)) if len(rows) > 1 else ():
            C = model.kernel(samples.X[own], samples.X[own])
            C[np.diag_indices(len(own))] += noise
            inverse = np.linalg.inv(C)
            found[own] = inverse @ (samples.y[own] - model.mean) / np.diagonal(inverse)
    return found


def around(samples: Samples, model: Model, time: NDArray[np.generic] | None, rule: NeighbourReward) -> Samples:
    """Return the rows of a log with what their neighbours earned in the same slot, their own contexts left out.

    Rows without any neighbour's reward are left out. A mean over few neighbours is the noisier one, and is told so.

    Args:
        samples: The log.
        model: What is known of its rewards.
        time: Of each row, (n,).
        rule: Whose rewards count.
    """
    from scipy.sparse import csr_array

    if time is None:
        raise no_time("neighbours' rewards are matched by time, and the log has none")
    rule.check(samples.stations)
    rest = unexplained(samples, model)
    slots, slot = np.unique(time, return_inverse=True)
    M, known = len(samples.stations), np.isfinite(rest)
    cells, number, count = np.unique(slot[known] * M + samples.tasks[known], return_inverse=True, return_counts=True)
    mean = np.bincount(number.ravel(), weights=rest[known]) / count
    of_slots = (len(slots), M)
    there, earned = (csr_array((values, (cells // M, cells % M)), of_slots) for values in (np.ones(len(cells)), mean))
    A = _counts(rule, samples.stations)
    total, sums, squares = ((of @ by.T)[slot, samples.tasks] for of, by in ((there, A), (earned, A), (there, A * A)))
    rows = np.flatnonzero(total > 0)
    if not len(rows):
        raise BadInputError("no two neighbours have rows of the same time: check the names and times of neighbours")
    total, y = total[rows], sums[rows] / total[rows]
    wide = squares[rows] / total**2
    noise = float(rest[known].var()) * (wide - wide.min())
    return replace(samples.take(rows), y=y, noise=noise if noise.any() else None)


def _counts(rule: NeighbourReward, stations: Sequence[str]) -> Any:
    """How much each neighbour of each station counts, (M, M)."""
    from scipy.sparse import csr_array

    number = {name: m for m, name in enumerate(stations)}
    found = [
        (number[name], number[other], count)
        for name in rule.neighbours
        if name in number
        for other, count in rule.of(name).items()
        if other in number
    ]
    ours, theirs, counts = zip(*found, strict=True) if found else ((), (), ())
    M = len(stations)
    return csr_array((np.array(counts, dtype=np.float64), (np.array(ours, int), np.array(theirs, int))), (M, M))


def weight_around(rule: NeighbourReward, stations: Sequence[str]) -> FloatArray:
    """Return what the mean of its neighbours counts beside a station's own reward, that as 1, (M,).

    Example:
        >>> weight_around(NeighbourReward({"a": ["b", "c", "d"]}, weight={"a": 0.75}), ["a", "b"]).tolist()
        [3.0, 0.0]
    """
    shares = np.array([rule.weight_of(name) if rule.of(name) else 0.0 for name in stations])
    if (shares == 1).any():
        raise BadInputError(
            "a plan needs some weight on a station's own reward: give neighbours a weight from 0 to below 1",
            argument="weight",
        )
    return np.asarray(shares / (1.0 - shares))


def everybody_alike(neighbours: Mapping[str, Sequence[str]]) -> NeighbourReward:
    """Return the rule by which every neighbour counts as much as the station itself.

    Example:
        >>> everybody_alike({"a": ["b", "c", "d"]}).weight_of("a")
        0.75
    """
    return NeighbourReward(neighbours, {name: len(others) / (len(others) + 1) for name, others in neighbours.items()})


# --- The age of rows ------------------------------------------------------------------------------------------------
#
# The clock is one more column of contexts, as a controller has it (`kinband.drift`), here in half-lives before the end
# of the log: a plan is for what is true at its end, 0.


def aged(trace: Trace, samples: Samples, encoder: ContextEncoder, drift: Drift) -> tuple[Samples, ContextEncoder]:
    """Return a log with the age of its rows, and the encoder that knows of it."""
    encoder = timed_encoder(encoder, drift)
    return timed_samples(samples, -ages(trace, samples.tasks, drift), encoder.features), encoder


def fading(samples: Samples, drift: Drift) -> Kernel:
    """Return the kernel with which learning from rows that have an age begins."""
    place = samples.features.index(TIME_COLUMN)
    codes = tuple(code - (code > place) for code in samples.categorical)
    plain = replace(
        samples, X=np.delete(samples.X, place, axis=1), features=untimed(samples.features), categorical=codes
    )
    return forgetful(starting_kernel(plain), Drift(1.0, reset=False, keep=drift.keep), samples.features)


def ages(trace: Trace, tasks: IntArray, drift: Drift) -> FloatArray:
    """Return the age of every row of a log in half-lives, (n,): by its time, or by the rows that its station has since.

    Example:
        >>> log = {"station": ["a", "a", "b"], "time": [4, 8, 2], "tilt": [2, 4, 2], "reward": [0.1, 0.5, 0.4]}
        >>> trace = Trace.from_frame(log, {"configuration": ["tilt"]})
        >>> ages(trace, np.array([0, 0, 1]), Drift(2.0, clock="numbers")).tolist()
        [2.0, 0.0, 3.0]
        >>> ages(trace, np.array([0, 0, 1]), Drift(2.0)).tolist()
        [0.5, 0.0, 0.0]
    """
    half_life = drift.half_life
    if not isinstance(half_life, float):
        raise BadInputError("a plan takes a half-life that is given, in times or rows: it does not learn one")
    if drift.clock == "decisions":
        order = np.lexsort((np.arange(len(trace)) if trace.time is None else trace.time, tasks))
        ends = np.cumsum(np.bincount(tasks))[tasks[order]]
        since = np.empty(len(tasks))
        since[order] = ends - 1 - np.arange(len(tasks))
        return np.asarray(since / half_life)
    kind = None if trace.time is None else "dates" if trace.time.dtype.kind == "M" else "numbers"
    if kind != drift.clock:
        has = "no times" if kind is None else f"times that are {kind}"
        raise BadInputError(
            f"the half-life counts {drift.clock}, and the log has {has}",
            hint="give a span such as 14d where times are dates, a number where they are numbers, or rows",
        )
    at = seconds(trace.time)
    return np.asarray((at.max() - at) / half_life)


# --- What describes a station ---------------------------------------------------------------------------------------
#
# A station without rows is planned for as a newcomer is (`kinband.similarity.newcomers`): it is taken for a mixture of
# those that resemble it, as far as resemblance has turned out to say who is alike, and for something of its own. In a
# network that learns in groups it joins the group of the stations that it resembles most.

_RESEMBLING = 10  # stations by whose groups a newcomer's is chosen


def with_described(
    K_Z: FloatArray, stations: Sequence[str], newcomers: Sequence[str], descriptors: Mapping[str, Descriptors]
) -> FloatArray:
    """Return the task matrix (M + J, M + J) of M stations and J newcomers behind them.

    Example:
        >>> sites = {"a": {"x": 0.0}, "b": {"x": 1.0}, "c": {"x": 9.0}, "new": {"x": 0.5}}
        >>> K_Z = np.array([[1.0, 0.9, 0.1], [0.9, 1.0, 0.1], [0.1, 0.1, 1.0]])
        >>> row = with_described(K_Z, ["a", "b", "c"], ["new"], sites)[3]
        >>> bool(min(row[0], row[1]) > row[2])
        True
    """
    if not newcomers:
        return K_Z
    known = [descriptors.get(name, {}) for name in stations]
    kernel = useful_descriptor_kernel(K_Z, known)
    rows = [
        average_row(K_Z) if kernel is None else descriptor_row(K_Z, kernel, known, descriptors[name])
        for name in newcomers
    ]
    return with_newcomers(K_Z, rows)


def resembling(newcomer: Descriptors, stations: Sequence[Descriptors]) -> IntArray:
    """Return which of some stations a newcomer resembles most, at most ten.

    Quantities differ by their difference in standard deviations, words and what is not known by 1.

    Example:
        >>> sites = [{"x": float(x), "band": "n78"} for x in range(30)]
        >>> sorted(resembling({"x": 3.2, "band": "n78"}, sites).tolist())
        [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]
    """
    apart = np.zeros(len(stations))
    for name, value in newcomer.items():
        theirs = [station.get(name) for station in stations]
        if isinstance(value, str | bool):
            apart += np.array([other != value for other in theirs], dtype=np.float64)
            continue
        numbers = np.array([np.nan if other is None else float(other) for other in theirs])
        spread = float(np.nanstd(numbers)) if np.isfinite(numbers).any() else 0.0
        apart += np.nan_to_num(((numbers - value) / spread) ** 2, nan=1.0) if spread else 1.0
    return np.argsort(apart, kind="stable")[:_RESEMBLING]
