"""How commands print: tables, numbers with intervals, sentences, and JSON for machines."""

import json
from collections.abc import Iterable, Mapping
from math import isfinite
from typing import Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from kinband.controller.explain import configuration_text
from kinband.stats import Estimate


def echo_json(results: Any) -> None:
    """Print results for machines; what is not finite is null, as JSON has no word for it."""
    typer.echo(json.dumps(_finite(results), indent=1, allow_nan=False))


def _finite(value: Any) -> Any:
    match value:
        case dict():
            return {name: _finite(one) for name, one in value.items()}
        case list() | tuple():
            return [_finite(one) for one in value]
        case float():
            return value if isfinite(value) else None
    return value


def echo_lines(*lines: str, notes: Iterable[str] = (), files: Iterable[Any] = ()) -> None:
    """Print sentences, then notes and names of files, a line each."""
    typer.echo("\n".join([*lines, *(f"note: {note}" for note in notes), *(f"file: {file}" for file in files)]))


def say(text: str) -> None:
    """Print text as it is: long lines stay whole, and nothing in it is taken for markup."""
    Console().print(text, highlight=False, soft_wrap=True, markup=False)


def table(
    *columns: str, numbers: Iterable[str] = (), more: Iterable[str] = (), title: str | None = None, narrow: bool = False
) -> Table:
    """Return a table of text columns, then columns of numbers, then text again; a narrow one does without margins."""
    made = Table(title=title, title_justify="left" if narrow else "center", pad_edge=not narrow)
    for column in columns:
        made.add_column(Text(column), overflow="fold")
    for column in numbers:
        made.add_column(Text(column), justify="right", no_wrap=True)
    for column in more:
        made.add_column(Text(column), overflow="fold")
    return made


def show(made: Table) -> None:
    """Print a table."""
    Console().print(made)


def cell(estimate: Estimate | None, spec: str, *, narrow: bool = False) -> str:
    """Return a number for a column of a table: its interval goes below it, in a narrow one without brackets."""
    if estimate is None:
        return "-"
    text = f"{estimate:{spec}}"
    return text.replace(" (", "\n").removesuffix(")") if narrow else text.replace(" (", "\n(")


def numbers_of(estimate: Estimate | None) -> dict[str, Any] | None:
    """Return a number and its interval for JSON."""
    return None if estimate is None else {"mean": estimate.value, "interval": [estimate.low, estimate.high]}


Scored = tuple[str, Mapping[str, Any] | None, int, tuple[float | None, ...]]
"""A word, a configuration with its number, and its expected reward, standard deviation and score."""


def scores_table(rows: Iterable[Scored], spec: str) -> Table:
    """Return a table of configurations with their scores."""
    made = table("", "configuration", numbers=("expected", "std", "score"), narrow=True)
    for word, configuration, arm, scores in rows:
        known = ("-" if score is None else format(score, spec) for score in scores)
        made.add_row(word, Text(configuration_text(configuration, arm)), *known)
    return made
