"""The guard rails: those in force, and others in their place."""

from typing import Annotated, Any

from fastapi import APIRouter, Query

from kinband.service.http import answers
from kinband.service.http.bodies import RailsBody
from kinband.service.http.routing import Caller, Fresh, Key, YamlRoute
from kinband.service.http.shapes import rails_of, stopped_by

routes = APIRouter(prefix="/v1", tags=["rails"], route_class=YamlRoute)

AS_TEXT: dict[str, Any] = {
    "requestBody": {"content": {"application/yaml": {"schema": {"type": "string"}, "example": "stop: on\n"}}}
}


@routes.get("/rails", operation_id="get_rails", summary="The guard rails in force")
def get_rails(operations: Fresh) -> answers.Rails:
    """The hard limits in force, as their file has them, with who put them there and when."""
    return rails_of(*operations.rails_in_force())


@routes.put("/rails", operation_id="set_rails", summary="Put other guard rails in force", openapi_extra=AS_TEXT)
def set_rails(
    body: RailsBody,
    operations: Fresh,
    caller: Caller,
    check: Annotated[bool, Query(description="Whether to check them only, and put nothing in force.")] = False,
    key: Key = None,
) -> answers.RailsChange:
    """Put rails in force for the next decision, in every process; `{}` lifts all of them.

    They come as YAML, as they are, or in JSON. What is wrong with them is told with the line. `refused` is what waits
    for a person and would be refused from now on, if all of it were approved now.
    """
    refused, (before, _) = operations.check_rails(body.yaml), operations.rails_in_force()
    if not check:
        operations.set_rails(body.yaml, comment=body.comment, replaces=body.replaces, key=key, actor=caller.name)
    after, rails = operations.rails_in_force()
    return answers.RailsChange(
        changed=after.digest != before.digest,
        rails=rails_of(after, rails),
        refused=[stopped_by(item) for item in refused],
    )
