"""Starting the service."""

import sys
from contextlib import ExitStack, closing
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer
from rich.console import Console

from kinband.cli.options import (
    LARGEST,
    LogOptions,
    RayAddress,
    Rows,
    Seed,
    SimilarityOption,
    check_log,
    few_rows,
    likeness_of,
    log_in_words,
    noted,
    used_rows,
    with_log_options,
)
from kinband.controller import Controller
from kinband.errors import BadInputError
from kinband.space import ConfigurationSpace
from kinband.trace import Trace

if TYPE_CHECKING:
    from kinband.cluster import OnRay
    from kinband.service.access import Tokens
    from kinband.service.operations import Mode, Operations
    from kinband.service.running import Place


# --- What an empty ledger of a service starts with: a saved controller, or a log to learn from ----------------------
#
# Once a ledger has begun, options about its start are of no use any more, and are said to be.


@dataclass(frozen=True)
class Start:
    """Where the controller of an empty ledger comes from.

    Attributes:
        path: A folder of `Controller.save`, or a log.
        columns: Which column of a log is what.
        running: What the stations of a log run today, as KNOB=VALUE.
        similarity: How alike stations are; learned if None.
        rows: Rows of each station to use; all of them where there are shards.
        shards: The most stations that share.
        seed: Seed of everything random.
    """

    path: Path
    columns: LogOptions
    running: list[str]
    similarity: str | None
    rows: int | None
    shards: int | None
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
            all_rows = self.shards is not None and self.rows is None
            used = trace if all_rows else used_rows(trace, self.rows, seed=self.seed)
            if len(used) > LARGEST and self.shards is None:
                raise BadInputError(f"{len(used):,} rows are too many to start from: give --shards, or fewer --rows")
            notes += few_rows(used)
            running = declared(self.running, space) if self.running else last_rows(trace)
            with Console(stderr=True).status(f"learning from {len(used):,} rows of {len(trace.stations):,} stations"):
                controller = Controller.from_trace(
                    used, space, similarity=likeness_of(self.similarity), shards=self.shards, running=running,
                    reward_range=self.columns.reward_range, seed=self.seed,
                )  # fmt: skip
        typer.echo("\n".join([log_in_words(trace, used), *(f"note: {note}" for note in notes)]), err=True)
        return controller


_USUAL = LogOptions()


def said_at_start(
    columns: LogOptions, *, start: Path | None, mode: str | None, running: list[str] | None, similarity: str | None,
    rows: int | None, shards: int | None = None, seed: int = 0,
) -> list[str]:  # fmt: skip
    """Return the options that were given and count only while a ledger is empty; --reward-range is looked at apart.

    Example:
        >>> given = LogOptions(configuration=["tilt"], reward_range=(0, 1), per_cent=True)
        >>> said_at_start(given, start=Path("log.csv"), mode=None, running=[], similarity=None, rows=None)
        ['--start', '--configuration', '--per-cent']
    """
    found = {"--start": start, "--mode": mode, "--running": running, "--similarity": similarity, "--rows": rows,
             "--shards": shards, "--seed": seed}  # fmt: skip
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


# --- `kinband serve`: the controller as a service, with its HTTP interface and its dashboard ------------------------

_START, _DOOR, _DEMO = "Starting an empty ledger", "Where it listens", "The demonstration"


@with_log_options
def serve(
    ledger: Annotated[
        str | None,
        typer.Option(
            envvar="KINBAND_LEDGER",
            metavar="LEDGER",
            help="Where everything is on record: an SQLite file, or postgresql://user@host/name.",
        ),
    ] = None,
    rails: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Hard limits, a YAML file; those on record hold on if not given."),
    ] = None,
    start: Annotated[
        Path | None,
        typer.Option(
            metavar="LOG|FOLDER",
            help="What an empty ledger starts with: a log (.csv, .parquet), or a folder of Controller.save.",
            rich_help_panel=_START,
        ),
    ] = None,
    mode: Annotated[
        str | None,
        typer.Option(
            metavar="MODE",
            help="What is done with decisions at first: shadow (if not given), assist, autonomous.",
            rich_help_panel=_START,
        ),
    ] = None,
    running: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KNOB=VALUE",
            help="What the stations of a log run today, where its times do not tell; repeat for several knobs.",
            rich_help_panel=_START,
        ),
    ] = None,
    similarity: SimilarityOption = None,
    columns: LogOptions = LogOptions(),
    rows: Rows = None,
    shards: Annotated[
        int | None,
        typer.Option(
            min=2,
            metavar="STATIONS",
            help="For thousands of stations: groups of at most so many similar ones learn apart, 60 to 100 say.",
            rich_help_panel=_START,
        ),
    ] = None,
    ray: RayAddress = None,
    host: Annotated[str, typer.Option(help="An address of this machine.", rich_help_panel=_DOOR)] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 for any free one.", rich_help_panel=_DOOR)] = 8420,
    tls_cert: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Certificate, for https.", rich_help_panel=_DOOR)
    ] = None,
    tls_key: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The certificate's key.", rich_help_panel=_DOOR)
    ] = None,
    insecure_local: Annotated[
        bool,
        typer.Option("--insecure-local", help="No tokens: for this machine alone, to try it.", rich_help_panel=_DOOR),
    ] = False,
    proxy_headers: Annotated[
        bool,
        typer.Option(
            "--proxy-headers", help="Believe the X-Forwarded headers of a proxy on this machine.", rich_help_panel=_DOOR
        ),
    ] = False,
    log_level: Annotated[
        str | None, typer.Option(metavar="LEVEL", help="debug, info, warning or error; info if not given.")
    ] = None,
    demo: Annotated[
        bool, typer.Option("--demo", help="Serve a simulated network with time running fast.", rich_help_panel=_DEMO)
    ] = False,
    speed: Annotated[
        float, typer.Option(help="Simulated hours a minute.", min=1.0, max=6000.0, rich_help_panel=_DEMO)
    ] = 30.0,
    stations: Annotated[int, typer.Option(help="Simulated sectors, 6 to 105.", rich_help_panel=_DEMO)] = 63,
    seed: Seed = 0,
) -> None:
    """Run the controller as a service: HTTP for programs under /v1, a dashboard for people.

    Who may use it is said by tokens (kinband token create). It ends on Ctrl-C or SIGTERM; requests under way are
    answered first, and whatever was answered is on record.

    Example: kinband serve --demo, or: kinband serve --ledger ledger.db --start export.csv --configuration tilt
    """
    begin = None if start is None else Start(start, columns, running or [], similarity, rows, shards, seed)
    said = said_at_start(
        columns,
        start=start,
        mode=mode,
        running=running,
        similarity=similarity,
        rows=rows,
        shards=shards,
        seed=0 if demo else seed,
    )
    others = {"--rails": rails, "--reward-range": columns.reward_range, "--ray": ray}
    _check_together(demo=demo, ledger=ledger, only_without=[*said, *(name for name, given in others.items() if given)])
    level = _level(log_level, demo=demo)
    place = _place(host, port, tls_cert, tls_key, proxy_headers=proxy_headers, insecure_local=insecure_local)
    if demo:
        from kinband.cli.serve_demo import DemoOptions, serve_demo

        chosen = DemoOptions(stations, speed, seed, ledger)
        serve_demo(chosen, place, insecure_local=insecure_local, level=level)
    elif ledger is not None:
        chosen_mode, unused = _mode(mode), Unused(said, columns.reward_range)
        _serve(
            ledger, begin, place, unused, rails=rails, mode=chosen_mode, ray=ray, insecure_local=insecure_local,
            level=level,
        )  # fmt: skip


def _serve(
    where: str,
    begin: Start | None,
    place: "Place",
    unused: Unused,
    *,
    rails: Path | None,
    mode: "Mode | None",
    ray: str | None,
    insecure_local: bool,
    level: str,
) -> None:
    """Serve what is on record in a ledger until a signal comes."""
    from kinband.service import running
    from kinband.service.access.tokens import Tokens
    from kinband.service.ledger import Ledger
    from kinband.service.starting import open_operations, settings_on_record

    with ExitStack() as stack:
        taken = stack.enter_context(running.take_socket(place))
        made = made_before_the_file(where, begin, rails)
        ledger = stack.enter_context(closing(Ledger.open(where)))
        if (settings := settings_on_record(ledger)) is not None:
            unused.tell(settings.config.reward_range)
        elif begin is not None and made is None:
            check_start(begin)
        start = None if begin is None else begin.controller if made is None else lambda: made
        on = None if ray is None else stack.enter_context(cluster_at(ray))
        operations = open_operations(ledger, start=start, rails=rails, mode=mode, on=on)
        tokens = None if insecure_local else Tokens(ledger)
        app, url = running.application(operations, tokens=tokens, insecure_local=insecure_local), place.url(taken)
        try:
            running.run(app, place, taken, level=level, ready=lambda: _announce(url, operations, tokens, place))
        finally:
            running.store_beliefs(operations)


def cluster_at(address: str) -> "OnRay":
    """Return workers on the Ray cluster at an address, placed now: what cannot work fails before anything is served."""
    from kinband.cluster import OnRay

    on = OnRay(None if address == "local" else address)
    on.open()
    return on


def _announce(url: str, operations: "Operations", tokens: "Tokens | None", place: "Place") -> None:
    """Say that the service is ready, in one line, and what is missing."""
    with operations.looking() as picture:
        count, mode = sum(card.active for card in picture.stations.values()), picture.mode
    typer.echo(f"kinband is ready: {url}/ ({count} stations, {mode}, ledger {operations.ledger.name})")
    sys.stdout.flush()
    if tokens is not None:
        now = tokens.ledger.now()
        if not any(record.state(now) == "live" for record in tokens.list()):
            name = operations.ledger.name
            typer.echo(
                "There is no token yet, so nobody can come in: "
                f"kinband token create --ledger {name} --name YOURS --role admin",
                err=True,
            )
    if not place.loopback and place.tls_cert is None and not place.proxy_headers:
        typer.echo(
            "note: tokens travel in the clear: give --tls-cert and --tls-key, or put a proxy with https in front",
            err=True,
        )


def _check_together(*, demo: bool, ledger: str | None, only_without: list[str]) -> None:
    """Refuse options that contradict each other."""
    if not demo and ledger is None:
        raise BadInputError("a service needs a ledger: give --ledger, or --demo for a look at a simulated network")
    if demo:
        for option in only_without:
            raise BadInputError(f"--demo brings a network of its own: leave out {option}")


def _place(
    host: str, port: int, cert: Path | None, key: Path | None, *, proxy_headers: bool, insecure_local: bool
) -> "Place":
    try:
        from kinband.service.running import Place
    except ModuleNotFoundError as error:
        raise BadInputError(f"the service needs {error.name}: pip install 'kinband[service]'") from error
    place = Place(host, port, cert, key, proxy_headers)
    place.check(insecure_local=insecure_local)
    return place


def _level(given: str | None, *, demo: bool) -> str:
    """Return how much is logged; a demonstration has enough to look at."""
    level = given or ("warning" if demo else "info")
    try:
        from kinband.service.running import LEVELS
    except ModuleNotFoundError as error:
        raise BadInputError(f"the service needs {error.name}: pip install 'kinband[service]'") from error
    if level not in LEVELS:
        raise BadInputError(f"--log-level is one of {', '.join(LEVELS)}, got {level!r:.40}")
    return level


def _mode(given: str | None) -> "Mode | None":
    from kinband.service.operations.records import checked_mode

    return None if given is None else checked_mode(given)
