"""`kinband simulate`: the log of a simulated city, the bundled one or another."""

from pathlib import Path
from typing import Annotated

import typer

from kinband.cli.options import AsJson, Seed
from kinband.cli.render import echo_json, echo_lines
from kinband.environments.radio import (
    EnergySaving,
    Parameters,
    layers_named,
    simulate_trace,
    write_network_files,
)
from kinband.environments.radio.network_files import check_network_files
from kinband.errors import BadInputError
from kinband.progress import stage
from kinband.stats import counted
from kinband.trace.files import suffix_of


def simulate(
    out: Annotated[Path, typer.Argument(help="Where to write: .parquet, .csv or .csv.gz; a .json goes beside it.")],
    stations: Annotated[int, typer.Option(min=1, help="Sectors of the city.")] = 105,
    days: Annotated[int, typer.Option(min=1, help="Days.")] = 5,
    first_hour: Annotated[float, typer.Option(min=0, max=24, help="First hour of each day.")] = 14.0,
    last_hour: Annotated[float, typer.Option(min=0, max=24, help="Last hour of each day.")] = 22.0,
    period: Annotated[
        float | None,
        typer.Option(min=0.05, help="Minutes of a measurement period.", show_default="4 4/9, or 5 with --pm"),
    ] = None,
    load: Annotated[float, typer.Option(min=0.01, help="Multiplies the number of users.")] = 1.0,
    layers: Annotated[
        str, typer.Option(help="Carriers of every sector in GHz, from capacity to coverage, two or more.")
    ] = "2.6,0.8",
    energy: Annotated[
        bool,
        typer.Option(
            "--energy", help="Capacity carriers may sleep: try below which load, and log the energy that this saves."
        ),
    ] = False,
    pm: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Write measurement files too (TS 32.435), one a period and site; needs --cm."),
    ] = None,
    cm: Annotated[
        Path | None, typer.Option(metavar="FILE", help="With --pm: the configuration, a log of changes (.csv).")
    ] = None,
    mapping: Annotated[
        Path | None,
        typer.Option("--map", metavar="FILE", help="With --pm: what the files mean, for 'kinband counters'."),
    ] = None,
    gzipped: Annotated[bool, typer.Option("--gzip", help="With --pm: gzip the measurement files.")] = False,
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Simulate a city in which every station's handover threshold is changed at random, and write its log.

    The defaults give the bundled trace: 105 stations, 2 pm to 10 pm on five days, in about ten minutes.

    Example: kinband simulate city.parquet --stations 21 --days 1 --seed 3 --pm pm/ --cm cm.csv --map map.yaml
    """
    suffix_of(out, written=True)  # a wrong one is told now, not after the simulation
    minutes = period or (5.0 if pm else 40 / 9)
    if (pm is None) != (cm is None) or (pm is None and (mapping or gzipped)):
        raise BadInputError("measurement files and their configuration go together: give both --pm and --cm")
    if pm and cm:
        check_network_files(pm, cm, mapping, minutes=minutes, hours=(first_hour, last_hour), days=days)
    parameters = Parameters(load=load, layers=layers_named(layers), saving=EnergySaving() if energy else None)
    out.parent.mkdir(parents=True, exist_ok=True)
    done = 0.0
    with stage(f"simulating {counted(stations, 'station')} for {counted(days, 'day')}", 1.0) as step:

        def advance(share: float) -> None:
            nonlocal done
            step("simulating", share - done)
            done = share

        made = simulate_trace(
            stations,
            days=days,
            hours=(first_hour, last_hour),
            period_minutes=minutes,
            seed=seed,
            parameters=parameters,
            progress=advance,
        )
    side = made.write(out)
    files = write_network_files(made, pm, cm, mapping=mapping, gzipped=gzipped) if pm and cm else []
    files = [pm, *files] if pm else []
    trace = made.trace
    if as_json:
        told = {"trace": str(out), "metadata": str(side), "rows": len(trace), "stations": len(trace.stations)}
        echo_json({**told, "files_written": [str(file) for file in files]} if files else told)
        return
    said = f"{len(trace):,} rows of {len(trace.stations)} stations: {out}"
    echo_lines(said, f"seed, layout and every parameter: {side}", files=files)
