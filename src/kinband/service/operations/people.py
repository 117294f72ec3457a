"""What people do: approve and reject, roll back, set modes and rails, freeze, stop. Every act is an event."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from kinband.errors import BadInputError, ConflictError
from kinband.guard import Frozen, Guard, Proposal, Resumed, Stopped, Thawed, Verdict
from kinband.guard.review import Event as GuardEvent
from kinband.service.ledger.requests import call_digest
from kinband.service.ledger.turns import Call, Turn
from kinband.service.operations.deciding import Deciding
from kinband.service.operations.records import Card, Item, Mode, RailsOnRecord, Status, checked_mode
from kinband.service.operations.reviewing import applied_note
from kinband.service.operations.texts import checked_comment, digest_of, rails_of

_NO_REASON = "no reason was given"

_ROLLED_BACK: Mapping[Status, Status] = {"applied": "rolled back", "kept": "rolled back", "waiting": "expired"}
"""What becomes of the present decision when its station is rolled back; the others led to nothing."""


class People(Deciding):
    """The part of operations that people have in their hands."""

    def approve(self, ids: Sequence[str], *, comment: str = "", key: str | None = None, actor: str = "") -> list[Item]:
        """Carry out decisions that wait, in this order, as far as the guard lets them now.

        The guard reviews them again: it may be hours since it did. It never puts another configuration in the place of
        the one that was approved; what it refuses is answered with the status "refused" and the reason.
        """
        return self._judge(ids, approved=True, comment=comment, key=key, actor=actor)

    def reject(self, ids: Sequence[str], *, comment: str = "", key: str | None = None, actor: str = "") -> list[Item]:
        """Leave the stations of decisions that wait as they are."""
        return self._judge(ids, approved=False, comment=comment, key=key, actor=actor)

    def _judge(self, ids: Sequence[str], *, approved: bool, comment: str, key: str | None, actor: str) -> list[Item]:
        listed = _names(ids, "ids")
        if not listed:
            raise BadInputError("no decision was named: give the ids of those that wait")
        call = Call(call_digest("judge", ids=listed, approved=approved, comment=checked_comment(comment)), key, actor)
        with self.turns.mutex:
            with self.turns.turn(call) as turn:
                if turn.answered("approval") is None:
                    items, at = [self._waiting(decision_id) for decision_id in listed], self.now()
                    verdicts = self._reviewed_again(self.guard_in_force(), items, at) if approved else {}
                    for item in items:
                        self._note_judgement(turn, item, verdicts.get(item.station), comment=comment, at=at)
            return self._items(listed)

    def _waiting(self, decision_id: str) -> Item:
        item = self.picture.item(decision_id)
        if item.status != "waiting":
            raise ConflictError(
                f"decision {item.id} of {item.station!r} does not wait for anybody: it is {item.status}"
            )
        return item

    def _reviewed_again(self, guard: Guard, items: Sequence[Item], at: datetime) -> dict[str, Verdict]:
        """Return what a guard says of what waits, if all of it is approved in this order."""
        proposals = [Proposal(i.station, self.picture.cards[i.station].running, (i.wanted,)) for i in items]
        return guard.review(proposals, self.picture.history, now=at)

    def _note_judgement(self, turn: Turn, item: Item, verdict: Verdict | None, *, comment: str, at: datetime) -> None:
        """Record what a person said of a decision, and carry it out."""
        said: dict[str, Any] = {"approved": verdict is not None, "comment": comment, "status": _status(verdict)}
        said |= {"verdict": None if verdict is None else verdict.to_dict(), "at": at.isoformat()}
        turn.note("approval", said, station=item.station, decision=item.id)
        if verdict is None or not verdict.changes or verdict.arm is None:
            return
        turn.controller.ran(item.id, self.guard.space[verdict.arm])
        turn.append()
        by = "roll-back" if verdict.outcome == "rolled back" else "controller"
        note = applied_note(verdict.arm, verdict.running, at, by=by)
        turn.note("applied", note, station=item.station, decision=item.id)

    def roll_back(self, station: str, *, comment: str = "", key: str | None = None, actor: str = "") -> Card:
        """Have a station run again what it ran before its last change; what a person does no rail holds up.

        Called again, it goes further back, change by change. The decision of the present slot, if its reward is
        awaited, is called off: it earned part of it with another configuration.
        """
        call = Call(call_digest("roll_back", station=station, comment=checked_comment(comment)), key, actor)
        with self.turns.mutex:
            with self.turns.turn(call) as turn:
                if turn.answered("applied") is None:
                    self._roll_back(turn, self.picture.card(station), comment=comment)
            return self.picture.card(station)

    def _roll_back(self, turn: Turn, card: Card, *, comment: str) -> None:
        if card.before is None or not card.active:
            why = "no change of it is on record" if card.active else "it was removed"
            raise ConflictError(f"there is nothing to roll back at {card.station!r}: {why}")
        item = None if card.last is None else self.picture.items[card.last]
        current = item if item is not None and item.open else None
        status = None if current is None else _ROLLED_BACK.get(current.status)
        note = applied_note(card.before, card.running, self.now(), by="operator", comment=comment, status=status)
        turn.note("applied", note, station=card.station, decision=None if current is None else current.id)
        if current is not None:
            turn.controller.call_off(current.id)
            turn.append()

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
        call = Call(call_digest("mode", mode=checked, stations=listed, comment=checked_comment(comment)), key, actor)
        with self.turns.turn(call) as turn:
            if turn.answered("mode") is None:
                for station in listed or ():
                    self.picture.card(station)
                name = listed[0] if listed is not None and len(listed) == 1 else ""
                said = {"mode": checked, "stations": listed, "comment": comment}
                turn.note("mode", said, station=name)

    def check_rails(self, text: str) -> list[Item]:
        """Return what waits and would be refused under other rails, with their verdict; nothing is changed.

        Args:
            text: The rails, as in their file; what is wrong with them is an error with the line.
        """
        guard = self._guard_of(text)
        with self.turns.mutex:
            self.turns.watched()
            items = self.picture.waiting()
            verdicts = self._reviewed_again(guard, items, self.now())
        refused = [item for item in items if verdicts[item.station].arm != item.wanted]
        return [replace(item, verdict=verdicts[item.station]) for item in refused]

    def set_rails(
        self, text: str, *, comment: str = "", replaces: str | None = None, key: str | None = None, actor: str = ""
    ) -> RailsOnRecord:
        """Put rails in force, for the next decision in every process; those that hold already are not put there again.

        Args:
            text: The rails, as in their file; what is wrong with them is an error with the line.
            comment: Why, for the record.
            replaces: Digest of the rails that they are meant to replace; refused where others are in force by now.
            key: The key of this call.
            actor: Who does it.
        """
        self._guard_of(text)
        call = Call(call_digest("rails", text=text, comment=checked_comment(comment), replaces=replaces), key, actor)
        said = {"digest": digest_of(text), "text": text, "comment": comment, "by": "person"}
        with self.turns.mutex:
            with self.turns.turn(call) as turn:
                if turn.answered("rails") is None:
                    self._check_replaced(replaces)
                    if said["digest"] != self.picture.rails.digest:
                        turn.note("rails", said)
            return self.picture.rails

    def _guard_of(self, text: str) -> Guard:
        with self.turns.mutex:
            self.turns.watched()
            stations = list(self.picture.cards)
        span = self.durable.settings.reward_range
        return Guard(rails_of(text, self.guard.space, stations=stations, reward_range=span), self.guard.space)

    def _check_replaced(self, digest: str | None) -> None:
        present = self.picture.rails
        if digest is not None and digest != present.digest:
            who = f" by {present.actor}" if present.actor else ""
            found = f"{present.digest or 'none'} in place of {digest or 'none':.60}"
            raise ConflictError(f"other rails were put in force{who} meanwhile, {found}: read those first")

    def freeze(self, station: str, *, why: str = "", key: str | None = None, actor: str = "") -> None:
        """Leave a station alone until it is thawed."""
        self._switch(
            Frozen(self.now(), station, why=checked_comment(why) or _NO_REASON),
            {"station": station, "why": why},
            key,
            actor,
        )

    def thaw(self, station: str, *, why: str = "", key: str | None = None, actor: str = "") -> None:
        """Let a station that a person froze be changed again."""
        self._switch(
            Thawed(self.now(), station), {"station": station, "thaw": checked_comment(why)}, key, actor, comment=why
        )

    def stop(self, *, why: str = "", key: str | None = None, actor: str = "") -> None:
        """Stop everything: nothing changes any more, no roll-back either."""
        self._switch(Stopped(self.now(), why=checked_comment(why) or _NO_REASON), {"why": why}, key, actor)

    def resume(self, *, why: str = "", key: str | None = None, actor: str = "") -> None:
        """Take a stop back; the stop switch of the rails is another one."""
        self._switch(Resumed(self.now()), {"resume": checked_comment(why)}, key, actor, comment=why)

    def _switch(
        self, event: GuardEvent, said: Mapping[str, Any], key: str | None, actor: str, *, comment: str = ""
    ) -> None:
        call = Call(call_digest(type(event).__name__, **said), key, actor)
        with self.turns.turn(call) as turn:
            if turn.answered("switch") is None:
                station = said.get("station", "")
                if station:
                    self.picture.card(station)
                payload = {"event": event.to_dict(), "comment": comment or said.get("why", "")}
                turn.note("switch", payload, station=station)


def _names(given: object, what: str) -> list[str]:
    """Return names once each, in their order."""
    if isinstance(given, str) or not isinstance(given, Sequence) or not all(isinstance(name, str) for name in given):
        raise BadInputError(f"{what} must be a list of names, got {given!r:.60}")
    return list(dict.fromkeys(given))


def _status(verdict: Verdict | None) -> Status:
    if verdict is None:
        return "rejected"
    if verdict.outcome == "rolled back":
        return "rolled back"
    return "applied" if verdict.changes else ("refused" if verdict.outcome == "refused" else "kept")
