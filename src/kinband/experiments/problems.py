"""What learners are compared on: by name, or any environment, table or trace of one's own.

A problem is an environment to play, whose truth a referee knows, and a log that may be learned from beforehand. Names:

- "x264:kbs", "gcc:exec" and so on: a bundled table of measurements and one of its outcomes, and "x264:kbs:40" for 40 of
  its tasks; "measured:<file>:<outcome>" is a table of one's own whose task column is `task`, on the log scale, less
  being better, and "measured:<file>:<outcome>:max" where more is;
- "smooth": the bundled city by a smooth fit for each station, and "smooth:<path>" any trace that kinband wrote;
- "synthetic": the paper's bandit; "classes:digits", "classes:wine", "classes:digits:relabelled": classes as arms;
- "drawn:alike", "drawn:opposed", "drawn:unrelated": functions drawn as alike as that, and "drawn:permuted": two opposed
  groups, with a similarity that was measured when stations bore each other's names;
- "city:opposed": thirty sectors of the bundled city, every second with its thresholds mirrored; "city:permuted": the
  same, and a similarity measured under shuffled names;
- "bundled", or the path of a trace: its nearest rows answer, by default 5 of the station's own. The paper prints
  neither: "bundled:own:25" takes 25 of the station's own, "bundled:all:100" takes 100 of everybody's;
- "runs:<file>": a trace of measurement runs such as ColO-RAN (docs/extend.md): half of the runs, drawn by the seed,
  are what the log is taken from, the others answer.
"""

import hashlib
import json
import pickle
import re
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from kinband.arrays import BoolArray, IntArray
from kinband.contexts import StateScaler
from kinband.environments import (
    ClassificationBandit,
    DrawsLogs,
    KnowsTruth,
    SmoothFit,
    SmoothTraceEnvironment,
    SyntheticBandit,
    TraceEnvironment,
    split_by_group,
    split_trace,
)
from kinband.environments.contract import Referee
from kinband.environments.measured import BUNDLED, MeasuredEnvironment, MeasuredTable, bundled_measured, read_measured
from kinband.environments.synthetic import DrawnBandit, groups
from kinband.environments.trace import LEAST, earliest_rows, rows_of_some
from kinband.errors import BadInputError
from kinband.model import Model, learn_model
from kinband.parallel import carried_out
from kinband.planning.network import NetworkModel, group_network
from kinband.posterior import ExactPosterior
from kinband.records import Samples
from kinband.space import ConfigurationSpace
from kinband.trace import Trace
from kinband.trace.table import station_numbers

# --- What a learner meets -------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Problem:
    """What a learner meets.

    Attributes:
        environment: What it plays.
        log: What it may learn from beforehand.
        scaler: Scales states, fitted to the log; None where the environment shows context rows only.
        similarity_log: The log that models are learned from, where it is another than that.
        token: Names what it holds, so that results that were kept are found again.
    """

    environment: Referee
    log: Samples
    scaler: StateScaler | None = None
    similarity_log: Samples | None = None
    token: str = ""


@dataclass(frozen=True, eq=False)
class Own:
    """An environment of one's own, which draws its logs.

    Attributes:
        environment: What is played.
        token: Names what it holds before anything is played; empty where it cannot be pickled.
    """

    environment: Any
    token: str = ""

    @classmethod
    def of(cls, environment: Any) -> "Own":
        """Take an environment as it is now."""
        import joblib

        try:
            return cls(environment, str(joblib.hash(environment)))
        except (pickle.PicklingError, AttributeError, TypeError):
            return cls(environment)


# --- A log of the user's own, parted for a comparison: rows to learn from, and rows that answer ---------------------
#
# A learner must not know the rows it is judged by. Rows are parted by time, the first of every station being the log;
# or by groups, such as measurement runs or days, in which a configuration stayed as it was: half of the groups then
# give the log. A smooth fit to the rest answers, so that what is counted as regret could have been saved.


def part_trace(
    trace: Trace, log_rows: int, *, groups: ArrayLike | None = None, skip_short: bool = False, seed: int = 0
) -> tuple[Trace, Trace]:
    """Return a log and the rest of a trace, or say why a comparison on it could not be.

    Args:
        trace: All rows, with times unless there are groups.
        log_rows: Rows of each station in the log, at most.
        groups: The group of each row, (n,): half of them, drawn at random, give the log.
        skip_short: Whether to leave out stations that have too few rows, rather than to refuse them.
        seed: Draws the groups and the rows taken from them.

    Example:
        >>> columns = {"station": ["a"] * 15 + ["b"] * 15, "time": [*range(15)] * 2, "tilt": [2, 4, 6] * 10}
        >>> trace = Trace.from_frame(columns | {"reward": np.linspace(0, 1, 30)}, {"configuration": ["tilt"]})
        >>> [len(part) for part in part_trace(trace, 3)]
        [6, 24]
    """
    if len(trace.stations) < 2:
        raise BadInputError(f"the log holds one station, {trace.stations[0]!r}: sharing takes at least two")
    rng = np.random.default_rng([seed, 3])
    known = (
        earliest_rows(trace, log_rows) if groups is None else rows_of_some(trace, groups, share=_half(groups), rng=rng)
    )
    short = _short(trace, known)
    if short and not skip_short:
        rows = int((trace.station == short[0]).sum())
        raise BadInputError(
            f"{len(short)} of {len(trace.stations)} station(s) have too few rows, such as {short[0]!r} with {rows}: a "
            f"comparison learns from {log_rows} of each and plays on {LEAST} others at least",
            hint="ask for fewer with log_rows, or leave such stations out with skip_short",
            code="too_few_rows",
            argument="log_rows",
            value=log_rows,
        )
    kept = ~np.isin(trace.station, short)
    if len(short) > len(trace.stations) - 2:
        raise BadInputError(
            f"only {len(trace.stations) - len(short)} of {len(trace.stations)} station(s) have rows to learn from and "
            "rows to play on, sharing takes two",
            hint="give more rows, or ask for fewer with log_rows",
            code="too_few_stations",
            argument="log_rows",
            value=log_rows,
        )
    trace = trace.with_space(trace.space())
    log, rest = trace.select(known & kept), trace.select(~known & kept)
    _check_worth(rest)
    return (log if groups is None else log.sample(log_rows, rng)), rest


def problem_from(log: Trace, rest: Trace) -> Problem:
    """Return the problem of a trace that `part_trace` has parted; the same rows always have the same token."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # said by whoever read the trace
        problem = _with_log(SmoothTraceEnvironment(rest, fit_stations), log)
    held = [_plain(part) for part in (log, rest)]
    token = hashlib.sha256(json.dumps(held, default=str).encode()).hexdigest()[:20]
    return replace(problem, token=f"trace {token}")


PLAYED = 60
"""Stations of a group that is played."""


def problems_of_groups(
    log: Trace,
    rest: Trace,
    *,
    seeds: Sequence[int],
    seed: int = 0,
    workers: int | None = None,
    ray: str | None = None,
    tick: Callable[[], None] | None = None,
) -> tuple[dict[int, Problem], int]:
    """Return a problem for each seed, a group of similar stations of a large network; and how many groups there are.

    Who is alike is seen from the log alone. Groups are drawn at random, a seed each as long as there are enough.

    Args:
        log: Rows to learn from.
        rest: Rows that answer, as `part_trace` has parted them.
        seeds: What groups are drawn for.
        seed: Draws them.
        workers: Processes; None or 0 for one per core.
        ray: The Ray cluster to run on instead, "host:port" or "auto".
        tick: Called whenever a group is ready.
    """
    encoder = log.encoder()
    network = group_network(log.samples(encoder), encoder, size=PLAYED, seed=seed)
    numbers = np.random.default_rng([seed, 4]).permutation(len(network.groups))
    drawn = {one: int(numbers[i % len(numbers)]) for i, one in enumerate(seeds)}
    sides = [(network.rows(station_numbers(log)), log), (_rows_of(network, rest), rest)]
    calls = {
        number: (problem_from, tuple(trace.select(rows[number]) for rows, trace in sides))
        for number in sorted(set(drawn.values()))
    }
    found: dict[int, Problem] = {}
    for number, problem in carried_out(calls, workers=workers, ray=ray):
        found[number] = problem
        if tick is not None:
            tick()
    return {one: found[number] for one, number in drawn.items()}, len(network.groups)


def _rows_of(network: NetworkModel, rest: Trace) -> list[IntArray]:
    """The rows of each group among those that answer."""
    place = {name: number for number, name in enumerate(network.stations)}
    return network.rows(np.array([place[name] for name in rest.stations])[station_numbers(rest)])


def _with_log(world: Referee, log: Trace) -> Problem:
    """An environment made of one part of a trace, with the other to learn from."""
    encoder = log.encoder()
    return Problem(world, log.samples(encoder, stations=world.stations), encoder.state)


def _plain(trace: Trace) -> list[Any]:
    """All that a trace holds, in plain values."""
    columns = {"station": trace.station, "time": trace.time, "reward": trace.reward, **trace.configuration}
    states = dict(zip(trace.state_names, trace.state.T, strict=True))
    named = {name: None if column is None else column.tolist() for name, column in (columns | states).items()}
    return [named, list(trace.space()), trace.space().categorical]


def _half(groups: ArrayLike) -> float:
    """The share of groups that give the log: half of them, rounded down."""
    count = max(len(np.unique(np.asarray(groups))), 2)
    return count // 2 / count


def _short(trace: Trace, known: BoolArray) -> list[str]:
    """The stations that have too few rows on one of the sides."""
    number, M = station_numbers(trace), len(trace.stations)
    log, rest = (np.bincount(number[rows], minlength=M) for rows in (known, ~known))
    return [trace.stations[m] for m in np.flatnonzero((log < 2) | (rest < LEAST)).tolist()]


def _check_worth(rest: Trace) -> None:
    """Refuse rows on which no choice could be better than another."""
    if len(rest.space()) < 2:
        raise BadInputError(f"the log holds one configuration, {rest.space()[0]}: there is nothing to choose")
    if rest.reward.min() == rest.reward.max():
        raise BadInputError(f"all rewards to play for are {rest.reward[0]:g}: there is nothing to gain")


# --- Problems that punish sharing, each in its own way, and some that reward it --------------------------------------

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


def _drawn_problem(which: str, *, log_rows: int, seed: int) -> Problem:
    signs = _DRAWN[which]
    bandit = DrawnBandit(np.eye(STATIONS) if signs is None else groups(signs.tolist(), similarity=_ALIKE), seed=seed)
    log = bandit.log(log_rows, np.random.default_rng([seed, 2]))
    return Problem(bandit, log, similarity_log=_renamed(log, seed) if which == "permuted" else None)


@lru_cache(maxsize=2)
def _city(which: str, log_rows: int) -> Problem:
    trace = Trace.bundled()
    trace = trace.with_space(trace.space())
    some = [trace.stations[i] for i in np.linspace(0, len(trace.stations) - 1, SECTORS).round().astype(int)]
    trace = trace.select(np.isin(trace.station, some))
    log, rest = split_trace(_mirrored(trace, trace.stations[::2]), rows_per_station=log_rows)
    problem = _with_log(TraceEnvironment(rest), log)
    return replace(problem, similarity_log=_renamed(problem.log, 0)) if which == "permuted" else problem


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
        raise BadInputError(f"{path} is no Parquet file that can be read: make it as docs/extend.md says") from error
    if not {"task", "run", "r_qos"} <= set(table.column_names):
        raise BadInputError(f"{path} is not a table of measurement runs as docs/extend.md describes it")
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
    return _with_log(TraceEnvironment(rest, space), log)


# --- Problems with a known truth that are made of data --------------------------------------------------------------


@lru_cache(maxsize=2)
def _measured(which: str) -> MeasuredEnvironment:
    parts, tasks = _parted(which)
    more = parts[-1] == "max" and bool(parts.pop())
    *source, outcome = parts
    if not source:
        raise BadInputError(f"a measured problem is called measured:TABLE:OUTCOME, got 'measured:{which}'")
    if ":".join(source) in BUNDLED:
        return bundled_measured(source[0], outcome, tasks=tasks)
    return read_measured(":".join(source), outcome, goal="max" if more else "min", tasks=tasks)


def _classes(which: str, seed: int) -> ClassificationBandit:
    (data, *how), tasks = _parted(which)
    if how not in ([], ["relabelled"]):
        raise BadInputError(f"a problem of classes is called classes:DATA or classes:DATA:relabelled, got {which!r}")
    count = {} if tasks is None else {"tasks": tasks}
    return ClassificationBandit(data, relabelled=bool(how), seed=seed, **count)  # type: ignore[arg-type]


def _parted(which: str) -> tuple[list[str], int | None]:
    """The parts of a name, and the number of tasks at its end."""
    parts = which.split(":")
    return (parts[:-1], int(parts[-1])) if len(parts) > 1 and parts[-1].isdigit() else (parts, None)


# --- A trace as a problem with a known truth: each station's own Gaussian process over all its rows, plus its noise
#
# Kernel (RBF with one length-scale per column, plus a level), noise and mean are found by likelihood on rows of all
# stations, taken as independent, as those of a learner that does not share. Each station's truth is then the posterior
# mean given its own rows, at most 1,000 of them. Its noise is that of its residuals e: Σe² over the number of rows less
# the degrees of freedom that the fit took, the trace of its hat matrix.

MOST = 1000
"""Rows of a station that its truth is made of, drawn at random where it has more."""


@lru_cache(maxsize=2)
def _world(source: str) -> SmoothTraceEnvironment:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # said once by whoever read the trace, not again by every process
        trace = Trace.read(source) if source else Trace.bundled()
        return SmoothTraceEnvironment(trace.with_space(trace.space()), fit_stations)


def fit_stations(samples: Samples) -> list[SmoothFit]:
    """Return the fit of each station's rows.

    Example:
        >>> rng = np.random.default_rng(3)
        >>> X = rng.uniform(-1, 1, size=(200, 1))
        >>> y = np.cos(3 * X[:, 0]) + 0.1 * rng.standard_normal(200)
        >>> (fit,) = fit_stations(Samples(("a",), np.zeros(200, dtype=np.int64), X, y, None, ("load",)))
        >>> bool(np.abs(fit.mean(X) - np.cos(3 * X[:, 0])).max() < 0.1), 0.08 < fit.deviation < 0.12
        (True, True)
    """
    rng = np.random.default_rng(0)
    if np.ptp(samples.y) == 0:
        raise BadInputError(f"all rewards are {samples.y[0]:g}: there is nothing to fit")
    model = learn_model(samples, "independent", rng=rng)
    tasks = range(len(samples.stations))
    return [_fit(samples.take(_some(np.flatnonzero(samples.tasks == task), rng)), model) for task in tasks]


def _some(rows: IntArray, rng: np.random.Generator) -> IntArray:
    return rows if len(rows) <= MOST else rng.choice(rows, size=MOST, replace=False)


def _fit(own: Samples, model: Model) -> SmoothFit:
    """The posterior mean of a station given its rows, and the standard deviation of its residuals.

    With A = K + N, the residuals are N A⁻¹(y − mean), so that divided by the noise they are the weights of the mean;
    and a posterior variance divided by the noise is an entry of the diagonal of the hat matrix K A⁻¹.
    """
    known = np.zeros(len(own)) if own.noise is None else np.nan_to_num(own.noise)
    noise, zeros = model.noise + known, np.zeros(len(own), dtype=np.int64)
    posterior = ExactPosterior(model.kernel, [[1.0]], noise=model.noise, mean=model.mean)
    posterior.update(zeros, own.X, own.y, noise=noise)
    found = posterior.predict(zeros, own.X)
    residuals = own.y - found.mean
    freedom = len(own) - float((found.std**2 / noise).sum())
    weights, kernel, X, level = residuals / noise, model.kernel, own.X, model.mean
    return SmoothFit(lambda at: level + kernel(at, X) @ weights, float(np.sqrt(residuals @ residuals / freedom)))


# --- A problem by its name, or of an object -------------------------------------------------------------------------

NEIGHBOURS = 5
"""Rows that answer what a setting earns in a state, unless a name says otherwise."""

_SIZES = {
    "synthetic": (5, 5),
    "drawn": (20, 10),
    "city": (30, 29),
    "runs": (7, 84),
    "measured": (60, 200),
    "classes": (8, 10),
}  # stations, arms


def problem_of(problem: "str | Own | Problem", *, log_rows: int, seed: int) -> Problem:
    """Return the problem of a name, or of an environment of one's own; a `Problem` is one.

    Example:
        >>> len(problem_of("synthetic", log_rows=7, seed=1).log)
        35
    """
    if isinstance(problem, Problem):
        return problem
    if isinstance(problem, Own):
        return _drawn_from(problem.environment, log_rows=log_rows, seed=seed)
    kind, _, which = problem.partition(":")
    match kind:
        case "drawn" if which in _DRAWN:
            return _drawn_problem(which, log_rows=log_rows, seed=seed)
        case "city" if which in ("opposed", "permuted"):
            return _city(which, log_rows)
        case "runs" if which:
            return _of_runs(which, log_rows=log_rows, seed=seed)
        case "synthetic":
            bandit = SyntheticBandit()
            return Problem(bandit, bandit.log(log_rows, np.random.default_rng([seed, 1])))
        case "measured":
            return _drawn_from(_measured(which), log_rows=log_rows, seed=seed)
        case "classes":
            return _drawn_from(_classes(which, seed), log_rows=log_rows, seed=seed)
        case "smooth":
            return _drawn_from(_world(which), log_rows=log_rows, seed=seed)
    if kind in BUNDLED:
        return _drawn_from(_measured(problem), log_rows=log_rows, seed=seed)
    return _trace_problem(problem, log_rows)


def as_problem(given: Any, *, log_rows: int) -> "str | Own | Problem":
    """Return what `problem_of` takes for a table, a trace, a name or an environment, or say what it lacks."""
    if isinstance(given, MeasuredTable):
        return Own.of(MeasuredEnvironment(given))
    if isinstance(given, Trace):
        return problem_from(*part_trace(given, log_rows))
    if isinstance(given, str):
        problem_of(given, log_rows=1, seed=0)  # an unknown name is refused before any work
        return given
    if isinstance(given, Problem):
        return given
    if isinstance(given, KnowsTruth) and isinstance(given, DrawsLogs):
        return Own.of(given)
    raise BadInputError(
        f"a problem is a name, a trace, a table or an environment with truth() and log(), not {given!r:.60}",
        argument="problems",
        value=given,
    )


def drawn_by_seed(problem: "str | Own | Problem") -> bool:
    """Whether the log of a problem follows from the seed of a run, and with it the models learned from it."""
    if not isinstance(problem, str):
        return isinstance(problem, Own)
    kind = problem.partition(":")[0]
    return kind in BUNDLED or kind in ("synthetic", "drawn", "runs", "measured", "classes", "smooth")


def size_of(problem: "str | Own | Problem") -> tuple[int, int]:
    """Return the number of stations and of arms, roughly where it is known by name: to tell how long runs take."""
    if isinstance(problem, str):
        kind = problem.partition(":")[0]
        return _SIZES["measured"] if kind in BUNDLED else _SIZES.get(kind, (105, 29))
    return len(problem.environment.stations), problem.environment.arms


def _drawn_from(world: Any, *, log_rows: int, seed: int) -> Problem:
    """An environment with a log that it draws."""
    log = world.log(log_rows, np.random.default_rng([seed, 2]))
    if world.space is None or not world.slot.states:
        return Problem(world, log)
    encoder = getattr(world, "encoder", None)
    return Problem(world, log, StateScaler.identity(()) if encoder is None else encoder.state)


def answers_of(name: str) -> tuple[str, bool, int]:
    """Return the trace that a name means, whether everybody's rows answer, and how many are averaged."""
    named = re.fullmatch(r"(.+):(own|all):([0-9]+)", name)
    if named is not None:
        return named[1], named[2] == "all", int(named[3])
    if name.startswith("bundled:"):
        raise BadInputError(
            f"the bundled city is called bundled, bundled:own:NEIGHBOURS or bundled:all:NEIGHBOURS, got {name!r}"
        )
    return name, False, NEIGHBOURS


@lru_cache(maxsize=2)
def _trace_problem(name: str, log_rows: int) -> Problem:
    source, pooled, neighbours = answers_of(name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # said once by whoever read the trace, not again by every process
        trace = Trace.bundled() if source == "bundled" else Trace.read(source)
        log, rest = split_trace(trace.with_space(trace.space()), rows_per_station=log_rows)
        return _with_log(TraceEnvironment(rest, neighbours=neighbours, pooled=pooled), log)
