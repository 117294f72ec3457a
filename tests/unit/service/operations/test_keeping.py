"""What is not kept in memory is looked up in the ledger, and is what it was."""

from pathlib import Path

import numpy as np
import pytest
from tests.support.ledger_stores import OnRecord, live, new_controller
from tests.support.operations_life import whole

from kinband.controller import memory
from kinband.kpis import NeighbourReward
from kinband.service.ledger import Ledger
from kinband.service.operations import keeping, read_model

NEIGHBOURS = NeighbourReward({"a": ["b"], "b": ["c"]}, weight=0.5)


def lived(file: Path, seed: int) -> OnRecord:
    life = OnRecord(Ledger.open(file), new_controller(seed, neighbours=NEIGHBOURS), snapshot_every=10_000)
    live(life, np.random.default_rng(seed), 60)
    return life


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
