"""`kinband replay`: a decision of the past again, from the ledger alone, with its reason."""

import json
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from kinband.cli.options import AsJson
from kinband.controller.explain import MOST_ROWS
from kinband.errors import BadInputError

if TYPE_CHECKING:
    from kinband.service.ledger import Replayed


def replay(
    ledger: Annotated[
        str, typer.Argument(metavar="LEDGER", help="The ledger: an SQLite file, or postgresql://user@host/name.")
    ],
    decision: Annotated[str, typer.Argument(metavar="DECISION", help="The id of the decision, such as d000042.")],
    anew: Annotated[
        bool, typer.Option("--anew", help="Learn everything before it anew, instead of starting from a snapshot.")
    ] = False,
    most_rows: Annotated[
        int, typer.Option(min=1, help="Up to how many rewards of related stations evidence is weighed.")
    ] = MOST_ROWS,
    as_json: AsJson = False,
) -> None:
    """Decide a decision of the past again from the ledger, compare it, and say why it was made.

    Ends with exit code 1 where the decision is another, beyond what machines and versions round otherwise: the ledger
    was changed. Decisions of a version that weighed sharing by station are told apart.

    Example: kinband replay ledger.db d000042
    """
    try:
        from kinband.service.ledger import Ledger
        from kinband.service.ledger import replay as replayed
    except ModuleNotFoundError as error:
        raise BadInputError(f"a ledger needs {error.name}: pip install 'kinband[service]'") from error

    opened = Ledger.open(ledger, create=False)
    try:
        with Console(stderr=True, quiet=as_json).status("deciding again"):
            found = replayed(opened, decision, snapshots=not anew, most_rows=most_rows)
    finally:
        opened.close()
    if as_json:
        typer.echo(json.dumps(found.to_dict(), indent=1, allow_nan=False))
    else:
        _print(found)
    if not found.same:
        raise typer.Exit(1)


def _print(found: "Replayed") -> None:
    event, console = found.event, Console()
    table = Table(pad_edge=False)
    for column in ("", "configuration"):
        table.add_column(column)
    for column in ("expected", "std", "score"):
        table.add_column(column, justify="right")
    for name, made in (("as recorded", found.recorded), ("decided again", found.again)):
        knobs = f"arm {made.arm}" if made.configuration is None else _knobs(dict(made.configuration))
        scores = ("-" if value is None else repr(value) for value in (made.mean, made.std, made.ucb))
        table.add_row(name, Text(knobs), *scores)
    console.print(
        f"{event.decision} for {event.station}, event {event.seq} of {event.at}", highlight=False, markup=False
    )
    console.print(table)
    typer.echo(_verdict(found))
    typer.echo(found.explanation.text)


def _verdict(found: "Replayed") -> str:
    if found.same:
        return "The same."
    if found.weighed:
        return "Not the same: an earlier version made it, with weights of sharing that are no longer used."
    return "NOT the same: the ledger has changed."


def _knobs(configuration: dict[str, object]) -> str:
    return ", ".join(f"{knob}={value}" for knob, value in configuration.items())
