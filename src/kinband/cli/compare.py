"""`kinband compare`: would sharing have helped on your own log?"""

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from kinband.cli.progress import progress
from kinband.errors import BadInputError
from kinband.experiments.cases import Mode
from kinband.experiments.figures import regret_figure
from kinband.experiments.metrics import mean_of
from kinband.experiments.paper import BASELINE, LABELS, Figure, final_regrets, savings
from kinband.experiments.reproduce import FairProtocol, Reproducer


def compare(
    trace: Annotated[
        str, typer.Argument(help="A trace written by kinband (.parquet, or .csv with its side file), or: bundled.")
    ],
    slots: Annotated[int, typer.Option(min=1, help="Decisions of a run; rounds with --parallel.")] = 1000,
    runs: Annotated[int, typer.Option(min=2, help="Runs, each with a seed of its own.")] = 5,
    log_rows: Annotated[int, typer.Option(min=2, help="First rows of every station, to learn from.")] = 20,
    parallel: Annotated[bool, typer.Option("--parallel", help="All stations in every slot (Algorithm 1).")] = False,
    out: Annotated[Path, typer.Option(help="Folder for results and figures.")] = Path("out/compare"),
    workers: Annotated[int, typer.Option(min=0, help="Processes; 0 for one per core.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print the results for machines.")] = False,
) -> None:
    """Compare stations that share with stations that learn alone, on a log of your own.

    The first rows of every station are learned from; the rest answers by nearest neighbours. Every method gets its
    kernel by likelihood, its β on seeds of its own, and starts from the log.

    Example: kinband compare export.parquet --slots 600 --runs 5
    """
    if trace != "bundled" and not Path(trace).exists():
        raise BadInputError(f"there is no file {trace}: give the path of a trace, or: bundled")
    mode: Mode = "parallel" if parallel else "sequential"
    figure = Figure(
        "compare", trace, mode, slots, log_rows, (), (0.3, 1.0, 2.0), ("krause-ong",), runs, max(slots // 4, 2)
    )
    out.mkdir(parents=True, exist_ok=True)
    with progress(None, quiet=as_json) as step:
        found = Reproducer(out, workers=workers or None, tick=step).run(figure, protocols=("fair",)).fair
    if found is None:
        raise AssertionError("the fair protocol was asked for")
    title = f"{Path(trace).name}: {runs} runs of {slots} slots, started from the log"
    regret_figure(found.curves, [out / "regret.png", out / "regret.svg"], labels=LABELS, title=title)
    if as_json:
        typer.echo(json.dumps(_results(found), indent=1))
        return
    _print(found, title)
    typer.echo(_in_words(found))
    typer.echo(f"figures: {out}")


def _results(found: FairProtocol) -> list[dict[str, object]]:
    results: list[dict[str, object]] = []
    for start, curves in (("log", found.curves), ("cold", found.cold)):
        saved = savings(curves)
        for name, regrets in final_regrets(curves).items():
            row: dict[str, object] = {"learner": name, "start": start, "beta": found.betas[name]}
            row["regret"] = float(regrets.mean())
            if name != BASELINE:
                row |= {"saving": saved[name].value, "interval": [saved[name].low, saved[name].high]}
            results.append(row)
    return results


def _in_words(found: FairProtocol) -> str:
    name, best = max(savings(found.curves).items(), key=lambda item: item[1].value)
    if best.low > 0:
        return f"Sharing helps here: {name} saves {best:.0%} of the regret of learning alone."
    if best.high < 0:
        return "Sharing hurts here: the stations of this log are better off learning alone."
    return f"Sharing makes no clear difference here: the best, {name}, saves {best:.0%}."


def _print(found: FairProtocol, title: str) -> None:
    table = Table(title=title)
    for column in ("learner", "β", "regret (95 % interval)", "saved", "saved, cold start"):
        table.add_column(column)
    warm, cold = savings(found.curves), savings(found.cold)
    for name, regrets in final_regrets(found.curves).items():
        saved = ("-", "-") if name == BASELINE else (f"{warm[name]:.1%}", f"{cold[name]:.1%}")
        table.add_row(LABELS[name], str(found.betas[name]), f"{mean_of(regrets):.1f}", *saved)
    Console().print(table)
