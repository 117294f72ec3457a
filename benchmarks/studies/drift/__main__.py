"""Stations that change, measured: how soon a controller is back to where it was, and what being prepared costs."""

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict

from benchmarks.studies.drift.playing import PROBLEMS, measure
from benchmarks.studies.drift.results import Plan, draw, findings, table_of


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure from the command line and write a table, or JSON."""
    usual = Plan()
    parser = argparse.ArgumentParser(prog="python -m benchmarks.studies.drift", description=__doc__.split("\n")[0])
    parser.add_argument("--seeds", type=int, default=20, help="how many runs of each, seeds 1 to this")
    parser.add_argument("--first", type=int, default=1, help="the first seed")
    parser.add_argument("--problem", choices=PROBLEMS, action="append", help="both by default")
    parser.add_argument("--stations", type=int, default=usual.stations, help="stations of the city that take part")
    parser.add_argument("--before", type=int, default=usual.before, help="slots before the change")
    parser.add_argument("--after", type=int, default=usual.after, help="slots from the change on")
    parser.add_argument("--half-life", type=float, default=usual.half_life, help="of those who forget, in slots")
    parser.add_argument("--beta", type=float, default=usual.beta, help="weight of the width")
    parser.add_argument("--quick", action="store_true", help="two seeds of a small problem, to see that it runs")
    parser.add_argument("--figure", metavar="PATH", help="draw the regret around a step too")
    parser.add_argument("--json", action="store_true", help="numbers instead of a table")
    given = parser.parse_args(arguments)
    plan = Plan(given.stations, given.before, given.after, half_life=given.half_life, beta=given.beta)
    seeds = range(given.first, given.first + given.seeds)
    if given.quick:
        plan, seeds = Plan(6, 10, 12, window=3), seeds[:2]
    records = measure(seeds, plan, problems=given.problem or PROBLEMS)
    found = findings(records, plan)
    if given.figure:
        draw(records, plan, given.figure)
    text = json.dumps([asdict(f) for f in found], indent=1) if given.json else table_of(found)
    sys.stdout.write(text + "\n")


if __name__ == "__main__":
    main()
