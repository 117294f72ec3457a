"""The threads on which requests are answered, so that nobody who works long keeps others waiting.

Most requests share the threads of the framework, some forty. Whoever fills those must not take the stop switch away, so
that switches have threads of their own, and so have the probe of readiness and the page to sign in. To resume takes its
turn behind whoever decides where it takes two people, so that it is kept apart from what never waits. What takes long
(whose evidence a decision rests on, files of everything, corrections) has a few: others of its kind wait for it, only
so many of them in all and of one caller, and whoever leaves waits no longer.
"""

import asyncio
import threading
import weakref
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import ContextVar, copy_context
from functools import partial, wraps
from typing import Any, TypeVar

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

T = TypeVar("T")

_LOOK = 0.25  # seconds after which it is looked whether a caller is still there
_AGAIN = 2  # seconds after which somebody who was refused may try again


class File(StreamingResponse):
    """An answer that is made piece by piece, and keeps its place until it is whole or its caller has left."""

    _left: Callable[[], object] | None = None

    def at_end(self, leave: Callable[[], object]) -> None:
        """Have somebody called at the end, also where nobody ever asked for the first piece."""
        self._left = weakref.finalize(self, leave)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            if self._left is not None:
                self._left()


class Threads:
    """Threads of their own for requests of one kind.

    Args:
        name: What the requests want, in messages.
        size: How many threads.
        most: How many requests may be worked on or wait, in all.
        each: How many of one caller.
    """

    def __init__(self, name: str, size: int, *, most: int, each: int) -> None:
        self._name, self._most, self._each = name, most, each
        self._executor = ThreadPoolExecutor(size, thread_name_prefix=f"kinband {name}")
        self._taken = Counter[str]()  # places, by caller
        self._lock = threading.RLock()  # a place may be left while rubbish is collected

    async def run(self, act: Callable[..., T], *given: Any, request: Request | None = None) -> T:
        """Return what `act` returns; refuse where too many wait, and give up where the caller of a request leaves."""
        future = self._submitted(_caller(request), partial(copy_context().run, act, *given))
        answer = asyncio.wrap_future(future)
        while not (await asyncio.wait({answer}, timeout=_LOOK))[0]:
            if request is not None and await request.is_disconnected():
                future.cancel()
                answer.add_done_callback(_ignored)
                raise ClientDisconnect
        return answer.result()

    def _submitted(self, caller: str, act: Callable[[], T]) -> "Future[T]":
        with self._lock:
            if self._taken[caller] >= self._each:
                raise _too_many(429, f"too many requests for {self._name} at once: wait for the answers")
            if self._taken.total() >= self._most:
                raise _too_many(503, f"too many others want {self._name} now")
            self._taken[caller] += 1
        future = self._executor.submit(act)
        future.add_done_callback(partial(self._done, caller))
        return future

    def _done(self, caller: str, future: "Future[T]") -> None:
        """Give a place up, or have a file that is made piece by piece keep it."""
        made = None if future.cancelled() or future.exception() is not None else future.result()
        leave = partial(self._leave, caller)
        made.at_end(leave) if isinstance(made, File) else leave()

    def _leave(self, caller: str) -> None:
        with self._lock:
            self._taken[caller] -= 1
            if not self._taken[caller]:
                del self._taken[caller]

    async def each_of(self, values: Iterator[T]) -> AsyncIterator[T]:
        """Give the values of an iterator that takes its time, on these threads."""
        end = object()
        loop = asyncio.get_running_loop()
        while (value := await loop.run_in_executor(self._executor, next, values, end)) is not end:
            yield value  # type: ignore[misc]


def _ignored(answer: "asyncio.Future[Any]") -> None:
    """Take note of how something ended that nobody waits for, so that it is no fault of the program."""
    if not answer.cancelled():
        answer.exception()


def _too_many(status: int, sentence: str) -> HTTPException:
    return HTTPException(status, f"{sentence}, and try again", headers={"Retry-After": str(_AGAIN)})


_MANY = 1_000

SWITCHES = Threads("switches", 4, most=_MANY, each=_MANY)
"""For stop, freeze and thaw, which wait for nobody: a few milliseconds each, whatever else goes on."""
RESUMING = Threads("resuming", 2, most=_MANY, each=_MANY)
"""For the end of a stop, which may wait for whoever decides: no stop is ever behind it."""
DOORS = Threads("the door", 4, most=_MANY, each=_MANY)
"""For probes and for whoever signs in."""
PROVIDER = Threads("the identity provider", 4, most=32, each=32)
"""For whoever signs in through another service, which may take its time."""
LONG = Threads("what takes long", 2, most=16, each=4)
"""For evidence and outlooks."""
FILES = Threads("files", 2, most=16, each=4)
"""For files of everything, up to their last row."""
LEARNING = Threads("learning anew", 2, most=16, each=8)
"""For corrections, which may have everything learned anew."""

REQUEST: ContextVar[Request | None] = ContextVar("kinband_request", default=None)
"""The request that is answered, for `on`."""


def _caller(request: Request | None) -> str:
    """Return who calls, as far as that is known."""
    if request is None:
        return ""
    identity = getattr(request.state, "identity", None) or getattr(request.state, "visitor", None)
    return str(getattr(identity, "id", "") or getattr(identity, "name", ""))


def on(
    choose: Callable[[Request | None], Threads | None], endpoint: Callable[..., Any]
) -> Callable[..., Awaitable[Any]]:
    """Return the handler of a route that runs on threads which are chosen by the request; None for the usual ones."""
    if asyncio.iscoroutinefunction(endpoint):
        return endpoint

    @wraps(endpoint)
    async def handler(**given: Any) -> Any:
        request = REQUEST.get()
        threads, act = choose(request), partial(endpoint, **given)
        return await (run_in_threadpool(act) if threads is None else threads.run(act, request=request))

    return handler
