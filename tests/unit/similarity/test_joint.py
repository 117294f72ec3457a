"""How much is shared, found with the rest: by hand, on logs whose answer is known, and at the edges."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from kinband.errors import BadInputError
from kinband.kernels import RBF, Categorical, Constant, Linear, Product, Sum
from kinband.likelihood import LENGTH, LEVEL, starting_kernel
from kinband.records import Samples
from kinband.similarity import Joint, TaskMatrix
from kinband.similarity.base import with_variance, without_level
from kinband.similarity.joint import _halves, centred
from kinband.similarity.matrix import sharing_text


def log_of(signs: Any, *, rows: int = 20, seed: int = 1, noise: float = 0.1) -> Samples:
    """Stations whose rewards are some multiple of the same wave."""
    rng, signs = np.random.default_rng(seed), np.asarray(signs, dtype=float)
    tasks = np.tile(np.arange(len(signs)), rows)
    X = rng.uniform(size=(len(tasks), 1))
    y = 0.4 + signs[tasks] * np.sin(7.0 * X[:, 0]) + noise * rng.normal(size=len(tasks))
    return Samples(tuple(f"s{m}" for m in range(len(signs))), tasks, X, y, None, ("load",))


def unrelated(M: int, *, rows: int = 20, seed: int = 1) -> Samples:
    """Stations with waves of their own."""
    rng = np.random.default_rng(seed)
    log = log_of(np.ones(M), rows=rows, seed=seed)
    phase, pace = rng.uniform(0.0, 2.0 * np.pi, M)[log.tasks], rng.uniform(4.0, 10.0, M)[log.tasks]
    return replace(log, y=np.sin(pace * log.X[:, 0] + phase) + 0.1 * rng.normal(size=len(log)))


def parts(found: TaskMatrix) -> tuple[float, float, float]:
    return found.details["shared"], found.details["similar"], found.details["own"]


def pairs(found: TaskMatrix) -> Any:
    return found.matrix[np.triu_indices(len(found), 1)]


# --- Logs whose answer is known ---------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
def test_stations_alike_share_much_and_unrelated_ones_little(seed: int) -> None:
    alike, apart = Joint().fit(log_of([1.0, 1.0, 1.0], seed=seed)), Joint().fit(unrelated(6, seed=seed))
    assert alike.method == apart.method == "joint"
    assert pairs(alike).min() > 0.7
    assert pairs(apart).mean() < 0.35
    for found in (alike, apart):
        assert sum(parts(found)) == pytest.approx(1.0)
        np.testing.assert_allclose(np.diagonal(found.matrix), 1.0)


@pytest.mark.parametrize("seed", range(3))
def test_opposed_groups_are_told_apart(seed: int) -> None:
    found = Joint().fit(log_of([1.0, 1.0, 1.0, -1.0, -1.0, -1.0], seed=seed))
    between = [found.between(a, b) for a in ("s0", "s1", "s2") for b in ("s3", "s4", "s5")]
    within = [found.between(a, b) for a, b in (("s0", "s1"), ("s1", "s2"), ("s3", "s4"), ("s4", "s5"))]
    assert np.mean(between) < 0.0 < np.mean(within)
    assert min(within) > max(between)
    assert np.mean(within) > np.mean(between) + 0.2
    assert Joint().fit(log_of([1.0, -1.0], seed=seed)).between("s0", "s1") < 0.2  # two are too few to be compared


def test_who_is_alike_counts_as_far_as_two_halves_of_the_rows_agree_on_it() -> None:
    def weight(log: Samples) -> float:
        _, similar, own = parts(Joint().fit(log))
        return similar / (similar + own)

    opposed = np.resize([1.0, -1.0], 12)
    assert weight(log_of(opposed, rows=40)) > 0.7
    assert weight(log_of(np.ones(12), rows=6, noise=0.5)) < 0.3  # all the same: what differs is chance
    assert weight(log_of(opposed, rows=3, noise=0.5)) < weight(log_of(opposed, rows=40))


def test_halves_part_the_rows_of_every_station() -> None:
    tasks = np.array([2, 0, 2, 1, 2, 0, 0, 2, 0, 2])
    log = Samples(("a", "b", "c"), tasks, np.arange(10.0)[:, None], np.zeros(10), None, ("load",))
    first, second = _halves(log, np.random.default_rng(3))
    assert sorted([*first, *second]) == list(range(10))
    assert np.bincount(tasks[first], minlength=3).tolist() == [2, 0, 2]


def test_rows_that_repeat_a_context_are_in_the_same_half() -> None:
    rng = np.random.default_rng(4)
    tasks, x = rng.integers(0, 3, 60), rng.integers(0, 4, 60).astype(np.float64)
    log = Samples(("a", "b", "c"), tasks, x[:, None], np.zeros(60), None, ("tilt",))
    first, second = (set(zip(tasks[half], x[half], strict=True)) for half in _halves(log, rng))
    assert not first & second
    assert first
    assert second


def test_nobody_is_compared_by_one_setting_of_each() -> None:
    tasks = np.repeat(np.arange(6), 30)
    y = 0.1 * tasks + 0.05 * np.random.default_rng(5).normal(size=180)
    log = Samples(tuple("abcdef"), tasks, (tasks % 3)[:, None].astype(np.float64), y, None, ("tilt",))
    assert parts(Joint().fit(log))[1] == 0.0


def test_the_matrix_is_made_of_the_parts_that_the_details_name() -> None:
    E: Any = 0.2 + 0.8 * np.kron(np.eye(2), np.ones((2, 2)))
    found = Joint(E).fit(log_of([1.0, 1.0, -1.0, -1.0]))
    shared, similar, own = parts(found)
    np.testing.assert_allclose(found.matrix, shared + similar * centred(E) + own * np.eye(4), atol=1e-12)
    assert found.between("s0", "s1") > 0.3 > 0.0 > found.between("s0", "s2")
    named = Joint(TaskMatrix(found.stations, E, "given")).fit(log_of([1.0, 1.0, -1.0, -1.0]))
    np.testing.assert_array_equal(named.matrix, found.matrix)


def test_a_given_similarity_must_fit_the_log() -> None:
    with pytest.raises(BadInputError, match="each of 2 stations, got 3"):
        Joint(np.eye(3)).fit(log_of([1.0, 1.0]))


def test_the_same_seed_finds_the_same_bits() -> None:
    log = log_of(np.ones(5), rows=24, noise=0.4)
    first, second = Joint(seed=4).fit(log), Joint(seed=4).fit(log)
    np.testing.assert_array_equal(first.matrix, second.matrix)
    assert first.details == second.details


def test_habits_are_not_taken_for_similarity() -> None:
    rng = np.random.default_rng(6)
    tasks, load = np.repeat(np.arange(8), 40), rng.random(320)
    arms = tasks % 2  # half of the stations ran the one setting, half the other, for months
    y = np.where(arms == 1, np.sin(5 * load), -np.sin(5 * load)) + 0.1 * rng.normal(size=320)
    log = Samples(tuple("abcdefgh"), tasks, np.column_stack([load, arms]), y, None, ("load", "arm"), (1,), arms=arms)
    assert parts(Joint().fit(log))[1] == 0.0


# --- Edges ------------------------------------------------------------------------------------------------------


def test_one_station_has_only_itself() -> None:
    assert Joint().fit(log_of([1.0])).matrix.tolist() == [[1.0]]


@pytest.mark.parametrize("rows", [0, 1])
def test_a_station_with_hardly_any_rows_shares_what_all_have_in_common(rows: int) -> None:
    log = log_of(np.ones(4))
    kept = (log.tasks < 3) | ((log.tasks == 3) & (np.arange(len(log)) < 4 * rows))
    found = Joint().fit(log.take(np.flatnonzero(kept)))
    assert found.stations == log.stations
    np.testing.assert_allclose(found.matrix[3, :3], found.details["shared"], atol=1e-12)
    assert found.details["shared"] > 0.5


def test_a_row_of_each_and_constant_rewards_are_borne() -> None:
    few = Joint().fit(log_of(np.ones(3), rows=1))
    assert few.details["similar"] == 0.0
    constant = log_of(np.ones(4))
    found = Joint().fit(replace(constant, y=np.full(len(constant), 0.5)))
    assert np.linalg.eigvalsh(found.matrix).min() > 0
    assert sum(parts(found)) == pytest.approx(1.0)


# --- What it is made of -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(5))
def test_centred_similarity_is_a_correlation_that_forgets_what_all_share(seed: int) -> None:
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(6, 3))
    E = np.exp(-0.3 * ((A[:, None] - A) ** 2).sum(axis=2))
    R = centred(E)
    np.testing.assert_allclose(np.diagonal(R), 1.0)
    np.testing.assert_allclose(R, R.T, atol=1e-12)
    assert np.linalg.eigvalsh(R).min() > -1e-12
    np.testing.assert_allclose(centred(0.4 * E + 0.6), R, atol=1e-9)  # a common part changes nothing
    # By hand: subtract row and column means, divide by the roots of the diagonal, put a sixth back.
    C = E - E.mean(axis=0) - E.mean(axis=1)[:, None] + E.mean()
    root = np.sqrt(np.diagonal(C))
    expected = 5 / 6 * C / root / root[:, None] + 1 / 6
    np.testing.assert_allclose(R[~np.eye(6, dtype=bool)], expected[~np.eye(6, dtype=bool)], atol=1e-12)


def test_stations_that_are_all_the_same_are_unrelated_beyond_that() -> None:
    R = centred(np.ones((3, 3)))
    np.testing.assert_allclose(R[~np.eye(3, dtype=bool)], 1 / 3)
    np.testing.assert_allclose(np.diagonal(R), 1.0)


def test_a_search_begins_with_a_level_in_the_units_of_the_log() -> None:
    rng = np.random.default_rng(3)
    X = np.column_stack([rng.normal(0.0, 40.0, 50), rng.normal(0.0, 0.2, 50), rng.integers(0, 3, 50)])
    y = rng.normal(7.0, 3.0, 50)
    log = Samples(("a",), np.zeros(50, dtype=np.int64), X, y, None, ("users", "load", "vendor"), (2,))
    kernel = starting_kernel(log)
    shape, level = without_level(kernel), kernel(X[:1], X[:1] + 1e9)[0, 0]
    assert level == pytest.approx(LEVEL * y.var())  # what is left between rows that have nothing in common
    assert shape(X[:1], X[:1])[0, 0] == pytest.approx(y.var())
    apart = X[:1] + np.array([[X[:, 0].std(), 0.0, 0.0]])
    assert shape(X[:1], apart)[0, 0] == pytest.approx(y.var() * np.exp(-0.5 / (3 * LENGTH**2)))
    codes = Samples(("a",), log.tasks, X[:, 2:], y, None, ("vendor",), (0,))
    assert isinstance(without_level(starting_kernel(codes)), Categorical)
    assert np.isfinite(starting_kernel(log).bounds).all()


def test_the_level_is_taken_off_where_there_is_one() -> None:
    wave, level = RBF(0.7, variance=2.0), Constant(0.3)
    assert without_level(wave) == wave
    assert without_level(wave + level) == wave
    assert without_level(wave + Linear()) == wave + Linear()
    assert without_level(Product(wave + level, wave)) == Product(wave, wave)


@pytest.mark.parametrize("factor", [0.3, 4.0])
def test_the_terms_of_a_sum_are_scaled_together_and_keep_their_ratio(factor: float) -> None:
    kernel = RBF(0.7, variance=2.0) * Categorical(0.9, columns=(1,)) + Constant(0.5)
    X = np.array([[0.1, 0.0], [0.6, 1.0], [0.9, 0.0]])
    np.testing.assert_allclose(with_variance(kernel, factor)(X, X), factor * kernel(X, X))
    fixed = with_variance(kernel, factor, fixed=True)
    np.testing.assert_allclose(fixed(X, X), factor / 2.0 * kernel(X, X))
    assert isinstance(fixed, Sum)
    assert "rbf.variance" not in fixed.names
    assert "constant.variance" in fixed.names  # the ratio may still move


def test_words_are_said_where_the_shares_are_known() -> None:
    said = sharing_text({"shared": 0.5, "similar": 0.375, "own": 0.125, "rows": 3})
    assert said == "Stations share 50 % of what is learned with all, 38 % with similar stations; 12 % is their own."
    assert sharing_text({}) == sharing_text({"shared": 0.5}) == ""
