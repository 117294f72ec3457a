"""Importing kinband is light, and every public name is documented by an example that runs."""

import importlib
import inspect
import pkgutil
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import kinband

HEAVY = ["sklearn", "pandas", "polars", "matplotlib", "pyarrow", "narwhals", "typer", "rich", "scipy", "ray"]
HEAVY += ["yaml", "sqlalchemy", "psycopg", "fastapi", "starlette", "uvicorn", "jinja2", "httpx", "pydantic", "lxml"]
REFERENCE = Path(__file__).parents[2] / "docs" / "reference.md"
PROMISED = sorted(
    {
        *re.findall(r"^::: (kinband[\w.]*)$", REFERENCE.read_text(encoding="utf-8"), flags=re.MULTILINE),
        *(f"kinband.{name}" for name in kinband.__all__ if name != "__version__"),
    }
)


def test_importing_kinband_loads_nothing_heavy() -> None:
    code = f"import sys, kinband; print([m for m in {HEAVY!r} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_command_line_can_mind_ctrl_c_before_anything_is_loaded() -> None:
    code = "import sys, kinband.cli; print([m for m in ('numpy', 'typer', 'kinband.controller') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_names_and_rooms_are_loaded_when_asked_for() -> None:
    code = "import kinband; print(kinband.Trace.__name__, kinband.similarity.NAMES['pooled'].__name__, dir(kinband)[0])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split()[:2] == ["Trace", "Pooled"]
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        kinband.nonsense  # noqa: B018


def test_asking_and_telling_needs_no_optional_package() -> None:
    code = """
import sys
for name in ("sklearn", "pandas", "polars", "matplotlib", "pyarrow", "narwhals"):
    sys.modules[name] = None  # importing it now fails
import kinband
space = kinband.ConfigurationSpace(tilt=range(4))
c = kinband.Controller(space, ["a", "b"], state=["load"], similarity="pooled")
for i in range(5):
    c.tell(c.ask("ab"[i % 2], {"load": i / 5}).id, 0.5)
print(len(c))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "5"


def promised(path: str) -> Any:
    """Return what a path names: a module, or a name in one."""
    room, _, name = path.rpartition(".")
    found = importlib.import_module(room)
    return getattr(found, name)


@pytest.mark.parametrize("path", PROMISED)
def test_every_public_name_is_documented_by_an_example(path: str) -> None:
    found = promised(path)
    listed = [getattr(found, name) for name in getattr(found, "__all__", ())] if inspect.ismodule(found) else [found]
    names = [one for one in listed if inspect.isclass(one) or inspect.isfunction(one)]
    assert [one for one in names if ">>>" not in (inspect.getdoc(one) or "")] == []


def test_every_room_says_what_it_is_for() -> None:
    rooms = [one.name for one in pkgutil.walk_packages(kinband.__path__, "kinband.") if "migrations" not in one.name]
    assert len(rooms) > 100
    assert [room for room in rooms if room != "kinband.__main__" and not importlib.import_module(room).__doc__] == []
