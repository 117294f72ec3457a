"""What a screen or an answer takes from the picture of operations: stations, decisions, series, sums."""

from collections.abc import Iterator
from datetime import datetime
from itertools import islice

from kinband.errors import NotFoundError
from kinband.guard import History
from kinband.guard.events import Event as GuardEvent
from kinband.service.operations.records import Card, Gain, Item, Mode, Point, Status
from kinband.service.operations.tally import Tally
from kinband.service.operations.trails import Trail


class Views:
    """What can be seen in a picture; empty at first.

    Attributes:
        seq: Number of the last event taken in.
        mode: The mode of stations that join.
        moded: Whether a mode was ever set.
        cards: Stations by name.
        items: Decisions by id, oldest first.
        counts: How often what happened: statuses that decisions came to, outcomes of verdicts, "decisions", "told" and
            "approved"; and under "pending" how many rewards are awaited.
        rails: Digest of the rails last put on record.

    Example:
        >>> Views().waiting(), Views().stopped
        ([], None)
    """

    def __init__(self) -> None:
        self.seq = 0
        self.mode: Mode = "shadow"
        self.moded, self.rails = False, ""
        self.items: dict[str, Item] = {}
        self.counts: dict[str, int] = {}
        self.cards: dict[str, Card] = {}
        self._waiting: dict[str, None] = {}  # ids, in order
        self._tally = Tally()
        self._trails: dict[str, Trail] = {}
        self._learned: dict[str, float] = {}  # by decision, where that is something else than its reward
        self._began: dict[str, datetime] = {}  # since when what a decision led to ran, where that was not at once
        self._slots: dict[str, datetime] = {}  # when slots began, by the caller's name
        self._history, self._fresh = History(), list[GuardEvent]()

    @property
    def history(self) -> History:
        """The past as the guard needs it."""
        if self._fresh:
            self._history, self._fresh = self._history.after(self._fresh), []
        return self._history

    @property
    def pending(self) -> int:
        """How many rewards are awaited."""
        return self.counts.get("pending", 0)

    @property
    def stopped(self) -> str | None:
        """Why everything is stopped; None if it is not."""
        return self.history.stopped

    def card(self, station: str) -> Card:
        """Return a station, or say that there is none."""
        if station not in self.cards:
            raise NotFoundError(f"there is no station {station!r:.80}: {len(self.cards)} stations are on record")
        return self.cards[station]

    def item(self, decision_id: str) -> Item:
        """Return a decision, or say that there is none."""
        if decision_id not in self.items:
            raise NotFoundError(
                f"no decision has the id {decision_id!r:.80}: {len(self.items)} decisions are on record"
            )
        return self.items[decision_id]

    def waiting(self) -> list[Item]:
        """Return what waits for a person, oldest first."""
        return [self.items[key] for key in self._waiting]

    def latest(
        self,
        *,
        station: str | None = None,
        status: Status | None = None,
        slot: str | None = None,
        before: str | None = None,
        limit: int = 50,
    ) -> list[Item]:
        """Return decisions, newest first.

        Args:
            station: Only of this station.
            status: Only those that this became of.
            slot: Only those of this slot.
            before: Only those made before this one, for paging.
            limit: At most so many.
        """
        first = None if before is None else self.item(before).seq
        return list(islice(self._matching(station, status, slot, first), limit))

    def _matching(
        self, station: str | None, status: Status | None, slot: str | None, before: int | None
    ) -> Iterator[Item]:
        keys = reversed(self.items) if station is None else reversed(self.card(station).slots)
        for item in map(self.items.__getitem__, keys):
            wanted = (status is None or item.status == status) and (slot is None or item.slot == slot)
            if wanted and (before is None or item.seq < before):
                yield item

    def points(self, station: str, last: int = 500) -> list[Point]:
        """Return the last slots of a station, oldest first."""
        card = self.card(station)
        items = [self.items[key] for key in islice(reversed(card.slots), last)][::-1]
        return [
            Point(i.at, i.id, i.arm, None not in (i.arm, i.running) and i.arm != i.running, i.reward, i.baseline)
            for i in items
        ]

    def gain(self, station: str | None = None) -> Gain:
        """Return what was gained over the fixed configuration, by a station or by all."""
        return self._tally.gain(None if station is None else self.card(station).station)

    def recent(self, station: str, slots: int = 24) -> float | None:
        """Return the mean reward of a station's last slots whose reward is known."""
        told = (r for key in reversed(self.card(station).slots) if (r := self.items[key].reward) is not None)
        last = list(islice(told, slots))
        return sum(last) / len(last) if last else None

    def worst(self, count: int = 10, slots: int = 24) -> list[tuple[Card, float]]:
        """Return the stations that earned least of late, the lowest first."""
        found = ((card, self.recent(card.station, slots)) for card in self.cards.values() if card.active)
        known = [(card, reward) for card, reward in found if reward is not None]
        return sorted(known, key=lambda pair: pair[1])[:count]

    def fleet(self, last: int = 500) -> list[tuple[datetime, float, float | None, int]]:
        """Return, of the last slots: when, mean reward, mean expectation of the fixed configurations, stations."""
        return self._tally.series(last)
