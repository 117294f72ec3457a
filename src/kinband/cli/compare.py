"""Comparing learners on a log or a table."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from kinband.cli.app import ctrl_c_ends_at_once
from kinband.cli.options import (
    LARGEST,
    AsJson,
    KeptFolder,
    LogOptions,
    RayAddress,
    Workers,
    about,
    log_in_words,
    make_folder,
    noted,
    with_log_options,
)
from kinband.cli.render import cell, echo_json, echo_lines, numbers_of, table
from kinband.cli.render import show as show_table
from kinband.contexts import LARGEST as LARGEST_REWARD
from kinband.counting import counted
from kinband.environments.measured import BUNDLED, MeasuredEnvironment, bundled_measured, read_measured
from kinband.errors import BadInputError
from kinband.experiments.compare import (
    BASELINE,
    BETAS,
    ENOUGH,
    LABELS,
    OURS,
    Comparison,
    Measure,
    Standing,
    in_words,
)
from kinband.experiments.compare import compare as fairly
from kinband.experiments.pages import save
from kinband.experiments.paper import SHARING
from kinband.experiments.problems import part_trace, problem_from
from kinband.experiments.runner import Mode
from kinband.stats import Estimate
from kinband.trace import Trace
from kinband.trace.table import reward_in_state

# --- What comparisons on a log and on a table of measurements have in common: running them, and showing the result


def check_size(rows: int, decisions: int) -> None:
    """Refuse a comparison that is too large for a controller."""
    if rows + decisions > LARGEST:
        raise BadInputError(
            f"{rows:,} rows to learn from and {decisions:,} decisions are too many, at most {LARGEST:,} in all are "
            "possible: give a smaller --log-rows or --slots"
        )


def run_fair(
    problem: Any,
    name: str,
    *,
    slots: int,
    log_rows: int,
    runs: int,
    mode: Mode,
    measure: Measure,
    out: Path,
    workers: int,
    ray: str | None,
    quiet: bool,
) -> Comparison:
    """Play a comparison of all ways to share, in a folder that keeps what is done."""
    return fairly(
        [BASELINE, *SHARING, OURS], {name: problem}, seeds=runs, rounds=slots, log_rows=log_rows, mode=mode,
        measure=measure, cold=True, n_jobs=workers or None, ray=ray, folder=out, progress=not quiet,
    )  # fmt: skip


def show(
    found: Comparison,
    out: Path,
    *,
    title: str,
    about: str,
    notes: Sequence[str],
    as_json: bool,
    **more: Any,
) -> None:
    """Write the results of a comparison and its picture to the folder, and print them.

    Args:
        found: What came of it.
        out: The folder.
        title: Of table and picture.
        about: What was read, so that a wrong column is seen at once.
        notes: What to keep in mind when reading the result.
        as_json: Whether to print JSON.
        **more: Further values for JSON.
    """
    files = [out / "regret.png", out / "regret.svg", out / "results.json"]
    (name,), axes = found.problems, found.plot()
    axes.set_title(title, loc="left")
    save(axes.figure, files[:2])
    results = {
        "title": title,
        "log": about,
        "learners": _standings(found, name),
        "answer": in_words(found, name),
        "notes": [*notes, *_few(len(found.regrets(name)[BASELINE])), *_at_the_edge(found.betas[name])],
        "files": list(map(str, files)),
        **more,
    }
    files[-1].write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    if as_json:
        echo_json(results)
    else:
        _print(results)


def _standings(found: Comparison, name: str) -> list[dict[str, Any]]:
    """What every learner paid and saved, started from the log and cold, in JSON's types."""
    warm, cold = found.standings(name), found.standings(name, cold=True)
    return [
        {"learner": one, "label": LABELS[one], "beta": warm[one].beta, **_paid(warm[one]), "cold": _paid(cold[one])}
        for one in warm
    ]


def _paid(one: Standing) -> dict[str, Any]:
    return {"regret": numbers_of(one.regret), "saved": numbers_of(one.saved)}


def _few(runs: int) -> list[str]:
    return [f"intervals over {runs} runs are rough: give more with --runs"] if runs < ENOUGH else []


def _at_the_edge(betas: Mapping[str, float | str]) -> list[str]:
    """Say which learners took the largest β that was tried: a larger one might have suited them better."""
    edge = [LABELS[name] for name, beta in betas.items() if beta == max(BETAS)]
    return [f"β = {max(BETAS):g}, the largest that was tried, suited best: {'; '.join(edge)}"] if edge else []


def _print(results: dict[str, Any]) -> None:
    typer.echo(results["log"])
    columns = ("β", "regret\n(95 % interval)", "saved", "saved,\ncold start")
    made = table("learner", numbers=columns, title=results["title"])
    for row in results["learners"]:
        numbers = ((row["regret"], ".3g"), (row["saved"], ".0%"), (row["cold"]["saved"], ".0%"))
        made.add_row(row["label"], str(row["beta"]), *(_cell(number, spec) for number, spec in numbers))
    show_table(made)
    echo_lines(results["answer"], notes=results["notes"], files=results["files"])


def _cell(numbers: dict[str, Any] | None, spec: str) -> str:
    return cell(None if numbers is None else Estimate(numbers["mean"], *numbers["interval"]), spec)


# --- `kinband compare --measured`: would sharing have helped on a table of measurements, whose truth is known? ------


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
    elif options.outcome == (options.task or "task"):
        raise BadInputError(f"--measured names the column of the tasks, {options.outcome!r}: name what was measured")
    world = _read_table(table, options, columns)
    if (largest := float(np.nanmax(np.abs(world.table.score)))) > LARGEST_REWARD:
        raise BadInputError(
            f"{table}: {options.outcome} reaches {largest:g}, too large to reckon with: give a larger unit"
        )
    M = len(world.stations)
    check_size(M * log_rows, M * slots)
    make_folder(out)
    found = run_fair(
        world, Path(table).name, slots=slots, log_rows=log_rows, runs=runs, mode="parallel", measure="expected",
        out=out, workers=workers, ray=ray, quiet=as_json,
    )  # fmt: skip
    title = f"{Path(table).name}: {runs} runs of {slots} rounds of {M:,} tasks, {M * log_rows:,} rows known"
    show(
        found, out, title=title, about=_in_words(world, options), as_json=as_json,
        notes=[*world.notes, *_too_much_known(world, log_rows)],
        failed=[{"task": run.task, "configuration": dict(run.configuration)} for run in world.failed],
        risky=[{"configuration": world.space[arm], "tasks": count} for arm, count in world.risky.items()],
    )  # fmt: skip


def _read_table(table: str, options: TableOptions, columns: LogOptions) -> MeasuredEnvironment:
    with about(Path(table)), ctrl_c_ends_at_once(), np.errstate(over="ignore"):  # what overflows is refused by name
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


def _too_much_known(world: MeasuredEnvironment, log_rows: int) -> list[str]:
    """Say where the rows to learn from hold every configuration, so that little is left to find out."""
    if log_rows < world.arms:
        return []
    return [f"{log_rows} rows a task try every configuration beforehand: give fewer with --log-rows, at least 2"]


def _in_words(world: MeasuredEnvironment, options: TableOptions) -> str:
    """Return what was read, so that a wrong column is seen at once."""
    said = f"table: {counted(len(world.stations), 'task')} and {counted(world.arms, 'configuration')}; {options.words}"
    return f"{said}; knobs: {', '.join(world.space.knobs)}"


# --- `kinband compare`: would sharing have helped on your own log, or on a table of measurements? -------------------

_FEW_TRIED = 3  # of a knob tried less often than this, little can be learned
_PANEL = "A table of measurements"


@with_log_options
def compare(
    trace: Annotated[
        str,
        typer.Argument(
            metavar="LOG",
            help="The log or, with --measured, the table: .csv, .csv.gz or .parquet; or: bundled, and with --measured "
            f"{', '.join(BUNDLED)}.",
            show_default=False,
        ),
    ],
    columns: LogOptions = LogOptions(),
    run: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="Rows that belong together, such as a measurement run or a day: half of these, whole and drawn at "
            "random, are learned from. The earliest rows of every station if not given.",
        ),
    ] = None,
    log_rows: Annotated[
        int | None, typer.Option(min=2, help="Rows of every station to learn from; 20, or 5 with --measured.")
    ] = None,
    skip_short: Annotated[bool, typer.Option("--skip-short", help="Leave out stations with too few rows.")] = False,
    slots: Annotated[
        int | None,
        typer.Option(min=1, help="Decisions of a run; rounds with --parallel; 1000, or 10 rounds with --measured."),
    ] = None,
    runs: Annotated[int, typer.Option(min=2, help="Runs, each with a seed of its own.")] = 5,
    parallel: Annotated[bool, typer.Option("--parallel", help="All stations in every slot (Algorithm 1).")] = False,
    seed: Annotated[int, typer.Option(min=0, help="Draws what is learned from, with --run.")] = 0,
    out: KeptFolder = Path("out/compare"),
    workers: Workers = 0,
    ray: RayAddress = None,
    measured: Annotated[
        str | None,
        typer.Option(
            metavar="OUTCOME",
            help="The file is a table of tasks that were run under configurations; this is what was measured.",
            rich_help_panel=_PANEL,
        ),
    ] = None,
    goal: Annotated[
        str | None,
        typer.Option(metavar="min|max", help="Whether less or more of it is better; min.", rich_help_panel=_PANEL),
    ] = None,
    task: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="The tasks; 'task' if not given.", rich_help_panel=_PANEL),
    ] = None,
    linear: Annotated[
        bool,
        typer.Option("--linear", help="Compare outcomes as differences, not as ratios.", rich_help_panel=_PANEL),
    ] = False,
    tasks: Annotated[
        int | None,
        typer.Option(min=2, help="Take so many tasks only, drawn by a fixed seed.", rich_help_panel=_PANEL),
    ] = None,
    failed: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="Marks of runs that failed, 'failed' if there is one; runs without a positive outcome failed anyway.",
            rich_help_panel=_PANEL,
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Compare stations that share with stations that learn alone, on a log of your own or a table of measurements.

    Some rows of every station are learned from; a smooth fit to the others answers, a table of measurements by what
    was measured. Every method, kinband's default among them, gets its kernel by likelihood, its β on seeds of its
    own, and starts from the log; cold starts stand beside it.

    Example: kinband compare export.csv --station cell --time hour --reward good_share --configuration tilt --slots 600
    """
    if measured is not None:
        of_a_log: dict[str, Any] = {"--run": run, "--skip-short": skip_short, "--parallel": parallel, "--seed": seed}
        named = ("station", "reward", "state", "time", "samples", "reward_range", "per_cent")
        of_a_log |= {f"--{name.replace('_', '-')}": getattr(columns, name) for name in named}
        _refuse(of_a_log, "is for logs: leave it out")
        compare_measured(
            trace, TableOptions(measured, goal, task, linear, tasks, failed), columns, slots=slots or 10,
            log_rows=log_rows or 5, runs=runs, out=out, workers=workers, ray=ray, as_json=as_json,
        )  # fmt: skip
        return
    of_a_table = {"--goal": goal, "--task": task, "--linear": linear, "--tasks": tasks, "--failed": failed}
    _refuse(of_a_table, "is for tables of measurements: name the outcome with --measured, or leave it out")
    slots, log_rows = slots or 1000, log_rows or 20
    notes: list[str] = []
    with noted(notes):
        whole, groups = _read(trace, columns, run)
        log, rest = part_trace(whole, log_rows, groups=groups, skip_short=skip_short, seed=seed)
        check_size(len(log), slots * (len(log.stations) if parallel else 1))
        make_folder(out)
        log.encoder()  # for what it notes of features that never vary
    for sentence in reward_in_state(whole):  # at once, before the runs
        typer.echo(f"warning: {sentence}", err=True)
    mode: Mode = "parallel" if parallel else "sequential"
    found = run_fair(
        problem_from(log, rest), Path(trace).name, slots=slots, log_rows=log_rows, runs=runs, mode=mode,
        measure="realised", out=out, workers=workers, ray=ray, quiet=as_json,
    )  # fmt: skip
    title = (
        f"{Path(trace).name}: {runs} runs of {slots} {'rounds' if parallel else 'decisions'}, {len(log):,} rows known"
    )
    notes += _doubts(whole, log, grouped=run is not None)
    show(found, out, title=title, about=log_in_words(whole, whole), notes=notes, as_json=as_json)


def _refuse(given: Mapping[str, Any], why: str) -> None:
    """Refuse options that belong to the other kind of file."""
    if wrong := next((option for option, value in given.items() if value), None):
        raise BadInputError(f"{wrong} {why}")


def _read(trace: str, options: LogOptions, run: str | None) -> tuple[Trace, Any]:
    whole, groups = options.read_beside(Path(trace), run)
    if whole.time is None and groups is None:
        raise BadInputError(
            f"{trace} has no time, and its earliest rows are to be learned from: name its column with --time, or with "
            "--run what rows belong together"
        )
    return whole, groups


def _doubts(whole: Trace, log: Trace, *, grouped: bool) -> list[str]:
    """Return what to keep in mind when reading the result."""
    space = log.space()
    arms = space.indices(log.configuration)
    tried = float(np.median([len(np.unique(arms[log.station == station])) for station in log.stations]))
    doubts = []
    if left := len(whole.stations) - len(log.stations):
        doubts.append(f"{left:,} of {len(whole.stations):,} stations have too few rows and are left out")
    also = "" if grouped else ", or whole runs with --run"
    if tried < min(_FEW_TRIED, len(space)):
        doubts.append(
            f"in its rows to learn from, a station tried {tried:g} of {len(space):,} configurations (median), which "
            f"teaches little about the knobs: give more with --log-rows{also}"
        )
    return doubts
