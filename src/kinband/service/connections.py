"""Connections: how many there are, how long one is waited for, and how often that is said in the log."""

import asyncio
import json
import logging
import resource
import threading
from collections import Counter
from ipaddress import ip_address
from time import monotonic

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from kinband.service.access.middleware import address_of
from kinband.service.problems import MEDIA_TYPE, phrase, problem

# --- Requests that never arrive in full: after a while the connection is closed, and its place is free for others ---
#
# Sending a byte now and then on many connections costs a caller nothing and a server a connection each, until it has
# none left (R. Hansen's "Slowloris", 2009). uvicorn itself waits for the rest of a request for ever. Here a connection
# has some seconds for its first request to arrive, head and body, and as many for each one after; time in which we
# were too busy to read does not count. A refusal so early, for this or because it was no HTTP at all, is a problem
# document. Nor is anybody waited for who asks and does not read the answer. And there are only so many connections, so
# that there are always files left for the database, and a place for whoever has something to ask.

SECONDS = 30.0
"""How long a request may take to arrive, and an answer to be read on."""

_LOG = logging.getLogger("kinband.service")
_UNANSWERED = (h11.IDLE, h11.SEND_RESPONSE)


class Connections:
    """The connections there are: so many in all and from one address.

    Where there are as many as there may be, the one goes that has gone longest without a request under way, so that
    whoever opens many and asks nothing keeps nobody out. Connections from this machine count in all alone: behind them
    may be a proxy, and everybody.

    Args:
        most: How many in all.
        each: How many from one address (`address_of`).
    """

    def __init__(self, most: int, each: int) -> None:
        self._most, self._each = most, each
        self._held: dict[PatientProtocol, str] = {}  # the oldest first
        self._from = Counter[str]()

    def __len__(self) -> int:
        return len(self._held)

    def take(self, connection: "PatientProtocol", host: str | None) -> bool:
        """Take a connection in, or say that there are too many."""
        address = "" if _is_loopback(host) else address_of(host)
        if address and self._from[address] >= self._each:
            return False
        if len(self._held) >= self._most:
            idle = next((one for one in self._held if one.idle), None)
            if idle is None:
                return False
            self.leave(idle)
            idle.transport.abort()
        self._held[connection] = address
        self._from[address] += 1
        return True

    def leave(self, connection: "PatientProtocol") -> None:
        """Let a connection go."""
        address = self._held.pop(connection, None)
        if address is not None:
            self._from[address] -= 1
            if not self._from[address]:
                del self._from[address]

    @classmethod
    def usual(cls) -> "Connections":
        """Return bounds that leave files for the database, of those that the system lets the process open."""
        files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        most = max(_FEWEST, min(_MOST, files - _OURS)) if files > 0 else _MOST
        return cls(most, max(_FEWEST, most // 8))


_MOST, _FEWEST, _OURS = 2_000, 32, 200  # connections at most and at least, and files that are for ourselves


def _is_loopback(host: str | None) -> bool:
    try:
        return ip_address(host or "").is_loopback
    except ValueError:
        return False


class PatientProtocol(H11Protocol):
    """uvicorn's HTTP/1.1 by h11, with an end to its patience. Use `patient`.

    Attributes:
        seconds: How long a request may take to arrive, and an answer to be read on.
        all: The connections there are.
    """

    seconds = SECONDS
    all = Connections(_MOST, _MOST)
    _end: asyncio.TimerHandle | None = None
    _unread: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for the first request, unless there are too many connections."""
        super().connection_made(transport)
        if self.all.take(self, None if self.client is None else self.client[0]):
            self._begin()
        else:
            _LOG.warning("a connection was closed at once: there are too many, in all or from one address")
            transport.abort()

    def data_received(self, data: bytes) -> None:
        """Take in what has arrived."""
        super().data_received(data)
        if not self.flow.write_paused:  # who asks on has read the answer before
            self._cancel_unread()
        self._look()

    def on_response_complete(self) -> None:
        """Go on to the next request, part of which may be here."""
        super().on_response_complete()
        self._wait_for_reader()
        self._look()

    def pause_writing(self) -> None:
        """Wait for somebody who does not read, but not for ever."""
        super().pause_writing()
        self._wait_for_reader()

    def resume_writing(self) -> None:
        """Go on writing."""
        self._cancel_unread()
        super().resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop waiting."""
        self._cancel()
        self._cancel_unread()
        self.all.leave(self)
        super().connection_lost(exc)

    @property
    def idle(self) -> bool:
        """Whether no request is under way."""
        return self.cycle is None or self.cycle.response_complete

    def _wait_for_reader(self) -> None:
        """Close the connection after a while if what was written is not read."""
        if self._unread is None and self.transport.get_write_buffer_size():
            self._unread = self.loop.call_later(self.seconds, self._give_up_reader)

    def _give_up_reader(self) -> None:
        self._unread = None
        if self.transport.get_write_buffer_size():
            _LOG.info("an answer was not read within %g seconds: the connection is closed", self.seconds)
            self.transport.abort()

    def _cancel_unread(self) -> None:
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None

    def send_400_response(self, msg: str) -> None:
        """Refuse what is not HTTP."""
        del msg
        self._refuse(400, "this is not a request of HTTP/1.1: check what is sent")

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
            self._refuse(408, f"the request did not arrive within {self.seconds:g} seconds: send it faster")

    def _refuse(self, status: int, detail: str) -> None:
        """Answer where nothing was answered yet, and close the connection."""
        if self.conn.our_state in _UNANSWERED:
            said = problem(status, detail)
            said.pop("request_id", None)  # it may be that of the request before
            body = json.dumps(said).encode()
            headers = [
                ("content-type", MEDIA_TYPE),
                ("content-length", str(len(body))),
                ("connection", "close"),
                ("cache-control", "no-store"),
                ("x-content-type-options", "nosniff"),
            ]
            head = h11.Response(status_code=status, headers=headers, reason=phrase(status))
            for event in (head, h11.Data(data=body), h11.EndOfMessage()):
                self.transport.write(self.conn.send(event) or b"")
        self.transport.close()
        self._wait_for_reader()


def patient(seconds: float = SECONDS) -> type[H11Protocol]:
    """Return the protocol that waits for so many seconds, for as many connections as the system has files for."""
    return type("PatientProtocol", (PatientProtocol,), {"seconds": seconds, "all": Connections.usual()})


# --- The log, which nobody fills --------------------------------------------------------------------------------------
#
# What a caller can cause again and again at no cost is said often, then seldom, and at last how often it was.


class Seldom(logging.Filter):
    """Lets through so many lines of one place in the program in a while, then says how many were left out.

    Args:
        most: How many lines.
        access: How many of them where every request is a line.
        seconds: In how long a while.
    """

    def __init__(self, *, most: int = 100, access: int = 2_000, seconds: float = 10.0) -> None:
        super().__init__()
        self._most, self._access, self._seconds = most, access, seconds
        self._lines = dict[tuple[str, int], tuple[float, int]]()  # since when, and how many since then
        self._lock = threading.Lock()

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether a line is written."""
        most = self._access if record.name == "uvicorn.access" else self._most
        place, now = (record.pathname, record.lineno), monotonic()
        with self._lock:
            since, count = self._lines.get(place, (now, 0))
            left_out = max(0, count - most)
            if now >= since + self._seconds:
                since, count = now, 0
            self._lines[place] = since, count + 1
        if count >= most:
            return False
        if count == 0 and left_out:
            record.msg, record.args = f"{record.getMessage()} ({left_out:,} lines like this one were left out)", None
        return True
