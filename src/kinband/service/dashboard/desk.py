"""What the routes of pages work with."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from kinband.service.dashboard.frame import STALE, Seen, page
from kinband.service.dashboard.kept import Kept
from kinband.service.dashboard.views.similarity import Likeness, Sorted
from kinband.service.dashboard.visitors import Visitors
from kinband.service.operations import Operations


@dataclass(frozen=True)
class Desk:
    """What the routes work with: operations, visitors, the picture of the task matrix, pages made before."""

    operations: Operations
    visitors: Visitors
    likeness: Likeness
    kept: Kept

    def show(
        self,
        request: Request,
        template: str,
        context: Callable[[], dict[str, Any]],
        *,
        ages: bool = False,
        still: bool = False,
    ) -> Response:
        """Return a page to whoever may look, or that it has not changed; see `frame.page`."""
        visitor, seen = self.visitors.of(request), self.seen()
        return page(request, template, context, visitor=visitor, seen=seen, kept=self.kept, ages=ages, still=still)

    def seen(self) -> Seen:
        """Return how things stand, with what other processes have recorded."""
        stale = "" if self.operations.try_refresh() else STALE
        with self.operations.looking() as picture:
            return Seen(picture.seq, self.operations.now(), len(picture.waiting()), picture.stopped, stale)

    def seq(self) -> int:
        """Return the number of the last event."""
        with self.operations.looking() as picture:
            return picture.seq

    def alike(self) -> Sorted:
        """Return the task matrix in order."""
        return self.likeness.of(self.operations, self.seq())
