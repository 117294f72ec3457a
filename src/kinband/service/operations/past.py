"""The last week of a ledger once more: its events through a read model of their own, from how things stood before it.

How things stood then is taken from how they stand now: what stations ran or earned since is left out, and switches are
read again from the first one on. Decisions of before are looked up where they are needed.
"""

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime

from kinband.controller.journal import number_of
from kinband.guardrails import Frozen, History, Resumed, Stopped, Thawed, event_from
from kinband.service.ledger import Event, Ledger
from kinband.service.ledger.restoring import EntryReader
from kinband.service.operations.keeping import past_of
from kinband.service.operations.operations import Operations
from kinband.service.operations.read_model import ReadModel
from kinband.service.operations.records import StationState


def first_since(ledger: Ledger, moment: datetime) -> int:
    """Return the number of the first event recorded at a time or later; one past the last where there is none.

    Events are numbered in the order in which they were recorded, which is that of their times as long as nobody sets
    the clock back. So it is found by halving, and the ledger needs no index over times.
    """
    low, high = 1, ledger.head().seq + 1
    while low < high:
        middle = (low + high) // 2
        found = next(ledger.read(after=middle - 1, limit=1), None)
        if found is not None and datetime.fromisoformat(found.at) < moment:
            low = middle + 1
        else:
            high = middle
    return low


def replayed(operations: Operations, first: int, end: int) -> Iterator[tuple[Event, ReadModel]]:
    """Give events with the read model as it stood before each of them.

    Args:
        operations: Whose.
        first: Number of the first event.
        end: Number after that of the last.
    """
    ledger, reader = operations.ledger, EntryReader(operations.setup)
    found = next(ledger.read(after=first - 1, limit=1), None)
    if found is None:
        return
    model = _before(operations, first, datetime.fromisoformat(found.at))
    made = next(ledger.read(after=first - 1, kinds=["decision"], limit=1), None)
    model.decisions.count = (operations.read_model.decisions.count + 1 if made is None else _number(made)) - 1
    for event in ledger.read(after=first - 1, before=end):
        yield event, model
        model.take(event, reader.maybe(event))


def _number(event: Event) -> int:
    return number_of(str(event.decision))


def _before(operations: Operations, first: int, since: datetime) -> ReadModel:
    """Return the read model as it stood before an event, as far as is known."""
    model = ReadModel(operations.setup, past_of(operations.ledger, operations.setup))
    with operations.looking() as now:
        history, sets = now.history, [seq for seq in now._clock_sets if seq < first]
        model.stations = {
            name: StationState(name, state.mode, fixed=state.fixed) for name, state in now.stations.items()
        }
    model._clock_sets, model.clock = sets, (len(sets), None)
    past = History(
        {name: tuple(one for one in made if one.at < since) for name, made in history.changes.items()},
        {name: {at: one for at, one in slots.items() if at[1] < since} for name, slots in history.rewards.items()},
        clock=history.clock[: len(sets)],
    )
    switches = (event_from(one.payload["event"]) for one in operations.ledger.read(before=first, kinds=["switch"]))
    told = past.after(one for one in switches if isinstance(one, Frozen | Thawed | Stopped | Resumed))
    model._history = replace(told, time=None)
    model._upto = first
    return model
