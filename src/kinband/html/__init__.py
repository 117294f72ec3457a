"""Pages in HTML: the style sheet and the templates' rules that dashboard and reports share, tables for notebooks.

Jinja2 is loaded when a page is made, not before.
"""

from collections.abc import Mapping
from functools import cache
from html import escape
from importlib.resources import files
from math import isfinite
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jinja2 import Environment


@cache
def style_sheet() -> str:
    """Return the style sheet of all pages: light and dark, laptop and phone."""
    return (files("kinband.html") / "kinband.css").read_text(encoding="utf-8")


@cache
def paper_sheet() -> str:
    """Return the style sheet of pages that are sent and printed."""
    return style_sheet() + (files("kinband.html") / "paper.css").read_text(encoding="utf-8")


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


MOST_ROWS = 12
"""Rows of a table in a notebook; how many more there are is said above it."""


def table(head: "Sequence[str]", rows: "Sequence[Sequence[object]]", *, caption: str) -> str:
    """Return a table that needs no style sheet, as notebooks show it (`_repr_html_`); everything in it is escaped.

    Example:
        >>> print(table(["who", "tilt", "reward"], [["a & b", {"tilt": 4}, 0.81234], ["c", None, None]], caption="Two"))
        <table><caption>Two</caption><thead><tr><th>who</th><th>tilt</th><th>reward</th></tr></thead><tbody>\
<tr><td>a &amp; b</td><td>tilt 4</td><td>0.8123</td></tr><tr><td>c</td><td>–</td><td>–</td></tr></tbody></table>
    """
    if len(rows) > MOST_ROWS:
        caption = f"{caption}; the first {MOST_ROWS} of {len(rows):,}"
    top = "".join(f"<th>{escape(name)}</th>" for name in head)
    body = "".join(f"<tr>{''.join(f'<td>{escape(_cell(cell))}</td>' for cell in row)}</tr>" for row in rows[:MOST_ROWS])
    return f"<table><caption>{escape(caption)}</caption><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>"


def _cell(value: object) -> str:
    """Return a value for people: a dash where it is not known, four digits of a number, a configuration as a list."""
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_cell(each)}" for name, each in value.items())
    if isinstance(value, float):
        return f"{value:.4g}".replace("-", "−") if isfinite(value) else "–"
    return "–" if value is None else str(value)
