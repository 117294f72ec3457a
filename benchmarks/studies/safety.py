"""Safe trials measured: how often a promise is broken, and what keeping it costs.

Every learner plays the same slots with the same model, learned from the same log; they differ in their rules alone, so
that regrets can be compared in pairs. The referee (`safety_cases`) knows what stations would have earned in a slot with
something else, and so with today's configuration. It counts

- runs in which the rewards expected of what was played, counted from `least` and summed, ever fell below 1 − α of
  today's, with the exact binomial interval (Clopper and Pearson 1934), and the same for the rewards that came;
- decisions expected to earn more than `drop` less than what their station ran before, from the first on, what share of
  those that changed something they are, and runs with any;
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

from benchmarks.metrics import bootstrapped, picks_of, ratio_of
from benchmarks.studies.safety_cases import PROBLEMS, Case, case_of, smooth_city, with_rules
from kinband.arrays import FloatArray, IntArray
from kinband.controller import Controller
from kinband.experiments.city import LOG_ROWS
from kinband.experiments.compare import mean_over_runs
from kinband.kpis import KpiFloor
from kinband.policies import Conservative, Floor, KrauseOng, SwitchingCost
from kinband.stats import Estimate, share_of

# --- The rules of safe trials that are compared, and what they promise on each problem ------------------------------

PLAIN = "no rules"
ALPHA, DELTA = 0.05, 0.05
BUDGET, FLOOR = f"budget, δ = {DELTA}", f"floor, δ = {DELTA}"
"""The rules with a rate, which are calibrated."""
MODELS_BUDGET, MODELS_FLOOR = "budget, the model's word", "floor, the model's word"
"""The same as the model alone would have it, with the bounds of Krause and Ong (2011)."""


def rules_of(problem: str, *, least: float) -> dict[str, Any]:
    """Return the rules that are compared, by name.

    Example:
        >>> list(rules_of("city", least=0.0))[:2]
        ['no rules', 'budget']
    """
    drop, stated = PROBLEMS[problem], KrauseOng(DELTA)
    return {
        PLAIN: None,
        "budget": Conservative(ALPHA, least=least),
        BUDGET: Conservative(ALPHA, least=least, delta=DELTA),
        MODELS_BUDGET: Conservative(ALPHA, least=least, bounds=stated),
        f"{BUDGET}, of what is expected": Conservative(ALPHA, least=least, delta=DELTA, of="expected"),
        "budget a station": Conservative(ALPHA, least=least, per_station=True),
        "floor": Floor(drop),
        FLOOR: Floor(drop, delta=DELTA),
        MODELS_FLOOR: Floor(drop, bounds=stated),
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
        of_moves: Share of such decisions among those that changed something; a station that stays cannot fall.
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
    of_moves: Estimate
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
    before = np.vstack([np.full_like(played.arms[:1], played.today), played.arms[:-1]])
    return Tally(
        depth=overdrawn(played.expected, played.today_expected, least=least),
        depth_in_rewards=overdrawn(played.rewards, played.today_rewards, least=least),
        below=float(np.mean(played.expected < played.before_expected - drop - 1e-9)),
        trials=float(np.mean(played.arms != played.today)),
        changes=float(np.mean(played.arms != before)),
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
    below, of_moves = mean_over_runs(by_name["below"]), _pooled(by_name["below"], by_name["changes"])
    return Finding(
        name, broken, in_rewards, mean_over_runs(by_name["depth"]), fallen, below, of_moves, **shares,
        regret=mean_over_runs(by_name["regret"]),
        paid=Estimate(paid.value - 1.0, paid.low - 1.0, paid.high - 1.0),
    )  # fmt: skip


def _pooled(hits: FloatArray, of: FloatArray) -> Estimate:
    """Return a share over all runs together, (runs,) each, with the interval of the bootstrap over runs."""
    ours, all_ = (part[picks_of(len(hits))].sum(axis=1) for part in (hits, of))
    return bootstrapped(np.divide(ours, all_, out=np.zeros_like(ours), where=all_ > 0), runs=len(hits))


def table_of(found: Sequence[Finding]) -> str:
    """Return findings as a Markdown table."""
    words = (
        "rules",
        "runs below 95 % of today",
        "in rewards",
        "deepest",
        "runs ever below the floor",
        "decisions below",
    )
    head = (*words, "of changes", "trials", "changes", "regret", "paid")
    lines = [head, ["---"] * len(head), *map(_cells, found)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _cells(f: Finding) -> tuple[str, ...]:
    shares = (f"{share:.0%}" for share in (f.trials, f.changes))
    broken = (f"{share:.0%}" for share in (f.broken, f.broken_in_rewards))
    below = (f"{f.fallen:.0%}", f"{f.below:.2%}", f"{f.of_moves:.1%}")
    return f.rules, *broken, f"{f.deepest:.2f}", *below, *shares, f"{f.regret:.1f}", f"{f.paid:+.0%}"


# --- Runs -----------------------------------------------------------------------------------------------------------


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
    case = case_of(problem, seed=seed, beta=beta, stations=stations)
    every = rules_of(problem, least=case.least)
    played = {name: watch(case, every[name], slots=slots, seed=seed) for name in among or every}
    return {name: tally_of(one, least=case.least, drop=PROBLEMS[problem]) for name, one in played.items()}


def watch(case: Case, rules: Any, *, slots: int, seed: int) -> Played:
    """Let a learner play in rounds under the rules, and note what a referee knows."""
    controller = with_rules(case, rules)
    case.environment.reset(seed)
    before = dict.fromkeys(case.environment.stations, case.today)
    rows = [list(_slot(case, controller, before)) for _ in range(slots)]
    table = np.array(rows)  # (T, M, 7)
    return Played(case.today, table[..., 0].astype(np.int64), *(table[..., i] for i in range(1, 7)))


def _slot(case: Case, controller: Controller, before: dict[str, int]) -> Iterator[tuple[float, ...]]:
    """Play one slot and tell, station by station, what `Played` holds; `before` then holds what runs."""
    slot = case.environment.slot
    by_state = bool(slot.states) and controller.setup.features is None
    decisions = controller.ask_all(slot.states) if by_state else controller.ask_all(contexts=slot.contexts)
    arms = {station: decision.arm for station, decision in decisions.items()}
    for station, judged in case.play(arms, before).items():
        outcome, *numbers = judged
        controller.tell(decisions[station].id, outcome.reward, noise=outcome.noise)
        yield arms[station], *numbers
        before[station] = arms[station]


# --- Floors of a KPI ------------------------------------------------------------------------------------------------
#
# On the smooth city what stations earn is the KPI, of which the half that random configurations exceed is the floor,
# and the reward is a taste for one end of the knob: as if it were energy that the reward saved. Where a decision is
# noted to keep the floor, the truth says whether it does.

KPI_FLOOR, MODELS_KPI_FLOOR = f"KPI floor, δ = {DELTA}", "KPI floor, the model's word"
_SCATTER = 0.05


@dataclass(frozen=True)
class KpiTally:
    """One learner on one seed: of decisions noted to keep the floor, how many do not; and what it earned."""

    noted: int
    broken: int
    decisions: int
    reward: float


@dataclass(frozen=True)
class KpiFinding:
    """A floor over all seeds.

    Attributes:
        rules: How the table calls it.
        broken: Of decisions noted to keep the floor, the share expected to be below it.
        fallen: Share of runs with any.
        noted: Share of decisions that were noted to keep it.
        reward: Mean reward of a decision, from 0 to 1.
    """

    rules: str
    broken: Estimate
    fallen: Estimate
    noted: float
    reward: Estimate


def kpi_tallies(seed: int, *, slots: int, stations: int = 6) -> dict[str, KpiTally]:
    """Play the smooth city under either floor, and return what was counted.

    Example:
        >>> [tally.decisions for tally in kpi_tallies(1, slots=2, stations=2).values()]
        [4, 4]
    """
    world, today = smooth_city(stations)
    log = world.log(LOG_ROWS, np.random.default_rng([seed, 1]))
    rng = np.random.default_rng([seed, 3])
    arms = np.zeros(len(log), dtype=np.int64) if log.arms is None else log.arms
    paid = replace(log, y=_taste(arms, world.arms) + _SCATTER * rng.standard_normal(len(log)), kpis={"kept": log.y})
    level, found = float(np.median(log.y)), dict[str, KpiTally]()
    for name, more in {KPI_FLOOR: {"delta": DELTA}, MODELS_KPI_FLOOR: {"confidence": 1.0 - DELTA}}.items():
        controller = Controller.from_log(
            paid, world.space, similarity="embedding", beta=1.0, engine="exact", seed=seed, running=world.space[today],
            kpis=KpiFloor("kept", at_least=level, **more), safety=[],
        )  # fmt: skip
        found[name] = _kpi_tally(controller, world, level, slots=slots, seed=seed)
    return found


def _taste(arms: Any, count: int) -> Any:
    return np.asarray(arms) / (count - 1.0)


def _kpi_tally(controller: Controller, world: Any, level: float, *, slots: int, seed: int) -> KpiTally:
    world.reset(seed)
    rng, noted, broken, reward = np.random.default_rng([seed, 4]), 0, 0, 0.0
    for _ in range(slots):
        decisions = controller.ask_all(contexts=world.slot.contexts)
        truths = {s: world.truth(s).expected[d.arm] for s, d in decisions.items()}
        for s, outcome in world.play({s: d.arm for s, d in decisions.items()}).items():
            taste, kept = float(_taste(decisions[s].arm, world.arms)), decisions[s].policy_state["kpis"]["kept"]
            controller.tell(decisions[s].id, taste + _SCATTER * rng.standard_normal(), kpis={"kept": outcome.reward})
            noted, broken, reward = noted + kept, broken + (kept and truths[s] < level - 1e-9), reward + taste
    return KpiTally(noted, int(broken), slots * len(world.stations), reward)


def kpi_findings(counted: Sequence[Mapping[str, KpiTally]]) -> list[KpiFinding]:
    """Return what the tallies of several seeds say of either floor."""
    return [_kpi_finding(name, [by_name[name] for by_name in counted]) for name in counted[0]]


def _kpi_finding(name: str, own: Sequence[KpiTally]) -> KpiFinding:
    noted, broken, decisions, reward = (
        np.array([getattr(one, field.name) for one in own], dtype=np.float64) for field in fields(KpiTally)
    )
    fallen = share_of(int(np.count_nonzero(broken)), len(own))
    share = float(noted.sum() / decisions.sum())
    return KpiFinding(name, _pooled(broken, noted), fallen, share, mean_over_runs(reward / decisions))


# --- Safe trials measured: how often a promise is broken, and what keeping it costs ---------------------------------


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure from the command line and write a table, or JSON."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.studies.safety", description=__doc__.split("\n")[0])
    parser.add_argument("--seeds", type=int, default=50, help="how many runs, seeds 1 to this")
    parser.add_argument("--slots", type=int, default=40, help="rounds a run")
    parser.add_argument("--problem", choices=list(PROBLEMS), action="append", help="all by default")
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
