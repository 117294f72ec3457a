"""`Trace`: a log that has been checked, its rows, stations and times, and how one is read from a file or a table."""

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from os import PathLike
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kinband.arrays import BoolArray, FloatArray, IntArray, data_frame, finite_array, free_name
from kinband.contexts import ContextEncoder, StateScaler, checked_names
from kinband.errors import BadInputError, NotFoundError
from kinband.records import Samples
from kinband.space import ConfigurationSpace
from kinband.trace.cells import joined_times
from kinband.trace.columns import (
    ColumnMap,
    RowError,
    arrays_of,
    floats,
    moment_like,
    natural_key,
    other_mark,
    positive_or_unknown,
    quoted,
    roles_of,
    settings,
    station_names,
    table_of,
    times,
    weighted_of,
)
from kinband.trace.files import TableReading, bundled_file, located, path_of, read_table, write_table
from kinband.trace.guesses import guessed_time, only_time, proposed_options, station_column
from kinband.trace.problems import MANY, clock_change, named_columns, oddities, sound_rows
from kinband.trace.rewards import (
    WeightedReward,
    as_shares,
    check_counted,
    looks_like_per_cent,
    noise_of_shares,
    range_of,
    summed_columns,
)

if TYPE_CHECKING:
    from pandas import DataFrame

# --- A log of what stations ran and what it earned, checked when it comes in ----------------------------------------
#
# A trace is a table with one row per station and measurement period: who, when, in which state, with which
# configuration, and the reward. It stays in the user's units and names; `samples` gives the numerical view that
# kernels and estimators use. A reward may come with its variance or with the number of samples it is a share of: a
# share over few users is worth less than one over many, and the variance p(1 - p)/n says so. Columns are checked when
# they are put together and cannot be written to afterwards, so whoever holds them may trust them.

Duplicates = Literal["keep", "drop", "error"]


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Trace:
    """A tabular log of n rows. Make one by `Trace.read` or `Trace.from_frame`.

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
        carried: The configuration space that `with_space` attached.
        weighted: What the reward was summed up from, where it was; not written to files.
        reward_name: What the reward is called.

    Example:
        >>> log = {"station": [1, 1, 2], "load": [0.2, 0.4, 0.3], "tilt": [2, 4, 4], "reward": [0.8, 0.9, 0.7]}
        >>> trace = Trace.from_frame(log, {"configuration": ["tilt"]})
        >>> trace
        Trace(3 rows, 2 stations; state: load; configuration: tilt)
        >>> trace.reward.tolist(), trace.configuration["tilt"].tolist(), trace.state.shape
        ([0.8, 0.9, 0.7], [2, 4, 4], (3, 1))
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
    carried: ConfigurationSpace | None = None
    weighted: WeightedReward | None = field(default=None, compare=False)
    reward_name: str = field(default="reward", compare=False)

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
            >>> log = {"station": [1, 1, 1, 2], "tilt": [2, 4, 6, 4], "reward": [0.8, 0.9, 0.7, 0.6]}
            >>> len(Trace.from_frame(log, {"configuration": ["tilt"]}).sample(2, np.random.default_rng(0)))
            3
        """
        count = _count(rows_per_station)
        if not isinstance(rng, np.random.Generator):
            raise BadInputError(f"rng must be a generator such as numpy.random.default_rng(0), got {rng!r}")
        chosen = [rng.choice(rows, size=min(count, len(rows)), replace=False) for rows in rows_by_station(self)]
        return self.select(np.sort(np.concatenate(chosen)))

    def split(self, at: object) -> tuple[Self, Self]:
        """Return the rows before a time and the rows from it on.

        Example:
            >>> log = {"station": [1, 1], "time": ["2024-05-01", "2024-05-02"], "tilt": [2, 4], "reward": [0.8, 0.9]}
            >>> before, after = Trace.from_frame(log, {"configuration": ["tilt"]}).split("2024-05-02")
            >>> before.reward.tolist(), after.reward.tolist()
            ([0.8], [0.9])
        """
        if self.time is None:
            raise no_time("the trace has no time to be split at")
        early = self.time < moment_like(at, self.time)
        if early.all() or not early.any():
            raise BadInputError(
                f"{at} does not split the trace, which runs from {self.time.min()} to {self.time.max()}"
            )
        return self.select(early), self.select(~early)

    def repeated(self) -> BoolArray:
        """Return which rows repeat an earlier one in every column, (n,).

        Example:
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

    @classmethod
    def read(
        cls,
        path: str | PathLike[str],
        columns: ColumnMap | None = None,
        *,
        reward_range: tuple[float, float] | None = None,
        per_cent: bool = False,
        duplicates: Duplicates = "keep",
        skip_bad: bool = False,
        delimiter: str | None = None,
        decimal_point: str | None = None,
        encoding: str | None = None,
        date_format: str | None = None,
    ) -> "Trace":
        """Read a file: text (.csv, .tsv, .txt, also packed as .gz or .zip), .xlsx or .parquet.

        Args:
            path: The file; its suffix tells the format.
            columns: Which column is what, see `from_frame`. Not needed for a file that `write` made.
            reward_range: Lowest and highest possible reward; a reward outside is an error.
            per_cent: Whether rewards are in per cent, to be turned into shares.
            duplicates: What to do about rows that repeat another exactly; "keep" warns of them.
            skip_bad: Whether rows with cells that are missing or not understood are left out, with a warning that
                counts them, rather than refused.
            delimiter: What separates the columns of a text file; found if not given, as what follows.
            decimal_point: The decimal mark of a text file.
            encoding: The encoding of a text file, such as "cp1252".
            date_format: "dmy" or "mdy", what comes first in dates such as 03/04/2024, or a pattern of strptime.
        """
        marks: dict[str, Any] = {"delimiter": delimiter, "decimal_point": decimal_point}
        marks |= {"encoding": encoding, "date_format": date_format}
        how: dict[str, Any] = {"reward_range": reward_range, "per_cent": per_cent, "duplicates": duplicates}
        return read_log(path, columns, skip_bad=skip_bad, marks=marks, **how)[0]

    @classmethod
    def bundled(cls) -> "Trace":
        """Return the trace that comes with kinband: a simulated city of 105 stations over five afternoons.

        `kinband simulate` wrote it; docs/extend.md shows the city.

        Example:
            >>> trace = Trace.bundled()
            >>> len(trace.stations), len(trace.space()), trace.state_names[0]
            (105, 29, 'active_users')
        """
        return cls.read(bundled_file("city.parquet"))

    @classmethod
    def from_frame(
        cls,
        frame: Any,
        columns: ColumnMap | None = None,
        *,
        reward_range: tuple[float, float] | None = None,
        per_cent: bool = False,
        duplicates: Duplicates = "keep",
    ) -> "Trace":
        """Take a pandas, polars or pyarrow table, or a mapping from column name to values.

        Args:
            frame: The table.
            columns: Which column is what. "station", "reward", "time", "noise" (a variance) and "samples" (a count)
                name one column each, and need no entry where the column has that very name; None leaves out an
                optional one. "configuration" (needed) and "state" (all other numeric columns if not given) are lists
                of columns, or mappings from new name to column, and so is "kpis", what is neither reward nor state but
                may have a floor (docs/your-data.md). "ignore" lists columns that are not state either. "reward" may be
                a weighted sum: {"good": 0.8, "rate": 0.02}, a `WeightedReward`, or "0.8*good+0.02*rate".
            reward_range: Lowest and highest possible reward; a reward outside is an error.
            per_cent: Whether rewards are in per cent, and their noise in its square, to be turned into shares before
                anything else is made of them.
            duplicates: What to do about rows that repeat another exactly; "keep" warns of them.

        Example:
            >>> log = {"cell": [7, 8], "load": [0.2, 0.4], "tilt": [2, 4], "good": [0.8, 0.9]}
            >>> trace = Trace.from_frame(log, {"station": "cell", "reward": "good", "configuration": ["tilt"]})
            >>> trace.stations, trace.state_names, trace.reward.tolist()
            (('7', '8'), ('load',), [0.8, 0.9])
        """
        if not isinstance(duplicates, str) or duplicates not in ("keep", "drop", "error"):
            raise BadInputError(f"duplicates must be 'keep', 'drop' or 'error', got {duplicates!r}")
        limits = None if reward_range is None else range_of(reward_range)
        table = table_of(frame)
        roles, weighted = roles_of(table, columns), weighted_of(table, columns)
        check_counted(weighted, samples=roles["samples"].get("samples"))
        clean = arrays_of(table, roles, weighted=weighted)
        called = roles["reward"]["reward"] if weighted is None else str(weighted)
        trace = cls(**(as_shares(clean) if per_cent else clean), weighted=weighted, reward_name=called)
        if limits is not None:
            label = f"column {roles['reward']['reward']!r}" if weighted is None else f"the reward {weighted}"
            _check_range(trace.reward, limits, label=label)
        return trace._without_repeats(duplicates)

    def write(self, path: str | PathLike[str]) -> None:
        """Store the trace as .parquet, .csv or .csv.gz, together with its column map; `read` gives it back exactly.

        Example:
            >>> from tempfile import TemporaryDirectory
            >>> log = {"station": [1, 1], "tilt": [2, 4], "reward": [0.8, 0.9]}
            >>> trace = Trace.from_frame(log, {"configuration": ["tilt"]})
            >>> with TemporaryDirectory() as folder:
            ...     trace.write(f"{folder}/log.parquet")
            ...     Trace.read(f"{folder}/log.parquet") == trace
            True
        """
        names, columns = self._named()
        roles = {**dict.fromkeys(("time", "noise", "samples")), **names}
        roles |= {"state": list(self.state_names), "configuration": list(self.configuration)}
        roles |= {"kpis": list(self.kpis)} if self.kpis else {}
        space = None if self.carried is None else self.carried.to_dict()
        note = {"columns": roles, "space": space, "reward_name": self.reward_name}
        write_table(path_of(path, what="a trace"), columns, note=note)

    def frame(self) -> "DataFrame":
        """Return the log as a pandas data frame: one row a period; names that are taken twice get an underscore.

        Example:
            >>> log = {"station": [1, 1], "tilt": [2, 4], "reward": [0.8, 0.9]}
            >>> Trace.from_frame(log, {"configuration": ["tilt"]}).frame()
              station  reward  tilt
            0       1     0.8     2
            1       1     0.9     4
        """
        return data_frame(self._named()[1])

    def _named(self) -> tuple[dict[str, str], dict[str, NDArray[Any]]]:
        """The names of the columns that have a role each, and all columns by name."""
        taken = {*self.state_names, *self.configuration, *self.kpis}
        names = {role: free_name(role, taken) for role in self._single()}
        columns = {names[role]: column for role, column in self._single().items()}
        columns |= dict(zip(self.state_names, self.state.T.copy(), strict=True)) | dict(self.configuration)
        return names, columns | dict(self.kpis)

    def _without_repeats(self, duplicates: Duplicates) -> "Trace":
        repeated = self.repeated()
        count = int(repeated.sum())
        if not count:
            return self
        if duplicates == "error":
            raise RowError(f"{count} row(s) repeat another exactly, the first", np.flatnonzero(repeated)[0])
        if duplicates == "drop":
            return self.select(~repeated)
        text = f"{count} row(s) repeat another exactly and are kept; duplicates='drop' leaves them out"
        warnings.warn(text, UserWarning, stacklevel=3)
        return self

    def __repr__(self) -> str:
        state, knobs = ", ".join(self.state_names) or "none", ", ".join(self.configuration)
        if len(self.state_names) > MANY:
            state = f"{', '.join(self.state_names[:MANY])} and {len(self.state_names) - MANY:,} more"
        return f"Trace({len(self)} rows, {len(self.stations)} stations; state: {state}; configuration: {knobs})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Trace):
            return NotImplemented
        mine, theirs = self._columns(), other._columns()
        return (
            (self.carried, self.state_names, list(self.configuration), mine.keys())
            == (other.carried, other.state_names, list(other.configuration), theirs.keys())
            and np.array_equal(self.state, other.state)
            and all(_same(column, theirs[name]) for name, column in mine.items())
        )

    def reward_noise(self) -> FloatArray | None:
        """Return the variance of each reward, (n,), nan where it is not known; None if it never is.

        A share over n samples has p(1 - p)/n with p = (share·n + 1)/(n + 2), which is never 0. A given noise
        goes before a sample count.

        Example:
            >>> log = {"station": [1], "tilt": [2], "reward": [1.0], "samples": [8]}
            >>> Trace.from_frame(log, {"configuration": ["tilt"]}).reward_noise().round(5).tolist()
            [0.01125]
        """
        if self.sample_count is None:
            return self.noise
        variance = noise_of_shares(self.reward, self.sample_count)
        return variance if self.noise is None else np.where(np.isnan(self.noise), variance, self.noise)

    def space(self) -> ConfigurationSpace:
        """Return the carried configuration space, or that of the configurations observed here, sorted.

        Example:
            >>> log = {"station": [1, 1], "tilt": [4, 2], "reward": [0.8, 0.9]}
            >>> list(Trace.from_frame(log, {"configuration": ["tilt"]}).space())
            [{'tilt': 2}, {'tilt': 4}]
        """
        if self.carried is not None:
            return self.carried
        rows = set(zip(*(column.tolist() for column in self.configuration.values()), strict=True))
        ordered = sorted(rows, key=lambda row: [natural_key(v) if isinstance(v, str) else v for v in row])
        if len(self.configuration) == 1:
            return ConfigurationSpace(**{name: [row[0] for row in ordered] for name in self.configuration})
        return ConfigurationSpace.from_list([dict(zip(self.configuration, row, strict=True)) for row in ordered])

    def with_space(self, space: ConfigurationSpace) -> "Trace":
        """Return the same trace carrying the space it belongs to, after checking that every row lies in it.

        Example:
            >>> log = {"station": [1, 1], "tilt": [2, 4], "reward": [0.8, 0.9]}
            >>> trace = Trace.from_frame(log, {"configuration": ["tilt"]})
            >>> len(trace.space()), len(trace.with_space(ConfigurationSpace(tilt=range(9))).space())
            (2, 9)
        """
        if not isinstance(space, ConfigurationSpace):
            raise BadInputError(f"space must be a ConfigurationSpace, got {type(space).__name__}")
        space.indices(self.configuration)
        return replace(self, carried=space)

    def scaler(self) -> StateScaler:
        """Return the scaling fitted to the states of this trace; warns of features that never vary."""
        return StateScaler.fit(self.state_names, self.state)

    def encoder(self) -> ContextEncoder:
        """Return the encoder of states and configurations fitted to this trace."""
        return ContextEncoder(self.scaler(), self.space())

    def samples(self, encoder: ContextEncoder | None = None, *, stations: Sequence[str] | None = None) -> Samples:
        """Return the numerical view of the trace.

        Args:
            encoder: Makes the contexts; fitted to this trace if not given.
            stations: The stations whose positions become task numbers, `self.stations` if not given.

        Example:
            >>> log = {"station": [9, 10], "load": [0.2, 0.4], "tilt": [2, 6], "reward": [0.8, 0.9]}
            >>> samples = Trace.from_frame(log, {"configuration": ["tilt"]}).samples()
            >>> samples.stations, samples.X.round(3).tolist()
            (('9', '10'), [[-1.0, -1.0], [1.0, 1.0]])
        """
        encoder = self.encoder() if encoder is None else encoder
        if not isinstance(encoder, ContextEncoder):
            raise BadInputError(f"encoder must be a ContextEncoder, got {encoder!r:.60}")
        stations = self.stations if stations is None else checked_names(stations, what="stations")
        task = {name: number for number, name in enumerate(stations)}
        unknown = [name for name in self.stations if name not in task]
        if unknown:
            raise NotFoundError(f"the trace has {len(unknown)} station(s) that are not listed, such as {unknown[0]!r}")
        if set(encoder.state.names) != set(self.state_names):
            raise BadInputError(
                f"the trace has the state {self.state_names}, the encoder was made for {encoder.state.names}"
            )
        order = [self.state_names.index(name) for name in encoder.state.names]
        noise, arms = self.reward_noise(), encoder.space.indices(self.configuration)
        return Samples(
            tuple(stations),
            np.array([task[name] for name in self.stations], dtype=np.int64)[station_numbers(self)],
            encoder.encode(self.state[:, order], arms),
            self.reward.copy(),
            None if noise is None else noise.copy(),
            encoder.features,
            encoder.categorical,
            arms,
            {name: values.copy() for name, values in self.kpis.items()},
        )


def station_numbers(trace: Trace) -> IntArray:
    """Return the position of every row's station among the stations of a trace, (n,)."""
    import pyarrow as pa

    coded = pa.array(
        trace.station, pa.large_string()
    ).dictionary_encode()  # hashed: a sort of millions of names takes seconds
    place = {name: number for number, name in enumerate(trace.stations)}
    found = np.array([place[name] for name in coded.dictionary.to_pylist()], dtype=np.int64)
    return np.asarray(found[coded.indices.to_numpy()])


def rows_by_station(trace: Trace) -> list[IntArray]:
    """Return the rows of each station, ascending, in the order of the stations."""
    number = station_numbers(trace)
    ends = np.cumsum(np.bincount(number, minlength=len(trace.stations)))
    return np.split(np.argsort(number, kind="stable"), ends[:-1])


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


def _check_range(reward: FloatArray, reward_range: tuple[float, float], *, label: str) -> None:
    """Refuse rewards, (n,), outside a range, and say so if they look like per cent."""
    low, high = reward_range
    outside = np.flatnonzero((reward < low) | (reward > high))
    if len(outside):
        hint, code = "repair these rows or widen reward_range", "reward_range"
        if high <= 1 and looks_like_per_cent(reward):
            hint, code = "they look like per cent, say so with per_cent=True", "per_cent"
        text = f"{label} has {len(outside)} value(s) outside [{low:g}, {high:g}], the first is {reward[outside[0]]:g}"
        raise RowError(text, outside[0], hint, code)


# --- A log in a file --------------------------------------------------------------------------------------------------


def read_log(
    path: str | PathLike[str],
    columns: ColumnMap | None,
    *,
    further: str | None = None,
    kpis: Sequence[str] = (),
    categories: Sequence[str] = (),
    skip_bad: bool = False,
    marks: Mapping[str, Any],
    **how: Any,
) -> tuple[Trace, NDArray[np.str_] | None]:
    """Return the log of a file and, if asked for, one more column of it as text, (n,).

    `kpis` are further KPIs, and no states; `categories` are knobs that may hold words among numbers; `marks` are
    arguments of `read_table`, and `how` of `Trace.from_frame`.
    """
    file = path_of(path, what="a trace")
    alone = further is not None and further not in _claimed(columns)
    text = [*named_columns(columns), *([further] if alone and further is not None else [])]
    reading = read_table(file, text=text, noted=columns is None, **marks)
    space = None
    if reading.note is not None:
        columns, space = _with_kpis(reading.note["columns"], kpis, instead=("state",)), reading.note["space"]
        called = reading.note.get("reward_name")
        reading.note = None
        full = reading.cleaned.table
        ranged = how.get("reward_range") is not None
        with located(file, delimiter=marks.get("delimiter")):
            roles = roles_of(table_of(full), columns)
        full, rows = sound_rows(reading, roles, skip_bad=skip_bad, ranged=ranged)
        with located(file, delimiter=marks.get("delimiter"), rows=rows):
            trace = Trace.from_frame(full, columns, **how)
        trace = trace if not isinstance(called, str) else replace(trace, reward_name=called)
        trace = trace if space is None else trace.with_space(ConfigurationSpace.from_dict(space))
        return trace, None if further is None else _labels(full, further)
    columns = _with_kpis(columns, kpis)
    for name in set(categories) & set(reading.cleaned.bad):
        _as_words(reading, name)
    if further is not None and further not in reading.cleaned.table.column_names:
        known = quoted(reading.cleaned.table.column_names)
        raise BadInputError(f"there is no column {further!r}; the columns are {known}")
    columns = understood_columns(reading, columns)
    with located(file, delimiter=marks.get("delimiter")):
        roles = _roles(reading, columns)
    needed, ranged = () if further is None else (further,), how.get("reward_range") is not None
    table, rows = sound_rows(reading, roles, skip_bad=skip_bad, needed=needed, ranged=ranged)
    for note in (*reading.cleaned.notes, *reading.left_out):
        warnings.warn(note, UserWarning, stacklevel=3)
    with located(file, delimiter=marks.get("delimiter"), rows=rows):
        trace = Trace.from_frame(table, columns, **how)
    named = isinstance(columns, Mapping) and columns.get("state")
    for said in (clock_change(trace.time, trace.station), *oddities(trace, named=bool(named))):
        if said:
            warnings.warn(said, UserWarning, stacklevel=3)
    return trace, None if further is None else _labels(table, further)


def _with_kpis(columns: ColumnMap | None, kpis: Sequence[str], *, instead: Sequence[str] = ("ignore",)) -> Any:
    """A column map with further KPIs, which lose the roles that they had instead."""
    if not kpis:
        return columns
    made = dict(columns or {})
    made["kpis"] = list(dict.fromkeys([*made.get("kpis", ()), *kpis]))
    return made | {role: [name for name in made[role] if name not in kpis] for role in instead if made.get(role)}


def no_time(problem: str) -> BadInputError:
    """Return the refusal of a log without times, where they are needed."""
    return BadInputError(problem, hint="name its column in columns={'time': ...}", code="no_time", argument="time")


def _labels(table: Any, name: str) -> NDArray[np.str_]:
    if name not in table.column_names:
        raise BadInputError(f"there is no column {name!r}; the columns are {quoted(table.column_names)}")
    labels = table.column(name).to_pylist()
    if None in labels:
        raise RowError(f"column {name!r} has a missing value, the first", labels.index(None), "repair these rows")
    return np.array([str(label) for label in labels])


def _as_words(reading: TableReading, name: str) -> None:
    table = reading.cleaned.table
    text = reading.cleaned.bad.pop(name)[1]
    reading.cleaned.table = table.set_column(table.column_names.index(name), name, text)


def understood_columns(reading: TableReading, columns: ColumnMap | None) -> dict[str, Any]:
    """Return the column map with station and time where their names tell; day and hour are joined into one column.

    What was guessed is added to the notes of the reading.
    """
    if columns is not None and not isinstance(columns, Mapping):
        return columns  # type: ignore[unreachable]  # which is refused where it is used
    table, made, notes = reading.cleaned.table, dict(columns or {}), reading.cleaned.notes
    claimed = _claimed(columns)
    station, why = station_column(table, without=claimed, by_kind=columns is not None)
    if "station" not in made and station not in (None, "station"):
        made["station"] = station
        notes.append(f"column {station!r} is taken for the station, {why}: --station says otherwise")
    guess, why = guessed_time(table), "by its name"
    if guess is None and "time" not in table.column_names and columns is not None:
        guess, why = only_time(table, without=claimed), "the only one of dates"
    if "time" not in made and guess not in (None, "time") and not set(str(guess).split("+")) & claimed:
        made["time"] = guess
        notes.append(f"column {guess!r} is taken for the time, {why}: --time says otherwise")
    time = made.get("time")
    if isinstance(time, str) and "+" in time and time not in table.column_names:
        _join(reading, made, time)
    return made


def _claimed(columns: ColumnMap | None) -> set[str]:
    """The columns that a map names for anything; what is no map is refused where it is used."""
    if not isinstance(columns, Mapping):
        return set()
    found: set[str] = set()
    for value in columns.values():
        listed = value.values() if isinstance(value, Mapping) else value
        found |= {listed} if isinstance(listed, str) else set(listed) if isinstance(listed, Iterable) else set()
    return found | set(summed_columns(columns.get("reward")))


def _join(reading: TableReading, columns: dict[str, Any], time: str) -> None:
    """Make one column of a column of days and one of hours, which are then no state."""
    table = reading.cleaned.table
    day, _, hour = (part.strip() for part in time.partition("+"))
    if absent := [name for name in (day, hour) if name not in table.column_names]:
        raise BadInputError(
            f"there is no column {absent[0]!r} (the time); the columns are {quoted(table.column_names)}",
            code="no_column", argument="time", value=absent[0], hint='pass columns={"time": "Date+Hour"}',
        )  # fmt: skip
    joined = joined_times(table.column(day), table.column(hour), label=f"the time {time!r}")
    reading.cleaned.table = table.append_column(time, joined)
    columns["time"] = time
    columns["ignore"] = [
        *(columns.get("ignore") or []),
        *(n for n in (day, hour) if n not in (columns.get("ignore") or [])),
    ]


def _check_reward(table: Any, columns: Any) -> None:
    """Refuse a column of words for the reward, whatever else may be wrong."""
    import pyarrow as pa

    known = columns if isinstance(columns, Mapping) else {}
    given, station = known.get("reward", "reward"), known.get("station", "station")
    named = [given] if isinstance(given, str) and given in table.column_names else summed_columns(given)
    for name in named:
        if name == station or table.column_names.count(name) != 1 or table.column(name).type != pa.string():
            continue
        word = next((value for value in table.column(name).to_pylist() if value is not None), "")
        if mark := other_mark(word):
            raise BadInputError(
                f"column {name!r} is to be the reward, and {word!r:.40} is no number with the decimal mark that was "
                "given",
                hint=f"pass decimal_point={mark!r}, or leave it out", code="decimal_mark", argument="decimal_point",
                value=mark,
            )  # fmt: skip
        raise BadInputError(
            f"column {name!r} is to be the reward, but holds words such as {word!r:.40}, and a reward is a number",
            hint="name another column", code="no_reward", argument="reward",
        )  # fmt: skip


def _roles(reading: TableReading, columns: ColumnMap) -> Any:
    """The roles of the columns; where one is not known, options that would name it are proposed."""
    table = reading.cleaned.table
    _check_reward(table, columns)
    try:
        return roles_of(table_of(table), columns)
    except RowError:
        raise
    except BadInputError as error:
        if error.code != "no_column" or error.argument not in ("reward", "configuration", "station"):
            raise
        if columns.get(error.argument) and error.argument != "station":
            raise  # it was named, and is not there
        raise BadInputError(
            error.problem, hint=error.hint, code="role_unknown", argument=error.argument,
            value=proposed_options(table, columns),
        ) from error  # fmt: skip
