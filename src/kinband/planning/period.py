"""The stations as they are, and the period that a plan is for: the states that each will be in while a setting runs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from kinband.arrays import BoolArray, FloatArray, IntArray
from kinband.errors import BadInputError
from kinband.records import Samples
from kinband.space import ConfigurationSpace
from kinband.stats import counted
from kinband.trace import Trace
from kinband.trace.cells import joined_times
from kinband.trace.columns import floats, station_names, table_of
from kinband.trace.columns import times as as_times
from kinband.trace.files import check_file, read_csv, read_parquet
from kinband.trace.guesses import guessed_time, only_time
from kinband.trace.table import station_numbers

# --- A period -------------------------------------------------------------------------------------------------------
#
# What is best at eight in the evening may harm over the day. So a plan is for a period, given by rows of states for
# every station: what is expected of the time in which the settings will run. The log's last week is the usual guess at
# the next. Every hour of the day counts alike in it, however often the log has it. The next week will not be the same:
# how much days differ says by how much a gain may.

LONGEST = 168
"""Rows of a period that are looked at, a week of hours; of longer ones so many, evenly chosen."""
DAYS = 7
"""Days of the log that a period is taken from, and for which a plan is made."""

HOUR_OF_DAY = ("sine of the hour", "cosine of the hour")
"""Two state features that say where a row lies in the day, for a log with dates.

What other features do not tell of an hour, such as whether load rises or falls, hangs on it.
"""

_SEVERAL = 4  # hours of the day below which they are no state


@dataclass(frozen=True, eq=False)
class Period:
    """States that a station will be in.

    Attributes:
        states: One row each, (T, p), in the order of the log's state features.
        hours: Hour of the day of each row, (T,); None where it is not known.
        days: Number of the day of each row, (T,), where the days are a sample of those to come; else None.

    Example:
        >>> period = Period(np.array([[0.2], [0.4], [0.9]]), np.array([7, 7, 20]))
        >>> period.weights.tolist()
        [0.25, 0.25, 0.5]
    """

    states: FloatArray
    hours: IntArray | None = None
    days: IntArray | None = None

    @property
    def weights(self) -> FloatArray:
        """How much each row counts, (T,): all hours alike, or all rows where hours are not known."""
        if self.hours is None:
            return np.full(len(self.states), 1.0 / len(self.states))
        _, number, count = np.unique(self.hours, return_inverse=True, return_counts=True)
        return np.asarray(1.0 / (len(count) * count[number.ravel()]))

    def sums(self) -> tuple[FloatArray, tuple[int, ...]]:
        """Return the weights of the mean and of each hour's mean, (1 + H, T), and the H hours; none without times."""
        if self.hours is None:
            return self.weights[None], ()
        found = np.unique(self.hours)
        at = (self.hours[None] == found[:, None]).astype(np.float64)
        return np.vstack([self.weights, at / at.sum(axis=1, keepdims=True)]), tuple(found.tolist())

    def day_variances(self, values: FloatArray) -> FloatArray:
        """Return how much the mean of values (T,), and that of each hour, may differ in the days to come, (1 + H,).

        Example:
            >>> two_days = Period(np.zeros((4, 0)), np.array([7, 20, 7, 20]), np.array([1, 1, 2, 2]))
            >>> two_days.day_variances(np.array([1.0, 1.0, 3.0, 1.0])).round(3).tolist()
            [0.321, 1.286, 0.0]
        """
        W, hours = self.sums()
        variances = np.zeros(len(W))
        if self.days is not None:
            for i, rows in enumerate([W[0] > 0, *(self.hours == hour for hour in hours)]):
                days = np.unique(self.days[rows])
                without = [self._mean(values, rows & (self.days != day)) for day in days if len(days) > 1]
                variances[i] = sampling_variance(np.array(without))
        return variances

    def _mean(self, values: FloatArray, rows: BoolArray) -> float:
        """The mean of values (T,) over some rows (T,)."""
        hours = None if self.hours is None else self.hours[rows]
        return float(Period(self.states[rows], hours).weights @ values[rows])


def sampling_variance(without: FloatArray) -> float:
    """Return the variance of a mean over the days to come around that over D days, from it without each of them, (D,).

    That of the mean over D days by the jackknife (Efron and Stein 1981), and as much more as the days to come differ.

    Example:
        >>> round(sampling_variance(np.array([1.0, 2.0, 3.0])), 3)  # three days with 4, 2 and 0: variance 4
        1.905
    """
    D = len(without)
    if D < 2:
        return 0.0
    of_mean = (D - 1) / D * float(((without - without.mean()) ** 2).sum())
    return of_mean * (1.0 + D / DAYS)


def with_hour_of_day(trace: Trace) -> Trace:
    """Return a log with the hour of the day among its states, where it has dates at several hours.

    Example:
        >>> log = {"station": ["a"] * 4, "tilt": [2, 2, 4, 4], "reward": [0.1, 0.2, 0.3, 0.4]}
        >>> log["time"] = ["2024-03-04T00:00", "2024-03-04T06:00", "2024-03-04T12:00", "2024-03-04T18:00"]
        >>> with_hour_of_day(Trace.from_frame(log, {"configuration": ["tilt"]})).state.round(9).tolist()
        [[0.0, 1.0], [1.0, 0.0], [0.0, -1.0], [-1.0, -0.0]]
    """
    if trace.time is None or trace.time.dtype.kind != "M" or set(HOUR_OF_DAY) & set(trace.state_names):
        return trace
    hours = hours_of(trace.time)
    if len(np.unique(hours)) < _SEVERAL:
        return trace
    state = np.hstack([trace.state, hour_on_circle(hours)])
    return replace(trace, state=state, state_names=(*trace.state_names, *HOUR_OF_DAY))


def hour_on_circle(hours: IntArray) -> FloatArray:
    """Return where hours (n,) lie in the day, on a circle: (n, 2)."""
    angle = 2.0 * np.pi * hours / 24.0
    return np.column_stack([np.sin(angle), np.cos(angle)])


def days_and_spells(samples: Samples, trace: Trace) -> Samples:
    """Return the samples of a log with the day and the spell of each row, where the log has times.

    Example:
        >>> log = {"station": ["a"] * 4, "tilt": [2, 2, 4, 4], "reward": [0.1, 0.2, 0.3, 0.4]}
        >>> log["time"] = ["2024-03-04T21:00", "2024-03-04T22:00", "2024-03-04T23:00", "2024-03-05T00:00"]
        >>> trace = Trace.from_frame(log, {"configuration": ["tilt"]})
        >>> found = days_and_spells(trace.samples(), trace)
        >>> found.days.tolist(), found.spells.tolist()
        ([0, 0, 0, 1], [0, 0, 1, 2])
    """
    if trace.time is None:
        return samples
    dated = trace.time.dtype.kind == "M"
    day = trace.time.astype("datetime64[D]") if dated else np.zeros(len(trace))
    days = np.unique(day, return_inverse=True)[1].ravel().astype(np.int64)
    knobs = [np.unique(values, return_inverse=True)[1].ravel() for values in trace.configuration.values()]
    order = np.lexsort((trace.time, samples.tasks))
    kept = np.column_stack([samples.tasks, days, *knobs])[order]
    changed = np.append(True, (kept[1:] != kept[:-1]).any(axis=1))
    spells = np.empty(len(trace), dtype=np.int64)
    spells[order] = np.cumsum(changed) - 1
    return replace(samples, days=days, spells=spells)


def periods_of(trace: Trace, hours: Sequence[int] | None = None) -> dict[str, Period]:
    """Return the log's last week as each station's period: all of its rows where times are no dates.

    Args:
        trace: The log.
        hours: Hours of the day to look at; all if not given.

    Example:
        >>> log = {"station": ["a"] * 3, "time": ["2024-03-01 07:00", "2024-03-11 07:00", "2024-03-11 20:00"]}
        >>> log |= {"load": [0.1, 0.5, 0.4], "tilt": [2, 2, 4], "reward": [0.8, 0.9, 0.7]}
        >>> trace = Trace.from_frame(log, {"configuration": ["tilt"]})
        >>> periods_of(trace)["a"].states.tolist(), periods_of(trace, [20])["a"].states.tolist()
        ([[0.5], [0.4]], [[0.4]])
    """
    rows, hour, day = np.arange(len(trace)), None, None
    if trace.time is not None and trace.time.dtype.kind == "M":
        hour, day = _several(hours_of(trace.time)), trace.time.astype("datetime64[D]").astype(np.int64)
        rows = np.flatnonzero(trace.time > trace.time.max() - np.timedelta64(DAYS, "D"))
    if hours is not None:
        if hour is None:
            raise BadInputError(
                "hours of the day need a log with times of several hours: name its column with --time", argument="hours"
            )
        rows = rows[np.isin(hour[rows], list(hours))]
    if not len(rows):
        raise BadInputError(f"the log's last week has no rows at the hours {sorted(hours or ())}", argument="hours")
    found = _by_station(trace.stations, station_numbers(trace), trace.state, rows, hour, day)
    without = Period(np.empty((0, trace.state.shape[1])))
    return found if hours is None else dict.fromkeys(trace.stations, without) | found


def days_in_period(trace: Trace) -> int:
    """Return of how many days the log's last week has rows; 0 where times are no dates."""
    if trace.time is None or trace.time.dtype.kind != "M":
        return 0
    within = trace.time > trace.time.max() - np.timedelta64(DAYS, "D")
    return len(np.unique(trace.time[within].astype("datetime64[D]")))


def hours_of(time: Any) -> IntArray:
    """Return the hour of the day of times (n,).

    Example:
        >>> hours_of(np.array(["2024-03-04T23:30"], dtype="M8[us]"))
        array([23])
    """
    return np.asarray((time - time.astype("datetime64[D]")) // np.timedelta64(1, "h"), dtype=np.int64)


def _several(hours: IntArray) -> IntArray | None:
    """Hours of the day, (n,), or None where all are the same: a log by day says nothing of hours."""
    return hours if len(hours) and np.ptp(hours) > 0 else None


def _by_station(
    stations: Sequence[str],
    tasks: IntArray,
    states: FloatArray,
    rows: IntArray,
    hours: IntArray | None,
    days: IntArray | None = None,
) -> dict[str, Period]:
    """The chosen rows of every station, in their order, at most `LONGEST` each."""
    order = rows[np.argsort(tasks[rows], kind="stable")]
    cuts = np.flatnonzero(np.diff(tasks[order])) + 1
    found = {}
    for own in np.split(order, cuts):
        if len(own) > LONGEST:
            own = own[np.linspace(0, len(own) - 1, LONGEST).round().astype(np.int64)]
        hour, day = (None if of is None else of[own] for of in (hours, days))
        found[stations[int(tasks[own[0]])]] = Period(states[own], hour, day)
    return found


def read_periods(
    path: str | Path,
    *,
    state: Sequence[str],
    station: str = "station",
    time: str | None = None,
    hours: Sequence[int] | None = None,
    **written: Any,
) -> dict[str, Period]:
    r"""Read the states of a period from a file: many rows a station, named as in the log.

    Args:
        path: The file.
        state: Names of the state features.
        station: Column of the station names.
        time: Column of times, or day and hour as Date+Hour; found if not given.
        hours: Hours of the day to look at; all if not given.
        written: How the file is written, as in `Trace.read`.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder) / "week.csv"
        ...     _ = path.write_text("station,load\n0012,0.2\n0012,0.6\n", encoding="utf-8")
        ...     read_periods(path, state=["load"])["0012"].states.tolist()
        [[0.2], [0.6]]
    """
    path = Path(path)
    named = _file_table(path, text=[station], written=written)
    table = table_of(named, what=str(path))
    if missing := [name for name in (station, *state) if name not in table.names]:
        raise BadInputError(
            f"{path} lacks the column {' and '.join(map(repr, missing))}; it has {', '.join(map(repr, table.names))}: "
            "a period has the station and the state of the log"
        )
    names = station_names(table.get(station), label=f"column {station!r} of {path}")
    stations = tuple(dict.fromkeys(names.tolist()))
    number = {name: m for m, name in enumerate(stations)}
    columns = [floats(table.get(name), label=f"column {name!r} of {path}", unknown=True) for name in state]
    states = np.column_stack(columns) if columns else np.empty((len(names), 0))
    hour = _hours_in(named, time, path)
    complete = np.isfinite(states).all(axis=1)
    if not complete.any():
        raise BadInputError(f"{path} has no row whose state is complete: fill in {', '.join(state)}")
    if hours is not None:
        if hour is None:
            raise BadInputError(f"{path} has no column of times of several hours: --time names it", argument="hours")
        complete &= np.isin(hour, list(hours))
        if not complete.any():
            raise BadInputError(f"{path} has no complete rows at the hours {sorted(hours)}", argument="hours")
    rows = np.flatnonzero(complete)
    return _by_station(stations, np.array([number[name] for name in names.tolist()]), states, rows, hour)


def _hours_in(table: Any, time: str | None, path: Path) -> IntArray | None:
    """The hour of the day of each row of a file, where it has times of several hours."""
    if time is None or any(part not in table.column_names for part in time.split("+")):
        time = guessed_time(table) or only_time(table)
    if time is None:
        return None
    day, plus, hour = time.partition("+")
    values = (
        joined_times(table.column(day), table.column(hour), label=f"the time {time!r}") if plus else table.column(day)
    )
    found = as_times(values.to_numpy(zero_copy_only=False), label=f"column {time!r} of {path}")
    return _several(hours_of(found)) if found.dtype.kind == "M" else None


# --- The stations as they are now: the state each is in and the configuration it runs -------------------------------
#
# They come as a table with one row per station, with columns named as in the log; other columns are ignored, so the
# last hour of an export will do. What is wrong with the table is an error; what is missing of one station stays unknown
# here, and a plan leaves that station as it is and says why.


@dataclass(frozen=True)
class Present:
    """The present configuration of one station, and the state it is in or the states it will be in.

    Attributes:
        state: State features by name, nan where unknown; what a plan is for where there is no period.
        configuration: Knob values by name, None where unknown.
        period: What a plan is for.
        silent: Why it may run no more, in words, where its rows end long before the log does.

    Example:
        >>> Present({"load": 0.4}, {"tilt": 4}).configuration["tilt"]
        4
    """

    state: Mapping[str, float]
    configuration: Mapping[str, Any]
    period: Period | None = None
    silent: str = field(default="", repr=False)


def latest(trace: Trace) -> dict[str, Present]:
    """Return what every station ran last, in its last state; without times, the last row of the file is the last.

    Example:
        >>> log = {"station": ["a", "a"], "time": [2, 1], "load": [0.1, 0.5], "tilt": [2, 4], "reward": [0.8, 0.9]}
        >>> latest(Trace.from_frame(log, {"configuration": ["tilt"]}))["a"].configuration
        {'tilt': 2}
    """
    tasks = station_numbers(trace)
    order = np.lexsort((np.arange(len(trace)) if trace.time is None else trace.time, tasks))
    last = order[np.append(np.flatnonzero(np.diff(tasks[order])), len(order) - 1)]
    knobs = {knob: values[last].tolist() for knob, values in trace.configuration.items()}
    silent = silent_since(trace)
    return {
        (name := trace.stations[int(tasks[row])]): Present(
            dict(zip(trace.state_names, trace.state[row].tolist(), strict=True)),
            {knob: values[i] for knob, values in knobs.items()},
            silent=silent.get(name, ""),
        )
        for i, row in enumerate(last.tolist())
    }


_SILENT_DAYS, _SILENT_ROWS = 2, 48  # no shorter silence tells; rows where times are no dates
_PAUSES = 3  # nor so many times as long as a station was silent before


def silent_since(trace: Trace) -> dict[str, str]:
    """Return the stations whose rows end long before the log does, as those of dead and renamed ones do, with a reason.

    The log ends where the later half of the stations do, so that a single wrong date moves nothing. Long is more than
    two days, or 48 rows where times are no dates, and more than three times a station's longest pause before.

    Example:
        >>> log = {"station": ["a"] * 100 + ["b"] * 40, "time": [*range(100), *range(40)], "tilt": [2, 4] * 70}
        >>> silent_since(Trace.from_frame(log | {"reward": range(140)}, {"configuration": ["tilt"]}))
        {'b': 'The log has no row of it after 39, and goes on to 99: whether it still runs is not known.'}
    """
    if trace.time is None:
        return {}
    tasks, dated = station_numbers(trace), trace.time.dtype.kind == "M"
    time = trace.time.astype("datetime64[s]").astype(np.float64) if dated else trace.time.astype(np.float64)
    order = np.lexsort((time, tasks))
    first = np.flatnonzero(np.append(True, np.diff(tasks[order]) > 0))
    pauses = np.append(0.0, np.diff(time[order]))
    pauses[first] = 0.0
    ended = time[order][np.append(first[1:], len(time)) - 1]
    end = np.sort(ended)[len(ended) // 2]
    usual = float(np.median(pauses[pauses > 0])) if pauses.any() else 0.0
    least = max(_SILENT_DAYS * 86_400.0, _PAUSES * usual) if dated else _SILENT_ROWS * usual
    silent = np.flatnonzero(end - ended > np.maximum(least, _PAUSES * np.maximum.reduceat(pauses, first)))

    def text(at: float) -> str:
        return str(np.datetime64(int(at), "s"))[:16].replace("T", " ") if dated else f"{at:g}"

    return {
        trace.stations[
            m
        ]: f"The log has no row of it after {text(float(ended[m]))}, and goes on to {text(float(end))}: "
        "whether it still runs is not known."
        for m in silent.tolist()
    }


def planned_for(now: Mapping[str, Present], periods: Mapping[str, Period]) -> dict[str, Present]:
    """Return stations as they are with the period that each is planned for; one without keeps its state.

    Example:
        >>> week = {"a": Period(np.array([[0.2]]))}
        >>> planned_for({"a": Present({}, {"tilt": 4})}, week)["a"].period is week["a"]
        True
    """
    return {name: replace(one, period=periods.get(name)) for name, one in now.items()}


def present_of(
    frame: Any,
    space: ConfigurationSpace,
    *,
    state: Sequence[str],
    station: str = "station",
    what: str = "the table of present states",
) -> dict[str, Present]:
    """Return the stations of a pandas, polars or pyarrow table, or of a mapping from column name to values.

    Args:
        frame: The table, one row per station.
        space: Names the knobs.
        state: Names of the state features.
        station: Column of the station names.
        what: What the table is called in messages.

    Example:
        >>> table = {"station": [7, 8], "load": [0.2, None], "tilt": [2, 4]}
        >>> now = present_of(table, ConfigurationSpace(tilt=[2, 4]), state=["load"])
        >>> now["7"]
        Present(state={'load': 0.2}, configuration={'tilt': 2}, period=None)
        >>> now["8"].state
        {'load': nan}
    """
    table = table_of(frame, what=what)
    roles = {station: "the station", **dict.fromkeys(state, "a state feature"), **dict.fromkeys(space.knobs, "a knob")}
    if missing := [f"{name!r} ({role})" for name, role in roles.items() if name not in table.names]:
        has = ", ".join(map(repr, table.names))
        raise BadInputError(
            f"{what} lacks the column {' and '.join(missing)}; it has {has}: add it, named as in the log"
        )
    names = station_names(table.get(station), label=f"column {station!r} of {what}").tolist()
    if not names:
        raise BadInputError(f"{what} has columns but no rows: give one row for each station to plan for")
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise BadInputError(
            f"{what} lists station {twice!r} {counted(names.count(twice), 'time')}: give its present row only"
        )
    states = {name: floats(table.get(name), label=f"column {name!r} of {what}", unknown=True) for name in state}
    if empty := next((name for name, values in states.items() if np.isnan(values).all()), None):
        raise BadInputError(f"column {empty!r} of {what} is empty: fill in the present state of each station")
    settings = {knob: [_setting(value) for value in table.get(knob).tolist()] for knob in space.knobs}
    return {
        name: Present(
            {feature: float(values[row]) for feature, values in states.items()},
            {knob: values[row] for knob, values in settings.items()},
        )
        for row, name in enumerate(names)
    }


def read_present(
    path: str | Path,
    space: ConfigurationSpace,
    *,
    state: Sequence[str],
    station: str = "station",
    **written: Any,
) -> dict[str, Present]:
    r"""Read the stations as they are now from a file of any kind that a log may be; `written` says how it is written.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder) / "now.csv"
        ...     _ = path.write_text("station,load,tilt,vendor\n0012,0.2,4,x\n", encoding="utf-8")
        ...     read_present(path, ConfigurationSpace(tilt=[2, 4]), state=["load"])["0012"].configuration
        {'tilt': 4}
    """
    path = Path(path)
    text = [station, *(knob for knob, values in space.knobs.items() if isinstance(values[0], str))]
    return present_of(
        _file_table(path, text=text, written=written), space, state=state, station=station, what=str(path)
    )


def _file_table(path: Path, *, text: Sequence[str], written: Mapping[str, Any]) -> Any:
    """A file's table; text stays text: a type guessed would turn "0012", or a category "1", into a number."""
    if check_file(path) == ".parquet":
        return read_parquet(path)
    return read_csv(path, types=dict.fromkeys(text, "string"), **written)


def _setting(value: Any) -> Any:
    return None if value is None or value == "" or value != value else value
