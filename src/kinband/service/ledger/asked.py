"""What a decision was asked with, in a form that can be stored and asked again.

The journal keeps the state and the context that was chosen. To decide again, what else the caller said is needed too:
which configurations were allowed, what the station runs, the time. It is put into plain values *before* the
controller is asked, so that life and replay go the same way.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from kinband.controller import Controller
from kinband.controller.asking import State
from kinband.controller.stations import arm_of
from kinband.drift import TIME_COLUMN
from kinband.errors import BadInputError, NotFoundError
from kinband.records import Decision
from kinband.service.ledger.events import Event
from kinband.space import Allowed, ConfigurationSpace


@dataclass(frozen=True, eq=False)
class Request:
    """A question about one station, in plain values.

    Attributes:
        state: Its state.
        allowed: One boolean an arm, None where all may be chosen.
        running: Arm of what it runs, None where the caller did not say.
        time: When, as a number or as text; None where the caller did not say.
        reach: One boolean an arm, what rails let it run; None where they were not looked at before choosing.
    """

    state: dict[str, float]
    allowed: list[bool] | None = None
    running: int | None = None
    time: float | str | None = None
    reach: list[bool] | None = None

    @property
    def choices(self) -> list[bool] | None:
        """One boolean an arm, what may be chosen: allowed and within reach; None where all may."""
        if self.allowed is None or self.reach is None:
            return self.reach if self.allowed is None else self.allowed
        return [allowed and within for allowed, within in zip(self.allowed, self.reach, strict=True)]

    @classmethod
    def of(
        cls,
        station: str,
        state: State,
        *,
        space: ConfigurationSpace,
        allowed: Allowed = None,
        running: Mapping[str, Any] | None = None,
        time: Any = None,
    ) -> "Request":
        """Return a question in plain values; what the controller would refuse anyway it still refuses."""
        return cls(
            state=_state(state),
            allowed=_allowed(allowed, space, station=station),
            running=None if running is None else arm_of(running, space, station=station),
            time=_time(time),
        )

    @classmethod
    def read(cls, event: Event, *, timed: bool) -> "Request":
        """Return the question of a recorded decision; `timed`, its state has the clock in it."""
        payload = event.payload
        if "asked" not in payload or "contexts" in payload["asked"]:
            raise NotFoundError(
                f"decision {event.decision} was taken over from elsewhere: what it was asked with is not on record"
            )
        asked, state = payload["asked"], payload["entry"]["state"] or {}
        state = {name: value for name, value in state.items() if not (timed and name == TIME_COLUMN)}
        chosen = {name: set(asked[name]) for name in ("allowed", "reach") if name in asked}
        masks = {name: [arm in arms for arm in range(asked["arms"])] for name, arms in chosen.items()}
        return cls(state, running=asked.get("running"), time=asked.get("time"), **masks)

    def stored(self) -> dict[str, Any]:
        """Return what the journal does not keep of it, as JSON-able values."""
        found: dict[str, Any] = {}
        for name, mask in (("allowed", self.allowed), ("reach", self.reach)):
            if mask is not None:
                found |= {name: [arm for arm, may in enumerate(mask) if may], "arms": len(mask)}
        rest = {"running": self.running, "time": self.time}
        return found | {name: value for name, value in rest.items() if value is not None}


def requests_of(
    space: ConfigurationSpace,
    states: Mapping[str, State],
    *,
    allowed: Mapping[str, Allowed] | None,
    running: Mapping[str, Mapping[str, Any]] | None,
    time: Any,
) -> dict[str, Request]:
    """Return the questions of a round, by station."""
    for name, given in (("states", states), ("allowed", allowed), ("running", running)):
        if given is not None and not isinstance(given, Mapping):
            raise BadInputError(f"{name} must be given by station, as a mapping, got {type(given).__name__}")
    if not states:
        raise BadInputError("no station was asked for", argument="states")
    allowed, running = allowed or {}, running or {}
    for name, named in (("allowed", set(allowed)), ("running", set(running))):
        if unknown := named - set(states):
            raise BadInputError(f"{name} names stations that are not asked for: {', '.join(sorted(unknown))}")
    return {
        station: Request.of(
            station, state, space=space, allowed=allowed.get(station), running=running.get(station), time=time
        )
        for station, state in states.items()
    }


def ask_controller(controller: Controller, asked: Mapping[str, Request], *, together: bool) -> dict[str, Decision]:
    """Decide for stations as asked: together in one round, or for the only one by itself."""
    space = controller.space
    runs = {station: space[one.running] for station, one in asked.items() if one.running is not None}
    if not together:
        [(station, one)] = asked.items()
        made = controller.ask(station, one.state, allowed=one.choices, running=runs.get(station), time=one.time)
        return {station: made}
    return controller.ask_all(
        {station: one.state for station, one in asked.items()},
        allowed={station: one.choices for station, one in asked.items()},
        running=runs,
        time=next(iter(asked.values())).time,
    )


def fingerprint(call: str, **arguments: Any) -> str:
    """Return the request fingerprint of a call: a digest that tells whether a key comes again with the same one."""
    text = json.dumps([call, arguments], sort_keys=True, default=_plain)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _plain(value: Any) -> Any:
    if isinstance(value, Request):
        return [value.state, None, value.allowed, value.running, value.time]  # None: ledgers hold digests with it
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


def _allowed(allowed: Allowed, space: ConfigurationSpace, *, station: str) -> list[bool] | None:
    """Return one boolean an arm; a value that a knob does not have is a fault of the question, not a thing to find."""
    if allowed is None:
        return None
    try:
        return [bool(may) for may in space.mask(allowed)]
    except NotFoundError as error:
        raise BadInputError(
            f"allowed names what {station!r:.80} cannot run: {error.problem}",
            hint=error.hint,
            code="no_such_value",
            argument="allowed",
        ) from error


def _time(time: Any) -> float | str | None:
    if time is None or isinstance(time, str):
        return time
    if isinstance(time, int | float | np.integer | np.floating) and not isinstance(time, bool):
        return float(time)
    return str(time)
