"""The schema of the service: OpenAPI 3.1, with what the framework cannot know added to what it can.

Which role an operation needs, and that errors are problems (RFC 9457) with their own media type.
"""

from collections.abc import Sequence
from html import escape
from typing import Any

from fastapi.openapi.utils import get_openapi
from starlette.routing import BaseRoute

from kinband.service.api.gate import ROLES, needs
from kinband.service.problems import MEDIA_TYPE, phrase
from kinband.service.schemas import Problem
from kinband.version import __version__

TAGS = [
    {"name": "decisions", "description": "Ask, and look at what was decided and why."},
    {"name": "outcomes", "description": "Tell what decisions earned, and put it right."},
    {"name": "people", "description": "The plan, approvals, modes, and the big switch."},
    {"name": "stations", "description": "Stations: how they stand, who joins and leaves, roll-back, freeze."},
    {"name": "rails", "description": "The guard rails in force, and others in their place."},
    {"name": "looking", "description": "Configurations, similarity, history."},
    {"name": "exports", "description": "Everything as CSV."},
    {"name": "probes", "description": "For those who run the service."},
]
DESCRIPTION = """kinband decides, slot after slot, which configuration each base station of a cellular network runs.

Every call but the probes `/healthz` and `/readyz` needs a token: `Authorization: Bearer kb_...`. A **viewer** may read;
an **operator** may also ask, tell, approve, roll back, freeze, stop and resume; an **admin** may also set modes, put
guard rails in force and let stations join and leave. `/metrics` needs a viewer's token, which Prometheus can send.

Calls that change something take an `Idempotency-Key`: sent again with the same key, they are answered from the record
and do nothing twice. Errors are problems (RFC 9457) with one sentence that says what to do."""

_ALWAYS = (400, 413, 500)
_GUARDED = (401, 403, 429, 503)
_WRITES = (409, 415)
_MEANING = {
    400: "What was sent cannot be read.",
    401: "No token, or one that is not known, was revoked or has expired.",
    403: "The role of the token is too low; the sentence names the one that is needed.",
    404: "There is no such decision or station.",
    409: "It contradicts what is on record.",
    413: "The body is too large.",
    415: "The body is not sent as what it should be; the sentence names it.",
    422: "A value is not what it should be; the sentence names it.",
    429: "Too many requests; Retry-After says when to come back.",
    500: "Something broke on our side; the sentence has the id under which the log tells more.",
    503: "The database is away, busy or full, or takes no writes; Retry-After says when to come back.",
}


def schema_of(routes: Sequence[BaseRoute]) -> dict[str, Any]:
    """Return the schema of some routes."""
    schema = get_openapi(
        title="kinband", version=__version__, description=DESCRIPTION, tags=TAGS, routes=routes, openapi_version="3.1.0"
    )
    components = schema.setdefault("components", {})
    models = components.setdefault("schemas", {})
    models.pop("HTTPValidationError", None)
    models.pop("ValidationError", None)
    models["Problem"] = Problem.model_json_schema()
    components["responses"] = {f"Problem{status}": _problem(status) for status in _MEANING}
    components["securitySchemes"] = {
        "token": {"type": "http", "scheme": "bearer", "description": "Made by `kinband token create`."}
    }
    for path, operations in schema["paths"].items():
        for method, operation in operations.items():
            _complete(operation, path=path, method=method)
    return schema


def _complete(operation: dict[str, Any], *, path: str, method: str) -> None:
    """Add to an operation what it needs and how it can fail."""
    name = operation["operationId"]
    operation["description"] = f"{operation.get('description', '')}\n\n{needs(name)}".strip()
    operation["security"] = [] if ROLES[name] is None else [{"token": []}]
    statuses = {*_ALWAYS, *(() if ROLES[name] is None else _GUARDED), *(_WRITES if method != "get" else ())}
    statuses |= {503} if name == "ready" else set()
    if path.startswith("/v1"):
        statuses |= {404, 422}
    for status in sorted(statuses):
        operation["responses"][str(status)] = {"$ref": f"#/components/responses/Problem{status}"}


def _problem(status: int) -> dict[str, Any]:
    example = {"type": "about:blank", "title": phrase(status), "status": status, "detail": _MEANING[status]}
    content = {"schema": {"$ref": "#/components/schemas/Problem"}, "example": example}
    return {"description": _MEANING[status], "content": {MEDIA_TYPE: content}}


def page_of(schema: dict[str, Any]) -> str:
    """Return a page that lists what there is; no script, nothing from elsewhere.

    Example:
        >>> print(page_of({"info": {"title": "kinband", "version": "1"}, "paths": {}}).splitlines()[0])
        <!doctype html>
    """
    title = escape(f"{schema['info']['title']} {schema['info']['version']}")
    rows = "\n".join(
        f"<tr><td>{method.upper()}</td><td><code>{escape(path)}</code></td><td>{escape(operation['summary'])}</td>"
        f"<td>{ROLES[operation['operationId']] or 'anybody'}</td></tr>"
        for path, operations in schema["paths"].items()
        for method, operation in operations.items()
    )
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
</head>
<body>
<h1>{title}</h1>
<p>The schema, with bodies, answers and examples: <a href="/openapi.json">/openapi.json</a></p>
<table>
<thead><tr><th>method</th><th>path</th><th>what it does</th><th>role</th></tr></thead>
<tbody>
{rows}
</tbody>
</table>
</body>
</html>
"""
