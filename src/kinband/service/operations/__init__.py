"""Operations: a controller next to a network manager, with guard rails, modes and people.

`operations` is the face: asking, telling, and what people do, in the words that `texts` lets through. `review` says
what becomes of decisions, also of those asked again or reported by the network, under the `rails` in force.
`read_model` follows the events and shows how things stand, with the `records` of decisions and sums over them;
`outlooks` says why a decision was made and what is expected, and `writable` whether the ledger takes writes.
"""

from kinband.service.operations.operations import Clock, Operations
from kinband.service.operations.outlooks import Explained
from kinband.service.operations.read_model import ReadModel
from kinband.service.operations.records import (
    DecisionRecord,
    Gain,
    Outlook,
    Point,
    RailsOnRecord,
    StationState,
)
from kinband.service.schemas import MODES, STATUSES, Mode, Status

__all__ = [
    "MODES",
    "STATUSES",
    "Clock",
    "DecisionRecord",
    "Explained",
    "Gain",
    "Mode",
    "Operations",
    "Outlook",
    "Point",
    "RailsOnRecord",
    "ReadModel",
    "StationState",
    "Status",
]
