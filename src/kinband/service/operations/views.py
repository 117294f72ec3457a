"""What a screen or an answer takes from the picture of operations: stations, decisions, changes, series, sums.

Screens ask for the same sums again and again, so that those are kept until something changes them.
"""

from collections import Counter, defaultdict, deque
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime
from itertools import islice

from kinband.errors import NotFoundError
from kinband.guard import History
from kinband.guard.review import Event as GuardEvent
from kinband.service.operations.records import Card, Gain, Item, Mode, Point, RailsOnRecord, Status
from kinband.service.operations.tally import Tally
from kinband.service.operations.trails import Trail

KEPT_RECENT = 24
"""Of how many slots of a station the rewards are at hand; those of more are looked up."""
KEPT_CHANGES = 200
"""How many changes of a station are kept for its charts; the ledger has all."""


@dataclass(frozen=True, slots=True)
class Change:
    """What a station was reported to run, by whomever.

    Attributes:
        at: Since when.
        arm: What it runs.
        before: What it ran before; None where nobody knew.
        by: "controller", "operator", "roll-back" or "network".
        actor: Who reported it.

    Example:
        >>> Change(datetime(2026, 11, 20), 4, 2, "operator", "anna").by
        'operator'
    """

    at: datetime
    arm: int | None
    before: int | None
    by: str
    actor: str


Report = tuple[str | None, int | None, str]
"""What the network said of a decision: its id, the arm that runs, the comment."""


def _last_changes() -> deque[Change]:
    return deque(maxlen=KEPT_CHANGES)


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
        rails: The rails last put on record.

    Example:
        >>> Views().waiting(), Views().stopped
        ([], None)
    """

    def __init__(self) -> None:
        self.seq = 0
        self.mode: Mode = "shadow"
        self.moded, self.rails = False, RailsOnRecord()
        self.items: dict[str, Item] = {}
        self.counts: dict[str, int] = {}
        self.cards: dict[str, Card] = {}
        self._waiting: dict[str, None] = {}  # ids, in order
        self._tally = Tally()
        self._trails: dict[str, Trail] = {}
        self._changes: dict[str, deque[Change]] = defaultdict(_last_changes)
        self._refused: Counter[date] = Counter()  # decisions that the guard refused, by the day of their slot
        self._recent: dict[str, deque[float]] = {}  # by station, what its last slots with a known reward earned
        self._learned: dict[str, float] = {}  # by decision, where that is something else than its reward
        self._began: dict[str, datetime] = {}  # since when what a decision led to ran, where that was not at once
        self._slots: dict[str, datetime] = {}  # when slots began, by the caller's name
        self._reported: dict[str, Report] = {}  # by station, what the network last said
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
        if status is None and slot is None and before is None:
            yield from map(self.items.__getitem__, keys)
            return
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

    def changes(self, station: str) -> list[Change]:
        """Return the last changes of a station, oldest first."""
        return list(self._changes.get(self.card(station).station, ()))

    def reported(self, station: str) -> Report | None:
        """Return what the network last said of what a station runs, unless that was changed by others since."""
        return self._reported.get(station)

    def refused(self, day: date) -> int:
        """Return how many decisions of slots that began on a day, UTC, the guard refused."""
        return self._refused[day]

    def recent(self, station: str, slots: int = 24) -> float | None:
        """Return the mean reward of a station's last slots whose reward is known."""
        card = self.card(station)
        kept = reversed(self._recent.get(station, ())) if slots <= KEPT_RECENT else self._rewards(card)
        last = list(islice(kept, slots))
        return sum(last) / len(last) if last else None

    def _rewards(self, card: Card) -> Iterator[float]:
        """Give the known rewards of a station, newest slot first."""
        items = map(self.items.__getitem__, reversed(card.slots))
        return (item.reward for item in items if item.reward is not None)

    def worst(self, count: int = 10, slots: int = 24) -> list[tuple[Card, float]]:
        """Return the stations that earned least of late, the lowest first."""
        found = ((card, self.recent(card.station, slots)) for card in self.cards.values() if card.active)
        known = [(card, reward) for card, reward in found if reward is not None]
        return sorted(known, key=lambda pair: pair[1])[:count]

    def fleet(self, last: int = 500) -> list[tuple[datetime, float, float | None, int]]:
        """Return, of the last slots: when, mean reward, mean expectation of the fixed configurations, stations."""
        return self._tally.series(last)
