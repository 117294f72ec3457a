"""Which arm to play: the paper's policies and the baselines, as equals.

`contract` says what a policy is and `checker` tests anyone's; `ucb` is Algorithms 1 and 2, `super_ucb` Algorithms 3
and 4; `kernel_ucb` holds Kernel-UCB, CGP-UCB and the pooled learner, `linucb` and `simple` the rest. `exploration`
is the β of them all.
"""

from kinband.errors import NotFoundError
from kinband.policies.checker import check_policy
from kinband.policies.contract import Policy, PolicyFactory, Setting
from kinband.policies.exploration import Constant, Exploration, KrauseOng, Theorem1
from kinband.policies.kernel_ucb import build_cgp_ucb, build_kernel_ucb, build_pooled_ucb
from kinband.policies.linucb import LinUCB
from kinband.policies.simple import FixedArm, RandomArm
from kinband.policies.super_ucb import SuperUCB
from kinband.policies.ucb import UCB

POLICIES: dict[str, PolicyFactory] = {
    "ucb": UCB.build,
    "super-ucb": SuperUCB.build,
    "kernel-ucb": build_kernel_ucb,
    "cgp-ucb": build_cgp_ucb,
    "linucb": LinUCB.build,
    "pooled": build_pooled_ucb,
    "random": RandomArm.build,
    "fixed": FixedArm.build,
}

__all__ = [
    "POLICIES",
    "UCB",
    "Constant",
    "Exploration",
    "FixedArm",
    "KrauseOng",
    "LinUCB",
    "Policy",
    "PolicyFactory",
    "RandomArm",
    "Setting",
    "SuperUCB",
    "Theorem1",
    "build_cgp_ucb",
    "build_kernel_ucb",
    "build_pooled_ucb",
    "check_policy",
    "policy_factory",
]


def policy_factory(policy: "str | PolicyFactory") -> PolicyFactory:
    """Return the factory of a name, or the factory itself.

    Example:
        >>> policy_factory("ucb") is POLICIES["ucb"]
        True
    """
    if not isinstance(policy, str):
        return policy
    if policy not in POLICIES:
        raise NotFoundError(f"unknown policy {policy!r}: choose one of {', '.join(POLICIES)}, or pass a factory")
    return POLICIES[policy]
