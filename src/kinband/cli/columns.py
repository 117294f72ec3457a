"""Logs on the command line: their files, and which column is what."""

import os
import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray

from kinband.cli.interrupts import ctrl_c_ends_at_once
from kinband.counting import counted
from kinband.errors import BadInputError, NotFoundError
from kinband.space import ConfigurationSpace
from kinband.trace import Trace
from kinband.trace.files import read_column
from kinband.trace.rewards import WeightedReward, is_sum, mixes_units

# --- What commands do with a log they have read: how much of it to use, what to say of it, and notes to the user ----

MOST_ROWS = 6000
"""Rows of a log used unless --rows says otherwise: about half a minute of work."""

FEW = 20
"""With fewer rows than this, a station's likeness is a guess."""

_SHOWN = 8  # names in a list

LARGEST = 20_000
"""Rows that a controller can hold at most."""


def check_log(trace: Trace) -> None:
    """Refuse a log from which nothing can be learned about any station.

    Example:
        >>> check_log(Trace.from_frame({"station": ["a"], "tilt": [2], "reward": [0.8]}, {"configuration": ["tilt"]}))
        Traceback (most recent call last):
            ...
        kinband.errors.BadInputError: every station has one row only, which says nothing about it: give a longer log
    """
    if len(trace) == len(trace.stations):
        raise BadInputError("every station has one row only, which says nothing about it: give a longer log")
    if trace.reward.min() == trace.reward.max():
        raise BadInputError(f"all rewards are {trace.reward[0]:g}: there is nothing to learn, check --reward")


def few_rows(trace: Trace) -> list[str]:
    """Return a note on stations with too few rows to know whom they resemble; none where all have enough.

    Example:
        >>> log = {"station": ["a"] * 3 + ["b"] * 30, "tilt": range(33), "reward": np.linspace(0, 1, 33)}
        >>> few_rows(Trace.from_frame(log, {"configuration": ["tilt"]}))
        ['fewer than 20 rows, so that their likeness is a guess: a']
    """
    names, counts = np.unique(trace.station, return_counts=True)
    few = names[counts < FEW].tolist()
    return [f"fewer than {FEW} rows, so that their likeness is a guess: {some_of(few)}"] if few else []


def some_of(names: Sequence[str]) -> str:
    """Return the first of many names, and how many more there are.

    Example:
        >>> some_of(["a", "b"]), some_of([str(n) for n in range(10)])
        ('a, b', '0, 1, 2, 3, 4, 5, 6, 7 and 2 more')
    """
    more = f" and {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more


def used_rows(trace: Trace, rows: int | None, *, seed: int) -> Trace:
    """Return the rows of a log that are used: so many of each station, by default at most `MOST_ROWS` in all.

    Example:
        >>> log = {"station": ["a"] * 5 + ["b"], "tilt": [2, 4, 6, 8, 2, 4], "reward": [0.8, 0.9, 0.7, 0.6, 0.5, 0.4]}
        >>> len(used_rows(Trace.from_frame(log, {"configuration": ["tilt"]}), 2, seed=0))
        3
    """
    counts = np.unique(trace.station, return_counts=True)[1]
    if rows is None:
        rows = even_share(counts.tolist(), most=MOST_ROWS)
    if rows >= counts.max():
        return trace
    return trace.sample(rows, np.random.default_rng([seed, 1]))


def even_share(counts: list[int], *, most: int) -> int:
    """Return how many rows each station may give, at least one, so that all together give at most `most`.

    Example:
        >>> even_share([2, 10, 10], most=12)
        5
    """
    left = most
    for place, count in enumerate(sorted(counts)):
        share = left // (len(counts) - place)
        if count > share:
            return max(share, 1)
        left -= count
    return max(counts)


def log_in_words(trace: Trace, used: Trace) -> str:
    """Return what was read, so that a wrong column is seen at once.

    Example:
        >>> trace = Trace.from_frame({"station": ["a"], "tilt": [2], "reward": [0.8]}, {"configuration": ["tilt"]})
        >>> log_in_words(trace, trace)
        'log: 1 row of 1 station; state: none; knobs: tilt'
    """
    rows = f"{counted(len(trace), 'row')} of {counted(len(trace.stations), 'station')}"
    if len(used) < len(trace):
        most = int(np.unique(used.station, return_counts=True)[1].max())
        rows = f"{len(used):,} of {rows}, drawn at random, at most {most:,} a station (--rows takes more or fewer)"
    return f"log: {rows}; state: {', '.join(trace.state_names) or 'none'}; knobs: {', '.join(trace.configuration)}"


@contextmanager
def noted(notes: list[str]) -> Iterator[None]:
    """Gather warnings as notes to the user, each once.

    Example:
        >>> notes: list[str] = []
        >>> with noted(notes):
        ...     warnings.warn("feature 'load' never varies", UserWarning)
        >>> notes
        ["feature 'load' never varies"]
    """
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    for warning in caught:
        text = str(warning.message).replace("; duplicates='drop' leaves them out", "")
        if text not in notes:
            notes.append(text)


@contextmanager
def unwarned() -> Iterator[None]:
    """Keep what the library warns of off the screen, here and in processes that are started meanwhile.

    For work that is done many times over, in which a warning concerns one of many models and the user can do nothing
    about it.

    Example:
        >>> with unwarned():
        ...     warnings.warn("a matrix had to be projected", UserWarning)
    """
    before = os.environ.get("PYTHONWARNINGS")
    os.environ["PYTHONWARNINGS"] = "ignore"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        del os.environ["PYTHONWARNINGS"]
        if before is not None:
            os.environ["PYTHONWARNINGS"] = before


# --- The options of commands that read a log: which column is what, and how its numbers are written -----------------
#
# They are type aliases, so that every command spells and explains them alike. Messages of the library that name its
# arguments are turned into these options.

_PANEL = "The log and its columns"

LogFile = Annotated[Path, typer.Argument(metavar="LOG", help="The log: .csv, .csv.gz or .parquet.", show_default=False)]
StationColumn = Annotated[
    str | None,
    typer.Option("--station", metavar="COLUMN", help="Station names; 'station' if not given.", rich_help_panel=_PANEL),
]
RewardColumn = Annotated[
    str | None,
    typer.Option(
        "--reward",
        metavar="COLUMN",
        help="Rewards; 'reward' if not given. Or a weighted sum of columns: 0.8*good_share+0.02*rate_mbps.",
        rich_help_panel=_PANEL,
    ),
]
KnobColumns = Annotated[
    list[str] | None,
    typer.Option("--configuration", metavar="COLUMN", help="A knob; repeat for several.", rich_help_panel=_PANEL),
]
CategoryColumns = Annotated[
    list[str] | None,
    typer.Option(
        "--category",
        metavar="COLUMN",
        help="A knob whose numbers are names, not quantities; repeat for several.",
        rich_help_panel=_PANEL,
    ),
]
StateColumns = Annotated[
    list[str] | None,
    typer.Option(
        "--state",
        metavar="COLUMN",
        help="A state feature; repeat for several. All other numeric columns if not given.",
        rich_help_panel=_PANEL,
    ),
]
IgnoredColumns = Annotated[
    list[str] | None,
    typer.Option(
        "--ignore",
        metavar="COLUMN",
        help="A numeric column that is no state, such as a serial number; repeat for several.",
        rich_help_panel=_PANEL,
    ),
]
TimeColumn = Annotated[
    str | None,
    typer.Option("--time", metavar="COLUMN", help="Time; 'time' if there is one.", rich_help_panel=_PANEL),
]
SamplesColumn = Annotated[
    str | None,
    typer.Option(
        "--samples",
        metavar="COLUMN",
        help="Of how many users or samples a reward is the share; 'samples' if there is one.",
        rich_help_panel=_PANEL,
    ),
]
RewardRange = Annotated[
    tuple[float, float] | None,
    typer.Option(
        metavar="LOW HIGH",
        help="What rewards must lie in, such as 0 1; others are refused.",
        rich_help_panel=_PANEL,
    ),
]
PerCent = Annotated[
    bool,
    typer.Option("--per-cent", help="Rewards are in per cent: turn them into shares first.", rich_help_panel=_PANEL),
]
Delimiter = Annotated[
    str, typer.Option(metavar="MARK", help="What parts the columns of a CSV file.", rich_help_panel=_PANEL)
]
DecimalPoint = Annotated[
    str, typer.Option(metavar="MARK", help="The decimal mark of a CSV file.", rich_help_panel=_PANEL)
]
Rows = Annotated[
    int | None,
    typer.Option(
        min=1,
        help=f"Rows of each station to use, drawn at random; at most {MOST_ROWS:,} in all if not given.",
        rich_help_panel=_PANEL,
    ),
]
Seed = Annotated[int, typer.Option(min=0, help="Seed of everything random.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the results for machines.")]


@dataclass(frozen=True)
class LogOptions:
    """Which column of a log is what, as given on the command line; what is not given follows the file or its names.

    Example:
        >>> LogOptions(station="cell", configuration=["tilt"]).columns
        {'station': 'cell', 'configuration': ['tilt']}
    """

    station: str | None = None
    reward: str | None = None
    configuration: list[str] | None = None
    category: list[str] | None = None
    state: list[str] | None = None
    ignore: list[str] | None = None
    time: str | None = None
    samples: str | None = None
    reward_range: tuple[float, float] | None = None
    per_cent: bool = False
    delimiter: str = ","
    decimal_point: str = "."

    @property
    def columns(self) -> dict[str, Any] | None:
        """The column map, or None where no column was named."""
        roles = ("station", "reward", "configuration", "state", "ignore", "time", "samples")
        named = {role: getattr(self, role) for role in roles if getattr(self, role)}
        return named or None

    @property
    def marks(self) -> dict[str, str]:
        """How CSV files are written."""
        delimiter = "\t" if self.delimiter in ("\\t", "tab") else self.delimiter
        for name, mark in (("delimiter", delimiter), ("decimal-point", self.decimal_point)):
            if len(mark) != 1:
                raise BadInputError(f"--{name} is one character, got {mark!r}")
        if delimiter == self.decimal_point:
            raise BadInputError("--delimiter and --decimal-point must differ")
        return {"delimiter": delimiter, "decimal_point": self.decimal_point}

    def read(self, path: Path) -> Trace:
        """Read a log."""
        return self.read_beside(path, None)[0]

    def read_beside(self, path: Path, beside: str | None) -> tuple[Trace, NDArray[Any] | None]:
        """Read a log and, if asked for, one more column of it, (n,), which then is no state."""
        if self.reward_range is not None and not self.reward_range[0] < self.reward_range[1]:
            raise BadInputError(f"--reward-range needs LOW below HIGH, got {self.reward_range}")
        try:
            with ctrl_c_ends_at_once():
                labels = None if beside is None else read_column(path, beside, **self.marks)
                trace = Trace.read(
                    path,
                    self._columns_without(beside),
                    reward_range=self.reward_range,
                    per_cent=self.per_cent,
                    delimiter=self.marks["delimiter"],
                    decimal_point=self.marks["decimal_point"],
                )
            self._check_rewards(trace)
            return self._with_categories(trace), labels
        except (BadInputError, NotFoundError) as error:
            raise BadInputError(about_file(path, in_options(str(error)))) from error

    def _columns_without(self, beside: str | None) -> dict[str, Any] | None:
        """The column map, in which the column beside the log becomes no state."""
        columns = self.columns
        if columns is None or beside is None:
            return columns
        singles, lists = (
            (self.station, self.reward, self.time, self.samples),
            (self.configuration, self.state, self.ignore, _parts(self.reward)),
        )
        taken = {*singles, *(name for names in lists for name in names or [])}
        return columns if beside in taken else {**columns, "ignore": [*(self.ignore or []), beside]}

    def _check_rewards(self, trace: Trace) -> None:
        """Refuse rewards in two units, and shares that are none."""
        trace.reward_noise()
        as_read = trace.reward * (100 if self.per_cent else 1)
        if self.reward_range is None and not is_sum(self.reward) and mixes_units(as_read):
            raise BadInputError(
                f"the rewards seem to mix shares and per cent, from {trace.reward.min():g} to {trace.reward.max():g}: "
                "bring them to one unit, or pass reward_range to say that they are right"
            )

    def _with_categories(self, trace: Trace) -> Trace:
        if not self.category:
            return trace
        space = trace.space()
        if missing := [name for name in self.category if name not in space.knobs]:
            raise BadInputError(
                f"--category names {missing[0]!r}, which is no knob: name it with --configuration {missing[0]} too"
            )
        known = [space.feature_names[column] for column in space.categorical]
        return trace.with_space(ConfigurationSpace.from_list(space, categories=[*known, *self.category]))


def _parts(reward: str | None) -> list[str]:
    """The columns of a weighted reward; none where it is one column, or not understood."""
    try:
        return list(WeightedReward.parse(reward).weights) if is_sum(reward) and reward else []
    except BadInputError:  # which a column of that name would explain, and else the reader complains of
        return []


def about_file(path: Path, message: str) -> str:
    """Say which file is meant, unless the message does or is about an option.

    Example:
        >>> about_file(Path("log.csv"), "there is no column 'x'")
        "log.csv: there is no column 'x'"
    """
    return message if str(path) in message or message.startswith("--") else f"{path}: {message}"


def in_options(message: str) -> str:
    """Return a message of the library with arguments spelled as options of the command line.

    Example:
        >>> in_options('there is no column "x" (the reward): pass columns={"reward": "...", ...}')
        'there is no column "x" (the reward): name the right one with --reward'
    """
    message = re.sub(r'pass columns=\{"(\w+)".*', r"name the right one with --\1", message)
    message = re.sub(r"(?:in|with) columns=\{'(\w+)'.*", r"with --\1", message)
    message = message.replace("pass columns=", "name the columns with --configuration, --reward and so on")
    message = message.replace("pass delimiter=", "pass --delimiter ").replace("decimal_point=", "--decimal-point ")
    message = message.replace("; duplicates='drop' leaves them out", "")
    message = message.replace("per_cent=True", "--per-cent").replace("categories names", "--category names")
    message = message.replace("with log_rows", "with --log-rows").replace("with skip_short", "with --skip-short")
    return message.replace("reward_range", "--reward-range")
