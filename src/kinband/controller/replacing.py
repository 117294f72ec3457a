"""What ran in the place of a decision: a guard rail replaced it, a person rejected it, or it was only a recommendation.

Told as if nothing had happened, the reward of one configuration would be learned as that of another. So it is said what
ran, before the reward is told, and the reward is learned for that, in the state that was asked with. What the policy
kept of the decision, for an exact and quick update, belongs to what was decided and is not used; the row is learned
like one of a log.

Stored predictions are used where they were kept, of the best-scored configurations: drift and audits judge a reward by
what was foretold of what ran, and leave it out where nothing was.
"""

from collections.abc import Mapping
from typing import Any

from kinband.arrays import FloatArray
from kinband.controller.journal import Asked, Journal, Ran
from kinband.controller.settings import Settings
from kinband.controller.standing import arm_of
from kinband.errors import BadInputError, ConflictError
from kinband.kpis import KpiPolicy
from kinband.policies import Policy
from kinband.policies.safety import SafePolicy


def ran_instead(
    journal: Journal, settings: Settings, policy: Policy, *, decision_id: str, configuration: Mapping[str, Any]
) -> Ran | None:
    """Return the entry that says what a station ran; None where nothing else is on record.

    Args:
        journal: What was decided and told.
        settings: To find the configuration and its context by.
        policy: To bound what it may cost, where a budget is kept; read only.
        decision_id: The decision.
        configuration: What ran.

    Example:
        >>> from kinband import ConfigurationSpace, Controller
        >>> controller = Controller(ConfigurationSpace(tilt=[2, 4]), ["a"], state=["load"])
        >>> decision = controller.ask("a", {"load": 0.3}, allowed=[0])
        >>> made = controller.journal, controller.settings, controller.policy
        >>> entry = ran_instead(*made, decision_id=decision.id, configuration={"tilt": 4})
        >>> entry.arm, entry.x
        (1, array([0.3, 1. ]))
        >>> ran_instead(*made, decision_id=decision.id, configuration={"tilt": 2}) is None
        True
    """
    asked = journal.find(decision_id)
    if decision_id in journal.told:
        raise ConflictError(
            f"decision {decision_id} was already told the reward {journal.reward(decision_id):g}: call ran() before "
            "telling"
        )
    space, decision = settings.encoder.space, asked.decision
    arm = arm_of(configuration, space, station=decision.station, said="ran")
    if settings.features is not None and (decision.configuration is None or arm != decision.arm):
        raise BadInputError(
            f"decision {decision_id} was asked with context rows, and only the chosen one is on record: what another "
            "configuration earned cannot be learned, call it off"
        )
    if arm == journal.ran(decision_id):
        return None
    if arm == decision.arm:
        return Ran(decision_id, arm, asked.x)
    x = settings.encoder.contexts(asked.state or {})[arm].copy()
    return Ran(decision_id, arm, x, _lower(policy, asked, x))


def _lower(policy: Policy, asked: Asked, x: FloatArray) -> float | None:
    """What the decision counts with in a budget until its reward is told, with context x (d,) in its place."""
    safe = policy.inner if isinstance(policy, KpiPolicy) else policy
    if not isinstance(safe, SafePolicy):
        return None
    return safe.replaced_lower(asked.decision.memo, task=asked.task, x=asked.x, ran=x)
