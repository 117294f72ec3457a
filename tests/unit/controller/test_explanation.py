"""Explanations: whose evidence, how much was borrowed, why not the runner-up, as of the decision; a naive witness."""

import json
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.reference import naive

from kinband import ConfigurationSpace, Controller
from kinband.contexts import StateScaler
from kinband.controller import Explanation
from kinband.controller.attribution import (
    Evidence,
    Hindsight,
    KnownRows,
    closest_rows,
    evidence_of,
    shares_of,
    told_rows_of,
    worth_of,
)
from kinband.controller.events import Asked, Told
from kinband.controller.explain import Comparison, against_text, evidence_text
from kinband.errors import NotFoundError
from kinband.kernels import RBF, MultiTaskKernel
from kinband.policies import Floor, SwitchingCost
from kinband.posterior.base import Rows
from kinband.records import Alternative, Samples

SPACE = ConfigurationSpace(tilt=range(0, 12, 2))
K_Z = np.array([[1.2, 0.7, 0.0], [0.7, 0.9, 0.0], [0.0, 0.0, 1.1]])  # a and b share, c is alone
ALIKE = np.array([[1.2, 0.9, 0.3], [0.9, 1.1, 0.2], [0.3, 0.2, 0.8]])
SCALES, VARIANCE, NOISE, MEAN, BETA = [2.3, 0.9], 0.07, 0.013, 0.6, 1.4


def played(seed: int = 1, *, rounds: int = 5, K_Z: Any = ALIKE, log: int = 4, **changes: Any) -> Controller:
    """A controller with a starting log whose rewards come late and out of order; the last are still awaited."""
    rng = np.random.default_rng(seed)
    scaler = StateScaler.from_ranges({"load": (0.0, 1.0)})
    arms = rng.integers(0, len(SPACE), log)
    X = np.hstack([scaler.transform(rng.random((log, 1))), SPACE.features[arms]])
    start = Samples(
        ("a", "b", "c"), rng.integers(0, 3, log), X, rng.normal(0.6, 0.2, log), None, ("load", "tilt")
    )  # fmt: skip
    options: dict[str, Any] = {
        "state": scaler, "similarity": K_Z, "kernel": RBF(SCALES, variance=VARIANCE), "noise": NOISE, "mean": MEAN,
        "beta": BETA, "log": start, "seed": seed,
    }  # fmt: skip
    controller = Controller(SPACE, ["a", "b", "c"], **(options | changes))
    for _ in range(rounds):
        controller.ask_all({station: {"load": float(rng.random())} for station in "abc"})
        for key in rng.permutation(controller.pending)[: 2 if rng.random() < 0.5 else 4]:
            noise = float(rng.uniform(0.001, 0.02)) if rng.random() < 0.5 else None
            controller.tell(str(key), float(rng.normal(0.6, 0.2)), noise=noise)
    return controller


def known_then(controller: Controller, decision: str) -> naive.Data:
    """The rows that a decision could know, entry by entry from the journal."""
    start = controller.setup.start
    assert start is not None
    tasks, X = start.tasks.tolist(), [np.array(x) for x in start.X]
    y, noise = start.y.tolist(), [NOISE] * len(start)
    for entry in controller.journal:
        if isinstance(entry, Asked) and entry.decision.id == decision:
            return naive.Data(np.array(tasks), np.array(X), np.array(y), np.array(noise))
        if isinstance(entry, Told):
            asked = controller.journal.find(entry.id)
            tasks, X = [*tasks, asked.task], [*X, asked.x]
            y, noise = [*y, entry.reward], [*noise, NOISE + (entry.noise or 0.0)]
    raise AssertionError("no such decision")


def own(data: naive.Data, task: int) -> naive.Data:
    mine = data.tasks == task
    return naive.Data(data.tasks[mine], data.X[mine], data.y[mine], data.noise[mine])


def with_row(data: naive.Data, task: int, x: Any, y: float, noise: float) -> naive.Data:
    return naive.Data(
        np.append(data.tasks, task), np.vstack([data.X.reshape(-1, len(x)), x]), np.append(data.y, y),
        np.append(data.noise, noise),
    )  # fmt: skip


def kernel() -> naive.Kernel:
    return naive.ard_rbf(SCALES, VARIANCE)


# --- Evidence -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("matrix", [ALIKE, K_Z], ids=["all share", "c alone"])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_evidence_of_a_past_decision_is_that_of_a_naive_posterior_of_then(seed: int, matrix: Any) -> None:
    controller = played(seed, K_Z=matrix)
    for key, asked in list(controller.journal.asked.items())[::4]:
        found, data = controller.explain(key).evidence, known_then(controller, key)
        assert found is not None
        K = naive.multitask_gram(kernel(), matrix, data.tasks, data.X, data.tasks, data.X) + np.diag(data.noise)
        a = np.linalg.inv(K) @ naive.multitask_gram(
            kernel(), matrix, data.tasks, data.X, np.array([asked.task]), asked.x[None]
        )
        weight = {name: float(np.abs(a[data.tasks == m]).sum()) for m, name in enumerate("abc")}
        expected = {name: w / sum(weight.values()) for name, w in weight.items() if w > 1e-12}
        assert found.shares == pytest.approx(expected, abs=1e-9)
        assert list(found.shares.values()) == sorted(found.shares.values(), reverse=True)
        point = np.array([asked.task]), asked.x[None]
        assert found.std == pytest.approx(naive.posterior_width(data, kernel(), matrix, *point)[0], abs=1e-9)
        mine = own(data, asked.task)
        assert found.std_alone == pytest.approx(naive.posterior_width(mine, kernel(), matrix, *point)[0], abs=1e-9)
        assert found.own_rows == len(mine.y)
        assert found.std == pytest.approx(asked.decision.std)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_what_was_borrowed_is_worth_so_many_rewards_of_the_stations_own(seed: int) -> None:
    controller = played(seed)
    for key in list(controller.journal.asked)[-3:]:
        asked, found = controller.journal.find(key), controller.explain(key).evidence
        assert found is not None
        assert found.borrowed_worth > 0
        mine, point = own(known_then(controller, key), asked.task), (np.array([asked.task]), asked.x[None])
        # m rewards of noise λ in the same context are one of noise λ/m.
        more = with_row(mine, asked.task, asked.x, 0.0, NOISE / found.borrowed_worth)
        assert naive.posterior_width(more, kernel(), ALIKE, *point)[0] == pytest.approx(found.std, rel=1e-6)
        if found.own_rows:
            nothing = naive.Data(np.zeros(0, dtype=np.int64), np.zeros((0, 2)), np.zeros(0), np.zeros(0))
            only = with_row(nothing, asked.task, asked.x, 0.0, NOISE / found.own_worth)
            assert naive.posterior_width(only, kernel(), ALIKE, *point)[0] == pytest.approx(found.std_alone, rel=1e-6)


def test_what_is_told_later_changes_nothing_about_a_decision_of_the_past() -> None:
    controller = played()
    keys = list(controller.journal.asked)[::3]
    before = {key: controller.explain(key).to_dict() for key in keys}
    for key in controller.pending:
        controller.tell(key, 0.9)
    for key in keys:
        after = controller.explain(key).to_dict()
        same = {name for name in after if name not in ("reward", "text")}
        assert {name: after[name] for name in same} == {name: before[key][name] for name in same}


def test_a_correction_changes_no_evidence() -> None:
    controller = played(engine="exact")
    key = list(controller.journal.asked)[-1]
    before = controller.explain(key).evidence
    controller.correct(next(iter(controller.journal.told)), 0.1)
    assert controller.explain(key).evidence == before


@settings(max_examples=40, deadline=None, derandomize=True)
@given(seed=st.integers(0, 10**6), rows=st.integers(0, 14), similarity=st.floats(-0.95, 0.95))
def test_shares_add_up_and_borrowing_grows_with_the_others_rows(seed: int, rows: int, similarity: float) -> None:
    rng = np.random.default_rng(seed)
    matrix = np.array([[1.3, similarity], [similarity, 0.8]]) if abs(similarity) > 0.01 else np.diag([1.3, 0.8])
    controller = played(K_Z=np.eye(3), rounds=0)
    tasks, X = rng.integers(0, 2, rows), rng.normal(size=(rows, 2))
    all_ = Rows(tasks, X, rng.normal(size=rows), rng.uniform(0.01, 0.2, rows))
    x, worth = rng.normal(size=(1, 2)), []
    lent = np.flatnonzero(tasks == 1)
    for count in range(len(lent) + 1):
        keep = np.sort(np.concatenate([np.flatnonzero(tasks == 0), lent[:count]]))
        part = Rows(all_.tasks[keep], all_.X[keep], all_.y[keep], all_.noise[keep])
        found, _ = evidence_of(part, 0, X=x, setup=controller.setup, K_Z=matrix)
        assert sum(found.shares.values()) == pytest.approx(1.0 if found.shares else 0.0)
        assert found.std <= found.std_alone <= found.prior_std + 1e-12
        worth.append(found.borrowed_worth)
    assert worth[0] == 0.0
    assert all(later >= earlier - 1e-6 * (1.0 + earlier) for earlier, later in pairwise(worth))


def test_nothing_is_borrowed_where_nothing_is_shared() -> None:
    for controller in (played(K_Z=np.diag([1.2, 0.7, 2.1])), played(policy="kernel-ucb"), played(K_Z=K_Z)):
        key = next(k for k in reversed(list(controller.journal.asked)) if controller.decision(k).station == "c")
        reason = controller.explain(key)
        assert reason.evidence is not None
        assert (reason.evidence.borrowed_worth, reason.evidence.lenders) == (0.0, {})
        assert reason.evidence.own_share == pytest.approx(1.0)
        assert "none is borrowed" in reason.text


def test_a_station_without_rewards_borrows_all_of_it_and_one_without_kin_has_the_prior() -> None:
    controller = Controller(SPACE, ["a", "b", "c"], similarity=K_Z, kernel=RBF(1.3, variance=0.3), noise=0.02)
    controller.tell(controller.ask("a").id, 0.8)
    lent, prior = controller.explain(controller.ask("b").id), controller.explain(controller.ask("c").id)
    assert lent.evidence is not None
    assert lent.evidence.lenders == pytest.approx({"a": 1.0})
    assert "no rewards of its own: all evidence is borrowed, most from a (100 %)" in lent.text
    assert prior.evidence is not None
    assert prior.evidence.shares == {}
    assert "the estimate is the prior" in prior.text


def test_a_sparse_controller_is_weighed_exactly_and_the_difference_is_said() -> None:
    controller = played(2, rounds=20, engine="sparse", inducing_points=3)
    key = list(controller.journal.asked)[-1]
    asked, reason, data = controller.journal.find(key), controller.explain(key), known_then(controller, key)
    assert reason.evidence is not None
    exact = naive.posterior_width(data, kernel(), ALIKE, np.array([asked.task]), asked.x[None])[0]
    assert reason.evidence.std == pytest.approx(exact, abs=1e-9)
    stored = asked.decision.std
    assert stored is not None
    assert abs(stored - exact) > 0.02 * exact  # three points cannot hold it
    assert f"which approximates, took {stored:.3f}" in reason.text


def test_beyond_so_many_rows_evidence_is_left_out_and_said_to_be() -> None:
    controller = played()
    key = list(controller.journal.asked)[-1]
    short, whole = controller.explain(key, most_rows=3), controller.explain(key)
    assert short.evidence is None
    assert "is left out" in short.text
    assert short.left_out in short.text
    assert whole.left_out == ""
    assert short.against is not None
    assert whole.against is not None
    assert (short.against.deviation, short.against.needed_reward) == (None, None)
    assert short.against.needed_mean == whole.against.needed_mean


def test_of_too_many_rows_the_closest_are_weighed_where_rows_are_at_hand() -> None:
    controller, known = played(), KnownRows()
    key = list(controller.journal.asked)[-1]
    whole = controller.explain(key)
    same, few = (controller.explain(key, most_rows=most, known=known) for most in (1_000, 6))
    assert same.to_dict() == whole.to_dict()
    assert few.evidence is not None
    assert whole.evidence is not None
    assert few.evidence.own_rows == whole.evidence.own_rows
    assert few.evidence.other_rows == whole.evidence.other_rows
    assert whole.evidence.std <= few.evidence.std <= few.evidence.prior_std
    assert few.left_out.startswith("(Weighed from the 6 rewards that are closest")
    assert few.left_out in few.text


def test_the_closest_rows_are_those_of_the_largest_prior_correlation() -> None:
    controller = played()
    setup, rows = controller.setup, told_rows_of(controller.setup, controller.journal)
    asked = controller.journal.asked[list(controller.journal.asked)[-1]]
    kernel = RBF(SCALES, variance=VARIANCE)
    near = [
        abs(ALIKE[t, asked.task] * float(kernel(x[None], asked.x[None])[0, 0])) / ALIKE[t, t] ** 0.5
        for t, x in zip(rows.tasks, rows.X, strict=True)
    ]
    found = closest_rows(rows, asked.task, asked.x, most=5, setup=setup, K_Z=setup.K_Z)
    assert sorted(found.y) == sorted(rows.y[np.argsort(near)[-5:]])


def test_rows_at_hand_grow_with_the_journal() -> None:
    controller, known = played(), KnownRows()
    for _ in range(2):
        rows = known.of(controller.setup, controller.journal, known=len(controller) + 4)  # the log has 4
        anew = told_rows_of(controller.setup, controller.journal)
        for name in ("tasks", "X", "noise"):
            assert np.array_equal(getattr(rows, name), getattr(anew, name))
        controller.tell(controller.ask("a", {"load": 0.3}).id, 0.4)


# --- The runner-up ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(1, 6))
def test_the_difference_to_the_runner_up_has_the_deviation_of_a_naive_covariance(seed: int) -> None:
    controller = played(seed)
    key = list(controller.journal.asked)[-1]
    asked, reason = controller.journal.find(key), controller.explain(key)
    assert reason.runner_up is not None
    assert reason.against is not None
    X = controller.setup.encoder.contexts(asked.state or {})[[asked.decision.arm, reason.runner_up.arm]]
    C = naive.posterior_covariance(known_then(controller, key), kernel(), ALIKE, np.full(2, asked.task), X)
    assert reason.against.deviation == pytest.approx(np.sqrt(C[0, 0] + C[1, 1] - 2 * C[0, 1]), abs=1e-9)
    assert reason.against.difference == pytest.approx((asked.decision.mean or 0) - (reason.runner_up.mean or 0))
    draws = np.random.default_rng(0).multivariate_normal(
        [asked.decision.mean or 0, reason.runner_up.mean or 0], C, size=40_000
    )
    better = float((draws[:, 0] > draws[:, 1]).mean())
    assert reason.against.probability == pytest.approx(better, abs=4 * 0.5 / 200)  # four standard errors


@pytest.mark.parametrize("seed", range(1, 7))
def test_one_reward_above_the_needed_one_puts_the_runner_up_first_and_one_below_does_not(seed: int) -> None:
    controller = played(seed)
    tipped = 0
    for key in list(controller.journal.asked)[-4:]:
        asked, reason = controller.journal.find(key), controller.explain(key)
        assert reason.runner_up is not None
        assert reason.against is not None
        if reason.against.needed_reward is None:
            continue
        tipped += 1
        X = controller.setup.encoder.contexts(asked.state or {})[[asked.decision.arm, reason.runner_up.arm]]
        for shift in (-1e-4, 1e-4):
            reward = reason.against.needed_reward + shift
            data = with_row(known_then(controller, key), asked.task, X[1], reward, NOISE)
            points = np.full(2, asked.task), X
            mean = naive.posterior_mean(data, kernel(), ALIKE, *points, mean=MEAN)
            score = naive.ucb(mean, naive.posterior_width(data, kernel(), ALIKE, *points), BETA)
            assert bool(score[1] > score[0]) == (shift > 0)
    assert tipped


def test_the_needed_mean_closes_the_gap_of_scores() -> None:
    reason = played().explain("d000007")
    assert reason.runner_up is not None
    assert reason.against is not None
    assert reason.against.needed_mean is not None
    std = reason.runner_up.std or 0.0
    assert reason.against.needed_mean + BETA * std == pytest.approx(reason.decision.ucb)


def test_a_reward_that_cannot_come_is_not_asked_for() -> None:
    free = [played().explain(f"d{i:06d}").against for i in range(1, 16)]
    bound = [played(reward_range=(-9.0, 1.05)).explain(f"d{i:06d}").against for i in range(1, 16)]
    wanted = [(a.needed_reward, b.needed_reward) for a, b in zip(free, bound, strict=True) if a and b]
    assert any(one is not None and one > 1.05 for one, _ in wanted)
    assert all(two == (one if one is not None and one <= 1.05 else None) for one, two in wanted)


# --- Kinds, words, data -------------------------------------------------------------------------------------


def test_trials_and_exploitation_are_told_apart() -> None:
    greedy, eager = played(beta=0.0).explain("d000010"), played(beta=30.0, rounds=8).explain("d000020")
    assert (greedy.kind, greedy.explores) == ("exploitation", False)
    assert "No other configuration is expected to earn more." in greedy.text
    assert (eager.kind, eager.explores) == ("trial", True)
    assert "It is a trial" in eager.text


def test_policies_that_predict_nothing_or_share_in_their_own_way_say_so() -> None:
    chance, in_stages = played(policy="random").explain("d000010"), played(policy="super-ucb", options={"horizon": 99})
    assert (chance.kind, chance.evidence, chance.against) == ("unscored", None, None)
    assert "predicts nothing" in chance.text
    stages = in_stages.explain("d000010")
    assert stages.evidence is None
    assert "not known for this policy" in stages.text
    drawn = played(policy="thompson").explain("d000010")
    assert drawn.evidence is not None
    assert drawn.against is not None
    assert (drawn.against.needed_mean, drawn.against.needed_reward) == (None, None)


def test_a_rule_that_held_a_trial_back_is_named() -> None:
    controller = played(rounds=0, safety=Floor(0.001), running={"tilt": 4}, beta=9.0)
    reason = controller.explain(controller.ask("a", {"load": 0.3}).id)
    assert reason.kind == "held back"
    assert "was held back" in reason.text
    assert reason.against is not None
    assert reason.against.needed_mean is None
    assert reason.to_dict()["safety"]["by"] == "floor"


def test_decisions_from_context_rows_are_weighed_without_the_runner_up() -> None:
    controller = Controller(
        ConfigurationSpace(arm=range(3)), ["a", "b"], features=["x"], similarity="pooled", noise=0.1
    )
    for station in "abab":
        controller.tell(controller.ask(station, contexts=[[0.1], [0.5], [0.9]]).id, 0.7)
    reason = controller.explain("d000004")
    assert reason.evidence is not None
    assert reason.evidence.own_rows == 1
    assert reason.against is not None
    assert reason.against.deviation is None


def test_an_explanation_survives_json() -> None:
    controller = played()
    for key in controller.journal.asked:
        reason = controller.explain(key)
        assert json.loads(json.dumps(reason.to_dict(), allow_nan=False))["text"] == reason.text == str(reason)
        assert sum(row["chosen"] for row in reason.to_dict()["considered"]) == 1


def test_an_id_that_does_not_exist_gets_one_sentence() -> None:
    with pytest.raises(NotFoundError, match=r"no decision has the id 'd999999': 15 decisions are on record"):
        played().explain("d999999")


def test_a_station_that_joined_is_explained_by_those_it_resembles() -> None:
    controller = played()
    controller.add_station("d", similarity={"a": 0.8})
    reason = controller.explain(controller.ask("d", {"load": 0.4}).id)
    assert isinstance(reason, Explanation)
    assert reason.evidence is not None
    assert reason.evidence.own_rows == 0
    assert next(iter(reason.evidence.lenders)) == "a"


def test_of_many_configurations_only_those_kept_are_spoken_for() -> None:
    many = Controller(ConfigurationSpace(tilt=range(40)), ["a"], kernel=RBF(2.3, variance=0.3), noise=0.02, beta=0.0)
    many.tell(many.ask("a").id, 0.9)
    reason = many.explain(many.ask("a").id)
    assert len(reason.to_dict()["considered"]) == 32
    assert "None of the 32 configurations that scored best is expected to earn more." in reason.text


# --- Hindsight ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [4, 5])
def test_hindsight_after_any_number_of_rows_is_a_naive_posterior_of_these(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, m = 17, 9
    tasks, X, y, noise = rng.integers(0, 3, n), rng.normal(size=(n, 2)), rng.normal(size=n), rng.uniform(0.01, 0.5, n)
    past = Hindsight(MultiTaskKernel(RBF(SCALES, variance=VARIANCE), ALIKE), Rows(tasks, X, y, noise), mean=MEAN)
    at, Z, known = rng.integers(0, 3, m), rng.normal(size=(m, 2)), rng.integers(0, n + 1, m)
    mean, variance = past.predict(at, Z, known=known)
    weights = past.weights(at, Z, known=known)
    for j, count in enumerate(known):
        data = naive.Data(tasks[:count], X[:count], y[:count], noise[:count])
        point = at[j : j + 1], Z[j : j + 1]
        assert mean[j] == pytest.approx(naive.posterior_mean(data, kernel(), ALIKE, *point, mean=MEAN)[0], abs=1e-9)
        assert variance[j] == pytest.approx(naive.posterior_variance(data, kernel(), ALIKE, *point)[0], abs=1e-9)
        assert MEAN + weights[:, j] @ (y - MEAN) == pytest.approx(mean[j], abs=1e-9)
        assert not weights[count:, j].any()


def test_worth_and_shares_by_hand() -> None:
    # One reward of noise 0.5 on a variance of 2 leaves 0.4; two of them leave 2/9.
    assert worth_of([0.4, 2 / 9, 2.0, 0.0], [2.0, 2.0, 2.0, 0.0], noise=0.5) == pytest.approx([1.0, 2.0, 0.0, 0.0])
    found = shares_of(np.array([[0.5, 0.0], [-0.2, 0.0], [0.3, 0.0]]), np.array([1, 0, 1]), size=3)
    assert found == pytest.approx(np.array([[0.2, 0.8, 0.0], [0.0, 0.0, 0.0]]))


def test_numbers_that_are_set_against_each_other_can_be_told_apart() -> None:
    close = Evidence("a", {"a": 0.9, "b": 0.1}, 8, 40, 1.0, 0.0071, 0.0069, 6.0, 0.8)
    assert evidence_text(close).endswith("in this state: alone the standard deviation would be 0.00710, not 0.00690.")
    same = Evidence("a", {"a": 0.9, "b": 0.1}, 8, 40, 1.0, 0.00701, 0.00700, 6.0, 0.8)
    assert evidence_text(same).endswith("What was borrowed is worth 0.8 rewards of its own in this state.")
    next_best = Alternative(1, None, 0.9003, 0.02, 0.92)
    near = Comparison(0.0001, None, None, needed_mean=0.9007, needed_reward=None)
    text = against_text(next_best, near)
    assert "expected 0.90030, give or take 0.020" in text
    assert text.endswith("would have needed an expected reward of 0.90070.")
    level = Comparison(0.0, None, None, needed_mean=0.90031, needed_reward=0.91)
    assert against_text(next_best, level) == "Next came arm 1 (expected 0.900, give or take 0.020)."


# --- What a rule left ---------------------------------------------------------------------------------------


def test_a_station_that_a_cost_keeps_where_it_is_says_so() -> None:
    controller = Controller(
        ConfigurationSpace(tilt=[0, 2, 4]), ["a"], kernel=RBF([1.0], variance=0.04), noise=0.001, mean=0.5,
        safety=[SwitchingCost(1.0)], running={"tilt": 4},
    )  # fmt: skip
    controller.tell(controller.ask("a").id, 0.1)
    reason = controller.explain(controller.ask("a").id)
    assert reason.decision.configuration == {"tilt": 4}
    scores = {one.arm: one.ucb or 0.0 for one in reason.decision.alternatives}
    ahead = max(scores[0], scores[1]) + 1.0 - scores[2]
    assert 0 < ahead < 1.0
    assert (reason.kind, reason.explores) == ("held back", False)
    assert "stays with what it runs: a change must score more than 1 better" in reason.text
    assert f"scored {ahead:.3g} better" in reason.text
    assert "trial" not in reason.text


def test_what_runs_and_is_best_anyway_needs_no_cost_to_stay() -> None:
    controller = Controller(
        ConfigurationSpace(tilt=[0, 2, 4]), ["a"], kernel=RBF([0.3], variance=0.04), noise=0.001, mean=0.1,
        beta=0.2, safety=[SwitchingCost(0.02)], running={"tilt": 4},
    )  # fmt: skip
    controller.tell(controller.ask("a").id, 0.9)
    reason = controller.explain(controller.ask("a").id)
    assert reason.kind == "exploitation"
    assert "No other configuration is expected to earn more." in reason.text


@pytest.mark.parametrize(
    ("allowed", "says"),
    [
        ([0, 2], "None of the 2 of 6 configurations that could be chosen is expected to earn more."),
        ([2], "Of 6 configurations it is the only one that could be chosen."),
        (None, "No other configuration is expected to earn more."),
    ],
)
def test_what_could_not_be_chosen_is_not_said_to_earn_less(allowed: list[int] | None, says: str) -> None:
    controller = Controller(SPACE, ["a"], kernel=RBF([2.0], variance=0.09), noise=0.002, mean=0.4, beta=0.0)
    for arm, reward in ((4, 0.9), (0, 0.3), (1, 0.7)):
        told = controller.ask("a", allowed={"tilt": [SPACE[arm]["tilt"]]})
        controller.tell(told.id, reward)
    assert (
        says in controller.explain(controller.ask("a", allowed=None if allowed is None else {"tilt": allowed}).id).text
    )
