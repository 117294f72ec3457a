"""Exports as they come: however a file is written, the same log is read, and all that is wrong is said at once."""

import gzip
import sys
import warnings
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kinband.errors import BadInputError
from kinband.trace import Trace, files
from kinband.trace.cells import cleaned
from kinband.trace.problems import check_knobs
from kinband.trace.rewards import strays

COLUMNS: dict[str, Any] = {"station": "cell", "reward": "thp", "configuration": ["tilt"], "time": "when"}
ROWS = [("A1", f"2024-05-{day:02} 14:00", 2 + day % 3, 0.25 * day) for day in range(1, 29)]


def text(
    delimiter: str = ",", decimal: str = ".", date: str = "{2}-{1}-{0} {3}", head: str = "", again: bool = False
) -> str:
    """The log, as one vendor or the other writes it."""
    lines = [f"{head}cell{delimiter}when{delimiter}tilt{delimiter}thp"]
    for number, (cell, when, tilt, thp) in enumerate(ROWS):
        day, hour = when.split()
        year, month, one = day.split("-")
        cells = [cell, date.format(one, month, year, hour), str(tilt), str(thp).replace(".", decimal)]
        lines += [lines[0]] if again and number == 9 else []
        lines.append(delimiter.join(cells))
    return "\n".join(lines) + "\n"


def expected() -> Trace:
    cells, when, tilt, thp = zip(*ROWS, strict=True)
    return Trace.from_frame({"cell": cells, "when": list(when), "tilt": tilt, "thp": thp}, COLUMNS)


@pytest.mark.parametrize(
    "written",
    [
        text(), text(";"), text("\t"), text("|"), text(";", ","), text("\t", ","),
        text(";", date="{0}.{1}.{2} {3}"), text(date="{1}/{0}/{2} {3}"), text(date="{0}/{1}/{2} {3}:00"),
        text(date="{0}-May-{2} {3}"), text(date="{2}/{1}/{0} {3}"), text(date="{1}/{0}/{2} 2:00 PM"),
        text(";", ",", head="Report of May; made by hand\n\n"), text(head="# one\n# two, with comma\n"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252"])
def test_however_it_is_written_it_is_the_same_log(written: str, encoding: str, tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_bytes(written.encode(encoding))
    assert Trace.read(tmp_path / "log.csv", COLUMNS) == expected()


@pytest.mark.parametrize("zone", ["+02:00", "+0200", "+02"])
def test_zones_are_read_with_and_without_a_colon(zone: str, tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text(text(date="{0}.{1}.{2} 16:00" + zone))
    assert Trace.read(tmp_path / "log.csv", COLUMNS) == expected()


def test_dates_written_in_several_ways_may_stand_in_one_column(tmp_path: Path) -> None:
    lines = text().splitlines()
    lines[20] = lines[20].replace("2024-05-20 14:00", "20.05.2024 14:00")
    lines[21] = lines[21].replace("2024-05-21 14:00", "21/05/2024 14:00:00")
    (tmp_path / "log.csv").write_text("\n".join(lines))
    assert Trace.read(tmp_path / "log.csv", COLUMNS) == expected()


def day_of(dates: list[str], date_format: str | None = None) -> list[str]:
    import pyarrow as pa

    table = cleaned(pa.table({"day": dates}), names=set(), decimal_point=".", date_format=date_format).table
    return [str(day)[:10] for day in table.column("day").to_pylist()]


def test_whether_days_or_months_come_first_is_decided_by_the_whole_column() -> None:
    assert day_of(["03/04/2024", "13/04/2024"]) == ["2024-04-03", "2024-04-13"]
    assert day_of(["03/04/2024", "03/14/2024"]) == ["2024-03-04", "2024-03-14"]
    assert day_of(["01/02/2024", "02/02/2024", "03/02/2024"])[0] == "2024-02-01"  # three days, not three months
    assert day_of(["02/01/2024", "02/02/2024", "02/03/2024"])[0] == "2024-02-01"
    assert day_of(["03/04/2024", "03/04/2024"], "mdy")[0] == "2024-03-04"
    with pytest.raises(BadInputError, match="the day first and dates with the month first"):
        day_of(["13/04/2024", "04/13/2024"])
    with pytest.raises(BadInputError, match="pass date_format='dmy' or 'mdy'"):
        day_of(["01/02/2024", "02/01/2024"])


def test_a_repeated_header_is_left_out_and_said(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text(text(";", ",", again=True))
    with pytest.warns(UserWarning, match="repeat the header: 1 line"):
        assert Trace.read(tmp_path / "log.csv", COLUMNS) == expected()


def numbers_of(cells: list[str], decimal: str = ".") -> list[float | None]:
    import pyarrow as pa

    found: list[float | None] = (
        cleaned(pa.table({"x": cells}), names=set(), decimal_point=decimal).table.column("x").to_pylist()
    )
    return found


@pytest.mark.parametrize(
    ("cells", "decimal", "numbers"),
    [
        (["1 234,5", "0,5", "-3"], ",", [1234.5, 0.5, -3.0]),
        (["1.234.567", "12", "1.000"], ",", [1234567, 12, 1000]),
        (["1,234.5", "2"], ".", [1234.5, 2.0]),
        (["1'234.5", "1\u00a0000", "+7"], ".", [1234.5, 1000.0, 7.0]),
        (["98,5 %", "97 %", "100%"], ".", [98.5, 97.0, 100.0]),
        (["0.5", "0.25"], ",", [0.5, 0.25]),
        (["1", "NIL", "/0", "n.a.", "N/A", "#DIV/0!", "-", "null", "nan", "", "2"], ".", [1, *[None] * 9, 2]),
        (["1e-3", ".5", "-2.5E2"], ".", [0.001, 0.5, -250.0]),
        (["12.5.2", "v3", "x"], ".", ["12.5.2", "v3", "x"]),
    ],
)
def test_numbers_are_read_as_people_write_them(cells: list[str], decimal: str, numbers: list[Any]) -> None:
    assert numbers_of(cells, decimal) == numbers


def test_per_cent_signs_are_said(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text("cell;tilt;good\na;2;98,5 %\na;4;97,0 %\n")
    columns = {"station": "cell", "reward": "good", "configuration": ["tilt"]}
    with pytest.warns(UserWarning, match="column 'good' has per cent signs"):
        assert Trace.read(tmp_path / "log.csv", columns).reward.tolist() == [98.5, 97.0]


def spoilt(tmp_path: Path) -> Path:
    rows = [f"A{i % 3},2024-05-01 {i % 24:02}:00,{i % 4},{i / 40},{i}" for i in range(40)]
    rows[6] = rows[6].replace("0.15", "err")
    rows[9] = rows[9].replace("0.225", "err2")
    rows[11] = "A1,2024-05-01 11:00,NIL,0.3,7"
    rows[20] = "A1,2024-05-01 11:00,2,0.3"
    (tmp_path / "log.csv").write_text("cell,when,tilt,thp,users\n" + "\n".join(rows) + "\n")
    return tmp_path / "log.csv"


def test_all_problems_are_told_in_one_sentence_with_counts_and_places(tmp_path: Path) -> None:
    with pytest.raises(BadInputError) as caught:
        Trace.read(spoilt(tmp_path), COLUMNS)
    said = str(caught.value)
    assert "4 rows of 40 cannot be used" in said
    assert "column 'thp': 2 cells are not numbers, first 'err' in line 8" in said
    assert "column 'tilt': 1 cell is missing, first in line 13" in said
    assert "line 22 has 4 column(s), the header has 5" in said
    assert caught.value.code == "bad_rows"


def test_bad_rows_are_skipped_when_asked_for_and_counted(tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match="4 rows of 40 skipped.*2 cells are not numbers"):
        trace = Trace.read(spoilt(tmp_path), COLUMNS, skip_bad=True)
    assert len(trace) == 36
    with (
        pytest.warns(UserWarning, match="skipped"),
        pytest.raises(BadInputError, match=r"first is 0.75 in line 32"),
    ):
        Trace.read(spoilt(tmp_path), COLUMNS, skip_bad=True, reward_range=(0, 0.74))


def test_when_no_row_is_left_it_is_said(tmp_path: Path) -> None:
    names = [f"k{i}" for i in range(200)]
    rng = np.random.default_rng(0)
    rows = [",".join(["a", "2", "0.5", *("" if x < 0.4 else "1" for x in rng.random(200))]) for _ in range(20)]
    (tmp_path / "log.csv").write_text(",".join(["station", "tilt", "reward", *names]) + "\n" + "\n".join(rows))
    with pytest.raises(BadInputError, match=r"no row is left when bad ones are skipped.*more problems of other col"):
        Trace.read(tmp_path / "log.csv", {"configuration": ["tilt"]}, skip_bad=True)
    columns = {"configuration": ["tilt"], "state": []}
    with pytest.warns(UserWarning, match="repeat another"):
        assert len(Trace.read(tmp_path / "log.csv", columns)) == 20


# Where the file lies does not matter.


@pytest.mark.parametrize("name", ["log.tsv", "log.txt", "log.csv.gz", "log.zip"])
def test_text_may_be_packed_and_have_other_suffixes(name: str, tmp_path: Path) -> None:
    data, path = text("\t", ",").encode("utf-16"), tmp_path / name
    if name.endswith("zip"):
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("export/may.txt", data)
    else:
        path.write_bytes(gzip.compress(data) if name.endswith("gz") else data)
    assert Trace.read(path, COLUMNS) == expected()


def test_a_file_that_unpacks_to_too_much_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "LARGEST", 1 << 22)
    (tmp_path / "log.csv.gz").write_bytes(gzip.compress(b"station,tilt,reward\n" + b"a,1,1\n" * (1 << 20)))
    with zipfile.ZipFile(tmp_path / "log.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("log.csv", b"a,1,1\n" * (1 << 20))
    for name in ("log.csv.gz", "log.zip"):
        with pytest.raises(BadInputError, match="unpacks to more than") as caught:
            Trace.read(tmp_path / name, {"configuration": ["tilt"]})
        assert caught.value.code == "too_large"


def test_a_file_that_unpacks_to_many_times_its_size_is_refused_and_a_small_one_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = 400_000
    numbers = {"station": pa.array(["a"] * rows).dictionary_encode(), "tilt": np.ones(rows), "reward": np.ones(rows)}
    pq.write_table(pa.table(numbers), tmp_path / "numbers.parquet")
    texts = {
        "station": pa.array(["a" * 500] * (rows // 40)),
        "tilt": np.ones(rows // 40),
        "reward": np.ones(rows // 40),
    }
    pq.write_table(pa.table(texts), tmp_path / "texts.parquet")
    (tmp_path / "log.csv.gz").write_bytes(gzip.compress(b"station,tilt,reward\n" + b"a,1,1\n" * rows))
    for name in ("numbers.parquet", "texts.parquet", "log.csv.gz"):
        read = Trace.read(tmp_path / name, {"configuration": ["tilt"]}, duplicates="drop")
        assert len(read) == 1
    monkeypatch.setattr(files, "USUAL", 1 << 20)
    for name in ("numbers.parquet", "texts.parquet", "log.csv.gz"):
        with pytest.raises(BadInputError, match="MB and unpacks to more than") as caught:
            Trace.read(tmp_path / name, {"configuration": ["tilt"]})
        assert caught.value.code == "too_large"


def test_an_archive_of_several_files_is_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "log.zip", "w") as archive:
        archive.writestr("a.csv", "x")
        archive.writestr("b.csv", "x")
    with pytest.raises(BadInputError, match="holds 2 files, not one"):
        Trace.read(tmp_path / "log.zip", COLUMNS)


def write_workbook(path: Path, *sheets: list[list[Any]]) -> None:
    """A workbook, as small as the format allows."""
    numbers = range(1, len(sheets) + 1)
    main, office = "http://schemas.openxmlformats.org/spreadsheetml/2006/main", "http://schemas.openxmlformats.org"
    kinds = f"{office}/officeDocument/2006/relationships"
    parts = {
        "[Content_Types].xml": f'<Types xmlns="{office}/package/2006/content-types">'
        '<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
        '<Default Extension="xml" ContentType="application/xml"/></Types>',
        "_rels/.rels": f'<Relationships xmlns="{office}/package/2006/relationships">'
        f'<Relationship Id="r1" Type="{kinds}/officeDocument" Target="xl/workbook.xml"/></Relationships>',
        "xl/workbook.xml": f'<workbook xmlns="{main}" xmlns:r="{kinds}"><sheets>'
        + "".join(f'<sheet name="May {n}" sheetId="{n}" r:id="r{n}"/>' for n in numbers) + "</sheets></workbook>",
        "xl/_rels/workbook.xml.rels": f'<Relationships xmlns="{office}/package/2006/relationships">'
        + "".join(f'<Relationship Id="r{n}" Type="{kinds}/worksheet" Target="worksheets/{n}.xml"/>' for n in numbers)
        + "</Relationships>",
        **{f"xl/worksheets/{n}.xml": f'<worksheet xmlns="{main}"><sheetData>{_cells(rows)}</sheetData></worksheet>'
           for n, rows in zip(numbers, sheets, strict=True)},
    }  # fmt: skip
    with zipfile.ZipFile(path, "w") as archive:
        for name, part in parts.items():
            archive.writestr(name, '<?xml version="1.0" encoding="UTF-8"?>' + part)


def _cells(rows: list[list[Any]]) -> str:
    cells = [
        "".join(
            f'<c r="{chr(65 + place)}{line}"><v>{cell}</v></c>' if isinstance(cell, int | float)
            else f'<c r="{chr(65 + place)}{line}" t="inlineStr"><is><t>{cell}</t></is></c>'
            for place, cell in enumerate(row)
        )
        for line, row in enumerate(rows, start=1)
    ]  # fmt: skip
    return "".join(f'<row r="{line}">{row}</row>' for line, row in enumerate(cells, start=1) if row)


def test_a_workbook_is_read_below_its_title(tmp_path: Path) -> None:
    pytest.importorskip("python_calamine", reason="Excel needs python-calamine: pip install 'kinband[excel]'")
    rows: list[list[Any]] = [["Report of May"], ["cell", "when", "tilt", "thp"], *map(list, ROWS)]
    write_workbook(tmp_path / "log.xlsx", rows)
    assert Trace.read(tmp_path / "log.xlsx", COLUMNS) == expected()
    rows[5][3] = "err"
    write_workbook(tmp_path / "log.xlsx", rows)
    with pytest.raises(BadInputError, match="column 'thp': 1 cell is not a number, first 'err' in row 6"):
        Trace.read(tmp_path / "log.xlsx", COLUMNS)


def test_the_sheet_that_holds_the_most_is_read_and_rows_are_those_of_excel(tmp_path: Path) -> None:
    pytest.importorskip("python_calamine", reason="Excel needs python-calamine: pip install 'kinband[excel]'")
    log: list[list[Any]] = [[], [], ["cell", "when", "tilt", "thp"], *map(list, ROWS)]
    write_workbook(tmp_path / "log.xlsx", [["Report"], ["Made", "today"]], log, [])
    with pytest.warns(UserWarning, match="sheet 'May 2' is read, which holds the most.*: 'May 1'$"):
        assert Trace.read(tmp_path / "log.xlsx", COLUMNS) == expected()
    log[4:4] = [[], log[2]]
    log[9][3] = "err"
    write_workbook(tmp_path / "log.xlsx", log)
    with pytest.raises(BadInputError, match="first 'err' in row 10"):
        Trace.read(tmp_path / "log.xlsx", COLUMNS)


def test_a_workbook_without_the_package_for_it_says_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "python_calamine", None)
    write_workbook(tmp_path / "log.xlsx", [["cell"], ["a"]])
    with pytest.raises(BadInputError, match=r"pip install 'kinband\[excel\]', or save it as CSV"):
        Trace.read(tmp_path / "log.xlsx", COLUMNS)


# Roles by name.


def test_station_and_time_are_found_by_their_names_and_it_is_said(tmp_path: Path) -> None:
    body = "PERIOD_START_TIME;Site;Cell Name;tilt;reward\n01.05.2024 14:00;S;0012;2;1\n02.05.2024 14:00;S;0013;4;0\n"
    (tmp_path / "log.csv").write_text(body)
    with pytest.warns(UserWarning, match="is taken for the") as caught:
        trace = Trace.read(tmp_path / "log.csv", {"configuration": ["tilt"]})
    assert trace.stations == ("0012", "0013")
    assert trace.time is not None
    assert str(trace.time[0]) == "2024-05-01T14:00:00.000000"
    assert len(caught) == 2


def test_the_only_text_and_the_only_dates_are_station_and_time_in_any_language(tmp_path: Path) -> None:
    rows = [f"{'Köln' if n % 2 else 'Bonn'};0{1 + n // 2}.05.2024 14:00;{n % 3};0,{n}" for n in range(8)]
    (tmp_path / "log.csv").write_text("Zelle;Zeitpunkt;Neigung;Güte\n" + "\n".join(rows), encoding="utf-8")
    columns: dict[str, Any] = {"reward": "Güte", "configuration": ["Neigung"]}
    with (
        pytest.warns(UserWarning, match="'Zelle' is taken for the station, the only one of text"),
        pytest.warns(UserWarning, match="'Zeitpunkt' is taken for the time, the only one of dates"),
    ):
        trace = Trace.read(tmp_path / "log.csv", columns)
    assert trace.stations == ("Bonn", "Köln")
    assert trace.time is not None
    assert str(trace.time[0]) == "2024-05-01T14:00:00.000000"
    (tmp_path / "log.csv").write_text(
        "Zelle;Ort;Neigung;Güte\n" + "\n".join(f"a;b{r[4:]}" for r in rows), encoding="utf-8"
    )
    with pytest.raises(BadInputError, match="no column 'station'"):  # two might be meant
        Trace.read(tmp_path / "log.csv", columns)


@pytest.mark.parametrize("hours", [("14:00", "15:00"), ("14", "15"), ("14:00 - 15:00", "15:00 - 16:00")])
def test_a_day_and_an_hour_in_two_columns_are_joined(hours: tuple[str, str], tmp_path: Path) -> None:
    rows = [f"{day};{hour};a;{tilt};1" for day, hour, tilt in zip(["13.05.2024"] * 2, hours, [2, 4], strict=True)]
    (tmp_path / "log.csv").write_text("\n".join(["Date;Hour;station;tilt;reward", *rows]))
    with pytest.warns(UserWarning, match=r"column 'Date\+Hour' is taken for the time"):
        trace = Trace.read(tmp_path / "log.csv", {"configuration": ["tilt"]})
    assert trace.time is not None
    assert np.datetime_as_string(trace.time, unit="m").tolist() == ["2024-05-13T14:00", "2024-05-13T15:00"]
    assert trace.state_names == ()
    given = Trace.read(tmp_path / "log.csv", {"configuration": ["tilt"], "time": "Date+Hour"})
    assert given == trace


@pytest.mark.parametrize("hours", [[f"{hour:02}:00" for hour in range(24)], [str(hour) for hour in range(24)]])
def test_the_only_days_and_the_only_hours_are_joined_in_any_language(hours: list[str], tmp_path: Path) -> None:
    rows = [f"{day}.05.2024;{hour};Kraj;{'AB'[day % 2]}{day};{day % 3};1" for day in (13, 14) for hour in hours]
    (tmp_path / "log.csv").write_text("\n".join(["Dzień;Godzina;Kraj;Komórka;Pochylenie;Wynik", *rows]))
    columns: dict[str, Any] = {"reward": "Wynik", "configuration": ["Pochylenie"]}
    with (
        pytest.warns(UserWarning, match=r"'Dzień\+Godzina' is taken for the time"),
        pytest.warns(UserWarning, match="'Komórka' is taken for the station"),  # the country is the same in all rows
    ):
        trace = Trace.read(tmp_path / "log.csv", columns)
    assert trace.time is not None
    assert np.unique(trace.time.astype("datetime64[h]")).size == 48
    assert (trace.stations, trace.state_names) == (("A14", "B13"), ())


def test_times_that_are_days_with_many_rows_each_are_said(tmp_path: Path) -> None:
    rows = [f"{day}.05.2024;{hour // 2};a;{day % 3};{hour}" for day in (13, 14) for hour in range(24)]
    (tmp_path / "log.csv").write_text("\n".join(["Tag;Stelle;station;tilt;reward", *rows]))
    with pytest.warns(UserWarning, match="a station has 24 rows on one: if another column has the hours"):
        Trace.read(tmp_path / "log.csv", {"configuration": ["tilt"], "time": "Tag"})


@pytest.mark.parametrize("wrong", ["01.01.1970 00:00", "31.12.2099 23:00"])
def test_a_few_dates_far_from_all_others_are_a_problem(wrong: str, tmp_path: Path) -> None:
    lines = text(";", date="{0}.{1}.{2} {3}").splitlines()
    lines[7] = lines[7].replace(lines[7].split(";")[1], wrong)
    (tmp_path / "log.csv").write_text("\n".join(lines))
    with pytest.raises(BadInputError, match=r"'when': 1 cell lies a year or more from all others, first .* in line 8"):
        Trace.read(tmp_path / "log.csv", COLUMNS)
    with pytest.warns(UserWarning, match="1 row of 28 skipped"):
        assert len(Trace.read(tmp_path / "log.csv", COLUMNS, skip_bad=True)) == 27


@pytest.mark.parametrize("line", ['{"a": [1,2,3]}', "cell;tilt;thp", "cell;tilt;thp;"])
def test_a_file_of_one_line_has_no_rows(line: str, tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text(line)
    with pytest.raises(BadInputError, match="one line, perhaps a header: columns but no rows"):
        Trace.read(tmp_path / "log.csv", {"configuration": ["tilt"]})


def test_two_campaigns_a_year_apart_are_one_log(tmp_path: Path) -> None:
    half = text(date="{2}-{1}-{0} {3}").splitlines()
    (tmp_path / "log.csv").write_text("\n".join([*half, *(one.replace("2024-", "2022-") for one in half[1:])]))
    assert len(Trace.read(tmp_path / "log.csv", COLUMNS)) == 56


def test_a_knob_that_is_something_measured_is_said(tmp_path: Path) -> None:
    rows = [f"a,{0.01 * n:.2f},{n % 5}" for n in range(100)]
    (tmp_path / "log.csv").write_text("\n".join(["station,load,reward", *rows]))
    with pytest.warns(UserWarning, match="knob 'load' has 100 values in 100 rows, as what is measured has"):
        Trace.read(tmp_path / "log.csv", {"configuration": ["load"]})


@pytest.mark.parametrize("moves", [True, False])
def test_a_knob_with_many_values_is_measured_where_it_moves_in_every_row(moves: bool) -> None:
    rng = np.random.default_rng(0)
    log = {"station": np.repeat(["a", "b"], 300), "time": np.tile(np.arange(300), 2), "reward": rng.random(600)}
    log["prb"] = rng.permutation(np.arange(600) % 100)
    if not moves:
        log["prb"] = np.sort(log["prb"])
    trace = Trace.from_frame(log, {"configuration": ["prb"]})
    if not moves:
        check_knobs(trace)
        return
    with pytest.raises(BadInputError, match=r"knob 'prb' has 100 values in 600 rows.*name what is set") as caught:
        check_knobs(trace)
    assert caught.value.code == "measured_knob"


def test_unknown_roles_are_answered_with_the_options_to_give(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text("cell,load,RET tilt,DL Thp\na,1,2,3\na,2,4,5\n")
    with pytest.raises(BadInputError, match="configuration columns are not known") as caught:
        Trace.read(tmp_path / "log.csv")
    assert (caught.value.code, caught.value.value) == ("role_unknown", "--configuration 'RET tilt' --reward 'DL Thp'")


def test_an_hour_that_clocks_repeat_is_said(tmp_path: Path) -> None:
    hours = ["01:00", "02:00", "02:00", "03:00"]
    rows = [f"a,2024-10-27 {hour},{i},{i}" for i, hour in enumerate(hours)]
    (tmp_path / "log.csv").write_text("\n".join(["station,time,tilt,reward", *rows]))
    with pytest.warns(UserWarning, match="the hour 2024-10-27 02:00 appears twice, as if clocks were set back"):
        assert len(Trace.read(tmp_path / "log.csv", {"configuration": ["tilt"]})) == 4


def test_rows_may_end_with_a_delimiter_and_columns_be_empty(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text("station;tilt;reward\na;2;0,5;\nb;4;0,25;\n;;;\n")
    with pytest.warns(UserWarning, match="hold no value: 1 line"):
        trace = Trace.read(tmp_path / "log.csv", {"configuration": ["tilt"]})
    assert trace.reward.tolist() == [0.5, 0.25]


@pytest.mark.parametrize(
    ("times", "how"),
    [
        ([1714572000 + 86400 * day for day in range(28)], "seconds since 1970"),
        ([1714572000000 + 86400000 * day for day in range(28)], "milliseconds since 1970"),
        ([202405010000 + 10000 * day + 1400 for day in range(28)], "YYYYMMDDHHMM"),
        ([2024050114 + 100 * day for day in range(28)], "YYYYMMDDHH"),
    ],
)
def test_times_written_as_whole_numbers_are_times_and_no_state(times: list[int], how: str, tmp_path: Path) -> None:
    file = tmp_path / "log.csv"
    lines = [f"{cell},{time},{tilt},{thp}" for time, (cell, _, tilt, thp) in zip(times, ROWS, strict=True)]
    file.write_text("\n".join(["cell,Timestamp,tilt,thp", *lines]), encoding="utf-8")
    named = {name: value for name, value in COLUMNS.items() if name != "time"}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        trace = Trace.read(file, named)
    assert f"column 'Timestamp' is read as times, {how}" in {str(one.message) for one in caught}
    assert trace.state_names == ()
    assert trace == expected()


def test_numbers_that_count_slots_stay_numbers() -> None:
    import pyarrow as pa

    for numbers in ([1, 2, 3], [20240501, 20241301], [99990101, 99990102], [3_000_000_000, 3_000_003_600]):
        done = cleaned(pa.table({"time": numbers}), names=set(), decimal_point=".")
        assert (done.table.column("time").to_pylist(), done.notes) == (numbers, [])


def odd(folder: Path, log: dict[str, Any]) -> list[str]:
    file = folder / "log.csv"
    rows = zip(*log.values(), strict=True)
    file.write_text("\n".join(",".join(map(str, row)) for row in [tuple(log), *rows]), encoding="utf-8")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        Trace.read(file, {"station": "cell", "reward": "thp", "configuration": ["tilt"]})
    return [str(one.message) for one in caught]


def test_a_station_that_ends_as_another_begins_may_have_been_renamed(tmp_path: Path) -> None:
    def said(names: list[str]) -> list[str]:
        cells = [*names, *(f"X{n}" for n in range(6) for _ in names)]
        hours = [f"2024-05-01T{hour:02}:00" for _ in range(7) for hour in range(len(names))]
        log = {"cell": cells, "time": hours, "tilt": [1, 2] * 14, "thp": np.linspace(0, 1, 28)}
        return [one for one in odd(tmp_path, log) if "renamed" in one]

    assert said(["A", "A", "A", "A"]) == []
    [sentence] = said(["A", "A", "B", "B"])
    assert "'A' and 'B' at 2024-05-01 02:00" in sentence
    assert said(["A", "A", "A", "B"])
    assert said(["A", "B", "A", "B"]) == []


def test_what_is_odd_and_taken_as_it_is_is_said(tmp_path: Path) -> None:
    plain: dict[str, Any] = {"cell": ["A", "A", "B", "B"], "tilt": [1, 2, 1, 2], "thp": [0.1, 0.2, 0.3, 0.4]}
    assert odd(tmp_path, plain) == []
    [said] = odd(tmp_path, plain | {"cell": ["A", "a", "B", "B"]})
    assert "such as 'A' and 'a', are taken for different stations" in said
    [said] = odd(tmp_path, plain | {"tilt": ["1 deg", "2 deg", "1 deg", "2 deg"]})
    assert said.startswith("knob 'tilt' holds words such as '1 deg', taken for names, not for quantities")
    assert odd(tmp_path, plain | {"tilt": ["low", "high", "low", "high"]}) == []
    many = {f"k{i}": [0.1 * i, 0.2, 0.3, 0.4] for i in range(41)}
    [said] = odd(tmp_path, plain | many)
    assert said.startswith("41 columns of numbers are taken for the state")
    del many["k0"]
    assert odd(tmp_path, plain | many) == []


# Values that stand for nothing, and what is only uneven.


def log_with(path: Path, rewards: np.ndarray[Any, Any], kpi: np.ndarray[Any, Any] | None = None) -> Path:
    """A log whose first rows have these rewards."""
    rng = np.random.default_rng(3)
    good = rng.normal(0.72, 0.04, 300)
    good[: len(rewards)] = rewards
    rows = [
        f"A{i % 5},2024-05-{1 + i % 28:02} {i // 60:02}:00,{2 + i % 3},{y:.10g},{0 if kpi is None else kpi[i]:.10g}"
        for i, y in enumerate(good)
    ]
    path.write_text("cell,when,tilt,thp,drops\n" + "\n".join(rows) + "\n")
    return path


@pytest.mark.parametrize("odd", [65535.0, 2.0**32 - 1, -999.0, -9999.0, 9999.0, 83.0, 1e6])
def test_a_reward_that_stands_for_nothing_is_told_and_skipped_when_asked_for(odd: float, tmp_path: Path) -> None:
    path = log_with(tmp_path / "log.csv", np.array([0.7, 0.7, odd]))
    columns = COLUMNS | {"state": []}
    with pytest.raises(BadInputError) as caught:
        Trace.read(path, columns)
    told = f"column 'thp': 1 cell lies far outside all others, first '{odd:.10g}' in line 4"
    assert f"1 row of 300 cannot be used: {told}" in str(caught.value)
    assert caught.value.code == "stray"
    with pytest.warns(UserWarning, match="1 row of 300 skipped: column 'thp': 1 cell lies far outside"):
        assert Trace.read(path, columns, skip_bad=True).reward.max() < 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(Trace.read(path, columns, reward_range=(-1e10, 1e10))) == 300  # the user says that it is right


def test_stray_values_of_a_kpi_and_of_a_log_that_kinband_wrote_are_told_too(tmp_path: Path) -> None:
    drops = np.random.default_rng(5).uniform(0.5, 4, 300)
    drops[7] = 65535
    columns = COLUMNS | {"state": [], "kpis": ["drops"]}
    with pytest.raises(BadInputError, match="column 'drops': 1 cell lies far outside all others, first '65535' in li"):
        Trace.read(log_with(tmp_path / "log.csv", np.array([]), drops), columns)
    trace = Trace.read(log_with(tmp_path / "log.csv", np.array([-999.0])), COLUMNS, reward_range=(-1e3, 1))
    trace.write(tmp_path / "log.parquet")
    with pytest.raises(BadInputError, match="far outside all others, first '-999' in row 1"):
        Trace.read(tmp_path / "log.parquet")


def test_few_rows_in_another_unit_are_strays_and_outages_are_none() -> None:
    rng = np.random.default_rng(9)
    shares = rng.normal(0.72, 0.04, 500)
    for count in (1, 3, 20):
        few = 100 * rng.choice(shares, count)
        assert strays(np.append(shares, few)).nonzero()[0].tolist() == list(range(500, 500 + count))
        assert strays(np.append(100 * shares, few / 100)).sum() == count
        assert not strays(np.append(shares, np.zeros(count))).any()
        assert not strays(np.append(100 * shares, np.zeros(count))).any()
    assert not strays(np.append(rng.uniform(0.1, 0.5, 500), [100.0, 37.0])).any()  # drops in per cent, and two outages
    assert not strays(np.append(rng.uniform(99.8, 100, 500), [12.0])).any()
    assert strays(np.append(shares, [-999.0] * 40 + [65535.0] * 3)).sum() == 43
    assert not strays(np.append(rng.uniform(500, 60_000, 500), [999.0, 9999.0])).any()  # values like all others


def test_times_that_look_measured_are_noted(tmp_path: Path) -> None:
    path = log_with(tmp_path / "log.csv", np.array([]), np.random.default_rng(6).random(300))
    with pytest.warns(UserWarning, match="times are fractions in no order, such as 0"):
        Trace.read(path, {**COLUMNS, "time": "drops", "state": []})
    path = log_with(tmp_path / "log.csv", np.array([]), np.arange(300) + 0.5)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Trace.read(path, {**COLUMNS, "time": "drops", "state": []})


def test_what_is_honestly_uneven_has_no_strays() -> None:
    """Of 200 columns of 500 rows each with a heavy tail none is taken for one with a stray."""
    rng = np.random.default_rng(10)
    for _ in range(200):
        spread = float(rng.uniform(0, 2.5))
        assert not strays(rng.lognormal(0, spread, 500)).any()
        assert not strays(np.where(rng.random(500) < 0.3, 0, rng.lognormal(0, spread, 500))).any()
        assert not strays(-rng.standard_t(3, 500)).any()
        assert not strays(rng.poisson(float(rng.uniform(0.01, 3)), 500).astype(float)).any()


def test_a_date_format_that_is_none_or_does_not_fit_is_refused_by_its_name(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text(text(";", date="{0}.{1}.{2} {3}"))
    for odd in ("zzz", "%q", ""):
        with pytest.raises(BadInputError, match="date_format takes dmy, mdy or a pattern such as"):
            Trace.read(tmp_path / "log.csv", COLUMNS, date_format=odd)
    with pytest.raises(BadInputError) as caught:
        Trace.read(tmp_path / "log.csv", COLUMNS, date_format="mdy")
    told = "column 'when': 16 cells are not written as the given date format says, first '13.05.2024 14:00' in line 14"
    assert told in str(caught.value)
    with pytest.raises(BadInputError, match="28 cells are not written as the given date format says"):
        Trace.read(tmp_path / "log.csv", COLUMNS, date_format="%d-%b-%y")
    assert Trace.read(tmp_path / "log.csv", COLUMNS, date_format="%d.%m.%Y %H:%M") == expected()


@pytest.mark.parametrize(("written", "given"), [(",", "."), (".", ",")])
def test_rewards_with_another_decimal_mark_than_was_given_are_no_words(
    written: str, given: str, tmp_path: Path
) -> None:
    (tmp_path / "log.csv").write_text(text(";", written))
    with pytest.raises(BadInputError, match=f"'0{written}25' is no number with the decimal mark that was given") as one:
        Trace.read(tmp_path / "log.csv", COLUMNS, delimiter=";", decimal_point=given)
    assert (one.value.code, one.value.value) == ("decimal_mark", written)
    with pytest.raises(BadInputError, match=r"decimal_point must be '\.' or ',', got 'x'"):
        Trace.read(tmp_path / "log.csv", COLUMNS, decimal_point="x")
