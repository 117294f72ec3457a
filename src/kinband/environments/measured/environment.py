"""A table of measurements as an environment, of one's own or one of those that come with kinband."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from kinband.arrays import BoolArray, FloatArray, IntArray, finite_number
from kinband.environments.contract import Exogenous, Outcome, Slot, whole_number
from kinband.environments.measured.table import Descriptors, Goal, MeasuredTable
from kinband.errors import BadInputError
from kinband.records import Samples
from kinband.stats import counted
from kinband.trace.files import check_file, located, path_of, read_csv, read_parquet

# --- From scores to rewards: every task against its own first configuration, all in units of the whole table --------
#
# A *cell* is one task under one configuration; it holds all its measurements, or none where it was never run.


@dataclass(frozen=True, eq=False)
class Cells:
    """The rewards of all measurements, cell by cell.

    Attributes:
        values: Rewards, sorted by task and configuration, (n,).
        counts: Measurements of each cell, (M, N).
        failed: In which cells a run failed, (M, N).
        truth: Mean of each cell, (M, N); where there is none, the worst of the task, so that it is never the best.
    """

    values: FloatArray
    counts: IntArray
    failed: BoolArray
    truth: FloatArray

    @classmethod
    def of(cls, table: MeasuredTable) -> "Cells":
        """Return the cells of a table, or say that nothing can be gained there."""
        M, N = len(table.tasks), len(table.space)
        cell, well = table.task * N + table.arm, ~np.isnan(table.score)
        ran = np.bincount(cell[well], minlength=M * N).reshape(M, N)
        means = _means(cell[well], table.score[well], ran)
        first = means[np.arange(M), (ran > 0).argmax(axis=1)]
        means -= first[:, None]
        spread = float(means[ran > 0].std())
        if spread <= 1e-12 * max(1.0, float(np.abs(table.score[well]).max())):
            raise BadInputError("no configuration does better than another for any task: there is nothing to gain")
        worst = np.where(ran > 0, means, np.inf).min(axis=1) / spread
        values = np.where(well, (table.score - first[table.task]) / spread, worst[table.task])
        counts = np.bincount(cell, minlength=M * N).reshape(M, N)
        truth = np.where(counts > 0, _means(cell, values, counts), worst[:, None])
        return cls(values[np.argsort(cell, kind="stable")], counts, counts > ran, truth)

    @cached_property
    def starts(self) -> IntArray:
        """Where in `values` each cell begins, (M, N)."""
        return (np.cumsum(self.counts) - self.counts.ravel()).reshape(self.counts.shape)

    def draw(self, task: IntArray, arm: IntArray, rng: np.random.Generator, *, noise: float) -> FloatArray:
        """Return rewards of cells that were run, (...): one of several measurements, or the only one plus noise."""
        counts, place = self.counts[task, arm], rng.random(np.broadcast(task, arm).shape)
        around = rng.standard_normal(place.shape)
        rows = self.starts[task, arm] + (place * counts).astype(np.int64)
        once = (counts == 1) & ~self.failed[task, arm]
        drawn: FloatArray = np.where(once, self.truth[task, arm] + noise * around, self.values[rows % len(self.values)])
        return drawn

    def draw_all(self, rng: np.random.Generator, *, noise: float) -> FloatArray:
        """Return a reward of every cell, (M, N); one that was never run gets the least of its task."""
        M, N = self.counts.shape
        task, arm = np.broadcast_to(np.arange(M)[:, None], (M, N)), np.broadcast_to(np.arange(N), (M, N))
        drawn, ran = self.draw(task, arm, rng, noise=noise), self.counts > 0
        return np.where(ran, drawn, np.where(ran, drawn, np.inf).min(axis=1, keepdims=True))


def _means(cell: IntArray, values: FloatArray, counts: IntArray) -> FloatArray:
    """Mean value of each cell, (M, N); 0 where it has none."""
    sums = np.bincount(cell, weights=values, minlength=counts.size).reshape(counts.shape)
    return np.divide(sums, counts, out=np.zeros(counts.shape), where=counts > 0)


# --- Measured problems: tasks whose outcome under every configuration is known, because it was measured -------------
#
# A task is a station and a configuration an arm. There is no state: what a configuration earns for a task stays the
# same but for noise, and no simulator stands between learner and world. The reward is the score of a run
# (`MeasuredTable.score`) minus the mean score of the task's first configuration that ran, divided by the standard
# deviation of these over the table: in the same units for all tables, and to no learner's advantage.
#
# Where a configuration was measured several times, a reward is one of the measurements, drawn at random, and the truth
# is their mean: the noise is real. Where it was measured once, the reward is that measurement plus Gaussian noise of a
# stated standard deviation. A run that failed pays the worst that any configuration is expected to pay for that task,
# without noise. A configuration that a task never ran under cannot be played by it (`Slot.allowed`).

_SHOWN = 3  # names in a sentence


@dataclass(frozen=True)
class FailedRun:
    """A task and a configuration that failed for it, at least once."""

    task: str
    arm: int
    configuration: Mapping[str, Any]


class MeasuredEnvironment(Exogenous):
    """A table of measurements as an environment; what is played changes nothing.

    Args:
        table: The runs it answers from.
        noise: Standard deviation of a reward around a configuration that was measured once, in units of the reward.
        seed: As if `reset(seed)` had been called.

    Attributes:
        playable: Which configurations each task ran under, (M, N).
        failed: The runs that failed: task and configuration.
        risky: The configurations that failed, by number, and for how many tasks.
        descriptors: What is known of tasks, by task.

    Example:
        >>> columns = {"task": ["a"] * 3 + ["b"] * 3, "level": [1, 2, 3] * 2, "seconds": [4, 1, 2, 8, 4, 0]}
        >>> world = MeasuredEnvironment(MeasuredTable.from_frame(columns, "seconds", goal="min"), seed=1)
        >>> world.stations, world.space[2], world.slot.states["a"]
        (('a', 'b'), {'level': 3}, {})
        >>> world.truth("a").best, world.truth("b").best, world.failed[0].task, world.risky
        (1, 1, 'b', {2: 1})
    """

    def __init__(self, table: MeasuredTable, *, noise: float = 0.05, seed: int = 0) -> None:
        if finite_number(noise, name="noise") < 0:
            raise BadInputError(f"noise is a standard deviation, 0 or more, got {noise:g}")
        self.table, self.stations, self.space, self.noise = table, table.tasks, table.space, float(noise)
        self.arms, self.features, self.categorical = len(self.space), self.space.feature_names, self.space.categorical
        self.context_range = (self.space.features.min(axis=0), self.space.features.max(axis=0))
        self.descriptors: Descriptors = table.descriptors
        self._cells = Cells.of(table)
        self._expected = self._cells.truth
        self.playable: BoolArray = self._cells.counts > 0
        lost = np.argwhere(self._cells.failed).tolist()
        self.failed = tuple(FailedRun(self.stations[task], arm, self.space[arm]) for task, arm in lost)
        counts = self._cells.failed.sum(axis=0)
        self.risky = {int(arm): int(counts[arm]) for arm in np.argsort(-counts, kind="stable") if counts[arm]}
        values = self._cells.values
        self.reward_range = (-np.inf, np.inf) if noise else (float(values.min()), float(values.max()))
        self.reset(seed)

    @property
    def notes(self) -> tuple[str, ...]:
        """What to know of the table, in sentences: failed runs, risky configurations, holes, columns left aside."""
        return (*self._on_failures(), *self._on_holes())

    def _outcome(self, task: int, arm: int) -> Outcome:
        if not self.playable[task, arm]:
            raise BadInputError(
                f"task {self.stations[task]!r} never ran under configuration {arm}: play one of Slot.allowed"
            )
        return super()._outcome(task, arm)

    def log(self, rows_per_station: int, rng: np.random.Generator) -> Samples:
        """Return a log of random configurations of every task, none again before all were taken."""
        n = whole_number(rows_per_station, name="rows_per_station", least=1)
        tasks = np.repeat(np.arange(len(self.stations)), n)
        arms = np.concatenate([_in_laps(np.flatnonzero(row), n, rng) for row in self.playable])
        y = self._cells.draw(tasks, arms, rng, noise=self.noise)
        X = self.space.features[arms]
        return Samples(self.stations, tasks, X, y, None, self.features, self.categorical, arms=arms)

    def _show(self, number: int) -> None:
        self._rewards = self._cells.draw_all(self._rng, noise=self.noise)
        self._rewards.setflags(write=False)
        holes = {s: row for s, row in zip(self.stations, self.playable, strict=True) if not row.all()}
        contexts = dict.fromkeys(self.stations, self.space.features)
        self._slot = Slot(number, contexts, {station: {} for station in self.stations}, holes)

    def _on_failures(self) -> list[str]:
        said = []
        if left := self.table.left_out:
            said.append(f"left out, as every run of it failed: {counted(len(left), 'task')}, {_some(left)}")
        if self.failed:
            first = self.failed[0]
            tasks = len({run.task for run in self.failed})
            said.append(
                f"failed: {counted(len(self.failed), 'pair')} of a task and a configuration, in "
                f"{counted(tasks, 'task')}, such as {first.task!r} under {first.configuration}; a failed run pays the "
                "worst reward of its task"
            )
            worst = [f"{self.space[arm]} for {counted(count, 'task')}" for arm, count in self.risky.items()]
            said.append(f"risky: {counted(len(worst), 'configuration')} failed, {_some(worst)}")
        return said

    def _on_holes(self) -> list[str]:
        said = []
        if holes := int((~self.playable).sum()):
            said.append(
                f"never run: {holes:,} of {self.playable.size:,} pairs of a task and a configuration; they cannot be "
                "played"
            )
        if self.table.aside:
            said.append(f"not taken for knobs, as they differ within an arm: {', '.join(self.table.aside)}")
        return said


def _in_laps(arms: IntArray, count: int, rng: np.random.Generator) -> IntArray:
    """So many of the arms in random order, all of them before any comes again, (count,)."""
    return np.concatenate([rng.permutation(arms) for _ in range(-(-count // len(arms)))])[:count]


def _some(names: tuple[str, ...] | list[str]) -> str:
    more = f" and {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more


# --- From files: a table of one's own, and the public ones that come with kinband -----------------------------------

BUNDLED: Mapping[str, Mapping[str, Goal]] = {
    "x264": {"kbs": "min", "etime": "min"},
    "gcc": {"exec": "min"},
    "nodejs": {"ops": "max"},
    "sqlite": {"q2": "min", "q13": "min", "q15": "min"},
}
"""The systems that come with kinband, their outcomes, and whether less or more of each is better."""


def read_measured(
    path: str | PathLike[str],
    outcome: str,
    *,
    goal: Goal,
    task: str = "task",
    descriptors: str | PathLike[str] | None = None,
    noise: float = 0.05,
    seed: int = 0,
    delimiter: str | None = None,
    decimal_point: str | None = None,
    **more: Any,
) -> MeasuredEnvironment:
    r"""Read a table of measurements, and return the environment that it makes.

    Args:
        path: A .csv, .csv.gz or .parquet file with one row for every run.
        outcome: The column of what was measured.
        goal: "min" where less of it is better, "max" where more is.
        task: The column of the tasks.
        descriptors: A file with what is known of the tasks, one row each.
        noise: Standard deviation of a reward where there is one measurement; see `MeasuredEnvironment`.
        seed: As if `reset(seed)` had been called.
        delimiter: What separates the columns of a text file; found if not given.
        decimal_point: The decimal mark of a text file; found if not given.
        **more: `scale`, `knobs`, `categories`, `ignore`, `failed`, `tasks`: see `MeasuredTable.from_frame`.

    Example:
        >>> import tempfile
        >>> file = Path(tempfile.mkdtemp()) / "runs.csv"
        >>> _ = file.write_text("task,level,seconds\na,1,4\na,2,2\nb,1,8\nb,2,9\n")
        >>> read_measured(file, "seconds", goal="min").truth("b").best
        0
    """
    place = path_of(path, what="a table of measurements")
    marks = {"delimiter": delimiter, "decimal_point": decimal_point}
    known = None if descriptors is None else _frame(path_of(descriptors, what="descriptors"), task, **marks)
    frame = _frame(place, task, **marks)
    with located(place, delimiter=delimiter):
        table = MeasuredTable.from_frame(frame, outcome, goal=goal, task=task, descriptors=known, **more)
    return MeasuredEnvironment(table, noise=noise, seed=seed)


def bundled_measured(
    system: str, outcome: str | None = None, *, tasks: int | None = None, noise: float = 0.05, seed: int = 0
) -> MeasuredEnvironment:
    """Return a measured problem that comes with kinband: real software, run under many configurations on many inputs.

    Args:
        system: One of `BUNDLED`.
        outcome: Which of its outcomes; the first if not given.
        tasks: Take only so many tasks, drawn by a fixed seed.
        noise: Standard deviation of a reward where there is one measurement; see `MeasuredEnvironment`.
        seed: As if `reset(seed)` had been called.

    Example:
        >>> world = bundled_measured("gcc", "exec")
        >>> len(world.stations), world.arms, world.space[0]["optim"], world.descriptors["2mm"]["#LOCs"]
        (26, 80, '-O2', 156.0)
    """
    if system not in BUNDLED:
        raise BadInputError(f"there is no bundled table {system!r}: there are {', '.join(BUNDLED)}")
    outcome = next(iter(BUNDLED[system])) if outcome is None else outcome
    if outcome not in BUNDLED[system]:
        raise BadInputError(f"{system} has no outcome {outcome!r}: it has {', '.join(BUNDLED[system])}")
    folder = Path(__file__).parent / "bundled"
    return read_measured(
        folder / f"{system}.parquet", outcome, goal=BUNDLED[system][outcome], tasks=tasks, noise=noise, seed=seed,
        descriptors=folder / f"{system}-tasks.parquet",
    )  # fmt: skip


def _frame(path: Path, task: str, **marks: str | None) -> Any:
    """The pyarrow table of a file; names of tasks are text, as a number would lose its leading zeros."""
    if check_file(path) == ".parquet":
        return read_parquet(path)
    return read_csv(path, types={task: "string"}, **marks)
