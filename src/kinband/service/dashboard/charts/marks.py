"""SVG elements as text: escaped, short, and without a style of their own.

A page forbids inline styles, so that what an element looks like is said by its class or by a presentation attribute.
Numbers are written with two decimals at most: a hundredth of a pixel is below what a screen shows.
"""

from markupsafe import Markup, escape


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
    said = "".join(f' {_spelled(key)}="{_value(value)}"' for key, value in attributes.items() if value is not None)
    if not inside:
        return Markup(f"<{name}{said}/>")  # noqa: S704 - every part is escaped
    return Markup(f"<{name}{said}>{''.join(map(escape, inside))}</{name}>")  # noqa: S704 - every part is escaped


def joined(parts: "list[Markup]") -> Markup:
    """Return elements one after the other.

    Example:
        >>> print(joined([tag("g"), tag("g")]))
        <g/><g/>
    """
    return Markup("").join(parts)


def _spelled(key: str) -> str:
    return key.rstrip("_").replace("_", "-")


def _value(value: object) -> str:
    return number(value) if isinstance(value, float) else str(escape(value))
