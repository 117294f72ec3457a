"""What docstrings and comments name is there: modules of kinband, and names in them."""

import ast
import importlib
import io
import pkgutil
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import kinband

ROOT = Path(kinband.__file__).parent
FILES = (".csv", ".html", ".json", ".jsonl", ".npz", ".yaml", ".py")  # `plan.csv` is a file
OBJECTS = {"self", "controller", "rule"}  # `controller.similarity` is of whatever controller there is
OTHERS = {"yaml"}  # libraries


def prose(source: str) -> Iterator[str]:
    """Go through the docstrings of modules, classes, functions and attributes, and the comments."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.value.value
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.string


def resolves(name: str) -> bool:
    """Return whether a dotted name is a module of kinband, or something in one; fields count as attributes."""
    parts = name.split(".")
    found: Any = kinband
    for n, part in enumerate(parts[1:], start=2):
        if hasattr(found, part):
            found = getattr(found, part)
        elif hasattr(found, "__path__") and part in {one.name for one in pkgutil.iter_modules(found.__path__)}:
            found = importlib.import_module(".".join(parts[:n]))
        else:
            return part in getattr(found, "__annotations__", {})
    return True


def unknown(source: str, module: str) -> list[str]:
    """Return the backticked dotted names that lead nowhere from the module, nor from a package around it."""
    around = module.split(".")
    rooms = [".".join(around[:n]) for n in range(len(around), 0, -1)]
    named = {name for text in prose(source) for name in re.findall(r"`([a-z_]\w*(?:\.\w+)+)`", text)}
    inside = {name for name in named if not name.endswith(FILES) and name.split(".")[0] not in OBJECTS | OTHERS}
    return sorted(
        name
        for name in inside
        if not (resolves(name) if name.startswith("kinband.") else any(resolves(f"{room}.{name}") for room in rooms))
    )


def test_dotted_names_lead_somewhere() -> None:
    wrong, seen = {}, 0
    for path in sorted(ROOT.rglob("*.py")):
        inner = path.relative_to(ROOT.parent).with_suffix("").parts
        module = ".".join(inner[:-1] if inner[-1] == "__init__" else inner)
        source = path.read_text(encoding="utf-8")
        seen += source.count("`kinband.")
        if names := unknown(source, module):
            wrong[module] = names
    assert wrong == {}
    assert seen > 20


def test_packages_name_modules_that_they_have() -> None:
    wrong = {}
    for one in pkgutil.walk_packages(kinband.__path__, "kinband."):
        if one.ispkg and one.name != "kinband.guardrails":  # which names keys of its file
            room = importlib.import_module(one.name)
            names = re.findall(r"`([a-z_]\w*)`", room.__doc__ or "")
            folders = {path.name for path in Path(room.__path__[0]).iterdir() if path.is_dir()}
            wrong[one.name] = [name for name in names if name not in folders and not resolves(f"{one.name}.{name}")]
    assert {room: names for room, names in wrong.items() if names} == {}
    assert len(wrong) > 15


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("`tokens.proof_of` and `sessions`", []),
        ("`records.proof_of`, where `proof_of` was before", ["records.proof_of"]),
        ("`csrf.check_request`", ["csrf.check_request"]),
        ("`kinband.records.Decision.std` but not `kinband.records.Decision.width`", ["kinband.records.Decision.width"]),
        ("`ledger.store.Writable`, `plan.csv` and `self.stations`", []),
    ],
)
def test_names_that_moved_are_found_and_others_left_alone(text: str, names: list[str]) -> None:
    assert unknown(f'"""{text}."""\n', "kinband.service.access.sessions") == names
    assert unknown(f"x = 1  # {text}\n", "kinband.service.access.sessions") == names
