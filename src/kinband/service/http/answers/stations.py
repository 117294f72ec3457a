"""Stations: how they stand, what is believed of them, what they earned."""

from datetime import datetime

from pydantic import BaseModel, Field

from kinband.service.http import examples
from kinband.service.http.answers.shared import Knobs, answer
from kinband.service.operations.records import Mode


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
