"""`kinband compare`: would sharing have helped on your own log?"""

import json
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

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
from kinband.cli.folders import make_folder
from kinband.cli.interrupts import ctrl_c_ends_at_once
from kinband.cli.leaks import with_ignore
from kinband.cli.logs import LARGEST, log_in_words, noted, unwarned
from kinband.cli.progress import progress
from kinband.errors import BadInputError
from kinband.experiments.metrics import Estimate
from kinband.experiments.paper.comparisons import LABELS, Figure
from kinband.experiments.paper.figures import regret_figure
from kinband.experiments.paper.reproduce import FairProtocol, Reproducer
from kinband.experiments.paper.verdict import in_words, standings
from kinband.experiments.play.cases import Mode
from kinband.experiments.play.parts import part_trace, store_parts
from kinband.trace import Trace
from kinband.trace.leaks import reward_in_state

_FEW_RUNS = 5  # an interval over fewer is rough
_FEW_TRIED = 3  # of a knob tried less often than this, little can be learned
_BETAS = (0.3, 1.0, 2.0)


def compare(
    trace: Annotated[
        str,
        typer.Argument(metavar="LOG", help="The log: .csv, .csv.gz or .parquet; or: bundled.", show_default=False),
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
    log_rows: Annotated[int, typer.Option(min=2, help="Rows of every station to learn from.")] = 20,
    skip_short: Annotated[bool, typer.Option("--skip-short", help="Leave out stations with too few rows.")] = False,
    slots: Annotated[int, typer.Option(min=1, help="Decisions of a run; rounds with --parallel.")] = 1000,
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
    as_json: AsJson = False,
) -> None:
    """Compare stations that share with stations that learn alone, on a log of your own.

    Some rows of every station are learned from; the others answer by nearest neighbours. Every method, kinband's
    default among them, gets its kernel by likelihood, its β on seeds of its own, and starts from the log; cold starts
    stand beside it.

    Example: kinband compare export.csv --station cell --time hour --reward good_share --configuration tilt --slots 600
    """
    options = LogOptions(
        station=station, reward=reward, configuration=configuration, category=category, state=state, ignore=ignore,
        time=time, samples=samples, reward_range=reward_range, per_cent=per_cent, delimiter=delimiter,
        decimal_point=decimal_point,
    )  # fmt: skip
    notes: list[str] = []
    with noted(notes):
        whole, groups = _read(trace, options, run)
        log, rest = _parted(whole, log_rows, groups=groups, skip_short=skip_short, seed=seed)
        _check_size(log, slots * (len(log.stations) if parallel else 1))
        make_folder(out)
        log.encoder()  # for what it notes of features that never vary
    for sentence in reward_in_state(whole):  # at once, before the runs
        typer.echo(f"warning: {with_ignore(sentence)}", err=True)
    mode: Mode = "parallel" if parallel else "sequential"
    place = str(store_parts(log, rest, out).resolve())
    figure = Figure("compare", place, mode, slots, log_rows, (), _BETAS, ("krause-ong",), runs, slots, by_default=True)
    found = _run(figure, out, workers=workers, ray=ray, quiet=as_json)
    title = (
        f"{Path(trace).name}: {runs} runs of {slots} {'rounds' if parallel else 'decisions'}, {len(log):,} rows known"
    )
    files = [out / "regret.png", out / "regret.svg", out / "results.json"]
    regret_figure(found.curves, files[:2], labels=LABELS, title=title)
    results = {
        "title": title,
        "log": log_in_words(whole, whole),
        "learners": standings(found),
        "answer": in_words(found),
        "notes": [*notes, *_doubts(whole, log, runs=runs, grouped=run is not None), *_at_the_edge(found)],
        "files": list(map(str, files)),
    }
    files[-1].write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    if as_json:
        typer.echo(json.dumps(results, indent=1))
    else:
        _print(results)


def _at_the_edge(found: FairProtocol) -> list[str]:
    """Say which learners took the largest β that was tried: a larger one might have suited them better."""
    edge = [LABELS[name] for name, beta in found.betas.items() if beta == max(_BETAS)]
    return [f"β = {max(_BETAS):g}, the largest that was tried, suited best: {'; '.join(edge)}"] if edge else []


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


def _check_size(log: Trace, decisions: int) -> None:
    if len(log) + decisions > LARGEST:
        raise BadInputError(
            f"{len(log):,} rows to learn from and {decisions:,} decisions are too many, at most {LARGEST:,} in all are "
            "possible: give a smaller --log-rows or --slots"
        )


def _run(figure: Figure, out: Path, *, workers: int, ray: str | None, quiet: bool) -> FairProtocol:
    runner = Reproducer(out, workers=workers or None, ray=ray)
    with unwarned(), progress(runner.effort(figure, protocols=("fair",)), quiet=quiet) as step:
        runner.tick = step
        found = runner.run(figure, protocols=("fair",)).fair
    if found is None:
        raise AssertionError("the fair protocol was asked for")
    return found


def _doubts(whole: Trace, log: Trace, *, runs: int, grouped: bool) -> list[str]:
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
    return [*doubts, f"intervals over {runs} runs are rough: give more with --runs"] if runs < _FEW_RUNS else doubts


def _print(results: dict[str, Any]) -> None:
    typer.echo(results["log"])
    table = Table(title=results["title"])
    table.add_column("learner", overflow="fold")
    for column in ("β", "regret\n(95 % interval)", "saved", "saved,\ncold start"):
        table.add_column(column, justify="right", no_wrap=True)
    for row in results["learners"]:
        saved = (_cell(row["saved"], ".0%"), _cell(row["cold"]["saved"], ".0%"))
        table.add_row(row["label"], str(row["beta"]), _cell(row["regret"], ".3g"), *saved)
    Console().print(table)
    lines = [f"note: {note}" for note in results["notes"]] + [f"file: {file}" for file in results["files"]]
    typer.echo("\n".join([results["answer"], *lines]))


def _cell(numbers: dict[str, Any] | None, spec: str) -> str:
    """Return a number for a narrow column: its interval goes below it."""
    if numbers is None:
        return "-"
    return f"{Estimate(numbers['mean'], *numbers['interval']):{spec}}".replace(" (", "\n(")
