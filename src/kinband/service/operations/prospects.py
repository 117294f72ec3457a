"""What is expected of a change that waits: its reward, and its gain over what runs, by the scores of its decision."""

from math import hypot
from statistics import NormalDist

from kinband.records import alternative_of
from kinband.service.operations.records import Item

_REACH = NormalDist().inv_cdf(0.975)  # of a 95 % interval, in standard deviations


def foretold(item: Item, arm: int | None) -> tuple[float, float] | None:
    """Return mean and width of an arm when a decision was made; None where they were not kept.

    Example:
        >>> from datetime import datetime
        >>> from kinband.records import Decision
        >>> made = Decision("d1", "a", 4, None, 0.9, 0.04, 0.95)
        >>> item = Item(made, 1, datetime(2026, 3, 4), None, "assist", "waiting", None, running=2, arm=2)
        >>> foretold(item, 4), foretold(item, 2)
        ((0.9, 0.04), None)
    """
    made = item.decision
    found = made if arm == made.arm else None if arm is None else alternative_of(made, arm)
    return None if found is None or found.mean is None or found.width is None else (found.mean, found.width)


def expected_gain(item: Item) -> tuple[float, float, float] | None:
    """Return the gain expected of a decision over what ran, with its 95 % interval; None where one is not scored.

    Scores are those stored when asking. The two estimates are taken as independent, although they hang together (they
    are of one station in one state), so that the interval is rather too wide.

    Example:
        >>> from datetime import datetime
        >>> from kinband.packed import Alternative
        >>> from kinband.records import Decision
        >>> others = (Alternative(2, None, 0.7, 0.03, 0.8),)
        >>> made = Decision("d1", "a", 4, None, 0.9, 0.04, 0.95, others)
        >>> item = Item(made, 1, datetime(2026, 3, 4), None, "assist", "waiting", None, running=2, arm=2)
        >>> [round(value, 3) for value in expected_gain(item)]
        [0.2, 0.102, 0.298]
    """
    now, then = foretold(item, item.running), foretold(item, item.wanted)
    if now is None or then is None:
        return None
    gain, reach = then[0] - now[0], _REACH * hypot(then[1], now[1])
    return gain, gain - reach, gain + reach
