"""Importing kinband is light, and every public name is documented by an example that runs."""

import importlib
import inspect
import subprocess
import sys

import pytest

import kinband

HEAVY = ["sklearn", "pandas", "polars", "matplotlib", "pyarrow", "narwhals", "typer", "rich", "scipy", "ray"]
HEAVY += ["yaml", "sqlalchemy", "psycopg", "fastapi", "starlette", "uvicorn", "jinja2", "httpx", "pydantic"]
ROOMS = [
    "kinband",
    "kinband.arrays",
    "kinband.planning",
    "kinband.space",
    "kinband.contexts",
    "kinband.controller",
    "kinband.environments",
    "kinband.environments.radio",
    "kinband.errors",
    "kinband.ope",
    "kinband.cluster",
    "kinband.guardrails",
    "kinband.kernels",
    "kinband.likelihood",
    "kinband.model",
    "kinband.policies",
    "kinband.posterior",
    "kinband.records",
    "kinband.regressor",
    "kinband.similarity",
    "kinband.theory",
    "kinband.trace",
    "kinband.service.access",
    "kinband.service.client",
    "kinband.service.api",
    "kinband.service.ledger",
    "kinband.service.operations",
    "kinband.service.problems",
]


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


@pytest.mark.parametrize("room", ROOMS)
def test_every_public_name_is_documented_by_an_example(room: str) -> None:
    module = importlib.import_module(room)
    assert module.__doc__
    names = getattr(module, "__all__", [name for name in vars(module) if not name.startswith("_")])
    objects = {name: getattr(module, name) for name in names}
    mine = {
        name: o
        for name, o in objects.items()
        if (inspect.isclass(o) or inspect.isfunction(o)) and o.__module__.startswith("kinband")
    }
    assert [name for name, o in mine.items() if ">>>" not in (inspect.getdoc(o) or "")] == []
