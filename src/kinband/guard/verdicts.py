"""What is asked of a guard, and what it answers.

A refusal is a result, not an exception: it has a code for machines and a sentence for people, and is stored with the
decision that it concerns.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, Literal

from kinband.guard.events import Changed
from kinband.records import Decision

Code = Literal[
    "stop",
    "freeze",
    "forbidden",
    "maintenance",
    "min_time",
    "per_day",
    "per_round",
    "neighbours",
    "range",
    "step",
    "retry",
    "running",
    "fallback",
]
"""Which rail refused, named as in the file; "range" is a knob's `min`, `max` or `values`, "retry" the pause after a
roll-back, "running" a proposal that contradicts the history, and "fallback" a roll-back that was due and could not be
made."""

Outcome = Literal["allowed", "replaced", "refused", "rolled back"]

LISTED = 12
"""How many refusals a verdict lists at most; thousands of configurations may be refused for one reason."""


@dataclass(frozen=True)
class Proposal:
    """What a station should run, as far as a learner is concerned.

    Attributes:
        station: For whom.
        running: Arm of what it runs now; None to go by the history, or where nobody knows.
        arms: What it should run, best first; may hold what it runs, and nothing if nothing is wanted.

    Example:
        >>> Proposal("3714", running=2, arms=(4, 3, 2)).arms[0]
        4
    """

    station: str
    running: int | None
    arms: Sequence[int] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "running", None if self.running is None else int(self.running))
        object.__setattr__(self, "arms", tuple(map(int, self.arms)))

    @classmethod
    def of(cls, decision: Decision, *, running: int | None) -> "Proposal":
        """Return the proposal that a decision makes: what it chose, then its alternatives in their order.

        Example:
            >>> made = Decision(id="d1", station="a", arm=3, configuration=None, mean=None, width=None, ucb=None)
            >>> Proposal.of(made, running=1).arms
            (3,)
        """
        arms = dict.fromkeys([decision.arm, *(other.arm for other in decision.alternatives)])
        return cls(decision.station, running, tuple(arms))


@dataclass(frozen=True)
class Refusal:
    """Why something was not allowed.

    Attributes:
        code: The rail.
        reason: The same for people.
        arm: What was refused; None for any change of the station.

    Example:
        >>> Refusal("stop", "everything is stopped").arm is None
        True
    """

    code: Code
    reason: str
    arm: int | None = None


@dataclass(frozen=True)
class Verdict:
    """What a station is to run, and why.

    Attributes:
        station: For whom.
        outcome: "allowed": what was asked for; "replaced": the next best that may run; "refused": what runs already;
            "rolled back": what ran before.
        arm: What it is to run; None if that is what runs, and nobody knows what that is.
        running: What it ran when it was asked.
        asked: What was wanted most; None if nothing was.
        reason: One sentence.
        refusals: What was refused on the way, at most `LISTED` of them.

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

    @property
    def changes(self) -> bool:
        """Whether the station is to run something else than now."""
        return self.arm != self.running

    @property
    def codes(self) -> tuple[Code, ...]:
        """The rails that refused something, each once."""
        return tuple(dict.fromkeys(refusal.code for refusal in self.refusals))

    def to_dict(self) -> dict[str, Any]:
        """Return the verdict as JSON-able values."""
        return {**asdict(self), "refusals": [asdict(refusal) for refusal in self.refusals]}

    @classmethod
    def from_dict(cls, saved: Mapping[str, Any]) -> "Verdict":
        """Return the verdict that `to_dict` described.

        Example:
            >>> verdict = Verdict("a", "refused", 2, 2, 3, "stopped", (Refusal("stop", "stopped"),))
            >>> Verdict.from_dict(verdict.to_dict()) == verdict
            True
        """
        return cls(**{**saved, "refusals": tuple(Refusal(**refusal) for refusal in saved["refusals"])})


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
        if verdict.arm is not None and verdict.changes
    ]
