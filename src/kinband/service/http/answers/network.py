"""The network as a whole: modes, configurations, similarity, history, guard rails."""

from datetime import datetime
from typing import Any

from pydantic import BaseModel, Field

from kinband.guard.review import Code
from kinband.service.http import examples
from kinband.service.http.answers.shared import Knobs, answer
from kinband.service.operations.records import Mode


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
