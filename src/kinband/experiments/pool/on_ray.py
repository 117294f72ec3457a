"""Jobs on a Ray cluster: a job's file is written where it runs, and comes back as bytes.

Machines of a cluster need not share a disk. Files among a job's arguments travel with it, its result travels back, and
this process alone writes into the folder of results. A machine that dies costs only the jobs that ran there: Ray runs
them again elsewhere, and as a job is a function of its arguments, the result is the same. A trace that a case names by
path must be readable by that path on every machine.
"""

import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kinband.fleet.cluster import join, ray_module
from kinband.fleet.engine import one_blas_thread, processors
from kinband.fleet.errors import FleetError

if TYPE_CHECKING:
    from kinband.experiments.pool.jobs import Job


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
