"""The log of every shard, kept by whoever drives the fleet: the truth that shards are rebuilt from.

A decision or a reward counts once it stands here, and not before. Ids inside a shard are the controller's own
("d000012"); outside they carry the shard ("s003-d000012"), which makes them unique over the fleet. They are counted, so
that a call that is repeated gives the same ids and with them the same random numbers and decisions.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from kinband.controller import Settings
from kinband.controller.events import Asked, Entry, Journal
from kinband.errors import KinbandError, NotFoundError
from kinband.fleet.calls import Origin
from kinband.records import Decision

_ID = re.compile(r"s(\d{3,})-(d\d{6,})")


def fleet_id(shard: int, local: str) -> str:
    """Return the id that a decision of a shard has in the fleet.

    Example:
        >>> fleet_id(3, "d000012")
        's003-d000012'
    """
    return f"s{shard:03d}-{local}"


def split_id(decision_id: str) -> tuple[int, str]:
    """Return the shard of a decision and its id there.

    Example:
        >>> split_id("s003-d000012")
        (3, 'd000012')
    """
    found = _ID.fullmatch(decision_id) if isinstance(decision_id, str) else None
    if found is None:
        raise NotFoundError(f"no decision has the id {decision_id!r}: ids of a fleet look like 's003-d000012'")
    return int(found[1]), found[2]


class ShardLog:
    """Settings and journal of one shard.

    Args:
        shard: Its number.
        settings: Its fixed part.
        entries: Its log so far.
        beliefs: Stored beliefs to begin with, and how many entries they have learned.
    """

    def __init__(
        self,
        shard: int,
        settings: Settings,
        *,
        entries: Iterable[Entry] = (),
        beliefs: Mapping[str, Any] | None = None,
        covered: int = 0,
    ) -> None:
        self.shard, self.settings = shard, settings
        self.journal = Journal()
        self._beliefs, self._covered = beliefs, covered
        self.add(entries)

    def add(self, entries: Iterable[Entry]) -> None:
        """Append entries that have happened."""
        for entry in entries:
            self.journal.add(entry)

    def origin(self, *, held: bool = False) -> Origin:
        """Return what the shard is built from; stored beliefs are handed out once, they grow old."""
        if held:
            return Origin(self.settings, tuple(self.journal), held=True)
        origin = Origin(self.settings, tuple(self.journal), self._beliefs, self._covered)
        self._beliefs, self._covered = None, 0
        return origin

    def find(self, local: str, *, standing: str = "find") -> Asked:
        """Return a decision; `standing` is the journal's check: "find", "find_untold" or "find_told"."""
        try:
            getattr(self.journal, standing)(local)
            return self.journal.find(local)
        except KinbandError as error:  # the same sentence, with the id as the caller knows it
            raise type(error)(str(error).replace(local, fleet_id(self.shard, local))) from None

    def named(self, asked: Asked) -> Decision:
        """Return a recorded decision under its id in the fleet."""
        return replace(asked.decision, id=fleet_id(self.shard, asked.decision.id))
