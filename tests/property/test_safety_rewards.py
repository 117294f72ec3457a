"""The budget of rewards against a witness: recomputed at every decision from a plain list of decisions.

The witness shares no code with ours: it forms the posterior of the naive reference anew whenever a reward is told, sums
the budget from the whole list, and has its own words for bounds and reserves.
"""

import math
from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.property.test_safety import STATIONS, D, M, N, Problem, check_ways_back, problem_of, rewards_of
from tests.reference import naive

from kinband import Controller
from kinband.arrays import FloatArray
from kinband.controller.events import Told
from kinband.policies import Conservative, KrauseOng

BLOCK = 8


@dataclass
class Made:
    """A decision as the witness keeps it."""

    task: int
    x: FloatArray
    today: FloatArray
    beta: float
    lower: float
    trial: bool
    reward: float | None = None  # counted from `least`
    called_off: bool = False
    left: float = 0.0  # to the model, of what was earned
    variance: float = 0.0


class Witness:
    """The budget of rewards from its definition, one list for each account."""

    def __init__(self, problem: Problem, rule: Conservative) -> None:
        self.p, self.rule, self.delta = problem, rule, rule.probability
        self.keep = 1.0 - rule.alpha
        self.kernel = naive.sum_of(naive.rbf(problem.length, problem.variance), naive.linear(problem.slope))
        self.data = naive.Data(np.zeros(0, dtype=np.int64), np.zeros((0, D)), np.zeros(0), np.zeros(0))
        self.made: list[Made] = []
        self.running, self.stayed = list(problem.declared), 0
        self.told: list[float] = []
        accounts = range(M if rule.per_station else 1)
        self.facts, self.std, self.scatter = ([0.0 for _ in accounts] for _ in range(3))
        self.open: list[list[Made]] = [[] for _ in accounts]

    def account(self, task: int) -> int:
        return task if self.rule.per_station else 0

    def believe(self, tasks: list[int], X: FloatArray) -> tuple[FloatArray, FloatArray]:
        index = np.array(tasks)
        mean = naive.posterior_mean(self.data, self.kernel, self.p.K_Z, index, X, mean=self.p.mean)
        return mean - self.rule.least, naive.posterior_covariance(self.data, self.kernel, self.p.K_Z, index, X)

    def lower(self, c: list[float], tasks: list[int], X: FloatArray, *, scatter: float, beta: float) -> float:
        """Bound of Σ c f(x) with rewards' scatter of so many variances on top."""
        mean, C = self.believe(tasks, X)
        noise = self.p.noise + (sum(self.told) / len(self.told) if self.told else 0.0)
        return float(np.dot(c, mean) - beta * math.sqrt(np.dot(c, C @ c) + scatter * noise))

    def own(self, task: int, x: FloatArray, today: FloatArray, *, trial: bool, beta: float) -> float:
        alpha, keep = self.rule.alpha, self.keep
        if not trial:
            return max(0.0, self.lower([alpha], [task], np.array([today]), scatter=alpha**2, beta=beta))
        surely = self.lower([1, -keep], [task] * 2, np.array([x, today]), scatter=1 + keep**2, beta=beta)
        at_worst = min(0.0, self.lower([-keep], [task], np.array([today]), scatter=keep**2, beta=beta))
        return max(surely, at_worst)

    def sure(self, account: int) -> float:
        delta, v, q = self.delta / (4 * len(self.facts)), self.scatter[account], self.std[account]
        held = self.facts[account] + sum(e.lower for e in self.open[account])
        if v > 0:
            rho = self.p.noise
            held -= math.sqrt(2 * (v + rho) * math.log(1 + math.sqrt((v + rho) / rho) / (2 * delta)))
        if q > 0:
            q0, t = math.sqrt(self.p.noise), math.sqrt(2 * math.log(4 * math.e / delta))
            density = 0.25 * q0**0.25 * (q + q0) ** -1.25
            held -= q * (t / 2 - math.log(delta * q * density) / t)
        for e in self.made:
            if e.reward is None and self.account(e.task) == account:
                held += min(e.lower, 0.0) if e.called_off else e.lower
        return held

    def decide(self, asked: list[int], X: FloatArray) -> list[int]:
        """Decide a round of stations, each for its contexts (N, D) of X."""
        alpha, keep, arms = self.rule.alpha, self.keep, list[int]()
        before = {a: self.sure(a) for a in range(len(self.facts))}
        rounds: list[Made] = []
        for task in asked:
            mean, C = self.believe([task] * N, X[task])
            arm, today = int(np.argmax(mean + self.p.beta * np.sqrt(np.diag(C)))), self.p.declared[task]
            number = len(self.made) + len(rounds) + 1
            beta = math.sqrt(2 * math.log(number**2 * math.pi**2 / (6 * self.delta / 5)))
            e = Made(task, X[task][arm], X[task][today], beta, 0.0, trial=arm != today)
            if e.trial:
                e.lower = self.own(task, e.x, e.today, trial=True, beta=beta)
                some = [*(o for o in rounds if self.account(o.task) == self.account(task)), e]
                c = [w for o in some for w in ([1.0, -keep] if o.trial else [0.0, alpha])]
                scatter = sum(1 + keep**2 if o.trial else alpha**2 for o in some)
                contexts = np.array([x for o in some for x in (o.x, o.today)])
                as_one = self.lower(c, [o.task for o in some for _ in range(2)], contexts, scatter=scatter, beta=beta)
                if before[self.account(task)] + max(as_one, sum(o.lower for o in some)) < 0:
                    arm = self.instead(task, X[task], beta=beta)
                    e.x, e.trial = X[task][arm], arm != today
                    e.lower = self.own(task, e.x, e.today, trial=e.trial, beta=beta)
            if not e.trial:
                e.lower = self.own(task, e.x, e.today, trial=False, beta=beta)
            rounds.append(e)
            arms.append(arm)
        self.made += rounds
        for task, arm in zip(asked, arms, strict=True):
            self.running[task] = arm
        return arms

    def instead(self, task: int, X: FloatArray, *, beta: float) -> int:
        """What runs, where it surely earns no less than what was declared, else that."""
        runs, today = self.running[task], self.p.declared[task]
        mean, C = self.believe([task] * N, X)
        doubt = math.sqrt(max(0.0, C[runs, runs] + C[today, today] - 2 * C[runs, today]))
        stays = bool(mean[runs] - mean[today] >= beta * doubt)
        self.stayed += stays and runs != today
        return runs if stays else today

    def tell(self, number: int, reward: float, told: float | None) -> None:
        e = self.made[number]
        noise = self.p.noise + (told or 0.0)
        self.data = naive.Data(
            np.append(self.data.tasks, e.task), np.vstack([self.data.X, e.x]), np.append(self.data.y, reward),
            np.append(self.data.noise, noise),
        )  # fmt: skip
        e.reward, account, alpha, keep = reward - self.rule.least, self.account(e.task), self.rule.alpha, self.keep
        self.told.append(told or 0.0)
        if not e.trial:
            self.facts[account] += alpha * e.reward
            self.scatter[account] += alpha**2 * noise
            return
        _, C = self.believe([e.task] * 2, np.array([e.x, e.today]))
        widths = {k: math.sqrt((1 - k) ** 2 * C[0, 0] + keep**2 * C[1, 1] - 2 * (1 - k) * keep * C[0, 1]) for k in GRID}
        e.left = float(np.clip(keep * C[0, 1] / C[0, 0], 0.0, 1.0))
        added, std = self.block([e])
        assert std <= min(widths.values()) + 1e-9  # no share of fact makes it more certain
        e.lower = added - e.beta * std
        self.scatter[account] += max(e.left**2 + keep**2, (1 - e.left) ** 2) * noise
        self.open[account].append(e)
        if len(self.open[account]) == BLOCK:
            added, std = self.block(self.open[account])
            self.facts[account] += added
            self.std[account] += std
            self.open[account] = []

    def block(self, trials: list[Made]) -> tuple[float, float]:
        """What trials add in all as far as is believed, and within which standard deviation."""
        contexts = np.array([x for e in trials for x in (e.x, e.today)])
        mean, C = self.believe([e.task for e in trials for _ in range(2)], contexts)
        c = np.array([w for e in trials for w in (e.left, -self.keep)])
        facts = sum((1 - e.left) * (e.reward or 0.0) for e in trials)
        return facts + float(c @ mean), math.sqrt(max(float(c @ C @ c), 0.0))


GRID = np.linspace(0.0, 1.0, 51).tolist()


def case_of(seed: int, *, per_station: bool) -> tuple[Problem, Conservative]:
    problem = problem_of(seed, "budget", per_station)
    problem.noise = float(problem.rng.uniform(0.0005, 0.01))  # so little scatter that there are trials to speak of
    alpha = float(problem.rng.choice([0.1, 0.3, 0.6]))
    stated = KrauseOng(0.4)  # as the model would have it: what calibration adds is in test_rates.py
    return problem, Conservative(alpha, per_station=per_station, least=problem.least, bounds=stated)


def play(
    problem: Problem, rule: Conservative, steps: int, *, crash: float = math.inf
) -> tuple[Witness, Controller, int]:
    """Let witness and controller decide the same, and count what was held back; some stations may crash on the way."""
    witness, controller, rng = Witness(problem, rule), problem.controller(rule), problem.rng
    reward_of, ids, held_back = rewards_of(problem), list[str](), 0
    for step in range(steps):
        X = problem.contexts()
        asked = list(range(M)) if step % 2 else [int(rng.integers(M))]
        if len(asked) == M:
            made = list(controller.ask_all(contexts=dict(zip(STATIONS, X, strict=True))).values())
        else:
            made = [controller.ask(STATIONS[t], contexts=X[t]) for t in asked]
        assert [d.arm for d in made] == witness.decide(asked, X)
        lowers = [e.lower for e in witness.made[-len(asked) :]]
        np.testing.assert_allclose([d.policy_state["safety"]["lower"] for d in made], lowers, rtol=1e-6, atol=1e-9)
        ids += [d.id for d in made]
        held_back += sum(d.policy_state["safety"].get("by") == "budget" for d in made)
        for number in rng.permutation(len(ids))[: rng.integers(2, 9)]:
            entry = witness.made[number]
            if entry.reward is not None:
                continue
            if rng.random() < 0.1 and not entry.called_off:
                entry.called_off = True
                controller.call_off(ids[number])
                continue
            reward, told = reward_of(entry.task, entry.x), float(rng.choice([0.0, 0.002, 0.01])) or None
            reward = rule.least if step >= crash and entry.task else reward
            witness.tell(int(number), reward, told)
            controller.tell(ids[number], reward, noise=told)
    return witness, controller, held_back


@given(seed=st.integers(0, 10_000), per_station=st.booleans())
@settings(max_examples=15, deadline=None, derandomize=True)
def test_every_decision_is_the_one_of_the_definition(seed: int, per_station: bool) -> None:
    play(*case_of(seed, per_station=per_station), steps=16)


@pytest.mark.parametrize("per_station", [False, True])
def test_the_witness_sees_trials_refusals_and_full_blocks(per_station: bool) -> None:
    """What the property above compares is not one of the cases alone."""
    trials = refusals = blocks = 0
    for seed in (3, 4):
        witness, _, held_back = play(*case_of(seed, per_station=per_station), steps=30)
        trials, refusals = trials + sum(e.trial for e in witness.made), refusals + held_back
        blocks += sum(std > 0 for std in witness.std)
    assert min(trials, refusals, blocks) > 0


def test_the_witness_sees_stations_that_stay_where_others_have_emptied_the_budget() -> None:
    stayed = 0
    for seed in (1, 2, 5):
        problem, rule = case_of(seed, per_station=False)
        problem.noise, problem.usual = 1e-4, 0.5 * problem.rng.normal(size=(M, N, D))
        witness, _, _ = play(problem, replace(rule, alpha=0.02), steps=40, crash=14)
        stayed += witness.stayed
    assert stayed > 1


def test_a_correction_leads_where_the_right_reward_would_have_led() -> None:
    problem, rule = case_of(5, per_station=False)
    _, controller, _ = play(problem, rule, steps=20)
    wrong = list(controller.journal.told)[3:6]
    right = [
        replace(entry, reward=0.3) if isinstance(entry, Told) and entry.id in wrong else entry
        for entry in controller.journal
    ]
    before = counted(controller)
    for key in wrong:
        controller.correct(key, 0.3)
    for found, expected in zip(counted(controller), counted(Controller.resume(controller.setup, right)), strict=True):
        np.testing.assert_array_equal(found, expected)
    assert not np.array_equal(before[0], counted(controller)[0])


def counted(controller: Controller) -> list[FloatArray]:
    state = controller.policy.state()  # type: ignore[attr-defined]
    return [state[name] for name in ("settled", "settled_doubt", "settled_open")]


def test_a_station_that_joins_pays_from_the_network_or_from_nothing() -> None:
    for per_station in (False, True):
        problem, rule = case_of(4, per_station=per_station)
        _, controller, _ = play(problem, rule, steps=20)
        before = counted(controller)
        controller.add_station("new", running={"arm": 1})
        settled, doubt, trials = counted(controller)
        for one, other in zip(before, (settled[:M], doubt[:M], trials), strict=True):
            np.testing.assert_array_equal(one, other)
        assert settled[M] == doubt[M].sum() == 0
        for _ in range(3):
            decision = controller.ask("new", contexts=problem.rng.normal(size=(N, D)))
            controller.tell(decision.id, 0.7)
        state = controller.policy.state()  # type: ignore[attr-defined]
        assert state["settled_doubt"].shape == (M + 1, 4)
        assert state["settled_doubt"][M, 3] == 3
        check_ways_back(controller)
