"""How far each target has been told, kept beside the events; and who of several processes tells.

A row holds the number of the last event that its target has been told of, the message under way, and what alarms it
knows of. A message is written down before it is sent, and the number moves on when it was taken: who is killed in
between sends the same again, with the same id. So a message comes at least once, and whoever gets it twice can tell.

One process tells at a time (`OnlyOne`). The table is made where messages are sent, and nothing else depends on it.
"""

import json
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import BigInteger, Column, Integer, MetaData, String, Table, Text, select

from kinband.service.ledger import Ledger

_metadata = MetaData()
_cursors = Table(
    "notify_cursors",
    _metadata,
    Column("target", String(80), primary_key=True),
    Column("seq", BigInteger().with_variant(Integer, "sqlite"), nullable=False),
    Column("state", Text, nullable=False),
)


@dataclass
class Cursor:
    """How far a target has been told.

    Attributes:
        seq: The last event that it knows of.
        sending: The message under way, with the event that it leads to; None where there is none.
        raised: Ids of the alarms that it knows of, by what they are about.
        digest: The last week whose digest it need not have any more; empty before the first.
    """

    seq: int
    sending: dict[str, Any] | None = None
    raised: dict[str, str] = field(default_factory=dict)
    digest: str = ""


class Cursors:
    """The cursors of a ledger.

    Args:
        ledger: Which; its table is made if it is not there.
    """

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        with ledger.connected(writes=True) as connection:
            _metadata.create_all(connection)

    def load(self, target: str) -> Cursor:
        """Return how far a target was told; one that is new is told from now on, and one ahead of its ledger too."""
        last = self._ledger.head().seq
        with self._ledger.reading() as connection:
            row = connection.execute(select(_cursors).where(_cursors.c.target == target)).first()
        if row is not None:
            state = json.loads(row.state)
            return Cursor(
                min(row.seq, last),
                state["sending"] if row.seq <= last else None,
                state["raised"],
                state.get("digest", ""),
            )
        found = Cursor(last)
        self.save(target, found)
        return found

    def save(self, target: str, cursor: Cursor) -> None:
        """Write down how far a target was told."""
        state = {"sending": cursor.sending, "raised": cursor.raised, "digest": cursor.digest}
        with self._ledger.connected(writes=True) as connection:
            connection.execute(_cursors.delete().where(_cursors.c.target == target))
            connection.execute(_cursors.insert().values(target=target, seq=cursor.seq, state=json.dumps(state)))
