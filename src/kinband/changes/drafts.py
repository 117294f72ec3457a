"""One station of a plan: which change would be best for it, and whether that is worth making.

The gain of a change is the difference of two beliefs about the same station in the same state, which hang together: its
variance is var f(x) + var f(x₀) − 2 cov(f(x), f(x₀)), from the joint posterior, and most often far smaller than
the two variances alone would suggest.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from kinband.arrays import BoolArray, FloatArray, IntArray
from kinband.changes.plan import LeftAlone, Why
from kinband.changes.present import Present
from kinband.changes.reasons import best_reason, never_reason, small_reason, uncertain_reason
from kinband.changes.seen import Seen, Tried
from kinband.changes.steps import within_steps
from kinband.controller.explain import listed
from kinband.controller.roster import InForce
from kinband.errors import KinbandError
from kinband.posterior import AnyPosterior
from kinband.space import ConfigurationSpace

NORMAL_95 = 1.96
"""Standard deviations on either side of a 95 % interval."""
_TIE = 1e-12  # a score that is better by rounding alone is not better


@dataclass(frozen=True, eq=False)
class Desk:
    """What every station of a plan is looked at with.

    Attributes:
        settings: Stations, encoder and task matrix.
        beliefs: The posterior.
        seen: The states that the beliefs come from.
        tried: The configurations that they come from.
        own_rows: How many rows each station has, (M,).
        beta: Weight of the width; None where the plan does not explore.
        least_gain: What a change must gain to be worth making.
        steps: The furthest each knob may move.
    """

    settings: InForce
    beliefs: AnyPosterior
    seen: Seen
    tried: Tried
    own_rows: IntArray
    beta: float | None
    least_gain: float
    steps: Mapping[str, float]

    @property
    def space(self) -> ConfigurationSpace:
        """The configurations to choose from."""
        return self.settings.encoder.space


@dataclass(frozen=True, eq=False)
class Draft:
    """A change under consideration.

    Attributes:
        station: Whom it is for.
        task: The station's number.
        arm: The proposed configuration's number.
        x: Context of the proposed configuration, (d,).
        present: What the station runs.
        proposed: What it could run.
        expected: Expected reward of that.
        unchanged: Expected reward of the present configuration.
        width: Standard deviation of the estimate for the proposed one.
        low: Lower end of the gain's 95 % interval.
        high: Upper end.
        merit: By how much its score is the better one; plans are ordered by it.
    """

    station: str
    task: int
    arm: int
    x: FloatArray
    present: Mapping[str, Any]
    proposed: Mapping[str, Any]
    expected: float
    unchanged: float
    width: float
    low: float
    high: float
    merit: float

    @property
    def moves(self) -> dict[str, Any]:
        """The new values of the knobs that move."""
        return {knob: value for knob, value in self.proposed.items() if value != self.present[knob]}

    @property
    def interval(self) -> dict[str, float]:
        """The gain and the ends of its interval, by name."""
        return {"gain": self.expected - self.unchanged, "low": self.low, "high": self.high}


def looked_at(desk: Desk, station: str, *, present: Present) -> Draft | LeftAlone:
    """Return the change that would be best for a station, or why it is left alone."""
    known = {knob: _plain(value) for knob, value in present.configuration.items() if value is not None}
    if refusal := _refusal(desk, station, present):
        return LeftAlone(station, known, *refusal)
    arm = desk.space.index(present.configuration)
    allowed = within_steps(desk.space, arm, steps=desk.steps)
    if allowed.sum() == 1:
        reason = "No other configuration of the log is within the steps allowed."
        return LeftAlone(station, known, "no other choice", reason)
    if desk.beta is None:  # exploring is about what was never tried, and says so
        lenders = np.flatnonzero(desk.settings.K_Z[desk.settings.task(station)])
        rows = np.isin(desk.tried.tasks, lenders)
        allowed &= desk.tried.within(rows)
        allowed[arm] = True
        if allowed.sum() == 1:
            ran = [desk.space[int(one)] for one in np.unique(desk.tried.arms[rows])]
            return LeftAlone(station, known, "never tried", never_reason(ran))
    draft = _best(desk, station, present, arm=arm, allowed=allowed)
    refused = _judgement(desk, draft, choices=int(allowed.sum()))
    return LeftAlone(station, draft.present, *refused) if refused else draft


def _refusal(desk: Desk, station: str, present: Present) -> tuple[Why, str] | None:
    """Return why nothing can be said about a station, or None if something can."""
    if station not in desk.settings.active:
        return "not in the log", "The log has no rows of this station, so it is not known which others it resembles."
    unset = [knob for knob in desk.space.knobs if present.configuration.get(knob) is None]
    if unset:
        return "configuration unknown", f"Its present configuration is not known: no {listed(unset)} is given."
    try:
        desk.space.index(present.configuration)
    except KinbandError as error:
        return "configuration unknown", f"Its present configuration never occurs in the log: {error}."
    names = desk.settings.encoder.state.names
    missing = [name for name in names if not np.isfinite(present.state.get(name, np.nan))]
    if missing:
        return "state incomplete", f"Its present state is not known: no {listed(missing)} is given."
    strange = desk.seen.strange(np.array([present.state[name] for name in names]))
    return ("state unfamiliar", f"Its state is far outside what the log has seen: {strange}.") if strange else None


def _best(desk: Desk, station: str, present: Present, *, arm: int, allowed: BoolArray) -> Draft:
    """Return the best change of a station; where nothing beats the present configuration, that one."""
    task, encoder = desk.settings.task(station), desk.settings.encoder
    X = encoder.contexts({name: present.state[name] for name in encoder.state.names})
    arms = np.flatnonzero(allowed)
    prediction = desk.beliefs.predict(np.full(len(arms), task), X[arms])
    score = prediction.mean + (desk.beta or 0.0) * prediction.width  # (12)
    here, best = int(np.flatnonzero(arms == arm)[0]), int(np.argmax(score))
    if score[best] <= score[here] + _TIE * max(1.0, abs(float(score[here]))):
        best = here
    expected, unchanged = float(prediction.mean[best]), float(prediction.mean[here])
    slack = NORMAL_95 * _width_of_difference(desk.beliefs, task, X[arms[[best, here]]])
    return Draft(
        station,
        task,
        int(arms[best]),
        X[arms[best]],
        present=desk.space[arm],
        proposed=desk.space[int(arms[best])],
        expected=expected,
        unchanged=unchanged,
        width=float(prediction.width[best]),
        low=expected - unchanged - slack,
        high=expected - unchanged + slack,
        merit=float(score[best] - score[here]),
    )


def _width_of_difference(beliefs: AnyPosterior, task: int, X: FloatArray) -> float:
    """Standard deviation of f(x) − f(x₀) for two contexts X (2, d) of one task."""
    C = beliefs.covariance([task, task], X)
    return float(np.sqrt(max(C[0, 0] + C[1, 1] - 2.0 * C[0, 1], 0.0)))


def _judgement(desk: Desk, draft: Draft, *, choices: int) -> tuple[Why, str] | None:
    """Return why a draft is not worth a change, or None if it is."""
    explore = desk.beta is not None
    if not draft.moves:
        return "best already", best_reason(draft.unchanged, draft.width, choices=choices, explore=explore)
    if (draft.high if explore else draft.interval["gain"]) < desk.least_gain:
        least = desk.least_gain
        return "gain too small", small_reason(draft.moves, least=least, explore=explore, **draft.interval)
    if not explore and draft.low <= 0:
        return "gain not certain", uncertain_reason(draft.moves, **draft.interval)
    return None


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value
