"""Groups of bounded size that keep likeness together: the arithmetic of sharding.

Average linkage with a limit: every station begins alone, and the two groups with the largest average likeness that
still fit into one are merged, until none fit. A natural cluster that fits stays whole; a giant one is cut where its
members are least alike; stations that resemble nobody are put together all the same, because a controller keeps
strangers apart by itself (`posterior.grouped`). No two groups are left that would fit into one.

Among stations that are all alike this ends with groups a little above half the limit. So afterwards the smallest groups
are dissolved, their members going one by one where they are liked most and there is room, as long as that keeps more
likeness together than before.

Average likeness can only fall as groups merge, so what a group once had as its best is an upper bound ever after: it is
looked at again only when it leads. That makes it O(M²) in practice, for M stations.
"""

import numpy as np

from kinband.arrays import FloatArray, IntArray


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
