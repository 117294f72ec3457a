"""A policy of your own: Thompson sampling over kinband's posterior, checked, then played against UCB.

A policy has two methods, `choose` and `learn`, and a factory that builds it from a `PolicySpec`. It may draw only from
the generator that it is handed, so that a replay decides the same; `check_policy` tries that and the rest of the
contract. Both policies then play the same trajectories with the same beliefs, so their difference is one in pairs.

Run it: python examples/write_your_own_policy.py
"""

import numpy as np

from kinband import ConfigurationSpace, Controller, check_policy
from kinband.environments import SyntheticBandit
from kinband.experiments.runner import play
from kinband.kernels import RBF
from kinband.policies import PolicyFactory, PolicySpec
from kinband.posterior import make_posterior
from kinband.records import Choice, Observation, Query

SLOTS, RUNS = 60, 10


class Thompson:
    """Draws one reward function from what is believed and plays its best arm."""

    def __init__(self, spec: PolicySpec) -> None:
        s = spec
        self.posterior = make_posterior(s.kernel, s.K_Z, noise=s.noise, mean=s.mean, engine=s.engine)

    def choose(self, query: Query, rng: np.random.Generator) -> Choice:
        """Return the best allowed arm of the draw; the beliefs stay as they are."""
        arms = query.arms
        believed = self.posterior.predict(query.task, query.X[arms])
        draw = believed.sample(1, rng)[0]
        return Choice(int(arms[draw.argmax()]), arms, mean=believed.mean, std=believed.std, score=draw)

    def learn(self, observation: Observation) -> None:
        """Add one reward to what is believed."""
        o = observation
        self.posterior.update([o.task], o.x[None], [o.reward], noise=o.noise)


def regret(policy: str | PolicyFactory, seed: int) -> float:
    """Play one run on the paper's synthetic bandit and return the cumulated regret of all stations."""
    bandit = SyntheticBandit(arm_feature=True)
    M = len(bandit.stations)
    controller = Controller(
        ConfigurationSpace(arm=range(bandit.arms)),
        bandit.stations,
        features=bandit.features,
        similarity=0.9 ** np.abs(np.subtract.outer(np.arange(M), np.arange(M))),  # neighbours in m are alike
        kernel=RBF(0.5, variance=0.1),
        noise=1e-3,
        mean=0.8,
        policy=policy,
        seed=seed,
    )
    return float(play(bandit, controller, slots=SLOTS, seed=seed).realised.sum())


def main() -> None:
    check_policy(Thompson)
    print("Thompson keeps the contract of a policy")
    policies: dict[str, str | PolicyFactory] = {"Thompson": Thompson, "UCB": "ucb", "random": "random"}
    regrets = {name: np.array([regret(policy, seed) for seed in range(RUNS)]) for name, policy in policies.items()}
    print(f"regret of {SLOTS} slots, mean of {RUNS} runs:")
    for name, values in regrets.items():
        print(f"  {name:9} {values.mean():6.2f} ± {values.std(ddof=1) / np.sqrt(RUNS):.2f}")
    pairs = regrets["Thompson"] - regrets["UCB"]
    print(f"Thompson minus UCB, in pairs: {pairs.mean():+.2f} ± {pairs.std(ddof=1) / np.sqrt(RUNS):.2f}")


if __name__ == "__main__":
    main()
