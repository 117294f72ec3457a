"""How alike a station without data is to those that have some: from what is known of its site.

A positive semi-definite K_Z is a table of inner products of feature vectors, one a station. The newcomer's vector is
predicted as a combination Σ wⱼφⱼ of the vectors there are, by kernel ridge regression on descriptors with weights not
below zero; what the combination leaves open is the newcomer's own, in a direction nobody has. Its row is then K_Z w
with the usual diagonal, so that the longer matrix is positive semi-definite whatever the weights are, and the newcomer
is identical to nobody. Kernels on task descriptors are those of Bonilla, Agakov and Williams (2007, "Kernel multi-task
learning using task-specific features"); there they are fitted together with the context kernel by likelihood, here to
a task matrix that has been learned already. Not in the paper.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf, isfinite, isnan
from numbers import Real
from typing import Any, overload

import numpy as np

from kinband.arrays import FloatArray, IntArray, finite_number
from kinband.contexts import LARGEST
from kinband.errors import BadInputError, NotFoundError
from kinband.kernels import BlockMatrix, TaskCovariance, check_task_matrix, components

__all__ = [
    "DescriptorKernel",
    "Descriptors",
    "HeldOut",
    "average_row",
    "check_kinds",
    "checked_descriptors",
    "correlations",
    "described_similarity",
    "descriptor_row",
    "fit_descriptor_kernel",
    "given_row",
    "held_out",
    "useful_descriptor_kernel",
    "with_newcomers",
    "with_row",
]

# --- What describes a station: numbers and categories by name, as much of it as is known ----------------------------
#
# Numbers are quantities (a position, a height, a load); text and truth values are categories (a land use, an antenna).
# What is missing is simply not there: a name left out, None and nan mean the same. An angle is a poor number, since
# 359° and 1° are neighbours: give its sine and cosine.

Value = float | str | bool
Descriptors = Mapping[str, Value]
"""What is known of one station, by name."""


def checked_descriptors(descriptors: Any, *, station: str) -> dict[str, Value]:
    """Return the descriptors of a station in values that JSON can hold, without what is missing.

    Example:
        >>> checked_descriptors({"x_m": 120, "land_use": "office", "height_m": None}, station="3714")
        {'x_m': 120.0, 'land_use': 'office'}
        >>> checked_descriptors({"x_m": [1, 2]}, station="3714")
        Traceback (most recent call last):
            ...
        kinband.errors.BadInputError: descriptor 'x_m' of '3714' must be a number or a word, got [1, 2]
    """
    if not isinstance(descriptors, Mapping):
        raise BadInputError(f"descriptors of {station!r} must map names to values, got {descriptors!r:.60}")
    found: dict[str, Value] = {}
    for name, value in descriptors.items():
        if not isinstance(name, str) or not name:
            raise BadInputError(f"descriptors of {station!r} must have names, got {name!r:.60}")
        plain = _plain(value, name=name, station=station)
        if plain is not None:
            found[name] = plain
    return found


def check_kinds(stations: Mapping[str, Descriptors]) -> dict[str, bool]:
    """Return which descriptors are numbers, by name, or say which is a number here and a word there.

    Example:
        >>> check_kinds({"a": {"x_m": 1.0, "land_use": "office"}, "b": {"land_use": "home"}})
        {'x_m': True, 'land_use': False}
    """
    kinds: dict[str, tuple[bool, str]] = {}
    for station, descriptors in stations.items():
        for name, value in descriptors.items():
            numeric = not isinstance(value, str | bool)
            known, first = kinds.setdefault(name, (numeric, station))
            if known != numeric:
                number, word = (first, station) if known else (station, first)
                raise BadInputError(
                    f"descriptor {name!r} is a number for {number!r} and a category for {word!r}: give one kind for all"
                )
    return {name: numeric for name, (numeric, _) in kinds.items()}


def _plain(value: Any, *, name: str, station: str) -> Value | None:
    """Return a value in JSON's own types, None where it is missing."""
    if value is None:
        return None
    if isinstance(value, str | bool):
        return value
    if isinstance(value, np.bool_):
        return bool(value)
    if not isinstance(value, Real):
        raise BadInputError(f"descriptor {name!r} of {station!r} must be a number or a word, got {value!r:.60}")
    try:
        number = float(value)
    except OverflowError:  # a whole number of Python's has no limit
        number = inf
    if isnan(number):
        return None
    if not isfinite(number):
        raise BadInputError(f"descriptor {name!r} of {station!r} must be finite, got {number}")
    if abs(number) > LARGEST:
        raise BadInputError(
            f"descriptor {name!r} of {station!r} is {number:g}, which is too large to compute with: repair it, or give "
            "it in a larger unit"
        )
    return number


# --- Which stations are alike by their descriptors: a product of one factor a column, and the weights it leads to ---
#
# A number contributes exp(−d²/(2ℓ²)), a category 1 where it is the same and ρ < 1 where it is not; a category that
# nobody had is unlike all others. A missing value stands for any of the values that the network has: its factor is the
# mean of theirs, which is the inner product of mean features, so that the product stays positive semi-definite. The
# kernel of the regression is c + v·product: with v = 0 everybody counts alike, which is the network's average.


@dataclass(frozen=True, eq=False)
class Column:
    """One descriptor as the stations have it.

    Attributes:
        name: Its name.
        numeric: Whether it is a quantity.
        values: What the stations have, as far as it is known.
    """

    name: str
    numeric: bool
    values: tuple[Any, ...]

    @property
    def scale(self) -> float:
        """The unit of length-scales: the standard deviation of the values; 1 for categories."""
        return float(np.std(np.array(self.values, dtype=np.float64))) if self.numeric else 1.0

    @property
    def varies(self) -> bool:
        """Whether anything can be learned from a quantity that all stations have alike: it cannot."""
        return not self.numeric or self.scale > 0.0

    def factor(self, values: Sequence[Any], parameter: float) -> FloatArray:
        """Return the factors of n stations' values, None where missing, with a length-scale or ρ: (n, n)."""
        known = [value for value in values if value is not None]
        support, numbers = np.unique(np.array([*self.values, *known]), return_inverse=True)
        everybody, own = numbers[: len(self.values)], iter(numbers[len(self.values) :])
        index = np.array([-1 if value is None else next(own) for value in values], dtype=np.int64)
        if self.numeric:
            d = np.subtract.outer(support, support) / (parameter * self.scale)
            K = np.exp(-0.5 * d * d)
        else:
            K = np.where(np.eye(len(support), dtype=np.bool_), 1.0, parameter)
        F = _picked(_picked(K, index, everybody).T, index, everybody)
        np.fill_diagonal(F, 1.0)
        return F


@dataclass(frozen=True, eq=False)
class DescriptorKernel:
    """What resemblance of descriptors is worth.

    Attributes:
        columns: The descriptors that are looked at.
        parameters: One a column: a length-scale in standard deviations, or ρ of a category.
        constant: c, in units of the regression's noise.
        variance: v, likewise.

    Example:
        >>> kernel = DescriptorKernel((Column("x_m", True, (0.0, 100.0)),), (1.0,), constant=0.0, variance=4.0)
        >>> kernel.gram([{"x_m": 0.0}, {"x_m": 100.0}]).round(3).tolist()
        [[4.0, 0.541], [0.541, 4.0]]
    """

    columns: tuple[Column, ...]
    parameters: tuple[float, ...]
    constant: float
    variance: float

    def describes(self, descriptors: Descriptors) -> bool:
        """Whether anything that is looked at is known of a station."""
        return any(column.name in descriptors for column in self.columns)

    def gram(self, stations: Sequence[Descriptors]) -> FloatArray:
        """Return the kernel of n stations, (n, n)."""
        K = np.full((len(stations), len(stations)), self.variance)
        for column, parameter in zip(self.columns, self.parameters, strict=True):
            K *= column.factor([station.get(column.name) for station in stations], parameter)
        return K + self.constant

    def weights(self, stations: Sequence[Descriptors], newcomer: Descriptors) -> FloatArray:
        """Return what each of n stations weighs in a newcomer, (n,), none below zero."""
        G = self.gram([*stations, newcomer])
        w = np.linalg.solve(G[:-1, :-1] + np.eye(len(stations)), G[:-1, -1])
        return np.asarray(np.maximum(w, 0.0))


def described_similarity(stations: Sequence[Descriptors]) -> FloatArray | None:
    """Return how alike n stations are by what describes them, where no log says, (n, n); None where nothing does.

    Length-scales grow with the root of the number of quantities, as those of contexts do: stations that differ a
    little in each of many are still alike.

    Example:
        >>> described_similarity([{"x_m": 0.0}, {"x_m": 2.0}, {"x_m": 0.0}]).round(2).tolist()
        [[1.0, 0.11, 1.0], [0.11, 1.0, 0.11], [1.0, 0.11, 1.0]]
    """
    kinds = check_kinds(dict(zip(map(str, range(len(stations))), stations, strict=True)))
    columns = columns_of(stations, kinds)
    if not columns:
        return None
    many = max(1.0, sum(column.numeric for column in columns)) ** 0.5
    parameters = tuple(_LENGTH[1] * many if column.numeric else _UNLIKE[1] for column in columns)
    return DescriptorKernel(columns, parameters, constant=0.0, variance=1.0).gram(stations)


def columns_of(stations: Sequence[Descriptors], numeric: dict[str, bool]) -> tuple[Column, ...]:
    """Return the columns of n stations from which something can be learned."""
    found = (Column(name, kind, tuple(s[name] for s in stations if name in s)) for name, kind in numeric.items())
    return tuple(column for column in found if column.values and column.varies)


def _picked(K: FloatArray, index: IntArray, everybody: IntArray) -> FloatArray:
    """Return rows `index` (n,) of K (s, m), the mean of everybody's where it is −1: (n, m)."""
    rows = K[index]
    if (index < 0).any():
        rows[index < 0] = K[everybody].mean(axis=0)
    return rows


# --- A newcomer's row of the task matrix: by descriptors, by the network's average, or as given ---------------------
#
# A row K_Z w with a diagonal of at least wᵀK_Z w makes the longer matrix positive semi-definite: the newcomer is then
# the combination Σ wⱼfⱼ of the stations' functions, and something of its own. At least the share `OWN` of its variance
# is its own, so that it is identical to nobody. Where stations fall into groups that share nothing, a newcomer joins
# those that have a fair part of its weight, and leaves the others apart: one that were a little like every group would
# make them all one.

OWN = 0.02
"""The least share of a newcomer's variance that is its own: nobody is more like it than √(1 − OWN) = 0.99."""

_RESEMBLING, _CHUNK = 2000, 500  # described stations that are weighed for a newcomer, and looked at together

_FAIR = 0.2  # the share of a newcomer's weights that a group must have to be joined


@overload
def correlations(K_Z: BlockMatrix) -> BlockMatrix: ...


@overload
def correlations(K_Z: FloatArray) -> FloatArray: ...


def correlations(K_Z: TaskCovariance) -> TaskCovariance:
    """Return K_Z (M, M) scaled to ones on the diagonal.

    Example:
        >>> correlations(np.array([[4.0, 1.0], [1.0, 1.0]])).tolist()
        [[1.0, 0.5], [0.5, 1.0]]
    """
    if isinstance(K_Z, BlockMatrix):
        return BlockMatrix.of(K_Z.members, (correlations(K_Z[np.ix_(m, m)]) for m in K_Z.members))
    scale = np.sqrt(np.diagonal(K_Z))
    C: FloatArray = K_Z / np.multiply.outer(scale, scale)
    np.fill_diagonal(C, 1.0)
    return C


def average_weights(C: TaskCovariance) -> FloatArray:
    """Return equal weights (M,) with which a newcomer is as like the M stations as they are among themselves.

    On average, that is, and to each as like as that one is to everybody. Similarity below zero is taken as none.
    """
    M, total = len(C), float(C.sum())
    if M < 2:
        return np.zeros(M)
    typical = (total - M) / (M * (M - 1))
    return np.full(M, max(typical, 0.0) * M / total if total > 0 else 0.0)


def average_row(K_Z: TaskCovariance) -> FloatArray:
    """Return the row of a newcomer of whom nothing is known, its own variance last, (M + 1,).

    Example:
        >>> average_row(0.5 + 0.5 * np.eye(3)).round(12).tolist()
        [0.5, 0.5, 0.5, 1.0]
        >>> average_row(np.eye(2)).tolist()
        [0.0, 0.0, 1.0]
    """
    return _row(K_Z, average_weights(correlations(K_Z)))


def descriptor_row(
    K_Z: TaskCovariance, kernel: DescriptorKernel, stations: Sequence[Descriptors], newcomer: Descriptors
) -> FloatArray:
    """Return the row of a newcomer from its descriptors and those of the M stations, its own variance last, (M + 1,).

    Stations of which nothing is known have no weight of their own; they are like it as far as they are like others. Of
    more than 2,000 described ones those that resemble it most are weighed.
    """
    known = [m for m, station in enumerate(stations) if kernel.describes(station)]
    if not known or not kernel.describes(newcomer):
        return average_row(K_Z)
    w = np.zeros(len(K_Z))
    if len(components(K_Z)) < len(K_Z):  # else nobody is like anybody
        known = _resembling(kernel, stations, known, newcomer)
        w[known] = kernel.weights([stations[i] for i in known], newcomer)
    return _row(K_Z, w)


def _resembling(
    kernel: DescriptorKernel, stations: Sequence[Descriptors], known: list[int], newcomer: Descriptors
) -> list[int]:
    """Return which of the described stations a newcomer is a combination of: all, or of very many the most alike."""
    if len(known) <= _RESEMBLING:
        return known
    parts = np.array_split(np.array(known), -(-len(known) // _CHUNK))
    alike = [kernel.gram([*(stations[i] for i in part), newcomer])[-1, :-1] for part in parts]
    most: IntArray = np.argsort(-np.concatenate(alike), kind="stable")[:_RESEMBLING]
    return [known[i] for i in np.sort(most)]


def given_row(K_Z: TaskCovariance, stations: Sequence[str], similarity: Any, *, newcomer: str) -> FloatArray:
    """Return the row of a newcomer whose similarity to some of the M stations is known, its variance last, (M + 1,).

    What is given stays as it is. To the others it is as like as follows from those (the completion that assumes
    nothing more: given the stations named, newcomer and others are independent).

    Args:
        K_Z: Task matrix, (M, M).
        stations: The stations' names.
        similarity: Correlations by station.
        newcomer: The newcomer's name, for messages.

    Example:
        >>> given_row(0.5 + 0.5 * np.eye(3), ["a", "b", "c"], {"a": 0.8}, newcomer="d").round(12).tolist()
        [0.8, 0.4, 0.4, 1.0]
        >>> given_row(np.ones((2, 2)), ["a", "b"], {"a": 0.9, "b": 0.1}, newcomer="d")
        Traceback (most recent call last):
            ...
        kinband.errors.BadInputError: what is given for 'd' contradicts how alike the stations named are: ...
    """
    named = _checked_similarity(similarity, stations, newcomer)
    S, C = np.array(list(named)), correlations(K_Z)
    r = np.array(list(named.values()))
    within, rounding = C[np.ix_(S, S)], 1e-9 * len(K_Z)
    w = np.linalg.pinv(within, rcond=1e-10, hermitian=True) @ r
    strength = float(w @ within @ w)
    if np.abs(within @ w - r).max() > 1e-6 or strength > 1.0 + rounding:
        fits = f": times {np.floor(100 / np.sqrt(strength)) / 100:g} they would fit" if strength > 1.0 else ""
        raise BadInputError(
            f"what is given for {newcomer!r} contradicts how alike the stations named are{fits or ': give fewer'}"
        )
    row = C[np.ix_(np.arange(len(C)), S)] @ w
    row[S] = r
    return _scaled(K_Z, row)


def with_row(K_Z: TaskCovariance, row: FloatArray) -> TaskCovariance:
    """Return the task matrix (M + 1, M + 1) with a newcomer's row (M + 1,) behind those of K_Z (M, M).

    Example:
        >>> with_row(np.eye(1), np.array([0.5, 1.0])).tolist()
        [[1.0, 0.5], [0.5, 1.0]]
    """
    M = len(K_Z)
    if row.shape != (M + 1,):
        raise BadInputError(f"the row of a newcomer must have {M + 1} numbers, got {row.shape}")
    if isinstance(K_Z, BlockMatrix):
        return K_Z.with_row(row)
    longer = np.empty((M + 1, M + 1))
    longer[:M, :M], longer[M], longer[:, M] = K_Z, row, row
    return check_task_matrix(longer)


def with_newcomers(K_Z: FloatArray, rows: Sequence[FloatArray]) -> FloatArray:
    """Return the task matrix (M + J, M + J) with J newcomers behind K_Z (M, M), of whom nobody knows each other.

    They are as like each other as follows from whom they are like, B K_Z⁺ Bᵀ with B their rows: a row does not depend
    on who else is new.

    Example:
        >>> rows = [np.array([0.5, 1.0]), np.array([0.4, 1.0])]
        >>> with_newcomers(np.eye(1), rows).tolist()
        [[1.0, 0.5, 0.4], [0.5, 1.0, 0.2], [0.4, 0.2, 1.0]]
    """
    B = np.array([row[:-1] for row in rows])
    among = B @ np.linalg.pinv(K_Z, rcond=1e-10, hermitian=True) @ B.T
    np.fill_diagonal(among, [row[-1] for row in rows])
    return check_task_matrix(np.block([[K_Z, B.T], [B, (among + among.T) / 2]]))


def _row(K_Z: TaskCovariance, w: FloatArray) -> FloatArray:
    """Return the row of a newcomer that is a combination w (M,) of stations and something of its own, (M + 1,)."""
    C = correlations(K_Z)
    w = _gathered(C, w)
    row = C @ w
    strength = float(w @ row)
    if strength > 1.0 - OWN:
        row *= np.sqrt((1.0 - OWN) / strength)
    return _scaled(K_Z, row)


def _gathered(C: TaskCovariance, w: FloatArray) -> FloatArray:
    """Return weights (M,) without those of groups that have too little of them to be joined."""
    groups, total = components(C), float(np.abs(w).sum())
    if len(groups) == 1 or total == 0.0:
        return w
    kept = np.zeros_like(w)
    for members in groups:
        if np.abs(w[members]).sum() >= _FAIR * total:
            kept[members] = w[members]
    return kept


def _scaled(K_Z: TaskCovariance, correlation: FloatArray) -> FloatArray:
    """Return correlations (M,) as covariances, with the variance that stations usually have behind them, (M + 1,)."""
    diagonal = K_Z.diagonal()
    usual = float(np.median(diagonal))
    return np.append(correlation * np.sqrt(diagonal * usual), usual)


def _checked_similarity(similarity: Any, stations: Sequence[str], newcomer: str) -> dict[int, float]:
    """Return what is given by task, or say what is wrong with it."""
    if not isinstance(similarity, Mapping) or not similarity:
        raise BadInputError(f"similarity of {newcomer!r} must map stations to numbers, got {similarity!r:.60}")
    tasks, found = {name: task for task, name in enumerate(stations)}, {}
    for name, value in similarity.items():
        if not isinstance(name, str) or name not in tasks:
            raise NotFoundError(f"similarity of {newcomer!r} names {name!r}, which is not a station of this controller")
        number = finite_number(value, name=f"similarity to {name!r}")
        if not -1.0 <= number <= 1.0:
            raise BadInputError(f"similarity of {newcomer!r} to {name!r} must lie between -1 and 1, got {number:g}")
        found[tasks[name]] = number
    return found


# --- The descriptor kernel fitted to a task matrix by leaving every station out, and how well it predicts rows held
# out
#
# With A = (G + I)⁻¹ and G the kernel of all stations' descriptors, the weights that the others have in station i when
# it is left out are −Aⱼᵢ/Aᵢᵢ: one inverse gives the held-out rows of all stations. Their squared errors against the
# learned similarity, as a share of those of the network's average, are minimised; a mild pull towards the starting
# values decides where few stations decide nothing. `held_out` leaves out whole groups of stations and fits anew
# without them, so that what it reports has not been seen by the fit; descriptors that do no better there than the
# network's average are not used (`useful_descriptor_kernel`), as similarity learned from a few rows is mostly noise,
# which nothing predicts.

LEAST = 3
"""With fewer stations described there is nothing to fit to."""

JUDGED = 10
"""From so many stations on, descriptors have to prove themselves on stations held out."""

_MOST = 120  # stations a fit looks at, spread evenly over the list
_LENGTH, _UNLIKE = (0.05, 1.0, 20.0), (0.0, 0.3, 0.99)  # bounds and start of length-scales, and of ρ
_CONSTANT, _VARIANCE = (1e-3, 0.1, 1e3), (1e-3, 1.0, 1e3)
_PULL = 1 / 9  # of a parameter's logarithm towards its start, as one station's worth of error at distance 3


@dataclass(frozen=True)
class HeldOut:
    """How well rows of a task matrix are predicted for stations that were held out.

    Attributes:
        error: Root mean square error of predicted similarity.
        average_error: The same where the network's average is predicted.
        stations: How many stations were held out, each once.

    Example:
        >>> f"{HeldOut(0.1, 0.2, 30).explained:.2f}"
        '0.75'
    """

    error: float
    average_error: float
    stations: int

    @property
    def explained(self) -> float:
        """The share of the average's squared error that descriptors remove; below 0 they mislead."""
        return 1.0 - (self.error / self.average_error) ** 2 if self.average_error > 0 else 0.0


def fit_descriptor_kernel(K_Z: TaskCovariance, stations: Sequence[Descriptors]) -> DescriptorKernel | None:
    """Return the kernel whose held-out rows are nearest to K_Z (M, M); None where too little is described.

    Example:
        >>> x = np.array([0.0, 0.1, 0.2, 5.0, 5.1, 5.2])
        >>> K_Z = np.exp(-np.subtract.outer(x, x) ** 2)
        >>> kernel = fit_descriptor_kernel(K_Z, [{"x": value} for value in x])
        >>> kernel.weights([{"x": value} for value in x], {"x": 0.15}).argmax() in (1, 2)
        True
    """
    from scipy.optimize import Bounds, minimize

    shown = _shown(stations)
    some = [stations[i] for i in shown]
    columns = columns_of(some, check_kinds(dict(zip(map(str, shown), some, strict=True))))
    C = correlations(K_Z)[np.ix_(shown, shown)]
    if len(shown) < LEAST or not columns:
        return None
    limits = [_LENGTH if column.numeric else _UNLIKE for column in columns] + [_CONSTANT, _VARIANCE]
    logs = np.array([*(column.numeric for column in columns), True, True])
    lower, start, upper = (np.where(logs, np.log(np.maximum(edge, 1e-9)), edge) for edge in np.array(limits).T)

    def kernel_at(theta: FloatArray) -> DescriptorKernel:
        *parameters, constant, variance = np.where(logs, np.exp(np.where(logs, theta, 0.0)), theta).tolist()
        return DescriptorKernel(columns, tuple(parameters), constant, variance)

    average = _squares(C, average_left_out(C))
    if average <= 0.0:  # all alike, or nobody like anybody: the average says it all
        return kernel_at(start)

    def loss(theta: FloatArray) -> float:
        error = _squares(C, left_out(kernel_at(theta).gram(some), C)) / average
        return error + _PULL / len(C) * float(np.sum((theta - start) ** 2))

    found = minimize(loss, start, method="L-BFGS-B", bounds=Bounds(lower, upper), options={"maxiter": 60})
    return kernel_at(np.clip(found.x, lower, upper))


def useful_descriptor_kernel(K_Z: TaskCovariance, stations: Sequence[Descriptors]) -> DescriptorKernel | None:
    """Return the fitted kernel; None where many stations show that their descriptors say nothing of their similarity.

    Example:
        >>> rng = np.random.default_rng(2)
        >>> F = rng.normal(size=(20, 30))
        >>> stations = [{"x": value} for value in rng.random(20)]  # as good as dice
        >>> useful_descriptor_kernel(F @ F.T, stations) is None
        True
    """
    kernel = fit_descriptor_kernel(K_Z, stations)
    if kernel is None or len(_shown(stations)) < JUDGED:
        return kernel
    return kernel if held_out(K_Z, stations).explained > 0 else None


def held_out(K_Z: TaskCovariance, stations: Sequence[Descriptors], *, folds: int = 5) -> HeldOut:
    """Return how well rows of K_Z (M, M) are predicted, each station once among those held out together.

    Example:
        >>> x = np.linspace(0, 3, 12)
        >>> K_Z = np.exp(-np.subtract.outer(x, x) ** 2)
        >>> held_out(K_Z, [{"x": value} for value in x]).explained > 0.8
        True
    """
    shown = _shown(stations)
    C, M, stations = correlations(K_Z)[np.ix_(shown, shown)], len(shown), [stations[i] for i in shown]
    ours, theirs, count = 0.0, 0.0, 0
    for fold in range(folds):
        out = np.arange(fold, M, folds)
        rest = np.setdiff1d(np.arange(M), out)
        if not len(out) or len(rest) < 2:
            continue
        predicted, average = _predicted(C, stations, out, rest)
        truth = C[np.ix_(rest, out)]
        ours, theirs = ours + float(np.sum((predicted - truth) ** 2)), theirs + float(np.sum((average - truth) ** 2))
        count += truth.size
    return HeldOut(float(np.sqrt(ours / max(count, 1))), float(np.sqrt(theirs / max(count, 1))), M if count else 0)


def left_out(G: FloatArray, C: FloatArray) -> FloatArray:
    """Return the row that is predicted for each station when it is left out, as a column each, (M, M).

    The diagonal means nothing.
    """
    A = np.linalg.inv(G + np.eye(len(G)))
    W = np.maximum(-A / np.diagonal(A), 0.0)
    np.fill_diagonal(W, 0.0)
    CW = C @ W
    strength = np.einsum("ji,ji->i", W, CW)
    return np.asarray(CW * np.sqrt(np.minimum(1.0, (1.0 - OWN) / np.maximum(strength, 1e-300))))


def average_left_out(C: FloatArray) -> FloatArray:
    """Return what the network's average predicts for each station when it is left out, as a column each, (M, M)."""
    M = len(C)
    predicted = np.zeros((M, M))
    for i in range(M):
        rest = np.delete(np.arange(M), i)
        predicted[rest, i] = C[np.ix_(rest, rest)] @ average_weights(C[np.ix_(rest, rest)])
    return predicted


def _shown(stations: Sequence[Descriptors]) -> IntArray:
    """Which stations a fit looks at: those of which something is known, some of them where they are many."""
    described: IntArray = np.flatnonzero([bool(station) for station in stations])
    some = np.unique(np.linspace(0, len(described) - 1, min(_MOST, len(described))).round().astype(int))
    return np.asarray(described[some])


def _predicted(
    C: FloatArray, stations: Sequence[Descriptors], out: IntArray, rest: IntArray
) -> tuple[FloatArray, FloatArray]:
    """The rows of stations held out, by descriptors and by the average, (rest, out) each."""
    known, shown = C[np.ix_(rest, rest)], [stations[i] for i in rest]
    kernel = fit_descriptor_kernel(known, shown)
    average = average_row(known)[:-1]
    rows = [descriptor_row(known, kernel, shown, stations[i])[:-1] if kernel is not None else average for i in out]
    return np.array(rows).T, np.repeat(average[:, None], len(out), axis=1)


def _squares(C: FloatArray, predicted: FloatArray) -> float:
    """Mean square of what predicted rows miss, off the diagonal."""
    E = C - predicted
    np.fill_diagonal(E, 0.0)
    return float(np.sum(E * E)) / max(len(C) * (len(C) - 1), 1)
