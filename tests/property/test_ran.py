"""Stations run something else than was decided: beliefs are those of what ran.

Three witnesses. The naive posterior of a plain list of what ran and what it earned; a controller that was given the
same rows as a log; and, for a budget of rewards, the list of decisions of `test_safety_rewards`, in which what ran
takes the place of what was decided.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.property.test_safety import STATIONS, M, N, Problem, rewards_of
from tests.property.test_safety_rewards import Made, Witness, case_of
from tests.reference import naive

from kinband import ConfigurationSpace, Controller
from kinband.arrays import FloatArray
from kinband.controller.events import Entry, Ran
from kinband.drift import Drift, Reset
from kinband.kernels import RBF, Linear
from kinband.kpis import KpiFloor, NeighbourReward
from kinband.policies import Conservative, SwitchingCost
from kinband.records import Samples

SPACE = ConfigurationSpace(tilt=[2, 3, 5, 8, 9, 12], scheduler=["pf", "rr"])
NAMES = list("abcd")
FURTHER: dict[str, dict[str, Any]] = {
    "plain": {},
    "sparse": {"engine": "sparse", "inducing_points": 6},
    "schur": {"engine": "schur"},
    "rewards": {"safety": Conservative(0.2, delta=0.2, least=-1.0)},
    "expected": {"safety": [Conservative(0.2, least=-1.0), SwitchingCost(0.03)]},
    "clock": {"drift": Drift(9.0, clock="numbers", reset=Reset(3.0))},
    "resets": {"drift": Drift(reset=Reset(3.0))},
    "aware": {"options": {"rounds": "aware"}},
    "kpis": {"kpis": KpiFloor("drops", at_most=0.8, mean=0.5, deviation=0.3, noise=0.02)},
    "neighbours": {"neighbours": NeighbourReward({"a": ["b", "c"], "b": ["a"]}, weight=0.3)},
    "all": {
        "safety": Conservative(0.3, delta=0.3, least=-1.0),
        "kpis": KpiFloor("drops", at_most=0.8, mean=0.5, deviation=0.3, noise=0.02),
        "drift": Drift(reset=Reset(3.0)),
    },
}


@dataclass(frozen=True)
class Case:
    """Hyper-parameters for both sides, away from 1."""

    length: float
    variance: float
    noise: float
    mean: float
    beta: float
    K_Z: FloatArray

    @classmethod
    def draw(cls, rng: np.random.Generator) -> "Case":
        B = rng.normal(size=(4, 2))
        length, variance, noise = rng.uniform([0.4, 0.05, 0.01], [2.5, 0.8, 0.3]).tolist()
        mean, beta = rng.uniform([-0.5, 0.2], [0.9, 2.0]).tolist()
        return cls(length, variance, noise, mean, beta, B @ B.T + np.diag(rng.uniform(0.1, 0.6, size=4)))

    def controller(self, **further: Any) -> Controller:
        given: dict[str, Any] = {
            "state": ["load"], "similarity": self.K_Z, "kernel": RBF(self.length, variance=self.variance),
            "noise": self.noise, "mean": self.mean, "beta": self.beta, "running": dict(SPACE[3]), "engine": "exact",
        }  # fmt: skip
        return Controller(SPACE, NAMES, **(given | further))


@dataclass
class Row:
    """What ran and what it earned, as a plain list keeps it."""

    task: int
    load: float
    arm: int
    reward: float | None = None
    noise: float | None = None


class Life:
    """Asks, says what ran, tells late and out of order, corrects, calls off, considers; and keeps a list of it."""

    def __init__(self, controller: Controller, rng: np.random.Generator, *, considers: bool = True) -> None:
        self.controller, self.rng, self.considers = controller, rng, considers
        self.rows: dict[str, Row] = {}
        self.told: list[str] = []
        drift = controller.setup.config.drift
        self.timed, self.time = drift is not None and drift.clock == "numbers", 0.0

    def run(self, steps: int) -> "Life":
        moves = (self.ask, self.ask_all, self.ran, self.tell, self.correct, self.call_off)
        for _ in range(steps):
            move = moves[self.rng.choice(6, p=[0.2, 0.1, 0.25, 0.35, 0.06, 0.04])]
            (move if self.controller.pending else self.ask_all)()
        return self

    def _asked(self) -> dict[str, Any]:
        self.time += float(self.rng.random())
        return {"time": self.time} if self.timed else {}

    def ask(self) -> None:
        task, load, when = int(self.rng.integers(4)), float(self.rng.normal()), self._asked()
        if self.considers:
            self.controller.consider(NAMES[task], {"load": load}, **when)
        decision = self.controller.ask(NAMES[task], {"load": load}, **when)
        self.rows[decision.id] = Row(task, load, decision.arm)

    def ask_all(self) -> None:
        loads = self.rng.normal(size=4).tolist()
        states = {name: {"load": load} for name, load in zip(NAMES, loads, strict=True)}
        for task, decision in enumerate(self.controller.ask_all(states, **self._asked()).values()):
            self.rows[decision.id] = Row(task, loads[task], decision.arm)

    def ran(self) -> None:
        key = str(self.rng.choice([key for key, row in self.rows.items() if row.reward is None]))
        decided = self.controller.decision(key).arm
        arm = int(self.rng.choice([3, decided, *range(len(SPACE))]))  # often what was declared, or a taking back
        self.controller.ran(key, SPACE[arm])
        self.rows[key].arm = arm

    def tell(self) -> None:
        key = str(self.rng.choice(self.controller.pending))
        reward, noise = float(self.rng.random()), float(self.rng.choice([0.0, 0.02, 0.3])) or None
        kpis = {"drops": float(self.rng.random())} if self.controller.setup.kpis else None
        self.controller.tell(key, reward, noise=noise, kpis=kpis)
        self.rows[key].reward, self.rows[key].noise = reward, noise
        self.told.append(key)

    def correct(self) -> None:
        if self.told:
            key, reward = str(self.rng.choice(self.told)), float(self.rng.random())
            self.controller.correct(key, reward)
            self.rows[key].reward = reward

    def call_off(self) -> None:
        self.controller.call_off(str(self.rng.choice(self.controller.pending)))

    @property
    def known(self) -> list[Row]:
        """Rows in the order of telling."""
        return [self.rows[key] for key in self.told]


def rows_of(known: list[Row], noise: float) -> naive.Data:
    X = np.array([[row.load, *SPACE.features[row.arm]] for row in known]).reshape(len(known), 3)
    y, extra = (
        [value or 0.0 for value in values] for values in zip(*((r.reward, r.noise) for r in known), strict=True)
    )
    return naive.Data(np.array([row.task for row in known]), X, np.array(y), noise + np.array(extra))


@given(seed=st.integers(0, 10_000), steps=st.integers(5, 60), engine=st.sampled_from(["exact", "schur", "auto"]))
@settings(max_examples=20, deadline=None, derandomize=True)
def test_beliefs_are_those_of_what_ran(seed: int, steps: int, engine: str) -> None:
    rng = np.random.default_rng(seed)
    case = Case.draw(rng)
    life = Life(case.controller(engine=engine, running=None), rng).run(steps)
    life.ask()
    life.tell()
    data = rows_of(life.known, case.noise)
    extra = data.noise - case.noise
    log = Samples(
        tuple(NAMES), data.tasks, data.X, data.y, np.where(extra > 0, extra, np.nan), ("load", *SPACE.feature_names),
        tuple(1 + column for column in SPACE.categorical),
    )  # fmt: skip
    logged = case.controller(engine=engine, running=None, log=log)
    kernel = naive.rbf(case.length, case.variance)
    for task, name in enumerate(NAMES):
        load = float(rng.normal())
        X = np.column_stack([np.full(len(SPACE), load), SPACE.features])
        choice, other = (one.consider(name, {"load": load}) for one in (life.controller, logged))
        tasks = np.full(len(SPACE), task)
        mean = naive.posterior_mean(data, kernel, case.K_Z, tasks, X, mean=case.mean)
        assert choice.mean is not None
        assert choice.std is not None
        assert other.mean is not None
        np.testing.assert_allclose(choice.mean, mean, rtol=1e-6, atol=1e-8)
        np.testing.assert_allclose(choice.std, naive.posterior_width(data, kernel, case.K_Z, tasks, X), atol=1e-6)
        np.testing.assert_allclose(other.mean, mean, rtol=1e-6, atol=1e-8)


def same_state(one: Controller, other: Controller) -> bool:
    mine, theirs = (controller.policy.state() for controller in (one, other))  # type: ignore[attr-defined]
    return mine.keys() == theirs.keys() and all(np.array_equal(mine[name], theirs[name]) for name in mine)


@given(seed=st.integers(0, 10_000), further=st.sampled_from(sorted(FURTHER)))
@settings(max_examples=10, deadline=None, derandomize=True)
def test_considering_changes_nothing(seed: int, further: str) -> None:
    lives = []
    for considers in (True, False):
        rng = np.random.default_rng(seed)
        controller = Case.draw(rng).controller(seed=seed, **FURTHER[further])
        lives.append(Life(controller, rng, considers=considers).run(40))
    assert same_state(lives[0].controller, lives[1].controller)
    made = [list(life.controller.journal.asked.values()) for life in lives]
    assert [one.decision for one in made[0]] == [one.decision for one in made[1]]


# --- The budget of rewards ------------------------------------------------------------------------------------

ARMS = ConfigurationSpace(arm=[0.0, 0.7, 1.9, 2.2, 3.4])


class RanWitness(Witness):
    """The budget from its definition, with what ran in the place of what was decided."""

    def __init__(self, problem: Problem, rule: Conservative) -> None:
        super().__init__(problem, rule)
        self.decided: dict[int, Made] = {}

    def ran(self, number: int, x: FloatArray) -> None:
        now = self.made[number]
        if np.array_equal(x, now.x):  # it holds already, with the bound of when it was said
            return
        was = self.decided.setdefault(number, now)
        trial = not np.array_equal(x, was.today)
        if np.array_equal(x, was.x):
            new = replace(was)
        elif trial:
            bound = self.own(was.task, x, was.today, trial=True, beta=was.beta)
            new = replace(was, x=x, trial=True, lower=min(bound, 0.0))
        else:
            new = replace(was, x=x, trial=False, lower=0.0)
        self.made[number] = replace(new, called_off=now.called_off)


def stated(problem: Problem, rule: Conservative) -> Controller:
    """The problem's controller, asked with a state."""
    today = {s: ARMS[a] for s, a in zip(STATIONS, problem.declared, strict=True)}
    return Controller(
        ARMS, STATIONS, state=["load"], similarity=problem.K_Z, beta=problem.beta, noise=problem.noise, engine="exact",
        kernel=RBF(problem.length, variance=problem.variance) + Linear(problem.slope), mean=problem.mean, safety=rule,
        running=today,
    )  # fmt: skip


def play(problem: Problem, rule: Conservative, steps: int) -> tuple[RanWitness, Controller, list[int]]:
    """Let witness and controller decide the same while others run what they like; count which kinds there were."""
    witness, controller, rng = RanWitness(problem, rule), stated(problem, rule), problem.rng
    reward_of, ids, where, kinds = rewards_of(problem), list[str](), list[FloatArray](), [0, 0, 0]
    for step in range(steps):
        loads = rng.normal(size=M)
        X = np.array([np.column_stack([np.full(N, load), ARMS.features]) for load in loads])
        asked = list(range(M)) if step % 2 else [int(rng.integers(M))]
        states = {STATIONS[t]: {"load": float(loads[t])} for t in asked}
        made = list(controller.ask_all(states).values()) if len(asked) == M else []
        made = made or [controller.ask(STATIONS[t], states[STATIONS[t]]) for t in asked]
        assert [d.arm for d in made] == witness.decide(asked, X)
        ids, where = ids + [d.id for d in made], where + [X[t] for t in asked]
        for number in rng.permutation(len(ids))[: rng.integers(2, 9)].tolist():
            entry = witness.made[number]
            if entry.reward is None and rng.random() < 0.5:
                arm = int(rng.choice([problem.declared[entry.task], rng.integers(N)]))
                witness.ran(number, where[number][arm])
                controller.ran(ids[number], ARMS[arm])
                entry = witness.made[number]
                decided = witness.decided.get(number, entry)
                kinds[0 if np.array_equal(entry.x, decided.x) else 1 + entry.trial] += 1
            if entry.reward is not None or rng.random() < 0.3:
                continue
            if rng.random() < 0.1 and not entry.called_off:
                entry.called_off = True
                controller.call_off(ids[number])
                continue
            reward, told = reward_of(entry.task, entry.x), float(rng.choice([0.0, 0.002, 0.01])) or None
            witness.tell(number, reward, told)
            controller.tell(ids[number], reward, noise=told)
    return witness, controller, kinds


@given(seed=st.integers(0, 10_000), per_station=st.booleans())
@settings(max_examples=10, deadline=None, derandomize=True)
def test_a_budget_counts_what_ran_as_its_definition_does(seed: int, per_station: bool) -> None:
    witness, controller, _ = play(*case_of(seed, per_station=per_station), steps=14)
    pending = controller._memory.deployed.pending
    for task in range(M):
        awaited = [e for e in witness.made if e.task == task and e.reward is None]
        expected = sum(min(e.lower, 0.0) if e.called_off else e.lower for e in awaited)
        assert pending.get(task, 0.0) == pytest.approx(expected, rel=1e-6, abs=1e-9)
    settled = controller.policy.state()["settled"]  # type: ignore[attr-defined]
    facts = settled.tolist() if witness.rule.per_station else [settled.sum()]
    assert facts == pytest.approx(witness.facts, rel=1e-6, abs=1e-8)


def test_the_witness_sees_decisions_taken_back_today_and_others() -> None:
    """What the property above compares is not one of the cases alone."""
    witness, controller, kinds = play(*case_of(3, per_station=False), steps=24)
    assert min(kinds) > 0
    assert any(e.trial for e in witness.made)
    entries: list[Entry] = [entry for entry in controller.journal if isinstance(entry, Ran)]
    assert entries
