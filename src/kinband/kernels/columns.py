"""Which columns of a context a kernel looks at, and which of its length-scales belongs to which column.

Users name columns; numerical code wants positions. `bind` of a kernel turns one into the other once, and
keeps the names for reports.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from kinband.arrays import FloatArray, positive_number
from kinband.errors import BadInputError
from kinband.kernels.base import Column

Columns = tuple[Column, ...] | None
Scales = float | tuple[float, ...]


def clean_columns(columns: Sequence[Column] | Any | None) -> Columns:
    """Return columns as a tuple of positions and names without repetition; None stands for all.

    Example:
        >>> clean_columns([2, "load"])
        (2, 'load')
    """
    if columns is None:
        return None
    if isinstance(columns, str):
        raise BadInputError(f"columns must be a list of columns, got the text {columns!r}: write [{columns!r}]")
    cleaned = tuple(column if isinstance(column, str) else int(column) for column in columns)
    if not cleaned or len(set(cleaned)) != len(cleaned) or any(isinstance(c, int) and c < 0 for c in cleaned):
        raise BadInputError(f"columns must be one or more different names or positions from 0, got {cleaned}")
    return cleaned


def clean_groups(groups: Sequence[int] | Any | None) -> tuple[int, ...] | None:
    """Return group numbers 0, 1, 2... without gaps as a tuple; None if columns are not grouped.

    Example:
        >>> clean_groups([0, 1, 0])
        (0, 1, 0)
    """
    if groups is None:
        return None
    cleaned = tuple(int(group) for group in groups)
    if not cleaned or set(cleaned) != set(range(max(cleaned) + 1)):
        raise BadInputError(f"groups must be numbered 0, 1, 2... without gaps, got {cleaned}")
    return cleaned


def clean_scales(length_scale: Any, *, groups: tuple[int, ...] | None) -> Scales:
    """Return one positive float, or a tuple of them; with groups always one for each.

    Example:
        >>> clean_scales([1, 2], groups=None)
        (1.0, 2.0)
    """
    if np.ndim(length_scale) > 1 or np.size(length_scale) == 0:
        raise BadInputError(f"length_scale must be a number or a list of numbers, got {length_scale!r}")
    scales = tuple(positive_number(value, name="length_scale") for value in np.atleast_1d(length_scale))
    if groups is None:
        return scales[0] if np.ndim(length_scale) == 0 else scales
    count = max(groups) + 1
    if len(scales) not in (1, count):
        raise BadInputError(f"length_scale must be one number or one for each of {count} groups, got {len(scales)}")
    return scales if len(scales) == count else scales * count


def clean_fixed(fixed: Sequence[str], *, known: Sequence[str]) -> tuple[str, ...]:
    """Return the names of parameters to leave out of theta, all of them known.

    Example:
        >>> clean_fixed(["variance"], known=["length_scale", "variance"])
        ('variance',)
    """
    fixed = (fixed,) if isinstance(fixed, str) else tuple(fixed)
    for name in fixed:
        if name not in known:
            raise BadInputError(f"fixed holds {name!r}, this kernel's parameters are {', '.join(known)}")
    return fixed


def bind_columns(columns: Columns, features: Sequence[str]) -> tuple[Columns, tuple[str, ...]]:
    """Return positions for columns, and the name of each of them.

    Example:
        >>> bind_columns(("threshold",), ["load", "threshold"])
        ((1,), ('threshold',))
    """
    names = tuple(features)
    if columns is None:
        return None, names
    for column in columns:
        if column not in names if isinstance(column, str) else column >= len(names):
            raise BadInputError(f"kernel uses column {column!r}, the contexts have {', '.join(names)}")
    positions = tuple(names.index(column) if isinstance(column, str) else column for column in columns)
    if len(set(positions)) != len(positions):
        raise BadInputError(f"kernel uses a column twice: {', '.join(names[p] for p in positions)}")
    return positions, tuple(names[position] for position in positions)


def pick(X: FloatArray, columns: Columns) -> FloatArray:
    """Return the chosen columns of X (n, d): (n, k).

    Example:
        >>> pick(np.array([[1.0, 2.0, 3.0]]), (2, 0))
        array([[3., 1.]])
    """
    if columns is None:
        return X
    places, beyond = _places(columns)
    if beyond > X.shape[1]:
        raise BadInputError(f"kernel uses column {beyond - 1}, contexts have {X.shape[1]} columns")
    return X[:, places]


@lru_cache(maxsize=256)
def _places(columns: tuple[Column, ...]) -> tuple[slice | list[int], int]:
    """Return where columns stand, and how many there must be; neighbours are a slice, which copies nothing."""
    places = []
    for column in columns:
        if isinstance(column, str):
            raise BadInputError(f"kernel names the column {column!r}: call kernel.bind(features) before using it")
        places.append(column)
    first, beyond = min(places, default=0), max(places, default=-1) + 1
    return (slice(first, beyond) if places == list(range(first, beyond)) else places), beyond


@lru_cache(maxsize=256)
def spread_scales(scales: Scales, groups: tuple[int, ...] | None, d: int) -> FloatArray:
    """Return the length-scale of each of d columns, (d,), read only; a decision asks for it a dozen times.

    Example:
        >>> spread_scales((0.5, 2.0), (0, 1, 1), 3)
        array([0.5, 2. , 2. ])
    """
    found = np.asarray(scales, dtype=np.float64)
    if groups is not None and len(groups) != d:
        raise BadInputError(f"groups must name a group for each of {d} columns, got {len(groups)}")
    if groups is not None:
        found = found[list(groups)]
    if found.ndim and len(found) != d:
        raise BadInputError(f"kernel has {len(found)} length-scales for {d} columns: give one, or one each")
    found = np.broadcast_to(found, (d,)).copy()
    found.setflags(write=False)
    return found


def labels_of(columns: Columns, labels: tuple[str, ...], *, size: int) -> tuple[str, ...]:
    """Return a readable label for each of `size` columns: the feature's name if known, else the position.

    Example:
        >>> labels_of((4, "load"), (), size=2)
        ('4', 'load')
    """
    if labels:
        return labels
    return tuple(map(str, columns if columns is not None else range(size)))
