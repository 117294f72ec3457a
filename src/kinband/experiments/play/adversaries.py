"""Problems that punish sharing, each in its own way, and some that reward it; `problem_of` knows them by name.

- "drawn:alike", "drawn:opposed", "drawn:unrelated": functions drawn as alike as that (`DrawnBandit`).
- "drawn:permuted": two opposed groups, and a similarity that was measured when stations bore each other's names.
- "city:opposed": thirty sectors of the bundled city, every second of them with its thresholds mirrored.
- "city:permuted": the same, and a similarity measured under shuffled names.
- "runs:<file>": a trace of measurement runs such as ColO-RAN (docs/coloran.md): half of the runs, drawn by the seed,
  are what the log is taken from, the others answer.
"""

from dataclasses import replace
from functools import lru_cache

import numpy as np

from kinband.environments import TraceEnvironment, split_by_group, split_trace
from kinband.environments.drawn import DrawnBandit, groups
from kinband.errors import BadInputError
from kinband.experiments.play.problem import Problem
from kinband.records import Samples
from kinband.space import ConfigurationSpace
from kinband.trace import Trace

STATIONS = 20
"""Of a drawn problem."""

SECTORS = 30
"""Of the city."""

_ALIKE = 0.9
_DRAWN = {
    "alike": np.ones(STATIONS, dtype=np.int64),
    "opposed": np.resize([1, -1], STATIONS),
    "unrelated": None,
    "permuted": np.resize([1, -1], STATIONS),
}


def adversary_of(environment: str, *, log_rows: int, seed: int) -> Problem | None:
    """Return the problem of that name; None for one that is not of this module.

    Example:
        >>> len(adversary_of("drawn:opposed", log_rows=3, seed=1).log)
        60
    """
    kind, _, which = environment.partition(":")
    match kind:
        case "drawn" if which in _DRAWN:
            return _drawn(which, log_rows=log_rows, seed=seed)
        case "city" if which in ("opposed", "permuted"):
            return _city(which, log_rows)
        case "runs" if which:
            return _of_runs(which, log_rows=log_rows, seed=seed)
    return None


def _drawn(which: str, *, log_rows: int, seed: int) -> Problem:
    signs = _DRAWN[which]
    bandit = DrawnBandit(np.eye(STATIONS) if signs is None else groups(signs.tolist(), likeness=_ALIKE), seed=seed)
    log = bandit.log(log_rows, np.random.default_rng([seed, 2]))
    return Problem(bandit, log, likeness=_renamed(log, seed) if which == "permuted" else None)


@lru_cache(maxsize=2)
def _city(which: str, log_rows: int) -> Problem:
    trace = Trace.bundled()
    trace = trace.with_space(trace.space())
    some = [trace.stations[i] for i in np.linspace(0, len(trace.stations) - 1, SECTORS).round().astype(int)]
    trace = trace.select(np.isin(trace.station, some))
    log, rest = split_trace(_mirrored(trace, trace.stations[::2]), rows_per_station=log_rows)
    encoder = log.encoder()
    samples = log.samples(encoder, stations=rest.stations)
    likeness = _renamed(samples, 0) if which == "permuted" else None
    return Problem(TraceEnvironment(rest), samples, encoder.state, likeness)


def _mirrored(trace: Trace, stations: tuple[str, ...]) -> Trace:
    """Return the trace with the knobs of some stations turned the other way round."""
    turned = np.isin(trace.station, stations)
    space = trace.space()
    mirrored = {
        knob: np.where(turned, min(space.knobs[knob]) + max(space.knobs[knob]) - values, values)
        for knob, values in trace.configuration.items()
    }
    return replace(trace, configuration=mirrored)


def _renamed(log: Samples, seed: int) -> Samples:
    """Return the log as it would look if stations bore each other's names, none its own."""
    names = np.random.default_rng([seed, 4]).permutation(len(log.stations))
    shifted = np.empty_like(names)
    shifted[names] = np.roll(names, 1)
    return replace(log, tasks=shifted[log.tasks])


@lru_cache(maxsize=2)
def _of_runs(path: str, *, log_rows: int, seed: int) -> Problem:
    import pyarrow.parquet as pq

    try:
        table = pq.read_table(path)
    except (OSError, ValueError) as error:  # pyarrow's own errors are of these kinds
        raise BadInputError(f"{path} is no Parquet file that can be read: make it as docs/coloran.md says") from error
    if not {"task", "run", "r_qos"} <= set(table.column_names):
        raise BadInputError(f"{path} is no table of measurement runs as docs/coloran.md describes it")
    names = table.column_names
    schedulers = [name for name in names if name.startswith("c_sched")]
    columns = {
        "station": "task",
        "time": "epoch_ms",
        "state": [name for name in names if name.startswith("s_")],
        "configuration": [*(name for name in names if name.startswith("c_prb")), *schedulers],
        "reward": "r_qos",
    }
    trace = Trace.from_frame({name: table[name].to_numpy() for name in names}, columns, reward_range=(0, 1))
    space = ConfigurationSpace.from_list(trace.space(), categories=schedulers)
    rng = np.random.default_rng(seed)
    known, rest = split_by_group(trace, table["run"].to_numpy(), share=0.5, rng=rng)
    log = known.sample(log_rows, rng).with_space(space)
    encoder = log.encoder()
    return Problem(TraceEnvironment(rest, space), log.samples(encoder, stations=rest.stations), encoder.state)
