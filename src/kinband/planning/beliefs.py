"""What a plan rests on: what is believed of two configurations together, and whose rows that comes from."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike

from kinband.arrays import FloatArray, IntArray
from kinband.controller import Controller
from kinband.controller.attribution import Hindsight, shares_of
from kinband.controller.setup import Setup
from kinband.drift import TIME_COLUMN
from kinband.errors import BadInputError
from kinband.kernels import TaskCovariance
from kinband.planning.coverage import SettingCoverage, setting_columns
from kinband.planning.evidence import evidence_rows
from kinband.planning.plan import Support
from kinband.policies.base import learn_block
from kinband.policies.safety import posterior_of
from kinband.posterior import LARGEST_LOG, BlockedPosterior, ExactPosterior, Posterior, SchurPosterior
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


# --- The gain of a change over the days to come -----------------------------------------------------------------------
#
# A change that waits for people and for a window runs for days, in many states: what it gains in the state of the
# moment says little of that. So a gain is a mean over states as the station's last ones, as in a plan from a log
# (`kinband.planning.period`). Times of slots may be anything, so that the last rows stand for the days to come.

SLOTS_BACK, STATES_AHEAD = 168, 24
"""Rows of a station that the days to come are taken to be like, a week of hours; and how many of them, evenly chosen,
are looked at: every seventh of a week of hours is every hour of the day once."""


@dataclass(frozen=True, eq=False)
class Move:
    """A change from one configuration to another.

    Attributes:
        task: The station's number.
        contexts: Of every configuration in its present state, (N, d).
        arm, running: The new configuration and the present one.
    """

    task: int
    contexts: FloatArray
    arm: int
    running: int


def gains_ahead(controller: Controller, posterior: Posterior, moves: Sequence[Move]) -> list[Estimate]:
    """Return what moves gain a slot over staying, on average over states as in each station's last week, its present
    one among them.

    The two beliefs hang together: the variance is that of f̄(arm) − f̄(running), one sum over states and
    configurations, from the joint posterior, and far smaller than those of the two alone would suggest.

    Example:
        >>> from kinband import ConfigurationSpace
        >>> controller = Controller(ConfigurationSpace(tilt=[2, 4]), ["a"], state={"load": (0, 1)}, mean=0.5, seed=3)
        >>> for load in (0.2, 0.4, 0.6):
        ...     controller.tell(controller.ask("a", {"load": load}).id, 0.8)
        >>> contexts = controller.setup.encoder.contexts({"load": 0.5})
        >>> (gain,) = gains_ahead(controller, controller.policy.posterior, [Move(0, contexts, 1, 0)])
        >>> gain.low < gain.value < gain.high
        True
    """
    if not moves:
        return []
    week = [_states_ahead(controller, move) for move in moves]
    T = max(map(len, week))
    X, W = np.zeros((len(moves), 2 * T, week[0].shape[1])), np.zeros((len(moves), 2 * T))
    settings, columns = controller.setup.encoder.space.features, setting_columns(controller.setup.encoder)
    for i, (move, states) in enumerate(zip(moves, week, strict=True)):
        for first, arm, sign in ((0, move.arm, 1.0), (T, move.running, -1.0)):
            here = slice(first, first + len(states))
            X[i, here], W[i, here] = states, sign / len(states)
            X[i, first : first + T, columns] = settings[arm][:, None]
    mean, std = posterior.sums(np.array([move.task for move in moves]), X, W)
    return [normal(float(gain), float(spread)) for gain, spread in zip(mean, std, strict=True)]


def _states_ahead(controller: Controller, move: Move) -> FloatArray:
    """Return contexts of the states that a station will be in, any configuration, (T, d), as old as its present one."""
    setup, now = controller.setup, move.contexts[move.running]
    recent = controller.journal.rows.part(-SLOTS_BACK * len(controller.current.stations), None)
    X = recent.X[np.flatnonzero(recent.task == move.task)[-SLOTS_BACK:]]
    if setup.start is not None and len(X) < SLOTS_BACK:
        before = np.flatnonzero(setup.start.tasks == move.task)[-(SLOTS_BACK - len(X)) :]
        X = np.vstack([setup.start.X[before], X]) if len(X) else setup.start.X[before]
    X = np.vstack([X, now]) if len(X) else now[None]
    some = X[np.linspace(0, len(X) - 1, min(len(X), STATES_AHEAD)).round().astype(np.int64)]
    if TIME_COLUMN in setup.encoder.state.names:
        some[:, setup.encoder.state.names.index(TIME_COLUMN)] = now[setup.encoder.state.names.index(TIME_COLUMN)]
    return some


# --- How often what is proposed was tried -----------------------------------------------------------------------------


def supports(controller: Controller, moves: Sequence[Move]) -> list[Support]:
    """Return how often what each move proposes ran at its station, and at those that it learns from.

    Example:
        >>> from kinband import ConfigurationSpace
        >>> controller = Controller(ConfigurationSpace(tilt=[2, 4]), ["a", "b"], similarity=np.ones((2, 2)), seed=1)
        >>> for station, tilt in (("a", 2), ("a", 4), ("b", 4), ("b", 4)):
        ...     controller.tell(controller.ask(station, allowed={"tilt": [tilt]}).id, 0.5)
        >>> str(supports(controller, [Move(0, np.zeros((2, 1)), 1, 0)])[0])
        'ran here 1 time, at 1 similar station 2 times'
    """
    M, found = len(controller.current.stations), dict[int, IntArray]()
    for arm in {move.arm for move in moves}:
        found[arm] = np.zeros(M, dtype=np.int64)
        for tasks, arms in (
            _started_with(controller.setup),
            (controller.journal.rows.task, controller.journal.rows.arm),
        ):
            found[arm] += np.bincount(tasks[arms == arm], minlength=M)
    told = []
    for move in moves:
        ran, kin = found[move.arm], np.flatnonzero(np.asarray(controller.current.K_Z[move.task]))
        others = ran[kin[kin != move.task]]
        told.append(Support(int(ran[move.task]), int(others.sum()), int(np.count_nonzero(others))))
    return told


@lru_cache(maxsize=4)
def _started_with(setup: Setup) -> tuple[IntArray, IntArray]:
    """Return task and arm of every row of the log that a controller started from."""
    if setup.start is None:
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    tried = SettingCoverage.of(setup.encoder, evidence_rows(setup.start, setup.noise))
    return tried.tasks, tried.arms
