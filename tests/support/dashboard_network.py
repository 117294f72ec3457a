"""A small network behind the dashboard: real operations on a ledger in a folder, a browser's stand-in, its tokens."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
from fastapi import FastAPI

from kinband import ConfigurationSpace, Controller
from kinband.guardrails import rails_from_text
from kinband.service.access.sessions import COOKIE, Sessions
from kinband.service.access.tokens import Tokens
from kinband.service.dashboard import dashboard_router
from kinband.service.ledger import Ledger
from kinband.service.operations import Mode, Operations

HOSTILE = (
    "<script>alert(1)</script>",
    "a/b\"c'd",
    "..",
    "~tilde%20",
    "北 Straße & Söhne",
    "x" * 300,
    "' onload='alert(1)",
    "{{ 7 * 7 }}",
)
"""Names that a station might have, none of which may break a page."""


class Clock:
    """Says the time that a test sets."""

    def __init__(self) -> None:
        self.now = datetime(2026, 11, 20, 6, tzinfo=UTC)

    def __call__(self) -> datetime:
        """Return the time."""
        return self.now


class Browser:
    """A stand-in for a browser: keeps cookies, sends forms from our own pages, follows nothing."""

    def __init__(self, app: FastAPI) -> None:
        self._transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        self.cookies = httpx.Cookies()

    def get(self, path: str, *, headers: Mapping[str, str] | None = None) -> httpx.Response:
        """Return a page."""
        return asyncio.run(self._send("GET", path, None, headers or {}))

    def post(
        self, path: str, data: Mapping[str, Any] | None = None, *, headers: Mapping[str, str] | None = None
    ) -> httpx.Response:
        """Send a form."""
        return asyncio.run(self._send("POST", path, dict(data or {}), headers or {}))

    async def _send(
        self, method: str, path: str, data: dict[str, Any] | None, headers: Mapping[str, str]
    ) -> httpx.Response:
        async with httpx.AsyncClient(
            transport=self._transport, base_url="https://kinband.example", cookies=self.cookies
        ) as client:
            answer = await client.request(method, path, data=data, headers={"sec-fetch-site": "same-origin", **headers})
            self.cookies = client.cookies
        return answer


class Network:
    """Operations with a browser that is signed in as somebody."""

    def __init__(self, operations: Operations, clock: Clock, *, insecure_local: bool = False) -> None:
        self.operations, self.clock = operations, clock
        self.tokens = Tokens(operations.ledger)
        self.sessions = Sessions(self.tokens)
        self.app = FastAPI()
        self.app.include_router(
            dashboard_router(operations, tokens=None if insecure_local else self.tokens, insecure_local=insecure_local)
        )

    def browser(self, role: str | None = "admin", *, app: FastAPI | None = None) -> Browser:
        """Return a browser that is signed in with a new token of a role, or not at all, on another application too."""
        client = Browser(app or self.app)
        if role is not None:
            token = self.tokens.create(f"{role} {len(self.tokens.list())}", role).token
            client.cookies.set(COOKIE, self.sessions.new_session(token), domain="kinband.example")
        return client

    def csrf(self, client: Browser) -> str:
        """Return what a form of this browser's session has to repeat."""
        return self.sessions.read_session(str(client.cookies[COOKIE])).csrf

    def play(self, rounds: int, *, told: bool = True) -> list[str]:
        """Ask for all stations in several slots and return the ids of the last; `told`, all but one earn something."""
        ids: list[str] = []
        with self.operations.looking() as read_model:
            names = [station_state.station for station_state in read_model.stations.values() if station_state.active]
        for number in range(rounds):
            self.clock.now += timedelta(hours=1)
            states = {name: {"load": 0.1 + 0.8 * i / len(names)} for i, name in enumerate(names)}
            records = self.operations.ask(states, slot=self.clock.now.isoformat(), actor="nms")
            ids = [record.id for record in records]
            if told:
                rewards = {
                    key: 0.5 + 0.01 * ((7 * i + number) % 20) for i, key in enumerate(ids[: len(ids) - 1] or ids)
                }
                self.operations.tell(rewards, actor="nms")
        return ids


@contextmanager
def network(
    folder: Path,
    stations: Sequence[str] = ("3714", "3715", "1217"),
    *,
    mode: Mode = "assist",
    knobs: Mapping[str, Any] | None = None,
    placed: bool = True,
    insecure_local: bool = False,
    rails: str = "",
) -> Iterator[Network]:
    """Give a network of these stations: one knob unless said otherwise, three sectors a site."""
    space = ConfigurationSpace(**(knobs or {"threshold_dbm": range(-104, -92)}))
    sites = {
        name: {"x_m": 500.0 * (i // 3), "y_m": 80.0 * (i // 3), "azimuth_deg": 120.0 * (i % 3)}
        for i, name in enumerate(stations)
    }
    similarity = [[1.0 if a == b else 0.4 for b in stations] for a in stations]
    controller = Controller(
        space, list(stations), state={"load": (0, 1)}, similarity=similarity, mean=0.6, noise=0.003, beta=0.7,
        running=space[3], descriptors=sites if placed else None, reward_range=(0, 1), seed=5,
    )  # fmt: skip
    clock = Clock()
    with_rails = rails_from_text(rails, space, stations=list(stations)) if rails else None
    ledger = Ledger.open(folder / "ledger.db", clock=clock)
    try:
        operations = Operations.open(ledger, controller, rails=with_rails, rails_text=rails, mode=mode, clock=clock)
        yield Network(operations, clock, insecure_local=insecure_local)
    finally:
        ledger.close()
