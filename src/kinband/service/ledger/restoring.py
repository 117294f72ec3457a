"""A controller from its ledger: what it was made with, the last snapshot, and the events after it."""

import io
import json
import logging
import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Protocol, TypeVar

import numpy as np
from sqlalchemy import Connection, select

from kinband.controller import Controller, Setup
from kinband.controller.events import Asked, Corrected, Entry, Joined, Ran, Returned, Told, entry_from_dict
from kinband.controller.journal import Past
from kinband.controller.memory import Memory, Relearning, Stored, Taught
from kinband.controller.setup import setup_from_parts, setup_to_parts
from kinband.controller.stations import joining
from kinband.controller.telling import KpiValues, correction
from kinband.errors import ConflictError, KinbandError, NotFoundError, SavedStateError
from kinband.kernels import in_blocks
from kinband.policies import PolicyFactory
from kinband.service.ledger.engines import LedgerRefusedError, LedgerUnavailableError
from kinband.service.ledger.events import ENTRIES, FIRST, Draft, Event, check_chain, draft_of
from kinband.service.ledger.integrity import settings_digest
from kinband.service.ledger.schema import events, meta
from kinband.service.ledger.snapshots import Snapshot, newest_snapshot, packed_arrays
from kinband.service.ledger.store import Ledger, Writer
from kinband.version import __version__

_log = logging.getLogger(__name__)

# --- Arrays as bytes and back, without pickle: what setup and beliefs are stored as ------------------------------


def _unpacked(data: bytes, *, what: str) -> dict[str, Any]:
    """Return the arrays that `packed_arrays` wrote."""
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as stored:
            return {name: stored[name] for name in stored.files}
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        raise SavedStateError(f"{what} cannot be read: {error}") from error


# --- What a ledger's controller was made with: written once, bound into the chain by the first event ----------------

_NAME = "settings"


def begin(writer: Writer, start: Setup | Controller, *, actor: str) -> None:
    """Start a ledger, unless it was started with the same setup before; a controller's journal is taken over."""
    setup = start.setup if isinstance(start, Controller) else start
    stored, policy = _row(writer.connection), setup.config.policy
    if stored is not None:
        if not _same(_setup(stored, None if isinstance(policy, str) else policy), setup):
            raise ConflictError(
                "this ledger belongs to a controller with other settings: open it without settings to go on with those "
                "it has, or start another ledger"
            )
        return
    values, arrays = setup_to_parts(setup)
    text, data = json.dumps(values, allow_nan=False), packed_arrays(arrays)
    checksum = settings_digest(text, data)
    writer.connection.execute(meta.insert().values(name=_NAME, text=text, data=data, checksum=checksum))
    payload = {"settings": checksum, "kinband": __version__, "stations": list(setup.stations)}
    writer.append([Draft("started", payload, actor=actor)])
    if isinstance(start, Controller):
        writer.append([replace(draft_of(entry, start.journal), actor=actor) for entry in start.journal])


def read_setup(ledger: Ledger, *, policy: PolicyFactory | None = None) -> Setup:
    """Return what the ledger's controller was made with.

    Args:
        ledger: Where.
        policy: The factory of a policy of your own, which cannot be stored.
    """
    with ledger.reading() as connection:
        row = _row(connection)
        started = connection.execute(select(events.c.payload).where(events.c.kind == "started")).scalar()
    if row is None or started is None:
        raise NotFoundError(f"the ledger {ledger.name} has no controller yet: give settings= to start one")
    if not settings_digest(row.text, row.data) == row.checksum == json.loads(started)["settings"]:
        raise SavedStateError(f"the settings of the ledger {ledger.name} were changed: restore it from a backup")
    return _setup(row, policy)


def _row(connection: Connection) -> Any:
    return connection.execute(select(meta).where(meta.c.name == _NAME)).one_or_none()


def _setup(row: Any, policy: PolicyFactory | None) -> Setup:
    return setup_from_parts(json.loads(row.text), _unpacked(row.data, what="the settings"), policy=policy)


def _same(one: Setup, other: Setup) -> bool:
    """Whether two setups say the same; both are written anew, so that how they were written does not count."""
    both = (replace(setup, K_Z=in_blocks(setup.K_Z), logged=None) for setup in (one, other))  # which decides nothing
    (values, arrays), (others, further) = map(setup_to_parts, both)
    same = json.dumps(values, sort_keys=True) == json.dumps(others, sort_keys=True) and arrays.keys() == further.keys()
    return same and all(np.array_equal(array, further[name], equal_nan=True) for name, array in arrays.items())


# --- From a ledger back to a controller: the newest snapshot, then the events after it ------------------------------
#
# Events before the snapshot are not read: what was decided long ago is looked up when somebody asks for it, and checked
# then against the chain, of which `Ledger.verify` checks all. Without a snapshot every event is read and learned. The
# controller that comes out decides as the one that recorded the events.


T = TypeVar("T")
_TRIMMED = 10_000  # events after which what is old is left to the ledger, while many are read
_NOT_OURS = (AttributeError, KeyError, IndexError, TypeError, ValueError)  # what an odd payload leads to


class FollowingController(Controller):
    """A controller that also takes in what another process added to the same log."""

    def follow(self, entries: Iterable[Entry]) -> None:
        """Take in entries in order, and learn what there is to learn."""
        for entry in entries:
            self._memory.replay([entry])
            if isinstance(entry, Told):
                self._memory.drop(entry.id)

    def take_back(self, count: int) -> bool:
        """Forget what the journal holds beyond so many entries; False where beliefs rest on it (`Memory.take_back`)."""
        return self._memory.take_back(count)

    def correction(self, decision_id: str, reward: float | None, *, kpis: KpiValues | None) -> Corrected:
        """Return the entry that `correct` would take in; refuses what cannot be."""
        return correction(self.journal, self.setup, decision_id, reward=reward, kpis=kpis)

    def joining(self, name: str, *, descriptors: Any, similarity: Any, running: Any) -> Joined | Returned:
        """Return the entry that `add_station` would take in; refuses what cannot be."""
        said = {"descriptors": descriptors, "similarity": similarity, "running": running}
        return joining(self.setup, self.current, name, **said)

    def apply(self, entry: Entry) -> None:
        """Take in an entry, whatever that takes."""
        self._memory.apply(entry)

    def apply_in_place(self, entry: Entry) -> bool:
        """Take in an entry; False, and nothing is done, where everything has to be learned anew for it."""
        if isinstance(entry, Taught):
            return self._memory.apply_in_place(entry)
        self._memory.apply(entry)
        return True

    def relearning(self, entry: Taught) -> Relearning:
        """Return what learns everything anew with an entry in it, beside this controller."""
        return Relearning(self.setup, self.journal, entry)

    def apply_by(self, anew: Relearning, entry: Entry) -> bool:
        """Take in an entry with what was learned beside; False where that does not go on from here."""
        return isinstance(entry, Taught) and self._memory.apply_by(anew, entry)

    def stored(self) -> Stored | None:
        """Return what a snapshot keeps; None where the policy's beliefs cannot be stored."""
        return self._memory.stored()

    def trim(self) -> None:
        """Leave what is old to the ledger, where everything in memory is on record by now."""
        self._memory.trim()

    @classmethod
    def beginning(cls, setup: Setup, past: Past, stored: Stored | None = None) -> "FollowingController":
        """Return a controller that has read nothing yet, or goes on from what was stored."""
        controller = cls.__new__(cls)
        controller._memory = Memory(setup, past=past, stored=stored)
        return controller


@dataclass(frozen=True, eq=False)
class Restored:
    """A controller and how far it has read.

    Attributes:
        controller: With everything up to `seq`.
        seq: Number of the last event.
        checksum: Its checksum.
        snapshot: Number of the event that the snapshot was taken after, 0 where there was none.
        size: Bytes of the snapshot.
    """

    controller: FollowingController
    seq: int
    checksum: str
    snapshot: int
    size: int


class Onlooker(Protocol):
    """Somebody to whom every event is shown on the way."""

    def begin_at(self, snapshot: Snapshot | None) -> int:
        """Take up a snapshot, if that is of use, and return the number of the last event known."""

    def show(self, event: Event, entry: Entry | None) -> None:
        """Look at an event, with its entry where it holds one; one that is known is nothing new."""


def restored(
    ledger: Ledger,
    setup: Setup,
    *,
    before: int | None = None,
    snapshots: bool = True,
    onlooker: Onlooker | None = None,
) -> Restored:
    """Return the controller that the events of a ledger lead to.

    Args:
        ledger: The truth.
        setup: What the controller was made with (`read_setup`).
        before: Only the events before this number count.
        snapshots: Whether to start from one; if not, everything is learned anew.
        onlooker: To whom events are shown on the way.
    """
    snapshot = newest_snapshot(ledger, before=before) if snapshots else None
    past = LedgerPast(ledger, setup, before=before)
    controller, snapshot = _begun(setup, past, snapshot)
    if snapshot is not None:
        said = "events 1 to %d were checked when the snapshot was made: kinband ledger verify checks all of %s"
        _log.info(said, snapshot.seq, ledger.name)
    start = (0, FIRST) if snapshot is None else (snapshot.seq, snapshot.checksum)
    if onlooker is not None and (known := onlooker.begin_at(snapshot)) < start[0]:
        for event in ledger.read(after=known, before=start[0] + 1):
            onlooker.show(event, past.reader.maybe(event))
    seq, checksum = _followed(controller, ledger, start, before=before, onlooker=onlooker, reader=past.reader)
    taken = (0, 0) if snapshot is None else (snapshot.seq, snapshot.size)
    return Restored(controller, seq, checksum, *taken)


def _begun(setup: Setup, past: "LedgerPast", snapshot: Snapshot | None) -> tuple[FollowingController, Snapshot | None]:
    """Take up a snapshot; where it does not fit, as after a change of a policy of one's own, begin at the beginning."""
    if snapshot is not None:
        try:
            return FollowingController.beginning(setup, past, snapshot.memory), snapshot
        except _NOT_OURS as error:
            _log.warning("the snapshot after event %d does not fit, all is learned anew: %r", snapshot.seq, error)
    return FollowingController.beginning(setup, past), None


def _followed(
    controller: FollowingController,
    ledger: Ledger,
    start: tuple[int, str],
    *,
    before: int | None,
    onlooker: Onlooker | None,
    reader: "EntryReader",
) -> tuple[int, str]:
    """Have a controller take in the events after one, and return number and checksum of the last."""
    seq, checksum = start
    for event in ledger.read(after=seq, before=before):
        seq, checksum = check_chain([event], after=seq, checksum=checksum)
        entry = reader.maybe(event)
        if entry is not None:
            follow(controller, [entry], name=ledger.name)
        if onlooker is not None:
            onlooker.show(event, entry)
        if seq % _TRIMMED == 0:
            controller.trim()
    return seq, checksum


def follow(controller: FollowingController, entries: Iterable[Entry], *, name: str) -> None:
    """Let a controller take in entries, or say that they do not fit."""
    try:
        controller.follow(entries)
    except (LedgerUnavailableError, LedgerRefusedError):
        raise
    except (KinbandError, *_NOT_OURS) as error:
        raise SavedStateError(f"the events of the ledger {name} do not fit together: {error}") from error


class EntryReader:
    """Turns events into entries of the journal."""

    def __init__(self, setup: Setup) -> None:
        self._configurations = dict(enumerate(setup.encoder.space))

    def entry(self, event: Event) -> Entry:
        """Return the entry of an event of one of the kinds `ENTRIES`."""
        try:
            return entry_from_dict(event.payload["entry"], self._configurations)
        except _NOT_OURS as error:
            raise SavedStateError(f"event {event.seq} of the ledger cannot be read: {error!r}") from error

    def maybe(self, event: Event) -> Entry | None:
        """Return the entry of an event, None where it holds none."""
        return self.entry(event) if event.kind in ENTRIES else None


class LedgerPast:
    """The past of a journal, looked up in the ledger that it is on record in."""

    def __init__(self, ledger: Ledger, setup: Setup, *, before: int | None = None) -> None:
        self.reader = EntryReader(setup)
        self._ledger, self._before = ledger, before

    def asked(self, decision_id: str) -> Asked:
        """Return a decision."""
        found = self._of(decision_id, "decision", Asked)
        if not found:
            raise SavedStateError(f"decision {decision_id} is not in the ledger {self._ledger.name}")
        return found[0]

    def told(self, decision_id: str) -> Told:
        """Return its reward, as it was first told."""
        found = self._of(decision_id, "outcome", Told)
        if not found:
            raise SavedStateError(f"the reward of {decision_id} is not in the ledger {self._ledger.name}")
        return found[0]

    def ran(self, decision_id: str) -> Ran | None:
        """Return what was last said to have run in its place, if anything was."""
        said = self._of(decision_id, "ran", Ran)
        return said[-1] if said else None

    def entries(self, count: int) -> Iterator[Entry]:
        """Give the first entries, so many, in order."""
        return islice(map(self.reader.entry, self._ledger.read(kinds=ENTRIES)), count)

    def _of(self, decision_id: str, kind: str, wanted: type[T]) -> list[T]:
        events = self._ledger.history(decision_id, before=self._before)
        entries = (self.reader.entry(event) for event in events if event.kind == kind)
        return [entry for entry in entries if isinstance(entry, wanted)]
