"""Change plans out into the network: over NETCONF, undone by itself unless confirmed, or as bulk CM files.

A plan is carried out on all of its nodes or on none. What runs is compared with what the plan expects before anything
is sent; each node gets one edit of its candidate and a confirmed commit with an id, so that another process can confirm
or cancel; every value is read back, since an answer of ok proves nothing. What runs is never locked, and nothing is
while a confirmation is awaited: a client that dies must not keep a node from undoing the change.

`orders` reads a plan and finds the objects of its stations, `node` is the session with one node, `sending` applies,
confirms and rolls back, `receipt` is the record of it, and `bulk` writes files for managers without NETCONF. `apply`,
`confirm` and `roll_back` keep the receipt in the folder of a plan; `send`, `confirm_sent` and `undo_sent` are the same
for whoever keeps it elsewhere.
"""

from kinband.deploy.bulk import write_bulk_cm
from kinband.deploy.node import Access, NodeError
from kinband.deploy.orders import Inventory, Item, Order, items_of, read_orders, same
from kinband.deploy.receipt import Folder, Keeper, Receipt, key_of, wave_folder
from kinband.deploy.sending import apply, check, check_places, confirm, confirm_sent, look, roll_back, send, undo_sent

__all__ = [
    "Access",
    "Folder",
    "Inventory",
    "Item",
    "Keeper",
    "NodeError",
    "Order",
    "Receipt",
    "apply",
    "check",
    "check_places",
    "confirm",
    "confirm_sent",
    "items_of",
    "key_of",
    "look",
    "read_orders",
    "roll_back",
    "same",
    "send",
    "undo_sent",
    "wave_folder",
    "write_bulk_cm",
]
