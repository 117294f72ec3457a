"""Who works long, or waits, keeps neither switches nor probes waiting, and only so many of them find a place."""

import asyncio
import gc
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import pytest
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from tests.support.http_service import Served, served

from kinband.service.dashboard import dashboard_router
from kinband.service.dashboard.errors import threads_of
from kinband.service.operations import Operations
from kinband.service.operations.turns import Turns
from kinband.service.threads import RESUMING, SWITCHES, File, Threads

MANY = 60  # more than the framework has threads


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Served]:
    with served(tmp_path) as found:
        yield found


class Gate:
    """Work that does not end before a test lets it."""

    def __init__(self) -> None:
        self.begun, self._open = threading.Semaphore(0), threading.Event()

    def __call__(self, *_: Any, **__: Any) -> Any:
        self.begun.release()
        assert self._open.wait(60)
        raise ConnectionError("enough")

    def open(self) -> None:
        self._open.set()


def test_requests_that_fill_all_threads_do_not_keep_a_stop_waiting(
    service: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    service.app.include_router(dashboard_router(service.operations, tokens=service.tokens))
    gate = Gate()
    monkeypatch.setattr(service.operations, "ask", gate)
    with ThreadPoolExecutor(MANY) as callers, service.client() as client:
        asked = [
            callers.submit(client.post, "/v1/decisions", json={"states": {"a": {"load": 0.5}}}) for _ in range(MANY)
        ]
        for _ in range(40):
            assert gate.begun.acquire(timeout=30)
        try:
            stopped = client.post("/v1/stop", json={"why": "outage"})
            assert (stopped.status_code, stopped.json()["stopped"]) == (200, "outage")
            assert client.get("/readyz").status_code == client.get("/healthz").status_code == 200
            signed_in = client.post("/sign-in", data={"token": service.texts["operator"]})
            assert signed_in.status_code == 303
            resumed = client.post("/v1/resume")
            assert resumed.json()["stopped"] is None
        finally:
            gate.open()
        assert {one.result().status_code for one in asked} == {500}


def test_those_who_wait_to_resume_do_not_keep_a_stop_waiting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gate = Gate()
    monkeypatch.setattr(Turns, "run_once", gate)  # where resuming takes two people it is a turn behind whoever decides
    rails = "two_people: [resume]\n"
    with served(tmp_path, rails=rails) as service, service.client() as client, ThreadPoolExecutor(9) as callers:
        asked = [callers.submit(client.post, "/v1/resume") for _ in range(8)]
        for _ in range(2):
            assert gate.begun.acquire(timeout=30)
        try:
            assert callers.submit(client.post, "/v1/stop").result(timeout=30).json()["stopped"]
        finally:
            gate.open()
        assert {one.result().status_code for one in asked} == {500}


@pytest.mark.parametrize(("path", "threads"), [("/stop", SWITCHES), ("/resume", RESUMING), ("/rails", None)])
def test_forms_have_the_threads_of_what_they_do(path: str, threads: Threads | None) -> None:
    scope = {"type": "http", "method": "POST", "path": path, "query_string": b"", "headers": []}
    assert threads_of(Request(scope)) is threads


def test_what_takes_long_is_bounded_for_each_caller_and_in_all(
    service: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Gate()
    monkeypatch.setattr(Operations, "explain", gate)
    for number in range(4):
        service.texts[f"more {number}"] = service.tokens.create(f"more {number}", "viewer").token
    with ThreadPoolExecutor(20) as callers:
        clients = [service.client(f"more {number}") for number in range(4)]
        path = "/v1/decisions/d000001/explanation"
        refused: list[Any] = []
        try:
            asked = [callers.submit(client.get, path) for client in clients for _ in range(5)]
            while len(refused) < 4:
                refused = [one for one in asked if one.done()]
            assert {one.result().status_code for one in refused} == {429}
            with service.client("viewer") as another:
                answer = another.get(path)
            assert (answer.status_code, "Retry-After" in answer.headers) == (503, True)
        finally:
            gate.open()
        assert sorted(one.result().status_code for one in asked) == [429] * 4 + [500] * 16


def test_a_file_keeps_its_place_until_it_is_whole_or_its_caller_has_left() -> None:
    threads = Threads("files", 1, most=9, each=2)

    def file() -> File:
        return File(threads.each_of(iter(["head\n", "row\n"])))

    async def sent(answer: File, *, gone: bool = False) -> None:
        async def send(message: Any) -> None:
            if gone and message["type"] == "http.response.body":
                raise OSError("the connection is closed")

        async def receive() -> Any:
            return {"type": "http.disconnect"} if gone else await asyncio.Event().wait()

        with suppress(ClientDisconnect, OSError):
            await answer({"type": "http", "asgi": {"spec_version": "2.4"}}, receive, send)

    async def all_of_it() -> None:
        one, other = await threads.run(file), await threads.run(file)
        with pytest.raises(HTTPException, match="too many requests for files"):
            await threads.run(file)
        await sent(one)
        third = await threads.run(file)
        with pytest.raises(HTTPException):
            await threads.run(file)
        await sent(other, gone=True)
        await threads.run(file)  # nobody asks for a piece of it
        await sent(third)
        await threads.run(file)

    asyncio.run(all_of_it())


class Caller:
    """A request of somebody who leaves."""

    def __init__(self) -> None:
        self.state = type("State", (), {})()
        self.gone = False

    async def is_disconnected(self) -> bool:
        return self.gone


def test_what_fails_after_its_caller_has_left_is_no_fault_of_the_program() -> None:
    threads, gate, faults, gone = Threads("work", 1, most=2, each=2), Gate(), list[Any](), Caller()

    async def left() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: faults.append(context))
        gone.gone = True
        with pytest.raises(ClientDisconnect):
            await threads.run(gate, request=cast(Any, gone))
        gate.open()
        await asyncio.to_thread(threads._executor.shutdown)
        await asyncio.sleep(0)
        gc.collect()

    asyncio.run(left())
    assert faults == []


def test_who_leaves_gives_the_place_up_and_what_was_not_begun_is_never_done() -> None:
    threads, open_, done = Threads("work", 1, most=2, each=2), threading.Event(), list[str]()

    async def both() -> None:
        first = asyncio.create_task(threads.run(open_.wait, 30))
        await asyncio.sleep(0)
        gone: Any = Caller()
        second = asyncio.create_task(threads.run(done.append, "second", request=gone))
        await asyncio.sleep(0)
        with pytest.raises(HTTPException):
            await threads.run(done.append, "third")
        gone.gone = True
        with pytest.raises(ClientDisconnect):
            await second
        third = asyncio.create_task(threads.run(done.append, "third"))
        await asyncio.sleep(0)
        open_.set()
        await asyncio.gather(first, third)

    asyncio.run(both())
    assert done == ["third"]
