"""How far a knob may move in one change: the furthest step from its present value."""

from collections.abc import Mapping

import numpy as np

from kinband.arrays import BoolArray, finite_number
from kinband.errors import BadInputError
from kinband.space import ConfigurationSpace

_ROUNDING = 1e-9


def check_step(space: ConfigurationSpace, knob: str, *, step: float) -> None:
    """Refuse a step that its knob cannot have; 0 keeps a knob of any kind as it is.

    Example:
        >>> check_step(ConfigurationSpace(scheduler=["rr", "pf"]), "scheduler", step=1)
        Traceback (most recent call last):
            ...
        kinband.errors.BadInputError: knob 'scheduler' holds categories, which have no step: 0 keeps it as it is
    """
    _, found = space.knob(knob)
    if finite_number(step, name=f"the step of {knob!r}") < 0:
        raise BadInputError(f"the step of {knob!r} must not be negative, got {step:g}")
    if found.categorical and step > 0:
        raise BadInputError(f"knob {knob!r} holds categories, which have no step: 0 keeps it as it is")


def within_steps(space: ConfigurationSpace, arm: int, *, steps: Mapping[str, float]) -> BoolArray:
    """Return which configurations are within reach of configuration `arm`, (N,), itself among them.

    Example:
        >>> within_steps(ConfigurationSpace(tilt=[2, 4, 6, 8]), 0, steps={"tilt": 4}).tolist()
        [True, True, True, False]
    """
    allowed = np.ones(len(space), dtype=np.bool_)
    for name, step in steps.items():
        column, knob = space.knob(name)
        codes = space.codes[:, column]
        if knob.categorical:
            allowed &= codes == codes[arm]
            continue
        values = np.array(knob.values, dtype=np.float64)[codes]
        allowed &= np.abs(values - values[arm]) <= step + _ROUNDING * float(np.abs(values).max())
    return allowed
