"""The tools: cross-checks say what is missing, the extract can be made again, a node to try plans on takes them."""

import re
import signal
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
from tests.support import netconf

from kinband.cli import main

ROOT = Path(__file__).parents[2]
TOOLS = Path(__file__).parents[2] / "tools"
# A finder that finds nothing under these names, also where the packages are installed.
HIDDEN = """
import importlib.util, runpy, sys
found = importlib.util.find_spec
importlib.util.find_spec = lambda name, *more: None if name in ("CRRM", "handoverlab") else found(name, *more)
runpy.run_path(sys.argv[1], run_name="__main__")
"""


@pytest.mark.parametrize(
    ("script", "package"),
    [
        ("cross_check_crrm.py", "CRRM"),
        ("cross_check_handoverlab.py", "handoverlab"),
        ("cross_check_corners.py", "handoverlab"),
    ],
)
def test_a_cross_check_without_its_package_is_skipped_in_one_sentence(script: str, package: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", HIDDEN, str(TOOLS / script)], capture_output=True, text=True, check=True
    )
    assert done.stdout == f"skipped: {package} is not installed; python -m pip install {package} brings it\n"
    assert done.stderr == ""


def test_every_cross_check_is_on_the_page_that_describes_the_simulator() -> None:
    page = (TOOLS.parent / "docs" / "extend.md").read_text(encoding="utf-8")
    assert all(f"tools/{script.name}" in page for script in TOOLS.glob("cross_check_*.py"))


def test_the_extract_of_measurements_is_made_of_whole_tables(tmp_path: Path) -> None:
    """Made from itself it stays as it is; from larger tables it takes as many tasks and leaves other outcomes out."""
    bundled = TOOLS.parent / "src" / "kinband" / "environments" / "measured" / "bundled"
    whole = tmp_path / "whole"
    whole.mkdir()
    for file in (*bundled.glob("*.parquet"), bundled / "LICENSE.MIT"):
        (whole / file.name).write_bytes(file.read_bytes())
    table, known = (pd.read_parquet(bundled / f"nodejs{part}.parquet") for part in ("", "-tasks"))
    for part, frame in (("", table), ("-tasks", known)):
        copies = [frame.assign(task=frame["task"] + suffix) for suffix in ("a", "b")]
        pd.concat(copies).to_parquet(whole / f"nodejs{part}.parquet")
    pd.read_parquet(bundled / "gcc.parquet").assign(ctime=1.0).to_parquet(whole / "gcc.parquet")
    command = [sys.executable, str(TOOLS / "measured_extract.py"), str(whole), str(tmp_path / "out")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.endswith(" bytes\n")
    for name in ("gcc", "x264", "x264-tasks", "sqlite"):
        made, kept = (pd.read_parquet(folder / f"{name}.parquet") for folder in (tmp_path / "out", bundled))
        pd.testing.assert_frame_equal(made, kept)
    assert pd.read_parquet(tmp_path / "out" / "nodejs.parquet")["task"].nunique() == 100


@pytest.mark.skipif(bool(netconf.MISSING), reason=netconf.WHY)
def test_a_node_with_the_cells_of_a_city_takes_a_plan_as_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    files = ["--pm", "pm", "--cm", "cm.csv", "--map", "map.yaml"]
    hours = ["--first-hour", "20", "--last-hour", "20.05", "--period", "1"]
    assert main(["simulate", "city.csv", "--stations", "3", "--days", "1", *hours, *files]) == 0
    (station, coded), *_ = netconf.settings_at_the_end(Path("cm.csv")).items()
    Path("tonight").mkdir()
    plan = f"station,present_handover_threshold_dbm,set_handover_threshold_dbm\n{station},{coded - 140},-99\n"
    Path("tonight/plan.csv").write_text(plan, encoding="utf-8")
    command = [sys.executable, "-m", "tools.netconf_node", str(tmp_path / "inventory.csv"), str(tmp_path / "cm.csv")]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as node:
        try:
            assert node.stdout is not None
            said = "".join(iter(node.stdout.readline, "Stop the node with Ctrl-C.\n"))
            with Path("map.yaml").open("a", encoding="utf-8") as mapping:
                mapping.write(said[said.index("netconf:") : said.index("Then:")])
            words = said.partition("Then: kinband ")[2].replace("PLAN", "tonight").replace("MAPPING", "map.yaml")
            assert main([*words.split(), "--confirm", "60"]) == 0
            again = re.search(r"Confirm: kinband (confirm .*)", capsys.readouterr().out)
            assert again is not None
            assert main(again[1].split()) == 0
        finally:
            node.send_signal(signal.SIGINT)
    assert node.returncode == 0
