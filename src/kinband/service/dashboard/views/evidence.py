"""Whose evidence a decision rests on: at once where that is quick, at the press of a button where it takes seconds.

Weighing costs the cube of the rewards that bear on a decision. Up to `AT_ONCE` of them operations weigh them, while
other calls wait. More are weighed from the ledger alone, as `kinband replay` does it: nobody has to wait for that, but
what was believed then is restored first. Beyond `MOST` the matrix would take too much memory beside a service, and the
command is named instead. One button is worked at a time.
"""

import threading
from typing import Any

from kinband.controller import Explanation
from kinband.controller.explain import MOST_ROWS
from kinband.counting import counted
from kinband.errors import KinbandError
from kinband.service.ledger import replay
from kinband.service.operations import Operations, Outlook, outlooks
from kinband.service.operations.outlooks import Explained, explained

QUICK = 50
"""Rewards up to which evidence is weighed without being asked for."""
AT_ONCE = MOST_ROWS
"""Rewards up to which operations weigh it, while other calls wait."""
MOST = 8_000
"""Rewards up to which it is weighed at all: the matrix then takes half a gigabyte."""

_one = threading.Lock()


def reason_of(operations: Operations, decision_id: str, *, evidence: bool) -> Explained:
    """Return why a decision was made; with `evidence`, whose evidence it rested on, however many seconds that takes."""
    if not evidence:
        return operations.explain(decision_id, most_rows=QUICK)
    whole = operations.explain(decision_id, most_rows=AT_ONCE)
    if whole.of.evidence is not None or whole.item.decision.known <= AT_ONCE:
        return whole
    try:
        with _one:
            found = replay(operations.ledger, decision_id, most_rows=MOST).explanation
    except KinbandError:  # as for a policy of one's own, which no ledger holds
        return whole
    return explained(found, whole.item, operations.guard.space)


def why_not(found: Explanation, decision_id: str) -> str:
    """Return why it is not told whose evidence a decision rests on, and what tells it; empty where it is."""
    if found.evidence is not None or not found.left_out:
        return ""
    if found.decision.known <= MOST:
        return found.left_out
    return (
        f"More than {MOST:,} rewards bear on it, which pages do not weigh. On the machine of the service: "
        f"kinband replay LEDGER {decision_id} --most-rows {found.decision.known}"
    )


def lending(operations: Operations, found: Outlook, last: str | None, *, evidence: bool) -> dict[str, Any]:
    """Return whose experience an outlook rests on, or why that is not told and whether a button may.

    Args:
        operations: Where it was asked for.
        found: What is believed of a station.
        last: Its last decision.
        evidence: Whether the button was pressed: what is weighed is then that decision, which was of the same state.
    """
    shown = {"shares": list(found.lenders.items()), "of": "", "untold": "", "offered": False}
    if found.lenders:
        return shown
    if evidence and last is not None:
        whole = reason_of(operations, last, evidence=True).of
        known = {} if whole.evidence is None else whole.evidence.shares
        untold = why_not(whole, last) or "No reward known so far says anything about this state."
        return shown | {"shares": list(known.items()), "of": last, "untold": "" if known else untold}
    return shown | _untold(found, outlooks.rewards_known(operations.durable.controller), last)


def _untold(found: Outlook, rewards: int, last: str | None) -> dict[str, Any]:
    """Return why it is not told, by how many rewards are known."""
    most = outlooks.MOST_ROWS
    if not rewards:
        return {"untold": "No reward is known yet."}
    if found.mean is None:
        return {"untold": "This policy predicts nothing, so that nothing is borrowed."}
    if rewards > most:
        words = f"{counted(rewards, 'reward')} are known. Beyond {most:,}, who lent what is worked out only when asked."
    else:
        words = "The rewards known could not be weighed for this state."
    return {"untold": words, "offered": last is not None}
