"""Examples that the schema shows: one small network, in the forms that answers have."""

from typing import Any

_VERDICT: dict[str, Any] = {"outcome": "allowed", "reason": "tilt 6: no rail forbids it", "refusals": []}

DECISION: dict[str, Any] = {
    "id": "d000001",
    "station": "3714",
    "slot": "2026-11-20T10",
    "at": "2026-11-20T10:00:00Z",
    "mode": "assist",
    "status": "waiting",
    "chosen": {"tilt": 6},
    "proposed": {"tilt": 6},
    "before": {"tilt": 4},
    "run": {"tilt": 4},
    "changes": True,
    "open": True,
    "mean": 0.9,
    "width": 0.05,
    "score": 0.95,
    "known": 120,
    "round": 1,
    "reward": None,
    "called_off": False,
    "comment": "",
    "actor": "network manager",
    "decided_by": "",
    "verdict": _VERDICT,
}
ALTERNATIVES: list[dict[str, Any]] = [
    {"arm": 2, "configuration": {"tilt": 6}, "mean": 0.9, "width": 0.05, "score": 0.95},
    {"arm": 1, "configuration": {"tilt": 4}, "mean": 0.89, "width": 0.02, "score": 0.91},
]
DETAIL = {**DECISION, "alternatives": ALTERNATIVES}
PLANNED: dict[str, Any] = {
    **DECISION,
    "expected": {
        "proposed": 0.9,
        "proposed_width": 0.05,
        "before": 0.89,
        "before_width": 0.02,
        "gain": 0.01,
        "gain_low": -0.096,
        "gain_high": 0.116,
    },
}
EXPLANATION: dict[str, Any] = {
    "id": "d000001",
    "station": "3714",
    "text": "3714 should run tilt=6: expected reward 0.900, give or take 0.050.",
    "kind": "trial",
    "guard": {**_VERDICT, "rails": [], "ran_instead": None},
}
RAILS: dict[str, Any] = {
    "text": "knobs:\n  tilt: {min: 2, max: 6, step: 2}\n",
    "digest": "5c1b2a9be3b8f0d7",
    "at": "2026-11-20T09:00:00Z",
    "actor": "ada",
    "comment": "steps of 2 from now on",
    "stop": False,
    "frozen": {},
}
STATION: dict[str, Any] = {
    "station": "3714",
    "mode": "assist",
    "active": True,
    "running": {"tilt": 4},
    "before": {"tilt": 2},
    "changed": "2026-11-19T22:00:00Z",
    "changed_by": "controller",
    "state": {"load": 0.4},
    "last": "d000001",
    "frozen": None,
    "recent": 0.88,
    "site": None,
}
OUTLOOK: dict[str, Any] = {
    "station": "3714",
    "state": {"load": 0.4},
    "options": [{"arm": 0, "configuration": {"tilt": 2}, "mean": 0.8, "width": 0.1}],
    "choice": 0,
    "running": 0,
    "lenders": {"3714": 0.7, "3715": 0.3},
}
POINT: dict[str, Any] = {
    "at": "2026-11-20T10:00:00Z",
    "decision": "d000001",
    "configuration": {"tilt": 4},
    "changed": False,
    "reward": 0.91,
    "baseline": 0.88,
}
NUMBERED: list[dict[str, Any]] = [
    {"arm": 0, "configuration": {"tilt": 2}},
    {"arm": 1, "configuration": {"tilt": 4}},
]
EVENT: dict[str, Any] = {
    "seq": 7,
    "kind": "approval",
    "at": "2026-11-20T10:05:00.000000Z",
    "actor": "ada",
    "station": "3714",
    "decision": "d000001",
    "slot": None,
    "payload": {"approved": True, "comment": "agreed"},
    "checksum": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
}
PROBLEM: dict[str, Any] = {
    "type": "about:blank",
    "title": "Conflict",
    "status": 409,
    "detail": "decision d000001 was already told the reward 0.91: use POST /v1/corrections to change it",
}
