"""From a ledger back to a controller: the newest snapshot, then the events after it.

The journal is read in full, since rewards may come for any decision, and every link of the chain is checked on the way.
Beliefs are taken from the snapshot, and only what was told after it is learned. The controller that comes out decides
as the one that recorded the events, bit for bit.
"""

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from kinband.controller import Controller, Settings
from kinband.controller.events import Entry, Told, entry_from_dict
from kinband.errors import KinbandError, SavedStateError
from kinband.service.ledger.errors import LedgerRefusedError, LedgerUnavailableError
from kinband.service.ledger.events import ENTRIES, FIRST, Event, check_chain
from kinband.service.ledger.snapshots import Snapshot, newest_snapshot
from kinband.service.ledger.store import Ledger

_log = logging.getLogger(__name__)

_NOT_OURS = (AttributeError, KeyError, IndexError, TypeError, ValueError)  # what an odd payload leads to


class FollowingController(Controller):
    """A controller that also takes in what another process added to the same log.

    Example:
        >>> from kinband import ConfigurationSpace
        >>> leader = Controller(ConfigurationSpace(tilt=[2, 4]), ["a"])
        >>> follower = FollowingController.from_settings(leader.settings)
        >>> leader.tell(leader.ask("a").id, 0.8)
        >>> follower.follow(leader.journal)
        >>> follower.ask("a").arm == leader.ask("a").arm
        True
    """

    def follow(self, entries: Iterable[Entry]) -> None:
        """Take in entries in order, and learn what there is to learn."""
        for entry in entries:
            self._memory.follow([entry])
            if isinstance(entry, Told):
                self._memory.drop(entry.id)

    @classmethod
    def resumed(
        cls, settings: Settings, entries: Iterable[Entry], beliefs: Mapping[str, Any] | None = None
    ) -> "FollowingController":
        """Return a controller that goes on where entries end; see `Controller.resume`."""
        found = cls.resume(settings, entries, beliefs=beliefs)
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
    settings: Settings,
    *,
    before: int | None = None,
    snapshots: bool = True,
    shown: Shown | None = None,
) -> Restored:
    """Return the controller that the events of a ledger lead to.

    Args:
        ledger: The truth.
        settings: What the controller was made with (`origin.read_settings`).
        before: Only the events before this number count.
        snapshots: Whether to start from one; if not, everything is learned anew.
        shown: To whom events are shown on the way.
    """
    snapshot = newest_snapshot(ledger, before=before) if snapshots else None
    reader, events = EntryReader(settings), ledger.read(before=before)
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
    controller, taken = _resumed(settings, known, snapshot)
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
    """Turns events into entries of the journal.

    Example:
        >>> from kinband import ConfigurationSpace
        >>> reader = EntryReader(Controller(ConfigurationSpace(tilt=[2, 4]), ["a"]).settings)
        >>> text = '{"entry":{"entry":"left","station":"a"}}'
        >>> reader.entry(Event(2, "station", "", "", "a", None, None, None, None, text, ""))
        Left(station='a')
    """

    def __init__(self, settings: Settings) -> None:
        self._configurations = dict(enumerate(settings.encoder.space))

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
    settings: Settings, known: list[Entry], snapshot: Snapshot | None
) -> tuple[FollowingController, Snapshot | None]:
    """Take up beliefs; where they do not fit, as after a change of a policy of one's own, learn all anew."""
    if snapshot is not None:
        try:
            return FollowingController.resumed(settings, known, snapshot.beliefs), snapshot
        except _NOT_OURS as error:
            _log.warning("the snapshot after event %d does not fit, all is learned anew: %r", snapshot.seq, error)
    return FollowingController.resumed(settings, known), None
