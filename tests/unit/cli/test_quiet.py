"""Standard error holds what concerns the user: no warnings of libraries, no tracebacks."""

import logging
import subprocess
import sys
import warnings

import pytest

from kinband.cli import app
from kinband.cli.options import noted


def test_what_kinband_warns_of_and_logs_becomes_a_note_once_and_libraries_warn_in_vain() -> None:
    notes: list[str] = []
    with noted(notes):
        for _ in range(2):
            warnings.warn_explicit("a knob never varies", UserWarning, f"{app.__file__}", 1)
            logging.getLogger("kinband.controller").warning("no budget is on, since %s", "nothing runs")
        warnings.warn_explicit("a worker stopped", UserWarning, "/site-packages/joblib/executor.py", 1)
        warnings.warn_explicit("overflow in exp", RuntimeWarning, f"{app.__file__}", 1)
    assert notes == ["a knob never varies", "no budget is on, since nothing runs"]


def test_a_fault_is_a_sentence_with_its_place_and_how_to_see_all_of_it(capsys: pytest.CaptureFixture[str]) -> None:
    program = (
        "import sys, kinband.cli.app as app\n"
        "def broken(): raise TypeError('two\\nlines')\n"
        "app.commands = broken\n"
        "sys.argv = ['kinband', 'look']\n"
        "sys.exit(app.main())"
    )
    plain, shown = (
        subprocess.run([sys.executable, *options, "-c", program], capture_output=True, text=True, check=False)
        for options in ([], ["-X", "dev"])
    )
    assert plain.returncode == 1
    assert plain.stderr.startswith("kinband: this is a fault of kinband, please report it: TypeError: two lines (")
    assert len(plain.stderr.splitlines()) == 1
    assert "Traceback" in shown.stderr
