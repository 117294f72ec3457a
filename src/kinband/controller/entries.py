"""Entries of the journal as JSON-able values and back, and whether an entry can follow those before it."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from kinband.controller.journal import Asked, CalledOff, Corrected, Entry, Joined, Journal, Left, Returned, Told
from kinband.controller.settings import Settings
from kinband.errors import BadInputError, SavedStateError
from kinband.records import Alternatives, Decision


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
            return {"entry": "told", "id": entry.id, "reward": entry.reward, "noise": entry.noise}
        case Corrected():
            return {"entry": "corrected", "id": entry.id, "reward": entry.reward}
        case CalledOff():
            return {"entry": "called-off", "id": entry.id}
        case Joined():
            named = {"station": entry.station, "task": entry.task, "likeness": list(entry.likeness)}
            return {"entry": "joined", **named, "found": entry.found, **_said(entry)}
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
            return Told(values["id"], values["reward"], values["noise"])
        case "corrected":
            return Corrected(values["id"], values["reward"])
        case "called-off":
            return CalledOff(values["id"])
        case "joined":
            likeness = tuple(map(float, values["likeness"]))
            said = values["descriptors"], values["running"]
            return Joined(values["station"], values["task"], likeness, values["found"], *said)
        case "left":
            return Left(values["station"])
        case "returned":
            return Returned(values["station"], values["descriptors"], values["running"])
        case other:
            raise SavedStateError(f"the log holds an entry of an unknown kind, {other!r}")


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
    return Asked(decision, values["task"], np.array(values["x"], dtype=np.float64), values["state"])
