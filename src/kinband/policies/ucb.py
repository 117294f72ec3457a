"""UCB over all tasks: the paper's Algorithms 1 (parallel) and 2 (sequential).

Both score every arm by f̂ + βσ (12) and play the best. They differ in when rewards are learned: after every decision,
or after all stations of a round have decided; that is the caller's doing. With a task matrix of ones this is the
pooled learner, with the identity Kernel-UCB per task. With `rounds="aware"`, which is not the paper's, stations of a
round take each other's picks into account.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, get_args

import numpy as np

from kinband.arrays import FloatArray
from kinband.errors import BadInputError
from kinband.policies.base import PolicySpec, check_options, learn_block, pick_best, sweeps
from kinband.policies.exploration import Exploration
from kinband.posterior import Posterior, Prediction
from kinband.records import Choice, Observation, Query

Rounds = Literal["plain", "aware"]
"""Whether stations of a round know what the others of it have picked."""


class UCB:
    """Plays the arm with the largest f̂ + βσ.

    Args:
        posterior: What is believed; starts as given.
        exploration: The β of (12).
        noise: λ of the paper, for rules that depend on it.
        per_task: Whether β counts the rewards of the task at hand (learners that share nothing) or all.
        rounds: "plain", or "aware" for rounds in which stations take each other's picks into account (`Pending`).

    Example:
        >>> from kinband.kernels import RBF
        >>> policy = UCB.build(PolicySpec(RBF(0.5), np.ones((2, 2)), noise=0.1, arms=2))
        >>> policy.learn(Observation(task=0, x=np.array([0.0]), arm=0, reward=-1.0))
        >>> query = Query(1, np.array([[0.0], [3.0]]), np.array([True, True]))
        >>> policy.choose(query, np.random.default_rng(0)).arm
        1
    """

    def __init__(
        self,
        posterior: Posterior,
        exploration: Exploration,
        *,
        noise: float,
        per_task: bool = False,
        rounds: Rounds = "plain",
    ) -> None:
        self.posterior = posterior
        self.exploration = exploration
        self.noise = noise
        self.per_task = per_task
        self.rounds = rounds
        self._known: dict[int, int] = {}

    @classmethod
    def build(cls, spec: PolicySpec) -> "UCB":
        """Return the policy for a spec, with nothing learned yet."""
        rounds = check_options(spec, "rounds").get("rounds", "plain")
        if rounds not in get_args(Rounds):
            raise BadInputError(f"rounds must be one of {', '.join(get_args(Rounds))}, got {rounds!r}")
        return cls(spec.posterior(), spec.exploration, noise=spec.noise, rounds=rounds)

    def choose(self, query: Query, rng: np.random.Generator) -> Choice:
        """Return the arm with the largest f̂ + βσ among those allowed."""
        return self.consider(query, rng)[0]

    def consider(self, query: Query, rng: np.random.Generator) -> tuple[Choice, Prediction]:
        """Return what `choose` does and, for rules that look at other arms too, the prediction it was made from."""
        prediction = self.posterior.predict(query.task, query.X[query.arms])
        return self._choice(query, prediction, rng), prediction

    def choose_round(self, queries: Sequence[Query], rngs: Sequence[np.random.Generator]) -> list[Choice]:
        """Decide many stations from the same beliefs, in one sweep."""
        choices: list[Choice] = []
        for part, prediction, sizes in sweeps(self.posterior, queries):
            choices += self._choices(queries[part], rngs[part], prediction, sizes)
        return choices

    def learn(self, observation: Observation) -> None:
        """Add one reward to the posterior."""
        learn_block(self.posterior, [observation])
        self._count(observation.task)

    def learn_log(self, observations: Sequence[Observation]) -> None:
        """Add many rewards in one block."""
        learn_block(self.posterior, observations)
        for observation in observations:
            self._count(observation.task)

    def correct(self, index: int, reward: float) -> None:
        """Replace the reward of the index-th observation learned."""
        self.posterior.correct(index, reward)

    def extend_like(self, pattern: "UCB") -> None:
        """Take in the tasks that a policy of the same factory, with nothing learned, was built for."""
        self.posterior.extend_tasks(pattern.posterior.K_Z)

    def state(self) -> dict[str, Any]:
        """Return the beliefs as arrays by name."""
        known = np.array(sorted(self._known.items()), dtype=np.int64).reshape(-1, 2)
        return {**self.posterior.state(), "known": known}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take up what `state` returned."""
        self.posterior.restore(state)
        self._known = {int(task): int(count) for task, count in state["known"]}

    def _count(self, task: int) -> None:
        self._known[task] = self._known.get(task, 0) + 1

    def _beta(self, query: Query) -> float:
        known = self._known.get(query.task, 0) if self.per_task else len(self.posterior)
        return self.exploration.beta(known=known, arms=len(query.X), noise=self.noise)

    def _choices(
        self,
        queries: Sequence[Query],
        rngs: Sequence[np.random.Generator],
        prediction: Prediction,
        sizes: Sequence[int],
    ) -> list[Choice]:
        """Decide the stations of a round; where they know each other's picks, by the std that those leave."""
        pending = Pending(prediction, noise=self.noise) if self.rounds == "aware" and len(queries) > 1 else None
        choices, start = list[Choice](), 0
        for query, rng, own in zip(queries, rngs, prediction.split(sizes), strict=True):
            std = None if pending is None else pending.std[start : start + len(own.mean)]
            choices.append(self._choice(query, own, rng, std=std))
            if pending is not None:
                pending.pick(start + int(np.searchsorted(choices[-1].arms, choices[-1].arm)))
            start += len(own.mean)
        return choices

    def _choice(
        self, query: Query, prediction: Prediction, rng: np.random.Generator, *, std: FloatArray | None = None
    ) -> Choice:
        """The best arm by mean and std; `std` is what pending picks leave of it, where those are known."""
        score = prediction.mean + self._beta(query) * (prediction.std if std is None else std)  # (12)
        return self._best(query, prediction, score, rng)

    def _best(self, query: Query, prediction: Prediction, score: FloatArray, rng: np.random.Generator) -> Choice:
        """The best-scored arm, with the work that its update can take up."""
        arms, best = query.arms, pick_best(score, rng)
        return Choice(int(arms[best]), arms, prediction.mean, prediction.std, score, cache=prediction.column(best))


# --- A round that knows its own picks: what is already being tried this slot need not be tried again next door ------
#
# Stations of a parallel round decide from the same beliefs, so those that resemble each other try the same thing at
# the same time, and only the first trial teaches much. A pending reward is not known, but how much it will narrow
# every standard deviation is: variances of a Gaussian posterior do not depend on rewards. So stations decide one after
# the other, each with the standard deviations that the others' picks leave (Desautels, Krause and Burdick 2014,
# GP-BUCB, who call the pending rewards hallucinated); means stay as they are.
#
# With c the covariance of a pick with everything still open, given the data and earlier picks, and λ the noise, the
# variances fall by c²/(c_pick + λ): one row of a Cholesky factor per pick, over all arms of the round.


class Pending:
    """The standard deviations of a round as its picks narrow them.

    Args:
        prediction: Of all arms of the round, (m,), question after question.
        noise: Variance of a reward, λ.
    """

    def __init__(self, prediction: Prediction, *, noise: float) -> None:
        self._prediction, self._noise = prediction, noise
        self._left = prediction.std**2
        self._rows: list[FloatArray] = []

    @property
    def std(self) -> FloatArray:
        """What the picks so far leave, (m,)."""
        return np.asarray(np.sqrt(np.maximum(self._left, 0.0)))

    def pick(self, at: int) -> None:
        """Take in that the arm at a position is tried."""
        c = self._prediction.covariance(np.array([at]))[0]
        for row in self._rows:
            c = c - row[at] * row
        row = c / np.sqrt(max(self._left[at], 0.0) + self._noise)
        self._left = self._left - row**2
        self._rows.append(row)
