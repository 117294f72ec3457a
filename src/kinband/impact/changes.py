"""Which stations changed when: as a plan or a receipt says, or as the log shows by itself."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np

from kinband.errors import BadInputError
from kinband.impact.panel import Panel
from kinband.judging import LEAST_AFTER, LEAST_BEFORE
from kinband.planning.plan import HELD_BACK, LAST_ROW, RECEIPT, plain_text
from kinband.stats import Estimate, listed
from kinband.trace.columns import moment_like, station_names, table_of
from kinband.trace.files import read_table


@dataclass(frozen=True)
class Change:
    """A station that ran another configuration from a slot on.

    Attributes:
        station: Its number in the panel.
        slot: The first slot with the new configuration.
        begins: The first slot of what it ran before.
        ends: The first slot in which it ran something else again; the number of slots if it never did.
        rolled_back: Whether that was what it had run before.
        expected: The gain that a plan expected.
    """

    station: int
    slot: int
    begins: int
    ends: int
    rolled_back: bool = False
    expected: Estimate | None = None


def found_changes(panel: Panel) -> list[Change]:
    """Return the changes that a log shows: from what a station ran for long to what it ran for some time, or undid.

    What is tried slot by slot is no change, and a return to what ran before is the end of one.

    Example:
        >>> from kinband import Trace
        >>> log = {"station": ["a"] * 40, "time": range(40), "tilt": [2] * 30 + [4] * 10, "reward": [0.5] * 40}
        >>> found_changes(Panel.of(Trace.from_frame(log, {"configuration": ["tilt"]})))[0].slot
        30
    """
    found = []
    for station in range(len(panel.stations)):
        undone = -1
        for change in _moves(panel, station):
            long = change.slot - change.begins >= LEAST_BEFORE
            lasts = change.ends - change.slot >= LEAST_AFTER or change.rolled_back
            if long and lasts and change.slot != undone:
                found.append(change)
                undone = change.ends if change.rolled_back else -1
    return sorted(found, key=lambda change: (change.slot, change.station))


def _moves(panel: Panel, station: int) -> list[Change]:
    """All changes of configuration of a station."""
    stretches = panel.stretches(station)
    after = [*stretches[2:], None]
    return [
        Change(station, start, begins, end, rolled_back=following is not None and following[2] == ran)
        for (begins, _, ran), (start, end, _), following in zip(stretches, stretches[1:], after, strict=False)
    ]


# --- What a file says -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Order:
    """What a file says of one station.

    Attributes:
        station: Its name.
        set: What it was to run, by knob, as text; empty where the file does not say.
        at: When, where the file says so.
        expected: The gain that was expected.
        undone: Whether the file says that it was taken back.
        since: What is older is not its doing, where the file says so: the last row of the log that its plan was learned
            from, or when the plan was made.
        wave: Which wave of its plan it belongs to, where the plan has waves.
    """

    station: str
    set: Mapping[str, str]
    at: Any = None
    expected: Estimate | None = None
    undone: bool = False
    since: Any = None
    wave: str = ""


PLAN = "plan.csv"
_TIMES = ("time", "at", "applied_at", "confirmed_at", "date")


def read_orders(path: Path, *, station: str = "station", **written: Any) -> list[Order]:
    """Return what a file of changes says: a plan, a receipt of what was carried out, a folder with these, or a list.

    Of a folder the receipt counts, or those of its waves, with the gains that the plan expected; the folder of a wave
    is within that of its plan. A list needs a column of stations, and a time or what was set (`set_<knob>`). What a
    plan holds back is no change, and what was tried before it was made is none of its changes.
    """
    if path.name == RECEIPT and path.is_file():
        path = path.parent
    if not path.is_dir():
        return [one for one in _orders(path, station=station, **written) if one.wave != HELD_BACK]
    plan, receipts = (
        path / PLAN,
        [one for one in (path / RECEIPT, *sorted(path.glob(f"wave-*/{RECEIPT}"))) if one.is_file()],
    )
    if not plan.is_file() and not receipts:
        raise BadInputError(f"{path} holds neither {RECEIPT} nor {PLAN}: name the file with the changes")
    if not plan.is_file() and path.name.startswith("wave-"):
        plan = path.parent / PLAN
    planned = _orders(plan, station=station, **written) if plan.is_file() else []
    if not receipts:
        return [one for one in planned if one.wave != HELD_BACK]
    plans = {order.station: order for order in planned}
    done = [one for receipt in receipts for one in _orders(receipt, station=station, **written)]
    return [_as_planned(one, plans[one.station]) if one.station in plans else one for one in done]


def _as_planned(done: Order, planned: Order) -> Order:
    """What was carried out, with what its plan says of it."""
    return replace(done, expected=done.expected or planned.expected, since=done.since or planned.since)


def _orders(path: Path, *, station: str, **written: Any) -> list[Order]:
    names = read_table(path, **written, noted=False).cleaned.table.column_names
    table = table_of(read_table(path, text=names, **written, noted=False).cleaned.table, what=str(path))
    name = next((one for one in (station, "station") if one in table.names), None)
    if name is None:
        raise BadInputError(f"{path} has no column {station!r} for the stations; it has {', '.join(map(repr, names))}")
    who = station_names(table.get(name), label=f"column {name!r} of {path}").tolist()
    columns = {one: [_text(cell) for cell in table.get(one).tolist()] for one in table.names if one != name}
    if {"knob", "set"} <= columns.keys():
        return _long(who, columns)
    return [_order(one, {name: cells[row] for name, cells in columns.items()}) for row, one in enumerate(who)]


def _long(who: Sequence[str], columns: Mapping[str, list[str]]) -> list[Order]:
    """The orders of a receipt that has one row for each knob of a station."""
    rows: dict[str, list[int]] = {}
    for row, name in enumerate(who):
        rows.setdefault(name, []).append(row)
    found = []
    for name, own in rows.items():
        first = {column: cells[own[0]] for column, cells in columns.items()}
        sets = {f"set_{columns['knob'][row]}": columns["set"][row] for row in own}
        found.append(_order(name, {**first, **sets}))
    return found


def _order(station: str, row: Mapping[str, str]) -> Order:
    at = next((row[name] for name in _TIMES if row.get(name)), None)
    sets = {name.removeprefix("set_"): value for name, value in row.items() if name.startswith("set_") and value}
    expected = None
    if row.get("expected_gain"):
        low, high = (row.get(name) or "nan" for name in ("gain_low", "gain_high"))
        expected = Estimate(float(row["expected_gain"]), float(low), float(high))
    since, undone = row.get(LAST_ROW) or row.get("made") or None, row.get("state") == "undone"
    return Order(station, sets, at, expected, undone=undone, since=since, wave=row.get("wave", ""))


def _text(cell: object) -> str:
    return "" if cell is None else plain_text(str(cell))


def ordered_changes(panel: Panel, orders: Sequence[Order]) -> tuple[list[Change], list[tuple[Order, str]]]:
    """Return the changes that were ordered as the log shows them, and the orders that it does not show, with why.

    What a station tried before its plan was made is none of them.
    """
    _check_knobs(panel, orders)
    number = {name: place for place, name in enumerate(panel.stations)}
    found, missing = list[Change](), list[tuple[Order, str]]()
    for order in orders:
        if order.station not in number:
            missing.append((order, "not in the log"))
            continue
        first = _first_slot(panel, order)
        moves = [
            move for move in _moves(panel, number[order.station]) if move.slot >= first and _fits(panel, move, order)
        ]
        if not moves:
            missing.append((order, "never seen"))
            continue
        chosen = _closest(panel, moves, order)
        undone = chosen.rolled_back or order.undone
        found.append(Change(chosen.station, chosen.slot, chosen.begins, chosen.ends, undone, order.expected))
    return sorted(found, key=lambda change: (change.slot, change.station)), missing


def _check_knobs(panel: Panel, orders: Sequence[Order]) -> None:
    """Refuse orders for knobs that the log does not have: any move would pass for theirs."""
    has = list(panel.configurations[0])
    if unknown := [knob for order in orders for knob in order.set if knob not in has]:
        raise BadInputError(
            f"the changes set the knob {unknown[0]!r}, and the log has {listed(list(map(repr, has)))}: name the column "
            "of the log with --configuration, or the file of these changes with --changes",
            code="unknown_knob", argument="changes", value=unknown[0],
        )  # fmt: skip


def _first_slot(panel: Panel, order: Order) -> int:
    """The first slot that an order may have had a part in; 0 where that is not known, or not in the log's kind."""
    if order.since is None:
        return 0
    try:
        since = _moment(panel, order.since)
    except (BadInputError, ValueError):
        return 0
    if not _zoned(order.since):  # a time of the log
        return int(np.searchsorted(panel.slots, since, side="right"))
    wall = _moment(panel, datetime.fromisoformat(order.since).replace(tzinfo=None).isoformat())
    ends = np.append(panel.slots[1:], panel.slots[-1])  # the log may be in local time, and a slot has begun
    return int(np.searchsorted(ends, min(since, wall), side="right"))


def _zoned(text: str) -> bool:
    try:
        return datetime.fromisoformat(text).tzinfo is not None
    except ValueError:
        return False


def _moment(panel: Panel, text: str) -> Any:
    return moment_like(text if panel.dated else float(text), panel.slots)


def _fits(panel: Panel, move: Change, order: Order) -> bool:
    """Whether a move leads to what was ordered."""
    runs = panel.configurations[int(panel.runs[move.slot, move.station])]
    return all(_same(runs[knob], value) for knob, value in order.set.items())


def _same(value: object, text: str) -> bool:
    try:
        return float(str(value)) == float(text)
    except ValueError:
        return str(value) == text


def _closest(panel: Panel, moves: Sequence[Change], order: Order) -> Change:
    """The move closest to the time of the order; the last one where the order has none."""
    if order.at is None:
        return moves[-1]
    try:
        at = _moment(panel, order.at)
    except (BadInputError, ValueError):
        raise BadInputError(
            f"the changes give {order.at!r:.40} as the time of station {order.station!r}, and the times of the log are "
            f"such as {panel.slots[0]}: write them alike"
        ) from None
    return min(moves, key=lambda move: abs((panel.slots[move.slot] - at).astype(np.float64)))
