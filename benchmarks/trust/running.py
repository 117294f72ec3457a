"""Runs of the parts, in one folder: spread over processes, kept one by one, so that an interrupted run goes on.

Results are kept by version: what an older kinband measured says nothing of this one.
"""

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, is_dataclass
from pathlib import Path
from typing import Any

from benchmarks.trust.targets import Size, Target
from kinband.experiments.runner import Case, Curve, Job, run_cases, run_jobs
from kinband.version import __version__

Record = dict[str, Any]
"""What one call found, in JSON's types."""


@dataclass(frozen=True)
class Call:
    """A call that measures something once, most often on one seed.

    Attributes:
        function: A function of a module; returns a record.
        arguments: Plain values or records of them, by name.
        effort: About how many seconds it takes; only ratios matter, to tell how much is left.

    Example:
        >>> Call(dict, {"seed": 1}).key == Call(dict, {"seed": 1}, effort=9.0).key != Call(dict, {"seed": 2}).key
        True
    """

    function: Callable[..., Record]
    arguments: dict[str, Any]
    effort: float = 1.0

    @property
    def key(self) -> str:
        """A digest of what is called with what, to name files by."""
        values = {name: asdict(v) if is_dataclass(v) else v for name, v in self.arguments.items()}  # type: ignore[arg-type]
        what = [f"{self.function.__module__}.{self.function.__qualname__}", values]
        return hashlib.sha256(json.dumps(what, sort_keys=True, allow_nan=False).encode()).hexdigest()[:20]


@dataclass
class Runner:
    """Runs what parts ask for; what the folder holds already is not run again.

    Attributes:
        out: Where results are kept, in a folder for this version.
        workers: Processes; None for one per core.
        tick: Called after every run with a word on what was done and the seconds it was expected to take.
    """

    out: Path
    workers: int | None = None
    tick: Callable[[str, float], None] | None = None

    @property
    def folder(self) -> Path:
        """Where this version's results are kept."""
        return self.out / __version__

    def cases(self, what: str, cases: Sequence[Case]) -> list[Curve]:
        """Run cases of `kinband.experiments.runner` and return their curves, in order."""
        tick = self.tick
        say = None if tick is None else (lambda effort: tick(what, effort))
        return run_cases(cases, self.folder, n_jobs=self.workers, tick=say)

    def records(self, what: str, calls: Sequence[Call]) -> list[Record]:
        """Make calls and return their records, in order."""
        jobs = [Job(self.folder / "records" / f"{call.key}.json", _make, (call,), call.effort) for call in calls]
        tick = self.tick
        say = None if tick is None else (lambda job: tick(what, job.effort))
        return run_jobs(jobs, n_jobs=self.workers, tick=say)


@dataclass(frozen=True)
class Part:
    """One part of the table.

    Attributes:
        name: How the command calls it.
        promise: What is promised, in a sentence.
        effort: About how many seconds of one core a size takes.
        measure: Runs what is needed and returns results.
        targets: Holds results against the targets.
    """

    name: str
    promise: str
    effort: Callable[[Size], float]
    measure: Callable[[Size, Runner], Any]
    targets: Callable[[Any, Size], list[Target]]


def _make(call: Call) -> Record:
    return call.function(**call.arguments)
