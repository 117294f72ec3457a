"""A controller with a ledger under it: what it has answered survives, and several processes may share it.

Every call is a turn (`turns`): what others have recorded is taken in, the controller decides or learns, what that adds
to its journal is committed to the ledger, and only then the call returns. So an answer that was given is on record, and
nobody ever sees what was not recorded.

A call may carry a `key`: sent again with the same key, because an answer was lost, it is answered from the record and
does nothing twice. A decision may carry a `slot`, the caller's name for the time it is for: a station has one decision
a slot, whoever asks.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from numpy.typing import ArrayLike

from kinband.controller import Controller, Explanation, Settings
from kinband.controller.asking import State
from kinband.controller.explain import MOST_ROWS
from kinband.controller.stations import similarities_of
from kinband.controller.telling import KpiValues
from kinband.errors import BadInputError
from kinband.policies import PolicyFactory
from kinband.records import Decision
from kinband.service.ledger.events import NOTES, Draft, Event, draft_of
from kinband.service.ledger.origin import read_settings, write_settings
from kinband.service.ledger.requests import Request, ask_alone, ask_round, call_digest, requests_of
from kinband.service.ledger.store import Ledger, Writer
from kinband.service.ledger.turns import Call, Turns, Watcher
from kinband.space import Allowed


class DurableController:
    """The same `Controller`, on record. Use `DurableController.open`.

    Arguments that all calls share: `key`, under which a call is done once however often it is sent; `actor`, who does
    it, for the record. Several threads may use it.

    Example:
        >>> import tempfile
        >>> from kinband import ConfigurationSpace
        >>> from kinband.service.ledger import Ledger
        >>> folder = tempfile.TemporaryDirectory()
        >>> ledger = Ledger.open(f"{folder.name}/ledger.db")
        >>> controller = Controller(ConfigurationSpace(tilt=[2, 4]), ["a", "b"])
        >>> durable = DurableController.open(ledger, controller)
        >>> decision = durable.ask("a", slot="monday")
        >>> durable.ask("a", slot="monday").id == decision.id
        True
        >>> durable.tell(decision.id, 0.8)
        >>> [event.kind for event in ledger.read()]
        ['started', 'decision', 'outcome']
        >>> len(DurableController.open(ledger).controller)
        1
        >>> ledger.close()
        >>> folder.cleanup()
    """

    def __init__(self, turns: Turns) -> None:
        self._turns = turns

    @classmethod
    def open(
        cls,
        ledger: Ledger,
        start: Settings | Controller | None = None,
        *,
        policy: PolicyFactory | None = None,
        snapshot_every: int = 1000,
        watcher: Watcher | None = None,
        actor: str = "",
    ) -> "DurableController":
        """Go on with the controller of a ledger, or start one.

        Args:
            ledger: Where it is on record.
            start: What to start an empty ledger with: settings, or a controller, whose journal is taken over. A ledger
                that is not empty must have been started with the same settings.
            policy: The factory of a policy of your own, which cannot be stored.
            snapshot_every: After how many events beliefs are stored, so that a restart is quick.
            watcher: Who follows all events beside the controller.
            actor: Who starts it.
        """
        if isinstance(snapshot_every, bool) or not isinstance(snapshot_every, int) or snapshot_every < 1:
            raise BadInputError(f"snapshot_every must be a whole number from 1 on, got {snapshot_every!r}")
        if start is not None:
            with ledger.writing() as writer:
                _begin(writer, start, actor=actor)
        settings = read_settings(ledger, policy=policy)
        durable = cls(Turns(ledger, settings, snapshot_every=snapshot_every, watcher=watcher))
        durable.refresh()
        return durable

    @property
    def turns(self) -> Turns:
        """What keeps controller and ledger as one, for calls that record more than a controller does."""
        return self._turns

    @property
    def ledger(self) -> Ledger:
        """Where it is on record."""
        return self._turns.ledger

    @property
    def settings(self) -> Settings:
        """What the controller was made with; fixed."""
        return self._turns.settings

    @property
    def controller(self) -> Controller:
        """The controller as of the last call, to look at; `refresh` brings it up to what others have recorded."""
        with self._turns.mutex:
            return self._turns.present()

    def refresh(self) -> None:
        """Take in what others have recorded since."""
        self._turns.refresh()

    def ask(
        self,
        station: str,
        state: State | None = None,
        *,
        contexts: ArrayLike | None = None,
        allowed: Allowed = None,
        running: Mapping[str, Any] | None = None,
        time: Any = None,
        slot: str | None = None,
        key: str | None = None,
        actor: str = "",
    ) -> Decision:
        """Decide for one station; see `Controller.ask`. Once it returns, the decision is on record.

        Args:
            station: Whom to decide for.
            state: Its state features by name.
            contexts: Instead of a state, one feature row per arm, (N, d).
            allowed: Which configurations may be chosen.
            running: The configuration that the station runs.
            time: When, for a controller whose clock is set.
            slot: The caller's name of the slot; asked for again, the decision on record is returned.
            key: The key of this call.
            actor: Who asks.
        """
        space = self.settings.encoder.space
        request = Request.of(
            station, state, space=space, contexts=contexts, allowed=allowed, running=running, time=time
        )
        call = Call(call_digest("ask", station=station, request=request, slot=slot), key, actor, slot)
        with self._turns.turn(call) as turn:
            found = turn.answered("decision") or turn.decided(station)
            if found is not None:
                return turn.controller.decision(str(found.decision))
            decision = ask_alone(turn.controller, station, request)
            turn.append({station: request})
        return decision

    def ask_all(
        self,
        states: Mapping[str, State] | None = None,
        *,
        contexts: Mapping[str, ArrayLike] | None = None,
        allowed: Mapping[str, Allowed] | None = None,
        running: Mapping[str, Mapping[str, Any]] | None = None,
        time: Any = None,
        slot: str | None = None,
        key: str | None = None,
        actor: str = "",
    ) -> dict[str, Decision]:
        """Decide for all given stations in one round; see `Controller.ask_all` and `ask`.

        Stations that have a decision for the slot already keep it; the others decide together.
        """
        asked = requests_of(self.settings.encoder.space, states, contexts, allowed=allowed, running=running, time=time)
        call = Call(call_digest("ask_all", requests=asked, slot=slot), key, actor, slot)
        with self._turns.turn(call) as turn:
            made = _of_round(turn.answered("decision"), turn.controller)
            for station in asked.keys() - made.keys():
                found = turn.decided(station)
                if found is not None:
                    made[station] = turn.controller.decision(str(found.decision))
            missing = {station: request for station, request in asked.items() if station not in made}
            if missing:
                made |= ask_round(turn.controller, missing)
                turn.append(missing)
        return {station: made[station] for station in asked}

    def tell(
        self,
        decision_id: str,
        reward: float | None = None,
        *,
        noise: float | None = None,
        kpis: KpiValues | None = None,
        others: KpiValues | None = None,
        key: str | None = None,
        actor: str = "",
    ) -> None:
        """Report what a decision earned; see `Controller.tell`. Once it returns, the reward is on record."""
        said: dict[str, Any] = {"reward": reward, "noise": noise, "kpis": kpis, "others": others}
        call = Call(call_digest("tell", id=decision_id, **said), key, actor)
        self._turns.do("outcome", call, lambda controller: controller.tell(decision_id, **said))

    def tell_all(
        self,
        rewards: Mapping[str, float] | None = None,
        *,
        noise: Mapping[str, float] | None = None,
        kpis: Mapping[str, KpiValues] | None = None,
        others: KpiValues | None = None,
        key: str | None = None,
        actor: str = "",
    ) -> None:
        """Report what many decisions earned in one slot, all or nothing; see `Controller.tell_all`."""
        said: dict[str, Any] = {"rewards": rewards, "noise": noise, "kpis": kpis, "others": others}
        call = Call(call_digest("tell_all", **said), key, actor)
        self._turns.do("outcome", call, lambda controller: controller.tell_all(**said))

    def correct(
        self,
        decision_id: str,
        reward: float | None = None,
        *,
        kpis: KpiValues | None = None,
        key: str | None = None,
        actor: str = "",
    ) -> None:
        """Replace a reward that was told before; see `Controller.correct`."""
        call = Call(call_digest("correct", id=decision_id, reward=reward, kpis=kpis), key, actor)
        self._turns.do("correction", call, lambda controller: controller.correct(decision_id, reward, kpis=kpis))

    def ran(
        self, decision_id: str, configuration: Mapping[str, Any], *, key: str | None = None, actor: str = ""
    ) -> None:
        """Say that the station ran something else than what was decided; see `Controller.ran`."""
        call = Call(call_digest("ran", id=decision_id, configuration=configuration), key, actor)
        self._turns.do("ran", call, lambda controller: controller.ran(decision_id, configuration))

    def call_off(self, decision_id: str, *, key: str | None = None, actor: str = "") -> None:
        """Say that a reward will not come; see `Controller.call_off`."""
        call = Call(call_digest("call_off", id=decision_id), key, actor)
        self._turns.do("outcome", call, lambda controller: controller.call_off(decision_id))

    def add_station(
        self,
        name: str,
        descriptors: Mapping[str, Any] | None = None,
        similarity: Mapping[str, float] | None = None,
        *,
        running: Mapping[str, Any] | None = None,
        check: Callable[[], None] = lambda: None,
        key: str | None = None,
        actor: str = "",
    ) -> dict[str, float]:
        """Take in a station and return how like the others it is; see `Controller.add_station`.

        `check` is called first, when everything that others have recorded is known, and may refuse.
        """
        said: dict[str, Any] = {"descriptors": descriptors, "similarity": similarity, "running": running}
        call = Call(call_digest("add_station", name=name, **said), key, actor)

        def take_in(controller: Controller) -> None:
            check()
            controller.add_station(name, **said)

        with self._turns.mutex:
            self._turns.do("station", call, take_in)
            return similarities_of(self._turns.present().current, name)

    def remove_station(self, name: str, *, key: str | None = None, actor: str = "") -> list[str]:
        """Stop deciding for a station and return what is still awaited of it; see `Controller.remove_station`."""
        call = Call(call_digest("remove_station", name=name), key, actor)
        with self._turns.mutex:
            self._turns.do("station", call, lambda controller: controller.remove_station(name))
            present = self._turns.present()
            return [awaited for awaited in present.pending if present.decision(awaited).station == name]

    def note(
        self,
        kind: str,
        payload: Mapping[str, Any],
        *,
        station: str = "",
        decision_id: str | None = None,
        key: str | None = None,
        actor: str = "",
    ) -> int:
        """Record something around the controller and return its number: an observation, verdict, approval, application.

        Args:
            kind: One of `events.NOTES`, such as "observation".
            payload: What happened, JSON-able.
            station: Whom it concerns; of a decision it is its station.
            decision_id: The decision it belongs to.
            key: The key of this call.
            actor: Who does it.
        """
        if kind not in NOTES:
            raise BadInputError(f"kind must be one of {', '.join(NOTES)}, got {kind!r}: the rest records itself")
        digest = call_digest("note", kind=kind, payload=payload, station=station, id=decision_id)
        with self._turns.turn(Call(digest, key)) as turn:
            found = turn.answered(kind)
            if found is not None:
                return found.seq
            whose = station if decision_id is None else turn.controller.decision(decision_id).station
            draft = Draft(kind, turn.marked(payload), whose, decision_id, key=key, actor=actor)
            return turn.writer.append([draft])[0].seq

    def decision(self, decision_id: str) -> Decision:
        """Return a decision by id."""
        with self._turns.mutex:
            return self._turns.present().decision(decision_id)

    def explain(self, decision_id: str, *, most_rows: int = MOST_ROWS) -> Explanation:
        """Return why a decision was made, as of then."""
        with self._turns.mutex:
            return self._turns.present().explain(decision_id, most_rows=most_rows)

    def snapshot(self) -> bool:
        """Store the present beliefs, so that a restart is quick; False where the policy's cannot be stored."""
        return self._turns.snapshot()


def _begin(writer: Writer, start: Settings | Controller, *, actor: str) -> None:
    """Start a ledger; the journal of a controller that has one is taken over."""
    begun = write_settings(writer, start.settings if isinstance(start, Controller) else start, actor=actor)
    if isinstance(start, Controller) and begun:
        writer.append([replace(draft_of(entry, start.journal), actor=actor) for entry in start.journal])


def _of_round(event: Event | None, controller: Controller) -> dict[str, Decision]:
    """Return the decisions made together with that of an event, by station."""
    if event is None:
        return {}
    made = (asked.decision for asked in controller.journal.asked.values())
    return {decision.station: decision for decision in made if decision.round == event.round}
