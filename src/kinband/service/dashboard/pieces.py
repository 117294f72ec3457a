"""Pieces of markup that pages hold by the hundred: links to stations, modes, statuses, changes. Each is made once."""

from functools import lru_cache

from markupsafe import Markup

from kinband.service.dashboard.addresses import decision_url, station_url
from kinband.service.dashboard.charts.marks import tag
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
def decision_link(decision_id: str) -> Markup:
    """Return a decision's id as a link to its page.

    Example:
        >>> print(decision_link("d000001"))
        <a href="/decisions/d000001">d000001</a>
    """
    return tag("a", decision_id, href=decision_url(decision_id))


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
def moves_tag(moves: tuple[tuple[str, str, str], ...], trial: bool = False) -> Markup:
    """Return the knobs that move, each with its old and its new value, and whether that is a trial.

    Example:
        >>> print(moves_tag((("tilt", "2", "4"),)))
        <span class="v"><span class="move">tilt <span class="nowrap">2 ... <b>4</b></span></span></span>
    """
    arrow = tag("span", "→", aria_label="to")
    pairs = [tag("span", old, " ", arrow, " ", tag("b", new), class_="nowrap") for _, old, new in moves]
    each = [tag("span", knob, " ", pair, class_="move") for (knob, *_), pair in zip(moves, pairs, strict=True)]
    mark = [" ", tag("span", "trial", class_="tagged")] if trial else []
    return tag("span", Markup(", ").join(each), *mark, class_="v")
