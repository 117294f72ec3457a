"""Everything as files, streamed."""

from fastapi.responses import StreamingResponse

from kinband.service import tables
from kinband.service.http.routing import Fresh, Service, Shapes, router
from kinband.service.operations import Item, Operations

routes = router("exports")


class CsvResponse(StreamingResponse):
    """An answer that is a CSV file."""

    media_type = "text/csv"


@routes.get(
    "/export/decisions.csv",
    operation_id="export_decisions",
    summary="All decisions as CSV",
    response_class=CsvResponse,
)
def export_decisions(operations: Fresh, shapes: Shapes) -> StreamingResponse:
    """Oldest first. Columns `before_`, `chosen_`, `proposed_` and `run_` hold the knobs."""
    header = [*tables.DECIDED, *tables.knob_names(shapes.space, "before", "chosen", "proposed", "run")]
    return tables.csv_answer("decisions.csv", header, tables.decision_rows(_items(operations), shapes.space))


@routes.get(
    "/export/outcomes.csv",
    operation_id="export_outcomes",
    summary="All outcomes as CSV",
    response_class=CsvResponse,
)
def export_outcomes(operations: Fresh, shapes: Shapes) -> StreamingResponse:
    """What decisions earned, as corrected, with what ran in columns `run_`; those that were called off too."""
    header = [*tables.OUTCOMES, *tables.knob_names(shapes.space, "run")]
    return tables.csv_answer("outcomes.csv", header, tables.outcome_rows(_items(operations), shapes.space))


@routes.get(
    "/export/events.csv",
    operation_id="export_events",
    summary="All events as CSV",
    response_class=CsvResponse,
)
def export_events(operations: Service) -> StreamingResponse:
    """The whole history, oldest first, with payloads as JSON."""
    return tables.csv_answer("events.csv", tables.EVENTS, tables.event_rows(operations))


def _items(operations: Operations) -> list[Item]:
    """All decisions as they stand at one moment; records do not change, so that they can be written at leisure."""
    with operations.looking() as picture:
        return list(picture.items.values())
