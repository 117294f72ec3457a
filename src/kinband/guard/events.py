"""What happens to stations, as far as rails care: the events of which a history is made.

An event log holds them in the order in which they came; `to_dict` and `event_from` turn one into JSON-able values and
back. Times are kept in UTC.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, Literal, get_args

from kinband.arrays import finite_number
from kinband.errors import BadInputError
from kinband.guard.windows import utc

By = Literal["controller", "roll-back", "operator"]
"""Who changed a configuration."""


@dataclass(frozen=True)
class _Event:
    at: datetime

    def __post_init__(self) -> None:
        object.__setattr__(self, "at", utc(self.at, name="the time of an event"))

    def to_dict(self) -> dict[str, Any]:
        """Return the event as JSON-able values."""
        return {"event": type(self).__name__.lower(), **asdict(self), "at": self.at.isoformat()}


@dataclass(frozen=True)
class Changed(_Event):
    """A station was told to run another configuration.

    Attributes:
        at: When.
        station: Which.
        arm: What it runs since.
        before: What it ran before, None where nobody knows.
        by: Who changed it. A change by an operator counts as one, and is never rolled back.

    Example:
        >>> from datetime import UTC
        >>> Changed(datetime(2026, 3, 1, tzinfo=UTC), "3714", arm=4, before=3).to_dict()["at"]
        '2026-03-01T00:00:00+00:00'
    """

    station: str
    arm: int
    before: int | None
    by: By = "controller"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.by not in get_args(By):
            raise BadInputError(f"a change is made by one of {', '.join(get_args(By))}, got {self.by!r}")
        for arm in (self.arm, 0 if self.before is None else self.before):
            if isinstance(arm, bool) or not isinstance(arm, int) or arm < 0:
                raise BadInputError(f"a change is from one configuration number to another, from 0, got {arm!r}")


@dataclass(frozen=True)
class CalledOff(_Event):
    """The latest change of a station was not carried out, and does not count.

    Example:
        >>> from datetime import UTC
        >>> CalledOff(datetime(2026, 3, 1, tzinfo=UTC), "3714").to_dict()["event"]
        'calledoff'
    """

    station: str


@dataclass(frozen=True)
class Rewarded(_Event):
    """What a station earned in the slot that began at a time; the last word on a slot counts.

    Example:
        >>> from datetime import UTC
        >>> Rewarded(datetime(2026, 3, 1, tzinfo=UTC), "3714", 0.9).reward
        0.9
    """

    station: str
    reward: float

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "reward", finite_number(self.reward, name="reward"))


@dataclass(frozen=True)
class Frozen(_Event):
    """A person wants a station to be left alone.

    Example:
        >>> from datetime import UTC
        >>> Frozen(datetime(2026, 3, 1, tzinfo=UTC), "3714", why="complaints").why
        'complaints'
    """

    station: str
    why: str = ""


@dataclass(frozen=True)
class Thawed(_Event):
    """A person takes a `Frozen` back; stations on the freeze list of the rails stay frozen.

    Example:
        >>> from datetime import UTC
        >>> Thawed(datetime(2026, 3, 1, tzinfo=UTC), "3714").station
        '3714'
    """

    station: str


@dataclass(frozen=True)
class Stopped(_Event):
    """The stop switch was thrown.

    Example:
        >>> from datetime import UTC
        >>> Stopped(datetime(2026, 3, 1, tzinfo=UTC), why="outage in the core").why
        'outage in the core'
    """

    why: str = ""


@dataclass(frozen=True)
class Resumed(_Event):
    """A `Stopped` was taken back; the switch in the rails is another one.

    Example:
        >>> from datetime import UTC
        >>> Resumed(datetime(2026, 3, 1, tzinfo=UTC)).to_dict()
        {'event': 'resumed', 'at': '2026-03-01T00:00:00+00:00'}
    """


Event = Changed | CalledOff | Rewarded | Frozen | Thawed | Stopped | Resumed
"""Anything that may stand in an event log."""

_KINDS = {kind.__name__.lower(): kind for kind in get_args(Event)}


def event_from(saved: Mapping[str, Any]) -> Event:
    """Return the event that `to_dict` described.

    Example:
        >>> from datetime import UTC
        >>> event = Changed(datetime(2026, 3, 1, tzinfo=UTC), "3714", arm=4, before=3)
        >>> event_from(event.to_dict()) == event
        True
    """
    try:
        values = dict(saved)
        kind = _KINDS[values.pop("event")]
        made: Event = kind(**{**values, "at": datetime.fromisoformat(values["at"])})
    except (KeyError, TypeError, ValueError) as error:
        raise BadInputError(f"this is no event of a guard's history: {error}") from error
    return made
