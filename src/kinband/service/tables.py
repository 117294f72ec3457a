"""Tables as CSV, a few hundred rows at a time, that no spreadsheet takes for formulas.

API and pages give the same files. Texts go through `kinband.planning.plan.safe_text`; numbers stay numbers. The first
rows are made before the answer begins, so that a database that is away is answered with 503 and not with half a file.
"""

import csv
import io
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Any

from starlette.responses import StreamingResponse

from kinband.planning.plan import safe_text
from kinband.service.ledger import Event
from kinband.service.operations import Item, Operations
from kinband.service.operations.outlooks import expected_gain, foretold
from kinband.space import ConfigurationSpace

AT_ONCE = 500
"""Rows of a chunk."""

Row = Sequence[Any]

DECIDED = ("decision", "station", "slot", "at", "mode", "status", "round", "known", "mean", "width", "score", "reward",
           "called_off", "verdict", "reason", "actor", "decided_by", "comment")  # fmt: skip
OUTCOMES = ("decision", "station", "slot", "at", "reward", "called_off")
EVENTS = ("seq", "kind", "at", "actor", "station", "decision", "slot", "payload")
PLANNED = ("decision", "station", "slot", "at", "expected_reward", "width", "expected_gain", "gain_low", "gain_high",
           "verdict", "reason")  # fmt: skip


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
    return StreamingResponse(chain([first], chunks), media_type="text/csv; charset=utf-8", headers=headers)


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
        '"wait\n=1+1",2\n'
    """
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([_cell(value) for value in row] for row in rows)
    return text.getvalue()


def _cell(value: Any) -> Any:
    if isinstance(value, bool):
        return "true" if value else "false"
    return safe_text(value) if isinstance(value, str) else value


def knob_names(space: ConfigurationSpace, *sides: str) -> list[str]:
    """Return the columns of configurations.

    Example:
        >>> knob_names(ConfigurationSpace(tilt=[2, 4]), "present", "set")
        ['present_tilt', 'set_tilt']
    """
    return [f"{side}_{knob}" for side in sides for knob in space.knobs]


def _knobs(space: ConfigurationSpace, arm: int | None) -> list[Any]:
    known: Mapping[str, Any] = {} if arm is None or not 0 <= arm < len(space) else space[arm]
    return [known.get(knob) for knob in space.knobs]


def decision_rows(items: Iterable[Item], space: ConfigurationSpace) -> Iterator[Row]:
    """Return decisions as rows: `DECIDED`, then what ran before, what was chosen, what is proposed, and what ran."""
    for item in items:
        made, verdict = item.decision, item.verdict
        said = ("", "") if verdict is None else (verdict.outcome, verdict.reason)
        yield [
            item.id, item.station, item.slot, item.at.isoformat(), item.mode, item.status, made.round, made.known,
            made.mean, made.width, made.ucb, item.reward, item.called_off, *said, item.actor, item.decided_by,
            item.comment, *_knobs(space, item.running), *_knobs(space, made.arm), *_knobs(space, item.wanted),
            *_knobs(space, item.arm),
        ]  # fmt: skip


def outcome_rows(items: Iterable[Item], space: ConfigurationSpace) -> Iterator[Row]:
    """Return decisions whose outcome is known as rows: `OUTCOMES`, then what ran."""
    for item in items:
        if not item.open:
            known = [item.id, item.station, item.slot, item.at.isoformat(), item.reward, item.called_off]
            yield [*known, *_knobs(space, item.arm)]


def plan_file(items: Iterable[Item], space: ConfigurationSpace) -> StreamingResponse:
    """Return what waits as a file: `PLANNED`, then what runs and what is to be set, as API and pages give it."""
    return csv_answer("plan.csv", [*PLANNED, *knob_names(space, "present", "set")], _plan_rows(items, space))


def _plan_rows(items: Iterable[Item], space: ConfigurationSpace) -> Iterator[Row]:
    for item in items:
        mean, width = foretold(item, item.wanted) or (None, None)
        gain = expected_gain(item) or (None, None, None)
        said = ("", "") if item.verdict is None else (item.verdict.outcome, item.verdict.reason)
        known = [item.id, item.station, item.slot, item.at.isoformat(), mean, width, *gain, *said]
        yield [*known, *_knobs(space, item.running), *_knobs(space, item.wanted)]


def event_rows(operations: Operations) -> Iterator[Row]:
    """Return every event as a row, read block by block."""
    after = 0
    while block := operations.events(after=after, limit=AT_ONCE):
        after = block[-1].seq
        yield from map(_event_row, block)


def _event_row(event: Event) -> Row:
    payload = json.dumps(event.payload, ensure_ascii=False, separators=(",", ":"))
    return [event.seq, event.kind, event.at, event.actor, event.station, event.decision, event.slot, payload]
