"""How much to share, by rows held back: densities against a naive posterior, the rule of one standard error, edges."""

import statistics
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tests.reference import naive

from kinband.arrays import FloatArray
from kinband.errors import BadInputError, NotPositiveDefiniteError
from kinband.kernels import RBF
from kinband.records import Samples
from kinband.similarity import Blended, blended, similarity_from
from kinband.similarity.blended import MOST, WEIGHTS, blend, foretold, least_sharing, standard_error
from kinband.similarity.learned import Learned

KERNEL, NOISE = RBF(0.3, variance=0.6), 0.05


def log_of(signs: Any, *, rows: int, noise: float = NOISE, seed: int = 1, known: bool = False) -> Samples:
    """Stations whose rewards are some multiple of the same wave."""
    rng, signs = np.random.default_rng(seed), np.asarray(signs, dtype=float)
    tasks = np.tile(np.arange(len(signs)), rows)
    X = rng.uniform(size=(len(tasks), 1))
    y = 0.4 + signs[tasks] * np.sin(7.0 * X[:, 0]) + np.sqrt(noise) * rng.normal(size=len(tasks))
    stations = tuple(f"s{m}" for m in range(len(signs)))
    variance = np.where(rng.random(len(tasks)) < 0.5, np.nan, 0.4 * noise) if known else None
    return Samples(stations, tasks, X, y, variance, ("load",))


def estimator(**changes: Any) -> Blended:
    return Blended(changes.pop("kernel", KERNEL), **({"regularisation": NOISE, "mean": 0.4} | changes))


def index_of(a: float, b: float) -> int:
    return WEIGHTS.index((a, b))


# --- What is foretold ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(5))
def test_every_row_held_back_is_foretold_as_by_a_naive_posterior_of_the_others(seed: int) -> None:
    rng = np.random.default_rng(seed)
    log = log_of([1.0, 0.3, -1.0, 0.5], rows=5, noise=0.3, seed=seed, known=bool(seed % 2))
    length, variance, noise, mean = (float(rng.uniform(0.2, 1.5)) for _ in range(4))
    A = rng.normal(size=(4, 3))
    matrices = [A @ A.T + np.diag(rng.uniform(0.1, 1.0, 4)), np.diag(rng.uniform(0.5, 2.0, 4)), np.ones((4, 4))]
    known, asked = log.take(np.arange(12)), log.take(np.arange(12, 20))
    found = foretold(known, asked, Learned(RBF(length, variance=variance), noise, mean), matrices)
    assert found.shape == (3, 8)

    def spread(rows: Samples) -> FloatArray:
        return noise + (np.zeros(len(rows)) if rows.noise is None else np.nan_to_num(rows.noise))

    data, kernel = naive.Data(known.tasks, known.X, known.y, spread(known)), naive.rbf(length, variance)
    for i, K_Z in enumerate(matrices):
        for j in range(8):
            point = asked.tasks[[j]], asked.X[[j]]
            centre = naive.posterior_mean(data, kernel, K_Z, *point, mean=mean)[0]
            deviation = np.sqrt(naive.posterior_variance(data, kernel, K_Z, *point)[0] + spread(asked)[j])
            assert found[i, j] == pytest.approx(np.log(statistics.NormalDist(centre, deviation).pdf(asked.y[j])))


def test_every_row_is_held_back_once_and_judged_by_the_other_half(monkeypatch: pytest.MonkeyPatch) -> None:
    log, turns = log_of([1.0, 1.0], rows=7), []

    def noted(known: Samples, asked: Samples, learned: Learned, matrices: Iterable[FloatArray]) -> FloatArray:
        turns.append((sorted(known.y), sorted(asked.y)))
        return foretold(known, asked, learned, matrices)

    monkeypatch.setattr(blended, "foretold", noted)
    estimator().fit(log)
    (first, second), (third, fourth) = turns
    assert (first, second) == (fourth, third)
    assert sorted([*first, *second]) == sorted(log.y)


def test_rows_that_repeat_without_noise_are_refused_with_the_remedy() -> None:
    log = log_of([1.0, 1.0], rows=6)
    same = replace(log, X=np.full_like(log.X, 0.5))
    with pytest.raises(NotPositiveDefiniteError, match="raise the noise"):
        foretold(same, log, Learned(KERNEL, 1e-25, 0.4), [np.ones((2, 2))])
    with pytest.raises(NotPositiveDefiniteError, match="raise"):
        estimator(regularisation=1e-25).fit(same)


# --- Weights and the rule -----------------------------------------------------------------------------------


def test_weights_leave_room_for_ones_own_rewards_and_go_down_to_nothing_shared() -> None:
    assert (0.0, 0.0) in WEIGHTS
    assert len(set(WEIGHTS)) == len(WEIGHTS)
    assert all(a >= 0 and b >= 0 and a + b <= MOST + 1e-9 for a, b in WEIGHTS)
    rng = np.random.default_rng(3)
    D = rng.normal(size=(5, 2))
    E = np.exp(-((D[:, None] - D) ** 2).sum(axis=2))
    for a, b in WEIGHTS:
        K_Z = blend(E, a, b)
        expected = [[1.0 if i == j else a + b * E[i, j] for j in range(5)] for i in range(5)]
        np.testing.assert_allclose(K_Z, expected, atol=1e-12)
        assert np.linalg.eigvalsh(K_Z).min() > 0.09  # a tenth is always a station's own


def scores_of(better: dict[int, float], *, n: int = 400, spread: float = 1.0) -> FloatArray:
    """Densities of n rows: all weights the same but those that are better, which differ row by row too."""
    rng = np.random.default_rng(5)
    base = rng.normal(size=n)
    scores = np.tile(base - 9.0, (len(WEIGHTS), 1))
    for i, gain in better.items():
        wave = spread * rng.normal(size=n)
        scores[i] = base + gain + wave - wave.mean()
    return scores


def test_the_least_sharing_within_one_standard_error_of_the_best_is_taken() -> None:
    much, little = index_of(0.8, 0.1), index_of(0.05, 0.1)
    for behind, expected in ((0.02, little), (0.3, much)):  # the error of a difference is some 1.4 / 20 = 0.07
        scores = scores_of({much: 0.0, little: -behind})
        error = statistics.stdev(scores[much] - scores[little]) / 20.0
        assert (behind < error) == (expected == little)
        assert least_sharing(scores) == expected


def test_of_two_that_share_as_much_the_better_is_taken() -> None:
    one, other = index_of(0.2, 0.0), index_of(0.0, 0.2)
    assert least_sharing(scores_of({one: 0.0, other: -0.01})) == one
    assert least_sharing(scores_of({one: -0.01, other: 0.0})) == other


def test_one_row_shows_nothing_and_rounding_is_no_difference() -> None:
    assert least_sharing(scores_of({index_of(0.9, 0.0): 5.0}, n=1)) == index_of(0.0, 0.0)
    scores = np.zeros((len(WEIGHTS), 50))
    scores[index_of(0.9, 0.0)] = 1e-14
    assert least_sharing(scores) == index_of(0.0, 0.0)


def test_the_standard_error_is_that_of_a_mean() -> None:
    values = np.random.default_rng(2).gamma(0.7, size=11)
    assert standard_error(values) == pytest.approx(statistics.stdev(values.tolist()) / 11**0.5)
    assert standard_error(values[:1]) == float("inf")


# --- Logs ---------------------------------------------------------------------------------------------------


def test_the_matrix_is_the_blend_that_the_details_name() -> None:
    log = log_of([1.0, 1.0, -1.0, -1.0, 0.4], rows=16, seed=2, known=True)
    found = estimator(sigma=0.7).fit(log)
    E = similarity_from("embedding", kernel=KERNEL, regularisation=NOISE, sigma=0.7).fit(log).matrix
    a, b = found.details["common"], found.details["alike"]
    np.testing.assert_allclose(found.matrix, a + b * E + (1 - a - b) * np.eye(5), atol=1e-12)
    assert (found.method, found.stations) == ("blended", log.stations)
    densities = found.details["log_predictive_density"]
    assert densities["chosen"] > densities["alone"] - 1e-12


def test_stations_with_the_same_rewards_share_much_and_opposite_ones_nothing() -> None:
    between = []
    for seed in range(4):
        alike = estimator(regularisation=0.3).fit(log_of(np.ones(8), rows=16, noise=0.3, seed=seed)).matrix
        opposite = estimator().fit(log_of([1.0, -1.0], rows=30, seed=seed)).matrix
        between.append((alike[np.triu_indices(8, 1)].mean(), opposite[0, 1]))
    alike_mean, opposite_mean = np.mean(between, axis=0)
    assert alike_mean > 0.5
    assert opposite_mean < 0.1


def test_two_kinds_of_stations_share_within_their_kind() -> None:
    log = log_of([1.0, -1.0] * 5, rows=14, noise=0.2, seed=3)
    found = estimator(regularisation=0.2).fit(log)
    kind = np.arange(10) % 2
    same = (kind[:, None] == kind) & ~np.eye(10, dtype=bool)
    assert found.details["alike"] > 0
    assert found.matrix[same].mean() > found.matrix[kind[:, None] != kind].mean() + 0.1


def test_without_two_rows_of_any_station_everyone_learns_alone() -> None:
    found = estimator().fit(log_of([1.0, 1.0, 1.0], rows=1))
    assert np.array_equal(found.matrix, np.eye(3))
    assert "log_predictive_density" not in found.details
    assert estimator().weigh(log_of([1.0, 1.0, 1.0], rows=1), np.ones((3, 3))) is None


def test_a_station_with_one_row_is_like_nobody_but_shares_what_all_have_in_common() -> None:
    log = log_of(np.ones(4), rows=20, noise=0.3, seed=4)
    log = log.take(np.flatnonzero((log.tasks < 3) | (np.arange(len(log)) < 4)))  # of the last, one row
    found = estimator(regularisation=0.3).fit(log)
    a = found.details["common"]
    assert found.details["common"] + found.details["alike"] > 0.3
    np.testing.assert_allclose(found.matrix[3, :3], a, atol=1e-12)
    assert np.all(found.matrix[:3, :3] >= a - 1e-12)


def test_a_station_without_rows_is_refused_in_a_log_and_borne_while_running() -> None:
    log = log_of(np.ones(3), rows=20, noise=0.3, seed=5)
    missing = log.take(log.tasks < 2)
    with pytest.raises(BadInputError, match="no rows of station 's2'"):
        estimator().fit(missing)
    found = estimator(regularisation=0.3).weigh(missing, np.diag([1.0, 1.0, 2.0]))
    assert found is not None
    np.testing.assert_allclose(found.matrix[2, :2], found.details["common"], atol=1e-12)


def test_one_station_alone_has_nobody_to_share_with() -> None:
    found = estimator().fit(log_of([1.0], rows=12))
    assert found.matrix.tolist() == [[1.0]]
    assert (found.details["common"], found.details["alike"]) == (0.0, 0.0)
    assert estimator().weigh(log_of([1.0], rows=12), np.ones((1, 1))) is None


# --- Many stations ------------------------------------------------------------------------------------------


def test_of_very_many_stations_only_what_all_have_in_common_is_weighed(monkeypatch: pytest.MonkeyPatch) -> None:
    log = log_of(np.ones(6), rows=12, noise=0.3, seed=6)
    alike = estimator(regularisation=0.3)
    few = alike.fit(log).details["log_predictive_density"]
    monkeypatch.setattr(blended, "_MANY", 5)
    found = alike.fit(log)
    a = found.details["common"]
    assert a > 0
    assert found.details["alike"] == 0.0
    np.testing.assert_allclose(found.matrix, a + (1 - a) * np.eye(6), atol=1e-12)
    assert found.details["log_predictive_density"]["alone"] == pytest.approx(few["alone"])  # alone is alone
    assert alike.weigh(log, np.eye(6)) is not None
    assert alike.weigh(log, found.matrix) is None


def test_no_more_rows_are_looked_at_than_said_however_many_stations(monkeypatch: pytest.MonkeyPatch) -> None:
    log, seen = log_of(np.ones(450), rows=5, noise=0.3, seed=7), []

    def noted(known: Samples, asked: Samples, learned: Learned, matrices: Iterable[FloatArray]) -> FloatArray:
        seen.append((len(known) + len(asked), np.bincount(np.append(known.tasks, asked.tasks), minlength=450)))
        return foretold(known, asked, learned, matrices)

    monkeypatch.setattr(blended, "foretold", noted)
    found = estimator(regularisation=0.3, max_rows=120).fit(log)
    for rows, counts in seen:
        assert rows == 120
        assert set(counts.tolist()) == {0, 4}
    assert found.matrix.shape == (450, 450)
    assert found.details["alike"] == 0.0


# --- A matrix in force --------------------------------------------------------------------------------------


def kinds(order: Any) -> FloatArray:
    kind = np.asarray(order)
    return np.asarray(np.where(kind[:, None] == kind, 0.8, 0.0) + 0.2 * np.eye(len(kind)))


def test_a_good_matrix_is_kept_and_one_that_mistakes_stations_is_replaced() -> None:
    truth = np.arange(10) % 2
    log = log_of(1.0 - 2.0 * truth, rows=16, noise=0.2, seed=8)
    weigher = estimator(regularisation=0.2)
    assert weigher.weigh(log, kinds(truth)) is None
    mistaken = truth.copy()
    mistaken[[0, 1, 4, 5]] = truth[[1, 0, 5, 4]]  # four stations under the wrong heading
    found = weigher.weigh(log, kinds(mistaken))
    assert found is not None
    same = (truth[:, None] == truth) & ~np.eye(10, dtype=bool)
    assert found.matrix[same].mean() > found.matrix[truth[:, None] != truth].mean()


def test_the_matrix_that_would_be_taken_is_not_better_than_itself() -> None:
    rng = np.random.default_rng(9)
    log = log_of(np.ones(3), rows=8, seed=9)
    unrelated = replace(log, y=rng.normal(size=len(log)))
    assert estimator().fit(unrelated).matrix.tolist() == np.eye(3).tolist()
    assert estimator().weigh(unrelated, np.eye(3)) is None  # nothing is shared, and nothing is to be


def test_the_mean_that_is_given_is_used() -> None:
    log = log_of([1.0, 1.0, 1.0], rows=12, noise=0.3, seed=10)
    shifted = replace(log, y=log.y + 50.0)
    plain, moved = estimator(mean=0.4).fit(log), estimator(mean=50.4).fit(shifted)
    np.testing.assert_allclose(moved.matrix, plain.matrix)
    assert moved.details["log_predictive_density"]["chosen"] == pytest.approx(
        plain.details["log_predictive_density"]["chosen"]
    )
    assert estimator(mean=0.0).fit(shifted).details["mean"] == 0.0
    assert Blended(KERNEL, regularisation=NOISE).fit(shifted).details["mean"] == pytest.approx(shifted.y.mean())


@pytest.mark.parametrize("seed", [2, 3])
def test_many_rows_are_weighed_by_the_best_few_and_say_what_all_would(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(seed)
    x, tasks = rng.uniform(size=(240, 1)), np.arange(240) % 6
    y = np.sin(5 * x[:, 0]) * np.where(tasks < 3, 1.0, -0.6) + 0.2 * rng.normal(size=240)
    log = Samples(tuple("abcdef"), tasks, x, y, None, ("load",))
    rule = Blended(RBF(0.4), regularisation=0.05, mean=0.1)
    tried: list[int] = []

    def counting(known: Samples, asked: Samples, learned: Learned, matrices: Iterable[FloatArray]) -> FloatArray:
        listed = list(matrices)
        tried.append(len(listed))
        return foretold(known, asked, learned, listed)

    monkeypatch.setattr(blended, "foretold", counting)
    everything = rule.weigh(log, np.ones((6, 6)))
    assert tried == [len(blended.WEIGHTS) + 1] * 2
    tried.clear()
    monkeypatch.setattr(blended, "_STAGES", ((90, 6), (150, 2)))
    some = rule.weigh(log, np.ones((6, 6)))
    assert tried == [len(blended.WEIGHTS) + 1] * 2 + [7, 7, 3, 3]  # fewer and fewer, each beside what is in force
    assert everything is not None
    assert some is not None
    np.testing.assert_array_equal(some.matrix, everything.matrix)
