"""Which configurations may be chosen, said in whichever way is handy.

A guard rail knows a range of a knob, a plan knows a list of configurations, a program knows a boolean for
each: all become one boolean per configuration. Every form is told apart by its type alone, so that none can
be taken for another: numbers are always configuration numbers, and an interval is always a `Range`.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from numbers import Real
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from kinband.arrays import BoolArray
from kinband.configurations.knobs import Knob, choices
from kinband.errors import BadInputError, NotFoundError

if TYPE_CHECKING:
    from kinband.configurations import ConfigurationSpace

Allowed = None | Iterable[Any] | Mapping[str, Any] | Callable[[Mapping[str, Any]], bool]
"""Which configurations may be chosen; see `ConfigurationSpace.mask`."""


@dataclass(frozen=True)
class Range:
    """The numbers from `low` to `high`, both included; where one is not given there is no limit.

    Example:
        >>> Range(-100, -90).low, Range(high=3).low
        (-100, -inf)
    """

    low: float = -math.inf
    high: float = math.inf

    def __post_init__(self) -> None:
        limits: tuple[object, ...] = (self.low, self.high)
        for limit in limits:
            if not isinstance(limit, Real):
                raise BadInputError(f"Range takes numbers, got {limit!r}: list the values of a knob instead")
        if not self.low <= self.high:
            raise BadInputError(f"Range needs low <= high, got {self.low} and {self.high}")


def allowed_mask(space: "ConfigurationSpace", allowed: Allowed) -> BoolArray:
    """Return which configurations of the space are allowed, (N,); it is an error when none is.

    Example:
        >>> from kinband.configurations import ConfigurationSpace
        >>> allowed_mask(ConfigurationSpace(tilt=[2, 4, 6]), {"tilt": Range(high=4)}).tolist()
        [True, True, False]
    """
    if allowed is None:
        chosen = np.ones(len(space), dtype=np.bool_)
    elif callable(allowed):
        chosen = np.array([bool(allowed(configuration)) for configuration in space])
    elif isinstance(allowed, Mapping):
        chosen = _within(space, allowed)
    else:
        chosen = _listed(space, allowed)
    if not chosen.any():
        raise BadInputError("no configuration is allowed: widen what is allowed")
    return chosen


def _within(space: "ConfigurationSpace", allowed: Mapping[str, Any]) -> BoolArray:
    chosen = np.ones(len(space), dtype=np.bool_)
    for name, wanted in allowed.items():
        column, knob = space.knob(name)
        chosen &= _accepted(knob, wanted)[space.codes[:, column]]
    return chosen


def _accepted(knob: Knob, wanted: object) -> BoolArray:
    """Which of the knob's values are wanted, (len(knob.values),)."""
    if isinstance(wanted, Range):
        if knob.categorical:
            raise BadInputError(f"knob {knob.name!r} holds categories, which have no Range: list the values")
        numbers = np.array(knob.values, dtype=np.float64)
        return (numbers >= wanted.low) & (numbers <= wanted.high)
    single = isinstance(wanted, str) or not isinstance(wanted, Iterable)
    listed = [wanted] if single else choices(knob.name, wanted, ordered=False)
    try:
        found = {knob.find(value) for value in listed}
    except NotFoundError as error:
        advice = "" if knob.categorical else "; allow an interval by Range(low, high)"
        raise NotFoundError(f"{error}{advice}") from error
    return np.array([value in found for value in knob.values], dtype=np.bool_)


def _listed(space: "ConfigurationSpace", allowed: object) -> BoolArray:
    """The mask of an iterable of booleans, of configuration numbers or of configurations."""
    iterable = isinstance(allowed, Iterable) and not isinstance(allowed, str)
    items: list[Any] = list(cast(Iterable[Any], allowed)) if iterable else [None]
    chosen = np.zeros(len(space), dtype=np.bool_)
    kinds = {_kind(item) for item in items}
    if kinds == {"boolean"}:
        if len(items) != len(space):
            raise BadInputError(
                f"allowed has {len(items)} booleans, the space {len(space)} configurations: give one for each"
            )
        chosen[:] = items
    elif kinds == {"configuration"}:
        chosen[[space.index(item) for item in items]] = True
    elif kinds == {"number"}:
        outside = [int(item) for item in items if not 0 <= item < len(space)]
        if outside:
            raise NotFoundError(f"there is no configuration {outside[0]}: the space has 0 to {len(space) - 1}")
        chosen[[int(item) for item in items]] = True
    elif kinds:
        raise BadInputError(
            "allowed must be None, booleans, configuration numbers, configurations, a mapping from knob to "
            f"a Range or values, or a function, got {allowed!r}"
        )
    return chosen


def _kind(item: object) -> str:
    if isinstance(item, bool | np.bool_):
        return "boolean"
    if isinstance(item, Mapping):
        return "configuration"
    return "number" if isinstance(item, int | np.integer) else "other"
