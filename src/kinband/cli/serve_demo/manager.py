"""The network manager of a demonstration: it asks every hour, lets stations run what was decided, and reports rewards.

It does what a real one does and has its troubles: some rewards come late, some are wrong at first and corrected, a few
are lost. Decisions that wait for a person are left open for a while, and their stations are not asked again meanwhile,
so that there is time to read them: what is approved is what runs when the hour ends.
"""

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import numpy as np

from kinband.cli.serve_demo.clock import DemoClock
from kinband.cli.serve_demo.network import DemoNetwork
from kinband.errors import ConflictError, NotFoundError

_LATE, _LOST = 0.04, 0.01  # shares of rewards
_WRONG_IN = (2, 5, 8)  # slots with a wrong reward: a correction has a sparse posterior learn all rows anew, so early
_LONGEST_DELAY = 4  # slots
_TROUBLE_EVERY, _TROUBLE_FOR = 25, 4  # changes, slots


@dataclass(frozen=True, slots=True)
class Seen:
    """A decision as the manager sees it.

    Attributes:
        id: Its id.
        station: Whom it is for.
        arm: What the station runs; None where nobody knows.
        changed: Whether that is another configuration than before.
        waiting: Whether a person has to say something.
        open: Whether its reward is awaited.
    """

    id: str
    station: str
    arm: int | None
    changed: bool
    waiting: bool
    open: bool


class Desk(Protocol):
    """Where the manager asks and tells: the service, over HTTP or in the same process."""

    def stations(self) -> list[str]:
        """Return who is decided for."""

    def ask(self, states: Mapping[str, Mapping[str, float]], *, slot: str) -> list[Seen]:
        """Ask for a round of decisions."""

    def look(self, ids: Iterable[str]) -> list[Seen]:
        """Return decisions as they stand."""

    def tell(self, rewards: Mapping[str, float]) -> None:
        """Report rewards by decision, all or nothing."""

    def correct(self, decision: str, reward: float) -> None:
        """Put a reward right."""

    def call_off(self, decision: str) -> None:
        """Say that no reward will come."""


class Manager:
    """Plays slots of a simulated network: `open_slot`, then `close_slot` when its time is over.

    Args:
        network: The network.
        desk: Whom to ask.
        clock: The time, moved on by `close_slot`.
        patience: For how many slots a decision may wait for a person.
        seed: Draws what goes wrong.
    """

    def __init__(self, network: DemoNetwork, desk: Desk, clock: DemoClock, *, patience: int, seed: int) -> None:
        self.network, self.desk, self.clock, self.patience = network, desk, clock, patience
        self._rng = np.random.default_rng([seed, 11])
        self._slot = 0
        self._asked: list[str] = []  # decisions of the present slot
        self._held: dict[str, tuple[str, int]] = {}  # station, since which slot, by decisions that wait
        self._late: list[tuple[int, str, float]] = []  # slot to tell in, decision, reward
        self._wrong: list[tuple[int, str, float]] = []

    def move_to(self, desk: Desk, *, patience: int) -> None:
        """Ask at another desk from now on; what is held and late goes along."""
        self.desk, self.patience = desk, patience

    def open_slot(self) -> None:
        """Begin the hour: ask for every station that does not wait for a person."""
        states = self.network.begin(self.clock.slot.hour)
        held, known = {station for station, _ in self._held.values()}, set(self.desk.stations())
        wanted = {name: state for name, state in states.items() if name in known and name not in held}
        self._asked = []
        if wanted:
            self._asked = [seen.id for seen in self.desk.ask(wanted, slot=self.clock.slot.strftime("%Y-%m-%d %H:00"))]

    def close_slot(self) -> None:
        """End the hour: find out what ran, pay for it, and report."""
        rewards: dict[str, float] = {}
        for seen in self.desk.look([*self._held, *self._asked]):
            if self._still_waits(seen) or not seen.open or seen.arm is None:
                continue
            self._report(seen.id, self.network.earned(seen.station, seen.arm), rewards)
            self._perhaps_trouble(seen)
        rewards |= {key: reward for due, key, reward in self._late if due <= self._slot}
        self._late = [one for one in self._late if one[0] > self._slot]
        self._tell(rewards)
        self._put_right()
        self._slot += 1
        self.clock.advance()

    def _still_waits(self, seen: Seen) -> bool:
        """Whether a decision stays open for a person; its station then skips the next slot."""
        _, since = self._held.get(seen.id, (seen.station, self._slot))
        if seen.waiting and seen.open and self._slot - since < self.patience:
            self._held[seen.id] = seen.station, since
            return True
        self._held.pop(seen.id, None)
        return False

    def _report(self, decision: str, reward: float, rewards: dict[str, float]) -> None:
        """Put a reward among those to tell, unless something goes wrong."""
        chance, later = self._rng.random(), self._slot + int(self._rng.integers(1, _LONGEST_DELAY + 1))
        if chance < _LOST:
            _unless_settled(partial(self.desk.call_off, decision))
        elif chance < _LOST + _LATE:
            self._late.append((later, decision, reward))
        elif self._slot in _WRONG_IN and not rewards:
            rewards[decision] = float(np.clip(reward + 0.1 * self._rng.standard_normal(), 0, 1))
            self._wrong.append((later, decision, reward))
        else:
            rewards[decision] = reward

    def _perhaps_trouble(self, seen: Seen) -> None:
        """Now and then a station that has just changed runs into trouble, and the guard has something to do."""
        if seen.changed and not self.network.troubled and self._rng.random() < 1 / _TROUBLE_EVERY:
            self.network.trouble(seen.station, _TROUBLE_FOR)

    def _tell(self, rewards: Mapping[str, float]) -> None:
        """Tell rewards together; if a person has settled one of them in between, one by one."""
        if not rewards:
            return
        try:
            self.desk.tell(rewards)
        except (ConflictError, NotFoundError):
            for decision, reward in rewards.items():
                _unless_settled(partial(self.desk.tell, {decision: reward}))

    def _put_right(self) -> None:
        due = [one for one in self._wrong if one[0] <= self._slot]
        self._wrong = [one for one in self._wrong if one[0] > self._slot]
        for _, decision, reward in due:
            _unless_settled(partial(self.desk.correct, decision, reward))


def _unless_settled(act: Callable[[], None]) -> None:
    """Do something, unless somebody has settled it otherwise in the meantime."""
    with suppress(ConflictError, NotFoundError):
        act()
