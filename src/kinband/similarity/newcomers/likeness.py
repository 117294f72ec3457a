"""A newcomer's row of the task matrix: by descriptors, by the network's average, or as given.

A row K_Z w with a diagonal of at least wᵀK_Z w makes the longer matrix positive semi-definite: the newcomer is then the
combination Σ wⱼfⱼ of the stations' functions, and something of its own. At least the share `OWN` of its variance is its
own, so that it is identical to nobody. Where stations fall into groups that share nothing, a newcomer joins those that
have a fair part of its weight, and leaves the others apart: one that were a little like every group would make them all
one.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from kinband.arrays import FloatArray, finite_number
from kinband.errors import BadInputError, NotFoundError
from kinband.kernels import check_task_matrix, components
from kinband.similarity.newcomers.descriptors import Descriptors
from kinband.similarity.newcomers.kernel import DescriptorKernel

OWN = 0.02
"""The least share of a newcomer's variance that is its own: nobody is more like it than √(1 − OWN) = 0.99."""

_FAIR = 0.2  # the share of a newcomer's weights that a group must have to be joined


def correlations(K_Z: FloatArray) -> FloatArray:
    """Return K_Z (M, M) scaled to ones on the diagonal.

    Example:
        >>> correlations(np.array([[4.0, 1.0], [1.0, 1.0]])).tolist()
        [[1.0, 0.5], [0.5, 1.0]]
    """
    scale = np.sqrt(np.diagonal(K_Z))
    C: FloatArray = K_Z / np.multiply.outer(scale, scale)
    np.fill_diagonal(C, 1.0)
    return C


def average_weights(C: FloatArray) -> FloatArray:
    """Return equal weights (M,) with which a newcomer is as like the M stations as they are among themselves.

    On average, that is, and to each as like as that one is to everybody. Likeness below zero is taken as none.

    Example:
        >>> C = 0.5 + 0.5 * np.eye(3)
        >>> (C @ average_weights(C)).round(12).tolist()
        [0.5, 0.5, 0.5]
    """
    M, total = len(C), float(C.sum())
    if M < 2:
        return np.zeros(M)
    typical = (total - M) / (M * (M - 1))
    return np.full(M, max(typical, 0.0) * M / total if total > 0 else 0.0)


def average_row(K_Z: FloatArray) -> FloatArray:
    """Return the row of a newcomer of whom nothing is known, its own variance last, (M + 1,).

    Example:
        >>> average_row(0.5 + 0.5 * np.eye(3)).round(12).tolist()
        [0.5, 0.5, 0.5, 1.0]
        >>> average_row(np.eye(2)).tolist()
        [0.0, 0.0, 1.0]
    """
    return _row(K_Z, average_weights(correlations(K_Z)))


def descriptor_row(
    K_Z: FloatArray, kernel: DescriptorKernel, stations: Sequence[Descriptors], newcomer: Descriptors
) -> FloatArray:
    """Return the row of a newcomer from its descriptors and those of the M stations, its own variance last, (M + 1,).

    Stations of which nothing is known have no weight of their own; they are like it as far as they are like others.
    """
    known = [m for m, station in enumerate(stations) if kernel.describes(station)]
    if not known or not kernel.describes(newcomer):
        return average_row(K_Z)
    w = np.zeros(len(K_Z))
    if np.count_nonzero(K_Z) > len(K_Z):  # else nobody is like anybody
        w[known] = kernel.weights([stations[i] for i in known], newcomer)
    return _row(K_Z, w)


def given_row(K_Z: FloatArray, stations: Sequence[str], similarity: Any, *, newcomer: str) -> FloatArray:
    """Return the row of a newcomer whose likeness to some of the M stations is known, its own variance last, (M + 1,).

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
    row = C[:, S] @ w
    row[S] = r
    return _scaled(K_Z, row)


def with_row(K_Z: FloatArray, row: FloatArray) -> FloatArray:
    """Return the task matrix (M + 1, M + 1) with a newcomer's row (M + 1,) behind those of K_Z (M, M).

    Example:
        >>> with_row(np.eye(1), np.array([0.5, 1.0])).tolist()
        [[1.0, 0.5], [0.5, 1.0]]
    """
    M = len(K_Z)
    if row.shape != (M + 1,):
        raise BadInputError(f"the row of a newcomer must have {M + 1} numbers, got {row.shape}")
    longer = np.empty((M + 1, M + 1))
    longer[:M, :M], longer[M], longer[:, M] = K_Z, row, row
    return check_task_matrix(longer)


def _row(K_Z: FloatArray, w: FloatArray) -> FloatArray:
    """Return the row of a newcomer that is a combination w (M,) of stations and something of its own, (M + 1,)."""
    C = correlations(K_Z)
    w = _gathered(C, w)
    row = C @ w
    strength = float(w @ row)
    if strength > 1.0 - OWN:
        row *= np.sqrt((1.0 - OWN) / strength)
    return _scaled(K_Z, row)


def _gathered(C: FloatArray, w: FloatArray) -> FloatArray:
    """Return weights (M,) without those of groups that have too little of them to be joined."""
    groups, total = components(C), float(np.abs(w).sum())
    if len(groups) == 1 or total == 0.0:
        return w
    kept = np.zeros_like(w)
    for members in groups:
        if np.abs(w[members]).sum() >= _FAIR * total:
            kept[members] = w[members]
    return kept


def _scaled(K_Z: FloatArray, correlation: FloatArray) -> FloatArray:
    """Return correlations (M,) as covariances, with the variance that stations usually have behind them, (M + 1,)."""
    diagonal = np.diagonal(K_Z)
    usual = float(np.median(diagonal))
    return np.append(correlation * np.sqrt(diagonal * usual), usual)


def _checked_similarity(similarity: Any, stations: Sequence[str], newcomer: str) -> dict[int, float]:
    """Return what is given by task, or say what is wrong with it."""
    if not isinstance(similarity, Mapping) or not similarity:
        raise BadInputError(f"similarity of {newcomer!r} must map stations to numbers, got {similarity!r:.60}")
    tasks, found = {name: task for task, name in enumerate(stations)}, {}
    for name, value in similarity.items():
        if not isinstance(name, str) or name not in tasks:
            raise NotFoundError(f"similarity of {newcomer!r} names {name!r}, which is no station of this controller")
        number = finite_number(value, name=f"similarity to {name!r}")
        if not -1.0 <= number <= 1.0:
            raise BadInputError(f"similarity of {newcomer!r} to {name!r} must lie between -1 and 1, got {number:g}")
        found[tasks[name]] = number
    return found
