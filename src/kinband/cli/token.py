"""`kinband token`: who may use the service.

Tokens are made and revoked here, beside the ledger, and not over the network: whoever can open the ledger may do so.
"""

import getpass
import re
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from kinband.cli.ledger import LEDGER, KeyOption, needs_service, opened_ledger
from kinband.cli.options import AsJson
from kinband.cli.render import echo_json, show, table
from kinband.errors import BadInputError

if TYPE_CHECKING:
    from kinband.service.access import TokenRecord, Tokens

_HELP = """Create, list and revoke the tokens of the service.

Example: kinband token create --ledger ledger.db --name nms --role operator
"""
token_app = typer.Typer(help=_HELP, no_args_is_help=True, add_completion=False)

LedgerOption = Annotated[str, typer.Option("--ledger", **LEDGER)]
_LIFE = re.compile(r"(\d{1,5})([mhdw])", re.ASCII)
_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


@token_app.command()
def create(
    ledger: LedgerOption,
    name: Annotated[str, typer.Option("--name", metavar="NAME", help="Whom or what the token is for.")],
    role: Annotated[str, typer.Option("--role", metavar="ROLE", help="viewer, operator or admin.")] = "viewer",
    expires: Annotated[
        str, typer.Option("--expires", metavar="TIME", help="When it ends: 12h, 90d, 4w, or never.")
    ] = "90d",
    key: KeyOption = None,
    to: Annotated[
        Path | None,
        typer.Option("--to", metavar="FILE", help="A new file to write it to, which its owner alone may read."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Make a token and print it, alone, on standard output, or write it to a file; it is shown this once.

    A ledger that is not there yet is started, so that a token can be made before the service runs for the first time.

    Example: kinband token create --ledger ledger.db --name nms --role operator --expires 90d --to nms.token
    """
    expires_in = _lifetime(expires)
    _check(name, role)
    with ExitStack() as stack:
        file = None if to is None else stack.enter_context(_private(to))
        tokens = stack.enter_context(_tokens(ledger, create=True, key=key))
        made = tokens.create(name, role, expires_in=expires_in, by=_caller())
        where = tokens.ledger.name
        if file is not None:
            file.write(f"{made.token}\n")
    if file is not None:
        echo_json(made.record.to_dict()) if as_json else typer.echo(str(to))
        return
    if as_json:
        echo_json({"token": made.token, **made.record.to_dict()})
        return
    typer.echo(made.token)
    until = "forever" if made.record.expires is None else f"until {_minute(made.record.expires)} UTC"
    typer.echo(f"{name} may sign in as {made.record.role} {until}; the ledger is {where}.", err=True)
    typer.echo("Store the token now: it is not shown again, and only its hash is kept.", err=True)


@token_app.command("list")
def list_tokens(
    ledger: LedgerOption,
    everything: Annotated[bool, typer.Option("--all", help="Also those that were revoked or have expired.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show the tokens of the service: whose they are, what they allow, until when, and when they were last used.

    Example: kinband token list --ledger ledger.db --all
    """
    with _tokens(ledger) as tokens:
        now = tokens.ledger.now()
        found = [(record, record.state(now)) for record in tokens.list()]
    shown = [(record, state) for record, state in found if everything or state == "live"]
    if as_json:
        echo_json([record.to_dict() | {"state": state} for record, state in shown])
    elif shown:
        _print(shown)
    else:
        typer.echo("No tokens: kinband token create makes one." if not found else "No live tokens: --all shows others.")


@token_app.command()
def revoke(
    token: Annotated[str, typer.Argument(metavar="TOKEN", help="The id or the name of the token.")],
    ledger: LedgerOption,
    key: KeyOption = None,
    as_json: AsJson = False,
) -> None:
    """End a token and every session that was opened with it, within seconds.

    Example: kinband token revoke nms --ledger ledger.db
    """
    with _tokens(ledger, key=key) as tokens:
        record = tokens.revoke(token, by=_caller())
    if as_json:
        echo_json(record.to_dict() | {"state": "revoked"})
    else:
        typer.echo(f"{record.name} ({record.id}, {record.role}) was revoked at {_minute(str(record.revoked))} UTC.")


@contextmanager
def _private(path: Path) -> Iterator[IO[str]]:
    """Give a new file that its owner alone may read; where no token is made, there is none."""
    with needs_service():
        from kinband.service.ledger.engines import open_private
    try:
        file = open_private(path)
    except OSError as error:
        why = (error.strerror or "refused").lower()
        raise BadInputError(f"{path} cannot be written ({why}): name a new file") from error
    try:
        with file:
            yield file
    except BaseException:
        path.unlink(missing_ok=True)
        raise


def _check(name: str, role: str) -> None:
    """Refuse what cannot become a token before a ledger is started for it."""
    with needs_service():
        from kinband.service.access.tokens import Role, check_name
    check_name(name)
    Role.of(role)


@contextmanager
def _tokens(ledger: str, *, create: bool = False, key: Path | None = None) -> Iterator["Tokens"]:
    """Give the tokens of a ledger."""
    with opened_ledger(ledger, create=create, key=key) as opened:
        from kinband.service.access.tokens import Tokens

        yield Tokens(opened)


def _lifetime(text: str) -> timedelta | None:
    """Return after which time a token ends, None for never."""
    match = _LIFE.fullmatch(text.strip().lower())
    if text.strip().lower() != "never" and match is None:
        raise BadInputError(f"--expires must be a time such as 12h, 90d or 4w, or never, got {text!r:.40}")
    return None if match is None else timedelta(**{_UNITS[match[2]]: int(match[1])})


def _caller() -> str:
    """Return who sits at the command line, as far as the system says."""
    try:
        return f"command line ({getpass.getuser()})"
    except (OSError, KeyError, ImportError):  # no such user in the system's list
        return "command line"


def _minute(at: str) -> str:
    return at[:16].replace("T", " ")


def _print(shown: "Sequence[tuple[TokenRecord, str]]") -> None:
    made = table("id", "name", "role", "created", "expires", "last used", "state", narrow=True)
    for record, state in shown:
        times = (record.created, record.expires or "never", record.last_used or "-")
        made.add_row(record.id, Text(record.name), record.role.value, *map(_minute, times), state)
    show(made)
