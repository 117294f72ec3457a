"""How much of an estimate was borrowed, and from whom.

What a station's share is, `kinband.controller.explain` says. The exact posterior keeps a factor of the
matrix, not the weights of its rows, so they are solved for here, once for all contexts of a plan, with the beliefs of
now. Decisions of the past are looked at with the beliefs of then (`Controller.explain`, `kinband.diagnostics`).
"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from kinband.arrays import FloatArray, IntArray
from kinband.controller import Controller
from kinband.controller.attribution import Hindsight, shares_of
from kinband.errors import BadInputError
from kinband.policies import UCB, Policy
from kinband.policies.base import learn_block
from kinband.policies.safety import Constrained
from kinband.posterior import BlockedPosterior, ExactPosterior, SchurPosterior
from kinband.posterior.base import Rows
from kinband.similarity import TaskMatrix

Keeper = ExactPosterior | SchurPosterior
"""A posterior that keeps its rows."""

_LARGEST = 20_000  # rows; the factor of the exact posterior takes 4n² bytes, here 1.6 GB


def beliefs_of(controller: Controller) -> BlockedPosterior:
    """Return what a controller's model believes, whatever its policy makes of it; nothing is changed.

    What was borrowed can only be told where rows are kept: for a sparse posterior an exact one learns the same log.

    Example:
        >>> from kinband import ConfigurationSpace
        >>> controller = Controller(ConfigurationSpace(tilt=[2, 4]), ["a"], policy="random")
        >>> controller.tell(controller.ask("a").id, 0.5)
        >>> len(beliefs_of(controller))
        1
    """
    settings = controller.current
    if settings.config.policy == "ucb" and (known := _with_rows(_posterior_of(controller.policy))) is not None:
        return known
    observations = controller.observations()
    if len(observations) > _LARGEST:
        raise BadInputError(
            f"a change plan weighs every row told, {len(observations):,} here, and can do so for {_LARGEST:,}: "
            "start a controller from the latest of them"
        )
    setting = settings.setting()
    engine = "schur" if setting.engine == "schur" else "exact"
    posterior = replace(setting, engine=engine, configurations=None).posterior()
    if observations:
        learn_block(posterior, observations)
    return posterior


def borrowed(posterior: BlockedPosterior, task: int, *, x: ArrayLike, similarity: TaskMatrix) -> dict[str, float]:
    """Return each station's share in the estimate for one task at context x (d,), largest first.

    The station's own share is among them, stations without any are left out, and the shares add up to 1; without rows
    there is nothing to share and the answer is empty.

    Args:
        posterior: What is believed.
        task: Number of the station that the estimate is for.
        x: The context.
        similarity: The task matrix that the posterior was made with, for its names and its groups.

    Example:
        >>> from kinband.kernels import RBF
        >>> alike = TaskMatrix(("a", "b"), np.array([[1.0, 0.5], [0.5, 1.0]]), "given")
        >>> posterior = BlockedPosterior(RBF(0.5), alike.matrix, noise=0.25)
        >>> posterior.update([0, 1], [[0.0], [0.0]], [0.9, 0.7])
        >>> {name: round(share, 3) for name, share in borrowed(posterior, 0, x=[0.0], similarity=alike).items()}
        {'a': 0.889, 'b': 0.111}
    """
    X = np.asarray(x, dtype=np.float64)[None]
    row = shares(posterior, np.array([task]), X, K_Z=similarity.matrix)[0]
    order = [int(m) for m in np.argsort(-row, kind="stable") if row[m] > 0]
    return {similarity.stations[m]: float(row[m]) for m in order}


def shares(posterior: BlockedPosterior, tasks: IntArray, X: FloatArray, *, K_Z: FloatArray) -> FloatArray:
    """Return the share of every task's rows in the estimates at tasks (m,) and contexts X (m, d), (m, M).

    A row of the answer adds up to 1, or is 0 where no told row says anything about the context.

    Example:
        >>> from kinband.kernels import RBF
        >>> posterior = BlockedPosterior(RBF(0.5), np.eye(2), noise=0.25)
        >>> posterior.update([0], [[0.0]], [0.9])
        >>> shares(posterior, np.array([0, 1]), np.zeros((2, 1)), K_Z=np.eye(2))
        array([[1., 0.],
               [0., 0.]])
    """
    found = np.zeros((len(tasks), len(K_Z)))
    for group, members in _groups(posterior):
        asked = np.flatnonzero(np.isin(tasks, members))
        if not len(asked) or not len(group):
            continue
        a = _weights(group, np.searchsorted(members, tasks[asked]), X[asked])
        found[np.ix_(asked, members)] = shares_of(a, group.rows.tasks, size=len(members))
    return found


def std_alone(posterior: BlockedPosterior, task: int, *, x: FloatArray, K_Z: FloatArray) -> float:
    """Return how wide the estimate for a task at context x (d,) would be from the task's own rows alone.

    Example:
        >>> from kinband.kernels import RBF
        >>> K_Z = np.array([[1.0, 0.5], [0.5, 1.0]])
        >>> posterior = BlockedPosterior(RBF(0.5), K_Z, noise=0.25)
        >>> posterior.update([1], [[0.0]], [0.7])
        >>> std_alone(posterior, 0, x=np.zeros(1), K_Z=K_Z)
        1.0
    """
    group, members = next(part for part in _groups(posterior) if task in part[1])
    alone = ExactPosterior(group.kernel.context, [[K_Z[task, task]]], noise=group.noise, mean=group.mean)
    rows = group.rows
    own = rows.tasks == np.searchsorted(members, task)
    if own.any():
        alone.update(np.zeros(int(own.sum()), dtype=np.int64), rows.X[own], rows.y[own], noise=rows.noise[own])
    return float(alone.predict([0], x[None]).std[0])


def told_rows(posterior: BlockedPosterior) -> tuple[IntArray, FloatArray]:
    """Return task (n,) and context (n, d) of every row told, in no particular order.

    Example:
        >>> from kinband.kernels import RBF
        >>> posterior = BlockedPosterior(RBF(0.5), np.eye(3), noise=0.25)
        >>> posterior.update([2], [[0.4]], [0.9])
        >>> told_rows(posterior)
        (array([2]), array([[0.4]]))
    """
    parts = [(members[group.rows.tasks], group.rows.X) for group, members in _groups(posterior) if len(group)]
    if not parts:
        return np.empty(0, dtype=np.int64), np.empty((0, 0))
    return np.concatenate([tasks for tasks, _ in parts]), np.concatenate([X for _, X in parts])


def _groups(posterior: BlockedPosterior) -> Iterator[tuple[Keeper, IntArray]]:
    """The posteriors that make up a shared one, each with the tasks that its own numbers 0, 1, ... stand for."""
    for block, members in posterior.parts():
        if not isinstance(block, Keeper):
            raise BadInputError(
                "a sparse posterior keeps no rows to weigh", hint="ask an exact one that has learned the same log"
            )
        yield block, members


def _posterior_of(policy: Policy) -> object:
    """What a policy believes, below floors and rules of safety; None where it has no posterior."""
    if isinstance(policy, Constrained):
        policy = policy.inner
    return policy.posterior if isinstance(policy, UCB) else None


def _with_rows(posterior: object) -> BlockedPosterior | None:
    """The posterior, if all of it keeps its rows."""
    if not isinstance(posterior, BlockedPosterior):
        return None
    return posterior if all(isinstance(block, Keeper) for block in posterior.blocks) else None


def _weights(group: Keeper, tasks: IntArray, X: FloatArray) -> FloatArray:
    """(K̃ + diag(noise))⁻¹ k̃, (n, m), for tasks (m,) at contexts X (m, d)."""
    rows = Rows(group.rows.tasks, group.rows.X, group.rows.y, group.rows.noise)
    return Hindsight(group.kernel, rows, mean=group.mean).weights(tasks, X, known=len(group))
