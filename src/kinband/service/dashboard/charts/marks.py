"""SVG elements as text: escaped, short, and without a style of their own.

A page forbids inline styles, so that what an element looks like is said by its class or by a presentation attribute.
Numbers are written with two decimals at most: a hundredth of a pixel is below what a screen shows.

A page has hundreds of elements, so that what is safe already is not looked at again.
"""

import re
from functools import lru_cache

from markupsafe import Markup, escape

_SPECIAL = re.compile("[&<>'\"]")  # what means something in markup
_KEPT_TEXT = 40  # letters of an attribute that is remembered
_SHORT_TEXT = 100  # up to which looking first is quicker than escaping


def number(value: float) -> str:
    """Return a coordinate.

    Example:
        >>> number(12.0), number(0.125), number(-0.001)
        ('12', '0.12', '0')
    """
    text = f"{value:.2f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text


def percent(share: float) -> str:
    """Return a share of the picture's width as a coordinate.

    Example:
        >>> percent(0.125)
        '12.5%'
    """
    return f"{number(100.0 * share)}%"


def tag(name: str, *inside: str, **attributes: object) -> Markup:
    """Return an element; attributes that are None are left out, `class_` is `class` and `stroke_width` `stroke-width`.

    What is inside is escaped unless it is `Markup`, attributes always are.

    Example:
        >>> print(tag("text", "a < b", class_="tick", x=1.5, text_anchor="end", y=None))
        <text class="tick" x="1.5" text-anchor="end">a &lt; b</text>
        >>> print(tag("line", x1=0, x2="100%"))
        <line x1="0" x2="100%"/>
    """
    said = "".join([_attribute(key, value) for key, value in attributes.items() if value is not None])
    if not inside:
        return Markup(f"<{name}{said}/>")  # noqa: S704 - every part is escaped
    return Markup(f"<{name}{said}>{''.join(map(escaped, inside))}</{name}>")  # noqa: S704 - every part is escaped


def joined(parts: "list[Markup]") -> Markup:
    """Return elements one after the other.

    Example:
        >>> print(joined([tag("g"), tag("g")]))
        <g/><g/>
    """
    return Markup("".join(map(escaped, parts)))  # noqa: S704 - every part is escaped


def escaped(text: str) -> str:
    """Return a text as it is written between tags or in an attribute; `Markup` is taken as it is.

    Example:
        >>> print(escaped("a < b"), escaped("plain"), escaped(tag("g")))
        a &lt; b plain <g/>
    """
    plain = isinstance(text, Markup) or (len(text) < _SHORT_TEXT and _SPECIAL.search(text) is None)
    return text if plain else escape(text)


def _attribute(key: str, value: object) -> str:
    """Return an attribute as it is written; the short ones are mostly the same from chart to chart."""
    return _written(key, value) if isinstance(value, str) and len(value) > _KEPT_TEXT else _written_before(key, value)


def _written(key: str, value: object) -> str:
    said = number(value) if isinstance(value, float) else escaped(str(value))
    return f' {key.rstrip("_").replace("_", "-")}="{said}"'


_written_before = lru_cache(maxsize=4096, typed=True)(_written)
