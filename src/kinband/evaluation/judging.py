"""What the model predicts for the later rows of a log, fold by fold, and how well it knows the averages it reports.

The judge of a fold has learned the other folds of the later rows, and none of the earlier ones: a policy that was
learned from the earlier rows has picked what looked best in them, luck included, and a judge who had seen the same
luck would confirm it. Kernel, similarity, noise and prior mean are few numbers and come from the earlier rows.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from kinband.arrays import BoolArray, FloatArray, IntArray
from kinband.contexts import ContextEncoder
from kinband.evaluation.beliefs import Beliefs
from kinband.evaluation.targets import Choices
from kinband.model import Model
from kinband.records import Samples

_POINTS = 400  # at which the posterior of an average is computed

Tick = Callable[[str], None]


@dataclass(frozen=True, eq=False)
class Predicted:
    """Predictions for n later rows, each from a model that has not seen the row's fold.

    Attributes:
        ran: For what ran, m, (n,).
        wanted: For what the policy wants, q, (n,).
        usual: For what is usual, (n,).
        variance: Of the mean of `wanted`, by the model's own doubt.
        variance_of_usual: Of the mean of `usual`, likewise.
        variance_of_gain: Of the mean of the difference.
        variance_untried: Of what the decisions that were never tried add to the mean of `wanted`.
    """

    ran: FloatArray
    wanted: FloatArray
    usual: FloatArray
    variance: float
    variance_of_usual: float
    variance_of_gain: float
    variance_untried: float


def predict(
    model: Model,
    rows: Samples,
    encoder: ContextEncoder,
    *,
    fold: IntArray,
    learn: BoolArray,
    wanted: Choices,
    usual: Choices,
    untried: FloatArray,
    tick: Tick | None = None,
) -> Predicted:
    """Return what models learned on other folds predict for each row.

    Args:
        model: Kernel, task matrix, noise and prior mean.
        rows: The later rows, with their configurations' numbers.
        encoder: Made their contexts.
        fold: Fold of each row, (n,).
        learn: Which rows may be learned from, (n,): of very long logs, some.
        wanted: What the policy would run.
        usual: What it is compared with.
        untried: Shares of what is wanted that were never tried, (n, c), else 0.
        tick: Called after each fold.
    """
    n, p = len(rows), len(encoder.state.names)
    if rows.arms is None:
        raise AssertionError("rows of a trace have numbered configurations")
    ran, means = rows.arms[:, None], (np.empty(n), np.empty(n), np.empty(n))
    doubts = np.zeros(4)
    folds = np.unique(fold)
    for k in folds.tolist():
        mine = np.flatnonzero(fold == k)
        beliefs = Beliefs.learn(model, rows.take((fold != k) & learn), encoder)
        tasks, S = rows.tasks[mine], rows.X[mine, :p]
        means[0][mine] = beliefs.at(tasks, S, ran[mine])[:, 0]
        for mean, choices in zip(means[1:], (wanted, usual), strict=True):
            mean[mine] = choices.take(mine).average(beliefs.at(tasks, S, choices.arms[mine]))
        doubts += len(mine) / n * _doubts(beliefs, rows, mine, wanted=wanted, usual=usual, untried=untried)
        if tick is not None:
            tick(f"fold {k + 1} of {len(folds)}")
    # Judges of different folds share most of their rows, so their errors are taken to go together.
    return Predicted(*means, *(doubts**2).tolist())


def _doubts(
    beliefs: Beliefs, rows: Samples, mine: IntArray, *, wanted: Choices, usual: Choices, untried: FloatArray
) -> FloatArray:
    """Standard deviations of the mean over a fold of what is wanted, of the usual, of their difference, and of what was
    wanted and never tried, (4,).

    Of a large fold, rows at even distances stand for all.
    """
    count = max(1, _POINTS // (wanted.arms.shape[1] + 1))
    some = mine if len(mine) <= count else mine[np.linspace(0, len(mine) - 1, count).astype(np.int64)]
    arms = np.hstack([wanted.arms[some], usual.arms[some]])
    shares = np.hstack([wanted.shares[some], -usual.shares[some]]) / len(some)
    p, c = len(beliefs.encoder.state.names), arms.shape[1]
    tasks, S = np.repeat(rows.tasks[some], c), np.repeat(rows.X[some, :p], c, axis=0)
    ours = np.arange(c) < wanted.arms.shape[1]
    never = np.hstack([untried[some], np.zeros(usual.arms[some].shape)]) / len(some)
    parts = (shares * ours, shares * ~ours, shares, never)
    return np.array([beliefs.spread(tasks, S, arms.ravel(), weights=part.ravel()) for part in parts])
