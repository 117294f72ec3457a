"""The descriptor kernel fitted to a task matrix by leaving every station out, and how well it predicts rows held out.

With A = (G + I)⁻¹ and G the kernel of all stations' descriptors, the weights that the others have in station i when it
is left out are −Aⱼᵢ/Aᵢᵢ: one inverse gives the held-out rows of all stations. Their squared errors against the learned
likeness, as a share of those of the network's average, are minimised; a mild pull towards the starting values decides
where few stations decide nothing. `held_out` leaves out whole groups of stations and fits anew without them, so that
what it reports has not been seen by the fit; descriptors that do no better there than the network's average are not
used (`useful_descriptor_kernel`), as likeness learned from a few rows is mostly noise, which nothing predicts.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from kinband.arrays import FloatArray, IntArray
from kinband.similarity.newcomers.descriptors import Descriptors, check_kinds
from kinband.similarity.newcomers.kernel import DescriptorKernel, columns_of
from kinband.similarity.newcomers.likeness import OWN, average_row, average_weights, correlations, descriptor_row

LEAST = 3
"""With fewer stations described there is nothing to fit to."""

JUDGED = 10
"""From so many stations on, descriptors have to prove themselves on stations held out."""

_MOST = 120  # stations a fit looks at, spread evenly over the list
_LENGTH, _UNLIKE = (0.05, 1.0, 20.0), (0.0, 0.3, 0.99)  # bounds and start of length-scales, and of ρ
_CONSTANT, _VARIANCE = (1e-3, 0.1, 1e3), (1e-3, 1.0, 1e3)
_PULL = 1 / 9  # of a parameter's logarithm towards its start, as one station's worth of error at distance 3


@dataclass(frozen=True)
class HeldOut:
    """How well rows of a task matrix are predicted for stations that were held out.

    Attributes:
        error: Root mean square error of predicted likeness.
        average_error: The same where the network's average is predicted.
        stations: How many stations were held out, each once.

    Example:
        >>> f"{HeldOut(0.1, 0.2, 30).explained:.2f}"
        '0.75'
    """

    error: float
    average_error: float
    stations: int

    @property
    def explained(self) -> float:
        """The share of the average's squared error that descriptors remove; below 0 they mislead."""
        return 1.0 - (self.error / self.average_error) ** 2 if self.average_error > 0 else 0.0


def fit_descriptor_kernel(K_Z: FloatArray, stations: Sequence[Descriptors]) -> DescriptorKernel | None:
    """Return the kernel whose held-out rows are nearest to K_Z (M, M); None where too little is described.

    Example:
        >>> x = np.array([0.0, 0.1, 0.2, 5.0, 5.1, 5.2])
        >>> K_Z = np.exp(-np.subtract.outer(x, x) ** 2)
        >>> kernel = fit_descriptor_kernel(K_Z, [{"x": value} for value in x])
        >>> kernel.weights([{"x": value} for value in x], {"x": 0.15}).argmax() in (1, 2)
        True
    """
    shown = _shown(stations)
    some = [stations[i] for i in shown]
    columns = columns_of(some, check_kinds(dict(zip(map(str, shown), some, strict=True))))
    C = correlations(K_Z)[np.ix_(shown, shown)]
    if len(shown) < LEAST or not columns:
        return None
    limits = [_LENGTH if column.numeric else _UNLIKE for column in columns] + [_CONSTANT, _VARIANCE]
    logs = np.array([*(column.numeric for column in columns), True, True])
    lower, start, upper = (np.where(logs, np.log(np.maximum(edge, 1e-9)), edge) for edge in np.array(limits).T)

    def kernel_at(theta: FloatArray) -> DescriptorKernel:
        *parameters, constant, variance = np.where(logs, np.exp(np.where(logs, theta, 0.0)), theta).tolist()
        return DescriptorKernel(columns, tuple(parameters), constant, variance)

    average = _squares(C, average_left_out(C))
    if average <= 0.0:  # all alike, or nobody like anybody: the average says it all
        return kernel_at(start)

    def loss(theta: FloatArray) -> float:
        error = _squares(C, left_out(kernel_at(theta).gram(some), C)) / average
        return error + _PULL / len(C) * float(np.sum((theta - start) ** 2))

    return kernel_at(_minimum(loss, start, lower, upper))


def useful_descriptor_kernel(K_Z: FloatArray, stations: Sequence[Descriptors]) -> DescriptorKernel | None:
    """Return the fitted kernel; None where many stations show that their descriptors say nothing of their likeness.

    Example:
        >>> rng = np.random.default_rng(2)
        >>> F = rng.normal(size=(20, 30))
        >>> stations = [{"x": value} for value in rng.random(20)]  # as good as dice
        >>> useful_descriptor_kernel(F @ F.T, stations) is None
        True
    """
    kernel = fit_descriptor_kernel(K_Z, stations)
    if kernel is None or len(_shown(stations)) < JUDGED:
        return kernel
    return kernel if held_out(K_Z, stations).explained > 0 else None


def held_out(K_Z: FloatArray, stations: Sequence[Descriptors], *, folds: int = 5) -> HeldOut:
    """Return how well rows of K_Z (M, M) are predicted, each station once among those held out together.

    Example:
        >>> x = np.linspace(0, 3, 12)
        >>> K_Z = np.exp(-np.subtract.outer(x, x) ** 2)
        >>> held_out(K_Z, [{"x": value} for value in x]).explained > 0.8
        True
    """
    shown = _shown(stations)
    C, M, stations = correlations(K_Z)[np.ix_(shown, shown)], len(shown), [stations[i] for i in shown]
    ours, theirs, count = 0.0, 0.0, 0
    for fold in range(folds):
        out = np.arange(fold, M, folds)
        rest = np.setdiff1d(np.arange(M), out)
        if not len(out) or len(rest) < 2:
            continue
        predicted, average = _predicted(C, stations, out, rest)
        truth = C[np.ix_(rest, out)]
        ours, theirs = ours + float(np.sum((predicted - truth) ** 2)), theirs + float(np.sum((average - truth) ** 2))
        count += truth.size
    return HeldOut(float(np.sqrt(ours / max(count, 1))), float(np.sqrt(theirs / max(count, 1))), M if count else 0)


def left_out(G: FloatArray, C: FloatArray) -> FloatArray:
    """Return the row that is predicted for each station when it is left out, as a column each, (M, M).

    The diagonal means nothing.
    """
    A = np.linalg.inv(G + np.eye(len(G)))
    W = np.maximum(-A / np.diagonal(A), 0.0)
    np.fill_diagonal(W, 0.0)
    CW = C @ W
    strength = np.einsum("ji,ji->i", W, CW)
    return np.asarray(CW * np.sqrt(np.minimum(1.0, (1.0 - OWN) / np.maximum(strength, 1e-300))))


def average_left_out(C: FloatArray) -> FloatArray:
    """Return what the network's average predicts for each station when it is left out, as a column each, (M, M)."""
    M = len(C)
    predicted = np.zeros((M, M))
    for i in range(M):
        rest = np.delete(np.arange(M), i)
        predicted[rest, i] = C[np.ix_(rest, rest)] @ average_weights(C[np.ix_(rest, rest)])
    return predicted


def _shown(stations: Sequence[Descriptors]) -> IntArray:
    """Which stations a fit looks at: those of which something is known, some of them where they are many."""
    described: IntArray = np.flatnonzero([bool(station) for station in stations])
    some = np.unique(np.linspace(0, len(described) - 1, min(_MOST, len(described))).round().astype(int))
    return np.asarray(described[some])


def _predicted(
    C: FloatArray, stations: Sequence[Descriptors], out: IntArray, rest: IntArray
) -> tuple[FloatArray, FloatArray]:
    """The rows of stations held out, by descriptors and by the average, (rest, out) each."""
    known, shown = C[np.ix_(rest, rest)], [stations[i] for i in rest]
    kernel = fit_descriptor_kernel(known, shown)
    average = average_row(known)[:-1]
    rows = [descriptor_row(known, kernel, shown, stations[i])[:-1] if kernel is not None else average for i in out]
    return np.array(rows).T, np.repeat(average[:, None], len(out), axis=1)


def _squares(C: FloatArray, predicted: FloatArray) -> float:
    """Mean square of what predicted rows miss, off the diagonal."""
    E = C - predicted
    np.fill_diagonal(E, 0.0)
    return float(np.sum(E * E)) / max(len(C) * (len(C) - 1), 1)


def _minimum(
    loss: Callable[[FloatArray], float], start: FloatArray, lower: FloatArray, upper: FloatArray
) -> FloatArray:
    from scipy.optimize import minimize

    bounds = list(zip(lower.tolist(), upper.tolist(), strict=True))
    found = minimize(loss, start, method="L-BFGS-B", bounds=bounds, options={"maxiter": 60})
    return np.asarray(np.clip(found.x, lower, upper), dtype=np.float64)
