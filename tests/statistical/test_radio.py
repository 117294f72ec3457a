"""The radio network is a problem worth learning, and its random parts follow the laws they should.

Comparisons are in pairs: a traffic seed brings the same people with the same wishes for every threshold.
"""

import numpy as np
import pytest
from benchmarks.city.check import measure

from kinband.arrays import FloatArray
from kinband.environments.radio import Parameters, PowerMap, Report, build_map, draw_layout
from kinband.environments.radio.demand import People
from kinband.environments.radio.propagation import line_of_sight_probability

SECTORS, SEEDS, BUSY = 12, 6, 16.0
LOW, MIDDLE, HIGH = -112.0, -96.0, -84.0


@pytest.fixture(scope="module")
def city() -> PowerMap:
    return build_map(draw_layout(SECTORS, seed=0), Parameters())


@pytest.fixture(scope="module")
def busy(city: PowerMap) -> dict[float, list[Report]]:
    return {
        threshold: [
            measure(city, Parameters(), np.full(SECTORS, threshold), seed=seed, hour=BUSY, seconds=120)
            for seed in range(SEEDS)
        ]
        for threshold in (LOW, MIDDLE, HIGH)
    }


def standard_errors(differences: FloatArray) -> float:
    """How many standard errors the mean of paired differences lies above zero."""
    return float(differences.mean() / (differences.std(ddof=1) / np.sqrt(len(differences))))


def network_shares(reports: list[Report]) -> FloatArray:
    return np.array([report.network_share for report in reports])


@pytest.mark.parametrize("end", [LOW, HIGH])
def test_at_a_busy_hour_a_middle_threshold_beats_both_ends(busy: dict[float, list[Report]], end: float) -> None:
    # Six pairs: a t of 4 with five degrees of freedom has a probability of 0.005.
    assert standard_errors(network_shares(busy[MIDDLE]) - network_shares(busy[end])) > 4


def test_a_cell_looks_good_by_shedding_its_weak_users(busy: dict[float, list[Report]]) -> None:
    def own(reports: list[Report]) -> FloatArray:
        return np.array([r.capacity_satisfied.sum() / r.capacity_sessions.sum() for r in reports])

    assert standard_errors(own(busy[HIGH]) - own(busy[MIDDLE])) > 4
    assert standard_errors(network_shares(busy[MIDDLE]) - network_shares(busy[HIGH])) > 4


def test_at_a_quiet_hour_the_threshold_hardly_matters(city: PowerMap) -> None:
    shares = [
        measure(city, Parameters(), np.full(SECTORS, t), seed=0, hour=4.0, seconds=150).network_share
        for t in (LOW, MIDDLE)
    ]
    # A tenth of the users of the busy hour: nearly everybody is satisfied, whichever layer serves them.
    assert min(shares) > 0.95


def test_sectors_differ_in_the_same_way_on_different_traffic(busy: dict[float, list[Report]]) -> None:
    """What a sector gains from a high threshold correlates between two halves of the traffic seeds."""

    def gain(half: slice) -> FloatArray:
        share = {
            t: sum(r.satisfied for r in busy[t][half]) / np.maximum(sum(r.sessions for r in busy[t][half]), 1)
            for t in (LOW, HIGH)
        }
        return np.asarray(share[HIGH] - share[LOW])

    r = np.corrcoef(gain(slice(0, 3)), gain(slice(3, 6)))[0, 1]
    # Fisher's z of 12 sectors has a standard error of 1/√9: three of them above no correlation.
    assert np.arctanh(r) > 3 / 3


def test_users_are_as_many_as_the_hour_expects(city: PowerMap) -> None:
    people = People(city.layout, Parameters(), seed=5)
    people.fill(hour=BUSY)
    nobody_busy = np.zeros(len(people.alive), dtype=bool)
    counts = []
    for second in range(2400):
        people.leave(float(second), busy=nobody_busy)
        people.arrive(float(second), hour=BUSY, step_s=1.0)
        counts.append(int(people.alive.sum()))
    expected = float(people.expected(BUSY).sum())
    # Arrivals and stays make a Poisson number with a memory of 240 s: 2,400 s hold about 2400/(2·240) = 5
    # independent looks. Users leave at whole seconds, which adds half a second to 240.
    assert np.mean(counts) == pytest.approx(expected * (1 + 0.5 / 240), abs=4 * np.sqrt(expected / 5))
    assert people.turned_away == 0


def test_line_of_sight_is_as_frequent_as_the_table_says() -> None:
    """Without shadowing, a pixel's power tells whether it is in sight of its site."""
    from kinband.environments.radio.parameters import Radio
    from kinband.environments.radio.propagation import path_loss_db

    radio = Radio(shadowing_los_db=0.0, shadowing_nlos_db=0.0)
    layout = draw_layout(60, seed=9)
    power = build_map(layout, Parameters(radio=radio)).power
    seen, expected, variance = 0.0, 0.0, 0.0
    for site, position in enumerate(layout.sites):
        sectors = np.flatnonzero(layout.site == site)
        east, north = (layout.pixel_centres() - position).T
        d = np.hypot(east, north)
        ring = (d > 60) & (d < 200)
        # The strongest sector is the one that looks there most directly; its pattern is known, so is the loss.
        keys = {"frequency_ghz": 2.6, "base_height_m": 25.0, "user_height_m": 1.5}
        no_sight = path_loss_db(d[ring], np.zeros(ring.sum(), dtype=bool), **keys)
        sight = path_loss_db(d[ring], np.ones(ring.sum(), dtype=bool), **keys)
        level = 10 * np.log10(power[ring][:, 0, sectors].max(axis=1))
        below = np.degrees(np.arctan2(23.5, d[ring])) - layout.tilt_deg[sectors[0]]
        off = np.degrees(np.arctan2(north, east))[ring, None] - layout.azimuth_deg[sectors]
        off = np.abs((off + 180) % 360 - 180).min(axis=1)
        pattern = -np.minimum(12 * (off / 70) ** 2 + np.minimum(12 * (below / 10) ** 2, 20), 25)
        base = 49 - 10 * np.log10(1200) + 17 + pattern - level
        seen += float((np.abs(base - sight) < np.abs(base - no_sight)).sum())
        p = line_of_sight_probability(d[ring])
        expected += float(p.sum())
        # Pixels of 25 m with a state that is shared over 50 m: some 2π·50²/25² = 25 of them count as one.
        variance += float((p * (1 - p)).sum()) * 25
    assert seen == pytest.approx(expected, abs=4 * np.sqrt(variance))
