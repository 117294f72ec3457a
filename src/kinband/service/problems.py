"""Refusals as problem details (RFC 9457): one form for every error that the service answers.

The detail is one sentence that a person can act on; programs look at `code` and `argument`. These and `request_id`,
which ties an answer to the lines of the log, are members that the RFC does not name.
"""

from collections.abc import Mapping
from contextvars import ContextVar
from http import HTTPStatus
from typing import Any

from starlette.responses import JSONResponse

MEDIA_TYPE = "application/problem+json"
"""What a problem is sent as."""

REQUEST_ID: ContextVar[str] = ContextVar("kinband_request_id", default="")
"""The id of the request that is being answered; empty outside of one."""


def problem(status: int, detail: str, *, code: str = "", argument: str = "", instance: str = "") -> dict[str, Any]:
    """Return what is sent of a problem.

    Args:
        status: HTTP's status.
        detail: What went wrong and what to do, in one sentence.
        code: Which problem it is, for programs.
        argument: The field, parameter or argument at fault.
        instance: Where it occurred: the path of the request.

    Example:
        >>> problem(413, "the body has more than 1 MiB: send less at once")["title"]
        'Content Too Large'
    """
    told = {"type": "about:blank", "title": phrase(status), "status": status, "detail": detail, "code": code}
    told |= {"argument": argument, "instance": instance, "request_id": REQUEST_ID.get()}
    return {name: value for name, value in told.items() if value}


def problem_response(
    status: int, detail: str, *, headers: Mapping[str, str] | None = None, **further: str
) -> JSONResponse:
    """Return the answer that tells a problem, with further headers such as `Retry-After`.

    Example:
        >>> answer = problem_response(429, "too many requests: wait 3 seconds", headers={"Retry-After": "3"})
        >>> answer.status_code, answer.headers["content-type"], answer.headers["retry-after"]
        (429, 'application/problem+json', '3')
    """
    told = problem(status, detail, **further)
    return JSONResponse(told, status_code=status, headers=dict(headers or {}), media_type=MEDIA_TYPE)


def phrase(status: int) -> str:
    """Return HTTP's words for a status, as RFC 9110 has them.

    Example:
        >>> phrase(404), phrase(422), phrase(799)
        ('Not Found', 'Unprocessable Content', 'Error')
    """
    newer = {413: "Content Too Large", 422: "Unprocessable Content"}  # the names before RFC 9110, in older Pythons
    try:
        return newer.get(status) or HTTPStatus(status).phrase
    except ValueError:
        return "Error"
