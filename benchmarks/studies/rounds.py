"""What deciding in rounds costs: all stations at once against one after the other, on as many decisions.

Stations of a parallel round (Algorithm 1) decide without each other's rewards, so what one of them learns helps the
others a round later; taking turns (Algorithm 2) it helps at once. The paper's savings fall from 65 % to 50 % of the
regret of learning alone when rounds take the place of turns. Three learners play rounds here:

- *plain*: UCB, all stations from the same beliefs, as in the paper;
- *aware*: UCB, each station with the widths that the round's earlier picks leave (`kinband.policies.base`);
- *thompson*: each station draws its own function from the posterior, so that alike stations try different things.

The mode is judged by savings, each against learning alone in the same mode, since a run in turns and one in rounds meet
different slots. Everything else is the fair protocol of `paper`: models from the same log, which beliefs start from,
and every learner's weight of the width from the same grid, on seeds of their own. Weights are chosen in runs as long as
those that count: in runs a quarter as long, which `paper` uses, trying less looks better than it is in the end.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count, islice

from benchmarks.metrics import saving_gap_of
from kinband.experiments.compare import BASELINE, best_betas, final_regrets, saving_of
from kinband.experiments.paper import FIGURES, Figure
from kinband.experiments.runner import Case, Curve, Learner
from kinband.stats import Estimate

PLAIN, AWARE, THOMPSON = "plain", "aware", "thompson"
LEARNERS = (PLAIN, AWARE, THOMPSON)
_TUNING_SEEDS = 101


ENGINE = "sparse"
"""The posterior of those that share: an exact one pays 2 % less regret (docs/scaling.md) and takes far longer."""


@dataclass(frozen=True)
class Plan:
    """What is played.

    Attributes:
        seeds: Of the runs that count; those of the runs that choose weights are others.
        similarity: How similarity is learned from the log, for all learners that share.
        turns: The sequential comparison whose protocol holds.
        rounds: The parallel one, with as many decisions.

    Example:
        >>> plan = Plan(range(1, 21))
        >>> plan.turns.slots, plan.rounds.slots * 105
        (4000, 3990)
    """

    seeds: Sequence[int]
    similarity: str = "joint"
    turns: Figure = FIGURES["sequential"]
    rounds: Figure = FIGURES["parallel"]


@dataclass(frozen=True)
class Finding:
    """What was found over all seeds.

    Attributes:
        turns: Share of the regret of learning alone that sharing saves when stations take turns.
        rounds: The same in rounds, by learner.
        gap: By how much the latter exceeds the former, by learner.
        betas: The weights that were chosen, by mode and learner.
    """

    turns: Estimate
    rounds: Mapping[str, Estimate]
    gap: Mapping[str, Estimate]
    betas: Mapping[str, Mapping[str, float | str]]


def tuning_cases(plan: Plan) -> list[Case]:
    """Return the runs that choose every learner's weight, on three seeds that do not count."""
    seeds = list(islice((seed for seed in count(_TUNING_SEEDS) if seed not in plan.seeds), 3))
    figures = plan.turns, plan.rounds
    return [_case(figure, one, seed) for figure in figures for one in _candidates(figure, plan) for seed in seeds]


def counted_cases(plan: Plan, tuned: Sequence[Curve]) -> list[Case]:
    """Return the runs that count, every learner with the weight that was best for it in the others."""
    betas = chosen_betas(tuned)
    return _counted(plan, lambda figure, name: betas[figure.mode][name])


def cases_about(plan: Plan) -> list[Case]:
    """Return cases as many and as long as those of the plan, before weights are chosen: to tell how long it takes."""
    return [*tuning_cases(plan), *_counted(plan, lambda figure, _: figure.betas[0])]


def chosen_betas(tuned: Sequence[Curve]) -> dict[str, dict[str, float | str]]:
    """Return every learner's best weight in the runs that choose it, by mode."""
    modes = dict.fromkeys(curve.case.mode for curve in tuned)
    return {mode: best_betas([curve for curve in tuned if curve.case.mode == mode]) for mode in modes}


def finding(curves: Sequence[Curve], tuned: Sequence[Curve]) -> Finding:
    """Return what the runs that count say."""
    turns, rounds = (
        final_regrets([curve for curve in curves if curve.case.mode == mode]) for mode in ("sequential", "parallel")
    )
    return Finding(
        saving_of(turns[PLAIN], turns[BASELINE]),
        {name: saving_of(rounds[name], rounds[BASELINE]) for name in LEARNERS},
        {
            name: saving_gap_of(rounds[name], rounds[BASELINE], other=turns[PLAIN], other_baseline=turns[BASELINE])
            for name in LEARNERS
        },
        chosen_betas(tuned),
    )


def _counted(plan: Plan, beta: Callable[[Figure, str], float | str]) -> list[Case]:
    return [
        _case(figure, one, seed)
        for figure in (plan.turns, plan.rounds)
        for one in _candidates(figure, plan)
        for seed in plan.seeds
        if one.beta == beta(figure, one.name)
    ]


def _candidates(figure: Figure, plan: Plan) -> list[Learner]:
    """The learners of a mode with every weight they may take; taking turns, there are no picks to be aware of."""
    betas: tuple[float | str, ...] = (*figure.betas, *figure.baseline_betas)
    alone = [Learner(BASELINE, "independent", "kernel-ucb", beta) for beta in betas]
    shared = [
        Learner(PLAIN, plan.similarity, engine=ENGINE),
        Learner(AWARE, plan.similarity, engine=ENGINE, rounds="aware"),
        Learner(THOMPSON, plan.similarity, "thompson", engine=ENGINE),
    ]
    playing = shared if figure.mode == "parallel" else shared[:1]
    return [*alone, *(replace(one, beta=beta) for one in playing for beta in figure.betas)]


def _case(figure: Figure, learner: Learner, seed: int) -> Case:
    return figure.fair_case(learner, seed)
