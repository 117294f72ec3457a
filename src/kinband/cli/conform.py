"""`kinband conform`: what stations like this one run, by a configuration dump, who deviates, and which knobs matter."""

import csv
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from kinband.cli.considerations import descriptors_of
from kinband.cli.options import (
    AsJson,
    LogOptions,
    Seed,
    about,
    check_log,
    first_lines,
    make_folder,
    noted,
    with_options,
)
from kinband.cli.render import cell, echo_json, echo_lines, say, show, table
from kinband.counters import CounterMap
from kinband.counters.cm import check_attributes, settings_of, timelines
from kinband.errors import BadInputError
from kinband.planning.conformity import SURE, Deviation, KnobRule, conform
from kinband.planning.plan import safe_text
from kinband.planning.variation import STATIONS, Share, explained_variation
from kinband.progress import stage
from kinband.similarity.newcomers import Descriptors, Value
from kinband.stats import counted, listed
from kinband.trace.files import names_in

_SHOWN = 20  # deviations listed on the screen; conform.csv lists all

Configurations = dict[str, dict[str, Value]]


@with_options
def conform_command(
    dump: Annotated[
        Path,
        typer.Argument(
            metavar="DUMP",
            help="What stations run: a table with a row for each, as .csv, .xlsx or .parquet; or with --map bulk CM.",
            show_default=False,
        ),
    ],
    columns: LogOptions = LogOptions(),
    descriptors: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="What describes stations, one row each; the columns of the dump that are no knobs do, too.",
            show_default=False,
        ),
    ] = None,
    mapping: Annotated[
        Path | None,
        typer.Option(
            "--map", metavar="FILE", help="The mapping of kinband counters, for a dump of bulk CM.", show_default=False
        ),
    ] = None,
    log: Annotated[
        Path | None,
        typer.Option(metavar="LOG", help="A log: says which knobs matter for the reward, too.", show_default=False),
    ] = None,
    sure: Annotated[
        float, typer.Option(min=0.5, max=1.0, help="How probable a deviation must be to be reported.")
    ] = SURE,
    seed: Seed = 0,
    out: Annotated[Path, typer.Option(help="Folder for the list of deviations.")] = Path("out/conform"),
    as_json: AsJson = False,
) -> None:
    """Say what stations like this one run, who deviates and how unusual that is, before there is any log.

    For each knob what it follows, how often its value is predicted where it is hidden, and the stations that run
    something else. With --log also which knobs matter: the share of the reward's variation that each explains.

    Example: kinband conform cells.csv --station cell --configuration tilt --configuration power_dbm
    """
    notes: list[str] = []
    with noted(notes):
        make_folder(out, reads=[dump, descriptors, log], writes=["conform.csv"])
        with stage(f"reading {dump.name}"):
            runs, described = _read(dump, columns, mapping)
            if descriptors is not None:
                with about(descriptors):
                    described = _joined(described, descriptors_of(descriptors, columns), runs, notes)
        with stage(f"looking for rules of {counted(len(runs), 'station')}"):
            rules = conform(runs, described, sure=sure, seed=seed)
        shares = None if log is None else _shares(log, columns, seed=seed, quiet=as_json, notes=notes)
    file = _write(rules, out)
    if as_json:
        known = {} if shares is None else {"explained": [one.to_dict() for one in shares]}
        told = {"stations": len(runs), "knobs": [rule.to_dict() for rule in rules], **known}
        echo_json({**told, "files": [str(file)], "notes": notes})
        return
    _print(rules, len(runs))
    if shares is not None:
        _print_shares(shares)
    echo_lines(notes=notes, files=[file])


# --- What is read ---------------------------------------------------------------------------------------------------


def _read(dump: Path, columns: LogOptions, mapping: Path | None) -> tuple[Configurations, dict[str, Descriptors]]:
    """What stations run, and what the dump says of them beside that."""
    if mapping is not None:
        if columns.configuration:
            raise BadInputError("--map names the knobs of a bulk CM dump: leave --configuration out")
        return _last_settings(dump, CounterMap.read(mapping)), {}
    with about(dump):
        every = descriptors_of(dump, columns)
    known = dict.fromkeys(name for one in every.values() for name in one)
    if not columns.configuration:
        raise BadInputError(f"--configuration names a knob, one of {', '.join(known)}: repeat it for several")
    if missing := [knob for knob in columns.configuration if knob not in known]:
        raise BadInputError(
            f"{dump} has no value of a knob {missing[0]!r}; it has {', '.join(map(repr, known))}",
            hint="name the right one with --configuration",
        )
    knobs = dict.fromkeys(columns.configuration)
    runs = {name: {knob: _plain(one[knob]) for knob in knobs if knob in one} for name, one in every.items()}
    apart = {*knobs, *(columns.ignore or ())}
    return runs, {name: {what: one[what] for what in one if what not in apart} for name, one in every.items()}


def _last_settings(dump: Path, mapping: CounterMap) -> Configurations:
    """What each station ran last, by bulk CM."""
    found, seen = timelines(settings_of(dump, zone=mapping.zone, columns=mapping.columns), mapping)
    check_attributes(found, mapping, seen)
    runs: Configurations = {}
    for name, knob in mapping.knobs.items():
        for station, timeline in found[name].items():
            value = timeline.values[-1]
            if value is not None:
                runs.setdefault(station, {})[name] = _plain(knob.value_of(value))
    return runs


def _plain(value: Value) -> Value:
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _joined(
    described: Mapping[str, Descriptors], further: Mapping[str, Descriptors], runs: Configurations, notes: list[str]
) -> dict[str, Descriptors]:
    """What describes stations in the dump and in a further file, which counts where both say something."""
    without = [name for name in runs if name not in further]
    if len(without) == len(runs):
        raise BadInputError("it describes none of the stations of the dump: are they named alike in both?")
    if without:
        notes.append(f"{counted(len(without), 'station')} of the dump are not described, such as {without[0]}")
    return {name: {**described.get(name, {}), **further.get(name, {})} for name in runs}


def _shares(log: Path, columns: LogOptions, *, seed: int, quiet: bool, notes: list[str]) -> list[Share]:
    trace = _of_log(columns, log, notes).read(log)
    check_log(trace)
    first_lines(trace, quiet=quiet)
    if len(trace.stations) > STATIONS:
        notes.append(f"which knobs matter is seen from {STATIONS} of {len(trace.stations):,} stations, drawn at random")
    with stage(f"looking for what explains {len(trace):,} rewards"):
        return explained_variation(trace, seed=seed)


def _of_log(columns: LogOptions, log: Path, notes: list[str]) -> LogOptions:
    """The options about columns, less those that name columns of the dump alone."""
    if str(log) == "bundled":
        return columns
    has = set(names_in(log, **columns.written))
    knobs = [knob for knob in columns.configuration or () if knob in has]
    if absent := [knob for knob in columns.configuration or () if knob not in has]:
        notes.append(f"{log.name} has no {listed(absent)}: of that nothing is said")
    ignored = [name for name in columns.ignore or () if name in has]
    return replace(columns, configuration=knobs or columns.configuration, ignore=ignored or None)


# --- What is told ---------------------------------------------------------------------------------------------------


def _write(rules: Sequence[KnobRule], out: Path) -> Path:
    file = out / "conform.csv"
    names = ("station", "knob", "runs", "usual", "probability", "alike_run_it", "alike_run_usual", "alike")
    with file.open("w", newline="", encoding="utf-8") as opened:
        writer = csv.writer(opened)
        writer.writerow(names)
        for one in (one for rule in rules for one in rule.deviations):
            words = (safe_text(str(of)) for of in (one.station, one.knob, one.runs, one.usual))
            writer.writerow([*words, f"{one.sure:.3f}", one.like, one.usual_like, one.of])
    return file


def _print(rules: Sequence[KnobRule], stations: int) -> None:
    say(
        f"{counted(stations, 'station')}. How often the value of a knob is predicted where it is hidden, how often the "
        "commonest value would be right, who deviates from what stations like it run, and what describes these:"
    )
    made = table("knob", numbers=("values", "predicted", "commonest", "deviate"), more=("follows",))
    for rule in rules:
        follows = ", ".join(f"{name} {share:.0%}" for name, share in rule.follows) if rule.told else _untold(rule)
        numbers = (cell(rule.held_out, ".0%"), f"{rule.commonest:.0%}", f"{len(rule.deviations):,}")
        made.add_row(Text(rule.knob), f"{rule.values:,}", *numbers, Text(follows))
    show(made)
    every = sorted((one for rule in rules for one in rule.deviations), key=lambda one: -one.sure)
    if not every:
        say("No station deviates from what stations like it run.")
        return
    listing = table("station", "knob", numbers=("runs", "usual", "sure"), more=("stations most like it",))
    for one in every[:_SHOWN]:
        texts = (Text(of) for of in (one.station, one.knob, str(one.runs), str(one.usual)))
        listing.add_row(*texts, f"{min(one.sure, 0.99):.0%}", Text(_like(one)))
    listing.caption = f"and {len(every) - _SHOWN:,} more in conform.csv" if len(every) > _SHOWN else None
    show(listing)


def _untold(rule: KnobRule) -> str:
    return "nothing: one value" if rule.values == 1 else "nothing that describes stations"


def _like(one: Deviation) -> str:
    return f"{one.usual_like:,} of {one.of:,} run {one.usual}, {one.like:,} run {one.runs}"


def _print_shares(shares: Sequence[Share]) -> None:
    made = table("explains of the rewards' variation", numbers=("share (95 %)", "stations that varied it"))
    for one in shares:
        made.add_row(Text(one.name), cell(one.share, ".1%"), f"{one.varied:,}")
    show(made)
    if fixed := [one.name for one in shares if not one.varied]:
        say(f"Of {listed(fixed)} nothing can be said: no station ran two values.")
