"""What a network gains when stations answer for more than a number of their own, measured on the live simulator.

Sectors of a simulated city choose their handover thresholds slot by slot, and the users they send away arrive
somewhere else: nothing here is read from a log, what one sector does others feel. Every learner starts from the same
log of random thresholds, drawn on other traffic, and then runs the network on the same traffic. They differ in their
reward:

- *today*: nothing is learned, all sectors keep today's threshold;
- *cell*: the count of the capacity cell alone, which rises with every weak user that is sent away;
- *cell, neighbours w*: the same, w of the reward being that of the coverage cells its users fall to, which decide
  nothing and are told beside;
- *cell, floor*: the count of the capacity cell, with a floor under the share of the sector over all its carriers, a
  KPI with a posterior of its own;
- *sector*: the share of the sector over all its carriers, which counts the users wherever they end up;
- *sector, neighbours w*: the same, w of it being that of the sectors its users are most likely handed over to.

What counts is none of their rewards but the share of satisfied sessions of the whole network, over the last part of
the run, compared in pairs of runs on the same traffic. Beside it: the share of sectors below the floor in that time.

The table and the figure of docs/your-data.md:

    python -m benchmarks.studies.neighbours --runs 10 --workers 2
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.running import kept
from kinband.arrays import FloatArray
from kinband.controller import Controller
from kinband.environments.radio import KNOB, Parameters, RadioEnvironment, Report
from kinband.errors import BadInputError
from kinband.experiments.compare import mean_over_runs
from kinband.experiments.runner import Job, run_jobs
from kinband.kpis import KpiFloor, NeighbourReward
from kinband.stats import Estimate
from kinband.trace import Trace

# --- What is played, and the learners by name -----------------------------------------------------------------------

TODAY, CELL, FLOORED, SECTOR = "today", "cell", "cell, floor", "sector"
BESIDE = ", neighbours "
"""What stands between a reward and the neighbours' share of it in the name of a learner."""


@dataclass(frozen=True)
class Plan:
    """What is played.

    Attributes:
        stations: Sectors of the city.
        load: Multiplies the number of users.
        period_s: Length of a slot in simulated seconds.
        log_slots: Slots of the log, with thresholds drawn at random.
        slots: Slots of a run.
        tail: Slots at its end that count.
        cell_weights: Shares of a cell's reward that are the coverage cells'.
        sector_weights: Shares of a sector's reward that are its neighbours'.
        neighbours: How many each has.
        floor: What the share of a sector must not fall below.
        similarity: How similarity is learned from the log.
        beta: Weight of the width.
    """

    stations: int = 21
    load: float = 1.2
    period_s: float = 60.0
    log_slots: int = 12
    slots: int = 100
    tail: int = 50
    cell_weights: tuple[float, ...] = (0.5, 0.8)
    sector_weights: tuple[float, ...] = (0.3,)
    neighbours: int = 4
    floor: float = 0.85
    similarity: str = "joint"
    beta: float = 0.3

    @property
    def learners(self) -> tuple[str, ...]:
        """The learners by name."""
        cells = (f"{CELL}{BESIDE}{w:g}" for w in self.cell_weights)
        return (TODAY, CELL, *cells, FLOORED, SECTOR, *(f"{SECTOR}{BESIDE}{w:g}" for w in self.sector_weights))


QUICK = Plan(stations=6, period_s=20.0, log_slots=4, slots=6, tail=3, cell_weights=(0.8,), similarity="pooled")
"""A plan to see that everything runs; it says nothing."""


# --- The simulated city, what it counts in a slot, and a log of random thresholds drawn on other traffic ------------

SHARE, COUNT, COVERAGE = "sector_share", "cell_share", "coverage_share"
_LOG_TRAFFIC = 50_000  # added to a seed: the log is of traffic that nobody is judged on


def environment_of(plan: Plan, seed: int) -> RadioEnvironment:
    """Return the city of a plan with the traffic of a seed, from five in the afternoon on."""
    hours = (17.0, 17.0 + max(plan.slots, plan.log_slots) * plan.period_s / 3600)
    parameters = Parameters(load=plan.load)
    return RadioEnvironment(plan.stations, seed=seed, period_s=plan.period_s, hours=hours, parameters=parameters)


def drawn_log(plan: Plan, seed: int) -> dict[str, Any]:
    """Return a log of random thresholds: one row a sector and slot, with states from the slot before."""
    environment = environment_of(plan, seed + _LOG_TRAFFIC)
    rng = np.random.default_rng([seed, 4])
    rows: dict[str, list[Any]] = {}
    for t in range(plan.log_slots):
        states = environment.slot.states
        arms = {station: int(rng.integers(environment.arms)) for station in environment.stations}
        environment.play(arms)
        columns = columns_of(environment.earned)
        for i, station in enumerate(environment.stations):
            row = {"station": station, "time": t, KNOB: environment.space[arms[station]][KNOB], **states[station]}
            row |= {name: float(values[i]) for name, values in columns.items()}
            for name, value in row.items():
                rows.setdefault(name, []).append(value)
    return rows


def columns_of(report: Report) -> dict[str, FloatArray]:
    """Return the shares of sectors, of their capacity and of their other cells, with their variances, (S,) each."""
    satisfied, sessions = report.capacity_satisfied, report.capacity_sessions
    counts = {SHARE: (report.satisfied, report.sessions), COUNT: (satisfied, sessions)}
    counts[COVERAGE] = report.satisfied - satisfied, report.sessions - sessions
    found: dict[str, FloatArray] = {}
    for name, (satisfied, sessions) in counts.items():
        n, p = np.maximum(sessions, 1), (satisfied + 1) / (sessions + 2)
        found[name] = np.where(sessions > 0, satisfied / n, 0.5)
        found[f"{name}_noise"] = np.where(sessions > 0, p * (1 - p) / n, 1 / 12)
    return found


# --- Who learns -----------------------------------------------------------------------------------------------------

_COUNTED = (SHARE, COUNT, COVERAGE)


def controller_of(plan: Plan, learner: str, *, seed: int, log: Mapping[str, Any]) -> Controller:
    """Return the controller of a learner that has learned from a log."""
    name = reward_of(learner)
    states = [column for column in log if column not in ("station", "time", KNOB) and not column.startswith(_COUNTED)]
    columns = {"reward": name, "noise": f"{name}_noise", "configuration": [KNOB], "state": states}
    environment = environment_of(plan, seed)
    extra: dict[str, Any] = {}
    rule = rule_of(plan, learner, environment)
    if rule is not None and name == SHARE:
        extra["neighbours"] = rule
    if learner == FLOORED:
        columns["kpis"] = [SHARE]
        extra["kpis"] = KpiFloor(SHARE, at_least=plan.floor)
        extra["running"] = {KNOB: int(environment.parameters.start_threshold_dbm)}
    trace = Trace.from_frame(log if rule is None or extra else _with_coverage(log, rule), columns, duplicates="drop")
    controller = Controller.from_trace(
        trace, environment.space, similarity=plan.similarity, beta=plan.beta, engine="exact", seed=seed, **extra
    )
    if rule is None or extra:
        return controller
    setup = controller.setup
    return Controller.from_setup(replace(setup, config=setup.config.replace(neighbours=rule)))


def rule_of(plan: Plan, learner: str, environment: RadioEnvironment) -> NeighbourReward | None:
    """Return whose rewards count for a learner: coverage cells for a cell, other sectors for a sector."""
    if BESIDE not in learner:
        return None
    reward, weight = learner.split(BESIDE)
    if reward == SECTOR:
        return NeighbourReward(environment.neighbours(plan.neighbours), weight=float(weight))
    near = environment.coverage_cells(plan.neighbours)
    named = {station: {_coverage_name(name): part for name, part in cells.items()} for station, cells in near.items()}
    cells = [_coverage_name(station) for station in environment.stations]
    return NeighbourReward(named, weight=float(weight), others=cells)


def coverage_of(columns: Mapping[str, FloatArray], stations: Sequence[str]) -> dict[str, tuple[float, float]]:
    """Return the share of every coverage cell, with its variance, as neighbours' rewards."""
    pairs = zip(columns[COVERAGE].tolist(), columns[f"{COVERAGE}_noise"].tolist(), strict=True)
    return {_coverage_name(station): pair for station, pair in zip(stations, pairs, strict=True)}


def _with_coverage(log: Mapping[str, Any], rule: NeighbourReward) -> dict[str, Any]:
    """A log in which the count of a cell is mixed with those of coverage cells in the same slot."""
    at: dict[int, dict[str, Any]] = {}
    for time, station, share, noise in zip(
        log["time"], log["station"], log[COVERAGE], log[f"{COVERAGE}_noise"], strict=True
    ):
        at.setdefault(time, {})[_coverage_name(station)] = (share, noise)
    own = zip(log["time"], log["station"], log[COUNT], log[f"{COUNT}_noise"], strict=True)
    mixed = [rule.mixed(station, (share, noise), at[time]) for time, station, share, noise in own]
    return {**log, COUNT: [reward for reward, _ in mixed], f"{COUNT}_noise": [noise for _, noise in mixed]}


def _coverage_name(station: str) -> str:
    return f"{station}, coverage"


def reward_of(learner: str) -> str:
    """Return the column that a learner counts as its reward."""
    return COUNT if learner.startswith(CELL) else SHARE


# --- What runs of the network say -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Record:
    """One learner on one seed.

    Attributes:
        seed: The traffic.
        learner: Its name.
        share: Share of satisfied sessions of the network in the slots that count.
        below: Share of sectors whose own share in those slots is below the floor.
        earned: Mean reward of a sector as its learner counts it, neighbours left out.
        trials: Share of decisions other than today's threshold.
    """

    seed: int
    learner: str
    share: float
    below: float
    earned: float
    trials: float


@dataclass(frozen=True)
class Finding:
    """One learner over all seeds: `gain` is its share beyond that of learners that count their cell alone, in pairs."""

    learner: str
    share: Estimate
    gain: Estimate
    below: Estimate
    earned: Estimate
    trials: float


def findings(records: Sequence[Record]) -> list[Finding]:
    """Return what records say of every learner.

    Example:
        >>> records = [Record(1, "cell", 0.7, 0.3, 0.9, 0.6), Record(1, "sector", 0.8, 0.1, 0.8, 0.5)]
        >>> [round(found.gain.value, 3) for found in findings(records)]
        [0.0, 0.1]
    """
    by_learner: dict[str, dict[int, Record]] = {}
    for record in records:
        by_learner.setdefault(record.learner, {})[record.seed] = record
    selfish = by_learner[CELL]
    found = []
    for learner, runs in by_learner.items():
        gain = np.array([run.share - selfish[seed].share for seed, run in runs.items()])
        columns = {name: _column(runs, name) for name in ("share", "below", "earned", "trials")}
        share, below, earned = (mean_over_runs(columns[name]) for name in ("share", "below", "earned"))
        found.append(Finding(learner, share, mean_over_runs(gain), below, earned, float(columns["trials"].mean())))
    return found


def _column(runs: Mapping[int, Record], name: str) -> FloatArray:
    return np.array([getattr(run, name) for run in runs.values()])


def table_of(found: Sequence[Finding]) -> str:
    """Return findings as a Markdown table."""
    head = ("learner", "network's share", "beyond cell", "sectors below the floor", "reward as it counts", "trials")
    lines = [head, ["---"] * len(head)]
    for f in found:
        numbers = (f"{f.share:.3f}", f"{f.gain:+.3f}", f"{f.below:.0%}", f"{f.earned:.3f}")
        lines.append((f.learner, *numbers, f"{f.trials:.0%}"))
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def draw(found: Sequence[Finding], file: Path) -> None:
    """Draw the network's share of every learner with its interval, and the reward as the learner counts it."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 0.5 * len(found) + 1.2), layout="constrained")
    axes = figure.subplots()
    places = np.arange(len(found))[::-1]
    for label, colour, estimates in (
        ("whole network, all users", "#0072B2", [f.share for f in found]),
        ("as the learner counts it", "#D55E00", [f.earned for f in found]),
    ):
        values = np.array([estimate.value for estimate in estimates])
        spans = np.array([[e.value - e.low, e.high - e.value] for e in estimates]).T
        offset = 0.12 if colour == "#0072B2" else -0.12
        axes.errorbar(values, places + offset, xerr=np.nan_to_num(spans), fmt="o", color=colour, label=label)
    axes.set_yticks(places, [f.learner for f in found])
    axes.set_xlabel("share of sessions with 5 Mbps or more")
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(frameon=False, loc="outside upper left", ncols=2)
    figure.savefig(file, dpi=120)


# --- The network run by one learner on one seed, and by all of them over processes, each run kept in a file ---------


def measure(
    seeds: Sequence[int],
    plan: Plan | None = None,
    *,
    folder: Path | None = None,
    workers: int = 1,
    tick: Callable[[str], None] | None = None,
) -> list[Record]:
    """Run every learner on every seed and return one record each.

    Args:
        seeds: The traffic of the runs.
        plan: What is played.
        folder: Where records are kept; what is there already is not run again.
        workers: How many processes.
        tick: Called with a line after every run.

    Example:
        >>> from benchmarks.studies.neighbours import QUICK
        >>> [record.learner for record in measure([101], QUICK)]
        ['today', 'cell', 'cell, neighbours 0.8', 'cell, floor', 'sector', 'sector, neighbours 0.3']
    """
    plan = plan or Plan()
    if not 1 <= plan.tail <= plan.slots:
        raise BadInputError(f"of {plan.slots} slots the last 1 to {plan.slots} can count, got {plan.tail}")
    with tempfile.TemporaryDirectory() as temporary:
        place = Path(temporary) if folder is None else folder
        pairs = [(seed, learner) for seed in seeds for learner in plan.learners]
        jobs = [kept(place, _record, plan, *pair) for pair in pairs]
        done: list[Job] = []

        def tell(job: Job) -> None:
            done.append(job)
            if tick is not None:
                tick(f"{len(done)} of {len(jobs)}: seed {job.arguments[1]}, {job.arguments[2]}")

        return [Record(**found) for found in run_jobs(jobs, n_jobs=workers, tick=tell)]


def run_one(plan: Plan, seed: int, learner: str) -> Record:
    """Let one learner run the network on one seed."""
    environment = environment_of(plan, seed)
    today = environment.space.index({KNOB: int(environment.parameters.start_threshold_dbm)})
    controller = None if learner == TODAY else controller_of(plan, learner, seed=seed, log=drawn_log(plan, seed))
    satisfied, sessions = np.zeros(plan.stations), np.zeros(plan.stations)
    earned, trials = [], []
    for t in range(plan.slots):
        arms, rewards = _slot(environment, controller, learner, today=today)
        if t >= plan.slots - plan.tail:
            satisfied += environment.earned.satisfied
            sessions += environment.earned.sessions
            earned.append(rewards.mean())
            trials.append(np.mean(arms != today))
    shares = satisfied / np.maximum(sessions, 1)
    network = float(satisfied.sum() / max(sessions.sum(), 1))
    below = float(np.mean(shares < plan.floor))
    return Record(seed, learner, network, below, float(np.mean(earned)), float(np.mean(trials)))


def _slot(
    environment: RadioEnvironment, controller: Controller | None, learner: str, *, today: int
) -> tuple[Any, FloatArray]:
    """Decide, run and tell one slot; return the arms and what every sector earned, (S,) each."""
    stations = environment.stations
    if controller is None:
        environment.play(dict.fromkeys(stations, today))
        return np.full(len(stations), today), environment.earned.good_share
    made = controller.ask_all(environment.slot.states)
    environment.play({station: decision.arm for station, decision in made.items()})
    columns = columns_of(environment.earned)
    name = reward_of(learner)
    reward, noise, share = columns[name], columns[f"{name}_noise"], columns[SHARE]
    ids = [made[station].id for station in stations]
    kpis = {key: {SHARE: float(value)} for key, value in zip(ids, share, strict=True)}
    controller.tell_all(
        dict(zip(ids, reward.tolist(), strict=True)),
        noise=dict(zip(ids, noise.tolist(), strict=True)),
        kpis=kpis if learner == FLOORED else None,
        others=coverage_of(columns, stations) if learner.startswith(CELL + BESIDE) else None,
    )
    return np.array([made[station].arm for station in stations]), reward


def _record(plan: Plan, seed: int, learner: str) -> dict[str, Any]:
    return asdict(run_one(plan, seed, learner))


# --- The command ----------------------------------------------------------------------------------------------------


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
