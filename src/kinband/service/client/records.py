"""What the service answers, as records. What a newer service adds is passed over.

`chosen` is what the controller picked, `proposed` what the guard made of it, `before` what ran when it was asked for,
and `run` what runs in the slot. The schema of the service (`/openapi.json`) describes every field.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any, TypeVar

Knobs = Mapping[str, Any]
Record = TypeVar("Record")


def record(kind: type[Record], document: Mapping[str, Any], **further: Any) -> Record:
    """Return a record from what was answered; fields that are not known here are passed over.

    Args:
        kind: The class of the record.
        document: What was answered.
        further: Fields that are made of what was answered.

    Example:
        >>> record(Option, {"arm": 1, "configuration": {"tilt": 4}, "mean": 0.9, "width": 0.1, "new": True}).mean
        0.9
    """
    known = {field.name for field in fields(kind)}  # type: ignore[arg-type]
    return kind(**({name: value for name, value in document.items() if name in known} | further))


def moment(text: str | None) -> datetime | None:
    """Return a time, where there is one.

    Example:
        >>> moment("2026-11-20T10:00:00Z").year, moment(None)
        (2026, None)
    """
    return None if text is None else datetime.fromisoformat(text)


@dataclass(frozen=True)
class Refusal:
    """Why something was not allowed.

    Example:
        >>> Refusal("step", "tilt may move by 2", {"tilt": 8}).code
        'step'
    """

    code: str
    reason: str
    configuration: Knobs | None


@dataclass(frozen=True)
class Verdict:
    """What the guard said.

    Example:
        >>> Verdict("allowed", "no rail forbids it").refusals
        ()
    """

    outcome: str
    reason: str
    refusals: tuple[Refusal, ...] = ()


@dataclass(frozen=True)
class Alternative:
    """A configuration that was considered.

    Example:
        >>> Alternative(1, {"tilt": 4}, 0.9, 0.1, 1.0).score
        1.0
    """

    arm: int
    configuration: Knobs | None
    mean: float | None
    width: float | None
    score: float | None


@dataclass(frozen=True)
class Expected:
    """What was expected of a change when it was decided; None where no score of it was kept.

    Example:
        >>> Expected(0.9, 0.05, 0.89, 0.02, gain=0.01, gain_low=-0.1, gain_high=0.12).gain
        0.01
    """

    proposed: float | None
    proposed_width: float | None
    before: float | None
    before_width: float | None
    gain: float | None
    gain_low: float | None
    gain_high: float | None


@dataclass(frozen=True)
class Decision:
    """A decision with everything that happened to it; `expected` is there in the plan.

    Example:
        >>> from kinband.service.http.examples import DETAIL
        >>> made = Decision.of(DETAIL)
        >>> made.run, made.verdict.outcome, made.at.hour, len(made.alternatives)
        ({'tilt': 4}, 'allowed', 10, 2)
    """

    id: str
    station: str
    slot: str | None
    at: datetime
    mode: str
    status: str
    chosen: Knobs | None
    proposed: Knobs | None
    before: Knobs | None
    run: Knobs | None
    changes: bool
    open: bool
    mean: float | None
    width: float | None
    score: float | None
    known: int
    round: int | None
    reward: float | None
    called_off: bool
    comment: str
    actor: str
    decided_by: str
    verdict: Verdict | None
    alternatives: tuple[Alternative, ...] = ()
    expected: Expected | None = None

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> "Decision":
        """Return the decision that was answered."""
        said, others, expected = document["verdict"], document.get("alternatives", ()), document.get("expected")
        return record(
            cls,
            document,
            at=moment(document["at"]),
            verdict=None if said is None else _verdict(said),
            alternatives=tuple(record(Alternative, other) for other in others),
            expected=None if expected is None else record(Expected, expected),
        )


def _verdict(document: Mapping[str, Any]) -> Verdict:
    refusals = tuple(record(Refusal, refusal) for refusal in document["refusals"])
    return record(Verdict, document, refusals=refusals)


@dataclass(frozen=True)
class Explanation:
    """Why a decision was made; `guard` is what the guard made of it, `data` everything that was answered.

    Example:
        >>> from kinband.service.http.examples import EXPLANATION
        >>> Explanation.of({**EXPLANATION, "known": 3}).data["known"], Explanation.of(EXPLANATION).guard.outcome
        (3, 'allowed')
    """

    id: str
    station: str
    text: str
    kind: str
    guard: Verdict | None
    data: Mapping[str, Any]

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> "Explanation":
        """Return the explanation that was answered."""
        said = document.get("guard")
        return record(cls, document, guard=None if said is None else _verdict(said), data=dict(document))


@dataclass(frozen=True)
class Station:
    """A station as it stands.

    Example:
        >>> from kinband.service.http.examples import STATION
        >>> Station.of(STATION).running
        {'tilt': 4}
    """

    station: str
    mode: str
    active: bool
    running: Knobs | None
    before: Knobs | None
    changed: datetime | None
    changed_by: str
    state: Mapping[str, float] | None
    last: str | None
    frozen: str | None
    recent: float | None
    site: Mapping[str, float | None] | None

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> "Station":
        """Return the station that was answered."""
        return record(cls, document, changed=moment(document["changed"]))


@dataclass(frozen=True)
class Point:
    """One slot of a station.

    Example:
        >>> from kinband.service.http.examples import POINT
        >>> Point.of(POINT).reward
        0.91
    """

    at: datetime
    decision: str
    configuration: Knobs | None
    changed: bool
    reward: float | None
    baseline: float | None

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> "Point":
        """Return the slot that was answered."""
        return record(cls, document, at=moment(document["at"]))


@dataclass(frozen=True)
class Option:
    """What is believed of a configuration.

    Example:
        >>> Option(1, {"tilt": 4}, 0.9, 0.1).arm
        1
    """

    arm: int
    configuration: Knobs
    mean: float | None
    width: float | None


@dataclass(frozen=True)
class Outlook:
    """What is believed of every configuration of a station.

    Example:
        >>> from kinband.service.http.examples import OUTLOOK
        >>> Outlook.of(OUTLOOK).options[0].mean
        0.8
    """

    station: str
    state: Mapping[str, float]
    options: tuple[Option, ...]
    choice: int
    running: int | None
    lenders: Mapping[str, float]

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> "Outlook":
        """Return the outlook that was answered."""
        return record(cls, document, options=tuple(record(Option, option) for option in document["options"]))


@dataclass(frozen=True)
class Modes:
    """Modes, and whether everything is stopped.

    Example:
        >>> Modes("shadow", None, {"3714": "assist"}).stopped is None
        True
    """

    mode: str
    stopped: str | None
    stations: Mapping[str, str]


@dataclass(frozen=True)
class Rails:
    """The guard rails in force.

    Example:
        >>> from kinband.service.http.examples import RAILS
        >>> Rails.of(RAILS).actor
        'ada'
    """

    text: str
    digest: str | None
    at: datetime | None
    actor: str
    comment: str
    stop: bool
    frozen: Mapping[str, str]

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> "Rails":
        """Return the rails that were answered."""
        return record(cls, document, at=moment(document["at"]))


@dataclass(frozen=True)
class RefusedByRails:
    """Something that waits and would be refused.

    Example:
        >>> RefusedByRails("d000001", "3714", ("step",), "keeps tilt 4").rails
        ('step',)
    """

    decision: str
    station: str
    rails: tuple[str, ...]
    reason: str


@dataclass(frozen=True)
class RailsChange:
    """What became of guard rails that were sent.

    Example:
        >>> from kinband.service.http.examples import RAILS
        >>> RailsChange.of({"changed": True, "rails": RAILS, "refused": []}).rails.digest
        '5c1b2a9be3b8f0d7'
    """

    changed: bool
    rails: Rails
    refused: tuple[RefusedByRails, ...]

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> "RailsChange":
        """Return the change that was answered."""
        refused = tuple(record(RefusedByRails, one, rails=tuple(one["rails"])) for one in document["refused"])
        return record(cls, document, rails=Rails.of(document["rails"]), refused=refused)


@dataclass(frozen=True)
class Similarity:
    """How alike stations are.

    Example:
        >>> Similarity(("a", "b"), ((1.0, 0.8), (0.8, 1.0)), "given").matrix[0][1]
        0.8
    """

    stations: tuple[str, ...]
    matrix: tuple[tuple[float, ...], ...]
    method: str


@dataclass(frozen=True)
class Event:
    """One line of history.

    Example:
        >>> from kinband.service.http.examples import EVENT
        >>> Event.of(EVENT).kind
        'approval'
    """

    seq: int
    kind: str
    at: datetime
    actor: str
    station: str
    decision: str | None
    slot: str | None
    payload: Mapping[str, Any]
    checksum: str

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> "Event":
        """Return the event that was answered."""
        return record(cls, document, at=moment(document["at"]))
