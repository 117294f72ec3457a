"""Numbers with intervals, and many tests at once."""

import math

import numpy as np
import pytest
from scipy.stats import t

from kinband.stats import Estimate, discoveries, discoveries_by_evidence, mean_of, mean_square_of, normal, share_of


def test_an_estimate_says_what_it_knows_in_text_and_json() -> None:
    known, value_only, nothing = Estimate(0.5, 0.4, 0.62), Estimate(0.5), Estimate(math.nan)
    assert [f"{one:.1f}" for one in (known, value_only, nothing)] == [
        "0.5 (0.4 to 0.6)",
        "0.5 (no interval)",
        "unknown",
    ]
    assert known.to_dict() == {"value": 0.5, "low": 0.4, "high": 0.62}
    assert value_only.to_dict() == {"value": 0.5, "low": None, "high": None}
    assert -known == Estimate(-0.5, -0.62, -0.4)
    assert [one.side(0.3) for one in (known, -known, value_only)] == [1, -1, 0]


def test_a_normal_interval_leaves_one_in_forty_on_either_side() -> None:
    found = normal(2.0, 0.5)
    draws = np.random.default_rng(0).normal(2.0, 0.5, 100_000)
    assert [(draws < found.low).mean(), (draws > found.high).mean()] == pytest.approx([0.025] * 2, abs=4 * 0.0005)


@pytest.mark.parametrize(("hits", "count"), [(0, 7), (3, 11), (40, 50), (9, 9)])
def test_the_interval_of_a_share_ends_where_the_binomial_tails_are_as_small_as_promised(hits: int, count: int) -> None:
    def at_least(p: float, k: int) -> float:
        return sum(math.comb(count, i) * p**i * (1 - p) ** (count - i) for i in range(k, count + 1))

    found = share_of(hits, count)
    assert found.low == 0 if hits == 0 else at_least(found.low, hits) == pytest.approx(0.025)
    assert found.high == 1 if hits == count else 1 - at_least(found.high, hits + 1) == pytest.approx(0.025)


@pytest.mark.parametrize("seed", range(8))
def test_discoveries_are_those_of_the_rule_written_out(seed: int) -> None:
    rng = np.random.default_rng(seed)
    m = int(rng.integers(1, 40))
    p = np.where(rng.random(m) < 0.4, rng.random(m) / 100, rng.random(m))
    ranked = sorted(p.tolist())
    largest = max((k for k in range(1, m + 1) if ranked[k - 1] <= 0.05 * k / m), default=0)
    threshold = ranked[largest - 1] if largest else -1.0
    assert discoveries(p, rate=0.05).tolist() == [value <= threshold for value in p.tolist()]
    log_e = rng.normal(2.0, 3.0, m)
    falling = sorted(log_e.tolist(), reverse=True)
    most = max((k for k in range(1, m + 1) if math.exp(falling[k - 1]) >= m / (0.05 * k)), default=0)
    least = falling[most - 1] if most else math.inf
    assert discoveries_by_evidence(log_e, rate=0.05).tolist() == [value >= least for value in log_e.tolist()]


@pytest.mark.parametrize("seed", range(6))
def test_the_interval_of_a_mean_square_is_students_on_the_scale_of_logarithms(seed: int) -> None:
    rng = np.random.default_rng(seed)
    z, rounds = rng.normal(0.1, 1.7, 24), np.repeat(np.arange(4), 6)
    found = mean_square_of(z, rounds)
    each = (z**2).reshape(4, 6).mean(axis=1)
    reach = t.ppf(0.975, 3) * each.std(ddof=1) / 2 / each.mean()
    assert found.value == pytest.approx(each.mean())
    assert (found.low, found.high) == pytest.approx((each.mean() * math.exp(-reach), each.mean() * math.exp(reach)))
    assert found.low > 0
    assert not mean_square_of(z[:1]).known
    assert mean_square_of(np.zeros(5)).high == 0.0


def test_intervals_of_mean_squares_err_on_both_sides_about_alike() -> None:
    # Of 2,000 samples of 20 rounds of 4 stations, 2.5 % should miss on either side; Student's own interval misses
    # thrice as often below as above. A share of 2.5 % has the standard error 0.35 %.
    rng = np.random.default_rng(13)
    rounds = np.repeat(np.arange(20), 4)
    sides = np.array([mean_square_of(rng.standard_normal(80), rounds).side(1.0) for _ in range(2000)])
    assert (sides != 0).mean() < 0.05 + 4 * 0.0049
    assert (sides == 1).mean() > 0.5 * (sides == -1).mean() - 4 * 0.0035


def test_intervals_of_means_cover_as_often_as_they_promise() -> None:
    rng = np.random.default_rng(12)
    intervals = [mean_of(rng.normal(0.3, 2.0, 9)) for _ in range(1500)]
    inside = sum(i.low <= 0.3 <= i.high for i in intervals) / 1500
    assert abs(inside - 0.95) < 4 * math.sqrt(0.95 * 0.05 / 1500)
    assert not mean_of(np.array([0.4])).known
