"""The paper's experiments, declared beforehand: settings, learners, seeds, and the numbers the paper prints.

Two protocols. *Paper*: one kernel for all methods, cold start, as printed; the kernel, the noise and β come from the
grid below. All methods meet the whole grid in short runs, which give the spread; the settings that are best for the
*baseline* there are run at full length, and the headline stands at the best of them, again for the baseline. *Fair*:
every method, the baseline included, gets its kernel by likelihood from the same log and its β from the same grid,
chosen on seeds of their own; it starts from that log, and cold runs stand beside it. Our own, "joint", joins the
paper's three there, with the prior that it always has.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np

from kinband.arrays import FloatArray
from kinband.experiments.metrics import Estimate, saving_of
from kinband.experiments.play.cases import Case, Learner, Mode, Prior
from kinband.experiments.play.runs import Curve

BASELINE = "independent"
SHARING = ("embedding", "prediction", "coregionalisation")
OURS = "joint"
LABELS = {
    "independent": "each station alone",
    "pooled": "all stations as one",
    "embedding": "shared, conditional embedding",
    "prediction": "shared, mutual R²",
    "coregionalisation": "shared, coregionalisation",
    "joint": "shared, as kinband does by default",
}
PRINTED = {
    "synthetic": {"embedding": 0.708, "prediction": 0.642, "coregionalisation": 0.367},
    "sequential": {"embedding": 0.648, "prediction": 0.532, "coregionalisation": 0.353},
    "parallel": {"embedding": 0.498, "prediction": 0.409, "coregionalisation": 0.235},
}
"""Shares of the baseline's regret that the paper saves."""

Setting = tuple[Prior | None, float | str]
"""Prior and β."""


@dataclass(frozen=True)
class Figure:
    """One comparison of the paper.

    Attributes:
        name: How `kinband reproduce` calls it.
        environment: As in `Case`.
        mode: Parallel or sequential.
        slots: Slots of a run.
        log_rows: Rows a station that models are learned from in the fair protocol.
        grid: Priors that the paper's protocol tries.
        betas: Weights of the width that both protocols try.
        baseline_betas: What the baseline tries beside them: its own published schedule.
        runs: Runs of the headline.
        spread_slots: Slots of the short runs, over the whole grid and to choose β.
        spread_runs: How many of them at each setting.
        finalists: Settings of the baseline that are run at full length.
        similarity_rows: Rows a station that similarities are learned from in the paper's protocol, which does not say
            how many; runs start cold all the same.
        pulled: Whether all learners of the fair protocol get kernels as controllers do, with a weak prior.
    """

    name: str
    environment: str
    mode: Mode
    slots: int
    log_rows: int
    grid: tuple[Prior, ...]
    betas: tuple[float, ...]
    baseline_betas: tuple[str, ...]
    runs: int
    spread_slots: int
    spread_runs: int = 3
    finalists: int = 3
    similarity_rows: int = 100
    pulled: bool = False

    @property
    def fair_names(self) -> tuple[str, ...]:
        """The methods of the fair protocol that share."""
        return (*SHARING, OURS)


_SYNTHETIC_GRID = tuple(Prior(length, noise) for length, noise in product((0.1, 0.3, 1.0), (0.01, 0.1)))
_TRACE_GRID = tuple(Prior(length, noise) for length, noise in product((1.0, 2.0, 4.0), (0.01, 0.1)))
_BETAS = (0.3, 1.0, 2.0)
_DECISIONS = 4000
_STATIONS = 105

FIGURES = {
    "synthetic": Figure("synthetic", "synthetic", "parallel", 1000, 50, _SYNTHETIC_GRID, _BETAS, (), 10, 200),
    "sequential": Figure(
        "sequential", "bundled", "sequential", _DECISIONS, 20, _TRACE_GRID, _BETAS, ("krause-ong",), 10, 1000
    ),
    # Slots are rescaled to equal training data: each round of all stations counts for as many decisions.
    "parallel": Figure(
        "parallel", "bundled", "parallel", _DECISIONS // _STATIONS, 20, _TRACE_GRID, _BETAS, ("krause-ong",), 10, 10
    ),
}


def quick(figure: Figure) -> Figure:
    """Return a small version of a comparison, for a look in two minutes."""
    return replace(
        figure,
        slots=max(figure.slots // 10, 4),
        runs=3,
        grid=figure.grid[2:4],
        betas=figure.betas[:2],
        spread_slots=max(figure.spread_slots // 10, 2),
        spread_runs=1,
        finalists=1,
        log_rows=figure.log_rows // 2,
        similarity_rows=20,
    )


def spread_cases(figure: Figure) -> list[Case]:
    """Return short runs of all methods over the whole grid of the paper's protocol."""
    short, seeds = replace(figure, slots=figure.spread_slots), range(1, figure.spread_runs + 1)
    learners = [*_alone(figure), *(Learner(name, name, beta=beta) for name in SHARING for beta in figure.betas)]
    return [case_of(short, "paper", one, seed, prior=p) for p in figure.grid for one in learners for seed in seeds]


def baseline_cases(figure: Figure, settings: Iterable[Setting]) -> list[Case]:
    """Return full runs of the baseline at some settings of the paper's protocol."""
    pairs = [(Learner(BASELINE, "independent", "kernel-ucb", beta), prior) for prior, beta in settings]
    seeds = range(1, figure.runs + 1)
    return [case_of(figure, "paper", learner, seed, prior=prior) for learner, prior in pairs for seed in seeds]


def sharing_cases(figure: Figure, *, prior: Prior, beta: float | str) -> list[Case]:
    """Return the sharing methods at one setting of the paper's protocol."""
    learners = [Learner(name, name, beta=sharing_beta(figure, beta)) for name in SHARING]
    seeds = range(1, figure.runs + 1)
    return [case_of(figure, "paper", learner, seed, prior=prior) for learner in learners for seed in seeds]


def sharing_beta(figure: Figure, beta: float | str) -> float | str:
    """Return the β of those that share where the baseline has this one; a schedule of the baseline's is its alone."""
    return figure.betas[len(figure.betas) // 2] if beta in figure.baseline_betas else beta


def tuning_cases(figure: Figure) -> list[Case]:
    """Return the runs that choose every method's β in the fair protocol, on seeds of their own."""
    tuned = replace(figure, slots=figure.spread_slots)
    return [case_of(tuned, "fair", one, seed, start=True) for one in _fair_learners(figure) for seed in (101, 102, 103)]


def fair_cases(figure: Figure, betas: dict[str, float | str], *, start: bool) -> list[Case]:
    """Return the runs of the fair protocol, every method with the β that was chosen for it."""
    learners = [one for one in _fair_learners(figure) if one.beta == betas[one.name]]
    return [case_of(figure, "fair", one, seed, start=start) for one in learners for seed in range(1, figure.runs + 1)]


def best_settings(curves: Sequence[Curve], *, most: int) -> list[Setting]:
    """Return prior and β of the runs with the smallest mean regret, best first."""
    settings = dict.fromkeys((c.case.prior, c.case.learner.beta) for c in curves)
    return sorted(settings, key=lambda s: _mean_regret(curves, *s))[:most]


def best_betas(curves: Sequence[Curve]) -> dict[str, float | str]:
    """Return for every learner the β with the smallest mean regret."""
    names = dict.fromkeys(c.case.learner.name for c in curves)
    mine = {name: [c for c in curves if c.case.learner.name == name] for name in names}
    return {name: best_settings(own, most=1)[0][1] for name, own in mine.items()}


def savings(curves: Sequence[Curve]) -> dict[str, Estimate]:
    """Return what each sharing method saves against the baseline, from paired runs."""
    finals = final_regrets(curves)
    return {name: saving_of(finals[name], finals[BASELINE]) for name in finals if name != BASELINE}


def final_regrets(curves: Iterable[Curve]) -> dict[str, FloatArray]:
    """Return each learner's regret at the end of every run, by seed."""
    found: dict[str, list[tuple[int, float]]] = {}
    for curve in curves:
        found.setdefault(curve.case.learner.name, []).append((curve.case.seed, float(curve.regret[-1])))
    return {name: np.array([regret for _, regret in sorted(pairs)]) for name, pairs in found.items()}


def _alone(figure: Figure) -> list[Learner]:
    betas: tuple[float | str, ...] = (*figure.betas, *figure.baseline_betas)
    return [Learner(BASELINE, "independent", "kernel-ucb", beta, pulled=figure.pulled) for beta in betas]


def _fair_learners(figure: Figure) -> list[Learner]:
    return [
        *_alone(figure),
        *(sharing_learner(name, beta, figure) for name in figure.fair_names for beta in figure.betas),
    ]


def sharing_learner(name: str, beta: float, figure: Figure) -> Learner:
    """Return a learner of the fair protocol that shares."""
    return Learner(name, name, beta=beta, pulled=figure.pulled or name == OURS)


def case_of(
    figure: Figure, protocol: str, learner: Learner, seed: int, *, prior: Prior | None = None, start: bool = False
) -> Case:
    """Return one run of a comparison."""
    return Case(
        experiment=figure.name,
        protocol=protocol,
        environment=figure.environment,
        learner=learner,
        mode=figure.mode,
        slots=figure.slots,
        seed=seed,
        log_rows=figure.similarity_rows if protocol == "paper" else figure.log_rows,
        prior=prior,
        start=start,
    )


def _mean_regret(curves: Sequence[Curve], prior: Prior | None, beta: float | str) -> float:
    own = [c for c in curves if c.case.prior == prior and c.case.learner.beta == beta]
    return float(np.mean([c.regret[-1] for c in own]))
