"""`kinband ledger`: look after the record: how it stands, whether it is intact, a copy of it."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kinband.cli.options import AsJson
from kinband.cli.render import echo_json
from kinband.errors import BadInputError
from kinband.progress import stage

if TYPE_CHECKING:
    from kinband.service.ledger import Ledger

ledger_app = typer.Typer(
    help="Check, back up and upgrade the record of a service.\n\nExample: kinband ledger verify ledger.db",
    no_args_is_help=True,
    add_completion=False,
)

LEDGER: dict[str, Any] = {
    "metavar": "LEDGER",
    "envvar": "KINBAND_LEDGER",
    "help": "The ledger of the service: an SQLite file, or postgresql://user@host/name.",
}
"""What a ledger is called, as an argument and as an option."""
KeyOption = Annotated[
    Path | None,
    typer.Option(
        "--key", metavar="FILE", envvar="KINBAND_LEDGER_KEY", help="The key that the ledger is sealed with, if it is."
    ),
]
LedgerArgument = Annotated[str, typer.Argument(**LEDGER)]


@contextmanager
def needs_service() -> Iterator[None]:
    """Say how to get the service where a part of it cannot be loaded."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise BadInputError(f"the service needs {error.name}: pip install 'kinband[service]'") from error


@contextmanager
def opened_ledger(url: str, *, create: bool = False, key: Path | None = None) -> "Iterator[Ledger]":
    """Open a ledger for a while."""
    with needs_service():
        from kinband.service.ledger import Key, Ledger
    opened = Ledger.open(url, create=create, key=None if key is None else Key.read(key))
    try:
        yield opened
    finally:
        opened.close()


@ledger_app.command()
def info(ledger: LedgerArgument, as_json: AsJson = False) -> None:
    """Say how a ledger stands: events, times, schema, the last checksum.

    Example: kinband ledger info ledger.db
    """
    from kinband.service.ledger.backups import summary_of

    with opened_ledger(ledger) as opened:
        found = summary_of(opened)
    if as_json:
        echo_json(asdict(found))
        return
    typer.echo(f"{found.name}: {found.events:,} events, schema {found.schema}, {found.snapshots} snapshot(s)")
    if found.events:
        typer.echo(f"from {found.first} to {found.last}, head {found.events}:{found.checksum}")
        typer.echo(", ".join(f"{count:,} {kind}" for kind, count in found.kinds.items()))


@ledger_app.command()
def verify(
    ledger: LedgerArgument,
    expect: Annotated[
        str | None,
        typer.Option(metavar="HEAD", help="A head that was noted before, such as 4711:3f0aa17b2c4d: it must be there."),
    ] = None,
    key: KeyOption = None,
) -> None:
    """Check every checksum, the database itself, settings and tokens, and the seal; exit code 2 says what is wrong.

    Example: kinband ledger verify ledger.db
    """
    with opened_ledger(ledger, key=key) as opened, stage("reading every event"):
        from kinband.service.ledger import Head

        count = opened.verify(expect=None if expect is None else Head.read(expect))
        name, head = opened.name, opened.head()
    seal = "no key was given for a seal" if key is None else "its seal holds"
    typer.echo(f"{name} is intact: {count:,} events, every checksum holds, {seal}; head {head}")


@ledger_app.command()
def seal(
    ledger: LedgerArgument,
    key: Annotated[Path, typer.Option("--key", metavar="FILE", help="The file with the key; made if not there.")],
) -> None:
    """Check a ledger and seal it with a key: from then on nobody without the key can write to it unnoticed.

    Keep the key where those who can write to the database cannot read it, and give it to every command by --key or
    KINBAND_LEDGER_KEY.

    Example: kinband ledger seal ledger.db --key /etc/kinband/ledger.key
    """
    with needs_service():
        from kinband.service.ledger import Key
    with opened_ledger(ledger) as opened, stage("reading every event"):
        opened.verify()
    if not key.exists():
        Key.make(key)
    with opened_ledger(ledger, create=True, key=key) as opened:
        typer.echo(f"{opened.name} is sealed, head {opened.seal()}")


@ledger_app.command()
def backup(
    ledger: LedgerArgument,
    copy: Annotated[Path, typer.Argument(metavar="COPY", help="The file to write; it must not exist.")],
    key: KeyOption = None,
) -> None:
    """Copy an SQLite ledger while the service runs, and check the copy.

    Example: kinband ledger backup ledger.db /backup/ledger-2026-11-20.db
    """
    from kinband.service.ledger.backups import back_up

    with opened_ledger(ledger, key=key) as opened, stage("copying"):
        head = back_up(opened, copy)
    typer.echo(f"{copy}: a whole copy, every checksum holds; head {head}")


@ledger_app.command()
def archive(
    ledger: LedgerArgument,
    keep: Annotated[int, typer.Option(min=1, help="How many of the latest events stay in the database.")] = 100_000,
    key: KeyOption = None,
) -> None:
    """Move old events of an SQLite ledger into compressed files beside it, which are read like the rest.

    A service does so by itself; this is for one that is to be made smaller at once. It may run meanwhile.

    Example: kinband ledger archive ledger.db --keep 100000
    """
    from kinband.service.ledger.archiving import archive_events

    with opened_ledger(ledger, create=Path(ledger).exists(), key=key) as opened, stage("archiving"):
        made = archive_events(opened, keep=keep)
        last, name = opened.archived(), opened.name
    typer.echo(f"{name}: {len(made)} new segment(s); events up to {last:,} are in its archive")


@ledger_app.command("check-rails")
def check_rails(
    ledger: LedgerArgument,
    rails: Annotated[Path, typer.Argument(metavar="FILE", help="The file of guard rails.")],
) -> None:
    """Check a file of guard rails against what stations there are and can run; nothing is put in force.

    What is wrong is told with its line, and exit code 2: look before the service is started with it.

    Example: kinband ledger check-rails ledger.db rails.yaml
    """
    from kinband.guardrails import Guard
    from kinband.service.starting import rails_in, setup_on_record, stations_on_record

    with opened_ledger(ledger) as opened:
        setup = setup_on_record(opened)
        if setup is None:
            raise BadInputError(f"the ledger {opened.name} has no controller yet: start the service with it first")
        stations = stations_on_record(opened, setup)
    found, _ = rails_in(rails, setup, stations=stations)
    Guard(found, setup.encoder.space)
    typer.echo(f"{rails} can be put in force: every knob and every station that it names is known")


@ledger_app.command()
def upgrade(ledger: LedgerArgument) -> None:
    """Bring a ledger's tables to this version; the service does the same when it starts.

    Example: kinband ledger upgrade ledger.db
    """
    from kinband.service.ledger.backups import summary_of

    if "://" not in ledger and not Path(ledger).exists():
        raise BadInputError(f"there is no ledger {ledger}: check its name")
    with opened_ledger(ledger, create=True) as opened:
        found = summary_of(opened)
    typer.echo(f"{found.name} has schema {found.schema}")
