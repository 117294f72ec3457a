"""`kinband demo`: what sharing experience saves, in a table and a figure."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from kinband.experiments.demo import BASELINE, LEARNERS, Curves, run_demo, saving
from kinband.experiments.figures import regret_figure


def demo(
    out: Annotated[Path, typer.Option(help="Folder for the figures.")] = Path("out/demo"),
    slots: Annotated[int, typer.Option(min=1, help="Slots of a run.")] = 200,
    runs: Annotated[int, typer.Option(min=1, help="Runs, each with a seed of its own.")] = 5,
    log_rows: Annotated[int, typer.Option(min=2, help="Logged rows a station that models are fitted to.")] = 50,
    beta: Annotated[float, typer.Option(min=0.0, help="Weight of the standard deviation in UCB.")] = 1.0,
    as_json: Annotated[bool, typer.Option("--json", help="Print the results for machines.")] = False,
) -> None:
    """Five stations that learn together, against five that learn alone, on the paper's synthetic bandit.

    Example: kinband demo --runs 3 --out out/demo
    """
    seeds = range(1, runs + 1)
    quiet = Console(stderr=True, quiet=as_json)
    with Progress(
        TextColumn("{task.description:>17}"), BarColumn(), TimeRemainingColumn(), console=quiet, transient=True
    ) as progress:
        bar = progress.add_task("", total=slots * runs * len(LEARNERS))
        curves, similarity = run_demo(
            slots=slots,
            seeds=seeds,
            log_rows=log_rows,
            beta=beta,
            tick=lambda learner: progress.update(bar, advance=1, description=learner),
        )
    out.mkdir(parents=True, exist_ok=True)
    files = [out / "regret.png", out / "similarity.png"]
    regret_figure(curves, files[0], labels=LEARNERS, title=f"Five stations, {runs} runs of {slots} slots")
    similarity.heatmap(files[1], title="How alike the stations are (conditional embedding)")
    if as_json:
        typer.echo(json.dumps(_results(curves), indent=1))
        return
    _print(curves, Console(), slots=slots, runs=runs)
    typer.echo(_in_words(curves))
    typer.echo("\n".join(f"figure: {file}" for file in files))


def _results(curves: list[Curves]) -> list[dict[str, Any]]:
    baseline = next(c for c in curves if c.learner == BASELINE)
    results = []
    for c in curves:
        share, low, high = saving(c, baseline)
        results.append({"learner": c.learner, "regret": c.final.mean(), "saving": share, "interval": [low, high]})
    return results


def _in_words(curves: list[Curves]) -> str:
    sharing = [row for row in _results(curves) if row["learner"] not in (BASELINE, "pooled")]
    best = max(sharing, key=lambda row: row["saving"])
    low, high = best["interval"]
    if low > 0:
        return f"Sharing saves regret here: {best['learner']} saves {best['saving']:.0%} against learning alone."
    if high < 0:
        return "Sharing costs regret here: these stations are better off learning alone."
    return f"So few runs do not settle whether sharing helps here: {best['learner']}, the best, may save nothing."


def _print(curves: list[Curves], console: Console, *, slots: int, runs: int) -> None:
    table = Table(title=f"Regret after {slots} slots, 5 stations, mean of {runs} runs")
    for column in ("learner", "regret", "saved", "95 % interval"):
        table.add_column(column, justify="left" if column == "learner" else "right")
    for row in _results(curves):
        low, high = row["interval"]
        is_baseline = row["learner"] == BASELINE
        table.add_row(
            LEARNERS[row["learner"]],
            f"{row['regret']:.1f}",
            "-" if is_baseline else f"{row['saving']:.1%}",
            "-" if is_baseline else f"{low:.1%} to {high:.1%}",
        )
    console.print(table)
