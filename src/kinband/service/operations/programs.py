"""What programs ask and tell: a decision, what it earned, what was measured, and what a station really runs.

Everything of a call happens in one turn of the ledger: what was asked before is answered again, the controller decides
the rest, the guard reviews it, and what follows from the modes is put on record with it.
"""

import hashlib
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import datetime, timedelta
from typing import Any

from kinband.controller.asking import State
from kinband.controller.journal import id_of
from kinband.controller.telling import KpiValues
from kinband.errors import BadInputError, ConflictError
from kinband.guardrails import Changed, History, Refusal
from kinband.records import Decision
from kinband.service.ledger.asked import Request, ask_controller, fingerprint, requests_of
from kinband.service.operations.checks import (
    changed_by_hand,
    check_repeated,
    check_whole,
    checked_comment,
    distinct,
    informed,
)
from kinband.service.operations.clock import Reading
from kinband.service.operations.feeds import HOUR
from kinband.service.operations.matching import (
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
from kinband.service.operations.orders import Orders
from kinband.service.operations.records import DecisionRecord
from kinband.service.operations.review import (
    Review,
    applied_note,
    applied_notes,
    reported,
    under_rules,
    with_gains,
    within_reach,
)
from kinband.service.operations.slots import SlotTime, is_past
from kinband.service.operations.standing import Standing
from kinband.service.operations.turns import Call, Turn
from kinband.service.tracing import span, traced
from kinband.space import Allowed

VALID = timedelta(minutes=5)
"""How long an answer may be acted upon; who has waited longer asks again."""


class Answers(list[DecisionRecord]):
    """Decisions as they are to be acted upon now.

    Attributes:
        new: Whether any of them was decided now, and not answered from the record.
    """

    def __init__(self, records: Iterable[DecisionRecord] = (), *, new: bool) -> None:
        super().__init__(records)
        self.new = new


class Programs:
    """What programs ask and tell. It is a part of `Operations`, which has its methods.

    Example:
        >>> import tempfile
        >>> from kinband import ConfigurationSpace, Controller
        >>> from kinband.service.ledger import Ledger
        >>> from kinband.service.operations import Operations
        >>> folder = tempfile.TemporaryDirectory()
        >>> ledger = Ledger.open(f"{folder.name}/ledger.db")
        >>> controller = Controller(ConfigurationSpace(tilt=[2, 4]), ["a"], running={"tilt": 2}, seed=3)
        >>> operations = Operations.open(ledger, controller, mode="autonomous")
        >>> asked = operations.ask({"a": {}}, slot="10:00")[0]
        >>> operations.tell({asked.id: 0.8})[0].reward
        0.8
        >>> ledger.close()
        >>> folder.cleanup()
    """

    def __init__(self, standing: Standing, orders: Orders) -> None:
        self._standing, self._orders = standing, orders
        self._turns, self._read_model, self._setup = standing.turns, standing.read_model, standing.setup
        self._space = self._setup.encoder.space

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
        told: dict[str, State] = {name: {} for name in distinct(stations, "stations")}
        if both := [name for name in told if isinstance(states, Mapping) and name in states]:
            raise BadInputError(f"{both[0]!r:.80} has a state, and is among stations that have that of their counters")
        everybody = {**states, **told} if told else states
        asked = requests_of(self._space, everybody, allowed=allowed, running=running, time=time)
        given: dict[str, Any] = {} if begins is None else {"from": str(begins)}
        time_of = SlotTime.of(slot, begins, self._standing.guard.rails.zone)
        call = Call(
            fingerprint("ask", requests=asked, slot=slot, **given, **({"stations": list(told)} if told else {})),
            key,
            actor,
            *time_of,
        )
        self._orders.settle()

        def act(turn: Turn) -> tuple[dict[str, str], bool]:
            made = self._made_before(turn, asked)
            self._check_same_time(made.values(), time_of.begins if given else None)
            missing = {station: request for station, request in asked.items() if station not in made}
            if missing:
                missing = self._with_counters(missing, told, time_of.begins)
                made |= {station: decision.id for station, decision in self._decide_missing(turn, missing).items()}
            return made, bool(missing)

        made, new = self._turns.run(call, act)
        with self._standing.looking():
            return Answers(self._up_to_now(made, asked), new=new)

    def _up_to_now(self, made: Mapping[str, str], asked: Mapping[str, Request]) -> list[DecisionRecord]:
        """Return decisions as they are to be acted upon now, which may be long after they were made.

        An order that a stop, a freeze, a closed window or a clock in doubt has overtaken is no order any more: what
        runs is to run on, which is what ran before unless somebody says that the change was made. Nor is one of a slot
        that is over.
        """
        records = [self._read_model.decisions[made[station]] for station in asked]
        time, back = self._standing.reading(), {one.station for one in records if one.status == "rolled back"}
        holding = self._standing.guard.holding(
            made, self._read_model.history, now=time.now, span=VALID, back=back, doubt=time.doubt
        )
        return [self._answer(one, asked[one.station].running, *holding[one.station], now=time.now) for one in records]

    def _answer(
        self, record: DecisionRecord, runs: int | None, held: Refusal | None, until: datetime, *, now: datetime
    ) -> DecisionRecord:
        state = self._read_model.stations[record.station]
        if state.last != record.id or not record.open:
            return replace(record, arm=state.running, held=held, valid_until=now)
        made = runs == record.arm or (self._read_model.reported(record.station) or ("",))[0] == record.id
        arm = record.arm if held is None or made else record.running
        return replace(record, arm=arm, held=held, valid_until=until)

    def _made_before(self, turn: Turn, asked: Mapping[str, Request]) -> dict[str, str]:
        """Return what was decided by the same call before, or for the same slot, as ids by station."""
        made = _made_by_key(turn)
        found = turn.decided_for([station for station in asked if station not in made])
        timed = self._setup.clock_column is not None
        check_repeated(asked, found, self._read_model.stations, space=self._space, timed=timed)
        return {station: str(event.decision) for station, event in found.items()} | made

    def _with_counters(
        self, asked: dict[str, Request], told: Container[str], begins: datetime | None
    ) -> dict[str, Request]:
        """Return questions with the states that counters tell of some stations."""
        names, wanted = wanted_states(self._setup), [station for station in asked if station in told]
        for station in wanted:
            self._read_model.station(station)
        if not wanted or not names:
            return asked
        with self._standing.looking() as read_model:
            known = states_before(read_model.seen, wanted, names, at=self._standing.now() if begins is None else begins)
        return {name: replace(one, state=known.get(name, one.state)) for name, one in asked.items()}

    def _check_same_time(self, made: Iterable[str], begins: datetime | None) -> None:
        """Refuse another time of a slot than the one that was decided for."""
        for record in (self._read_model.decisions[key] for key in made) if begins is not None else ():
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
        time, controller = self._standing.expiring(turn), turn.controller
        at = time.now
        known = {
            station: informed(controller, self._read_model, station, request) for station, request in asked.items()
        }
        past = {one for one in known if is_past(turn.begins, self._read_model.station(one).begins, now=at)}
        by_hand = changed_by_hand(self._read_model, {one: known[one] for one in known if one not in past})
        changes = [
            Changed(at, station, arm=arm, before=before, by="operator")
            for station, (arm, before) in by_hand.items()
            if before is not None
        ]
        history = self._read_model.history.after(changes)
        if under_rules(self._setup):
            present = {one: request for one, request in known.items() if one not in past}
            known |= within_reach(self._standing.guard, controller, present, history, now=at)
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
        states = {s: replace(self._read_model.stations[s], running=asked[s].running) for s in decisions}
        states |= {s: replace(one, mode="shadow") for s, one in states.items() if s in past}  # nothing comes of it now
        review = Review(
            self._standing.guard, history, states, turn.controller, at, time.doubt,
            self._orders.pending(), self._read_model.manner,
        )  # fmt: skip
        reviewed = with_gains(review.of(decisions, asked), turn.controller)
        for one in reviewed:
            if one.arm is not None and one.arm != one.decision.arm:
                turn.controller.ran(one.decision.id, self._space[one.arm])
        turn.append()
        back = {one.decision.station for one in reviewed if one.verdict.outcome == "rolled back"}
        back = {name for name in back if states[name].mode != "shadow"}
        self._orders.give_up(turn, back, at, why="its station is rolled back")
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
            check_whole(self._read_model, ids)
            turn.controller.tell_all(**said)

        self._turns.run_once("outcome", Call(fingerprint("tell", **said), key, actor), learn)
        return self._standing.records(ids)

    def counters(self, body: bytes | Sequence[Mapping[str, Any]], *, key: str | None = None, actor: str = "") -> Taken:
        """Take in what was measured: the states to ask with, and rewards by station and period.

        What is known already changes nothing; of values that contradict each other the later to arrive counts.

        Args:
            body: Rows by column, or a file: CSV text or a measurement file, perhaps gzipped.
            key: The key of this call.
            actor: Who tells.
        """
        setup, step = self._setup, None if self._setup.logged is None else self._setup.logged.step
        names, kpis = wanted_states(setup), wanted_kpis(setup)
        zone = self._standing.guard.rails.zone
        arrived = self._standing.feed.read(body, names=names, kpis=kpis, zone=zone, period=step or HOUR)
        said = hashlib.sha256(body).hexdigest() if isinstance(body, bytes) else body
        call = Call(fingerprint("counters", body=said), key, actor)

        def take(turn: Turn) -> tuple[Taken, list[Correction]]:
            known = turn.answered("counters")
            with self._standing.looking() as read_model:
                intake = intake_of(
                    arrived, read_model.seen, read_model.stations, read_model.decisions, setup, id_of=id_of,
                    now=self._standing.now(),
                )  # fmt: skip
            if known is not None:
                return Taken(**known.payload["taken"]), intake.corrections
            self._turns.check_after_failure()
            taken = taken_of(arrived, intake)
            if intake.states or intake.told:
                turn.note("counters", {**intake.payload(), "taken": asdict(taken)})
            for period, rows in intake.told.items():
                turn.controller.tell_all(**told_of(rows, intake.others.get(period, {}), setup))
            turn.append()
            return taken, intake.corrections

        taken, corrections = self._turns.run(call, take)
        for one in corrections[:MOST_CORRECTIONS]:
            self.correct(one.decision, one.reward, kpis=one.kpis, actor=actor)
        corrected = [one.decision for one in corrections[:MOST_CORRECTIONS]]
        return replace(taken, corrected=corrected, left=max(len(corrections) - MOST_CORRECTIONS, 0))

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
        self._turns.apply("correction", call, lambda controller: controller.correction(decision_id, reward, kpis=kpis))
        return self._standing.decision(decision_id)

    def call_off(self, decision_id: str, *, key: str | None = None, actor: str = "") -> DecisionRecord:
        """Say that a reward will not come."""
        call = Call(fingerprint("call_off", id=decision_id), key, actor)
        self._turns.run_once("outcome", call, lambda turn: turn.controller.call_off(decision_id))
        return self._standing.decision(decision_id)

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
        arm = None if configuration is None else _arm_of(configuration, self._space.index)
        call = Call(fingerprint("applied", id=decision_id, arm=arm, comment=checked_comment(comment)), key, actor)
        self._turns.run_once("applied", call, lambda turn: self._report(turn, decision_id, arm, comment=comment))
        return self._standing.decision(decision_id)

    def _report(self, turn: Turn, decision_id: str, arm: int | None, *, comment: str) -> None:
        """Record what a station runs in the slot of its present decision."""
        record = self._read_model.decision(decision_id)
        self._check_last(record)
        runs, station_state = record.ordered if arm is None else arm, self._read_model.stations[record.station]
        if self._read_model.reported(record.station) == (record.id, runs, comment):
            return
        if runs is not None:
            turn.controller.ran(record.id, self._space[runs])
            turn.append()
        note = reported(record, station_state, runs, self._standing.expiring(turn).now, comment=comment)
        turn.note("applied", note, station=record.station, decision=record.id)

    def _check_last(self, record: DecisionRecord) -> None:
        """Refuse reports on what a station ran in a slot that is over."""
        station_state = self._read_model.stations[record.station]
        if station_state.last != record.id or not record.open or not station_state.active:
            raise ConflictError(
                f"decision {record.id} is not the present one of {record.station!r}: say what it runs when asking next"
            )

    def confirm(
        self, decision_id: str, *, comment: str = "", key: str | None = None, actor: str = ""
    ) -> DecisionRecord:
        """Say that what was ordered is carried out; see `Orders.confirm`."""
        self._orders.confirm(decision_id, comment=comment, key=key, actor=actor)
        return self._standing.decision(decision_id)

    def fail(self, decision_id: str, *, why: str = "", key: str | None = None, actor: str = "") -> DecisionRecord:
        """Say that what was ordered could not be carried out: its station goes on with what it ran."""
        self._orders.fail(decision_id, why=why, key=key, actor=actor)
        return self._standing.decision(decision_id)


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
