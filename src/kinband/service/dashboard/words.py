"""What happened, in words: one sentence an event, one phrase a status.

A sentence says who did what to which station; when is said beside it. It is made from the event's payload, and what a
payload does not hold is left out: an audit log must be able to show what it does not understand.
"""

from collections.abc import Callable, Mapping
from typing import Any

from kinband.counting import counted
from kinband.service.dashboard.figures import figure, knobs
from kinband.service.ledger import Event

Space = Callable[[int], Mapping[str, Any] | None]
"""Configurations by arm; None where there is no such arm."""

STATUS_WORDS = {
    "shadow": "recorded only",
    "kept": "no change wanted",
    "waiting": "waits for approval",
    "applied": "carried out",
    "not made": "not made by the network",
    "refused": "refused by the guard",
    "rejected": "rejected by a person",
    "rolled back": "rolled back",
    "expired": "expired unapproved",
}
"""What became of a decision."""

MODE_WORDS = {
    "shadow": "decisions are recorded, nothing is changed",
    "assist": "a person approves every change",
    "autonomous": "changes are carried out at once, within the guard rails",
}
"""What a mode means."""

KIND_WORDS = {
    "started": "start",
    "decision": "decision",
    "ran": "ran something else",
    "outcome": "outcome",
    "correction": "correction",
    "station": "station",
    "similarity": "similarity",
    "observation": "observation",
    "verdict": "guard's verdict",
    "approval": "approval or rejection",
    "applied": "change",
    "mode": "mode",
    "switch": "stop or freeze",
    "rails": "guard rails",
    "access": "access",
}
"""Kinds of events, as a list to choose from names them."""

BY_WORDS = {
    "controller": "by the controller",
    "operator": "by an operator",
    "roll-back": "rolled back by the guard",
    "network": "by the network manager",
}
"""Who changed a configuration."""

_OUTCOMES = {"allowed": "allowed", "replaced": "replaced", "refused": "refused", "rolled back": "rolled back"}


def sentence(event: Event, space: Space, *, said: Mapping[str, Any] | None = None) -> str:
    """Return an event as one sentence.

    Args:
        event: What is on record.
        space: Configurations by arm.
        said: Its payload, where that is known without reading it.

    Example:
        >>> event = Event(9, "mode", "2026-11-20T10:00:00Z", "anna", "", None, None, None, None,
        ...     '{"mode": "assist", "stations": null, "comment": "trial week"}', "")
        >>> sentence(event, {}.get)
        'anna put all stations into assist mode: “trial week”.'
    """
    said = event.payload if said is None else said
    who = event.actor or "the service"
    text = _SENTENCES.get(event.kind, _unknown)(event, said, who, space)
    comment = said.get("comment")
    end = f": “{comment}”." if isinstance(comment, str) and comment else "."
    text = f"The {text[4:]}" if text.startswith("the ") else text
    return text + end


def _arm(space: Space, arm: object) -> str:
    found = space(arm) if isinstance(arm, int) else None
    return knobs(found) if found is not None else "an unknown configuration" if arm is None else f"configuration {arm}"


def _started(_event: Event, _said: Mapping[str, Any], who: str, _space: Space) -> str:
    return f"{who} started the ledger"


def _decision(event: Event, said: Mapping[str, Any], who: str, space: Space) -> str:
    entry = said.get("entry", {})
    scores = list(entry.get("scores") or ())
    known = len(scores) >= 2 and None not in scores[:2]
    hope = f", expecting {figure(scores[0])} ± {figure(scores[1])}" if known else ""
    asked = "" if who == "the service" else f" when {who} asked"
    what = knobs(entry["configuration"]) if entry.get("configuration") else _arm(space, entry.get("arm"))
    return f"the controller chose {what} for {event.station}{asked}{hope}"


def _ran(event: Event, said: Mapping[str, Any], _who: str, space: Space) -> str:
    return f"{event.station} runs {_arm(space, said.get('entry', {}).get('arm'))} in the slot of {event.decision}"


def _outcome(event: Event, said: Mapping[str, Any], who: str, _space: Space) -> str:
    entry = said.get("entry", {})
    if entry.get("entry") == "called-off":
        return f"{who} called off decision {event.decision} of {event.station}: no reward will come"
    own = entry.get("own") or [entry.get("reward")]
    return f"{who} reported the reward {figure(own[0])} of {event.station} for {event.decision}"


def _correction(event: Event, said: Mapping[str, Any], who: str, _space: Space) -> str:
    entry = said.get("entry", {})
    reward = entry.get("own", entry.get("reward"))
    return f"{who} corrected the reward of {event.station} for {event.decision} to {figure(reward)}"


def _station(event: Event, said: Mapping[str, Any], who: str, _space: Space) -> str:
    match said.get("entry", {}).get("entry"):
        case "joined":
            return f"{who} added station {event.station}"
        case "left":
            return f"{who} removed station {event.station}"
        case "returned":
            return f"{who} took station {event.station} back in"
        case _:
            return f"the controller noticed that {event.station} has changed and learns it anew"


def _similarity(_event: Event, said: Mapping[str, Any], _who: str, _space: Space) -> str:
    rows = said.get("entry", {}).get("rows")
    known = f" from {counted(rows, 'reward')}" if isinstance(rows, int) else ""
    return f"the controller estimated anew how alike the stations are{known}"


def _observation(event: Event, _said: Mapping[str, Any], who: str, _space: Space) -> str:
    return f"{who} reported measurements" + (f" of {event.station}" if event.station else "")


def _verdict(event: Event, said: Mapping[str, Any], _who: str, _space: Space) -> str:
    verdict = said.get("verdict", {})
    outcome = _OUTCOMES.get(verdict.get("outcome"), "reviewed")
    status = STATUS_WORDS.get(str(said.get("status")), str(said.get("status")))
    reason = str(verdict.get("reason", "")).rstrip(".")
    return f"the guard {outcome} {event.decision} of {event.station} ({status})" + (f": {reason}" if reason else "")


def _approval(event: Event, said: Mapping[str, Any], who: str, _space: Space) -> str:
    if not said.get("approved"):
        return f"{who} rejected {event.decision} of {event.station}"
    refused = said.get("status") == "refused"
    reason = str((said.get("verdict") or {}).get("reason", "")).rstrip(".")
    return f"{who} approved {event.decision} of {event.station}" + (
        f", which the guard refused: {reason}" if refused else ""
    )


def _applied(event: Event, said: Mapping[str, Any], who: str, space: Space) -> str:
    to, before = _arm(space, said.get("arm")), said.get("before")
    if said.get("taken_back"):
        return f"{who} reported that {event.station} never changed to {_arm(space, before)} and runs {to}"
    came = "" if before is None else f" from {_arm(space, before)}"
    match said.get("by"):
        case "roll-back":
            return f"the guard rolled {event.station} back{came} to {to}"
        case "operator":
            return f"{who} rolled {event.station} back{came} to {to}"
        case "network":
            return f"{who} reported that {event.station} went{came} to {to}"
        case _:
            return f"{event.station} was changed{came} to {to}"


def _mode(_event: Event, said: Mapping[str, Any], who: str, _space: Space) -> str:
    stations = said.get("stations")
    whom = "all stations" if stations is None else _some(stations)
    return f"{who} put {whom} into {said.get('mode')} mode"


def _some(stations: list[str]) -> str:
    shown = ", ".join(stations[:5])
    return shown if len(stations) <= 5 else f"{shown} and {len(stations) - 5:,} more"


def _switch(event: Event, said: Mapping[str, Any], who: str, _space: Space) -> str:
    match said.get("event", {}).get("event"):
        case "stopped":
            return f"{who} stopped everything"
        case "resumed":
            return f"{who} took the stop back"
        case "frozen":
            return f"{who} froze {event.station}"
        case "thawed":
            return f"{who} thawed {event.station}"
        case _:
            return f"{who} turned a switch"


def _rails(_event: Event, said: Mapping[str, Any], who: str, _space: Space) -> str:
    lifted = not said.get("digest") or str(said.get("text", "")).strip() == "{}"
    return f"{who} lifted all guard rails" if lifted else f"{who} put guard rails {said['digest']} in force"


def _access(_event: Event, said: Mapping[str, Any], who: str, _space: Space) -> str:
    role = f" with the role {said['role']}" if said.get("role") else ""
    return f"{who} {said.get('action', 'changed')} the token {said.get('name', '')}{role}"


def _unknown(event: Event, _said: Mapping[str, Any], who: str, _space: Space) -> str:
    about = f" about {event.station}" if event.station else ""
    return f"{who} recorded an event of kind {event.kind}{about}"


_SENTENCES: dict[str, Callable[[Event, Mapping[str, Any], str, Space], str]] = {
    "started": _started,
    "decision": _decision,
    "ran": _ran,
    "outcome": _outcome,
    "correction": _correction,
    "station": _station,
    "similarity": _similarity,
    "observation": _observation,
    "verdict": _verdict,
    "approval": _approval,
    "applied": _applied,
    "mode": _mode,
    "switch": _switch,
    "rails": _rails,
    "access": _access,
}
