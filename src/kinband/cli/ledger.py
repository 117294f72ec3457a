"""`kinband ledger`: look after the record: how it stands, whether it is intact, a copy of it."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kinband.cli.options import AsJson, make_folder
from kinband.cli.render import echo_json
from kinband.errors import BadInputError
from kinband.progress import stage

if TYPE_CHECKING:
    from kinband.service.ledger import Ledger
    from kinband.service.operations.preview import Preview

_LISTED = 20  # decisions that a preview of rails prints

ledger_app = typer.Typer(
    help="Check, back up and upgrade the record of a service.\n\nExample: kinband ledger verify ledger.db",
    no_args_is_help=True,
    add_completion=False,
)

_PASSWORD = "KINBAND_LEDGER_PASSWORD_FILE"  # noqa: S105 - the name of a variable


def with_password(ledger: str | None) -> str | None:
    """Return the address of a database with the password of a file, where the environment names one."""
    file = os.environ.get(_PASSWORD)
    if ledger is None or not file or "://" not in ledger:
        return ledger
    with needs_service():
        from kinband.service.ledger.engines import ledger_url
    try:
        password = Path(file).read_text(encoding="utf-8").rstrip("\r\n")
    except (OSError, ValueError) as error:
        raise BadInputError(f"{_PASSWORD} names {file:.200}, which cannot be read: check the file") from error
    if not password or "\n" in password:
        raise BadInputError(f"{_PASSWORD} names {file:.200}, which has to hold one line, the password")
    url = ledger_url(ledger)
    if url.get_backend_name() == "sqlite":
        return ledger
    return url.set(drivername="postgresql", password=password).render_as_string(hide_password=False)


LEDGER: dict[str, Any] = {
    "metavar": "LEDGER",
    "envvar": "KINBAND_LEDGER",
    "help": "The ledger of the service: an SQLite file, or postgresql://user@host/name.",
    "callback": with_password,
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
    days: Annotated[
        int, typer.Option(min=0, max=31, help="On how many days to try them; 0 to read the file alone.")
    ] = 7,
) -> None:
    """Check a file of guard rails against what stations there are and can run; nothing is put in force.

    What is wrong is told with its line, and exit code 2: look before the service is started with it. Then the decisions
    of the last days are reviewed again by them, each against the past as of then.

    Example: kinband ledger check-rails ledger.db rails.yaml
    """
    from kinband.guardrails import Guard
    from kinband.service.operations import Operations
    from kinband.service.operations.preview import previewed
    from kinband.service.starting import rails_in, setup_on_record, stations_on_record

    with opened_ledger(ledger) as opened:
        setup = setup_on_record(opened)
        if setup is None:
            raise BadInputError(f"the ledger {opened.name} has no controller yet: start the service with it first")
        found, text = rails_in(rails, setup, stations=stations_on_record(opened, setup))
        Guard(found, setup.encoder.space)
        typer.echo(f"{rails} can be put in force: every knob and every station that it names is known")
        if days:
            with stage(f"reviewing the decisions of the last {days} days again"):
                tried = previewed(Operations.open(opened), text, days=days)
            typer.echo("\n".join(preview_lines(tried)))


def preview_lines(tried: "Preview") -> list[str]:
    """Return in words what rails would have made of the last days."""
    if tried.since is None:
        return ["no decision of these days is on record"]
    only = " (the latest of them)" if tried.cut else ""
    counts = tried.counts
    lines = [
        f"of {tried.decisions:,} decisions since {tried.since:%F %H:%M} UTC{only}, {tried.changes:,} of which changed "
        f"something, they would have refused {counts['refused']:,}, let through {counts['let through']:,} that were "
        f"not, {counts['later']:,} for a later time, and made {counts['another']:,} another change"
    ]
    rails = ", ".join(f"{code} {count:+,}" for code, count in sorted(tried.rails.items()) if count)
    lines += [f"decisions that a rail refuses something of: {rails}"] if rails else []
    return lines + [
        f"  {one.at:%F %H:%M} {one.station}: {one.fate}, {one.verdict.reason}" for one in tried.listed[:_LISTED]
    ]


@ledger_app.command()
def digest(
    ledger: LedgerArgument,
    week: Annotated[
        str | None, typer.Option(metavar="WEEK", help="Such as 2026-W47; the last one that is over if not given.")
    ] = None,
    to: Annotated[Path | None, typer.Option(metavar="FILE", help="Write it as one HTML file, too.")] = None,
) -> None:
    """Say what a week brought: changes, gain, refusals, drift, missing rewards, and who did what.

    Example: kinband ledger digest ledger.db --week 2026-W47 --to digest.html
    """
    with opened_ledger(ledger) as opened:
        from kinband.service.digest import digest_file, digest_of, week_named, week_of
        from kinband.service.operations import Operations

        if week is not None:
            week_named(week)
        with stage("reading the week"):
            operations = Operations.open(opened)
            found = digest_of(operations, week or week_of(operations.now() - timedelta(days=7)))
        if to is not None:
            try:
                to.write_text(digest_file(found, operations), encoding="utf-8")
            except OSError as error:
                raise BadInputError(f"{to} cannot be written: {error.strerror}") from error
    typer.echo("\n".join([f"week {found.week}, {found.since:%F} to {found.until:%F %H:%M} UTC", *found.words]))
    if to is not None:
        typer.echo(f"written: {to}")


@ledger_app.command()
def impact(
    ledger: LedgerArgument,
    month: Annotated[
        str | None, typer.Option(metavar="YYYY-MM", help="The last one that is over if not given.", show_default=False)
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for the report.")] = Path("out/impact"),
) -> None:
    """Say what the changes of a month brought, each against stations that did not change in the same slots.

    The report is one HTML file: the changes, their gain with its interval, how often the predicted sign was right, and
    what was rolled back. As kinband impact, on what the service has on record.

    Example: kinband ledger impact ledger.db --month 2026-11
    """
    with opened_ledger(ledger) as opened:
        from kinband.cli.impact import cannot_say
        from kinband.service.impact import impact_of, month_named
        from kinband.service.operations import Operations

        if month is not None:
            month_named(month)
        make_folder(out)
        operations = Operations.open(opened)
        name = month or f"{operations.now().replace(day=1) - timedelta(days=1):%Y-%m}"
        with stage("judging the changes of the month"):
            found = impact_of(operations, name)
        if not found.judged:
            raise BadInputError(cannot_say(found))
        files = found.write(out, origin=opened.name.rsplit("/", 1)[-1], made_at=operations.now())
    typer.echo("\n".join([*found.in_words(), f"Open: {files[0]}, then {files[1]}."]))


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
