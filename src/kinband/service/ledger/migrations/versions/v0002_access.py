"""Access: tokens and the keys that sign sessions.

A token may be used, which notes when, and revoked, once. Anything else about it stays as it was made, and it is never
deleted: the audit log names it. Triggers see to that, as they do for events. Keys may go: that ends every session.
"""

import sqlalchemy as sa
from alembic import op

revision = "v0002"
down_revision = "v0001"
branch_labels = None
depends_on = None

_WORDS = "the ledger is append-only"


def upgrade() -> None:
    """Create the tables, and the triggers that keep tokens as they were made."""
    op.create_table(
        "tokens",
        sa.Column("id", sa.String(8), primary_key=True),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("role", sa.String(16), nullable=False),
        sa.Column("hash", sa.String(64), nullable=False),
        sa.Column("created", sa.String(32), nullable=False),
        sa.Column("expires", sa.String(32)),
        sa.Column("revoked", sa.String(32)),
        sa.Column("by", sa.Text, nullable=False),
        sa.Column("last_used", sa.String(32)),
    )
    op.create_index("tokens_name", "tokens", ["name"])
    op.create_table(
        "secrets",
        sa.Column("name", sa.String(64), primary_key=True),
        sa.Column("value", sa.Text, nullable=False),
    )
    for statement in _TRIGGERS[op.get_bind().dialect.name]:
        op.execute(statement)


def downgrade() -> None:
    """Refuse: going back would drop history."""
    raise NotImplementedError("a ledger is never taken back: restore it from a backup")


_FIXED = 'id, name, role, hash, created, expires, "by"'
_STAY = f"BEGIN SELECT RAISE(ABORT, '{_WORDS}'); END"
_TRIGGERS = {
    "sqlite": [
        f"CREATE TRIGGER tokens_stay_DELETE BEFORE DELETE ON tokens {_STAY}",
        f"CREATE TRIGGER tokens_stay_UPDATE BEFORE UPDATE OF {_FIXED} ON tokens {_STAY}",
        f"CREATE TRIGGER tokens_stay_revoked BEFORE UPDATE OF revoked ON tokens WHEN OLD.revoked IS NOT NULL {_STAY}",
        "CREATE TRIGGER tokens_stay_REPLACE BEFORE INSERT ON tokens "  # INSERT OR REPLACE would delete without asking
        "WHEN EXISTS (SELECT 1 FROM tokens WHERE id = NEW.id) "
        "BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END",
    ],
    "postgresql": [
        "CREATE TRIGGER tokens_stay BEFORE DELETE OR TRUNCATE ON tokens "
        "FOR EACH STATEMENT EXECUTE FUNCTION kinband_append_only()",
        f"CREATE TRIGGER tokens_stay_update BEFORE UPDATE OF {_FIXED} ON tokens "
        "FOR EACH STATEMENT EXECUTE FUNCTION kinband_append_only()",
        "CREATE TRIGGER tokens_stay_revoked BEFORE UPDATE OF revoked ON tokens "
        "FOR EACH ROW WHEN (OLD.revoked IS NOT NULL) EXECUTE FUNCTION kinband_append_only()",
    ],
}
