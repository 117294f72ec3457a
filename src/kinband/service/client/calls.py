"""Requests that are tried again where that is safe.

It always is: what only reads may be repeated, and what changes something carries an `Idempotency-Key`, so that the
service does it once however often it hears of it. Tried again is what failed on the way or was answered "later" (429,
502, 503, 504): after what `Retry-After` says, or after a pause that doubles from try to try; pauses are drawn at random
up to that, so that many clients do not come back together.
"""

import random
import time
from collections.abc import Callable, Mapping
from typing import Any
from uuid import uuid4

import httpx

from kinband.errors import BadInputError, KinbandError
from kinband.service.client.values import sendable

LATER = frozenset({429, 502, 503, 504})
"""Statuses that say: try again."""
FIRST, LONGEST = 0.5, 30.0
"""Seconds of the first pause at most, and of any."""

READS = frozenset({"GET"})


class ServiceError(KinbandError):
    """The service refused, or could not be reached.

    Attributes:
        status: Of the answer; 0 where there was none.
        detail: What happened and what to do.
        request_id: Under which the service's log tells more.

    Example:
        >>> str(ServiceError(404, "no decision has the id 'd9'"))
        "404: no decision has the id 'd9'"
    """

    def __init__(self, status: int, detail: str, *, request_id: str = "") -> None:
        super().__init__(f"{status}: {detail}" if status else detail)
        self.status = status
        self.detail = detail
        self.request_id = request_id


class Calls:
    """Sends requests to one service.

    Args:
        base_url: Where it is.
        token: To come in with; empty for a service without access control.
        timeout: Seconds to wait for an answer.
        retries: How often to try again.
        transport: What carries requests, if not the network.
        sleep: What waits.
    """

    def __init__(
        self,
        base_url: str,
        token: str,
        *,
        timeout: float,
        retries: int,
        transport: httpx.BaseTransport | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        if not base_url.startswith(("http://", "https://")):
            raise BadInputError(f"base_url must begin with http:// or https://, got {base_url!r:.60}")
        if isinstance(retries, bool) or not isinstance(retries, int) or retries < 0:
            raise BadInputError(f"retries must be a whole number from 0, got {retries!r}")
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        self.base_url = base_url.rstrip("/")
        self.http = httpx.Client(base_url=self.base_url, headers=headers, timeout=timeout, transport=transport)
        self._retries, self._sleep = retries, sleep
        self._random = random.Random()  # of pauses alone

    def json(
        self,
        method: str,
        path: str,
        *,
        body: Mapping[str, Any] | None = None,
        params: Mapping[str, Any] | None = None,
        key: str | None = None,
    ) -> Any:
        """Send a request and return what its answer holds."""
        return self.send(method, path, body=body, params=params, key=key).json()

    def send(
        self,
        method: str,
        path: str,
        *,
        body: Mapping[str, Any] | None = None,
        params: Mapping[str, Any] | None = None,
        key: str | None = None,
    ) -> httpx.Response:
        """Send a request, again if need be, and return its answer; a refusal is an error."""
        headers = {} if method in READS else {"Idempotency-Key": key or uuid4().hex}
        given = None if params is None else {name: value for name, value in params.items() if value is not None}
        plain = None if body is None else sendable(body)
        for tried in range(self._retries + 1):
            last = tried == self._retries
            try:
                answer = self.http.request(method, path, json=plain, params=given, headers=headers)
            except httpx.TransportError as error:
                if last:
                    raise ServiceError(0, self._unreachable(error)) from error
                self._sleep(self._pause(tried, None))
                continue
            if answer.status_code not in LATER or last:
                return _checked(answer)
            self._sleep(self._pause(tried, answer.headers.get("Retry-After")))
        raise AssertionError("the last try returns or raises")

    def _pause(self, tried: int, after: str | None) -> float:
        drawn = self._random.uniform(0.0, FIRST * 2.0**tried)
        told = float(after) if after is not None and after.isdecimal() else 0.0
        return min(told + drawn, LONGEST)

    def _unreachable(self, error: Exception) -> str:
        why = str(error) or type(error).__name__
        return f"the service cannot be reached at {self.base_url} ({why}): check the address and whether it runs"


def _checked(answer: httpx.Response) -> httpx.Response:
    """Return an answer, or raise what it says went wrong."""
    if answer.is_success:
        return answer
    try:
        said = answer.json()
        detail, request_id = str(said["detail"]), str(said.get("request_id", ""))
    except (ValueError, KeyError, TypeError, AttributeError):
        detail, request_id = f"the service answered {answer.status_code} {answer.reason_phrase}", ""
    raise ServiceError(answer.status_code, detail, request_id=request_id)
