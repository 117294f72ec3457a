"""The service keeps its schema: requests drawn from it, right and wrong, break nothing and get answers that it names.

Schemathesis draws the requests (Hatfield-Dodds and Dygalo 2022). Stations and decisions of drawn names do not exist, so
half of the requests are turned to those that do.
"""

from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)
from tests.support.http_service import STATIONS, TILTS, Served, served

from kinband.service.api.app import schema_of
from kinband.service.api.routes import ROUTERS

CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
PATHS = schema_of([route for router in ROUTERS for route in router.routes])["paths"]
OPERATIONS = [(path, method, found) for path, methods in PATHS.items() for method, found in methods.items()]
RIGHT, WRONG = GenerationMode.POSITIVE, GenerationMode.NEGATIVE
RUNS = [
    pytest.param(path, method.upper(), mode, id=f"{found['operationId']} {word}")
    for path, method, found in OPERATIONS
    for mode, word in ((RIGHT, "right"), (WRONG, "wrong"))
    if mode is RIGHT or found.get("parameters") or found.get("requestBody")  # else nothing can be wrong
]
RUNS.sort(key=lambda run: "remove_station" in str(run.id))  # last, so that there are stations for the others
EXAMPLES = 12
DECISIONS = [f"d{number:06d}" for number in range(1, 40)]


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("schemathesis")) as found:
        for number in range(4):  # something to look at
            records = found.operations.ask({name: {"load": 0.2 * number} for name in STATIONS}, slot=f"s{number}")
            found.operations.tell({record.id: 0.1 * number for record in records[: number % 3]} or {records[0].id: 0.5})
        yield found


@pytest.fixture(scope="module")
def schema(service: Served) -> Any:
    return schemathesis.openapi.from_asgi("/openapi.json", service.app)


def about_what_exists(case: Any, data: st.DataObject) -> None:
    """Let a request be about stations and decisions that there are, as far as its form allows."""
    if case.path_parameters:
        known = {"name": STATIONS, "id": DECISIONS}
        case.path_parameters = {key: data.draw(st.sampled_from(known[key])) for key in case.path_parameters}
    body = case.body
    if not isinstance(body, dict):
        return
    decisions = st.lists(st.sampled_from(DECISIONS), min_size=1, max_size=3, unique=True)
    if isinstance(body.get("states"), dict):
        stations = data.draw(st.lists(st.sampled_from(STATIONS), min_size=1, unique=True))
        case.body = {**body, "states": {name: {"load": data.draw(st.floats(-3, 3))} for name in stations}}
        case.body |= {"running": {stations[0]: {"tilt": data.draw(st.sampled_from(TILTS))}}, "allowed": None}
    elif isinstance(body.get("outcomes"), list):
        told = zip(data.draw(decisions), body["outcomes"], strict=False)
        outcomes = [{**said, "decision": name} for name, said in told if isinstance(said, dict)]
        case.body = {"outcomes": [{**one, "station": None, "kpis": None} for one in outcomes]}
    elif "decisions" in body:
        case.body = {**body, "decisions": data.draw(decisions)}
    elif "decision" in body:
        case.body = {**body, "decision": data.draw(st.sampled_from(DECISIONS)), "kpis": None}


@pytest.mark.parametrize(("path", "method", "mode"), RUNS)
def test_the_service_keeps_its_schema(
    service: Served, schema: Any, path: str, method: str, mode: GenerationMode
) -> None:
    operation = schema[path][method]
    headers = {"Authorization": f"Bearer {service.texts['admin']}"}

    @settings(
        max_examples=EXAMPLES,
        derandomize=True,
        deadline=None,
        database=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(data=st.data())
    def run(data: st.DataObject) -> None:
        case = data.draw(operation.as_strategy(generation_mode=mode))
        if data.draw(st.booleans()):
            about_what_exists(case, data)
        case.call_and_validate(headers=headers, checks=CHECKS)

    run()
