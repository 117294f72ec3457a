"""`kinband replay`: a decision of the past again, from the ledger alone, with its reason."""

from typing import TYPE_CHECKING, Annotated

import typer

from kinband.cli.ledger import KeyOption, LedgerArgument, opened_ledger
from kinband.cli.options import AsJson, MostRows
from kinband.cli.render import echo_json, echo_lines, say, scores_table, show
from kinband.controller.explain import MOST_ROWS
from kinband.progress import stage

if TYPE_CHECKING:
    from kinband.service.ledger import Replayed


def replay(
    ledger: LedgerArgument,
    decision: Annotated[str, typer.Argument(metavar="DECISION", help="The id of the decision, such as d000042.")],
    anew: Annotated[
        bool, typer.Option("--anew", help="Learn everything before it anew, instead of starting from a snapshot.")
    ] = False,
    key: KeyOption = None,
    most_rows: MostRows = MOST_ROWS,
    as_json: AsJson = False,
) -> None:
    """Decide a decision of the past again from the ledger, compare it, and say why it was made.

    Ends with exit code 1 where the decision is another, beyond what machines and versions round otherwise: the ledger
    was changed; it is verified before. Decisions of a version with weights of sharing by station are told apart.

    Example: kinband replay ledger.db d000042
    """
    with opened_ledger(ledger, key=key) as opened, stage("deciding again"):
        from kinband.service.ledger import replay as replayed

        found = replayed(opened, decision, snapshots=not anew, most_rows=most_rows)
    if as_json:
        echo_json(found.to_dict())
    else:
        _print(found)
    if not found.same:
        raise typer.Exit(1)


def _print(found: "Replayed") -> None:
    event = found.event
    say(f"{event.decision} for {event.station}, event {event.seq} of {event.at}")
    both = (("as recorded", found.recorded), ("decided again", found.again))
    rows = [(name, made.configuration, made.arm, (made.mean, made.std, made.ucb)) for name, made in both]
    show(scores_table(rows, spec=""))
    echo_lines(_verdict(found), *_start(found), found.explanation.text)


def _start(found: "Replayed") -> list[str]:
    """Say what was taken for granted."""
    seq = found.snapshot
    return [f"Beliefs stored after event {seq} were taken up; --anew learns everything again."] if seq else []


def _verdict(found: "Replayed") -> str:
    if found.same:
        return "The same."
    if found.weighted_sharing:
        return "Not the same: an earlier version made it, with weights of sharing that are no longer used."
    return "NOT the same: the ledger has changed."
