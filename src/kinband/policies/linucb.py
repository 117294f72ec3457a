"""LinUCB (Li et al. 2010), per task: a ridge regression on the context, with its own width.

One linear model per arm (the paper's "disjoint" form), or one for all arms of a task. Each keeps A⁻¹ = (ridge·I +
Σxxᵀ)⁻¹ by the rank-one update and θ = A⁻¹b; the score is θᵀx + β√(xᵀA⁻¹x). A constant is added to the features.
"""

import numpy as np

from kinband.arrays import FloatArray, positive_number
from kinband.policies.contract import Setting, check_options, pick_best
from kinband.policies.exploration import Exploration
from kinband.records import Choice, Observation, Query


class _Ridge:
    """Ridge regression that learns one row at a time."""

    def __init__(self, features: int, ridge: float) -> None:
        self.A_inverse = np.eye(features) / ridge
        self.theta = np.zeros(features)

    def predict(self, X: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return mean (m,) and √(xᵀA⁻¹x) (m,) at X (m, d)."""
        return X @ self.theta, np.sqrt(np.einsum("ij,jk,ik->i", X, self.A_inverse, X))

    def learn(self, x: FloatArray, y: float) -> None:
        """Take in one row by the Sherman-Morrison formula."""
        Ax = self.A_inverse @ x
        gain = Ax / (1.0 + x @ Ax)
        self.theta = self.theta + gain * (y - x @ self.theta)
        self.A_inverse = self.A_inverse - np.outer(gain, Ax)


class LinUCB:
    """Linear UCB on every task by itself.

    Args:
        exploration: The weight of the width (their α).
        ridge: Their identity, times this.
        mean: Constant added to every prediction.
        noise: Handed to rules that depend on it.
        per_arm: One model per arm, or one per task.

    Example:
        >>> from kinband.policies import Constant
        >>> policy = LinUCB(Constant(0.1), ridge=1.0, noise=0.1)
        >>> for _ in range(5):
        ...     policy.learn(Observation(task=0, x=np.array([1.0]), arm=1, reward=1.0))
        >>> query = Query(0, np.array([[1.0], [1.0]]), np.array([True, True]))
        >>> policy.choose(query, np.random.default_rng(0)).arm
        1
    """

    def __init__(
        self,
        exploration: Exploration,
        *,
        ridge: float = 1.0,
        mean: float = 0.0,
        noise: float = 1.0,
        per_arm: bool = True,
    ) -> None:
        self.exploration = exploration
        self.ridge = positive_number(ridge, name="ridge")
        self.mean, self.noise, self.per_arm = mean, noise, per_arm
        self._models: dict[tuple[int, int], _Ridge] = {}
        self._known: dict[int, int] = {}

    @classmethod
    def build(cls, setting: Setting) -> "LinUCB":
        """Return the policy for a setting; options: `ridge`, `per_arm`."""
        options = check_options(setting, "ridge", "per_arm")
        return cls(setting.exploration, mean=setting.mean, noise=setting.noise, **options)

    def choose(self, query: Query, rng: np.random.Generator) -> Choice:
        """Return the arm with the largest θᵀx + β√(xᵀA⁻¹x)."""
        arms, X = query.arms, _with_constant(query.X)
        mean, width = np.empty(len(arms)), np.empty(len(arms))
        for i, arm in enumerate(arms):
            model = self._model(query.task, int(arm), X.shape[1])
            mean[i : i + 1], width[i : i + 1] = model.predict(X[arm : arm + 1])
        known = self._known.get(query.task, 0)
        beta = self.exploration.beta(known=known, arms=len(query.X), noise=self.noise)
        score = self.mean + mean + beta * width
        return Choice(int(arms[pick_best(score, rng)]), arms, self.mean + mean, width, score)

    def learn(self, observation: Observation) -> None:
        """Take in one reward."""
        x = _with_constant(observation.x[None])[0]
        key = self._key(observation.task, observation.arm)
        model = self._models.setdefault(key, _Ridge(len(x), self.ridge))
        model.learn(x, observation.reward - self.mean)
        self._known[observation.task] = self._known.get(observation.task, 0) + 1

    def _key(self, task: int, arm: int) -> tuple[int, int]:
        return task, arm if self.per_arm else 0

    def _model(self, task: int, arm: int, features: int) -> _Ridge:
        """Return the model in charge, or a fresh one that choosing must not keep."""
        return self._models.get(self._key(task, arm)) or _Ridge(features, self.ridge)


def _with_constant(X: FloatArray) -> FloatArray:
    return np.hstack([X, np.ones((len(X), 1))])
