"""Operations: the controller on record, with guard rails, modes and people around it.

A call of `Operations` is one turn of the ledger (`turns`): what others have recorded is taken in, the
controller decides or learns, the guard reviews, and all that follows is recorded in one transaction, so that no
decision is ever without a verdict, and no verdict without the change that it allowed. What is shown comes from the
`ReadModel`, which follows from the events alone. So a service may be killed at any moment, and several may share a
ledger.
"""

import hashlib
import logging
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from datetime import datetime, timedelta
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple

from kinband.controller import Controller, Setup
from kinband.controller.asking import State
from kinband.controller.attribution import KnownRows
from kinband.controller.events import Entry
from kinband.controller.journal import id_of
from kinband.controller.stations import similarities_of
from kinband.controller.telling import KpiValues
from kinband.errors import BadInputError, ConflictError
from kinband.guardrails import (
    TOLERANCE,
    Changed,
    ClockSet,
    Frozen,
    Guard,
    History,
    Rails,
    Refusal,
    Resumed,
    Stopped,
    Thawed,
)
from kinband.policies import PolicyFactory
from kinband.records import Decision
from kinband.service.ledger import Event, Ledger, LedgerUnavailableError
from kinband.service.ledger.asked import Request, ask_controller, fingerprint, requests_of
from kinband.service.ledger.restoring import FollowingController, begin, read_setup
from kinband.service.ledger.store import Reader
from kinband.service.operations.checks import (
    changed_by_hand,
    check_newcomer,
    check_person,
    check_repeated,
    check_whole,
    checked_comment,
    checked_names,
    informed,
)
from kinband.service.operations.clock import Clock, Reading, Stopwatch, Timekeeper
from kinband.service.operations.counters import (
    MOST_CORRECTIONS,
    Correction,
    Taken,
    intake_of,
    states_before,
    taken_of,
    told_of,
    wanted_kpis,
    wanted_states,
)
from kinband.service.operations.feeds import HOUR, Feed
from kinband.service.operations.keeping import past_of
from kinband.service.operations.orders import Orders
from kinband.service.operations.outlooks import WEIGHED, Explained, Outlooks, explained, sites_of
from kinband.service.operations.read_model import ReadModel
from kinband.service.operations.records import (
    Called,
    DecisionRecord,
    Outlook,
    Proposed,
    RailsOnRecord,
    StationState,
    checked_manner,
    checked_mode,
)
from kinband.service.operations.review import (
    RailsInForce,
    Review,
    applied_note,
    applied_notes,
    digest_of,
    reported,
    under_rules,
    with_gains,
    within_reach,
)
from kinband.service.operations.slots import SlotTime, is_past
from kinband.service.operations.turns import Call, Turn, Turns
from kinband.service.schemas import Manner, Mode, Site, Status
from kinband.service.tracing import span, traced
from kinband.similarity import TaskMatrix
from kinband.space import Allowed

if TYPE_CHECKING:
    from kinband.cluster import OnRay

VALID = timedelta(minutes=5)
"""How long an answer may be acted upon; who has waited longer asks again."""

FRESH = TOLERANCE.total_seconds() / 2
"""Seconds after which what was decided is decided again before it is recorded: nobody may take its time for now."""

PROPOSED_FOR = timedelta(days=1)
"""How long the word of the first of two people counts."""

ASKED_AGAIN = 2.0
"""Seconds after which a database that was away is asked for news again, for those who only look."""

_log = logging.getLogger(__name__)

_NO_REASON = "no reason was given"

_ROLLED_BACK: Mapping[Status, Status] = {"applied": "rolled back", "kept": "rolled back", "waiting": "expired"}
"""What becomes of the present decision when its station is rolled back; the others led to nothing."""


class Answers(list[DecisionRecord]):
    """Decisions as they are to be acted upon now.

    Attributes:
        new: Whether any of them was decided now, and not answered from the record.
    """

    def __init__(self, records: Iterable[DecisionRecord] = (), *, new: bool) -> None:
        super().__init__(records)
        self.new = new


class Consent(NamedTuple):
    """Whether an act may be done that may take two people, and who of two asked for it first; empty where one does."""

    given: bool
    first: str = ""

    def note(self) -> dict[str, str]:
        """Return what an event says of it."""
        return {"with": self.first} if self.first else {}


class Operations:
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
    """

    def __init__(self, turns: Turns, rails: RailsInForce, read_model: ReadModel, time: Timekeeper) -> None:
        self.turns, self.read_model, self.space = turns, read_model, rails.space
        self._rails, self._time, self._outlooks = rails, time, Outlooks()
        self.orders = Orders(
            turns, read_model, guard=lambda: self.guard, reading=self.reading, expiring=self._expiring_time
        )
        self._doubt = ""
        self._known_rows = KnownRows()
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
        operations = cls(turns, in_force, read_model, Timekeeper(clock, stopwatch, witness=ledger.server_time))
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
        """Where sectors stand, as far as their descriptors say."""
        return sites_of(self.turns.unlocked.current.descriptors)

    def now(self) -> datetime:
        """Return the time, UTC; never earlier than that of the latest event, whatever the clock shows."""
        return self.reading().now

    def reading(self) -> Reading:
        """Return the time, and whether the clock can be trusted; while it cannot, nothing changes but by roll-backs."""
        return self._time.read(self.read_model.clock)

    def _expiring_time(self, turn: Turn) -> Reading:
        """Return the time for a turn, which has to be on record while it still is; log whether it is in doubt."""
        reading = self._time.take(self.read_model.clock)
        turn.expires_after(FRESH, stopwatch=self._time.seconds)
        if bool(reading.doubt) != bool(self._doubt):
            if reading.doubt:
                _log.error("nothing changes, since the time is in doubt: %s", reading.doubt)
            else:
                _log.warning("the time is in doubt no longer")
        self._doubt = reading.doubt
        return reading

    def refresh(self) -> None:
        """Take in what other processes have recorded."""
        at = self._time.seconds()
        self.turns.refresh()
        with self.looking() as read_model:
            self._time.look(read_model.clock, at=at)

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

    @contextmanager
    def looking(self) -> Iterator[ReadModel]:
        """Give the read model for a look during which nothing in it changes; keep it short, and decide nothing then."""
        with self.read_model.lock:
            self.turns.watched()
            yield self.read_model

    # Asking and telling

    @traced("ask")
    def ask(
        self,
        states: Mapping[str, State] | None = None,
        *,
        stations: Sequence[str] = (),
        slot: str | None = None,
        begins: str | datetime | None = None,
        running: Mapping[str, Mapping[str, Any]] | None = None,
        allowed: Mapping[str, Allowed] | None = None,
        time: Any = None,
        key: str | None = None,
        actor: str = "",
    ) -> Answers:
        """Decide for some stations together, let the guard review it, and do what the stations' modes say.

        Args:
            states: State features by station.
            stations: Further stations, in the state that their counters tell of the period before the slot.
            slot: The caller's name of the slot; a station has one decision a slot. An ISO time is when it begins.
            begins: When the slot begins, where its name does not say so; without a name it is the name, too.
            running: What stations run, where that is another configuration than the record says.
            allowed: Which configurations may be chosen, by station.
            time: When, for a controller whose clock is set.
            key: The key of this call, under which it is done once.
            actor: Who asks.
        """
        states = {} if states is None else states
        told: dict[str, State] = {name: {} for name in _names(stations, "stations")}
        if both := [name for name in told if isinstance(states, Mapping) and name in states]:
            raise BadInputError(f"{both[0]!r:.80} has a state, and is among stations that have that of their counters")
        everybody = {**states, **told} if told else states
        asked = requests_of(self.space, everybody, allowed=allowed, running=running, time=time)
        given: dict[str, Any] = {} if begins is None else {"from": str(begins)}
        time_of = SlotTime.of(slot, begins, self.guard.rails.zone)
        call = Call(
            fingerprint("ask", requests=asked, slot=slot, **given, **({"stations": list(told)} if told else {})),
            key,
            actor,
            *time_of,
        )
        self.orders.settle()

        def act(turn: Turn) -> tuple[dict[str, str], bool]:
            made = self._made_before(turn, asked)
            self._check_same_time(made.values(), time_of.begins if given else None)
            missing = {station: request for station, request in asked.items() if station not in made}
            if missing:
                missing = self._with_counters(missing, told, time_of.begins)
                made |= {station: decision.id for station, decision in self._decide_missing(turn, missing).items()}
            return made, bool(missing)

        made, new = self.turns.run(call, act)
        with self.looking():
            return Answers(self._up_to_now(made, asked), new=new)

    def _up_to_now(self, made: Mapping[str, str], asked: Mapping[str, Request]) -> list[DecisionRecord]:
        """Return decisions as they are to be acted upon now, which may be long after they were made.

        An order that a stop, a freeze, a closed window or a clock in doubt has overtaken is no order any more: what
        runs is to run on, which is what ran before unless somebody says that the change was made. Nor is one of a slot
        that is over.
        """
        records = [self.read_model.decisions[made[station]] for station in asked]
        time, back = self.reading(), {one.station for one in records if one.status == "rolled back"}
        holding = self.guard.holding(
            made, self.read_model.history, now=time.now, span=VALID, back=back, doubt=time.doubt
        )
        return [self._answer(one, asked[one.station].running, *holding[one.station], now=time.now) for one in records]

    def _answer(
        self, record: DecisionRecord, runs: int | None, held: Refusal | None, until: datetime, *, now: datetime
    ) -> DecisionRecord:
        state = self.read_model.stations[record.station]
        if state.last != record.id or not record.open:
            return replace(record, arm=state.running, held=held, valid_until=now)
        made = runs == record.arm or (self.read_model.reported(record.station) or ("",))[0] == record.id
        arm = record.arm if held is None or made else record.running
        return replace(record, arm=arm, held=held, valid_until=until)

    def _made_before(self, turn: Turn, asked: Mapping[str, Request]) -> dict[str, str]:
        """Return what was decided by the same call before, or for the same slot, as ids by station."""
        made = _made_by_key(turn)
        found = turn.decided_for([station for station in asked if station not in made])
        timed = self.setup.clock_column is not None
        check_repeated(asked, found, self.read_model.stations, space=self.space, timed=timed)
        return {station: str(event.decision) for station, event in found.items()} | made

    def _with_counters(
        self, asked: dict[str, Request], told: Container[str], begins: datetime | None
    ) -> dict[str, Request]:
        """Return questions with the states that counters tell of some stations."""
        names, wanted = wanted_states(self.setup), [station for station in asked if station in told]
        for station in wanted:
            self.read_model.station(station)
        if not wanted or not names:
            return asked
        with self.looking() as read_model:
            known = states_before(read_model.seen, wanted, names, at=self.now() if begins is None else begins)
        return {name: replace(one, state=known.get(name, one.state)) for name, one in asked.items()}

    def _check_same_time(self, made: Iterable[str], begins: datetime | None) -> None:
        """Refuse another time of a slot than the one that was decided for."""
        for record in (self.read_model.decisions[key] for key in made) if begins is not None else ():
            if record.begins != begins:
                known = "no time" if record.begins is None else f"the time {record.begins.isoformat()}"
                raise ConflictError(
                    f"{record.id} was decided for {record.station!r:.80} in the slot {record.slot!r:.80}, with {known}",
                    hint="send what was sent then, or ask for the next slot",
                    code="decided_otherwise",
                    argument="from",
                    value=record.slot,
                )

    def _decide_missing(self, turn: Turn, asked: Mapping[str, Request]) -> dict[str, Decision]:
        """Decide for stations that have no decision yet, and record what becomes of it."""
        time, controller = self._expiring_time(turn), turn.controller
        at = time.now
        known = {station: informed(controller, self.read_model, station, request) for station, request in asked.items()}
        past = {one for one in known if is_past(turn.begins, self.read_model.station(one).begins, now=at)}
        by_hand = changed_by_hand(self.read_model, {one: known[one] for one in known if one not in past})
        changes = [
            Changed(at, station, arm=arm, before=before, by="operator")
            for station, (arm, before) in by_hand.items()
            if before is not None
        ]
        history = self.read_model.history.after(changes)
        if under_rules(self.setup):
            present = {one: request for one, request in known.items() if one not in past}
            known |= within_reach(self.guard, controller, present, history, now=at)
        with span("decide", stations=len(known)):
            decisions = ask_controller(controller, known, together=len(known) > 1)
        turn.append(known, past=past)
        for station, (arm, before) in by_hand.items():
            turn.note("applied", applied_note(arm, before, at, by="network"), station=station)
        self._review(turn, decisions, known, history, time, past=past)
        return decisions

    @traced("review")
    def _review(
        self,
        turn: Turn,
        decisions: Mapping[str, Decision],
        asked: Mapping[str, Request],
        history: History,
        time: Reading,
        *,
        past: Container[str],
    ) -> None:
        at = time.now
        states = {s: replace(self.read_model.stations[s], running=asked[s].running) for s in decisions}
        states |= {s: replace(one, mode="shadow") for s, one in states.items() if s in past}  # nothing comes of it now
        review = Review(
            self.guard, history, states, turn.controller, at, time.doubt,
            self.orders.pending(), self.read_model.manner,
        )  # fmt: skip
        reviewed = with_gains(review.of(decisions, asked), turn.controller)
        for one in reviewed:
            if one.arm is not None and one.arm != one.decision.arm:
                turn.controller.ran(one.decision.id, self.space[one.arm])
        turn.append()
        back = {one.decision.station for one in reviewed if one.verdict.outcome == "rolled back"}
        back = {name for name in back if states[name].mode != "shadow"}
        self.orders.give_up(turn, back, at, why="its station is rolled back")
        for one in reviewed:
            turn.note("verdict", one.note(at), station=one.decision.station, decision=one.decision.id)
        for one, note in applied_notes(reviewed, at):
            turn.note("applied", note, station=one.decision.station, decision=one.decision.id)

    @traced("tell")
    def tell(
        self,
        rewards: Mapping[str, float] | None = None,
        *,
        noise: Mapping[str, float] | None = None,
        kpis: Mapping[str, KpiValues] | None = None,
        others: KpiValues | None = None,
        key: str | None = None,
        actor: str = "",
    ) -> list[DecisionRecord]:
        """Learn what decisions earned, by their ids, all or nothing; see `Controller.tell_all`."""
        said: dict[str, Any] = {"rewards": rewards, "noise": noise, "kpis": kpis, "others": others}
        ids = [*(rewards or {}), *(kpis or {})]

        def learn(turn: Turn) -> None:
            check_whole(self.read_model, ids)
            turn.controller.tell_all(**said)

        self.turns.run_once("outcome", Call(fingerprint("tell", **said), key, actor), learn)
        return self._records(ids)

    def counters(self, body: bytes | Sequence[Mapping[str, Any]], *, key: str | None = None, actor: str = "") -> Taken:
        """Take in what was measured: the states to ask with, and rewards by station and period.

        What is known already changes nothing; of values that contradict each other the later to arrive counts.

        Args:
            body: Rows by column, or a file: CSV text or a measurement file, perhaps gzipped.
            key: The key of this call.
            actor: Who tells.
        """
        setup, step = self.setup, None if self.setup.logged is None else self.setup.logged.step
        names, kpis = wanted_states(setup), wanted_kpis(setup)
        zone = self.guard.rails.zone
        arrived = self.feed.read(body, names=names, kpis=kpis, zone=zone, period=step or HOUR)
        said = hashlib.sha256(body).hexdigest() if isinstance(body, bytes) else body
        call = Call(fingerprint("counters", body=said), key, actor)

        def take(turn: Turn) -> tuple[Taken, list[Correction]]:
            known = turn.answered("counters")
            with self.looking() as read_model:
                intake = intake_of(
                    arrived, read_model.seen, read_model.stations, read_model.decisions, setup, id_of=id_of
                )
            if known is not None:
                return Taken(**known.payload["taken"]), intake.corrections
            self.turns.check_after_failure()
            taken = taken_of(arrived, intake)
            if intake.states or intake.told:
                turn.note("counters", {**intake.payload(), "taken": asdict(taken)})
            for period, rows in intake.told.items():
                turn.controller.tell_all(**told_of(rows, intake.others.get(period, {}), setup))
            turn.append()
            return taken, intake.corrections

        taken, corrections = self.turns.run(call, take)
        for one in corrections[:MOST_CORRECTIONS]:
            self.correct(one.decision, one.reward, kpis=one.kpis, actor=actor)
        corrected = [one.decision for one in corrections[:MOST_CORRECTIONS]]
        return replace(taken, corrected=corrected, left=max(len(corrections) - MOST_CORRECTIONS, 0))

    @property
    def feed(self) -> Feed:
        """How counters are read, as it is on record."""
        with self.looking() as read_model:
            return Feed.from_dict(read_model.feed)

    def correct(
        self,
        decision_id: str,
        reward: float | None = None,
        *,
        kpis: KpiValues | None = None,
        key: str | None = None,
        actor: str = "",
    ) -> DecisionRecord:
        """Put a reward right that was told before; see `Controller.correct`."""
        call = Call(fingerprint("correct", id=decision_id, reward=reward, kpis=kpis), key, actor)
        self.turns.apply("correction", call, lambda controller: controller.correction(decision_id, reward, kpis=kpis))
        return self.decision(decision_id)

    def call_off(self, decision_id: str, *, key: str | None = None, actor: str = "") -> DecisionRecord:
        """Say that a reward will not come."""
        call = Call(fingerprint("call_off", id=decision_id), key, actor)
        self.turns.run_once("outcome", call, lambda turn: turn.controller.call_off(decision_id))
        return self.decision(decision_id)

    def applied(
        self,
        decision_id: str,
        configuration: Mapping[str, Any] | None = None,
        *,
        comment: str = "",
        key: str | None = None,
        actor: str = "",
    ) -> DecisionRecord:
        """Say what a station really runs in the slot of a decision, as the network reports it.

        Its reward is learned for that. A change that was not carried out is taken back: it does not count as one, and
        its decision is "not made". What was reported last is not recorded again.

        Args:
            decision_id: The decision.
            configuration: What it runs; None for what it was told to run (`DecisionRecord.ordered`).
            comment: Anything worth keeping.
            key: The key of this call.
            actor: Who reports.
        """
        arm = None if configuration is None else _arm_of(configuration, self.space.index)
        call = Call(fingerprint("applied", id=decision_id, arm=arm, comment=checked_comment(comment)), key, actor)
        self.turns.run_once("applied", call, lambda turn: self._report(turn, decision_id, arm, comment=comment))
        return self.decision(decision_id)

    def _report(self, turn: Turn, decision_id: str, arm: int | None, *, comment: str) -> None:
        """Record what a station runs in the slot of its present decision."""
        record = self.read_model.decision(decision_id)
        self._check_last(record)
        runs, station_state = record.ordered if arm is None else arm, self.read_model.stations[record.station]
        if self.read_model.reported(record.station) == (record.id, runs, comment):
            return
        if runs is not None:
            turn.controller.ran(record.id, self.space[runs])
            turn.append()
        note = reported(record, station_state, runs, self._expiring_time(turn).now, comment=comment)
        turn.note("applied", note, station=record.station, decision=record.id)

    def _check_last(self, record: DecisionRecord) -> None:
        """Refuse reports on what a station ran in a slot that is over."""
        station_state = self.read_model.stations[record.station]
        if station_state.last != record.id or not record.open or not station_state.active:
            raise ConflictError(
                f"decision {record.id} is not the present one of {record.station!r}: say what it runs when asking next"
            )

    def _records(self, ids: list[str]) -> list[DecisionRecord]:
        with self.looking() as read_model:
            return [read_model.decision(key) for key in dict.fromkeys(ids)]

    # What people do; every act is an event

    def approve(
        self, ids: Sequence[str], *, comment: str = "", key: str | None = None, actor: str = ""
    ) -> list[DecisionRecord]:
        """Carry out decisions that wait, in this order, as far as the guard lets them, now or in their window.

        Where the rails want two people, who asked for a decision may not approve it. The guard reviews it again: it may
        be hours since it did. It never puts another configuration in the place of the one that was approved; what it
        refuses is answered with the status "refused" and the reason, what it defers with "approved" (`Orders`).
        """
        return self._judge(ids, approved=True, comment=comment, key=key, actor=actor)

    def reject(
        self, ids: Sequence[str], *, comment: str = "", key: str | None = None, actor: str = ""
    ) -> list[DecisionRecord]:
        """Leave the stations of decisions that wait as they are."""
        return self._judge(ids, approved=False, comment=comment, key=key, actor=actor)

    def _judge(
        self, ids: Sequence[str], *, approved: bool, comment: str, key: str | None, actor: str
    ) -> list[DecisionRecord]:
        listed = _names(ids, "ids")
        if not listed:
            raise BadInputError("no decision was named: give the ids of those that wait")
        self.orders.judge(listed, approved=approved, comment=comment, key=key, actor=actor)
        return self._records(listed)

    def withdraw(
        self, ids: Sequence[str], *, comment: str = "", key: str | None = None, actor: str = ""
    ) -> list[DecisionRecord]:
        """Take approvals back that are not ordered yet, so that they wait for a person again."""
        listed = _names(ids, "ids")
        if not listed:
            raise BadInputError("no decision was named: give the ids of those that are approved")
        self.orders.withdraw(listed, comment=comment, key=key, actor=actor)
        return self._records(listed)

    def confirm(
        self, decision_id: str, *, comment: str = "", key: str | None = None, actor: str = ""
    ) -> DecisionRecord:
        """Say that what was ordered is carried out; see `Orders.confirm`."""
        self.orders.confirm(decision_id, comment=comment, key=key, actor=actor)
        return self.decision(decision_id)

    def fail(self, decision_id: str, *, why: str = "", key: str | None = None, actor: str = "") -> DecisionRecord:
        """Say that what was ordered could not be carried out: its station goes on with what it ran."""
        self.orders.fail(decision_id, why=why, key=key, actor=actor)
        return self.decision(decision_id)

    def roll_back(
        self,
        station: str,
        *,
        comment: str = "",
        override: bool = False,
        key: str | None = None,
        actor: str = "",
    ) -> StationState:
        """Have a station run again what it ran last, before its last change, within the ranges of its knobs.

        Called again, it goes further back, change by change. The decision of the present slot, if its reward is
        awaited, is called off: it earned part of it with another configuration.

        Args:
            station: Which.
            comment: Anything worth keeping.
            override: Whether to go to what it ran before its last change whatever that is, also while a stop, a freeze
                or a forbidden period holds.
            key: The key of this call.
            actor: Who does it.
        """
        said = {"override": True} if override else {}
        call = Call(fingerprint("roll_back", station=station, comment=checked_comment(comment), **said), key, actor)
        self.turns.run_once("applied", call, lambda turn: self._roll_back(turn, station, comment, override=override))
        with self.looking() as read_model:
            return read_model.station(station)

    def way_back(self, station: str) -> int | Refusal:
        """Return the arm that `roll_back` leads to, or why it needs somebody who may override that."""
        with self.looking() as read_model:
            running = read_model.station(station).running
            ran = [arm for arm in read_model.ran(station) if arm != running]
            return self.guard.way_back(station, ran, read_model.history, now=self.now())

    def _roll_back(self, turn: Turn, station: str, comment: str, *, override: bool) -> None:
        station_state, at = self.read_model.station(station), self._expiring_time(turn).now
        if station_state.before is None or not station_state.active:
            why = "no change of it is on record" if station_state.active else "it was removed"
            raise ConflictError(f"there is nothing to roll back at {station_state.station!r}: {why}")
        back = station_state.before if override else self.way_back(station)
        if isinstance(back, Refusal):
            raise ConflictError(
                f"{station!r:.80} is not rolled back, since {back.reason}",
                hint="somebody who may has to say override",
                code="held",
                argument="override",
            )
        record = None if station_state.last is None else self.read_model.decisions[station_state.last]
        current = record if record is not None and record.open else None
        status = None if current is None else _ROLLED_BACK.get(current.status)
        self.orders.give_up(turn, [station], at, why="its station is rolled back")
        note = applied_note(back, station_state.running, at, by="operator", comment=comment, status=status)
        turn.note("applied", note, station=station_state.station, decision=None if current is None else current.id)
        if current is not None:
            turn.controller.call_off(current.id)

    def set_mode(
        self,
        mode: Mode,
        stations: Sequence[str] | None = None,
        *,
        comment: str = "",
        key: str | None = None,
        actor: str = "",
    ) -> None:
        """Set the mode of some stations, or of all and of those to come; what waits expires unless it is "assist"."""
        checked, listed = checked_mode(mode), None if stations is None else _names(stations, "stations")
        if listed == []:
            raise BadInputError("no station was named: name some, or leave stations out for all")
        call = Call(fingerprint("mode", mode=checked, stations=listed, comment=checked_comment(comment)), key, actor)
        said = {"mode": checked, "stations": listed, "comment": comment}

        def note(turn: Turn) -> None:
            for station in listed or ():
                self.read_model.station(station)
            turn.note("mode", said, station=listed[0] if listed is not None and len(listed) == 1 else "")
            self.orders.give_up_in(turn, checked, listed)

        self.turns.run_once("mode", call, note)

    def check_rails(self, text: str) -> list[DecisionRecord]:
        """Return what waits and would be refused under other rails, with their verdict; nothing is changed.

        Args:
            text: The rails, as in their file; what is wrong with them is an error with the line.
        """
        guard = self.guard_of(text)
        with self.looking() as read_model:
            records = [*read_model.waiting(), *(i for i in read_model.orders() if i.status == "approved")]
            verdicts = self.orders.review(guard, records, self.reading())
        refused = [record for record in records if verdicts[record.station].arm != record.wanted]
        return [replace(record, verdict=verdicts[record.station]) for record in refused]

    def set_rails(
        self, text: str, *, comment: str = "", replaces: str | None = None, key: str | None = None, actor: str = ""
    ) -> RailsOnRecord:
        """Put rails in force, for the next decision in every process; those that hold already are not put there again.

        Where the rails in force want two people for it, the first only puts them on record (`proposed`).

        Args:
            text: The rails, as in their file; what is wrong with them is an error with the line.
            comment: Why, for the record.
            replaces: Digest of the rails that they are meant to replace; refused where others are in force by now.
            key: The key of this call.
            actor: Who does it.
        """
        self.guard_of(text)
        call = Call(fingerprint("rails", text=text, comment=checked_comment(comment), replaces=replaces), key, actor)
        said = {"digest": digest_of(text), "text": text, "comment": comment, "by": "person"}

        def put(turn: Turn) -> None:
            self._rails.check_replaced(self.read_model.rails, replaces)
            if said["digest"] != self.read_model.rails.digest:
                proposal = {"digest": said["digest"], "text": text, "comment": comment}
                consent = self._consent(turn, "rails", proposal, actor=actor)
                if consent.given:
                    turn.note("rails", said | consent.note())

        self.turns.run_once("rails", call, put)
        with self.looking() as read_model:
            return read_model.rails

    def guard_of(self, text: str) -> Guard:
        """Return the guard that rails of a text would be in force by, or complain with the line."""
        with self.looking() as read_model:
            return self._rails.of(text, read_model.stations)

    def freeze(self, station: str, *, why: str = "", key: str | None = None, actor: str = "") -> None:
        """Leave a station alone until it is thawed."""
        event = Frozen(self.now(), station, why=checked_comment(why) or _NO_REASON)
        self._switch(event, why, Call(fingerprint("Frozen", station=station, why=why), key, actor))

    def thaw(self, station: str, *, why: str = "", key: str | None = None, actor: str = "") -> None:
        """Let a station that a person froze be changed again."""
        said = Call(fingerprint("Thawed", station=station, thaw=checked_comment(why)), key, actor)
        self._switch(Thawed(self.now(), station), why, said)

    def stop(self, *, why: str = "", key: str | None = None, actor: str = "") -> None:
        """Stop everything: nothing changes any more, no roll-back either unless somebody overrides that."""
        event = Stopped(self.now(), why=checked_comment(why) or _NO_REASON)
        self._switch(event, why, Call(fingerprint("Stopped", why=why), key, actor))

    def resume(self, *, why: str = "", key: str | None = None, actor: str = "") -> None:
        """Take a stop back; the stop switch of the rails is another one.

        Where the rails want two people for it, the first only puts it on record (`proposed`).
        """
        call = Call(fingerprint("Resumed", resume=checked_comment(why)), key, actor)
        if "resume" not in self.guard.rails.two_people:
            said = {"event": Resumed(self.now()).to_dict(), "comment": why}
            if self.turns.switch(call, said, unless=self._rails_differ):
                return

        def note(turn: Turn) -> None:
            proposal = {"digest": "", "comment": why}
            consent = self._consent(turn, "resume", proposal, actor=actor)
            if consent.given:
                event = Resumed(self._expiring_time(turn).now)
                turn.note("switch", {"event": event.to_dict(), "comment": why} | consent.note())

        self.turns.run_once("switch", call, note)

    def _rails_differ(self, reader: Reader) -> bool:
        """Whether others are on record than those known here."""
        newest = reader.newest("rails")
        return newest is not None and newest.payload["digest"] != self.read_model.rails.digest

    def proposed(self, act: str) -> Proposed | None:
        """Return what one of two people has asked for, if that still counts."""
        with self.looking() as read_model:
            found = read_model.proposals.get(act)
        return None if found is None or self.now() - found.at > PROPOSED_FOR else found

    def _consent(self, turn: Turn, act: str, said: Mapping[str, Any], *, actor: str) -> Consent:
        """Return whether an act may be done; where it takes two people, the word of the first is put on record."""
        if act not in self.guard.rails.two_people:
            return Consent(given=True)
        check_person(actor, act)
        first = self.proposed(act)
        same = first is not None and first.digest == said["digest"]
        if first is not None and same and first.actor != actor:
            return Consent(given=True, first=first.actor)
        if not same:
            turn.note("proposal", {"act": act, **said, "at": self._expiring_time(turn).now.isoformat()})
        return Consent(given=False)

    def set_clock(self, *, why: str = "", key: str | None = None, actor: str = "") -> None:
        """Say that the clock is right, which is in doubt: what is on record with a later time was no later than now."""

        def note(turn: Turn) -> None:
            reading = self._expiring_time(turn)
            if not reading.doubt:
                raise ConflictError("the clock is not in doubt: there is nothing to set right")
            turn.note("switch", {"event": ClockSet(reading.shown, why=why).to_dict(), "comment": why})
            _log.warning("%s says that the clock is right: %s", actor or "somebody", reading.doubt)

        self.turns.run_once("switch", Call(fingerprint("ClockSet", why=checked_comment(why)), key, actor), note)

    def _switch(self, event: Frozen | Thawed | Stopped | Resumed, why: str, call: Call) -> None:
        station = event.station if isinstance(event, Frozen | Thawed) else ""
        if station:
            with self.looking() as read_model:
                read_model.station(station)
        self.turns.switch(call, {"event": event.to_dict(), "comment": why}, station=station)

    # Rails, stations, and looking at all of it

    @property
    def guard(self) -> Guard:
        """The guard with the rails last put on record: a person or another process may have put others there."""
        with self.read_model.lock:
            return self._rails.guard(self.read_model.rails, self.read_model.stations)

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
        self.orders.give_up(turn, [name], self._expiring_time(turn).now, why="its station was removed")

    def decision(self, decision_id: str) -> DecisionRecord:
        """Return a decision with everything that happened to it."""
        return self._records([decision_id])[0]

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


def _made_by_key(turn: Turn) -> dict[str, str]:
    """Return what was decided by the same call before, as ids by station."""
    found = turn.answered("decision")
    if found is None:
        return {}
    if found.round is None:
        return {found.station: str(found.decision)}
    return {event.station: str(event.decision) for event in turn.reader.round(found.round)}


def _arm_of(configuration: Mapping[str, Any], index: Any) -> int:
    try:
        return int(index(configuration))
    except (LookupError, ValueError) as error:
        raise BadInputError(f"this is not a configuration of the space: {error}") from error


def _names(given: object, what: str) -> list[str]:
    """Return names once each, in their order."""
    if isinstance(given, str) or not isinstance(given, Sequence) or not all(isinstance(name, str) for name in given):
        raise BadInputError(f"{what} must be a list of names, got {given!r:.60}")
    return list(dict.fromkeys(given))
