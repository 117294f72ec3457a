"""Stations whose rewards are drawn as alike as you say: a bandit from the model itself.

f̃ is drawn from a Gaussian process with the product kernel K_Z ⊗ RBF, through random Fourier features (Rahimi and Recht
2007): stations are as alike as K_Z says, opposed where it is negative, unrelated where it is zero. So a learner's idea
of who is like whom can be right or wrong in a known way, which no trace allows. Every seed draws other functions.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike

from kinband.arrays import FloatArray, finite_array
from kinband.environments.contract import Outcome, Slot, Truth, checked_arms, whole_number
from kinband.errors import BadInputError, NotFoundError
from kinband.records import Samples

_FEATURES = 200  # random features of one function


class DrawnBandit:
    """Stations with two state features and one knob, whose rewards are drawn with a given likeness.

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

    exogenous = True
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

    @property
    def slot(self) -> Slot:
        """What the present slot shows."""
        return self._slot

    def reset(self, seed: int) -> Slot:
        """Draw the functions that belong to the seed, and show their first slot."""
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
        task = self.stations.index(station)
        return Truth(self._rewards[task], self._expected[task])

    def log(self, rows_per_station: int, rng: np.random.Generator) -> Samples:
        """Return a log of the functions in force, arms drawn evenly, stations in turn; slots are its own.

        Example:
            >>> len(DrawnBandit(np.eye(3)).log(5, np.random.default_rng(0)))
            15
        """
        n, M = whole_number(rows_per_station, name="rows_per_station", least=1), len(self.stations)
        tasks, arms = np.tile(np.arange(M), n), rng.integers(self.arms, size=n * M)
        X = np.column_stack([rng.random((n * M, 2)), arms / (self.arms - 1)])
        f = self._values(X)[np.arange(n * M), tasks]
        y = f + np.sqrt(self._noise) * rng.standard_normal(n * M)
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
        for shown in (*contexts, self._expected, self._rewards):
            shown.setflags(write=False)
        self._slot = Slot(number, dict(zip(self.stations, contexts, strict=True)))


def groups(signs: Sequence[int], *, likeness: float) -> FloatArray:
    """Return the likeness of stations that want the same or the opposite, (M, M).

    Example:
        >>> groups([1, 1, -1], likeness=0.8).tolist()
        [[1.0, 0.8, -0.8], [0.8, 1.0, -0.8], [-0.8, -0.8, 1.0]]
    """
    signed = np.asarray(signs, dtype=np.float64)
    K_Z: FloatArray = likeness * np.outer(signed, signed)
    np.fill_diagonal(K_Z, 1.0)
    return K_Z
