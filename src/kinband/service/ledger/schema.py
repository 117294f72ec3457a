"""The tables of a ledger, as they are now; how they came about is told by the migrations.

`events` is append-only, which triggers see to. `snapshots` and their parts are a cache that may be thinned out or
dropped. `meta` holds what the controller was made with.
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
