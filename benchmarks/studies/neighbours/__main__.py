"""What a network gains when stations answer for more than a number of their own, measured on the live simulator."""

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from benchmarks.studies.neighbours.plan import QUICK, Plan
from benchmarks.studies.neighbours.playing import measure
from benchmarks.studies.neighbours.results import draw, findings, table_of


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure from the command line and write a table, or JSON; progress goes to the error stream."""
    from threadpoolctl import threadpool_limits

    parser = argparse.ArgumentParser(prog="python -m benchmarks.studies.neighbours", description=__doc__.split("\n")[0])
    parser.add_argument("--runs", type=int, default=10, help="how many runs")
    parser.add_argument("--first-seed", type=int, default=1, help="seed of the first run; the others count up")
    parser.add_argument("--quick", action="store_true", help="a tiny city for a moment, to see that it runs")
    parser.add_argument("--workers", type=int, default=1, help="processes")
    parser.add_argument("--keep", type=Path, help="a folder for records: what is there is not run again")
    parser.add_argument("--figure", type=Path, help="a file to draw the findings to")
    parser.add_argument("--json", action="store_true", help="numbers instead of a table")
    given = parser.parse_args(arguments)
    seeds = range(given.first_seed, given.first_seed + given.runs)
    plan = QUICK if given.quick else Plan()
    with threadpool_limits(limits=1):  # threads beside busy processes wait for each other
        records = measure(seeds, plan, folder=given.keep, workers=given.workers, tick=_say)
    found = findings(records)
    if given.figure is not None:
        draw(found, given.figure)
    sys.stdout.write((json.dumps([asdict(f) for f in found], indent=1) if given.json else table_of(found)) + "\n")


def _say(line: str) -> None:
    sys.stderr.write(line + "\n")


if __name__ == "__main__":
    main()
