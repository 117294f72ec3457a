"""The formulas of the synthetic bandit and of the two-task regression, by hand."""

import math
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.datasets import load_digits, load_wine
from sklearn.neighbors import KNeighborsClassifier

from kinband.arrays import FloatArray
from kinband.environments import ClassificationBandit, SyntheticBandit, SyntheticTasks, Truth, TwoTaskRegression
from kinband.environments.synthetic import Data, _rotation
from kinband.errors import BadInputError, NotPositiveDefiniteError
from kinband.experiments.problems import Problem, drawn_by_seed, problem_of
from kinband.kernels import RBF


def printed_context(u: FloatArray, a: int, m: int) -> list[float]:
    """The context as the paper prints it, with a and m counted from 1."""
    return [u[0] * math.cos(math.pi / 2 * (a / 5 + m / 10)), u[1] * math.sin(math.pi / 2 * a / 5)]


def printed_reward(u0: float, a: int, m: int) -> float:
    return float(1 - (u0 - a / 5 + 0.3 - m / 10) ** 2)


def test_contexts_and_rewards_are_the_printed_ones() -> None:
    u = np.random.default_rng(11).random((20, 2))
    X, r = SyntheticTasks().contexts(u), SyntheticTasks().rewards(u)
    assert X.shape == (20, 5, 5, 2)
    for t in range(20):
        for m in range(1, 6):
            for a in range(1, 6):
                np.testing.assert_allclose(X[t, m - 1, a - 1], printed_context(u[t], a, m), atol=1e-15)
                assert r[t, m - 1, a - 1] == pytest.approx(printed_reward(u[t, 0], a, m), abs=1e-15)


def test_tasks_are_numbered_from_one_and_can_be_numbered_from_zero() -> None:
    u = np.array([0.4, 0.9])
    assert SyntheticBandit().stations == ("1", "2", "3", "4", "5")
    from_zero = SyntheticTasks(first_task=0)
    assert from_zero.rewards(u)[0, 2] == pytest.approx(printed_reward(0.4, 3, 0))
    np.testing.assert_array_equal(from_zero.rewards(u)[1:], SyntheticTasks().rewards(u)[:4])
    assert SyntheticBandit(first_task=0).stations[0] == "0"


def test_only_right_angles_have_a_cosine_of_zero() -> None:
    zeros = np.argwhere(SyntheticTasks().cosines == 0) + 1
    assert zeros.tolist() == [[2, 4], [4, 3]]  # (m, a) with a/5 + m/10 = 1
    assert (SyntheticTasks(first_task=0).cosines == 0)[0].tolist() == [False] * 4 + [True]  # m = 0, a = 5


def test_reward_range_runs_from_arm_5_of_task_5_at_zero_to_one() -> None:
    low, high = SyntheticTasks().reward_range
    assert low == pytest.approx(1 - (0 - 1 + 0.3 - 0.5) ** 2)
    assert low == pytest.approx(-0.44)
    assert high == 1.0


def test_reward_range_stays_below_one_where_no_arm_can_reach_it() -> None:
    # One arm, task m = 2 of one: the reward is 1 at u[0] = 1 + 1 − 0.3 = 1.7, outside [0, 1].
    assert SyntheticTasks(1, 1, 2).reward_range == pytest.approx((1 - 1.7**2, 1 - 0.7**2))


def test_expected_reward_mixes_the_arms_that_could_have_shown_the_context() -> None:
    # Task m = 1, context of arm 4 at u = (0.2, 0.5). Arm 1 cannot reach x[1], arm 5 has the other sign of x[0].
    x = np.array(printed_context(np.array([0.2, 0.5]), 4, 1))
    assert x[1] > math.sin(math.pi / 2 / 5)
    assert math.cos(math.pi / 2 * 1.1) < 0
    total = weights = 0.0
    for a in (2, 3, 4):
        c, s = math.cos(math.pi / 2 * (a / 5 + 0.1)), math.sin(math.pi / 2 * a / 5)
        assert 0 <= x[0] / c <= 1
        assert 0 <= x[1] / s <= 1
        weights += 1 / (c * s)
        total += printed_reward(x[0] / c, a, 1) / (c * s)
    assert SyntheticTasks().expected(x, 0) == pytest.approx(total / weights, abs=1e-12)


def test_context_on_the_line_tells_its_arm_but_nothing_of_the_hidden_parameter() -> None:
    # Arm 4 of task 2: x[0] = 0 and E[r] = ∫ 1 − (u − 0.7)² du = 1 − (0.3³ + 0.7³)/3.
    u = np.array([[0.1, 0.6], [0.9, 0.2]])
    x = SyntheticTasks().contexts(u)[:, 1, 3]
    assert x[:, 0].tolist() == [0.0, 0.0]
    np.testing.assert_allclose(SyntheticTasks().expected(x, 1), 1 - (0.3**3 + 0.7**3) / 3, rtol=1e-12)


def test_context_that_only_one_arm_reaches_gives_its_reward() -> None:
    # Task 1: only arm 5 has a negative cosine, so a negative x[0] is arm 5's.
    u = np.array([0.35, 0.8])
    x = SyntheticTasks().contexts(u)[0, 4]
    assert x[0] < 0
    assert SyntheticTasks().expected(x, 0) == pytest.approx(printed_reward(0.35, 5, 1), abs=1e-12)


def test_corners_of_the_square_keep_their_own_arm_in_spite_of_rounding() -> None:
    formulas = SyntheticTasks()
    corners = np.array([[1.0, 1.0], [np.nextafter(1.0, 0.0), 1.0], [1.0, 0.0]])
    X = formulas.contexts(corners)
    for task in range(5):
        assert np.isfinite(formulas.expected(X[:, task], task)).all()


def test_impossible_context_has_no_expected_reward() -> None:
    formulas = SyntheticTasks()
    expected = formulas.expected(np.array([[1.5, 0.2], [0.2, -0.1], [-0.9, 0.2], [0.2, 0.2]]), 0)
    assert np.isnan(expected).tolist() == [True, True, True, False]


def test_expected_reward_of_a_known_arm_is_its_reward_except_at_right_angles() -> None:
    formulas = SyntheticTasks()
    u = np.random.default_rng(3).random((50, 2))
    X, r = formulas.contexts(u), formulas.rewards(u)
    arm = np.broadcast_to(np.arange(5), (50, 5))
    for task in range(5):
        gap = np.abs(formulas.expected(X[:, task], task, arm=arm) - r[:, task])
        blind = formulas.cosines[task] == 0
        assert gap[:, ~blind].max() < 1e-9
        assert (gap[:, blind] > 1e-3).any(axis=0).all()


def test_arm_feature_adds_a_column_and_changes_nothing_else() -> None:
    plain, told = SyntheticBandit(seed=5), SyntheticBandit(seed=5, arm_feature=True)
    for station in plain.stations:
        X = told.slot.contexts[station]
        np.testing.assert_array_equal(X[:, :2], plain.slot.contexts[station])
        np.testing.assert_allclose(X[:, 2], [0.2, 0.4, 0.6, 0.8, 1.0])
        np.testing.assert_array_equal(told.truth(station).rewards, plain.truth(station).rewards)
    assert told.features == ("x0", "x1", "arm")


def test_one_hidden_parameter_is_shared_by_all_stations_of_a_slot() -> None:
    bandit = SyntheticBandit(seed=8)
    # Arm 1 of tasks 1 and 5 have cosines far from zero: both must imply the same u.
    implied = [
        bandit.slot.contexts[str(m)][0] / printed_context(np.ones(2), 1, m)  # row a = 1
        for m in (1, 5)
    ]
    np.testing.assert_allclose(implied[0], implied[1], rtol=1e-12)


def test_log_has_every_station_in_every_slot_and_pays_the_printed_reward() -> None:
    log = SyntheticBandit(arm_feature=True).log(40, np.random.default_rng(2))
    assert np.bincount(log.tasks).tolist() == [40] * 5
    arms = np.rint(log.X[:, 2] * 5).astype(int)
    hidden = np.full(len(log), np.nan)
    for row in range(len(log)):
        m, a = int(log.tasks[row]) + 1, int(arms[row])
        if (m, a) not in ((2, 4), (4, 3)):
            hidden[row] = log.X[row, 0] / printed_context(np.ones(2), a, m)[0]
            assert log.y[row] == pytest.approx(printed_reward(hidden[row], a, m), abs=1e-9)
    slots = hidden.reshape(40, 5)
    assert np.nanmax(np.nanmax(slots, axis=1) - np.nanmin(slots, axis=1)) < 1e-9
    assert set(arms) == {1, 2, 3, 4, 5}


def test_three_regrets_by_hand() -> None:
    truth = Truth(rewards=np.array([0.25, 1.0, 0.5]), expected=np.array([0.5, 0.75, 0.875]))
    assert truth.best == 2
    assert [truth.realised_regret(arm) for arm in range(3)] == [0.75, 0.0, 0.5]
    assert [truth.defined_regret(arm) for arm in range(3)] == [0.25, -0.5, 0.0]
    assert [truth.pseudo_regret(arm) for arm in range(3)] == [0.375, 0.125, 0.0]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"tasks": 0}, "tasks must be a whole number of at least 1, got 0"),
        ({"arms": 2.5}, r"arms must be a whole number of at least 1, got 2\.5"),
        ({"first_task": -1}, "first_task must be"),
        ({"seed": -3}, "seed must be"),
        ({"seed": True}, "seed must be"),
    ],
)
def test_bandit_refuses_bad_arguments(arguments: dict[str, Any], complaint: str) -> None:
    with pytest.raises(BadInputError, match=complaint):
        SyntheticBandit(**arguments)


def test_covariance_of_shared_points_is_the_kronecker_product() -> None:
    problem = TwoTaskRegression(similarity=-0.35, points=7, length_scale=0.23, noise=0.17, training=2)
    X = problem.draw(np.random.default_rng(4)).X
    K_X = RBF(0.23)(X[:7], X[:7])
    expected = np.kron([[1, -0.35], [-0.35, 1]], K_X) + 0.17 * np.eye(14)
    np.testing.assert_allclose(problem.covariance(X), expected, atol=1e-14)


def test_covariance_of_two_sets_is_the_hadamard_product() -> None:
    problem = TwoTaskRegression(similarity=0.6, points=5, length_scale=0.4, noise=0.3, training=2, shared_points=False)
    X = problem.draw(np.random.default_rng(6)).X
    assert len(np.unique(X, axis=0)) == 10
    K_Z = np.kron([[1, 0.6], [0.6, 1]], np.ones((5, 5)))
    np.testing.assert_allclose(problem.covariance(X), K_Z * RBF(0.4)(X, X) + 0.3 * np.eye(10), atol=1e-14)


def test_training_and_test_rows_divide_each_task() -> None:
    rng = np.random.default_rng(12)
    problem = TwoTaskRegression(points=20, training=6)
    for draw in problem.draws(10, rng):
        assert sorted([*draw.train, *draw.test]) == list(range(40))
        assert draw.tasks[draw.train].tolist() == [0] * 6 + [1] * 6
        assert draw.tasks[draw.test].tolist() == [0] * 14 + [1] * 14


def test_training_points_are_separate_or_common_as_asked() -> None:
    separate = TwoTaskRegression().draw(np.random.default_rng(1)).train
    common = TwoTaskRegression(common_training=True).draw(np.random.default_rng(1)).train
    assert set(separate[:5]) != set(separate[5:] - 100)
    np.testing.assert_array_equal(common[:5], common[5:] - 100)


def test_draws_keep_or_renew_points_and_training_sets_as_asked() -> None:
    problem = TwoTaskRegression(points=30)
    kept, renewed = (list(problem.draws(2, np.random.default_rng(3), fresh_points=fresh)) for fresh in (False, True))
    fixed = list(problem.draws(2, np.random.default_rng(3), fresh_training=False))
    assert np.array_equal(kept[0].X, kept[1].X)
    assert not np.array_equal(renewed[0].X, renewed[1].X)
    assert not np.array_equal(kept[0].train, kept[1].train)
    assert np.array_equal(fixed[0].train, fixed[1].train)
    assert not np.array_equal(fixed[0].y, fixed[1].y)


def test_same_generator_gives_the_same_draw() -> None:
    first, second = (TwoTaskRegression().draw(np.random.default_rng(9)) for _ in range(2))
    for name in ("X", "tasks", "y", "train", "test"):
        np.testing.assert_array_equal(getattr(first, name), getattr(second, name))


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"similarity": 1.2}, r"between -1 and 1, got 1\.2"),
        ({"noise": 0.0}, "noise must be above zero"),
        ({"length_scale": -1.0}, "length_scale must be above zero"),
        ({"points": 5, "training": 5}, "5 training points out of 5 leave none"),
        ({"training": 0}, "training must be a whole number of at least 1"),
    ],
)
def test_regression_refuses_bad_arguments(arguments: dict[str, Any], complaint: str) -> None:
    with pytest.raises(BadInputError, match=complaint):
        TwoTaskRegression(**arguments)


def test_too_little_noise_is_an_error_that_names_the_remedy() -> None:
    with pytest.raises(NotPositiveDefiniteError, match="raise the noise"):
        TwoTaskRegression(noise=1e-25).draw(np.random.default_rng(0))


# --- Classes as arms: tasks are alike where they should be, exchanged where they are relabelled, and logs keep apart


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
