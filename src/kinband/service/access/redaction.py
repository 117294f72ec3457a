"""No secret in logs: whatever looks like one is replaced before a line is written.

We never log a secret on purpose. This is the net below: an exception that quotes a request, a library that logs
headers, a token somebody put into a URL. The id of a token stays, so that a line still tells whose it was.

A filter of logging sees the message, its arguments and the text of an exception. Arguments are replaced one by one
where that is enough, since some formatters (uvicorn's of its access log) read them.
"""

import logging
import re
from collections.abc import Iterable, Mapping
from typing import Any

from kinband.service.access.sessions import COOKIE
from kinband.service.problems import REQUEST_ID

HIDDEN = "[hidden]"
"""What stands in the place of a secret."""

LOGGERS = ("uvicorn", "uvicorn.error", "uvicorn.access")
"""Loggers that have handlers of their own, beside the root's."""

_READS_ARGUMENTS = "uvicorn.access"  # whose formatter takes them by their places
# Between a name and a value: in a header, a dictionary, a list of ASGI's pairs. Atomic, so that nothing is given back.
_BETWEEN = r"(?>['\"]?\s*[:=,]\s*(?:b(?=['\"]))?['\"]?)"
_SCHEME = r"(?:(?:bearer|basic|digest|token)\s+)?"
_DONE = rf"(?!{_SCHEME}(?:\[hidden\]|kb_[0-9A-Za-z]{{8}}_…))"  # so that doing it twice is doing it once
_SECRETS = [
    (re.compile(r"kb_([0-9A-Za-z]{8})_[0-9A-Za-z_-]+"), r"kb_\1_…"),
    (re.compile(r"kb[so]1\.[\w.-]+", re.ASCII), HIDDEN),
    (re.compile(r"\beyJ[\w-]{8,}\.[\w-]+\.[\w-]*", re.ASCII), HIDDEN),  # JSON web tokens
    (re.compile(rf"({re.escape(COOKIE)}{_BETWEEN})[^\s;'\",]+", re.IGNORECASE), rf"\1{HIDDEN}"),
    (
        re.compile(rf"((?:authorization|x-csrf-token){_BETWEEN}){_DONE}{_SCHEME}[^\s'\",;)\]}}]+", re.IGNORECASE),
        rf"\1{HIDDEN}",
    ),
    (re.compile(r"\b(bearer\s+)[0-9A-Za-z._~+/=-]{16,}", re.IGNORECASE), rf"\1{HIDDEN}"),
    (re.compile(r"(://[^\s:/@]*:)[^\s/@]+(?=@)"), r"\1***"),
]


def redacted(text: str) -> str:
    """Return a text without what looks like a secret: tokens, sessions, credentials of headers and of URLs.

    Example:
        >>> redacted("GET /v1/stations?token=kb_k3Vq90Xz_Zm9vYmFy")
        'GET /v1/stations?token=kb_k3Vq90Xz_…'
        >>> redacted("Authorization: Basic YW5uYTpzZWNyZXQ=")
        'Authorization: [hidden]'
        >>> redacted("postgresql://me:pass@db/network")
        'postgresql://me:***@db/network'
    """
    for pattern, replacement in _SECRETS:
        text = pattern.sub(replacement, text)
    return text


class Redaction(logging.Filter):
    """A filter that lets every record pass, without its secrets and with the id of the request it belongs to."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Take the secrets out of a record."""
        record.request_id = redacted(REQUEST_ID.get()) or "-"
        _redact_message(record)
        if record.exc_info and not record.exc_text:
            text = logging.Formatter().formatException(record.exc_info)
            if redacted(text) != text:
                record.exc_text, record.exc_info = text, None  # handlers that format it anew would show it all
        record.exc_text = redacted(record.exc_text) if record.exc_text else record.exc_text
        record.stack_info = redacted(record.stack_info) if record.stack_info else record.stack_info
        return True


def install_redaction(loggers: Iterable[str] = LOGGERS) -> None:
    """Put the filter on every handler of the root and of these loggers, and on the loggers; once is enough.

    Handlers that are added later need it again.

    Args:
        loggers: Names of loggers that have handlers of their own.
    """
    for logger in (logging.getLogger(), *map(logging.getLogger, loggers)):
        for place in (logger, *logger.handlers):
            if not any(isinstance(found, Redaction) for found in place.filters):
                place.addFilter(Redaction())


def _redact_message(record: logging.LogRecord) -> None:
    """Redact each argument; where message and arguments make up a secret together only, their joint text."""
    try:
        shown = redacted(record.getMessage())
    except Exception:  # a message that does not fit its arguments; logging shows both, and says so
        record.msg, record.args = _plain(record.msg), _each_plain(record.args)
        return
    record.args = _each_plain(record.args)
    if record.getMessage() != shown and record.name != _READS_ARGUMENTS:
        record.msg, record.args = shown, None


def _each_plain(args: Any) -> Any:
    if isinstance(args, Mapping):
        return {name: _plain(value) for name, value in args.items()}
    return tuple(_plain(value) for value in args) if args else args


def _plain(value: object) -> object:
    """Return a value as it is where neither form of it shows a secret, else its text without."""
    if value is None or isinstance(value, int | float):
        return value
    if isinstance(value, str):
        return redacted(value)
    try:
        shown = (str(value), repr(value))
    except Exception:  # an object that cannot be shown; logging says so itself, and a filter must never raise
        return value
    return value if all(redacted(text) == text for text in shown) else redacted(shown[0])
