"""Other people's learners, on problems small enough to see through."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from benchmarks import peers
from benchmarks.findings import Size, decisions
from benchmarks.peer_learners import (
    BOTORCH,
    KMTL,
    KMTL_POOLED,
    LINUCB,
    SKLEARN,
    arm_similarity,
    multi_task_gp,
    one_hot,
    with_rows,
)
from benchmarks.runs import ALONE, BETAS, JOINT, Contest, Plan, case_of

from kinband.experiments.runner import run_jobs
from kinband.kernels import RBF

GCC = Contest("gcc exec, 3 tasks", "measured:gcc:exec:3", 2, 5, real=True)
WINE = Contest("wine", "classes:wine:3", 2, 10)
WITHOUT = "BoTorch is not installed: pip install 'kinband[bench]'"


def _checked(contest: Contest, learner: str, folder: Path) -> None:
    (found,) = run_jobs([peers.job_of(Plan(contest, learner, 1, (0.3,)), folder)], n_jobs=1)
    regret = found["regret"]["0.3"]
    assert len(regret) == contest.slots
    assert 0.0 <= regret[0] <= regret[-1] < math.inf
    assert found["fit_seconds"] >= 0.0 < found["play_seconds"]


@pytest.mark.parametrize("learner", [SKLEARN, LINUCB])
@pytest.mark.parametrize("contest", [GCC, WINE], ids=lambda contest: contest.name)
def test_scikit_learn_and_linucb_play_configurations_and_classes(
    contest: Contest, learner: str, tmp_path: Path
) -> None:
    _checked(contest, learner, tmp_path)


@pytest.mark.parametrize("learner", [KMTL, KMTL_POOLED])
def test_kmtl_plays_classes(learner: str, tmp_path: Path) -> None:
    _checked(WINE, learner, tmp_path)


def test_botorch_plays(tmp_path: Path) -> None:
    pytest.importorskip("botorch", reason=WITHOUT)
    _checked(replace(GCC, environment="measured:gcc:exec:2"), BOTORCH, tmp_path)


def test_new_rows_give_botorch_the_beliefs_that_conditioning_gives() -> None:
    torch = pytest.importorskip("torch", reason=WITHOUT)
    pytest.importorskip("botorch", reason=WITHOUT)
    problem = case_of(GCC, ALONE, 1, 0.1).make_problem()
    shown, log = one_hot(problem), problem.log
    more = replace(log, tasks=np.append(log.tasks, 1), X=np.vstack([log.X, log.X[:1]]), y=np.append(log.y, 3.0))
    arms = torch.tensor(np.column_stack([shown(log.X), np.full(len(log), 2)]))
    model = multi_task_gp(problem, shown)
    with torch.no_grad():
        model.posterior(arms)  # conditioning needs what predicting leaves behind
        new = torch.tensor(np.column_stack([shown(log.X[:1]), [1]]))
        theirs = model.condition_on_observations(new, torch.tensor([[3.0]], dtype=torch.double)).posterior(arms)
        ours = with_rows(model, shown(more.X), more.tasks, more.y).posterior(arms)
    assert ours.mean.numpy() == pytest.approx(theirs.mean.numpy(), abs=1e-9)
    assert ours.variance.numpy() == pytest.approx(theirs.variance.numpy(), abs=1e-9)


def test_arms_that_met_the_same_contexts_are_alike_and_one_that_met_none_stands_for_all() -> None:
    X = np.array([[0.0], [9.0], [9.0], [0.0], [30.0]])
    alike = arm_similarity(RBF(1.0), X, np.array([0, 0, 1, 1, 2]), 4)
    assert alike[0, 1] == pytest.approx(1.0)
    # With k near 1 for the same context and near 0 for others, ‖μ_0 − μ_2‖² = 1/2 + 1, and μ_3 = (2, 2, 1)/5.
    far, near = 0.5 + 1.0, 0.5 + 9 / 25 - 2 * (2 / 5)
    to_third = 1.0 + 9 / 25 - 2 / 5
    usual = np.median([0.0, far, near, far, near, to_third])
    assert alike[0, 2] == pytest.approx(np.exp(-far / (2 * usual)), abs=1e-6)
    assert alike[0, 3] == pytest.approx(np.exp(-near / (2 * usual)), abs=1e-6)


def test_categories_become_columns_of_their_own() -> None:
    problem = case_of(GCC, ALONE, 1, 0.1).make_problem()
    shown = one_hot(problem)(problem.environment.space.features)  # type: ignore[union-attr]
    assert shown.shape == (80, 4 + 5)
    assert (shown[:, 4:].sum(axis=1) == 1.0).all()


def test_problems_of_peers_have_as_many_tasks_as_asked_and_classes_stay() -> None:
    chosen = peers.peer_contests(6)
    assert [decisions(contest) for contest in chosen] == [60, 60, 60, 60, 320, 320]
    assert chosen[3].log_rows == 3


def test_without_botorch_the_others_still_play(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peers, "botorch_installed", lambda: False)
    assert peers.learners_of(GCC) == (JOINT, ALONE, SKLEARN, LINUCB)
    assert peers.measure_peers([], peers.FULL, tmp_path, workers=1) == []


def test_runs_are_kept_and_claims_are_told_against_botorch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peers, "learners_of", lambda contest: (JOINT, ALONE, LINUCB))
    size = Size((101,), (1, 2))
    (found,) = peers.measure_peers([GCC], size, tmp_path, workers=1)
    assert len(list((tmp_path / "runs").iterdir())) == 3 * 3
    assert set(found.beta.values()) <= set(BETAS)
    assert peers.peer_claims([found]) == []
    head, rows = peers.peer_table([found])
    assert head == ["problem", JOINT, ALONE, LINUCB]
    assert len(rows[0]) == 4
    with_botorch = peers.PeerFinding(
        GCC,
        dict.fromkeys((JOINT, ALONE, BOTORCH), 0.3),
        {JOINT: np.array([1.0, 1.0]), ALONE: np.array([4.0, 4.0]), BOTORCH: np.array([2.0, 2.0])},
        dict.fromkeys((JOINT, ALONE), np.array([1.0, 1.0])) | {BOTORCH: np.array([98.0, 98.0])},
        dict.fromkeys((JOINT, ALONE, BOTORCH), np.array([1.0, 1.0])),
    )
    regret, seconds = peers.peer_claims([with_botorch])
    assert (regret.measured, regret.kept) == ("0.500 (0.500 to 0.500)", True)
    assert (seconds.measured, seconds.kept) == ("50 (50 to 50)", False)
    assert peers.botorch_savings([with_botorch])["gcc exec"][BOTORCH].value == pytest.approx(0.5)
