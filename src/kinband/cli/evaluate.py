"""`kinband evaluate`: before the first trial, what would a policy have earned?"""

from math import floor, log10
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray

from kinband.arrays import FloatArray
from kinband.cli.options import (
    LOG_KINDS,
    AsJson,
    LogOptions,
    RayAddress,
    Seed,
    SimilarityOption,
    Workers,
    check_log,
    configuration_of,
    first_lines,
    noted,
    similarity_of,
    with_options,
)
from kinband.cli.render import cell, echo_json, echo_lines, say, show, table
from kinband.errors import BadInputError
from kinband.ope import Evaluation
from kinband.ope import evaluate as evaluation_of
from kinband.ope.evaluating import MODEL
from kinband.parallel import processes
from kinband.planning.network import GROUP_ROWS, ONE_MODEL
from kinband.progress import stage
from kinband.space import ConfigurationSpace
from kinband.stats import REACH, counted
from kinband.trace import Trace
from kinband.trace.table import rows_by_station

_SECONDS, _AT_ONCE = 12.0, 5  # that GROUP_ROWS rows take in a group, about; how much faster they are in a single one
_STATIONS = 5  # with the fewest effective rows, shown


@with_options
def evaluate(
    trace: Annotated[
        str,
        typer.Argument(metavar="[LOG]", help=f"The log: {LOG_KINDS}; or: bundled.", show_default=True),
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
            help="Rows of each station that models learn from, of either part, drawn at random; all if not given. All "
            "later rows are judged.",
        ),
    ] = None,
    seed: Seed = 0,
    workers: Workers = 0,
    ray: RayAddress = None,
    as_json: AsJson = False,
) -> None:
    """Estimate from a log what a policy would have earned, before anything is tried.

    Three estimators with intervals, by the model, by inverse propensity and doubly robust, against what the stations
    usually run; and a warning where the log never tried what the policy wants.

    Example: kinband evaluate export.csv --station cell --reward good_share --configuration tilt --policy tilt=4
    """
    notes: list[str] = []
    with noted(notes):
        log, column = columns.read_with_column(Path(trace), propensity)
        check_log(log)
        wanted = _policy(policy or ["recommend"], log.space())
        alike = similarity_of(similarity) or "joint"
        asked = first_lines(log, quiet=as_json)
        asked.check("evaluate")
        chances = None if column is None else _chances(column, propensity or "")
        many = len(log.stations) > ONE_MODEL
        seconds = _SECONDS * len(log) / GROUP_ROWS / (processes(workers) if many else _AT_ONCE)
        with stage(_what(log, rows), folds + 2, seconds=seconds) as step:
            found = evaluation_of(
                log, wanted, propensity=chances, similarity=alike, learn_share=learn_share, folds=folds, rows=rows,
                clip=clip, seed=seed, workers=workers, ray=ray, tick=step,
            )  # fmt: skip
    results = {**found.to_dict(), "stations": len(log.stations), "notes": notes, "answers": asked.to_dict()}
    if as_json:
        echo_json(results)
        return
    _print(found)
    echo_lines(found.verdict, *(f"warning: {warning}" for warning in found.warnings), notes=notes)


def _what(log: Trace, rows: int | None) -> str:
    """What is done, with the rows that are used."""
    used = len(log) if rows is None else sum(min(len(own), 2 * rows) for own in rows_by_station(log))
    return f"judging by {used:,} of {len(log):,} rows of {counted(len(log.stations), 'station')}"


def _policy(given: list[str], space: ConfigurationSpace) -> str | dict[str, Any]:
    """Return the policy of the command line: a name, or a configuration knob by knob."""
    if len(given) == 1 and "=" not in given[0]:
        if given[0] not in ("recommend", "usual"):
            raise BadInputError(f"--policy takes recommend, usual or {next(iter(space.knobs))}=VALUE, got {given[0]!r}")
        return given[0]
    if alone := next((text for text in given if "=" not in text), None):
        raise BadInputError(f"--policy takes a name alone or KNOB=VALUE for every knob, got {alone!r} among others")
    return configuration_of(given, space, option="--policy")


def _chances(column: NDArray[Any], name: str) -> FloatArray:
    """Return a column of text as numbers, (n,), or say which row holds none."""
    numbers = np.empty(len(column))
    for row, text in enumerate(column.tolist()):
        try:
            numbers[row] = float(text.replace(",", "."))
        except ValueError:
            raise BadInputError(
                f"column {name!r} must hold probabilities, row {row + 1} has {text!r}: check --propensity"
            ) from None
    return numbers


def _print(found: Evaluation) -> None:
    digits = _decimals(found)
    say(
        f"{found.policy}: learned from the earlier {found.rows_learned:,} rows, judged by the later "
        f"{found.rows_judged:,} in {found.folds} folds; intervals over {found.units:,} {found.unit}s.\n"
        f"The log itself earned {found.log:.{digits}f} in the rows judged. Propensities {found.propensities}."
    )
    columns = ("mean reward", "against\nthe usual", "against\nthe log", "effective\nrows")
    made = table("estimate", numbers=columns, narrow=True)
    for column in made.columns[1:]:
        column.no_wrap = False
    for judgement in found.judgements:
        rows = "-" if judgement.method == MODEL else f"{found.effective_rows:,.0f}"
        value = cell(judgement.value, f".{digits}f", narrow=True)
        gains = (cell(gain, f"+.{digits}f", narrow=True) for gain in (judgement.against_usual, judgement.against_log))
        made.add_row(judgement.method.replace(" ", "\n"), value, *gains, rows)
    show(made)
    worst = sorted(found.effective_by_station.items(), key=lambda item: item[1])[:_STATIONS]
    few = ", ".join(f"{name} {rows:.0f}" for name, rows in worst)
    middle = float(np.median(list(found.effective_by_station.values())))
    say(f"Effective rows of a station: {middle:.0f} (median); fewest {few}")


def _decimals(found: Evaluation) -> int:
    """Return the decimals that show two digits of the standard error, about."""
    error = (found.value.high - found.value.low) / (2.0 * REACH)
    return min(max(0, 1 - floor(log10(error))), 9) if error > 0 else 3
