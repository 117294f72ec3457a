"""A fleet on Ray."""

import importlib
import logging
import os
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from kinband.errors import BadInputError, KinbandError
from kinband.fleet.engine import Call, FleetError, Origin, ShardLog, Standing, Worker, one_blas_thread, processors
from kinband.version import __version__

# --- Joining a Ray cluster: one that runs, or one started on this machine; and a clear sentence when there is none
#
# Ray waits for minutes for a cluster that is not there and may end the process in the end. So its address is tried
# first: the port by a plain connection, then the cluster by a process of its own that can be given up. Ray starts
# quietly: no dashboard, no usage statistics, nothing printed.

_QUIET = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}
_STORE = 512 * 2**20  # bytes for results in flight, where we start the cluster; Ray would take a third of the memory
_TRY = """
import logging, sys, ray
ray.init(address=sys.argv[1], logging_level=logging.CRITICAL, log_to_driver=False)
ray.shutdown()
"""


def ray_module() -> Any:
    """Return the package `ray`, or say how to get it."""
    for name, value in _QUIET.items():
        os.environ.setdefault(name, value)
    try:
        return importlib.import_module("ray")
    except ImportError as error:
        raise FleetError(
            "Ray is not installed",
            hint="pip install 'kinband[ray]', or run the fleet in this process",
            code="no_ray",
        ) from error


def join(address: str | None, *, processors: int, timeout: float = 15.0) -> Callable[[], None]:
    """Connect this process to a cluster and return what disconnects it again.

    A process that is connected already stays where it is, and stays connected.

    Args:
        address: "auto" for the cluster that this machine belongs to, "host:port" for a named one, None to start
            one here.
        processors: How many processors a cluster started here has.
        timeout: How many seconds to wait for an answer.
    """
    ray = ray_module()
    if ray.is_initialized():
        return _stay
    quiet = {"logging_level": logging.ERROR, "log_to_driver": False}
    if address is None:
        own = {"num_cpus": processors, "include_dashboard": False, "object_store_memory": _STORE}
        _init(ray, "local", **own, **quiet)
    else:
        reach(address, timeout=timeout)
        _init(ray, address, **quiet)
    return _leave


def reach(address: str, *, timeout: float) -> None:
    """Return if a cluster answers at the address, or say within seconds that none does.

    Example:
        >>> reach("ray://head:10001", timeout=2.0)
        Traceback (most recent call last):
            ...
        kinband.errors.BadInputError: address must be 'auto' or 'host:port', got 'ray://head:10001': ...
    """
    if address != "auto":
        host, port = _split(address)
        try:
            socket.create_connection((host, port), timeout=min(timeout, 5.0)).close()
        except OSError as error:
            raise _unreachable(address, str(error)) from error
    ray_module()  # says how to install it, and makes the attempt below quiet
    command = [sys.executable, "-W", "ignore", "-c", _TRY, address]
    try:
        tried = subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)  # noqa: S603
    except subprocess.TimeoutExpired as error:
        raise _unreachable(address, f"no answer within {timeout:g} s") from error
    if tried.returncode:
        lines = [line for line in tried.stderr.splitlines() if line.strip()]
        raise _unreachable(address, lines[-1] if lines else f"exit code {tried.returncode}")


def _init(ray: Any, address: str, **options: Any) -> None:
    try:
        ray.init(address=address, **options)
    except (OSError, RuntimeError, ValueError) as error:
        raise _unreachable(address, str(error).splitlines()[0]) from error


def _split(address: str) -> tuple[str, int]:
    host, colon, port = address.rpartition(":")
    if not colon or not host or "/" in address or not port.isdecimal() or not 0 < int(port) < 65536:
        raise BadInputError(
            f"address must be 'auto' or 'host:port', got {address!r}: run this on a machine of the cluster"
        )
    return host.strip("[]"), int(port)


def _unreachable(address: str, why: str) -> FleetError:
    return FleetError(
        f"no Ray cluster answers at {address} ({why})",
        hint="start one with `ray start --head`, join it from this machine with `ray start --address=host:port`, or "
        "run the fleet in this process",
        code="no_cluster",
        argument="address",
        value=address,
    )


def _stay() -> None:
    """Leave the cluster to whoever joined it."""


def _leave() -> None:
    ray_module().shutdown()


# --- Shards on a Ray cluster: workers hold shards, and what dies is rebuilt from the log ----------------------------
#
# A worker is an actor, a process that Ray places on some machine; it holds one shard, or several where there are more
# shards than processors. Ray never restarts a worker or repeats a call behind our back. When a worker dies in the
# middle of a call, another takes its place, and the shards that have not answered yet are rebuilt there from their
# logs, which do not contain the call; it is repeated with the same ids, and so the same random numbers and decisions.
# Shards that had answered keep their answers and are rebuilt when they are next called. Nothing is lost or done twice,
# because only the log counts and only the driver writes it.
#
# Ray moves Python objects between its processes by pickle: run it on a network you trust. Files are never pickled.

_DEATHS = 3  # of one worker in one call, before we stop trying


class OnRay:
    """Shards on a Ray cluster.

    Args:
        address: "auto" or "host:port" of a cluster that runs; None starts one on this machine.
        workers: How many processes hold shards; None for one per free processor, and no more than shards.
        patience: How many seconds to wait for the cluster to answer and to place the workers.

    Example:
        >>> OnRay("head:6379", workers=0)
        Traceback (most recent call last):
            ...
        kinband.errors.BadInputError: workers must be at least 1, got 0
    """

    def __init__(self, address: str | None = None, *, workers: int | None = None, patience: float = 60.0) -> None:
        if workers is not None and workers < 1:
            raise BadInputError(f"workers must be at least 1, got {workers}")
        self._address, self._wanted, self._patience = address, workers, patience
        self._logs: Sequence[ShardLog] = ()
        self._standing = Standing()
        self._workers: list[Any] = []
        self._leave: Any = None

    def open(self, logs: Sequence[ShardLog]) -> None:
        """Join the cluster and place the workers."""
        self.close()
        self._leave = join(self._address, processors=self._wanted or processors())
        try:
            self._workers = self._hire(min(self._wanted or _free_processors(), len(logs)))
        except BaseException:
            self.close()
            raise
        self._logs = logs

    def run(self, calls: Mapping[int, Call]) -> dict[int, Any]:
        """Carry out the calls, all at once; where a worker dies, again on another."""
        if not ray_module().is_initialized():  # Ray would start a cluster of its own, without our workers
            raise FleetError("this process is no longer connected to its Ray cluster: load the fleet again to go on")
        answers: dict[int, Any] = {}
        deaths: Counter[int] = Counter()
        while waiting := {shard: call for shard, call in calls.items() if shard not in answers}:
            self._fill_places()
            for worker, error in self._attempt(waiting, answers).items():
                self._dismiss(worker)
                deaths[worker] += 1
                if deaths[worker] == _DEATHS:
                    raise self._gave_up(worker, error)
        return {shard: answers[shard] for shard in calls}

    def forget(self, shards: Iterable[int], *, learned: bool) -> None:
        """Put these shards back to their logs before their next call."""
        self._standing.forget(shards, learned=learned)

    def close(self) -> None:
        """End the workers and leave the cluster; one that was started here ends too."""
        for worker in self._workers:
            if worker is not None and ray_module().is_initialized():
                ray_module().kill(worker)
        self._workers, self._logs, self._standing = [], (), Standing()
        if self._leave is not None:
            self._leave()
            self._leave = None

    def _attempt(self, calls: Mapping[int, Call], answers: dict[int, Any]) -> dict[int, Exception]:
        """Run calls, gather answers, and return the workers that died with what Ray says of it."""
        exceptions = ray_module().exceptions
        sent = [(shard, self._send(shard, call)) for shard, call in calls.items()]
        lost: dict[int, Exception] = {}
        for shard, pending in sent:
            try:
                answers[shard] = _received(pending)
                self._standing.reached(shard)
            except exceptions.RayTaskError as error:  # a bug in a policy, say: as it would be in this process
                raise error.cause from error
            except exceptions.RayError as error:
                lost[self._home(shard)] = error
        return lost

    def _send(self, shard: int, call: Call) -> Any:
        origin = self._standing.origin(shard, self._logs)
        return self._workers[self._home(shard)].answer.remote(shard, call, origin)

    def _home(self, shard: int) -> int:
        return shard % len(self._workers)

    def _shards_of(self, worker: int) -> list[int]:
        return [shard for shard in range(len(self._logs)) if self._home(shard) == worker]

    def _dismiss(self, worker: int) -> None:
        """Make sure that a worker is gone, and leave its place empty."""
        ray_module().kill(self._workers[worker])
        self._standing.lose(self._shards_of(worker))
        self._workers[worker] = None

    def _fill_places(self) -> None:
        """Put workers into empty places; they claim no processor, since that of the dead may be gone for good."""
        empty = [place for place, worker in enumerate(self._workers) if worker is None]
        for place, worker in zip(empty, self._hire(len(empty), claim=0), strict=True):
            self._workers[place] = worker

    def _hire(self, count: int, *, claim: int = 1) -> list[Any]:
        """Return workers that have reported for duty."""
        ray, until = ray_module(), time.monotonic() + self._patience
        actor = ray.remote(num_cpus=claim, max_restarts=0, max_task_retries=0, scheduling_strategy="SPREAD")(RayWorker)
        ready: list[Any] = []
        hired: list[Any] = [actor.remote() for _ in range(count)]
        try:
            while len(ready) < count:
                if self._reports(hired[len(ready)], until):
                    ready.append(hired[len(ready)])
                else:  # Ray had sent it to a machine that has just died
                    hired[len(ready)] = actor.remote()
        except BaseException:
            for worker in hired:
                ray.kill(worker)
            raise
        return ready

    def _reports(self, worker: Any, until: float) -> bool:
        """Wait for a worker's report; False if it died on its way and there is time to try another."""
        ray = ray_module()
        try:
            _check_same(ray.get(worker.about.remote(), timeout=max(0.0, until - time.monotonic())))
        except ray.exceptions.GetTimeoutError as error:
            raise FleetError(
                f"the cluster had no room within {self._patience:g} s ({_free_processors(0)} processors are free): "
                "give fewer workers=, or wait for other jobs"
            ) from error
        except ray.exceptions.RayError as error:
            if getattr(error, "actor_init_failed", False) or time.monotonic() > until:
                raise FleetError(
                    f"a worker could not start ({_sentence(error)}): is kinband installed there?"
                ) from error
            return False
        return True

    def _gave_up(self, worker: int, error: Exception) -> FleetError:
        shards = self._shards_of(worker)
        named = ", ".join(f"s{shard:03d}" for shard in shards[:5]) + (", ..." if len(shards) > 5 else "")
        return FleetError(
            f"the worker of shard(s) {named} died {_DEATHS} times in one call ({_sentence(error)}): nothing of the "
            "call was recorded; look for lack of memory there, then call again"
        )


class RayWorker(Worker):
    """A worker in a process of its own.

    Example:
        >>> sorted(RayWorker().about())
        ['kinband', 'numpy']
    """

    def answer(self, shard: int, call: Call, origin: Origin | None) -> Any:
        """Carry out a call with one BLAS thread."""
        with one_blas_thread():
            return super().answer(shard, call, origin)

    def about(self) -> dict[str, str]:
        """Return the versions that decisions depend on."""
        return {"kinband": __version__, "numpy": np.__version__}


def _received(pending: Any) -> Any:
    answer = ray_module().get(pending)
    if isinstance(answer, KinbandError):
        raise answer
    return answer


def _check_same(about: Mapping[str, str]) -> None:
    for package, version in RayWorker().about().items():
        if about[package] != version:
            raise FleetError(
                f"a worker runs {package} {about[package]}, this process {version}: decisions may differ by rounding "
                "or worse; install the same versions on every machine"
            )


def _free_processors(least: int = 1) -> int:
    return max(least, int(ray_module().available_resources().get("CPU", 0)))


def _sentence(error: BaseException) -> str:
    """Return the first line of what Ray says, which may be pages."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0].rstrip(".") if lines else type(error).__name__
