"""Sharing that adapts: stations borrow as far as that helps, and the task matrix is estimated again as rows come in.

Two things are kept apart. *Within* a task matrix every station's weight of sharing follows its own rewards
(`kinband.posterior.weighing`): quick, per station, undone as fast. *Between* task matrices there is a schedule of
counts: whenever the rows known have grown by a factor, the matrix is weighed against others by rows held back
(`kinband.similarity.Blended.weigh`), and replaced where another is clearly better. Each estimate is an entry of the
journal, with the new matrix or none; a replay reads it there. A new matrix means that the policy learns the log anew.
Rows that cannot be weighed, as where contexts repeat with next to no noise, leave the matrix as it is.

The kernel, the noise and the mean stay as they were learned from the log. Fitted again to rewards of configurations
that a learner chose because they were good, the noise shrinks and with it all caution (docs/sharing.md).
"""

import logging
from collections.abc import Sequence
from typing import Any

import numpy as np

from kinband.arrays import FloatArray
from kinband.controller.journal import Entry, Estimated
from kinband.controller.roster import InForce
from kinband.drift.likeness import between_eras
from kinband.errors import NotPositiveDefiniteError
from kinband.kpis.policy import KpiPolicy
from kinband.policies import UCB, Policy, SuperUCB
from kinband.policies.contract import LearnsLogs
from kinband.policies.safety.policy import SafePolicy
from kinband.posterior import WeighedPosterior
from kinband.posterior.contract import FullPosterior
from kinband.records import Observation, Samples
from kinband.similarity import Blended

_log = logging.getLogger(__name__)

_JUDGES = 4  # rows of the log a station from which on it judges alone


class Schedule:
    """When the task matrix is estimated again, kept up with a journal entry by entry.

    Args:
        present: What is in force at the start.

    Example:
        >>> from kinband import ConfigurationSpace, Controller
        >>> from kinband.controller.sharing import Sharing
        >>> controller = Controller(ConfigurationSpace(tilt=[2, 4]), ["a", "b"], sharing=Sharing(first=3))
        >>> for reward in (0.2, 0.9, 0.3, 0.8, 0.1, 0.7):
        ...     controller.tell(controller.ask("a" if reward < 0.5 else "b").id, reward)
        >>> [entry.rows for entry in controller.journal if isinstance(entry, Estimated)]
        [6]
    """

    def __init__(self, present: InForce) -> None:
        self._rule = present.sharing
        self._last: int | None = None  # rows at the last estimate; before any, those of the starting log

    def note(self, entry: Entry) -> None:
        """Take in an entry that has been added to the journal."""
        if isinstance(entry, Estimated):
            self._last = entry.rows

    def due(self, rows: int, present: InForce) -> bool:
        """Return whether to estimate, with so many rows known."""
        rule, last = self._rule, self._last
        if rule is None or rule.again is None or len(present.stations) < 2:
            return False
        if last is None:
            last = 0 if present.start is None else len(present.start)
        return rows >= max(rule.first * len(present.active), rule.again * last)


def estimated(observations: Sequence[Observation], present: InForce) -> Estimated:
    """Return the entry of an estimate from all rows known; it brings a task matrix only where one is clearly better."""
    samples = _samples(observations, present)
    estimator = Blended(present.kernel, regularisation=present.noise, mean=present.mean, seed=present.seed)
    try:
        found = estimator.weigh(samples, present.K_Z, unchosen=_unchosen(present))
    except NotPositiveDefiniteError as error:  # the reward is learned all the same
        _log.warning("after %d rows sharing could not be estimated anew: %s", len(samples), error)
        found = None
    if found is None:
        return Estimated(len(samples))
    reset = None if present.drift is None else present.drift.resets
    kept = between_eras(present.former, len(present.stations), kept=1.0 if reset is None else reset.kept)
    K_Z = kept * found.matrix  # what a change has proved wrong stays so
    common, alike = float(found.details["common"]), float(found.details["alike"])
    _log.info("after %d rows sharing is estimated anew: %.2f common, %.2f alike", len(samples), common, alike)
    return Estimated(len(samples), common, alike, tuple(K_Z[np.tril_indices(len(K_Z))].tolist()))


def _unchosen(present: InForce) -> int | None:
    """How many rows of the starting log can judge; None where it has too few, and all rows must."""
    rows = 0 if present.start is None else len(present.start)
    return rows if rows >= _JUDGES * len(present.active) else None


def taught(
    policy: Policy, start: Sequence[Observation], told: Sequence[Observation], *, in_block: bool = False
) -> Policy:
    """Teach a policy a starting log and rewards told since; `in_block`, as one where that comes to the same."""
    if in_block and not _counts_rewards(policy):
        start, told = [*start, *told], []
    if isinstance(policy, LearnsLogs) and start:
        policy.learn_log(start)
    else:
        told = [*start, *told]
    for row in told:
        policy.learn(row)
    return policy


def sharing_weights(policy: Policy, present: InForce) -> dict[str, float] | None:
    """Return how far every station borrows, by station, from 0 to 1; None where that is not weighed.

    Example:
        >>> from kinband import ConfigurationSpace, Controller
        >>> space = ConfigurationSpace(tilt=[2, 4])
        >>> controller = Controller(space, ["a", "b"], similarity="pooled", sharing="adaptive")
        >>> sharing_weights(controller.policy, controller.in_force)
        {'a': 0.5, 'b': 0.5}
    """
    posterior = posterior_of(policy)
    if not isinstance(posterior, WeighedPosterior):
        return None
    found = {}
    for station in present.active:
        task = present.task(station)
        shares = np.delete(present.K_Z[task], task).any()
        found[station] = float(posterior.weights.of(task)) if shares else 0.0
    return found


def posterior_of(policy: Policy) -> FullPosterior | None:
    """Return what a policy believes, below floors and rules of safety; None where it has no posterior, or several.

    Example:
        >>> from kinband import ConfigurationSpace, Controller
        >>> posterior_of(Controller(ConfigurationSpace(tilt=[2, 4]), ["a"], policy="random").policy) is None
        True
    """
    inner = _inmost(policy)
    return inner.posterior if isinstance(inner, UCB) else None


def _counts_rewards(policy: Policy) -> bool:
    """Whether a reward counts by the decision that it came of: in a budget, or on a level."""
    match policy:
        case KpiPolicy():
            return _counts_rewards(policy.inner)
        case SafePolicy():
            return policy.budget is not None
    return isinstance(policy, SuperUCB)


def _inmost(policy: Policy) -> Policy:
    while isinstance(policy, KpiPolicy | SafePolicy):
        policy = policy.inner
    return policy


def _samples(observations: Sequence[Observation], present: InForce) -> Samples:
    noise: FloatArray = np.array([np.nan if o.noise is None else o.noise for o in observations])
    columns: Any = present.encoder.features if present.features is None else present.features
    return Samples(
        present.stations,
        np.array([o.task for o in observations], dtype=np.int64),
        np.array([o.x for o in observations]),
        np.array([o.reward for o in observations]),
        None if np.isnan(noise).all() else noise,
        tuple(columns),
        present.encoder.categorical if present.features is None else (),
    )
