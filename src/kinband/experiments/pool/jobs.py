"""Many jobs over a few processes: in order of need, with progress, safe to interrupt and to resume.

A job writes one file. What is there already is not run again; a file appears whole or not at all. Each process uses one
BLAS thread, because several processes with several threads each would fight for the same cores. The processes are on
this machine, or on those of a Ray cluster (`on_ray`).
"""

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_THREAD_VARIABLES = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")


@dataclass(frozen=True)
class Job:
    """A call whose result is a file.

    Attributes:
        file: What it writes; a job whose file exists is done.
        call: A function of a module, called as call(temporary file, *arguments).
        arguments: Plain values.

    Example:
        >>> Job(Path("never-written"), print, ()).done
        False
    """

    file: Path
    call: Callable[..., None]
    arguments: tuple[Any, ...]

    @property
    def done(self) -> bool:
        """Whether the file is there."""
        return self.file.exists()


def run_jobs(
    jobs: Iterable[Job],
    *,
    workers: int | None = None,
    tick: Callable[[Job], None] | None = None,
    ray: str | None = None,
) -> int:
    """Run the jobs that are not done; return how many were run. `tick` is called after each, done ones included.

    An error of a job, or Ctrl-C, stops the rest; what has been written stays. `ray` runs them on a Ray cluster
    instead: "auto" for the one that this machine belongs to, or "host:port".

    Example:
        >>> run_jobs([])
        0
    """
    todo: list[Job] = []
    for job in jobs:
        if not job.done:
            todo.append(job)
        elif tick is not None:
            tick(job)
    if not todo:
        return 0
    if ray is not None:
        from kinband.experiments.pool.on_ray import run_on_ray

        run_on_ray(todo, ray, write=_write_whole, tick=tick)
        return len(todo)
    workers = min(workers or os.cpu_count() or 1, len(todo))
    if workers == 1:
        for job in todo:
            run_job(job)
            if tick is not None:
                tick(job)
    else:
        _run_in_processes(todo, workers, tick)
    return len(todo)


def run_job(job: Job) -> None:
    """Run one job here and now."""
    job.file.parent.mkdir(parents=True, exist_ok=True)
    partial = job.file.with_name(f".{job.file.name}.{os.getpid()}")
    try:
        job.call(partial, *job.arguments)
        partial.replace(job.file)
    finally:
        partial.unlink(missing_ok=True)


def _write_whole(file: Path, content: bytes) -> None:
    run_job(Job(file, _write, (content,)))


def _write(file: Path, content: bytes) -> None:
    file.write_bytes(content)


def _run_in_processes(jobs: Sequence[Job], workers: int, tick: Callable[[Job], None] | None) -> None:
    spawned = multiprocessing.get_context("spawn")
    with _one_thread_each(), ProcessPoolExecutor(workers, spawned, initializer=_end_with_parent) as pool:
        try:
            with _ctrl_c_later():
                running: dict[Future[None], Job] = {pool.submit(run_job, job): job for job in jobs}
            while running:
                finished, _ = wait(running, return_when=FIRST_COMPLETED)
                for future in finished:
                    job = running.pop(future)
                    future.result()
                    if tick is not None:
                        tick(job)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            for process in multiprocessing.active_children():
                process.terminate()
                process.join()
            for job in jobs:  # what a terminated process had begun
                for partial in job.file.parent.glob(f".{job.file.name}.*"):
                    partial.unlink(missing_ok=True)
            raise


def _end_with_parent() -> None:
    """Let this process end when the one that started it does, even if that one was killed."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_end_after, args=(parent,), daemon=True).start()


def _end_after(parent: Any) -> None:
    parent.join()
    os._exit(1)


@contextmanager
def _ctrl_c_later() -> Iterator[None]:
    """Hold Ctrl-C back: processes that are started meanwhile never see it, and leave ending them to their parent."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def _one_thread_each() -> Iterator[None]:
    """Let processes that are started meanwhile use one BLAS thread."""
    before = {name: os.environ.get(name) for name in _THREAD_VARIABLES}
    os.environ.update(dict.fromkeys(_THREAD_VARIABLES, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
