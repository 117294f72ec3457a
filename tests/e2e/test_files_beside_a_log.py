"""A log in Windows' Polish encoding, and files beside it in others: each is read as its bytes say."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from kinband.cli.app import main


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder, rng = tmp_path_factory.mktemp("beside"), np.random.default_rng(0)
    hours = pd.date_range("2024-05-01", periods=24, freq="h")
    log = pd.DataFrame({"Komórka": np.repeat([f"Łódź {n}" for n in range(4)], 24), "time": np.tile(hours, 4)})
    log["tilt"] = rng.choice([2, 4, 6], 96)
    log["thp"] = (20 - (log["tilt"] - 4) ** 2 + 0.1 * rng.normal(size=96)).round(3)
    log.to_csv(folder / "log.csv", sep=";", decimal=",", index=False, encoding="cp1250")
    return folder


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1250"])
def test_the_encoding_of_the_log_is_not_forced_on_the_files_beside_it(
    folder: Path, encoding: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "vendor.yaml").write_text(
        "station: Komórka\nreward: thp\nconfiguration: [tilt]\nencoding: cp1250\n", encoding="utf-8"
    )
    names = [f"Łódź {n}" for n in range(4)]
    beside = {
        "now": pd.DataFrame({"Komórka": names, "tilt": 2}),
        "neighbours": pd.DataFrame({"Komórka": names, "neighbour": [*names[1:], names[0]]}),
        "descriptors": pd.DataFrame({"Komórka": names, "height": [10, 20, 30, 40]}),
    }
    options = ["--profile", str(folder / "vendor.yaml"), "--out", str(folder / "plan"), "--replace", "--json"]
    for name, frame in beside.items():
        file = folder / f"{name}-{encoding}.csv"
        frame.to_csv(file, sep=";", index=False, encoding=encoding)
        options += [f"--{name}", str(file)]
    assert main(["recommend", str(folder / "log.csv"), *options]) == 0
    answer = json.loads(capsys.readouterr().out)
    changed = {one["station"] for one in answer["changes"]}
    assert changed
    assert changed <= set(names)
    assert not any("not in the log" in one["why"] for one in answer["left_alone"])
