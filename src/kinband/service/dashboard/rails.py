"""The guard rails: those in force, who put them there, and forms that write a draft of others, try it, put it in force.

What is wrong with a draft is said beside it, so that nothing that was typed is lost; only what was put in force leads
back to the page by a redirection, as other forms do.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields
from difflib import unified_diff
from typing import Annotated, Any

from fastapi import Depends
from fastapi import Form as Field
from starlette.requests import Request
from starlette.responses import Response

from kinband.errors import BadInputError, ConflictError
from kinband.guardrails import Rails, example_text
from kinband.guardrails.form import CHANGES, FALLBACK, LIMITS, LISTS, Form, form_of, text_with
from kinband.service.dashboard.dashboard import Dashboard, Line
from kinband.service.dashboard.errors import public_words
from kinband.service.dashboard.rendering import Flash, plain_page, redirect
from kinband.service.dashboard.rows import names_of
from kinband.service.dashboard.sign_in import Visitor
from kinband.service.dashboard.text import sentence
from kinband.service.operations import DecisionRecord, Operations
from kinband.service.operations.preview import Preview, previewed
from kinband.service.operations.review import digest_of

_LAST = 8  # changes of the rails
_ROWS = (10, 32)  # lines of the form, at least and at most
_LINE = re.compile(r"\bline (\d+)")
_Whole = Annotated[str, Field(max_length=1_000_000)]
_Words = Annotated[list[str], Field(max_length=200)]


@dataclass(frozen=True, slots=True)
class RailsDraft:
    """Rails that somebody wrote and that are not in force.

    Attributes:
        text: The draft.
        comment: What was to be said about it.
        complaint: What is wrong with it, else empty.
        refused: What waits and would be refused; None where that was not asked for.
        tried: What it would have made of the last days; None where that was not asked for.
        fields: What its form holds, where that could not be written into the text; None for what the text says.
    """

    text: str
    comment: str = ""
    complaint: str = ""
    refused: Sequence[DecisionRecord] | None = None
    tried: Preview | None = None
    fields: Form | None = None

    @property
    def line(self) -> str:
        """The line that the complaint names, else empty."""
        found, lines = _LINE.search(self.complaint), self.text.splitlines()
        number = int(found[1]) if found else 0
        return lines[number - 1].strip() if 0 < number <= len(lines) else ""


@dataclass
class _Fields:
    """The fields of the form, as it sends them: of knobs, one list a column."""

    knob: _Words = field(default_factory=list)
    low: _Words = field(default_factory=list)
    high: _Words = field(default_factory=list)
    step: _Words = field(default_factory=list)
    min_time: Line = ""
    per_day: Line = ""
    per_round: Line = ""
    round: Line = ""
    maintenance: _Whole = ""
    forbidden: _Whole = ""
    freeze: _Whole = ""
    by: Line = ""
    rate: Line = ""
    drop: Line = ""
    slots: Line = ""
    retry_after: Line = ""
    outside_windows: Line = ""

    @property
    def form(self) -> Form:
        """The same by section."""
        if not len(self.knob) == len(self.low) == len(self.high) == len(self.step):
            raise BadInputError("every knob has a min, a max and a step: leave those empty that do not limit")
        limits = zip(self.low, self.high, self.step, strict=True)
        return Form(
            {name: dict(zip(LIMITS, one, strict=True)) for name, one in zip(self.knob, limits, strict=True)},
            {name: getattr(self, name) for name in CHANGES},
            {name: getattr(self, name).replace("\r\n", "\n") for name in LISTS},
            {name: getattr(self, name) for name in FALLBACK},
        )


def add_pages(dashboard: Dashboard) -> None:
    """Add the page and what its form is sent to."""
    operations = dashboard.operations

    @dashboard.router.get("/rails")
    def the_rails(request: Request) -> Response:
        return dashboard.show(request, "rails.html", lambda: rails(operations))

    @dashboard.router.post("/rails")
    def changed(
        request: Request, yaml: _Whole = "", comment: Line = "", replaces: Line = "", check: Line = "", csrf: Line = ""
    ) -> Response:
        visitor = dashboard.visitors.sender(request, csrf=csrf, role="admin")
        text = yaml.replace("\r\n", "\n").rstrip("\n") + "\n"  # browsers send other ends of lines
        try:
            refused = operations.check_rails(text)
            if check:
                tried = previewed(operations, text)
                return _again(dashboard, visitor, RailsDraft(text, comment, refused=refused, tried=tried))
            known = operations.set_rails(text, comment=comment, replaces=replaces, actor=visitor.name)
        except (BadInputError, ConflictError) as error:
            status = 409 if isinstance(error, ConflictError) else 422
            return _again(dashboard, visitor, RailsDraft(text, comment, public_words(error)), status=status)
        if known.digest != digest_of(text):
            return redirect("/rails", Flash("On record: it takes a second admin, too."), key=visitor.mark)
        return redirect("/rails", Flash("These rails are in force from the next decision on."), key=visitor.mark)

    @dashboard.router.post("/rails/form")
    def written(request: Request, sent: Annotated[_Fields, Depends()], yaml: _Whole = "", csrf: Line = "") -> Response:
        visitor = dashboard.visitors.sender(request, csrf=csrf, role="admin")
        text, form = yaml.replace("\r\n", "\n"), sent.form
        try:
            text = text_with(text, form)
            operations.guard_of(text)
        except BadInputError as error:
            return _again(dashboard, visitor, RailsDraft(text, complaint=public_words(error), fields=form), status=422)
        return _again(dashboard, visitor, RailsDraft(text))


def _again(dashboard: Dashboard, visitor: Visitor, draft: RailsDraft, *, status: int = 200) -> Response:
    """Show the page with a draft that is not in force."""
    shown = rails(dashboard.operations, draft)
    return plain_page("rails.html", status=status, visitor=visitor, seen=dashboard.seen(), path="/rails", **shown)


def rails(operations: Operations, draft: RailsDraft | None = None) -> dict[str, Any]:
    """Return what the page shows, with a draft where there is one."""
    known, inside = operations.rails_in_force()
    draft = draft or RailsDraft(known.text)
    space = names_of(operations).configuration
    events = operations.events(kinds=["rails"], newest_first=True, limit=_LAST)
    with operations.looking() as read_model:
        waiting = len(read_model.waiting())
    return {
        "known": known,
        "proposed": operations.proposed("rails"),
        "limited": _limits(inside),
        "draft": draft,
        "words": names_of(operations).words,
        "form": _fields(draft, _quantities(operations)),
        "diff": _diff(known.text, draft.text),
        "rows": min(max(len(draft.text.splitlines()) + 3, _ROWS[0]), _ROWS[1]),
        "waiting": waiting,
        "example": example_text(),
        "changes": [(event, sentence(event, space)) for event in events],
    }


def _limits(rails: Rails) -> bool:
    """Whether rails limit anything; a zone alone, or who is a neighbour of whom, does not."""
    named = [one.name for one in fields(Rails) if one.name not in ("zone", "neighbours", "round", "two_people")]
    return any(getattr(rails, name) != getattr(Rails(), name) for name in named)


def _quantities(operations: Operations) -> list[str]:
    """Return the knobs that have a least and a greatest value."""
    values = operations.space.knobs
    return [name for name, some in values.items() if all(type(one) in (int, float) for one in some)]


def _fields(draft: RailsDraft, knobs: Iterable[str]) -> Form | None:
    """Return what the form beside a draft holds; None where the draft is no YAML."""
    try:
        return draft.fields or form_of(draft.text, knobs)
    except BadInputError:
        return None


def _diff(before: str, after: str) -> list[tuple[str, str]]:
    """Return the lines that differ, with three lines around them, each with what became of it."""
    lines = list(unified_diff(before.splitlines(), after.splitlines(), lineterm=""))[2:]
    lines = lines[1:] if lines and lines[0].startswith("@@ -1") else lines  # nothing is left out before the first
    names = {"+": "added", "-": "removed", "@": "gap"}
    return [(names.get(line[0], "same"), "" if line[0] == "@" else line[1:]) for line in lines]
