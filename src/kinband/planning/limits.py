"""What limits a plan: steps, and the guard rails of the network."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from kinband.arrays import BoolArray, finite_number
from kinband.errors import BadInputError
from kinband.guardrails import Freeze, KnobLimit, Rails
from kinband.space import ConfigurationSpace
from kinband.stats import counted, listed
from kinband.trace.answers import some_of

LATER = {
    "maintenance": "maintenance windows",
    "forbidden": "forbidden windows",
    "min_time": "least time between changes",
    "per_day": "changes in a day",
    "two_people": "what takes two people",
}
"""Rails that a plan cannot hold, as they hang on when a change is made and what was changed before."""


@dataclass(frozen=True, eq=False)
class Limits:
    """What limits the changes or trials of a plan; rails that are `LATER` are judged when a change is carried out.

    Attributes:
        space: All configurations.
        steps: The furthest each knob may move, on top of the rails.
        rails: Ranges, steps, frozen stations, changes in a round, neighbours.

    Example:
        >>> Limits(ConfigurationSpace(tilt=[0, 2, 4, 6]), {"tilt": 2}).reach("a", 1)
        array([ True,  True,  True, False])
    """

    space: ConfigurationSpace
    steps: Mapping[str, float] = field(default_factory=dict)
    rails: Rails = field(default_factory=Rails)

    def __post_init__(self) -> None:
        if self.rails.stop:
            raise BadInputError("the stop switch of the rails is on, so nothing may change", argument="rails")
        for knob, step in self.steps.items():
            check_step(self.space, knob, step=step)

    def reach(self, station: str, arm: int) -> BoolArray:
        """Return to which configurations a station may be set from configuration `arm`, (N,)."""
        allowed = np.ones(len(self.space), dtype=np.bool_)
        steps = ((name, KnobLimit(step=step)) for name, step in self.steps.items())
        for name, limit in (*self.rails.limits(station), *steps):
            column, knob = self.space.knob(name)
            before = knob.values[self.space.codes[arm, column]]
            fine = np.array([limit.allows(value) and limit.reaches(before, value) for value in knob.values])
            allowed &= fine[self.space.codes[:, column]]
        return allowed

    @cached_property
    def frozen(self) -> Mapping[str, str]:
        """The stations that rails leave as they are, and why."""
        return {freeze.station: frozen_reason(freeze) for freeze in self.rails.freeze}

    def in_words(self) -> tuple[str, ...]:
        """Return the limits as sentences.

        Example:
            >>> rails = Rails(knobs={"tilt": KnobLimit(low=0, high=4)}, freeze=(Freeze("a"),), per_round=5)
            >>> for said in Limits(ConfigurationSpace(tilt=[0, 2, 4, 6]), {"tilt": 2}, rails).in_words():
            ...     print(said)
            tilt moves by at most 2.
            Guard rails: tilt is 0 to 4.
            Guard rails freeze 1 station: a.
            Guard rails let 5 stations change in a round.
        """
        rails, said = self.rails, [_step_text(knob, step) for knob, step in self.steps.items()]
        said += [f"Guard rails: {_limit_text(knob, limit)}." for knob, limit in rails.knobs.items()]
        if rails.stations:
            said.append(f"Guard rails have limits of their own for {_some(list(rails.stations))}.")
        if rails.freeze:
            said.append(f"Guard rails freeze {_some([freeze.station for freeze in rails.freeze])}.")
        if rails.per_round is not None:
            said.append(f"Guard rails let {counted(rails.per_round, 'station')} change in a round.")
        if rails.neighbours and not rails.neighbours_together:
            said.append("Guard rails let no two neighbours change together.")
        if later := [words for name, words in LATER.items() if getattr(rails, name) != getattr(Rails(), name)]:
            said.append(f"Not held by the plan, but judged when a change is carried out: {listed(later)}.")
        return tuple(said)

    def apart(self, station: str) -> frozenset[str]:
        """Return the stations that may not change together with one."""
        return frozenset() if self.rails.neighbours_together else self.rails.neighbours.get(station, frozenset())


def _step_text(knob: str, step: float) -> str:
    return f"{knob} moves by at most {step:g}." if step else f"{knob} stays as it is."


def _limit_text(knob: str, limit: KnobLimit) -> str:
    """What a knob may be, and how far it may move."""
    bounded = limit.values is not None or limit.low is not None or limit.high is not None
    moves = () if limit.step is None else (_step_text(knob, limit.step).removesuffix("."),)
    return ", ".join([f"{knob} is {limit}"] * bounded + list(moves)) or f"{knob} is anything"


def _some(stations: Sequence[str]) -> str:
    return f"{counted(len(stations), 'station')}: {some_of(stations)}"


def frozen_reason(freeze: Freeze) -> str:
    """Return in words why a station is left as it is."""
    until = "" if freeze.until is None else f" until {freeze.until}"
    why = f": {freeze.why}" if freeze.why else ""
    return f"Guard rails freeze it{until}{why}."


def check_step(space: ConfigurationSpace, knob: str, *, step: float) -> None:
    """Refuse a step, the furthest a knob may move, that its knob cannot have; 0 keeps a knob of any kind as it is."""
    _, found = space.knob(knob)
    if finite_number(step, name=f"the step of {knob!r}") < 0:
        raise BadInputError(f"the step of {knob!r} must not be negative, got {step:g}")
    if found.categorical and step > 0:
        raise BadInputError(f"knob {knob!r} holds categories, which have no step: 0 keeps it as it is")
