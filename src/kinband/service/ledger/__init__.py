"""The ledger: every event of a controller in a database, append-only, from which everything else is rebuilt.

`store` is the ledger, in SQLite or PostgreSQL (`engines`, `schema`), `events` what it holds, chained by checksums;
`asked` is what decisions were asked with. `restoring` brings a controller back from it with the help of snapshots,
`replaying` decides any decision of the past again, `backups` copies it; `integrity` and `seals` notice
damage and forgeries. `kinband.service.operations` writes to it.
"""

from kinband.service.ledger.engines import LedgerRefusedError, LedgerUnavailableError
from kinband.service.ledger.events import Draft, Event, Head
from kinband.service.ledger.replaying import Replayed, replay
from kinband.service.ledger.seals import Key
from kinband.service.ledger.store import Ledger

__all__ = [
    "Draft",
    "Event",
    "Head",
    "Key",
    "Ledger",
    "LedgerRefusedError",
    "LedgerUnavailableError",
    "Replayed",
    "replay",
]
