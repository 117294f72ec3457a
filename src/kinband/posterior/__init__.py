"""What is believed about every station's rewards, given all rewards told so far.

`base` says what a posterior is; `exact` keeps it on a growing Cholesky factor (`factor`), `schur` as the paper does,
`sparse` through a bounded number of points, and `grouped` splits stations that share nothing into separate small ones
and switches from exact to sparse where rows become many.
"""

from math import ceil, sqrt
from typing import Any

from numpy.typing import ArrayLike

from kinband.arrays import FloatArray
from kinband.errors import BadInputError
from kinband.kernels import Kernel, check_task_matrix, components
from kinband.posterior.base import Correctable, Posterior, Prediction, Restorable, Samplable
from kinband.posterior.exact import ExactPosterior
from kinband.posterior.factor import Column
from kinband.posterior.grouped import SWITCH_ROWS, Engine, GroupedPosterior, Member, SwitchingPosterior
from kinband.posterior.schur import SchurPosterior
from kinband.posterior.sparse import BUDGET, SparsePosterior, checked_budget

AnyPosterior = Member | GroupedPosterior

ENGINES: dict[str, Engine] = {
    "exact": ExactPosterior,
    "schur": SchurPosterior,
    "sparse": SparsePosterior,
    "auto": SwitchingPosterior,
}

_WHOLE_GROUPS = 64  # so many groups get the whole budget; beyond, all together take the memory of these

__all__ = [
    "BUDGET",
    "ENGINES",
    "SWITCH_ROWS",
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
    "SparsePosterior",
    "SwitchingPosterior",
    "checked_budget",
    "make_posterior",
]


def make_posterior(
    kernel: Kernel,
    K_Z: ArrayLike,
    *,
    noise: float,
    mean: float = 0.0,
    engine: str = "exact",
    budget: int = BUDGET,
    configurations: FloatArray | None = None,
) -> AnyPosterior:
    """Return the posterior that suits a task matrix: one, or one per group of related tasks.

    `budget` is how many inducing points a sparse posterior keeps, in each group; with more than 64 groups it shrinks
    with the root of their number, and so does the size at which "auto" gives up being exact, so that memory stays
    bounded. `configurations`, features of the arms (N, f), says that contexts are a state followed by one of these.

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
    groups = len(components(K_Z))
    options = _options(engine, groups, budget=checked_budget(budget), configurations=configurations)
    if groups > 1:
        return GroupedPosterior(kernel, K_Z, noise=noise, mean=mean, engine=ENGINES[engine], **options)
    return ENGINES[engine](kernel, K_Z, noise=noise, mean=mean, **options)


def _options(engine: str, groups: int, *, budget: int, configurations: FloatArray | None) -> dict[str, Any]:
    """Return what an engine takes besides the model."""
    points = max(2, ceil(budget * min(1.0, sqrt(_WHOLE_GROUPS / groups))))
    match engine:
        case "exact":
            return {"configurations": configurations}
        case "sparse":
            return {"budget": points}
        case "auto":
            rows = max(points, ceil(SWITCH_ROWS / sqrt(groups)))
            return {"budget": points, "rows": rows, "configurations": configurations, "quiet": groups > 1}
    return {}
