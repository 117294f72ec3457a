"""A week in figures: what was changed and by whom, what it earned, what was refused, what is missing.

It follows from the events of the week, which go once more through a read model of their own (`operations.past`), so
that sums are those of the dashboard over these days alone. A week is one of ISO 8601, Monday to Sunday, in UTC.
"""

import re
from collections import Counter, OrderedDict
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotYetError
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from threading import Lock
from time import monotonic
from typing import Any

from kinband.errors import BadInputError
from kinband.html import environment, paper_sheet
from kinband.service.dashboard import text
from kinband.service.dashboard.rows import Names, names_of
from kinband.service.ledger import Event
from kinband.service.operations import Operations
from kinband.service.operations.past import first_since, replayed
from kinband.service.operations.read_model import ReadModel
from kinband.service.operations.records import Gain, expected_gain
from kinband.stats import counted
from kinband.version import __version__

MOST_EVENTS = 400_000
"""Events of a week that are looked at, the latest."""
LISTED = 40
"""Rows of each list."""
_OFTEN = ("sent", "made", "applied", "rolled back")
ACTS = ("approval", "mode", "switch", "proposal", "rails", "access", "correction", "manner")
"""Kinds of events that are what somebody did, beside stations that join and leave and changes by hand."""
BORROWS = 0.05
"""Correlation with another station up to which nothing is borrowed from it."""

_WEEK = re.compile(r"(\d{4})-W(\d\d)")
_SHARE = 0.9  # of its rewards that a station must have to be no gap


@dataclass(frozen=True)
class Made:
    """A change that was made, or taken back.

    Attributes:
        at: When.
        station: Where.
        before: What it ran before; None where nobody knew.
        arm: What it runs since.
        by: "controller", "operator", "roll-back" or "network".
        actor: Who.
        gain: What was expected of it, with its interval; None where that is not known.
    """

    at: datetime
    station: str
    before: int | None
    arm: int
    by: str
    actor: str
    gain: tuple[float, float, float] | None


@dataclass(frozen=True)
class Gap:
    """A station whose rewards are missing.

    Attributes:
        station: Which.
        decisions: Its decisions of the week.
        rewards: How many of them have a reward.
    """

    station: str
    decisions: int
    rewards: int


@dataclass
class Digest:
    """A week in figures.

    Attributes:
        week: Its name, such as 2026-W47.
        since: When it begins.
        until: When it ends, or now if that is earlier.
        decisions: Decisions made.
        statuses: What became of them.
        changes: The latest changes.
        by: How many changes, by who made them.
        back: The latest that were rolled back.
        gain: What was earned beyond what the declared configurations were expected to.
        refused: Decisions by the rail that refused something.
        drift: Stations that were noticed to have changed, and when.
        alone: Those of them that borrow from no other station since.
        gaps: Stations with missing rewards, the worst first.
        silent: How many there are.
        actors: Acts by actor.
        acts: The latest acts, as sentences with their time.
        cut: Whether there were more events than were looked at.
    """

    week: str
    since: datetime
    until: datetime
    decisions: int = 0
    statuses: Counter[str] = field(default_factory=Counter)
    changes: list[Made] = field(default_factory=list)
    by: Counter[str] = field(default_factory=Counter)
    back: list[Made] = field(default_factory=list)
    gain: Gain = field(default_factory=lambda: Gain(0.0, 0, float("nan"), float("nan"), float("nan")))
    refused: Counter[str] = field(default_factory=Counter)
    drift: list[tuple[datetime, str]] = field(default_factory=list)
    alone: list[str] = field(default_factory=list)
    gaps: list[Gap] = field(default_factory=list)
    silent: int = 0
    actors: Counter[str] = field(default_factory=Counter)
    acts: list[tuple[str, str]] = field(default_factory=list)
    cut: bool = False

    @property
    def words(self) -> list[str]:
        """The week in a few sentences."""
        changed, taken_back = self.by.total(), self.by["roll-back"] + self.by["operator"]
        gained = "nothing is known of the gain"
        if self.gain.slots:
            gained = (
                f"a slot earned {text.signed(self.gain.mean)} {text.interval(self.gain.low, self.gain.high)} more than "
                f"the declared configurations were expected to, over {counted(self.gain.slots, 'slot')}"
            )
        said = [
            f"{counted(self.decisions, 'decision')}, {counted(changed, 'change')}, {taken_back:,} of them back",
            gained,
            f"{self.refused.total():,} refusals by {counted(len(+self.refused), 'rail')}",
            f"{counted(len(self.drift), 'station')} noticed to have changed; {len(self.alone):,} stopped borrowing",
            f"rewards are missing at {counted(self.silent, 'station')}",
            f"{counted(self.actors.total(), 'act')} by {counted(len(self.actors), 'name')}",
        ]
        return [f"{one[0].upper()}{one[1:]}." for one in said]


def week_named(name: str) -> datetime:
    """Return when a week begins.

    Example:
        >>> week_named("2026-W47").isoformat()
        '2026-11-16T00:00:00+00:00'
    """
    match = _WEEK.fullmatch(name.strip())
    try:
        if match is None:
            raise ValueError
        day = date.fromisocalendar(int(match[1]), int(match[2]), 1)
    except ValueError as error:
        raise BadInputError(
            f"a week is a year and a number such as 2026-W47, got {name!r:.40}", argument="week", value=name
        ) from error
    return datetime(day.year, day.month, day.day, tzinfo=UTC)


def week_of(moment: datetime) -> str:
    """Return the week that a moment lies in.

    Example:
        >>> week_of(datetime(2026, 11, 19, tzinfo=UTC))
        '2026-W47'
    """
    year, week, _ = moment.astimezone(UTC).isocalendar()
    return f"{year:04d}-W{week:02d}"


def digest_of(operations: Operations, week: str) -> Digest:
    """Return a week in figures; one that is not over yet up to now.

    Args:
        operations: Whose.
        week: Its name.
    """
    since = week_named(week)
    found = Digest(week, since, min(since + timedelta(days=7), max(operations.now(), since)))
    ledger = operations.ledger
    first, end = first_since(ledger, since), first_since(ledger, since + timedelta(days=7))
    if end - first > MOST_EVENTS:
        first, found.cut = end - MOST_EVENTS, True
    told = _Told(found, names_of(operations))
    model: ReadModel | None = None
    for event, model in replayed(operations, first, end):
        told.take(event, model)
    if model is not None:
        told.end(model)
    return found


class _Told:
    """A digest in the making."""

    def __init__(self, found: Digest, names: Names) -> None:
        self.found, self._names = found, names
        self._decided, self._rewarded = Counter[str](), set[str]()
        self._stations: dict[str, str] = {}  # of decisions of the week

    def take(self, event: Event, model: ReadModel) -> None:
        """Take in an event, before its read model has."""
        match event.kind:
            case "verdict":
                self.found.decisions += 1
                self._decided[event.station] += 1
                self._stations[str(event.decision)] = event.station
            case "outcome" if event.payload["entry"].get("entry") == "told" and event.decision in self._stations:
                self._rewarded.add(str(event.decision))
            case "applied":
                self._change(event, model)
            case "station":
                self._station(event)
            case "order" if event.payload["status"] not in _OFTEN:  # thousands are confirmed
                self._act(event)
            case kind if kind in ACTS:
                self._act(event)

    def _change(self, event: Event, model: ReadModel) -> None:
        said = event.payload
        if said["arm"] is None or said["arm"] == said["before"] or said.get("taken_back"):
            return
        key = str(said.get("order") or event.decision)
        record = model.decisions.get(key)
        gain = None if record is None or said["by"] != "controller" else expected_gain(record)
        at = datetime.fromisoformat(said["at"])
        made = Made(at, event.station, said["before"], said["arm"], said["by"], event.actor, gain)
        self.found.by[made.by] += 1
        self._list(self.found.changes, made)
        if made.by in ("roll-back", "operator"):
            self._list(self.found.back, made)
        if made.by in ("operator", "network"):
            self._act(event)

    def _station(self, event: Event) -> None:
        entry = event.payload["entry"]
        if entry.get("entry") in ("joined", "left", "returned"):
            self._act(event)
            return
        row = entry.get("similarity") or []
        self.found.drift.append((datetime.fromisoformat(event.at), event.station))
        own = float(row[-1]) if row else 0.0
        if row and own > 0 and max((abs(float(one)) for one in row[:-1]), default=0.0) <= BORROWS * own:
            self.found.alone.append(event.station)

    def _act(self, event: Event) -> None:
        if not event.actor:
            return
        self.found.actors[event.actor] += 1
        self._list(self.found.acts, (event.at, self._names.sentence(event)))

    @staticmethod
    def _list(rows: list[Any], row: Any) -> None:
        rows.append(row)
        if len(rows) > 2 * LISTED:
            del rows[:LISTED]

    def end(self, model: ReadModel) -> None:
        """Take down the sums that the read model has in the end, and put lists in order."""
        found = self.found
        found.gain = model.gain()
        found.statuses = Counter({name: count for name, count in model.statuses.items() if count > 0})
        found.refused = Counter({code: count for code, count in model.rails_refused.items() if count > 0})
        told = Counter(self._stations[key] for key in self._rewarded)
        last = {state.last for state in model.stations.values()}  # whose reward need not have come yet
        open_ = Counter(self._stations[key] for key in self._stations if key in last and key not in self._rewarded)
        due = {name: count - open_[name] for name, count in self._decided.items()}
        gaps = [Gap(name, count, told[name]) for name, count in due.items() if told[name] < _SHARE * count]
        found.silent = len(gaps)
        found.gaps = sorted(gaps, key=lambda one: one.rewards - one.decisions)[:LISTED]
        for rows in (found.changes, found.back, found.acts, found.drift):
            rows.reverse()
            del rows[LISTED:]


# --- Digests of several weeks, worked out beside those who look ------------------------------------------------------

_KEPT = 12  # weeks
_OLD = 600.0  # seconds after which the present week is worked out anew


class Digests:
    """Digests of an application: each is worked out once, one at a time, and kept.

    Args:
        operations: Whose.
    """

    def __init__(self, operations: Operations) -> None:
        self._operations, self._lock = operations, Lock()
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="kinband digest")
        self._known: OrderedDict[str, tuple[float, Future[Digest]]] = OrderedDict()

    def of(self, week: str, *, seconds: float) -> Digest | None:
        """Return the digest of a week; None where it is not ready in so many seconds: ask again."""
        over = week_named(week) + timedelta(days=7, hours=1) < self._operations.now()
        with self._lock:
            made, future = self._known.get(week, (0.0, None))
            failed = future is not None and future.done() and future.exception() is not None
            stale = not over and future is not None and future.done() and monotonic() - made > _OLD
            if future is None or failed or stale:
                future = self._pool.submit(digest_of, self._operations, week)
                self._known[week] = monotonic(), future
                while len(self._known) > _KEPT:
                    self._known.popitem(last=False)[1][1].cancel()
        with suppress(NotYetError):
            return future.result(seconds)
        return None


# --- As one file -----------------------------------------------------------------------------------------------------


def shown(found: Digest, operations: Operations) -> Mapping[str, Any]:
    """Return what templates show of a digest."""
    names = names_of(operations)
    return {"digest": found, "moves": names.moves, "codes": found.refused.most_common()}


def digest_file(found: Digest, operations: Operations) -> str:
    """Return a digest as one HTML file: to be opened, sent or printed, without anything from elsewhere."""
    made = environment("kinband.service.dashboard")
    made.filters |= {"when": text.time_text, "signed": text.signed, "figure": text.figure, "share": text.share}
    made.globals |= {
        "count": counted, "interval": text.interval, "status_words": text.STATUS_WORDS, "by_words": text.BY_WORDS,
        "station_url": lambda _: "", "with_query": lambda *_, **__: "", "decision_url": lambda _: "",
    }  # fmt: skip
    return made.get_template("digest_file.html").render(
        **shown(found, operations),
        style=paper_sheet(),
        version=__version__,
        name=operations.ledger.name.rsplit("/", 1)[-1],
    )
