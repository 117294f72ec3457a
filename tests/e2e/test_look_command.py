"""`kinband look` on an export as vendors write it, and the profile that it keeps for other commands."""

import json
from pathlib import Path
from typing import Any

import pytest

from kinband.cli import main

OPTIONS = ["--configuration", "RET tilt", "--reward", "Good"]


@pytest.fixture
def export(tmp_path: Path) -> Path:
    """Semicolons, decimal commas, Windows' encoding, a title, two columns of time, per cent signs, NIL and a word."""
    lines = ["Leistungsbericht für Mai;;;;;", "Date;Hour;Cell Name;Last größe;RET tilt;Good"]
    for i in range(160):
        day, load, tilt = 1 + i // 48, f"{0.1 + i % 7 / 10:.2f}".replace(".", ","), 2 * (i % 3)
        good = f"{90 - (i % 3 - i % 2) ** 2 - i % 7 / 10:.1f} %".replace(".", ",")
        lines.append(f"{day:02}.05.2024;{i // 2 % 24:02}:00;00{12 + i % 2};{load};{tilt};{good}")
    lines[30] = lines[30].rsplit(";", 1)[0] + ";NIL"
    lines[40] = lines[40].rsplit(";", 1)[0] + ";err"
    path = tmp_path / "export.csv"
    path.write_bytes("\r\n".join(lines).encode("cp1252"))
    return path


def looked(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    assert main(["look", *words, "--json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_it_says_how_the_file_is_read_and_what_is_still_to_be_said(
    export: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = looked(capsys, str(export))
    assert "cp1252 text, columns parted by ';', decimal mark ',', header in line 2" in found["how"]
    assert found["needed"].endswith("--configuration, for example --configuration 'RET tilt' --reward Good")
    assert found["rows"] == 160
    columns = {one["name"]: one for one in found["columns"]}
    assert (columns["Cell Name"]["role"], columns["Cell Name"]["distinct"]) == ("station", 2)
    assert columns["Date+Hour"]["role"] == "time"
    assert (columns["Good"]["missing"], columns["Good"]["bad"]) == (1, 1)


def test_problems_are_shown_and_rows_are_skipped_when_asked_for(
    export: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = looked(capsys, str(export), *OPTIONS)
    assert found["problems"] == [
        "column 'Good': 1 cell is not a number, first 'err' in line 41",
        "column 'Good': 1 cell is missing, first in line 31",
    ]
    assert (found["bad_rows"], "--skip-bad" in found["needed"]) == (2, True)
    found = looked(capsys, str(export), *OPTIONS, "--skip-bad", "--per-cent")
    assert found["needed"] is None
    assert any(note.startswith("2 rows of 160 skipped") for note in found["notes"])
    assert main(["look", str(export), *OPTIONS, "--skip-bad"]) == 0
    printed = capsys.readouterr().out
    assert "ready: other commands read it with these options\nlog: 158 rows of 2 stations; state: Last größe" in printed
    assert "needed:" not in printed
    assert main(["look", str(export), *OPTIONS]) == 0
    assert capsys.readouterr().out.count("1 cell is missing, first in line 31") == 1
    assert "note: column 'Good' has per cent signs" in printed


def test_a_profile_remembers_the_options_and_those_given_go_before_it(
    export: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    profile = tmp_path / "vendor.yaml"
    looked(capsys, str(export), *OPTIONS, "--skip-bad", "--per-cent", "--save-profile", str(profile))
    again = looked(capsys, str(export), "--profile", str(profile))
    assert again["needed"] is None
    out = ["--out", str(tmp_path / "out"), "--json"]
    assert main(["similarity", str(export), "--profile", str(profile), *out]) == 0
    assert any(note.startswith("2 rows of 160 skipped") for note in json.loads(capsys.readouterr().out)["notes"])
    other = looked(capsys, str(export), "--profile", str(profile), "--reward", "Last größe")
    assert {one["name"]: one["role"] for one in other["columns"]}["Last größe"] == "reward"


def test_a_profile_names_what_was_guessed_and_says_when_rows_would_be_refused(
    export: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    profile = tmp_path / "vendor.yaml"
    found = looked(capsys, str(export), *OPTIONS, "--save-profile", str(profile))
    assert any("repeat this with --skip-bad" in note for note in found["notes"])
    assert {"station: Cell Name", "time: Date+Hour"} <= set(profile.read_text(encoding="utf-8").splitlines())
    found = looked(capsys, str(export), "--profile", str(profile), "--skip-bad", "--save-profile", str(profile))
    assert not any("repeat this" in note or "is taken for" in note for note in found["notes"])
    assert looked(capsys, str(export), "--profile", str(profile))["needed"] is None


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--date-format", "zzz"], "--date-format takes dmy, mdy or a pattern such as '%d-%b-%y %H', got 'zzz'"),
        (["--decimal-point", "x"], "--decimal-point is . or , and nothing else, got 'x'"),
    ],
)
def test_marks_and_formats_that_are_none_are_refused(
    options: list[str], sentence: str, export: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["look", str(export), *OPTIONS, *options]) == 2
    assert sentence in capsys.readouterr().err


def test_a_file_that_is_read_is_never_written_over(
    export: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = export.read_bytes()
    assert main(["look", str(export), *OPTIONS, "--save-profile", str(export)]) == 2
    assert "exists and is no profile: choose another name for --save-profile" in capsys.readouterr().err
    log = tmp_path / "impact.csv"
    log.write_bytes(before)
    for command, name in (("impact", "impact.csv"), ("similarity", "similarity.csv")):
        log = export.rename(tmp_path / name) if command == "similarity" else log
        assert main([command, str(log), *OPTIONS, "--skip-bad", "--out", str(tmp_path)]) == 2
        assert f"{name} is read here and would be written over" in capsys.readouterr().err
        assert log.read_bytes() == before


@pytest.mark.parametrize("reward", ["Cell Name", "0.5*Good+2*Cell Name"])
@pytest.mark.parametrize("station", [[], ["--station", "Date"]])
def test_a_column_of_words_is_no_reward(
    reward: str, station: list[str], export: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = export.read_text(encoding="cp1252").replace(";0012;", ";North;").replace(";0013;", ";South;")
    export.write_text(text, encoding="cp1252")
    words = ["--configuration", "RET tilt", "--reward", reward, "--skip-bad", *station]
    assert main(["similarity", str(export), *words]) == 2
    error = capsys.readouterr().err
    said = "column 'Cell Name' is to be the reward, but holds words such as 'North', and a reward is a number"
    assert f"{said}: name another column with --reward" in error
    assert len(error.strip().splitlines()) == 1


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("station: a\nrewrd: b\n", "line 2: there is no key 'rewrd' at the top of the file: did you mean 'reward'?"),
        ("station: a\nskip-bad: maybe\n", "line 2: skip-bad must be on or off, got 'maybe'"),
        ("station: [a]\n", "line 1: station must be one word or number, got a list"),
        ("station: 'a\n", "this is not YAML"),
        ("", "line 1: the profile is empty"),
        ("reward-range: [1]", "line 1: reward-range must be two numbers"),
    ],
)
def test_a_mistake_in_a_profile_is_named_with_its_line(
    text: str, sentence: str, export: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    profile = export.with_name("vendor.yaml")
    profile.write_text(text)
    assert main(["look", str(export), "--profile", str(profile)]) == 2
    error = capsys.readouterr().err
    assert sentence in error
    assert len(error.strip().splitlines()) == 1


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (None, "is a directory: name one of the files in it"),
        (b"", "is empty"),
        (b"\n\n  \n", "nothing but empty lines"),
        (bytes(range(256)) * 20, "some binary file"),
        (b"cell,tilt,tilt\na,1,2\n", "several columns named 'tilt': rename all but one"),
        (b"cell,tilt\n", "no rows"),
    ],
)
def test_a_file_of_no_use_gets_one_sentence(
    content: bytes | None, sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "log.csv"
    path.mkdir() if content is None else path.write_bytes(content)
    assert main(["look", str(path)]) == 2
    error = capsys.readouterr().err
    assert sentence in error
    assert len(error.strip().splitlines()) == 1


def test_2000_columns_are_looked_at(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = ["station", "tilt", "reward", *(f"k{i}" for i in range(2000))]
    rows = [",".join(["a", "1", "2", *("" if i % 5 < 2 else "1" for i in range(2000))]) for _ in range(3)]
    (tmp_path / "log.csv").write_text("\n".join([",".join(names), *rows]))
    assert main(["look", str(tmp_path / "log.csv"), "--configuration", "tilt"]) == 0
    printed = capsys.readouterr().out
    assert "columns more: --json shows all." in printed
    assert "log: 3 rows of 1 station; state: k2, k3, k4, " in printed  # columns without any value are no state


def test_names_that_look_odd_in_the_encoding_found_are_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "log.csv").write_text("Komórka;Obciążenie;reward\na;1;2\nb;2;3\n", encoding="cp1250")
    assert main(["look", str(tmp_path / "log.csv")]) == 0
    assert "names such as 'Obci¹¿enie' look odd" in capsys.readouterr().out.replace("\n", " ")
    assert main(["look", str(tmp_path / "log.csv"), "--encoding", "cp1250"]) == 0
    assert "look odd" not in capsys.readouterr().out


def test_a_share_is_in_no_per_cent_and_rows_that_are_skipped_are_said_to_be(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [f"a,{n % 2},{n / 40},{2.5 * n}" for n in range(40)]
    (tmp_path / "log.csv").write_text("\n".join(["station,tilt,good_share,load_share", *rows, "a,,0.5,2"]) + "\n")
    options = [str(tmp_path / "log.csv"), "--configuration", "tilt", "--reward", "good_share"]
    units = {one["name"]: one["unit"] for one in looked(capsys, *options)["columns"]}
    assert (units["good_share"], units["load_share"]) == ("share", "%")
    assert main(["look", *options, "--skip-bad"]) == 0
    assert "1 row of 41 cannot be used; they are left out, as --skip-bad says." in capsys.readouterr().out
