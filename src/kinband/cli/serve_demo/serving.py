"""`kinband serve --demo`: the service on a simulated network whose hours pass in seconds.

The only place where service and simulator meet: the simulator plays a network and its manager, and talks to the service
as any other caller does.
"""

import logging
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from kinband.cli.serve_demo.clock import DemoClock
from kinband.cli.serve_demo.desks import DirectDesk, HttpDesk
from kinband.cli.serve_demo.manager import Manager
from kinband.cli.serve_demo.network import DemoNetwork
from kinband.cli.serve_demo.start import (
    PASSED,
    check_stage,
    demo_clock,
    demo_controller,
    demo_rails,
    play_the_past,
    set_the_stage,
)
from kinband.errors import KinbandError

if TYPE_CHECKING:
    from kinband.service.access import Tokens
    from kinband.service.ledger import Ledger
    from kinband.service.operations import Operations
    from kinband.service.running import Place

_PATIENCE_S = 40.0  # seconds that a decision waits for a person at least
_LEAST_PATIENCE = 12  # slots
_LIFE = timedelta(days=1)  # of the tokens of a demonstration
_MANAGER = "network-manager"
_ROLES = ("viewer", "operator", "admin")
_LOG = logging.getLogger("kinband.demo")


@dataclass(frozen=True)
class DemoOptions:
    """What can be chosen about a demonstration.

    Attributes:
        stations: How many sectors there are.
        speed: How many simulated hours pass in a minute.
        seed: Draws everything random.
        ledger: Where to keep it; None for a folder that is deleted at the end.

    Example:
        >>> DemoOptions(speed=30).seconds
        2.0
    """

    stations: int = 63
    speed: float = 30.0
    seed: int = 0
    ledger: str | None = None

    @property
    def seconds(self) -> float:
        """How many seconds a slot takes."""
        return 60.0 / self.speed


def serve_demo(options: DemoOptions, place: "Place", *, insecure_local: bool, level: str) -> None:
    """Serve a simulated network until a signal comes.

    Args:
        options: What is simulated.
        place: Where the service listens.
        insecure_local: Whether there is no access control.
        level: How much is logged.
    """
    from kinband.service import running
    from kinband.service.access.tokens import Tokens
    from kinband.service.ledger import Ledger

    stop = threading.Event()
    with ExitStack() as stack:
        taken = stack.enter_context(running.take_socket(place))
        where, url = stack.enter_context(_folder(options.ledger)), place.url(taken)
        real = stack.enter_context(closing(Ledger.open(where)))
        clock = demo_clock(real, seconds=options.seconds)
        ledger = stack.enter_context(closing(Ledger.open(where, clock=clock)))
        network = DemoNetwork(options.stations, seed=options.seed)
        operations = _operations(ledger, network, clock, seed=options.seed)
        manager = _manager(operations, network, clock, seed=options.seed)
        # Access runs on the real clock, or a session of half a day would last for seconds.
        tokens = None if insecure_local else Tokens(real)
        texts = {} if tokens is None else _tokens(tokens)
        player = _Player(manager, options, url=url, token=texts.get(_MANAGER, ""), stop=stop)
        app = running.application(operations, tokens=tokens, insecure_local=insecure_local)

        def ready() -> None:
            _announce(url, texts, options)
            player.start()

        try:
            running.run(app, place, taken, level=level, ready=ready, ending=stop.set)
        finally:
            stop.set()
            player.end()
            running.store_beliefs(operations)


def _operations(ledger: "Ledger", network: DemoNetwork, clock: DemoClock, *, seed: int) -> "Operations":
    """Open the operations of a demonstration, new or kept."""
    from kinband.guard import rails_from_text
    from kinband.service.operations import Operations
    from kinband.service.starting import rails_for, settings_on_record

    settings = settings_on_record(ledger)
    if settings is not None:
        rails, text = rails_for(ledger, settings, None)
        operations = Operations.open(ledger, rails=rails, rails_text=text, clock=clock, actor="demo")
        check_stage(operations, network)
        return operations
    learning = f"learning from {len(network.log):,} rows of {len(network.stations)} stations"
    with Console(stderr=True).status(learning):
        controller = demo_controller(network, seed=seed)
    text = demo_rails(network)
    found = rails_from_text(text, network.space, stations=network.stations)
    operations = Operations.open(
        ledger, controller, rails=found, rails_text=text, mode="autonomous", clock=clock, actor="demo"
    )
    set_the_stage(operations, network)
    return operations


def _manager(operations: "Operations", network: DemoNetwork, clock: DemoClock, *, seed: int) -> Manager:
    """Return the network manager; that of a new demonstration has some days behind it."""
    with operations.looking() as picture:
        kept = bool(picture.items)
    if kept:
        return Manager(network, DirectDesk(operations), clock, patience=0, seed=seed)
    columns = (TextColumn("{task.description}"), BarColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        bar = progress.add_task(f"playing {PASSED} hours", total=PASSED)
        return play_the_past(operations, network, clock, seed=seed, tick=lambda: progress.update(bar, advance=1))


class _Player:
    """Plays the network in a thread of its own, over HTTP, until it is told to end."""

    def __init__(self, manager: Manager, options: DemoOptions, *, url: str, token: str, stop: threading.Event) -> None:
        self._manager, self._stop, self._seconds = manager, stop, options.seconds
        self._patience = max(_LEAST_PATIENCE, round(_PATIENCE_S / options.seconds))
        self._url, self._token = url, token
        self._thread = threading.Thread(target=self._play, name="kinband-demo", daemon=True)

    def start(self) -> None:
        """Begin to play."""
        self._thread.start()

    def end(self) -> None:
        """Wait until it has ended; `stop` has been set."""
        if self._thread.is_alive():
            self._thread.join(timeout=30.0)

    def _play(self) -> None:
        from kinband.service.client import KinbandClient

        with KinbandClient(self._url, self._token, timeout=30.0, retries=4, sleep=self._wait) as client:
            self._manager.move_to(HttpDesk(client, self._manager.network.space), patience=self._patience)
            while not self._stop.is_set():
                self._slot()

    def _slot(self) -> None:
        """Play one slot; whatever the service refuses is a matter for the log, and tried again."""
        try:
            self._manager.open_slot()
            if not self._stop.wait(self._seconds):
                self._manager.close_slot()
        except KinbandError as error:
            if not self._stop.is_set():
                _LOG.warning("the network manager could not finish a slot: %s", error)
                self._stop.wait(1.0)

    def _wait(self, seconds: float) -> None:
        self._stop.wait(seconds)


@contextmanager
def _folder(ledger: str | None) -> Iterator[str]:
    """Give a place for the ledger; without a name, one that is gone afterwards."""
    if ledger is not None:
        yield ledger
        return
    with TemporaryDirectory(prefix="kinband-demo-") as folder:
        yield str(Path(folder) / "ledger.db")


def _tokens(tokens: "Tokens") -> dict[str, str]:
    """Make a token for each role and one for the manager; those of an earlier run with the same ledger end."""
    now, made = tokens.ledger.now(), dict[str, str]()
    live = {record.name: record.id for record in tokens.list() if record.state(now) == "live"}
    for name, role in [*((f"demo-{role}", role) for role in _ROLES), (_MANAGER, "operator")]:
        if name in live:
            tokens.revoke(live[name], by="demo")
        made[name] = tokens.create(name, role, expires_in=_LIFE, by="demo").token
    return made


def _announce(url: str, texts: dict[str, str], options: DemoOptions) -> None:
    lines = [f"kinband is ready: {url}/"]
    if texts:
        lines += ["Sign in with one of these, good for a day:", *(f"  {r:<9}{texts[f'demo-{r}']}" for r in _ROLES)]
    lines += [
        f"{options.stations} simulated sectors, an hour every {options.seconds:g} s; Ctrl-C ends it"
        + (" and deletes everything." if options.ledger is None else f"; {options.ledger} keeps it.")
    ]
    typer.echo("\n".join(lines))
