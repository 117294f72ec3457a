"""From what a controller believes and the stations as they are now to a change plan.

For every station the configuration with the largest expected reward (9) is compared with the present one or, when
exploring, the one with the largest f̂ + βσ (12). A plan that plays safe changes a station only where the whole 95 %
interval of its gain is above zero, and never to what nobody tried that it can learn from, beyond the range of what was;
`drafts` looks at the stations one by one.

All stations are looked at with the same beliefs, as in Algorithm 1. Nothing is recorded and nothing is learned: a plan
is a proposal that a person approves.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from kinband.arrays import FloatArray, finite_number
from kinband.changes.borrowing import beliefs_of, shares, told_rows, width_alone
from kinband.changes.drafts import Desk, Draft, looked_at
from kinband.changes.plan import Change, ChangePlan, LeftAlone
from kinband.changes.present import Present, present_of
from kinband.changes.reasons import change_reason, limit_reason, loan_reason, tried_reason
from kinband.changes.seen import Seen, Tried
from kinband.changes.steps import check_step
from kinband.controller import Controller, Settings
from kinband.errors import BadInputError
from kinband.policies import Constant

_LENDERS = 3  # how many are named


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
        beta: Weight of the width when exploring; None for the controller's own.
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
    stations = _stations(now, controller.settings)
    desk = _desk(controller, explore=explore, beta=beta, least_gain=least_gain, steps=steps or {})
    found: dict[str, Draft | LeftAlone] = {}
    for station, present in stations.items():
        found[station] = looked_at(desk, station, present=present)
        if tick is not None:
            tick(station)
    drafts = sorted((d for d in found.values() if isinstance(d, Draft)), key=lambda draft: -draft.merit)
    most = len(drafts) if max_changes is None else max_changes
    for draft in drafts[most:]:
        reason = limit_reason(draft.moves, most=most, **draft.interval)
        found[draft.station] = LeftAlone(draft.station, draft.present, "beyond the limit", reason)
    left_alone = tuple(station for station in found.values() if isinstance(station, LeftAlone))
    return ChangePlan(tuple(desk.space.knobs), _changes(desk, drafts[:most]), left_alone, explore)


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


def _stations(now: Mapping[str, Present] | Any, settings: Settings) -> Mapping[str, Present]:
    if settings.features is not None:
        raise BadInputError("a plan needs states and configurations: this controller is asked with context rows")
    if isinstance(now, Mapping) and now and all(isinstance(value, Present) for value in now.values()):
        return now
    return present_of(now, settings.encoder.space, state=settings.encoder.state.names)


def _desk(
    controller: Controller, *, explore: bool, beta: float | None, least_gain: float, steps: Mapping[str, float]
) -> Desk:
    settings = controller.in_force
    if finite_number(least_gain, name="least_gain") < 0:
        raise BadInputError(f"least_gain must not be negative, got {least_gain:g}")
    for knob, step in steps.items():
        check_step(settings.encoder.space, knob, step=step)
    beliefs = beliefs_of(controller)
    tasks, X = told_rows(beliefs, settings.K_Z)
    rule = settings.exploration if beta is None else Constant(beta)
    weight = rule.beta(known=len(beliefs), arms=len(settings.encoder.space), noise=settings.noise)
    return Desk(
        settings,
        beliefs,
        Seen.of(settings.encoder.state, X),
        Tried.of(settings.encoder, tasks, X),
        own_rows=np.bincount(tasks, minlength=len(settings.stations)),
        beta=weight if explore else None,
        least_gain=float(least_gain),
        steps=steps,
    )


def _changes(desk: Desk, drafts: Sequence[Draft]) -> tuple[Change, ...]:
    """Return drafts with what they borrowed, solved for all together."""
    if not drafts:
        return ()
    tasks, X = np.array([draft.task for draft in drafts]), np.array([draft.x for draft in drafts])
    lent = shares(desk.beliefs, tasks, X, K_Z=desk.settings.K_Z)
    return tuple(_change(desk, draft, lent=row) for draft, row in zip(drafts, lent, strict=True))


def _change(desk: Desk, draft: Draft, *, lent: FloatArray) -> Change:
    others = np.where(np.arange(len(lent)) == draft.task, 0.0, lent)
    top = [int(m) for m in np.argsort(-others, kind="stable")[:_LENDERS] if others[m] > 0]
    lenders = tuple((desk.settings.stations[m], float(others[m])) for m in top)
    alone = width_alone(desk.beliefs, draft.task, x=draft.x, K_Z=desk.settings.K_Z)
    total, own_rows = float(others.sum()), int(desk.own_rows[draft.task])
    reason = change_reason(draft.expected, draft.unchanged, explore=desk.beta is not None, **draft.interval)
    loan = loan_reason(lenders, borrowed=total, own_rows=own_rows, width=draft.width, alone=alone)
    return Change(
        draft.station,
        draft.present,
        draft.proposed,
        expected=draft.expected,
        expected_unchanged=draft.unchanged,
        **draft.interval,
        width=draft.width,
        width_alone=alone,
        own_rows=own_rows,
        borrowed=total,
        lenders=lenders,
        reason=" ".join([reason, *_never_ran(desk, draft), loan]),
    )


def _never_ran(desk: Desk, draft: Draft) -> list[str]:
    """Whose trials a change rests on, where its station never ran what is proposed."""
    ran = desk.tried.stations(draft.arm)
    if draft.task in ran:
        return []
    between = bool(desk.tried.within(desk.tried.tasks == draft.task)[draft.arm])
    similar = int((desk.settings.K_Z[draft.task, ran] > 0).sum())
    return [tried_reason(draft.station, draft.proposed, similar=similar, between=between)]
