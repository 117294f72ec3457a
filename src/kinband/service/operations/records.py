"""What operations show and answer with: a decision with everything that happened to it, a station as it stands.

All of it follows from the events of a ledger (`picture`); times are UTC.
"""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, get_args

from kinband.errors import BadInputError
from kinband.guard import Verdict
from kinband.records import Decision

Mode = Literal["shadow", "assist", "autonomous"]
"""What may be done with a decision: recorded only, carried out once a person approves, or carried out at once."""

MODES: tuple[Mode, ...] = get_args(Mode)

Status = Literal["shadow", "kept", "waiting", "applied", "not made", "refused", "rejected", "rolled back", "expired"]
"""What became of a decision: "shadow" is recorded only, "kept" wants what runs already, "waiting" is for a person,
"applied" is carried out, "not made" was ordered and, as the network reports, never made, "refused" by the guard,
"rejected" by a person, "rolled back" by the guard in its place or by a person after it, and "expired" waited until its
slot was over: it was told a reward, the next one was asked for, or its station left, was rolled back or changed its
mode."""

STATUSES: tuple[Status, ...] = get_args(Status)

KEPT_POINTS = 2_000
"""How many slots of a station are kept for its charts; the ledger has all."""


def checked_mode(mode: object) -> Mode:
    """Return a mode, or say which there are.

    Example:
        >>> checked_mode("auto")
        Traceback (most recent call last):
            ...
        kinband.errors.BadInputError: a mode is one of shadow, assist, autonomous, got 'auto'
    """
    for known in MODES:
        if mode == known:
            return known
    raise BadInputError(f"a mode is one of {', '.join(MODES)}, got {mode!r:.60}")


@dataclass(frozen=True, slots=True)
class Item:
    """A decision with everything that happened to it.

    Attributes:
        decision: What was decided, with the scores.
        seq: Number of its event.
        at: When it was asked for, by the service's clock: the beginning of its slot.
        slot: The caller's name of its slot.
        mode: The mode of its station at that time.
        status: What became of it.
        verdict: What the guard said, last.
        running: Arm that the station ran when it was asked for; None where nobody knew.
        arm: Arm that the station runs in this slot, as far as is known; None where nobody knows.
        baseline: What the fixed configuration was expected to earn in this slot; None where that is not known.
        reward: What it earned, as corrected; None while it is awaited.
        called_off: Whether no reward will come.
        comment: What a person said about it.
        actor: Who asked for it.
        decided_by: Who approved or rejected it, or rolled it back.

    Example:
        >>> made = Decision("d1", "3714", 4, {"tilt": 6}, 0.9, 0.05, 0.95)
        >>> verdict = Verdict("3714", "allowed", arm=4, running=2, asked=4, reason="tilt 6: no rail forbids it")
        >>> at = datetime.fromisoformat("2026-11-20T10:00:00+00:00")
        >>> item = Item(made, 7, at, None, "assist", "waiting", verdict, running=2, arm=2)
        >>> item.wanted, item.ordered, item.changes, item.open
        (4, 2, True, True)
    """

    decision: Decision
    seq: int
    at: datetime
    slot: str | None
    mode: Mode
    status: Status
    verdict: Verdict | None
    running: int | None
    arm: int | None
    baseline: float | None = None
    reward: float | None = None
    called_off: bool = False
    comment: str = ""
    actor: str = ""
    decided_by: str = ""

    @property
    def id(self) -> str:
        """The decision's id."""
        return self.decision.id

    @property
    def station(self) -> str:
        """Whom it is for."""
        return self.decision.station

    @property
    def wanted(self) -> int:
        """Arm that would run if a person said yes: the guard's, where it has spoken."""
        allowed = None if self.verdict is None else self.verdict.arm
        return self.decision.arm if allowed is None else allowed

    @property
    def ordered(self) -> int | None:
        """Arm that its station was told to run: what was decided, as far as guard and people let it; else what ran."""
        if self.verdict is None:
            return self.decision.arm
        return self.verdict.arm if self.status in ("applied", "not made", "rolled back") else self.running

    @property
    def changes(self) -> bool:
        """Whether it would have its station run something else than before."""
        return self.wanted != self.running

    @property
    def open(self) -> bool:
        """Whether its reward is still awaited."""
        return self.reward is None and not self.called_off


@dataclass(frozen=True, slots=True)
class RailsOnRecord:
    """The rails that were last put on record.

    Attributes:
        text: Their file; empty where there are none, or where a program handed them over without it.
        digest: What tells them from others.
        at: When they were put in force; None where none ever were.
        actor: Who did.
        comment: What was said about it.

    Example:
        >>> RailsOnRecord().digest
        ''
    """

    text: str = ""
    digest: str = ""
    at: datetime | None = None
    actor: str = ""
    comment: str = ""


@dataclass(frozen=True, slots=True)
class Point:
    """One slot of a station, as a chart shows it.

    Attributes:
        at: When it began.
        decision: The decision of the slot.
        arm: What ran; None where nobody knows.
        changed: Whether that was another configuration than before.
        reward: What it earned; None while it is awaited.
        baseline: What the declared configuration was expected to earn in its place; None where that is not known.

    Example:
        >>> at = datetime.fromisoformat("2026-11-20T10:00:00+00:00")
        >>> Point(at, "d000001", arm=2, changed=True, reward=0.9, baseline=0.85).changed
        True
    """

    at: datetime
    decision: str
    arm: int | None
    changed: bool
    reward: float | None
    baseline: float | None


@dataclass(slots=True)
class Card:
    """A station as it stands.

    Attributes:
        station: Its name.
        mode: Its mode.
        running: Arm of what it runs; None where nobody knows.
        fixed: Arm of what it would run without all this: the one declared, else the first that it was known to run.
        before: Arm that a roll-back leads to: what it ran before its last change, leaving aside changes that were taken
            back; None where there is nothing to go back to.
        changed: When it last changed; None where it never did.
        changed_by: "controller", "operator", "roll-back" or "network".
        state: What it was last asked with.
        clock: What the controller's clock showed then, where it has one.
        last: Its last decision.
        frozen: Why it is frozen; None if it is not.
        active: Whether it is decided for; False once it has left.
        slots: Its decisions, oldest first.

    Example:
        >>> card = Card("3714", "assist", running=2)
        >>> card.active, len(card.slots)
        (True, 0)
    """

    station: str
    mode: Mode
    running: int | None = None
    fixed: int | None = None
    before: int | None = None
    changed: datetime | None = None
    changed_by: str = ""
    state: Mapping[str, float] | None = None
    clock: float | None = None
    last: str | None = None
    frozen: str | None = None
    active: bool = True
    slots: deque[str] = field(default_factory=lambda: deque(maxlen=KEPT_POINTS))


@dataclass(frozen=True, slots=True)
class Outlook:
    """What is believed of every configuration of a station now, in the state that it was last asked with.

    Attributes:
        station: Whom it is about.
        state: That state.
        arms: Arms in the order of the space.
        configurations: What they are.
        mean: Predicted rewards.
        width: Standard deviations of them, noise excluded.
        choice: Arm that would be decided.
        running: Arm that runs.
        lenders: Whose evidence the choice rests on, as shares by station, the largest first; itself among them.

    Example:
        >>> configurations = ({"tilt": 2}, {"tilt": 4})
        >>> Outlook("3714", {}, (0, 1), configurations, (0.8, 0.9), (0.1, 0.1), choice=1, running=0).choice
        1
    """

    station: str
    state: Mapping[str, float]
    arms: tuple[int, ...]
    configurations: tuple[Mapping[str, Any], ...]
    mean: tuple[float, ...] | None
    width: tuple[float, ...] | None
    choice: int
    running: int | None
    lenders: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Gain:
    """What was earned beyond what the declared configurations were expected to earn in the same slots.

    Attributes:
        total: Summed over slots whose reward is known and whose expectation is.
        slots: How many these are.
        mean: Of a slot.
        low: Lower end of the 95 % interval of the mean.
        high: Its upper end.

    Example:
        >>> Gain(total=1.2, slots=40, mean=0.03, low=0.01, high=0.05).low > 0
        True
    """

    total: float
    slots: int
    mean: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Site:
    """Where a sector stands and looks.

    Attributes:
        x: To the east, in metres.
        y: To the north, in metres.
        azimuth: Degrees clockwise from north; None for all round.

    Example:
        >>> Site(0.0, 100.0, 240.0).azimuth
        240.0
    """

    x: float
    y: float
    azimuth: float | None = None
