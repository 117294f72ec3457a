"""How well a model explains a log (`value`), and the search for the model that does it best.

The search begins at `start`, looks at the rows of `subset`, and climbs in `search`.
"""

from kinband.likelihood.search import BoundWarning, Fit, fit
from kinband.likelihood.start import NOISE, spread_of, starting_kernel
from kinband.likelihood.subset import BLOCK_ROWS, MAX_ROWS, choose_rows, spread_rows, station_groups
from kinband.likelihood.value import log_marginal_likelihood, value_and_gradient

__all__ = [
    "BLOCK_ROWS",
    "MAX_ROWS",
    "NOISE",
    "BoundWarning",
    "Fit",
    "choose_rows",
    "fit",
    "log_marginal_likelihood",
    "spread_of",
    "spread_rows",
    "starting_kernel",
    "station_groups",
    "value_and_gradient",
]
