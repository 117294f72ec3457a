"""Pieces of markup that pages hold by the hundred: links to stations, modes, statuses, changes. Each is made once."""

from functools import lru_cache

from markupsafe import Markup, escape

from kinband.service.dashboard.addresses import decision_url, station_url, with_query
from kinband.service.dashboard.charts.scales import tag
from kinband.service.dashboard.words import STATUS_WORDS

_LONG = 24  # letters from which a name may be broken
_KEPT = 4096  # more than any page holds


@lru_cache(maxsize=_KEPT)
def station_link(name: str) -> Markup:
    """Return a station's name as a link to its page.

    Example:
        >>> print(station_link("a/b"))
        <a href="/stations/a%2Fb">a/b</a>
    """
    return tag("a", name, href=station_url(name), class_="long" if len(name) > _LONG else None)


@lru_cache(maxsize=_KEPT)
def breakable(text: str) -> Markup:
    """Return a text that may be broken after underscores, as names of knobs have to be on a phone.

    Example:
        >>> print(breakable("handover_threshold −98 <"))
        handover_<wbr>threshold −98 &lt;
    """
    return Markup(str(escape(text)).replace("_", "_<wbr>"))  # noqa: S704 - escaped


@lru_cache(maxsize=_KEPT)
def decision_link(decision_id: str) -> Markup:
    """Return a decision's id as a link to its page.

    Example:
        >>> print(decision_link("d000001"))
        <a href="/decisions/d000001">d000001</a>
    """
    return tag("a", decision_id, href=decision_url(decision_id))


@lru_cache(maxsize=_KEPT)
def actor_link(name: str) -> Markup:
    """Return who did something as a link to all that they did; nobody is the service itself.

    Example:
        >>> print(actor_link("anna"), actor_link(""))
        <a class="cut" href="/audit?actor=anna" title="anna">anna</a> <span class="faint">the service</span>
    """
    if not name:
        return tag("span", "the service", class_="faint")
    return tag("a", name, class_="cut", href=with_query("/audit", actor=name), title=name)


@lru_cache(maxsize=_KEPT)
def mode_tag(mode: str) -> Markup:
    """Return a mode with its colour.

    Example:
        >>> print(mode_tag("assist"))
        <span class="mode m-assist">assist</span>
    """
    return tag("span", mode, class_=f"mode m-{mode}")


@lru_cache(maxsize=_KEPT)
def status_tag(status: str) -> Markup:
    """Return what became of a decision, in words.

    Example:
        >>> print(status_tag("rolled back"))
        <span class="status s-rolled-back">rolled back</span>
    """
    return tag("span", STATUS_WORDS.get(status, status), class_=f"status s-{status.replace(' ', '-')}")


@lru_cache(maxsize=_KEPT)
def moves_tag(moves: tuple[tuple[str, str, str], ...], mark: str = "") -> Markup:
    """Return the knobs that move, each with its old and its new value, and what that is called.

    Example:
        >>> print(moves_tag((("tilt", "2", "4"),)))
        <span class="v"><span class="move">tilt <span class="nowrap">2 ... <b>4</b></span></span></span>
    """
    arrow = tag("span", "→", aria_label="to")
    pairs = [tag("span", old, " ", arrow, " ", tag("b", new), class_="nowrap") for _, old, new in moves]
    each = [tag("span", knob, " ", pair, class_="move") for (knob, *_), pair in zip(moves, pairs, strict=True)]
    called = [" ", tag("span", mark, class_="tagged")] if mark else []
    return tag("span", Markup(", ").join(each), *called, class_="v")
