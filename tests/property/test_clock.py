"""Whatever clocks show, no change breaks a rail in true time; once they are right, changes and roll-backs go on.

Two machines share a ledger. Their clocks are stepped to and fro, they are restarted, and an admin sets the clock right
now and then. A referee notes when changes were made in true time, which none of the two can see.
"""

from contextlib import AbstractContextManager
from datetime import datetime, timedelta
from pathlib import Path
from random import Random

import pytest
from tests.support.operations_life import NOON, Wish, ask, rails, wishful

from kinband.guardrails import TOLERANCE
from kinband.service.ledger import Ledger
from kinband.service.ledger.store import Writer
from kinband.service.operations import DecisionRecord, Operations

RAILS = """
changes: {min_time: 30min, per_day: 9, neighbours_together: no, round: 20min}
neighbours: {a: [b]}
fallback: {drop: 0.1, slots: 2, watch: [own]}
"""
MIN_TIME, ROUND = timedelta(minutes=30), timedelta(minutes=20)
OFF = 2 * TOLERANCE
"""By how much two clocks may differ unseen."""


class Machines:
    """Two machines in a world where it is `seconds` later than noon."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger, self.seconds, self.skews = ledger, 0.0, [0.0, 0.0]
        self.hosts = [self._open(0, new=True), self._open(1)]

    def _open(self, host: int, *, new: bool = False) -> Operations:
        return Operations.open(
            self.ledger, wishful() if new else None, rails=rails(RAILS), rails_text=RAILS, mode="autonomous",
            policy=Wish.build, clock=lambda: self.true + timedelta(seconds=self.skews[host]),
            stopwatch=lambda: self.seconds,
        )  # fmt: skip

    @property
    def true(self) -> datetime:
        return NOON + timedelta(seconds=self.seconds)

    def look(self) -> None:
        """What monitoring does all the time."""
        for host in self.hosts:
            host.refresh()

    def restart(self, host: int) -> None:
        self.hosts[host] = self._open(host)

    def set_right(self, host: int) -> None:
        if self.skews[host] == 0 and self.hosts[host].reading().doubt:
            self.hosts[host].set_clock(why="looked at another one")


class Referee:
    """Judges changes by the time that it really is."""

    def __init__(self) -> None:
        self.made: dict[str, list[datetime]] = {"a": [], "b": [], "c": []}

    def see(self, record: DecisionRecord, at: datetime) -> None:
        if record.arm == record.running:
            return
        if record.status == "applied":
            assert all(at - then >= MIN_TIME - OFF for then in self.made[record.station])
            other = {"a": "b", "b": "a"}.get(record.station, "")
            assert all(at - then >= ROUND - OFF for then in self.made.get(other, []))
        self.made[record.station].append(at)


@pytest.mark.parametrize("seed", range(8))
def test_no_change_breaks_a_rail_in_true_time(tmp_path: Path, seed: int) -> None:
    rng, ledger, referee, doubts = Random(seed), Ledger.open(tmp_path / "ledger.db"), Referee(), 0
    world = Machines(ledger)
    for _ in range(60):
        world.seconds += rng.choice([1, 60, 300, 900, 900, 1800, 3600, 9000])
        world.look()
        host = rng.randrange(2)
        match rng.choice(["step", "right", "restart", "admin", *["ask"] * 6]):
            case "step":
                world.skews[host] = rng.choice([-1, 1]) * rng.choice([5, 600, 3600, 86_400, 1e7])
            case "right":
                world.skews[host] = 0
            case "restart" if world.skews[host] <= 0:
                world.restart(host)
            case "admin":
                world.set_right(host)
            case "ask":
                wishes = {station: rng.randrange(6) for station in rng.sample("abc", rng.randint(1, 3))}
                for record in ask(world.hosts[host], **wishes).values():
                    referee.see(record, world.true)
                doubts += bool(world.hosts[host].reading().doubt)
        world.look()
    assert doubts
    check_it_goes_on(world, referee)
    assert ledger.verify()
    ledger.close()


def check_it_goes_on(world: Machines, referee: Referee) -> None:
    """Once clocks are right and a person has said so, stations change, and changes that do harm are taken back."""
    world.skews = [0.0, 0.0]
    world.look()
    for host in (0, 1):
        world.set_right(host)
        world.look()
    assert not any(host.reading().doubt for host in world.hosts)
    runs = world.hosts[0].read_model.stations["c"].running
    assert runs is not None
    wish, outcomes = 5 - runs, []
    for slot in range(8):
        world.seconds += 86_400
        world.look()
        record = ask(world.hosts[slot % 2], c=runs if slot < 2 else wish)["c"]
        referee.see(record, world.true)
        outcomes.append(record.status)
        world.hosts[0].tell({record.id: 0.2 if record.arm == wish else 0.9})
    assert outcomes[2] == "applied"
    assert "rolled back" in outcomes


def test_who_is_paused_in_the_midst_of_a_turn_decides_at_the_time_at_which_it_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = Ledger.open(tmp_path / "ledger.db")
    world, writing = Machines(ledger), ledger.writing

    def after_a_pause() -> AbstractContextManager[Writer]:
        monkeypatch.setattr(ledger, "writing", writing)
        world.seconds += 600
        world.hosts[1].refresh()
        return writing()

    ask(world.hosts[0], c=1)
    world.seconds += 3600
    monkeypatch.setattr(ledger, "writing", after_a_pause)
    record = ask(world.hosts[0], c=2)["c"]
    assert (record.status, record.at) == ("applied", world.true)
    world.seconds += MIN_TIME.total_seconds() - 300
    assert ask(world.hosts[1], c=3)["c"].status == "refused"  # by the pause it was long enough ago
    world.seconds += 300
    assert ask(world.hosts[1], c=3)["c"].status == "applied"  # nobody takes the pause for a wrong clock
    assert ledger.verify()
    ledger.close()
