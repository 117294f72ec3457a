"""What is believed about every station's rewards, given all rewards told so far.

`contract` says what a posterior is; `exact` keeps it on a growing Cholesky factor (`factor`), `schur` as the paper
does, and `grouped` splits stations that share nothing into separate small ones.
"""

from numpy.typing import ArrayLike

from kinband.arrays import FloatArray
from kinband.errors import BadInputError
from kinband.kernels import Kernel, check_task_matrix, components
from kinband.posterior.contract import Correctable, Posterior, Prediction, Restorable, Samplable
from kinband.posterior.exact import ExactPosterior
from kinband.posterior.factor import Column
from kinband.posterior.grouped import Engine, GroupedPosterior
from kinband.posterior.schur import SchurPosterior

AnyPosterior = ExactPosterior | SchurPosterior | GroupedPosterior

ENGINES: dict[str, Engine] = {"exact": ExactPosterior, "schur": SchurPosterior}

__all__ = [
    "ENGINES",
    "AnyPosterior",
    "Column",
    "Correctable",
    "ExactPosterior",
    "GroupedPosterior",
    "Posterior",
    "Prediction",
    "Restorable",
    "Samplable",
    "SchurPosterior",
    "make_posterior",
]


def make_posterior(
    kernel: Kernel,
    K_Z: ArrayLike,
    *,
    noise: float,
    mean: float = 0.0,
    engine: str = "exact",
    configurations: FloatArray | None = None,
) -> AnyPosterior:
    """Return the posterior that suits a task matrix: one, or one per group of related tasks.

    `configurations`, features of the arms (N, f), says that contexts are a state followed by one of these.

    Example:
        >>> from kinband.kernels import RBF
        >>> type(make_posterior(RBF(), [[1.0, 0.5], [0.5, 1.0]], noise=0.1)).__name__
        'ExactPosterior'
        >>> type(make_posterior(RBF(), [[1.0, 0.0], [0.0, 1.0]], noise=0.1)).__name__
        'GroupedPosterior'
    """
    if engine not in ENGINES:
        raise BadInputError(f"unknown engine {engine!r}: choose one of {', '.join(ENGINES)}")
    K_Z = check_task_matrix(K_Z)
    options = {"configurations": configurations} if engine == "exact" else {}
    if len(components(K_Z)) > 1:
        return GroupedPosterior(kernel, K_Z, noise=noise, mean=mean, engine=ENGINES[engine], **options)
    return ENGINES[engine](kernel, K_Z, noise=noise, mean=mean, **options)
