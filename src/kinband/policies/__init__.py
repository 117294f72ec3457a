"""Which arm to play: the paper's policies and the baselines, as equals.

`base` says what a policy is, `registry` knows ours by name and tests anyone's; `ucb` is Algorithms 1 and 2,
`super_ucb` Algorithms 3 and 4, `thompson` draws instead of bounds; `baselines` holds Kernel-UCB, CGP-UCB, the pooled
learner, LinUCB and the rest. `exploration` is the β of them all. What decisions may have to keep: `constraints` is the
contract, with a floor and a switching cost, `budget` and `kpi_floors` are two more, and `safety` is the list of them,
around any policy.
"""

from kinband.policies.base import Policy, PolicyFactory, PolicySpec
from kinband.policies.baselines import FixedArm, LinUCB, RandomArm, build_cgp_ucb, build_kernel_ucb, build_pooled_ucb
from kinband.policies.budget import Conservative
from kinband.policies.constraints import Floor, SwitchingCost
from kinband.policies.exploration import Constant, Exploration, KrauseOng, Theorem1
from kinband.policies.registry import POLICIES, check_policy, policy_factory
from kinband.policies.super_ucb import SuperUCB
from kinband.policies.thompson import Thompson
from kinband.policies.ucb import UCB

__all__ = [
    "POLICIES",
    "UCB",
    "Conservative",
    "Constant",
    "Exploration",
    "FixedArm",
    "Floor",
    "KrauseOng",
    "LinUCB",
    "Policy",
    "PolicyFactory",
    "PolicySpec",
    "RandomArm",
    "SuperUCB",
    "SwitchingCost",
    "Theorem1",
    "Thompson",
    "build_cgp_ucb",
    "build_kernel_ucb",
    "build_pooled_ucb",
    "check_policy",
    "policy_factory",
]
