"""Any decision of the past again: as it was recorded, and decided anew from the ledger alone.

The controller is brought back to the moment before the decision, from the events before it, and asked the same
question in the same round. Everything that counted is on record, so the answer must be the same, up to what another
machine or version rounds otherwise (`kinband.records.same_decision`); if it is not, the ledger was changed.
Decisions of an earlier version, in which every station had a weight of sharing, are decided without it.
"""

from dataclasses import dataclass
from math import sqrt
from typing import Any

from kinband.controller import Explanation, Setup
from kinband.controller.events import Asked
from kinband.controller.explain import MOST_ROWS, explain
from kinband.policies import PolicyFactory, PolicySpec
from kinband.records import Decision, same_decision
from kinband.service.ledger.asked import Request, ask_controller
from kinband.service.ledger.events import Event
from kinband.service.ledger.restoring import EntryReader, read_setup, restored
from kinband.service.ledger.store import Ledger, Reader


@dataclass(frozen=True, eq=False)
class Replayed:
    """A decision as recorded and as decided again.

    Attributes:
        event: The event of the decision.
        recorded: The decision as it was recorded.
        again: The decision as it is decided again.
        same: Whether the two agree: the recorded choice is again the best, with the same beliefs.
        explanation: Why it was made, as of then, with the reward that it earned since.
        learned: How many events were taken in for it beyond a snapshot.
        snapshot: Number of the event that the snapshot was taken after, 0 where there was none.

    Example:
        >>> from kinband import ConfigurationSpace, Controller
        >>> controller = Controller(ConfigurationSpace(tilt=[2, 4]), ["a"])
        >>> made = controller.ask("a")
        >>> event = Event(2, "decision", "2026-11-20T10:00:00Z", "", "a", made.id, None, None, None, "{}", "")
        >>> Replayed(event, made, made, True, controller.explain(made.id), 0).to_dict()["same"]
        True
    """

    event: Event
    recorded: Decision
    again: Decision
    same: bool
    explanation: Explanation
    learned: int
    snapshot: int = 0

    @property
    def weighted_sharing(self) -> bool:
        """Whether an earlier version made it, with a weight of sharing by station: it need not come out the same."""
        return "sharing" in self.recorded.policy_state

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that JSON can hold."""
        event = self.event
        when = {"seq": event.seq, "at": event.at, "actor": event.actor, "slot": event.slot, "round": event.round}
        return {**when, "same": self.same, "weighed": self.weighted_sharing, **self.explanation.to_dict()}


def replay(
    ledger: Ledger,
    decision_id: str,
    *,
    snapshots: bool = True,
    policy: PolicyFactory | None = None,
    most_rows: int = MOST_ROWS,
) -> Replayed:
    """Return a decision of the past as recorded, as decided again, and why it was made.

    The ledger is verified first, its seal too where it was opened with the key.

    Args:
        ledger: The truth.
        decision_id: Which decision.
        snapshots: Whether beliefs may be taken from a snapshot; if not, everything before is learned anew.
        policy: The factory of a policy of your own, which cannot be stored.
        most_rows: Up to how many rows it is weighed whose evidence the decision rests on.

    Example:
        >>> import tempfile
        >>> from kinband import ConfigurationSpace, Controller
        >>> from kinband.service.operations import Operations
        >>> folder = tempfile.TemporaryDirectory()
        >>> ledger = Ledger.open(f"{folder.name}/ledger.db")
        >>> controller = Controller(ConfigurationSpace(tilt=[2, 4, 6]), ["a", "b"], similarity="pooled")
        >>> operations = Operations.open(ledger, controller, mode="autonomous")
        >>> for reward in (0.2, 0.9, 0.4):
        ...     [made] = operations.ask({"a": {}}, allowed={"a": [0, 2]})
        ...     told = operations.tell({made.id: reward})
        >>> replay(ledger, "d000002").same
        True
        >>> ledger.close()
        >>> folder.cleanup()
    """
    ledger.verify()  # beliefs that were stored fit the events of then: those must not have been rewritten since
    event = ledger.find(decision_id)
    mates = _round(ledger, event)
    setup = read_setup(ledger, policy=policy)
    asked = {mate.station: Request.read(mate, timed=setup.clock_column is not None) for mate in mates}
    found = restored(ledger, setup, before=mates[0].seq, snapshots=snapshots)
    ask_controller(found.controller, asked, together=event.round is not None)
    recorded, again = _entry(setup, event), found.controller.journal.find(decision_id)
    same = _same(recorded, again, found.controller.current.policy_spec())
    reason = explain(
        recorded,
        reward=_earned(ledger, decision_id),
        setup=found.controller.current,
        journal=found.controller.journal,
        most_rows=most_rows,
        ran=_ran(ledger, decision_id),
    )
    learned = mates[0].seq - 1 - found.snapshot
    return Replayed(event, recorded.decision, again.decision, same, reason, learned, found.snapshot)


def _round(ledger: Ledger, event: Event) -> list[Event]:
    """Return the decisions that were made together with one, in order."""
    if event.round is None:
        return [event]
    with ledger.reading() as connection:
        return Reader(connection, ledger).round(event.round)


def _same(recorded: Asked, again: Asked, spec: PolicySpec) -> bool:
    """Return whether a question and its answer are those on record."""
    if recorded.task != again.task or recorded.state != again.state:
        return False
    spread = sqrt(float(spec.K_Z[again.task, again.task] * spec.kernel.diag(again.x[None])[0]))
    return same_decision(recorded.decision, again.decision, spread=spread)


def _entry(setup: Setup, event: Event) -> Asked:
    entry = EntryReader(setup).entry(event)
    if not isinstance(entry, Asked):
        raise AssertionError("the event of a decision holds a decision")
    return entry


def _ran(ledger: Ledger, decision_id: str) -> int | None:
    """Return the arm that the station was last said to have run, None where nobody said."""
    said = [event.payload["entry"]["arm"] for event in ledger.read(decision=decision_id, kinds=["ran"])]
    return said[-1] if said else None


def _earned(ledger: Ledger, decision_id: str) -> float | None:
    """Return what a decision itself earned, as it stands now."""
    earned: float | None = None
    for event in ledger.read(decision=decision_id, kinds=["outcome", "correction"]):
        entry = event.payload["entry"]
        own = entry.get("own")
        if "reward" in entry:
            earned = entry["reward"] if own is None else (own[0] if isinstance(own, list) else own)
    return earned
