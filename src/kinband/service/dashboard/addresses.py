"""Addresses of pages, and the names in them.

A station may be called anything, also `a/b`, `100%` or `..`. A name is percent-encoded as a whole, and routes take the
rest of the path. Browsers resolve `.` and `..` whether encoded or not, so that names of dots alone get a tilde in
front, and, that this can be undone, so do names that begin with one.
"""

from functools import lru_cache
from urllib.parse import quote, urlencode


@lru_cache(maxsize=4096)  # the same stations are on every page
def written(name: str) -> str:
    """Return a name as a part of a path.

    Example:
        >>> written("a/b"), written(".."), written("~x")
        ('a%2Fb', '~..', '~~x')
    """
    guarded = f"~{name}" if name.startswith("~") or not name.strip(".") else name
    return quote(guarded, safe="~")


def read(part: str) -> str:
    """Return the name that a part of a path, decoded by the server, stands for.

    Example:
        >>> read("a/b"), read("~.."), read("~~x")
        ('a/b', '..', '~x')
    """
    return part.removeprefix("~")


def station_url(name: str, action: str = "") -> str:
    """Return the address of a station's page or of an action on it.

    Example:
        >>> station_url("3714"), station_url("a/b", "freeze")
        ('/stations/3714', '/stations/a%2Fb/freeze')
    """
    return f"/stations/{written(name)}" + (f"/{action}" if action else "")


def decision_url(decision_id: str) -> str:
    """Return the address of a decision's page.

    Example:
        >>> decision_url("d000001")
        '/decisions/d000001'
    """
    return f"/decisions/{written(decision_id)}"


def with_query(path: str, **values: object) -> str:
    """Return an address with those values that are there.

    Example:
        >>> with_query("/audit", station="a b", kind="", before=None)
        '/audit?station=a+b'
    """
    given = {key: value for key, value in values.items() if value not in (None, "")}
    return f"{path}?{urlencode(given)}" if given else path


def own_path(given: str) -> str:
    r"""Return where to go after signing in: a path of this service, or the first page for anything else.

    Example:
        >>> own_path("/plan?x=1"), own_path("//evil.example"), own_path("https://evil.example"), own_path("/\\evil")
        ('/plan?x=1', '/', '/', '/')
    """
    good = given.startswith("/") and not given.startswith(("//", "/\\")) and given.isprintable() and "\\" not in given
    return given if good else "/"
