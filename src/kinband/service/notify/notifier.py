"""Tells targets what happens, beside the service: one thread a target, none of which anybody ever waits for.

There is no queue: what is still to be told is in the ledger, behind the cursor of its target. A target that is slow,
broken or away holds up itself alone, and is told everything once it is back, many notices to a message.
"""

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from time import monotonic
from types import TracebackType
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from kinband.errors import KinbandError
from kinband.service.dashboard.text import Space
from kinband.service.digest import digest_of
from kinband.service.ledger import LedgerUnavailableError
from kinband.service.ledger.alone import TELLS, OnlyOne
from kinband.service.notify.alarms import Alarms
from kinband.service.notify.cursors import Cursor, Cursors
from kinband.service.notify.notices import MOST_NOTICES, READ, Message, Notice, id_of, notices_of
from kinband.service.notify.sending import NotTakenError, send
from kinband.service.notify.settings import Settings, Target
from kinband.service.operations import Operations

_LOG = logging.getLogger("kinband.notify")

_POLL = 1.0  # seconds between looks
_LONGEST = 300.0  # seconds between two tries at most
_GIVE_UP = 86_400.0  # seconds after which a message goes that its target refuses
_BEHIND = 1000  # events that a target has nothing to hear of, after which its cursor is written down
_HOUR = 3600.0
_HELD = 10.0  # seconds between looks while messages are held back


@dataclass
class Figures:
    """What became of messages to a target.

    Attributes:
        sent: Messages that it took.
        failed: Tries that it did not.
        given_up: Messages that it refused for a day.
        since: When the first try failed of the message under way, by the stopwatch; None where none has.
        why: What it said last; empty where that was well.
    """

    sent: int = 0
    failed: int = 0
    given_up: int = 0
    since: float | None = None
    why: str = ""


class Notifier:
    """Tells the targets of a file what happens.

    Args:
        operations: What happens.
        settings: Whom to tell what.
        poll: Seconds between looks.

    Attributes:
        figures: What became of messages, by target.
    """

    def __init__(self, operations: Operations, settings: Settings, *, poll: float = _POLL) -> None:
        self._operations, self.settings, self._poll = operations, settings, poll
        self._alarms = Alarms(operations, settings)
        self._end = threading.Event()
        self._tells = False
        self.figures = {target.name: Figures() for target in settings.targets}
        self._threads = [threading.Thread(target=self._watch, name="kinband notify", daemon=True)]
        for target in settings.targets:
            told = threading.Thread(target=self._tell, args=(target,), name=f"kinband to {target.name}", daemon=True)
            self._threads.append(told)

    def start(self) -> None:
        """Begin."""
        for thread in self._threads:
            thread.start()

    def end(self, seconds: float = 5.0) -> None:
        """Leave off; a message under way is waited for a little, and else sent again by the next process."""
        self._end.set()
        until = monotonic() + seconds
        for thread in self._threads:
            if thread.is_alive():
                thread.join(max(until - monotonic(), 0.0))

    def _watch(self) -> None:
        """Be the process that tells, if no other is, and look for alarms."""
        lock = OnlyOne(self._operations.ledger, *TELLS)
        while not self._end.is_set():
            try:
                self._tells = lock.take()
            except LedgerUnavailableError:
                pass  # that the database is away is what is to be told by who told before
            except KinbandError as error:
                _LOG.warning("nobody can be told: %s", error)
            with _logged():
                if self._tells:
                    self._operations.try_refresh()
                    self._alarms.look()
            self._end.wait(self._poll)
        self._tells = False
        lock.give_up()

    def _tell(self, target: Target) -> None:
        follower = Follower(target, self._operations, self._alarms, self.settings, self.figures[target.name])
        while not self._end.is_set():
            wait = self._poll
            if self._tells:
                with _logged():
                    wait = follower.step(self._poll)
            else:
                follower.forget()
            self._end.wait(wait)


@contextmanager
def _logged() -> Iterator[None]:
    """Whatever goes wrong is a line of the log; the next look is another try."""
    try:
        yield
    except LedgerUnavailableError:
        pass
    except Exception as error:  # its text may tell more than a log should
        _LOG.error("nobody could be told: %s, line %s", type(error).__name__, _line(error.__traceback__))


def _line(trace: TracebackType | None) -> str:
    """Return where an error came from."""
    found = ""
    while trace is not None:
        found, trace = f"{trace.tb_lineno} of {Path(trace.tb_frame.f_code.co_filename).name}", trace.tb_next
    return found


class Follower:
    """Tells one target, step by step.

    Args:
        target: Whom.
        operations: What happens.
        alarms: What no event tells.
        settings: Of all of it.
        figures: Where it is noted what became of messages.
        stopwatch: What measures how much time has passed.
    """

    def __init__(
        self,
        target: Target,
        operations: Operations,
        alarms: Alarms,
        settings: Settings,
        figures: Figures,
        *,
        stopwatch: Callable[[], float] = monotonic,
    ) -> None:
        self._target, self._operations, self._alarms = target, operations, alarms
        self._settings, self._figures, self._stopwatch = settings, figures, stopwatch
        self._cursors: Cursors | None = None
        self._cursor: Cursor | None = None
        self._written = 0  # up to where the cursor is on record
        self._sent = deque[float]()  # when messages were sent in the last hour
        self._held: datetime | None = None  # since when messages are held back
        self._tries, self._after, self._unsaved = 0, 0.0, False

    def forget(self) -> None:
        """Have the cursor read anew: another process tells now."""
        self._cursor, self._unsaved, self._tries = None, False, 0

    def step(self, poll: float) -> float:
        """Tell what there is to tell, and return after how many seconds to come again."""
        try:
            cursor = self._load()
            if cursor.sending is None:
                found = self._next(cursor)
                if found is None:
                    return poll if self._held is None else max(poll, _HELD)
                cursor.sending = found
                self._save(cursor)
        except LedgerUnavailableError:
            return self._without_ledger(poll)
        return self._send(cursor, poll)

    def _load(self) -> Cursor:
        if self._cursors is None:
            self._cursors = Cursors(self._operations.ledger)
        if self._unsaved and self._cursor is not None:
            self._save(self._cursor)
        if self._cursor is None:
            self._cursor = self._cursors.load(self._target.name)
            self._written = self._cursor.seq
        return self._cursor

    def _save(self, cursor: Cursor) -> None:
        if self._cursors is not None:
            self._cursors.save(self._target.name, cursor)
            self._unsaved, self._written = False, cursor.seq

    def _next(self, cursor: Cursor) -> dict[str, Any] | None:
        """Return the next message, the event and the alarms that it leads to; None where there is none, or not now."""
        notices, upto = self._notices(cursor)
        alarms, raised = self._alarms.told(cursor, self._target.topics)
        week = self._settings.week_over(self._operations.now())
        cursor.digest = cursor.digest or week  # one that is new has none of the past
        if "digest" in self._target.topics and week > cursor.digest:
            notices.append(self._digest(week))
        notices += alarms
        if not notices:
            cursor.seq = upto
            if upto - self._written > _BEHIND:
                self._save(cursor)
            return None
        now = datetime.now(UTC)
        if not self._may():
            self._held = self._held or now
            return None
        held = "" if self._held is None else (
            f"Held back since {self._held:%F %H:%M} UTC by the limit of {self._target.per_hour} messages an hour."
        )  # fmt: skip
        self._held = None
        message = Message.of(self._target.name, notices, at=now, held=held, link=self._settings.link)
        return {"message": message.stored(), "upto": upto, "raised": raised, "digest": week}

    def _notices(self, cursor: Cursor) -> tuple[list[Notice], int]:
        ledger, topics = self._operations.ledger, self._target.topics
        upto = ledger.head().seq
        if upto < cursor.seq:  # the ledger was restored from a backup
            cursor.seq = upto
        events = ledger.read(after=cursor.seq, before=upto + 1, kinds=READ) if upto > cursor.seq else iter(())
        space = space_of(self._operations)
        told: Iterator[Notice] = (one for one in notices_of(events, space) if one.topic in topics)
        notices = list(islice(told, MOST_NOTICES + 1))
        if len(notices) > MOST_NOTICES:  # what one transaction recorded is told together
            last = notices[MOST_NOTICES].seq
            notices = [one for one in notices if one.seq < last] or notices
            upto = notices[-1].seq
        return notices, upto

    def _digest(self, week: str) -> Notice:
        """Return the notice of a week that is over."""
        found = digest_of(self._operations, week)
        where = f" {self._settings.link}/digest?week={week}" if self._settings.link else ""
        text = f"Week {week}: {' '.join(found.words)}{where}"
        return Notice(id_of("digest", week), "digest", self._operations.now().isoformat(timespec="seconds"), text)

    def _may(self) -> bool:
        """Whether another message may go out this hour."""
        now = self._stopwatch()
        while self._sent and now - self._sent[0] >= _HOUR:
            self._sent.popleft()
        return len(self._sent) < self._target.per_hour

    def _send(self, cursor: Cursor, poll: float) -> float:
        sending = cursor.sending or {}
        if self._tries == 0:
            self._sent.append(self._stopwatch())
        if not self._try(Message.read(sending["message"])):
            return self._again()
        cursor.seq, cursor.raised, cursor.sending = sending["upto"], sending["raised"], None
        cursor.digest = sending.get("digest", cursor.digest)
        self._unsaved = True
        self._load()
        return 0.0 if self._may() else poll

    def _without_ledger(self, poll: float) -> float:
        """Tell the alarms alone while the database is away: nothing can be written down, so they may be told twice."""
        known = self._cursor or Cursor(0)
        notices, raised = self._alarms.told(known, self._target.topics)
        if known.sending is not None or not notices or not self._may():
            return poll
        if self._tries == 0:
            self._sent.append(self._stopwatch())
        message = Message.of(self._target.name, notices, at=datetime.now(UTC), link=self._settings.link)
        if not self._try(message):
            return self._again()
        known.raised, self._unsaved = raised, self._cursor is not None
        return poll

    def _try(self, message: Message) -> bool:
        """Send a message; whether that is done with, taken or given up."""
        figures = self._figures
        try:
            send(message, self._target, now=datetime.now(UTC))
        except NotTakenError as error:
            figures.failed += 1
            self._tries += 1
            figures.since = self._stopwatch() if figures.since is None else figures.since
            if str(error) != figures.why or self._tries % 100 == 0:
                _LOG.warning("%s was not told (try %d): %s", self._target.name, self._tries, error)
            figures.why, self._after = str(error), error.after
            if not error.refused or self._stopwatch() - figures.since < _GIVE_UP:
                return False
            _LOG.error("%s is not told message %s, which it refuses: %s", self._target.name, message.id, error)
            figures.given_up += 1
        else:
            figures.sent += 1
            if figures.why:
                _LOG.info("%s is told again", self._target.name)
        figures.why, figures.since, self._tries = "", None, 0
        return True

    def _again(self) -> float:
        """Return after how many seconds to try again: twice as many each time."""
        return max(min(2.0 ** min(self._tries - 1, 10), _LONGEST), self._after)


def space_of(operations: Operations) -> Space:
    """Return configurations by arm."""
    space = operations.space
    return lambda arm: space[arm] if 0 <= arm < len(space) else None


def trial_message(target: Target, *, at: datetime, link: str = "") -> Message:
    """Return a message that says that it is a test."""
    text = "This is a test: messages from kinband arrive here."
    notice = Notice(id_of("test", at.isoformat()), "test", at.isoformat(timespec="seconds"), text)
    return Message.of(target.name, [notice], at=at, link=link)


class Deliveries(Collector):
    """What Prometheus sees of a notifier.

    Args:
        notifier: Which.
    """

    def __init__(self, notifier: Notifier) -> None:
        self._notifier = notifier

    def collect(self) -> Iterator[Metric]:
        """Give every figure."""
        sent = CounterMetricFamily("kinband_messages_sent", "Messages that a target took.", labels=["target"])
        failed = CounterMetricFamily("kinband_messages_failed", "Tries that a target did not take.", labels=["target"])
        lost = CounterMetricFamily(
            "kinband_messages_given_up", "Messages that a target refused for a day.", labels=["target"]
        )
        late = GaugeMetricFamily(
            "kinband_messages_failing_seconds", "For how long a target has not taken its message.", labels=["target"]
        )
        for name, figures in self._notifier.figures.items():
            sent.add_metric([name], figures.sent)
            failed.add_metric([name], figures.failed)
            lost.add_metric([name], figures.given_up)
            late.add_metric([name], 0.0 if figures.since is None else monotonic() - figures.since)
        yield from (sent, failed, lost, late)
