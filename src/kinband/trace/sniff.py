"""How a text file is written, found from its beginning: encoding, header line, delimiter and decimal mark.

An export has title lines above its header, semicolons or tabs, decimal commas, and the encoding of the machine that
wrote it. Each candidate for the delimiter cuts the first lines into cells; the one by which most lines have the same
number of cells, more than one, is the delimiter, and the first of these lines is the header. What a user says goes
before what is found.
"""

import codecs
import csv
import io
import re
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path

from kinband.errors import BadInputError

LOOKED_AT = 1 << 18
"""Bytes of a file that are looked at."""

DELIMITERS = (";", "\t", "|", ",")
"""What columns are parted by, the rarer in other use first."""

_LINES = 200
_COMMA = re.compile(r"\s*[+-]?(\d{1,3}([. '\u00a0\u202f]\d{3})+|\d+),(\d+)\s*%?\s*")
_POINT = re.compile(r"\s*[+-]?(\d{1,3}([, '\u00a0\u202f]\d{3})+|\d+)\.(\d+)\s*%?\s*")
_MARKS = {codecs.BOM_UTF8: "utf-8-sig", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
_NUMBER = re.compile(r"\s*[+-]?[\d.,]+([eE][+-]?\d+)?\s*%?\s*")


@dataclass(frozen=True)
class TextFormat:
    """How a text file is written.

    Attributes:
        encoding: Its encoding, by Python's name.
        delimiter: What parts its columns.
        decimal_point: The decimal mark of its numbers.
        header: The line of its header, from 1.
        names: The cells of its header.
        wide: Whether rows end with a delimiter that the header does not have.
    """

    encoding: str
    delimiter: str
    decimal_point: str
    header: int = 1
    names: tuple[str, ...] = ()
    wide: bool = False


def sniffed(
    head: bytes, path: Path, *, delimiter: str | None, decimal_point: str | None, encoding: str | None = None
) -> TextFormat:
    r"""Return how a text is written that begins with `head`; what is given is taken as it is.

    Example:
        >>> head = "Report of May\ncell;thp\nA1;0,5\nA2;1,75\n".encode("utf-16")
        >>> found = sniffed(head, Path("log.csv"), delimiter=None, decimal_point=None)
        >>> found.encoding, found.delimiter, found.decimal_point, found.header, found.names
        ('utf-16', ';', ',', 2, ('cell', 'thp'))
    """
    encoding = encoding or encoding_of(head, path)
    text = decoded(head, encoding, path, part=len(head) >= LOOKED_AT)
    lines = list(io.StringIO(text, newline=""))  # which parts lines as CSV does, not at every separator of Unicode
    if len(head) >= LOOKED_AT and len(lines) > 1:
        lines = lines[:-1]  # cut in the middle
    lines = lines[:_LINES]
    if not any(line.strip() for line in lines):
        raise BadInputError(f"{path} holds nothing but empty lines: export it again")
    plain = TextFormat(encoding, delimiter or ",", decimal_point or ".")
    found = [replace(plain, delimiter=mark) for mark in ([delimiter] if delimiter else DELIMITERS)]
    best = max((_cut(lines, one) for one in found), key=lambda cut: cut[0])
    form, cells = best[1], best[2]
    if decimal_point is None and form.delimiter != ",":
        form = replace(form, decimal_point=_decimal(cells))
    return form


def encoding_of(head: bytes, path: Path) -> str:
    """Return the encoding of a text, or say that it is none."""
    for mark, name in _MARKS.items():
        if head.startswith(mark):
            return name
    if b"\0" in head:
        evens, odds = head[::2].count(0), head[1::2].count(0)
        if min(evens, odds) < 0.05 * len(head) and max(evens, odds) > 0.3 * len(head):
            return "utf-16-le" if odds > evens else "utf-16-be"
        raise BadInputError(f"{path} is not CSV text but some binary file: give its right suffix")
    if sum(head.count(code) for code in range(1, 32) if code not in b"\t\n\r\f\v\x1a") > 0.01 * len(head):
        raise BadInputError(f"{path} is not CSV text but some binary file: give its right suffix")
    try:
        codecs.getincrementaldecoder("utf-8")().decode(head)
    except UnicodeDecodeError:
        return "cp1252"
    return "utf-8"


_ODD = re.compile(
    r"[^\W\d_][¹³¿¯£¥¼¾¶ª]+[^\W\d_]|[À-ÿ]{4}"
)  # signs within words, as of cp1250; words of accents, as of cp1251


def odd_letters(form: TextFormat) -> str | None:
    """Return a sentence where names of columns look as if they were read in a wrong encoding; None where they do not.

    Example:
        >>> polish = "Obciążenie".encode("cp1250").decode("cp1252")
        >>> odd_letters(TextFormat("cp1252", ";", ",", names=(polish,)))[:63]
        "names such as 'Obci¹¿enie' look odd in Windows-1252: --encoding"
        >>> odd_letters(TextFormat("cp1252", ";", ",", names=("Übertragung (m³)", "Größe [°]")))
    """
    name = next((name for name in form.names if _ODD.search(name)), None)
    if form.encoding != "cp1252" or name is None:
        return None
    return f"names such as {name!r:.40} look odd in Windows-1252: --encoding cp1250, cp1251 or another reads them"


def decoded(data: bytes, encoding: str, path: Path, *, part: bool = False) -> str:
    """Return bytes as text; the last character of a part may be cut."""
    try:
        return codecs.getincrementaldecoder(encoding)().decode(data, final=not part)
    except UnicodeError as error:
        raise BadInputError(
            f"{path} is not {encoding} text: save it as UTF-8", hint="or name its encoding", code="encoding"
        ) from error
    except LookupError as error:
        raise BadInputError(f"there is no encoding {encoding!r}: give one such as utf-8, cp1252 or utf-16") from error


Cut = tuple[tuple[float, ...], TextFormat, list[list[str]]]


def _cut(lines: list[str], form: TextFormat) -> Cut:
    """How well a delimiter cuts lines: a score, the format with its header, and the cells below it."""
    records = _records(lines, form.delimiter)
    widths = Counter(len(cells) for _, cells in records if len(cells) > 1)
    if not widths:
        first = next(((line, cells) for line, cells in records if any(cells)), (1, [""]))
        return (0.0,), replace(form, header=first[0], names=tuple(first[1])), []
    usual, often = max(widths.items(), key=lambda item: (item[1], item[0]))
    heads = [place for place, (_, cells) in enumerate(records) if _may_head(cells, usual)]
    heads += [place for place, (_, cells) in enumerate(records) if len(cells) == usual]
    place = heads[0]
    line, header = records[place]
    below = [cells for _, cells in records[place + 1 :]]
    wide = len(header) == usual - 1 and all(cells[-1] == "" for cells in below if len(cells) == usual)
    names = (*header, "") if wide else tuple(header)
    form = replace(form, header=line, names=tuple(name.strip() for name in names), wide=wide)
    words = sum(not _NUMBER.fullmatch(name) for name in names) / len(names)
    score = (
        (round(often / len(records), 1), words, -DELIMITERS.index(form.delimiter))
        if form.delimiter in DELIMITERS
        else (1.0,)
    )
    return score, form, below


def _may_head(cells: list[str], usual: int) -> bool:
    """Whether a line may be the header of rows of so many cells; rows may end with one delimiter more."""
    if len(cells) == usual:
        return 2 * sum(bool(cell.strip()) for cell in cells) > usual  # a title has empty cells beside it
    return len(cells) == usual - 1 and len(cells) > 1 and all(cell.strip() for cell in cells)


def _records(lines: list[str], delimiter: str) -> list[tuple[int, list[str]]]:
    """The records of some lines, each with the line it begins in; empty lines and comments are left out."""
    reader = csv.reader(io.StringIO("".join(lines), newline=""), delimiter=delimiter)
    found, begun = [], 1
    try:
        for cells in reader:
            if any(cell.strip() for cell in cells):
                found.append((begun, cells))
            begun = reader.line_num + 1
    except csv.Error:  # a cell too large: what came before it must do
        pass
    return found


def _decimal(rows: list[list[str]]) -> str:
    """The decimal mark of the cells below the header: a comma where more numbers have one than have a point."""
    cells = [cell for row in rows for cell in row]
    commas = sum(bool(_COMMA.fullmatch(cell)) for cell in cells)
    return "," if commas > sum(bool(_POINT.fullmatch(cell)) for cell in cells) else "."
