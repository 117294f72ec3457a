"""Counters and configuration become a log: rows by hand, and a sentence for everything that can be wrong."""

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.support.network_files import FORMS, Info, bulk_text, pm_text, write

from kinband import Trace
from kinband.cli import main
from kinband.counters import CounterMap, join, read_trace, survey
from kinband.counters.proposal import propose
from kinband.errors import BadInputError

MAP = """
station: {object: Cell, name: "{ManagedElement}-{id}"}
kpis: {good: Good / All}
state: {users: Users}
reward: good
samples: All
knobs: {a2: {attribute: a2ThresholdRsrp, unit: lte-rsrp}}
configuration: {kind: changes}
"""
DAY = "2026-11-01T"
CM = f"""DN,time,a2ThresholdRsrp
"DC=a,ManagedElement=7,ENBFunction=1,Cell=1",{DAY}00:00:00Z,40
"DC=a,ManagedElement=7,ENBFunction=1,Cell=2",{DAY}00:00:00Z,44
"""


def network(folder: Path, periods: int = 4, *, form: str = "numbered", **changed: str) -> Path:
    """Cells 1 and 2 for some quarters of an hour from noon; `changed` has values such as c1_p2_Good."""
    pm = folder / "pm"
    pm.mkdir(exist_ok=True)
    for p in range(periods):
        end = f"{DAY}{12 + (p + 1) // 4}:{15 * ((p + 1) % 4):02}:00Z"
        values = {
            f"ENBFunction=1,Cell={c}": {
                "Good": changed.get(f"c{c}_p{p}_Good", str(10 * c + p)),
                "All": changed.get(f"c{c}_p{p}_All", "50"),
                "Users": changed.get(f"c{c}_p{p}_Users", str(100 * c + p)),
            }
            for c in (1, 2)
        }
        write(pm / f"{p}.xml.gz", pm_text([Info(values, end=end)], form=form))
    return pm


def made(folder: Path, *, text: str = MAP, cm: str = CM, **options: Any) -> Any:
    (folder / "cm.csv").write_text(cm)
    return join(network(folder, **options), CounterMap.parse(text), cm=folder / "cm.csv")


@pytest.mark.parametrize("form", FORMS)
def test_a_row_has_the_state_of_the_period_before(tmp_path: Path, form: str) -> None:
    joined = made(tmp_path, form=form)
    trace = joined.trace
    assert trace.station.tolist() == ["7-1"] * 3 + ["7-2"] * 3
    assert trace.reward.tolist() == pytest.approx([11 / 50, 12 / 50, 13 / 50, 21 / 50, 22 / 50, 23 / 50])
    assert trace.state[:, 0].tolist() == [100, 101, 102, 200, 201, 202]
    assert trace.configuration["a2"].tolist() == [-100] * 3 + [-96] * 3
    assert trace.time is not None
    assert str(trace.time[0]) == "2026-11-01T12:15:00.000000"
    assert trace.sample_count is not None
    assert trace.sample_count.tolist() == [50] * 6
    assert joined.periods == 8
    assert joined.lost == {"there is no period before it": 2}


def test_the_reward_keeps_its_name_from_the_mapping_to_the_log_and_back(tmp_path: Path) -> None:
    trace = made(tmp_path).trace
    assert trace.reward_name == "good"
    for name in ("log.parquet", "log.csv"):
        trace.write(tmp_path / name)
        again = Trace.read(tmp_path / name)
        assert again.reward_name == "good"
        assert again == trace


def test_a_zero_denominator_and_an_empty_value_take_a_row_away(tmp_path: Path) -> None:
    joined = made(tmp_path, c1_p1_All="0", c2_p1_Users="", c1_p3_Good="NIL")
    assert joined.lost["the reward is missing"] == 2
    assert joined.lost["the state users is missing in the period before"] == 1
    assert len(joined.trace) == 3


def test_counters_of_several_blocks_and_classes_are_joined(tmp_path: Path) -> None:
    (tmp_path / "cm.csv").write_text(CM)
    blocks = [
        Info({"ENBFunction=1,Cell=1": {"Good": "3"}}),
        Info({"ENBFunction=1,Cell=1": {"All": "4"}}),
        Info({"ENBFunction=1,Part=1": {"Users": "9"}}),
    ]
    write(tmp_path / "a.xml", pm_text(blocks))
    text = (
        MAP.replace("object: Cell", "object: [Cell, Part]")
        .replace("state: {users: Users}", "")
        .replace("reward: good", "reward: good + Users")
    )
    assert read_trace(tmp_path / "a.xml", CounterMap.parse(text), cm=tmp_path / "cm.csv").reward.tolist() == [9.75]


def test_a_counter_that_two_classes_have_is_named_with_its_class(tmp_path: Path) -> None:
    (tmp_path / "cm.csv").write_text(CM)
    both = [Info({f"ENBFunction=1,{kind}=1": {"Down": value}}) for kind, value in (("Cell", "3"), ("Part", "5"))]
    write(tmp_path / "a.xml", pm_text(both))
    text = 'station: {object: [Cell, Part], name: "{ManagedElement}-{id}"}\nreward: 10 * Part.Down + Cell.Down\n'
    text += "knobs: {a2: {attribute: a2ThresholdRsrp}}\nconfiguration: {kind: changes}\n"
    assert read_trace(tmp_path / "a.xml", CounterMap.parse(text), cm=tmp_path / "cm.csv").reward.tolist() == [53.0]
    with pytest.raises(BadInputError, match="the reward is missing"):
        read_trace(tmp_path / "a.xml", CounterMap.parse(text.replace("Part.", "")), cm=tmp_path / "cm.csv")


def test_values_that_two_files_disagree_on_are_left_out_and_the_files_named(tmp_path: Path) -> None:
    pm = network(tmp_path)
    write(pm / "z.xml", pm_text([Info({"ENBFunction=1,Cell=1": {"Good": "49"}}, end=f"{DAY}12:30:00Z")]))
    joined = made(tmp_path)
    assert joined.lost["the reward is missing"] == 1
    assert joined.survey.differing == {(str(pm / "1.xml.gz"), str(pm / "z.xml")): 1}


def test_cumulative_counters_are_differenced_and_wrap(tmp_path: Path) -> None:
    text = MAP + "counters: {Good: {cumulative: true, wrap: 256}}\n"
    grown = {f"c1_p{p}_Good": value for p, value in enumerate(["240", "250", "4", "14", "3"])}
    trace = made(tmp_path, text=text, periods=5, **grown).trace
    assert trace.reward[trace.station == "7-1"].tolist() == pytest.approx([10 / 50, 10 / 50, 10 / 50])


def test_a_reset_without_a_wrap_is_missing(tmp_path: Path) -> None:
    text = MAP + "counters: {Good: {cumulative: true}}\n"
    trace = made(tmp_path, text=text, c1_p2_Good="2").trace
    assert trace.reward[trace.station == "7-1"].tolist() == pytest.approx([1 / 50, 11 / 50])


def test_a_counter_that_only_grows_is_suspected_unless_the_mapping_says_so(tmp_path: Path) -> None:
    fair = {f"c{c}_p{p}_{name}": str(20 + 7 * p % 5) for c in (1, 2) for p in range(30) for name in ("Good", "Users")}
    grown = {f"c{c}_p{p}_Good": str(10 * p) for c in (1, 2) for p in range(30)}
    assert made(tmp_path, periods=30, **fair).notes == ()
    [said] = made(tmp_path, periods=30, **(fair | grown)).notes
    assert said.startswith("Good grows from nearly every period to the next")
    assert said.endswith("counters: {Good: {cumulative: true}}")
    text = MAP + "counters: {Good: {cumulative: true}}\n"
    assert made(tmp_path, text=text, periods=30, **(fair | grown)).notes == ()


def test_stations_that_end_as_others_begin_are_suspected_to_be_renamed(tmp_path: Path) -> None:
    for file in (network(tmp_path) / "2.xml.gz", tmp_path / "pm" / "3.xml.gz"):
        text = gzip.decompress(file.read_bytes()).replace(b"Cell=2", b"Cell=9")
        file.write_bytes(gzip.compress(text))
    (tmp_path / "cm.csv").write_text(CM)
    [said] = join(tmp_path / "pm", CounterMap.parse(MAP), cm=tmp_path / "cm.csv").notes
    assert said.startswith(
        "7-2 end at 2026-11-01T12:30:00Z, when 7-9 begin: if they were renamed, say so in the mapping"
    )
    known = CounterMap.parse(MAP + "aliases: {7-9: 7-2}\n")
    assert join(tmp_path / "pm", known, cm=tmp_path / "cm.csv").notes == ()


# --- The configuration ------------------------------------------------------------------------------------------------

OWN = '"DC=a,ManagedElement=7,ENBFunction=1,Cell=1"'


def test_a_change_within_a_period_takes_that_period_away(tmp_path: Path) -> None:
    joined = made(tmp_path, cm=CM + f"{OWN},{DAY}12:20:00Z,30\n")
    trace = joined.trace
    assert trace.configuration["a2"][trace.station == "7-1"].tolist() == [-110, -110]
    assert joined.lost["a2 changed within it or between snapshots"] == 1


def test_a_change_at_the_border_of_periods_takes_none_away(tmp_path: Path) -> None:
    trace = made(tmp_path, cm=CM + f"{OWN},{DAY}13:30:00+01:00,30\n").trace
    assert trace.configuration["a2"][trace.station == "7-1"].tolist() == [-100, -110, -110]


def test_between_snapshots_a_value_is_known_where_both_agree(tmp_path: Path) -> None:
    text = MAP.replace("changes", "snapshots")
    later = "".join(f"{OWN},{DAY}{time}:00Z,{value}\n" for time, value in [("12:30", 40), ("12:45", 41), ("13:00", 41)])
    joined = made(tmp_path, text=text, cm=CM + later)
    trace = joined.trace
    assert trace.station.tolist() == ["7-1", "7-1"]
    assert trace.configuration["a2"].tolist() == [-100, -99]
    assert joined.lost["a2 changed within it or between snapshots"] == 1
    assert joined.lost["a2 is not known"] == 3  # nobody looked at cell 2 again


@pytest.mark.parametrize("vendor", [True, False])
def test_bulk_files_are_read_as_a_change_log(tmp_path: Path, vendor: bool) -> None:
    cells = {str(c): {"a2ThresholdRsrp": str(40 + c)} for c in (1, 2)}
    write(tmp_path / "0.xml", bulk_text(cells, time=f"{DAY}00:00:00Z", vendor=vendor))
    changed = bulk_text({"1": {"a2ThresholdRsrp": "50"}}, time=f"{DAY}12:30:00Z", modifier="update", vendor=vendor)
    write(tmp_path / "1.xml.gz", changed)
    trace = join(network(tmp_path), CounterMap.parse(MAP), cm=[tmp_path / "0.xml", tmp_path / "1.xml.gz"]).trace
    assert trace.configuration["a2"].tolist() == [-99, -90, -90, -98, -98, -98]
    with pytest.raises(BadInputError, match="kind: changes"):
        join(tmp_path / "pm", CounterMap.parse(MAP.replace("changes", "snapshots")), cm=tmp_path / "1.xml.gz")


def test_a_long_change_log_and_names_as_values_are_read(tmp_path: Path) -> None:
    cm = "DN;time;attribute;value\n" + "".join(
        f"DC=a,ManagedElement=7,ENBFunction=1,Cell={c};{DAY}00:00:00Z;mode;{mode}\n"
        for c, mode in ((1, "eco"), (2, "max"))
    )
    text = MAP.replace("a2ThresholdRsrp, unit: lte-rsrp", "mode")
    assert set(made(tmp_path, text=text, cm=cm).trace.configuration["a2"].tolist()) == {"eco", "max"}
    with pytest.raises(BadInputError, match="a2 has a unit, scale or offset, but mode is 'eco'"):
        made(tmp_path, text=MAP.replace("a2ThresholdRsrp", "mode"), cm=cm)


def test_an_alias_joins_a_renamed_station(tmp_path: Path) -> None:
    cm = CM.replace("Cell=2", "Cell=old")
    joined = made(tmp_path, text=MAP + "aliases: {7-old: 7-2}\n", cm=cm)
    assert joined.trace.stations == ("7-1", "7-2")


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "cp1252"])
def test_a_dump_is_read_however_a_tool_writes_it(tmp_path: Path, encoding: str) -> None:
    head = "Export of Übersicht;;\n\nDN;Date and time;a2ThresholdRsrp\n"
    rows = [(1, "01.11.2026 00:00", "40,0"), (2, "01.11.2026 00:00", "44"), (1, "01.11.2026 12:30", "30")]
    lines = [f"DC=a,ManagedElement=7,ENBFunction=1,Cell={cell};{when};{value}" for cell, when, value in rows]
    (tmp_path / "cm.csv").write_bytes((head + "\n".join([*lines, ";;"])).encode(encoding))
    trace = join(network(tmp_path), CounterMap.parse(MAP), cm=tmp_path / "cm.csv").trace
    assert trace.configuration["a2"].tolist() == [-100, -110, -110, -96, -96, -96]


def test_a_zone_in_the_dates_of_a_dump_is_heeded(tmp_path: Path) -> None:
    cm = "".join(f'"DC=a,ManagedElement=7,ENBFunction=1,Cell=1",{when},{value}\n' for when, value in
                 [("01.11.2026 01:00 +0100", 40), ("01.11.2026 13:30 +0100", 30)])  # fmt: skip
    trace = made(tmp_path, text=MAP + "zone: Asia/Tokyo\n", cm="DN,time,a2ThresholdRsrp\n" + cm).trace
    assert trace.configuration["a2"].tolist() == [-100, -110, -110]


def test_a_log_of_changes_that_is_taken_for_snapshots_is_suspected(tmp_path: Path) -> None:
    cm = CM + "".join(
        f"{OWN},{DAY}{when}:00Z,{30 + n}\n" for n, when in enumerate(["12:20", "12:35", "12:50", "13:05"])
    )
    other = [("12:31", 44), ("12:50", 45), ("13:10", 46)]
    cm += "".join(f"{OWN.replace('Cell=1', 'Cell=2')},{DAY}{when}:00Z,{value}\n" for when, value in other)
    [said] = made(tmp_path, text=MAP.replace("changes", "snapshots"), cm=cm).notes
    assert said.startswith("62 % of the periods lie between snapshots that differ")
    assert said.endswith("write configuration: {kind: changes} in the mapping")
    assert made(tmp_path, cm=cm).notes == ()


def test_zones_of_dumps_are_those_of_the_mapping(tmp_path: Path) -> None:
    cm = CM + f"{OWN},{DAY}13:30:00,30\n"
    trace = made(tmp_path, text=MAP + "zone: Europe/Berlin\n", cm=cm).trace
    assert trace.configuration["a2"][:3].tolist() == [-100, -110, -110]


# --- What can be wrong --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("Good / All", "Good / Al", r"line 3: no station has the counter 'Al': did you mean 'All'\?"),
        ("Good / All", "Good /", r"line 3: the formula 'Good /' ends where"),
        ("lte-rsrp", "furlong", "line 7: there is no unit 'furlong'"),
        ("a2ThresholdRsrp", "a2ThresholdRsr", "line 7: no object of class Cell has the attribute .*did you mean"),
        (
            "object: Cell",
            "object: Sector",
            "line 2: no object is a station by the mapping; there are Cell: check station",
        ),
        ("object: Cell", "object: Cells", "line 2: no object is a station .*: did you mean 'Cell'"),
        ("reward: good", "", "a mapping needs reward"),
        ("samples:", "sample:", r"line 6: there is no key 'sample' at the top of the file: did you mean 'samples'\?"),
        ("users: Users", "a2: Users", "is a knob and in state"),
        ("kind: changes", "kind: sometimes", "kind must be snapshots or changes"),
        ('"{ManagedElement}-{id}"', "cell", "line 2: 'cell' names every station alike"),
        ("object: Cell,", "pattern: '(', object: Cell,", "station needs object"),
        ("{users: Users}", "{users: sum(Users)}\ncounters: {Users: {cumulative: true}}", "is cumulative and each"),
    ],
)
def test_a_wrong_mapping_gets_one_sentence(tmp_path: Path, old: str, new: str, sentence: str) -> None:
    assert old in MAP
    with pytest.raises(BadInputError, match=sentence):
        made(tmp_path, text=MAP.replace(old, new, 1))


@pytest.mark.parametrize(
    ("cm", "sentence"),
    [
        (CM.replace("ManagedElement=7", "ManagedElement=8"), "counters are of stations such as '7-1', .* of '8-1'"),
        (CM.replace("00:00:00Z", "23:00:00Z"), "give configuration from before the first period"),
        (CM.replace("time", "when"), "no column 'time'; the columns are"),
        (CM + "a,b\n", "line 4 has not as many columns"),
        (CM.replace(f"{DAY}00:00:00Z", "noon"), "line 2: 'noon' is no time"),
    ],
)
def test_a_wrong_configuration_gets_one_sentence(tmp_path: Path, cm: str, sentence: str) -> None:
    with pytest.raises(BadInputError, match=sentence):
        made(tmp_path, cm=cm)


def test_periods_of_two_lengths_must_be_chosen_from(tmp_path: Path) -> None:
    pm = network(tmp_path)
    hour = Info(
        {"ENBFunction=1,Cell=1": {"Good": "9", "All": "9", "Users": "1"}}, end=f"{DAY}13:00:00Z", duration="PT1H"
    )
    write(pm / "hour.xml", pm_text([hour]))
    with pytest.raises(BadInputError, match="periods of 900 s and 3600 s"):
        made(tmp_path)
    assert len(made(tmp_path, text=MAP + "period: 15min\n").trace) == 6


# --- The command ------------------------------------------------------------------------------------------------------


def test_the_command_proposes_a_mapping_that_makes_a_log(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    network(tmp_path)
    (tmp_path / "cm.csv").write_text(CM + f"{OWN},{DAY}12:30:00Z,30\n")
    assert main(["counters", "pm", "--cm", "cm.csv", "--propose", "map.yaml"]) == 0
    assert main(["counters", "pm", "--cm", "cm.csv", "--map", "map.yaml", "--out", "log.parquet"]) == 0
    shown = capsys.readouterr().out
    assert "6 rows of 2 stations from 8 periods of stations in 4 files" in shown
    trace = Trace.read("log.parquet")
    assert trace.stations == ("1", "2")
    assert np.unique(trace.configuration["a2thresholdrsrp"]).tolist() == [-110, -100, -96]
    for out in ("log.parquet", "log.csv", "log.csv"):  # what kinband wrote it may write anew
        assert main(["counters", "pm", "--cm", "cm.csv", "--map", "map.yaml", "--out", out]) == 0


@pytest.mark.parametrize(
    ("counters", "reward"),
    [
        (["CARR.WBCQIDist.Bin0", "DRB.UEThpDl", "RRC.ConnMean"], "DRB.UEThpDl"),
        (["CARR.WBCQIDist.Bin0", "HO.ExeAtt", "HO.ExeSucc", "ThroughputDl"], "ho_exesucc_rate"),
        (["CARR.WBCQIDist.Bin0", "ThroughputFail", "RRC.ConnMean"], None),
    ],
)
def test_the_reward_is_proposed_where_a_name_speaks_of_one_and_else_left_open(
    counters: list[str], reward: str | None, tmp_path: Path
) -> None:
    write(tmp_path / "a.xml", pm_text([Info({"Cell=1": dict.fromkeys(counters, "1")}, end=f"{DAY}12:15:00Z")]))
    text = propose(survey(tmp_path))
    if reward is not None:
        assert f'\nreward: "{reward}"   # the higher the better\n' in text
        return
    assert "\n# reward: name one   # the higher the better; no counter is called as such are\n" in text
    with pytest.raises(BadInputError, match="a mapping needs reward"):
        CounterMap.parse(text)


@pytest.mark.parametrize("changes", [True, False])
def test_what_was_changed_is_proposed_as_knob_and_an_identity_is_not(tmp_path: Path, changes: bool) -> None:
    hours = [0, 6] if changes else [0, 6, 12]
    cells = {hour: {str(c): {"aPci": str(c), "a2ThresholdRsrp": str(40 + hour * c)} for c in (1, 2)} for hour in hours}
    for hour, values in cells.items():
        only = {"2": values["2"]} if changes and hour else values
        write(tmp_path / f"cm{hour}.xml", bulk_text(only, time=f"{DAY}{hour:02}:00:00Z"))
    text = propose(survey(network(tmp_path)), cm=str(tmp_path / "cm*.xml"))
    assert list(CounterMap.parse(text).knobs) == ["a2thresholdrsrp"]
    assert "#   apci" not in text
    assert '# apci: {attribute: "aPci"}   # differs between objects, was never changed' in text
    assert CounterMap.parse(text).changes == changes


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["nowhere"], "there is no file nowhere"),
        (["cm.csv"], "cm.csv, which is no measurement file"),
        (["cut.xml"], "cut.xml: it is cut off or damaged"),
        (["pm", "--out", "log.csv"], "--out needs a mapping"),
        (["pm", "--map", "map.yaml"], "give it with --cm"),
        (["pm", "--map", "map.yaml", "--cm", "cm.csv"], "map.yaml cannot be read"),
        (["pm", "--propose", "pm"], "pm exists"),
        (["pm", "--map", "m.yaml", "--cm", "cm.csv", "--out", "log.doc"], "none of the suffixes"),
        (["pm", "--map", "m.yaml", "--cm", "cm.csv", "--out", "cm.csv"], "cm.csv exists and is no log that kinband"),
    ],
)
def test_the_command_answers_nonsense_with_a_sentence(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    sentence: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    network(tmp_path)
    (tmp_path / "cm.csv").write_text(CM)
    write(tmp_path / "cut.xml", pm_text([Info({"Cell=1": {"a": "1"}})])[:-9])
    assert main(["counters", *arguments]) == 2
    error = capsys.readouterr().err
    assert sentence in error
    assert (tmp_path / "cm.csv").read_text() == CM
    assert len(error.strip().splitlines()) == 1
