"""Applies a plan on all of its nodes or on none, and later confirms it or rolls it back.

Each step is done on all nodes before the next begins: compare, edit the candidates, commit for a while, read back. What
fails up to the commit leaves every node as it was; what fails then is cancelled on every node that has committed, and a
node that cannot be reached for that undoes the change by itself.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import NoReturn
from uuid import uuid4

from kinband.counters.formulas import number_of
from kinband.deploy.node import Access, Node, NodeError
from kinband.deploy.orders import Item, same
from kinband.deploy.receipt import Folder, Keeper, Receipt, State, check_waves_before, key_of, wave_folder
from kinband.errors import BadInputError, ConflictError
from kinband.stats import counted

_AT_ONCE = 16  # nodes
_BACK = 60  # seconds after which a roll-back of confirmed changes is undone by itself, should this process die
_UNCHANGED = "nothing was changed"
_SENDING: State = "sending"
Clock = Callable[[], datetime]
Sessions = Mapping[str, Node]


# --- Many nodes at once ---------------------------------------------------------------------------------------------


def _each(nodes: Iterable[str], act: Callable[[str], None]) -> dict[str, NodeError]:
    """Do something for every node, many at once, and return what went wrong where."""

    def tried(node: str) -> NodeError | None:
        try:
            act(node)
        except NodeError as error:
            return error
        return None

    names = list(nodes)
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        return {name: error for name, error in zip(names, pool.map(tried, names), strict=True) if error is not None}


def _all_or_error(failed: Mapping[str, NodeError], then: str) -> None:
    """Raise what went wrong first, with what became of the others."""
    if failed:
        node, error = next(iter(failed.items()))
        more = f" (and {counted(len(failed) - 1, 'more node')})" if len(failed) > 1 else ""
        later = all(one.later for one in failed.values())
        problem = error.problem.removeprefix(f"{node} ")
        raise NodeError(node, f"{problem}{more}; {then}", hint=error.hint, later=later) from error


def _each_or_error(nodes: Iterable[str], act: Callable[[str], None], then: str) -> None:
    _all_or_error(_each(nodes, act), then)


@contextmanager
def _sessions(nodes: Iterable[str], access: Access, *, then: str = _UNCHANGED) -> Iterator[dict[str, Node]]:
    """Sessions with all nodes; one that cannot be reached is an error before anything is done."""
    opened: dict[str, Node] = {}

    def connect(node: str) -> None:
        opened[node] = Node(node, access)

    try:
        _each_or_error(nodes, connect, then)
        yield opened
    finally:
        _each(opened, lambda node: opened[node].close())


def _by_node(items: Iterable[Item]) -> dict[str, list[Item]]:
    found: dict[str, list[Item]] = {}
    for item in items:
        found.setdefault(item.node, []).append(item)
    return found


def _moving(items: Iterable[Item]) -> list[Item]:
    return [item for item in items if item.moves]


# --- What runs ------------------------------------------------------------------------------------------------------


def _read(items: Sequence[Item], sessions: Sessions, *, then: str = _UNCHANGED) -> dict[str, str]:
    """Return what every attribute is, by its key; one that is not there is an error."""
    grouped, found = _by_node(items), dict[str, str]()
    _each_or_error(grouped, lambda node: found.update(_values(grouped[node], sessions[node])), then)
    return found


def _values(items: Sequence[Item], session: Node, *, source: str = "running") -> dict[str, str]:
    """The same of one node."""
    values, found = session.read([item.path for item in items], source), dict[str, str]()
    for item in items:
        value = values[item.path]
        if not value:
            hint = "check inventory and netconf.paths of the mapping"
            raise NodeError(session.name, f"has no {item.attribute} at {item.dn}", hint=hint)
        found[key_of(item)] = value
    return found


def _differing(items: Iterable[Item], runs: Mapping[str, str], side: str) -> list[Item]:
    return [item for item in items if not same(runs[key_of(item)], getattr(item, side))]


def _compare(items: Sequence[Item], runs: Mapping[str, str]) -> None:
    """Refuse a plan that expects something else than what runs."""
    if not (odd := _differing(items, runs, "before")):
        return
    item, more = odd[0], f" (and {counted(len(odd) - 1, 'more value')} differ)" if len(odd) > 1 else ""
    alike = [one for one in items if one.knob == item.knob]
    shifts = {number_of(runs[key_of(one)]) - number_of(one.before) for one in alike}
    hint = "it was changed since the plan was made: plan again with what runs now"
    if len(shifts) == 1 and len(alike) > 1:
        hint = f"all {len(alike)} values of {item.knob} differ by {shifts.pop():g}: is its unit in the mapping right?"
    raise ConflictError(
        f"{item.station} runs {item.attribute}={runs[key_of(item)]} on {item.node}, the plan expects {item.before} "
        f"({item.knob}={item.present}){more}; {_UNCHANGED}",
        hint=hint,
        code="stale_plan",
        argument=item.station,
    )


# --- Apply ----------------------------------------------------------------------------------------------------------


def check(items: Sequence[Item], access: Access) -> dict[str, str]:
    """Compare what runs with what a plan expects, change nothing, and return what every attribute is.

    Example:
        >>> check([], Access())
        Traceback (most recent call last):
            ...
        kinband.errors.BadInputError: the plan moves no knob: there is nothing to carry out
    """
    _check_items(items)
    with _sessions(_by_node(items), access) as sessions:
        return _compared(items, sessions)


def look(items: Sequence[Item], access: Access) -> dict[str, str]:
    """Return what every attribute is, by `key_of`, whatever a plan expects.

    Example:
        >>> look([], Access())
        {}
    """
    check_places(items)
    with _sessions(_by_node(items), access) as sessions:
        return _read(items, sessions)


def _compared(items: Sequence[Item], sessions: Sessions) -> dict[str, str]:
    _each_or_error(sessions, lambda node: sessions[node].check(), _UNCHANGED)
    runs = _read(items, sessions)
    _compare(items, runs)
    return runs


def _check_items(items: Sequence[Item]) -> None:
    if not _moving(items):
        raise BadInputError("the plan moves no knob: there is nothing to carry out")
    check_places(items)


def check_places(items: Sequence[Item]) -> None:
    """Refuse what no node or no path is known of.

    Example:
        >>> check_places([Item("a", "tilt", "2", "4", "", "Cell=1", "tilt", "20", "40")])
        Traceback (most recent call last):
            ...
        kinband.errors.BadInputError: Cell=1 has no node: name one with --netconf, or in the column node ...
    """
    for item in items:
        if not item.node:
            raise BadInputError(
                f"{item.dn} has no node: name one with --netconf, or in the column node of the inventory"
            )
        if not item.path:
            raise BadInputError(f"the mapping does not say where {item.knob} is: add it to netconf.paths")


def apply(
    items: Sequence[Item], plan: Path, access: Access, *, seconds: int, clock: Clock, wave: int | None = None
) -> Receipt:
    """Carry out a plan until it is confirmed: after some seconds nodes undo it by themselves.

    Args:
        items: What to set where.
        plan: The plan's folder, for the receipt.
        access: How to come into the nodes.
        seconds: Until a node undoes the change by itself.
        clock: Says the time.
        wave: Which wave of the plan it is; its receipt goes into a folder of its own there.

    Example:
        >>> from datetime import UTC
        >>> apply([], Path("plan"), Access(), seconds=300, clock=lambda: datetime.now(UTC))
        Traceback (most recent call last):
            ...
        kinband.errors.BadInputError: the plan moves no knob: there is nothing to carry out
    """
    _check_items(items)
    if wave is not None:
        check_waves_before(plan, wave)
        plan = wave_folder(plan, wave)
    _check_not_applied(plan)
    return send(items, Folder(plan), access, seconds=seconds, clock=clock, wave="" if wave is None else str(wave))


def send(
    items: Sequence[Item], keeper: Keeper, access: Access, *, seconds: int, clock: Clock, wave: str = ""
) -> Receipt:
    """Carry out a change until it is confirmed: what `apply` does for a plan.

    Args:
        items: What to set where.
        keeper: Where the receipt is kept.
        access: How to come into the nodes.
        seconds: Until a node undoes the change by itself.
        clock: Says the time.
        wave: Which wave of a plan it is, "" for all of it.

    Example:
        >>> from datetime import UTC
        >>> send([], Folder(Path("plan")), Access(), seconds=300, clock=lambda: datetime.now(UTC))
        Traceback (most recent call last):
            ...
        kinband.errors.BadInputError: the plan moves no knob: there is nothing to carry out
    """
    _check_items(items)
    with _sessions(_by_node(items), access) as sessions:
        runs = _compared(items, sessions)
        return _send(items, keeper, sessions, seconds=seconds, clock=clock, runs=runs, wave=wave)


def _check_not_applied(plan: Path) -> None:
    try:
        receipt = Receipt.read(plan)
    except BadInputError as error:
        if isinstance(error.__cause__, FileNotFoundError):
            return
        raise
    if receipt.in_force:
        raise ConflictError(
            f"the plan in {plan} was carried out at {receipt.at.astimezone():%Y-%m-%d %H:%M}",
            hint=f"confirm it, or undo it with kinband rollback {plan}",
        )


def _send(
    items: Sequence[Item],
    keeper: Keeper,
    sessions: Sessions,
    *,
    seconds: int,
    clock: Clock,
    runs: Mapping[str, str],
    wave: str,
) -> Receipt:
    """Edit, commit for a while and read back on all nodes; undo everywhere what fails anywhere."""
    moving, persist = _by_node(_moving(items)), _new_id()
    with _edited(moving, sessions):
        now = clock()
        kept = tuple(item for item in items if item.node in moving)
        states = dict.fromkeys(moving, _SENDING)
        receipt = Receipt(kept, states, runs, persist, until=now + timedelta(seconds=seconds), at=now, wave=wave)
        keeper.keep(receipt)
        failed = _each(moving, lambda node: sessions[node].commit(seconds, persist))
        _each(failed, lambda node: sessions[node].leave(discard=True))
    found: dict[str, str] = {}
    failed |= _each(moving.keys() - failed, lambda node: found.update(_changed(moving[node], sessions[node])))
    if failed:
        _cancel(failed, moving, sessions, receipt, keeper=keeper, clock=clock)
    receipt = receipt.told(moving, "pending", at=clock(), runs=found)
    keeper.keep(receipt)
    return receipt


def _new_id() -> str:
    return f"kinband-{uuid4().hex[:12]}"


@contextmanager
def _edited(moving: Mapping[str, Sequence[Item]], sessions: Sessions) -> Iterator[None]:
    """Put what moves into the candidates of all nodes, or of none, and give them back in the end."""

    def edit(node: str) -> None:
        _compare(moving[node], _values(moving[node], sessions[node], source="candidate"))
        sessions[node].edit({item.path: item.after for item in moving[node]})

    def leave(*, discard: bool) -> None:
        _each(moving, lambda node: sessions[node].leave(discard=discard))

    try:
        _each_or_error(moving, lambda node: sessions[node].lock(), _UNCHANGED)
        _each_or_error(moving, edit, _UNCHANGED)
        yield
    except BaseException:
        leave(discard=True)
        raise
    leave(discard=False)


def _changed(items: Sequence[Item], session: Node) -> dict[str, str]:
    """Return what a node runs after a commit; it must be what was set, whatever the node answered."""
    runs = _values(items, session)
    if odd := _differing(items, runs, "after"):
        item = odd[0]
        raise NodeError(
            session.name, f"answered ok and runs {item.attribute}={runs[key_of(item)]} at {item.dn}, not {item.after}"
        )
    return runs


def _undone(items: Sequence[Item], session: Node, persist: str) -> dict[str, str]:
    """Cancel a commit of a node and return what it runs then, which must be what it ran before."""
    try:
        session.cancel(persist)
        refused = ""
    except NodeError as error:  # there may have been nothing to cancel: what it runs tells
        refused = f" ({error.problem})"
    runs = _values(items, session)
    if odd := _differing(items, runs, "before"):
        item = odd[0]
        raise NodeError(session.name, f"still runs {item.attribute}={runs[key_of(item)]} at {item.dn}{refused}")
    return runs


def _cancel(
    failed: Mapping[str, NodeError],
    moving: Mapping[str, Sequence[Item]],
    sessions: Sessions,
    receipt: Receipt,
    *,
    keeper: Keeper,
    clock: Clock,
) -> NoReturn:
    """Undo a change everywhere since it failed somewhere, and say so."""
    found: dict[str, str] = {}
    stuck = _each(moving, lambda node: found.update(_undone(moving[node], sessions[node], receipt.persist)))
    receipt = receipt.told(moving.keys() - stuck, "undone", at=clock(), runs=found)
    keeper.keep(receipt.told(stuck, "pending", at=clock()))
    then = "every node runs what it ran before"
    if stuck:
        names, until = ", ".join(stuck), f"{receipt.until.astimezone():%H:%M:%S}"
        then = f"{names} should undo it without us by {until}: then run {keeper.undo}"
    _all_or_error(failed, then)
    raise AssertionError("something failed")


# --- Confirm --------------------------------------------------------------------------------------------------------


def confirm(plan: Path, access: Access, *, clock: Clock) -> Receipt:
    """Have the change of a plan stay, on all of its nodes, and return the receipt; once more does no harm.

    Example:
        >>> confirm(Path("no-such-plan"), Access(), clock=datetime.now)
        Traceback (most recent call last):
            ...
        kinband.errors.BadInputError: no-such-plan has no applied.csv: nothing of this plan was carried out
    """
    receipt = Receipt.read(plan)
    if not receipt.in_force:
        raise ConflictError(
            f"the plan in {plan} was undone at {receipt.at.astimezone():%Y-%m-%d %H:%M}", hint="apply it again"
        )
    return confirm_sent(receipt, Folder(plan), access, clock=clock)


def confirm_sent(receipt: Receipt, keeper: Keeper, access: Access, *, clock: Clock) -> Receipt:
    """Have what a receipt is of stay: what `confirm` does for a plan.

    Example:
        >>> time = datetime(2026, 11, 1)
        >>> nothing = Receipt((), {}, {}, "", until=time, at=time)
        >>> confirm_sent(nothing, Folder(Path("plan")), Access(), clock=datetime.now).states
        {}
    """
    nodes = [node for node, state in receipt.states.items() if state in ("sending", "pending")]
    if not nodes:
        return receipt
    moving = {node: _moving(receipt.on(node)) for node in nodes}
    then = "nothing was confirmed"
    with _sessions(nodes, access, then=then) as sessions:
        runs = _read(_flat(moving), sessions, then=then)
        _check_all_run_it(moving, runs, receipt, keeper=keeper, clock=clock)
        _each_or_error(nodes, lambda node: sessions[node].check_candidate(item.path for item in moving[node]), then)
        return _settle(moving, sessions, receipt, keeper=keeper, clock=clock)


def _flat(moving: Mapping[str, Sequence[Item]]) -> list[Item]:
    return [item for items in moving.values() for item in items]


def _check_all_run_it(
    moving: Mapping[str, Sequence[Item]], runs: Mapping[str, str], receipt: Receipt, *, keeper: Keeper, clock: Clock
) -> None:
    back = [node for node, items in moving.items() if not _differing(items, runs, "before")]
    if back:
        keeper.keep(receipt.told(back, "undone", at=clock(), runs=runs))
        rest = "apply the plan again" if len(back) == len(moving) else f"{keeper.undo} undoes it on the others"
        raise ConflictError(
            f"{back[0]} runs what it ran before: it has undone the change, which was to be confirmed by "
            f"{receipt.until.astimezone():%H:%M:%S}; nothing was confirmed",
            hint=rest,
        )
    if odd := _differing(_flat(moving), runs, "after"):
        raise _strange(odd[0], runs, "nothing was confirmed")


def _strange(item: Item, runs: Mapping[str, str], then: str) -> ConflictError:
    return ConflictError(
        f"{item.station} runs {item.attribute}={runs[key_of(item)]} on {item.node}, neither what the plan set "
        f"({item.after}) nor what it ran before ({item.before}): somebody has changed it since; {then}",
        hint="find out who and why, and set it by hand",
        code="changed_since",
        argument=item.station,
    )


def _settle(
    moving: Mapping[str, Sequence[Item]], sessions: Sessions, receipt: Receipt, *, keeper: Keeper, clock: Clock
) -> Receipt:
    """Confirm on all nodes, look whether they run it, and save it there for the next start."""
    found: dict[str, str] = {}

    def act(node: str) -> None:
        sessions[node].confirm(receipt.persist)
        found.update(_changed(moving[node], sessions[node]))

    failed = _each(moving, act)
    receipt = receipt.told(moving.keys() - failed, "confirmed", at=clock(), runs=found)
    keeper.keep(receipt)
    others = counted(len(moving) - len(failed), "other node")
    _all_or_error(failed, f"it is confirmed on {others}; {keeper.undo} undoes it on all, whatever they run")
    _each_or_error(moving, lambda node: sessions[node].save(), "the change is confirmed, but gone with its next start")
    return receipt


# --- Roll back ------------------------------------------------------------------------------------------------------


def roll_back(plan: Path, access: Access, *, clock: Clock) -> Receipt:
    """Have all nodes run what they ran before a plan, confirmed or not, and return the receipt.

    What runs is compared first: where somebody has changed it since, nothing is touched.

    Example:
        >>> roll_back(Path("no-such-plan"), Access(), clock=datetime.now)
        Traceback (most recent call last):
            ...
        kinband.errors.BadInputError: no-such-plan has no applied.csv: nothing of this plan was carried out
    """
    return undo_sent(Receipt.read(plan), Folder(plan), access, clock=clock)


def undo_sent(receipt: Receipt, keeper: Keeper, access: Access, *, clock: Clock) -> Receipt:
    """Have all nodes run what they ran before: what `roll_back` does for a plan.

    Example:
        >>> time = datetime(2026, 11, 1)
        >>> nothing = Receipt((), {}, {}, "", until=time, at=time)
        >>> undo_sent(nothing, Folder(Path("plan")), Access(), clock=datetime.now).states
        {}
    """
    moving = {node: _moving(receipt.on(node)) for node in receipt.in_force}
    if not moving:
        return receipt
    with _sessions(moving, access) as sessions:
        runs = _read(_flat(moving), sessions)
        back = {node for node, items in moving.items() if not _differing(items, runs, "before")}
        there = {node: items for node, items in moving.items() if node not in back}
        if odd := _differing(_flat(there), runs, "after"):
            raise _strange(odd[0], runs, _UNCHANGED)
        receipt = receipt.told(back, "undone", at=clock(), runs=runs)
        waiting = [node for node in there if receipt.states[node] != "confirmed"]
        found: dict[str, str] = {}
        kept = _each(waiting, lambda node: found.update(_undone(there[node], sessions[node], receipt.persist)))
        receipt = receipt.told(set(waiting) - kept.keys(), "undone", at=clock(), runs=found)
        keeper.keep(receipt)
        rest = {node: items for node, items in there.items() if node not in waiting or node in kept}
        return _set_back(rest, sessions, receipt, keeper=keeper, clock=clock) if rest else receipt


def _set_back(
    moving: Mapping[str, Sequence[Item]], sessions: Sessions, receipt: Receipt, *, keeper: Keeper, clock: Clock
) -> Receipt:
    """Edit back what was confirmed; each node for itself once all have accepted it."""
    turned = {node: [_turned(item) for item in items] for node, items in moving.items()}
    persist, found = _new_id(), dict[str, str]()

    def act(node: str) -> None:
        sessions[node].commit(_BACK, persist)
        _changed(turned[node], sessions[node])
        sessions[node].leave(discard=False)
        sessions[node].confirm(persist)
        found.update(_changed(turned[node], sessions[node]))

    with _edited(turned, sessions):
        failed = _each(turned, act)
        _each(failed, lambda node: sessions[node].leave(discard=True))
    receipt = receipt.told(turned.keys() - failed, "undone", at=clock(), runs=found)
    keeper.keep(receipt)
    _all_or_error(failed, f"undone on {counted(len(turned) - len(failed), 'other node')}: run {keeper.undo} again")
    _each_or_error(turned, lambda node: sessions[node].save(), "it is undone, but back with its next start")
    return receipt


def _turned(item: Item) -> Item:
    return replace(item, present=item.wanted, wanted=item.present, before=item.after, after=item.before)
