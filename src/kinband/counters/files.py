"""Finds the files of an export, opens them safely, and reads what all have: times, lengths of time and names."""

import glob
import gzip
import re
import tarfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache, partial
from pathlib import Path
from tarfile import TarInfo
from tempfile import TemporaryFile
from typing import IO, Any, BinaryIO
from weakref import finalize
from zipfile import BadZipFile, ZipFile, ZipInfo

from kinband.errors import BadInputError
from kinband.trace.columns import natural_key
from kinband.trace.files import TIMES, USUAL

# --- Which files ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Packed:
    """A file inside an archive; as text the path of the archive and its own name below it."""

    path: Path
    name: str
    open: Callable[[], Any]

    def __str__(self) -> str:
        return f"{self.path}/{self.name}"


MOST_PACKED = 100_000
"""Files that an archive may hold."""
_TARS = (".tar", ".tar.gz", ".tgz")


def files_of(paths: Any) -> list[Path | Packed]:
    """Return the files of paths, of directories and those below, and of patterns such as `pm/*.xml.gz`, sorted.

    Those of an archive, zip or tar, count one by one.
    """
    given = [paths] if isinstance(paths, str | Path) else list(paths)
    found = {file for path in given for file in _files(str(path))}
    if not found:
        raise BadInputError(f"there are no files in {', '.join(map(str, given)) or 'an empty list'}: check the path")
    return sorted((one for file in found for one in _unpacked(file)), key=lambda file: natural_key(str(file)))


def _files(path: str) -> Iterable[Path]:
    here = Path(path)
    if here.is_dir():
        return (one for one in here.rglob("*") if one.is_file() and not one.name.startswith("."))
    if here.exists():
        return [here]
    found = glob.glob(path, recursive=True) if glob.has_magic(path) else []  # noqa: PTH207  # absolute ones too
    named = [Path(one) for one in found]
    if not named:
        raise BadInputError(f"there is no file {path}: check the path")
    return (one for one in named if one.is_file())


def _unpacked(path: Path) -> Iterable[Path | Packed]:
    """The files of an archive, one that is damaged itself, and any other file itself."""
    if path.name.lower().endswith(_TARS):
        return _untarred(path)
    if path.suffix.lower() != ".zip":
        return [path]
    try:
        archive = ZipFile(path)  # closed with the last of its files
    except (OSError, BadZipFile):
        return [path]
    inside = [one for one in archive.infolist() if not one.is_dir() and not one.filename.startswith("__MACOSX")]
    _check_count(path, len(inside))
    return [Packed(path, one.filename, partial(_in_zip, archive, one)) for one in inside] or [path]


def _untarred(path: Path) -> Iterable[Path | Packed]:
    """The files of a tar archive; where its end is missing, those before it and the archive itself."""
    with ExitStack() as stack:
        plain = stack.enter_context(TemporaryFile())
        whole = _unzipped(path, plain)
        size, inside = plain.tell(), list[TarInfo]()
        plain.seek(0)
        try:
            archive = stack.enter_context(tarfile.open(fileobj=plain, mode="r:"))
            for one in archive:
                if one.isfile() and not Path(one.name).name.startswith("."):
                    inside.append(one)
                    _check_count(path, len(inside))
        except (tarfile.TarError, OSError):
            whole = False
        kept = [one for one in inside if one.offset_data + one.size <= size]
        damaged = [] if whole and kept and len(kept) == len(inside) else [path]
        if not kept:
            return damaged
        stack.pop_all()
        finalize(archive, plain.close)  # with the last of its files
        return [*(Packed(path, one.name, partial(archive.extractfile, one)) for one in kept), *damaged]


def _unzipped(path: Path, plain: IO[bytes]) -> bool:
    """Write what a file holds, gzipped or not, and return whether it came to its end."""
    most = max(USUAL, TIMES * path.stat().st_size)
    with path.open("rb") as file:
        packed = file.read(2) == b"\x1f\x8b"
        file.seek(0)
        stream = gzip.GzipFile(fileobj=file) if packed else file
        try:
            while part := stream.read(_CHUNK):
                plain.write(part)
                if plain.tell() > most:
                    raise BadInputError(f"{path} unpacks to many times its size: unpack it", code="too_large")
        except (gzip.BadGzipFile, EOFError, zlib.error):
            return False
    return True


def _check_count(path: Path, files: int) -> None:
    if files > MOST_PACKED:
        problem = f"{path} holds more than {MOST_PACKED:,} files, the most that are read"
        raise BadInputError(problem, hint="cut it into smaller archives", code="too_large")


# --- XML that nobody has to trust -----------------------------------------------------------------------------------
#
# Files are streamed, gzipped or not. What stands before the root is looked at here, by bytes: a document type, and with
# it every entity and every reference to another file, is refused before the parser sees it, and instructions that a
# maker wrote before the XML declaration, where none may stand, are dropped.

DAMAGED = (OSError, EOFError, zlib.error, BadZipFile)

_LOOKED_AT = 1 << 20  # bytes before the root, at most
_CHUNK = 1 << 16
_ROOT = re.compile(rb"<(?:[\w.\-]+:)?([\w.\-]+)[\s/>]")
_SPACE = b" \t\r\n"


class Rest:
    """A stream from which the beginning was read already."""

    def __init__(self, head: bytes, stream: BinaryIO) -> None:
        self.head, self.stream = head, stream

    def read(self, size: int = -1) -> bytes:
        """Return the next bytes."""
        if not self.head:
            return self.stream.read(size)
        given, self.head = (self.head, b"") if size < 0 else (self.head[:size], self.head[size:])
        return given


@contextmanager
def opened(path: Path | Packed) -> Iterator[BinaryIO]:
    """Open a file, gzipped or not, whatever its name says."""
    with path.open("rb") if isinstance(path, Path) else path.open() as file:
        head = file.read(4)
        file.seek(0)
        zipped = head == b"PK\x03\x04" and str(path).lower().endswith(".zip")
        if zipped or str(path).lower().endswith(_TARS):
            raise BadInputError("it is an archive that is damaged, or lies in another one", code="damaged")
        yield gzip.GzipFile(fileobj=file) if head[:2] == b"\x1f\x8b" else file  # type: ignore[misc]


def _in_zip(archive: ZipFile, inside: ZipInfo) -> IO[bytes]:
    if inside.file_size > max(USUAL, TIMES * inside.compress_size):
        size = inside.file_size / 2**30
        raise BadInputError(f"it unpacks to {size:.3g} GB, many times what it is packed to", code="too_large")
    try:
        return archive.open(inside)
    except (RuntimeError, BadZipFile) as error:  # encrypted, or packed in a way that is not known
        raise BadInputError(f"it cannot be unpacked: {error}", code="damaged") from error


def root_of(stream: BinaryIO) -> tuple[str, Rest]:
    """Return the local name of the root of an XML text, "" if it is none, and the text from its declaration on."""
    head, place, start = stream.read(_CHUNK).removeprefix(b"\xef\xbb\xbf"), 0, 0
    while True:
        place += len(head[place:]) - len(head[place:].lstrip(_SPACE))
        if head.startswith(b"<!", place) and not head.startswith(b"<!--", place):
            raise BadInputError("it has a document type (DTD), which may hold entities: it is not read", code="dtd")
        if found := _ROOT.match(head, place):
            return found[1].decode("ascii", "replace"), Rest(head[start:], stream)
        if head[place : place + 1] not in (b"<", b""):
            return "", Rest(head, stream)
        mark = b"-->" if head.startswith(b"<!--", place) else b"?>"
        end = head.find(mark, place) if head.startswith((b"<?", b"<!--"), place) else -1
        if end >= 0:
            start = place if re.match(rb"<\?xml\s", head[place : place + 6]) else start
            place = end + len(mark)
            continue
        more = stream.read(_CHUNK) if len(head) < _LOOKED_AT else b""
        if not more:
            return "", Rest(head, stream)
        head += more


def elements(stream: Rest, tags: Iterable[str]) -> Iterator[Any]:
    """Yield the elements of these local names, of any namespace, each when it is complete."""
    etree = _lxml()
    wanted = tuple(f"{{*}}{tag}" for tag in tags)
    safe = {"resolve_entities": False, "no_network": True, "load_dtd": False, "huge_tree": False}
    try:
        for number, (_, element) in enumerate(etree.iterparse(stream, events=("end",), tag=wanted, **safe)):
            if not number and element.getroottree().docinfo.internalDTD is not None:
                raise BadInputError("it has a document type (DTD), which may hold entities: it is not read", code="dtd")
            yield element
    except etree.XMLSyntaxError as error:
        raise BadInputError(f"it is cut off or damaged: {error.msg}", code="damaged") from error


def forget(element: Any) -> None:
    """Let go of an element that was looked at and of what stands before it, so that memory stays bounded."""
    element.clear(keep_tail=True)
    previous = element.getprevious()
    while previous is not None and previous.tag == element.tag:
        element.getparent().remove(previous)
        previous = element.getprevious()


def local(element: Any) -> str:
    """Return the name of an element without its namespace; "" for a comment or an instruction."""
    tag = element.tag
    return _bare(tag) if isinstance(tag, str) else ""


@lru_cache(maxsize=4096)
def _bare(tag: str) -> str:
    return tag.rpartition("}")[2]


def _lxml() -> Any:
    try:
        from lxml import etree
    except ImportError as error:
        raise BadInputError("lxml is not installed", hint="pip install 'kinband[counters]'", code="no_lxml") from error
    return etree


# --- Times ----------------------------------------------------------------------------------------------------------

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_STEP = timedelta(microseconds=1)
_LENGTH = re.compile(r"P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?")
SECOND = 1_000_000
"""Times and lengths of time are whole microseconds, times in UTC since 1970."""


@lru_cache(maxsize=4096)
def moment(text: str, zone: tzinfo | None = None) -> int:
    """Return a time of an ISO text; one without a zone is in `zone`, or in UTC.

    Example:
        >>> moment("2023-05-15T07:15:00+0100") - moment("2023-05-15T06:00:00Z") == 900 * SECOND
        True
    """
    written = text.strip()
    late = written[10:13] in ("T24", " 24")  # midnight, written as the end of a day
    try:
        parsed = datetime.fromisoformat(f"{written[:11]}00{written[13:]}" if late else written)
        if parsed.tzinfo is None:
            parsed = _placed(parsed, zone or UTC)
        return (parsed - _EPOCH) // _STEP + late * 86_400 * SECOND
    except (ValueError, OverflowError) as error:
        if isinstance(error, BadInputError):
            raise
        raise BadInputError(f"{text!r:.40} is no time such as 2026-11-01T14:15:00+01:00") from error


def has_zone(text: str) -> bool:
    """Return whether the text of a time names its zone."""
    return re.search(r"(Z|[+-]\d\d:?\d\d)$", text.strip()) is not None


def _placed(local_time: datetime, zone: tzinfo) -> datetime:
    """A time of day in a zone, which must be there once: not twice and not never, as in a night of clock change."""
    placed = local_time.replace(tzinfo=zone)
    if placed.utcoffset() != placed.replace(fold=1).utcoffset():
        raise BadInputError(
            f"{local_time} is twice or never in {zone}, where clocks change: write times with a zone",
            code="clock_change",
        )
    return placed


@lru_cache(maxsize=256)
def length(text: str) -> int:
    """Return a length of time such as PT900S.

    Example:
        >>> length("PT15M") == length("PT900S") == 900 * SECOND
        True
    """
    found = _LENGTH.fullmatch(text.strip())
    days, hours, minutes, seconds = (float(part or 0) for part in found.groups()) if found else (0.0,) * 4
    whole = round((days * 86_400 + hours * 3600 + minutes * 60 + seconds) * SECOND)
    if not whole:
        raise BadInputError(f"{text!r:.40} is no length of time such as PT900S")
    return whole


# --- Distinguished names --------------------------------------------------------------------------------------------
#
# The name of an object is that of its parents, with its own part last: DC=a.com,SubNetwork=1,ManagedElement=7,
# ENBFunction=1,EUtranCellFDD=2. A file gives it in three pieces: the prefix, the element, and the object below it.
# Makers repeat parts, or write the bare name of an element and its full name in every object: parts that overlap
# count once.

_COMMA = re.compile(r"(?<!\\),")
_ELEMENTS = ("ManagedElement=", "MeContext=")


def parts_of(dn: str) -> list[str]:
    """Return the parts of a name, the highest first."""
    return [part for part in map(str.strip, _COMMA.split(dn)) if part]


@lru_cache(maxsize=65_536)
def name_of(prefix: str, element: str, below: str) -> str:
    """Return the full name of an object of a file.

    Example:
        >>> name_of("SubNetwork=G3", "n7", "ManagedElement=n7,NRCellCU=1")
        'SubNetwork=G3,ManagedElement=n7,NRCellCU=1'
        >>> name_of("DC=a", "ManagedElement=7", "ENBFunction=1,EUtranCellFDD=2")
        'DC=a,ManagedElement=7,ENBFunction=1,EUtranCellFDD=2'
    """
    own = parts_of(below)
    if element and "=" not in element:
        element = "" if any(part.startswith(_ELEMENTS) for part in own) else f"ManagedElement={element}"
    return ",".join(_merged(_merged(parts_of(prefix), parts_of(element)), own))


def _merged(upper: list[str], lower: list[str]) -> list[str]:
    for size in range(min(len(upper), len(lower)), 0, -1):
        if upper[-size:] == lower[:size]:
            return [*upper, *lower[size:]]
    return [*upper, *lower]


@lru_cache(maxsize=65_536)
def class_of(dn: str) -> str:
    """Return what kind of object a name is of: EUtranCellFDD."""
    return _COMMA.split(dn)[-1].strip().partition("=")[0]
