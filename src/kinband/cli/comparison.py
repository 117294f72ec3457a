"""What comparisons on a log and on a table of measurements have in common: running them, and showing the result."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.table import Table

from kinband.cli.logs import LARGEST, unwarned
from kinband.cli.progress import progress
from kinband.errors import BadInputError
from kinband.experiments.metrics import Estimate
from kinband.experiments.paper.comparisons import LABELS, Figure
from kinband.experiments.paper.figures import regret_figure
from kinband.experiments.paper.reproduce import FairProtocol, Reproducer
from kinband.experiments.paper.verdict import in_words, standings

_FEW_RUNS = 5  # an interval over fewer is rough


def check_size(rows: int, decisions: int) -> None:
    """Refuse a comparison that is too large for a controller.

    Example:
        >>> check_size(100, 30_000)
        Traceback (most recent call last):
            ...
        kinband.errors.BadInputError: 100 rows to learn from and 30,000 decisions are too many, at most 20,000 ...
    """
    if rows + decisions > LARGEST:
        raise BadInputError(
            f"{rows:,} rows to learn from and {decisions:,} decisions are too many, at most {LARGEST:,} in all are "
            "possible: give a smaller --log-rows or --slots"
        )


def run_fair(figure: Figure, out: Path, *, workers: int, ray: str | None, quiet: bool) -> FairProtocol:
    """Play a comparison by the fair protocol, in a folder that keeps what is done."""
    runner = Reproducer(out, workers=workers or None, ray=ray)
    with unwarned(), progress(runner.effort(figure, protocols=("fair",)), quiet=quiet) as step:
        runner.tick = step
        found = runner.run(figure, protocols=("fair",)).fair
    if found is None:
        raise AssertionError("the fair protocol was asked for")
    return found


def show(
    figure: Figure, found: FairProtocol, out: Path, *, title: str, about: str, notes: Sequence[str], as_json: bool,
    **more: Any,
) -> None:  # fmt: skip
    """Write the results of a comparison and its picture to the folder, and print them.

    Args:
        figure: What was compared.
        found: What came of it.
        out: The folder.
        title: Of table and picture.
        about: What was read, so that a wrong column is seen at once.
        notes: What to keep in mind when reading the result.
        as_json: Whether to print JSON.
        **more: Further values for JSON.
    """
    files = [out / "regret.png", out / "regret.svg", out / "results.json"]
    regret_figure(found.curves, files[:2], labels=LABELS, title=title)
    results = {
        "title": title,
        "log": about,
        "learners": standings(found),
        "answer": in_words(found),
        "notes": [*notes, *_few(figure.runs), *_at_the_edge(found, max(figure.betas))],
        "files": list(map(str, files)),
        **more,
    }
    files[-1].write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    if as_json:
        typer.echo(json.dumps(results, indent=1))
    else:
        _print(results)


def _few(runs: int) -> list[str]:
    return [f"intervals over {runs} runs are rough: give more with --runs"] if runs < _FEW_RUNS else []


def _at_the_edge(found: FairProtocol, largest: float) -> list[str]:
    """Say which learners took the largest β that was tried: a larger one might have suited them better."""
    edge = [LABELS[name] for name, beta in found.betas.items() if beta == largest]
    return [f"β = {largest:g}, the largest that was tried, suited best: {'; '.join(edge)}"] if edge else []


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
