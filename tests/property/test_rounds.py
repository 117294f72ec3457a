"""Rounds that know their own picks, and draws: covariances as the naive reference has them, choices as defined."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from tests.reference import naive

from kinband import ConfigurationSpace, Controller
from kinband.arrays import FloatArray, IntArray
from kinband.errors import BadInputError
from kinband.kernels import RBF
from kinband.policies import UCB, Constant, PolicySpec, Thompson
from kinband.policies.ucb import Pending
from kinband.posterior import make_posterior
from kinband.records import Observation, Query

SPACE = ConfigurationSpace(knob=range(20))
ARMS = SPACE.features
SEEDS = [1, 2, 3]


@dataclass(frozen=True)
class Problem:
    """A drawn problem: contexts are a state and one of twenty configurations."""

    length_scale: float
    variance: float
    K_Z: FloatArray
    noise: float
    mean: float
    data: naive.Data
    states: FloatArray

    @property
    def kernel(self) -> RBF:
        return RBF([self.length_scale, 1.5], variance=self.variance)

    @property
    def slow(self) -> naive.Kernel:
        return naive.ard_rbf([self.length_scale, 1.5], self.variance)

    def contexts(self, m: int) -> FloatArray:
        return np.hstack([np.full((20, 1), self.states[m]), ARMS])

    @property
    def sizes(self) -> list[int]:
        return [14 + m for m in range(len(self.K_Z))]

    def asked(self) -> tuple[IntArray, FloatArray]:
        """Tasks and contexts of some arms of every station, one after the other."""
        chosen = np.random.default_rng(9)
        X = [self.contexts(m)[np.sort(chosen.permutation(20)[:size])] for m, size in enumerate(self.sizes)]
        return np.repeat(np.arange(len(self.K_Z)), self.sizes), np.concatenate(X)


def problem_of(seed: int, *, rows: int, alike: bool = True) -> Problem:
    rng = np.random.default_rng([seed, 3])
    B = rng.uniform(0.2, 1.0, size=(4, 2))
    K_Z = B @ B.T + np.diag(rng.uniform(0.1, 0.5, size=4)) if alike else np.diag(rng.uniform(0.5, 1.5, size=4))
    tasks = rng.integers(0, 4, size=rows)
    X = np.hstack([rng.normal(size=(rows, 1)), ARMS[rng.integers(0, 20, size=rows)]])
    data = naive.Data(tasks, X, rng.normal(size=rows), rng.uniform(0.05, 0.4, size=rows))
    length, variance = float(rng.uniform(0.5, 1.5)), float(np.exp(rng.uniform(-1, 1)))
    return Problem(length, variance, K_Z, float(rng.uniform(0.05, 0.3)), float(rng.normal()), data, rng.normal(size=4))


def exact_of(problem: Problem, *, structure: bool) -> Any:
    posterior = make_posterior(
        problem.kernel, problem.K_Z, noise=problem.noise, mean=problem.mean, configurations=ARMS if structure else None
    )
    if len(problem.data.y):
        d = problem.data
        posterior.update(d.tasks, d.X, d.y, noise=d.noise)
    return posterior


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    ("rows", "structure", "alike"),
    [(0, False, True), (40, False, True), (150, True, True), (150, False, True), (60, True, False)],
)
def test_covariances_of_a_round_are_those_of_the_naive_reference(
    seed: int, rows: int, structure: bool, alike: bool
) -> None:
    problem = problem_of(seed, rows=rows, alike=alike)
    tasks, X = problem.asked()
    found = exact_of(problem, structure=structure).predict(tasks, X)
    C = naive.posterior_covariance(problem.data, problem.slow, problem.K_Z, tasks, X)
    scale = 1e-8 * float(np.diag(C).max() + problem.variance)
    np.testing.assert_allclose(found.covariance(np.array([5, 40])), C[[5, 40]], atol=scale)
    np.testing.assert_allclose(found.std**2, np.diag(C), atol=scale)
    for i, own in enumerate(found.split(problem.sizes)):
        part = slice(sum(problem.sizes[:i]), sum(problem.sizes[: i + 1]))
        np.testing.assert_allclose(own.covariance(), C[part, part], atol=scale)
        few = own.at(np.array([7, 2]))
        np.testing.assert_allclose(few.covariance(), C[part, part][np.ix_([7, 2], [7, 2])], atol=scale)


@pytest.mark.parametrize("seed", SEEDS)
def test_picks_narrow_widths_as_if_they_had_been_told(seed: int) -> None:
    problem = problem_of(seed, rows=150)
    tasks, X = problem.asked()
    pending = Pending(exact_of(problem, structure=True).predict(tasks, X), noise=problem.noise)
    d = problem.data
    for at in (2, 21, 34):
        pending.pick(at)
        noise = np.append(d.noise, problem.noise)
        d = naive.Data(np.append(d.tasks, tasks[at]), np.vstack([d.X, X[at]]), np.append(d.y, 0.0), noise)
        expected = naive.posterior_width(d, problem.slow, problem.K_Z, tasks, X)
        np.testing.assert_allclose(pending.std, expected, atol=1e-7)


def aware_by_hand(problem: Problem, *, beta: float) -> list[int]:
    """Algorithm of the definition: decide, pretend that the mean came true, go on."""
    d, arms = problem.data, []
    for m in range(4):
        X, tasks = problem.contexts(m), np.full(20, m)
        mean = naive.posterior_mean(problem.data, problem.slow, problem.K_Z, tasks, X, mean=problem.mean)
        std = naive.posterior_width(d, problem.slow, problem.K_Z, tasks, X)
        arms.append(int(np.argmax(mean + beta * std)))
        d = naive.Data(
            np.append(d.tasks, m), np.vstack([d.X, X[arms[-1]]]), np.append(d.y, 0.0), np.append(d.noise, problem.noise)
        )
    return arms


@pytest.mark.parametrize("seed", range(12))
def test_an_aware_round_decides_as_its_definition_does(seed: int) -> None:
    problem = problem_of(seed, rows=25)
    spec = PolicySpec(
        problem.kernel, problem.K_Z, noise=problem.noise, arms=20, mean=problem.mean, exploration=Constant(2.0),
        options={"rounds": "aware"}, configurations=ARMS,
    )  # fmt: skip
    policy, d = UCB.build(spec), problem.data
    policy.posterior.update(d.tasks, d.X, d.y, noise=d.noise)
    queries = [Query(m, problem.contexts(m), np.ones(20, dtype=bool)) for m in range(4)]
    choices = policy.choose_round(queries, [np.random.default_rng(m) for m in range(4)])
    assert [choice.arm for choice in choices] == aware_by_hand(problem, beta=2.0)
    for choice, query in zip(choices, queries, strict=True):  # what is reported is what is believed, picks aside
        std = policy.posterior.predict(np.full(20, query.task), query.X).std
        assert choice.std is not None
        np.testing.assert_allclose(choice.std, std, atol=1e-9)


def controller(policy: str, *, rounds: str | None = None, K_Z: Any = None, engine: str = "auto") -> Controller:
    return Controller(
        SPACE, ["a", "b", "c", "d"], state={"load": (0, 1)}, similarity=np.ones((4, 4)) if K_Z is None else K_Z,
        kernel=RBF(0.8, variance=0.5), noise=0.05, mean=0.3, policy=policy, beta=1.5, engine=engine, seed=2,
        options=None if rounds is None else {"rounds": rounds},
    )  # fmt: skip


def test_stations_that_are_one_try_different_things_in_an_aware_round_and_the_same_in_a_plain_one() -> None:
    states = {name: {"load": 0.5} for name in "abcd"}
    first = {"a": {"load": 0.5}}
    arms = {}
    for rounds in ("plain", "aware"):
        control = controller("ucb", rounds=rounds)
        for decision in control.ask_all(first).values():  # breaks the tie of an empty posterior
            control.tell(decision.id, 0.3)
        arms[rounds] = [decision.arm for decision in control.ask_all(states).values()]
    assert len(set(arms["plain"])) == 1
    assert len(set(arms["aware"])) > 1


def test_stations_that_share_nothing_decide_alike_in_plain_and_aware_rounds() -> None:
    found = []
    for rounds in ("plain", "aware"):
        control, rng = controller("ucb", rounds=rounds, K_Z=np.eye(4)), np.random.default_rng(3)
        for _ in range(6):
            decisions = control.ask_all({name: {"load": float(rng.uniform())} for name in "abcd"})
            for decision in decisions.values():
                control.tell(decision.id, float(rng.uniform()))
        found.append([decision.arm for decision in control.ask_all({n: {"load": 0.4} for n in "abcd"}).values()])
    assert found[0] == found[1]


@pytest.mark.parametrize("K_Z", [np.ones((4, 4)), np.eye(4)], ids=["one", "apart"])
def test_draws_have_the_mean_and_covariance_of_the_beliefs(K_Z: FloatArray) -> None:
    spec = PolicySpec(
        RBF([0.7, 1.1], variance=0.6), K_Z, noise=0.1, arms=20, mean=0.2, exploration=Constant(0.7),
        configurations=ARMS,
    )  # fmt: skip
    policy, rng = Thompson.build(spec), np.random.default_rng(5)
    for _ in range(15):
        x = np.append(rng.normal(), ARMS[rng.integers(20)])
        policy.learn(Observation(task=int(rng.integers(4)), x=x, arm=0, reward=float(rng.normal())))
    X = np.hstack([np.full((20, 1), 0.3), ARMS])
    query = Query(1, X, np.ones(20, dtype=bool))
    drawn = np.array([policy.choose(query, np.random.default_rng(s)).score for s in range(4000)])
    posterior: Any = policy.posterior
    prediction = posterior.predict(1, X)
    C = prediction.covariance()
    np.testing.assert_allclose(drawn.mean(axis=0), prediction.mean, atol=0.06)
    np.testing.assert_allclose(np.cov(drawn.T), 0.49 * C, atol=0.08 * float(np.diag(C).max()))


@pytest.mark.parametrize("engine", ["exact", "auto", "sparse", "schur"])
@pytest.mark.parametrize("stranger", [0.0, 0.01])
def test_rounds_are_aware_whatever_the_posterior(engine: str, stranger: float) -> None:
    alike = np.full((4, 4), 0.95) + 0.05 * np.eye(4)
    alike[3, :3] = alike[:3, 3] = stranger
    control = controller("ucb", rounds="aware", K_Z=alike, engine=engine)
    for decision in control.ask_all({"a": {"load": 0.5}}).values():
        control.tell(decision.id, 0.3)
    picks = [d.arm for d in control.ask_all({name: {"load": 0.5} for name in "abc"}).values()]
    assert len(set(picks)) > 1


def test_what_cannot_work_is_refused() -> None:
    with pytest.raises(BadInputError, match="rounds must be one of plain, aware, got 'wise'"):
        controller("ucb", rounds="wise")
    with pytest.raises(BadInputError, match="no option 'rounds'"):
        controller("thompson", rounds="aware")
