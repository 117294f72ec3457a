"""The paper's synthetic bandit: 5 tasks and 5 arms that see projections of one hidden parameter.

In slot t a hidden u_t is drawn evenly from [0, 1]², one for all tasks. Task m shows for arm a the context
x = [u[0]·cos(π/2·(a/5 + m/10)), u[1]·sin(π/2·a/5)] and pays r = 1 − (u[0] − a/5 + 0.3 − m/10)². Arms count from 1
in these formulas, a = index + 1, and tasks from 1 as in M := {1, …, M}; stations are named by their m. Where a
test asks for other sizes, a/5 becomes a/N and m/10 becomes m/2M, so that angles and rewards keep their ranges.

The reward is not a function of the context: contexts of different arms overlap, and a context does not tell which
arm it belongs to. `SyntheticTasks.expected` is E[r | x, m] with the arm hidden. For a drawn evenly from the N arms
and c = cos(…), s = sin(…) of arm a, x is spread evenly over the rectangle c·[0, 1] × s·[0, 1] with density
1/(|c|·s), the inverse of the Jacobian of u → x. By Bayes' rule, an arm whose rectangle holds x has posterior weight
proportional to 1/(|c|·s), and it implies u[0] = x[0]/c, hence

    E[r | x, m] = Σ_a w_a·(1 − (x[0]/c_a − target_a)²) / Σ_a w_a,  w_a = 1/(|c_a|·s_a) if x is in a's rectangle, else 0,

with target_a = a/5 + m/10 − 0.3. Where a/5 + m/10 = 1 (arm 4 of task 2, arm 3 of task 4) c is zero: the rectangle
shrinks to the line x[0] = 0, which other arms meet with probability zero. Such an x gives its arm away and says
nothing about u[0], so E[r | x, m] = ∫₀¹ 1 − (u − target)² du = 1 − (1/3 − target + target²). The cosine must be
an exact zero there: in floating point it is 6e-17, and dividing by that would give u[0] away.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from kinband.arrays import BoolArray, FloatArray, IntArray
from kinband.environments.contract import Outcome, Slot, Truth, checked_arms, whole_number
from kinband.errors import NotFoundError
from kinband.records import Samples

_ROUNDING = 1e-9


@dataclass(frozen=True)
class SyntheticTasks:
    """The formulas: contexts, rewards and expected rewards of all tasks and arms.

    Attributes:
        tasks: Number of tasks, M.
        arms: Number of arms, N.
        first_task: The m of the first task; the others follow one by one.

    Example:
        >>> formulas = SyntheticTasks()
        >>> u = np.array([0.2, 0.5])
        >>> formulas.contexts(u).shape, formulas.rewards(u).shape
        ((5, 5, 2), (5, 5))
        >>> formulas.rewards(u)[0].round(2).tolist()  # task m = 1, arms a = 1 … 5
        [0.96, 1.0, 0.96, 0.84, 0.64]
    """

    tasks: int = 5
    arms: int = 5
    first_task: int = 1

    def __post_init__(self) -> None:
        whole_number(self.tasks, name="tasks", least=1)
        whole_number(self.arms, name="arms", least=1)
        whole_number(self.first_task, name="first_task", least=0)

    @cached_property
    def numbers(self) -> IntArray:
        """The m of each task, (M,)."""
        return self.first_task + np.arange(self.tasks)

    @cached_property
    def cosines(self) -> FloatArray:
        """What u[0] is multiplied by, c = cos(π/2·(a/N + m/2M)), (M, N)."""
        parts = 2 * self.tasks * np.arange(1, self.arms + 1) + self.arms * self.numbers[:, None]
        whole = 2 * self.tasks * self.arms
        # a/N + m/2M = parts/whole in integers, so that a right angle is seen as one.
        return np.where(parts % (2 * whole) == whole, 0.0, np.cos(np.pi / 2 * parts / whole))

    @cached_property
    def sines(self) -> FloatArray:
        """What u[1] is multiplied by, s = sin(π/2·a/N), (N,)."""
        return np.sin(np.pi / 2 * np.arange(1, self.arms + 1) / self.arms)

    @cached_property
    def targets(self) -> FloatArray:
        """The u[0] at which an arm pays 1, a/N + m/2M − 0.3, (M, N)."""
        return np.arange(1, self.arms + 1) / self.arms + self.numbers[:, None] / (2 * self.tasks) - 0.3

    @property
    def reward_range(self) -> tuple[float, float]:
        """The smallest and the largest reward over u[0] in [0, 1]; from −0.44 to 1 with the paper's sizes."""
        farthest = np.maximum(np.abs(self.targets), np.abs(1 - self.targets)).max()
        nearest = np.abs(self.targets - self.targets.clip(0, 1)).min()
        return float(1 - farthest**2), float(1 - nearest**2)

    def contexts(self, u: FloatArray) -> FloatArray:
        """Return the contexts of all tasks and arms for hidden parameters u (..., 2), (..., M, N, 2)."""
        u = u[..., None, None, :]
        first, second = np.broadcast_arrays(u[..., 0] * self.cosines, u[..., 1] * self.sines)
        return np.stack([first, second], axis=-1)

    def rewards(self, u: FloatArray) -> FloatArray:
        """Return the rewards of all tasks and arms for hidden parameters u (..., 2), (..., M, N)."""
        rewards: FloatArray = 1 - (u[..., None, None, 0] - self.targets) ** 2
        return rewards

    def expected(self, X: FloatArray, task: int, *, arm: IntArray | None = None) -> FloatArray:
        """Return E[r | x, m] of contexts X (..., 2), (...); nan where no arm of the task can show such a context.

        Args:
            X: Contexts, (..., 2).
            task: Index of the task, from 0.
            arm: Index of each context's arm where it is known, (...); hidden if None.

        Example:
            >>> formulas = SyntheticTasks()
            >>> x = formulas.contexts(np.array([0.2, 0.5]))[0, 3]
            >>> hidden, known = formulas.expected(x, 0), formulas.expected(x, 0, arm=np.array(3))
            >>> print(f"{hidden:.3f} {known:.3f}")
            0.879 0.840
        """
        target, right_angle = self.targets[task], self.cosines[task] == 0
        divisor = np.where(right_angle, 1.0, self.cosines[task])
        u0, u1 = X[..., 0, None] / divisor, X[..., 1, None] / self.sines
        possible = np.where(right_angle, u0 == 0, _in_unit(u0)) & _in_unit(u1)
        if arm is not None:
            possible &= np.arange(self.arms) == arm[..., None]
        # On the line x[0] = 0 all other arms together have probability zero.
        on_line = (possible & right_angle).any(axis=-1, keepdims=True)
        weight = (possible & (right_angle | ~on_line)) / (np.abs(divisor) * self.sines)
        reward = np.where(right_angle, 1 - (1 / 3 - target + target**2), 1 - (u0 - target) ** 2)
        total = weight.sum(axis=-1)
        nowhere = np.full(total.shape, np.nan)
        expected: FloatArray = np.divide((weight * reward).sum(axis=-1), total, out=nowhere, where=total > 0)
        return expected


class SyntheticBandit:
    """The synthetic bandit as an environment; contexts and rewards do not depend on what was played.

    Args:
        tasks: Number of stations, M.
        arms: Number of arms, N.
        first_task: The m of the first station.
        arm_feature: Whether contexts have a third column, a/N: telling which arm it is makes the reward a function
            of the context, except at right angles.
        seed: As if `reset(seed)` had been called.

    Example:
        >>> bandit = SyntheticBandit(seed=7)
        >>> bandit.stations, bandit.features, bandit.slot.contexts["1"].shape
        (('1', '2', '3', '4', '5'), ('x0', 'x1'), (5, 2))
        >>> truth = bandit.truth("1")
        >>> outcome = bandit.play({"1": truth.best})["1"]
        >>> outcome.reward == float(truth.rewards[truth.best]), truth.pseudo_regret(truth.best)
        (True, 0.0)
    """

    exogenous = True
    space = None
    categorical: tuple[int, ...] = ()

    def __init__(
        self, tasks: int = 5, arms: int = 5, *, first_task: int = 1, arm_feature: bool = False, seed: int = 0
    ) -> None:
        self.formulas = SyntheticTasks(tasks, arms, first_task)
        self.stations = tuple(str(m) for m in self.formulas.numbers)
        self.arms = arms
        self.arm_feature = arm_feature
        self.features = ("x0", "x1", "arm") if arm_feature else ("x0", "x1")
        self.reward_range = self.formulas.reward_range
        self.reset(seed)

    @property
    def slot(self) -> Slot:
        """What the present slot shows."""
        return self._slot

    def reset(self, seed: int) -> Slot:
        """Go to the first slot of the trajectory that belongs to the seed, and show it."""
        self._rng = np.random.default_rng(whole_number(seed, name="seed", least=0))
        self._show(0)
        return self._slot

    def play(self, arms: Mapping[str, int]) -> dict[str, Outcome]:
        """Pay each station in `arms` for its arm, then move on to the next slot."""
        played = checked_arms(arms, stations=self.stations, count=self.arms)
        outcomes = {s: Outcome(float(self._rewards[self.stations.index(s), arm])) for s, arm in played.items()}
        self._show(self._slot.number + 1)
        return outcomes

    def truth(self, station: str) -> Truth:
        """Return what only a referee may know of the station in the present slot; ask before playing."""
        if station not in self.stations:
            raise NotFoundError(f"there is no station {station!r} here: the stations are {', '.join(self.stations)}")
        task = self.stations.index(station)
        arm = np.arange(self.arms) if self.arm_feature else None
        expected = self.formulas.expected(self._slot.contexts[station], task, arm=arm)
        return Truth(self._rewards[task], expected)

    def log(self, rows_per_station: int, rng: np.random.Generator) -> Samples:
        """Return a log of as many slots, all stations in each, with arms drawn evenly; slots are its own.

        Example:
            >>> log = SyntheticBandit().log(50, np.random.default_rng(0))
            >>> len(log), log.tasks[:6].tolist(), log.X.shape
            (250, [0, 1, 2, 3, 4, 0], (250, 2))
        """
        n, M = whole_number(rows_per_station, name="rows_per_station", least=1), len(self.stations)
        u, arms = rng.random((n, 2)), rng.integers(self.arms, size=(n, M))
        slots, tasks = np.repeat(np.arange(n), M), np.tile(np.arange(M), n)
        rows = (slots, tasks, arms.ravel())
        X, y = self._contexts(u)[rows], self.formulas.rewards(u)[rows]
        return Samples(self.stations, tasks, X, y, None, self.features, arms=arms.ravel())

    def _show(self, number: int) -> None:
        u = self._rng.random(2)
        contexts, self._rewards = self._contexts(u), self.formulas.rewards(u)
        for shown in (contexts, self._rewards):
            shown.setflags(write=False)
        self._slot = Slot(number, dict(zip(self.stations, contexts, strict=True)))

    def _contexts(self, u: FloatArray) -> FloatArray:
        """Return the contexts of all stations and arms for u (..., 2), (..., M, N, 2) or, with the arm, (..., 3)."""
        X = self.formulas.contexts(u)
        if not self.arm_feature:
            return X
        arm = np.broadcast_to(np.arange(1, self.arms + 1) / self.arms, X.shape[:-1])
        return np.concatenate([X, arm[..., None]], axis=-1)


def _in_unit(values: FloatArray) -> BoolArray:
    inside: BoolArray = (values >= -_ROUNDING) & (values <= 1 + _ROUNDING)
    return inside
