"""Data sets of scikit-learn as multi-task bandits: a sample is shown, arms are classes, and the right one pays 1.

Authors of multi-task bandits use such problems (Deshmukh et al. 2017), and everybody has the data. In every slot each
task is shown one sample. Tasks are *alike*: each sees the samples through a slight rotation and stretch of its own, so
that the same arms are right in about the same places. With `relabelled`, every second task also has its classes
exchanged by one permutation that leaves none in place: two groups, each alike within, that must not share.

A context row is the sample's features followed by the code of the arm, a category. A kernel that multiplies an RBF of
the features with a Categorical of the arm learns one function an arm, "is this sample mine?", which is what
`kinband.kernels.default_kernel` gives. Features are the first principal components of the standardised columns,
standardised themselves.

One half of the samples, drawn by the seed, is what logs are made of; the other half is shown in slots.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Literal

import numpy as np

from kinband.arrays import FloatArray, IntArray
from kinband.environments.contract import Outcome, Slot, Truth, checked_arms, whole_number
from kinband.errors import BadInputError, NotFoundError
from kinband.records import Samples

Data = Literal["digits", "wine"]

_COMPONENTS = 8
_TURN, _STRETCH = 0.1, 0.1  # standard deviations of a task's rotation, in radians, and of its stretch, in logarithms


class ClassificationBandit:
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

    exogenous = True
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

    @property
    def slot(self) -> Slot:
        """What the present slot shows."""
        return self._slot

    def reset(self, seed: int) -> Slot:
        """Draw the tasks that belong to the seed, and show their first slot."""
        whole = whole_number(seed, name="seed", least=0)
        self._draw(np.random.default_rng([whole, 0]))
        self._rng = np.random.default_rng([whole, 1])
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
        rewards = self._rewards[self.stations.index(station)]
        return Truth(rewards, rewards)

    def log(self, rows_per_station: int, rng: np.random.Generator) -> Samples:
        """Return a log with arms drawn evenly, stations in turn, of samples that no slot shows.

        Example:
            >>> log = ClassificationBandit("wine").log(5, np.random.default_rng(0))
            >>> len(log), log.categorical, sorted(set(log.y.tolist()))
            (40, (8,), [0.0, 1.0])
        """
        n, M = whole_number(rows_per_station, name="rows_per_station", least=1), len(self.stations)
        tasks, arms = np.tile(np.arange(M), n), rng.integers(self.arms, size=n * M)
        samples = rng.choice(self._for_logs, n * M)
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
        self._rewards = (self._right(tasks, samples)[:, None] == arm).astype(np.float64)
        contexts = [np.column_stack([np.tile(x, (self.arms, 1)), arm]) for x in self._seen(tasks, samples)]
        for shown in (*contexts, self._rewards):
            shown.setflags(write=False)
        self._slot = Slot(number, dict(zip(self.stations, contexts, strict=True)))


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
