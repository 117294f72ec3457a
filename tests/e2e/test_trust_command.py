"""`python -m benchmarks.trust` as a user meets it."""

import json
from pathlib import Path

import pytest
from benchmarks.trust.__main__ import main
from benchmarks.trust.table import BEGIN, END

QUICK = ["evaluation", "--quick", "--runs", "1"]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["luck"], "there is no part 'luck': choose from"),
        (["safety", "--runs", "0"], "--runs"),
        (["--seed", "0"], "--seed"),
        (["--workers", "-1"], "--workers"),
        (["evaluation", "--trace", "no-such.parquet"], "no-such.parquet"),
        (["evaluation", "--write", "no-such-folder/page.md"], "there is no page no-such-folder/page.md: make one with"),
        (["evaluation", "--figure", "targets.bmp"], "name a .png, .svg or .pdf file"),
    ],
)
def test_nonsense_gets_one_sentence_and_exit_code_2(
    arguments: list[str], sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*arguments, "--out", str(tmp_path / "out")]) == 2
    error = capsys.readouterr().err
    assert sentence in error
    assert len(error.strip().splitlines()) == 1


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("in the way")
    assert main([*QUICK, "--out", str(tmp_path / "file")]) == 2
    assert f"cannot write to {tmp_path / 'file'}" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["# A page of something else\n", f"# No end\n{BEGIN}\n", f"{END}\n{BEGIN}\n", None])
def test_a_page_without_a_place_for_the_table_is_refused_before_any_work(
    text: str | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page, out = tmp_path / "page.md", tmp_path / "out"
    if text is None:  # a page that is not there is not made: its name may be mistyped
        assert main([*QUICK, "--out", str(out), "--write", str(page)]) == 2
        assert f"there is no page {page}: make one with the lines {BEGIN} and {END}" in capsys.readouterr().err
        assert not page.exists()
        return
    page.write_text(text)
    assert main([*QUICK, "--out", str(out), "--write", str(page)]) == 2
    assert "no place for the table" in capsys.readouterr().err
    assert list(out.iterdir()) == []


def test_the_table_is_printed_written_and_the_same_when_asked_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page, out = tmp_path / "page.md", tmp_path / "out"
    page.write_text(f"# What is promised\n\n{BEGIN}\n{END}\n")
    picture = ["--figure", str(tmp_path / "targets.pdf")]
    assert main([*QUICK, "--workers", "2", "--out", str(out), "--write", str(page), *picture]) == 0
    printed = capsys.readouterr().out
    assert printed.splitlines()[-2:] == [f"table: {page}", f"figure: {tmp_path / 'targets.pdf'}"]
    assert (tmp_path / "targets.pdf").read_bytes().startswith(b"%PDF")
    assert printed.count("short run") >= 8
    assert "Not judged: 8 target(s), short run, not the target's size." in printed
    kept = {file: file.stat().st_mtime_ns for file in out.rglob("records/*.json")}
    assert len(kept) == 8
    assert main([*QUICK, "--out", str(out), "--json"]) == 0
    again = json.loads(capsys.readouterr().out)
    assert {file: file.stat().st_mtime_ns for file in out.rglob("records/*.json")} == kept
    assert len(again["targets"]) == 8
    assert again == json.loads((out / "table.json").read_text())
    text = page.read_text()
    assert text.startswith("# What is promised\n")
    assert all(f"| {target['name']} |" in text for target in again["targets"])
