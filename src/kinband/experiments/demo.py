"""The demonstration: five stations that learn together against five that learn alone, on the paper's synthetic bandit.

Every learner, the baseline included, gets its kernel, noise and prior mean by marginal likelihood from the same log,
given its own similarity, and plays Algorithm 1 from a cold start on the same slots. The paper's result on this problem
is in docs/paper.md.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from kinband.arrays import FloatArray
from kinband.configurations import ConfigurationSpace
from kinband.controller import Controller
from kinband.environments import SyntheticBandit
from kinband.experiments.play import play
from kinband.model import Model, learn_model
from kinband.similarity import TaskMatrix

LEARNERS = {
    "independent": "each station alone (Kernel-UCB)",
    "pooled": "all stations as one",
    "embedding": "shared, by conditional embedding",
    "prediction": "shared, by mutual R²",
    "coregionalisation": "shared, by likelihood",
}
BASELINE = "independent"


@dataclass(frozen=True, eq=False)
class Curves:
    """Cumulated regret of one learner, over all stations, for every seed.

    Attributes:
        learner: A key of `LEARNERS`.
        regret: Against the best reward of each slot, (seeds, slots).
    """

    learner: str
    regret: FloatArray

    @property
    def final(self) -> FloatArray:
        """Regret at the end of each run, (seeds,)."""
        return self.regret[:, -1]


def run_demo(
    *,
    slots: int,
    seeds: Sequence[int],
    log_rows: int,
    beta: float,
    tick: Callable[[str], None] | None = None,
) -> tuple[list[Curves], TaskMatrix]:
    """Return the curves of every learner, and the similarity by embedding of the first seed.

    `tick` is called with the learner's name after every slot.

    Example:
        >>> curves, similarity = run_demo(slots=3, seeds=[1], log_rows=12, beta=1.0)
        >>> [c.learner for c in curves][:2], curves[0].regret.shape, similarity.stations
        (['independent', 'pooled'], (1, 3), ('1', '2', '3', '4', '5'))
    """
    regret: dict[str, list[FloatArray]] = {name: [] for name in LEARNERS}
    shown: TaskMatrix | None = None
    for seed in seeds:
        bandit = SyntheticBandit()
        log = bandit.log(log_rows, np.random.default_rng([seed, 1]))
        for name in LEARNERS:
            model = learn_model(log, name, rng=np.random.default_rng([seed, 2]))
            shown = model.similarity if shown is None and name == "embedding" else shown
            each = None if tick is None else partial(tick, name)
            controller = _controller(bandit, model, beta=beta, seed=seed)
            run = play(bandit, controller, slots=slots, seed=seed, tick=each)
            regret[name].append(run.realised.cumsum())
    assert shown is not None  # noqa: S101
    return [Curves(name, np.array(runs)) for name, runs in regret.items()], shown


def saving(curves: Curves, baseline: Curves) -> tuple[float, float, float]:
    """Return the share of the baseline's regret that is saved, and a 95 % interval over paired seeds.

    The interval is by bootstrap over seeds: 2,000 resamples of the pairs, with a fixed seed.

    Example:
        >>> a, b = Curves("x", np.array([[6.0], [5.0]])), Curves("y", np.array([[10.0], [10.0]]))
        >>> round(saving(a, b)[0], 3)
        0.45
    """
    ours, theirs = curves.final, baseline.final
    picks = np.random.default_rng(0).integers(len(ours), size=(2000, len(ours)))
    resampled = 1.0 - ours[picks].sum(axis=1) / theirs[picks].sum(axis=1)
    low, high = np.quantile(resampled, [0.025, 0.975])
    return float(1.0 - ours.sum() / theirs.sum()), float(low), float(high)


def _controller(bandit: SyntheticBandit, model: Model, *, beta: float, seed: int) -> Controller:
    return Controller(
        ConfigurationSpace(arm=range(1, bandit.arms + 1)),
        bandit.stations,
        similarity=model.similarity,
        kernel=model.kernel,
        noise=model.noise,
        mean=model.mean,
        beta=beta,
        seed=seed,
        features=bandit.features,
        reward_range=bandit.reward_range,
    )
