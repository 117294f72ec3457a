"""`python -m benchmarks.speed`: how fast it is, as ratios measured in one run on this machine."""

import json
import os
import sys
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.status import Status
from rich.table import Table

from benchmarks.command import command
from benchmarks.speed import Measured, machine
from benchmarks.speed.figure import cost_figure
from benchmarks.speed.service import PAGES, SERVICE, measured_pages, measured_service
from benchmarks.speed.suite import SUITES, run_suite
from kinband.errors import BadInputError


def bench(
    what: Annotated[str, typer.Argument(help=f"{', '.join(SUITES)}, all of these; or {SERVICE}, {PAGES}.")] = "all",
    threads: Annotated[int, typer.Option(min=0, help="BLAS threads; 0 for one per core.")] = 0,
    small: Annotated[bool, typer.Option("--quick", help="Small sizes, for a look in half a minute.")] = False,
    out: Annotated[Path, typer.Option(help="Folder for the results and the plot.")] = Path("out/bench"),
    ray: Annotated[
        str | None,
        typer.Option(help="Where shards run: the Ray cluster at host:port, 'auto', or 'local' to start one here."),
    ] = None,
    ledger: Annotated[
        str | None,
        typer.Option(
            metavar="URL", help="For service: an empty database to measure with, postgresql://user@host/name."
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the results for machines.")] = False,
) -> None:
    """Measure speed as ratios: against the bare arithmetic, the paper's own update, and other libraries.

    The service is measured against a bare handler that does one insert, and the pages of its dashboard, with 105
    stations and 50,000 events, against one that shows nothing; they are not among all, for they need an extra.

    Example: python -m benchmarks.speed exact
    """
    if what not in ("all", SERVICE, PAGES, *SUITES):
        raise BadInputError(
            f"there is no benchmark {what!r}: choose one of {', '.join(SUITES)}, {SERVICE}, {PAGES}, all"
        )
    if ledger is not None and what != SERVICE:
        raise BadInputError(f"--ledger is for python -m benchmarks.speed {SERVICE}, not for {what}: leave it out")
    threads = threads or os.cpu_count() or 1
    _make(out)
    found: list[Measured] = []
    further: dict[str, str] = {}
    with Console(stderr=True, quiet=as_json).status("starting") as status:
        for name in SUITES if what == "all" else (what,):
            say = partial(_say, status, name)
            if name == SERVICE:
                found, model = measured_service(quick=small, ledger=ledger, folder=out, tick=say)
                further["model"], threads = model, 1  # of the processes that are measured
            elif name == PAGES:
                found, record = measured_pages(quick=small, folder=out, tick=say)
                further["record"], threads = record, 1
            else:
                found += run_suite(name, threads=threads, quick=small, ray=ray, tick=say)
    about = machine(threads=threads) | further
    results: dict[str, Any] = {"machine": about, "measured": [line.to_dict() for line in found]}
    file = out / f"{what}.json"
    file.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    plots = [file.with_suffix(ending) for ending in (".png", ".svg")]
    drawn = cost_figure(results["measured"], plots)
    if as_json:
        typer.echo(json.dumps(results, indent=1))
        return
    Console().print(_table(found))
    typer.echo(", ".join(f"{key} {value}" for key, value in about.items()))
    typer.echo(f"results: {file}" + (f", plot: {plots[0]}" if drawn else ""))


def _say(status: Status, name: str, text: str) -> None:
    status.update(f"{name}: {text}")


def _make(out: Path) -> None:
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise BadInputError(f"cannot write to {out} ({reason}): choose another folder with --out") from error


def _table(found: Iterable[Measured]) -> Table:
    table = Table(title="measured in one run; 'at least' counts how many times faster we are")
    for column in ("name", "what", "seconds", "against", "ratio", "aim"):
        table.add_column(column, justify="right" if column in ("seconds", "ratio") else "left")
    for line in found:
        ratio = f"{line.ratio:.2f}" if line.reference else ""
        aim = "" if line.met is None else f"{line.aim}: {'met' if line.met else 'missed'}"
        table.add_row(line.name, line.what, f"{line.seconds:.3g}", line.reference, ratio, aim)
    return table


def main(arguments: Sequence[str]) -> int:
    """Run the command and return its exit code."""
    return command(bench, "benchmarks.speed", arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
