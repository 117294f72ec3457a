"""Every target of learning that an operator can trust, with its measured value and interval."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from benchmarks.command import command
from benchmarks.trust import PARTS, Runner, Size, measured, parts_named
from benchmarks.trust.table import (
    BEGIN,
    END,
    HEAD,
    cells,
    draw_targets,
    in_words,
    markdown,
    notes_of,
    to_json,
    write_into,
)
from benchmarks.trust.targets import SHORT, Target
from kinband.cli.options import make_folder
from kinband.errors import BadInputError
from kinband.experiments.pages import check_place
from kinband.progress import stage

_COLOURS = {"yes": "green", "no": "red"}


def trust(
    parts: Annotated[list[str] | None, typer.Argument(help=f"Any of {', '.join(PARTS)}; all by default.")] = None,
    small: Annotated[bool, typer.Option("--quick", help=f"A look in minutes: {SHORT}.")] = False,
    runs: Annotated[int | None, typer.Option(min=1, help="Seeds; by default as many as each target takes.")] = None,
    seed: Annotated[int, typer.Option(min=1, help="The first seed.")] = 1,
    workers: Annotated[int, typer.Option(min=0, help="Processes; 0 for one per core.")] = 0,
    out: Annotated[Path, typer.Option(help="Folder for results; runs that are there are kept.")] = Path("out/trust"),
    trace: Annotated[
        Path | None, typer.Option(help="A table of ColO-RAN (docs/extend.md), for parts that play on real stations.")
    ] = None,
    write: Annotated[
        Path | None, typer.Option(help="A Markdown page with a place for the table, such as docs/tables/trust.md.")
    ] = None,
    figure: Annotated[
        Path | None, typer.Option(help="A .png, .svg or .pdf file to draw the measured targets into.", dir_okay=False)
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the table for machines.")] = False,
) -> None:
    """Measure every promise of learning that an operator can trust, and say which are kept.

    The full table takes hours; it can be interrupted and goes on where it stopped.

    Example: python -m benchmarks.trust newcomers evaluation --quick
    """
    wanted = parts_named(parts or [])
    if trace is not None and not trace.exists():
        raise BadInputError(f"there is no file {trace}: give the path of a ColO-RAN table, as docs/extend.md makes it")
    make_folder(out)
    if write is not None:
        check_place(write, (BEGIN, END))
    if figure is not None and figure.suffix not in (".png", ".svg", ".pdf"):
        raise BadInputError(f"{figure} has no format that can be drawn: name a .png, .svg or .pdf file")
    size = Size(runs, seed, small, None if trace is None else str(trace))
    with stage("measuring", sum(part.effort(size) for part in wanted)) as step:
        found = measured(wanted, size, Runner(out, workers or None, step))
    (out / "table.md").write_text(markdown(found), encoding="utf-8")
    (out / "table.json").write_text(to_json(found) + "\n", encoding="utf-8")
    if write is not None:
        write_into(write, found)
    if figure is not None:
        draw_targets(found, figure, title=f"python -m benchmarks.trust {' '.join(part.name for part in wanted)}")
    if as_json:
        typer.echo(to_json(found))
    else:
        _print(found)
        typer.echo(in_words(found))
        typer.echo(f"table: {write or out / 'table.md'}")
        if figure is not None:
            typer.echo(f"figure: {figure}")


def _print(found: list[Target]) -> None:
    console = Console()
    for part in dict.fromkeys(target.part for target in found):
        own = [target for target in found if target.part == part]
        short = f" ({SHORT})" if any(target.short for target in own) else ""
        table = Table(title=f"{part}: {PARTS[part].promise}{short}", title_justify="left")
        for column in HEAD[1:]:
            table.add_column(column, overflow="fold")
        for target in own:
            row = cells(target)[1:]
            table.add_row(*(cell.replace(" (", "\n(") for cell in row), style=_COLOURS.get(row[-1]))
        console.print(table)
        for note in notes_of(own):
            console.print(note, style="dim", highlight=False)


def main(arguments: Sequence[str]) -> int:
    """Run the command and return its exit code."""
    return command(trust, "benchmarks.trust", arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
