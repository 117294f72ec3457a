"""Rules with a rate: quantiles are those of a naive recursion, and bounds are missed no more often than stated.

The witness is written from the definition and shares no code with ours: it is handed what the journal says, in the
order in which rewards were told, and goes over it with plain numbers.
"""

import math
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kinband import ConfigurationSpace, Controller
from kinband.controller.events import Corrected, Told
from kinband.kernels import RBF
from kinband.kpis import KpiFloor
from kinband.policies import Floor
from kinband.policies.calibration import STEP, Calibration

NOISE, DELTA, N = 0.004, 0.2, 5
SPACE, STATIONS = ConfigurationSpace(knob=range(N)), ["a", "b"]
RATED = KpiFloor("kept", at_most=0.9, delta=0.25, mean=0.5, deviation=0.2, noise=0.01)


def make(*, seed: int = 0, kpis: Any = RATED) -> Controller:
    return Controller(
        SPACE, STATIONS, state=["load"], similarity=[[1, 0.5], [0.5, 1]], kernel=RBF([0.9, 1.2], variance=0.05),
        noise=NOISE, mean=0.5, beta=1.5, safety=Floor(0.3, delta=DELTA), kpis=kpis, running={"knob": 1}, seed=seed,
    )  # fmt: skip


def live(controller: Controller, seed: int, *, steps: int, corrections: bool = True) -> None:
    """Ask, tell late and out of order, let others put something else in place, and put rewards right."""
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        controller.ask_all({name: {"load": float(rng.random())} for name in STATIONS})
        for key in controller.pending:
            if rng.random() < 0.2:
                controller.ran(key, SPACE[int(rng.integers(N))])
        for key in rng.permutation(controller.pending).tolist():
            if rng.random() < 0.6:
                noise = float(rng.choice([0.001, 0.02])) if rng.random() < 0.5 else None
                kpis = {"kept": float(rng.normal(0.5, 0.4))} if rng.random() < 0.7 else None
                controller.tell(key, float(rng.normal(0.5, 0.25)), noise=noise, kpis=kpis)
        if corrections and len(controller) and rng.random() < 0.3:
            key = str(rng.choice(list(controller.journal.told)))
            controller.correct(key, float(rng.normal(0.5, 0.5)), kpis={"kept": float(rng.random())})


def score(controller: Controller, told: Told, rule: str) -> float | None:
    """How far a measurement lies on the wrong side of what was predicted, from the decision as it was made."""
    decision = controller.decision(told.id)
    ran = controller.journal.ran(told.id)
    if rule == "floor":
        scored = [a for a in decision.alternatives if a.arm == ran]  # what a KPI's floor shut out was not scored
        if not scored:
            return None
        mean, std = scored[0].mean or 0.0, scored[0].std or 0.0
        return (mean - told.reward) / math.sqrt(std**2 + NOISE + (told.noise or 0.0))
    note = decision.policy_state["kpis"]
    if "kept" not in told.kpis or ran not in note["arms"]:
        return None
    at = note["arms"].index(ran)
    mean, std = float(note["means"]["kept"][at]), float(note["widths"]["kept"][at])
    return (told.kpis["kept"][0] - mean) / math.sqrt(std**2 + 0.01)


def witness(controller: Controller, rule: str, delta: float) -> list[float]:
    """The quantile after every entry of the journal that moves it."""
    z = NormalDist().inv_cdf(1 - delta)
    excess, found = [0.0, 0.0], list[float]()
    now: dict[str, Told] = {}

    def missed(told: Told) -> bool | None:
        x = score(controller, told, rule)
        noted = controller.decision(told.id).policy_state["calibrated"]["rules"]
        return None if x is None else x > noted["floor" if rule == "floor" else "kpi: kept"]["quantile"]

    for entry in controller.journal:
        if isinstance(entry, Told):
            was, now[entry.id] = None, entry
        elif isinstance(entry, Corrected):
            old = now[entry.id]
            was = missed(old)
            now[entry.id] = Told(old.id, entry.reward, old.noise, {**old.kpis, **entry.kpis})
        else:
            continue
        is_missed = missed(now[entry.id])
        if is_missed is None:
            continue
        running = controller.decision(entry.id).policy_state["calibrated"]["running"]
        for group in (0, 1) if controller.journal.ran(entry.id) != running else (0,):
            by = is_missed - delta if was is None else float(is_missed) - float(was)
            excess[group] = max(excess[group] + by, -z / STEP)
        found.append(max(z + STEP * max(excess), 0.0))
    return found


@given(seed=st.integers(0, 10_000))
@settings(max_examples=8, deadline=None)
def test_quantiles_are_those_of_a_naive_recursion(seed: int) -> None:
    controller = make(seed=seed)
    live(controller, seed, steps=14)
    ours = controller._memory.calibrated.rules
    for rule, name, delta in (("floor", "floor", DELTA), ("kept", "kpi: kept", 0.25)):
        theirs = witness(controller, rule, delta)
        assert theirs
        assert ours[name].quantile == pytest.approx(theirs[-1], abs=1e-12)


def test_the_lives_of_the_witness_see_trials_misses_late_rewards_and_corrections() -> None:
    controller = make(seed=3)
    live(controller, 3, steps=30)
    floor, told = controller._memory.calibrated.rules["floor"], list(controller.journal.told)
    assert min(floor.every.missed, floor.trials.rows, floor.trials.missed) > 0
    assert len(told) >= floor.every.rows > floor.trials.rows
    assert told != sorted(told)
    assert controller.journal.corrections > 0


@given(seed=st.integers(0, 10_000))
@settings(max_examples=5, deadline=None)
def test_every_way_back_stands_at_the_same_quantile(seed: int) -> None:
    controller = make(seed=seed)
    live(controller, seed, steps=10)
    rules = dict(controller._memory.calibrated.rules)
    again = Controller.resume(controller.setup, list(controller.journal))
    assert again._memory.calibrated.rules == rules
    controller.rebuild()
    assert controller._memory.calibrated.rules == rules


@given(order=st.permutations(range(12)))
@settings(max_examples=10, deadline=None)
def test_the_order_of_tells_is_immaterial(order: list[int]) -> None:
    def told(keys: list[int]) -> Calibration:
        controller = make(kpis=None)
        rng = np.random.default_rng(5)
        ids = [controller.ask("a", {"load": float(load)}).id for load in rng.random(12)]
        rewards = rng.normal(0.5, 0.4, 12)
        for i in keys:
            controller.tell(ids[i], float(rewards[i]))
        return controller._memory.calibrated.rules["floor"]

    one, other = told(list(range(12))), told(order)
    assert (one.every.rows, one.every.missed) == (other.every.rows, other.every.missed)
    assert one.quantile == pytest.approx(other.quantile, abs=1e-12)


def least_kept(delta: float, *, largest: float, late: int) -> float:
    """By how much misses of a stretch may exceed δ times its length, as the module says."""
    return largest / STEP + (late + 1) * (1 - delta)


@pytest.mark.parametrize("world", ["greedy", "cycling", "heavy tails", "too sure", "breaking", "blind luck"])
@pytest.mark.parametrize("delta", [0.01, 0.05, 0.2])
@pytest.mark.parametrize("late", [0, 7])
def test_no_stretch_of_rewards_misses_more_than_the_rate_and_a_constant(world: str, delta: float, late: int) -> None:
    """Whatever the scores, as long as none exceeds 12: also those of one who knows the quantile and is after misses."""
    rng, largest, n = np.random.default_rng(4), 12.0, 3000
    rate, waiting, missed = Calibration(delta), list[tuple[float, float]](), list[bool]()
    for t in range(n):
        q = rate.quantile
        x = {
            "greedy": q + 1e-6 if q < largest else -1.0,
            "cycling": 12.0 * math.sin(t / 40),
            "heavy tails": float(rng.standard_t(1.1)),
            "too sure": 4.0 * float(rng.standard_normal()),
            "breaking": -3.0 if t < n // 2 else 11.0,
            "blind luck": -5.0,
        }[world]
        waiting.append((min(x, largest), q))
        if len(waiting) > late:
            score_, asked = waiting.pop(0)
            missed.append(score_ > asked)
            rate = rate.told(missed[-1], trial=True)
    excess = np.concatenate([[0.0], np.cumsum(np.array(missed) - delta)])
    assert (excess - np.minimum.accumulate(excess)).max() <= least_kept(delta, largest=largest, late=late)
    if world in ("too sure", "greedy") and not late:
        assert np.mean(missed) == pytest.approx(delta, abs=least_kept(delta, largest=largest, late=0) / n)


def test_a_right_model_keeps_about_the_normal_quantile() -> None:
    rng, rate, seen = np.random.default_rng(0), Calibration(0.05), list[float]()
    for x in rng.standard_normal(6000):
        seen.append(rate.quantile)
        rate = rate.told(bool(x > rate.quantile), trial=False)
    assert np.mean(seen[500:]) == pytest.approx(NormalDist().inv_cdf(0.95), abs=0.12)


def test_trials_that_miss_are_not_hidden_by_stations_that_stay() -> None:
    rate = Calibration(0.05)
    for _ in range(40):
        for _ in range(19):
            rate = rate.told(False, trial=False)
        rate = rate.told(True, trial=True)
    assert rate.every.excess == pytest.approx(0.0, abs=1e-9)
    assert rate.trials.missed == 40
    assert rate.quantile == pytest.approx(NormalDist().inv_cdf(0.95) + STEP * 40 * 0.95)
