"""Reasons where sharing is weighed: evidence, lending, audits and plans, against a naive mixture of two posteriors."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from tests.reference import naive

from kinband import ConfigurationSpace, Controller, Floor, Sharing
from kinband.arrays import FloatArray
from kinband.changes import plan_changes
from kinband.changes.borrowing import beliefs_of, borrowed, shares, told_rows, width_alone
from kinband.contexts import StateScaler
from kinband.controller.adapting import posterior_of
from kinband.controller.explanation import told_rows_of
from kinband.controller.explanation.evidence import Evidence
from kinband.controller.explanation.words import sharing_text
from kinband.controller.journal import Asked, Estimated, Told
from kinband.kernels import RBF
from kinband.posterior import ExactPosterior, WeighedPosterior
from kinband.records import Samples
from kinband.trust import Account, account_of, audit, audit_of
from kinband.trust.lending import lending_of, sharing_of
from kinband.trust.told import epochs_of, predictions_of, settings_of
from kinband.trust.transfer import earned_of

SPACE = ConfigurationSpace(tilt=range(0, 12, 2))
ALIKE = np.array([[1.2, 0.9, 0.3], [0.9, 1.1, 0.2], [0.3, 0.2, 0.8]])
SCALES, VARIANCE, NOISE, MEAN, BETA = [2.3, 0.9], 0.07, 0.013, 0.6, 1.4
NAMES, MANY = ("a", "b", "c"), list("abcdef")
WEIGHED = Sharing(again=None)


def played(seed: int = 1, *, rounds: int = 6, **changes: Any) -> Controller:
    """Rewards that come late and out of order, after a log of four rows; those of b are the opposite of the others'."""
    rng = np.random.default_rng(seed)
    scaler = StateScaler.from_ranges({"load": (0.0, 1.0)})
    X = np.hstack([scaler.transform(rng.random((4, 1))), SPACE.features[rng.integers(0, len(SPACE), 4)]])
    start = Samples(NAMES, np.array([0, 2, 1, 0]), X, rng.normal(0.6, 0.2, 4), None, ("load", "tilt"))
    options: dict[str, Any] = {
        "state": scaler, "similarity": ALIKE, "kernel": RBF(SCALES, variance=VARIANCE), "noise": NOISE, "mean": MEAN,
        "beta": BETA, "log": start, "sharing": WEIGHED, "seed": seed,
    }  # fmt: skip
    controller = Controller(SPACE, list(NAMES), **(options | changes))
    for _ in range(rounds):
        controller.ask_all({station: {"load": float(rng.random())} for station in controller.stations})
        for key in rng.permutation(controller.pending)[: 2 if rng.random() < 0.5 else 4]:
            decision = controller.decision(str(key))
            wave = 0.2 * np.cos(decision.arm) * (-1.0 if decision.station == "b" else 1.0)
            noise = float(rng.uniform(0.001, 0.02)) if rng.random() < 0.5 else None
            controller.tell(str(key), float(0.6 + wave + 0.1 * rng.normal()), noise=noise)
    return controller


def known_then(controller: Controller, decision: str) -> naive.Data:
    """The rows that a decision could know, entry by entry from the journal."""
    start = controller.settings.start
    assert start is not None
    rows = [(int(t), x, float(y), NOISE) for t, x, y in zip(start.tasks, start.X, start.y, strict=True)]
    for entry in controller.journal:
        if isinstance(entry, Asked) and entry.decision.id == decision:
            break
        if isinstance(entry, Told):
            asked = controller.journal.find(entry.id)
            rows.append((asked.task, asked.x, entry.reward, NOISE + (entry.noise or 0.0)))
    tasks, X, y, noise = zip(*rows, strict=True)
    return naive.Data(np.array(tasks), np.array(X), np.array(y), np.array(noise))


def own(data: naive.Data, task: int) -> naive.Data:
    mine = data.tasks == task
    return naive.Data(data.tasks[mine], data.X[mine], data.y[mine], data.noise[mine])


KERNEL = naive.ard_rbf(SCALES, VARIANCE)


def row_weights(data: naive.Data, K_Z: FloatArray, task: int, x: FloatArray) -> FloatArray:
    """The weights of rows in an estimate, from the inverse."""
    K = naive.multitask_gram(KERNEL, K_Z, data.tasks, data.X, data.tasks, data.X) + np.diag(data.noise)
    return np.asarray(
        np.linalg.inv(K) @ naive.multitask_gram(KERNEL, K_Z, data.tasks, data.X, np.array([task]), x[None])
    )[:, 0]


def naive_shares(data: naive.Data, K_Z: FloatArray, task: int, x: FloatArray, w: float) -> dict[str, float]:
    a = w * row_weights(data, K_Z, task, x)
    a[data.tasks == task] += (1 - w) * row_weights(own(data, task), K_Z, task, x)
    total = {name: float(np.abs(a[data.tasks == m]).sum()) for m, name in enumerate(NAMES)}
    return {name: value / sum(total.values()) for name, value in total.items() if value > 0}


def naive_covariance(data: naive.Data, K_Z: FloatArray, task: int, X: FloatArray, w: float) -> FloatArray:
    """Covariance of f at contexts of one station that is with probability w one of those that share."""
    at = np.full(len(X), task), X
    second, first = np.zeros((len(X), len(X))), np.zeros(len(X))
    for chance, rows in ((w, data), (1 - w, own(data, task))):
        mean = naive.posterior_mean(rows, KERNEL, K_Z, *at, mean=MEAN)
        first = first + chance * mean
        second = second + chance * (naive.posterior_covariance(rows, KERNEL, K_Z, *at) + np.outer(mean, mean))
    return second - np.outer(first, first)


# --- Why this configuration? ------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_evidence_is_that_of_a_naive_mixture_with_the_weight_of_then(seed: int) -> None:
    controller = played(seed)
    weights = set()
    for key, asked in list(controller.journal.asked.items())[::3]:
        found, data, w = controller.explain(key).evidence, known_then(controller, key), asked.decision.memo["sharing"]
        assert found is not None
        assert found.sharing == w
        weights.add(w)
        assert found.shares == pytest.approx(naive_shares(data, ALIKE, asked.task, asked.x, w), abs=1e-9)
        assert list(found.shares.values()) == sorted(found.shares.values(), reverse=True)
        variance = naive_covariance(data, ALIKE, asked.task, asked.x[None], w)[0, 0]
        assert found.width == pytest.approx(variance**0.5, abs=1e-9)
        assert found.width == pytest.approx(asked.decision.width)
        mine, point = own(data, asked.task), (np.array([asked.task]), asked.x[None])
        alone = naive.posterior_width(mine, KERNEL, ALIKE, *point)[0]
        assert found.width_alone == pytest.approx(alone, abs=1e-9)
        assert found.borrowed_worth == pytest.approx(max(NOISE * (1 / variance - 1 / alone**2), 0.0), abs=1e-7)
    assert len(weights) > 3


@pytest.mark.parametrize("seed", range(1, 5))
def test_the_difference_to_the_runner_up_has_the_deviation_of_the_mixture(seed: int) -> None:
    controller = played(seed)
    key = list(controller.journal.asked)[-1]
    asked, reason = controller.journal.find(key), controller.explain(key)
    assert reason.runner_up is not None
    assert reason.against is not None
    X = controller.settings.encoder.contexts(asked.state or {})[[asked.decision.arm, reason.runner_up.arm]]
    C = naive_covariance(known_then(controller, key), ALIKE, asked.task, X, asked.decision.memo["sharing"])
    assert reason.against.deviation == pytest.approx(np.sqrt(C[0, 0] + C[1, 1] - 2 * C[0, 1]), abs=1e-9)
    # One more reward would move the weight of sharing too; which one would tip the scales is not worked out.
    assert reason.against.needed_reward is None
    assert reason.against.needed_mean is not None
    assert reason.to_dict()["evidence"]["sharing"] == asked.decision.memo["sharing"]


def evidence(w: float | None, **changes: Any) -> Evidence:
    given: dict[str, Any] = {"own_rows": 8, "other_rows": 40, "width_alone": 0.2, "width": 0.1, "borrowed_worth": 1.0}
    given |= {"prior_width": 1.0, "own_worth": 6.0}
    return Evidence("a", {"a": 0.9, "b": 0.1}, sharing=w, **(given | changes))


def test_words_say_who_has_stopped_borrowing_and_where_it_is_open() -> None:
    stopped = "a has stopped borrowing: its own rewards were foretold better without the others."
    assert sharing_text(evidence(0.049)) == stopped
    assert "stopped" not in sharing_text(evidence(0.051))
    assert "counts 40 %" in sharing_text(evidence(0.4))
    assert "disagree" not in sharing_text(evidence(0.4))
    assert "disagree, which makes the width larger" in sharing_text(evidence(0.4, width=0.3))
    assert sharing_text(evidence(0.97)) == sharing_text(evidence(None)) == ""
    assert sharing_text(evidence(0.01, other_rows=0)) == ""  # there is nothing to borrow
    assert "hardly does before it has rewards" in sharing_text(evidence(0.01, own_rows=0))


def misled(sharing: Sharing | None = WEIGHED) -> Controller:
    """Six stations declared alike, one of which, b, is the opposite of the others."""
    controller = Controller(
        SPACE, MANY, state={"load": (0, 1)}, similarity=0.8 * np.ones((6, 6)) + 0.2 * np.eye(6),
        kernel=RBF(0.7, variance=0.09), noise=0.004, mean=MEAN, sharing=sharing, seed=2,
    )  # fmt: skip
    rng = np.random.default_rng(2)
    for _ in range(30):
        for station in MANY:
            load = float(rng.random())
            decision = controller.ask(station, {"load": load}, allowed=[int(rng.integers(6))])
            wave = 0.3 * np.cos(decision.arm + 4.0 * load) * (-1.0 if station == "b" else 1.0)
            controller.tell(decision.id, float(MEAN + wave + 0.06 * rng.normal()))
    return controller


def test_a_station_that_has_stopped_borrowing_says_so_in_its_reason_and_borrows_next_to_nothing() -> None:
    controller = misled()
    found = controller.borrowing
    assert found is not None
    assert found["b"] < 0.05
    assert min(weight for name, weight in found.items() if name != "b") > 0.05
    reason, other = (controller.explain(controller.ask(name, {"load": 0.5}).id) for name in ("b", "a"))
    assert "b has stopped borrowing" in reason.text
    assert reason.evidence is not None
    assert 1.0 - reason.evidence.own_share < 0.1
    assert "stopped borrowing" not in other.text
    assert other.evidence is not None
    assert 1.0 - other.evidence.own_share > 0.1


def test_after_a_correction_the_paragraph_says_that_rewards_are_taken_as_they_stand() -> None:
    controller = played(2)
    key = list(controller.journal.asked)[-1]
    assert "as they stand now" not in controller.explain(key).text
    asked = controller.journal.find(key)
    told = next(k for k in controller.journal.told if controller.journal.asked[k].task != asked.task)
    controller.correct(told, 9.0)
    after = controller.explain(key)
    assert after.evidence is not None
    assert abs(after.evidence.width - (asked.decision.width or 0)) > 0.02 * after.evidence.width
    assert f"with rewards as they stand now; the controller took {asked.decision.width:.3f}" in after.text


# --- Who borrows from whom --------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [1, 2])
def test_lending_counts_the_weight_of_every_decision(seed: int) -> None:
    controller, recent = played(seed), 3
    found = lending_of(controller, told_rows_of(controller.settings, controller.journal), recent=recent)
    for task, name in enumerate(NAMES):
        latest = [a for a in controller.journal.asked.values() if a.task == task][-recent:]
        expected, worth = np.zeros(3), []
        for asked in latest:
            data, w = known_then(controller, asked.decision.id), asked.decision.memo["sharing"]
            by_name = naive_shares(data, ALIKE, task, asked.x, w)
            expected += np.array([by_name.get(n, 0.0) for n in NAMES]) / recent
            variance = naive_covariance(data, ALIKE, task, asked.x[None], w)[0, 0]
            point = np.array([task]), asked.x[None]
            alone = naive.posterior_variance(own(data, task), KERNEL, ALIKE, *point)[0]
            worth.append(max(NOISE * (1 / variance - 1 / alone), 0.0))
        np.testing.assert_allclose(found.shares[task], expected, atol=1e-9)
        assert found.worth[task] == pytest.approx(np.mean(worth), abs=1e-7)
        assert found.sharing[task] == (controller.borrowing or {})[name]


def replaced(controller: Controller) -> bool:
    return any(isinstance(entry, Estimated) and entry.triangle for entry in controller.journal)


def estimated_anew() -> Controller:
    """A controller whose task matrix was replaced while it ran; of some stations the latest decisions are older."""
    controller, rng = played(4, rounds=2, sharing=Sharing(first=4, again=1.2)), np.random.default_rng(4)
    while not replaced(controller):
        for station in NAMES:
            decision = controller.ask(station, {"load": float(rng.random())}, allowed=[int(rng.integers(6))])
            wave = 0.3 * np.cos(decision.arm) * (-1.0 if station == "b" else 1.0)
            controller.tell(decision.id, float(0.6 + wave + 0.05 * rng.normal()))
    for _ in range(2):
        controller.tell(controller.ask("a", {"load": 0.4}).id, 0.7)
    return controller


def test_every_decision_is_looked_at_by_the_matrix_of_then() -> None:
    controller = estimated_anew()
    epochs = epochs_of(controller)
    assert len(epochs) > 1
    assert [key for epoch in epochs for key in epoch.asked] == list(controller.journal.asked)
    assert np.array_equal(epochs[0].settings.K_Z, ALIKE)
    assert np.array_equal(epochs[-1].settings.K_Z, controller.in_force.K_Z)
    assert np.array_equal(settings_of(controller).K_Z, controller.in_force.K_Z)
    assert not np.array_equal(controller.in_force.K_Z, ALIKE)
    first = controller.journal.find("d000001")
    assert np.array_equal(settings_of(controller, at=first).K_Z, ALIKE)
    found = lending_of(controller, told_rows_of(controller.settings, controller.journal), recent=4)
    for task in range(3):
        latest = [a.decision.id for a in controller.journal.asked.values() if a.task == task][-4:]
        reasons = [controller.explain(key).evidence for key in latest]
        expected = [np.mean([e.shares.get(name, 0.0) for e in reasons if e]) for name in NAMES]
        np.testing.assert_allclose(found.shares[task], expected, atol=1e-9)
        assert found.worth[task] == pytest.approx(np.mean([e.borrowed_worth for e in reasons if e]), abs=1e-7)


def test_gains_hold_every_reward_against_its_own_rows_under_the_matrix_of_then() -> None:
    controller = estimated_anew()
    made = predictions_of(controller)
    earned = earned_of(controller, made)
    order = [a for key, a in controller.journal.asked.items() if key in controller.journal.told]
    for i, asked in enumerate(order):
        K_Z = settings_of(controller, at=asked).K_Z
        data, point = (
            own(known_then(controller, asked.decision.id), asked.task),
            (np.array([asked.task]), asked.x[None]),
        )
        mean = naive.posterior_mean(data, KERNEL, K_Z, *point, mean=MEAN)[0]
        variance = naive.posterior_variance(data, KERNEL, K_Z, *point)[0] + made.noise[i]
        alone = -0.5 * (np.log(2 * np.pi * variance) + (made.rewards[i] - mean) ** 2 / variance)
        assert earned.gain[i] == pytest.approx(made.log_density[i] - alone, abs=1e-7)


# --- Audits -----------------------------------------------------------------------------------------------------


def test_an_audit_counts_the_stations_that_have_stopped_borrowing() -> None:
    controller = misled()
    found = audit(controller)
    sentence = "1 of 6 stations has stopped borrowing, as its own rewards were foretold better without the others: b."
    assert sentence in found.words
    by_name = {station["station"]: station for station in found.to_dict()["transfer"]["stations"]}
    assert {name: station["stopped"] for name, station in by_name.items()} == {name: name == "b" for name in MANY}
    assert {name: station["sharing"] for name, station in by_name.items()} == controller.borrowing
    controller.remove_station("b")  # it is no longer decided for
    assert "No station has stopped borrowing." in audit(controller).words
    plain = audit(played(sharing=None))
    assert not any("stopped" in line for line in plain.words)
    assert plain.transfer.overall.sharing is None


def test_accounts_carry_the_weights_and_older_ones_without_them_are_read() -> None:
    controller = misled()
    account = account_of(controller)
    again = Account.from_arrays(MANY, account.arrays())
    assert audit_of([again]).to_dict() == audit_of([account]).to_dict()
    older = {name: array for name, array in account.arrays().items() if name != "sharing"}
    assert audit_of([Account.from_arrays(MANY, older)]).transfer.overall.sharing is None


def test_what_keeps_a_journal_alone_is_audited_by_the_weights_of_its_latest_decisions() -> None:
    controller = misled()
    controller.remove_station("c")
    shard: Any = SimpleNamespace(settings=controller.settings, journal=controller.journal)
    latest = {a.decision.station: a.decision.memo["sharing"] for a in controller.journal.asked.values()}
    found = sharing_of(shard)
    assert found[:2].tolist() == [latest["a"], latest["b"]]
    assert np.isnan(found[2])
    assert sharing_of(controller)[:2].tolist() == [(controller.borrowing or {})[name] for name in "ab"]


# --- Plans ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("extra", [{}, {"safety": Floor(0.4), "running": {"tilt": 4}}], ids=["plain", "under a floor"])
def test_a_plan_rests_on_what_the_controller_believes(extra: dict[str, Any]) -> None:
    controller = played(3, **extra)
    beliefs = beliefs_of(controller)
    assert beliefs is posterior_of(controller.policy)
    assert isinstance(beliefs, WeighedPosterior)
    data = known_then(controller, "none of them")
    tasks, X = np.array([1, 0, 1, 2]), controller.settings.encoder.contexts({"load": 0.3})[[0, 2, 5, 1]]
    found = shares(beliefs, tasks, X, K_Z=ALIKE)
    for row, task, x in zip(found, tasks, X, strict=True):
        expected = naive_shares(data, ALIKE, int(task), x, (controller.borrowing or {})[NAMES[task]])
        assert dict(zip(NAMES, row, strict=True)) == pytest.approx(expected, abs=1e-9)
        assert borrowed(beliefs, int(task), x=x, similarity=controller.similarity) == pytest.approx(expected, abs=1e-9)
        alone = naive.posterior_width(own(data, int(task)), KERNEL, ALIKE, np.array([task]), x[None])[0]
        assert width_alone(beliefs, int(task), x=x, K_Z=ALIKE) == pytest.approx(alone, abs=1e-9)
    assert sorted(told_rows(beliefs, ALIKE)[0].tolist()) == sorted(data.tasks.tolist())


def test_a_plan_expects_what_the_mixture_expects_and_a_stopped_station_borrows_next_to_nothing() -> None:
    controller, trusting = misled(), misled(None)
    worst = {name: 0 if name == "b" else 6 for name in MANY}
    now = {"station": MANY, "load": [0.1] * 6, "tilt": list(worst.values())}
    plan = plan_changes(controller, now)
    assert {change.station for change in plan.changes} == set(MANY)
    posterior = posterior_of(controller.policy)
    assert posterior is not None
    for change in plan.changes:
        task, arm = MANY.index(change.station), SPACE.index(change.proposed)
        believed = posterior.predict([task], controller.settings.encoder.contexts({"load": 0.1})[[arm]])
        assert change.expected == pytest.approx(believed.mean[0])
        assert change.width == pytest.approx(believed.width[0])
    lent = {change.station: change.borrowed for change in plan.changes}
    assert lent["b"] < 0.1 < lent["a"]
    plain = {change.station: change.borrowed for change in plan_changes(trusting, now, explore=True).changes}
    assert plain["b"] > 3 * lent["b"]


def test_for_a_sparse_posterior_an_exact_pair_learns_the_log_and_takes_the_weights_over() -> None:
    controller = played(5, rounds=12, engine="sparse", budget=6)
    beliefs = beliefs_of(controller)
    assert isinstance(beliefs, WeighedPosterior)
    assert isinstance(beliefs.shared, ExactPosterior)
    assert beliefs.weights.of(np.arange(3)).tolist() == list((controller.borrowing or {}).values())
    data = known_then(controller, "none of them")
    x = controller.settings.encoder.contexts({"load": 0.7})[3]
    w = (controller.borrowing or {})["a"]
    C = naive_covariance(data, ALIKE, 0, x[None], w)
    assert beliefs.predict([0], x[None]).width[0] == pytest.approx(C[0, 0] ** 0.5, abs=1e-8)
