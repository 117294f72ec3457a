"""Safe trials measured: how often a promise is broken, and what keeping it costs."""

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict

from benchmarks.studies.safety.playing import measure
from benchmarks.studies.safety.results import Finding, table_of
from benchmarks.studies.safety.rules import PROBLEMS


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure from the command line and write a table, or JSON."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.studies.safety", description=__doc__.split("\n")[0])
    parser.add_argument("--seeds", type=int, default=50, help="how many runs, seeds 1 to this")
    parser.add_argument("--slots", type=int, default=200, help="rounds a run")
    parser.add_argument("--problem", choices=list(PROBLEMS), action="append", help="both by default")
    parser.add_argument("--beta", type=float, default=1.0, help="weight of the width")
    parser.add_argument("--stations", type=int, default=6, help="sectors of the city")
    parser.add_argument("--json", action="store_true", help="numbers instead of a table")
    given = parser.parse_args(arguments)
    results: Mapping[str, list[Finding]] = {
        problem: measure(
            problem, seeds=range(1, given.seeds + 1), slots=given.slots, beta=given.beta, stations=given.stations
        )
        for problem in given.problem or PROBLEMS
    }
    if given.json:
        text = json.dumps({problem: [asdict(f) for f in found] for problem, found in results.items()}, indent=1)
    else:
        text = "\n\n".join(f"**{problem}**\n\n{table_of(found)}" for problem, found in results.items())
    sys.stdout.write(text + "\n")


if __name__ == "__main__":
    main()
