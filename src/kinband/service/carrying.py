"""The service as its own network manager: it carries out what is ordered, over NETCONF, through `kinband.deploy`.

Orders whose stations share a node go out together, in one candidate edit per node. What runs is compared with what the
record says runs: an order for which it is something else fails, and the record learns what it is. Then the edit is
made, the ledger is told what is about to be sent (`operations.underway`), the nodes commit for a while, every value is
read back, the switches are looked at once more, and the commit is confirmed; only then does the order count as made.
What stops on the way is cancelled, and nodes that cannot be reached for that undo it by themselves.

A node that refuses has its order fail, each by itself where several went together. One that is away is tried again,
less and less often, until its orders expire.
"""

import logging
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import timedelta
from time import monotonic

from kinband.counters import CounterMap
from kinband.deploy import (
    Access,
    Inventory,
    Item,
    NodeError,
    Order,
    Receipt,
    check_places,
    confirm_sent,
    items_of,
    key_of,
    look,
    same,
    send,
    undo_sent,
)
from kinband.errors import BadInputError, ConflictError, KinbandError
from kinband.service.ledger.alone import CARRIES, OnlyOne
from kinband.service.operations import Operations
from kinband.service.operations.underway import HeldError, Task, UnderWay
from kinband.space import ConfigurationSpace

ACTOR = "network"
"""Who is on record for what is carried out here."""

_LOG = logging.getLogger("kinband.network")
_POLL = 2.0  # seconds between looks
_AT_ONCE = 8  # edits
_LONGEST = 300.0  # seconds between two tries of a node at most


@dataclass(frozen=True)
class Network:
    """How the network is reached.

    Attributes:
        mapping: Units, inventory and paths; the inventory names the node of every object.
        access: How to come into the nodes.
        seconds: After which a node undoes what is not confirmed.
    """

    mapping: CounterMap
    access: Access
    seconds: int = 300

    def check(self, space: ConfigurationSpace, stations: Sequence[str]) -> list[str]:
        """Return the stations that cannot be changed, since the inventory lacks them; refuse what fits no station."""
        for knob in space[0]:
            if knob not in self.mapping.knobs:
                raise BadInputError(f"the mapping has no knob {knob}, which stations have: add it there")
            if knob not in self.mapping.writing.paths:
                raise BadInputError(f"the mapping does not say where {knob} is: add it to netconf.paths")
        inventory, missing = Inventory.read(self.mapping), list[str]()
        for station in stations:
            try:
                check_places(self.items(Task(station, "", 0, 0), space, inventory))
            except BadInputError:
                missing.append(station)
        return missing

    def items(self, task: Task, space: ConfigurationSpace, inventory: Inventory) -> list[Item]:
        """Return what a change is in the network; where nobody knows what runs, nothing is expected of it."""
        before = task.arm if task.before is None else task.before
        present, wanted = ({knob: str(value) for knob, value in space[arm].items()} for arm in (before, task.arm))
        return items_of([Order(task.station, present, wanted)], self.mapping, inventory=inventory)

    def arm_of(self, runs: Mapping[str, str], space: ConfigurationSpace) -> int | None:
        """Return which configuration some knobs are, as attributes are written; None if it is none of the space."""

        def fits(arm: int) -> bool:
            return all(same(self.mapping.knobs[knob].text_of(space[arm][knob]), text) for knob, text in runs.items())

        return next((arm for arm in range(len(space)) if fits(arm)), None)


Change = tuple[Task, list[Item]]
"""What a station is to run, and what that is in the network."""


class _InLedger:
    """Keeps a receipt: the ledger is told before the first node is, and the rest is known here."""

    def __init__(self, under_way: UnderWay, tasks: Sequence[Task], span: timedelta) -> None:
        self._under_way, self._tasks, self._span = under_way, tasks, span
        self.receipt: Receipt | None = None

    @property
    def undo(self) -> str:
        return "a roll-back"

    def keep(self, receipt: Receipt) -> None:
        if self.receipt is None:
            self._under_way.send(self._tasks, span=self._span, actor=ACTOR)
        self.receipt = receipt

    @property
    def everywhere(self) -> bool:
        """Whether all nodes have confirmed it."""
        return self.receipt is not None and set(self.receipt.states.values()) == {"confirmed"}


class Carrier:
    """Carries out what is ordered, as long as it runs and no other process does.

    Args:
        operations: What orders.
        network: How the network is reached.
        poll: Seconds between looks.
    """

    def __init__(self, operations: Operations, network: Network, *, poll: float = _POLL) -> None:
        self._operations, self._network, self._poll = operations, network, poll
        self._under_way, self._space = operations.under_way, operations.space
        self._waits: dict[str, tuple[float, float]] = {}  # by node, until when it is let alone, and for how long
        self._made: dict[Task, str] = {}  # what runs, and the ledger could not be told, with the comment
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="kinband network", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def end(self, seconds: float = 20.0) -> None:
        """Leave off; what is being carried out is brought to its end."""
        self._end.set()
        if self._thread.is_alive():
            self._thread.join(seconds)

    def _watch(self) -> None:
        lock = OnlyOne(self._operations.ledger, *CARRIES)
        while not self._end.is_set():
            try:
                if lock.take() and self._operations.try_refresh():
                    self.step()
            except KinbandError as error:
                _LOG.warning("what is ordered is tried again: %s", error)
            except Exception:  # a fault of ours must not keep every later order back
                _LOG.exception("what is ordered is tried again")
            self._end.wait(self._poll)
        lock.give_up()

    def step(self) -> None:
        """Look once: say what was made, settle what was given up on its way, and carry out what is ordered."""
        for task, comment in list(self._made.items()):
            self._tell_made(task, comment)
        self._operations.orders.settle()
        self._settle_left()
        groups = together(list(self._changes(self._under_way.tasks(), self._failed)))
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            list(pool.map(self._carry, [group for group in groups if not self._waiting(group)]))

    # What is to be done

    def _changes(self, tasks: Sequence[Task], nowhere: Callable[[Task, str], None]) -> Iterator[Change]:
        """Give what changes are in the network; of one that is nothing there, something else is told why."""
        if not tasks:
            return
        inventory = Inventory.read(self._network.mapping)
        for task in tasks:
            try:
                items = self._network.items(task, self._space, inventory)
                check_places(items)
            except BadInputError as error:
                nowhere(task, str(error))
                continue
            yield task, items

    def _settle_left(self) -> None:
        """Put on record what stations run to which something was sent that was given up since."""
        left = {one.station: one for one in self._under_way.left()}
        tasks = [Task(one.station, one.decision, one.arm, one.arm) for one in left.values()]

        def nowhere(task: Task, why: str) -> None:
            _LOG.warning("what %s runs is not known: %s", task.station, why)
            self._under_way.settle(left[task.station], None, actor=ACTOR)

        for task, items in self._changes(tasks, nowhere):
            if self._waiting([(task, items)]):
                continue
            try:
                runs = look(items, self._network.access)
            except KinbandError as error:
                self._later([(task, items)], error)
                continue
            self._under_way.settle(left[task.station], self._arm_of(items, runs), actor=ACTOR)

    def _carry(self, group: Sequence[Change]) -> None:
        """Carry out changes that go together, as far as what runs is what the record says."""
        if self._end.is_set():
            return
        try:
            runs = look([item for _, items in group for item in items], self._network.access)
        except KinbandError as error:
            self._refused(group, error)
            return
        fresh: list[Change] = []
        for task, items in group:
            expected = items if task.before is not None else [_as_it_runs(item, runs) for item in items]
            if all(same(runs[key_of(item)], item.after) for item in items):
                self._tell_made(task, "the network runs it already")
            elif odd := next((item for item in expected if not same(runs[key_of(item)], item.before)), None):
                text = f"{odd.attribute}={runs[key_of(odd)]} on {odd.node}, and the record says {odd.before}"
                self._failed(task, f"{task.station} runs {text}", self._arm_of(items, runs))
            else:
                fresh.append((task, expected))
        if fresh:
            self._send(fresh)

    def _send(self, group: Sequence[Change]) -> None:
        """Send changes, look at what runs and at the switches, and have it stay."""
        tasks, network = [task for task, _ in group], self._network
        keeper = _InLedger(self._under_way, tasks, timedelta(seconds=network.seconds + network.access.timeout))
        try:
            receipt = send(
                [item for _, items in group for item in items], keeper, network.access,
                seconds=network.seconds, clock=self._operations.now,
            )  # fmt: skip
            self._under_way.check(tasks)
            confirm_sent(receipt, keeper, network.access, clock=self._operations.now)
        except KinbandError as error:
            if not keeper.everywhere:
                self._taken_back(group, keeper, error)
                return
            _LOG.warning("%s", error)  # it runs, and is gone with a node's next start
        for node in _nodes(group):
            self._waits.pop(node, None)
        for task in tasks:
            self._tell_made(task, "read back from the network")

    # What goes wrong

    def _taken_back(self, group: Sequence[Change], keeper: _InLedger, error: KinbandError) -> None:
        """Have what was sent undone, where it is not yet, and say what becomes of it."""
        if keeper.receipt is not None:
            if keeper.receipt.in_force:
                try:
                    undo_sent(keeper.receipt, keeper, self._network.access, clock=self._operations.now)
                except KinbandError as stuck:
                    _LOG.warning("what was sent is not undone yet: %s", stuck)
            if keeper.receipt.in_force:
                _LOG.warning("%s; what runs is looked at once nodes have undone it by themselves", error)
                return
            self._under_way.unsent([task for task, _ in group], why=str(error), actor=ACTOR)
        self._refused(group, error)

    def _refused(self, group: Sequence[Change], error: KinbandError) -> None:
        """What a node refuses fails, each change by itself; anything else is tried again later."""
        if isinstance(error, HeldError):
            _LOG.info("%s", error)
        elif not isinstance(error, NodeError) or error.later:
            self._later(group, error)
        elif len(group) > 1:
            for change in group:
                self._carry([change])
        else:
            self._failed(group[0][0], str(error))

    def _later(self, group: Sequence[Change], error: KinbandError) -> None:
        for node in _nodes(group):
            _, last = self._waits.get(node, (0.0, self._poll / 2))
            wait = min(2 * last, _LONGEST)
            self._waits[node] = monotonic() + wait, wait
        _LOG.warning("what is ordered is tried again: %s", error)

    def _waiting(self, group: Sequence[Change]) -> bool:
        return any(monotonic() < self._waits.get(node, (0.0, 0.0))[0] for node in _nodes(group))

    def _failed(self, task: Task, why: str, runs: int | None = None) -> None:
        _LOG.warning("the change %s of %s fails: %s", task.decision or "back", task.station, why)
        try:
            self._under_way.failed(task, why=why, runs=runs, actor=ACTOR)
        except ConflictError as error:  # it was given up meanwhile
            _LOG.warning("%s", error)

    def _tell_made(self, task: Task, comment: str) -> None:
        """Put on record that a change is made; where that cannot be now, at the next look."""
        self._made[task] = comment
        try:
            self._under_way.made(task, comment=comment, actor=ACTOR)
        except ConflictError as error:  # it was given up on its way: what runs is put on record by `_settle_left`
            _LOG.warning("%s", error)
        del self._made[task]

    def _arm_of(self, items: Sequence[Item], runs: Mapping[str, str]) -> int | None:
        return self._network.arm_of({item.knob: runs[key_of(item)] for item in items}, self._space)


def _as_it_runs(item: Item, runs: Mapping[str, str]) -> Item:
    return replace(item, before=runs[key_of(item)])


def _nodes(group: Sequence[Change]) -> set[str]:
    return {item.node for _, items in group for item in items}


def together(changes: Sequence[Change]) -> list[list[Change]]:
    """Return changes in groups: those whose nodes overlap go together, since a node takes one candidate edit.

    Example:
        >>> def change(station: str, *nodes: str) -> Change:
        ...     items = [Item(station, "tilt", "2", "4", node, "Cell=1", "tilt", "20", "40") for node in nodes]
        ...     return Task(station, "d1", 0, 1), items
        >>> groups = together([change("a", "n1"), change("b", "n2"), change("c", "n3", "n1")])
        >>> [[task.station for task, _ in group] for group in groups]
        [['a', 'c'], ['b']]
    """
    by: dict[str, list[Change]] = {}
    for change in changes:
        mine = [change]
        for node in _nodes(mine):
            if (other := by.get(node)) is not None and change not in other:
                mine = [*other, *mine]
                by.update(dict.fromkeys(_nodes(other), mine))
        by.update(dict.fromkeys(_nodes(mine), mine))
    return list({id(group): group for group in by.values()}.values())
