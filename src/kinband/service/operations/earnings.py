"""What the slots of decisions earned: on every item, in the sums, and in the history that the guard looks at."""

from collections import deque
from dataclasses import replace
from itertools import islice
from typing import Any

from kinband.controller.events import Corrected, Told
from kinband.controller.telling import own_of
from kinband.guard import Rewarded
from kinband.records import Decision, alternative_of
from kinband.service.operations.views import KEPT_RECENT, Views


class Earnings(Views):
    """The part of a picture that keeps items and sums up to date.

    Example:
        >>> earnings = Earnings()
        >>> earnings._count("told")
        >>> earnings.counts
        {'told': 1}
    """

    def _take_reward(self, entry: Told) -> None:
        item = self.items[entry.id]
        self._expire(entry.id)
        self._count("told")
        self._count("pending", -int(item.open))
        self._earned(entry.id, own_of(entry)[0], entry.reward)
        self._update(entry.id, called_off=False)  # a late reward is welcome

    def _take_correction(self, entry: Corrected) -> None:
        """Take in a reward in the place of another, and what it changes of those that it was mixed into."""
        self._earned(entry.id, entry.reward if entry.own is None else entry.own, entry.reward)
        for key, learned in entry.others.items():
            own = self.items[key].reward
            if own is not None:
                self._earned(key, own, learned)

    def _earned(self, key: str, reward: float, learned: float) -> None:
        """Note what a slot earned, and what is learned of it, in the place of what was noted before."""
        self._tallied(key, -1)
        newest = self.items[key].reward is None and self.cards[self.items[key].station].last == key
        self._update(key, reward=reward)
        self._learned.pop(key, None)
        if learned != reward:  # neighbours' rewards are mixed in
            self._learned[key] = learned
        self._tallied(key, 1)
        item = self.items[key]
        self._keep_recent(item.station, reward if newest else None)
        if item.verdict is not None or self.cards[item.station].last == key:
            self._fresh.append(Rewarded(self._began.get(key, item.at), item.station, reward))

    def _keep_recent(self, station: str, newest: float | None) -> None:
        """Keep the last rewards of a station at hand: one more, or anew where it is one of the past that changed."""
        if newest is None:
            last = list(islice(self._rewards(self.cards[station]), KEPT_RECENT))
            self._recent[station] = deque(reversed(last), KEPT_RECENT)
        else:
            self._recent.setdefault(station, deque(maxlen=KEPT_RECENT)).append(newest)

    def _tallied(self, key: str, times: int) -> None:
        item = self.items[key]
        if item.reward is None or item.verdict is None:
            return
        at = item.at if item.slot is None else self._slots.setdefault(item.slot, item.at)
        gained = None if item.baseline is None else self._learned.get(key, item.reward) - item.baseline
        self._tally.add(item.station, at, reward=item.reward, baseline=item.baseline, gained=gained, times=times)

    def _expire(self, decision_id: str) -> None:
        """What waited for a person waits no longer: its slot is over."""
        if decision_id in self._waiting:
            del self._waiting[decision_id]
            self._update(decision_id, status="expired")
            self._count("expired")

    def _update(self, decision_id: str, **changes: Any) -> None:
        before = self.items[decision_id]
        after = self.items[decision_id] = replace(before, **changes)
        if "refused" in (before.status, after.status):
            self._refused[before.at.date()] -= before.status == "refused"
            self._refused[after.at.date()] += after.status == "refused"

    def _count(self, what: str, times: int = 1) -> None:
        self.counts[what] = self.counts.get(what, 0) + times

    def _expected(self, decision: Decision) -> float | None:
        """What the fixed configuration was expected to earn in the slot of a decision."""
        fixed = self.cards[decision.station].fixed
        return None if fixed is None else expected_of(decision, fixed)


def expected_of(decision: Decision, arm: int) -> float | None:
    """Return what an arm was expected to earn when a decision was made, where its scores were kept.

    Example:
        >>> from kinband.packed import Alternative
        >>> other = Alternative(arm=2, configuration=None, mean=0.7, width=0.1, ucb=0.8)
        >>> expected_of(Decision("d1", "a", 4, None, 0.9, 0.05, 0.95, (other,)), 2)
        0.7
    """
    if arm == decision.arm:
        return decision.mean
    found = alternative_of(decision, arm)
    return None if found is None else found.mean
