"""Times of the log: from what somebody typed to numbers of events.

Events are numbered in the order in which they were recorded, which is that of their times as long as nobody sets the
clock back. So the first event since a time is found by halving, in as many looks as the number of events has binary
digits, and the ledger needs no index over times. Where the clock was set back, the order of recording counts.
"""

from datetime import UTC, datetime, timedelta

from kinband.errors import BadInputError
from kinband.service.dashboard.figures import utc
from kinband.service.operations import Operations

_DATE = len("2026-11-20")
_MINUTE = len("2026-11-20T10:00")


def period(text: str, *, name: str) -> tuple[datetime, datetime]:
    """Return the beginning and the end of a day, a minute or a second, UTC unless it says otherwise.

    Args:
        text: A day, or a time as forms send it.
        name: What it is for, in a complaint.

    Example:
        >>> [moment.isoformat() for moment in period("2026-11-20T10:04", name="from")]
        ['2026-11-20T10:04:00+00:00', '2026-11-20T10:05:00+00:00']
        >>> (period("2026-11-20", name="to")[1] - period("2026-11-20", name="to")[0]).days
        1
        >>> period("soon", name="to")
        Traceback (most recent call last):
            ...
        kinband.errors.BadInputError: "to" takes a day or a time such as 2026-11-20T10:04, got 'soon'
    """
    try:
        begin = utc(datetime.fromisoformat(text.strip()))
        step = timedelta(days=1) if len(text.strip()) <= _DATE else timedelta(minutes=1)
        end = begin + (step if len(text.strip()) <= _MINUTE else timedelta(seconds=1))
    except (ValueError, OverflowError) as error:
        raise BadInputError(f'"{name}" takes a day or a time such as 2026-11-20T10:04, got {text!r:.60}') from error
    return begin.astimezone(UTC), end.astimezone(UTC)


def first_since(operations: Operations, moment: datetime) -> int:
    """Return the number of the first event recorded at a time or later; one past the last where there is none."""
    newest = operations.events(newest_first=True, limit=1)
    low, high = 1, newest[0].seq + 1 if newest else 1
    while low < high:
        middle = (low + high) // 2
        found = operations.events(after=middle - 1, limit=1)
        if found and utc(found[0].at) < moment:
            low = middle + 1
        else:
            high = middle
    return low
