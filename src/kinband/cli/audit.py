"""`kinband audit`: how far can the answers of a running controller be trusted, and what does sharing earn?"""

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from kinband.cli.options import AsJson, make_folder
from kinband.controller import Controller, Explanation
from kinband.counting import counted
from kinband.diagnostics import Audit, Calibrated, Transferred, audit
from kinband.diagnostics.calibration import FITS, LEVELS, check_told
from kinband.diagnostics.transfer import EVEN, HURTS, MOST_ROWS, RECENT
from kinband.errors import SavedStateError

_SHOWN = 12  # stations of a table


def audit_command(
    state: Annotated[Path, typer.Argument(metavar="STATE", help="The folder of a saved controller.")],
    decision: Annotated[
        str | None, typer.Option(metavar="ID", help="Say why this decision was made, instead of auditing all.")
    ] = None,
    recent: Annotated[
        int, typer.Option(min=1, help="Latest decisions of each station whose evidence is weighed.")
    ] = RECENT,
    most_rows: Annotated[
        int,
        typer.Option(min=1, help="Up to how many rewards of related stations evidence is weighed; 8,000 take 10 s."),
    ] = MOST_ROWS,
    out: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Write audit.html and its pictures into this folder.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Check what a controller predicted against what was earned, and what its stations borrowed from each other.

    Says which stations promise too much, who borrows from whom, and which stations sharing seems to hurt; or why a
    single decision was made.

    Example: kinband audit state --out out/audit
    """
    controller = _loaded(state)
    if decision is not None:
        _tell_why(controller.explain(decision, most_rows=most_rows), as_json=as_json)
        return
    check_told([controller])
    if out is not None:
        make_folder(out)
    with Console(stderr=True, quiet=as_json).status("weighing the evidence"):
        found = audit(controller, recent=recent, most_rows=most_rows)
        files = [] if out is None else _written(found, out, state)
    if as_json:
        typer.echo(json.dumps({**found.to_dict(), "files": [str(file) for file in files]}, indent=1, allow_nan=False))
        return
    _print(found, Console())
    typer.echo("\n".join([*found.words, *(f"file: {file}" for file in files)]))


def _loaded(state: Path) -> Controller:
    if not state.is_dir():
        raise SavedStateError(f"{state} is no folder: give what controller.save() wrote")
    return Controller.load(state)


def _tell_why(reason: Explanation, *, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(reason.to_dict(), indent=1, allow_nan=False))
        return
    table = Table(pad_edge=False)
    table.add_column("configuration")
    for column in ("expected", "std", "score"):
        table.add_column(column, justify="right")
    for row in reason.to_dict()["considered"]:
        knobs = row["configuration"]
        what = f"arm {row['arm']}" if knobs is None else ", ".join(f"{k}={v}" for k, v in knobs.items())
        numbers = ("-" if row[name] is None else f"{row[name]:.4f}" for name in ("mean", "std", "score"))
        table.add_row(Text(f"{'> ' if row['chosen'] else '  '}{what}"), *numbers)
    Console().print(table)
    typer.echo(reason.text)


def _written(found: Audit, out: Path, state: Path) -> list[Path]:
    from kinband.experiments.report.page import write_audit

    return write_audit(found, out, title=f"Audit of {state.resolve().name}")


def _print(found: Audit, console: Console) -> None:
    console.print(
        f"{counted(len(found.stations), 'station')}, {counted(found.decisions, 'decision')}, "
        f"{counted(found.rewards, 'reward')} with predictions.",
        highlight=False,
        soft_wrap=True,
    )
    console.print(_calibration_table(found))
    console.print(_transfer_table(found))
    more = len(found.stations) - _SHOWN
    if more > 0:
        console.print(f"{counted(more, 'station')} more: --json, or --out for a page.", highlight=False, soft_wrap=True)


def _calibration_table(found: Audit) -> Table:
    table = Table(title="Do intervals hold what they promise?", title_justify="left", pad_edge=False)
    table.add_column("station", overflow="fold")
    for column in ("rewards", *(f"in\n{100 * level:g} %" for level in LEVELS), "mean\nz", "mean\nz²"):
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("intervals", min_width=len("predictions"))
    first = sorted(found.calibration.stations, key=lambda s: (s.verdict == FITS and not s.drift, s.p_spread))
    for station in [found.calibration.overall, *first[:_SHOWN]]:
        table.add_row(*_calibration_row(station))
    return table


def _calibration_row(station: Calibrated) -> list[str | Text]:
    if not station.rewards:
        return [Text(station.name), "0", *["-"] * 6]
    shares = [f"{100 * station.coverage[level].value:.0f} %" for level in LEVELS]
    numbers = [f"{station.bias.value:+.2f}", f"{station.spread.value:.2f}"]
    said = ",\n".join(filter(None, [station.verdict, station.drift]))
    return [Text(station.name), f"{station.rewards:,}", *shares, *numbers, said]


def _transfer_table(found: Audit) -> Table:
    table = Table(title="What did sharing earn?", title_justify="left", pad_edge=False)
    table.add_column("station", overflow="fold")
    for column in ("nats a\nreward", "borrowed", "worth"):
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("most from", overflow="fold")
    table.add_column("sharing", min_width=len("difference"))
    order = {HURTS: 0, EVEN: 2}
    first = sorted(found.transfer.stations, key=lambda s: (order.get(s.verdict, 1), -abs(s.total)))
    for station in [found.transfer.overall, *first[:_SHOWN]]:
        table.add_row(*_transfer_row(station))
    return table


def _transfer_row(station: Transferred) -> list[str | Text]:
    if not station.rewards:
        return [Text(station.name), *["-"] * 5]
    lenders = list((station.lenders or {}).items())[:2]
    return [
        Text(station.name),
        f"{station.gain:+.{station.gain.decimals(2)}f}".replace(" (", "\n").removesuffix(
            ")"
        ),  # the interval goes below
        "-" if station.borrowed is None else f"{100 * station.borrowed:.0f} %",
        "-" if station.worth is None else f"{station.worth:,.1f}",
        Text("\n".join(f"{name} {100 * share:.0f} %" for name, share in lenders)),
        station.verdict,
    ]
