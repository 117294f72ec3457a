"""How the tables of a ledger came about, one file a step, and the way from any of them to the last (alembic).

There is no environment file: the connection is ours, already open and locked, so that two processes that start at once
do not both migrate.
"""

from pathlib import Path

from alembic.config import Config
from alembic.runtime.environment import EnvironmentContext
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection

from kinband.errors import SavedStateError


def revision(connection: Connection) -> str | None:
    """Return the schema of a database, None where it holds no ledger.

    Example:
        >>> from sqlalchemy import create_engine
        >>> with create_engine("sqlite://").begin() as connection:
        ...     migrate(connection, where="here")
        ...     revision(connection) == latest()
        True
    """
    found = MigrationContext.configure(connection).get_current_revision()
    return None if found is None else str(found)


def latest() -> str:
    """Return the schema that this version of kinband reads and writes.

    Example:
        >>> latest().startswith("v")
        True
    """
    head = _scripts().get_current_head()
    if head is None:
        raise AssertionError("the package holds no migration")
    return str(head)


def check(connection: Connection, *, where: str) -> None:
    """Refuse a ledger of a newer kinband, of an older one that was not migrated, and what is no ledger.

    Example:
        >>> from sqlalchemy import create_engine
        >>> with create_engine("sqlite://").begin() as connection:
        ...     check(connection, where="here")
        Traceback (most recent call last):
            ...
        kinband.errors.SavedStateError: here holds no ledger: ...
    """
    found = revision(connection)
    if found is None:
        raise SavedStateError(f"{where} holds no ledger: check its name, or open it for writing to start one")
    _check_known(found, where)
    if found != latest():
        raise SavedStateError(
            f"the ledger {where} has the older schema {found} (this kinband reads {latest()}): open it for writing once"
        )


def migrate(connection: Connection, *, where: str) -> None:
    """Bring a database to the latest schema within the transaction that is open.

    Example:
        >>> from sqlalchemy import create_engine, text
        >>> with create_engine("sqlite://").begin() as connection:
        ...     migrate(connection, where="here")
        ...     connection.execute(text("select count(*) from events")).scalar_one()
        0
    """
    found = revision(connection)
    if found == latest():
        return
    if found is not None:
        _check_known(found, where)
    scripts = _scripts()
    with EnvironmentContext(Config(), scripts, fn=lambda rev, _: scripts._upgrade_revs("head", rev)) as environment:
        environment.configure(connection=connection)
        with environment.begin_transaction():
            environment.run_migrations()


def _scripts() -> ScriptDirectory:
    return ScriptDirectory(str(Path(__file__).parent))


def _check_known(found: str, where: str) -> None:
    known = {script.revision for script in _scripts().walk_revisions()}
    if found not in known:
        raise SavedStateError(
            f"the ledger {where} was written by a newer kinband (schema {found}; this one reads {latest()}): upgrade "
            "kinband"
        )
