"""Which changes come first, against brute force: every candidate's rows told anew, by inverting the whole matrix."""

from typing import Any

import numpy as np
import pytest

from kinband import ConfigurationSpace
from kinband.contexts import ContextEncoder, StateScaler
from kinband.kernels import RBF
from kinband.likelihood import Shocks
from kinband.planning import LeftAlone, Period, Present
from kinband.planning.evidence import EvidenceRows, GroupPosterior
from kinband.planning.making import Group
from kinband.planning.waves import lessons, teaching_order

STATIONS = tuple("abcdef")
VALUES = (0, 2, 4, 6)
CHOSEN = tuple("ecba")  # d and f are left alone, and learn all the same


class World:
    """A log of six stations, a change looked at for each, and the textbook's posterior of period means."""

    def __init__(self, seed: int) -> None:
        rng = np.random.default_rng(seed)
        W = rng.normal(size=(6, 2))
        self.K_Z = W @ W.T + np.diag(rng.uniform(0.1, 0.6, 6))
        self.scale, self.v = rng.uniform(0.6, 2.0, 2), float(rng.uniform(0.1, 2.0))
        self.noise, self.spell = float(rng.uniform(0.02, 0.4)), float(rng.uniform(0.0, 0.1))
        self.space = ConfigurationSpace(tilt=VALUES)
        self.tasks = np.repeat(np.arange(6), rng.integers(1, 6, 6))
        self.X = self.x(rng.random(len(self.tasks)), rng.integers(0, 4, len(self.tasks)))
        self.load = [rng.random(int(rng.integers(1, 8))) for _ in STATIONS]
        self.moves = [tuple(rng.choice(4, 2, replace=False).tolist()) for _ in STATIONS]  # present, proposed

    def x(self, load: Any, arm: Any) -> Any:
        load, arm = np.broadcast_arrays(load, arm)
        return np.column_stack([load, self.space.features[arm]])

    def k(self, tasks: Any, X: Any, others: Any, Y: Any) -> Any:
        distance = (((X[:, None] - Y[None]) / self.scale) ** 2).sum(axis=2)
        return self.K_Z[np.ix_(tasks, others)] * self.v * np.exp(-0.5 * distance)

    def order(self) -> list[str]:
        """Each time the change after whose rows what the others gain is best known."""
        made: list[int] = []
        while len(made) < len(CHOSEN):
            options = [STATIONS.index(name) for name in CHOSEN if STATIONS.index(name) not in made]
            made.append(max(options, key=lambda j: self.learned(made, j)))
        return [STATIONS[j] for j in made]

    def learned(self, made: list[int], j: int) -> float:
        others = [m for m in range(6) if m not in (*made, j)]
        return float(sum(self.unknown(made, m) - self.unknown([*made, j], m) for m in others))

    def unknown(self, made: list[int], m: int) -> float:
        """Variance of what station m gains once the log, and the mean of the rows of some changes, are told."""
        tasks: list[int] = self.tasks.tolist()
        X = [self.X]
        A = [np.eye(len(tasks))]  # each mean told as a sum of rows
        noise = [self.noise] * len(tasks)
        for j in made:
            rows = len(self.load[j])
            tasks += [j] * rows
            X.append(self.x(self.load[j], self.moves[j][1]))
            A.append(np.full((1, rows), 1 / rows))
            noise.append(self.noise / rows + self.spell)
        told = np.zeros((sum(len(a) for a in A), len(tasks)))
        r = c = 0
        for a in A:
            told[r : r + a.shape[0], c : c + a.shape[1]] = a
            r, c = r + a.shape[0], c + a.shape[1]
        rows = len(self.load[m])
        points = np.vstack([self.x(self.load[m], self.moves[m][1]), self.x(self.load[m], self.moves[m][0])])
        w = np.repeat([1 / rows, -1 / rows], rows)
        all_X = np.vstack(X)
        cross = w @ self.k([m] * 2 * rows, points, tasks, all_X) @ told.T
        whole = told @ self.k(tasks, all_X, tasks, all_X) @ told.T + np.diag(noise)
        prior = w @ self.k([m] * 2 * rows, points, [m] * 2 * rows, points) @ w
        return float(prior - cross @ np.linalg.inv(whole) @ cross)

    def group(self) -> Group:
        n = len(self.tasks)
        rows = EvidenceRows(self.tasks, self.X, np.zeros(n), np.full(n, self.noise), np.ones(n, dtype=np.int64))
        kernel = RBF(self.scale.tolist(), variance=self.v)
        evidence = GroupPosterior(kernel, self.K_Z, rows, shocks=Shocks(spell=self.spell))
        return Group.of(ContextEncoder(StateScaler.identity(["load"]), self.space), STATIONS, evidence)

    def looked(self) -> tuple[list[LeftAlone], dict[str, Present]]:
        settings = [{"tilt": value} for value in VALUES]
        found = [
            LeftAlone(name, settings[a], "gain not certain", "", settings[b])
            for name, (a, b) in zip(STATIONS, self.moves, strict=True)
        ]
        now = {
            name: Present({}, settings[a], Period(load[:, None]))
            for name, (a, _), load in zip(STATIONS, self.moves, self.load, strict=True)
        }
        return found, now


@pytest.mark.parametrize("seed", range(12))
def test_every_change_is_the_one_that_brute_force_finds(seed: int) -> None:
    world = World(seed)
    known = lessons(world.group(), *world.looked())
    assert teaching_order([known], CHOSEN) == world.order()


@pytest.mark.parametrize("seed", range(4))
def test_what_is_unknown_of_a_gain_is_that_of_the_textbook(seed: int) -> None:
    world = World(seed)
    known = lessons(world.group(), *world.looked())
    n = len(known.stations)
    D = np.hstack([np.eye(n), -np.eye(n)])
    expected = [world.unknown([], m) for m in range(6)]
    assert known.stations == STATIONS
    assert np.diagonal(D @ known.C @ D.T) == pytest.approx(expected, rel=1e-7)
