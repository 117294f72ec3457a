"""A target and its measured value: what is promised, what was found, how sure that is, and whether it is kept.

A target is judged by the *limit* of the 95 % interval that speaks against it: "at most 5 % worse" is kept if the upper
limit of the ratio is below 1.05, "at least half" if the lower limit is not below 0.5. Rates that are stated as rates,
such as how often a promise may be broken, are judged by their measured *value*: fifty runs without a single failure
leave an upper limit of 7 %, so that no count of that size could ever confirm 5 %.

A run that is shorter than the target says, or has fewer seeds, is shown and judged by nobody.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, is_dataclass
from pathlib import Path
from typing import Any, Literal

from kinband.errors import BadInputError
from kinband.experiments.runner import Case, Curve, Job, digest, run_cases, run_jobs
from kinband.stats import Estimate
from kinband.version import __version__

# --- A target and its measured value --------------------------------------------------------------------------------

Sense = Literal["at most", "at least"]
Judge = Literal["limit", "value"]

SHORT = "short run, not the target's size"
LEAST_RUNS = 20
"""Pairs of runs that a target takes, unless it says otherwise."""


@dataclass(frozen=True)
class Size:
    """How much is run.

    Attributes:
        runs: Seeds of every part; None for as many as each part's targets take.
        seed: The first of them.
        short: Whether to play small versions, for a look in two minutes.
        trace: Where a trace of real base stations is (docs/extend.md), for parts that play on one.

    Example:
        >>> list(Size(runs=2, seed=7).seeds(usual=50)), Size().command("safety")
        ([7, 8], 'python -m benchmarks.trust safety')
    """

    runs: int | None = None
    seed: int = 1
    short: bool = False
    trace: str | None = None

    def __post_init__(self) -> None:
        if self.runs is not None and self.runs < 1:
            raise BadInputError(f"runs must be 1 or more, got {self.runs}")
        if self.seed < 1:
            raise BadInputError(f"seed must be 1 or more, got {self.seed}")

    def seeds(self, *, usual: int, short: int = 2) -> range:
        """Return the seeds of a part that usually has so many, and so many in a short run."""
        runs = self.runs or (short if self.short else usual)
        return range(self.seed, self.seed + runs)

    def command(self, part: str) -> str:
        """Return what to type to measure a part in this size."""
        words = ["python -m benchmarks.trust", part, *(["--quick"] if self.short else [])]
        words += [f"--runs {self.runs}"] if self.runs is not None else []
        words += [f"--seed {self.seed}"] if self.seed != 1 else []
        words += [f"--trace {Path(self.trace).name}"] if self.trace is not None else []
        return " ".join(words)


@dataclass(frozen=True)
class Target:
    """One line of the table.

    Attributes:
        part: Which part it belongs to.
        name: What is measured, in words.
        aim: The number that it is held against; None where a number is reported and none was promised.
        sense: Which side of the aim is the good one.
        value: What was measured.
        low: Lower end of its 95 % interval, nan where one run gives none.
        high: Upper end.
        runs: How many runs it rests on, pairs of runs where it compares.
        met: Whether the target is kept; None where none was promised, or where the run was too short to tell.
        note: What else to know, in a few words.
        command: What measures it.
        judge: Whether the interval's limit or the value is held against the aim.
        style: How to print its numbers, a format specification.
        short: Whether the run was shorter than the target says, or on fewer seeds.

    Example:
        >>> target = target_of("newcomers", "saved", Estimate(0.62, 0.55, 0.7), aim=0.5, sense="at least", runs=20)
        >>> target.met, target_of("a", "b", Estimate(1.02, 1.0, 1.06), aim=1.05, sense="at most", runs=20).met
        (True, False)
    """

    part: str
    name: str
    aim: float | None
    sense: Sense
    value: float
    low: float
    high: float
    runs: int
    met: bool | None
    note: str = ""
    command: str = ""
    judge: Judge = "limit"
    style: str = ".1%"
    short: bool = False

    @property
    def estimate(self) -> Estimate:
        """The value with its interval."""
        return Estimate(self.value, self.low, self.high)


def target_of(
    part: str,
    name: str,
    found: Estimate,
    *,
    aim: float | None,
    sense: Sense,
    runs: int,
    size: Size | None = None,
    least_runs: int = LEAST_RUNS,
    judge: Judge = "limit",
    note: str = "",
    style: str = ".1%",
) -> Target:
    """Hold what was found against an aim; the runs must be as many as the target takes, and of full size."""
    size = size or Size()
    short = size.short or runs < least_runs
    met = None if aim is None or short else _kept(found, aim, sense, judge)
    return Target(
        part, name, aim, sense, found.value, found.low, found.high, runs, met,
        note=note, command=size.command(part), judge=judge, style=style, short=short,
    )  # fmt: skip


def _kept(found: Estimate, aim: float, sense: Sense, judge: Judge) -> bool:
    if judge == "value":
        return found.value <= aim if sense == "at most" else found.value >= aim
    return found.high < aim if sense == "at most" else found.low >= aim


# --- What is run ----------------------------------------------------------------------------------------------------
#
# Results are kept by version: what an older kinband measured says nothing of this one.

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
        return digest(what)


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
