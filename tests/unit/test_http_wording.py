"""Sentences that reach callers over HTTP speak of requests and fields, never of Python."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import kinband
from kinband.service.http.errors import complaint, over_http, shown

ROOM = Path(kinband.__file__).parent
REACHED = (
    "controller/asking.py", "controller/telling.py", "controller/joining.py", "controller/roster.py",
    "controller/state.py", "controller/events.py", "controller/loop.py", "service/operations/deciding.py",
    "service/operations/people.py", "service/operations/reviewing.py", "service/operations/outlooks.py",
    "service/operations/picture.py", "service/operations/texts.py", "service/ledger/requests.py",
    "service/ledger/turns.py", "space.py",
)  # fmt: skip
"""Modules whose refusals a request can lead to."""
PYTHON = re.compile(r"\w+\(\)|\b[a-z_]+=(?![=\w])|\b(?:ask|tell)_all\b|\bDrift\(|\bConservative\b")
NEVER_HERE = ("features=", "contexts=", "half_life")  # a service is asked with states, and drift declared beforehand


def refusals() -> Iterator[tuple[str, str]]:
    """Every text with which a module refuses, what is filled in left out."""
    for name in REACHED:
        for node in ast.walk(ast.parse((ROOM / name).read_text(encoding="utf-8"))):
            if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call) and node.exc.args:
                text = "".join(_text(part) for part in ast.walk(node.exc.args[0]))
                if text and not any(word in text for word in NEVER_HERE):
                    yield name, text


def _text(part: ast.AST) -> str:
    return part.value if isinstance(part, ast.Constant) and isinstance(part.value, str) else ""


def test_there_is_something_to_translate() -> None:
    spoken = [text for _, text in refusals() if PYTHON.search(text)]
    assert len(spoken) >= 5
    assert any("correct()" in text for text in spoken)


def test_no_refusal_speaks_python_over_http() -> None:
    spoken = [(name, over_http(text)) for name, text in refusals()]
    assert [(name, text) for name, text in spoken if PYTHON.search(text)] == []


@pytest.mark.parametrize(
    ("spoken", "written"),
    [
        ("use correct() to change it", "use POST /v1/corrections to change it"),
        ("this controller's clock counts days: say the time of a decision by time=", "clock counts days: send time"),
        ("add it without similarity=", "add it without similarity"),
        ("'x' has none: declare it by running=", "'x' has none: send running"),
        ("nothing wrong here, tilt=4 stays", "nothing wrong here, tilt=4 stays"),
    ],
)
def test_advice_names_what_to_send(spoken: str, written: str) -> None:
    assert over_http(spoken).endswith(written)


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
