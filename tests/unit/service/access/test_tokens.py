"""Tokens on both stores: made, recognised, revoked, on record, and never found in the database."""

import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Any

import pytest
from sqlalchemy import event, inspect, text
from tests.support.ledger_stores import OnRecord, new_controller

from kinband.errors import BadInputError, ConflictError, NotFoundError, SavedStateError
from kinband.service.access import Identity, NotAllowedError, NotSignedInError, Role, Tokens
from kinband.service.access.sessions import signing_key
from kinband.service.access.tokens import TtlCache
from kinband.service.ledger import Draft, Ledger, LedgerRefusedError, LedgerUnavailableError


class Time:
    """A clock that is set by hand, for the ledger and for what is remembered."""

    def __init__(self) -> None:
        self.seconds = 1000.0

    def monotonic(self) -> float:
        return self.seconds

    def now(self) -> datetime:
        return datetime(2026, 11, 20, 10, tzinfo=UTC) + timedelta(seconds=self.seconds)


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
def ledger(url: str, time: Time) -> Iterator[Ledger]:
    opened = Ledger.open(url, timeout=5, clock=time.now)
    yield opened
    opened.close()


@pytest.fixture
def tokens(ledger: Ledger, time: Time) -> Tokens:
    return Tokens(ledger, remembered=7, clock=time.monotonic)


def refused(tokens: Tokens, token: str) -> tuple[str, str]:
    """Why a token is refused, and what its bearer is told."""
    with pytest.raises(NotSignedInError) as caught:
        tokens.authenticate(token)
    return caught.value.reason, str(caught.value)


def queries(ledger: Ledger) -> list[str]:
    """Every statement from now on."""
    seen: list[str] = []
    event.listen(ledger.engine, "before_cursor_execute", lambda *given: seen.append(given[2]))
    return seen


# --- Tokens -------------------------------------------------------------------------------------------------


def test_a_token_is_recognised_as_what_it_was_made_for(tokens: Tokens, time: Time) -> None:
    for role in Role:
        created = tokens.create(f"for {role}", role)
        assert tokens.authenticate(created.token) == Identity(created.record.id, f"for {role}", role)
        time.seconds += 0.1
    assert [record.role for record in tokens.list()] == list(Role)


def test_neither_the_secret_nor_its_proof_is_in_the_database(tokens: Tokens, ledger: Ledger) -> None:
    created = tokens.create("nms", "operator", by="anna")
    secret = created.token.split("_", 2)[2]
    tokens.authenticate(created.token)
    tokens.write_used()
    with ledger.reading() as connection:
        tables = (
            connection.execute(text("SELECT * FROM tokens")).all(),
            connection.execute(text("SELECT * FROM events")),
        )
        everything = repr([list(rows) for rows in tables])
    assert "nms" in everything
    assert secret not in everything
    assert sha256(secret.encode()).hexdigest() not in everything
    assert secret not in repr(created)


def test_what_an_outsider_learns_does_not_tell_why(tokens: Tokens) -> None:
    good = tokens.create("nms", "viewer").token
    other = tokens.create("other", "viewer").token
    crossed = good[:12] + other[12:]  # the id of one and the secret of another
    unknown = "kb_00000000_" + good[12:]
    seen = {
        refused(tokens, token) for token in (crossed, unknown, "", "kb_", good[:-1], good + "A", f" {good}", "ü" * 55)
    }
    assert {reason for reason, _ in seen} == {"malformed", "unknown"}
    assert len({sentence for _, sentence in seen}) == 1


def test_the_last_character_of_a_secret_counts_in_full(tokens: Tokens) -> None:
    good = tokens.create("nms", "viewer").token  # 43 characters of base64 hold 2 bits more than 32 bytes
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    near = good[:-1] + alphabet[alphabet.index(good[-1]) ^ 1]
    assert refused(tokens, near)[0] == "unknown"


def test_a_token_ends_when_it_expires(tokens: Tokens, time: Time) -> None:
    created = tokens.create("guest", "viewer", expires_in=timedelta(hours=3))
    time.seconds += 3 * 3600 - 1
    assert tokens.authenticate(created.token).name == "guest"
    time.seconds += 1
    reason, sentence = refused(tokens, created.token)
    assert (reason, "has expired" in sentence) == ("expired", True)
    assert refused(tokens, created.token[:-1] + "!")[0] == "malformed"


def test_that_a_token_was_revoked_is_told_to_its_bearer_only(tokens: Tokens) -> None:
    created = tokens.create("nms", "viewer")
    tokens.revoke("nms")
    assert refused(tokens, created.token)[0] == "revoked"
    assert refused(tokens, created.token[:12] + "A" * 43)[0] == "unknown"


@pytest.mark.parametrize("how", ["id", "name", "token"])
def test_a_token_is_revoked_by_id_by_name_and_by_itself(tokens: Tokens, ledger: Ledger, how: str) -> None:
    created, kept = tokens.create("nms", "viewer"), tokens.create("other", "viewer")
    which = {"id": created.record.id, "name": "nms", "token": created.token}[how]
    assert tokens.revoke(which, by="anna").revoked == tokens.revoke(which).revoked == ledger.now()
    assert refused(tokens, created.token)[0] == "revoked"
    assert tokens.authenticate(kept.token).name == "other"


def test_no_message_repeats_the_secret_of_a_token(tokens: Tokens) -> None:
    token = f"kb_00000000_{'s' * 43}"
    with pytest.raises(NotFoundError, match="'00000000': see kinband token list") as caught:
        tokens.revoke(token)
    assert "sss" not in str(caught.value)
    with pytest.raises(BadInputError) as refusal:
        tokens.create(token, "viewer")
    assert "sss" not in str(refusal.value)


def test_live_tokens_have_different_names(tokens: Tokens, time: Time) -> None:
    first = tokens.create("nms", "viewer", expires_in=timedelta(hours=1))
    with pytest.raises(ConflictError, match="a live token is called 'nms'"):
        tokens.create("nms", "admin")
    time.seconds += 3600
    second = tokens.create("nms", "operator")  # the first has expired
    assert tokens.revoke("nms").id == second.record.id
    time.seconds += 0.1
    third = tokens.create("nms", "admin")
    assert [record.id for record in tokens.list()] == [first.record.id, second.record.id, third.record.id]
    assert tokens.authenticate(third.token).role is Role.ADMIN


def test_of_many_who_take_one_name_at_once_one_gets_it(ledger: Ledger) -> None:
    outcomes: list[str] = []

    def race() -> None:
        try:
            Tokens(ledger).create("nms", "viewer")
            outcomes.append("made")
        except ConflictError:
            outcomes.append("taken")

    threads = [threading.Thread(target=race) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == ["made", *["taken"] * 4]
    assert ledger.verify() == 1


@pytest.mark.parametrize("name", ["", " nms", "a\nb", "x" * 81, "local", None])
def test_a_name_that_would_confuse_the_record_is_refused(tokens: Tokens, name: Any) -> None:
    with pytest.raises(BadInputError, match="token"):
        tokens.create(name, "viewer")
    assert tokens.list() == []


@pytest.mark.parametrize("life", [timedelta(0), timedelta(seconds=-1), timedelta(days=3661), timedelta.max])
def test_a_token_cannot_end_before_it_begins_nor_after_ten_years(tokens: Tokens, life: timedelta) -> None:
    with pytest.raises(BadInputError, match="at most 3660 days"):
        tokens.create("nms", "viewer", expires_in=life)
    assert tokens.list() == []


def test_making_and_revoking_is_on_record_with_who_did_it(tokens: Tokens, ledger: Ledger) -> None:
    created = tokens.create("nms", "operator", by="anna")
    tokens.revoke("nms", by="ben")
    tokens.revoke("nms", by="carl")  # which changes nothing
    about = {"id": created.record.id, "name": "nms", "role": "operator"}
    made, ended = ledger.read()
    digest = made.payload["digest"]
    assert (made.kind, made.actor, made.payload) == ("access", "anna", {**about, "action": "created", "digest": digest})
    assert (ended.kind, ended.actor, ended.payload) == ("access", "ben", {**about, "action": "revoked"})
    assert ledger.verify() == 2


def test_a_token_that_cannot_be_put_on_record_is_not_made(tokens: Tokens, ledger: Ledger) -> None:
    with pytest.raises(BadInputError, match="actor"):
        tokens.create("nms", "viewer", by="a\nb")
    assert (tokens.list(), ledger.verify()) == ([], 0)


def test_a_running_controller_takes_no_notice_of_tokens(url: str, ledger: Ledger, tokens: Tokens) -> None:
    durable = OnRecord(ledger, new_controller(13))
    first = durable.ask("a", {"load": 0.3})
    tokens.create("nms", "viewer")
    durable.tell(first.id, 0.4)
    assert [e.kind for e in ledger.read()] == ["started", "mode", "decision", "verdict", "applied", "access", "outcome"]
    assert len(OnRecord(ledger).controller) == 1


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE tokens SET role = 'admin'",
        "UPDATE tokens SET expires = NULL",
        "UPDATE tokens SET revoked = NULL",
        "UPDATE tokens SET \"by\" = 'x'",
        "DELETE FROM tokens",
    ],
)
def test_a_token_stays_as_it_was_made_and_revoked(tokens: Tokens, ledger: Ledger, change: str) -> None:
    tokens.create("nms", "viewer", expires_in=timedelta(days=1))
    before = [tokens.revoke("nms")]
    with pytest.raises(LedgerRefusedError, match="append-only"), ledger.connected(writes=True) as connection:
        connection.execute(text(change))
    assert tokens.list() == before


# --- What is remembered -------------------------------------------------------------------------------------


def test_a_busy_client_costs_one_query_in_a_while(tokens: Tokens, ledger: Ledger, time: Time) -> None:
    token = tokens.create("nms", "viewer").token
    seen = queries(ledger)
    for _ in range(20):
        tokens.authenticate(token)
    assert len([query for query in seen if "FROM tokens" in query]) == 1
    time.seconds += 7
    tokens.authenticate(token)
    assert len([query for query in seen if "FROM tokens" in query]) == 2
    assert not [query for query in seen if query.startswith(("UPDATE", "INSERT"))]


def test_a_revocation_counts_at_once_here_and_soon_elsewhere(tokens: Tokens, ledger: Ledger, time: Time) -> None:
    elsewhere = Tokens(ledger, remembered=7, clock=time.monotonic)
    token = tokens.create("nms", "viewer").token
    assert tokens.authenticate(token) == elsewhere.authenticate(token)
    tokens.revoke("nms")
    assert refused(tokens, token)[0] == "revoked"
    time.seconds += 7
    assert refused(elsewhere, token)[0] == "revoked"


def test_a_wrong_secret_is_refused_also_where_the_token_is_remembered(tokens: Tokens) -> None:
    good = tokens.create("nms", "viewer").token
    tokens.authenticate(good)
    assert refused(tokens, good[:12] + "A" * 43)[0] == "unknown"


def test_a_wrong_secret_is_looked_up_like_an_unknown_id(tokens: Tokens, ledger: Ledger) -> None:
    good = tokens.create("nms", "viewer").token
    tokens.authenticate(good)
    seen = queries(ledger)
    for wrong in (good[:12] + "A" * 43, f"kb_{'B' * 8}_{'A' * 43}"):
        before = len(seen)
        assert refused(tokens, wrong)[0] == "unknown"
        assert len([query for query in seen[before:] if "FROM tokens" in query]) == 1


def test_what_is_looked_up_while_it_changes_is_not_remembered() -> None:
    memory = TtlCache[int](seconds=60, most=10, clock=lambda: 0.0)
    turn = memory.turn
    memory.forget("a")  # between the query and its answer
    memory.keep("a", 1, turn=turn)
    assert memory.recall("a") is None
    memory.keep("a", 2, turn=memory.turn)
    assert memory.recall("a") == 2


def test_the_memory_is_bounded_and_drops_the_oldest() -> None:
    memory = TtlCache[int](seconds=60, most=3, clock=lambda: 0.0)
    for number in range(5):
        memory.keep(str(number), number, turn=memory.turn)
    assert [memory.recall(str(number)) for number in range(5)] == [None, None, 2, 3, 4]


def test_when_a_token_was_last_used_is_noted_to_the_minute(tokens: Tokens, ledger: Ledger, time: Time) -> None:
    token = tokens.create("nms", "viewer").token
    assert tokens.write_used() is True
    assert tokens.list()[0].last_used is None
    tokens.authenticate(token)
    used_at = time.now()
    assert tokens.write_used() is True
    seen = queries(ledger)
    assert tokens.write_used() is True  # nothing since
    assert seen == []
    assert tokens.list()[0].last_used == used_at.strftime("%Y-%m-%dT%H:%M:00.000000Z")


@pytest.mark.parametrize("trouble", [LedgerUnavailableError, LedgerRefusedError])
def test_last_use_is_noted_later_where_the_ledger_cannot_take_it(
    tokens: Tokens, ledger: Ledger, trouble: type[Exception]
) -> None:
    tokens.authenticate(tokens.create("nms", "viewer").token)
    with pytest.MonkeyPatch.context() as patch:

        def busy(**given: Any) -> Any:
            raise trouble("not now")

        patch.setattr(ledger, "connected", busy)
        assert tokens.write_used() is False
    assert tokens.write_used() is True
    assert tokens.list()[0].last_used is not None


# --- Roles --------------------------------------------------------------------------------------------------


def test_a_role_may_do_what_the_roles_below_it_may() -> None:
    ranks = ["viewer", "operator", "admin"]
    for have in ranks:
        for need in ranks:
            somebody, enough = Identity("i", "n", Role.of(have)), ranks.index(have) >= ranks.index(need)
            assert somebody.may(Role.of(need)) is enough
            assert (Role.of(have) >= Role.of(need), Role.of(have) < Role.of(need)) == (enough, not enough)
            assert (Role.of(have) > Role.of(need)) is (enough and have != need)
            assert (Role.of(need) <= Role.of(have)) is enough


def test_who_may_not_is_told_what_it_takes() -> None:
    with pytest.raises(NotAllowedError, match="needs the role operator, and 'anna' is viewer"):
        Identity("i", "anna", Role.VIEWER).require(Role.OPERATOR)
    Identity.local().require(Role.ADMIN)


# --- The database -------------------------------------------------------------------------------------------


def test_a_ledger_of_the_first_schema_is_brought_up_to_date(url: str) -> None:
    old = Ledger.open(url, timeout=5)
    old.append([Draft("observation", {"load": 0.3}, station="a")])
    with old.connected(writes=True) as connection:
        for name in ("table tokens", "table secrets", "index events_kind", "index events_actor"):
            connection.execute(text(f"DROP {name}"))
        connection.execute(text("UPDATE alembic_version SET version_num = 'v0001'"))
    old.close()
    with pytest.raises(SavedStateError, match="has the older schema v0001"):
        Ledger.open(url, create=False)
    ledger = Ledger.open(url, timeout=5)
    assert Tokens(ledger).create("nms", "viewer").record.name == "nms"
    assert [e.kind for e in ledger.read()] == ["observation", "access"]
    assert ledger.verify() == 2
    for statement in ("DELETE FROM events", "DELETE FROM tokens"):
        with pytest.raises(LedgerRefusedError, match="append-only"), ledger.connected(writes=True) as connection:
            connection.execute(text(statement))
    with ledger.reading() as connection:
        assert {"events_kind", "events_actor"} <= {str(i["name"]) for i in inspect(connection).get_indexes("events")}
    ledger.close()


def test_processes_that_start_at_once_share_one_key(url: str, ledger: Ledger) -> None:
    others = [Ledger.open(url, timeout=5) for _ in range(4)]
    keys: list[bytes] = []
    threads = [threading.Thread(target=lambda l=l: keys.append(signing_key(l, "sessions"))) for l in others]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(keys) == 4
    assert set(keys) == {signing_key(ledger, "sessions")}
    assert signing_key(ledger, "another purpose") not in keys
    for other in others:
        other.close()
