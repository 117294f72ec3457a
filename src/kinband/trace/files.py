"""Reading and writing logs."""

import codecs
import csv
import gzip
import json
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinband.errors import BadInputError
from kinband.trace.columns import RowError, missing_values, refuse_rows, table_of

# --- Where in its file a row of a log is, as a person finds it there ------------------------------------------------
#
# A program counts the rows of a table from 0 and leaves the header out; a person looks at line numbers in an editor or
# at the numbered rows of a spreadsheet. Nothing is kept for this while reading: a CSV file is looked through once more
# when there is something to complain of. A line that is empty holds no row, and a quoted cell may run over several.

_LOST = (OSError, EOFError, zlib.error, csv.Error, StopIteration)  # changed or damaged meanwhile, or a cell too large


@contextmanager
def located(path: Path, *, delimiter: str) -> Iterator[None]:
    """Let a complaint about a row say where in the file that row is."""
    try:
        yield
    except RowError as error:
        raise error.at(place_of(path, error.row, delimiter=delimiter)) from error


def place_of(path: Path, row: int, *, delimiter: str) -> str:
    """Return where the row is that a table counts as `row` from 0: a line of a text file, or a numbered row."""
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


# --- Reads and writes the files a log is kept in: CSV, gzipped CSV and Parquet, by their suffix ---------------------
#
# A file that kinband wrote also says what its columns are: in the schema metadata of a Parquet file under the key
# `kinband`, for CSV in a JSON file beside it, `<file>.columns.json`. The note of a CSV file also records the types of
# the columns, which CSV itself does not, so that "1" stays a string. Floats are written with the shortest decimal
# that reads back as the same bits. A file is looked at before it is parsed, because an export is often not what its
# name says, and a parser's complaint would not tell.

NOTE_KEY = b"kinband"
NOTE_FORMAT = 1
_SUFFIXES = (".csv", ".csv.gz", ".parquet")
_SIGNATURES = {
    b"\x89PNG": "a PNG image",
    b"\xff\xd8\xff": "a JPEG image",
    b"%PDF": "a PDF document",
    b"PK\x03\x04": "a zip archive or an Excel workbook",
    b"\x1f\x8b": "a gzip file",
    b"PAR1": "a Parquet file",
    b"\xff\xfe": "UTF-16 text",
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


def read_file(
    path: Path, columns: Any, *, delimiter: str, decimal_point: str
) -> tuple[Any, Any, Mapping[str, Any] | None]:
    """Return the pyarrow table of a file, its column map, and the configuration space noted with it, if any."""
    for name, mark in (("delimiter", delimiter), ("decimal_point", decimal_point)):
        if not isinstance(mark, str) or len(mark) != 1:
            raise BadInputError(f"{name} must be one character, got {mark!r}")
    suffix = check_file(path)
    table = read_parquet(path) if suffix == ".parquet" else None
    note = read_note(path, table=table) if columns is None else None
    if note is not None:
        columns = note["columns"]
    if table is None:
        # An inferred type would turn the station "0012" into the number 12.
        station = columns.get("station") if isinstance(columns, Mapping) else None
        types = {station if isinstance(station, str) else "station": "string"} if note is None else note["types"]
        table = read_csv(path, types=types, delimiter=delimiter, decimal_point=decimal_point)
    return table, columns, None if note is None else note["space"]


def read_column(path: Path, name: str, *, delimiter: str, decimal_point: str) -> NDArray[np.str_]:
    """Return one column of a file as text, (n,), such as the measurement run of each row."""
    parquet = check_file(path) == ".parquet"
    types = {name: "string"}
    marks = {"delimiter": delimiter, "decimal_point": decimal_point}
    table = table_of(read_parquet(path) if parquet else read_csv(path, types=types, **marks))
    if name not in table.names:
        raise BadInputError(f"there is no column {name!r}; the columns are {', '.join(map(repr, table.names))}")
    labels = table.get(name).astype(object)
    missing = missing_values(labels)
    with located(path, delimiter=delimiter):
        refuse_rows(missing, f"column {name!r}")
    return np.array([str(label) for label in labels.tolist()])


def suffix_of(path: Path) -> str:
    """Return which of the known suffixes the path has, or say which there are."""
    for suffix in _SUFFIXES:
        if path.name.lower().endswith(suffix):
            return suffix
    raise BadInputError(f"{path} has none of the suffixes {', '.join(_SUFFIXES)}: convert or rename it")


def read_note(path: Path, *, table: Any) -> dict[str, Any] | None:
    """Return what kinband noted about the columns when it wrote the file, or None for any other file."""
    beside = note_path(path)
    stored = (table.schema.metadata or {}).get(NOTE_KEY) if table is not None else None
    if table is None and beside.is_file():
        stored = beside.read_bytes()
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


def note_path(path: Path) -> Path:
    """Return where the column map of a CSV file is kept."""
    return path.with_name(path.name + ".columns.json")


def check_file(path: Path) -> str:
    """Return the suffix of a file that exists and begins as its suffix promises."""
    if not path.exists():
        raise BadInputError(f"there is no file {path}: check the path")
    if path.is_dir():
        raise BadInputError(f"{path} is a directory: name one of the files in it")
    suffix = suffix_of(path)
    try:
        with path.open("rb") as file:
            head = file.read(4096)
    except OSError as error:
        raise BadInputError(f"{path} cannot be opened: {error.strerror}") from error
    if not head:
        raise BadInputError(f"{path} is empty: export it again")
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise BadInputError(f"{path} is UTF-16 text: save it as UTF-8")
    expected = {".csv": "", ".csv.gz": "a gzip file", ".parquet": "a Parquet file"}[suffix]
    found = next((kind for start, kind in _SIGNATURES.items() if head.startswith(start)), "")
    if found != expected or (suffix == ".csv" and b"\0" in head):
        raise BadInputError(
            f"{path} is not {expected or 'CSV text'} but {found or _other(head)}: give its right suffix"
        )
    return suffix


def _other(head: bytes) -> str:
    return "some binary file" if b"\0" in head else "text"


def read_csv(path: Path, *, types: Mapping[str, str], delimiter: str, decimal_point: str) -> Any:
    """Return the pyarrow table of a CSV file; `types` are those of some columns, the others are inferred."""
    import pyarrow as pa
    from pyarrow import csv

    compressed = suffix_of(path) == ".csv.gz"
    _check_delimiter(path, compressed=compressed, delimiter=delimiter)
    try:
        with pa.input_stream(str(path), compression="gzip" if compressed else None) as stream:
            table = csv.read_csv(
                stream,
                parse_options=csv.ParseOptions(delimiter=delimiter, newlines_in_values=True),
                convert_options=csv.ConvertOptions(
                    column_types={name: pa.type_for_alias(kind) for name, kind in types.items()},
                    decimal_point=decimal_point,
                ),
            )
        table.column_names  # noqa: B018  # decoded when looked at
        return table
    except (pa.ArrowException, ValueError, OSError) as error:
        if isinstance(error, UnicodeDecodeError) or "invalid UTF8" in str(error):
            raise BadInputError(f"{path} is not UTF-8 text: save it as UTF-8, or convert it with iconv") from error
        reason = uneven_line(path, delimiter=delimiter) or str(error).splitlines()[0]
        raise BadInputError(f"{path} cannot be read as CSV: {reason}") from error


def _check_delimiter(path: Path, *, compressed: bool, delimiter: str) -> None:
    try:
        with gzip.open(path, "rb") if compressed else path.open("rb") as file:
            header = file.readline(65536).decode("utf-8", errors="replace")
    except (OSError, EOFError, zlib.error) as error:
        raise BadInputError(f"{path} is damaged: {error}") from error
    other = next((mark for mark in ";\t|" if mark in header), None)
    if delimiter not in header and other is not None:
        raise BadInputError(
            f"the columns of {path} are not parted by {delimiter!r}",
            hint=f"pass delimiter={other!r}",
            code="delimiter",
            argument="delimiter",
            value=other,
        )


def read_parquet(path: Path) -> Any:
    """Return the pyarrow table of a Parquet file."""
    import pyarrow as pa
    from pyarrow import parquet

    try:
        with parquet.ParquetFile(path) as file:
            return file.read()
    except (pa.ArrowException, OSError) as error:
        raise BadInputError(f"{path} is damaged: {str(error).splitlines()[0]}") from error


def write_table(path: Path, columns: Mapping[str, Any], *, note: Mapping[str, Any]) -> None:
    """Write columns and the note about them, in the format of the path's suffix."""
    import pyarrow as pa
    from pyarrow import csv, parquet

    suffix = suffix_of(path)
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
