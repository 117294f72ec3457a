"""A Ray cluster: joining one, and workers on it that hold objects of ours.

Blocks of a posterior may live on other machines (`kinband.posterior.remote`), and experiments may run there.
Ray moves Python objects between its processes by pickle: run it on a network you trust. Files are never pickled.
"""

import importlib
import logging
import os
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import numpy as np

from kinband.errors import BadInputError, KinbandError
from kinband.version import __version__

__all__ = ["ClusterError", "OnRay", "join", "processors", "reach"]

# --- Joining a Ray cluster: one that runs, or one started on this machine; and a clear sentence when there is none
#
# Ray waits for minutes for a cluster that is not there and may end the process in the end. So its address is tried
# first: the port by a plain connection, then the cluster by a process of its own that can be given up. Ray starts
# quietly: no dashboard, no usage statistics, nothing printed.


class ClusterError(KinbandError, RuntimeError):
    """What runs on a Ray cluster failed; whatever is on record is as it was before the call.

    Example:
        >>> reach("127.0.0.1:1", timeout=2.0)
        Traceback (most recent call last):
            ...
        kinband.cluster.ClusterError: no Ray cluster answers at 127.0.0.1:1 (...): ...
    """

    code = "cluster"


_QUIET = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}
_STORE = 512 * 2**20  # bytes for results in flight, where we start the cluster; Ray would take a third of the memory
PATIENCE = 15.0
"""Seconds that a cluster has to answer."""
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
        raise ClusterError(
            "Ray is not installed",
            hint="pip install 'kinband[ray]', or leave Ray out",
            code="no_ray",
        ) from error


def join(address: str | None, *, processors: int, timeout: float = PATIENCE) -> Callable[[], None]:
    """Connect this process to a cluster and return what disconnects it again.

    A process that is connected already stays where it is, and stays connected.

    Example:
        >>> join("127.0.0.1:1", processors=1, timeout=2.0)
        Traceback (most recent call last):
            ...
        kinband.cluster.ClusterError: no Ray cluster answers at 127.0.0.1:1 (...): ...

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
    env = os.environ | {"RAY_NUM_REDIS_GET_RETRIES": f"{max(1, int(timeout) - 6)}"}  # of a second each, then the reason
    try:
        tried = subprocess.run(  # noqa: S603
            command, capture_output=True, text=True, timeout=timeout, check=False, env=env
        )
    except subprocess.TimeoutExpired as error:
        raise _unreachable(address, f"no answer within {timeout:g} s") from error
    if tried.returncode:
        if "AuthenticationError" in tried.stderr:
            raise ClusterError(
                f"the Ray cluster at {address} refuses this machine: its token is missing or another",
                hint="set RAY_AUTH_MODE=token, and RAY_AUTH_TOKEN or RAY_AUTH_TOKEN_PATH as the cluster has them",
                code="no_cluster",
                argument="address",
                value=address,
            )
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


def _unreachable(address: str, why: str) -> ClusterError:
    return ClusterError(
        f"no Ray cluster answers at {address} ({why})",
        hint="start one with `ray start --head`, join it from this machine with `ray start --address=host:port`, set "
        "RAY_AUTH_MODE=token where it asks for a token, or leave Ray out, to run in this process",
        code="no_cluster",
        argument="address",
        value=address,
    )


def _stay() -> None:
    """Leave the cluster to whoever joined it."""


def _leave() -> None:
    ray_module().shutdown()


# --- Workers: processes on the cluster that hold objects, and rebuild them when they have died ----------------------
#
# A worker is an actor, a process that Ray places on some machine. Ray never restarts a worker or repeats a call behind
# our back. When one dies in the middle of a call, another takes its place, what it held is made again from what the
# owner keeps, which does not contain the call, and the call is repeated. So nothing is lost or done twice, because only
# what the owner keeps counts.

_DEATHS = 3  # of one worker in one call, before we stop trying
_KEYS = count()


@dataclass(eq=False)
class Remote:
    """An object that lives on a worker, and what it is made of again there if need be.

    Attributes:
        make: Makes it, empty.
        past: What is done to it then, one function after the other, each with its arguments.
        key: Its name on the worker.
    """

    make: Callable[[], Any]
    past: list[tuple[Callable[..., Any], tuple[Any, ...]]] = field(default_factory=list)
    key: int = field(default_factory=lambda: next(_KEYS))


class OnRay:
    """Workers on a Ray cluster.

    Args:
        address: "auto" or "host:port" of a cluster that runs; None starts one on this machine.
        workers: How many processes hold shards; None for one per free processor.
        patience: How many seconds to wait for the cluster to answer and to place the workers.

    Example:
        >>> OnRay("head:6379", workers=0)
        Traceback (most recent call last):
            ...
        kinband.errors.BadInputError: workers must be at least 1, got 0
    """

    def __init__(self, address: str | None = None, *, workers: int | None = None, patience: float = 60.0) -> None:
        if workers is not None and workers < 1:
            raise BadInputError(f"workers must be at least 1, got {workers}", argument="workers", value=workers)
        self._address, self._wanted, self._patience = address, workers, patience
        self._workers: list[Any] = []  # None where one has died
        self._held: list[set[int]] = []  # keys of what each worker holds
        self._leave: Callable[[], None] | None = None

    def __enter__(self) -> "OnRay":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def open(self) -> None:
        """Join the cluster and place the workers, unless that is done."""
        if self._workers:
            return
        self._leave = join(self._address, processors=self._wanted or processors())
        try:
            self._workers = self._hire(self._wanted or _free_processors())
        except BaseException:
            self.close()
            raise
        self._held = [set() for _ in self._workers]

    def run(self, calls: Sequence[tuple[Remote, Callable[..., Any], tuple[Any, ...]]]) -> list[Any]:
        """Call functions on remote objects, all workers at once; where a worker dies, again on another."""
        self.open()
        if not ray_module().is_initialized():  # Ray would start a cluster of its own, without our workers
            raise ClusterError("this process is no longer connected to its Ray cluster: start it again to go on")
        answers: dict[int, Any] = {}
        deaths: Counter[int] = Counter()
        while waiting := [i for i in range(len(calls)) if i not in answers]:
            self._fill_places()
            for worker, error in self._attempt(calls, waiting, answers).items():
                self._dismiss(worker)
                deaths[worker] += 1
                if deaths[worker] == _DEATHS:
                    raise ClusterError(
                        f"a worker died {_DEATHS} times in one call ({_sentence(error)}): nothing of the call counts; "
                        "look for lack of memory there, then call again"
                    )
        return [answers[i] for i in range(len(calls))]

    def forget(self, objects: Sequence[int]) -> None:
        """Let workers drop objects, by key; those that are called again are made again."""
        for worker, held in zip(self._workers, self._held, strict=True):
            mine = [key for key in objects if key in held]
            if mine and worker is not None and ray_module().is_initialized():
                worker.drop.remote(mine)
                held.difference_update(mine)

    def close(self) -> None:
        """End the workers and leave the cluster; one that was started here ends too."""
        for worker in self._workers:
            if worker is not None and ray_module().is_initialized():
                ray_module().kill(worker)
        self._workers, self._held = [], []
        if self._leave is not None:
            self._leave()
            self._leave = None

    def _attempt(
        self, calls: Sequence[tuple[Remote, Callable[..., Any], tuple[Any, ...]]], waiting: Sequence[int],
        answers: dict[int, Any],
    ) -> dict[int, Exception]:  # fmt: skip
        """Run calls, gather answers, and return the workers that died with what Ray says of it."""
        exceptions = ray_module().exceptions
        by_worker: dict[int, list[int]] = {}
        for i in waiting:
            by_worker.setdefault(calls[i][0].key % len(self._workers), []).append(i)
        sent = [(worker, mine, self._send(worker, [calls[i] for i in mine])) for worker, mine in by_worker.items()]
        lost: dict[int, Exception] = {}
        failed: Exception | None = None
        for worker, mine, pending in sent:
            try:
                answers.update(zip(mine, ray_module().get(pending), strict=True))
            except exceptions.RayTaskError as error:  # as it would be raised in this process
                failed = failed or error
            except exceptions.RayError as error:
                lost[worker] = error
        if failed is not None:
            for worker in lost:
                self._dismiss(worker)
            raise failed.cause from failed  # type: ignore[attr-defined]
        return lost

    def _send(self, worker: int, calls: Sequence[tuple[Remote, Callable[..., Any], tuple[Any, ...]]]) -> Any:
        held = self._held[worker]
        made = {one.key: (one.make, one.past) for one, _, _ in calls if one.key not in held}
        held.update(made)
        return self._workers[worker].run.remote(made, [(one.key, function, args) for one, function, args in calls])

    def _dismiss(self, worker: int) -> None:
        """Make sure that a worker is gone, and leave its place empty."""
        ray_module().kill(self._workers[worker])
        self._workers[worker], self._held[worker] = None, set()

    def _fill_places(self) -> None:
        """Put workers into empty places; they claim no processor, since that of the dead may be gone for good."""
        empty = [place for place, worker in enumerate(self._workers) if worker is None]
        for place, worker in zip(empty, self._hire(len(empty), claim=0), strict=True):
            self._workers[place] = worker

    def _hire(self, count: int, *, claim: int = 1) -> list[Any]:
        """Return workers that have reported for duty."""
        ray, until = ray_module(), time.monotonic() + self._patience
        actor = ray.remote(num_cpus=claim, max_restarts=0, max_task_retries=0, scheduling_strategy="SPREAD")(Worker)
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
            raise ClusterError(
                f"the cluster had no room within {self._patience:g} s ({_free_processors(0)} processors are free): "
                "give fewer workers=, or wait for other jobs"
            ) from error
        except ray.exceptions.RayError as error:
            if getattr(error, "actor_init_failed", False) or time.monotonic() > until:
                raise ClusterError(
                    f"a worker could not start ({_sentence(error)}): is kinband installed there?"
                ) from error
            return False
        return True


class Worker:
    """Holds objects in a process of its own, and calls functions on them with one BLAS thread."""

    def __init__(self) -> None:
        self._held: dict[int, Any] = {}

    def run(
        self, made: Mapping[int, tuple[Callable[[], Any], Sequence[Any]]], calls: Sequence[tuple[int, Any, Any]]
    ) -> list[Any]:
        """Make what is missing, then call functions on held objects, in order."""
        from threadpoolctl import threadpool_limits

        with threadpool_limits(1, "blas"):
            for key, (make, past) in made.items():
                self._held[key] = make()
                for function, arguments in past:
                    function(self._held[key], *arguments)
            return [function(self._held[key], *arguments) for key, function, arguments in calls]

    def drop(self, keys: Sequence[int]) -> None:
        """Let objects go."""
        for key in keys:
            self._held.pop(key, None)

    def about(self) -> dict[str, str]:
        """Return the versions that decisions depend on."""
        return {"kinband": __version__, "numpy": np.__version__}


def processors() -> int:
    """Return how many processors this process may use.

    Example:
        >>> processors() >= 1
        True
    """
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _check_same(about: Mapping[str, str]) -> None:
    for package, version in Worker().about().items():
        if about[package] != version:
            raise ClusterError(
                f"a worker runs {package} {about[package]}, this process {version}: decisions may differ by rounding "
                "or worse; install the same versions on every machine"
            )


def _free_processors(least: int = 1) -> int:
    return max(least, int(ray_module().available_resources().get("CPU", 0)))


def _sentence(error: BaseException) -> str:
    """Return the first line of what Ray says, which may be pages."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0].rstrip(".") if lines else type(error).__name__
