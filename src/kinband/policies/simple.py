"""Policies without a model: a random arm, and the one configuration a network runs today."""

import numpy as np

from kinband.errors import BadInputError
from kinband.policies.contract import Setting, check_options
from kinband.records import Choice, Observation, Query


class RandomArm:
    """Plays any allowed arm, all equally often.

    Example:
        >>> query = Query(0, np.zeros((3, 1)), np.array([False, True, False]))
        >>> RandomArm().choose(query, np.random.default_rng(0)).arm
        1
    """

    @classmethod
    def build(cls, setting: Setting) -> "RandomArm":
        """Return the policy; it needs nothing of the setting."""
        check_options(setting)
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
    def build(cls, setting: Setting) -> "FixedArm":
        """Return the policy for a setting; its options name the `arm`."""
        arm = check_options(setting, "arm").get("arm")
        if isinstance(arm, bool) or not isinstance(arm, int) or not 0 <= arm < setting.arms:
            raise BadInputError(f"the fixed policy needs an arm from 0 to {setting.arms - 1}: options={{'arm': 0}}")
        return cls(arm)

    def choose(self, query: Query, rng: np.random.Generator) -> Choice:
        """Return the arm, if it is allowed."""
        del rng
        if self.arm >= len(query.X) or not query.allowed[self.arm]:
            raise BadInputError(f"the fixed arm {self.arm} is not among the allowed ones: allow it or fix another")
        return Choice(self.arm, query.arms)

    def learn(self, observation: Observation) -> None:
        """Learn nothing."""
