"""The schema: complete, with examples that are right, and nothing that is loaded from elsewhere."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel
from tests.support.http_service import Served, served

from kinband.service import schemas
from kinband.service.api import requests
from kinband.service.api.authentication import ROLES, needs
from kinband.version import __version__

ROOT = Path(__file__).parents[4]
MODELS = [
    model
    for module in (schemas, requests)
    for model in vars(module).values()
    if isinstance(model, type) and issubclass(model, BaseModel) and model.__module__ == module.__name__
]


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("schema")) as found:
        yield found


@pytest.fixture(scope="module")
def schema(service: Served) -> dict[str, Any]:
    found: dict[str, Any] = service.client(None).get("/openapi.json").json()
    return found


def operations(schema: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, methods in schema["paths"].items():
        for method, operation in methods.items():
            yield method, path, operation


def test_the_schema_introduces_itself(schema: dict[str, Any]) -> None:
    assert schema["openapi"].startswith("3.1")
    assert schema["info"]["title"] == "kinband"
    assert schema["info"]["version"] == __version__
    used = {tag for _, _, operation in operations(schema) for tag in operation["tags"]}
    assert used == {tag["name"] for tag in schema["tags"]}
    assert schema["components"]["securitySchemes"]["token"]["scheme"] == "bearer"


def test_every_operation_says_what_it_does_and_what_it_needs(schema: dict[str, Any]) -> None:
    for _, _, operation in operations(schema):
        name = operation["operationId"]
        assert needs(name) in operation["description"]
        assert operation["summary"]
        assert bool(operation["security"]) == (ROLES[name] is not None)
        assert operation["responses"]["500"]


def test_every_body_and_answer_has_an_example(schema: dict[str, Any]) -> None:
    models = schema["components"]["schemas"]
    for _, _, operation in operations(schema):
        contents = [operation.get("requestBody", {}).get("content", {})]
        contents += [answer.get("content", {}) for answer in operation["responses"].values()]
        for content in contents:
            if "application/json" in content:
                reference = content["application/json"]["schema"]["$ref"]
                assert models[reference.rsplit("/", 1)[1]]["examples"]


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)
def test_every_example_is_valid_and_every_field_described(model: type[BaseModel]) -> None:
    described = model.model_json_schema()
    for example in described.get("examples", []):
        read = model.model_validate_json(json.dumps(example), strict=None)
        assert (
            model.model_validate(json.loads(json.dumps(example)) if module_of(model) == "bodies" else example) == read
        )
    assert described.get("description")
    if module_of(model) == "bodies":
        assert all("description" in field for field in described["properties"].values())


def module_of(model: type[BaseModel]) -> str:
    return model.__module__.rsplit(".", 1)[1]


def test_bodies_are_closed() -> None:
    for model in MODELS:
        if module_of(model) == "bodies":
            assert model.model_config.get("extra") == "forbid"


def test_every_reference_leads_somewhere(schema: dict[str, Any]) -> None:
    for reference in re.findall(r'"\$ref": "#/([^"]+)"', json.dumps(schema)):
        found: Any = schema
        for part in reference.split("/"):
            found = found[part]


def test_the_list_of_routes_is_a_page_of_our_own(service: Served, schema: dict[str, Any]) -> None:
    page = service.client(None).get("/docs")
    assert page.status_code == 200
    assert "<script" not in page.text
    assert "http" not in page.text
    for _, path, _ in operations(schema):
        assert f"<code>{path}</code>" in page.text
    assert service.client(None).get("/redoc").status_code == 404


def test_every_route_stands_on_the_page_with_its_role(schema: dict[str, Any]) -> None:
    text = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    for method, path, operation in operations(schema):
        role = ROLES[operation["operationId"]]
        assert re.search(
            rf"^\| `{method.upper()} {re.escape(path)}` \|.*\| {role or 'anybody'} \|$", text, re.MULTILINE
        )
    listed = re.findall(r"^\| `(?:GET|POST|PUT|DELETE) /", text, re.MULTILINE)
    assert len(listed) == len(ROLES)
