"""What all benchmarks run by: jobs whose results are kept, so that a measurement goes on where it was interrupted."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import Any

from kinband.experiments.runner import Job, Record, digest, run_jobs
from kinband.progress import stage
from kinband.version import __version__


def kept(folder: Path, call: Callable[..., Record], *arguments: Any) -> Job:
    """Return a job whose file is named by its arguments, records by what they hold, and this version."""
    values = [asdict(one) if is_dataclass(one) and not isinstance(one, type) else one for one in arguments]
    return Job(folder / f"{digest([values, __version__])}.json", call, arguments)


def play_all(jobs: Sequence[Job], *, workers: int | None, what: str) -> list[Record]:
    """Run the jobs that are not done, with progress, and return the records of all."""
    with stage(what, len(jobs)) as step:
        return run_jobs(jobs, n_jobs=workers, tick=lambda _: step(what))
