"""Addresses of pages.

How a station's name stands in a path is told in `service.paths`. Routes of pages take the rest of a decoded path: what
forms are sent to ends with what they do, so that slashes in names mislead nobody.
"""

from urllib.parse import urlencode

from kinband.service.paths import read, written

__all__ = ["decision_url", "own_path", "read", "station_url", "with_query"]


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
