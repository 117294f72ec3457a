"""What the sparse posterior costs in regret: the same learner with 512 inducing points and with all rows, seed by seed.

Two problems of the fair protocol, started from the log: 4,000 sequential decisions on the bundled trace, and 1,000
slots of the paper's synthetic bandit, which are 5,000 rewards. Exact runs that `kinband reproduce` has left in the same
folder are not repeated.

Run it: python -m benchmarks.sparse_regret [--runs 10] [--out out/reproduce]
"""

import argparse
from dataclasses import replace
from pathlib import Path

import numpy as np

from kinband.experiments.compare import saving_of
from kinband.experiments.paper import FIGURES
from kinband.experiments.runner import Case, Curve, Learner, run_cases

BETAS = {"synthetic": 0.3, "sequential": 2.0}
"""What the fair protocol chooses for this learner."""


def cases_of(problem: str, *, engine: str, runs: int) -> list[Case]:
    """Return the runs of one posterior on one problem."""
    learner = Learner("embedding", "embedding", beta=BETAS[problem], engine=engine, hyperprior=False)
    return [FIGURES[problem].fair_case(learner, seed) for seed in range(1, runs + 1)]


def final(curves: list[Curve]) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Return the regret at the end of every run."""
    return np.array([curve.realised[-1] for curve in curves])


def main() -> None:
    """Run both posteriors on both problems and print the paired differences."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--out", type=Path, default=Path("out/reproduce"))
    arguments = parser.parse_args()
    for problem in BETAS:
        found = {}
        for engine in ("exact", "sparse"):
            cases = cases_of(problem, engine=engine, runs=arguments.runs)
            found[engine] = run_cases(cases, arguments.out)
        exact, sparse = final(found["exact"]), final(found["sparse"])
        more = saving_of(sparse, exact)
        more = replace(more, value=-more.value, low=-more.high, high=-more.low)
        seconds = {engine: np.mean([curve.seconds for curve in curves]) for engine, curves in found.items()}
        print(f"{problem}, {arguments.runs} paired runs: exact {exact.mean():.1f}, sparse {sparse.mean():.1f}")
        print(f"  the sparse posterior costs {more:.1%} more regret; by seed: {np.round(sparse / exact - 1, 3)}")
        print(f"  seconds a run: exact {seconds['exact']:.0f}, sparse {seconds['sparse']:.0f}")


if __name__ == "__main__":
    main()
