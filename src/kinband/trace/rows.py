"""The rows of a log as clean columns that belong together, and ways to pick some of them.

This is what a `Trace` is made of; how a trace is read, written and turned into numbers is in `table`. Columns are
checked when they are put together and cannot be written to afterwards, so whoever holds them may trust them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kinband.arrays import BoolArray, FloatArray, IntArray, finite_array
from kinband.contexts import checked_names
from kinband.errors import BadInputError
from kinband.trace.times import moment_like, times
from kinband.trace.values import (
    floats,
    natural_key,
    positive_or_unknown,
    settings,
    station_names,
)


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Rows:
    """n rows of a log.

    Attributes:
        station: Name of the station, (n,).
        reward: What was earned, (n,).
        configuration: Values of each knob, name to (n,).
        state: State features in their own units, (n, p).
        state_names: The p names of the state features.
        time: datetime64[us] or numbers, (n,); None if not known.
        noise: Variance of the rewards, (n,), nan where not known; None if never known.
        sample_count: Number of samples each reward is a share of, (n,), nan where not known; None if never known.
        kpis: Further KPIs by name, (n,), nan where not known; see `kinband.kpis`.

    Example:
        >>> columns = {"station": np.array(["b", "a"]), "reward": np.array([0.8, 0.9]), "state": np.zeros((2, 0))}
        >>> rows = Rows(**columns, configuration={"tilt": np.array([2, 4])}, state_names=())
        >>> len(rows), rows.stations, rows.select([1]).configuration["tilt"].tolist()
        (2, ('a', 'b'), [4])
    """

    station: NDArray[np.str_]
    reward: FloatArray
    configuration: Mapping[str, NDArray[Any]]
    state: FloatArray
    state_names: tuple[str, ...]
    time: NDArray[Any] | None = None
    noise: FloatArray | None = None
    sample_count: FloatArray | None = None
    kpis: Mapping[str, FloatArray] = field(default_factory=dict)

    def __post_init__(self) -> None:
        names = checked_names(self.state_names, what="state features")
        checked_names((*names, *self.configuration, *self.kpis), what="state features, knobs and KPIs together")
        clean: dict[str, Any] = {
            "station": station_names(self.station, label="station"),
            "reward": floats(self.reward, label="reward"),
            "configuration": {k: settings(v, label=f"knob {k!r}") for k, v in self.configuration.items()},
            "state": finite_array(self.state, name="state", ndim=2),
            "state_names": names,
            "time": None if self.time is None else times(self.time, label="time"),
            "noise": positive_or_unknown(self.noise, label="noise"),
            "sample_count": positive_or_unknown(self.sample_count, label="sample count", least=1),
            "kpis": {k: floats(v, label=f"KPI {k!r}", unknown=True) for k, v in self.kpis.items()},
        }
        for name, value in clean.items():
            object.__setattr__(self, name, _frozen(value))
        self._check_shape()

    def _check_shape(self) -> None:
        if not self.configuration:
            raise BadInputError("a trace needs at least one configuration column")
        if self.state.shape[1] != len(self.state_names):
            raise BadInputError(f"state has {self.state.shape[1]} columns and {len(self.state_names)} names")
        lengths = {name: len(column) for name, column in self._columns().items()} | {"state": len(self.state)}
        if len(set(lengths.values())) > 1:
            raise BadInputError(f"the columns of a trace differ in length: {lengths}")
        if not len(self):
            raise BadInputError("a trace needs at least one row")

    def __len__(self) -> int:
        return len(self.reward)

    @cached_property
    def stations(self) -> tuple[str, ...]:
        """The stations in natural order: numbers as numbers, whatever the order of the rows."""
        return tuple(sorted(np.unique(self.station).tolist(), key=natural_key))

    def select(self, rows: ArrayLike) -> Self:
        """Return some of the rows, named by a boolean for each or by their numbers from 0.

        Example:
            >>> from kinband import Trace
            >>> log = {"station": [1, 2], "tilt": [2, 4], "reward": [0.8, 0.9]}
            >>> Trace.from_frame(log, {"configuration": ["tilt"]}).select([1]).stations
            ('2',)
        """
        picked = _row_numbers(rows, size=len(self))
        columns = {
            name: getattr(self, name) for name in ("station", "reward", "state", "time", "noise", "sample_count")
        }
        chosen: dict[str, Any] = {name: None if value is None else value[picked] for name, value in columns.items()}
        knobs = {name: values[picked] for name, values in self.configuration.items()}
        kpis = {name: values[picked] for name, values in self.kpis.items()}
        return replace(self, **chosen, configuration=knobs, kpis=kpis)

    def sample(self, rows_per_station: int, rng: np.random.Generator) -> Self:
        """Return at most so many rows of each station, drawn without replacement, in their old order.

        Example:
            >>> from kinband import Trace
            >>> log = {"station": [1, 1, 1, 2], "tilt": [2, 4, 6, 4], "reward": [0.8, 0.9, 0.7, 0.6]}
            >>> len(Trace.from_frame(log, {"configuration": ["tilt"]}).sample(2, np.random.default_rng(0)))
            3
        """
        count = _count(rows_per_station)
        if not isinstance(rng, np.random.Generator):
            raise BadInputError(f"rng must be a generator such as numpy.random.default_rng(0), got {rng!r}")
        chosen = []
        for station in self.stations:
            rows = np.flatnonzero(self.station == station)
            chosen.append(rng.choice(rows, size=min(count, len(rows)), replace=False))
        return self.select(np.sort(np.concatenate(chosen)))

    def split(self, at: object) -> tuple[Self, Self]:
        """Return the rows before a time and the rows from it on.

        Example:
            >>> from kinband import Trace
            >>> log = {"station": [1, 1], "time": ["2024-05-01", "2024-05-02"], "tilt": [2, 4], "reward": [0.8, 0.9]}
            >>> before, after = Trace.from_frame(log, {"configuration": ["tilt"]}).split("2024-05-02")
            >>> before.reward.tolist(), after.reward.tolist()
            ([0.8], [0.9])
        """
        if self.time is None:
            raise BadInputError("the trace has no time to be split at: name its column in columns={'time': ...}")
        early = self.time < moment_like(at, self.time)
        if early.all() or not early.any():
            raise BadInputError(
                f"{at} does not split the trace, which runs from {self.time.min()} to {self.time.max()}"
            )
        return self.select(early), self.select(~early)

    def repeated(self) -> BoolArray:
        """Return which rows repeat an earlier one in every column, (n,).

        Example:
            >>> from kinband import Trace
            >>> log = {"station": ["a", "a", "b"], "tilt": [2, 2, 2], "reward": [0.5, 0.5, 0.5]}
            >>> Trace.from_frame(log, {"configuration": ["tilt"]}, duplicates="drop").repeated().tolist()
            [False, False]
        """
        columns = [*self._columns().values(), *self.state.T]
        codes = np.column_stack([np.unique(column, return_inverse=True)[1] for column in columns])
        repeated = np.ones(len(codes), dtype=np.bool_)
        repeated[np.unique(codes, axis=0, return_index=True)[1]] = False
        return repeated

    def _single(self) -> dict[str, NDArray[Any]]:
        """The columns of the roles that have one column, by role."""
        columns = {"station": self.station, "time": self.time, "reward": self.reward}
        columns |= {"noise": self.noise, "samples": self.sample_count}
        return {role: column for role, column in columns.items() if column is not None}

    def _columns(self) -> dict[str, NDArray[Any]]:
        knobs = {f"knob {name}": values for name, values in self.configuration.items()}
        return self._single() | knobs | {f"KPI {name}": values for name, values in self.kpis.items()}

    def _same_columns(self, other: "Rows") -> bool:
        if (self.state_names, list(self.configuration)) != (other.state_names, list(other.configuration)):
            return False
        mine, theirs = self._columns(), other._columns()
        return (
            np.array_equal(self.state, other.state)
            and mine.keys() == theirs.keys()
            and all(_same(column, theirs[name]) for name, column in mine.items())
        )


def _row_numbers(rows: object, *, size: int) -> IntArray:
    """The numbers of selected rows, given as one boolean for each of `size` rows or as numbers."""
    picked = _array(rows)
    if picked is None or picked.ndim != 1 or (picked.size and picked.dtype.kind not in "biu"):
        raise BadInputError(f"rows are selected by a list of booleans or of row numbers, got {rows!r:.60}")
    if picked.dtype.kind == "b":
        if len(picked) != size:
            raise BadInputError(f"the selection has {len(picked)} booleans, the trace has {size} rows")
        picked = np.flatnonzero(picked)
    if not picked.size:
        raise BadInputError("no row is selected: a trace needs at least one")
    if picked.min() < 0 or picked.max() >= size:
        raise BadInputError(f"rows are numbered 0 to {size - 1}, got {picked.min()} to {picked.max()}")
    return picked.astype(np.int64)


def _array(rows: object) -> NDArray[Any] | None:
    try:
        return np.asarray(rows)
    except ValueError:  # lists of different lengths
        return None


def _count(rows_per_station: object) -> int:
    if not isinstance(rows_per_station, int | np.integer) or isinstance(rows_per_station, bool) or rows_per_station < 1:
        raise BadInputError(f"rows_per_station must be a whole number of at least 1, got {rows_per_station!r}")
    return int(rows_per_station)


def _frozen(value: Any) -> Any:
    """A copy that nobody can write to."""
    if isinstance(value, dict):
        return MappingProxyType({name: _frozen(values) for name, values in value.items()})
    if isinstance(value, np.ndarray):
        value = value.copy()
        value.setflags(write=False)
    return value


def _same(a: NDArray[Any], b: NDArray[Any]) -> bool:
    return np.array_equal(a, b, equal_nan=a.dtype.kind == "f" and b.dtype.kind == "f")
