"""How long the pages of the dashboard take, as ratios to a page that shows nothing of the record.

A past is put into a ledger (`past`), a service is started on it in a process of its own, and somebody signs in and
looks at every page over HTTP. The empty page is `/help`: the same sign-in, the same frame, the same service, and no
figures.

Every look at a page is the first after a new event, a reward, so that the page has to be made anew; a second look
follows, when nothing has changed and the browser says that it has the page. When all rewards of a slot have been told,
all stations are asked for the next one.

On a machine that others use as well, what takes longer is interrupted more often, so that ratios of times come out too
large. Beside them, of the first looks, are ratios of the processor time that the service took.

What may take seconds, and is a button for that reason, is left out: whose evidence an old decision rested on.
"""

from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from http.client import HTTPConnection
from math import isnan, nan
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any, NamedTuple
from urllib.parse import urlencode

import numpy as np

from benchmarks.service.calling import TIMEOUT, Address, Caller, LoadError, Timings, hosted
from benchmarks.service.past import Past, Recorded, Tick, record_past
from benchmarks.service.problem import station_names
from benchmarks.speed.measure import Measured

AIM = "at most 3"
"""What the median of a page may be, against that of the empty page."""
EMPTY = "help"
"""The page that shows nothing of the record."""


@dataclass(frozen=True)
class Looks:
    """How often is looked, and at what.

    Attributes:
        past: What is on record.
        times: How often every page is looked at, at first and again.
        warm: How often before that, not counted.
        name: What the names of its lines begin with.
        aim: What the median of a page may be, against that of the empty page.

    Example:
        >>> Looks.quick().times < Looks().times
        True
    """

    past: Past = field(default_factory=Past)
    times: int = 40
    warm: int = 3
    name: str = "pages"
    aim: str = AIM

    @classmethod
    def quick(cls) -> "Looks":
        """Return a small one, for a look."""
        return cls(Past.quick(), times=6, warm=1)

    @classmethod
    def large(cls) -> "Looks":
        """Return those at a large network."""
        return cls(Past.large(), times=12, warm=2, name="pages.large", aim="at most 6")


def pages_of(recorded: Recorded) -> dict[str, str]:
    """Return the addresses of the pages by name, the empty one first.

    Example:
        >>> pages_of(Recorded(9, ("a", "b"), ("d1", "d2", "d3", "d4")))["decision.last"]
        '/decisions/d4'
    """
    some, last, made = recorded.stations[len(recorded.stations) // 4], recorded.stations[-1], recorded.decisions
    return {
        EMPTY: "/help",
        "overview": "/",
        "overview.mode": "/?colour=mode",
        "overview.change": "/?colour=change",
        "overview.filtered": "/?mode=assist&range=24h&zoom=2",
        "stations": "/stations",
        "stations.reward": "/stations?sort=reward",
        "stations.group": "/stations?group=1&sort=hope&down=1",
        "station": f"/stations/{some}",
        "station.day": f"/stations/{some}?range=24h",
        "station.shadow": f"/stations/{last}",
        "decision.first": f"/decisions/{made[0]}",
        "decision.middle": f"/decisions/{made[len(made) // 2]}",
        "decision.last": f"/decisions/{made[-1]}",
        "plan": "/plan",
        "similarity": "/similarity",
        "audit": "/audit",
        "rails": "/rails",
        "audit.station": f"/audit?station={some}&kind=applied",
        "audit.kind": "/audit?kind=decision",
        "audit.actor": "/audit?actor=anna",
    }


class Took(NamedTuple):
    """What looks at a page took, in seconds.

    Attributes:
        first: The first after an event.
        again: The second.
        work: The processor time of the service for the first.
    """

    first: list[float]
    again: list[float]
    work: list[float]

    def add(self, *seconds: float) -> None:
        """Add one of each."""
        for kept, one in zip(self, seconds, strict=True):
            kept.append(one)


_WORDS = {
    "first": "first look after an event",
    "again": "second look",
    "work": "first look after an event, processor time",
}


class Browser:
    """Somebody who has signed in and looks at pages, over one connection.

    Args:
        address: Whom to visit, with a token to sign in by.
    """

    def __init__(self, address: Address) -> None:
        self._connection = HTTPConnection("127.0.0.1", address.port, timeout=TIMEOUT)
        form = urlencode({"token": address.token}).encode()
        headers = {"Content-Type": "application/x-www-form-urlencoded", "Sec-Fetch-Site": "same-origin"}
        self._connection.request("POST", "/sign-in", form, headers)
        answer = self._connection.getresponse()
        answer.read()
        cookie = (answer.getheader("Set-Cookie") or "").partition(";")[0]
        if answer.status != 303 or not cookie:
            self.close()
            raise LoadError(f"signing in was answered {answer.status}")
        self._headers = {"Cookie": cookie}
        self._seen: dict[str, dict[str, str]] = {}

    def look(self, path: str) -> float:
        """Return how long a page took, to its last byte; what was seen before is asked for as browsers do."""
        self._connection.close()  # while news came it was idle for so long that the service may have closed it
        self._connection.connect()
        begun = perf_counter()
        self._connection.request("GET", path, headers=self._headers | self._seen.get(path, {}))
        answer = self._connection.getresponse()
        answer.read()
        took = perf_counter() - begun
        if answer.status not in (200, 304):
            raise LoadError(f"GET {path} was answered {answer.status}")
        self._seen[path] = {"If-None-Match": answer.getheader("ETag") or ""}
        return took

    def close(self) -> None:
        """Give the connection back."""
        self._connection.close()


class News:
    """Has something new happen: one reward after the other, and decisions for all stations when there are no more.

    Args:
        address: Whom to tell.
        past: What is on record there.
    """

    def __init__(self, address: Address, past: Past) -> None:
        self._address, self._names = address, station_names(past.stations)
        self._rng = np.random.default_rng([past.seed, 5])
        self._ids: list[str] = []

    def come(self) -> None:
        """Record one more reward."""
        if not self._ids:
            self._ask()
        told = {"decision": self._ids.pop(), "reward": self._rng.uniform(0.6, 0.9)}
        self._post("/v1/outcomes", {"outcomes": [told]})

    def _ask(self) -> None:
        loads = self._rng.uniform(size=len(self._names)).tolist()
        states = {name: {"load": load} for name, load in zip(self._names, loads, strict=True)}
        answer = self._post("/v1/decisions", {"states": states})
        self._ids = [made["id"] for made in answer["decisions"]]

    def _post(self, path: str, body: Mapping[str, Any]) -> Any:
        """Return an answer; over a connection of its own, since the service closes those that are idle for long."""
        with closing(Caller(self._address)) as caller:
            return caller.post(path, body)[0]


def bench_pages(looks: Looks, *, folder: Path, tick: Tick) -> tuple[list[Measured], int]:
    """Measure the pages; return the lines, and how many events were on record.

    Args:
        looks: How often, and at what.
        folder: Where the ledger is made meanwhile.
        tick: Called with what is done now.
    """
    with TemporaryDirectory(prefix="pages-", dir=folder) as made:
        url = str(Path(made) / "ledger.db")
        recorded = record_past(url, looks.past, tick=tick)
        tick("starting a service")
        with hosted("past", url, seed=0, stations=0, rows=0) as address:
            times = _times(address, pages_of(recorded), looks, tick=tick)
    return list(figures(times, name=looks.name, aim=looks.aim)), recorded.events


def _times(address: Address, pages: Mapping[str, str], looks: Looks, *, tick: Tick) -> dict[str, Took]:
    """Return what looks at every page took."""
    found = {name: Took([], [], []) for name in pages}
    with closing(Browser(address)) as browser:
        news = News(address, looks.past)
        for number in range(looks.warm + looks.times):
            tick(f"looking at {len(pages)} pages, {number + 1} of {looks.warm + looks.times} times")
            for name, path in pages.items():
                news.come()
                before = address.worked()
                first = browser.look(path)
                work = address.worked() - before
                again = browser.look(path)
                if number >= looks.warm:
                    found[name].add(first, again, work)
    return found


def figures(times: Mapping[str, Took], *, name: str = "pages", aim: str = AIM) -> Iterator[Measured]:
    """Return the lines: of every page the median and the slow end, each beside that of the empty page.

    Args:
        times: Seconds by page.
        name: What the names of the lines begin with.
        aim: What a median may be, against that of the empty page.
    """
    for which, words in _WORDS.items():
        seconds = {page: tuple(getattr(took, which)) for page, took in times.items()}
        if any(map(isnan, seconds[EMPTY])):
            continue
        empty = Timings(seconds[EMPTY], sum(seconds[EMPTY]))
        for page, each in seconds.items():
            ours, beside = Timings(each, sum(each)), "" if page == EMPTY else "the empty page"
            for end, slow in (("p50", "median"), ("p95", "95 of 100")):
                wanted = aim if beside and end == "p50" and which != "work" else ""
                reference = float(getattr(empty, end)) if beside else nan
                line, what = f"{name}.{page}.{which}.{end}", f"{page}, {words}, {slow}"
                yield Measured(line, what, float(getattr(ours, end)), beside, reference, wanted)
