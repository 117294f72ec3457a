"""How alike stations are: the matrix with its names, its file, and the similarities that need no estimation."""

import csv
import json
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from kinband.arrays import FloatArray, IntArray, finite_array, finite_number
from kinband.errors import BadInputError, NotFoundError, SavedStateError
from kinband.html import MOST_ROWS, table
from kinband.kernels import BlockMatrix, TaskCovariance, as_task_covariance
from kinband.kernels.base import set_fields
from kinband.kernels.tasks import frozen
from kinband.similarity.base import Log, samples_of
from kinband.similarity.newcomers import correlations
from kinband.similarity.picture import draw_heatmap
from kinband.stats import counted
from kinband.trace.files import path_of

# --- Task matrices on disk: `.npz` for machines, `.csv` for people --------------------------------------------------
#
# The `.npz` holds the matrix and one JSON text with the names, the method and its details; it is read without
# pickle, so a file can hold wrong numbers but cannot run anything. The `.csv` is a square table, names along the
# top and down the side, the method in the corner; numbers are written with as many digits as it takes to
# read back the same bits. Details do not fit into a table and are left to the `.npz`.

FORMAT = "kinband task matrix"
VERSION = 2
"""Of files with groups that share nothing; a matrix that is one has version 1, as ever."""

_TURNED = 500  # stations up to which the leaves of their tree are turned

Parts = tuple[tuple[str, ...], TaskCovariance, str, dict[str, Any]]
"""Stations, matrix, method, details: what a file holds, not yet checked for meaning."""


def _make_folder(path: Path) -> None:
    """Make the folder of a file, or say what is in the way."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadInputError(f"there is no folder {path.parent} and none can be made ({error.strerror})") from error
    if path.is_dir():
        raise BadInputError(f"{path} is a folder: name a file to write")


def _suffix(path: Path) -> str:
    suffix = path.suffix.lower()
    if suffix not in (".npz", ".csv"):
        raise BadInputError(f"a task matrix is stored as .npz or .csv, got {path.name!r}: choose one of these endings")
    return suffix


def _read_npz(path: Path) -> Parts:
    try:
        with path.open("rb") as binary, np.load(binary, allow_pickle=False) as file:
            matrix: TaskCovariance = np.asarray(file["matrix"], dtype=np.float64)
            if "groups" in file.files:
                matrix = BlockMatrix(file["groups"], matrix)
            about = json.loads(str(file["about"][()]))
        if about["format"] != FORMAT:
            raise ValueError(f"its format is {about['format']!r}")
        version = int(about["version"])
        parts = (tuple(about["stations"]), matrix, about["method"], dict(about["details"]))
    except (
        OSError,
        EOFError,
        zipfile.BadZipFile,
        BadInputError,
        ValueError,
        LookupError,
        TypeError,
        AttributeError,
    ) as error:
        raise SavedStateError(f"{path} is not a task matrix that kinband wrote, or it is damaged: {error}") from error
    if version > VERSION:
        raise SavedStateError(f"{path} has version {version}, this kinband reads up to {VERSION}: upgrade kinband")
    return parts


def _read_csv(path: Path) -> Parts:
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:  # spreadsheets begin their files with a mark
            rows = [row for row in csv.reader(file) if row]
    except (csv.Error, UnicodeDecodeError) as error:
        raise BadInputError(f"{path} is not a table of text: {error}") from error
    if len(rows) < 2:
        raise BadInputError(f"{path} holds no table: expected station names along the top and down the side")
    (corner, *names), body = rows[0], rows[1:]
    if [row[0] for row in body] != names:
        raise BadInputError(f"{path} must name the same stations, in the same order, along the top and down the side")
    for row in body:
        if len(row) != len(names) + 1:
            raise BadInputError(f"{path} has {len(row) - 1} numbers for station {row[0]!r}, expected {len(names)}")
    try:
        matrix = np.array([[float(cell) for cell in row[1:]] for row in body])
    except ValueError as error:
        raise BadInputError(f"{path} holds something that is not a number: {error}") from error
    return tuple(names), matrix, corner or "given", {}


# --- The task matrix: how alike each pair of stations is, by name ---------------------------------------------------
#
# A similarity estimator turns a log into one number per pair of stations, the kernel k_Z of (7). `TaskMatrix`
# carries those numbers together with the names they belong to, the method that found them and its settings. It
# is checked when it is made, so whoever receives one may factorise it. Drawing is in `picture`.


@dataclass(frozen=True, eq=False, init=False)
class TaskMatrix:
    """How alike stations are: symmetric, positive semi-definite, with names.

    Attributes:
        stations: Station names, all different; row and column m belong to the m-th.
        K_Z: Similarity, (M, M), read-only; 1 means the same reward function, 0 nothing in common. Of stations in groups
            that share nothing, such as shards, it is a `kinband.kernels.BlockMatrix`.
        method: What it was found by, such as "embedding".
        details: Settings and findings of the method, in values that JSON can hold.

    Example:
        >>> alike = TaskMatrix(("a", "b"), np.array([[1.0, 0.4], [0.4, 1.0]]), "given")
        >>> alike.between("a", "b")
        0.4
    """

    stations: tuple[str, ...]
    K_Z: TaskCovariance
    method: str
    details: Mapping[str, Any]

    def __init__(
        self, stations: Sequence[str], matrix: ArrayLike, method: str, details: Mapping[str, Any] | None = None
    ) -> None:
        names = check_stations(stations)
        K_Z = as_task_covariance(matrix, size=len(names))
        if not isinstance(method, str):
            raise BadInputError(f"method must be a word such as 'embedding', got {method!r}")
        kept = K_Z if isinstance(K_Z, BlockMatrix) else frozen(K_Z)
        set_fields(self, stations=names, K_Z=kept, method=method, details=_plain(details or {}))

    @property
    def matrix(self) -> FloatArray:
        """Similarity as one array, (M, M), read-only; of stations in groups it is made when asked for."""
        whole = np.asarray(self.K_Z)
        whole.flags.writeable = False
        return whole

    def __len__(self) -> int:
        return len(self.stations)

    def between(self, first: str, second: str) -> float:
        """Return the similarity of two stations, by name.

        Example:
            >>> TaskMatrix(("a", "b"), np.eye(2), "independent").between("a", "b")
            0.0
        """
        i, j = (self._index(name) for name in (first, second))
        return float(self.K_Z[i, j])

    def reindex(self, stations: Sequence[str]) -> "TaskMatrix":
        """Return the matrix of the named stations, in that order.

        Example:
            >>> K_Z = np.array([[1.0, 0.4, 0.0], [0.4, 1.0, 0.2], [0.0, 0.2, 1.0]])
            >>> TaskMatrix(("a", "b", "c"), K_Z, "given").reindex(["c", "b"]).matrix
            array([[1. , 0.2],
                   [0.2, 1. ]])
        """
        names = check_stations(stations)
        rows = np.array([self._index(name) for name in names])
        K_Z = self.K_Z.taken(rows) if isinstance(self.K_Z, BlockMatrix) else self.K_Z[np.ix_(rows, rows)]
        return TaskMatrix(names, K_Z, self.method, self.details)

    def parts(self) -> list["TaskMatrix"]:
        """Return a matrix for each group of stations that is kept apart; one where there are none."""
        if not isinstance(self.K_Z, BlockMatrix):
            return [self]
        named = [(m, [self.stations[i] for i in m.tolist()]) for m in self.K_Z.members]
        return [TaskMatrix(names, self.K_Z[np.ix_(m, m)], self.method, self.details) for m, names in named]

    def _repr_html_(self) -> str:
        shown = self.K_Z[:, :MOST_ROWS].tolist()
        rows = [(name, *row) for name, row in zip(self.stations, shown, strict=True)]
        caption = f"Similarity of {counted(len(self), 'station')}, {self.method}"
        return table(["", *self.stations[:MOST_ROWS]], rows, caption=caption)

    def correlation(self) -> FloatArray:
        """Return the matrix scaled to ones on the diagonal, (M, M).

        Example:
            >>> TaskMatrix(("a", "b"), np.array([[4.0, 1.0], [1.0, 1.0]]), "given").correlation()
            array([[1. , 0.5],
                   [0.5, 1. ]])
        """
        return correlations(self.matrix)

    def order(self) -> IntArray:
        """Return the stations' indices in an order that puts like beside like, (M,).

        Average-linkage clustering on 1 − correlation, its leaves turned so that neighbours are as alike as the tree
        allows; of more than 500 stations they are not turned, which takes the cube of their number.

        Example:
            >>> K_Z = np.array([[1.0, 0.0, 0.9], [0.0, 1.0, 0.0], [0.9, 0.0, 1.0]])
            >>> order = TaskMatrix(("a", "b", "c"), K_Z, "given").order().tolist()
            >>> order in ([1, 0, 2], [1, 2, 0], [0, 2, 1], [2, 0, 1])
            True
        """
        if isinstance(self.K_Z, BlockMatrix):
            return np.concatenate([m[p.order()] for m, p in zip(self.K_Z.members, self.parts(), strict=True)])
        if len(self) < 3:
            return np.arange(len(self))
        from scipy.cluster.hierarchy import leaves_list

        return np.asarray(leaves_list(self._tree()), dtype=np.int64)

    def groups(self, *, alike: float = 0.5) -> list[tuple[str, ...]]:
        """Return groups of stations, merged while two groups' average correlation is at least `alike`.

        Groups and their members come in the order of `order()`.

        Example:
            >>> K_Z = np.array([[1.0, 0.0, 0.9], [0.0, 1.0, 0.0], [0.9, 0.0, 1.0]])
            >>> sorted(sorted(group) for group in TaskMatrix(("a", "b", "c"), K_Z, "given").groups())
            [['a', 'c'], ['b']]
        """
        level = finite_number(alike, name="alike")
        if isinstance(self.K_Z, BlockMatrix) and level > 0.0:
            return [group for part in self.parts() for group in part.groups(alike=level)]
        if len(self) == 1:
            return [self.stations]
        from scipy.cluster.hierarchy import fcluster, leaves_list

        tree = self._tree()
        labels = fcluster(tree, 1.0 - level, criterion="distance")
        found: dict[int, list[str]] = {}
        for m in leaves_list(tree):
            found.setdefault(int(labels[m]), []).append(self.stations[m])
        return [tuple(names) for names in found.values()]

    def save(self, path: str | PathLike[str]) -> None:
        """Write to `path`: `.npz` keeps everything, `.csv` names, numbers and method for people to read.

        Both keep every bit of every number.

        Example:
            >>> import tempfile, pathlib
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     path = pathlib.Path(folder) / "alike.csv"
            ...     TaskMatrix(("a", "b"), np.eye(2), "independent").save(path)
            ...     print(path.read_text(encoding="utf-8"))
            independent,a,b
            a,1.0,0.0
            b,0.0,1.0
        """
        path = path_of(path, what="a task matrix")
        suffix = _suffix(path)
        _make_folder(path)
        if suffix == ".csv":
            with path.open("w", newline="", encoding="utf-8") as file:
                writer = csv.writer(file)
                writer.writerow([self.method, *self.stations])
                for name, row in zip(self.stations, self.matrix.tolist(), strict=True):
                    writer.writerow([name, *map(repr, row)])
            return
        arrays: dict[str, Any] = {"matrix": self.K_Z}
        version = 1
        if isinstance(self.K_Z, BlockMatrix):
            arrays, version = {"matrix": self.K_Z.entries, "groups": self.K_Z.groups}, VERSION
        about = {"format": FORMAT, "version": version, "stations": self.stations}
        text = json.dumps({**about, "method": self.method, "details": self.details}, allow_nan=False)
        with path.open("wb") as binary:  # a path would let NumPy change the name
            np.savez(binary, **arrays, about=np.array(text))

    @classmethod
    def load(cls, path: str | PathLike[str]) -> "TaskMatrix":
        """Read what `save` wrote, or a `.csv` made by hand; nothing in the file is ever executed.

        Example:
            >>> import tempfile, pathlib
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     path = pathlib.Path(folder) / "alike.npz"
            ...     TaskMatrix(("a", "b"), np.eye(2), "independent").save(path)
            ...     TaskMatrix.load(path).stations
            ('a', 'b')
        """
        path = path_of(path, what="a task matrix")
        suffix = _suffix(path)
        if not path.is_file():
            raise BadInputError(f"there is no file {path}")
        parts = _read_csv(path) if suffix == ".csv" else _read_npz(path)
        try:
            return cls(*parts)
        except BadInputError as error:
            raise BadInputError(f"{path} does not hold a task matrix: {error}") from error

    def heatmap(self, path: str | PathLike[str], *, title: str | None = None) -> None:
        """Draw the matrix, like beside like, into a `.png`, `.svg` or `.pdf` file.

        Example:
            >>> import tempfile, pathlib
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     path = pathlib.Path(folder) / "alike.png"
            ...     TaskMatrix(("a", "b"), np.eye(2), "independent").heatmap(path)
            ...     path.stat().st_size > 1000
            True
        """
        ordered = self.reindex([self.stations[m] for m in self.order()])
        draw_heatmap(
            path_of(path, what="a picture"),
            ordered.matrix,
            stations=ordered.stations,
            title=f"Similarity by {self.method}" if title is None else title,
        )

    @cached_property
    def _place(self) -> dict[str, int]:
        return {name: m for m, name in enumerate(self.stations)}

    def _index(self, station: str) -> int:
        try:
            return self._place[station]
        except (KeyError, TypeError):
            raise NotFoundError(f"no station {station!r} in this task matrix of {len(self)} stations") from None

    def _tree(self) -> FloatArray:
        from scipy.cluster.hierarchy import linkage
        from scipy.spatial.distance import squareform

        apart = np.clip(1.0 - self.correlation(), 0.0, None)
        turned = len(self) <= _TURNED
        return np.asarray(linkage(squareform(apart, checks=False), method="average", optimal_ordering=turned))


def check_stations(stations: Sequence[str]) -> tuple[str, ...]:
    """Return station names as a tuple, or say which is empty, repeated or no name at all."""
    if not isinstance(stations, Iterable):
        raise BadInputError(f"stations must be a list of names, got {stations!r}")
    names = (stations,) if isinstance(stations, str) else tuple(stations)
    if not names:
        raise BadInputError("a task matrix needs at least one station, got none")
    seen: set[str] = set()
    for name in names:
        if not isinstance(name, str) or not name:
            raise BadInputError(f"station names must be non-empty text, got {name!r}")
        if name in seen:
            raise BadInputError(f"station {name!r} is named twice: give every station its own name")
        seen.add(name)
    return names


def _plain(details: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy in JSON's own types, so that what is saved is what is loaded."""
    try:
        plain: dict[str, Any] = json.loads(json.dumps(dict(details), allow_nan=False))
    except (TypeError, ValueError) as error:
        raise BadInputError(f"details must be values that JSON can hold: {error}") from error
    return plain


def sharing_text(details: Mapping[str, Any]) -> str:
    """Say how much stations share, from the details of a similarity that knows (`joint`); nothing where none does."""
    if not {"shared", "similar", "own"} <= details.keys():
        return ""
    shared, similar, own = (f"{100 * details[name]:.0f} %" for name in ("shared", "similar", "own"))
    return f"Stations share {shared} of what is learned with all, {similar} with similar stations; {own} is their own."


# --- Similarity without estimation: none at all, all the same, given by the user, or found by the user's own object --


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
    """A similarity known beforehand: from the site plan, an earlier log, or a file.

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
        """Return the given similarity for the stations of a log."""
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
    """Return `value` as the checked task matrix of these stations, in their order."""
    if not isinstance(value, TaskMatrix):
        return TaskMatrix(stations, finite_array(value, name="task matrix", ndim=2), method)
    missing = sorted(set(stations) - set(value.stations), key=stations.index)
    if missing:
        raise BadInputError(
            f"the task matrix does not know station {missing[0]!r} ({len(missing)} missing): "
            "learn it from a log with all stations"
        )
    return value if value.stations == stations else value.reindex(stations)
