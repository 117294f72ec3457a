"""What a ledger holds: events, each chained to the one before it.

An event is one line of history: what happened, when, to which station, by whom. Its payload is JSON text, kept as it
was written, so that numbers read back the same and the checksum can be computed by anybody: SHA-256 over the previous
checksum and the event's own columns, each on a line. Change, remove or insert an event and every later checksum is
wrong (the idea of Haber and Stornetta, 1991).

Entries of the controller's journal are events of six kinds. The others are what a service does around the controller:
they are kept in the same order and never change what is believed.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any

from kinband.controller.events import (
    Asked,
    CalledOff,
    ChangePoint,
    Corrected,
    Entry,
    Estimated,
    Joined,
    Left,
    Ran,
    Returned,
    Told,
    entry_to_dict,
)
from kinband.controller.journal import Journal
from kinband.errors import BadInputError, SavedStateError

FIRST = "0" * 64
"""What the first event is chained to."""

ENTRIES = ("decision", "ran", "outcome", "correction", "station", "similarity")
"""Kinds whose payload holds an entry of the journal."""

NOTES = (
    "observation", "verdict", "approval", "order", "applied", "manner", "mode", "switch", "proposal", "rails", "names",
    "access", "feed", "counters",
)  # fmt: skip
"""Kinds that a service adds around the controller; "observation" is for programs of your own, kinband writes none."""

KINDS = ("started", *ENTRIES, *NOTES)
"""Every kind of event."""

_LONGEST = 500  # characters of a name or key


@dataclass(frozen=True)
class Draft:
    """An event that is not recorded yet.

    Attributes:
        kind: One of `KINDS`.
        payload: What happened, JSON-able.
        station: Whom it concerns; empty where that is nobody in particular.
        decision: The decision it belongs to.
        round: The round of a decision made together with others.
        slot: The caller's name of the slot decided for; one decision a station and slot.
        key: The caller's key of the call; one event a kind and key.
        actor: Who did it.

    Example:
        >>> Draft("verdict", {"allowed": True}, station="3714", decision="d000001").kind
        'verdict'
        >>> Draft("rumour", {})
        Traceback (most recent call last):
            ...
        kinband.errors.BadInputError: an event is one of started, decision, ..., got 'rumour'
    """

    kind: str
    payload: Mapping[str, Any]
    station: str = ""
    decision: str | None = None
    round: int | None = None
    slot: str | None = None
    key: str | None = None
    actor: str = ""

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise BadInputError(f"an event is one of {', '.join(KINDS)}, got {self.kind!r}")
        for name in ("station", "decision", "slot", "key", "actor"):
            check_name(getattr(self, name), name, empty=name in ("station", "actor"))

    @cached_property
    def text(self) -> str:
        """The payload as JSON text."""
        try:
            return json.dumps(self.payload, allow_nan=False, separators=(",", ":"))
        except (TypeError, ValueError) as error:
            raise BadInputError(f"the payload of an event must survive JSON: {error}") from error


@dataclass(frozen=True, slots=True)
class Event:
    """A recorded event.

    Attributes:
        seq: Its number: 1, 2, 3, without gaps.
        kind: What happened.
        at: When, UTC, as ISO text.
        actor: Who did it.
        station: Whom it concerns.
        decision: The decision it belongs to.
        round: Its round.
        slot: Its slot.
        key: The key of the call.
        text: The payload as JSON text.
        checksum: Over all of this and the checksum before.

    Example:
        >>> Event(1, "applied", "2026-11-20T10:00:00Z", "", "a", "d1", None, None, None, '{"ok": true}', "").payload
        {'ok': True}
    """

    seq: int
    kind: str
    at: str
    actor: str
    station: str
    decision: str | None
    round: int | None
    slot: str | None
    key: str | None
    text: str
    checksum: str = field(repr=False)

    @property
    def payload(self) -> dict[str, Any]:
        """What happened, parsed."""
        try:
            return dict(json.loads(self.text))
        except ValueError as error:
            raise SavedStateError(f"event {self.seq} of the ledger is damaged: restore it from a backup") from error

    @property
    def columns(self) -> tuple[Any, ...]:
        """What the table of events holds of it, in its order."""
        return tuple(getattr(self, name) for name in _COLUMNS)

    def expected(self, before: str) -> str:
        """Return the checksum that the event must have after one with the checksum `before`."""
        lines = "\n".join([before, *("" if value is None else str(value) for value in self.columns[:-1])])
        return hashlib.sha256(lines.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Head:
    """The last event of a ledger: noted elsewhere, it tells later whether anything up to there was changed or lost.

    Attributes:
        seq: Its number; 0 where there is none.
        checksum: Its checksum, which covers all before it; the first digits of it where it was read from a text.

    Example:
        >>> Head.read("4711:3f0aa17b2c4d").seq
        4711
        >>> str(Head(0, FIRST))[:6]
        '0:0000'
    """

    seq: int
    checksum: str

    @classmethod
    def read(cls, text: str) -> "Head":
        """Return the head that a text names: a number, and at least 12 digits of the checksum."""
        match = _HEAD.fullmatch(text.strip().lower())
        if match is None:
            raise BadInputError(
                f"a head is a number and a checksum of 12 to 64 digits, such as 4711:3f0aa17b2c4d, got {text!r:.90}"
            )
        return cls(int(match[1]), match[2])

    def __str__(self) -> str:
        """Number and checksum, as `read` takes them."""
        return f"{self.seq}:{self.checksum}"

    @property
    def number(self) -> int:
        """The first 12 digits of the checksum as a number, for figures that are numbers."""
        return int(self.checksum[:12], 16)


_HEAD = re.compile(r"(\d{1,18}):([0-9a-f]{12,64})", re.ASCII)
_COLUMNS = tuple(column.name for column in fields(Event))


def check_chain(events: Iterable[Event], *, after: int = 0, checksum: str = FIRST) -> tuple[int, str]:
    """Return number and checksum of the last event, or say where the chain is broken.

    Args:
        events: In order, the first being the one after `after`.
        after: The number before them.
        checksum: The checksum of that one.
    """
    for event in events:
        if event.seq != after + 1:
            raise SavedStateError(
                f"the ledger has a gap: event {event.seq} follows event {after}: restore it from a backup"
            )
        if event.checksum != event.expected(checksum):
            raise SavedStateError(
                f"event {event.seq} of the ledger or one before it was changed (its checksum differs): restore it from "
                "a backup"
            )
        after, checksum = event.seq, event.checksum
    return after, checksum


def draft_of(entry: Entry, journal: Journal, **further: Any) -> Draft:
    """Return the event of an entry; `further` goes into the payload beside it."""
    payload = {"entry": entry_to_dict(entry), **further}
    match entry:
        case Asked(decision=made):
            return Draft("decision", payload, made.station, made.id, made.round)
        case Ran():
            return Draft("ran", payload, journal.asked[entry.id].decision.station, entry.id)
        case Told() | CalledOff():
            return Draft("outcome", payload, journal.asked[entry.id].decision.station, entry.id)
        case Corrected():
            return Draft("correction", payload, journal.asked[entry.id].decision.station, entry.id)
        case ChangePoint():
            return Draft("station", payload, entry.station, entry.id)
        case Joined() | Left() | Returned():
            return Draft("station", payload, entry.station)
        case Estimated():
            return Draft("similarity", payload)


def check_name(value: object, name: str, *, empty: bool) -> None:
    """Refuse a name that a column, or a line of a checksum, cannot hold."""
    if value is None and not empty:
        return
    if not isinstance(value, str):
        raise BadInputError(f"{name} must be text, got {value!r:.60}")
    if not value and not empty:
        raise BadInputError(f"{name} must not be empty: leave it out instead")
    if len(value) > _LONGEST or not value.isprintable():
        raise BadInputError(f"{name} must be printable text of up to {_LONGEST} characters, got {value!r:.60}")
