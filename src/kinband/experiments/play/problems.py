"""The problem of a case: an environment to play, and a log that may be learned from beforehand.

On a trace the log is the first rows of every station, and the environment answers from the rest: disjoint in time. A
folder holds a user's trace that `parts` has parted already; there a smooth fit to the rest answers, so that what is
counted as regret could have been saved. `smooth` draws its log instead.

A trace answers from the 5 nearest of the station's own rows. The paper prints neither; other readings have names:
"bundled:own:25" takes 25 of the station's own, "bundled:all:100" takes 100 of everybody's, and so for any trace.
"""

import re
import warnings
from functools import lru_cache, partial
from pathlib import Path

import numpy as np

from kinband.environments import SmoothTraceEnvironment, SyntheticBandit, TraceEnvironment, split_trace
from kinband.errors import BadInputError
from kinband.experiments.play.adversaries import adversary_of
from kinband.experiments.play.cases import Case
from kinband.experiments.play.parts import read_parts
from kinband.experiments.play.problem import Problem
from kinband.experiments.play.smooth import fit_stations, smooth_problem
from kinband.experiments.play.tables import table_problem
from kinband.trace import Trace

NEIGHBOURS = 5
"""Rows that answer what a setting earns in a state, unless a case says otherwise."""


def problem_of(case: Case) -> Problem:
    """Return the problem of a case.

    Example:
        >>> from kinband.experiments.play.cases import Learner
        >>> case = Case("demo", "fair", "synthetic", Learner("alone", "independent"), "parallel", 10, 1, log_rows=7)
        >>> len(problem_of(case).log)
        35
    """
    if case.environment == "synthetic":
        bandit = SyntheticBandit()
        return Problem(bandit, bandit.log(case.log_rows, np.random.default_rng([case.seed, 1])))
    adversary = adversary_of(case.environment, log_rows=case.log_rows, seed=case.seed)
    table = table_problem(case.environment, log_rows=case.log_rows, seed=case.seed)
    smooth = smooth_problem(case.environment, log_rows=case.log_rows, seed=case.seed)
    return adversary or table or smooth or _trace_problem(case.environment, case.log_rows)


def answers_of(environment: str) -> tuple[str, bool, int]:
    """Return the trace that an environment is made of, whether everybody's rows answer, and how many are averaged.

    Example:
        >>> answers_of("bundled"), answers_of("bundled:all:100")
        (('bundled', False, 5), ('bundled', True, 100))
    """
    named = re.fullmatch(r"(.+):(own|all):([0-9]+)", environment)
    if named is not None:
        return named[1], named[2] == "all", int(named[3])
    if environment.startswith("bundled:"):
        raise BadInputError(
            f"the bundled city is called bundled, bundled:own:NEIGHBOURS or bundled:all:NEIGHBOURS, got {environment!r}"
        )
    return environment, False, NEIGHBOURS


@lru_cache(maxsize=2)
def _trace_problem(environment: str, log_rows: int) -> Problem:
    source, pooled, neighbours = answers_of(environment)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # said once by whoever read the trace, not again by every process
        parted = Path(source).is_dir()
        log, rest = read_parts(Path(source)) if parted else _split(source, log_rows)
        encoder = log.encoder()
        nearest = partial(TraceEnvironment, neighbours=neighbours, pooled=pooled)
        world = SmoothTraceEnvironment(rest, fit_stations) if parted else nearest(rest)
        return Problem(world, log.samples(encoder, stations=rest.stations), encoder.state)


def _split(source: str, log_rows: int) -> tuple[Trace, Trace]:
    trace = Trace.bundled() if source == "bundled" else Trace.read(source)
    return split_trace(trace.with_space(trace.space()), rows_per_station=log_rows)
