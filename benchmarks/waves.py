"""Is the rest of a network better off after a first wave that kinband chose: `python -m benchmarks.waves`, in minutes.

Networks are those of `benchmarks.evening`, whose rewards are known for every setting, with logs of few trials. A plan
in waves is made; its first wave is carried out, or one of as many changes drawn at random, or none. What the network
then earns is added to the log, and a new plan made for all that did not change and are not held back. What is counted
is its true gain at the stations of neither wave, in pairs: the same network, the same noise, the same stations.
"""

import sys
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from benchmarks.command import command as as_command
from benchmarks.evening.worlds import BEGUN, REWARD, STATE, Recipe, World, draw, scaled, settings_of
from kinband.arrays import FloatArray, IntArray
from kinband.experiments.pages import check_place, marks_of, write_between
from kinband.guardrails import Rails
from kinband.planning import ChangePlan, Limits, Staging, latest, learn_network, periods_of, plan_network, planned_for
from kinband.planning.making import Rules
from kinband.planning.network import _calls
from kinband.planning.waves import Lessons
from kinband.progress import stage
from kinband.stats import Estimate, mean_of
from kinband.trace import Trace
from kinband.version import __version__

MARKS = marks_of("waves")
RECIPE = Recipe(stations=40, hours=12, tried=(2, 4), hold=3, noise=0.4)
HOURS = 24
"""Hours for which a wave is watched before the new plan."""
WAVES, HOLD_BACK, DRAWS = 3, 0.1, 2
PLANS: dict[str, dict[str, Any]] = {
    "certain gains, the default": {},
    "worth trying, `--explore --max-changes 20`": {"explore": True, "max_changes": 20},
}


@dataclass(frozen=True, eq=False)
class Rollout:
    """A network, a plan of it in waves, and what is needed to go on from there.

    Attributes:
        world: The network.
        plan: The plan.
        wanted: What each station runs once the plan is carried out, (M,).
        seed: Of what is drawn.
    """

    world: World
    plan: ChangePlan
    wanted: IntArray
    seed: int

    def after(self, wave: Collection[int], left_out: Collection[int]) -> IntArray:
        """Return what stations run after a wave, hours of it, and a new plan for all that are not left out, (M,)."""
        world, run = self.world, self.world.present.copy()
        run[list(wave)] = self.wanted[list(wave)]
        mean = expected_after(world, run, HOURS)
        noise = world.recipe.noise * np.random.default_rng([self.seed, 11]).normal(size=mean.shape)
        arms = np.hstack([world.arms, np.repeat(run[:, None], HOURS, axis=1)])
        told = log_of(replace(world, arms=arms, rewards=np.hstack([world.rewards, mean + noise])))
        plan = planned(told, [name for m, name in enumerate(world.names) if m not in set(left_out)])
        return carried_out(world, plan, run)

    def gained(self, runs: IntArray) -> FloatArray:
        """Return what each station truly gains over today, (M,)."""
        each = np.arange(len(runs))
        return np.asarray(self.world.own[each, runs] - self.world.own[each, self.world.present])

    @property
    def possible(self) -> float:
        """What all stations together could gain."""
        logged = self.world.own[:, np.unique(self.world.arms)]
        return float((logged.max(axis=1) - self.world.own[np.arange(len(logged)), self.world.present]).sum())


def expected_after(world: World, run: IntArray, hours: int) -> FloatArray:
    """Return what stations earn on average in each hour after the log with what they run (M,), (M, hours)."""
    x = world.load[:, 1 + world.arms.shape[1] :][:, :hours] - 0.5
    return world._mean(np.repeat(scaled(world.recipe.knobs)[run][:, None], hours, axis=1), x, x**2)


def log_of(world: World) -> Trace:
    """Return the log of a network, as long as what its stations ran."""
    M, T = world.arms.shape
    times = np.datetime64(BEGUN, "us") + np.arange(T).astype("timedelta64[h]")
    values = settings_of(world.recipe.knobs)[world.arms.ravel()]
    columns = {"station": np.repeat(world.names, T), "time": np.tile(times, M), STATE: world.load[:, :T].ravel()}
    columns |= {knob: values[:, k] for k, knob in enumerate(world.recipe.knobs)} | {REWARD: world.rewards.ravel()}
    roles = {"time": "time", "reward": REWARD, "state": [STATE], "configuration": list(world.recipe.knobs)}
    return Trace.from_frame(columns, roles)


def planned(log: Trace, stations: Collection[str], **how: Any) -> ChangePlan:
    """Return a plan for some stations of a log."""
    now = planned_for(latest(log), periods_of(log))
    return plan_network(learn_network(log), {name: now[name] for name in stations}, workers=1, **how)


def lessons_of(log: Trace, *, explore: bool) -> Lessons:
    """Return what is believed of the changes that a plan of a log looks at; networks are of one group."""
    network = learn_network(log)
    rules = Rules(1.0 if explore else None, 0.0, Limits(network.encoder.space, {}, Rails()))
    ((call, arguments),) = _calls(network, planned_for(latest(log), periods_of(log)), rules, teach=True)[0].values()
    known: Lessons = call(*arguments)[1]
    return known


def taken_off(known: Lessons, wave: Collection[str], rest: Collection[str]) -> float:
    """Return which share of the variance of what the rest gains is expected to go with the rows of a wave.

    Example:
        >>> C = np.kron(np.diag([1.0, 0.0]), [[1.0, 0.8], [0.8, 1.0]])
        >>> taken_off(Lessons(("a", "b"), C, np.zeros(2)), ["a"], ["b"]).__round__(3)
        0.64
    """
    C, n = known.C.copy(), len(known.stations)
    for j in (known.stations.index(name) for name in wave):
        C -= np.outer(C[:, j], C[:, j]) / (C[j, j] + known.noise[j])
    D, others = np.hstack([np.eye(n), -np.eye(n)]), np.isin(known.stations, list(rest))
    before, after = (np.diagonal(D @ of @ D.T)[others].sum() for of in (known.C, C))
    return float(1.0 - after / before)


def carried_out(world: World, plan: ChangePlan, run: IntArray) -> IntArray:
    """Return what stations run once a plan is carried out, (M,)."""
    arms = {tuple(setting): arm for arm, setting in enumerate(settings_of(world.recipe.knobs).tolist())}
    number, runs = {name: m for m, name in enumerate(world.names)}, run.copy()
    for change in plan.changes:
        runs[number[change.station]] = arms[tuple(float(value) for value in change.proposed.values())]
    return runs


# --- One network ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Found:
    """What came of the first waves of a network, on average over the random ones, as shares of the possible gain.

    Attributes:
        size: Changes of the first wave.
        chosen, random: True gain of the stations of neither wave, after a chosen and after a random first wave.
        whole: What the whole network gains more after the chosen one.
        taught: What the stations of neither wave gain more after the chosen one than after none at all.
        other: How many of these stations run something else than after a random wave.
        told, told_random: Share of the variance of their gains that the rows of either wave take off.
    """

    size: int
    chosen: float
    random: float
    whole: float
    taught: float
    other: float
    told: float
    told_random: float


def compared(seed: int, **how: Any) -> Found | None:
    """Return what came of the first waves of a network; None where no plan has two changes to choose from."""
    world = draw(RECIPE, np.random.default_rng(seed))
    staging = Staging(WAVES, hold_back=HOLD_BACK, seed=seed)
    plan = planned(log_of(world), world.names, staging=staging, **how)
    number = {name: m for m, name in enumerate(world.names)}
    waves = {} if plan.waves is None else {number[name]: wave for name, wave in plan.waves.of.items()}
    going, back = [m for m, wave in waves.items() if wave], {m for m, wave in waves.items() if not wave}
    first = {m for m in going if waves[m] == 1}
    if len(going) <= len(first):
        return None
    rollout, rng = (
        Rollout(world, plan, carried_out(world, plan, world.present), seed),
        np.random.default_rng([seed, 12]),
    )
    known = lessons_of(log_of(world), explore="explore" in how)
    ours, none = rollout.after(first, first | back), rollout.after([], back)
    rows = []
    for _ in range(DRAWS):
        drawn = set(rng.choice(going, len(first), replace=False).tolist())
        theirs = ours if drawn == first else rollout.after(drawn, drawn | back)
        rest = np.array([m not in first | drawn | back for m in range(len(world.names))])
        gains = [rollout.gained(runs) for runs in (ours, theirs, none)]
        shares = [float(gain[rest].sum()) for gain in gains]
        whole = float((gains[0] - gains[1]).sum())
        others = [name for name, there in zip(world.names, rest, strict=True) if there]
        told = [taken_off(known, [world.names[m] for m in wave], others) for wave in (first, drawn)]
        of_possible = [part / rollout.possible for part in (*shares[:2], whole, shares[0] - shares[2])]
        rows.append((*of_possible, float((ours != theirs)[rest].sum()), *told))
    return Found(len(first), *np.mean(rows, axis=0).tolist())


# --- The table ------------------------------------------------------------------------------------------------------

HEAD = ("plans of", "networks", "changes in the first wave", "the rest gains, of what is possible: chosen", "random",
        "chosen - random", "whole network: chosen - random", "the rest: chosen - no wave at all",
        "stations that run something else", "variance of their gains taken off: chosen", "random")  # fmt: skip


def waves(
    seeds: Annotated[int, typer.Option(min=2, help="Networks drawn.")] = 20,
    first: Annotated[int, typer.Option(min=0, help="The first seed; those below 900 were looked at.")] = 2000,
    only: Annotated[str, typer.Option(help="Plans whose name holds this.")] = "",
    write: Annotated[Path | None, typer.Option(help="A page to put the table into, such as docs/recommend.md.")] = None,
) -> None:
    """Compare a first wave that kinband chose with a random one, by what the rest of the network gains afterwards."""
    if write is not None:
        check_place(write, MARKS)
    kinds, lines = {name: how for name, how in PLANS.items() if only in name}, [HEAD, ("---",) * len(HEAD)]
    with stage("networks", len(kinds) * seeds) as step:
        for name, how in kinds.items():
            found = []
            for seed in range(first, first + seeds):
                found.append(compared(seed, **how))
                step(name)
            lines.append(row_of(name, [one for one in found if one is not None]))
    about = (
        f"Measured with kinband {__version__} by `python -m benchmarks.waves`: {seeds} networks of {RECIPE.stations} "
        f"stations with {RECIPE.hours} rows each, seeds from {first}, those counted whose plan has more changes than "
        f"its first wave; {HOURS} hours after the wave; {DRAWS} random waves each; {WAVES} waves, {HOLD_BACK:.0%} held "
        "back. Brackets are 95 % intervals over networks, in pairs."
    )
    text = "\n".join([*(f"| {' | '.join(line)} |" for line in lines), "", about]) + "\n"
    if write is not None:
        write_between(write, text, MARKS)
    print(text)


def row_of(name: str, found: Sequence[Found]) -> tuple[str, ...]:
    """Return the row of a kind of plans.

    Example:
        >>> row_of("two", [Found(2, 0.4, 0.3, 0.1, 0, 1, 0, 0), Found(4, 0.5, 0.4, 0.1, 0, 2, 0, 0)])[1:6]
        ('2', '3.0', '45%', '35%', '+10.0% (+10.0% to +10.0%)')
    """
    of = {key: np.array([getattr(one, key) for one in found]) for key in Found.__dataclass_fields__}
    apart: list[Estimate] = [mean_of(values) for values in (of["chosen"] - of["random"], of["whole"], of["taught"])]
    means = (f"{of['chosen'].mean():.0%}", f"{of['random'].mean():.0%}", *(f"{one:+.1%}" for one in apart))
    return (
        name,
        str(len(found)),
        f"{of['size'].mean():.1f}",
        *means,
        f"{of['other'].mean():.1f}",
        f"{of['told'].mean():.1%}",
        f"{of['told_random'].mean():.1%}",
    )


def main(arguments: Sequence[str]) -> int:
    """Run the command and return its exit code."""
    return as_command(waves, "benchmarks.waves", arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
