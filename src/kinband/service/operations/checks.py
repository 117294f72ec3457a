"""What is refused before anything is decided or recorded, and what is said of states that look wrong."""

import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import isfinite

from kinband.contexts import StateScaler
from kinband.controller import Controller, Setup
from kinband.errors import BadInputError, ConflictError
from kinband.service.access.tokens import LOCAL
from kinband.service.ledger import Event
from kinband.service.ledger.asked import Request
from kinband.service.operations.read_model import ReadModel
from kinband.service.operations.records import Called, DecisionRecord, StationState
from kinband.space import ConfigurationSpace, in_words
from kinband.stats import listed

# --- What stations may be called and what people may say about what they do -----------------------------------------
#
# A name that looks like another one is a trap for whoever reads a plan: blanks at its ends are not seen, and an
# accented letter can be written as one character or as a letter and an accent (Unicode's normal forms NFC and NFD, UAX
# #15), which look the same and are not. Such names are refused when a station joins; what a ledger was started with
# stays.

LONGEST_COMMENT = 2_000
"""Characters of a comment."""

_LINES = "\n\r\t"  # the control characters that a comment of several lines has


def checked_names(names: Mapping[str, Called], setup: Setup) -> dict[str, Called]:
    """Return what people call the reward, knobs and features, or say what there is not."""
    known = ["reward", *setup.encoder.space.knobs, *setup.encoder.state.names]
    for name in names:
        if name not in known:
            raise BadInputError(
                f"there is no {name!r:.60} to give a name to", hint=f"there are {listed(known)}", argument="names",
                value=name,
            )  # fmt: skip
    return dict(names)


def checked_comment(text: object) -> str:
    r"""Return a comment, or say what is wrong with it."""
    if not isinstance(text, str) or len(text) > LONGEST_COMMENT:
        raise BadInputError(f"a comment is text of at most {LONGEST_COMMENT:,} characters")
    if any(unicodedata.category(mark) == "Cc" and mark not in _LINES for mark in text):
        raise BadInputError(f"a comment must be text without control characters, got {text!r:.60}")
    return text


def distinct(given: object, what: str) -> list[str]:
    """Return names once each, in their order."""
    if isinstance(given, str) or not isinstance(given, Sequence) or not all(isinstance(name, str) for name in given):
        raise BadInputError(f"{what} must be a list of names, got {given!r:.60}")
    return list(dict.fromkeys(given))


def check_newcomer(name: object, known: Iterable[str]) -> None:
    """Refuse a name that nobody could tell from another one, or from none; who was here before may come back.

    Args:
        name: What the station is to be called.
        known: What stations are called, those that have left among them.
    """
    names = list(known)
    if not isinstance(name, str) or name in names:
        return
    if name != name.strip():
        raise BadInputError(f"a station cannot be called {name!r:.80}, with blanks at an end: leave them out")
    same = unicodedata.normalize("NFC", name)
    if alike := [other for other in names if unicodedata.normalize("NFC", other) == same]:
        raise ConflictError(
            f"a station is called {alike[0]!a:.90} already, written with other characters that look the same as "
            f"{name!a:.90}: use that name, or another one"
        )


# --- Two people -----------------------------------------------------------------------------------------------------
#
# People are told apart by the names of their tokens.

_WHAT = {"approve": "to approve a change", "rails": "to change the rails", "resume": "to resume"}


def check_person(actor: str, act: str) -> None:
    """Refuse to take somebody without a name for one of two people."""
    if actor in ("", LOCAL):
        raise ConflictError(
            f"{_WHAT[act]} takes two people by the rails, and nobody says who this is",
            hint="give every person a token of their own",
            code="two_people",
            argument="actor",
        )


def check_others(records: Iterable[DecisionRecord], actor: str) -> None:
    """Refuse to let somebody approve what the same one has asked for."""
    check_person(actor, "approve")
    own = next((record for record in records if record.actor == actor), None)
    if own is not None:
        raise ConflictError(
            f"decision {own.id} of {own.station!r:.80} was asked for by {actor!r:.90}, and it takes two people by the "
            "rails",
            hint="have somebody else approve it",
            code="two_people",
            argument="actor",
            value=own.id,
        )


# --- What a decision needs to know, and what a reward must be of ----------------------------------------------------


def informed(controller: Controller, read_model: ReadModel, station: str, request: Request) -> Request:
    """Return a question that says what its station runs, as far as that is known."""
    controller.current.task(station)  # says what is wrong with the name, if anything is
    known = read_model.station(station)
    runs = known.running if request.running is None else request.running
    if known.mode != "autonomous":
        check_known(station, runs, why=f"in mode {known.mode} it goes on with it")
    return replace(request, running=runs)


def changed_by_hand(read_model: ReadModel, asked: Mapping[str, Request]) -> dict[str, tuple[int, int | None]]:
    """Return the stations that run something else than the guard's history says, with what they run and ran."""
    found: dict[str, tuple[int, int | None]] = {}
    for station, request in asked.items():
        latest = read_model.history.latest(station)
        before = read_model.station(station).running if latest is None else latest.arm
        if request.running is not None and request.running != before:
            found[station] = request.running, before
    return found


def check_whole(read_model: ReadModel, ids: Iterable[str]) -> None:
    """Refuse rewards of slots in which a person, not the guard, rolled back: two configurations earned them."""
    for record in (read_model.decisions[key] for key in ids if key in read_model.decisions):
        by_guard = record.verdict is not None and record.verdict.outcome == "rolled back"
        if record.status == "rolled back" and not by_guard:
            raise ConflictError(
                f"decision {record.id} of {record.station!r} was rolled back within its slot, so that two "
                "configurations earned its reward",
                hint="leave it out",
                code="rolled_back",
                argument="decision",
                value=record.id,
            )


def check_known(station: str, arm: int | None, *, why: str) -> None:
    """Refuse to go on with what nobody knows: its reward could not be learned for anything."""
    if arm is None:
        raise BadInputError(
            f"what {station!r} runs is not known, and {why}",
            hint="say it by running, or declare it",
            code="running_unknown",
            argument="running",
        )


# --- Asking again for a slot: what is said now must not contradict what the slot was decided with -------------------
#
# A station has one decision a slot, so that whoever asks again gets the one on record. What the second request says
# would be lost in silence if it were something else: other counters, other limits, another configuration that runs. So
# it is refused, with what to do instead. What it leaves out contradicts nothing, nor does saying that a station runs
# what the record says by now.


def check_repeated(
    asked: Mapping[str, Request],
    made: Mapping[str, Event],
    stations: Mapping[str, StationState],
    *,
    space: ConfigurationSpace,
    timed: bool,
) -> None:
    """Refuse to answer a question from the record that was decided with something else.

    Args:
        asked: The questions, by station.
        made: The decisions on record for the same slot, by station.
        stations: As they stand.
        space: The configurations that arms are numbers of.
        timed: Whether the states on record have the clock in them.
    """
    for station, event in made.items():
        before, now = Request.read(event, timed=timed), asked[station]
        runs = stations[station].running if stations[station].last == event.decision else None
        if now.running not in (None, before.running, runs):
            raise ConflictError(
                f"{_decided(station, event)}, when it ran {_named(space, before.running)} and not "
                f"{_named(space, now.running)}",
                hint="report what it runs now by applied()",
                code="runs_otherwise",
                argument="running",
                value=event.decision,
            )
        if what := next(_differing(before, now), None):
            raise ConflictError(
                f"{_decided(station, event)}, with {what} than now",
                hint="send what was sent then, or ask for the next slot",
                code="decided_otherwise",
                argument="slot",
                value=event.slot,
            )


def _differing(before: Request, now: Request) -> Iterator[str]:
    """Give what a question says otherwise than the one on record."""
    for name in now.state or {}:
        if before.state is None or before.state.get(name) != (now.state or {})[name]:
            yield f"another value of the state feature {name!r:.60}"
    if now.allowed is not None and now.allowed != before.allowed:
        yield "other configurations allowed"
    if now.time is not None and now.time != before.time:
        yield "another time"


def _decided(station: str, event: Event) -> str:
    return f"{event.decision} was decided for {station!r:.80} in the slot {event.slot!r:.80}"


def _named(space: ConfigurationSpace, arm: int | None) -> str:
    if arm is None:
        return "what nobody knew"
    return in_words(space[arm])


# --- States that are far from anything the controller was made for: answered, and said to be ------------------------
#
# A counter in another unit, or one that has overflowed, is a number like any other: a decision far from all evidence is
# made all the same, and its reward learned. Where the controller knows what its features are like, by the ranges that
# were declared or by the log that it learned from, whoever asks is told, and the guard lets no change rest on it.

FAR = 10.0
"""Standard deviations from the middle of what was declared or learned from."""
MOST = 5
"""Sentences that one request is answered with."""


def far_outside(scaler: StateScaler, states: Mapping[str, Mapping[str, float]]) -> list[str]:
    """Return a sentence for each value that is far from what its feature was declared or learned to be.

    Where features were only named, nothing is known of them, and nothing is said.

    Args:
        scaler: Middle and spread of the features.
        states: Values by station and feature.

    Example:
        >>> scaler = StateScaler.from_ranges({"load": (0, 1)})
        >>> far_outside(scaler, {"3714": {"load": 0.4}, "3715": {"load": 40.0}})
        ["load of '3715' is 40, 137 standard deviations from what this controller was made for: check its unit"]
        >>> far_outside(StateScaler.identity(["load"]), {"3714": {"load": 1e15}})
        []
    """
    if (scaler.centre == 0).all() and (scaler.scale == 1).all():
        return []
    known = {n: (float(c), float(s)) for n, c, s in zip(scaler.names, scaler.centre, scaler.scale, strict=True) if s}
    found: list[str] = []
    for station, state in states.items():
        for name, value in state.items():
            centre, scale = known.get(name, (value, 1.0))
            distance = abs(value - centre) / scale
            if distance > FAR or not isfinite(distance):
                found.append(
                    f"{name} of {station!r:.80} is {value:g}, {distance:.0f} standard deviations from what this "
                    "controller was made for: check its unit"
                )
    further = len(found) - MOST
    return found[:MOST] + ([f"and {further} more such values"] if further > 0 else [])
