"""The page of the guard rails and its form: look, check, put in force.

What is wrong with a draft is said beside it, so that nothing that was typed is lost; only what was put in force leads
back to the page by a redirection, as other forms do.
"""

from typing import Annotated

from fastapi import APIRouter, Form
from starlette.requests import Request
from starlette.responses import Response

from kinband.errors import BadInputError, ConflictError
from kinband.service.dashboard.desk import Desk
from kinband.service.dashboard.errors import public_words
from kinband.service.dashboard.flashes import Flash
from kinband.service.dashboard.frame import plain_page, redirect
from kinband.service.dashboard.views.rails import Draft, rails
from kinband.service.dashboard.visitors import Visitor

Line = Annotated[str, Form(max_length=2_000)]
Whole = Annotated[str, Form(max_length=1_000_000)]


def add_rails(router: APIRouter, desk: Desk) -> None:
    """Add the page and what its form is sent to."""

    @router.get("/rails")
    def the_rails(request: Request) -> Response:
        return desk.show(request, "rails.html", lambda: rails(desk.operations))

    @router.post("/rails")
    def changed(
        request: Request, yaml: Whole = "", comment: Line = "", replaces: Line = "", check: Line = "", csrf: Line = ""
    ) -> Response:
        visitor = desk.visitors.sender(request, csrf=csrf, role="admin")
        draft = Draft(yaml.replace("\r\n", "\n").rstrip("\n") + "\n", comment)  # browsers send other ends of lines
        try:
            refused = desk.operations.check_rails(draft.text)
            if check:
                return _again(desk, visitor, draft.checked(refused))
            desk.operations.set_rails(draft.text, comment=comment, replaces=replaces, actor=visitor.name)
        except (BadInputError, ConflictError) as error:
            status = 409 if isinstance(error, ConflictError) else 422
            return _again(desk, visitor, draft.wrong(public_words(error)), status=status)
        return redirect("/rails", Flash("These rails are in force from the next decision on."), visitor=visitor)


def _again(desk: Desk, visitor: Visitor, draft: Draft, *, status: int = 200) -> Response:
    """Show the page with a draft that is not in force."""
    shown = rails(desk.operations, draft)
    return plain_page("rails.html", status=status, visitor=visitor, seen=desk.seen(), path="/rails", **shown)
