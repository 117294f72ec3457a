"""Training with the true similarity gives the smallest error, and the curve is convex (the paper's first figure).

Let m_i(s) be the test error of draw i when trained with similarity s, and M(s) the mean over n draws. The minimiser ŝ
solves M′(ŝ) = 0; expanding about the truth s*, where E[m′] = 0, gives ŝ − s* ≈ −M′(s*)/M″(s*), so its standard error
is sd(m′_i(s*)) / (√n·M″(s*)). In the paper's setting 100 draws leave about 0.035 and 2,000 about 0.008.
"""

from collections.abc import Iterable

import numpy as np
import pytest

from kinband.arrays import FloatArray
from kinband.environments import RegressionDraw, TwoTaskRegression
from kinband.kernels import RBF
from kinband.posterior import ExactPosterior

SIMILARITIES = np.linspace(0, 1, 101)
DRAWS = 2000
PAPER = TwoTaskRegression()


def error_curve(problem: TwoTaskRegression, draw: RegressionDraw) -> FloatArray:
    """Test error of (9) for every training similarity, (101,), by solving all of them together."""
    K = np.exp(-((draw.X[:, None] - draw.X[draw.train]) ** 2).sum(axis=-1) / (2 * problem.length_scale**2))
    same = draw.tasks[:, None] == draw.tasks[draw.train]
    own, other = np.where(same, K, 0), np.where(same, 0, K)
    noise = problem.noise * np.eye(len(draw.train))
    G = own[draw.train] + SIMILARITIES[:, None, None] * other[draw.train] + noise
    alpha = np.linalg.solve(G, np.broadcast_to(draw.y[draw.train, None], (*G.shape[:2], 1)))[..., 0].T
    predicted = own[draw.test] @ alpha + SIMILARITIES * (other[draw.test] @ alpha)
    errors: FloatArray = ((predicted - draw.y[draw.test, None]) ** 2).mean(axis=0)
    return errors


def error_curves(problem: TwoTaskRegression, draws: Iterable[RegressionDraw]) -> FloatArray:
    return np.array([error_curve(problem, draw) for draw in draws])


@pytest.fixture(scope="module")
def paper_curves() -> FloatArray:
    """Error of every draw at every training similarity in the paper's setting, (2000, 101)."""
    return error_curves(PAPER, PAPER.draws(DRAWS, np.random.default_rng(20240611)))


def lowest_and_standard_error(curves: FloatArray, truth: float) -> tuple[float, float]:
    """Where the mean curve is lowest, and the standard error of that place (see the top of this file)."""
    centre, step = round(100 * truth), 5
    slopes = (curves[:, centre + step] - curves[:, centre - step]) / (SIMILARITIES[2 * step])
    bends = (curves[:, centre + step] - 2 * curves[:, centre] + curves[:, centre - step]) / SIMILARITIES[step] ** 2
    error = slopes.std() / (np.sqrt(len(curves)) * bends.mean())
    return float(SIMILARITIES[curves.mean(axis=0).argmin()]), float(error)


def test_exact_posterior_gives_the_same_error_curve() -> None:
    rng = np.random.default_rng(5)
    problem = TwoTaskRegression(similarity=0.55, points=40, length_scale=0.37, noise=0.11, training=7)
    for draw in problem.draws(3, rng, fresh_points=True):
        curve = error_curve(problem, draw)
        for place in rng.choice(101, 4, replace=False):
            s = SIMILARITIES[place]
            posterior = ExactPosterior(RBF(problem.length_scale), [[1, s], [s, 1]], noise=problem.noise)
            posterior.update(draw.tasks[draw.train], draw.X[draw.train], draw.y[draw.train])
            predicted = posterior.predict(draw.tasks[draw.test], draw.X[draw.test]).mean
            assert curve[place] == pytest.approx(((predicted - draw.y[draw.test]) ** 2).mean(), rel=1e-9)


def test_error_is_smallest_at_the_true_similarity(paper_curves: FloatArray) -> None:
    lowest, standard_error = lowest_and_standard_error(paper_curves, PAPER.similarity)
    assert standard_error < 0.03 / 3.5  # so that 0.03 is 3.5 standard errors or more
    assert abs(lowest - 0.8) <= 0.03


def test_error_curve_is_convex(paper_curves: FloatArray) -> None:
    # Second differences at a distance of 0.1, draw by draw, so that their standard error is a paired one.
    bends = paper_curves[:, 20:] - 2 * paper_curves[:, 10:-10] + paper_curves[:, :-20]
    standard_error = bends.std(axis=0) / np.sqrt(DRAWS)
    assert (bends.mean(axis=0) > 4 * standard_error).all()


def test_sharing_rightly_beats_not_sharing_and_pooling(paper_curves: FloatArray) -> None:
    for other in (0, 100):  # two independent tasks, one pooled task
        gain = paper_curves[:, other] - paper_curves[:, 80]
        assert gain.mean() > 4 * gain.std() / np.sqrt(DRAWS)


@pytest.mark.parametrize("shared_points", [True, False])
@pytest.mark.parametrize("common_training", [True, False])
def test_other_readings_have_their_minimum_at_the_truth_too(shared_points: bool, common_training: bool) -> None:
    problem = TwoTaskRegression(
        similarity=0.7,
        points=40,
        length_scale=0.4,
        noise=0.03,
        training=8,
        shared_points=shared_points,
        common_training=common_training,
    )
    curves = error_curves(problem, problem.draws(1500, np.random.default_rng(77), fresh_points=True))
    lowest, standard_error = lowest_and_standard_error(curves, problem.similarity)
    margin = 4 * standard_error + 0.005  # and half a step of the grid
    assert margin < 0.1  # so that a minimum at 0.6 or 0.8 would be noticed
    assert abs(lowest - 0.7) <= margin


def test_rewards_have_the_declared_covariance() -> None:
    problem = TwoTaskRegression(similarity=0.45, points=6, length_scale=0.31, noise=0.21, training=2)
    draws = list(problem.draws(4000, np.random.default_rng(31)))
    Y = np.array([draw.y for draw in draws])
    C = problem.covariance(draws[0].X)
    # For a Gaussian, Var(y_i y_j) = C_ii C_jj + C_ij².
    standard_error = np.sqrt((np.outer(C.diagonal(), C.diagonal()) + C**2) / len(Y))
    # 78 distinct entries: 4.5 standard errors are passed by chance once in 2,000 times.
    assert (np.abs(Y.T @ Y / len(Y) - C) < 4.5 * standard_error).all()
