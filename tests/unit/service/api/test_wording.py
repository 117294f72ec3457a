"""Sentences that reach callers over HTTP speak of requests and fields, never of Python."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import kinband
from kinband.errors import BadInputError
from kinband.service.api.errors import HINTS, complaint, detail_of, shown

ROOM = Path(kinband.__file__).parent
PYTHON = re.compile(r"\w+\(\)|\b[a-z_]+=(?![=\w])|\b(?:ask|tell)_all\b|\b(?:Drift|Range)\(|\bConservative\b")


def coded() -> Iterator[tuple[str, str, str]]:
    """Code, problem and hint of every error with a code of its own that a request can lead to."""
    files = [ROOM / "space.py", *(ROOM / "controller").rglob("*.py"), *(ROOM / "service").rglob("*.py")]
    for node in (node for file in files for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))):
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
            said = {word.arg: _text(word.value) for word in node.exc.keywords}
            if said.get("code"):
                yield said["code"], _text(node.exc.args[0]), said.get("hint", "")


def _text(node: ast.AST) -> str:
    parts = (part.value for part in ast.walk(node) if isinstance(part, ast.Constant))
    return "".join(part for part in parts if isinstance(part, str))


def test_every_code_with_advice_of_its_own_is_raised_somewhere() -> None:
    assert HINTS.keys() <= {code for code, _, _ in coded()}


def test_no_error_with_a_code_speaks_python_over_http() -> None:
    spoken = {code: detail_of(BadInputError(problem, hint=hint, code=code)) for code, problem, hint in coded()}
    assert {code: text for code, text in spoken.items() if PYTHON.search(text)} == {}


@pytest.mark.parametrize("code", HINTS)
def test_advice_names_what_to_send(code: str) -> None:
    detail = detail_of(BadInputError("this is wrong", hint="call ask(time=)", code=code, value="d000001"))
    assert detail.startswith("this is wrong: ")
    assert not PYTHON.search(detail)


def test_an_error_without_advice_of_its_own_says_what_it_says_in_python() -> None:
    assert detail_of(BadInputError("this is wrong", hint="try 0.3")) == "this is wrong: try 0.3"
    assert detail_of(BadInputError("no such value", code="no_such_value")) == "no such value"


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        ({"type": "string_type", "loc": ("body", "slot"), "input": 7}, "slot must be text, got 7"),
        ({"type": "list_type", "loc": ("body", "ids"), "input": {}}, "ids must be a list, got an object"),
        ({"type": "missing", "loc": ("body",)}, "the body is missing"),
        ({"type": "missing", "loc": ("query", "limit")}, "the query parameter limit is missing"),
        (
            {"type": "too_long", "loc": ("body", "states"), "ctx": {"max_length": 10_000, "actual_length": 10_001}},
            "states must hold at most 10,000, got 10001",
        ),
        (
            {"type": "string_too_long", "loc": ("body", "states", "xyz", "[key]"), "input": "xyz",
             "ctx": {"max_length": 2}},
            "the name 'xyz' in states must have at most 2 characters, got 3",
        ),
        ({"type": "brand_new", "loc": ("body", "a", 3, "b"), "msg": "Odd"}, "a[3].b: Odd"),
    ],
)  # fmt: skip
def test_every_kind_of_error_has_words(error: dict[str, object], sentence: str) -> None:
    assert complaint({"msg": "", **error}) == sentence


def test_what_came_is_shown_in_short() -> None:
    assert len(shown("x" * 1000)) < 70
    assert shown("a\n\ud800") == "'a\\n\\ud800'"
    assert shown(1e300) == "1e+300"
