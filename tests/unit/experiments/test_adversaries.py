"""Problems that punish sharing: they are what their names say, and nothing else."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

from kinband.environments import DrawnBandit
from kinband.environments.synthetic import groups
from kinband.errors import BadInputError
from kinband.experiments.problems import problem_of
from kinband.experiments.runner import Case, Learner
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
    K_Z = groups([1, 1, -1], similarity=0.8)
    values = functions(K_Z, draws=1500, seed=11)
    assert_allclose(np.corrcoef(values.T), K_Z, atol=0.08)
    assert_allclose(values.std(axis=0), 0.3, rtol=0.08)


def test_a_similarity_that_no_functions_can_have_is_refused() -> None:
    with pytest.raises(BadInputError, match="positive semidefinite"):
        DrawnBandit([[1.0, 0.9, -0.9], [0.9, 1.0, 0.9], [-0.9, 0.9, 1.0]])


def test_every_second_sector_of_the_opposed_city_has_its_thresholds_mirrored() -> None:
    problem = problem_of("city:opposed", log_rows=4, seed=1)
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
        problem = problem_of(name, log_rows=3, seed=2)
        assert problem.similarity_log is not None
        assert (problem.similarity_log.tasks != problem.log.tasks).all()
        assert_allclose(problem.similarity_log.y, problem.log.y, rtol=0)


def test_a_table_without_runs_is_refused(tmp_path) -> None:  # type: ignore[no-untyped-def]
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"task": [1, 2]}), tmp_path / "x.parquet")
    with pytest.raises(BadInputError, match=r"docs/extend\.md"):
        problem_of(f"runs:{tmp_path / 'x.parquet'}", log_rows=3, seed=1)


@pytest.mark.parametrize("log_rows", [3, 5])
def test_the_log_of_a_table_of_runs_has_as_many_rows_as_asked_for(log_rows: int, tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(6)
    columns = {"task": np.repeat([1, 2], 60), "run": np.tile(np.repeat(np.arange(6), 10), 2), "epoch_ms": range(120)}
    columns |= {"s_load": rng.random(120), "c_prb0": rng.integers(1, 4, 120), "c_sched0": rng.integers(0, 2, 120)}
    pq.write_table(pa.table(columns | {"r_qos": rng.random(120)}), tmp_path / "runs.parquet")
    problem = problem_of(f"runs:{tmp_path / 'runs.parquet'}", log_rows=log_rows, seed=1)
    assert np.bincount(problem.log.tasks).tolist() == [log_rows, log_rows]


def test_logs_drawn_with_the_seed_have_models_of_their_own_and_others_share_theirs() -> None:
    case = Case("drawn:alike", Learner("a", "pooled"), 5, 1)
    assert case.model_key != replace(case, seed=2).model_key
    city = replace(case, problem="city:opposed")
    assert city.model_key == replace(city, seed=2).model_key
    assert len(case.make_problem().log) == 20 * 20
