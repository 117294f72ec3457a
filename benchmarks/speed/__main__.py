"""`python -m benchmarks.speed`: how fast it is, as ratios measured in one run on this machine."""

import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.status import Status
from rich.table import Table
from threadpoolctl import threadpool_limits

from benchmarks.command import command
from benchmarks.speed import Measured, machine
from benchmarks.speed.benches import (
    bench_exact,
    bench_round,
    bench_shards,
    bench_similarity,
    bench_simulator,
    bench_sparse,
)
from kinband.errors import BadInputError
from kinband.experiments.pages import blank, save
from kinband.posterior import INDUCING_POINTS

# --- The service ----------------------------------------------------------------------------------------------------

SERVICE, PAGES = "service", "pages"
"""The names of these benchmarks."""


def measured_service(
    *, quick: bool, ledger: str | None, folder: Path, tick: Callable[[str], None]
) -> tuple[list[Measured], str]:
    """Measure the service; return its lines, and what was asked in words. Small sizes have no aims.

    Args:
        quick: Whether to take small sizes.
        ledger: An empty PostgreSQL database; None for SQLite.
        folder: Where SQLite files are made meanwhile.
        tick: Called with what is measured now.
    """
    try:
        from benchmarks.service.measuring import Load, bench_service
    except ModuleNotFoundError as error:
        raise BadInputError(f"the service needs {error.name}: pip install 'kinband[service]'") from error
    if ledger is not None and not ledger.startswith("postgres"):
        raise BadInputError("--ledger names a PostgreSQL database here: for SQLite leave it out, files are made anew")
    load = Load.quick() if quick else Load()
    found = bench_service(load, ledger=ledger, folder=folder, tick=tick)
    model = f"sparse posterior of {INDUCING_POINTS} points that knows {load.rows:,} rows, a budget for trials"
    return [replace(line, aim="") for line in found] if quick else found, model


def measured_pages(*, quick: bool, folder: Path, tick: Callable[[str], None]) -> tuple[list[Measured], str]:
    """Measure the pages of the dashboard; return their lines, and what was on record. Small sizes have no aims.

    Args:
        quick: Whether to take small sizes.
        folder: Where a ledger is made meanwhile.
        tick: Called with what is done now.
    """
    try:
        from benchmarks.service.pages import Looks, bench_pages
    except ModuleNotFoundError as error:
        raise BadInputError(f"the service needs {error.name}: pip install 'kinband[service]'") from error
    found, records = list[Measured](), list[str]()
    for looks in [Looks.quick()] if quick else [Looks(), Looks.large()]:
        lines, events = bench_pages(looks, folder=folder, tick=tick)
        found += lines
        records.append(f"{looks.past.stations:,} stations, {events:,} events")
    record = "; then ".join(records)
    return [replace(line, aim="") for line in found] if quick else found, record


# --- The plot -------------------------------------------------------------------------------------------------------

LINES = {
    "exact.botorch": ("BoTorch", "#999999", "s"),
    "exact.scikit-learn": ("scikit-learn, refitted", "#CC79A7", "^"),
    "exact.schur": ("the paper's update", "#0072B2", "v"),
    "exact.run.plain": ("kinband, exact", "#E69F00", "o"),
    "exact.run.structure": ("kinband, exact, states shared by arms", "#D55E00", "o"),
    "sparse.late": ("kinband, sparse", "#009E73", "D"),
    "exact.limit": ("bare matrix products", "#000000", ""),
}
"""Label, colour and marker of the lines that can be drawn."""


def cost_figure(measured: Sequence[Mapping[str, Any]], paths: Sequence[Path]) -> bool:
    """Draw milliseconds of a decision against observations, from the lines of a results file; False without any."""
    found = {line["name"]: line["by_size"] for line in measured if line["by_size"]}
    if not found:
        return False
    figure, axes = blank("observations known", "milliseconds for one decision among 29", "Cost of one decision")
    for name, (label, colour, marker) in LINES.items():
        if name not in found:
            continue
        sizes, seconds = zip(*found[name], strict=True)
        style = "--" if name == "exact.limit" else "-"
        milliseconds = [1e3 * t for t in seconds]
        axes.plot(sizes, milliseconds, style, color=colour, marker=marker, markersize=5, label=label)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:,g}")
    axes.legend(frameon=False, fontsize="small")
    save(figure, paths)
    return True


# --- All benchmarks by name, and the threads they run with ----------------------------------------------------------

Tick = Callable[[str], None]
Suite = Callable[[bool, Tick], Iterator[Measured]]


def _shards(quick: bool, tick: Tick, *, ray: str | None = None) -> Iterator[Measured]:
    return bench_shards(stations=500 if quick else 10_000, rows=200 if quick else 2_000, ray=ray, tick=tick)


SUITES: dict[str, Suite] = {
    "exact": lambda quick, tick: bench_exact(decisions=400 if quick else 4000, tick=tick),
    "round": lambda quick, tick: bench_round(rows=500 if quick else 4000, tick=tick),
    "similarity": lambda quick, tick: bench_similarity(
        rows=30 if quick else 539, many=150 if quick else 1000, tick=tick
    ),
    "sparse": lambda quick, tick: bench_sparse(
        **({"early": 1000, "late": 2000, "inducing_points": 64} if quick else {}), tick=tick
    ),
    "shards": _shards,
    "simulator": lambda quick, tick: bench_simulator(sectors=21 if quick else 105, tick=tick),
}


def run_suite(name: str, *, threads: int, quick: bool, ray: str | None = None, tick: Tick) -> list[Measured]:
    """Run one benchmark with so many BLAS threads; the simulator always has one. Small sizes have no aims.

    With `ray`, an address or "local", shards are on a Ray cluster.
    """
    suite = SUITES[name]
    if name == "shards" and ray is not None:
        suite = partial(_shards, ray=ray)
    with threadpool_limits(limits=1 if name == "simulator" else threads):
        found = list(suite(quick, tick))
    return [replace(line, aim="") for line in found] if quick else found


# --- The command ----------------------------------------------------------------------------------------------------


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
