"""What learners are compared with."""

from dataclasses import replace
from math import sqrt

import numpy as np

from kinband.arrays import FloatArray, positive_number
from kinband.errors import BadInputError
from kinband.kernels import BlockMatrix
from kinband.policies.base import PolicySpec, check_options, pick_best
from kinband.policies.exploration import Constant, Exploration, KrauseOng
from kinband.policies.ucb import UCB
from kinband.records import Choice, Observation, Query

# --- Policies without a model: a random arm, and the one configuration a network runs today -------------------------


class RandomArm:
    """Plays any allowed arm, all equally often.

    Example:
        >>> query = Query(0, np.zeros((3, 1)), np.array([False, True, False]))
        >>> RandomArm().choose(query, np.random.default_rng(0)).arm
        1
    """

    @classmethod
    def build(cls, spec: PolicySpec) -> "RandomArm":
        """Return the policy; it needs nothing of the spec."""
        check_options(spec)
        return cls()

    def choose(self, query: Query, rng: np.random.Generator) -> Choice:
        """Draw an arm."""
        return Choice(int(rng.choice(query.arms)), query.arms)

    def learn(self, observation: Observation) -> None:
        """Learn nothing."""


class FixedArm:
    """Plays the same arm always.

    Example:
        >>> query = Query(0, np.zeros((3, 1)), np.ones(3, dtype=bool))
        >>> FixedArm(2).choose(query, np.random.default_rng(0)).arm
        2
    """

    def __init__(self, arm: int) -> None:
        self.arm = arm

    @classmethod
    def build(cls, spec: PolicySpec) -> "FixedArm":
        """Return the policy for a spec; its options name the `arm`."""
        arm = check_options(spec, "arm").get("arm")
        if isinstance(arm, bool) or not isinstance(arm, int) or not 0 <= arm < spec.arms:
            raise BadInputError(f"the fixed policy needs an arm from 0 to {spec.arms - 1}: options={{'arm': 0}}")
        return cls(arm)

    def choose(self, query: Query, rng: np.random.Generator) -> Choice:
        """Return the arm, if it is allowed."""
        del rng
        if self.arm >= len(query.X) or not query.allowed[self.arm]:
            raise BadInputError(f"the fixed arm {self.arm} is not among the allowed ones: allow it or fix another")
        return Choice(self.arm, query.arms)

    def learn(self, observation: Observation) -> None:
        """Learn nothing."""


# --- LinUCB (Li et al. 2010), per task: a ridge regression on the context, with its own std -----------------------
#
# One linear model per arm (the paper's "disjoint" form), or one for all arms of a task. Each keeps A⁻¹ = (ridge·I +
# Σxxᵀ)⁻¹ by the rank-one update and θ = A⁻¹b; the score is θᵀx + β√(xᵀA⁻¹x). A constant is added to the features.


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
        exploration: The weight of the standard deviation (their α).
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
    def build(cls, spec: PolicySpec) -> "LinUCB":
        """Return the policy for a spec; options: `ridge`, `per_arm`."""
        options = check_options(spec, "ridge", "per_arm")
        return cls(spec.exploration, mean=spec.mean, noise=spec.noise, **options)

    def choose(self, query: Query, rng: np.random.Generator) -> Choice:
        """Return the arm with the largest θᵀx + β√(xᵀA⁻¹x)."""
        arms, X = query.arms, _with_constant(query.X)
        mean, std = np.empty(len(arms)), np.empty(len(arms))
        for i, arm in enumerate(arms):
            model = self._model(query.task, int(arm), X.shape[1])
            mean[i : i + 1], std[i : i + 1] = model.predict(X[arm : arm + 1])
        known = self._known.get(query.task, 0)
        beta = self.exploration.beta(known=known, arms=len(query.X), noise=self.noise)
        score = self.mean + mean + beta * std
        return Choice(int(arms[pick_best(score, rng)]), arms, self.mean + mean, std, score)

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


# --- The kernel baselines: Kernel-UCB and CGP-UCB on every task by itself, and one learner for all tasks pooled -----
#
# They are UCB on another task matrix, so they share its posterior, its speed and its tie-breaking: a comparison with
# them measures sharing and exploration, nothing else.


def build_kernel_ucb(spec: PolicySpec) -> UCB:
    """Return Kernel-UCB (Valko et al. 2013) for each task alone.

    Their std is ours over √γ, with γ the noise: option `eta` gives β = η/√γ; without it, the spec's β stands.

    Example:
        >>> from kinband.kernels import RBF
        >>> build_kernel_ucb(PolicySpec(RBF(), np.eye(2), noise=0.25, arms=5, options={"eta": 1.0})).exploration
        Constant(value=2.0)
    """
    eta = check_options(spec, "eta").get("eta")
    if eta is None:
        return _alone(spec, spec.exploration)
    return _alone(spec, Constant(positive_number(eta, name="eta") / sqrt(spec.noise)))


def build_cgp_ucb(spec: PolicySpec) -> UCB:
    """Return CGP-UCB (Krause and Ong 2011) for each task alone.

    The spec's kernel is their product of a kernel on states and one on actions. β follows their schedule with
    the option `delta` (0.1), or is the constant of the option `beta`.

    Example:
        >>> from kinband.kernels import RBF
        >>> build_cgp_ucb(PolicySpec(RBF(), np.eye(2), noise=0.25, arms=5)).exploration
        KrauseOng(delta=0.1)
    """
    options = check_options(spec, "beta", "delta")
    constant = options.get("beta")
    rule: Exploration = KrauseOng(options.get("delta", 0.1)) if constant is None else Constant(constant)
    return _alone(spec, rule)


def build_pooled_ucb(spec: PolicySpec) -> UCB:
    """Return UCB that takes all tasks for one.

    Example:
        >>> from kinband.kernels import RBF
        >>> build_pooled_ucb(PolicySpec(RBF(), np.eye(2), noise=0.25, arms=5)).posterior.K_Z.tolist()
        [[1.0, 1.0], [1.0, 1.0]]
    """
    return UCB.build(replace(spec, K_Z=np.ones(spec.K_Z.shape)))


def _alone(spec: PolicySpec, rule: Exploration) -> UCB:
    return UCB(spec.posterior(BlockMatrix.apart(len(spec.K_Z))), rule, noise=spec.noise, per_task=True)
