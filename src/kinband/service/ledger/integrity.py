"""Whether a database is sound beyond the chain of checksums: its pages and indexes, triggers, settings and tokens.

The chain covers events alone, and as they stand in their table. Everything else that changes an answer is looked at
here: an index that does not fit its table finds no decision where there is one, settings make another controller, a
trigger that is gone lets history be changed, a token gives somebody a role.
"""

import hashlib
import json
from collections.abc import Mapping
from functools import cache
from typing import Any

from sqlalchemy import Connection, create_engine, select, text

from kinband.errors import SavedStateError
from kinband.service.ledger.indexes import indexes_of_postgresql
from kinband.service.ledger.schema import (
    FUNCTION,
    SCHEMA,
    bring_up,
    events,
    meta,
    metadata,
    schema_of,
    tokens,
    triggers_of_earlier,
)

_MOST = 3  # faults that are named


def check_store(connection: Connection, *, where: str, whole: bool) -> None:
    """Refuse a database whose pages, indexes, triggers, settings or tokens are not as they were made.

    Args:
        connection: To the database.
        where: The ledger's name.
        whole: Whether every page is looked at; if not, of SQLite what is in daily use, of PostgreSQL that all indexes
            are there.
    """
    sqlite = connection.dialect.name == "sqlite"
    faults = _pages_of_sqlite(connection, whole=whole) if sqlite else indexes_of_postgresql(connection, whole=whole)
    faults = faults or (_schema_of_sqlite(connection) if sqlite else _triggers_of_postgresql(connection))
    faults = faults or _said_of_settings_and_tokens(connection)
    if faults:
        said = "; ".join(faults[:_MOST])
        raise SavedStateError(f"the ledger {where} is damaged or was changed ({said}): restore it from a backup")


def _pages_of_sqlite(connection: Connection, *, whole: bool) -> list[str]:
    """Return what SQLite finds wrong with its pages, and with indexes against their tables."""
    names = [""] if whole else [f"('{name}')" for name in _in_use(connection)]
    said = [row[0] for name in names for row in connection.exec_driver_sql(f"PRAGMA integrity_check{name}")]
    return [str(line).splitlines()[0] for line in said if line != "ok"]


def _in_use(connection: Connection) -> list[str]:
    """Return the tables that are looked at at every start."""
    there = {str(row[0]) for row in connection.exec_driver_sql("SELECT name FROM sqlite_master WHERE type = 'table'")}
    return [name for name in metadata.tables if name in there and name not in ("snapshots", "snapshot_parts")]


def _schema_of_sqlite(connection: Connection) -> list[str]:
    found, expected = _statements(connection), _expected()
    if schema_of(connection) != SCHEMA:  # looked at as it is
        expected = triggers_of_earlier(expected)
    return [
        f"{name} is not as it was made" for name in sorted({*found, *expected}) if found.get(name) != expected.get(name)
    ]


def _statements(connection: Connection) -> dict[str, str]:
    """Return how indexes and triggers were made, by name."""
    wanted = "SELECT name, sql FROM sqlite_master WHERE type IN ('index', 'trigger') AND sql IS NOT NULL"
    return {str(name): str(sql) for name, sql in connection.exec_driver_sql(wanted)}


@cache
def _expected() -> dict[str, str]:
    """Return how they are made."""
    engine = create_engine("sqlite://")
    try:
        with engine.begin() as connection:
            bring_up(connection, where="memory")
            return _statements(connection)
    finally:
        engine.dispose()


def _triggers_of_postgresql(connection: Connection) -> list[str]:
    """Return which triggers are missing, switched off or do something else."""
    named = "SELECT tgname, tgenabled FROM pg_trigger WHERE NOT tgisinternal AND tgrelid::regclass::text = ANY(:tables)"
    rows = connection.execute(text(named), {"tables": list(metadata.tables)}).all()
    live = {str(name) for name, enabled in rows if _text(enabled) in ("O", "A")}
    does = connection.execute(text("SELECT prosrc FROM pg_proc WHERE proname = 'kinband_append_only'")).scalars().all()
    faults = [f"trigger {name} is missing or off" for name in _POSTGRESQL if name not in live]
    return faults if list(does) == [FUNCTION] else [*faults, "the function of the triggers was changed"]


_POSTGRESQL = ("events_stay", "meta_stay", "tokens_stay", "tokens_stay_update", "tokens_stay_revoked")


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def _said_of_settings_and_tokens(connection: Connection) -> list[str]:
    try:
        return [*_settings(connection), *_tokens(connection)]
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        return [f"an event of the settings or of a token cannot be read: {error!r}"]


# --- Settings, against the first event that the controller recorded -------------------------------------------------


def settings_digest(text: str, data: bytes) -> str:
    """Return the digest of stored settings."""
    return hashlib.sha256(text.encode() + data).hexdigest()


def _settings(connection: Connection) -> list[str]:
    rows = connection.execute(select(meta)).all()
    begun = connection.execute(select(events.c.payload).where(events.c.kind == "started")).scalars()
    wanted = [json.loads(payload)["settings"] for payload in begun]
    found = [settings_digest(row.text, row.data) for row in rows]
    same = found == wanted == [row.checksum for row in rows]
    return [] if same else ["the settings are not those that the controller was made with"]


# --- Tokens, against the events of those who made and revoked them --------------------------------------------------


def token_digest(row: Mapping[str, Any]) -> str:
    """Return a digest of what never changes of a token, its hash included, from which nobody comes back to that."""
    fixed = [row[name] for name in ("id", "name", "role", "hash", "created", "expires", "by")]
    return hashlib.sha256(json.dumps(fixed).encode()).hexdigest()[:32]


def _tokens(connection: Connection) -> list[str]:
    """Return whose token is another than the one that was made; earlier versions put no digest on record."""
    made: dict[str, dict[str, Any]] = {}
    revoked = set[str]()
    for payload in connection.execute(select(events.c.payload).where(events.c.kind == "access")).scalars():
        said = json.loads(payload)
        if said.get("action") == "created":
            made[said["id"]] = said
        elif said.get("action") == "revoked":
            revoked.add(said["id"])
    rows = connection.execute(select(tokens)).all()
    faults = [f"token {row.id} was changed" for row in rows if not _as_made(row, made.get(row.id), revoked)]
    return faults + [f"token {name} is missing" for name in sorted(made.keys() - {row.id for row in rows})]


def _as_made(row: Any, said: dict[str, Any] | None, revoked: set[str]) -> bool:
    if said is None or (said["name"], said["role"]) != (row.name, row.role):
        return False
    digest = token_digest(row._mapping)
    return said.get("digest", digest) == digest and (row.revoked is not None) == (row.id in revoked)
