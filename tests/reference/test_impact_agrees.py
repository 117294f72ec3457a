"""The judgement of changes agrees with a naive one, written from the definition: loops, and no library but NumPy."""

import numpy as np
import pytest

from kinband.arrays import FloatArray
from kinband.impact import Comparison, Verdict, Watch, mean_verdict
from kinband.judging import looks, mixture
from kinband.stats import Estimate

T_975_OF_9 = 2.262157  # Student's quantile for 9 degrees of freedom, from a printed table


def naive_mixture(target: FloatArray, controls: FloatArray) -> FloatArray:
    """Weights from 0 with sum 1 by gradient steps, each brought back to the nearest such weights."""
    w = np.full(controls.shape[1], 1.0 / controls.shape[1])
    step = 1.0 / np.linalg.norm(controls, 2) ** 2
    for _ in range(4_000):
        w = nearest_weights(w - step * (controls.T @ (controls @ w - target)))
    return w


def nearest_weights(v: FloatArray) -> FloatArray:
    """The closest point of the simplex: what is left above a level that leaves 1 in all."""
    down = np.sort(v)[::-1]
    levels = (np.cumsum(down) - 1.0) / np.arange(1, len(v) + 1)
    return np.asarray(np.maximum(v - levels[np.flatnonzero(down > levels)[-1]], 0))


def network(seed: int = 4, *, slots: int = 60, stations: int = 10) -> FloatArray:
    rng = np.random.default_rng(seed)
    city = np.cumsum(rng.normal(size=slots))[:, None] * rng.uniform(0.5, 1.5, stations)
    return np.asarray(0.1 * city + 0.05 * rng.normal(size=(slots, stations)) + rng.normal(size=stations))


def naive_errors(Y: FloatArray, before: int) -> tuple[float, list[float], list[float]]:
    """The gain of station 0, how far each placebo ends, and the sum of its squared weights."""
    slots, N = Y.shape
    gains, scatter, squares = [], [], []
    for unit in range(N):
        others = [j for j in range(1, N) if j != unit]
        own = Y[:before, unit] - Y[:before, unit].mean()
        theirs = np.array([Y[:before, j] - Y[:before, j].mean() for j in others]).T
        w = naive_mixture(own, theirs)
        rest = np.zeros(slots)
        for t in range(slots):
            rest[t] = Y[t, unit] - Y[:before, unit].mean()
            for weight, j in zip(w, others, strict=True):
                rest[t] -= weight * (Y[t, j] - Y[:before, j].mean())
        gains.append(rest[before:].mean())
        scatter.append(np.sqrt(np.mean(rest[:before] ** 2)))
        squares.append(float(np.sum(w**2)))
    errors = [scatter[0] * gains[unit] / scatter[unit] for unit in range(1, N)]
    return gains[0], errors, squares[1:]


def naive_verdict(Y: FloatArray, before: int) -> tuple[float, float, float]:
    """The gain of station 0 and the two sizes of its error, from what every unit earned."""
    gain, errors, squares = naive_errors(Y, before)
    own_errors = [error**2 / (1 + square) for error, square in zip(errors, squares, strict=True)]
    return gain, float(np.sqrt(np.mean(np.square(errors)))), float(np.sqrt(np.mean(own_errors)))


def test_weights_agree_with_projected_gradient_steps() -> None:
    Y = network()
    target, controls = Y[:, 0] - Y[:, 0].mean(), Y[:, 1:] - Y[:, 1:].mean(axis=0)
    found, naive = mixture(target, controls), naive_mixture(target, controls)
    assert found.min() >= 0
    assert found.sum() == pytest.approx(1.0, abs=1e-12)
    assert found == pytest.approx(naive, abs=2e-4)


def test_a_verdict_agrees_with_loops_over_units_and_slots() -> None:
    Y, before = network(), 48
    verdict = Comparison.of(Y[:before, 0], Y[:before, 1:]).judged(Y[before:, 0], Y[before:, 1:])
    gain, size, own = naive_verdict(Y, before)
    assert verdict.gain.value == pytest.approx(gain, abs=1e-3)
    assert (verdict.size, verdict.own) == pytest.approx((size, own), rel=1e-2)
    assert verdict.gain.high - verdict.gain.value == pytest.approx(T_975_OF_9 * size, rel=1e-2)
    assert verdict.otherwise == pytest.approx(Y[before:, 0].mean() - gain, abs=1e-3)


def test_the_mean_of_changes_agrees_with_a_double_loop() -> None:
    rng = np.random.default_rng(2)
    verdicts = [Verdict(Estimate(rng.normal()), 0.0, size, 0.8 * size, 9) for size in rng.uniform(0.5, 2, 5)]
    weights = rng.dirichlet(np.ones(6), 5)
    windows = np.array([[0, 10], [0, 10], [5, 15], [12, 30], [40, 50]], dtype=np.float64)
    total = 0.0
    for i in range(5):
        for k in range(5):
            if i == k:
                total += verdicts[i].size ** 2
                continue
            slots = [set(range(int(first), int(last))) for first, last in windows[[i, k]]]
            shared = len(slots[0] & slots[1]) / np.sqrt(len(slots[0]) * len(slots[1]))
            total += verdicts[i].own * verdicts[k].own * float(np.sum(weights[i] * weights[k])) * shared
    found = mean_verdict(verdicts, weights, windows)
    assert found.value == pytest.approx(np.mean([one.gain.value for one in verdicts]))
    assert found.high - found.value == pytest.approx(T_975_OF_9 * np.sqrt(total) / 5, rel=1e-6)


def test_watching_slot_by_slot_is_judging_all_slots_at_once() -> None:
    Y, before = network(7), 48
    comparison = Comparison.of(Y[:before, 0], Y[:before, 1:])
    watch = Watch.begin(comparison, horizon=12)
    for row in Y[before:]:
        watch = watch.told(float(row[0]), row[1:])
        whole = comparison.judged(Y[before : before + watch.slots, 0], Y[before : before + watch.slots, 1:])
        assert watch.loss == pytest.approx(-whole.gain.value, abs=1e-12)
    assert watch.slots == 12
    assert looks(12) == (1, 2, 3, 4, 6, 8, 12)
    lost = [error for error in naive_errors(Y, before)[1] if error < 0]
    tabled = {3: 5.138, 4: 4.148, 5: 3.681, 6: 3.412}  # Student's at 1 - 0.05/7 with so many
    assert watch.bound / np.sqrt(np.mean(np.square(lost))) == pytest.approx(tabled[len(lost)], rel=0.01)
