"""`kinband evaluate`: before the first trial, what would a policy have earned?"""

import json
from math import floor, log10
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table
from rich.text import Text

from kinband.arrays import FloatArray
from kinband.cli.app import ctrl_c_ends_at_once
from kinband.cli.options import (
    AsJson,
    LogOptions,
    Seed,
    SimilarityOption,
    check_log,
    likeness_of,
    log_in_words,
    noted,
    with_log_options,
)
from kinband.errors import BadInputError
from kinband.ope import Evaluation
from kinband.ope import evaluate as evaluation_of
from kinband.ope.evaluating import LEARN_ROWS, MODEL
from kinband.progress import progress
from kinband.space import ConfigurationSpace
from kinband.stats import REACH, Estimate
from kinband.trace import Trace

_LARGEST = 10_000  # rows that a model can be learned from
_STATIONS = 5  # with the fewest effective rows, shown


@with_log_options
def evaluate(
    trace: Annotated[
        str,
        typer.Argument(metavar="[LOG]", help="The log: .csv, .csv.gz or .parquet; or: bundled.", show_default=True),
    ] = "bundled",
    policy: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME|KNOB=VALUE",
            help="recommend (if not given): what kinband would recommend after the earlier rows; usual: every station "
            "at what it ran most; or one configuration for all, repeated for several knobs.",
        ),
    ] = None,
    propensity: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="The probability with which the configuration of a row was chosen; estimated from frequencies if not "
            "given.",
        ),
    ] = None,
    columns: LogOptions = LogOptions(),
    learn_share: Annotated[
        float, typer.Option(min=0.05, max=0.95, help="Share of every station's rows to learn from, its earliest.")
    ] = 0.5,
    folds: Annotated[int, typer.Option(min=2, max=50, help="Parts of the later rows, each judged by the others.")] = 5,
    clip: Annotated[
        float | None, typer.Option(min=1.0, help="Cut weights above this, which biases the answer; none if not given.")
    ] = None,
    similarity: SimilarityOption = None,
    rows: Annotated[
        int | None,
        typer.Option(
            min=2,
            help=f"Rows of each station that models learn from, of either part, drawn at random; {LEARN_ROWS:,} in all "
            "if not given. All later rows are judged.",
        ),
    ] = None,
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Estimate from a log what a policy would have earned, before anything is tried.

    Three estimators with intervals, by the model, by inverse propensity and doubly robust, against what the stations
    usually run; and a warning where the log never tried what the policy wants.

    Example: kinband evaluate export.csv --station cell --reward good_share --configuration tilt --policy tilt=4
    """
    notes: list[str] = []
    with noted(notes):
        log, column = _read(trace, columns, propensity)
        check_log(log)
        wanted = _policy(policy or ["recommend"], log.space())
        likeness = likeness_of(similarity) or "joint"
        _check_size(rows, len(log.stations))
        chances = None if column is None else _numbers(column, propensity or "", decimal_point=columns.decimal_point)
        with progress(folds + 2, quiet=as_json) as step:
            found = evaluation_of(
                log, wanted, propensity=chances, similarity=likeness, learn_share=learn_share, folds=folds, rows=rows,
                clip=clip, seed=seed, tick=step,
            )  # fmt: skip
    results = {**found.to_dict(), "stations": len(log.stations), "notes": notes}
    if as_json:
        typer.echo(json.dumps(results, indent=1))
        return
    typer.echo(log_in_words(log, log))
    _print(found, Console())
    warnings = [f"warning: {warning}" for warning in found.warnings]
    typer.echo("\n".join([found.verdict, *warnings, *(f"note: {note}" for note in notes)]))


def _read(trace: str, options: LogOptions, propensity: str | None) -> tuple[Trace, NDArray[Any] | None]:
    if trace != "bundled":
        return options.read_beside(Path(trace), propensity)
    if options != LogOptions() or propensity is not None:
        raise BadInputError("the bundled trace says itself what its columns are: leave these options out")
    with ctrl_c_ends_at_once():
        return Trace.bundled(), None


def _policy(given: list[str], space: ConfigurationSpace) -> str | dict[str, Any]:
    """Return the policy of the command line: a name, or a configuration knob by knob."""
    if len(given) == 1 and "=" not in given[0]:
        if given[0] not in ("recommend", "usual"):
            raise BadInputError(f"--policy takes recommend, usual or {next(iter(space.knobs))}=VALUE, got {given[0]!r}")
        return given[0]
    chosen: dict[str, Any] = {}
    for text in given:
        knob, equals, value = text.partition("=")
        if not equals:
            raise BadInputError(f"--policy takes a name alone or KNOB=VALUE for every knob, got {text!r} among others")
        chosen[knob] = _value(value, space.knob(knob)[1].values[0], knob=knob)
    space.index(chosen)  # an unknown configuration is refused before any work
    return chosen


def _value(text: str, like: Any, *, knob: str) -> Any:
    """Return a value of the command line as what its knob holds."""
    if isinstance(like, str):
        return text
    if isinstance(like, bool):
        if text.lower() in ("true", "false"):
            return text.lower() == "true"
    else:
        try:
            return float(text)
        except ValueError:
            pass
    kind = "true or false" if isinstance(like, bool) else "a number"
    raise BadInputError(f"--policy {knob}= takes {kind}, got {text!r}")


def _check_size(rows: int | None, stations: int) -> None:
    count = max(2, LEARN_ROWS // stations) if rows is None else rows
    if count * stations > _LARGEST:
        advice = "give a log of fewer stations" if rows is None else "give a smaller --rows"
        raise BadInputError(
            f"{count:,} rows of each of {stations:,} stations are too many to learn from, at most {_LARGEST:,} in all "
            f"are possible: {advice}"
        )


def _numbers(column: NDArray[Any], name: str, *, decimal_point: str) -> FloatArray:
    """Return a column of text as numbers, (n,), or say which row holds none."""
    numbers = np.empty(len(column))
    for row, text in enumerate(column.tolist()):
        try:
            numbers[row] = float(text.replace(decimal_point, "."))
        except ValueError:
            raise BadInputError(
                f"column {name!r} must hold probabilities, row {row + 1} has {text!r}: check --propensity"
            ) from None
    return numbers


def _print(found: Evaluation, console: Console) -> None:
    lines = (
        f"{found.policy}: learned from the earlier {found.rows_learned:,} rows, judged by the later "
        f"{found.rows_judged:,} in {found.folds} folds; intervals over {found.units:,} {found.unit}s.",
        f"The log itself earned {found.log:.{_decimals(found)}f} in the rows judged. "
        f"Propensities {found.propensities}.",
    )
    console.print("\n".join(lines), highlight=False, soft_wrap=True, markup=False)
    console.print(_table(found))
    worst = sorted(found.effective_by_station.items(), key=lambda item: item[1])[:_STATIONS]
    few = ", ".join(f"{name} {rows:.0f}" for name, rows in worst)
    middle = float(np.median(list(found.effective_by_station.values())))
    console.print(
        f"Effective rows of a station: {middle:.0f} (median); fewest {few}",
        highlight=False,
        soft_wrap=True,
        markup=False,
    )


def _table(found: Evaluation) -> Table:
    table = Table(pad_edge=False)
    table.add_column("estimate", no_wrap=True, min_width=10)
    for column in ("mean reward", "against\nthe usual", "against\nthe log", "effective\nrows"):
        table.add_column(column, justify="right")
    digits = _decimals(found)
    for judgement in found.judgements:
        rows = "-" if judgement.method == MODEL else f"{found.effective_rows:,.0f}"
        gains = (judgement.against_usual, judgement.against_log)
        numbers = (_cell(judgement.value, f".{digits}f"), *(_cell(gain, f"+.{digits}f") for gain in gains))
        table.add_row(judgement.method.replace(" ", "\n"), *map(Text, numbers), rows)
    return table


def _decimals(found: Evaluation) -> int:
    """Return the decimals that show two digits of the standard error, about."""
    error = (found.value.high - found.value.low) / (2.0 * REACH)
    return min(max(0, 1 - floor(log10(error))), 9) if error > 0 else 3


def _cell(estimate: Estimate, spec: str) -> str:
    """Return a number for a narrow column: its interval goes below it."""
    return f"{estimate:{spec}}".replace(" (", "\n").removesuffix(")")
