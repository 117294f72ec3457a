"""Handover events on hand-made signals: enter, leave, hysteresis, time to trigger, filter."""

import numpy as np
import pytest

from kinband.environments.radio.city import Float32Array
from kinband.environments.radio.handover import (
    EventTimers,
    a2_enters,
    a2_leaves,
    a3_enters,
    a3_leaves,
    filter_weight,
    filtered,
)
from kinband.environments.radio.parameters import Mobility


def level(*values: float) -> Float32Array:
    return np.array(values, dtype=np.float32)


def fired(signal: list[float], *, threshold: float, hysteresis: float, trigger_s: float) -> list[int]:
    """Steps of one second at which A2 fires on a signal."""
    timers, steps = EventTimers(1, time_to_trigger_s=trigger_s, step_s=1.0), []
    for step, value in enumerate(signal):
        Ms, T = level(value), level(threshold)
        enters, leaves = a2_enters(Ms, T, hysteresis_db=hysteresis), a2_leaves(Ms, T, hysteresis_db=hysteresis)
        if timers.advance(enters, leaves)[0]:
            steps.append(step)
    return steps


def test_a2_enters_below_and_leaves_above_with_hysteresis_on_both_sides() -> None:
    Ms, T = level(-101.6, -101.5, -100.0, -98.5, -98.4), level(*[-100.0] * 5)
    assert a2_enters(Ms, T, hysteresis_db=1.5).tolist() == [True, False, False, False, False]
    assert a2_leaves(Ms, T, hysteresis_db=1.5).tolist() == [False, False, False, False, True]


def test_a3_compares_with_the_serving_cell_and_an_offset() -> None:
    Ms, Mn = level(-90, -90, -90, -90), level(-86.4, -86.5, -87.4, -87.6)
    assert a3_enters(Ms, Mn, offset_db=3.0, hysteresis_db=0.5).tolist() == [True, False, False, False]
    assert a3_leaves(Ms, Mn, offset_db=3.0, hysteresis_db=0.5).tolist() == [False, False, False, True]


def test_a2_fires_after_the_time_to_trigger_and_only_once() -> None:
    assert fired([-90, -105, -105, -105, -105, -105], threshold=-100, hysteresis=1, trigger_s=2.56) == [4]


def test_an_interruption_starts_the_time_to_trigger_again() -> None:
    signal = [-105.0, -105, -100.5, -105, -105, -105, -105]
    assert fired(signal, threshold=-100, hysteresis=1, trigger_s=1.28) == [5]


def test_without_time_to_trigger_the_first_measurement_counts() -> None:
    assert fired([-99, -102], threshold=-100, hysteresis=1, trigger_s=0.0) == [1]


def test_an_event_fires_again_only_after_its_leaving_condition() -> None:
    inside = [-105.0, -105, -100.5, -105, -105]  # never above −99: still triggered
    outside = [-105.0, -105, -98.5, -105, -105]
    assert fired(inside, threshold=-100, hysteresis=1, trigger_s=0.64) == [1]
    assert fired(outside, threshold=-100, hysteresis=1, trigger_s=0.64) == [1, 4]


def test_restarting_forgets_only_the_users_named() -> None:
    timers = EventTimers(2, time_to_trigger_s=1.0, step_s=1.0)
    yes, no = np.array([True, True]), np.array([False, False])
    timers.advance(yes, no)
    timers.restart(np.array([0]))
    assert timers.advance(yes, no).tolist() == [False, True]


@pytest.mark.parametrize(("k", "samples"), [(0, 1), (4, 1), (4, 5), (8, 3), (11, 7)])
def test_filter_weight_of_a_step_equals_its_samples_one_by_one(k: int, samples: int) -> None:
    a, F = 0.5 ** (k / 4), -110.0
    for _ in range(samples):
        F = (1 - a) * F + a * -90.0
    weight = filter_weight(Mobility(filter_coefficient=k), step_s=0.2 * samples)
    at_once = filtered(level(-110), level(-90), weight=weight, fresh=np.array([False]))
    assert at_once[0] == pytest.approx(F, abs=1e-4)
