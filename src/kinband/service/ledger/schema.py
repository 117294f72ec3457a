"""The tables of a ledger, and how a database comes to hold them.

`events` is append-only, which triggers see to; in SQLite old ones may leave once they are in a *segment* of the
archive, of which `segments` has a row. `snapshots` and their parts are a cache of PostgreSQL that may be dropped.
`meta` holds what the controller was made with, `seals` one row. `tokens` and `secrets` belong to the room `access`;
they share the database, so that every process knows who may come in. A token may be used, which notes when, and
revoked, once; anything else about it stays as it was made, and it is never deleted, since the audit log names it. Keys
may go: that ends every session.

A schema has a name, in a table that was alembic's. But for one trigger, every schema so far only added to the one
before, so that a database of an earlier one gets what it lacks, within the transaction that is open and locked: two
processes that start at once do not both do it. One that changes what is there needs a step of its own in `bring_up`.
"""

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    inspect,
    select,
    text,
)

from kinband.errors import SavedStateError

SCHEMA = "v0005"
"""What this version of kinband reads and writes."""

_EARLIER = ("v0001", "v0002", "v0003", "v0004")  # before tokens, quick filters of the log, seals, archives
_READ = ("v0003", "v0004", SCHEMA)  # what is looked at as it is

_NUMBER = BigInteger().with_variant(Integer, "sqlite")

metadata = MetaData()

versions = Table("alembic_version", metadata, Column("version_num", String(32), primary_key=True))

events = Table(
    "events",
    metadata,
    Column("seq", _NUMBER, primary_key=True, autoincrement=False),
    Column("kind", String(32), nullable=False),
    Column("at", String(32), nullable=False),
    Column("actor", Text, nullable=False),
    Column("station", Text, nullable=False),
    Column("decision", Text),
    Column("round", BigInteger),
    Column("slot", Text),
    Column("key", Text),
    Column("payload", Text, nullable=False),
    Column("checksum", String(64), nullable=False),
)
Index("events_key", events.c.kind, events.c.key, unique=True)
Index("events_decision", events.c.decision, events.c.kind)
Index("events_station", events.c.station, events.c.seq)
Index("events_station_kind", events.c.station, events.c.kind, events.c.seq)
Index("events_kind", events.c.kind, events.c.seq)
Index("events_actor", events.c.actor, events.c.seq)
Index("events_round", events.c.round)
_DECIDED = events.c.kind == "decision"
Index(
    "events_slot", events.c.station, events.c.slot, unique=True, sqlite_where=_DECIDED, postgresql_where=_DECIDED
)  # fmt: skip

snapshots = Table(
    "snapshots",
    metadata,
    Column("seq", _NUMBER, primary_key=True, autoincrement=False),
    Column("at", String(32), nullable=False),
    Column("kinband", String(64), nullable=False),
    Column("size", BigInteger, nullable=False),
    Column("chained", String(64), nullable=False),
    Column("checksum", String(64), nullable=False),
)

parts = Table(
    "snapshot_parts",
    metadata,
    Column("seq", _NUMBER, ForeignKey("snapshots.seq", ondelete="CASCADE"), primary_key=True),
    Column("part", Integer, primary_key=True),
    Column("data", LargeBinary, nullable=False),
)

meta = Table(
    "meta",
    metadata,
    Column("name", String(64), primary_key=True),
    Column("text", Text, nullable=False),
    Column("data", LargeBinary, nullable=False),
    Column("checksum", String(64), nullable=False),
)

tokens = Table(
    "tokens",
    metadata,
    Column("id", String(8), primary_key=True),
    Column("name", Text, nullable=False),
    Column("role", String(16), nullable=False),
    Column("hash", String(64), nullable=False),
    Column("created", String(32), nullable=False),
    Column("expires", String(32)),
    Column("revoked", String(32)),
    Column("by", Text, nullable=False),
    Column("last_used", String(32)),
)
Index("tokens_name", tokens.c.name)

secrets = Table(
    "secrets",
    metadata,
    Column("name", String(64), primary_key=True),
    Column("value", Text, nullable=False),
)

seals = Table(
    "seals",
    metadata,
    Column("seq", _NUMBER, primary_key=True, autoincrement=False),
    Column("mac", String(64), nullable=False),
)

segments = Table(
    "segments",
    metadata,
    Column("first", _NUMBER, primary_key=True, autoincrement=False),
    Column("last", _NUMBER, nullable=False),
    Column("before", String(64), nullable=False),
    Column("checksum", String(64), nullable=False),
    Column("digest", String(64), nullable=False),
)

STAYING = ("started", "access")
"""Kinds of events that stay in the database when they are archived: settings and tokens are checked against them."""

_WORDS = "the ledger is append-only"
FUNCTION = f" BEGIN RAISE EXCEPTION '{_WORDS}'; END "
"""What PostgreSQL's triggers do."""
_FIXED = 'id, name, role, hash, created, expires, "by"'
_STAY = f"BEGIN SELECT RAISE(ABORT, '{_WORDS}'); END"
_EACH, _REFUSE = "FOR EACH STATEMENT", "EXECUTE FUNCTION kinband_append_only()"
EVER = "events_stay_DELETE"
"""The trigger of SQLite that refuses to delete events; in earlier schemas, as it was made then, all of them."""
EARLIER_TRIGGER = f"CREATE TRIGGER {EVER} BEFORE DELETE ON events {_STAY}"
_NEEDED = (
    "OLD.kind IN ('started', 'access') OR NOT EXISTS (SELECT 1 FROM segments WHERE OLD.seq BETWEEN first AND last)"
)
_NEXT = "(SELECT COALESCE(MAX(last), 0) + 1 FROM segments)"
_LATER = ("segments_follow", "segments_stay_UPDATE", "segments_stay_DELETE")
_TRIGGERS = {
    "sqlite": [
        *(
            f"CREATE TRIGGER IF NOT EXISTS {table}_stay_{name} BEFORE {name} ON {table} {_STAY}"
            for table in ("events", "meta", "segments")
            for name in ("UPDATE", "DELETE")
            if (table, name) != ("events", "DELETE")
        ),
        f"CREATE TRIGGER IF NOT EXISTS {EVER} BEFORE DELETE ON events WHEN {_NEEDED} {_STAY}",
        f"CREATE TRIGGER IF NOT EXISTS segments_follow BEFORE INSERT ON segments WHEN NEW.first <> {_NEXT} {_STAY}",
        f"CREATE TRIGGER IF NOT EXISTS tokens_stay_DELETE BEFORE DELETE ON tokens {_STAY}",
        f"CREATE TRIGGER IF NOT EXISTS tokens_stay_UPDATE BEFORE UPDATE OF {_FIXED} ON tokens {_STAY}",
        "CREATE TRIGGER IF NOT EXISTS tokens_stay_revoked BEFORE UPDATE OF revoked ON tokens "
        f"WHEN OLD.revoked IS NOT NULL {_STAY}",
        # INSERT OR REPLACE would delete without asking those above
        "CREATE TRIGGER IF NOT EXISTS events_follow BEFORE INSERT ON events "
        "WHEN NEW.seq <> (SELECT COALESCE(MAX(seq), 0) + 1 FROM events) "
        "BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END",
        "CREATE TRIGGER IF NOT EXISTS tokens_stay_REPLACE BEFORE INSERT ON tokens "
        "WHEN EXISTS (SELECT 1 FROM tokens WHERE id = NEW.id) "
        "BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END",
    ],
    "postgresql": [
        f"CREATE OR REPLACE FUNCTION kinband_append_only() RETURNS trigger LANGUAGE plpgsql AS $${FUNCTION}$$",
        *(
            f"CREATE OR REPLACE TRIGGER {table}_stay BEFORE UPDATE OR DELETE OR TRUNCATE ON {table} {_EACH} {_REFUSE}"
            for table in ("events", "meta")
        ),
        f"CREATE OR REPLACE TRIGGER tokens_stay BEFORE DELETE OR TRUNCATE ON tokens {_EACH} {_REFUSE}",
        f"CREATE OR REPLACE TRIGGER tokens_stay_update BEFORE UPDATE OF {_FIXED} ON tokens {_EACH} {_REFUSE}",
        "CREATE OR REPLACE TRIGGER tokens_stay_revoked BEFORE UPDATE OF revoked ON tokens "
        f"FOR EACH ROW WHEN (OLD.revoked IS NOT NULL) {_REFUSE}",
    ],
}


def triggers_of_earlier(made: dict[str, str]) -> dict[str, str]:
    """Return how triggers were made in schemas before archives, from how they are made now."""
    return {name: said for name, said in made.items() if name not in _LATER} | {EVER: EARLIER_TRIGGER}


def schema_of(connection: Connection) -> str | None:
    """Return the name of a database's schema, None where it holds no ledger."""
    if not inspect(connection).has_table(versions.name):
        return None
    return connection.execute(select(versions.c.version_num)).scalar()


def check(connection: Connection, *, where: str) -> None:
    """Refuse a ledger of a newer kinband, of an older one that was not brought up to date, and what is no ledger."""
    found = schema_of(connection)
    if found is None:
        raise SavedStateError(f"{where} holds no ledger: check its name, or open it for writing to start one")
    _check_known(found, where)
    if found not in _READ:
        raise SavedStateError(
            f"the ledger {where} has the older schema {found} (this kinband reads {SCHEMA}): open it for writing once"
        )


def bring_up(connection: Connection, *, where: str) -> None:
    """Give a database what it lacks of the schema, within the transaction that is open."""
    found = schema_of(connection)
    if found == SCHEMA:
        return
    if found is not None:
        _check_known(found, where)
    sqlite = connection.dialect.name == "sqlite"
    metadata.create_all(connection, tables=[one for one in metadata.sorted_tables if sqlite or one is not segments])
    if sqlite:  # before archives nothing was ever deleted
        connection.execute(text(f"DROP TRIGGER IF EXISTS {EVER}"))
    for index in (index for table in metadata.sorted_tables for index in table.indexes):
        index.create(connection, checkfirst=True)  # of a table that was there
    set_triggers(connection)
    connection.execute(versions.delete())
    connection.execute(versions.insert().values(version_num=SCHEMA))


def set_triggers(connection: Connection) -> None:
    """Have the database refuse changes of history, where it does not yet."""
    for statement in _TRIGGERS[connection.dialect.name]:
        connection.execute(text(statement))


def _check_known(found: str, where: str) -> None:
    if found not in (SCHEMA, *_EARLIER):
        raise SavedStateError(
            f"the ledger {where} was written by a newer kinband (schema {found}; this one reads {SCHEMA}): upgrade "
            "kinband"
        )
