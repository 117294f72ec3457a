"""A similarity and a policy of your own, compared fairly with kinband's on measurements of real systems.

A similarity is an object whose `fit(log)` returns a matrix; a policy is a factory that builds an object with `choose`
and `learn` from a `PolicySpec`. Everybody gets the same logs, seeds and choice of β; what is saved of learning alone is
counted in pairs, with intervals.

Run it: python examples/compare_your_own.py
"""

import numpy as np

import kinband
from kinband.policies import PolicySpec
from kinband.posterior import make_posterior
from kinband.records import Choice, Observation, Query, Samples


class MeanRewards:
    """A similarity: tasks are alike that rank the same configurations high."""

    def fit(self, log: Samples) -> np.ndarray:
        M, columns = len(log.stations), np.unique(log.X, axis=0, return_inverse=True)[1].ravel()
        table = np.zeros((M, columns.max() + 1))
        np.add.at(table, (log.tasks, columns), log.y - log.y.mean())
        table /= np.maximum(np.linalg.norm(table, axis=1, keepdims=True), 1e-9)
        return 0.5 * table @ table.T + 0.5  # correlations of what was seen, shrunk towards sharing


class EpsilonGreedy:
    """A policy: the best mean, but now and then anything."""

    def __init__(self, spec: PolicySpec) -> None:
        s = spec
        self.posterior = make_posterior(s.kernel, s.K_Z, noise=s.noise, mean=s.mean, engine=s.engine)

    def choose(self, query: Query, rng: np.random.Generator) -> Choice:
        arms = query.arms
        believed = self.posterior.predict(np.full(len(arms), query.task), query.X[arms])
        best = rng.integers(len(arms)) if rng.random() < 0.05 else believed.mean.argmax()
        return Choice(int(arms[best]), arms, mean=believed.mean, std=believed.std)

    def learn(self, observation: Observation) -> None:
        o = observation
        self.posterior.update([o.task], o.x[None], [o.reward], noise=o.noise)


def main() -> None:
    found = kinband.compare(
        {"kinband": "joint", "mean rewards": MeanRewards(), "epsilon-greedy": EpsilonGreedy, "random": "random"},
        ["gcc:exec:10", "x264:kbs:10"],
        seeds=5, rounds=5, log_rows=4, betas=[0.3], n_jobs=1,
    )  # fmt: skip
    print(found)
    found.frame().to_csv("runs.csv", index=False)
    found.plot()[0].figure.savefig("regret.png")
    best = found.summary().query("learner != 'independent'").groupby("problem")["saved"].idxmax()
    for problem, row in best.items():
        print(f"most is saved on {problem} by {found.summary().loc[row, 'learner']}")


if __name__ == "__main__":
    main()
