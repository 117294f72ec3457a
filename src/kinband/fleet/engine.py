"""A shard of a fleet: what it is called with, what it keeps, and the controller inside."""

import json
import os
import re
import sys
import threading
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Protocol

from numpy.typing import ArrayLike

from kinband.controller import Controller, Settings
from kinband.controller.asking import State
from kinband.controller.events import (
    Asked,
    CalledOff,
    Corrected,
    Entry,
    Journal,
    Told,
    check_entry,
    entry_from_dict,
    entry_to_dict,
)
from kinband.errors import BadInputError, KinbandError, NotFoundError, SavedStateError
from kinband.policies.base import KeepsState
from kinband.records import Decision
from kinband.space import Allowed

# --- What can go wrong with a fleet beyond what can go wrong with a controller --------------------------------------


class FleetError(KinbandError, RuntimeError):
    """The machinery under a fleet failed (workers, cluster, disk); what is on record is as it was before the call.

    Example:
        >>> from kinband.fleet.on_ray import reach
        >>> reach("127.0.0.1:1", timeout=2.0)
        Traceback (most recent call last):
            ...
        kinband.fleet.engine.FleetError: no Ray cluster answers at 127.0.0.1:1 (...): ...
    """


# --- What a shard can be asked to do, and the shards that a worker holds --------------------------------------------
#
# A call is a frozen record that is applied to a controller and answers with the journal entries it made, so that
# whoever keeps the log can add them there. Calls, answers and origins are plain values: they travel between machines.
# A worker holds the controllers of some shards; a shard that it does not hold, or that has fallen out of step with its
# log, comes with its origin, the settings and the log it is rebuilt from, which gives the same beliefs.


class Call(Protocol):
    """Something to be done by one shard.

    Attributes:
        learns: Whether it changes what the shard believes.
    """

    learns: ClassVar[bool]

    def apply(self, controller: Controller) -> Any:
        """Do it, and return what the caller needs."""


@dataclass(frozen=True, eq=False)
class AskOne:
    """Decide for one station (Algorithm 2)."""

    learns: ClassVar[bool] = False
    station: str
    state: State | None
    contexts: ArrayLike | None
    allowed: Allowed

    def apply(self, controller: Controller) -> list[Entry]:
        """Return the decision as it was recorded."""
        decision = controller.ask(self.station, self.state, contexts=self.contexts, allowed=self.allowed)
        return [controller.journal.find(decision.id)]


@dataclass(frozen=True, eq=False)
class AskRound:
    """Decide for many stations in one round (Algorithm 1)."""

    learns: ClassVar[bool] = False
    states: Mapping[str, State] | None
    contexts: Mapping[str, ArrayLike] | None
    allowed: Mapping[str, Allowed] | None

    def apply(self, controller: Controller) -> list[Entry]:
        """Return the decisions as they were recorded, in the order of the stations asked for."""
        decisions = controller.ask_all(self.states, contexts=self.contexts, allowed=self.allowed)
        return [controller.journal.find(decision.id) for decision in decisions.values()]


@dataclass(frozen=True)
class TellMany:
    """Report what decisions earned, in this order."""

    learns: ClassVar[bool] = True
    rewards: tuple[Told, ...]

    def apply(self, controller: Controller) -> list[Entry]:
        """Return the rewards."""
        for told in self.rewards:
            controller.tell(told.id, told.reward, noise=told.noise)
        return list(self.rewards)


@dataclass(frozen=True)
class Correct:
    """Replace a reward."""

    learns: ClassVar[bool] = True
    corrected: Corrected

    def apply(self, controller: Controller) -> list[Entry]:
        """Return the correction."""
        controller.correct(self.corrected.id, self.corrected.reward)
        return [self.corrected]


@dataclass(frozen=True)
class CallOff:
    """Stop waiting for a reward."""

    learns: ClassVar[bool] = False
    called_off: CalledOff

    def apply(self, controller: Controller) -> list[Entry]:
        """Return the entry."""
        controller.call_off(self.called_off.id)
        return [self.called_off]


@dataclass(frozen=True)
class GetReady:
    """Do nothing but be there: a shard is built when it is first called."""

    learns: ClassVar[bool] = False

    def apply(self, controller: Controller) -> list[Entry]:
        """Return nothing."""
        del controller
        return []


@dataclass(frozen=True)
class ShowBeliefs:
    """Return the beliefs as plain arrays, None where the policy cannot."""

    learns: ClassVar[bool] = False

    def apply(self, controller: Controller) -> dict[str, Any] | None:
        """Return the beliefs."""
        policy = controller.policy
        return policy.state() if isinstance(policy, KeepsState) else None


@dataclass(frozen=True, eq=False)
class Origin:
    """What a shard is built from.

    Attributes:
        settings: Its fixed part.
        entries: Its log.
        beliefs: Stored beliefs that spare learning the first entries anew; None if there are none.
        covered: How many entries the stored beliefs have learned.
        held: Whether the worker's own beliefs about this shard still hold; only its log is then put back.
    """

    settings: Settings
    entries: tuple[Entry, ...]
    beliefs: Mapping[str, Any] | None = None
    covered: int = 0
    held: bool = False

    def controller(self) -> Controller:
        """Return the controller that has learned the log, the same whichever way it is built."""
        later = self.entries[self.covered :]
        if self.beliefs is None or any(isinstance(entry, Corrected) for entry in later):
            return Controller.resume(self.settings, self.entries)
        controller = Controller.resume(self.settings, self.entries, beliefs=self.beliefs)
        if isinstance(controller.policy, KeepsState):  # else everything has been learned anew
            for entry in later:
                if isinstance(entry, Told):
                    controller.policy.learn(controller.journal.observation(entry))
        return controller


class Worker:
    """Holds the controllers of some shards and carries out calls on them.

    Example:
        >>> from kinband import ConfigurationSpace, Controller
        >>> origin = Origin(Controller(ConfigurationSpace(tilt=[2, 4]), ["a"]).settings, ())
        >>> worker = Worker()
        >>> worker.run(0, AskOne("a", None, None, None), origin)[0].decision.id
        'd000001'
    """

    def __init__(self) -> None:
        self._controllers: dict[int, Controller] = {}

    def run(self, shard: int, call: Call, origin: Origin | None) -> Any:
        """Carry out a call on a shard, built from its origin first where one is given."""
        if origin is not None:
            self._controllers[shard] = self._with_beliefs(shard, origin).controller()
        return call.apply(self._controllers[shard])

    def _with_beliefs(self, shard: int, origin: Origin) -> Origin:
        if not origin.held:
            return origin
        beliefs = ShowBeliefs().apply(self._controllers[shard])
        return replace(origin, beliefs=beliefs, covered=len(origin.entries))

    def answer(self, shard: int, call: Call, origin: Origin | None) -> Any:
        """Like `run`, with an error of ours as the answer: it then arrives on another machine as it is."""
        try:
            return self.run(shard, call, origin)
        except KinbandError as error:
            return error


# --- The log of every shard, kept by whoever drives the fleet: the truth that shards are rebuilt from ---------------
#
# A decision or a reward counts once it stands here, and not before. Ids inside a shard are the controller's own
# ("d000012"); outside they carry the shard ("s003-d000012"), which makes them unique over the fleet. They are counted,
# so that a call that is repeated gives the same ids and with them the same random numbers and decisions.

_ID = re.compile(r"s(\d{3,})-(d\d{6,})")


def fleet_id(shard: int, local: str) -> str:
    """Return the id that a decision of a shard has in the fleet.

    Example:
        >>> fleet_id(3, "d000012")
        's003-d000012'
    """
    return f"s{shard:03d}-{local}"


def split_id(decision_id: str) -> tuple[int, str]:
    """Return the shard of a decision and its id there.

    Example:
        >>> split_id("s003-d000012")
        (3, 'd000012')
    """
    found = _ID.fullmatch(decision_id) if isinstance(decision_id, str) else None
    if found is None:
        raise NotFoundError(f"no decision has the id {decision_id!r}: ids of a fleet look like 's003-d000012'")
    return int(found[1]), found[2]


class ShardLog:
    """Settings and journal of one shard.

    Args:
        shard: Its number.
        settings: Its fixed part.
        entries: Its log so far.
        beliefs: Stored beliefs to begin with, and how many entries they have learned.
    """

    def __init__(
        self,
        shard: int,
        settings: Settings,
        *,
        entries: Iterable[Entry] = (),
        beliefs: Mapping[str, Any] | None = None,
        covered: int = 0,
    ) -> None:
        self.shard, self.settings = shard, settings
        self.journal = Journal()
        self._beliefs, self._covered = beliefs, covered
        self.add(entries)

    def add(self, entries: Iterable[Entry]) -> None:
        """Append entries that have happened."""
        for entry in entries:
            self.journal.add(entry)

    def origin(self, *, held: bool = False) -> Origin:
        """Return what the shard is built from; stored beliefs are handed out once, they grow old."""
        if held:
            return Origin(self.settings, tuple(self.journal), held=True)
        origin = Origin(self.settings, tuple(self.journal), self._beliefs, self._covered)
        self._beliefs, self._covered = None, 0
        return origin

    def find(self, local: str, *, standing: str = "find") -> Asked:
        """Return a decision; `standing` is the journal's check: "find", "find_untold" or "find_told"."""
        try:
            getattr(self.journal, standing)(local)
            return self.journal.find(local)
        except KinbandError as error:  # the same sentence, with the id as the caller knows it
            raise type(error)(str(error).replace(local, fleet_id(self.shard, local))) from None

    def named(self, asked: Asked) -> Decision:
        """Return a recorded decision under its id in the fleet."""
        return replace(asked.decision, id=fleet_id(self.shard, asked.decision.id))


# --- The log that is written ahead: every call of a fleet is on disk before its caller gets an answer ---------------
#
# `ahead.log` stands beside the saved fleet and holds what happened since, one call a line: a checksum, then JSON with
# the entries of every shard concerned. A line that a crash cut short belongs to a call that never returned, and is
# dropped; damage anywhere else is refused. Saving the fleet begins a new one.

_NAME = "ahead.log"


class AheadLog:
    r"""Writes what happens to a saved fleet.

    Args:
        folder: The saved fleet; a log that is there is continued.

    Example:
        >>> import tempfile
        >>> from kinband.controller.events import CalledOff
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     AheadLog(Path(folder)).write({3: [CalledOff("d000012")]})
        ...     (Path(folder) / "ahead.log").read_text().partition(" ")[2]
        '{"3": [{"entry": "called-off", "id": "d000012"}]}\n'
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._file = folder / _NAME
        self._size = sum(len(line) for line in _lines(self._file))  # up to here every line is whole

    def write(self, answers: Mapping[int, Sequence[Entry]]) -> None:
        """Append the entries of a call, by shard, whole and for good, or not at all."""
        entries = {str(shard): [entry_to_dict(entry) for entry in new] for shard, new in answers.items()}
        line = _line(json.dumps(entries, allow_nan=False))
        try:
            with self._file.open("ab") as opened:
                opened.truncate(self._size)  # takes away what a crash left behind
                opened.write(line)
                opened.flush()
                os.fsync(opened.fileno())
        except OSError as error:
            with suppress(OSError):
                os.truncate(self._file, self._size)
            raise FleetError(
                f"{self._file} could not be written ({error.strerror or error}): nothing of the call was recorded; "
                "make room and call again"
            ) from error
        self._size += len(line)


def replay_ahead(folder: Path, logs: Sequence[ShardLog]) -> None:
    """Add what was written ahead to the logs of the shards, or say why it cannot have happened."""
    file = folder / _NAME
    configurations = [dict(enumerate(log.settings.encoder.space)) for log in logs] if file.is_file() else []
    for number, line in enumerate(_lines(file), start=1):
        text = line.decode(errors="replace")
        try:
            if _line(text[9:-1]) != line:
                raise ValueError("its checksum differs")
            for shard, entries in json.loads(text[9:]).items():
                _add(logs[int(shard)], entries, configurations[int(shard)])
        except (KinbandError, AttributeError, KeyError, IndexError, TypeError, ValueError) as error:
            raise SavedStateError(f"line {number} of {file} is damaged or out of place: {error}") from error


def _add(log: ShardLog, entries: Sequence[Mapping[str, Any]], configurations: Mapping[int, Mapping[str, Any]]) -> None:
    for values in entries:
        entry = entry_from_dict(values, configurations)
        check_entry(entry, log.journal, log.settings)
        log.add([entry])


def _line(text: str) -> bytes:
    body = text.encode()
    return f"{zlib.crc32(body):08x} ".encode() + body + b"\n"


def _lines(file: Path) -> Iterator[bytes]:
    """Return the lines that end, one by one; the last may have been cut short."""
    if not file.is_file():
        return
    with file.open("rb") as opened:
        for line in opened:
            if line.endswith(b"\n"):
                yield line


# --- Where shards run: the contract of an engine, and the engine inside this process --------------------------------
#
# An engine carries out calls on shards. It is handed the logs when it is opened, reads them whenever it must build a
# shard and never writes them: entries come back as answers, and the fleet adds them once all shards have answered. So a
# call on many shards happens as a whole or not at all.
#
# BLAS rounds by the number of its threads. Every engine therefore gives a shard exactly one, and works on several
# shards at once instead, which is also faster: there is nothing to wait for inside a product.


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
