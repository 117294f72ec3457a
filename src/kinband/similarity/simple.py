"""Likeness without estimation: none at all, all the same, given by the user, or found by the user's own object."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from kinband.arrays import finite_array
from kinband.errors import BadInputError
from kinband.similarity.base import Log, samples_of
from kinband.similarity.matrix import TaskMatrix


@dataclass(frozen=True)
class Independent:
    """No station tells anything about another: the identity matrix, Kernel-UCB on each station alone.

    Example:
        >>> from kinband.records import Samples
        >>> log = Samples(("a", "b"), np.array([0, 1]), np.zeros((2, 1)), np.zeros(2), None, ("load",))
        >>> Independent().fit(log).matrix
        array([[1., 0.],
               [0., 1.]])
    """

    def fit(self, log: Log) -> TaskMatrix:
        """Return the identity for the stations of a log."""
        stations = samples_of(log).stations
        return TaskMatrix(stations, np.eye(len(stations)), "independent")


@dataclass(frozen=True)
class Pooled:
    """All stations share one reward function: a matrix of ones.

    Example:
        >>> from kinband.records import Samples
        >>> log = Samples(("a", "b"), np.array([0, 1]), np.zeros((2, 1)), np.zeros(2), None, ("load",))
        >>> Pooled().fit(log).between("a", "b")
        1.0
    """

    def fit(self, log: Log) -> TaskMatrix:
        """Return ones for the stations of a log."""
        stations = samples_of(log).stations
        return TaskMatrix(stations, np.ones((len(stations), len(stations))), "pooled")


class Given:
    """A likeness known beforehand: from the site plan, an earlier log, or a file.

    Args:
        matrix: Numbers (M, M), or a `TaskMatrix`, which knows its stations.
        stations: Names of rows and columns; None for the stations of the log, in the log's order.

    Example:
        >>> from kinband.records import Samples
        >>> log = Samples(("b", "a"), np.array([0, 1]), np.zeros((2, 1)), np.zeros(2), None, ("load",))
        >>> Given([[4.0, 1.0], [1.0, 2.0]], ["a", "b"]).fit(log).matrix
        array([[2., 1.],
               [1., 4.]])
    """

    def __init__(self, matrix: ArrayLike | TaskMatrix, stations: Sequence[str] | None = None) -> None:
        if isinstance(matrix, TaskMatrix):
            matrix = matrix if stations is None else matrix.reindex(stations)
        elif stations is not None:
            matrix = TaskMatrix(tuple(stations), finite_array(matrix, name="task matrix", ndim=2), "given")
        self.matrix: ArrayLike | TaskMatrix = matrix

    def fit(self, log: Log) -> TaskMatrix:
        """Return the given likeness for the stations of a log."""
        return as_task_matrix(self.matrix, samples_of(log).stations, method="given")

    def __repr__(self) -> str:
        return f"Given({self.matrix!r})"


@dataclass(frozen=True)
class Custom:
    """The user's own object with `fit(log)`, which may return a `TaskMatrix` or bare numbers (M, M).

    Example:
        >>> from kinband.records import Samples
        >>> class Half:
        ...     def fit(self, log):
        ...         return 0.5 + 0.5 * np.eye(2)
        >>> log = Samples(("a", "b"), np.array([0, 1]), np.zeros((2, 1)), np.zeros(2), None, ("load",))
        >>> Custom(Half()).fit(log).between("a", "b")
        0.5
    """

    estimator: Any

    def fit(self, log: Log) -> TaskMatrix:
        """Ask the estimator, and check what it answers."""
        method = type(self.estimator).__name__
        return as_task_matrix(self.estimator.fit(log), samples_of(log).stations, method=method)


def as_task_matrix(value: ArrayLike | TaskMatrix, stations: tuple[str, ...], *, method: str) -> TaskMatrix:
    """Return `value` as the checked task matrix of these stations, in their order.

    Example:
        >>> as_task_matrix([[1.0, 0.2], [0.2, 1.0]], ("a", "b"), method="given").between("b", "a")
        0.2
    """
    if not isinstance(value, TaskMatrix):
        return TaskMatrix(stations, finite_array(value, name="task matrix", ndim=2), method)
    missing = [name for name in stations if name not in value.stations]
    if missing:
        raise BadInputError(
            f"the task matrix does not know station {missing[0]!r} ({len(missing)} missing): "
            "learn it from a log with all stations"
        )
    return value if value.stations == stations else value.reindex(stations)
