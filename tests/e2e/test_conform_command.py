"""`kinband conform` as an engineer meets it: dumps as tables and as bulk CM, descriptors, a log, and bad input."""

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kinband.cli import main

KNOBS = ["--station", "cell", "--configuration", "tilt"]


def write(path: Path, rows: list[dict[str, Any]]) -> Path:
    with path.open("w", newline="", encoding="utf-8") as opened:
        writer = csv.DictWriter(opened, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path


def cells(count: int = 60) -> list[dict[str, Any]]:
    rng = np.random.default_rng(0)
    kinds = rng.choice(["town", "village"], count).tolist()
    rows = [{"cell": f"c{n:02d}", "land_use": kind, "tilt": 6 if kind == "town" else 2} for n, kind in enumerate(kinds)]
    rows[7]["tilt"] = 2 if kinds[7] == "town" else 6
    return rows


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_deviating_cell_is_named_on_the_screen_and_in_the_file(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["conform", str(write(folder / "cells.csv", cells())), *KNOBS]) == 0
    said = capsys.readouterr().out
    assert "c07" in said
    assert "land_use 100%" in said
    rows = list(csv.DictReader((folder / "out/conform/conform.csv").read_text().splitlines()))
    assert [row["station"] for row in rows] == ["c07"]
    assert {rows[0]["runs"], rows[0]["usual"]} == {"2", "6"}
    assert rows[0]["alike_run_it"] == "0"


def test_descriptors_may_stand_in_a_file_of_their_own(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    every = cells()
    dump = write(folder / "dump.csv", [{"cell": row["cell"], "tilt": row["tilt"]} for row in every])
    sites = write(folder / "sites.csv", [{"cell": row["cell"], "land_use": row["land_use"]} for row in every[1:]])
    assert main(["conform", str(dump), *KNOBS, "--descriptors", str(sites), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [one["station"] for one in told["knobs"][0]["deviations"]] == ["c07"]
    assert told["notes"] == ["1 station of the dump are not described, such as c00"]


def test_a_dump_of_bulk_cm_is_read_by_the_mapping_of_counters(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    every = cells()
    at = "2026-11-01T00:00:00Z"
    coded = {6: 40, 2: 44}
    rows = [{"dn": f"SubNetwork=1,Cell={row['cell']}", "time": at, "a2": coded[row["tilt"]]} for row in every]
    dump = write(folder / "cm.csv", rows)
    mapping = folder / "map.yaml"
    mapping.write_text(
        "station: {object: Cell, name: '{Cell}'}\nreward: Good / All\n"
        "knobs: {threshold_dbm: {attribute: a2, offset: -140}}\n"
    )
    sites = write(folder / "sites.csv", [{"cell": row["cell"], "land_use": row["land_use"]} for row in every])
    asked = ["conform", str(dump), "--map", str(mapping), "--station", "cell", "--descriptors", str(sites), "--json"]
    assert main(asked) == 0, capsys.readouterr().err
    knob = json.loads(capsys.readouterr().out)["knobs"][0]
    assert (knob["knob"], knob["values"]) == ("threshold_dbm", 2)
    assert {knob["deviations"][0]["runs"], knob["deviations"][0]["usual"]} == {-100, -96}


def test_with_a_log_the_knobs_that_matter_are_told(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rng = np.random.default_rng(1)
    rows = []
    for cell in ("c00", "c01", "c02", "c03"):
        for _ in range(40):
            tilt = int(rng.choice([2, 6]))
            rows.append({"cell": cell, "load": rng.random(), "tilt": tilt, "reward": 0.01 * tilt + 0.01 * rng.normal()})
    asked = [
        "conform",
        str(write(folder / "cells.csv", cells())),
        *KNOBS,
        "--log",
        str(write(folder / "log.csv", rows)),
    ]
    assert main([*asked, "--configuration", "land_use", "--json"]) == 2
    assert "nothing describes" in capsys.readouterr().err
    assert main([*asked, "--json"]) == 0
    explained = json.loads(capsys.readouterr().out)["explained"]
    assert explained[0]["name"] == "tilt"
    assert explained[0]["low"] > 0.5
    assert explained[0]["varied"] == 4


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ([], "--configuration names a knob, one of land_use, tilt"),
        (["--configuration", "tlit"], "has no value of a knob 'tlit'"),
        (["--configuration", "tilt", "--sure", "2"], "--sure"),
        (["--configuration", "tilt", "--map", "no.yaml"], "leave --configuration out"),
        (["--configuration", "tilt", "--descriptors", "other.csv"], "describes none of the stations"),
    ],
)
def test_bad_input_is_refused_in_a_sentence(
    folder: Path, capsys: pytest.CaptureFixture[str], options: list[str], sentence: str
) -> None:
    write(folder / "other.csv", [{"cell": "x1", "land_use": "town"}])
    assert main(["conform", str(write(folder / "cells.csv", cells())), "--station", "cell", *options]) == 2
    assert sentence in capsys.readouterr().err
