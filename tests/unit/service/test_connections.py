"""How many connections there are, how long one is waited for, and how often the log says so."""

import contextlib
import logging
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
import uvicorn
from starlette.types import Receive, Scope, Send

from kinband.service import connections
from kinband.service.connections import Connections, PatientProtocol, Seldom

HALF = b"GET / HTTP/1.1\r\nHost: x\r\n"
LARGE = 40_000_000


class Fake:
    """A connection that notes whether it was closed."""

    def __init__(self, *, idle: bool = True) -> None:
        self.idle, self.closed, self.transport = idle, False, self

    def abort(self) -> None:
        self.closed = True


def test_an_address_has_so_many_connections_and_this_machine_all_of_them() -> None:
    bounds, held = Connections(10, 2), list[Any]()
    for host, taken in (
        [("192.0.2.1", True)] * 2 + [("192.0.2.1", False), ("192.0.2.2", True)] + [("127.0.0.1", True)] * 5
    ):
        held.append(Fake())
        assert bounds.take(held[-1], host) is taken
    bounds.leave(held[0])
    assert bounds.take(Fake(), "192.0.2.1")  # type: ignore[arg-type]
    assert len(bounds) == 8


def test_where_there_are_too_many_the_oldest_goes_that_asks_nothing() -> None:
    bounds = Connections(3, 3)
    held: list[Any] = [Fake(idle=False), Fake(), Fake()]
    for number, one in enumerate([*held, Fake(idle=False)]):
        assert bounds.take(one, f"192.0.2.{number}")
    assert [one.closed for one in held] == [False, True, False]
    held[2].idle = False
    assert not bounds.take(Fake(), "192.0.2.9")  # type: ignore[arg-type]


async def answer(scope: Scope, receive: Receive, send: Send) -> None:
    """Answers a word, or far more than anybody's buffers hold."""
    body = b"x" * (LARGE if scope["path"] == "/large" else 5)
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(body))]})
    await send({"type": "http.response.body", "body": body})


@contextlib.contextmanager
def serving(bounds: Connections, *, seconds: float) -> Iterator[int]:
    """A server with bounds; its port."""
    protocol = type("Protocol", (PatientProtocol,), {"seconds": seconds, "all": bounds})
    config = uvicorn.Config(answer, http=protocol, ws="none", lifespan="off", log_config=None, port=0)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    try:
        yield server.servers[0].sockets[0].getsockname()[1]
    finally:
        server.should_exit = True
        thread.join(30)


def got(port: int, path: str = "/") -> bytes:
    """What a caller is answered who reads to the end."""
    with socket.create_connection(("127.0.0.1", port), timeout=30) as caller:
        caller.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
        return b"".join(iter(lambda: caller.recv(1_000_000), b""))


def wait_for(bounds: Connections, count: int) -> None:
    end = time.monotonic() + 30
    while len(bounds) != count:
        assert time.monotonic() < end
        time.sleep(0.01)


def test_requests_that_never_arrive_keep_nobody_out() -> None:
    bounds = Connections(4, 4)
    with serving(bounds, seconds=60.0) as port, contextlib.ExitStack() as stack:
        for _ in range(12):
            half = stack.enter_context(socket.create_connection(("127.0.0.1", port)))
            half.sendall(HALF)
        wait_for(bounds, 4)
        assert got(port).endswith(b"\r\n\r\nxxxxx")


def test_an_answer_that_nobody_reads_is_given_up_and_one_that_is_read_is_whole() -> None:
    bounds = Connections(4, 4)
    with serving(bounds, seconds=0.5) as port:
        assert len(got(port, "/large").partition(b"\r\n\r\n")[2]) == LARGE
        with socket.create_connection(("127.0.0.1", port)) as caller:
            caller.sendall(b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n")
            wait_for(bounds, 1)
            wait_for(bounds, 0)


def test_what_is_said_again_and_again_is_said_seldom_and_how_often_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(connections, "monotonic", lambda: now[0])
    seldom = Seldom(most=2, seconds=10.0)

    def said(name: str = "asyncio", line: int = 1) -> str | None:
        record = logging.LogRecord(name, logging.ERROR, "file.py", line, "no %s", ("files",), None)
        return record.getMessage() if seldom.filter(record) else None

    assert [said() for _ in range(5)] == ["no files", "no files", None, None, None]
    assert said(line=2) == "no files"
    now[0] = 10.0
    assert said() == "no files (3 lines like this one were left out)"
    assert said() == "no files"
