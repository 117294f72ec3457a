"""What the changes of a month brought, from a ledger: its slots as a log, judged as `kinband impact` judges one.

A month is one of UTC. Slots of some weeks before and after it count, too, as far as they are on record; the log that
the controller learned from is among them. Neighbours, as the rails name them, are not compared with.
"""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np

from kinband.controller.journal import id_of
from kinband.errors import BadInputError
from kinband.impact import Impact, Order, Panel, Windows, judge_changes, ordered_changes
from kinband.service.operations import Operations
from kinband.service.operations.records import DecisionRecord, Point, expected_gain
from kinband.stats import Estimate
from kinband.trace import Trace

BEFORE, AFTER = timedelta(days=14), timedelta(days=28)
"""How long before a change counts, and how long after it, at most."""
_LOGGED = 10_000  # rows of a station in the log that the controller learned from


def month_named(name: str) -> tuple[datetime, datetime]:
    """Return when a month begins and when the next one does, or refuse a text that is none.

    Example:
        >>> [at.isoformat() for at in month_named("2026-12")]
        ['2026-12-01T00:00:00+00:00', '2027-01-01T00:00:00+00:00']
    """
    try:
        first = datetime.strptime(name.strip(), "%Y-%m").replace(tzinfo=UTC)
    except ValueError as error:
        raise BadInputError(
            f"a month is a year and a number such as 2026-11, got {name!r:.40}", argument="month", value=name
        ) from error
    return first, (first + timedelta(days=32)).replace(day=1)


def impact_of(operations: Operations, month: str, *, tick: Callable[[], object] = lambda: None) -> Impact:
    """Return what the changes brought that were decided for in a month.

    Args:
        operations: Whose.
        month: Its name, such as 2026-11.
        tick: Called after every change that is judged.
    """
    since, until = month_named(month)
    log, orders = _log_of(operations, since, until)
    if not orders:
        raise BadInputError(f"no change was made in {month}, so that there is nothing to judge")
    panel = Panel.of(log)
    made, missing = ordered_changes(panel, orders)
    around, gaps = operations.rails_in_force()[1].neighbours, np.diff(panel.slots).astype("timedelta64[us]")
    step = timedelta(microseconds=float(np.median(gaps.astype(np.float64)))) if len(gaps) else timedelta(hours=1)
    windows = Windows(*(max(1, round(span / step)) for span in (BEFORE, AFTER)))
    return judge_changes(
        panel, made, windows=windows, missing=missing, neighbours={name: sorted(near) for name, near in around.items()},
        per_day=panel.per_day, period=f"changes of {month}", tick=tick,
    )  # fmt: skip


def _log_of(operations: Operations, since: datetime, until: datetime) -> tuple[Trace, list[Order]]:
    """Return the slots around a month as a log, and the changes in it."""
    space, model = operations.setup.encoder.space, operations.read_model
    rows, orders = list[tuple[str, datetime, int, float]](), list[Order]()
    with operations.looking():
        spans = {
            name: (one.slots.within(since - BEFORE, until + AFTER), one.slots.first)
            for name, one in model.stations.items()
        }
        logged = {
            name: model.points(name, _LOGGED, since=since - BEFORE, until=first) if first is not None else []
            for name, (_, first) in spans.items()
        }
    for name, (numbers, _) in spans.items():
        rows += [row for point in logged[name] if (row := _row(name, point)) is not None]
        for record in model.in_order([id_of(number) for number in numbers]):
            if None not in (record.arm, record.reward):
                rows.append((name, record.when, int(record.arm or 0), float(record.reward or 0.0)))
            if _changes(record) and since <= record.when < until:
                orders.append(_order(record, space[int(record.arm or 0)]))
    if not rows:
        raise BadInputError("no reward around this month is on record, so that there is nothing to judge")
    who, when, arms, rewards = zip(*rows, strict=True)
    times = np.array([at.astimezone(UTC).replace(tzinfo=None) for at in when], dtype="datetime64[us]")
    knobs = {f"runs {knob}": [space[arm][knob] for arm in arms] for knob in space.knobs}
    columns: Any = {"configuration": {knob: f"runs {knob}" for knob in space.knobs}, "state": []}
    return Trace.from_frame({"station": who, "time": times, "reward": rewards, **knobs}, columns), orders


def _row(station: str, point: Point) -> tuple[str, datetime, int, float] | None:
    return None if point.arm is None or point.reward is None else (station, point.at, point.arm, point.reward)


def _changes(record: DecisionRecord) -> bool:
    """Whether a station ran something else from a decision on, and not since a change was taken back."""
    back = record.status == "rolled back"
    return None not in (record.arm, record.running) and record.arm != record.running and not back


def _order(record: DecisionRecord, row: Any) -> Order:
    gain = expected_gain(record)
    at = record.when.astimezone(UTC).replace(tzinfo=None).isoformat()
    sets = {knob: str(value) for knob, value in row.items()}
    return Order(record.station, sets, at, None if gain is None else Estimate(*gain))
