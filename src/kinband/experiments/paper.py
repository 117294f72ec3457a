"""The paper's experiments: declared beforehand, carried out under two protocols, beside the numbers that it prints.

*Paper*: one kernel for all methods, cold start, as printed; the kernel, the noise and β come from the grid below. All
methods meet the whole grid in short runs, which give the spread; the settings that are best for the *baseline* there
are run at full length, and the headline stands at the best of them, again for the baseline. *Fair*: `compare`, on the
same problem, with cold runs beside those that start from the log. Kernels are found by marginal likelihood alone there;
our own, "joint", joins the paper's three with the prior that it always has.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

import numpy as np

from kinband.arrays import FloatArray
from kinband.environments import RegressionDraw, TwoTaskRegression
from kinband.experiments.compare import (
    BASELINE,
    OURS,
    TUNING_SEEDS,
    Beta,
    Comparison,
    Plan,
    final_regrets,
    mean_over_runs,
    regrets_of,
    saving_of,
)
from kinband.experiments.pages import COLOURS, blank, draw_regret, save
from kinband.experiments.runner import Case, Curve, Learner, Mode, Prior, effort_of, learn_models, run_cases
from kinband.plots import draw_band
from kinband.similarity import TaskMatrix
from kinband.stats import Estimate

SHARING = ("embedding", "prediction", "coregionalisation")
PRINTED = {
    "synthetic": {"embedding": 0.708, "prediction": 0.642, "coregionalisation": 0.367},
    "sequential": {"embedding": 0.648, "prediction": 0.532, "coregionalisation": 0.353},
    "parallel": {"embedding": 0.498, "prediction": 0.409, "coregionalisation": 0.235},
}
"""Shares of the baseline's regret that the paper saves."""

HyperParameters = tuple[Prior, Beta]
Tick = Callable[[str, float], None]

# --- What the paper compares ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Figure:
    """One comparison of the paper.

    Attributes:
        name: How `kinband reproduce` calls it.
        problem: A name of `kinband.experiments.problems`.
        mode: Parallel or sequential.
        slots: Slots of a run.
        log_rows: Rows a station that models are learned from in the fair protocol.
        grid: Priors that the paper's protocol tries.
        betas: Weights of the standard deviation that both protocols try.
        baseline_betas: What the baseline tries beside them: its own published schedule.
        runs: Runs of the headline.
        spread_slots: Slots of the short runs, over the whole grid and to choose β.
        spread_runs: How many of them at each setting.
        finalists: Settings of the baseline that are run at full length.
        similarity_rows: Rows a station that similarities are learned from in the paper's protocol, which does not say
            how many; runs start cold all the same.
    """

    name: str
    problem: str
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

    @property
    def seeds(self) -> tuple[int, ...]:
        """Of the runs that count."""
        return tuple(range(1, self.runs + 1))

    def paper_case(self, learner: Learner, seed: int, prior: Prior) -> Case:
        """Return a run of the paper's protocol."""
        return Case(self.problem, learner, self.slots, seed, self.mode, self.similarity_rows, prior, start=False)

    def fair_case(self, learner: Learner, seed: int) -> Case:
        """Return a run of the fair protocol."""
        return Case(self.problem, learner, self.slots, seed, self.mode, self.log_rows)

    def plan(self) -> Plan:
        """Return the comparison of the fair protocol."""
        learners = {one.name: one for one in (alone(own_betas=self.baseline_betas), *map(sharing, SHARING))}
        return Plan(
            learners | {OURS: Learner(OURS, OURS)}, {self.name: self.problem}, self.seeds, self.slots, self.log_rows,
            self.mode, self.betas, TUNING_SEEDS, self.spread_slots, cold=True, measure="realised",
        )  # fmt: skip


def alone(beta: Beta = 1.0, *, own_betas: tuple[Beta, ...] = ()) -> Learner:
    """Return the paper's baseline: every station by itself."""
    return Learner(BASELINE, BASELINE, "kernel-ucb", beta, hyperprior=False, own_betas=own_betas)


def sharing(name: str, beta: Beta = 1.0) -> Learner:
    """Return one of the paper's methods that share."""
    return Learner(name, name, beta=beta, hyperprior=False)


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


# --- The paper's own protocol ---------------------------------------------------------------------------------------


def spread_cases(figure: Figure) -> list[Case]:
    """Return short runs of all methods over the whole grid."""
    short = replace(figure, slots=figure.spread_slots)
    own: tuple[Beta, ...] = (*figure.betas, *figure.baseline_betas)
    learners = [alone(beta) for beta in own]
    learners += [sharing(name, beta) for name in SHARING for beta in figure.betas]
    seeds = range(1, figure.spread_runs + 1)
    return [short.paper_case(one, seed, prior) for prior in figure.grid for one in learners for seed in seeds]


def baseline_cases(figure: Figure, settings: Iterable[HyperParameters]) -> list[Case]:
    """Return full runs of the baseline at some settings."""
    return [figure.paper_case(alone(beta), seed, prior) for prior, beta in settings for seed in figure.seeds]


def sharing_cases(figure: Figure, setting: HyperParameters) -> list[Case]:
    """Return the sharing methods at one setting."""
    prior, beta = setting
    learners = [sharing(name, sharing_beta(figure, beta)) for name in SHARING]
    return [figure.paper_case(learner, seed, prior) for learner in learners for seed in figure.seeds]


def sharing_beta(figure: Figure, beta: Beta) -> Beta:
    """Return the β of those that share where the baseline has this one; a schedule of the baseline's is its alone."""
    return figure.betas[len(figure.betas) // 2] if beta in figure.baseline_betas else beta


def setting_of(case: Case) -> HyperParameters:
    """Return prior and β of a run of the paper's protocol."""
    if case.prior is None:
        raise AssertionError("the paper's protocol has a prior in every case")
    return case.prior, case.learner.beta


def best_settings(curves: Sequence[Curve], *, most: int) -> list[HyperParameters]:
    """Return prior and β of the runs with the smallest mean regret, best first."""
    paid: dict[HyperParameters, list[float]] = {}
    for curve in curves:
        paid.setdefault(setting_of(curve.case), []).append(float(curve.realised[-1]))
    return sorted(paid, key=lambda setting: float(np.mean(paid[setting])))[:most]


def savings(curves: Sequence[Curve]) -> dict[str, Estimate]:
    """Return what each sharing method saves against the baseline, from paired runs."""
    finals = final_regrets(curves)
    return {name: saving_of(finals[name], finals[BASELINE]) for name in finals if name != BASELINE}


@dataclass(frozen=True, eq=False)
class PaperProtocol:
    """The paper's protocol on one comparison.

    Attributes:
        curves: All methods at the setting of the grid that was best for the baseline.
        spread: For each method its savings at every setting of the grid, from shorter runs.
    """

    curves: list[Curve]
    spread: dict[str, dict[HyperParameters, float]]

    @property
    def setting(self) -> HyperParameters:
        """The prior and the β that were best for the baseline."""
        return setting_of(next(c.case for c in self.curves if c.case.learner.name == BASELINE))


@dataclass(frozen=True, eq=False)
class Reproduction:
    """One comparison of the paper, as far as it was carried out."""

    figure: Figure
    paper: PaperProtocol | None = None
    fair: Comparison | None = None

    def rows(self) -> list[dict[str, object]]:
        """Return one row per sharing method: the paper's saving beside ours."""
        name, columns = self.figure.name, dict[str, dict[str, Estimate]]()
        if self.paper is not None:
            columns["paper protocol"] = savings(self.paper.curves)
        if self.fair is not None:
            columns["fair, from the log"] = savings(self.fair.curves[name])
            columns["fair, cold"] = savings(self.fair.cold[name])
        rows: list[dict[str, object]] = []
        for method in (*SHARING, OURS):
            row: dict[str, object] = {"experiment": name, "method": method, "printed": PRINTED[name].get(method)}
            row |= {column: found[method] for column, found in columns.items() if method in found}
            row |= self._spread(method)
            if len(row) > 3:
                rows.append(row)
        return rows

    def reached(self) -> str:
        """Say in words where on the grid, if anywhere, the paper's savings are reached; empty without its protocol."""
        if self.paper is None:
            return ""
        words = []
        for name, spread in self.paper.spread.items():
            printed = PRINTED[self.figure.name].get(name, np.inf)
            there = [setting for setting, saving in spread.items() if saving >= printed]
            words.append(f"{name} at {len(there)} of {len(spread)}" + (f" ({_named(there[0])})" if there else ""))
        return f"{self.figure.name}: settings of the grid at which the paper's saving is reached: {'; '.join(words)}."

    def _spread(self, method: str) -> dict[str, object]:
        if self.paper is None or method not in self.paper.spread:
            return {}
        over_grid = self.paper.spread[method].values()
        return {"least on the grid": min(over_grid), "most on the grid": max(over_grid)}


@dataclass
class Reproducer:
    """Runs comparisons in a folder; what is there already is not run again.

    Attributes:
        folder: Where models and runs are kept.
        n_jobs: Processes; None for one per core.
        ray: Address of a Ray cluster that runs them instead.
        tick: Called after every job with a word on what was done and the seconds it was expected to take.
    """

    folder: Path
    n_jobs: int | None = None
    ray: str | None = None
    tick: Tick = lambda _what, _seconds: None

    def reproduce(self, figure: Figure, *, protocols: Sequence[str] = ("paper", "fair")) -> Reproduction:
        """Carry out one comparison under the protocols asked for."""
        fair = None
        paper = self._paper(figure) if "paper" in protocols else None
        if "fair" in protocols:
            fair = figure.plan().run(self.folder, n_jobs=self.n_jobs, ray=self.ray, tell=self.tick)
        return Reproduction(figure, paper, fair)

    def matrices(self, figure: Figure) -> dict[str, TaskMatrix]:
        """Return the task matrices that the fair protocol learns from the log of a comparison, by method."""
        learners = [one for one in figure.plan().learners.values() if one.name != BASELINE]
        cases = [figure.fair_case(one, 1) for one in learners]
        found = learn_models(cases, self.folder, n_jobs=self.n_jobs, ray=self.ray)
        return {one.name: model.similarity for one, model in zip(learners, found, strict=True)}

    def effort(self, figure: Figure, *, protocols: Sequence[str]) -> float:
        """Return about how many seconds of one core the runs of a comparison take, to tell how much is left."""
        seconds = 0.0
        if "paper" in protocols:
            finalists = [(figure.grid[0], beta) for beta in figure.betas[: figure.finalists]]
            cases = spread_cases(figure) + baseline_cases(figure, finalists) + sharing_cases(figure, finalists[0])
            seconds += sum(map(effort_of, cases))
        return seconds + (figure.plan().effort if "fair" in protocols else 0.0)

    def best_of_baseline(self, figure: Figure) -> list[Curve]:
        """Run the baseline at full length where short runs were best, and return its runs at the best setting."""
        short = self.run("baseline over the grid", alone_on_the_grid(figure))
        finalists = best_settings(short, most=figure.finalists)
        baseline = self.run("baseline at its best settings", baseline_cases(figure, finalists))
        best = best_settings(baseline, most=1)[0]
        return [c for c in baseline if setting_of(c.case) == best]

    def run(self, what: str, cases: Sequence[Case]) -> list[Curve]:
        """Run cases, and return their curves."""
        return run_cases(
            cases, self.folder, n_jobs=self.n_jobs, ray=self.ray, tick=lambda seconds: self.tick(what, seconds)
        )

    def _paper(self, figure: Figure) -> PaperProtocol:
        short = self.run("the whole grid in short runs", spread_cases(figure))
        best = self.best_of_baseline(figure)
        shared = self.run("sharing at the baseline's best", sharing_cases(figure, setting_of(best[0].case)))
        return PaperProtocol([*best, *shared], _savings_by_setting(short))


def alone_on_the_grid(figure: Figure) -> list[Case]:
    """Return the baseline's part of the short runs."""
    return [case for case in spread_cases(figure) if case.learner.name == BASELINE]


def _savings_by_setting(curves: Sequence[Curve]) -> dict[str, dict[HyperParameters, float]]:
    """For each method its saving at every setting of the grid that it shares with the baseline."""
    found: dict[str, dict[HyperParameters, float]] = {}
    for setting in dict.fromkeys(setting_of(c.case) for c in curves):
        own = [c for c in curves if setting_of(c.case) == setting]
        for name, saving in savings(own).items():
            found.setdefault(name, {})[setting] = saving.value
    return found


def _named(setting: HyperParameters) -> str:
    prior, beta = setting
    return f"length-scale {prior.length_scale:g}, noise {prior.noise:g}, β {beta}"


# --- The paper's first figure: how the error of a two-task regression depends on the similarity it is trained with


@dataclass(frozen=True, eq=False)
class ErrorCurve:
    """Test error of the two-task regression against the similarity trained with.

    Attributes:
        similarity: Trained with, (s,).
        error: Mean squared error of every draw, (draws, s).
    """

    similarity: FloatArray
    error: FloatArray

    @property
    def lowest(self) -> Estimate:
        """Where the mean curve is lowest, with a bootstrap interval over draws."""
        rng = np.random.default_rng(0)
        picks = rng.integers(len(self.error), size=(1000, len(self.error)))
        places = np.array([self.similarity[self.error[p].mean(axis=0).argmin()] for p in picks])
        low, high = np.quantile(places, [0.025, 0.975])
        return Estimate(float(self.similarity[self.error.mean(axis=0).argmin()]), float(low), float(high))

    def at(self, similarity: float) -> Estimate:
        """Return the error at one similarity, with its interval."""
        return mean_over_runs(self.error[:, int(np.abs(self.similarity - similarity).argmin())])


def error_curve(*, draws: int, seed: int = 1) -> ErrorCurve:
    """Return the error of (9) when trained with similarities from 0 to 1."""
    problem, similarity = TwoTaskRegression(), np.linspace(0.0, 1.0, 101)
    rng = np.random.default_rng(seed)
    errors = [_errors(problem, draw, similarity) for draw in problem.draws(draws, rng)]
    return ErrorCurve(similarity, np.array(errors))


def _errors(problem: TwoTaskRegression, draw: RegressionDraw, similarity: FloatArray) -> FloatArray:
    """Return the error of one draw for every similarity at once, (s,)."""
    train, test, s = draw.train, draw.test, similarity[:, None, None]
    K_X = np.exp(-((draw.X[:, None] - draw.X[train]) ** 2).sum(axis=-1) / (2 * problem.length_scale**2))
    own = draw.tasks[:, None] == draw.tasks[train]
    K = np.where(own, 1.0, s) * K_X  # (s, 2P, 2n), (7) with K_Z = [[1, s], [s, 1]]
    regularised = K[:, train] + problem.noise * np.eye(len(train))
    alpha = np.linalg.solve(regularised, np.broadcast_to(draw.y[train, None], (len(similarity), len(train), 1)))
    squared = ((K[:, test] @ alpha)[..., 0] - draw.y[test]) ** 2
    errors: FloatArray = squared.mean(axis=1)
    return errors


# --- Figures --------------------------------------------------------------------------------------------------------


def regret_figure(curves: Sequence[Curve], paths: Sequence[Path], *, labels: Mapping[str, str], title: str) -> None:
    """Draw cumulated regret against slots, one line per learner."""
    figure, axes = blank("slot", "cumulated regret, all stations", title)
    draw_regret(axes, curves[0].slot, regrets_of(curves), labels=labels)
    save(figure, paths)


def error_figure(curve: ErrorCurve, paths: Sequence[Path], *, truth: float) -> None:
    """Draw the error of the two-task regression against the similarity it was trained with."""
    title = f"Two-task regression, {len(curve.error)} draws"
    figure, axes = blank("similarity trained with", "mean squared error on test points", title)
    draw_band(axes, curve.similarity, curve.error, colour=COLOURS["embedding"], label="mean, ± 2 standard errors")
    lowest = curve.lowest
    axes.axvline(truth, color="#999999", linewidth=1, linestyle="--", label=f"true similarity, {truth:g}")
    axes.plot(lowest.value, curve.at(lowest.value).value, "o", color="#000000", label=f"lowest, at {lowest.value:.2f}")
    axes.legend(frameon=False)
    save(figure, paths)


def spread_figure(
    spread: Mapping[str, Sequence[float]],
    printed: Mapping[str, float],
    paths: Sequence[Path],
    *,
    labels: Mapping[str, str],
    title: str,
) -> None:
    """Draw what every method saves at each setting of the grid, beside what the paper prints."""
    figure, axes = blank("share of the baseline's regret saved", "", title)
    for row, (name, values) in enumerate(spread.items()):
        axes.plot(values, np.full(len(values), row), "o", color=COLOURS[name], alpha=0.5, markersize=7)
        if name in printed:
            axes.plot(printed[name], row, "D", color="#000000", markersize=7, label="paper" if not row else None)
    axes.axvline(0, color="#999999", linewidth=1)
    axes.set_yticks(range(len(spread)), [labels[name] for name in spread])
    axes.set_ylim(len(spread) - 0.5, -0.5)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    axes.legend(frameon=False)
    save(figure, paths)


def matrices_figure(
    matrices: Mapping[str, TaskMatrix], paths: Sequence[Path], *, labels: Mapping[str, str], title: str
) -> None:
    """Draw several task matrices of the same stations side by side, all in the order that groups the first."""
    from matplotlib.figure import Figure as Canvas

    order = next(iter(matrices.values())).order()
    figure = Canvas(figsize=(4.1 * len(matrices) + 0.6, 4.9), layout="constrained")
    figure.suptitle(title, x=0.01, ha="left")
    panels = figure.subplots(1, len(matrices), squeeze=False)[0]
    for axes, (name, alike) in zip(panels, matrices.items(), strict=True):
        values = alike.matrix[np.ix_(order, order)]
        image = axes.imshow(values, cmap="RdBu_r", vmin=-1, vmax=1, interpolation="nearest")
        axes.set_title(labels[name], loc="left", fontsize=10)
        axes.set_xlabel(f"{len(order)} stations, grouped")
        axes.set_xticks([])
        axes.set_yticks([])
    figure.colorbar(image, ax=panels, label="similarity", shrink=0.8)
    save(figure, paths)
