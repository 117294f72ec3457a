"""What a safe trial is: three rules, each a frozen record of a few numbers.

`Conservative` follows Wu, Shariff, Lattimore and Szepesvári, "Conservative Bandits" (2016), and Kazerouni, Ghavamzadeh,
Abbasi-Yadkori and Van Roy, "Conservative Contextual Linear Bandits" (2017): a trial is paid out of what the
configuration of today has earned. `Floor` is the stage-wise demand of Moradipari, Thrampoulidis and Alizadeh,
"Stage-wise Conservative Linear Bandits" (2020), close to SafeOpt (Sui, Gotovos, Burdick and Krause 2015): every trial
by itself. `SwitchingCost` charges for change.

A bound is β times a standard deviation. By default β is the policy's own, which promises nothing in numbers. With
`delta`, the promise holds at all times with probability 1 − δ, if f was drawn from the model; `Conservative` then
promises rewards, not only what is expected of them. With `bounds`, β is that of any rule that `beta=` takes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import InitVar, dataclass, field
from math import inf, isinf
from typing import Any, Literal

import numpy as np

from kinband.arrays import finite_number
from kinband.errors import BadInputError
from kinband.policies.exploration import (
    Exploration,
    KrauseOng,
    exploration_from,
    exploration_from_dict,
    exploration_to_dict,
)

Bounds = float | str | Exploration | None
"""What `beta=` takes, or None for the policy's own β."""


@dataclass(frozen=True)
class Conservative:
    """Never earn less in all than 1 − α of what the declared configurations would have earned.

    Attributes:
        alpha: Share of today's reward that trials may cost, from 0 to 1.
        per_station: Whether every station has a budget of its own, or one budget serves the network. A network pays
            for a trial out of what all its stations earn, and so dares the first one much sooner.
        least: What rewards are counted from; no configuration earns less.
        bounds: β of the bounds: None for the policy's own, or a number, a name or a rule as for `beta=`.
        delta: Instead of `bounds`, the probability with which the promise may be broken.
        of: What is promised: the "rewards" that come, scatter and all, or what is "expected" of them. Rewards, and what
            is expected too, where a probability is stated; what is expected where none is.

    Example:
        >>> rule = Conservative(alpha=0.1, delta=0.05)
        >>> rule.bounds, rule.of, Conservative(alpha=0.1).of
        (KrauseOng(delta=0.05), 'rewards', 'expected')
        >>> Conservative(alpha=5)
        Traceback (most recent call last):
            ...
        kinband.errors.BadInputError: alpha is a share of today's reward, between 0 and 1, got 5
    """

    alpha: float = 0.05
    per_station: bool = field(default=False, kw_only=True)
    least: float = field(default=0.0, kw_only=True)
    bounds: Bounds = field(default=None, kw_only=True)
    delta: InitVar[float | None] = field(default=None, kw_only=True)
    of: Literal["rewards", "expected"] | None = field(default=None, kw_only=True)

    def __post_init__(self, delta: float | None) -> None:
        for name in ("alpha", "least"):  # plain floats, which JSON can hold
            object.__setattr__(self, name, finite_number(getattr(self, name), name=name))
        if not 0 <= self.alpha <= 1:
            raise BadInputError(f"alpha is a share of today's reward, between 0 and 1, got {self.alpha:g}")
        if not isinstance(self.per_station, bool | np.bool_):
            raise BadInputError(f"per_station is True or False, got {self.per_station!r:.60}")
        object.__setattr__(self, "per_station", bool(self.per_station))
        bounds = beta_rule(self.bounds, delta)
        object.__setattr__(self, "bounds", bounds)
        stated = isinstance(bounds, KrauseOng)
        if self.of is None:
            object.__setattr__(self, "of", "rewards" if stated else "expected")
        elif self.of not in ("rewards", "expected"):
            raise BadInputError(f"a promise is one of 'rewards' or of what is 'expected', got {self.of!r}")
        elif self.of == "rewards" and not stated:
            raise BadInputError("a promise of rewards needs the probability with which it may be broken: give delta=")

    @property
    def probability(self) -> float:
        """The δ with which a promise of rewards may be broken."""
        if not isinstance(self.bounds, KrauseOng):
            raise BadInputError("no probability is stated: give delta=")
        return self.bounds.delta


@dataclass(frozen=True)
class Floor:
    """Try only what is sure to earn at most `drop` less than what the station runs.

    Against "difference", the lower bound of the difference between the two must be at least −drop: this is what an
    operator asks, and what makes both uncertain alike (a state seldom seen) cancels out. Against "mean", the trial's
    own lower bound is held against the mean of what runs: cheaper with thousands of configurations, but it takes that
    mean for certain, and tries nothing in states seldom seen.

    Attributes:
        drop: How much less a trial may earn at worst, in units of reward; infinite for no floor.
        against: "difference" or "mean".
        bounds: β of the bounds: None for the policy's own, or a number, a name or a rule as for `beta=`.
        delta: Instead of `bounds`, the probability with which any trial may fall below the floor.

    Example:
        >>> Floor(0.02).against
        'difference'
    """

    drop: float
    against: Literal["difference", "mean"] = field(default="difference", kw_only=True)
    bounds: Bounds = field(default=None, kw_only=True)
    delta: InitVar[float | None] = field(default=None, kw_only=True)

    def __post_init__(self, delta: float | None) -> None:
        object.__setattr__(self, "drop", inf if self.drop == inf else finite_number(self.drop, name="drop"))
        if self.drop < 0:
            raise BadInputError(f"drop must not be negative, got {self.drop:g}")
        if self.against not in ("difference", "mean"):
            raise BadInputError(f"a floor is held against 'difference' or 'mean', got {self.against!r}")
        object.__setattr__(self, "bounds", beta_rule(self.bounds, delta))


@dataclass(frozen=True)
class SwitchingCost:
    """Change only for a score that is better by more than `cost`, in units of reward.

    Example:
        >>> SwitchingCost(-0.1)
        Traceback (most recent call last):
            ...
        kinband.errors.BadInputError: the switching cost must not be negative, got -0.1
    """

    cost: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "cost", finite_number(self.cost, name="the switching cost"))
        if self.cost < 0:
            raise BadInputError(f"the switching cost must not be negative, got {self.cost:g}")


Rule = Conservative | Floor | SwitchingCost


@dataclass(frozen=True)
class Safety:
    """The rules of a controller, at most one of each kind.

    Example:
        >>> safety_from([Floor(0.02), SwitchingCost(0.01)]).conservative is None
        True
    """

    conservative: Conservative | None = None
    floor: Floor | None = None
    cost: SwitchingCost | None = None


SafetyLike = Rule | Sequence[Rule] | Safety | None


def safety_from(given: SafetyLike) -> Safety | None:
    """Return the rules that one rule, several or none stand for.

    Example:
        >>> safety_from(None) is None, safety_from(Floor(0.1)).floor.drop
        (True, 0.1)
        >>> safety_from("conservative")
        Traceback (most recent call last):
            ...
        kinband.errors.BadInputError: safety takes Conservative(...), Floor(...), SwitchingCost(...) or a list of ...
    """
    if given is None or isinstance(given, Safety):
        return given
    rules: list[Any] = list(given) if isinstance(given, list | tuple) else [given]
    found: dict[str, Any] = {}
    for rule in rules:
        if not isinstance(rule, Rule):
            raise BadInputError(
                f"safety takes Conservative(...), Floor(...), SwitchingCost(...) or a list of them, got {rule!r:.60}"
            )
        name = _NAMES[type(rule)]
        if name in found:
            raise BadInputError(f"safety holds {type(rule).__name__} twice: give each rule once")
        found[name] = rule
    return Safety(**found) if found else None


_NAMES: dict[type, str] = {Conservative: "conservative", Floor: "floor", SwitchingCost: "cost"}


def safety_to_dict(safety: Safety) -> dict[str, Any]:
    """Return rules as JSON-able values.

    Example:
        >>> safety_to_dict(Safety(cost=SwitchingCost(0.01)))
        {'conservative': None, 'floor': None, 'cost': {'cost': 0.01}}
    """
    return {name: _rule_to_dict(getattr(safety, name)) for name in _NAMES.values()}


def safety_from_dict(values: Mapping[str, Any]) -> Safety:
    """Return the rules that `safety_to_dict` wrote.

    Example:
        >>> rules = Safety(conservative=Conservative(0.1, bounds=2.0), floor=Floor(inf))
        >>> safety_from_dict(safety_to_dict(rules)) == rules
        True
    """
    rules: dict[str, Any] = {name: _rule_from_dict(kind, values[name]) for kind, name in _NAMES.items()}
    return Safety(**rules)


def _rule_to_dict(rule: Rule | None) -> dict[str, Any] | None:
    if rule is None:
        return None
    values = dict(vars(rule))
    if values.get("of") == "expected":
        del values["of"]  # what was promised before rewards could be
    if "bounds" in values and values["bounds"] is not None:
        values["bounds"] = exploration_to_dict(values["bounds"])
    # JSON has no infinity.
    return {name: None if isinstance(v, float) and isinf(v) else v for name, v in values.items()}


def _rule_from_dict(kind: type, values: Mapping[str, Any] | None) -> Rule | None:
    if values is None:
        return None
    given = dict(values)
    if given.get("bounds") is not None:
        given["bounds"] = exploration_from_dict(given["bounds"])
    if kind is Conservative:
        given.setdefault("of", "expected")
    if kind is Floor and given["drop"] is None:
        given["drop"] = inf
    rule: Rule = kind(**given)
    return rule


def beta_rule(bounds: Bounds, delta: float | None = None) -> Exploration | None:
    """Return the rule that `bounds` or `delta` stands for, None for the policy's own.

    Example:
        >>> beta_rule(2.0), beta_rule(None, 0.1), beta_rule(None)
        (Constant(value=2.0), KrauseOng(delta=0.1), None)
    """
    if delta is None:
        return None if bounds is None else exploration_from(bounds)
    if bounds is not None:
        raise BadInputError("a rule takes bounds= or delta=, not both: delta is that of the rule in bounds")
    return KrauseOng(finite_number(delta, name="delta"))
