"""Policies by name, and a check of one's own."""

import json
from dataclasses import replace
from typing import Any

import numpy as np

from kinband.errors import BadInputError, NotFoundError
from kinband.kernels import RBF
from kinband.policies.base import Policy, PolicyFactory, Setting, check_choice
from kinband.policies.baselines import FixedArm, LinUCB, RandomArm, build_cgp_ucb, build_kernel_ucb, build_pooled_ucb
from kinband.policies.exploration import Constant
from kinband.policies.super_ucb import SuperUCB
from kinband.policies.thompson import Thompson
from kinband.policies.ucb import UCB
from kinband.records import Observation, Query

# --- Policies by name, and what else may stand for one --------------------------------------------------------------

POLICIES: dict[str, PolicyFactory] = {
    "ucb": UCB.build,
    "thompson": Thompson.build,
    "super-ucb": SuperUCB.build,
    "kernel-ucb": build_kernel_ucb,
    "cgp-ucb": build_cgp_ucb,
    "linucb": LinUCB.build,
    "pooled": build_pooled_ucb,
    "random": RandomArm.build,
    "fixed": FixedArm.build,
}


def policy_factory(policy: Any) -> PolicyFactory:
    """Return the factory that a name, a factory, or a class with `build` stands for.

    Example:
        >>> policy_factory("ucb") is POLICIES["ucb"]
        True
        >>> policy_factory(RandomArm())
        Traceback (most recent call last):
            ...
        kinband.errors.BadInputError: a policy must be a name or a factory that builds it from a Setting, not a ...
    """
    if isinstance(policy, str):
        if policy not in POLICIES:
            raise NotFoundError(f"unknown policy {policy!r}: choose one of {', '.join(POLICIES)}, or pass a factory")
        return POLICIES[policy]
    if isinstance(policy, type) and hasattr(policy, "build"):
        build: PolicyFactory = policy.build
        return build
    if not callable(policy):
        kind = type(policy).__name__
        raise BadInputError(f"a policy must be a name or a factory that builds it from a Setting, not a {kind}")
    factory: PolicyFactory = policy
    return factory


# --- A check list for policies, ours and yours: run it on a factory and read what it says ---------------------------
#
# The checks are those the controller relies on: only allowed arms, no change of beliefs by asking, the same answers for
# the same generator, a memo that survives JSON, and a policy that can be built again and taught the same log to the
# same answers.

_TASKS, _ARMS, _FEATURES = 3, 6, 2


def check_policy(policy: "str | PolicyFactory", *, options: dict[str, Any] | None = None, seed: int = 0) -> None:
    """Run the check list on a policy, by name or by its factory; raises with one sentence on the first that fails.

    Example:
        >>> from kinband.policies import UCB, check_policy
        >>> check_policy(UCB)
    """
    factory = policy_factory(policy)
    setting = Setting(
        RBF(0.7), np.full((_TASKS, _TASKS), 0.5) + 0.5 * np.eye(_TASKS), noise=0.05, arms=_ARMS, mean=0.3,
        exploration=Constant(1.3), options=options or {},
    )  # fmt: skip
    queries = _queries(np.random.default_rng(seed))
    online, again, taught = factory(setting), factory(setting), factory(setting)
    arms, log = _run(online, queries, seed)
    _demand(arms == _run(again, queries, seed)[0], "must choose the same arms from the same generators")
    for observation in log:
        taught.learn(observation)
    after = _choose_all(online, queries, seed)
    _demand(after == _choose_all(taught, queries, seed), "must choose the same once taught its log as it does online")


def _queries(rng: np.random.Generator) -> list[Query]:
    queries = []
    for _ in range(24):
        allowed = rng.random(_ARMS) < 0.6
        allowed[0] = True  # a policy bound to one arm can pass
        queries.append(Query(int(rng.integers(_TASKS)), rng.random((_ARMS, _FEATURES)), allowed))
    return [Query(q.task, q.X, np.ones(_ARMS, dtype=bool)) if i % 2 else q for i, q in enumerate(queries)]


def _run(policy: Policy, queries: list[Query], seed: int) -> tuple[list[int], list[Observation]]:
    """Let a policy choose and learn; return its arms, and its observations as a log would give them back."""
    arms: list[int] = []
    log: list[Observation] = []
    for step, query in enumerate(queries):
        choice = policy.choose(query, np.random.default_rng([seed, step]))
        choice = check_choice(choice, query)
        twice = policy.choose(query, np.random.default_rng([seed, step]))
        _demand(choice.arm == twice.arm, "must not change its beliefs by choosing")
        reward = float(np.sin(3.0 * query.X[choice.arm].sum() + query.task))
        logged = Observation(
            query.task, query.X[choice.arm], choice.arm, reward, memo=json.loads(json.dumps(choice.memo))
        )
        policy.learn(replace(logged, cache=choice.cache))
        arms.append(choice.arm)
        log.append(logged)
    return arms, log


def _choose_all(policy: Policy, queries: list[Query], seed: int) -> list[int]:
    return [policy.choose(query, np.random.default_rng([seed, 1000 + i])).arm for i, query in enumerate(queries)]


def _demand(condition: bool, rule: str) -> None:
    if not condition:
        raise BadInputError(f"the policy {rule}")
