"""What a plan orders: which attribute of which object, on which node, should go from which value to which."""

import csv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import isnan
from pathlib import Path

from kinband.counters.files import class_of, parts_of
from kinband.counters.formulas import number_of
from kinband.counters.mapping import CounterMap, Knob
from kinband.counters.writing import Path as XmlPath
from kinband.counters.writing import path_of
from kinband.errors import BadInputError, ConflictError
from kinband.planning.plan import HELD_BACK, plain_text
from kinband.stats import counted

# --- A plan ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Order:
    """What one station is to run.

    Attributes:
        station: Its name.
        present: Knob to what it should run now, as the plan writes it.
        wanted: Knob to what it should run then.
    """

    station: str
    present: Mapping[str, str]
    wanted: Mapping[str, str]


def read_orders(plan: Path, *, now: datetime, max_age: timedelta, wave: int | None = None) -> tuple[Order, ...]:
    """Return what the plan in a folder orders; one that is too old is refused.

    Args:
        plan: The folder that `kinband recommend` wrote.
        now: The time.
        max_age: How old it may be, where it says when it was made.
        wave: Which of its waves, of a plan that has waves.

    Example:
        >>> from datetime import UTC
        >>> read_orders(Path("no-such-plan"), now=datetime(2026, 11, 1, tzinfo=UTC), max_age=timedelta(days=3))
        Traceback (most recent call last):
            ...
        kinband.errors.BadInputError: no-such-plan/plan.csv cannot be read (No such file or directory): ...
    """
    file = plan / "plan.csv"
    rows = [{name: plain_text(text or "") for name, text in row.items() if name} for row in _rows(file)]
    knobs = [name.removeprefix("set_") for name in (rows[0] if rows else ()) if name.startswith("set_")]
    if rows and ("station" not in rows[0] or not knobs or any(f"present_{knob}" not in rows[0] for knob in knobs)):
        raise BadInputError(f"{file} is no plan: it needs the columns station, present_<knob> and set_<knob>")
    if not rows:
        raise BadInputError(f"{file} changes nothing: there is nothing to carry out")
    _check_age(file, rows[0].get("made", ""), now=now, max_age=max_age)
    rows = _of_wave(file, rows, wave)
    found = [
        Order(row["station"], *({knob: row[f"{side}_{knob}"] for knob in knobs} for side in ("present", "set")))
        for row in rows
    ]
    if len({one.station for one in found}) < len(found):
        raise BadInputError(f"{file} has a station twice: remove one of the rows")
    return tuple(found)


def _of_wave(file: Path, rows: list[dict[str, str]], wave: int | None) -> list[dict[str, str]]:
    """The rows of one wave; a plan in waves is never carried out at once, with those that are held back."""
    names = [row.get("wave", "") for row in rows]
    if not any(names):
        if wave is not None:
            raise BadInputError(f"{file} has no waves: leave --wave out, or plan with --waves", argument="wave")
        return rows
    if odd := [name for name in names if name != HELD_BACK and not (name.isdecimal() and int(name))]:
        raise BadInputError(f"{file} has a wave {odd[0]!r:.20}: a wave is a number from 1 on, or {HELD_BACK}")
    waves = sorted({int(name) for name in names if name != HELD_BACK})
    there = f"1 to {waves[-1]}" if waves and waves[-1] > 1 else "1"
    if wave is None:
        raise BadInputError(f"{file} is carried out in waves: name one of {there} with --wave", argument="wave")
    if wave not in waves:
        raise BadInputError(f"{file} has no wave {wave}: it has {there}", argument="wave", value=wave)
    return [row for row, name in zip(rows, names, strict=True) if name == str(wave)]


def _rows(file: Path) -> list[dict[str, str]]:
    try:
        with file.open(encoding="utf-8-sig", newline="") as text:
            header = text.readline()
            text.seek(0)
            return list(csv.DictReader(text, delimiter=max(",;\t", key=header.count)))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise BadInputError(f"{file} cannot be read ({why}): check its name") from error


def _check_age(file: Path, made: str, *, now: datetime, max_age: timedelta) -> None:
    if not made:
        return
    try:
        age = now - datetime.fromisoformat(made)
    except (ValueError, TypeError) as error:
        raise BadInputError(f"{file} was made at {made!r:.40}, which is no time with a zone: plan again") from error
    if age > max_age:
        days = counted(age.days, "day") if age.days else f"{age.seconds // 3600} hours"
        raise ConflictError(
            f"the plan was made {days} ago, at {made}", hint="plan again, or allow it with a longer --max-age"
        )


# --- The inventory --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Place:
    """An object of the inventory: its distinguished name, and the node where it is ("" for the only one)."""

    dn: str
    node: str


@dataclass(frozen=True)
class Inventory:
    """Which objects there are, by class and station.

    Example:
        >>> Inventory("inventory.csv", {("a", "Cell"): [Place("Cell=1", "enb7:830")]}).file
        'inventory.csv'
    """

    file: str
    places: Mapping[tuple[str, str], Sequence[Place]]

    @classmethod
    def read(cls, mapping: CounterMap) -> "Inventory":
        """Read the file that a mapping names: the column dn, and if need be node and station."""
        if not mapping.writing.inventory:
            raise BadInputError("the mapping has no inventory: name a CSV file with the columns dn and node")
        file, found = Path(mapping.writing.inventory), dict[tuple[str, str], list[Place]]()
        for row in _rows(file):
            named = {str(name).strip().lower(): (text or "").strip() for name, text in row.items()}
            if not named.get("dn"):
                raise BadInputError(f"{file} needs a column dn with the distinguished name of every object")
            dn = ",".join(parts_of(named["dn"]))
            station = named.get("station") or mapping.stations.named(dn)
            if station:
                found.setdefault((station, class_of(dn)), []).append(Place(dn, named.get("node", "")))
        return cls(str(file), found)

    def place(self, station: str, knob: Knob, *, classes: Sequence[str]) -> Place:
        """Return the object of a station that has a knob; there must be one."""
        wanted = [knob.object] if knob.object else list(classes)
        found = [
            place
            for (name, kind), places in self.places.items()
            if name == station and (kind in wanted or not wanted)
            for place in places
        ]
        if len(found) != 1:
            kinds = " or ".join(wanted) or "any class"
            several = f"{counted(len(found), 'object')} of class {kinds}" if found else f"no object of class {kinds}"
            raise BadInputError(f"{self.file} has {several} for station {station}: it should have one")
        return found[0]


# --- What is to be set where ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Item:
    """One attribute of one object.

    Attributes:
        station: Whose knob it is.
        knob: Which.
        present: What it should be now, as the plan says it.
        wanted: What it should be then.
        node: Where the object is.
        dn: Its distinguished name.
        attribute: What the knob is called there.
        before: What the attribute should be now.
        after: What it should be then; the same where the knob does not move.
        path: Where it is in the node's configuration; empty if the mapping does not say.

    Example:
        >>> from kinband.deploy import Item
        >>> Item("a", "tilt", "2", "4", "", "Cell=1", "tilt", "20", "40").moves
        True
    """

    station: str
    knob: str
    present: str
    wanted: str
    node: str
    dn: str
    attribute: str
    before: str
    after: str
    path: XmlPath = ()

    @property
    def moves(self) -> bool:
        """Whether it is to change."""
        return not same(self.before, self.after)


def items_of(
    orders: Sequence[Order], mapping: CounterMap, *, node: str = "", inventory: Inventory | None = None
) -> list[Item]:
    r"""Return what is to be compared and set where.

    Args:
        orders: What the plan orders.
        mapping: Units, objects, inventory and paths.
        node: The node of objects for which the inventory names none.
        inventory: That of the mapping, if it was read already.

    Example:
        >>> items_of([], CounterMap.parse("station: {object: C}\nreward: A\nknobs: {tilt: {attribute: t}}"))
        Traceback (most recent call last):
            ...
        kinband.errors.BadInputError: the mapping has no inventory: name a CSV file with the columns dn and node
    """
    known = Inventory.read(mapping) if inventory is None else inventory
    return [item for order in orders for item in _items(order, mapping, known, node=node)]


def _items(order: Order, mapping: CounterMap, inventory: Inventory, *, node: str) -> Iterator[Item]:
    for name in order.wanted:
        if name not in mapping.knobs:
            raise BadInputError(f"the plan sets {name}, which is not among the knobs of the mapping: add it there")
        knob = mapping.knobs[name]
        place = inventory.place(order.station, knob, classes=mapping.stations.objects)
        before, after = (knob.text_of(_value(side[name], order, name)) for side in (order.present, order.wanted))
        template = mapping.writing.paths.get(name, ())
        path = path_of(template, place.dn)
        if path is None:
            raise BadInputError(f"{place.dn} has not all the parts that netconf.paths.{name} of the mapping asks for")
        yield Item(
            order.station, name, order.present[name], order.wanted[name], place.node or node, place.dn,
            knob.attribute, before, after, path,
        )  # fmt: skip


def _value(text: str, order: Order, name: str) -> float | str:
    if not text.strip():
        raise BadInputError(f"the plan does not say what {name} of station {order.station} is or should be")
    number = number_of(text)
    return text if isnan(number) else number


def same(one: str, other: str) -> bool:
    """Return whether two texts of an attribute say the same.

    Example:
        >>> same("40", "40.0"), same("on", "off")
        (True, False)
    """
    a, b = number_of(one), number_of(other)
    return one.strip() == other.strip() if isnan(a) or isnan(b) else abs(a - b) <= 1e-9 * max(1.0, abs(a))
