"""Entries of the journal as JSON-able values and back, and whether an entry can follow those before it."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from kinband.controller.journal import (
    NO_KPIS,
    Asked,
    CalledOff,
    Corrected,
    Entry,
    Estimated,
    Joined,
    Journal,
    Left,
    Ran,
    Renewed,
    Returned,
    Told,
)
from kinband.controller.settings import Settings
from kinband.errors import BadInputError, SavedStateError
from kinband.packed import Alternatives, PackedState
from kinband.records import Decision


def check_entry(entry: Entry, journal: Journal, settings: Settings) -> None:
    """Refuse an entry that cannot follow those of the journal: somebody edited the log.

    Who came and went is checked where it is noted, against what is in force (`roster`).

    Example:
        >>> from kinband import ConfigurationSpace, Controller
        >>> controller = Controller(ConfigurationSpace(tilt=[2, 4]), ["a"])
        >>> check_entry(Told("d000007", 0.5, None), controller.journal, controller.settings)
        Traceback (most recent call last):
            ...
        kinband.errors.NotFoundError: no decision has the id 'd000007': 0 decisions are on record
    """
    match entry:
        case Asked(decision=decision):
            if decision.id != journal.next_id:
                raise BadInputError(f"the log should go on with {journal.next_id}, it has {decision.id}")
            if not 0 <= entry.task < len(settings.stations) + len(journal.joined):
                raise BadInputError(f"decision {decision.id} is for task {entry.task}, which does not exist")
        case Told():
            journal.find_untold(entry.id)
            settings.check_reward(entry.reward)
        case Corrected():
            journal.find_told(entry.id)
            settings.check_reward(entry.reward)
        case CalledOff():
            journal.find_untold(entry.id)
        case Ran():
            _check_ran(entry, journal.find_untold(entry.id), settings)


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
                "scores": [d.mean, d.width, d.ucb],
                "alternatives": [[a.arm, a.mean, a.width, a.ucb] for a in d.alternatives],
                "known": d.known,
                "round": d.round,
                "memo": dict(d.memo),
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
            named = {"station": entry.station, "task": entry.task, "likeness": list(entry.likeness)}
            return {"entry": "joined", **named, "found": entry.found, **_said(entry)}
        case Renewed():
            named = {"station": entry.station, "task": entry.task, "likeness": list(entry.likeness)}
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
            likeness = tuple(map(float, values["likeness"]))
            said = values["descriptors"], values["running"]
            return Joined(values["station"], values["task"], likeness, values["found"], *said)
        case "renewed":
            likeness = tuple(map(float, values["likeness"]))
            return Renewed(values["station"], values["task"], likeness, values["id"], values["evidence"])
        case "estimated":
            triangle = tuple(map(float, values["triangle"]))
            return Estimated(int(values["rows"]), values["common"], values["alike"], triangle)
        case "left":
            return Left(values["station"])
        case "returned":
            return Returned(values["station"], values["descriptors"], values["running"])
        case other:
            raise SavedStateError(f"the log holds an entry of an unknown kind, {other!r}")


def _check_ran(entry: Ran, asked: Asked, settings: Settings) -> None:
    arms = len(settings.encoder.space)
    if not 0 <= entry.arm < arms or settings.features is not None:
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
    mean, width, ucb = values["scores"]
    decision = Decision(
        values["id"], values["station"], values["arm"], values["configuration"], mean, width, ucb,
        alternatives, values["known"], values["round"], values["memo"],
    )  # fmt: skip
    state = None if values["state"] is None else PackedState(values["state"])
    return Asked(decision, values["task"], np.array(values["x"], dtype=np.float64), state)
