"""What the read model keeps at hand for screens, against looking through everything that is on record."""

from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest
from tests.support.operations_life import STATIONS, Clock, begin, want

from kinband.records import Alternative, Alternatives, Decision, alternative_of
from kinband.service.ledger import Ledger
from kinband.service.operations import Operations
from kinband.service.operations.read_model import KEPT_CHANGES, KEPT_RECENT

RAILS = "changes:\n  min_time: 4h\n  per_day: 3\n"


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with closing(Ledger.open(tmp_path / "ledger.db")) as opened:
        yield opened


def live(operations: Operations, clock: Clock, rng: np.random.Generator, slots: int) -> None:
    """Let stations decide, earn late, be corrected, called off, approved and frozen, in no particular order."""
    awaited, told = list[str](), list[str]()
    for _ in range(slots):
        some = rng.permutation(STATIONS)[: rng.integers(1, 4)]
        made = operations.ask({str(station): want(int(rng.integers(6))) for station in some})
        awaited += [record.id for record in made]
        waiting = [record.id for record in made if record.status == "waiting"]
        if waiting and rng.random() < 0.6:
            operations.approve(waiting[:1], actor="anna")
        clock.pass_(hours=int(rng.integers(1, 7)))
        for key in rng.permutation(awaited)[: rng.integers(0, 5)]:
            awaited.remove(str(key))
            if rng.random() < 0.1:
                operations.call_off(str(key))
            else:
                operations.tell({str(key): float(rng.uniform(0.2, 1.7))})
                told.append(str(key))
        if told and rng.random() < 0.2:
            operations.correct(str(rng.choice(told)), float(rng.uniform(0.2, 1.7)))


def check_against_the_record(operations: Operations) -> None:
    with operations.looking() as read_model:
        records = list(read_model.decisions.values())
        for station in read_model.stations:
            earned = [record.reward for record in records if record.station == station and record.reward is not None]
            for slots in (1, 3, KEPT_RECENT, KEPT_RECENT + 7):
                last = earned[-slots:]
                expected = sum(last) / len(last) if last else None
                assert read_model.recent(station, slots) == pytest.approx(expected)
            applied = list(operations.ledger.read(kinds=["applied"], station=station))[-KEPT_CHANGES:]
            said = [(e.payload["arm"], e.payload["before"], e.payload["by"], e.actor) for e in applied]
            assert [(c.arm, c.before, c.by, c.actor) for c in read_model.changes(station)] == said
        first = min(record.at for record in records).date()
        for day in (first + timedelta(days=n) for n in range(-1, 40)):
            refused = [record for record in records if record.status == "refused" and record.at.date() == day]
            assert read_model.refused(day) == len(refused)


@pytest.mark.parametrize("mode", ["autonomous", "assist", "shadow"])
def test_what_is_kept_at_hand_is_what_looking_through_the_record_gives(ledger: Ledger, mode: str) -> None:
    clock, rng = Clock(), np.random.default_rng([len(mode), 8])
    operations = begin(ledger, text=RAILS, mode=mode, clock=clock)
    for _ in range(4):
        live(operations, clock, rng, slots=20)
        check_against_the_record(operations)
    if mode != "shadow":
        assert any(record.status == "refused" for record in operations.read_model.decisions.values())
        assert any(operations.read_model.changes(station) for station in STATIONS)
    check_against_the_record(begin(ledger, text=RAILS, mode=mode, clock=clock))


@pytest.mark.parametrize("packed", [True, False])
def test_the_scores_of_one_arm_are_those_among_all(packed: bool) -> None:
    rng = np.random.default_rng(6)
    names = [{"tilt": 3 * arm} for arm in range(9)]
    known = [
        Alternative(int(arm), names[int(arm)], *map(perhaps, rng.normal(size=3))) for arm in rng.permutation(9)[:6]
    ]
    rows = [(one.arm, one.mean, one.std, one.ucb) for one in known]
    others = Alternatives(rows, names) if packed else tuple(known)
    decision = Decision("d7", "a", known[0].arm, None, 0.4, 0.2, 0.6, others)
    for arm in range(9):
        assert alternative_of(decision, arm) == next((one for one in known if one.arm == arm), None)
    assert list(others) == known


def perhaps(value: float) -> float | None:
    """A score that not every policy has."""
    return None if value < -0.5 else float(value)
