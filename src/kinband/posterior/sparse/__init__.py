"""The sparse posterior: beliefs about f through a bounded number of points, at the same cost per reward for ever.

`posterior` is the engine and decides which points are kept; `belief` is the algebra on them; `allowance` says how much
of a forgotten direction may be taken as independent, which keeps widths honest; `start` chooses the first points from
a block of rows.
"""

from kinband.posterior.sparse.posterior import BUDGET, SparsePosterior, checked_budget

__all__ = ["BUDGET", "SparsePosterior", "checked_budget"]
