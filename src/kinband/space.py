"""What a station can run: knobs, the finite space of their values, and what of it is allowed."""

import difflib
import itertools
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cached_property
from numbers import Real
from types import MappingProxyType
from typing import Any, cast

import numpy as np

from kinband.arrays import BoolArray, FloatArray, IntArray
from kinband.errors import BadInputError, NotFoundError, SavedStateError

__all__ = ["MAX_CONFIGURATIONS", "Allowed", "Categories", "ConfigurationSpace", "Range"]

# --- One knob of a base station: the finite list of values it can take ----------------------------------------------
#
# A knob is either a *quantity* (numbers; the distance between two values means something) or a *category*
# (strings, booleans, or numbers wrapped in `Categories`; two values are the same or they are not). Values are
# kept as plain Python scalars, so that they print, compare and turn into JSON as the user wrote them. What a
# user looks up may come as an integer, a float or a NumPy scalar: equal numbers find each other, and a float
# that differs by rounding alone (0.1 * 3 against 0.3) finds its value too.

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
    if not -_LARGEST <= value <= _LARGEST:  # nan is not, either
        got = f"one of {value.bit_length()} bits" if isinstance(value, int) else repr(value)
        raise BadInputError(f"knob {name!r} takes finite numbers up to {_LARGEST:g}, got {got}")
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


# --- Which configurations may be chosen, said in whichever way is handy ---------------------------------------------
#
# A guard rail knows a range of a knob, a plan knows a list of configurations, a program knows a boolean for
# each: all become one boolean per configuration. Every form is told apart by its type alone, so that none can
# be taken for another: numbers are always configuration numbers, and an interval is always a `Range`.

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
            raise BadInputError(f"knob {knob.name!r} holds categories, which have no interval", hint="list the values")
        numbers = np.array(knob.values, dtype=np.float64)
        return (numbers >= wanted.low) & (numbers <= wanted.high)
    single = isinstance(wanted, str) or not isinstance(wanted, Iterable)
    listed = [wanted] if single else choices(knob.name, wanted, ordered=False)
    try:
        found = {knob.find(value) for value in listed}
    except NotFoundError as error:
        if knob.categorical:
            raise
        hint = "allow an interval by Range(low, high)"
        raise NotFoundError(str(error), hint=hint, code="no_such_value", argument=knob.name) from error
    return np.array([value in found for value in knob.values], dtype=np.bool_)


def _listed(space: "ConfigurationSpace", allowed: object) -> BoolArray:
    """The mask of an iterable of booleans, of configuration numbers or of configurations."""
    iterable = isinstance(allowed, Iterable) and not isinstance(allowed, str)
    items: list[Any] = list(cast(Iterable[Any], allowed)) if iterable else [None]
    chosen = np.zeros(len(space), dtype=np.bool_)
    kinds = {_form(item) for item in items}
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


def _form(item: object) -> str:
    if isinstance(item, bool | np.bool_):
        return "boolean"
    if isinstance(item, Mapping):
        return "configuration"
    return "number" if isinstance(item, int | np.integer) else "other"


# --- The finite set of configurations a station can run, and their features -----------------------------------------
#
# A configuration is one value for every knob; it is an *arm* of the bandit, addressed outside by its values and
# inside by its number. A space is either the product of its knobs or an explicit list, with up to 50,000
# configurations. Each knob becomes one feature column: quantities are standardised over the configurations of
# the space, so that a length-scale of 1 means about one standard deviation whatever the unit; categories become
# codes 0, 1, 2, ... for a kernel that only asks whether two codes are equal. Sums are exactly rounded
# (`math.fsum`), hence the features are the same bits after saving and loading. The paper has one knob with 29
# thresholds; several knobs, categories and explicit lists are ours.

MAX_CONFIGURATIONS = 50_000
"""The most configurations a space may hold: every decision scores all of them."""


class ConfigurationSpace:
    """The configurations to choose from: the product of the knobs' values (see `from_list` for a list).

    Numbers are quantities, strings and booleans categories; wrap numbers that are only names in `Categories`.

    Example:
        >>> space = ConfigurationSpace(threshold_dbm=range(-100, -96), scheduler=["rr", "pf"])
        >>> len(space), space[3], space.index({"scheduler": "pf", "threshold_dbm": -99.0})
        (8, {'threshold_dbm': -99, 'scheduler': 'pf'}, 3)
        >>> space.mask({"threshold_dbm": Range(-98, -97), "scheduler": "rr"}).nonzero()[0].tolist()
        [4, 6]
    """

    def __init__(self, /, **knobs: Iterable[Any] | Categories) -> None:
        _check_knobs(knobs)
        listed = {name: v if isinstance(v, Categories) else choices(name, v) for name, v in knobs.items()}
        _check_size(math.prod(len(v.values if isinstance(v, Categories) else v) for v in listed.values()), "product")
        made = [Knob.of(name, values) for name, values in listed.items()]
        self._build(made, itertools.product(*(range(len(knob.values)) for knob in made)), product=True)

    @classmethod
    def from_list(
        cls, configurations: Iterable[Mapping[str, Any]], *, categories: Iterable[str] = ()
    ) -> "ConfigurationSpace":
        """Return the space of exactly these configurations, in this order.

        Args:
            configurations: Mappings with the same knobs each, all different.
            categories: Knobs whose numbers are names, not quantities.

        Example:
            >>> space = ConfigurationSpace.from_list([{"tilt": 2, "power": 40}, {"tilt": 4, "power": 43}])
            >>> space.index({"tilt": 4, "power": 43})
            1
        """
        if isinstance(configurations, str | Mapping) or not isinstance(configurations, Iterable):
            raise BadInputError(f"configurations must be a list of mappings from knob to value, got {configurations!r}")
        listed = [_configuration(item) for item in configurations]
        if not listed:
            raise BadInputError("the list of configurations is empty: list at least one")
        _check_size(len(listed), "list")
        names = _check_knobs(listed[0])
        for number, configuration in enumerate(listed):
            if set(configuration) != set(names):
                raise BadInputError(
                    f"configuration {number} has the knobs {list(configuration)}, the first one has {names}: "
                    "give every configuration the same knobs"
                )
        marked = _known_names(categories, names)
        columns = {name: [plain_scalar(item[name], name=name) for item in listed] for name in names}
        made = [
            Knob.of(name, Categories(_distinct(column)) if name in marked else _distinct(column))
            for name, column in columns.items()
        ]
        space = cls.__new__(cls)
        codes = ([knob.codes[value] for value in columns[knob.name]] for knob in made)
        space._build(made, zip(*codes, strict=True), product=False)
        return space

    def _build(self, knobs: Sequence[Knob], codes: Iterable[Sequence[int]], *, product: bool) -> None:
        self._knobs = tuple(knobs)
        self._product = product
        self._codes: IntArray = np.array(list(codes), dtype=np.int64)
        self._rows = list(zip(*([k.values[c] for c in self._codes[:, j]] for j, k in enumerate(knobs)), strict=True))
        self._arms: dict[tuple[Any, ...], int] = {}
        for arm, row in enumerate(self._rows):
            if self._arms.setdefault(row, arm) != arm:
                raise BadInputError(
                    f"configuration {arm} repeats configuration {self._arms[row]}, {self[arm]}: list it once"
                )
        columns = [
            (self._codes[:, j].astype(np.float64), 1.0)
            if knob.categorical
            else _standardised([r[j] for r in self._rows])
            for j, knob in enumerate(knobs)
        ]
        self._features = np.column_stack([column for column, _ in columns])
        self._features.setflags(write=False)
        self._codes.setflags(write=False)
        self._scales = {knob.name: scale for knob, (_, scale) in zip(knobs, columns, strict=True)}

    @property
    def knobs(self) -> Mapping[str, tuple[Any, ...]]:
        """The values of each knob, by name and in order."""
        return MappingProxyType({knob.name: knob.values for knob in self._knobs})

    @property
    def features(self) -> FloatArray:
        """Features of all configurations, (N, f), one column per knob; read-only."""
        return self._features

    @property
    def codes(self) -> IntArray:
        """Position of each configuration's values in their knobs' lists, (N, f); read-only."""
        return self._codes

    @property
    def feature_names(self) -> tuple[str, ...]:
        """The f names of the feature columns: the knobs."""
        return tuple(knob.name for knob in self._knobs)

    @property
    def categorical(self) -> tuple[int, ...]:
        """The feature columns that hold category codes."""
        return tuple(j for j, knob in enumerate(self._knobs) if knob.categorical)

    def scale(self, knob: str) -> float:
        """Return how many of the knob's own units, dB for instance, make one unit of its feature.

        It is 1 for categories and for a knob that never varies.

        Example:
            >>> ConfigurationSpace(tilt=[2, 6]).scale("tilt")
            2.0
        """
        return self._scales[self.knob(knob)[1].name]

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, arm: int) -> dict[str, Any]:
        if not isinstance(arm, int | np.integer):
            raise BadInputError(f"a configuration is named by its number, a whole one from 0, got {arm!r:.60}")
        if not -len(self) <= arm < len(self):
            raise NotFoundError(f"there is no configuration {arm}: the space has {len(self)}, numbered from 0")
        return dict(zip(self.feature_names, self._rows[arm], strict=True))

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return (self[arm] for arm in range(len(self)))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ConfigurationSpace):
            return NotImplemented
        return self._signature() == other._signature() and self._rows == other._rows

    def __hash__(self) -> int:
        return hash((self._signature(), len(self)))

    def _signature(self) -> tuple[object, ...]:
        # The type tells True from 1, which compare equal.
        return tuple((k, k.categorical and isinstance(k.values[0], bool)) for k in self._knobs)

    def __repr__(self) -> str:
        knobs = ", ".join(
            f"{k.name}: {len(k.values)} {'categories' if k.categorical else 'values'}" for k in self._knobs
        )
        return f"ConfigurationSpace({len(self)} configuration{'s' * (len(self) != 1)}; {knobs})"

    def index(self, configuration: Mapping[str, Any]) -> int:
        """Return the number of a configuration, or say which of its values is not known.

        Example:
            >>> ConfigurationSpace(threshold=range(-112, -83)).index({"threshold": -83})
            Traceback (most recent call last):
                ...
            kinband.errors.NotFoundError: knob 'threshold' has no value -83: the nearest known value is -84
        """
        try:
            if len(configuration) == len(self._knobs):
                return self._arms[tuple([configuration[knob.name] for knob in self._knobs])]
        except (KeyError, TypeError):
            pass  # not spelled as we spell it, or not known: look closer
        return self._search(_configuration(configuration))

    def _search(self, configuration: Mapping[str, Any]) -> int:
        for name in configuration:
            self.knob(name)
        missing = [name for name in self.knobs if name not in configuration]
        if missing:
            raise BadInputError(f"the configuration lacks the knob(s) {', '.join(map(repr, missing))}: give every knob")
        row = tuple(knob.find(configuration[knob.name]) for knob in self._knobs)
        if row not in self._arms:
            given = dict(zip(self.feature_names, row, strict=True))
            raise NotFoundError(f"the combination {given} is not listed, though each of its values is known")
        return self._arms[row]

    def indices(self, columns: Mapping[str, Any]) -> IntArray:
        """Return the numbers of many configurations, (n,), given as one column of values per knob.

        Example:
            >>> ConfigurationSpace(tilt=[2, 4, 6]).indices({"tilt": np.array([6.0, 2.0])}).tolist()
            [2, 0]
        """
        if not isinstance(columns, Mapping) or set(columns) != set(self.knobs):
            named = list(columns) if isinstance(columns, Mapping) else repr(columns)
            raise BadInputError(f"the configuration columns are {named}, the space has the knobs {list(self.knobs)}")
        rows = list(zip(*(_column(columns[name], name) for name in self.knobs), strict=True))
        found, unknown = dict(self._arms), {}
        for row in dict.fromkeys(rows):
            try:
                found[row] = self.index(dict(zip(self.feature_names, row, strict=True)))
            except NotFoundError as error:
                unknown[row] = error
        if unknown:
            bad = [number for number, row in enumerate(rows) if row in unknown]
            raise NotFoundError(
                f"{len(bad)} row(s) hold a configuration outside the space, the first is row {bad[0] + 1}, "
                f"counted from 1: {unknown[rows[bad[0]]]}"
            )
        return np.array([found[row] for row in rows], dtype=np.int64)

    def mask(self, allowed: Allowed = None) -> BoolArray:
        """Return which configurations are allowed, (N,); it is an error when none is.

        Args:
            allowed: None for all; a boolean for each configuration; configuration numbers; configurations;
                for some knobs a `Range`, a value or a list of values; or a function of a configuration.

        Example:
            >>> space = ConfigurationSpace(tilt=[2, 4, 6])
            >>> space.mask([0, 2]).tolist(), space.mask(lambda c: c["tilt"] > 2).tolist()
            ([True, False, True], [False, True, True])
        """
        if allowed is None:
            return np.ones(len(self), dtype=np.bool_)
        if callable(allowed):
            chosen = np.array([bool(allowed(configuration)) for configuration in self])
        else:
            chosen = _within(self, allowed) if isinstance(allowed, Mapping) else _listed(self, allowed)
        if not chosen.any():
            raise BadInputError("no configuration is allowed: widen what is allowed")
        return chosen

    def knob(self, name: str) -> tuple[int, Knob]:
        """Return the column of a knob and the knob itself, or say which knobs there are."""
        for column, knob in enumerate(self._knobs):
            if knob.name == name:
                return column, knob
        raise NotFoundError(f"there is no knob {name!r}: the knobs are {', '.join(map(repr, self.knobs))}")

    def to_dict(self) -> dict[str, Any]:
        """Return the space as JSON-able values.

        Example:
            >>> space = ConfigurationSpace(tilt=[2, 4])
            >>> ConfigurationSpace.from_dict(space.to_dict()) == space
            True
        """
        knobs = [{"name": k.name, "values": list(k.values), "categorical": k.categorical} for k in self._knobs]
        return {"knobs": knobs, "rows": None if self._product else self._codes.tolist()}

    @classmethod
    def from_dict(cls, saved: Mapping[str, Any]) -> "ConfigurationSpace":
        """Return the space that `to_dict` described."""
        try:
            knobs = {k["name"]: Categories(k["values"]) if k["categorical"] else k["values"] for k in saved["knobs"]}
            if saved["rows"] is None:
                return cls(**knobs)
            made = [Knob.of(name, values) for name, values in knobs.items()]
            space = cls.__new__(cls)
            space._build(made, saved["rows"], product=False)
        except (KeyError, TypeError, IndexError, ValueError) as error:
            raise SavedStateError(f"this is not a saved configuration space: {error!r}") from error
        return space


def in_words(configuration: Mapping[str, Any]) -> str:
    """Return a configuration as people write it.

    Example:
        >>> in_words({"tilt": 4, "scheduler": "pf"})
        'tilt=4, scheduler=pf'
    """
    return ", ".join(f"{knob}={value}" for knob, value in configuration.items())


def _standardised(column: Sequence[Any]) -> tuple[FloatArray, float]:
    """Return (v - mean) / sd, (N,), and sd; zeros and 1 where nothing varies."""
    values = np.array(column, dtype=np.float64)
    deviations = values - math.fsum(values) / len(values)
    largest = float(np.abs(deviations).max())
    if values.min() == values.max() or largest == 0:
        return np.zeros(len(values)), 1.0
    # Dividing by the largest deviation first keeps the squares from overflowing and underflowing.
    sd = largest * math.sqrt(math.fsum((deviations / largest) ** 2) / len(values))
    return deviations / sd, sd


def _check_knobs(knobs: Mapping[str, Any]) -> list[str]:
    if not knobs:
        raise BadInputError("a configuration needs at least one knob, such as threshold_dbm=range(-112, -83)")
    return list(knobs)


def _check_size(size: int, what: str) -> None:
    if size > MAX_CONFIGURATIONS:
        advice = "use ConfigurationSpace.from_list with those worth trying" if what == "product" else "list fewer"
        raise BadInputError(
            f"the {what} has {size:,} configurations, at most {MAX_CONFIGURATIONS:,} are possible: {advice}"
        )


def _configuration(item: object) -> Mapping[str, Any]:
    if not isinstance(item, Mapping):
        raise BadInputError(f"a configuration must be a mapping from knob to value, got {item!r}")
    return item


def _column(values: object, name: str) -> list[Any]:
    array = np.asarray(values)
    if array.ndim != 1:
        raise BadInputError(f"the values of knob {name!r} must be a list, one per row, got {values!r:.60}")
    return list(array.tolist())


def _distinct(column: list[Scalar]) -> list[Scalar]:
    """Drop repeated values, but keep True beside 1 so that mixed kinds are seen and refused."""
    return [value for _, value in dict.fromkeys((isinstance(value, bool), value) for value in column)]


def _known_names(categories: Iterable[str], names: list[str]) -> set[str]:
    if not isinstance(categories, Iterable):
        raise BadInputError(f"categories must be a list of knobs, got {categories!r}")
    marked = {categories} if isinstance(categories, str) else set(categories)
    if not marked <= set(names):
        raise NotFoundError(f"categories names {sorted(marked - set(names))}, the knobs are {names}")
    return marked
