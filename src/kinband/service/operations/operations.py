"""Operations: the controller on record, with guard rails, modes and people around it.

A call of `Operations` is one turn of the ledger (`service.ledger.turns`): what others have recorded is taken in, the
controller decides or learns, the guard reviews, and all that follows is recorded in one transaction. What is shown
comes from the `Picture`, which follows from the events alone. So a service may be killed at any moment, and several may
share a ledger.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from time import monotonic
from typing import Any

from kinband.controller import Controller, Settings
from kinband.controller.explain import MOST_ROWS
from kinband.guard import Guard, Rails
from kinband.guard.rails import utc
from kinband.policies import PolicyFactory
from kinband.service.ledger import DurableController, Event, Ledger, LedgerUnavailableError
from kinband.service.ledger.origin import read_settings
from kinband.service.ledger.requests import call_digest
from kinband.service.ledger.turns import Call
from kinband.service.operations.outlooks import Explained, Lending, explained, outlook_of, sites_of
from kinband.service.operations.people import People
from kinband.service.operations.picture import Picture
from kinband.service.operations.records import Item, Mode, Outlook, RailsOnRecord, Site, checked_mode
from kinband.service.operations.texts import check_newcomer, digest_of, rails_on_record
from kinband.service.operations.writable import Writable
from kinband.similarity import TaskMatrix

ASKED_AGAIN = 2.0
"""Seconds after which a database that was away is asked for news again, for those who only look."""

Clock = Callable[[], datetime]
"""What says the time, with a time zone."""


class Operations(People):
    """A controller in operation. Use `Operations.open`.

    Arguments that calls share: `key`, under which a call is done once however often it is sent; `actor`, who does it.
    Several threads and several processes may use it.

    Example:
        >>> import tempfile
        >>> from kinband import ConfigurationSpace
        >>> folder = tempfile.TemporaryDirectory()
        >>> ledger = Ledger.open(f"{folder.name}/ledger.db")
        >>> controller = Controller(ConfigurationSpace(tilt=[2, 4]), ["a", "b"], running={"tilt": 2}, seed=3)
        >>> operations = Operations.open(ledger, controller, mode="assist")
        >>> [(item.station, item.status) for item in operations.ask({"a": {}, "b": {}}, slot="10:00")]
        [('a', 'waiting'), ('b', 'waiting')]
        >>> operations.approve(["d000001"], actor="ada")[0].status
        'applied'
        >>> with operations.looking() as picture:
        ...     [card.running for card in picture.cards.values()], len(picture.waiting())
        ([1, 0], 1)
        >>> [item.status for item in operations.tell({"d000001": 0.8, "d000002": 0.7})]
        ['applied', 'expired']
        >>> ledger.close()
        >>> folder.cleanup()
    """

    def __init__(self, durable: DurableController, guard: Guard, picture: Picture, clock: Clock) -> None:
        self.durable, self.guard, self.picture, self.turns = durable, guard, picture, durable.turns
        self._clock = clock
        self._followed = ""  # digest of the rails that the guard was made of
        self._lending = Lending()
        self._outlooks: dict[str, tuple[int, Outlook]] = {}
        self._writable = Writable(durable.ledger)
        self._away = float("-inf")  # until when the database is not asked for news, since it did not answer

    @classmethod
    def open(
        cls,
        ledger: Ledger,
        start: Settings | Controller | None = None,
        *,
        rails: Rails | None = None,
        rails_text: str = "",
        mode: Mode = "shadow",
        clock: Clock | None = None,
        policy: PolicyFactory | None = None,
        snapshot_every: int = 1000,
        actor: str = "",
    ) -> "Operations":
        """Go on with the operations of a ledger, or start them.

        Args:
            ledger: Where everything is on record.
            start: What to start an empty ledger with; see `DurableController.open`.
            rails: What is never done; nothing is forbidden without.
            rails_text: The file they were read from, for the record.
            mode: The mode of all stations where none was ever set; later ones are set by `set_mode`.
            clock: What says the time; by default the system's clock.
            policy: The factory of a policy of your own, which cannot be stored.
            snapshot_every: After how many events beliefs are stored.
            actor: Who starts it.
        """
        checked = checked_mode(mode)
        settings = _settings(ledger, start, policy=policy)
        picture, guard = Picture(settings), Guard(rails or Rails(), settings.encoder.space)
        durable = DurableController.open(
            ledger, start, policy=policy, snapshot_every=snapshot_every, watcher=picture, actor=actor
        )
        operations = cls(durable, guard, picture, clock or (lambda: datetime.now(UTC)))
        operations._begin(checked, rails_text, actor=actor)
        return operations

    def _begin(self, mode: Mode, rails_text: str, *, actor: str) -> None:
        """Put on record what holds from now on, where that is new."""
        digest = self._followed = digest_of(rails_text)
        with self.turns.turn(Call(call_digest("begin"), None, actor)) as turn:
            if not self.picture.moded:
                turn.note("mode", {"mode": mode, "stations": None, "comment": "the mode to start with"})
            if digest != self.picture.rails.digest:
                turn.note("rails", {"digest": digest, "text": rails_text})

    def guard_in_force(self) -> Guard:
        """Return the guard with the rails last put on record: a person or another process may have put others there.

        Rails that were handed over as objects, without their text, are known to their own process alone.
        """
        with self.turns.mutex:
            known, stations = self.picture.rails, list(self.picture.cards)
            if known.digest not in ("", self._followed):
                rails = rails_on_record(known.text, self.guard.space, stations=stations)
                self.guard, self._followed = Guard(rails, self.guard.space), known.digest
            return self.guard

    def rails_in_force(self) -> tuple[RailsOnRecord, Rails]:
        """Return the rails last put on record, with who put them there and when, and what they say."""
        with self.turns.mutex:
            self.turns.watched()
            return self.picture.rails, self.guard_in_force().rails

    @property
    def ledger(self) -> Ledger:
        """Where everything is on record."""
        return self.durable.ledger

    @property
    def sites(self) -> dict[str, Site]:
        """Where sectors stand, as far as their descriptors say."""
        with self.turns.mutex:
            return sites_of(self.turns.present().in_force.descriptors)

    def now(self) -> datetime:
        """Return the time, UTC."""
        return utc(self._clock(), name="the time of the clock")

    def refresh(self) -> None:
        """Take in what other processes have recorded."""
        self.durable.refresh()

    def try_refresh(self) -> bool:
        """Take in what other processes have recorded; False where the database is away, so that what is shown is old.

        Looking must not wait for a database that does not answer again and again: it is asked once in a while.
        """
        if monotonic() < self._away:
            return False
        try:
            self.refresh()
        except LedgerUnavailableError:
            self._away = monotonic() + ASKED_AGAIN
            return False
        return True

    def check_ready(self) -> None:
        """Return if everything is there to decide with, else raise why not: the ledger is read, loaded and writable."""
        self.events(limit=1)
        self._writable.check()
        with self.looking():
            return

    @contextmanager
    def looking(self) -> Iterator[Picture]:
        """Give the picture for a look during which nothing changes; calls wait meanwhile, so keep it short."""
        with self.turns.mutex:
            self.turns.watched()
            yield self.picture

    def add_station(
        self,
        name: str,
        descriptors: Mapping[str, Any] | None = None,
        similarity: Mapping[str, float] | None = None,
        *,
        running: Mapping[str, Any] | None = None,
        key: str | None = None,
        actor: str = "",
    ) -> dict[str, float]:
        """Take in a station, in the mode of newcomers, and return how like the others it is."""
        return self.durable.add_station(
            name, descriptors, similarity, running=running, key=key, actor=actor,
            check=lambda: check_newcomer(name, self.picture.cards),
        )  # fmt: skip

    def remove_station(self, name: str, *, key: str | None = None, actor: str = "") -> list[str]:
        """Stop deciding for a station and return the ids of decisions whose reward is awaited."""
        return self.durable.remove_station(name, key=key, actor=actor)

    def item(self, decision_id: str) -> Item:
        """Return a decision with everything that happened to it."""
        return self._items([decision_id])[0]

    def explain(self, decision_id: str, *, most_rows: int = MOST_ROWS) -> Explained:
        """Return why a decision was made, as of then, and what the guard made of it.

        Args:
            decision_id: The decision.
            most_rows: Up to how many rewards it is worked out whose evidence it rested on.
        """
        with self.turns.mutex:
            found = self.durable.explain(decision_id, most_rows=most_rows)
            return explained(found, self.item(decision_id), self.guard.space)

    def outlook(self, station: str) -> Outlook:
        """Return what is believed of every configuration of a station now, in the state it was last asked with."""
        with self.looking() as picture:
            card = picture.card(station)
            known = self._outlooks.get(station)
            if known is None or known[0] != picture.seq:
                known = self._outlooks[station] = picture.seq, outlook_of(self.turns.present(), card, self._lending)
            return known[1]

    def similarity(self) -> TaskMatrix:
        """Return how much the stations share."""
        with self.turns.mutex:
            return self.turns.present().similarity

    def events(
        self,
        *,
        after: int = 0,
        before: int | None = None,
        kinds: Sequence[str] | None = None,
        station: str | None = None,
        decision: str | None = None,
        actor: str | None = None,
        newest_first: bool = False,
        limit: int = 100,
    ) -> list[Event]:
        """Return what is on record; see `Ledger.read`."""
        return list(
            self.ledger.read(
                after=after, before=before, kinds=kinds, station=station, decision=decision, actor=actor,
                newest_first=newest_first, limit=limit,
            )
        )  # fmt: skip


def _settings(ledger: Ledger, start: Settings | Controller | None, *, policy: PolicyFactory | None) -> Settings:
    """Return what the controller is or will be made with; a ledger that has other settings refuses `start` later."""
    if start is None:
        return read_settings(ledger, policy=policy)
    return start.settings if isinstance(start, Controller) else start
