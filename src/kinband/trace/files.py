"""Reading and writing logs."""

import csv
import gzip
import io
import json
import re
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinband.errors import BadInputError
from kinband.stats import counted
from kinband.trace.cells import MISSING, Cleaned, check_date_format, cleaned
from kinband.trace.columns import RowError
from kinband.trace.guesses import stations_in
from kinband.trace.sniff import LOOKED_AT, TextFormat, decoded, encoding_of, sniffed

# --- Where in its file a row of a log is, as a person finds it there ------------------------------------------------
#
# A program counts the rows of a table from 0 and leaves the header out; a person looks at line numbers in an editor or
# at the numbered rows of a spreadsheet. Nothing is kept for this while reading: a CSV file is looked through once more
# when there is something to complain of. A line that is empty holds no row, and a quoted cell may run over several.

_LOST = (
    OSError,
    EOFError,
    zlib.error,
    csv.Error,
    StopIteration,
    BadInputError,
)  # changed or damaged meanwhile, or a cell too large


@contextmanager
def located(path: Path, *, delimiter: str | None = None, rows: NDArray[Any] | None = None) -> Iterator[None]:
    """Let a complaint about a row say where in the file that row is; `rows` are the numbers of those that are left."""
    try:
        yield
    except RowError as error:
        row = error.row if rows is None else int(rows[error.row])
        raise error.at(place_of(path, row, delimiter=delimiter)) from error


def place_of(path: Path, row: int, *, delimiter: str | None = None) -> str:
    """Return where the row is that a table counts as `row` from 0: a line of a text file, or a numbered row."""
    counted_so = ", counted from 1" if suffix_of(path) == ".parquet" else ""
    return f"{places_of(path, [row], delimiter=delimiter)[0]} of {path}{counted_so}"


def places_of(path: Path, rows: Sequence[int], *, delimiter: str | None = None) -> list[str]:
    """Return where rows of a table are: lines of a text file, rows of a sheet as Excel numbers them, or plain rows."""
    if (suffix := suffix_of(path)) == ".parquet":
        return [f"row {row + 1}" for row in rows]
    if suffix == ".xlsx":
        found = _rows_of_sheet(path)
        return [f"row {found[row] if row < len(found) else row + 1}" for row in rows]
    return [f"line {line}" for line in lines_of(path, rows, delimiter=delimiter)]


def lines_of(path: Path, rows: Sequence[int], *, delimiter: str | None = None) -> list[int]:
    """Return in which lines of a text file the rows of its table are; about where, if it changed meanwhile."""
    wanted, found = set(rows), dict[int, int]()
    try:
        for counted, (line, _) in enumerate(_records(path, delimiter=delimiter)):
            if counted in wanted:
                found[counted] = line
            if len(found) == len(wanted):
                break
    except _LOST:
        pass
    return [found.get(row, row + 2) for row in rows]


def uneven_lines(path: Path, *, delimiter: str | None = None) -> str | None:
    """Return a sentence on the lines that have more or fewer columns than the header; None if there are none."""
    first, count = "", 0
    try:
        for line, cells, width in _all_records(path, delimiter=delimiter):
            if len(cells) != width:
                first = first or f"line {line} has {len(cells)} column(s), the header has {width}"
                count += 1
    except _LOST:
        return None
    more = f" ({count} such lines)" if count > 1 else ""
    return f"{first}{more}" if count else None


def _records(path: Path, *, delimiter: str | None) -> Iterator[tuple[int, list[str]]]:
    """The records that become rows of a table, each with the line it begins in, counted from 1."""
    form = form_of(path, delimiter=delimiter)
    for line, cells, width in _all_records(path, delimiter=delimiter):
        stripped = [cell.strip() for cell in cells]
        if len(cells) == width and any(stripped) and stripped != list(form.names):
            yield line, cells


def _all_records(path: Path, *, delimiter: str | None) -> Iterator[tuple[int, list[str], int]]:
    """All records below the header, with their lines, and how many cells they should have."""
    form = form_of(path, delimiter=delimiter)
    text = io.StringIO(bytes(_text(path)).decode(form.encoding, errors="replace").removeprefix("\ufeff"), newline="")
    for _ in range(form.header - 1):
        text.readline()
    reader = csv.reader(text, delimiter=form.delimiter)
    next(reader)
    begun = form.header + reader.line_num
    for cells in reader:
        if cells:
            yield begun, cells, len(form.names)
        begun = form.header + reader.line_num


# --- Reads and writes the files a log is kept in: text, packed text, Excel and Parquet, by their suffix ------------
#
# A file that kinband wrote also says what its columns are: in the schema metadata of a Parquet file under the key
# `kinband`, for CSV in a JSON file beside it, `<file>.columns.json`. The note of a CSV file also records the types of
# the columns, which CSV itself does not, so that "1" stays a string. Floats are written with the shortest decimal
# that reads back as the same bits. A file is looked at before it is parsed, because an export is often not what its
# name says, and a parser's complaint would not tell.

_ZIP = "a zip archive or an Excel workbook"
NOTE_KEY = b"kinband"
NOTE_FORMAT = 1
SUFFIXES = (".csv.gz", ".tsv.gz", ".txt.gz", ".csv", ".tsv", ".txt", ".zip", ".xlsx", ".parquet")
_WRITTEN = (".csv", ".csv.gz", ".parquet")
_EXPECTED = {".gz": "a gzip file", ".parquet": "a Parquet file", ".zip": _ZIP, ".xlsx": _ZIP}
LARGEST = 4 << 30
"""Bytes that a file may hold when it is unpacked: a few kilobytes can unpack to more than any memory."""
USUAL, TIMES = 512 << 20, 200
"""Bytes that any file may hold, and how many times its size one may that holds more: logs are packed to a twentieth."""

_SIGNATURES = {
    b"\x89PNG": "a PNG image",
    b"\xff\xd8\xff": "a JPEG image",
    b"%PDF": "a PDF document",
    b"PK\x03\x04": _ZIP,
    b"\x1f\x8b": "a gzip file",
    b"PAR1": "a Parquet file",
}


def bundled_file(name: str) -> Path:
    """Return the path of a file that comes with kinband."""
    return Path(__file__).parent / "bundled" / name


def path_of(path: object, *, what: str) -> Path:
    """Return a path given as text or as a path, or say what came instead."""
    if not isinstance(path, str | PathLike) or not str(path):
        raise BadInputError(f"the path of {what} must be text or a path, got {path!r}")
    if "\0" in str(path):
        raise BadInputError(f"the path of {what} must not hold a null character, got {str(path)!r:.60}")
    return Path(path)


@dataclass
class TableReading:
    """What a file holds, as far as it is understood.

    Attributes:
        path: The file.
        cleaned: Its table, with what is bad in it.
        form: How its text is written; None for Parquet and Excel.
        note: What kinband noted about the columns when it wrote the file.
        left_out: Sentences on lines that are no rows.
        uneven: A sentence on lines with more or fewer cells than the header.
        cut: How many of these there are; they are not in the table.
        date_format: How dates are written, where the user said so.
    """

    path: Path
    cleaned: Cleaned
    form: TextFormat | None = None
    note: dict[str, Any] | None = None
    left_out: list[str] = field(default_factory=list)
    uneven: str | None = None
    cut: int = 0
    date_format: str | None = None


def read_table(
    path: Path, *, text: Iterable[str] = (), delimiter: str | None = None, decimal_point: str | None = None,
    encoding: str | None = None, date_format: str | None = None, noted: bool = True,
) -> TableReading:  # fmt: skip
    """Read a file of any kind; `text` are columns of names, and what is not given is found out."""
    check_marks(delimiter, decimal_point)
    check_date_format(date_format)
    suffix, names = check_file(path), set(text)
    if suffix == ".parquet":
        table = read_parquet(path)
        return TableReading(path, Cleaned(table), note=read_note(path, table=table) if noted else None)
    note = read_note(path, table=None) if noted else None
    if suffix == ".xlsx":
        sheet = _sheet_of(path)
        reading = TableReading(path, Cleaned(_excel_table(sheet, names=names)))
        if sheet.others:
            others = ", ".join(map(repr, sheet.others))
            reading.left_out.append(
                f"sheet {sheet.name!r} is read, which holds the most; save another as CSV to read it: {others}"
            )
    else:
        form = (
            form_of(path, delimiter=delimiter, decimal_point=decimal_point, encoding=encoding) if note is None else OURS
        )
        types = note["types"] if note else dict.fromkeys(names | stations_in(form.names), "string")
        reading = _read_text(path, form, types=types)
        if note is not None:
            reading.note = note
            return reading
    _drop_what_is_no_row(reading)
    reading.cleaned = cleaned(
        reading.cleaned.table, names=names | stations_in(reading.cleaned.table.column_names),
        decimal_point=decimal_point or (reading.form.decimal_point if reading.form else "."),
        fixed=decimal_point is not None, date_format=date_format,
    )  # fmt: skip
    reading.date_format = date_format
    return reading


def names_in(path: Path, **written: Any) -> list[str]:
    """Return the names of a file's columns, without reading its rows where that is possible."""
    if (suffix := check_file(path)) == ".parquet":
        import pyarrow.parquet as pq

        return list(pq.read_schema(path).names)
    if suffix == ".xlsx":
        return [name for name in _sheet_of(path).header if name]
    return list(form_of(path, **{name: mark for name, mark in written.items() if name != "date_format"}).names)


OURS = TextFormat("utf-8", ",", ".")
"""How kinband writes text."""


def check_marks(delimiter: object, decimal_point: object) -> None:
    """Refuse marks that are not one character."""
    for name, mark in (("delimiter", delimiter), ("decimal_point", decimal_point)):
        if mark is not None and (not isinstance(mark, str) or len(mark) != 1):
            raise BadInputError(f"{name} must be one character, got {mark!r}")
    if decimal_point not in (None, ".", ","):
        raise BadInputError(f"decimal_point must be '.' or ',', got {decimal_point!r}")


def read_csv(path: Path, *, types: Mapping[str, str], **written: str | None) -> Any:
    """Return the pyarrow table of a file of text or Excel; columns with bad cells stay text."""
    names = [name for name, kind in types.items() if kind == "string"]
    reading = read_table(path, text=names, noted=False, **written)
    if reading.uneven:
        raise BadInputError(f"{path} cannot be read as CSV: {reading.uneven}")
    table = reading.cleaned.table
    for name, (_, column) in reading.cleaned.bad.items():
        table = table.set_column(table.column_names.index(name), name, column)
    return table


def suffix_of(path: Path, *, written: bool = False) -> str:
    """Return which of the known suffixes the path has, or say which there are: to be read, or to be written."""
    known = _WRITTEN if written else SUFFIXES
    for suffix in sorted(known, key=len, reverse=True):
        if path.name.lower().endswith(suffix):
            return suffix
    raise BadInputError(f"{path} has none of the suffixes {', '.join(sorted(known))}: convert or rename it")


def read_note(path: Path, *, table: Any) -> dict[str, Any] | None:
    """Return what kinband noted about the columns when it wrote the file, or None for any other file."""
    note_file = note_path(path)
    stored = (table.schema.metadata or {}).get(NOTE_KEY) if table is not None else None
    if table is None and note_file.is_file():
        stored = note_file.read_bytes()
    if stored is None:
        return None
    try:
        note: dict[str, Any] = json.loads(stored)
        if note["format"] > NOTE_FORMAT:
            raise BadInputError(
                f"the column map of {path} was written by a newer kinband", hint="pass columns=", code="column_map"
            )
        if not isinstance(note["columns"], dict) or not isinstance(note.get("types", {}), dict):
            raise TypeError
        note["space"] = note.get("space")
        note["types"] = {str(name): str(kind) for name, kind in note.get("types", {}).items()}
    except (KeyError, TypeError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise BadInputError(
            f"the column map stored with {path} is damaged", hint="pass columns=", code="column_map"
        ) from error
    return note


def is_ours(path: Path) -> bool:
    """Return whether a file is a log that kinband wrote, so that a newer one may take its place.

    Example:
        >>> is_ours(bundled_file("city.parquet")), is_ours(Path("no-such-file.csv"))
        (True, False)
    """
    if suffix_of(path, written=True) != ".parquet":
        return note_path(path).is_file()
    import pyarrow as pa
    from pyarrow import parquet

    try:
        return NOTE_KEY in (parquet.read_schema(path).metadata or {})
    except (pa.ArrowException, OSError):
        return False


def note_path(path: Path) -> Path:
    """Return where the column map of a CSV file is kept."""
    return path.with_name(path.name + ".columns.json")


def check_file(path: Path) -> str:
    """Return the suffix of a file that exists and begins as its suffix promises."""
    if not path.exists():
        raise BadInputError(f"there is no file {path}: check the path")
    if path.is_dir():
        raise BadInputError(
            f"{path} is a directory: name one of the files in it (kinband counters reads folders of measurements)"
        )
    suffix = suffix_of(path)
    try:
        with path.open("rb") as file:
            head = file.read(4096)
    except OSError as error:
        raise BadInputError(f"{path} cannot be opened: {error.strerror}") from error
    if not head:
        raise BadInputError(f"{path} is empty: export it again")
    expected = next((kind for end, kind in _EXPECTED.items() if suffix.endswith(end)), "")
    found = next((kind for start, kind in _SIGNATURES.items() if head.startswith(start)), "")
    if found != expected:
        raise BadInputError(
            f"{path} is not {expected or 'CSV text'} but {found or _other(head)}: give its right suffix"
        )
    return suffix


def _other(head: bytes) -> str:
    return "some binary file" if b"\0" in head else "text"


def form_of(
    path: Path, *, delimiter: str | None = None, decimal_point: str | None = None, encoding: str | None = None
) -> TextFormat:
    """Return how a text file is written."""
    head = bytes(_text(path, most=LOOKED_AT))
    form = sniffed(head, path, delimiter=delimiter, decimal_point=decimal_point, encoding=encoding)
    free = form if delimiter is None else sniffed(head, path, delimiter=None, decimal_point=None, encoding=encoding)
    if delimiter is not None and len(free.names) > 1 and delimiter not in free.delimiter.join(free.names):
        raise BadInputError(
            f"the columns of {path} are not parted by {delimiter!r}",
            hint=f"pass delimiter={free.delimiter!r}",
            code="delimiter",
            argument="delimiter",
            value=free.delimiter,
        )
    return form


def told_encoding(path: Path) -> str | None:
    """Return the encoding that a text file's bytes tell; None where it may be any of eight bits, or is no such file."""
    if not path.is_file() or path.suffix.lower() in (".parquet", ".xlsx"):
        return None
    found = encoding_of(bytes(_text(path)), path)
    return None if found == "cp1252" else found


def _text(path: Path, *, most: int | None = None) -> Any:
    """The bytes of a text file, unpacked, or the first of them."""
    import pyarrow as pa

    suffix = suffix_of(path)
    try:
        if suffix == ".zip":
            return _unzipped(path, most)
        if not suffix.endswith(".gz"):
            with pa.memory_map(str(path)) as file:
                return file.read_buffer() if most is None else file.read(most)
        with gzip.open(path, "rb") as packed:
            if most is not None:
                return packed.read(most)
            data = bytearray()
            while part := packed.read(1 << 24):
                data += part
                _check_size(path, len(data))
            return data
    except (OSError, EOFError, zlib.error, zipfile.BadZipFile, NotImplementedError, RuntimeError) as error:
        raise BadInputError(f"{path} is damaged: {error}") from error


def _check_size(path: Path, size: int) -> None:
    packed = path.stat().st_size
    most = min(LARGEST, max(USUAL, TIMES * packed))
    if size > most:
        raise BadInputError(
            f"{path} has {packed / 2**20:,.3g} MB and unpacks to more than {most / 2**30:.3g} GB: cut it into smaller "
            "files, or pack it less",
            code="too_large",
        )


def _unzipped(path: Path, most: int | None) -> bytes:
    with zipfile.ZipFile(path) as archive:
        inside = [one for one in archive.infolist() if not one.is_dir() and not one.filename.startswith("__MACOSX")]
        if len(inside) != 1:
            raise BadInputError(f"{path} holds {len(inside)} files, not one: unpack it and name the one to read")
        _check_size(path, inside[0].file_size)
        if not inside[0].filename.lower().endswith((".csv", ".tsv", ".txt")):
            raise BadInputError(f"{path} holds {inside[0].filename!r}, which is not .csv, .tsv or .txt: unpack it")
        with archive.open(inside[0]) as file:
            return file.read() if most is None else file.read(most)


def _read_text(path: Path, form: TextFormat, *, types: Mapping[str, str]) -> TableReading:
    """Read a text file; one that turns out not to be UTF-8 below its beginning is read again in Windows' encoding."""
    import pyarrow as pa

    data = _text(path)
    if form.encoding not in ("utf-8", "utf-8-sig", "ascii"):
        data = decoded(bytes(data), form.encoding, path).removeprefix("\ufeff").encode()
    elif form.encoding == "utf-8-sig":
        data = memoryview(data)[3:]
    try:
        table, uneven = _parsed(data, form, types)
        if any(kind == pa.binary() for kind in table.schema.types):
            raise UnicodeError("invalid UTF8")
    except (pa.ArrowException, ValueError, OSError) as error:
        if form.encoding == "utf-8" and (isinstance(error, UnicodeError) or "invalid UTF8" in str(error)):
            return _read_text(path, replace(form, encoding="cp1252"), types=types)
        reason = uneven_lines(path, delimiter=form.delimiter) or str(error).splitlines()[0]
        raise BadInputError(f"{path} cannot be read as CSV: {reason}") from error
    said = uneven_lines(path, delimiter=form.delimiter) or "some lines are cut short" if uneven else None
    return TableReading(path, Cleaned(table), form=form, uneven=said, cut=uneven)


def _parsed(data: Any, form: TextFormat, types: Mapping[str, str]) -> tuple[Any, int]:
    """The pyarrow table of UTF-8 text, and how many lines have another number of cells than the header."""
    import pyarrow as pa
    from pyarrow import csv

    uneven = 0

    def pass_over(row: Any) -> str:
        nonlocal uneven
        del row
        uneven += 1
        return "skip"

    view, start = memoryview(data), 0
    for _ in range(form.header - (0 if form.wide else 1)):
        end = re.search(rb"\r\n|\n|\r", view[start:])
        start += end.end() if end else 0
    head = bytes(view[start : start + LOOKED_AT]).strip()
    if not head or not (form.wide or b"\n" in head or b"\r" in head):  # which pyarrow may end the process over
        raise ValueError("it has one line, perhaps a header: columns but no rows, export it again")
    kinds = {name: pa.type_for_alias(kind) for name, kind in types.items()}
    table = csv.read_csv(
        pa.BufferReader(pa.py_buffer(view[start:])),
        read_options=csv.ReadOptions(column_names=list(form.names) if form.wide else None),
        parse_options=csv.ParseOptions(
            delimiter=form.delimiter, newlines_in_values=True, invalid_row_handler=pass_over
        ),
        convert_options=csv.ConvertOptions(
            column_types=kinds, decimal_point=form.decimal_point, null_values=_NULLS
        ),
    )  # fmt: skip
    names = [name.strip() for name in table.column_names]
    return table if names == table.column_names else table.rename_columns(names), uneven


_NULLS = [*{word for one in MISSING for word in (one, one.upper(), one.capitalize())}, "NaN", "N.A.", "-NaN", "#Div/0!"]


def _drop_what_is_no_row(reading: TableReading) -> None:
    """Leave out lines that repeat the header, lines without any value, and columns without name and values."""
    import pyarrow as pa
    import pyarrow.compute as pc

    table = reading.cleaned.table
    bare = [name for name in set(table.column_names) if not name]
    if bare and table.column_names.count("") == 1 and table.column("").null_count == len(table):
        table = table.drop_columns([""])
    texts = [
        (name, column)
        for name, column in zip(table.column_names, table.columns, strict=True)
        if column.type in (pa.string(), pa.null())
    ]
    if len(table) and table.num_columns and len(texts) == table.num_columns:
        again = np.logical_and.reduce([
            pc.fill_null(pc.equal(pc.utf8_trim_whitespace(pc.cast(column, pa.string())), name), False).to_numpy()
            for name, column in texts
        ])  # fmt: skip
        if again.any():
            reading.left_out.append(f"left out, since they repeat the header: {counted(int(again.sum()), 'line')}")
            table = table.filter(pa.array(~again))
    if len(table) and all(column.null_count or column.type == pa.string() for column in table.columns):
        blank = np.logical_and.reduce([
            (pc.fill_null(pc.equal(pc.utf8_trim_whitespace(column), ""), True) if column.type == pa.string()
             else pc.is_null(column)).to_numpy() for column in table.columns
        ])  # fmt: skip
        if blank.any():
            reading.left_out.append(f"left out, since they hold no value: {counted(int(blank.sum()), 'line')}")
            table = table.filter(pa.array(~blank))
    reading.cleaned = Cleaned(table)


@dataclass(frozen=True)
class Sheet:
    """The sheet of a workbook that holds the most.

    Attributes:
        name: Its name.
        header: The cells of its header.
        rows: The rows below it.
        first: How Excel numbers the first of them.
        others: The names of other sheets that hold something.
    """

    name: str
    header: list[str]
    rows: list[list[Any]]
    first: int
    others: tuple[str, ...]


def _sheet_of(path: Path) -> Sheet:
    """Read a workbook; lines above the header are passed over."""
    try:
        from python_calamine import CalamineError, CalamineWorkbook
    except ImportError as error:
        raise BadInputError(
            f"reading {path} needs a package that is not installed: pip install 'kinband[excel]', or save it as CSV",
            code="no_excel",
        ) from error
    try:
        with zipfile.ZipFile(path) as archive:
            _check_size(path, sum(one.file_size for one in archive.infolist()))
        book = CalamineWorkbook.from_path(str(path))
        sheets = [(sheet, sheet.to_python()) for sheet in map(book.get_sheet_by_name, book.sheet_names)]
    except (CalamineError, zipfile.BadZipFile, OSError) as error:
        raise BadInputError(f"{path} is damaged: {error}") from error
    filled = [(sum(_filled(row) for row in rows), sheet, rows) for sheet, rows in sheets]
    most, sheet, rows = max(filled, key=lambda one: one[0], default=(0, None, []))
    if sheet is None or not most:
        raise BadInputError(f"the sheets of {path} are empty: export it again")
    width = max(map(_filled, rows))
    head = next(place for place, row in enumerate(rows) if _filled(row) > 0.5 * width)
    others = tuple(other.name for count, other, _ in filled if count and other.name != sheet.name)
    header = [str(cell).strip() for cell in rows[head]]
    above = (sheet.start or (0, 0))[0]  # empty rows, which are not given
    return Sheet(sheet.name, header, rows[head + 1 :], above + head + 2, others)


def _filled(row: list[Any]) -> int:
    return sum(cell != "" for cell in row)


def _rows_of_sheet(path: Path) -> list[int]:
    """The numbers that Excel gives to the rows of a table; lines without a value and repeated headers are none."""
    sheet = _sheet_of(path)
    return [
        sheet.first + place
        for place, row in enumerate(sheet.rows)
        if _filled(row) and [str(cell).strip() for cell in row] != sheet.header
    ]


def _excel_table(sheet: Sheet, *, names: set[str]) -> Any:
    """Return a sheet as a pyarrow table, without columns that have neither name nor value."""
    import pyarrow as pa

    header = sheet.header
    used = [place for place, name in enumerate(header) if name or any(row[place] != "" for row in sheet.rows)]
    columns = [
        _excel_column([row[place] for row in sheet.rows], header[place] in names | stations_in(header))
        for place in used
    ]
    return pa.table(columns, names=[header[place] for place in used])


def _excel_column(cells: list[Any], text: bool) -> Any:
    """The cells of a sheet as a column: of numbers or times where all of them are, else of text."""
    import pyarrow as pa

    known = [cell for cell in cells if cell != ""]
    if not text and all(isinstance(cell, int | float) and not isinstance(cell, bool) for cell in known):
        whole = all(cell == int(cell) for cell in known)
        kind = pa.int64() if whole else pa.float64()
        return pa.array([None if cell == "" else int(cell) if whole else float(cell) for cell in cells], type=kind)
    if not text and known and len({type(cell) for cell in known}) == 1 and not isinstance(known[0], str):
        return pa.array([None if cell == "" else cell for cell in cells])
    return pa.array([_written(cell) for cell in cells], type=pa.string())


def _written(cell: Any) -> str:
    return str(int(cell)) if isinstance(cell, float) and cell == int(cell) else str(cell)


def read_parquet(path: Path) -> Any:
    """Return the pyarrow table of a Parquet file."""
    import pyarrow as pa
    from pyarrow import parquet

    try:
        with parquet.ParquetFile(path) as file:
            _check_parquet(path, file.metadata)
            return file.read()
    except (pa.ArrowException, OSError) as error:
        raise BadInputError(f"{path} is damaged: {str(error).splitlines()[0]}") from error


_WIDTHS = {"BOOLEAN": 1, "INT32": 4, "FLOAT": 4, "INT64": 8, "DOUBLE": 8, "INT96": 8}


def _check_parquet(path: Path, metadata: Any) -> None:
    """Refuse a file whose table needs too much memory: what repeats takes next to no room in it.

    What is unpacked may still be a value once and how often it comes; texts are counted as they are in the table.
    """
    size = 0
    for group in range(metadata.num_row_groups):
        for number in range(metadata.num_columns):
            column, schema = metadata.row_group(group).column(number), metadata.schema.column(number)
            size += column.num_values * (_WIDTHS.get(schema.physical_type) or max(schema.length, 4))
            if schema.physical_type == "BYTE_ARRAY":
                _check_size(path, size)
                size += _bytes_of_texts(path, column, group, least=USUAL)
            _check_size(path, size)


def _bytes_of_texts(path: Path, column: Any, group: int, *, least: int) -> int:
    """How much the texts of a column take in a table; looked up where it may be more than `least`."""
    import pyarrow.compute as pc
    from pyarrow import parquet

    most: int = column.num_values * column.total_uncompressed_size  # each as long as all that is written of them
    if most <= least:
        return int(column.total_uncompressed_size)
    if "." in column.path_in_schema:  # part of a list, which no log has
        return most
    with parquet.ParquetFile(path, read_dictionary=[column.path_in_schema]) as file:
        texts = file.read_row_group(group, columns=[column.path_in_schema]).column(0)
    lengths = (pc.fill_null(pc.take(pc.binary_length(part.dictionary), part.indices), 0) for part in texts.chunks)
    return sum(int(pc.sum(one).as_py() or 0) for one in lengths)


def write_table(path: Path, columns: Mapping[str, Any], *, note: Mapping[str, Any]) -> None:
    """Write columns and the note about them, in the format of the path's suffix."""
    import pyarrow as pa
    from pyarrow import csv, parquet

    suffix = suffix_of(path, written=True)
    if not path.parent.is_dir():
        raise BadInputError(f"there is no directory {path.parent} to write to: make it first")
    if path.is_dir():
        raise BadInputError(f"{path} is a directory: name a file to write")
    table = pa.table(dict(columns))
    note = {"format": NOTE_FORMAT, **note}
    if suffix == ".parquet":
        parquet.write_table(table.replace_schema_metadata({NOTE_KEY: json.dumps(note).encode()}), path)
        return
    with pa.output_stream(str(path), compression="gzip" if suffix == ".csv.gz" else None) as stream:
        csv.write_csv(table, stream)
    types = {name: str(kind) for name, kind in zip(table.column_names, table.schema.types, strict=True)}
    note_path(path).write_text(json.dumps({**note, "types": types}, indent=1), encoding="utf-8")
