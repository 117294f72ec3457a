"""How much weight a standard deviation gets: the β of (12), UCB = f̂ + βσ.

β multiplies the standard deviation of f, observation noise excluded, everywhere in kinband but in LinUCB, whose std
is its authors' √(xᵀA⁻¹x). It is a constant, or follows one of the published schedules: Theorem 1's (as printed, or
corrected: see docs/paper.md) and CGP-UCB's.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from math import log, pi, sqrt
from typing import Any, Protocol, runtime_checkable

from kinband.arrays import finite_number, positive_number
from kinband.errors import BadInputError


@runtime_checkable
class Exploration(Protocol):
    """The weight of a standard deviation after so many rewards.

    Example:
        >>> rule: Exploration = Constant(2.0)
        >>> rule.beta(known=100, arms=29, noise=0.1)
        2.0
    """

    def beta(self, *, known: int, arms: int, noise: float) -> float:
        """Return β when `known` rewards are known, for `arms` arms and default noise variance λ."""


@dataclass(frozen=True)
class Constant:
    """The same β always.

    Example:
        >>> Constant(0.5).beta(known=7, arms=5, noise=0.1)
        0.5
    """

    value: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "value", finite_number(self.value, name="beta"))
        if self.value < 0:
            raise BadInputError(f"beta must not be negative, got {self.value:g}")

    def beta(self, *, known: int, arms: int, noise: float) -> float:
        """Return the constant."""
        del known, arms, noise
        return self.value


@dataclass(frozen=True)
class Theorem1:
    """The β with which Theorem 1 bounds |f̂ − f*| by βσ with probability 1 − δ/T, for rewards in [0, 1].

    The paper prints α + c√λ; its own argument gives (α + c√λ)/√λ, which is the default here.

    Attributes:
        delta: δ.
        norm: c, a bound on the norm of f* in the kernel's space (of f* − mean where a prior mean is set).
        printed: Whether to follow the print.

    Example:
        >>> rules = Theorem1(printed=True), Theorem1()
        >>> [round(rule.beta(known=10, arms=5, noise=0.01), 2) for rule in rules]
        [2.05, 20.52]
    """

    delta: float = 0.05
    norm: float = 1.0
    printed: bool = False

    def __post_init__(self) -> None:
        _check_probability(self.delta)
        object.__setattr__(self, "delta", float(self.delta))
        object.__setattr__(self, "norm", positive_number(self.norm, name="norm"))

    def beta(self, *, known: int, arms: int, noise: float) -> float:
        """Return β; (T − 1)M of the paper is the number of rewards known."""
        printed = theorem1_alpha(known * arms + 1, delta=self.delta) + self.norm * sqrt(noise)
        return printed if self.printed else printed / sqrt(noise)


@dataclass(frozen=True)
class KrauseOng:
    """CGP-UCB's published schedule for finitely many arms: β_t = √(2 log(N t² π² / (6δ))) (Krause and Ong 2011).

    They write β_t for the square of it. The union is over the arms of each slot, whose contexts are given.

    Example:
        >>> round(KrauseOng(delta=0.1).beta(known=0, arms=29, noise=0.1), 2)
        3.51
    """

    delta: float = 0.1

    def __post_init__(self) -> None:
        _check_probability(self.delta)
        object.__setattr__(self, "delta", float(self.delta))

    def beta(self, *, known: int, arms: int, noise: float) -> float:
        """Return β for slot t = known + 1."""
        del noise
        return sqrt(2.0 * log(arms * (known + 1) ** 2 * pi**2 / (6.0 * self.delta)))


def theorem1_alpha(events: int, *, delta: float) -> float:
    """Return α = √(log(2·events/δ)/2); Theorem 1 unites (T − 1)MN + 1 events."""
    return sqrt(log(2.0 * events / delta) / 2.0)


_RULES: dict[str, type[Constant | Theorem1 | KrauseOng]] = {
    "constant": Constant,
    "theorem1": Theorem1,
    "krause-ong": KrauseOng,
}


def exploration_from(beta: "float | str | Exploration") -> Exploration:
    """Return the rule that `beta` stands for: a number, "corrected", "printed", "krause-ong", or a rule itself.

    Example:
        >>> exploration_from(1.5), exploration_from("printed")
        (Constant(value=1.5), Theorem1(delta=0.05, norm=1.0, printed=True))
    """
    if isinstance(beta, str):
        named: dict[str, Exploration] = {
            "corrected": Theorem1(),
            "printed": Theorem1(printed=True),
            "krause-ong": KrauseOng(),
        }
        if beta not in named:
            raise BadInputError(f"beta must be a number, a rule, or one of {', '.join(named)}; got {beta!r}")
        return named[beta]
    if isinstance(beta, Exploration):
        return beta
    return Constant(finite_number(beta, name="beta"))


def exploration_to_dict(rule: Exploration) -> dict[str, Any]:
    """Return one of our rules as JSON-able values; a user's own cannot be stored."""
    for name, kind in _RULES.items():
        if isinstance(rule, kind):
            return {"rule": name, **asdict(rule)}
    raise BadInputError(f"an exploration rule of type {type(rule).__name__} cannot be saved: use one of kinband's own")


def exploration_from_dict(values: Mapping[str, Any]) -> Exploration:
    """Return the rule that `exploration_to_dict` wrote."""
    rest = {key: value for key, value in values.items() if key != "rule"}
    return _RULES[values["rule"]](**rest)


def _check_probability(delta: float) -> None:
    if not 0 < finite_number(delta, name="delta") < 1:
        raise BadInputError(f"delta is a probability between 0 and 1, got {delta:g}")
