"""What happened to a decision, and sums over many."""

from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from math import fsum, hypot, nan, sqrt
from operator import itemgetter
from typing import Any, NamedTuple

from kinband.errors import BadInputError
from kinband.guardrails import Refusal, Verdict
from kinband.planning import Support
from kinband.records import Decision, alternative_of
from kinband.service.operations.slots import Slots
from kinband.service.schemas import MANNERS, MODES, Expected, Manner, Mode, Option, Status
from kinband.stats import REACH

# --- What operations show and answer with: a decision with everything that happened to it, a station as it stands ---
#
# All of it follows from the events of a ledger (`read_model`); times are UTC.

KEPT_SLOTS = 20_000
"""Of how many slots the sums over stations are kept."""
KEPT_POINTS = 2_000
"""How many slots of a station are kept for its charts; the ledger has all."""


def checked_manner(manner: object) -> Manner:
    """Return who says that orders are carried out, or say what there is."""
    for known in MANNERS:
        if manner == known:
            return known
    raise BadInputError(f"orders are {' or '.join(MANNERS)}, got {manner!r:.60}")


def checked_mode(mode: object) -> Mode:
    """Return a mode, or say which there are."""
    for known in MODES:
        if mode == known:
            return known
    raise BadInputError(f"a mode is one of {', '.join(MODES)}, got {mode!r:.60}")


@dataclass(frozen=True, slots=True)
class Step:
    """What a decision came to.

    Attributes:
        status: What.
        at: When.
        actor: Who did it.
        comment: What was said about it, or why.

    Example:
        >>> at = datetime.fromisoformat("2026-11-20T10:00:00+00:00")
        >>> Step("approved", at, "ada", "quiet night").status
        'approved'
    """

    status: Status
    at: datetime
    actor: str
    comment: str = ""


@dataclass(frozen=True, slots=True)
class DecisionRecord:
    """A decision with everything that happened to it.

    Attributes:
        decision: What was decided, with the scores.
        seq: Number of its event.
        at: When it was asked for, by the service's clock.
        slot: The caller's name of its slot.
        mode: The mode of its station at that time.
        status: What became of it.
        verdict: What the guard said, last.
        running: Arm that the station ran when it was asked for; None where nobody knew.
        arm: Arm that the station runs in this slot, as far as is known; None where nobody knows.
        baseline: What the fixed configuration was expected to earn in this slot; None where that is not known.
        gain: What the change was expected to gain a slot over what ran, on average over states as in its station's last
            week, and its 95 % limits; None where that was not told.
        support: How often what it proposes had run at its station, and at how many stations like it how often.
        reward: What it earned, as corrected; None while it is awaited.
        called_off: Whether no reward will come.
        comment: What a person said about it.
        actor: Who asked for it.
        decided_by: Who approved or rejected it, or rolled it back.
        due: Where it was approved: when it is ordered, or was.
        until: Where it was approved: until when it has to be confirmed.
        told: Arm that its station was told to run within its slot by an order of another decision.
        steps: What it came to, as far as its own events say.
        held: Where it answers a question: what forbids its station to change now; None if nothing does.
        valid_until: Where it answers a question: until when that may be acted upon.
        begins: When its slot begins, where its name or the caller says so.
        past: Whether it was told of afterwards, for the record: later slots had been decided for.

    Example:
        >>> made = Decision("d1", "3714", 4, {"tilt": 6}, 0.9, 0.05, 0.95)
        >>> verdict = Verdict("3714", "allowed", arm=4, running=2, asked=4, reason="tilt=6: no rail forbids it")
        >>> at = datetime.fromisoformat("2026-11-20T10:00:00+00:00")
        >>> record = DecisionRecord(made, 7, at, None, "assist", "waiting", verdict, running=2, arm=2)
        >>> record.wanted, record.ordered, record.changes, record.open
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
    gain: tuple[float, float, float] | None = None
    support: Support | None = None
    reward: float | None = None
    called_off: bool = False
    comment: str = ""
    actor: str = ""
    decided_by: str = ""
    due: datetime | None = None
    until: datetime | None = None
    told: int | None = None
    steps: tuple[Step, ...] = ()
    held: Refusal | None = None
    valid_until: datetime | None = None
    begins: datetime | None = None
    past: bool = False

    def __hash__(self) -> int:  # what makes a decision is no value that could be hashed
        return hash((self.decision.id, self.status, self.reward, self.decided_by))

    @property
    def when(self) -> datetime:
        """When its slot began: as was said, else when it was asked for."""
        return self.at if self.begins is None else self.begins

    @property
    def id(self) -> str:
        """The decision's id."""
        return self.decision.id

    @property
    def station(self) -> str:
        """The station."""
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
        if self.told is not None:
            return self.told
        return self.verdict.arm if self.status in ("ordered", "applied", "not made", "rolled back") else self.running

    @property
    def changes(self) -> bool:
        """Whether it would have its station run something else than before."""
        return self.wanted != self.running

    @property
    def expected(self) -> Expected:
        """What was expected of the change that it proposes, by the scores of then."""
        (proposed, proposed_std), (before, before_std) = self.scored(self.wanted), self.scored(self.running)
        gain, low, high = expected_gain(self) or (None, None, None)
        return Expected(
            proposed=proposed, proposed_std=proposed_std, before=before, before_std=before_std,
            gain=gain, gain_low=low, gain_high=high,
        )  # fmt: skip

    def scored(self, arm: int | None) -> tuple[float | None, float | None]:
        """Return mean and standard deviation of an arm when it was decided; None where they were not kept."""
        made = self.decision
        found = made if arm == made.arm else None if arm is None else alternative_of(made, arm)
        return (None, None) if found is None or found.std is None else (found.mean, found.std)

    @property
    def open(self) -> bool:
        """Whether its reward is still awaited."""
        return self.reward is None and not self.called_off


def expected_gain(record: DecisionRecord) -> tuple[float, float, float] | None:
    """Return the gain expected of a decision over what ran, with its 95 % interval; None where one is not scored.

    Earlier versions put the gain in the state of then on record, or none: two beliefs are then taken as independent.
    """
    if record.gain is not None:
        return record.gain
    (before, spread), (proposed, further) = record.scored(record.running), record.scored(record.wanted)
    if before is None or proposed is None:
        return None
    gain, reach = proposed - before, REACH * hypot(spread or 0.0, further or 0.0)
    return gain, gain - reach, gain + reach


@dataclass(frozen=True, slots=True)
class RailsOnRecord:
    """The rails that were last put on record.

    Attributes:
        text: Their file; empty where there are none, or where a program handed them over without it.
        digest: Identifies this version.
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


class Called(NamedTuple):
    """What people call a column of the log or a knob, and the unit of its values.

    Example:
        >>> Called.parse("HO threshold, dBm"), Called.parse("Good users")
        (Called(name='HO threshold', unit='dBm'), Called(name='Good users', unit=''))
    """

    name: str
    unit: str = ""

    @classmethod
    def parse(cls, text: str) -> "Called":
        """Read a name, and behind a comma a unit."""
        name, _, unit = map(str.strip, text.partition(","))
        if not 0 < len(name) <= _LONGEST_NAME or len(unit) > _LONGEST_UNIT or not text.isprintable():
            raise BadInputError(
                f"a name takes 1 to {_LONGEST_NAME} letters, and behind a comma a unit of at most {_LONGEST_UNIT}, got "
                f"{text!r:.90}", argument="names", value=text,
            )  # fmt: skip
        return cls(name, unit)

    @property
    def full(self) -> str:
        """The name with its unit, as charts have it above them."""
        return f"{self.name} ({self.unit})" if self.unit else self.name


REWARD = Called("reward")
"""What the reward is called if nobody says otherwise."""
_LONGEST_NAME, _LONGEST_UNIT = 40, 12


@dataclass(frozen=True, slots=True)
class Sent:
    """What the service has sent to the network, or was about to, and does not know to be in force or undone.

    Attributes:
        station: Whose change it is.
        decision: Whose order it carries out; empty for a roll-back by a person.
        arm: What its station is to run.
        until: When nodes have undone it, unless it was confirmed: what runs then is what goes on running.

    Example:
        >>> Sent("3714", "d000001", 1, datetime.fromisoformat("2026-11-21T00:05:00+00:00")).decision
        'd000001'
    """

    station: str
    decision: str
    arm: int
    until: datetime


@dataclass(frozen=True, slots=True)
class Back:
    """A roll-back by a person that the network is to be told.

    Attributes:
        before: Arm that the station ran until then; None where nobody knew.
        override: Whether it is to be made whatever forbids it.

    Example:
        >>> Back(4, override=False).before
        4
    """

    before: int | None
    override: bool


@dataclass(frozen=True, slots=True)
class Proposed:
    """What takes two people, and one of them has asked for: who else does the same has it done.

    Attributes:
        act: What.
        digest: Identifies what exactly.
        actor: Who asked.
        at: When.
        comment: What was said about it.
        text: The rails, where it is those.

    Example:
        >>> at = datetime.fromisoformat("2026-11-20T10:00:00+00:00")
        >>> Proposed("resume", "", "ada", at).text
        ''
    """

    act: str
    digest: str
    actor: str
    at: datetime
    comment: str = ""
    text: str = ""


@dataclass(frozen=True, slots=True)
class Point:
    """One slot of a station, as a chart shows it.

    Attributes:
        at: When it began.
        decision: The decision of the slot; None for a row of the log that the controller learned from.
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
    decision: str | None
    arm: int | None
    changed: bool
    reward: float | None
    baseline: float | None


@dataclass(slots=True)
class StationState:
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
        begins: When the latest of its slots began that have a time.
        slots: Its decisions, by the time of their slots.

    Example:
        >>> station_state = StationState("3714", "assist", running=2)
        >>> station_state.active, len(station_state.slots)
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
    begins: datetime | None = None
    slots: Slots = field(default_factory=lambda: Slots(KEPT_POINTS))


@dataclass(frozen=True, slots=True)
class Outlook:
    """What is believed of every configuration of a station now, in the state that it was last asked with.

    Attributes:
        station: Whom it is about.
        state: That state.
        arms: Arms in the order of the space.
        configurations: What they are.
        mean: Predicted rewards.
        std: Standard deviations of them, noise excluded.
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
    std: tuple[float, ...] | None
    choice: int
    running: int | None
    lenders: Mapping[str, float] = field(default_factory=dict)

    @property
    def options(self) -> list[Option]:
        """What is believed, configuration by configuration."""
        blank = [None] * len(self.arms)
        rows = zip(self.arms, self.configurations, self.mean or blank, self.std or blank, strict=True)
        return [Option(arm=arm, configuration=dict(knobs), mean=mean, std=std) for arm, knobs, mean, std in rows]


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


# --- What a station ran before, so that a person can go back, step by step ------------------------------------------
#
# Every change leaves what it replaced on a trail. A roll-back, by the guard or by a person, takes the last of it off
# again: a second one goes further back, and never to what the first has just undone.

_LONGEST = 100  # how far back one can go
_BACK = ("roll-back", "operator")  # who changes a station in order to undo something


@dataclass(frozen=True)
class Trail:
    """What a station ran, and its last change.

    Attributes:
        ran: What it ran before what it runs now, the latest last; what was taken back is not among it.
        changed: When it last changed; None where it never did.
        by: Who changed it.
        last: How things stood before that.

    Example:
        >>> from datetime import UTC
        >>> at = datetime(2026, 11, 20, tzinfo=UTC)
        >>> trail = Trail().after(3, before=1, at=at, by="controller").after(5, before=3, at=at, by="controller")
        >>> trail.before, trail.after(3, before=5, at=at, by="operator").before
        (3, 1)
        >>> trail.taken_back().before, trail.taken_back().taken_back().before
        (1, 1)
    """

    ran: tuple[int, ...] = ()
    changed: datetime | None = None
    by: str = ""
    last: "Trail | None" = None

    @property
    def before(self) -> int | None:
        """What a roll-back leads to; None where there is nothing to go back to."""
        return self.ran[-1] if self.ran else None

    def after(self, arm: int, *, before: int | None, at: datetime, by: str) -> "Trail":
        """Return the trail after a change."""
        if by in _BACK and arm in self.ran:
            ran = self.ran[: max(n for n, one in enumerate(self.ran) if one == arm)]
        else:
            ran = self.ran if before is None else (*self.ran, before)[-_LONGEST:]
        return Trail(ran, at, by, replace(self, last=None))

    def taken_back(self) -> "Trail":
        """Return the trail where the last change was never carried out."""
        return self if self.last is None else self.last


# --- Sums that screens show, kept up reward by reward: what was earned, and how much more than without all this -----
#
# What the fixed configuration would have earned nobody measured. What stands in for it is what was expected of it when
# the slot began, so that gains are estimates; their intervals are of the scatter of rewards, not of the model's error.


@dataclass(slots=True)
class Sums:
    """How many, their sum, and the sum of their squares."""

    count: int = 0
    total: float = 0.0
    squares: float = 0.0
    values: "array[float]" = field(default_factory=lambda: array("d"))

    def add(self, value: float, times: int = 1) -> None:
        """Count a value, or take one back that was counted: what was wrong by orders of magnitude leaves no trace."""
        if times > 0:
            self.values.append(value)
            self.count, self.total, self.squares = self.count + 1, self.total + value, self.squares + value * value
            return
        self.values.remove(value)
        self.count, self.total = len(self.values), fsum(self.values)
        self.squares = fsum(one * one for one in self.values)

    @property
    def mean(self) -> float:
        """The mean; nan of nothing."""
        return self.total / self.count if self.count else nan

    @property
    def variance(self) -> float:
        """The sample variance; 0 of fewer than two."""
        if self.count < 2:
            return 0.0
        return max(self.squares - self.total**2 / self.count, 0.0) / (self.count - 1)


@dataclass(slots=True)
class SlotSums:
    """What the stations of one slot earned, and what the fixed configurations were expected to."""

    reward: float = 0.0
    baseline: float = 0.0
    stations: int = 0
    expected: int = 0


class Tally:
    """Gains by station and sums by slot.

    Example:
        >>> from datetime import UTC
        >>> tally, noon = Tally(), datetime(2026, 11, 20, 12, tzinfo=UTC)
        >>> tally.add("a", noon, reward=0.9, baseline=0.8, gained=0.1)
        >>> tally.add("b", noon, reward=0.7, baseline=None, gained=None)
        >>> tally.gain().total.__round__(3), tally.gain().slots, [row[1:] for row in tally.series(10)]
        (0.1, 1, [(0.8, 0.8, 2)])
    """

    def __init__(self) -> None:
        self._gains: dict[str, Sums] = {}
        self._slots: dict[datetime, SlotSums] = {}

    def add(
        self,
        station: str,
        at: datetime,
        *,
        reward: float,
        baseline: float | None,
        gained: float | None,
        times: int = 1,
    ) -> None:
        """Count a reward, or with `times=-1` take it back.

        Args:
            station: Who earned it.
            at: When its slot began.
            reward: What it earned.
            baseline: What the fixed configuration was expected to earn.
            gained: How much more than that, by what is learned of the reward: neighbours' may be mixed into both.
            times: 1, or -1 to take back.
        """
        slot = self._slots.setdefault(at, SlotSums())
        slot.reward += times * reward
        slot.stations += times
        if gained is not None:
            self._gains.setdefault(station, Sums()).add(gained, times)
        if baseline is not None:
            slot.baseline += times * baseline
            slot.expected += times

    def trim(self) -> None:
        """Forget slots that are long past."""
        if len(self._slots) > KEPT_SLOTS:
            for at in sorted(self._slots)[:-KEPT_SLOTS]:
                del self._slots[at]

    def stored(self) -> tuple[dict[str, tuple[int, float, float]], dict[str, "array[float]"], list[tuple[Any, ...]]]:
        """Return copies: sums by station, what was summed, and slots."""
        sums = {name: (one.count, one.total, one.squares) for name, one in self._gains.items()}
        slots = [(at, one.reward, one.baseline, one.stations, one.expected) for at, one in self._slots.items()]
        return sums, {name: one.values[:] for name, one in self._gains.items()}, slots

    def take_up(
        self, sums: Mapping[str, Sequence[Any]], values: Mapping[str, Iterable[float]], slots: Iterable[Sequence[Any]]
    ) -> None:
        """Go on where another one was."""
        self._gains = {name: Sums(one[0], one[1], one[2], array("d", values[name])) for name, one in sums.items()}
        self._slots = {at: SlotSums(*slot) for at, *slot in slots}

    def gain(self, station: str | None = None) -> Gain:
        """Return what was gained by a station or by all.

        The interval of all is over stations, which are nearly independent, not over slots, which are not; that of one
        station is over its slots for want of better.
        """
        if station is not None:
            sums = self._gains.get(station, Sums())
            return _gain(sums.total, sums.count, sums.mean, sqrt(sums.variance / sums.count) if sums.count else nan)
        known = [sums for sums in self._gains.values() if sums.count]
        total, slots = sum(sums.total for sums in known), sum(sums.count for sums in known)
        mean = total / slots if slots else nan
        return _gain(total, slots, mean, _spread_of_ratio(known, mean))

    @property
    def first(self) -> datetime | None:
        """When the first slot began; None where there is none."""
        return min((at for at, slot in self._slots.items() if slot.stations > 0), default=None)

    def series(
        self, last: int, *, since: datetime | None = None, until: datetime | None = None
    ) -> list[tuple[datetime, float, float | None, int]]:
        """Return time, mean reward, mean expectation of the fixed configurations and stations of the last slots."""
        rows = [
            (at, slot)
            for at, slot in self._slots.items()
            if slot.stations > 0 and (since is None or at >= since) and (until is None or at < until)
        ]
        rows = sorted(rows, key=itemgetter(0))[-last:]  # late rewards come out of turn
        return [
            (at, s.reward / s.stations, s.baseline / s.expected if s.expected else None, s.stations) for at, s in rows
        ]


def _gain(total: float, slots: int, mean: float, deviation: float) -> Gain:
    reach = REACH * deviation
    return Gain(total, slots, mean, mean - reach, mean + reach)


def _spread_of_ratio(known: Iterable[Sums], mean: float) -> float:
    """Return the standard deviation of total/slots where stations are drawn (Cochran 1977, on ratio estimates)."""
    rows = list(known)
    n, slots = len(rows), sum(sums.count for sums in rows)
    if n < 2:
        return sqrt(rows[0].variance / slots) if rows else nan
    residuals = sum((sums.total - mean * sums.count) ** 2 for sums in rows)
    return sqrt(n / (n - 1) * residuals) / slots
