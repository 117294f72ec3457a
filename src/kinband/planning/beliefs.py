"""What a plan rests on: what is believed of two configurations together, and whose rows that comes from."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from kinband.arrays import FloatArray, IntArray
from kinband.controller import Controller
from kinband.controller.attribution import Hindsight, shares_of
from kinband.errors import BadInputError
from kinband.kernels import TaskCovariance
from kinband.policies.base import learn_block
from kinband.policies.safety import posterior_of
from kinband.posterior import LARGEST_LOG, BlockedPosterior, ExactPosterior, Prediction, SchurPosterior
from kinband.posterior.base import Rows
from kinband.similarity import TaskMatrix
from kinband.stats import Estimate, normal

# --- Attribution: how much of an estimate rests on whose rows, by the beliefs of now --------------------------------
#
# What a station's share is, `kinband.controller.attribution` says. The exact posterior keeps a factor of the matrix,
# not the weights of its rows, so they are solved for here, once for all contexts of a plan. Decisions of the past are
# looked at with the beliefs of then (`Controller.explain`, `kinband.diagnostics`).

_Keeper = ExactPosterior | SchurPosterior  # a posterior that keeps its rows


def beliefs_of(controller: Controller) -> BlockedPosterior:
    """Return what a controller's model believes, whatever its policy makes of it; nothing is changed.

    Contributions can only be told where rows are kept: for a sparse posterior an exact one learns the same log.
    """
    setup = controller.current
    known = posterior_of(controller.policy) if setup.config.policy == "ucb" else None
    if isinstance(known, BlockedPosterior) and all(isinstance(block, _Keeper) for block in known.blocks):
        return known
    observations = controller.observations()
    if len(observations) > LARGEST_LOG:
        raise BadInputError(
            f"a change plan weighs every row told, {len(observations):,} here, and can do so for {LARGEST_LOG:,}: "
            "start a controller from the latest of them"
        )
    spec = setup.policy_spec()
    engine = "schur" if spec.engine == "schur" else "exact"
    posterior = replace(spec, engine=engine, configurations=None).posterior()
    if observations:
        learn_block(posterior, observations)
    return posterior


def contributions(posterior: BlockedPosterior, task: int, *, x: ArrayLike, similarity: TaskMatrix) -> dict[str, float]:
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
        >>> {name: round(share, 3) for name, share in contributions(posterior, 0, x=[0.0], similarity=alike).items()}
        {'a': 0.889, 'b': 0.111}
    """
    X = np.asarray(x, dtype=np.float64)[None]
    row = shares(posterior, np.array([task]), X, K_Z=similarity.K_Z)[0]
    order = [int(m) for m in np.argsort(-row, kind="stable") if row[m] > 0]
    return {similarity.stations[m]: float(row[m]) for m in order}


def shares(posterior: BlockedPosterior, tasks: IntArray, X: FloatArray, *, K_Z: TaskCovariance) -> FloatArray:
    """Return the share of every task's rows in the estimates at tasks (m,) and contexts X (m, d), (m, M).

    A row of the answer adds up to 1, or is 0 where no told row says anything about the context.
    """
    found = np.zeros((len(tasks), len(K_Z)))
    for group, members in _groups(posterior):
        asked = np.flatnonzero(np.isin(tasks, members))
        if not len(asked) or not len(group):
            continue
        rows = Rows(group.rows.tasks, group.rows.X, group.rows.y, group.rows.noise)
        past = Hindsight(group.kernel, rows, mean=group.mean)
        a = past.weights(np.searchsorted(members, tasks[asked]), X[asked], known=len(group))  # (K̃ + diag(noise))⁻¹ k̃
        found[np.ix_(asked, members)] = shares_of(a, rows.tasks, size=len(members))
    return found


def told_rows(posterior: BlockedPosterior) -> tuple[IntArray, FloatArray]:
    """Return task (n,) and context (n, d) of every row told, in no particular order."""
    parts = [(members[group.rows.tasks], group.rows.X) for group, members in _groups(posterior) if len(group)]
    if not parts:
        return np.empty(0, dtype=np.int64), np.empty((0, 0))
    return np.concatenate([tasks for tasks, _ in parts]), np.concatenate([X for _, X in parts])


def _groups(posterior: BlockedPosterior) -> Iterator[tuple[_Keeper, IntArray]]:
    """The posteriors that make up a shared one, each with the tasks that its own numbers 0, 1, ... stand for."""
    for block, members in posterior.parts():
        if not isinstance(block, _Keeper):
            raise BadInputError(
                "a sparse posterior keeps no rows to weigh", hint="ask an exact one that has learned the same log"
            )
        yield block, members


# --- The gain of a change ---------------------------------------------------------------------------------------------


def gain_in(pair: Prediction) -> Estimate:
    """Return the gain of the first of two contexts over the second, from what is believed of both together.

    The two beliefs hang together: the variance is var f(x) + var f(x₀) − 2 cov(f(x), f(x₀)), from the joint posterior,
    and most often far smaller than the two variances alone would suggest.

    Example:
        >>> from kinband.kernels import RBF
        >>> from kinband.posterior import make_posterior
        >>> posterior = make_posterior(RBF(1.0), [[1.0]], noise=0.01)
        >>> posterior.update([0, 0], [[0.0], [0.5]], [0.2, 0.6])
        >>> f"{gain_in(posterior.predict(0, np.array([[0.5], [0.0]]))):.2f}"
        '0.37 (0.10 to 0.63)'
    """
    C = pair.covariance()
    spread = float(np.sqrt(max(C[0, 0] + C[1, 1] - 2.0 * C[0, 1], 0.0)))
    return normal(float(pair.mean[0] - pair.mean[1]), spread)
