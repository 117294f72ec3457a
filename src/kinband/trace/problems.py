"""All that is wrong with the cells of a file: told in one sentence, or such rows are left out and counted."""

import re
import warnings
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from kinband.arrays import BoolArray
from kinband.errors import BadInputError
from kinband.stats import counted
from kinband.trace.cells import dates_of, null_cells
from kinband.trace.columns import Roles
from kinband.trace.files import TableReading, places_of
from kinband.trace.rewards import strays

if TYPE_CHECKING:
    from kinband.trace.table import Trace

_SHOWN = 8
_WORDS = {
    "numbers": ("is not a number", "are not numbers"),
    "dates": ("is not a date", "are not dates"),
    "missing": ("is missing", "are missing"),
    "infinite": ("is infinite", "are infinite"),
    "format": ("is not written as the given date format says", "are not written as the given date format says"),
    "far": ("lies a year or more from all others", "lie a year or more from all others"),
    "stray": ("lies far outside all others", "lie far outside all others"),
}
_NEEDED = ("station", "reward", "configuration", "state", "time")


@dataclass(frozen=True)
class BadCells:
    """What is wrong with some cells of a column.

    Attributes:
        column: The column.
        kind: What is wrong with them: "numbers" or "dates" they are not, or "missing" or "infinite", or dates "far"
            from all others or of another "format" than was said, or rewards and KPIs that are "stray".
        bad: Which rows, (n,).
        value: The text of the first of them; empty where it is missing.
    """

    column: str
    kind: str
    bad: BoolArray
    value: str = ""

    @property
    def first(self) -> int:
        """The first row concerned, from 0."""
        return int(np.flatnonzero(self.bad)[0])

    def words(self, place: str) -> str:
        """Return the problem in words, given where its first row is."""
        value = f" {self.value!r:.40}" if self.value else ""
        count = int(self.bad.sum())
        return (
            f"column {self.column!r}: {counted(count, 'cell')} {_WORDS[self.kind][count > 1]}, first{value} in {place}"
        )


def problems_of(
    reading: TableReading, roles: Roles, *, needed: Iterable[str] = (), ranged: bool = False
) -> list[BadCells]:
    """Return what is wrong with the cells of the columns that have a role, and of others that are needed.

    Where the user gave the range of rewards (`ranged`), whatever is in it is right.
    """
    table, cleaned = reading.cleaned.table, reading.cleaned
    found: list[BadCells] = []
    must = [column for role in _NEEDED for column in roles[role].values()] + list(needed)
    may = [column for role in ("noise", "samples", "kpis") for column in roles[role].values()]
    for name in dict.fromkeys([*must, *may]):
        bad, text = cleaned.bad.get(name, (np.zeros(len(table), dtype=np.bool_), None))
        if bad.any():
            value = text[int(np.flatnonzero(bad)[0])].as_py()
            found.append(BadCells(name, cleaned.kinds[name], bad, value))
        if name in must and (missing := null_cells(table.column(name)) & ~bad).any():
            found.append(BadCells(name, "missing", missing))
        if (infinite := _infinite(table.column(name))).any():
            found.append(BadCells(name, "infinite", infinite))
    for name in roles["time"].values():
        if reading.date_format is not None and (unlike := _unlike(name, table.column(name), reading.date_format)):
            found.append(unlike)
        if (far := _far(table.column(name))).any():
            at = table.column(name)[int(np.flatnonzero(far)[0])]
            found.append(BadCells(name, "far", far, str(at.as_py())))
    valued = [name for role in ("kpis", *(() if ranged else ("reward",))) for name in roles[role].values()]
    return [*found, *(one for name in dict.fromkeys(valued) if (one := _stray(name, table.column(name))) is not None)]


def _stray(name: str, column: Any) -> BadCells | None:
    """The few numbers of a column that lie far outside all others."""
    import pyarrow as pa

    if not (pa.types.is_integer(column.type) or pa.types.is_floating(column.type)):
        return None
    found = strays(column.cast(pa.float64(), safe=False).to_numpy())
    first = column[int(np.argmax(found))].as_py()
    return BadCells(name, "stray", found, f"{first:.10g}") if found.any() else None


def _unlike(name: str, column: Any, date_format: str) -> BadCells | None:
    """The texts of a column of times that are not written as was said; None where it holds no texts."""
    import pyarrow as pa

    if column.type != pa.string():
        return None
    texts = column.to_pylist()
    moments = dates_of(name, [text or "" for text in texts], date_format)[0]
    bad = np.array([text is not None and at is None for text, at in zip(texts, moments, strict=True)])
    return BadCells(name, "format", bad, texts[int(np.argmax(bad))]) if bad.any() else None


_YEAR, _FEW_FAR = np.timedelta64(365, "D"), 0.05  # between dates; share of the rows that may be far off


def _far(column: Any) -> BoolArray:
    """Which few dates lie a year or more from all others, and further than these span, as those of wrong clocks do."""
    import pyarrow as pa

    far = np.zeros(len(column), dtype=np.bool_)
    if not (pa.types.is_timestamp(column.type) or pa.types.is_date(column.type)):
        return far
    time = column.cast(pa.timestamp("us")).to_numpy(zero_copy_only=False)
    known = np.flatnonzero(~np.isnat(time))
    order = known[np.argsort(time[known], kind="stable")]
    cuts = np.flatnonzero(np.diff(time[order]) >= _YEAR) + 1
    parts = np.split(order, cuts)
    most = max(parts, key=len)
    if len(parts) == 1 or len(known) - len(most) > _FEW_FAR * len(known):
        return far
    first, last = time[most[0]], time[most[-1]]
    away = np.maximum(first - time[known], time[known] - last)
    far[known[away >= max(last - first, _YEAR)]] = True
    return far


def _infinite(column: Any) -> BoolArray:
    import pyarrow as pa

    if not pa.types.is_floating(column.type):
        return np.zeros(len(column), dtype=np.bool_)
    found: BoolArray = np.isinf(column.to_numpy())
    return found


def told(reading: TableReading, problems: list[BadCells]) -> list[str]:
    """Return the problems in words, each with the place of its first cell."""
    firsts = [problem.first for problem in problems[:_SHOWN]]
    delimiter = reading.form.delimiter if reading.form else None
    places = places_of(reading.path, firsts, delimiter=delimiter) if firsts else []
    words = [problem.words(place) for problem, place in zip(problems, places, strict=False)]
    more = len(problems) - _SHOWN
    words += [f"and {counted(more, 'more problem')} of other columns"] if more > 0 else []
    return [reading.uneven, *words] if reading.uneven else words


def bad_rows(problems: list[BadCells], size: int) -> BoolArray:
    """Return which of so many rows have a problem, (n,)."""
    found = np.zeros(size, dtype=np.bool_)
    for problem in problems:
        found |= problem.bad
    return found


def sound_rows(
    reading: TableReading, roles: Roles, *, skip_bad: bool, needed: Iterable[str] = (), ranged: bool = False
) -> tuple[Any, NDArray[Any] | None]:
    """Return the table without bad rows, and the numbers of those left; None where all are.

    Bad rows are refused, all problems in one sentence, unless they are to be skipped; then they are counted in a
    warning.
    """
    table = reading.cleaned.table
    problems = problems_of(reading, roles, needed=needed, ranged=ranged)
    if not problems and not reading.uneven:
        return table, None
    bad, words = bad_rows(problems, len(table)), "; ".join(told(reading, problems))
    share = f"{counted(int(bad.sum()) + reading.cut, 'row')} of {len(table) + reading.cut:,}"
    if not skip_bad:
        raise BadInputError(
            f"{reading.path}: {share} cannot be used: {words}",
            hint=_hint(problems, roles), code="stray" if _stray_rewards(problems, roles) else "bad_rows",
        )  # fmt: skip
    if bad.all():
        raise BadInputError(
            f"{reading.path}: no row is left when bad ones are skipped: {words}",
            hint="name the columns that matter, or leave others out", code="all_bad",
        )  # fmt: skip
    warnings.warn(f"{share} skipped: {words}", UserWarning, stacklevel=4)
    return table.filter(~bad), np.flatnonzero(~bad)


def _stray_rewards(problems: list[BadCells], roles: Roles) -> bool:
    return any(one.kind == "stray" and one.column in roles["reward"].values() for one in problems)


def _hint(problems: list[BadCells], roles: Roles) -> str:
    if _stray_rewards(problems, roles):
        return "repair them, pass skip_bad=True, or reward_range=(lowest, highest) if rewards may be so"
    return "repair them, leave such columns out, or pass skip_bad=True"


def clock_change(time: NDArray[Any] | None, station: NDArray[Any]) -> str | None:
    """Return a sentence if local times of one hour appear twice, as when clocks are set back; None if not.

    Example:
        >>> time = np.array(["2024-10-27T02:00", "2024-10-27T02:00", "2024-10-27T03:00"], dtype="datetime64[us]")
        >>> clock_change(time, np.array(["a", "a", "a"]))[:33]
        'the hour 2024-10-27 02:00 appears'
    """
    if time is None or time.dtype.kind != "M":
        return None
    codes = np.unique(station, return_inverse=True)[1]
    order = np.lexsort((time, codes))
    same = (codes[order][1:] == codes[order][:-1]) & (time[order][1:] == time[order][:-1])
    twice = np.unique(time[order][1:][same].astype("datetime64[h]"))
    if len(twice) != 1 or len(np.unique(time.astype("datetime64[h]"))) < 2 or int(twice.astype(int)[0]) % 24 > 3:
        return None
    at = str(twice[0]).replace("T", " ") + ":00"
    return f"the hour {at} appears twice, as if clocks were set back: export times in UTC if their order matters"


def named_columns(columns: Mapping[str, Any] | None) -> list[str]:
    """Return the columns that a column map names as station, so that they are read as text."""
    station = columns.get("station") if isinstance(columns, Mapping) else None
    return [station] if isinstance(station, str) else []


MANY = 40
"""State features beyond which the effect of a setting is hard to see among them."""
_WITH_UNIT = re.compile(r"[-+]?\d+([.,]\d+)?\s*[^\W\d]+")


_AT_ONCE = 0.2  # share of the stations beyond which all that end and begin at once are trials or outages, no new names


def ended_as_others_began(
    station: NDArray[Any], begin: NDArray[Any], end: NDArray[Any]
) -> Iterator[tuple[Any, list[str], list[str]]]:
    """Yield when some stations end as so many others begin, as they do when they are renamed: the time, and who.

    Args:
        station: Names of stations, (n,).
        begin: When periods begin, (n,).
        end: When another may begin after them, (n,).

    Example:
        >>> station, hour = np.array(["a", "a", "b", "b"]), np.array([0, 1, 2, 3])
        >>> list(ended_as_others_began(station, hour, hour + 1))
        [(np.int64(2), ['a'], ['b'])]
    """
    names, number = np.unique(station, return_inverse=True)
    order = np.lexsort((begin, number))
    cuts = np.flatnonzero(np.diff(number[order]))
    first, last = begin[order][np.r_[0, cuts + 1]], end[order][np.r_[cuts, len(order) - 1]]
    for when in np.intersect1d(first, last):
        before, after = names[last == when].tolist(), names[first == when].tolist()
        if len(before) == len(after):
            yield when, before, after


def _renamed(trace: "Trace") -> str | None:
    """A sentence on stations that seem to have got other names, None where there are none."""
    if trace.time is None:
        return None
    moments = np.unique(trace.time)
    place = np.searchsorted(moments, trace.time)
    found = list(ended_as_others_began(trace.station, place, place + 1))
    count = sum(len(before) for _, before, _ in found)
    if not count or count > max(1, _AT_ONCE * len(trace.stations)):
        return None
    when, before, after = found[0]
    if not set(trace.station[place < when].tolist()) & set(trace.station[place >= when].tolist()):
        return None  # nobody is there all the time: such a log goes from station to station
    at = str(moments[int(when)]).replace("T", " ").removesuffix(".000000")
    return (
        f"{counted(count, 'station')} of the log end as others begin, such as {before[0]!r} and {after[0]!r} at {at}: "
        "if they were renamed, write one name for both, or a plan asks for what is no longer there"
    )


_SEVERAL = 6  # rows of a station on a day from which on their hours are missed


def _days_alone(trace: "Trace") -> str | None:
    """A sentence where times are days, of which stations have several rows; None else."""
    if trace.time is None or trace.time.dtype.kind != "M" or (trace.time != trace.time.astype("datetime64[D]")).any():
        return None
    station = np.unique(trace.station, return_inverse=True)[1]
    day = np.unique(trace.time, return_inverse=True)[1]
    rows = np.unique(station * (int(day.max()) + 1) + day, return_counts=True)[1]
    if np.median(rows) < _SEVERAL:
        return None
    return (
        f"times are days without hours, and a station has {int(np.median(rows)):,} rows on one: if another column has "
        "the hours, name both with --time Date+Hour"
    )


_FRACTIONS, _BACKWARDS = 0.5, 0.3  # shares of times that are no whole numbers, and that fall from row to row


def _measured_times(trace: "Trace") -> str | None:
    """A sentence where times are fractions in no order, as what is measured is; None else."""
    if trace.time is None or trace.time.dtype.kind != "f" or np.mean(trace.time % 1 != 0) < _FRACTIONS:
        return None
    order = np.argsort(trace.station, kind="stable")
    falls = np.diff(trace.time[order])[trace.station[order][1:] == trace.station[order][:-1]] < 0
    if not len(falls) or np.mean(falls) < _BACKWARDS:
        return None
    return f"times are fractions in no order, such as {trace.time[0]:.6g}, as what is measured is: is --time right?"


_MOST_SET, _MOVES = 50, 0.9  # values that are set, and share of rows in which what is measured differs from before


def _as_measured(trace: "Trace", knob: str) -> str:
    """Say that a knob's numbers look measured: hardly one comes twice, or many and another in every row; else ""."""
    values = trace.configuration[knob]
    many = len(np.unique(values)) if values.dtype.kind in "fiu" else 0
    if many > max(MANY, 0.5 * len(trace)) or (many > _MOST_SET and _moves(trace, values) > _MOVES):
        return f"knob {knob!r} has {many:,} values in {len(trace):,} rows, as what is measured has, not what is set"
    return ""


def _moves(trace: "Trace", values: NDArray[Any]) -> float:
    """The share of rows whose value differs from that of the station's row before."""
    station = np.unique(trace.station, return_inverse=True)[1].ravel()
    order = np.argsort(station, kind="stable") if trace.time is None else np.lexsort((trace.time, station))
    same = np.diff(station[order]) == 0
    return float(np.mean(np.diff(values[order])[same] != 0)) if same.any() else 0.0


def check_knobs(trace: "Trace") -> None:
    """Refuse to plan for a knob whose values look measured.

    Example:
        >>> from kinband import Trace
        >>> log = {"station": ["a", "b"] * 60, "load": np.arange(120) / 7, "reward": np.arange(120.0) % 5}
        >>> check_knobs(Trace.from_frame(log, {"configuration": ["load"]}))
        Traceback (most recent call last):
            ...
        kinband.errors.BadInputError: knob 'load' has 120 values in 120 rows, as what is measured has, not what is ...
    """
    for knob in trace.configuration:
        if as_measured := _as_measured(trace, knob):
            raise BadInputError(
                as_measured,
                hint="name what is set with --configuration; if this is, round it to the steps in which it is set",
                code="measured_knob",
                argument="configuration",
                value=knob,
            )


def oddities(trace: "Trace", *, named: bool) -> Iterator[str]:
    """Yield sentences on what is odd in a log and was taken as it is; `named` says whether the state was named."""
    if not named and len(trace.state_names) > MANY:
        yield (
            f"{len(trace.state_names):,} columns of numbers are taken for the state, among which the effect of a "
            "setting is hard to see: name the few that matter with --state"
        )
    alike: dict[str, list[str]] = {}
    for name in trace.stations:
        alike.setdefault(name.casefold(), []).append(name)
    if twins := [names for names in alike.values() if len(names) > 1]:
        yield (
            f"names of stations that differ in small and capital letters only, such as "
            f"{' and '.join(map(repr, twins[0][:2]))}, are taken for different stations: {len(twins):,} such names"
        )
    if renamed := _renamed(trace):
        yield renamed
    if days := _days_alone(trace):
        yield days
    if measured := _measured_times(trace):
        yield measured
    for knob, values in trace.configuration.items():
        words = np.unique(values).tolist()
        if as_measured := _as_measured(trace, knob):
            yield f"{as_measured}: is it a setting?"
        if values.dtype.kind == "U" and len(words) > 1 and all(_WITH_UNIT.fullmatch(word) for word in words):
            yield (
                f"knob {knob!r} holds words such as {words[0]!r:.40}, taken for names, not for quantities: write "
                "numbers alone if they are some"
            )
