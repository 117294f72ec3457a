"""What there is to know around decisions: configurations, similarity, history."""

from typing import Annotated
from urllib.parse import urlencode

from fastapi import Query

from kinband.service.http import answers
from kinband.service.http.bodies import EventFilters
from kinband.service.http.routing import Fresh, Service, Shapes, router
from kinband.service.http.shapes import event_of

routes = router("looking")


@routes.get("/configurations", operation_id="list_configurations", summary="What can be chosen from")
def list_configurations(shapes: Shapes) -> answers.Configurations:
    """Knobs with their values, and every configuration with its number."""
    numbered = [answers.Numbered(arm=arm, configuration=knobs) for arm, knobs in enumerate(shapes.space)]
    return answers.Configurations(
        knobs={knob: list(values) for knob, values in shapes.space.knobs.items()}, configurations=numbered
    )


@routes.get("/similarity", operation_id="get_similarity", summary="How alike stations are")
def get_similarity(operations: Fresh) -> answers.Similarity:
    """The task matrix that stations share by, as it stands."""
    found = operations.similarity()
    return answers.Similarity(stations=list(found.stations), matrix=found.matrix.tolist(), method=found.method)


@routes.get("/events", operation_id="list_events", summary="The history of everything")
def list_events(operations: Service, filters: Annotated[EventFilters, Query()]) -> answers.EventPage:
    """Events of the ledger: who did what and when, in full. `next` leads to the following page."""
    newest = filters.order == "newest"
    wanted = filters.model_dump(exclude={"limit", "order", "kind"}, exclude_none=True)
    found = operations.events(**wanted, kinds=filters.kind, newest_first=newest, limit=filters.limit + 1)
    page, more = found[: filters.limit], len(found) > filters.limit
    query = filters.model_dump(exclude_none=True) | {"before" if newest else "after": page[-1].seq} if more else {}
    return answers.EventPage(
        events=[event_of(event) for event in page],
        next=f"/v1/events?{urlencode(query, doseq=True)}" if more else None,
    )
