"""UCB over all tasks: the paper's Algorithms 1 (parallel) and 2 (sequential).

Both score every arm by f̂ + βσ (12) and play the best. They differ in when rewards are learned: after every decision,
or after all stations of a round have decided; that is the caller's doing. With a task matrix of ones this is the
pooled learner, with the identity Kernel-UCB per task. With `rounds="aware"`, which is not the paper's, stations of a
round take each other's picks into account.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, get_args

import numpy as np

from kinband.arrays import FloatArray
from kinband.errors import BadInputError
from kinband.policies.base import Pending, Setting, check_options, learn_block, learn_one, pick_best
from kinband.policies.exploration import Exploration
from kinband.posterior import Column, Prediction
from kinband.posterior.base import FullPosterior, Question, ScoresArms, SolvesColumns
from kinband.records import Choice, Observation, Query

Rounds = Literal["plain", "aware"]
"""Whether stations of a round know what the others of it have picked."""

_ROUND_ENTRIES = 2**25  # columns of a round are solved in chunks of at most this many numbers (256 MB)


class UCB:
    """Plays the arm with the largest f̂ + βσ.

    Args:
        posterior: What is believed; starts as given.
        exploration: The β of (12).
        noise: λ of the paper, for rules that depend on it.
        per_task: Whether β counts the rewards of the task at hand (learners that share nothing) or all.
        rounds: "plain", or "aware" for rounds in which stations take each other's picks into account (`awareness`).

    Example:
        >>> from kinband.kernels import RBF
        >>> policy = UCB.build(Setting(RBF(0.5), np.ones((2, 2)), noise=0.1, arms=2))
        >>> policy.learn(Observation(task=0, x=np.array([0.0]), arm=0, reward=-1.0))
        >>> query = Query(1, np.array([[0.0], [3.0]]), np.array([True, True]))
        >>> policy.choose(query, np.random.default_rng(0)).arm
        1
    """

    def __init__(
        self,
        posterior: FullPosterior,
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
    def build(cls, setting: Setting) -> "UCB":
        """Return the policy for a setting, with nothing learned yet."""
        rounds = check_options(setting, "rounds").get("rounds", "plain")
        if rounds not in get_args(Rounds):
            raise BadInputError(f"rounds must be one of {', '.join(get_args(Rounds))}, got {rounds!r}")
        if rounds == "aware" and setting.engine == "schur":
            raise BadInputError("rounds='aware' needs a posterior with joint predictions: choose engine='auto'")
        return cls(setting.posterior(), setting.exploration, noise=setting.noise, rounds=rounds)

    def choose(self, query: Query, rng: np.random.Generator) -> Choice:
        """Return the arm with the largest f̂ + βσ among those allowed."""
        return self._choice(query, self._predict_together([query])[0], rng)

    def consider(self, query: Query, rng: np.random.Generator) -> tuple[Choice, Prediction | None]:
        """Return what `choose` does and, for rules that look at other arms too, the prediction it was made from."""
        if type(self).choose is not UCB.choose:  # a policy that chooses in a way of its own
            return self.choose(query, rng), None
        prediction = self._predict_together([query])[0]
        return self._choice(query, prediction, rng), prediction

    def choose_round(self, queries: Sequence[Query], rngs: Sequence[np.random.Generator]) -> list[Choice]:
        """Decide many stations from the same beliefs, in one sweep where the posterior allows it."""
        if self.rounds == "aware" and len(queries) > 1:
            return self._with_columns(queries, self._choose_aware(queries, rngs))
        # The sweep of a single decision leaves the column of its arm behind.
        if len(queries) == 1 or not isinstance(self.posterior, SolvesColumns):
            return [self.choose(query, rng) for query, rng in zip(queries, rngs, strict=True)]
        predictions = (one for part in self._parts(queries) for one in self._predict_together(queries[part]))
        chosen = [self._choice(q, found, rng) for q, found, rng in zip(queries, predictions, rngs, strict=True)]
        return self._with_columns(queries, chosen)

    def learn(self, observation: Observation) -> None:
        """Add one reward to the posterior."""
        learn_one(self.posterior, observation)
        self._count(observation.task)

    def learn_log(self, observations: Sequence[Observation]) -> None:
        """Add many rewards in one block."""
        learn_block(self.posterior, observations)
        for observation in observations:
            self._count(observation.task)

    def correct(self, index: int, reward: float) -> None:
        """Replace the reward of the index-th observation learned."""
        self.posterior.correct(index, reward)

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

    def _choice(
        self, query: Query, prediction: Prediction, rng: np.random.Generator, *, width: FloatArray | None = None
    ) -> Choice:
        """The best arm by mean and width; `width` is what pending picks leave of it, where those are known."""
        arms = query.arms
        score = prediction.mean + self._beta(query) * (prediction.width if width is None else width)  # (12)
        best = pick_best(score, rng)
        choice = Choice(int(arms[best]), arms, prediction.mean, prediction.width, score)
        return with_column(choice, prediction.column(best))

    def _choose_aware(self, queries: Sequence[Query], rngs: Sequence[np.random.Generator]) -> list[Choice]:
        """Decide one station after the other, each with the widths that the picks before it leave."""
        posterior: Any = self.posterior
        choices: list[Choice] = []
        for part in self._parts(queries):
            together = posterior.predict_together([Question(q.task, q.X, q.arms) for q in queries[part]])
            pending = Pending(together, noise=self.noise)
            for i, (query, rng) in enumerate(zip(queries[part], rngs[part], strict=True)):
                choices.append(self._choice(query, together.predictions[i], rng, width=pending.width(i)))
                pending.pick(i, int(np.flatnonzero(query.arms == choices[-1].arm)[0]))
        return choices

    def _with_columns(self, queries: Sequence[Query], choices: Sequence[Choice]) -> list[Choice]:
        """The choices of a round with the columns of what they play, where the posterior solves them ahead."""
        posterior = self.posterior
        if not isinstance(posterior, SolvesColumns):
            return list(choices)
        played = np.array([query.X[choice.arm] for query, choice in zip(queries, choices, strict=True)])
        columns = posterior.columns(np.array([query.task for query in queries]), played)
        return [with_column(choice, column) for choice, column in zip(choices, columns, strict=True)]

    def _parts(self, queries: Sequence[Query]) -> Iterator[slice]:
        """Cut a round into parts whose columns fit into memory together."""
        per_sweep = max(1, _ROUND_ENTRIES // max(1, len(self.posterior)))
        start = 0
        while start < len(queries):
            stop, columns = start, 0
            while stop < len(queries) and (stop == start or columns + len(queries[stop].arms) <= per_sweep):
                columns += len(queries[stop].arms)
                stop += 1
            yield slice(start, stop)
            start = stop

    def _predict_together(self, queries: Sequence[Query]) -> list[Prediction]:
        if isinstance(self.posterior, ScoresArms):
            return self.posterior.predict_arms([Question(q.task, q.X, q.arms) for q in queries])
        return [self.posterior.predict(np.full(len(q.arms), q.task), q.X[q.arms]) for q in queries]


def with_column(choice: Choice, column: Column | None) -> Choice:
    """Return a choice that keeps the column of its arm, and remembers how it was solved, where there is one.

    Example:
        >>> with_column(Choice(2, np.arange(4), memo={"seen": 3}), Column(arm=2)).memo
        {'seen': 3, 'arm': 2}
    """
    if column is None:
        return choice
    return replace(choice, memo={**choice.memo, **column.memo}, cache=column)
