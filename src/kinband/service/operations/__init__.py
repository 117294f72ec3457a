"""Operations: a controller next to a network manager, with guard rails, modes and people.

`operations` is the face: what `programs` ask and tell and what `people` do, as far as `checks` lets it through, given
how things are `standing`. `turns` makes every call one turn of the ledger, which `Writable` of `ledger.store` says
takes writes or not. `review` says what becomes of decisions, also of those asked again or reported by the network,
under the guard rails in force; `orders` is the life of a change from its approval to its confirmation, and `underway`
what is on its way where the service carries it out itself. `read_model` follows the events and shows how things stand,
with the `records` of decisions and sums over them; `outlooks` says why a decision was made and what is expected.
`feeds` reads counters and `matching` says what they bring; `slots` knows when slots begin.
"""

from kinband.service.operations.clock import Clock
from kinband.service.operations.operations import Operations
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
