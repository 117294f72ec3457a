"""`kinband design`: from a log without trials to the few trials that it lacks, and their roll-back."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.text import Text

from kinband.cli.options import (
    AsJson,
    LogFile,
    LogOptions,
    RailsFile,
    Rows,
    Seed,
    SimilarityOption,
    check_log,
    first_lines,
    make_folder,
    noted,
    rails_of,
    shards_text,
    similarity_in_shards,
    similarity_of,
    steps_of,
    used_rows,
    value_like,
    with_options,
)
from kinband.cli.render import cell, echo_json, echo_lines, say, show, table
from kinband.errors import BadInputError
from kinband.likelihood import even_share
from kinband.planning import check_folder, share_text
from kinband.planning.design import (
    Trial,
    TrialPlan,
    controller_for_trials,
    design_trials,
    trial_stations,
    usual_present,
)
from kinband.posterior import LARGEST_LOG
from kinband.progress import stage
from kinband.similarity import TaskMatrix
from kinband.similarity.shards import Shards
from kinband.space import Categories, ConfigurationSpace
from kinband.stats import REACH, counted
from kinband.trace import Trace
from kinband.trace.answers import LogQuestions
from kinband.trace.problems import check_knobs
from kinband.trace.table import station_numbers


@with_options
def design(
    log: LogFile,
    columns: LogOptions = LogOptions(),
    stations: Annotated[
        int | None,
        typer.Option(min=1, help="How many stations may try something; a tenth, ten at most, if not given."),
    ] = None,
    periods: Annotated[int, typer.Option(min=1, help="How long a trial lasts, in rows of a station's log.")] = 8,
    settings: Annotated[int, typer.Option(min=1, help="How many settings a station tries, one after the other.")] = 2,
    values: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KNOB=V,V,...",
            help="Values that trials may set a knob to, too; those of the log they may in any case. Repeat for several "
            "knobs.",
        ),
    ] = None,
    step: Annotated[
        list[str] | None,
        typer.Option(metavar="KNOB=VALUE", help="The furthest a knob may move from its present value; 0 keeps it."),
    ] = None,
    rails: RailsFile = None,
    similarity: SimilarityOption = None,
    rows: Rows = None,
    seed: Seed = 0,
    out: Annotated[Path, typer.Option(help="Folder for the trials and their roll-back.")] = Path("out/design"),
    replace: Annotated[
        bool, typer.Option("--replace", "--force", help="Replace a plan that is already in the folder.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Plan the few trials from which a network learns most, where a log holds none or few.

    A few stations try settings for some periods, within steps and rails; every other station stays as it is and learns
    from them. Says how well settings are known before and after, and what the trials are expected to cost.

    Example: kinband design export.csv --configuration tilt --values tilt=0,2,4,6 --step tilt=2 --stations 5
    """
    notes: list[str] = []
    with noted(notes):
        trace = columns.read(log)
        check_log(trace)
        check_knobs(trace)
        space = _with_values(trace.space(), values or [])
        steps, hard = steps_of(step or [], space), rails_of(rails, space, trace.stations)
        alike = similarity_of(similarity)
        trial_stations(len(trace.stations), stations)
        check_folder(out, replace=replace)
        make_folder(out)
        share = even_share(np.bincount(station_numbers(trace)).tolist(), most=LARGEST_LOG)
        used = used_rows(trace, min(rows or share, share), seed=seed)
        if rows is None and len(used) < len(trace):
            notes.append(
                f"WARNING: of {len(trace):,} rows only {len(used):,} are used, at most {share:,} a station, drawn at "
                f"random: trials are weighed with every row, and that goes up to {LARGEST_LOG:,}"
            )
        asked = first_lines(trace, used, quiet=as_json)
        if not as_json and (known := _known_already(asked)):
            say(known)
        if not isinstance(alike, TaskMatrix | Shards):
            shards = similarity_in_shards(used.with_space(space), alike, shards=None, seed=seed)
            if shards is not None:
                notes.append(shards_text(shards))
            alike = shards or alike
        if isinstance(alike, Shards):
            alike = alike.matrix(used.stations)
        what = f"learning from {len(used):,} rows of {counted(len(trace.stations), 'station')}"
        with stage(what):
            controller, assumed = controller_for_trials(used, space, similarity=alike, seed=seed)
        with stage("looking for the trials that teach most"):
            now = usual_present(trace)
            plan = design_trials(
                controller, now, stations=stations, periods=periods, settings=settings, steps=steps, rails=hard
            )
        notes += [*assumed, *_what_a_period_is(trace, periods)]
    files = plan.write(out, replace=replace)
    if as_json:
        read = {"similarity": controller.similarity.method, "answers": asked.to_dict()}
        echo_json({**plan.to_dict(), **read, "files": list(map(str, files)), "notes": notes})
        return
    _print(plan, network=len(trace.stations))
    echo_lines(*(f"note: {note}" for note in notes), f"trials: {files[1]}", f"roll-back: {files[0]}")


_DAY = 24.0  # hours


def _what_a_period_is(trace: Trace, periods: int) -> list[str]:
    """A note on how long a period is, and on trials that are shorter than a day; none without dates."""
    if trace.time is None or trace.time.dtype.kind != "M":
        return []
    station = station_numbers(trace)
    order = np.lexsort((trace.time, station))
    apart = np.diff(trace.time[order]).astype("timedelta64[s]").astype(np.float64)[np.diff(station[order]) == 0]
    if not (apart > 0).any():
        return []
    hours = float(np.median(apart[apart > 0])) / 3600.0
    said = f"a period is a row of a station, usually {hours:.3g} h; a trial of {periods} takes {periods * hours:.3g} h"
    if periods * hours >= _DAY:
        return [said]
    return [
        f"{said}, less than a day: what a setting does and what the hour of the day does are then mixed, and --periods "
        f"{round(_DAY / hours)} is a day"
    ]


def _known_already(asked: LogQuestions) -> str:
    """Say where a log compares settings already, so that nobody tries what it can tell; nothing where it cannot."""
    own = asked.stations - len(asked.one_setting)
    if not own:
        return ""
    return (
        f"No trials are needed to begin with: the log already compares settings at {own:,} of "
        f"{counted(asked.stations, 'station')}, and `kinband recommend` answers now. Trials would tell more:"
    )


def _with_values(space: ConfigurationSpace, given: Sequence[str]) -> ConfigurationSpace:
    """Return the settings of a log, or all combinations of its values and of further ones."""
    knobs = {name: list(known) for name, known in space.knobs.items()}
    for text in given:
        name, equals, listed = text.partition("=")
        if not equals or not listed:
            example = f"{next(iter(space.knobs))}=0,2,4"
            raise BadInputError(f"--values takes KNOB=V,V,..., such as {example}, got {text!r:.60}")
        like = space.knob(name)[1].values[0]
        found = [value_like(value.strip(), like, f"--values {name}=") for value in listed.split(",")]
        knobs[name] += [value for value in dict.fromkeys(found) if value not in knobs[name]]
    if not given:
        return space
    whole = {name: [int(v) if _is_whole(v) else v for v in known] for name, known in knobs.items()}
    return ConfigurationSpace(
        **{name: Categories(v) if space.knob(name)[1].categorical else sorted(v) for name, v in whole.items()}
    )


def _is_whole(value: Any) -> bool:
    return isinstance(value, float) and value.is_integer()


def _print(plan: TrialPlan, *, network: int) -> None:
    trying = len({trial.station for trial in plan.trials})
    last = max(trial.begin + trial.periods - 1 for trial in plan.trials)
    before, after = REACH * plan.before, REACH * plan.after
    closer = sum(b - a > 0.1 * b for b, a in plan.widths.values())
    say(
        f"{counted(len(plan.trials), 'trial')} at {trying:,} of {counted(network, 'station')}, "
        f"{counted(last, 'period')} long; the others stay as they are.\n"
        f"What another setting would earn is known to ±{before:.3g} now and to ±{after:.3g} afterwards (95 %, all "
        f"stations); {counted(closer, 'station')} of {len(plan.widths):,} will know it better by a tenth or more.\n"
        f"All trials together are expected to lose {plan.loss:.3g} in reward times periods."
    )
    made = table("station", "change", numbers=("periods", "gain of a period", "about itself"), more=("and most",))
    for trial in plan.trials:
        periods = f"{trial.begin} to {trial.begin + trial.periods - 1}"
        most = f"{trial.learners[0][0]} {share_text(trial.learners[0][1])}" if trial.learners else "-"
        numbers = (periods, cell(trial.gain, "+.2g"), share_text(trial.own))
        made.add_row(*map(Text, (trial.station, _moves(trial), *numbers, most)))
    show(made)


def _moves(trial: Trial) -> str:
    """Return the knobs that move, a line each."""
    moved = ((knob, value) for knob, value in trial.setting.items() if value != trial.present[knob])
    return "\n".join(f"{knob} {trial.present[knob]} → {value}" for knob, value in moved)
