"""The policies and the controller choose the arms that the paper's algorithms choose, slot by slot.

Problems are small and random. Every run of the reference reports the smallest margin by which one of its
choices was made; problems with a near-tie would prove nothing and are refused. The kernels are not
stationary, so that even the first slot, before any reward, has one best arm.
"""

import math
from dataclasses import dataclass, replace

import numpy as np
import pytest
from tests.reference import naive

from kinband.arrays import FloatArray, IntArray
from kinband.controller import Controller
from kinband.kernels import RBF, Kernel, Linear
from kinband.policies.base import Setting
from kinband.policies.baselines import build_kernel_ucb
from kinband.policies.exploration import Constant, Exploration, Theorem1
from kinband.policies.super_ucb import SuperUCB
from kinband.policies.ucb import UCB
from kinband.records import Observation, Query, Samples
from kinband.space import ConfigurationSpace

NO_TIE = 1e-7
ENGINES = ["exact", "schur"]
SEEDS = [1, 2, 3]


@dataclass(frozen=True)
class Model:
    """Hyper-parameters for both sides."""

    kernel: Kernel
    slow: naive.Kernel
    K_Z: FloatArray
    noise: float
    mean: float

    def setting(self, arms: int, exploration: Exploration, *, engine: str = "exact", horizon: int = 0) -> Setting:
        return Setting(
            self.kernel,
            self.K_Z,
            noise=self.noise,
            arms=arms,
            mean=self.mean,
            exploration=exploration,
            engine=engine,
            options={"horizon": horizon} if horizon else {},
        )


def random_model(rng: np.random.Generator, M: int, *, unrelated: bool = False) -> Model:
    length, variance, slope, noise = np.exp(rng.uniform(np.log([0.3, 0.4, 0.2, 0.01]), np.log([1.5, 2, 1, 0.5])))
    B = rng.normal(size=(M, 2))
    K_Z = B @ B.T + np.diag(rng.uniform(0.1, 0.5, size=M))
    if unrelated:
        K_Z[0, 1:] = K_Z[1:, 0] = 0.0
    kernel = RBF(float(length), variance=float(variance)) + Linear(float(slope))
    slow = naive.sum_of(naive.rbf(float(length), float(variance)), naive.linear(float(slope)))
    return Model(kernel, slow, K_Z, float(noise), float(rng.uniform(-1.0, 1.0)))


def query(task: int, X: FloatArray) -> Query:
    return Query(task, X, np.ones(len(X), dtype=np.bool_))


def play_parallel(policy: UCB, contexts: FloatArray, rewards: FloatArray, *, together: bool) -> IntArray:
    """Algorithm 1 by the policy: all tasks of a slot decide, then all their rewards are learned."""
    T, M = contexts.shape[:2]
    arms = np.zeros((T, M), dtype=np.int64)
    rngs = [np.random.default_rng(m) for m in range(M)]
    for t in range(T):
        queries = [query(m, contexts[t, m]) for m in range(M)]
        if together:
            choices = policy.choose_round(queries, rngs)
        else:
            choices = [policy.choose(q, rng) for q, rng in zip(queries, rngs, strict=True)]
        for m, choice in enumerate(choices):
            a = arms[t, m] = choice.arm
            x, reward = contexts[t, m, a], float(rewards[t, m, a])
            policy.learn(Observation(m, x, choice.arm, reward, policy_state=choice.policy_state, cache=choice.cache))
    return arms


def play_sequential(
    policy: UCB | SuperUCB, stations: IntArray, contexts: FloatArray, rewards: FloatArray
) -> tuple[IntArray, list[int | None]]:
    """Algorithms 2 and 4 by the policy, and the level that each slot was decided on."""
    arms = np.zeros(len(stations), dtype=np.int64)
    levels: list[int | None] = []
    rng = np.random.default_rng(0)
    for t, task in enumerate(stations):
        choice = policy.choose(query(int(task), contexts[t]), rng)
        a = arms[t] = choice.arm
        levels.append(choice.policy_state.get("level"))
        x, reward = contexts[t, a], float(rewards[t, a])
        policy.learn(
            Observation(int(task), x, choice.arm, reward, policy_state=choice.policy_state, cache=choice.cache)
        )
    return arms, levels


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("together", [True, False], ids=["as a round", "one by one"])
@pytest.mark.parametrize("unrelated", [False, True], ids=["related", "one apart"])
@pytest.mark.parametrize("seed", SEEDS)
def test_ucb_in_rounds_is_algorithm_1(engine: str, together: bool, unrelated: bool, seed: int) -> None:
    rng = np.random.default_rng(seed)
    model, beta = random_model(rng, 3, unrelated=unrelated), float(rng.uniform(0.3, 2.0))
    contexts, rewards = rng.normal(size=(9, 3, 5, 2)), rng.normal(size=(9, 3, 5))
    expected = naive.algorithm1(contexts, rewards, model.slow, model.K_Z, noise=model.noise, beta=beta, mean=model.mean)
    assert expected.margin > NO_TIE
    policy = UCB.build(model.setting(5, Constant(beta), engine=engine))
    found = play_parallel(policy, contexts, rewards, together=together)
    np.testing.assert_array_equal(found, expected.arms)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("unrelated", [False, True], ids=["related", "one apart"])
@pytest.mark.parametrize("seed", SEEDS)
def test_ucb_one_station_a_slot_is_algorithm_2(engine: str, unrelated: bool, seed: int) -> None:
    rng = np.random.default_rng(100 + seed)
    model, beta = random_model(rng, 4, unrelated=unrelated), float(rng.uniform(0.3, 2.0))
    stations = rng.integers(0, 4, size=30)
    contexts, rewards = rng.normal(size=(30, 5, 2)), rng.normal(size=(30, 5))
    expected = naive.algorithm2(
        stations, contexts, rewards, model.slow, model.K_Z, noise=model.noise, beta=beta, mean=model.mean
    )
    assert expected.margin > NO_TIE
    policy = UCB.build(model.setting(5, Constant(beta), engine=engine))
    found, _ = play_sequential(policy, stations, contexts, rewards)
    np.testing.assert_array_equal(found, expected.arms)


@pytest.mark.parametrize("printed", [True, False], ids=["printed", "corrected"])
def test_ucb_with_the_beta_of_theorem_1_is_algorithm_1_with_it(printed: bool) -> None:
    rng = np.random.default_rng(7)
    model, M, N, delta, c = random_model(rng, 3), 3, 4, 0.13, 0.6
    contexts, rewards = rng.normal(size=(8, M, N, 2)), 10.0 * rng.normal(size=(8, M, N))
    weight = naive.printed_beta if printed else naive.corrected_beta

    def beta(t: int) -> float:
        return weight(naive.theorem1_alpha(T=t, M=M, N=N, delta=delta), c=c, lam=model.noise)

    expected = naive.algorithm1(contexts, rewards, model.slow, model.K_Z, noise=model.noise, beta=beta, mean=model.mean)
    assert expected.margin > NO_TIE
    policy = UCB.build(model.setting(N, Theorem1(delta=delta, norm=c, printed=printed)))
    found = play_parallel(policy, contexts, rewards, together=True)
    np.testing.assert_array_equal(found, expected.arms)
    rule = Theorem1(delta=delta, norm=c, printed=printed)
    for t in (2, 5, 60):
        weighed = rule.beta(known=(t - 1) * M, arms=N, noise=model.noise)
        assert weighed == pytest.approx(beta(t), rel=1e-12)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("seed", SEEDS)
def test_ucb_on_one_task_is_kernel_ucb_with_beta_eta_over_root_gamma(engine: str, seed: int) -> None:
    rng = np.random.default_rng(200 + seed)
    model, eta = random_model(rng, 1), float(rng.uniform(0.1, 1.0))
    model = Model(model.kernel, model.slow, np.ones((1, 1)), model.noise, 0.0)
    contexts, rewards = rng.normal(size=(30, 5, 2)), rng.normal(size=(30, 5))
    expected = naive.kernel_ucb(contexts, rewards, model.slow, gamma=model.noise, eta=eta)
    assert expected.margin > NO_TIE
    policy = UCB.build(model.setting(5, Constant(eta / math.sqrt(model.noise)), engine=engine))
    found, _ = play_sequential(policy, np.zeros(30, dtype=np.int64), contexts, rewards)
    np.testing.assert_array_equal(found, expected.arms)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_kernel_ucb_baseline_is_kernel_ucb_on_every_task_alone(seed: int) -> None:
    rng = np.random.default_rng(250 + seed)
    model, eta = random_model(rng, 3), float(rng.uniform(0.1, 1.0))
    stations = rng.integers(0, 3, size=45)
    contexts, rewards = rng.normal(size=(45, 5, 2)), rng.normal(size=(45, 5))
    setting = replace(model.setting(5, Constant(9.9)), mean=0.0, options={"eta": eta})
    found, _ = play_sequential(build_kernel_ucb(setting), stations, contexts, rewards)
    for m in range(3):
        own = stations == m
        expected = naive.kernel_ucb(contexts[own], rewards[own], model.slow, gamma=model.noise, eta=eta)
        assert expected.margin > NO_TIE
        np.testing.assert_array_equal(found[own], expected.arms)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("seed", SEEDS)
def test_super_ucb_is_algorithm_4(engine: str, seed: int) -> None:
    rng = np.random.default_rng(300 + seed)
    model, T, N, beta = random_model(rng, 2), 70, 4, float(rng.uniform(0.3, 0.6))
    model = Model(model.kernel, model.slow, np.array([[0.9, 0.6], [0.6, 0.8]]), 0.05, model.mean)
    stations = rng.integers(0, 2, size=T)
    contexts = rng.uniform(size=(T, N, 1))
    rewards = 2.0 * contexts[:, :, 0] + 0.1 * rng.normal(size=(T, N))
    expected = naive.algorithm4(
        stations, contexts, rewards, model.slow, model.K_Z, noise=model.noise, beta=beta, mean=model.mean
    )
    assert expected.margin > NO_TIE
    learned = sorted(slot for slots in expected.sets for slot in slots)
    assert len(learned) < T, "no slot was decided by exploiting: the problem tests too little"
    assert expected.sets[1], "no slot was learned from above the first level: the problem tests too little"
    policy = SuperUCB.build(model.setting(N, Constant(beta), engine=engine, horizon=T))
    found, levels = play_sequential(policy, stations, contexts, rewards)
    np.testing.assert_array_equal(found, expected.arms)
    for s, slots in enumerate(expected.sets, start=1):
        assert [t for t, level in enumerate(levels) if level == s] == slots
    assert [t for t, level in enumerate(levels) if level == 0] == sorted(set(range(T)) - set(learned))


@pytest.mark.parametrize("printed", [True, False], ids=["printed", "corrected"])
@pytest.mark.parametrize("T", [2, 40, 1000])
def test_super_ucb_weighs_widths_by_its_own_alpha(printed: bool, T: int) -> None:
    model, N, delta, c = random_model(np.random.default_rng(9), 2), 6, 0.07, 1.9
    weight = naive.printed_beta if printed else naive.corrected_beta
    expected = weight(naive.theorem3_alpha(T=T, N=N, delta=delta), c=c, lam=model.noise)
    rule = Theorem1(delta=delta, norm=c, printed=printed)
    policy = SuperUCB.build(model.setting(N, rule, horizon=T))
    assert policy.beta == pytest.approx(expected, rel=1e-12)
    assert len(policy.levels) == math.ceil(math.log(T))


# --- The controller: the same, asked and told by name -----------------------------------------------------


def controller_for(
    model: Model,
    *,
    arms: int,
    beta: float,
    policy: str = "ucb",
    horizon: int | None = None,
    history: naive.Data | None = None,
) -> Controller:
    """A controller whose arms are given as context rows of two features."""
    stations = tuple(f"station {m}" for m in range(len(model.K_Z)))
    log = None
    if history is not None:
        told = history.noise - model.noise  # the common part is added by whoever learns
        log = Samples(stations, history.tasks, history.X, history.y, told, ("left", "right"))
    return Controller(
        ConfigurationSpace(tilt=range(arms)),
        stations,
        features=("left", "right"),
        similarity=model.K_Z,
        kernel=model.kernel,
        noise=model.noise,
        mean=model.mean,
        policy=policy,
        beta=beta,
        options=None if horizon is None else {"horizon": horizon},
        log=log,
        seed=5,
    )


@pytest.mark.parametrize("seed", SEEDS)
def test_controller_in_rounds_is_algorithm_1_whatever_the_order_of_the_rewards(seed: int) -> None:
    rng = np.random.default_rng(400 + seed)
    model, beta = random_model(rng, 3), float(rng.uniform(0.3, 2.0))
    contexts, rewards = rng.normal(size=(9, 3, 5, 2)), rng.normal(size=(9, 3, 5))
    expected = naive.algorithm1(contexts, rewards, model.slow, model.K_Z, noise=model.noise, beta=beta, mean=model.mean)
    assert expected.margin > NO_TIE
    controller = controller_for(model, arms=5, beta=beta)
    for t in range(9):
        decisions = controller.ask_all(contexts={f"station {m}": contexts[t, m] for m in range(3)})
        found = [decisions[f"station {m}"].arm for m in range(3)]
        np.testing.assert_array_equal(found, expected.arms[t])
        for m in rng.permutation(3):
            controller.tell(decisions[f"station {m}"].id, float(rewards[t, m, found[m]]))


@pytest.mark.parametrize("seed", SEEDS)
def test_controller_that_starts_from_a_log_is_algorithm_2_with_that_history(seed: int) -> None:
    rng = np.random.default_rng(500 + seed)
    model, beta = random_model(rng, 3), float(rng.uniform(0.3, 2.0))
    history = naive.Data(
        rng.integers(0, 3, size=11),
        rng.normal(size=(11, 2)),
        rng.normal(size=11),
        model.noise * rng.uniform(1.5, 3.0, size=11),
    )
    stations = rng.integers(0, 3, size=25)
    contexts, rewards = rng.normal(size=(25, 5, 2)), rng.normal(size=(25, 5))
    expected = naive.algorithm2(
        stations,
        contexts,
        rewards,
        model.slow,
        model.K_Z,
        noise=model.noise,
        beta=beta,
        mean=model.mean,
        history=history,
    )
    assert expected.margin > NO_TIE
    controller = controller_for(model, arms=5, beta=beta, history=history)
    for t, task in enumerate(stations):
        decision = controller.ask(f"station {task}", contexts=contexts[t])
        assert decision.arm == expected.arms[t]
        controller.tell(decision.id, float(rewards[t, decision.arm]))


@pytest.mark.parametrize("seed", SEEDS)
def test_controller_with_super_ucb_is_algorithm_4(seed: int) -> None:
    rng = np.random.default_rng(600 + seed)
    model, T, beta = random_model(rng, 2), 50, float(rng.uniform(0.3, 0.6))
    model = Model(model.kernel, model.slow, np.array([[0.9, 0.6], [0.6, 0.8]]), 0.05, model.mean)
    stations = rng.integers(0, 2, size=T)
    contexts = 0.5 * rng.uniform(size=(T, 4, 2))
    rewards = 2.0 * contexts[:, :, 0] + 0.1 * rng.normal(size=(T, 4))
    expected = naive.algorithm4(
        stations, contexts, rewards, model.slow, model.K_Z, noise=model.noise, beta=beta, mean=model.mean
    )
    assert expected.margin > NO_TIE
    assert sum(map(len, expected.sets)) < T, "no slot was decided by exploiting: the problem tests too little"
    controller = controller_for(model, arms=4, beta=beta, policy="super-ucb", horizon=T)
    for t, task in enumerate(stations):
        decision = controller.ask(f"station {task}", contexts=contexts[t])
        assert decision.arm == expected.arms[t]
        controller.tell(decision.id, float(rewards[t, decision.arm]))
