"""Tables as files: CSV that no spreadsheet takes for formulas, sent as it is made."""

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import Any

from starlette.responses import StreamingResponse

from kinband.changes.files import safe_text

_AT_ONCE = 500  # rows


def csv_file(name: str, header: Sequence[str], rows: Iterable[Sequence[Any]]) -> StreamingResponse:
    """Return a table as a file; its first rows are made before the answer begins, so that errors are answers."""
    pieces = _pieces(header, iter(rows))
    headers = {
        "Content-Disposition": f'attachment; filename="{name}"',
        "Cache-Control": "no-store",
        "X-Content-Type-Options": "nosniff",
    }
    return StreamingResponse(chain([next(pieces)], pieces), media_type="text/csv; charset=utf-8", headers=headers)


def _pieces(header: Sequence[str], rows: Iterator[Sequence[Any]]) -> Iterator[str]:
    block: list[Sequence[Any]] = [header, *islice(rows, _AT_ONCE)]
    while block:
        yield csv_text(block)
        block = list(islice(rows, _AT_ONCE))


def csv_text(rows: Iterable[Sequence[Any]]) -> str:
    r"""Return rows as CSV.

    Example:
        >>> csv_text([("=1+1", -0.5, None)])
        "'=1+1,-0.5,\n"
    """
    text = io.StringIO()
    safe = ([safe_text(value) if isinstance(value, str) else value for value in row] for row in rows)
    csv.writer(text, lineterminator="\n").writerows(safe)
    return text.getvalue()
