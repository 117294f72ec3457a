"""What stations like this one run, and which stations deviate: from a configuration dump and descriptors alone.

Planners set knobs by rules that nobody wrote down: by land use, height, carrier, region, vendor. A forest of decision
trees (Breiman 2001) finds such rules for each knob; every station is predicted by the trees that never saw it (*out of
bag*), so that what is said of a station is said as if its value were hidden, and the share of right answers is honest.

**Who deviates.** A value comes from the rule, with the probability that the forest gives it, or is a deviation, of
which any value is equally likely. How many deviate, and how far the forest's probabilities are to be sharpened (p^τ),
is found by maximum a posteriori over all stations. The probability that a station deviates follows by Bayes' rule: a
rare value is no deviation where the rule is vague, and where a knob follows no rule nobody deviates.

**Who is like it.** Two stations are alike as often as they end in the same leaf of a tree.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from kinband.arrays import FloatArray, IntArray
from kinband.errors import BadInputError
from kinband.similarity.newcomers import Descriptors, Value, check_kinds
from kinband.stats import Estimate, counted, share_of

LEAST = 20
"""Stations with a known value that a rule is sought from, at least."""
SURE = 0.8
"""How probable a deviation is that is reported, at least."""
ALIKE = 40
"""Stations that a deviation is shown beside: those most like it."""

_TREES, _LEAF = 200, 3  # of a forest; fewest stations of a leaf, so that one deviation makes no rule
_MANY = 60  # different values, or words of a descriptor, beyond which they tell stations apart rather than kinds
_TELLING = 0.1  # share of what a forest goes by from which on a descriptor is named
_MOST = 0.2  # share of stations that may deviate; where more differ from a rule, the rule is not clear enough
_RARE, _VAGUE = (-1.0, 0.6), (0.0, 1.0)  # priors, mean and sd: of the log odds of the share within _MOST, and of log τ

# --- What is found --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Deviation:
    """A station that runs another value than stations like it.

    Attributes:
        station: Its name.
        knob: Of which knob.
        runs: What it runs.
        usual: What stations like it run.
        sure: How probable it is that this is no rule.
        like: Of the stations most like it, how many run the same.
        usual_like: How many of these run what is usual.
        of: How many these are.
    """

    station: str
    knob: str
    runs: Value
    usual: Value
    sure: float
    like: int
    usual_like: int
    of: int


@dataclass(frozen=True)
class KnobRule:
    """What a knob follows.

    Attributes:
        knob: Its name.
        stations: With a known value.
        values: How many different ones.
        held_out: Share of stations whose value is predicted where it is hidden.
        commonest: Share that run the most common value; what one gets without descriptors.
        deviating: Share of the stations that deviate, as estimated.
        follows: What it goes by: descriptors with their shares.
        deviations: Those that are sure enough, the surest first.
    """

    knob: str
    stations: int
    values: int
    held_out: Estimate
    commonest: float
    deviating: float
    follows: tuple[tuple[str, float], ...]
    deviations: tuple[Deviation, ...]

    @property
    def told(self) -> bool:
        """Whether descriptors tell more than the most common value does, for certain."""
        return self.held_out.low > self.commonest

    def to_dict(self) -> dict[str, Any]:
        """Return it in JSON's types."""
        named = {"knob": self.knob, "stations": self.stations, "values": self.values}
        shares = {"held_out": self.held_out.to_dict(), "commonest": self.commonest, "deviating": self.deviating}
        return {**named, **shares, "follows": dict(self.follows), "deviations": [vars(one) for one in self.deviations]}


def conform(
    configurations: Mapping[str, Mapping[str, Value]],
    descriptors: Mapping[str, Descriptors],
    *,
    sure: float = SURE,
    seed: int = 0,
) -> list[KnobRule]:
    """Return what each knob follows, and who deviates.

    Args:
        configurations: Station to knob to what it runs; what is not known is left out.
        descriptors: What describes each station.
        sure: How probable a deviation must be to be reported.
        seed: Seed of the forests.

    Example:
        >>> kinds = {f"s{n}": "town" if n % 2 else "village" for n in range(60)}
        >>> runs = {name: {"tilt": 6 if kind == "town" else 2} for name, kind in kinds.items()} | {"s7": {"tilt": 2}}
        >>> (tilt,) = conform(runs, {name: {"land_use": kind} for name, kind in kinds.items()})
        >>> [(one.station, one.runs, one.usual) for one in tilt.deviations], tilt.held_out.value > 0.95
        ([('s7', 2, 6)], True)
    """
    stations = [name for name in configurations if descriptors.get(name)]
    features = _Features.of([descriptors[name] for name in stations])
    knobs = list(dict.fromkeys(knob for name in configurations for knob in configurations[name]))
    return [_rule(knob, stations, configurations, features, sure=sure, seed=seed) for knob in knobs]


def _rule(
    knob: str,
    stations: Sequence[str],
    configurations: Mapping[str, Mapping[str, Value]],
    features: "_Features",
    *,
    sure: float,
    seed: int,
) -> KnobRule:
    rows = np.array([m for m, name in enumerate(stations) if knob in configurations[name]], dtype=np.int64)
    if len(rows) < LEAST:
        raise BadInputError(
            f"knob {knob!r} is known of {counted(len(rows), 'described station')}, and a rule takes {LEAST} at least",
            hint="give the dump of more stations, with columns or a file that describe them",
            code="too_few_stations_to_conform",
            argument=knob,
        )
    runs = [configurations[stations[m]][knob] for m in rows.tolist()]
    values = sorted(set(runs), key=lambda value: (isinstance(value, str), value))
    code = np.array([values.index(value) for value in runs], dtype=np.int64)
    counts = np.bincount(code)
    if len(values) > max(_MANY, len(rows) // 10):
        raise BadInputError(
            f"knob {knob!r} has {len(values):,} different values at {len(rows):,} stations: it tells stations apart "
            "and follows no rule",
            hint="leave it out of --configuration",
            code="no_rule",
            argument=knob,
        )
    commonest = float(counts.max() / len(rows))
    if len(values) == 1:
        return KnobRule(knob, len(rows), 1, share_of(len(rows), len(rows)), commonest, 0.0, (), ())
    forest = Forest.grown(features.X[rows], code, seed=seed)
    deviating, sharpness = mixture(forest.votes, code)
    odd = probabilities(forest.votes, code, deviating=deviating, sharpness=sharpness)
    usual = forest.votes.argmax(axis=1)
    found = np.flatnonzero((odd >= sure) & (usual != code))
    like = forest.alike(found)
    deviations = [
        Deviation(stations[rows[i]], knob, values[code[i]], values[usual[i]], float(odd[i]),
                  int((code[kin] == code[i]).sum()), int((code[kin] == usual[i]).sum()), len(kin))
        for i, kin in zip(found.tolist(), like, strict=True)
    ]  # fmt: skip
    held_out = share_of(int((usual == code).sum()), len(rows))
    ranked = tuple(sorted(deviations, key=lambda one: (-one.sure, one.station)))
    return KnobRule(knob, len(rows), len(values), held_out, commonest, deviating, features.named(forest), ranked)


# --- Descriptors as numbers -----------------------------------------------------------------------------------------


class _Features(NamedTuple):
    """What describes stations, as the forest takes it.

    Attributes:
        X: Numbers, and a column for every word of a category, (n, d); nan where not known.
        names: The descriptor of each column, (d,).
    """

    X: FloatArray
    names: tuple[str, ...]

    @classmethod
    def of(cls, described: Sequence[Descriptors]) -> "_Features":
        columns, names = list[FloatArray](), list[str]()
        for name, numeric in check_kinds({str(m): one for m, one in enumerate(described)}).items():
            values = [one.get(name) for one in described]
            if numeric:
                columns.append(np.array([np.nan if value is None else value for value in values], dtype=np.float64))
                names.append(name)
                continue
            words = [str(value) for value in dict.fromkeys(values) if value is not None]
            if len(words) > min(_MANY, len(described) // 3):
                continue  # a name, not a kind
            columns += [np.array([str(value) == word for value in values], dtype=np.float64) for word in words]
            names += [name] * len(words)
        if not columns:
            raise BadInputError(
                "nothing describes the stations but their names",
                hint="give columns such as land use, height, carrier or position, or a file with --descriptors",
                code="no_descriptors",
            )
        return cls(np.column_stack(columns), tuple(names))

    def named(self, forest: "Forest") -> tuple[tuple[str, float], ...]:
        """Return what a forest goes by, most first."""
        shares: dict[str, float] = {}
        for name, share in zip(self.names, forest.importance.tolist(), strict=True):
            shares[name] = shares.get(name, 0.0) + share
        ranked = sorted(shares.items(), key=lambda item: -item[1])
        return tuple((name, share) for name, share in ranked if share >= _TELLING)


# --- The forest, and who deviates from it ---------------------------------------------------------------------------


class Forest(NamedTuple):
    """Trees that predict the value of a knob.

    Attributes:
        votes: Probability of each value by the trees that did not see the station, (n, K).
        importance: What it goes by, (d,), with sum 1.
        leaves: The leaf of each station in each tree, (n, T).
    """

    votes: FloatArray
    importance: FloatArray
    leaves: IntArray

    @classmethod
    def grown(cls, X: FloatArray, code: IntArray, *, seed: int) -> "Forest":
        """Grow a forest for values by number, (n,), from what describes stations, (n, d)."""
        from sklearn.ensemble import RandomForestClassifier

        how: dict[str, Any] = {"min_samples_leaf": _LEAF, "max_features": 0.5, "oob_score": True}
        forest = RandomForestClassifier(_TREES, random_state=seed, **how).fit(X, code)
        votes = np.nan_to_num(np.asarray(forest.oob_decision_function_)) + 1.0 / _TREES
        votes /= votes.sum(axis=1, keepdims=True)
        return cls(votes, np.asarray(forest.feature_importances_), np.asarray(forest.apply(X)))

    def alike(self, rows: IntArray) -> list[IntArray]:
        """Return the stations most like each of some, most alike first; itself left out."""
        found = []
        for i in rows.tolist():
            together = (self.leaves == self.leaves[i]).sum(axis=1)
            together[i] = 0
            kin = np.argsort(-together, kind="stable")[:ALIKE]
            found.append(kin[together[kin] > 0])
        return found


def mixture(votes: FloatArray, code: IntArray) -> tuple[float, float]:
    """Return which share deviates and the sharpness τ of the rule, the most probable ones given what stations run.

    Args:
        votes: Probability of each value, (n, K), positive.
        code: What each runs, (n,).

    Example:
        >>> votes = np.tile([0.9, 0.1], (50, 1))
        >>> share, _ = mixture(votes, np.zeros(50, dtype=np.int64))
        >>> share < 0.05
        True
    """
    from scipy.optimize import minimize

    n, K = votes.shape
    logs, own = np.log(votes), np.arange(n)

    def cost(at: FloatArray) -> float:
        share, powers = _MOST / (1.0 + np.exp(-at[0])), np.exp(at[1]) * logs
        powers -= powers.max(axis=1, keepdims=True)
        rule = np.exp(powers[own, code]) / np.exp(powers).sum(axis=1)
        prior = sum(((a - mean) / std) ** 2 / 2 for a, (mean, std) in zip(at, (_RARE, _VAGUE), strict=True))
        return float(prior - np.log((1.0 - share) * rule + share / K).sum())

    best = minimize(cost, np.array([_RARE[0], _VAGUE[0]]), method="Nelder-Mead").x
    return float(_MOST / (1.0 + np.exp(-best[0]))), float(np.exp(best[1]))


def probabilities(votes: FloatArray, code: IntArray, *, deviating: float, sharpness: float) -> FloatArray:
    """Return how probable it is that each station deviates, (n,), by Bayes' rule."""
    rule = votes**sharpness
    own = rule[np.arange(len(code)), code] / rule.sum(axis=1)
    by_chance = deviating / votes.shape[1]
    return np.asarray(by_chance / (by_chance + (1.0 - deviating) * own))
