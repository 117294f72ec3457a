"""How well a model explains a log, and the search for the model that does it best."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kinband.arrays import BoolArray, FloatArray, IntArray, finite_number, positive_number
from kinband.contexts import LARGEST
from kinband.errors import BadInputError, NotPositiveDefiniteError
from kinband.kernels import RBF, Categorical, Constant, Kernel, KernelBase, TaskModel, components
from kinband.records import Samples

__all__ = [
    "BLOCK_ROWS",
    "MAX_ROWS",
    "NOISE",
    "BoundWarning",
    "Fit",
    "Shocks",
    "choose_rows",
    "fit",
    "log_marginal_likelihood",
    "spread_of",
    "spread_rows",
    "starting_kernel",
    "station_groups",
    "value_and_gradient",
]

# --- How well a kernel, a task model, a noise level and a mean explain a log, and the search for the best of them ---
#
# The model of a log is y ~ N(mean · 1, K̃ + D), K̃_ij = K_Z[m_i, m_j] k_X(x_i, x_j) as in (7), D diagonal: one common
# level, what the context does not explain, plus what is known of the variance of each reward. Its log density, the
# log marginal likelihood, trades fit against complexity, so that maximising it over length-scales, noise and the
# parameters of K_Z needs no validation set (Rasmussen and Williams 2006, chapter 5). With a = (K̃ + D)⁻¹(y − mean)
# the gradient to any entry of K̃ is W = ½(aaᵀ − (K̃ + D)⁻¹), and kernels pull W back to their parameters.
#
# Stations that share nothing are factorised apart. Where the log is long, the search also takes stations apart that do
# share: the sum of the log densities of groups of stations, each with its own similarity inside, is a composite
# likelihood (Varin, Reid and Firth 2011), with its maximum at the same parameters but for sampling, at a fraction of
# the work. The paper prints no such fit; it names the idea for its hyper-parameter method, after Bonilla et al.
# (2008).
#
# Rows of one day hang together: a football match, rain or an outage moves all of them. So do those of a spell, the part
# of a day in which a station kept a setting: whatever else was special about these hours, that setting met it. Taken
# for independent, a hundred such rows promise a certainty that nobody has, and what an evening did is taken for what
# its setting does. Where rows carry their day and spell, D has two parts more, one common to all rows of a day and one
# to those of a spell.

_STRIP = 64


@dataclass(frozen=True)
class Shocks:
    """Variances of what rows have in common beside f.

    Attributes:
        day: All rows of a day.
        spell: Those of a station while it kept a setting, within a day.

    Example:
        >>> Shocks(day=0.2, spell=0.1).covariance(np.array([0, 0, 1]), np.array([0, 1, 2])).round(1).tolist()
        [[0.3, 0.2, 0.0], [0.2, 0.3, 0.0], [0.0, 0.0, 0.3]]
    """

    day: float = 0.0
    spell: float = 0.0

    def covariance(self, days: IntArray, spells: IntArray) -> FloatArray:
        """Return what they add to the covariance of rows of these days and spells, (n, n)."""
        return np.asarray(self.day * (days[:, None] == days) + self.spell * (spells[:, None] == spells))


def log_marginal_likelihood(
    samples: Samples, kernel: Kernel, *, tasks: TaskModel, noise: float, mean: float, shocks: Shocks | None = None
) -> float:
    """Return log N(y; mean, K̃ + D) of a log.

    Example:
        >>> from kinband.kernels import RBF, FixedTasks
        >>> log = Samples(("a",), np.array([0]), np.array([[0.3]]), np.array([1.5]), None, ("load",))
        >>> value = log_marginal_likelihood(log, RBF(variance=3.0), tasks=FixedTasks(np.eye(1)), noise=1.0, mean=0.5)
        >>> bool(np.isclose(value, -0.5 * (1.0**2 / 4.0 + np.log(2 * np.pi * 4.0))))
        True
    """
    kernel = check_problem(samples, kernel, tasks, noise, mean)
    K_Z = tasks.K_Z
    D = variances(samples, noise)
    value = 0.0
    for rows in row_blocks(samples.tasks, tasks):
        m = samples.tasks[rows]
        K = kernel(samples.X[rows], samples.X[rows]) * K_Z[np.ix_(m, m)]
        if shocks is not None and samples.days is not None and samples.spells is not None:
            K += shocks.covariance(samples.days[rows], samples.spells[rows])
        value += _Block(K, D[rows], samples.y[rows] - mean).value
    return value


def value_and_gradient(
    samples: Samples, kernel: Kernel, *, tasks: TaskModel, noise: float, mean: float, shocks: Shocks | None = None
) -> tuple[float, FloatArray]:
    """Return the log marginal likelihood and its gradient to kernel theta, task theta, log noise and mean.

    The gradient is (p + q + 2,), in this order; with shocks, the logarithms of their two variances follow.

    Example:
        >>> from kinband.kernels import RBF, FixedTasks
        >>> log = Samples(("a",), np.array([0]), np.array([[0.3]]), np.array([1.5]), None, ("load",))
        >>> kernel = RBF(0.5, variance=3.0, fixed=["variance", "length_scale"])
        >>> value_and_gradient(log, kernel, tasks=FixedTasks(np.eye(1)), noise=1.0, mean=0.5)[1]
        array([-0.09375,  0.25   ])
    """
    kernel, blocks = check_problem(samples, kernel, tasks, noise, mean), row_blocks(samples.tasks, tasks)
    return unchecked_value_and_gradient(samples, kernel, tasks, noise, mean, blocks=blocks, shocks=shocks)


class _Block:
    """The factorised covariance of rows that hang together: value, a and W. The matrix handed in is overwritten."""

    def __init__(self, K: FloatArray, D: FloatArray, r: FloatArray) -> None:
        from scipy.linalg.lapack import dpotrf, dpotrs

        K[np.diag_indices_from(K)] += D
        # LAPACK counts by columns: to it the transpose is the same matrix, and needs no copy.
        self.L, failed = dpotrf(K.T, lower=1, overwrite_a=1, clean=0)
        if failed:
            raise NotPositiveDefiniteError(
                f"the covariance of {len(r)} rows is not positive definite with noise {D.min():g}: "
                "raise the noise or its lower bound"
            )
        self.a, _ = dpotrs(self.L, r, lower=1)
        half_log_det = np.log(np.diag(self.L)).sum()
        self.value = float(-0.5 * r @ self.a - half_log_det - 0.5 * len(r) * np.log(2.0 * np.pi))

    def minus_twice_W(self) -> FloatArray:
        """(K̃ + D)⁻¹ − aaᵀ, (n, n): the gradient W to K̃, times −2, which saves passes over the matrix."""
        from scipy.linalg.blas import dsyr
        from scipy.linalg.lapack import dpotri

        inverse, _ = dpotri(self.L, lower=1, overwrite_c=1)
        return _mirrored(dsyr(-1.0, self.a, a=inverse, lower=1, overwrite_a=1).T)


def _mirrored(A: FloatArray) -> FloatArray:
    """Write the upper half of A (n, n) over the lower one, a strip at a time, so that both stay in the cache."""
    for start in range(0, len(A), _STRIP):
        stop = start + _STRIP
        A[start:stop, :start] = A[:start, start:stop].T
        corner = A[start:stop, start:stop]
        below = np.tril_indices(len(corner), -1)
        corner[below] = corner.T[below]
    return A


def unchecked_value_and_gradient(
    samples: Samples,
    kernel: Kernel,
    tasks: TaskModel,
    noise: float,
    mean: float,
    *,
    blocks: Sequence[IntArray],
    shocks: Shocks | None = None,
) -> tuple[float, FloatArray]:
    """Return what `value_and_gradient` does, for checked arguments and the `blocks` that `row_blocks` makes."""
    K_Z, pull_tasks = tasks.vjp()
    D = variances(samples, noise)
    value, to_kernel, to_noise, to_mean = 0.0, np.zeros(len(kernel.theta)), 0.0, 0.0
    W_Z, days, spells = np.zeros(K_Z.shape if len(tasks.theta) else (0, 0)), samples.days, samples.spells
    to_shocks = np.zeros(0 if shocks is None else 2)
    for rows in blocks:
        K_X, pull_kernel = kernel.vjp(samples.X[rows])
        present, starts, counts = np.unique(samples.tasks[rows], return_index=True, return_counts=True)
        Z = K_Z[np.ix_(present, present)].repeat(counts, axis=1).repeat(counts, axis=0)
        K = K_X * Z
        if shocks is not None and days is not None and spells is not None:
            K += shocks.covariance(days[rows], spells[rows])
        block = _Block(K, D[rows], samples.y[rows] - mean)
        W = block.minus_twice_W()
        value += block.value
        if shocks is not None and days is not None and spells is not None:
            same = [np.vdot(W, of[rows][:, None] == of[rows]) for of in (days, spells)]
            to_shocks -= 0.5 * np.array(same) * [shocks.day, shocks.spell]
        to_noise -= 0.5 * float(np.trace(W))
        to_mean += float(block.a.sum())
        if len(kernel.theta):
            to_kernel -= 0.5 * pull_kernel(np.multiply(Z, W, out=Z))
        if len(tasks.theta):
            W *= K_X
            by_pair = np.add.reduceat(np.add.reduceat(W, starts, axis=1), starts, axis=0)
            W_Z[np.ix_(present, present)] -= 0.5 * by_pair
    return value, np.concatenate([to_kernel, pull_tasks(W_Z), [noise * to_noise, to_mean], to_shocks])


def row_blocks(of_rows: IntArray, tasks: TaskModel, *, groups: IntArray | None = None) -> list[IntArray]:
    """Return the rows that hang together, block by block, sorted by station; `of_rows` is each row's station, (n,).

    With the group of each station in `groups` (M,), rows of different groups are held apart.
    """
    present, position = np.unique(of_rows, return_inverse=True)  # stations without rows are left aside
    # A free K_Z may leave zero behind, and then rows hang together that its present entries hold apart.
    K_Z = np.ones((len(present), len(present))) if len(tasks.theta) else tasks.K_Z[np.ix_(present, present)]
    if groups is not None:
        K_Z = K_Z * (groups[present][:, None] == groups[present])
    group = np.empty(len(present), dtype=np.int64)
    for number, members in enumerate(components(K_Z)):
        group[members] = number
    by_row = group[position]
    order = np.lexsort((of_rows, by_row))
    return np.split(order, np.cumsum(np.bincount(by_row))[:-1])


def variances(samples: Samples, noise: float) -> FloatArray:
    """The noise variance of each row, (n,): the common one and what is known of the row's own."""
    if samples.noise is None:
        return np.full(len(samples), noise)
    return noise + np.where(np.isfinite(samples.noise), samples.noise, 0.0)


def check_problem(samples: Samples, kernel: Kernel, tasks: TaskModel, noise: float, mean: float) -> Kernel:
    """Say what is wrong, or return the kernel bound to the features of the log."""
    positive_number(noise, name="noise")
    finite_number(mean, name="mean")
    if not len(samples):
        raise BadInputError("the log has no rows: a likelihood needs at least one")
    if len(tasks.K_Z) != len(samples.stations):
        raise BadInputError(f"the log has {len(samples.stations)} stations, the task model {len(tasks.K_Z)}")
    if samples.noise is not None and (samples.noise < 0).any():
        raise BadInputError(f"noise is a variance and must not be negative, got {np.nanmin(samples.noise):g}")
    return kernel.bind(samples.features)


# --- Where a search begins when nobody says: a kernel that suits the units of the log -------------------------------

LENGTH = 1.5
"""Length-scale to begin with, in standard deviations of a column times the root of the number of columns."""

LEVEL = 0.3
"""Variance of a station's level to begin with, as a share of that of the rewards."""


NOISE = 0.2
"""Noise to begin with, as a share of the variance of the rewards.

Parameters at their most likely values take noise for signal. Of 0.05, 0.1, 0.2 and 0.3 this one has the widest
predictive intervals at no cost in regret.
"""


def starting_kernel(samples: Samples) -> Kernel:
    """Return RBF with one length-scale per numeric column, times Categorical over the others, plus a level.

    It is where a fit begins and what its prior is centred on. Length-scales grow with the root of the number of columns
    (Hvarfner, Hellsten and Nardi 2024): rows that differ in many columns at once are then still a little alike, where
    few rows could not tell. Bounds are wide, whatever the units of X and y.

    Example:
        >>> X, y = np.array([[0.0, 0.0], [2000.0, 1.0]]), np.array([0.5, 0.7])
        >>> log = Samples(("a",), np.array([0, 0]), X, y, None, ("users", "vendor"), categorical=(1,))
        >>> starting_kernel(log).names
        ('rbf.length_scale[users]', 'rbf.variance', 'categorical.length_scale[vendor]', 'constant.variance')
    """
    variance, width = spread_of(samples.y), samples.X.shape[1]
    bounds = (1e-4 * variance, 1e4 * variance)
    level = Constant(LEVEL * variance, variance_bounds=bounds)
    codes = tuple(samples.categorical)
    numeric = tuple(c for c in range(width) if c not in codes)
    unlike = [0.5 * LENGTH * np.sqrt(width)] * len(codes)  # as two codes, 0 and 1, of a numeric column would be
    if not numeric:
        shape: KernelBase = Categorical(unlike, variance=variance, variance_bounds=bounds, columns=codes)
        return (shape + level).bind(samples.features)
    scale = samples.X[:, numeric].std(axis=0)
    scale = np.where(scale > 0, scale, 1.0) * LENGTH * np.sqrt(width)
    rbf = RBF(
        scale,
        variance=variance,
        columns=numeric,
        length_scale_bounds=(1e-3 * scale.min(), 1e3 * scale.max()),
        variance_bounds=bounds,
    )
    shape = rbf * Categorical(unlike, columns=codes, fixed=("variance",)) if codes else rbf
    return (shape + level).bind(samples.features)


def spread_of(y: FloatArray) -> float:
    """Return the variance of y (n,), or where all are equal, that of rewards as far apart as they are large.

    One reward, or one number again and again, does not say how far rewards vary: whoever took that for certainty would
    never learn otherwise. Rewards whose squares overflow have no variance: they are refused.

    Example:
        >>> spread_of(np.array([1.0, 3.0])), spread_of(np.array([2.0, 2.0])), spread_of(np.array([0.0]))
        (1.0, 1.0, 1.0)
        >>> spread_of(np.array([1.0, 1.7e308]))
        Traceback (most recent call last):
            ...
        kinband.errors.BadInputError: the reward is 1.7e+308 in row 2 of those learned from, counted from 1, ...
    """
    refuse_large(y, where=" of those learned from")
    variance = float(np.var(y)) if len(y) else 0.0
    size = float(np.abs(y).max(initial=0.0)) ** 2
    if variance <= 1e-20 * size:  # equal, but for rounding
        return size / 4.0 if size else 1.0
    return max(variance, 1e-8 * (1.0 + size))


def refuse_large(y: FloatArray, *, where: str = "") -> None:
    """Refuse rewards y (n,) whose squares would overflow, naming the first of them; `where` says what rows they are."""
    large = np.flatnonzero(np.abs(y) > LARGEST)
    if len(large):
        raise BadInputError(
            f"the reward is {y[large[0]]:g} in row {large[0] + 1}{where}, counted from 1, which is too large to "
            "compute with: leave out rows whose reward stands for a missing one, or give rewards in a larger unit"
        )


# --- Which rows a search looks at, and which of them together, when a log is long -----------------------------------
#
# A factorisation takes time in the cube of the rows that hang together. So a long log is thinned, and stations are put
# into groups at random that are explained one by one, their log densities added: a composite likelihood (Varin, Reid
# and Firth 2011). Thinning keeps a fair number of rows of each station that it keeps at all, because noise shows only
# where a station's rows lie close together: few rows from every station of a large network give a poor estimate of it,
# however many they are in all. What either costs in accuracy is measured in docs/scaling.md.

MAX_ROWS = 8000
"""Rows that a search looks at in all, unless told otherwise."""

BLOCK_ROWS = 250
"""Rows that it explains together, unless told otherwise."""

ROWS_PER_STATION = 40
"""Rows of a station that are kept if it has them, before further stations are looked at."""


def choose_rows(tasks: IntArray, max_rows: int, *, rng: np.random.Generator, most: int | None = None) -> IntArray:
    """Return at most `max_rows` row numbers, ascending, of stations drawn at random; `tasks` (n,) are their stations.

    As many stations are drawn as give 40 rows each; then rows are spread evenly over them, up to `most` of one.

    Example:
        >>> tasks = np.repeat(np.arange(50), 100)
        >>> rows = choose_rows(tasks, 400, rng=np.random.default_rng(0))
        >>> np.unique(tasks[rows], return_counts=True)[1].tolist()
        [40, 40, 40, 40, 40, 40, 40, 40, 40, 40]
    """
    _check(max_rows)
    counts = np.bincount(tasks)
    if len(tasks) > max_rows:
        drawn = rng.permutation(np.flatnonzero(counts))
        enough = int(np.searchsorted(np.cumsum(np.minimum(counts[drawn], ROWS_PER_STATION)), max_rows)) + 1
        rows = np.flatnonzero(np.isin(tasks, drawn[:enough]))
    else:
        rows = np.arange(len(tasks))
    if most is not None and counts.max(initial=0) > most:
        rows = rows[_turns(tasks[rows], rng.permutation(len(rows))) < most]
    return rows[spread_rows(tasks[rows], max_rows, rng=rng)]


def spread_rows(tasks: IntArray, max_rows: int, *, rng: np.random.Generator) -> IntArray:
    """Return at most `max_rows` row numbers, ascending, drawn so that all stations get about equally many.

    Example:
        >>> tasks = np.array([0, 0, 0, 0, 0, 0, 1, 1, 2])
        >>> rows = spread_rows(tasks, 5, rng=np.random.default_rng(0))
        >>> np.bincount(tasks[rows]).tolist()
        [2, 2, 1]
    """
    _check(max_rows)
    if len(tasks) <= max_rows:
        return np.arange(len(tasks))
    shuffled = rng.permutation(len(tasks))
    turns = _turns(tasks, shuffled)  # the first of all stations go before the second of any
    return np.sort(shuffled[np.argsort(turns[shuffled], kind="stable")][:max_rows])


def even_share(counts: list[int], *, most: int) -> int:
    """Return how many rows each station may give, at least one, so that all together give at most `most`.

    Example:
        >>> even_share([2, 10, 10], most=12)
        5
    """
    left = most
    for place, count in enumerate(sorted(counts)):
        share = left // (len(counts) - place)
        if count > share:
            return max(share, 1)
        left -= count
    return max(counts)


def station_groups(tasks: IntArray, *, block_rows: int, stations: int, rng: np.random.Generator) -> IntArray:
    """Return a group for each station, (M,), at random, so that groups of several have at most `block_rows` rows.

    Args:
        tasks: Station of each row, (n,).
        block_rows: Rows of a group; a station with more is a group of its own.
        stations: Number of stations M.
        rng: Draws the order in which groups are filled.

    Example:
        >>> tasks, rng = np.array([0, 0, 1, 1, 2, 2]), np.random.default_rng(1)
        >>> groups = station_groups(tasks, block_rows=4, stations=3, rng=rng)
        >>> sorted(np.bincount(groups).tolist())
        [1, 2]
    """
    if block_rows < 1:
        raise BadInputError(f"block_rows must be at least 1, got {block_rows}")
    counts = np.bincount(tasks, minlength=stations)
    groups, group, filled = np.zeros(stations, dtype=np.int64), 0, 0
    for station in rng.permutation(stations):
        if filled and filled + counts[station] > block_rows:
            group, filled = group + 1, 0
        groups[station] = group
        filled += int(counts[station])
    return groups


def _turns(tasks: IntArray, shuffled: IntArray) -> IntArray:
    """The how-manieth of its station each row is, (n,), in the order `shuffled`."""
    by_task = shuffled[np.argsort(tasks[shuffled], kind="stable")]
    _, first, counts = np.unique(tasks[by_task], return_index=True, return_counts=True)
    turns = np.empty(len(tasks), dtype=np.int64)
    turns[by_task] = np.arange(len(tasks)) - np.repeat(first, counts)
    return turns


def _check(max_rows: int) -> None:
    if max_rows < 1:
        raise BadInputError(f"max_rows must be at least 1, got {max_rows}")


# --- The search for the kernel, task model, noise and mean that explain a log best ----------------------------------
#
# L-BFGS-B from several starts, on parameters in their usual sizes; a parameter that ends at a bound is reported.


class BoundWarning(UserWarning):
    """A fitted parameter ended at its bound: the log does not determine it within the bounds.

    Example:
        >>> issubclass(BoundWarning, UserWarning)
        True
    """


@dataclass(frozen=True)
class Fit:
    """What a maximisation of the marginal likelihood found.

    Attributes:
        kernel: The context kernel, fitted and bound to the features of the log.
        tasks: The task model, fitted.
        noise: Variance of a reward beyond what the log knows of it.
        mean: Prior mean of the rewards.
        log_likelihood: Log marginal likelihood of the rows used; with groups of stations, the sum over them.
        at_bound: Names of parameters that ended at a bound.
        starts: How many starts were tried.
        rows: How many rows of the log were used.
        converged: Whether the best start met the optimiser's tolerance.
        blocks: Into how many blocks of rows that hang together the likelihood fell.
        shocks: What rows of a day have in common, where the log has days.

    Example:
        >>> from kinband.kernels import RBF, FixedTasks
        >>> Fit(RBF(0.5), FixedTasks(np.eye(1)), 0.1, 0.9, -3.0, at_bound=("noise",)).at_bound
        ('noise',)
    """

    kernel: Kernel
    tasks: TaskModel
    noise: float
    mean: float
    log_likelihood: float
    at_bound: tuple[str, ...] = ()
    starts: int = 1
    rows: int = 0
    converged: bool = True
    blocks: int = 1
    shocks: Shocks | None = None


def fit(
    samples: Samples,
    kernel: Kernel,
    *,
    tasks: TaskModel,
    rng: np.random.Generator,
    noise: float | None = None,
    mean: float | None = None,
    fit_kernel: bool = True,
    fit_noise: bool = True,
    fit_mean: bool = True,
    starts: int = 3,
    max_rows: int | None = None,
    block_rows: int | None = None,
    pull: float | None = None,
    shocks: Shocks | None = None,
    max_iterations: int = 200,
    quiet: bool = False,
) -> Fit:
    """Return the kernel, task model, noise and mean with the largest marginal likelihood found.

    Args:
        samples: The log, or the part of it that may be learned from.
        kernel: Where to start, and what is free and within which bounds; names of columns are looked up.
        tasks: Likewise for the similarities of stations.
        rng: Draws the further starts, and the rows if there are too many.
        noise: Variance of the noise to start from, a fifth of the variance of y if not given; bounded by 1e-6 and
            10 times that variance. Rows that carry a noise of their own get it on top.
        mean: Prior mean to start from, the mean of y if not given.
        fit_kernel: Whether to move the kernel's parameters.
        fit_noise: Whether to move the noise.
        fit_mean: Whether to move the mean.
        starts: How many starts to try: the given values first, then random ones around them.
        max_rows: Use at most this many rows, of as many stations as give 40 rows each, drawn at random.
        block_rows: Put stations into groups of at most this many rows, at random, and add up the groups' likelihoods as
            if groups shared nothing: much less work on long logs. Of one station at most four times as many rows are
            used. Not for task models with parameters of each station, whose scale groups would not have in common.
        pull: Prior of the kernel's and the task model's parameters and the noise: normal around the values given, with
            this standard deviation of a logarithm, or in units of a task model's parameters. It keeps short logs from
            extremes that a likelihood of few rows prefers by chance, such as no noise at all, or a knob that does not
            matter. None for none.
        shocks: What rows of a day and spell have in common, where that is known; else it is found, if rows carry them.
        max_iterations: Iterations of L-BFGS-B for each start.
        quiet: Whether to leave bounds to `Fit.at_bound`. A feature that does not matter sends its length-scale to the
            bound: an answer, where nobody chose the bound.

    Warns:
        BoundWarning: If a parameter ended at a bound, other than how much is shared.

    Example:
        >>> from kinband.kernels import RBF, FixedTasks
        >>> rng = np.random.default_rng(5)
        >>> X = rng.uniform(0, 10, size=(40, 1))
        >>> y = np.sin(X[:, 0]) + 0.1 * rng.standard_normal(40)
        >>> log = Samples(("a",), np.zeros(40, dtype=np.int64), X, y, None, ("load",))
        >>> best = fit(log, RBF(0.3), tasks=FixedTasks(np.eye(1)), rng=rng)
        >>> 1.0 < best.kernel.length_scale < 3.0, 0.003 < best.noise < 0.03
        (True, True)
    """
    if starts < 1:
        raise BadInputError(f"starts must be at least 1, got {starts}")
    if not fit_noise and noise is None:
        raise BadInputError("fit_noise=False needs the noise to keep: give noise=")
    samples, groups = _subset(samples, max_rows=max_rows, block_rows=block_rows, rng=rng)
    noise = NOISE * spread_of(samples.y) if noise is None else noise
    mean = float(np.mean(samples.y)) if mean is None and len(samples) else mean or 0.0
    kernel = check_problem(samples, kernel, tasks, noise, mean)
    free = (fit_kernel, fit_noise, fit_mean)
    problem = FitProblem(samples, kernel, tasks, noise, mean, free=free, groups=groups, pull=pull, shocks=shocks)
    runs = [_climb(problem, z, max_iterations) for z in problem.starts(starts, rng)]
    z, log_likelihood, converged = max(runs, key=lambda run: run[1])
    if not np.isfinite(log_likelihood):
        raise NotPositiveDefiniteError(
            f"no start of the fit gave a positive definite covariance of {len(samples)} rows: start from a larger noise"
        )
    at_bound = problem.at_bound(z)
    kernel, tasks, noise, mean, shocks = problem.unpack(z)
    effort = (at_bound, starts, len(samples), converged, len(problem.blocks))
    found = Fit(kernel, tasks, noise, mean, log_likelihood, *effort, shocks=shocks)
    told = [name for name in at_bound if name != "tasks.share"]  # sharing all or nothing is an answer
    if told and not quiet:
        more = f" and {len(told) - 4} more" if len(told) > 4 else ""
        warnings.warn(
            f"fit ended at a bound of {', '.join(told[:4])}{more}: widen the bounds or fix the parameter, "
            "unless it is the length-scale of a column that does not matter",
            BoundWarning,
            stacklevel=2,
        )
    return found


def _subset(
    samples: Samples, *, max_rows: int | None, block_rows: int | None, rng: np.random.Generator
) -> tuple[Samples, IntArray | None]:
    """The rows to look at, and the group of each station if there are groups."""
    if max_rows is not None or block_rows is not None:
        most = None if block_rows is None else 4 * block_rows
        rows = choose_rows(samples.tasks, max(1, len(samples)) if max_rows is None else max_rows, rng=rng, most=most)
        samples = samples.take(rows)
    if block_rows is None or len(samples) <= block_rows:
        return samples, None
    return samples, station_groups(samples.tasks, block_rows=block_rows, stations=len(samples.stations), rng=rng)


SHOCK = 0.1
"""Variance of a shock to begin with, as a share of the noise."""

_SHOCK_UNIT = 2.0  # of the logarithm of a shock's variance: they may be none, or far above the noise


class FitProblem:
    """The search of `fit` as a vector z: kernel theta, task theta, log noise if free, mean if free, log shocks if any.

    Each entry is divided by its usual size, so that all are of order one; the mean is counted from the mean of y.
    """

    def __init__(
        self,
        samples: Samples,
        kernel: Kernel,
        tasks: TaskModel,
        noise: float,
        mean: float,
        *,
        free: tuple[bool, bool, bool],
        groups: IntArray | None = None,
        pull: float | None = None,
        shocks: Shocks | None = None,
    ) -> None:
        self.blocks = row_blocks(samples.tasks, tasks, groups=groups)
        self.samples, self.kernel, self.tasks, self.noise, self.mean = samples, kernel, tasks, noise, mean
        self.spread, self.centre = spread_of(samples.y), float(np.mean(samples.y))
        self.cut = np.cumsum([len(kernel.theta), len(tasks.theta)])
        self.fit_kernel, fit_noise, fit_mean = free
        of_kernel, of_tasks = [self.fit_kernel] * len(kernel.theta), [True] * len(tasks.theta)
        marked = samples.days is not None and samples.spells is not None
        self.shocks = shocks if marked else None
        self.log_shocks = np.log([SHOCK * noise] * 2) if marked and shocks is None else np.zeros(0)
        of_shocks = len(self.log_shocks)
        self.free: BoolArray = np.array([*of_kernel, *of_tasks, fit_noise, fit_mean, *[True] * of_shocks])
        of_rest = [1.0, np.sqrt(self.spread), *[_SHOCK_UNIT] * of_shocks]
        self.units: FloatArray = np.concatenate([np.ones(len(kernel.theta)), tasks.units, of_rest])
        self.given = self._pack(kernel.theta, tasks.theta, np.log(noise))
        self.bounds = self._bounds()
        self._pull = np.full(len(self.free), 0.0 if pull is None else pull**-2)
        self._pull[self.cut[-1] + 1] = 0.0  # the mean has no prior
        self._pull = self._pull[self.free]

    def _pack(self, theta: FloatArray, task_theta: FloatArray, log_noise: float) -> FloatArray:
        """All parameters, fixed ones included, in their units."""
        rest = np.array([log_noise, self.mean - self.centre, *self.log_shocks])
        return np.concatenate([theta, task_theta, rest]) / self.units

    def _bounds(self) -> FloatArray:
        """Limits of z, (p, 2): the mean may leave the range of y by that range, or by 3 standard deviations."""
        y = self.samples.y - self.centre
        reach = max(3.0 * np.sqrt(self.spread), float(np.ptp(y)))
        of_noise = np.log([1e-6 * self.spread, 10.0 * self.spread])
        of_mean = [float(y.min()) - reach, float(y.max()) + reach]
        rest = np.array([of_noise, of_mean, *[of_noise] * len(self.log_shocks)], dtype=np.float64)
        bounds = np.concatenate([self.kernel.bounds, self.tasks.bounds, rest])
        return (bounds / self.units[:, None])[self.free]

    def starts(self, count: int, rng: np.random.Generator) -> list[FloatArray]:
        """The given values, then draws: theta within a factor of 10, noise from 0.001 to 1 times var(y)."""
        points = [self.given]
        for _ in range(count - 1):
            near = self.kernel.theta + rng.uniform(-np.log(10), np.log(10), size=len(self.kernel.theta))
            log_noise = np.log(self.spread) + rng.uniform(np.log(1e-3), 0.0)
            points.append(self._pack(near, self.tasks.draw(rng).theta, log_noise))
        return [np.clip(point[self.free], *self.bounds.T) for point in points]

    def unpack(self, z: FloatArray) -> tuple[Kernel, TaskModel, float, float, Shocks | None]:
        """The kernel, task model, noise, mean and shocks that z stands for; what is not free stays as it was given."""
        full = self.given.copy()
        full[self.free] = z
        theta, task_theta, rest = np.split(full * self.units, self.cut)
        fit_noise, fit_mean = self.free[self.cut[-1] : self.cut[-1] + 2]
        noise = float(np.exp(rest[0])) if fit_noise else self.noise
        mean = self.centre + float(rest[1]) if fit_mean else self.mean
        kernel = self.kernel.with_theta(theta) if self.fit_kernel else self.kernel
        shocks = Shocks(*np.exp(rest[2:]).tolist()) if len(rest) > 2 else self.shocks
        return kernel, self.tasks.with_theta(task_theta), noise, mean, shocks

    def value_and_gradient(self, z: FloatArray) -> tuple[float, FloatArray]:
        """Value and gradient to z; −inf and zeros where the covariance is not positive definite."""
        try:
            kernel, tasks, noise, mean, shocks = self.unpack(z)
            value, gradient = unchecked_value_and_gradient(
                self.samples, kernel, tasks, noise, mean, blocks=self.blocks, shocks=shocks
            )
        except NotPositiveDefiniteError:
            return -np.inf, np.zeros_like(z)
        gradient = gradient[: len(self.units)]  # shocks that are known do not move
        away = z - self.given[self.free]
        return value - 0.5 * float(self._pull @ away**2), (gradient * self.units)[self.free] - self._pull * away

    def at_bound(self, z: FloatArray) -> tuple[str, ...]:
        """Names of the entries of z that lie on a bound."""
        low, high = self.bounds.T
        near = np.minimum(z - low, high - z) <= 1e-6 * (high - low)
        of_shocks = ["shocks.day", "shocks.spell"][: len(self.log_shocks)]
        names = np.array([*self.kernel.names, *self.tasks.names, "noise", "mean", *of_shocks])
        return tuple(names[self.free][near].tolist())


def _climb(problem: FitProblem, z: FloatArray, max_iterations: int) -> tuple[FloatArray, float, bool]:
    """Run L-BFGS-B from z: where it ended, the value there, and whether it converged."""
    from scipy.optimize import Bounds, minimize

    value, _ = problem.value_and_gradient(z)
    if not len(z) or not np.isfinite(value):
        return z, value, bool(np.isfinite(value))
    worst = -value

    def objective(z: FloatArray) -> tuple[float, FloatArray]:
        nonlocal worst
        value, gradient = problem.value_and_gradient(z)
        if not np.isfinite(value):
            # Worse than anything seen, but not so much that interpolation would shrink the step to nothing.
            return worst + 10.0 * len(problem.samples), gradient
        worst = max(worst, -value)
        return -value, -gradient

    bounds = Bounds(*problem.bounds.T)
    # With hundreds of parameters, a longer memory of the curvature reaches the same height in half the steps.
    memory = 50 if len(z) > 50 else 10
    found = minimize(
        objective,
        z,
        jac=True,
        method="L-BFGS-B",
        bounds=bounds,
        options={"maxiter": max_iterations, "maxcor": memory},
    )
    return found.x, -float(found.fun), bool(found.success)
