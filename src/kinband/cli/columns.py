"""The options of commands that read a log: which column is what, and how its numbers are written.

They are type aliases, so that every command spells and explains them alike. Messages of the library that name its
arguments are turned into these options.
"""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from numpy.typing import NDArray

from kinband.cli.interrupts import ctrl_c_ends_at_once
from kinband.cli.logs import MOST_ROWS
from kinband.errors import BadInputError, NotFoundError
from kinband.space import ConfigurationSpace
from kinband.trace import Trace
from kinband.trace.files import read_column
from kinband.trace.rewards import WeightedReward, is_sum, mixes_units

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
