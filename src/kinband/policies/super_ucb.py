"""The base and super versions, Algorithms 3 and 4: UCB that its regret bound (Theorem 3) is proved for.

UCB learns from rewards that its own earlier rewards selected, which breaks the independence that Theorem 1 assumes.
The super version sorts decisions into levels s = 1 … S and lets each level learn only from its own decisions, whose
selection depended on standard deviations alone. At level s: if every arm is known to 1/√T, play the best and learn
from it nowhere; if every arm is known to 2⁻ˢ, drop the arms that cannot be best and go one level up; else play the
least certain arm and let this level learn from it. It is there for the analysis, explores far more than UCB, and needs
to know its horizon T. The print is corrected as docs/paper.md says.
"""

from collections.abc import Mapping, Sequence
from math import ceil, log, sqrt
from typing import Any

import numpy as np

from kinband.arrays import FloatArray, IntArray
from kinband.errors import BadInputError
from kinband.policies.base import PolicySpec, check_options, learn_block, pick_best
from kinband.policies.exploration import Constant, Theorem1, theorem1_alpha
from kinband.posterior import Posterior, Prediction
from kinband.records import Choice, Observation, Query


def super_levels(horizon: int) -> int:
    """Return S = max(1, ⌈ln T⌉), the number of levels for T decisions.

    Example:
        >>> super_levels(1), super_levels(1000)
        (1, 7)
    """
    return max(1, ceil(log(horizon)))


def super_beta(horizon: int, *, arms: int, noise: float, rule: Theorem1) -> float:
    """Return Theorem 3's β: like Theorem 1's, with α = √(log(2TN(ln T + 1)/δ)/2).

    Example:
        >>> round(super_beta(1000, arms=5, noise=1.0, rule=Theorem1()), 2)
        3.67
    """
    alpha = theorem1_alpha(1, delta=rule.delta / (horizon * arms * (log(horizon) + 1.0)))
    printed = alpha + rule.norm * sqrt(noise)
    return printed if rule.printed else printed / sqrt(noise)


class SuperUCB:
    """Algorithm 4 over Algorithm 3.

    Args:
        levels: One posterior per level, s = 1 … S.
        beta: The weight of a standard deviation.
        horizon: T, the number of decisions planned.

    Example:
        >>> from kinband.kernels import RBF
        >>> spec = PolicySpec(RBF(0.5), np.eye(2), noise=0.1, arms=2, options={"horizon": 100})
        >>> policy = SuperUCB.build(spec)
        >>> query = Query(1, np.array([[0.0], [3.0]]), np.array([True, True]))
        >>> policy.choose(query, np.random.default_rng(0)).policy_state["level"]
        1
    """

    def __init__(self, levels: list[Posterior], *, beta: float, horizon: int) -> None:
        self.levels = levels
        self.beta = beta
        self.horizon = horizon

    @classmethod
    def build(cls, spec: PolicySpec) -> "SuperUCB":
        """Return the policy for a spec; options: `horizon`. Its exploration gives δ and c, or a constant β."""
        horizon = check_options(spec, "horizon").get("horizon", 0)
        if isinstance(horizon, bool) or not isinstance(horizon, int) or horizon < 1:
            raise BadInputError("super-ucb needs to know how many decisions are planned: options={'horizon': 4000}")
        rule = spec.exploration
        if isinstance(rule, Theorem1):
            beta = super_beta(horizon, arms=spec.arms, noise=spec.noise, rule=rule)
        elif isinstance(rule, Constant):
            beta = rule.value
        else:
            raise BadInputError("super-ucb takes a constant beta, 'corrected', 'printed' or a Theorem1 rule")
        levels: list[Posterior] = [spec.posterior() for _ in range(super_levels(horizon))]
        return cls(levels, beta=beta, horizon=horizon)

    def choose(self, query: Query, rng: np.random.Generator) -> Choice:
        """Climb the levels until an arm is found."""
        arms = query.arms
        for level in range(1, len(self.levels) + 1):
            prediction = self._base(level, query, arms)
            omega = self.beta * prediction.std
            ucb = prediction.mean + omega
            if np.all(omega <= 1.0 / sqrt(self.horizon)):
                return _choice(arms, prediction, ucb, pick_best(ucb, rng), level=0)
            if np.any(omega > 2.0**-level):
                return _choice(arms, prediction, ucb, pick_best(omega, rng), level=level)
            arms = arms[ucb >= ucb.max() - 2.0 ** (1 - level)]
        # 2⁻ˢ ≤ 1/√T at the top level, so one of the two cases above has returned.
        raise AssertionError("super-ucb ran out of levels")

    def learn(self, observation: Observation) -> None:
        """Add one reward to the level that chose it; exploiting decisions teach nothing.

        A reward that no level chose (a row of a log) was selected by nobody's rewards and teaches every level.
        """
        for level in self._taught_by(observation):
            learn_block(level, [observation])

    def learn_log(self, observations: Sequence[Observation]) -> None:
        """Add the rows of a log to every level."""
        for level in self.levels:
            learn_block(level, observations)

    def extend_like(self, pattern: "SuperUCB") -> None:
        """Take in the tasks that a policy of the same factory, with nothing learned, was built for."""
        for level, empty in zip(self.levels, pattern.levels, strict=True):
            level.check_extension(empty.K_Z)
        for level, empty in zip(self.levels, pattern.levels, strict=True):
            level.extend_tasks(empty.K_Z)

    def state(self) -> dict[str, Any]:
        """Return the beliefs of all levels as arrays by name."""
        return {
            f"{s}:{name}": array
            for s, level in enumerate(self.levels)
            if len(level)
            for name, array in level.state().items()
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take up what `state` returned."""
        for s, level in enumerate(self.levels):
            part = {name.removeprefix(f"{s}:"): a for name, a in state.items() if name.startswith(f"{s}:")}
            if part:
                level.restore(part)

    def _taught_by(self, observation: Observation) -> list[Posterior]:
        if "level" not in observation.policy_state:
            return self.levels
        level = int(observation.policy_state["level"])
        return [self.levels[level - 1]] if level else []

    def _base(self, level: int, query: Query, arms: IntArray) -> Prediction:
        """Algorithm 3: mean and std of the arms from what this level has learned."""
        return self.levels[level - 1].predict(query.task, query.X[arms])


def _choice(arms: IntArray, prediction: Prediction, ucb: FloatArray, best: int, *, level: int) -> Choice:
    column = prediction.column(best) if level else None
    return Choice(int(arms[best]), arms, prediction.mean, prediction.std, ucb, {"level": level}, column)
