"""What answers hold. Fields are described here once, for the schema, the documentation and the client."""

from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from kinband.guard.review import Code, Outcome
from kinband.service.http import examples
from kinband.service.operations.records import Mode, Status

# --- What answers of all kinds share: an example each, for the schema -----------------------------------------------

Knobs = dict[str, Any]
"""A configuration: values by knob."""


def answer(example: dict[str, Any]) -> ConfigDict:
    """Return how an answer is set up: it cannot be changed, and the schema shows an example.

    Example:
        >>> answer({"status": "ok"})["json_schema_extra"]
        {'examples': [{'status': 'ok'}]}
    """
    return ConfigDict(frozen=True, json_schema_extra={"examples": [example]})


# --- Decisions: what was decided, what became of it, and why --------------------------------------------------------
#
# Four fields of a decision say what a station runs, and are easily confused: `chosen` is what the controller picked,
# `proposed` what the guard makes of it, `before` what ran when it was asked for, and `run` what runs in its slot.


class Refusal(BaseModel):
    """Why something was not allowed."""

    code: Code = Field(description="The guard rail.")
    reason: str = Field(description="The same for people.")
    configuration: Knobs | None = Field(description="What was refused; null for any change.")


class Verdict(BaseModel):
    """What the guard said."""

    outcome: Outcome = Field(description="allowed, replaced by the next best, refused, or rolled back.")
    reason: str = Field(description="One sentence.")
    refusals: list[Refusal] = Field(description="What was refused on the way.")


class Alternative(BaseModel):
    """A configuration that was considered, with its scores then."""

    arm: int = Field(description="Its number among the configurations.")
    configuration: Knobs | None = Field(description="Its knobs.")
    mean: float | None = Field(description="Predicted reward.")
    width: float | None = Field(description="Standard deviation of that, noise excluded.")
    score: float | None = Field(description="What was maximised.")


class Decision(BaseModel):
    """A decision with everything that happened to it."""

    model_config = answer(examples.DECISION)

    id: str = Field(description="What to tell its outcome by.")
    station: str = Field(description="Whom it is for.")
    slot: str | None = Field(description="Your name of its slot.")
    at: datetime = Field(description="When it was asked for.")
    mode: Mode = Field(description="The mode of its station then.")
    status: Status = Field(description="What became of it.")
    chosen: Knobs | None = Field(description="What the controller chose.")
    proposed: Knobs | None = Field(description="What the guard made of that: what runs if a person says yes.")
    before: Knobs | None = Field(description="What the station ran when it was asked for; null if nobody knew.")
    run: Knobs | None = Field(description="What the station runs in this slot; null if nobody knows.")
    changes: bool = Field(description="Whether `proposed` is something else than `before`.")
    open: bool = Field(description="Whether its outcome is awaited.")
    mean: float | None = Field(description="Predicted reward of `chosen`.")
    width: float | None = Field(description="Standard deviation of that, noise excluded.")
    score: float | None = Field(description="What was maximised.")
    known: int = Field(description="How many rewards were known when deciding.")
    round: int | None = Field(description="Number of its round, where it was made together with others.")
    reward: float | None = Field(description="What it earned, as corrected; null while it is awaited.")
    called_off: bool = Field(description="Whether no reward will come.")
    comment: str = Field(description="What a person said about it.")
    actor: str = Field(description="Who asked.")
    decided_by: str = Field(description="Who approved, rejected or rolled it back.")
    verdict: Verdict | None = Field(description="What the guard said, last.")


class DecisionDetail(Decision):
    """A decision with the configurations that were considered."""

    model_config = answer(examples.DETAIL)

    alternatives: list[Alternative] = Field(description="The best-scored ones, best first.")


class Asked(BaseModel):
    """The decisions of a round, in the order of the states."""

    model_config = answer({"decisions": [examples.DETAIL], "warnings": []})

    decisions: list[DecisionDetail]
    warnings: list[str] = Field(description="What looks wrong with the states, such as a counter in another unit.")


class Decisions(BaseModel):
    """Decisions that were acted upon, as they stand now."""

    model_config = answer({"decisions": [examples.DECISION]})

    decisions: list[Decision]


class Expected(BaseModel):
    """What was expected of a change when it was decided; null where no score of it was kept."""

    proposed: float | None = Field(description="Predicted reward of `proposed`.")
    proposed_width: float | None = Field(description="Standard deviation of that, noise excluded.")
    before: float | None = Field(description="Predicted reward of `before`.")
    before_width: float | None = Field(description="Standard deviation of that, noise excluded.")
    gain: float | None = Field(description="Predicted reward of `proposed` less that of `before`.")
    gain_low: float | None = Field(description="Lower end of the 95 % interval of the gain.")
    gain_high: float | None = Field(description="Its upper end.")


class Planned(Decision):
    """A decision that waits for a person, with what is expected of it."""

    model_config = answer(examples.PLANNED)

    expected: Expected = Field(description="What the change is expected to earn.")


class Plan(BaseModel):
    """What waits for a person, oldest first."""

    model_config = answer({"decisions": [examples.PLANNED]})

    decisions: list[Planned]


class DecisionPage(Decisions):
    """Decisions, newest first."""

    model_config = answer({"decisions": [examples.DECISION], "next": "/v1/decisions?limit=1&before=d000001"})

    next: str | None = Field(description="Where the next page is; null on the last.")


class GuardSaid(Verdict):
    """What the guard made of a decision."""

    rails: list[Code] = Field(description="The rails that refused something.")
    ran_instead: Knobs | None = Field(description="What the station ran; null if that is what was decided.")


class Explanation(BaseModel):
    """Why a decision was made, as of then."""

    model_config = ConfigDict(extra="allow", frozen=True, json_schema_extra={"examples": [examples.EXPLANATION]})

    id: str = Field(description="The decision.")
    station: str = Field(description="Whom it is for.")
    text: str = Field(description="One paragraph.")
    kind: str = Field(description="exploitation, trial, held back or unscored.")
    guard: GuardSaid | None = Field(description="What the guard made of it; null where it was not asked.")


# --- The network as a whole: modes, configurations, similarity, history, guard rails --------------------------------


class Modes(BaseModel):
    """Who may do what, and whether everything is stopped."""

    model_config = answer({"mode": "shadow", "stopped": None, "stations": {"3714": "assist", "3715": "shadow"}})

    mode: Mode = Field(description="The mode of newcomers.")
    stopped: str | None = Field(description="Why everything is stopped; null if it is not.")
    stations: dict[str, Mode] = Field(description="The mode of every station.")


class Numbered(BaseModel):
    """A configuration and its number."""

    arm: int
    configuration: Knobs


class Configurations(BaseModel):
    """What can be chosen from."""

    model_config = answer({"knobs": {"tilt": [2, 4]}, "configurations": examples.NUMBERED})

    knobs: dict[str, list[Any]] = Field(description="The values of each knob.")
    configurations: list[Numbered]


class Similarity(BaseModel):
    """How alike stations are."""

    model_config = answer({"stations": ["3714", "3715"], "matrix": [[1.0, 0.8], [0.8, 1.0]], "method": "given"})

    stations: list[str]
    matrix: list[list[float]] = Field(description="Row and column m belong to the m-th station.")
    method: str = Field(description="What it was found by.")


class Event(BaseModel):
    """One line of history."""

    model_config = answer(examples.EVENT)

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

    model_config = answer({"events": [examples.EVENT], "next": None})

    events: list[Event]
    next: str | None = Field(description="Where the next page is; null on the last.")


class Rails(BaseModel):
    """The guard rails in force."""

    model_config = answer(examples.RAILS)

    text: str = Field(description="Their file; empty where there is none.")
    digest: str | None = Field(description="What tells them from others; null where there is no file.")
    at: datetime | None = Field(description="When they were put in force; null where none ever were.")
    actor: str = Field(description="Who did.")
    comment: str = Field(description="Why.")
    stop: bool = Field(description="Whether they stop everything.")
    frozen: dict[str, str] = Field(description="Stations that they freeze, and why.")


class RefusedByRails(BaseModel):
    """Something that waits and would be refused."""

    decision: str = Field(description="The decision.")
    station: str = Field(description="Whom it is for.")
    rails: list[Code] = Field(description="What refuses it.")
    reason: str = Field(description="The same for people.")


class RailsChange(BaseModel):
    """What became of guard rails that were sent."""

    model_config = answer({"changed": True, "rails": examples.RAILS, "refused": []})

    changed: bool = Field(description="Whether others are in force now than before.")
    rails: Rails = Field(description="Those in force now.")
    refused: list[RefusedByRails] = Field(description="What waits and those that were sent refuse, approved now.")


# --- The service itself: whether it lives, and what went wrong ------------------------------------------------------


class Health(BaseModel):
    """Whether the service lives, or is ready."""

    model_config = answer({"status": "ok", "version": "0.1.0"})

    status: Literal["ok"]
    version: str = Field(description="Of kinband.")


class Problem(BaseModel):
    """What went wrong, as RFC 9457 has it, in a sentence that says what to do."""

    model_config = ConfigDict(extra="allow", frozen=True, json_schema_extra={"examples": [examples.PROBLEM]})

    type: str = Field("about:blank", description="Kind of problem.")
    title: str = Field(description="The status in words.")
    status: int = Field(description="The status.")
    detail: str = Field(description="What happened and what to do, in one sentence.")


# --- Stations: how they stand, what is believed of them, what they earned -------------------------------------------


class Site(BaseModel):
    """Where a sector stands and looks."""

    x: float = Field(description="To the east, in metres.")
    y: float = Field(description="To the north, in metres.")
    azimuth: float | None = Field(description="Degrees clockwise from north; null for all round.")


class Station(BaseModel):
    """A station as it stands."""

    model_config = answer(examples.STATION)

    station: str = Field(description="Its name.")
    mode: Mode = Field(description="Its mode.")
    active: bool = Field(description="Whether it is decided for; false once it has left.")
    running: Knobs | None = Field(description="What it runs; null if nobody knows.")
    before: Knobs | None = Field(description="What it ran before its last change.")
    changed: datetime | None = Field(description="When it last changed.")
    changed_by: str = Field(description="controller, operator, roll-back or network.")
    state: dict[str, float] | None = Field(description="What it was last asked with.")
    last: str | None = Field(description="Its last decision.")
    frozen: str | None = Field(description="Why it is frozen; null if it is not.")
    recent: float | None = Field(description="Mean reward of its last 24 known slots.")
    site: Site | None = Field(description="Where it is, where that is known.")


class Stations(BaseModel):
    """Every station that there is or was."""

    model_config = answer({"stations": [examples.STATION]})

    stations: list[Station]


class Joined(BaseModel):
    """A station that has joined."""

    model_config = answer({"station": examples.STATION, "similarity": {"3714": 0.8}})

    station: Station
    similarity: dict[str, float] = Field(description="How like the others it is.")


class Left(BaseModel):
    """A station that has left."""

    model_config = answer({"station": "3716", "awaited": ["d000007"]})

    station: str
    awaited: list[str] = Field(description="Decisions of it whose outcome is still awaited.")


class Option(BaseModel):
    """What is believed of a configuration."""

    arm: int = Field(description="Its number among the configurations.")
    configuration: Knobs = Field(description="Its knobs.")
    mean: float | None = Field(description="Predicted reward.")
    width: float | None = Field(description="Standard deviation of that, noise excluded.")


class Outlook(BaseModel):
    """What is believed of every configuration of a station now."""

    model_config = answer(examples.OUTLOOK)

    station: str
    state: dict[str, float] = Field(description="The state that it was last asked with.")
    options: list[Option]
    choice: int = Field(description="Arm that would be decided.")
    running: int | None = Field(description="Arm that runs.")
    lenders: dict[str, float] = Field(description="Whose evidence the choice rests on, as shares, itself among them.")


class Point(BaseModel):
    """One slot of a station."""

    at: datetime = Field(description="When it began.")
    decision: str = Field(description="Its decision.")
    configuration: Knobs | None = Field(description="What ran; null if nobody knows.")
    changed: bool = Field(description="Whether that was another than before.")
    reward: float | None = Field(description="What it earned; null while it is awaited.")
    baseline: float | None = Field(description="What the declared configuration was expected to earn in its place.")


class History(BaseModel):
    """The slots of a station, oldest first."""

    model_config = answer({"station": "3714", "points": [examples.POINT]})

    station: str
    points: list[Point]
