"""What a ledger holds: events, each chained to the one before it, and the questions that decisions were asked with.

An event is one line of history: what happened, when, to which station, by whom. Its payload is JSON text, kept as it
was written, so that numbers read back the same and the checksum can be computed by anybody: SHA-256 over the previous
checksum and the event's own columns, each on a line. Change, remove or insert an event and every later checksum is
wrong (the idea of Haber and Stornetta, 1991).

Entries of the controller's journal are events of six kinds. The others are what a service does around the controller:
they are kept in the same order and never change what is believed.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any

import numpy as np

from kinband.controller import Controller
from kinband.controller.asking import State
from kinband.controller.events import (
    Asked,
    CalledOff,
    ChangePoint,
    Corrected,
    Entry,
    Estimated,
    Joined,
    Journal,
    Left,
    Ran,
    Returned,
    Told,
    entry_to_dict,
)
from kinband.controller.settings import arm_of
from kinband.drift import CLOCK
from kinband.errors import BadInputError, NotFoundError, SavedStateError
from kinband.records import Decision
from kinband.space import Allowed, ConfigurationSpace

FIRST = "0" * 64
"""What the first event is chained to."""

ENTRIES = ("decision", "ran", "outcome", "correction", "station", "similarity")
"""Kinds whose payload holds an entry of the journal."""

NOTES = ("observation", "verdict", "approval", "applied", "mode", "switch", "rails", "access")
"""Kinds that a service adds around the controller."""

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


# --- What a decision was asked with, in a form that can be stored and asked again -----------------------------------
#
# The journal keeps the state and the context that was chosen. To decide again, what else the caller said is needed too:
# which configurations were allowed, what the station runs, the time. It is put into plain values *before* the
# controller is asked, so that life and replay go the same way.


@dataclass(frozen=True, eq=False)
class Request:
    """A question about one station, in plain values.

    Attributes:
        state: Its state.
        allowed: One boolean an arm, None where all may be chosen.
        running: Arm of what it runs, None where the caller did not say.
        time: When, as a number or as text; None where the caller did not say.
    """

    state: dict[str, float]
    allowed: list[bool] | None = None
    running: int | None = None
    time: float | str | None = None

    @classmethod
    def of(
        cls,
        station: str,
        state: State,
        *,
        space: ConfigurationSpace,
        allowed: Allowed = None,
        running: Mapping[str, Any] | None = None,
        time: Any = None,
    ) -> "Request":
        """Return a question in plain values; what the controller would refuse anyway it still refuses."""
        return cls(
            state=_state(state),
            allowed=_allowed(allowed, space, station=station),
            running=None if running is None else arm_of(running, space, station=station),
            time=_time(time),
        )

    @classmethod
    def read(cls, event: Event, *, timed: bool) -> "Request":
        """Return the question of a recorded decision; `timed`, its state has the clock in it."""
        payload = event.payload
        if "asked" not in payload or "contexts" in payload["asked"]:
            raise NotFoundError(
                f"decision {event.decision} was taken over from elsewhere: what it was asked with is not on record"
            )
        asked, state = payload["asked"], payload["entry"]["state"] or {}
        state = {name: value for name, value in state.items() if not (timed and name == CLOCK)}
        chosen = set(asked.get("allowed", ()))
        allowed = [arm in chosen for arm in range(asked["arms"])] if "allowed" in asked else None
        return cls(state, allowed, asked.get("running"), asked.get("time"))

    def stored(self) -> dict[str, Any]:
        """Return what the journal does not keep of it, as JSON-able values."""
        found: dict[str, Any] = {}
        if self.allowed is not None:
            found = {"allowed": [arm for arm, may in enumerate(self.allowed) if may], "arms": len(self.allowed)}
        rest = {"running": self.running, "time": self.time}
        return found | {name: value for name, value in rest.items() if value is not None}


def requests_of(
    space: ConfigurationSpace,
    states: Mapping[str, State],
    *,
    allowed: Mapping[str, Allowed] | None,
    running: Mapping[str, Mapping[str, Any]] | None,
    time: Any,
) -> dict[str, Request]:
    """Return the questions of a round, by station."""
    for name, given in (("states", states), ("allowed", allowed), ("running", running)):
        if given is not None and not isinstance(given, Mapping):
            raise BadInputError(f"{name} must be given by station, as a mapping, got {type(given).__name__}")
    if not states:
        raise BadInputError("no station was asked for", argument="states")
    allowed, running = allowed or {}, running or {}
    for name, named in (("allowed", set(allowed)), ("running", set(running))):
        if unknown := named - set(states):
            raise BadInputError(f"{name} names stations that are not asked for: {', '.join(sorted(unknown))}")
    return {
        station: Request.of(
            station, state, space=space, allowed=allowed.get(station), running=running.get(station), time=time
        )
        for station, state in states.items()
    }


def ask(controller: Controller, asked: Mapping[str, Request], *, together: bool) -> dict[str, Decision]:
    """Decide for stations as asked: together in one round, or for the only one by itself."""
    space = controller.space
    runs = {station: space[one.running] for station, one in asked.items() if one.running is not None}
    if not together:
        [(station, one)] = asked.items()
        made = controller.ask(station, one.state, allowed=one.allowed, running=runs.get(station), time=one.time)
        return {station: made}
    return controller.ask_all(
        {station: one.state for station, one in asked.items()},
        allowed={station: one.allowed for station, one in asked.items()},
        running=runs,
        time=next(iter(asked.values())).time,
    )


def call_digest(call: str, **arguments: Any) -> str:
    """Return a digest of a call, to see whether a key is used again for the same one."""
    text = json.dumps([call, arguments], sort_keys=True, default=_plain)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _plain(value: Any) -> Any:
    if isinstance(value, Request):
        return [value.state, None, value.allowed, value.running, value.time]  # None: ledgers hold digests with it
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, Mapping):
        return dict(value)
    return str(value)


def _state(state: State) -> dict[str, float]:
    """Return a state as plain floats; what is no number stays, for the controller to refuse."""
    given: object = state
    if not isinstance(given, Mapping):
        raise BadInputError(f"state must map feature names to numbers, got {type(given).__name__}")
    return {name: float(v) if isinstance(v, np.number | int) and not isinstance(v, bool) else v
            for name, v in state.items()}  # fmt: skip


def _allowed(allowed: Allowed, space: ConfigurationSpace, *, station: str) -> list[bool] | None:
    """Return one boolean an arm; a value that a knob does not have is a fault of the question, not a thing to find."""
    if allowed is None:
        return None
    try:
        return [bool(may) for may in space.mask(allowed)]
    except NotFoundError as error:
        raise BadInputError(
            f"allowed names what {station!r:.80} cannot run: {error.problem}",
            hint=error.hint,
            code="no_such_value",
            argument="allowed",
        ) from error


def _time(time: Any) -> float | str | None:
    if time is None or isinstance(time, str):
        return time
    if isinstance(time, int | float | np.integer | np.floating) and not isinstance(time, bool):
        return float(time)
    return str(time)
