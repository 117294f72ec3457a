"""A trace as a problem with a known truth: each station's own Gaussian process over all its rows, plus its noise.

Kernel (RBF with one length-scale per column, plus a level), noise and mean are found by likelihood on rows of all
stations, taken as independent, as those of a learner that does not share. Each station's truth is then the posterior
mean given its own rows, at most 1,000 of them. Its noise is that of its residuals e: Σe² over the number of rows less
the degrees of freedom that the fit took, the trace of its hat matrix. `problem_of` knows "smooth", the bundled city,
and "smooth:<path>", a trace that kinband wrote.
"""

import warnings
from functools import lru_cache

import numpy as np

from kinband.arrays import IntArray
from kinband.environments import SmoothFit, SmoothTraceEnvironment
from kinband.errors import BadInputError
from kinband.experiments.play.problem import Problem
from kinband.model import Model, learn_model
from kinband.posterior import ExactPosterior
from kinband.records import Samples
from kinband.trace import Trace

MOST = 1000
"""Rows of a station that its truth is made of, drawn at random where it has more."""


def smooth_problem(environment: str, *, log_rows: int, seed: int) -> Problem | None:
    """Return the problem of that name, with a log drawn by the seed; None for one that is not of this module."""
    kind, _, source = environment.partition(":")
    if kind != "smooth":
        return None
    world = _world(source)
    return Problem(world, world.log(log_rows, np.random.default_rng([seed, 2])), world.encoder.state)


@lru_cache(maxsize=2)
def _world(source: str) -> SmoothTraceEnvironment:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # said once by whoever read the trace, not again by every process
        trace = Trace.read(source) if source else Trace.bundled()
        return SmoothTraceEnvironment(trace.with_space(trace.space()), fit_stations)


def fit_stations(samples: Samples) -> list[SmoothFit]:
    """Return the fit of each station's rows.

    Example:
        >>> rng = np.random.default_rng(3)
        >>> X = rng.uniform(-1, 1, size=(200, 1))
        >>> y = np.cos(3 * X[:, 0]) + 0.1 * rng.standard_normal(200)
        >>> (fit,) = fit_stations(Samples(("a",), np.zeros(200, dtype=np.int64), X, y, None, ("load",)))
        >>> bool(np.abs(fit.mean(X) - np.cos(3 * X[:, 0])).max() < 0.1), 0.08 < fit.deviation < 0.12
        (True, True)
    """
    rng = np.random.default_rng(0)
    if np.ptp(samples.y) == 0:
        raise BadInputError(f"all rewards are {samples.y[0]:g}: there is nothing to fit")
    model = learn_model(samples, "independent", rng=rng)
    tasks = range(len(samples.stations))
    return [_fit(samples.take(_some(np.flatnonzero(samples.tasks == task), rng)), model) for task in tasks]


def _some(rows: IntArray, rng: np.random.Generator) -> IntArray:
    return rows if len(rows) <= MOST else rng.choice(rows, size=MOST, replace=False)


def _fit(own: Samples, model: Model) -> SmoothFit:
    """The posterior mean of a station given its rows, and the standard deviation of its residuals.

    With A = K + N, the residuals are N A⁻¹(y − mean), so that divided by the noise they are the weights of the mean;
    and a posterior variance divided by the noise is an entry of the diagonal of the hat matrix K A⁻¹.
    """
    known = np.zeros(len(own)) if own.noise is None else np.nan_to_num(own.noise)
    noise, zeros = model.noise + known, np.zeros(len(own), dtype=np.int64)
    posterior = ExactPosterior(model.kernel, [[1.0]], noise=model.noise, mean=model.mean)
    posterior.update(zeros, own.X, own.y, noise=noise)
    found = posterior.predict(zeros, own.X)
    residuals = own.y - found.mean
    freedom = len(own) - float((found.width**2 / noise).sum())
    weights, kernel, X, level = residuals / noise, model.kernel, own.X, model.mean
    return SmoothFit(lambda at: level + kernel(at, X) @ weights, float(np.sqrt(residuals @ residuals / freedom)))
