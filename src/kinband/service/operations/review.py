"""The rails in force, what the guard makes of decisions under them, and what is put on record of it."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from kinband.controller import Controller, Setup
from kinband.errors import BadInputError, ConflictError
from kinband.guardrails import Guard, History, Pending, Proposal, Rails, Verdict, changes_of, rails_from_text
from kinband.planning import Move, gains_ahead, supports
from kinband.policies.safety import posterior_of
from kinband.records import Decision
from kinband.service.ledger.asked import Request
from kinband.service.operations.checks import check_known, far_outside
from kinband.service.operations.records import DecisionRecord, RailsOnRecord, StationState
from kinband.service.schemas import Manner, Mode, Status
from kinband.space import ConfigurationSpace

# --- The rails in force: read from what somebody sent, and followed as they are put on record -----------------------
#
# Rails are on record as the text of their file. Every process follows the last one on record, so that what is put in
# force while a service runs holds for the next decision everywhere.

MOST_TEXT = 200_000
"""Characters of a file of rails; a limit for each of a thousand stations fits."""


def digest_of(text: str) -> str:
    """Return what tells a file of rails from others; empty for none."""
    return hashlib.sha256(text.encode()).hexdigest()[:16] if text else ""


def rails_on_record(text: str, space: ConfigurationSpace, *, stations: Iterable[str]) -> Rails:
    """Return the rails of a text that is on record; what they lack in effect is no reason to do without all of them."""
    return rails_from_text(text, space, stations=stations, source="the rails on record", on_record=True)


def rails_of(
    text: str,
    space: ConfigurationSpace,
    *,
    stations: Iterable[str],
    reward_range: tuple[float, float] | None = None,
) -> Rails:
    r"""Return the rails of a text that somebody sent, or complain with the line.

    Args:
        text: The text.
        space: What stations can run.
        stations: Every station that it may name.
        reward_range: What rewards lie in, where that is known.
    """
    if not isinstance(text, str) or not text.strip():
        raise BadInputError("the rails are empty: write {} to lift all of them")
    if len(text) > MOST_TEXT:
        raise BadInputError(f"rails may have {MOST_TEXT:,} characters, got {len(text):,}: leave out what repeats")
    return rails_from_text(text, space, stations=stations, reward_range=reward_range)


class RailsInForce:
    """The guard of this process, which follows the rails on record.

    Args:
        rails: What it begins with. Rails that were handed over as objects, without their text, are known to their own
            process alone.
        setup: What stations can run, and what rewards lie in.
        digest: What tells the text of those rails from others.
    """

    def __init__(self, rails: Rails, setup: Setup, *, digest: str) -> None:
        self.space, self._span = setup.encoder.space, setup.config.reward_range
        self._guard, self._digest = Guard(rails, self.space), digest

    def guard(self, known: RailsOnRecord, stations: Iterable[str]) -> Guard:
        """Return the guard with the rails last put on record."""
        if known.digest not in ("", self._digest):
            rails = rails_on_record(known.text, self.space, stations=list(stations))
            self._guard, self._digest = Guard(rails, self.space), known.digest
        return self._guard

    def of(self, text: str, stations: Iterable[str]) -> Guard:
        """Return the guard with rails that somebody sent, or complain with the line."""
        return Guard(rails_of(text, self.space, stations=list(stations), reward_range=self._span), self.space)

    @staticmethod
    def check_replaced(present: RailsOnRecord, digest: str | None) -> None:
        """Refuse to replace other rails than those that were meant."""
        if digest is not None and digest != present.digest:
            who = f" by {present.actor}" if present.actor else ""
            found = f"{present.digest or 'none'} in place of {digest or 'none':.60}"
            raise ConflictError(
                f"other rails were put in force{who} meanwhile, {found}",
                hint="read those first",
                code="rails_replaced",
                argument="replaces",
            )


# --- What becomes of decisions: the guard's verdict, and by the station's mode what is done about it ----------------
#
# In shadow nothing is done: the station goes on with what it runs, and the reward of the slot is learned for that. In
# assist a change waits for a person, and until then the station goes on with what it runs. In autonomous the verdict is
# carried out. A roll-back is carried out in assist too: it undoes a harm, and a file with a `fallback` has approved it.
#
# **The next best.** Where the rails refuse what was decided, they are shown the configurations after it by score: those
# that the decision kept, then all. A policy without scores has no next best. One whose trials have to be safe
# (docs/learning.md) passes over good scores for a reason, and what it tries costs a budget that others want, too: it is
# told beforehand what rails let each station run, and chooses among that (`within_reach`).

_BY_ARM = {"range", "step", "retry", "fallback"}  # with nothing else, another configuration may still be let through


@dataclass(frozen=True, eq=False)
class Reviewed:
    """A decision, the guard's verdict, and what becomes of it.

    Attributes:
        decision: What was decided.
        verdict: What the guard says.
        mode: The station's.
        status: What becomes of it.
        arm: What the station runs from now on, None where nobody knows.
        until: Where it is ordered: until when it has to be confirmed.
        gain: What is expected of the change over what runs, a slot, and its 95 % limits; None where that is not known.
        support: How often what it proposes ran here, and elsewhere at how many stations; None where nothing changes.
    """

    decision: Decision
    verdict: Verdict
    mode: Mode
    status: Status
    arm: int | None
    until: datetime | None = None
    gain: tuple[float, float, float] | None = None
    support: tuple[int, int, int] | None = None

    def note(self, at: datetime) -> dict[str, Any]:
        """Return the verdict as an event says it."""
        said = {"verdict": self.verdict.to_dict(), "mode": self.mode, "status": self.status, "at": at.isoformat()}
        said |= times_of(self.status, self.verdict, at, until=self.until)
        more = {"gain": self.gain, "support": self.support}
        return said | {name: list(numbers) for name, numbers in more.items() if numbers is not None}


def with_gains(reviewed: Sequence[Reviewed], controller: Controller) -> list[Reviewed]:
    """Return reviewed decisions with what their changes are expected to gain, and how often that was tried, as a
    change plan says it (`gains_ahead`, `supports`).

    The interval is that of the *difference* of two configurations, over states as in the station's last week; so it is
    worked out while deciding, from the beliefs of then, for all changes of a round at once.
    """
    moves = dict[str, Move]()
    for one in reviewed:
        arm, running = one.verdict.arm, one.verdict.running
        if one.verdict.changes and arm is not None and running is not None:
            made = controller.journal.asked[one.decision.id]
            contexts = controller.setup.encoder.contexts(made.state or {})
            moves[one.decision.id] = Move(made.task, contexts, arm, running)
    if not moves:
        return list(reviewed)
    listed, beliefs = list(moves.values()), posterior_of(controller.policy)
    found = {key: (n.own, n.others, n.stations) for key, n in zip(moves, supports(controller, listed), strict=True)}
    expected = [] if beliefs is None else gains_ahead(controller, beliefs, listed)
    gains = {key: (gain.value, gain.low, gain.high) for key, gain in zip(moves, expected, strict=beliefs is not None)}
    return [replace(i, gain=gains.get(i.decision.id), support=found.get(i.decision.id)) for i in reviewed]


@dataclass(frozen=True, eq=False)
class Review:
    """A review of the decisions of one round.

    Attributes:
        guard: The rails.
        history: The past, as the guard needs it.
        stations: As they stand.
        controller: Who decided.
        now: When.
        doubt: Why that cannot be trusted, if it cannot.
        pending: Changes that were approved before and are not made yet, by station.
        manner: Who says that an order is carried out.
    """

    guard: Guard
    history: History
    stations: Mapping[str, StationState]
    controller: Controller
    now: datetime
    doubt: str = ""
    pending: Mapping[str, Pending] = field(default_factory=dict)
    manner: Manner = "assumed"

    def of(self, decisions: Mapping[str, Decision], asked: Mapping[str, Request]) -> list[Reviewed]:
        """Return what becomes of decisions, by station; what is in shadow counts for nobody else."""
        scored = {station: scores_of(decision) for station, decision in decisions.items()}
        proposals = {
            station: self._proposal(decision, scored[station], asked[station])
            for station, decision in decisions.items()
        }
        order = sorted(
            proposals.values(),
            key=lambda one: (self.stations[one.station].mode != "autonomous", -hope(one, scored[one.station])),
        )
        verdicts: dict[str, Verdict] = {}
        for shadow in (False, True):
            together = {one.station: one for one in order if (self.stations[one.station].mode == "shadow") == shadow}
            verdicts |= self._verdicts(together, asked)
        reviewed = [self._outcome_of_mode(decision, verdicts[station]) for station, decision in decisions.items()]
        for one in reviewed:
            check_known(one.decision.station, one.arm, why="the guard lets it go on with it")
        return reviewed

    def _verdicts(self, proposals: Mapping[str, Proposal], asked: Mapping[str, Request]) -> dict[str, Verdict]:
        """Review proposals; where all that they name is out of reach, others are held against the rails too."""
        verdicts = self._reviewed(proposals)
        short = [s for s, verdict in verdicts.items() if self._wants_more(verdict, proposals[s])]
        if not short or under_rules(self.controller.setup):
            return verdicts
        longer = {
            s: replace(proposals[s], arms=(*proposals[s].arms, *self._ranked(proposals[s], asked[s]))) for s in short
        }
        return self._reviewed({**proposals, **longer})

    def _proposal(self, decision: Decision, scores: Mapping[int, float | None], request: Request) -> Proposal:
        """Return what a decision proposes: what it chose, and what comes next where scores say so."""
        plain = decision.ucb is None or under_rules(self.controller.setup)
        strange = far_outside(self.controller.setup.encoder.state, {decision.station: request.state})
        running = self.stations[decision.station].running
        made = Proposal(decision.station, running, (decision.arm,), "".join(strange[:1]))
        first = self._best_out_of_reach(decision, made, request)
        return replace(made, arms=tuple(dict.fromkeys([*first, decision.arm, *(() if plain else scores)])))

    def _best_out_of_reach(self, decision: Decision, proposal: Proposal, request: Request) -> list[int]:
        """Return what scores best, if that is better than what was chosen and rails keep the station from it.

        Where a rule of safety held back what lies within reach, that is the reason, and not the rails.
        """
        held_back = "held_back" in (decision.policy_state or {}).get("safety", {})
        if request.reach is None or held_back or request.choices == request.allowed:
            return []
        best = self._ranked(replace(proposal, arms=()), request)[:1]
        return [arm for arm in best if not request.reach[arm]]

    def _reviewed(self, proposals: Mapping[str, Proposal]) -> dict[str, Verdict]:
        return self.guard.review(
            proposals.values(), self.history, now=self.now, doubt=self.doubt, pending=self.pending, later=True
        )

    def _wants_more(self, verdict: Verdict, proposal: Proposal) -> bool:
        whole = len(proposal.arms) >= len(self.guard.space) or proposal.running in proposal.arms
        return verdict.outcome == "refused" and not whole and set(verdict.codes) <= _BY_ARM

    def _ranked(self, proposal: Proposal, request: Request) -> list[int]:
        """Return every further configuration that may be chosen, best first."""
        running = None if proposal.running is None else self.guard.space[proposal.running]
        choice = self.controller.consider(
            proposal.station, request.state, allowed=request.allowed, running=running, time=request.time
        )
        if choice.score is None:
            return []
        ranked = choice.arms[(-choice.score).argsort(kind="stable")].tolist()
        return [arm for arm in ranked if arm not in proposal.arms]

    def _outcome_of_mode(self, decision: Decision, verdict: Verdict) -> Reviewed:
        """Return what becomes of a decision with its verdict in shadow, in assist or in autonomous."""
        mode = self.stations[decision.station].mode
        if mode == "shadow":
            status: Status = "shadow" if decision.arm != verdict.running else "kept"
            return Reviewed(decision, verdict, mode, status, verdict.running)
        if not verdict.changes:
            status = "refused" if verdict.outcome == "refused" else "kept"
            return Reviewed(decision, verdict, mode, status, verdict.running)
        if mode == "assist" and verdict.outcome != "rolled back":
            return Reviewed(decision, verdict, mode, "waiting", verdict.running)
        status = status_of(verdict, self.manner)
        if status == "ordered":
            until = self.guard.lasting(decision.station, self.history, now=self.now)
            return Reviewed(decision, verdict, mode, status, verdict.running, until)
        return Reviewed(decision, verdict, mode, status, verdict.running if status == "approved" else verdict.arm)


def scores_of(decision: Decision) -> dict[int, float | None]:
    """Return the scores that a decision kept, by arm, best first."""
    return {other.arm: other.ucb for other in decision.alternatives}


def hope(proposal: Proposal, scores: Mapping[int, float | None]) -> float:
    """Return how much better than what runs a proposal may be; the most promising are reviewed first."""
    running = proposal.running
    best, now = scores.get(proposal.arms[0]), None if running is None else scores.get(running)
    return 0.0 if best is None or now is None else best - now


def under_rules(setup: Setup) -> bool:
    """Whether a policy may pass over good scores, for what its trials may cost."""
    rules = setup.rules
    return rules is not None and (rules.floor is not None or rules.conservative is not None)


def within_reach(
    guard: Guard, controller: Controller, asked: Mapping[str, Request], history: History, *, now: datetime
) -> dict[str, Request]:
    """Return questions with what the rails let each station run; what is declared may be returned to at any time.

    A station of which that leaves nothing is asked for without: then the guard says why.
    """
    proposals = [Proposal(station, request.running) for station, request in asked.items()]
    found: dict[str, Request] = {}
    for station, reach in guard.reach(proposals, history, now=now).items():
        declared = controller.current.running.get(station)
        if declared is not None:
            reach[declared] = True
        within = replace(asked[station], reach=reach)
        some = within.choices
        found[station] = within if some is not None and any(some) and not all(reach) else asked[station]
    return found


def status_of(verdict: Verdict | None, manner: Manner) -> Status:
    """Return what becomes of a decision that was approved, by what the guard says of it then, or rejected."""
    if verdict is None:
        return "rejected"
    if not verdict.changes:
        return "refused" if verdict.outcome == "refused" else "kept"
    if verdict.outcome == "deferred":
        return "approved"
    if manner == "confirmed":
        return "ordered"
    return "rolled back" if verdict.outcome == "rolled back" else "applied"


def times_of(status: Status, verdict: Verdict | None, at: datetime, *, until: datetime | None) -> dict[str, str]:
    """Return when a change is due and until when it counts, as an event says it; nothing for one that is not to be."""
    due, last = (at, until) if status == "ordered" or verdict is None else (verdict.due, verdict.until)
    if status not in ("approved", "ordered") or due is None or last is None:
        return {}
    return {"due": due.isoformat(), "until": last.isoformat()}


def applied_notes(reviewed: Iterable[Reviewed], at: datetime) -> list[tuple[Reviewed, dict[str, Any]]]:
    """Return the changes that are carried out, as events say them."""
    done = [one for one in reviewed if one.status in ("applied", "rolled back") and one.verdict.changes]
    changes = {change.station: change for change in changes_of([one.verdict for one in done], at)}
    return [(one, applied_note(changes[one.decision.station].arm, one.verdict.running, at,
                               by=changes[one.decision.station].by)) for one in done]  # fmt: skip


def applied_note(
    arm: int | None,
    before: int | None,
    at: datetime,
    *,
    by: str,
    comment: str = "",
    status: Status | None = None,
    taken_back: bool = False,
) -> dict[str, Any]:
    """Return what an event says of what a station runs.

    Args:
        arm: What it runs.
        before: What it ran before.
        at: Since when.
        by: "controller", "roll-back", "operator" or "network".
        comment: What a person said.
        status: What becomes of the decision, where that changes.
        taken_back: Whether the last change was never carried out.
    """
    note = {"arm": arm, "before": before, "by": by, "at": at.isoformat(), "comment": comment}
    return note | ({"status": status} if status else {}) | ({"taken_back": True} if taken_back else {})


# --- What the network reports of the present decision of a station, as an event says it -----------------------------
#
# The network knows what was really done. It may have made a change that a person was still to approve, or never have
# made one that was ordered; and what was not made an hour ago may have been made since. Each is told apart here, so
# that a decision's status says what became of it, and a change counts once and for whoever ordered it.

_OURS = ("controller", "roll-back")  # who makes changes that were ordered


def reported(
    record: DecisionRecord, station_state: StationState, runs: int | None, at: datetime, *, comment: str = ""
) -> dict[str, Any]:
    """Return what an event says of a report.

    Args:
        record: The present decision of the station.
        station_state: The station as it stands.
        runs: Arm of what it runs.
        at: When it was reported.
        comment: What was said about it.
    """
    ours = station_state.changed_by in _OURS and record.told is None
    undone = ours and record.arm != record.running and runs == record.running
    made_after_all = record.status == "not made" and runs == record.ordered
    status: Status | None = None
    if undone:
        status = "not made"
    elif made_after_all or (record.status in ("waiting", "approved", "ordered") and runs == record.wanted):
        status = made_of(record)
    by = made_by(record) if made_after_all or (record.status == "ordered" and status) else "network"
    note = applied_note(runs, station_state.running, at, by=by, comment=comment, status=status, taken_back=undone)
    return note | {"reported": True} | ({"order": record.id} if record.status == "ordered" and status else {})


def made_of(record: DecisionRecord) -> Status:
    """Return what becomes of a decision that is carried out."""
    by_guard = record.verdict is not None and record.verdict.outcome == "rolled back"
    return "rolled back" if by_guard else "applied"


def made_by(record: DecisionRecord) -> str:
    """Return who changes a station whose decision is carried out."""
    return "roll-back" if made_of(record) == "rolled back" else "controller"
