"""Names in addresses: how a station's name stands in a path, and how it is read there.

A station may be called anything, also `a/b`, `100%`, `#1` or `..`. A name is percent-encoded as a whole and is one
segment of a path. Browsers, clients and proxies resolve `.` and `..`, encoded or not (RFC 3986, 5.2.4; WHATWG, "URL
Standard"), so that names of dots alone get a tilde in front, and, that this can be undone, so do names that begin with
one. API, client and pages share this.
"""

from functools import lru_cache
from urllib.parse import quote


@lru_cache(maxsize=4096)  # the same stations again and again
def written(name: str) -> str:
    """Return a name as a segment of a path.

    Example:
        >>> written("a/b"), written(".."), written("~x"), written("3714")
        ('a%2Fb', '~..', '~~x', '3714')
    """
    guarded = f"~{name}" if name.startswith("~") or not name.strip(".") else name
    return quote(guarded, safe="~")


def read(segment: str) -> str:
    """Return the name that a decoded segment stands for; a tilde that guards nothing belongs to the name.

    Example:
        >>> read("a/b"), read("~.."), read("~~x"), read("~x")
        ('a/b', '..', '~x', '~x')
    """
    rest = segment[1:]
    guards = segment.startswith("~") and (rest.startswith("~") or not rest.strip("."))
    return rest if guards else segment
