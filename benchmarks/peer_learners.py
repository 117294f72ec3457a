"""Learners of other people on kinband's problems, each as a policy that a controller plays as it plays kinband's own.

A peer is fitted once, to the log. Afterwards its hyper-parameters stay, and before every round it is conditioned on all
rows known by then. β multiplies the standard deviation of f, noise left out, for all of them but LinUCB, whose std is
its authors'. All get the rows that kinband gets, with categories one-hot where a kernel of their own compares them.
"""

from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from kinband.arrays import FloatArray, IntArray
from kinband.experiments.problems import Problem
from kinband.kernels import Kernel
from kinband.model import learn_model
from kinband.policies import Exploration, LinUCB, PolicyFactory
from kinband.policies.base import pick_best
from kinband.posterior import ExactPosterior
from kinband.records import Choice, Observation, Query, Samples

BOTORCH, SKLEARN, LINUCB = "BoTorch", "scikit-learn", "LinUCB"
KMTL, KMTL_POOLED = "KMTL-UCB", "KMTL-UCB, pooled"

Beliefs = Callable[[IntArray, FloatArray], tuple[FloatArray, FloatArray]]
"""Mean and standard deviation of f, (n,) each, for tasks (n,) at rows (n, d)."""

Conditioned = Callable[[Samples], Beliefs]
"""What a fitted peer believes, given rows."""

_LEAST = 1e-6  # noise, as a share of the variance of rewards, that a refit of scikit-learn needs to be well-posed


class PeerPolicy:
    """Plays the arm with the largest mean + β · std of a peer's beliefs.

    Args:
        conditioned: The fitted peer.
        log: Names stations and features; its rows are told, as all rows are.
        exploration: The weight of the std.
    """

    def __init__(self, conditioned: Conditioned, log: Samples, exploration: Exploration) -> None:
        self._conditioned, self._log, self._exploration = conditioned, log, exploration
        self._told: list[Observation] = []
        self._beliefs: Beliefs | None = None

    def choose(self, query: Query, rng: np.random.Generator) -> Choice:
        """Return the arm with the largest score."""
        return self.choose_round([query], [rng])[0]

    def choose_round(self, queries: Sequence[Query], rngs: Sequence[np.random.Generator]) -> list[Choice]:
        """Decide all stations of a round from the same beliefs, asked for in one call."""
        if self._beliefs is None:
            self._beliefs = self._conditioned(self._rows())
        tasks = np.concatenate([np.full(len(query.arms), query.task) for query in queries])
        found = self._beliefs(tasks, np.concatenate([query.X[query.arms] for query in queries]))
        ends = np.cumsum([len(query.arms) for query in queries])[:-1]
        means, widths = (np.split(values, ends) for values in found)
        return [self._choice(*each) for each in zip(queries, means, widths, rngs, strict=True)]

    def learn(self, observation: Observation) -> None:
        """Keep one reward for the next round."""
        self._told.append(observation)
        self._beliefs = None

    def _choice(self, query: Query, mean: FloatArray, std: FloatArray, rng: np.random.Generator) -> Choice:
        beta = self._exploration.beta(known=len(self._told), arms=len(query.X), noise=1.0)
        score = mean + beta * std
        return Choice(int(query.arms[pick_best(score, rng)]), query.arms, mean, std, score)

    def _rows(self) -> Samples:
        tasks = np.array([told.task for told in self._told], dtype=np.int64)
        X, y = np.array([told.x for told in self._told]), np.array([told.reward for told in self._told])
        return replace(self._log, tasks=tasks, X=X, y=y, arms=None)


class OneHotLinUCB:
    """kinband's LinUCB, shown rows in another form."""

    def __init__(self, policy: LinUCB, shown: Callable[[FloatArray], FloatArray]) -> None:
        self._policy, self._shown = policy, shown

    def choose(self, query: Query, rng: np.random.Generator) -> Choice:
        """Return what LinUCB chooses."""
        return self._policy.choose(replace(query, X=self._shown(query.X)), rng)

    def learn(self, observation: Observation) -> None:
        """Let LinUCB take in one reward."""
        self._policy.learn(replace(observation, x=self._shown(observation.x[None])[0]))


def botorch(problem: Problem, seed: int) -> PolicyFactory:
    """Fit BoTorch's `MultiTaskGP` with its defaults: full rank, its priors, `Standardize`, features in the unit cube.

    Conditioning puts all rows in place of the old ones (`set_train_data`), the fitted transforms held fast. That gives
    what `condition_on_observations` gives, to rounding, and was a fifth faster, predictions included.
    """
    import torch
    from botorch.fit import fit_gpytorch_mll
    from gpytorch.mlls import ExactMarginalLogLikelihood

    torch.manual_seed(seed)
    shown = one_hot(problem)
    model = multi_task_gp(problem, shown)
    fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))

    def conditioned(rows: Samples) -> Beliefs:
        known = with_rows(model, shown(rows.X), rows.tasks, rows.y)
        return lambda tasks, X: _posterior(known, tasks, shown(X))

    return partial(_policy, conditioned, problem.log)


def multi_task_gp(problem: Problem, shown: Callable[[FloatArray], FloatArray]) -> Any:
    """Return BoTorch's model of a log, not yet fitted; the task is its last column."""
    import torch
    from botorch.models.multitask import MultiTaskGP
    from botorch.models.transforms.input import Normalize

    log, rows = problem.log, shown(_all_rows(problem))
    low, high = rows.min(axis=0), rows.max(axis=0)
    bounds = torch.tensor(np.array([low, np.where(high > low, high, low + 1.0)]))
    cube = Normalize(d=rows.shape[1] + 1, indices=list(range(rows.shape[1])), bounds=bounds)
    X, y = _tensor(shown(log.X), log.tasks), torch.tensor(log.y[:, None])
    return MultiTaskGP(X, y, task_feature=-1, input_transform=cube)


def with_rows(model: Any, X: FloatArray, tasks: IntArray, y: FloatArray) -> Any:
    """Return a copy of a fitted model that knows these rows instead of those it was fitted to."""
    import torch

    known = deepcopy(model)
    known.train()  # gives the inputs back as they were before they were scaled
    known.outcome_transform.eval()
    targets, _ = known.outcome_transform(torch.tensor(y[:, None]))
    known.set_train_data(_tensor(X, tasks), targets.squeeze(-1), strict=False)
    return known.eval()


def _posterior(model: Any, tasks: IntArray, X: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Mean and standard deviation at rows; tasks that ask for equally many are one batch, the fastest way there is."""
    import torch

    asked = torch.split(_tensor(X, tasks), np.diff(np.flatnonzero(np.diff(tasks, prepend=-1, append=-1))).tolist())
    batches = [torch.stack(asked)] if len({len(rows) for rows in asked}) == 1 else asked
    with torch.no_grad():
        found = [model.posterior(batch) for batch in batches]
        mean = torch.cat([one.mean.reshape(-1) for one in found])
        variance = torch.cat([one.variance.reshape(-1) for one in found])
    return mean.numpy(), variance.clamp_min(0.0).sqrt().numpy()


def _tensor(X: FloatArray, tasks: IntArray) -> Any:
    import torch

    return torch.tensor(np.column_stack([X, tasks]))


def scikit_learn(problem: Problem, seed: int) -> PolicyFactory:
    """Fit one `GaussianProcessRegressor` a task, with a length-scale per column, a variance and a noise."""
    log, shown = problem.log, one_hot(problem)
    kernels = [_fitted_kernel(shown(own.X), own.y, seed) for own in _by_task(log)]

    def conditioned(rows: Samples) -> Beliefs:
        models = [_refitted(k, shown(own.X), own.y) for k, own in zip(kernels, _by_task(rows), strict=True)]

        def beliefs(tasks: IntArray, X: FloatArray) -> tuple[FloatArray, FloatArray]:
            mean, std = np.empty(len(X)), np.empty(len(X))
            for task in np.unique(tasks):
                at = tasks == task
                mean[at], std[at] = models[task].predict(shown(X[at]), return_std=True)
            return mean, std

        return beliefs

    return partial(_policy, conditioned, log)


def _fitted_kernel(X: FloatArray, y: FloatArray, seed: int) -> Any:
    """The kernel that the optimiser finds; it begins where columns together, not each, have a length-scale of 1."""
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

    kernel = ConstantKernel() * RBF(np.full(X.shape[1], np.sqrt(X.shape[1]))) + WhiteKernel(0.1)
    return GaussianProcessRegressor(kernel, normalize_y=True, random_state=seed).fit(X, y).kernel_


def _refitted(kernel: Any, X: FloatArray, y: FloatArray) -> Any:
    """A regressor with that kernel; its noise is no part of what it predicts."""
    from sklearn.gaussian_process import GaussianProcessRegressor

    noise = max(kernel.k2.noise_level, _LEAST)
    return GaussianProcessRegressor(kernel.k1, alpha=noise, optimizer=None, normalize_y=True).fit(X, y)


def linucb(problem: Problem, seed: int) -> PolicyFactory:
    """LinUCB a task: where arms are configurations one model of their knobs, where they are classes a model an arm."""
    del seed
    mean = float(problem.log.y.mean())
    if problem.environment.space is None:
        return lambda setting: OneHotLinUCB(LinUCB(setting.exploration, mean=mean), _without_arm)
    shown = one_hot(problem)
    return lambda setting: OneHotLinUCB(LinUCB(setting.exploration, mean=mean, per_arm=False), shown)


def kmtl_ucb(problem: Problem, seed: int, *, pooled: bool = False) -> PolicyFactory:
    """KMTL-UCB (Deshmukh et al. 2017): a kernel of contexts times a similarity of arms.

    Arms are as alike as the contexts that they met: exp(−‖μ_a − μ_b‖²/2σ²) of their kernel mean embeddings, σ² the
    median of the squared distances, estimated anew before every round. Its authors' tasks are arms, so that kinband's
    tasks play each by itself or, `pooled`, as one. On a table the transfer would take tasks for arms, but every task
    meets configurations drawn evenly from the same list: such a similarity says nothing, and classes alone are played.
    Context kernel, noise and mean are found by kinband's own search.
    """
    log, arms = problem.log, problem.environment.arms
    rows = _as_arms(log, arms)
    rng = np.random.default_rng([seed, 3])
    alone = learn_model(rows, "independent", rng=rng)
    alike = partial(_alike, arms=arms, pooled=pooled)
    model = learn_model(rows, alike(alone.kernel, rows), rng=rng)

    def conditioned(told: Samples) -> Beliefs:
        rows = _as_arms(told, arms)
        posterior = ExactPosterior(model.kernel, alike(model.kernel, rows), noise=model.noise, mean=model.mean)
        posterior.update(rows.tasks, rows.X, rows.y)

        def beliefs(tasks: IntArray, X: FloatArray) -> tuple[FloatArray, FloatArray]:
            found = posterior.predict(_unit(tasks, X, arms), _without_arm(X))
            return found.mean, found.std

        return beliefs

    return partial(_policy, conditioned, log)


def _as_arms(log: Samples, arms: int) -> Samples:
    """A log in which every pair of a task and an arm is a station; the last column, the arm, is gone."""
    names = tuple(f"{station}/{arm}" for station in log.stations for arm in range(arms))
    units = _unit(log.tasks, log.X, arms)
    features, X = log.features[:-1], _without_arm(log.X)
    return replace(log, stations=names, tasks=units, X=X, features=features, categorical=(), arms=None)


def _unit(tasks: IntArray, X: FloatArray, arms: int) -> IntArray:
    return np.asarray(tasks * arms + X[:, -1].astype(np.int64), dtype=np.int64)


def _alike(kernel: Kernel, rows: Samples, *, arms: int, pooled: bool) -> FloatArray:
    """Similarity of every pair of a task and an arm, (MA, MA): of arms within a task, or of arms whoever asks."""
    M = len(rows.stations) // arms
    if pooled:
        return np.tile(arm_similarity(kernel, rows.X, rows.tasks % arms, arms), (M, M))
    alike = np.zeros((M * arms, M * arms))
    for task in range(M):
        at, part = rows.tasks // arms == task, slice(task * arms, (task + 1) * arms)
        alike[part, part] = arm_similarity(kernel, rows.X[at], rows.tasks[at] % arms, arms)
    return alike


def arm_similarity(kernel: Kernel, X: FloatArray, met_by: IntArray, arms: int) -> FloatArray:
    """Return how alike arms are by the contexts X (n, d) that they met, (A, A); one that met none stands for all.

    Example:
        >>> from kinband.kernels import RBF
        >>> X = np.array([[0.0], [0.0], [9.0]])
        >>> arm_similarity(RBF(1.0), X, np.array([0, 1, 2]), 3).round(2).tolist()
        [[1.0, 1.0, 0.61], [1.0, 1.0, 0.61], [0.61, 0.61, 1.0]]
    """
    W = (np.arange(arms)[:, None] == met_by).astype(np.float64)
    W[W.sum(axis=1) == 0] = 1.0
    W /= W.sum(axis=1, keepdims=True)
    G = W @ kernel(X, X) @ W.T
    squared = np.maximum(np.diag(G)[:, None] + np.diag(G) - 2.0 * G, 0.0)
    apart = squared[np.triu_indices(arms, 1)]
    usual = float(np.median(apart)) or 1.0
    return np.asarray(np.exp(-squared / (2.0 * usual)))


def one_hot(problem: Problem) -> Callable[[FloatArray], FloatArray]:
    """Return what turns rows (n, d) into rows whose categories are columns of 0 and 1, each category its own."""
    categorical = problem.environment.categorical
    rows = _all_rows(problem)
    codes = {column: np.unique(rows[:, column]) for column in categorical}
    numeric = [column for column in range(rows.shape[1]) if column not in categorical]

    def shown(X: FloatArray) -> FloatArray:
        parts = [(X[:, [column]] == values).astype(np.float64) for column, values in codes.items()]
        return np.hstack([X[:, numeric], *parts])

    return shown


def _all_rows(problem: Problem) -> FloatArray:
    """Every arm of the present slot and every row of the log, (n, d): all categories are among them."""
    return np.concatenate([*problem.environment.slot.contexts.values(), problem.log.X])


def _without_arm(X: FloatArray) -> FloatArray:
    return X[:, :-1]


def _by_task(rows: Samples) -> Iterator[Samples]:
    return (rows.of(task) for task in range(len(rows.stations)))


def _policy(conditioned: Conditioned, log: Samples, setting: Any) -> PeerPolicy:
    return PeerPolicy(conditioned, log, setting.exploration)


PEERS: dict[str, Callable[[Problem, int], PolicyFactory]] = {
    BOTORCH: botorch,
    SKLEARN: scikit_learn,
    LINUCB: linucb,
    KMTL: kmtl_ucb,
    KMTL_POOLED: partial(kmtl_ucb, pooled=True),
}
"""What fits a peer to the log of a problem, by name; the number is a seed."""
