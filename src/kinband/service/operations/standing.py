"""How things stand for a unit of work: what is on record, under which rails, and what time it is."""

import logging
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime

from kinband.controller import Setup
from kinband.guardrails import TOLERANCE, Guard
from kinband.service.operations.clock import Reading, Timekeeper
from kinband.service.operations.feeds import Feed
from kinband.service.operations.read_model import ReadModel
from kinband.service.operations.records import DecisionRecord
from kinband.service.operations.review import RailsInForce
from kinband.service.operations.turns import Turn, Turns

FRESH = TOLERANCE.total_seconds() / 2
"""Seconds after which what was decided is decided again before it is recorded: nobody may take its time for now."""

_log = logging.getLogger(__name__)


class Standing:
    """What the parts of `Operations` share.

    Attributes:
        turns: What keeps controller, read model and ledger as one.
        read_model: What the events show; look at it through `looking`.
        rails: The rails in force.
        time: What says the time.
    """

    def __init__(self, turns: Turns, read_model: ReadModel, rails: RailsInForce, time: Timekeeper) -> None:
        self.turns, self.read_model, self.rails, self.time = turns, read_model, rails, time
        self._doubt = ""

    @property
    def setup(self) -> Setup:
        """What the controller was made with; fixed."""
        return self.turns.setup

    @property
    def guard(self) -> Guard:
        """The guard with the rails last put on record: a person or another process may have put others there."""
        with self.read_model.lock:
            return self.rails.guard(self.read_model.rails, self.read_model.stations)

    @property
    def feed(self) -> Feed:
        """How counters are read, as it is on record."""
        with self.looking() as read_model:
            return Feed.from_dict(read_model.feed)

    def now(self) -> datetime:
        """Return the time, UTC; never earlier than that of the latest event, whatever the clock shows."""
        return self.reading().now

    def reading(self) -> Reading:
        """Return the time, and whether the clock can be trusted; while it cannot, nothing changes but by roll-backs."""
        return self.time.read(self.read_model.clock)

    def expiring(self, turn: Turn) -> Reading:
        """Return the time for a turn, which has to be on record while it still is; log whether it is in doubt."""
        reading = self.time.take(self.read_model.clock)
        turn.expires_after(FRESH, stopwatch=self.time.seconds)
        if bool(reading.doubt) != bool(self._doubt):
            if reading.doubt:
                _log.error("nothing changes, since the time is in doubt: %s", reading.doubt)
            else:
                _log.warning("the time is in doubt no longer")
        self._doubt = reading.doubt
        return reading

    @contextmanager
    def looking(self) -> Iterator[ReadModel]:
        """Give the read model for a look during which nothing in it changes; keep it short, and decide nothing then."""
        with self.read_model.lock:
            self.turns.watched()
            yield self.read_model

    def decision(self, decision_id: str) -> DecisionRecord:
        """Return a decision with everything that happened to it."""
        return self.records([decision_id])[0]

    def records(self, ids: Iterable[str]) -> list[DecisionRecord]:
        """Return decisions, each once."""
        wanted = list(dict.fromkeys(ids))
        self.turns.watched()
        self.read_model.bring(wanted)
        with self.looking() as read_model:
            return [read_model.decision(key) for key in wanted]
