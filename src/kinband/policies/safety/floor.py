"""The floor: every trial by itself must be sure to cost little."""

import numpy as np

from kinband.arrays import FloatArray, IntArray
from kinband.policies.safety.drafts import FLOOR, Draft
from kinband.policies.safety.margins import lower_differences, scores_of
from kinband.policies.safety.rules import Floor
from kinband.posterior import Posterior

_EXAMINED = 31  # configurations that are looked at together


def above_floor(draft: Draft, rule: Floor, *, beliefs: Posterior, beta: float) -> Draft:
    """Return the best-scored arm that passes.

    The running configuration always passes, so nothing that scores below it can win, and arms are looked at from the
    best score down until one passes: with thousands of them, few are.
    """
    running = draft.fallback(draft.standing.running)
    ranked = _ranked(draft, running)
    for start in range(0, len(ranked), _EXAMINED):
        some = ranked[start : start + _EXAMINED]
        passes = (some == running) | (_lower(draft, some, running, rule, beliefs, beta) >= -rule.drop)
        if passes.any():
            return draft.instead(int(some[passes.argmax()]), by=FLOOR)
    raise AssertionError("the running configuration passes its own floor")


def _ranked(draft: Draft, running: int) -> IntArray:
    """Arms that score at least what the running one does, best first; among equals what was drawn comes first."""
    order = np.argsort(-draft.score, kind="stable")
    enough = draft.score[order] >= draft.score[draft.plain.arms == running]
    arms: IntArray = draft.plain.arms[order[enough]]
    return np.concatenate([[draft.arm], arms[arms != draft.arm]])


def _lower(draft: Draft, arms: IntArray, running: int, rule: Floor, beliefs: Posterior, beta: float) -> FloatArray:
    """Return lower bounds of what arms (m,) earn beyond the running one, (m,)."""
    query = draft.query
    if rule.against == "difference":
        return lower_differences(beliefs, query.task, query.X[arms], against=query.X[running], beta=beta)
    mean, std, _ = scores_of(draft.plain)
    at = np.searchsorted(draft.plain.arms, arms)
    lower: FloatArray = mean[at] - beta * std[at] - mean[draft.plain.arms == running]
    return lower
