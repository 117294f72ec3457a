"""Operations: a controller next to a network manager, with guard rails, modes and people.

`operations` is the face. `deciding` asks and tells, with `repeating` for whoever asks again, `reporting` for what the
network says and `outside` for strange states; `reviewing` says what becomes of decisions, `people` is what they do, in
the words that `texts` lets through. `picture` follows the events, with `earnings` for rewards and `trails` for the way
back, and `views` shows it, with `tally` for sums, `prospects` and `outlooks` for what is expected and `sites` for the
map. `explaining` says why, with the guard's part in it, `rails` reads those that are sent, and `writable` tells whether
the ledger takes writes.
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
