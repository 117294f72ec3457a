"""What a controller records, and how that is written down."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from kinband.arrays import FloatArray
from kinband.drift import past_name
from kinband.errors import SavedStateError
from kinband.records import Alternatives, Decision, PackedState

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
        neighbours: The decisions of neighbours whose rewards are (on record as `beside`).
        others: Neighbours' rewards that no decision led to and that are mixed in too, with their variance.
    """

    id: str
    reward: float
    noise: float | None
    kpis: Mapping[str, tuple[float, float | None]] = field(default_factory=lambda: NO_KPIS)
    own: tuple[float, float | None] | None = None
    neighbours: tuple[str, ...] = ()
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


# --- Entries of the journal as JSON-able values and back ------------------------------------------------------------


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
            mixed = {} if entry.own is None else {"own": list(entry.own), "beside": list(entry.neighbours)}
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
            own, neighbours = values.get("own"), tuple(values.get("beside", ()))
            told = Told(values["id"], values["reward"], values["noise"], _kpis_from_dict(values) or NO_KPIS)
            others = {name: (value, noise) for name, (value, noise) in values.get("others", {}).items()}
            return told if own is None else replace(told, own=(own[0], own[1]), neighbours=neighbours, others=others)
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
