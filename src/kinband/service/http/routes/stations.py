"""Stations: how they stand, what is believed of them, who joins and leaves, and what people do to one of them."""

from typing import Annotated

from fastapi import Body, Query

from kinband.service.http import answers
from kinband.service.http.bodies import CommentBody, StationBody, WhyBody
from kinband.service.http.routing import Caller, Fresh, Key, Service, Shapes, StationName, router
from kinband.service.http.shapes import Shaper
from kinband.service.operations import Operations

routes = router("stations")

NO_COMMENT = CommentBody()
NO_REASON = WhyBody()


@routes.get("/stations", operation_id="list_stations", summary="List stations")
def list_stations(operations: Fresh, shapes: Shapes) -> answers.Stations:
    """Every station as it stands; those that have left are not `active`."""
    sites = operations.sites
    with operations.looking() as picture:
        return answers.Stations(stations=[shapes.station(card, picture, sites) for card in picture.cards.values()])


@routes.post("/stations", operation_id="add_station", summary="Take in a station", status_code=201)
def add_station(
    body: StationBody, operations: Service, shapes: Shapes, caller: Caller, key: Key = None
) -> answers.Joined:
    """Let a station join, or come back, in the mode of newcomers.

    It starts from what stations like it have learned: by `similarity`, or by `descriptors` where stations have them.
    """
    likeness = operations.add_station(
        body.name, body.descriptors, body.similarity, running=body.running, key=key, actor=caller.name
    )
    return answers.Joined(station=_station(operations, shapes, body.name), similarity=likeness)


@routes.get("/stations/{name}", operation_id="get_station", summary="Look at a station")
def get_station(name: StationName, operations: Fresh, shapes: Shapes) -> answers.Station:
    """One station as it stands."""
    return _station(operations, shapes, name)


@routes.delete("/stations/{name}", operation_id="remove_station", summary="Let a station leave")
def remove_station(name: StationName, operations: Service, caller: Caller, key: Key = None) -> answers.Left:
    """Stop deciding for a station. What it taught stays, and outcomes that are awaited can still be told."""
    return answers.Left(station=name, awaited=operations.remove_station(name, key=key, actor=caller.name))


@routes.get("/stations/{name}/outlook", operation_id="get_outlook", summary="What is believed now")
def get_outlook(name: StationName, operations: Fresh, shapes: Shapes) -> answers.Outlook:
    """What every configuration is expected to earn, in the state that the station was last asked with."""
    return shapes.outlook(operations.outlook(name))


@routes.get("/stations/{name}/history", operation_id="get_history", summary="The slots of a station")
def get_history(
    name: StationName,
    operations: Fresh,
    shapes: Shapes,
    last: Annotated[int, Query(ge=1, le=2_000, description="At most so many, the newest.")] = 500,
) -> answers.History:
    """What ran and what it earned, slot by slot, oldest first."""
    with operations.looking() as picture:
        points = picture.points(name, last)
    return answers.History(station=name, points=[shapes.point(point) for point in points])


@routes.post("/stations/{name}/roll-back", operation_id="roll_back", summary="Roll a station back")
def roll_back(
    name: StationName,
    operations: Service,
    shapes: Shapes,
    caller: Caller,
    body: Annotated[CommentBody, Body()] = NO_COMMENT,
    key: Key = None,
) -> answers.Station:
    """Have a station run again what it ran before its last change."""
    operations.roll_back(name, comment=body.comment, key=key, actor=caller.name)
    return _station(operations, shapes, name)


@routes.put("/stations/{name}/freeze", operation_id="freeze", summary="Freeze a station")
def freeze(
    name: StationName,
    operations: Service,
    shapes: Shapes,
    caller: Caller,
    body: Annotated[WhyBody, Body()] = NO_REASON,
    key: Key = None,
) -> answers.Station:
    """Leave a station as it is until it is thawed."""
    operations.freeze(name, why=body.why, key=key, actor=caller.name)
    return _station(operations, shapes, name)


@routes.delete("/stations/{name}/freeze", operation_id="thaw", summary="Thaw a station")
def thaw(name: StationName, operations: Service, shapes: Shapes, caller: Caller, key: Key = None) -> answers.Station:
    """Let a station that a person froze be changed again; one that the rails freeze stays frozen."""
    operations.thaw(name, key=key, actor=caller.name)
    return _station(operations, shapes, name)


def _station(operations: Operations, shapes: Shaper, name: str) -> answers.Station:
    sites = operations.sites
    with operations.looking() as picture:
        return shapes.station(picture.card(name), picture, sites)
