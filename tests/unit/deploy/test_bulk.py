"""Bulk CM files: what our own reader, which knows nothing of the writer, finds in them."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from kinband.cli import main
from kinband.counters.cm import Setting, settings_of
from kinband.counters.writing import BulkCm
from kinband.deploy import Item, write_bulk_cm
from kinband.errors import BadInputError

NOW = datetime(2026, 11, 1, 22, tzinfo=UTC)
MICROSECONDS = int(NOW.timestamp()) * 1_000_000
STYLES = {
    "standard": BulkCm(),
    "attributes of the maker": BulkCm({"xn": "x", "en": "e", "es": "s"}, "en", "es", "V1"),
    "objects of the maker": BulkCm({"xn": "x", "es": "s"}, "es", "es", "V1"),
}


def item(dn: str, attribute: str, before: str, after: str) -> Item:
    return Item("a", attribute, before, after, "", dn, attribute, before, after)


def cell(number: int) -> str:
    return f"DC=a.com,SubNetwork=1,ManagedElement=7,ENBFunction=1,EUtranCellFDD={number}"


ITEMS = [
    item(cell(1), "a2", "40", "38"),
    item(cell(1), "hysteresis", "2", "2"),
    item(f"{cell(1)},Report=3", "timer", "5", "-6"),
    item(cell(1), "mode", "fast", "<slow> & -- steady"),
    item(cell(2), "a2", "45", "47"),
]


@pytest.mark.parametrize("style", STYLES)
def test_change_and_roll_back_are_read_as_what_was_written(style: str, tmp_path: Path) -> None:
    back, file = write_bulk_cm(ITEMS, tmp_path / "change.xml", STYLES[style], now=NOW)
    assert (back.name, file.name) == ("change-rollback.xml", "change.xml")
    for path, side in ((file, "after"), (back, "before")):
        found = sorted(one for one in settings_of(path, zone=None, columns={}) if one.attribute[:2] != "vs")
        expected = [(one.dn, MICROSECONDS, one.attribute, getattr(one, side), True) for one in ITEMS if one.moves]
        assert found == sorted(Setting(*one) for one in expected)


def test_the_roll_back_says_what_it_expects_to_find(tmp_path: Path) -> None:
    back, _ = write_bulk_cm(ITEMS, tmp_path / "change.xml", BulkCm(), now=NOW)
    assert "<!-- a2 should be 38 before -->" in back.read_text()


def test_files_that_may_still_be_needed_are_not_written_over(tmp_path: Path) -> None:
    (tmp_path / "change-rollback.xml").write_text("")
    with pytest.raises(BadInputError, match=r"change-rollback.xml exists and may still be needed"):
        write_bulk_cm(ITEMS, tmp_path / "change.xml", BulkCm(), now=NOW)
    assert not (tmp_path / "change.xml").exists()


def test_files_are_written_instead_of_anything_being_sent(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["apply", "plan", "--map", "map.yaml", "--bulk-cm", "change.xml", "--netconf", "enb7:830"]) == 2
    assert "--bulk-cm writes files and sends nothing: leave out --netconf and --dry-run" in capsys.readouterr().err


def test_objects_of_two_networks_are_not_written_into_one_file(tmp_path: Path) -> None:
    other = item("DC=b.com,ManagedElement=7", "a2", "1", "2")
    with pytest.raises(BadInputError, match="have different DC parts: write a file for each network"):
        write_bulk_cm([*ITEMS, other], tmp_path / "change.xml", BulkCm(), now=NOW)
