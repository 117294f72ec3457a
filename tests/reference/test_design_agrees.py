"""Trial plans against brute force: every candidate tried by inverting the whole matrix anew."""

from itertools import product
from typing import Any

import numpy as np
import pytest

from kinband import ConfigurationSpace, Controller
from kinband.contexts import StateScaler
from kinband.kernels import RBF
from kinband.planning import Present
from kinband.planning.design import TrialPlan, design_trials
from kinband.records import Samples

STATIONS = tuple("abcdef")
VALUES = (0, 2, 4, 6)
MIXED = 0.4 * np.eye(6) + 0.6
GROUPS = np.kron(np.eye(2), 0.3 * np.eye(3) + 0.7) * np.outer(*2 * [np.linspace(0.8, 1.2, 6)])


class World:
    """A log in which every station ran one setting, its kernel and its posterior from the textbook."""

    def __init__(self, seed: int, K_Z: Any) -> None:
        rng = np.random.default_rng(seed)
        self.K_Z, self.scale, self.v = K_Z, rng.uniform(0.6, 2.0, 2), rng.uniform(0.1, 2.0)
        self.noise, self.periods = rng.uniform(0.02, 0.4), int(rng.integers(2, 6))
        self.ran = rng.integers(0, 4, 6)
        self.tasks = np.repeat(np.arange(6), rng.integers(2, 8, 6))
        self.load = rng.random(len(self.tasks))
        self.space, self.scaler = ConfigurationSpace(tilt=VALUES), StateScaler.from_ranges({"load": (0.0, 1.0)})
        self.y = rng.normal(size=len(self.tasks))
        self.usual = {m: float(np.median(self.load[self.tasks == m])) for m in range(6)}

    def x(self, load: Any, arm: Any) -> Any:
        load, arm = np.broadcast_arrays(load, arm)
        return np.column_stack([self.scaler.transform(load[:, None]), self.space.features[arm]])

    def controller(self) -> Controller:
        X = self.x(self.load, self.ran[self.tasks])
        log = Samples(STATIONS, self.tasks, X, self.y, None, ("load", "tilt"))
        kernel = RBF(self.scale.tolist(), variance=self.v)
        return Controller(
            self.space, STATIONS, state=self.scaler, similarity=self.K_Z, kernel=kernel, noise=self.noise, log=log
        )

    def present(self) -> dict[str, Present]:
        return {
            name: Present({"load": self.usual[m]}, {"tilt": VALUES[self.ran[m]]}) for m, name in enumerate(STATIONS)
        }

    def k(self, tasks: Any, X: Any, others: Any, Y: Any) -> Any:
        distance = (((X[:, None] - Y[None]) / self.scale) ** 2).sum(axis=2)
        return self.K_Z[np.ix_(tasks, others)] * self.v * np.exp(-0.5 * distance)

    def variances(self, tasks: list[int], X: list[Any]) -> dict[tuple[int, int], float]:
        """Variance of f_m(a) − f_m(a₀) for every station and other setting, once further rows are told."""
        told, rows = [*self.tasks, *tasks], np.vstack([self.x(self.load, self.ran[self.tasks]), *X])
        inverse = np.linalg.inv(self.k(told, rows, told, rows) + self.noise * np.eye(len(told)))
        found = {}
        for m, a in product(range(6), range(4)):
            if a != self.ran[m]:
                pair = self.x(self.usual[m], [a, self.ran[m]])
                cross = self.k([m, m], pair, told, rows)
                C = self.k([m, m], pair, [m, m], pair) - cross @ inverse @ cross.T
                found[m, a] = C[0, 0] + C[1, 1] - 2 * C[0, 1]
        return found

    def greedy(self, stations: int, settings: int) -> list[tuple[int, int]]:
        """The trials of which each leaves the smallest sum of variances, in the usual states."""
        chosen: list[tuple[int, int]] = []
        while len(chosen) < stations * settings:
            tried = {m for m, _ in chosen}
            options = [
                one
                for one in self.variances([], [])
                if one not in chosen
                and sum(m == one[0] for m, _ in chosen) < settings
                and (one[0] in tried or len(tried) < stations)
            ]
            chosen.append(min(options, key=lambda one: sum(self.left([*chosen, one]).values())))
        return chosen

    def left(self, trials: list[tuple[int, int]]) -> dict[tuple[int, int], float]:
        rows = [(m, self.x(np.full(self.periods, self.usual[m]), a)) for m, a in trials]
        return self.variances([m for m, _ in rows for _ in range(self.periods)], [X for _, X in rows])


def trials_of(plan: TrialPlan) -> list[tuple[int, int]]:
    return [(STATIONS.index(one.station), VALUES.index(one.setting["tilt"])) for one in plan.trials]


@pytest.mark.parametrize("K_Z", [MIXED, GROUPS], ids=["one group", "two groups"])
@pytest.mark.parametrize("seed", range(4))
def test_every_trial_is_the_one_that_brute_force_finds(seed: int, K_Z: Any) -> None:
    world = World(seed, K_Z)
    plan = design_trials(world.controller(), world.present(), stations=2, settings=2, periods=world.periods)
    assert trials_of(plan) == world.greedy(2, 2)


@pytest.mark.parametrize("K_Z", [MIXED, GROUPS], ids=["one group", "two groups"])
@pytest.mark.parametrize("seed", range(4))
def test_what_is_known_before_and_after_is_that_of_the_rows_told(seed: int, K_Z: Any) -> None:
    world = World(seed, K_Z)
    plan = design_trials(world.controller(), world.present(), stations=3, settings=1, periods=world.periods)
    tasks, X = [], []
    for m, arm in trials_of(plan):
        own = world.load[world.tasks == m]
        states = own[np.linspace(0, len(own) - 1, world.periods).round().astype(int)]
        tasks += [m] * world.periods
        X.append(world.x(states, arm))
    for place, known in enumerate((world.variances([], []), world.variances(tasks, X))):
        for m, name in enumerate(STATIONS):
            own = [v for (task, _), v in known.items() if task == m]
            assert plan.widths[name][place] == pytest.approx(np.sqrt(np.mean(own)), rel=1e-6)
        stated = (plan.before, plan.after)[place]
        assert stated == pytest.approx(np.sqrt(np.mean(list(known.values()))), rel=1e-6)
