"""The network of the demonstration, its clock, and who runs it."""

import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from time import monotonic
from typing import Protocol

import numpy as np

from kinband.arrays import FloatArray, IntArray
from kinband.environments.radio.land_use import LAND_USES
from kinband.environments.trace import NearestRows
from kinband.errors import BadInputError, ConflictError, NotFoundError
from kinband.experiments.city.layout import City, city_of
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
# is then (`environments.radio.land_use`), and its state is that of the row which is as busy by its own standards. What
# a configuration earns in that state is the mean reward of the nearest rows, as in `environments.trace`, with some
# noise. A sector can be put into trouble for some hours, so that there is something to roll back. It is made to be
# looked at: days are alike, neighbours do not disturb each other, and nothing here is measured. `kinband demo`
# measures.

LEAST, MOST = 6, 105
"""How many sectors there can be: few enough to be in the bundled city, enough for every mode."""

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
        self.log = trace.select(logged)
        self.space: ConfigurationSpace = trace.space()
        self.today = {self.space.feature_names[0]: int(city.threshold)}
        self.descriptors = {name: _descriptors(city, name) for name in self.stations}
        self._busy = {name: _busy_of(city.kind_of(name)) for name in self.stations}
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
            order: IntArray = np.argsort(rows.state[own, users], kind="stable")
            self._states[name] = rows.state[own][order]

    def begin(self, hour: float) -> dict[str, dict[str, float]]:
        """Begin a slot at an hour of the day and return every station's state."""
        left = {name: slots - 1 for name, slots in self._trouble.items() if slots > 1}
        self._trouble, self._coming = left | self._coming, {}
        states: dict[str, dict[str, float]] = {}
        for name in self.stations:
            busy = self._busy[name](hour) + _UNSTEADY * self._rng.standard_normal()
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


class _Busy:
    """How busy a kind of land use is by the hour, from 0 to 1."""

    def __init__(self, profile: tuple[float, ...]) -> None:
        self._hours = np.arange(len(profile) + 1) * 24.0 / len(profile)
        self._values = np.array([*profile, profile[0]])

    def __call__(self, hour: float) -> float:
        return float(np.interp(hour % 24.0, self._hours, self._values))


def _busy_of(kind: str | None) -> _Busy:
    profiles = {use.name: use.profile for use in LAND_USES}
    return _Busy(profiles.get(kind or "", profiles["residential"]))


def _logged(trace: Trace, rng: np.random.Generator) -> "np.ndarray[tuple[int], np.dtype[np.bool_]]":
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


@dataclass(frozen=True, slots=True)
class Seen:
    """A decision as the manager sees it.

    Attributes:
        id: Its id.
        station: Whom it is for.
        arm: What the station runs; None where nobody knows.
        changed: Whether that is another configuration than before.
        waiting: Whether a person has to say something.
        open: Whether its reward is awaited.
    """

    id: str
    station: str
    arm: int | None
    changed: bool
    waiting: bool
    open: bool


class Desk(Protocol):
    """Where the manager asks and tells: the service, over HTTP or in the same process."""

    def stations(self) -> list[str]:
        """Return who is decided for."""

    def ask(self, states: Mapping[str, Mapping[str, float]], *, slot: str) -> list[Seen]:
        """Ask for a round of decisions."""

    def look(self, ids: Iterable[str]) -> list[Seen]:
        """Return decisions as they stand."""

    def tell(self, rewards: Mapping[str, float]) -> None:
        """Report rewards by decision, all or nothing."""

    def correct(self, decision: str, reward: float) -> None:
        """Put a reward right."""

    def call_off(self, decision: str) -> None:
        """Say that no reward will come."""


class Manager:
    """Plays slots of a simulated network: `open_slot`, then `close_slot` when its time is over.

    Args:
        network: The network.
        desk: Whom to ask.
        clock: The time, moved on by `close_slot`.
        patience: For how many slots a decision may wait for a person.
        seed: Draws what goes wrong.
    """

    def __init__(self, network: DemoNetwork, desk: Desk, clock: DemoClock, *, patience: int, seed: int) -> None:
        self.network, self.desk, self.clock, self.patience = network, desk, clock, patience
        self._rng = np.random.default_rng([seed, 11])
        self._slot = 0
        self._asked: list[str] = []  # decisions of the present slot
        self._held: dict[str, tuple[str, int]] = {}  # station, since which slot, by decisions that wait
        self._late: list[tuple[int, str, float]] = []  # slot to tell in, decision, reward
        self._wrong: list[tuple[int, str, float]] = []

    def move_to(self, desk: Desk, *, patience: int) -> None:
        """Ask at another desk from now on; what is held and late goes along."""
        self.desk, self.patience = desk, patience

    def open_slot(self) -> None:
        """Begin the hour: ask for every station that does not wait for a person."""
        states = self.network.begin(self.clock.slot.hour)
        held, known = {station for station, _ in self._held.values()}, set(self.desk.stations())
        wanted = {name: state for name, state in states.items() if name in known and name not in held}
        self._asked = []
        if wanted:
            self._asked = [seen.id for seen in self.desk.ask(wanted, slot=self.clock.slot.strftime("%Y-%m-%d %H:00"))]

    def close_slot(self) -> None:
        """End the hour: find out what ran, pay for it, and report."""
        rewards: dict[str, float] = {}
        for seen in self.desk.look([*self._held, *self._asked]):
            if self._still_waits(seen) or not seen.open or seen.arm is None:
                continue
            self._report(seen.id, self.network.earned(seen.station, seen.arm), rewards)
            self._perhaps_trouble(seen)
        rewards |= {key: reward for due, key, reward in self._late if due <= self._slot}
        self._late = [one for one in self._late if one[0] > self._slot]
        self._tell(rewards)
        self._put_right()
        self._slot += 1
        self.clock.advance()

    def _still_waits(self, seen: Seen) -> bool:
        """Whether a decision stays open for a person; its station then skips the next slot."""
        _, since = self._held.get(seen.id, (seen.station, self._slot))
        if seen.waiting and seen.open and self._slot - since < self.patience:
            self._held[seen.id] = seen.station, since
            return True
        self._held.pop(seen.id, None)
        return False

    def _report(self, decision: str, reward: float, rewards: dict[str, float]) -> None:
        """Put a reward among those to tell, unless something goes wrong."""
        chance, later = self._rng.random(), self._slot + int(self._rng.integers(1, _LONGEST_DELAY + 1))
        if chance < _LOST:
            _unless_settled(partial(self.desk.call_off, decision))
        elif chance < _LOST + _LATE:
            self._late.append((later, decision, reward))
        elif self._slot in _WRONG_IN and not rewards:
            rewards[decision] = float(np.clip(reward + 0.1 * self._rng.standard_normal(), 0, 1))
            self._wrong.append((later, decision, reward))
        else:
            rewards[decision] = reward

    def _perhaps_trouble(self, seen: Seen) -> None:
        """Now and then a station that has just changed runs into trouble, and the guard has something to do."""
        if seen.changed and not self.network.troubled and self._rng.random() < 1 / _TROUBLE_EVERY:
            self.network.trouble(seen.station, _TROUBLE_FOR)

    def _tell(self, rewards: Mapping[str, float]) -> None:
        """Tell rewards together; if a person has settled one of them in between, one by one."""
        if not rewards:
            return
        try:
            self.desk.tell(rewards)
        except (ConflictError, NotFoundError):
            for decision, reward in rewards.items():
                _unless_settled(partial(self.desk.tell, {decision: reward}))

    def _put_right(self) -> None:
        due = [one for one in self._wrong if one[0] <= self._slot]
        self._wrong = [one for one in self._wrong if one[0] > self._slot]
        for _, decision, reward in due:
            _unless_settled(partial(self.desk.correct, decision, reward))


def _unless_settled(act: Callable[[], None]) -> None:
    """Do something, unless somebody has settled it otherwise in the meantime."""
    with suppress(ConflictError, NotFoundError):
        act()
