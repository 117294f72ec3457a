"""How a plan is made: what the log has seen, the best change of every station, whether it is worth making, and why."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from kinband.arrays import BoolArray, FloatArray, IntArray, finite_number
from kinband.contexts import ContextEncoder, StateScaler
from kinband.controller import Controller, Setup
from kinband.controller.explain import configuration_text, listed
from kinband.controller.stations import CurrentSetup
from kinband.errors import BadInputError, KinbandError
from kinband.planning.beliefs import beliefs_of, gain_of, shares, std_alone, told_rows
from kinband.planning.plan import Change, ChangePlan, LeftAlone, Present, Why, present_of
from kinband.policies import Constant
from kinband.posterior import BlockedPosterior
from kinband.space import ConfigurationSpace
from kinband.stats import Estimate, counted

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
        """Return what contexts X (n, d) hold of a state; without rows, everything is familiar."""
        p = len(scaler.names)
        if not len(X):
            return cls(scaler.names, np.full(p, -np.inf), np.full(p, np.inf), np.zeros(p))
        S = scaler.centre + X[:, :p] * scaler.scale  # an ignored feature has scale 0 and its one value as centre
        return cls(scaler.names, S.min(axis=0), S.max(axis=0), S.std(axis=0))

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
    """

    space: ConfigurationSpace
    tasks: IntArray
    arms: IntArray

    @classmethod
    def of(cls, encoder: ContextEncoder, tasks: IntArray, X: FloatArray) -> "Tried":
        """Return what ran in rows of tasks (n,) with contexts X (n, d); rows outside the space are left out."""
        known, p = encoder.space.features, len(encoder.state.names)
        rows = X[:, p : p + known.shape[1]] if len(X) else known[:0]
        number = np.unique((np.vstack([known, rows]) / _ROUNDING).round(), axis=0, return_inverse=True)[1].ravel()
        arm_of = np.full(len(number), -1, dtype=np.int64)
        arm_of[number[: len(known)]] = np.arange(len(known))
        arms = arm_of[number[len(known) :]]
        return cls(encoder.space, tasks[arms >= 0], arms[arms >= 0])

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

    def stations(self, arm: int) -> IntArray:
        """Return the tasks that ran a configuration, ascending."""
        return np.unique(self.tasks[self.arms == arm])

    def compared(self, rows: BoolArray) -> bool:
        """Whether some rows (n,) hold a station that ran two configurations; else any difference may be of stations."""
        pairs = np.unique(self.tasks[rows] * len(self.space) + self.arms[rows])
        return bool((np.diff(pairs // len(self.space)) == 0).any())

    def of_station(self, task: int) -> IntArray:
        """Return the configurations that a task ran, ascending."""
        return np.unique(self.arms[self.tasks == task])


def _values(space: ConfigurationSpace, name: str) -> tuple[FloatArray, bool]:
    """Return the values of a knob in all configurations, (N,), and whether they are numbers of categories."""
    column, knob = space.knob(name)
    numbers = range(len(knob.values)) if knob.categorical else knob.values
    return np.array(numbers, dtype=np.float64)[space.codes[:, column]], knob.categorical


def check_step(space: ConfigurationSpace, knob: str, *, step: float) -> None:
    """Refuse a step, the furthest a knob may move, that its knob cannot have; 0 keeps a knob of any kind as it is."""
    _, found = space.knob(knob)
    if finite_number(step, name=f"the step of {knob!r}") < 0:
        raise BadInputError(f"the step of {knob!r} must not be negative, got {step:g}")
    if found.categorical and step > 0:
        raise BadInputError(f"knob {knob!r} holds categories, which have no step: 0 keeps it as it is")


def _within_steps(space: ConfigurationSpace, arm: int, steps: Mapping[str, float]) -> BoolArray:
    """Return which configurations are within reach of configuration `arm`, (N,), itself among them."""
    allowed = np.ones(len(space), dtype=np.bool_)
    for name, step in steps.items():
        values, _ = _values(space, name)  # a category has a step of 0
        allowed &= np.abs(values - values[arm]) <= step + _ROUNDING * float(np.abs(values).max())
    return allowed


# --- One station of a plan: which change would be best for it, and whether that is worth making ---------------------

_TIE = 1e-12  # a score that is better by rounding alone is not better


@dataclass(frozen=True, eq=False)
class _PlanInputs:
    """What every station of a plan is looked at with.

    Attributes:
        setup: Stations, encoder and task matrix.
        beliefs: The posterior.
        seen: The states that the beliefs come from.
        tried: The configurations that they come from.
        own_rows: How many rows each station has, (M,).
        beta: Weight of the standard deviation; None where the plan does not explore.
        least_gain: What a change must gain to be worth making.
        steps: The furthest each knob may move.
    """

    setup: CurrentSetup
    beliefs: BlockedPosterior
    seen: Seen
    tried: Tried
    own_rows: IntArray
    beta: float | None
    least_gain: float
    steps: Mapping[str, float]

    @property
    def space(self) -> ConfigurationSpace:
        """The configurations to choose from."""
        return self.setup.encoder.space


@dataclass(frozen=True, eq=False)
class _Draft:
    """A change under consideration, without its attribution.

    Attributes:
        change: The change.
        task: The station's number.
        arm: The proposed configuration's number.
        x: Context of the proposed configuration, (d,).
        merit: By how much its score is the better one; plans are ordered by it.
    """

    change: Change
    task: int
    arm: int
    x: FloatArray
    merit: float


def _looked_at(inputs: _PlanInputs, station: str, present: Present) -> _Draft | LeftAlone:
    """Return the change that would be best for a station, or why it is left alone."""
    known = {knob: _python(value) for knob, value in present.configuration.items() if value is not None}
    if refusal := _refusal(inputs, station, present):
        return LeftAlone(station, known, *refusal)
    arm = inputs.space.index(present.configuration)
    allowed = _within_steps(inputs.space, arm, inputs.steps)
    if allowed.sum() == 1:
        reason = "No other configuration of the log is within the steps allowed."
        return LeftAlone(station, known, "no other choice", reason)
    if inputs.beta is None:  # exploring is about what was never tried, and says so
        rows = np.isin(inputs.tried.tasks, np.flatnonzero(inputs.setup.K_Z[inputs.setup.task(station)]))
        allowed &= inputs.tried.within(rows)
        allowed[arm] = True
        if allowed.sum() == 1 or not inputs.tried.compared(rows):
            return LeftAlone(station, known, "never tried", _never_reason(inputs, rows))
    draft = _best(inputs, station, present, arm=arm, allowed=allowed)
    refused = _judgement(inputs, draft.change, choices=int(allowed.sum()))
    return LeftAlone(station, draft.change.present, *refused) if refused else draft


def _python(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _refusal(inputs: _PlanInputs, station: str, present: Present) -> tuple[Why, str] | None:
    """Return why nothing can be said about a station, or None if something can."""
    if station not in inputs.setup.active:
        return "not in the log", "The log has no rows of this station, so it is not known which others it resembles."
    unset = [knob for knob in inputs.space.knobs if present.configuration.get(knob) is None]
    if unset:
        return "configuration unknown", f"Its present configuration is not known: no {listed(unset)} is given."
    try:
        inputs.space.index(present.configuration)
    except KinbandError as error:
        return "configuration unknown", f"Its present configuration never occurs in the log: {error}."
    names = inputs.setup.encoder.state.names
    missing = [name for name in names if not np.isfinite(present.state.get(name, np.nan))]
    if missing:
        return "state incomplete", f"Its present state is not known: no {listed(missing)} is given."
    strange = inputs.seen.strange(np.array([present.state[name] for name in names]))
    return ("state unfamiliar", f"Its state is far outside what the log has seen: {strange}.") if strange else None


def _best(inputs: _PlanInputs, station: str, present: Present, *, arm: int, allowed: BoolArray) -> _Draft:
    """Return the best change of a station; where nothing beats the present configuration, that one."""
    task, encoder = inputs.setup.task(station), inputs.setup.encoder
    X = encoder.contexts({name: present.state[name] for name in encoder.state.names})
    arms = np.flatnonzero(allowed)
    prediction = inputs.beliefs.predict(np.full(len(arms), task), X[arms])
    score = prediction.mean + (inputs.beta or 0.0) * prediction.std  # (12)
    here, best = int(np.flatnonzero(arms == arm)[0]), int(np.argmax(score))
    if score[best] <= score[here] + _TIE * max(1.0, abs(float(score[here]))):
        best = here
    x = X[arms[best]]
    change = Change(
        station,
        present=inputs.space[arm],
        proposed=inputs.space[int(arms[best])],
        expected=float(prediction.mean[best]),
        expected_unchanged=float(prediction.mean[here]),
        gain=gain_of(inputs.beliefs, task, x, instead_of=X[arm]),
        std=float(prediction.std[best]),
        std_alone=np.nan,
        own_rows=int(inputs.own_rows[task]),
        borrowed=np.nan,
        lenders=(),
        reason="",
    )
    return _Draft(change, task, int(arms[best]), x, merit=float(score[best] - score[here]))


def _judgement(inputs: _PlanInputs, change: Change, *, choices: int) -> tuple[Why, str] | None:
    """Return why a change is not worth making, or None if it is."""
    explore, gain = inputs.beta is not None, change.gain
    if not change.moves:
        if len(ran := inputs.tried.of_station(inputs.setup.task(change.station))) < 2:
            return "never tried", _never_here_reason(inputs, ran)
        better = "is more worth trying" if explore else "is expected to earn more"
        present = f"the present {change.expected_unchanged:.4g} (standard deviation {change.std:.2g})"
        return "best already", f"None of its {choices:,} choices {better} than {present}."
    if (gain.high if explore else gain.value) < inputs.least_gain:
        less = "even at best less" if explore else "less"
        return "gain too small", f"{_promise(change)}, {less} than the {inputs.least_gain:g} that is worth a change."
    if not explore and gain.low <= 0:
        return "gain not certain", f"{_promise(change)}, which may be a loss."
    return None


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
    tick: Callable[[str], None] | None = None,
) -> ChangePlan:
    """Return which stations should change, to what and why, and which are better left alone.

    Args:
        controller: Knows the log; it is not changed.
        now: Present state and configuration by station, or a table with the columns `station`, the state features and
            the knobs.
        explore: Whether to propose what is most worth trying rather than what is expected to earn most.
        beta: Weight of the standard deviation when exploring; None for the controller's own.
        least_gain: Gains below this are not worth a change. When exploring, what counts is the interval's upper end.
        max_changes: The most changes to make, the most worthwhile ones; None for no limit.
        steps: The furthest a knob may move from its present value; 0 keeps it.
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
    stations = _stations(now, controller.setup)
    inputs = _plan_inputs(controller, explore=explore, beta=beta, least_gain=least_gain, steps=steps or {})
    found: dict[str, _Draft | LeftAlone] = {}
    for station, present in stations.items():
        found[station] = _looked_at(inputs, station, present)
        if tick is not None:
            tick(station)
    drafts = sorted((d for d in found.values() if isinstance(d, _Draft)), key=lambda draft: -draft.merit)
    most = len(drafts) if max_changes is None else max_changes
    for change in (draft.change for draft in drafts[most:]):
        reason = f"{_promise(change)}, but others are more worthwhile and the plan is limited to {most}."
        found[change.station] = LeftAlone(change.station, change.present, "beyond the limit", reason)
    left_alone = tuple(station for station in found.values() if isinstance(station, LeftAlone))
    return ChangePlan(tuple(inputs.space.knobs), _attributed(inputs, drafts[:most]), left_alone, explore)


def _check(controller: Any, *, max_changes: Any, least_gain: Any, steps: Any) -> None:
    """Refuse what is of another kind than it should be."""
    if not isinstance(controller, Controller):
        raise BadInputError(
            f"plan_changes takes a Controller, got {controller!r:.60}: Controller.from_trace(trace) makes one of a log"
        )
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


def _stations(now: Mapping[str, Present] | Any, setup: Setup) -> Mapping[str, Present]:
    if setup.features is not None:
        raise BadInputError("a plan needs states and configurations: this controller is asked with context rows")
    if isinstance(now, Mapping) and now and all(isinstance(value, Present) for value in now.values()):
        return now
    return present_of(now, setup.encoder.space, state=setup.encoder.state.names)


def _plan_inputs(
    controller: Controller, *, explore: bool, beta: float | None, least_gain: float, steps: Mapping[str, float]
) -> _PlanInputs:
    setup = controller.current
    for knob, step in steps.items():
        check_step(setup.encoder.space, knob, step=step)
    beliefs = beliefs_of(controller)
    tasks, X = told_rows(beliefs)
    rule = setup.exploration if beta is None else Constant(beta)
    weight = rule.beta(known=len(beliefs), arms=len(setup.encoder.space), noise=setup.noise)
    return _PlanInputs(
        setup,
        beliefs,
        Seen.of(setup.encoder.state, X),
        Tried.of(setup.encoder, tasks, X),
        own_rows=np.bincount(tasks, minlength=len(setup.stations)),
        beta=weight if explore else None,
        least_gain=float(least_gain),
        steps=steps,
    )


_NAMED = 3  # how many of the stations that contributed are named


def _attributed(inputs: _PlanInputs, drafts: Sequence[_Draft]) -> tuple[Change, ...]:
    """Return changes with whose rows they rest on, solved for all together, and their reasons."""
    if not drafts:
        return ()
    tasks, X = np.array([draft.task for draft in drafts]), np.array([draft.x for draft in drafts])
    changes = []
    for draft, row in zip(drafts, shares(inputs.beliefs, tasks, X, K_Z=inputs.setup.K_Z), strict=True):
        row[draft.task] = 0.0
        top = [int(m) for m in np.argsort(-row, kind="stable")[:_NAMED] if row[m] > 0]
        change = replace(
            draft.change,
            std_alone=std_alone(inputs.beliefs, draft.task, x=draft.x, K_Z=inputs.setup.K_Z),
            borrowed=float(row.sum()),
            lenders=tuple((inputs.setup.stations[m], float(row[m])) for m in top),
        )
        reasons = (_gain_reason(change, explore=inputs.beta is not None), _tried_reason(inputs, draft))
        changes.append(replace(change, reason=" ".join(filter(None, [*reasons, _evidence_reason(change)]))))
    return tuple(changes)


# --- The reasons of a plan in words, for an engineer who has to approve it ------------------------------------------

NEGLIGIBLE = 0.005
"""A share below this, half a per cent, is not worth a word."""


def share_text(share: float) -> str:
    """Return a share in whole per cent."""
    return f"{100 * share:.0f} %"


def _gain_text(gain: Estimate) -> str:
    return f"a gain of {gain.value:+.3g} (95 % interval {gain.low:+.3g} to {gain.high:+.3g})"


def _promise(change: Change) -> str:
    return f"{configuration_text(change.moves, -1)} is expected to bring {_gain_text(change.gain)}"


def _gain_reason(change: Change, *, explore: bool) -> str:
    """Return why a station should change."""
    instead = f"{change.expected:.4g} instead of {change.expected_unchanged:.4g}"
    trial = "A trial, which may lose. " if explore and change.gain.low <= 0 else ""
    return f"{trial}Expected reward {instead}, {_gain_text(change.gain)}."


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


def _tried_reason(inputs: _PlanInputs, draft: _Draft) -> str:
    """Return whose trials a change rests on, where its station never ran what is proposed; else nothing."""
    ran = inputs.tried.stations(draft.arm)
    if draft.task in ran:
        return ""
    similar = int((inputs.setup.K_Z[draft.task, ran] > 0).sum())
    never = f"{draft.change.station} never ran {configuration_text(draft.change.proposed, -1)}"
    others = counted(similar, "similar station") if similar else "no similar station"
    if inputs.tried.within(inputs.tried.tasks == draft.task)[draft.arm]:
        return f"{never}, but settings on both sides of it; {others} did."
    if similar:
        return f"{never}; this rests on {others} that did."
    return f"{never}, and {others} did: this is a guess from other settings."


def _never_reason(inputs: _PlanInputs, rows: BoolArray) -> str:
    """Return why a station has nothing to change to, where these rows (n,) are all that it can learn from."""
    ran = np.unique(inputs.tried.arms[rows])
    if len(ran) == 1:
        return (
            "The log holds no trials: of all that this station can learn from, every row ran "
            f"{configuration_text(inputs.space[int(ran[0])], -1)}, so nothing can be learned about other settings."
        )
    if not inputs.tried.compared(rows):
        return (
            "Never tried here, and no station that it can learn from ran two settings: what looks like a difference of "
            "settings may be one of stations. `kinband design` plans trials."
        )
    return "No other choice lies within what was tried by any station that it can learn from."


def _never_here_reason(inputs: _PlanInputs, ran: IntArray) -> str:
    """Return what is said of a station that never tried anything, where nothing that others ran looks better."""
    known = (
        f"It never ran anything but {configuration_text(inputs.space[int(ran[0])], -1)}" if len(ran) else "It never ran"
    )
    return f"{known}: whether another setting is better here is not known. `kinband design` plans trials."
