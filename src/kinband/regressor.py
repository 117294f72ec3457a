"""The joint model as a scikit-learn regressor."""

from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.metrics import r2_score
from sklearn.utils import check_array, check_random_state, check_X_y
from sklearn.utils.validation import check_is_fitted, validate_data

from kinband.arrays import FloatArray, IntArray, finite_number
from kinband.errors import BadInputError, NotFoundError
from kinband.kernels import FixedTasks
from kinband.likelihood import log_marginal_likelihood, variances
from kinband.model import Model, Search, learn_model
from kinband.posterior import BlockedPosterior, make_posterior
from kinband.records import Samples
from kinband.similarity import TaskMatrix
from kinband.similarity.newcomers import (
    average_row,
    check_kinds,
    checked_descriptors,
    descriptor_row,
    useful_descriptor_kernel,
    with_newcomers,
)

__all__ = ["MultiTaskRegressor"]

ALONE = "all"
"""Name of the one station of a regression without stations."""

# --- What callers hand in beside X: labels of stations, as text or whole numbers, and the noise of rewards ----------


def per_row(labels: Any, n: int) -> list[Any] | None:
    """One label for each of n rows."""
    if labels is None:
        return None
    if np.ndim(labels) == 0:
        return [labels] * n
    rows = list(np.asarray(labels))
    if np.ndim(labels) != 1 or len(rows) != n:
        raise BadInputError(f"expected one station for each of {n} rows, got task of shape {np.shape(labels)}")
    return rows


def name_of(label: Any, row: int) -> str:
    """The name of the station with a label as users write it."""
    if isinstance(label, str) and label:
        return str(label)
    if isinstance(label, bool | np.bool_):
        return str(bool(label))
    if isinstance(label, int | np.integer | float | np.floating) and float(label).is_integer():
        return str(int(label))
    if label is None or isinstance(label, str) or type(label).__name__ == "NAType" or label != label:
        raise BadInputError(f"row {row} has no station (None, NaN or empty): name it, or leave the row out")
    raise BadInputError(f"row {row} has {label} for a station: a label must be text or a whole number")


def rank(label: Any) -> tuple[bool, int, str]:
    """Where a station comes in the order: numbers first."""
    return (True, 0, str(label)) if isinstance(label, str) else (False, int(label), "")


def names_of(labels: Iterable[Any] | None, n: int) -> list[str]:
    """The station of each of n rows by name."""
    return [ALONE] * n if labels is None else [name_of(label, row) for row, label in enumerate(labels)]


def indices(names: Sequence[str], stations: Sequence[str]) -> IntArray:
    """The task number of each name, (n,); a station that is not known has the next one free, in order of appearance."""
    known = {station: m for m, station in enumerate(stations)}
    return np.array([known.setdefault(name, len(known)) for name in names], dtype=np.int64)


def row_noise(noise: ArrayLike | None, n: int) -> FloatArray | None:
    """The variance of each of n rewards, nan where unknown, (n,)."""
    if noise is None:
        return None
    variance = np.asarray(noise, dtype=np.float64)
    if variance.shape not in ((), (n,)):
        raise BadInputError(f"expected the noise variance of each of {n} rows, got shape {variance.shape}")
    if (np.isinf(variance) | (variance <= 0)).any():
        raise BadInputError("noise is a variance and must be above zero and finite, or nan where it is not known")
    return np.broadcast_to(variance, (n,)).copy()


def joined(first: Samples, second: Samples) -> Samples:
    """The rows of two logs with the same stations and features."""
    noise = None
    if first.noise is not None or second.noise is not None:
        parts = [np.full(len(s), np.nan) if s.noise is None else s.noise for s in (first, second)]
        noise = np.concatenate(parts)
    return replace(
        first,
        tasks=np.concatenate([first.tasks, second.tasks]),
        X=np.concatenate([first.X, second.X]),
        y=np.concatenate([first.y, second.y]),
        noise=noise,
    )


# --- Multi-task regression in scikit-learn's words ------------------------------------------------------------------
#
# `MultiTaskRegressor` is the model of the paper without the bandit: kernel ridge regression over tasks and contexts,
# (7)-(9), with the std (11), as an estimator that pipelines, cross-validation and grid searches can use. The station
# of a row is a column of X, since those tools slice X by rows, or is given beside it as `task=`. Without stations it is
# an ordinary Gaussian process regression.
#
# The order of a fit: first values of kernel, noise and mean; how alike the stations are; then the largest marginal
# likelihood of kernel, noise and mean under that similarity. Departures from the paper are those of `posterior` and
# `likelihood`: a constant prior mean, and noise that may differ between rows.
#
# This module imports scikit-learn, so the package loads it on first use only.

_NO_Y: Any = object()


class MultiTaskRegressor(RegressorMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """Gaussian process regression for many stations that learn from each other.

    Labels of stations may be text or whole numbers; `stations_` holds their names as text, 3714 and "3714" being the
    same station. Numbers come first and ascend, text follows in alphabetical order.

    A station that was never fitted is predicted as a newcomer: its row of the task matrix is that of the stations it
    resembles by `descriptors`, else the network's average, and part of its variance is its own, so that its standard
    deviation is wider. Cross-validation over stations (`GroupKFold`) thus asks what a model says of the next station.
    With "independent", a station that was never fitted gets the prior mean.

    Args:
        kernel: Context kernel, of `kinband.kernels` or of scikit-learn; positions of columns in it are counted without
            the task column. None for an RBF with a length-scale for each column, begun at what suits its spread.
        task: The column of X that says whose row it is: its name in a data frame, or its position, from the end if
            negative. None where `task=` is given with each call, or where there are no stations.
        similarity: How alike stations are: "joint", the default, which learns how much is shared, as a controller does;
            "independent", "pooled", "embedding", "prediction" or "coregionalisation"; an object with
            `fit(samples)`; a matrix (M, M) in the order of `stations_`; or a `TaskMatrix`, which may know more stations
            than the data: those can be predicted too, and folds may lack some.
        noise: Variance of a reward beyond what `fit` is told of it: a number to keep, or "fit".
        mean: Prior mean: a number to keep, or "fit".
        optimise: Whether to fit by marginal likelihood. If not, the kernel stays as it is, and "fit" stands for a
            fifth of the variance of y and for the mean of y.
        starts: How many starts the optimiser tries.
        max_rows: Rows that the likelihood is computed from, at most, spread over stations; None for all. All rows are
            learned from in any case; time grows with the cube of their number.
        engine: "exact", "schur", "sparse" or "auto", see `kinband.posterior`.
        descriptors: What is known of stations by name (a position, a height, a land use), those without rows among
            them: it says whom a station that was never fitted resembles, see `kinband.similarity.newcomers`.
        random_state: Seed, or generator, of further starts and of the choice of rows.

    Attributes:
        stations_: Names of the stations, in the order of `similarity_`.
        similarity_: The task matrix K_Z, a `TaskMatrix`.
        kernel_: The context kernel, fitted.
        noise_: Noise variance of a row beyond what is known of its own.
        mean_: Prior mean.
        posterior_: What is believed about f.
        at_bound_: Names of parameters that ended at a bound of the fit.
        n_features_in_: Number of columns of X, the task column included.
        feature_names_in_: Their names, if X was a data frame with text for names.

    Example:
        >>> import pandas as pd
        >>> frame = pd.DataFrame({"station": ["a", "b"] * 20, "load": np.linspace(0.0, 1.0, 40)})
        >>> reward = np.sin(6 * frame["load"]) + 0.1 * (frame["station"] == "b")
        >>> model = MultiTaskRegressor(task="station", similarity="embedding", random_state=0).fit(frame, reward)
        >>> mean, std = model.predict(pd.DataFrame({"station": ["b"], "load": [0.25]}), return_std=True)
        >>> bool(abs(mean[0] - np.sin(1.5) - 0.1) < 0.05), model.stations_
        (True, ('a', 'b'))
    """

    def __init__(
        self,
        kernel: Any = None,
        *,
        task: str | int | None = None,
        similarity: Any = "joint",
        noise: float | str = "fit",
        mean: float | str = "fit",
        optimise: bool = True,
        starts: int = 3,
        max_rows: int | None = 1000,
        engine: str = "exact",
        descriptors: Mapping[str, Mapping[str, Any]] | None = None,
        random_state: Any = None,
    ) -> None:
        self.kernel = kernel
        self.task = task
        self.similarity = similarity
        self.noise = noise
        self.mean = mean
        self.optimise = optimise
        self.starts = starts
        self.max_rows = max_rows
        self.engine = engine
        self.descriptors = descriptors
        self.random_state = random_state

    def fit(self, X: Any, y: ArrayLike, *, task: Any = None, noise: ArrayLike | None = None) -> Self:
        """Learn from rows X (n, d) with rewards y (n,), forgetting what was learned before.

        Args:
            X: Data frame (pandas, polars, ...) or array: contexts, and the task column if there is one.
            y: Rewards.
            task: Station of each row, (n,), or of all rows, if X has no task column.
            noise: Known part of each reward's variance, (n,), nan where nothing is known, or one number for all.

        Example:
            >>> model = MultiTaskRegressor(optimise=False)
            >>> model.fit([[0.0], [1.0]], [0.5, 0.7], task=["a", "b"], noise=[0.1, float("nan")]).stations_
            ('a', 'b')
        """
        labels, contexts, y = self._read(X, y, task=task, reset=True)
        self._asks_for_task = self.task is None and labels is not None
        stations = self._stations(labels)
        names = names_of(labels, len(y))
        tasks = indices(names, stations)
        if tasks.max() >= len(stations):  # of a task matrix, which knows others than the rows are of
            stranger = next(name for name in names if name not in stations)
            raise NotFoundError(
                f"station {stranger!r} is not among the {len(stations)} of the task matrix",
                hint="leave its rows out, or give a matrix that knows it",
                argument="similarity",
                value=stranger,
            )
        samples = Samples(stations, tasks, contexts, y, row_noise(noise, len(y)), self._features())
        model = self._learn(samples)
        K_Z = model.similarity.matrix
        posterior = make_posterior(model.kernel, K_Z, noise=model.noise, mean=model.mean, engine=self.engine)
        posterior.update(tasks, contexts, y, noise=variances(samples, model.noise))
        self._described = _described(self.descriptors)
        self.stations_, self.similarity_, self.at_bound_ = stations, model.similarity, model.at_bound
        self.kernel_, self.noise_, self.mean_ = model.kernel, model.noise, model.mean
        self.posterior_, self._samples = posterior, samples
        return self

    def partial_fit(self, X: Any, y: ArrayLike, *, task: Any = None, noise: ArrayLike | None = None) -> Self:
        """Learn further rows; kernel, noise, mean and similarity stay what `fit` found.

        The first call of a regressor that was not fitted is a `fit`. Arguments as there.

        Example:
            >>> model = MultiTaskRegressor(noise=0.1, mean=0.0, optimise=False).fit([[0.0], [1.0]], [0.5, 0.7])
            >>> len(model.partial_fit([[2.0]], [0.9]).posterior_)
            3
        """
        if not hasattr(self, "posterior_"):
            return self.fit(X, y, task=task, noise=noise)
        labels, contexts, y = self._read(X, y, task=task, reset=False)
        variance, (tasks, new) = row_noise(noise, len(y)), self._tasks(labels, len(y))
        if new:
            self.posterior_.extend_tasks(self._longer(new))
            self.stations_ = (*self.stations_, *new)
            known = self.similarity_
            self.similarity_ = TaskMatrix(self.stations_, self.posterior_.K_Z, known.method, known.details)
            self._samples = replace(self._samples, stations=self.stations_)
        more = replace(self._samples, tasks=tasks, X=contexts, y=y, noise=variance)
        self.posterior_.update(tasks, contexts, y, noise=variances(more, self.noise_))
        self._samples = joined(self._samples, more)
        return self

    def predict(
        self,
        X: Any,
        *,
        task: Any = None,
        return_std: bool = False,
        return_cov: bool = False,
        include_noise: bool = False,
    ) -> Any:
        """Return the mean of f (9) at rows X (m, d), (m,), and if asked for its spread.

        Args:
            X: As in `fit`.
            task: Station of each row, or of all rows, if X has no task column.
            return_std: Whether to return the standard deviation (11) too, (m,).
            return_cov: Whether to return the covariance too, (m, m).
            include_noise: Whether std and cov are those of a new reward, `noise_` included, not of f.

        Example:
            >>> model = MultiTaskRegressor(noise=0.1, mean=0.0, optimise=False).fit([[0.0], [1.0]], [0.5, 0.7])
            >>> mean, std = model.predict([[0.0], [9.0]], return_std=True)
            >>> bool(std[0] < std[1])
            True
        """
        if return_std and return_cov:
            raise BadInputError("ask for return_std or for return_cov, not both: cov holds the variances")
        posterior, tasks, contexts = self._query(X, task)
        noise = self.noise_ if include_noise else 0.0
        prediction = posterior.predict(tasks, contexts)
        if return_cov:
            return prediction.mean, prediction.covariance() + noise * np.eye(len(contexts))
        if return_std:
            return prediction.mean, np.sqrt(prediction.std**2 + noise) if include_noise else prediction.std
        return prediction.mean

    def sample_y(self, X: Any, n_samples: int = 1, random_state: Any = 0, *, task: Any = None) -> FloatArray:
        """Draw joint samples of f at rows X (m, d), noise excluded: (m, n_samples).

        Example:
            >>> model = MultiTaskRegressor(noise=0.1, mean=0.0, optimise=False).fit([[0.0], [1.0]], [0.5, 0.7])
            >>> model.sample_y([[0.0], [0.5], [1.0]], 4).shape
            (3, 4)
        """
        posterior, tasks, contexts = self._query(X, task)
        return posterior.predict(tasks, contexts).sample(n_samples, _generator(random_state)).T

    def score(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None, *, task: Any = None) -> float:
        """Return the coefficient of determination R² of the predictions at X (m, d) for rewards y (m,).

        Example:
            >>> x = np.linspace(0.0, 1.0, 20)[:, None]
            >>> model = MultiTaskRegressor(noise=1e-4, mean=0.0, optimise=False).fit(x, np.sin(6 * x[:, 0]))
            >>> model.score(x, np.sin(6 * x[:, 0])) > 0.99
            True
        """
        return float(r2_score(y, self.predict(X, task=task), sample_weight=sample_weight))

    @property
    def log_marginal_likelihood_value_(self) -> float:
        """Log marginal likelihood of all rows learned so far; computed when asked for."""
        check_is_fitted(self, "posterior_")
        tasks = FixedTasks(self.similarity_.matrix)
        return log_marginal_likelihood(self._samples, self.kernel_, tasks=tasks, noise=self.noise_, mean=self.mean_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.categorical = tags.input_tags.string = self.task is not None
        return tags

    def _query(self, X: Any, task: Any) -> tuple[BlockedPosterior, IntArray, FloatArray]:
        """Tasks (m,) and contexts (m, d) of rows to predict, and a posterior that knows all of these tasks."""
        check_is_fitted(self, "posterior_")
        labels, contexts, _ = self._read(X, task=task, reset=False)
        tasks, new = self._tasks(labels, len(contexts))
        posterior: BlockedPosterior = self.posterior_
        if new:
            posterior = deepcopy(posterior)  # asking changes nothing
            posterior.extend_tasks(self._longer(new))
        return posterior, tasks, contexts

    def _tasks(self, labels: list[Any] | None, n: int) -> tuple[IntArray, list[str]]:
        """The tasks of n rows, (n,), and the stations among them that no row was learned of."""
        names = names_of(labels, n)
        known = set(self.stations_)
        return indices(names, self.stations_), list(dict.fromkeys(name for name in names if name not in known))

    def _longer(self, newcomers: Sequence[str]) -> FloatArray:
        """The task matrix with newcomers behind it: by their descriptors, or as the network's average."""
        K_Z, given = self.similarity_.matrix, self._described
        stations = [given.get(station, {}) for station in self.stations_]
        kernel = useful_descriptor_kernel(K_Z, stations) if given else None
        if kernel is None:
            return with_newcomers(K_Z, [average_row(K_Z)] * len(newcomers))
        return with_newcomers(K_Z, [descriptor_row(K_Z, kernel, stations, given.get(name, {})) for name in newcomers])

    def _read(
        self, X: Any, y: Any = _NO_Y, *, task: Any, reset: bool
    ) -> tuple[list[Any] | None, FloatArray, FloatArray]:
        """Labels (n,) or None, contexts (n, d) and rewards (n,), through scikit-learn's own checks."""
        self._check_task(task, reset=reset)
        if self.task is None and y is _NO_Y:
            labels, contexts = task, validate_data(self, X, reset=reset, dtype=np.float64)
        elif self.task is None:
            labels, (contexts, y) = task, validate_data(self, X, y, reset=reset, dtype=np.float64, y_numeric=True)
        else:
            labels, rest = self._split(X, reset=reset)
            if y is _NO_Y:
                contexts = check_array(rest, dtype=np.float64, estimator=self, input_name="X")
            else:
                contexts, y = check_X_y(rest, y, dtype=np.float64, y_numeric=True, estimator=self)
        if y is _NO_Y:
            y = np.empty(0)
        return per_row(labels, len(contexts)), contexts, np.asarray(y, dtype=np.float64)

    def _check_task(self, task: Any, *, reset: bool) -> None:
        """Say so if stations are given twice, or differently from before."""
        if self.task is not None and task is not None:
            raise BadInputError(
                f"the station is column {self.task!r} of X: leave task= out, or make the regressor without"
            )
        if reset or self.task is not None:
            return
        if self._asks_for_task and task is None:
            raise BadInputError("this regressor was fitted with task=: say here too whose rows these are, task=")
        if not self._asks_for_task and task is not None:
            raise BadInputError("this regressor was fitted without stations: leave task= out, or fit it with task=")

    def _split(self, X: Any, *, reset: bool) -> tuple[Any, Any]:
        """The task column and what is left of X; a frame is split before it becomes one array with one type."""
        import narwhals as nw

        if not nw.dependencies.is_into_dataframe(X):
            X = validate_data(self, X, reset=reset, dtype=None, ensure_all_finite=False)
            column = self._position()
            return X[:, column], np.delete(X, column, axis=1)
        validate_data(self, X, reset=reset, skip_check_array=True)
        column = self._position()
        frame = nw.from_native(X, eager_only=True)
        others = [i for i in range(self.n_features_in_) if i != column]
        return frame[:, column].to_numpy(), frame[:, others].to_native()

    def _position(self) -> int:
        """The position of the task column among the columns of X."""
        task: Any = self.task
        d: int = self.n_features_in_
        names: list[str] = list(getattr(self, "feature_names_in_", ()))
        if d == 1:
            raise BadInputError(f"X has the task column {task!r} alone, n_features=1: give at least one feature")
        if isinstance(task, str):
            if task not in names:
                known = f"it has {', '.join(names)}" if names else "give a data frame, or the column's position"
                raise BadInputError(f"X has no column named {task!r}: {known}")
            return names.index(task)
        if isinstance(task, bool) or not isinstance(task, int | np.integer):
            raise BadInputError(f"task must be the name or the position of a column, got {task!r}")
        column = int(task)
        if not -d <= column < d:
            raise BadInputError(f"X has {d} columns, so there is no column {column} to find the station in")
        return column % d

    def _features(self) -> tuple[str, ...]:
        """Names of the contexts' columns; scikit-learn's x0, x1... where there are none."""
        d = self.n_features_in_
        names = list(getattr(self, "feature_names_in_", [f"x{i}" for i in range(d)]))
        if self.task is not None:
            del names[self._position()]
        return tuple(names)

    def _stations(self, labels: list[Any] | None) -> tuple[str, ...]:
        """The stations of the rows; those of a task matrix, where one is given."""
        if labels is None:
            if not isinstance(self.similarity, str):
                raise BadInputError("similarity is given, but not whose row is whose: name the column by task=")
            return (ALONE,)
        if isinstance(self.similarity, TaskMatrix):
            return self.similarity.stations
        order = {name_of(label, row): rank(label) for row, label in enumerate(labels)}
        return tuple(sorted(order, key=order.__getitem__))

    def _learn(self, samples: Samples) -> Model:
        """Kernel, noise, mean and similarity for the rows; a number given for noise or mean is kept."""
        noise, mean = _kept(self.noise, name="noise"), _kept(self.mean, name="mean")
        search = Search(
            kernel=self.optimise,
            noise=self.optimise and noise is None,
            mean=self.optimise and mean is None,
            starts=self.starts,
            max_rows=self.max_rows,
            pull=None,  # as in scikit-learn's own, optimising means the likelihood
            quiet=self.kernel is None,  # a column that does not matter ends at a bound, and those bounds are ours
        )
        rng = _generator(self.random_state)
        return learn_model(samples, self.similarity, rng=rng, kernel=self.kernel, noise=noise, mean=mean, search=search)


def _described(descriptors: Any) -> dict[str, dict[str, Any]]:
    """What is known of stations, checked, by name."""
    if descriptors is not None and not isinstance(descriptors, Mapping):
        raise BadInputError(
            f"descriptors must map stations to what is known of them, got {descriptors!r:.60}",
            argument="descriptors",
            value=descriptors,
        )
    found = {str(name): checked_descriptors(known, station=str(name)) for name, known in (descriptors or {}).items()}
    check_kinds(found)
    return found


def _kept(value: float | str, *, name: str) -> float | None:
    """A number that is to be kept, or None for one that is to be fitted."""
    if isinstance(value, str):
        if value != "fit":
            raise BadInputError(f"{name} must be a number or 'fit', got {value!r}")
        return None
    return finite_number(value, name=name)


def _generator(random_state: Any) -> np.random.Generator:
    """A generator from whatever scikit-learn, or NumPy, takes for one."""
    if isinstance(random_state, np.random.Generator):
        return random_state
    return np.random.default_rng(check_random_state(random_state).randint(2**31 - 1))
