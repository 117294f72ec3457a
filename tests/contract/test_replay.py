"""One contract for every replay: saved and loaded, learned anew, resumed or followed, a controller is what it was.

Whatever it was made with. Lives ask, say what ran, tell late and out of order, correct, call off, consider, and let
stations come and go; then each way back must give the same beliefs and, going on, the same decisions, up to the
tolerance of `kinband.records.same_decision`.
"""

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from sklearn.gaussian_process import kernels as sk

from kinband import ConfigurationSpace, Controller, Decision, Trace
from kinband.controller.events import ChangePoint, Estimated, Joined, Ran
from kinband.drift import Drift, Reset
from kinband.kernels import RBF, Matern32
from kinband.kpis import KpiFloor, NeighbourReward
from kinband.policies import POLICIES, Conservative, Floor, SwitchingCost
from kinband.records import Alternative, Samples, same_decision
from kinband.service.ledger.restoring import FollowingController

STATIONS = list("abcd")
MATRICES = {
    "dense": 0.5 * np.ones((4, 4)) + 0.5 * np.eye(4),
    "blocks": np.kron(np.diag([1.0, 0.7]), np.array([[1.0, 0.6], [0.6, 1.0]])),
    "independent": np.eye(4),
}
FLOORS = [
    KpiFloor("p", at_least=0.3, confidence=0.7, mean=0.6, deviation=0.2, noise=0.01),
    KpiFloor("q", at_most=2.0, confidence=0.6, mean=1.0, deviation=1.5, noise=0.2),
]
BLEND = NeighbourReward({"a": ["b", "c", "x"], "b": {"a": 2.0}}, weight=0.4, others=["x"])
CLOCK: dict[str, Any] = {"drift": Drift(9.0, reset=Reset(3.0, kept=0.2), clock="numbers")}
FEATURES: dict[str, dict[str, Any]] = {
    "plain": {},
    "structure": {"arms": 29, "kernel": RBF([0.8, 1.4], variance=0.06), "steps": 380},
    "sparse": {"engine": "sparse", "inducing_points": 6},
    "switching": {"engine": "auto", "inducing_points": 9, "steps": 120},
    "schur": {"engine": "schur"},
    "product of kernels": {"kernel": Matern32([0.5, 2.0]) * RBF(1.5) + RBF(0.3)},
    "scikit-learn's Matern": {"kernel": sk.Matern(0.7, nu=2.5)},
    "scikit-learn's DotProduct": {"kernel": sk.DotProduct(0.3) + sk.RBF(0.8)},
    "rounds that know their picks": {"options": {"rounds": "aware"}},
    "resets": {"drift": Drift(reset=Reset(3.0))},
    "forgetting": {"drift": Drift(25.0, reset=Reset(4.0))},
    "clock": CLOCK,
    "kpis": {"kpis": FLOORS},
    "neighbours": {"neighbours": BLEND},
    "budget": {"safety": Conservative(0.2, least=-1.0)},
    "budget of rewards": {"safety": Conservative(0.3, delta=0.3, least=-1.0)},
    "budgets of stations": {"safety": Conservative(0.6, delta=0.3, least=-1.0, per_station=True), "steps": 150},
    "floor": {"safety": [Floor(0.4), SwitchingCost(0.02)]},
    "rates": {
        "kpis": [KpiFloor("p", at_least=0.3, delta=0.3, mean=0.6, deviation=0.2, noise=0.01), FLOORS[1]],
        "safety": [Conservative(0.6, delta=0.3, least=-1.0), Floor(0.1, delta=0.1), SwitchingCost(0.02)],
        "steps": 120,
    },
    "kpis, budget and floor": {"kpis": FLOORS, "safety": [Conservative(0.3, delta=0.3, least=-1.0), Floor(0.6)]},
    "all": {"kpis": FLOORS, "safety": Conservative(0.3, least=-1.0), "neighbours": BLEND, **CLOCK},
    "estimated": {"estimated": True},
    "estimated, all": {
        "estimated": True,
        "kpis": FLOORS,
        "safety": Conservative(0.3),
        "drift": Drift(reset=Reset(3.0)),
    },
    **{f"policy {name}": {"policy": name} for name in sorted(POLICIES) if name != "ucb"},
}
OPTIONS: dict[str, dict[str, Any]] = {"super-ucb": {"horizon": 900}, "fixed": {"arm": 2}}


@pytest.fixture(autouse=True)
def early_switch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Posteriors become sparse after 40 rows."""
    monkeypatch.setattr("kinband.posterior.blocks.SWITCH_ROWS", 40)


def make(matrix: str, *, seed: int, arms: int = 6, **given: Any) -> Controller:
    rng = np.random.default_rng(seed)
    rows, clock = seed % 3 * 6, given.get("drift")
    features = ("load", "clock", "knob") if clock is not None and clock.clock == "numbers" else ("load", "knob")
    X = rng.normal(size=(rows, len(features)))
    X[:, 1] = -np.abs(X[:, 1])  # a log ends before the first decision
    kpi = np.where(rng.random(rows) < 0.3, np.nan, rng.random(rows))
    log = Samples(
        tuple(STATIONS), rng.integers(0, 4, rows), X, rng.random(rows), None, features, kpis={"p": kpi},
    )  # fmt: skip
    policy = given.get("policy", "ucb")
    usual: dict[str, Any] = {
        "state": ["load"], "similarity": MATRICES[matrix], "kernel": RBF(0.9, variance=0.06), "noise": 0.012,
        "mean": 0.5, "engine": "exact", "log": log if rows else None, "running": {"knob": 1}, "seed": seed,
        "options": OPTIONS.get(policy, {}), "beta": "corrected" if policy == "super-ucb" else 1.1,
        "descriptors": {name: {"x_m": float(i)} for i, name in enumerate(STATIONS)},
    }  # fmt: skip
    return Controller(ConfigurationSpace(knob=range(arms)), STATIONS, **(usual | given))


class Life:
    """What may happen to a controller, drawn from a generator that another controller can be led by again."""

    def __init__(self, controller: Controller, seed: int, *, estimated: bool = False) -> None:
        self.controller, self.rng, self.estimated = controller, np.random.default_rng(seed), estimated

    def run(self, steps: int) -> "Life":
        chances = {
            self.ask: 0.2, self.ask_all: 0.1, self.ran: 0.12, self.tell: 0.28, self.tell_all: 0.08,
            self.correct: 0.06, self.call_off: 0.04, self.join: 0.03, self.leave: 0.02, self.return_: 0.02,
            self.estimate: 0.05,
        }  # fmt: skip
        for _ in range(steps):
            move = list(chances)[self.rng.choice(len(chances), p=list(chances.values()))]
            (move if self.controller.pending else self.ask_all)()
        return self

    def future(self) -> list[Decision]:
        before = len(self.controller.journal.asked)
        for _ in range(3):
            self.ask()
            self.ask_all()
            self.ran()
            self.tell()
            self.tell_all()
        return [asked.decision for asked in self.controller.journal.asked.values()][before:]

    def when(self) -> dict[str, Any]:
        drift, column = self.controller.setup.config.drift, self.controller.setup.clock_column
        if drift is None or drift.clock != "numbers" or column is None:
            return {}
        asked = list(self.controller.journal.asked.values())
        last = float(asked[-1].x[column]) if asked else 0.0
        return {"time": last + float(self.rng.choice([0.0, self.rng.exponential()]))}

    def ask(self) -> None:
        name, state, when = str(self.rng.choice(self.controller.stations)), self.state(), self.when()
        if self.rng.random() < 0.3:
            self.controller.consider(name, state, **when)
        self.controller.ask(name, state, **when)

    def ask_all(self) -> None:
        self.controller.ask_all({name: self.state() for name in self.controller.stations}, **self.when())

    def state(self) -> dict[str, float]:
        return {"load": float(self.rng.normal())}

    def ran(self) -> None:
        key = str(self.rng.choice(self.controller.pending))
        arms = [1, self.controller.decision(key).arm, int(self.rng.integers(len(self.controller.space)))]
        self.controller.ran(key, self.controller.space[int(self.rng.choice(arms))])

    def tell(self) -> None:
        noise = None if self.rng.random() < 0.6 else float(self.rng.uniform(0.001, 0.03))
        self.controller.tell(
            str(self.rng.choice(self.controller.pending)), self.reward(), noise=noise, kpis=self.kpis()
        )

    def tell_all(self) -> None:
        some = [key for key in self.controller.pending if self.rng.random() < 0.7] or self.controller.pending[:1]
        kpis = {key: measured for key in some if (measured := self.kpis())}
        others = {"x": float(self.rng.random())} if self.controller.setup.config.neighbours else None
        self.controller.tell_all({key: self.reward() for key in some}, kpis=kpis or None, others=others)

    def reward(self) -> float:
        """A network that changes every dozen rewards."""
        return float(0.3 + 0.5 * (len(self.controller) // 12 % 2) + 0.1 * self.rng.normal())

    def kpis(self) -> dict[str, Any] | None:
        if not self.controller.setup.kpis:
            return None
        given: dict[str, Any] = {"p": float(self.rng.random()), "q": (float(self.rng.normal()), 0.05)}
        return {name: value for name, value in given.items() if self.rng.random() < 0.7}

    def correct(self) -> None:
        if told := list(self.controller.journal.told):
            self.controller.correct(str(self.rng.choice(told)), self.reward(), kpis=self.kpis())

    def call_off(self) -> None:
        self.controller.call_off(str(self.rng.choice(self.controller.pending)))

    def join(self) -> None:
        name, running = f"n{len(self.controller.journal)}", {"knob": int(self.rng.integers(6))}
        way = int(self.rng.integers(3))
        alike = {str(self.rng.choice(self.controller.stations)): float(self.rng.uniform(-0.4, 0.9))}
        descriptors = {"x_m": float(self.rng.normal())} if way == 1 else None
        self.controller.add_station(name, descriptors, alike if way == 2 else None, running=running)

    def leave(self) -> None:
        if len(self.controller.stations) > 2:
            self.controller.remove_station(str(self.rng.choice(self.controller.stations)))

    def return_(self) -> None:
        if gone := sorted(self.controller.current.gone):
            self.controller.add_station(gone[0])

    def estimate(self) -> None:
        """What an earlier version did now and then: another task matrix, or none."""
        if not self.estimated:
            return
        memory = self.controller._memory
        A = self.rng.normal(size=(len(self.controller.current.stations), 2))
        K_Z = 0.3 * A @ A.T + np.eye(len(A))
        triangle = tuple(K_Z[np.tril_indices(len(A))].tolist()) if self.rng.random() < 0.6 else ()
        memory.apply(Estimated(memory.rows, 0.3 if triangle else None, 0.6 if triangle else None, triangle))


def ways_back(controller: Controller) -> list[Controller]:
    """The same controller saved and loaded, learned anew, resumed, and followed by another process."""
    with tempfile.TemporaryDirectory() as folder:
        with_beliefs, without = Path(folder) / "with", Path(folder) / "without"
        controller.save(with_beliefs)
        controller.save(without, beliefs=False)
        found = [Controller.load(with_beliefs), Controller.load(with_beliefs, rebuild=True), Controller.load(without)]
    follower = FollowingController.from_setup(controller.setup)
    assert isinstance(follower, FollowingController)
    follower.follow(controller.journal)
    return [*found, Controller.resume(controller.setup, list(controller.journal)), follower]


def same_beliefs(one: Controller, other: Controller) -> None:
    """Everything that is stored agrees to 1e-9 of its size."""
    assert len(one.journal) == len(other.journal)
    assert one.current.stations == other.current.stations
    assert np.array_equal(one.current.K_Z, other.current.K_Z)
    states: list[dict[str, Any]] = [getattr(c.policy, "state", dict)() or {} for c in (one, other)]
    mine, theirs = states
    assert mine.keys() == theirs.keys()
    for name in mine:
        scale = float(np.abs(np.nan_to_num(mine[name])).max(initial=1e-3))
        np.testing.assert_allclose(mine[name], theirs[name], rtol=0, atol=1e-9 * scale, err_msg=name)


def check(controller: Controller) -> None:
    """However it comes back, it stands where it stood, and goes on as it would have."""
    others = ways_back(controller)
    for other in others:
        same_beliefs(controller, other)
    expected = Life(controller, 99).future()
    for other in others:
        for recorded, again in zip(expected, Life(other, 99).future(), strict=True):
            assert same_decision(recorded, again, spread=0.25)
        same_beliefs(controller, other)
    controller.rebuild()
    same_beliefs(controller, others[0])


@pytest.mark.parametrize("feature", FEATURES)
@given(matrix=st.sampled_from(sorted(MATRICES)), seed=st.integers(0, 10_000))
@settings(max_examples=3, deadline=None, derandomize=True, phases=[Phase.generate])
def test_every_way_back_gives_the_same_beliefs_and_the_same_future(feature: str, matrix: str, seed: int) -> None:
    given = dict(FEATURES[feature])
    steps, estimated = given.pop("steps", 60), given.pop("estimated", False)
    controller = make(matrix, seed=seed, **given)
    Life(controller, seed, estimated=estimated).run(steps)
    check(controller)


@pytest.mark.parametrize(
    "given",
    [{}, {"engine": "sparse", "inducing_points": 20}, {"drift": Drift(reset=Reset(3.0))}],
    ids=["", "sparse", "resets"],
)
def test_it_holds_for_a_controller_that_learned_its_model_from_a_log(given: dict[str, Any]) -> None:
    rng = np.random.default_rng(3)
    columns: dict[str, Any] = {"station": STATIONS * 15, "load": rng.random(60), "knob": rng.integers(0, 6, 60)}
    columns["reward"] = 0.5 + 0.2 * np.cos(columns["knob"] / 1.6) + 0.05 * rng.normal(size=60)
    trace = Trace.from_frame(columns, {"configuration": ["knob"]})
    controller = Controller.from_trace(trace, ConfigurationSpace(knob=range(6)), seed=4, **given)
    Life(controller, 5).run(60)
    check(controller)


@pytest.mark.parametrize("arms", [5, 29, 70])
def test_it_holds_at_every_place_of_the_factors_panels(arms: int) -> None:
    controller = Controller(ConfigurationSpace(knob=range(arms)), ["a"], state=["load"], engine="exact")
    rng = np.random.default_rng(0)
    for _ in range(300):
        controller.tell(controller.ask("a", {"load": float(rng.random())}).id, float(rng.random()))
    again = Controller.resume(controller.setup, list(controller.journal))
    same_beliefs(controller, again)
    for load in rng.random(5).tolist():
        assert same_decision(controller.ask("a", {"load": load}), again.ask("a", {"load": load}), spread=1.0)


def test_a_station_that_joined_before_an_estimate_that_changed_nothing_is_taken_up() -> None:
    """Built at once for all stations, a posterior may fall into blocks that one grown station by station has not."""
    controller = make("dense", seed=3)
    controller.add_station("lone", similarity={"a": 0.0}, running={"knob": 1})
    life = Life(controller, 2)
    for _ in range(12):
        life.ask()
        life.tell()
    controller._memory.apply(Estimated(controller._memory.rows))
    check(controller)


def test_lives_see_everything_that_the_contract_speaks_of() -> None:
    seen: dict[Any, int] = dict.fromkeys((Estimated, Joined, ChangePoint, Ran, "budget", "floor", "sparse"), 0)
    for seed in range(6):
        given: dict[str, Any] = {
            "safety": [Conservative(0.02, least=-0.2), Floor(0.3)],
            "drift": Drift(reset=Reset(3.0)),
        }
        controller = make("dense", seed=seed, engine="auto", inducing_points=9, **given)
        Life(controller, seed, estimated=True).run(120)
        for entry in controller.journal:
            if type(entry) in seen:
                seen[type(entry)] += 1
        held = [asked.decision.policy_state["safety"].get("by") for asked in controller.journal.asked.values()]
        seen["budget"], seen["floor"] = seen["budget"] + held.count("budget"), seen["floor"] + held.count("floor")
        state = controller.policy.state()  # type: ignore[attr-defined]
        seen["sparse"] += any(name.endswith("is_sparse") and bool(state[name][0]) for name in state)
    assert min(seen.values()) >= 3, seen


def test_decisions_never_told_do_not_matter_to_what_is_believed() -> None:
    quiet, noisy = make("dense", seed=8), make("dense", seed=8)
    rng = np.random.default_rng(1)
    for step in range(150):
        state = {"load": float(rng.normal())}
        told = [c.ask("a", state, allowed=[step % 6]) for c in (quiet, noisy)]
        noisy.ask("b", state)
        reward = float(rng.random())
        quiet.tell(told[0].id, reward)
        noisy.tell(told[1].id, reward)
    one, other = (replace(c.ask("c", {"load": 0.2}), id="d") for c in (quiet, noisy))
    assert same_decision(one, other, spread=0.25)


# --- What is the same, and what is not ------------------------------------------------------------------------------

OTHERS = [Alternative(0, None, 0.8, 0.05, 0.9), Alternative(1, None, 0.7, 0.1, 0.9 - 1e-12)]
MADE = Decision(
    "d1", "a", 0, None, 0.8, 0.05, 0.9, OTHERS, policy_state={"lane": 3, "safety": {"lower": 0.5, "by": "floor"}}
)


@pytest.mark.parametrize(
    ("change", "same"),
    [
        ({}, True),
        ({"mean": 0.8 + 1e-11}, True),
        ({"mean": 0.8 + 1e-7}, False),
        ({"std": 0.05 + 1e-7}, False),
        ({"arm": 1, "mean": 0.7, "std": 0.1, "ucb": 0.9 - 1e-12}, True),
        ({"arm": 1, "mean": 0.7, "std": 0.1, "ucb": 0.95}, False),
        ({"alternatives": [OTHERS[0], replace(OTHERS[1], mean=0.71)]}, False),
        ({"policy_state": {"safety": {"lower": 0.5 + 1e-11, "by": "floor"}}}, True),
        ({"policy_state": {"safety": {"lower": 0.51, "by": "floor"}}}, False),
        ({"policy_state": {"safety": {"lower": 0.5, "by": "budget"}}}, False),
        ({"policy_state": {}}, False),
        ({"known": 4}, False),
        ({"station": "b"}, False),
    ],
)
def test_a_decision_made_again_is_judged_by_tolerance(change: dict[str, Any], same: bool) -> None:
    assert same_decision(MADE, replace(MADE, **change), spread=1.0) == same


def test_without_scores_only_the_same_arm_is_the_same() -> None:
    made = Decision("d1", "a", 0, None, None, None, None, [Alternative(arm, None, None, None, None) for arm in (0, 1)])
    assert same_decision(made, made, spread=1.0)
    assert not same_decision(made, replace(made, arm=1), spread=1.0)
