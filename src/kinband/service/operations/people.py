"""What people do: approve and reject, roll back, set modes and rails, and stop everything; every act is an event.

Where the rails want two people for an act, the word of the first is put on record, and that of the second does it.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any, NamedTuple

from kinband.errors import BadInputError, ConflictError
from kinband.guardrails import ClockSet, Frozen, Guard, Refusal, Resumed, Stopped, Thawed
from kinband.service.ledger.asked import fingerprint
from kinband.service.ledger.store import Reader
from kinband.service.operations.checks import check_person, checked_comment, distinct
from kinband.service.operations.orders import Orders
from kinband.service.operations.records import DecisionRecord, Proposed, RailsOnRecord, StationState, checked_mode
from kinband.service.operations.review import applied_note, digest_of
from kinband.service.operations.standing import Standing
from kinband.service.operations.turns import Call, Turn
from kinband.service.schemas import Mode, Status

PROPOSED_FOR = timedelta(days=1)
"""How long the word of the first of two people counts."""

_log = logging.getLogger(__name__)

_NO_REASON = "no reason was given"

_ROLLED_BACK: Mapping[Status, Status] = {"applied": "rolled back", "kept": "rolled back", "waiting": "expired"}
"""What becomes of the present decision when its station is rolled back; the others led to nothing."""


class Consent(NamedTuple):
    """Whether an act may be done that may take two people, and who of two asked for it first; empty where one does."""

    given: bool
    first: str = ""

    def note(self) -> dict[str, str]:
        """Return what an event says of it."""
        return {"with": self.first} if self.first else {}


class People:
    """What people do. It is a part of `Operations`, which has its methods.

    Example:
        >>> import tempfile
        >>> from kinband import ConfigurationSpace, Controller
        >>> from kinband.service.ledger import Ledger
        >>> from kinband.service.operations import Operations
        >>> folder = tempfile.TemporaryDirectory()
        >>> ledger = Ledger.open(f"{folder.name}/ledger.db")
        >>> controller = Controller(ConfigurationSpace(tilt=[2, 4]), ["a"], running={"tilt": 2}, seed=3)
        >>> operations = Operations.open(ledger, controller, mode="assist")
        >>> asked = operations.ask({"a": {}}, slot="10:00")[0]
        >>> operations.stop(why="outage", actor="ada")
        >>> operations.approve([asked.id], actor="ada")[0].status
        'refused'
        >>> ledger.close()
        >>> folder.cleanup()
    """

    def __init__(self, standing: Standing, orders: Orders) -> None:
        self._standing, self._orders = standing, orders
        self._turns, self._read_model = standing.turns, standing.read_model

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
        listed = distinct(ids, "ids")
        if not listed:
            raise BadInputError("no decision was named: give the ids of those that wait")
        self._orders.judge(listed, approved=approved, comment=comment, key=key, actor=actor)
        return self._standing.records(listed)

    def withdraw(
        self, ids: Sequence[str], *, comment: str = "", key: str | None = None, actor: str = ""
    ) -> list[DecisionRecord]:
        """Take approvals back that are not ordered yet, so that they wait for a person again."""
        listed = distinct(ids, "ids")
        if not listed:
            raise BadInputError("no decision was named: give the ids of those that are approved")
        self._orders.withdraw(listed, comment=comment, key=key, actor=actor)
        return self._standing.records(listed)

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
        self._turns.run_once("applied", call, lambda turn: self._roll_back(turn, station, comment, override=override))
        with self._standing.looking() as read_model:
            return read_model.station(station)

    def way_back(self, station: str) -> int | Refusal:
        """Return the arm that `roll_back` leads to, or why it needs somebody who may override that."""
        with self._standing.looking() as read_model:
            running = read_model.station(station).running
            ran = [arm for arm in read_model.ran(station) if arm != running]
            return self._standing.guard.way_back(station, ran, read_model.history, now=self._standing.now())

    def _roll_back(self, turn: Turn, station: str, comment: str, *, override: bool) -> None:
        station_state, at = self._read_model.station(station), self._standing.expiring(turn).now
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
        record = None if station_state.last is None else self._read_model.decisions[station_state.last]
        current = record if record is not None and record.open else None
        status = None if current is None else _ROLLED_BACK.get(current.status)
        self._orders.give_up(turn, [station], at, why="its station is rolled back")
        note = applied_note(back, station_state.running, at, by="operator", comment=comment, status=status)
        note |= {"override": True} if override else {}
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
        checked, listed = checked_mode(mode), None if stations is None else distinct(stations, "stations")
        if listed == []:
            raise BadInputError("no station was named: name some, or leave stations out for all")
        call = Call(fingerprint("mode", mode=checked, stations=listed, comment=checked_comment(comment)), key, actor)
        said = {"mode": checked, "stations": listed, "comment": comment}

        def note(turn: Turn) -> None:
            for station in listed or ():
                self._read_model.station(station)
            turn.note("mode", said, station=listed[0] if listed is not None and len(listed) == 1 else "")
            self._orders.give_up_in(turn, checked, listed)

        self._turns.run_once("mode", call, note)

    def check_rails(self, text: str) -> list[DecisionRecord]:
        """Return what waits and would be refused under other rails, with their verdict; nothing is changed.

        Args:
            text: The rails, as in their file; what is wrong with them is an error with the line.
        """
        guard = self.guard_of(text)
        with self._standing.looking() as read_model:
            records = [*read_model.waiting(), *(i for i in read_model.orders() if i.status == "approved")]
            verdicts = self._orders.review(guard, records, self._standing.reading())
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
            self._standing.rails.check_replaced(self._read_model.rails, replaces)
            if said["digest"] != self._read_model.rails.digest:
                proposal = {"digest": said["digest"], "text": text, "comment": comment}
                consent = self._consent(turn, "rails", proposal, actor=actor)
                if consent.given:
                    turn.note("rails", said | consent.note())

        self._turns.run_once("rails", call, put)
        with self._standing.looking() as read_model:
            return read_model.rails

    def guard_of(self, text: str) -> Guard:
        """Return the guard that rails of a text would be in force by, or complain with the line."""
        with self._standing.looking() as read_model:
            return self._standing.rails.of(text, read_model.stations)

    def freeze(self, station: str, *, why: str = "", key: str | None = None, actor: str = "") -> None:
        """Leave a station alone until it is thawed."""
        event = Frozen(self._standing.now(), station, why=checked_comment(why) or _NO_REASON)
        self._switch(event, why, Call(fingerprint("Frozen", station=station, why=why), key, actor))

    def thaw(self, station: str, *, why: str = "", key: str | None = None, actor: str = "") -> None:
        """Let a station that a person froze be changed again."""
        said = Call(fingerprint("Thawed", station=station, thaw=checked_comment(why)), key, actor)
        self._switch(Thawed(self._standing.now(), station), why, said)

    def stop(self, *, why: str = "", key: str | None = None, actor: str = "") -> None:
        """Stop everything: nothing changes any more, no roll-back either unless somebody overrides that."""
        event = Stopped(self._standing.now(), why=checked_comment(why) or _NO_REASON)
        self._switch(event, why, Call(fingerprint("Stopped", why=why), key, actor))

    def resume(self, *, why: str = "", key: str | None = None, actor: str = "") -> None:
        """Take a stop back; the stop switch of the rails is another one.

        Where the rails want two people for it, the first only puts it on record (`proposed`).
        """
        call = Call(fingerprint("Resumed", resume=checked_comment(why)), key, actor)
        if "resume" not in self._standing.guard.rails.two_people:
            said = {"event": Resumed(self._standing.now()).to_dict(), "comment": why}
            if self._turns.switch(call, said, unless=self._rails_differ):
                return

        def note(turn: Turn) -> None:
            proposal = {"digest": "", "comment": why}
            consent = self._consent(turn, "resume", proposal, actor=actor)
            if consent.given:
                event = Resumed(self._standing.expiring(turn).now)
                turn.note("switch", {"event": event.to_dict(), "comment": why} | consent.note())

        self._turns.run_once("switch", call, note)

    def _rails_differ(self, reader: Reader) -> bool:
        """Whether others are on record than those known here."""
        newest = reader.newest("rails")
        return newest is not None and newest.payload["digest"] != self._read_model.rails.digest

    def proposed(self, act: str) -> Proposed | None:
        """Return what one of two people has asked for, if that still counts."""
        with self._standing.looking() as read_model:
            found = read_model.proposals.get(act)
        return None if found is None or self._standing.now() - found.at > PROPOSED_FOR else found

    def _consent(self, turn: Turn, act: str, said: Mapping[str, Any], *, actor: str) -> Consent:
        """Return whether an act may be done; where it takes two people, the word of the first is put on record."""
        if act not in self._standing.guard.rails.two_people:
            return Consent(given=True)
        check_person(actor, act)
        first = self.proposed(act)
        same = first is not None and first.digest == said["digest"]
        if first is not None and same and first.actor != actor:
            return Consent(given=True, first=first.actor)
        if not same:
            turn.note("proposal", {"act": act, **said, "at": self._standing.expiring(turn).now.isoformat()})
        return Consent(given=False)

    def set_clock(self, *, why: str = "", key: str | None = None, actor: str = "") -> None:
        """Say that the clock is right, which is in doubt: what is on record with a later time was no later than now."""

        def note(turn: Turn) -> None:
            reading = self._standing.expiring(turn)
            if not reading.doubt:
                raise ConflictError("the clock is not in doubt: there is nothing to set right")
            turn.note("switch", {"event": ClockSet(reading.shown, why=why).to_dict(), "comment": why})
            _log.warning("%s says that the clock is right: %s", actor or "somebody", reading.doubt)

        self._turns.run_once("switch", Call(fingerprint("ClockSet", why=checked_comment(why)), key, actor), note)

    def _switch(self, event: Frozen | Thawed | Stopped | Resumed, why: str, call: Call) -> None:
        station = event.station if isinstance(event, Frozen | Thawed) else ""
        if station:
            with self._standing.looking() as read_model:
                read_model.station(station)
        self._turns.switch(call, {"event": event.to_dict(), "comment": why}, station=station)
