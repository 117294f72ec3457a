"""The plan of a controller that has learned: what it would change tonight, nothing recorded, nothing learned."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from kinband.arrays import IntArray
from kinband.controller import Controller
from kinband.controller.stations import CurrentSetup
from kinband.errors import BadInputError
from kinband.guardrails import Rails
from kinband.kernels import components
from kinband.planning.coverage import setting_columns
from kinband.planning.evidence import EvidenceRows, GroupPosterior, averaged
from kinband.planning.limits import Limits
from kinband.planning.making import MOST_TOLD, Group, RankedChange, Rules, check_limits, merged, not_in_log, plan_group
from kinband.planning.period import Present, present_of
from kinband.planning.plan import ChangePlan, LeftAlone
from kinband.policies import Constant


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
    told = _told(controller)
    weight = None
    if explore:
        rule = setup.exploration if beta is None else Constant(beta)
        weight = rule.beta(known=len(told), arms=len(setup.encoder.space), noise=setup.noise)
    rules = Rules(weight, float(least_gain), limits)
    found: dict[str, RankedChange | LeftAlone] = {}
    for members, asked in _asked(setup, stations):
        group = _group(setup, told, members)
        looked = plan_group(group, {name: stations[name] for name in asked}, rules, tick)
        found |= dict(zip(asked, looked, strict=True))
    for name in stations.keys() - found.keys():
        found[name] = not_in_log(name, stations[name])
    ordered = [found[name] for name in stations]
    return merged(ordered, rules, max_changes=max_changes)


def _told(controller: Controller) -> EvidenceRows:
    """Return every row that a controller has learned from, those of the log first."""
    observations, noise = controller.observations(), controller.current.noise
    known = np.array([0.0 if o.noise is None else o.noise for o in observations])
    width = len(controller.current.encoder.features)
    return EvidenceRows(
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


def _group(setup: CurrentSetup, told: EvidenceRows, members: IntArray) -> Group:
    """The group of some stations of a controller."""
    own = told.take(np.isin(told.tasks, members))
    own = replace(own, tasks=np.searchsorted(members, own.tasks))
    own = averaged(own, most=MOST_TOLD, columns=setting_columns(setup.encoder))
    K_Z = setup.K_Z[np.ix_(members, members)]
    evidence = GroupPosterior(setup.kernel, K_Z, own, mean=setup.mean)
    return Group.of(setup.encoder, [setup.stations[m] for m in members.tolist()], evidence)


def _check(controller: Any, *, max_changes: Any, least_gain: Any, steps: Any) -> None:
    """Refuse what is of another kind than it should be."""
    if not isinstance(controller, Controller):
        raise BadInputError(
            f"plan_changes takes a Controller, got {controller!r:.60}: Controller.from_trace(trace) makes one of a log"
        )
    check_limits(max_changes=max_changes, least_gain=least_gain, steps=steps)


def _stations(now: Mapping[str, Present] | Any, setup: CurrentSetup) -> Mapping[str, Present]:
    if setup.features is not None:
        raise BadInputError("a plan needs states and configurations: this controller is asked with context rows")
    if isinstance(now, Mapping) and now and all(isinstance(value, Present) for value in now.values()):
        return now
    return present_of(now, setup.encoder.space, state=setup.encoder.state.names)
