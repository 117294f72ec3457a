"""What can go wrong with a ledger, and how the errors of databases become one sentence.

A caller needs to know one thing: may the same call be sent again later? So there are three answers. *Unavailable*: the
database cannot be reached, is busy or its disk is full; nothing is wrong with the call. *Refused*: the database will
not have it, now or later. And a *conflict*, where somebody else was first. Which is which follows from the SQLSTATE
classes of PostgreSQL (its manual, appendix A) and from the result codes of SQLite.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

from sqlalchemy import exc

from kinband.errors import ConflictError, KinbandError, SavedStateError

_LATER = ("08", "40", "53", "57", "58")  # connection, roll-back, resources, shut-down, system
_LATER_SQLITE = ("SQLITE_BUSY", "SQLITE_LOCKED", "SQLITE_FULL", "SQLITE_IOERR", "SQLITE_CANTOPEN", "SQLITE_PROTOCOL")
_LOCKED = "55P03"
_TAKEN = ("23505", "SQLITE_CONSTRAINT_UNIQUE", "SQLITE_CONSTRAINT_PRIMARYKEY")
_DAMAGED = ("SQLITE_CORRUPT", "SQLITE_NOTADB", "XX001", "XX002")
_FULL = ("SQLITE_FULL", "53100")


Reason = Literal["away", "busy", "full", "moved"]


class LedgerUnavailableError(KinbandError, ConnectionError):
    """The database cannot take it now; the same call may be sent again later.

    Example:
        >>> from kinband.service.ledger import Ledger
        >>> Ledger.open("postgresql://nobody@127.0.0.1:1/none", timeout=2)
        Traceback (most recent call last):
            ...
        kinband.service.ledger.errors.LedgerUnavailableError: the ledger cannot be reached ...

    Attributes:
        code: Why: it is "away" or "busy", its disk is "full", or its file was "moved".
        recorded: Whether the call is on record: False where it is known not to be, None where nobody knows, since the
            answer to a commit is missing.
    """

    def __init__(self, sentence: str, *, code: Reason = "away", recorded: Literal[False] | None = False) -> None:
        super().__init__(sentence)
        self.code, self.recorded = code, recorded


class LedgerRefusedError(KinbandError, PermissionError):
    """The database will not have it, now or later: rights are missing, or history was to be changed.

    Example:
        >>> str(LedgerRefusedError("the ledger is read-only"))
        'the ledger is read-only'
    """


@contextmanager
def in_one_sentence(where: str, *, known: bool = True) -> Iterator[None]:
    """Turn whatever a database raises into an error of ours.

    Args:
        where: The ledger's name, without a password.
        known: Whether it is known that nothing was recorded; it is not when an answer to a commit is missing.

    Example:
        >>> with in_one_sentence("ledger.db"):
        ...     raise exc.TimeoutError("pool")
        Traceback (most recent call last):
            ...
        kinband.service.ledger.errors.LedgerUnavailableError: the ledger ledger.db is busy: nothing was recorded, ...
    """
    try:
        yield
    except exc.TimeoutError as error:
        raise _unavailable(f"the ledger {where} is busy", "busy", known=known) from error
    except exc.DBAPIError as error:
        raise translated(error, where, known=known) from error


def translated(error: exc.DBAPIError, where: str, *, known: bool) -> KinbandError:
    """Return what to tell the caller of a database's error."""
    code, words = _code(error), _words(error)
    if code in _TAKEN:
        return ConflictError(f"somebody else recorded this in {where} first ({words}): read the ledger and ask again")
    if "not a database" in words:
        return SavedStateError(f"{where} is no ledger: give the file that kinband serve keeps its events in")
    if code.startswith(_DAMAGED):
        return SavedStateError(f"the ledger {where} is damaged ({words}): restore it from a backup")
    if code in _FULL:
        return _unavailable(f"the disk under the ledger {where} is full", "full", known=True)
    if code.startswith((_LOCKED, "SQLITE_BUSY", "SQLITE_LOCKED")):
        return _unavailable(f"the ledger {where} is busy", "busy", known=known)
    if not code or code.startswith((*_LATER, *_LATER_SQLITE)):
        return _unavailable(f"the ledger cannot be reached at {where} ({words})", "away", known=known)
    return LedgerRefusedError(f"the ledger {where} refused ({words}): nothing was recorded")


def _code(error: exc.DBAPIError) -> str:
    """Return PostgreSQL's SQLSTATE or SQLite's result code; empty where there was no answer at all."""
    found = getattr(error.orig, "sqlstate", None) or getattr(error.orig, "sqlite_errorname", None)
    if found is None and not isinstance(error, exc.OperationalError | exc.InterfaceError):
        return type(error.orig).__name__
    return str(found or "")


def _words(error: exc.DBAPIError) -> str:
    lines = str(error.orig).strip().splitlines() or [type(error.orig).__name__]
    return lines[0].strip()


def _unavailable(what: str, code: Reason, *, known: bool) -> LedgerUnavailableError:
    first = "make room; " if code == "full" else ""
    if known:
        return LedgerUnavailableError(f"{what}: {first}nothing was recorded, try again later", code=code)
    unsure = "whether it was recorded is not known, send it again later with the same key"
    return LedgerUnavailableError(f"{what}: {first}{unsure}", code=code, recorded=None)
