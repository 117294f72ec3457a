"""`kinband serve`: the controller as a service, with its HTTP interface and its dashboard."""

import sys
from contextlib import ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kinband.cli.columns import (
    CategoryColumns,
    DecimalPoint,
    Delimiter,
    IgnoredColumns,
    KnobColumns,
    LogOptions,
    PerCent,
    RewardColumn,
    RewardRange,
    Rows,
    SamplesColumn,
    Seed,
    StateColumns,
    StationColumn,
    TimeColumn,
)
from kinband.cli.likeness import LikenessOption
from kinband.cli.serve_start import Start, Unused, check_start, made_before_the_file, said_at_start
from kinband.errors import BadInputError

if TYPE_CHECKING:
    from kinband.service.access import Tokens
    from kinband.service.operations import Mode, Operations
    from kinband.service.running import Place


_START, _DOOR, _DEMO = "Starting an empty ledger", "Where it listens", "The demonstration"


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
    similarity: LikenessOption = None,
    station: StationColumn = None,
    reward: RewardColumn = None,
    configuration: KnobColumns = None,
    category: CategoryColumns = None,
    state: StateColumns = None,
    ignore: IgnoredColumns = None,
    time: TimeColumn = None,
    samples: SamplesColumn = None,
    reward_range: RewardRange = None,
    per_cent: PerCent = False,
    delimiter: Delimiter = ",",
    decimal_point: DecimalPoint = ".",
    rows: Rows = None,
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
    options = LogOptions(
        station=station, reward=reward, configuration=configuration, category=category, state=state, ignore=ignore,
        time=time, samples=samples, reward_range=reward_range, per_cent=per_cent, delimiter=delimiter,
        decimal_point=decimal_point,
    )  # fmt: skip
    begin = None if start is None else Start(start, options, running or [], similarity, rows, seed)
    said = said_at_start(
        options, start=start, mode=mode, running=running, similarity=similarity, rows=rows, seed=0 if demo else seed
    )
    others = {"--rails": rails, "--reward-range": reward_range}
    _check_together(demo=demo, ledger=ledger, only_without=[*said, *(name for name, given in others.items() if given)])
    level = _level(log_level, demo=demo)
    place = _place(host, port, tls_cert, tls_key, proxy_headers=proxy_headers, insecure_local=insecure_local)
    if demo:
        from kinband.cli.serve_demo.serving import DemoOptions, serve_demo

        chosen = DemoOptions(stations, speed, seed, ledger)
        serve_demo(chosen, place, insecure_local=insecure_local, level=level)
    elif ledger is not None:
        chosen_mode, unused = _mode(mode), Unused(said, reward_range)
        _serve(ledger, begin, place, unused, rails=rails, mode=chosen_mode, insecure_local=insecure_local, level=level)


def _serve(
    where: str,
    begin: Start | None,
    place: "Place",
    unused: Unused,
    *,
    rails: Path | None,
    mode: "Mode | None",
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
            unused.tell(settings.reward_range)
        elif begin is not None and made is None:
            check_start(begin)
        start = None if begin is None else begin.controller if made is None else lambda: made
        operations = open_operations(ledger, start=start, rails=rails, mode=mode)
        tokens = None if insecure_local else Tokens(ledger)
        app, url = running.application(operations, tokens=tokens, insecure_local=insecure_local), place.url(taken)
        try:
            running.run(app, place, taken, level=level, ready=lambda: _announce(url, operations, tokens, place))
        finally:
            running.store_beliefs(operations)


def _announce(url: str, operations: "Operations", tokens: "Tokens | None", place: "Place") -> None:
    """Say that the service is ready, in one line, and what is missing."""
    with operations.looking() as picture:
        count, mode = sum(card.active for card in picture.cards.values()), picture.mode
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
