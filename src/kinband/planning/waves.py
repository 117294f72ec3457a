"""Staged roll-out: which changes of a plan come first, and which are held back so that the proof has a control group.

What a change will teach is known before it is made, as with trials (`kinband.planning.design`): the rows of a wave tell
f̄_j(a_j), the mean of f at a station over the period with the setting proposed there, and that takes

    Σ_m cov(f̄_j(a_j), f̄_m(a_m) − f̄_m(a₀_m))² / (var f̄_j(a_j) + λ_j)

off the variances of what the others gain. The sum goes over stations m for which the plan has looked at a change and
that are in no wave yet, those left alone since a gain is not certain among them: for these the first wave may decide.
The change that takes off most comes first; then the covariances are as if its rows were told, and so on. λ_j is the
variance of a mean of one period's rows, which all ran one setting. Period means are taken over a few of its rows.

Who is held back is drawn by lot, evenly over what is proposed: the changes are ordered by setting, at random within
one, and every k-th is taken from a random start, so that all have the same chance.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil

import numpy as np

from kinband.arrays import BoolArray, FloatArray
from kinband.errors import BadInputError
from kinband.kernels import Kernel
from kinband.planning.evidence import Averages, covariances
from kinband.planning.making import Group, RankedChange, averages_of
from kinband.planning.period import Present
from kinband.planning.plan import Change, ChangePlan, LeftAlone, Waves, Why

CONTROLS = 8
"""Stations that stay as they are, which kinband.impact needs to judge a change."""
MOST_HELD_BACK = 0.5
"""Share of the changes that is held back at most for a control group of enough stations."""

_LOOKS = 12  # rows of a period that its mean is taken over, evenly chosen; of a week at 13 hours of the day
_NO_CONTROLS: frozenset[Why] = frozenset({"not in the log", "silent"})


@dataclass(frozen=True)
class Staging:
    """How a plan is to be rolled out.

    Attributes:
        waves: How many waves.
        hold_back: Share of the changes that is held back, 0 for none.
        seed: Of the lot.

    Example:
        >>> Staging(3, hold_back=0.1).waves
        3
    """

    waves: int
    hold_back: float = 0.0
    seed: int = 0

    def __post_init__(self) -> None:
        whole = isinstance(self.waves, int) and not isinstance(self.waves, bool)
        if not whole or self.waves < 1:
            raise BadInputError(f"waves must be a whole number of at least 1, got {self.waves!r:.40}", argument="waves")
        if not 0.0 <= self.hold_back < 1.0:
            raise BadInputError(
                f"the share that is held back must be 0 or more and below 1, got {self.hold_back!r:.40}",
                argument="hold_back",
            )


# --- What changes teach ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Lessons:
    """What is believed, together, of the changes that a plan has looked at in a group of n stations.

    Attributes:
        stations: For which there is a change, (n,).
        C: Covariance of their period means, first those with the change, then those without it, (2n, 2n).
        noise: Variance of the mean of a period's rows of each station around f̄, (n,).
    """

    stations: tuple[str, ...]
    C: FloatArray
    noise: FloatArray


def lessons(group: Group, found: Sequence[RankedChange | LeftAlone], now: Mapping[str, Present]) -> Lessons:
    """Return what is believed of the changes that were looked at in a group, worth making or not."""
    looked = [one.change if isinstance(one, RankedChange) else one for one in found]
    looked = [one for one in looked if one.proposed is not None and one.moves]
    if not looked:
        return Lessons((), np.zeros((0, 0)), np.zeros(0))
    evidence, n = group.evidence, len(looked)
    number = {name: task for task, name in enumerate(group.stations)}
    tasks = np.array([number[one.station] for one in looked])
    told, points, weights = list[FloatArray](), list[FloatArray](), list[FloatArray]()
    for one, task in zip(looked, tasks.tolist(), strict=True):
        mean = _thinned(averages_of(group, now[one.station]))
        arms = np.array([group.space.index(one.proposed or {}), group.space.index(one.present)])
        told.append(covariances(evidence, mean, task, arms))
        points += [mean.with_setting(int(arm)) for arm in arms]
        weights += [mean.W[0]] * 2
    prior = _between(points, weights, evidence.kernel.context) * np.kron(
        evidence.kernel.K_Z[np.ix_(tasks, tasks)], np.ones((2, 2))
    )
    V = evidence.solved(np.hstack(told))
    order = np.arange(2 * n).reshape(n, 2).T.ravel()
    C = (prior - V.T @ V)[np.ix_(order, order)]
    return Lessons(tuple(one.station for one in looked), C, _noise(group, [now[one.station] for one in looked]))


def _between(points: Sequence[FloatArray], weights: Sequence[FloatArray], kernel: Kernel) -> FloatArray:
    """Covariance, within a station, of means over points (k, d) with weights (k,), (2n, 2n)."""
    X, w = np.vstack(points), np.concatenate(weights)
    starts = np.cumsum([0, *map(len, weights[:-1])])
    C = np.array([np.add.reduceat((v @ kernel(own, X)) * w, starts) for own, v in zip(points, weights, strict=True)])
    return np.asarray((C + C.T) / 2.0)


def _noise(group: Group, present: Sequence[Present]) -> FloatArray:
    """Variance of the mean of a period's rows around f̄: all ran one setting, one spell of rows."""
    rows, shocks = group.evidence.rows, group.evidence.shocks
    of_row = float(np.median(rows.noise * rows.count)) if len(rows) else 0.0
    periods = np.array([1 if one.period is None else len(one.period.states) for one in present])
    return np.asarray(of_row / np.maximum(periods, 1) + shocks.spell, dtype=np.float64)


def _thinned(averages: Averages) -> Averages:
    """The mean over a period, over a few of its rows."""
    rows = np.unique(np.linspace(0, len(averages.X) - 1, min(_LOOKS, len(averages.X))).round().astype(np.int64))
    weights = averages.W[:1, rows]
    total = float(weights.sum())
    even = np.full_like(weights, 1.0 / len(rows))
    return replace(averages, X=averages.X[rows], W=weights / total if total > 0 else even)


class _Teaching:
    """A group while its changes are put into an order."""

    def __init__(self, lessons: Lessons, chosen: frozenset[str]) -> None:
        self.lessons, self.C, self.n = lessons, lessons.C.copy(), len(lessons.stations)
        self.open: BoolArray = np.array([name in chosen for name in lessons.stations], dtype=np.bool_)
        self.ahead: BoolArray = np.ones(self.n, dtype=np.bool_)
        self._weigh()

    def _weigh(self) -> None:
        """What each change, if made, takes off the variances of what the others gain, (n,); −1 where it cannot be."""
        n = self.n
        D = (self.C[:n, :n] - self.C[n:, :n])[self.ahead]  # cov(gain of m, f̄_j(a_j))
        own = np.diagonal(self.C[:n, :n] - self.C[n:, :n])
        others = np.maximum((D**2).sum(axis=0) - own**2, 0.0)
        self.worth = np.where(self.open, others / (np.diagonal(self.C)[:n] + self.lessons.noise), -1.0)

    def take(self, j: int) -> str:
        """Take up that a change is made, and return whose."""
        c = self.C[:, j].copy()
        self.C -= np.outer(c, c / (c[j] + self.lessons.noise[j]))
        self.open[j] = self.ahead[j] = False
        self._weigh()
        return self.lessons.stations[j]


def teaching_order(known: Sequence[Lessons], chosen: Sequence[str]) -> list[str]:
    """Return the chosen stations, those first from whose change the others learn most.

    Args:
        known: What is believed in each group.
        chosen: Stations that change; where nothing tells them apart, they stay in this order.

    Example:
        >>> C = np.array([[1.0, 0.9, 0.0], [0.9, 2.0, 0.0], [0.0, 0.0, 1.0]])
        >>> group = Lessons(("a", "b", "c"), np.block([[C, np.zeros((3, 3))], [np.zeros((3, 3)), C]]), np.full(3, 0.1))
        >>> teaching_order([group], ["c", "b", "a"])
        ['a', 'c', 'b']
    """
    place = {name: i for i, name in enumerate(chosen)}
    groups = [_Teaching(one, frozenset(chosen)) for one in known if len(one.stations)]
    found = list[str]()
    while any(group.open.any() for group in groups):
        options = [
            (-float(group.worth[j]), place[group.lessons.stations[j]], group, int(j))
            for group in groups
            for j in np.flatnonzero(group.open & (group.worth == group.worth.max()))
        ]
        _, _, group, j = min(options, key=lambda one: one[:2])
        found.append(group.take(j))
    return [*found, *(name for name in chosen if name not in set(found))]


# --- Who is held back -----------------------------------------------------------------------------------------------


def held_back(changes: Sequence[Change], number: int, rng: np.random.Generator) -> set[str]:
    """Return so many stations, drawn evenly over what is proposed.

    Example:
        >>> held_back([], 0, np.random.default_rng(0))
        set()
    """
    if not number:
        return set()
    rank = rng.permutation(len(changes))
    order = sorted(range(len(changes)), key=lambda i: (str(sorted(changes[i].proposed.items(), key=str)), rank[i]))
    step = len(changes) / number
    begin = rng.uniform(0.0, step)
    return {changes[order[int(begin + i * step)]].station for i in range(number)}


def number_held_back(plan: ChangePlan, share: float) -> int:
    """Return how many changes are held back: the share of them, and more where too few other stations stay.

    Example:
        >>> number_held_back(ChangePlan(("tilt",), (), ()), 0.1)
        0
    """
    if not share or not plan.changes:
        return 0
    many = len(plan.changes)
    needed = min(CONTROLS - _staying(plan), int(MOST_HELD_BACK * many))
    return min(max(ceil(share * many - 1e-9), needed), many - 1)


def _staying(plan: ChangePlan) -> int:
    """How many stations that a plan leaves alone a change can be compared with."""
    return sum(left.why not in _NO_CONTROLS for left in plan.left_alone)


def lacks_controls(plan: ChangePlan, staging: Staging) -> list[str]:
    """Return a note where too few stations stay as they are for the proof.

    Example:
        >>> lacks_controls(ChangePlan(("tilt",), (), ()), Staging(2))
        []
    """
    if plan.waves is None:
        return []
    stay, more = _staying(plan) + len(plan.waves.held_back), "" if staging.hold_back else ": --hold-back keeps some"
    if stay >= CONTROLS:
        return []
    return [f"kinband impact needs {CONTROLS} stations that stay as they are, and after the last wave {stay} do{more}"]


# --- The waves of a plan --------------------------------------------------------------------------------------------


def staged(plan: ChangePlan, known: Sequence[Lessons], staging: Staging) -> ChangePlan:
    """Return a plan with the wave of each change; a plan that changes nothing stays as it is."""
    if not plan.changes:
        return plan
    rng = np.random.default_rng([staging.seed, 7])
    back = held_back(plan.changes, number_held_back(plan, staging.hold_back), rng)
    order = teaching_order(known, [one.station for one in plan.changes if one.station not in back])
    number = min(staging.waves, len(order))
    last = len(order) - 1
    wave = {name: number - (last - i) * number // len(order) for i, name in enumerate(order)}  # first ones are smaller
    return replace(plan, waves=Waves(number, {one.station: wave.get(one.station, 0) for one in plan.changes}))
