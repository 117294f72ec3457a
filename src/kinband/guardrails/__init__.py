"""Guard rails: the only home of hard limits, between what a learner proposes and what a station runs.

- `model`: the limits and their windows, as values; `yaml` makes them from a file.
- `history`: what happened, rebuilt from an event log.
- `rules`: one function a rule; `openings`: when windows let a station change next; `falls`: what takes a change back;
  `review`: the guard, which holds proposals against them, and its verdicts.

**The idea.** A learner maximises; what it must never do is no matter of learning. So limits are declared apart and
held apart, and the guard is a function of rails, proposals, history and time that keeps no state. A refusal is a result
with a reason: the next best configuration that may run is tried, then what runs stays.

**What holds**, whatever is proposed, in whatever order, whatever the clock says, if every change that the guard allows
is in the history (`changes_of`) before the next review:

1. While the stop switch is on, a station is frozen, or a forbidden period holds for it, it does not change.
2. Outside its maintenance windows it does not change, save for a roll-back where the rails let it.
3. It never changes to a configuration outside its ranges.

And of every change that is not a roll-back:

4. No knob moves further than its step.
5. It is at least `min_time` from any other change of its station, roll-backs among them.
6. It is at most the `per_day`-th change of its station in that local day, and at most the `per_round`-th of all
   stations within `round` of it.
7. No neighbour changed within `round` of it, where neighbours do not change together.
8. It is not what was taken back less than `retry_after` ago.

A roll-back returns a station to what it ran last, before its latest change, within the ranges of its knobs; that change
a controller made. Where there is nothing of the kind, a person is asked. A roll-back is itself never rolled back. A
station that runs something else than the history says does not change until the history says why. Time never runs
backwards: it is no earlier than the latest event of the history, and while a clock shows less than that by more than
`TOLERANCE` nothing changes but by roll-backs. Only a person sets it back (`ClockSet`).

Two rails have counterparts in 3GPP's models (TS 28.541: `minimumTimeBetweenHoTriggerChange` is `min_time`,
`maximumDeviationHoTrigger` a range), forbidden periods and fallback in its requirements on self-organising networks (TS
28.627).
"""

from kinband.guardrails.history import (
    CalledOff,
    Changed,
    ClockSet,
    Event,
    Frozen,
    History,
    Resumed,
    Rewarded,
    Stopped,
    Thawed,
    event_from,
)
from kinband.guardrails.model import Fallback, Freeze, KnobLimit, Rails, Window
from kinband.guardrails.review import Guard, Outcome, Proposal, Verdict, changes_of
from kinband.guardrails.rules import OF_TIME, TOLERANCE, Code, Pending, Refusal
from kinband.guardrails.yaml import example_text, rails_from_text, read_rails

__all__ = [
    "OF_TIME",
    "TOLERANCE",
    "CalledOff",
    "Changed",
    "ClockSet",
    "Code",
    "Event",
    "Fallback",
    "Freeze",
    "Frozen",
    "Guard",
    "History",
    "KnobLimit",
    "Outcome",
    "Pending",
    "Proposal",
    "Rails",
    "Refusal",
    "Resumed",
    "Rewarded",
    "Stopped",
    "Thawed",
    "Verdict",
    "Window",
    "changes_of",
    "event_from",
    "example_text",
    "rails_from_text",
    "read_rails",
]
