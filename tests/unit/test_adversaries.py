"""Problems that punish sharing: they are what their names say, and the experiment counts as it claims."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from kinband.environments import DrawnBandit
from kinband.environments.drawn import groups
from kinband.errors import BadInputError
from kinband.experiments.metrics import ratio_of, share_kept_of
from kinband.experiments.play.adversaries import adversary_of
from kinband.experiments.play.cases import Case, Learner
from kinband.experiments.play.problems import problem_of
from kinband.experiments.play.runs import Curve
from kinband.experiments.studies.sharing import (
    ADAPTIVE,
    ALONE,
    AS_ONE,
    EMBEDDING,
    Contest,
    chosen_betas,
    finding,
    learners,
)
from kinband.trace import Trace


def functions(K_Z: object, *, draws: int, seed: int) -> np.ndarray:
    """Values of f at one context of every station, (draws, M), over many seeds."""
    bandit = DrawnBandit(K_Z, spread=0.3)  # type: ignore[arg-type]
    X = np.array([[0.3, 0.6, 0.5]])
    found = []
    for one in range(draws):
        bandit.reset(seed + one)
        found.append(bandit._values(X)[0])
    return np.array(found)


def test_stations_are_drawn_as_alike_as_the_matrix_says() -> None:
    K_Z = groups([1, 1, -1], likeness=0.8)
    values = functions(K_Z, draws=1500, seed=11)
    assert_allclose(np.corrcoef(values.T), K_Z, atol=0.08)
    assert_allclose(values.std(axis=0), 0.3, rtol=0.08)


def test_a_seed_draws_the_same_functions_slots_and_rewards_again() -> None:
    first, second = DrawnBandit(np.eye(3), seed=5), DrawnBandit(np.eye(3), seed=9)
    second.reset(5)
    assert_allclose(first.slot.contexts["s02"], second.slot.contexts["s02"], rtol=0)
    assert first.play({"s01": 3}) == second.play({"s01": 3})


def test_a_likeness_that_no_functions_can_have_is_refused() -> None:
    with pytest.raises(BadInputError, match="positive semidefinite"):
        DrawnBandit([[1.0, 0.9, -0.9], [0.9, 1.0, 0.9], [-0.9, 0.9, 1.0]])


def test_every_second_sector_of_the_opposed_city_has_its_thresholds_mirrored() -> None:
    problem = adversary_of("city:opposed", log_rows=4, seed=1)
    assert problem is not None
    plain = Trace.bundled()
    space = plain.space()
    low, high = min(space.knobs["handover_threshold_dbm"]), max(space.knobs["handover_threshold_dbm"])
    for place in (0, 1):
        station = problem.environment.stations[place]
        own = np.flatnonzero(plain.station == station)
        own = own[np.argsort(plain.time[own], kind="stable")[:4]]  # type: ignore[index]
        ran = plain.configuration["handover_threshold_dbm"][own]
        rows = np.flatnonzero(problem.log.tasks == place)
        wanted = low + high - ran if place == 0 else ran
        assert problem.log.arms is not None
        assert sorted(space[int(arm)]["handover_threshold_dbm"] for arm in problem.log.arms[rows]) == sorted(wanted)


def test_permuted_problems_show_a_log_in_which_no_station_bears_its_own_name() -> None:
    for name in ("city:permuted", "drawn:permuted"):
        problem = adversary_of(name, log_rows=3, seed=2)
        assert problem is not None
        assert problem.likeness is not None
        assert (problem.likeness.tasks != problem.log.tasks).all()
        assert_allclose(problem.likeness.y, problem.log.y, rtol=0)


def test_problems_of_other_names_are_left_to_others() -> None:
    assert adversary_of("bundled", log_rows=3, seed=1) is None
    assert adversary_of("drawn:nonsense", log_rows=3, seed=1) is None


def test_a_table_without_runs_is_refused(tmp_path) -> None:  # type: ignore[no-untyped-def]
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"task": [1, 2]}), tmp_path / "x.parquet")
    with pytest.raises(BadInputError, match=r"docs/coloran\.md"):
        adversary_of(f"runs:{tmp_path / 'x.parquet'}", log_rows=3, seed=1)


def test_logs_drawn_with_the_seed_have_models_of_their_own_and_others_share_theirs() -> None:
    case = Case("sharing", "fair", "drawn:alike", Learner("a", "pooled"), "parallel", 5, 1)
    assert case.model_key != replace(case, seed=2).model_key
    city = replace(case, environment="city:opposed")
    assert city.model_key == replace(city, seed=2).model_key
    assert len(problem_of(case).log) == 20 * 20


def curve(name: str, seed: int, regret: float, beta: float = 1.0) -> Curve:
    learner = next(one for one in learners(contest()) if one.name == name and one.beta == beta)
    case = Case("sharing", "fair", "drawn:alike", learner, "parallel", 5, seed, start=True)
    ends = np.array([regret])
    return Curve(case, np.array([5]), 2 * ends, ends, ends, 0.1)


def contest() -> Contest:
    return Contest("drawn alike", "drawn:alike", "parallel", 5, realised=True)


def test_the_adaptive_learner_is_held_against_the_better_of_alone_and_as_one() -> None:
    rng = np.random.default_rng(3)
    regrets = {
        name: rng.uniform(low, low + 2, 6) for name, low in ((ALONE, 10), (AS_ONE, 6), (EMBEDDING, 4), (ADAPTIVE, 5))
    }
    curves = [curve(name, seed, regrets[name][seed]) for name in regrets for seed in range(6)]
    found = finding(contest(), curves, {})
    assert found.better == AS_ONE
    assert found.worse == ratio_of(regrets[ADAPTIVE], regrets[AS_ONE])
    assert found.realised == found.worse  # twice both
    assert found.kept == share_kept_of(regrets[ADAPTIVE], regrets[ALONE], best=regrets[EMBEDDING])
    assert found.saved.value == pytest.approx(1 - regrets[ADAPTIVE].sum() / regrets[ALONE].sum())


def test_where_no_fixed_sharing_helps_there_is_nothing_to_keep() -> None:
    worse = {ALONE: 3.0, AS_ONE: 9.0, EMBEDDING: 4.0, ADAPTIVE: 3.0}
    curves = [curve(name, seed, regret + seed) for name, regret in worse.items() for seed in range(3)]
    assert finding(contest(), curves, {}).kept is None


def test_every_learner_gets_the_weight_that_was_best_for_it() -> None:
    better = {ALONE: 0.3, AS_ONE: 1.0, EMBEDDING: 0.3, ADAPTIVE: 1.0}
    curves = [
        curve(name, seed, 2.0 if beta == better[name] else 3.0, beta)
        for name in better
        for beta in (0.3, 1.0)
        for seed in range(2)
    ]
    assert chosen_betas(curves) == better


def test_the_share_kept_is_the_quotient_of_savings_in_every_resample() -> None:
    rng = np.random.default_rng(8)
    ours, alone, best = rng.uniform(4, 5, 7), rng.uniform(9, 10, 7), rng.uniform(2, 3, 7)
    found = share_kept_of(ours, alone, best=best)
    assert found.value == pytest.approx((alone.sum() - ours.sum()) / (alone.sum() - best.sum()))
    draws = [rng.integers(7, size=7) for _ in range(4000)]
    resampled = [(alone[d].sum() - ours[d].sum()) / (alone[d].sum() - best[d].sum()) for d in draws]
    assert [found.low, found.high] == pytest.approx(np.quantile(resampled, [0.025, 0.975]), abs=0.01)
