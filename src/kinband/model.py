"""From a log to everything a posterior is built from: kernel, task matrix, noise and prior mean.

Few rows do not determine a kernel: by chance a likelihood prefers no noise at all, or a knob that does not matter, and
a learner that believes it is lost. So all parameters have a prior around what suits the units of the log.

By default, "joint", how much stations share is found together with the rest (`kinband.similarity.joint`). A similarity
that is asked for by another name is measured: kernel, noise and mean with the stations taken as independent, so that
similarity is not assumed before it is measured; the similarity with that kernel; then kernel, noise and mean once more,
given the similarity. What is given is left as it is. The controller and the regressor both learn their model here.

Rewards without any noise drive its estimate to nothing and the kernel's variance up, until no posterior can tell rows
apart by more than rounding. So a noise that was learned is never less than a hundred-millionth of that variance.
"""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from kinband.arrays import finite_number, positive_number
from kinband.kernels import BlockMatrix, FixedTasks, Kernel, as_kernel
from kinband.likelihood import BLOCK_ROWS, NOISE, Fit, Shocks, fit, spread_of, starting_kernel
from kinband.records import Samples
from kinband.similarity import Joint, Log, Similarity, TaskMatrix, similarity_from
from kinband.similarity.base import without_level
from kinband.similarity.joint import JOINT_ROWS, PULL

__all__ = ["LEAST_NOISE", "Model", "Search", "SimilarityLike", "learn_model"]

SimilarityLike = str | ArrayLike | TaskMatrix | Similarity

# Similarities that are measured with a kernel, and under which names they take kernel and noise.
_MEASURED = {
    "embedding": {"kernel": "kernel", "noise": "regularisation"},
    "prediction": {"kernel": "kernel", "noise": "noise"},
    "coregionalisation": {"kernel": "kernel"},
}

LEAST_NOISE = 1e-8
"""Noise that is learned is at least this share of the variance of f, so that a posterior can be computed with."""


@dataclass(frozen=True, eq=False)
class Model:
    """What a posterior is built from.

    Attributes:
        kernel: Context kernel k_X.
        similarity: Task matrix K_Z with its stations.
        noise: Variance of a reward beyond what is told of it.
        mean: Constant prior mean.
        at_bound: Parameters that ended at a bound of their search.
        shocks: What rows of a day have in common, where the log has days.

    Example:
        >>> from kinband.kernels import RBF
        >>> Model(RBF(0.5), TaskMatrix(("a",), np.eye(1), "independent"), noise=0.01, mean=0.9).similarity.stations
        ('a',)
    """

    kernel: Kernel
    similarity: TaskMatrix
    noise: float
    mean: float
    at_bound: tuple[str, ...] = ()
    shocks: Shocks = field(default_factory=Shocks)


@dataclass(frozen=True)
class Search:
    """What may move, and how hard to look.

    Attributes:
        kernel: Whether the kernel's parameters move.
        noise: Whether the noise moves.
        mean: Whether the prior mean moves.
        max_rows: The most rows a search uses, spread evenly over stations; None for all.
        pull: Prior, as in `likelihood.fit`: how far, in logarithms, parameters may well lie from what suits the units
            of the log; None for marginal likelihood alone.
        starts: Starts of every search: the prior's centre, then random ones.
        quiet: Whether to report parameters at a bound in the model only, without a warning.
        shocks: What rows of a day and spell have in common, where that is known.

    Example:
        >>> Search(kernel=False).anything
        True
    """

    kernel: bool = True
    noise: bool = True
    mean: bool = True
    max_rows: int | None = JOINT_ROWS
    pull: float | None = PULL
    starts: int = 1
    quiet: bool = True
    shocks: Shocks | None = None

    @property
    def anything(self) -> bool:
        """Whether there is anything to search for."""
        return self.kernel or self.noise or self.mean

    def options(self, first: Model) -> dict[str, Any]:
        """Return how `likelihood.fit` is to search, beginning at a model."""
        free = {"fit_kernel": self.kernel, "fit_noise": self.noise, "fit_mean": self.mean}
        effort = {"starts": self.starts, "max_rows": self.max_rows, "block_rows": BLOCK_ROWS, "pull": self.pull}
        return {"noise": first.noise, "mean": first.mean, **free, **effort, "quiet": self.quiet, "shocks": self.shocks}


def learn_model(
    samples: Samples,
    similarity: SimilarityLike,
    *,
    rng: np.random.Generator,
    kernel: Kernel | None = None,
    noise: float | None = None,
    mean: float | None = None,
    search: Search | None = None,
    log: Log | None = None,
) -> Model:
    """Return the model of a log.

    Args:
        samples: The log in numbers.
        similarity: How alike the stations are: a name, a matrix, or an estimator.
        rng: Draws starts and rows.
        kernel: Where the kernel begins; None for one that suits the units of the log.
        noise: Where the noise begins; None for a fifth of the rewards' variance. What the log knows of a reward's
            variance comes on top of it.
        mean: Where the prior mean begins; None for the rewards' mean.
        search: What may move; None for whatever is not given.
        log: What an estimator is shown, such as the trace that the samples came from.

    Example:
        >>> rng = np.random.default_rng(1)
        >>> X, tasks = rng.uniform(size=(40, 1)), np.arange(40) % 2
        >>> log = Samples(("a", "b"), tasks, X, np.sin(5 * X[:, 0]), None, ("load",))
        >>> model = learn_model(log, "embedding", rng=rng)
        >>> model.similarity.between("a", "b") > 0.5
        True
    """
    if search is None:
        search = Search(kernel=kernel is None, noise=noise is None, mean=mean is None)
    first = Model(
        starting_kernel(samples) if kernel is None else as_kernel(kernel).bind(samples.features),
        TaskMatrix(samples.stations, BlockMatrix.apart(len(samples.stations)), "independent"),
        NOISE * spread_of(samples.y) if noise is None else positive_number(noise, name="noise"),
        float(samples.y.mean()) if mean is None else finite_number(mean, name="mean"),
    )
    if isinstance(similarity, str) and similarity == "joint":
        similarity = Joint(seed=int(rng.integers(2**31)))
    if isinstance(similarity, Joint):
        found, tasks = similarity.fit_model(samples, first.kernel, rng=rng, **search.options(first))
        return _model(samples, found, tasks, search)
    measured = isinstance(similarity, str) and similarity in _MEASURED and len(samples.stations) > 1
    alone = _fitted(samples, first, first.similarity, search, rng=rng) if measured else first
    shown = samples if log is None or isinstance(similarity, str) else log
    tasks = _estimator(similarity, alone, samples, rng=rng).fit(shown)
    return _fitted(samples, first, tasks, search, rng=rng)


def _fitted(samples: Samples, first: Model, tasks: TaskMatrix, search: Search, *, rng: np.random.Generator) -> Model:
    """Return the best model under a task matrix; the search begins at `first`, on which its prior is centred."""
    if not search.anything:
        return replace(first, similarity=tasks)
    how, fixed = search.options(first), FixedTasks(tasks.K_Z)
    return _model(samples, fit(samples, first.kernel, tasks=fixed, rng=rng, **how), tasks, search)


def _model(samples: Samples, found: Fit, tasks: TaskMatrix, search: Search) -> Model:
    """Return what a fit found as a model, with noise enough to compute with."""
    variance = float(found.kernel.diag(samples.X).max(initial=0.0) * tasks.K_Z.diagonal().max())
    noise = max(found.noise, LEAST_NOISE * variance) if search.noise else found.noise
    return Model(found.kernel, tasks, noise, found.mean, found.at_bound, found.shocks or Shocks())


def _estimator(similarity: SimilarityLike, model: Model, samples: Samples, *, rng: np.random.Generator) -> Similarity:
    """Return the estimator asked for; those known by name measure with the kernel and noise of the log."""
    if not isinstance(similarity, str) or similarity not in _MEASURED:
        return similarity_from(similarity)
    if len(samples.stations) == 1:  # nothing to measure
        return similarity_from("independent")
    names = _MEASURED[similarity]
    options: dict[str, Any] = {names[part]: getattr(model, part) for part in names}
    if similarity == "embedding":
        options["kernel"] = without_level(model.kernel)
    return similarity_from(similarity, seed=int(rng.integers(2**31)), **options)
