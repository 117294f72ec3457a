"""Style sheet, script and icon: read once, named by their content, kept by browsers for a year.

An address holds a digest of what it leads to, so that a new version has a new address; whoever asks with another digest
gets the present file and may not keep it.
"""

import hashlib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from starlette.requests import Request
from starlette.responses import Response

from kinband.errors import NotFoundError

_TYPES = {
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
_NAMES = ("kinband.css", "kinband.js", "kinband.svg")
_FOR_EVER = "public, max-age=31536000, immutable"


@dataclass(frozen=True, slots=True)
class Asset:
    """A file that pages refer to.

    Attributes:
        name: Its name.
        content: What is in it.
        digest: Of the content.

    Example:
        >>> assets()["kinband.css"].url.startswith("/static/kinband.css?v=")
        True
    """

    name: str
    content: bytes
    digest: str

    @property
    def url(self) -> str:
        """Where it is."""
        return f"/static/{self.name}?v={self.digest}"


@cache
def assets() -> dict[str, Asset]:
    """Return the files by name.

    Example:
        >>> sorted(assets())
        ['kinband.css', 'kinband.js', 'kinband.svg']
    """
    folder = files("kinband.service.dashboard") / "static"
    found = {name: (folder / name).read_bytes() for name in _NAMES}
    return {name: Asset(name, body, hashlib.sha256(body).hexdigest()[:16]) for name, body in found.items()}


def answer(request: Request, name: str) -> Response:
    """Return the answer to a request for a file, or say that there is none."""
    asset = assets().get(name)
    if asset is None:
        raise NotFoundError(f"there is no file {name!r:.60}: check the address")
    etag = f'"{asset.digest}"'
    kept = _FOR_EVER if request.query_params.get("v") == asset.digest else "no-cache"
    headers = {"ETag": etag, "Cache-Control": kept}
    if asked_before(request, etag):
        return Response(status_code=304, headers=headers)
    return Response(asset.content, media_type=_TYPES[name.rpartition(".")[2]], headers=headers)


def asked_before(request: Request, etag: str) -> bool:
    """Return whether a browser has what an ETag stands for; weak ones count (RFC 9110, 13.1.2)."""
    known = [tag.strip().removeprefix("W/") for tag in request.headers.get("if-none-match", "").split(",")]
    return etag.removeprefix("W/") in known
