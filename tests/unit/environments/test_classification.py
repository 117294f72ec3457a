"""Classes as arms: tasks are alike where they should be, exchanged where they are relabelled, and logs keep apart."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.datasets import load_digits, load_wine
from sklearn.neighbors import KNeighborsClassifier

from kinband.environments import ClassificationBandit
from kinband.environments.synthetic import Data, _rotation
from kinband.errors import BadInputError
from kinband.experiments.problems import Problem, drawn_by_seed, problem_of


def shown(bandit: ClassificationBandit, slots: int) -> tuple[np.ndarray, np.ndarray]:
    """Features and right arms of every task in every slot, (slots, M, d) and (slots, M)."""
    X, best = [], []
    for _ in range(slots):
        X.append([bandit.slot.contexts[s][0, :-1] for s in bandit.stations])
        best.append([bandit.truth(s).best for s in bandit.stations])
        bandit.play({})
    return np.array(X), np.array(best)


@pytest.mark.parametrize(("data", "size", "classes"), [("digits", 1797, 10), ("wine", 178, 3)])
def test_every_sample_of_the_data_set_is_there_with_its_class(data: Data, size: int, classes: int) -> None:
    bandit = ClassificationBandit(data)
    labels = (load_digits if data == "digits" else load_wine)(return_X_y=True)[1]
    assert (len(bandit._X), bandit.arms) == (size, classes)
    assert bandit._labels.tolist() == labels.tolist()
    assert_allclose(bandit._X.mean(axis=0), 0.0, atol=1e-9)
    assert_allclose(np.cov(bandit._X.T, bias=True), np.eye(8), atol=1e-9)  # principal components, standardised


def test_rows_of_a_slot_differ_in_the_arm_alone() -> None:
    bandit = ClassificationBandit("digits", tasks=2, seed=3)
    X = bandit.slot.contexts["t2"]
    assert (X[:, :-1] == X[0, :-1]).all()
    assert X[:, -1].tolist() == list(range(10))
    assert bandit.features[-1] == "arm"
    assert bandit.categorical == (8,)


def test_log_and_slots_show_different_samples() -> None:
    bandit = ClassificationBandit("wine", tasks=1, seed=4)
    log = bandit.log(500, np.random.default_rng(0))
    X, _ = shown(bandit, 500)
    known, seen = ({tuple(x) for x in rows.round(9)} for rows in (log.X[:, :-1], X[:, 0]))
    assert len(known) == len(seen) == 178 // 2
    assert not known & seen


def test_tasks_are_alike_unless_relabelled() -> None:
    """What one task learned from its samples tells another's classes, or tells them wrong."""
    right = {}
    for relabelled in (False, True):
        bandit = ClassificationBandit("digits", tasks=3, relabelled=relabelled, seed=5)
        X, best = shown(bandit, 900)
        model = KNeighborsClassifier(5).fit(X[:600, 0], best[:600, 0])
        right[relabelled] = [model.score(X[600:, m], best[600:, m]) for m in range(3)]
    assert min(right[False]) > 0.75
    assert right[True][2] > 0.75  # every second task is relabelled, the third is not
    assert right[True][1] < 0.1


def test_a_relabelled_task_keeps_no_class_in_place_and_loses_none() -> None:
    for seed in range(20):
        bandit = ClassificationBandit("wine", tasks=4, relabelled=True, seed=seed)
        own, exchanged, third, fourth = bandit._names.tolist()
        assert own == third == [0, 1, 2]
        assert exchanged == fourth
        assert sorted(exchanged) == own
        assert all(a != b for a, b in zip(own, exchanged, strict=True))


def test_a_view_is_a_slight_rotation() -> None:
    R = _rotation(np.random.default_rng(1), 8)
    assert_allclose(R @ R.T, np.eye(8), atol=1e-12)
    assert_allclose(np.linalg.det(R), 1.0)
    assert 0 < np.abs(R - np.eye(8)).max() < 0.5


def test_log_pays_one_for_the_right_arm_alone() -> None:
    bandit = ClassificationBandit("digits", tasks=2, relabelled=True, seed=6)
    log = bandit.log(4000, np.random.default_rng(1))
    assert set(log.y.tolist()) == {0.0, 1.0}
    assert abs(log.y.mean() - 0.1) < 4 * np.sqrt(0.1 * 0.9 / 8000)
    assert log.arms is not None
    assert (log.X[:, -1] == log.arms).all()


def test_unknown_data_is_refused() -> None:
    with pytest.raises(BadInputError, match="must be 'digits' or 'wine', got 'iris'"):
        ClassificationBandit("iris")  # type: ignore[arg-type]


def named(name: str, *, seed: int = 1) -> Problem:
    return problem_of(name, log_rows=4, seed=seed)


def test_a_case_names_data_relabelling_and_tasks() -> None:
    problem = named("classes:wine:relabelled:5")
    assert isinstance(problem.environment, ClassificationBandit)
    assert (len(problem.environment.stations), problem.environment.relabelled, len(problem.log)) == (5, True, 20)
    assert problem.scaler is None
    again, other = named("classes:wine:relabelled:5"), named("classes:wine:relabelled:5", seed=2)
    assert (again.log.X == problem.log.X).all()
    assert (other.log.X != problem.log.X).any()
    assert drawn_by_seed("classes:wine")
    with pytest.raises(BadInputError, match="classes:DATA or classes:DATA:relabelled"):
        named("classes:wine:shuffled")
