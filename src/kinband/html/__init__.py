"""Pages in HTML: the style sheet and the templates' rules that dashboard and reports share.

Jinja2 is loaded when a page is made, not before.
"""

from functools import cache
from html import escape
from importlib.resources import files
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from jinja2 import Environment


@cache
def style_sheet() -> str:
    """Return the style sheet of all pages: light and dark, laptop and phone."""
    return (files("kinband.html") / "kinband.css").read_text(encoding="utf-8")


def environment(package: str) -> "Environment":
    """Return the templates in the folder `templates` of a package: escaped, and strict about what is not there."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    return Environment(
        loader=PackageLoader(package),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )


def table(head: "Sequence[str]", rows: "Iterable[Sequence[object]]", *, caption: str = "") -> str:
    """Return a table that needs no style sheet, as notebooks show it; everything in it is escaped.

    Example:
        >>> print(table(["who"], [["a & b"]]))
        <table><thead><tr><th>who</th></tr></thead><tbody><tr><td>a &amp; b</td></tr></tbody></table>
    """
    top = "".join(f"<th>{escape(str(name))}</th>" for name in head)
    body = "".join(f"<tr>{''.join(f'<td>{escape(str(cell))}</td>' for cell in row)}</tr>" for row in rows)
    named = f"<caption>{escape(caption)}</caption>" if caption else ""
    return f"<table>{named}<thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>"
