"""The log of a controller: what was asked, ran, was told and corrected, who came and went, in order: the truth.

Everything a policy believes can be rebuilt from the journal and the settings; beliefs are a cache of it. Entries are
plain values that survive JSON without loss (Python writes floats so that they read back the same).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from kinband.arrays import FloatArray
from kinband.errors import BadInputError, ConflictError, NotFoundError
from kinband.packed import Alternative
from kinband.policies.safety import replaced_memo
from kinband.records import Decision, Memo, Observation

NO_KPIS: Mapping[str, tuple[float, float | None]] = {}
"""The KPIs of most rewards, one for all: a journal holds a million."""


@dataclass(frozen=True, eq=False, slots=True)
class Asked:
    """A decision and the context that was chosen with it.

    Attributes:
        decision: What the caller got.
        task: Index of the station.
        x: Context of the chosen arm, (d,).
        state: The state that was asked with, None where context rows were given.
    """

    decision: Decision
    task: int
    x: FloatArray
    state: Mapping[str, float] | None


@dataclass(frozen=True, slots=True)
class Told:
    """The reward of a decision, and its variance if known.

    Attributes:
        id: The decision.
        reward: What is learned of it.
        noise: The variance of that, None where it is not known.
        kpis: KPIs that came with it: value and variance, None where that is not known.
        own: What the decision itself earned and its variance, where neighbours' rewards are mixed into `reward`.
        beside: The decisions whose rewards are.
        others: Neighbours' rewards that no decision led to and that are mixed in too, with their variance.
    """

    id: str
    reward: float
    noise: float | None
    kpis: Mapping[str, tuple[float, float | None]] = field(default_factory=lambda: NO_KPIS)
    own: tuple[float, float | None] | None = None
    beside: tuple[str, ...] = ()
    others: Mapping[str, tuple[float, float | None]] = field(default_factory=lambda: NO_KPIS)


@dataclass(frozen=True, slots=True)
class Corrected:
    """A better value for a reward told before, or for KPIs that came with it.

    Attributes:
        id: The decision.
        reward: What is now learned of it.
        own: What it itself earned, where that is something else.
        others: What is now learned of other decisions, into which its reward was mixed.
        kpis: KPIs that were wrong or missing.
    """

    id: str
    reward: float
    own: float | None = None
    others: Mapping[str, float] = field(default_factory=dict)
    kpis: Mapping[str, tuple[float, float | None]] = field(default_factory=dict)


@dataclass(frozen=True, eq=False, slots=True)
class Ran:
    """What a station ran in the place of what was decided; the decision's reward is learned as that of what ran.

    Of several the last counts, and one that names what was decided takes back those before it.

    Attributes:
        id: The decision.
        arm: The configuration that ran.
        x: Its context in the state that was asked with, (d,).
        lower: What the decision counts with in a budget from now on, until its reward is told; None where no budget is
            kept, or where what was decided ran after all.
    """

    id: str
    arm: int
    x: FloatArray
    lower: float | None = None


@dataclass(frozen=True, slots=True)
class CalledOff:
    """A decision whose reward will never come."""

    id: str


@dataclass(frozen=True, slots=True)
class Joined:
    """A station that is new here, and what it starts from.

    Attributes:
        station: Its name.
        task: Its number, one more than the last.
        likeness: Its row of the task matrix, its own variance last, (task + 1,).
        found: What that was found by: "descriptors", "average" or "given".
        descriptors: What is known of it.
        running: Arm of the configuration declared for it, None where none was.
    """

    station: str
    task: int
    likeness: tuple[float, ...]
    found: str
    descriptors: Mapping[str, Any]
    running: int | None


@dataclass(frozen=True, slots=True)
class Renewed:
    """A station that has changed and starts anew, under a new task; its past keeps the old one.

    Attributes:
        station: Its name.
        task: Its number from now on, one more than the last.
        likeness: Its row of the task matrix, its own variance last, (task + 1,).
        id: The decision whose reward showed it.
        evidence: How much spoke for a change; see `kinband.drift`.
    """

    station: str
    task: int
    likeness: tuple[float, ...]
    id: str
    evidence: float

    @property
    def past(self) -> str:
        """What the station's past is called from now on."""
        return f"{self.station} until {self.id}"

    @property
    def found(self) -> str:
        """What its likeness was found by: the change of a station that was there before."""
        return "change"


@dataclass(frozen=True, slots=True)
class Left:
    """A station that can no longer be asked for; its rows stay."""

    station: str


@dataclass(frozen=True, slots=True)
class Returned:
    """A station that had left and can be asked for again, with what it knew.

    Attributes:
        station: Its name.
        descriptors: What is known of it now; empty where nothing new was said.
        running: Arm of the configuration declared for it now, None where none was.
    """

    station: str
    descriptors: Mapping[str, Any]
    running: int | None


@dataclass(frozen=True, slots=True)
class Estimated:
    """The task matrix was estimated again from all rows known: no longer done, but in journals of earlier versions.

    Attributes:
        rows: How many there were.
        common: How much all stations share; None where the matrix in force was kept.
        alike: How much those alike share besides.
        triangle: The new matrix, its lower triangle row by row; empty where the one in force was kept.
    """

    rows: int
    common: float | None = None
    alike: float | None = None
    triangle: tuple[float, ...] = ()


Newcomer = Joined | Renewed
"""What brings a new task with it."""

Shaping = Newcomer | Estimated
"""What changes the tasks that a policy is built for, or how alike they are."""

Entry = Asked | Ran | Told | Corrected | CalledOff | Newcomer | Left | Returned | Estimated


class Journal:
    """All entries in order, and the present standing of every decision.

    Example:
        >>> import numpy as np
        >>> decision = Decision("d1", "a", 0, None, None, None, None)
        >>> journal = Journal()
        >>> journal.add(Asked(decision, 0, np.zeros(1), None))
        >>> journal.add(Told("d1", 0.9, None))
        >>> journal.reward("d1"), list(journal.pending)
        (0.9, [])
    """

    def __init__(self) -> None:
        self._entries: list[Entry] = []
        self._asked: dict[str, Asked] = {}
        self._told: dict[str, Told] = {}  # in the order of tells; rewards as corrected
        self._called_off: set[str] = set()
        self._ran: dict[str, Ran] = {}  # of decisions in whose place something else ran
        self._replaced = False
        self._joined: list[Newcomer] = []
        self._shaping: list[Shaping] = []
        self._moved = False

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[Entry]:
        return iter(self._entries)

    def since(self, count: int) -> list[Entry]:
        """Return the entries after the first `count`."""
        return self._entries[count:]

    @property
    def asked(self) -> Mapping[str, Asked]:
        """Every decision by id, in the order of asking."""
        return self._asked

    @property
    def told(self) -> Mapping[str, Told]:
        """Every reward by id, in the order of telling, as corrected since."""
        return self._told

    @property
    def pending(self) -> list[str]:
        """Ids of decisions whose reward is still awaited, oldest first."""
        return [key for key in self._asked if key not in self._told and key not in self._called_off]

    @property
    def joined(self) -> Sequence[Newcomer]:
        """The stations that were new or started anew, in the order of coming."""
        return self._joined

    @property
    def shaping(self) -> Sequence[Shaping]:
        """What has changed the tasks or how alike they are, in order."""
        return self._shaping

    @property
    def moved(self) -> bool:
        """Whether any station ever came or went."""
        return self._moved

    @property
    def replaced(self) -> bool:
        """Whether anybody ever said that something else ran than what was decided."""
        return self._replaced

    @property
    def next_id(self) -> str:
        """The id of the decision to come: ids are counted, so that a replay gives them again."""
        return f"d{len(self._asked) + 1:06d}"

    def add(self, entry: Entry) -> None:
        """Append an entry that has been checked."""
        self._entries.append(entry)
        match entry:
            case Asked():
                self._asked[entry.decision.id] = entry
            case Told():
                self._told[entry.id] = entry
                self._called_off.discard(entry.id)
            case Corrected():
                self._told |= self.put_right(entry)
            case CalledOff():
                self._called_off.add(entry.id)
            case Ran():
                self._replaced = True
                self._ran[entry.id] = entry
                if entry.arm == self._asked[entry.id].decision.arm:
                    del self._ran[entry.id]
            case Joined() | Renewed():
                self._joined.append(entry)
                self._shaping.append(entry)
            case Estimated() if entry.triangle:  # one that kept the matrix in force has changed nothing
                self._shaping.append(entry)
        self._moved = self._moved or isinstance(entry, Newcomer | Left | Returned)

    def put_right(self, entry: Corrected) -> dict[str, Told]:
        """Return what was told of every decision that a correction changes, as it is after it."""
        told = self._told[entry.id]
        own = told.own if entry.own is None or told.own is None else (entry.own, told.own[1])
        right = replace(told, reward=entry.reward, own=own, kpis={**told.kpis, **entry.kpis})
        others = {key: replace(self._told[key], reward=reward) for key, reward in entry.others.items()}
        return {entry.id: right, **others}

    def find(self, decision_id: str) -> Asked:
        """Return a decision by id, or say that there is none."""
        given: object = decision_id
        if isinstance(given, Decision):
            raise BadInputError("a decision is named by its id: give decision.id, not the decision")
        if not isinstance(decision_id, str) or decision_id not in self._asked:
            raise NotFoundError(f"no decision has the id {decision_id!r}: {len(self._asked)} decisions are on record")
        return self._asked[decision_id]

    def find_untold(self, decision_id: str) -> Asked:
        """Return a decision whose reward is not known yet."""
        asked = self.find(decision_id)
        if decision_id in self._told:
            reward = self.reward(decision_id)
            raise ConflictError(
                f"decision {decision_id} was already told the reward {reward:g}: use correct() to change it"
            )
        return asked

    def find_told(self, decision_id: str) -> Told:
        """Return the reward of a decision, or say that it is not known yet."""
        self.find(decision_id)
        if decision_id not in self._told:
            raise ConflictError(f"decision {decision_id} has no reward yet: tell it first")
        return self._told[decision_id]

    def reward(self, decision_id: str) -> float | None:
        """Return what a decision itself earned, as it stands, None while it is awaited."""
        told = self._told.get(decision_id)
        if told is None:
            return None
        return told.reward if told.own is None else told.own[0]

    def ran(self, decision_id: str) -> int:
        """Return the arm that a station ran: what was decided, where nobody said that something else did."""
        asked, ran = self.find(decision_id), self._ran.get(decision_id)
        return asked.decision.arm if ran is None else ran.arm

    def memo(self, decision_id: str) -> Memo:
        """Return what a policy wanted to see again of what the station ran."""
        asked, ran = self.find(decision_id), self._ran.get(decision_id)
        memo = asked.decision.memo
        return memo if ran is None else replaced_memo(memo, x=asked.x, ran=ran.x, lower=ran.lower)

    def foretold(self, decision_id: str) -> tuple[float, float] | None:
        """Return mean and width that were predicted for what the station ran, when asking; None where none is known."""
        decision, arm = self.find(decision_id).decision, self.ran(decision_id)
        scored: Decision | Alternative | None = decision
        if arm != decision.arm:  # no more than the best-scored were kept
            scored = next((one for one in decision.alternatives if one.arm == arm), None)
        if scored is None or scored.mean is None or scored.width is None:
            return None
        return scored.mean, scored.width

    def observation(self, told: Told, cache: Any = None) -> Observation:
        """Return what a policy is to learn from a reward: what ran, and what it earned.

        What was noted and kept when asking belongs to what was decided. Where something else ran, nothing is left of it
        but what a budget needs, as if the row came out of a log.
        """
        asked, ran, memo = self._asked[told.id], self._ran.get(told.id), self.memo(told.id)
        if ran is not None:
            return Observation(asked.task, ran.x, ran.arm, told.reward, told.noise, memo, None, told.kpis)
        arm = asked.decision.arm
        return Observation(asked.task, asked.x, arm, told.reward, told.noise, memo, cache, told.kpis)
