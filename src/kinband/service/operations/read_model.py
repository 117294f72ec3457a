"""The state of a network as its ledger tells it, kept up event by event: stations, decisions, changes, series, sums.

It follows from the events of the ledger alone, in their order, so that every process that reads the same ledger has the
same read model, and a restart brings it back. Nothing in it is ever decided here.

A decision without a verdict was made before operations began, or past them: it is taken to have run, as a controller
takes it, and counts in no sums, since nobody knows when its slot was.
"""

from bisect import bisect_left
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import date, datetime, timedelta
from itertools import islice
from threading import RLock
from typing import Any

import numpy as np

from kinband.arrays import IntArray
from kinband.controller import Setup
from kinband.controller.events import Asked, CalledOff, Corrected, Entry, Joined, Left, Ran, Returned, Told
from kinband.controller.journal import id_of, number_of
from kinband.controller.telling import own_of
from kinband.drift import TIME_COLUMN
from kinband.errors import NotFoundError
from kinband.guardrails import CalledOff as TakenBack
from kinband.guardrails import Changed, ClockSet, History, Resumed, Rewarded, Stopped, Verdict, event_from
from kinband.guardrails.history import By, Moment
from kinband.guardrails.history import Event as GuardEvent
from kinband.planning import Support
from kinband.records import Decision, alternative_of
from kinband.service.ledger import Event, Head
from kinband.service.ledger.events import FIRST
from kinband.service.ledger.snapshots import Shown
from kinband.service.operations.keeping import (
    Past,
    Records,
    history_of,
    history_stored,
    iso,
    packed_lists,
    prefixed,
    station_of,
    station_values,
    time_of,
    trail_of,
    trail_values,
    unpacked_lists,
    without,
)
from kinband.service.operations.matching import Seen, put_on_record
from kinband.service.operations.records import (
    KEPT_POINTS,
    KEPT_SLOTS,
    Back,
    Called,
    DecisionRecord,
    Gain,
    Point,
    Proposed,
    RailsOnRecord,
    Sent,
    StationState,
    Step,
    Tally,
    Trail,
    checked_manner,
    checked_mode,
)
from kinband.service.operations.slots import Slots, at_ticks, ticks_of
from kinband.service.schemas import Manner, Mode, Status

KEPT_RECENT = 24
"""Of how many slots of a station the rewards are at hand; those of more are looked up."""
LOOKED_AT = 20_000
"""Among how many of the latest decisions those of one status or slot are looked for."""
KEPT_CHANGES = 200
"""How many changes of a station are kept for its charts; the ledger has all."""


@dataclass(frozen=True, slots=True)
class ReportedChange:
    """What a station was reported to run, by whomever.

    Attributes:
        at: Since when.
        arm: What it runs.
        before: What it ran before; None where nobody knew.
        by: "controller", "operator", "roll-back" or "network".
        actor: Who reported it.
    """

    at: datetime
    arm: int | None
    before: int | None
    by: str
    actor: str


_SHORT = 100  # decisions that are put together while others wait
_AT_ONCE = 1000  # decisions that are looked through before it is known whether more are wanted
_TRIMMED = 1000  # events after which what is old is left to the ledger

OVERDUE = timedelta(days=1)
"""For how long an order that nobody confirmed in time is known as such."""
Expired = tuple[str, datetime]
"""An order that expired, and when."""
Report = tuple[str | None, int | None, str]
"""What the network said of a decision: its id, the arm that runs, the comment."""


def _last_changes() -> deque[ReportedChange]:
    return deque(maxlen=KEPT_CHANGES)


_TO_THE_GUARD: Mapping[str, By] = {"controller": "controller", "roll-back": "roll-back", "operator": "roll-back"}
"""Who changed a station, as rails see it: what a person rolls back is not tried again at once. Others are operators."""


class ReadModel:
    """What the events of a ledger show. It is kept up by `Operations`; look at it through `Operations.looking`.

    Args:
        setup: What the controller was made with.
        past: Gives the events of a decision before that of a number, with their entries; with it, decisions of long ago
            are not kept.
        only: The one station to show; by default all.

    Attributes:
        lock: Held by who looks while nothing may change; never for long, since a stop is shown here too.
        seq: Number of the last event taken in.
        checksum: Its checksum.
        mode: The mode of stations that join.
        moded: Whether a mode was ever set.
        stations: Stations by name.
        touched: Number of the last event about each station, and `touched_all` that of the last about any of them.
        decisions: Decisions by id, oldest first.
        counts: How often what happened: statuses that decisions came to, outcomes of verdicts, "decisions", "told" and
            "approved"; and under "pending" how many rewards are awaited.
        rails: The rails last put on record.
        proposals: What one of two people has asked for, by act, as long as nothing else came of it.
        sent: By station, what the service has sent to the network and does not know to be in force or undone.
        backs: By station, the roll-back by a person that the network is to be told, where orders are confirmed.
        feed: How counters are read, as it is on record.
        seen: The latest states of stations, as their counters tell.
        called: What people call the reward, knobs and features, by their own names.
        clock: How often the clock was set right, and the time of the latest event that has one.

    Example:
        >>> from kinband import ConfigurationSpace, Controller
        >>> controller = Controller(ConfigurationSpace(tilt=[2, 4]), ["a", "b"], running={"tilt": 4})
        >>> read_model = ReadModel(controller.setup)
        >>> [(s.station, s.mode, s.running) for s in read_model.stations.values()]
        [('a', 'shadow', 1), ('b', 'shadow', 1)]
    """

    def __init__(self, setup: Setup, past: Past | None = None, *, only: StationState | None = None) -> None:
        self.setup, self.lock = setup, RLock()
        self._past, self._only = past, only
        self.begin()

    def begin(self) -> None:
        """Forget everything; stations run what was declared for them."""
        self.seq, self.checksum, self._upto = 0, FIRST, 1  # decisions are looked up among the events before that
        self.mode: Mode = "shadow"
        self.moded, self.rails = False, RailsOnRecord()
        self.manner: Manner = "assumed"
        self.proposals: dict[str, Proposed] = {}
        self.sent, self.backs = dict[str, Sent](), dict[str, Back]()
        self.called: dict[str, Called] = {}
        self.clock: tuple[int, datetime | None] = 0, None
        self.decisions = Records(None if self._past is None else self._look_up)
        self.counts: dict[str, int] = {}
        self.statuses, self.rails_refused = Counter[str](), Counter[str]()
        self.stations: dict[str, StationState] = {}
        self.touched, self.touched_all = dict[str, int](), 0
        self._waiting: dict[str, None] = {}  # ids, in order
        self._withdrawn: dict[str, str] = {}  # what waits again, by station
        self._orders: dict[str, str] = {}  # what is approved or ordered, by station, in order
        self._unconfirmed: dict[str, Expired] = {}  # by station, the last order that expired unconfirmed, of a day
        self._tally = Tally()
        self._trails: dict[str, Trail] = {}
        self._changes: dict[str, deque[ReportedChange]] = defaultdict(_last_changes)
        self._refused: Counter[date] = Counter()  # decisions that the guard refused, by the day of their slot
        self._recent: dict[str, deque[float]] = {}  # by station, what its last slots with a known reward earned
        self._learned: dict[str, float] = {}  # by decision, where that is something else than its reward
        self._began: dict[str, Moment] = {}  # since when what a decision led to ran, where that was not at once
        self._clock_sets: list[int] = []  # numbers of the events by which the clock was set right
        self._bare: dict[str, tuple[Mode, int | None, float | None]] = {}  # decisions without a verdict, as made
        self._fixed_since: dict[str, int] = {}  # by station, the event that told what it would run without all this
        self._relearned = set[str]()  # decisions of which something else is learned since another was corrected
        self._slots: dict[str, datetime] = {}  # when slots began, by the caller's name
        self._reported: dict[str, Report] = {}  # by station, what the network last said
        self._history, self._fresh = History(), list[GuardEvent]()
        self.feed: Mapping[str, Any] = {}  # how counters are read
        self.seen = Seen()
        if self._only is not None:
            self.stations[self._only.station] = self._only
        for station in self.setup.stations if self._only is None else ():
            fixed = self.setup.running.get(station)
            self.stations[station] = StationState(station, self.mode, running=fixed, fixed=fixed)

    def take(self, event: Event, entry: Entry | None) -> None:
        """Take in a recorded event."""
        with self.lock:
            self.seq, self.checksum, self._upto = event.seq, event.checksum, event.seq
            self._event, self._said = event, {}
            if event.station and not isinstance(entry, Corrected):  # which may change neighbours
                self.touched[event.station] = event.seq
            else:
                self.touched_all = event.seq
            if entry is not None:
                self._take_entry(event, entry)
            elif (taking := self._notes.get(event.kind)) is not None:
                self._said = event.payload
                taking(self, event, self._said)
            self._upto = event.seq + 1
            if self._past is not None and event.seq % _TRIMMED == 0:
                self._trim()

    def _trim(self) -> None:
        """Leave what is old to the ledger."""
        for key in self.decisions.trim():
            self._began.pop(key, None)
            if key not in self._relearned:
                self._learned.pop(key, None)
        self._tally.trim()
        for name in list(islice(self._slots, max(len(self._slots) - KEPT_SLOTS, 0))):
            del self._slots[name]

    def in_order(self, keys: Sequence[str]) -> Iterator[DecisionRecord]:
        """Give decisions as they stand; those of long ago are read together, while nobody has to wait, and not kept."""
        with self.lock:
            upto, past = self._upto, self._past
            far = self.decisions.far(keys)
        known = {} if past is None or not far else past(far, 0, upto)
        for first in range(0, len(keys), _SHORT):
            some = keys[first : first + _SHORT]
            with self.lock:
                mine = [key for key in some if key in known]
                new = {} if past is None or not mine or self._upto == upto else past(mine, upto - 1, self._upto)
                found = [
                    self._told([*known[key], *new.get(key, ())])[1] if key in known else self.decisions[key]
                    for key in some
                ]
            yield from found

    def bring(self, keys: Iterable[str]) -> None:
        """Have decisions at hand: those of long ago are read together, while nobody has to wait for whoever reads."""
        with self.lock:
            upto, past = self._upto, self._past
            far = self.decisions.far(key for key in keys if key in self.decisions)
        if past is None or not far:
            return
        known = past(far, 0, upto)
        for first in range(0, len(far), _SHORT):
            some = far[first : first + _SHORT]
            with self.lock:
                if self._upto < upto:  # it began anew meanwhile
                    return
                new = {} if self._upto == upto else past(some, upto - 1, self._upto)
                for key in self.decisions.far(key for key in some if key in known):
                    self.decisions.put(self._found(key, [*known[key], *new.get(key, ())]))

    def _look_up(self, key: str) -> DecisionRecord:
        return self._found(key, () if self._past is None else self._past([key], 0, self._upto)[key])

    def _found(self, key: str, events: Sequence[tuple[Event, Entry | None]]) -> DecisionRecord:
        alone, found = self._told(events)
        if key in alone._began:
            self._began.setdefault(key, alone._began[key])
        if key in alone._learned:
            self._learned.setdefault(key, alone._learned[key])
        return found

    def _told(self, events: Sequence[tuple[Event, Entry | None]]) -> "tuple[ReadModel, DecisionRecord]":
        """Return what the events of a decision of long ago show, and that decision with what else is kept of it."""
        station, key = events[0][0].station, str(events[0][0].decision)
        fixed = self.stations[station].fixed if self._fixed_since.get(station, 0) < events[0][0].seq else None
        mode, running, baseline = self._bare.get(key, (self.stations[station].mode, None, None))
        alone = ReadModel(self.setup, only=StationState(station, mode, running=running, fixed=fixed))
        alone._clock_sets = self._clock_sets
        for event, entry in events:  # what a correction changes of others is told by `_relearned`
            alone.take(event, replace(entry, others={}) if isinstance(entry, Corrected) else entry)
        found = alone.decisions[key]
        if key in self._bare:
            found = replace(found, running=running, baseline=baseline)
        if found.status == "waiting" and key not in self._waiting:
            found = replace(found, status="expired")
        return alone, found

    def _epoch(self, seq: int) -> int:
        """Return how often the clock had been set right before an event."""
        return bisect_left(self._clock_sets, seq)

    # A snapshot, and going on from it

    def stored(self) -> Callable[[], Shown]:
        """Take down how things stand, and return what makes a snapshot of that, at leisure."""
        with self.lock:
            history = self.history
            sums, gains, slots = self._tally.stored()
            ids = {name: one.slots.numbers[:] for name, one in self.stations.items()}
            begun = {name: one.slots.times[:] for name, one in self.stations.items()}
            values: dict[str, Any] = {
                "seq": self.seq, "checksum": self.checksum, "mode": self.mode, "moded": self.moded,
                "manner": self.manner, "orders": dict(self._orders), "withdrawn": dict(self._withdrawn),
                "unconfirmed": {name: [key, at.isoformat()] for name, (key, at) in self._unconfirmed.items()},
                "rails": {**asdict(self.rails), "at": iso(self.rails.at)}, "clock": [self.clock[0], iso(self.clock[1])],
                "decisions": self.decisions.count, "counts": dict(self.counts), "statuses": dict(self.statuses),
                "rails_refused": dict(self.rails_refused), "waiting": list(self._waiting),
                "stations": [station_values(one) for one in self.stations.values()],
                "clock_sets": list(self._clock_sets), "bare": [[key, *one] for key, one in self._bare.items()],
                "fixed_since": dict(self._fixed_since), "recent": {name: list(r) for name, r in self._recent.items()},
                "learned": {key: self._learned[key] for key in self._relearned if key in self._learned},
                "names": {name: list(one) for name, one in self.called.items()},
                "proposals": [{**asdict(one), "at": iso(one.at)} for one in self.proposals.values()],
                "relearned": sorted(self._relearned), "reported": dict(self._reported), "sums": sums,
                "sent": [[one.station, one.decision, one.arm, iso(one.until)] for one in self.sent.values()],
                "backs": [[name, one.before, one.override] for name, one in self.backs.items()],
            }  # fmt: skip
            trails, changes = dict(self._trails), {name: list(made) for name, made in self._changes.items()}
            refused, names, seen = dict(self._refused), dict(self._slots), self.seen.stored()
            values |= {"feed": dict(self.feed), "seen": seen.values}

        def made() -> Shown:
            past = history_stored(history)
            values["history"] = past.values
            values["trails"] = {name: trail_values(one) for name, one in trails.items()}
            values["changes"] = {
                name: [[iso(one.at), one.arm, one.before, one.by, one.actor] for one in some]
                for name, some in changes.items()
            }
            values["refused"] = [[day.isoformat(), count] for day, count in refused.items()]
            values["slot_names"] = [[name, iso(at)] for name, at in names.items()]
            values["slots"] = [[iso(at), *rest] for at, *rest in slots]
            (_, points), (_, times) = packed_lists(ids, np.int64), packed_lists(begun, np.int64)
            values["gains"], summed = packed_lists(gains, np.float64)
            named = {"history": past.arrays, "points": points, "times": times, "gains": summed, "seen": seen.arrays}
            return Shown(values, {k: a for name, arrays in named.items() for k, a in prefixed(arrays, name).items()})

        return made

    def take_up(self, stored: Shown) -> None:
        """Go on where another one was."""
        values, arrays = stored.values, stored.arrays
        with self.lock:
            self.begin()
            self.seq, self.checksum, self.mode = values["seq"], values["checksum"], checked_mode(values["mode"])
            self.moded, self._upto, self.touched_all = values["moded"], self.seq + 1, self.seq
            self.rails = RailsOnRecord(**{**values["rails"], "at": time_of(values["rails"]["at"])})
            self.called = {name: Called(*one) for name, one in values.get("names", {}).items()}
            self.clock = values["clock"][0], time_of(values["clock"][1])
            self.decisions.count, self.counts = values["decisions"], dict(values["counts"])
            self.statuses, self.rails_refused = Counter(values["statuses"]), Counter(values["rails_refused"])
            self._waiting = dict.fromkeys(values["waiting"])
            self.manner = checked_manner(values.get("manner", "assumed"))
            self._orders, self._withdrawn = dict(values.get("orders", {})), dict(values.get("withdrawn", {}))
            gone = values.get("unconfirmed", {})
            self._unconfirmed = {name: (key, datetime.fromisoformat(at)) for name, (key, at) in gone.items()}
            names = [one["station"] for one in values["stations"]]
            ids = unpacked_lists(names, without(arrays, "points"))
            times = unpacked_lists(names, without(arrays, "times")) if "times.sizes" in arrays else ids  # else in order
            self.stations = {
                one["station"]: station_of(one, Slots(KEPT_POINTS, ids[one["station"]], times[one["station"]]))
                for one in values["stations"]
            }
            self._clock_sets = list(values["clock_sets"])
            self._bare = {key: (checked_mode(mode), *rest) for key, mode, *rest in values["bare"]}
            self._fixed_since, self._learned = dict(values["fixed_since"]), dict(values["learned"])
            self._relearned = set(values["relearned"])
            asked = [Proposed(**{**one, "at": datetime.fromisoformat(one["at"])}) for one in values["proposals"]]
            self.proposals = {one.act: one for one in asked}
            self.sent = {
                name: Sent(name, key, arm, datetime.fromisoformat(at)) for name, key, arm, at in values.get("sent", ())
            }
            self.backs = {name: Back(before, override=over) for name, before, over in values.get("backs", ())}
            self._recent = {name: deque(some, KEPT_RECENT) for name, some in values["recent"].items()}
            self._reported = {name: (key, arm, text) for name, (key, arm, text) in values["reported"].items()}
            self._take_up_past(values, arrays)

    def _take_up_past(self, values: Mapping[str, Any], arrays: Mapping[str, Any]) -> None:
        summed = unpacked_lists(values["gains"], without(arrays, "gains"))
        slots = [(datetime.fromisoformat(at), *rest) for at, *rest in values["slots"]]
        self._tally.take_up(values["sums"], summed, slots)
        self._trails = {name: trail_of(one) for name, one in values["trails"].items()}
        for name, made in values["changes"].items():
            self._changes[name].extend(ReportedChange(datetime.fromisoformat(at), *rest) for at, *rest in made)
        self._refused = Counter({date.fromisoformat(day): count for day, count in values["refused"]})
        self._slots = {name: datetime.fromisoformat(at) for name, at in values["slot_names"]}
        self.feed = values.get("feed", {})
        self.seen = Seen.of(Shown(values["seen"], without(arrays, "seen"))) if "seen" in values else Seen()
        self._history = history_of(Shown(values["history"], without(arrays, "history")))

    # What can be seen. Screens ask for the same sums again and again, so that those are kept.

    @property
    def history(self) -> History:
        """The past as the guard needs it."""
        with self.lock:
            if self._fresh:
                self._history, self._fresh = self._history.after(self._fresh), []
            return self._history

    @property
    def head(self) -> Head:
        """Number and checksum of the last event taken in."""
        return Head(self.seq, self.checksum)

    @property
    def pending(self) -> int:
        """How many rewards are awaited."""
        return self.counts.get("pending", 0)

    @property
    def stopped(self) -> str | None:
        """Why everything is stopped; None if it is not."""
        return self.history.stopped

    def station(self, station: str) -> StationState:
        """Return a station, or say that there is none."""
        if station not in self.stations:
            raise NotFoundError(f"there is no station {station!r:.80}: {len(self.stations)} stations are on record")
        return self.stations[station]

    def decision(self, decision_id: str) -> DecisionRecord:
        """Return a decision, or say that there is none."""
        if decision_id not in self.decisions:
            raise NotFoundError(
                f"no decision has the id {decision_id!r:.80}: {len(self.decisions)} decisions are on record"
            )
        return self.decisions[decision_id]

    def waiting(self) -> list[DecisionRecord]:
        """Return what waits for a person, oldest first."""
        return [self.decisions[key] for key in self._waiting]

    def orders(self) -> list[DecisionRecord]:
        """Return what is approved or ordered, in the order in which it was approved."""
        return [self.decisions[key] for key in self._orders.values()]

    def unconfirmed(self, now: datetime) -> list[str]:
        """Return the last order of each station that expired within a day before anybody confirmed it, by its id."""
        return [key for key, at in self._unconfirmed.values() if now - at < OVERDUE]

    def order(self, station: str) -> DecisionRecord | None:
        """Return the change of a station that is approved or ordered."""
        key = self._orders.get(station)
        return None if key is None else self.decisions[key]

    def latest(
        self,
        *,
        station: str | None = None,
        status: Status | None = None,
        slot: str | None = None,
        before: str | None = None,
        limit: int = 50,
    ) -> list[DecisionRecord]:
        """Return decisions, newest first; nobody has to wait while those of long ago are read.

        Args:
            station: Only of this station.
            status: Only those that this became of.
            slot: Only those of this slot.
            before: Only those made before this one, for paging.
            limit: At most so many.
        """
        with self.lock:
            first = None if before is None else self.decision(before).id
            all_match = status is slot is None
            keys = list(islice(self._keys(station, first), limit if all_match else LOOKED_AT))
        found = list[DecisionRecord]()
        for begin in range(0, len(keys), _AT_ONCE):
            some = keys[begin : begin + _AT_ONCE]
            self.bring(some)
            with self.lock:
                records = [self.decisions[key] for key in some if key in self.decisions]
            found += [one for one in records if status in (None, one.status) and slot in (None, one.slot)]
            if len(found) >= limit:
                break
        return found[:limit]

    def _keys(self, station: str | None, before: str | None) -> Iterator[str]:
        """Give the ids of decisions before one, the newest first."""
        if station is None:
            return self.decisions.before(before)
        last = None if before is None else number_of(before)
        return (id_of(number) for number in self.station(station).slots.made() if last is None or number < last)

    def points(
        self, station: str, last: int = 500, *, since: datetime | None = None, until: datetime | None = None
    ) -> list[Point]:
        """Return the last slots of a station by their time, oldest first; before the first of all, rows of the log.

        Nobody has to wait while decisions of long ago are read, unless this is called by who has the lock.

        Args:
            station: Of whom.
            last: At most so many.
            since: Only those that began then or later.
            until: Only those that began before.
        """
        with self.lock:
            numbers = self.station(station).slots.within(since, until)[-last:] if last else []
        keys = [id_of(number) for number in numbers]
        self.bring(keys)
        with self.lock:
            records = [self.decisions[key] for key in keys if key in self.decisions]
            return self._logged(station, last - len(records), since, until) + [
                Point(i.when, i.id, i.arm, None not in (i.arm, i.running) and i.arm != i.running, i.reward, i.baseline)
                for i in records
            ]

    def _logged(self, station: str, last: int, since: datetime | None, until: datetime | None) -> list[Point]:
        """Return the last rows of a station, before its first slot, in the log that the controller learned from."""
        logged, stations, first = self.setup.logged, self.setup.stations, self.station(station).slots.first
        if logged is None or last < 1 or station not in stations:
            return []
        own = logged.of_task(stations.index(station))
        found = _window(logged.times[own], since, min(filter(None, (until, first)), default=None), last)
        arms, rewards = logged.arms[own][found].tolist(), logged.rewards[own][found].tolist()
        return [
            Point(at_ticks(at), None, arm, ran is not None and ran != arm, reward, None)
            for at, arm, ran, reward in zip(
                logged.times[own][found].tolist(), arms, [None, *arms], rewards, strict=False
            )
        ]

    def gain(self, station: str | None = None) -> Gain:
        """Return what was gained over the fixed configuration, by a station or by all."""
        return self._tally.gain(None if station is None else self.station(station).station)

    def changes(self, station: str) -> list[ReportedChange]:
        """Return the last changes of a station, oldest first."""
        return list(self._changes.get(self.station(station).station, ()))

    def ran(self, station: str) -> tuple[int, ...]:
        """Return what a station ran before what it runs, the latest first; what was taken back is not among it."""
        return self._trails.get(self.station(station).station, Trail()).ran[::-1]

    def reported(self, station: str) -> Report | None:
        """Return what the network last said of what a station runs, unless that was changed by others since."""
        return self._reported.get(station)

    def refused(self, day: date) -> int:
        """Return how many decisions of slots that began on a day, UTC, the guard refused."""
        return self._refused[day]

    def recent(self, station: str, slots: int = 24) -> float | None:
        """Return the mean reward of a station's last slots whose reward is known."""
        station_state = self.station(station)
        kept = reversed(self._recent.get(station, ())) if slots <= KEPT_RECENT else self._rewards(station_state)
        last = list(islice(kept, slots))
        return sum(last) / len(last) if last else None

    def last_rewards(self, station: str) -> tuple[float, ...]:
        """Return the last known rewards of a station, at most `KEPT_RECENT`, oldest first."""
        return tuple(self._recent.get(station, ()))

    def _rewards(self, station_state: StationState) -> Iterator[float]:
        """Give the known rewards of a station, newest slot first."""
        records = (self.decisions[id_of(number)] for number in reversed(station_state.slots.numbers))
        return (record.reward for record in records if record.reward is not None)

    def worst(self, count: int = 10, slots: int = 24) -> list[tuple[StationState, float]]:
        """Return the stations that earned least of late, the lowest first."""
        found = (
            (station_state, self.recent(station_state.station, slots))
            for station_state in self.stations.values()
            if station_state.active
        )
        known = [(station_state, reward) for station_state, reward in found if reward is not None]
        return sorted(known, key=lambda pair: pair[1])[:count]

    def fleet(
        self, last: int = 500, *, since: datetime | None = None, until: datetime | None = None
    ) -> list[tuple[datetime, float, float | None, int]]:
        """Return, of the last slots: when, mean reward, mean expectation of the fixed configurations, stations.

        Args:
            last: Of so many slots at most.
            since: Only of slots that began then or later.
            until: Only of slots that began before.
        """
        series, logged, first = self._tally.series(last, since=since, until=until), self.setup.logged, self._tally.first
        if logged is None or len(series) >= last:
            return series
        times, rewards, counts = logged.series
        rows = _window(times, since, min(filter(None, (until, first)), default=None), last - len(series))
        past = zip(times[rows].tolist(), rewards[rows].tolist(), counts[rows].tolist(), strict=True)
        return [(at_ticks(at), reward, None, count) for at, reward, count in past] + series

    # What the controller did

    def _take_entry(self, event: Event, entry: Entry) -> None:
        match entry:
            case Asked():
                self._take_decision(event, entry)
            case Ran():
                self._update(entry.id, arm=entry.arm)
                self._runs_on(entry.id)
            case Told():
                self._take_reward(entry)
            case Corrected():
                self._take_correction(entry)
            case CalledOff():
                self._take_call_off(entry)
            case Joined():
                self.stations[entry.station] = StationState(
                    entry.station, self.mode, running=entry.running, fixed=entry.running
                )
            case Left():
                self._take_leave(entry)
            case Returned():
                self._take_return(entry)

    def _take_decision(self, event: Event, entry: Asked) -> None:
        """Take in a decision; what becomes of it is said by the verdict that follows."""
        decision, station_state = entry.decision, self.station(entry.decision.station)
        at, said = datetime.fromisoformat(event.at), event.payload
        begins = time_of(said.get("from"))
        made = DecisionRecord(
            decision, event.seq, at, event.slot, station_state.mode, "applied", None,
            running=station_state.running, arm=decision.arm, baseline=self._expected(decision), actor=event.actor,
            begins=begins, past=bool(said.get("past")),
        )  # fmt: skip
        self.decisions.add(made)
        self.statuses["applied"] += 1
        self._bare[made.id] = made.mode, made.running, made.baseline
        station_state.slots.add(number_of(made.id), made.when)
        self._count("decisions")
        self._count("pending")
        if made.past:  # for the record: the station is in a later slot
            return
        if station_state.last is not None:
            self._expire(station_state.last)
        if (withdrawn := self._withdrawn.pop(decision.station, None)) is not None:
            self._expire(withdrawn)
        state = {} if entry.state is None else dict(entry.state)
        station_state.last, station_state.clock, station_state.state = decision.id, state.pop(TIME_COLUMN, None), state
        station_state.running = decision.arm
        station_state.begins = max(filter(None, (begins, station_state.begins)), default=None)

    def _take_call_off(self, entry: CalledOff) -> None:
        self._expire(entry.id)
        self._count("pending", -int(not self.decisions[entry.id].called_off))
        self._update(entry.id, called_off=True)
        self._runs_on(entry.id)

    def _runs_on(self, key: str) -> None:
        """What a station runs whose last decision has no verdict: what it ran last, as a controller takes it."""
        station_state = self.stations[self.decisions[key].station]
        if station_state.last is None or self.decisions[station_state.last].verdict is not None:
            return
        known = (self.decisions[id_of(number)] for number in reversed(station_state.slots.numbers))
        ran = (record.arm for record in known if not record.called_off or record.arm != record.decision.arm)
        station_state.running = next(ran, station_state.fixed)

    def _take_leave(self, entry: Left) -> None:
        station_state = self.stations[entry.station]
        station_state.active = False
        if station_state.last is not None:
            self._expire(station_state.last)

    def _take_return(self, entry: Returned) -> None:
        station_state = self.stations[entry.station]
        station_state.active = True
        if entry.running is not None and entry.running != station_state.running:
            self._trails[entry.station] = Trail()
            station_state.running, station_state.before, station_state.changed, station_state.changed_by = (
                entry.running,
                None,
                None,
                "",
            )

    # What guard and people did

    def _take_verdict(self, event: Event, said: Mapping[str, Any]) -> None:
        verdict, record = Verdict.from_dict(said["verdict"]), self.decisions[str(event.decision)]
        status, at = said["status"], datetime.fromisoformat(said["at"])
        station_state = self.stations[record.station]
        self._bare.pop(record.id, None)
        if not record.past:
            station_state.running = verdict.running
            self._fix(station_state, verdict.running)
        baseline = self._expected(record.decision) if record.baseline is None else record.baseline
        self._count(status)
        if verdict.outcome not in ("allowed", status):
            self._count(verdict.outcome)
        self._pass(at)
        self._update(
            record.id, verdict=verdict, status=status, mode=said["mode"], at=at, running=verdict.running,
            baseline=baseline, gain=tuple(said["gain"]) if "gain" in said else None,
            support=Support(*said["support"]) if "support" in said else None, **_times(said),
        )  # fmt: skip
        self._file(record.id, status)

    def _take_approval(self, event: Event, said: Mapping[str, Any]) -> None:
        key, status = str(event.decision), said["status"]
        verdict = self.decisions[key].verdict if said["verdict"] is None else Verdict.from_dict(said["verdict"])
        self._pass(datetime.fromisoformat(said["at"]))
        self._count(status)
        if said["approved"] and status != "approved":
            self._count("approved")
        self._update(
            key, verdict=verdict, status=status, comment=said["comment"], decided_by=event.actor, **_times(said)
        )
        self._file(key, status)

    def _take_order(self, event: Event, said: Mapping[str, Any]) -> None:
        """Take in what became of a change that was approved: ordered, sent, confirmed, failed, or given up."""
        key, status = str(event.decision), said["status"]
        if status == "sent":
            until = datetime.fromisoformat(said["until"])
            self.sent[event.station] = Sent(event.station, event.decision or "", said["arm"], until)
        elif status in ("unsent", "made", "applied", "rolled back", "failed"):
            self.sent.pop(event.station, None)
        if status in ("sent", "unsent") or event.decision is None:  # else it is a step of its decision
            self._pass(datetime.fromisoformat(said["at"]))
            if status in ("made", "failed"):
                self.backs.pop(event.station, None)
            return
        verdict = Verdict.from_dict(said["verdict"]) if "verdict" in said else self.decisions[key].verdict
        if status == "expired" and self.decisions[key].status == "ordered":
            at = datetime.fromisoformat(said["at"])
            kept = {name: one for name, one in self._unconfirmed.items() if at - one[1] < OVERDUE}
            self._unconfirmed = {**kept, event.station: (key, at)}
        self._pass(datetime.fromisoformat(said["at"]))
        self._count(status)
        self._update(key, verdict=verdict, status=status, **_times(said))
        self._file(key, status)
        if status == "waiting":
            self._withdrawn[event.station] = key

    def _take_manner(self, _: Event, said: Mapping[str, Any]) -> None:
        self.manner = checked_manner(said["manner"])

    def _file(self, key: str, status: Status) -> None:
        """Keep what waits for a person, and what is approved or ordered, at hand."""
        station = self.decisions[key].station
        self._waiting.pop(key, None)
        if self._withdrawn.get(station) == key:
            del self._withdrawn[station]
        if status in ("approved", "ordered"):
            self._orders.setdefault(station, key)
        elif self._orders.get(station) == key:
            del self._orders[station]
        if status == "waiting":
            self._waiting[key] = None

    def _take_applied(self, event: Event, said: Mapping[str, Any]) -> None:
        """Take in what a station runs, by whomever, or that its last change was not carried out after all."""
        station_state, at = self.stations[event.station], datetime.fromisoformat(said["at"])
        arm, before, by = said["arm"], said["before"], said["by"]
        self._pass(at)
        self._changes[station_state.station].append(ReportedChange(at, arm, before, by, event.actor))
        trail = self._trails.get(station_state.station, Trail())
        known = before is not None or by != "network"  # else it was only found out what the station runs
        if said.get("taken_back"):
            self._fresh.append(TakenBack(at, station_state.station))
            trail = trail.taken_back()
        elif arm != before and known:
            to_guard = _TO_THE_GUARD.get(by, "operator")
            self._fresh.append(Changed(at, station_state.station, arm=arm, before=before, by=to_guard))
            trail = trail.after(arm, before=before, at=at, by=by)
        self._trails[station_state.station] = trail
        self._note_report(event, said)
        self._note_back(event, said)
        self._fix(station_state, before)
        station_state.running, station_state.before, station_state.changed, station_state.changed_by = (
            arm,
            trail.before,
            trail.changed,
            trail.by,
        )
        if event.decision is not None:
            self._take_report(event.decision, event.actor, said, at)

    def _fix(self, station_state: StationState, arm: int | None) -> None:
        """Note what a station would run without all this, where that was not known."""
        if station_state.fixed is None and arm is not None:
            station_state.fixed, self._fixed_since[station_state.station] = arm, self.seq

    def _note_report(self, event: Event, said: Mapping[str, Any]) -> None:
        """Keep the last word of the network on what a station runs; what is changed by others is a report no more."""
        if said.get("reported", said["by"] == "network"):
            self._reported[event.station] = event.decision, said["arm"], said["comment"]
        else:
            self._reported.pop(event.station, None)

    def _note_back(self, event: Event, said: Mapping[str, Any]) -> None:
        """Keep a person's roll-back, where the network is told by orders, until it is made or something else runs."""
        known = self.backs.pop(event.station, None)
        if said["by"] == "operator" and self.manner == "confirmed":
            before = said["before"] if known is None else known.before
            self.backs[event.station] = Back(before, override=bool(said.get("override")))

    def _take_report(self, key: str, actor: str, said: Mapping[str, Any], at: datetime) -> None:
        """Take in what an application says of its decision: what becomes of it, and since when it runs."""
        if said["by"] != "operator" and said["arm"] != said["before"]:
            self._began[key] = self._epoch(self.seq), at  # its reward is that of what runs since: of none before
        if said.get("taken_back"):
            self._began.pop(key, None)
        if said["by"] == "operator":
            self._update(key, arm=said["arm"])  # what a person put back is what the station is to run
        if said["comment"]:
            self._update(key, comment=said["comment"])
        if said.get("order", key) != key:
            self._update(key, told=said["arm"])
        status: Status | None = said.get("status", "not made" if said.get("taken_back") else None)
        if status is not None:
            ours = {"not made", "approved", "ordered"} & {status, self.decisions[key].status}
            self._count(status)
            self._update(key, status=status, **({} if ours else {"decided_by": actor}))
            self._file(key, status)

    def _take_mode(self, _: Event, said: Mapping[str, Any]) -> None:
        mode, stations = checked_mode(said["mode"]), said["stations"]
        self.moded = True
        if stations is None:
            self.mode = mode
        for name in self.stations if stations is None else stations:
            self.stations[name].mode = mode
        if mode != "assist":
            for record in self.waiting():
                if self.stations[record.station].mode != "assist":
                    self._expire(record.id)

    def _take_switch(self, _: Event, said: Mapping[str, Any]) -> None:
        event = event_from(said["event"])
        if isinstance(event, ClockSet):
            self.clock = self.clock[0] + 1, event.at
            self._clock_sets.append(self.seq)
        if isinstance(event, Stopped | Resumed):
            self.proposals.pop("resume", None)
        self._pass(event.at)
        self._fresh.append(event)
        frozen = self.history.frozen
        for name, station_state in self.stations.items():
            station_state.frozen = frozen.get(name)

    def _pass(self, at: datetime) -> None:
        """Note that it is no earlier than this."""
        epoch, last = self.clock
        self.clock = epoch, at if last is None else max(last, at)

    def _take_proposal(self, event: Event, said: Mapping[str, Any]) -> None:
        at, text = datetime.fromisoformat(said["at"]), said.get("text", "")
        self.proposals[said["act"]] = Proposed(said["act"], said["digest"], event.actor, at, said["comment"], text)

    def _take_names(self, _: Event, said: Mapping[str, Any]) -> None:
        self.called = {name: Called(*one) for name, one in said["names"].items()}

    def _take_rails(self, event: Event, said: Mapping[str, Any]) -> None:
        self.proposals.pop("rails", None)
        at = datetime.fromisoformat(event.at)
        self.rails = RailsOnRecord(said["text"], said["digest"], at, event.actor, said.get("comment", ""))

    def _take_feed(self, _: Event, said: Mapping[str, Any]) -> None:
        self.feed = said

    def _take_counters(self, _: Event, said: Mapping[str, Any]) -> None:
        put_on_record(self.seen, said)

    # What slots earned: on every record, in the sums, and in the history that the guard looks at

    def _take_reward(self, entry: Told) -> None:
        record = self.decisions[entry.id]
        self._expire(entry.id)
        self._count("told")
        self._count("pending", -int(record.open))
        self._earned(entry.id, own_of(entry)[0], entry.reward)
        self._update(entry.id, called_off=False)  # a late reward is welcome

    def _take_correction(self, entry: Corrected) -> None:
        """Take in a reward in the place of another, and what it changes of those that it was mixed into."""
        self._earned(entry.id, entry.reward if entry.own is None else entry.own, entry.reward)
        for key, learned in entry.others.items():
            own = self.decisions[key].reward
            if own is not None:
                self._relearned.add(key)
                self._earned(key, own, learned)

    def _earned(self, key: str, reward: float, learned: float) -> None:
        """Note what a slot earned, and what is learned of it, in the place of what was noted before."""
        self._tallied(key, -1)
        newest = self.decisions[key].reward is None and self.stations[self.decisions[key].station].last == key
        self._update(key, reward=reward)
        self._learned.pop(key, None)
        if learned != reward:  # neighbours' rewards are mixed in
            self._learned[key] = learned
        self._tallied(key, 1)
        record = self.decisions[key]
        self._keep_recent(record.station, reward if newest else None)
        if record.verdict is not None or self.stations[record.station].last == key:
            made = 0 if record.verdict is None else self._epoch(record.seq)
            epoch, at = self._began.get(key, (made, record.when if record.past else record.at))
            self._fresh.append(Rewarded(at, record.station, reward, epoch))

    def _keep_recent(self, station: str, newest: float | None) -> None:
        """Keep the last rewards of a station at hand: one more, or anew where it is one of the past that changed."""
        if newest is None:
            last = list(islice(self._rewards(self.stations[station]), KEPT_RECENT))
            self._recent[station] = deque(reversed(last), KEPT_RECENT)
        else:
            self._recent.setdefault(station, deque(maxlen=KEPT_RECENT)).append(newest)

    def _tallied(self, key: str, times: int) -> None:
        record = self.decisions[key]
        if record.reward is None or record.verdict is None:
            return
        at = record.when
        if record.slot is not None and record.begins is None:
            at = self._slots.setdefault(record.slot, at)
        gained = None if record.baseline is None else self._learned.get(key, record.reward) - record.baseline
        self._tally.add(record.station, at, reward=record.reward, baseline=record.baseline, gained=gained, times=times)

    def _expire(self, decision_id: str) -> None:
        """What waited for a person waits no longer: its slot is over."""
        if decision_id in self._waiting:
            record = self.decisions[decision_id]  # what ends it is said of others, so that it is no step of its own
            self._update(decision_id, status="expired", steps=record.steps)
            self._file(decision_id, "expired")
            self._count("expired")

    def _update(self, decision_id: str, **changes: Any) -> None:
        before = self.decisions[decision_id]
        after = replace(before, **changes)
        moved = after.status != before.status or (before.verdict is None and after.verdict is not None)
        if moved and self._event.decision == decision_id and "steps" not in changes:
            after = replace(after, steps=(*before.steps, self._step(after)))
        self.decisions.put(after)
        self.statuses[before.status] -= 1
        self.statuses[after.status] += 1
        if before.verdict is not after.verdict:
            self.rails_refused.subtract(_codes(before))
            self.rails_refused.update(_codes(after))
        if "refused" in (before.status, after.status):
            self._refused[before.at.date()] -= before.status == "refused"
            self._refused[after.at.date()] += after.status == "refused"

    def _step(self, record: DecisionRecord) -> Step:
        """Return what the event being taken in says of a decision that it brought to another status."""
        at = datetime.fromisoformat(self._said.get("at", self._event.at))
        return Step(record.status, at, self._event.actor, self._said.get("comment", ""))

    def _count(self, what: str, times: int = 1) -> None:
        self.counts[what] = self.counts.get(what, 0) + times

    def _expected(self, decision: Decision) -> float | None:
        """What the fixed configuration was expected to earn in the slot of a decision."""
        fixed = self.stations[decision.station].fixed
        return None if fixed is None else expected_of(decision, fixed)

    _notes: Mapping[str, Callable[["ReadModel", Event, Mapping[str, Any]], None]] = {
        "verdict": _take_verdict,
        "approval": _take_approval,
        "order": _take_order,
        "manner": _take_manner,
        "applied": _take_applied,
        "mode": _take_mode,
        "switch": _take_switch,
        "proposal": _take_proposal,
        "rails": _take_rails,
        "feed": _take_feed,
        "counters": _take_counters,
        "names": _take_names,
    }


def _window(times: IntArray, since: datetime | None, until: datetime | None, last: int) -> slice:
    """Return where the last of some times, ascending, from one on and before another are."""
    end = len(times) if until is None else int(np.searchsorted(times, ticks_of(until)))
    begin = 0 if since is None else int(np.searchsorted(times, ticks_of(since)))
    return slice(max(begin, end - last), max(begin, end))


def _times(said: Mapping[str, Any]) -> dict[str, datetime]:
    """Return when a change that was approved is due and until when it counts, where an event says so."""
    return {name: datetime.fromisoformat(said[name]) for name in ("due", "until") if said.get(name)}


def _codes(record: DecisionRecord) -> tuple[str, ...]:
    """Return the rails that refused something of a decision."""
    return () if record.verdict is None or not record.verdict.refusals else tuple(record.verdict.codes)


def expected_of(decision: Decision, arm: int) -> float | None:
    """Return what an arm was expected to earn when a decision was made, where its scores were kept."""
    if arm == decision.arm:
        return decision.mean
    found = alternative_of(decision, arm)
    return None if found is None else found.mean
