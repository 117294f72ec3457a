"""The picture of operations: what every station runs, in which mode, what became of every decision.

It follows from the events of the ledger alone, in their order, so that every process that reads the same ledger has the
same picture, and a restart brings it back. Nothing in it is ever decided here.

A decision without a verdict was made before operations began, or past them: it is taken to have run, as a controller
takes it, and counts in no sums, since nobody knows when its slot was.
"""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from kinband.controller import Settings
from kinband.controller.events import Asked, CalledOff, Corrected, Entry, Joined, Left, Ran, Returned, Told
from kinband.drift import CLOCK
from kinband.guard import CalledOff as TakenBack
from kinband.guard import Changed, Verdict, event_from
from kinband.guard.review import By
from kinband.service.ledger import Event
from kinband.service.operations.earnings import Earnings
from kinband.service.operations.records import Card, Item, RailsOnRecord, Status, checked_mode
from kinband.service.operations.trails import Trail
from kinband.service.operations.views import Change

_TO_THE_GUARD: Mapping[str, By] = {"controller": "controller", "roll-back": "roll-back", "operator": "roll-back"}
"""Who changed a station, as rails see it: what a person rolls back is not tried again at once. Others are operators."""


class Picture(Earnings):
    """What the events of a ledger show. It is kept up by `Operations`; look at it through `Operations.looking`.

    Args:
        settings: What the controller was made with.

    Example:
        >>> from kinband import ConfigurationSpace, Controller
        >>> controller = Controller(ConfigurationSpace(tilt=[2, 4]), ["a", "b"], running={"tilt": 4})
        >>> picture = Picture(controller.settings)
        >>> [(card.station, card.mode, card.running) for card in picture.cards.values()]
        [('a', 'shadow', 1), ('b', 'shadow', 1)]
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self.begin()

    def begin(self) -> None:
        """Forget everything; stations run what was declared for them."""
        super().__init__()
        for station in self._settings.stations:
            fixed = self._settings.running.get(station)
            self.cards[station] = Card(station, self.mode, running=fixed, fixed=fixed)

    def take(self, event: Event, entry: Entry | None) -> None:
        """Take in a recorded event."""
        self.seq = event.seq
        if entry is not None:
            self._take_entry(event, entry)
        elif (taking := self._notes.get(event.kind)) is not None:
            taking(self, event, event.payload)

    # What the controller did

    def _take_entry(self, event: Event, entry: Entry) -> None:
        match entry:
            case Asked():
                self._take_decision(event, entry)
            case Ran():
                self._update(entry.id, arm=entry.arm)
                self._runs_on(entry.id)
            case Told():
                self._take_reward(entry)
            case Corrected():
                self._take_correction(entry)
            case CalledOff():
                self._take_call_off(entry)
            case Joined():
                self.cards[entry.station] = Card(entry.station, self.mode, running=entry.running, fixed=entry.running)
            case Left():
                self._take_leave(entry)
            case Returned():
                self._take_return(entry)

    def _take_decision(self, event: Event, entry: Asked) -> None:
        """Take in a decision; what becomes of it is said by the verdict that follows."""
        decision, card = entry.decision, self.card(entry.decision.station)
        if card.last is not None:
            self._expire(card.last)
        at = datetime.fromisoformat(event.at)
        self.items[decision.id] = Item(
            decision, event.seq, at, event.slot, card.mode, "applied", None,
            running=card.running, arm=decision.arm, baseline=self._expected(decision), actor=event.actor,
        )  # fmt: skip
        state = {} if entry.state is None else dict(entry.state)
        card.last, card.clock, card.state = decision.id, state.pop(CLOCK, None), state
        card.running = decision.arm
        card.slots.append(decision.id)
        self._count("decisions")
        self._count("pending")

    def _take_call_off(self, entry: CalledOff) -> None:
        self._expire(entry.id)
        self._count("pending", -int(not self.items[entry.id].called_off))
        self._update(entry.id, called_off=True)
        self._runs_on(entry.id)

    def _runs_on(self, key: str) -> None:
        """What a station runs whose last decision has no verdict: what it ran last, as a controller takes it."""
        card = self.cards[self.items[key].station]
        if card.last is None or self.items[card.last].verdict is not None:
            return
        known = (self.items[slot] for slot in reversed(card.slots))
        ran = (item.arm for item in known if not item.called_off or item.arm != item.decision.arm)
        card.running = next(ran, card.fixed)

    def _take_leave(self, entry: Left) -> None:
        card = self.cards[entry.station]
        card.active = False
        if card.last is not None:
            self._expire(card.last)

    def _take_return(self, entry: Returned) -> None:
        card = self.cards[entry.station]
        card.active = True
        if entry.running is not None and entry.running != card.running:
            self._trails[entry.station] = Trail()
            card.running, card.before, card.changed, card.changed_by = entry.running, None, None, ""

    # What guard and people did

    def _take_verdict(self, event: Event, said: Mapping[str, Any]) -> None:
        verdict, item = Verdict.from_dict(said["verdict"]), self.items[str(event.decision)]
        status, at = said["status"], datetime.fromisoformat(said["at"])
        card = self.cards[item.station]
        card.running = verdict.running
        card.fixed = verdict.running if card.fixed is None else card.fixed
        baseline = self._expected(item.decision) if item.baseline is None else item.baseline
        self._count(status)
        if verdict.outcome not in ("allowed", status):
            self._count(verdict.outcome)
        self._update(
            item.id, verdict=verdict, status=status, mode=said["mode"], at=at, running=verdict.running,
            baseline=baseline,
        )  # fmt: skip
        if status == "waiting":
            self._waiting[item.id] = None

    def _take_approval(self, event: Event, said: Mapping[str, Any]) -> None:
        key, status = str(event.decision), said["status"]
        verdict = self.items[key].verdict if said["verdict"] is None else Verdict.from_dict(said["verdict"])
        self._waiting.pop(key, None)
        self._count(status)
        if said["approved"]:
            self._count("approved")
        self._update(key, verdict=verdict, status=status, comment=said["comment"], decided_by=event.actor)

    def _take_applied(self, event: Event, said: Mapping[str, Any]) -> None:
        """Take in what a station runs, by whomever, or that its last change was not carried out after all."""
        card, at = self.cards[event.station], datetime.fromisoformat(said["at"])
        arm, before, by = said["arm"], said["before"], said["by"]
        self._changes[card.station].append(Change(at, arm, before, by, event.actor))
        trail = self._trails.get(card.station, Trail())
        known = before is not None or by != "network"  # else it was only found out what the station runs
        if said.get("taken_back"):
            self._fresh.append(TakenBack(at, card.station))
            trail = trail.taken_back()
        elif arm != before and known:
            to_guard = _TO_THE_GUARD.get(by, "operator")
            self._fresh.append(Changed(at, card.station, arm=arm, before=before, by=to_guard))
            trail = trail.after(arm, before=before, at=at, by=by)
        self._trails[card.station] = trail
        self._note_report(event, said)
        card.fixed = before if card.fixed is None else card.fixed
        card.running, card.before, card.changed, card.changed_by = arm, trail.before, trail.changed, trail.by
        if event.decision is not None:
            self._take_report(event.decision, event.actor, said, at)

    def _note_report(self, event: Event, said: Mapping[str, Any]) -> None:
        """Keep the last word of the network on what a station runs; what is changed by others is a report no more."""
        if said.get("reported", said["by"] == "network"):
            self._reported[event.station] = event.decision, said["arm"], said["comment"]
        else:
            self._reported.pop(event.station, None)

    def _take_report(self, key: str, actor: str, said: Mapping[str, Any], at: datetime) -> None:
        """Take in what an application says of its decision: what becomes of it, and since when it runs."""
        if said["by"] != "operator" and said["arm"] != said["before"]:
            self._began[key] = at  # its reward is that of what runs since: it is none of before the change
        if said.get("taken_back"):
            self._began.pop(key, None)
        if said["by"] == "operator":
            self._update(key, arm=said["arm"])  # what a person put back is what the station is to run
        if said["comment"]:
            self._update(key, comment=said["comment"])
        status: Status | None = said.get("status", "not made" if said.get("taken_back") else None)
        if status is not None:
            decided = {} if "not made" in (status, self.items[key].status) else {"decided_by": actor}
            self._waiting.pop(key, None)
            self._count(status)
            self._update(key, status=status, **decided)

    def _take_mode(self, _: Event, said: Mapping[str, Any]) -> None:
        mode, stations = checked_mode(said["mode"]), said["stations"]
        self.moded = True
        if stations is None:
            self.mode = mode
        for name in self.cards if stations is None else stations:
            self.cards[name].mode = mode
        if mode != "assist":
            for item in self.waiting():
                if self.cards[item.station].mode != "assist":
                    self._expire(item.id)

    def _take_switch(self, _: Event, said: Mapping[str, Any]) -> None:
        self._fresh.append(event_from(said["event"]))
        frozen = self.history.frozen
        for name, card in self.cards.items():
            card.frozen = frozen.get(name)

    def _take_rails(self, event: Event, said: Mapping[str, Any]) -> None:
        at = datetime.fromisoformat(event.at)
        self.rails = RailsOnRecord(said["text"], said["digest"], at, event.actor, said.get("comment", ""))

    _notes: Mapping[str, Callable[["Picture", Event, Mapping[str, Any]], None]] = {
        "verdict": _take_verdict,
        "approval": _take_approval,
        "applied": _take_applied,
        "mode": _take_mode,
        "switch": _take_switch,
        "rails": _take_rails,
    }
