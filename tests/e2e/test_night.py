"""A night on the simulator: approved by day, ordered when the window opens, made or not by a network manager.

Two people and a manager that fails some orders call the service over HTTP; the hours pass by a clock of the test. What
stations really run and earn is kept here, in books of our own, and what the service learned has to agree with them.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from anyio.from_thread import start_blocking_portal
from tests.support.http_service import AsgiTransport, Clock

from kinband import Controller
from kinband.cli.serve_demo import DemoNetwork
from kinband.guardrails import rails_from_text
from kinband.service.access import Limiter, Tokens
from kinband.service.api import Limits, create_app
from kinband.service.client import KinbandClient, ServiceError
from kinband.service.ledger import Ledger
from kinband.service.operations import Operations

RAILS = """\
maintenance:
  - {from: "00:00", to: "05:00"}
zone: UTC
changes: {per_round: 4, round: 30min}
"""
EVENING, MORNING = datetime(2026, 11, 20, 15, tzinfo=UTC), datetime(2026, 11, 21, 7, tzinfo=UTC)


@dataclass
class Night:
    """The service, who calls it, and what stations really run.

    Attributes:
        runs: Arm by station, as the network has it.
        learned: What was earned by whom with what, in the order of telling.
        failed: Stations at which nothing can be changed.
    """

    network: DemoNetwork
    operations: Operations
    clock: Clock
    people: dict[str, KinbandClient]
    runs: dict[str, int]
    learned: list[tuple[str, int, float]] = field(default_factory=list)
    failed: set[str] = field(default_factory=set)

    def hour(self) -> None:
        """Let an hour pass: states come, decisions are asked for, orders are made or fail, rewards are told."""
        states = self.network.begin(self.clock.now.hour)
        asked = self.people["nms"].ask(states, slot=self.clock.now.isoformat())
        self.clock.forward(minutes=20)
        self.carry_out()
        self.clock.forward(minutes=40)
        rewards: dict[str, float] = {}
        for made in asked:
            arm = self.runs[made.station]
            rewards[made.id] = self.network.earned(made.station, arm)
            self.learned.append((made.station, arm, rewards[made.id]))
        self.people["nms"].tell(rewards)

    def carry_out(self) -> None:
        """Make what is ordered, as a network manager does; some cells are locked."""
        manager = self.people["nms"]
        for order in manager.orders():
            if order.status != "ordered" or order.held is not None:
                continue
            assert order.proposed is not None
            if order.station in self.failed:
                manager.fail(order.id, "the cell is locked")
            else:
                self.runs[order.station] = self.network.space.index(order.proposed)
                manager.confirm(order.id)


@contextmanager
def night(folder: Path, *, stations: int, seed: int) -> Iterator[Night]:
    network, clock = DemoNetwork(stations, seed=seed), Clock(EVENING)
    made = Controller.from_trace(
        network.log, network.space, engine="sparse", inducing_points=192, beta=1.0, reward_range=(0.0, 1.0), safety=(),
        running=network.today, descriptors=network.descriptors, seed=seed,
    )  # fmt: skip
    ledger = Ledger.open(folder / "ledger.db", clock=clock)
    rails = rails_from_text(RAILS, network.space, stations=network.stations)
    operations = Operations.open(
        ledger, made, rails=rails, rails_text=RAILS, mode="assist", manner="confirmed", clock=clock
    )
    real = Ledger.open(folder / "ledger.db")
    tokens, free = Tokens(real), Limiter(rate=1e6, burst=1e6)
    app = create_app(operations, tokens=tokens, limits=Limits(free, free))
    names = {"ada": "operator", "bo": "operator", "nms": "operator"}
    with start_blocking_portal() as portal:
        transport = AsgiTransport(app, portal)
        people = {
            name: KinbandClient("http://kinband.test", tokens.create(name, role).token, transport=transport)
            for name, role in names.items()
        }
        today = network.space.index(network.today)
        yield Night(network, operations, clock, people, dict.fromkeys(network.stations, today))
    real.close()
    ledger.close()


def statuses(played: Night, ids: list[str]) -> dict[str, str]:
    return {key: played.operations.decision(key).status for key in ids}


def test_a_night_with_two_people_and_a_manager_that_fails_some_orders(tmp_path: Path) -> None:
    with night(tmp_path, stations=9, seed=2) as played:
        ada, bo = played.people["ada"], played.people["bo"]
        today = dict(played.runs)
        while played.clock.now.hour < 18:
            played.hour()
        states = played.network.begin(18)
        played.people["nms"].ask(states, slot=played.clock.now.isoformat())
        played.clock.forward(minutes=32)
        waiting = [one for one in ada.plan() if one.status == "waiting"]
        assert len(waiting) >= 6
        assert all(one.verdict is not None and one.verdict.due == datetime(2026, 11, 21, tzinfo=UTC) for one in waiting)
        assert all(one.expected.gain is not None and one.support is not None for one in waiting)

        # Both approve and reject the same: one is first, the other is told, and nothing of theirs is half done.
        mine = [one.id for one in waiting[:6]]
        assert {one.status for one in ada.approve(mine, comment="quiet night")} == {"approved"}
        with pytest.raises(ServiceError, match="does not wait for anybody: it is approved") as late:
            bo.reject([waiting[6].id if len(waiting) > 6 else mine[1], mine[0]], comment="match tomorrow")
        assert late.value.status == 409
        assert all(status == "approved" for status in statuses(played, mine).values())
        bo.withdraw([mine[5]], comment="match tomorrow")
        assert played.operations.decision(mine[5]).status == "waiting"
        approved = mine[:5]
        played.failed = {played.operations.decision(key).station for key in approved[1::3]}

        # Until midnight nothing changes, however often is asked.
        played.clock.forward(minutes=28)
        while played.clock.now.day == 20:
            played.hour()
            assert played.runs == today
            assert all(status == "approved" for status in statuses(played, approved).values())

        # The window: four a round, so that the fifth is ordered in a later one. Two cells are locked.
        while played.clock.now < MORNING:
            played.hour()
        came_to = statuses(played, approved)
        records = {key: played.operations.decision(key) for key in approved}
        for key, record in records.items():
            assert came_to[key] == ("failed" if record.station in played.failed else "applied"), record
            assert [step.status for step in record.steps] == ["waiting", "approved", "ordered", came_to[key]]
            assert [step.actor for step in record.steps][1::2] == ["ada", "nms"]
            assert played.runs[record.station] == (
                today[record.station] if record.station in played.failed else record.wanted
            )
        ordered = sorted(next(step.at for step in one.steps if step.status == "ordered") for one in records.values())
        assert ordered[0] >= datetime(2026, 11, 21, tzinfo=UTC)
        assert ordered[3] < ordered[4]
        assert list(came_to.values()).count("failed") == 2
        assert ada.orders() == []
        check_what_was_learned(played)
        check_what_a_restart_shows(played, tmp_path)


def check_what_was_learned(played: Night) -> None:
    """Every reward was learned for what the station really ran, and the service knows what that is."""
    with played.operations.looking() as read_model:
        assert {name: state.running for name, state in read_model.stations.items()} == played.runs
    begun = len(played.network.log)
    stations = played.operations.controller.stations
    rows = [(stations[o.task], o.arm, o.reward) for o in played.operations.controller.observations()][begun:]
    assert sorted(rows) == sorted(played.learned)


def check_what_a_restart_shows(played: Night, folder: Path) -> None:
    """Whoever reads the ledger from its start sees the same."""
    with played.operations.looking() as read_model:
        known: dict[str, Any] = {key: (one.status, one.steps, one.gain) for key, one in read_model.decisions.items()}
    ledger = Ledger.open(folder / "ledger.db", clock=played.clock)
    again = Operations.open(ledger, clock=played.clock)
    with again.looking() as read_model:
        assert {key: (one.status, one.steps, one.gain) for key, one in read_model.decisions.items()} == known
    ledger.close()


def test_what_is_stopped_in_the_night_is_not_made(tmp_path: Path) -> None:
    with night(tmp_path, stations=6, seed=3) as played:
        while played.clock.now.hour < 18:
            played.hour()
        played.people["nms"].ask(played.network.begin(18), slot=played.clock.now.isoformat())
        waiting = [one.id for one in played.people["ada"].plan() if one.status == "waiting"]
        assert waiting
        played.people["ada"].approve(waiting)
        today = dict(played.runs)
        played.clock.now = datetime(2026, 11, 20, 23, 50, tzinfo=UTC)
        played.people["bo"].stop("outage in the core")
        played.clock.forward(minutes=30)
        played.carry_out()
        assert played.runs == today
        assert set(statuses(played, waiting).values()) == {"approved"}
        played.clock.now = MORNING - timedelta(hours=1)
        played.carry_out()
        assert set(statuses(played, waiting).values()) == {"expired"}
        assert played.runs == today
