"""Likeness believed as far as it helps: alike stations share, unlike ones do not; later rows decide."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from kinband.arrays import FloatArray
from kinband.errors import BadInputError
from kinband.kernels import RBF
from kinband.records import Samples
from kinband.similarity import Tempered, similarity_from
from kinband.similarity.learned import Learned
from kinband.similarity.tempered import halves, mixed, predictive_density


def log_of(signs: FloatArray, *, rows: int, noise: float, seed: int, known: bool = False) -> Samples:
    """Stations whose rewards are ± the same wave."""
    rng = np.random.default_rng(seed)
    tasks = np.tile(np.arange(len(signs)), rows)
    X = rng.uniform(size=(len(tasks), 1))
    y = 0.4 + signs[tasks] * np.sin(7.0 * X[:, 0]) + np.sqrt(noise) * rng.normal(size=len(tasks))
    stations = tuple(f"s{m}" for m in range(len(signs)))
    return Samples(stations, tasks, X, y, np.full(len(tasks), 0.5 * noise) if known else None, ("load",))


def own_share(log: Samples, *, noise: float) -> float:
    return float(Tempered(RBF(0.3, variance=0.6), regularisation=noise).fit(log).details["own_share"])


def unrelated_log(seed: int) -> Samples:
    """Twelve stations, each with a function of its own drawn from the prior."""
    log, rng = log_of(np.ones(12), rows=30, noise=0.3, seed=seed), np.random.default_rng(seed)
    K = RBF(0.3, variance=0.6)(log.X, log.X) * (log.tasks[:, None] == log.tasks) + 0.05 * np.eye(len(log))
    return replace(log, y=np.linalg.cholesky(K) @ rng.normal(size=len(log)))


def test_stations_with_the_same_rewards_share_and_unrelated_ones_hardly_do() -> None:
    # The share of one draw scatters by about 0.35; the mean of six by 0.14.
    alike = [own_share(log_of(np.ones(12), rows=30, noise=0.3, seed=seed), noise=0.3) for seed in range(6)]
    unrelated = [own_share(unrelated_log(seed), noise=0.05) for seed in range(6)]
    assert np.mean(alike) < 0.2
    assert np.mean(unrelated) > 0.5


def test_the_matrix_is_the_mixture_that_the_details_name() -> None:
    log = log_of(np.array([1.0, 1.0, -1.0]), rows=20, noise=0.2, seed=2, known=True)
    found = Tempered(RBF(0.3, variance=0.6), regularisation=0.1, sigma=0.7).fit(log)
    plain = similarity_from("embedding", kernel=RBF(0.3, variance=0.6), regularisation=0.1, sigma=0.7).fit(log)
    own = found.details["own_share"]
    np.testing.assert_allclose(found.matrix, (1 - own) * plain.matrix + own * np.eye(3), atol=1e-12)
    scores = found.details["log_predictive_density"]
    assert max(scores, key=scores.__getitem__) == str(own)


@pytest.mark.parametrize("seed", range(4))
def test_predictive_density_is_that_of_the_normal_distribution(seed: int) -> None:
    rng = np.random.default_rng(seed)
    log = log_of(np.array([1.0, 0.3, -1.0]), rows=6, noise=0.4, seed=seed, known=bool(seed % 2))
    kernel, noise, mean = (
        RBF(rng.uniform(0.2, 1.0), variance=rng.uniform(0.3, 2.0)),
        rng.uniform(0.1, 0.6),
        rng.normal(),
    )
    A = rng.normal(size=(3, 4))
    K_Z = A @ A.T
    first, second = log.take(np.arange(9)), log.take(np.arange(9, 18))
    K = kernel(log.X, log.X) * K_Z[np.ix_(log.tasks, log.tasks)]
    K += np.diag(noise + (np.zeros(18) if log.noise is None else log.noise))
    densities = []
    for i in range(9, 18):  # the density of each later row beside the first nine, over that of the nine
        rows = [*range(9), i]
        both = multivariate_normal(np.full(10, mean), K[np.ix_(rows, rows)]).logpdf(log.y[rows])
        densities.append(both - multivariate_normal(np.full(9, mean), K[:9, :9]).logpdf(log.y[:9]))
    assert predictive_density(first, second, Learned(kernel, noise, mean), K_Z) == pytest.approx(np.mean(densities))


def test_halves_keep_the_order_of_every_station() -> None:
    early, late = halves(np.array([1, 0, 1, 1, 0, 0, 0]))
    assert early.tolist() == [0, 1, 2, 4]
    assert late.tolist() == [3, 5, 6]


def test_stations_with_one_row_learn_alone() -> None:
    log = log_of(np.ones(3), rows=1, noise=0.1, seed=3)
    assert own_share(log, noise=0.1) == 1.0


def test_a_share_beyond_one_is_refused() -> None:
    with pytest.raises(BadInputError, match="between 0 and 1"):
        mixed(np.eye(2), 1.5)
