"""Lost tails and forgeries: heads that were noted elsewhere, and seals by a key that lies elsewhere."""

import logging
import stat
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import Connection, delete, text, update
from tests.support.ledger_stores import OnRecord, new_controller

from kinband.cli import main
from kinband.errors import BadInputError, SavedStateError
from kinband.service.access import Tokens
from kinband.service.ledger import Draft, Event, Head, Key, Ledger, replay
from kinband.service.ledger.events import FIRST
from kinband.service.ledger.restoring import read_setup, restored
from kinband.service.ledger.schema import events, seals, set_triggers
from kinband.service.ledger.snapshots import write_snapshot

KEY = Key(b"a key that lies where the database does not")


def lived(url: str, key: Key | None = None) -> None:
    with closing(Ledger.open(url, key=key)) as ledger:
        life = OnRecord(ledger, new_controller(3))
        for reward in (0.3, 0.8, 0.5):
            life.tell(life.ask("a", {"load": 0.4}).id, reward)
        life.operations.freeze("b", why="complaints", actor="ann")


def forged(url: str, change: Callable[[Event], Event | None]) -> None:
    """What somebody does who may write to the database and knows how checksums are made, but has no key."""
    with closing(Ledger.open(url)) as ledger:
        rows, checksum, number = list(ledger.read()), FIRST, 0
        with ledger.connected(writes=True) as connection:
            _triggers_away(connection)
            connection.execute(delete(events))
            for row in rows:
                other = change(row)
                if other is not None:
                    number += 1
                    other = replace(other, seq=number)
                    checksum = other.expected(checksum)
                    connection.execute(events.insert().values(replace(other, checksum=checksum).columns))
            set_triggers(connection)


def _triggers_away(connection: Connection) -> None:
    if connection.dialect.name == "postgresql":
        connection.execute(text("DROP TRIGGER events_stay ON events"))
        return
    for name in ("events_stay_UPDATE", "events_stay_DELETE"):
        connection.execute(text(f"DROP TRIGGER {name}"))


def by_mallory(event: Event) -> Event:
    return replace(event, actor="mallory") if event.kind == "switch" else event


def without_the_last(event: Event) -> Event | None:
    return None if event.kind == "switch" else event


def test_a_head_reads_back_and_refuses_what_is_none() -> None:
    head = Head(4711, "3f0aa17b2c4d" + "0" * 52)
    assert Head.read(str(head)) == head
    assert head.number == 0x3F0AA17B2C4D
    for odd in ("4711", "4711:3f0a", "x:3f0aa17b2c4d", "-1:3f0aa17b2c4d"):
        with pytest.raises(BadInputError, match="a head is a number and a checksum"):
            Head.read(odd)


def test_a_lost_tail_and_a_rewritten_chain_are_found_by_the_head_that_was_noted(url: str) -> None:
    lived(url)
    with closing(Ledger.open(url)) as ledger:
        noted = ledger.head()
        ledger.append([Draft("observation", {"load": 0.1})])
        assert ledger.verify(expect=noted) == noted.seq + 1
        late = ledger.head()
    forged(url, without_the_last)
    with closing(Ledger.open(url)) as ledger:
        ledger.verify()
        with pytest.raises(SavedStateError, match=f"was rewritten up to event {noted.seq}"):
            ledger.verify(expect=noted)
        with pytest.raises(SavedStateError, match=f"lost its tail: it ends with event {noted.seq}"):
            ledger.verify(expect=late)


def test_a_forged_actor_passes_without_a_key_and_not_with_one(url: str) -> None:
    lived(url, KEY)
    forged(url, by_mallory)
    with closing(Ledger.open(url)) as ledger:
        ledger.verify()  # whoever rewrites all checksums after it leaves no trace in them
    with closing(Ledger.open(url, key=KEY)) as ledger:
        decided = next(ledger.read(kinds=["decision"])).decision
        add, again = [Draft("observation", {})], lambda: replay(ledger, str(decided))
        for act in (ledger.verify, lambda: OnRecord(ledger), lambda: ledger.append(add), again):
            with pytest.raises(SavedStateError, match=r"the seal of the ledger .* does not fit its head"):
                act()


def test_a_replay_says_which_stored_beliefs_it_took_up_and_notices_what_was_changed_after_them(url: str) -> None:
    with closing(Ledger.open(url)) as ledger:
        life = OnRecord(ledger, new_controller(4), snapshot_every=2)
        for _ in range(5):
            life.tell(life.ask("a", {"load": 0.4}).id, 0.5)
        life.turns.snapshot()
        last = life.ask("a", {"load": 0.7}).id
        snapshot = replay(ledger, last).snapshot
        assert snapshot > 2
        assert replay(ledger, last, snapshots=False).snapshot == 0
        life.tell(last, 0.5)
        with ledger.connected(writes=True) as connection:
            _triggers_away(connection)
            connection.execute(update(events).where(events.c.kind == "outcome").values(actor="mallory"))
            set_triggers(connection)
        with pytest.raises(SavedStateError, match="was changed"):
            replay(ledger, last)


def test_a_seal_that_was_taken_away_or_made_with_another_key_is_noticed(url: str) -> None:
    lived(url, KEY)
    other = Key(b"another key, which is as long as any")
    with closing(Ledger.open(url, key=other)) as ledger, pytest.raises(SavedStateError, match="or the key is another"):
        ledger.verify()
    with closing(Ledger.open(url)) as ledger, ledger.connected(writes=True) as connection:
        connection.execute(seals.delete())
    with closing(Ledger.open(url, key=KEY)) as ledger:
        for act in (ledger.verify, lambda: OnRecord(ledger), lambda: ledger.append([Draft("observation", {})])):
            with pytest.raises(SavedStateError, match="has no seal, or lost it"):
                act()


def test_an_event_that_somebody_adds_beside_a_running_service_stops_it(url: str) -> None:
    with closing(Ledger.open(url, key=KEY)) as ledger, closing(Ledger.open(url)) as other:
        life = OnRecord(ledger, new_controller(3))
        life.ask("a", {"load": 0.4})
        with pytest.raises(BadInputError, match="is sealed: give the file with its key"):
            other.append([Draft("observation", {})])
        last = list(other.read())[-1]
        added = replace(last, seq=last.seq + 1, kind="observation", key=None, slot=None)
        with other.connected(writes=True) as connection:
            connection.execute(events.insert().values(replace(added, checksum=added.expected(last.checksum)).columns))
        with pytest.raises(SavedStateError, match="does not fit its head"):
            life.ask("a", {"load": 0.4})


def test_a_ledger_goes_on_with_its_key_and_tokens_are_sealed_too(url: str) -> None:
    lived(url)
    with closing(Ledger.open(url, key=KEY)) as ledger:
        with pytest.raises(SavedStateError, match="has no seal"):
            OnRecord(ledger)
        assert ledger.seal() == ledger.head()
        assert OnRecord(ledger).ask("c", {"load": 0.1}).id == "d000004"
        Tokens(ledger).create("nms", "viewer", by="ann")
        ledger.verify(expect=ledger.seal())
        with ledger.connected(writes=True) as connection:
            connection.execute(update(seals).values(mac="0" * 64))
        with pytest.raises(SavedStateError, match="does not fit its head"):
            ledger.seal()


def test_beliefs_that_somebody_plants_without_the_key_are_not_taken_up(
    url: str, caplog: pytest.LogCaptureFixture
) -> None:
    """They are learned anew from the events; the start says so, and so does verify."""
    lived(url)
    with closing(Ledger.open(url)) as ledger:
        setup = read_setup(ledger)
        memory = restored(ledger, setup).controller.stored()
        assert memory is not None
        write_snapshot(ledger, ledger.head().seq, memory)
    with closing(Ledger.open(url, key=KEY)) as ledger:
        ledger.seal()
        last = ledger.head().seq
        assert restored(ledger, setup).snapshot == last  # it was there when the ledger was sealed
        with closing(Ledger.open(url, key=Key(b"another key, which is as long as any"))) as other:
            write_snapshot(other, last, memory)
        assert restored(ledger, setup).snapshot == 0
        assert "its seal is wrong" in caplog.text
        with closing(Ledger.open(url)) as other:
            write_snapshot(other, last, memory)
            assert restored(other, setup).snapshot == last
        assert restored(ledger, setup).snapshot == 0
        assert f"the snapshot after event {last} cannot be used, it is passed over: it has no seal" in caplog.text
        with pytest.raises(SavedStateError, match="it has no seal"):
            ledger.verify()
        caplog.clear()
        caplog.set_level(logging.INFO)
        assert OnRecord(ledger).turns.snapshot()
        assert restored(ledger, setup).snapshot == last
        assert f"events 1 to {last} were checked when the snapshot was made" in caplog.text
        ledger.verify()


def test_a_key_is_made_for_its_owner_alone_and_a_short_one_refused(tmp_path: Path) -> None:
    made = tmp_path / "ledger.key"
    Key.make(made)
    assert stat.S_IMODE(made.stat().st_mode) == 0o600
    with pytest.raises(BadInputError, match="no key can be put into"):
        Key.make(made)
    with pytest.raises(BadInputError, match="there is no key of a ledger in"):
        Key.read(tmp_path / "none")
    with pytest.raises(BadInputError, match="at least 32 bytes"):
        Key(b"short")


def test_commands_seal_publish_heads_and_expect_them(
    url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    lived(url)
    key = str(tmp_path / "ledger.key")
    assert main(["ledger", "seal", url, "--key", key]) == 0
    head = capsys.readouterr().out.split()[-1]
    assert main(["ledger", "verify", url, "--key", key, "--expect", head]) == 0
    assert f"its seal holds; head {head}" in capsys.readouterr().out
    assert main(["token", "create", "--ledger", url, "--name", "nms"]) == 2
    assert "is sealed: give the file with its key (--key)" in capsys.readouterr().err
    monkeypatch.setenv("KINBAND_LEDGER_KEY", key)
    assert main(["token", "create", "--ledger", url, "--name", "nms"]) == 0
    assert main(["ledger", "verify", url, "--expect", head]) == 0
    if "://" not in url:
        capsys.readouterr()
        assert main(["ledger", "backup", url, str(tmp_path / "copy.db")]) == 0
        noted = capsys.readouterr().out.split()[-1]
        assert main(["ledger", "verify", str(tmp_path / "copy.db"), "--expect", noted]) == 0
    forged(url, by_mallory)
    assert main(["ledger", "verify", url]) == 2
    assert "does not fit its head" in capsys.readouterr().err
