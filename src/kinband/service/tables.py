"""Tables as CSV, a few hundred rows at a time, that no spreadsheet takes for formulas.

API and pages give the same files. Texts go through `kinband.planning.safe_text`; numbers stay numbers. The first
rows are made before the answer begins, so that a database that is away is answered with 503 and not with half a file.
"""

import csv
import io
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import chain, islice
from typing import Any

from starlette.responses import StreamingResponse

from kinband.planning import safe_json, safe_text
from kinband.service.ledger import Event
from kinband.service.operations import DecisionRecord, Operations
from kinband.service.schemas import Decision, Planned, shown
from kinband.service.threads import FILES, File
from kinband.space import ConfigurationSpace

AT_ONCE = 500
"""Rows of a chunk."""

Row = Sequence[Any]

DECIDED = ("decision", "station", "slot", "at", "mode", "status", "round", "known", "mean", "std", "score", "reward",
           "called_off", "verdict", "reason", "actor", "decided_by", "comment")  # fmt: skip
OUTCOMES = ("decision", "station", "slot", "at", "reward", "called_off")
EVENTS = ("seq", "kind", "at", "actor", "station", "decision", "slot", "payload")
PLANNED = ("decision", "station", "slot", "at", "status", "due", "until", "decided_by", "comment",
           "expected_reward", "std", "expected_gain", "gain_low", "gain_high",
           "ran_here", "ran_at_similar", "similar_stations", "verdict", "reason")  # fmt: skip


def csv_answer(name: str, header: Sequence[str], rows: Iterable[Row]) -> StreamingResponse:
    """Return an answer that is a file.

    Args:
        name: What the file is called.
        header: Names of the columns.
        rows: The rows; their values are text, numbers, booleans or None.
    """
    chunks = _chunks(header, iter(rows))
    first = next(chunks)
    headers = {
        "Content-Disposition": f'attachment; filename="{name}"',
        "Cache-Control": "no-store",
        "X-Content-Type-Options": "nosniff",
    }
    body = FILES.each_of(chain([first], chunks))
    return File(body, media_type="text/csv; charset=utf-8", headers=headers)


def _chunks(header: Sequence[str], rows: Iterator[Row]) -> Iterator[str]:
    head: list[Row] = [header]
    while block := [*head, *islice(rows, AT_ONCE)]:
        yield csv_text(block)
        head = []


def csv_text(rows: Iterable[Row]) -> str:
    r"""Return rows as CSV.

    Example:
        >>> csv_text([["=1+1", -98.5, "-98.5", None, True]])
        "'=1+1,-98.5,-98.5,,true\n"
        >>> csv_text([["wait\r=1+1", 2]])
        '"wait\n\'=1+1",2\n'
    """
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([_cell(value) for value in row] for row in rows)
    return text.getvalue()


def _cell(value: Any) -> Any:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime):
        return value.isoformat()
    return safe_text(value) if isinstance(value, str) else value


def decisions_file(records: Iterable[DecisionRecord], space: ConfigurationSpace) -> StreamingResponse:
    """Return decisions as a file: `DECIDED`, then what ran before, what was chosen, what is proposed, and what ran."""
    sides = ("before", "chosen", "proposed", "run")
    return _file("decisions.csv", DECIDED, sides, (shown(Decision, one, space) for one in records), space)


def outcomes_file(records: Iterable[DecisionRecord], space: ConfigurationSpace) -> StreamingResponse:
    """Return decisions whose outcome is known as a file: `OUTCOMES`, then what ran."""
    known = (shown(Decision, one, space) for one in records if not one.open)
    return _file("outcomes.csv", OUTCOMES, ("run",), known, space)


def plan_file(records: Iterable[DecisionRecord], space: ConfigurationSpace) -> StreamingResponse:
    """Return what waits as a file: `PLANNED`, then what runs and what is to be set, as API and pages give it."""
    made = (shown(Planned, one, space) for one in records)
    return _file(
        "plan.csv", PLANNED, ("before", "proposed"), made, space, called={"before": "present", "proposed": "set"}
    )


def events_file(operations: Operations) -> StreamingResponse:
    """Return every event as a file, read block by block."""
    return csv_answer("events.csv", EVENTS, map(_event_row, _events(operations)))


def _file(
    name: str,
    columns: Sequence[str],
    sides: Sequence[str],
    decisions: Iterable[Decision],
    space: ConfigurationSpace,
    *,
    called: Mapping[str, str] | None = None,
) -> StreamingResponse:
    """Return decisions as a file: fields of theirs, then the knobs of some configurations."""
    header = [*columns, *(f"{(called or {}).get(side, side)}_{knob}" for side in sides for knob in space.knobs)]
    return csv_answer(name, header, (_row(one, columns, sides, space) for one in decisions))


def _row(made: Decision, columns: Sequence[str], sides: Sequence[str], space: ConfigurationSpace) -> Row:
    said: dict[str, Any] = {"decision": made.id, "verdict": "", "reason": ""}
    if made.verdict is not None:
        said |= {"verdict": made.verdict.outcome, "reason": made.verdict.reason}
    if isinstance(made, Planned):
        expected = made.expected
        said |= {"expected_reward": expected.proposed, "std": expected.proposed_std}
        said |= {"expected_gain": expected.gain, "gain_low": expected.gain_low, "gain_high": expected.gain_high}
        tried = made.support
        said |= {"ran_here": tried and tried.own, "ran_at_similar": tried and tried.others}
        said |= {"similar_stations": tried and tried.stations}
    values = [said[name] if name in said else getattr(made, name) for name in columns]
    return [*values, *((getattr(made, side) or {}).get(knob) for side in sides for knob in space.knobs)]


def _events(operations: Operations) -> Iterator[Event]:
    after = 0
    while block := operations.events(after=after, limit=AT_ONCE):
        after = block[-1].seq
        yield from block


def _event_row(event: Event) -> Row:
    payload = safe_json(json.dumps(event.payload, ensure_ascii=False, separators=(",", ":")))
    return [event.seq, event.kind, event.at, event.actor, event.station, event.decision, event.slot, payload]
