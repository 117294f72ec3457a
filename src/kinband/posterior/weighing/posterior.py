"""A posterior that borrows with care: a shared one and one for each station alone, mixed by what each has foretold.

Both learn every reward. The shared one is what the task matrix makes of them; the other takes every station for itself
and costs next to nothing beside it. A station's weight (`weights`) says how far its predictions are the shared one's. A
task matrix that misleads is so found out by the rewards of the very station that it misleads, and while the two
disagree the width says so (`mixture`). Nothing is drawn and asking changes nothing, so that a replay gives the same
bits. Not in the paper.
"""

from collections.abc import Mapping, Sequence
from typing import NoReturn, Protocol

import numpy as np
from numpy.typing import ArrayLike

from kinband.arrays import FloatArray, IntArray
from kinband.errors import CannotCorrectError
from kinband.posterior.contract import (
    Posterior,
    Prediction,
    Question,
    Restorable,
    ScoresArms,
    SolvesColumns,
    draw_joint,
)
from kinband.posterior.factor import Column
from kinband.posterior.growing import TakesTasks, extended
from kinband.posterior.together import PredictsTogether
from kinband.posterior.weighing.mixture import Mixture, mixed, mixed_covariance
from kinband.posterior.weighing.weights import SharingWeights

_RELEARN = "weights of sharing rest on every reward told: learn the corrected log anew"


class Weighable(Restorable, TakesTasks, PredictsTogether, ScoresArms, Posterior, Protocol):
    """What can be one of the two: any engine of ours but the paper's own update."""

    noise: float

    def moments(
        self, tasks: ArrayLike, X: ArrayLike, *, columns: Sequence[Column] | None = None
    ) -> tuple[FloatArray, FloatArray]:
        """Return mean (m,) and covariance (m, m) of f at m contexts."""
        ...

    def refreshed(self, tasks: ArrayLike, X: ArrayLike, columns: Sequence[Column]) -> list[Column]:
        """Return the columns of contexts X (m, d) solved as far as can be ahead of an update."""
        ...

    def foretold(self, count: int) -> FloatArray:
        """Return the log density of each of the last `count` rewards given those before it, nan where not known."""
        ...


class WeighedPosterior:
    """What is believed about f where every station borrows as far as that has helped it.

    Args:
        shared: Posterior on the task matrix, with nothing learned yet.
        own: Posterior on its diagonal.

    Example:
        >>> from kinband.kernels import RBF
        >>> from kinband.posterior import make_posterior
        >>> pair = [make_posterior(RBF(0.5), K, noise=0.01) for K in ([[1.0, 0.9], [0.9, 1.0]], np.eye(2))]
        >>> posterior = WeighedPosterior(*pair)
        >>> for x in np.linspace(0, 1, 6):  # two stations that want the opposite, called alike
        ...     posterior.update([0, 1], [[x], [x]], [np.sin(6 * x), -np.sin(6 * x)])
        >>> bool(posterior.weights.of(1) < 0.05)
        True
    """

    def __init__(self, shared: Weighable, own: Weighable) -> None:
        self.shared, self.own = shared, own
        self.weights = SharingWeights(len(shared.K_Z))
        self.noise = shared.noise

    def __len__(self) -> int:
        return len(self.shared)

    @property
    def K_Z(self) -> FloatArray:
        """The task matrix, (M, M)."""
        return self.shared.K_Z

    def predict(self, tasks: ArrayLike, X: ArrayLike) -> Prediction:
        """Return mean and width of f for tasks (m,) at contexts X (m, d)."""
        shared, own = self.shared.predict(tasks, X), self.own.predict(tasks, X)
        return mixed(shared, own, self.weights.of(np.asarray(tasks, dtype=np.int64)))

    def predict_arms(self, questions: Sequence[Question]) -> list[Prediction]:
        """Return mean and width of f at the arms of each question."""
        pairs = zip(self.shared.predict_arms(questions), self.own.predict_arms(questions), strict=True)
        weights = self._weights_of(questions).tolist()
        return [mixed(s, o, w) for (s, o), w in zip(pairs, weights, strict=True)]

    def predict_together(self, questions: Sequence[Question]) -> Mixture:
        """Return the predictions of all arms of all questions, and how they hang together."""
        shared, own = self.shared.predict_together(questions), self.own.predict_together(questions)
        return Mixture(questions, shared, own, self._weights_of(questions))

    def columns(self, tasks: ArrayLike, X: ArrayLike) -> list[Column]:
        """Return the shared posterior's columns of contexts X (m, d), to be handed to their updates."""
        if isinstance(self.shared, SolvesColumns):
            return self.shared.columns(tasks, X)
        return [Column() for _ in np.asarray(X)]

    def update(
        self,
        tasks: ArrayLike,
        X: ArrayLike,
        y: ArrayLike,
        *,
        noise: ArrayLike | None = None,
        column: Column | None = None,
    ) -> None:
        """Learn rewards y (n,) of tasks (n,) at contexts X (n, d), and who foretold them better; all or nothing."""
        count = int(np.size(y))
        if not count:
            return
        # The shared one first: it knows more and so has the smaller pivots, the only thing that can fail.
        self.shared.update(tasks, X, y, noise=noise, column=column)
        self.own.update(tasks, X, y, noise=noise)
        gains = self.shared.foretold(count) - self.own.foretold(count)
        told = ~np.isnan(gains)  # a sparse posterior foretells nothing of the block that it begins with
        self.weights.tell(np.asarray(tasks, dtype=np.int64)[told], gains[told])

    def covariance(self, tasks: ArrayLike, X: ArrayLike) -> FloatArray:
        """Return the covariance of f at contexts X (m, d), (m, m)."""
        return self.moments(tasks, X)[1]

    def moments(
        self, tasks: ArrayLike, X: ArrayLike, *, columns: Sequence[Column] | None = None
    ) -> tuple[FloatArray, FloatArray]:
        """Return mean (m,) and covariance (m, m) of f at contexts X (m, d); `columns` are the shared posterior's."""
        index = np.asarray(tasks, dtype=np.int64)
        mean, shared = self.shared.moments(tasks, X, columns=columns)
        own_mean, own = self.own.moments(tasks, X)
        w, d = self.weights.of(index), mean - own_mean
        if (index == index[:1]).all():  # contexts of one station, as rules of safety ask for
            return own_mean + w * d, mixed_covariance(shared, own, d, float(w[0]) if len(w) else 0.0)
        share, rest = w[:, None], (w * (1.0 - w))[:, None]
        alike = share * shared + (1.0 - share) * own + rest * np.outer(d, d)
        return own_mean + w * d, np.where(index[:, None] == index, alike, np.outer(w, w) * shared)

    def refreshed(self, tasks: ArrayLike, X: ArrayLike, columns: Sequence[Column]) -> list[Column]:
        """Return the shared posterior's columns of contexts X (m, d) solved as far as can be ahead of an update."""
        return self.shared.refreshed(tasks, X, columns)

    def sample(self, tasks: ArrayLike, X: ArrayLike, *, size: int, rng: np.random.Generator) -> FloatArray:
        """Draw `size` joint samples of f at contexts X (m, d), (size, m)."""
        return draw_joint(*self.moments(tasks, X), size=size, rng=rng)

    def correct(self, index: int, y: float) -> NoReturn:
        """Refuse: what was foretold rests on every reward before it."""
        del index, y
        raise CannotCorrectError(_RELEARN)

    def remove(self, index: int) -> NoReturn:
        """Refuse, likewise."""
        del index
        raise CannotCorrectError(_RELEARN)

    def extend_tasks(self, K_Z: ArrayLike) -> None:
        """Take in further tasks: K_Z (M', M') begins with the present matrix; they begin with the fleet's weight."""
        larger = extended(K_Z, self.K_Z)
        self.shared.extend_tasks(larger)
        self.own.extend_tasks(np.diag(np.diagonal(larger)))
        self.weights.extend(len(larger))

    def state(self) -> dict[str, FloatArray | IntArray]:
        """Return both posteriors and the weights as plain arrays."""
        parts = {"shared": self.shared.state(), "own": self.own.state(), "sharing": self.weights.state()}
        return {f"{part}/{name}": array for part, state in parts.items() for name, array in state.items()}

    def restore(self, state: Mapping[str, FloatArray | IntArray]) -> None:
        """Take up what `state` returned, bit for bit."""
        for part, whole in (("shared", self.shared), ("own", self.own), ("sharing", self.weights)):
            mine = f"{part}/"
            whole.restore({name.removeprefix(mine): array for name, array in state.items() if name.startswith(mine)})

    def _weights_of(self, questions: Sequence[Question]) -> FloatArray:
        return self.weights.of(np.array([q.task for q in questions], dtype=np.int64))
