"""Comparing learners on a log or a table."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from kinband.cli.app import ctrl_c_ends_at_once
from kinband.cli.options import (
    LOG_KINDS,
    AsJson,
    KeptFolder,
    LogOptions,
    RayAddress,
    Workers,
    about,
    first_lines,
    make_folder,
    noted,
    with_options,
)
from kinband.cli.render import cell, echo_json, echo_lines, numbers_of, table
from kinband.cli.render import show as show_table
from kinband.contexts import LARGEST as LARGEST_REWARD
from kinband.environments.measured import BUNDLED, MeasuredEnvironment, bundled_measured, read_measured
from kinband.errors import BadInputError
from kinband.experiments.compare import (
    BASELINE,
    BETAS,
    ENOUGH,
    LABELS,
    OURS,
    TUNING_SEEDS,
    Comparison,
    Measure,
    Standing,
    in_words,
)
from kinband.experiments.compare import compare as fairly
from kinband.experiments.pages import save
from kinband.experiments.paper import SHARING
from kinband.experiments.problems import PLAYED, Problem, part_trace, problem_from, problems_of_groups
from kinband.experiments.runner import Mode
from kinband.planning.network import ONE_MODEL
from kinband.posterior import LARGEST_LOG
from kinband.progress import stage
from kinband.stats import Estimate, counted
from kinband.trace import Trace
from kinband.trace.answers import suspicious_states
from kinband.trace.table import rows_by_station

# --- What comparisons on a log and on a table of measurements have in common: running them, and showing the result


def check_size(rows: int, decisions: int) -> None:
    """Refuse a comparison that is too large for a controller."""
    if rows + decisions > LARGEST_LOG:
        raise BadInputError(
            f"{rows:,} rows to learn from and {decisions:,} decisions are too many, at most {LARGEST_LOG:,} in all are "
            "possible: give a smaller --log-rows or --slots"
        )


@dataclass(frozen=True)
class HowOptions:
    """How a comparison is run; what is None differs between logs and tables."""

    log_rows: Annotated[
        int | None, typer.Option(min=2, help="Rows of every station to learn from; 20, or 5 with --measured.")
    ] = None
    slots: Annotated[
        int | None,
        typer.Option(min=1, help="Decisions of a run; rounds with --parallel; 1000, or 10 rounds with --measured."),
    ] = None
    runs: Annotated[int, typer.Option(min=2, help="Runs, each with a seed of its own.")] = 5
    out: KeptFolder = Path("out/compare")
    workers: Workers = 0
    ray: RayAddress = None
    as_json: AsJson = False


def run_fair(
    problem: Any, name: str, how: HowOptions, *, slots: int, log_rows: int, mode: Mode, measure: Measure
) -> Comparison:
    """Play a comparison of all ways to share, in a folder that keeps what is done."""
    return fairly(
        [BASELINE, *SHARING, OURS], {name: problem}, seeds=how.runs, rounds=slots, log_rows=log_rows, mode=mode,
        measure=measure, cold=True, n_jobs=how.workers or None, ray=how.ray, folder=how.out, progress=not how.as_json,
    )  # fmt: skip


def show(found: Comparison, how: HowOptions, *, title: str, about: str, notes: Sequence[str], **more: Any) -> None:
    """Write the results of a comparison and its picture to the folder, and print them.

    Args:
        found: What came of it.
        how: How it was run, and where results go.
        title: Of table and picture.
        about: What was read, so that a wrong column is seen at once.
        notes: What to keep in mind when reading the result.
        **more: Further values for JSON.
    """
    files = [how.out / "regret.png", how.out / "regret.svg", how.out / "results.json"]
    (name,), axes = found.problems, found.plot()
    axes.set_title(title, loc="left")
    save(axes.figure, files[:2])
    results = {
        "title": title,
        "log": about,
        "learners": _standings(found, name),
        "answer": in_words(found, name),
        "notes": [*notes, *_few(how.runs), *_at_the_edge(found.betas[name])],
        "files": list(map(str, files)),
        **more,
    }
    files[-1].write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    if how.as_json:
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


_table_option = partial(typer.Option, rich_help_panel="A table of measurements")


@dataclass(frozen=True)
class TableOptions:
    """What is what in a table of measurements, as given on the command line."""

    measured: Annotated[
        str | None,
        _table_option(
            metavar="OUTCOME",
            help="The file is a table of tasks that were run under configurations; this is what was measured.",
        ),
    ] = None
    goal: Annotated[str | None, _table_option(metavar="min|max", help="Whether less or more of it is better; min.")] = (
        None
    )
    task: Annotated[str | None, _table_option(metavar="COLUMN", help="The tasks; 'task' if not given.")] = None
    linear: Annotated[bool, _table_option("--linear", help="Compare outcomes as differences, not as ratios.")] = False
    tasks: Annotated[int | None, _table_option(min=2, help="Take so many tasks only, drawn by a fixed seed.")] = None
    failed: Annotated[
        str | None,
        _table_option(
            metavar="COLUMN",
            help="Marks of runs that failed, 'failed' if there is one; runs without a positive outcome failed anyway.",
        ),
    ] = None


def compare_measured(table: str, outcome: str, options: TableOptions, columns: LogOptions, how: HowOptions) -> None:
    """Play the fair comparison on a table's own truth, in rounds of all tasks, and say whether sharing helps there."""
    if table in BUNDLED:
        plain = TableOptions(outcome, tasks=options.tasks)
        if options != plain or columns != LogOptions():
            raise BadInputError("the bundled tables say themselves what their columns are: leave these options out")
        options = replace(plain, goal=BUNDLED[table].get(outcome))
    elif outcome == (options.task or "task"):
        raise BadInputError(f"--measured names the column of the tasks, {outcome!r}: name what was measured")
    world = _read_table(table, outcome, options, columns)
    if (largest := float(np.nanmax(np.abs(world.table.score)))) > LARGEST_REWARD:
        raise BadInputError(f"{table}: {outcome} reaches {largest:g}, too large to compute with: give a larger unit")
    M, slots, log_rows = len(world.stations), how.slots or 10, how.log_rows or 5
    check_size(M * log_rows, M * slots)
    make_folder(how.out)
    name = Path(table).name
    better, compared = "more" if options.goal == "max" else "less", "differences" if options.linear else "ratios"
    read = f"table: {counted(M, 'task')} and {counted(world.arms, 'configuration')}; {outcome}, {better} is better"
    read += f", compared as {compared}; knobs: {', '.join(world.space.knobs)}"
    if not how.as_json:
        typer.echo(read)
    found = run_fair(world, name, how, slots=slots, log_rows=log_rows, mode="parallel", measure="expected")
    title = f"{name}: {how.runs} runs of {slots} rounds of {M:,} tasks, {M * log_rows:,} rows known"
    show(
        found, how, title=title, about=read,
        notes=[*world.notes, *_too_much_known(world, log_rows)],
        failed=[{"task": run.task, "configuration": dict(run.configuration)} for run in world.failed],
        risky=[{"configuration": world.space[arm], "tasks": count} for arm, count in world.risky.items()],
    )  # fmt: skip


def _read_table(table: str, outcome: str, options: TableOptions, columns: LogOptions) -> MeasuredEnvironment:
    with about(Path(table)), ctrl_c_ends_at_once(), np.errstate(over="ignore"):  # what overflows is refused by name
        if table in BUNDLED:
            return bundled_measured(table, outcome, tasks=options.tasks)
        goal: Any = options.goal or "min"  # checked there
        return read_measured(
            table, outcome, goal=goal, scale="linear" if options.linear else "log2", task=options.task or "task",
            knobs=columns.configuration, categories=columns.category or (), ignore=columns.ignore or (),
            failed=options.failed, tasks=options.tasks, **columns.marks,
        )  # fmt: skip


def _too_much_known(world: MeasuredEnvironment, log_rows: int) -> list[str]:
    """Say where the rows to learn from hold every configuration, so that little is left to find out."""
    if log_rows < world.arms:
        return []
    return [f"{log_rows} rows a task try every configuration beforehand: give fewer with --log-rows, at least 2"]


# --- `kinband compare`: would sharing have helped on your own log, or on a table of measurements? -------------------

_FEW_TRIED = 3  # of a knob tried less often than this, little can be learned


@with_options
def compare(
    trace: Annotated[
        str,
        typer.Argument(
            metavar="LOG",
            help=f"The log or, with --measured, the table: {LOG_KINDS}; or: bundled, and with --measured "
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
    skip_short: Annotated[bool, typer.Option("--skip-short", help="Leave out stations with too few rows.")] = False,
    parallel: Annotated[bool, typer.Option("--parallel", help="All stations in every slot (Algorithm 1).")] = False,
    seed: Annotated[int, typer.Option(min=0, help="Draws what is learned from, with --run.")] = 0,
    how: HowOptions = HowOptions(),
    table_options: TableOptions = TableOptions(),
) -> None:
    """Compare stations that share with stations that learn alone, on a log of your own or a table of measurements.

    Some rows of every station are learned from; a smooth fit to the others answers, a table of measurements by what
    was measured. Every method, kinband's default among them, gets its kernel by likelihood, its β on seeds of its
    own, and starts from the log; cold starts stand beside it.

    Example: kinband compare export.csv --station cell --time hour --reward good_share --configuration tilt --slots 600
    """
    if (outcome := table_options.measured) is not None:
        of_a_log: dict[str, Any] = {"--run": run, "--skip-short": skip_short, "--parallel": parallel, "--seed": seed}
        named = ("station", "reward", "state", "time", "samples", "reward_range", "per_cent")
        of_a_log |= {f"--{name.replace('_', '-')}": getattr(columns, name) for name in named}
        _refuse(of_a_log, "is for logs: leave it out")
        compare_measured(trace, outcome, table_options, columns, how)
        return
    of_a_table = {f"--{name}": value for name, value in vars(table_options).items()}
    _refuse(of_a_table, "is for tables of measurements: name the outcome with --measured, or leave it out")
    slots, log_rows, notes = how.slots or 1000, how.log_rows or 20, list[str]()
    with noted(notes):
        whole, groups = _read(trace, columns, run)
        asked = first_lines(whole, quiet=how.as_json)
        log, rest = part_trace(whole, log_rows, groups=groups, skip_short=skip_short, seed=seed)
        asked.check("compare")
        many = len(log.stations) > ONE_MODEL
        playing = PLAYED if many else len(log.stations)
        check_size(len(log) * playing // len(log.stations), slots * (playing if parallel else 1))
        make_folder(how.out)
        log.encoder()  # for what it notes of features that never vary
    for leak in suspicious_states(whole):  # at once, before the runs
        typer.echo(f"warning: {leak}", err=True)
    mode: Mode = "parallel" if parallel else "sequential"
    name = Path(trace).name
    problem: Problem | dict[int, Problem]
    if many:
        problem, said = _some_groups(log, rest, how, seed=seed)
        notes.append(said)
    else:
        problem = problem_from(log, rest)
    found = run_fair(problem, name, how, slots=slots, log_rows=log_rows, mode=mode, measure="realised")
    kind = "rounds" if parallel else "decisions"
    known = f"{log_rows * PLAYED:,} rows or so in each" if many else f"{len(log):,} rows"
    title = f"{name}: {how.runs} runs of {slots} {kind}, {known} known"
    notes += _doubts(whole, log, grouped=run is not None)
    show(found, how, title=title, about=asked.in_words()[0], notes=notes, answers=asked.to_dict())


def _some_groups(log: Trace, rest: Trace, how: HowOptions, *, seed: int) -> tuple[dict[int, Problem], str]:
    """A group of a large network for each run, and what is played in words, said at once."""
    seeds = [*range(1, how.runs + 1), *TUNING_SEEDS]
    with stage(f"putting {len(log.stations):,} stations into groups that answer alike to settings", len(seeds)) as step:
        drawn, groups = problems_of_groups(
            log, rest, seeds=seeds, seed=seed, workers=how.workers, ray=how.ray, tick=lambda: step("fitting groups")
        )
    played = {problem.token: problem for problem in drawn.values()}.values()
    stations = sum(len(problem.environment.stations) for problem in played)
    also = f", each played {how.runs / groups:.1f} times" if how.runs > groups else ""
    said = (
        f"WARNING: of {counted(len(log.stations), 'station')} in {groups:,} groups that answer alike to settings, "
        f"{stations:,} are played, {counted(len(played), 'group')} drawn at random: a group for each of {how.runs} runs"
        f"{also}, the others to choose β; intervals are over groups (--runs takes more)"
    )
    typer.echo(f"note: {said}", err=how.as_json)
    return drawn, said


def _refuse(given: Mapping[str, Any], why: str) -> None:
    """Refuse options that belong to the other kind of file."""
    if wrong := next((option for option, value in given.items() if value), None):
        raise BadInputError(f"{wrong} {why}")


def _read(trace: str, options: LogOptions, run: str | None) -> tuple[Trace, Any]:
    whole, groups = options.read_with_column(Path(trace), run)
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
    tried = float(np.median([len(np.unique(arms[rows])) for rows in rows_by_station(log)]))
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
