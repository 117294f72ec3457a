"""The kernel baselines: Kernel-UCB and CGP-UCB on every task by itself, and one learner for all tasks pooled.

They are UCB on another task matrix, so they share its posterior, its speed and its tie-breaking: a comparison with
them measures sharing and exploration, nothing else.
"""

from dataclasses import replace
from math import sqrt

import numpy as np

from kinband.arrays import positive_number
from kinband.policies.contract import Setting, check_options
from kinband.policies.exploration import Constant, Exploration, KrauseOng
from kinband.policies.ucb import UCB


def build_kernel_ucb(setting: Setting) -> UCB:
    """Return Kernel-UCB (Valko et al. 2013) for each task alone.

    Their width is ours over √γ, with γ the noise: option `eta` gives β = η/√γ; without it, the setting's β stands.

    Example:
        >>> from kinband.kernels import RBF
        >>> build_kernel_ucb(Setting(RBF(), np.eye(2), noise=0.25, arms=5, options={"eta": 1.0})).exploration
        Constant(value=2.0)
    """
    eta = check_options(setting, "eta").get("eta")
    if eta is None:
        return _alone(setting, setting.exploration)
    return _alone(setting, Constant(positive_number(eta, name="eta") / sqrt(setting.noise)))


def build_cgp_ucb(setting: Setting) -> UCB:
    """Return CGP-UCB (Krause and Ong 2011) for each task alone.

    The setting's kernel is their product of a kernel on states and one on actions. β follows their schedule with
    the option `delta` (0.1), or is the constant of the option `beta`.

    Example:
        >>> from kinband.kernels import RBF
        >>> build_cgp_ucb(Setting(RBF(), np.eye(2), noise=0.25, arms=5)).exploration
        KrauseOng(delta=0.1)
    """
    options = check_options(setting, "beta", "delta")
    constant = options.get("beta")
    rule: Exploration = KrauseOng(options.get("delta", 0.1)) if constant is None else Constant(constant)
    return _alone(setting, rule)


def build_pooled_ucb(setting: Setting) -> UCB:
    """Return UCB that takes all tasks for one.

    Example:
        >>> from kinband.kernels import RBF
        >>> type(build_pooled_ucb(Setting(RBF(), np.eye(2), noise=0.25, arms=5)).posterior).__name__
        'ExactPosterior'
    """
    return UCB.build(replace(setting, K_Z=np.ones_like(setting.K_Z)))


def _alone(setting: Setting, rule: Exploration) -> UCB:
    return UCB(setting.posterior(np.eye(len(setting.K_Z))), rule, noise=setting.noise, per_task=True)
