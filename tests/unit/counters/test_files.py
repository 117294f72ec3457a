"""Measurement files of every form give back what was written, and nothing of a file that is damaged."""

import gzip
import io
import tarfile
import tracemalloc
from pathlib import Path
from tempfile import TemporaryDirectory
from zipfile import ZIP_DEFLATED, ZipFile

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.network_files import FORMS, Info, pm_text, write

from kinband.counters.files import SECOND, files_of, length, moment, name_of
from kinband.counters.pm import ForeignFileError, UnreadableFileError, measurements
from kinband.counters.survey import survey
from kinband.errors import BadInputError

CELL = "ENBFunction=1,Cell=1"
FULL = "DC=a,ManagedElement=7,ENBFunction=1,Cell=1"

names = st.lists(st.from_regex(r"[A-Za-z][\w.]{0,12}", fullmatch=True), min_size=1, max_size=6, unique=True)
numbers = st.one_of(
    st.integers(-(10**12), 10**12).map(str),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.lists(st.integers(0, 99), min_size=2, max_size=4).map(lambda v: ",".join(map(str, v))),
)


@given(data=st.data(), form=st.sampled_from(FORMS), suffix=st.sampled_from([".xml", ".xml.gz"]))
def test_written_values_come_back(data: st.DataObject, form: str, suffix: str) -> None:
    counters = data.draw(names)
    cells = {
        f"ENBFunction=1,Cell={n}": {c: data.draw(numbers) for c in counters}
        for n in range(data.draw(st.integers(1, 3)))
    }
    with TemporaryDirectory() as folder:
        path = write(Path(folder) / f"a{suffix}", pm_text([Info(cells)], form=form))
        found = {one.dn: dict(one.values) for one in measurements(path)}
    assert found == {f"DC=a,ManagedElement=7,{dn}": own for dn, own in cells.items()}


@pytest.mark.parametrize("form", FORMS)
def test_the_period_ends_when_the_file_says_and_began_a_duration_before(tmp_path: Path, form: str) -> None:
    path = write(tmp_path / "a.xml", pm_text([Info({CELL: {"a": "1"}}, end="2023-05-15T07:15:00+0100")], form=form))
    (one,) = measurements(path)
    assert one.block.end == moment("2023-05-15T06:15:00Z")
    assert one.block.end - one.block.begin == 900 * SECOND


def test_a_suspect_object_has_no_values(tmp_path: Path) -> None:
    path = write(tmp_path / "a.xml", pm_text([Info({CELL: {"a": "1"}}, suspect=(CELL,))]))
    (one,) = measurements(path)
    assert one.suspect
    assert not one.values


@pytest.mark.parametrize(
    ("prefix", "element", "below", "name"),
    [
        ("DC=a", "ManagedElement=7", CELL, FULL),
        ("DC=a", "ManagedElement=7", f"ManagedElement=7,{CELL}", FULL),
        ("DC=a", "n7", f"ManagedElement=7,{CELL}", FULL),
        ("DC=a", "7", CELL, FULL),
        ("DC=a", "DC=a,ManagedElement=7", CELL, FULL),
        ("", "", FULL, FULL),
        ("DC=a", "ManagedElement=7", "", "DC=a,ManagedElement=7"),
        ("", "", r"Cell=a\,b, Part=2", r"Cell=a\,b,Part=2"),
    ],
)
def test_a_name_is_put_together_without_repeating_parts(prefix: str, element: str, below: str, name: str) -> None:
    assert name_of(prefix, element, below) == name


@pytest.mark.parametrize(("text", "seconds"), [("PT900S", 900), ("PT15M", 900), ("PT1H", 3600), ("P1D", 86_400)])
def test_lengths_of_time_are_read(text: str, seconds: int) -> None:
    assert length(text) == seconds * SECOND


def test_midnight_may_be_the_end_of_a_day() -> None:
    assert moment("2026-11-01T24:00:00Z") == moment("2026-11-02T00:00:00Z")


def test_a_clock_change_is_no_gap_where_times_have_zones(tmp_path: Path) -> None:
    for n, end in enumerate(["2026-10-25T02:45:00+02:00", "2026-10-25T02:00:00+01:00", "2026-10-25T02:15:00+01:00"]):
        write(tmp_path / f"{n}.xml", pm_text([Info({CELL: {"a": str(n)}}, end=end)]))
    found = survey(tmp_path)
    assert len(found.periods[FULL]) == 3
    assert found.gaps() == {}


def test_a_time_that_is_there_twice_needs_a_zone() -> None:
    from zoneinfo import ZoneInfo

    berlin = ZoneInfo("Europe/Berlin")
    assert moment("2026-07-01T02:30:00", berlin) == moment("2026-07-01T00:30:00Z")
    with pytest.raises(BadInputError, match="twice or never"):
        moment("2026-10-25T02:30:00", berlin)


GOOD = pm_text([Info({CELL: {"a": "1", "b": "2"}})])
DTD = '<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/hostname">]>'


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (GOOD[: len(GOOD) // 2 + 150], "cut off or damaged"),
        (GOOD.replace("<measCollecFile", f"{DTD}<measCollecFile", 1), "document type"),
        (GOOD.replace("PT900S", "soon"), "length of time"),
        (GOOD.replace("2026-11-01T14:15:00+02:00", "yesterday"), "no time"),
        (GOOD.replace('<r p="2">', '<r p="9">'), "without a measType"),
        (pm_text([Info({CELL: {"a": "1 2"}})], form="listed"), "2 values for 1 counters"),
    ],
)
def test_a_damaged_file_says_why(tmp_path: Path, text: str, reason: str) -> None:
    with pytest.raises(UnreadableFileError, match=reason):
        list(measurements(write(tmp_path / "a.xml", text)))


@pytest.mark.parametrize("data", [b"a,b\n1,2\n", b"<other/>", b"\x00\x01\x02", b"<?xml version='1.0'?>"])
def test_other_files_are_foreign(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "a.xml").write_bytes(data)
    with pytest.raises(ForeignFileError, match="no measurement file"):
        list(measurements(tmp_path / "a.xml"))


def test_one_file_of_many_that_is_cut_off_gives_nothing_and_is_named(tmp_path: Path) -> None:
    for n in range(5):
        text = pm_text([Info({CELL: {"a": "1"}}, end=f"2026-11-01T14:{10 + n}:00Z", duration="PT60S")])
        write(tmp_path / f"{n}.xml.gz", text)
    whole = gzip.compress(pm_text([Info({f"Cell={n}": {"a": "1"} for n in range(99)})]).encode())
    (tmp_path / "bad.xml.gz").write_bytes(whole[:-40])
    (tmp_path / "empty.xml").write_bytes(b"")
    (tmp_path / "notes.txt").write_text("hello")
    found = survey(tmp_path)
    assert (found.files, list(found.periods)) == (5, [FULL])
    assert found.unreadable[str(tmp_path / "empty.xml")] == "it is empty"
    assert list(found.unreadable) == [str(tmp_path / name) for name in ("bad.xml.gz", "empty.xml")]
    assert found.foreign == [str(tmp_path / "notes.txt")]


def test_gaps_suspect_values_and_files_that_differ_are_found(tmp_path: Path) -> None:
    for n, minute in enumerate([15, 30]):
        write(tmp_path / f"{n}.xml", pm_text([Info({CELL: {"a": "1"}}, end=f"2026-11-01T14:{minute}:00Z")]))
    write(tmp_path / "2.xml", pm_text([Info({CELL: {"a": "1"}}, end="2026-11-01T15:15:00Z", suspect=(CELL,))]))
    write(tmp_path / "again.xml", pm_text([Info({CELL: {"a": "1"}}, end="2026-11-01T14:15:00Z")]))
    write(tmp_path / "other.xml", pm_text([Info({CELL: {"a": "8"}}, end="2026-11-01T14:30:00Z")]))
    found = survey(tmp_path)
    assert found.gaps() == {FULL: [("2026-11-01T14:30:00Z", "2026-11-01T15:00:00Z", 2)]}
    assert found.suspect == {FULL: 1}
    assert found.repeated == 1
    assert found.differing == {(str(tmp_path / "1.xml"), str(tmp_path / "other.xml")): 1}


def test_directories_files_and_patterns_are_looked_through(tmp_path: Path) -> None:
    (tmp_path / "below").mkdir()
    for name in ("a10.xml", "a9.xml", "below/b.xml", ".hidden"):
        (tmp_path / name).write_text("x")
    assert [Path(str(one)).name for one in files_of(tmp_path)] == ["a9.xml", "a10.xml", "b.xml"]
    some = files_of([str(tmp_path / "a*.xml"), tmp_path / "a9.xml"])
    assert [Path(str(one)).name for one in some] == ["a9.xml", "a10.xml"]
    with pytest.raises(BadInputError, match="there is no file"):
        files_of(tmp_path / "c*.xml")


def test_the_files_of_a_zip_archive_count_one_by_one(tmp_path: Path) -> None:
    text = pm_text([Info({CELL: {"A": "1"}})])
    with ZipFile(tmp_path / "pm.zip", "w", ZIP_DEFLATED) as archive:
        archive.writestr("day/a.xml", text)
        archive.writestr("day/b.xml.gz", gzip.compress(text.encode()))
        archive.writestr("__MACOSX/day/._a.xml", "x")
        archive.writestr("notes.txt", "x")
    found = survey(tmp_path)
    assert (found.files, found.repeated, list(found.periods)) == (2, 1, [FULL])
    assert found.foreign == [f"{tmp_path}/pm.zip/notes.txt"]


def test_a_zip_archive_that_is_cut_off_or_holds_a_damaged_file_is_named(tmp_path: Path) -> None:
    text = pm_text([Info({CELL: {"A": "1"}})])
    (tmp_path / "a.xml").write_text(text)
    with ZipFile(tmp_path / "pm.zip", "w") as archive:
        archive.writestr("b.xml", text)
        archive.writestr("c.xml", text)
    data = (tmp_path / "pm.zip").read_bytes()
    (tmp_path / "cut.zip").write_bytes(data[:400])
    (tmp_path / "pm.zip").write_bytes(data.replace(b'p="1">1<', b'p="1">2<', 1))  # the sum of the first is wrong
    found = survey(tmp_path)
    assert found.files == 2
    assert "archive that is damaged" in found.unreadable[f"{tmp_path}/cut.zip"]
    assert "Bad CRC-32" in found.unreadable[f"{tmp_path}/pm.zip/b.xml"]


@pytest.mark.parametrize("name", ["pm.tar", "pm.tar.gz", "pm.TGZ"])
def test_the_files_of_a_tar_archive_count_one_by_one(tmp_path: Path, name: str) -> None:
    text = pm_text([Info({CELL: {"A": "1"}})]).encode()
    _tar(tmp_path / name, {"day/a.xml": text, "day/b.xml.gz": gzip.compress(text), "day/._a.xml": b"x", "c.txt": b"x"})
    found = survey(tmp_path)
    assert (found.files, found.repeated, list(found.periods)) == (2, 1, [FULL])
    assert found.foreign == [f"{tmp_path}/{name}/c.txt"]


def test_of_a_tar_archive_that_is_cut_off_the_whole_files_are_used_and_it_is_named(tmp_path: Path) -> None:
    text = pm_text([Info({f"{CELL}{n}": {"A": str(n)} for n in range(2000)})]).encode()
    whole = tmp_path / "whole.tar.gz"
    _tar(whole, {"a.xml": pm_text([Info({CELL: {"A": "1"}})]).encode(), "b.xml": text})
    data = whole.read_bytes()
    whole.unlink()
    (tmp_path / "cut.tar.gz").write_bytes(data[: len(data) // 2])
    (tmp_path / "no.tar").write_bytes(b"nothing")
    found = survey(tmp_path)
    assert found.files == 1
    for name in ("cut.tar.gz", "no.tar"):
        assert "archive that is damaged" in found.unreadable[f"{tmp_path}/{name}"]


def test_a_tar_archive_of_too_many_or_too_large_files_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _tar(tmp_path / "pm.tgz", {"a.xml": b" " * 1_000_000, "b.xml": b"x"})
    monkeypatch.setattr("kinband.counters.files.MOST_PACKED", 1)
    with pytest.raises(BadInputError, match=r"pm\.tgz holds more than 1 files"):
        survey(tmp_path)
    monkeypatch.setattr("kinband.counters.files.USUAL", 10_000)
    with pytest.raises(BadInputError, match=r"pm\.tgz unpacks to many times its size"):
        survey(tmp_path)


def _tar(path: Path, files: dict[str, bytes]) -> None:
    with tarfile.open(path, "w" if path.suffix == ".tar" else "w:gz") as archive:
        for name, data in files.items():
            inside = tarfile.TarInfo(name)
            inside.size = len(data)
            archive.addfile(inside, io.BytesIO(data))


def test_a_zip_archive_that_unpacks_to_many_times_its_size_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ZipFile(tmp_path / "pm.zip", "w", ZIP_DEFLATED) as archive:
        archive.writestr("a.xml", pm_text([Info({CELL: {"A": "1"}})]) + " " * 1_000_000)
    monkeypatch.setattr("kinband.counters.files.USUAL", 10_000)
    with pytest.raises(BadInputError, match=r"unpacks to .* GB, many times what it is packed to"):
        survey(tmp_path / "pm.zip")
    monkeypatch.setattr("kinband.counters.files.MOST_PACKED", 0)
    with pytest.raises(BadInputError, match=r"pm\.zip holds more than 0 files"):
        survey(tmp_path / "pm.zip")


def test_memory_does_not_grow_with_the_file(tmp_path: Path) -> None:
    def peak(blocks: int) -> int:
        cell = {f"pmCounter{n}": "12345" for n in range(200)}
        path = write(tmp_path / f"{blocks}.xml", pm_text([Info({CELL: cell})] * blocks))
        tracemalloc.start()
        for _ in measurements(path):
            pass
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return most

    assert peak(800) < 1.5 * peak(100)


@pytest.mark.parametrize("form", FORMS)
def test_some_counters_may_be_wanted_wherever_they_stand(tmp_path: Path, form: str) -> None:
    text = pm_text([Info({CELL: {"a": "1", "b": "2", "c": "3"}})], form=form)
    moved = text.replace('<r p="1">1</r><r p="2">2</r>', '<r p="2">2</r><r p="1">1</r>')
    for n, one in enumerate([text, moved]):
        (found,) = measurements(write(tmp_path / f"{n}.xml", one), wanted={"a", "c", "z"})
        assert found.values == {"a": "1", "c": "3"}
