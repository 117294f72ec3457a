"""A log of what stations ran and what it earned, checked when it comes in.

A trace is a table with one row per station and measurement period: who, when, in which state, with which
configuration, and the reward. It stays in the user's units and names; `samples` gives the numerical view that
kernels and estimators use. A reward may come with its variance or with the number of samples it is a share of: a
share over few users is worth less than one over many, and the variance p(1 - p)/n says so.
"""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from os import PathLike
from typing import Any, Literal

import numpy as np

from kinband.arrays import FloatArray
from kinband.contexts import ContextEncoder, StateScaler, checked_names
from kinband.errors import BadInputError, NotFoundError
from kinband.records import Samples
from kinband.space import ConfigurationSpace
from kinband.trace.files import bundled_file, path_of, read_file, write_table
from kinband.trace.lines import located
from kinband.trace.rewards import as_shares, check_counted, check_range, noise_of_shares, range_of
from kinband.trace.roles import ColumnMap, arrays_of, roles_of, table_of, weighted_of
from kinband.trace.rows import Rows
from kinband.trace.values import RowError, natural_key
from kinband.trace.weighted import WeightedReward

Duplicates = Literal["keep", "drop", "error"]


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Trace(Rows):
    """A tabular log of n rows. Make one by `Trace.read` or `Trace.from_frame`; `Rows` says what its columns are.

    Attributes:
        carried: The configuration space that `with_space` attached.
        weighted: What the reward was summed up from, where it was; not written to files.

    Example:
        >>> log = {"station": [1, 1, 2], "load": [0.2, 0.4, 0.3], "tilt": [2, 4, 4], "reward": [0.8, 0.9, 0.7]}
        >>> trace = Trace.from_frame(log, {"configuration": ["tilt"]})
        >>> trace
        Trace(3 rows, 2 stations; state: load; configuration: tilt)
        >>> trace.reward.tolist(), trace.configuration["tilt"].tolist(), trace.state.shape
        ([0.8, 0.9, 0.7], [2, 4, 4], (3, 1))
    """

    carried: ConfigurationSpace | None = None
    weighted: WeightedReward | None = field(default=None, compare=False)

    @classmethod
    def read(
        cls,
        path: str | PathLike[str],
        columns: ColumnMap | None = None,
        *,
        reward_range: tuple[float, float] | None = None,
        per_cent: bool = False,
        duplicates: Duplicates = "keep",
        delimiter: str = ",",
        decimal_point: str = ".",
    ) -> "Trace":
        """Read a .csv, .csv.gz or .parquet file.

        Args:
            path: The file; its suffix tells the format.
            columns: Which column is what, see `from_frame`. Not needed for a file that `write` made.
            reward_range: Lowest and highest possible reward; a reward outside is an error.
            per_cent: Whether rewards are in per cent, to be turned into shares.
            duplicates: What to do about rows that repeat another exactly; "keep" warns of them.
            delimiter: What parts the columns of a CSV file.
            decimal_point: The decimal mark of a CSV file.
        """
        file = path_of(path, what="a trace")
        table, columns, space = read_file(file, columns, delimiter=delimiter, decimal_point=decimal_point)
        with located(file, delimiter=delimiter):
            trace = cls.from_frame(table, columns, reward_range=reward_range, per_cent=per_cent, duplicates=duplicates)
        return trace if space is None else trace.with_space(ConfigurationSpace.from_dict(space))

    @classmethod
    def bundled(cls) -> "Trace":
        """Return the trace that comes with kinband: a simulated city of 105 stations over five afternoons.

        `kinband simulate` wrote it; docs/simulator.md shows the city.

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
                may have a floor (docs/kpis.md). "ignore" lists columns that are not state either. "reward" may be a
                weighted sum: {"good": 0.8, "rate": 0.02}, a `WeightedReward`, or "0.8*good+0.02*rate".
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
        trace = cls(**(as_shares(clean) if per_cent else clean), weighted=weighted)
        if limits is not None:
            label = f"column {roles['reward']['reward']!r}" if weighted is None else f"the reward {weighted}"
            check_range(trace.reward, limits, label=label)
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
        taken = {*self.state_names, *self.configuration, *self.kpis}
        names = {role: _free(role, taken) for role in self._single()}
        columns = {names[role]: column for role, column in self._single().items()}
        columns |= dict(zip(self.state_names, self.state.T.copy(), strict=True)) | dict(self.configuration)
        columns |= dict(self.kpis)
        roles = {**dict.fromkeys(("time", "noise", "samples")), **names}
        roles |= {"state": list(self.state_names), "configuration": list(self.configuration)}
        roles |= {"kpis": list(self.kpis)} if self.kpis else {}
        space = None if self.carried is None else self.carried.to_dict()
        write_table(path_of(path, what="a trace"), columns, note={"columns": roles, "space": space})

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
        return f"Trace({len(self)} rows, {len(self.stations)} stations; state: {state}; configuration: {knobs})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Trace):
            return NotImplemented
        return self.carried == other.carried and self._same_columns(other)

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
        unknown = [name for name in self.stations if name not in set(stations)]
        if unknown:
            raise NotFoundError(f"the trace has {len(unknown)} station(s) that are not listed, such as {unknown[0]!r}")
        if set(encoder.state.names) != set(self.state_names):
            raise BadInputError(
                f"the trace has the state {self.state_names}, the encoder was made for {encoder.state.names}"
            )
        order = [self.state_names.index(name) for name in encoder.state.names]
        noise, arms = self.reward_noise(), encoder.space.indices(self.configuration)
        task = {name: number for number, name in enumerate(stations)}
        return Samples(
            tuple(stations),
            np.array([task[name] for name in self.station.tolist()], dtype=np.int64),
            encoder.encode(self.state[:, order], arms),
            self.reward.copy(),
            None if noise is None else noise.copy(),
            encoder.features,
            encoder.categorical,
            arms,
            {name: values.copy() for name, values in self.kpis.items()},
        )


def _free(name: str, taken: set[str]) -> str:
    while name in taken:
        name += "_"
    return name
