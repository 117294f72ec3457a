"""Whatever clocks show, no change breaks a rail in true time; once they are right, changes and roll-backs go on.

Two machines share a ledger. Their clocks are stepped to and fro, they are restarted, and an admin sets the clock right
now and then. A referee notes when changes were made in true time, which none of the two can see.
"""

from contextlib import AbstractContextManager
from datetime import datetime, timedelta
from itertools import cycle
from pathlib import Path
from random import Random

import pytest
from tests.support.operations_life import NOON, Wish, ask, rails, wishful

from kinband.guardrails import TOLERANCE
from kinband.service.ledger import Ledger
from kinband.service.ledger.store import Writer
from kinband.service.operations import DecisionRecord, Operations
from kinband.service.operations.clock import Timekeeper

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

    def __init__(self, ledger: Ledger, text: str = RAILS, *, witnessed: bool = False) -> None:
        self.ledger, self.seconds, self.skews, self.text = ledger, 0.0, [0.0, 0.0], text
        if witnessed:  # as by PostgreSQL
            ledger.server_time = lambda: self.true  # type: ignore[method-assign]
        self.hosts = [self._open(0, new=True), self._open(1)]

    def _open(self, host: int, *, new: bool = False) -> Operations:
        return Operations.open(
            self.ledger, wishful() if new else None, rails=rails(self.text), rails_text=self.text, mode="autonomous",
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


OFTEN = "changes: {min_time: 150s}"


@pytest.mark.parametrize("witnessed", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_no_change_comes_too_early_whatever_two_clocks_show(tmp_path: Path, seed: int, witnessed: bool) -> None:
    """As two hosts of the soak: within what is tolerated or one far behind, killed at that, slow, then put right."""
    rng, ledger, made, changes = Random(seed), Ledger.open(tmp_path / "ledger.db"), {"c": NOON - MIN_TIME}, 0
    world, writing = Machines(ledger, OFTEN, witnessed=witnessed), ledger.writing

    def slowly() -> AbstractContextManager[Writer]:
        world.seconds += rng.choice([0, 0, 1, 5, 28])
        return writing()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ledger, "writing", slowly)
        for _ in range(20):
            world.skews = [rng.uniform(-25, 25), rng.uniform(-25, 25)]
            if rng.random() < 0.4:
                world.skews[1] = -rng.choice([90, 600, 7200, 200_000])
            for step in range(12):
                world.seconds += rng.choice([1, 5, 20, 60, 90])
                if step == 4 and (witnessed or abs(world.skews[1]) <= 25):
                    world.restart(rng.randrange(2))
                if step == 9:
                    world.skews = [0.0, 0.0]
                    for number in (0, 1):
                        world.hosts[number].refresh()
                        world.set_right(number)
                host = rng.randrange(2)
                if rng.random() < 0.7:
                    world.hosts[host].refresh()
                record = ask(world.hosts[host], c=rng.randrange(6))["c"]
                if record.status == "applied" and record.arm != record.running:
                    assert (world.true - made["c"]).total_seconds() >= 150 - TOLERANCE.total_seconds()
                    made["c"], changes = world.true, changes + 1
    assert changes > 40
    ledger.close()


def test_a_clock_that_goes_back_while_nothing_is_recorded_does_not_open_the_gap(tmp_path: Path) -> None:
    """It shows a time after the latest event, so that the record alone would believe it."""
    ledger = Ledger.open(tmp_path / "ledger.db")
    world = Machines(ledger)
    for back in (90, 1500):  # less than half an hour
        assert ask(world.hosts[1], c=1)["c"].status != "refused"
        world.seconds += 86_400
        world.look()
        world.skews[1] = -back
        record = ask(world.hosts[1], c=2)["c"]
        assert record.status == "refused"
        assert abs(record.at - world.true) < timedelta(seconds=9)
        assert "the clock shows" in world.hosts[1].reading().doubt
        world.skews[1] = 0
        world.seconds += 60
        assert ask(world.hosts[1], c=2)["c"].status == "applied"  # it came back into its bounds by itself
        world.seconds += MIN_TIME.total_seconds() - 60
        world.restart(0)
        assert ask(world.hosts[0], c=1)["c"].status == "refused"
        world.seconds += 60
        assert ask(world.hosts[0], c=1)["c"].status == "applied"
        world.seconds += 86_400
    ledger.close()


def test_two_clocks_that_differ_reckon_with_one_time(tmp_path: Path) -> None:
    """One is behind and makes a change, the other, ahead, makes the next: not sooner by both."""
    ledger = Ledger.open(tmp_path / "ledger.db")
    world = Machines(ledger)
    world.skews = [25.0, -25.0]
    wishes = cycle([1, 2, 3, 4])
    for before, after in ((1, 0), (0, 1), (1, 0), (0, 1)):
        assert ask(world.hosts[before], c=next(wishes))["c"].status == "applied"
        world.seconds += MIN_TIME.total_seconds() - 5
        world.look()
        wish = next(wishes)
        assert ask(world.hosts[after], c=wish)["c"].status == "refused"
        world.seconds += 10
        assert ask(world.hosts[after], c=wish)["c"].status == "applied"
        world.seconds += 3600
        world.look()
    ledger.close()


def test_a_clock_that_is_behind_at_start_is_found_out_by_that_of_the_server(tmp_path: Path) -> None:
    ledger = Ledger.open(tmp_path / "ledger.db")
    world = Machines(ledger, witnessed=True)
    ask(world.hosts[0], c=1)
    world.seconds += 86_400
    world.skews[1] = -90.0
    world.restart(1)
    assert "by the time that has passed" in world.hosts[1].reading().doubt
    assert ask(world.hosts[1], c=2)["c"].status == "refused"
    world.skews[1] = 25.0
    world.restart(1)
    assert not world.hosts[1].reading().doubt
    assert ask(world.hosts[1], c=2)["c"].status == "applied"
    assert world.hosts[1].now() == world.true  # within the bounds, and never ahead of the server's
    ledger.close()


@pytest.mark.parametrize("drift", [-5e-5, 5e-5])
def test_a_stopwatch_may_drift_for_a_year(drift: float) -> None:
    """Quartz that goes 50 parts in a million wrong, beside a clock that NTP steps right."""
    shown, counted, last = [NOON], [0.0], NOON
    keeper = Timekeeper(lambda: shown[0], lambda: counted[0])
    keeper.look((0, last))
    for _ in range(365 * 4):
        shown[0], counted[0] = shown[0] + timedelta(hours=6), counted[0] + 6 * 3600 * (1 + drift)
        reading = keeper.take((0, last))
        assert not reading.doubt
        last = reading.now
    assert abs(last - shown[0]) < timedelta(seconds=5)


def test_a_start_that_takes_long_does_not_put_the_clock_in_doubt() -> None:
    shown, counted = [NOON], [0.0]
    keeper = Timekeeper(lambda: shown[0], lambda: counted[0], witness=lambda: shown[0])
    shown[0], counted[0] = NOON + timedelta(minutes=5), 300.0  # in which the ledger was read
    keeper.look((0, NOON - timedelta(days=1)), at=0.0)
    assert keeper.read((0, NOON - timedelta(days=1))).now == shown[0]
    another = NOON + timedelta(minutes=4)  # what another recorded meanwhile
    assert keeper.take((0, another)) == keeper.read((0, another))
    assert abs(keeper.read((0, another)).now - shown[0]) < timedelta(seconds=1)
