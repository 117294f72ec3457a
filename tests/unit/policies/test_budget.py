"""What a budget of rewards keeps in reserve, against the arguments it rests on, done numerically."""

import math
from typing import Any

import numpy as np
import pytest

from kinband.arrays import FloatArray
from kinband.policies.budget import doubt_allowance, scatter_allowance


def area(values: FloatArray, at: FloatArray) -> float:
    """The integral of values (n,) over points (n,), by trapezoids."""
    return float((np.diff(at) * (values[1:] + values[:-1]) / 2.0).sum())


CASES = [(0.03, 0.07, 0.2), (2.0, 0.07, 0.2), (2.0, 0.5, 0.01), (300.0, 1.7, 0.05)]


@pytest.mark.parametrize(("variance", "unit", "delta"), CASES)
def test_the_boundary_of_scatter_is_where_the_mixture_reaches_its_limit(
    variance: float, unit: float, delta: float
) -> None:
    """Ville's inequality allows 1/δ; the closed form is on the safe side of it, and not by much."""
    slopes = np.linspace(0.0, 12.0 / math.sqrt(unit), 400_001)
    density = math.sqrt(2.0 * unit / math.pi) * np.exp(-unit * slopes**2 / 2.0)  # half-normal of precision ρ

    def mixture(at: float) -> float:
        return area(np.exp(slopes * at - slopes**2 * variance / 2.0) * density, slopes)

    bound = scatter_allowance(variance, unit=unit, delta=delta)
    assert mixture(0.0) <= 1.0
    assert mixture(bound) >= 1.0 / delta
    assert mixture(0.9 * bound) < 1.0 / delta


@pytest.mark.parametrize(("width", "unit", "delta"), CASES)
def test_the_bound_of_doubt_is_what_markov_and_jensen_leave(width: float, unit: float, delta: float) -> None:
    """The best slope t of a grid does hardly better than the one that was fixed beforehand."""
    tail, span = 0.25, np.geomspace(1e-9, 1e12, 200_001) * unit

    def density(q: Any) -> Any:
        return tail / unit * (1.0 + q / unit) ** (-1.0 - tail)

    assert area(density(span) * span, np.log(span)) == pytest.approx(1.0, abs=2e-3)
    left = [width * (t / 2 + math.log(1 / (delta * width * density(width))) / t) for t in np.linspace(0.5, 9.0, 8_501)]
    bound = doubt_allowance(width, unit=unit, delta=delta)
    assert min(left) <= bound <= 1.08 * min(left)


@pytest.mark.parametrize("allowance", [scatter_allowance, doubt_allowance])
def test_where_nothing_is_unknown_nothing_is_reserved_and_then_more_and_more(allowance: Any) -> None:
    found = [allowance(size, unit=0.3, delta=0.1) for size in np.geomspace(1e-12, 1e4, 200)]
    assert allowance(0.0, unit=0.3, delta=0.1) == 0.0
    assert (np.diff(found) > 0).all()
    assert allowance(2.0, unit=0.3, delta=0.2) < allowance(2.0, unit=0.3, delta=0.1)


PATHS, STEPS, DELTA = 2000, 400, 0.1
LIMIT = DELTA + 3.0 * math.sqrt(DELTA * (1.0 - DELTA) / PATHS)


def test_random_walks_cross_the_boundary_of_scatter_no_more_often_than_stated() -> None:
    rng = np.random.default_rng(8)
    variances = rng.uniform(0.1, 2.0, size=STEPS)
    walks = np.cumsum(rng.normal(size=(PATHS, STEPS)) * np.sqrt(variances), axis=1)
    bounds = [scatter_allowance(v, unit=0.8, delta=DELTA) for v in np.cumsum(variances)]
    crossed = float((walks > bounds).any(axis=1).mean())
    assert 0.01 < crossed <= LIMIT  # the boundary is no wall either


@pytest.mark.parametrize("kept", [0.0, 0.9, 0.999, 1.0])
def test_errors_that_hang_together_in_any_way_stay_within_the_allowance_for_doubt(kept: float) -> None:
    """z moves on by an autoregression: from independent errors to the same error for ever."""
    rng = np.random.default_rng(9)
    widths = rng.uniform(0.01, 0.4, size=STEPS)
    z, sums = rng.normal(size=PATHS), np.zeros((PATHS, STEPS))
    for i, width in enumerate(widths):
        z = kept * z + math.sqrt(1.0 - kept**2) * rng.normal(size=PATHS)
        sums[:, i] = (sums[:, i - 1] if i else 0.0) + width * z
    bounds = [doubt_allowance(q, unit=0.2, delta=DELTA) for q in np.cumsum(widths)]
    assert float((sums > bounds).any(axis=1).mean()) <= LIMIT
