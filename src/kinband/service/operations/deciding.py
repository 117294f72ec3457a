"""Asking and telling on record: a round of decisions with its verdicts in one transaction, and what rewards do.

Whatever a call records (decisions, verdicts, changes carried out) is recorded together or not at all, so that no
decision is ever without a verdict, and no verdict without the change that it allowed.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from kinband.controller import Controller
from kinband.controller.asking import State
from kinband.controller.telling import KpiValues
from kinband.errors import BadInputError, ConflictError
from kinband.guard import Changed, Guard
from kinband.records import Decision
from kinband.service.ledger import DurableController
from kinband.service.ledger.requests import Request, ask_alone, ask_round, call_digest, requests_of
from kinband.service.ledger.turns import Call, Turn, Turns
from kinband.service.operations.picture import Picture
from kinband.service.operations.records import Item
from kinband.service.operations.reviewing import (
    Review,
    applied_note,
    applied_notes,
    check_known,
    check_repeated,
    reported,
)
from kinband.service.operations.texts import checked_comment
from kinband.space import Allowed


class Deciding(ABC):
    """The part of operations that decides and learns.

    Attributes:
        durable: The controller on record.
        guard: The rails that this process knows; `guard_in_force` follows those on record.
        picture: What the events show.
        turns: What keeps controller, picture and ledger as one.
    """

    durable: DurableController
    guard: Guard
    picture: Picture
    turns: Turns

    @abstractmethod
    def now(self) -> datetime:
        """Return the time, UTC."""

    @abstractmethod
    def guard_in_force(self) -> Guard:
        """Return the guard with the rails last put on record, by whichever process."""

    def ask(
        self,
        states: Mapping[str, State],
        *,
        slot: str | None = None,
        running: Mapping[str, Mapping[str, Any]] | None = None,
        allowed: Mapping[str, Allowed] | None = None,
        time: Any = None,
        key: str | None = None,
        actor: str = "",
    ) -> list[Item]:
        """Decide for some stations together, let the guard review it, and do what the stations' modes say.

        Args:
            states: State features by station.
            slot: The caller's name of the slot; a station has one decision a slot.
            running: What stations run, where that is another configuration than the record says.
            allowed: Which configurations may be chosen, by station.
            time: When, for a controller whose clock is set.
            key: The key of this call, under which it is done once.
            actor: Who asks.
        """
        return self.decide(
            states, slot=slot, running=running, allowed=allowed, time=time, key=key, actor=actor
        )[0]  # fmt: skip

    def decide(
        self,
        states: Mapping[str, State],
        *,
        slot: str | None = None,
        running: Mapping[str, Mapping[str, Any]] | None = None,
        allowed: Mapping[str, Allowed] | None = None,
        time: Any = None,
        key: str | None = None,
        actor: str = "",
    ) -> tuple[list[Item], bool]:
        """Return what `ask` does, and whether any of it was decided now and not answered from the record."""
        asked = requests_of(self.guard.space, states, None, allowed=allowed, running=running, time=time)
        call = Call(call_digest("ask", requests=asked, slot=slot), key, actor, slot)
        with self.turns.mutex:
            with self.turns.turn(call) as turn:
                made = self._made_before(turn, asked)
                missing = {station: request for station, request in asked.items() if station not in made}
                if missing:
                    made |= {station: decision.id for station, decision in self._decided(turn, missing).items()}
            return [self.picture.items[made[station]] for station in asked], bool(missing)

    def _made_before(self, turn: Turn, asked: Mapping[str, Request]) -> dict[str, str]:
        """Return what was decided by the same call before, or for the same slot, as ids by station."""
        made = _made_by_key(turn)
        found = turn.decided_for([station for station in asked if station not in made])
        timed = self.durable.settings.clock_column is not None
        check_repeated(asked, found, self.picture.cards, space=self.guard.space, timed=timed)
        return {station: str(event.decision) for station, event in found.items()} | made

    def _decided(self, turn: Turn, asked: Mapping[str, Request]) -> dict[str, Decision]:
        """Decide for stations that have no decision yet, and record what becomes of it."""
        at, controller = self.now(), turn.controller
        informed = {station: self._informed(controller, station, request) for station, request in asked.items()}
        by_hand = self._changed_by_hand(informed)
        if len(informed) == 1:
            [(station, request)] = informed.items()
            decisions = {station: ask_alone(controller, station, request)}
        else:
            decisions = ask_round(controller, informed)
        turn.append(informed)
        for station, (arm, before) in by_hand.items():
            turn.note("applied", applied_note(arm, before, at, by="network"), station=station)
        self._review(turn, decisions, informed, by_hand, at)
        return decisions

    def _review(
        self,
        turn: Turn,
        decisions: Mapping[str, Decision],
        asked: Mapping[str, Request],
        by_hand: Mapping[str, tuple[int, int | None]],
        at: datetime,
    ) -> None:
        changes = [
            Changed(at, station, arm=arm, before=before, by="operator")
            for station, (arm, before) in by_hand.items()
            if before is not None
        ]
        cards = {s: replace(self.picture.cards[s], running=asked[s].running) for s in decisions}
        review = Review(self.guard_in_force(), self.picture.history.after(changes), cards, turn.controller, at)
        reviewed = review.of(decisions, asked)
        for one in reviewed:
            if one.arm is not None and one.arm != one.decision.arm:
                turn.controller.ran(one.decision.id, self.guard.space[one.arm])
        turn.append()
        for one in reviewed:
            turn.note("verdict", one.note(at), station=one.decision.station, decision=one.decision.id)
        for one, note in applied_notes(reviewed, at):
            turn.note("applied", note, station=one.decision.station, decision=one.decision.id)

    def _informed(self, controller: Controller, station: str, request: Request) -> Request:
        """Return a question that says what its station runs, as far as that is known."""
        controller.in_force.task(station)  # says what is wrong with the name, if anything is
        card = self.picture.card(station)
        runs = card.running if request.running is None else request.running
        if card.mode != "autonomous":
            check_known(station, runs, why=f"in mode {card.mode} it goes on with it")
        return replace(request, running=runs)

    def _changed_by_hand(self, asked: Mapping[str, Request]) -> dict[str, tuple[int, int | None]]:
        """Return the stations that run something else than the guard's history says, with what they run and ran."""
        found: dict[str, tuple[int, int | None]] = {}
        for station, request in asked.items():
            latest = self.picture.history.latest(station)
            before = self.picture.card(station).running if latest is None else latest.arm
            if request.running is not None and request.running != before:
                found[station] = request.running, before
        return found

    def tell(
        self,
        rewards: Mapping[str, float] | None = None,
        *,
        noise: Mapping[str, float] | None = None,
        kpis: Mapping[str, KpiValues] | None = None,
        others: KpiValues | None = None,
        key: str | None = None,
        actor: str = "",
    ) -> list[Item]:
        """Learn what decisions earned, by their ids, all or nothing; see `Controller.tell_all`."""
        said: dict[str, Any] = {"rewards": rewards, "noise": noise, "kpis": kpis, "others": others}
        call, ids = Call(call_digest("tell", **said), key, actor), [*(rewards or {}), *(kpis or {})]

        def learn(controller: Controller) -> None:
            self._check_whole(ids)
            controller.tell_all(**said)

        with self.turns.mutex:
            self.turns.do("outcome", call, learn)
            return self._items(ids)

    def _check_whole(self, ids: list[str]) -> None:
        """Refuse rewards of slots in which a person, not the guard, rolled back: two configurations earned them."""
        for item in (self.picture.items[key] for key in ids if key in self.picture.items):
            by_guard = item.verdict is not None and item.verdict.outcome == "rolled back"
            if item.status == "rolled back" and not by_guard:
                raise ConflictError(
                    f"decision {item.id} of {item.station!r} was rolled back within its slot, so that two "
                    "configurations earned its reward: leave it out"
                )

    def correct(
        self,
        decision_id: str,
        reward: float | None = None,
        *,
        kpis: KpiValues | None = None,
        key: str | None = None,
        actor: str = "",
    ) -> Item:
        """Put a reward right that was told before; see `Controller.correct`."""
        with self.turns.mutex:
            self.durable.correct(decision_id, reward, kpis=kpis, key=key, actor=actor)
            return self._items([decision_id])[0]

    def call_off(self, decision_id: str, *, key: str | None = None, actor: str = "") -> Item:
        """Say that a reward will not come."""
        with self.turns.mutex:
            self.durable.call_off(decision_id, key=key, actor=actor)
            return self._items([decision_id])[0]

    def applied(
        self,
        decision_id: str,
        configuration: Mapping[str, Any] | None = None,
        *,
        comment: str = "",
        key: str | None = None,
        actor: str = "",
    ) -> Item:
        """Say what a station really runs in the slot of a decision, as the network reports it.

        Its reward is learned for that. A change that was not carried out is taken back: it does not count as one, and
        its decision is "not made". What was reported last is not recorded again.

        Args:
            decision_id: The decision.
            configuration: What it runs; None for what it was told to run (`Item.ordered`).
            comment: Anything worth keeping.
            key: The key of this call.
            actor: Who reports.
        """
        arm = None if configuration is None else _arm_of(configuration, self.guard.space.index)
        call = Call(call_digest("applied", id=decision_id, arm=arm, comment=checked_comment(comment)), key, actor)
        with self.turns.mutex:
            with self.turns.turn(call) as turn:
                if turn.answered("applied") is None:
                    self._report(turn, self.picture.item(decision_id), arm, comment=comment)
            return self._items([decision_id])[0]

    def _report(self, turn: Turn, item: Item, arm: int | None, *, comment: str) -> None:
        """Record what a station runs in the slot of its present decision."""
        self._check_last(item)
        runs, card = item.ordered if arm is None else arm, self.picture.cards[item.station]
        if self.picture.reported(item.station) == (item.id, runs, comment):
            return
        if runs is not None:
            turn.controller.ran(item.id, self.guard.space[runs])
            turn.append()
        note = reported(item, card, runs, self.now(), comment=comment)
        turn.note("applied", note, station=item.station, decision=item.id)

    def _check_last(self, item: Item) -> None:
        """Refuse reports on what a station ran in a slot that is over."""
        card = self.picture.cards[item.station]
        if card.last != item.id or not item.open or not card.active:
            raise ConflictError(
                f"decision {item.id} is not the present one of {item.station!r}: say what it runs when asking next"
            )

    def _items(self, ids: list[str]) -> list[Item]:
        with self.turns.mutex:
            self.turns.watched()
            return [self.picture.item(key) for key in dict.fromkeys(ids)]


def _made_by_key(turn: Turn) -> dict[str, str]:
    """Return what was decided by the same call before, as ids by station."""
    found = turn.answered("decision")
    if found is None:
        return {}
    together = found.round
    decisions = (one.decision for one in turn.controller.journal.asked.values())
    same = [d for d in decisions if d.id == found.decision or (together is not None and d.round == together)]
    return {d.station: d.id for d in same}


def _arm_of(configuration: Mapping[str, Any], index: Any) -> int:
    try:
        return int(index(configuration))
    except (LookupError, ValueError) as error:
        raise BadInputError(f"this is no configuration of the space: {error}") from error
