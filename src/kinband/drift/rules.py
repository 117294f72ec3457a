"""What a user declares of drift: frozen records of a few numbers.

`Drift` says how fast what is known fades, by a half-life that is given or learned, and on which clock; `Reset` says
when a station is taken to have changed, and how much of what it knew it then keeps.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Literal

import numpy as np

from kinband.arrays import finite_number, positive_number
from kinband.errors import BadInputError

LEARNED = "learned"
"""A half-life that is to be fitted to a log with times."""

Clock = Literal["decisions", "numbers", "dates"]
_CLOCKS = ("decisions", "numbers", "dates")


@dataclass(frozen=True)
class Reset:
    """When a station is taken to have changed, and what it then starts from.

    Attributes:
        run_length: How many decisions of a station there are at least, on average, before a false alarm, where
            predictions hold: a chance of n/run_length in n decisions at most. More is more patient; ten times as much
            takes one or two decisions more to see a large change.
        kept: What its likeness to its own past and to stations that have not changed is multiplied by, from 0 on and
            below 1. To others that have changed as often it is as like as ever.

    Example:
        >>> Reset(kept=1.0)
        Traceback (most recent call last):
            ...
        kinband.errors.BadInputError: kept is the share of its likeness that a station keeps, from 0 on and below 1, ...
    """

    run_length: float = 2000.0
    kept: float = field(default=0.0, kw_only=True)

    def __post_init__(self) -> None:
        for name in ("run_length", "kept"):
            object.__setattr__(self, name, finite_number(getattr(self, name), name=name))
        if not self.run_length >= 2.0:
            raise BadInputError(f"run_length counts decisions and must be at least 2, got {self.run_length:g}")
        if not 0.0 <= self.kept < 1.0:
            raise BadInputError(
                f"kept is the share of its likeness that a station keeps, from 0 on and below 1, got {self.kept:g}"
            )


@dataclass(frozen=True)
class Drift:
    """How a controller keeps up with stations that change.

    Attributes:
        half_life: After how long a reward counts half, in the unit of the clock: a number, or for dates a `timedelta`;
            "learned" to fit it to a log with times; None for no forgetting.
        reset: Whether stations whose rewards leave their bounds start anew: True, False, or a `Reset`.
        keep: Share of what is known that never fades, from 0 on and below 1.
        clock: What the clock counts: "decisions" of the controller, or "numbers" or "dates" that come with every
            question (`ask(..., time=)`). By default dates where the half-life is a `timedelta`, the kind of times that
            the log has where it is learned, else decisions.

    Example:
        >>> Drift(half_life=timedelta(days=7)).clock, Drift(half_life=500).clock, Drift().clock is None
        ('dates', 'decisions', True)
        >>> Drift(reset=False)
        Traceback (most recent call last):
            ...
        kinband.errors.BadInputError: this drift neither forgets nor resets: give half_life=, or leave drift out
    """

    half_life: float | timedelta | np.timedelta64 | str | None = None
    reset: bool | Reset = field(default=True, kw_only=True)
    keep: float = field(default=0.0, kw_only=True)
    clock: Clock | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        if not isinstance(self.reset, bool | Reset):
            raise BadInputError(f"reset must be True, False or Reset(...), got {self.reset!r:.60}")
        if self.clock is not None and self.clock not in _CLOCKS:
            raise BadInputError(f"a clock counts {', '.join(_CLOCKS)}, got {self.clock!r:.60}")
        object.__setattr__(self, "keep", finite_number(self.keep, name="keep"))
        if not 0.0 <= self.keep < 1.0:
            raise BadInputError(f"keep is the share that never fades, from 0 on and below 1, got {self.keep:g}")
        object.__setattr__(self, "reset", Reset() if self.reset is True else self.reset)
        if self.half_life is None:
            self._check_still()
            return
        dates = isinstance(self.half_life, timedelta | np.timedelta64)
        object.__setattr__(self, "half_life", _half_life(self.half_life))
        if dates and self.clock not in (None, "dates"):
            raise BadInputError(f"a half-life in days and hours needs a clock of dates, got {self.clock!r}")
        if self.half_life == LEARNED and self.clock == "decisions":
            raise BadInputError("a half-life is learned from the times of a log, which a clock of decisions has not")
        if self.clock is None and self.half_life != LEARNED:
            object.__setattr__(self, "clock", "dates" if dates else "decisions")

    def _check_still(self) -> None:
        if not self.reset:
            raise BadInputError("this drift neither forgets nor resets: give half_life=, or leave drift out")
        if self.clock is not None or self.keep:
            raise BadInputError("clock= and keep= are for forgetting: give half_life= too")

    @property
    def forgets(self) -> bool:
        """Whether what is known fades."""
        return self.half_life is not None

    @property
    def resets(self) -> Reset | None:
        """When stations start anew; None for never."""
        return self.reset if isinstance(self.reset, Reset) else None


def drift_from(given: Any) -> Drift | None:
    """Return the drift that is declared, None for none, or say what came instead.

    Example:
        >>> drift_from(None) is None
        True
    """
    if given is None or isinstance(given, Drift):
        return given
    raise BadInputError(f"drift takes Drift(...), got {given!r:.60}")


def drift_to_dict(drift: Drift) -> dict[str, Any]:
    """Return a drift as JSON-able values.

    Example:
        >>> drift_to_dict(Drift(500, reset=False))
        {'half_life': 500.0, 'reset': None, 'keep': 0.0, 'clock': 'decisions'}
    """
    rule = drift.resets
    reset = None if rule is None else {"run_length": rule.run_length, "kept": rule.kept}
    return {"half_life": drift.half_life, "reset": reset, "keep": drift.keep, "clock": drift.clock}


def drift_from_dict(values: Mapping[str, Any]) -> Drift:
    """Return the drift that `drift_to_dict` wrote.

    Example:
        >>> drift = Drift(timedelta(days=2), reset=Reset(500, kept=0.1))
        >>> drift_from_dict(drift_to_dict(drift)) == drift
        True
    """
    reset = values["reset"]
    rule = False if reset is None else Reset(reset["run_length"], kept=reset["kept"])
    return Drift(values["half_life"], reset=rule, keep=values["keep"], clock=values["clock"])


def _half_life(given: Any) -> float | str:
    """Return a half-life as a number, of seconds where it is a time."""
    if isinstance(given, np.timedelta64):
        return _seconds(given)
    if isinstance(given, timedelta):
        return positive_number(given.total_seconds(), name="half_life")
    if isinstance(given, str | bool | np.bool_):
        if given != LEARNED:
            raise BadInputError(f"half_life must be a number, a timedelta or {LEARNED!r}, got {given!r:.60}")
        return LEARNED
    return positive_number(given, name="half_life")


def _seconds(span: np.timedelta64) -> float:
    """Return a time span of NumPy's in seconds; months and years have no fixed length, and NaT has none."""
    unit = np.datetime_data(span.dtype)[0]
    if np.isnat(span) or unit in ("generic", "M", "Y"):
        raise BadInputError(f"half_life must be a time span of fixed length, in weeks, days or less, got {span!r}")
    return positive_number(span / np.timedelta64(1, "s"), name="half_life")
