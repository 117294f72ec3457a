"""What commands that read a log have in common: which column is what, how many rows to use, and notes to the user.

The options are type aliases, so that every command spells and explains them alike. Messages of the library that name
its arguments are turned into the options of the command line.
"""

import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from kinband.errors import BadInputError
from kinband.trace import Trace

MOST_ROWS = 6000
"""Rows of a log used unless --rows says otherwise: about half a minute of work."""

_PANEL = "The log and its columns"

LogFile = Annotated[Path, typer.Argument(metavar="LOG", help="The log: .csv, .csv.gz or .parquet.", show_default=False)]
StationColumn = Annotated[
    str | None,
    typer.Option("--station", metavar="COLUMN", help="Station names; 'station' if not given.", rich_help_panel=_PANEL),
]
RewardColumn = Annotated[
    str | None,
    typer.Option("--reward", metavar="COLUMN", help="Rewards; 'reward' if not given.", rich_help_panel=_PANEL),
]
KnobColumns = Annotated[
    list[str] | None,
    typer.Option("--configuration", metavar="COLUMN", help="A knob; repeat for several.", rich_help_panel=_PANEL),
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
    state: list[str] | None = None
    time: str | None = None
    samples: str | None = None
    reward_range: tuple[float, float] | None = None
    delimiter: str = ","
    decimal_point: str = "."

    @property
    def columns(self) -> dict[str, Any] | None:
        """The column map, or None where no column was named."""
        roles = ("station", "reward", "configuration", "state", "time", "samples")
        named = {role: getattr(self, role) for role in roles if getattr(self, role)}
        return named or None

    @property
    def marks(self) -> dict[str, str]:
        """How CSV files are written."""
        for name, mark in (("delimiter", self.delimiter), ("decimal-point", self.decimal_point)):
            if len(mark) != 1:
                raise BadInputError(f"--{name} is one character, got {mark!r}")
        if self.delimiter == self.decimal_point:
            raise BadInputError("--delimiter and --decimal-point must differ")
        return {"delimiter": self.delimiter, "decimal_point": self.decimal_point}

    def read(self, path: Path) -> Trace:
        """Read a log."""
        if self.reward_range is not None and not self.reward_range[0] < self.reward_range[1]:
            raise BadInputError(f"--reward-range needs LOW below HIGH, got {self.reward_range}")
        try:
            return Trace.read(
                path,
                self.columns,
                reward_range=self.reward_range,
                delimiter=self.marks["delimiter"],
                decimal_point=self.marks["decimal_point"],
            )
        except BadInputError as error:
            raise BadInputError(in_options(str(error))) from error


def in_options(message: str) -> str:
    """Return a message of the library with arguments spelled as options of the command line.

    Example:
        >>> in_options('there is no column "x" (the reward): pass columns={"reward": "...", ...}')
        'there is no column "x" (the reward): name the right one with --reward'
    """
    message = re.sub(r'pass columns=\{"(\w+)".*', r"name the right one with --\1", message)
    message = message.replace("pass columns=", "name the columns with --configuration, --reward and so on")
    message = message.replace("pass delimiter=", "pass --delimiter ")
    message = message.replace("; duplicates='drop' leaves them out", "")
    return message.replace("reward_range", "--reward-range")


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
        'log: 1 rows of 1 stations; state: none; knobs: tilt'
    """
    rows = f"{len(trace):,} rows of {len(trace.stations):,} stations"
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
        text = in_options(str(warning.message))
        if text not in notes:
            notes.append(text)
