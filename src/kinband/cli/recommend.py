"""`kinband recommend`: from a log and the present state of the stations to a change plan and its roll-back."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.table import Table
from rich.text import Text

from kinband.cli.considerations import ConsiderationOptions
from kinband.cli.options import (
    AsJson,
    LogFile,
    LogOptions,
    RailsFile,
    RayAddress,
    Rows,
    Seed,
    SimilarityOption,
    Workers,
    about,
    check_log,
    few_rows,
    first_lines,
    make_folder,
    noted,
    rails_of,
    similarity_of,
    steps_of,
    used_rows,
    with_options,
)
from kinband.cli.render import echo_json, echo_lines, say, show, table
from kinband.cluster import PATIENCE, reach
from kinband.controller.explain import configuration_text
from kinband.errors import BadInputError
from kinband.planning import (
    NEGLIGIBLE,
    Change,
    ChangePlan,
    LeftAlone,
    Origin,
    Period,
    Present,
    Staging,
    check_folder,
    latest,
    learn_network,
    periods_of,
    plan_network,
    planned_for,
    read_periods,
    read_present,
    share_text,
)
from kinband.planning.design import trial_stations
from kinband.planning.network import NetworkModel, planning_cost
from kinband.planning.period import DAYS, HOUR_OF_DAY, days_in_period
from kinband.planning.places import Places, read_places
from kinband.planning.plan import decimals_of, decimals_of_ends
from kinband.planning.waves import lacks_controls
from kinband.progress import stage
from kinband.space import ConfigurationSpace
from kinband.stats import counted, listed
from kinband.trace import Trace
from kinband.trace.answers import LogQuestions, some_of
from kinband.trace.files import located, names_in
from kinband.trace.guesses import guessed_places
from kinband.trace.problems import MANY, check_knobs
from kinband.trace.table import station_numbers

_SHOWN = 20  # lines of a table on the screen; the files list all stations


_Stations = dict[str, Present]


@dataclass(frozen=True)
class AimOptions:
    """What a plan is for, as given on the command line: which stations, as they are now, and what period."""

    now: Annotated[
        Path | None,
        typer.Option(
            metavar="STATES",
            help="The stations as they are now: a file with station and knob columns named as in the log, and the "
            "state for stations without rows in the period. The last rows of the log if not given.",
            show_default=False,
        ),
    ] = None
    period: Annotated[
        str,
        typer.Option(
            "--for",
            metavar="PERIOD",
            help="What the plan is for: 'week', states as in the log's last week; 'now', the present state alone; or a "
            "file with many rows a station, its columns named as in the log.",
        ),
    ] = "week"
    hours: Annotated[
        str | None,
        typer.Option(
            metavar="HOURS",
            help="Hours of the day that the plan is for, such as 22-5 (from 22:00 to 05:00) or 7,8,17-19; all if not "
            "given.",
        ),
    ] = None

    def stations(self, log: Path, trace: Trace, columns: LogOptions, notes: list[str]) -> tuple[_Stations, str]:
        """Return the stations as they are, each with its period, and what the plan is for in words."""
        present = _present(log, trace, self.now, columns, instant=self.period == "now")
        periods, meant = _periods(trace, self.period, self.hours, columns)
        notes += _instants(periods, present, meant)
        return planned_for(present, periods), meant


@dataclass(frozen=True)
class ChangeOptions:
    """What a plan may propose, as given on the command line."""

    explore: Annotated[
        bool,
        typer.Option(
            "--explore/--exploit", help="Propose what is most worth trying, or only gains that are all but certain."
        ),
    ] = False
    beta: Annotated[float, typer.Option(min=0.0, help="With --explore: weight of the uncertainty.")] = 1.0
    least_gain: Annotated[float, typer.Option(min=0.0, help="Gain in reward below which nothing is changed.")] = 0.0
    max_changes: Annotated[int | None, typer.Option(min=1, help="The most changes to make, largest first.")] = None
    step: Annotated[
        list[str] | None,
        typer.Option(metavar="KNOB=VALUE", help="The furthest a knob may move from its present value; 0 keeps it."),
    ] = None
    rails: RailsFile = None

    def read(self, space: ConfigurationSpace, stations: Sequence[str], notes: list[str]) -> dict[str, Any]:
        """Return what `plan_network` takes of it, with the rails read; of a network only some stations may explore."""
        most = _few(len(stations), self.max_changes, notes) if self.explore else self.max_changes
        chosen = {"explore": self.explore, "beta": self.beta, "least_gain": self.least_gain, "max_changes": most}
        return chosen | {"steps": steps_of(self.step or [], space), "rails": rails_of(self.rails, space, stations)}


@dataclass(frozen=True)
class WaveOptions:
    """In how many steps a plan is carried out, as given on the command line."""

    waves: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Make the changes in so many waves, first those from which the others learn most.",
            show_default=False,
        ),
    ] = None
    hold_back: Annotated[
        str | None,
        typer.Option(
            metavar="SHARE",
            help="With --waves: share of the changes, drawn by lot, that is held back as a control group, such as 10%.",
            show_default=False,
        ),
    ] = None

    def read(self, *, seed: int) -> Staging | None:
        """Return how the plan is rolled out; None for all at once."""
        share = 0.0 if self.hold_back is None else _share(self.hold_back)
        if self.waves is None:
            if self.hold_back is not None:
                raise BadInputError("--hold-back needs --waves: --waves 1 makes all other changes at once")
            return None
        return Staging(self.waves, hold_back=share, seed=seed)


def _share(text: str) -> float:
    """A share as people write it, 10% or 0.1."""
    percent = text.strip().endswith("%")
    try:
        share = float(text.strip().removesuffix("%")) / (100.0 if percent else 1.0)
    except ValueError:
        share = -1.0
    if not 0.0 <= share < 1.0:
        raise BadInputError(f"--hold-back takes a share such as 10% or 0.1, below 100 %, got {text!r:.40}")
    return share


@dataclass(frozen=True)
class OutOptions:
    """Where a plan goes, as given on the command line."""

    out: Annotated[Path, typer.Option(help="Folder for the plan and its roll-back.")] = Path("out/recommend")
    positions: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Where stations are, for the map: a file with the station and longitude and latitude, or x and y. "
            "Looked for in STATES and in the log if not given.",
            show_default=False,
        ),
    ] = None
    replace: Annotated[bool, typer.Option("--replace", help="Replace a plan that is already in the folder.")] = False

    def prepare(self) -> None:
        """Make the folder, now rather than after a minute of work."""
        check_folder(self.out, replace=self.replace)
        make_folder(self.out)


@with_options
def recommend(
    log: LogFile,
    aim: AimOptions = AimOptions(),
    columns: LogOptions = LogOptions(),
    allowed: ChangeOptions = ChangeOptions(),
    considered: ConsiderationOptions = ConsiderationOptions(),
    waves: WaveOptions = WaveOptions(),
    similarity: SimilarityOption = None,
    rows: Rows = None,
    seed: Seed = 0,
    workers: Workers = 0,
    ray: RayAddress = None,
    target: OutOptions = OutOptions(),
    as_json: AsJson = False,
) -> None:
    """Turn a log and the present settings of the stations into a change plan with reasons and a roll-back.

    A plan is for a period, the log's last week if nothing else is said: it proposes what earns most on average over it.

    Example: kinband recommend export.csv --configuration tilt --step tilt=2 --hours 22-5 --max-changes 10
    """
    notes: list[str] = []
    with noted(notes):
        considered.check()
        staging = waves.read(seed=seed)
        if ray is not None:
            reach(ray, timeout=PATIENCE)
        trace = columns.read(log, kpis=considered.kpis)
        check_log(trace)
        check_knobs(trace)
        space = _tried(trace.space())
        stations, meant = aim.stations(log, trace, columns, notes)
        limits = allowed.read(space, trace.stations, notes)
        extras = considered.read(trace, space, columns, notes)
        alike = similarity_of(similarity)
        target.prepare()
        used = used_rows(trace, rows, seed=seed)
        places = _places(target.positions, aim.now, log, columns)
        asked = first_lines(trace, used, quiet=as_json)
        with stage(f"learning from {len(used):,} rows of {counted(len(trace.stations), 'station')}"):
            network = learn_network(used, space, similarity=alike, seed=seed, considered=extras)
        about_plan = {"reward": columns.reward or trace.reward_name, "period": meant}
        plan = _planned(network, stations, workers=workers, ray=ray, staging=staging, **limits, **about_plan)
    notes += [] if staging is None else lacks_controls(plan, staging)
    notes += _assumed(asked)
    said = [*notes, *few_rows(asked)]
    origin = _origin(log, trace, network, asked, aim=aim, skip_bad=columns.skip_bad, places=places, notes=said)
    files = plan.write(target.out, replace=target.replace, origin=origin)
    if as_json:
        read = {"rows": len(trace), "rows_used": len(used), "groups": len(network.groups), "similarity": network.method}
        echo_json({**plan.to_dict(), **read, "answers": asked.to_dict(), "files": list(map(str, files)), "notes": said})
        return
    _print(plan)  # the first lines have said whose rows are few
    echo_lines(*(f"note: {note}" for note in notes), *plan.in_words(), *_files_in_words(plan, files))


def _assumed(asked: LogQuestions) -> list[str]:
    """A note on stations that never tried anything, where others did: what trials elsewhere say of them is assumed."""
    alone = len(asked.one_setting)
    if not 0 < alone < asked.stations:
        return []
    return [
        f"{alone:,} of {counted(asked.stations, 'station')} ran one setting only: what others would earn there rests "
        "on trials at other stations, and on the assumption that these answer alike to settings. Where they do not, "
        "the intervals are too narrow"
    ]


def _planned(network: NetworkModel, stations: _Stations, *, workers: int, ray: str | None, **how: Any) -> ChangePlan:
    """Return the plan, with a bar that says how far it is."""
    seconds, gigabytes = planning_cost(network, workers=workers)
    what = f"planning for {counted(len(stations), 'station')} in {counted(len(network.groups), 'group')}"
    with stage(what, len(stations), seconds=seconds, gigabytes=gigabytes) as tick:
        return plan_network(
            network, stations, workers=workers, ray=ray, tick=lambda done: tick("planning", done), **how
        )


def _origin(
    log: Path,
    trace: Trace,
    network: NetworkModel,
    asked: LogQuestions,
    *,
    aim: AimOptions,
    skip_bad: bool,
    places: Places,
    notes: Sequence[str],
) -> Origin:
    """Return where the plan comes from, for its page."""
    made = datetime.now().astimezone()
    return Origin(
        made=made,
        log=log.name,
        read=_read(asked, network, trace),
        notes=tuple(filter(None, map(without_hints, notes))),
        places=places.at,
        metres=places.metres,
        present=_present_in_words(log, trace, aim.now, made, skip_bad=skip_bad),
        ranges=_ranges(network.encoder.space),
        last_rows=_last_rows(trace),
    )


def _last_rows(trace: Trace) -> dict[str, str]:
    """When the last row of each station is, as text that reads back as the same time."""
    if trace.time is None:
        return {}
    station = station_numbers(trace)
    order = np.lexsort((trace.time, station))
    last = trace.time[order][np.append(np.flatnonzero(np.diff(station[order])), len(order) - 1)]
    dated = trace.time.dtype.kind == "M"
    return {
        name: np.datetime_as_string(at, unit="auto") if dated else repr(at.item())
        for name, at in zip(trace.stations, last, strict=True)
    }


def _places(positions: Path | None, now: Path | None, log: Path, columns: LogOptions) -> Places:
    """Where stations are: by a file of its own, that of the present states, or the log, whichever says so first."""
    if positions is not None:
        with about(positions):
            found = read_places(positions, station=columns.station_in(positions), **columns.beside(positions))
        if found is None:
            problem = f"{positions} does not say where stations are"
            raise BadInputError(problem, hint="name two columns longitude and latitude, or x and y", code="no_places")
        return found
    for path in (now, log):
        if path is None or not path.is_file():
            continue
        written = columns.written if path == log else columns.beside(path)
        if guessed_places(names_in(path, **written)) is None:
            continue
        if (found := read_places(path, station=columns.station_in(path), **written)) is not None:
            return found
    return Places({})


def _read(asked: LogQuestions, network: NetworkModel, trace: Trace) -> tuple[str, ...]:
    """What the log holds, for a reader who has not seen it."""
    rows = f"{asked.rows_used:,} of {asked.rows:,} rows" if asked.rows_used < asked.rows else f"{asked.rows:,} rows"
    when = "" if asked.period is None else f", {asked.period[0]} to {asked.period[1]}"
    low, _, high = asked.tried
    each = f"{low}" if low == high else f"{low} to {high}"
    hour = ["hour of the day"] if set(HOUR_OF_DAY) <= set(network.encoder.state.names) else []
    fixed = [name for name, column in zip(trace.state_names, trace.state.T, strict=True) if np.ptp(column) == 0]
    varied = [name for name in asked.state if name not in fixed]
    states = [*(varied if len(varied) <= MANY else [some_of(varied)]), *hour]
    state = f"States that gains may depend on: {listed(states)}." if states else "No states."
    state += f" The same in all rows, so that nothing depends on it: {listed(fixed)}." if fixed else ""
    tried = f"{counted(asked.configurations, 'setting')} tried, {each} a station."
    return f"{rows} of {counted(asked.stations, 'station')}{when}.", tried, state


def _present_in_words(log: Path, trace: Trace, now: Path | None, made: datetime, *, skip_bad: bool) -> str:
    """From where and when it is known what the stations run now."""
    if now is not None:
        changed = datetime.fromtimestamp(now.stat().st_mtime).astimezone()
        return f"the file {now.name}, last changed on {changed:%Y-%m-%d at %H:%M}{_ago(made - changed)}"
    if trace.time is None:
        return f"the last row of each station in {log.name}, which has no times"
    station = station_numbers(trace)
    order = np.lexsort((trace.time, station))
    ends = trace.time[order][np.append(np.flatnonzero(np.diff(station[order])), len(order) - 1)]
    last, dated = ends.max(), trace.time.dtype.kind == "M"
    when = str(last.astype("datetime64[m]")).replace("T", " ") if dated else f"{last:g}"
    ago = _ago(made.replace(tzinfo=None) - last.astype("datetime64[s]").item()) if dated else ""
    older = int((ends < last).sum())
    first = str(ends.min().astype("datetime64[m]")).replace("T", " ") if dated else f"{ends.min():g}"
    some = f"; that of {counted(older, 'station')} is older, the oldest of {first}" if older else ""
    skipped = ", which may be one that was skipped" if skip_bad else ""
    return f"the last row of each station in {log.name}{skipped}, of {when}{ago}{some}"


def _ago(age: timedelta) -> str:
    """How long before the plan that was, where it is a day or more."""
    return f", {counted(age.days, 'day')} before this plan" if age.days >= 1 else ""


def _ranges(space: ConfigurationSpace) -> dict[str, tuple[float, float]]:
    """The lowest and the highest value of knobs that have more than two."""
    knobs = {name: space.knob(name)[1] for name in space.knobs}
    quantities = {name: knob.values for name, knob in knobs.items() if not knob.categorical and len(knob.values) > 2}
    return {name: (float(min(values)), float(max(values))) for name, values in quantities.items()}


def without_hints(note: str) -> str:
    """Return a note without what it says of options and commands, for a page that others read.

    Example:
        >>> without_hints("column 'Cell' is taken for the station, by its name: --station says otherwise")
        "column 'Cell' is taken for the station, by its name"
        >>> without_hints("at most 3 of 30 try something at once (--max-changes); `kinband design` finds those ...")
        'at most 3 of 30 try something at once'
    """
    note = re.sub(r" \([^()]*(--\w|columns=|duplicates=)[^()]*\)", "", note)
    kept = [part for part in re.split(r"(?<=[:;,.]) ", note) if not re.search(r"--[a-z]|`|\w=(True|'|\{)", part)]
    return " ".join(kept).rstrip(" :;,")


def _files_in_words(plan: ChangePlan, files: Sequence[Path]) -> list[str]:
    """Return which file to open, and which undoes the plan."""
    rollback, made, left, page = files
    lines = [f"Open: {page}, then {made} (what to set) and {left}."]
    if "never tried" in plan.why_left:
        lines.append("Trials: `kinband design` plans those that the log lacks.")
    if plan.changes:
        lines.append(f"Undo: {rollback} sets {counted(len(plan.changes), 'station')} back to what runs now.")
    if plan.waves:
        folder = made.parent
        lines += [
            f"First wave: kinband apply {folder} --wave 1 --map MAPPING",
            f"Then, with its rows in the log: kinband impact LOG --changes {folder / 'wave-1'} says go on or stop.",
        ]
    return lines


def _present(log: Path, trace: Trace, now: Path | None, columns: LogOptions, *, instant: bool) -> dict[str, Present]:
    """The stations as they are: those of a file, or as they were last in the log, its rows that are skipped included.

    A file need not have the state, unless the plan is for this instant.
    """
    if now is None:
        return columns.last_rows(log, trace) if columns.skip_bad else latest(trace)
    with located(now, delimiter=columns.marks["delimiter"]), about(now):
        named = set(names_in(now, **columns.beside(now))) if not instant else set(trace.state_names)
        state = [name for name in trace.state_names if name in named]
        return read_present(now, trace.space(), state=state, station=columns.station_in(now), **columns.beside(now))


def _periods(trace: Trace, period: str, hours: str | None, columns: LogOptions) -> tuple[dict[str, Period], str]:
    """What each station is planned for, and what that is in words."""
    chosen = None if hours is None else hours_of_text(hours)
    when = "" if chosen is None else f", {hours} h"
    if period == "now":
        if chosen is not None:
            raise BadInputError("--hours chooses hours of a period, and --for now has none: leave one of them out")
        return {}, "the present state of each station"
    if period == "week":
        dated = trace.time is not None and trace.time.dtype.kind == "M"
        days = days_in_period(trace)
        last = "the log's last week" if days >= DAYS else f"the log's {counted(days, 'day')}"
        return periods_of(trace, chosen), (f"states as in {last}" if dated else "all states of the log") + when
    file = Path(period)
    if not file.suffix:
        raise BadInputError(f"--for takes week, now, or a file of states, got {period!r}")
    with located(file, delimiter=columns.marks["delimiter"]), about(file):
        found = read_periods(
            file, state=trace.state_names, station=columns.station_in(file), time=columns.time, hours=chosen,
            **columns.beside(file),
        )  # fmt: skip
    return found, f"the states of {file.name}{when}"


def _instants(periods: Mapping[str, Period], present: Mapping[str, Present], meant: str) -> list[str]:
    """A note on stations whose period is a single row; none where there are no such stations."""
    known = [len(periods[name].states) for name in present if name in periods and len(periods[name].states)]
    single = known.count(1)
    if not single:
        return []
    who = "each station" if single == len(present) else f"{single:,} of {counted(len(present), 'station')}"
    return [
        f"{meant}: one row of {who}, so that the plan is for one instant there: a setting runs for many, give rows of "
        "every hour"
    ]


def hours_of_text(text: str) -> list[int]:
    """Return the hours of the day that a text names.

    Example:
        >>> hours_of_text("22-2,7")
        [0, 1, 7, 22, 23]
    """
    found: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        if not (first.isdigit() and int(first) < 24 and (not dash or (last.isdigit() and int(last) <= 24))):
            raise BadInputError(f"--hours takes hours of the day, such as 22-5 or 7,8,17-19, got {text!r:.40}")
        if dash and int(first) == int(last):
            raise BadInputError(f"--hours {text!r:.40} ends at the hour it begins: leave it out for the whole day")
        begin, end = int(first), int(last) % 24 if dash else (int(first) + 1) % 24
        found |= {(begin + i) % 24 for i in range((end - begin) % 24 or 24)}
    return sorted(found)


def _few(network: int, asked: int | None, notes: list[str]) -> int:
    """Return how many stations may explore at once: never the whole network."""
    most = trial_stations(network, asked)
    if asked is None:
        what = f"at most {most:,} of {counted(network, 'station')} try something at once"
        notes.append(f"{what} (--max-changes); `kinband design` finds those from which all learn most")
    return most


def _tried(space: ConfigurationSpace) -> ConfigurationSpace:
    """Return the configurations of a log, or say that it holds no trials."""
    if len(space) == 1:
        raise BadInputError(
            f"every row of the log ran {configuration_text(space[0], 0)}: it holds no trials, and nothing can be "
            "learned about other settings: plan a few with `kinband design`"
        )
    return space


def _print(plan: ChangePlan) -> None:
    if plan.changes:
        say("Trials, what is most worth trying first:" if plan.explore else "Changes, the largest gain first:")
        show(_changes_table(plan))
    if plan.left_alone:
        say("Left alone:")
        show(left_table(plan.left_alone))
    if worth := plan.worth_a_trial:
        ends = [(one.station, one.gain.high) for one in worth if one.gain]
        named = [f"{station} (up to {end:+.{decimals_of(end)}f})" for station, end in ends]
        say(f"Most worth a trial, by how much they may gain: {', '.join(named)}.")


def left_table(left_alone: Sequence[LeftAlone]) -> Table:
    """One line for each reason, however many stations it is that of."""
    made = table("station", "why", "in words")
    made.columns[1].no_wrap = True
    alike: dict[tuple[str, str], list[str]] = {}
    for left in left_alone:
        alike.setdefault((left.why, left.reason), []).append(left.station)
    lines = list(alike.items())[:_SHOWN]
    for (why, reason), stations in lines:
        who = stations[0] if len(stations) == 1 else f"{len(stations):,} stations, such as {stations[0]}"
        made.add_row(Text(who), why, Text(reason))
    return _captioned(made, len(left_alone) - sum(len(stations) for _, stations in lines), "left_alone.csv")


def _captioned(made: Table, more: int, file: str) -> Table:
    made.caption = f"and {more:,} more in {file}" if more > 0 else None
    return made


def _changes_table(plan: ChangePlan) -> Table:
    what = plan.knobs[0] if len(plan.knobs) == 1 else "change"
    more = ("most from", "wave") if plan.waves else ("most from",)
    made = table("station", what, numbers=("gain", "95 % interval", "borrowed"), more=more)
    made.columns[1].justify = "right"
    for change in plan.changes[:_SHOWN]:
        wave = [plan.waves.label(change.station)] if plan.waves else []
        made.add_row(*map(Text, [*_cells(change, digits=plan.decimals), *wave]))
    return _captioned(made, len(plan.changes) - _SHOWN, "plan.csv")


def _cells(change: Change, *, digits: int) -> list[str]:
    gain, ends = f"{change.gain.value:+.{digits}f}", decimals_of_ends(change.gain, digits)
    low, high = (f"{value:+.{ends}f}" for value in (change.gain.low, change.gain.high))
    lender = f"{change.lenders[0][0]} {share_text(change.lenders[0][1])}" if change.borrowed >= NEGLIGIBLE else "-"
    return [change.station, _moves(change), gain, f"{low} to {high}", share_text(change.borrowed), lender]


def _moves(change: Change) -> str:
    """Return the knobs that move, by name if there are several knobs."""
    named = len(change.present) > 1
    moved = change.moves.items()
    return "\n".join(f"{f'{knob} ' if named else ''}{change.present[knob]} → {value}" for knob, value in moved)
