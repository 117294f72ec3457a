"""Which stations go together."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from kinband.arrays import FloatArray, IntArray, finite_array
from kinband.controller import Settings
from kinband.controller.config import ControllerConfig, checked_seed
from kinband.controller.settings import checked_space, cold_settings
from kinband.errors import BadInputError, NotFoundError
from kinband.model import learn_model
from kinband.records import Samples
from kinband.similarity import TaskMatrix
from kinband.similarity.matrix import check_stations
from kinband.space import ConfigurationSpace
from kinband.trace import Trace

# --- Groups of bounded size that keep likeness together: the arithmetic of sharding ---------------------------------
#
# Average linkage with a limit: every station begins alone, and the two groups with the largest average likeness that
# still fit into one are merged, until none fit. A natural cluster that fits stays whole; a giant one is cut where its
# members are least alike; stations that resemble nobody are put together all the same, because a controller keeps
# strangers apart by itself (`posterior.grouped`). No two groups are left that would fit into one.
#
# Among stations that are all alike this ends with groups a little above half the limit. So afterwards the smallest
# groups are dissolved, their members going one by one where they are liked most and there is room, as long as that
# keeps more likeness together than before.
#
# Average likeness can only fall as groups merge, so what a group once had as its best is an upper bound ever after: it
# is looked at again only when it leads. That makes it O(M²) in practice, for M stations.


def pack(likeness: FloatArray, *, size: int) -> list[IntArray]:
    """Return groups of at most `size` members, each ascending, in order of their first member.

    Args:
        likeness: Symmetric and non-negative, (M, M); the diagonal is ignored.
        size: The most members of a group.

    Example:
        >>> A = np.array([[1.0, 0.0, 0.9], [0.0, 1.0, 0.1], [0.9, 0.1, 1.0]])
        >>> [group.tolist() for group in pack(A, size=2)]
        [[0, 2], [1]]
    """
    return refill(likeness, link(likeness, size=size), size=size)


def link(likeness: FloatArray, *, size: int) -> list[IntArray]:
    """Merge the groups that are most alike on average, as long as two fit into one; likeness is (M, M).

    Example:
        >>> [group.tolist() for group in link(np.ones((5, 5)), size=2)]
        [[0, 1], [2, 3], [4]]
    """
    merging = _Merging(likeness, size)
    while merging.step():
        pass
    return _ordered(merging.members)


def refill(likeness: FloatArray, groups: list[IntArray], *, size: int) -> list[IntArray]:
    """Dissolve small groups into the room that others have, where that keeps more likeness (M, M) together.

    Example:
        >>> groups = [np.array([0, 1]), np.array([2, 3]), np.array([4, 5])]
        >>> [group.tolist() for group in refill(np.ones((6, 6)), groups, size=3)]
        [[0, 2, 3], [1, 4, 5]]
    """
    members = [group.tolist() for group in groups]
    for g in sorted(range(len(members)), key=lambda g: len(members[g])):
        others = [h for h in range(len(members)) if h != g and members[h]]
        if sum(size - len(members[h]) for h in others) >= len(members[g]):
            _dissolve(likeness, members, g, others, size)
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


def likeness_within(likeness: FloatArray, groups: list[IntArray]) -> tuple[float, float]:
    """Return Σ|likeness| over all pairs inside the groups, and over the pairs that they part; likeness is (M, M).

    Example:
        >>> A = np.array([[1.0, 0.0, -0.9], [0.0, 1.0, 0.1], [-0.9, 0.1, 1.0]])
        >>> kept, cut = likeness_within(A, [np.array([0, 2]), np.array([1])])
        >>> round(kept, 3), round(cut, 3)
        (0.9, 0.1)
    """
    kept = sum(_pairs(likeness[np.ix_(group, group)]) for group in groups)
    return kept, max(0.0, _pairs(likeness) - kept)


def _pairs(A: FloatArray) -> float:
    return float(np.abs(A).sum() - np.abs(np.diagonal(A)).sum()) / 2


class _Merging:
    """Groups on their way: sums of likeness between them, and what each last knew of its best partner."""

    def __init__(self, likeness: FloatArray, size: int) -> None:
        M = len(likeness)
        self.limit = size
        self.members: list[list[int]] = [[m] for m in range(M)]
        self._sums = np.array(likeness, dtype=np.float64)
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
# A round costs the square of the rewards that one controller knows, so a country is not one controller. Stations are
# split into shards by how alike they are; each shard gets a controller of its own, and likeness between shards is given
# up. `Shards` says how much that was: the share of Σ|ρ| over pairs of stations, ρ being K_Z scaled to ones on its
# diagonal, that lies between shards.
#
# A task matrix of 10,000 stations has 10⁸ entries, and measuring them all from logs is out of reach. Networks come
# with a coarse order of their own: regions, vendors, bands, kinds of site. So there are two ways in: `shard_stations`
# for a whole matrix (a city, a region), and `shard_blocks` for a country: blocks first (see `blocks`), likeness
# measured inside each block only. What lies between blocks is then estimated from a sample of stations.

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


# --- How a fleet comes about: from what the user declares, or from a log; one set of settings per shard -------------


def declared_settings(
    space: ConfigurationSpace, shards: Shards, config: ControllerConfig, *, log: Samples | None, **common: Any
) -> list[Settings]:
    """Return the settings of every shard of a fleet that is declared."""
    if not isinstance(shards, Shards):
        raise BadInputError(f"shards must be Shards, got {type(shards).__name__}: shard_stations() makes them")
    parts = [part.stations for part in shards.parts]
    logs: Sequence[Samples | None] = [None] * len(parts) if log is None else split_samples(log, parts)
    return [
        cold_settings(space, part.stations, _of_shard(config, part, shard), log=rows, **common)
        for shard, (part, rows) in enumerate(zip(shards.parts, logs, strict=True))
    ]


def _of_shard(config: ControllerConfig, part: TaskMatrix, shard: int) -> ControllerConfig:
    return config.replace(similarity=part, seed=shard_seed(config.seed, shard))


def settings_of_trace(
    trace: Trace,
    space: ConfigurationSpace | None,
    config: ControllerConfig,
    *,
    blocks: Mapping[str, Hashable] | None,
    size: int,
    start: bool,
) -> tuple[list[Settings], Shards]:
    """Return the settings of a fleet that has learned from a trace, and its shards.

    Every block has one model (scaling, kernel, similarity, noise and mean), learned from the rows of its stations; the
    shards inside it share all but the similarity, of which each has its part.
    """
    if not isinstance(trace, Trace):
        raise BadInputError(f"from_trace takes a Trace, got {type(trace).__name__}: Trace.read(path) makes one")
    trace = trace.with_space(trace.space() if space is None else checked_space(space))
    settings: list[Settings] = []
    found: list[Shards] = []
    for number, rows in enumerate(_rows_of_blocks(trace, blocks)):
        part = trace.select(rows)
        encoder = part.encoder()
        samples = part.samples(encoder)
        similarity: Any = "embedding" if config.similarity is None else config.similarity
        model = learn_model(
            samples, similarity, rng=np.random.default_rng([config.seed, 0, number]), log=part,
            kernel=config.kernel, noise=config.noise, mean=config.mean,
        )  # fmt: skip
        learned = config.replace(kernel=model.kernel, noise=model.noise, mean=model.mean)
        shards = shard_stations(model.similarity, size=size)
        logs = split_samples(samples, [part.stations for part in shards.parts])
        for alike, log in zip(shards.parts, logs, strict=True):
            settings.append(
                cold_settings(
                    encoder.space, alike.stations, _of_shard(learned, alike, len(settings)), state=encoder.state,
                    log=log if start else None,
                )
            )  # fmt: skip
        found.append(shards)
    parts = tuple(part for shards in found for part in shards.parts)
    return settings, Shards(parts, sum(s.kept for s in found), sum(s.cut for s in found))


def split_samples(samples: Samples, parts: Sequence[tuple[str, ...]]) -> list[Samples]:
    """Return the rows of each group of stations, with tasks numbered anew.

    Example:
        >>> log = Samples(("a", "b"), np.array([1, 0, 1]), np.zeros((3, 1)), np.array([1.0, 2.0, 3.0]), None, ("load",))
        >>> [(part.stations, part.tasks.tolist(), part.y.tolist()) for part in split_samples(log, [("b",), ("a",)])]
        [(('b',), [0, 0], [1.0, 3.0]), (('a',), [0], [2.0])]
    """
    place = {name: (shard, task) for shard, names in enumerate(parts) for task, name in enumerate(names)}
    if missing := [name for name in samples.stations if name not in place]:
        raise NotFoundError(f"the log has {len(missing)} station(s) that are in no shard, such as {missing[0]!r}")
    where = np.array([place[name] for name in samples.stations], dtype=np.int64).reshape(-1, 2)
    shards, tasks = where[samples.tasks, 0], where[samples.tasks, 1]
    renumbered = replace(samples, tasks=tasks)
    return [
        replace(renumbered.take(np.flatnonzero(shards == shard)), stations=names) for shard, names in enumerate(parts)
    ]


def shard_seed(seed: int, shard: int) -> int:
    """Return the seed of a shard: shards with one seed in common would draw the same numbers.

    Example:
        >>> shard_seed(7, 0) == shard_seed(7, 0) != shard_seed(7, 1)
        True
    """
    return int(np.random.SeedSequence([checked_seed(seed), shard]).generate_state(1)[0])


def _rows_of_blocks(trace: Trace, blocks: Mapping[str, Hashable] | None) -> list[Any]:
    """Return which rows belong to each block, (n,) booleans, in order of the blocks' first station."""
    if blocks is None:
        return [np.ones(len(trace), dtype=np.bool_)]
    if missing := [name for name in trace.stations if name not in blocks]:
        raise NotFoundError(f"blocks does not say where station {missing[0]!r} belongs")
    numbers: dict[Hashable, int] = {}
    for name in trace.stations:
        numbers.setdefault(blocks[name], len(numbers))
    of_row = np.array([numbers[blocks[name]] for name in trace.station.tolist()])
    return [of_row == number for number in range(len(numbers))]
