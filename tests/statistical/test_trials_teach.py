"""Designed trials, made in worlds whose truth is known: widths are as stated, and plans made afterwards earn more."""

import numpy as np

from kinband import ConfigurationSpace, Controller
from kinband.arrays import FloatArray, IntArray
from kinband.kernels import RBF
from kinband.planning import Change, Present, beliefs_of, plan_changes
from kinband.planning.design import design_trials
from kinband.records import Samples

SPACE = ConfigurationSpace(tilt=[0, 2, 4, 6, 8])
STATIONS = tuple(f"s{m}" for m in range(20))
ALIKE = 0.3 * np.eye(20) + 0.7
KERNEL, NOISE, PERIODS, WORLDS = RBF(1.0, variance=0.04), 0.01, 6, 40


def errors(controller: Controller, task: int, f: FloatArray, ran: int) -> FloatArray:
    """By how much the differences to what a station ran are mistaken, (4,)."""
    mean = beliefs_of(controller).predict(np.full(5, task), SPACE.features).mean
    return np.delete((mean - mean[ran]) - (f - f[ran]), ran)


def truly(change: Change, f: FloatArray) -> float:
    """What a change really gains."""
    own = f[STATIONS.index(change.station)]
    return float(own[SPACE.index(change.proposed)] - own[SPACE.index(change.present)])


def controller(tasks: IntArray, arms: IntArray, y: FloatArray) -> Controller:
    log = Samples(STATIONS, tasks, SPACE.features[arms], y, None, ("tilt",))
    return Controller(SPACE, STATIONS, similarity=ALIKE, kernel=KERNEL, noise=NOISE, log=log)


def test_widths_are_as_stated_and_plans_after_trials_earn_more_than_plans_without() -> None:
    rng = np.random.default_rng(7)
    tasks, arms = np.repeat(np.arange(20), 5), np.tile(np.arange(5), 20)
    K = ALIKE[np.ix_(tasks, tasks)] * KERNEL(SPACE.features[arms], SPACE.features[arms])
    root = np.linalg.cholesky(K + 1e-9 * np.eye(100))
    squares, gains = [], []
    for _ in range(WORLDS):
        f, ran = (root @ rng.standard_normal(100)).reshape(20, 5), rng.integers(1, 4, 20)
        told = np.repeat(np.arange(20), 10), np.repeat(ran, 10)
        y = f[told] + np.sqrt(NOISE) * rng.standard_normal(200)
        now = {name: Present({}, SPACE[int(ran[m])]) for m, name in enumerate(STATIONS)}

        before = controller(*told, y)
        design = design_trials(before, now, periods=PERIODS, stations=4)
        who = np.repeat([STATIONS.index(one.station) for one in design.trials], PERIODS)
        what = np.repeat([SPACE.index(one.setting) for one in design.trials], PERIODS)
        seen = f[who, what] + np.sqrt(NOISE) * rng.standard_normal(len(who))
        after = controller(np.append(told[0], who), np.append(told[1], what), np.append(y, seen))
        error, stated = [], []
        for m, name in enumerate(STATIONS):
            error.append(errors(after, m, f[m], int(ran[m])))
            stated.append(design.widths[name][1])
        squares.append(np.mean(np.square(error)) / np.mean(np.square(stated)))
        earned = [sum(truly(one, f) for one in plan_changes(c, now).changes) for c in (before, after)]
        gains.append(earned[1] - earned[0])
    # Worlds are independent: the mean ratio of squared errors to stated variances is 1 within three standard errors.
    assert abs(np.mean(squares) - 1.0) < 3 * np.std(squares, ddof=1) / np.sqrt(WORLDS)
    assert np.mean(gains) > 3 * np.std(gains, ddof=1) / np.sqrt(WORLDS)
