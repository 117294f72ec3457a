"""Thompson sampling over all tasks: draw a function from the beliefs, and play its best arm.

The draw is f̂ + β L z with L Lᵀ the covariance of f among the arms of one decision and z standard normal: at β = 1 a
draw from the posterior (Thompson 1933; Chowdhury and Gopalan 2017 for kernels, with a growing β). It has a place beside
UCB for two reasons: stations of a round draw independently, and so do not all try the same thing (in rounds it was the
better of the two on base stations, Colin et al. 2019); and a configuration is tried as often as it may be the best.

Draws are keyed by the decision, as all randomness of a controller is, so that a replay draws them again.
"""

import numpy as np

from kinband.arrays import FloatArray
from kinband.policies.base import PolicySpec, check_options
from kinband.policies.ucb import UCB
from kinband.posterior import Prediction
from kinband.records import Choice, Query


class Thompson(UCB):
    """Plays the best arm of a function drawn from the posterior.

    The controller's `beta` multiplies what the draw adds to the mean: 1, the default, draws from the posterior itself;
    less stays nearer to what is expected to earn most, which 0 plays; more tries more.

    Example:
        >>> from kinband.kernels import RBF
        >>> from kinband.records import Observation
        >>> policy = Thompson.build(PolicySpec(RBF(0.5), np.ones((2, 2)), noise=0.01, arms=2))
        >>> for _ in range(50):
        ...     policy.learn(Observation(task=0, x=np.array([0.0]), arm=0, reward=-1.0))
        ...     policy.learn(Observation(task=0, x=np.array([3.0]), arm=1, reward=1.0))
        >>> query = Query(1, np.array([[0.0], [3.0]]), np.array([True, True]))
        >>> policy.choose(query, np.random.default_rng(0)).arm
        1
    """

    @classmethod
    def build(cls, spec: PolicySpec) -> "Thompson":
        """Return the policy for a spec, with nothing learned yet."""
        check_options(spec)
        return cls(spec.posterior(), spec.exploration, noise=spec.noise)

    def _choice(
        self, query: Query, prediction: Prediction, rng: np.random.Generator, *, std: FloatArray | None = None
    ) -> Choice:
        """The best arm of a function drawn among those allowed; stations of a round draw each by itself."""
        del std
        deviation = _root(prediction.covariance()) @ rng.standard_normal(len(prediction.mean))
        return self._best(query, prediction, prediction.mean + self._beta(query) * deviation, rng)


def _root(C: FloatArray) -> FloatArray:
    """The symmetric root of C (m, m) with a ten-thousandth of its largest std added to every context.

    That makes it a smooth function of C: where C is rounded otherwise, in a replay or on another machine, the same
    numbers draw the same function. Eigenvectors by themselves, or the root of a singular C, are not.
    """
    values, V = np.linalg.eigh(C)
    return np.asarray((V * np.sqrt(np.maximum(values, 0.0) + 1e-8 * max(float(values[-1]), 0.0))) @ V.T)
