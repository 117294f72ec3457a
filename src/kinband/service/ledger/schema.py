"""The tables of a ledger, as they are now; how they came about is told by the migrations.

`events` is append-only, which triggers see to. `snapshots` and their parts are a cache that may be thinned out or
dropped. `meta` holds what the controller was made with. `tokens` and `secrets` belong to the room `access`; they share
the database, so that every process knows who may come in.
"""

from sqlalchemy import BigInteger, Column, ForeignKey, Index, Integer, LargeBinary, MetaData, String, Table, Text

metadata = MetaData()

events = Table(
    "events",
    metadata,
    Column("seq", BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=False),
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
    Column("seq", BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=False),
    Column("at", String(32), nullable=False),
    Column("kinband", String(64), nullable=False),
    Column("size", BigInteger, nullable=False),
    Column("chained", String(64), nullable=False),
    Column("checksum", String(64), nullable=False),
)

parts = Table(
    "snapshot_parts",
    metadata,
    Column(
        "seq",
        BigInteger().with_variant(Integer, "sqlite"),
        ForeignKey("snapshots.seq", ondelete="CASCADE"),
        primary_key=True,
    ),
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
