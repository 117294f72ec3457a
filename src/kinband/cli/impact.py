"""`kinband impact`: did changes help, judged against stations that did not change in the same hours."""

import re
from datetime import datetime, timedelta
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.text import Text

from kinband.cli.considerations import neighbours_of
from kinband.cli.options import (
    AsJson,
    LogFile,
    LogOptions,
    about,
    check_log,
    make_folder,
    noted,
    with_options,
)
from kinband.cli.render import echo_json, echo_lines, show, table
from kinband.errors import BadInputError
from kinband.impact import (
    UNSEEN,
    Change,
    Impact,
    Order,
    Panel,
    Windows,
    found_changes,
    judge_changes,
    ordered_changes,
    read_orders,
)
from kinband.planning.plan import decimals_of
from kinband.progress import stage
from kinband.similarity import TaskMatrix
from kinband.similarity.shards import load_similarity
from kinband.stats import counted
from kinband.trace import Trace
from kinband.trace.answers import log_questions

_SHOWN = 20  # changes listed on the screen; impact.csv lists all
_BEFORE, _AFTER = "14d", "28d"
_SPAN = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(h|d|w|slots?)\s*")
_UNITS = {"h": timedelta(hours=1), "d": timedelta(days=1), "w": timedelta(weeks=1)}


@with_options
def impact(
    log: LogFile,
    changes: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE|FOLDER",
            help="What was changed: applied.csv, plan.csv, the folder of a plan, or a list with the station and a time "
            "or set_<knob>. Found in the log if not given, where stations change for good.",
            show_default=False,
        ),
    ] = None,
    month: Annotated[
        str | None, typer.Option(metavar="YYYY-MM", help="Changes made in this month only.", show_default=False)
    ] = None,
    station_only: Annotated[
        list[str] | None,
        typer.Option("--only", metavar="STATION", help="The changes of this station only; repeat for several."),
    ] = None,
    kpi: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN", help="A column to judge beside the reward; repeat for several."),
    ] = None,
    columns: LogOptions = LogOptions(),
    before: Annotated[
        str, typer.Option(metavar="SPAN", help="How long before a change counts, at most: 14d, 36h, '96 slots'.")
    ] = _BEFORE,
    after: Annotated[str, typer.Option(metavar="SPAN", help="How long after it counts, at most.")] = _AFTER,
    similarity: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="How alike stations are, a file of kinband similarity: those alike are compared with.",
            show_default=False,
        ),
    ] = None,
    neighbours: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Who is a neighbour of whom: two columns, station and neighbour, or a rails file (.yaml). Neighbours, "
            "whom a change may touch, are not compared with.",
            show_default=False,
        ),
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for the report.")] = Path("out/impact"),
    as_json: AsJson = False,
) -> None:
    """Say whether changes helped: each against stations that did not change in the same hours, with its interval.

    Every change, their mean and a report as one HTML file. Where nothing can be said, that is said, without a number.

    Example: kinband impact export.csv --configuration tilt --changes tonight --kpi drop_rate --month 2024-05
    """
    notes: list[str] = []
    with noted(notes):
        spans = _span(before, "--before"), _span(after, "--after")
        trace = columns.read(log, kpis=tuple(dict.fromkeys(kpi or ())))
        check_log(trace)
        make_folder(out, reads=[log, changes, similarity, neighbours], writes=["impact.csv", "impact.html"])
        if not as_json:
            echo_lines(log_questions(trace).in_words()[0])
        with about(log):
            panel = Panel.of(trace, reward=columns.reward or _reward_name(trace, log))
        pairs = None
        if neighbours is not None:
            with about(neighbours):
                pairs = neighbours_of(neighbours, trace.stations, trace.space(), columns, notes)
        made, missing, staged = _changes(panel, changes, columns)
        made = _chosen(panel, made, month, station_only)
        missing = [one for one in missing if not station_only or one[0].station in station_only]
        if not made and not missing:
            raise BadInputError(_nothing(panel, month, changes))
        with stage(f"judging {counted(len(made), 'change')}", len(made)) as step:
            found = judge_changes(
                panel, made, windows=Windows(*(_slots(panel, one) for one in spans)), alike=_alike(similarity, trace),
                neighbours=pairs, missing=missing, per_day=panel.per_day, period=_period(panel, month),
                tick=lambda: step("judging"),
            )  # fmt: skip
    if not found.judged:
        raise BadInputError(cannot_say(found))
    notes = [note for note in notes if "state" not in note]  # states play no part here
    files = found.write(out, origin=log.name, notes=notes, made_at=datetime.now().astimezone())
    if as_json:
        waves = {"go_on": found.goes_on} if staged else {}
        echo_json({**found.to_dict(), **waves, "files": [str(file) for file in files], "notes": notes})
        return
    _print(found)
    echo_lines(*found.in_words(), *_kpis(found), notes=notes)
    if staged:
        echo_lines(_next_wave(found))
    echo_lines(f"Open: {files[0]}, then {files[1]}.")


def _next_wave(found: Impact) -> str:
    """Whether the next wave of a plan may come."""
    if found.goes_on:
        sure = "gained" if found.gain.side(0.0) > 0 else "did not lose for certain"
        return f"go on: what was carried out of the plan {sure}."
    return "stop: what was carried out of the plan lost for certain; kinband rollback undoes it."


def _reward_name(trace: Trace, log: Path) -> str:
    return "good_throughput_share" if str(log) == "bundled" else trace.reward_name


def _changes(
    panel: Panel, file: Path | None, columns: LogOptions
) -> tuple[list[Change], list[tuple[Order, str]], bool]:
    """The changes that were made, those that were not seen, and whether they are of a plan in waves."""
    if file is None:
        return found_changes(panel), [], False
    with about(file):
        orders = read_orders(file, station=columns.station or "station", **columns.beside(file))
        return *ordered_changes(panel, orders), any(order.wave for order in orders)


def _chosen(panel: Panel, made: list[Change], month: str | None, only: list[str] | None) -> list[Change]:
    """The changes of a month, or of some stations."""
    if unknown := sorted(set(only or ()) - set(panel.stations)):
        raise BadInputError(f"--only names {unknown[0]!r}, which is no station of the log")
    if only:
        made = [one for one in made if panel.stations[one.station] in only]
    if month is None:
        return made
    if not panel.dated:
        raise BadInputError("--month needs a log with dates, and the times of this one are numbers: leave it out")
    try:
        first = np.datetime64(datetime.strptime(month, "%Y-%m"), "M")
    except ValueError:
        raise BadInputError(f"--month takes a month such as 2024-05, got {month!r:.20}") from None
    return [one for one in made if panel.slots[one.slot].astype("datetime64[M]") == first]


def _nothing(panel: Panel, month: str | None, file: Path | None) -> str:
    """Why there is nothing to judge, in a sentence."""
    when = f" in {month}" if month else ""
    if file is not None:
        return f"{file} names no change{when}: leave --month out, or name another file"
    if (np.diff(panel.runs, axis=0)[(panel.runs[1:] >= 0) & (panel.runs[:-1] >= 0)] != 0).any():
        return (
            f"the log shows no change for good{when}: stations try settings, or ran none long enough before; name the "
            "changes with --changes"
        )
    return f"no station of the log changes{when}, so that there is nothing to judge"


def cannot_say(found: Impact) -> str:
    """Why nothing can be said, in a sentence."""
    reasons: dict[str, list[str]] = {}
    for one in found.unjudged:
        reasons.setdefault(one.why, []).append(one.reason)
    why, own = max(reasons.items(), key=lambda item: len(item[1]))
    those = f"{len(own):,} of {len(found.unjudged):,}: {why}" if len(reasons) > 1 else why
    said = own[0][0].lower() + own[0][1:].rstrip(".")
    if reasons.keys() <= UNSEEN:
        return f"nothing of what was planned is seen in the log, {counted(len(found.unjudged), 'change')}: {said}"
    return f"nothing can be said of {counted(len(found.unjudged), 'change')} ({those}), for example since {said}"


def _span(text: str, option: str) -> timedelta | int:
    found = _SPAN.fullmatch(text)
    if found is None or not float(found[1]) > 0:
        raise BadInputError(f"{option} takes a span such as 14d, 36h, 2w or '96 slots', got {text!r:.40}")
    size, unit = float(found[1]), found[2]
    return size * _UNITS[unit] if unit in _UNITS else max(1, round(size))


def _slots(panel: Panel, span: timedelta | int) -> int:
    """How many slots a span has; where slots are numbers, an hour of the span is one."""
    if isinstance(span, int):
        return span
    if not panel.dated:
        return round(span / timedelta(hours=1))
    step = np.median(np.diff(panel.slots).astype("timedelta64[us]").astype(np.float64))
    return max(1, round(span / timedelta(microseconds=float(step))))


def _period(panel: Panel, month: str | None) -> str:
    return f"changes of {month}" if month else f"log from {panel.when(0)} to {panel.when(len(panel.slots) - 1)}"


def _alike(file: Path | None, trace: Trace) -> TaskMatrix | None:
    if file is None:
        return None
    with about(file):
        found = load_similarity(str(file))
        if not isinstance(found, TaskMatrix):
            raise BadInputError(
                f"{file} holds groups of a large network: leave it out, the log chooses who is compared"
            )
        if not set(found.stations) & set(trace.stations):
            raise BadInputError(f"{file} has no station of the log: give that of these stations")
    return found


# --- On the screen ----------------------------------------------------------------------------------------------------


def _print(found: Impact) -> None:
    reward = found.reward
    digits = decimals_of(float(np.mean([abs(one.verdicts[reward].gain.value) for one in found.judged])))
    made = table("station", "change", numbers=("since", "gain", "95 % interval", "predicted"))
    for one in sorted(found.judged, key=lambda one: -one.verdicts[reward].gain.value)[:_SHOWN]:
        gain, expected = one.verdicts[reward].gain, one.change.expected
        moves = ", ".join(f"{knob} {was} → {then}" for knob, (was, then) in one.moves.items())
        back = " (rolled back)" if one.change.rolled_back else ""
        made.add_row(
            Text(one.station), Text(moves + back), one.when, f"{gain.value:+.{digits}f}",
            f"{gain.low:+.{digits}f} to {gain.high:+.{digits}f}",
            "" if expected is None else f"{expected.value:+.{digits}f}",
        )  # fmt: skip
    made.caption = f"and {len(found.judged) - _SHOWN:,} more in impact.csv" if len(found.judged) > _SHOWN else None
    show(made)
    for left in found.unjudged[:_SHOWN]:
        since = f" since {left.when}" if left.when else ""
        echo_lines(f"nothing can be said of {left.station}{since} ({left.why}): {left.reason}")


def _kpis(found: Impact) -> list[str]:
    """What the changes did to other columns."""
    lines = []
    for name in found.columns[1:]:
        gain = found.gains[name]
        if not gain.known:
            lines.append(f"Nothing can be said of {name}.")
            continue
        told = {1: "rose", 0: "no difference that can be told", -1: "fell"}[gain.side(0.0)]
        spec = f"+.{decimals_of(gain.value)}f"
        lines.append(
            f"{name}: {told}, {gain.value:{spec}} on average (95 % interval {gain.low:{spec}} to {gain.high:{spec}})."
        )
    return lines
