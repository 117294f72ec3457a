"""The cross-checks with simulators of other authors say what is missing, and nothing else of ours needs them."""

import subprocess
import sys
from pathlib import Path

import pytest

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


def test_every_cross_check_is_on_the_page_of_the_simulator() -> None:
    page = (TOOLS.parent / "docs" / "simulator.md").read_text(encoding="utf-8")
    assert all(f"tools/{script.name}" in page for script in TOOLS.glob("cross_check_*.py"))
