"""Do the intervals of an evaluation hold the truth where it is known, and are they needed?

`python -m benchmarks.coverage` prints the same counts for more cases. An interval that is right holds the truth
in 95 of 100 logs, give or take a standard error of 2.2; 90 is the least that is accepted.
"""

import numpy as np
import pytest
from benchmarks.coverage import World, count, synthetic_world, trace_world
from scipy.stats import norm

from kinband.ope import evaluate
from kinband.ope.estimators import by_model, inverse_propensity
from kinband.ope.targets import fixed

LEAST = 90  # of 100: 2.3 standard errors below 95


@pytest.fixture(scope="module")
def city() -> World:
    return trace_world()


@pytest.mark.parametrize("known", [True, False])
def test_intervals_hold_the_value_of_a_learned_policy_on_the_synthetic_bandit(known: bool) -> None:
    done = count(synthetic_world(), policy="recommend", known=known)
    assert done.covered >= LEAST
    assert done.width < 3 * done.error  # they cover because they are right, not because they are wide


@pytest.mark.parametrize("known", [True, False])
def test_intervals_hold_the_value_of_a_rule_in_the_bundled_city(city: World, known: bool) -> None:
    done = count(city, policy="rule", known=known)
    assert done.covered >= LEAST
    assert done.width < 3 * done.error


def test_where_a_plain_average_of_matching_rows_misses_the_truth_the_doubly_robust_estimate_holds_it() -> None:
    world = synthetic_world()
    last = fixed({"setting": 4}, world.space)
    truth, plain, robust = world.truth(last), 0, 0
    for i in range(100):
        trace, propensity = world.log(60, np.random.default_rng([9, i]))
        same = trace.configuration["setting"] == 4
        average = by_model(trace.reward[same]).interval(np.flatnonzero(same))
        plain += average.low <= truth <= average.high
        value = evaluate(trace, last, propensity=propensity, model=world.model()).value
        robust += value.low <= truth <= value.high
    assert plain < 50  # the log prefers this configuration in states in which it pays
    assert robust >= LEAST


def test_rows_that_share_a_shock_are_counted_once() -> None:
    """A trial of eight rows has one shock: by rows an interval is √(1 + 7ρ) times too narrow, by trials it is right."""
    rng = np.random.default_rng(2)
    trials, length, repeats = 40, 8, 400
    unit = np.repeat(np.arange(trials), length)
    by_trial = by_row = 0
    for _ in range(repeats):
        r = 0.7 + rng.normal(0, 0.2, trials)[unit] + rng.normal(0, 0.1, len(unit))
        w = rng.choice([0.5, 1.5], trials)[unit]
        found = inverse_propensity(w, r)
        for_trial, for_row = found.interval(unit), found.interval(np.arange(len(unit)))
        by_trial += for_trial.low <= 0.7 <= for_trial.high
        by_row += for_row.low <= 0.7 <= for_row.high
    error = np.sqrt(0.95 * 0.05 / repeats)
    assert by_trial / repeats > 0.95 - 3.5 * error
    shared = 0.2**2 / (0.2**2 + 0.1**2)
    promised = 2 * norm.cdf(1.96 / np.sqrt(1 + (length - 1) * shared)) - 1  # about 0.57
    assert by_row / repeats < promised + 0.1
