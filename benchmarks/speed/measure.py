"""How a benchmark measures: medians of repeated calls, sums over the sizes of a run, and the machine they belong to."""

import os
import platform
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from kinband.arrays import FloatArray
from kinband.controller import Controller
from kinband.kernels import RBF
from kinband.policies import UCB, Policy, PolicySpec
from kinband.posterior import INDUCING_POINTS
from kinband.records import Samples
from kinband.space import ConfigurationSpace
from kinband.version import __version__

# --- Medians, sums over sizes, the machine --------------------------------------------------------------------------


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


# --- What is decided ------------------------------------------------------------------------------------------------

STATIONS, ARMS, STATE = 105, 29, ("active_users", "cqi_share", "small_packets", "small_volume", "users")
NOISE, MEAN, LENGTH_DB = 0.004, 0.8, 10.0
SPACE = ConfigurationSpace(handover_threshold_dbm=range(-112, -112 + ARMS))


def bench_kernel() -> RBF:
    """Return a kernel with a configuration length-scale of 10 dB.

    Example:
        >>> len(bench_kernel().length_scale)
        6
    """
    per_db = float(np.diff(SPACE.features[:2, 0])[0])
    return RBF([1.7, 3.0, 3.0, 3.0, 1.5, LENGTH_DB * per_db], variance=0.03)


def task_matrix(rng: np.random.Generator, stations: int = STATIONS) -> FloatArray:
    """Return a task matrix in which all stations have something in common, (M, M)."""
    A = rng.standard_normal((stations, 6))
    D2 = ((A[:, None] - A[None]) ** 2).sum(axis=-1)
    K_Z: FloatArray = np.exp(-D2 / np.median(D2))
    return K_Z


def log_of(rows: int, rng: np.random.Generator, *, stations: int = STATIONS) -> Samples:
    """Return a log of random rows."""
    arms = rng.integers(ARMS, size=rows)
    X = np.hstack([rng.standard_normal((rows, len(STATE))), SPACE.features[arms]])
    names = tuple(f"s{m}" for m in range(stations))
    y = MEAN + 0.1 * rng.standard_normal(rows)
    return Samples(names, np.arange(rows) % stations, X, y, None, (*STATE, *SPACE.feature_names), (), arms)


def states_of(rng: np.random.Generator) -> dict[str, dict[str, float]]:
    """Return a state for every station."""
    return {f"s{m}": dict(zip(STATE, rng.standard_normal(len(STATE)).tolist(), strict=True)) for m in range(STATIONS)}


def controller_of(
    rng: np.random.Generator,
    *,
    structure: bool,
    engine: str = "exact",
    rows: int = 0,
    inducing_points: int = INDUCING_POINTS,
) -> Controller:
    """Return a controller that knows so many rows; without `structure`, every arm has a column of its own."""
    return Controller(
        SPACE,
        [f"s{m}" for m in range(STATIONS)],
        state=STATE,
        similarity=task_matrix(rng),
        kernel=bench_kernel(),
        noise=NOISE,
        mean=MEAN,
        engine=engine,
        inducing_points=inducing_points,
        policy="ucb" if structure else plain_ucb,
        log=log_of(rows, rng) if rows else None,
    )


def plain_ucb(spec: PolicySpec) -> Policy:
    """Return UCB that does not know that arms share a state."""
    return UCB.build(replace(spec, configurations=None))


# --- The limit: the bare arithmetic of a forward substitution on plain arrays, with nothing around it ---------------

PANEL = 128


class BareFactor:
    """Row panels of a lower triangle with the inverses of their diagonal blocks, filled with small numbers.

    Example:
        >>> BareFactor(200, rng=np.random.default_rng(0)).sweep(np.ones((200, 3))).shape
        (200, 3)
    """

    def __init__(self, rows: int, *, rng: np.random.Generator) -> None:
        self.rows = rows
        self._panels: list[FloatArray] = []
        self._inverses: list[FloatArray] = []
        for start in range(0, rows, PANEL):
            height = min(PANEL, rows - start)
            self._panels.append(1e-3 * rng.standard_normal((height, start)))
            self._inverses.append(np.eye(height) + 1e-3 * np.tril(rng.standard_normal((height, height)), -1))

    def sweep(self, R: FloatArray) -> FloatArray:
        """Return L⁻¹R for R (rows, m)."""
        V = np.empty_like(R)
        for p, (panel, inverse) in enumerate(zip(self._panels, self._inverses, strict=True)):
            start, stop = p * PANEL, p * PANEL + len(panel)
            rest = R[start:stop] - panel @ V[:start] if start else R[start:stop]
            np.matmul(inverse, rest, out=V[start:stop])
        return V
