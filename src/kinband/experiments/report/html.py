"""The parts that every page is made of: sections, figures, notes, tables. Text is escaped here, cells are HTML."""

from collections.abc import Iterable, Sequence
from html import escape

from kinband.experiments.report.theme import Picture


def section(title: str, inside: str) -> str:
    """Return a section of a page.

    Example:
        >>> section("A & B", "<p>text</p>")
        '<section><h2>A &amp; B</h2><p>text</p></section>'
    """
    return f"<section><h2>{escape(title)}</h2>{inside}</section>"


def figure(picture: Picture, caption: str) -> str:
    """Return a picture with its caption."""
    return f"<figure>{picture.html()}<figcaption>{escape(caption)}</figcaption></figure>"


def note(text: str) -> str:
    """Return a paragraph in small print."""
    return f'<p class="note">{escape(text)}</p>'


def cell(value: str, beneath: str) -> str:
    """Return a cell with its interval beneath.

    Example:
        >>> cell("0.9", "0.8 to 1.0")
        '0.9<small>0.8 to 1.0</small>'
    """
    return f"{escape(value)}<small>{escape(beneath)}</small>"


def table(head: Sequence[str], rows: Iterable[tuple[str, Sequence[str]]]) -> str:
    """Return a table from the class and the cells of each row; cells are HTML.

    Example:
        >>> table(["who", "how many"], [("", ["a", "3"])]).count("<td")
        2
    """
    top = "".join(f'<th scope="col">{escape(name)}</th>' for name in head)
    body = "".join(f'<tr class="{kind}">{_cells(head, cells)}</tr>' for kind, cells in rows)
    return f"<table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>"


def tiles(parts: Iterable[tuple[str, str]]) -> str:
    """Return headline numbers, each with what it is.

    Example:
        >>> tiles([("3", "stations")])
        '<div class="tiles"><div class="tile"><b>3</b><small>stations</small></div></div>'
    """
    inside = (f'<div class="tile"><b>{escape(big)}</b><small>{escape(small)}</small></div>' for big, small in parts)
    return f'<div class="tiles">{"".join(inside)}</div>'


def _cells(head: Sequence[str], cells: Sequence[str]) -> str:
    """Return the cells of a row; on a phone each carries the head of its column."""
    return "".join(
        f'<td data-head="{escape(name)}"><span>{inside}</span></td>' for name, inside in zip(head, cells, strict=True)
    )
