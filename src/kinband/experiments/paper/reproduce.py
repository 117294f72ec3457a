"""Carry out the paper's comparisons under both protocols and put our numbers beside the paper's."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from kinband.experiments.metrics import Estimate
from kinband.experiments.paper import comparisons
from kinband.experiments.paper.comparisons import Figure, Setting
from kinband.experiments.paper.readings import SEEDS, Found, Reading, found_of, readings_of
from kinband.experiments.play.cases import Case, Prior
from kinband.experiments.play.runs import Curve, effort_of, models_for, run_cases
from kinband.similarity import TaskMatrix

Tick = Callable[[str, float], None]


@dataclass(frozen=True, eq=False)
class PaperProtocol:
    """The paper's protocol on one comparison.

    Attributes:
        prior: The setting of the grid that was best for the baseline.
        beta: Its β.
        curves: All methods at that setting.
        spread: For each method its savings at every setting of the grid, from shorter runs.
    """

    prior: Prior
    beta: float | str
    curves: list[Curve]
    spread: dict[str, dict[Setting, float]]


@dataclass(frozen=True, eq=False)
class FairProtocol:
    """The fair protocol on one comparison.

    Attributes:
        betas: The β chosen for each method, on seeds of their own.
        curves: All methods, started from the log.
        cold: The same methods without the log in their beliefs.
    """

    betas: dict[str, float | str]
    curves: list[Curve]
    cold: list[Curve]


@dataclass(frozen=True, eq=False)
class Reproduction:
    """One comparison of the paper, as far as it was carried out."""

    figure: Figure
    paper: PaperProtocol | None = None
    fair: FairProtocol | None = None

    def rows(self) -> list[dict[str, object]]:
        """Return one row per sharing method: the paper's saving beside ours."""
        printed = comparisons.PRINTED.get(self.figure.name, {})
        columns: dict[str, dict[str, Estimate]] = {}
        if self.paper is not None:
            columns["paper protocol"] = comparisons.savings(self.paper.curves)
        if self.fair is not None:
            columns["fair, from the log"] = comparisons.savings(self.fair.curves)
            columns["fair, cold"] = comparisons.savings(self.fair.cold)
        rows: list[dict[str, object]] = []
        for name in self.figure.fair_names:
            row: dict[str, object] = {"experiment": self.figure.name, "method": name, "printed": printed.get(name)}
            row |= {column: found[name] for column, found in columns.items() if name in found} | self._spread(name)
            if len(row) > 3:
                rows.append(row)
        return rows

    def reached(self) -> str:
        """Say in words where on the grid, if anywhere, the paper's savings are reached; empty without its protocol."""
        if self.paper is None:
            return ""
        printed = comparisons.PRINTED.get(self.figure.name, {})
        words = []
        for name, spread in self.paper.spread.items():
            there = [setting for setting, saving in spread.items() if saving >= printed.get(name, np.inf)]
            words.append(f"{name} at {len(there)} of {len(spread)}" + (f" ({_named(there[0])})" if there else ""))
        return f"{self.figure.name}: settings of the grid at which the paper's saving is reached: {'; '.join(words)}."

    def _spread(self, name: str) -> dict[str, object]:
        if self.paper is None or name not in self.paper.spread:
            return {}
        over_grid = self.paper.spread[name].values()
        return {"least on the grid": min(over_grid), "most on the grid": max(over_grid)}


@dataclass
class Reproducer:
    """Runs comparisons in a folder; what is there already is not run again.

    Attributes:
        folder: Where models and runs are kept.
        workers: Processes; None for one per core.
        ray: Address of a Ray cluster that runs them instead.
        tick: Called after every job with a word on what was done and the seconds it was expected to take.
    """

    folder: Path
    workers: int | None = None
    ray: str | None = None
    tick: Tick | None = None

    def run(self, figure: Figure, *, protocols: Sequence[str] = ("paper", "fair")) -> Reproduction:
        """Carry out one comparison under the protocols asked for."""
        by_paper = self._paper(figure) if "paper" in protocols else None
        fairly = self._fair(figure) if "fair" in protocols else None
        return Reproduction(figure, by_paper, fairly)

    def matrices(self, figure: Figure) -> dict[str, TaskMatrix]:
        """Return the task matrices that the fair protocol learns from the log of a comparison, by method."""
        learners = [comparisons.sharing_learner(name, figure.betas[0], figure) for name in figure.fair_names]
        cases = [comparisons.case_of(figure, "fair", one, 1) for one in learners]
        found = models_for(cases, self.folder, workers=self.workers, ray=self.ray)
        return {one.name: model.similarity for one, model in zip(learners, found, strict=True)}

    def effort(self, figure: Figure, *, protocols: Sequence[str]) -> float:
        """Return about how many seconds of one core the runs of a comparison take, to tell how much is left."""
        any_prior, any_beta = figure.grid[0] if figure.grid else None, figure.betas[0]
        betas: dict[str, float | str] = dict.fromkeys((comparisons.BASELINE, *figure.fair_names), any_beta)
        cases: list[Case] = []
        if "paper" in protocols and any_prior is not None:
            finalists = [(any_prior, beta) for beta in figure.betas[: figure.finalists]]
            cases += comparisons.spread_cases(figure) + comparisons.baseline_cases(figure, finalists)
            cases += comparisons.sharing_cases(figure, prior=any_prior, beta=any_beta)
        if "fair" in protocols:
            cases += comparisons.tuning_cases(figure)
            cases += [case for start in (True, False) for case in comparisons.fair_cases(figure, betas, start=start)]
        return sum(map(effort_of, cases))

    def readings(self, figure: Figure, *, seeds: Sequence[int] = SEEDS) -> list[Found]:
        """Carry out what the print leaves open around the setting that is best for the baseline."""
        short = self._run("baseline over the grid", _alone_on_the_grid(figure))
        best = self._best_of_baseline(figure, short)[0].case
        readings = readings_of(figure, (best.prior, best.learner.beta))
        cases = _cases_of(readings, seeds)
        runs = {curve.case: curve for curve in self._run(f"readings, {figure.name}", cases)}
        return [found_of(reading, [runs[case] for case in reading.cases(seeds)]) for reading in readings]

    def readings_effort(self, figure: Figure, *, seeds: Sequence[int] = SEEDS) -> float:
        """Return about how many seconds of one core the readings of a comparison take."""
        any_setting = (figure.grid[0], figure.betas[0])
        cases = _alone_on_the_grid(figure) + comparisons.baseline_cases(figure, [any_setting] * figure.finalists)
        cases += _cases_of(readings_of(figure, any_setting), seeds)
        return sum(map(effort_of, cases))

    def _best_of_baseline(self, figure: Figure, short: Sequence[Curve]) -> list[Curve]:
        """Run the baseline at full length where short runs were best, and return its runs at the best setting."""
        alone = [c for c in short if c.case.learner.name == comparisons.BASELINE]
        finalists = comparisons.best_settings(alone, most=figure.finalists)
        baseline = self._run("baseline at its best settings", comparisons.baseline_cases(figure, finalists))
        best = comparisons.best_settings(baseline, most=1)[0]
        return [c for c in baseline if (c.case.prior, c.case.learner.beta) == best]

    def _paper(self, figure: Figure) -> PaperProtocol:
        short = self._run("the whole grid in short runs", comparisons.spread_cases(figure))
        best = self._best_of_baseline(figure, short)
        prior, beta = best[0].case.prior, best[0].case.learner.beta
        if prior is None:
            raise AssertionError("the paper's protocol has a prior in every case")
        sharing = self._run("sharing at the baseline's best", comparisons.sharing_cases(figure, prior=prior, beta=beta))
        return PaperProtocol(prior, beta, [*best, *sharing], _savings_by_setting(short))

    def _fair(self, figure: Figure) -> FairProtocol:
        betas = comparisons.best_betas(self._run("choosing β", comparisons.tuning_cases(figure)))
        warm = self._run("fair, from the log", comparisons.fair_cases(figure, betas, start=True))
        cold = self._run("fair, cold", comparisons.fair_cases(figure, betas, start=False))
        return FairProtocol(betas, warm, cold)

    def _run(self, what: str, cases: list[Case]) -> list[Curve]:
        tick = self.tick
        say = None if tick is None else (lambda effort: tick(what, effort))
        return run_cases(cases, self.folder, workers=self.workers, ray=self.ray, tick=say)


def _alone_on_the_grid(figure: Figure) -> list[Case]:
    """The baseline's part of the short runs."""
    return [case for case in comparisons.spread_cases(figure) if case.learner.name == comparisons.BASELINE]


def _cases_of(readings: Sequence[Reading], seeds: Sequence[int]) -> list[Case]:
    """The runs of readings; those that two readings have in common come once."""
    return list(dict.fromkeys(case for reading in readings for case in reading.cases(seeds)))


def _savings_by_setting(curves: list[Curve]) -> dict[str, dict[Setting, float]]:
    """Return for each method its saving at every setting of the grid that it shares with the baseline."""
    found: dict[str, dict[Setting, float]] = {}
    for setting in dict.fromkeys((c.case.prior, c.case.learner.beta) for c in curves):
        own = [c for c in curves if (c.case.prior, c.case.learner.beta) == setting]
        for name, saving in comparisons.savings(own).items():
            found.setdefault(name, {})[setting] = saving.value
    return found


def _named(setting: Setting) -> str:
    prior, beta = setting
    where = "" if prior is None else f"length-scale {prior.length_scale:g}, noise {prior.noise:g}, "
    return f"{where}β {beta}"
