"""Stations that join a running controller, measured: what the first decisions of a newcomer cost."""

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict

from benchmarks.studies.newcomers.playing import measure
from benchmarks.studies.newcomers.results import table_of
from benchmarks.studies.newcomers.scene import Plan


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure from the command line and write a table, or JSON."""
    usual = Plan()
    parser = argparse.ArgumentParser(prog="python -m benchmarks.studies.newcomers", description=__doc__.split("\n")[0])
    parser.add_argument("--runs", type=int, default=20, help="how many draws of newcomers, seeds 1 to this")
    parser.add_argument(
        "--stations", type=int, default=None, help="stations of the city that take part, all by default"
    )
    parser.add_argument("--newcomers", type=int, default=usual.newcomers, help="stations that join later")
    parser.add_argument("--rounds", type=int, default=usual.rounds, help="rounds that the others play before")
    parser.add_argument("--decisions", type=int, default=usual.decisions, help="decisions of a newcomer")
    parser.add_argument("--similarity", default=usual.similarity, help="how likeness is learned from the log")
    parser.add_argument("--beta", type=float, default=usual.beta, help="weight of the width")
    parser.add_argument("--json", action="store_true", help="numbers instead of a table")
    given = vars(parser.parse_args(arguments))
    runs, as_json = given.pop("runs"), given.pop("json")
    found = measure(range(1, runs + 1), Plan(**given))
    sys.stdout.write((json.dumps(asdict(found), indent=1) if as_json else table_of(found)) + "\n")


if __name__ == "__main__":
    main()
