"""What a station starts from when it joins, and how a policy takes it in.

A newcomer's row of the task matrix is found once, when it joins, and noted in the journal; a replay reads it there. The
kernel that compares descriptors is fitted to the stations of the settings alone, whose likeness has been learned or
declared: a newcomer's row is a prediction, and fitting to predictions would confirm them.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from kinband.arrays import FloatArray
from kinband.controller.config import Settings
from kinband.controller.events import Estimated, Joined, Returned, Shaping
from kinband.controller.roster import InForce, arm_of, check_past_names
from kinband.errors import BadInputError, CannotCorrectError
from kinband.kpis import KpiPolicy
from kinband.policies import UCB, Policy, PolicyFactory, SuperUCB
from kinband.policies.base import Setting
from kinband.policies.safety.policy import SafePolicy
from kinband.posterior.base import TakesTasks
from kinband.similarity.newcomers import (
    Descriptors,
    average_row,
    check_kinds,
    checked_descriptors,
    correlations,
    descriptor_row,
    given_row,
)


def joining(
    settings: Settings, present: InForce, name: str, *, descriptors: Any, similarity: Any, running: Any
) -> Joined | Returned:
    """Return the entry with which a station joins, or comes back; refuses what cannot be, and changes nothing."""
    present.check_free(name)
    known = {} if descriptors is None else checked_descriptors(descriptors, station=name)
    check_kinds({**present.descriptors, name: known})
    arm = None if running is None else arm_of(running, present.encoder.space, station=name)
    if name in present.gone:
        if similarity is not None:
            raise BadInputError(f"{name!r} comes back as like the others as it was: add it without similarity=")
        return Returned(name, known, arm)
    check_past_names(settings.drift, name)
    row, found = _row(settings, present, name, descriptors=known, similarity=similarity)
    entry = Joined(name, len(present.stations), tuple(row.tolist()), found, known, arm)
    _check_running(present.after(entry), name)
    return entry


def likeness(present: InForce, station: str) -> dict[str, float]:
    """Return how like the other stations, removed ones too, a station is, the most alike first.

    Example:
        >>> from kinband import ConfigurationSpace, Controller
        >>> controller = Controller(ConfigurationSpace(tilt=[2, 4]), ["a", "b"], similarity=[[1, 0.3], [0.3, 1]])
        >>> likeness(controller.in_force, "b")
        {'a': 0.3}
    """
    task = present.stations.index(station)
    row = correlations(present.K_Z)[task]
    order = [int(m) for m in np.argsort(-row, kind="stable") if m != task]
    return {present.stations[m]: float(row[m]) for m in order}


def empty_policy(settings: Settings, shaping: Iterable[Shaping]) -> Policy:
    """Return a policy with nothing learned that has taken in stations one by one, as one in use has.

    Building it for all stations at once may group them otherwise; what it learns would be the same, its bits would not.
    """
    factory, present = settings.factory(), InForce.of(settings)
    policy = factory(settings.setting())
    for entry in shaping:
        present = present.after(entry)
        if isinstance(entry, Estimated) or not taken_in(policy, factory, present.setting()):
            policy = factory(present.setting())
    return policy


def taken_in(policy: Policy, factory: PolicyFactory, setting: Setting) -> bool:
    """Let a policy take in the tasks of a longer setting; False where it has to be built and taught anew.

    A policy of the user's own is asked by `extend_tasks(K_Z)`, if it has that.

    Example:
        >>> from kinband.kernels import RBF
        >>> policy = UCB.build(Setting(RBF(0.5), np.eye(1), noise=0.1, arms=2))
        >>> taken_in(policy, UCB.build, Setting(RBF(0.5), np.eye(2), noise=0.1, arms=2))
        True
    """
    if not _ours(policy):
        take: Callable[[FloatArray], None] | None = getattr(policy, "extend_tasks", None)
        if take is not None:
            take(setting.K_Z)
        return take is not None
    try:
        _extend(policy, factory(setting))
    except CannotCorrectError:  # rows to be joined are no longer kept
        return False
    return True


def _ours(policy: object) -> bool:
    return type(policy).__module__.startswith("kinband.")


def _extend(policy: Any, pattern: Any) -> None:
    """Let one of our policies take in the tasks that the pattern, empty and of the same kind, was built with."""
    match policy:
        case KpiPolicy():
            if not _ours(policy.inner):
                raise CannotCorrectError("a policy of the user's own under floors of KPIs is taught everything anew")
            for belief, empty in zip(policy.beliefs.each, pattern.beliefs.each, strict=True):
                _extend_posterior(belief.posterior, empty.posterior)
            _extend(policy.inner, pattern.inner)
        case SafePolicy():
            _extend(policy.inner, pattern.inner)
            if policy.budget is not None:
                further = len(pattern.budget.settled) - len(policy.budget.settled)
                policy.budget.settled = np.append(policy.budget.settled, np.zeros(further))
        case UCB():
            _extend_posterior(policy.posterior, pattern.posterior)
        case SuperUCB():
            for level, empty in zip(policy.levels, pattern.levels, strict=True):
                _extend_posterior(level, empty)
    # Others keep nothing by task, or keep it by name.


def _extend_posterior(posterior: Any, pattern: Any) -> None:
    if not isinstance(posterior, TakesTasks) or not isinstance(pattern, TakesTasks):
        raise CannotCorrectError(f"{type(posterior).__name__} cannot take in tasks: learn the log anew")
    posterior.extend_tasks(pattern.K_Z)


def _row(
    settings: Settings, present: InForce, name: str, *, descriptors: Descriptors, similarity: Any
) -> tuple[FloatArray, str]:
    """Return the row of a newcomer and what it was found by."""
    if similarity is not None:
        return given_row(present.K_Z, present.stations, similarity, newcomer=name), "given"
    kernel = settings.descriptor_kernel if descriptors else None
    if kernel is None or not kernel.describes(descriptors):
        return average_row(present.K_Z), "average"
    known: Mapping[str, Descriptors] = present.descriptors
    return descriptor_row(present.K_Z, kernel, [known.get(s, {}) for s in present.stations], descriptors), "descriptors"


def _check_running(present: InForce, name: str) -> None:
    """Refuse a newcomer that a promise would hold against nothing."""
    rules = present.safety
    if rules is not None and rules.conservative is not None and name not in present.running:
        raise BadInputError(
            f"Conservative holds every station against a declared configuration, {name!r} has none: declare it by "
            "running="
        )
