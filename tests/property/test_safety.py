"""Safe trials against a witness: the rules recomputed from their definitions on the naive posterior.

The witness shares no code with ours: it forms the whole posterior anew at every decision, looks at every configuration,
and sums the budget from a plain list of decisions. Neutral rules must reproduce plain UCB, and a replay
every decision.
"""

import math
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.reference import naive

from kinband import ConfigurationSpace, Controller, Decision
from kinband.arrays import FloatArray
from kinband.kernels import RBF, Linear
from kinband.policies import Conservative, Floor, SwitchingCost
from kinband.policies.safety import Rule
from kinband.records import same_decision

M, N, D = 3, 5, 2
STATIONS = tuple("abc")
KINDS = ["budget", "rewards", "floor", "all"]


@dataclass
class Entry:
    """A decision as the witness keeps it."""

    task: int
    x: FloatArray
    today: FloatArray
    lower: float
    told: bool = False


@dataclass
class Problem:
    """Hyper-parameters for both sides, away from 1."""

    rng: np.random.Generator
    alpha: float | None
    drop: float | None
    cost: float
    per_station: bool
    against: Any = "difference"
    delta: float | None = None
    length: float = 0.0
    variance: float = 0.0
    slope: float = 0.0
    noise: float = 0.0
    mean: float = 0.0
    beta: float = 0.0
    least: float = 0.0
    K_Z: FloatArray = field(default_factory=lambda: np.eye(M))
    declared: tuple[int, ...] = ()
    usual: FloatArray | None = None

    def __post_init__(self) -> None:
        rng = self.rng
        self.length, self.variance = float(rng.uniform(0.5, 1.5)), float(rng.uniform(0.02, 0.3))
        self.slope = float(rng.uniform(0.005, 0.05))  # not stationary, so that even the first decision has no ties
        self.noise, self.mean = float(rng.uniform(0.005, 0.1)), float(rng.uniform(0.5, 0.9))
        self.beta, self.least = float(rng.uniform(0.2, 1.2)), float(rng.uniform(-0.3, 0.1))
        B = rng.normal(size=(M, 2))
        self.K_Z = B @ B.T + np.diag(rng.uniform(0.1, 0.5, size=M))
        self.declared = tuple(int(arm) for arm in rng.integers(N, size=M))
        self.usual = rng.normal(size=(M, N, D)) if rng.random() < 0.5 else None

    def contexts(self) -> FloatArray:
        """Contexts of all arms of all stations, (M, N, D): in some problems anything, in others much as ever."""
        drawn = self.rng.normal(size=(M, N, D))
        return drawn if self.usual is None else self.usual + 0.1 * drawn

    @property
    def rules(self) -> list[Rule]:
        rules: list[Rule] = [SwitchingCost(self.cost)]
        if self.alpha is not None:
            rules.append(Conservative(self.alpha, per_station=self.per_station, least=self.least, delta=self.delta))
        if self.drop is not None:
            rules.append(Floor(self.drop, against=self.against))
        return rules

    def controller(self, safety: Any, **given: Any) -> Controller:
        today = {s: {"arm": a} for s, a in zip(STATIONS, self.declared, strict=True)}
        return Controller(
            ConfigurationSpace(arm=range(N)), STATIONS, features=["p", "q"], similarity=self.K_Z, beta=self.beta,
            kernel=RBF(self.length, variance=self.variance) + Linear(self.slope), noise=self.noise, mean=self.mean,
            engine="exact", safety=safety, running=today, **given,
        )  # fmt: skip


class Witness:
    """The rules from their definitions."""

    def __init__(self, problem: Problem) -> None:
        self.p = problem
        self.kernel = naive.sum_of(naive.rbf(problem.length, problem.variance), naive.linear(problem.slope))
        self.data = naive.Data(np.zeros(0, dtype=np.int64), np.zeros((0, D)), np.zeros(0), np.zeros(0))
        self.entries: list[Entry] = []
        self.running = list(problem.declared)
        self.bounds: list[float] = []  # of what was played, against what ran

    def believe(self, task: int, X: FloatArray) -> tuple[FloatArray, FloatArray]:
        tasks = np.full(len(X), task)
        mean = naive.posterior_mean(self.data, self.kernel, self.p.K_Z, tasks, X, mean=self.p.mean)
        return mean, naive.posterior_covariance(self.data, self.kernel, self.p.K_Z, tasks, X)

    def adds(self, task: int, x: FloatArray, today: FloatArray) -> float:
        """Lower bound of f(x) − (1 − α)f(today), rewards counted from `least`."""
        p, alpha = self.p, self.p.alpha or 0.0
        mean, C = self.believe(task, np.array([x, today]))
        mean = mean - p.least
        if np.array_equal(x, today):
            return alpha * max(0.0, float(mean[0] - p.beta * math.sqrt(C[0, 0])))
        c = np.array([1.0, alpha - 1.0])
        surely = float(c @ mean - p.beta * math.sqrt(c @ C @ c))
        at_worst = -(1.0 - alpha) * max(0.0, float(mean[1] + p.beta * math.sqrt(C[1, 1])))
        return max(surely, at_worst)

    def floor_bounds(self, task: int, X: FloatArray, running: int) -> FloatArray:
        mean, C = self.believe(task, X)
        std = np.sqrt(np.diag(C))
        for a in range(N):
            if self.p.against == "difference":
                std[a] = math.sqrt(max(0.0, C[a, a] + C[running, running] - 2 * C[a, running]))
        return np.asarray(mean - mean[running] - self.p.beta * std)

    def sure(self, mean: FloatArray, C: FloatArray, a: int, b: int) -> bool:
        """Whether a surely earns no less than b."""
        return bool(mean[a] - mean[b] >= self.p.beta * math.sqrt(max(0.0, C[a, a] + C[b, b] - 2 * C[a, b])))

    def decide(self, task: int, X: FloatArray) -> int:
        p, running, today = self.p, self.running[task], self.p.declared[task]
        mean, C = self.believe(task, X)
        score = mean + p.beta * np.sqrt(np.diag(C))
        score = np.array([score[a] - (p.cost if a != running else 0.0) for a in range(N)])
        bounds = self.floor_bounds(task, X, running)
        drop = math.inf if p.drop is None else p.drop
        passing = [a for a in range(N) if a == running or bounds[a] >= -drop]
        arm = max(passing, key=lambda a: float(score[a]))
        if p.alpha is not None and arm != today:
            counted = [e.lower for e in self.entries if e.task == task or not p.per_station]
            if sum(counted) + self.adds(task, X[arm], X[today]) < 0:
                arm = running if self.sure(mean, C, running, today) else today
        self.entries.append(Entry(task, X[arm], X[today], self.adds(task, X[arm], X[today])))
        self.bounds.append(float(bounds[arm]) if arm != running else 0.0)
        self.running[task] = arm
        return arm

    def tell(self, number: int, reward: float) -> None:
        e = self.entries[number]
        self.data = naive.Data(
            np.append(self.data.tasks, e.task),
            np.vstack([self.data.X, e.x]),
            np.append(self.data.y, reward),
            np.append(self.data.noise, self.p.noise),
        )
        e.lower, e.told = self.adds(e.task, e.x, e.today), True


def rewards_of(problem: Problem) -> Any:
    slope, bend = problem.rng.normal(size=D), problem.rng.uniform(0.2, 0.6)
    return lambda task, x: float(0.7 + 0.1 * task + 0.2 * np.tanh(slope @ x) - bend * 0.1 * (x @ x))


def problem_of(seed: int, kind: str, per_station: bool = False) -> Problem:
    rng = np.random.default_rng(seed)
    alpha = float(rng.choice([0.0, 0.05, 0.2, 0.6])) if kind in ("budget", "rewards", "all") else None
    drop = float(rng.uniform(0.0, 0.4)) if kind in ("floor", "all") else None
    cost = float(rng.uniform(0.0, 0.1)) if kind in ("cost", "all") else 0.0
    against = "mean" if seed % 3 == 0 else "difference"
    return Problem(rng, alpha, drop, cost, per_station, against, delta=0.4 if kind == "rewards" else None)


@given(
    seed=st.integers(0, 10_000),
    kind=st.sampled_from(["budget", "floor", "cost", "all"]),
    per_station=st.booleans(),
)
@settings(max_examples=30, deadline=None, derandomize=True)
def test_every_decision_is_the_one_of_the_definitions(seed: int, kind: str, per_station: bool) -> None:
    problem = problem_of(seed, kind, per_station)
    witness, controller, rng = Witness(problem), problem.controller(problem.rules), problem.rng
    reward_of, ids = rewards_of(problem), list[str]()
    for step in range(14):
        X = problem.contexts()
        asked = range(M) if step % 3 == 2 else [int(rng.integers(M))]
        if len(asked) == M:
            made = controller.ask_all(contexts=dict(zip(STATIONS, X, strict=True)))
        else:
            made = {STATIONS[t]: controller.ask(STATIONS[t], contexts=X[t]) for t in asked}
        assert [d.arm for d in made.values()] == [witness.decide(t, X[t]) for t in asked]
        ids += [d.id for d in made.values()]
        for number in rng.permutation(len(ids))[: rng.integers(0, 4)]:
            entry = witness.entries[number]
            if not entry.told:
                reward = reward_of(entry.task, entry.x)
                witness.tell(int(number), reward)
                controller.tell(ids[number], reward)
    if problem.drop is not None and problem.alpha is None:
        assert min(witness.bounds) >= -problem.drop


def test_the_witness_sees_trials_and_refusals() -> None:
    """What the property above compares is not one of the two cases alone."""
    for kind in ("budget", "floor"):
        verdicts = set()
        for seed in range(12):
            problem = problem_of(seed, kind)
            controller = problem.controller(problem.rules)
            for _ in range(12):
                decision = controller.ask("a", contexts=problem.contexts()[0])
                controller.tell(decision.id, 0.8)
                note = decision.policy_state["safety"]
                changed = decision.arm != note["running"]
                verdicts.add(f"back by {note['by']}" if changed and "by" in note else "trial" if changed else "stays")
                verdicts.add(note.get("by"))
        assert verdicts >= {"trial", "stays", kind} | ({"back by budget"} if kind == "budget" else set())


@pytest.mark.parametrize("per_station", [False, True])
@pytest.mark.parametrize("seed", range(6))
def test_without_a_share_to_spend_a_trial_is_paid_by_what_trials_earned_for_sure(seed: int, per_station: bool) -> None:
    problem = problem_of(seed, "cost")
    problem.alpha, problem.per_station = 0.0, per_station
    witness, controller = Witness(problem), problem.controller(problem.rules)
    for _ in range(25):
        X = problem.rng.normal(size=(N, D))
        decision = controller.ask("b", contexts=X)
        today = problem.declared[1]
        lower = witness.adds(1, X[decision.arm], X[today])
        earned = sum(e.lower for e in witness.entries)
        assert decision.arm == today or lower + earned >= -1e-9
        if decision.arm == today:
            assert lower == 0.0  # with α = 0 quiet decisions leave the budget where it is
        witness.entries.append(Entry(1, X[decision.arm], X[today], lower))
        reward = 0.6 + 0.3 * float(problem.rng.random())
        controller.tell(decision.id, reward)
        witness.tell(len(witness.entries) - 1, reward)


NEUTRAL: dict[str, Any] = {
    "no cost": SwitchingCost(0.0),
    "all may be lost": Conservative(1.0),
    "no floor": Floor(math.inf),
    "no floor against the mean": Floor(math.inf, against="mean"),
    "all rewards may be lost": Conservative(1.0, delta=0.3),
    "all three": [SwitchingCost(0.0), Conservative(1.0, per_station=True), Floor(math.inf)],
}


@pytest.mark.parametrize("rule", NEUTRAL)
@pytest.mark.parametrize("seed", [11, 12])
def test_rules_that_allow_everything_reproduce_plain_ucb(rule: str, seed: int) -> None:
    problem = problem_of(seed, "cost")
    plain, safe, rng = problem.controller(None, seed=seed), problem.controller(NEUTRAL[rule], seed=seed), problem.rng
    for step in range(60):
        # Equal contexts make ties, which are to be broken alike.
        X = np.round(rng.normal(size=(M, N, D)), 0 if step % 4 == 0 else 3)
        if step % 2:
            rounds = [c.ask_all(contexts=dict(zip(STATIONS, X, strict=True))) for c in (plain, safe)]
            pairs = [(rounds[0][s], rounds[1][s]) for s in STATIONS]
        else:
            pairs = [(plain.ask("b", contexts=X[1]), safe.ask("b", contexts=X[1]))]
        for ours, theirs in pairs:
            assert (ours.arm, ours.mean, ours.std, ours.ucb) == (theirs.arm, theirs.mean, theirs.std, theirs.ucb)
            assert ours.alternatives == theirs.alternatives
            reward = float(rng.random())
            plain.tell(ours.id, reward)
            safe.tell(theirs.id, reward)


def live(controller: Controller, rng: np.random.Generator, steps: int) -> None:
    """Ask, tell late and out of order, correct, call off, and forget to tell."""
    for _ in range(steps):
        move, station = rng.random(), str(rng.choice(STATIONS))
        runs = {"arm": int(rng.integers(N))} if rng.random() < 0.2 else None
        if move < 0.45 or not controller.pending:
            controller.ask(station, contexts=rng.normal(size=(N, D)), running=runs)
        elif move < 0.55:
            controller.ask_all(contexts={s: rng.normal(size=(N, D)) for s in STATIONS})
        elif move < 0.9:
            noise = float(rng.choice([0.001, 0.02])) if rng.random() < 0.3 else None
            controller.tell(str(rng.choice(controller.pending)), float(rng.random()), noise=noise)
        elif move < 0.95 and len(controller):
            controller.correct(str(rng.choice(list(controller.journal.told))), float(rng.random()))
        else:
            controller.call_off(str(rng.choice(controller.pending)))


def future(controller: Controller) -> list[Decision]:
    """Return the decisions that a controller goes on to make, learning as it goes."""
    rng, made = np.random.default_rng(99), list[Decision]()
    for _ in range(6):
        made.append(controller.ask(str(rng.choice(STATIONS)), contexts=rng.normal(size=(N, D))))
        made += controller.ask_all(contexts={s: rng.normal(size=(N, D)) for s in STATIONS}).values()
        controller.tell(str(rng.choice(controller.pending)), float(rng.random()))
    return made


def check_ways_back(controller: Controller) -> None:
    """However it comes back, a controller goes on as it would have."""
    with tempfile.TemporaryDirectory() as folder:
        controller.save(Path(folder) / "state")
        ways = [Controller.load(Path(folder) / "state", rebuild=rebuild) for rebuild in (False, True)]
    ways.append(Controller.resume(controller.setup, list(controller.journal)))
    expected = future(controller)
    for way in ways:
        for recorded, again in zip(expected, future(way), strict=True):
            assert same_decision(recorded, again, spread=0.1)


@given(seed=st.integers(0, 10_000), steps=st.integers(0, 80), kind=st.sampled_from(KINDS))
@settings(max_examples=30, deadline=None, derandomize=True)
def test_load_and_replay_give_the_same_future(seed: int, steps: int, kind: str) -> None:
    problem = problem_of(seed, kind, per_station=seed % 2 == 0)
    controller = problem.controller(problem.rules, seed=seed)
    live(controller, np.random.default_rng(seed), steps)
    check_ways_back(controller)


@pytest.mark.parametrize("kind", KINDS)
def test_asking_changes_nothing_that_is_believed(kind: str) -> None:
    problem = problem_of(21, kind)
    controller = problem.controller(problem.rules)
    live(controller, np.random.default_rng(3), 40)
    before: dict[str, Any] = controller.policy.state()  # type: ignore[attr-defined]
    controller.ask_all(contexts={s: problem.rng.normal(size=(N, D)) for s in STATIONS})
    after: dict[str, Any] = controller.policy.state()  # type: ignore[attr-defined]
    assert before.keys() == after.keys()
    assert all(np.array_equal(before[name], after[name]) for name in before)
