"""`kinband look`: what was understood of a file, without learning anything from it."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from kinband.cli.app import ctrl_c_ends_at_once
from kinband.cli.options import AsJson, LogFile, LogOptions, about, noted, with_options
from kinband.cli.profile import check_saved, write_profile
from kinband.cli.render import echo_json, echo_lines, say, show, table
from kinband.errors import KinbandError
from kinband.stats import counted
from kinband.trace import Trace
from kinband.trace.answers import log_questions
from kinband.trace.describe import Described, described
from kinband.trace.files import bundled_file

_REPEAT = (
    "commands refuse rows that cannot be used, with this profile too: repeat this with --skip-bad, and the profile "
    "leaves them out"
)
_COLUMNS, _WIDE = 40, 6  # rows of the table of columns, and columns of the first rows that are shown


@with_options
def look(
    log: LogFile,
    columns: LogOptions = LogOptions(),
    save_profile: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Keep these options in a YAML file, for --profile of every command."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show how a file is read: its encoding and marks, its columns with their roles, and what is wrong with it.

    Nothing is learned. Options name what was not understood, and can be kept for the next export.

    Example: kinband look export.csv --configuration tilt --reward thp --save-profile vendor.yaml
    """
    if save_profile is not None:
        check_saved(save_profile)
    log, notes = bundled_file("city.parquet") if str(log) == "bundled" else log, list[str]()
    with about(log), ctrl_c_ends_at_once(), noted(notes):
        found = described(
            log, columns.columns, marks=columns.written, categories=columns.category or (),
            ranged=columns.reward_range is not None,
        )  # fmt: skip
    trace, needed = _trace(log, columns, notes)
    shown = None if found.problems and needed and found.problems[0] in needed else needed  # which the table said
    answers = _answers(trace)
    if save_profile is not None:
        write_profile(save_profile, {**asdict(columns), **_guessed(found, columns), "profile": None})
        if found.bad_rows and not columns.skip_bad:
            notes.append(_REPEAT)
    files = [] if save_profile is None else [save_profile]
    if as_json:
        said = {"needed": needed, "answers": answers, "notes": notes, "files": list(map(str, files))}
        echo_json({**found.to_dict(), **said})
        return
    _print(found, skips=columns.skip_bad)
    ready = [] if trace is None else ["ready: other commands read it with these options"]
    echo_lines(*ready, *([f"needed: {shown}"] if shown else []), *answers, notes=notes, files=files)


def _guessed(found: Described, columns: LogOptions) -> dict[str, str]:
    """The columns that were taken for station and time without being named, so that a profile names them."""
    roles = {one.role: one.name for one in found.columns if one.role in ("station", "time")}
    return {role: name for role, name in roles.items() if getattr(columns, role) is None}


def _trace(log: Path, columns: LogOptions, notes: list[str]) -> tuple[Trace | None, str | None]:
    """The log as other commands would read it, or what they would say instead."""
    from kinband.cli.app import in_options

    try:
        with noted(notes):
            return columns.read(log), None
    except KinbandError as error:
        return None, in_options(error)


def _answers(trace: Trace | None) -> list[str]:
    """What the log can answer, a line each."""
    return [] if trace is None else log_questions(trace).in_words()


def _print(found: Described, *, skips: bool) -> None:
    say(found.how)
    made = table("column", "role", "type", "unit", numbers=("missing", "distinct"), more=("range",), narrow=True)
    for one in found.columns[:_COLUMNS]:
        missing = f"{one.missing:,}" + (f" + {one.bad:,} bad" if one.bad else "")
        words = (Text(one.name), one.role, one.kind, one.unit, missing, f"{one.distinct:,}", Text(one.range))
        made.add_row(*words)
    show(made)
    if len(found.columns) > _COLUMNS:
        say(f"{counted(len(found.columns) - _COLUMNS, 'column')} more: --json shows all.")
    names = [one.name for one in found.columns[:_WIDE]]
    first = table(*names, narrow=True, title="The first rows")
    for row in found.first:
        first.add_row(*(Text(str(row[name])) for name in names))
    show(first)
    for problem in found.problems:
        say(f"problem: {problem}")
    if found.bad_rows:
        left = "they are left out, as --skip-bad says" if skips else "--skip-bad leaves them out"
        say(f"{counted(found.bad_rows, 'row')} of {found.rows:,} cannot be used; {left}.")
