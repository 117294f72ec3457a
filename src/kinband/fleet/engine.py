"""Where shards run: the contract of an engine, and the engine inside this process.

An engine carries out calls on shards. It is handed the logs when it is opened, reads them whenever it must build a
shard and never writes them: entries come back as answers, and the fleet adds them once all shards have answered. So a
call on many shards happens as a whole or not at all.

BLAS rounds by the number of its threads. Every engine therefore gives a shard exactly one, and works on several shards
at once instead, which is also faster: there is nothing to wait for inside a product.
"""

import os
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, Protocol

from kinband.errors import BadInputError
from kinband.fleet.calls import Call, Origin, Worker
from kinband.fleet.log import ShardLog


class Engine(Protocol):
    """Runs calls on shards.

    Example:
        >>> engine: Engine = InProcess(threads=1)
        >>> engine.run({})
        {}
    """

    def open(self, logs: Sequence[ShardLog]) -> None:
        """Take up the shards of these logs; each is built when it is first called."""

    def run(self, calls: Mapping[int, Call]) -> dict[int, Any]:
        """Carry out one call on each of some shards and return their answers, or raise if any fails."""

    def forget(self, shards: Iterable[int], *, learned: bool) -> None:
        """Put these shards back to their logs before their next call: what they did does not count.

        Where they have `learned`, that takes learning the log anew; else only their journals are ahead.
        """

    def close(self) -> None:
        """Let go of everything."""


class Standing:
    """How the shards that workers hold stand to their logs.

    Example:
        >>> standing = Standing()
        >>> standing.reached(3)
        >>> standing.origin(3, []) is None
        True
    """

    def __init__(self) -> None:
        self._in_step: set[int] = set()
        self._ahead: set[int] = set()  # asked in vain: more in the journal than there should be, but none the wiser

    def reached(self, shard: int) -> None:
        """Note that a shard has done what its log says, or will say in a moment."""
        self._in_step.add(shard)
        self._ahead.discard(shard)

    def forget(self, shards: Iterable[int], *, learned: bool) -> None:
        """Note that what these shards did last does not count."""
        known = self._in_step.intersection(shards)
        self._in_step -= known
        self._ahead = self._ahead.difference(shards) if learned else self._ahead | known

    def lose(self, shards: Iterable[int]) -> None:
        """Note that nobody holds these shards any more."""
        self.forget(shards, learned=True)

    def origin(self, shard: int, logs: Sequence[ShardLog]) -> Origin | None:
        """Return what must go with a call on a shard."""
        return None if shard in self._in_step else logs[shard].origin(held=shard in self._ahead)


class InProcess:
    """Shards in this process, several at a time.

    Args:
        threads: How many shards are worked on at once; None for one per processor.

    Example:
        >>> from kinband import ConfigurationSpace
        >>> from kinband.fleet import Fleet, shard_stations
        >>> shards = shard_stations([[1, 0.5], [0.5, 1]], stations=["a", "b"], size=1)
        >>> fleet = Fleet(ConfigurationSpace(tilt=[2, 4]), shards, on=InProcess(threads=2))
        >>> sorted(decision.id for decision in fleet.ask_all({"a": {}, "b": {}}).values())
        ['s000-d000001', 's001-d000001']
    """

    def __init__(self, *, threads: int | None = None) -> None:
        if threads is not None and threads < 1:
            raise BadInputError(f"threads must be at least 1, got {threads}")
        self._threads = threads or processors()
        self._worker = Worker()
        self._logs: Sequence[ShardLog] = ()
        self._standing = Standing()

    def open(self, logs: Sequence[ShardLog]) -> None:
        """Take up the shards of these logs."""
        self.close()
        self._logs = logs

    def run(self, calls: Mapping[int, Call]) -> dict[int, Any]:
        """Carry out the calls, as many at once as there are threads."""
        with one_blas_thread():
            if len(calls) == 1 or self._threads == 1:
                return {shard: self._run(shard, call) for shard, call in calls.items()}
            with ThreadPoolExecutor(self._threads, "kinband-fleet") as pool:
                try:
                    return dict(zip(calls, pool.map(self._run, calls, calls.values()), strict=True))
                except BaseException:
                    pool.shutdown(cancel_futures=True)
                    raise

    def forget(self, shards: Iterable[int], *, learned: bool) -> None:
        """Put these shards back to their logs before their next call."""
        self._standing.forget(shards, learned=learned)

    def close(self) -> None:
        """Drop all controllers."""
        self._worker, self._logs, self._standing = Worker(), (), Standing()

    def _run(self, shard: int, call: Call) -> Any:
        answer = self._worker.run(shard, call, self._standing.origin(shard, self._logs))
        self._standing.reached(shard)
        return answer


def processors() -> int:
    """Return how many processors this process may use.

    Example:
        >>> processors() >= 1
        True
    """
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class _Limit:
    """One limit for the whole process, however many fleets ask for it at the same time."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.users = 0
        self.held: Any = None
        self._libraries: Any = None
        self._modules = 0

    def hold(self) -> None:
        """Limit every BLAS there is; looking for them takes milliseconds, so only after something new was imported."""
        from threadpoolctl import ThreadpoolController

        if self._modules != len(sys.modules):
            self._libraries = ThreadpoolController().select(user_api="blas")
            self._modules = len(sys.modules)
        self.held = self._libraries.limit(limits=1)


_LIMIT = _Limit()


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Let BLAS use one thread meanwhile; the first to enter sets the limit, the last to leave lifts it.

    Example:
        >>> with one_blas_thread():
        ...     pass
    """
    with _LIMIT.lock:
        if not _LIMIT.users:
            _LIMIT.hold()
        _LIMIT.users += 1
    try:
        yield
    finally:
        with _LIMIT.lock:
            _LIMIT.users -= 1
            if not _LIMIT.users:
                _LIMIT.held.restore_original_limits()
