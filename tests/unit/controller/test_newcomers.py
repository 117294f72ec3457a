"""Stations join and leave a running controller: what they start from, what is refused, what stays."""

import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.reference import naive

from kinband import ConfigurationSpace, Controller
from kinband.controller import storage
from kinband.errors import BadInputError, ConflictError, KinbandError, NotFoundError, SavedStateError
from kinband.kernels import RBF, components
from kinband.policies import Conservative, PolicySpec
from kinband.posterior import BlockedPosterior, make_posterior
from kinband.records import Choice, Observation, Query
from kinband.similarity.newcomers import (
    OWN,
    average_row,
    check_kinds,
    checked_descriptors,
    correlations,
    descriptor_row,
    fit_descriptor_kernel,
    given_row,
    held_out,
    left_out,
    useful_descriptor_kernel,
    with_row,
)

SPACE = ConfigurationSpace(tilt=range(5))
LENGTH, VARIANCE, NOISE, MEAN = 0.7, 0.6, 0.07, 0.3


def random_matrix(rng: np.random.Generator, M: int, *, correlation: bool = True) -> Any:
    A = rng.normal(size=(M, M + 2)) + 0.8
    K = A @ A.T
    return correlations(K) if correlation else 0.5 * (K + K.T)


def town(M: int, seed: int = 0, **options: Any) -> Controller:
    """A controller whose similarity follows positions along a road, with rewards told for every station."""
    rng = np.random.default_rng(seed)
    x = np.sort(rng.uniform(0, 4, M))
    given: dict[str, Any] = {
        "state": ["load"],
        "similarity": np.exp(-0.5 * np.subtract.outer(x, x) ** 2),
        "kernel": RBF(LENGTH, variance=VARIANCE),
        "noise": NOISE,
        "mean": MEAN,
        "engine": "exact",
        "descriptors": {f"s{i}": {"x_m": 1000 * x[i], "kind": "urban" if x[i] < 2 else "rural"} for i in range(M)},
        "seed": seed,
    }
    controller = Controller(SPACE, [f"s{i}" for i in range(M)], **(given | options))
    for _ in range(3):
        for decision in controller.ask_all({s: {"load": float(rng.random())} for s in controller.stations}).values():
            controller.tell(decision.id, float(rng.random()))
    return controller


def naive_data(observations: list[Observation]) -> naive.Data:
    noise = [NOISE + (o.noise or 0.0) for o in observations]
    tasks, y = np.array([o.task for o in observations]), np.array([o.reward for o in observations])
    return naive.Data(tasks, np.array([o.x for o in observations]), y, np.array(noise))


# --- What a newcomer starts from --------------------------------------------------------------------------


@pytest.mark.parametrize("engine", ["exact", "schur", "sparse", "auto"])
@pytest.mark.parametrize("start", ["descriptors", "average", "given"])
def test_a_newcomer_is_predicted_as_if_the_longer_matrix_had_been_there_from_the_start(engine: str, start: str) -> None:
    controller = town(6, 1, engine=engine)
    arguments: dict[str, Any] = {
        "descriptors": {"descriptors": {"x_m": 1500.0, "kind": "urban"}},
        "average": {},
        "given": {"similarity": {"s1": 0.5, "s4": 0.1}},
    }
    controller.add_station("new", **arguments[start])
    controller.tell(controller.ask("new", {"load": 0.4}).id, 0.8)
    controller.tell(controller.ask("s0", {"load": 0.1}).id, 0.2)
    decision = controller.ask("new", {"load": 0.2})
    X = controller.setup.encoder.contexts({"load": 0.2})
    data, kernel, tasks = naive_data(controller.observations()), naive.rbf(LENGTH, VARIANCE), np.full(5, 6)
    mean = naive.posterior_mean(data, kernel, np.asarray(controller.current.K_Z), tasks, X, mean=MEAN)
    std = naive.posterior_width(data, kernel, np.asarray(controller.current.K_Z), tasks, X)
    for found in decision.alternatives:
        assert found.mean == pytest.approx(mean[found.arm], abs=1e-8)
        assert found.std == pytest.approx(std[found.arm], abs=1e-7)


def test_old_stations_believe_what_they_believed() -> None:
    controller, untouched = town(5, 2), town(5, 2)
    controller.add_station("new", {"x_m": 100})
    ours, theirs = (c.ask("s3", {"load": 0.7}) for c in (controller, untouched))
    assert ours == theirs  # bit for bit


def test_a_described_newcomer_is_most_like_those_it_stands_between() -> None:
    controller = town(12, 3)
    places = {name: float(known["x_m"]) for name, known in controller.setup.descriptors.items()}
    left, right = sorted(places, key=lambda name: abs(places[name] - 1000.0))[:2]
    alike = controller.add_station("new", {"x_m": 1000.0, "kind": "urban"})
    assert next(iter(alike)) in (left, right)
    assert alike[left] > 2 * alike[max(places, key=lambda name: places[name])]
    assert controller.journal.joined[0].found == "descriptors"


def test_without_descriptors_a_newcomer_is_as_like_the_others_as_they_are_on_average() -> None:
    controller = town(7, 4)
    alike = controller.add_station("new")
    K = controller.setup.K_Z
    assert np.mean(list(alike.values())) == pytest.approx((K.sum() - 7) / 42)
    assert controller.journal.joined[0].found == "average"


@pytest.mark.parametrize("seed", range(5))
def test_the_row_of_weights_is_the_covariance_of_a_combination_and_its_own_part(seed: int) -> None:
    rng = np.random.default_rng(seed)
    K = random_matrix(rng, 6, correlation=False)
    places = rng.normal(size=6)
    stations = [{"x": float(v)} for v in places]
    kernel = fit_descriptor_kernel(K, stations)
    assert kernel is not None
    row = descriptor_row(K, kernel, stations, {"x": 0.1})
    longer = with_row(K, row)
    assert row[-1] == np.median(np.diagonal(K))
    assert np.linalg.eigvalsh(longer)[0] > -1e-12
    # What nobody else knows of the newcomer: the Schur complement of its variance.
    own = row[-1] - row[:-1] @ np.linalg.solve(K, row[:-1])
    assert own >= OWN * row[-1] * (1 - 1e-9)
    assert np.abs(correlations(longer)[-1, :-1]).max() <= np.sqrt(1 - OWN) + 1e-12


def test_of_very_many_described_stations_those_that_resemble_a_newcomer_most_are_weighed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    x = np.linspace(0.0, 10.0, 40)
    K, stations = np.exp(-(np.subtract.outer(x, x) ** 2)), [{"x": float(v)} for v in x]
    kernel = fit_descriptor_kernel(K, stations)
    assert kernel is not None
    whole = descriptor_row(K, kernel, stations, {"x": 4.4})
    monkeypatch.setattr("kinband.similarity.newcomers._RESEMBLING", 12)
    monkeypatch.setattr("kinband.similarity.newcomers._CHUNK", 7)
    near = np.abs(x - 4.4) <= np.sort(np.abs(x - 4.4))[11]
    alone = descriptor_row(K, kernel, [s if n else {} for s, n in zip(stations, near, strict=True)], {"x": 4.4})
    found = descriptor_row(K, kernel, stations, {"x": 4.4})
    np.testing.assert_array_equal(found, alone)
    np.testing.assert_allclose(found, whole, atol=0.05)


def test_a_newcomer_in_a_network_of_equals_is_identical_to_nobody() -> None:
    controller = Controller(SPACE, ["a", "b", "c"], similarity="pooled", descriptors={s: {"x": 1} for s in "abc"})
    assert list(controller.add_station("new").values()) == pytest.approx([np.sqrt(1 - OWN)] * 3)
    assert max(controller.add_station("newer", {"x": 1}).values()) <= np.sqrt(1 - OWN) + 1e-12


def test_two_newcomers_of_one_site_are_more_like_each_other_than_strangers() -> None:
    controller = town(12, 5)
    controller.add_station("first", {"x_m": 6000.0, "kind": "harbour"})
    near = controller.add_station("second", {"x_m": 6010.0, "kind": "harbour"})["first"]
    far = controller.add_station("third", {"x_m": 0.0, "kind": "urban"})["first"]
    assert near > far


def test_what_is_given_stays_and_the_rest_follows_from_it() -> None:
    rng = np.random.default_rng(6)
    K = random_matrix(rng, 5)
    names = list("abcde")
    row = given_row(K, names, {"b": 0.4, "d": -0.2}, newcomer="new")
    assert row[[1, 3]] == pytest.approx([0.4, -0.2], abs=0)
    # Given b and d, newcomer and others are independent: no partial covariance is left.
    S, others = [1, 3], [0, 2, 4]
    partial = row[others] - K[np.ix_(others, S)] @ np.linalg.solve(K[np.ix_(S, S)], row[S])
    assert partial == pytest.approx(np.zeros(3), abs=1e-12)
    assert np.linalg.eigvalsh(with_row(K, row))[0] > 0


# --- The descriptor kernel --------------------------------------------------------------------------------


def test_leaving_out_by_one_inverse_equals_leaving_out_one_by_one() -> None:
    rng = np.random.default_rng(7)
    x = rng.normal(size=8)
    C = np.exp(-0.3 * np.subtract.outer(x, x) ** 2)
    stations = [{"x": float(v)} for v in x]
    kernel = fit_descriptor_kernel(C, stations)
    assert kernel is not None
    fast = left_out(kernel.gram(stations), C)
    for i in range(8):
        rest = np.delete(np.arange(8), i)
        row = descriptor_row(C[np.ix_(rest, rest)], kernel, [stations[j] for j in rest], stations[i])
        assert fast[rest, i] == pytest.approx(row[:-1], abs=1e-9)


def test_rows_held_out_are_predicted_where_descriptors_tell_and_not_where_they_do_not() -> None:
    rng = np.random.default_rng(8)
    x, kinds = rng.uniform(0, 3, 30), rng.choice(["urban", "rural"], 30)
    K = np.exp(-0.5 * np.subtract.outer(x, x) ** 2) * np.where(np.equal.outer(kinds, kinds), 1.0, 0.4)
    told: list[dict[str, Any]] = [{"x": float(v), "kind": str(kind)} for v, kind in zip(x, kinds, strict=True)]
    dice = [{"x": float(v)} for v in rng.random(30)]
    assert held_out(K, told).explained > 0.5
    assert useful_descriptor_kernel(K, told) is not None
    assert held_out(K, dice).explained < 0.1
    noise = random_matrix(rng, 30)
    assert useful_descriptor_kernel(noise, dice) is None


@pytest.mark.parametrize("seed", range(4))
def test_the_kernel_of_descriptors_is_positive_semi_definite_whatever_is_missing(seed: int) -> None:
    rng = np.random.default_rng(seed)
    stations: list[dict[str, Any]] = []
    for _ in range(15):
        full = {"x": float(rng.normal()), "y": float(rng.normal()), "kind": str(rng.choice(list("abc")))}
        stations.append({name: value for name, value in full.items() if rng.random() < 0.7})
    kernel = fit_descriptor_kernel(random_matrix(rng, 15), stations)
    assert kernel is not None
    G = kernel.gram([*stations, {"kind": "never seen"}, {}])
    assert np.array_equal(G, G.T)
    assert np.linalg.eigvalsh(G)[0] > -1e-10 * np.linalg.eigvalsh(G)[-1]


def test_a_category_never_seen_is_unlike_all() -> None:
    kinds = ["a", "b"] * 6
    K = np.where(np.equal.outer(kinds, kinds), 0.9, 0.1) + 0.1 * np.eye(12)
    stations = [{"kind": kind} for kind in kinds]
    kernel = fit_descriptor_kernel(K, stations)
    assert kernel is not None
    known, strange = (descriptor_row(K, kernel, stations, {"kind": kind})[:-1] for kind in ("a", "harbour"))
    assert strange.max() < known.max()
    assert strange == pytest.approx(np.full(12, strange.mean()), rel=1e-6)  # no kind is nearer than another


def test_stations_without_descriptors_and_unknown_names_are_no_error() -> None:
    controller = town(8, 9, descriptors={"s0": {"x_m": 1.0}, "s1": {"x_m": 2.0}, "s2": {}, "s3": {"x_m": None}})
    assert len(controller.add_station("new", {"x_m": 1.5, "colour": "blue"})) == 8
    assert len(controller.add_station("newer", {"colour": "blue"})) == 9
    assert len(controller.add_station("newest", {"x_m": float("nan")})) == 10
    assert [entry.found for entry in controller.journal.joined] == ["average", "average", "average"]


def test_descriptors_come_out_as_plain_values() -> None:
    found = checked_descriptors({"a": np.float32(0.5), "b": np.bool_(True), "c": np.int64(3), "d": None}, station="s")
    assert json.loads(json.dumps(found)) == {"a": 0.5, "b": True, "c": 3.0}
    assert check_kinds({"s": found}) == {"a": True, "b": False, "c": True}


# --- Engines ----------------------------------------------------------------------------------------------


def test_a_newcomer_of_independent_stations_joins_no_group() -> None:
    controller = Controller(SPACE, list("abc"), descriptors={s: {"x": i} for i, s in enumerate("abc")}, engine="exact")
    assert set(controller.add_station("new", {"x": 1}).values()) == {0.0}
    posterior: Any = controller.policy
    assert len(posterior.posterior.blocks) == 4


@pytest.mark.parametrize("engine", ["exact", "schur", "auto", "sparse"])
@pytest.mark.parametrize("linked", [[], [1], [0, 2], [0, 1, 2]])
def test_groups_are_joined_as_the_newcomer_is_like_them(engine: str, linked: list[int]) -> None:
    rng = np.random.default_rng(len(linked))
    order = rng.permutation(7)
    K = np.zeros((7, 7))
    for block in (slice(0, 2), slice(2, 5), slice(5, 7)):
        K[block, block] = random_matrix(rng, block.stop - block.start)
    K = K[np.ix_(order, order)]
    w = np.zeros(7)
    for group in (components(K)[g] for g in linked):
        w[group] = rng.uniform(0.1, 0.4, len(group))
    longer = with_row(K, np.append(K @ w, w @ K @ w + 0.3))
    posterior = make_posterior(RBF(LENGTH, variance=VARIANCE), K, noise=NOISE, mean=MEAN, engine=engine)
    assert isinstance(posterior, BlockedPosterior)
    tasks, X, y = rng.integers(0, 7, 20), rng.random((20, 2)), rng.random(20)
    for t, x, reward in zip(tasks, X, y, strict=True):
        posterior.update([t], x[None], [reward])
    if engine == "sparse" and len(linked) > 1:
        with pytest.raises(KinbandError, match="keep no rows to join"):
            posterior.extend_tasks(longer)
        return
    posterior.extend_tasks(longer)
    assert len(posterior.blocks) == len(components(longer))
    posterior.update([7], [[0.3, 0.2]], [0.9])
    data = naive.Data(np.append(tasks, 7), np.vstack([X, [0.3, 0.2]]), np.append(y, 0.9), np.full(21, NOISE))
    at, Q = np.arange(8), rng.random((8, 2))
    longer = np.asarray(longer)
    mean = naive.posterior_mean(data, naive.rbf(LENGTH, VARIANCE), longer, at, Q, mean=MEAN)
    std = naive.posterior_width(data, naive.rbf(LENGTH, VARIANCE), longer, at, Q)
    found = posterior.predict(at, Q)
    assert found.mean == pytest.approx(mean, abs=1e-8)
    assert found.std == pytest.approx(std, abs=1e-7)


def test_groups_of_a_sparse_engine_that_are_joined_learn_the_log_anew() -> None:
    K = np.kron(np.eye(2), np.array([[1.0, 0.6], [0.6, 1.0]]))
    controller = Controller(
        SPACE, list("abcd"), similarity=K, kernel=RBF(0.8), noise=0.1, engine="sparse", inducing_points=8
    )
    rng = np.random.default_rng(0)
    for _ in range(40):
        controller.tell(controller.ask(str(rng.choice(list("abcd")))).id, float(rng.random()))
    controller.add_station("new", similarity={"a": 0.5, "c": 0.5})
    assert controller.add_station("newer", similarity={"d": 0.3})["c"] == pytest.approx(0.18)
    again = Controller.resume(controller.setup, list(controller.journal))
    assert again.ask("new") == controller.ask("new")


@pytest.mark.parametrize("engine", ["exact", "schur", "sparse", "auto"])
def test_every_engine_refuses_to_change_what_stations_share(engine: str) -> None:
    posterior = make_posterior(RBF(), [[1.0, 0.5], [0.5, 1.0]], noise=0.1, engine=engine)
    with pytest.raises(BadInputError, match="must leave the similarity of the 2 there are as it is"):
        posterior.extend_tasks([[1.0, 0.4, 0.0], [0.4, 1.0, 0.0], [0.0, 0.0, 1.0]])
    assert len(posterior.K_Z) == 2


def test_a_policy_of_the_users_own_is_taught_anew_or_takes_the_matrix() -> None:
    built: list[int] = []

    class Counting:
        def __init__(self, spec: PolicySpec) -> None:
            built.append(len(spec.K_Z))
            self.rewards: list[float] = []

        def choose(self, query: Query, rng: np.random.Generator) -> Choice:
            return Choice(int(query.arms[len(self.rewards) % len(query.arms)]), query.arms)

        def learn(self, observation: Observation) -> None:
            self.rewards.append(observation.reward)

    class Growing(Counting):
        def extend_tasks(self, K_Z: Any) -> None:
            built.append(-len(K_Z))

    for factory, expected in ((Counting, [1, 1, 2]), (Growing, [1, -2])):
        built.clear()
        controller = Controller(SPACE, ["a"], policy=factory)
        controller.tell(controller.ask("a").id, 0.5)
        controller.add_station("b")
        policy: Any = controller.policy
        assert policy.rewards == [0.5]
        assert built[0] == expected[0]
        assert built[-1] == expected[-1]


# --- Leaving, and coming back -----------------------------------------------------------------------------


def test_a_station_removed_with_decisions_pending_loses_nothing(caplog: pytest.LogCaptureFixture) -> None:
    controller, staying = town(5, 10), town(5, 10)
    for one in (controller, staying):
        one.ask("s2", {"load": 0.3})
        one.ask("s1", {"load": 0.6})
    with caplog.at_level(logging.WARNING):
        pending = controller.remove_station("s2")
    assert pending == [controller.pending[0]]
    assert "removed with 1 decision(s) pending" in caplog.text
    assert controller.stations == ("s0", "s1", "s3", "s4")
    for one in (controller, staying):
        one.tell(pending[0], 0.9)
    assert controller.ask("s3", {"load": 0.2}) == staying.ask("s3", {"load": 0.2})  # its reward still teaches others


def test_a_removed_station_cannot_be_asked_and_its_decisions_may_be_called_off() -> None:
    controller = town(4, 11)
    controller.ask("s1", {"load": 0.5})
    (pending,) = controller.remove_station("s1")
    for ask in (lambda: controller.ask("s1", {"load": 0.1}), lambda: controller.ask_all({"s1": {"load": 0.1}})):
        with pytest.raises(NotFoundError, match="'s1' was removed: add_station brings it back"):
            ask()
    controller.call_off(pending)
    assert controller.pending == []
    assert controller.similarity.stations == ("s0", "s2", "s3")
    assert controller.decision(pending).station == "s1"


def test_a_station_comes_back_with_what_it_knew() -> None:
    controller, staying = town(4, 12), town(4, 12)
    controller.remove_station("s1")
    alike = controller.add_station("s1", {"x_m": 1.0})
    assert alike["s0"] == staying.similarity.between("s1", "s0")
    ours, theirs = (c.ask("s1", {"load": 0.5}) for c in (controller, staying))
    assert [a.mean for a in ours.alternatives] == [a.mean for a in theirs.alternatives]
    assert controller.current.task("s1") == 1


def test_a_newcomer_under_a_budget_declares_what_it_runs() -> None:
    controller = Controller(SPACE, ["a", "b"], safety=Conservative(0.1), running={"tilt": 2}, mean=0.8)
    controller.tell(controller.ask("a").id, 0.7)
    with pytest.raises(BadInputError, match="'c' has none: declare it by running="):
        controller.add_station("c")
    assert controller.stations == ("a", "b")
    controller.add_station("c", running={"tilt": 3})
    decision = controller.ask("c")
    controller.tell(decision.id, 0.8)
    policy: Any = controller.policy
    assert policy.budget.settled.shape == (3,)
    assert decision.policy_state["safety"]["running"] == 3


# --- Refusals: one sentence, nothing changed --------------------------------------------------------------


def _refuse(add: Callable[[Any], Any], error: type[KinbandError], words: str) -> Any:
    return pytest.param(add, error, words, id=words[:30])


@pytest.mark.parametrize(
    ("act", "error", "words"),
    [
        _refuse(lambda c: c.add_station("s0"), ConflictError, "there is a station 's0' already"),
        _refuse(lambda c: c.add_station(""), BadInputError, "a station needs a name"),
        _refuse(lambda c: c.add_station(["x"]), BadInputError, "a station needs a name"),
        _refuse(lambda c: c.add_station("n", [1]), BadInputError, "must map names to values"),
        _refuse(lambda c: c.add_station("n", {"x_m": [1]}), BadInputError, "must be a number or a word"),
        _refuse(lambda c: c.add_station("n", {"x_m": np.inf}), BadInputError, "must be finite"),
        _refuse(lambda c: c.add_station("n", {"x_m": 10**400}), BadInputError, "'x_m' of 'n' must be finite, got inf"),
        _refuse(lambda c: c.add_station("n", {"x_m": 1e308}), BadInputError, "'x_m' of 'n' is 1e.308, .* too large"),
        _refuse(lambda c: c.add_station("n", {"x_m": "far"}), BadInputError, "is a number for 's0' and a category"),
        _refuse(lambda c: c.add_station("n", {1: 2}), BadInputError, "must have names"),
        _refuse(lambda c: c.add_station("n", None, 0.5), BadInputError, "must map stations to numbers"),
        _refuse(lambda c: c.add_station("n", None, {}), BadInputError, "must map stations to numbers"),
        _refuse(lambda c: c.add_station("n", None, {"x": 0.5}), NotFoundError, "names 'x', which is not a station"),
        _refuse(lambda c: c.add_station("n", None, {"s0": 1.2}), BadInputError, "must lie between -1 and 1, got 1.2"),
        _refuse(lambda c: c.add_station("n", None, {"s0": np.nan}), BadInputError, "must be finite"),
        _refuse(lambda c: c.add_station("n", None, {"s0": True}), BadInputError, "must be a number, got True"),
        _refuse(lambda c: c.add_station("n", None, {"s0": 1, "s1": -1}), BadInputError, "contradicts how alike"),
        _refuse(lambda c: c.add_station("n", running={"tilt": 9}), BadInputError, "running names no configuration"),
        _refuse(lambda c: c.remove_station("x"), NotFoundError, "unknown station 'x'"),
        _refuse(lambda c: c.remove_station(None), NotFoundError, "unknown station None"),
        _refuse(lambda c: c.remove_station("gone"), NotFoundError, "'gone' was removed"),
        _refuse(lambda c: c.add_station("gone", None, {"s0": 0.5}), BadInputError, "without similarity="),
    ],
)
def test_bad_input_is_refused_in_one_sentence_and_changes_nothing(
    act: Callable[[Controller], Any], error: type[KinbandError], words: str
) -> None:
    controller = town(4, 13)
    controller.add_station("gone")
    controller.remove_station("gone")
    entries, stations = len(controller.journal), controller.stations
    with pytest.raises(error, match=words) as refused:
        act(controller)
    assert "\n" not in str(refused.value)
    assert (len(controller.journal), controller.stations) == (entries, stations)
    posterior: Any = controller.policy
    assert len(posterior.posterior.K_Z) == 5


def test_similarities_that_contradict_say_by_how_much_they_would_fit() -> None:
    K = np.array([[1.0, -0.5], [-0.5, 1.0]])
    with pytest.raises(BadInputError, match=r"times 0\.55 they would fit"):
        given_row(K, ["a", "b"], {"a": 0.9, "b": 0.9}, newcomer="new")
    # 0.9² (1 1) K⁻¹ (1 1)ᵀ = 0.81 · 4 = 3.24, and 0.55² · 3.24 < 1.
    assert np.linalg.eigvalsh(with_row(K, given_row(K, ["a", "b"], {"a": 0.495, "b": 0.495}, newcomer="n")))[0] > 0


def test_the_last_station_stays() -> None:
    controller = Controller(SPACE, ["a", "b"])
    controller.remove_station("b")
    with pytest.raises(ConflictError, match="'a' is the last one: add another before"):
        controller.remove_station("a")
    assert controller.stations == ("a",)


@pytest.mark.parametrize(
    ("descriptors", "words"),
    [
        ([1], "must be given by station"),
        ({"x": {"x_m": 1}}, "names 'x', which is not a station"),
        ({"a": 3}, "descriptors of 'a' must map names to values"),
        ({"a": {"x": 1}, "b": {"x": -1e200}}, r"'x' of 'b' is -1e\+200, which is too large to compute with"),
        ({"a": {"x": 1}, "b": {"x": "east"}}, "is a number for 'a' and a category for 'b'"),
    ],
)
def test_descriptors_that_do_not_fit_are_refused_when_a_controller_is_made(descriptors: Any, words: str) -> None:
    with pytest.raises(BadInputError, match=words):
        Controller(SPACE, ["a", "b"], descriptors=descriptors)


# --- On disk ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rebuild", [True, False])
def test_a_row_that_somebody_edited_is_noticed(tmp_path: Path, rebuild: bool) -> None:
    controller = town(3, 15)
    controller.add_station("new", {"x_m": 1.0})
    controller.save(tmp_path / "state")
    log, file = tmp_path / "state" / "log.jsonl", tmp_path / "state" / "manifest.json"
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    lines[-1]["likeness"][0] = 3.0
    log.write_text("".join(json.dumps(line) + "\n" for line in lines))
    manifest = json.loads(file.read_text())
    manifest["files"]["log.jsonl"] = storage._checksum(log)
    manifest["checksum"] = storage._manifest_checksum(manifest)
    file.write_text(json.dumps(manifest))
    with pytest.raises(SavedStateError, match="not positive semi-definite"):
        Controller.load(tmp_path / "state", rebuild=rebuild)


def test_an_average_row_is_that_of_an_exchangeable_station() -> None:
    # Where all are equally alike, the newcomer is as like each of them as they are.
    K = 0.35 + 0.65 * np.eye(9)
    assert average_row(K) == pytest.approx(np.append(np.full(9, 0.35), 1.0))
