"""Options that several commands share, declared once, and the logs that they read.

A command that reads a log takes one argument of the class `LogOptions`: `with_options` turns the fields of such a
dataclass into options, so that every command spells and explains them alike.
"""

import inspect
import logging
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, is_dataclass, replace
from datetime import datetime
from functools import partial, wraps
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import numpy as np
import typer
from numpy.typing import NDArray

from kinband.cli.app import ctrl_c_ends_at_once
from kinband.cli.profile import read_profile
from kinband.cli.render import echo_lines
from kinband.errors import BadInputError, NotFoundError
from kinband.guardrails import Rails, read_rails
from kinband.planning import Present, check_step, silent_since
from kinband.planning.network import GROUP_STATIONS, ONE_MODEL, learn_network, shards_of
from kinband.progress import stage
from kinband.similarity import NAMES, TaskMatrix, similarity_from
from kinband.similarity.shards import Shards, load_similarity
from kinband.space import ConfigurationSpace
from kinband.stats import counted
from kinband.trace import Trace
from kinband.trace.answers import FEW, LogQuestions, log_questions, some_of, without_leaks
from kinband.trace.cells import check_date_format
from kinband.trace.files import read_table, told_encoding
from kinband.trace.guesses import station_column
from kinband.trace.rewards import is_sum, mixes_units, summed_columns
from kinband.trace.table import read_log, station_numbers, understood_columns

_ROOM = str(Path(__file__).parents[1])  # warnings that begin here are meant for the user

# --- The options ----------------------------------------------------------------------------------------------------

_PANEL = "The log and its columns"


_log_option = partial(typer.Option, rich_help_panel=_PANEL)


def _column(help_text: str) -> Any:
    return _log_option(metavar="COLUMN", help=help_text)


LOG_KINDS = ".csv, .tsv or .txt, also as .gz or .zip; .xlsx or .parquet"
LogFile = Annotated[Path, typer.Argument(metavar="LOG", help=f"The log: {LOG_KINDS}.", show_default=False)]
Rows = Annotated[int | None, _log_option(min=1, help="Rows of each station to use, drawn at random; all if not given.")]
Seed = Annotated[int, typer.Option(min=0, help="Seed of everything random.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the results for machines.")]
Workers = Annotated[int, typer.Option(min=0, help="Processes; 0 for one per core.")]
KeptFolder = Annotated[Path, typer.Option(help="Folder for results and figures; runs that are there are kept.")]
MostRows = Annotated[
    int, typer.Option(min=1, help="Up to how many rewards of related stations evidence is weighed; 8,000 take 10 s.")
]
RayAddress = Annotated[
    str | None, typer.Option(help="Run on the Ray cluster at host:port instead, or on 'auto', this machine's.")
]
ShardSize = Annotated[
    int | None,
    typer.Option(
        min=1,
        metavar="STATIONS",
        help="Groups of at most so many similar stations learn apart; "
        f"{GROUP_STATIONS} where there are more than {ONE_MODEL}.",
    ),
]
SimilarityOption = Annotated[
    str | None,
    typer.Option(
        "--similarity",
        metavar="NAME|FILE",
        help=f"How alike stations are: {', '.join(NAMES)}, or a similarity.npz or .csv file; learned if not given.",
    ),
]


RailsFile = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Guard rails (YAML): limits, frozen stations, neighbours.", show_default=False),
]


@dataclass(frozen=True)
class LogOptions:
    """Which column of a log is what, as given on the command line; what is not given follows the file or its names."""

    station: Annotated[str | None, _column("Station names; 'station' if not given, or a column named like one.")] = None
    reward: Annotated[
        str | None,
        _column("Rewards; 'reward' if not given. Or a weighted sum of columns: 0.8*good_share+0.02*rate_mbps."),
    ] = None
    configuration: Annotated[list[str] | None, _column("A knob; repeat for several.")] = None
    category: Annotated[
        list[str] | None, _column("A knob whose numbers are names, not quantities; repeat for several.")
    ] = None
    state: Annotated[
        list[str] | None, _column("A state feature; repeat for several. All other numeric columns if not given.")
    ] = None
    ignore: Annotated[
        list[str] | None, _column("A numeric column that is no state, such as a serial number; repeat for several.")
    ] = None
    time: Annotated[str | None, _column("Time, or day and hour as Date+Hour; found by its name if not given.")] = None
    samples: Annotated[
        str | None, _column("Of how many users or samples a reward is the share; 'samples' if there is one.")
    ] = None
    reward_range: Annotated[
        tuple[float, float] | None,
        _log_option(metavar="LOW HIGH", help="What rewards must lie in, such as 0 1; others are refused."),
    ] = None
    per_cent: Annotated[
        bool, _log_option("--per-cent", help="Rewards are in per cent: turn them into shares first.")
    ] = False
    delimiter: Annotated[
        str | None, _log_option(metavar="MARK", help="What separates the columns of a text file; found if not given.")
    ] = None
    decimal_point: Annotated[
        str | None, _log_option(metavar="MARK", help="The decimal mark of a text file; found if not given.")
    ] = None
    encoding: Annotated[
        str | None, _log_option(metavar="NAME", help="The encoding of a text file; found if not given.")
    ] = None
    date_format: Annotated[
        str | None,
        _log_option(metavar="FORMAT", help="What 03/04/2024 means: dmy or mdy, or a pattern such as %d-%b-%y %H."),
    ] = None
    skip_bad: Annotated[
        bool, _log_option("--skip-bad", help="Leave out rows with bad or missing cells, and say how many.")
    ] = False
    profile: Annotated[
        Path | None,
        _log_option(metavar="FILE", help="A YAML file with these options, from kinband look --save-profile."),
    ] = None

    def __post_init__(self) -> None:
        for name, value in (read_profile(self.profile) if self.profile else {}).items():
            if getattr(self, name) in (None, False, []):
                object.__setattr__(self, name, value)
        check_date_format(self.date_format, name="--date-format")

    @property
    def columns(self) -> dict[str, Any] | None:
        """The column map, or None where no column was named."""
        roles = ("station", "reward", "configuration", "state", "ignore", "time", "samples")
        named = {role: getattr(self, role) for role in roles if getattr(self, role)}
        return named or None

    @property
    def marks(self) -> dict[str, Any]:
        """How columns are parted and numbers written; None where that is to be found out."""
        delimiter = "\t" if self.delimiter in ("\\t", "tab") else self.delimiter
        for name, mark in (("delimiter", delimiter), ("decimal-point", self.decimal_point)):
            if mark is not None and len(mark) != 1:
                raise BadInputError(f"--{name} is one character, got {mark!r}")
        if self.decimal_point not in (None, ".", ","):
            raise BadInputError(f"--decimal-point is . or , and nothing else, got {self.decimal_point!r}")
        if delimiter is not None and delimiter == self.decimal_point:
            raise BadInputError("--delimiter and --decimal-point must differ")
        return {"delimiter": delimiter, "decimal_point": self.decimal_point}

    @property
    def written(self) -> dict[str, Any]:
        """How a file is written, all of it."""
        return {**self.marks, "encoding": self.encoding, "date_format": self.date_format}

    def beside(self, path: Path) -> dict[str, Any]:
        """How another file is written: as the log, but for an encoding that its own bytes tell."""
        eight_bits = None if (self.encoding or "utf").lower().startswith("utf") else self.encoding
        return {**self.written, "encoding": told_encoding(path) or eight_bits}

    def station_in(self, path: Path) -> str:
        """Return the column of the stations in another file beside the log."""
        if self.station:
            return self.station
        table = read_table(path, **self.beside(path), noted=False).cleaned.table
        return station_column(table)[0] or "station"

    def last_rows(self, path: Path, trace: Trace) -> dict[str, Present]:
        """Return what every station of a log ran last, bad and missing cells of the last row not known."""
        reading = read_table(path, **self.written)
        named = reading.note["columns"] if reading.note else understood_columns(reading, self.columns)
        table = reading.cleaned.table
        columns = {name: table.column(name).to_pylist() for name in dict.fromkeys(table.column_names)}
        stations, times = columns[named.get("station", "station")], columns.get(named.get("time", "time"))
        last: dict[str, int] = {}
        for row, name in enumerate(stations):
            before = last.get(str(name))
            later = times is None or before is None or times[row] is None or times[row] >= times[before]
            if name is not None and later and (times is None or times[row] is not None or before is None):
                last[str(name)] = row
        found, silent = {}, silent_since(trace)
        for name in trace.stations:
            state = {one: columns[one][last[name]] for one in trace.state_names}
            numbers = {one: float("nan") if value is None else float(value) for one, value in state.items()}
            knobs = {knob: columns[knob][last[name]] for knob in trace.configuration}
            found[name] = Present(numbers, knobs, silent=silent.get(name, ""))
        return found

    def read(self, path: Path, *, kpis: Sequence[str] = ()) -> Trace:
        """Read a log; `kpis` are columns that have floors, and then are no states."""
        return self.read_with_column(path, None, kpis=kpis)[0]

    def read_with_column(
        self, path: Path, column: str | None, *, kpis: Sequence[str] = ()
    ) -> tuple[Trace, NDArray[Any] | None]:
        """Read a log, or the bundled one, and, if asked for, one more column of it, (n,), which then is no state."""
        if str(path) == "bundled":
            if self != LogOptions() or column is not None or kpis:
                raise BadInputError("the bundled trace says itself what its columns are: leave these options out")
            with ctrl_c_ends_at_once():
                return Trace.bundled(), None
        if self.reward_range is not None and not self.reward_range[0] < self.reward_range[1]:
            raise BadInputError(f"--reward-range needs LOW below HIGH, got {self.reward_range}")
        marks, columns = self.written, self._columns_without(column)
        with about(path):
            with stage(f"reading {path.name}"), ctrl_c_ends_at_once():
                trace, labels = read_log(
                    path, columns, further=column, kpis=kpis, categories=self.category or (), skip_bad=self.skip_bad,
                    marks=marks, reward_range=self.reward_range, per_cent=self.per_cent,
                )  # fmt: skip
            self._check_rewards(trace)
        if self.columns is not None and not self.state:  # a file that kinband wrote names its states
            trace, left_out = without_leaks(trace)
            for sentence in left_out:
                warnings.warn(sentence, UserWarning, stacklevel=1)
        return self._with_categories(trace), labels

    def _columns_without(self, column: str | None) -> dict[str, Any] | None:
        """The column map, in which the further column becomes no state."""
        columns = self.columns
        if columns is None or column is None:
            return columns
        lists = (self.configuration, self.state, self.ignore, summed_columns(self.reward))
        taken = {self.station, self.reward, self.time, self.samples, *(name for names in lists for name in names or [])}
        return columns if column in taken else {**columns, "ignore": [*(self.ignore or []), column]}

    def _check_rewards(self, trace: Trace) -> None:
        """Refuse rewards in two units, and shares that are none."""
        trace.reward_noise()
        as_read = trace.reward * (100 if self.per_cent else 1)
        if self.reward_range is None and not is_sum(self.reward) and mixes_units(as_read):
            raise BadInputError(
                f"the rewards seem to mix shares and per cent, from {trace.reward.min():g} to {trace.reward.max():g}",
                hint="bring them to one unit, or pass --reward-range to say that they are right",
                argument="reward",
            )

    def _with_categories(self, trace: Trace) -> Trace:
        if not self.category:
            return trace
        space = trace.space()
        if missing := [name for name in self.category if name not in space.knobs]:
            raise BadInputError(
                f"--category names {missing[0]!r}, which is not a knob: name it with --configuration {missing[0]} too"
            )
        known = [space.feature_names[column] for column in space.categorical]
        return trace.with_space(ConfigurationSpace.from_list(space, categories=[*known, *self.category]))


def with_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of its arguments that are dataclasses of options, one by one."""
    own = inspect.signature(command).parameters
    groups = {name: one.annotation for name, one in own.items() if is_dataclass(one.annotation)}
    parameters: list[inspect.Parameter] = []
    for name, one in own.items():
        parameters += _parameters(groups[name]) if name in groups else [one.replace(kind=one.KEYWORD_ONLY)]

    @wraps(command)
    def run(**given: Any) -> None:
        chosen = {name: _chosen(group, given) for name, group in groups.items()}
        command(**given, **chosen)

    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {one.name: one.annotation for one in parameters}
    return run


def _parameters(group: Any) -> list[inspect.Parameter]:
    """The options of a dataclass, those of dataclasses within it among them."""
    hints, found = get_type_hints(group, include_extras=True), list[inspect.Parameter]()
    for one in fields(group):
        alone = inspect.Parameter(
            one.name, inspect.Parameter.KEYWORD_ONLY, default=one.default, annotation=hints[one.name]
        )
        found += _parameters(hints[one.name]) if is_dataclass(hints[one.name]) else [alone]
    return found


def _chosen(group: Any, given: dict[str, Any]) -> Any:
    """The dataclass of options that were given; they are taken out of `given`."""
    hints = {name: hint for name, hint in get_type_hints(group).items() if is_dataclass(hint)}
    names = [one.name for one in fields(group)]
    return group(**{name: _chosen(hints[name], given) if name in hints else given.pop(name) for name in names})


# --- What commands do with a log they have read --------------------------------------------------------------------


def check_log(trace: Trace) -> None:
    """Refuse a log from which nothing can be learned about any station."""
    if len(trace) == len(trace.stations):
        raise BadInputError("every station has one row only, which says nothing about it: give a longer log")
    if trace.reward.min() == trace.reward.max():
        raise BadInputError(f"all rewards are {trace.reward[0]:g}: there is nothing to learn, check --reward")


def few_rows(asked: LogQuestions) -> list[str]:
    """Return a note on stations with too few rows to know whom they resemble; none where all have enough."""
    few = asked.few_rows
    return [f"fewer than {FEW} rows, so that their similarity is a guess: {some_of(few)}"] if few else []


def used_rows(trace: Trace, rows: int | None, *, seed: int) -> Trace:
    """Return the rows of a log that are used: all, unless so many of each station are asked for."""
    if rows is None or rows >= np.bincount(station_numbers(trace)).max():
        return trace
    used = trace.sample(rows, np.random.default_rng([seed, 1]))
    left_out = f"{len(trace) - len(used):,} of {len(trace):,} rows are NOT used: at most {rows:,} of each station are"
    typer.echo(f"kinband: warning: {left_out}", err=True)
    return used


def log_in_words(trace: Trace, used: Trace) -> str:
    """Return what was read, so that a wrong column is seen at once, and what it can answer."""
    return "\n".join(log_questions(trace, used).in_words())


def first_lines(trace: Trace, used: Trace | None = None, *, quiet: bool = False) -> LogQuestions:
    """Print what was read and what it can answer, before any work, unless quiet; and return it."""
    found = log_questions(trace, used)
    if not quiet:
        echo_lines(*found.in_words())
    return found


class _Gathering(logging.Handler):
    """Takes what the program's log warns of as notes to the user."""

    def __init__(self, found: list[str]) -> None:
        super().__init__(logging.WARNING)
        self._found = found

    def emit(self, record: logging.LogRecord) -> None:
        self._found.append(record.getMessage())


@contextmanager
def noted(notes: list[str]) -> Iterator[None]:
    """Gather what kinband warns of, and what its log does, as notes to the user, each once; libraries warn in vain."""
    logged = list[str]()
    handler, logger = _Gathering(logged), logging.getLogger("kinband")
    logger.addHandler(handler)
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            yield
    finally:
        logger.removeHandler(handler)
    ours = [str(one.message) for one in caught if issubclass(one.category, UserWarning) and _ROOM in one.filename]
    for text in [*(text.replace("; duplicates='drop' leaves them out", "") for text in ours), *logged]:
        if text not in notes:
            notes.append(text)


@contextmanager
def about(path: Path) -> Iterator[None]:
    """Let refusals say which file they are about, unless they do."""
    try:
        yield
    except (BadInputError, NotFoundError) as error:
        if str(path) in error.problem:
            raise
        told = {"hint": error.hint, "code": error.code, "argument": error.argument, "value": error.value}
        raise BadInputError(f"{path}: {error.problem}", **told) from error


def shards_text(shards: Shards) -> str:
    """Return a note on groups that learn apart, and what is lost by it."""
    sizes = [len(part) for part in shards.parts]
    span = f"{min(sizes)} to {max(sizes)}" if min(sizes) < max(sizes) else f"{sizes[0]}"
    return (
        f"{sum(sizes):,} stations learn in {len(shards):,} groups of {span} that answer alike to settings (--shards): "
        f"two of a group are {shards.within:.2f} alike on average, two of different groups about {shards.between:.2f}"
    )


def similarity_in_shards(
    used: Trace, similarity: str | None, *, shards: int | None, seed: int, workers: int | None = None
) -> Shards | None:
    """Return how alike stations are, in groups of similar ones; None for a network that is small enough to be one."""
    M = len(used.stations)
    if shards is None and M <= ONE_MODEL:
        return None
    size = shards or GROUP_STATIONS
    with stage(f"putting {M:,} stations into groups of up to {size} that answer alike to settings"):
        network = learn_network(used, similarity=similarity, together=size, size=size, seed=seed)
    with stage(f"comparing stations within {counted(len(network.groups), 'group')}", M) as step:
        return shards_of(network, workers=workers, tick=lambda done: step("comparing", done))


# --- Folders for results: made and tried before any work, so that nothing is computed that could not be kept --------


def make_folder(out: Path, *, reads: Sequence[Path | None] = (), writes: Sequence[str] = ()) -> None:
    """Make a folder and try to write to it, or say what is in the way: a file that the command reads is never lost."""
    for file in [out / name for name in writes if (out / name).is_file()]:
        if any(one is not None and one.is_file() and one.samefile(file) for one in reads):
            raise BadInputError(f"{file} is read here and would be written over: choose another folder with --out")
    try:
        out.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=out):
            pass
    except OSError as error:
        reason = "a file of that name is in the way" if out.is_file() else (error.strerror or str(error)).lower()
        raise BadInputError(f"cannot write to {out} ({reason}): choose another folder with --out") from error


def similarity_of(similarity: str | None) -> str | TaskMatrix | Shards | None:
    """Return the name, or what a file holds; an unknown name is refused before any work."""
    if similarity is None:
        return None
    if Path(similarity).suffix.lower() in (".npz", ".csv"):
        return load_similarity(similarity)
    similarity_from(similarity)
    return similarity


# --- Configurations on the command line ----------------------------------------------------------------------------


def steps_of(given: Sequence[str], space: ConfigurationSpace) -> dict[str, float]:
    """Return the furthest that knobs may move, from KNOB=VALUE options."""
    steps: dict[str, float] = {}
    for text in given:
        knob, equals, value = text.rpartition("=")
        try:
            steps[knob] = float(value)
        except ValueError:
            equals = ""
        if not equals:
            raise BadInputError(f"--step takes KNOB=VALUE, such as {next(iter(space.knobs))}=2, got {text!r}")
        check_step(space, knob, step=steps[knob])
    return steps


def rails_of(file: Path | None, space: ConfigurationSpace, stations: Sequence[str]) -> Rails | None:
    """Return the guard rails of a file, if there is one, without freezes that have ended."""
    if file is None:
        return None
    rails = read_rails(file, space, stations=stations)
    today = datetime.now(rails.zone).date()
    return replace(rails, freeze=tuple(freeze for freeze in rails.freeze if freeze.holds(today)))


def configuration_of(given: Sequence[str], space: ConfigurationSpace, *, option: str) -> dict[str, Any]:
    """Return the configuration that KNOB=VALUE options name; an unknown one is refused."""
    chosen: dict[str, Any] = {}
    for text in given:
        knob, equals, value = text.partition("=")
        if not equals:
            example = f"{next(iter(space.knobs))}=VALUE"
            raise BadInputError(f"{option} takes KNOB=VALUE for every knob, such as {example}, got {text!r:.60}")
        chosen[knob] = value_like(value, space.knob(knob)[1].values[0], f"{option} {knob}=")
    return dict(space[space.index(chosen)])


def value_like(text: str, like: Any, what: str) -> Any:
    """Return a value of the command line as what its knob holds."""
    if isinstance(like, str):
        return text
    if isinstance(like, bool):
        if text.lower() not in ("true", "false"):
            raise BadInputError(f"{what} takes true or false, got {text!r:.40}")
        return text.lower() == "true"
    try:
        return float(text)
    except ValueError:
        raise BadInputError(f"{what} takes a number, got {text!r:.40}") from None
