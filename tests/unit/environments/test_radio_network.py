"""The running network, its people and its sessions, on small cities."""

import dataclasses

import numpy as np
import pytest

from kinband.environments.radio import Network, Parameters, PowerMap, Report, build_map, draw_layout
from kinband.environments.radio.demand import People, uniforms
from kinband.environments.radio.parameters import Traffic
from kinband.environments.radio.traffic import Service, Sessions
from kinband.errors import BadInputError

PARAMETERS = Parameters(load=1.3)
STATES = ("users", "active_users", "cqi_share", "small_packet_sdu_share", "small_packet_volume_share")


@pytest.fixture(scope="module")
def city() -> PowerMap:
    return build_map(draw_layout(8, seed=4), PARAMETERS)


def network(city: PowerMap, seed: int = 1, hour: float = 19.0) -> Network:
    return Network(city, PARAMETERS, seed=seed, hour=hour)


def run(city: PowerMap, thresholds: list[float], *, seed: int = 1, seconds: float = 40) -> Report:
    return network(city, seed).run_period(thresholds, seconds=seconds)


def bits(report: Report) -> list[bytes]:
    return [np.asarray(getattr(report, field.name)).tobytes() for field in dataclasses.fields(report)]


def test_same_seed_gives_the_same_bits_and_another_seed_others(city: PowerMap) -> None:
    first, again, other = (run(city, [-98.0] * 8, seed=seed) for seed in (1, 1, 2))
    assert bits(first) == bits(again)
    assert bits(first) != bits(other)


def test_layout_and_map_are_the_same_for_the_same_seed() -> None:
    one, two, other = (draw_layout(8, seed=seed) for seed in (4, 4, 5))
    np.testing.assert_array_equal(one.sites, two.sites)
    np.testing.assert_array_equal(one.demand, two.demand)
    assert one.names == two.names != other.names
    assert all(len(name) == 4 and name.isdigit() for name in one.names)


def test_sites_move_apart_from_the_centre_outwards() -> None:
    layout = draw_layout(105, seed=2)
    away = np.hypot(*(layout.sites - layout.sites.mean(axis=0)).T)
    order = np.argsort(away)
    assert layout.spacing_m[order[:10]].mean() < 0.8 * layout.spacing_m[order[-10:]].mean()


def test_sessions_started_are_finished_given_up_or_under_way(city: PowerMap) -> None:
    running = network(city)
    for _ in range(4):
        running.run_period([-90.0] * 8, seconds=25)
        sessions = running.sessions
        assert sessions.started == sessions.finished + sessions.dropped + sessions.active.sum()
    assert running.sessions.finished > 50


def test_demand_does_not_depend_on_the_thresholds(city: PowerMap) -> None:
    low, high = network(city), network(city)
    for running, threshold in ((low, -112.0), (high, -84.0)):
        running.run_period([threshold] * 8, seconds=40)
    here, there = (set(n.people.key[n.people.alive & (n.people.until > n.now)].tolist()) for n in (low, high))
    assert here == there
    assert len(here) > 50


def test_a_report_holds_possible_values(city: PowerMap) -> None:
    report = run(city, [-96.0] * 8, seconds=60)
    for name in ("cqi_share", "small_packet_sdu_share", "small_packet_volume_share", "good_share"):
        values = getattr(report, name)
        assert values.shape == (8,)
        assert ((values >= 0) & (values <= 1)).all()
    assert (report.satisfied <= report.sessions).all()
    assert (report.capacity_sessions <= report.sessions).all()
    assert (report.active_users <= report.users + 1e-9).all()
    assert ((report.utilisation >= 0) & (report.utilisation <= 1 + 1e-6)).all()
    n, p = report.sessions, (report.satisfied + 1) / (report.sessions + 2)
    judged = n > 0
    np.testing.assert_allclose(report.noise[judged], (p * (1 - p) / np.maximum(n, 1))[judged])


def test_a_high_threshold_sends_users_to_the_coverage_layer(city: PowerMap) -> None:
    share = [1 - r.capacity_sessions.sum() / r.sessions.sum() for r in (run(city, [t] * 8) for t in (-112.0, -84.0))]
    assert share[0] < share[1]


def test_users_above_the_return_level_come_back_when_the_threshold_falls(city: PowerMap) -> None:
    running = network(city)
    up = running.run_period([-84.0] * 8, seconds=20).handovers[1].sum()
    back = running.run_period([-112.0] * 8, seconds=20).handovers[1].sum()
    assert back > up + 5


def test_more_load_next_door_means_less_signal_over_interference(city: PowerMap) -> None:
    quiet, crowded = (Network(city, Parameters(load=load), seed=1, hour=19.0) for load in (0.1, 1.5))
    median = []
    for running in (quiet, crowded):
        running.run_period([-100.0] * 8, seconds=30)
        median.append(float(np.median(running.sinr()[running.people.alive])))
    assert median[1] < 0.7 * median[0]


def test_a_neighbour_feels_a_sectors_threshold(city: PowerMap) -> None:
    base = [-104.0] * 8
    changed = [-84.0, *base[1:]]
    one, two = run(city, base, seconds=80), run(city, changed, seconds=80)
    assert (one.satisfied[1:] != two.satisfied[1:]).any() or (one.utilisation[:, 1:] != two.utilisation[:, 1:]).any()


def test_indoor_users_stand_still_and_lose_signal(city: PowerMap) -> None:
    people = People(city.layout, PARAMETERS, seed=3)
    people.fill(hour=20.0)
    before = people.x.copy()
    for moment in range(5):
        people.move(moment, step_s=1.0)
    indoor, outdoor = people.alive & people.indoor, people.alive & ~people.indoor
    assert (people.x[indoor] == before[indoor]).all()
    assert (people.x[outdoor] != before[outdoor]).all()
    assert (people.wall[outdoor] == 1).all()
    assert people.wall[indoor].max() <= 1
    # Walls cost more at 2.6 GHz than at 0.8 GHz, for everybody behind one that is not open.
    closed = indoor & (people.wall[:, 1] < 1)
    assert (people.wall[closed, 0] <= people.wall[closed, 1]).all()


def test_people_stay_inside_the_city(city: PowerMap) -> None:
    people = People(city.layout, PARAMETERS, seed=3)
    people.fill(hour=18.0)
    for moment in range(300):
        people.move(moment, step_s=1.0)
    width, height = city.layout.extent_m
    assert people.x.min() >= 0
    assert people.y.min() >= 0
    assert people.x.max() <= width
    assert people.y.max() <= height


def test_users_follow_the_hour(city: PowerMap) -> None:
    people = People(city.layout, PARAMETERS, seed=3)
    business, homes = (np.array([people.expected(hour)[use] for hour in (3, 15, 21)]) for use in (0, 1))
    assert business.argmax() == 1
    assert homes.argmax() == 2
    np.testing.assert_allclose(people.expected(24.0), people.expected(0.0))


def service(bits: float, *, finished: bool, elapsed: float) -> Service:
    return Service(np.array([bits]), np.array([finished]), np.array([elapsed]), np.zeros(1))


def one_session() -> tuple[Sessions, float]:
    sessions = Sessions(1, Traffic())
    sessions.start(np.array([True]), np.array([1e9]), np.array([7], dtype=np.uint64), now=10.0, moment=10, step_s=1.0)
    return sessions, float(sessions.remaining[0])


def test_a_session_in_time_is_satisfied_when_it_ends() -> None:
    sessions, size = one_session()
    _, satisfied = sessions.receive(np.array([0]), service(size, finished=True, elapsed=0.5), now=10.0, step_s=1.0)
    assert satisfied.tolist() == [True]
    assert (sessions.finished, sessions.active.sum()) == (1, 0)


def test_a_slow_session_is_judged_once_at_its_deadline_and_given_up_later() -> None:
    sessions, size = one_session()
    good_s, now, verdicts = size / 5e6, 10.0, []
    while sessions.active.sum():
        _, satisfied = sessions.receive(np.array([0]), service(1.0, finished=False, elapsed=1.0), now=now, step_s=1.0)
        verdicts += [(now + 1.0, bool(v)) for v in satisfied]
        now += 1.0
    assert len(verdicts) == 1
    assert verdicts[0][1] is False
    assert good_s < verdicts[0][0] - 10.0 <= good_s + 1
    assert sessions.dropped == 1
    assert 4 * good_s <= now - 10.0 <= 4 * good_s + 1


def test_numbers_by_key_are_even_and_differ_by_moment_and_purpose() -> None:
    keys = np.arange(20_000, dtype=np.uint64)
    u = uniforms(keys, moment=3, stream=1)
    # Mean of n even numbers: standard error 1/√(12n) = 0.002; counts in tenths: √(0.09·n) = 42. Five of each.
    assert u.mean() == pytest.approx(0.5, abs=0.0102)
    assert np.abs(np.histogram(u, bins=10, range=(0, 1))[0] - 2000).max() < 5 * 42.5
    for other in (uniforms(keys, moment=4, stream=1), uniforms(keys, moment=3, stream=2)):
        assert abs(np.corrcoef(u, other)[0, 1]) < 5 / np.sqrt(20_000)


def test_wrong_thresholds_are_refused(city: PowerMap) -> None:
    running = network(city)
    with pytest.raises(BadInputError, match="7 thresholds for 8 sectors"):
        running.run_period([-100.0] * 7, seconds=5)
    with pytest.raises(BadInputError, match="thresholds holds nan"):
        running.run_period([float("nan")] * 8, seconds=5)
    with pytest.raises(BadInputError, match="load must be above zero"):
        Parameters(load=0.0)
