"""Operations: a controller next to a network manager, with guard rails, modes and people.

`operations` is the face. `deciding` asks and tells; `reviewing` says what becomes of decisions, also of those asked
again or reported by the network; `people` is what they do, in the words that `texts` lets through. `picture` follows
the events and shows how things stand, with the `records` of decisions and sums over them; `outlooks` says why a
decision was made and what is expected, and `writable` whether the ledger takes writes.
"""

from kinband.service.operations.operations import Clock, Operations
from kinband.service.operations.outlooks import Explained
from kinband.service.operations.picture import Picture
from kinband.service.operations.records import (
    MODES,
    STATUSES,
    Card,
    Gain,
    Item,
    Mode,
    Outlook,
    Point,
    RailsOnRecord,
    Site,
    Status,
)

__all__ = [
    "MODES",
    "STATUSES",
    "Card",
    "Clock",
    "Explained",
    "Gain",
    "Item",
    "Mode",
    "Operations",
    "Outlook",
    "Picture",
    "Point",
    "RailsOnRecord",
    "Site",
    "Status",
]
