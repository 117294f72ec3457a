"""A plugin of pytest for `mutants.py`: which statements a test reaches, and certain tests only, in a certain order.

`KINBAND_REACHED` names a folder of source and `KINBAND_WRITE` the file that gets what was found: for every test its
seconds and the lines by file. `KINBAND_CHOSEN` names a file with the tests to run, in order; others are left out.
"""

import json
import os
import sys
import threading
import time
from collections.abc import Generator
from importlib.util import find_spec
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

SOURCE, WRITE, CHOSEN = (os.environ.get(f"KINBAND_{name}", "") for name in ("REACHED", "WRITE", "CHOSEN"))

found: dict[str, dict[str, Any]] = {}
lines: set[tuple[str, int]] = set()  # of the test that runs


def within(frame: FrameType, event: str, _argument: Any) -> Any:
    """Note a line of the source."""
    if event == "line":
        lines.add((frame.f_code.co_filename, frame.f_lineno))
    return within


def entered(frame: FrameType, _event: str, _argument: Any) -> Any:
    """Look into calls of the source only."""
    return within if frame.f_code.co_filename.startswith(SOURCE) else None


def pytest_configure() -> None:
    """Let a property that fails against a mutant fail at once, instead of looking for the simplest example."""
    if CHOSEN and find_spec("hypothesis") is not None:
        from hypothesis import Phase, settings

        settings.register_profile("mutants", phases=[Phase.explicit, Phase.reuse, Phase.generate])
        settings.load_profile("mutants")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, Any, Any]:
    """Note what a test reaches, with what is set up for it; in its threads too, not in other processes."""
    if not WRITE:
        return (yield)
    lines.clear()
    began = time.perf_counter()
    threading.settrace(entered)
    sys.settrace(entered)
    try:
        return (yield)
    finally:
        sys.settrace(None)
        threading.settrace(None)
        by_file: dict[str, list[int]] = {}
        for file, line in sorted(lines):
            by_file.setdefault(file, []).append(line)
        found[item.nodeid] = {"seconds": time.perf_counter() - began, "lines": by_file}


def pytest_sessionfinish() -> None:
    """Write what was found."""
    if WRITE:
        Path(WRITE).write_text(json.dumps(found))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what was not chosen, and take the others in the order given."""
    if CHOSEN:
        order = {name: place for place, name in enumerate(json.loads(Path(CHOSEN).read_text()))}
        config.hook.pytest_deselected(items=[item for item in items if item.nodeid not in order])
        items[:] = sorted((item for item in items if item.nodeid in order), key=lambda item: order[item.nodeid])
