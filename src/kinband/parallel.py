"""Calls spread over processes of this machine by joblib, or over a Ray cluster."""

import os
import signal
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

_LOOK_EVERY = 0.5  # seconds, whether the process that started a worker is still there


def carried_out(
    calls: Mapping[int, tuple[Callable[..., Any], tuple[Any, ...]]],
    *,
    workers: int | None = None,
    ray: str | None = None,
) -> Iterator[tuple[int, Any]]:
    """Make numbered calls, and yield number and result as they come; in this process where one at a time will do.

    Args:
        calls: A function and its arguments, by number; those to begin with first.
        workers: Processes; None or 0 for one per core.
        ray: The cluster to run on instead, "host:port" or "auto".

    Example:
        >>> sorted(carried_out({1: (pow, (2, 3)), 2: (pow, (3, 2))}, workers=1))
        [(1, 8), (2, 9)]
    """
    some = min(processes(workers), len(calls))
    made = [(i, call, arguments) for i, (call, arguments) in calls.items()]
    if ray is not None:
        yield from _on_cluster(made, ray)
    elif some <= 1:
        for one in made:
            yield _carry_out(*one)
    else:
        yield from _on_processes(made, some)


def processes(workers: int | None) -> int:
    """Return how many processes there are if so many are asked for; None or 0 for one per core."""
    return workers or os.cpu_count() or 1


def _carry_out(i: int, call: Callable[..., Any], arguments: tuple[Any, ...]) -> tuple[int, Any]:
    """Make a call, without warnings: they concern one of many models, and nobody could do anything."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return i, call(*arguments)


def _on_processes(calls: Sequence[tuple[Any, ...]], workers: int) -> Iterator[tuple[int, Any]]:
    """Make calls in processes with one BLAS thread each, since several threads each would fight for the cores."""
    import joblib

    try:
        with joblib.parallel_config("loky", n_jobs=workers, inner_max_num_threads=1, initializer=_begin_worker):
            # Batches of one: jobs take seconds, and each is kept as soon as it is done.
            parallel = joblib.Parallel(batch_size=1, pre_dispatch="all", return_as="generator_unordered")
            yield from parallel(joblib.delayed(_carry_out)(*call) for call in calls)
    except BaseException:
        from joblib.externals.loky import get_reusable_executor

        get_reusable_executor().shutdown(wait=True, kill_workers=True)
        raise


def _on_cluster(calls: Sequence[tuple[Any, ...]], address: str) -> Iterator[tuple[int, Any]]:
    """Make calls on a Ray cluster; joblib's backend for it could not hand results over as they come."""
    from kinband.cluster import join

    leave = join(address, processors=1)
    try:
        import ray

        waiting = [ray.remote(_carry_out).remote(*call) for call in calls]
        while waiting:
            done, waiting = ray.wait(waiting)
            try:
                yield ray.get(done[0])
            except ray.exceptions.RayTaskError as error:
                raise error.cause from error
    finally:
        leave()


def _begin_worker() -> None:
    """Leave Ctrl-C to the process that started this one, and end with it, even if that one was killed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()


def _end_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(_LOOK_EVERY)
    os._exit(1)
