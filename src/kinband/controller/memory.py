"""What a controller keeps: the journal, and everything that follows from it.

Every entry is taken in by one routine, in life and in a replay alike: what is in force changes, the journal grows,
those who keep count (of what runs, of the clock, of neighbours) take note, and the policy learns what there is to
learn. In life a reward may lead to further entries, such as a station that starts anew;
a replay reads those in the journal. So beliefs depend on the order of entries alone.
"""

from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from itertools import takewhile
from typing import Any

from kinband.controller.asking import starting_rows
from kinband.controller.entries import check_entry
from kinband.controller.joining import empty_policy, taken_in
from kinband.controller.journal import (
    Asked,
    Corrected,
    Entry,
    Estimated,
    Joined,
    Journal,
    Newcomer,
    Ran,
    Renewed,
    Shaping,
    Told,
)
from kinband.controller.roster import InForce
from kinband.controller.settings import Settings
from kinband.controller.standing import Standings
from kinband.controller.telling import LastTold, LeastSeen, corrected_in_place
from kinband.controller.watching import Watch
from kinband.policies import Policy
from kinband.policies.base import KeepsState, LearnsLogs
from kinband.records import Observation

_CACHED = 4096  # for how many pending decisions the work done while asking is kept


class Memory:
    """The journal of a controller, what is in force, and a policy that has learned all of it.

    Args:
        settings: The fixed settings.
        entries: What the journal holds already.
        beliefs: What the policy believed after the last of them; None to learn everything anew.

    Example:
        >>> from kinband import ConfigurationSpace, Controller
        >>> controller = Controller(ConfigurationSpace(tilt=[2, 4]), ["a"])
        >>> controller.tell(controller.ask("a").id, 0.8)
        >>> memory = Memory(controller.settings, controller.journal)
        >>> memory.rows, [observation.reward for observation in memory.observations()]
        (1, [0.8])
    """

    def __init__(
        self, settings: Settings, entries: Iterable[Entry] = (), *, beliefs: Mapping[str, Any] | None = None
    ) -> None:
        self.settings = settings
        self.journal = Journal()
        self.present = InForce.of(settings)
        budget = None if settings.safety is None else settings.safety.conservative
        self.standings = Standings(budget=budget is not None)
        self._least = LeastSeen(None if budget is None else budget.least)
        self.last_told = LastTold()
        self.watch = Watch(settings)
        self.rounds = 0
        self._caches: OrderedDict[str, Any] = OrderedDict()
        policy = empty_policy(settings, ())
        if beliefs is not None and isinstance(policy, KeepsState):
            self._take_up(entries, beliefs)
        else:
            self.policy = self._taught(policy, ())
            self.follow(entries)

    @property
    def starting_rows(self) -> int:
        """How many rows the log had that beliefs started from."""
        return 0 if self.settings.start is None else len(self.settings.start)

    @property
    def rows(self) -> int:
        """How many rows are known: those of the starting log, and the rewards told."""
        return self.starting_rows + len(self.journal.told)

    def observations(self) -> list[Observation]:
        """Return everything the policy has learned from, in order: the starting log, then the rewards told."""
        return [*starting_rows(self.settings.start), *map(self.journal.observation, self.journal.told.values())]

    def learn(self, told: Told) -> None:
        """Learn a reward and note it, with all that it leads to."""
        self.policy.learn(self.journal.observation(told, self._caches.get(told.id)))
        self.note(told)
        self.drop(told.id)
        self._least.note(told)
        for entry in self.watch.renewals(told, self.present, self.journal):
            self.take(entry)

    def take(self, entry: Entry) -> None:
        """Let the policy take in what an entry changes, and note it."""
        match entry:
            case Corrected():
                self._correct(entry)
            case Joined() | Renewed():
                self._welcome(entry)
            case Estimated():
                self._reshape(entry)
            case _:
                self.note(entry)

    def note(self, entry: Entry) -> None:
        """Add an entry to the journal without teaching it to the policy."""
        self.present = self.present.after(entry)
        self.journal.add(entry)
        self.standings.note(entry, self.journal)
        self.watch.note(entry, self.journal)
        self.last_told.note(entry, self.journal, self.settings.neighbours)
        if isinstance(entry, Asked) and entry.decision.round is not None:
            self.rounds = entry.decision.round + 1
        if isinstance(entry, Ran):
            self.drop(entry.id)

    def keep(self, decision_id: str, cache: Any) -> None:
        """Keep the work done while asking, for when the reward comes."""
        if cache is not None:
            self._caches[decision_id] = cache
            if len(self._caches) > _CACHED:
                self._caches.popitem(last=False)

    def drop(self, decision_id: str) -> None:
        """Forget the work done while asking."""
        self._caches.pop(decision_id, None)

    def present_at(self, asked: Asked) -> InForce:
        """Return what was in force when a decision was made."""
        if not self.journal.shaping:
            return self.present
        present = InForce.of(self.settings)
        for entry in takewhile(lambda entry: entry is not asked, self.journal):
            present = present.after(entry)
        return present

    def follow(self, entries: Iterable[Entry]) -> None:
        """Add entries to the journal and teach them to the policy, in order."""
        for entry in entries:
            check_entry(entry, self.journal, self.settings)
            self.take(entry)
            if isinstance(entry, Told):
                self.policy.learn(self.journal.observation(entry))

    def _take_up(self, entries: Iterable[Entry], beliefs: Mapping[str, Any]) -> None:
        """Add entries to the journal and take up what the policy believed after them."""
        for entry in entries:
            check_entry(entry, self.journal, self.settings)
            self.note(entry)
        self.policy = empty_policy(self.settings, self.journal.shaping)
        if isinstance(self.policy, KeepsState):
            self.policy.restore(beliefs)

    def _taught(self, policy: Policy, told: Iterable[Told]) -> Policy:
        """Return a policy that has learned the starting log and these rewards, one after the other."""
        start, rows = starting_rows(self.settings.start), map(self.journal.observation, told)
        if isinstance(policy, LearnsLogs) and start:
            policy.learn_log(start)
            start = []
        for row in (*start, *rows):
            policy.learn(row)
        return policy

    def _anew(self, told: Iterable[Told], shaping: Sequence[Shaping]) -> Policy:
        """Return a policy for these tasks that has learned everything anew."""
        return self._taught(empty_policy(self.settings, shaping), told)

    def _reshape(self, entry: Estimated) -> None:
        """Note an estimate of an earlier version; where it brings another task matrix, everything is learned anew."""
        if entry.triangle:
            self.policy = self._anew(self.journal.told.values(), [*self.journal.shaping, entry])
        self.note(entry)

    def _welcome(self, entry: Newcomer) -> None:
        """Let the policy take in a newcomer, in place or by learning everything anew, then note it."""
        setting = self.present.after(entry).setting()
        if not taken_in(self.policy, self.settings.factory(), setting):
            self.policy = self._anew(self.journal.told.values(), [*self.journal.shaping, entry])
        self.note(entry)

    def _correct(self, entry: Corrected) -> None:
        """Let the policy take in a correction, in place or by learning everything anew, then note it."""
        if not corrected_in_place(self.policy, self.journal, entry, first=self.starting_rows):
            right = self.journal.put_right(entry)
            told = [right.get(one.id, one) for one in self.journal.told.values()]
            self.policy = self._anew(told, self.journal.shaping)
        self.journal.add(entry)
