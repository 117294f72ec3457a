"""Drawn problems with a known truth: the paper's regression and bandit, functions as alike as asked, classes."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from kinband.arrays import BoolArray, FloatArray, IntArray, finite_array, finite_number, positive_number
from kinband.environments.contract import Exogenous, Truth, whole_number
from kinband.errors import BadInputError, NotPositiveDefiniteError
from kinband.records import Samples

# --- Two-task regression: how the similarity used in training decides the error (the paper's first synthetic study)
#
# Rewards of two tasks are drawn from one Gaussian process, y ~ N(0, K_Z ⊗ K_X + noise·I), with a known similarity
# off the diagonal of K_Z. Whoever trains (9) on a few points of each task with some other similarity should do worse:
# for any fixed points, the posterior mean under the true covariance has the smallest expected squared error there is,
# so the expected curve of error against training similarity has its minimum at the true one.
#
# What the paper leaves open is an argument here. The printed Kronecker product needs one set of x for both tasks (the
# default); with two sets the covariance is the Hadamard product K_Z[t_i, t_j]·k(x_i, x_j), of which the Kronecker
# product is the special case. Training points are drawn separately for each task, or common to both. The paper samples
# y 100 times for one set of x; `draws` does so, with a fresh training set each time, and can be told otherwise.


@dataclass(frozen=True, eq=False)
class RegressionDraw:
    """One sampled data set of both tasks: P rows of task 0, then P rows of task 1.

    Attributes:
        X: Points, (2P, 2).
        tasks: Task of each row, 0 or 1, (2P,).
        y: Rewards, noise included, (2P,).
        train: Rows to learn from, first those of task 0, then those of task 1, (2n,).
        test: All other rows, ascending, (2P − 2n,).

    Example:
        >>> draw = TwoTaskRegression().draw(np.random.default_rng(0))
        >>> draw.X.shape, draw.y.shape, draw.train.shape, draw.test.shape
        ((200, 2), (200,), (10,), (190,))
    """

    X: FloatArray
    tasks: IntArray
    y: FloatArray
    train: IntArray
    test: IntArray


@dataclass(frozen=True)
class TwoTaskRegression:
    """Two tasks of known similarity, sampled from one Gaussian process; the defaults are the paper's.

    Attributes:
        similarity: True similarity of the tasks, −1 to 1.
        points: Points per task, P.
        length_scale: Length-scale ℓ of the kernel exp(−‖x − x′‖²/2ℓ²).
        noise: Variance of the noise on y.
        training: Training points per task, n.
        shared_points: One set of x for both tasks (Kronecker, as printed), or one set each (Hadamard).
        common_training: The same training points in both tasks, or drawn separately. Points common to both need
            not be the same x: with one set of x each, the row numbers are common.

    Example:
        >>> tasks = TwoTaskRegression(similarity=0.8, training=3)
        >>> draw = tasks.draw(np.random.default_rng(0))
        >>> draw.tasks[draw.train].tolist()
        [0, 0, 0, 1, 1, 1]
        >>> bool((draw.X[:100] == draw.X[100:]).all())
        True
    """

    similarity: float = 0.8
    points: int = 100
    length_scale: float = 0.5
    noise: float = 0.05
    training: int = 5
    shared_points: bool = True
    common_training: bool = False

    def __post_init__(self) -> None:
        if not -1 <= finite_number(self.similarity, name="similarity") <= 1:
            raise BadInputError(f"similarity must lie between -1 and 1, got {self.similarity:g}")
        positive_number(self.length_scale, name="length_scale")
        positive_number(self.noise, name="noise")
        whole_number(self.training, name="training", least=1)
        whole_number(self.points, name="points", least=2)
        if self.training >= self.points:
            raise BadInputError(
                f"{self.training} training points out of {self.points} leave none to test: train on fewer"
            )

    @property
    def K_Z(self) -> FloatArray:
        """The true task matrix, (2, 2)."""
        return np.array([[1.0, self.similarity], [self.similarity, 1.0]])

    @property
    def tasks(self) -> IntArray:
        """Task of each row, (2P,)."""
        return np.repeat(np.arange(2), self.points)

    def draw(self, rng: np.random.Generator) -> RegressionDraw:
        """Draw points, rewards and a training set."""
        return next(self.draws(1, rng))

    def draws(
        self, count: int, rng: np.random.Generator, *, fresh_points: bool = False, fresh_training: bool = True
    ) -> Iterator[RegressionDraw]:
        """Yield `count` draws of the rewards; points cost a Cholesky factor and stay unless told otherwise.

        Args:
            count: How many draws.
            rng: Where points, rewards and training sets come from.
            fresh_points: Draw new x each time; the paper samples y many times for one set of x.
            fresh_training: Draw new training sets each time.

        Example:
            >>> first, second = TwoTaskRegression().draws(2, np.random.default_rng(0))
            >>> first.X is second.X, bool((first.y == second.y).any())
            (True, False)
        """
        whole_number(count, name="count", least=0)
        for number in range(count):
            if fresh_points or not number:
                X = self._points(rng)
                L = self._factor(X)
            if fresh_training or not number:
                train = self._training(rng)
            y = L @ rng.standard_normal(len(X))
            test = np.delete(np.arange(len(X)), train)
            yield RegressionDraw(X, self.tasks, y, train, test)

    def covariance(self, X: FloatArray) -> FloatArray:
        """Return K_Z[t_i, t_j]·k(x_i, x_j) + noise·I of points X (2P, 2), (2P, 2P)."""
        d2 = sum(np.subtract.outer(x, x) ** 2 for x in X.T)
        K_X = np.exp(-d2 / (2 * self.length_scale**2))
        covariance: FloatArray = self.K_Z[np.ix_(self.tasks, self.tasks)] * K_X + self.noise * np.eye(len(X))
        return covariance

    def _points(self, rng: np.random.Generator) -> FloatArray:
        if self.shared_points:
            return np.tile(rng.random((self.points, 2)), (2, 1))
        return rng.random((2 * self.points, 2))

    def _training(self, rng: np.random.Generator) -> IntArray:
        first = rng.choice(self.points, self.training, replace=False)
        second = first if self.common_training else rng.choice(self.points, self.training, replace=False)
        return np.concatenate([first, self.points + second])

    def _factor(self, X: FloatArray) -> FloatArray:
        try:
            return np.asarray(np.linalg.cholesky(self.covariance(X)), dtype=np.float64)
        except np.linalg.LinAlgError as error:
            raise NotPositiveDefiniteError(
                f"the covariance of {len(X)} rewards is singular to machine precision: "
                f"raise the noise above {self.noise:g}, or draw fewer points"
            ) from error


# --- The paper's synthetic bandit: 5 tasks and 5 arms that see projections of one hidden parameter ------------------
#
# In slot t a hidden u_t is drawn evenly from [0, 1]², one for all tasks. Task m shows for arm a the context
# x = [u[0]·cos(π/2·(a/5 + m/10)), u[1]·sin(π/2·a/5)] and pays r = 1 − (u[0] − a/5 + 0.3 − m/10)². Arms count from 1
# in these formulas, a = index + 1, and tasks from 1 as in M := {1, …, M}; stations are named by their m. Where a
# test asks for other sizes, a/5 becomes a/N and m/10 becomes m/2M, so that angles and rewards keep their ranges.
#
# The reward is not a function of the context: contexts of different arms overlap, and a context does not tell which
# arm it belongs to. `SyntheticTasks.expected` is E[r | x, m] with the arm hidden. For a drawn evenly from the N arms
# and c = cos(…), s = sin(…) of arm a, x is spread evenly over the rectangle c·[0, 1] × s·[0, 1] with density
# 1/(|c|·s), the inverse of the Jacobian of u → x. By Bayes' rule, an arm whose rectangle holds x has posterior weight
# proportional to 1/(|c|·s), and it implies u[0] = x[0]/c, hence
#
#     E[r | x, m] = Σ_a w_a·(1 − (x[0]/c_a − target_a)²) / Σ_a w_a,
#     w_a = 1/(|c_a|·s_a) if x is in a's rectangle, else 0,
#
# with target_a = a/5 + m/10 − 0.3. Where a/5 + m/10 = 1 (arm 4 of task 2, arm 3 of task 4) c is zero: the rectangle
# shrinks to the line x[0] = 0, which other arms meet with probability zero. Such an x gives its arm away and says
# nothing about u[0], so E[r | x, m] = ∫₀¹ 1 − (u − target)² du = 1 − (1/3 − target + target²). The cosine must be
# an exact zero there: in floating point it is 6e-17, and dividing by that would give u[0] away.

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


class SyntheticBandit(Exogenous):
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

    context_range = (-1.0, 1.0)
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

    def _truth(self, task: int) -> Truth:
        arm = np.arange(self.arms) if self.arm_feature else None
        shown = self._slot.contexts[self.stations[task]]
        return Truth(self._rewards[task], self.formulas.expected(shown, task, arm=arm))

    def log(self, rows_per_station: int, rng: np.random.Generator) -> Samples:
        """Return a log of as many slots, all stations in each, with arms drawn evenly; slots are its own."""
        n, M = whole_number(rows_per_station, name="rows_per_station", least=1), len(self.stations)
        u, arms = rng.random((n, 2)), rng.integers(self.arms, size=(n, M))
        slots, tasks = np.repeat(np.arange(n), M), np.tile(np.arange(M), n)
        rows = (slots, tasks, arms.ravel())
        X, y = self._contexts(u)[rows], self.formulas.rewards(u)[rows]
        return Samples(self.stations, tasks, X, y, None, self.features, arms=arms.ravel())

    def _show(self, number: int) -> None:
        u = self._rng.random(2)
        contexts, self._rewards = self._contexts(u), self.formulas.rewards(u)
        self._present(number, list(contexts))

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


# --- Stations whose rewards are drawn as alike as you say: a bandit from the model itself ---------------------------
#
# f̃ is drawn from a Gaussian process with the product kernel K_Z ⊗ RBF, through random Fourier features (Rahimi and
# Recht 2007): stations are as alike as K_Z says, opposed where it is negative, unrelated where it is zero. So a
# learner's idea of who is like whom can be right or wrong in a known way, which no trace allows. Every seed draws
# other functions.

_FEATURES = 200  # random features of one function


class DrawnBandit(Exogenous):
    """Stations with two state features and one knob, whose rewards are drawn with a given similarity.

    Args:
        K_Z: How alike they are, (M, M), positive semidefinite.
        arms: Number of settings of the knob.
        length_scale: Of the kernel, in a state and a knob that run from 0 to 1.
        spread: Standard deviation of f around one half.
        noise: Variance of a reward around f.
        seed: As if `reset(seed)` had been called.

    Example:
        >>> bandit = DrawnBandit([[1.0, -1.0], [-1.0, 1.0]], arms=4, seed=3)
        >>> bandit.stations, bandit.slot.contexts["s01"].shape
        (('s01', 's02'), (4, 3))
        >>> truth = bandit.truth("s02")
        >>> bandit.play({"s02": truth.best})["s02"].reward == float(truth.rewards[truth.best])
        True
    """

    context_range = (0.0, 1.0)
    space = None
    categorical: tuple[int, ...] = ()
    features = ("u", "v", "knob")
    reward_range = (-np.inf, np.inf)

    def __init__(
        self,
        K_Z: ArrayLike,
        *,
        arms: int = 10,
        length_scale: float = 0.4,
        spread: float = 0.2,
        noise: float = 0.01,
        seed: int = 0,
    ) -> None:
        matrix = finite_array(K_Z, name="K_Z", ndim=2)
        values, vectors = np.linalg.eigh(matrix)
        if not np.allclose(matrix, matrix.T) or values.min() < -1e-9:
            raise BadInputError("K_Z must be symmetric and positive semidefinite: no functions are so alike otherwise")
        self._root = vectors * np.sqrt(np.maximum(values, 0.0))
        self.stations = tuple(f"s{m:02d}" for m in range(1, len(matrix) + 1))
        self.arms = whole_number(arms, name="arms", least=2)
        self._length_scale, self._spread, self._noise = length_scale, spread, noise
        self.reset(seed)

    def _begin(self, seed: int) -> None:
        self._draw(np.random.default_rng([seed, 0]))
        self._rng = np.random.default_rng([seed, 1])

    def log(self, rows_per_station: int, rng: np.random.Generator) -> Samples:
        """Return a log of the functions in force, arms drawn evenly, stations in turn; slots are its own."""
        tasks, arms = _random_arms(self, rows_per_station, rng)
        X = np.column_stack([rng.random((len(arms), 2)), arms / (self.arms - 1)])
        f = self._values(X)[np.arange(len(arms)), tasks]
        y = f + np.sqrt(self._noise) * rng.standard_normal(len(arms))
        return Samples(self.stations, tasks, X, y, None, self.features, arms=arms)

    def _draw(self, rng: np.random.Generator) -> None:
        M = len(self.stations)
        self._W = rng.standard_normal((len(self.features), _FEATURES)) / self._length_scale
        self._b = rng.uniform(0.0, 2.0 * np.pi, _FEATURES)
        self._theta = self._root @ rng.standard_normal((M, _FEATURES))

    def _values(self, X: FloatArray) -> FloatArray:
        """Return f of every station at contexts X (n, 3), (n, M)."""
        phi = np.sqrt(2.0 / _FEATURES) * np.cos(X @ self._W + self._b)
        f: FloatArray = 0.5 + self._spread * phi @ self._theta.T
        return f

    def _show(self, number: int) -> None:
        M = len(self.stations)
        states = self._rng.random((M, 2))
        knob = np.arange(self.arms) / (self.arms - 1)
        contexts = [np.column_stack([np.tile(state, (self.arms, 1)), knob]) for state in states]
        self._expected = np.array([self._values(X)[:, m] for m, X in enumerate(contexts)])
        self._rewards = self._expected + np.sqrt(self._noise) * self._rng.standard_normal((M, self.arms))
        self._expected.setflags(write=False)
        self._present(number, contexts)


def _random_arms(bandit: Exogenous, rows_per_station: int, rng: np.random.Generator) -> tuple[IntArray, IntArray]:
    """Tasks in turn, so many rows of each, and arms drawn evenly, (n,) each."""
    n, M = whole_number(rows_per_station, name="rows_per_station", least=1), len(bandit.stations)
    return np.tile(np.arange(M), n), rng.integers(bandit.arms, size=n * M)


def groups(signs: Sequence[int], *, similarity: float) -> FloatArray:
    """Return the similarity of stations that want the same or the opposite, (M, M)."""
    signed = np.asarray(signs, dtype=np.float64)
    K_Z: FloatArray = similarity * np.outer(signed, signed)
    np.fill_diagonal(K_Z, 1.0)
    return K_Z


# --- Data sets of scikit-learn: a sample is shown, arms are classes, and the right one pays 1 -----------------------
#
# Authors of multi-task bandits use such problems (Deshmukh et al. 2017), and everybody has the data. In every slot each
# task is shown one sample. Tasks are *alike*: each sees the samples through a slight rotation and stretch of its own,
# so that the same arms are right in about the same places. With `relabelled`, every second task also has its classes
# exchanged by one permutation that leaves none in place: two groups, each alike within, that must not share.
#
# A context row is the sample's features followed by the code of the arm, a category. A kernel that multiplies an RBF of
# the features with a Categorical of the arm learns one function an arm, "is this sample mine?", which is what
# `kinband.kernels.default_kernel` gives. Features are the first principal components of the standardised columns,
# standardised themselves.
#
# One half of the samples, drawn by the seed, is what logs are made of; the other half is shown in slots.

Data = Literal["digits", "wine"]

_COMPONENTS = 8
_TURN, _STRETCH = 0.1, 0.1  # standard deviations of a task's rotation, in radians, and of its stretch, in logarithms


class ClassificationBandit(Exogenous):
    """A data set as a bandit of several tasks; what is played changes nothing.

    Args:
        data: "digits" (10 classes, 1,797 images) or "wine" (3 classes, 178 wines).
        tasks: Number of tasks.
        relabelled: Whether every second task has its classes exchanged.
        seed: As if `reset(seed)` had been called.

    Example:
        >>> bandit = ClassificationBandit("wine", tasks=4, seed=2)
        >>> bandit.stations, bandit.arms, bandit.slot.contexts["t1"].shape
        (('t1', 't2', 't3', 't4'), 3, (3, 9))
        >>> truth = bandit.truth("t2")
        >>> bandit.play({"t2": truth.best})["t2"].reward, sorted(truth.rewards.tolist())
        (1.0, [0.0, 0.0, 1.0])
    """

    space = None
    reward_range = (0.0, 1.0)

    def __init__(self, data: Data = "digits", *, tasks: int = 8, relabelled: bool = False, seed: int = 0) -> None:
        if data not in ("digits", "wine"):
            raise BadInputError(f"data must be 'digits' or 'wine', got {data!r}")
        self.stations = tuple(f"t{m}" for m in range(1, whole_number(tasks, name="tasks", least=1) + 1))
        self.relabelled = relabelled
        self._X, self._labels = _components(data)
        self.arms = int(self._labels.max()) + 1
        self.features = (*(f"pc{number}" for number in range(1, self._X.shape[1] + 1)), "arm")
        self.categorical = (self._X.shape[1],)
        self.reset(seed)

    def _begin(self, seed: int) -> None:
        self._draw(np.random.default_rng([seed, 0]))
        self._rng = np.random.default_rng([seed, 1])

    def log(self, rows_per_station: int, rng: np.random.Generator) -> Samples:
        """Return a log with arms drawn evenly, stations in turn, of samples that no slot shows."""
        tasks, arms = _random_arms(self, rows_per_station, rng)
        samples = rng.choice(self._for_logs, len(arms))
        X = np.column_stack([self._seen(tasks, samples), arms])
        y = (self._right(tasks, samples) == arms).astype(np.float64)
        return Samples(self.stations, tasks, X, y, None, self.features, self.categorical, arms=arms)

    def _draw(self, rng: np.random.Generator) -> None:
        """Draw what each task does to samples and classes, and which samples are for logs."""
        M, d = len(self.stations), self._X.shape[1]
        order = rng.permutation(len(self._X))
        self._for_logs, self._for_slots = np.split(order, [len(order) // 2])
        self._views = np.array([_rotation(rng, d) * np.exp(_STRETCH * rng.standard_normal(d)) for _ in range(M)])
        names = rng.permutation(self.arms)
        exchanged = np.empty_like(names)
        exchanged[names] = np.roll(names, 1)
        own = np.arange(self.arms)
        self._names = np.array([exchanged if self.relabelled and m % 2 else own for m in range(M)])

    def _seen(self, tasks: IntArray, samples: IntArray) -> FloatArray:
        """Features of samples as tasks see them, (n, d)."""
        return np.asarray(np.einsum("nd,nde->ne", self._X[samples], self._views[tasks]), dtype=np.float64)

    def _right(self, tasks: IntArray, samples: IntArray) -> IntArray:
        """The right arm of each sample, (n,)."""
        right: IntArray = self._names[tasks, self._labels[samples]]
        return right

    def _show(self, number: int) -> None:
        tasks = np.arange(len(self.stations))
        samples = self._rng.choice(self._for_slots, len(tasks))
        arm = np.arange(self.arms)
        self._expected = self._rewards = (self._right(tasks, samples)[:, None] == arm).astype(np.float64)
        contexts = [np.column_stack([np.tile(x, (self.arms, 1)), arm]) for x in self._seen(tasks, samples)]
        self._present(number, contexts)


@lru_cache(maxsize=2)
def _components(data: Data) -> tuple[FloatArray, IntArray]:
    """The first principal components of a data set, (n, d), and the class of each sample, (n,)."""
    from sklearn.datasets import load_digits, load_wine

    X, labels = (load_digits if data == "digits" else load_wine)(return_X_y=True)
    X = X[:, X.std(axis=0) > 0]
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    left, sizes, _ = np.linalg.svd(X, full_matrices=False)
    kept = (left * sizes)[:, :_COMPONENTS]
    return kept / kept.std(axis=0), labels.astype(np.int64)


def _rotation(rng: np.random.Generator, d: int) -> FloatArray:
    """A slight rotation of d axes, (d, d): the Cayley transform of a small skew-symmetric matrix."""
    A = np.triu(rng.normal(scale=_TURN / 2, size=(d, d)), 1)
    skew = A - A.T
    return np.asarray(np.linalg.solve(np.eye(d) + skew, np.eye(d) - skew), dtype=np.float64)
