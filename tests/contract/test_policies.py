"""One suite for every policy: the public check list, and that the check list itself can fail."""

import re
from typing import Any

import numpy as np
import pytest

from kinband.errors import BadInputError
from kinband.policies import POLICIES, Policy, Setting, check_policy
from kinband.policies.baselines import RandomArm
from kinband.records import Choice, Observation, Query

OPTIONS: dict[str, dict[str, Any]] = {"super-ucb": {"horizon": 60}, "fixed": {"arm": 0}}


@pytest.mark.parametrize("name", sorted(POLICIES))
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_every_policy_passes_the_check_list(name: str, seed: int) -> None:
    check_policy(POLICIES[name], options=OPTIONS.get(name), seed=seed)


class Careless:
    """Ignores which arms are allowed."""

    def choose(self, query: Query, rng: np.random.Generator) -> Choice:
        return Choice(int(rng.integers(len(query.X))), np.arange(len(query.X)))

    def learn(self, observation: Observation) -> None:
        pass


class Forgetful(RandomArm):
    """Counts its own questions, so that asking changes it."""

    asked = 0

    def choose(self, query: Query, rng: np.random.Generator) -> Choice:
        self.asked += 1
        return Choice(int(query.arms[self.asked % len(query.arms)]), query.arms)


class Secretive(RandomArm):
    """Hides an object in its policy_state."""

    def choose(self, query: Query, rng: np.random.Generator) -> Choice:
        return Choice(int(query.arms[0]), query.arms, policy_state={"thoughts": object()})


class Private(RandomArm):
    """Learns only what it cached, which a replay does not have."""

    def __init__(self) -> None:
        self.total = 0

    def choose(self, query: Query, rng: np.random.Generator) -> Choice:
        arm = int(query.arms[self.total % len(query.arms)])
        return Choice(arm, query.arms, cache=1)

    def learn(self, observation: Observation) -> None:
        self.total += observation.cache or 0


class Unseeded(RandomArm):
    """Draws from a generator of its own."""

    def __init__(self) -> None:
        self.rng = np.random.default_rng()

    def choose(self, query: Query, rng: np.random.Generator) -> Choice:
        return super().choose(query, self.rng)


@pytest.mark.parametrize(
    ("broken", "checks"),
    [
        (Careless, {"choice"}),
        (Forgetful, {"asking"}),
        (Secretive, {"policy_state"}),
        (Private, {"replay"}),
        (Unseeded, {"asking", "generator"}),
    ],
)
def test_the_check_list_catches_broken_policies(broken: type, checks: set[str]) -> None:
    def factory(setting: Setting) -> Policy:
        policy: Policy = broken()
        return policy

    with pytest.raises(BadInputError) as caught:
        check_policy(factory)
    assert caught.value.code == "policy_check"
    assert caught.value.argument in checks
    assert caught.value.hint


def test_the_check_list_says_what_it_tried_and_why_it_refuses() -> None:
    tried = check_policy("ucb")
    assert list(tried) == ["choice", "policy_state", "asking", "generator", "replay"]
    assert all("held in 24 queries" in said for said in tried.values())
    with pytest.raises(BadInputError) as caught:
        check_policy(lambda _: Careless())
    assert re.fullmatch(
        r"the policy fails the check 'choice' \(every choice is an allowed arm, .*\); query \d+ of 24: the policy "
        r"chose arm \d, which is not allowed: return a Choice of one of query.arms, .*",
        str(caught.value),
    )
