"""What a journal keeps of every decision, packed into bytes: the configurations considered, and the state.

A journal holds millions of decisions, and nobody looks at most of them. As Python's own dictionaries and floats they
would take five times the memory; packed, they are unpacked when somebody looks, and come back as they were.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import isnan, nan
from struct import Struct
from typing import Any, Protocol, overload

_ROW = Struct("<i3d")  # an arm and its three scores


class Named(Protocol):
    """Configurations by arm.

    Example:
        >>> names: Named = [{"tilt": 2}, {"tilt": 4}]
        >>> names[1]
        {'tilt': 4}
    """

    def __getitem__(self, arm: int, /) -> Mapping[str, Any]:
        """Return the knob values of an arm."""
        ...


@dataclass(frozen=True, slots=True)
class Alternative:
    """One configuration that was considered, with its scores at the time of asking.

    Example:
        >>> Alternative(arm=3, configuration={"threshold": -98}, mean=0.9, std=0.05, ucb=0.95).ucb
        0.95
    """

    arm: int
    configuration: Mapping[str, Any] | None
    mean: float | None
    std: float | None
    ucb: float | None


class Alternatives(Sequence[Alternative]):
    """Several alternatives, packed: a journal holds those of a million decisions, and nobody looks at most of them.

    Args:
        rows: Arm, mean, std and score of each.
        names: Configurations by arm, or None where arms have no names.

    Example:
        >>> found = Alternatives([(1, 0.9, 0.05, 0.95), (0, 0.8, 0.05, 0.85)], [{"tilt": 2}, {"tilt": 4}])
        >>> found[0].configuration, len(found), found[-1].ucb
        ({'tilt': 4}, 2, 0.85)
    """

    __slots__ = ("_names", "_packed")

    def __init__(self, rows: Iterable[Sequence[float | None]] = (), names: Named | None = None) -> None:
        listed = list(rows)
        flat = [nan if value is None else value for row in listed for value in row]
        self._packed = _rows(len(listed)).pack(*flat)
        self._names = names

    def __len__(self) -> int:
        return len(self._packed) // _ROW.size

    @overload
    def __getitem__(self, i: int) -> Alternative: ...
    @overload
    def __getitem__(self, i: slice) -> tuple[Alternative, ...]: ...
    def __getitem__(self, i: int | slice) -> Alternative | tuple[Alternative, ...]:
        if isinstance(i, slice):
            return tuple(self[j] for j in range(*i.indices(len(self))))
        if not -len(self) <= i < len(self):
            raise IndexError(f"there are {len(self)} alternatives, got {i}")
        return self._unpacked(*_ROW.unpack_from(self._packed, i % len(self) * _ROW.size))

    def _unpacked(self, arm: int, mean: float, std: float, ucb: float) -> Alternative:
        return Alternative(
            arm,
            self.configuration(arm),
            None if isnan(mean) else mean,
            None if isnan(std) else std,
            None if isnan(ucb) else ucb,
        )

    def configuration(self, arm: int) -> Mapping[str, Any] | None:
        """Return the configuration of any arm, of one that is not among these too; None where arms have no names."""
        return None if self._names is None else self._names[arm]

    def of(self, arm: int) -> Alternative | None:
        """Return the alternative of an arm, the others left packed; None where it is not among these."""
        return next((self._unpacked(*row) for row in _ROW.iter_unpack(self._packed) if row[0] == arm), None)

    def __iter__(self) -> Iterator[Alternative]:
        return (self._unpacked(*row) for row in _ROW.iter_unpack(self._packed))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Alternatives):
            return NotImplemented
        return self._packed == other._packed and tuple(self) == tuple(other)

    def __hash__(self) -> int:
        return hash(self._packed)

    def __repr__(self) -> str:
        return f"Alternatives({list(self)})"


class PackedState(Mapping[str, float]):
    """A state by feature, packed.

    Args:
        state: Values by name.

    Example:
        >>> state = PackedState({"users": 12, "load": 0.25})
        >>> state["load"], dict(state), state == {"load": 0.25, "users": 12.0}
        (0.25, {'users': 12.0, 'load': 0.25}, True)
    """

    __slots__ = ("_names", "_packed")

    def __init__(self, state: Mapping[str, float]) -> None:
        self._names = _one_for_all(tuple(state))
        self._packed = _doubles(len(state)).pack(*state.values())

    def __getitem__(self, name: str) -> float:
        if name not in self._names:
            raise KeyError(name)
        return self._values()[self._names.index(name)]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __repr__(self) -> str:
        return f"PackedState({dict(self)})"

    def _values(self) -> tuple[float, ...]:
        return _doubles(len(self._names)).unpack(self._packed)


@lru_cache(maxsize=1024)
def _one_for_all(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the same names as one object, however often they are asked for."""
    return names


@lru_cache(maxsize=1024)
def _rows(count: int) -> Struct:
    return Struct("<" + "i3d" * count)


@lru_cache(maxsize=1024)
def _doubles(count: int) -> Struct:
    return Struct(f"<{count}d")
