"""The rails in force: read from what somebody sent, told from others, and followed as they are put on record.

Rails are on record as the text of their file. Every process follows the last one on record, so that what is put in
force while a service runs holds for the next decision everywhere.
"""

import hashlib
from collections.abc import Iterable

from kinband.controller import Settings
from kinband.errors import BadInputError, ConflictError
from kinband.guardrails import Guard, Rails, rails_from_text
from kinband.service.operations.records import RailsOnRecord
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


class RailsInForce:
    """The guard of this process, which follows the rails on record.

    Args:
        rails: What it begins with. Rails that were handed over as objects, without their text, are known to their own
            process alone.
        settings: What stations can run, and what rewards lie in.
        digest: What tells the text of those rails from others.
    """

    def __init__(self, rails: Rails, settings: Settings, *, digest: str) -> None:
        self.space, self._span = settings.encoder.space, settings.config.reward_range
        self._guard, self._digest = Guard(rails, self.space), digest

    def guard(self, known: RailsOnRecord, stations: Iterable[str]) -> Guard:
        """Return the guard with the rails last put on record."""
        if known.digest not in ("", self._digest):
            rails = rails_on_record(known.text, self.space, stations=list(stations))
            self._guard, self._digest = Guard(rails, self.space), known.digest
        return self._guard

    def of(self, text: str, stations: Iterable[str]) -> Guard:
        """Return the guard with rails that somebody sent, or complain with the line."""
        return Guard(rails_of(text, self.space, stations=list(stations), reward_range=self._span), self.space)

    @staticmethod
    def check_replaced(present: RailsOnRecord, digest: str | None) -> None:
        """Refuse to replace other rails than those that were meant."""
        if digest is not None and digest != present.digest:
            who = f" by {present.actor}" if present.actor else ""
            found = f"{present.digest or 'none'} in place of {digest or 'none':.60}"
            raise ConflictError(
                f"other rails were put in force{who} meanwhile, {found}",
                hint="read those first",
                code="rails_replaced",
                argument="replaces",
            )
