"""Turns: how a controller in memory and a ledger are kept as one.

A turn takes the ledger's write lock, takes in what other processes have recorded since the last one, lets the
controller decide or learn, appends what that added to its journal, and commits. If anything fails on the way, memory
that has gone ahead of the ledger is thrown away and read again from it, the next time it is needed. The lock is held
while deciding: that is what makes it impossible to decide the same twice.
"""

import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from kinband.controller import Controller, Settings
from kinband.controller.journal import Asked
from kinband.errors import ConflictError, KinbandError
from kinband.policies.contract import KeepsState
from kinband.service.ledger.errors import LedgerUnavailableError
from kinband.service.ledger.events import Draft, Event, check_chain, draft_of
from kinband.service.ledger.requests import Request
from kinband.service.ledger.restoring import EntryReader, FollowingController, follow, restored
from kinband.service.ledger.snapshots import due, write_snapshot
from kinband.service.ledger.store import Ledger, Writer

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Call:
    """What identifies a call.

    Attributes:
        digest: Of everything that was said (`requests.call_digest`).
        key: The caller's key, under which it is done once; None where it has none.
        actor: Who calls.
        slot: The slot to decide for, if the caller names it.

    Example:
        >>> Call("0f", key="k1").slot is None
        True
    """

    digest: str
    key: str | None = None
    actor: str = ""
    slot: str | None = None


class Turn:
    """One turn: a controller that has taken in everything, and the lock of its ledger.

    Attributes:
        controller: To decide or learn with.
        writer: To record with.
    """

    def __init__(self, controller: FollowingController, writer: Writer, call: Call) -> None:
        self.controller = controller
        self.writer = writer
        self._call = call
        self._mark = len(controller.journal)

    def answered(self, kind: str) -> Event | None:
        """Return what an earlier call with the same key recorded; refuse a key that was used for another call."""
        key = self._call.key
        found = None if key is None else self.writer.keyed(kind, key)
        if found is not None and found.payload.get("call") != self._call.digest:
            raise ConflictError(
                f"the key {key!r:.80} was used before for another call (event {found.seq}): give every call its own key"
            )
        return found

    def decided(self, station: str) -> Event | None:
        """Return the decision of a station for the slot of the call."""
        return None if self._call.slot is None else self.writer.slotted(station, self._call.slot)

    def append(self, asked: Mapping[str, Request] | None = None) -> None:
        """Append what the controller has added to its journal; the key goes with the first event."""
        journal, call, drafts = self.controller.journal, self._call, list[Draft]()
        for entry in journal.since(self._mark):
            further: dict[str, Any] = {} if drafts else self.marked({})
            if isinstance(entry, Asked) and asked is not None:
                further["asked"] = asked[entry.decision.station].stored()
            draft = draft_of(entry, journal, **further)
            slot = call.slot if draft.kind == "decision" else None
            drafts.append(replace(draft, key=None if drafts else call.key, slot=slot, actor=call.actor))
        if drafts:
            self.writer.append(drafts)

    def marked(self, payload: Mapping[str, Any]) -> dict[str, Any]:
        """Return a payload that says by which call it came, where that has a key."""
        return dict(payload) if self._call.key is None else {**payload, "call": self._call.digest}


class Turns:
    """Gives turns, one at a time, to the threads of this process and, by the ledger's lock, to all processes.

    Args:
        ledger: The truth.
        settings: What its controller was made with.
        snapshot_every: After how many events beliefs are stored.
    """

    def __init__(self, ledger: Ledger, settings: Settings, *, snapshot_every: int) -> None:
        self.ledger = ledger
        self.settings = settings
        self.mutex = threading.RLock()
        self._every = snapshot_every
        self._reader = EntryReader(settings)
        self._controller: FollowingController | None = None  # None where memory and ledger may differ
        self._seen = (0, "")  # number and checksum of the last event taken in
        self._mark = 0  # entries of the journal that are on record
        self._snapshot = (0, 0)  # number and size of the last one

    def present(self) -> FollowingController:
        """Return the controller, read anew from the ledger where memory may differ from it."""
        if self._controller is None:
            found = restored(self.ledger, self.settings)
            self._seen, self._snapshot = (found.seq, found.checksum), (found.snapshot, found.size)
            self._mark, self._controller = len(found.controller.journal), found.controller
        return self._controller

    def refresh(self) -> None:
        """Take in what others have recorded since."""
        with self.mutex:
            self.present()
            self._take_in(list(self.ledger.read(after=self._seen[0])))

    @contextmanager
    def turn(self, call: Call) -> Iterator[Turn]:
        """Give one turn; what it appends is recorded when the block ends without an error."""
        with self.mutex:
            self.present()
            try:
                with self.ledger.writing() as writer:
                    controller = self._caught_up(writer)
                    yield Turn(controller, writer, call)
            except BaseException:
                if self._controller is not None and len(self._controller.journal) != self._mark:
                    self._controller = None
                raise
            self._seen, self._mark = (writer.last, writer.checksum), len(controller.journal)
            self._snapshot_if_due()

    def do(self, kind: str, call: Call, act: Callable[[Controller], object]) -> None:
        """Let the controller act in a turn, unless a call with the same key has recorded an event of this kind."""
        with self.turn(call) as turn:
            if turn.answered(kind) is None:
                act(turn.controller)
                turn.append()

    def snapshot(self) -> bool:
        """Store the present beliefs; False where the policy's cannot be stored."""
        with self.mutex:
            policy, seq = self.present().policy, self._seen[0]
            if not isinstance(policy, KeepsState):
                return False
            self._snapshot = seq, write_snapshot(self.ledger, seq, policy.state(), every=self._every)
            return True

    def _caught_up(self, writer: Writer) -> FollowingController:
        """Take in what others have recorded since the last turn."""
        seq, checksum = self._seen
        if writer.last < seq or (writer.last == seq and writer.checksum != checksum):
            self._controller = None
            raise LedgerUnavailableError(
                f"the ledger {self.ledger.name} went back to event {writer.last} from {seq}, perhaps restored from a "
                "backup: nothing was recorded, try again and it is read anew"
            )
        if writer.last > seq:
            self._take_in(writer.read(after=seq))
        return self.present()

    def _take_in(self, events: list[Event]) -> None:
        """Follow events that others have recorded; half of them taken in is as good as none."""
        controller, (seq, checksum) = self.present(), self._seen
        try:
            seen = check_chain(events, after=seq, checksum=checksum)
            follow(controller, self._reader.entries(events), name=self.ledger.name)
        except BaseException:
            self._controller = None
            raise
        self._seen, self._mark = seen, len(controller.journal)

    def _snapshot_if_due(self) -> None:
        (seq, size), last = self._snapshot, self._seen[0]
        if not due(last - seq, every=self._every, size=size):
            return
        self._snapshot = last, size  # one that cannot be stored is tried again as late as if it had been
        try:
            self.snapshot()
        except KinbandError as error:  # a restart takes longer, that is all
            _log.warning("no snapshot could be stored after event %d: %s", last, error)
