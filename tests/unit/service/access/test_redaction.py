"""Secrets do not reach the log: not by message, arguments, exceptions, nor by an access log."""

import io
import logging
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from uvicorn.logging import AccessFormatter

from kinband.service.access.redaction import HIDDEN, Redaction, install_redaction, redacted
from kinband.service.access.tokens import new_id, new_secret

ID, SECRET = "k3Vq90Xz", "s-_" + "S3cr3t" * 6 + "_-9Z"
TOKEN = f"kb_{ID}_{SECRET}"
SESSION = f"kbs1.{ID}.1700000000.1700043200.abcdefghijklmnop.{'0f' * 32}.{'Mark' * 10}abc"


@pytest.fixture
def log() -> Iterator[tuple[logging.Logger, io.StringIO]]:
    """A logger whose handler is redacted, and what it writes."""
    logger, written = logging.Logger("kinband.tests.redaction"), io.StringIO()
    handler = logging.StreamHandler(written)
    handler.addFilter(Redaction())
    logger.addHandler(handler)
    yield logger, written
    handler.close()


Log = tuple[logging.Logger, io.StringIO]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (f"token {TOKEN}.", f"token kb_{ID}_…."),
        (f"/v1/stations?token={TOKEN}&limit=3", f"/v1/stations?token=kb_{ID}_…&limit=3"),
        (f"Authorization: Bearer {TOKEN}", f"Authorization: Bearer kb_{ID}_…"),
        ("Authorization: Bearer eyJhbGciOi.J9.x", "Authorization: [hidden]"),
        ("authorization: Basic YW5uYTpzZWNyZXQ=", "authorization: [hidden]"),
        ("{'Authorization': 'opaque', 'Accept': '*/*'}", "{'Authorization': '[hidden]', 'Accept': '*/*'}"),
        ("[(b'authorization', b'Bearer opaque'), (b'a', b'b')]", "[(b'authorization', b'[hidden]'), (b'a', b'b')]"),
        (f"[(b'authorization', b'Bearer {TOKEN}')]", f"[(b'authorization', b'Bearer kb_{ID}_…')]"),
        ('{"authorization": "opaque"}', '{"authorization": "[hidden]"}'),
        ("got bearer 0123456789abcdef0123", "got bearer [hidden]"),
        (f"Cookie: theme=dark; __Host-kinband={SESSION}; a=b", "Cookie: theme=dark; __Host-kinband=[hidden]; a=b"),
        ("{'__Host-kinband': 'whatever'}", "{'__Host-kinband': '[hidden]'}"),
        (f"session {SESSION} ended", "session [hidden] ended"),
        ("X-CSRF-Token: abc-_123", "X-CSRF-Token: [hidden]"),
        ("postgresql://me:hunter2@db:5432/network", "postgresql://me:***@db:5432/network"),
    ],
)
def test_what_looks_like_a_secret_is_hidden_once_and_for_all(text: str, shown: str) -> None:
    assert redacted(text) == shown
    assert redacted(shown) == shown


@pytest.mark.parametrize(
    "text",
    [
        "3714 decided tilt=4 (d000042) at 10:00:00, reward 0.88",
        "GET /v1/decisions/d000042?after=17 HTTP/1.1",
        "bearer tokens are made with kinband token create",
        "http://127.0.0.1:8000/v1 is up, anna@example.org was told",
        "kb_short_x and kb_toolong12_x",
    ],
)
def test_ordinary_lines_stay_as_they_are(text: str) -> None:
    assert redacted(text) == text


@given(before=st.text(max_size=20), after=st.text(max_size=20))
def test_no_real_token_survives_whatever_is_around_it(before: str, after: str) -> None:
    secret = new_secret()
    assert secret not in redacted(f"{before}kb_{new_id()}_{secret}{after}")


class Holder:
    """An object that shows a token in one of its forms only."""

    def __init__(self, text: str, representation: str) -> None:
        self._text, self._representation = text, representation

    def __str__(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return self._representation


@pytest.mark.parametrize(
    ("message", "args"),
    [
        (f"refused {TOKEN}", ()),
        ("refused %s", (TOKEN,)),
        ("refused %r and %d", ({"token": TOKEN}, 3)),
        ("refused %(token)s", ({"token": TOKEN},)),
        ("refused %s", (TOKEN.encode(),)),
        ("refused kb_%s_%s", (ID, SECRET)),
        ("refused %s%s", ("Authorization: Basic ", SECRET)),
        ("Authorization: %s", (SECRET,)),
        ("refused %s", (Holder(TOKEN, "clean"),)),
        ("refused %r", (Holder("clean", TOKEN),)),
        ("refused %s", (ValueError(TOKEN),)),
        ("refused %s %s", (TOKEN,)),  # does not fit
    ],
)
def test_no_way_of_logging_shows_a_secret(
    log: Log, message: str, args: tuple[Any, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    logger, written = log
    logger.warning(message, *args)
    assert SECRET not in written.getvalue() + "".join(capsys.readouterr())


def test_a_name_of_a_header_before_an_argument_does_not_spoil_the_line(log: Log) -> None:
    logger, written = log
    logger.warning("authorization: %s, by %s", "opaque", "anna")
    assert written.getvalue() == "authorization: [hidden], by anna\n"


def test_numbers_stay_numbers(log: Log) -> None:
    logger, written = log
    logger.warning("%05.2f of %d for %s, %s", 2.5, 7, None, True)
    assert written.getvalue() == "02.50 of 7 for None, True\n"


def test_exceptions_are_shown_without_their_secrets(log: Log) -> None:
    logger, written = log
    try:
        try:
            raise ValueError(f"bad header Authorization: Bearer {TOKEN}")
        except ValueError as inner:
            raise RuntimeError("could not answer") from inner
    except RuntimeError:
        logger.exception("failed", stack_info=True)
    shown = written.getvalue()
    assert SECRET not in shown
    assert "ValueError: bad header Authorization: Bearer kb_k3Vq90Xz_…" in shown
    assert "RuntimeError: could not answer" in shown


def test_a_handler_that_formats_exceptions_by_itself_shows_none_either() -> None:
    record = logging.LogRecord("a", 40, "a.py", 1, "failed", None, None)
    try:
        raise ValueError(TOKEN)
    except ValueError as error:
        record.exc_info = (ValueError, error, error.__traceback__)
    assert Redaction().filter(record)
    shown = vars(record)
    assert shown["exc_info"] is None
    assert SECRET not in repr(shown)


def test_an_exception_without_secrets_is_left_to_the_handler() -> None:
    record = logging.LogRecord("a", 40, "a.py", 1, "failed", None, None)
    try:
        raise ValueError("harmless")
    except ValueError as error:
        record.exc_info = (ValueError, error, error.__traceback__)
    Redaction().filter(record)
    assert record.exc_info is not None


def test_an_object_that_cannot_be_shown_does_no_harm() -> None:
    class Unprintable:
        def __str__(self) -> str:
            raise RuntimeError("no")

    record = logging.LogRecord("a", 20, "a.py", 1, "%s", (Unprintable(),), None)
    assert Redaction().filter(record)


@pytest.mark.parametrize(
    ("path", "shown"), [(f"/?token={TOKEN}", f"/?token=kb_{ID}_…"), ("/?authorization=", "/?authorization=")]
)
def test_the_access_log_of_uvicorn_still_formats(path: str, shown: str) -> None:
    args = ("127.0.0.1:5000", "GET", path, "1.1", 200)
    record = logging.LogRecord("uvicorn.access", 20, "a.py", 1, '%s - "%s %s HTTP/%s" %d', args, None)
    Redaction().filter(record)
    formatter = AccessFormatter('%(client_addr)s - "%(request_line)s" %(status_code)s', use_colors=False)
    assert formatter.format(record) == f'127.0.0.1:5000 - "GET {shown} HTTP/1.1" 200 OK'


def test_it_is_put_once_on_every_handler_of_the_root_and_of_named_loggers() -> None:
    root, own = logging.getLogger(), logging.getLogger("kinband.tests.own")
    below, mine = logging.NullHandler(), logging.NullHandler()
    places: list[logging.Filterer] = [root, own, below, mine]
    before = [(place, list(place.filters)) for place in (root, *root.handlers)]
    root.addHandler(below)
    own.addHandler(mine)
    try:
        install_redaction(["kinband.tests.own"])
        install_redaction(["kinband.tests.own"])
        for place in places:
            assert sum(isinstance(found, Redaction) for found in place.filters) == 1
    finally:
        root.removeHandler(below)
        own.removeHandler(mine)
        for kept, filters in before:
            kept.filters[:] = filters


def test_tokens_of_an_identity_provider_are_hidden() -> None:
    shown = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmVk-_c2ln"
    assert redacted(f"got {shown} from there") == f"got {HIDDEN} from there"
    assert redacted("id_token_hint=eyJhbGciOiJub25lIn0.eyJzdWIiOiIxIn0.&x=1") == f"id_token_hint={HIDDEN}&x=1"
    assert "5b22" not in redacted("kbo1.5b2261222c2262225d.c2lnbmVk")
