"""What the tests of the HTTP service share: a small network on record, its application, and clients to call it with."""

from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
from anyio.from_thread import BlockingPortal, start_blocking_portal
from fastapi import FastAPI

from kinband import ConfigurationSpace, Controller
from kinband.guardrails import rails_from_text
from kinband.service.access import Limiter, Role, Tokens
from kinband.service.api import Limits, create_app
from kinband.service.ledger import Ledger
from kinband.service.operations import Mode, Operations

STATIONS = ["a", "b", "=c"]
TILTS = [2, 4, 6, 8]
RAILS = "knobs:\n  tilt: {max: 6}\n"


class AsgiTransport(httpx.BaseTransport):
    """Calls an application in this process, as if over the network."""

    def __init__(self, app: Any, portal: BlockingPortal) -> None:
        self.inner = httpx.ASGITransport(app=app, raise_app_exceptions=False, client=("192.0.2.7", 1234))
        self.portal = portal

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        return self.portal.call(self._answer, request)

    async def _answer(self, request: httpx.Request) -> httpx.Response:
        body: Any = request.read()
        if "transfer-encoding" in request.headers:  # of a length that is not announced
            body = _piece(body)
        sent = httpx.Request(request.method, request.url, headers=request.headers, content=body)
        response = await self.inner.handle_async_request(sent)
        content = await response.aread()
        return httpx.Response(response.status_code, headers=response.headers, content=content)


async def _piece(body: bytes) -> AsyncIterator[bytes]:
    yield body


@dataclass
class Clock:
    """A clock that a test sets."""

    now: datetime = datetime(2026, 11, 20, 10, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now

    def forward(self, **passed: float) -> None:
        self.now += timedelta(**passed)


@dataclass
class Served:
    """A service of a test."""

    app: FastAPI
    operations: Operations
    tokens: Tokens
    portal: BlockingPortal
    clock: Clock
    texts: dict[str, str] = field(default_factory=dict)

    def client(self, role: str | None = "operator", *, base_url: str = "http://kinband.test") -> httpx.Client:
        headers = {} if role is None else {"Authorization": f"Bearer {self.texts[role]}"}
        return httpx.Client(transport=self.transport(), base_url=base_url, headers=headers)

    def transport(self) -> AsgiTransport:
        return AsgiTransport(self.app, self.portal)


def controller() -> Controller:
    """Three stations, one of them with a name that a spreadsheet would take for a formula."""
    return Controller(
        ConfigurationSpace(tilt=TILTS), STATIONS, state={"load": (0, 1)}, similarity="pooled", mean=0.7, noise=0.03,
        running={"tilt": 4}, seed=7,
    )  # fmt: skip


@contextmanager
def served(
    folder: Path,
    *,
    mode: Mode = "assist",
    insecure_local: bool = False,
    rate: float = 10_000.0,
    made: Controller | None = None,
    rails: str = RAILS,
    **further: Any,
) -> Iterator[Served]:
    """A service with a token for every role."""
    made, clock = controller() if made is None else made, Clock()
    ledger = Ledger.open(folder / "ledger.db", timeout=2)
    limits = rails_from_text(rails, made.setup.encoder.space, stations=made.stations)
    operations = Operations.open(ledger, made, rails=limits, rails_text=rails, mode=mode, clock=clock)
    tokens = Tokens(ledger)
    texts = {role.value: tokens.create(f"{role.value} one", role).token for role in Role}
    further.setdefault("limits", Limits(Limiter(rate=rate, burst=10_000), Limiter(rate=rate, burst=10_000)))
    app = create_app(operations, tokens=None if insecure_local else tokens, insecure_local=insecure_local, **further)
    with start_blocking_portal() as portal:
        yield Served(app, operations, tokens, portal, clock, texts)
    ledger.close()
