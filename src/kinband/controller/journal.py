"""The journal of a controller: everything that was asked, ran, was told and corrected, and what became of it.

All of it is in memory, unless there is a *past* to look things up in: a ledger. Then what was decided and told long ago
is left there, and read again when somebody asks for it. What is learned from stays at hand as arrays, since it may have
to be learned anew.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np

from kinband.arrays import FloatArray, IntArray, data_frame, free_name
from kinband.controller.events import (
    Asked,
    CalledOff,
    ChangePoint,
    Corrected,
    Entry,
    Estimated,
    Joined,
    Left,
    Newcomer,
    Ran,
    Returned,
    Shaping,
    Told,
    entry_from_dict,
    entry_to_dict,
)
from kinband.controller.setup import Setup
from kinband.errors import BadInputError, ConflictError, NotFoundError
from kinband.policies.budget import replaced_policy_state
from kinband.records import Alternative, Decision, Observation, PolicyState

if TYPE_CHECKING:
    from pandas import DataFrame

T = TypeVar("T")
Configurations = Mapping[int, Mapping[str, Any]]
Kpis = Mapping[str, tuple[float, float | None]]


class Past(Protocol):
    """Where a journal finds what it no longer holds."""

    def asked(self, decision_id: str) -> Asked:
        """Return a decision."""

    def told(self, decision_id: str) -> Told:
        """Return its reward, as it was first told."""

    def ran(self, decision_id: str) -> Ran | None:
        """Return what was last said to have run in its place, if anything was."""

    def entries(self, count: int) -> Iterator[Entry]:
        """Give the first entries, so many, in order."""


# --- What was learned from, as arrays that grow: a million rewards take about 100 MB ---------------------------------


@dataclass(frozen=True, eq=False)
class ToldRows:
    """Rewards in the order of telling, as they stand: what a policy learns from them.

    Attributes:
        number: Of the decision, (n,): `d000042` is 42.
        task: Index of the station, (n,).
        arm: What ran, (n,).
        y: What is learned of it, (n,).
        noise: The known part of its variance, nan where it is not known, (n,).
        X: The context of what ran, (n, d).
    """

    number: IntArray
    task: IntArray
    arm: IntArray
    y: FloatArray
    noise: FloatArray
    X: FloatArray

    def __len__(self) -> int:
        return len(self.y)

    def part(self, first: int, last: int | None) -> "ToldRows":
        """Return views of rows `first` to before `last`."""
        return ToldRows(**{name: getattr(self, name)[first:last] for name in _ARRAYS})


_ARRAYS = ("number", "task", "arm", "y", "noise", "X")


def _room(size: int, width: int) -> ToldRows:
    number, task, arm = np.zeros((3, size), dtype=np.int64)
    return ToldRows(number, task, arm, np.zeros(size), np.zeros(size), np.zeros((size, width)))


class _Learned:
    """Told rows that grow, and what few of them have besides."""

    def __init__(self) -> None:
        self._grown, self.count = _room(0, 0), 0
        self.further: dict[int, tuple[PolicyState, Kpis]] = {}  # by row

    @property
    def rows(self) -> ToldRows:
        """All rows."""
        return self._grown.part(0, self.count)

    def add(self, number: int, seen: Observation) -> None:
        """Append a row."""
        at, rows = self.count, self._grown
        if at == len(rows) or (not at and rows.X.shape[1] != len(seen.x)):
            self._grown = rows = self._larger(max(2 * at, 16), len(seen.x))
        rows.number[at], rows.task[at], rows.arm[at], rows.X[at] = number, seen.task, seen.arm, seen.x
        self.put_right(at, seen)
        self.count = at + 1

    def put_right(self, at: int, seen: Observation) -> None:
        """Note what a row is worth."""
        self._grown.y[at] = seen.reward
        self._grown.noise[at] = np.nan if seen.noise is None else seen.noise
        if seen.policy_state or seen.kpis:
            self.further[at] = seen.policy_state, seen.kpis

    def _larger(self, size: int, width: int) -> ToldRows:
        found = _room(size, width)
        for name in _ARRAYS if self.count else ():
            getattr(found, name)[: self.count] = getattr(self._grown, name)[: self.count]
        return found

    def take_up(self, arrays: Mapping[str, Any], further: Mapping[str, Any]) -> None:
        """Take up rows that were stored."""
        self.count, width = len(arrays["y"]), arrays["X"].shape[1]
        self._grown = _room(self.count + self.count // 8 + 16, width)
        for name in _ARRAYS:
            getattr(self._grown, name)[: self.count] = arrays[name]
        self.further = {
            int(at): (state, {name: (value, noise) for name, (value, noise) in kpis.items()})
            for at, (state, kpis) in further.items()
        }

    def index(self, number: int) -> int:
        """Return the row of a decision."""
        return int(np.flatnonzero(self.rows.number == number)[0])

    def observations(self, first: int = 0) -> Iterator[Observation]:
        """Give what was learned from, from a row on."""
        rows = self.rows
        for at in range(first, len(rows)):
            noise, (state, kpis) = float(rows.noise[at]), self.further.get(at, ({}, {}))
            known = None if np.isnan(noise) else noise
            yield Observation(
                int(rows.task[at]), rows.X[at].copy(), int(rows.arm[at]), float(rows.y[at]), known, state, None, kpis
            )


def number_of(decision_id: str) -> int:
    """Return the number in the id of a decision, 0 where there is none.

    Example:
        >>> number_of("d000042"), number_of("seven")
        (42, 0)
    """
    digits = decision_id[1:19]
    return int(digits) if decision_id[:1] == "d" and digits.isascii() and digits.isdigit() else 0


def is_among(decision_id: str, count: int) -> bool:
    """Return whether an id is that of one of so many decisions, as it is written.

    Example:
        >>> is_among("d000042", 50), is_among("d42", 50), is_among("d000051", 50)
        (True, False, False)
    """
    number = number_of(decision_id)
    return 0 < number <= count and id_of(number) == decision_id


def id_of(number: int) -> str:
    """Return the id of a decision by its number: ids are counted, so that a replay gives them again."""
    return f"d{number:06d}"


class _Remembered(Mapping[str, T]):
    """What a journal holds of decisions, and looks up of the others."""

    def __init__(self, numbers: Sequence[int] | IntArray, find: Callable[[str], T | None]) -> None:
        self._numbers, self._find = numbers, find

    def __len__(self) -> int:
        return len(self._numbers)

    def __iter__(self) -> Iterator[str]:
        return map(id_of, map(int, self._numbers))

    def __getitem__(self, key: str) -> T:
        found = self._find(key)
        if found is None:
            raise KeyError(key)
        return found


# --- The journal ----------------------------------------------------------------------------------------------------


class Journal:
    """All entries in order, and what became of every decision.

    Example:
        >>> import numpy as np
        >>> decision = Decision("d1", "a", 0, None, None, None, None)
        >>> journal = Journal()
        >>> journal.add(Asked(decision, 0, np.zeros(1), None))
        >>> journal.add(Told("d1", 0.9, None))
        >>> journal.reward("d1"), list(journal.pending)
        (0.9, [])
    """

    def __init__(self, past: Past | None = None) -> None:
        self._past = past
        self._before = 0  # entries that are left to the past
        self._entries: list[Entry] = []
        self._count = 0  # of decisions
        # What is at hand of a decision is so whole: the question, what ran, and the reward. Without a past, all is.
        self._asked: dict[str, Asked] = {}
        self._told: dict[str, Told] = {}  # rewards as corrected
        self._ran: dict[str, Ran] = {}  # what was last said to have run
        self._right: dict[str, Told] = {}  # what was corrected, which the past does not tell in one place
        self._open: dict[str, None] = {}  # ids whose reward is awaited, oldest first
        self._called_off: set[str] = set()
        self._learned = _Learned()
        self._lasting: list[tuple[int, Lasting]] = []  # how many decisions there were, and who came or went then
        self.corrections = 0

    def __len__(self) -> int:
        return self._before + len(self._entries)

    def __iter__(self) -> Iterator[Entry]:
        if self._past is not None and self._before:
            yield from self._past.entries(self._before)
        yield from self._entries

    def since(self, count: int) -> list[Entry]:
        """Return the entries after the first `count`, which are not left to the past yet."""
        return self._entries[count - self._before :]

    def trim(self, keep: int) -> None:
        """Leave what is older than some thousands of decisions and entries to the past, where there is one."""
        if self._past is None:
            return
        if len(self._entries) > 2 * keep:
            self._before += len(self._entries) - keep
            del self._entries[:-keep]
        if len(self._asked) > 2 * keep:
            for key in list(islice(self._asked, len(self._asked) - keep)):
                for known in (self._asked, self._told, self._ran):
                    known.pop(key, None)

    @property
    def asked(self) -> Mapping[str, Asked]:
        """Every decision by id, in the order of asking."""
        if self._past is None:
            return self._asked
        return _Remembered(range(1, self._count + 1), self._look_up)

    @property
    def told(self) -> Mapping[str, Told]:
        """Every reward by id, in the order of telling, as corrected since."""
        if self._past is None:
            return self._told
        return _Remembered(self._learned.rows.number, self._told_of)

    @property
    def rows(self) -> ToldRows:
        """What was learned from."""
        return self._learned.rows

    def observations(self, first: int = 0) -> Iterator[Observation]:
        """Give what a policy learned from rewards, in the order of telling, from one on."""
        return self._learned.observations(first)

    def row_of(self, decision_id: str) -> int:
        """Return how many rewards were told before that of a decision."""
        return self._learned.index(number_of(decision_id))

    def latest_told(self, count: int) -> list[Told]:
        """Return the last rewards that were told, the newest first."""
        told = self.told
        return [told[id_of(number)] for number in self._learned.rows.number[-count:][::-1].tolist()]

    def _look_up(self, decision_id: str) -> Asked | None:
        """Return a decision, and see to it that what became of it is at hand."""
        found = self._asked.get(decision_id)
        if found is not None or self._past is None or not is_among(decision_id, self._count):
            return found
        found = self._past.asked(decision_id)
        ran = self._past.ran(decision_id)
        if ran is not None:
            self._ran.setdefault(decision_id, ran)
        if self.is_told(decision_id):
            told = self._right.get(decision_id) or self._past.told(decision_id)
            self._told.setdefault(decision_id, told)
        return self._asked.setdefault(decision_id, found)

    def _told_of(self, decision_id: str) -> Told | None:
        """Return the reward of a decision as it stands, None where there is none."""
        known = self._told.get(decision_id)
        if known is None and self.is_told(decision_id):
            self._look_up(decision_id)
        return known or self._told.get(decision_id)

    def is_told(self, decision_id: str) -> bool:
        """Whether the reward of a decision is known."""
        if decision_id in self._told:
            return True
        left = self._past is not None and is_among(decision_id, self._count)
        return left and decision_id not in self._open and decision_id not in self._called_off

    def _instead(self, decision_id: str) -> Ran | None:
        """Return what ran in the place of a decision."""
        asked = self.find(decision_id)
        ran = self._ran.get(decision_id)
        return None if ran is None or ran.arm == asked.decision.arm else ran

    @property
    def pending(self) -> list[str]:
        """Ids of decisions whose reward is still awaited, oldest first."""
        return list(self._open)

    @property
    def joined(self) -> Sequence[Newcomer]:
        """The stations that were new or started anew, in the order of coming."""
        return [entry for _, entry in self._lasting if isinstance(entry, Newcomer)]

    @property
    def shaping(self) -> Sequence[Shaping]:
        """What has changed the tasks or how alike they are, in order."""
        return [entry for _, entry in self._lasting if isinstance(entry, Shaping) and _shapes(entry)]

    @property
    def moved(self) -> bool:
        """Whether any station ever came or went."""
        return any(not isinstance(entry, Estimated) for _, entry in self._lasting)

    def lasting(self, before: str | None = None) -> "list[Lasting]":
        """Return who came and went and what was estimated, in order; only what was so when a decision was made."""
        count = self._count + 1 if before is None else number_of(before)
        return [entry for decisions, entry in self._lasting if decisions < count]

    @property
    def last(self) -> Asked | None:
        """The last decision; None before the first."""
        return self._look_up(id_of(self._count))

    @property
    def next_id(self) -> str:
        """The id of the decision to come: ids are counted, so that a replay gives them again."""
        return id_of(self._count + 1)

    def frame(self, setup: Setup) -> "DataFrame":
        """Every decision as a row, with what ran and what it earned; columns and their types are always the same.

        The columns: `id`, `station`, the state, the knobs of what ran (`arm`, where the caller gave context rows),
        `mean`, `std` and `score` of what was decided, `reward` as corrected, `status` ("told", "awaited" or "called
        off"), `replaced` where something else ran than was decided, and `round`. A name of ours that a state or knob
        has gets an underscore.
        """
        encoder, rows = setup.encoder, list(self.asked.values())
        by_rows = setup.features is not None
        states = () if by_rows else encoder.state.names
        knobs = ("arm",) if by_rows else encoder.space.feature_names
        ran = [self.ran(asked.decision.id) for asked in rows]
        columns: dict[str, Any] = {
            free_name(name, (*states, *knobs)): [getattr(a.decision, name) for a in rows] for name in ("id", "station")
        }
        columns |= {n: np.array([(a.state or {}).get(n) for a in rows], dtype=np.float64) for n in states}
        everything = [{"arm": arm} if by_rows else encoder.space[arm] for arm in range(len(encoder.space))]
        for name in knobs:
            kind = np.array([configuration[name] for configuration in everything]).dtype
            columns[name] = np.array([everything[arm][name] for arm in ran], dtype=kind)
        ours: dict[str, Any] = {
            name: np.array([getattr(a.decision, of) for a in rows], dtype=np.float64)
            for name, of in (("mean", "mean"), ("std", "std"), ("score", "ucb"))
        }
        told = [self._told_of(a.decision.id) for a in rows]
        ours["reward"] = np.array([None if one is None else one.reward for one in told], dtype=np.float64)
        ours["status"] = [
            "told" if one is not None else "called off" if a.decision.id in self._called_off else "awaited"
            for a, one in zip(rows, told, strict=True)
        ]
        ours["replaced"] = np.array([arm != a.decision.arm for a, arm in zip(rows, ran, strict=True)], dtype=np.bool_)
        ours["round"] = np.array([a.decision.round for a in rows], dtype=np.float64)
        columns |= {free_name(name, (*states, *knobs)): values for name, values in ours.items()}
        kinds = {"id": "string", "station": "string", "status": "string", "round": "Int64"}
        return data_frame(columns).astype({free_name(name, (*states, *knobs)): kind for name, kind in kinds.items()})

    def add(self, entry: Entry) -> None:
        """Append an entry that has been checked."""
        match entry:
            case Asked():
                self._asked[entry.decision.id] = entry
                self._open[entry.decision.id] = None
                self._count += 1
            case Told():
                self._learned.add(number_of(entry.id), self.observation(entry))
                self._told[entry.id] = entry
                self._called_off.discard(entry.id)
                self._open.pop(entry.id, None)
            case Corrected():
                self._put_right(self.put_right(entry))
            case CalledOff():
                self._called_off.add(entry.id)
                self._open.pop(entry.id, None)
            case Ran():
                self.find(entry.id)  # with what is known of it
                self._ran[entry.id] = entry
            case Joined() | ChangePoint() | Left() | Returned() | Estimated():
                self._lasting.append((self._count, entry))
        self._entries.append(entry)

    def _put_right(self, right: Mapping[str, Told]) -> None:
        self.corrections += 1
        for key, told in right.items():
            self._learned.put_right(self.row_of(key), self.observation(told))
            self._told[key] = told
        self._right |= right

    def take_back(self, count: int) -> list[Entry] | None:
        """Forget the entries after the first `count`, and return them, the last first.

        None, and nothing is forgotten, where there is more among them than questions, what ran and what was called off:
        those alone never change what is believed.
        """
        gone = self.since(count)[::-1]
        if not all(isinstance(entry, Asked | Ran | CalledOff) for entry in gone):
            return None
        del self._entries[count - self._before :]
        called_off = False
        for entry in gone:
            match entry:
                case Asked():
                    self._count -= 1
                    self._called_off.discard(entry.decision.id)
                    for known in (self._asked, self._ran, self._open):
                        known.pop(entry.decision.id, None)
                case CalledOff():
                    self._called_off.discard(entry.id)
                    self._open[entry.id], called_off = None, True
        if called_off:
            self._open = dict.fromkeys(sorted(self._open, key=number_of))
        for key in {entry.id for entry in gone if isinstance(entry, Ran) and entry.id in self._asked}:
            self._forget_ran(key)
        return gone

    def _forget_ran(self, key: str) -> None:
        """Go back to what was said before of what ran."""
        self._ran.pop(key, None)
        said = (entry for entry in reversed(self._entries) if isinstance(entry, Ran) and entry.id == key)
        before = next(said, None)
        if before is not None:
            self._ran[key] = before
        elif self._past is not None:  # it may have been said longer ago
            for known in (self._asked, self._told):
                known.pop(key, None)

    def put_right(self, entry: Corrected) -> dict[str, Told]:
        """Return what was told of every decision that a correction changes, as it is after it."""
        told = self.find_told(entry.id)
        own = told.own if entry.own is None or told.own is None else (entry.own, told.own[1])
        right = replace(told, reward=entry.reward, own=own, kpis={**told.kpis, **entry.kpis})
        others = {key: replace(self.find_told(key), reward=reward) for key, reward in entry.others.items()}
        return {entry.id: right, **others}

    def find(self, decision_id: str) -> Asked:
        """Return a decision by id, or say that there is none."""
        given: object = decision_id
        if isinstance(given, Decision):
            raise BadInputError("a decision is named by its id", hint="give decision.id, not the decision")
        found = self._look_up(decision_id) if isinstance(decision_id, str) else None
        if found is None:
            raise NotFoundError(f"no decision has the id {decision_id!r}: {self._count} decisions are on record")
        return found

    def find_untold(self, decision_id: str) -> Asked:
        """Return a decision whose reward is not known yet."""
        asked = self.find(decision_id)
        if self._told_of(decision_id) is not None:
            reward = self.reward(decision_id)
            raise ConflictError(
                f"decision {decision_id} was already told the reward {reward:g}",
                hint="use correct() to change it",
                code="told_already",
                argument="decision",
                value=decision_id,
            )
        return asked

    def find_told(self, decision_id: str) -> Told:
        """Return the reward of a decision, or say that it is not known yet."""
        self.find(decision_id)
        told = self._told_of(decision_id)
        if told is None:
            raise ConflictError(f"decision {decision_id} has no reward yet: tell it first")
        return told

    def reward(self, decision_id: str) -> float | None:
        """Return what a decision itself earned, as it stands, None while it is awaited."""
        told = self._told_of(decision_id)
        if told is None:
            return None
        return told.reward if told.own is None else told.own[0]

    def ran(self, decision_id: str) -> int:
        """Return the arm that a station ran: what was decided, where nobody said that something else did."""
        asked, ran = self.find(decision_id), self._instead(decision_id)
        return asked.decision.arm if ran is None else ran.arm

    def policy_state(self, decision_id: str) -> PolicyState:
        """Return what a policy wanted to see again of what the station ran."""
        asked, ran = self.find(decision_id), self._instead(decision_id)
        policy_state = asked.decision.policy_state
        return (
            policy_state if ran is None else replaced_policy_state(policy_state, x=asked.x, ran=ran.x, lower=ran.lower)
        )

    def predicted(self, decision_id: str) -> tuple[float, float] | None:
        """Return mean and std that were predicted for what the station ran, when asking; None where none is known."""
        decision, arm = self.find(decision_id).decision, self.ran(decision_id)
        scored: Decision | Alternative | None = decision
        if arm != decision.arm:  # no more than the best-scored were kept
            scored = next((one for one in decision.alternatives if one.arm == arm), None)
        if scored is None or scored.mean is None or scored.std is None:
            return None
        return scored.mean, scored.std

    def observation(self, told: Told, cache: Any = None) -> Observation:
        """Return what a policy is to learn from a reward: what ran, and what it earned.

        What was noted and kept when asking belongs to what was decided. Where something else ran, nothing is left of it
        but what a budget needs, as if the row came out of a log.
        """
        asked, ran, policy_state = self.find(told.id), self._instead(told.id), self.policy_state(told.id)
        if ran is not None:
            return Observation(asked.task, ran.x, ran.arm, told.reward, told.noise, policy_state, None, told.kpis)
        arm = asked.decision.arm
        return Observation(asked.task, asked.x, arm, told.reward, told.noise, policy_state, cache, told.kpis)

    # Stored and taken up again, where there is a past for the rest

    def stored(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return what a journal has to keep beside its past: JSON-able values, and arrays."""
        rows = self._learned.rows
        values = {
            "entries": len(self),
            "decisions": self._count,
            "open": list(self._open),
            "called_off": sorted(self._called_off),
            "right": [entry_to_dict(told) for told in self._right.values()],
            "corrections": self.corrections,
            "lasting": [[count, entry_to_dict(entry)] for count, entry in self._lasting],
            "further": {str(at): [dict(state), dict(kpis)] for at, (state, kpis) in self._learned.further.items()},
        }
        return values, {name: getattr(rows, name).copy() for name in _ARRAYS}

    @classmethod
    def taken_up(cls, past: Past, values: Mapping[str, Any], arrays: Mapping[str, Any]) -> "Journal":
        """Return the journal that `stored` told, the rest of which is in the past."""
        found = cls(past)
        found._before, found._count, found.corrections = values["entries"], values["decisions"], values["corrections"]
        found._open, found._called_off = dict.fromkeys(values["open"]), set(values["called_off"])
        right = [entry_from_dict(told, {}) for told in values["right"]]
        found._right = {told.id: told for told in right if isinstance(told, Told)}
        read = [(int(count), entry_from_dict(entry, {})) for count, entry in values["lasting"]]
        found._lasting = [(count, entry) for count, entry in read if isinstance(entry, Lasting)]
        found._learned.take_up(arrays, values["further"])
        return found


Lasting = Newcomer | Left | Returned | Estimated
"""What changes who is there and how alike they are."""


def _shapes(entry: Entry) -> bool:
    """Whether an entry changed the tasks; an estimate that kept the matrix in force has changed nothing."""
    return not isinstance(entry, Estimated) or bool(entry.triangle)


# --- Whether an entry can follow those before it --------------------------------------------------------------------


def check_entry(entry: Entry, journal: Journal, setup: Setup) -> None:
    """Refuse an entry that cannot follow those of the journal: somebody edited the log.

    Who came and went is checked where it is noted, against what is in force (`stations`).

    Example:
        >>> from kinband import ConfigurationSpace, Controller
        >>> controller = Controller(ConfigurationSpace(tilt=[2, 4]), ["a"])
        >>> check_entry(Told("d000007", 0.5, None), controller.journal, controller.setup)
        Traceback (most recent call last):
            ...
        kinband.errors.NotFoundError: no decision has the id 'd000007': 0 decisions are on record
    """
    match entry:
        case Asked(decision=decision):
            if decision.id != journal.next_id:
                raise BadInputError(f"the log should go on with {journal.next_id}, it has {decision.id}")
            if not 0 <= entry.task < len(setup.stations) + len(journal.joined):
                raise BadInputError(f"decision {decision.id} is for task {entry.task}, which does not exist")
        case Told():
            journal.find_untold(entry.id)
            setup.check_reward(entry.reward)
        case Corrected():
            journal.find_told(entry.id)
            setup.check_reward(entry.reward)
        case CalledOff():
            journal.find_untold(entry.id)
        case Ran():
            _check_ran(entry, journal.find_untold(entry.id), setup)


def _check_ran(entry: Ran, asked: Asked, setup: Setup) -> None:
    arms = len(setup.encoder.space)
    if not 0 <= entry.arm < arms or setup.features is not None:
        raise BadInputError(f"decision {entry.id} cannot have run configuration {entry.arm}: there are {arms}")
    if entry.x.shape != asked.x.shape or not np.isfinite(entry.x).all():
        raise BadInputError(f"the context of what ran for decision {entry.id} must be {len(asked.x)} numbers")
