"""What a controller records, and how that is written down."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from kinband.arrays import FloatArray, data_frame, free_name
from kinband.controller.setup import Setup
from kinband.drift import past_name
from kinband.errors import BadInputError, ConflictError, NotFoundError, SavedStateError
from kinband.policies.budget import replaced_policy_state
from kinband.records import Alternative, Alternatives, Decision, Observation, PackedState, PolicyState

if TYPE_CHECKING:
    from pandas import DataFrame

# --- The log of a controller: what was asked, ran, was told and corrected, who came and went, in order: the truth ---
#
# Everything a policy believes can be rebuilt from the journal and the setup; beliefs are a cache of it. Entries are
# plain values that survive JSON without loss (Python writes floats so that they read back the same).

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
        similarity: Its row of the task matrix, its own variance last, (task + 1,).
        found: What that was found by: "descriptors", "average" or "given".
        descriptors: What is known of it.
        running: Arm of the configuration declared for it, None where none was.
    """

    station: str
    task: int
    similarity: tuple[float, ...]
    found: str
    descriptors: Mapping[str, Any]
    running: int | None


@dataclass(frozen=True, slots=True)
class ChangePoint:
    """A station that has changed and starts anew, under a new task; its past keeps the old one.

    Attributes:
        station: Its name.
        task: Its number from now on, one more than the last.
        similarity: Its row of the task matrix, its own variance last, (task + 1,).
        id: The decision whose reward showed it.
        evidence: How much spoke for a change; see `kinband.drift`.
    """

    station: str
    task: int
    similarity: tuple[float, ...]
    id: str
    evidence: float

    @property
    def past(self) -> str:
        """What the station's past is called from now on."""
        return past_name(self.station, self.id)

    @property
    def found(self) -> str:
        """What its similarity was found by: the change of a station that was there before."""
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


Newcomer = Joined | ChangePoint
"""What brings a new task with it."""

Shaping = Newcomer | Estimated
"""What changes the tasks that a policy is built for, or how alike they are."""

Entry = Asked | Ran | Told | Corrected | CalledOff | Newcomer | Left | Returned | Estimated


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

    def __init__(self) -> None:
        self._entries: list[Entry] = []
        self._asked: dict[str, Asked] = {}
        self._told: dict[str, Told] = {}  # in the order of tells; rewards as corrected
        self._called_off: set[str] = set()
        self._ran: dict[str, Ran] = {}  # of decisions in whose place something else ran
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
    def next_id(self) -> str:
        """The id of the decision to come: ids are counted, so that a replay gives them again."""
        return f"d{len(self._asked) + 1:06d}"

    def frame(self, setup: Setup) -> "DataFrame":
        """Every decision as a row, with what ran and what it earned; columns and their types are always the same.

        The columns: `id`, `station`, the state, the knobs of what ran (`arm`, where the caller gave context rows),
        `mean`, `std` and `score` of what was decided, `reward` as corrected, `status` ("told", "awaited" or "called
        off"), `replaced` where something else ran than was decided, and `round`. A name of ours that a state or knob
        has gets an underscore.
        """
        encoder, rows = setup.encoder, list(self._asked.values())
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
        told = [self._told.get(a.decision.id) for a in rows]
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
                self._ran[entry.id] = entry
                if entry.arm == self._asked[entry.id].decision.arm:
                    del self._ran[entry.id]
            case Joined() | ChangePoint():
                self._joined.append(entry)
                self._shaping.append(entry)
            case Estimated() if entry.triangle:  # one that kept the matrix in force has changed nothing
                self._shaping.append(entry)
        self._moved = self._moved or isinstance(entry, Newcomer | Left | Returned)

    def take_back(self, count: int) -> list[Entry] | None:
        """Forget the entries after the first `count`, and return them, the last first.

        None, and nothing is forgotten, where there is more among them than questions, what ran and what was called off:
        those alone never change what is believed.
        """
        gone = self._entries[count:][::-1]
        if not all(isinstance(entry, Asked | Ran | CalledOff) for entry in gone):
            return None
        del self._entries[count:]
        for entry in gone:
            match entry:
                case Asked():
                    del self._asked[entry.decision.id]
                    self._ran.pop(entry.decision.id, None)
                case CalledOff():
                    self._called_off.discard(entry.id)
        for key in {entry.id for entry in gone if isinstance(entry, Ran) and entry.id in self._asked}:
            self._ran.pop(key, None)
            said = (entry for entry in reversed(self._entries) if isinstance(entry, Ran) and entry.id == key)
            before = next(said, None)
            if before is not None and before.arm != self._asked[key].decision.arm:
                self._ran[key] = before
        return gone

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
            raise BadInputError("a decision is named by its id", hint="give decision.id, not the decision")
        if not isinstance(decision_id, str) or decision_id not in self._asked:
            raise NotFoundError(f"no decision has the id {decision_id!r}: {len(self._asked)} decisions are on record")
        return self._asked[decision_id]

    def find_untold(self, decision_id: str) -> Asked:
        """Return a decision whose reward is not known yet."""
        asked = self.find(decision_id)
        if decision_id in self._told:
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

    def policy_state(self, decision_id: str) -> PolicyState:
        """Return what a policy wanted to see again of what the station ran."""
        asked, ran = self.find(decision_id), self._ran.get(decision_id)
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
        asked, ran, policy_state = self._asked[told.id], self._ran.get(told.id), self.policy_state(told.id)
        if ran is not None:
            return Observation(asked.task, ran.x, ran.arm, told.reward, told.noise, policy_state, None, told.kpis)
        arm = asked.decision.arm
        return Observation(asked.task, asked.x, arm, told.reward, told.noise, policy_state, cache, told.kpis)


# --- Entries of the journal as JSON-able values and back, and whether an entry can follow those before it -----------


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


def entry_to_dict(entry: Entry) -> dict[str, Any]:
    """Return an entry as JSON-able values.

    Example:
        >>> entry_to_dict(Told("d1", 0.5, None))
        {'entry': 'told', 'id': 'd1', 'reward': 0.5, 'noise': None}
    """
    match entry:
        case Asked(decision=d):
            return {
                "entry": "asked",
                "id": d.id,
                "station": d.station,
                "task": entry.task,
                "state": None if entry.state is None else dict(entry.state),
                "x": entry.x.tolist(),
                "arm": d.arm,
                "configuration": None if d.configuration is None else dict(d.configuration),
                "scores": [d.mean, d.std, d.ucb],
                "alternatives": [[a.arm, a.mean, a.std, a.ucb] for a in d.alternatives],
                "known": d.known,
                "round": d.round,
                "memo": dict(d.policy_state),
            }
        case Told():
            told = {"entry": "told", "id": entry.id, "reward": entry.reward, "noise": entry.noise}
            mixed = {} if entry.own is None else {"own": list(entry.own), "beside": list(entry.beside)}
            others = {"others": {name: list(pair) for name, pair in entry.others.items()}} if entry.others else {}
            return told | _kpis_to_dict(entry) | mixed | others
        case Corrected():
            corrected = {"entry": "corrected", "id": entry.id, "reward": entry.reward}
            own = {} if entry.own is None else {"own": entry.own}
            return corrected | _kpis_to_dict(entry) | own | ({"others": dict(entry.others)} if entry.others else {})
        case CalledOff():
            return {"entry": "called-off", "id": entry.id}
        case Ran():
            ran = {"entry": "ran", "id": entry.id, "arm": entry.arm, "x": entry.x.tolist()}
            return ran if entry.lower is None else {**ran, "lower": entry.lower}
        case Joined():
            named = {"station": entry.station, "task": entry.task, "likeness": list(entry.similarity)}
            return {"entry": "joined", **named, "found": entry.found, **_said(entry)}
        case ChangePoint():
            named = {"station": entry.station, "task": entry.task, "likeness": list(entry.similarity)}
            return {"entry": "renewed", **named, "id": entry.id, "evidence": entry.evidence}
        case Estimated():
            blend = {"rows": entry.rows, "common": entry.common, "alike": entry.alike}
            return {"entry": "estimated", **blend, "triangle": list(entry.triangle)}
        case Left():
            return {"entry": "left", "station": entry.station}
        case Returned():
            return {"entry": "returned", "station": entry.station, **_said(entry)}


def entry_from_dict(values: Mapping[str, Any], configurations: Mapping[int, Mapping[str, Any]]) -> Entry:
    """Return the entry that `entry_to_dict` wrote; `configurations` names the arms of the space.

    Example:
        >>> entry_from_dict({"entry": "called-off", "id": "d1"}, {})
        CalledOff(id='d1')
    """
    match values["entry"]:
        case "asked":
            return _asked_from_dict(values, configurations)
        case "told":
            own, beside = values.get("own"), tuple(values.get("beside", ()))
            told = Told(values["id"], values["reward"], values["noise"], _kpis_from_dict(values) or NO_KPIS)
            others = {name: (value, noise) for name, (value, noise) in values.get("others", {}).items()}
            return told if own is None else replace(told, own=(own[0], own[1]), beside=beside, others=others)
        case "corrected":
            mixed_into, kpis = values.get("others", {}), _kpis_from_dict(values)
            return Corrected(values["id"], values["reward"], values.get("own"), mixed_into, kpis)
        case "called-off":
            return CalledOff(values["id"])
        case "ran":
            x = np.array(values["x"], dtype=np.float64)
            return Ran(values["id"], int(values["arm"]), x, values.get("lower"))
        case "joined":
            similarity = tuple(map(float, values["likeness"]))
            said = values["descriptors"], values["running"]
            return Joined(values["station"], values["task"], similarity, values["found"], *said)
        case "renewed":
            similarity = tuple(map(float, values["likeness"]))
            return ChangePoint(values["station"], values["task"], similarity, values["id"], values["evidence"])
        case "estimated":
            triangle = tuple(map(float, values["triangle"]))
            return Estimated(int(values["rows"]), values["common"], values["alike"], triangle)
        case "left":
            return Left(values["station"])
        case "returned":
            return Returned(values["station"], values["descriptors"], values["running"])
        case other:
            raise SavedStateError(f"the log holds an entry of an unknown kind, {other!r}")


def _check_ran(entry: Ran, asked: Asked, setup: Setup) -> None:
    arms = len(setup.encoder.space)
    if not 0 <= entry.arm < arms or setup.features is not None:
        raise BadInputError(f"decision {entry.id} cannot have run configuration {entry.arm}: there are {arms}")
    if entry.x.shape != asked.x.shape or not np.isfinite(entry.x).all():
        raise BadInputError(f"the context of what ran for decision {entry.id} must be {len(asked.x)} numbers")


def _kpis_to_dict(entry: Told | Corrected) -> dict[str, Any]:
    return {"kpis": {name: list(measured) for name, measured in entry.kpis.items()}} if entry.kpis else {}


def _kpis_from_dict(values: Mapping[str, Any]) -> dict[str, tuple[float, float | None]]:
    return {name: (value, noise) for name, (value, noise) in values.get("kpis", {}).items()}


def _said(entry: Joined | Returned) -> dict[str, Any]:
    return {"descriptors": dict(entry.descriptors), "running": entry.running}


def _asked_from_dict(values: Mapping[str, Any], configurations: Mapping[int, Mapping[str, Any]]) -> Asked:
    named = values["configuration"] is not None
    alternatives = Alternatives(values["alternatives"], configurations if named else None)
    mean, std, ucb = values["scores"]
    decision = Decision(
        values["id"], values["station"], values["arm"], values["configuration"], mean, std, ucb,
        alternatives, values["known"], values["round"], values["memo"],
    )  # fmt: skip
    state = None if values["state"] is None else PackedState(values["state"])
    return Asked(decision, values["task"], np.array(values["x"], dtype=np.float64), state)
