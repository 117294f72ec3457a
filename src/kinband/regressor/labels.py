"""What callers hand in beside X: labels of stations, as text or whole numbers, and the noise of rewards."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from kinband.arrays import FloatArray, IntArray
from kinband.errors import BadInputError, NotFoundError
from kinband.records import Samples


def per_row(labels: Any, n: int) -> list[Any] | None:
    """One label for each of n rows."""
    if labels is None:
        return None
    if np.ndim(labels) == 0:
        return [labels] * n
    rows = list(np.asarray(labels))
    if np.ndim(labels) != 1 or len(rows) != n:
        raise BadInputError(f"expected one station for each of {n} rows, got task of shape {np.shape(labels)}")
    return rows


def name_of(label: Any, row: int) -> str:
    """The name of the station with a label as users write it."""
    if isinstance(label, str) and label:
        return str(label)
    if isinstance(label, bool | np.bool_):
        return str(bool(label))
    if isinstance(label, int | np.integer | float | np.floating) and float(label).is_integer():
        return str(int(label))
    if label is None or isinstance(label, str) or type(label).__name__ == "NAType" or label != label:
        raise BadInputError(f"row {row} has no station (None, NaN or empty): name it, or leave the row out")
    raise BadInputError(f"row {row} has {label} for a station: a label must be text or a whole number")


def rank(label: Any) -> tuple[bool, int, str]:
    """Where a station comes in the order: numbers first."""
    return (True, 0, str(label)) if isinstance(label, str) else (False, int(label), "")


def indices(labels: Iterable[Any] | None, stations: tuple[str, ...], n: int) -> IntArray:
    """The task number of each of n rows, (n,), or the name of a station that is not known."""
    if labels is None:
        return np.zeros(n, dtype=np.int64)
    known = {station: m for m, station in enumerate(stations)}
    names = [name_of(label, row) for row, label in enumerate(labels)]
    for name in names:
        if name not in known:
            some = ", ".join(stations[:5]) + (", ..." if len(stations) > 5 else "")
            raise NotFoundError(
                f"station {name!r} is not among the {len(stations)} known ({some}): fit again with rows of it, or "
                "give a TaskMatrix that knows it"
            )
    return np.array([known[name] for name in names], dtype=np.int64)


def row_noise(noise: ArrayLike | None, n: int) -> FloatArray | None:
    """The variance of each of n rewards, nan where unknown, (n,)."""
    if noise is None:
        return None
    variance = np.asarray(noise, dtype=np.float64)
    if variance.shape not in ((), (n,)):
        raise BadInputError(f"expected the noise variance of each of {n} rows, got shape {variance.shape}")
    if (np.isinf(variance) | (variance <= 0)).any():
        raise BadInputError("noise is a variance and must be above zero and finite, or nan where it is not known")
    return np.broadcast_to(variance, (n,)).copy()


def joined(first: Samples, second: Samples) -> Samples:
    """The rows of two logs with the same stations and features."""
    noise = None
    if first.noise is not None or second.noise is not None:
        parts = [np.full(len(s), np.nan) if s.noise is None else s.noise for s in (first, second)]
        noise = np.concatenate(parts)
    return replace(
        first,
        tasks=np.concatenate([first.tasks, second.tasks]),
        X=np.concatenate([first.X, second.X]),
        y=np.concatenate([first.y, second.y]),
        noise=noise,
    )
