"""From a log to everything a posterior is built from: kernel, task matrix, noise and prior mean.

Few rows do not determine a kernel: by chance a likelihood prefers no noise at all, or a knob that does not matter, and
a learner that believes it is lost. So kernel and noise have a weak prior around what suits the units of the log.

In this order: kernel, noise and mean by marginal likelihood with the stations taken as independent, so that likeness is
not assumed before it is measured; the similarity with that kernel; then kernel, noise and mean once more, given the
similarity, except with "blended", whose weights were found for the kernel as it is: fitted once more, it forgot
features that matter and cost regret. What is given is left as it is. The controller and the regressor both learn their
model here.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from kinband.arrays import finite_number, positive_number
from kinband.kernels import FixedTasks, Kernel, as_kernel
from kinband.likelihood import BLOCK_ROWS, fit, spread_of, starting_kernel
from kinband.records import Samples
from kinband.similarity import Log, Similarity, TaskMatrix, similarity_from

PULL = 2.0
"""Standard deviation of the logarithm of a kernel's parameters and the noise around what suits the units of a log."""

SimilarityLike = str | ArrayLike | TaskMatrix | Similarity

# Similarities that are measured with a kernel, and under which names they take kernel and noise.
_MEASURED = {
    "embedding": {"kernel": "kernel", "noise": "regularisation"},
    "tempered": {"kernel": "kernel", "noise": "regularisation"},
    "blended": {"kernel": "kernel", "noise": "regularisation", "mean": "mean"},
    "prediction": {"kernel": "kernel", "noise": "noise"},
    "coregionalisation": {"kernel": "kernel"},
}


@dataclass(frozen=True, eq=False)
class Model:
    """What a posterior is built from.

    Attributes:
        kernel: Context kernel k_X.
        similarity: Task matrix K_Z with its stations.
        noise: Variance of a reward beyond what is told of it.
        mean: Constant prior mean.
        at_bound: Parameters that ended at a bound of their search.

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


@dataclass(frozen=True)
class Search:
    """What may move, and how hard to look.

    Attributes:
        kernel: Whether the kernel's parameters move.
        noise: Whether the noise moves.
        mean: Whether the prior mean moves.
        starts: Starts of the first search; later ones begin where it ended.
        max_rows: The most rows a search uses, spread evenly over stations; None for all.
        pull: Prior of kernel and noise, as in `likelihood.fit`: how far, in logarithms, they may well lie from what
            suits the units of the log; None for marginal likelihood alone.
        quiet: Whether to report parameters at a bound in the model only, without a warning.

    Example:
        >>> Search(kernel=False).anything
        True
    """

    kernel: bool = True
    noise: bool = True
    mean: bool = True
    starts: int = 3
    max_rows: int | None = 2500
    pull: float | None = PULL
    quiet: bool = True

    @property
    def anything(self) -> bool:
        """Whether there is anything to search for."""
        return self.kernel or self.noise or self.mean


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
        noise: Where the noise begins; None for a tenth of the rewards' variance. What the log knows of a reward's
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
        TaskMatrix(samples.stations, np.eye(len(samples.stations)), "independent"),
        0.1 * spread_of(samples.y) if noise is None else positive_number(noise, name="noise"),
        float(samples.y.mean()) if mean is None else finite_number(mean, name="mean"),
    )
    measured = isinstance(similarity, str) and similarity in _MEASURED and len(samples.stations) > 1
    blended = measured and similarity == "blended"
    groups = BLOCK_ROWS if blended else None  # the same value sooner, where stations are independent
    alone = _fitted(samples, first, search, starts=search.starts, rng=rng, block_rows=groups) if measured else first
    shown = samples if log is None or isinstance(similarity, str) else log
    tasks = _estimator(similarity, alone, samples, rng=rng).fit(shown)
    shared = Model(alone.kernel, tasks, alone.noise, alone.mean, alone.at_bound)
    if blended:
        return shared
    return _fitted(samples, shared, search, starts=1 if measured else search.starts, rng=rng)


def _fitted(
    samples: Samples,
    model: Model,
    search: Search,
    *,
    starts: int,
    rng: np.random.Generator,
    block_rows: int | None = None,
) -> Model:
    """Return the model with the largest likelihood under its own task matrix."""
    if not search.anything:
        return model
    found = fit(
        samples,
        model.kernel,
        tasks=FixedTasks(model.similarity.matrix),
        noise=model.noise,
        mean=model.mean,
        fit_kernel=search.kernel,
        fit_noise=search.noise,
        fit_mean=search.mean,
        starts=starts,
        max_rows=search.max_rows,
        block_rows=block_rows,
        pull=search.pull,
        quiet=search.quiet,
        rng=rng,
    )
    return Model(found.kernel, model.similarity, found.noise, found.mean, found.at_bound)


def _estimator(similarity: SimilarityLike, model: Model, samples: Samples, *, rng: np.random.Generator) -> Similarity:
    """Return the estimator asked for; those known by name measure with the kernel and noise of the log."""
    if not isinstance(similarity, str) or similarity not in _MEASURED:
        return similarity_from(similarity)
    if len(samples.stations) == 1:  # nothing to measure
        return similarity_from("independent")
    names = _MEASURED[similarity]
    options: dict[str, Any] = {names[part]: getattr(model, part) for part in names}
    return similarity_from(similarity, seed=int(rng.integers(2**31)), **options)
