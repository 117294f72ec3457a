"""Routes for stations and the guard rails over them."""

from collections.abc import Mapping
from typing import Annotated, Any

from fastapi import APIRouter, Body, Query

from kinband.guardrails import Rails as RailsInForce
from kinband.service.api.gate import Caller, Fresh, Key, Service, StationName, YamlRoute, router
from kinband.service.api.requests import CommentBody, RailsBody, StationBody, WhyBody
from kinband.service.operations import DecisionRecord, Operations, RailsOnRecord, ReadModel
from kinband.service.schemas import (
    History,
    Joined,
    Left,
    Outlook,
    Point,
    Rails,
    RailsChange,
    RefusedByRails,
    Site,
    Station,
    Stations,
    all_shown,
    shown,
)

stations = router("stations")
rails = APIRouter(prefix="/v1", tags=["rails"], route_class=YamlRoute)

NO_COMMENT = CommentBody()
NO_REASON = WhyBody()
AS_TEXT: dict[str, Any] = {
    "requestBody": {"content": {"application/yaml": {"schema": {"type": "string"}, "example": "stop: on\n"}}}
}


# --- Stations: how they stand, what is believed of them, who joins and leaves, what people do to one of them --------


@stations.get("/stations", operation_id="list_stations", summary="List stations")
def list_stations(operations: Fresh) -> Stations:
    """Every station as it stands; those that have left are not `active`."""
    sites = operations.sites
    with operations.looking() as read_model:
        return Stations(stations=[_shown(operations, read_model, name, sites) for name in read_model.stations])


@stations.post("/stations", operation_id="add_station", summary="Take in a station", status_code=201)
def add_station(body: StationBody, operations: Service, caller: Caller, key: Key = None) -> Joined:
    """Let a station join, or come back, in the mode of newcomers.

    It starts from what stations like it have learned: by `similarity`, or by `descriptors` where stations have them.
    """
    similarity = operations.add_station(
        body.name, body.descriptors, body.similarity, running=body.running, key=key, actor=caller.name
    )
    return Joined(station=_station(operations, body.name), similarity=similarity)


@stations.get("/stations/{name}", operation_id="get_station", summary="Look at a station")
def get_station(name: StationName, operations: Fresh) -> Station:
    """One station as it stands."""
    return _station(operations, name)


@stations.delete("/stations/{name}", operation_id="remove_station", summary="Let a station leave")
def remove_station(name: StationName, operations: Service, caller: Caller, key: Key = None) -> Left:
    """Stop deciding for a station. What it taught stays, and outcomes that are awaited can still be told."""
    return Left(station=name, awaited=operations.remove_station(name, key=key, actor=caller.name))


@stations.get("/stations/{name}/outlook", operation_id="get_outlook", summary="What is believed now")
def get_outlook(name: StationName, operations: Fresh) -> Outlook:
    """What every configuration is expected to earn, in the state that the station was last asked with."""
    return shown(Outlook, operations.outlook(name), operations.space)


@stations.get("/stations/{name}/history", operation_id="get_history", summary="The slots of a station")
def get_history(
    name: StationName,
    operations: Fresh,
    last: Annotated[int, Query(ge=1, le=2_000, description="At most so many, the newest.")] = 500,
) -> History:
    """What ran and what it earned, slot by slot, oldest first."""
    with operations.looking() as read_model:
        points = read_model.points(name, last)
    return History(station=name, points=all_shown(Point, points, operations.space))


@stations.post("/stations/{name}/roll-back", operation_id="roll_back", summary="Roll a station back")
def roll_back(
    name: StationName,
    operations: Service,
    caller: Caller,
    body: Annotated[CommentBody, Body()] = NO_COMMENT,
    key: Key = None,
) -> Station:
    """Have a station run again what it ran before its last change."""
    operations.roll_back(name, comment=body.comment, key=key, actor=caller.name)
    return _station(operations, name)


@stations.put("/stations/{name}/freeze", operation_id="freeze", summary="Freeze a station")
def freeze(
    name: StationName,
    operations: Service,
    caller: Caller,
    body: Annotated[WhyBody, Body()] = NO_REASON,
    key: Key = None,
) -> Station:
    """Leave a station as it is until it is thawed."""
    operations.freeze(name, why=body.why, key=key, actor=caller.name)
    return _station(operations, name)


@stations.delete("/stations/{name}/freeze", operation_id="thaw", summary="Thaw a station")
def thaw(name: StationName, operations: Service, caller: Caller, key: Key = None) -> Station:
    """Let a station that a person froze be changed again; one that the rails freeze stays frozen."""
    operations.thaw(name, key=key, actor=caller.name)
    return _station(operations, name)


def _station(operations: Operations, name: str) -> Station:
    with operations.looking() as read_model:
        return _shown(operations, read_model, name, operations.sites)


def _shown(operations: Operations, read_model: ReadModel, name: str, sites: Mapping[str, Site]) -> Station:
    """Return a station as it stands; the read model must be held."""
    found = shown(Station, read_model.station(name), operations.space)
    return found.model_copy(update={"recent": read_model.recent(name), "site": sites.get(name)})


# --- The guard rails: those in force, and others in their place -----------------------------------------------------


@rails.get("/rails", operation_id="get_rails", summary="The guard rails in force")
def get_rails(operations: Fresh) -> Rails:
    """The hard limits in force, as their file has them, with who put them there and when."""
    return _rails(*operations.rails_in_force())


@rails.put("/rails", operation_id="set_rails", summary="Put other guard rails in force", openapi_extra=AS_TEXT)
def set_rails(
    body: RailsBody,
    operations: Fresh,
    caller: Caller,
    check: Annotated[bool, Query(description="Whether to check them only, and put nothing in force.")] = False,
    key: Key = None,
) -> RailsChange:
    """Put rails in force for the next decision, in every process; `{}` lifts all of them.

    They come as YAML, as they are, or in JSON. What is wrong with them is told with the line. `refused` is what waits
    for a person and would be refused from now on, if all of it were approved now.
    """
    refused, (before, _) = operations.check_rails(body.yaml), operations.rails_in_force()
    if not check:
        operations.set_rails(body.yaml, comment=body.comment, replaces=body.replaces, key=key, actor=caller.name)
    after, in_force = operations.rails_in_force()
    return RailsChange(
        changed=after.digest != before.digest,
        rails=_rails(after, in_force),
        refused=[_refused(record) for record in refused],
    )


def _rails(known: RailsOnRecord, in_force: RailsInForce) -> Rails:
    return Rails(
        text=known.text,
        digest=known.digest or None,
        at=known.at,
        actor=known.actor,
        comment=known.comment,
        stop=in_force.stop,
        frozen={one.station: one.why for one in in_force.freeze},
    )


def _refused(record: DecisionRecord) -> RefusedByRails:
    """Return why rails refuse a decision; it must have been reviewed."""
    assert record.verdict is not None  # noqa: S101
    codes, reason = list(record.verdict.codes), record.verdict.reason
    return RefusedByRails(decision=record.id, station=record.station, rails=codes, reason=reason)
