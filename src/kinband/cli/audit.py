"""`kinband audit`: how far can the answers of a running controller be trusted, and what does sharing earn?"""

from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from kinband.cli.options import AsJson, MostRows, make_folder
from kinband.cli.render import cell, echo_json, echo_lines, say, scores_table, show, table
from kinband.controller import Controller, Explanation
from kinband.diagnostics import Audit, Calibrated, Transferred, audit
from kinband.diagnostics.calibration import FITS, LEVELS, check_told
from kinband.diagnostics.transfer import EVEN, HURTS, MOST_ROWS, RECENT
from kinband.errors import SavedStateError
from kinband.progress import stage
from kinband.stats import counted

_SHOWN = 12  # stations of a table


def audit_command(
    state: Annotated[Path, typer.Argument(metavar="STATE", help="The folder of a saved controller.")],
    decision: Annotated[
        str | None, typer.Option(metavar="ID", help="Say why this decision was made, instead of auditing all.")
    ] = None,
    recent: Annotated[
        int, typer.Option(min=1, help="Latest decisions of each station whose evidence is weighed.")
    ] = RECENT,
    most_rows: MostRows = MOST_ROWS,
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
    with stage("weighing the evidence"):
        found = audit(controller, recent=recent, most_rows=most_rows)
        files = [] if out is None else _write(found, out, state)
    if as_json:
        echo_json({**found.to_dict(), "files": [str(file) for file in files]})
        return
    _print(found)
    echo_lines(*found.words, files=files)


def _loaded(state: Path) -> Controller:
    if not state.is_dir():
        raise SavedStateError(f"{state} is not a folder: give what controller.save() wrote")
    return Controller.load(state)


def _tell_why(reason: Explanation, *, as_json: bool) -> None:
    told = reason.to_dict()
    if as_json:
        echo_json(told)
        return
    rows = [
        ("> chosen" if row["chosen"] else "", row["configuration"], row["arm"], (row["mean"], row["std"], row["score"]))
        for row in told["considered"]
    ]
    show(scores_table(rows, spec=".4f"))
    typer.echo(reason.text)


def _write(found: Audit, out: Path, state: Path) -> list[Path]:
    from kinband.experiments.report.page import write_audit

    return write_audit(found, out, title=f"Audit of {state.resolve().name}")


def _print(found: Audit) -> None:
    stations, decisions = counted(len(found.stations), "station"), counted(found.decisions, "decision")
    say(f"{stations}, {decisions}, {counted(found.rewards, 'reward')} with predictions.")
    inside = (f"in\n{100 * level:g} %" for level in LEVELS)
    made = table(
        "station", numbers=("rewards", *inside, "mean\nz", "mean\nz²"), more=("intervals",),
        title="Do intervals hold what they promise?", narrow=True,
    )  # fmt: skip
    first = sorted(found.calibration.stations, key=lambda s: (s.verdict == FITS and not s.drift, s.p_spread))
    for one in [found.calibration.overall, *first[:_SHOWN]]:
        made.add_row(*_calibration_row(one))
    show(made)
    columns = ("nats a\nreward", "borrowed", "worth")
    made = table("station", numbers=columns, more=("most from", "sharing"), title="What did sharing earn?", narrow=True)
    order = {HURTS: 0, EVEN: 2}
    by_verdict = sorted(found.transfer.stations, key=lambda s: (order.get(s.verdict, 1), -abs(s.total)))
    for other in [found.transfer.overall, *by_verdict[:_SHOWN]]:
        made.add_row(*_transfer_row(other))
    show(made)
    if (more := len(found.stations) - _SHOWN) > 0:
        say(f"{counted(more, 'station')} more: --json, or --out for a page.")


def _calibration_row(station: Calibrated) -> list[str | Text]:
    if not station.rewards:
        return [Text(station.name), "0", *["-"] * 6]
    shares = [f"{100 * station.coverage[level].value:.0f} %" for level in LEVELS]
    numbers = [f"{station.bias.value:+.2f}", f"{station.spread.value:.2f}"]
    said = ",\n".join(filter(None, [station.verdict, station.drift]))
    return [Text(station.name), f"{station.rewards:,}", *shares, *numbers, said]


def _transfer_row(station: Transferred) -> list[str | Text]:
    if not station.rewards:
        return [Text(station.name), *["-"] * 5]
    lenders = list((station.lenders or {}).items())[:2]
    return [
        Text(station.name),
        cell(station.gain, f"+.{station.gain.decimals(2)}f", narrow=True),
        "-" if station.borrowed is None else f"{100 * station.borrowed:.0f} %",
        "-" if station.worth is None else f"{station.worth:,.1f}",
        Text("\n".join(f"{name} {100 * share:.0f} %" for name, share in lenders)),
        station.verdict,
    ]
