"""How much the weight β of the width matters to the joint model: `python -m benchmarks.beta`.

Regret a decision on the seeds that choose, problem by problem, beside the best β of that problem; the default is the β
whose regret is smallest in the geometric mean. Runs of `make claims` are used again. Long runs, 1,000 decisions a
station, are played on the paper's synthetic bandit, which has few stations.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks.findings import FULL, decisions
from benchmarks.running import play_all
from benchmarks.runs import BETAS, JOINT, Contest, Plan, contests, plans, read

LONG = Contest("synthetic bandit, 1,000 rounds", "synthetic", 1000, 20)


def main(arguments: Sequence[str] | None = None) -> int:
    """Play what is missing and print the table."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.beta", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--coloran", type=Path, help="the table of ColO-RAN, as docs/extend.md makes it")
    parser.add_argument("--out", type=Path, default=Path("out/claims"), help="where runs are kept (%(default)s)")
    given = parser.parse_args(arguments)
    chosen = [*contests(given.coloran), LONG]
    todo = [plan for contest in chosen for plan in _plans(contest)]
    play_all([plan.job(given.out) for plan in todo], workers=None, what="playing")
    rows = {contest.name: _regrets(contest, given.out) for contest in chosen}
    print(f"| problem | {' | '.join(f'β = {beta:g}' for beta in BETAS)} |\n|{' --- |' * (len(BETAS) + 1)}")
    for name, regret in rows.items():
        print(f"| {name} | {' | '.join(f'{value:.4f} ({value / regret.min():.2f})' for value in regret)} |")
    excess = np.exp(np.mean([np.log(regret / regret.min()) for regret in rows.values()], axis=0))
    print(f"| geometric mean over the best | {' | '.join(f'{value:.3f}' for value in excess)} |")
    return 0


def _plans(contest: Contest) -> list[Plan]:
    return plans(contest, [JOINT], FULL.tuning, BETAS)


def _regrets(contest: Contest, folder: Path) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Regret a decision by β, (b,)."""
    runs = [read(plan, folder) for plan in _plans(contest)]
    found = [np.mean([run["regret"][str(beta)][-1] for run in runs]) for beta in BETAS]
    return np.array(found, dtype=np.float64) / decisions(contest)


if __name__ == "__main__":
    sys.exit(main())
