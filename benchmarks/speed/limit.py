"""The limit: the bare arithmetic of a forward substitution on plain arrays, with nothing around it."""

import numpy as np

from kinband.arrays import FloatArray

PANEL = 128


class BareFactor:
    """Row panels of a lower triangle with the inverses of their diagonal blocks, filled with small numbers.

    Example:
        >>> BareFactor(200, rng=np.random.default_rng(0)).sweep(np.ones((200, 3))).shape
        (200, 3)
    """

    def __init__(self, rows: int, *, rng: np.random.Generator) -> None:
        self.rows = rows
        self._panels: list[FloatArray] = []
        self._inverses: list[FloatArray] = []
        for start in range(0, rows, PANEL):
            height = min(PANEL, rows - start)
            self._panels.append(1e-3 * rng.standard_normal((height, start)))
            self._inverses.append(np.eye(height) + 1e-3 * np.tril(rng.standard_normal((height, height)), -1))

    def sweep(self, R: FloatArray) -> FloatArray:
        """Return L⁻¹R for R (rows, m)."""
        V = np.empty_like(R)
        for p, (panel, inverse) in enumerate(zip(self._panels, self._inverses, strict=True)):
            start, stop = p * PANEL, p * PANEL + len(panel)
            rest = R[start:stop] - panel @ V[:start] if start else R[start:stop]
            np.matmul(inverse, rest, out=V[start:stop])
        return V
