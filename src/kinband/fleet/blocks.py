"""The coarse order of a country: blocks of stations by region and descriptors, and likeness by descriptors.

Descriptors are what an operator knows of a station before any log: where it stands, its band, its height, how busy it
usually is. They part a country into blocks of a size that can be measured, and they can stand in for likeness where
there is no log yet. A block is halved at the median of the descriptor that spreads most inside it, as in a k-d tree
(Bentley, Communications of the ACM 18(9), 1975), until it is small enough: stations beside each other stay together,
and blocks end up equally large.
"""

from collections.abc import Hashable, Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike

from kinband.arrays import FloatArray, IntArray, finite_array, positive_number
from kinband.errors import BadInputError, NotFoundError
from kinband.similarity.matrix import check_stations


def coarse_blocks(
    stations: Sequence[str],
    descriptors: ArrayLike | None = None,
    *,
    regions: Mapping[str, Hashable] | None = None,
    size: int = 1000,
) -> list[tuple[str, ...]]:
    """Return stations in blocks of at most `size`, never over a region's border.

    Args:
        stations: Their names, (M,).
        descriptors: What is known of each, (M, q), in any unit; needed where a region is larger than `size`.
        regions: The region (or vendor, or band) of every station; None for a country without.
        size: The most stations of a block.

    Example:
        >>> coarse_blocks(["a", "b", "c", "d"], [[0.0], [9.0], [1.0], [8.0]], size=2)
        [('a', 'c'), ('b', 'd')]
    """
    names = check_stations(stations)
    if size < 1:
        raise BadInputError(f"size must be at least 1, got {size}")
    Z = None if descriptors is None else standardised(descriptors, rows=len(names))
    found: list[tuple[str, ...]] = []
    for members in _by_region(names, regions):
        if len(members) > size and Z is None:
            raise BadInputError(
                f"{len(members)} stations are more than a block of {size}: give descriptors to split by, or more room"
            )
        parts = [members] if Z is None else _halved(members, Z, size)
        found += [tuple(names[m] for m in np.sort(part)) for part in parts]
    return found


class DescriptorLikeness:
    """Likeness of stations by what is known of them: a Gaussian of the distance of their descriptors, as in (18).

    Args:
        stations: Their names, (M,).
        descriptors: What is known of each, (M, q); each column is standardised.
        scale: Distance, in standard deviations, at which likeness has fallen to exp(−1/2).

    Example:
        >>> alike = DescriptorLikeness(["a", "b", "c"], [[0.0], [0.0], [3.0]], scale=1.0)
        >>> alike(("a", "b")).round(2).tolist()
        [[1.0, 1.0], [1.0, 1.0]]
    """

    def __init__(self, stations: Sequence[str], descriptors: ArrayLike, *, scale: float = 1.0) -> None:
        names = check_stations(stations)
        self._row = {name: row for row, name in enumerate(names)}
        self._Z = standardised(descriptors, rows=len(names)) / positive_number(scale, name="scale")

    def __call__(self, stations: tuple[str, ...]) -> FloatArray:
        """Return the likeness of the named stations, (m, m)."""
        from scipy.spatial.distance import cdist

        try:
            Z = self._Z[[self._row[name] for name in stations]]
        except KeyError as error:
            raise NotFoundError(f"no descriptors are known of station {error.args[0]!r}") from None
        return np.exp(-0.5 * cdist(Z, Z, "sqeuclidean"))


def standardised(descriptors: ArrayLike, *, rows: int) -> FloatArray:
    """Return descriptors (M, q) with mean 0 and standard deviation 1 each; one that never varies becomes 0.

    Example:
        >>> standardised([[1.0, 5.0], [3.0, 5.0]], rows=2).tolist()
        [[-1.0, 0.0], [1.0, 0.0]]
    """
    Z = finite_array(descriptors, name="descriptors", ndim=2)
    if len(Z) != rows:
        raise BadInputError(f"descriptors have {len(Z)} rows, there are {rows} stations")
    spread = Z.std(axis=0)
    spread[np.ptp(Z, axis=0) == 0] = np.inf
    return np.asarray((Z - Z.mean(axis=0)) / spread)


def _by_region(names: tuple[str, ...], regions: Mapping[str, Hashable] | None) -> list[IntArray]:
    if regions is None:
        return [np.arange(len(names))]
    found: dict[Hashable, list[int]] = {}
    for m, name in enumerate(names):
        if name not in regions:
            raise NotFoundError(f"regions does not say where station {name!r} lies")
        found.setdefault(regions[name], []).append(m)
    return [np.array(members, dtype=np.int64) for members in found.values()]


def _halved(members: IntArray, Z: FloatArray, size: int) -> list[IntArray]:
    """Halve at the median of the descriptor that spreads most, until every part is small enough."""
    if len(members) <= size:
        return [members]
    widest = int(np.argmax(Z[members].std(axis=0)))
    order = members[np.argsort(Z[members, widest], kind="stable")]
    half = len(order) // 2
    return [*_halved(order[:half], Z, size), *_halved(order[half:], Z, size)]
