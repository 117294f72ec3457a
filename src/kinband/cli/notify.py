"""`kinband notify`: check whom a service is to tell of what happens, and send each of them a test."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from kinband.cli.ledger import needs_service
from kinband.errors import BadInputError, KinbandError


def notify(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The file for kinband serve --notify.")],
    target: Annotated[
        str | None, typer.Option(metavar="NAME", help="Whom to send a test; everybody if not given.")
    ] = None,
    check: Annotated[bool, typer.Option("--check", help="Send nothing, only read the file and its secrets.")] = False,
) -> None:
    """Send a test to those whom a service is to tell of what happens; exit code 2 where one does not take it.

    Example: kinband notify notify.yaml --target noc
    """
    with needs_service():
        from kinband.service.notify.notifier import trial_message
        from kinband.service.notify.sending import send
        from kinband.service.notify.settings import read_settings
    settings = read_settings(file)
    chosen = [one for one in settings.targets if target in (None, one.name)]
    if not chosen:
        names = ", ".join(one.name for one in settings.targets)
        raise BadInputError(f"{file} has no target {target!r:.60}: there is {names}")
    failed = []
    for one in chosen:
        told = ", ".join(sorted(one.topics))
        if check:
            typer.echo(f"{one.name}: {one.way.place}, told of {told}")
            continue
        now = datetime.now(UTC)
        try:
            send(trial_message(one, at=now, link=settings.link), one, now=now)
            typer.echo(f"{one.name}: {one.way.place} took a test")
        except KinbandError as error:
            failed.append(one.name)
            typer.echo(f"{one.name}: {error}", err=True)
    if failed:
        raise BadInputError(f"{', '.join(failed)} did not take the test: mend the address, or what listens there")
