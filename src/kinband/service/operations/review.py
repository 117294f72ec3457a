"""What the guard makes of decisions, and what is put on record of it."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import chain
from typing import Any

from kinband.controller import Controller
from kinband.errors import BadInputError, ConflictError
from kinband.guardrails import Guard, History, Proposal, Verdict, changes_of
from kinband.guardrails.review import in_words
from kinband.guardrails.rules import Situation, out_of_range, out_of_reach, tried_in_vain
from kinband.records import Choice, Decision
from kinband.service.ledger import Event
from kinband.service.ledger.requests import Request
from kinband.service.operations.read_model import ReadModel
from kinband.service.operations.records import DecisionRecord, StationState
from kinband.service.schemas import Mode, Status
from kinband.space import ConfigurationSpace

# --- What becomes of decisions: the guard's verdict, and by the station's mode what is done about it ----------------
#
# In shadow nothing is done: the station goes on with what it runs, and the reward of the slot is learned for that. In
# assist a change waits for a person, and until then the station goes on with what it runs. In autonomous the verdict is
# carried out. A roll-back is carried out in assist too: it undoes a harm, and a file with a `fallback` has approved it.
#
# **The next best.** Where the rails refuse what was decided, they are shown the configurations after it by score: those
# that the decision kept, then all. A policy without scores has no next best. One whose trials have to be safe
# (docs/learning.md) has passed over good scores for a reason, so it is asked again, to choose among what the rails let
# through and what it may fall back to.

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
    """

    decision: Decision
    verdict: Verdict
    mode: Mode
    status: Status
    arm: int | None

    def note(self, at: datetime) -> dict[str, Any]:
        """Return the verdict as an event says it."""
        return {"verdict": self.verdict.to_dict(), "mode": self.mode, "status": self.status, "at": at.isoformat()}


@dataclass(frozen=True, eq=False)
class Review:
    """A review of the decisions of one round.

    Attributes:
        guard: The rails.
        history: The past, as the guard needs it.
        stations: As they stand.
        controller: Who decided.
        now: When.
    """

    guard: Guard
    history: History
    stations: Mapping[str, StationState]
    controller: Controller
    now: datetime

    def of(self, decisions: Mapping[str, Decision], asked: Mapping[str, Request]) -> list[Reviewed]:
        """Return what becomes of decisions, by station; what is in shadow counts for nobody else."""
        scored = {station: _scores(decision) for station, decision in decisions.items()}
        proposals = {station: self._proposal(decision, scored[station]) for station, decision in decisions.items()}
        order = sorted(
            proposals.values(),
            key=lambda one: (self.stations[one.station].mode != "autonomous", -_hope(one, scored[one.station])),
        )
        verdicts: dict[str, Verdict] = {}
        for shadow in (False, True):
            together = {one.station: one for one in order if (self.stations[one.station].mode == "shadow") == shadow}
            verdicts |= self._verdicts(together, asked)
        reviewed = [self._settled(decision, verdicts[station]) for station, decision in decisions.items()]
        for one in reviewed:
            check_known(one.decision.station, one.arm, why="the guard lets it go on with it")
        return reviewed

    def _verdicts(self, proposals: dict[str, Proposal], asked: Mapping[str, Request]) -> dict[str, Verdict]:
        """Review proposals; where all that they name is out of reach, others are held against the rails too."""
        verdicts = self._reviewed(proposals)
        short = [s for s, verdict in verdicts.items() if self._wants_more(verdict, proposals[s])]
        for station in short:
            further = self._chosen_again if self._under_rules else self._ranked
            arms = further(proposals[station], asked[station])
            proposals[station] = replace(proposals[station], arms=(*proposals[station].arms, *arms))
        return self._reviewed(proposals) if short else verdicts

    @property
    def _under_rules(self) -> bool:
        """Whether good scores may be passed over."""
        safety = self.controller.settings.rules
        return safety is not None and (safety.floor is not None or safety.conservative is not None)

    def _proposal(self, decision: Decision, scores: Mapping[int, float | None]) -> Proposal:
        """Return what a decision proposes: what it chose, and what comes next where scores say so."""
        plain = decision.ucb is None or self._under_rules
        arms = dict.fromkeys([decision.arm, *(() if plain else scores)])
        return Proposal(decision.station, self.stations[decision.station].running, tuple(arms))

    def _reviewed(self, proposals: Mapping[str, Proposal]) -> dict[str, Verdict]:
        return self.guard.review(proposals.values(), self.history, now=self.now)

    def _wants_more(self, verdict: Verdict, proposal: Proposal) -> bool:
        whole = len(proposal.arms) >= len(self.guard.space) or proposal.running in proposal.arms
        return verdict.outcome == "refused" and not whole and set(verdict.codes) <= _BY_ARM

    def _ranked(self, proposal: Proposal, request: Request) -> list[int]:
        """Return every further configuration that may be chosen, best first."""
        choice = self._considered(proposal, request, request.allowed)
        if choice.score is None:
            return []
        ranked = choice.arms[(-choice.score).argsort(kind="stable")].tolist()
        return [arm for arm in ranked if arm not in proposal.arms]

    def _chosen_again(self, proposal: Proposal, request: Request) -> list[int]:
        """Return what a policy under rules chooses among what the rails let through."""
        station, running = proposal.station, proposal.running
        declared = self.controller.current.running.get(station)
        may = request.allowed or [True] * len(self.guard.space)
        situation = Situation(self.guard.rails, self.guard.space, self.history, self.now)
        reach = [allowed and _within_reach(situation, proposal, arm) for arm, allowed in enumerate(may)]
        for arm in (running, declared):
            if arm is not None:
                reach[arm] = may[arm]
        if not any(reach):
            return []
        return [self._considered(proposal, request, reach).arm]

    def _considered(self, proposal: Proposal, request: Request, allowed: list[bool] | None) -> Choice:
        running = None if proposal.running is None else self.guard.space[proposal.running]
        return self.controller.consider(
            proposal.station, request.state, allowed=allowed, running=running, time=request.time
        )

    def _settled(self, decision: Decision, verdict: Verdict) -> Reviewed:
        mode = self.stations[decision.station].mode
        if mode == "shadow":
            status: Status = "shadow" if decision.arm != verdict.running else "kept"
            return Reviewed(decision, verdict, mode, status, verdict.running)
        if not verdict.changes:
            status = "refused" if verdict.outcome == "refused" else "kept"
            return Reviewed(decision, verdict, mode, status, verdict.running)
        if verdict.outcome == "rolled back":
            return Reviewed(decision, verdict, mode, "rolled back", verdict.arm)
        if mode == "assist":
            return Reviewed(decision, verdict, mode, "waiting", verdict.running)
        return Reviewed(decision, verdict, mode, "applied", verdict.arm)


def _scores(decision: Decision) -> dict[int, float | None]:
    """Return the scores that a decision kept, by arm, best first."""
    return {other.arm: other.ucb for other in decision.alternatives}


def _hope(proposal: Proposal, scores: Mapping[int, float | None]) -> float:
    """Return how much better than what runs a proposal may be; the most promising are reviewed first."""
    running = proposal.running
    best, now = scores.get(proposal.arms[0]), None if running is None else scores.get(running)
    return 0.0 if best is None or now is None else best - now


def _within_reach(situation: Situation, proposal: Proposal, arm: int) -> bool:
    """Whether the rails let a station run a configuration, if they let it change at all."""
    station = proposal.station
    refusals = chain(
        out_of_range(situation, station, arm), out_of_reach(situation, station, arm, running=proposal.running)
    )
    return next(refusals, None) is None and tried_in_vain(situation, station, arm) is None


def informed(controller: Controller, read_model: ReadModel, station: str, request: Request) -> Request:
    """Return a question that says what its station runs, as far as that is known."""
    controller.current.task(station)  # says what is wrong with the name, if anything is
    known = read_model.station(station)
    runs = known.running if request.running is None else request.running
    if known.mode != "autonomous":
        check_known(station, runs, why=f"in mode {known.mode} it goes on with it")
    return replace(request, running=runs)


def changed_by_hand(read_model: ReadModel, asked: Mapping[str, Request]) -> dict[str, tuple[int, int | None]]:
    """Return the stations that run something else than the guard's history says, with what they run and ran."""
    found: dict[str, tuple[int, int | None]] = {}
    for station, request in asked.items():
        latest = read_model.history.latest(station)
        before = read_model.station(station).running if latest is None else latest.arm
        if request.running is not None and request.running != before:
            found[station] = request.running, before
    return found


def check_whole(read_model: ReadModel, ids: Iterable[str]) -> None:
    """Refuse rewards of slots in which a person, not the guard, rolled back: two configurations earned them."""
    for record in (read_model.decisions[key] for key in ids if key in read_model.decisions):
        by_guard = record.verdict is not None and record.verdict.outcome == "rolled back"
        if record.status == "rolled back" and not by_guard:
            raise ConflictError(
                f"decision {record.id} of {record.station!r} was rolled back within its slot, so that two "
                "configurations earned its reward",
                hint="leave it out",
                code="rolled_back",
                argument="decision",
                value=record.id,
            )


def status_of(verdict: Verdict | None) -> Status:
    """Return what becomes of a decision that a person approved, by what the guard says of it then, or rejected."""
    if verdict is None:
        return "rejected"
    if verdict.outcome == "rolled back":
        return "rolled back"
    return "applied" if verdict.changes else ("refused" if verdict.outcome == "refused" else "kept")


def check_known(station: str, arm: int | None, *, why: str) -> None:
    """Refuse to go on with what nobody knows: its reward could not be learned for anything.

    Example:
        >>> check_known("3714", None, why="in mode shadow it goes on with it")
        Traceback (most recent call last):
            ...
        kinband.errors.BadInputError: what '3714' runs is not known, and in mode shadow it goes on with it: ...
    """
    if arm is None:
        raise BadInputError(
            f"what {station!r} runs is not known, and {why}",
            hint="say it by running, or declare it",
            code="running_unknown",
            argument="running",
        )


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

    Example:
        >>> from datetime import UTC
        >>> applied_note(3, 2, datetime(2026, 11, 20, tzinfo=UTC), by="operator")["before"]
        2
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
    item: DecisionRecord, card: StationState, runs: int | None, at: datetime, *, comment: str = ""
) -> dict[str, Any]:
    """Return what an event says of a report.

    Args:
        item: The present decision of the station.
        card: The station as it stands.
        runs: Arm of what it runs.
        at: When it was reported.
        comment: What was said about it.

    Example:
        >>> from datetime import UTC
        >>> from kinband.guardrails import Verdict
        >>> from kinband.records import Decision
        >>> at, made = datetime(2026, 11, 20, tzinfo=UTC), Decision("d1", "a", 4, {"tilt": 6}, 0.9, 0.05, 0.95)
        >>> verdict = Verdict("a", "allowed", arm=4, running=2, asked=4, reason="")
        >>> item = DecisionRecord(made, 7, at, None, "autonomous", "applied", verdict, running=2, arm=4)
        >>> card = StationState("a", "autonomous", running=4, before=2, changed_by="controller")
        >>> note = reported(item, card, 2, at)
        >>> note["status"], note["taken_back"]
        ('not made', True)
    """
    undone = card.changed_by in _OURS and item.arm != item.running and runs == item.running
    made_after_all = item.status == "not made" and runs == item.ordered
    status: Status | None = None
    if undone:
        status = "not made"
    elif made_after_all or (item.status == "waiting" and runs == item.wanted):
        status = _made(item)
    by = ("roll-back" if status == "rolled back" else "controller") if made_after_all else "network"
    note = applied_note(runs, card.running, at, by=by, comment=comment, status=status, taken_back=undone)
    return note | {"reported": True}


def _made(item: DecisionRecord) -> Status:
    """What becomes of a decision that is carried out."""
    by_guard = item.verdict is not None and item.verdict.outcome == "rolled back"
    return "rolled back" if by_guard else "applied"


# --- Asking again for a slot: what is said now must not contradict what the slot was decided with -------------------
#
# A station has one decision a slot, so that whoever asks again gets the one on record. What the second request says
# would be lost in silence if it were something else: other counters, other limits, another configuration that runs. So
# it is refused, with what to do instead. What it leaves out contradicts nothing, nor does saying that a station runs
# what the record says by now.


def check_repeated(
    asked: Mapping[str, Request],
    made: Mapping[str, Event],
    stations: Mapping[str, StationState],
    *,
    space: ConfigurationSpace,
    timed: bool,
) -> None:
    """Refuse to answer a question from the record that was decided with something else.

    Args:
        asked: The questions, by station.
        made: The decisions on record for the same slot, by station.
        stations: As they stand.
        space: The configurations that arms are numbers of.
        timed: Whether the states on record have the clock in them.
    """
    for station, event in made.items():
        before, now = Request.read(event, timed=timed), asked[station]
        runs = stations[station].running if stations[station].last == event.decision else None
        if now.running not in (None, before.running, runs):
            raise ConflictError(
                f"{_decided(station, event)}, when it ran {_named(space, before.running)} and not "
                f"{_named(space, now.running)}",
                hint="report what it runs now by applied()",
                code="runs_otherwise",
                argument="running",
                value=event.decision,
            )
        if what := next(_differing(before, now), None):
            raise ConflictError(
                f"{_decided(station, event)}, with {what} than now",
                hint="send what was sent then, or ask for the next slot",
                code="decided_otherwise",
                argument="slot",
                value=event.slot,
            )


def _differing(before: Request, now: Request) -> Iterator[str]:
    """Give what a question says otherwise than the one on record."""
    for name in now.state or {}:
        if before.state is None or before.state.get(name) != (now.state or {})[name]:
            yield f"another value of the state feature {name!r:.60}"
    if now.allowed is not None and now.allowed != before.allowed:
        yield "other configurations allowed"
    if now.time is not None and now.time != before.time:
        yield "another time"


def _decided(station: str, event: Event) -> str:
    return f"{event.decision} was decided for {station!r:.80} in the slot {event.slot!r:.80}"


def _named(space: ConfigurationSpace, arm: int | None) -> str:
    if arm is None:
        return "what nobody knew"
    return in_words(space[arm])
