"""The ledger: every event of a controller in a database, append-only, from which everything else is rebuilt.

`store` is the ledger, in SQLite or PostgreSQL (`engines`, `migrations`), `events` what it holds, chained by checksums;
`durable` is the controller on top of it, one call after the other (`turns`), `restoring` brings that back after a
restart with the help of snapshots, `replaying` decides any decision of the past again. `errors` says what may be tried
again.
"""

from kinband.service.ledger.durable import DurableController
from kinband.service.ledger.errors import LedgerRefusedError, LedgerUnavailableError
from kinband.service.ledger.events import Draft, Event
from kinband.service.ledger.replaying import Replayed, replay
from kinband.service.ledger.store import Ledger

__all__ = [
    "Draft",
    "DurableController",
    "Event",
    "Ledger",
    "LedgerRefusedError",
    "LedgerUnavailableError",
    "Replayed",
    "replay",
]
