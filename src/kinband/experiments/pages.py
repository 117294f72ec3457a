"""Tables in pages: what a command measured goes between two lines of a page, in the place of what was there."""

from pathlib import Path

from kinband.errors import BadInputError

Marks = tuple[str, str]
"""The line before the table, and the line after it."""


def marks_of(command: str) -> Marks:
    """Return the lines between which a command puts its table.

    Example:
        >>> marks_of("trust")
        ('<!-- kinband trust: begin -->', '<!-- kinband trust: end -->')
    """
    return f"<!-- kinband {command}: begin -->", f"<!-- kinband {command}: end -->"


def check_place(page: Path, marks: Marks) -> None:
    """Refuse a page that has no place for the table, before hours of work."""
    begin, end = marks
    if not page.is_file():
        raise BadInputError(
            f"there is no page {page}: make one with the lines {begin} and {end}, or leave --write out and take "
            "table.md of the folder of results"
        )
    _parted(page.read_text(encoding="utf-8"), page, marks)


def write_between(page: Path, text: str, marks: Marks) -> None:
    """Put a text into a page, between its marks; a page that is not there is made of them."""
    begin, end = marks
    there = page.read_text(encoding="utf-8") if page.exists() else f"{begin}\n{end}\n"
    before, after = _parted(there, page, marks)
    page.write_text(f"{before}{begin}\n\n{text}\n{end}{after}", encoding="utf-8")


def _parted(text: str, page: Path, marks: Marks) -> tuple[str, str]:
    """What stands before the marks, and after them."""
    before, begin, rest = text.partition(marks[0])
    _, end, after = rest.partition(marks[1])
    if not (begin and end):
        raise BadInputError(f"{page} has no place for the table: add the lines {marks[0]} and {marks[1]}")
    return before, after
