"""What every request meets before the application: sizes, hosts, headers, ids; asked as a client would."""

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from typing import Annotated, Any

import httpx
import pytest
from fastapi import Body, FastAPI
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from kinband.service.access.middleware import LoopbackOnly, RequestIds, SecurityHeaders, SizeLimit
from kinband.service.access.redaction import Redaction
from kinband.service.problems import problem_response

MOST = 1000


def protected(app: ASGIApp, *, most_bytes: int = MOST, cacheable: Sequence[str] = ()) -> ASGIApp:
    """An application as the service has it."""
    return RequestIds(SecurityHeaders(SizeLimit(app, most_bytes=most_bytes), cacheable=cacheable))


READ: list[int] = []
"""How many bytes each body had that an application has read to its end."""


async def swallow(request: Request) -> Response:
    body = await request.body()
    READ.append(len(body))
    return PlainTextResponse(str(len(body)))


async def sum_up(request: Request) -> Response:
    return PlainTextResponse(str(sum([len(chunk) async for chunk in request.stream()])))


async def stubborn(request: Request) -> Response:
    """Takes any error for the end."""
    try:
        await request.body()
    except Exception:
        return PlainTextResponse("fine", status_code=200)
    return PlainTextResponse("read")


async def wrapping(request: Request) -> Response:
    try:
        return PlainTextResponse(str(len(await request.body())))
    except Exception as error:
        raise RuntimeError("of its own") from error


async def broken(request: Request) -> Response:
    raise RuntimeError("nobody foresaw this")


async def picture(request: Request) -> Response:
    return Response(b"x", headers={"Cache-Control": "max-age=60", "X-Frame-Options": "SAMEORIGIN"})


async def numbered(request: Request) -> Response:
    logging.getLogger("kinband.tests.ids").warning("at work")
    return problem_response(404, "there is nothing here: look elsewhere", instance=request.url.path)


APPLICATION = Starlette(
    routes=[
        Route(f"/{view.__name__}", view, methods=["GET", "POST"])
        for view in (swallow, sum_up, stubborn, wrapping, broken, picture, numbered)
    ]
)


def ask(app: ASGIApp, path: str, *, base: str = "http://kinband.example", **given: Any) -> httpx.Response:
    """Send one request; without a body it is a GET."""

    async def send() -> httpx.Response:
        transport = httpx.ASGITransport(app=app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url=base) as client:
            return await client.request("POST" if "content" in given else "GET", path, **given)

    return asyncio.run(send())


async def pieces(sizes: Sequence[int]) -> AsyncIterator[bytes]:
    for size in sizes:
        yield b"x" * size


# --- Size ---------------------------------------------------------------------------------------------------


SIZED = SizeLimit(APPLICATION, most_bytes=MOST)


@pytest.mark.parametrize("path", ["/swallow", "/sum_up", "/stubborn", "/wrapping"])
def test_a_body_of_the_allowed_size_passes(path: str) -> None:
    for body in (b"", b"x" * MOST, pieces([400, 600]), pieces([0, 1000, 0])):
        answer = ask(SIZED, path, content=body)
        assert answer.status_code == 200
    assert answer.text in (str(MOST), "read")


@pytest.mark.parametrize("path", ["/swallow", "/sum_up", "/stubborn", "/wrapping"])
@pytest.mark.parametrize("sizes", [[1001], [400, 601], [1] * 1001, [600] * 5])
def test_a_streamed_body_that_grows_too_large_is_refused(path: str, sizes: list[int]) -> None:
    READ.clear()
    answer = ask(SIZED, path, content=pieces(sizes))
    assert (answer.status_code, answer.headers["content-type"]) == (413, "application/problem+json")
    assert answer.json()["detail"] == "the body of a request may have 1000 bytes: send less at once"
    assert answer.headers["connection"] == "close"
    assert READ == []


def test_an_announced_size_is_refused_before_anything_is_read() -> None:
    async def unread() -> AsyncIterator[bytes]:
        yield b""
        raise AssertionError("the body was read")

    answer = ask(SIZED, "/swallow", content=unread(), headers={"content-length": "1001"})
    assert answer.status_code == 413


@pytest.mark.parametrize("announced", ["0", "10", "1000"])
def test_a_body_that_is_larger_than_it_was_announced_is_counted(announced: str) -> None:
    answer = ask(SIZED, "/swallow", content=pieces([700, 700]), headers={"content-length": announced})
    assert answer.status_code == 413


@pytest.mark.parametrize("announced", ["-1", "ten", "1e3", "", "١٠", "9" * 400])
def test_an_announced_size_that_is_no_number_is_refused(announced: str) -> None:
    answer = ask(SIZED, "/swallow", content=pieces([10]), headers={"content-length": announced.encode()})
    assert answer.status_code == 400
    assert "must be a number" in answer.json()["detail"]


def test_no_more_is_read_than_it_takes_to_notice() -> None:
    sent: list[int] = []

    async def endless() -> AsyncIterator[bytes]:
        while True:
            sent.append(100)
            yield b"x" * 100

    assert ask(SIZED, "/sum_up", content=endless()).status_code == 413
    assert sum(sent) <= MOST + 200


def test_an_answer_that_has_begun_is_broken_off() -> None:
    messages: list[Message] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        while (await receive()).get("more_body"):
            pass

    async def receive() -> Message:
        return {"type": "http.request", "body": b"x" * 600, "more_body": True}

    async def send(message: Message) -> None:
        messages.append(message)

    scope = {"type": "http", "path": "/", "headers": []}
    with pytest.raises(Exception, match="413"):
        asyncio.run(SizeLimit(app, most_bytes=MOST)(scope, receive, send))
    assert [message.get("status") for message in messages] == [200]


def test_an_application_of_fastapi_answers_413_too() -> None:
    app = FastAPI()

    @app.post("/")
    def read(numbers: Annotated[list[int], Body()]) -> int:
        return len(numbers)

    sized = SizeLimit(app, most_bytes=MOST)
    headers = {"content-type": "application/json"}

    async def numbers(count: int) -> AsyncIterator[bytes]:
        yield b"["
        for _ in range(count - 1):
            yield b"1,"
        yield b"1]"

    assert ask(sized, "/", content=numbers(100), headers=headers).json() == 100
    assert ask(sized, "/", content=numbers(1000), headers=headers).status_code == 413


def test_errors_of_the_application_go_on_their_way() -> None:
    async def send() -> None:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app=protected(APPLICATION))) as client:
            await client.get("http://kinband.example/broken")

    with pytest.raises(RuntimeError, match="nobody foresaw this"):
        asyncio.run(send())


# --- Hosts --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("host", "known"),
    [
        ("localhost", True),
        ("localhost:8000", True),
        ("LOCALHOST:8000", True),
        ("127.0.0.1:8000", True),
        ("[::1]:8000", True),
        ("[::1]", True),
        ("evil.example", False),
        ("localhost.evil.example", False),
        ("evil.example:127.0.0.1", False),
        ("", False),
    ],
)
def test_only_this_machine_is_served(host: str, known: bool) -> None:
    answer = ask(LoopbackOnly(APPLICATION), "/picture", headers={"host": host})
    assert answer.status_code == (200 if known else 400)
    assert known or "host name" in answer.json()["detail"]


# --- Headers and ids ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/swallow", "/broken", "/nowhere", "/numbered"])
def test_every_answer_tells_browsers_what_pages_may_do(path: str) -> None:
    answer = ask(protected(APPLICATION), path)
    policy = dict(part.strip().split(" ", 1) for part in answer.headers["content-security-policy"].split(";"))
    assert (policy["default-src"], policy["script-src"], policy["style-src"]) == ("'self'",) * 3
    assert (policy["frame-ancestors"], policy["object-src"], policy["base-uri"]) == ("'none'",) * 3
    assert "unsafe" not in answer.headers["content-security-policy"]
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["x-frame-options"] == "DENY"
    assert answer.headers["referrer-policy"] == "same-origin"
    assert answer.headers["cross-origin-opener-policy"] == "same-origin"
    assert "camera=()" in answer.headers["permissions-policy"]
    assert answer.headers["cache-control"] == "no-store"


def test_a_refusal_of_our_own_carries_the_headers_and_an_id_too() -> None:
    answer = ask(protected(APPLICATION, most_bytes=10), "/swallow", content=b"x" * 11)
    assert answer.status_code == 413
    assert answer.headers["x-frame-options"] == "DENY"
    assert answer.json()["request_id"] == answer.headers["x-request-id"]


def test_what_the_application_has_set_stays() -> None:
    answer = ask(protected(APPLICATION), "/picture")
    assert answer.headers.get_list("cache-control") == ["max-age=60"]
    assert answer.headers.get_list("x-frame-options") == ["SAMEORIGIN"]


def test_only_named_paths_may_be_stored() -> None:
    app = protected(APPLICATION, cacheable=["/swal"])
    assert "cache-control" not in ask(app, "/swallow").headers
    assert ask(app, "/sum_up").headers["cache-control"] == "no-store"


def test_https_is_demanded_over_https_alone() -> None:
    app = protected(APPLICATION)
    assert "strict-transport-security" not in ask(app, "/swallow").headers
    assert "max-age=" in ask(app, "/swallow", base="https://kinband.example").headers["strict-transport-security"]


def test_an_id_ties_the_answer_to_the_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.handler.addFilter(Redaction())
    app = protected(APPLICATION)
    first, second = ask(app, "/numbered"), ask(app, "/numbered", headers={"x-request-id": "proxy-17.a_b"})
    ids = [first.headers["x-request-id"], "proxy-17.a_b"]
    assert [answer.headers["x-request-id"] for answer in (first, second)] == ids
    assert [answer.json()["request_id"] for answer in (first, second)] == ids
    assert [vars(record)["request_id"] for record in caplog.records] == ids
    assert first.json() == {
        "type": "about:blank",
        "title": "Not Found",
        "status": 404,
        "detail": "there is nothing here: look elsewhere",
        "instance": "/numbered",
        "request_id": ids[0],
    }
    assert b"request_id" not in bytes(problem_response(404, "outside of a request").body)


@pytest.mark.parametrize("given", ["", "a b", "x" * 65, "a;b", "<script>", "ü".encode()])
def test_an_id_that_could_forge_a_line_of_the_log_is_replaced(given: str | bytes) -> None:
    answer = ask(protected(APPLICATION), "/numbered", headers={"x-request-id": given})
    assert answer.headers["x-request-id"].isalnum()
    assert len(answer.headers["x-request-id"]) == 16


def test_what_is_no_request_passes_untouched() -> None:
    seen: list[str] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        seen.append(scope["type"])

    async def receive() -> Message:
        return {"type": "lifespan.startup"}

    async def send(message: Message) -> None:
        raise AssertionError(message)

    async def start() -> None:
        await LoopbackOnly(protected(app))({"type": "lifespan"}, receive, send)

    asyncio.run(start())
    assert seen == ["lifespan"]
