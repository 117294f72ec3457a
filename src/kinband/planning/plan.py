"""A change plan: the stations as they are now, what changes and why, what is left alone, and its files."""

import csv
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from kinband.errors import BadInputError
from kinband.html import table
from kinband.space import ConfigurationSpace
from kinband.stats import Estimate, counted
from kinband.trace.columns import floats, station_names, table_of
from kinband.trace.files import check_file, read_csv, read_parquet

# --- The stations as they are now: the state each is in and the configuration it runs -------------------------------
#
# They come as a table with one row per station, with columns named as in the log; other columns are ignored, so the
# last hour of an export will do. What is wrong with the table is an error; what is missing of one station stays unknown
# here, and a plan leaves that station as it is and says why.


@dataclass(frozen=True)
class Present:
    """The present state and configuration of one station.

    Attributes:
        state: State features by name, nan where unknown.
        configuration: Knob values by name, None where unknown.

    Example:
        >>> Present({"load": 0.4}, {"tilt": 4}).configuration["tilt"]
        4
    """

    state: Mapping[str, float]
    configuration: Mapping[str, Any]


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
        Present(state={'load': 0.2}, configuration={'tilt': 2})
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
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise BadInputError(f"{what} lists station {twice!r} {names.count(twice)} times: give its present row only")
    states = {name: floats(table.get(name), label=f"column {name!r} of {what}", unknown=True) for name in state}
    if empty := next((name for name, values in states.items() if np.isnan(values).all()), None):
        raise BadInputError(f"column {empty!r} of {what} is empty: fill in the present state of each station")
    settings = {knob: [_known(value) for value in table.get(knob).tolist()] for knob in space.knobs}
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
    delimiter: str | None = None,
    decimal_point: str | None = None,
) -> dict[str, Present]:
    r"""Read the stations as they are now from a .csv, .csv.gz or .parquet file.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder) / "now.csv"
        ...     _ = path.write_text("station,load,tilt,vendor\n0012,0.2,4,x\n", encoding="utf-8")
        ...     read_present(path, ConfigurationSpace(tilt=[2, 4]), state=["load"])
        {'0012': Present(state={'load': 0.2}, configuration={'tilt': 4})}
    """
    path = Path(path)
    if check_file(path) == ".parquet":
        table = read_parquet(path)
    else:  # an inferred type would turn the station "0012", or a category "1", into a number
        text = [station, *(knob for knob, values in space.knobs.items() if isinstance(values[0], str))]
        types = dict.fromkeys(text, "string")
        table = read_csv(path, types=types, delimiter=delimiter, decimal_point=decimal_point)
    return present_of(table, space, state=state, station=station, what=str(path))


def _known(value: Any) -> Any:
    return None if value is None or value == "" or value != value else value


# --- A plan: the stations to change with the gain expected of each, and those left alone with the reason why --------

Why = Literal[
    "not in the log",
    "state incomplete",
    "state unfamiliar",
    "configuration unknown",
    "no other choice",
    "never tried",
    "best already",
    "gain too small",
    "gain not certain",
    "beyond the limit",
]
"""Why a station is left alone, in a few words that a program can count."""


@dataclass(frozen=True)
class Change:
    """One station to be changed.

    Gains and standard deviations are those of the expected reward f; a single measurement scatters more, by the noise.

    Attributes:
        station: Whom to change.
        present: What it runs now.
        proposed: What it should run.
        expected: Expected reward of the proposed configuration in the present state.
        expected_unchanged: Expected reward of the present one.
        gain: The difference of the two, with its 95 % interval.
        std: Standard deviation of the estimate for the proposed configuration.
        std_alone: What it would be from the station's own rows alone.
        own_rows: How many rows of the station itself were told.
        borrowed: Share of the estimate that rests on other stations' rows, 0 to 1.
        lenders: The three stations that contributed most, with their shares.
        reason: The same in words.

    Example:
        >>> change = Change("a", {"tilt": 2}, {"tilt": 4}, expected=0.9, expected_unchanged=0.8, std=0.02,
        ...     gain=Estimate(0.1, 0.05, 0.15), std_alone=0.03, own_rows=40, borrowed=0.3, lenders=(), reason="...")
        >>> f"{change.gain:+.2f}", change.moves
        ('+0.10 (+0.05 to +0.15)', {'tilt': 4})
    """

    station: str
    present: Mapping[str, Any]
    proposed: Mapping[str, Any]
    expected: float
    expected_unchanged: float
    gain: Estimate
    std: float
    std_alone: float
    own_rows: int
    borrowed: float
    lenders: tuple[tuple[str, float], ...]
    reason: str

    @property
    def moves(self) -> dict[str, Any]:
        """The new values of the knobs that move."""
        return {knob: value for knob, value in self.proposed.items() if value != self.present[knob]}


@dataclass(frozen=True)
class LeftAlone:
    """One station that stays as it is.

    Attributes:
        station: Who.
        present: What it runs now, as far as it is known.
        why: One of a few fixed phrases.
        reason: The same in a sentence.

    Example:
        >>> LeftAlone("a", {"tilt": 2}, "best already", "Nothing is better.").why
        'best already'
    """

    station: str
    present: Mapping[str, Any]
    why: Why
    reason: str


@dataclass(frozen=True)
class ChangePlan:
    """What to change, largest gain first, and what not.

    Attributes:
        knobs: Names of the knobs.
        changes: The stations to change.
        left_alone: The others, in the order they were asked for.
        explore: Whether the plan tries what is little known, or plays safe.

    Example:
        >>> plan = ChangePlan(("tilt",), (), (LeftAlone("a", {"tilt": 2}, "best already", "Nothing is better."),))
        >>> plan.to_dict()["left_alone"][0]["why"]
        'best already'
    """

    knobs: tuple[str, ...]
    changes: tuple[Change, ...]
    left_alone: tuple[LeftAlone, ...]
    explore: bool = False

    def _repr_html_(self) -> str:
        rows = [
            (one.station, one.present, one.proposed, one.expected, one.gain.value, one.gain.low, one.gain.high)
            for one in self.changes
        ]
        head = ["station", "present", "proposed", "expected", "gain", "95 % from", "to"]
        caption = f"{counted(len(rows), 'change')}, {counted(len(self.left_alone), 'station')} left alone"
        return table(head, rows, caption=caption)

    def write(self, folder: str | Path, *, replace: bool = False) -> list[Path]:
        """Write rollback.csv, plan.csv and left_alone.csv, and return their paths.

        The roll-back comes first, so that there is no plan without one. A plan that may have been carried out is not
        lost by accident: a folder that holds one is refused unless `replace` is set.

        Example:
            >>> import tempfile
            >>> plan = ChangePlan(("tilt",), (), ())
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     [path.name for path in plan.write(folder)]
            ['rollback.csv', 'plan.csv', 'left_alone.csv']
        """
        folder = Path(folder)
        check_folder(folder, replace=replace)
        folder.mkdir(parents=True, exist_ok=True)
        present, target = (prefixed(side, dict.fromkeys(self.knobs)) for side in ("present", "set"))
        write_csv(folder / "rollback.csv", ["station", *target], map(_undone, self.changes))
        header = ["station", *present, *target, *_NUMBERS, "lenders", "reason"]
        write_csv(folder / "plan.csv", header, map(_row, self.changes))
        left = ({**vars(one), **prefixed("present", one.present)} for one in self.left_alone)
        write_csv(folder / "left_alone.csv", ["station", *present, "why", "reason"], left)
        return [folder / name for name in FILES]

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as JSON-able values."""
        return {
            "explore": self.explore,
            "knobs": list(self.knobs),
            "changes": [_plain(change) for change in self.changes],
            "left_alone": [asdict(station) for station in self.left_alone],
        }


def _plain(change: Change) -> dict[str, Any]:
    gain, lenders = change.gain, [{"station": name, "share": share} for name, share in change.lenders]
    return asdict(change) | {"gain": gain.value, "low": gain.low, "high": gain.high, "lenders": lenders}


# --- A plan on disk: CSV files that people read in a spreadsheet and scripts read to carry them out -----------------
#
# `plan.csv` and `rollback.csv` have the same target columns, `station` and `set_<knob>` for every knob, so that
# whatever carries out the one undoes it with the other. Numbers are written as they are. Text that a spreadsheet would
# take for a formula is written with an apostrophe before it; text that is itself a number needs none.

FILES = ("rollback.csv", "plan.csv", "left_alone.csv")
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")
_NUMBERS: dict[str, Callable[[Change], float]] = {
    "expected_gain": lambda change: change.gain.value,
    "gain_low": lambda change: change.gain.low,
    "gain_high": lambda change: change.gain.high,
    "expected_reward": lambda change: change.expected,
    "expected_reward_unchanged": lambda change: change.expected_unchanged,
    "std": lambda change: change.std,
    "std_alone": lambda change: change.std_alone,
    "own_rows": lambda change: change.own_rows,
    "borrowed_share": lambda change: change.borrowed,
}


def check_folder(folder: Path, *, replace: bool) -> None:
    """Refuse a folder that already holds a plan, unless it may be replaced."""
    if not replace and any((folder / name).exists() for name in FILES):
        raise BadInputError(
            f"{folder} already holds a plan, whose roll-back may still be needed",
            hint="choose another folder, or allow it to be replaced",
            code="plan_exists",
            argument="folder",
        )


def safe_text(text: str) -> str:
    r"""Return text that no spreadsheet takes for a formula, and that stays in its cell.

    A carriage return by itself is not quoted, ends a line all the same, and what follows would begin a cell of its own.

    Example:
        >>> safe_text("=HYPERLINK(1)"), safe_text("-98.5"), safe_text("wait\r=1+1")
        ("'=HYPERLINK(1)", '-98.5', 'wait\n=1+1')
    """
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    return f"'{text}" if text.startswith(_FORMULA) and not _is_number(text) else text


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return text == text.strip()


def _undone(change: Change) -> dict[str, Any]:
    return {"station": change.station, **prefixed("set", change.present)}


def _row(change: Change) -> dict[str, Any]:
    return {
        "station": change.station,
        **prefixed("present", change.present),
        **prefixed("set", change.proposed),
        **{name: rounded(number(change)) for name, number in _NUMBERS.items()},
        "lenders": "; ".join(f"{name} {share:.3f}" for name, share in change.lenders),
        "reason": change.reason,
    }


def prefixed(side: str, configuration: Mapping[str, Any]) -> dict[str, Any]:
    """Return a configuration as columns of a plan, `set_<knob>` and the like."""
    return {f"{side}_{knob}": value for knob, value in configuration.items()}


def rounded(value: float) -> float:
    """Six significant digits: more would be noise to read."""
    return value if isinstance(value, int) else float(f"{value:.6g}")


def write_csv(path: Path, header: list[str], rows: Iterable[dict[str, Any]]) -> None:
    """Write rows under a header; text that a spreadsheet would take for a formula is made harmless."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, header, extrasaction="ignore", lineterminator="\n")
        writer.writeheader()
        for row in rows:
            writer.writerow({name: safe_text(v) if isinstance(v, str) else v for name, v in row.items()})
