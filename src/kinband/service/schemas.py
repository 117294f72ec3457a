"""What the service answers: one schema for API, client, exports and documentation.

A model is made of a record of operations by `shown`: attributes of the same name are taken as they are, and where a
record has the number of a configuration the model has its knobs. The client reads the same models from JSON, and passes
over what a newer service adds. Fields are described here once.

Four fields of a decision say what a station runs, and are easily confused: `chosen` is what the controller picked,
`proposed` what the guard makes of it, `before` what ran when it was asked for, and `run` what runs in its slot.
"""

from collections.abc import Iterable
from datetime import datetime
from typing import Annotated, Any, Literal, TypeVar, get_args

from pydantic import AliasChoices, AliasPath, BaseModel, BeforeValidator, ConfigDict, Field, ValidationInfo

from kinband.guardrails.review import Outcome
from kinband.guardrails.rules import Code
from kinband.space import ConfigurationSpace

Mode = Literal["shadow", "assist", "autonomous"]
"""What may be done with a decision: recorded only, carried out once a person approves, or carried out at once."""

MODES: tuple[Mode, ...] = get_args(Mode)

Status = Literal[
    "shadow", "kept", "waiting", "approved", "ordered", "applied", "not made", "failed", "refused", "rejected",
    "rolled back", "expired",
]  # fmt: skip
"""What became of a decision: "shadow" is recorded only, "kept" wants what runs already, "waiting" is for a person,
"approved" is for its window, "ordered" is for the network manager to make and confirm, "applied" is carried out,
"not made" was carried out and, as the network reports, never made, "failed" was ordered and could not be made,
"refused" by the guard, "rejected" by a person, "rolled back" by the guard in its place or by a person after it, and
"expired" came too late: what waited when its slot was over, what was approved or ordered when its window was, and both
when the station left, was rolled back or got another mode."""

STATUSES: tuple[Status, ...] = get_args(Status)

Manner = Literal["assumed", "confirmed"]
"""Who says that an order is carried out: nobody, so that it counts at once, or the network manager."""

MANNERS: tuple[Manner, ...] = get_args(Manner)

Model = TypeVar("Model", bound=BaseModel)


def shown(model: type[Model], record: object, space: ConfigurationSpace) -> Model:
    """Return a record of operations as the service answers it.

    Example:
        >>> from kinband.guardrails import Refusal as Refused
        >>> refused = Refused("step", "tilt may move by 2", 1)
        >>> shown(Refusal, refused, ConfigurationSpace(tilt=[2, 8])).configuration
        {'tilt': 8}
    """
    return model.model_validate(record, from_attributes=True, context=space)


def all_shown(model: type[Model], records: Iterable[object], space: ConfigurationSpace) -> list[Model]:
    """Return records of operations as the service answers them."""
    return [shown(model, record, space) for record in records]


def _knobs(value: Any, info: ValidationInfo) -> Any:
    """Return the configuration of a number; None where configurations have no names."""
    if not isinstance(value, int):
        return value
    space = info.context
    return space[value] if isinstance(space, ConfigurationSpace) and 0 <= value < len(space) else None


Knobs = Annotated[dict[str, Any], BeforeValidator(dict)]
"""A configuration: values by knob."""
Configuration = Annotated[dict[str, Any] | None, BeforeValidator(_knobs)]
"""The same, made of its number where that is what a record has."""


def _answer(example: dict[str, Any], extra: Literal["ignore", "allow"] = "ignore") -> ConfigDict:
    """Return how an answer is set up: it cannot be changed, and the schema shows an example."""
    return ConfigDict(
        frozen=True,
        populate_by_name=True,
        extra=extra,
        json_schema_serialization_defaults_required=True,
        json_schema_extra={"examples": [example]},
    )


_NESTED = ConfigDict(frozen=True, populate_by_name=True)  # part of an answer


def _from(source: str, description: str) -> Any:
    """Return a field that a record has under another name, or within its decision; an answer has it under its own."""
    return Field(validation_alias=AliasPath(*source.split(".")), description=description)


# --- Examples that the schema shows: one small network --------------------------------------------------------------

_VERDICT: dict[str, Any] = {"outcome": "allowed", "reason": "tilt=6: no rail forbids it", "refusals": []}

_DECISION: dict[str, Any] = {
    "id": "d000001",
    "station": "3714",
    "slot": "2026-11-20T10",
    "from": "2026-11-20T10:00:00Z",
    "at": "2026-11-20T10:00:01Z",
    "mode": "assist",
    "status": "waiting",
    "chosen": {"tilt": 6},
    "proposed": {"tilt": 6},
    "before": {"tilt": 4},
    "run": {"tilt": 4},
    "changes": True,
    "open": True,
    "mean": 0.9,
    "std": 0.05,
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
_ALTERNATIVES: list[dict[str, Any]] = [
    {"arm": 2, "configuration": {"tilt": 6}, "mean": 0.9, "std": 0.05, "score": 0.95},
    {"arm": 1, "configuration": {"tilt": 4}, "mean": 0.89, "std": 0.02, "score": 0.91},
]
_STEPS: list[dict[str, Any]] = [
    {"status": "waiting", "at": "2026-11-20T10:00:00Z", "actor": "network manager", "comment": ""}
]
_DETAIL = {**_DECISION, "alternatives": _ALTERNATIVES, "steps": _STEPS}
_ORDER: dict[str, Any] = {
    "id": "d000001",
    "station": "3714",
    "status": "ordered",
    "slot": "2026-11-20T18",
    "before": {"tilt": 4},
    "proposed": {"tilt": 6},
    "back": {"tilt": 4},
    "due": "2026-11-21T00:00:00Z",
    "until": "2026-11-21T05:00:00Z",
    "decided_by": "ada",
    "held": None,
}
_ANSWER = {**_DETAIL, "held": None, "valid_until": "2026-11-20T10:05:00Z"}
_PLANNED: dict[str, Any] = {
    **_DECISION,
    "expected": {
        "proposed": 0.9,
        "proposed_std": 0.05,
        "before": 0.89,
        "before_std": 0.02,
        "gain": 0.01,
        "gain_low": -0.018,
        "gain_high": 0.038,
    },
    "support": {"own": 40, "others": 900, "stations": 31},
}
_EXPLANATION: dict[str, Any] = {
    "id": "d000001",
    "station": "3714",
    "text": "3714 should run tilt=6: expected reward 0.900, give or take 0.050.",
    "kind": "trial",
    "guard": {**_VERDICT, "rails": [], "ran_instead": None},
}
_RAILS: dict[str, Any] = {
    "text": "knobs:\n  tilt: {min: 2, max: 6, step: 2}\n",
    "digest": "5c1b2a9be3b8f0d7",
    "at": "2026-11-20T09:00:00Z",
    "actor": "ada",
    "comment": "steps of 2 from now on",
    "stop": False,
    "frozen": {},
}
_STATION: dict[str, Any] = {
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
_OUTLOOK: dict[str, Any] = {
    "station": "3714",
    "state": {"load": 0.4},
    "options": [{"arm": 0, "configuration": {"tilt": 2}, "mean": 0.8, "std": 0.1}],
    "choice": 0,
    "running": 0,
    "lenders": {"3714": 0.7, "3715": 0.3},
}
_POINT: dict[str, Any] = {
    "at": "2026-11-20T10:00:00Z",
    "decision": "d000001",
    "configuration": {"tilt": 4},
    "changed": False,
    "reward": 0.91,
    "baseline": 0.88,
}
_NUMBERED: list[dict[str, Any]] = [
    {"arm": 0, "configuration": {"tilt": 2}},
    {"arm": 1, "configuration": {"tilt": 4}},
]
_EVENT: dict[str, Any] = {
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
_PROBLEM: dict[str, Any] = {
    "type": "about:blank",
    "title": "Conflict",
    "status": 409,
    "detail": "decision d000001 was already told the reward 0.91: use POST /v1/corrections to change it",
    "code": "told_already",
    "argument": "decision",
}


# --- Decisions: what was decided, what became of it, and why --------------------------------------------------------


class Refusal(BaseModel):
    """Why something was not allowed."""

    model_config = _NESTED

    code: Code = Field(description="The guard rail.")
    reason: str = Field(description="The same for people.")
    configuration: Configuration = _from("arm", "What was refused; null for any change.")


class Verdict(BaseModel):
    """What the guard said."""

    outcome: Outcome = Field(
        description="allowed, replaced by the next best, deferred to the next window, refused, or rolled back."
    )
    reason: str = Field(description="One sentence.")
    refusals: list[Refusal] = Field(description="What was refused on the way.")
    due: datetime | None = Field(None, description="When what was deferred may be carried out, by the rails of then.")


class Alternative(BaseModel):
    """A configuration that was considered, with its scores then."""

    model_config = _NESTED

    arm: int = Field(description="Its number among the configurations.")
    configuration: Configuration = Field(description="Its knobs.")
    mean: float | None = Field(description="Predicted reward.")
    std: float | None = Field(description="Standard deviation of that, noise excluded.")
    score: float | None = _from("ucb", "What was maximised.")


class Decision(BaseModel):
    """A decision with everything that happened to it."""

    model_config = _answer(_DECISION)

    id: str = Field(description="What to tell its outcome by.")
    station: str = Field(description="The station.")
    slot: str | None = Field(description="Your name of its slot.")
    begins: datetime | None = Field(
        None,
        validation_alias=AliasChoices("begins", "from"),
        serialization_alias="from",
        description="When its slot begins, where that was said.",
    )
    at: datetime = Field(description="When it was asked for.")
    mode: Mode = Field(description="The mode of its station then.")
    status: Status = Field(description="What became of it.")
    chosen: Configuration = _from("decision.configuration", "What the controller chose.")
    proposed: Configuration = _from("wanted", "What the guard made of that: what runs if a person says yes.")
    before: Configuration = _from("running", "What the station ran when it was asked for; null if nobody knew.")
    run: Configuration = _from("arm", "What the station runs in this slot; null if nobody knows.")
    changes: bool = Field(description="Whether `proposed` is something else than `before`.")
    open: bool = Field(description="Whether its outcome is awaited.")
    mean: float | None = _from("decision.mean", "Predicted reward of `chosen`.")
    std: float | None = _from("decision.std", "Standard deviation of that, noise excluded.")
    score: float | None = _from("decision.ucb", "What was maximised.")
    known: int = _from("decision.known", "How many rewards were known when deciding.")
    round: int | None = _from("decision.round", "Number of its round, where it was made together with others.")
    reward: float | None = Field(description="What it earned, as corrected; null while it is awaited.")
    called_off: bool = Field(description="Whether no reward will come.")
    comment: str = Field(description="What a person said about it.")
    actor: str = Field(description="Who asked.")
    decided_by: str = Field(description="Who approved, rejected or rolled it back.")
    due: datetime | None = Field(None, description="When it is ordered, or was; null where it never was approved.")
    until: datetime | None = Field(None, description="Until when it has to be confirmed; later it expires.")
    verdict: Verdict | None = Field(description="What the guard said, last.")


class Step(BaseModel):
    """What a decision came to, one step after the other."""

    model_config = _NESTED

    status: Status = Field(description="What it came to.")
    at: datetime = Field(description="When.")
    actor: str = Field(description="Who did it.")
    comment: str = Field(description="What was said about it, or why.")


class DecisionDetail(Decision):
    """A decision with the configurations that were considered."""

    model_config = _answer(_DETAIL)

    alternatives: list[Alternative] = _from("decision.alternatives", "The best-scored ones, best first.")
    steps: list[Step] = Field([], description="What it came to, oldest first.")


class Answer(DecisionDetail):
    """A decision as it is to be acted upon now."""

    model_config = _answer(_ANSWER)

    held: Refusal | None = Field(
        None,
        description="What forbids the station to change now, such as a stop or a freeze; `run` is then what it is "
        "known to run, else what it ran before. Null if nothing does.",
    )
    valid_until: datetime | None = Field(
        None, description="Until when `run` may be set; later, ask again for the same slot."
    )


class Asked(BaseModel):
    """The decisions of a round, in the order of the states."""

    model_config = _answer({"decisions": [_ANSWER], "warnings": []})

    decisions: list[Answer]
    warnings: list[str] = Field(description="What looks wrong with the states, such as a counter in another unit.")


class Decisions(BaseModel):
    """Decisions that were acted upon, as they stand now."""

    model_config = _answer({"decisions": [_DECISION]})

    decisions: list[Decision]


class Expected(BaseModel):
    """What was expected of a change when it was decided; null where no score of it was kept."""

    proposed: float | None = Field(description="Predicted reward of `proposed`.")
    proposed_std: float | None = Field(description="Standard deviation of that, noise excluded.")
    before: float | None = Field(description="Predicted reward of `before`.")
    before_std: float | None = Field(description="Standard deviation of that, noise excluded.")
    gain: float | None = Field(
        description="What `proposed` gains a slot over `before`, on average over states as in the station's last week."
    )
    gain_low: float | None = Field(description="Lower end of the 95 % interval of the gain.")
    gain_high: float | None = Field(description="Its upper end.")


class Support(BaseModel):
    """How often what is proposed had run before it was decided."""

    model_config = _NESTED

    own: int = Field(description="At the station itself, in slots whose reward is known.")
    others: int = Field(description="At other stations that it learns from.")
    stations: int = Field(description="How many of those there are.")


class Planned(Decision):
    """A decision that waits for a person, with what is expected of it."""

    model_config = _answer(_PLANNED)

    expected: Expected = Field(description="What the change is expected to earn.")
    support: Support | None = Field(None, description="How often it was tried; null in ledgers of before.")


class Plan(BaseModel):
    """What waits for a person, oldest first."""

    model_config = _answer({"decisions": [_PLANNED]})

    decisions: list[Planned]


class Order(BaseModel):
    """A change that was approved and is not made yet."""

    model_config = _answer(_ORDER)

    id: str = _from("record.id", "The decision; confirm or fail it by this.")
    station: str = _from("record.station", "The station.")
    status: Status = _from(
        "record.status", "ordered: make it now; approved: it is ordered when it is due; expired: it is overdue."
    )
    slot: str | None = _from("record.slot", "Your name of the slot it was decided for.")
    before: Configuration = _from("record.running", "What the station ran when it was asked for.")
    proposed: Configuration = _from("record.wanted", "What it is to run.")
    back: Configuration = Field(description="What to return to if it cannot be made: what it runs now.")
    due: datetime | None = _from("record.due", "When it was ordered, or will be.")
    until: datetime | None = _from("record.until", "Until when it has to be confirmed; later it expires.")
    decided_by: str = _from("record.decided_by", "Who approved it; empty where that was the mode autonomous.")
    held: Refusal | None = Field(None, description="What forbids to make it now, such as a stop; null if nothing does.")


class Orders(BaseModel):
    """What the network manager has to do: what is ordered, then what is approved, each in the order of approval."""

    model_config = _answer({"manner": "confirmed", "orders": [_ORDER], "overdue": []})

    manner: Manner = Field(description="assumed: an order counts as carried out at once; confirmed: once you say so.")
    orders: list[Order]
    overdue: list[Order] = Field(
        [], description="Ordered and not confirmed in time, of the last day: make none of them, confirm what was made."
    )


class DecisionPage(Decisions):
    """Decisions, newest first."""

    model_config = _answer({"decisions": [_DECISION], "next": "/v1/decisions?limit=1&before=d000001"})

    next: str | None = Field(description="Where the next page is; null on the last.")


class GuardSaid(Verdict):
    """What the guard made of a decision."""

    rails: list[Code] = Field(description="The rails that refused something.")
    ran_instead: Configuration = Field(description="What the station ran; null if that is what was decided.")


class Explanation(BaseModel):
    """Why a decision was made, as of then."""

    model_config = _answer(_EXPLANATION, extra="allow")

    id: str = Field(description="The decision.")
    station: str = Field(description="The station.")
    text: str = Field(description="One paragraph.")
    kind: str = Field(description="exploitation, trial, held back or unscored.")
    guard: GuardSaid | None = Field(description="What the guard made of it; null where it was not asked.")

    @property
    def data(self) -> dict[str, Any]:
        """Everything that was answered, as plain values."""
        return self.model_dump(mode="json")


# --- The network as a whole: modes, configurations, similarity, history, guard rails --------------------------------


class Proposed(BaseModel):
    """What takes two people by the rails, and one has asked for; it is done when another one does the same."""

    model_config = _NESTED

    actor: str = Field(description="Who asked.")
    at: datetime = Field(description="When; it counts for a day.")
    comment: str = Field(description="Why.")
    text: str = Field("", description="The rails; empty for a resumption.")
    digest: str = Field("", description="Identifies them.")


class Modes(BaseModel):
    """Who may do what, and whether everything is stopped."""

    model_config = _answer(
        {"mode": "shadow", "stopped": None, "clock": None, "stations": {"3714": "assist", "3715": "shadow"}}
    )

    mode: Mode = Field(description="The mode of newcomers.")
    stopped: str | None = Field(description="Why everything is stopped; null if it is not.")
    clock: str | None = Field(
        None, description="Why the clock cannot be trusted, so that nothing changes but by roll-backs; null if it can."
    )
    stations: dict[str, Mode] = Field(description="The mode of every station.")
    resume: Proposed | None = Field(None, description="Who wants to resume, where that takes a second person.")


class Numbered(BaseModel):
    """A configuration and its number."""

    arm: int
    configuration: Knobs


class Configurations(BaseModel):
    """What can be chosen from."""

    model_config = _answer({"knobs": {"tilt": [2, 4]}, "configurations": _NUMBERED})

    knobs: dict[str, list[Any]] = Field(description="The values of each knob.")
    configurations: list[Numbered]


class Similarity(BaseModel):
    """How alike stations are."""

    model_config = _answer(
        {"stations": ["3714", "3715"], "matrix": [[1.0, 0.8], [0.8, 1.0]], "method": "given", "total": 2}
    )

    stations: list[str]
    matrix: list[list[float]] = Field(description="Row and column m belong to the m-th station.")
    method: str = Field(description="What it was found by.")
    total: int = Field(description="How many stations there are.")


class Event(BaseModel):
    """One line of history."""

    model_config = _answer(_EVENT)

    seq: int = Field(description="Its number, without gaps.")
    kind: str = Field(description="What happened.")
    at: str = Field(description="When, UTC.")
    actor: str = Field(description="Who did it.")
    station: str = Field(description="Whom it concerns; empty for nobody in particular.")
    decision: str | None = Field(description="The decision it belongs to.")
    slot: str | None = Field(description="The slot decided for.")
    payload: dict[str, Any] = Field(description="What happened, in full.")
    checksum: str = Field(description="SHA-256 over this and the checksum before.")


class EventPage(BaseModel):
    """Events."""

    model_config = _answer({"events": [_EVENT], "next": None})

    events: list[Event]
    next: str | None = Field(description="Where the next page is; null on the last.")


class Rails(BaseModel):
    """The guard rails in force."""

    model_config = _answer(_RAILS)

    text: str = Field(description="Their file; empty where there is none.")
    digest: str | None = Field(description="Identifies this version; null where there is no file.")
    at: datetime | None = Field(description="When they were put in force; null where none ever were.")
    actor: str = Field(description="Who did.")
    comment: str = Field(description="Why.")
    stop: bool = Field(description="Whether they stop everything.")
    frozen: dict[str, str] = Field(description="Stations that they freeze, and why.")
    two_people: list[str] = Field([], description="What takes two people: approve, rails, resume.")
    proposed: Proposed | None = Field(None, description="Others, which take a second person to be put in force.")


class RefusedByRails(BaseModel):
    """Something that waits and would be refused."""

    decision: str = Field(description="The decision.")
    station: str = Field(description="The station.")
    rails: list[Code] = Field(description="What refuses it.")
    reason: str = Field(description="The same for people.")


class JudgedOtherwise(BaseModel):
    """A decision of the past that other guard rails would have judged otherwise."""

    model_config = _NESTED

    decision: str = Field(description="Its id.")
    station: str = Field(description="Its station.")
    at: datetime = Field(description="When it was made.")
    fate: Literal["refused", "let through", "later", "another"] = Field(
        description='A change "refused"; one "let through" that was not, or sooner; "later"; or "another" one.'
    )
    was: str = Field(description="What the guard said then.")
    reason: str = Field(description="What it says by the rails that were sent.")


class RailsPreview(BaseModel):
    """What guard rails would have made of the decisions of the last days."""

    model_config = _NESTED

    since: datetime | None = Field(description="When the first of them was made; null where there is none.")
    decisions: int = Field(description="How many were reviewed again.")
    changes: int = Field(description="How many of these had a change let through.")
    refused: int = Field(description="Changes that would have been refused.")
    let_through: int = Field(description="Changes that would have been made and were not, or sooner.")
    later: int = Field(description="Changes that would have been made later, when a window opens.")
    another: int = Field(description="Changes to what would have been another configuration.")
    rails: dict[str, int] = Field(description="By rail, how many more decisions it refuses something of.")
    cut: bool = Field(description="Whether there were more decisions than were reviewed.")
    listed: list[JudgedOtherwise] = Field(description="The latest of those judged otherwise, up to 200.")


class RailsChange(BaseModel):
    """What became of guard rails that were sent."""

    model_config = _answer({"changed": True, "rails": _RAILS, "refused": [], "preview": None})

    changed: bool = Field(description="Whether others are in force now than before.")
    rails: Rails = Field(description="Those in force now.")
    refused: list[RefusedByRails] = Field(description="What waits and those that were sent refuse, approved now.")
    preview: RailsPreview | None = Field(default=None, description="Where they were only checked: the last days.")


# --- The service itself: whether it lives, and what went wrong ------------------------------------------------------


class Health(BaseModel):
    """Whether the service lives, or is ready."""

    model_config = _answer({"status": "ok", "version": "0.1.0", "warnings": []})

    status: Literal["ok"]
    version: str = Field(description="Of kinband.")
    warnings: list[str] = Field([], description="What a person should look into, though the service works.")


class Problem(BaseModel):
    """What went wrong, as RFC 9457 has it, in a sentence that says what to do."""

    model_config = _answer(_PROBLEM, extra="allow")

    type: str = Field("about:blank", description="Kind of problem.")
    title: str = Field(description="The status in words.")
    status: int = Field(description="The status.")
    detail: str = Field(description="What happened and what to do, in one sentence.")
    code: str = Field("", description="Which problem it is, for programs; left out where the status tells all.")
    argument: str = Field("", description="The field or parameter at fault; left out where there is none.")


# --- Stations: how they stand, what is believed of them, what they earned -------------------------------------------


class Site(BaseModel):
    """Where a sector stands and looks."""

    x: float = Field(description="To the east, in metres.")
    y: float = Field(description="To the north, in metres.")
    azimuth: float | None = Field(description="Degrees clockwise from north; null for all round.")


class Station(BaseModel):
    """A station as it stands."""

    model_config = _answer(_STATION)

    station: str = Field(description="Its name.")
    mode: Mode = Field(description="Its mode.")
    active: bool = Field(description="Whether it is decided for; false once it has left.")
    running: Configuration = Field(description="What it runs; null if nobody knows.")
    before: Configuration = Field(description="What it ran before its last change.")
    changed: datetime | None = Field(description="When it last changed.")
    changed_by: str = Field(description="controller, operator, roll-back or network.")
    state: dict[str, float] | None = Field(description="What it was last asked with.")
    last: str | None = Field(description="Its last decision.")
    frozen: str | None = Field(description="Why it is frozen; null if it is not.")
    recent: float | None = Field(None, description="Mean reward of its last 24 known slots.")
    site: Site | None = Field(None, description="Where it is, where that is known.")


class Stations(BaseModel):
    """Every station that there is or was."""

    model_config = _answer({"stations": [_STATION]})

    stations: list[Station]


class Joined(BaseModel):
    """A station that has joined."""

    model_config = _answer({"station": _STATION, "similarity": {"3714": 0.8}})

    station: Station
    similarity: dict[str, float] = Field(description="How like the others it is.")


class Left(BaseModel):
    """A station that has left."""

    model_config = _answer({"station": "3716", "awaited": ["d000007"]})

    station: str
    awaited: list[str] = Field(description="Decisions of it whose outcome is still awaited.")


class Option(BaseModel):
    """What is believed of a configuration."""

    arm: int = Field(description="Its number among the configurations.")
    configuration: Knobs = Field(description="Its knobs.")
    mean: float | None = Field(description="Predicted reward.")
    std: float | None = Field(description="Standard deviation of that, noise excluded.")


class Outlook(BaseModel):
    """What is believed of every configuration of a station now."""

    model_config = _answer(_OUTLOOK)

    station: str
    state: dict[str, float] = Field(description="The state that it was last asked with.")
    options: list[Option]
    choice: int = Field(description="Arm that would be decided.")
    running: int | None = Field(description="Arm that runs.")
    lenders: dict[str, float] = Field(description="Whose evidence the choice rests on, as shares, itself among them.")


class Point(BaseModel):
    """One slot of a station."""

    model_config = _NESTED

    at: datetime = Field(description="When it began.")
    decision: str | None = Field(description="Its decision; null for a row of the log that the service started with.")
    configuration: Configuration = _from("arm", "What ran; null if nobody knows.")
    changed: bool = Field(description="Whether that was another than before.")
    reward: float | None = Field(description="What it earned; null while it is awaited.")
    baseline: float | None = Field(description="What the declared configuration was expected to earn in its place.")


class History(BaseModel):
    """The slots of a station, oldest first."""

    model_config = _answer({"station": "3714", "points": [_POINT]})

    station: str
    points: list[Point]


class UnusedRows(BaseModel):
    """Rows that were not used."""

    code: str = Field(description="Why, for programs.")
    count: int = Field(description="How many.")
    places: list[str] = Field(description="The first of them.")
    text: str = Field(description="One sentence.")


class CountersTaken(BaseModel):
    """What became of counters that came."""

    model_config = _answer(
        {
            "rows": 3, "stations": 2, "told": ["d000001"], "corrected": [], "repeated": 0, "differing": 0,
            "unmatched": 1, "left": 0,
            "unused": [
                {
                    "code": "unknown_station", "count": 1, "places": ["row 3: '3799'"],
                    "text": "1 row is of stations that nobody knows: let them join, or check the column "
                    "(row 3: '3799')",
                }
            ],
        }
    )  # fmt: skip

    rows: int = Field(description="How many rows there were.")
    stations: int = Field(description="Of how many stations the state is new.")
    told: list[str] = Field(description="Decisions whose reward is known now.")
    corrected: list[str] = Field(description="Decisions whose reward was put right: the later value counts.")
    repeated: int = Field(description="Rows that brought nothing new.")
    differing: int = Field(description="Rows that contradict what came before.")
    unmatched: int = Field(description="Rewards of periods in which nothing was decided.")
    left: int = Field(description="Rewards that are still to be put right: send the rows again.")
    unused: list[UnusedRows] = Field(description="What could not be used, by reason.")
