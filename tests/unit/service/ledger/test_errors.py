"""What databases say becomes one sentence, and an answer to the question whether to try again."""

import sqlite3
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
import pytest
from sqlalchemy import exc

from kinband import ConfigurationSpace
from kinband.errors import BadInputError, ConflictError, KinbandError, SavedStateError
from kinband.service.ledger import Draft, Ledger, LedgerRefusedError, LedgerUnavailableError
from kinband.service.ledger.asked import Request
from kinband.service.ledger.engines import ledger_url, name_of, translated
from kinband.service.ledger.events import FIRST, Event, check_chain
from kinband.service.operations.turns import due


def postgres_error(sqlstate: str) -> exc.DBAPIError:
    return exc.DBAPIError("x", {}, psycopg.errors.lookup(sqlstate)("the server says\nmore"))


def sqlite_error(name: str) -> exc.DBAPIError:
    error = sqlite3.OperationalError("the library says")
    error.sqlite_errorname = name
    return exc.OperationalError("x", {}, error)


@pytest.mark.parametrize(
    ("error", "kind", "words"),
    [
        (postgres_error("53100"), LedgerUnavailableError, "the disk under the ledger here is full: make room"),
        (postgres_error("53300"), LedgerUnavailableError, "cannot be reached at here"),
        (postgres_error("57P01"), LedgerUnavailableError, "cannot be reached at here"),
        (postgres_error("40001"), LedgerUnavailableError, "try again later"),
        (postgres_error("55P03"), LedgerUnavailableError, "is busy"),
        (postgres_error("42501"), LedgerRefusedError, "refused"),
        (postgres_error("P0001"), LedgerRefusedError, "refused"),
        (postgres_error("23505"), ConflictError, "somebody else"),
        (sqlite_error("SQLITE_FULL"), LedgerUnavailableError, "is full"),
        (sqlite_error("SQLITE_BUSY_SNAPSHOT"), LedgerUnavailableError, "is busy"),
        (sqlite_error("SQLITE_IOERR_WRITE"), LedgerUnavailableError, "cannot be reached"),
        (sqlite_error("SQLITE_READONLY"), LedgerRefusedError, "refused"),
        (sqlite_error("SQLITE_CONSTRAINT_UNIQUE"), ConflictError, "somebody else"),
        (sqlite_error("SQLITE_CORRUPT"), SavedStateError, "is damaged"),
        (exc.OperationalError("x", {}, psycopg.OperationalError("gone")), LedgerUnavailableError, "(gone)"),
        (exc.ProgrammingError("x", {}, psycopg.ProgrammingError("what?")), LedgerRefusedError, "(what?)"),
    ],
)
def test_an_error_says_whether_to_try_again(error: exc.DBAPIError, kind: type[KinbandError], words: str) -> None:
    found = translated(error, "here", known=True)
    assert type(found) is kind
    assert words in str(found)
    assert "\n" not in str(found)


def test_of_a_long_story_the_first_line_is_told() -> None:
    assert "(the server says)" in str(translated(postgres_error("42501"), "here", known=True))


def test_a_lost_answer_to_a_commit_is_not_called_a_failure() -> None:
    lost = exc.OperationalError("x", {}, psycopg.OperationalError("gone"))
    assert "nothing was recorded" in str(translated(lost, "here", known=True))
    assert "whether it was recorded is not known" in str(translated(lost, "here", known=False))


@pytest.mark.parametrize(
    ("state", "code", "known"),
    [("53100", "full", True), ("55P03", "busy", True), ("55P03", "busy", False), ("57P01", "away", False)],
)
def test_programs_read_a_code_and_not_the_sentence(state: str, code: str, known: bool) -> None:
    found = translated(postgres_error(state), "here", known=known)
    assert isinstance(found, LedgerUnavailableError)
    assert (found.code, found.recorded) == (code, False if known else None)


@pytest.mark.parametrize("url", ["mysql://a/b", "sqlite://", ":memory:", "sqlite:///:memory:", "no/such/folder/l.db"])
def test_what_cannot_hold_a_ledger_is_refused(url: str) -> None:
    with pytest.raises(BadInputError, match=r"ledger (lives|has to be|can be kept)"):
        ledger_url(url)


def test_a_password_is_never_shown() -> None:
    assert "secret" not in name_of(ledger_url("postgresql://me:secret@db/network"))


def test_what_never_was_a_ledger_is_not_called_damaged(tmp_path: Path) -> None:
    file = tmp_path / "notes.db"
    file.write_text("just some notes, long enough to be looked at as a header" * 20, encoding="utf-8")
    with pytest.raises(SavedStateError, match="is not a ledger: give the file"):
        Ledger.open(file)
    assert file.read_text(encoding="utf-8").startswith("just some notes")


def test_a_server_that_is_not_there_is_unavailable() -> None:
    with pytest.raises(LedgerUnavailableError, match="try again later") as caught:
        Ledger.open("postgresql://me:secret@127.0.0.1:1/network", timeout=2)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    "fields", [{"key": ""}, {"slot": "a\nb"}, {"station": "\x00"}, {"actor": "x" * 501}, {"decision": 7}]
)
def test_a_name_that_no_column_can_hold_is_refused(fields: dict[str, object]) -> None:
    with pytest.raises(BadInputError, match=next(iter(fields))):
        Draft("applied", {}, **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize("payload", [{"x": float("nan")}, {"x": np.zeros(2)}, {"x": {1, 2}}])
def test_a_payload_has_to_survive_json(payload: dict[str, object]) -> None:
    with pytest.raises(BadInputError, match="must survive JSON"):
        _ = Draft("applied", payload).text


def test_a_chain_notices_any_change_of_any_column() -> None:
    columns: dict[str, Any] = {
        "seq": 1, "kind": "applied", "at": "2026-11-20T10:00:00.000000Z", "actor": "me", "station": "a",
        "decision": "d1", "round": 3, "slot": "s", "key": "k", "text": "{}",
    }  # fmt: skip
    sound = Event(**columns, checksum=Event(**columns, checksum="").expected(FIRST))
    assert check_chain([sound]) == (1, sound.checksum)
    others: dict[str, list[Any]] = {name: ["other"] for name in columns} | {"seq": [2], "round": [4]}
    for name in ("decision", "round", "slot", "key"):
        others[name].append(None)
    for name, values in others.items():
        for value in values:
            with pytest.raises(SavedStateError):
                check_chain([replace(sound, **{name: value})])


def test_large_snapshots_are_taken_less_often() -> None:
    assert not due(999, every=1000, size=0)
    assert due(2000, every=1000, size=2000 * 64_000)
    assert not due(2000, every=1000, size=2001 * 64_000)


def test_a_request_survives_the_way_through_the_ledger() -> None:
    space = ConfigurationSpace(tilt=[2, 4, 7])
    request = Request.of(
        "a", {"load": np.float64(0.1)}, space=space, allowed=lambda c: c["tilt"] > 2, running={"tilt": 7}, time=3
    )
    assert request.stored() == {"allowed": [1, 2], "arms": 3, "running": 2, "time": 3.0}
