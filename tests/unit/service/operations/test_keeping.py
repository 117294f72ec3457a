"""What is not kept in memory is looked up in the ledger, and is what it was."""

import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.support.ledger_stores import OnRecord, live, new_controller
from tests.support.operations_life import whole

from kinband.controller import memory
from kinband.kpis import NeighbourReward
from kinband.service.ledger import Ledger
from kinband.service.ledger.archiving import archive_events
from kinband.service.operations import Operations, keeping, read_model

NEIGHBOURS = NeighbourReward({"a": ["b"], "b": ["c"]}, weight=0.5)


def lived(file: Path, seed: int) -> OnRecord:
    life = OnRecord(Ledger.open(file), new_controller(seed, neighbours=NEIGHBOURS), snapshot_every=10_000)
    live(life, np.random.default_rng(seed), 60)
    return life


def records(operations: Operations, ids: list[str]) -> list[Any]:
    return operations._standing.records(ids)


def test_a_snapshot_of_a_ledger_in_which_nothing_was_decided_is_taken_up(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert OnRecord(Ledger.open(tmp_path / "ledger.db"), new_controller(1)).operations.turns.snapshot()
    again = OnRecord(Ledger.open(tmp_path / "ledger.db"))
    assert "shows nothing" not in caplog.text
    assert again.operations.read_model.seq == again.operations.ledger.head().seq


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_who_keeps_next_to_nothing_shows_and_decides_the_same(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = lived(tmp_path / "plain.db", seed)
    monkeypatch.setattr(keeping, "AT_HAND", 2)
    monkeypatch.setattr(memory, "_AT_HAND", 2)
    monkeypatch.setattr(read_model, "_TRIMMED", 1)
    small = lived(tmp_path / "small.db", seed)
    assert small.operations.turns.snapshot()
    again = OnRecord(Ledger.open(tmp_path / "small.db"))
    told = plain.controller.journal.told
    for life in (small, again):
        shown, wanted = whole(life.operations), whole(plain.operations)
        for name in ("items", "latest"):
            assert len(shown[name]) == len(wanted[name])
        for name in ("order", "counts", "gains", "recent", "pending", "mode", "worst"):
            assert shown[name] == wanted[name], name
        items = [[(i.id, i.status, i.arm, i.reward, i.baseline, i.called_off) for i in some["items"].values()]
                 for some in (shown, wanted)]  # fmt: skip
        assert items[0] == items[1]
        assert dict(life.controller.journal.told) == dict(told)
        assert life.controller.pending == plain.controller.pending
        assert len(list(life.controller.journal)) == len(life.controller.journal) == len(plain.controller.journal)
    live(plain, np.random.default_rng(9), 15)
    live(again, np.random.default_rng(9), 15)
    assert dict(again.controller.journal.told) == dict(plain.controller.journal.told)


@pytest.mark.parametrize("archived", [False, True])
def test_an_export_reads_old_decisions_together_as_they_are_looked_up_singly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, archived: bool
) -> None:
    plain = lived(tmp_path / "plain.db", 1).operations
    monkeypatch.setattr(keeping, "AT_HAND", 2)
    monkeypatch.setattr(memory, "_AT_HAND", 2)
    monkeypatch.setattr(read_model, "_TRIMMED", 1)
    small = lived(tmp_path / "small.db", 1).operations
    if archived:
        assert small.turns.snapshot()
        archive_events(small.ledger, keep=30, size=40)
        assert small.ledger.archived() > 40
    ids, reads, real = list(small.read_model.decisions), list[int](), small.ledger.histories

    def counted(ids: Sequence[str], **further: Any) -> Any:
        reads.append(len(ids))
        return real(ids, **further)

    monkeypatch.setattr(small.ledger, "histories", counted)
    found = list(small.read_model.in_order(ids))
    assert (len(reads), reads[0] > len(ids) - 6) == (1, True)
    assert found == [small.read_model.decisions[key] for key in ids]
    said = [[(i.id, i.status, i.arm, i.reward, i.called_off) for i in some]
            for some in (found, plain.read_model.decisions.values())]  # fmt: skip
    assert said[0] == said[1]


def test_what_is_recorded_while_an_export_goes_on_is_in_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keeping, "AT_HAND", 2)
    monkeypatch.setattr(read_model, "_TRIMMED", 1)
    monkeypatch.setattr(read_model, "_SHORT", 1)
    life = OnRecord(Ledger.open(tmp_path / "ledger.db"), new_controller(2))
    ids = [life.ask("abc"[n % 3], {"load": 0.1}).id for n in range(12)]
    export = life.operations.read_model.in_order(ids)
    assert next(export).reward is None
    life.tell(ids[1], 0.25)
    assert next(export).reward == 0.25
    assert [one.id for one in export] == ids[2:]


@pytest.mark.parametrize(
    "look",
    [
        lambda operations, ids: records(operations, ids),
        lambda operations, ids: operations.read_model.latest(limit=len(ids)),
        lambda operations, _: operations.read_model.latest(status="applied"),
        lambda operations, _: operations.read_model.latest(station="a", limit=100),
        lambda operations, _: operations.read_model.points("a"),
    ],
)
def test_old_decisions_are_read_together_and_nobody_waits_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, look: Callable[[Operations, list[str]], list[Any]]
) -> None:
    monkeypatch.setattr(keeping, "AT_HAND", 2)
    monkeypatch.setattr(memory, "_AT_HAND", 2)
    monkeypatch.setattr(read_model, "_TRIMMED", 1)
    life = lived(tmp_path / "ledger.db", 1)
    ids = list(life.operations.read_model.decisions)
    wanted = [life.operations.read_model.decisions[key] for key in ids]
    assert life.operations.turns.snapshot()
    again = Operations.open(Ledger.open(tmp_path / "ledger.db"))
    reads, real = list[int](), again.ledger.histories

    def counted(ids: Sequence[str], **further: Any) -> Any:
        if not reads:  # what comes meanwhile is read while others wait: that is little
            stopping = threading.Thread(target=again.stop)
            stopping.start()
            stopping.join(10)
            assert again.read_model.stopped
        reads.append(len(ids))
        return real(ids, **further)

    monkeypatch.setattr(again.ledger, "histories", counted)
    found = look(again, ids)
    assert reads[0] > 5
    assert len(reads) == 2
    monkeypatch.setattr(again.ledger, "histories", real)
    assert found == look(life.operations, ids)
    assert records(again, ids) == wanted
