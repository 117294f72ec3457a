"""Errors as answers."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from kinband.errors import BadInputError, CannotCorrectError, ConflictError, KinbandError, NotFoundError
from kinband.service.access.middleware import LOG
from kinband.service.access.provider import ProviderAwayError
from kinband.service.access.tokens import NotAllowedError, NotSignedInError
from kinband.service.ledger import LedgerRefusedError, LedgerUnavailableError
from kinband.service.problems import problem_response

# --- What is wrong with a request, in one sentence: where, what was expected, what came -----------------------------
#
# The checks are pydantic's, whose own words ("Input should be a valid string") speak of its types. Here every kind of
# error that our bodies and filters can have is worded for somebody who wrote the request.

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
    """Return one error of validation in words."""
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


def _place(loc: Sequence[str | int], *, plain: bool = False) -> str:
    """Return where an error is: a path into the body, or a parameter by its kind, or `plain` by its name alone."""
    where, *path = loc
    if not path:
        return "the body" if where == "body" else str(where)
    if path[-1] == "[key]":  # pydantic's word for the name of an entry, which stands before it
        return f"the name {shown(path[-2])} in {_place([where, *path[:-2]])}"
    found = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).lstrip(".")
    return found if plain else _PLACES.get(str(where), "") + found


def shown(value: object) -> str:
    """Return a value as JSON has it, in short; of lists and objects only that they are."""
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


# --- What to do about an error, for somebody who speaks HTTP ---------------------------------------------------------
#
# An error says what is wrong and, as its hint, what to do about it in Python: "use correct() to change it". Where a
# caller over HTTP has to do something else, the advice stands here under the code of the error. What a controller was
# made with cannot be changed by a request, so that advice to declare something becomes what a caller can do.

HINTS = {
    "told_already": "use POST /v1/corrections to change it",
    "ran_after_told": "report what runs by POST /v1/decisions/{{id}}/applied before telling",
    "runs_otherwise": "report what it runs now by POST /v1/decisions/{value}/applied",
    "order_over": "report what the station runs by POST /v1/decisions/{value}/applied",
    "running_unknown": "send running",
    "two_people": "have somebody else do it, with a token of their own",
    "held": "an admin may send override",
    "no_such_value": "allow an interval by {{low, high}}",
    "no_neighbour": "leave it out, neighbours are declared when a ledger is started",
    "reward_missing": "send it too, since the reward of this controller is not made of kpis",
    "similarity_on_return": "leave similarity out",
    "no_clock": "leave time out",
    "time_missing": "send time",
    "contexts_only": "start a ledger with a controller that is asked with states",
}
"""Advice by the code of an error, in place of that for Python; `{value}` is what came."""


def detail_of(error: KinbandError) -> str:
    """Return what is wrong and what to do about it over HTTP."""
    if not error.hint or error.code not in HINTS:
        return str(error)
    return f"{error.problem}: {HINTS[error.code].format(value=error.value)}"


# --- Every error becomes a problem with one sentence: here is which status it has, and what is said -----------------
#
# What was meant for the caller is passed on. What tells of the inside (where the database is, why it refuses, what
# broke) goes into the log, under the id of the request, which is all that the caller hears of it.

AGAIN = 5
"""Seconds after which to try again when the database is away."""

_STATUS: dict[type[KinbandError], int] = {
    BadInputError: 422,
    NotFoundError: 404,
    ConflictError: 409,
    CannotCorrectError: 409,
    NotAllowedError: 403,
}
REFUSES = "the database takes no writes, since it is read-only or rights are missing; the service's log has more"
"""What is said of a database that will not have it, now or later."""


FULL = "the disk under the database is full, and nothing was recorded: make room, and send the same request again later"
"""What is said of a ledger whose disk has no room."""
MOVED = (
    "the file of the database was moved, removed or replaced, and nothing was recorded: put it back, or start the "
    "service again, and send the same request again later"
)
"""What is said of a ledger that is not where it was."""
_KNOWN = {"full": FULL, "moved": MOVED}  # by the code of the error


class RefusedError(Exception):
    """A request that is refused before it is looked at."""

    def __init__(self, status: int, detail: str, *, headers: dict[str, str] | None = None) -> None:
        super().__init__(detail)
        self.status = status
        self.headers = headers


Missing = Callable[[int], Response]
"""A page for people whose browser asks for what is not there, from the status."""


def install(app: FastAPI, routes: Callable[[], Sequence[Any]], *, missing: Missing | None = None) -> None:
    """Let an application answer errors as problems.

    Args:
        app: The application.
        routes: Gives its routes, to say which methods a path has.
        missing: The page for people; programs get a problem all the same.
    """
    for kind, status in _STATUS.items():
        app.add_exception_handler(kind, _passed_on(status))
    app.add_exception_handler(NotSignedInError, _not_signed_in)
    app.add_exception_handler(LedgerUnavailableError, _unavailable)
    app.add_exception_handler(ProviderAwayError, _nobody_vouches)
    app.add_exception_handler(LedgerRefusedError, _unwritable)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(RefusedError, _refused)
    app.add_exception_handler(HTTPException, _by_http(routes, missing))


def _passed_on(status: int) -> Callable[[Request, Exception], Response]:
    def handle(_request: Request, error: Exception) -> Response:
        assert isinstance(error, KinbandError)  # noqa: S101
        return problem_response(status, detail_of(error), code=error.code, argument=error.argument)

    return handle


def _refused(_request: Request, error: Exception) -> Response:
    assert isinstance(error, RefusedError)  # noqa: S101
    return problem_response(error.status, str(error), headers=error.headers)


def _not_signed_in(_request: Request, error: Exception) -> Response:
    challenge = 'Bearer realm="kinband", error="invalid_token"'
    return problem_response(401, str(error), code="not_signed_in", headers={"WWW-Authenticate": challenge})


def _unavailable(_request: Request, error: Exception) -> Response:
    assert isinstance(error, LedgerUnavailableError)  # noqa: S101
    LOG.warning("the ledger is unavailable: %s", error)
    return problem_response(503, away(error), code=error.code, headers={"Retry-After": str(AGAIN)})


def _nobody_vouches(_request: Request, error: Exception) -> Response:
    assert isinstance(error, ProviderAwayError)  # noqa: S101
    return problem_response(503, str(error), code=error.code, headers={"Retry-After": str(AGAIN)})


def away(error: LedgerUnavailableError) -> str:
    """Return what to tell a caller of a ledger that is unavailable: what it is and what to do, never where it lies."""
    if error.code in _KNOWN:
        return _KNOWN[error.code]
    unsure = error.recorded is None
    done = "whether this was recorded is not known" if unsure else "nothing was recorded"
    how = " with the same Idempotency-Key" if unsure else ""
    return f"the database is away, busy or full, and {done}: send the same request again later{how}"


def _unwritable(_request: Request, error: Exception) -> Response:
    LOG.error("the ledger refuses: %s", error)
    sentence = f"nothing was recorded: {REFUSES}"
    return problem_response(503, sentence, code="read_only", headers={"Retry-After": str(AGAIN)})


def _invalid(_request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)  # noqa: S101
    found = error.errors()
    more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
    argument = printable(_place(found[0]["loc"], plain=True))
    return problem_response(422, f"{complaint(found[0])}{more}", code="invalid", argument=argument)


def _by_http(routes: Callable[[], Sequence[Any]], missing: Missing | None) -> Callable[[Request, Exception], Response]:
    def handle(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)  # noqa: S101
        by_browser = "text/html" in request.headers.get("accept", "") and not request.url.path.startswith("/v1")
        if missing is not None and error.status_code == 404 and by_browser:
            return missing(404)
        headers = dict(error.headers or {})
        detail = str(error.detail)
        if error.status_code == 405:
            allow = ", ".join(methods_at(request.url.path, routes()))
            headers, detail = {"Allow": allow}, f"this path answers {allow}, not {request.method[:20]}"
        elif error.status_code == 404 and detail == "Not Found":
            detail = "there is nothing at this path: /docs lists what there is"
        return problem_response(error.status_code, printable(detail), headers=headers)

    return handle


def methods_at(path: str, routes: Sequence[Any]) -> list[str]:
    """Return the methods that a path answers, over all routes; the framework names those of the first alone."""
    found = (route for route in routes if isinstance(route, APIRoute) and route.path_regex.match(path))
    methods = {method for route in found for method in route.methods or ()}
    return sorted(methods | ({"HEAD"} if "GET" in methods else set()))
