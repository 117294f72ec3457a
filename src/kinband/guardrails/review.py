"""The guard: holds what a learner proposes against the rails, and says what each station is to run.

`Guard.review` is a function of the rails, the proposals, the history and the time, and of nothing else: it keeps no
state, reads no clock, and asked again gives the same answer. What it promises is written in `kinband.guardrails`.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Literal

from kinband.errors import BadInputError
from kinband.guardrails.falls import Fall, Learned, Loss, Unjudged, fall_after_change
from kinband.guardrails.history import Changed, History
from kinband.guardrails.model import Rails, check_rails, utc
from kinband.guardrails.openings import Opening, lasting, next_opening, shut
from kinband.guardrails.rules import (
    FOR_CHANGES,
    FOR_ORDERS,
    FOR_ROLL_BACKS,
    OF_TIME,
    Code,
    Pending,
    Refusal,
    Rule,
    Situation,
    closed,
    out_of_range,
    out_of_reach,
    shown,
    tried_in_vain,
    unexplained,
)
from kinband.records import Decision
from kinband.space import ConfigurationSpace, in_words

# --- What is asked of a guard, and what it answers ------------------------------------------------------------------

Outcome = Literal["allowed", "replaced", "refused", "rolled back", "deferred"]

LISTED = 12
"""How many refusals a verdict lists at most; thousands of configurations may be refused for one reason."""


@dataclass(frozen=True)
class Proposal:
    """What a station should run, as far as a learner is concerned.

    Attributes:
        station: For whom.
        running: Arm of what it runs now; None to go by the history, or where nobody knows.
        arms: What it should run, best first; may hold what it runs, and nothing if nothing is wanted.
        strange: Why the state that it rests on cannot be trusted; empty if it can. Then nothing changes.

    Example:
        >>> Proposal("3714", running=2, arms=(4, 3, 2)).arms[0]
        4
    """

    station: str
    running: int | None
    arms: Sequence[int] = ()
    strange: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "running", None if self.running is None else int(self.running))
        object.__setattr__(self, "arms", tuple(map(int, self.arms)))

    @classmethod
    def of(cls, decision: Decision, *, running: int | None) -> "Proposal":
        """Return the proposal that a decision makes: what it chose, then its alternatives in their order.

        Example:
            >>> made = Decision(id="d1", station="a", arm=3, configuration=None, mean=None, std=None, ucb=None)
            >>> Proposal.of(made, running=1).arms
            (3,)
        """
        arms = dict.fromkeys([decision.arm, *(other.arm for other in decision.alternatives)])
        return cls(decision.station, running, tuple(arms))


@dataclass(frozen=True)
class Verdict:
    """What a station is to run, and why.

    Attributes:
        station: For whom.
        outcome: "allowed": what was asked for; "replaced": the next best that may run; "refused": what runs already;
            "rolled back": what ran before; "deferred": what may run later, when a window opens.
        arm: What it is to run; None if that is what runs, and nobody knows what that is.
        running: What it ran when it was asked.
        asked: What was wanted most; None if nothing was.
        reason: One sentence.
        refusals: What was refused on the way, at most `LISTED` of them.
        due: When what was deferred may run; None for anything else.
        until: Until when.

    Example:
        >>> verdict = Verdict("a", "allowed", arm=3, running=2, asked=3, reason="no rail forbids it")
        >>> verdict.changes, verdict.to_dict()["outcome"]
        (True, 'allowed')
    """

    station: str
    outcome: Outcome
    arm: int | None
    running: int | None
    asked: int | None
    reason: str
    refusals: tuple[Refusal, ...] = ()
    due: datetime | None = None
    until: datetime | None = None

    @property
    def changes(self) -> bool:
        """Whether the station is to run something else than now, at once or later."""
        return self.arm != self.running

    @property
    def at_once(self) -> bool:
        """Whether it is to run something else from now on."""
        return self.changes and self.outcome != "deferred"

    @property
    def codes(self) -> tuple[Code, ...]:
        """The rails that refused something, each once."""
        return tuple(dict.fromkeys(refusal.code for refusal in self.refusals))

    def to_dict(self) -> dict[str, Any]:
        """Return the verdict as JSON-able values."""
        said = {**asdict(self), "refusals": [asdict(refusal) for refusal in self.refusals]}
        times = {name: said.pop(name) for name in ("due", "until")}
        return said | {name: at.isoformat() for name, at in times.items() if at is not None}

    @classmethod
    def from_dict(cls, saved: Mapping[str, Any]) -> "Verdict":
        """Return the verdict that `to_dict` described."""
        times = {name: datetime.fromisoformat(saved[name]) for name in ("due", "until") if name in saved}
        return cls(**{**saved, **times, "refusals": tuple(Refusal(**refusal) for refusal in saved["refusals"])})


def changes_of(verdicts: Iterable[Verdict], at: datetime) -> list[Changed]:
    """Return the events that verdicts become when they are carried out: a history must hear of them.

    Example:
        >>> from datetime import UTC
        >>> noon = datetime(2026, 3, 1, 12, tzinfo=UTC)
        >>> kept = Verdict("a", "refused", arm=2, running=2, asked=3, reason="stopped")
        >>> back = Verdict("b", "rolled back", arm=2, running=3, asked=3, reason="rewards fell")
        >>> [(change.station, change.by) for change in changes_of([kept, back], noon)]
        [('b', 'roll-back')]
    """
    return [
        Changed(
            at,
            verdict.station,
            arm=verdict.arm,
            before=verdict.running,
            by="roll-back" if verdict.outcome == "rolled back" else "controller",
        )
        for verdict in verdicts
        if verdict.arm is not None and verdict.at_once
    ]


# --- The guard -------------------------------------------------------------------------------------------------------


class Guard:
    """Holds proposals against rails.

    Args:
        rails: What limits changes.
        space: The configurations that arms stand for.

    Example:
        >>> from datetime import UTC
        >>> from kinband.guardrails import KnobLimit
        >>> guard = Guard(Rails(knobs={"tilt": KnobLimit(high=6, step=2)}), ConfigurationSpace(tilt=range(0, 10, 2)))
        >>> noon = datetime(2026, 3, 1, 12, tzinfo=UTC)
        >>> verdict = guard.review([Proposal("a", running=2, arms=(4, 3, 2))], History(), now=noon)["a"]
        >>> verdict.outcome, verdict.arm, verdict.codes
        ('replaced', 3, ('range', 'step'))
        >>> verdict.reason
        'tilt=6 in place of tilt=8: tilt=8 is not at most 6'
    """

    def __init__(self, rails: Rails, space: ConfigurationSpace) -> None:
        for station in (None, *rails.stations):
            check_rails(rails, space, station=station)
        self.rails, self.space = rails, space
        self._learned: Learned = {}

    def review(
        self,
        proposals: Iterable[Proposal],
        history: History,
        *,
        now: datetime,
        doubt: str = "",
        pending: Mapping[str, Pending] | None = None,
        later: bool = False,
    ) -> dict[str, Verdict]:
        """Return what each station is to run, by station and in the order of the proposals.

        Roll-backs come first, then the others in the order given; each change counts for those behind it.

        Args:
            proposals: One for each station, the most important first.
            history: What happened. What this review allows must be in it (`changes_of`) before the next one.
            now: When changes would be made, with a time zone. Where they wait for approval, review them again then.
            doubt: Why that time cannot be trusted, if it cannot: then nothing changes but by roll-backs. A time before
                that of the history is in doubt anyway.
            pending: Changes that were approved before and are not made yet, by station.
            later: Whether what is refused for the time being alone (`OF_TIME`), at a station whose windows open again
                within a week, is deferred to then.
        """
        listed = [_informed(proposal, history) for proposal in self._checked(proposals)]
        situation = Situation(self.rails, self.space, history, utc(now, name="now"), doubt, pending or {})
        verdicts: dict[str, Verdict] = {}
        held_up: dict[str, list[Refusal]] = {}
        unjudged = dict[str, Unjudged]()
        for proposal in listed:
            fall = fall_after_change(
                self.rails, history, proposal.station, running=proposal.running, learned=self._learned
            )
            if isinstance(fall, Unjudged):
                unjudged[proposal.station], fall = fall, None
            verdict, held_up[proposal.station] = self._rolled_back(proposal, situation, fall)
            if verdict is not None:
                verdicts[proposal.station] = _counted(verdict, situation)
        for proposal in listed:
            if proposal.station not in verdicts:
                verdict = self._best_allowed(proposal, situation, held_up[proposal.station], later=later)
                verdicts[proposal.station] = _counted(_noted(verdict, unjudged.get(proposal.station)), situation)
        return {proposal.station: verdicts[proposal.station] for proposal in listed}

    def reach(self, proposals: Iterable[Proposal], history: History, *, now: datetime) -> dict[str, list[bool]]:
        """Return what one change may lead each station to, now or when its next window opens: one boolean an arm.

        What it runs is among it. Limits on how many change together are not known before it is known what does.

        Example:
            >>> from datetime import UTC
            >>> from kinband.guardrails import KnobLimit
            >>> guard = Guard(Rails(knobs={"tilt": KnobLimit(step=2)}), ConfigurationSpace(tilt=range(0, 10, 2)))
            >>> guard.reach([Proposal("a", running=1)], History(), now=datetime(2026, 3, 1, 12, tzinfo=UTC))
            {'a': [True, True, True, False, False]}
        """
        situation = Situation(self.rails, self.space, history, utc(now, name="now"))
        found: dict[str, list[bool]] = {}
        for proposal in (_informed(one, history) for one in self._checked(proposals)):
            barred = {refusal.code for refusal in self._against_any(proposal, situation)}
            later = OF_TIME.issuperset(barred) and next_opening(situation, proposal.station) is not None
            may = not barred or later
            found[proposal.station] = [
                arm == proposal.running or (may and next(self._against(proposal, arm, situation), None) is None)
                for arm in range(len(self.space))
            ]
        return found

    def holding(
        self,
        stations: Iterable[str],
        history: History,
        *,
        now: datetime,
        span: timedelta,
        back: Collection[str] = (),
        doubt: str = "",
    ) -> dict[str, tuple[Refusal | None, datetime]]:
        """Return what forbids stations now to make a change that was ordered, and until when that answer holds.

        Args:
            stations: Which.
            history: What happened.
            now: When it is.
            span: How long the answer holds at most; a window that opens or closes ends it.
            back: Those whose change is a roll-back.
            doubt: Why the time cannot be trusted, if it cannot.
        """
        situation = Situation(self.rails, self.space, history, utc(now, name="now"), doubt)
        end, soon = situation.now + span, list(self._minutes(situation, situation.now + span))
        found: dict[str, tuple[Refusal | None, datetime]] = {}
        for station in stations:
            rules = self._for_roll_backs if station in back else FOR_ORDERS
            refusal = _first_refusal(rules, situation, station)
            other = (at.now for at in soon if (_first_refusal(rules, at, station) is None) != (refusal is None))
            found[station] = refusal, next(other, end)
        return found

    def _minutes(self, situation: Situation, end: datetime) -> Iterator[Situation]:
        """Give the full minutes up to a time, where rails say something of the time of the day."""
        if not (self.rails.forbidden or self.rails.maintenance or self.rails.freeze):
            return
        minute = situation.now.replace(second=0, microsecond=0)
        while (minute := minute + timedelta(minutes=1)) < end:
            yield replace(situation, now=minute)

    def way_back(self, station: str, ran: Iterable[int], history: History, *, now: datetime) -> int | Refusal:
        """Return what a person may roll a station back to, or why somebody has to allow it.

        Args:
            station: Which.
            ran: What it ran, the latest first.
            history: What happened.
            now: When it is.
        """
        situation = Situation(self.rails, self.space, history, utc(now, name="now"))
        refusal = _first_refusal(FOR_ROLL_BACKS, situation, station)
        if refusal is not None:
            return refusal
        within = self._first_within(ran, situation, station)
        return Refusal("range", "nothing that it ran lies within the ranges of its knobs") if within is None else within

    def _first_within(self, ran: Iterable[int], situation: Situation, station: str) -> int | None:
        """Return the first configuration that lies within the ranges of a station's knobs."""
        return next((arm for arm in ran if next(out_of_range(situation, station, arm), None) is None), None)

    @property
    def _for_roll_backs(self) -> tuple[Rule, ...]:
        outside = self.rails.fallback is None or self.rails.fallback.outside_windows
        return FOR_ROLL_BACKS if outside else (*FOR_ROLL_BACKS, closed)

    def _rolled_back(
        self, proposal: Proposal, situation: Situation, fall: Fall | Loss | None
    ) -> tuple[Verdict | None, list[Refusal]]:
        """Return the verdict if a roll-back is due and may be made, and what holds it up if it may not."""
        station = proposal.station
        if fall is None or fall.change.before is None:
            return None, []
        ran = _ran_before(situation.history, station, running=proposal.running)
        within = self._first_within(ran, situation, station)
        back = fall.change.before if within is None else within
        refusals = [refusal for rule in self._for_roll_backs if (refusal := rule(situation, station)) is not None]
        refusals += out_of_range(situation, station, back)
        if not refusals:
            reason = f"back to {self._words(back)}: {fall.words}"
            return Verdict(station, "rolled back", back, proposal.running, _first(proposal), reason), []
        reason = f"{fall.words}, but it cannot return to {self._words(back)}: {refusals[0].reason}"
        return None, [Refusal("fallback", reason, back), *refusals]

    def shut(self, station: str, history: History, *, now: datetime) -> bool:
        """Whether a window keeps a station from changing now."""
        return shut(Situation(self.rails, self.space, history, utc(now, name="now")), station)

    def lasting(self, station: str, history: History, *, now: datetime) -> datetime:
        """Return until when a change that is ordered now may be made: to the end of its window, else for an hour."""
        return lasting(Situation(self.rails, self.space, history, utc(now, name="now")), station)

    def _best_allowed(
        self, proposal: Proposal, situation: Situation, held_up: list[Refusal], *, later: bool
    ) -> Verdict:
        """Return the verdict on what was proposed: the best that may run, or what runs already."""
        refusals = list(held_up)
        barred: list[Refusal] | None = None  # what refuses any change of the station, looked up when one is wanted
        opening: Opening | None = None
        for arm in proposal.arms:
            if arm == proposal.running:
                return self._kept(proposal, refusals)
            if barred is None:
                barred = list(self._against_any(proposal, situation))
                refusals += (refusal for refusal in barred if refusal not in held_up)
                if barred and later and OF_TIME.issuperset(refusal.code for refusal in barred):
                    opening = next_opening(situation, proposal.station)
            if barred and opening is None:
                break
            against = list(self._against(proposal, arm, situation))
            if not against and opening is not None:
                return self._deferred(proposal, arm, barred, refusals, opening)
            if not against:
                return self._changed(proposal, arm, refusals)
            refusals += against
        return self._kept(proposal, refusals)

    def _against_any(self, proposal: Proposal, situation: Situation) -> Iterator[Refusal]:
        """What refuses any change of this station now."""
        for rule in FOR_CHANGES:
            if (refusal := rule(situation, proposal.station)) is not None:
                yield refusal
        if (refusal := unexplained(situation, proposal.station, running=proposal.running)) is not None:
            yield refusal
        if proposal.strange:
            yield Refusal("state", proposal.strange)

    def _against(self, proposal: Proposal, arm: int, situation: Situation) -> Iterator[Refusal]:
        """What refuses this configuration for this station."""
        yield from out_of_range(situation, proposal.station, arm)
        yield from out_of_reach(situation, proposal.station, arm, running=proposal.running)
        if (refusal := tried_in_vain(situation, proposal.station, arm)) is not None:
            yield refusal

    def _changed(self, proposal: Proposal, arm: int, refusals: list[Refusal]) -> Verdict:
        asked = proposal.arms[0]
        about = [refusal.reason for refusal in refusals if refusal.arm == asked and refusal.code != "fallback"]
        if arm == asked:
            reason = f"{self._words(arm)}: no rail forbids it"
        else:
            reason = f"{self._words(arm)} in place of {self._words(asked)}: {'; '.join(about[:1])}"
        outcome: Outcome = "allowed" if arm == asked else "replaced"
        return Verdict(proposal.station, outcome, arm, proposal.running, asked, reason, tuple(refusals[:LISTED]))

    def _deferred(
        self, proposal: Proposal, arm: int, barred: list[Refusal], refusals: list[Refusal], opening: Opening
    ) -> Verdict:
        asked, due = proposal.arms[0], shown(opening.due, self.rails.zone)
        about = [refusal.reason for refusal in refusals if refusal.arm == asked and refusal.code != "fallback"]
        instead = "" if arm == asked else f" in place of {self._words(asked)} ({'; '.join(about[:1])})"
        reason = f"{self._words(arm)}{instead} from {due} on: {barred[0].reason}"
        return Verdict(
            proposal.station, "deferred", arm, proposal.running, asked, reason, tuple(refusals[:LISTED]),
            opening.due, opening.until,
        )  # fmt: skip

    def _kept(self, proposal: Proposal, refusals: list[Refusal]) -> Verdict:
        """Return the verdict that leaves a station as it is."""
        asked, running = _first(proposal), proposal.running
        wanted = asked is not None and asked != running
        keeps = "keeps what it runs" if running is None else f"keeps {self._words(running)}"
        why = list(dict.fromkeys(r.reason for r in refusals if r.arm in (None, asked) or r.code == "fallback"))
        reason = f"{keeps}: {'; '.join(why)}" if why else f"{keeps}: nothing else was asked for"
        outcome: Outcome = "refused" if wanted or refusals else "allowed"
        return Verdict(proposal.station, outcome, running, running, asked, reason, tuple(refusals[:LISTED]))

    def _words(self, arm: int) -> str:
        return in_words(self.space[arm])

    def _checked(self, proposals: Iterable[Proposal]) -> list[Proposal]:
        listed = list(proposals)
        seen: set[str] = set()
        for proposal in listed:
            if proposal.station in seen:
                raise BadInputError(f"station {proposal.station!r} is proposed twice: give one proposal for each")
            seen.add(proposal.station)
            for arm in (*proposal.arms, *(() if proposal.running is None else (proposal.running,))):
                if not 0 <= arm < len(self.space):
                    raise BadInputError(
                        f"there is no configuration {arm}, proposed for {proposal.station!r}: "
                        f"the space has 0 to {len(self.space) - 1}"
                    )
        return listed


def _ran_before(history: History, station: str, *, running: int | None) -> Iterator[int]:
    """Give what a station ran before what it runs, the latest first; what was taken back is not among it."""
    for change in reversed(history.changes.get(station, ())):
        if change.by != "roll-back" and change.before not in (None, running):
            yield change.before


def _first_refusal(rules: Iterable[Rule], situation: Situation, station: str) -> Refusal | None:
    return next((refusal for rule in rules if (refusal := rule(situation, station)) is not None), None)


def _first(proposal: Proposal) -> int | None:
    return proposal.arms[0] if proposal.arms else None


def _informed(proposal: Proposal, history: History) -> Proposal:
    """Return the proposal with what the station runs, where the history knows and nobody else does."""
    latest = history.latest(proposal.station)
    if proposal.running is not None or latest is None:
        return proposal
    return replace(proposal, running=latest.arm)


def _noted(verdict: Verdict, left: Unjudged | None) -> Verdict:
    """Return the verdict with why the latest change is not judged, if it is not."""
    if left is None:
        return verdict
    return replace(verdict, reason=f"{verdict.reason}; its latest change is not judged: {left.why}")


def _counted(verdict: Verdict, situation: Situation) -> Verdict:
    """Return the verdict after counting its change in the round."""
    if verdict.arm is not None and verdict.at_once:
        situation.round.append(verdict.station)
    return verdict
