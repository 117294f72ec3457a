"""A reward that is a weighted sum of columns, the same in a log and in life.

An operator seldom answers for one number. The reward may be several KPIs, each with a weight in units of reward per
unit of the KPI: 0.8 for a share of satisfied users and 0.02 for a throughput in Mbps makes 5 Mbps worth as much as an
eighth of the users. `WeightedReward` is that sum. A column map of a trace takes one under "reward", and a controller
turns the KPIs it is told into a reward with the same object, so that log and life agree to the last bit: both add the
terms in the order in which they were given.

As text it is written `0.8*satisfied_share+0.02*throughput_mbps`; a name that holds `*`, `+` or `-` is put into quotes.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kinband.arrays import FloatArray, finite_number
from kinband.errors import BadInputError

Measured = tuple[float, float | None]
"""A value and its variance, None where that is not known."""

_EXAMPLE = "0.8*satisfied_share+0.02*throughput_mbps"
_NUMBER = r"(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
_NAME = r"'[^']+'|\"[^\"]+\"|[^*+\-'\"]+"
_TERM = re.compile(rf"\s*(?P<sign>[+-]?)\s*(?:(?P<weight>{_NUMBER})\s*\*)?\s*(?P<name>{_NAME})\s*")


@dataclass(frozen=True)
class WeightedReward:
    """A reward as a weighted sum of KPIs.

    Attributes:
        weights: Weight of each KPI, in units of reward per unit of the KPI; negative for what is to be small.

    Example:
        >>> reward = WeightedReward({"satisfied_share": 0.5, "throughput_mbps": 0.25})
        >>> reward.of({"satisfied_share": (0.5, 0.04), "throughput_mbps": (2.0, None)})
        (0.75, 0.01)
        >>> str(reward)
        '0.5*satisfied_share+0.25*throughput_mbps'
    """

    weights: Mapping[str, float]

    def __post_init__(self) -> None:
        if not isinstance(self.weights, Mapping) or not self.weights:
            raise BadInputError(
                f'a weighted reward maps columns to weights, such as {{"throughput_mbps": 0.02}}, got {self.weights!r}'
            )
        object.__setattr__(self, "weights", {name: _weight(name, w) for name, w in self.weights.items()})

    @classmethod
    def parse(cls, text: str) -> "WeightedReward":
        """Return the sum that a text such as "0.8*good+0.02*rate" stands for.

        Example:
            >>> WeightedReward.parse("0.5*good - 'drop-rate'").weights
            {'good': 0.5, 'drop-rate': -1.0}
            >>> WeightedReward.parse("much*good")
            Traceback (most recent call last):
                ...
            kinband.errors.BadInputError: 'much' in the reward 'much*good' is no number: write a sum of weights and ...
        """
        weights: dict[str, float] = {}
        at = 0
        while at < len(text) or not weights:
            term = _TERM.match(text, at)
            if term is None or (weights and not term["sign"]) or text[term.end() : term.end() + 1] == "*":
                raise BadInputError(_complaint(text, at, term))
            name, sign = term["name"].strip().strip("'\""), -1.0 if term["sign"] == "-" else 1.0
            if not name or name in weights:
                what = f"names {name!r} twice" if name else "has a term without a column"
                raise BadInputError(f"the reward {text!r} {what}: give every column one weight, as in {_EXAMPLE}")
            weights[name] = sign * float(term["weight"] or 1.0)
            at = term.end()
        return cls(weights)

    def __str__(self) -> str:
        terms = [f"{'-' if w < 0 else '+'}{abs(w)!r}*{_quoted(name)}" for name, w in self.weights.items()]
        return "".join(terms).removeprefix("+")

    def of(self, measured: Mapping[str, Measured]) -> Measured:
        """Return the reward of KPIs and what is known of its variance, taking them for independent.

        The variance is the sum of those that are known, None if none is: whoever learns from it adds a noise of its own
        for the rest.
        """
        if missing := [name for name in self.weights if name not in measured]:
            raise BadInputError(
                f"the reward {self} needs {missing[0]!r}, which was not told: tell every KPI that it is made of"
            )
        reward, known = 0.0, [w**2 * v for n, w in self.weights.items() if (v := measured[n][1]) is not None]
        for name, weight in self.weights.items():
            reward += weight * measured[name][0]
        return reward, sum(known) if known else None

    def of_columns(self, columns: Mapping[str, FloatArray]) -> FloatArray:
        """Return the rewards of columns, (n,) each: (n,).

        Example:
            >>> import numpy as np
            >>> WeightedReward({"a": 2.0, "b": -1.0}).of_columns({"a": np.array([1.0, 2.0]), "b": np.array([0.5, 0.0])})
            array([1.5, 4. ])
        """
        total: Any = 0.0
        for name, weight in self.weights.items():
            total = total + weight * columns[name]
        rewards: FloatArray = total
        return rewards


def is_sum(value: object) -> bool:
    """Return whether a value stands for a weighted sum rather than for one column.

    Example:
        >>> is_sum("0.8*good"), is_sum({"good": 0.8}), is_sum("good+bad")
        (True, True, False)
    """
    return isinstance(value, WeightedReward | Mapping) or (isinstance(value, str) and "*" in value)


def weighted_from(value: object) -> WeightedReward:
    """Return the weighted sum that a mapping, a text or a sum itself stands for.

    Example:
        >>> weighted_from({"good": 0.8}) == weighted_from("0.8*good") == WeightedReward({"good": 0.8})
        True
    """
    if isinstance(value, WeightedReward):
        return value
    if isinstance(value, str):
        return WeightedReward.parse(value)
    if isinstance(value, Mapping):
        return WeightedReward(value)
    raise BadInputError(f'a weighted reward is a mapping such as {{"good": 0.8}} or a text, got {value!r:.60}')


def _weight(name: object, weight: object) -> float:
    if not isinstance(name, str) or not name:
        raise BadInputError(f"a weighted reward names columns, got {name!r}")
    if isinstance(weight, bool | str):
        raise BadInputError(f"the weight of {name!r} must be a number, got {weight!r}")
    return finite_number(weight, name=f"the weight of {name!r}")


def _complaint(text: str, at: int, term: re.Match[str] | None) -> str:
    """Say what is wrong with a text from a place on."""
    if text.rstrip().endswith(("*", "+", "-")):
        what = f"the reward {text!r} ends without a column"
    elif term is not None and text[term.end() : term.end() + 1] == "*":
        what = f"{term['name'].strip()!r} in the reward {text!r} is no number"
    else:
        what = f"{text[at:].strip()!r} in the reward {text!r} is not understood" if at else f"{text!r} is no reward"
    return f"{what}: write a sum of weights and columns, such as {_EXAMPLE}, with names that hold * + or - in quotes"


def _quoted(name: str) -> str:
    if not re.search(r"[*+\-'\"]|^\s|\s$", name):
        return name
    return f'"{name}"' if "'" in name else f"'{name}'"
