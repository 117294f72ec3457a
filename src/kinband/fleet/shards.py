"""Which stations learn together: shards of bounded size, and what is lost by parting the rest.

A round costs the square of the rewards that one controller knows, so a country is not one controller. Stations are
split into shards by how alike they are; each shard gets a controller of its own, and likeness between shards is given
up. `Shards` says how much that was: the share of Σ|ρ| over pairs of stations, ρ being K_Z scaled to ones on its
diagonal, that lies between shards.

A task matrix of 10,000 stations has 10⁸ entries, and measuring them all from logs is out of reach. Networks come with
a coarse order of their own: regions, vendors, bands, kinds of site. So there are two ways in: `shard_stations` for a
whole matrix (a city, a region), and `shard_blocks` for a country: blocks first (see `blocks`), likeness measured inside
each block only. What lies between blocks is then estimated from a sample of stations.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from kinband.arrays import FloatArray, finite_array
from kinband.errors import BadInputError
from kinband.fleet.packing import likeness_within, pack
from kinband.similarity import TaskMatrix
from kinband.similarity.matrix import check_stations

Likeness = Callable[[tuple[str, ...]], ArrayLike | TaskMatrix]
"""Says how alike the named stations are, as a task matrix in their order."""

_SAMPLE = 600  # stations among which likeness between blocks is estimated


@dataclass(frozen=True, eq=False)
class Shards:
    """Stations that learn together, and what it cost to part them.

    Attributes:
        parts: One task matrix per shard.
        kept: Σ|ρ| over pairs of stations inside a shard.
        cut: Σ|ρ| over pairs of stations in different shards; an estimate where `sampled`.
        sampled: Whether some of `cut` was estimated from a sample of stations.

    Example:
        >>> K_Z = np.array([[1.0, 0.1, 0.9], [0.1, 1.0, 0.0], [0.9, 0.0, 1.0]])
        >>> print(shard_stations(K_Z, stations=["a", "b", "c"], size=2))
        3 stations in 2 shards of 1 to 2; 10 % of their likeness lies between shards
    """

    parts: tuple[TaskMatrix, ...]
    kept: float
    cut: float
    sampled: bool = False

    def __post_init__(self) -> None:
        check_stations(self.stations)

    def __len__(self) -> int:
        return len(self.parts)

    def __str__(self) -> str:
        sizes = [len(part) for part in self.parts]
        about = "about " if self.sampled else ""
        span = f"{min(sizes)} to {max(sizes)}" if min(sizes) < max(sizes) else str(sizes[0])
        return (
            f"{sum(sizes):,} stations in {len(sizes)} shards of {span}; "
            f"{about}{self.lost:.0%} of their likeness lies between shards".replace("%", " %")
        )

    @property
    def stations(self) -> tuple[str, ...]:
        """All stations, shard by shard."""
        return tuple(name for part in self.parts for name in part.stations)

    @property
    def lost(self) -> float:
        """The share of likeness that is given up, 0 to 1."""
        return self.cut / (self.kept + self.cut) if self.cut > 0 else 0.0


def shard_stations(
    similarity: ArrayLike | TaskMatrix, *, stations: Sequence[str] | None = None, size: int = 100
) -> Shards:
    """Split stations by their task matrix, (M, M).

    Args:
        similarity: How alike they are; 10,000 stations are possible but take 2 GB, see `shard_blocks`.
        stations: Their names, where the matrix does not bring them.
        size: The most stations of a shard.

    Example:
        >>> K_Z = np.kron(np.eye(2), [[1.0, 0.5], [0.5, 1.0]])
        >>> alike = TaskMatrix(("a", "b", "c", "d"), K_Z, "given")
        >>> [part.stations for part in shard_stations(alike, size=3).parts]
        [('a', 'b'), ('c', 'd')]
    """
    method = similarity.method if isinstance(similarity, TaskMatrix) else "given"
    if isinstance(similarity, TaskMatrix):
        names, K_Z = check_stations(similarity.stations if stations is None else stations), similarity.matrix
        if names != similarity.stations:
            K_Z = similarity.reindex(names).matrix
    elif stations is None:
        raise BadInputError("a plain matrix does not name its stations: give stations=")
    else:
        names, K_Z = check_stations(stations), _square(similarity, len(stations))
    return _shards_of(names, K_Z, method=method, size=_checked_size(size))


def shard_blocks(
    blocks: Sequence[Sequence[str]], likeness: Likeness, *, rng: np.random.Generator, size: int = 100
) -> Shards:
    """Split stations that come in blocks (regions, bands, kinds of site); likeness is measured inside blocks only.

    Args:
        blocks: Station names, block by block; a block of a few thousand is quick.
        likeness: Returns the task matrix of the stations it is given, in their order.
        rng: Draws the stations among which the loss between blocks is estimated.
        size: The most stations of a shard.

    Example:
        >>> north, south = ["n1", "n2", "n3"], ["s1", "s2"]
        >>> pooled = lambda names: np.ones((len(names), len(names)))
        >>> print(shard_blocks([north, south], pooled, rng=np.random.default_rng(0), size=3))
        5 stations in 2 shards of 2 to 3; about 60 % of their likeness lies between shards
    """
    limit = _checked_size(size)
    if not blocks or not all(len(block) for block in blocks):
        raise BadInputError("shard_blocks takes at least one block, and no empty ones")
    found = [_measured(tuple(block), likeness, size=limit) for block in blocks]
    parts = tuple(part for shards in found for part in shards.parts)
    kept, cut = sum(shards.kept for shards in found), sum(shards.cut for shards in found)
    if len(found) == 1:
        return found[0]
    between = _between_blocks([shards.stations for shards in found], likeness, rng=rng)
    return Shards(parts, kept, cut + between, sampled=True)


def _shards_of(names: tuple[str, ...], K_Z: FloatArray, *, method: str, size: int) -> Shards:
    alike = _alike(K_Z)
    groups = pack(alike, size=size)
    kept, cut = likeness_within(alike, groups)
    parts = [TaskMatrix(tuple(names[m] for m in group), K_Z[np.ix_(group, group)], method) for group in groups]
    return Shards(tuple(parts), kept, cut)


def _measured(names: tuple[str, ...], likeness: Likeness, *, size: int) -> Shards:
    found = likeness(names)
    if isinstance(found, TaskMatrix):
        return shard_stations(found, stations=names, size=size)
    return _shards_of(check_stations(names), _square(found, len(names)), method="given", size=size)


def _between_blocks(blocks: Sequence[tuple[str, ...]], likeness: Likeness, *, rng: np.random.Generator) -> float:
    """Estimate Σ|ρ| over pairs of stations in different blocks from a sample of stations."""
    names = [name for block in blocks for name in block]
    block_of = np.repeat(np.arange(len(blocks)), [len(block) for block in blocks])
    chosen = np.sort(rng.choice(len(names), size=min(_SAMPLE, len(names)), replace=False))
    found = likeness(tuple(names[m] for m in chosen))
    K_Z = _square(found.matrix if isinstance(found, TaskMatrix) else found, len(chosen))
    apart = np.not_equal.outer(block_of[chosen], block_of[chosen])
    if not apart.any():
        return 0.0
    sizes = np.array([len(block) for block in blocks], dtype=np.float64)
    pairs = (sizes.sum() ** 2 - (sizes**2).sum()) / 2
    return float(_alike(K_Z)[apart].mean() * pairs)


def _alike(K_Z: FloatArray) -> FloatArray:
    """Return |ρ|, the size of the correlations of a task matrix, (M, M)."""
    if not np.all(np.diagonal(K_Z) > 0):
        raise BadInputError("a task matrix needs a diagonal above zero")
    scale = np.sqrt(np.diagonal(K_Z))
    return np.abs(K_Z / np.multiply.outer(scale, scale))


def _square(K_Z: ArrayLike, size: int) -> FloatArray:
    matrix = finite_array(K_Z, name="task matrix", ndim=2)
    if matrix.shape != (size, size):
        raise BadInputError(f"the task matrix has shape {matrix.shape}, there are {size} stations")
    return matrix


def _checked_size(size: int) -> int:
    if isinstance(size, bool) or not isinstance(size, int | np.integer) or size < 1:
        raise BadInputError(f"size must be a whole number from 1 on, got {size!r}")
    return int(size)
