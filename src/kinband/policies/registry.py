"""Policies by name, and what else may stand for one."""

from typing import Any

from kinband.errors import BadInputError, NotFoundError
from kinband.policies.contract import PolicyFactory
from kinband.policies.kernel_ucb import build_cgp_ucb, build_kernel_ucb, build_pooled_ucb
from kinband.policies.linucb import LinUCB
from kinband.policies.simple import FixedArm, RandomArm
from kinband.policies.super_ucb import SuperUCB
from kinband.policies.thompson import Thompson
from kinband.policies.ucb import UCB

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
