"""Reading the log by kind, by actor, or by both a station and a kind, newest first, without looking at every event."""

from alembic import op

revision = "v0003"
down_revision = "v0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the indices."""
    op.create_index("events_station_kind", "events", ["station", "kind", "seq"])
    op.create_index("events_kind", "events", ["kind", "seq"])
    op.create_index("events_actor", "events", ["actor", "seq"])


def downgrade() -> None:
    """Refuse: going back would drop history."""
    raise NotImplementedError("a ledger is never taken back: restore it from a backup")
