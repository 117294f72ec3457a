"""What a decision was asked with, in a form that can be stored and asked again.

The journal keeps the state and the context that was chosen. To decide again, what else the caller said is needed too:
which configurations were allowed, what the station runs, the time, the context rows where those were given. It is put
into plain values *before* the controller is asked, so that life and replay go the same way.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from kinband.controller import Controller
from kinband.controller.asking import State
from kinband.controller.settings import arm_of
from kinband.drift import CLOCK
from kinband.errors import BadInputError, NotFoundError
from kinband.records import Decision
from kinband.service.ledger.events import Event, digest
from kinband.space import Allowed, ConfigurationSpace


@dataclass(frozen=True, eq=False)
class Request:
    """A question about one station, in plain values.

    Attributes:
        state: Its state, None where context rows are given.
        contexts: Context rows, (N, d) as lists.
        allowed: One boolean an arm, None where all may be chosen.
        running: Arm of what it runs, None where the caller did not say.
        time: When, as a number or as text; None where the caller did not say.

    Example:
        >>> from kinband import ConfigurationSpace
        >>> space = ConfigurationSpace(tilt=[2, 4, 6])
        >>> Request.of("a", {"load": np.int64(1)}, space=space, allowed={"tilt": [2, 4]}).stored()
        {'allowed': [0, 1], 'arms': 3}
    """

    state: dict[str, float] | None
    contexts: list[list[float]] | None = None
    allowed: list[bool] | None = None
    running: int | None = None
    time: float | str | None = None

    @classmethod
    def of(
        cls,
        station: str,
        state: State | None,
        *,
        space: ConfigurationSpace,
        contexts: ArrayLike | None = None,
        allowed: Allowed = None,
        running: Mapping[str, Any] | None = None,
        time: Any = None,
    ) -> "Request":
        """Return a question in plain values; what the controller would refuse anyway it still refuses."""
        rows = None if contexts is None else _rows(contexts)
        return cls(
            state=None if state is None else _state(state),
            contexts=rows,
            allowed=_allowed(allowed, space, station=station, arms=len(space) if rows is None else len(rows)),
            running=None if running is None else arm_of(running, space, station=station),
            time=_time(time),
        )

    @classmethod
    def read(cls, event: Event, *, timed: bool) -> "Request":
        """Return the question of a recorded decision; `timed`, its state has the clock in it."""
        payload = event.payload
        if "asked" not in payload:
            raise NotFoundError(
                f"decision {event.decision} was taken over from elsewhere: what it was asked with is not on record"
            )
        asked, state = payload["asked"], payload["entry"]["state"]
        if state is not None:
            state = {name: value for name, value in state.items() if not (timed and name == CLOCK)}
        chosen = set(asked.get("allowed", ()))
        allowed = [arm in chosen for arm in range(asked["arms"])] if "allowed" in asked else None
        rows = asked.get("contexts")
        return cls(None if rows is not None else state, rows, allowed, asked.get("running"), asked.get("time"))

    def stored(self) -> dict[str, Any]:
        """Return what the journal does not keep of it, as JSON-able values."""
        found: dict[str, Any] = {}
        if self.allowed is not None:
            found = {"allowed": [arm for arm, may in enumerate(self.allowed) if may], "arms": len(self.allowed)}
        rest = {"contexts": self.contexts, "running": self.running, "time": self.time}
        return found | {name: value for name, value in rest.items() if value is not None}


def requests_of(
    space: ConfigurationSpace,
    states: Mapping[str, State] | None,
    contexts: Mapping[str, ArrayLike] | None,
    *,
    allowed: Mapping[str, Allowed] | None,
    running: Mapping[str, Mapping[str, Any]] | None,
    time: Any,
) -> dict[str, Request]:
    """Return the questions of a round, by station.

    Example:
        >>> from kinband import ConfigurationSpace
        >>> space = ConfigurationSpace(tilt=[2, 4])
        >>> list(requests_of(space, {"a": {}, "b": {}}, None, allowed=None, running=None, time=None))
        ['a', 'b']
    """
    if (states is None) == (contexts is None):
        raise BadInputError("a round takes either states or contexts, by station", argument="states")
    for name, given in (("states", states), ("contexts", contexts), ("allowed", allowed), ("running", running)):
        if given is not None and not isinstance(given, Mapping):
            raise BadInputError(f"{name} must be given by station, as a mapping, got {type(given).__name__}")
    stations = list(states if states is not None else contexts or {})
    if not stations:
        raise BadInputError("no station was asked for", argument="states")
    states, contexts, allowed, running = states or {}, contexts or {}, allowed or {}, running or {}
    for name, named in (("allowed", set(allowed)), ("running", set(running))):
        if unknown := named - set(stations):
            raise BadInputError(f"{name} names stations that are not asked for: {', '.join(sorted(unknown))}")
    return {
        s: Request.of(s, states.get(s), space=space, contexts=contexts.get(s), allowed=allowed.get(s),
                      running=running.get(s), time=time)
        for s in stations
    }  # fmt: skip


def ask_alone(controller: Controller, station: str, request: Request) -> Decision:
    """Decide for one station as asked."""
    running = None if request.running is None else controller.space[request.running]
    return controller.ask(
        station, request.state, contexts=request.contexts, allowed=request.allowed, running=running, time=request.time
    )


def ask_round(controller: Controller, asked: Mapping[str, Request]) -> dict[str, Decision]:
    """Decide for stations together as asked."""
    space, first = controller.space, next(iter(asked.values()))
    by_rows = first.contexts is not None
    return controller.ask_all(
        None if by_rows else {station: request.state or {} for station, request in asked.items()},
        contexts={station: request.contexts or [] for station, request in asked.items()} if by_rows else None,
        allowed={station: request.allowed for station, request in asked.items()},
        running={station: space[request.running] for station, request in asked.items() if request.running is not None},
        time=first.time,
    )


def call_digest(call: str, **arguments: Any) -> str:
    """Return a digest of a call, to see whether a key is used again for the same one.

    Example:
        >>> call_digest("tell", id="d1", reward=0.5) == call_digest("tell", reward=0.5, id="d1")
        True
    """
    text = json.dumps([call, arguments], sort_keys=True, default=_plain)
    return digest(text.encode())[:16]


def _plain(value: Any) -> Any:
    if isinstance(value, Request):
        return [value.state, value.contexts, value.allowed, value.running, value.time]
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, Mapping):
        return dict(value)
    return str(value)


def _state(state: State) -> dict[str, float]:
    """Return a state as plain floats; what is no number stays, for the controller to refuse."""
    given: object = state
    if not isinstance(given, Mapping):
        raise BadInputError(f"state must map feature names to numbers, got {type(given).__name__}")
    return {name: float(v) if isinstance(v, np.number | int) and not isinstance(v, bool) else v
            for name, v in state.items()}  # fmt: skip


def _rows(contexts: ArrayLike) -> list[list[float]]:
    try:
        rows = np.asarray(contexts, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise BadInputError(f"contexts must be numbers, one row per arm: {error}") from error
    if rows.ndim != 2:
        raise BadInputError(f"contexts must have two dimensions, one row per arm, got {rows.ndim}")
    return [[float(value) for value in row] for row in rows]


def _allowed(allowed: Allowed, space: ConfigurationSpace, *, station: str, arms: int) -> list[bool] | None:
    """Return one boolean an arm; a value that a knob does not have is a fault of the question, not a thing to find."""
    try:
        return _mask(allowed, space, arms=arms)
    except NotFoundError as error:
        raise BadInputError(
            f"allowed names what {station!r:.80} cannot run: {error.problem}",
            hint=error.hint,
            code="no_such_value",
            argument="allowed",
        ) from error


def _mask(allowed: Allowed, space: ConfigurationSpace, *, arms: int) -> list[bool] | None:
    """Return one boolean an arm; rows that are not the configurations take booleans only."""
    if allowed is None:
        return None
    if arms == len(space):
        return [bool(may) for may in space.mask(allowed)]
    given = list(allowed) if isinstance(allowed, Sequence | np.ndarray) else [None]
    if len(given) != arms or not all(isinstance(may, bool | np.bool_) for may in given):
        raise BadInputError(f"allowed must be {arms} booleans, one per context row")
    return [bool(may) for may in given]


def _time(time: Any) -> float | str | None:
    if time is None or isinstance(time, str):
        return time
    if isinstance(time, int | float | np.integer | np.floating) and not isinstance(time, bool):
        return float(time)
    return str(time)
