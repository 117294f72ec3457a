"""Sharing that is weighed: densities, weights and moments of the mixture against naive witnesses; bits in replay."""

import math
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.reference import naive

from kinband.arrays import FloatArray, IntArray
from kinband.errors import BadInputError, CannotCorrectError, NotPositiveDefiniteError
from kinband.kernels import RBF
from kinband.posterior import (
    ExactPosterior,
    GroupedPosterior,
    SparsePosterior,
    SwitchingPosterior,
    WeighedPosterior,
    make_posterior,
)
from kinband.posterior.contract import Question
from kinband.posterior.weighing import SharingWeights
from kinband.posterior.weighing.weights import FORGOTTEN

some = settings(max_examples=25, deadline=None, derandomize=True)
few = settings(max_examples=10, deadline=None, derandomize=True)
ENGINES = ["exact", "auto", "sparse"]


@dataclass(frozen=True)
class Case:
    """Hyper-parameters, rewards in their order, and contexts to ask about."""

    lengths: list[float]
    variance: float
    K_Z: FloatArray
    noise: float
    mean: float
    tasks: IntArray
    X: FloatArray
    y: FloatArray
    noises: FloatArray
    asked_tasks: IntArray
    asked: FloatArray

    @property
    def kernel(self) -> RBF:
        return RBF(self.lengths, variance=self.variance)

    @property
    def k(self) -> naive.Kernel:
        return naive.ard_rbf(self.lengths, self.variance)

    @property
    def own(self) -> FloatArray:
        return np.diag(np.diagonal(self.K_Z))

    def rows(self, stop: int, *, task: int | None = None) -> naive.Data:
        """The first rows, or those of one task among them."""
        kept = np.flatnonzero((np.arange(len(self.y)) < stop) & ((task is None) | (self.tasks == task)))
        return naive.Data(self.tasks[kept], self.X[kept], self.y[kept], self.noises[kept])

    def weighed(self, engine: str = "exact", *, budget: int = 60) -> WeighedPosterior:
        pair: Any = [
            make_posterior(self.kernel, K, noise=self.noise, mean=self.mean, engine=engine, budget=budget)
            for K in (self.K_Z, self.own)
        ]
        return WeighedPosterior(*pair)

    def tell(self, posterior: Any, rows: range) -> Any:
        for i in rows:
            posterior.update(self.tasks[[i]], self.X[[i]], self.y[[i]], noise=self.noises[[i]])
        return posterior

    def block(self, posterior: Any, stop: int | None = None) -> Any:
        posterior.update(self.tasks[:stop], self.X[:stop], self.y[:stop], noise=self.noises[:stop])
        return posterior


def case_of(seed: int, *, rows: int = 24, M: int | None = None, apart: bool = False, short: bool = False) -> Case:
    """A drawn problem; with `apart` some stations share nothing with the others, with `short` no two contexts are near.

    A sparse posterior absorbs a context that others leave less than a millionth of open; it then is not the exact one.
    """
    rng = np.random.default_rng([seed, 31])
    M, d = M or int(rng.integers(2, 5)), 3 if short else int(rng.integers(1, 3))
    longest = 0.4 if short else 1.5
    B = rng.normal(size=(M, 2))
    K_Z = B @ B.T + np.diag(rng.uniform(0.1, 0.9, size=M))
    group = rng.integers(0, 2, size=M) if apart else np.zeros(M)
    K_Z = np.where(group[:, None] == group, K_Z, 0.0)
    variance, noise = float(rng.uniform(0.3, 3.0)), float(rng.uniform(0.02, 0.4))
    return Case(
        [float(v) for v in rng.uniform(0.2, longest, size=d)], variance, K_Z, noise, float(rng.normal()),
        rng.integers(0, M, size=rows), rng.uniform(-1, 1, size=(rows, d)), rng.normal(0.4, 1.2, size=rows),
        noise * rng.uniform(0.5, 3.0, size=rows), rng.integers(0, M, size=7), rng.uniform(-1, 1, size=(7, d)),
    )  # fmt: skip


def density(case: Case, i: int, K_Z: FloatArray, *, task: int | None = None) -> float:
    """Log density of reward i given those before it, from scratch."""
    data = case.rows(i, task=task)
    point = case.tasks[[i]], case.X[[i]]
    mean = naive.posterior_mean(data, case.k, K_Z, *point, mean=case.mean)[0]
    variance = naive.posterior_variance(data, case.k, K_Z, *point)[0] + case.noises[i]
    return float(-0.5 * math.log(2 * math.pi * variance) - 0.5 * (case.y[i] - mean) ** 2 / variance)


def naive_weights(case: Case, stop: int) -> list[float]:
    """The weights after some rewards: odds by the ratio of densities, then a little back to the fleet's."""
    weights: dict[int, float] = {}
    fleet = 0.5
    for i in range(stop):
        task = int(case.tasks[i])
        ratio = math.exp(density(case, i, case.K_Z) - density(case, i, case.K_Z, task=task))
        w = weights.get(task, fleet)
        w = w * ratio / (w * ratio + 1 - w)
        weights[task] = (1 - FORGOTTEN) * w + FORGOTTEN * fleet
        fleet = (0 + 1 + sum(weights.values())) / (2 + len(weights))
    return [weights.get(m, fleet) for m in range(len(case.K_Z))]


def moments(case: Case, weights: list[float], tasks: IntArray, X: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Mean and covariance of f where every station is one of those that share or not, all ways counted."""
    data = case.rows(len(case.y))
    both = {}
    for kind, K in ((1, case.K_Z), (0, case.own)):
        mean = naive.posterior_mean(data, case.k, K, tasks, X, mean=case.mean)
        both[kind] = mean, naive.posterior_covariance(data, case.k, K, tasks, X)
    first, second = np.zeros(len(X)), np.zeros((len(X), len(X)))
    for kinds in product((0, 1), repeat=len(weights)):
        chance = math.prod(w if kind else 1 - w for kind, w in zip(kinds, weights, strict=True))
        of = np.array([kinds[task] for task in tasks])
        mean = np.where(of, both[1][0], both[0][0])
        C = np.where(np.outer(of, of), both[1][1], np.where(np.outer(1 - of, 1 - of), both[0][1], 0.0))
        first += chance * mean
        second += chance * (C + np.outer(mean, mean))
    return first, second - np.outer(first, first)


# --- What was foretold --------------------------------------------------------------------------------------


def engines_of(case: Case) -> dict[str, Any]:
    given: dict[str, Any] = {"noise": case.noise, "mean": case.mean}
    return {
        "exact": ExactPosterior(case.kernel, case.K_Z, **given),
        "grouped": GroupedPosterior(case.kernel, case.K_Z, **given),
        "switching": SwitchingPosterior(case.kernel, case.K_Z, rows=500, **given),
        "sparse": SparsePosterior(case.kernel, case.K_Z, budget=100, **given),
    }


@some
@given(seed=st.integers(0, 10_000), cut=st.integers(0, 14))
def test_every_engine_foretells_with_the_density_of_a_posterior_from_scratch(seed: int, cut: int) -> None:
    case = case_of(seed, rows=15, apart=True, short=True)
    expected = np.array([density(case, i, case.K_Z) for i in range(15)])
    for name, posterior in engines_of(case).items():
        one_by_one = []
        for i in range(15):
            case.tell(posterior, range(i, i + 1))
            one_by_one.append(posterior.foretold(1)[0])
        np.testing.assert_allclose(one_by_one, expected, rtol=1e-8, atol=1e-8, err_msg=name)
    for name, posterior in engines_of(case).items():
        if name != "sparse":  # which chooses its points with the whole block in view
            case.tell(posterior, range(cut))
            rest = slice(cut, None)
            posterior.update(case.tasks[rest], case.X[rest], case.y[rest], noise=case.noises[rest])
            np.testing.assert_allclose(posterior.foretold(15 - cut), expected[cut:], rtol=1e-8, atol=1e-8, err_msg=name)


def test_densities_are_read_across_panels_of_the_factor() -> None:
    case = case_of(3, rows=270)
    posterior = case.block(ExactPosterior(case.kernel, case.K_Z, noise=case.noise, mean=case.mean))
    for count in (0, 1, 13, 14, 15, 141, 142, 143, 270):
        found = posterior.foretold(count)
        assert len(found) == count
        assert np.array_equal(found, posterior.foretold(270)[270 - count :])
    # All of them together are the marginal likelihood, whatever the order they are taken in.
    K = naive.multitask_gram(case.k, case.K_Z, case.tasks, case.X, case.tasks, case.X) + np.diag(case.noises)
    r = case.y - case.mean
    whole = -0.5 * (r @ np.linalg.solve(K, r) + np.linalg.slogdet(K)[1] + 270 * math.log(2 * math.pi))
    assert posterior.foretold(270).sum() == pytest.approx(whole)


def test_a_sparse_posterior_does_not_claim_to_have_foretold_the_block_it_began_with() -> None:
    case = case_of(4, rows=12)
    posterior = SparsePosterior(case.kernel, case.K_Z, noise=case.noise, mean=case.mean, budget=50)
    case.block(posterior, 8)
    assert np.isnan(posterior.foretold(8)).all()
    case.tell(posterior, range(8, 9))
    found = posterior.foretold(3)
    assert np.isnan(found[:2]).all()
    assert found[2] == pytest.approx(density(case, 8, case.K_Z))
    weighed = case.block(case.weighed("sparse"), 8)
    assert weighed.weights.of(np.arange(len(case.K_Z))).tolist() == [0.5] * len(case.K_Z)


@few
@given(seed=st.integers(0, 10_000))
def test_handing_over_to_the_sparse_posterior_foretells_the_reward_that_it_happened_at(seed: int) -> None:
    case = case_of(seed, rows=12, short=True)
    given: dict[str, Any] = {"noise": case.noise, "mean": case.mean}
    posterior = SwitchingPosterior(case.kernel, case.K_Z, rows=11, budget=40, quiet=True, **given)
    case.tell(posterior, range(12))
    assert posterior.is_sparse
    assert posterior.foretold(1)[0] == pytest.approx(density(case, 11, case.K_Z), rel=1e-7)  # forty points hold it all


# --- Weights ------------------------------------------------------------------------------------------------


@some
@given(seed=st.integers(0, 10_000), engine=st.sampled_from(ENGINES), rows=st.integers(0, 16))
def test_weights_follow_the_naive_recursion(seed: int, engine: str, rows: int) -> None:
    case = case_of(seed, rows=16, apart=bool(seed % 2), short=engine == "sparse")
    posterior = case.tell(case.weighed(engine), range(rows))
    found = posterior.weights.of(np.arange(len(case.K_Z)))
    np.testing.assert_allclose(found, naive_weights(case, rows), rtol=1e-7, atol=1e-9)


@some
@given(seed=st.integers(0, 10_000), size=st.floats(0.1, 1e4))
def test_weights_stay_between_nothing_and_all_however_sure_the_evidence(seed: int, size: float) -> None:
    rng = np.random.default_rng(seed)
    weights = SharingWeights(3)
    for _ in range(40):
        weights.tell(rng.integers(0, 3, size=2), size * rng.normal(size=2))
        found = weights.of(np.arange(3))
        assert np.all((found > 0.0) & (found < 1.0))
        assert 0.0 < weights.fleet < 1.0


def test_a_station_can_resume_borrowing_and_one_without_rewards_follows_the_fleet() -> None:
    weights = SharingWeights(3)
    for _ in range(60):
        weights.tell(np.array([0, 1]), np.array([-2.0, -2.0]))
    assert max(weights.of(np.array([0, 1, 2]))) < 0.4
    low = float(weights.of(0))
    assert weights.of(2) == weights.fleet
    for _ in range(8):
        weights.tell(np.array([0]), np.array([1.5]))
    assert low < 0.05
    assert weights.of(0) > 0.9


# --- The mixture --------------------------------------------------------------------------------------------


@some
@given(seed=st.integers(0, 10_000), M=st.integers(2, 3))
def test_predictions_are_the_moments_of_the_mixture_with_all_ways_counted(seed: int, M: int) -> None:
    case = case_of(seed, rows=10, M=M)
    posterior = case.tell(case.weighed(), range(10))
    weights = [float(posterior.weights.of(m)) for m in range(M)]
    mean, C = moments(case, weights, case.asked_tasks, case.asked)
    scale = case.variance * case.K_Z.diagonal().max()
    found = posterior.predict(case.asked_tasks, case.asked)
    np.testing.assert_allclose(found.mean, mean, atol=1e-8 * (1 + scale))
    np.testing.assert_allclose(found.width**2, np.diagonal(C), atol=1e-8 * (1 + scale))
    covariance = posterior.covariance(case.asked_tasks, case.asked)
    np.testing.assert_allclose(covariance, C, atol=1e-8 * (1 + scale))
    assert np.linalg.eigvalsh(covariance).min() > -1e-9 * (1 + scale)


def test_the_moments_are_those_of_drawn_functions() -> None:
    case, rng = case_of(5, rows=10, M=2), np.random.default_rng(0)
    posterior = case.tell(case.weighed(), range(10))
    tasks, X, data = np.array([0, 0, 1]), case.asked[:3], case.rows(10)
    w = np.array([float(posterior.weights.of(m)) for m in tasks])
    draws = []
    for K in (case.K_Z, case.own):
        mean = naive.posterior_mean(data, case.k, K, tasks, X, mean=case.mean)
        draws.append(rng.multivariate_normal(mean, naive.posterior_covariance(data, case.k, K, tasks, X), size=60_000))
    chance = rng.random((60_000, 2))[:, tasks]  # one draw a station, whatever the context
    f = np.where(chance < w, draws[0], draws[1])
    spread = f.std(axis=0)
    found, C = posterior.predict(tasks, X), posterior.covariance(tasks, X)
    np.testing.assert_allclose(found.mean, f.mean(axis=0), atol=5 * spread.max() / math.sqrt(60_000))
    np.testing.assert_allclose(C, np.cov(f.T), atol=8 * spread.max() ** 2 / math.sqrt(60_000))


@some
@given(seed=st.integers(0, 10_000), engine=st.sampled_from(ENGINES), apart=st.booleans())
def test_questions_give_the_same_as_contexts_and_hang_together_as_the_covariance_says(
    seed: int, engine: str, apart: bool
) -> None:
    case = case_of(seed, apart=apart)
    posterior = case.tell(case.weighed(engine), range(len(case.y)))
    M = len(case.K_Z)
    arms = [np.array([0, 2, 3]), np.array([1]), np.array([0, 1, 2, 3, 4]), np.array([2, 4])]
    questions = [Question(task % M, case.asked[:5], chosen) for task, chosen in enumerate(arms)]
    questions.append(Question(0, case.asked[2:], np.array([0, 4])))  # the first station a second time
    tasks = np.concatenate([np.full(len(q.arms), q.task) for q in questions])
    X = np.concatenate([q.X[q.arms] for q in questions])
    found, C = posterior.predict(tasks, X), posterior.covariance(tasks, X)
    together = posterior.predict_together(questions)
    for predictions in (posterior.predict_arms(questions), together.predictions):
        np.testing.assert_allclose(np.concatenate([p.mean for p in predictions]), found.mean, atol=1e-9)
        np.testing.assert_allclose(np.concatenate([p.width for p in predictions]), found.width, atol=1e-9)
        assert [p.sharing for p in predictions] == [float(posterior.weights.of(q.task)) for q in questions]
    assert together.ends.tolist() == np.cumsum([len(q.arms) for q in questions]).tolist()
    for i, q in enumerate(questions):
        start = int(together.ends[i]) - len(q.arms)
        mine = slice(start, start + len(q.arms))
        np.testing.assert_allclose(together.within(i), C[mine, mine], atol=1e-8)
        np.testing.assert_allclose(together.with_all(i, len(q.arms) - 1), C[start + len(q.arms) - 1], atol=1e-8)


def test_where_two_beliefs_disagree_the_width_says_so() -> None:
    case = replace(case_of(1, M=2), K_Z=np.array([[1.0, 0.95], [0.95, 1.0]]))
    posterior = case.weighed()
    x = np.zeros((1, case.X.shape[1]))
    for _ in range(3):
        posterior.update([1], x, [3.0])
    posterior.update([0], x, [-1.0])  # the first reward that speaks against them
    w, found = float(posterior.weights.of(0)), posterior.predict([0], x)
    apart = abs(posterior.shared.predict([0], x).mean[0] - posterior.own.predict([0], x).mean[0])
    assert 0.0 < w < 0.5
    assert found.width[0] >= math.sqrt(w * (1 - w)) * apart


def test_samples_have_the_moments_they_are_drawn_from() -> None:
    case = case_of(8, rows=12, M=3)
    posterior = case.tell(case.weighed(), range(12))
    draws = posterior.sample(case.asked_tasks, case.asked, size=40_000, rng=np.random.default_rng(1))
    found, C = posterior.predict(case.asked_tasks, case.asked), posterior.covariance(case.asked_tasks, case.asked)
    np.testing.assert_allclose(draws.mean(axis=0), found.mean, atol=5 * found.width.max() / 200)
    np.testing.assert_allclose(np.cov(draws.T), C, atol=8 * found.width.max() ** 2 / 200)


# --- Learning -----------------------------------------------------------------------------------------------


def same(one: WeighedPosterior, other: WeighedPosterior) -> None:
    mine, theirs = one.state(), other.state()
    assert mine.keys() == theirs.keys()
    for name in mine:
        assert np.array_equal(mine[name], theirs[name], equal_nan=True), name


@some
@given(seed=st.integers(0, 10_000), cut=st.integers(1, 23), apart=st.booleans())
def test_blocks_and_single_rows_teach_the_same(seed: int, cut: int, apart: bool) -> None:
    case = case_of(seed, apart=apart)
    rows = case.tell(case.weighed(), range(24))
    blocks = case.block(case.weighed(), cut)
    blocks.update(case.tasks[cut:], case.X[cut:], case.y[cut:], noise=case.noises[cut:])
    everyone = np.arange(len(case.K_Z))
    np.testing.assert_allclose(blocks.weights.of(everyone), rows.weights.of(everyone), atol=1e-9)
    for one, other in ((rows, blocks),):
        mine, theirs = (p.predict(case.asked_tasks, case.asked) for p in (one, other))
        np.testing.assert_allclose(mine.mean, theirs.mean, atol=1e-9)
        np.testing.assert_allclose(mine.width, theirs.width, atol=1e-9)
    assert len(rows) == len(blocks) == 24


@some
@given(seed=st.integers(0, 10_000), engine=st.sampled_from(ENGINES), apart=st.booleans())
def test_stored_and_learned_anew_it_goes_on_bit_for_bit(seed: int, engine: str, apart: bool) -> None:
    case = case_of(seed, apart=apart)
    first, again = (case.tell(case.weighed(engine, budget=8), range(15)) for _ in range(2))
    same(first, again)
    taken = case.weighed(engine, budget=8)
    taken.restore({name: array.copy() for name, array in first.state().items()})
    for posterior in (first, again, taken):
        posterior.predict(case.asked_tasks, case.asked)  # asking changes nothing
        case.tell(posterior, range(15, 24))
    same(first, again)
    same(first, taken)
    found, theirs = (p.predict(case.asked_tasks, case.asked) for p in (first, taken))
    assert np.array_equal(found.mean, theirs.mean)
    assert np.array_equal(found.width, theirs.width)


@some
@given(seed=st.integers(0, 10_000), engine=st.sampled_from(ENGINES), before=st.integers(0, 12))
def test_tasks_that_come_later_change_nothing_for_those_there_are(seed: int, engine: str, before: int) -> None:
    case = case_of(seed, M=4, short=engine == "sparse")
    early = replace(case, K_Z=case.K_Z[:2, :2], tasks=case.tasks % 2, asked_tasks=case.asked_tasks % 2)
    posterior = early.tell(early.weighed(engine), range(before))
    found = posterior.predict(early.asked_tasks, early.asked)
    fleet = posterior.weights.fleet
    posterior.extend_tasks(case.K_Z)
    after = posterior.predict(early.asked_tasks, early.asked)
    np.testing.assert_allclose(after.mean, found.mean, atol=1e-10)
    np.testing.assert_allclose(after.width, found.width, atol=1e-10)
    assert posterior.weights.of(np.array([2, 3])).tolist() == [fleet, fleet]
    # From here on it is as if they had been there from the start.
    whole = replace(case, tasks=np.append(case.tasks[:before] % 2, case.tasks[before:]))
    whole.tell(posterior, range(before, 24))
    always = whole.tell(whole.weighed(engine), range(24))
    np.testing.assert_allclose(
        posterior.weights.of(np.arange(4)), always.weights.of(np.arange(4)), rtol=1e-7, atol=1e-9
    )
    np.testing.assert_allclose(
        posterior.predict(case.asked_tasks, case.asked).mean, always.predict(case.asked_tasks, case.asked).mean,
        atol=1e-7,
    )  # fmt: skip


def test_a_matrix_that_does_not_begin_with_the_present_one_is_refused() -> None:
    case = case_of(2, M=3)
    posterior = case.tell(case.weighed(), range(5))
    before = posterior.state()
    with pytest.raises(BadInputError, match="leave the likeness"):
        posterior.extend_tasks(2.0 * np.eye(4))
    assert all(np.array_equal(before[name], array) for name, array in posterior.state().items())
    assert len(posterior.weights) == 3


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    "wrong",
    [{"tasks": [9]}, {"X": [[0.1] * 9]}, {"y": [float("nan")]}, {"noise": [-0.1]}, {"y": [0.1, 0.2]}],
    ids=["task", "width", "reward", "noise", "length"],
)
def test_a_refused_update_leaves_everything_as_it_was(engine: str, wrong: dict[str, Any]) -> None:
    case = case_of(6)
    posterior = case.tell(case.weighed(engine), range(9))
    before = posterior.state()
    given: dict[str, Any] = {"tasks": case.tasks[[9]], "X": case.X[[9]], "y": case.y[[9]], "noise": None}
    with pytest.raises(BadInputError):
        posterior.update(**(given | wrong))
    after = posterior.state()
    assert before.keys() == after.keys()
    assert all(np.array_equal(before[name], after[name]) for name in before)


def test_lost_positive_definiteness_leaves_both_posteriors_as_they_were() -> None:
    pair: Any = [
        make_posterior(RBF(0.7, variance=1.7), K, noise=0.1) for K in (np.array([[1.0, 1.0], [1.0, 1.0]]), np.eye(2))
    ]
    posterior = WeighedPosterior(*pair)
    posterior.update([0], [[0.3]], [0.5], noise=1e-20)
    before = posterior.state()
    for tasks in ([1], [1, 0]):  # to the shared one they are the same context once more, to their own they are new
        with pytest.raises(NotPositiveDefiniteError):
            posterior.update(tasks, [[0.3]] * len(tasks), [0.4] * len(tasks), noise=1e-20)
        after = posterior.state()
        assert all(np.array_equal(before[name], after[name]) for name in before)
        assert len(posterior.own) == len(posterior.shared) == 1


def test_nothing_told_is_nothing_learned_and_no_reward_can_be_put_right_in_place() -> None:
    case = case_of(7)
    posterior = case.tell(case.weighed(), range(4))
    before = posterior.state()
    posterior.update(case.tasks[:0], case.X[:0], case.y[:0])
    assert all(np.array_equal(before[name], array) for name, array in posterior.state().items())
    with pytest.raises(CannotCorrectError, match="learn the corrected log anew"):
        posterior.correct(0, 0.5)
    with pytest.raises(CannotCorrectError, match="learn the corrected log anew"):
        posterior.remove(0)


@pytest.mark.parametrize("seed", range(3))
def test_columns_solved_while_asking_teach_the_same_bits_as_none(seed: int) -> None:
    case = case_of(seed, rows=140)
    asked, told = case.block(case.weighed(), 130), case.block(case.weighed(), 130)
    for i in range(130, 140):
        columns = asked.columns(case.tasks[[i]], case.X[[i]])
        asked.update(case.tasks[[i]], case.X[[i]], case.y[[i]], noise=case.noises[[i]], column=columns[0])
        kept = type(columns[0]).recall(columns[0].memo)
        told.update(case.tasks[[i]], case.X[[i]], case.y[[i]], noise=case.noises[[i]], column=kept)
    same(asked, told)
