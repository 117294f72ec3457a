"""The client: a running service from Python, with a method for everything it does, tried again where that is safe.

Answers are the models of `kinband.service.schemas`; what a newer service adds to them is passed over.
"""

import logging
import random
import time as clock
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import isfinite
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import Any, Literal
from urllib.parse import quote
from uuid import uuid4

import httpx

from kinband.errors import BadInputError, KinbandError
from kinband.service.paths import written
from kinband.service.schemas import (
    Answer,
    Asked,
    Configurations,
    CountersTaken,
    Decision,
    DecisionDetail,
    Decisions,
    Event,
    Explanation,
    History,
    Joined,
    Left,
    Model,
    Modes,
    Order,
    Orders,
    Outlook,
    Plan,
    Planned,
    Point,
    Rails,
    RailsChange,
    Similarity,
    Station,
    Stations,
)

__all__ = ["KinbandClient", "ServiceError"]

# --- What a client may send: plain values of JSON, made of what programs have at hand -------------------------------
#
# Rewards and states often come out of NumPy, whose numbers JSON does not know. They are taken for what they are,
# without loading NumPy for it. NaN and infinity are no numbers that can be told: JSON has none (RFC 8259), and a
# reward that is not known is better left out.


def sendable(value: Any, place: str = "") -> Any:
    """Return a value as JSON can hold it, or say what cannot be sent and where it is.

    Args:
        value: Anything.
        place: What to call it in a complaint.
    """
    match value:
        case None | bool() | str() | int():
            return value
        case float():
            if not isfinite(value):
                raise BadInputError(f"{_named(place)} is {value}, which cannot be sent: leave out what is not known")
            return float(value)
        case Mapping():
            return {str(sendable(name)): sendable(one, f"{place}.{name}".lstrip(".")) for name, one in value.items()}
        case bytes() | bytearray():
            pass  # which are sequences of numbers
        case Sequence():
            return [sendable(one, f"{place}[{number}]") for number, one in enumerate(value)]
    plain = _plain(value)
    if plain is value:
        raise BadInputError(
            f"{_named(place)} is of type {type(value).__name__}, which cannot be sent: give plain values"
        )
    return sendable(plain, place)


def _plain(value: Any) -> Any:
    """Return the plain value of a number or an array of NumPy; anything else as it is."""
    of_numpy = type(value).__module__.partition(".")[0] == "numpy" and hasattr(value, "tolist")
    return value.tolist() if of_numpy else value


def _named(place: str) -> str:
    return place or "what is to be sent"


# --- Requests that are tried again where that is safe ---------------------------------------------------------------
#
# It always is: what only reads may be repeated, and what changes something carries an `Idempotency-Key`, so that the
# service does it once however often it hears of it. Tried again is what failed on the way or was answered "later"
# (429, 502, 503, 504): after what `Retry-After` says, or after a pause that doubles from try to try; pauses are drawn
# at random up to that, so that many clients do not come back together.

LATER = frozenset({429, 502, 503, 504})
"""Statuses that say: try again."""
FIRST, LONGEST = 0.5, 30.0
"""Seconds of the first pause at most, and of any."""

_FURTHER = ("code", "argument", "request_id")  # of a problem, beside its sentence


class ServiceError(KinbandError):
    """The service refused, or could not be reached.

    Attributes:
        status: Of the answer; 0 where there was none.
        detail: What happened and what to do.
        code: Which problem it is; "service" where the service names none.
        argument: The field at fault, where there is one.
        request_id: Under which the service's log tells more.

    Example:
        >>> str(ServiceError(404, "no decision has the id 'd9'"))
        "404: no decision has the id 'd9'"
    """

    code = "service"

    def __init__(self, status: int, detail: str, *, code: str = "", argument: str = "", request_id: str = "") -> None:
        super().__init__(f"{status}: {detail}" if status else detail, code=code, argument=argument)
        self.status, self.detail, self.request_id = status, detail, request_id


def _checked(answer: httpx.Response) -> httpx.Response:
    """Return an answer, or raise what it says went wrong."""
    if answer.is_success:
        return answer
    try:
        said = answer.json()
        detail, further = str(said["detail"]), {name: str(said.get(name, "")) for name in _FURTHER}
    except (ValueError, KeyError, TypeError, AttributeError):
        detail, further = f"the service answered {answer.status_code} {answer.reason_phrase}", {}
    raise ServiceError(answer.status_code, detail, **further)


# --- A method for everything that the service does ------------------------------------------------------------------

_LOG = logging.getLogger("kinband.client")

Knobs = Mapping[str, Any]
Table = Literal["decisions", "outcomes", "events"]


class KinbandClient:
    """A running service. Calls that change something are done once, however often they have to be sent.

    Args:
        base_url: Where it is, such as "https://kinband.example.org".
        token: To come in with; empty for a service without access control.
        timeout: Seconds to wait for an answer.
        retries: How often to try again what failed on the way or was answered "later".
        transport: What carries requests, if not the network: for tests.
        sleep: What waits between tries: for tests.

    Example:
        >>> with KinbandClient("https://kinband.example.org", "kb_k3Vq90Xz_secret") as client:
        ...     print(client)
        KinbandClient('https://kinband.example.org')
    """

    def __init__(
        self,
        base_url: str,
        token: str = "",
        *,
        timeout: float = 10.0,
        retries: int = 3,
        transport: httpx.BaseTransport | None = None,
        sleep: Callable[[float], None] = clock.sleep,
    ) -> None:
        token = token.strip()  # a file that holds a token ends with a line break
        if not token.isascii() or any(mark.isspace() for mark in token):
            raise ValueError("this is not a token: one is kb_, letters, digits, '_' and '-', without spaces")
        if not base_url.startswith(("http://", "https://")):
            raise BadInputError(f"base_url must begin with http:// or https://, got {base_url!r:.60}")
        if isinstance(retries, bool) or not isinstance(retries, int) or retries < 0:
            raise BadInputError(f"retries must be a whole number from 0, got {retries!r}")
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._base = base_url.rstrip("/")
        self._http = httpx.Client(base_url=self._base, headers=headers, timeout=timeout, transport=transport)
        self._retries, self._sleep = retries, sleep
        self._random = random.Random()  # of pauses alone

    def __repr__(self) -> str:
        return f"KinbandClient({self._base!r})"

    def __enter__(self) -> "KinbandClient":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Give back connections."""
        self._http.close()

    def _send(
        self,
        method: str,
        path: str,
        *,
        body: Mapping[str, Any] | None = None,
        params: Mapping[str, Any] | None = None,
        key: str | None = None,
        file: bytes | None = None,
    ) -> httpx.Response:
        """Send a request, again if need be, and return its answer; a refusal is an error."""
        headers = {} if method == "GET" else {"Idempotency-Key": key or uuid4().hex}
        headers |= {} if file is None else {"Content-Type": "application/octet-stream"}
        given, plain = None if params is None else _given(**params), None if body is None else sendable(body)
        for tried in range(self._retries + 1):
            last = tried == self._retries
            try:
                answer = self._http.request(method, path, json=plain, content=file, params=given, headers=headers)
            except httpx.TransportError as error:
                if last:
                    why = str(error) or type(error).__name__
                    raise ServiceError(
                        0,
                        f"the service cannot be reached at {self._base} ({why}): check the address and whether it runs",
                    ) from error
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

    def _got(self, model: type[Model], path: str, **params: Any) -> Model:
        """Return what is to be seen at a path."""
        return model.model_validate(self._send("GET", path, params=params or None).json())

    def _did(
        self, model: type[Model], method: str, path: str, *, key: str | None, params: Any = None, **body: Any
    ) -> Model:
        """Return the answer to a call that changes something; of its body what is not None is sent."""
        sent = _given(**body)
        return model.model_validate(self._send(method, path, body=sent or None, params=params, key=key).json())

    # Decide and learn

    def ask(
        self,
        states: Mapping[str, Mapping[str, float]] | None = None,
        *,
        stations: Sequence[str] | None = None,
        slot: str | None = None,
        begins: str | None = None,
        running: Mapping[str, Knobs] | None = None,
        allowed: Mapping[str, Any] | None = None,
        time: float | str | None = None,
        key: str | None = None,
    ) -> list[Answer]:
        """Decide for one station or many in one round; what looks wrong with the states goes into the log.

        Args:
            states: State features by station.
            stations: Further stations, in the state that their counters tell.
            slot: Your name of the slot; a station has one decision a slot. An ISO time is when it begins.
            begins: When the slot begins, as ISO text, where its name does not say so.
            running: What stations run, where you know better than the record.
            allowed: Which configurations may be chosen, by station: values or {"low", "high"} by knob, or a list.
            time: When, for a controller with a clock.
            key: A key of your own for this call, if it may be sent again by another process.
        """
        found = self._did(
            Asked, "POST", "/v1/decisions",
            states=states, stations=stations, slot=slot, running=running, allowed=allowed, time=time, key=key,
            **{"from": begins},
        )  # fmt: skip
        for warning in found.warnings:
            _LOG.warning("%s", warning)
        return found.decisions

    def counters(
        self, rows: Sequence[Mapping[str, Any]] | bytes | str | Path, *, key: str | None = None
    ) -> CountersTaken:
        """Send what was measured, as it comes; what could not be used goes into the log.

        Args:
            rows: Rows by column; or the bytes of a file, or its path: CSV or a measurement file, perhaps gzipped.
            key: A key of your own for this call.
        """
        if isinstance(rows, bytes | str | Path):
            data = rows if isinstance(rows, bytes) else Path(rows).read_bytes()
            answer = self._send("POST", "/v1/counters", key=key, file=data)
        else:
            answer = self._send("POST", "/v1/counters", body=_given(rows=rows), key=key)
        found = CountersTaken.model_validate(answer.json())
        for unused in found.unused:
            _LOG.warning("%s", unused.text)
        return found

    def tell(
        self,
        rewards: Mapping[str, float] | None = None,
        *,
        noise: Mapping[str, float] | None = None,
        kpis: Mapping[str, Mapping[str, Any]] | None = None,
        others: Mapping[str, Any] | None = None,
        key: str | None = None,
    ) -> list[Decision]:
        """Tell what decisions earned, by their ids, all or nothing.

        Args:
            rewards: Rewards by decision.
            noise: The rewards' own variances, where they are known.
            kpis: KPIs by decision and name: a value, or value and variance.
            others: Rewards of neighbours that no decision led to, by station.
            key: A key of your own for this call.
        """
        rewards, noise, kpis = rewards or {}, noise or {}, kpis or {}
        if unknown := [name for name in noise if name not in rewards]:
            raise BadInputError(f"noise names decision {unknown[0]!r:.60}, which is not told a reward")
        outcomes = [
            _given(decision=name, reward=rewards.get(name), noise=noise.get(name), kpis=kpis.get(name))
            for name in dict.fromkeys([*rewards, *kpis])
        ]
        return self._did(Decisions, "POST", "/v1/outcomes", outcomes=outcomes, others=others, key=key).decisions

    def correct(
        self,
        decision: str,
        reward: float | None = None,
        *,
        kpis: Mapping[str, Any] | None = None,
        key: str | None = None,
    ) -> Decision:
        """Put right what was told before."""
        return self._did(Decision, "POST", "/v1/corrections", decision=decision, reward=reward, kpis=kpis, key=key)

    def applied(
        self, decision: str, configuration: Knobs | None = None, *, comment: str = "", key: str | None = None
    ) -> Decision:
        """Report what a station really runs in the slot of its present decision; without one, what it was told to."""
        path = f"/v1/decisions/{_part(decision)}/applied"
        return self._did(Decision, "POST", path, configuration=configuration, comment=comment, key=key)

    def call_off(self, decision: str, *, key: str | None = None) -> Decision:
        """Say that no outcome will come."""
        return self._did(Decision, "POST", f"/v1/decisions/{_part(decision)}/call-off", key=key)

    # People

    def plan(self) -> list[Planned]:
        """Return what waits for a person, each with what is expected of it."""
        return self._got(Plan, "/v1/plan").decisions

    def approve(self, decisions: Sequence[str], *, comment: str = "", key: str | None = None) -> list[Decision]:
        """Carry out decisions that wait; the guard reviews them again."""
        return self._judge(decisions, approve=True, comment=comment, key=key)

    def reject(self, decisions: Sequence[str], *, comment: str = "", key: str | None = None) -> list[Decision]:
        """Leave the stations of decisions that wait as they are."""
        return self._judge(decisions, approve=False, comment=comment, key=key)

    def withdraw(self, decisions: Sequence[str], *, comment: str = "", key: str | None = None) -> list[Decision]:
        """Take approvals back that are not ordered yet."""
        said = {"decisions": _listed(decisions), "comment": comment}
        return self._did(Decisions, "POST", "/v1/withdrawals", **said, key=key).decisions

    # Orders

    def orders(self) -> list[Order]:
        """Return what is ordered, to be made now, then what is approved and due next."""
        return self._got(Orders, "/v1/orders").orders

    def overdue(self) -> list[Order]:
        """Return what was ordered and not confirmed in time, of the last day: confirm what was made all the same."""
        return self._got(Orders, "/v1/orders").overdue

    def confirm(self, decision: str, *, comment: str = "", key: str | None = None) -> Decision:
        """Say that an order is carried out."""
        return self._did(Decision, "POST", f"/v1/orders/{_part(decision)}/confirm", comment=comment, key=key)

    def fail(self, decision: str, why: str = "", *, key: str | None = None) -> Decision:
        """Say that an order could not be carried out."""
        return self._did(Decision, "POST", f"/v1/orders/{_part(decision)}/fail", why=why, key=key)

    def mode(self) -> Modes:
        """Return the modes, and whether everything is stopped."""
        return self._got(Modes, "/v1/mode")

    def set_mode(
        self, mode: str, stations: Sequence[str] | None = None, *, comment: str = "", key: str | None = None
    ) -> Modes:
        """Set the mode of some stations, or of all and of newcomers."""
        named = None if stations is None else list(stations)
        return self._did(Modes, "PUT", "/v1/mode", mode=mode, stations=named, comment=comment, key=key)

    def stop(self, why: str = "", *, key: str | None = None) -> Modes:
        """Stop everything."""
        return self._did(Modes, "POST", "/v1/stop", why=why, key=key)

    def resume(self, why: str = "", *, key: str | None = None) -> Modes:
        """Take a stop back."""
        return self._did(Modes, "POST", "/v1/resume", why=why, key=key)

    def set_clock(self, why: str = "", *, key: str | None = None) -> Modes:
        """Say that the clock of the service is right, which is in doubt."""
        return self._did(Modes, "POST", "/v1/clock", why=why, key=key)

    # Stations

    def stations(self) -> list[Station]:
        """Return every station that there is or was."""
        return self._got(Stations, "/v1/stations").stations

    def station(self, name: str) -> Station:
        """Return one station."""
        return self._got(Station, f"/v1/stations/{written(name)}")

    def add_station(
        self,
        name: str,
        descriptors: Knobs | None = None,
        similarity: Mapping[str, float] | None = None,
        *,
        running: Knobs | None = None,
        key: str | None = None,
    ) -> dict[str, float]:
        """Let a station join and return how like the others it is."""
        return self._did(
            Joined, "POST", "/v1/stations",
            name=name, descriptors=descriptors, similarity=similarity, running=running, key=key,
        ).similarity  # fmt: skip

    def remove_station(self, name: str, *, key: str | None = None) -> list[str]:
        """Let a station leave and return the decisions whose outcome is awaited."""
        return self._did(Left, "DELETE", f"/v1/stations/{written(name)}", key=key).awaited

    def roll_back(
        self, name: str, *, comment: str = "", override: bool | None = None, key: str | None = None
    ) -> Station:
        """Have a station run again what it ran last within its ranges; an admin may override what forbids it."""
        path = f"/v1/stations/{written(name)}/roll-back"
        return self._did(Station, "POST", path, comment=comment, override=override, key=key)

    def freeze(self, name: str, why: str = "", *, key: str | None = None) -> Station:
        """Leave a station as it is."""
        return self._did(Station, "PUT", f"/v1/stations/{written(name)}/freeze", why=why, key=key)

    def thaw(self, name: str, *, key: str | None = None) -> Station:
        """Let a station be changed again."""
        return self._did(Station, "DELETE", f"/v1/stations/{written(name)}/freeze", key=key)

    def outlook(self, name: str) -> Outlook:
        """Return what every configuration of a station is expected to earn."""
        return self._got(Outlook, f"/v1/stations/{written(name)}/outlook")

    def history(self, name: str, *, last: int = 500) -> list[Point]:
        """Return the slots of a station, oldest first."""
        return self._got(History, f"/v1/stations/{written(name)}/history", last=last).points

    # Look

    def decision(self, decision: str) -> DecisionDetail:
        """Return a decision, with what else was considered."""
        return self._got(DecisionDetail, f"/v1/decisions/{_part(decision)}")

    def decisions(
        self, *, station: str | None = None, status: str | None = None, slot: str | None = None, page: int = 100
    ) -> Iterator[Decision]:
        """Return decisions, newest first, page by page as they are asked for."""
        params = {"station": station, "status": status, "slot": slot, "limit": page}
        return (Decision.model_validate(made) for made in self._pages("/v1/decisions", params, "decisions"))

    def explain(self, decision: str) -> Explanation:
        """Return why a decision was made."""
        return self._got(Explanation, f"/v1/decisions/{_part(decision)}/explanation")

    def events(self, *, page: int = 500, **filters: Any) -> Iterator[Event]:
        """Return the history, page by page; filters are kind, station, decision, actor, order, after and before."""
        return (
            Event.model_validate(event) for event in self._pages("/v1/events", {**filters, "limit": page}, "events")
        )

    def similarity(self, stations: Sequence[str] = ()) -> Similarity:
        """Return how alike stations are: those that are named, or all, of a large network evenly chosen ones."""
        return self._got(Similarity, "/v1/similarity", station=list(stations))

    def configurations(self) -> list[dict[str, Any]]:
        """Return every configuration, in the order of their numbers."""
        return [one.configuration for one in self._got(Configurations, "/v1/configurations").configurations]

    def rails(self) -> Rails:
        """Return the guard rails in force, with who put them there and when."""
        return self._got(Rails, "/v1/rails")

    def check_rails(self, yaml: str) -> RailsChange:
        """Return what other guard rails would refuse of the plan, without putting them in force."""
        return self._did(RailsChange, "PUT", "/v1/rails", params={"check": "true"}, yaml=yaml, key=None)

    def set_rails(
        self, yaml: str, *, comment: str = "", replaces: str | None = None, key: str | None = None
    ) -> RailsChange:
        """Put guard rails in force for the next decision; "{}" lifts all of them.

        Args:
            yaml: The text of their file.
            comment: Why, for the record.
            replaces: Digest of those that they are meant to replace; refused if others hold by now.
            key: A key of your own for this call.
        """
        return self._did(RailsChange, "PUT", "/v1/rails", yaml=yaml, comment=comment, replaces=replaces, key=key)

    def export(self, table: Table, path: str | PathLike[str]) -> Path:
        """Write all decisions, outcomes or events to a CSV file and return where it is."""
        answer = self._send("GET", f"/v1/export/{_part(table)}.csv")
        target = Path(path)
        target.write_bytes(answer.content)
        return target

    def _judge(self, decisions: Sequence[str], *, approve: bool, comment: str, key: str | None) -> list[Decision]:
        said = {"decisions": _listed(decisions), "approve": approve, "comment": comment}
        return self._did(Decisions, "POST", "/v1/approvals", **said, key=key).decisions

    def _pages(self, path: str, params: Mapping[str, Any], name: str) -> Iterator[Any]:
        page = self._send("GET", path, params=params).json()
        yield from page[name]
        while page["next"] is not None:
            if not page["next"].startswith("/v1/"):  # the token goes nowhere else
                raise BadInputError(f"the next page should be below /v1/, got {page['next']!r:.60}")
            page = self._send("GET", page["next"]).json()
            yield from page[name]


def _given(**values: Any) -> dict[str, Any]:
    """Return what is not None."""
    return {name: value for name, value in values.items() if value is not None}


def _listed(decisions: Sequence[str]) -> list[str]:
    """Return ids as a list, also of one alone."""
    return [decisions] if isinstance(decisions, str) else list(decisions)


def _part(name: str) -> str:
    """Return a name as one part of a path."""
    return quote(name, safe="")
