"""`kinband compare --measured`: would sharing have helped on a table of measurements, whose truth is known?"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from kinband.cli.columns import LogOptions, about_file, in_options
from kinband.cli.comparison import check_size, run_fair, show
from kinband.cli.folders import make_folder
from kinband.cli.interrupts import ctrl_c_ends_at_once
from kinband.counting import counted
from kinband.environments.measured import BUNDLED, MeasuredEnvironment, bundled_measured, read_measured
from kinband.errors import BadInputError
from kinband.experiments.paper.comparisons import Figure
from kinband.experiments.play.problems import store_table

_BETAS = (0.1, 0.3, 1.0)  # smaller than on logs: runs are short
_SPELLED = {
    "outcome=": "--measured",
    "task=": "--task",
    "knobs=": "--configuration",
    "categories=": "--category",
    "ignore=": "--ignore",
    "failed=": "--failed",
    "scale='linear'": "--linear",
    "goal must": "--goal must",
    "tasks were asked for": "tasks were asked for with --tasks",
}


@dataclass(frozen=True)
class TableOptions:
    """What is what in a table of measurements, as given on the command line.

    Attributes:
        outcome: The column of what was measured.
        goal: "min" or "max"; None where it is known, or else "min".
        task: The column of the tasks.
        linear: Whether outcomes are compared as differences, not as ratios.
        tasks: How many tasks to take; None for all.
        failed: The column that marks failed runs.

    Example:
        >>> TableOptions("seconds").words
        'seconds, less is better, compared as ratios'
    """

    outcome: str
    goal: str | None = None
    task: str | None = None
    linear: bool = False
    tasks: int | None = None
    failed: str | None = None

    @property
    def words(self) -> str:
        """What counts as better."""
        better = "more" if self.goal == "max" else "less"
        return f"{self.outcome}, {better} is better, compared as {'differences' if self.linear else 'ratios'}"


def compare_measured(
    table: str, options: TableOptions, columns: LogOptions, *, slots: int, log_rows: int, runs: int, out: Path,
    workers: int, ray: str | None, as_json: bool,
) -> None:  # fmt: skip
    """Play the fair comparison on a table's own truth, in rounds of all tasks, and say whether sharing helps there."""
    if table in BUNDLED:
        plain = TableOptions(options.outcome, tasks=options.tasks)
        if options != plain or columns != LogOptions():
            raise BadInputError("the bundled tables say themselves what their columns are: leave these options out")
        options = replace(plain, goal=BUNDLED[table].get(options.outcome))
    world = _read(table, options, columns)
    M = len(world.stations)
    check_size(M * log_rows, M * slots)
    make_folder(out)
    place = store_table(world.table, out).resolve()
    figure = Figure(
        "compare", f"measured:{place}", "parallel", slots, log_rows, (), _BETAS, ("krause-ong",), runs, slots,
        pulled=True,
    )  # fmt: skip
    found = run_fair(figure, out, workers=workers, ray=ray, quiet=as_json)
    title = f"{Path(table).name}: {runs} runs of {slots} rounds of {M:,} tasks, {M * log_rows:,} rows known"
    show(
        figure, found, out, title=title, about=_in_words(world, options), as_json=as_json,
        notes=[*world.notes, *_too_much_known(world, log_rows)],
        failed=[{"task": run.task, "configuration": dict(run.configuration)} for run in world.failed],
        risky=[{"configuration": world.space[arm], "tasks": count} for arm, count in world.risky.items()],
    )  # fmt: skip


def _read(table: str, options: TableOptions, columns: LogOptions) -> MeasuredEnvironment:
    try:
        with ctrl_c_ends_at_once():
            if table in BUNDLED:
                return bundled_measured(table, options.outcome, tasks=options.tasks)
            named: dict[str, Any] = {
                **columns.marks,
                "knobs": columns.configuration,
                "categories": columns.category or (),
            }
            named |= {"ignore": columns.ignore or (), "failed": options.failed, "tasks": options.tasks}
            named |= {"scale": "linear" if options.linear else "log2", "task": options.task or "task"}
            goal: Any = options.goal or "min"  # checked there
            return read_measured(table, options.outcome, goal=goal, **named)
    except BadInputError as error:
        raise BadInputError(about_file(Path(table), _spelled(str(error)))) from error


def _spelled(message: str) -> str:
    """A message of the library with arguments spelled as options of the command line."""
    for argument, option in _SPELLED.items():
        message = message.replace(argument, option)
    return in_options(message)


def _too_much_known(world: MeasuredEnvironment, log_rows: int) -> list[str]:
    """Say where the rows to learn from hold every configuration, so that little is left to find out."""
    if log_rows < world.arms:
        return []
    return [f"{log_rows} rows a task try every configuration beforehand: give fewer with --log-rows, at least 2"]


def _in_words(world: MeasuredEnvironment, options: TableOptions) -> str:
    """Return what was read, so that a wrong column is seen at once."""
    said = f"table: {counted(len(world.stations), 'task')} and {counted(world.arms, 'configuration')}; {options.words}"
    return f"{said}; knobs: {', '.join(world.space.knobs)}"
