"""`kinband simulate`: the log of a simulated city, the bundled one or another."""

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from kinband.environments.radio import Parameters, layers_named, simulate_trace
from kinband.trace.files import suffix_of


def simulate(
    out: Annotated[Path, typer.Argument(help="Where to write: .parquet, .csv or .csv.gz; a .json goes beside it.")],
    stations: Annotated[int, typer.Option(min=1, help="Sectors of the city.")] = 105,
    days: Annotated[int, typer.Option(min=1, help="Days.")] = 5,
    first_hour: Annotated[float, typer.Option(min=0, max=24, help="First hour of each day.")] = 14.0,
    last_hour: Annotated[float, typer.Option(min=0, max=24, help="Last hour of each day.")] = 22.0,
    period: Annotated[float, typer.Option(min=0.05, help="Minutes of a measurement period.")] = 40 / 9,
    load: Annotated[float, typer.Option(min=0.01, help="Multiplies the number of users.")] = 1.0,
    layers: Annotated[
        str, typer.Option(help="Carriers of every sector in GHz, from capacity to coverage, two or more.")
    ] = "2.6,0.8",
    seed: Annotated[int, typer.Option(min=0, help="Draws the city, its traffic and the thresholds tried.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print what was written for machines.")] = False,
) -> None:
    """Simulate a city in which every station's handover threshold is changed at random, and write its log.

    The defaults give the bundled trace: 105 stations, 2 pm to 10 pm on five days, in about ten minutes.

    Example: kinband simulate city.parquet --stations 21 --days 1 --seed 3 --layers 2.6,1.8,0.8
    """
    suffix_of(out)  # a wrong one is told now, not after the simulation
    parameters = Parameters(load=load, layers=layers_named(layers))
    out.parent.mkdir(parents=True, exist_ok=True)
    columns = (TextColumn("simulating"), BarColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True, quiet=as_json), transient=True) as bar:
        task = bar.add_task("", total=1.0)
        made = simulate_trace(
            stations,
            days=days,
            hours=(first_hour, last_hour),
            period_minutes=period,
            seed=seed,
            parameters=parameters,
            progress=lambda share: bar.update(task, completed=share),
        )
    side = made.write(out)
    trace = made.trace
    if as_json:
        about = {"trace": str(out), "metadata": str(side), "rows": len(trace), "stations": len(trace.stations)}
        typer.echo(json.dumps(about))
        return
    typer.echo(f"{len(trace):,} rows of {len(trace.stations)} stations: {out}")
    typer.echo(f"seed, layout and every parameter: {side}")
