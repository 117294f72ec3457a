"""The watch over drift: what time it is, and which stations have changed, kept up with a journal entry by entry.

The clock must not run back: a decision made at an earlier time than the one before would count as old from the start.
Nor may it leap ahead by more than `LEAP` half-lives, after which nothing that fades counts: a mistyped year would be
recorded, and every right time after it refused. A reward may come as late as it likes, it counts at the time of its
decision. Stations are judged by the predictions that were stored when asking, of what they ran, and by rewards as they
were first told, so that a replay stands where the original stood; a correction does not undo a reset.

A station that has changed is a newcomer: it gets a new task, whose row of the task matrix `kinband.drift`
finds. Nothing is learned anew, its old rewards stay evidence for those it resembled, and its past is called
"<station> until <decision>".
"""

import logging
from collections.abc import Sequence
from math import floor, inf
from typing import Any

import numpy as np

from kinband.controller.journal import Asked, Entry, Journal, Renewed, Told
from kinband.controller.roster import InForce
from kinband.controller.settings import Settings
from kinband.controller.timing import log_end
from kinband.drift import Evidence, read_time, renewed_row, residual
from kinband.errors import BadInputError

LEAP = 50.0
"""Half-lives that a clock may move on from one decision to the next; after so many, a reward counts 2⁻⁵⁰."""

_log = logging.getLogger(__name__)


class Watch:
    """What drift asks of the journal.

    Args:
        settings: The fixed settings of the controller; without `drift` nothing is watched.

    Example:
        >>> from kinband import ConfigurationSpace, Controller
        >>> from kinband.drift import Drift
        >>> space = ConfigurationSpace(tilt=[2, 4])
        >>> controller = Controller(space, ["a"], noise=0.01, mean=0.5, reward_range=(0, 1), drift=Drift())
        >>> for reward in [0.5] * 20 + [0.1] * 6:
        ...     controller.tell(controller.ask("a", allowed=[0]).id, reward)
        >>> controller.in_force.stations
        ('a until d000022', 'a')
    """

    def __init__(self, settings: Settings) -> None:
        drift, self._noise = settings.drift, settings.noise
        self._rule = None if drift is None else drift.resets
        self._kind = drift.clock if drift is not None and drift.forgets else None
        self._column = settings.clock_column
        half_life = None if drift is None else drift.half_life
        self._half_life = half_life if isinstance(half_life, float) else inf
        self._latest: float | None = None
        self._evidence: dict[int, Evidence] = {}

    def read(self, time: Any, present: Settings, journal: Journal) -> float | None:
        """Return what the clock shows when deciding, None without one; refuse a clock that runs back or leaps."""
        if self._kind in (None, "decisions"):
            if time is not None:
                raise BadInputError(
                    "this controller has no clock that can be set: leave time= out, or declare one by "
                    "drift=Drift(half_life=..., clock=...)"
                )
            return None if self._kind is None else float(len(journal.asked))
        if time is None:
            raise BadInputError(f"this controller's clock counts {self._kind}: say the time of a decision by time=")
        now = read_time(time, self._kind)
        last = self._latest if self._latest is not None else log_end(present.start, self._column or 0)
        self._check_step(now, last)
        return now

    def _check_step(self, now: float, last: float) -> None:
        """Refuse a time before the last one, or so far behind it that nothing would count any more."""
        whose = "the last decision" if self._latest is not None else "the log"
        if now < last:
            raise BadInputError(
                f"the clock jumped back: time {self._shown(now)} lies before {self._shown(last)} of {whose}; nothing "
                "was recorded: set the clock right and ask again"
            )
        ahead = 0.0 if last == -inf else (now - last) / self._half_life
        if ahead > LEAP:
            raise BadInputError(
                f"the clock jumped ahead by {ahead:.3g} half-lives, from {self._shown(last)} of {whose} to "
                f"{self._shown(now)}: nothing that fades would count any more; nothing was recorded: set the clock "
                "right and ask again, or ask at a time in between first if so much time has passed"
            )

    def note(self, entry: Entry, journal: Journal) -> None:
        """Take in an entry that has been added to the journal."""
        match entry:
            case Asked() if self._column is not None:
                self._latest = float(entry.x[self._column])
            case Told() if self._rule is not None:
                self._judge(entry, journal)

    def renewals(self, told: Told, present: InForce, journal: Journal) -> Sequence[Renewed]:
        """Return the entry with which the station of a reward starts anew, if it has changed."""
        asked = journal.asked[told.id]
        evidence = self._evidence.get(asked.task)
        if self._rule is None or evidence is None or evidence.value < self._rule.run_length:
            return ()
        station = present.stations[asked.task]
        if station not in present.active:  # it has left, or has started anew already
            return ()
        row = renewed_row(present.K_Z, asked.task, former=present.former, kept=self._rule.kept)
        _log.info("station %s has changed: it starts anew after decision %s", station, told.id)
        return (Renewed(station, len(present.stations), tuple(row.tolist()), told.id, evidence.value),)

    def _judge(self, told: Told, journal: Journal) -> None:
        foretold = journal.foretold(told.id)
        if foretold is None:  # a policy without a model, or something ran that was far from the best
            return
        mean, width = foretold
        z = residual(told.reward, mean=mean, width=width, noise=self._noise + (told.noise or 0.0))
        self._evidence.setdefault(journal.asked[told.id].task, Evidence()).add(z)

    def _shown(self, time: float) -> str:
        return f"{time:.15g}" if self._kind == "numbers" else str(np.datetime64(floor(time), "s")).replace("T", " ")
