"""What the reward of a row is."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kinband.arrays import BoolArray, FloatArray, finite_number
from kinband.errors import BadInputError

# --- A reward that is a weighted sum of columns, the same in a log and in life --------------------------------------
#
# An operator seldom answers for one number. The reward may be several KPIs, each with a weight in units of reward per
# unit of the KPI: 0.8 for a share of satisfied users and 0.02 for a throughput in Mbps makes 5 Mbps worth as much as an
# eighth of the users. `WeightedReward` is that sum. A column map of a trace takes one under "reward", and a controller
# turns the KPIs it is told into a reward with the same object, so that log and life agree to the last bit: both add the
# terms in the order in which they were given.
#
# As text it is written `0.8*satisfied_share+0.02*throughput_mbps`; a name that holds `*`, `+` or `-` is put into
# quotes.

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
            kinband.errors.BadInputError: 'much' in the reward 'much*good' is not a number: write a sum of ...
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
    """Return whether a value stands for a weighted sum rather than for one column."""
    return isinstance(value, WeightedReward | Mapping) or (isinstance(value, str) and "*" in value)


def weighted_from(value: object) -> WeightedReward:
    """Return the weighted sum that a mapping, a text or a sum itself stands for."""
    if isinstance(value, WeightedReward):
        return value
    if isinstance(value, str):
        return WeightedReward.parse(value)
    if isinstance(value, Mapping):
        return WeightedReward(value)
    raise BadInputError(f'a weighted reward is a mapping such as {{"good": 0.8}} or a text, got {value!r:.60}')


def summed_columns(reward: object) -> list[str]:
    """Return the columns of a weighted reward; none where it is one column, or not understood.

    Example:
        >>> summed_columns("0.8*good+0.2*rate"), summed_columns("good")
        (['good', 'rate'], [])
    """
    try:
        return list(weighted_from(reward).weights) if is_sum(reward) else []
    except BadInputError:  # which a column of that name would explain, and else the reader complains of
        return []


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
        what = f"{term['name'].strip()!r} in the reward {text!r} is not a number"
    else:
        what = f"{text[at:].strip()!r} in the reward {text!r} is not understood" if at else f"{text!r} is not a reward"
    return f"{what}: write a sum of weights and columns, such as {_EXAMPLE}, with names that hold * + or - in quotes"


def _quoted(name: str) -> str:
    if not re.search(r"[*+\-'\"]|^\s|\s$", name):
        return name
    return f'"{name}"' if "'" in name else f"'{name}'"


# --- What is known of rewards beyond their numbers: their unit, their range, and the noise of a share ---------------
#
# A share of users is often exported in per cent. kinband takes any unit, but not two at once, and only a share between
# 0 and 1 has a noise that follows from the number of users: p(1 - p)/n.

_FEW = 10  # rows on either side below which two units cannot be told from chance
_APART = 0.02  # the share of the larger rewards that may lie between the two units


def range_of(reward_range: object) -> tuple[float, float]:
    """Return the lowest and the highest possible reward after checking them."""
    if not isinstance(reward_range, Sequence | np.ndarray) or isinstance(reward_range, str) or len(reward_range) != 2:
        raise BadInputError(f"reward_range must be (lowest, highest), such as (0, 1), got {reward_range!r}")
    low, high = (finite_number(limit, name="a limit of reward_range") for limit in reward_range)
    if not low < high:
        raise BadInputError(f"reward_range needs its lowest below its highest, got {low:g} and {high:g}")
    return low, high


def looks_like_per_cent(reward: FloatArray) -> bool:
    """Return whether rewards, (n,), can be per cent and cannot be shares."""
    return bool(reward.min() >= 0 and 1 < reward.max() <= 100)


def mixes_units(reward: FloatArray) -> bool:
    """Return whether some rewards, (n,), look like shares and the others like the same quantity in per cent.

    That is: none outside 0 to 100, hardly any between the two units, and medians a factor of about 100 apart.
    """
    shares, others = reward[reward <= 1], reward[reward > 1]
    if min(len(shares), len(others)) < _FEW or reward.min() < 0 or reward.max() > 100:
        return False
    if np.isin(shares, (0.0, 1.0)).all() or np.mean(others < 5) > _APART:
        return False
    return bool(100 / 3 < np.median(others) / np.median(shares) < 300) if np.median(shares) > 0 else False


# A counter that has nothing to say often says 65535 or -999, and one such value outweighs a thousand rewards. What lies
# far outside all others is told from the tail of what is honestly uneven by that tail itself: a span of the others that
# is r times the half in their middle makes a next value r^1.5 times that span away no surprise, one further a stray.
# A share has bounds, and an outage takes it there: within 0 to 1, or 0 to 100, only what fits the other unit is astray.

PLACEHOLDERS = (999, 9999, 99999, 2**15 - 1, 2**16 - 1, 2**31 - 1, 2**32 - 1)
"""Numbers that stand for nothing in exports; so do they below zero."""
_TOLD = 500  # rows by which a heavy tail shows; with fewer a gap must be wider
_COMPUTED = 1e100  # numbers beyond are refused as too large to compute with, where they are
_SPANS, _RARE, _LEAST_SHARE = 30.0, 0.05, 0.3  # spans away, share of the rows, and median of rows that may be shares


def strays(values: FloatArray) -> BoolArray:
    """Return which few values, (n,) with nan where not known, lie so far outside all others that they are none.

    Example:
        >>> strays(np.append(np.linspace(60, 85, 200), [65535.0, 0.0])).nonzero()[0]
        array([200])
    """
    found = np.zeros(len(values), dtype=np.bool_)
    known = np.flatnonzero(np.abs(values) < _COMPUTED)
    called = np.isin(np.abs(values[known]), PLACEHOLDERS)
    rest = known[~called]
    if len(rest) < 2 * _FEW:
        return found
    low, high = _bulk(np.sort(values[rest]))
    x = values[rest]
    away = (x < low) | (x > high)
    found[rest] = _of_the_other_unit(x, low, high) if x.min() >= 0 and x.max() <= 100 else away
    if called.sum() < len(rest):
        x, inside = values[known], x[~found[rest]]
        far = np.maximum(inside.min() - x, x - inside.max()) > np.ptp(inside)
        found[known] |= called & far
    return found


def _bulk(x: FloatArray) -> tuple[float, float]:
    """The lowest and the highest of sorted values, (n,), that are not cut off from their middle by a wide gap."""
    few, n = int(_RARE * len(x)), len(x)
    middle, least = float(np.subtract(*np.quantile(x, [0.75, 0.25]))), _SPANS * max(1.0, _TOLD / n)
    if middle <= 0:
        return float(x[0]), float(x[-1])
    low, high = few, n - 1 - few
    end = high + _until(x[high:] - x[low], middle, least)
    low -= _until((x[end] - x[: low + 1])[::-1], middle, least)
    end = high + _until(x[high:] - x[low], middle, least)
    return float(x[low]), float(x[end])


def _until(spans: FloatArray, middle: float, least: float) -> int:
    """The place before the first gap in growing spans, (k,), that is too wide for what lies before it."""
    wide = np.diff(spans) > spans[:-1] * np.maximum(least, (spans[:-1] / middle) ** 1.5)
    return int(np.argmax(wide)) if wide.any() else len(spans) - 1


def _of_the_other_unit(x: FloatArray, low: float, high: float) -> BoolArray:
    """Which few of values between 0 and 100, (n,), are per cent among shares, or shares among per cent."""
    if high <= 1 and np.median(x) >= _LEAST_SHARE:
        odd, others = x > high, (low, high)
        fit = np.abs(x / 100 - (low + high) / 2) <= high - low
    else:
        odd, others = (x > 0) & (x <= 1), (x[x > 1].min(initial=100.0), x.max())
        fit = (100 * x >= others[0]) & (100 * x <= others[1])
        fit &= others[0] - x.max(where=odd, initial=0.0) > 2 * (others[1] - others[0])
    all_fit = fit[odd].all() and odd.sum() <= _RARE * len(x)
    return odd if all_fit else np.zeros(len(x), dtype=np.bool_)


def as_shares(columns: dict[str, Any]) -> dict[str, Any]:
    """Return the columns of a trace with rewards and their variance turned from per cent into shares."""
    noise = columns["noise"]
    return {**columns, "reward": columns["reward"] / 100, "noise": None if noise is None else noise / 100**2}


def check_counted(weighted: WeightedReward | None, *, samples: str | None) -> None:
    """Refuse a sample count beside a weighted sum: it gives the noise of one share, not that of a sum."""
    if weighted is not None and samples is not None:
        raise BadInputError(
            f"column {samples!r} counts the samples of a share, the reward is the sum {weighted}",
            hint="leave the column out with columns={'ignore': ...}, or give the variance of the sum as noise",
            code="samples_of_a_sum",
            argument="samples",
            value=samples,
        )


def noise_of_shares(share: FloatArray, count: FloatArray) -> FloatArray:
    """Return the variance of shares, (n,), over so many samples each, (n,); nan where the count is not known."""
    if (~np.isnan(count) & ((share < 0) | (share > 1))).any():
        problem = "sample counts give the noise of shares in [0, 1] only"
        if looks_like_per_cent(share):
            hint = "they look like per cent, say so with per_cent=True"
            raise BadInputError(f"{problem}, and not of these rewards", hint=hint, code="per_cent", argument="samples")
        hint = "divide the reward, or give its noise"
        raise BadInputError(f"{problem}, others need a noise of their own", hint=hint, argument="samples")
    p = (share * count + 1) / (count + 2)
    return np.asarray(p * (1 - p) / count)
