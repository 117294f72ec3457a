"""`kinband serve`: the controller as a service, with its HTTP interface and its dashboard."""

import os
import sys
from contextlib import ExitStack, closing
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from kinband.cli.apply import PASSWORD
from kinband.cli.considerations import ConsiderationOptions
from kinband.cli.ledger import LEDGER, KeyOption, needs_service
from kinband.cli.options import (
    LOG_KINDS,
    LogOptions,
    RayAddress,
    Rows,
    Seed,
    ShardSize,
    SimilarityOption,
    check_log,
    configuration_of,
    log_in_words,
    noted,
    shards_text,
    similarity_in_shards,
    similarity_of,
    used_rows,
    with_options,
)
from kinband.controller import Controller
from kinband.counters import CounterMap
from kinband.deploy import Access
from kinband.errors import BadInputError
from kinband.guardrails.yaml import entry_of, text_of
from kinband.progress import stage
from kinband.similarity import TaskMatrix
from kinband.similarity.shards import Shards
from kinband.trace import Trace
from kinband.trace.table import rows_by_station

if TYPE_CHECKING:
    from kinband.cluster import OnRay
    from kinband.service.access import Tokens
    from kinband.service.access.oidc import Provider
    from kinband.service.carrying import Network
    from kinband.service.operations import Mode, Operations
    from kinband.service.operations.feeds import Feed
    from kinband.service.operations.records import Called
    from kinband.service.running import Place
    from kinband.service.schemas import Manner


# --- What an empty ledger of a service starts with: a saved controller, or a log to learn from ----------------------
#
# Once a ledger has begun, options about its start are of no use any more, and are said to be.


_USUAL, _NOTHING = LogOptions(), ConsiderationOptions()
_FED = ("station", "time", "reward", "samples", "per_cent", "delimiter", "decimal_point", "encoding", "date_format",
        "profile")  # fmt: skip  # which say how counters are read, too, at every start
_EXACT_SHARDS = 8  # up to which each may be exact: a quarter of a gigabyte with 8,000 rows
_start_option = partial(typer.Option, rich_help_panel="Starting an empty ledger")


@dataclass(frozen=True)
class StartOptions:
    """What was said on the command line about the controller of an empty ledger."""

    start: Annotated[
        Path | None,
        _start_option(
            metavar="LOG|FOLDER",
            help=f"What an empty ledger starts with: a log ({LOG_KINDS}), or a folder of Controller.save.",
        ),
    ] = None
    mode: Annotated[
        str | None,
        _start_option(
            metavar="MODE", help="What is done with decisions at first: shadow (if not given), assist, autonomous."
        ),
    ] = None
    running: Annotated[
        list[str] | None,
        _start_option(
            metavar="KNOB=VALUE",
            help="What the stations of a log run today, where its times do not tell; repeat for several knobs.",
        ),
    ] = None
    similarity: SimilarityOption = None
    considered: ConsiderationOptions = _NOTHING
    columns: LogOptions = _USUAL
    mapping: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="What measurement files sent to /v1/counters hold: the YAML file of kinband counters.",
            rich_help_panel="Counters as they come",
        ),
    ] = None
    period: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="How long a period of counters lasts, such as 15min; as in the log, else 1h, if not given.",
            rich_help_panel="Counters as they come",
        ),
    ] = None
    rows: Rows = None
    shards: ShardSize = None
    seed: Seed = 0

    def given(self) -> list[str]:
        """Return the options that were given and count only while a ledger is empty, --reward-range apart."""
        names = ("start", "mode", "running", "similarity", "rows", "shards", "seed")
        found = [name for name in names if getattr(self, name)]
        named = [one.name for one in fields(LogOptions) if one.name not in ("reward_range", *_FED)]
        found += [name for name in named if getattr(self.columns, name) not in (getattr(_USUAL, name), [])]
        found += [one.name for one in fields(ConsiderationOptions) if getattr(self.considered, one.name)]
        return [f"--{name.replace('_', '-')}" for name in found]

    def feed(self) -> "Feed | None":
        """Return how counters are read that are sent to the service; None where nothing was said of it."""
        from kinband.service.operations.feeds import Feed

        said = {name: getattr(self.columns, name) for name in ("station", "time", "reward", "samples")}
        written = {name: value for name, value in self.columns.written.items() if value is not None}
        made = Feed(
            {name: value for name, value in said.items() if value},
            written,
            self.columns.per_cent,
            "" if self.mapping is None else text_of(self.mapping),
            None if self.period is None else _seconds(self.period),
        )
        made.check(source=str(self.mapping))
        return None if made == Feed() else made

    def check(self) -> Path:
        """Return where to start from, or refuse what cannot be started from before anything is read."""
        path = self.start
        if path is None or not path.exists():
            raise BadInputError(f"there is no {path}: --start takes a log, or a folder of Controller.save")
        about_logs = (self.columns.columns, self.running, self.similarity, self.rows, self.considered != _NOTHING)
        if path.is_dir() and any(about_logs):
            raise BadInputError(
                f"{path} is a folder, so a saved controller: options about columns, rows, similarity, what counts "
                "beside the reward and --running are for logs, leave them out"
            )
        similarity_of(self.similarity)
        self.considered.check()
        return path

    def controller(self, learned: dict[str, str] | None = None) -> Controller:
        """Return the controller, loaded or learned; what its log calls the reward is noted in `learned`."""
        path, notes = self.check(), list[str]()
        if path.is_dir():
            return Controller.load(path)
        with noted(notes):
            trace = self.columns.read(path, kpis=self.considered.kpis)
            check_log(trace)
            if learned is not None:
                learned["reward"] = trace.reward_name
            space = trace.space()
            heeded = self.considered.read(trace, space, self.columns, notes)
            used = used_rows(trace, self.rows, seed=self.seed)
            known: Any = configuration_of(self.running, space, option="--running") if self.running else last_rows(trace)
            alike, given = self._alike(used.with_space(space), notes)
            with stage(f"learning from {len(used):,} rows of {len(trace.stations):,} stations"):
                controller = Controller.from_trace(
                    used, space, similarity=alike, running=known, reward_range=self.columns.reward_range,
                    seed=self.seed, kpis=heeded.floors, neighbours=heeded.neighbours, drift=heeded.drift,
                    descriptors={name: one for name, one in heeded.descriptors.items() if name in trace.stations},
                    **given,
                )  # fmt: skip
        if "shards" in controller.setup.notes:
            notes.append(str(controller.setup.notes["shards"]))
        typer.echo("\n".join([log_in_words(trace, used), *(f"note: {note}" for note in notes)]), err=True)
        return controller

    def _alike(self, used: Trace, notes: list[str]) -> tuple[Any, dict[str, Any]]:
        """How alike stations are, and how beliefs are kept; of many stations in groups, which is said."""
        alike = similarity_of(self.similarity)
        if isinstance(alike, TaskMatrix):
            return alike, {"shards": self.shards}
        shards = alike if isinstance(alike, Shards) else None
        if not isinstance(alike, Shards):
            shards = similarity_in_shards(used, alike, shards=self.shards, seed=self.seed)
        if shards is None:
            return alike, {}
        if shards is not alike:
            notes.append(shards_text(shards))
        sparse = len(shards) > _EXACT_SHARDS
        if sparse:
            notes.append(
                f"{len(shards):,} groups learn from all of their rows by inducing points, which bounds their memory"
            )
        return shards.matrix(used.stations), {"engine": "sparse"} if sparse else {}

    def tell_unused(self, known: tuple[float, float] | None) -> None:
        """Say what is not used, since the ledger has a controller; a range of rewards other than its own is refused:
        rewards in another unit would be learned in silence.
        """
        given = self.columns.reward_range
        if given is not None and given != known:
            started = "none" if known is None else f"{known[0]:g} {known[1]:g}"
            raise BadInputError(
                f"--reward-range is {given[0]:g} {given[1]:g}, but the ledger was started with {started}: "
                "leave it out, or start another ledger"
            )
        if options := self.given():
            typer.echo(f"note: the ledger has a controller already; not used: {', '.join(options)}", err=True)

    def made_before_the_file(self, where: str, rails: Path | None, learned: dict[str, str]) -> Controller | None:
        """Return the controller of a ledger whose file is not there yet: what cannot be started leaves no file."""
        from kinband.service.ledger.engines import ledger_url
        from kinband.service.starting import rails_in

        url = ledger_url(where)
        if url.get_backend_name() != "sqlite" or Path(str(url.database)).exists():
            return None
        if self.start is None:
            raise BadInputError(
                f"there is no ledger {url.database}: check its name, or give --start with a log, or with a folder of "
                "Controller.save"
            )
        made = self.controller(learned)
        if rails is not None:
            rails_in(rails, made.setup, stations=made.stations)
        return made


def _seconds(text: str) -> float:
    """Return a length of time with its unit, in seconds."""
    seconds = entry_of(text or "''", source="--period").duration().total_seconds()
    if not seconds:
        raise BadInputError(f"--period must be longer than nothing, got {text!r:.40}: write one such as 15min")
    return seconds


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
    for station, rows in zip(trace.stations, rows_by_station(trace), strict=True):
        last = rows[np.argsort(trace.time[rows], kind="stable")[-1]]
        found[station] = {knob: values[last].item() for knob, values in trace.configuration.items()}
    return found


# --- The command ----------------------------------------------------------------------------------------------------

_door = partial(typer.Option, rich_help_panel="Where it listens")
_demo = partial(typer.Option, rich_help_panel="The demonstration")
_network = partial(typer.Option, rich_help_panel="Carrying out what is ordered (--orders network)")


@with_options
def serve(
    ledger: Annotated[str | None, typer.Option(**LEDGER)] = None,
    key: KeyOption = None,
    rails: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Hard limits, a YAML file; those on record stay in force if not given."),
    ] = None,
    notify: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Whom to tell of what happens, a YAML file (kinband notify).")
    ] = None,
    name: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COLUMN=NAME",
            help="What pages call the reward, a knob or a feature, with a unit behind a comma: 'reward=Good users', "
            "'handover_threshold_dbm=HO threshold, dBm'; repeat for several. Those on record stay if none is given.",
        ),
    ] = None,
    orders: Annotated[
        str | None,
        typer.Option(
            metavar="MANNER",
            help="When an order counts as carried out: assumed, at once (at first); confirmed, once the network "
            "manager says so; network, once the service itself has carried it out. On record from then on. With "
            "--demo, confirmed adds a window at night.",
        ),
    ] = None,
    ssh_config: Annotated[
        Path | None,
        _network(metavar="FILE", help="An OpenSSH configuration: keys, known hosts, users, a proxy."),
    ] = None,
    confirm: Annotated[
        int,
        _network(metavar="SECONDS", min=5, max=86_400, help="Seconds until nodes undo what was not confirmed."),
    ] = 300,
    said: StartOptions = StartOptions(),
    ray: RayAddress = None,
    host: Annotated[str, _door(help="An address of this machine.")] = "127.0.0.1",
    port: Annotated[int, _door(min=0, max=65535, help="0 for any free one.")] = 8420,
    tls_cert: Annotated[Path | None, _door(metavar="FILE", help="Certificate, for https.")] = None,
    tls_key: Annotated[Path | None, _door(metavar="FILE", help="The certificate's key.")] = None,
    insecure_local: Annotated[
        bool, _door("--insecure-local", help="No tokens: for this machine alone, to try it.")
    ] = False,
    proxy_headers: Annotated[
        bool, _door("--proxy-headers", help="Believe the X-Forwarded headers of a proxy on this machine.")
    ] = False,
    oidc: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", envvar="KINBAND_OIDC", help="An identity provider that people sign in through, a YAML file."
        ),
    ] = None,
    log_level: Annotated[
        str | None, typer.Option(metavar="LEVEL", help="debug, info, warning or error; info if not given.")
    ] = None,
    demo: Annotated[bool, _demo("--demo", help="Serve a simulated network with time running fast.")] = False,
    speed: Annotated[float, _demo(help="Simulated hours a minute.", min=1.0, max=6000.0)] = 30.0,
    stations: Annotated[int, _demo(help="Simulated sectors, 6 to 105.")] = 63,
) -> None:
    """Run the controller as a service: HTTP for programs under /v1, a dashboard for people.

    Who may use it is said by tokens (kinband token create). It ends on Ctrl-C or SIGTERM; requests under way are
    answered first, and whatever was answered is on record.

    Example: kinband serve --demo, or: kinband serve --ledger ledger.db --start export.csv --configuration tilt
    """
    if not demo and ledger is None:
        raise BadInputError("a service needs a ledger: give --ledger, or --demo for a look at a simulated network")
    if oidc is not None and insecure_local:
        raise BadInputError("--oidc is for a service with access control: leave out --insecure-local")
    others = {
        "--oidc": oidc, "--orders": orders == "network", "--rails": rails, "--notify": notify, "--name": name,
        "--reward-range": said.columns.reward_range, "--ray": ray, "--ssh-config": ssh_config,
    }  # fmt: skip
    fed = [
        f"--{name}" for name in ("mapping", "period", *_FED) if getattr(said, name, getattr(said.columns, name, None))
    ]
    alien = [*replace(said, seed=0).given(), *fed, *(option for option, given in others.items() if given)]
    if demo and alien:
        raise BadInputError(f"--demo brings a network of its own: leave out {alien[0]}")
    with needs_service():
        from kinband.service.operations.records import checked_manner, checked_mode
        from kinband.service.running import LEVELS, Place
    level = log_level or ("warning" if demo else "info")  # a demonstration has enough to look at
    if level not in LEVELS:
        raise BadInputError(f"--log-level is one of {', '.join(LEVELS)}, got {level!r:.40}")
    place = Place(host, port, tls_cert, tls_key, proxy_headers)
    place.check(insecure_local=insecure_local)
    if demo:
        from kinband.cli.serve_demo import DemoOptions, serve_demo

        manner = None if orders is None else checked_manner(orders)
        options = DemoOptions(stations, speed, said.seed, ledger, manner)
        serve_demo(options, place, insecure_local=insecure_local, level=level)
    elif ledger is not None:
        mode = None if said.mode is None else checked_mode(said.mode)
        network = _network_of(orders, said.mapping, ssh_config, confirm)
        manner = None if orders is None else checked_manner("confirmed" if network is not None else orders)
        _serve(
            ledger, said, place, key=key, rails=rails, notify=notify, names=name or [], mode=mode, manner=manner,
            network=network, ray=ray, oidc=oidc,
            insecure_local=insecure_local, level=level,
        )  # fmt: skip


def _serve(
    where: str,
    said: StartOptions,
    place: "Place",
    *,
    key: Path | None,
    rails: Path | None,
    notify: Path | None,
    names: list[str],
    mode: "Mode | None",
    manner: "Manner | None",
    network: "Network | None",
    ray: str | None,
    oidc: Path | None,
    insecure_local: bool,
    level: str,
) -> None:
    """Serve what is on record in a ledger until a signal comes."""
    from kinband.service import running
    from kinband.service.access.tokens import Tokens
    from kinband.service.carrying import Carrier
    from kinband.service.ledger import Key, Ledger
    from kinband.service.notify.notifier import Deliveries, Notifier
    from kinband.service.notify.settings import read_settings
    from kinband.service.starting import open_operations, setup_on_record
    from kinband.service.tracing import tracing

    told = None if notify is None else read_settings(notify)
    with ExitStack() as stack:
        stack.enter_context(tracing())
        provider = None if oidc is None else stack.enter_context(closing(_provider_in(oidc)))
        feed = said.feed()
        taken = stack.enter_context(running.take_socket(place))
        learned = dict[str, str]()
        made = said.made_before_the_file(where, rails, learned)
        ledger = stack.enter_context(closing(Ledger.open(where, key=None if key is None else Key.read(key))))
        if (setup := setup_on_record(ledger)) is not None:
            said.tell_unused(setup.config.reward_range)
        start = None if said.start is None else partial(said.controller, learned) if made is None else lambda: made
        on = None if ray is None else stack.enter_context(_cluster_at(ray))
        operations = open_operations(
            ledger, start=start, rails=rails, names=lambda: _names(names, learned), mode=mode, manner=manner, feed=feed,
            on=on,
        )  # fmt: skip
        carrier = None if network is None else Carrier(operations, _fitting(network, operations))
        if carrier is not None:
            stack.callback(carrier.end)
        tokens = None if insecure_local else Tokens(ledger)
        url = place.url(taken)
        app = running.application(operations, tokens=tokens, insecure_local=insecure_local, provider=provider)
        notifier = None if told is None else Notifier(operations, told)
        if notifier is not None:
            app.state.metrics.registry.register(Deliveries(notifier))
            stack.callback(notifier.end)

        def ready() -> None:
            _announce(url, operations, tokens, place)
            for beside in (notifier, carrier):
                if beside is not None:
                    beside.start()

        try:
            running.run(
                app, place, taken, level=level, ready=ready,
                ending=operations.turns.end,
            )  # fmt: skip
        finally:
            running.store_beliefs(operations)


def _network_of(orders: str | None, mapping: Path | None, ssh_config: Path | None, seconds: int) -> "Network | None":
    """Return how the network is reached, where the service carries out itself what is ordered."""
    from kinband.service.schemas import MANNERS

    if orders not in (None, "network", *MANNERS):
        raise BadInputError(f"--orders is {', '.join(MANNERS)} or network, got {orders!r:.60}")
    if orders != "network":
        if ssh_config is not None:
            raise BadInputError("--ssh-config is for a service that reaches the nodes: give --orders network, too")
        return None
    if mapping is None:
        raise BadInputError("--orders network needs --mapping: the file with units, inventory and paths in NETCONF")
    from kinband.service.carrying import Network

    access = Access(ssh_config="" if ssh_config is None else str(ssh_config), password=os.environ.get(PASSWORD))
    return Network(CounterMap.read(mapping), access, seconds)


def _fitting(network: "Network", operations: "Operations") -> "Network":
    """Return how the network is reached, once it is known to fit the stations; say which it lacks."""
    with operations.looking() as read_model:
        stations = [one.station for one in read_model.stations.values() if one.active]
    if missing := network.check(operations.space, stations):
        named = f"{missing[0]}{f' and {len(missing) - 1:,} more' if len(missing) > 1 else ''}"
        typer.echo(f"note: no order can be carried out at stations that the inventory lacks: {named}", err=True)
    return network


def _provider_in(file: Path) -> "Provider":
    """Return the identity provider of a file; whether it answers is seen when somebody signs in."""
    try:
        from kinband.service.access.oidc import Provider
    except ModuleNotFoundError as error:
        raise BadInputError(f"--oidc needs {error.name}: pip install 'kinband[oidc]'") from error
    from kinband.service.access.provider import read_provider

    return Provider(read_provider(file))


def _names(given: list[str], learned: dict[str, str]) -> "dict[str, Called]":
    """Return what pages call things: as options say, and the reward as its log does where they do not."""
    from kinband.service.operations.records import Called

    found = dict[str, Called]()
    for text in given:
        column, sign, name = text.partition("=")
        if not sign:
            raise BadInputError(f"--name takes COLUMN=NAME, such as 'reward=Good users', got {text!r:.60}")
        found[column.strip()] = Called.parse(name)
    called = learned.get("reward", "reward")
    if "reward" not in found and called != "reward":
        found["reward"] = Called(called[:40])
    return found


def _cluster_at(address: str) -> "OnRay":
    """Return workers on the Ray cluster at an address, placed now: what cannot work fails before anything is served."""
    from kinband.cluster import OnRay

    on = OnRay(address)
    on.open()
    return on


def _announce(url: str, operations: "Operations", tokens: "Tokens | None", place: "Place") -> None:
    """Say that the service is ready, in one line, and what is missing."""
    with operations.looking() as read_model:
        count, mode = sum(one.active for one in read_model.stations.values()), read_model.mode
    typer.echo(f"kinband is ready: {url}/ ({count} stations, {mode}, ledger {operations.ledger.name})")
    sys.stdout.flush()
    if tokens is not None:
        now = tokens.ledger.now()
        if not any(record.state(now) == "live" for record in tokens.list()):
            name = operations.ledger.name
            typer.echo(
                "There is no token yet, so nobody can sign in: "
                f"kinband token create --ledger {name} --name YOURS --role admin",
                err=True,
            )
    if not place.loopback and place.tls_cert is None and not place.proxy_headers:
        typer.echo(
            "note: tokens travel in the clear: give --tls-cert and --tls-key, or put a proxy with https in front",
            err=True,
        )
