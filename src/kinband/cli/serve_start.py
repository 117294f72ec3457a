"""What an empty ledger of a service starts with: a saved controller, or a log to learn from.

Once a ledger has begun, options about its start are of no use any more, and are said to be.
"""

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import typer
from rich.console import Console

from kinband.cli.columns import LogOptions
from kinband.cli.likeness import likeness_of
from kinband.cli.logs import LARGEST, check_log, few_rows, log_in_words, noted, used_rows
from kinband.controller import Controller
from kinband.errors import BadInputError
from kinband.space import ConfigurationSpace
from kinband.trace import Trace


@dataclass(frozen=True)
class Start:
    """Where the controller of an empty ledger comes from.

    Attributes:
        path: A folder of `Controller.save`, or a log.
        columns: Which column of a log is what.
        running: What the stations of a log run today, as KNOB=VALUE.
        similarity: How alike stations are; learned if None.
        rows: Rows of each station to use.
        seed: Seed of everything random.
    """

    path: Path
    columns: LogOptions
    running: list[str]
    similarity: str | None
    rows: int | None
    seed: int

    def controller(self) -> Controller:
        """Return the controller, loaded or learned."""
        if self.path.is_dir():
            return Controller.load(self.path)
        notes: list[str] = []
        with noted(notes):
            trace = self.columns.read(self.path)
            check_log(trace)
            space = trace.space()
            used = used_rows(trace, self.rows, seed=self.seed)
            if len(used) > LARGEST:
                raise BadInputError(f"{len(used):,} rows are too many to start from: give a smaller --rows")
            notes += few_rows(used)
            running = declared(self.running, space) if self.running else last_rows(trace)
            with Console(stderr=True).status(f"learning from {len(used):,} rows of {len(trace.stations):,} stations"):
                controller = Controller.from_trace(
                    used, space, similarity=likeness_of(self.similarity), running=running,
                    reward_range=self.columns.reward_range, seed=self.seed,
                )  # fmt: skip
        typer.echo("\n".join([log_in_words(trace, used), *(f"note: {note}" for note in notes)]), err=True)
        return controller


_USUAL = LogOptions()


def said_at_start(
    columns: LogOptions, *, start: Path | None, mode: str | None, running: list[str] | None, similarity: str | None,
    rows: int | None, seed: int = 0,
) -> list[str]:  # fmt: skip
    """Return the options that were given and count only while a ledger is empty; --reward-range is looked at apart.

    Example:
        >>> given = LogOptions(configuration=["tilt"], reward_range=(0, 1), per_cent=True)
        >>> said_at_start(given, start=Path("log.csv"), mode=None, running=[], similarity=None, rows=None)
        ['--start', '--configuration', '--per-cent']
    """
    found = {"--start": start, "--mode": mode, "--running": running, "--similarity": similarity, "--rows": rows,
             "--seed": seed}  # fmt: skip
    named = [field.name for field in fields(columns) if field.name != "reward_range"]
    other = [name for name in named if getattr(columns, name) not in (getattr(_USUAL, name), [])]
    return [option for option, value in found.items() if value] + [f"--{name.replace('_', '-')}" for name in other]


def check_reward_range(given: tuple[float, float] | None, known: tuple[float, float] | None) -> None:
    """Refuse a range of rewards that is not the one on record: rewards in another unit would be learned in silence.

    Example:
        >>> check_reward_range((0, 1), (0.0, 1.0))
        >>> check_reward_range((0, 100), (0.0, 1.0))
        Traceback (most recent call last):
            ...
        kinband.errors.BadInputError: --reward-range is 0 100, but the ledger was started with 0 1: leave it out, ...
    """
    if given is None or given == known:
        return
    started = "none" if known is None else f"{known[0]:g} {known[1]:g}"
    raise BadInputError(
        f"--reward-range is {given[0]:g} {given[1]:g}, but the ledger was started with {started}: leave it out, or "
        "start another ledger"
    )


@dataclass(frozen=True)
class Unused:
    """What was said on the command line and counts only while a ledger is empty.

    Attributes:
        options: The options.
        reward_range: What rewards were said to lie in.
    """

    options: list[str]
    reward_range: tuple[float, float] | None

    def tell(self, known: tuple[float, float] | None) -> None:
        """Say what is not used, since the ledger has a controller; a range of rewards other than its own is refused."""
        check_reward_range(self.reward_range, known)
        if self.options:
            typer.echo(f"note: the ledger has a controller already; not used: {', '.join(self.options)}", err=True)


def made_before_the_file(where: str, begin: Start | None, rails: Path | None) -> Controller | None:
    """Return the controller of a ledger whose file is not there yet, so that what cannot be started leaves no file."""
    from kinband.service.ledger.engines import ledger_url
    from kinband.service.starting import rails_in

    url = ledger_url(where)
    if url.get_backend_name() != "sqlite" or Path(str(url.database)).exists():
        return None
    if begin is None:
        raise BadInputError(
            f"there is no ledger {url.database}: check its name, or give --start with a log, or with a folder of "
            "Controller.save"
        )
    check_start(begin)
    made = begin.controller()
    if rails is not None:
        rails_in(rails, made.settings, stations=made.stations)
    return made


def check_start(start: Start) -> None:
    """Refuse what cannot be started from, before anything is read."""
    if not start.path.exists():
        raise BadInputError(f"there is no {start.path}: --start takes a log, or a folder of Controller.save")
    if start.path.is_dir() and (start.columns.columns or start.running or start.similarity or start.rows):
        raise BadInputError(
            f"{start.path} is a folder, so a saved controller: options about columns, rows, similarity and --running "
            "are for logs, leave them out"
        )
    if start.similarity is not None:
        likeness_of(start.similarity)


def declared(given: list[str], space: ConfigurationSpace) -> dict[str, Any]:
    """Return the configuration that KNOB=VALUE options name.

    Example:
        >>> declared(["tilt=4"], ConfigurationSpace(tilt=[2, 4]))
        {'tilt': 4}
        >>> declared(["tilt=5"], ConfigurationSpace(tilt=[2, 4]))
        Traceback (most recent call last):
            ...
        kinband.errors.BadInputError: --running: knob 'tilt' has no value '5', it has 2, 4
    """
    found: dict[str, Any] = {}
    for text in given:
        knob, equals, value = text.partition("=")
        if not equals or knob not in space.knobs:
            raise BadInputError(f"--running takes KNOB=VALUE with a knob of {', '.join(space.knobs)}, got {text!r:.60}")
        known = [one for one in space.knobs[knob] if _same(one, value)]
        if not known:
            values = ", ".join(map(str, space.knobs[knob]))
            raise BadInputError(f"--running: knob {knob!r} has no value {value!r:.40}, it has {values:.200}")
        found[knob] = known[0]
    if missing := [knob for knob in space.knobs if knob not in found]:
        raise BadInputError(f"--running says nothing of the knob {missing[0]!r}: give every knob")
    space.index(found)
    return found


def _same(value: object, text: str) -> bool:
    if isinstance(value, str):
        return value == text
    try:
        return float(str(value)) == float(text)
    except ValueError:
        return str(value) == text


def last_rows(trace: Trace) -> dict[str, dict[str, Any]] | None:
    """Return what every station ran last, by station; None where the log has no time.

    Example:
        >>> log = {"station": ["a", "a", "b"], "time": [1, 2, 1], "tilt": [2, 4, 2], "reward": [0.8, 0.9, 0.7]}
        >>> last_rows(Trace.from_frame(log, {"configuration": ["tilt"]}))
        {'a': {'tilt': 4}, 'b': {'tilt': 2}}
    """
    if trace.time is None:
        return None
    found: dict[str, dict[str, Any]] = {}
    for station in trace.stations:
        rows = np.flatnonzero(trace.station == station)
        last = rows[np.argsort(trace.time[rows], kind="stable")[-1]]
        found[station] = {knob: values[last].item() for knob, values in trace.configuration.items()}
    return found
