"""How a plan is made: the best change of every station of a group, whether it is worth making, and why."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from kinband.arrays import FloatArray, IntArray, finite_number
from kinband.contexts import ContextEncoder
from kinband.controller.explain import configuration_text
from kinband.drift import TIME_COLUMN
from kinband.errors import BadInputError, KinbandError
from kinband.guardrails import Rails
from kinband.planning.considerations import keeping
from kinband.planning.coverage import SettingCoverage, StateCoverage, setting_columns
from kinband.planning.evidence import Averages, GroupPosterior, covariances, variances
from kinband.planning.limits import Limits
from kinband.planning.period import HOUR_OF_DAY, Period, Present, hour_on_circle
from kinband.planning.plan import Change, ChangePlan, LeftAlone, Why
from kinband.planning.reasons import (
    NOT_IN_LOG,
    broken_reason,
    evidence_reason,
    floor_reason,
    gain_reason,
    never_here_reason,
    never_reason,
    promise,
    tried_reason,
    worst_reason,
)
from kinband.policies.kpi_floors import KpiFloor
from kinband.space import ConfigurationSpace
from kinband.stats import Estimate, counted, listed, normal

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
        states: The states that it comes from.
        tried: The configurations that it comes from.
        users: Of how many users, or samples, a reward of each station is the share, (M,); None where that is not known.
        floors: What must hold of other KPIs, and what was told of each.
        around: What was told of neighbours' rewards, and what they count for each station, its own as 1, (M,); None
            where they do not count.
    """

    encoder: ContextEncoder
    stations: tuple[str, ...]
    evidence: GroupPosterior
    states: StateCoverage
    tried: SettingCoverage
    users: FloatArray | None = None
    floors: tuple[tuple[KpiFloor, GroupPosterior], ...] = ()
    around: tuple[GroupPosterior, FloatArray] | None = None

    @classmethod
    def of(cls, encoder: ContextEncoder, stations: Sequence[str], evidence: GroupPosterior, **more: Any) -> "Group":
        """Return the group of stations that told some rows."""
        known: dict[str, Any] = {
            "states": StateCoverage.of(encoder.state, evidence.rows.X),
            "tried": SettingCoverage.of(encoder, evidence.rows),
        }
        return cls(encoder, tuple(stations), evidence, **(known | more))

    @property
    def space(self) -> ConfigurationSpace:
        """The configurations to choose from."""
        return self.encoder.space

    @property
    def knows_hours(self) -> bool:
        """Whether the hour of the day is a state."""
        return set(HOUR_OF_DAY) <= set(self.encoder.state.names)

    @property
    def K_Z(self) -> FloatArray:
        """How alike the stations are, (M, M)."""
        return np.asarray(self.evidence.kernel.K_Z)

    def kin(self, task: int) -> IntArray:
        """Return the stations that a station learns from, itself among them."""
        return np.flatnonzero(self.K_Z[task])


# --- One station of a plan: which change would be best for it, and whether that is worth making ---------------------


@dataclass(frozen=True, eq=False)
class _Candidate:
    """A change under consideration.

    Attributes:
        change: The change, as far as it is known.
        task: The station's number.
        arm, present: The proposed and the present configuration.
        averages: The mean of f over the period, and that of each hour.
        period: What it is for.
        choices: Of how many configurations it is the best.
        merit: By how much its score is the better one; plans are ordered by it.
    """

    change: Change
    task: int
    arm: int
    present: int
    averages: Averages
    period: Period
    choices: int
    merit: float

    @property
    def hours(self) -> tuple[int, ...]:
        """The hours of the day in the period."""
        return self.period.sums()[1]


@dataclass(frozen=True)
class RankedChange:
    """A change that is worth making, and how it compares with others.

    Attributes:
        change: The change.
        merit: By how much its score is the better one; plans are ordered by it.
    """

    change: Change
    merit: float


def plan_group(
    group: Group, now: Mapping[str, Present], rules: Rules, tick: Callable[[str], None] | None = None
) -> list[RankedChange | LeftAlone]:
    """Return what should be done with each of some stations of a group."""
    numbers = {name: task for task, name in enumerate(group.stations)}
    found: dict[str, RankedChange | LeftAlone] = {}
    drafts: list[_Candidate] = []
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


def _looked_at(group: Group, task: int | None, station: str, present: Present, rules: Rules) -> _Candidate | LeftAlone:
    """Return the change that would be best for a station, or why it is left alone."""
    if task is None:
        return not_in_log(station, present)
    known = _settings(present)
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
            return LeftAlone(station, known, "never tried", never_reason(group.tried, rows))
    return _best(group, task, present, arm=arm, arms=np.flatnonzero(allowed), rules=rules)


def not_in_log(station: str, present: Present) -> LeftAlone:
    """Return that nothing is known of a station."""
    return LeftAlone(station, _settings(present), "not in the log", NOT_IN_LOG)


def _settings(present: Present) -> dict[str, Any]:
    """What a station runs, as far as that is known, in plain values."""
    known = {knob: value for knob, value in present.configuration.items() if value is not None}
    return {knob: value.item() if isinstance(value, np.generic) else value for knob, value in known.items()}


def _refusal(group: Group, present: Present) -> tuple[Why, str] | None:
    """Return why nothing can be said about a station, or None if something can."""
    if present.silent:
        return "silent", present.silent
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
        strange = [found for state in present.period.states if (found := group.states.strange(state))]
        if len(strange) <= _STRANGE * len(present.period.states):
            return None
        share = f"{len(strange):,} of {counted(len(present.period.states), 'row')}"
        return "state unfamiliar", f"Its states are far outside what the log has seen in {share}: {strange[0]}."
    names = group.states.names
    missing = [name for name in names if not np.isfinite(present.state.get(name, np.nan))]
    if missing:
        return "state incomplete", f"Its present state is not known: no {listed(missing)} is given."
    found = group.states.strange(np.array([present.state[name] for name in names]))
    return ("state unfamiliar", f"Its state is far outside what the log has seen: {found}.") if found else None


def _period(group: Group, present: Present) -> Period:
    """A station's period, or its present state."""
    names = group.states.names
    return present.period or Period(np.array([[present.state[name] for name in names]]).reshape(1, len(names)))


def averages_of(group: Group, present: Present) -> Averages:
    """Return means of f over what a station is planned for, and over each hour of the day in it."""
    return _averages(group, _period(group, present))


def _averages(group: Group, period: Period) -> Averages:
    """Means of f over a period, and over each hour of the day in it."""
    encoder, W, states, hour = group.encoder, period.sums()[0], period.states, period.hours
    if group.knows_hours and hour is None:  # at any hour
        hour = np.tile(_ANY_HOUR, len(states))
        W, states = (np.repeat(of, len(_ANY_HOUR), axis=axis) for of, axis in ((W / len(_ANY_HOUR), 1), (states, 0)))
    if group.knows_hours and hour is not None:
        states = np.hstack([states, hour_on_circle(hour)])
    if TIME_COLUMN in encoder.state.names:  # the end of the log is 0
        states = np.column_stack([states, np.zeros(len(states))])
    X = encoder.encode(states, np.zeros(len(states), dtype=np.int64))
    kernel, columns = group.evidence.kernel.context, tuple(setting_columns(encoder))
    return Averages(kernel, X, W, columns, encoder.space.features)


def _best(
    group: Group, task: int, present: Present, *, arm: int, arms: IntArray, rules: Rules
) -> _Candidate | LeftAlone:
    """Return the best change of a station that keeps the floors; where nothing is better, its present configuration."""
    evidence = group.evidence
    period = _period(group, present)
    averages = _averages(group, period)
    whole = replace(averages, W=averages.W[:1])
    C = covariances(evidence, whole, task, arms)
    own = evidence.mean + evidence.means(C)
    mean, score = own, own
    if rules.beta is not None:
        variance = variances(evidence, whole, task, arms, C)
    if group.around is not None:
        there, weight = group.around[0], float(group.around[1][task])
        C = covariances(there, whole, task, arms)
        mean = own + weight * there.means(C)
        if rules.beta is not None:
            variance = variance + weight**2 * variances(there, whole, task, arms, C)
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
        own_rows=int(evidence.rows.count[evidence.rows.tasks == task].sum()),
        borrowed=np.nan,
        lenders=(),
        reason="",
    )
    merit = float(score[chosen] - score[here])
    return _Candidate(change, task, int(arms[chosen]), arm, averages, period, len(arms), merit)


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
                broken = broken_reason(floor, normal(float(mean[1]), float(std[0])), float(mean[0]))
            keeps &= kept
        if keeps.any():
            return begin + int(np.argmax(keeps)), ""
    return None, broken


# --- All stations of a group together: widths of gains, whose rows they rest on, and what is worth making -----------

_COLUMNS = 2000  # sums whose columns are solved for at a time


def _judged(
    group: Group, drafts: Sequence[_Candidate], rules: Rules
) -> Iterator[tuple[_Candidate, RankedChange | LeftAlone]]:
    """Yield each draft with what becomes of it."""
    many = max(1, _COLUMNS // (2 + max((len(draft.hours) for draft in drafts), default=0)))
    for begin in range(0, len(drafts), many):
        some = drafts[begin : begin + many]
        own, V = _believed(group.evidence, some)
        around = None if group.around is None else _believed(group.around[0], some)[0]
        kpis = [(floor.name, told.mean, _believed(told, some, hours=False)[0]) for floor, told in group.floors]
        for i, (draft, share) in enumerate(zip(some, group.evidence.shares(V), strict=True)):
            change = _with_gain(draft, own[i], None if around is None else _weighed(group, draft, around[i]))
            if refused := _refused(group, draft, change, rules):
                gain = change.gain if change.moves else None
                proposed = change.proposed if change.moves else None
                yield draft, LeftAlone(change.station, change.present, *refused, proposed, gain)
                continue
            told = {name: normal(mean + float(of[i].mean[0]), float(of[i].std[0])) for name, mean, of in kpis}
            yield draft, RankedChange(_attributed(group, draft, replace(change, kpis=told), share, rules), draft.merit)


@dataclass(frozen=True, eq=False)
class _Sums:
    """What is believed of f̄ under the proposal, prior mean left out, of its gain, and of that in each hour.

    Attributes:
        mean, variance: (2,) or (2 + hours,).
        by_state: The gain in each state of the period, (T,), where it is asked for by hour.
    """

    mean: FloatArray
    variance: FloatArray
    by_state: FloatArray

    @property
    def std(self) -> FloatArray:
        return np.sqrt(np.maximum(self.variance, 0.0))


def _believed(
    evidence: GroupPosterior, drafts: Sequence[_Candidate], *, hours: bool = True
) -> tuple[list[_Sums], FloatArray]:
    """What is believed of each draft's sums, and L⁻¹C of f̄ under each proposal, (n, drafts)."""
    parts = [_sums(evidence, draft, hours=hours) for draft in drafts]
    V = evidence.solved(np.hstack([C for C, _, _ in parts]))
    ends = np.cumsum([C.shape[1] for C, _, _ in parts]).tolist()
    begins = [0, *ends[:-1]]
    taken = (V**2).sum(axis=0)
    found = [
        _Sums(evidence.means(C), prior - taken[begin:end], by_state)
        for (C, prior, by_state), begin, end in zip(parts, begins, ends, strict=True)
    ]
    return found, V[:, begins]


def _sums(evidence: GroupPosterior, draft: _Candidate, *, hours: bool) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Covariance with the rows, (n, q), and prior variance, (q,), of f̄ under the proposal, of its gain, and by hour.

    And what is expected of the gain in each state of the period, (T,).
    """
    averages = replace(draft.averages, kernel=evidence.kernel.context)
    averages = averages if hours else replace(averages, W=averages.W[:1])
    alike, arms = evidence.kernel.K_Z[draft.task, evidence.rows.tasks], np.array([draft.arm, draft.present])
    both = averages.with_rows(evidence.rows.X, arms) * alike[:, None, None]
    gains = both[:, :, 0] - both[:, :, 1]
    of_new, of_old = (averages.between(arm, arm) for arm in (draft.arm, draft.present))
    apart = of_new + of_old - 2.0 * averages.between(draft.arm, draft.present)
    prior = evidence.kernel.K_Z[draft.task, draft.task] * np.concatenate([of_new[:1], apart])
    by_state = np.zeros(0)
    if hours and draft.period.days is not None:
        new, old = averages.expected(evidence.rows.X, alike * evidence.weights, arms).T
        by_state = (new - old).reshape(len(draft.period.states), -1).mean(axis=1)  # over hours, where any may be meant
    return np.hstack([both[:, :1, 0], gains]), prior, by_state


def _weighed(group: Group, draft: _Candidate, found: _Sums) -> _Sums | None:
    """What neighbours gain by a draft, as much as they count; None where they do not."""
    weight = 0.0 if group.around is None else float(group.around[1][draft.task])
    if not weight:
        return None
    return _Sums(weight * found.mean, weight**2 * found.variance, weight * found.by_state)


def _with_gain(draft: _Candidate, own: _Sums, around: _Sums | None) -> Change:
    """A change with its gain, over the period and hour by hour, that of its neighbours in it, and their intervals.

    What is believed of a station and of its neighbours comes from different rewards, and is taken for independent.
    """
    if around is None:
        together = own
    else:
        variance = own.variance + around.variance
        together = _Sums(own.mean + around.mean, variance, own.by_state + around.by_state)
    std = np.sqrt(together.std[1:] ** 2 + draft.period.day_variances(together.by_state))
    gains = [normal(float(mean), float(one)) for mean, one in zip(together.mean[1:], std, strict=True)]
    by_hour = dict(zip(draft.hours, gains[1:], strict=True)) if draft.change.moves else {}
    theirs = None if around is None else normal(float(around.mean[1]), float(around.std[1]))
    return replace(draft.change, gain=gains[0], std=float(own.std[0]), by_hour=by_hour, around=theirs)


def _refused(group: Group, draft: _Candidate, change: Change, rules: Rules) -> tuple[Why, str] | None:
    """Return why a change is not worth making, or None if it is."""
    explore, gain = rules.beta is not None, change.gain
    if not change.moves:
        if len(ran := group.tried.of_station(draft.task)) < 2:
            return "never tried", never_here_reason(group.tried, ran)
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


def _attributed(group: Group, draft: _Candidate, change: Change, share: FloatArray, rules: Rules) -> Change:
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
        gain_reason(found, explore=rules.beta is not None),
        worst_reason(found),
        *(floor_reason(floor, found.kpis[floor.name]) for floor, _ in group.floors),
        tried_reason(found, support, between=bool(group.tried.within(group.tried.tasks == draft.task)[draft.arm])),
        evidence_reason(found),
    )
    return replace(found, reason=" ".join(filter(None, reasons)))


def _std_alone(evidence: GroupPosterior, draft: _Candidate) -> float:
    """The standard deviation of f̄ under the proposal from the station's own rows alone."""
    alone, whole = evidence.alone(draft.task), replace(draft.averages, W=draft.averages.W[:1])
    variance = float(alone.kernel.K_Z[0, 0])
    C = whole.with_rows(alone.rows.X, np.array([draft.arm]))[:, 0] * variance
    return float(np.sqrt(max(variance * whole.between(draft.arm, draft.arm)[0] - (alone.solved(C) ** 2).sum(), 0.0)))


# --- The whole plan -------------------------------------------------------------------------------------------------


def merged(
    found: Sequence[RankedChange | LeftAlone], rules: Rules, *, max_changes: int | None = None, **about: Any
) -> ChangePlan:
    """Return the plan of what was found for all stations: the most worthwhile changes, and the rest left alone."""
    limits, chosen = rules.limits, dict[str, RankedChange]()
    most = min(number for number in (max_changes, limits.rails.per_round, len(found)) if number is not None)
    dropped: dict[str, tuple[Why, str]] = {}
    for one in sorted((one for one in found if isinstance(one, RankedChange)), key=lambda one: -one.merit):
        name = one.change.station
        if len(chosen) == most:
            dropped[name] = "beyond the limit", f"others are more worthwhile and the plan is limited to {most:,}"
        elif changing := sorted(limits.apart(name) & chosen.keys()):
            dropped[name] = "beside a change", f"its neighbour {changing[0]} changes, and not both may at once"
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
