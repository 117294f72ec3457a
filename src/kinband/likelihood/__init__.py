"""How well a model explains a log (`value`), and the search (`start`, `search`) for the model that does it best."""

from kinband.likelihood.search import BoundWarning, Fit, fit, spread_rows
from kinband.likelihood.start import spread_of, starting_kernel
from kinband.likelihood.value import log_marginal_likelihood, value_and_gradient

__all__ = [
    "BoundWarning",
    "Fit",
    "fit",
    "log_marginal_likelihood",
    "spread_of",
    "spread_rows",
    "starting_kernel",
    "value_and_gradient",
]
