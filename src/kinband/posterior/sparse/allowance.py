"""How much of what is forgotten may be taken as independent: what keeps the widths of a sparse posterior honest.

A row that does not become a point tells y = (what the points see) + (a residual of variance r) + noise. Taking
residuals of different rows as independent, as FITC does, makes a sparse belief far too sure: a thousand rows at one
place share one residual, and averaging does not remove it. Write A for the information of all rows and S for what the
belief keeps. If a direction e (unit, of the row's residual or of a dropped point) is marginalised with prior
precision κ instead of 1,

    A + Σ κ e eᵀ ≥ S   in the order of positive semi-definite matrices,

because a Schur complement is what is left. With N = Σ κ e eᵀ, I + A ≥ (I + S)/(1 + ‖N‖), and so the exact variance is
at most 1 + ‖N‖ times the sparse one. ‖N‖ ≤ Σκ, which is what `Allowance.total` holds: a certificate, though a loose
one, since directions forgotten in different places are nearly orthogonal and do not add up. So every point answers
for the rows next to it, its *cell*, and for each task there: the κ of directions that may be the same sum to at most
`SHARE`, those of another task counting by the square of its correlation. A full cell teaches nothing more; by then
the points see it about as finely as they can, since the information it has given is `SHARE`/r and r stays in every
width anyway.

κ → noise: a row with residual r is learned with the noise λ + r/κ (κ = 1 is FITC). The first rows of a cell get more,
and where r is small against λ the sum lasts for about λ/r rows; after that, information per κ is 1/r whatever the
schedule.
"""

from math import sqrt

import numpy as np

from kinband.arrays import FloatArray

SHARE = 1.0
"""What κ of one direction may sum to; where cells do not overlap, σ²_exact ≤ (1 + SHARE) σ²_sparse."""

STEP = 0.5
"""The share of what is left that one row or point takes at most."""


def kappa(spent: float, information: float) -> float:
    """Return the κ of a direction with `information` (signal to noise) of which so much is spent already.

    Spending √(2·SHARE·Σ information) in all keeps weights near 1 as long as the allowance is wide.

    Example:
        >>> kappa(0.0, 1e-6) > kappa(0.4, 1e-6) > 1e-7
        True
        >>> kappa(1.0, 1.0)
        0.0
    """
    wanted = 2.0 * SHARE * information
    free = wanted / (sqrt(spent**2 + wanted) + spent) if wanted > 0.0 else 0.0
    return max(0.0, min(free, STEP * (SHARE - spent)))


class Allowance:
    """What every task has spent in the cell of every point, and what all ever have.

    Args:
        K_Z: Task matrix, (M, M).
        spent: One row per cell, (m, M); none to start with.
        total: The sum of all κ.

    Example:
        >>> allowance = Allowance(np.array([[1.0, 0.5], [0.5, 1.0]]), np.zeros((1, 2)))
        >>> allowance.take(0, task=0, information=3.0), allowance.take(0, task=1, information=3.0)
        (0.5, 0.4375)
        >>> allowance.spent.tolist(), allowance.total
        ([[0.5, 0.4375]], 0.9375)
    """

    def __init__(self, K_Z: FloatArray, spent: FloatArray | None = None, total: float = 0.0) -> None:
        scale = np.sqrt(np.diagonal(K_Z))
        self._likeness = (K_Z / np.multiply.outer(scale, scale)) ** 2
        self.spent = np.zeros((0, len(K_Z))) if spent is None else spent
        self.total = total

    def extended(self, K_Z: FloatArray) -> "Allowance":
        """Return the same with further tasks, which have spent nothing; K_Z (M', M') begins with the present matrix.

        Example:
            >>> Allowance(np.eye(1), np.array([[0.5]]), 0.5).extended(np.eye(2)).spent.tolist()
            [[0.5, 0.0]]
        """
        spent = np.zeros((len(self.spent), len(K_Z)))
        spent[:, : self.spent.shape[1]] = self.spent
        return Allowance(K_Z, spent, self.total)

    def take(self, cell: int, *, task: int, information: float) -> float:
        """Spend in a cell, and return the κ."""
        share = kappa(float(self.spent[cell] @ self._likeness[task]), information)
        self.spent[cell, task] += share
        self.total += share
        return share

    def found(self, parent: int | None, *, novelty: float) -> None:
        """Add the cell of a new point; `novelty` is the share of its variance that the others left open."""
        inherited = np.zeros_like(self._likeness[0]) if parent is None else (1.0 - novelty) * self.spent[parent]
        self.spent = np.concatenate([self.spent, inherited[None]])

    def merge(self, cell: int, *, into: int, task: int, information: float) -> float:
        """Give up a cell in favour of another and return the κ of its point; the last cell takes its number."""
        self.spent[into] = np.maximum(self.spent[into], self.spent[cell])
        share = self.take(into, task=task, information=information)
        self.spent[cell] = self.spent[-1]
        self.spent = self.spent[:-1].copy()
        return share
