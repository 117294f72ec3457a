"""What is believed about every station's rewards, given all rewards told so far.

`base` says what a posterior is and what its predictions answer; `exact` keeps it on a growing Cholesky factor, `schur`
as the paper does, `sparse` through a bounded number of points; `blocks` is the one that policies use: it keeps stations
that share nothing apart, and goes from exact to sparse where rows become many.
"""

from kinband.posterior.base import Column, Posterior, Prediction
from kinband.posterior.blocks import ENGINES, SWITCH_ROWS, BlockedPosterior, make_posterior
from kinband.posterior.exact import LARGEST_LOG, ExactPosterior
from kinband.posterior.schur import SchurPosterior
from kinband.posterior.sparse import INDUCING_POINTS, SparsePosterior, checked_inducing_points

__all__ = [
    "ENGINES",
    "INDUCING_POINTS",
    "LARGEST_LOG",
    "SWITCH_ROWS",
    "BlockedPosterior",
    "Column",
    "ExactPosterior",
    "Posterior",
    "Prediction",
    "SchurPosterior",
    "SparsePosterior",
    "checked_inducing_points",
    "make_posterior",
]
