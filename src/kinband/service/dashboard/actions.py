"""What forms do: approve, reject, roll back, freeze, set a mode, stop. Each checks who sends it, acts, and goes back.

A page may be minutes old when its button is pressed. What no longer waits is left out of an approval and said to be;
what contradicts the record is answered on the next page, in the record's own words.
"""

from collections.abc import Callable, Sequence
from typing import Annotated

from fastapi import APIRouter, Form
from starlette.requests import Request
from starlette.responses import Response

from kinband.counting import counted
from kinband.errors import BadInputError, ConflictError
from kinband.service.dashboard import addresses
from kinband.service.dashboard.errors import public_words
from kinband.service.dashboard.flashes import Flash
from kinband.service.dashboard.frame import redirect
from kinband.service.dashboard.views.common import names_of
from kinband.service.dashboard.visitors import Visitor, Visitors
from kinband.service.operations import Item, Operations
from kinband.service.operations.records import checked_mode

Ids = Annotated[list[str], Form()]
Line = Annotated[str, Form(max_length=2000)]


def add_actions(router: APIRouter, operations: Operations, visitors: Visitors) -> None:
    """Add the routes that forms are sent to."""
    _add_judging(router, operations, visitors)
    _add_station_actions(router, operations, visitors)
    _add_switches(router, operations, visitors)


def _add_judging(router: APIRouter, operations: Operations, visitors: Visitors) -> None:
    @router.post("/plan/approve")
    def approve(request: Request, id: Ids = [], comment: Line = "", csrf: Line = "") -> Response:  # noqa: A002, B006
        visitor = visitors.sender(request, csrf=csrf, role="operator")
        return done(visitor, "/plan", lambda: judge(operations, id, comment, visitor.name, approved=True))

    @router.post("/plan/reject")
    def reject(request: Request, id: Ids = [], comment: Line = "", csrf: Line = "") -> Response:  # noqa: A002, B006
        visitor = visitors.sender(request, csrf=csrf, role="operator")
        return done(visitor, "/plan", lambda: judge(operations, id, comment, visitor.name, approved=False))


def _add_station_actions(router: APIRouter, operations: Operations, visitors: Visitors) -> None:
    @router.post("/stations/{name:path}/roll-back")
    def roll_back(request: Request, name: str, comment: Line = "", csrf: Line = "") -> Response:
        visitor, station = visitors.sender(request, csrf=csrf, role="operator"), addresses.read(name)

        def act() -> str:
            card = operations.roll_back(station, comment=comment, actor=visitor.name)
            return f"{station} runs {names_of(operations).text(card.running)} again."

        return done(visitor, addresses.station_url(station), act)

    @router.post("/stations/{name:path}/freeze")
    def freeze(request: Request, name: str, comment: Line = "", csrf: Line = "") -> Response:
        visitor, station = visitors.sender(request, csrf=csrf, role="operator"), addresses.read(name)

        def act() -> str:
            operations.freeze(station, why=comment, actor=visitor.name)
            return f"{station} is frozen: nothing changes it until it is thawed."

        return done(visitor, addresses.station_url(station), act)

    @router.post("/stations/{name:path}/thaw")
    def thaw(request: Request, name: str, comment: Line = "", csrf: Line = "") -> Response:
        visitor, station = visitors.sender(request, csrf=csrf, role="operator"), addresses.read(name)

        def act() -> str:
            operations.thaw(station, why=comment, actor=visitor.name)
            return f"{station} may be changed again."

        return done(visitor, addresses.station_url(station), act)

    @router.post("/stations/{name:path}/mode")
    def mode(request: Request, name: str, mode: Line = "", comment: Line = "", csrf: Line = "") -> Response:
        visitor, station = visitors.sender(request, csrf=csrf, role="admin"), addresses.read(name)

        def act() -> str:
            operations.set_mode(checked_mode(mode), [station], comment=comment, actor=visitor.name)
            return f"{station} is in {mode} mode."

        return done(visitor, addresses.station_url(station), act)


def _add_switches(router: APIRouter, operations: Operations, visitors: Visitors) -> None:
    @router.post("/mode")
    def mode(request: Request, mode: Line = "", comment: Line = "", csrf: Line = "") -> Response:
        visitor = visitors.sender(request, csrf=csrf, role="admin")

        def act() -> str:
            operations.set_mode(checked_mode(mode), comment=comment, actor=visitor.name)
            return f"All stations are in {mode} mode, and so will be those that join."

        return done(visitor, "/", act)

    @router.post("/stop")
    def stop(request: Request, comment: Line = "", csrf: Line = "") -> Response:
        visitor = visitors.sender(request, csrf=csrf, role="operator")

        def act() -> str:
            operations.stop(why=comment, actor=visitor.name)
            return "Everything is stopped: no station is changed until somebody resumes."

        return done(visitor, "/", act)

    @router.post("/resume")
    def resume(request: Request, comment: Line = "", csrf: Line = "") -> Response:
        visitor = visitors.sender(request, csrf=csrf, role="operator")

        def act() -> str:
            operations.resume(why=comment, actor=visitor.name)
            return "Stations may be changed again."

        return done(visitor, "/", act)


def done(visitor: Visitor, back: str, act: Callable[[], str | Flash]) -> Response:
    """Act and go back with a message of what came of it, or of why nothing did."""
    try:
        said = act()
    except (BadInputError, ConflictError) as error:
        said = Flash(f"Nothing was done: {public_words(error)}.", "bad")
    return redirect(back, said if isinstance(said, Flash) else Flash(said), visitor=visitor)


def judge(operations: Operations, ids: Sequence[str], comment: str, actor: str, *, approved: bool) -> Flash:
    """Approve or reject those decisions that still wait, and say what became of them."""
    with operations.looking() as picture:
        waiting = {item.id for item in picture.waiting()}
    still = [key for key in dict.fromkeys(ids) if key in waiting]
    gone = len(dict.fromkeys(ids)) - len(still)
    late = f" {counted(gone, 'decision')} no longer waited." if gone else ""
    if not still:
        return Flash(f"Nothing was done: {'tick at least one decision' if not gone else 'too late'}.{late}", "bad")
    act = operations.approve if approved else operations.reject
    items = act(still, comment=comment, actor=actor)
    if not approved:
        return Flash(f"{_were(items, 'change')} rejected.{late}", "bad" if gone else "good")
    return Flash(_approved_words(items) + late, "bad" if gone or _held_up(items) else "good")


def _held_up(items: Sequence[Item]) -> list[Item]:
    return [item for item in items if item.status == "refused"]


def _approved_words(items: Sequence[Item]) -> str:
    refused = _held_up(items)
    carried = [item for item in items if item not in refused]
    words = [f"{_were(carried, 'change')} approved and carried out."] if carried else []
    if refused:
        reason = "" if refused[0].verdict is None else f" ({refused[0].verdict.reason})"
        words.append(f"{_were(refused, 'change')} refused by the guard{reason}.")
    return " ".join(words)


def _were(items: Sequence[Item], what: str) -> str:
    return f"{counted(len(items), what)} {'was' if len(items) == 1 else 'were'}"
