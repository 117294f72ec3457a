"""Operations: the controller on record, with guard rails, modes and people around it.

A call of `Operations` is one turn of the ledger (`turns`): what others have recorded is taken in, the
controller decides or learns, the guard reviews, and all that follows is recorded in one transaction, so that no
decision is ever without a verdict, and no verdict without the change that it allowed. What is shown comes from the
`ReadModel`, which follows from the events alone. So a service may be killed at any moment, and several may share a
ledger.

Every call is one of a part: what programs ask and tell (`programs`), what people do (`people`), and the life of what is
approved (`orders`). The parts share how things stand (`standing`); this is their common face, with what is looked at.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from time import monotonic
from typing import TYPE_CHECKING, Any

from kinband.controller import Controller, Setup
from kinband.controller.attribution import KnownRows
from kinband.controller.events import Entry
from kinband.controller.stations import similarities_of
from kinband.errors import BadInputError
from kinband.guardrails import Guard, Rails
from kinband.policies import PolicyFactory
from kinband.service.ledger import Event, Ledger, LedgerUnavailableError
from kinband.service.ledger.asked import fingerprint
from kinband.service.ledger.restoring import FollowingController, begin, read_setup
from kinband.service.operations.checks import check_newcomer, checked_names
from kinband.service.operations.clock import Clock, Stopwatch, Timekeeper
from kinband.service.operations.feeds import Feed
from kinband.service.operations.keeping import past_of
from kinband.service.operations.orders import Orders
from kinband.service.operations.outlooks import WEIGHED, Explained, Outlooks, explained, sites_of
from kinband.service.operations.people import People
from kinband.service.operations.programs import Programs
from kinband.service.operations.read_model import ReadModel
from kinband.service.operations.records import Called, Outlook, RailsOnRecord, checked_manner, checked_mode
from kinband.service.operations.review import RailsInForce, digest_of
from kinband.service.operations.standing import Standing
from kinband.service.operations.turns import Call, Turn, Turns
from kinband.service.operations.underway import UnderWay
from kinband.service.schemas import Manner, Mode, Site
from kinband.similarity import TaskMatrix

if TYPE_CHECKING:
    from kinband.cluster import OnRay

ASKED_AGAIN = 2.0
"""Seconds after which a database that was away is asked for news again, for those who only look."""


class Operations:
    """A controller in operation. Use `Operations.open`.

    Arguments that calls share: `key`, under which a call is done once however often it is sent; `actor`, who does it.
    Several threads and several processes may use it. Asking and telling are methods of `Programs`, approving and the
    other acts of people those of `People`.

    Example:
        >>> import tempfile
        >>> from kinband import ConfigurationSpace
        >>> folder = tempfile.TemporaryDirectory()
        >>> ledger = Ledger.open(f"{folder.name}/ledger.db")
        >>> controller = Controller(ConfigurationSpace(tilt=[2, 4]), ["a", "b"], running={"tilt": 2}, seed=3)
        >>> operations = Operations.open(ledger, controller, mode="assist")
        >>> [(record.station, record.status) for record in operations.ask({"a": {}, "b": {}}, slot="10:00")]
        [('a', 'waiting'), ('b', 'waiting')]
        >>> operations.approve(["d000001"], actor="ada")[0].status
        'applied'
        >>> with operations.looking() as read_model:
        ...     [station_state.running for station_state in read_model.stations.values()], len(read_model.waiting())
        ([1, 0], 1)
        >>> [record.status for record in operations.tell({"d000001": 0.8, "d000002": 0.7})]
        ['applied', 'expired']
        >>> ledger.close()
        >>> folder.cleanup()

    Attributes:
        turns: What keeps controller, read model and ledger as one.
        read_model: What the events show; look at it through `looking`.
        space: What stations can run.
        orders: What is approved and not made yet.
        under_way: What is on its way to the network, where the service itself carries out what is ordered.
    """

    def __init__(self, standing: Standing) -> None:
        self.turns, self.read_model, self.space = standing.turns, standing.read_model, standing.rails.space
        self._standing, self._outlooks, self._known_rows = standing, Outlooks(), KnownRows()
        self._sites: tuple[object, dict[str, Site]] = None, {}  # with what is known of stations
        self.now, self.reading, self.looking, self.decision = (
            standing.now, standing.reading, standing.looking, standing.decision,
        )  # fmt: skip
        self.orders = Orders(standing)
        self.under_way = UnderWay(standing, self.orders)
        programs, people = Programs(standing, self.orders), People(standing, self.orders)
        self.ask, self.tell, self.counters = programs.ask, programs.tell, programs.counters
        self.correct, self.call_off = programs.correct, programs.call_off
        self.applied, self.confirm, self.fail = programs.applied, programs.confirm, programs.fail
        self.approve, self.reject, self.withdraw = people.approve, people.reject, people.withdraw
        self.roll_back, self.way_back, self.set_mode = people.roll_back, people.way_back, people.set_mode
        self.check_rails, self.set_rails, self.guard_of = people.check_rails, people.set_rails, people.guard_of
        self.freeze, self.thaw, self.stop, self.resume = people.freeze, people.thaw, people.stop, people.resume
        self.proposed, self.set_clock = people.proposed, people.set_clock
        self._away = float("-inf")  # until when the database is not asked for news, since it did not answer

    @classmethod
    def open(
        cls,
        ledger: Ledger,
        start: Setup | Controller | None = None,
        *,
        rails: Rails | None = None,
        rails_text: str = "",
        names: Mapping[str, Called] | None = None,
        mode: Mode | None = None,
        manner: Manner | None = None,
        clock: Clock | None = None,
        stopwatch: Stopwatch | None = None,
        policy: PolicyFactory | None = None,
        snapshot_every: int = 1000,
        feed: Feed | None = None,
        on: "OnRay | None" = None,
        actor: str = "",
    ) -> "Operations":
        """Go on with the operations of a ledger, or start them; to look at a ledger changes nothing in it.

        Args:
            ledger: Where everything is on record.
            start: What to start an empty ledger with: a setup, or a controller, whose journal is taken over. A ledger
                that is not empty must have been started with the same setup.
            rails: What is never done; if not given, what the rails on record say. Those on record are lifted by others
                in their place alone, such as the text `{}`.
            rails_text: The file they were read from, for the record; without it they hold for this process alone, which
                is refused where others are on record.
            names: What pages call the reward, knobs and features, by what these are called; those on record stay if
                not given.
            mode: The mode of all stations where none was ever set, "shadow" if not given; later ones are set by
                `set_mode`.
            manner: Who says that an order is carried out: "assumed", nobody, or "confirmed", the network manager. If
                not given, what is on record, "assumed" to begin with.
            clock: What says the time; by default the system's clock.
            stopwatch: What measures how much time has passed, so that a clock that is set ahead is found out; by
                default the system's, none beside a clock of your own.
            policy: The factory of a policy of your own, which cannot be stored.
            snapshot_every: After how many events beliefs are stored, so that a restart is quick.
            feed: How counters are read from now on; as is on record if not given.
            on: The Ray cluster on which shards learn; None for this process.
            actor: Who starts it.
        """
        checked = None if mode is None else checked_mode(mode)
        confirmed = None if manner is None else checked_manner(manner)
        ledger.check()
        if start is not None:
            with ledger.writing() as writer:
                begin(writer, start, actor=actor)
        setup = replace(read_setup(ledger, policy=policy), on=on)
        read_model = ReadModel(setup, past_of(ledger, setup))
        in_force = RailsInForce(rails or Rails(), setup, digest=digest_of(rails_text))
        turns = Turns(ledger, read_model, snapshot_every=snapshot_every)
        turns.unlocked  # noqa: B018 - reads the ledger, and shows the read model what it holds
        operations = cls(
            Standing(turns, read_model, in_force, Timekeeper(clock, stopwatch, witness=ledger.server_time))
        )
        operations.refresh()
        if rails is not None and not rails_text and read_model.rails.digest:
            raise BadInputError(
                f"rails are on record in {ledger.name}, which others replace with their text alone: give rails_text"
            )
        if start is not None and checked is None:
            checked = "shadow"
        operations._begin(
            checked, rails_text, feed, names=checked_names(names or {}, setup), manner=confirmed, actor=actor
        )
        return operations

    def _begin(
        self,
        mode: Mode | None,
        rails_text: str,
        feed: Feed | None,
        *,
        names: Mapping[str, Called] | None = None,
        manner: Manner | None = None,
        actor: str,
    ) -> None:
        """Put on record what holds from now on, where that is said and new."""
        digest = digest_of(rails_text)
        if feed is not None:
            feed.check()

        def news() -> Iterator[tuple[str, dict[str, Any]]]:
            if mode is not None and not self.read_model.moded:
                yield "mode", {"mode": mode, "stations": None, "comment": "the mode to start with"}
            if manner is not None and manner != self.read_model.manner:
                yield "manner", {"manner": manner}
            if digest and digest != self.read_model.rails.digest:
                yield "rails", {"digest": digest, "text": rails_text}
            if feed is not None and feed.to_dict() != self.read_model.feed:
                yield "feed", feed.to_dict()
            if names and names != self.read_model.called:
                yield "names", {"names": {name: list(one) for name, one in names.items()}}

        def put(turn: Turn) -> None:
            for kind, said in news():
                turn.note(kind, said)

        if next(news(), None) is not None:
            self.turns.run(Call(fingerprint("begin"), None, actor), put)

    @property
    def ledger(self) -> Ledger:
        """Where everything is on record."""
        return self.turns.ledger

    @property
    def setup(self) -> Setup:
        """What the controller was made with; fixed."""
        return self.turns.setup

    @property
    def controller(self) -> Controller:
        """The controller as of the last call, to look at; `refresh` brings it up to what others have recorded."""
        with self.turns.mutex:
            return self.turns.up_to_date()

    @property
    def sites(self) -> dict[str, Site]:
        """Where sectors stand, as far as their descriptors say; worked out when these change."""
        descriptors = self.turns.unlocked.current.descriptors
        known, sites = self._sites
        if known is not descriptors:
            sites = sites_of(descriptors)
            self._sites = descriptors, sites
        return sites

    def refresh(self) -> None:
        """Take in what other processes have recorded."""
        at = self._standing.time.seconds()
        self.turns.refresh()
        with self.looking() as read_model:
            self._standing.time.look(read_model.clock, at=at)

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
        self.turns.writable.check()
        self.turns.check_loaded()

    # Rails, stations, and looking at all of it

    @property
    def guard(self) -> Guard:
        """The guard with the rails last put on record: a person or another process may have put others there."""
        return self._standing.guard

    @property
    def feed(self) -> Feed:
        """How counters are read, as it is on record."""
        return self._standing.feed

    def rails_in_force(self) -> tuple[RailsOnRecord, Rails]:
        """Return the rails last put on record, with who put them there and when, and what they say."""
        with self.looking() as read_model:
            return read_model.rails, self.guard.rails

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
        """Take in a station, in the mode of newcomers, and return how like the others it is.

        Others decide and learn on where everything has to be learned anew for it.
        """
        said: dict[str, Any] = {"descriptors": descriptors, "similarity": similarity, "running": running}

        def joining(controller: FollowingController) -> Entry:
            check_newcomer(name, self.read_model.stations)
            return controller.joining(name, **said)

        self.turns.apply("station", Call(fingerprint("add_station", name=name, **said), key, actor), joining)
        with self.turns.mutex:
            return similarities_of(self.turns.loaded().current, name)

    def remove_station(self, name: str, *, key: str | None = None, actor: str = "") -> list[str]:
        """Stop deciding for a station and return the ids of decisions whose reward is awaited."""
        call = Call(fingerprint("remove_station", name=name), key, actor)
        with self.turns.mutex:
            self.turns.run_once("station", call, lambda turn: self._remove(turn, name))
            present = self.turns.loaded()
            return [awaited for awaited in present.pending if present.decision(awaited).station == name]

    def _remove(self, turn: Turn, name: str) -> None:
        turn.controller.remove_station(name)
        turn.append()
        self.orders.give_up(turn, [name], self._standing.expiring(turn).now, why="its station was removed")

    def explain(self, decision_id: str, *, most_rows: int = WEIGHED, closest: bool = True) -> Explained:
        """Return why a decision was made, as of then, and what the guard made of it; nobody who decides waits for it.

        Args:
            decision_id: The decision.
            most_rows: Up to how many rewards it is weighed whose evidence it rested on.
            closest: Whether those closest to it are weighed where there are more; else it is left out then.
        """
        with self.turns.mutex:
            controller = self.turns.up_to_date()
            known = self._known_rows if closest else None
        found = controller.explain(decision_id, most_rows=most_rows, known=known)
        return explained(found, self.decision(decision_id), self.space)

    def outlook(self, station: str) -> Outlook:
        """Return what is believed of every configuration of a station now, in the state it was last asked with."""
        with self.turns.mutex:
            controller = self.turns.up_to_date()
            with self.looking() as read_model:
                known, seq = replace(read_model.station(station)), read_model.seq
            return self._outlooks.of(controller, known, seq=seq)

    def similarity(self) -> TaskMatrix:
        """Return how much the stations share."""
        return self.controller.similarity

    def events(self, *, limit: int = 100, **filters: Any) -> list[Event]:
        """Return what is on record; see `Ledger.read` for the filters."""
        return list(self.ledger.read(limit=limit, **filters))
