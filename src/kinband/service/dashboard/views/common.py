"""What several pages show: configurations by arm, a decision as a row of a table, the gain expected of a change."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from math import hypot
from typing import Any

from kinband.configurations import ConfigurationSpace
from kinband.service.dashboard.charts.bands import NORMAL_95
from kinband.service.dashboard.figures import knobs, moves
from kinband.service.dashboard.words import Space
from kinband.service.operations import Item, Operations


def space_of(operations: Operations) -> ConfigurationSpace:
    """Return the configurations to choose from."""
    return operations.durable.settings.encoder.space


def by_arm(space: ConfigurationSpace) -> Space:
    """Return configurations by arm, None for arms that do not exist.

    Example:
        >>> found = by_arm(ConfigurationSpace(tilt=[2, 4]))
        >>> found(1), found(7)
        ({'tilt': 4}, None)
    """

    def configuration(arm: int) -> Mapping[str, Any] | None:
        return space[arm] if 0 <= arm < len(space) else None

    return configuration


def arm_text(arm: int | None, space: ConfigurationSpace) -> str:
    """Return a configuration in words.

    Example:
        >>> space = ConfigurationSpace(tilt=[2, 4])
        >>> arm_text(1, space), arm_text(None, space)
        ('tilt 4', 'not known')
    """
    return "not known" if arm is None else knobs(by_arm(space)(arm))


@dataclass(frozen=True, slots=True)
class Row:
    """A decision as a row of a table.

    Attributes:
        id: The decision.
        station: Whom it is for.
        at: When it was asked for.
        slot: Its slot.
        before: What ran.
        wanted: What should run.
        moves: The knobs that would move, with old and new value.
        changes: Whether that is something else.
        status: What became of it.
        reason: What the guard said.
        expected: Predicted reward of what was chosen.
        reward: What it earned.
        by: Who approved or rejected it.
        comment: What that person said.
        gain: The gain expected of the change and the ends of its interval; None where it is not known.
        trial: Whether it is made to learn: what runs is expected to earn more.
    """

    id: str
    station: str
    at: datetime
    slot: str | None
    before: str
    wanted: str
    moves: list[tuple[str, str, str]]
    changes: bool
    status: str
    reason: str
    expected: float | None
    reward: float | None
    by: str
    comment: str
    gain: tuple[float, float, float] | None
    trial: bool


def row_of(item: Item, space: ConfigurationSpace, *, gains: bool = True) -> Row:
    """Return a decision as a row; without `gains`, which take unpacking all scores, none is given."""
    gain, named = expected_gain(item) if gains else None, by_arm(space)
    wanted = item.decision.arm if item.status == "refused" else item.wanted  # of a refusal: what was refused
    moved = moves(None if item.running is None else named(item.running), named(wanted))
    return Row(
        id=item.id,
        station=item.station,
        at=item.at,
        slot=item.slot,
        before=arm_text(item.running, space),
        wanted=arm_text(wanted, space),
        moves=moved,
        changes=wanted != item.running,
        status=item.status,
        reason="" if item.verdict is None else item.verdict.reason,
        expected=item.decision.mean,
        reward=item.reward,
        by=item.decided_by,
        comment=item.comment,
        gain=gain,
        trial=gain is not None and gain[0] < 0.0,
    )


def expected_gain(item: Item) -> tuple[float, float, float] | None:
    """Return the gain expected of a decision over what ran, with its 95 % interval; None where one is not scored.

    Scores are those stored when asking. The two estimates are taken as independent, although they hang together (they
    are of one station in one state), so that the interval is rather too wide.

    Example:
        >>> from kinband.records import Alternative, Decision
        >>> others = (Alternative(2, None, 0.7, 0.03, 0.8),)
        >>> made = Decision("d1", "a", 4, None, 0.9, 0.04, 0.95, others)
        >>> item = Item(made, 1, datetime(2026, 3, 4), None, "assist", "waiting", None, running=2, arm=2)
        >>> [round(value, 3) for value in expected_gain(item)]
        [0.2, 0.102, 0.298]
    """
    scored = {other.arm: (other.mean, other.width) for other in item.decision.alternatives}
    scored[item.decision.arm] = item.decision.mean, item.decision.width
    now = (None, None) if item.running is None else scored.get(item.running, (None, None))
    then = scored.get(item.wanted, (None, None))
    if now[0] is None or now[1] is None or then[0] is None or then[1] is None:
        return None
    gain, reach = then[0] - now[0], NORMAL_95 * hypot(then[1], now[1])
    return gain, gain - reach, gain + reach
