"""Requests that never arrive in full: after a while the connection is closed, and its place is free for others.

Sending a byte now and then on many connections costs a caller nothing and a server a connection each, until it has none
left (R. Hansen's "Slowloris", 2009). uvicorn itself waits for the rest of a request for ever. Here a connection has
some seconds for its first request to arrive, head and body, and as many for each one after; time in which we were
too busy to read does not count. A refusal so early, for this or because it was no HTTP at all, is a problem document.
"""

import asyncio
import json
import logging

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from kinband.service.problems import MEDIA_TYPE, Problem, phrase

SECONDS = 30.0
"""How long a request may take to arrive."""

_LOG = logging.getLogger("kinband.service")
_UNANSWERED = (h11.IDLE, h11.SEND_RESPONSE)


class PatientProtocol(H11Protocol):
    """uvicorn's HTTP/1.1 by h11, with an end to its patience. Use `patient`.

    Attributes:
        seconds: How long a request may take to arrive.
    """

    seconds = SECONDS
    _end: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for the first request."""
        super().connection_made(transport)
        self._begin()

    def data_received(self, data: bytes) -> None:
        """Take in what has arrived."""
        super().data_received(data)
        self._look()

    def on_response_complete(self) -> None:
        """Go on to the next request, part of which may be here."""
        super().on_response_complete()
        self._look()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop waiting."""
        self._cancel()
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        """Refuse what is not HTTP."""
        del msg
        self._refuse(Problem(400, "this is not a request of HTTP/1.1: check what is sent"))

    def _look(self) -> None:
        """Wait for the rest of a request as long as there is one to come."""
        if not self._arriving:
            self._cancel()
        elif self._end is None:
            self._begin()

    @property
    def _arriving(self) -> bool:
        """Whether a part of a request is here."""
        state = self.conn.their_state
        return state is h11.SEND_BODY or (state is h11.IDLE and bool(self.conn.trailing_data[0]))

    def _begin(self) -> None:
        self._end = self.loop.call_later(self.seconds, self._give_up)

    def _cancel(self) -> None:
        if self._end is not None:
            self._end.cancel()
            self._end = None

    def _give_up(self) -> None:
        self._end = None
        if self.transport.is_closing():
            return
        if not self._arriving:
            self.transport.close()  # browsers open connections to have them, and take an answer for that of another
        elif self.flow.read_paused:
            self._begin()  # it is we who have not read
        else:
            _LOG.info("a request did not arrive within %g seconds: the connection is closed", self.seconds)
            self._refuse(Problem(408, f"the request did not arrive within {self.seconds:g} seconds: send it faster"))

    def _refuse(self, problem: Problem) -> None:
        """Answer where nothing was answered yet, and close the connection."""
        if self.conn.our_state in _UNANSWERED:
            said = problem.to_dict()
            said.pop("request_id", None)  # it may be that of the request before
            body = json.dumps(said).encode()
            headers = [
                ("content-type", MEDIA_TYPE),
                ("content-length", str(len(body))),
                ("connection", "close"),
                ("cache-control", "no-store"),
                ("x-content-type-options", "nosniff"),
            ]
            head = h11.Response(status_code=problem.status, headers=headers, reason=phrase(problem.status))
            for event in (head, h11.Data(data=body), h11.EndOfMessage()):
                self.transport.write(self.conn.send(event) or b"")
        self.transport.close()


def patient(seconds: float = SECONDS) -> type[H11Protocol]:
    """Return the protocol that waits for so many seconds.

    Example:
        >>> issubclass(patient(10), H11Protocol)
        True
    """
    return type("PatientProtocol", (PatientProtocol,), {"seconds": seconds})
