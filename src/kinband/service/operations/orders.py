"""The life of a change from its approval on: it waits for its window, is ordered, and is confirmed or fails.

Approved is not ordered, and ordered is not carried out. A change is approved by a person, or by the mode autonomous;
where the rails let it be made only later, it is `approved` until its window opens. Then the guard reviews it again, and
what it refuses by then comes to nothing. What it allows is ordered; where orders count as carried out at once (the
manner "assumed"), the change is made with that, else once the network manager confirms it. What ran in a slot is what
its reward is learned for, so that a change counts from its confirmation on.

A station has one such change at a time. Nothing is ordered while everything is stopped or the time is in doubt: what is
approved goes on waiting, and expires with its window. A roll-back, a station that leaves and the mode shadow end it.
Every step is an event.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from kinband.errors import ConflictError
from kinband.guardrails import OF_TIME, Guard, Pending, Proposal, Refusal, Verdict
from kinband.service.ledger.asked import fingerprint
from kinband.service.operations.checks import check_others, checked_comment
from kinband.service.operations.clock import Reading
from kinband.service.operations.records import DecisionRecord
from kinband.service.operations.review import applied_note, made_of, status_of, times_of
from kinband.service.operations.standing import Standing
from kinband.service.operations.turns import Call, Turn
from kinband.service.schemas import Manner, Mode, Status
from kinband.service.tracing import traced

_NO_TIME = timedelta(0)


@dataclass(frozen=True, eq=False)
class Listed:
    """What the network manager has to do, or will have to.

    Attributes:
        record: The decision.
        back: Arm of what its station runs now.
        held: What forbids to make it now; None if nothing does.
    """

    record: DecisionRecord
    back: int | None
    held: Refusal | None = None


@dataclass(frozen=True, eq=False)
class Settled:
    """What becomes of a change whose time has come.

    Attributes:
        record: The decision.
        status: What it comes to.
        verdict: What the guard says, where it was asked.
        why: Why it comes to nothing, where that is no matter of the guard.
    """

    record: DecisionRecord
    status: Status
    verdict: Verdict | None = None
    why: str = ""


class Orders:
    """Changes from their approval on. It is a part of `Operations`."""

    def __init__(self, standing: Standing) -> None:
        self._standing, self._turns, self._read_model = standing, standing.turns, standing.read_model
        self._space = standing.setup.encoder.space

    # What people do

    def judge(self, ids: Sequence[str], *, approved: bool, comment: str, key: str | None, actor: str) -> None:
        """Record what a person says of decisions that wait, and order what may be made now."""
        call = Call(fingerprint("judge", ids=ids, approved=approved, comment=checked_comment(comment)), key, actor)

        def judge(turn: Turn) -> None:
            if approved and "approve" in self._standing.guard.rails.two_people:
                check_others(map(self._read_model.decision, ids), actor)
            records, time = [self._waiting(decision_id) for decision_id in ids], self._standing.expiring(turn)
            verdicts = self.review(self._standing.guard, records, time) if approved else {}
            for record in records:
                verdict = verdicts.get(record.station)
                status = status_of(verdict, self._read_model.manner)
                said: dict[str, Any] = {"approved": verdict is not None, "comment": comment, "status": status}
                said |= {"verdict": None if verdict is None else verdict.to_dict(), "at": time.now.isoformat()}
                said |= times_of(status, verdict, time.now, until=self._until(record, time.now))
                turn.note("approval", said, station=record.station, decision=record.id)
                if status in ("applied", "rolled back") and verdict is not None:
                    self._make(turn, record, verdict, time.now)

        self._turns.run_once("approval", call, judge)

    def withdraw(self, ids: Sequence[str], *, comment: str = "", key: str | None = None, actor: str = "") -> None:
        """Take approvals back that are not ordered yet: a person is asked again, where the station is in assist."""
        call = Call(fingerprint("withdraw", ids=ids, comment=checked_comment(comment)), key, actor)

        def withdraw(turn: Turn) -> None:
            records, at = [self._approved(decision_id) for decision_id in ids], self._standing.expiring(turn).now
            for record in records:
                waits = self._read_model.stations[record.station].mode == "assist"
                self._note(turn, record, "waiting" if waits else "rejected", at, comment=comment)

        self._turns.run_once("order", call, withdraw)

    # What the network manager does

    def confirm(self, decision_id: str, *, comment: str = "", key: str | None = None, actor: str = "") -> None:
        """Say that an order was carried out; said again, nothing more is recorded.

        One that has expired meanwhile counts too, as long as its station has not changed otherwise since.
        """
        call = Call(fingerprint("confirm", id=decision_id, comment=checked_comment(comment)), key, actor)

        def confirm(turn: Turn) -> None:
            record = self._read_model.decision(decision_id)
            if record.status == made_of(record):
                return
            if not self._late(record):
                _check_ordered(record, to="confirm")
            at = self._standing.expiring(turn).now
            self._note(turn, record, made_of(record), at, comment=comment)
            if record.verdict is not None:
                self._make(turn, record, record.verdict, at, reported=True)

        self._turns.run_once("order", call, confirm)

    def fail(
        self, decision_id: str, *, why: str = "", runs: int | None = None, key: str | None = None, actor: str = ""
    ) -> None:
        """Say that an order could not be carried out: the station goes on with what it ran, or runs what was found."""
        call = Call(fingerprint("fail", id=decision_id, why=checked_comment(why)), key, actor)

        def fail(turn: Turn) -> None:
            record = self._read_model.decision(decision_id)
            if record.status == "failed":
                return
            _check_ordered(record, to="fail")
            at = self._standing.expiring(turn).now
            self._note(turn, record, "failed", at, comment=why or "no reason was given")
            if runs is not None:
                self.found(turn, record.station, runs, at)

        self._turns.run_once("order", call, fail)

    def listed(self) -> tuple[Manner, list[Listed]]:
        """Return who confirms orders, and what is ordered, then what is approved, with what holds orders up."""
        self.settle()
        with self._read_model.lock:
            self._turns.watched()
            records, time, stations = self._read_model.orders(), self._standing.reading(), self._read_model.stations
            holding = self._standing.guard.holding(
                [one.station for one in records if one.status == "ordered"], self._read_model.history, now=time.now,
                span=_NO_TIME, back={one.station for one in records if made_of(one) == "rolled back"}, doubt=time.doubt,
            )  # fmt: skip
            found = [Listed(i, stations[i.station].running, holding.get(i.station, (None,))[0]) for i in records]
            return self._read_model.manner, sorted(found, key=lambda one: one.record.status != "ordered")

    def overdue(self) -> list[Listed]:
        """Return what was ordered and not confirmed in time, as long as a confirmation still counts, for a day."""
        with self._read_model.lock:
            keys, stations = self._read_model.unconfirmed(self._standing.reading().now), self._read_model.stations
        records = list(self._read_model.in_order(keys))
        with self._read_model.lock:
            return [Listed(one, stations[one.station].running) for one in records if self._late(one)]

    # What time does

    def settle(self) -> bool:
        """Order what is due by now and let expire what is too late; whoever looks first does it, in one transaction."""
        with self._read_model.lock:
            self._turns.watched()
            if not any(True for _ in self._due(self._standing.reading())):
                return False

        def settle(turn: Turn) -> None:
            time = self._standing.expiring(turn)
            for one in list(self._due(time)):
                record = one.record
                self._note(turn, record, one.status, time.now, comment=one.why, verdict=one.verdict)
                if one.status in ("applied", "rolled back") and one.verdict is not None:
                    self._make(turn, record, one.verdict, time.now)

        self._turns.run(Call(fingerprint("settle")), settle)
        return True

    def _due(self, time: Reading) -> Iterator[Settled]:
        """Give what becomes now of changes that are approved or ordered; nothing for the others."""
        records = self._read_model.orders()
        if not records or time.doubt:
            return
        ready: list[DecisionRecord] = []
        guard, history = self._standing.guard, self._read_model.history
        stopped = guard.rails.stop or history.stopped is not None
        for record in records:
            if record.until is not None and time.now >= record.until:
                what = "confirmed" if record.status == "ordered" else "ordered"
                yield Settled(record, "expired", why=f"it was not {what} in time")
            elif record.status == "approved" and not stopped and not guard.shut(record.station, history, now=time.now):
                ready.append(record)
        verdicts = self.review(guard, ready, time) if ready else {}
        for record in ready:
            verdict = self._as_approved(record, verdicts[record.station])
            if verdict.at_once:
                yield Settled(record, status_of(verdict, self._read_model.manner), verdict)
            elif not verdict.changes and not OF_TIME.issuperset(verdict.codes):
                yield Settled(record, "refused", verdict, why=verdict.reason)

    def _as_approved(self, record: DecisionRecord, verdict: Verdict) -> Verdict:
        """Return a verdict on a change from what ran when it was approved; on any other the guard was not asked."""
        runs = self._read_model.stations[record.station].running
        if verdict.outcome == "rolled back" or runs != record.running:
            why = verdict.reason if verdict.outcome == "rolled back" else "it runs something else than when approved"
            refusal = Refusal("running", why)
            return Verdict(record.station, "refused", runs, runs, record.wanted, why, (refusal,))
        return verdict

    # What all of that is made of

    def pending(self, *, but: Sequence[DecisionRecord] = ()) -> dict[str, Pending]:
        """Return what is approved or ordered, by station, as the guard has to know it."""
        apart = {one.station for one in but}
        return pending_of(one for one in self._read_model.orders() if one.station not in apart)

    @traced("review")
    def review(self, guard: Guard, records: Sequence[DecisionRecord], time: Reading) -> dict[str, Verdict]:
        """Return what a guard says of changes, if all of them are to be made in this order."""
        running = self._read_model.stations
        proposals = [Proposal(one.station, running[one.station].running, (one.wanted,)) for one in records]
        return guard.review(
            proposals, self._read_model.history, now=time.now, doubt=time.doubt, pending=self.pending(but=records),
            later=True,
        )  # fmt: skip

    def give_up(self, turn: Turn, stations: Collection[str], at: datetime, *, why: str) -> None:
        """Let what is approved or ordered of some stations come to nothing."""
        for record in self._read_model.orders():
            if record.station in stations:
                self._note(turn, record, "expired", at, comment=why)

    def give_up_in(self, turn: Turn, mode: Mode, stations: Collection[str] | None) -> None:
        """Let come to nothing what another mode of its stations has overtaken: in shadow all, in assist what only the
        mode autonomous had approved.
        """
        for record in self._read_model.orders():
            overtaken = mode == "shadow" or (mode == "assist" and record.mode == "autonomous")
            if overtaken and (stations is None or record.station in stations):
                self._note(
                    turn, record, "expired", self._standing.expiring(turn).now, comment=f"its station is in {mode}"
                )

    def found(self, turn: Turn, station: str, arm: int, at: datetime) -> None:
        """Record what a station was found to run, where the record says something else."""
        state = self._read_model.stations[station]
        if arm != state.running:
            note = applied_note(arm, state.running, at, by="network", comment="as read from the network")
            turn.note("applied", note, station=station, decision=self._run_in_slot(turn, station, arm))

    def _run_in_slot(self, turn: Turn, station: str, arm: int | None) -> str | None:
        """Have the reward of a station's present slot learned for what it runs, and return the decision of the slot."""
        last = self._read_model.stations[station].last
        slot = None if last is None or not self._read_model.decisions[last].open else last
        if slot is not None and arm is not None:
            turn.controller.ran(slot, self._space[arm])
            turn.append()
        return slot

    def _note(
        self,
        turn: Turn,
        record: DecisionRecord,
        status: Status,
        at: datetime,
        *,
        comment: str = "",
        verdict: Verdict | None = None,
    ) -> None:
        said: dict[str, Any] = {"status": status, "at": at.isoformat(), "comment": comment}
        said |= {} if verdict is None else {"verdict": verdict.to_dict()}
        said |= times_of(status, verdict, at, until=self._until(record, at)) if status == "ordered" else {}
        turn.note("order", said, station=record.station, decision=record.id)

    def _until(self, record: DecisionRecord, at: datetime) -> datetime:
        return self._standing.guard.lasting(record.station, self._read_model.history, now=at)

    def _make(
        self, turn: Turn, record: DecisionRecord, verdict: Verdict, at: datetime, *, reported: bool = False
    ) -> None:
        """Record that a station runs what was ordered; the reward of its present slot is learned for that."""
        state, slot = self._read_model.stations[record.station], self._run_in_slot(turn, record.station, verdict.arm)
        by = "roll-back" if verdict.outcome == "rolled back" else "controller"
        note = applied_note(verdict.arm, state.running, at, by=by) | {"order": record.id}
        turn.note("applied", note | ({"reported": True} if reported else {}), station=record.station, decision=slot)

    def _waiting(self, decision_id: str) -> DecisionRecord:
        record = self._read_model.decision(decision_id)
        if record.status != "waiting":
            raise ConflictError(
                f"decision {record.id} of {record.station!r} does not wait for anybody: it is {record.status}"
                f"{_since(record)}"
            )
        return record

    def _approved(self, decision_id: str) -> DecisionRecord:
        record = self._read_model.decision(decision_id)
        if record.status != "approved":
            raise ConflictError(
                f"decision {record.id} of {record.station!r} is not approved any more, or not yet: it is "
                f"{record.status}{_since(record)}",
                hint="what is ordered already is undone by a roll-back",
                code="not_approved",
                argument="decisions",
                value=record.id,
            )
        return record

    def _late(self, record: DecisionRecord) -> bool:
        """Whether an order has expired and may have been carried out all the same."""
        state, ordered = self._read_model.stations[record.station], any(s.status == "ordered" for s in record.steps)
        still = state.active and state.running == record.running and self._read_model.order(record.station) is None
        return record.status == "expired" and ordered and still


def pending_of(records: Iterable[DecisionRecord]) -> dict[str, Pending]:
    """Return what is approved or ordered, by station, as the guard has to know it."""
    return {
        one.station: Pending(f"its change {one.id} is {one.status} and not made yet", one.status == "ordered")
        for one in records
    }


def _check_ordered(record: DecisionRecord, *, to: str) -> None:
    """Refuse to confirm or fail what is not ordered, with what it is and who brought it there."""
    if record.status == "ordered":
        return
    named, now = f"decision {record.id} of {record.station!r}", f"it is {record.status}{_since(record)}"
    if any(step.status == "ordered" for step in record.steps):
        raise ConflictError(
            f"{named} is no longer ordered, so there is nothing to {to}: {now}",
            hint="report what the station runs by applied()",
            code="order_over",
            argument="decision",
            value=record.id,
        )
    raise ConflictError(
        f"{named} is not ordered, so there is nothing to {to}: {now}",
        hint="GET /v1/orders lists what is ordered",
        code="not_ordered",
        argument="decision",
        value=record.id,
    )


def _since(record: DecisionRecord) -> str:
    """Return since when a decision is what it is, and by whom, as far as its own events say."""
    if not record.steps or record.steps[-1].status != record.status:
        return ""
    last = record.steps[-1]
    return f" since {last.at:%Y-%m-%d %H:%M} UTC{f', by {last.actor!r:.60}' if last.actor else ''}"
