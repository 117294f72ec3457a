"""How a plan is made: what the log has seen, the best change of every station, whether it is worth making, and why."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from kinband.arrays import BoolArray, FloatArray, IntArray, finite_number
from kinband.contexts import ContextEncoder, StateScaler
from kinband.controller import Controller
from kinband.controller.explain import configuration_text, listed
from kinband.controller.stations import CurrentSetup
from kinband.drift import CLOCK, untimed
from kinband.errors import BadInputError, KinbandError
from kinband.guardrails import Rails
from kinband.kernels import components
from kinband.planning.beside import breaks, keeping
from kinband.planning.evidence import Averages, Evidence, Told, averaged, covariances, variances
from kinband.planning.limits import Limits
from kinband.planning.period import HOUR_OF_DAY, Period, Present, clock, present_of, sampling_variance
from kinband.planning.plan import Change, ChangePlan, LeftAlone, Support, Why
from kinband.policies import Constant
from kinband.policies.kpi_floors import KpiFloor
from kinband.space import ConfigurationSpace
from kinband.stats import Estimate, counted, normal

# --- What states and settings the log has seen, so that nothing is recommended far from all experience --------------
#
# A posterior answers anywhere, with its prior where it knows nothing, and a mistaken unit (per cent for a share) lands
# there. A state is familiar while each of its features lies in the range of the rows told, give or take one standard
# deviation of that feature over these rows. A feature that never varied must have its one value.
#
# A setting is known where every quantity lies in the range that was tried and every category is one that was. Most logs
# hold no random trials: a station ran two or three settings for months, and others tell all there is about the rest.

_BEYOND = 1.0  # standard deviations outside the range of the log that a feature may lie
_ROUNDING = 1e-9


@dataclass(frozen=True, eq=False)
class Seen:
    """The range of every state feature in the rows told, in the feature's own unit.

    Attributes:
        names: The p state features.
        low: Smallest value, (p,).
        high: Largest value, (p,).
        spread: Standard deviation, (p,).
    """

    names: tuple[str, ...]
    low: FloatArray
    high: FloatArray
    spread: FloatArray

    @classmethod
    def of(cls, scaler: StateScaler, X: FloatArray) -> "Seen":
        """Return what contexts X (n, d) hold of a state, hour and age aside; without rows, everything is familiar."""
        names = tuple(name for name in untimed(scaler.names) if name not in HOUR_OF_DAY)
        kept = [column for column, name in enumerate(scaler.names) if name in names]
        if not len(X):
            p = len(names)
            return cls(names, np.full(p, -np.inf), np.full(p, np.inf), np.zeros(p))
        S = scaler.centre[kept] + X[:, kept] * scaler.scale[kept]  # one that is ignored has scale 0
        return cls(names, S.min(axis=0), S.max(axis=0), S.std(axis=0))

    def strange(self, state: FloatArray) -> str | None:
        """Return in words which feature of a state (p,) is furthest outside, or None for a familiar state."""
        outside = np.maximum(self.low - state, state - self.high)
        slack = _BEYOND * self.spread + _ROUNDING * (1.0 + np.abs(state))
        far = np.flatnonzero(outside > slack)
        if not len(far):
            return None
        worst = far[np.argmax((outside - slack)[far] / np.maximum(self.spread[far], _ROUNDING))]
        low, high = (f"{limit[worst]:.4g}" for limit in (self.low, self.high))
        known = f"only ever {low}" if low == high else f"{low} to {high}"
        return f"its {self.names[worst]} is {state[worst]:.4g}, the log has {known}"


@dataclass(frozen=True, eq=False)
class Tried:
    """Who ran which configuration.

    Attributes:
        space: All configurations.
        tasks: Station of each row told, (n,).
        arms: What ran in it, (n,).
        count: Of how many rows of the log it is the mean, (n,).
    """

    space: ConfigurationSpace
    tasks: IntArray
    arms: IntArray
    count: IntArray

    @classmethod
    def of(cls, encoder: ContextEncoder, told: Told) -> "Tried":
        """Return what ran in the rows told; rows outside the space are left out."""
        known = encoder.space.features
        rows = told.X[:, setting_columns(encoder)] if len(told) else known[:0]
        number = np.unique((np.vstack([known, rows]) / _ROUNDING).round(), axis=0, return_inverse=True)[1].ravel()
        arm_of = np.full(len(number), -1, dtype=np.int64)
        arm_of[number[: len(known)]] = np.arange(len(known))
        arms = arm_of[number[len(known) :]]
        return cls(encoder.space, told.tasks[arms >= 0], arms[arms >= 0], told.count[arms >= 0])

    def within(self, rows: BoolArray) -> BoolArray:
        """Return which configurations lie within what some rows (n,) tried, (N,)."""
        ran = np.unique(self.arms[rows])
        inside = np.full(len(self.space), len(ran) > 0)
        for name in self.space.knobs if len(ran) else ():
            values, categorical = _values(self.space, name)
            if categorical:
                inside &= np.isin(values, values[ran])
            else:
                inside &= (values >= values[ran].min()) & (values <= values[ran].max())
        return inside

    def support(self, arm: int, task: int, kin: IntArray) -> Support:
        """Return how often a configuration ran at a station, and at those that it learns from."""
        ran = self.arms == arm
        own = ran & (self.tasks == task)
        others = ran & ~own & np.isin(self.tasks, kin)
        return Support(int(self.count[own].sum()), int(self.count[others].sum()), len(np.unique(self.tasks[others])))

    def compared(self, rows: BoolArray) -> bool:
        """Whether some rows (n,) hold a station that ran two configurations; else any difference may be of stations."""
        pairs = np.unique(self.tasks[rows] * len(self.space) + self.arms[rows])
        return bool((np.diff(pairs // len(self.space)) == 0).any())

    def of_station(self, task: int) -> IntArray:
        """Return the configurations that a task ran, ascending."""
        return np.unique(self.arms[self.tasks == task])


def setting_columns(encoder: ContextEncoder) -> list[int]:
    """Return the columns of a context that hold the configuration."""
    p = len(encoder.state.names)
    return list(range(p, p + encoder.space.features.shape[1]))


def _values(space: ConfigurationSpace, name: str) -> tuple[FloatArray, bool]:
    """Return the values of a knob in all configurations, (N,), and whether they are numbers of categories."""
    column, knob = space.knob(name)
    numbers = range(len(knob.values)) if knob.categorical else knob.values
    return np.array(numbers, dtype=np.float64)[space.codes[:, column]], knob.categorical


# --- A group: stations that learn from each other, with all that they have told -------------------------------------

MOST_TOLD = 8000
"""Rows that a group learns from one by one; of more, like rows are taken together."""

_TIE = 1e-12  # a score that is better by rounding alone is not better
_ANY_HOUR = (3, 9, 15, 21)  # hours of the day that stand for one that is not known
_STRANGE = 0.1  # share of a period's rows that may lie outside what the log has seen


@dataclass(frozen=True)
class Rules:
    """What a plan may do.

    Attributes:
        beta: Weight of the standard deviation; None where the plan does not explore.
        least_gain: What a change must gain to be worth making.
        limits: Where and how far stations may move.

    Example:
        >>> Rules(None, 0.0, Limits(ConfigurationSpace(tilt=[2, 4]), {"tilt": 2.0})).limits.steps["tilt"]
        2.0
    """

    beta: float | None
    least_gain: float
    limits: Limits


@dataclass(frozen=True, eq=False)
class Group:
    """Stations that learn from each other, and what they have told.

    Attributes:
        encoder: From states and configurations to contexts.
        stations: Their names; a task is an index into them.
        evidence: What they told.
        seen: The states that it comes from.
        tried: The configurations that it comes from.
        users: Of how many users, or samples, a reward of each station is the share, (M,); None where that is not known.
        floors: What must hold of other KPIs, and what was told of each.
        around: What was told of neighbours' rewards, and what they count for each station, its own as 1, (M,); None
            where they do not count.
    """

    encoder: ContextEncoder
    stations: tuple[str, ...]
    evidence: Evidence
    seen: Seen
    tried: Tried
    users: FloatArray | None = None
    floors: tuple[tuple[KpiFloor, Evidence], ...] = ()
    around: tuple[Evidence, FloatArray] | None = None

    @classmethod
    def of(cls, encoder: ContextEncoder, stations: Sequence[str], evidence: Evidence, **more: Any) -> "Group":
        """Return the group of stations that told some rows."""
        known: dict[str, Any] = {
            "seen": Seen.of(encoder.state, evidence.told.X),
            "tried": Tried.of(encoder, evidence.told),
        }
        return cls(encoder, tuple(stations), evidence, **(known | more))

    @property
    def space(self) -> ConfigurationSpace:
        """The configurations to choose from."""
        return self.encoder.space

    @property
    def clocked(self) -> bool:
        """Whether the hour of the day is a state."""
        return set(HOUR_OF_DAY) <= set(self.encoder.state.names)

    @property
    def K_Z(self) -> FloatArray:
        """How alike the stations are, (M, M)."""
        return self.evidence.kernel.K_Z

    def kin(self, task: int) -> IntArray:
        """Return the stations that a station learns from, itself among them."""
        return np.flatnonzero(self.K_Z[task])


# --- One station of a plan: which change would be best for it, and whether that is worth making ---------------------


@dataclass(frozen=True, eq=False)
class _Draft:
    """A change under consideration.

    Attributes:
        change: The change, as far as it is known.
        task: The station's number.
        arm, present: The proposed and the present configuration.
        averages: Means of f over the period, as of `_averages`.
        hours: The hours.
        choices: Of how many configurations it is the best.
        merit: By how much its score is the better one; plans are ordered by it.
    """

    change: Change
    task: int
    arm: int
    present: int
    averages: Averages
    hours: tuple[int, ...]
    choices: int
    merit: float


@dataclass(frozen=True)
class Proposal:
    """A change that is worth making, and how it compares with others.

    Attributes:
        change: The change.
        merit: By how much its score is the better one; plans are ordered by it.
    """

    change: Change
    merit: float


def plan_group(
    group: Group, now: Mapping[str, Present], rules: Rules, tick: Callable[[str], None] | None = None
) -> list[Proposal | LeftAlone]:
    """Return what should be done with each of some stations of a group."""
    numbers = {name: task for task, name in enumerate(group.stations)}
    found: dict[str, Proposal | LeftAlone] = {}
    drafts: list[_Draft] = []
    for station, present in now.items():
        looked = _looked_at(group, numbers.get(station), station, present, rules)
        if isinstance(looked, LeftAlone):
            found[station] = looked
        else:
            drafts.append(looked)
        if tick is not None:
            tick(station)
    found |= {draft.change.station: one for draft, one in _judged(group, drafts, rules)}
    return [found[station] for station in now]


def _looked_at(group: Group, task: int | None, station: str, present: Present, rules: Rules) -> _Draft | LeftAlone:
    """Return the change that would be best for a station, or why it is left alone."""
    known = {knob: _python(value) for knob, value in present.configuration.items() if value is not None}
    if task is None:
        return LeftAlone(station, known, "not in the log", NOT_IN_LOG)
    if refusal := _refusal(group, present):
        return LeftAlone(station, known, *refusal)
    if frozen := rules.limits.frozen.get(station):
        return LeftAlone(station, known, "frozen", frozen)
    arm = group.space.index(present.configuration)
    allowed = rules.limits.reach(station, arm)
    allowed[arm] = True
    if allowed.sum() == 1:
        within = "the steps allowed" if rules.limits.rails == Rails() else "the steps and guard rails"
        reason = f"No other configuration of the log is within {within}."
        return LeftAlone(station, known, "no other choice", reason)
    if rules.beta is None:  # exploring is about what was never tried, and says so
        rows = np.isin(group.tried.tasks, group.kin(task))
        allowed &= group.tried.within(rows)
        allowed[arm] = True
        if allowed.sum() == 1 or not group.tried.compared(rows):
            return LeftAlone(station, known, "never tried", _never_reason(group, rows))
    return _best(group, task, present, arm=arm, arms=np.flatnonzero(allowed), rules=rules)


NOT_IN_LOG = "The log has no rows of this station, so it is not known which others it resembles."


def _python(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _refusal(group: Group, present: Present) -> tuple[Why, str] | None:
    """Return why nothing can be said about a station, or None if something can."""
    unset = [knob for knob in group.space.knobs if present.configuration.get(knob) is None]
    if unset:
        return "configuration unknown", f"Its present configuration is not known: no {listed(unset)} is given."
    try:
        group.space.index(present.configuration)
    except KinbandError as error:
        return "configuration unknown", f"Its present configuration never occurs in the log: {error}."
    if present.period is not None and not len(present.period.states):
        return "state incomplete", "The period has no rows of it, so it is not known which states it will be in."
    if present.period is not None:
        strange = [found for state in present.period.states if (found := group.seen.strange(state))]
        if len(strange) <= _STRANGE * len(present.period.states):
            return None
        share = f"{len(strange):,} of {counted(len(present.period.states), 'row')}"
        return "state unfamiliar", f"Its states are far outside what the log has seen in {share}: {strange[0]}."
    names = group.seen.names
    missing = [name for name in names if not np.isfinite(present.state.get(name, np.nan))]
    if missing:
        return "state incomplete", f"Its present state is not known: no {listed(missing)} is given."
    found = group.seen.strange(np.array([present.state[name] for name in names]))
    return ("state unfamiliar", f"Its state is far outside what the log has seen: {found}.") if found else None


def _averages(group: Group, present: Present) -> tuple[Averages, tuple[int, ...]]:
    """Means of f over a station's period, or its present state, and the hours of the day in it.

    The whole mean comes first, then that of each hour, then the whole with each day left out.
    """
    encoder, names = group.encoder, group.seen.names
    period = present.period or Period(np.array([[present.state[name] for name in names]]).reshape(1, len(names)))
    sums, hours = period.sums()
    W, states, hour = np.vstack([sums, period.without_days()]), period.states, period.hours
    if group.clocked and hour is None:  # at any hour
        hour = np.tile(_ANY_HOUR, len(states))
        W, states = (np.repeat(of, len(_ANY_HOUR), axis=axis) for of, axis in ((W / len(_ANY_HOUR), 1), (states, 0)))
    if group.clocked and hour is not None:
        states = np.hstack([states, clock(hour)])
    if CLOCK in encoder.state.names:  # the end of the log is 0
        states = np.column_stack([states, np.zeros(len(states))])
    X = encoder.encode(states, np.zeros(len(states), dtype=np.int64))
    kernel, columns = group.evidence.kernel.context, tuple(setting_columns(encoder))
    return Averages(kernel, X, W, columns, encoder.space.features), hours


def _best(group: Group, task: int, present: Present, *, arm: int, arms: IntArray, rules: Rules) -> _Draft | LeftAlone:
    """Return the best change of a station that keeps the floors; where nothing is better, its present configuration."""
    evidence = group.evidence
    averages, hours = _averages(group, present)
    whole = replace(averages, W=averages.W[:1])
    C = covariances(evidence, whole, task, arms)
    own = evidence.mean + evidence.means(C)
    mean, score = own, own
    if rules.beta is not None:
        variance = variances(evidence, whole, task, arms, C)
    if group.around is not None:
        beside, weight = group.around[0], float(group.around[1][task])
        C = covariances(beside, whole, task, arms)
        mean = own + weight * beside.means(C)
        if rules.beta is not None:
            variance = variance + weight**2 * variances(beside, whole, task, arms, C)
    score = mean if rules.beta is None else mean + rules.beta * np.sqrt(variance)  # (12)
    here = int(np.flatnonzero(arms == arm)[0])
    better = np.flatnonzero(score > score[here] + _TIE * max(1.0, abs(float(score[here]))))
    better = better[np.argsort(-score[better], kind="stable")]
    best, broken = _first_that_keeps(group, task, whole, arms=arms[better], present=arm)
    if broken:
        proposed, gain = group.space[int(arms[better[0]])], mean[better[0]] - mean[here]
        said = f"{configuration_text(proposed, -1)} is expected to gain {gain:+.3g}, but {broken}."
        return LeftAlone(group.stations[task], group.space[arm], "a floor would be broken", said, proposed)
    chosen = here if best is None else int(better[best])
    change = Change(
        group.stations[task],
        present=group.space[arm],
        proposed=group.space[int(arms[chosen])],
        expected=float(own[chosen]),
        expected_unchanged=float(own[here]),
        gain=Estimate(float(mean[chosen] - mean[here])),
        std=np.nan,
        std_alone=np.nan,
        own_rows=int(evidence.told.count[evidence.told.tasks == task].sum()),
        borrowed=np.nan,
        lenders=(),
        reason="",
    )
    merit = float(score[chosen] - score[here])
    return _Draft(change, task, int(arms[chosen]), arm, averages, hours, len(arms), merit)


_LOOKS = 8  # settings that are held against floors at a time, after the best one, which most often keeps them


def _first_that_keeps(
    group: Group, task: int, averages: Averages, *, arms: IntArray, present: int
) -> tuple[int | None, str]:
    """Return which of some settings, the best first, is the first to keep all floors, or what the best would break."""
    if not len(arms):
        return None, ""
    if not group.floors:
        return 0, ""
    broken = ""
    for begin in (0, *range(1, len(arms), _LOOKS)):
        some = arms[begin : begin + _LOOKS if begin else 1]
        keeps = np.ones(len(some), dtype=np.bool_)
        for floor, evidence in group.floors:
            kept, mean, std = keeping(floor, evidence, averages, task, arms=some, present=present)
            if begin == 0 and not kept[0] and not broken:
                broken = _broken_reason(floor, normal(float(mean[1]), float(std[0])), float(mean[0]))
            keeps &= kept
        if keeps.any():
            return begin + int(np.argmax(keeps)), ""
    return None, broken


# --- All stations of a group together: widths of gains, whose rows they rest on, and what is worth making -----------

_COLUMNS = 2000  # sums whose columns are solved for at a time


def _judged(group: Group, drafts: Sequence[_Draft], rules: Rules) -> Iterator[tuple[_Draft, Proposal | LeftAlone]]:
    """Yield each draft with what becomes of it."""
    many = max(1, _COLUMNS // (2 + max((len(draft.hours) for draft in drafts), default=0)))
    for begin in range(0, len(drafts), many):
        some = drafts[begin : begin + many]
        own, V = _believed(group.evidence, some)
        around = None if group.around is None else _believed(group.around[0], some)[0]
        kpis = [(floor.name, told.mean, _believed(told, some, hours=False)[0]) for floor, told in group.floors]
        for i, (draft, share) in enumerate(zip(some, group.evidence.shares(V), strict=True)):
            change = _known(draft, own[i], None if around is None else _weighed(group, draft, around[i]))
            if refused := _refused(group, draft, change, rules):
                gain = change.gain if change.moves else None
                proposed = change.proposed if change.moves else None
                yield draft, LeftAlone(change.station, change.present, *refused, proposed, gain)
                continue
            told = {name: normal(mean + float(of[i].mean[0]), float(of[i].std[0])) for name, mean, of in kpis}
            yield draft, Proposal(_attributed(group, draft, replace(change, kpis=told), share, rules), draft.merit)


@dataclass(frozen=True, eq=False)
class _Sums:
    """What is believed of f̄ under the proposal, prior mean left out, of its gain, and of that in each hour.

    Attributes:
        mean, variance: (2,) or (2 + hours,).
        without: The gain with each day of the period left out, (D,).
    """

    mean: FloatArray
    variance: FloatArray
    without: FloatArray

    @property
    def std(self) -> FloatArray:
        return np.sqrt(np.maximum(self.variance, 0.0))


def _believed(evidence: Evidence, drafts: Sequence[_Draft], *, hours: bool = True) -> tuple[list[_Sums], FloatArray]:
    """What is believed of each draft's sums, and L⁻¹C of f̄ under each proposal, (n, drafts)."""
    parts = [_sums(evidence, draft, hours=hours) for draft in drafts]
    V = evidence.solved(np.hstack([C for C, _, _ in parts]))
    ends = np.cumsum([C.shape[1] for C, _, _ in parts]).tolist()
    begins = [0, *ends[:-1]]
    taken = (V**2).sum(axis=0)
    found = [
        _Sums(evidence.means(C), prior - taken[begin:end], without)
        for (C, prior, without), begin, end in zip(parts, begins, ends, strict=True)
    ]
    return found, V[:, begins]


def _sums(evidence: Evidence, draft: _Draft, *, hours: bool) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Covariance with the rows, (n, q), and prior variance, (q,), of f̄ under the proposal, of its gain, and by hour.

    And what is expected of the gain with each day left out, (D,).
    """
    averages = replace(draft.averages, kernel=evidence.kernel.context)
    averages = averages if hours else replace(averages, W=averages.W[:1])
    alike, q = evidence.kernel.K_Z[draft.task, evidence.told.tasks], 1 + len(draft.hours) if hours else 1
    both = averages.with_rows(evidence.told.X, np.array([draft.arm, draft.present])) * alike[:, None, None]
    gains = both[:, :, 0] - both[:, :, 1]
    of_new, of_old = (averages.between(arm, arm) for arm in (draft.arm, draft.present))
    apart = (of_new + of_old - 2.0 * averages.between(draft.arm, draft.present))[:q]
    prior = evidence.kernel.K_Z[draft.task, draft.task] * np.concatenate([of_new[:1], apart])
    return np.hstack([both[:, :1, 0], gains[:, :q]]), prior, evidence.means(gains[:, q:])


def _weighed(group: Group, draft: _Draft, found: _Sums) -> _Sums | None:
    """What neighbours gain by a draft, as much as they count; None where they do not."""
    weight = 0.0 if group.around is None else float(group.around[1][draft.task])
    if not weight:
        return None
    return _Sums(weight * found.mean, weight**2 * found.variance, weight * found.without)


def _known(draft: _Draft, own: _Sums, beside: _Sums | None) -> Change:
    """A change with its gain, over the period and hour by hour, that of its neighbours in it, and their intervals.

    What is believed of a station and of its neighbours comes from different rewards, and is taken for independent.
    """
    if beside is None:
        together = own
    else:
        variance = own.variance + beside.variance
        together = _Sums(own.mean + beside.mean, variance, own.without + beside.without)
    std = together.std[1:]
    std[0] = np.hypot(std[0], np.sqrt(sampling_variance(together.without)))
    gains = [normal(float(mean), float(one)) for mean, one in zip(together.mean[1:], std, strict=True)]
    by_hour = dict(zip(draft.hours, gains[1:], strict=True)) if draft.change.moves else {}
    around = None if beside is None else normal(float(beside.mean[1]), float(beside.std[1]))
    return replace(draft.change, gain=gains[0], std=float(own.std[0]), by_hour=by_hour, around=around)


def _refused(group: Group, draft: _Draft, change: Change, rules: Rules) -> tuple[Why, str] | None:
    """Return why a change is not worth making, or None if it is."""
    explore, gain = rules.beta is not None, change.gain
    if not change.moves:
        if len(ran := group.tried.of_station(draft.task)) < 2:
            return "never tried", _never_here_reason(group, ran)
        better = "is more worth trying" if explore else "is expected to earn more"
        present = f"the present {change.expected_unchanged:.4g} (standard deviation {change.std:.2g})"
        return "best already", f"None of its {draft.choices:,} choices {better} than {present}."
    if (gain.high if explore else gain.value) < rules.least_gain:
        less = "even at best less" if explore else "less"
        return "gain too small", f"{promise(change)}, {less} than the {rules.least_gain:g} that is worth a change."
    if not explore and gain.low <= 0:
        return "gain not certain", f"{promise(change)}, which may be a loss."
    return None


_NAMED = 3  # how many of the stations that contributed are named


def _attributed(group: Group, draft: _Draft, change: Change, share: FloatArray, rules: Rules) -> Change:
    """Return a change with whose rows it rests on, its support, and its reason."""
    share[draft.task] = 0.0
    top = [int(m) for m in np.argsort(-share, kind="stable")[:_NAMED] if share[m] > 0]
    support = group.tried.support(draft.arm, draft.task, group.kin(draft.task))
    own_gain = change.gain.value - (0.0 if change.around is None else change.around.value)
    users = None if group.users is None else float(group.users[draft.task] * own_gain)
    found = replace(
        change,
        std_alone=_std_alone(group.evidence, draft),
        borrowed=float(share.sum()),
        lenders=tuple((group.stations[m], float(share[m])) for m in top),
        support=support,
        users=None if users is None or np.isnan(users) else users,
    )
    reasons = (
        _gain_reason(found, explore=rules.beta is not None),
        _worst_reason(found),
        *(_floor_reason(floor, found.kpis[floor.name]) for floor, _ in group.floors),
        _tried_reason(group, draft, support),
        _evidence_reason(found),
    )
    return replace(found, reason=" ".join(filter(None, reasons)))


def _std_alone(evidence: Evidence, draft: _Draft) -> float:
    """The standard deviation of f̄ under the proposal from the station's own rows alone."""
    alone, whole = evidence.alone(draft.task), replace(draft.averages, W=draft.averages.W[:1])
    variance = float(alone.kernel.K_Z[0, 0])
    C = whole.with_rows(alone.told.X, np.array([draft.arm]))[:, 0] * variance
    return float(np.sqrt(max(variance * whole.between(draft.arm, draft.arm)[0] - (alone.solved(C) ** 2).sum(), 0.0)))


# --- The whole plan -------------------------------------------------------------------------------------------------


def plan_changes(
    controller: Controller,
    now: Mapping[str, Present] | Any,
    *,
    explore: bool = False,
    beta: float | None = None,
    least_gain: float = 0.0,
    max_changes: int | None = None,
    steps: Mapping[str, float] | None = None,
    rails: Rails | None = None,
    tick: Callable[[str], None] | None = None,
) -> ChangePlan:
    """Return which stations should change, to what and why, and which are better left alone.

    Stations that share nothing, such as those of two shards, are looked at apart.

    Args:
        controller: Knows the log; it is not changed.
        now: Present configuration and state, or period, by station; or a table with the columns `station`, the state
            features and the knobs.
        explore: Whether to propose what is most worth trying rather than what is expected to earn most.
        beta: Weight of the standard deviation when exploring; None for the controller's own.
        least_gain: Gains below this are not worth a change. When exploring, what counts is the interval's upper end.
        max_changes: The most changes to make, the most worthwhile ones; None for no limit.
        steps: The furthest a knob may move from its present value; 0 keeps it.
        rails: Hard limits: ranges, steps, frozen stations, changes in a round, neighbours.
        tick: Called with the name of each station that has been looked at.

    Example:
        >>> from kinband import ConfigurationSpace, Trace
        >>> rng = np.random.default_rng(0)
        >>> log = {"station": ["a", "b"] * 30, "load": rng.random(60), "tilt": rng.integers(0, 5, 60)}
        >>> log["reward"] = 1.0 - 0.1 * (log["tilt"] - 3) ** 2 + 0.01 * rng.normal(size=60)
        >>> controller = Controller.from_trace(Trace.from_frame(log, {"configuration": ["tilt"]}), similarity="pooled")
        >>> plan = plan_changes(controller, {"station": ["a", "b"], "load": [0.5, 0.5], "tilt": [1, 3]})
        >>> [(change.station, dict(change.proposed)) for change in plan.changes]
        [('a', {'tilt': 3})]
        >>> [(station.station, station.why) for station in plan.left_alone]
        [('b', 'best already')]
    """
    _check(controller, max_changes=max_changes, least_gain=least_gain, steps=steps)
    setup = controller.current
    stations = _stations(now, setup)
    limits = Limits(setup.encoder.space, steps or {}, rails or Rails())
    told = told_by(controller)
    weight = None
    if explore:
        rule = setup.exploration if beta is None else Constant(beta)
        weight = rule.beta(known=len(told), arms=len(setup.encoder.space), noise=setup.noise)
    rules = Rules(weight, float(least_gain), limits)
    found: dict[str, Proposal | LeftAlone] = {}
    for members, asked in _asked(setup, stations):
        group = _group(setup, told, members)
        looked = plan_group(group, {name: stations[name] for name in asked}, rules, tick)
        found |= dict(zip(asked, looked, strict=True))
    for name in stations.keys() - found.keys():
        known = {knob: _python(value) for knob, value in stations[name].configuration.items() if value is not None}
        found[name] = LeftAlone(name, known, "not in the log", NOT_IN_LOG)
    ordered = [found[name] for name in stations]
    return merged(ordered, rules, max_changes=max_changes)


def merged(
    found: Sequence[Proposal | LeftAlone], rules: Rules, *, max_changes: int | None = None, **about: Any
) -> ChangePlan:
    """Return the plan of what was found for all stations: the most worthwhile changes, and the rest left alone."""
    limits, chosen = rules.limits, dict[str, Proposal]()
    most = min(number for number in (max_changes, limits.rails.per_round, len(found)) if number is not None)
    dropped: dict[str, tuple[Why, str]] = {}
    for one in sorted((one for one in found if isinstance(one, Proposal)), key=lambda one: -one.merit):
        name = one.change.station
        if len(chosen) == most:
            dropped[name] = "beyond the limit", f"others are more worthwhile and the plan is limited to {most:,}"
        elif beside := sorted(limits.apart(name) & chosen.keys()):
            dropped[name] = "beside a change", f"its neighbour {beside[0]} changes, and not both may at once"
        else:
            chosen[name] = one
    left_alone = [
        one if isinstance(one, LeftAlone) else _dropped(one.change, *dropped[one.change.station])
        for one in found
        if isinstance(one, LeftAlone) or one.change.station in dropped
    ]
    changes = tuple(one.change for one in chosen.values())
    said = _limits_said(rules, max_changes=max_changes)
    knobs, explore = tuple(limits.space.knobs), rules.beta is not None
    return ChangePlan(knobs, changes, tuple(left_alone), explore, limits=said, **about)


def _limits_said(rules: Rules, *, max_changes: int | None) -> tuple[str, ...]:
    """What limits a plan, in sentences."""
    said = list(rules.limits.in_words())
    if rules.least_gain:
        said.append(f"Gains below {rules.least_gain:g} are not worth a change.")
    if max_changes is not None:
        said.append(f"At most {counted(max_changes, 'station')} may change.")
    return tuple(said)


def _dropped(change: Change, why: Why, reason: str) -> LeftAlone:
    """A change that would be worth making, left out of the plan."""
    said = f"{promise(change)}, but {reason}."
    return LeftAlone(change.station, change.present, why, said, change.proposed, change.gain)


def told_by(controller: Controller) -> Told:
    """Return every row that a controller has learned from, those of the log first."""
    observations, noise = controller.observations(), controller.current.noise
    known = np.array([0.0 if o.noise is None else o.noise for o in observations])
    width = len(controller.current.encoder.features)
    return Told(
        np.array([o.task for o in observations], dtype=np.int64),
        np.array([o.x for o in observations]).reshape(len(observations), -1 if observations else width),
        np.array([o.reward for o in observations], dtype=np.float64),
        noise + known,
        np.ones(len(observations), dtype=np.int64),
    )


def _asked(setup: CurrentSetup, stations: Mapping[str, Present]) -> Iterator[tuple[IntArray, list[str]]]:
    """The groups of stations that share something, each with those of them that a plan is asked for."""
    for members in components(setup.K_Z):
        names = {setup.stations[m] for m in members.tolist()} & set(setup.active)
        asked = [name for name in stations if name in names]
        if asked:
            yield members, asked


def _group(setup: CurrentSetup, told: Told, members: IntArray) -> Group:
    """The group of some stations of a controller."""
    own = told.take(np.isin(told.tasks, members))
    own = replace(own, tasks=np.searchsorted(members, own.tasks))
    own = averaged(own, most=MOST_TOLD, columns=setting_columns(setup.encoder))
    K_Z = setup.K_Z[np.ix_(members, members)]
    evidence = Evidence(setup.kernel, K_Z, own, mean=setup.mean)
    return Group.of(setup.encoder, [setup.stations[m] for m in members.tolist()], evidence)


def _check(controller: Any, *, max_changes: Any, least_gain: Any, steps: Any) -> None:
    """Refuse what is of another kind than it should be."""
    if not isinstance(controller, Controller):
        raise BadInputError(
            f"plan_changes takes a Controller, got {controller!r:.60}: Controller.from_trace(trace) makes one of a log"
        )
    check_limits(max_changes=max_changes, least_gain=least_gain, steps=steps)


def check_limits(*, max_changes: Any, least_gain: Any, steps: Any) -> None:
    """Refuse limits of a plan that are none."""
    whole = isinstance(max_changes, int | np.integer) and not isinstance(max_changes, bool)
    if max_changes is not None and not (whole and max_changes >= 1):
        raise BadInputError(f"max_changes must be a whole number of at least 1, got {max_changes!r:.60}")
    if steps is not None and not isinstance(steps, Mapping):
        raise BadInputError(f'steps must map knobs to numbers, such as {{"tilt": 2}}, got {steps!r:.60}')
    numbers = {"least_gain": least_gain, **{f"the step of {knob!r}": step for knob, step in (steps or {}).items()}}
    for name, number in numbers.items():
        if isinstance(number, bool | np.bool_):
            raise BadInputError(f"{name} must be a number, got {number!r}")
    if finite_number(least_gain, name="least_gain") < 0:
        raise BadInputError(f"least_gain must not be negative, got {least_gain:g}")


def _stations(now: Mapping[str, Present] | Any, setup: CurrentSetup) -> Mapping[str, Present]:
    if setup.features is not None:
        raise BadInputError("a plan needs states and configurations: this controller is asked with context rows")
    if isinstance(now, Mapping) and now and all(isinstance(value, Present) for value in now.values()):
        return now
    return present_of(now, setup.encoder.space, state=setup.encoder.state.names)


# --- The reasons of a plan in words, for an engineer who has to approve it ------------------------------------------

NEGLIGIBLE = 0.005
"""A share below this, half a per cent, is not worth a word."""


def share_text(share: float) -> str:
    """Return a share in whole per cent."""
    return f"{100 * share:.0f} %"


def _gain_text(gain: Estimate) -> str:
    return f"a gain of {gain.value:+.3g} (95 % interval {gain.low:+.3g} to {gain.high:+.3g})"


def promise(change: Change) -> str:
    """Return what a change is expected to bring."""
    return f"{configuration_text(change.moves, -1)} is expected to bring {_gain_text(change.gain)}"


def _gain_reason(change: Change, *, explore: bool) -> str:
    """Return why a station should change."""
    instead = f"{change.expected:.4g} instead of {change.expected_unchanged:.4g}"
    trial = "A trial, which may lose. " if explore and change.gain.low <= 0 else ""
    if change.around is None:
        return f"{trial}Expected reward {instead}, {_gain_text(change.gain)}."
    there = f"its neighbours {'gain' if change.around.value >= 0 else 'lose'} {abs(change.around.value):.3g} by it"
    return f"{trial}Expected reward {instead}, and {there}: together {_gain_text(change.gain)}."


def _kpi_text(name: str, expected: Estimate) -> str:
    interval = f"95 % interval {expected.low:.4g} to {expected.high:.4g}"
    return f"{name} is then expected to be {expected.value:.4g} ({interval})"


def _floor_reason(floor: KpiFloor, expected: Estimate) -> str:
    """Return what is expected of a KPI under a change that keeps its floor, or makes it no worse."""
    but = "no worse than today, but not yet " if breaks(floor, expected.value) else ""
    return f"{_kpi_text(floor.name, expected)}, {but}{floor.text()}."


def _broken_reason(floor: KpiFloor, expected: Estimate, today: float) -> str:
    """Return why a floor keeps a station from changing."""
    said = f"{_kpi_text(floor.name, expected)}, and must be {floor.text()}"
    return f"{said}; today it is {today:.4g}, and might become worse" if breaks(floor, today) else said


def _evidence_reason(change: Change) -> str:
    """Return whose experience an estimate rests on, and what it would be worth without the others."""
    own = f"its own {counted(change.own_rows, 'row')}"
    if change.borrowed < NEGLIGIBLE:
        return f"The evidence is {own} (standard deviation {change.std:.2g})."
    named = [f"{name} ({share_text(share)})" for name, share in change.lenders if share >= NEGLIGIBLE]
    most = f", most from {listed(named)}" if named else ""
    if not change.own_rows:
        return f"It has no rows of its own: all evidence is borrowed{most} (standard deviation {change.std:.2g})."
    return (
        f"{share_text(change.borrowed)} of the evidence is borrowed{most}; from {own} alone the standard deviation "
        f"would be {change.std_alone:.2g}, not {change.std:.2g}."
    )


def _worst_reason(change: Change) -> str:
    """Return in which hour of the day a change gains least, where it may lose in one."""
    if (worst := change.worst_hour) is None or worst[1].low > 0:
        return ""
    hour, gain = worst
    verb = "loses" if gain.high < 0 else "may lose"
    return f"At {hour:02d} h it {verb}: {gain.value:+.3g} (95 % interval {gain.low:+.3g} to {gain.high:+.3g})."


def _tried_reason(group: Group, draft: _Draft, support: Support) -> str:
    """Return whose trials a change rests on, where its station never ran what is proposed; else nothing."""
    if support.own:
        return ""
    similar = support.stations
    never = f"{draft.change.station} never ran {configuration_text(draft.change.proposed, -1)}"
    others = counted(similar, "similar station") if similar else "no similar station"
    if group.tried.within(group.tried.tasks == draft.task)[draft.arm]:
        return f"{never}, but settings on both sides of it; {others} did."
    if similar:
        return f"{never}; this rests on {others} that did."
    return f"{never}, and {others} did: this is a guess from other settings."


def _never_reason(group: Group, rows: BoolArray) -> str:
    """Return why a station has nothing to change to, where these rows (n,) are all that it can learn from."""
    ran = np.unique(group.tried.arms[rows])
    if len(ran) == 1:
        return (
            "The log holds no trials: of all that this station can learn from, every row ran "
            f"{configuration_text(group.space[int(ran[0])], -1)}, so nothing can be learned about other settings."
        )
    if not group.tried.compared(rows):
        return (
            "Never tried here, and no station that it can learn from ran two settings: what looks like a difference of "
            "settings may be one of stations. `kinband design` plans trials."
        )
    return "No other choice lies within what was tried by any station that it can learn from."


def _never_here_reason(group: Group, ran: IntArray) -> str:
    """Return what is said of a station that never tried anything, where nothing that others ran looks better."""
    known = (
        f"It never ran anything but {configuration_text(group.space[int(ran[0])], -1)}" if len(ran) else "It never ran"
    )
    return f"{known}: whether another setting is better here is not known. `kinband design` plans trials."
