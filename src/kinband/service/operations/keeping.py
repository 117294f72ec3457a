"""What a read model keeps in a snapshot, and the decisions that it looks up again in the ledger.

Sums, counts and the state of stations are kept; decisions are not: the latest are at hand, and what is asked for of the
others follows from their own events.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any

import numpy as np

from kinband.controller import Setup
from kinband.controller.events import Entry
from kinband.controller.journal import id_of, is_among, number_of
from kinband.guardrails import Changed, History, event_from
from kinband.service.ledger import Event, Ledger
from kinband.service.ledger.restoring import EntryReader
from kinband.service.ledger.snapshots import Shown
from kinband.service.operations.records import DecisionRecord, StationState, Trail
from kinband.service.operations.slots import Slots

AT_HAND = 20_000
"""How many decisions are kept in memory where the ledger has the others; up to twice as many."""


Past = Callable[[Sequence[str], int, int], Mapping[str, Sequence[tuple[Event, Entry | None]]]]
"""Gives the events of decisions, by id, between two numbers."""


def past_of(ledger: Ledger, setup: Setup) -> Past:
    """Return what gives them from a ledger."""
    reader = EntryReader(setup)

    def past(ids: Sequence[str], after: int, before: int) -> Mapping[str, Sequence[tuple[Event, Entry | None]]]:
        found = ledger.histories(ids, after=after, before=before)
        return {key: [(event, reader.maybe(event)) for event in some] for key, some in found.items()}

    return past


class Records(Mapping[str, DecisionRecord]):
    """Decisions by id, oldest first.

    Args:
        find: Looks up a decision that is not at hand; None where all are.
    """

    def __init__(self, find: Callable[[str], DecisionRecord] | None = None) -> None:
        self._find, self._at_hand = find, dict[str, DecisionRecord]()
        self.count = 0

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[str]:
        return iter(self._at_hand) if self._find is None else map(id_of, range(1, self.count + 1))

    def __reversed__(self) -> Iterator[str]:
        return self.before(None)

    def __contains__(self, key: object) -> bool:
        left = self._find is not None and isinstance(key, str) and is_among(key, self.count)
        return key in self._at_hand or left

    def __getitem__(self, key: str) -> DecisionRecord:
        found = self._at_hand.get(key)
        if found is None and self._find is not None and key in self:
            found = self._at_hand[key] = self._find(key)
        if found is None:
            raise KeyError(key)
        return found

    def far(self, keys: Iterable[str]) -> list[str]:
        """Return those that are not at hand."""
        return [key for key in keys if key not in self._at_hand]

    def before(self, key: str | None) -> Iterator[str]:
        """Give the ids of decisions before one, or of all, the newest first."""
        last = self.count if key is None else number_of(key) - 1
        if self._find is None:
            return (one for one in reversed(self._at_hand) if number_of(one) <= last)
        return map(id_of, range(last, 0, -1))

    def add(self, record: DecisionRecord) -> None:
        """Take in a new decision."""
        self._at_hand[record.id] = record
        self.count += 1

    def put(self, record: DecisionRecord) -> None:
        """Put a decision in the place of what it was before."""
        self._at_hand[record.id] = record

    def trim(self) -> list[str]:
        """Leave what is old to the ledger, and return the ids of what was left."""
        keep = AT_HAND
        if self._find is None or len(self._at_hand) <= 2 * keep:
            return []
        gone = list(islice(self._at_hand, len(self._at_hand) - keep))
        for key in gone:
            del self._at_hand[key]
        return gone


# --- Values as JSON and arrays, and back ----------------------------------------------------------------------------

_BEGAN, _TICK = datetime(1970, 1, 1, tzinfo=UTC), timedelta(microseconds=1)


def iso(at: datetime | None) -> str | None:
    """Return a time as text."""
    return None if at is None else at.isoformat()


def time_of(text: str | None) -> datetime | None:
    """Return the time that `iso` wrote."""
    return None if text is None else datetime.fromisoformat(text)


def station_values(state: StationState) -> dict[str, Any]:
    """Return a station as JSON-able values, but for its slots."""
    names = ("station", "mode", "running", "fixed", "before", "changed_by", "clock", "last", "frozen", "active")
    said = {name: getattr(state, name) for name in names}
    said |= {"begins": iso(state.begins)}
    return said | {"changed": iso(state.changed), "state": None if state.state is None else dict(state.state)}


def station_of(values: Mapping[str, Any], slots: Slots) -> StationState:
    """Return the station that `station_values` wrote."""
    begins = time_of(values.get("begins"))
    return StationState(**{**values, "changed": time_of(values["changed"]), "begins": begins, "slots": slots})


def trail_values(trail: Trail) -> list[Any]:
    """Return what a station ran as JSON-able values."""
    return [list(trail.ran), iso(trail.changed), trail.by, None if trail.last is None else trail_values(trail.last)]


def trail_of(values: list[Any]) -> Trail:
    """Return what `trail_values` wrote."""
    ran, changed, by, last = values
    return Trail(tuple(ran), time_of(changed), by, None if last is None else trail_of(last))


def history_stored(history: History) -> Shown:
    """Return the past of the guard as values and arrays."""
    stations = sorted(history.rewards)
    rows = [
        (n, epoch, (at - _BEGAN) // _TICK, reward)
        for n, station in enumerate(stations)
        for (epoch, at), reward in history.rewards[station].items()
    ]
    values = {
        "changes": {name: [one.to_dict() for one in made] for name, made in history.changes.items()},
        "stations": stations, "frozen": dict(history.frozen), "stopped": history.stopped,
        "time": iso(history.time), "clock": [iso(at) for at in history.clock],
    }  # fmt: skip
    arrays = {
        "moments": np.array([row[:3] for row in rows], dtype=np.int64).reshape(-1, 3),
        "rewards": np.array([row[3] for row in rows], dtype=np.float64),
    }
    return Shown(values, arrays)


def history_of(stored: Shown) -> History:
    """Return the past that `history_stored` wrote."""
    values, arrays = stored.values, stored.arrays
    stations = values["stations"]
    rewards: dict[str, dict[tuple[int, datetime], float]] = {name: {} for name in stations}
    for (n, epoch, ticks), reward in zip(arrays["moments"].tolist(), arrays["rewards"].tolist(), strict=True):
        rewards[stations[n]][epoch, _BEGAN + ticks * _TICK] = reward
    changes = {name: tuple(_changed(one) for one in made) for name, made in values["changes"].items()}
    clock = tuple(datetime.fromisoformat(at) for at in values["clock"])
    return History(changes, rewards, dict(values["frozen"]), values["stopped"], time_of(values["time"]), clock)


def _changed(values: Mapping[str, Any]) -> Changed:
    found = event_from(values)
    if not isinstance(found, Changed):
        raise TypeError("a change is what it is")
    return found


def packed_lists(lists: Mapping[str, Any], kind: Any) -> tuple[list[str], dict[str, Any]]:
    """Return names, and lists of numbers one after the other with the length of each."""
    sizes = np.array([len(one) for one in lists.values()], dtype=np.int64)
    together = [np.asarray(one, dtype=kind) for one in lists.values()]
    return list(lists), {"sizes": sizes, "values": np.concatenate([np.empty(0, dtype=kind), *together])}


def unpacked_lists(names: list[str], arrays: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Return the lists of `packed_lists`."""
    if not names:
        return {}
    ends = np.cumsum(arrays["sizes"])
    return {name: part.tolist() for name, part in zip(names, np.split(arrays["values"], ends[:-1]), strict=True)}


def prefixed(arrays: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    """Return arrays under longer names."""
    return {f"{prefix}.{name}": array for name, array in arrays.items()}


def without(arrays: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    """Return the arrays that `prefixed` gave longer names."""
    start = f"{prefix}."
    return {name.removeprefix(start): array for name, array in arrays.items() if name.startswith(start)}


def sums_values(sums: Any) -> dict[str, Any]:
    """Return a sum as JSON-able values, but for what was summed."""
    return {name: value for name, value in asdict(sums).items() if name != "values"}
