"""`kinband serve --demo`: the service on a simulated network whose hours pass in seconds."""

import logging
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic

import numpy as np
import typer

from kinband.arrays import BoolArray, FloatArray
from kinband.controller import Controller
from kinband.environments.radio.parameters import LAND_USES
from kinband.environments.trace import NearestRows
from kinband.errors import BadInputError, ConflictError, KinbandError, NotFoundError
from kinband.experiments.city import City, city_of
from kinband.guardrails import rails_from_text
from kinband.policies.safety import Conservative, SwitchingCost
from kinband.progress import stage
from kinband.service import running
from kinband.service.access.tokens import Tokens
from kinband.service.client import KinbandClient, ServiceError
from kinband.service.ledger import Ledger
from kinband.service.operations import DecisionRecord, Mode, Operations
from kinband.service.operations.records import Called, StationState
from kinband.service.running import Place
from kinband.service.schemas import Decision, Manner, Order, shown
from kinband.service.starting import rails_for, setup_on_record
from kinband.similarity import ProjectionWarning
from kinband.space import ConfigurationSpace
from kinband.trace import Trace

# --- The time of a demonstration: hours that pass in seconds --------------------------------------------------------

SLOT = timedelta(hours=1)
"""How long a slot lasts by the simulated clock."""


class DemoClock:
    """A clock that stands in a slot of one hour and moves through it as fast as the demonstration runs.

    It never reaches the next slot by itself: `advance` does. So whatever a person does within a slot lies within it,
    however late the next one is. Threads may share it.

    Args:
        start: When the first slot begins.
        seconds: How many seconds a slot takes.
        tick: What measures them.

    Example:
        >>> clock = DemoClock(datetime(2026, 11, 20, 10, tzinfo=UTC), seconds=2.0, tick=iter([0.0, 1.0, 9.0]).__next__)
        >>> clock().isoformat(), clock().isoformat()
        ('2026-11-20T10:30:00+00:00', '2026-11-20T10:59:59+00:00')
    """

    def __init__(self, start: datetime, *, seconds: float, tick: Callable[[], float] = monotonic) -> None:
        self._slot, self._seconds, self._tick = start.astimezone(UTC), seconds, tick
        self._begun = tick()
        self._lock = threading.Lock()

    def __call__(self) -> datetime:
        """Return the time, UTC."""
        with self._lock:
            passed = max(0.0, self._tick() - self._begun) / self._seconds
            return self._slot + min(passed * SLOT, SLOT - timedelta(seconds=1))

    @property
    def slot(self) -> datetime:
        """When the present slot began."""
        with self._lock:
            return self._slot

    def advance(self) -> None:
        """Go on to the next slot."""
        with self._lock:
            self._slot, self._begun = self._slot + SLOT, self._tick()


# --- The simulated network of `kinband serve --demo`: hours that come and go, rewards for whatever stations run -----
#
# Every sector of the bundled city has 540 measured periods. In an hour of the day a sector is as busy as its land use
# is then (`environments.radio`), and its state is that of the row which is as busy by its own standards. What
# a configuration earns in that state is the mean reward of the nearest rows, as in `environments.trace`, with some
# noise. A sector can be put into trouble for some hours, so that there is something to roll back. It is made to be
# looked at: days are alike, neighbours do not disturb each other, and nothing here is measured. `kinband demo`
# measures.

LEAST, MOST = 6, 105
"""How many sectors there can be: few enough to be in the bundled city, enough for every mode."""

_NAMES = {
    "reward": Called("good-user share"),
    "handover_threshold_dbm": Called("HO threshold", "dBm"),
    "cqi_share": Called("good CQI"),
    "small_packet_sdu_share": Called("small SDUs"),
    "small_packet_volume_share": Called("volume of these"),
    "active_users": Called("active users"),
}
_LOG_ROWS = 20  # of a station, as in `kinband demo`; the similarity takes time that grows with their cube
_NEAREST = 5  # rows whose mean is what is earned, as in environments.trace
_SCATTER = 0.02  # standard deviation of what is earned
_UNSTEADY = 0.08  # standard deviation of how busy an hour is
_TROUBLE = 0.4  # share of the reward that trouble costs


class DemoNetwork:
    """Sectors that are in some state every hour, and earn something for what they run.

    Args:
        stations: How many sectors, the most central ones of the bundled city.
        seed: Draws everything random.

    Attributes:
        stations: Their names.
        space: What they can run.
        log: Rows to learn from; what is earned later rests on other rows.
        today: What they run to begin with.
        descriptors: Where they stand and look, and what is around them.

    Example:
        >>> network = DemoNetwork(6, seed=1)
        >>> states = network.begin(18)
        >>> sorted(states[network.stations[0]])[:2], network.today
        (['active_users', 'cqi_share'], {'handover_threshold_dbm': -100})
        >>> 0 <= network.earned(network.stations[0], 12) <= 1
        True
    """

    def __init__(self, stations: int = MOST, *, seed: int = 0) -> None:
        if not LEAST <= stations <= MOST:
            raise BadInputError(f"the simulated network has {LEAST} to {MOST} stations, got {stations}")
        whole = Trace.bundled()
        city = city_of("bundled", whole)
        if city is None:
            raise AssertionError("the bundled city has a layout")
        self.stations: tuple[str, ...] = city.names[:stations]  # in the order of their sites, the innermost first
        trace = whole.select(np.isin(whole.station, self.stations))
        self._rng = np.random.default_rng([seed, 7])
        logged = _logged(trace, self._rng)
        self.log = replace(trace.select(logged), time=None)  # measured years before the hours that are played
        self.space: ConfigurationSpace = trace.space()
        self.today = {self.space.feature_names[0]: int(city.threshold)}
        self.descriptors = {name: _descriptors(city, name) for name in self.stations}
        self._profiles = {name: _profile(city.kind_of(name)) for name in self.stations}
        self._trouble: dict[str, int] = {}  # slots left, with the present one
        self._coming: dict[str, int] = {}
        self._build(trace.select(~logged))

    def _build(self, rows: Trace) -> None:
        """Put the rows that answer into trees, one a station, and sort them by how busy the station was."""
        self._encoder = rows.encoder()
        samples, users = rows.samples(self._encoder), rows.state_names.index("users")
        self._names, self._states, self._trees = rows.state_names, dict[str, FloatArray](), dict[str, NearestRows]()
        self._now: dict[str, FloatArray] = {}
        for name in self.stations:
            own = np.flatnonzero(rows.station == name)
            noise = np.full(len(own), np.nan)
            self._trees[name] = NearestRows(samples.X[own], samples.y[own], noise, count=_NEAREST)
            order = np.argsort(rows.state[own, users], kind="stable")
            self._states[name] = rows.state[own][order]

    def begin(self, hour: float) -> dict[str, dict[str, float]]:
        """Begin a slot at an hour of the day and return every station's state."""
        left = {name: slots - 1 for name, slots in self._trouble.items() if slots > 1}
        self._trouble, self._coming = left | self._coming, {}
        states: dict[str, dict[str, float]] = {}
        for name in self.stations:
            profile = self._profiles[name]
            hours = np.arange(len(profile)) * 24.0 / len(profile)
            busy = np.interp(hour, hours, profile, period=24.0) + _UNSTEADY * self._rng.standard_normal()
            rows = self._states[name]
            state = rows[round(min(max(busy, 0.0), 1.0) * (len(rows) - 1))]
            states[name] = dict(zip(self._names, state.tolist(), strict=True))
            self._now[name] = self._encoder.contexts(states[name])
        return states

    def earned(self, station: str, arm: int) -> float:
        """Return what a station earns in this slot with a configuration, from 0 to 1."""
        mean = float(self._trees[station].average(self._now[station][arm : arm + 1])[0][0])
        left = 1.0 - _TROUBLE if station in self._trouble else 1.0
        return float(np.clip(mean * left + _SCATTER * self._rng.standard_normal(), 0.0, 1.0))

    def trouble(self, station: str, slots: int) -> None:
        """Let a station earn much less from the next slot on, for so many."""
        self._coming[station] = slots

    @property
    def troubled(self) -> Mapping[str, int]:
        """The stations that are in trouble or will be, and for how many slots."""
        return self._trouble | self._coming


def _profile(kind: str | None) -> tuple[float, ...]:
    """How busy a kind of land use is, from 0 to 1, at hours that are evenly spread over the day."""
    profiles = {use.name: use.profile for use in LAND_USES}
    return profiles.get(kind or "", profiles["residential"])


def _logged(trace: Trace, rng: np.random.Generator) -> BoolArray:
    """Which rows are the log: some of every station, drawn at random, (n,)."""
    chosen = np.zeros(len(trace), dtype=np.bool_)
    for name in trace.stations:
        chosen[rng.choice(np.flatnonzero(trace.station == name), _LOG_ROWS, replace=False)] = True
    return chosen


def _descriptors(city: City, name: str) -> dict[str, float | str]:
    """Where a sector stands and looks; maps count clockwise from north, the simulator anticlockwise from east."""
    number = city.names.index(name)
    x, y = city.places[number].tolist()
    azimuth = (90.0 - float(city.azimuths[number])) % 360.0
    return {"x_m": x, "y_m": y, "azimuth_deg": round(azimuth, 1), "land_use": city.kind_of(name) or "residential"}


# --- The network manager of a demonstration: it asks every hour, lets stations run what was decided, and reports
# rewards
#
# It does what a real one does and has its troubles: some rewards come late, some are wrong at first and corrected, a
# few are lost. Decisions that wait for a person are left open for a while, and their stations are not asked again
# meanwhile, so that there is time to read them: what is approved is what runs when the hour ends.

_LATE, _LOST = 0.04, 0.01  # shares of rewards
_WRONG_IN = (2, 5, 8)  # slots with a wrong reward: a correction has a sparse posterior learn all rows anew, so early
_LONGEST_DELAY = 4  # slots
_TROUBLE_EVERY, _TROUBLE_FOR = 25, 4  # changes, slots
_FAILS = 0.1  # share of orders
_WHY = ("the node did not answer", "the cell is locked", "the node refused the value")
_MANAGER = "network-manager"


class Direct:
    """The calls of a client that a manager makes, answered in the same process.

    That is quick, for the hours before the service opens; from then on a manager asks as any other caller does.

    Args:
        operations: Who answers.
    """

    def __init__(self, operations: Operations) -> None:
        self._operations = operations

    def stations(self) -> list[StationState]:
        """Return all stations."""
        with self._operations.looking() as read_model:
            return list(read_model.stations.values())

    def ask(self, states: Mapping[str, Mapping[str, float]], *, slot: str) -> list[DecisionRecord]:
        """Ask for a round of decisions."""
        return list(self._operations.ask(states, slot=slot, actor=_MANAGER))

    def decisions(self, *, page: int) -> Iterator[Decision]:  # noqa: ARG002
        """Return decisions, newest first."""
        with self._operations.looking() as read_model:
            records = list(read_model.decisions.values())
        return (shown(Decision, record, self._operations.space) for record in reversed(records))

    def tell(self, rewards: Mapping[str, float]) -> None:
        """Report rewards by decision, all or nothing."""
        self._operations.tell(rewards, actor=_MANAGER)

    def correct(self, decision: str, reward: float) -> None:
        """Put a reward right."""
        self._operations.correct(decision, reward, actor=_MANAGER)

    def call_off(self, decision: str) -> None:
        """Say that no reward will come."""
        self._operations.call_off(decision, actor=_MANAGER)

    def orders(self) -> list[Order]:
        """Return what is ordered, and what is approved and due next."""
        return [shown(Order, one, self._operations.space) for one in self._operations.orders.listed()[1]]

    def confirm(self, decision: str) -> None:
        """Say that an order is carried out."""
        self._operations.confirm(decision, actor=_MANAGER)

    def fail(self, decision: str, why: str) -> None:
        """Say that an order could not be carried out."""
        self._operations.fail(decision, why=why, actor=_MANAGER)


class Manager:
    """Plays slots of a simulated network: `open_slot`, then `close_slot` when its time is over.

    Args:
        network: The network.
        client: Whom to ask.
        clock: The time, moved on by `close_slot`.
        patience: For how many slots a decision may wait for a person.
        seed: Draws what goes wrong.
        confirms: Whether it carries out orders and says so; they count as carried out at once otherwise.
    """

    def __init__(
        self,
        network: DemoNetwork,
        client: Direct | KinbandClient,
        clock: DemoClock,
        *,
        patience: int,
        seed: int,
        confirms: bool = False,
    ) -> None:
        self.network, self.client, self.clock, self.patience = network, client, clock, patience
        self._rng, self._field = (np.random.default_rng([seed, stream]) for stream in (11, 17))
        self._confirms = confirms
        self._slot = 0
        self._asked: list[str] = []  # decisions of the present slot
        self._held: dict[str, tuple[str, int]] = {}  # station, since which slot, by decisions that wait
        self._late: list[tuple[int, str, float]] = []  # slot to tell in, decision, reward
        self._wrong: list[tuple[int, str, float]] = []

    def open_slot(self) -> None:
        """Begin the hour: ask for every station that does not wait for a person."""
        states = self.network.begin(self.clock.slot.hour)
        held = {station for station, _ in self._held.values()}
        known = {found.station for found in self.client.stations() if found.active}
        wanted = {name: state for name, state in states.items() if name in known - held}
        slot = self.clock.slot.strftime("%Y-%m-%d %H:00")
        self._asked = [made.id for made in self.client.ask(wanted, slot=slot)] if wanted else []

    def close_slot(self) -> None:
        """End the hour: carry out what was ordered, find out what ran, pay for it, and report."""
        if self._confirms:
            self._carry_out()
        rewards: dict[str, float] = {}
        for made in self._look([*self._held, *self._asked]):
            if self._still_waits(made) or not made.open or made.run is None:
                continue
            self._report(made.id, self.network.earned(made.station, self.network.space.index(made.run)), rewards)
            self._perhaps_trouble(made)
        rewards |= {key: reward for due, key, reward in self._late if due <= self._slot}
        self._late = [one for one in self._late if one[0] > self._slot]
        self._tell(rewards)
        self._put_right()
        self._slot += 1
        self.clock.advance()

    def _carry_out(self) -> None:
        """Make what is ordered; a few nodes cannot be reached, or do not take it."""
        for order in self.client.orders():
            if order.status != "ordered" or order.held is not None:
                continue
            fails, why = self._field.random() < _FAILS, str(self._field.choice(_WHY))
            with _unless_settled():
                if fails:
                    self.client.fail(order.id, why)
                else:
                    self.client.confirm(order.id)

    def _look(self, wanted: list[str]) -> Iterator[Decision]:
        """Decisions as they stand, newest first."""
        left = set(wanted)
        for made in self.client.decisions(page=500) if left else ():
            if made.id in left:
                left.remove(made.id)
                yield made
            if not left:
                return

    def _still_waits(self, made: Decision) -> bool:
        """Whether a decision stays open for a person; its station then skips the next slot."""
        _, since = self._held.get(made.id, (made.station, self._slot))
        if made.status == "waiting" and made.open and self._slot - since < self.patience:
            self._held[made.id] = made.station, since
            return True
        self._held.pop(made.id, None)
        return False

    def _report(self, decision: str, reward: float, rewards: dict[str, float]) -> None:
        """Put a reward among those to tell, unless something goes wrong."""
        chance, later = self._rng.random(), self._slot + int(self._rng.integers(1, _LONGEST_DELAY + 1))
        if chance < _LOST:
            with _unless_settled():
                self.client.call_off(decision)
        elif chance < _LOST + _LATE:
            self._late.append((later, decision, reward))
        elif self._slot in _WRONG_IN and not rewards:
            rewards[decision] = float(np.clip(reward + 0.1 * self._rng.standard_normal(), 0, 1))
            self._wrong.append((later, decision, reward))
        else:
            rewards[decision] = reward

    def _perhaps_trouble(self, made: Decision) -> None:
        """Now and then a station that has just changed runs into trouble, and the guard has something to do."""
        if made.run != made.before and not self.network.troubled and self._rng.random() < 1 / _TROUBLE_EVERY:
            self.network.trouble(made.station, _TROUBLE_FOR)

    def _tell(self, rewards: Mapping[str, float]) -> None:
        """Tell rewards together; if a person has settled one of them in between, one by one."""
        if not rewards:
            return
        try:
            self.client.tell(rewards)
        except KinbandError as error:
            if not _settled(error):
                raise
            for decision, reward in rewards.items():
                with _unless_settled():
                    self.client.tell({decision: reward})

    def _put_right(self) -> None:
        due = [one for one in self._wrong if one[0] <= self._slot]
        self._wrong = [one for one in self._wrong if one[0] > self._slot]
        for _, decision, reward in due:
            with _unless_settled():
                self.client.correct(decision, reward)


@contextmanager
def _unless_settled() -> Iterator[None]:
    """Pass over what is refused because somebody has settled it otherwise in the meantime."""
    try:
        yield
    except KinbandError as error:
        if not _settled(error):
            raise


def _settled(error: KinbandError) -> bool:
    status = error.status if isinstance(error, ServiceError) else None
    return status in (404, 409) or isinstance(error, ConflictError | NotFoundError)


# --- How a demonstration begins: a controller that has learned from a log, rails, modes, and two days that have
# passed
#
# The rails are tight enough for every kind of verdict to come up within a few days. Most stations change by
# themselves, some wait for a person, some only show what they would do. In the days before the curtain rises, "ada" is
# on shift: she approves, rejects and says why, so that the audit log has something to tell.

PASSED = 48
"""Slots that have passed when a demonstration opens."""

_INDUCING_POINTS = 192  # inducing points: a round of 105 stations in a fifth of a second
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
            network.log, network.space, engine="sparse", inducing_points=_INDUCING_POINTS, beta=_BETA,
            reward_range=(0.0, 1.0), safety=[Conservative(0.05, delta=0.05), SwitchingCost(_SWITCH)],
            running=network.today, descriptors=network.descriptors, seed=seed,
        )  # fmt: skip


def demo_rails(network: DemoNetwork, *, window: bool = False) -> str:
    """Return the file of rails of a demonstration; with `window`, changes are made at night alone."""
    [knob] = network.space.knobs
    frozen, early = network.stations[4], ", ".join(f'"{name}"' for name in network.stations[:3])
    return f"""\
# The rails of a demonstration. docs/guardrails.md explains every key.
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
fallback: {{drop: 25%, slots: 3, before: 12, within: 1d, retry_after: 2d{", outside_windows: on" if window else ""}}}
{_WINDOW if window else ""}"""


_WINDOW = 'maintenance: [{from: "00:00", to: "05:00"}]\n'


def mode_of(number: int) -> Mode:
    """Return the mode of a station by its number: most are autonomous."""
    if number % 4 == 3:
        return "assist"
    return "shadow" if number % 11 == 5 else "autonomous"


def demo_clock(ledger: Ledger, *, seconds: float) -> DemoClock:
    """Return the clock of a demonstration: a new one opens now, one that is kept goes on where it was."""
    now = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
    last = next(iter(ledger.read(kinds=["decision"], newest_first=True, limit=1)), None)
    if last is None:
        return DemoClock(now - PASSED * SLOT, seconds=seconds)
    then = datetime.fromisoformat(last.at).replace(minute=0, second=0, microsecond=0)
    return DemoClock(then + SLOT, seconds=seconds)


def check_stage(operations: Operations, network: DemoNetwork) -> None:
    """Refuse a ledger that is of no demonstration, or of one with other stations."""
    with operations.looking() as read_model:
        known = [one.station for one in read_model.stations.values()]
    if not set(network.stations) <= set(known):
        raise BadInputError(
            f"the ledger {operations.ledger.name} is not of a demonstration with {len(network.stations)} stations: "
            "give --stations as then, or another --ledger"
        )


def set_the_stage(operations: Operations, network: DemoNetwork) -> None:
    """Set the modes, and freeze a station, as people do."""
    assist = [name for number, name in enumerate(network.stations) if mode_of(number) == "assist"]
    shadow = [name for number, name in enumerate(network.stations) if mode_of(number) == "shadow"]
    operations.set_mode("assist", assist, comment="on trial: a person looks first", actor=_ADA)
    operations.set_mode("shadow", shadow, comment="watched for a week before the trial", actor=_ADA)
    operations.freeze(network.stations[-1], why="measurements with a test car", actor=_ADA)


def play_the_past(manager: Manager, operations: Operations, *, seed: int) -> None:
    """Play the slots that have passed when a demonstration opens.

    The shift ends some hours before, so that there is a plan to be looked at.
    """
    rng, what = np.random.default_rng([seed, 13]), f"playing {PASSED} hours"
    with stage(what, PASSED) as step:
        for slot in range(PASSED):
            manager.open_slot()
            if slot < PASSED - _UNATTENDED:
                _shift(operations, rng)
            manager.close_slot()
            step(what)


def _shift(operations: Operations, rng: np.random.Generator) -> None:
    """Let ada look at the plan: she approves most of it, rejects some, and leaves some."""
    with operations.looking() as read_model:
        waiting = [record.id for record in read_model.waiting()]
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
        manner: Who says that an order is carried out; "confirmed" has the simulated network manager do it, in a
            maintenance window. None for what is on record.
    """

    stations: int = 63
    speed: float = 30.0
    seed: int = 0
    ledger: str | None = None
    manner: Manner | None = None

    @property
    def seconds(self) -> float:
        """How many seconds a slot takes."""
        return 60.0 / self.speed


def serve_demo(options: DemoOptions, place: Place, *, insecure_local: bool, level: str) -> None:
    """Serve a simulated network until a signal comes.

    Args:
        options: What is simulated.
        place: Where the service listens.
        insecure_local: Whether there is no access control.
        level: How much is logged.
    """
    stop = threading.Event()
    with ExitStack() as stack:
        taken = stack.enter_context(running.take_socket(place))
        where, url = stack.enter_context(_folder(options.ledger)), place.url(taken)
        real = stack.enter_context(closing(Ledger.open(where)))
        clock = demo_clock(real, seconds=options.seconds)
        ledger = stack.enter_context(closing(Ledger.open(where, clock=clock)))
        network = DemoNetwork(options.stations, seed=options.seed)
        operations = _operations(ledger, network, clock, options)
        with operations.looking() as read_model:
            kept, confirms = bool(read_model.decisions), read_model.manner == "confirmed"
        manager = Manager(
            network, Direct(operations), clock, patience=_UNATTENDED, seed=options.seed, confirms=confirms
        )
        if not kept:
            play_the_past(manager, operations, seed=options.seed)
        # Access runs on the real clock, or a session of half a day would last for seconds.
        tokens = None if insecure_local else Tokens(real)
        texts = {} if tokens is None else _tokens(tokens)
        app = running.application(operations, tokens=tokens, insecure_local=insecure_local)

        def wait(seconds: float) -> None:
            stop.wait(seconds)

        def play() -> None:
            with KinbandClient(url, texts.get(_MANAGER, ""), timeout=30.0, retries=4, sleep=wait) as client:
                manager.client, manager.patience = client, max(_LEAST_PATIENCE, round(_PATIENCE_S / options.seconds))
                _play(manager, options, stop)

        def ready() -> None:
            _announce(url, texts, options)
            player.start()

        player = threading.Thread(target=play, name="kinband-demo", daemon=True)
        try:
            running.run(app, place, taken, level=level, ready=ready, ending=stop.set)
        finally:
            stop.set()
            if player.is_alive():
                player.join(timeout=30.0)
            running.store_beliefs(operations)


def _operations(ledger: Ledger, network: DemoNetwork, clock: DemoClock, options: DemoOptions) -> Operations:
    """Open the operations of a demonstration, new or kept."""
    setup = setup_on_record(ledger)
    if setup is not None:
        rails, text = rails_for(ledger, setup, None)
        operations = Operations.open(
            ledger, rails=rails, rails_text=text, manner=options.manner, clock=clock, actor="demo"
        )
        check_stage(operations, network)
        return operations
    learning = f"learning from {len(network.log):,} rows of {len(network.stations)} stations"
    with stage(learning):
        controller = demo_controller(network, seed=options.seed)
    text = demo_rails(network, window=options.manner == "confirmed")
    found = rails_from_text(text, network.space, stations=network.stations)
    operations = Operations.open(
        ledger, controller, rails=found, rails_text=text, names=_NAMES, mode="autonomous", manner=options.manner,
        clock=clock, actor="demo",
    )  # fmt: skip
    set_the_stage(operations, network)
    return operations


def _play(manager: Manager, options: DemoOptions, stop: threading.Event) -> None:
    """Play the network until `stop` is set; whatever the service refuses is a matter for the log, and tried again."""
    while not stop.is_set():
        try:
            manager.open_slot()
            if not stop.wait(options.seconds):
                manager.close_slot()
        except KinbandError as error:
            if not stop.is_set():
                _LOG.warning("the network manager could not finish a slot: %s", error)
                stop.wait(1.0)


@contextmanager
def _folder(ledger: str | None) -> Iterator[str]:
    """Give a place for the ledger; without a name, one that is gone afterwards."""
    if ledger is not None:
        yield ledger
        return
    with TemporaryDirectory(prefix="kinband-demo-") as folder:
        yield str(Path(folder) / "ledger.db")


def _tokens(tokens: Tokens) -> dict[str, str]:
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
