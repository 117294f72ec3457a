"""From what a caller asks to a query, and from a policy's choice to a decision."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from kinband.arrays import BoolArray, FloatArray, finite_array
from kinband.contexts import StateScaler
from kinband.controller.journal import Journal
from kinband.controller.memory import Memory
from kinband.controller.setup import Setup
from kinband.controller.stations import CurrentSetup, arm_of, check_fallbacks
from kinband.drift import TIME_COLUMN, untimed
from kinband.errors import BadInputError
from kinband.records import NO_POLICY_STATE, Alternatives, Choice, Decision, Deployed, Query
from kinband.space import Allowed, ConfigurationSpace

State = Mapping[str, float]

ALTERNATIVES = 32
"""How many scored configurations a decision keeps; guard rails go down the list where the best is not allowed."""


def query_for(
    setup: Setup,
    station: str,
    *,
    state: State | None,
    contexts: ArrayLike | None,
    allowed: Allowed,
    clock: float | None = None,
) -> Query:
    """Return the query of one station, from its state or from one context row per arm, at what the clock shows."""
    task, space, features = setup.task(station), setup.encoder.space, setup.features
    if features is None:
        if contexts is not None:
            raise BadInputError(
                "this controller is asked with states", hint="declare features= to ask with context rows"
            )
        if state is not None and not isinstance(state, Mapping):
            raise BadInputError(f"state must map feature names to numbers, got {type(state).__name__}")
        names = setup.encoder.state.names if clock is None else untimed(setup.encoder.state.names)
        if state is None and names:
            raise BadInputError(f"ask for {station!r} needs its state: {', '.join(names)}")
        return Query(task, setup.encoder.contexts(_at(state or {}, clock, names)), space.mask(allowed))
    if contexts is None or state is not None:
        raise BadInputError(
            "this controller is asked with context rows, one per arm, not with states",
            hint="give contexts=",
            code="contexts_only",
            argument="contexts",
        )
    X = finite_array(contexts, name="contexts", ndim=2)
    if clock is not None:
        X, features = _beside_clock(X, clock, features)
    if X.shape[1] != len(features):
        raise BadInputError(f"context has {X.shape[1]} features, declared were {len(features)}: {', '.join(features)}")
    return Query(task, X, _mask_of_rows(len(X), space, allowed))


def queries_for(
    setup: Setup,
    *,
    states: Mapping[str, State] | None,
    contexts: Mapping[str, ArrayLike] | None,
    allowed: Mapping[str, Allowed] | None,
    clock: float | None = None,
) -> dict[str, Query]:
    """Return the queries of a round, by station; all of it happens at what the clock shows."""
    if (states is None) == (contexts is None):
        raise BadInputError("a round takes either states or contexts, by station", argument="states")
    for name, given in (("states", states), ("contexts", contexts), ("allowed", allowed)):
        if given is not None and not isinstance(given, Mapping):
            raise BadInputError(f"{name} must be given by station, as a mapping, got {type(given).__name__}")
    stations = list(states if states is not None else contexts or {})
    if not stations:
        raise BadInputError("no station was asked for", argument="states")
    states, contexts, allowed = states or {}, contexts or {}, allowed or {}
    if unknown := set(allowed) - set(stations):
        raise BadInputError(f"allowed names stations that are not asked for: {', '.join(sorted(unknown))}")
    return {
        s: query_for(setup, s, state=states.get(s), contexts=contexts.get(s), allowed=allowed.get(s), clock=clock)
        for s in stations
    }


def decision_from(
    choice: Choice,
    space: ConfigurationSpace | None,
    *,
    decision_id: str,
    station: str,
    known: int,
    number: int | None,
) -> Decision:
    """Return the record of a choice; without a space its arms have no names."""
    alternatives = _alternatives(choice, space)
    chosen = next(a for a in alternatives if a.arm == choice.arm)
    return Decision(
        id=decision_id,
        station=station,
        arm=choice.arm,
        configuration=chosen.configuration,
        mean=chosen.mean,
        std=chosen.std,
        ucb=chosen.ucb,
        alternatives=alternatives,
        known=known,
        round=number,
        policy_state=dict(choice.policy_state) if choice.policy_state else NO_POLICY_STATE,
    )


def with_deployed(
    queries: Mapping[str, Query],
    setup: CurrentSetup,
    journal: Journal,
    *,
    memory: Memory,
    running: Mapping[str, Any] | None,
) -> dict[str, Query]:
    """Return queries that also say what their stations run, in the order of caller, record, declaration."""
    said = running or {}
    if not isinstance(said, Mapping):
        raise BadInputError(f"running must be given by station, as a mapping, got {type(said).__name__}")
    if unknown := set(said) - set(queries):
        raise BadInputError(f"running names stations that are not asked for: {', '.join(sorted(map(str, unknown)))}")
    deployed, calibrated = memory.deployed, memory.calibrated
    pending, decisions, space = deployed.pending, len(journal.asked), setup.encoder.space
    found: dict[str, Query] = {}
    for station, query in queries.items():
        baseline = setup.running.get(station)
        decided = (deployed.running(task, journal) for task in setup.tasks_of(station))
        runs = next((arm for arm in decided if arm is not None), baseline)
        runs = arm_of(said[station], space, station=station) if station in said else runs
        here = Deployed(runs, baseline, decisions, pending, calibrated.rules, calibrated.tried(query.task))
        found[station] = check_fallbacks(replace(query, deployed=here), setup, station=station)
    return found


def _at(state: State, clock: float | None, names: tuple[str, ...]) -> State:
    """Return a state of these features with the clock in it; what is wrong with it is said without the clock."""
    if clock is None:
        return state
    StateScaler.identity(names).row(state)
    return {**state, TIME_COLUMN: clock}


def _beside_clock(X: FloatArray, clock: float, features: tuple[str, ...]) -> tuple[FloatArray, tuple[str, ...]]:
    """Return context rows (N, d) with the clock behind them, (N, d + 1); rows of another width as they are."""
    declared = untimed(features)
    return (np.column_stack([X, np.full(len(X), clock)]), features) if X.shape[1] == len(declared) else (X, declared)


def _mask_of_rows(rows: int, space: ConfigurationSpace, allowed: Allowed) -> BoolArray:
    """Return which context rows may be chosen; where they are not the configurations, only booleans can say."""
    if rows == len(space):
        return space.mask(allowed)
    if not rows:
        raise BadInputError("contexts holds no row: give one per arm")
    mask = np.ones(rows, dtype=np.bool_) if allowed is None else np.asarray(allowed)
    if mask.dtype != np.bool_ or mask.shape != (rows,) or not mask.any():
        raise BadInputError(f"allowed must be {rows} booleans with at least one True, one per context row")
    return mask


def _alternatives(choice: Choice, space: ConfigurationSpace | None) -> Alternatives:
    """Return the best-scored arms, the chosen one among them, best first."""
    order = np.arange(len(choice.arms)) if choice.score is None else np.argsort(-choice.score, kind="stable")
    kept = order[:ALTERNATIVES]
    chosen = int(np.flatnonzero(choice.arms == choice.arm)[0])
    if chosen not in kept:
        kept[-1] = chosen
    unknown: list[float | None] = [None] * len(kept)
    scores = (unknown if v is None else v[kept].tolist() for v in (choice.mean, choice.std, choice.score))
    return Alternatives(zip(choice.arms[kept].tolist(), *scores, strict=True), space)
