"""Measured problems from files: a table of one's own, and the public ones that come with kinband."""

from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any

from kinband.environments.measured.environment import MeasuredEnvironment
from kinband.environments.measured.table import Goal, MeasuredTable
from kinband.errors import BadInputError
from kinband.trace.files import check_file, located, path_of, read_csv, read_parquet

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
    delimiter: str = ",",
    decimal_point: str = ".",
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
        delimiter: What parts the columns of a CSV file.
        decimal_point: The decimal mark of a CSV file.
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


def _frame(path: Path, task: str, **marks: str) -> Any:
    """The pyarrow table of a file; names of tasks are text, as a number would lose its leading zeros."""
    if check_file(path) == ".parquet":
        return read_parquet(path)
    return read_csv(path, types={task: "string"}, **marks)
