"""Where in its file a row of a log is, as a person finds it there.

A program counts the rows of a table from 0 and leaves the header out; a person looks at line numbers in an editor or
at the numbered rows of a spreadsheet. Nothing is kept for this while reading: a CSV file is looked through once more
when there is something to complain of. A line that is empty holds no row, and a quoted cell may run over several.
"""

import csv
import gzip
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kinband.errors import BadInputError
from kinband.trace.values import RowError

_LOST = (OSError, EOFError, zlib.error, csv.Error, StopIteration)  # changed or damaged meanwhile, or a cell too large


@contextmanager
def located(path: Path, *, delimiter: str) -> Iterator[None]:
    """Let a complaint about a row say where in the file that row is.

    Example:
        >>> with located(Path("log.parquet"), delimiter=","):
        ...     raise RowError("the reward is missing", 4)
        Traceback (most recent call last):
            ...
        kinband.errors.BadInputError: the reward is missing in row 5 of log.parquet, counted from 1
    """
    try:
        yield
    except RowError as error:
        raise BadInputError(error.at(place_of(path, error.row, delimiter=delimiter))) from error


def place_of(path: Path, row: int, *, delimiter: str) -> str:
    """Return where the row is that a table counts as `row` from 0: a line of a text file, or a numbered row.

    Example:
        >>> place_of(Path("log.parquet"), 4, delimiter=",")
        'row 5 of log.parquet, counted from 1'
    """
    if path.name.lower().endswith(".parquet"):
        return f"row {row + 1} of {path}, counted from 1"
    try:
        numbers = (line for line, _ in _records(path, delimiter=delimiter))
        next(numbers)  # the header
        line = next(line for counted, line in enumerate(numbers) if counted == row)
    except _LOST:
        line = row + 2
    return f"line {line} of {path}"


def uneven_line(path: Path, *, delimiter: str) -> str | None:
    """Return a sentence on the first line that has more or fewer columns than the header; None if there is none."""
    try:
        records = _records(path, delimiter=delimiter)
        _, header = next(records)
        for line, cells in records:
            if len(cells) != len(header):
                return f"line {line} has {len(cells)} column(s), the header has {len(header)}"
    except _LOST:
        return None
    return None


def _records(path: Path, *, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """The records of a CSV file, the header among them, each with the line it begins in, counted from 1."""
    opened = gzip.open if path.name.lower().endswith(".gz") else open
    with opened(path, "rt", encoding="utf-8-sig", errors="replace", newline="") as file:
        reader = csv.reader(file, delimiter=delimiter)
        begun = 1
        for cells in reader:
            if cells:
                yield begun, cells
            begun = reader.line_num + 1
