"""What the multi-task model believes rewards to be, for the many rows of an evaluation.

An evaluation asks for means (9) at tens of thousands of contexts and never for their widths, so it solves once for the
weights α = (K̃ + diag(noise))⁻¹(y − mean) and multiplies. Where the kernel is a sum of products of a state part and a
configuration part, all configurations of a row cost one product with a small table; any other kernel is evaluated
configuration by configuration.

`spread` is the posterior standard deviation of a weighted sum of f, from the joint posterior: how well the model itself
knows the average that it reports.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from kinband.arrays import FloatArray, IntArray
from kinband.contexts import ContextEncoder
from kinband.errors import NotPositiveDefiniteError
from kinband.kernels import MultiTaskKernel
from kinband.kernels.serial import Split, split_kernel
from kinband.model import Model
from kinband.records import Samples

_CELLS = 4_000_000  # numbers in a table of one chunk, 32 MB


@dataclass(frozen=True, eq=False)
class Beliefs:
    """Posterior means of a model that has learned some rows.

    Attributes:
        kernel: The product kernel (7).
        encoder: Makes contexts of states and configurations.
        rows: What was learned.
        mean: Prior mean.
        alpha: α, (n,).
        factor: SciPy's Cholesky factor of K̃ + diag(noise).

    Example:
        >>> from kinband import ConfigurationSpace, StateScaler, TaskMatrix
        >>> from kinband.kernels import RBF
        >>> encoder = ContextEncoder(StateScaler.identity(["load"]), ConfigurationSpace(tilt=[2, 6]))
        >>> X = encoder.encode([[0.3], [0.3]], np.array([0, 1]))
        >>> rows = Samples(("a",), np.zeros(2, dtype=np.int64), X, np.array([0.2, 0.8]), None, encoder.features)
        >>> model = Model(RBF(0.5), TaskMatrix(("a",), np.eye(1), "given"), noise=0.01, mean=0.5)
        >>> beliefs = Beliefs.learn(model, rows, encoder)
        >>> beliefs.best(np.array([0]), np.array([[0.3]])).tolist()
        [1]
        >>> beliefs.at(np.array([0]), np.array([[0.3]]), np.array([[0, 1]])).round(2).tolist()
        [[0.2, 0.8]]
    """

    kernel: MultiTaskKernel
    encoder: ContextEncoder
    rows: Samples
    mean: float
    alpha: FloatArray
    factor: Any

    @classmethod
    def learn(cls, model: Model, rows: Samples, encoder: ContextEncoder) -> "Beliefs":
        """Return what a model believes after some rows; what is known of a reward's noise adds to the model's."""
        from scipy.linalg import cho_factor, cho_solve

        kernel = MultiTaskKernel(model.kernel, model.similarity.matrix)
        K = kernel.cross(rows.tasks, rows.X, rows.tasks, rows.X)
        known = 0.0 if rows.noise is None else np.nan_to_num(rows.noise, nan=0.0)
        K[np.diag_indices_from(K)] += model.noise + known
        try:
            factor = cho_factor(K, lower=True, overwrite_a=True, check_finite=False)
        except np.linalg.LinAlgError:
            raise NotPositiveDefiniteError(
                "the model of rewards cannot be solved for: increase its `noise`, or log fewer repeated rows"
            ) from None
        alpha = cho_solve(factor, rows.y - model.mean, check_finite=False)
        return cls(kernel, encoder, rows, model.mean, np.asarray(alpha), factor)

    def at(self, tasks: IntArray, S: FloatArray, arms: IntArray) -> FloatArray:
        """Return the means for tasks (m,) in scaled states S (m, p) at configurations arms (m, c), (m, c)."""
        means = np.empty(arms.shape)
        for chunk in self._chunks(len(tasks), 1):
            weighted = self._weighted(tasks[chunk], S[chunk])
            for c in range(arms.shape[1]):
                means[chunk, c] = self._column(weighted, tasks[chunk], S[chunk], arms[chunk, c])
        return means

    def best(self, tasks: IntArray, S: FloatArray) -> IntArray:
        """Return the configuration with the largest mean for tasks (m,) in scaled states S (m, p), (m,)."""
        N = len(self.encoder.space)
        found = np.empty(len(tasks), dtype=np.int64)
        for chunk in self._chunks(len(tasks), N):
            weighted = self._weighted(tasks[chunk], S[chunk])
            if weighted is not None:
                means = weighted @ self._over_arms
            else:
                every = np.broadcast_to(np.arange(N), (len(S[chunk]), N))
                means = self.at(tasks[chunk], S[chunk], every)
            found[chunk] = means.argmax(axis=1)
        return found

    def spread(self, tasks: IntArray, S: FloatArray, arms: IntArray, *, weights: FloatArray) -> float:
        """Return the standard deviation of Σ weights·f at tasks, scaled states (m, p) and arms, (m,) each."""
        from scipy.linalg import cho_solve

        X = self._contexts(S, arms)
        k = self.kernel.cross(self.rows.tasks, self.rows.X, tasks, X) @ weights
        prior = float(weights @ self.kernel.cross(tasks, X, tasks, X) @ weights)
        return float(np.sqrt(max(prior - float(k @ cho_solve(self.factor, k, check_finite=False)), 0.0)))

    def _weighted(self, tasks: IntArray, S: FloatArray) -> FloatArray | None:
        """K_Z · k_state · α of each question against each row learned, term by term, (m, terms · n); None without."""
        if not self._splits:
            return None
        X = np.hstack([S, np.zeros((len(S), self.encoder.space.features.shape[1]))])
        weights = self.kernel.K_Z[np.ix_(tasks, self.rows.tasks)] * self.alpha
        return np.hstack([split.over_rest(X, self.rows.X) * weights for split in self._splits])

    def _column(self, weighted: FloatArray | None, tasks: IntArray, S: FloatArray, arms: IntArray) -> FloatArray:
        """The means of one configuration (m,) for each question, (m,)."""
        if weighted is not None:
            return np.asarray(self.mean + np.einsum("mn,nm->m", weighted, self._over_arms[:, arms]))
        k = self.kernel.cross(tasks, self._contexts(S, arms), self.rows.tasks, self.rows.X)
        return np.asarray(self.mean + k @ self.alpha)

    def _contexts(self, S: FloatArray, arms: IntArray) -> FloatArray:
        return np.hstack([S, self.encoder.space.features[arms]])

    def _chunks(self, questions: int, arms: int) -> Iterator[slice]:
        size = max(1, _CELLS // (len(self.rows) + arms))
        return (slice(start, start + size) for start in range(0, questions, size))

    @cached_property
    def _splits(self) -> tuple[Split, ...]:
        p, width = len(self.encoder.state.names), self.rows.X.shape[1]
        return split_kernel(self.kernel.context, columns=range(p, width), width=width)

    @cached_property
    def _over_arms(self) -> FloatArray:
        """The kernel of the configurations of the rows learned and all configurations, (terms · n, N)."""
        space = self.encoder.space
        X = np.hstack([np.zeros((len(space), len(self.encoder.state.names))), space.features])
        return np.vstack([split.over_part(self.rows.X, X) for split in self._splits])
