"""Drift: what was true of a station may cease to be so, little by little or over night.

- `rules`: what a user declares: how fast knowledge fades, and when a station is taken to have changed.
- `clock`: times as a column of contexts that the `Forgetting` kernel looks at, and the clock that must not run back.
- `evidence`: the sequential test of rewards against predictions that tells a change from bad luck.

**The idea.** Slow drift is a matter of the prior: the clock is one more column of the context, and a kernel over it
makes old rewards count less. Every posterior stays as it is. A change over night is an event: rewards fall outside what
was predicted until chance can no longer explain it, and the station starts anew, as a newcomer that resembles its own
past a little. Its old rewards stay evidence for others. Not in the paper, whose stations never change.
"""

from kinband.drift.rules import Drift, Reset

__all__ = ["Drift", "Reset"]
