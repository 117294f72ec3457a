"""`kinband recommend`: from a log and the present state of the stations to a change plan and its roll-back."""

import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from math import floor, log10
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from kinband.cli.options import (
    LARGEST,
    AsJson,
    LogFile,
    LogOptions,
    Rows,
    Seed,
    SimilarityOption,
    check_log,
    few_rows,
    likeness_of,
    log_in_words,
    make_folder,
    noted,
    used_rows,
    with_log_options,
)
from kinband.controller import Controller
from kinband.controller.explain import configuration_text
from kinband.counting import counted
from kinband.errors import BadInputError
from kinband.planning import (
    NEGLIGIBLE,
    Change,
    ChangePlan,
    Present,
    check_folder,
    check_step,
    plan_changes,
    read_present,
    share_text,
)
from kinband.space import ConfigurationSpace
from kinband.trace import Trace
from kinband.trace.files import located

_SHOWN = 20  # stations listed on the screen; the files list all


@with_log_options
def recommend(
    log: LogFile,
    now: Annotated[
        Path,
        typer.Option(
            metavar="STATES",
            help="The stations as they are now: a file with station, state and knob columns named as in the log.",
            show_default=False,
        ),
    ],
    columns: LogOptions = LogOptions(),
    explore: Annotated[
        bool,
        typer.Option(
            "--explore/--exploit", help="Propose what is most worth trying, or only gains that are all but certain."
        ),
    ] = False,
    beta: Annotated[
        float, typer.Option(min=0.0, help="With --explore: how many standard deviations of doubt count as promise.")
    ] = 1.0,
    least_gain: Annotated[float, typer.Option(min=0.0, help="Gain in reward below which nothing is changed.")] = 0.0,
    max_changes: Annotated[int | None, typer.Option(min=1, help="The most changes to make, largest first.")] = None,
    step: Annotated[
        list[str] | None,
        typer.Option(metavar="KNOB=VALUE", help="The furthest a knob may move from its present value; 0 keeps it."),
    ] = None,
    similarity: SimilarityOption = None,
    rows: Rows = None,
    seed: Seed = 0,
    out: Annotated[Path, typer.Option(help="Folder for the plan and its roll-back.")] = Path("out/recommend"),
    replace: Annotated[bool, typer.Option("--replace", help="Replace a plan that is already in the folder.")] = False,
    as_json: AsJson = False,
) -> None:
    """Turn a log and the present state of the stations into a change plan with reasons and a roll-back.

    Example: kinband recommend export.csv --now states.csv --configuration tilt --step tilt=2 --max-changes 10
    """
    notes: list[str] = []
    quiet = Console(stderr=True, quiet=as_json)
    with noted(notes):
        trace = columns.read(log)
        check_log(trace)
        space = _tried(trace.space())
        present = _present(now, trace, station=columns.station or "station", marks=columns.marks)
        steps = _steps(step or [], space)
        likeness = likeness_of(similarity)
        _check_out(out, replace=replace)
        used = _learnable(used_rows(trace, rows, seed=seed))
        notes += few_rows(used)
        with (
            _gathered(notes),
            quiet.status(f"learning from {len(used):,} rows of {counted(len(trace.stations), 'station')}"),
        ):
            controller = Controller.from_trace(used, space, similarity=likeness, beta=beta, seed=seed)
        with _progress(quiet) as progress:
            bar = progress.add_task("planning", total=len(present))
            plan = plan_changes(
                controller,
                present,
                explore=explore,
                least_gain=least_gain,
                max_changes=max_changes,
                steps=steps,
                tick=lambda _: progress.update(bar, advance=1),
            )
    files = plan.write(out, replace=replace)
    if as_json:
        read = {"rows": len(trace), "rows_used": len(used), "similarity": controller.similarity.method}
        typer.echo(json.dumps({**plan.to_dict(), **read, "files": list(map(str, files)), "notes": notes}, indent=1))
        return
    typer.echo(log_in_words(trace, used))
    _print(plan, Console())
    typer.echo("\n".join([*(f"note: {note}" for note in notes), *_file_lines(files)]))


class _Gathering(logging.Handler):
    """Takes what the program's log warns of as notes to the user."""

    def __init__(self, notes: list[str]) -> None:
        super().__init__(logging.WARNING)
        self._notes = notes

    def emit(self, record: logging.LogRecord) -> None:
        self._notes.append(record.getMessage())


@contextmanager
def _gathered(notes: list[str]) -> Iterator[None]:
    """Gather what the controller warns of; it is then said once, and in --json too."""
    handler, logger = _Gathering(notes), logging.getLogger("kinband.controller")
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)


def _present(now: Path, trace: Trace, *, station: str, marks: dict[str, str]) -> dict[str, Present]:
    """Return the stations as they are now, or say which line of the file is in the way."""
    with located(now, delimiter=marks["delimiter"]):
        return read_present(now, trace.space(), state=trace.state_names, station=station, **marks)


def _steps(given: list[str], space: ConfigurationSpace) -> dict[str, float]:
    """Return the steps of the command line by knob."""
    steps: dict[str, float] = {}
    for text in given:
        knob, equals, value = text.rpartition("=")
        try:
            steps[knob] = float(value)
        except ValueError:
            equals = ""
        if not equals:
            raise BadInputError(f"--step takes KNOB=VALUE, such as {next(iter(space.knobs))}=2, got {text!r}")
        check_step(space, knob, step=steps[knob])
    return steps


def _check_out(out: Path, *, replace: bool) -> None:
    """Refuse the folder now rather than after a minute of work."""
    check_folder(out, replace=replace)
    make_folder(out)


def _tried(space: ConfigurationSpace) -> ConfigurationSpace:
    """Return the configurations of a log, or say that it holds no trials."""
    if len(space) == 1:
        raise BadInputError(
            f"every row of the log ran {configuration_text(space[0], 0)}: it holds no trials, and nothing can be "
            "learned about other settings"
        )
    return space


def _learnable(used: Trace) -> Trace:
    if len(used) > LARGEST:
        raise BadInputError(
            f"{len(used):,} rows are too many to learn from, at most {LARGEST:,} are possible: give a smaller --rows"
        )
    return used


def _progress(console: Console) -> Progress:
    columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
    return Progress(*columns, console=console, transient=True)


def _print(plan: ChangePlan, console: Console) -> None:
    stations = len(plan.changes) + len(plan.left_alone)
    total = sum(change.gain.value for change in plan.changes)
    kind = "worth trying" if plan.explore else "worth making"
    gain = f", together expected to gain {total:+.3g} in reward" if plan.changes else ""
    count = counted(len(plan.changes), "change")
    console.print(f"{count} {kind} among {counted(stations, 'station')}{gain}.", highlight=False, soft_wrap=True)
    if plan.changes:
        console.print(_changes_table(plan))
    if plan.left_alone:
        console.print("Left alone:")
        console.print(_left_alone_table(plan))


def _changes_table(plan: ChangePlan) -> Table:
    table = Table()
    table.add_column("station", overflow="fold")
    table.add_column(Text(plan.knobs[0] if len(plan.knobs) == 1 else "change"), justify="right", overflow="fold")
    for column in ("gain", "95 % interval", "borrowed"):
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("most from", overflow="fold")
    digits = _digits(max(abs(change.gain.value) for change in plan.changes))
    for change in plan.changes[:_SHOWN]:
        table.add_row(*map(Text, _cells(change, digits=digits)))
    if len(plan.changes) > _SHOWN:
        table.caption = f"and {len(plan.changes) - _SHOWN:,} more in plan.csv"
    return table


def _digits(largest: float) -> int:
    """Return the decimals that show two digits of the largest gain; the file has more."""
    return max(0, 1 - floor(log10(largest))) if largest > 0 else 3


def _cells(change: Change, *, digits: int) -> list[str]:
    gain, low, high = (f"{value:+.{digits}f}" for value in (change.gain.value, change.gain.low, change.gain.high))
    lender = f"{change.lenders[0][0]} {share_text(change.lenders[0][1])}" if change.borrowed >= NEGLIGIBLE else "-"
    return [change.station, _moves(change), gain, f"{low} to {high}", share_text(change.borrowed), lender]


def _moves(change: Change) -> str:
    """Return the knobs that move, by name if there are several knobs."""
    named = len(change.present) > 1
    return "\n".join(
        f"{f'{knob} ' if named else ''}{change.present[knob]} → {value}"
        for knob, value in change.proposed.items()
        if value != change.present[knob]
    )


def _left_alone_table(plan: ChangePlan) -> Table:
    table = Table()
    table.add_column("station", overflow="fold")
    table.add_column("why", no_wrap=True)
    table.add_column("in words")
    for left in plan.left_alone[:_SHOWN]:
        table.add_row(Text(left.station), left.why, Text(left.reason))
    if len(plan.left_alone) > _SHOWN:
        table.caption = f"and {len(plan.left_alone) - _SHOWN:,} more in left_alone.csv"
    return table


def _file_lines(files: list[Path]) -> list[str]:
    kinds = {"plan.csv": "plan", "rollback.csv": "roll-back", "left_alone.csv": "left alone"}
    order = list(kinds)
    return [f"{kinds[file.name]}: {file}" for file in sorted(files, key=lambda file: order.index(file.name))]
