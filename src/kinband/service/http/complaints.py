"""What is wrong with a request, in one sentence: where, what was expected, what came.

The checks are pydantic's, whose own words ("Input should be a valid string") speak of its types. Here every kind of
error that our bodies and filters can have is worded for somebody who wrote the request.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

LONGEST = 300
"""Characters of a complaint; what a caller sent comes back in part only."""
_SHOWN = 60  # characters of a value

_KINDS = {
    "string_type": "text",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_parsing_size": "a whole number that is not as large",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "finite_number": "a finite number",
    "dict_type": "an object",
    "model_type": "an object",
    "model_attributes_type": "an object",
    "list_type": "a list",
}
_PATTERNS = {"^[!-~]+$": "visible characters of ASCII, and no spaces"}  # all others are those of names
_LIMITS: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    "greater_than": lambda said: f"above {said['gt']:g}",
    "greater_than_equal": lambda said: f"at least {said['ge']:g}",
    "less_than_equal": lambda said: f"at most {said['le']:g}",
    "literal_error": lambda said: f"one of {str(said['expected']).replace(' or ', ', ')}",
}
_SIZES: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    "too_short": lambda said: f"must hold at least {said['min_length']}, got {said['actual_length']}",
    "too_long": lambda said: f"must hold at most {said['max_length']:,}, got {said['actual_length'] or 'more'}",
    "string_too_short": lambda _: "must not be empty",
    "string_too_long": lambda said: f"must have at most {said['max_length']:,} characters{said['got']}",
}
_PLACES = {"query": "the query parameter ", "header": "the header ", "path": "the path's "}


def complaint(error: Mapping[str, Any]) -> str:
    """Return one error of validation in words.

    Example:
        >>> complaint({"type": "missing", "loc": ("body", "outcomes", 0, "decision"), "msg": "Field required"})
        'outcomes[0].decision is missing'
        >>> complaint({"type": "string_type", "loc": ("body", "slot"), "msg": "", "input": 7})
        'slot must be text, got 7'
    """
    return printable(f"{_place(error['loc'])}{_words(error)}")


def _words(error: Mapping[str, Any]) -> str:
    kind, given = error["type"], error.get("input")
    said = {**error.get("ctx", {}), "got": f", got {len(given):,}" if isinstance(given, str) else ""}
    if kind == "missing":
        return " is missing"
    if kind == "extra_forbidden":
        return " is not known here: check the spelling"
    if kind in _SIZES:
        return f" {_SIZES[kind](said)}"
    if kind in _KINDS or kind in _LIMITS:
        expected = _KINDS.get(kind) or _LIMITS[kind](said)
        return f" must be {expected}, got {shown(given)}"
    if kind == "string_unicode":
        return " must be text that UTF-8 can hold"
    if kind == "string_pattern_mismatch":
        return f" must be {_PATTERNS.get(said['pattern'], 'text without control characters')}"
    ours = str(error["msg"]).removeprefix("Value error, ")
    return f" {ours}" if ours.startswith("must ") else f": {ours}"


def _place(loc: Sequence[str | int]) -> str:
    """Return where an error is: a path into the body, or a parameter by its kind."""
    where, *path = loc
    if not path:
        return "the body" if where == "body" else str(where)
    if path[-1] == "[key]":  # pydantic's word for the name of an entry, which stands before it
        return f"the name {shown(path[-2])} in {_place([where, *path[:-2]])}"
    found = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).lstrip(".")
    return _PLACES.get(str(where), "") + found


def shown(value: object) -> str:
    """Return a value as JSON has it, in short; of lists and objects only that they are.

    Example:
        >>> shown(True), shown(None), shown("0.5"), shown([1, 2]), shown({}), shown(b"x")
        ('true', 'null', "'0.5'", 'a list', 'an object', 'text')
    """
    match value:
        case bool() | None:
            return {True: "true", False: "false", None: "null"}[value]
        case str():
            return f"'{ascii(value)[1:-1][:_SHOWN]}'"
        case int() | float():
            return f"{value}"[:_SHOWN]
        case list():
            return "a list"
        case bytes():
            return "text"
    return "an object"


def printable(text: str) -> str:
    """Return text that can be sent and read; a caller's own comes back in part."""
    short = text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"
    return short.encode("utf-8", "backslashreplace").decode()
