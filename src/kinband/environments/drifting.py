"""A world that changes: any environment in which some stations come to prefer other configurations as time goes on.

A third of the stations (or another share) are drawn by the seed; from slot `begin` on, what their arms earn is *turned
round*: the arm a earns what the arm N − 1 − a earned before, as if the scale of the knob had been reversed. It is a
change that no state announces, and it leaves a station exactly as hard as it was, since the same rewards are there in
every slot, so that the level of regret before a change is the one to return to. The change comes at once ("step"), or
evenly over `lasts` slots ("slow"), in which a mixture (1 − w)·before + w·after is paid; or it never comes ("none").

Contexts are those of the environment inside. It must not react to what is played, and must know its truth.
"""

from collections.abc import Mapping
from typing import Literal

import numpy as np

from kinband.arrays import FloatArray, finite_number
from kinband.environments.contract import KnowsTruth, Outcome, Referee, Slot, Truth, checked_arms, whole_number
from kinband.errors import BadInputError

How = Literal["step", "slow", "none"]


class Drifting:
    """An environment whose stations change, in part and at a time of one's choosing.

    Args:
        inner: What is changed; it is played on, not copied.
        how: "step" for all at once, "slow" for little by little, "none" for never.
        begin: The first slot that is not as before.
        lasts: Over how many slots a slow change comes.
        share: Share of the stations that change, at least one.
        seed: As if `reset(seed)` had been called.

    Example:
        >>> from kinband.environments import SyntheticBandit
        >>> world = Drifting(SyntheticBandit(arm_feature=True), "step", begin=1, seed=3)
        >>> one = world.changing[0]
        >>> before = world.truth(one).rewards
        >>> _ = world.play({})
        >>> after, inside = world.truth(one).rewards, world.inner.truth(one).rewards
        >>> bool((after == inside[::-1]).all()), len(world.changing)
        (True, 2)
    """

    exogenous = True

    def __init__(
        self, inner: Referee, how: How, *, begin: int, lasts: int = 1, share: float = 1 / 3, seed: int = 0
    ) -> None:
        if how not in ("step", "slow", "none"):
            raise BadInputError(f"a change is 'step', 'slow' or 'none', got {how!r}")
        if not inner.exogenous or not isinstance(inner, KnowsTruth):
            raise BadInputError("only an environment that knows its truth and does not react to play can be changed")
        if not 0.0 < finite_number(share, name="share") <= 1.0:
            raise BadInputError(f"share is that of the stations that change, above 0 and up to 1, got {share:g}")
        self.inner, self.how, self.share = inner, how, float(share)
        self.stations, self.arms, self.space = inner.stations, inner.arms, inner.space
        self.features, self.categorical, self.reward_range = inner.features, inner.categorical, inner.reward_range
        self.begin = whole_number(begin, name="begin", least=0)
        self.lasts = whole_number(lasts, name="lasts", least=1)
        self.reset(seed)

    @property
    def slot(self) -> Slot:
        """What the present slot shows."""
        return self.inner.slot

    @property
    def weight(self) -> float:
        """How far the change has come in the present slot, from 0 to 1."""
        past = self.slot.number - self.begin
        if self.how == "none" or past < 0:
            return 0.0
        return 1.0 if self.how == "step" else min(1.0, (past + 1) / self.lasts)

    def reset(self, seed: int) -> Slot:
        """Go to the first slot of the trajectory that belongs to the seed, and show it."""
        slot = self.inner.reset(seed)
        count = max(1, round(self.share * len(self.stations)))
        drawn = np.random.default_rng([seed, 4]).permutation(len(self.stations))[:count]
        self.changing = tuple(self.stations[m] for m in sorted(drawn.tolist()))
        return slot

    def truth(self, station: str) -> Truth:
        """Return what only a referee may know of the station in the present slot; ask before playing."""
        inside = self.inner.truth(station)
        if station not in self.changing or self.weight == 0.0:
            return inside
        return Truth(self._changed(inside.rewards), self._changed(inside.expected))

    def play(self, arms: Mapping[str, int]) -> dict[str, Outcome]:
        """Pay each station in `arms` for its arm, then move on to the next slot."""
        played, weight = checked_arms(arms, stations=self.stations, count=self.arms), self.weight
        paid = {s: float(self.truth(s).rewards[arm]) for s, arm in played.items() if weight and s in self.changing}
        # How well a reward was measured is known of one arm only: of the one that has more of the mixture.
        inside = {s: self.arms - 1 - arm if s in paid and weight >= 0.5 else arm for s, arm in played.items()}
        outcomes = self.inner.play(inside)
        return {s: Outcome(paid[s], outcome.noise) if s in paid else outcome for s, outcome in outcomes.items()}

    def _changed(self, values: FloatArray) -> FloatArray:
        """Return what the arms of a station that changes have in place of these values, (N,)."""
        w = self.weight
        mixed: FloatArray = values[::-1] if w == 1.0 else (1.0 - w) * values + w * values[::-1]
        return mixed
