"""The parts of `kinband serve --demo`: the network, its manager, the clock, and what it starts with."""

import math
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from kinband.cli.serve_demo import SLOT, DemoClock, DemoNetwork, Manager, demo_rails, mode_of
from kinband.environments.radio.city import draw_layout
from kinband.errors import BadInputError
from kinband.guardrails import rails_from_text
from kinband.service.client import KinbandClient, ServiceError

START = datetime(2026, 3, 4, 12, tzinfo=UTC)


@pytest.fixture(scope="module")
def network() -> DemoNetwork:
    return DemoNetwork(7, seed=3)


def test_sectors_look_where_the_layout_lets_them_look(network: DemoNetwork) -> None:
    layout = draw_layout(105, seed=0)
    for number, name in enumerate(layout.names[:7]):
        known = network.descriptors[name]
        assert [known["x_m"], known["y_m"]] == pytest.approx(layout.sites[layout.site[number]].tolist(), abs=0.01)
        north, compass = math.radians(float(layout.azimuth_deg[number])), math.radians(float(known["azimuth_deg"]))
        direction = [math.cos(north), math.sin(north)]  # anticlockwise from east, as the simulator counts
        assert [math.sin(compass), math.cos(compass)] == pytest.approx(direction, abs=0.002)


def test_trouble_begins_with_the_next_slot_and_passes() -> None:
    quiet, troubled = (DemoNetwork(6, seed=5) for _ in range(2))
    name = quiet.stations[2]
    earned: list[tuple[float, float]] = []
    for slot in range(5):
        for one in (quiet, troubled):
            one.begin(18)
        if slot == 1:
            troubled.trouble(name, 2)
        earned.append((quiet.earned(name, 12), troubled.earned(name, 12)))
    assert [bool(with_trouble < without - 0.1) for without, with_trouble in earned] == [False, False, True, True, False]


def test_a_network_of_another_size_is_refused() -> None:
    with pytest.raises(BadInputError, match="6 to 105 stations, got 5"):
        DemoNetwork(5)


@pytest.mark.parametrize("stations", [6, 7, 31])
def test_the_rails_are_good_and_every_mode_occurs(stations: int) -> None:
    network = DemoNetwork(stations, seed=1)
    rails = rails_from_text(demo_rails(network), network.space, stations=network.stations)
    assert rails.fallback is not None
    assert rails.freeze[0].station in network.stations
    assert {mode_of(number) for number in range(stations)} == {"shadow", "assist", "autonomous"}


def test_the_clock_stays_in_its_slot_until_it_is_moved_on() -> None:
    passed = [0.0]
    clock = DemoClock(START, seconds=4.0, tick=lambda: passed[0])
    passed[0] = 1.0
    assert clock() == START + SLOT / 4
    passed[0] = 99.0
    assert START + SLOT - timedelta(seconds=2) < clock() < START + SLOT
    clock.advance()
    assert clock() == clock.slot == START + SLOT


class StubClient(KinbandClient):
    """A service whose decisions wait or not, and which notes what it is told."""

    def __init__(self, network: DemoNetwork, waits: str) -> None:
        self._network, self._waits = network, waits
        self.made: dict[str, Any] = {}
        self.asked: list[set[str]] = []
        self.told: dict[str, float] = {}
        self.off: list[str] = []
        self.corrected: list[str] = []
        self.conflict = ""
        self.ordered: list[Any] = []
        self.confirmed: list[str] = []
        self.failed: dict[str, str] = {}

    def stations(self) -> list[Any]:
        return [SimpleNamespace(station=name, active=True) for name in self._network.stations]

    def ask(
        self, states: Mapping[str, Mapping[str, float]] | None = None, *, slot: str | None = None, **_: Any
    ) -> list[Any]:
        states = states or {}
        self.asked.append(set(states))
        found = [self.decide(f"{name}@{slot}", name, 12, waits=name == self._waits) for name in states]
        self.made |= {one.id: one for one in found}
        return found

    def decide(self, key: str, station: str, arm: int, *, waits: bool = False) -> Any:
        run, status = self._network.space[arm], "waiting" if waits else "applied"
        return SimpleNamespace(id=key, station=station, run=run, before=run, status=status, open=True)

    def decisions(self, **_: Any) -> Iterator[Any]:
        return iter(list(self.made.values())[::-1])

    def tell(self, rewards: Mapping[str, float] | None = None, **_: Any) -> list[Any]:
        rewards = rewards or {}
        if any(key.startswith(self.conflict) for key in rewards) and self.conflict:
            raise ServiceError(409, "somebody was quicker")
        assert not self.told.keys() & rewards.keys()
        self.told |= rewards
        return []

    def correct(self, decision: str, reward: float | None = None, **_: Any) -> Any:
        assert self.told[decision] != reward
        self.corrected.append(decision)

    def call_off(self, decision: str, **_: Any) -> Any:
        self.off.append(decision)

    def orders(self) -> list[Any]:
        return self.ordered

    def confirm(self, decision: str, **_: Any) -> Any:
        self.confirmed.append(decision)

    def fail(self, decision: str, why: str = "", **_: Any) -> Any:
        self.failed[decision] = why


def played(network: DemoNetwork, client: StubClient, slots: int, *, patience: int) -> Manager:
    manager = Manager(network, client, DemoClock(START, seconds=1.0), patience=patience, seed=2)
    for _ in range(slots):
        manager.open_slot()
        manager.close_slot()
    return manager


def test_a_station_that_waits_for_a_person_is_not_asked_until_patience_ends(network: DemoNetwork) -> None:
    name = network.stations[0]
    client = StubClient(network, waits=name)
    played(network, client, 9, patience=3)
    assert [name in asked for asked in client.asked] == [True, False, False, False] * 2 + [True]
    assert all(set(network.stations) - {name} <= asked for asked in client.asked)


def test_what_a_person_approves_is_what_earns_the_reward(network: DemoNetwork) -> None:
    name = network.stations[0]
    client = StubClient(network, waits=name)
    manager = played(network, client, 1, patience=50)
    [key] = [key for key, seen in client.made.items() if seen.station == name]
    assert key not in client.told
    client.made[key] = client.decide(key, name, 28)  # approved meanwhile
    paid: list[int] = []
    earn = network.earned
    network.earned = lambda station, arm: paid.append(arm) or earn(station, arm)  # type: ignore[method-assign,func-returns-value]
    try:
        manager.open_slot()
        manager.close_slot()
    finally:
        del network.earned
    assert 28 in paid


def test_every_decision_is_told_once_late_or_called_off_and_some_are_put_right(network: DemoNetwork) -> None:
    client = StubClient(network, waits="")
    manager = played(network, client, 60, patience=3)
    late = {key for _, key, _ in manager._late}
    assert set(client.made) == set(client.told) | set(client.off) | late
    assert not set(client.told) & set(client.off)
    assert client.off
    assert len(client.corrected) == 3
    assert np.isfinite(list(client.told.values())).all()


def test_a_reward_that_a_person_has_settled_does_not_keep_the_others_from_being_told(network: DemoNetwork) -> None:
    client = StubClient(network, waits="")
    client.conflict = f"{network.stations[1]}@"
    played(network, client, 4, patience=3)
    assert {key.partition("@")[0] for key in client.told} == set(network.stations) - {network.stations[1]}


def test_the_manager_carries_out_what_is_ordered_and_says_why_where_it_could_not(network: DemoNetwork) -> None:
    ordered = [SimpleNamespace(id=f"o{i}", status="ordered", held=None) for i in range(60)]
    ordered += [
        SimpleNamespace(id="later", status="approved", held=None),
        SimpleNamespace(id="held", status="ordered", held=SimpleNamespace(code="stop")),
    ]
    for confirms in (False, True):
        client = StubClient(network, waits="")
        client.ordered = ordered
        manager = Manager(network, client, DemoClock(START, seconds=1.0), patience=3, seed=2, confirms=confirms)
        manager.open_slot()
        manager.close_slot()
        assert bool(client.confirmed) is confirms
    assert sorted([*client.confirmed, *client.failed]) == sorted(f"o{i}" for i in range(60))
    assert 0 < len(client.failed) < 20
    assert all(client.failed.values())


def test_rails_with_a_window_are_good_and_those_without_are_as_they_were(network: DemoNetwork) -> None:
    found = rails_from_text(demo_rails(network, window=True), network.space, stations=network.stations)
    assert found.maintenance
    assert "maintenance" not in demo_rails(network)
