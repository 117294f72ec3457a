"""Stations that change, measured: how soon a controller is back to where it was, and what being prepared costs.

A third of the stations change in mid-run (`kinband.environments.drifting`): in one slot, little by little, or never.
All learners of a problem have the same kernel, noise and prior mean, learned from the log of before, and meet the same
slots:

- *plain*: nothing is done about drift;
- *forgetting*: old rewards count less (`Drift(half_life=...)`);
- *resets*: a station whose rewards leave their bounds starts anew (`Drift(reset=True)`);
- *both*;
- *restart*: an oracle that is told of the step when it happens and forgets every reward, of all stations. It keeps what
  the log taught of kernel, noise, mean and similarity;
- *from nothing*: the same, but as it comes out of the box: knowing the range of rewards, and nothing else.

Each is played twice: sharing by a task matrix that was learned from the log, and with every station learning alone.

Counted are how soon each is back at the regret it had before the step, and what being prepared costs. The table and the
figure of docs/evidence.md:

    python -m benchmarks.studies.drift --seeds 40
"""

import argparse
import json
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from typing import Any

import numpy as np

from kinband.arrays import FloatArray, IntArray
from kinband.controller import Controller
from kinband.drift import Drift
from kinband.environments import SyntheticBandit, TraceEnvironment, split_trace
from kinband.environments.contract import Referee
from kinband.environments.drifting import Drifting, How
from kinband.errors import BadInputError
from kinband.experiments.city import LOG_ROWS, city_log_of
from kinband.experiments.compare import mean_over_runs, saving_of
from kinband.model import Model, learn_model
from kinband.records import Samples
from kinband.space import ConfigurationSpace
from kinband.stats import Estimate

# --- What runs on drifting stations say: how soon a learner is back, and what being prepared costs ------------------
#
# A learner is *back* once its regret a slot, averaged over `window` slots, is within 20 % of its own level before the
# step; the time until the first such window begins is counted in decisions. It is taken from the mean curve of all
# seeds, as a curve of one seed crosses any line by luck; its interval is by bootstrap over seeds (Efron 1979), and so
# is that of its ratio to the restart's, in pairs. What being prepared costs where nothing drifts is the ratio of
# regrets to *plain*, in pairs too.

PLAIN, FORGETTING, RESETS, BOTH = "plain", "forgetting", "resets", "both"
RESTART, FROM_NOTHING = "restart", "from nothing"
LEARNERS, ORACLES = (PLAIN, FORGETTING, RESETS, BOTH), (RESTART, FROM_NOTHING)
NEAR = 1.2
"""A level is back at another if it is at most so many times as high."""

_RESAMPLES = 2000
_COLOURS = {PLAIN: "#b4669e", FORGETTING: "#e0a100", RESETS: "#d35400", BOTH: "#0f7fbf", RESTART: "#5b6770"}


@dataclass(frozen=True)
class Plan:
    """What is played.

    Attributes:
        stations: How many stations of the city take part, spread over its list; the synthetic bandit has ten.
        before: Slots before the change.
        after: Slots from the change on; a slow one takes all of them.
        window: Slots over which a level is averaged.
        half_life: Of those who forget, in slots.
        beta: Weight of the width.
    """

    stations: int = 18
    before: int = 40
    after: int = 50
    window: int = 5
    half_life: float = 400.0
    beta: float = 0.3


@dataclass(frozen=True, eq=False)
class Record:
    """One run.

    Attributes:
        problem, scenario, sharing, learner, seed: Which one it is.
        stations: How many stations decide in a slot.
        regret: In expectation, summed over stations, (slots,).
        resets: How many times a station started anew, before the change and from it on.
    """

    problem: str
    scenario: str
    sharing: str
    learner: str
    seed: int
    stations: int
    regret: FloatArray
    resets: tuple[int, int]


@dataclass(frozen=True)
class Finding:
    """One learner in one scenario, over all seeds.

    Attributes:
        problem, scenario, sharing, learner: Which one it is.
        before: Regret a slot in the second half of the slots before the change.
        after: The same of the slots from the change on.
        back: Decisions until its level is back; those of the whole run where it never is. Of a step only.
        of_restart: The same as a share of the restart's, which keeps what the log taught.
        of_nothing: The same as a share of that of starting from nothing.
        of_plain: Regret of all slots as a multiple of the plain learner's.
        resets: Stations that started anew, a run.
    """

    problem: str
    scenario: str
    sharing: str
    learner: str
    before: Estimate
    after: Estimate
    back: Estimate | None
    of_restart: Estimate | None
    of_nothing: Estimate | None
    of_plain: Estimate
    resets: float


def findings(records: Sequence[Record], plan: Plan | None = None) -> list[Finding]:
    """Return what records of the same plan say, one finding for each learner of each scenario."""
    plan, found = plan or Plan(), []
    runs: dict[tuple[str, str, str, str], list[Record]] = {}
    for record in records:
        runs.setdefault((record.problem, record.scenario, record.sharing, record.learner), []).append(record)
    for (problem, scenario, sharing, learner), own in runs.items():
        curves, many = np.array([r.regret for r in own]), own[0].stations
        plain = np.array([r.regret for r in runs[problem, scenario, sharing, PLAIN]])
        back, of_restart, of_nothing = None, None, None
        if scenario == "step":
            others = [np.array([r.regret for r in runs[problem, scenario, sharing, oracle]]) for oracle in ORACLES]
            (back, of_restart), (_, of_nothing) = (_returns(curves, other, plan, decisions=many) for other in others)
        saved = saving_of(curves.sum(axis=1), plain.sum(axis=1))
        found.append(
            Finding(
                problem, scenario, sharing, learner,
                mean_over_runs(curves[:, plan.before // 2 : plan.before].mean(axis=1)),
                mean_over_runs(curves[:, plan.before :].mean(axis=1)), back, of_restart, of_nothing,
                Estimate(1.0 - saved.value, 1.0 - saved.high, 1.0 - saved.low),
                float(np.mean([sum(r.resets) for r in own])),
            )
        )  # fmt: skip
    return found


def slots_until_back(curve: FloatArray, plan: Plan) -> int:
    """Return how many slots pass from the change on until a mean curve (slots,) is back at its level before.

    Example:
        >>> plan = Plan(before=4, after=6, window=2)
        >>> slots_until_back(np.array([1.0, 1, 1, 1, 3, 2, 1.2, 1.1, 1, 1]), plan)
        2
        >>> slots_until_back(np.array([1.0, 1, 1, 1, 3, 3, 3, 3, 3, 3]), plan)
        6
    """
    level = float(curve[plan.before // 2 : plan.before].mean())
    after = curve[plan.before :]
    means = np.convolve(after, np.full(plan.window, 1.0 / plan.window), mode="valid")
    near = np.flatnonzero(means <= NEAR * level)
    return int(near[0]) if len(near) else len(after)


def _returns(curves: FloatArray, restart: FloatArray, plan: Plan, *, decisions: int) -> tuple[Estimate, Estimate]:
    """Decisions until back, and as a share of the restart's, from curves (runs, slots) on the same seeds."""
    runs = len(curves)
    picks: IntArray = np.random.default_rng(0).integers(runs, size=(_RESAMPLES if runs > 1 else 0, runs))
    drawn = [np.arange(runs), *picks]
    ours = np.array([slots_until_back(curves[pick].mean(axis=0), plan) for pick in drawn], dtype=np.float64)
    theirs = np.array([slots_until_back(restart[pick].mean(axis=0), plan) for pick in drawn], dtype=np.float64)
    share = ours / np.maximum(theirs, 1.0)
    return _estimate(decisions * ours), _estimate(share)


def _estimate(values: FloatArray) -> Estimate:
    """The first of the values, with the interval of those resampled behind it."""
    low, high = np.quantile(values[1:], [0.025, 0.975]) if len(values) > 1 else (np.nan, np.nan)
    return Estimate(float(values[0]), float(low), float(high))


def table_of(found: Sequence[Finding]) -> str:
    """Return findings as a Markdown table."""
    head = ("problem", "scenario", "sharing", "learner", "regret a slot before", "and after", "decisions until back")
    titles = (*head, "as a share of a restart's", "and of one from nothing", "regret against plain", "resets")
    lines: list[tuple[str, ...]] = [titles, ("---",) * len(titles), *map(_cells, found)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _cells(f: Finding) -> tuple[str, ...]:
    back = "" if f.back is None else f"{f.back:.0f}"
    shares = ["" if share is None else f"{share:.2f}" for share in (f.of_restart, f.of_nothing)]
    named = (f.problem, f.scenario, f.sharing, f.learner)
    return *named, f"{f.before:.3f}", f"{f.after:.3f}", back, *shares, f"{f.of_plain:.3f}", f"{f.resets:.1f}"


def draw(records: Sequence[Record], plan: Plan, path: str) -> None:
    """Draw the regret around a step, the mean of all seeds, of the learners that share; one panel a problem."""
    from matplotlib.figure import Figure

    names = list(dict.fromkeys(r.problem for r in records))
    figure = Figure(figsize=(5.0 * len(names), 3.4), layout="constrained")
    panels = np.atleast_1d(np.array(figure.subplots(1, len(names))))
    smooth = np.full(plan.window, 1.0 / plan.window)
    for name, panel in zip(names, panels.tolist(), strict=True):
        for learner in (PLAIN, FORGETTING, RESETS, BOTH, RESTART):
            key = (name, "step", "shared", learner)
            curves = [r.regret for r in records if (r.problem, r.scenario, r.sharing, r.learner) == key]
            parts = np.split(np.mean(curves, axis=0), [plan.before])
            means = [np.convolve(part, smooth, mode="valid") for part in parts]
            slots = np.concatenate([np.arange(len(means[0])) - plan.before, [np.nan], np.arange(len(means[1]))])
            style = "--" if learner == RESTART else "-"
            values = np.concatenate([means[0], [np.nan], means[1]])
            panel.plot(
                slots, values, style, color=_COLOURS[learner], linewidth=2 if learner == RESETS else 1.4, label=learner
            )
        panel.axvline(0, color="grey", linewidth=0.8, linestyle=":")
        panel.spines[["top", "right"]].set_visible(False)
        panel.grid(axis="y", alpha=0.25)
        panel.set(title=name, xlabel="slots after the step", ylabel=f"regret a slot, mean of {plan.window}")
        panel.set_ylim(bottom=0)
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside upper center", ncols=5, frameon=False)
    figure.savefig(path, dpi=150)


# --- Learners on stations that change: their problems, how each is prepared, and a run slot by slot -----------------

SCENARIOS: tuple[How, ...] = ("none", "step", "slow")
PROBLEMS = ("city", "synthetic")
SHARING = ("shared", "alone")


@dataclass(frozen=True, eq=False)
class Problem:
    """What all learners of a seed share."""

    name: str
    environment: Referee
    space: ConfigurationSpace
    model: Model
    log: Samples | None
    options: dict[str, Any]


def measure(
    seeds: Iterable[int],
    plan: Plan | None = None,
    *,
    problems: Sequence[str] = PROBLEMS,
    scenarios: Sequence[How] = SCENARIOS,
    tick: Callable[[], None] | None = None,
) -> list[Record]:
    """Play every learner in every scenario on every seed; `tick` is called after every run.

    Example:
        >>> small = Plan(stations=3, before=3, after=3, window=2)
        >>> records = measure([1], small, problems=["city"], scenarios=["step"])
        >>> len(records), records[0].regret.shape
        (12, (6,))
    """
    plan, records = plan or Plan(), []
    for name in problems:
        problem = problem_of(name, plan)
        for seed in seeds:
            for scenario in scenarios:
                for sharing in SHARING:
                    for learner in (*LEARNERS, *ORACLES) if scenario == "step" else LEARNERS:
                        records.append(play(problem, plan, scenario, sharing=sharing, learner=learner, seed=seed))
                        if tick is not None:
                            tick()
    return records


@cache
def problem_of(name: str, plan: Plan) -> Problem:
    """Return a problem with what was learned from its log; the log is the same for all seeds."""
    if name == "city":
        stage = city_log_of("bundled")
        names = stage.trace.stations
        places = np.linspace(0, len(names) - 1, min(plan.stations, len(names))).round().astype(int)
        trace = stage.trace.select(np.isin(stage.trace.station, [names[i] for i in places]))
        log, rest = split_trace(trace, rows_per_station=LOG_ROWS)
        log = log.with_space(stage.space)
        encoder = log.encoder()
        samples = log.samples(encoder)
        model = learn_model(samples, "joint", rng=np.random.default_rng([0, 5]))
        environment = TraceEnvironment(rest, stage.space)
        return Problem(name, environment, encoder.space, model, samples, {"state": encoder.state})
    if name == "synthetic":
        bandit = SyntheticBandit(10, 5, arm_feature=True)
        model = learn_model(
            bandit.log(LOG_ROWS, np.random.default_rng([0, 6])), "joint", rng=np.random.default_rng([0, 5])
        )
        return Problem(
            name, bandit, ConfigurationSpace(arm=range(bandit.arms)), model, None, {"features": bandit.features}
        )
    raise BadInputError(f"there is no problem {name!r}: choose one of {', '.join(PROBLEMS)}")


def play(problem: Problem, plan: Plan, scenario: How, *, sharing: str, learner: str, seed: int) -> Record:
    """Return one run of a learner, all stations in one round a slot."""
    world = Drifting(problem.environment, scenario, begin=plan.before, lasts=plan.after, seed=seed)
    controller = controller_of(problem, plan, sharing=sharing, learner=learner, seed=seed)
    regret, resets = np.zeros(plan.before + plan.after), [0, 0]
    for t in range(len(regret)):
        if learner in ORACLES and t == plan.before:
            controller = controller_of(problem, plan, sharing=sharing, learner=learner, seed=seed, anew=True)
        tasks = len(controller.current.stations)
        regret[t] = _slot(world, controller)
        resets[t >= plan.before] += len(controller.current.stations) - tasks
    many = len(world.stations)
    return Record(problem.name, scenario, sharing, learner, seed, many, regret, (resets[0], resets[1]))


def controller_of(
    problem: Problem, plan: Plan, *, sharing: str, learner: str, seed: int, anew: bool = False
) -> Controller:
    """Return a learner of a problem that has learned nothing yet but the log; `anew`, not even that."""
    model, stations = problem.model, problem.environment.stations
    common = {"beta": plan.beta, "engine": "exact", "seed": seed, **problem.options}
    if anew and learner == FROM_NOTHING:
        low, high = problem.environment.reward_range
        return Controller(problem.space, stations, mean=(low + high) / 2, reward_range=(low, high), **common)
    half_life = plan.half_life * len(stations)
    prepared = {FORGETTING: Drift(half_life, reset=False), RESETS: Drift(), BOTH: Drift(half_life)}
    alike = model.similarity if sharing == "shared" else "independent"
    return Controller(
        problem.space, stations, similarity=alike, kernel=model.kernel, noise=model.noise, mean=model.mean,
        log=None if anew else problem.log, drift=prepared.get(learner), **common,
    )  # fmt: skip


def _slot(world: Drifting, controller: Controller) -> float:
    """Play one slot and return its regret in expectation."""
    slot, stations = world.slot, world.stations
    if slot.states:
        made = controller.ask_all({station: slot.states[station] for station in stations})
    else:
        made = controller.ask_all(contexts={station: slot.contexts[station] for station in stations})
    regret = sum(world.truth(station).pseudo_regret(decision.arm) for station, decision in made.items())
    outcomes = world.play({station: decision.arm for station, decision in made.items()})
    for station, decision in made.items():
        controller.tell(decision.id, outcomes[station].reward, noise=outcomes[station].noise)
    return float(regret)


# --- The command ----------------------------------------------------------------------------------------------------


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
