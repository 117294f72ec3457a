"""The books of a fleet: the log of every shard, the engine that works on them, and how the two stay together.

A call on many shards is carried out by the engine, then recorded: on disk first, where the fleet is kept, then in the
logs. When anything fails before that, nothing is recorded, and the engine puts the shards concerned back to their logs
before they are used again. Recording itself is not interrupted half-way, not even by Ctrl-C.
"""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from kinband.controller.events import Asked, Entry
from kinband.errors import BadInputError, NotFoundError
from kinband.fleet.ahead import AheadLog
from kinband.fleet.calls import Call, GetReady, ShowBeliefs
from kinband.fleet.engine import Engine
from kinband.fleet.errors import FleetError
from kinband.fleet.log import ShardLog, split_id
from kinband.similarity.matrix import check_stations


class Books:
    """Keeps the logs and has calls carried out.

    Args:
        logs: One per shard.
        on: The engine.

    Example:
        >>> from kinband import ConfigurationSpace, Controller
        >>> from kinband.fleet.engine import InProcess
        >>> log = ShardLog(0, Controller(ConfigurationSpace(tilt=[2, 4]), ["a"]).settings)
        >>> Books([log], InProcess()).home("a")
        0
    """

    def __init__(self, logs: Sequence[ShardLog], on: Engine) -> None:
        if not logs:
            raise BadInputError("a fleet needs at least one shard")
        self.stations = check_stations([name for log in logs for name in log.settings.stations])
        self.logs = logs
        self._shard_of = {name: log.shard for log in logs for name in log.settings.stations}
        self._on, self._open = on, True
        self._ahead: AheadLog | None = None
        on.open(logs)
        try:
            on.run({log.shard: GetReady() for log in logs})  # what cannot work fails here, not tonight
        except BaseException:
            on.close()
            raise

    def home(self, station: str) -> int:
        """Return the shard of a station."""
        try:
            return self._shard_of[station]
        except (KeyError, TypeError):
            raise NotFoundError(f"unknown station {station!r}: this fleet runs {len(self._shard_of)} others") from None

    def find(self, decision_id: str, *, standing: str = "find") -> tuple[ShardLog, Asked]:
        """Return a decision and the log it stands in; `standing` is the journal's check of it."""
        shard, local = split_id(decision_id)
        if shard >= len(self.logs):
            raise NotFoundError(f"no decision has the id {decision_id!r}: there are {len(self.logs)} shards")
        return self.logs[shard], self.logs[shard].find(local, standing=standing)

    def carry_out(self, calls: Mapping[int, Call]) -> dict[int, list[Any]]:
        """Run calls and record the entries they answer with; all or nothing."""
        self._check_open()
        try:
            answers = self._on.run(calls)
            with ThreadPoolExecutor(1) as scribe:  # Ctrl-C reaches the main thread only, which waits for the scribe
                scribe.submit(self._record, answers).result()
        except BaseException:
            # After Ctrl-C while recording the entries count and the shards have them: putting back changes nothing.
            self._on.forget(calls, learned=any(call.learns for call in calls.values()))
            raise
        return answers

    def beliefs(self, shard: int) -> Mapping[str, Any] | None:
        """Return what a shard believes, as plain arrays."""
        self._check_open()
        shown: Mapping[str, Any] | None = self._on.run({shard: ShowBeliefs()})[shard]
        return shown

    def keep(self, folder: Path) -> None:
        """Write every call to a saved fleet before it is answered."""
        self._ahead = AheadLog(folder)

    def saved(self, folder: Path) -> None:
        """Begin a new log where the fleet is kept, after it was saved there."""
        if self._ahead is not None and self._ahead.folder == folder:
            self.keep(folder)

    def close(self) -> None:
        """Let the engine go; the logs stay."""
        self._open = False
        self._on.close()

    def _record(self, answers: Mapping[int, Sequence[Entry]]) -> None:
        if self._ahead is not None:
            self._ahead.write(answers)
        for shard, entries in answers.items():
            self.logs[shard].add(entries)

    def _check_open(self) -> None:
        if not self._open:
            raise FleetError("this fleet has been closed: load it again to go on")
