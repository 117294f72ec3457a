"""The first schema: append-only events, snapshots, meta."""

import sqlalchemy as sa
from alembic import op

revision = "v0001"
down_revision = None
branch_labels = None
depends_on = None

_WORDS = "the ledger is append-only"


def upgrade() -> None:
    """Create the tables, and the triggers that keep history as it is."""
    number = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
    _create_events(number)
    op.create_table(
        "snapshots",
        sa.Column("seq", number, primary_key=True, autoincrement=False),
        sa.Column("at", sa.String(32), nullable=False),
        sa.Column("kinband", sa.String(64), nullable=False),
        sa.Column("size", sa.BigInteger, nullable=False),
        sa.Column("chained", sa.String(64), nullable=False),
        sa.Column("checksum", sa.String(64), nullable=False),
    )
    op.create_table(
        "snapshot_parts",
        sa.Column("seq", number, sa.ForeignKey("snapshots.seq", ondelete="CASCADE"), primary_key=True),
        sa.Column("part", sa.Integer, primary_key=True),
        sa.Column("data", sa.LargeBinary, nullable=False),
    )
    op.create_table(
        "meta",
        sa.Column("name", sa.String(64), primary_key=True),
        sa.Column("text", sa.Text, nullable=False),
        sa.Column("data", sa.LargeBinary, nullable=False),
        sa.Column("checksum", sa.String(64), nullable=False),
    )
    for statement in _TRIGGERS[op.get_bind().dialect.name]:
        op.execute(statement)


def downgrade() -> None:
    """Refuse: going back would drop history."""
    raise NotImplementedError("a ledger is never taken back: restore it from a backup")


def _create_events(number: sa.types.TypeEngine[int]) -> None:
    op.create_table(
        "events",
        sa.Column("seq", number, primary_key=True, autoincrement=False),
        sa.Column("kind", sa.String(32), nullable=False),
        sa.Column("at", sa.String(32), nullable=False),
        sa.Column("actor", sa.Text, nullable=False),
        sa.Column("station", sa.Text, nullable=False),
        sa.Column("decision", sa.Text),
        sa.Column("round", sa.BigInteger),
        sa.Column("slot", sa.Text),
        sa.Column("key", sa.Text),
        sa.Column("payload", sa.Text, nullable=False),
        sa.Column("checksum", sa.String(64), nullable=False),
    )
    decided = sa.text("kind = 'decision'")
    op.create_index("events_key", "events", ["kind", "key"], unique=True)
    op.create_index("events_decision", "events", ["decision", "kind"])
    op.create_index("events_station", "events", ["station", "seq"])
    op.create_index("events_round", "events", ["round"])
    op.create_index(
        "events_slot", "events", ["station", "slot"], unique=True, sqlite_where=decided, postgresql_where=decided
    )


_TRIGGERS = {
    "sqlite": [
        f"CREATE TRIGGER {table}_stay_{name} BEFORE {name} ON {table} BEGIN SELECT RAISE(ABORT, '{_WORDS}'); END"
        for table in ("events", "meta")
        for name in ("UPDATE", "DELETE")
    ]
    + [  # INSERT OR REPLACE would delete without asking those above
        "CREATE TRIGGER events_follow BEFORE INSERT ON events "
        "WHEN NEW.seq <> (SELECT COALESCE(MAX(seq), 0) + 1 FROM events) "
        "BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END"
    ],
    "postgresql": [
        f"CREATE FUNCTION kinband_append_only() RETURNS trigger LANGUAGE plpgsql AS "
        f"$$ BEGIN RAISE EXCEPTION '{_WORDS}'; END $$",
        *(
            f"CREATE TRIGGER {table}_stay BEFORE UPDATE OR DELETE OR TRUNCATE ON {table} "
            "FOR EACH STATEMENT EXECUTE FUNCTION kinband_append_only()"
            for table in ("events", "meta")
        ),
    ],
}
