"""The controller's face: asking, telling in any order, and refusing what cannot be right."""

import copy
import gc
import tracemalloc
from typing import Any

import numpy as np
import pytest
from sklearn.gaussian_process import kernels as sk

from kinband import ConfigurationSpace, Controller
from kinband.errors import BadInputError, ConflictError, KinbandError, NotFoundError
from kinband.kernels import RBF
from kinband.policies.base import Policy, PolicySpec
from kinband.policies.baselines import RandomArm
from kinband.records import Alternatives, Choice, Observation, Query, Samples
from kinband.space import Range

SPACE = ConfigurationSpace(threshold_dbm=range(-100, -92))
K_Z = [[1.0, 0.8, 0.1], [0.8, 1.0, 0.2], [0.1, 0.2, 1.0]]


def make(**changes: Any) -> Controller:
    settings: dict[str, Any] = {
        "stations": ["a", "b", "c"],
        "state": {"load": (0.0, 1.0), "users": (0.0, 50.0)},
        "similarity": K_Z,
        "kernel": RBF([0.7, 1.3, 0.9], variance=0.2),
        "noise": 0.03,
        "mean": 0.6,
        "beta": 1.7,
        "reward_range": (0.0, 1.0),
        "seed": 5,
    }
    return Controller(SPACE, **(settings | changes))


def state(load: float = 0.4, users: float = 12.0) -> dict[str, float]:
    return {"load": load, "users": users}


def beliefs(controller: Controller) -> list[tuple[float | None, float | None]]:
    decision = Controller.resume(controller.setup, controller.journal).ask("b", state(0.9, 3.0))
    return [(a.mean, a.std) for a in decision.alternatives]


def test_a_decision_carries_what_an_engineer_needs() -> None:
    controller = make()
    decision = controller.ask("b", state())
    assert decision.id == "d000001"
    assert decision.configuration == SPACE[decision.arm]
    assert decision.mean == 0.6
    assert decision.std == pytest.approx(0.2**0.5)
    assert decision.ucb == pytest.approx(0.6 + 1.7 * 0.2**0.5)
    assert len(decision.alternatives) == len(SPACE)
    assert controller.pending == ["d000001"]


def test_asking_changes_nothing_that_is_believed() -> None:
    controller = make()
    controller.tell(controller.ask("a", state()).id, 0.9)
    before = beliefs(controller)
    for station in "abcabc":
        controller.ask(station, state())
    assert beliefs(controller) == before


def test_rewards_may_come_late_and_in_any_order() -> None:
    states = [state(load) for load in (0.1, 0.5, 0.9, 0.3)]
    one, two = make(), make()
    first = [one.ask(s, x) for s, x in zip("abca", states, strict=True)]
    second = [two.ask(s, x) for s, x in zip("abca", states, strict=True)]
    assert [d.configuration for d in first] == [d.configuration for d in second]
    rewards = [0.2, 0.8, 0.5, 0.7]
    for i in (0, 1, 2, 3):
        one.tell(first[i].id, rewards[i])
    for i in (2, 0, 3, 1):
        two.tell(second[i].id, rewards[i])
    for (m1, w1), (m2, w2) in zip(beliefs(one), beliefs(two), strict=True):
        assert m1 == pytest.approx(m2, abs=1e-10)
        assert w1 == pytest.approx(w2, abs=1e-10)


def test_a_round_decides_all_stations_from_the_same_beliefs() -> None:
    controller, single = make(), make()
    for c in (controller, single):
        c.tell(c.ask("a", state()).id, 0.9)
    together = controller.ask_all({s: state(0.2) for s in "abc"})
    for station, decision in together.items():
        alone = single.ask(station, state(0.2))
        assert (decision.arm, decision.round) == (alone.arm, 0)
        assert decision.ucb == pytest.approx(alone.ucb, abs=1e-12)
    assert {d.round for d in controller.ask_all({s: state() for s in "ab"}).values()} == {1}


def test_a_corrected_reward_counts_as_if_it_had_been_told() -> None:
    wrong, right = make(), make()
    for controller, reward in ((wrong, 0.1), (right, 0.9)):
        controller.tell(controller.ask("a", state()).id, reward)
        controller.tell(controller.ask("b", state(0.8)).id, 0.5)
    # The two chose differently after different rewards, so the second decision is made the same by hand.
    wrong.correct("d000001", 0.9)
    assert wrong.journal.reward("d000001") == 0.9
    again = make()
    again.tell(again.ask("a", state()).id, 0.9)
    asked = wrong.journal.find("d000002")
    again.tell(again.ask("b", state(0.8), allowed=[asked.decision.arm]).id, 0.5)
    for (m1, w1), (m2, w2) in zip(beliefs(wrong), beliefs(again), strict=True):
        assert m1 == pytest.approx(m2, abs=1e-10)
        assert w1 == pytest.approx(w2, abs=1e-10)


@pytest.mark.parametrize("policy", ["linucb", "super-ucb"])
def test_a_correction_reaches_policies_that_must_learn_anew(policy: str) -> None:
    options = {"horizon": 100} if policy == "super-ucb" else {}
    wrong, right = (make(policy=policy, options=options) for _ in range(2))
    for controller, reward in ((wrong, 0.1), (right, 0.9)):
        controller.tell(controller.ask("a", state()).id, reward)
    wrong.correct("d000001", 0.9)
    assert wrong.ask("a", state()).alternatives == right.ask("a", state()).alternatives


def test_a_called_off_decision_is_no_longer_awaited_but_may_still_be_told() -> None:
    controller = make()
    decision = controller.ask("a", state())
    controller.call_off(decision.id)
    assert controller.pending == []
    controller.tell(decision.id, 0.5)
    assert len(controller) == 1


def test_known_noise_of_a_reward_makes_it_count_less() -> None:
    widths = []
    for noise in (None, 0.5):
        controller = make()
        decision = controller.ask("a", state(), allowed=[3])
        controller.tell(decision.id, 0.9, noise=noise)
        widths.append(controller.ask("a", state(), allowed=[3]).std or 0.0)
    assert widths[0] < widths[1]


def test_only_allowed_configurations_are_chosen() -> None:
    controller = make()
    decision = controller.ask("a", state(), allowed={"threshold_dbm": Range(-95, -94)})
    assert decision.configuration in ({"threshold_dbm": -95}, {"threshold_dbm": -94})
    assert len(decision.alternatives) == 2
    one = controller.ask_all({"a": state(), "b": state()}, allowed={"b": [{"threshold_dbm": -100}]})
    assert one["b"].configuration == {"threshold_dbm": -100}


def test_context_rows_are_another_way_to_ask() -> None:
    space = ConfigurationSpace(arm=range(1, 6))
    controller = Controller(space, ["t1", "t2"], features=["x", "y", "z"], kernel=RBF(0.4), beta=0.5)
    rng = np.random.default_rng(2)
    decision = controller.ask("t1", contexts=rng.random((5, 3)))
    assert decision.configuration == {"arm": decision.arm + 1}
    controller.tell(decision.id, 0.3)
    other = controller.ask("t2", contexts=rng.random((7, 3)))
    assert other.configuration is None
    with pytest.raises(BadInputError, match="context has 2 features, declared were 3: x, y, z"):
        controller.ask("t1", contexts=rng.random((5, 2)))
    with pytest.raises(BadInputError, match="asked with context rows"):
        controller.ask("t1", {"x": 0.1})
    with pytest.raises(BadInputError, match="no row"):
        controller.ask("t1", contexts=np.zeros((0, 3)))
    with pytest.raises(BadInputError, match="not both"):
        Controller(space, ["t1"], state=["load"], features=["x"])


def test_ties_are_broken_by_the_seed_and_the_decision() -> None:
    def first_arms(seed: int) -> list[int]:
        controller = make(seed=seed)
        return [controller.ask("a", state()).arm for _ in range(12)]

    assert first_arms(1) == first_arms(1)
    assert first_arms(1) != first_arms(2)
    assert len(set(first_arms(1))) > 1


def test_thousands_of_configurations_keep_the_best_few_scores() -> None:
    space = ConfigurationSpace(power=range(60), tilt=range(50))
    controller = Controller(space, ["a"], state=["load"], kernel=RBF(0.5))
    controller.tell(controller.ask("a", {"load": 0.1}).id, 1.0)
    decision = controller.ask("a", {"load": 0.1})
    assert len(decision.alternatives) == 32
    assert decision.alternatives[0].arm == decision.arm
    scores = [a.ucb for a in decision.alternatives if a.ucb is not None]
    assert scores == sorted(scores, reverse=True)


def test_a_hundred_decisions_take_little_memory() -> None:
    space = ConfigurationSpace(tilt=range(29))
    controller = Controller(space, ["a"], state=["load"], kernel=RBF(0.5), engine="sparse", inducing_points=4)
    for _ in range(20):  # arrays that double have grown by then
        controller.tell(controller.ask("a", {"load": 0.1}).id, 0.5)
    tracemalloc.start()
    for _ in range(100):
        controller.tell(controller.ask("a", {"load": 0.1}).id, 0.5)
    gc.collect()
    used, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert used < 100 * 2000  # a million decisions in less than 2 GB


def test_a_round_of_one_station_takes_up_the_column_it_solved() -> None:
    one, other = make(), make()
    for _ in range(150):  # more than a panel of the factor
        for controller in (one, other):
            decision = controller.ask("b", state(0.3))
            controller.tell(decision.id, 0.5)
    alone, round_ = one.ask("a", state(0.7)), other.ask_all({"a": state(0.7)})["a"]
    assert (alone.arm, alone.mean, alone.std, alone.policy_state) == (
        round_.arm,
        round_.mean,
        round_.std,
        round_.policy_state,
    )


def test_a_declared_range_of_rewards_is_four_prior_deviations_wide() -> None:
    for span, deviation in (((0.0, 1.0), 0.25), ((-10.0, 30.0), 10.0), (None, 1.0)):
        decision = Controller(SPACE, ["a"], state=["load"], reward_range=span).ask("a", {"load": 0.2})
        assert decision.std == pytest.approx(deviation)


def test_a_decision_is_told_by_its_id() -> None:
    controller = make()
    decision = controller.ask("a", state())
    with pytest.raises(BadInputError, match=r"give decision\.id, not the decision"):
        controller.tell(decision, 0.5)  # type: ignore[arg-type]


def test_alternatives_unpack_to_what_was_packed() -> None:
    rows = [(3, 0.25, None, -1.5), (0, None, None, None)]
    found = Alternatives(rows, None)
    assert [(a.arm, a.mean, a.std, a.ucb) for a in found] == rows
    assert found[-1] == found[1]
    assert found[:1] == (found[0],)
    assert found == Alternatives(rows, None) != Alternatives(rows[:1], None)
    assert copy.copy(found) == found  # as between the processes of a cluster
    with pytest.raises(IndexError, match="there are 2 alternatives"):
        found[2]


def test_beliefs_may_start_from_a_log() -> None:
    log = Samples(
        ("a", "b", "c"),
        np.array([0, 2]),
        np.zeros((2, 3)),
        np.array([0.9, 0.1]),
        None,
        ("load", "users", "threshold_dbm"),
    )
    controller = make(log=log)
    assert len(controller) == 0
    assert len(controller.observations()) == 2
    assert beliefs(controller) != beliefs(make())


def test_an_explanation_says_what_why_and_what_came_next() -> None:
    controller = make()
    decision = controller.ask("a", state())
    controller.tell(decision.id, 0.75)
    explanation = controller.explain(decision.id)
    assert f"a should run threshold_dbm={SPACE[decision.arm]['threshold_dbm']}:" in explanation.text
    assert "It earned 0.750" in explanation.text
    assert explanation.runner_up is not None
    assert explanation.runner_up.arm != decision.arm
    trial = make(beta=50.0)
    trial.tell(trial.ask("a", state(), allowed=[0]).id, 1.0)
    assert trial.explain(trial.ask("a", state()).id).explores


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"stations": []}, "at least one station"),
        ({"stations": ["a", "b", "a"]}, "'a' is named twice"),
        ({"stations": "abc"}, "list of names"),
        ({"similarity": [[1.0, 0.5], [0.5, 1.0]]}, "each of 3 stations, got 2"),
        ({"similarity": [[1, 2, 0], [2, 1, 0], [0, 0, 1]]}, "not positive semi-definite"),
        ({"similarity": [[1, 0.5, 0], [0.2, 1, 0], [0, 0, 1]]}, "symmetric"),
        ({"similarity": [[1.0, 0.5, 0.0], [0.5, 1.0]]}, "task matrix must be numbers"),
        ({"similarity": "embedding"}, "learned from a log"),
        ({"similarity": "telepathy"}, "telepathy"),
        ({"noise": 0.0}, "noise must be above zero"),
        ({"noise": float("nan")}, "noise must be finite"),
        ({"mean": float("inf")}, "mean must be finite"),
        ({"beta": -1.0}, "beta must not be negative"),
        ({"beta": "large"}, "beta must be a number"),
        ({"policy": "oracle"}, "unknown policy 'oracle'"),
        ({"policy": None}, "must be a name or a factory"),
        ({"policy": RandomArm()}, "must be a name or a factory"),
        ({"options": {"horizn": 3}}, "no option 'horizn'"),
        ({"options": "x"}, "options must be a mapping"),
        ({"policy": "super-ucb", "options": {"horizon": "x"}}, "how many decisions are planned"),
        ({"policy": "linucb", "options": {"rdige": 1.0}}, "no option 'rdige'"),
        ({"stations": None}, "list of names"),
        ({"state": None}, "state must list feature names"),
        ({"engine": []}, "unknown engine"),
        ({"log": "export.csv"}, "log must be Samples"),
        ({"kernel": sk.RBF([1.0, 1.0])}, "does not fit contexts of 3 features"),
        ({"engine": "steam"}, "unknown engine 'steam'"),
        ({"seed": -1}, "seed must be"),
        ({"seed": 1.5}, "seed must be"),
        ({"reward_range": (1.0, 0.0)}, "low below high"),
        ({"policy": "super-ucb"}, "how many decisions are planned"),
        ({"policy": "fixed"}, "needs an arm"),
        ({"policy": "fixed", "options": {"configuration": {"threshold_dbm": 3}}}, "threshold_dbm"),
    ],
)
def test_bad_settings_get_one_clear_sentence(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(KinbandError, match=sentence):
        make(**changes)


def test_bad_questions_get_one_clear_sentence_and_leave_no_trace() -> None:
    controller = make()
    good = state()
    refused: list[tuple[type[Exception], str, Any]] = [
        (NotFoundError, "unknown station 'z'", lambda: controller.ask("z", good)),
        (BadInputError, "users", lambda: controller.ask("a", {"load": 0.1})),
        (BadInputError, "humidity", lambda: controller.ask("a", {**good, "humidity": 1.0})),
        (BadInputError, "load", lambda: controller.ask("a", {**good, "load": float("nan")})),
        (BadInputError, "load", lambda: controller.ask("a", {**good, "load": float("inf")})),
        (BadInputError, "needs its state", lambda: controller.ask("a")),
        (BadInputError, "asked with states", lambda: controller.ask("a", contexts=np.zeros((8, 3)))),
        (NotFoundError, "threshold_dbm", lambda: controller.ask("a", good, allowed=[{"threshold_dbm": -50}])),
        (BadInputError, "allow", lambda: controller.ask("a", good, allowed=[])),
        (NotFoundError, "unknown station 'q'", lambda: controller.ask_all({"a": good, "q": good})),
        (BadInputError, "no station", lambda: controller.ask_all({})),
        (BadInputError, "not asked for", lambda: controller.ask_all({"a": good}, allowed={"b": [0]})),
        (BadInputError, "either states or contexts", lambda: controller.ask_all()),
        (BadInputError, "state must map", lambda: controller.ask("a", np.zeros(2))),  # type: ignore[arg-type]
        (BadInputError, "states must be given by station", lambda: controller.ask_all([good])),  # type: ignore[arg-type]
        (NotFoundError, "'a', 'b', 'c'", lambda: controller.ask(3714, good)),  # type: ignore[arg-type]
        (BadInputError, "load", lambda: controller.ask("a", {**good, "load": 10**400})),
    ]
    for kind, sentence, call in refused:
        with pytest.raises(kind, match=sentence):
            call()
    assert len(controller.journal) == 0
    assert controller.ask("a", good).id == "d000001"


def test_a_failed_tell_leaves_the_controller_as_it_was() -> None:
    controller = make()
    told, open_ = controller.ask("a", state()), controller.ask("b", state(0.7))
    controller.tell(told.id, 0.5)
    before, entries = beliefs(controller), len(controller.journal)
    refused: list[tuple[type[Exception], str, Any]] = [
        (NotFoundError, "no decision has the id 'd999999'", lambda: controller.tell("d999999", 0.5)),
        (ConflictError, "already told the reward 0.5", lambda: controller.tell(told.id, 0.6)),
        (BadInputError, "reward must be finite", lambda: controller.tell(open_.id, float("nan"))),
        (BadInputError, "reward must be a number", lambda: controller.tell(open_.id, "good")),  # type: ignore[arg-type]
        (BadInputError, "outside the declared range 0 to 1", lambda: controller.tell(open_.id, 90.7)),
        (BadInputError, "noise must be above zero", lambda: controller.tell(open_.id, 0.5, noise=0.0)),
        (ConflictError, "has no reward yet", lambda: controller.correct(open_.id, 0.5)),
        (BadInputError, "outside the declared range", lambda: controller.correct(told.id, -3.0)),
        (ConflictError, "already told", lambda: controller.call_off(told.id)),
        (NotFoundError, "no decision", lambda: controller.explain("nonsense")),
        (NotFoundError, "no decision", lambda: controller.tell([], 0.5)),  # type: ignore[arg-type]
        (BadInputError, "reward is too large to compute with", lambda: controller.tell(open_.id, 10**400)),
    ]
    for kind, sentence, call in refused:
        with pytest.raises(kind, match=sentence):
            call()
    assert beliefs(controller) == before
    assert len(controller.journal) == entries
    controller.tell(open_.id, 0.7)
    assert len(controller) == 2


def test_a_reward_that_breaks_the_matrix_is_refused_and_forgotten() -> None:
    controller = make(noise=1e-30)
    for _ in range(2):
        decision = controller.ask("a", state(), allowed=[2])
        before = len(controller)
        try:
            controller.tell(decision.id, 0.5)
        except ArithmeticError as error:
            assert "increase `noise`" in str(error)  # noqa: PT017
            assert len(controller) == before
            assert controller.pending == [decision.id]
            break
    else:
        pytest.fail("two equal contexts without noise were taken for two pieces of evidence")


class Stubborn(RandomArm):
    """Always wants arm 0, as NumPy counts, and remembers what it is told to."""

    policy_state: dict[str, Any] = {}  # noqa: RUF012
    reward_limit = float("inf")

    def choose(self, query: Query, rng: np.random.Generator) -> Choice:
        return Choice(np.int64(0), np.arange(len(query.X)), policy_state=self.policy_state)  # type: ignore[arg-type]

    def learn(self, observation: Observation) -> None:
        if observation.reward > self.reward_limit:
            raise ValueError("too good to be true")


def stubborn(**changes: Any) -> Controller:
    def factory(spec: PolicySpec) -> Policy:
        policy = Stubborn()
        for name, value in changes.items():
            setattr(policy, name, value)
        return policy

    return make(policy=factory)


def test_no_policy_gets_past_what_is_allowed() -> None:
    with pytest.raises(BadInputError, match="chose arm 0, which is not allowed"):
        stubborn().ask("a", state(), allowed=[1, 2])
    with pytest.raises(BadInputError, match="chose arm 0, which is not allowed"):
        stubborn().ask_all({"a": state()}, allowed={"a": [1, 2]})


def test_what_cannot_be_stored_is_refused_when_asking() -> None:
    assert type(stubborn().ask("a", state()).arm) is int
    for policy_state in ({"thoughts": object()}, {"score": float("nan")}):
        with pytest.raises(BadInputError, match="policy_state of a choice must survive JSON"):
            stubborn(policy_state=policy_state).ask("a", state())


def test_a_correction_that_a_policy_cannot_learn_changes_nothing() -> None:
    controller = stubborn(reward_limit=0.8)
    decision = controller.ask("a", state())
    controller.tell(decision.id, 0.5)
    with pytest.raises(ValueError, match="too good"):
        controller.correct(decision.id, 0.9)
    assert controller.journal.reward(decision.id) == 0.5


def test_decisions_count_the_rewards_of_the_starting_log() -> None:
    log = Samples(
        ("a", "b", "c"), np.array([0]), np.zeros((1, 3)), np.array([0.9]), None, make().setup.encoder.features
    )
    assert make(log=log).ask("a", state()).known == 1


def test_a_controller_says_what_it_is() -> None:
    assert repr(make()) == "Controller(3 stations, 8 configurations, 0 told, 0 pending)"
