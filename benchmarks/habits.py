"""How often intervals hold on logs that nobody randomised: `python -m benchmarks.habits`, in a few minutes.

The logs are those of `tests/statistical/test_habits_cover.py`, twelve of each problem in the place of three: every
station ran one to three settings. Counted are rewards at settings that a station never ran but others did.
"""

import argparse

import numpy as np
from tests.statistical.test_habits_cover import PROBLEMS, habits_of
from tests.support.habits import covered

from kinband.experiments.compare import mean_over_runs
from kinband.model import learn_model


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--logs", type=int, default=12, help="logs of each problem (%(default)s)")
    logs = parser.parse_args().logs
    print("| problem | rewards in their 95 % interval |\n| --- | --- |")
    everywhere = []
    for problem in PROBLEMS:
        made = [habits_of(problem, seed) for seed in range(logs)]
        models = [learn_model(one.log, "joint", rng=np.random.default_rng(seed)) for seed, one in enumerate(made)]
        held = np.array([covered(model, one.log, one.others)[0] for model, one in zip(models, made, strict=True)])
        everywhere.append(held)
        print(f"| {problem} | {mean_over_runs(held):.0%} |", flush=True)
    print(f"| all | {mean_over_runs(np.concatenate(everywhere)):.0%} |")


if __name__ == "__main__":
    main()
