"""What is on its way to the network, where the service itself carries out what is ordered.

Before the first node is told to change, every station of that change gets an event: what it is to run, and by when its
nodes have undone it unless it was confirmed. That event is the claim. It is made in a turn of the ledger, in which the
order must still be one, nothing may hold it up, and nothing may be on its way to the station already; so of several
processes one sends. Whoever finds a claim whose sender is gone does nothing until that time has passed; what runs from
then on is what goes on running, and an order is sent once more or confirmed by that alone.

A person's roll-back is on its way like an order. Where somebody said override, nothing holds it up.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta

from kinband.errors import ConflictError
from kinband.guardrails import Refusal
from kinband.service.ledger.asked import fingerprint
from kinband.service.operations.clock import Reading
from kinband.service.operations.orders import Orders
from kinband.service.operations.records import Sent
from kinband.service.operations.review import made_of
from kinband.service.operations.standing import Standing
from kinband.service.operations.turns import Call, Turn

_NO_TIME = timedelta(0)


@dataclass(frozen=True)
class Task:
    """What one station is to run, and does not yet.

    Attributes:
        station: Which.
        decision: The decision that was ordered; empty for a roll-back by a person.
        before: Arm that it runs, as the record has it; None where nobody knows.
        arm: Arm that it is to run.
    """

    station: str
    decision: str
    before: int | None
    arm: int


class HeldError(ConflictError):
    """What was to be sent, or is to stay, is not to be made now.

    Example:
        >>> str(HeldError("3714 is not changed now: everything is stopped"))
        '3714 is not changed now: everything is stopped'
    """

    code = "held"


class UnderWay:
    """What is on its way to the network. It is a part of `Operations`."""

    def __init__(self, standing: Standing, orders: Orders) -> None:
        self._standing, self._orders = standing, orders
        self._turns, self._read_model = standing.turns, standing.read_model

    # Looking

    def tasks(self) -> list[Task]:
        """Return what is to be sent now: what nothing holds up, and what is on its way to nobody."""
        with self._standing.looking():
            time = self._standing.reading()
            free = [task for task in self._all() if not self._sending(task.station, time.now)]
            held = self._held(free, time)
            return [task for task in free if held[task.station] is None]

    def left(self) -> list[Sent]:
        """Return what was sent, is decided in the network by now, and is no task any more: given up on its way."""
        with self._standing.looking() as read_model:
            now, tasks = self._standing.now(), {task.station for task in self._all()}
            return [one for one in read_model.sent.values() if one.until <= now and one.station not in tasks]

    def check(self, tasks: Sequence[Task]) -> None:
        """Return if what was sent may stay, as of now; else say what forbids it."""
        self._turns.refresh()
        with self._standing.looking():
            self._check(tasks, self._standing.reading())

    # On record

    def send(self, tasks: Sequence[Task], *, span: timedelta, actor: str) -> None:
        """Claim what is about to be sent, so that nobody else sends it, and it is known whatever becomes of the sender.

        Args:
            tasks: What stations are to run.
            span: After which their nodes have undone it, unless it was confirmed.
            actor: Who sends.
        """

        def claim(turn: Turn) -> None:
            time = self._standing.expiring(turn)
            self._check(tasks, time)
            for task in tasks:
                if self._sending(task.station, time.now):
                    raise HeldError(f"a change of {task.station!r:.80} is on its way already: look at it again later")
                until = (time.now + span).isoformat()
                self._note(turn, task, "sent", time.now, arm=task.arm, before=task.before, until=until)

        self._run(claim, actor, "sent", tasks)

    def unsent(self, tasks: Sequence[Task], *, why: str, actor: str) -> None:
        """Say that stations run what they ran before something was sent to them."""

        def note(turn: Turn) -> None:
            at = self._standing.expiring(turn).now
            for task in tasks:
                self._note(turn, task, "unsent", at, comment=why)

        self._run(note, actor, "unsent", tasks)

    def made(self, task: Task, *, comment: str, actor: str) -> None:
        """Say that a station runs what it is to run."""
        if task.decision:
            self._orders.confirm(task.decision, comment=comment, actor=actor)
            return

        def note(turn: Turn) -> None:
            if task in self._all():
                self._note(turn, task, "made", self._standing.expiring(turn).now, comment=comment)

        self._run(note, actor, "made", [task])

    def failed(self, task: Task, *, why: str, runs: int | None, actor: str) -> None:
        """Say that a change could not be made, and what its station runs instead.

        Args:
            task: The change.
            why: What the network says.
            runs: Arm that it was found to run; None where that is what it ran before, or is no configuration of ours.
            actor: Who tried.
        """
        if task.decision:
            self._orders.fail(task.decision, why=why, runs=runs, actor=actor)
            return

        def note(turn: Turn) -> None:
            at, arm = self._standing.expiring(turn).now, task.before if runs is None else runs
            self._note(turn, task, "failed", at, comment=why)
            if arm is not None:
                self._orders.found(turn, task.station, arm, at)

        self._run(note, actor, "failed", [task])

    def settle(self, sent: Sent, runs: int | None, *, actor: str) -> None:
        """Say what a station runs to which something was sent that was given up meanwhile."""

        def note(turn: Turn) -> None:
            at = self._standing.expiring(turn).now
            if self._read_model.sent.get(sent.station) == sent:
                task = Task(sent.station, sent.decision, None, sent.arm)
                self._note(turn, task, "unsent", at, comment="it was given up on its way")
                if runs is not None:
                    self._orders.found(turn, sent.station, runs, at)

        if sent.decision and runs == sent.arm:
            with suppress(ConflictError):  # the station has changed otherwise on record
                self._orders.confirm(sent.decision, comment="read from the network", actor=actor)
        self._run(note, actor, "unsent", [sent])

    # What all of that is made of

    def _run(self, act: Callable[[Turn], None], actor: str, what: str, tasks: Sequence[Task | Sent]) -> None:
        said = [[task.station, task.decision, task.arm] for task in tasks]
        self._turns.run(Call(fingerprint(what, tasks=said), None, actor), act)

    def _all(self) -> list[Task]:
        """Everything that the network is to be told: what people rolled back first, then what is ordered."""
        stations, backs = self._read_model.stations, self._read_model.backs
        known = [(stations[name], one) for name, one in backs.items()]
        found = [
            Task(state.station, "", back.before, state.running)
            for state, back in known
            if state.active and state.running is not None
        ]
        ordered = [one for one in self._read_model.orders() if one.status == "ordered" and one.station not in backs]
        return found + [Task(one.station, one.id, stations[one.station].running, one.wanted) for one in ordered]

    def _sending(self, station: str, now: datetime) -> bool:
        sent = self._read_model.sent.get(station)
        return sent is not None and now < sent.until

    def _held(self, tasks: Sequence[Task], time: Reading) -> dict[str, Refusal | None]:
        """What forbids each station to change now, as of the record."""
        backs = self._read_model.backs
        back = {one.station for one in tasks if not one.decision or self._is_back(one.decision)}
        holding = self._standing.guard.holding(
            [one.station for one in tasks], self._read_model.history, now=time.now, span=_NO_TIME, back=back,
            doubt=time.doubt,
        )  # fmt: skip
        free = {name for name, one in backs.items() if one.override}
        return {name: None if name in free else refusal for name, (refusal, _) in holding.items()}

    def _is_back(self, decision: str) -> bool:
        return made_of(self._read_model.decisions[decision]) == "rolled back"

    def _check(self, tasks: Sequence[Task], time: Reading) -> None:
        present, held = self._all(), self._held(tasks, time)
        for task in tasks:
            if task not in present:
                raise HeldError(
                    f"{task.station!r:.80} is not to be changed any more: the record has it otherwise by now"
                )
            if (refusal := held[task.station]) is not None:
                raise HeldError(f"{task.station!r:.80} is not changed now: {refusal.reason}")

    def _note(self, turn: Turn, task: Task, status: str, at: datetime, *, comment: str = "", **further: object) -> None:
        said = {"status": status, "at": at.isoformat(), "comment": comment, **further}
        turn.note("order", said, station=task.station, decision=task.decision or None)
