"""Many jobs over a few processes, here or on a cluster, each with a file that is kept."""

import multiprocessing
import os
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from kinband.fleet.engine import FleetError, one_blas_thread, processors
from kinband.fleet.on_ray import join, ray_module

__all__ = ["Job", "run_jobs"]

# --- How far a pool of jobs has come, finer than whole jobs: each leaves a note of its share, a thread adds them up
#
# Processes share nothing but the folder they write to, so a note is a small file. One that is being written when it is
# read counts as what it was before; nothing but a progress bar depends on it.

Report = Callable[[float], None]

_EVERY = 0.25  # seconds between two looks
_ALMOST = 0.9  # a job that leaves no note gets so much of its share by the clock alone


@dataclass
class Work:
    """One job as a meter sees it.

    Attributes:
        file: What it writes in the end.
        seconds: How long it may take; what counts is the proportion to other jobs.
        note: Where it notes its share, None for a job that cannot tell.
        share: What was last seen.
    """

    file: Path
    seconds: float
    note: Path | None = None
    share: float = 0.0

    def look(self, elapsed: float) -> float:
        """Return the share that is done, given the seconds since all began."""
        if self.file.exists():
            self.share = 1.0
        elif self.note is None:
            self.share = min(_ALMOST, elapsed / self.seconds)
        else:
            self.share = max(self.share, _read(self.note))
        return self.share


class Meter:
    """Reports the share of all work that is done, from a thread of its own, while a block runs.

    Example:
        >>> import tempfile
        >>> seen = []
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     work = Work(Path(folder) / "result", 2.0, Path(folder) / "note")
        ...     leave_note(work.note, 0.5)
        ...     with Meter([work], seen.append):
        ...         pass
        >>> seen
        [0.5]
    """

    def __init__(self, works: Sequence[Work], report: Report | None) -> None:
        self._works, self._report = works, report
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._begun = 0.0

    def __enter__(self) -> Self:
        self._begun = time.monotonic()
        if self._report is not None and self._works:
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        if self._thread.is_alive():
            self._thread.join()

    def _watch(self) -> None:
        while not self._over.wait(_EVERY):
            self._tell()
        self._tell()

    def _tell(self) -> None:
        elapsed = time.monotonic() - self._begun
        done = sum(work.seconds * work.look(elapsed) for work in self._works)
        if self._report is not None:
            self._report(done / sum(work.seconds for work in self._works))


def leave_note(file: Path, share: float) -> None:
    """Write down the share of a job that is done."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"{share:.6f}", encoding="ascii")


def _read(file: Path) -> float:
    try:
        return min(1.0, float(file.read_text(encoding="ascii")))
    except (OSError, ValueError):  # not there yet, or half written
        return 0.0


# --- Jobs on a Ray cluster: a job's file is written where it runs, and comes back as bytes --------------------------
#
# Machines of a cluster need not share a disk. Files among a job's arguments travel with it, its result travels back,
# and this process alone writes into the folder of results. A machine that dies costs only the jobs that ran there: Ray
# runs them again elsewhere, and as a job is a function of its arguments, the result is the same. A trace that a case
# names by path must be readable by that path on every machine.


def run_on_ray(
    jobs: Sequence["Job"],
    address: str,
    *,
    write: Callable[[Path, bytes], None],
    tick: Callable[["Job"], None] | None = None,
) -> None:
    """Run jobs on the cluster at an address; `write` stores each result as soon as it is there."""
    leave = join(address, processors=processors())
    running: dict[Any, Job] = {}
    try:
        running.update(_sent(jobs))
        while running:
            finished, _ = ray_module().wait(list(running))
            for pending in finished:
                job = running.pop(pending)
                write(job.file, _result(pending, job))
                if tick is not None:
                    tick(job)
    finally:
        for pending in running:
            ray_module().cancel(pending, force=True)
        leave()


def carry_out(call: Callable[..., None], names: Mapping[int, str], *arguments: Any) -> bytes:
    """Run a job in a folder of its own and return what it wrote.

    Args:
        call: What the job calls.
        names: Which of the arguments are the content of files, and the names of these.
        arguments: The job's arguments.

    Example:
        >>> carry_out(lambda file, source: file.write_bytes(source.read_bytes() * 2), {0: "word.txt"}, b"ha")
        b'haha'
    """
    with tempfile.TemporaryDirectory(prefix="kinband-") as folder, one_blas_thread():
        given = list(arguments)
        for place, name in names.items():
            given[place] = Path(folder) / f"{place}-{name}"
            given[place].write_bytes(arguments[place])
        result = Path(folder) / "result"
        call(result, *given)
        return result.read_bytes()


def _sent(jobs: Sequence["Job"]) -> dict[Any, "Job"]:
    """Submit all jobs; a file that several of them read is sent once."""
    ray = ray_module()
    task = ray.remote(num_cpus=1)(carry_out)
    contents: dict[Path, Any] = {}
    running: dict[Any, Job] = {}
    for job in jobs:
        names = {i: value.name for i, value in enumerate(job.arguments) if isinstance(value, Path) and value.is_file()}
        given = list(job.arguments)
        for place in names:
            file = given[place]
            if file not in contents:
                contents[file] = ray.put(file.read_bytes())
            given[place] = contents[file]
        running[task.remote(job.call, names, *given)] = job
    return running


def _result(pending: Any, job: "Job") -> bytes:
    ray = ray_module()
    try:
        return bytes(ray.get(pending))
    except ray.exceptions.RayTaskError as error:  # as if it had run here
        raise error.cause from error
    except ray.exceptions.RayError as error:
        raise FleetError(f"the job of {job.file.name} was lost on the cluster: {str(error).splitlines()[0]}") from error


# --- Many jobs over a few processes: in order of need, with progress, safe to interrupt and to resume ---------------
#
# A job writes one file. What is there already is not run again; a file appears whole or not at all. Each process uses
# one BLAS thread, because several processes with several threads each would fight for the same cores. The processes
# are on this machine, or on those of a Ray cluster (`on_ray`).

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
