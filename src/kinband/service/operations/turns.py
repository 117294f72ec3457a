"""Units of work, one after the other: a controller in memory and its ledger kept as one."""

import logging
import threading
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from time import monotonic
from types import TracebackType
from typing import Any, NamedTuple, TypeVar

from kinband.controller.events import Asked, Entry
from kinband.controller.memory import Relearning, Stored, Taught
from kinband.errors import BadInputError, ConflictError, KinbandError
from kinband.service.ledger import Draft, Event, Ledger, LedgerRefusedError, LedgerUnavailableError
from kinband.service.ledger.archiving import KEEP, try_to_archive
from kinband.service.ledger.asked import Request
from kinband.service.ledger.events import ENTRIES, FIRST, Head, check_chain, draft_of
from kinband.service.ledger.restoring import EntryReader, FollowingController, follow, restored
from kinband.service.ledger.snapshots import Shown, Snapshot, newest_snapshot, write_snapshot
from kinband.service.ledger.store import Reader, Writable, Writer
from kinband.service.operations.read_model import ReadModel
from kinband.service.tracing import span

# --- A lock between threads that nobody waits for longer than for the database --------------------------------------
#
# Whoever has the lock may be waiting for a database that is away, and a queue behind it would wait one timeout after
# another, each longer than any caller's patience. So nobody waits for the lock longer than for the database, and
# whoever wants to write and has waited behind somebody who then got no answer hears the same, rather than to wait as
# long again.

_WHILE = 1.0  # seconds that one has to have waited for another's failure to be one's own


class Mutex:
    """A lock that a thread may take again while it has it.

    Args:
        name: What is busy, in messages.
        seconds: How long to wait for it at most.
    """

    def __init__(self, name: str, *, seconds: float) -> None:
        self._name, self._seconds = name, seconds
        self._lock = threading.RLock()
        self._depth = 0  # how often its owner has taken it
        self._came = 0.0  # when its owner began to wait for it
        self._failed = float("-inf")  # when somebody who had it got no answer

    def __enter__(self) -> None:
        came = monotonic()
        if not self._lock.acquire(timeout=self._seconds):
            raise self._busy()
        if self._depth == 0:
            self._came = came
        self._depth += 1

    def check_answered(self) -> None:
        """Refuse its owner to ask a database again that gave no answer while the owner waited; looking asks nothing."""
        if self._failed - self._came > _WHILE:
            raise self._busy()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, LedgerUnavailableError):
            self._failed = monotonic()
        self._depth -= 1
        self._lock.release()

    def _busy(self) -> LedgerUnavailableError:
        return LedgerUnavailableError(
            f"the ledger {self._name} is busy: nothing was recorded, try again later", code="busy"
        )


# --- Turns: how a controller in memory and a ledger are kept as one -------------------------------------------------
#
# A turn is a unit of work. It takes the ledger's lock for deciding, takes in what other processes have recorded since
# the last one, lets the controller decide or learn, and only then takes the write lock, appends what was added to the
# journal, and commits. So it is impossible to decide the same twice, and however long it takes to decide or to learn,
# others can write meanwhile what needs no controller: a switch that somebody turns. Who finds one when about to write
# takes it in, takes back (undoes) what was decided, and decides again, under the write lock this time: no change goes
# out past a stop on record. What was learned stays as it is, since beliefs know nothing of switches.
#
# If anything fails on the way, decisions are taken back in memory; what was learned cannot be, so that memory is read
# again from the ledger then. So nothing more is learned before the ledger takes writes again.
#
# The read model follows the events beside the controller, under a lock of its own that is never held for long. It is
# shown what is recorded, never what is about to be, so that it stays right when a turn fails, and can be looked at
# while the database is away, or while somebody decides.

_log = logging.getLogger(__name__)

T = TypeVar("T")

_NOTHING = Head(0, FIRST)  # the head of a ledger without events

_TRIES, _FEW = 3, 20  # times that all is learned beside; rewards learned, or events read, while others wait
_SMALL = 1_000_000  # bytes of beliefs that are stored at once
_SOON = 0.5  # seconds that a probe waits for a ledger to be read
_FOR_ONE_EVENT = 64_000  # bytes of snapshots that an event may cause to be written, on average


@dataclass(frozen=True)
class Call:
    """A command, as far as it can be told from others: its fingerprint and its idempotency key.

    Attributes:
        fingerprint: A digest of everything that was said (`ledger.asked.fingerprint`).
        key: The caller's key, under which it is done once; None where it has none. The same key of another is another.
        actor: Who calls.
        slot: The slot to decide for, if the caller names it.
        begins: When that slot begins, if that is known.
    """

    fingerprint: str
    key: str | None = None
    actor: str = ""
    slot: str | None = None
    begins: datetime | None = None

    @property
    def keys(self) -> tuple[str, ...]:
        """What the key is called on record, that of earlier versions last; none where there is no key."""
        if self.key is None:
            return ()
        return (f"{self.actor}: {self.key}", self.key) if self.actor else (self.key,)


class Act:
    """A unit of work without the controller: what one command records in one transaction.

    Attributes:
        reader: To look things up with.
        drafts: What is to be recorded, with entries of the journal where it is those.
    """

    def __init__(self, reader: Reader, call: Call) -> None:
        self.reader, self.drafts = reader, list[tuple[Draft, Entry | None]]()
        self._call = call

    def answered(self, kind: str) -> Event | None:
        """Return what an earlier call with the same key recorded; refuse a key that was used for another call."""
        call = self._call
        known = (self.reader.keyed(kind, key) for key in call.keys)
        found = next((event for event in known if event is not None and event.actor == call.actor), None)
        if found is not None and found.payload.get("call") != call.fingerprint:
            raise ConflictError(
                f"the key {call.key!r:.80} was used before for another call (event {found.seq})",
                hint="give every call its own key",
            )
        return found

    def note(self, kind: str, payload: Mapping[str, Any], *, station: str = "", decision: str | None = None) -> None:
        """Append what happened around the controller."""
        self._add(Draft(kind, payload, station, decision), None)

    def write(self, writer: Writer) -> dict[int, Entry]:
        """Write what was appended, in its order, and return the entries of the journal by number of the event."""
        made = writer.append([draft for draft, _ in self.drafts])
        pairs = zip(made, self.drafts, strict=True)
        return {event.seq: entry for event, (_, entry) in pairs if entry is not None}

    def _add(self, draft: Draft, entry: Entry | None) -> None:
        """Keep an event to be written; the first of a call carries its key, under which the call is found again."""
        if not self.drafts and self._call.key is not None:
            draft = replace(draft, key=self._call.keys[0], payload={**draft.payload, "call": self._call.fingerprint})
        self.drafts.append((replace(draft, actor=self._call.actor), entry))


class Turn(Act):
    """A unit of work with the controller, which has taken in everything.

    Attributes:
        controller: To decide or learn with.
    """

    def __init__(self, controller: FollowingController, reader: Reader, call: Call) -> None:
        super().__init__(reader, call)
        self.controller = controller
        self._appended = len(controller.journal)  # entries of the journal that are on record, or appended here
        self._expired: Callable[[], bool] = lambda: False

    def expires_after(self, seconds: float, *, stopwatch: Callable[[], float]) -> None:
        """Have it done again unless it is recorded before a stopwatch has gone on so far: the time is another then."""
        since = stopwatch()
        self._expired = lambda: stopwatch() - since >= seconds

    @property
    def expired(self) -> bool:
        """Whether it took too long."""
        return self._expired()

    @property
    def begins(self) -> datetime | None:
        """When the slot begins that is decided for, if that is known."""
        return self._call.begins

    def decided_for(self, stations: Sequence[str]) -> dict[str, Event]:
        """Return the decisions of stations for the slot of the call, by station."""
        return {} if self._call.slot is None else self.reader.slots(stations, self._call.slot)

    def append(self, asked: Mapping[str, Request] | None = None, *, past: Container[str] = ()) -> None:
        """Append what the controller has added to its journal; `past` are stations that are in a later slot."""
        journal = self.controller.journal
        for entry in journal.since(self._appended):
            further: dict[str, Any] = {}
            if isinstance(entry, Asked) and asked is not None:
                further["asked"] = asked[entry.decision.station].stored()
                if self._call.begins is not None:
                    further["from"] = self._call.begins.isoformat()
                if entry.decision.station in past:
                    further["past"] = True
            draft = draft_of(entry, journal, **further)
            self._add(replace(draft, slot=self._call.slot) if draft.kind == "decision" else draft, entry)
        self._appended = len(journal)


class Snapshotted(NamedTuple):
    """The last snapshot: the number of the event it was taken after, and its bytes; zeros where there was none."""

    seq: int
    size: int


class Turns:
    """Gives turns (units of work), one at a time, to the threads of this process and, by the ledger's lock, to all.

    | who wants the controller | asks | with the mutex |
    |---|---|---|
    | whoever decides or learns | `run`, `run_once`: the `controller` of the turn | taken by these |
    | whoever looks at what may change in place | `up_to_date()`: all that the read model shows is in it | yes |
    | whoever needs it as the last turn left it | `loaded()` | yes |
    | whoever looks at what never changes in place | `unlocked`, perhaps at work | no |

    Args:
        ledger: The truth.
        read_model: What follows the events beside the controller.
        snapshot_every: After how many events beliefs are stored.
        keep: How many of the latest events stay in an SQLite database when older ones are archived; 0 for all.

    Attributes:
        writable: Tells whether the ledger takes writes.
    """

    def __init__(self, ledger: Ledger, read_model: ReadModel, *, snapshot_every: int, keep: int = KEEP) -> None:
        if isinstance(snapshot_every, bool) or not isinstance(snapshot_every, int) or snapshot_every < 1:
            raise BadInputError(f"snapshot_every must be a whole number from 1 on, got {snapshot_every!r}")
        self.ledger = ledger
        self._read_model = read_model
        self.setup = read_model.setup
        self.mutex = Mutex(ledger.name, seconds=ledger.timeout)
        self._every, self._keep = snapshot_every, keep
        self._reader = EntryReader(self.setup)
        self._controller: FollowingController | None = None  # None where memory and ledger may differ
        self._learned = Head(0, "")  # the last event that the controller has taken in
        self._shown: Head | None = None  # the last that the read model has; None where it has to begin anew
        self._recorded = 0  # entries of the controller's journal that are on record
        self._snapshotted = Snapshotted(0, 0)
        self._loading: threading.Thread | None = None
        self.writable, self._failed = Writable(ledger), False  # whether the last turn could not be recorded
        self._relearning, self._storing = threading.Lock(), threading.Lock()
        self._ending = threading.Event()

    def end(self) -> None:
        """Have corrections given up that take long: the process ends."""
        self._ending.set()

    def loaded(self) -> FollowingController:
        """Return the controller, read anew from the ledger where memory may differ; who has the mutex may ask."""
        if self._controller is None:
            shown = self._shown
            self._look_back()
            try:
                found = restored(self.ledger, self.setup, onlooker=self)
            except BaseException:
                with self._read_model.lock:
                    if shown is None or self._shown is None or self._shown.seq < shown.seq:
                        self._shown = None  # less than was shown before is not to be seen
                raise
            self._learned, self._snapshotted = Head(found.seq, found.checksum), Snapshotted(found.snapshot, found.size)
            self._recorded, self._controller = len(found.controller.journal), found.controller
        return self._controller

    def begin_at(self, snapshot: Snapshot | None) -> int:
        """Have the read model take up a snapshot where it has seen nothing yet; return what it has seen."""
        with self._read_model.lock:
            known = 0 if self._shown is None else self._shown.seq
            if snapshot is not None and snapshot.shown is not None and known == 0:
                try:
                    self._read_model.take_up(snapshot.shown)
                    self._shown = Head(snapshot.seq, snapshot.checksum)
                    return snapshot.seq
                except (KeyError, LookupError, TypeError, ValueError) as error:
                    _log.warning("the snapshot after event %d shows nothing: %r", snapshot.seq, error)
                    self._read_model.begin()
            return known

    @property
    def unlocked(self) -> FollowingController:
        """The controller, perhaps at work: for what never changes in place; who reads the ledger is waited for."""
        found = self._controller
        if found is None:
            with self.mutex:
                found = self.loaded()
        return found

    def up_to_date(self) -> FollowingController:
        """Return the controller with everything that the read model shows; who has the mutex may ask."""
        self.loaded()
        if self._shown is not None and self._shown.seq > self._learned.seq:
            with self.ledger.reading() as connection:
                self._follow(Reader(connection, self.ledger))
        return self.loaded()

    def check_loaded(self, *, seconds: float = _SOON) -> None:
        """Return if there is a controller to decide with; where there is none it is read, and waited for so long."""
        if self._controller is None and not (self._loading and self._loading.is_alive()):
            self._loading = threading.Thread(target=self._load, daemon=True)
            self._loading.start()
            self._loading.join(seconds)
        if self._controller is None:
            raise LedgerUnavailableError(f"the ledger {self.ledger.name} is being read: try again later", code="busy")

    def _load(self) -> None:
        try:
            with self.mutex:
                self.loaded()
        except KinbandError as error:
            _log.warning("the ledger could not be read: %s", error)

    def watched(self) -> None:
        """See to it that the read model shows what is on record; the ledger is read only if it shows nothing."""
        with self._read_model.lock:
            if self._shown is None:
                self._read_model.begin()
                self._shown = _NOTHING
                try:
                    after = self.begin_at(newest_snapshot(self.ledger))
                    for event in self.ledger.read(after=after):
                        self.show(event, self._reader.maybe(event))
                except BaseException:
                    self._shown = None  # a part of it is not to be seen, nor gone on from by whoever decides
                    raise

    def refresh(self) -> None:
        """Show what was recorded since, by whomever; while the database is asked, nobody has to wait for this."""
        self.watched()
        shown = self._shown or _NOTHING
        events = list(self.ledger.read(after=shown.seq))
        check_chain(events, after=shown.seq, checksum=shown.checksum)
        with self._read_model.lock:
            if self._shown is not None and self._shown.seq >= shown.seq:
                self._show_all((event, self._reader.maybe(event)) for event in events)

    def run(self, call: Call, act: Callable[[Turn], T]) -> T:
        """Let somebody act, record what that appends, all or nothing, and return what `act` returned.

        It acts twice where a switch was turned meanwhile, or where it took so long that the time is another: what it
        does is to come from the turn that it is given.
        """
        with self.mutex:
            self.mutex.check_answered()
            self.loaded()
            try:
                with self.ledger.deciding():
                    with self.ledger.reading() as connection:
                        reader = Reader(connection, self.ledger)
                        self._follow(reader)
                        turn = Turn(self.loaded(), reader, call)
                        found = act(turn)
                    if not turn.drafts:
                        return found
                    with span("commit"), self.ledger.writing() as writer:
                        if self._overtaken(writer) or (turn.expired and self._undo()):
                            turn = Turn(self.loaded(), writer, call)
                            found = act(turn)
                        entries = turn.write(writer)
            except BaseException as error:
                self._failed |= isinstance(error, LedgerUnavailableError | LedgerRefusedError)
                if self._controller is not None and not self._undo():
                    self._controller = None
                raise
            self._failed = False
            self._learned, self._recorded = writer.head, len(turn.controller.journal)
            self._show_all((event, entries.get(event.seq)) for event in writer.made)
            self._snapshot_if_due()
            return found

    def run_once(self, kind: str, call: Call, act: Callable[[Turn], object]) -> None:
        """Let somebody act in a turn, unless a call with the same key has recorded an event of this kind."""

        def once(turn: Turn) -> None:
            if turn.answered(kind) is None:
                self.check_after_failure()
                act(turn)
                turn.append()

        self.run(call, once)

    def apply(self, kind: str, call: Call, entry: Callable[[FollowingController], Entry]) -> None:
        """Record an entry, unless the same call has; others decide and learn while all is learned anew for it.

        Args:
            kind: Of its event.
            call: The call.
            entry: What makes it, as things stand; it refuses what cannot be.
        """

        def unless_answered(act: Callable[[FollowingController], bool]) -> bool:
            def once(turn: Turn) -> bool:
                if turn.answered(kind) is not None:
                    return True
                self.check_after_failure()
                done = act(turn.controller)
                turn.append()
                return done

            return self.run(call, once)

        if unless_answered(lambda controller: controller.apply_in_place(entry(controller))):
            return
        with self._relearning:
            for _ in range(_TRIES):
                anew = self._learned_beside(entry)
                if anew is None:
                    break
                if unless_answered(lambda controller: controller.apply_by(anew, entry(controller))):  # noqa: B023
                    return
        self.run_once(kind, call, lambda turn: turn.controller.apply(entry(turn.controller)))

    def _learned_beside(self, entry: Callable[[FollowingController], Entry]) -> Relearning | None:
        """Return everything learned anew, but for the last few rewards; None where nothing has to be by now."""
        with self.mutex:
            controller = self.up_to_date()
            wanted = entry(controller)
            if not isinstance(wanted, Taught):
                return None
            anew = controller.relearning(wanted)
        while True:
            if not anew.learn(unless=self._ending.is_set):
                raise LedgerUnavailableError(
                    "the service ends: nothing was recorded, send the same call again later", code="busy"
                )
            self.refresh()
            with self.mutex:
                further = anew.further(self.up_to_date().journal)
            if further is None or further <= _FEW:
                return anew

    def switch(
        self,
        call: Call,
        payload: Mapping[str, Any],
        *,
        station: str = "",
        unless: Callable[[Reader], bool] = lambda _: False,
    ) -> bool:
        """Record that somebody turns a switch: nobody is waited for who decides or learns, whatever that takes.

        Args:
            call: The call.
            payload: What is said.
            station: Whom it concerns.
            unless: What is asked in the same transaction; where it says so, nothing is recorded, and False returned.
        """
        shown = self._shown
        with span("commit"), self.ledger.writing() as writer:
            if unless(writer):
                return False
            unseen = _FEW + 1 if shown is None else writer.last - shown.seq
            act = Act(writer, call)
            if act.answered("switch") is None:
                act.note("switch", payload, station=station)
                act.write(writer)
            events = writer.read(after=writer.last - unseen - len(writer.made)) if 0 < unseen <= _FEW else writer.made
        self._show_all((event, self._reader.maybe(event)) for event in events)
        if unseen > _FEW:  # others do not have to wait for that
            self.refresh()
        return True

    def snapshot(self) -> bool:
        """Store what is believed and shown at present; False where the policy's beliefs cannot be stored."""
        with self.mutex:
            self.up_to_date()
            taken = self._taken()
        if taken is None:
            return False
        self._store(*taken)
        return True

    def _taken(self) -> "tuple[int, Stored, Callable[[], Shown]] | None":
        """Take down how things stand after the last event; None where that cannot be stored, or others go ahead."""
        with self._read_model.lock:
            memory, seq = self.loaded().stored(), self._learned.seq
            if memory is None or self._shown is None or self._shown.seq != seq:
                return None
            return seq, memory, self._read_model.stored()

    def _store(self, seq: int, memory: Stored, shown: Callable[[], Shown]) -> None:
        """Write down how things stood; one writes at a time, and nobody who decides waits."""
        with self._storing:
            self._snapshotted = Snapshotted(seq, write_snapshot(self.ledger, seq, memory, shown()))
            try_to_archive(self.ledger, keep=self._keep)

    def check_after_failure(self) -> None:
        """Refuse to learn what the ledger would not take, where it took nothing the last time."""
        if self._failed:
            self.writable.check()

    def _follow(self, reader: Reader) -> None:
        """Take in what others have recorded since the last turn."""
        self._check_not_back(reader)
        if reader.last > self._learned.seq:
            self._take_in(reader.read(after=self._learned.seq))

    def _check_not_back(self, reader: Reader) -> None:
        """Refuse to go on where the ledger does not hold what was seen."""
        seq = self._learned.seq
        if reader.last < seq or (reader.last == seq and reader.head != self._learned):
            self._controller = None
            raise LedgerUnavailableError(
                f"the ledger {self.ledger.name} went back to event {reader.last} from {seq}, perhaps restored from a "
                "backup: nothing was recorded, try again and it is read anew"
            )

    def _overtaken(self, writer: Writer) -> bool:
        """Take in what was recorded while somebody acted; whether that took back what was decided."""
        self._check_not_back(writer)
        events = writer.read(after=self._learned.seq) if writer.last > self._learned.seq else []
        if all(event.kind == "access" for event in events):  # tokens, which no decision depends on
            back = False
        else:
            back = self._undo()
            if not back and any(event.kind in ENTRIES for event in events):
                raise LedgerUnavailableError(
                    f"the ledger {self.ledger.name} is busy: another process did not wait for its turn", code="busy"
                )
        self._take_in(events)
        return back

    def _undo(self) -> bool:
        """Take back what was decided and is not on record; False where beliefs rest on it."""
        return self.loaded().take_back(self._recorded)

    def _take_in(self, events: list[Event]) -> None:
        """Follow events that others have recorded; half of them taken in is as good as none."""
        controller = self.loaded()
        try:
            learned = Head(*check_chain(events, after=self._learned.seq, checksum=self._learned.checksum))
            read = [(event, self._reader.maybe(event)) for event in events]
            entries = [entry for _, entry in read if entry is not None]
            follow(controller, entries, name=self.ledger.name)
        except BaseException:
            self._controller = None
            raise
        self._learned, self._recorded = learned, self._recorded + len(entries)
        self._show_all(read)

    def _look_back(self) -> None:
        """Have the read model begin anew where the ledger no longer holds what it was shown."""
        with self._read_model.lock:
            if self._shown is not None:
                seq, checksum = self._shown.seq, self._shown.checksum
                if seq == 0 or [e.checksum for e in self.ledger.read(after=seq - 1, before=seq + 1)] == [checksum]:
                    return
            self._read_model.begin()
            self._shown = _NOTHING

    def _show_all(self, read: Iterable[tuple[Event, Entry | None]]) -> None:
        for event, entry in read:
            self.show(event, entry)

    def show(self, event: Event, entry: Entry | None) -> None:
        """Show the read model the event that follows what it has seen; one on which it fails has it begin anew."""
        with self._read_model.lock:
            if self._shown is None or event.seq != self._shown.seq + 1:
                return
            try:
                self._read_model.take(event, entry)
            except BaseException:
                self._shown = None
                raise
            self._shown = Head(event.seq, event.checksum)

    def _snapshot_if_due(self) -> None:
        (seq, size), last = self._snapshotted, self._learned.seq
        self.loaded().trim()
        if not due(last - seq, every=self._every, size=size):
            return
        _log.info("the head of the ledger %s is %s", self.ledger.name, self._read_model.head)
        self._snapshotted = Snapshotted(
            last, size
        )  # one that cannot be stored is tried again as late as if it had been
        taken = self._taken()
        if taken is None:
            return
        writing = threading.Thread(target=self._try_to_store, args=taken)
        writing.start()
        _, memory, _ = taken
        if sum(array.nbytes for array in (*memory.beliefs.values(), *memory.rows.values())) <= _SMALL:
            writing.join()

    def _try_to_store(self, seq: int, memory: Stored, shown: Callable[[], Shown]) -> None:
        try:
            self._store(seq, memory, shown)
        except KinbandError as error:  # a restart takes longer, that is all
            _log.warning("no snapshot could be stored after event %d: %s", seq, error)


def due(since: int, *, every: int, size: int) -> bool:
    """Return whether to take a snapshot so many events after the last, which had `size` bytes: large ones are rarer."""
    return since >= max(every, size // _FOR_ONE_EVENT)
