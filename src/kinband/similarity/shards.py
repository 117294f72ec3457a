"""Shards: a network of thousands of stations, cut into groups that learn apart.

A posterior costs the square of the rewards it knows, so thousands of stations are not one. They are split by how alike
they are, none of the groups larger than a limit, and the task matrix is set to zero between groups: the posterior then
falls into as many blocks (`kinband.posterior.blocks`), and everything else stays as it is. `Controller(shards=100)`
does so with whatever similarity it has learned or was given.

A task matrix that cannot be measured as a whole is measured inside blocks: regions, vendors, bands, or neighbours on a
map (`coarse_blocks`, `shard_blocks`).
"""

import json
import zipfile
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from kinband.arrays import FloatArray, IntArray, finite_array, positive_number
from kinband.errors import BadInputError, NotFoundError, SavedStateError
from kinband.kernels import BlockMatrix
from kinband.similarity.matrix import TaskMatrix, check_stations

# --- Groups of bounded size that keep similarity together: the arithmetic of sharding -------------------------------
#
# Average linkage with a limit: every station begins alone, and the two groups with the largest average similarity that
# still fit into one are merged, until none fit. A natural cluster that fits stays whole; a giant one is cut where its
# members are least alike; stations that resemble nobody are put together all the same, because a posterior keeps
# strangers apart by itself. No two groups are left that would fit into one.
#
# Among stations that are all alike this ends with groups a little above half the limit. So afterwards the smallest
# groups are dissolved, their members going one by one where they are liked most and there is room, as long as that
# keeps more similarity together than before.
#
# Average similarity can only fall as groups merge, so what a group once had as its best bounds it ever after: it
# is looked at again only when it leads. That makes it O(M²) in practice, for M stations.


def pack(similarity: FloatArray, *, size: int) -> list[IntArray]:
    """Return groups of at most `size` members, each ascending, in order of their first member.

    Args:
        similarity: Symmetric and non-negative, (M, M); the diagonal is ignored.
        size: The most members of a group.

    Example:
        >>> A = np.array([[1.0, 0.0, 0.9], [0.0, 1.0, 0.1], [0.9, 0.1, 1.0]])
        >>> [group.tolist() for group in pack(A, size=2)]
        [[0, 2], [1]]
    """
    return refill(similarity, link(similarity, size=size), size=size)


def link(similarity: FloatArray, *, size: int) -> list[IntArray]:
    """Merge the groups that are most alike on average, as long as two fit into one; similarity is (M, M).

    Example:
        >>> [group.tolist() for group in link(np.ones((5, 5)), size=2)]
        [[0, 1], [2, 3], [4]]
    """
    merging = _Merging(similarity, size)
    while merging.step():
        pass
    return _ordered(merging.members)


def refill(similarity: FloatArray, groups: list[IntArray], *, size: int) -> list[IntArray]:
    """Dissolve small groups into the room that others have, where that keeps more similarity (M, M) together.

    Example:
        >>> groups = [np.array([0, 1]), np.array([2, 3]), np.array([4, 5])]
        >>> [group.tolist() for group in refill(np.ones((6, 6)), groups, size=3)]
        [[0, 2, 3], [1, 4, 5]]
    """
    members = [group.tolist() for group in groups]
    for g in sorted(range(len(members)), key=lambda g: len(members[g])):
        others = [h for h in range(len(members)) if h != g and members[h]]
        if sum(size - len(members[h]) for h in others) >= len(members[g]):
            _dissolve(similarity, members, g, others, size)
    return _ordered(members)


def _dissolve(A: FloatArray, members: list[list[int]], g: int, others: list[int], size: int) -> None:
    """Move the members of group g to others that have room, unless that keeps less together."""
    liked = np.array([A[np.ix_(members[g], members[h])].sum(axis=1) for h in others])  # (others, members of g)
    room = np.array([size - len(members[h]) for h in others])
    gain, moves = -_pairs(A[np.ix_(members[g], members[g])]), []
    for column, m in enumerate(members[g]):
        to = int(np.argmax(np.where(room > 0, liked[:, column], -1.0)))
        gain += float(liked[to, column])
        room[to] -= 1
        liked[to] += A[members[g], m]
        moves.append((m, others[to]))
    if gain > 0:
        for m, h in moves:
            members[h].append(m)
        members[g] = []


def _ordered(members: list[list[int]]) -> list[IntArray]:
    found = [np.array(sorted(group), dtype=np.int64) for group in members if group]
    return sorted(found, key=lambda group: int(group[0]))


def similarity_within(similarity: FloatArray, groups: list[IntArray]) -> tuple[float, float]:
    """Return Σ|similarity| over all pairs inside the groups, and over the pairs that they part; similarity is (M, M).

    Example:
        >>> A = np.array([[1.0, 0.0, -0.9], [0.0, 1.0, 0.1], [-0.9, 0.1, 1.0]])
        >>> kept, cut = similarity_within(A, [np.array([0, 2]), np.array([1])])
        >>> round(kept, 3), round(cut, 3)
        (0.9, 0.1)
    """
    kept = sum(_pairs(similarity[np.ix_(group, group)]) for group in groups)
    return kept, max(0.0, _pairs(similarity) - kept)


def _pairs(A: FloatArray) -> float:
    return float(np.abs(A).sum() - np.abs(np.diagonal(A)).sum()) / 2


class _Merging:
    """Groups on their way: sums of similarity between them, and what each last knew of its best partner."""

    def __init__(self, similarity: FloatArray, size: int) -> None:
        M = len(similarity)
        self.limit = size
        self.members: list[list[int]] = [[m] for m in range(M)]
        self._sums = np.array(similarity, dtype=np.float64)
        self._sizes = np.ones(M, dtype=np.int64)
        self._best = np.full(M, np.inf)  # upper bounds
        self._mate = np.zeros(M, dtype=np.int64)

    def step(self) -> bool:
        """Look at the group that leads and merge it if it holds what it promises; False when nothing fits."""
        i = int(np.argmax(self._best))
        bound = self._best[i]
        if bound < 0:
            return False
        self._look(i)
        if self._best[i] == bound:
            self._merge(i, int(self._mate[i]))
        return True

    def _look(self, i: int) -> None:
        """Find the best partner of group i as things are."""
        average = self._sums[i] / (self._sizes * self._sizes[i])
        average[self._sizes + self._sizes[i] > self.limit] = -1.0
        average[i] = -1.0
        self._mate[i] = j = int(np.argmax(average))
        self._best[i] = average[j]

    def _merge(self, i: int, j: int) -> None:
        self.members[i] += self.members[j]
        self.members[j] = []
        self._sums[i] += self._sums[j]
        self._sums[:, i] = self._sums[i]
        self._sizes[i] += self._sizes[j]
        self._sizes[j] = self.limit + 1  # fits nowhere any more
        self._best[j] = -1.0
        self._look(i)


# --- Which stations learn together: shards of bounded size, and what is lost by parting the rest --------------------
#
# Similarity between shards is given up. `Shards` says how much that was: the share of Σ|ρ| over pairs of stations, ρ
# being K_Z scaled to ones on its diagonal, that lies between shards.
#
# A task matrix of 10,000 stations has 10⁸ entries, and measuring them all from logs is out of reach. Networks come
# with a coarse order of their own: regions, vendors, bands, kinds of site. So there are two ways in: `shard_stations`
# for a whole matrix (a city, a region), and `shard_blocks` for a country: blocks first, similarity
# measured inside each block only. What lies between blocks is then estimated from a sample of stations.

SimilarityOf = Callable[[tuple[str, ...]], ArrayLike | TaskMatrix]
"""Says how alike the named stations are, as a task matrix in their order."""

_SAMPLE = 600  # stations among which similarity between blocks is estimated


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
        3 stations in 2 shards of 1 to 2; 10 % of their similarity lies between shards
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
            f"{about}{self.lost:.0%} of their similarity lies between shards".replace("%", " %")
        )

    @property
    def stations(self) -> tuple[str, ...]:
        """All stations, shard by shard."""
        return tuple(name for part in self.parts for name in part.stations)

    def matrix(self, stations: Sequence[str] | None = None) -> TaskMatrix:
        """Return the task matrix of all stations, or of these in their order, which is zero between shards.

        It keeps what lies inside of shards alone (`TaskMatrix.K_Z`).

        Example:
            >>> shard_stations(np.full((3, 3), 0.5) + 0.5 * np.eye(3), stations=["a", "b", "c"], size=2).matrix().matrix
            array([[1. , 0.5, 0. ],
                   [0.5, 1. , 0. ],
                   [0. , 0. , 1. ]])
        """
        names = self.stations if stations is None else check_stations(stations)
        place = {name: m for m, name in enumerate(names)}
        parts = self.of(names).parts
        rows = [np.array([place[name] for name in part.stations]) for part in parts]
        blocks = BlockMatrix.of(rows, [part.matrix for part in parts])
        K_Z = blocks if len(parts) > 1 else np.asarray(blocks)
        details = {"shards": len(self), "largest": max(map(len, self.parts)), "lost": self.lost}
        return TaskMatrix(names, K_Z, self.parts[0].method, {**self.parts[0].details, **details})

    def of(self, stations: Sequence[str]) -> "Shards":
        """Return the shards of these stations alone, in whose order they are within a shard.

        Example:
            >>> shards = shard_stations(np.full((3, 3), 0.5) + 0.5 * np.eye(3), stations=["a", "b", "c"], size=2)
            >>> [part.stations for part in shards.of(["c", "b"]).parts]
            [('b',), ('c',)]
        """
        place = {name: number for number, name in enumerate(check_stations(stations))}
        if missing := sorted(place.keys() - set(self.stations)):
            raise NotFoundError(f"no station {missing[0]!r} among these {len(self.stations):,} stations in shards")
        kept = [sorted((name for name in part.stations if name in place), key=place.__getitem__) for part in self.parts]
        parts = [part.reindex(names) for part, names in zip(self.parts, kept, strict=True) if names]
        return replace(self, parts=tuple(parts))

    def save(self, path: str | PathLike[str]) -> None:
        """Write to a `.npz` file, which `load_similarity` reads.

        Example:
            >>> import tempfile, pathlib
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     path = pathlib.Path(folder) / "similarity.npz"
            ...     shard_stations(np.eye(3), stations=["a", "b", "c"], size=2).save(path)
            ...     print(load_similarity(path))
            3 stations in 2 shards of 1 to 2; 0 % of their similarity lies between shards
        """
        first = self.parts[0]
        about = {
            "format": _FORMAT, "version": 1, "method": first.method, "details": first.details, "kept": self.kept,
            "cut": self.cut, "sampled": self.sampled, "stations": [part.stations for part in self.parts],
        }  # fmt: skip
        entries = np.concatenate([part.matrix.ravel() for part in self.parts])
        with Path(path).open("wb") as binary:  # a path would let NumPy change the name
            np.savez(binary, entries=entries, about=np.array(json.dumps(about, allow_nan=False)))

    @property
    def within(self) -> float:
        """The mean of |ρ| over pairs of stations inside a shard."""
        pairs = sum(len(part) * (len(part) - 1) // 2 for part in self.parts)
        return self.kept / pairs if pairs else 0.0

    @property
    def between(self) -> float:
        """The mean of |ρ| over pairs of stations in different shards.

        Example:
            >>> K_Z = [[1.0, 0.5, 0.2], [0.5, 1.0, 0.4], [0.2, 0.4, 1.0]]
            >>> shards = shard_stations(K_Z, stations=["a", "b", "c"], size=2)
            >>> round(shards.within, 3), round(shards.between, 3)
            (0.5, 0.3)
        """
        sizes = np.array([len(part) for part in self.parts], dtype=np.float64)
        pairs = (sizes.sum() ** 2 - (sizes**2).sum()) / 2
        return float(self.cut / pairs) if pairs else 0.0

    @property
    def lost(self) -> float:
        """The share of similarity that is given up, 0 to 1."""
        return self.cut / (self.kept + self.cut) if self.cut > 0 else 0.0


_FORMAT = "kinband shards"


def load_similarity(path: str | PathLike[str]) -> "TaskMatrix | Shards":
    """Read what `TaskMatrix.save` or `Shards.save` wrote, or a `.csv` made by hand; nothing in it is ever executed."""
    file = Path(path)
    if file.suffix.lower() == ".npz" and file.is_file() and zipfile.is_zipfile(file):
        with np.load(file, allow_pickle=False) as found:
            if "entries" in found.files:
                return _shards_in(found, file)
    return TaskMatrix.load(path)


def _shards_in(found: Mapping[str, Any], file: Path) -> Shards:
    try:
        about, entries = json.loads(str(found["about"][()])), np.asarray(found["entries"], dtype=np.float64)
        ends = np.cumsum([len(names) ** 2 for names in about["stations"]])
        blocks = zip(about["stations"], np.split(entries, ends[:-1]), strict=True)
        parts = [
            TaskMatrix(tuple(names), block.reshape(len(names), len(names)), about["method"], about["details"])
            for names, block in blocks
        ]
        return Shards(tuple(parts), float(about["kept"]), float(about["cut"]), bool(about["sampled"]))
    except (OSError, ValueError, LookupError, TypeError, zipfile.BadZipFile, BadInputError) as error:
        raise SavedStateError(f"{file} holds no shards that kinband wrote, or it is damaged: {error}") from error


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
    limit = checked_size(size)
    whole = _task_matrix(similarity, stations)
    if isinstance(whole.K_Z, BlockMatrix):  # what shares nothing is not put together
        found = [shard_stations(part, size=limit) for part in whole.parts()]
        return Shards(
            tuple(part for one in found for part in one.parts),
            sum(one.kept for one in found), sum(one.cut for one in found),
        )  # fmt: skip
    alike = np.abs(whole.correlation())
    groups = pack(alike, size=limit)
    kept, cut = similarity_within(alike, groups)
    parts = [whole.reindex([whole.stations[m] for m in group]) for group in groups]
    return Shards(tuple(parts), kept, cut)


def shard_blocks(
    blocks: Sequence[Sequence[str]], similarity: SimilarityOf, *, rng: np.random.Generator, size: int = 100
) -> Shards:
    """Split stations that come in blocks (regions, bands, kinds of site); similarity is measured inside blocks only.

    Args:
        blocks: Station names, block by block; a block of a few thousand is quick.
        similarity: Returns the task matrix of the stations it is given, in their order.
        rng: Draws the stations among which the loss between blocks is estimated.
        size: The most stations of a shard.

    Example:
        >>> north, south = ["n1", "n2", "n3"], ["s1", "s2"]
        >>> pooled = lambda names: np.ones((len(names), len(names)))
        >>> print(shard_blocks([north, south], pooled, rng=np.random.default_rng(0), size=3))
        5 stations in 2 shards of 2 to 3; about 60 % of their similarity lies between shards
    """
    limit = checked_size(size)
    if not blocks or not all(len(block) for block in blocks):
        raise BadInputError("shard_blocks takes at least one block, and no empty ones")
    found = [shard_stations(similarity(tuple(block)), stations=tuple(block), size=limit) for block in blocks]
    parts = tuple(part for shards in found for part in shards.parts)
    kept, cut = sum(shards.kept for shards in found), sum(shards.cut for shards in found)
    if len(found) == 1:
        return found[0]
    between = _between_blocks([shards.stations for shards in found], similarity, rng=rng)
    return Shards(parts, kept, cut + between, sampled=True)


def _between_blocks(blocks: Sequence[tuple[str, ...]], similarity: SimilarityOf, *, rng: np.random.Generator) -> float:
    """Estimate Σ|ρ| over pairs of stations in different blocks from a sample of stations."""
    names = [name for block in blocks for name in block]
    block_of = np.repeat(np.arange(len(blocks)), [len(block) for block in blocks])
    chosen = np.sort(rng.choice(len(names), size=min(_SAMPLE, len(names)), replace=False))
    K_Z = _task_matrix(similarity(tuple(names[m] for m in chosen)), [names[m] for m in chosen])
    apart = np.not_equal.outer(block_of[chosen], block_of[chosen])
    if not apart.any():
        return 0.0
    sizes = np.array([len(block) for block in blocks], dtype=np.float64)
    pairs = (sizes.sum() ** 2 - (sizes**2).sum()) / 2
    return float(np.abs(K_Z.correlation())[apart].mean() * pairs)


def _task_matrix(similarity: ArrayLike | TaskMatrix, stations: Sequence[str] | None) -> TaskMatrix:
    """Return the task matrix of stations, in their order where they are named."""
    if isinstance(similarity, TaskMatrix):
        return similarity if stations is None else similarity.reindex(stations)
    if stations is None:
        raise BadInputError("a plain matrix does not name its stations: give stations=", argument="stations")
    names, K_Z = check_stations(stations), finite_array(similarity, name="task matrix", ndim=2)
    if K_Z.shape != (len(names), len(names)):
        raise BadInputError(f"the task matrix has shape {K_Z.shape}, there are {len(names)} stations")
    return TaskMatrix(names, K_Z, "given")


def checked_size(size: Any) -> int:
    """Return the most stations of a shard as a plain number, or say what came instead."""
    if isinstance(size, bool) or not isinstance(size, int | np.integer) or size < 1:
        raise BadInputError(
            f"shards hold a whole number of stations from 1 on, got {size!r}", argument="shards", value=size
        )
    return int(size)


# --- Blocks of a country: by region, then by what is known of stations ----------------------------------------------
#
# Descriptors are what an operator knows of a station before any log: where it stands, its band, its height. A block is
# halved at the median of the descriptor that spreads most inside it, as in a k-d tree (Bentley, Communications of the
# ACM 18(9), 1975), until it is small enough: stations beside each other stay together, and blocks end up equally large.


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


class DescriptorSimilarity:
    """Similarity of stations by what is known of them: a Gaussian of the distance of their descriptors, as in (18).

    Args:
        stations: Their names, (M,).
        descriptors: What is known of each, (M, q); each column is standardised.
        scale: Distance, in standard deviations, at which it has fallen to exp(−1/2).

    Example:
        >>> alike = DescriptorSimilarity(["a", "b", "c"], [[0.0], [0.0], [3.0]], scale=1.0)
        >>> alike(("a", "b")).round(2).tolist()
        [[1.0, 1.0], [1.0, 1.0]]
    """

    def __init__(self, stations: Sequence[str], descriptors: ArrayLike, *, scale: float = 1.0) -> None:
        names = check_stations(stations)
        self._row = {name: row for row, name in enumerate(names)}
        self._Z = standardised(descriptors, rows=len(names)) / positive_number(scale, name="scale")

    def __call__(self, stations: tuple[str, ...]) -> FloatArray:
        """Return the similarity of the named stations, (m, m)."""
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
