"""What a plan orders, found in mapping and inventory: units, objects, nodes; and the refusals."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from kinband.counters import CounterMap
from kinband.deploy import Item, Receipt, items_of, read_orders, wave_folder
from kinband.deploy.receipt import State, check_waves_before
from kinband.errors import BadInputError, ConflictError

NOW = datetime(2026, 11, 8, 22, tzinfo=UTC)
MAP = """\
station: {object: Cell, name: "{Element}-{id}"}
reward: Good / All
knobs:
  threshold: {attribute: a2, unit: lte-rsrp}
  timer: {attribute: t, object: Report, scale: 0.5}
  mode: {attribute: m}
inventory: inventory.csv
netconf:
  namespaces: {c: "urn:c", v: "urn:v"}
  paths:
    threshold: "/c:Element[id={Element}]/Cell[id={Cell}][c:kind='fdd']/v:a2"
"""
INVENTORY = """\
dn;node;station
Element=7,Cell=1;enb7;
Element=7,Cell=1,Report=1;enb7;
Element=7,Cell=2;;east
"""
PLAN = "station,present_threshold,present_timer,present_mode,set_threshold,set_timer,set_mode,made\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "map.yaml").write_text(MAP)
    (tmp_path / "inventory.csv").write_text(INVENTORY)
    write(tmp_path, "7-1,-100,2.5,fast,-102,3,'=slow,2026-11-08T20:00:00+00:00\n")
    return tmp_path


def write(folder: Path, rows: str, header: str = PLAN) -> None:
    (folder / "plan.csv").write_text(header + rows)


def items(folder: Path, node: str = "") -> list[tuple[str, ...]]:
    orders = read_orders(folder, now=NOW, max_age=timedelta(days=3))
    found = items_of(orders, CounterMap.read(folder / "map.yaml"), node=node)
    return [(one.station, one.node, one.dn, one.attribute, one.before, one.after) for one in found]


def test_knobs_become_attributes_of_objects_by_units_and_inventory(folder: Path) -> None:
    assert items(folder) == [
        ("7-1", "enb7", "Element=7,Cell=1", "a2", "40", "38"),
        ("7-1", "enb7", "Element=7,Cell=1,Report=1", "t", "5", "6"),
        ("7-1", "enb7", "Element=7,Cell=1", "m", "fast", "=slow"),  # without the apostrophe for spreadsheets
    ]


def test_a_path_is_filled_from_the_name_of_the_object(folder: Path) -> None:
    orders = read_orders(folder, now=NOW, max_age=timedelta(days=3))
    threshold, timer, _ = items_of(orders, CounterMap.read(folder / "map.yaml"))
    assert threshold.path == (
        ("{urn:c}Element", (("{urn:c}id", "7"),)),
        ("{urn:c}Cell", (("{urn:c}id", "1"), ("{urn:c}kind", "fdd"))),
        ("{urn:v}a2", ()),
    )
    assert timer.path == ()


def test_the_inventory_may_name_the_station_and_leave_the_node_to_the_caller(folder: Path) -> None:
    write(folder, "east,-100,-102\n", "station,present_threshold,set_threshold\n")
    assert items(folder, "manager:830") == [("east", "manager:830", "Element=7,Cell=2", "a2", "40", "38")]


@pytest.mark.parametrize(
    ("row", "sentence"),
    [
        (
            "9-9,-100,2.5,fast,-102,3,x,",
            "inventory.csv has no object of class Cell for station 9-9: it should have one",
        ),
        ("east,-100,2.5,fast,-102,3,x,", "has no object of class Report for station east"),
        ("7-1,-100.5,2.5,fast,-102,3,x,", "line 4: -100.5 is no value of a2, whose whole numbers are 1 apart"),
        ("7-1,-100,2.5,fast,-102,3.2,x,", "line 5: 3.2 is no value of t, whose whole numbers are 0.5 apart"),
        ("7-1,-100,2.5,fast,low,3,x,", "line 4: a2 is coded as a number, got 'low'"),
        ("7-1,-100,2.5,fast,,3,x,", "does not say what threshold of station 7-1 is or should be"),
        ("7-1,-100,2.5,fast,-102,3,x,yesterday", "'yesterday', which is no time with a zone: plan again"),
        ("", "changes nothing: there is nothing to carry out"),
        ("a,1,1,1,1,1,1,\na,1,1,1,1,1,1,", "has a station twice"),
    ],
)
def test_a_plan_that_cannot_be_carried_out_is_refused(folder: Path, row: str, sentence: str) -> None:
    write(folder, f"{row}\n" if row else "")
    with pytest.raises(BadInputError) as refused:
        items(folder)
    assert sentence in str(refused.value)


def test_other_tables_are_no_plans(folder: Path) -> None:
    write(folder, "a,1\n", "station,set_tilt\n")
    with pytest.raises(BadInputError, match="is no plan: it needs the columns station, present_<knob> and set_<knob>"):
        items(folder)


def test_a_plan_that_is_too_old_is_refused_by_the_time_it_carries(folder: Path) -> None:
    with pytest.raises(ConflictError, match=r"was made 8 days ago, at 2026-11-08T20:00:00\+00:00: plan again"):
        read_orders(folder, now=NOW + timedelta(days=8), max_age=timedelta(days=3))


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("inventory: inventory.csv\n", "", "the mapping has no inventory"),
        ("inventory.csv", "other.csv", "other.csv cannot be read (No such file or directory)"),
        ("threshold: {", "limit: {", "line 11: there is no key 'threshold' in netconf.paths"),
        ("Cell[id={Cell}]", "Cell[id={Sector}]", "has not all the parts that netconf.paths.threshold"),
        ("/v:a2", "/w:a2", "line 11: netconf.paths.threshold has the prefix 'w', which is not among namespaces"),
        ("/c:Element", "/Element", "begins without a prefix: name one of namespaces, such as /c:Element"),
        ("/c:Element", "c:Element", "must be a path such as /c:Cell[id={id}]/a2Threshold"),
        ("[id={Cell}]", "[{Cell}]", "write keys as [id={id}]"),
        ("  paths:", "  path:", "there is no key 'path' in netconf: did you mean 'paths'?"),
    ],
)
def test_what_is_wrong_with_a_mapping_is_said_with_its_line(folder: Path, old: str, new: str, sentence: str) -> None:
    assert old in MAP
    (folder / "map.yaml").write_text(MAP.replace(old, new, 1))
    with pytest.raises(BadInputError) as refused:
        items(folder)
    assert sentence in str(refused.value)


def test_a_receipt_is_read_as_it_was_written_whatever_names_are(folder: Path) -> None:
    (folder / "inventory.csv").write_text('dn,node,station\n"Element==7,Cell=-1",enb7,=1+1\n')
    write(folder, "'=1+1,-100,-102\n", "station,present_threshold,set_threshold\n")
    orders = read_orders(folder, now=NOW, max_age=timedelta(days=3))
    made = tuple(items_of(orders, CounterMap.read(folder / "map.yaml")))
    assert made[0].station == "=1+1"
    receipt = Receipt(made, {"enb7": "pending"}, {}, "kinband-1", until=NOW, at=NOW)
    receipt.write(folder)
    assert Receipt.read(folder) == receipt
    assert "'=1+1" in (folder / "applied.csv").read_text()


def test_a_damaged_receipt_is_told_as_that(folder: Path) -> None:
    (folder / "applied.csv").write_text("station,state\na,half\n")
    with pytest.raises(BadInputError, match=r"applied.csv is damaged .*: look at what the nodes run"):
        Receipt.read(folder)


# --- Waves ----------------------------------------------------------------------------------------------------------

STAGED = "station,present_threshold,set_threshold,wave\n"


def ordered(folder: Path, wave: int | None) -> list[str]:
    return [one.station for one in read_orders(folder, now=NOW, max_age=timedelta(days=3), wave=wave)]


def test_one_wave_is_carried_out_and_what_is_held_back_never(folder: Path) -> None:
    write(folder, "a,-100,-102,2\nb,-100,-102,1\nc,-100,-102,held back\nd,-100,-102,1\n", STAGED)
    assert (ordered(folder, 1), ordered(folder, 2)) == (["b", "d"], ["a"])
    with pytest.raises(BadInputError, match=r"carried out in waves: name one of 1 to 2 with --wave"):
        ordered(folder, None)
    with pytest.raises(BadInputError, match="has no wave 3: it has 1 to 2"):
        ordered(folder, 3)


def test_a_wave_of_a_plan_without_waves_and_a_wave_that_is_none_are_refused(folder: Path) -> None:
    with pytest.raises(BadInputError, match="has no waves: leave --wave out"):
        ordered(folder, 1)
    for odd in ("soon", "0", ""):
        write(folder, f"a,-100,-102,1\nb,-100,-102,{odd}\n", STAGED)
        with pytest.raises(BadInputError, match=f"has a wave '{odd}': a wave is a number"):
            ordered(folder, 1)


def receipt(folder: Path, wave: int, state: State) -> None:
    place = wave_folder(folder, wave)
    place.mkdir()
    item = Item("a", "threshold", "-100", "-102", "enb7", "Element=7,Cell=1", "a2", "40", "38")
    Receipt((item,), {"enb7": state}, {}, "kinband-1", until=NOW, at=NOW, wave=str(wave)).write(place)


def test_a_wave_waits_until_those_before_are_confirmed(folder: Path) -> None:
    check_waves_before(folder, 1)
    with pytest.raises(ConflictError, match=r"wave 1 of the plan .* has not been carried out, and wave 2 builds on it"):
        check_waves_before(folder, 2)
    receipt(folder, 1, "confirmed")
    check_waves_before(folder, 2)
    receipt(folder, 2, "pending")
    with pytest.raises(ConflictError, match=r"wave 2 of the plan .* is not confirmed"):
        check_waves_before(folder, 3)
    receipt(folder, 3, "undone")
    with pytest.raises(ConflictError, match="is not confirmed"):
        check_waves_before(folder, 4)


def test_a_receipt_says_which_wave_and_that_of_a_whole_plan_none(folder: Path) -> None:
    receipt(folder, 2, "confirmed")
    assert Receipt.read(wave_folder(folder, 2)).wave == "2"
    with pytest.raises(BadInputError, match=r"carried out in waves, .*: name the wave: .*wave-2"):
        Receipt.read(folder)
