"""What no event tells: rewards that no longer come, a clock in doubt, a ledger that takes nothing, a disk nearly full.

An alarm holds from when it is found until it is over. Its id follows from what it is about and since when, so that a
process that was started anew finds the same alarm and not another one.
"""

import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from kinband.errors import KinbandError
from kinband.service.dashboard.text import lasting, time_text
from kinband.service.ledger import LedgerUnavailableError
from kinband.service.notify.cursors import Cursor
from kinband.service.notify.notices import Notice, id_of
from kinband.service.notify.settings import Settings
from kinband.service.operations import Operations

_MANY = 50  # stations that are told of by name when silent; more are one alarm
_MOST = "silent stations"  # which stand for each of them
_FREE = 0.05  # share of a disk below which it is nearly full
_ENOUGH = 1 << 30  # bytes that are enough on any disk
_HEARD = ("outcome", "station")  # kinds of events by which a station is heard of; who joins is given time
_EVERY = timedelta(seconds=15)  # between trials to write


@dataclass(frozen=True)
class Alarm:
    """Something that is wrong for a while.

    Attributes:
        key: What it is about; one alarm a key holds at a time.
        topic: Of `settings.TOPICS`.
        id: The same whenever it is found.
        at: When it was found.
        text: What is wrong.
        over: What is to be said once it is over.
    """

    key: str
    topic: str
    id: str
    at: str
    text: str
    over: str


class Alarms:
    """The alarms of a service, looked for now and then.

    Args:
        operations: What is watched.
        settings: After how long silence is told.

    Attributes:
        present: Those that hold, by key; None before the first look.
    """

    def __init__(self, operations: Operations, settings: Settings) -> None:
        self._operations, self._settings = operations, settings
        self.present: dict[str, Alarm] | None = None
        self._heard: dict[str, datetime] = {}  # by station, when its last reward came, or it joined
        self._began = operations.now()  # the ledger
        self._seq, self._tried = -1, datetime.min
        self._refused: KinbandError | None = None

    def look(self) -> None:
        """Find the alarms that hold now."""
        now, before = self._operations.now(), self.present or {}
        found = {one.key: one for one in (*self._clock(now), *self._store(now), *self._silence(now))}
        self.present = {key: before.get(key, one) for key, one in found.items()}

    def told(self, cursor: Cursor, topics: frozenset[str]) -> tuple[list[Notice], dict[str, str]]:
        """Return what a target does not know yet, alarms that are new and those that are over, and what it knows then.

        What it knows is the id of an alarm, its topic and what is to be said in the end, by what the alarm is about.
        """
        present = self.present
        if present is None:
            return [], dict(cursor.raised)
        wanted = [one for one in present.values() if one.topic in topics]
        fresh = [one for one in wanted if cursor.raised.get(one.key, "").partition(" ")[0] != one.id]
        notices = [Notice(one.id, one.topic, one.at, one.text) for one in fresh]
        at = self._operations.now().isoformat(timespec="seconds")
        for key, said in cursor.raised.items():
            known, topic, over = said.split(" ", 2)
            if key not in present and not (key.startswith("silent ") and _MOST in present):
                notices.append(Notice(id_of(known, "over"), topic, at, over))
        return _together(notices), {one.key: f"{one.id} {one.topic} {one.over}" for one in wanted}

    def _clock(self, now: datetime) -> Iterator[Alarm]:
        if doubt := self._operations.reading().doubt:
            text = f"Nothing changes, since the time is in doubt: {doubt}."
            yield _alarm(
                "clock", "clock", str(self._operations.read_model.clock[1]), now, text, "The clock is right again."
            )

    def _store(self, now: datetime) -> Iterator[Alarm]:
        """Whether the ledger takes writes, and for how long its disk will."""
        if now.replace(tzinfo=None) - self._tried >= _EVERY:
            self._tried, self._refused = now.replace(tzinfo=None), None
            try:
                self._operations.turns.writable.check()
            except KinbandError as error:
                self._refused = error
        refused = self._refused
        if refused is not None and getattr(refused, "code", "") != "busy":
            full = isinstance(refused, LedgerUnavailableError) and refused.code == "full"
            text = f"Nothing is decided: {refused}."
            yield _alarm("store", "store", f"{full}{now:%F %H}", now, text, "The ledger takes events again.")
        file = self._operations.ledger.beside("")
        if file is not None and refused is None:
            try:
                disk = shutil.disk_usage(file.parent)
            except OSError:
                return
            if disk.free < min(_FREE * disk.total, _ENOUGH):
                text = f"The disk under the ledger is nearly full: {disk.free / 1e6:,.0f} MB are left."
                yield _alarm("disk", "store", f"{now:%F}", now, text, "The disk under the ledger has room again.")

    def _silence(self, now: datetime) -> Iterator[Alarm]:
        """Whose rewards no longer come. Stations that were never asked for are none of them."""
        one, everyone = self._settings.station_silent, self._settings.all_silent
        longest = max(one or timedelta(0), everyone or timedelta(0))
        if not longest:
            return
        try:
            self._listen(now - longest)
        except LedgerUnavailableError:
            return
        with self._operations.looking() as read_model:
            asked = [name for name, state in read_model.stations.items() if state.active and state.last is not None]
        heard = {name: max(self._heard.get(name, self._began), self._began) for name in asked}
        last = max(heard.values(), default=now)
        if everyone is not None and now - last > everyone:
            text = f"No reward of any station has come for {lasting(now - last)}, since {time_text(last)} UTC."
            yield _alarm("silence", "silence", last.isoformat(), now, text, "Rewards come again.")
        if one is not None:
            silent = {name: since for name, since in heard.items() if now - since > one}
            yield from _silent(silent, len(heard), one, now)

    def _listen(self, since: datetime) -> None:
        """Take in which rewards have come; at first all that matter are looked up."""
        ledger = self._operations.ledger
        last = ledger.head().seq
        if last < self._seq:  # a ledger that went back is read anew
            self._seq = -1
        if self._seq < 0:
            self._began = next((datetime.fromisoformat(one.at) for one in ledger.read(limit=1)), self._began)
            events = ledger.read(kinds=_HEARD, newest_first=True)
        else:
            events = ledger.read(kinds=_HEARD, after=self._seq)
        for event in events:
            at = datetime.fromisoformat(event.at)
            self._heard[event.station] = max(at, self._heard.get(event.station, at))
            if self._seq < 0 and at < since:
                break
        self._seq = last


def _silent(silent: Mapping[str, datetime], known: int, span: timedelta, now: datetime) -> Iterator[Alarm]:
    if len(silent) > _MANY:
        text = f"{len(silent):,} of {known:,} stations have had no reward for longer than {lasting(span)}."
        yield _alarm(_MOST, "silence", f"{now:%F}", now, text, "Most stations have rewards again.")
        return
    for name, since in silent.items():
        text = f"{name} has had no reward for longer than {lasting(span)}, since {time_text(since)} UTC."
        yield _alarm(f"silent {name}", "silence", since.isoformat(), now, text, f"{name} has rewards again.")


def _alarm(key: str, topic: str, since: str, now: datetime, text: str, over: str) -> Alarm:
    return Alarm(key, topic, id_of(key, since), now.isoformat(timespec="seconds"), text, over)


def _together(notices: Sequence[Notice]) -> list[Notice]:
    """Return notices, those of one topic as one."""
    found: dict[str, list[Notice]] = {}
    for one in notices:
        found.setdefault(one.topic, []).append(one)
    return [
        same[0] if len(same) == 1
        else Notice(id_of(*sorted(one.id for one in same)), topic, same[-1].at, " ".join(one.text for one in same))
        for topic, same in found.items()
    ]  # fmt: skip
