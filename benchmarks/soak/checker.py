"""What proves that a service kept its word, from what its clients heard and its table of events alone.

Nothing of the service's logic is used: the chain of checksums is reckoned again as its documents say, everything else
follows from the operations of clients (`history`) and from the rows.

- **Once.** Every acknowledged operation is in the ledger, once, as it was acknowledged; numbers have no gaps, the chain
  holds, and no event that anybody saw is gone or another.
- **In order.** An operation that began after another was answered has later events.
- **Answered from what was there.** A question that is asked again has the same answer, as far as nothing holds it; how
  many rewards a decision knew is how many there were before it.
- **Stopped.** Once a stop is acknowledged, no question that is asked before somebody resumes is answered with a change,
  and no order is listed as one to be made.

What becomes of orders is judged in `orders`, the guard rails in `oracle`.
"""

import hashlib
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import accumulate
from typing import Any

from benchmarks.soak.history import Course, Operation, Row, Sighting
from benchmarks.soak.oracle import Limits, Times, broken
from benchmarks.soak.orders import acknowledged_faults, life_faults, listed_faults


@dataclass(frozen=True)
class Anomaly:
    """What ought not to be.

    Attributes:
        promise: What was promised.
        what: What was found instead.
    """

    promise: str
    what: str


def checked(
    rows: Sequence[Row], operations: Sequence[Operation], sightings: Sequence[Sighting], *, limits: Limits, times: Times
) -> list[Anomaly]:
    """Return every anomaly."""
    found = {
        "chain": chain_faults(rows),
        "once": once_faults(rows, operations),
        "nothing seen is lost": seen_faults(rows, sightings),
        "order of real time": order_faults(rows, operations),
        "answers follow from what is on record": answer_faults(rows, operations, sightings, values=limits.values),
        "life of an order": life_faults(rows, times, slack=limits.slack),
        "orders are acknowledged": acknowledged_faults(rows, operations),
        "orders are listed as they stand": listed_faults(rows, operations, sightings),
        "stop": stop_faults(rows, operations, sightings),
        "rails in true time": broken(limits, rows, times),
    }
    return [Anomaly(promise, what) for promise, faults in found.items() for what in faults]


def times_of(rows: Sequence[Row], sightings: Sequence[Sighting], at: Any, *, begin: float, end: float) -> Times:
    """Return when every event truly was recorded; `at` makes a time of a moment of the stopwatch."""
    seen = {one.seq: (one.after, one.by) for one in sightings}
    found: dict[int, tuple[datetime, datetime]] = {}
    for row in rows:
        after, by = seen.get(row.seq, (begin, end))
        found[row.seq] = at(after), at(by)
    return found


# --- Once ----------------------------------------------------------------------------------------------------------


def chain_faults(rows: Sequence[Row]) -> Iterator[str]:
    """Say where numbers or checksums break off."""
    before = "0" * 64
    for number, row in enumerate(rows, start=1):
        columns = (row.seq, row.kind, row.at, row.actor, row.station, row.decision, row.round, row.slot, row.key,
                   row.text)  # fmt: skip
        lines = "\n".join([before, *("" if value is None else str(value) for value in columns)])
        before = hashlib.sha256(lines.encode()).hexdigest()
        if row.seq != number or row.checksum != before:
            yield f"event {row.seq}, the {number}th, has a wrong number or checksum"
            return


def once_faults(rows: Sequence[Row], operations: Sequence[Operation]) -> Iterator[str]:
    """Say what is there twice, and what was acknowledged and is not there."""
    told = Counter((row.decision,) for row in rows if row.kind == "outcome")
    slots = Counter((row.station, row.slot) for row in rows if row.kind == "decision")
    keys = Counter((row.kind, row.key) for row in rows if row.key is not None)
    for counted in (told, slots, keys):
        yield from (f"{what} is there {number} times" for what, number in counted.items() if number > 1)
    decisions = {(row.station, row.slot): row.decision for row in rows if row.kind == "decision"}
    rewards = {row.decision: row.payload["entry"].get("reward") for row in rows if row.kind == "outcome"}
    known = {row.key for row in rows}
    for one in operations:
        if not one.done:
            continue
        if one.what == "ask":
            for item in one.answer["decisions"]:
                if decisions.get((item["station"], one.body["slot"])) != item["id"]:
                    yield f"{one.key} was answered with {item['id']}, which is not that slot's decision on record"
        elif one.what == "tell":
            for outcome in one.body["outcomes"]:
                if rewards.get(outcome["decision"]) != outcome["reward"]:
                    yield f"the reward {outcome} was acknowledged ({one.key}) and is not on record"
        elif one.what not in ("report", "orders", "confirm", "fail") and one.key not in known:
            yield f"{one.what} was acknowledged ({one.key}) and is not on record"


def seen_faults(rows: Sequence[Row], sightings: Sequence[Sighting]) -> Iterator[str]:
    """Say what somebody saw in the ledger that is not there any more."""
    known = {row.seq: row.checksum for row in rows}
    for one in sightings:
        if known.get(one.seq) != one.checksum:
            yield f"event {one.seq} was seen and is gone or another"
            return


# --- In the order of real time -------------------------------------------------------------------------------------


def _events(rows: Sequence[Row], operations: Sequence[Operation]) -> Iterator[tuple[Operation, list[int], bool]]:
    """Give every acknowledged operation with the numbers of its events, and whether it recorded them itself."""
    decided = {row.decision: row.seq for row in rows if row.kind == "decision"}
    keyed = {row.key: row.seq for row in rows if row.key is not None}
    mine = {row.decision: row.key for row in rows if row.kind == "decision"}
    known = set[str]()
    for one in sorted(operations, key=lambda one: one.began):
        new = one.key not in known  # a question that is asked again has its events from before
        known.add(one.key)
        if not one.done:
            continue
        if one.what == "ask":
            ids = [item["id"] for item in one.answer["decisions"]]
            numbers = [decided[name] for name in ids if name in decided]
            yield one, numbers, new and any(mine.get(name) == one.key for name in ids)
        elif one.key in keyed:
            yield one, [keyed[one.key]], new


def order_faults(rows: Sequence[Row], operations: Sequence[Operation]) -> Iterator[str]:
    """Say which operation has earlier events than one that was answered before it began."""
    found = [(one, numbers, own) for one, numbers, own in _events(rows, operations) if numbers]
    ended = sorted((one.ended or 0.0, max(numbers), one.key) for one, numbers, _ in found)
    ends = [moment for moment, _, _ in ended]
    latest = list(accumulate(((number, key) for _, number, key in ended), max))
    for one, numbers, own in found:
        before = bisect_left(ends, one.began)
        first = _first_of_own(rows, one, numbers)
        if own and before and latest[before - 1][0] > first:
            number, key = latest[before - 1]
            yield f"{one.key} began after {key} was answered (event {number}) and has event {first}"


def _first_of_own(rows: Sequence[Row], one: Operation, numbers: Sequence[int]) -> int:
    """Return the first event that an operation recorded itself: a question may be answered in part from the record."""
    return min((number for number in numbers if rows[number - 1].key == one.key), default=min(numbers))


# --- Answered from what was there ----------------------------------------------------------------------------------


def answer_faults(
    rows: Sequence[Row], operations: Sequence[Operation], sightings: Sequence[Sighting], *, values: Sequence[float]
) -> Iterator[str]:
    """Say which answers differ from the record, or knew of another past."""
    told = 0
    for row in rows:
        told += row.kind == "outcome"
        if row.kind == "decision" and row.payload["entry"]["known"] != told:
            yield f"{row.decision} knew {row.payload['entry']['known']} rewards, and {told} were on record"
    verdicts: dict[str | None, list[Any]] = {}
    for row in rows:
        if row.kind in ("verdict", "approval", "order") and row.payload.get("verdict"):
            said = row.payload["verdict"]
            verdicts.setdefault(row.decision, []).append({part: said[part] for part in _SAID})
    chosen = {row.decision: row.payload["entry"]["configuration"] for row in rows if row.kind == "decision"}
    present, ran = _Present(rows, sightings), _ran(rows, sightings, values)
    for one, item in _answers(operations):
        name = item["id"]
        if item["chosen"] != chosen.get(name):
            yield f"{one.key}: {name} chose {item['chosen']}, on record is {chosen.get(name)}"
        elif item["verdict"] not in verdicts.get(name, ()):
            yield f"{one.key}: the verdict on {name} is not that on record"
        elif item["held"] is not None:
            continue
        elif item["status"] in _MADE and item["run"] != item["proposed"] and present.at(one, item):
            yield f"{one.key}: {name} is held by nothing, and is to run {item['run']}, not {item['proposed']}"
        elif item["station"] in ran and (runs := _value(item["run"])) not in (
            known := ran[item["station"]].within(one.began, one.ended or one.began)
        ):
            yield f"{one.key}: {item['station']} is to run {runs} ({name}), and on record is one of {known}"


_SAID = ("outcome", "reason")
_MADE = ("applied", "rolled back", "kept")


def _value(configuration: Mapping[str, float]) -> float:
    """Return what the one knob is set to."""
    [value] = configuration.values()
    return value


def _ran(rows: Sequence[Row], sightings: Sequence[Sighting], values: Sequence[float]) -> dict[str, Course]:
    """Return what stations ran, as far as anything ever changed there."""
    seen, found = {one.seq: one for one in sightings}, dict[str, Course]()
    for row in rows:
        if row.kind == "applied":
            course = found.setdefault(row.station, Course(values[row.payload["before"]]))
            course.add(values[row.payload["arm"]], seen.get(row.seq))
    return found


def _answers(operations: Sequence[Operation]) -> Iterator[tuple[Operation, Mapping[str, Any]]]:
    for one in operations:
        if one.what == "ask" and one.done:
            for item in one.answer["decisions"]:
                yield one, item


class _Present:
    """Tells whether a decision surely was the present one of its station, and nothing else changed that or was said."""

    def __init__(self, rows: Sequence[Row], sightings: Sequence[Sighting]) -> None:
        seen = {one.seq: one.after for one in sightings}
        last: dict[str, str] = {}
        self._over: dict[str, float] = {}  # by decision, the earliest that another, or a word of it, can have followed
        for row in rows:
            told = row.kind == "applied" and (row.payload.get("reported") or row.payload.get("order", row.decision))
            if row.station in last and (row.kind == "decision" or told not in (False, last[row.station])):
                self._over.setdefault(last[row.station], seen.get(row.seq, 0.0))
            if row.kind == "decision":
                last[row.station] = str(row.decision)

    def at(self, one: Operation, item: Mapping[str, Any]) -> bool:
        """Whether it was when an operation ended."""
        over = self._over.get(item["id"], float("inf")) <= (one.ended or 0.0)
        return bool(item["open"]) and not over


# --- Stopped -------------------------------------------------------------------------------------------------------


def stop_faults(rows: Sequence[Row], operations: Sequence[Operation], sightings: Sequence[Sighting]) -> Iterator[str]:
    """Say which changes were answered while everything was stopped, whatever the order of the ledger says."""
    spells, present = list(_spells(rows, operations)), _Present(rows, sightings)
    for one, item in _answers(operations):
        if not any(begin < one.began and (one.ended or 0.0) < end for begin, end in spells):
            continue
        if item["held"] is None:
            yield f"{one.key}: nothing is said to hold {item['station']} ({item['id']}) while all is stopped"
        elif item["run"] != item["before"] and present.at(one, item):
            yield f"{one.key} orders {item['run']} for {item['station']} ({item['id']}) while all is stopped"
    for one in operations:
        if one.what == "orders" and one.done and any(b < one.began and (one.ended or 0.0) < e for b, e in spells):
            free = [item["id"] for item in one.answer["orders"] if item["status"] == "ordered" and not item["held"]]
            yield from (f"{one.key}: {name} is listed as an order while all is stopped" for name in free)


def _spells(rows: Sequence[Row], operations: Sequence[Operation]) -> Iterator[tuple[float, float]]:
    """Give when everything certainly was stopped: from an acknowledged stop until the next resume is first sent."""
    switches = [row for row in rows if row.kind == "switch" and row.payload["event"]["event"] in ("stopped", "resumed")]
    by_key: Mapping[str, Operation] = {one.key: one for one in operations}
    for number, row in enumerate(switches):
        one = by_key.get(row.key or "")
        if row.payload["event"]["event"] != "stopped" or one is None or not one.done or one.ended is None:
            continue
        after = next((r for r in switches[number + 1 :] if r.payload["event"]["event"] == "resumed"), None)
        end = float("inf") if after is None else by_key[after.key or ""].began if after.key in by_key else one.ended
        yield one.ended, end
