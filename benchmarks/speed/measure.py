"""How a benchmark measures: medians of repeated calls, sums over the sizes of a run, and the machine they belong to."""

import os
import platform
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from kinband.version import __version__


@dataclass(frozen=True)
class Measured:
    """One line of a benchmark: what was timed, beside what, and what we aim at.

    Attributes:
        name: Stable name, such as "exact.run.plain".
        what: The same in words.
        seconds: What it took.
        reference: What it is compared with; empty for a line that others are compared with.
        reference_seconds: What that took, in the same run.
        aim: What the ratio should be: "at most 1.3", "at least 3"; empty where nothing is promised.
        by_size: Seconds of one step at some numbers of observations, for the plot.

    Example:
        >>> line = Measured("demo", "a sweep", 2.0, "two bare sweeps", 4.0, aim="at most 1.3")
        >>> line.ratio, line.met
        (0.5, True)
    """

    name: str
    what: str
    seconds: float
    reference: str = ""
    reference_seconds: float = float("nan")
    aim: str = ""
    by_size: tuple[tuple[int, float], ...] = ()

    @property
    def ratio(self) -> float:
        """Ours over the reference; where the aim is "at least", the reference over ours: how many times faster."""
        if self.aim.startswith("at least"):
            return self.reference_seconds / self.seconds
        return self.seconds / self.reference_seconds

    @property
    def met(self) -> bool | None:
        """Whether the aim is met; None where there is none."""
        if not self.aim:
            return None
        limit = float(self.aim.split()[-1])
        return self.ratio >= limit if self.aim.startswith("at least") else self.ratio <= limit

    def to_dict(self) -> dict[str, Any]:
        """Return the line as JSON-able values."""
        values = asdict(self) | {"ratio": self.ratio, "met": self.met}
        return {key: None if isinstance(v, float) and np.isnan(v) else v for key, v in values.items()}


def median_time(call: Callable[[], object], *, least: int = 3, budget: float = 0.5) -> float:
    """Return the median seconds of a call, repeated at least so often and for about `budget` seconds.

    Example:
        >>> median_time(lambda: sum(range(1000)), budget=0.01) > 0
        True
    """
    times: list[float] = []
    while len(times) < least or sum(times) < budget:
        begun = time.perf_counter()
        call()
        times.append(time.perf_counter() - begun)
    return float(np.median(times))


def summed(sizes: Sequence[int], seconds: Sequence[float], *, up_to: int) -> float:
    """Return Σ t(n) for n = 1 … up_to from t at some sizes, by a power law between two of them and flat outside.

    Straight lines between sizes would lie above costs that grow as n² or n³, and flatter what is summed less often.

    Example:
        >>> round(summed([1, 10], [1.0, 100.0], up_to=10), 6)  # the squares of 1 … 10
        385.0
    """
    n = np.arange(1, up_to + 1)
    return float(np.exp(np.interp(np.log(n), np.log(sizes), np.log(seconds))).sum())


def machine(*, threads: int) -> dict[str, Any]:
    """Return what a benchmark ran on: processor, threads and versions."""
    packages = {name: version(name) for name in ("numpy", "scipy", "scikit-learn")}
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "threads": threads,
        "python": platform.python_version(),
        "kinband": __version__,
        **packages,
    }


def _processor() -> str:
    try:
        with Path("/proc/cpuinfo").open(encoding="utf-8") as lines:
            return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()
