"""Decisions: what was decided, what became of it, and why.

Four fields of a decision say what a station runs, and are easily confused: `chosen` is what the controller picked,
`proposed` what the guard makes of it, `before` what ran when it was asked for, and `run` what runs in its slot.
"""

from datetime import datetime

from pydantic import BaseModel, ConfigDict, Field

from kinband.guard.review import Code, Outcome
from kinband.service.http import examples
from kinband.service.http.answers.shared import Knobs, answer
from kinband.service.operations.records import Mode, Status


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
