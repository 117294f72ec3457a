"""One knob of a base station: the finite list of values it can take.

A knob is either a *quantity* (numbers; the distance between two values means something) or a *category*
(strings, booleans, or numbers wrapped in `Categories`; two values are the same or they are not). Values are
kept as plain Python scalars, so that they print, compare and turn into JSON as the user wrote them. What a
user looks up may come as an integer, a float or a NumPy scalar: equal numbers find each other, and a float
that differs by rounding alone (0.1 * 3 against 0.3) finds its value too.
"""

import difflib
import math
from collections.abc import Collection, Iterable, Mapping, Set
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from kinband.errors import BadInputError, NotFoundError

Scalar = str | bool | int | float
"""What a knob can be set to."""

_ROUNDING = 1e-9
_STEPS = 1e-14
_LARGEST = 1e100


@dataclass(frozen=True)
class Categories:
    """Marks the values of a knob as categories, for numbers that are names and not quantities.

    Example:
        >>> Categories([0, 1, 2]).values
        (0, 1, 2)
    """

    values: tuple[Any, ...]

    def __init__(self, values: Iterable[Any]) -> None:
        object.__setattr__(self, "values", tuple(choices("Categories", values)))


@dataclass(frozen=True)
class Knob:
    """The name of a knob, its values in order, and whether they are categories.

    Example:
        >>> knob = Knob.of("threshold", range(-100, -96))
        >>> knob.values, knob.categorical, knob.find(np.float32(-98))
        ((-100, -99, -98, -97), False, -98)
    """

    name: str
    values: tuple[Scalar, ...]
    categorical: bool

    @classmethod
    def of(cls, name: str, values: Iterable[Any] | Categories) -> "Knob":
        """Return the knob of that name after checking its values."""
        _check_name(name)
        wrapped = isinstance(values, Categories)
        listed = values.values if isinstance(values, Categories) else choices(name, values)
        plain = tuple(plain_scalar(value, name=name) for value in listed)
        kinds = {_kind(value) for value in plain}
        if not plain:
            raise BadInputError(f"knob {name!r} has no values: list at least one")
        if len(kinds) > 1:
            raise BadInputError(f"knob {name!r} mixes {' and '.join(sorted(kinds))}: write all values as strings")
        _refuse_duplicates(name, plain)
        return cls(name, plain, wrapped or kinds != {"numbers"})

    @cached_property
    def codes(self) -> dict[Scalar, int]:
        """Position of every value; equal numbers of different types find the same one."""
        return {value: code for code, value in enumerate(self.values)}

    def find(self, value: object) -> Scalar:
        """Return the knob's own spelling of `value`, or say what is known instead."""
        given = plain_scalar(value, name=self.name)
        known = _kind(self.values[0])
        if _kind(given) != known:
            raise NotFoundError(f"knob {self.name!r} takes {known}, got {value!r}: {self._some()}")
        if given in self.codes:
            return self.values[self.codes[given]]
        if self.categorical or isinstance(given, str):
            raise NotFoundError(f"knob {self.name!r} has no value {given!r}: {self._some(near=given)}")
        numbers = np.array(self.values, dtype=np.float64)
        nearest = self.values[int(np.argmin(np.abs(numbers - given)))]
        # A sum of steps that should be 0 is off by rounding of the largest value, not of 0.
        if abs(float(nearest) - given) <= _ROUNDING * abs(float(nearest)) + _STEPS * float(np.abs(numbers).max()):
            return nearest
        raise NotFoundError(f"knob {self.name!r} has no value {given!r}: the nearest known value is {nearest!r}")

    def _some(self, near: Scalar | None = None) -> str:
        close = difflib.get_close_matches(near, map(str, self.values), n=1) if isinstance(near, str) else []
        shown = ", ".join(repr(value) for value in self.values[:8]) + (", ..." if len(self.values) > 8 else "")
        return f"did you mean {close[0]!r}?" if close else f"known values are {shown}"


def plain_scalar(value: object, *, name: str) -> Scalar:
    """Return `value` as a plain Python string, boolean, integer or finite float.

    Single-precision numbers take their shortest decimal, so that `np.float32(0.1)` is 0.1.

    Example:
        >>> plain_scalar(np.float32(0.1), name="offset"), plain_scalar(np.int64(3), name="offset")
        (0.1, 3)
    """
    if isinstance(value, np.generic):
        value = float(str(value)) if isinstance(value, np.float32 | np.float16) else value.item()
    if isinstance(value, str | bool):
        return value
    if not isinstance(value, int | float):
        raise BadInputError(f"knob {name!r} takes numbers, strings or booleans, got {value!r}")
    if math.isnan(value) or not -_LARGEST <= value <= _LARGEST:
        raise BadInputError(f"knob {name!r} takes finite numbers up to {_LARGEST:g}, got {value!r}")
    return value


def choices(name: str, values: object, *, ordered: bool = True) -> Collection[Any]:
    """Return `values` as something that has a length, after refusing what is no list of values."""
    if isinstance(values, str | bytes | Mapping) or not isinstance(values, Iterable):
        raise BadInputError(f"knob {name!r} takes a list of values, got {values!r}: write [{values!r}] for just one")
    if ordered and isinstance(values, Set):
        raise BadInputError(f"knob {name!r} was given a set, which has no order: pass a list")
    return values if isinstance(values, Collection) else tuple(values)


def _kind(value: Scalar) -> str:
    if isinstance(value, bool):
        return "booleans"
    return "strings" if isinstance(value, str) else "numbers"


def _check_name(name: object) -> None:
    if not isinstance(name, str) or not name:
        raise BadInputError(f"a knob's name must be a non-empty string, got {name!r}")


def _refuse_duplicates(name: str, values: tuple[Scalar, ...]) -> None:
    seen: set[str | float] = set()
    for value in values:
        key = value if isinstance(value, str) else float(value)
        if key in seen:
            raise BadInputError(f"knob {name!r} lists the value {value!r} twice: list each value once")
        seen.add(key)
