"""What the judgement of a change must not depend on, and what it refuses."""

import numpy as np
import pytest

from kinband.arrays import FloatArray
from kinband.errors import BadInputError
from kinband.judging import LEAST_BEFORE, LEAST_CONTROLS, Comparison, Watch, mixture, nearest

BEFORE = 72


def city(seed: int = 0, *, stations: int = 15, slots: int = 120) -> FloatArray:
    rng = np.random.default_rng(seed)
    evening = np.sin(np.arange(slots) * 2 * np.pi / 24)[:, None] * rng.uniform(0.05, 0.15, stations)
    return np.asarray(0.8 + evening + 0.01 * rng.normal(size=(slots, stations)))


def gain(Y: FloatArray) -> tuple[float, float]:
    verdict = Comparison.of(Y[:BEFORE, 0], Y[:BEFORE, 1:]).judged(Y[BEFORE:, 0], Y[BEFORE:, 1:])
    return verdict.gain.value, verdict.gain.high - verdict.gain.value


def test_what_happens_to_the_whole_city_at_once_is_no_gain_and_no_loss() -> None:
    Y, dip = city(), city()
    dip[BEFORE:] -= 0.3
    assert gain(dip) == pytest.approx(gain(Y), abs=1e-9)


def test_what_a_change_adds_is_added_to_the_gain_and_leaves_its_interval() -> None:
    Y, better = city(), city()
    better[BEFORE:, 0] += 0.04
    assert gain(better)[0] == pytest.approx(gain(Y)[0] + 0.04, abs=1e-12)
    assert gain(better)[1] == pytest.approx(gain(Y)[1])


def test_another_unit_gives_the_same_judgement_in_that_unit() -> None:
    assert gain(100 * city()) == pytest.approx([100 * part for part in gain(city())], rel=1e-6)


def test_the_level_of_a_station_does_not_count() -> None:
    Y = city()
    assert gain(Y + np.linspace(-3, 3, 15)) == pytest.approx(gain(Y), abs=1e-6)


def test_a_control_that_is_missing_in_a_slot_goes_with_the_others() -> None:
    Y = city()
    Y[BEFORE + 5 :] -= 0.3
    holes = Y.copy()
    holes[BEFORE + 3 : BEFORE + 30, 4] = np.nan
    assert gain(holes)[0] == pytest.approx(gain(Y)[0], abs=0.01)


def test_a_quiet_station_is_not_trusted_beyond_what_its_controls_show() -> None:
    Y = city()
    Y[:BEFORE, 0] = Y[:BEFORE, 1:].mean(axis=0).mean()
    found = Comparison.of(Y[:BEFORE, 1:].mean(axis=1), Y[:BEFORE, 1:])
    assert found.scatter[0] >= 0.2 * np.median(found.scatter[1:])


def test_weight_goes_to_those_alike_where_several_follow_as_well() -> None:
    rng = np.random.default_rng(3)
    target = rng.normal(size=60)
    controls = np.column_stack([target + 0.3 * rng.normal(size=60) for _ in range(6)])
    plain, alike = mixture(target, controls), mixture(target, controls, unlike=np.array([0, 0, 0, 1, 1, 1.0]))
    assert alike[:3].sum() > plain[:3].sum()
    assert alike.sum() == pytest.approx(1.0)


def test_the_nearest_are_those_that_moved_alike_whatever_their_level() -> None:
    time = np.arange(48) / 5
    others = np.column_stack([np.cos(time), 7 + np.sin(time), np.sin(time) / 3])
    assert nearest(np.sin(time), others, most=1).tolist() == [1]


@pytest.mark.parametrize(
    ("slots", "controls"), [(LEAST_BEFORE - 1, LEAST_CONTROLS), (LEAST_BEFORE, LEAST_CONTROLS - 1)]
)
def test_too_little_to_compare_with_is_refused(slots: int, controls: int) -> None:
    with pytest.raises(BadInputError, match="a comparison takes 24 slots before and 8 controls"):
        Comparison.of(np.zeros(slots), np.zeros((slots, controls)))


def test_controls_that_never_vary_are_refused() -> None:
    with pytest.raises(BadInputError, match="never vary"):
        Comparison.of(np.random.default_rng(0).normal(size=48), np.ones((48, 9)))


def test_a_scatter_of_rounding_alone_is_none() -> None:
    rng = np.random.default_rng(0)
    still = 0.459 * (1 + 2e-16 * rng.normal(size=(48, 9)))  # most carriers slept throughout: means of sums of floats
    assert still.std(axis=0).max() > 0
    still[:, 0] += 0.1 * rng.normal(size=48)
    with pytest.raises(BadInputError, match="never vary"):
        Comparison.of(rng.normal(size=48), still)
    small = 1e-6 * still
    small[:, 1:] += 1e-9 * rng.normal(size=(48, 8))  # what is small still varies
    assert Comparison.of(rng.normal(size=48) * 1e-6, small).scatter.min() > 0


def test_a_large_loss_is_found_at_the_first_looks_and_stays_found() -> None:
    Y = city()
    watch = Watch.begin(Comparison.of(Y[:BEFORE, 0], Y[:BEFORE, 1:]))
    for row in Y[BEFORE:]:
        watch = watch.told(float(row[0]) - 0.2, row[1:])
    assert 1 <= watch.lost <= 4
    assert watch.slots == 48


def test_a_dip_of_the_whole_city_and_a_gain_are_no_loss() -> None:
    Y = city()
    Y[BEFORE:] -= 0.4
    Y[BEFORE:, 0] += 0.1
    watch = Watch.begin(Comparison.of(Y[:BEFORE, 0], Y[:BEFORE, 1:]))
    for row in Y[BEFORE:]:
        watch = watch.told(float(row[0]), row[1:])
    assert watch.lost == 0
    assert watch.loss < 0


def test_only_placebos_that_lost_say_how_far_a_loss_may_go_by_chance() -> None:
    found = Comparison.of(city()[:BEFORE, 0], city()[:BEFORE, 1:])
    sums = np.concatenate([[0.0], np.where(np.arange(14) < 7, -1.0, 9.0)]) * found.scatter
    watch = Watch(found, 0.05, 96, 1, sums)
    assert watch.bound == pytest.approx(found.scatter[0] * 3.70, rel=0.01)  # Student's at 1 - 0.05/13 with 7
    assert Watch(found, 0.05, 96, 1, np.abs(sums)).bound == np.inf
