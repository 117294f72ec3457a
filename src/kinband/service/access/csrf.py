"""Requests that another site makes a browser send: found by where they come from, and by what they cannot know.

A browser adds its cookie to a request whoever has caused it. So a call that changes something has to show two things.
It has to come from our own pages, by `Sec-Fetch-Site` (W3C, Fetch Metadata), which no page can set, or by `Origin` (RFC
6454) in browsers that do not send it. And it has to repeat a text that only our own pages show, in the hidden field
`csrf` of a form or in the header `X-CSRF-Token`.

A service without access control (`--insecure-local`) has no session to tell callers by, and any page in a browser on
that machine could talk to it: there `check_origin` alone applies to every call that changes something.

Callers with a bearer token need neither: no browser adds that by itself.
"""

import hmac
from collections.abc import Mapping
from urllib.parse import urlsplit

from kinband.service.access.errors import NotAllowedError
from kinband.service.access.sessions import Session

FIELD = "csrf"
"""The hidden field of a form."""

HEADER = "x-csrf-token"
"""The header of a call by a script."""

SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
"""Methods that change nothing."""


def check_request(session: Session, method: str, *, headers: Mapping[str, str], field: str | None = None) -> None:
    """Refuse a call that changes something unless one of our own pages has sent it.

    Args:
        session: Who calls, by cookie.
        method: The method of the call.
        headers: Its headers, by names in lower case (Starlette's find any case).
        field: The value of the form's field `csrf`, if it has one.

    Example:
        >>> from kinband.service.access.roles import Identity
        >>> session = Session(Identity.local(), "t0p", 0)
        >>> check_request(session, "POST", headers={"sec-fetch-site": "same-origin"}, field="t0p")
        >>> check_request(session, "POST", headers={"sec-fetch-site": "cross-site"}, field="t0p")
        Traceback (most recent call last):
            ...
        kinband.service.access.errors.NotAllowedError: this request comes from another site: ...
    """
    check_origin(method, headers)
    given = headers.get(HEADER) or field or ""
    if method.upper() not in SAFE and not hmac.compare_digest(given.encode(), session.csrf.encode()):
        raise NotAllowedError("this form is not of your present session: load the page again and repeat the step")


def check_origin(method: str, headers: Mapping[str, str]) -> None:
    """Refuse a call that changes something and that a browser sends on behalf of another site.

    Args:
        method: The method of the call.
        headers: Its headers, by names in lower case (Starlette's find any case).

    Example:
        >>> check_origin("POST", {"host": "kinband.example", "origin": "https://kinband.example"})
        >>> check_origin("POST", {"host": "kinband.example", "origin": "https://evil.example"})
        Traceback (most recent call last):
            ...
        kinband.service.access.errors.NotAllowedError: this request comes from another site: ...
    """
    if method.upper() in SAFE:
        return
    site, origin = headers.get("sec-fetch-site"), headers.get("origin")
    if site is not None:
        ours = site == "same-origin"
    else:
        ours = origin is None or (origin != "null" and _same_host(origin, headers.get("host", "")))
    if not ours:
        raise NotAllowedError(
            "this request comes from another site: use the pages of this service (a proxy in front of it must pass on "
            "the Host header)"
        )


def _same_host(origin: str, host: str) -> bool:
    """Whether an origin is ours; its scheme may differ from what we see, behind a proxy that ends TLS."""
    try:
        parts = urlsplit(origin)
    except ValueError:
        return False
    default = {"http": ":80", "https": ":443"}.get(parts.scheme)
    if default is None or not host:
        return False
    return parts.netloc.lower().removesuffix(default) == host.lower().removesuffix(default)
