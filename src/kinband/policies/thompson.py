"""Thompson sampling over all tasks: draw a function from the beliefs, and play its best arm.

The draw is f̂ + β L z with L Lᵀ the covariance of f among the arms of one decision and z standard normal: at β = 1 a
draw from the posterior (Thompson 1933; Chowdhury and Gopalan 2017 for kernels, with a growing β). It has a place beside
UCB for two reasons: stations of a round draw independently, and so do not all try the same thing (in rounds it was the
better of the two on base stations, Colin et al. 2019); and a configuration is tried as often as it may be the best.

Draws are keyed by the decision, as all randomness of a controller is, so that a replay draws them again.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from kinband.arrays import FloatArray
from kinband.errors import BadInputError
from kinband.policies.base import Setting, check_options, pick_best
from kinband.policies.ucb import UCB
from kinband.posterior.base import Prediction, Question
from kinband.posterior.together import PredictsTogether
from kinband.records import Choice, Query


class Thompson(UCB):
    """Plays the best arm of a function drawn from the posterior.

    The controller's `beta` multiplies what the draw adds to the mean: 1, the default, draws from the posterior itself;
    less stays nearer to what is expected to earn most, which 0 plays; more tries more.

    Example:
        >>> from kinband.kernels import RBF
        >>> from kinband.records import Observation
        >>> policy = Thompson.build(Setting(RBF(0.5), np.ones((2, 2)), noise=0.01, arms=2))
        >>> for _ in range(50):
        ...     policy.learn(Observation(task=0, x=np.array([0.0]), arm=0, reward=-1.0))
        ...     policy.learn(Observation(task=0, x=np.array([3.0]), arm=1, reward=1.0))
        >>> query = Query(1, np.array([[0.0], [3.0]]), np.array([True, True]))
        >>> policy.choose(query, np.random.default_rng(0)).arm
        1
    """

    @classmethod
    def build(cls, setting: Setting) -> "Thompson":
        """Return the policy for a setting, with nothing learned yet."""
        check_options(setting)
        posterior = setting.posterior()
        if setting.engine == "schur" or not isinstance(posterior, PredictsTogether):
            raise BadInputError("policy 'thompson' needs a posterior with joint predictions: choose engine='auto'")
        return cls(posterior, setting.exploration, noise=setting.noise)

    def choose(self, query: Query, rng: np.random.Generator) -> Choice:
        """Return the best arm of a function drawn among those allowed."""
        return self.choose_round([query], [rng])[0]

    def choose_round(self, queries: Sequence[Query], rngs: Sequence[np.random.Generator]) -> list[Choice]:
        """Draw a function for every station, each by itself."""
        posterior: Any = self.posterior
        choices: list[Choice] = []
        for part in self._parts(queries):
            asked = [Question(q.task, q.X, q.arms) for q in queries[part]]
            together = posterior.predict_together(asked)
            for i, (query, rng) in enumerate(zip(queries[part], rngs[part], strict=True)):
                prediction = together.predictions[i]
                choices.append(self._drawn(query, prediction, together.within(i), rng))
        return self._with_columns(queries, choices)

    def _drawn(self, query: Query, prediction: Prediction, C: FloatArray, rng: np.random.Generator) -> Choice:
        deviation = _root(C) @ rng.standard_normal(len(C))
        score = prediction.mean + self._beta(query) * deviation
        best = pick_best(score, rng)
        return Choice(int(query.arms[best]), query.arms, prediction.mean, prediction.width, score)


def _root(C: FloatArray) -> FloatArray:
    """A matrix R with R Rᵀ = C (m, m), which rounding may have left a hair indefinite."""
    values, vectors = np.linalg.eigh(C)
    return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0)))
