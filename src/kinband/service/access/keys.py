"""The keys that sign for the service: made at first use, shared by all its processes through the database.

A key alone opens nothing: a session also carries a proof that only the bearer of a token can give (`records`).
"""

import secrets

from sqlalchemy import Connection, select

from kinband.service.ledger.schema import secrets as secrets_table
from kinband.service.ledger.store import Ledger


def signing_key(ledger: Ledger, name: str) -> bytes:
    """Return the key of a purpose, 32 random bytes, the same for every process that asks.

    Args:
        ledger: In whose database it lives.
        name: The purpose.

    Example:
        >>> import tempfile
        >>> folder = tempfile.TemporaryDirectory()
        >>> ledger = Ledger.open(f"{folder.name}/ledger.db")
        >>> key = signing_key(ledger, "sessions")
        >>> len(key), signing_key(ledger, "sessions") == key
        (32, True)
        >>> ledger.close()
        >>> folder.cleanup()
    """
    with ledger.reading() as connection:
        found = _key(connection, name)
    if found is None:
        with ledger.connected(writes=True) as connection:  # the lock: of two who start at once, one makes it
            found = _key(connection, name)
            if found is None:
                found = secrets.token_hex(32)
                connection.execute(secrets_table.insert().values(name=name, value=found))
    return bytes.fromhex(found)


def _key(connection: Connection, name: str) -> str | None:
    found = connection.execute(select(secrets_table.c.value).where(secrets_table.c.name == name)).scalar()
    return None if found is None else str(found)
