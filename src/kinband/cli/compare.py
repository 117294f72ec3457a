"""`kinband compare`: would sharing have helped on your own log, or on a table of measurements?"""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from kinband.cli.columns import (
    AsJson,
    CategoryColumns,
    DecimalPoint,
    Delimiter,
    IgnoredColumns,
    KnobColumns,
    LogOptions,
    PerCent,
    RewardColumn,
    RewardRange,
    SamplesColumn,
    StateColumns,
    StationColumn,
    TimeColumn,
    in_options,
)
from kinband.cli.compare_measured import TableOptions, compare_measured
from kinband.cli.comparison import check_size, run_fair, show
from kinband.cli.folders import make_folder
from kinband.cli.interrupts import ctrl_c_ends_at_once
from kinband.cli.leaks import with_ignore
from kinband.cli.logs import log_in_words, noted
from kinband.environments.measured import BUNDLED
from kinband.errors import BadInputError
from kinband.experiments.paper.comparisons import Figure
from kinband.experiments.play.cases import Mode
from kinband.experiments.play.problems import part_trace, store_parts
from kinband.trace import Trace
from kinband.trace.table import reward_in_state

_FEW_TRIED = 3  # of a knob tried less often than this, little can be learned
_BETAS = (0.1, 0.3, 1.0)
_PANEL = "A table of measurements"


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
    station: StationColumn = None,
    reward: RewardColumn = None,
    configuration: KnobColumns = None,
    category: CategoryColumns = None,
    state: StateColumns = None,
    ignore: IgnoredColumns = None,
    time: TimeColumn = None,
    samples: SamplesColumn = None,
    reward_range: RewardRange = None,
    per_cent: PerCent = False,
    delimiter: Delimiter = ",",
    decimal_point: DecimalPoint = ".",
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
    out: Annotated[Path, typer.Option(help="Folder for results and figures; runs that are there are kept.")] = Path(
        "out/compare"
    ),
    workers: Annotated[int, typer.Option(min=0, help="Processes; 0 for one per core.")] = 0,
    ray: Annotated[
        str | None, typer.Option(help="Run on the Ray cluster at host:port instead, or on 'auto', this machine's.")
    ] = None,
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
    options = LogOptions(
        station=station, reward=reward, configuration=configuration, category=category, state=state, ignore=ignore,
        time=time, samples=samples, reward_range=reward_range, per_cent=per_cent, delimiter=delimiter,
        decimal_point=decimal_point,
    )  # fmt: skip
    if measured is not None:
        of_a_log: dict[str, Any] = {"--run": run, "--skip-short": skip_short, "--parallel": parallel, "--seed": seed}
        of_a_log |= {"--station": station, "--reward": reward, "--state": state, "--time": time, "--samples": samples}
        _refuse(of_a_log | {"--reward-range": reward_range, "--per-cent": per_cent}, "is for logs: leave it out")
        compare_measured(
            trace, TableOptions(measured, goal, task, linear, tasks, failed), options, slots=slots or 10,
            log_rows=log_rows or 5, runs=runs, out=out, workers=workers, ray=ray, as_json=as_json,
        )  # fmt: skip
        return
    of_a_table = {"--goal": goal, "--task": task, "--linear": linear, "--tasks": tasks, "--failed": failed}
    _refuse(of_a_table, "is for tables of measurements: name the outcome with --measured, or leave it out")
    slots, log_rows = slots or 1000, log_rows or 20
    notes: list[str] = []
    with noted(notes):
        whole, groups = _read(trace, options, run)
        log, rest = _parted(whole, log_rows, groups=groups, skip_short=skip_short, seed=seed)
        check_size(len(log), slots * (len(log.stations) if parallel else 1))
        make_folder(out)
        log.encoder()  # for what it notes of features that never vary
    for sentence in reward_in_state(whole):  # at once, before the runs
        typer.echo(f"warning: {with_ignore(sentence)}", err=True)
    mode: Mode = "parallel" if parallel else "sequential"
    place = str(store_parts(log, rest, out).resolve())
    figure = Figure("compare", place, mode, slots, log_rows, (), _BETAS, ("krause-ong",), runs, slots, pulled=True)
    found = run_fair(figure, out, workers=workers, ray=ray, quiet=as_json)
    title = (
        f"{Path(trace).name}: {runs} runs of {slots} {'rounds' if parallel else 'decisions'}, {len(log):,} rows known"
    )
    notes += _doubts(whole, log, grouped=run is not None)
    show(figure, found, out, title=title, about=log_in_words(whole, whole), notes=notes, as_json=as_json)


def _refuse(given: Mapping[str, Any], why: str) -> None:
    """Refuse options that belong to the other kind of file."""
    if wrong := next((option for option, value in given.items() if value), None):
        raise BadInputError(f"{wrong} {why}")


def _read(trace: str, options: LogOptions, run: str | None) -> tuple[Trace, Any]:
    if trace != "bundled":
        whole, groups = options.read_beside(Path(trace), run)
    elif options != LogOptions() or run is not None:
        raise BadInputError("the bundled trace says itself what its columns are: leave these options out")
    else:
        with ctrl_c_ends_at_once():
            whole, groups = Trace.bundled(), None
    if whole.time is None and groups is None:
        raise BadInputError(
            f"{trace} has no time, and its earliest rows are to be learned from: name its column with --time, or with "
            "--run what rows belong together"
        )
    return whole, groups


def _parted(whole: Trace, log_rows: int, **how: Any) -> tuple[Trace, Trace]:
    try:
        return part_trace(whole, log_rows, **how)
    except BadInputError as error:
        raise BadInputError(in_options(str(error))) from error


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
