"""Two kinds of stations that want the opposite and are declared alike: who is misled, and who finds out."""

import numpy as np

from kinband import ConfigurationSpace, Controller, Sharing
from kinband.arrays import FloatArray
from kinband.controller.adapting import posterior_of
from kinband.kernels import RBF
from kinband.posterior.weighing import BORROWS

STATIONS = [f"s{m}" for m in range(6)]
DECLARED = 0.9 * np.ones((6, 6)) + 0.1 * np.eye(6)
OPPOSITE, ALIKE = np.array([1.0, -1.0] * 3), np.ones(6)
KERNEL, NOISE, MEAN = RBF(0.6, variance=0.09), 0.0025, 0.4
SPACE, LOADS = ConfigurationSpace(knob=range(9)), np.linspace(0.0, 1.0, 6)
ROUNDS, SEEDS = 40, range(10)
WEIGHED = Sharing(again=None)  # the matrix stays as it is declared: weights alone have to find out


def played(seed: int, signs: FloatArray, sharing: Sharing | None) -> tuple[float, list[float]]:
    """Play configurations drawn at random; return the share of true f inside 95 % intervals, and who borrows how far.

    To every station alone the truth is a draw from its prior; to all together it is not what was declared.
    """
    rng = np.random.default_rng(seed)
    controller = Controller(
        SPACE, STATIONS, state={"load": (0, 1)}, similarity=DECLARED, kernel=KERNEL, noise=NOISE, mean=MEAN,
        sharing=sharing, seed=seed,
    )  # fmt: skip
    X = np.concatenate([controller.settings.encoder.contexts({"load": float(load)}) for load in LOADS])
    wave = np.linalg.cholesky(KERNEL(X, X) + 1e-9 * np.eye(len(X))) @ rng.standard_normal(len(X))
    f = (MEAN + signs[:, None] * wave).reshape(6, len(LOADS), len(SPACE))
    for _ in range(ROUNDS):
        at, arms = rng.integers(0, len(LOADS), 6), rng.integers(0, len(SPACE), 6)
        made = controller.ask_all(
            {name: {"load": float(LOADS[i])} for name, i in zip(STATIONS, at, strict=True)},
            allowed={name: [int(arm)] for name, arm in zip(STATIONS, arms, strict=True)},
        )
        for m, decision in enumerate(made.values()):
            controller.tell(decision.id, float(f[m, at[m], decision.arm] + NOISE**0.5 * rng.standard_normal()))
    posterior = posterior_of(controller.policy)
    assert posterior is not None
    found = posterior.predict(np.repeat(np.arange(6), len(X)), np.tile(X, (6, 1)))
    inside = np.abs(f.ravel() - found.mean) <= 1.96 * found.width
    return float(inside.mean()), list((controller.borrowing or {}).values())


def test_stations_declared_alike_that_want_the_opposite_stop_borrowing_and_keep_their_intervals() -> None:
    careful = [played(seed, OPPOSITE, WEIGHED) for seed in SEEDS]
    trusting = [played(seed, OPPOSITE, None) for seed in SEEDS]
    stopped = np.array([weights for _, weights in careful]) < BORROWS
    # Every reward lets a station try again a little, so that one in a dozen may just do so: at least 0.9 less two
    # standard errors of sixty, 0.9 - 2 · 0.039.
    assert stopped.mean() > 0.9 - 0.08
    inside, misled = (np.array([share for share, _ in runs]) for runs in (careful, trusting))
    error = np.std(inside, ddof=1) / np.sqrt(len(inside))
    assert 0.95 - 3.0 * error < inside.mean()
    assert (inside - misled).min() > 0.1  # in every single network
    assert misled.mean() < 0.75


def test_stations_that_are_as_alike_as_declared_go_on_borrowing() -> None:
    runs = [played(seed, ALIKE, WEIGHED) for seed in SEEDS]
    weights = np.array([weights for _, weights in runs])
    assert (weights > 0.5).mean() > 0.95
    assert np.mean([share for share, _ in runs]) > 0.93
