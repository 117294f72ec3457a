"""What every request passes: limits on how much and how often, an id, headers, a clock."""

import logging
import re
import secrets
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from ipaddress import IPv6Address, ip_address
from time import monotonic, perf_counter

from prometheus_client import Histogram
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from kinband.arrays import positive_number
from kinband.errors import BadInputError
from kinband.service.problems import REQUEST_ID, problem_response

# --- How much a caller may ask for: a bucket of permits that fills up at a steady rate ------------------------------
#
# Every request takes a permit out of its caller's bucket; an empty bucket says after how many seconds there will be one
# again (HTTP's `Retry-After`). A bucket holds a burst's worth, so that short bursts pass and a steady stream is held to
# the rate (the leaky bucket of Turner, 1986, seen from the other side).
#
# Buckets are kept in this process, by identity or by address. There is a bound on how many; the one not used for
# longest goes first, which is the one that had the most time to fill up again.

_ROUNDING = 1e-9  # whoever waited as long as told must not be refused for a last digit


class Limiter:
    """Buckets of permits, by caller. Threads may share it.

    Args:
        rate: Permits a second.
        burst: How many a full bucket holds.
        most: How many buckets are kept.
        clock: What says the time, in seconds that never go back.

    Example:
        >>> time = 0.0
        >>> limiter = Limiter(rate=0.5, burst=2, clock=lambda: time)
        >>> [limiter.take("anna") for _ in range(3)]
        [0.0, 0.0, 2.0]
        >>> limiter.take("ben")
        0.0
        >>> time = 2.0
        >>> limiter.take("anna")
        0.0
    """

    def __init__(
        self, *, rate: float, burst: float, most: int = 10_000, clock: Callable[[], float] = monotonic
    ) -> None:
        self.rate = positive_number(rate, name="rate")
        self.burst = positive_number(burst, name="burst")
        if burst < 1 or most < 1:
            raise BadInputError(f"burst and most must be 1 at least, got {burst} and {most}: nobody would ever pass")
        self._most = most
        self._clock = clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()  # permits, and when there were so many
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._buckets)

    def take(self, caller: str) -> float:
        """Take a permit and return 0, or take none and return after how many seconds there is one."""
        with self._lock:
            now = self._clock()
            permits = self._permits(caller, now)
            wait = self._wait(permits)
            self._buckets[caller] = (permits if wait else max(0.0, permits - 1), now)
            self._buckets.move_to_end(caller)
            if len(self._buckets) > self._most:
                self._buckets.popitem(last=False)
            return wait

    def _permits(self, caller: str, now: float) -> float:
        permits, then = self._buckets.get(caller, (self.burst, now))
        return min(self.burst, permits + (now - then) * self.rate)

    def _wait(self, permits: float) -> float:
        return 0.0 if permits >= 1 - _ROUNDING else (1 - permits) / self.rate


def request_limits(*, clock: Callable[[], float] = monotonic) -> Limiter:
    """Return the bound on requests of one identity: 20 a second, 200 at once."""
    return Limiter(rate=20, burst=200, clock=clock)


def failure_limits(*, clock: Callable[[], float] = monotonic) -> Limiter:
    """Return the bound on failed sign-ins from one address: 10 at once, then one in 10 seconds.

    A permit is taken for a failure alone, after it: a token that is good is never refused because somebody else at the
    same address, such as a script with an expired one, keeps failing.
    """
    return Limiter(rate=0.1, burst=10, clock=clock)


def bucket_of(caller: str, path: str) -> str:
    """Return whose permit a request takes: a stop takes its own, so that it does not wait for what else one sends.

    Example:
        >>> bucket_of("k3Vq90Xz", "/v1/plan"), bucket_of("k3Vq90Xz", "/v1/stop")
        ('k3Vq90Xz', 'k3Vq90Xz stop')
    """
    return f"{caller} stop" if path.endswith("/stop") else caller


def address_of(host: str | None) -> str:
    """Return the key of an address; of IPv6 that is its network of 64 bits, of which one caller has all addresses."""
    try:
        found = ip_address((host or "").partition("%")[0])
    except ValueError:
        return host or "unknown"
    if not isinstance(found, IPv6Address):
        return str(found)
    return str(found.ipv4_mapped or IPv6Address(int(found) >> 64 << 64))


# --- What every request meets before the application does: an id, security headers, bounds, a clock, a net ---------
#
# Each is a plain ASGI application around another one, so that streamed answers stay streams. `api.app` puts them around
# an application in the right order, outside of everything, so that also an answer to an error that nobody foresaw
# carries the headers.

LOOPBACK = frozenset({"localhost", "127.0.0.1", "[::1]"})
"""The hosts of a service that is for its own machine; others are how pages of other sites reach it (DNS rebinding)."""

LOG = logging.getLogger("kinband.service")

_METHODS = frozenset({"GET", "POST", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS"})
_GOOD_ID = re.compile(r"[0-9A-Za-z._-]{1,64}", re.ASCII)


class Around:
    """An application around another one, which answers requests of HTTP; anything else goes through."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer whatever comes."""
        await (self.answer if scope["type"] == "http" else self.app)(scope, receive, send)

    async def answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        raise NotImplementedError


class RequestIds(Around):
    """Gives every request an id, or keeps the one that a proxy gave it, in `X-Request-ID` and in our logs."""

    async def answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        given = Headers(scope=scope).get("x-request-id", "")
        found = given if _GOOD_ID.fullmatch(given) else secrets.token_hex(8)  # never what would forge a line of a log

        async def marked(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message)["x-request-id"] = found
            await send(message)

        before = REQUEST_ID.set(found)
        try:
            await self.app(scope, receive, marked)
        finally:
            REQUEST_ID.reset(before)


class SecurityHeaders(Around):
    """Tells browsers what pages of the service may do; a header that the application has set stays.

    Scripts and styles come from the service alone, none are inline. Charts may colour by attributes of their own
    (`fill="…"`), which are no styles. The policy on referrers is `same-origin`, since under `no-referrer` browsers hide
    the origin of our own forms too.

    Args:
        app: The application.
        cacheable: How the paths begin whose answers may be stored; no other may.
    """

    def __init__(self, app: ASGIApp, *, cacheable: Sequence[str] = ()) -> None:
        super().__init__(app)
        self._cacheable = tuple(cacheable)

    async def answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in self._headers_for(scope).items():
                    headers.setdefault(name, value)
            await send(message)

        await self.app(scope, receive, guarded)

    def _headers_for(self, scope: Scope) -> dict[str, str]:
        headers = dict(_HEADERS)
        if not self._cacheable or not scope["path"].startswith(self._cacheable):
            headers["cache-control"] = "no-store"
        if scope.get("scheme") == "https":  # over http anybody could have put it there, and browsers ignore it
            headers["strict-transport-security"] = "max-age=31536000"
        return headers


_HEADERS = {
    "content-security-policy": "default-src 'self'; script-src 'self'; style-src 'self'; object-src 'none'; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), display-capture=(), geolocation=(), microphone=(), payment=(), usb=()",
}


class LoopbackOnly(Around):
    """Refuses requests for a host that is not this machine: they come from a page whose name was pointed at it."""

    async def answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if re.sub(r":\d*$", "", Headers(scope=scope).get("host", "").lower()) in LOOPBACK:
            await self.app(scope, receive, send)
            return
        detail = "a service without access control is for its own machine, not for this host name: use localhost"
        await problem_response(400, detail, instance=scope["path"])(scope, receive, send)


class HeadAsGet(Around):
    """Answers HEAD like GET, without the body, as RFC 9110 (9.3.2) wants it of every resource that has one."""

    async def answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["method"] != "HEAD":
            await self.app(scope, receive, send)
            return

        async def bare(message: Message) -> None:
            await send({**message, "body": b""} if message["type"] == "http.response.body" else message)

        await self.app({**scope, "method": "GET"}, receive, bare)


class Meter(Around):
    """Measures how long requests take; routes go by their template, so that ids do not become series.

    Args:
        app: The application.
        latency: Where to write it, by route, method and status.
    """

    def __init__(self, app: ASGIApp, latency: Histogram) -> None:
        super().__init__(app)
        self._latency = latency

    async def answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        status, begun = 500, perf_counter()

        async def noting(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self.app(scope, receive, noting)
        finally:
            route = getattr(scope.get("route"), "path", None) or "none"
            method = scope["method"] if scope["method"] in _METHODS else "other"
            self._latency.labels(route, method, str(status)).observe(perf_counter() - begun)


class Unexpected(Around):
    """Answers what nobody expected: 500 with the id of the request, the rest in the log."""

    async def answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        started = False

        async def sending(message: Message) -> None:
            nonlocal started
            started = started or message["type"] == "http.response.start"
            await send(message)

        try:
            await self.app(scope, receive, sending)
        except ClientDisconnect:
            LOG.info("the caller went away before the request had arrived")
        except Exception:
            if started:
                raise  # an answer that has begun can only be broken off
            LOG.exception("request %s failed", REQUEST_ID.get() or "without id")
            await _broken()(scope, receive, send)


def _broken() -> Response:
    request_id = REQUEST_ID.get()
    where = f" under the id {request_id}" if request_id else ""
    return problem_response(
        500, f"something broke on our side, and nothing was answered: the service's log has more{where}"
    )


class SizeLimit(Around):
    """Refuses bodies that are too large: by what is announced at once, by what is sent as soon as it is too much.

    A body whose end is announced in two ways is refused too, and its connection closed.

    Args:
        app: The application.
        most_bytes: How large the body of a request may be.
    """

    def __init__(self, app: ASGIApp, *, most_bytes: int) -> None:
        super().__init__(app)
        self._most = most_bytes

    async def answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        headers = Headers(scope=scope)
        announced = headers.getlist("content-length")
        if announced and "transfer-encoding" in headers:  # a proxy may have read another end into it (RFC 9112, 6.3)
            detail = "a request has a Content-Length or a Transfer-Encoding, and not both: leave one out"
            await problem_response(400, detail, headers={"connection": "close"})(scope, receive, send)
        elif not all(re.fullmatch(r"\d{1,20}", length, re.ASCII) for length in announced):
            detail = "the Content-Length of a request must be a number: send the length of the body"
            await problem_response(400, detail, instance=scope["path"])(scope, receive, send)
        elif any(int(length) > self._most for length in announced):
            await self._refuse(scope, receive, send)
        else:
            await self._counted(scope, receive, send)

    async def _counted(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let the application answer while counting; whatever it makes of a body that broke off, we answer 413."""
        metered = _Metered(receive, send, most=self._most)
        try:
            await self.app(scope, metered.receive, metered.send)
        except Exception:
            if not metered.refused:
                raise
        if metered.refused:
            await self._refuse(scope, receive, send)

    async def _refuse(self, scope: Scope, receive: Receive, send: Send) -> None:
        detail = f"the body of a request may have {self._most} bytes: send less at once"
        headers = {"connection": "close"}  # what is still on its way is not read
        await problem_response(413, detail, instance=scope["path"], headers=headers)(scope, receive, send)


class _Metered:
    """One request whose body is counted; once it is too large, answers that have not begun are held back."""

    def __init__(self, receive: Receive, send: Send, *, most: int) -> None:
        self._receive, self._send, self._left = receive, send, most
        self._begun = False

    @property
    def refused(self) -> bool:
        return self._left < 0 and not self._begun

    async def receive(self) -> Message:
        message = await self._receive()
        self._left -= len(message.get("body", b""))
        if self._left < 0:
            raise HTTPException(413)  # which Starlette and FastAPI pass on, unlike other errors
        return message

    async def send(self, message: Message) -> None:
        if self.refused:
            return
        self._begun = True
        await self._send(message)
