"""Paths that are matched segment by segment, so that a name may hold a slash.

A server decodes a path before routes see it, and then an encoded slash is a slash like any other: `a%2Foutlook` would
be the outlook of `a`. Here a path is decoded again from how it came, segment by segment, and slashes and per cent signs
within a segment stay encoded until the name is read (`StationName`).
"""

from typing import Annotated
from urllib.parse import unquote

from fastapi import Path
from pydantic import AfterValidator
from starlette.types import ASGIApp, Receive, Scope, Send

from kinband.service.paths import read


class Segments:
    """Has the paths below a prefix matched segment by segment.

    Args:
        app: What answers.
        prefix: How the paths begin.
    """

    def __init__(self, app: ASGIApp, *, prefix: str) -> None:
        self.app, self.prefix = app, prefix

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] == "http" and scope["path"].startswith(self.prefix):
            raw: bytes | None = scope.get("raw_path")  # servers need not tell it
            came = scope["path"].replace("%", "%25") if raw is None else raw.partition(b"?")[0].decode("latin-1")
            scope = {**scope, "path": apart(came)}
        await self.app(scope, receive, send)


def apart(raw: str) -> str:
    """Return a path decoded, but for the slashes and per cent signs within its segments.

    Example:
        >>> apart("/v1/stations/a%2Fb%20c/freeze")
        '/v1/stations/a%2Fb c/freeze'
    """
    return "/".join(unquote(part).replace("%", "%25").replace("/", "%2F") for part in raw.split("/"))


def name_in(segment: str) -> str:
    """Return the name that a segment of such a path stands for.

    Example:
        >>> name_in("a%2Fb c"), name_in("100%25"), name_in("~..")
        ('a/b c', '100%', '..')
    """
    return read(unquote(segment))


StationName = Annotated[
    str,
    Path(description="Its name, percent-encoded; one of dots alone, or with a tilde in front, gets a tilde in front."),
    AfterValidator(name_in),
]
