"""Old events in files: what leaves the database is read like the rest, and a crash at any step loses nothing."""

import resource
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sqlalchemy import text
from tests.support.ledger_stores import OnRecord, live, new_controller

from kinband.errors import BadInputError, SavedStateError
from kinband.service.ledger import Draft, Ledger, LedgerRefusedError, LedgerUnavailableError, replay
from kinband.service.ledger import archiving as archiving_module
from kinband.service.ledger.archiving import archive_events, try_to_archive
from kinband.service.ledger.backups import back_up, summary_of


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with closing(Ledger.open(tmp_path / "ledger.db", timeout=5)) as opened:
        yield opened


@pytest.fixture
def life(ledger: Ledger) -> OnRecord:
    found = OnRecord(ledger, new_controller(53), snapshot_every=10_000)
    live(found, np.random.default_rng(2), 40)
    return found


QUERIES: list[dict[str, Any]] = [
    {}, {"newest_first": True}, {"after": 7, "before": 90}, {"station": "b"}, {"kinds": ["verdict", "outcome"]},
    {"decision": "d000003"}, {"kinds": ["decision"], "newest_first": True, "limit": 9, "before": 60}, {"limit": 17},
    {"actor": "nobody"}, {"after": 3, "newest_first": True, "limit": 200},
]  # fmt: skip


def asked_all(ledger: Ledger) -> list[list[Any]]:
    return [list(ledger.read(**query)) for query in QUERIES]


def in_table(ledger: Ledger) -> list[int]:
    with ledger.reading() as connection:
        return [int(row[0]) for row in connection.execute(text("SELECT seq FROM events ORDER BY seq"))]


@pytest.mark.usefixtures("life")
def test_archived_events_are_read_like_the_rest(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    before, count, kinds = asked_all(ledger), ledger.head().seq, summary_of(ledger)
    history = [ledger.history(f"d{n:06d}") for n in range(1, 20)]
    made = archive_events(ledger, keep=30, size=25)
    assert [one.last for one in made] == list(range(25, count - 29, 25))
    assert in_table(ledger) == [1, *range(made[-1].last + 1, count + 1)]
    assert [ledger.history(f"d{n:06d}") for n in range(1, 20)] == history
    for page in (5000, 7):
        monkeypatch.setattr("kinband.service.ledger.store._PAGE", page)
        assert asked_all(ledger) == before
    assert ledger.verify() == count
    assert summary_of(ledger).kinds == kinds.kinds
    assert summary_of(ledger).events == kinds.events


def test_archived_decisions_replay_and_a_controller_goes_on(life: OnRecord, ledger: Ledger) -> None:
    archive_events(ledger, keep=10, size=20)
    assert replay(ledger, "d000003").same
    made = life.ask("a", {"load": 0.3})
    again = OnRecord(ledger)
    assert [again.controller.journal.reward(key) for key in life.controller.journal.asked] == [
        life.controller.journal.reward(key) for key in life.controller.journal.asked
    ]
    again.tell(made.id, 0.5)
    assert ledger.verify() == ledger.head().seq


def test_a_call_is_done_once_though_its_key_and_its_slot_are_archived(ledger: Ledger) -> None:
    life = OnRecord(ledger, new_controller(53))
    first = life.ask("a", {"load": 0.3}, slot="10:00", key="k")
    life.tell(first.id, 0.4, key="told")
    live(life, np.random.default_rng(2), 20)
    archive_events(ledger, keep=5, size=10)
    assert life.ask("a", {"load": 0.3}, slot="10:00", key="k").id == first.id
    assert life.ask("a", {"load": 0.3}, slot="10:00").id == first.id
    count = ledger.head().seq
    life.tell(first.id, 0.4, key="told")
    assert ledger.head().seq == count


@pytest.mark.usefixtures("life")
@pytest.mark.parametrize("step", ["whole_file", "_put", "_remove", "second slice"])
def test_a_crash_at_any_step_loses_nothing(
    ledger: Ledger, tmp_path: Path, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, calls = asked_all(ledger), 0

    class KilledError(BaseException):
        pass

    def killed(*given: Any) -> None:
        nonlocal calls
        calls += 1
        if step == "second slice" and calls == 1:
            monkeypatch.setattr(archiving_module, "_SLICE", 10)
            with ledger.connected(writes=True) as connection:
                connection.execute(text("DELETE FROM events WHERE seq IN (2, 3)")) if ledger.archived() else None
        if step not in ("_remove", "second slice") or ledger.archived():
            raise KilledError

    target = "_remove" if step == "second slice" else step
    with monkeypatch.context() as patched:
        patched.setattr(archiving_module, target, killed)
        with pytest.raises(KilledError):
            archive_events(ledger, keep=30, size=25)
    with closing(Ledger.open(tmp_path / "ledger.db")) as again:
        assert asked_all(again) == before
        assert again.verify() == len(before[0])
        archive_events(again, keep=30, size=25)
        assert asked_all(again) == before
        assert in_table(again)[:2] == [1, again.archived() + 1]


@pytest.mark.usefixtures("life")
def test_only_archived_events_can_be_deleted(ledger: Ledger) -> None:
    archive_events(ledger, keep=30, size=25)
    for statement in (
        "DELETE FROM events WHERE seq = 1",
        "DELETE FROM events WHERE seq > 60",
        "DELETE FROM segments",
        "UPDATE segments SET last = 90",
        "INSERT INTO segments VALUES (3, 99, 'x', 'x', 'x')",
    ):
        with pytest.raises(LedgerRefusedError, match="append-only"), ledger.connected(writes=True) as connection:
            connection.execute(text(statement))
    assert ledger.verify() == ledger.head().seq


@pytest.mark.usefixtures("life")
@pytest.mark.parametrize("at", [200, 0.5, -200])
def test_a_damaged_segment_is_named(ledger: Ledger, tmp_path: Path, at: float) -> None:
    [first, *_] = archive_events(ledger, keep=30, size=25)
    file = tmp_path / "ledger.db-archive" / first.name
    assert [one.stat().st_mode & 0o777 for one in (file.parent, file)] == [0o700, 0o600]
    data = bytearray(file.read_bytes())
    data[int(len(data) * at) if isinstance(at, float) else at] ^= 4
    file.write_bytes(data)
    with closing(Ledger.open(tmp_path / "ledger.db")) as again, pytest.raises(SavedStateError, match=first.name):
        again.verify()
    file.unlink()
    with pytest.raises(SavedStateError, match="restore that file from a backup"):
        ledger.verify()


@pytest.mark.usefixtures("life")
def test_a_backup_holds_the_archive_and_is_restored_with_it(ledger: Ledger, tmp_path: Path) -> None:
    before = asked_all(ledger)
    archive_events(ledger, keep=30, size=25)
    for name in ("one.db", "two.db"):
        assert back_up(ledger, tmp_path / name) == ledger.head()
    files = [sorted((tmp_path / f"{name}.db-archive").iterdir()) for name in ("one", "two")]
    assert [one.samefile(other) for one, other in zip(*files, strict=True)] == [True] * len(ledger.segments())
    with closing(Ledger.open(tmp_path / "two.db")) as copied:
        assert asked_all(copied) == before
        assert copied.verify() == len(before[0])
    assert not list(tmp_path.glob("*.part*"))


def test_what_cannot_be_archived_is_said(ledger: Ledger) -> None:
    ledger.append([Draft("applied", {})])
    assert archive_events(ledger, keep=1, size=1) == []
    with pytest.raises(BadInputError, match="keep must be"):
        archive_events(ledger, keep=0)


def test_a_disk_that_takes_no_more_of_the_write_ahead_log_is_told_and_nothing_is_lost(
    ledger: Ledger, caplog: pytest.LogCaptureFixture
) -> None:
    ledger.append([Draft("applied", {"why": "x" * 5000}) for _ in range(40)])
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (8192, hard))
    try:
        try_to_archive(ledger, keep=1000)
        with pytest.raises(LedgerUnavailableError, match="write-ahead log"):
            ledger.checkpoint()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert "could be archived" in caplog.text
    ledger.checkpoint()
    assert ledger.verify() == 40
