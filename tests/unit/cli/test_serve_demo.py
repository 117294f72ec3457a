"""The parts of `kinband serve --demo`: the network, its manager, the clock, and what it starts with."""

import math
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from kinband.cli.serve_demo import SLOT, DemoClock, DemoNetwork, Manager, Seen, demo_rails, mode_of
from kinband.environments.radio.city import draw_layout
from kinband.errors import BadInputError, ConflictError
from kinband.guardrails import rails_from_text

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


class StubDesk:
    """A desk whose decisions wait or not, and which notes what it is told."""

    def __init__(self, stations: Iterable[str], waits: str) -> None:
        self._stations, self._waits = list(stations), waits
        self.made: dict[str, Seen] = {}
        self.asked: list[set[str]] = []
        self.told: dict[str, float] = {}
        self.off: list[str] = []
        self.corrected: list[str] = []
        self.conflict = ""

    def stations(self) -> list[str]:
        return self._stations

    def ask(self, states: Mapping[str, Mapping[str, float]], *, slot: str) -> list[Seen]:
        self.asked.append(set(states))
        found = [Seen(f"{name}@{slot}", name, 12, False, name == self._waits, True) for name in states]
        self.made |= {one.id: one for one in found}
        return found

    def look(self, ids: Iterable[str]) -> list[Seen]:
        return [self.made[key] for key in ids]

    def tell(self, rewards: Mapping[str, float]) -> None:
        if any(key.startswith(self.conflict) for key in rewards) and self.conflict:
            raise ConflictError("somebody was quicker")
        assert not self.told.keys() & rewards.keys()
        self.told |= rewards

    def correct(self, decision: str, reward: float) -> None:
        assert self.told[decision] != reward
        self.corrected.append(decision)

    def call_off(self, decision: str) -> None:
        self.off.append(decision)


def played(network: DemoNetwork, desk: StubDesk, slots: int, *, patience: int) -> Manager:
    manager = Manager(network, desk, DemoClock(START, seconds=1.0), patience=patience, seed=2)
    for _ in range(slots):
        manager.open_slot()
        manager.close_slot()
    return manager


def test_a_station_that_waits_for_a_person_is_not_asked_until_patience_ends(network: DemoNetwork) -> None:
    name = network.stations[0]
    desk = StubDesk(network.stations, waits=name)
    played(network, desk, 9, patience=3)
    assert [name in asked for asked in desk.asked] == [True, False, False, False] * 2 + [True]
    assert all(set(network.stations) - {name} <= asked for asked in desk.asked)


def test_what_a_person_approves_is_what_earns_the_reward(network: DemoNetwork) -> None:
    name = network.stations[0]
    desk = StubDesk(network.stations, waits=name)
    manager = played(network, desk, 1, patience=50)
    [key] = [key for key, seen in desk.made.items() if seen.station == name]
    assert key not in desk.told
    desk.made[key] = Seen(key, name, 28, True, False, True)  # approved meanwhile
    paid: list[int] = []
    earn = network.earned
    network.earned = lambda station, arm: paid.append(arm) or earn(station, arm)  # type: ignore[method-assign,func-returns-value]
    try:
        manager.open_slot()
        manager.close_slot()
    finally:
        del network.earned
    assert 28 in paid
    assert name in desk.stations()


def test_every_decision_is_told_once_late_or_called_off_and_some_are_put_right(network: DemoNetwork) -> None:
    desk = StubDesk(network.stations, waits="")
    manager = played(network, desk, 60, patience=3)
    late = {key for _, key, _ in manager._late}
    assert set(desk.made) == set(desk.told) | set(desk.off) | late
    assert not set(desk.told) & set(desk.off)
    assert desk.off
    assert len(desk.corrected) == 3
    assert np.isfinite(list(desk.told.values())).all()


def test_a_reward_that_a_person_has_settled_does_not_keep_the_others_from_being_told(network: DemoNetwork) -> None:
    desk = StubDesk(network.stations, waits="")
    desk.conflict = f"{network.stations[1]}@"
    played(network, desk, 4, patience=3)
    assert {key.partition("@")[0] for key in desk.told} == set(network.stations) - {network.stations[1]}
