"""`python -m benchmarks.city`: the engineer's checks of the simulated city, in figures and a short table."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

from benchmarks.city.check import BUSY_HOUR, HELD_OUT, Calibration, CityCheck, count_stages
from benchmarks.city.check import check_city as run_checks
from benchmarks.city.figures import city_figures
from benchmarks.command import command
from kinband.environments.radio import Parameters, layers_named
from kinband.progress import stage


def check_city(
    out: Annotated[Path, typer.Option(help="Folder for the figures.")] = Path("out/city"),
    stations: Annotated[int, typer.Option(min=6, help="Sectors of the city.")] = 105,
    seed: Annotated[int, typer.Option(min=0, help="Draws the city.")] = 0,
    seconds: Annotated[float, typer.Option(min=1, help="Simulated seconds of each run.")] = 300.0,
    seeds: Annotated[int, typer.Option(min=2, help="Traffic seeds that thresholds are chosen on.")] = 4,
    load: Annotated[float, typer.Option(min=0.01, help="Multiplies the number of users.")] = 1.0,
    layers: Annotated[str, typer.Option(help="Carriers in GHz, from capacity to coverage.")] = "2.6,0.8",
    as_json: Annotated[bool, typer.Option("--json", help="Print everything for machines.")] = False,
) -> None:
    """Check that a simulated city behaves like a network and is worth learning in, in about three minutes.

    Draws the satisfied share against the threshold, coupling loss, SINR, CQI, load and handovers, and says whether the
    network has an interior best threshold and what a choice per sector gains on traffic that nobody chose on.

    Example: python -m benchmarks.city --out out/city --seed 3
    """
    parameters = Parameters(load=load, layers=layers_named(layers))
    out.mkdir(parents=True, exist_ok=True)
    with stage("checking the city", count_stages()) as step:
        check = run_checks(stations, seed=seed, seconds=seconds, seeds=seeds, parameters=parameters, tick=step)
        files = city_figures(check, out)
    (out / "checks.json").write_text(json.dumps(check.to_dict(), indent=1) + "\n", encoding="utf-8")
    if as_json:
        typer.echo(json.dumps(check.to_dict() | {"files": [str(file) for file in files]}, indent=1))
        return
    _print(check)
    typer.echo(_in_words(check.calibrations[BUSY_HOUR]))
    typer.echo("\n".join([*(f"figure: {file}" for file in files), f"numbers: {out / 'checks.json'}"]))


def _print(check: CityCheck) -> None:
    low, high = (f"at\n{check.data['thresholds'][end]:g}" for end in (0, -1))
    table = Table(title=f"{check.stations} stations, city {check.seed}: sessions with 5 Mbps or more")
    columns = ("hour", low, "at\nbest", high, "best, dBm", "sectors\nagree", "gain per sector,\npoints")
    for column in columns:
        table.add_column(column, justify="right")
    for hour, answers in check.calibrations.items():
        share = answers.network_share
        cells = (f"{value:.1%}" for value in (share[0], max(share), share[-1]))
        best = f"{answers.best_single:g} {'inside' if answers.interior else 'at end'}"
        agree = "-" if np.isnan(answers.correlation) else f"{answers.correlation:.2f}"
        table.add_row(f"{hour:g}", *cells, best, agree, _gain(answers))
    Console().print(table)


def _gain(answers: Calibration) -> str:
    """The gain on held-out seeds and its smallest and largest value, in points of per cent."""
    gains = 100 * (np.array(answers.sector_share) - np.array(answers.single_share))
    gain, least, most = np.array([gains.mean(), gains.min(), gains.max()]).round(1) + 0.0  # no minus before a zero
    return f"{gain:+.1f} ({least:+.1f} to {most:+.1f})"


def _in_words(busy: Calibration) -> str:
    where = "an interior optimum, at" if busy.interior else "no interior optimum; the best single threshold is"
    agree = "do not vary" if np.isnan(busy.correlation) else f"correlate {busy.correlation:.2f} between traffic seeds"
    single, sector = float(np.mean(busy.single_share)), float(np.mean(busy.sector_share))
    return (
        f"At {BUSY_HOUR:g} h the network has {where} {busy.best_single:g} dBm. Best thresholds of sectors"
        f" {agree}. On {HELD_OUT} held-out seeds a choice per sector satisfies"
        f" {sector:.1%} of sessions, the best single threshold {single:.1%}."
    )


def main(arguments: Sequence[str]) -> int:
    """Run the command and return its exit code."""
    return command(check_city, "benchmarks.city", arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
