"""Asking again for a slot: what is said now must not contradict what the slot was decided with.

A station has one decision a slot, so that whoever asks again gets the one on record. What the second request says would
be lost in silence if it were something else: other counters, other limits, another configuration that runs. So it is
refused, with what to do instead. What it leaves out contradicts nothing, nor does saying that a station runs what the
record says by now.
"""

from collections.abc import Iterator, Mapping

from kinband.errors import ConflictError
from kinband.guard.review import in_words
from kinband.service.ledger import Event
from kinband.service.ledger.requests import Request
from kinband.service.operations.records import Card
from kinband.space import ConfigurationSpace


def check_repeated(
    asked: Mapping[str, Request],
    made: Mapping[str, Event],
    cards: Mapping[str, Card],
    *,
    space: ConfigurationSpace,
    timed: bool,
) -> None:
    """Refuse to answer a question from the record that was decided with something else.

    Args:
        asked: The questions, by station.
        made: The decisions on record for the same slot, by station.
        cards: Stations as they stand.
        space: The configurations that arms are numbers of.
        timed: Whether the states on record have the clock in them.
    """
    for station, event in made.items():
        before, now = Request.read(event, timed=timed), asked[station]
        runs = cards[station].running if cards[station].last == event.decision else None
        if now.running not in (None, before.running, runs):
            raise ConflictError(
                f"{_decided(station, event)}, when it ran {_named(space, before.running)} and not "
                f"{_named(space, now.running)}: report what it runs now by applied()"
            )
        if what := next(_differing(before, now), None):
            raise ConflictError(
                f"{_decided(station, event)}, with {what} than now: send what was sent then, or ask for the next slot"
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
