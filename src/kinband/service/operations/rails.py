"""Rails as text: read from what somebody sent, and told from others.

Rails are on record as the text of their file. Every process follows the last one on record (`Operations`), so that what
is put in force while a service runs holds for the next decision everywhere.
"""

import hashlib
from collections.abc import Iterable

from kinband.errors import BadInputError
from kinband.guard import Rails, rails_from_text
from kinband.space import ConfigurationSpace

MOST_TEXT = 200_000
"""Characters of a file of rails; a limit for each of a thousand stations fits."""


def digest_of(text: str) -> str:
    """Return what tells a file of rails from others; empty for none.

    Example:
        >>> digest_of(""), len(digest_of("stop: on"))
        ('', 16)
    """
    return hashlib.sha256(text.encode()).hexdigest()[:16] if text else ""


def rails_on_record(text: str, space: ConfigurationSpace, *, stations: Iterable[str]) -> Rails:
    """Return the rails of a text that is on record; what they lack in effect is no reason to do without all of them.

    Example:
        >>> rails_on_record("stop: on", ConfigurationSpace(tilt=[2, 4]), stations=["a"]).stop
        True
    """
    return rails_from_text(text, space, stations=stations, source="the rails on record", on_record=True)


def rails_of(
    text: str,
    space: ConfigurationSpace,
    *,
    stations: Iterable[str],
    reward_range: tuple[float, float] | None = None,
) -> Rails:
    r"""Return the rails of a text that somebody sent, or complain with the line.

    Args:
        text: The text.
        space: What stations can run.
        stations: Every station that it may name.
        reward_range: What rewards lie in, where that is known.

    Example:
        >>> space = ConfigurationSpace(tilt=[2, 4])
        >>> rails_of("stop: on", space, stations=["a"]).stop
        True
        >>> rails_of("\n", space, stations=["a"])
        Traceback (most recent call last):
            ...
        kinband.errors.BadInputError: the rails are empty: write {} to lift all of them
    """
    if not isinstance(text, str) or not text.strip():
        raise BadInputError("the rails are empty: write {} to lift all of them")
    if len(text) > MOST_TEXT:
        raise BadInputError(f"rails may have {MOST_TEXT:,} characters, got {len(text):,}: leave out what repeats")
    return rails_from_text(text, space, stations=stations, reward_range=reward_range)
