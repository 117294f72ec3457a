"""What flows through kinband: the numerical view of a log, decisions, and what was observed.

Records are frozen; they select rows, show themselves and, for a replay, are compared. A station is a *task* of the
paper, addressed by name outside and by its index inside; a configuration is an *arm*.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from math import isnan, nan
from operator import itemgetter
from struct import Struct
from typing import Any, Protocol, overload

import numpy as np

from kinband.arrays import BoolArray, FloatArray, IntArray
from kinband.html import table
from kinband.stats import counted

PolicyState = Mapping[str, Any]
"""What a policy wants to be handed again together with the reward; JSON-able, part of the log."""

NO_POLICY_STATE: PolicyState = {}
"""The policy_state of most decisions, one for all."""


@dataclass(frozen=True, eq=False)
class Samples:
    """A log in numbers: who, in which context, earned what.

    Attributes:
        stations: Station names; a task number is an index into them.
        tasks: Task of each row, (n,).
        X: Context of each row, (n, d): scaled state features, then configuration features.
        y: Reward of each row, (n,).
        noise: Known part of each reward's variance, nan where nothing is known, (n,); None if it never is.
        features: The d names of the columns of X.
        categorical: Columns of X that hold category codes, not quantities.
        arms: Arm of each row where arms are numbered, (n,).
        kpis: Further KPIs by name, (n,), nan where not known.
        days, spells: Number of the day of each row, and of the spell, the part of a day in which its station kept a
            setting, (n,), where rows of one may hang together; None where they do not.

    Example:
        >>> log = Samples(("a", "b"), np.array([0, 1]), np.array([[0.0], [1.0]]), np.array([0.5, 0.7]), None, ("load",))
        >>> len(log), log.of(1).y.tolist()
        (2, [0.7])
    """

    stations: tuple[str, ...]
    tasks: IntArray
    X: FloatArray
    y: FloatArray
    noise: FloatArray | None
    features: tuple[str, ...]
    categorical: tuple[int, ...] = ()
    arms: IntArray | None = None
    kpis: Mapping[str, FloatArray] = field(default_factory=dict)
    days: IntArray | None = None
    spells: IntArray | None = None

    def __len__(self) -> int:
        return len(self.y)

    def take(self, rows: IntArray | BoolArray) -> "Samples":
        """Return the chosen rows, with the same stations and features."""
        noise = None if self.noise is None else self.noise[rows]
        arms = None if self.arms is None else self.arms[rows]
        picked = replace(self, tasks=self.tasks[rows], X=self.X[rows], y=self.y[rows])
        kpis = {name: values[rows] for name, values in self.kpis.items()}
        days = None if self.days is None else self.days[rows]
        spells = None if self.spells is None else self.spells[rows]
        return replace(picked, noise=noise, arms=arms, kpis=kpis, days=days, spells=spells)

    def of(self, task: int) -> "Samples":
        """Return the rows of one task."""
        return self.take(self.tasks == task)


@dataclass(frozen=True, eq=False)
class Deployed:
    """What is deployed when a station is asked for, as far as the record tells.

    Attributes:
        running: Arm of what the station runs, None where nobody has said.
        baseline: Arm of the configuration that was declared for it, None where none was.
        decisions: How many decisions are on record.
        pending: By task, the lower bounds that decisions without reward count with in a budget.
        calibrated: Where rules have a rate, how each has fared so far (`kinband.policies.calibration`), by rule.
        tried: Arms that have run at the station, in the log or since, as far as a rule with a rate asks.

    Example:
        >>> Deployed(running=2).baseline is None
        True
    """

    running: int | None = None
    baseline: int | None = None
    decisions: int = 0
    pending: Mapping[int, float] = field(default_factory=dict)
    calibrated: Mapping[str, Any] = field(default_factory=dict)
    tried: frozenset[int] = frozenset()

    def tried_among(self, arms: int) -> BoolArray:
        """Which of so many arms have run at the station, (N,)."""
        return np.isin(np.arange(arms), list(self.tried))


@dataclass(frozen=True, eq=False)
class Query:
    """One question to a policy: a task, one context row per arm, and which arms are allowed.

    Attributes:
        task: Index of the station.
        X: One context per arm, (N, d).
        allowed: Which arms may be chosen, (N,).
        deployed: What the station runs and what is pending, where a controller asks.

    Example:
        >>> Query(0, np.zeros((3, 2)), np.array([True, False, True])).arms.tolist()
        [0, 2]
    """

    task: int
    X: FloatArray
    allowed: BoolArray
    deployed: Deployed | None = None

    @property
    def arms(self) -> IntArray:
        """Indices of the allowed arms, ascending."""
        return np.flatnonzero(self.allowed)


@dataclass(frozen=True, eq=False)
class Choice:
    """A policy's answer to a query.

    Attributes:
        arm: The chosen arm.
        arms: The arms that were scored, (m,); mean, std and score belong to them.
        mean: Predicted reward f̂ (9), (m,); None for policies without a model.
        std: Standard deviation σ of f (11), noise excluded (LinUCB: its own √(xᵀA⁻¹x)), (m,); None likewise.
        score: What was maximised, (m,), for UCB f̂ + βσ (12); None likewise.
        policy_state: What the policy needs again when the reward comes; goes into the log.
        cache: Work that would otherwise be repeated when the reward comes; never stored.

    Example:
        >>> Choice(arm=2, arms=np.array([1, 2])).arm
        2
    """

    arm: int
    arms: IntArray
    mean: FloatArray | None = None
    std: FloatArray | None = None
    score: FloatArray | None = None
    policy_state: PolicyState = field(default_factory=dict)
    cache: Any = None


@dataclass(frozen=True, eq=False, slots=True)
class Observation:
    """A reward and the context it was earned in, as told to a policy.

    Attributes:
        task: Index of the station.
        x: Context of the arm that was played, (d,).
        arm: The arm that was played.
        reward: What it earned.
        noise: Known part of the reward's variance.
        policy_state: The policy_state of the choice.
        cache: The cache of the choice, if it is still at hand.
        kpis: Further KPIs that came with the reward, by name: value and variance, None where that is not known.

    Example:
        >>> Observation(task=0, x=np.zeros(2), arm=1, reward=0.9).noise is None
        True
    """

    task: int
    x: FloatArray
    arm: int
    reward: float
    noise: float | None = None
    policy_state: PolicyState = field(default_factory=dict)
    cache: Any = None
    kpis: Mapping[str, tuple[float, float | None]] = field(default_factory=dict)


# --- What is kept of every decision: the configurations considered and the state, packed into bytes -------------------
#
# A journal holds millions of decisions, and nobody looks at most of them. As Python's own dictionaries and floats they
# would take five times the memory; packed, they are unpacked when somebody looks, and come back as they were.

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

    @property
    def best(self) -> Alternative | None:
        """The alternative of the largest mean, the others left packed; None where no mean is known."""
        known = [row for row in _ROW.iter_unpack(self._packed) if not isnan(row[1])]
        return self._unpacked(*max(known, key=itemgetter(1))) if known else None

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


# --- The decision -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Decision:
    """What a station should run, and everything needed to explain it later.

    Attributes:
        id: Name to tell the reward by; deterministic.
        station: The station.
        arm: Index of the configuration, or of the context row where the caller gave those.
        configuration: Knob values; None where the caller gave context rows.
        mean: Predicted reward f̂.
        std: Standard deviation σ of f, noise excluded.
        ucb: The score that won, f̂ + βσ for UCB policies.
        alternatives: The best-scored configurations, the chosen one among them, best first.
        known: How many rewards were known when deciding.
        round: Number of the round for decisions made together, else None.
        policy_state: What the policy needs again when the reward comes.

    Example:
        >>> Decision(id="d1", station="3714", arm=0, configuration={"threshold": -98}, mean=0.9, std=0.1, ucb=1.0).id
        'd1'
    """

    id: str
    station: str
    arm: int
    configuration: Mapping[str, Any] | None
    mean: float | None
    std: float | None
    ucb: float | None
    alternatives: Sequence[Alternative] = ()
    known: int = 0
    round: int | None = None
    policy_state: PolicyState = field(default_factory=dict)

    def _repr_html_(self) -> str:
        mine = (self.configuration, self.mean, self.std, self.ucb)
        others = [(one.configuration, one.mean, one.std, one.ucb) for one in self.alternatives if one.arm != self.arm]
        rows = [("chosen", *mine), *(("", *one) for one in others)]
        caption = f"Decision {self.id} for {self.station}, {counted(self.known, 'reward')} known"
        return table(["", "configuration", "expected", "std", "score"], rows, caption=caption)


def alternative_of(decision: Decision, arm: int) -> Alternative | None:
    """Return how an arm was scored when a decision was made; None where its scores were not kept.

    Example:
        >>> others = Alternatives([(1, 0.9, 0.05, 0.95), (0, 0.8, 0.05, 0.85)])
        >>> decision = Decision("d1", "a", 1, None, 0.9, 0.05, 0.95, others)
        >>> alternative_of(decision, 0).mean, alternative_of(decision, 7)
        (0.8, None)
    """
    others = decision.alternatives
    if isinstance(others, Alternatives):
        return others.of(arm)
    return next((other for other in others if other.arm == arm), None)


def best_of(decision: Decision) -> Alternative | None:
    """Return the alternative that was expected to earn most when a decision was made; None where none was scored.

    Example:
        >>> others = Alternatives([(1, 0.8, 0.2, 1.2), (0, 0.9, 0.05, 1.0)])
        >>> best_of(Decision("d1", "a", 1, None, 0.8, 0.2, 1.2, others)).arm
        0
    """
    others = decision.alternatives
    if isinstance(others, Alternatives):
        return others.best
    return max((one for one in others if one.mean is not None), key=lambda one: one.mean or 0.0, default=None)


# --- A replay is judged by tolerance: other machines, versions and thread counts round otherwise --------------------

TOLERANCE = 1e-9
"""What a replay may be off by: of a score for choices, of the prior's standard deviation for means and widths."""

_NOT_COMPARED = ("lane", "lanes", "arm", "column")  # in policy states of earlier versions: how a column had been solved


def same_decision(recorded: Decision, again: Decision, *, spread: float) -> bool:
    """Return whether a decision that was made again is the one on record.

    It is if the recorded choice is again the best within `TOLERANCE` of its score, the means and widths of all that
    was considered agree to `TOLERANCE` of `spread`, the prior's standard deviation, and policy states say the same.

    Example:
        >>> others = [Alternative(0, None, 0.8, 0.05, 0.9), Alternative(1, None, 0.7, 0.1, 0.9 - 1e-12)]
        >>> made = Decision("d1", "a", 0, None, 0.8, 0.05, 0.9, others)
        >>> tied, other = (replace(made, arm=1, mean=0.7, std=0.1, ucb=ucb) for ucb in (0.9 - 1e-12, 0.85))
        >>> same_decision(made, tied, spread=1.0), same_decision(made, replace(made, mean=0.81), spread=1.0)
        (True, False)
    """
    if (recorded.id, recorded.station, recorded.known, recorded.round) != (
        again.id, again.station, again.known, again.round,
    ):  # fmt: skip
        return False
    scale = max(spread, abs(recorded.ucb or 0.0))
    theirs = {other.arm: other for other in again.alternatives}
    if recorded.arm != again.arm:  # a tie, broken the other way
        chosen = theirs.get(recorded.arm)
        return chosen is not None and None not in (chosen.ucb, again.ucb) and _close(chosen.ucb, again.ucb, scale)
    mine = [(o.arm, o.mean, o.std, o.ucb) for o in recorded.alternatives if o.arm in theirs]
    found = [(arm, theirs[arm].mean, theirs[arm].std, theirs[arm].ucb) for arm, *_ in mine]
    scores = [(d.configuration, d.mean, d.std, d.ucb) for d in (recorded, again)]
    return _close([scores[0], mine], [scores[1], found], scale) and _close(
        recorded.policy_state, again.policy_state, scale
    )


def _close(one: Any, other: Any, scale: float) -> bool:
    """Whether values of JSON agree, numbers up to the tolerance of `scale` or of themselves."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        keys = {key for key in (*one, *other) if key not in _NOT_COMPARED}
        return all(key in one and key in other and _close(one[key], other[key], scale) for key in keys)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(_close(a, b, scale) for a, b in zip(one, other, strict=True))
    if isinstance(one, float) and isinstance(other, float | int):
        return abs(one - other) <= TOLERANCE * max(scale, abs(one))
    return bool(one == other)
