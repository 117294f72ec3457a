"""The rows of a log, station by station, and the kernel between every pair of stations.

Both the embedding and the prediction estimator need k(x, x′) between the rows of all pairs of stations. `kernel_blocks`
hands them over one piece at a time: a station against a few others, few enough for the piece to stay in the
processor's cache, so that memory does not grow with the log.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from kinband.arrays import FloatArray, IntArray
from kinband.errors import BadInputError
from kinband.kernels import Kernel
from kinband.records import Samples
from kinband.similarity.gram import gram

BLOCK_ENTRIES = 2**18
"""Numbers in one piece of the kernel matrix: two megabytes."""


class HasSamples(Protocol):
    """A log that can turn itself into numbers, such as a `Trace`.

    Example:
        >>> class Notebook:
        ...     def samples(self) -> Samples:
        ...         return Samples(("a",), np.array([0]), np.zeros((1, 1)), np.array([0.5]), None, ("load",))
        >>> samples_of(Notebook()).stations
        ('a',)
    """

    def samples(self) -> Samples:
        """Return the log in numbers."""
        ...


Log = Samples | HasSamples
"""What estimators learn from."""


def samples_of(log: Log) -> Samples:
    """Return the numbers of a log.

    Example:
        >>> log = Samples(("a",), np.array([0]), np.zeros((1, 2)), np.array([0.5]), None, ("load", "power"))
        >>> samples_of(log) is log
        True
    """
    if isinstance(log, Samples):
        return log
    if not hasattr(log, "samples"):
        raise BadInputError(f"similarity is learned from a Trace or from Samples, got {type(log).__name__}")
    return log.samples()


def with_rows(log: Log) -> Samples:
    """Return the numbers of a log in which every station has at least one row, or name one that has none.

    Example:
        >>> log = Samples(("a", "b"), np.array([0]), np.zeros((1, 2)), np.array([0.5]), None, ("load", "power"))
        >>> with_rows(log)
        Traceback (most recent call last):
            ...
        kinband.errors.BadInputError: the log has no rows of station 'b': ...
    """
    samples = samples_of(log)
    rows = np.bincount(samples.tasks, minlength=len(samples.stations))
    if not rows.all():
        name = samples.stations[int(np.argmin(rows))]
        raise BadInputError(
            f"the log has no rows of station {name!r}: log some, leave the station out, or give its likeness yourself"
        )
    return samples


def by_station(samples: Samples) -> list[Samples]:
    """Return the rows of each station, in the order of the stations.

    Example:
        >>> log = Samples(("a", "b"), np.array([1, 0]), np.zeros((2, 1)), np.array([0.5, 0.7]), None, ("load",))
        >>> [station.y.tolist() for station in by_station(log)]
        [[0.7], [0.5]]
    """
    order = np.argsort(samples.tasks, kind="stable")
    ends = np.cumsum(np.bincount(samples.tasks, minlength=len(samples.stations)))
    return [samples.take(rows) for rows in np.split(order, ends[:-1])]


@dataclass(frozen=True, eq=False)
class Block:
    """The kernel between the rows of one station and those of a run of later ones.

    Attributes:
        station: Index m of the one station.
        others: Indices of the others, a slice of consecutive stations m′ > m.
        rows: Their rows in the log sorted by station.
        starts: Where each of the others begins among these rows.
        K: K_mm′ side by side, (n_m, sum of n_m′).

    Example:
        >>> Block(0, slice(1, 2), slice(2, 5), np.array([0]), np.ones((2, 3))).K.shape
        (2, 3)
    """

    station: int
    others: slice
    rows: slice
    starts: IntArray
    K: FloatArray


def kernel_blocks(contexts: Sequence[FloatArray], kernel: Kernel) -> Iterator[Block]:
    """Go through all pairs of stations m < m′; `contexts` holds one (n_m, d) array for each station.

    Example:
        >>> from kinband.kernels import RBF
        >>> blocks = list(kernel_blocks([np.zeros((2, 1)), np.ones((3, 1)), np.ones((1, 1))], RBF(0.7)))
        >>> [(block.station, block.K.shape, block.starts.tolist()) for block in blocks]
        [(0, (2, 4), [0, 3]), (1, (3, 1), [0])]
    """
    X = np.concatenate(contexts)
    ends = np.cumsum([len(x) for x in contexts])
    begins = np.concatenate([[0], ends[:-1]])
    between = gram(kernel, X, X)
    for m, X_m in enumerate(contexts):
        first, most = m + 1, max(1, BLOCK_ENTRIES // len(X_m))
        while first < len(contexts):
            last = max(first + 1, int(np.searchsorted(ends, begins[first] + most, side="right")))
            rows = slice(int(begins[first]), int(ends[last - 1]))
            starts = begins[first:last] - begins[first]
            yield Block(m, slice(first, last), rows, starts, between(slice(int(begins[m]), int(ends[m])), rows))
            first = last
