"""`kinband counters`: from the measurement files and the configuration of a network to a log."""

from pathlib import Path
from typing import Annotated, Any

import typer

from kinband.cli.options import AsJson
from kinband.cli.render import echo_json, echo_lines, say, show, table
from kinband.counters import CounterMap, Joined, Survey, join, survey
from kinband.counters.proposal import propose as proposal
from kinband.errors import BadInputError
from kinband.stats import counted
from kinband.trace.files import is_ours, suffix_of

_SHOWN = 12  # classes of a table
_NAMED = 5  # files that are named


def counters(
    paths: Annotated[
        list[str], typer.Argument(metavar="DIR", help="Measurement files: a directory, files, or a quoted pattern.")
    ],
    cm: Annotated[
        list[str] | None,
        typer.Option(metavar="FILE", help="The configuration: bulk CM XML or CSV, a file or a directory; repeatable."),
    ] = None,
    mapping: Annotated[
        Path | None, typer.Option("--map", metavar="FILE", help="What is what: a YAML file. Makes a log.")
    ] = None,
    propose: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write a mapping to begin with into this file.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the log: .parquet, .csv or .csv.gz; needs --map.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Say what 3GPP measurement files hold, propose a mapping, and with one make a log for every other command.

    Reads TS 32.435 and TS 28.532 files, gzipped or not, and the configuration from bulk CM XML or CSV.

    Example: kinband counters pm/ --cm cm.csv --map map.yaml --out log.parquet
    """
    _check(mapping, propose=propose, out=out, cm=cm)
    if mapping is not None:
        joined = join(paths, CounterMap.read(mapping), cm=cm, watch=not as_json)
        if out is not None:
            joined.trace.write(out)
        _tell_joined(joined, out, as_json=as_json)
        return
    found = survey(paths, watch=not as_json)
    if propose is not None:
        propose.write_text(proposal(found, cm=cm), encoding="utf-8")
    if as_json:
        echo_json({**found.to_dict(), "files_written": [str(file) for file in [propose] if file]})
        return
    _print(found)
    echo_lines(*_odd(found), files=[propose] if propose else [])


def _check(mapping: Path | None, *, propose: Path | None, out: Path | None, cm: Any) -> None:
    if mapping is not None and propose is not None:
        raise BadInputError("--map uses a mapping and --propose writes one: give one of them")
    if mapping is not None and not cm:
        raise BadInputError("a log needs the configuration that stations ran: give it with --cm")
    if out is not None and mapping is None:
        raise BadInputError("--out needs a mapping: write one with --propose, check it, and give it with --map")
    if out is not None:
        suffix_of(out, written=True)
        if out.exists() and not is_ours(out):
            raise BadInputError(f"{out} exists and is no log that kinband wrote: choose another name, or remove it")
    if propose is not None and propose.exists():
        raise BadInputError(f"{propose} exists: choose another name for the proposal, or remove it")


def _tell_joined(joined: Joined, out: Path | None, *, as_json: bool) -> None:
    trace, files = joined.trace, [] if out is None else [str(out)]
    if as_json:
        told: dict[str, Any] = {"rows": len(trace), "stations": len(trace.stations), "periods": joined.periods}
        told |= {"lost": dict(joined.lost), "notes": list(joined.notes), "files_written": files}
        echo_json({**joined.survey.to_dict(), **told})
        return
    state, knobs = ", ".join(trace.state_names) or "none", ", ".join(trace.configuration)
    lines = [
        f"{counted(len(trace), 'row')} of {counted(len(trace.stations), 'station')} from {joined.periods:,} periods of "
        f"stations in {counted(joined.survey.files, 'file')}; state: {state}; knobs: {knobs}",
        *(f"left out: {count:,}, because {why}" for why, count in joined.lost.items()),
    ]
    echo_lines(*lines, *_odd(joined.survey), notes=joined.notes, files=files)


def _print(found: Survey) -> None:
    told = found.to_dict()
    lengths = " and ".join(f"{seconds:,} s" for seconds in told["period_seconds"])
    span = f", {counted(told['periods'], 'period')} of {lengths} from {told['first']} to {told['last']}"
    say(f"{counted(found.files, 'file')}, {counted(len(found.periods), 'object')}{span}")
    made = table("class", numbers=("objects", "counters"), more=("such as",), narrow=True)
    for kind, count in list(found.classes.items())[:_SHOWN]:
        made.add_row(kind, f"{count:,}", f"{len(found.counters[kind]):,}", ", ".join(sorted(found.counters[kind])[:3]))
    show(made)
    if (more := len(found.classes) - _SHOWN) > 0:
        say(f"{more:,} more classes: --json")


def _odd(found: Survey) -> list[str]:
    """What is wrong with the files, a line each."""
    gaps = found.gaps()
    lines = []
    if found.suspect:
        lines.append(
            f"suspect and left out: {found.suspect.total():,} of {counted(len(found.suspect), 'object')}, "
            f"such as {next(iter(found.suspect))}"
        )
    if gaps:
        first, (begin, end, _) = next((dn, listed[0]) for dn, listed in gaps.items())
        missing = sum(count for listed in gaps.values() for *_, count in listed)
        lines.append(f"gaps: {missing:,} periods of {counted(len(gaps), 'object')}, such as {first} {begin} to {end}")
    for pair, count in list(found.differing.items())[:_NAMED]:
        where = (
            f"{pair[0]} and {pair[1]}" if pair[0] != pair[1] else f"{pair[0]}, within it (of two classes of objects?)"
        )
        lines.append(f"differ in {counted(count, 'place')}, left out: {where}")
    if (more := len(found.differing) - _NAMED) > 0:
        lines.append(f"differ too: {more:,} pairs of files more (--json)")
    if found.repeated:
        lines.append(f"in two files alike, and used once: {found.repeated:,}")
    lines += [f"not used: {file}: {reason}" for file, reason in list(found.unreadable.items())[:_NAMED]]
    if (more := len(found.unreadable) - _NAMED) > 0:
        lines.append(f"not used: {more:,} files more (--json)")
    if found.foreign:
        named = ", ".join(found.foreign[:_NAMED])
        rest = f" and {len(found.foreign) - _NAMED:,} more" if len(found.foreign) > _NAMED else ""
        lines.append(f"no measurement files, and left alone: {named}{rest}")
    return lines
