"""Estimates from a log: three formulas against loops written from the papers, parts, habits, support and refusals."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.stats import t as student

from kinband import ConfigurationSpace, Controller, TaskMatrix, Trace
from kinband.arrays import FloatArray, IntArray
from kinband.contexts import ContextEncoder, StateScaler
from kinband.errors import BadInputError, NotFoundError
from kinband.kernels import RBF, Kernel, Matern52
from kinband.model import Model
from kinband.ope import Evaluation, evaluate
from kinband.ope.estimators import (
    BehaviourPolicy,
    Contrast,
    Grouping,
    behaviour_policy,
    by_model,
    doubly_robust,
    effective_samples,
    given_propensities,
    inverse_propensity,
)
from kinband.ope.evaluating import BOTH, MODEL, WEIGHTS, learn, predict
from kinband.ope.targets import Beliefs, Choices, part, recommended, support_of
from kinband.ope.targets import usual as usual_of
from kinband.posterior import ExactPosterior

SPACE = ConfigurationSpace(tilt=[0, 2, 4])


def log_of(rows: int = 90, *, stations: int = 3, seed: int = 0) -> tuple[Trace, FloatArray]:
    """A log whose choices depend on the state, and the probability of what each row ran."""
    rng = np.random.default_rng(seed)
    load = rng.random(rows)
    p = 0.2 + 0.4 * np.column_stack([load, np.zeros(rows), 1 - load])
    tilt = 2 * (rng.random(rows)[:, None] > p.cumsum(axis=1)).sum(axis=1)
    reward = 0.6 - 0.05 * (tilt - 3 * load) ** 2 + 0.1 * rng.normal(size=rows)
    columns = {"station": np.arange(rows) % stations, "time": rng.permutation(rows), "load": load, "tilt": tilt}
    trace = Trace.from_frame({**columns, "reward": reward}, {"configuration": ["tilt"]})
    return trace.with_space(SPACE), p[np.arange(rows), tilt // 2]


def model_of(stations: tuple[str, ...], kernel: Kernel | None = None) -> Model:
    M = len(stations)
    alike = TaskMatrix(stations, 0.7 + 0.3 * np.eye(M), "given")
    return Model(kernel or RBF([1.3, 0.9], variance=0.3), alike, noise=0.04, mean=0.45)


def chooser(station: str, state: Mapping[str, float]) -> dict[str, int]:
    return {"tilt": 2 if state["load"] > 0.4 and station != "1" else 4}


# --- The three formulas, by loops ------------------------------------------------------------------------------


def naive_interval(influence: list[float], unit: list[int], *, units: int, value: float) -> tuple[float, float]:
    """Sums within units, their spread, and Student's t, as in Liang and Zeger."""
    totals: dict[int, float] = {}
    for psi, u in zip(influence, unit, strict=True):
        totals[u] = totals.get(u, 0.0) + psi
    G, n = len(totals), len(influence)
    variance = G / (G - 1) * sum(total**2 for total in totals.values()) / n**2
    slack = float(student.ppf(0.975, units - 1)) * variance**0.5
    return value - slack, value + slack


@pytest.mark.parametrize("seed", range(4))
def test_each_estimator_is_its_formula_in_loops(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(30, 60))
    w = rng.exponential(2.0, n) * (rng.random(n) < 0.6)
    r, m, q = rng.normal(3.0, 0.7, (3, n))
    unit = rng.integers(0, 9, n)
    ours = [by_model(q), inverse_propensity(w, r), doubly_robust(w, r, m=m, q=q)]

    total = weight = 0.0
    for i in range(n):
        total, weight = total + w[i] * r[i], weight + w[i]
    weighed = total / weight
    scores = [q[i] + w[i] * (r[i] - m[i]) for i in range(n)]
    naive = [sum(q) / n, weighed, sum(scores) / n]
    influences = [
        [q[i] - naive[0] for i in range(n)],
        [n * w[i] * (r[i] - weighed) / weight for i in range(n)],
        [score - naive[2] for score in scores],
    ]
    carrying = len({int(unit[i]) for i in range(n) if w[i] > 0})
    counts = [len(set(unit.tolist())), carrying, carrying]
    for found, value, influence, units in zip(ours, naive, influences, counts, strict=True):
        low, high = naive_interval(influence, unit.tolist(), units=units, value=value)
        estimate = found.interval(unit)
        assert (estimate.value, estimate.low, estimate.high) == pytest.approx((value, low, high))
    assert effective_samples(w) == pytest.approx(weight**2 / sum(x**2 for x in w))


def test_an_interval_by_units_of_one_row_is_the_textbooks_for_a_mean() -> None:
    values = np.random.default_rng(3).normal(2.0, 5.0, 25)
    estimate = by_model(values).interval(np.arange(25))
    reach = 2.0639 * values.std(ddof=1) / 5  # t with 24 degrees
    assert estimate.high - estimate.low == pytest.approx(2 * reach, rel=1e-4)


def test_without_any_weight_nothing_is_claimed() -> None:
    none = inverse_propensity(np.zeros(4), np.ones(4)).interval(np.arange(4))
    assert np.isnan([none.value, none.low, none.high]).all()
    one = inverse_propensity(np.array([2.0, 0.0]), np.array([0.3, 0.9])).interval(np.arange(2))
    assert one.value == pytest.approx(0.3)
    assert not one.known


def test_what_two_policies_share_cancels_in_their_difference() -> None:
    rng = np.random.default_rng(1)
    r, w = rng.normal(size=50), rng.exponential(size=50)
    same = inverse_propensity(w, r)
    other = inverse_propensity(np.where(np.arange(50) < 3, 0.0, w), r)
    gap = same.minus(other, differ=np.arange(50) < 3).interval(np.arange(50))
    assert gap.value == pytest.approx(same.value - other.value)
    alone = same.interval(np.arange(50))
    assert gap.high - gap.low < 0.5 * (alone.high - alone.low) * 4.303 / 2.010  # t with 2 degrees against 49
    nothing = same.minus(same, differ=np.zeros(50, np.bool_), exact=True).interval(np.arange(50))
    assert (nothing.value, nothing.low, nothing.high) == (0.0, 0.0, 0.0)


# --- The whole of it, by loops -----------------------------------------------------------------------------------


def naive_mean(model: Model, rows: list[tuple[int, list[float], float]], task: int, x: list[float]) -> float:
    """The posterior mean (9), entry by entry."""

    def k(a: int, x: list[float], b: int, y: list[float]) -> float:
        squares = sum(((u - v) / s) ** 2 for u, v, s in zip(x, y, (1.3, 0.9), strict=True))
        return float(model.similarity.matrix[a, b]) * 0.3 * float(np.exp(-squares / 2))

    K = np.array([[k(a, x, b, y) for b, y, _ in rows] for a, x, _ in rows]) + 0.04 * np.eye(len(rows))
    weights = np.linalg.inv(K) @ np.array([r - 0.45 for _, _, r in rows])
    return 0.45 + sum(float(weight) * k(a, y, task, x) for weight, (a, y, _) in zip(weights, rows, strict=True))


def test_an_evaluation_is_what_loops_over_the_log_find() -> None:
    trace, p = log_of(72)
    found = evaluate(trace, chooser, propensity=p, model=model_of(("0", "1", "2")), learn_share=0.25, folds=3)

    time = np.asarray(trace.time)
    by_time = {s: sorted((i for i in range(72) if trace.station[i] == s), key=lambda i: time[i]) for s in "012"}
    earlier = [i for s in "012" for i in by_time[s][:6]]
    later = [i for s in "012" for i in by_time[s][6:]]
    fold = {i: place // 6 for s in "012" for place, i in enumerate(by_time[s][6:])}
    loads = [float(trace.state[i, 0]) for i in earlier]
    centre, scale = np.mean(loads), np.std(loads)
    feature = {0: -(1.5**0.5), 2: 0.0, 4: 1.5**0.5}  # 0, 2, 4 standardised

    def context(i: int, tilt: int) -> list[float]:
        return [(float(trace.state[i, 0]) - centre) / scale, feature[tilt]]

    unit: list[int] = []
    number, scores, direct, up, down = 0, list[float](), list[float](), 0.0, 0.0
    for s in "012":
        before = None
        for i in by_time[s][6:]:
            ran, wants = int(trace.configuration["tilt"][i]), chooser(s, {"load": float(trace.state[i, 0])})["tilt"]
            number += ran != before and bool(unit)
            before = ran
            unit.append(number)
            rows = [
                (int(trace.station[j]), context(j, int(trace.configuration["tilt"][j])), float(trace.reward[j]))
                for j in later
                if fold[j] != fold[i]
            ]
            mu = {tilt: naive_mean(model_of(("0", "1", "2")), rows, int(s), context(i, tilt)) for tilt in {ran, wants}}
            w = (ran == wants) / p[i]
            direct.append(mu[wants])
            scores.append(mu[wants] + w * (trace.reward[i] - mu[ran]))
            up, down = up + w * trace.reward[i], down + w
    value = sum(scores) / len(scores)
    carrying = {u for u, score, q in zip(unit, scores, direct, strict=True) if score != q}
    influence = [score - value for score in scores]
    low, high = naive_interval(influence, unit, units=len(carrying), value=value)
    assert found.by(MODEL).value.value == pytest.approx(sum(direct) / len(direct))
    assert found.by(WEIGHTS).value.value == pytest.approx(up / down)
    assert (found.value.value, found.value.low, found.value.high) == pytest.approx((value, low, high))
    assert (found.unit, found.units, found.rows_learned, found.rows_judged) == ("trial", number + 1, 18, 54)
    assert found.log.value == pytest.approx(sum(trace.reward[i] for i in later) / 54)
    assert found.by(BOTH).against_log.value == pytest.approx(value - found.log.value)


def test_the_log_judges_its_own_policy_to_be_what_it_earned() -> None:
    trace, _ = log_of(90)
    tables = np.full((90, 3), 1 / 3)
    found = evaluate(trace, lambda *_: [1 / 3] * 3, propensity=tables, model=model_of(trace.stations))
    assert found.by(WEIGHTS).value.value == pytest.approx(found.log.value)
    assert found.effective_rows == pytest.approx(found.rows_judged)
    assert found.mean_weight == pytest.approx(1.0)


def test_probabilities_of_one_are_a_configuration() -> None:
    trace, p = log_of()
    one = evaluate(trace, {"tilt": 4}, propensity=p, model=model_of(trace.stations))
    other = evaluate(trace, lambda *_: [0, 0, 1], propensity=p, model=model_of(trace.stations))
    for method in (MODEL, WEIGHTS, BOTH):
        assert one.by(method).value.value == pytest.approx(other.by(method).value.value)
    assert one.support == other.support


def test_the_usual_differs_from_itself_by_nothing() -> None:
    trace, _ = log_of()
    found = evaluate(trace, "usual", model=model_of(trace.stations))
    for method in (MODEL, WEIGHTS, BOTH):
        gap = found.by(method).against_usual
        assert (gap.value, gap.low, gap.high) == (0.0, 0.0, 0.0)
    assert found.same
    assert "the same as" not in found.verdict  # which would say nothing
    assert found.verdict.startswith("Every station at its usual configuration makes no clear difference to what the ")
    assert f"{found.by(BOTH).against_log:+.3g}" in found.verdict


def test_the_usual_in_other_words_is_said_to_be_the_same_and_nothing_else_is() -> None:
    trace, _ = log_of()
    columns = {"station": trace.station, "time": trace.time, "load": trace.state[:, 0]}
    columns |= {"tilt": trace.configuration["tilt"], "reward": np.full(len(trace), 0.4)}
    flat = Trace.from_frame(columns, {"configuration": ["tilt"]}).with_space(SPACE)
    parts = part(flat, SPACE.indices(flat.configuration), share=0.5, folds=5)
    most = usual_of(flat.station[parts.earlier], SPACE.indices(flat.configuration)[parts.earlier])
    names = np.array(flat.stations)
    usual = dict(zip(flat.stations, most.choices(names, np.zeros((len(names), 1))).arms[:, 0].tolist(), strict=True))
    model = replace(model_of(flat.stations), mean=0.4)
    assert evaluate(flat, lambda name, _: np.eye(3)[usual[name]], model=model).verdict.startswith(
        "The policy is the same as every station at its usual configuration in all rows judged."
    )
    other = evaluate(flat, lambda name, _: SPACE[(usual[name] + 1) % 3], model=model)
    gain = other.by(BOTH).against_usual  # all rewards are equal, and as the model expects them
    assert (gain.low, gain.high) == (0.0, 0.0)
    assert not other.same
    assert "makes no clear difference to the stations' usual configurations" in other.verdict


def test_cut_weights_are_cut_and_said() -> None:
    trace, p = log_of(600)  # enough that weights of 1.7 to 5 cut at 2 average clearly less than 1
    found = evaluate(trace, {"tilt": 0}, propensity=p, model=model_of(trace.stations), clip=2.0)
    assert found.clipped is not None
    assert found.clipped[0] > 0
    (warning,) = found.warnings  # that they average less than 1 is the cut's doing, and no doubt about propensities
    uncut = evaluate(trace, {"tilt": 0}, propensity=p, model=model_of(trace.stations))
    assert f"{found.clipped[0]} weights were cut at 2" in warning
    assert f"average {found.mean_weight:.2f} instead of {uncut.mean_weight:.2f}" in warning
    assert found.mean_weight < 0.9 * uncut.mean_weight
    assert not evaluate(trace, {"tilt": 0}, propensity=p, model=model_of(trace.stations), clip=1e6).warnings
    assert abs(found.by(WEIGHTS).value.value - uncut.by(WEIGHTS).value.value) > 0.001


def test_an_evaluation_changes_nothing_and_repeats_bit_for_bit() -> None:
    trace, _ = log_of()
    first, second = (evaluate(trace, similarity="pooled", seed=5).to_dict() for _ in range(2))
    assert first == second


# --- Parts -------------------------------------------------------------------------------------------------------


def test_the_earliest_rows_of_every_station_are_learned_from_and_folds_are_stretches_of_time() -> None:
    trace, _ = log_of(100, stations=4)
    arms = SPACE.indices(trace.configuration)
    parts = part(trace, arms, share=0.3, folds=3)
    assert trace.time is not None
    for s in trace.stations:
        early = trace.time[parts.earlier[trace.station[parts.earlier] == s]]
        late = parts.later[trace.station[parts.later] == s]
        assert (len(early), len(late)) == (8, 17)
        assert early.max() < trace.time[late].min()
        in_order = parts.fold[trace.station[parts.later] == s][np.argsort(trace.time[late])]
        assert (np.diff(in_order) >= 0).all()
        assert set(in_order.tolist()) == {0, 1, 2}


def test_many_stations_are_units_and_few_are_cut_into_trials() -> None:
    many, _ = log_of(200, stations=20)
    arms = SPACE.indices(many.configuration)
    assert part(many, arms, share=0.5, folds=2).kind == "station"
    assert len(np.unique(part(many, arms, share=0.5, folds=2).unit)) == 20
    few, _ = log_of(200, stations=19)
    assert part(few, SPACE.indices(few.configuration), share=0.5, folds=2).kind == "trial"


def test_without_times_the_order_of_the_file_stands_for_them_and_it_is_said() -> None:
    trace, _ = log_of()
    columns = {"station": trace.station, "tilt": trace.configuration["tilt"], "reward": trace.reward}
    timeless = Trace.from_frame(columns, {"configuration": ["tilt"]}, duplicates="drop")
    parts = part(timeless, SPACE.indices(timeless.configuration), share=0.5, folds=2)
    for s in timeless.stations:
        mine = timeless.station[parts.earlier] == s
        assert parts.earlier[mine].max() < parts.later[timeless.station[parts.later] == s].min()
    found = evaluate(timeless, {"tilt": 2}, model=Model(RBF(1.1), model_of(timeless.stations).similarity, 0.1, 0.5))
    assert any("no time" in warning for warning in found.warnings)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"learn_share": 1.0}, "must lie between 0 and 1"),
        ({"folds": 1}, "folds must be a whole number of at least 2"),
        ({"learn_share": 0.9}, "leaves 9 to judge a policy by, at least 20"),
        ({"clip": -1}, "clip must be above zero"),
    ],
)
def test_parts_that_judge_nothing_are_refused(options: dict[str, Any], sentence: str) -> None:
    trace, _ = log_of()
    with pytest.raises(BadInputError, match=sentence):
        evaluate(trace, {"tilt": 2}, model=model_of(trace.stations), **options)


# --- Policies and beliefs ----------------------------------------------------------------------------------------


def test_what_is_recommended_is_what_a_greedy_controller_of_the_earlier_rows_would_choose() -> None:
    trace, _ = log_of(120, seed=4)
    earlier = trace.select(trace.time < 60)  # type: ignore[operator]
    encoder, model = learn(earlier, similarity="prediction", seed=3)
    target = recommended(Beliefs.learn(model, earlier.samples(encoder), encoder))
    controller = Controller.from_trace(earlier, SPACE, similarity="prediction", beta=0.0, seed=3)
    loads = np.linspace(0, 1, 15)
    for s in trace.stations:
        found = target.choices(np.full(15, s), loads[:, None]).arms[:, 0]
        asked = [controller.ask(s, {"load": float(load)}).arm for load in loads]
        assert found.tolist() == asked


@pytest.mark.parametrize("kernel", [RBF([0.8, 1.7], variance=0.6), Matern52([0.8, 1.7], variance=0.6)])
def test_beliefs_agree_with_the_exact_posterior_whether_or_not_the_kernel_splits(kernel: Kernel) -> None:
    trace, _ = log_of(40, seed=2)
    encoder = trace.encoder()
    rows, model = trace.samples(encoder), model_of(trace.stations, kernel)
    beliefs = Beliefs.learn(model, rows, encoder)
    exact = ExactPosterior(kernel, model.similarity.matrix, noise=model.noise, mean=model.mean)
    exact.update(rows.tasks, rows.X, rows.y)
    rng = np.random.default_rng(0)
    tasks, S, arms = rng.integers(0, 3, 12), rng.normal(size=(12, 1)), rng.integers(0, 3, (12, 2))
    X = np.stack([np.hstack([S, SPACE.features[arms[:, c]]]) for c in (0, 1)])
    expected = np.column_stack([exact.predict(tasks, X[c]).mean for c in (0, 1)])
    assert np.allclose(beliefs.at(tasks, S, arms), expected)
    table = np.column_stack(
        [exact.predict(tasks, np.hstack([S, np.tile(SPACE.features[a], (12, 1))])).mean for a in range(3)]
    )
    assert beliefs.best(tasks, S).tolist() == table.argmax(axis=1).tolist()
    weights = rng.normal(size=12)
    variance = weights @ exact.predict(tasks, X[0]).covariance() @ weights
    assert beliefs.spread(tasks, S, arms[:, 0], weights=weights) == pytest.approx(variance**0.5)


def test_noise_that_the_log_knows_adds_to_the_models() -> None:
    encoder = ContextEncoder(StateScaler.identity([]), ConfigurationSpace(tilt=[0, 2]))
    log = {"station": ["a"], "tilt": [0], "reward": [1.0], "noise": [0.3]}
    rows = Trace.from_frame(log, {"configuration": ["tilt"]}).with_space(encoder.space).samples(encoder)
    model = Model(RBF(1.0, variance=0.5), TaskMatrix(("a",), np.eye(1), "given"), noise=0.2, mean=0.0)
    mean = Beliefs.learn(model, rows, encoder).at(np.array([0]), np.zeros((1, 0)), np.array([[0]]))
    assert mean[0, 0] == pytest.approx(0.5 / (0.5 + 0.2 + 0.3))


@pytest.mark.parametrize(
    ("policy", "error", "sentence"),
    [
        ("optimal", BadInputError, "unknown policy 'optimal'"),
        ({"tilt": 3}, NotFoundError, "no value 3"),
        ({"power": 3}, NotFoundError, "no knob 'power'"),
        (lambda *_: {"tilt": 9}, NotFoundError, "no value 9"),
        (lambda *_: [0.5, 0.5], BadInputError, "3 probabilities that add up to 1, got 2"),
        (lambda *_: [0.5, 0.4, 0.3], BadInputError, "add up to 1.2"),
        (lambda *_: [1.5, -0.5, 0.0], BadInputError, "the smallest -0.5"),
        (lambda *_: {"tilt": 9}, NotFoundError, "the policy's answer for station '0' cannot be used: .*no value 9"),
        (lambda *_: None, BadInputError, "answer for station '0' .* a configuration or with 3 probabilities, got None"),
        (lambda *_: "tilt=2", BadInputError, "3 probabilities, got 'tilt=2'"),
        (lambda *_: 2, BadInputError, "3 probabilities, got 2"),
        (lambda *_: [0.5, None, 0.5], BadInputError, "answer for station '0' cannot be used"),
        (lambda name, _: {}[name], BadInputError, "the policy failed for station '0' in the state {'load': .*KeyError"),
        (lambda *_: 1 / 0, BadInputError, "the policy failed for station '0' .*: ZeroDivisionError: division by zero"),
        (7, BadInputError, "a function of station and state, got 7"),
    ],
)
def test_policies_that_are_none_are_refused(policy: Any, error: type[Exception], sentence: str) -> None:
    trace, _ = log_of()
    with pytest.raises(error, match=sentence):
        evaluate(trace, policy, model=model_of(trace.stations))


def test_a_reward_too_large_to_be_squared_is_refused_wherever_it_is() -> None:
    trace, p = log_of()
    for row in (0, 77):
        odd = replace(trace, reward=np.where(np.arange(90) == row, 1.7e308, trace.reward))
        with pytest.raises(
            BadInputError, match=rf"the reward is 1\.7e\+308 in row {row + 1}, counted from 1, .* too large"
        ):
            evaluate(odd, {"tilt": 2}, propensity=p, model=model_of(trace.stations))


# --- The behaviour policy of the log ----------------------------------------------------------------------------


def test_frequencies_are_those_of_other_folds_smoothed_towards_the_coarser_level() -> None:
    rng = np.random.default_rng(5)
    arms, fold, station = rng.integers(0, 4, 60), rng.integers(-1, 3, 60), rng.integers(0, 3, 60)
    fine = station * 2 + rng.integers(0, 2, 60)
    levels = ((Grouping("per station", station), 8.0), (Grouping("finer", fine), 2.0))
    rows = np.flatnonzero(fold >= 0)
    found = BehaviourPolicy(arms, fold, 4, levels).of(rows, arms[rows][:, None])[:, 0]
    for place, i in enumerate(rows.tolist()):
        others = [j for j in range(60) if fold[j] != fold[i]]
        p = (sum(arms[j] == arms[i] for j in others) + 0.5) / (len(others) + 2.0)
        for group, kappa in ((station, 8.0), (fine, 2.0)):
            mine = [j for j in others if group[j] == group[i]]
            p = (sum(arms[j] == arms[i] for j in mine) + kappa * p) / (len(mine) + kappa)
        assert found[place] == pytest.approx(p)


def habits_of(arms: IntArray, station: IntArray, load: FloatArray) -> str:
    fold, n = np.arange(len(arms)) * 5 // len(arms), len(arms)
    found = behaviour_policy(arms, fold, configurations=3, station=station, state=load[:, None], names=("load",))
    assert found.of(np.arange(n), np.tile(np.arange(3), (n, 1))).sum(axis=1) == pytest.approx(1.0)
    return found.in_words()


def test_habits_are_found_where_they_are() -> None:
    rng = np.random.default_rng(6)
    station, load = np.arange(900) % 6, rng.random(900)
    usual = np.where(rng.random(900) < 0.7, station % 3, rng.integers(0, 3, 900))
    by_load = np.where(rng.random(900) < 0.7, (3 * load).astype(np.int64), rng.integers(0, 3, 900))
    assert habits_of(usual, station, load) == "per station"
    assert "third of load" in habits_of(by_load, station, load)


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        (np.zeros(90), "above 0 and not above 1, row 1 has 0"),
        (np.full(90, 33.0), "row 1 has 33"),
        (np.full(89, 0.3), "89 propensities for 90 rows"),
        (np.full(90, np.nan), "holds nan"),
        (np.full(90, 0.01), "1/propensity averages 100, .* at most 3 here"),
        (np.full((90, 3), 0.3), "add up to 0.9"),
        (np.full((90, 2), 0.5), "90 rows of 3 configurations"),
        (np.tile([1.0, 0.0, 0.0], (90, 1)), "call impossible"),
        (np.tile([1.5, -0.5, 0.0], (90, 1)), "between 0 and 1"),
    ],
)
def test_propensities_that_cannot_be_right_are_refused(values: FloatArray, sentence: str) -> None:
    trace, _ = log_of()
    with pytest.raises(BadInputError, match=sentence):
        evaluate(trace, {"tilt": 2}, propensity=values, model=model_of(trace.stations))


def test_propensities_that_leave_fewer_choices_than_were_made_are_doubted() -> None:
    trace, p = log_of()
    arms = SPACE.indices(trace.configuration)
    (doubt,) = given_propensities(np.full(90, 0.99), trace, arms).warnings
    assert "say that 1 configuration could have been chosen" in doubt
    assert "a station ran 3" in doubt
    assert given_propensities(p, trace, arms).warnings == ()


@pytest.mark.parametrize("clip", [None, 50.0])
def test_weights_that_do_not_average_one_are_doubted(clip: float | None) -> None:
    trace, p = log_of(600)
    doubtful, model = np.minimum(2.2 * p, 1.0), model_of(trace.stations)
    found = evaluate(trace, {"tilt": 2}, propensity=doubtful, model=model, clip=clip)
    assert any("the weights average" in warning for warning in found.warnings)
    good = evaluate(trace, {"tilt": 2}, propensity=p, model=model_of(trace.stations))
    assert not any("the weights average" in warning for warning in good.warnings)


# --- What was never tried ----------------------------------------------------------------------------------------


def one_sided() -> Trace:
    """Station 0 ran tilt 0 alone; the others everything but tilt 4, which only station 2 ran, in three rows."""
    trace, _ = log_of()
    tilt = np.where(trace.configuration["tilt"] == 4, 2, trace.configuration["tilt"])
    tilt[trace.station == "0"] = 0
    tilt[np.flatnonzero(trace.station == "2")[:3]] = 4
    columns = {"station": trace.station, "time": trace.time, "load": trace.state[:, 0], "tilt": tilt}
    return Trace.from_frame({**columns, "reward": trace.reward}, {"configuration": ["tilt"]})


def test_what_was_never_tried_is_named_with_its_stations_and_its_share() -> None:
    trace = one_sided()
    found = evaluate(trace, {"tilt": 4}, model=model_of(trace.stations))
    assert found.support.never == pytest.approx(2 / 3)
    assert found.support.hardly == pytest.approx(1 / 3)
    assert dict(found.support.by_station) == {"0": 1.0, "1": 1.0}
    assert found.support.by_configuration == pytest.approx({"tilt=4": 2 / 3})
    said = " ".join(found.warnings)
    assert "67% of the decisions want what the station never ran" in said
    assert "0 (100%), 1 (100%)" in said
    assert "33% of the decisions want what the station ran in fewer than 5 rows" in said
    assert "ran one configuration only" in said
    assert "model's word" in found.verdict


def test_a_policy_that_the_log_never_ran_is_not_judged_by_weights() -> None:
    trace = one_sided().with_space(ConfigurationSpace(tilt=[0, 2, 4, 6]))
    found = evaluate(trace, {"tilt": 6}, model=model_of(trace.stations))
    assert found.effective_rows == 0.0
    assert not found.by(WEIGHTS).value.known
    assert found.to_dict()["estimates"][1]["value"] == {"value": None, "low": None, "high": None}
    assert "cannot be judged" in found.verdict
    assert found.by(MODEL).value.known


def test_full_propensities_say_what_was_possible() -> None:
    wants = Choices.certain(np.array([0, 1, 1]))
    station, ran = np.array(["a", "a", "b"]), np.array([0, 0, 0])
    possible = np.array([[0.5, 0.5], [0.5, 0.5], [1.0, 0.0]])
    space = ConfigurationSpace(tilt=[0, 2])
    known = support_of(wants, station, log_station=station, ran=ran, space=space, possible=possible)
    assert known.by_station == {"b": 1.0}
    assert support_of(wants, station, log_station=station, ran=ran, space=space).never == pytest.approx(2 / 3)


def test_effective_rows_are_told_station_by_station() -> None:
    trace = one_sided()
    found = evaluate(trace, {"tilt": 2}, model=model_of(trace.stations))
    assert set(found.effective_by_station) == {"0", "1", "2"}
    assert found.effective_by_station["0"] == 0.0
    assert found.effective_by_station["1"] > 1


# --- Words -------------------------------------------------------------------------------------------------------


def verdict_of(reward: FloatArray, trace: Trace, p: FloatArray) -> Evaluation:
    columns = {"station": trace.station, "time": trace.time, "load": trace.state[:, 0]}
    columns |= {"tilt": trace.configuration["tilt"], "reward": reward}
    better = Trace.from_frame(columns, {"configuration": ["tilt"]}).with_space(SPACE)
    return evaluate(better, {"tilt": 4}, propensity=p, model=model_of(trace.stations))


def test_the_verdict_follows_the_interval() -> None:
    trace, p = log_of(300)
    noise = 0.02 * np.random.default_rng(0).normal(size=300)
    usual = evaluate(trace, "usual", propensity=p, model=model_of(trace.stations))
    assert usual.support.never == 0.0
    four = trace.configuration["tilt"] == 4
    assert "earned more" in verdict_of(0.5 + 0.3 * four + noise, trace, p).verdict
    assert "earned less" in verdict_of(0.5 - 0.3 * four + noise, trace, p).verdict
    assert "no clear difference" in verdict_of(0.5 + 20 * noise, trace, p).verdict


def test_what_was_never_tried_is_as_doubtful_as_the_model_finds_it() -> None:
    trace, _ = log_of(60, seed=7)
    encoder = trace.encoder()
    rows, model = trace.samples(encoder), model_of(trace.stations)
    wanted, usual = Choices.certain(np.full(60, 2)), Choices.certain(np.zeros(60, dtype=np.int64))
    fold, learned = np.arange(60) % 2, np.ones(60, np.bool_)

    def doubt(untried: FloatArray) -> tuple[float, float]:
        shares = untried[:, None]
        found = predict(model, rows, encoder, fold=fold, learn=learned, wanted=wanted, usual=usual, untried=shares)
        return found.variance_untried, found.variance

    nothing, everything, half = (doubt(share)[0] for share in (np.zeros(60), np.ones(60), np.full(60, 0.5)))
    assert nothing == 0.0
    assert everything == pytest.approx(doubt(np.ones(60))[1])
    assert half == pytest.approx(everything / 4)
    rng = np.random.default_rng(0)
    w, (r, m, q) = rng.exponential(size=60), rng.normal(size=(3, 60))
    plain, doubtful = (doubly_robust(w, r, m=m, q=q, variance=v).interval(np.arange(60)) for v in (0.0, everything))
    plain_reach, reach = ((one.high - one.value) / 2.0010 for one in (plain, doubtful))  # t with 59 degrees
    assert reach**2 == pytest.approx(plain_reach**2 + everything, rel=1e-4)


def test_a_contrast_without_scatter_has_no_width() -> None:
    flat = Contrast(0.4, np.zeros(3), (np.ones(3, np.bool_),)).interval(np.arange(3))
    assert (flat.low, flat.high) == (0.4, 0.4)
