"""A controller from its ledger: what it was made with, the last snapshot, and the events after it."""

import hashlib
import io
import json
import logging
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sqlalchemy import Connection, delete, select

from kinband.controller import Controller, Setup
from kinband.controller.events import Corrected, Entry, Told, entry_from_dict
from kinband.controller.memory import Relearning
from kinband.controller.setup import setup_from_parts, setup_to_parts
from kinband.controller.telling import KpiValues, correction
from kinband.errors import ConflictError, KinbandError, NotFoundError, SavedStateError
from kinband.policies import PolicyFactory
from kinband.service.ledger.engines import LedgerRefusedError, LedgerUnavailableError
from kinband.service.ledger.events import ENTRIES, FIRST, Draft, Event, check_chain, draft_of
from kinband.service.ledger.integrity import settings_digest, snapshot_data
from kinband.service.ledger.schema import events, meta, parts, snapshots
from kinband.service.ledger.store import Ledger, Writer
from kinband.version import __version__

_log = logging.getLogger(__name__)

# --- Arrays as bytes and back, without pickle: what setup and beliefs are stored as ------------------------------


def _packed(arrays: Mapping[str, Any]) -> bytes:
    """Return arrays by name as the bytes of an npz file."""
    with io.BytesIO() as file:
        np.savez(file, **arrays)
        return file.getvalue()


def _unpacked(data: bytes, *, what: str) -> dict[str, Any]:
    """Return the arrays that `_packed` wrote."""
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
    text, data = json.dumps(values, allow_nan=False), _packed(arrays)
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
    (values, arrays), (others, further) = setup_to_parts(one), setup_to_parts(other)
    same = json.dumps(values, sort_keys=True) == json.dumps(others, sort_keys=True) and arrays.keys() == further.keys()
    return same and all(np.array_equal(array, further[name], equal_nan=True) for name, array in arrays.items())


# --- Beliefs as they were after some event: a cache, so that a restart need not learn everything anew ---------------
#
# A snapshot is bound to the chain by the checksum of the event it was taken after; one that is damaged, or was written
# by another version of kinband, is passed over. They are stored in parts, since an exact posterior of n rows takes 4n²
# bytes. Old ones are thinned out: of those whose age lies between one power of two and the next the oldest stays, so
# that any decision of the past is near one and their number grows like a logarithm.

_PART = 8_000_000  # bytes


@dataclass(frozen=True, eq=False)
class Snapshot:
    """Beliefs after an event.

    Attributes:
        seq: The event's number.
        beliefs: What the policy's `state` returned.
        size: How many bytes they took.
    """

    seq: int
    beliefs: dict[str, Any]
    size: int


def write_snapshot(ledger: Ledger, seq: int, beliefs: dict[str, Any], *, every: int) -> int:
    """Store beliefs after an event, thin out older ones, and return how many bytes they take."""
    data = _packed(beliefs)
    with ledger.connected(writes=True) as connection:
        if connection.execute(select(snapshots.c.seq).where(snapshots.c.seq == seq)).first() is None:
            _insert(connection, ledger, seq, data)
            _thin(connection, every=every)
    return len(data)


def newest_snapshot(ledger: Ledger, *, before: int | None = None) -> Snapshot | None:
    """Return the newest sound snapshot, or the newest taken before the event of a number."""
    with ledger.reading() as connection:
        wanted = select(snapshots).order_by(snapshots.c.seq.desc())
        rows = connection.execute(wanted if before is None else wanted.where(snapshots.c.seq < before)).all()
        return next(_sound(connection, rows), None)


def _sound(connection: Connection, rows: Any) -> Iterator[Snapshot]:
    for row in rows:
        if row.kinband != __version__:
            _log.info("the snapshot after event %d is of kinband %s: passed over", row.seq, row.kinband)
            continue
        data = snapshot_data(connection, row)
        if data is None:
            _log.warning("the snapshot after event %d is damaged: passed over", row.seq)
            continue
        try:
            beliefs = _unpacked(data, what="a snapshot")
        except SavedStateError as error:
            _log.warning("the snapshot after event %d is passed over: %s", row.seq, error)
            continue
        yield Snapshot(int(row.seq), beliefs, len(data))


def _insert(connection: Connection, ledger: Ledger, seq: int, data: bytes) -> None:
    chained = connection.execute(select(events.c.checksum).where(events.c.seq == seq)).scalar_one()
    connection.execute(
        snapshots.insert().values(
            seq=seq,
            at=ledger.now(),
            kinband=__version__,
            size=len(data),
            chained=chained,
            checksum=hashlib.sha256(data).hexdigest(),
        )
    )
    for part, first in enumerate(range(0, len(data), _PART)):
        connection.execute(parts.insert().values(seq=seq, part=part, data=data[first : first + _PART]))


def _thin(connection: Connection, *, every: int) -> None:
    stored = [int(seq) for seq in connection.execute(select(snapshots.c.seq).order_by(snapshots.c.seq)).scalars()]
    for seq in superfluous(stored, every=every):
        connection.execute(delete(parts).where(parts.c.seq == seq))
        connection.execute(delete(snapshots).where(snapshots.c.seq == seq))


def superfluous(stored: list[int], *, every: int) -> list[int]:
    """Return which of the snapshots, oldest first, can go; the newest two always stay."""
    kept, gone = set[int](), []
    for seq in stored[:-2]:
        age = ((stored[-1] - seq) // every).bit_length()
        if age in kept:
            gone.append(seq)
        kept.add(age)
    return gone


# --- From a ledger back to a controller: the newest snapshot, then the events after it ------------------------------
#
# The journal is read in full, since rewards may come for any decision, and every link of the chain is checked on the
# way. Beliefs are taken from the snapshot, and only what was told after it is learned. The controller that comes out
# decides as the one that recorded the events.


_NOT_OURS = (AttributeError, KeyError, IndexError, TypeError, ValueError)  # what an odd payload leads to


class FollowingController(Controller):
    """A controller that also takes in what another process added to the same log."""

    def follow(self, entries: Iterable[Entry]) -> None:
        """Take in entries in order, and learn what there is to learn."""
        for entry in entries:
            self._memory.follow([entry])
            if isinstance(entry, Told):
                self._memory.drop(entry.id)

    def take_back(self, count: int) -> bool:
        """Forget what the journal holds beyond so many entries; False where beliefs rest on it (`Memory.take_back`)."""
        return self._memory.take_back(count)

    def correct_in_place(self, decision_id: str, reward: float | None, *, kpis: KpiValues | None) -> bool:
        """Do what `correct` does; False, and nothing is done, where everything has to be learned anew for it."""
        return self._memory.correct_in_place(self._correction(decision_id, reward, kpis))

    def relearning(self, decision_id: str, reward: float | None, *, kpis: KpiValues | None) -> Relearning:
        """Return what learns everything anew with a correction in it, beside this controller."""
        return Relearning(self.setup, self.journal, self._correction(decision_id, reward, kpis))

    def correct_by(self, anew: Relearning, decision_id: str, reward: float | None, *, kpis: KpiValues | None) -> bool:
        """Do what `correct` does with what was learned beside; False where that does not go on from here."""
        return self._memory.correct_by(anew, self._correction(decision_id, reward, kpis))

    def _correction(self, decision_id: str, reward: float | None, kpis: KpiValues | None) -> Corrected:
        return correction(self.journal, self.setup, decision_id, reward=reward, kpis=kpis)

    @classmethod
    def resumed(
        cls, setup: Setup, entries: Iterable[Entry], beliefs: Mapping[str, Any] | None = None
    ) -> "FollowingController":
        """Return a controller that goes on where entries end; see `Controller.resume`."""
        found = cls.resume(setup, entries, beliefs=beliefs)
        if not isinstance(found, FollowingController):
            raise AssertionError("a controller is resumed as what it is")
        return found


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


Shown = Callable[[Event, Entry | None], None]
"""Somebody to whom every event is shown, with its entry where it holds one."""


def restored(
    ledger: Ledger,
    setup: Setup,
    *,
    before: int | None = None,
    snapshots: bool = True,
    shown: Shown | None = None,
) -> Restored:
    """Return the controller that the events of a ledger lead to.

    Args:
        ledger: The truth.
        setup: What the controller was made with (`read_setup`).
        before: Only the events before this number count.
        snapshots: Whether to start from one; if not, everything is learned anew.
        shown: To whom events are shown on the way.
    """
    snapshot = newest_snapshot(ledger, before=before) if snapshots else None
    reader, events = EntryReader(setup), ledger.read(before=before)
    seq, checksum, known, rest = 0, FIRST, list[Entry](), list[Entry]()
    for event in events:
        seq, checksum = check_chain([event], after=seq, checksum=checksum)
        entry = reader.maybe(event)
        if entry is not None:
            (known if snapshot is not None and seq <= snapshot.seq else rest).append(entry)
        if shown is not None:
            shown(event, entry)
    if snapshot is not None and seq < snapshot.seq:
        raise SavedStateError(f"the ledger {ledger.name} lost the events after {seq}: restore it from a backup")
    controller, taken = _resumed(setup, known, snapshot)
    follow(controller, rest, name=ledger.name)
    return Restored(controller, seq, checksum, 0 if taken is None else taken.seq, 0 if taken is None else taken.size)


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


def _resumed(
    setup: Setup, known: list[Entry], snapshot: Snapshot | None
) -> tuple[FollowingController, Snapshot | None]:
    """Take up beliefs; where they do not fit, as after a change of a policy of one's own, learn all anew."""
    if snapshot is not None:
        try:
            return FollowingController.resumed(setup, known, snapshot.beliefs), snapshot
        except _NOT_OURS as error:
            _log.warning("the snapshot after event %d does not fit, all is learned anew: %r", snapshot.seq, error)
    return FollowingController.resumed(setup, known), None
