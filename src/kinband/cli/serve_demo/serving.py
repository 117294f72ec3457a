"""The service of the demonstration."""

import logging
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import numpy as np
import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from kinband.cli.serve_demo.network import SLOT, DemoClock, DemoNetwork, Manager, Seen
from kinband.controller import Controller
from kinband.errors import BadInputError, ConflictError, KinbandError, NotFoundError
from kinband.policies.safety import Conservative, SwitchingCost
from kinband.similarity import ProjectionWarning
from kinband.space import ConfigurationSpace

if TYPE_CHECKING:
    from kinband.service.access import Tokens
    from kinband.service.client import Decision, KinbandClient
    from kinband.service.ledger import Ledger
    from kinband.service.operations import Item, Mode, Operations
    from kinband.service.running import Place


# --- Two ways from the manager of a demonstration to the service: in the same process, and over HTTP ----------------
#
# The hours before the service opens are played in the process, which is quick. From then on everything takes the way
# of a real network manager: requests with a token of its own, sent by the client that anybody can use.

_ACTOR = "network-manager"


class DirectDesk:
    """Asks operations in the same process.

    Args:
        operations: Whom to ask.
    """

    def __init__(self, operations: "Operations") -> None:
        self._operations = operations

    def stations(self) -> list[str]:
        """Return who is decided for."""
        with self._operations.looking() as picture:
            return [card.station for card in picture.cards.values() if card.active]

    def ask(self, states: Mapping[str, Mapping[str, float]], *, slot: str) -> list[Seen]:
        """Ask for a round of decisions."""
        return [_of_item(item) for item in self._operations.ask(states, slot=slot, actor=_ACTOR)]

    def look(self, ids: Iterable[str]) -> list[Seen]:
        """Return decisions as they stand."""
        with self._operations.looking() as picture:
            return [_of_item(picture.item(decision)) for decision in ids]

    def tell(self, rewards: Mapping[str, float]) -> None:
        """Report rewards by decision, all or nothing."""
        self._operations.tell(rewards, actor=_ACTOR)

    def correct(self, decision: str, reward: float) -> None:
        """Put a reward right."""
        self._operations.correct(decision, reward, actor=_ACTOR)

    def call_off(self, decision: str) -> None:
        """Say that no reward will come."""
        self._operations.call_off(decision, actor=_ACTOR)


class HttpDesk:
    """Asks a service over HTTP.

    Args:
        client: How to reach it.
        space: What stations can run.
    """

    def __init__(self, client: "KinbandClient", space: ConfigurationSpace) -> None:
        self._client, self._space = client, space

    def stations(self) -> list[str]:
        """Return who is decided for."""
        return [found.station for found in self._client.stations() if found.active]

    def ask(self, states: Mapping[str, Mapping[str, float]], *, slot: str) -> list[Seen]:
        """Ask for a round of decisions."""
        with _refusals():
            return [self._of(made) for made in self._client.ask(states, slot=slot)]

    def look(self, ids: Iterable[str]) -> list[Seen]:
        """Return decisions as they stand: the latest ones from one list, others one by one."""
        wanted = list(ids)
        listed = self._client.decisions(page=max(1, min(len(wanted), 500)))
        latest = {made.id: made for made in islice(listed, len(wanted))}
        return [self._of(latest.get(key) or self._client.decision(key)) for key in wanted]

    def tell(self, rewards: Mapping[str, float]) -> None:
        """Report rewards by decision, all or nothing."""
        with _refusals():
            self._client.tell(rewards)

    def correct(self, decision: str, reward: float) -> None:
        """Put a reward right."""
        with _refusals():
            self._client.correct(decision, reward)

    def call_off(self, decision: str) -> None:
        """Say that no reward will come."""
        with _refusals():
            self._client.call_off(decision)

    def _of(self, made: "Decision") -> Seen:
        arm = None if made.run is None else self._space.index(made.run)
        return Seen(made.id, made.station, arm, made.run != made.before, made.status == "waiting", made.open)


def _of_item(item: "Item") -> Seen:
    return Seen(item.id, item.station, item.arm, item.arm != item.running, item.status == "waiting", item.open)


@contextmanager
def _refusals() -> Iterator[None]:
    """Turn refusals of the service into the errors that they were inside of it."""
    from kinband.service.client import ServiceError

    try:
        yield
    except ServiceError as error:
        if error.status in (404, 409):
            raise (NotFoundError if error.status == 404 else ConflictError)(error.detail) from error
        raise


# --- How a demonstration begins: a controller that has learned from a log, rails, modes, and two days that have
# passed
#
# The rails are tight enough for every kind of verdict to come up within a few days. Most stations change by
# themselves, some wait for a person, some only show what they would do. In the days before the curtain rises, "ada" is
# on shift: she approves, rejects and says why, so that the audit log has something to tell.

PASSED = 48
"""Slots that have passed when a demonstration opens."""

_BUDGET = 192  # inducing points: a round of 105 stations in a fifth of a second
_BETA = 0.3  # as in `kinband demo`
_SWITCH = 0.005  # what a change has to promise
_UNATTENDED = 10  # slots before a demonstration opens in which nobody looks at the plan
_ADA = "ada"
_YES = ("agreed", "agreed, the site was surveyed last week", "worth a try", "")
_NO = ("too close to the match", "wait for the new antenna", "not this week")


def demo_controller(network: DemoNetwork, *, seed: int) -> Controller:
    """Return a controller that has learned from the log of a network."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ProjectionWarning)
        return Controller.from_trace(
            network.log, network.space, engine="sparse", budget=_BUDGET, beta=_BETA,
            reward_range=(0.0, 1.0), safety=[Conservative(0.05, delta=0.05), SwitchingCost(_SWITCH)],
            running=network.today, descriptors=network.descriptors, seed=seed,
        )  # fmt: skip


def demo_rails(network: DemoNetwork) -> str:
    """Return the file of rails of a demonstration.

    Example:
        >>> "handover_threshold_dbm: {max: -86, step: 12}" in demo_rails(DemoNetwork(6))
        True
    """
    [knob] = network.space.knobs
    frozen, early = network.stations[4], ", ".join(f'"{name}"' for name in network.stations[:3])
    return f"""\
# The rails of a demonstration. docs/guard.md explains every key.
knobs:
  {knob}: {{max: -86, step: 12}}
stations:
  "{network.stations[1]}":
    {knob}: {{min: -104}}
changes: {{min_time: 3h, per_day: 6, per_round: {max(2, len(network.stations) // 6)}, round: 30min}}
forbidden:
  - {{from: "17:00", to: "19:00", why: commuters are on their way home}}
  - {{from: "07:00", to: "09:00", stations: [{early}], why: the centre wakes up}}
freeze:
  - {{station: "{frozen}", why: antenna swap}}
fallback: {{drop: 25%, slots: 3, before: 12, within: 1d, retry_after: 2d}}
"""


def mode_of(number: int) -> "Mode":
    """Return the mode of a station by its number: most are autonomous.

    Example:
        >>> [mode_of(number) for number in (0, 3, 5)]
        ['autonomous', 'assist', 'shadow']
    """
    if number % 4 == 3:
        return "assist"
    return "shadow" if number % 11 == 5 else "autonomous"


def demo_clock(ledger: "Ledger", *, seconds: float) -> DemoClock:
    """Return the clock of a demonstration: a new one opens now, one that is kept goes on where it was."""
    now = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
    last = next(iter(ledger.read(kinds=["decision"], newest_first=True, limit=1)), None)
    if last is None:
        return DemoClock(now - PASSED * SLOT, seconds=seconds)
    then = datetime.fromisoformat(last.at).replace(minute=0, second=0, microsecond=0)
    return DemoClock(then + SLOT, seconds=seconds)


def check_stage(operations: "Operations", network: DemoNetwork) -> None:
    """Refuse a ledger that is of no demonstration, or of one with other stations."""
    with operations.looking() as picture:
        known = [card.station for card in picture.cards.values()]
    if not set(network.stations) <= set(known):
        raise BadInputError(
            f"the ledger {operations.ledger.name} is not of a demonstration with {len(network.stations)} stations: "
            "give --stations as then, or another --ledger"
        )


def set_the_stage(operations: "Operations", network: DemoNetwork) -> None:
    """Set the modes, and freeze a station, as people do."""
    assist = [name for number, name in enumerate(network.stations) if mode_of(number) == "assist"]
    shadow = [name for number, name in enumerate(network.stations) if mode_of(number) == "shadow"]
    operations.set_mode("assist", assist, comment="on trial: a person looks first", actor=_ADA)
    operations.set_mode("shadow", shadow, comment="watched for a week before the trial", actor=_ADA)
    operations.freeze(network.stations[-1], why="measurements with a test car", actor=_ADA)


def play_the_past(
    operations: "Operations", network: DemoNetwork, clock: DemoClock, *, seed: int, tick: Callable[[], None]
) -> Manager:
    """Play the slots that have passed when a demonstration opens; `tick` is called after each.

    Returns the manager, who goes on. The shift ends some hours before, so that there is a plan to be looked at.
    """
    rng = np.random.default_rng([seed, 13])
    manager = Manager(network, DirectDesk(operations), clock, patience=_UNATTENDED, seed=seed)
    for slot in range(PASSED):
        manager.open_slot()
        if slot < PASSED - _UNATTENDED:
            _shift(operations, rng)
        manager.close_slot()
        tick()
    return manager


def _shift(operations: "Operations", rng: np.random.Generator) -> None:
    """Let ada look at the plan: she approves most of it, rejects some, and leaves some."""
    with operations.looking() as picture:
        waiting = [item.id for item in picture.waiting()]
    for decision in waiting:
        chance = rng.random()
        if chance < 0.35:
            operations.approve([decision], comment=str(rng.choice(_YES)), actor=_ADA)
        elif chance < 0.45:
            operations.reject([decision], comment=str(rng.choice(_NO)), actor=_ADA)


# --- `kinband serve --demo`: the service on a simulated network whose hours pass in seconds -------------------------
#
# The only place where service and simulator meet: the simulator plays a network and its manager, and talks to the
# service as any other caller does.

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
