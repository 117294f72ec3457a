"""What the default costs: seconds to learn its model, and the time of a decision over that of the paper's own.

Seconds are those of the machine that measures, and want it to themselves; the ratio is of decisions taken in turns, so
that whatever else the machine does hits both alike. One file is kept for each, as of every run.
"""

import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.running import kept
from benchmarks.studies.speed import seconds
from kinband.controller import Controller
from kinband.environments import split_trace
from kinband.experiments.runner import Job
from kinband.trace import Trace

RATIO = 1.3
"""What a decision may cost at most, over one with paper=True."""

DECISIONS = 500


@dataclass(frozen=True)
class Learning:
    """A model learned from the bundled trace.

    Attributes:
        rows: Rows a station, of 105.
        within: Seconds that it may take.
    """

    rows: int
    within: float


LEARNINGS = (Learning(20, 10.0), Learning(540, 60.0))


def job(measured: Learning | None, folder: Path) -> Job:
    """Return the job that learns a model; of None, the one that takes decisions in turns."""
    return kept(folder / "cost", learn, measured) if measured else kept(folder / "cost", decide, DECISIONS)


def learn(learning: Learning) -> dict[str, Any]:
    """Make the controller of a log once, and return the seconds."""
    Controller.from_trace(_log(2))  # what is imported on first use is not the model's
    log = _log(learning.rows)
    begun = time.perf_counter()
    Controller.from_trace(log)
    return {"seconds": time.perf_counter() - begun, "cores": os.cpu_count()}


def decide(decisions: int) -> dict[str, Any]:
    """Take decisions in turns, and return the seconds of each way."""
    return seconds(1, decisions=decisions)


def read(measured: Learning | None, folder: Path) -> dict[str, Any]:
    """Return what was found."""
    return job(measured, folder).read()


def _log(rows: int) -> Trace:
    trace = Trace.bundled()
    trace = trace.with_space(trace.space())
    return trace if rows >= len(trace.station) // len(trace.stations) else split_trace(trace, rows_per_station=rows)[0]
