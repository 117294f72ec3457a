"""Partial pooling against a sum of three kernels, written out: common to all, shared with those alike, one's own."""

import numpy as np
import pytest

from kinband.kernels import RBF, Constant, PartialPooling
from kinband.posterior import ENGINES, ExactPosterior, make_posterior


def summed(
    case: dict[str, np.ndarray], a: tuple[np.ndarray, np.ndarray], b: tuple[np.ndarray, np.ndarray]
) -> np.ndarray:
    """Shared + similar + own, each with a wave and a level, pair by pair."""
    K = np.zeros((len(a[0]), len(b[0])))
    s, r = float(case["share"]), float(case["related"])
    for i, (z, x) in enumerate(zip(*a, strict=True)):
        for j, (other, y) in enumerate(zip(*b, strict=True)):
            wave = float(case["variance"]) * np.exp(-0.5 * sum(((x - y) / case["lengths"]) ** 2))
            one = wave + float(case["level"])
            shared = s * one
            similar = (1.0 - s) * r * float(case["R"][z, other]) * one
            own = (1.0 - s) * (1.0 - r) * one if z == other else 0.0
            K[i, j] = shared + similar + own
    return K


def drawn(seed: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(4, 2))
    C = A @ A.T + 0.3 * np.eye(4)
    values = {
        "share": rng.uniform(0.05, 0.95), "related": rng.uniform(0.1, 0.9), "variance": rng.uniform(0.2, 3.0),
        "level": rng.uniform(0.1, 2.0), "noise": rng.uniform(0.02, 0.5), "mean": rng.normal(),
        "lengths": rng.uniform(0.3, 2.0, size=3), "R": C / np.sqrt(np.outer(np.diagonal(C), np.diagonal(C))),
        "tasks": rng.integers(0, 4, 30), "X": rng.normal(size=(30, 3)), "y": rng.normal(size=30),
        "asked_tasks": rng.integers(0, 4, 9), "asked": rng.normal(size=(9, 3)),
    }  # fmt: skip
    return {name: np.asarray(value) for name, value in values.items()}


@pytest.mark.parametrize("seed", range(6))
def test_the_posterior_is_that_of_three_kernels_added_up(seed: int) -> None:
    case = drawn(seed)
    rows, asked = (case["tasks"], case["X"]), (case["asked_tasks"], case["asked"])
    noise, mean = float(case["noise"]), float(case["mean"])
    K, k = summed(case, rows, rows) + noise * np.eye(30), summed(case, rows, asked)
    expected = mean + k.T @ np.linalg.solve(K, case["y"] - mean)
    std = np.sqrt(np.diagonal(summed(case, asked, asked) - k.T @ np.linalg.solve(K, k)))

    related = float(case["related"])
    tasks = PartialPooling(related * case["R"] + (1.0 - related) * np.eye(4), float(case["share"]))
    kernel = RBF(case["lengths"].tolist(), variance=float(case["variance"])) + Constant(float(case["level"]))
    for engine in ENGINES:
        posterior = make_posterior(kernel, tasks.K_Z, noise=noise, mean=mean, engine=engine, inducing_points=40)
        posterior.update(*rows, case["y"])
        found = posterior.predict(*asked)
        tolerance = 1e-8 if engine != "sparse" else 1e-3  # an inducing point stands for what lies beside it
        np.testing.assert_allclose(found.mean, expected, atol=tolerance)
        np.testing.assert_allclose(found.std, std, atol=tolerance)


def test_a_share_of_nearly_all_is_pooling_and_of_nearly_none_the_rest_alone() -> None:
    case = drawn(11)
    kernel, rows, asked = RBF(0.8), (case["tasks"], case["X"]), (case["asked_tasks"], case["asked"])

    def mean(K_Z: np.ndarray) -> np.ndarray:
        posterior = ExactPosterior(kernel, K_Z, noise=0.2)
        posterior.update(*rows, case["y"])
        return posterior.predict(*asked).mean

    for share, K_Z in ((1.0 - 1e-9, np.ones((4, 4))), (1e-9, case["R"])):
        np.testing.assert_allclose(mean(np.asarray(PartialPooling(case["R"], share).K_Z)), mean(K_Z), atol=1e-5)
