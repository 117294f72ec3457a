"""Do the intervals hold what they promise? `python -m benchmarks.coverage` counts, where the truth is known.

A *world* is a finite set of states of every station together with what each configuration earns in each of them, taken
from the paper's synthetic bandit or from a trace environment. From it logs are drawn by a policy that prefers other
configurations in other states, as a network's own rules do, so that plain averages mislead. The truth is an average
over the whole set, and an interval either holds it or does not. The model's kernel and similarity are fixed: nothing
is fitted, and a hundred logs take seconds.
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from kinband.arrays import FloatArray
from kinband.environments import SyntheticTasks, TraceEnvironment
from kinband.kernels import RBF
from kinband.model import Model
from kinband.ope.evaluating import evaluate, learn
from kinband.ope.targets import Beliefs, Target, chosen, part, recommended
from kinband.similarity import TaskMatrix
from kinband.space import ConfigurationSpace
from kinband.stats import Estimate
from kinband.trace import Trace

_SHARE, _FOLDS = 0.4, 4
_FLOOR = 0.4  # the share of its choices that the log's policy draws evenly
_STATES = 300  # states of each station


@dataclass(frozen=True, eq=False)
class World:
    """What every configuration earns in every state.

    Attributes:
        name: What it was taken from.
        stations: Its M stations.
        S: States, (M, P, p).
        R: Expected rewards, (M, P, N).
        noise: Standard deviation of a reward around them.

    Example:
        >>> world = synthetic_world()
        >>> world.S.shape, world.R.shape
        ((5, 300, 2), (5, 300, 5))
        >>> trace, propensity = world.log(40, np.random.default_rng(0))
        >>> len(trace), bool((propensity > 0).all())
        (200, True)
    """

    name: str
    stations: tuple[str, ...]
    S: FloatArray
    R: FloatArray
    noise: float

    @property
    def space(self) -> ConfigurationSpace:
        """The configurations, numbered."""
        return ConfigurationSpace(setting=range(self.R.shape[2]))

    @property
    def state_names(self) -> tuple[str, ...]:
        """Names of the state features."""
        return tuple(f"s{j}" for j in range(self.S.shape[2]))

    def habits(self) -> FloatArray:
        """Return with which probability the log chooses each configuration in each state, (M, P, N)."""
        M, P, N = self.R.shape
        order = self.S[..., 0].argsort(axis=1).argsort(axis=1) / (P - 1)  # from 0 to 1 along the first feature
        liked = order + np.arange(M)[:, None] / (2 * M)
        near = np.exp(-((np.arange(N) / (N - 1) - liked[..., None]) ** 2) / 0.1)
        return np.asarray(_FLOOR / N + (1 - _FLOOR) * near / near.sum(axis=2, keepdims=True))

    def log(self, rows: int, rng: np.random.Generator) -> tuple[Trace, FloatArray]:
        """Return a log with so many rows of every station, and the probability of what each row ran, (n,)."""
        M, P, _ = self.R.shape
        m, j = np.tile(np.arange(M), rows), rng.integers(P, size=rows * M)
        p = self.habits()[m, j]
        arms = (rng.random(len(m))[:, None] > p.cumsum(axis=1)).sum(axis=1).clip(max=p.shape[1] - 1)
        columns = {"station": np.array(self.stations)[m], "time": np.arange(len(m)), "setting": arms}
        columns |= {"reward": self.R[m, j, arms] + self.noise * rng.normal(size=len(m))}
        columns |= dict(zip(self.state_names, self.S[m, j].T, strict=True))
        trace = Trace.from_frame(columns, {"configuration": ["setting"], "state": list(self.state_names)})
        return trace.with_space(self.space), p[np.arange(len(m)), arms]

    def truth(self, target: Target) -> float:
        """Return what a policy earns in this world."""
        M, P, N = self.R.shape
        choices = target.choices(np.repeat(self.stations, P), self.S.reshape(M * P, -1))
        rewards = np.take_along_axis(self.R.reshape(M * P, N), choices.arms, axis=1)
        return float(choices.average(rewards).mean())

    def model(self) -> Model:
        """Return the model that is used as it is: everything about a standard deviation wide, stations half alike."""
        M = len(self.stations)
        names = (*self.state_names, "setting")
        kernel = RBF(np.full(len(names), 1.5).tolist(), variance=float(self.R.var()), columns=names)
        alike = TaskMatrix(self.stations, 0.5 + 0.5 * np.eye(M), "given")
        return Model(kernel, alike, noise=self.noise**2 + 0.05 * float(self.R.var()), mean=float(self.R.mean()))

    def rule(self) -> Target:
        """Return a policy that looks at the first state feature alone."""
        low, high, middle = 0, self.R.shape[2] - 1, float(np.median(self.S[..., 0]))
        return chosen(
            lambda _, s: {"setting": low if s["s0"] < middle else high}, self.space, self.state_names, name="a rule"
        )


def synthetic_world(*, seed: int = 1) -> World:
    """Return the paper's synthetic bandit with its hidden parameter shown as the state."""
    formulas = SyntheticTasks()
    u = np.random.default_rng(seed).random((_STATES, 2))
    S = np.broadcast_to(u, (formulas.tasks, *u.shape))
    R = np.moveaxis(formulas.rewards(u), 0, 1)
    return World("synthetic bandit", tuple(map(str, formulas.numbers)), S, R, noise=0.1)


def trace_world(*, seed: int = 1, stations: int = 6) -> World:
    """Return some stations of the bundled city as a trace environment answers for them, thresholds 7 dB apart."""
    city = Trace.bundled()
    names = city.stations[:stations]
    some = city.select(np.isin(city.station, names))
    environment = TraceEnvironment(some, seed=seed)
    arms = np.arange(0, environment.arms, 7)
    S, R = np.empty((stations, _STATES, len(some.state_names))), np.empty((stations, _STATES, len(arms)))
    for j in range(_STATES):
        states = environment.slot.states
        for m, name in enumerate(names):
            S[m, j] = [states[name][feature] for feature in some.state_names]
            R[m, j] = environment.truth(name).expected[arms]
        environment.play({names[0]: 0})
    return World("bundled city", names, S, R, noise=0.05)


@dataclass(frozen=True)
class Count:
    """How often intervals held the truth.

    Attributes:
        repeats: Logs drawn.
        covered: Logs whose doubly robust interval held the truth.
        width: Mean half width of the intervals.
        error: Root of the mean squared error of the estimates.
    """

    repeats: int
    covered: int
    width: float
    error: float


def count(world: World, *, policy: str, known: bool, repeats: int = 100, rows: int = 60, seed: int = 0) -> Count:
    """Draw logs and count how often the doubly robust interval holds the truth.

    Args:
        world: Where the truth is known.
        policy: "rule" for a given policy, "recommend" for one that is learned from every log anew.
        known: Whether propensities are given or estimated.
        repeats: How many logs.
        rows: Rows of each station in a log.
        seed: Draws the logs.

    Example:
        >>> count(synthetic_world(), policy="rule", known=True, repeats=2).repeats
        2
    """
    found: list[Estimate] = []
    truths = []
    for i in range(repeats):
        trace, propensity = world.log(rows, np.random.default_rng([seed, i]))
        target = world.rule() if policy == "rule" else _recommended(trace, world)
        given = propensity if known else None
        answer = evaluate(trace, target, propensity=given, model=world.model(), learn_share=_SHARE, folds=_FOLDS)
        found.append(answer.value)
        truths.append(world.truth(target))
    held = [one.low <= truth <= one.high for one, truth in zip(found, truths, strict=True)]
    errors = np.array([one.value for one in found]) - np.array(truths)
    width = float(np.mean([one.high - one.low for one in found])) / 2
    return Count(repeats, sum(held), width, float(np.sqrt((errors**2).mean())))


def _recommended(trace: Trace, world: World) -> Target:
    """What would be recommended after the part of a log that `evaluate` learns from."""
    arms = trace.space().indices(trace.configuration)
    earlier = trace.select(part(trace, arms, share=_SHARE, folds=_FOLDS).earlier)
    encoder, model = learn(earlier, similarity="pooled", model=world.model())
    return recommended(Beliefs.learn(model, earlier.samples(encoder), encoder))


def report(repeats: int = 100) -> Iterator[str]:
    """Yield how often the intervals hold the truth, in every world, for every policy."""
    for world in (synthetic_world(), trace_world()):
        for policy in ("rule", "recommend"):
            for known in (True, False):
                done = count(world, policy=policy, known=known, repeats=repeats)
                kind = "known" if known else "estimated"
                yield (
                    f"{world.name}, {policy}, propensities {kind}: {done.covered} of {done.repeats} intervals hold the "
                    f"truth, half width {done.width:.4f}, error {done.error:.4f}"
                )


def main(arguments: Sequence[str] | None = None) -> None:
    """Print how often the intervals hold the truth."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.coverage", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("repeats", type=_repeats, nargs="?", default=100, help="logs of each kind (default 100)")
    for line in report(parser.parse_args(arguments).repeats):
        sys.stdout.write(line + "\n")
        sys.stdout.flush()


def _repeats(text: str) -> int:
    number = int(text) if text.isdecimal() else 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"must be a whole number of at least 1, got {text!r}")
    return number


if __name__ == "__main__":
    main()
