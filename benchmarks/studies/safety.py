"""Safe trials measured: how often a promise is broken, and what keeping it costs.

Every learner plays the same slots with the same model, learned from the same log; they differ in their rules alone, so
that regrets can be compared in pairs. The referee knows what every configuration is expected to earn in a slot, and so
what today's would have earned. It counts

- runs in which the rewards expected of what was played, counted from `least` and summed, ever fell below 1 − α of
  today's, with the exact binomial interval (Clopper and Pearson 1934), and the same for the rewards that came;
- decisions expected to earn more than `drop` less than what their station ran before, and runs with any;
- changes from one slot to the next, and the regret beyond that of the learner without rules.

The tables of docs/evidence.md:

    python -m benchmarks.studies.safety --seeds 50

Runs of `python -m benchmarks.trust safety`, which has the targets, are of fewer rules, are kept and use all cores.
"""

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

import numpy as np

from benchmarks.metrics import ratio_of
from kinband.arrays import FloatArray, IntArray
from kinband.controller import Controller
from kinband.environments import SyntheticBandit, TraceEnvironment, split_trace
from kinband.environments.contract import Referee
from kinband.errors import BadInputError
from kinband.experiments.city import LOG_ROWS, city_log_of
from kinband.experiments.compare import mean_over_runs
from kinband.model import Search, learn_model
from kinband.policies import Conservative, Floor, SwitchingCost
from kinband.space import ConfigurationSpace
from kinband.stats import Estimate, share_of

# --- The rules of safe trials that are compared, and what they promise on each problem ------------------------------

PLAIN = "no rules"
ALPHA, DELTA = 0.05, 0.05
PROBLEMS = {"synthetic": 0.1, "city": 0.05}
"""The problems, and the drop that their floor and half of which their switching cost allows for."""


def rules_of(problem: str, *, least: float) -> dict[str, Any]:
    """Return the rules that are compared, by name.

    Example:
        >>> list(rules_of("city", least=0.0))[:2]
        ['no rules', 'budget']
    """
    drop = PROBLEMS[problem]
    return {
        PLAIN: None,
        "budget": Conservative(ALPHA, least=least),
        "budget, δ = 0.05": Conservative(ALPHA, least=least, delta=DELTA),
        "budget, δ = 0.05, of what is expected": Conservative(ALPHA, least=least, delta=DELTA, of="expected"),
        "budget a station": Conservative(ALPHA, least=least, per_station=True),
        "floor": Floor(drop),
        "floor, δ = 0.05": Floor(drop, delta=DELTA),
        "floor, mean": Floor(drop, against="mean"),
        "cost": SwitchingCost(drop / 2),
        "all three": [Conservative(ALPHA, least=least), Floor(drop), SwitchingCost(drop / 2)],
    }


# --- What was counted -----------------------------------------------------------------------------------------------
#
# A run is counted by itself (`Tally`), and runs are summed up over seeds (`Finding`): regret in pairs with the learner
# that has no rules, shares of runs with exact intervals, the rest with intervals by bootstrap (`metrics`).


@dataclass(frozen=True, eq=False)
class Played:
    """What a run earned and what others would have, (T, M) each; `today` is the arm that was declared."""

    today: int
    arms: IntArray
    expected: FloatArray
    rewards: FloatArray
    best: FloatArray
    today_expected: FloatArray
    today_rewards: FloatArray
    before_expected: FloatArray
    """What each station would be expected to earn with what it ran in the slot before."""


@dataclass(frozen=True)
class Tally:
    """One learner on one seed, as `Finding` sums it up over seeds."""

    depth: float
    depth_in_rewards: float
    below: float
    trials: float
    changes: float
    regret: float


@dataclass(frozen=True)
class Finding:
    """One learner over all seeds.

    Attributes:
        rules: How the table calls it.
        broken: Share of runs in which the budget was overdrawn in expectation.
        broken_in_rewards: The same of the rewards that came.
        deepest: How far the budget was overdrawn at worst in expectation, in units of reward, a run.
        fallen: Share of runs with a decision that was expected to earn more than the drop below what ran before.
        below: Share of such decisions.
        trials: Share of decisions other than today's configuration.
        changes: Share of decisions other than what ran before.
        regret: In expectation, a run.
        paid: Regret beyond that of the learner without rules, as a share of the latter.
    """

    rules: str
    broken: Estimate
    broken_in_rewards: Estimate
    deepest: Estimate
    fallen: Estimate
    below: Estimate
    trials: float
    changes: float
    regret: Estimate
    paid: Estimate


def overdrawn(ours: FloatArray, today: FloatArray, *, least: float, alpha: float = ALPHA) -> float:
    """Return by how much the sum of (T, M) rewards was ever below 1 − α of today's, slot by slot, station by station.

    Example:
        >>> today = np.array([[1.0], [1.0]])
        >>> [overdrawn(np.array(ours), today, alpha=0.5, least=0.0) for ours in ([[0.75], [0.0]], [[0.6], [0.5]])]
        [0.25, 0.0]
    """
    added = (ours - least) - (1.0 - alpha) * (today - least)
    lowest = float(np.cumsum(added.ravel()).min())
    return -lowest if lowest < -1e-9 else 0.0


def tally_of(played: Played, *, least: float, drop: float) -> Tally:
    """Count one run: rewards from `least` on, and decisions that fall by more than `drop`."""
    return Tally(
        depth=overdrawn(played.expected, played.today_expected, least=least),
        depth_in_rewards=overdrawn(played.rewards, played.today_rewards, least=least),
        below=float(np.mean(played.expected < played.before_expected - drop - 1e-9)),
        trials=float(np.mean(played.arms != played.today)),
        changes=float(np.mean(played.arms[1:] != played.arms[:-1])) if len(played.arms) > 1 else 0.0,
        regret=float((played.best - played.expected).sum()),
    )


def findings(counted: Sequence[Mapping[str, Tally]]) -> list[Finding]:
    """Return what the tallies of several seeds say of every learner; the one without rules must be among them."""
    plain = np.array([by_name[PLAIN].regret for by_name in counted])
    return [_finding(name, [by_name[name] for by_name in counted], plain) for name in counted[0]]


def _finding(name: str, own: Sequence[Tally], plain: FloatArray) -> Finding:
    by_name = {field.name: np.array([getattr(one, field.name) for one in own]) for field in fields(Tally)}
    paid = ratio_of(by_name["regret"], plain)
    broken, in_rewards, fallen = (
        share_of(int(np.count_nonzero(by_name[what])), len(own)) for what in ("depth", "depth_in_rewards", "below")
    )
    shares = {what: float(by_name[what].mean()) for what in ("trials", "changes")}
    below = mean_over_runs(by_name["below"])
    return Finding(
        name, broken, in_rewards, mean_over_runs(by_name["depth"]), fallen, below, **shares,
        regret=mean_over_runs(by_name["regret"]),
        paid=Estimate(paid.value - 1.0, paid.low - 1.0, paid.high - 1.0),
    )  # fmt: skip


def table_of(found: Sequence[Finding]) -> str:
    """Return findings as a Markdown table."""
    words = ("rules", "runs below 95 % of today", "in rewards", "deepest", "decisions below the floor", "trials")
    head = (*words, "changes", "regret", "paid")
    lines = [head, ["---"] * len(head), *map(_cells, found)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _cells(f: Finding) -> tuple[str, ...]:
    shares = (f"{share:.0%}" for share in (f.trials, f.changes))
    broken = (f"{share:.0%}" for share in (f.broken, f.broken_in_rewards))
    return f.rules, *broken, f"{f.deepest:.2f}", f"{f.below:.1%}", *shares, f"{f.regret:.1f}", f"{f.paid:+.0%}"


# --- Runs -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Case:
    """What all learners of a seed share: an environment, what runs today, and a controller without rules."""

    environment: Referee
    today: int
    plain: Controller


def measure(problem: str, *, seeds: Sequence[int], slots: int, beta: float = 1.0, stations: int = 6) -> list[Finding]:
    """Play every learner on every seed and return what was found, the learner without rules first.

    Example:
        >>> found = measure("synthetic", seeds=[1], slots=2)
        >>> found[0].rules, found[0].paid.value
        ('no rules', 0.0)
    """
    return findings([tallies(problem, seed, slots=slots, beta=beta, stations=stations) for seed in seeds])


def tallies(
    problem: str,
    seed: int,
    *,
    slots: int,
    beta: float = 1.0,
    stations: int = 6,
    among: Sequence[str] | None = None,
) -> dict[str, Tally]:
    """Play learners on one seed and return what was counted, by the names of their rules; `among` picks some.

    Example:
        >>> list(tallies("synthetic", 1, slots=2, among=["no rules", "floor"]))
        ['no rules', 'floor']
    """
    if problem not in PROBLEMS:
        raise BadInputError(f"unknown problem {problem!r}: choose one of {', '.join(PROBLEMS)}")
    case = case_of(problem, seed=seed, beta=beta, stations=stations)
    least = min(0.0, case.environment.reward_range[0])
    every = rules_of(problem, least=least)
    played = {name: watch(case, every[name], slots=slots, seed=seed) for name in among or every}
    return {name: tally_of(one, least=least, drop=PROBLEMS[problem]) for name, one in played.items()}


def case_of(problem: str, *, seed: int, beta: float, stations: int) -> Case:
    """Return what the learners of a seed share; the city is `stations` sectors of the bundled one."""
    if problem == "synthetic":
        bandit = SyntheticBandit()
        log = bandit.log(LOG_ROWS, np.random.default_rng([seed, 1]))
        environment, today, space = bandit, bandit.arms // 2, ConfigurationSpace(arm=range(bandit.arms))
        asking: dict[str, Any] = {"features": bandit.features}
    else:
        environment, today, log, asking = _city(stations)
        space = environment.space
    # By likelihood alone: without a prior kernels of short logs are at their worst, and so are bounds.
    model = learn_model(log, "embedding", rng=np.random.default_rng([seed, 2]), search=Search(pull=None))
    plain = Controller(
        space, environment.stations, similarity=model.similarity, kernel=model.kernel, noise=model.noise,
        mean=model.mean, beta=beta, engine="exact", log=log, running=space[today], seed=seed, **asking,
    )  # fmt: skip
    return Case(environment, today, plain)


def _city(stations: int) -> Any:
    """A few sectors of the bundled city, from all over its list."""
    stage = city_log_of("bundled")
    names = stage.trace.stations
    some = [names[i] for i in np.linspace(0, len(names) - 1, stations).round().astype(int)]
    trace = stage.trace.select(np.isin(stage.trace.station, some))
    log, rest = split_trace(trace, rows_per_station=LOG_ROWS)
    encoder = log.encoder()
    return TraceEnvironment(rest), stage.today, log.samples(encoder, stations=rest.stations), {"state": encoder.state}


def watch(case: Case, rules: Any, *, slots: int, seed: int) -> Played:
    """Let a learner play in rounds under the rules, and note what a referee knows."""
    setup = case.plain.setup
    controller = Controller.from_setup(replace(setup, config=setup.config.replace(safety=rules)))
    case.environment.reset(seed)
    before = dict.fromkeys(case.environment.stations, case.today)
    rows = [list(_slot(case, controller, before)) for _ in range(slots)]
    table = np.array(rows)  # (T, M, 7)
    return Played(case.today, table[..., 0].astype(np.int64), *(table[..., i] for i in range(1, 7)))


def _slot(case: Case, controller: Controller, before: dict[str, int]) -> Iterator[tuple[float, ...]]:
    """Play one slot and tell, station by station, what `Played` holds; `before` then holds what runs."""
    environment, slot = case.environment, case.environment.slot
    decisions = controller.ask_all(slot.states) if slot.states else controller.ask_all(contexts=slot.contexts)
    truths = {s: environment.truth(s) for s in decisions}
    outcomes = environment.play({s: d.arm for s, d in decisions.items()})
    for s, decision in decisions.items():
        e, r, today, arm = truths[s].expected, truths[s].rewards, case.today, decision.arm
        controller.tell(decision.id, outcomes[s].reward, noise=outcomes[s].noise)
        yield arm, e[arm], r[arm], e[truths[s].best], e[today], r[today], e[before[s]]
        before[s] = arm


# --- Safe trials measured: how often a promise is broken, and what keeping it costs ---------------------------------


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
