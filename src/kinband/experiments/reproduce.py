"""Carry out the paper's comparisons under both protocols and put our numbers beside the paper's."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from kinband.experiments import paper
from kinband.experiments.cases import Case, Prior
from kinband.experiments.metrics import Estimate
from kinband.experiments.paper import Figure
from kinband.experiments.runs import Curve, run_cases

Tick = Callable[[str], None]


@dataclass(frozen=True, eq=False)
class PaperProtocol:
    """The paper's protocol on one comparison.

    Attributes:
        prior: The setting of the grid that was best for the baseline.
        beta: Its β.
        curves: All methods at that setting.
        spread: For each method its savings over the whole grid, from shorter runs.
    """

    prior: Prior
    beta: float | str
    curves: list[Curve]
    spread: dict[str, list[float]]


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
        printed = paper.PRINTED.get(self.figure.name, {})
        columns: dict[str, dict[str, Estimate]] = {}
        if self.paper is not None:
            columns["paper protocol"] = paper.savings(self.paper.curves)
        if self.fair is not None:
            columns["fair, from the log"] = paper.savings(self.fair.curves)
            columns["fair, cold"] = paper.savings(self.fair.cold)
        rows: list[dict[str, object]] = []
        for name in paper.SHARING:
            row: dict[str, object] = {"experiment": self.figure.name, "method": name, "printed": printed.get(name)}
            rows.append(row | {column: found[name] for column, found in columns.items()} | self._spread(name))
        return rows

    def _spread(self, name: str) -> dict[str, object]:
        if self.paper is None or name not in self.paper.spread:
            return {}
        over_grid = self.paper.spread[name]
        return {"least on the grid": min(over_grid), "most on the grid": max(over_grid)}


@dataclass
class Reproducer:
    """Runs comparisons in a folder; what is there already is not run again.

    Attributes:
        folder: Where models and runs are kept.
        workers: Processes; None for one per core.
        tick: Called with a word on what was done after every job.
    """

    folder: Path
    workers: int | None = None
    tick: Tick | None = None

    def run(self, figure: Figure, *, protocols: Sequence[str] = ("paper", "fair")) -> Reproduction:
        """Carry out one comparison under the protocols asked for."""
        by_paper = self._paper(figure) if "paper" in protocols else None
        fairly = self._fair(figure) if "fair" in protocols else None
        return Reproduction(figure, by_paper, fairly)

    def _paper(self, figure: Figure) -> PaperProtocol:
        baseline = self._run("baseline over the grid", paper.baseline_cases(figure))
        prior, beta = paper.best_setting(baseline)
        if prior is None:
            raise AssertionError("the paper's protocol has a prior in every case")
        best = [c for c in baseline if (c.case.prior, c.case.learner.beta) == (prior, beta)]
        sharing = self._run("sharing at the baseline's best", paper.sharing_cases(figure, prior=prior, beta=beta))
        spread = self._run("spread over the grid", paper.spread_cases(figure))
        return PaperProtocol(prior, beta, [*best, *sharing], _savings_by_setting(spread))

    def _fair(self, figure: Figure) -> FairProtocol:
        betas = paper.best_betas(self._run("choosing β", paper.tuning_cases(figure)))
        warm = self._run("fair, from the log", paper.fair_cases(figure, betas, start=True))
        cold = self._run("fair, cold", paper.fair_cases(figure, betas, start=False))
        return FairProtocol(betas, warm, cold)

    def _run(self, what: str, cases: list[Case]) -> list[Curve]:
        tick = self.tick
        return run_cases(
            cases, self.folder, workers=self.workers, tick=None if tick is None else (lambda _: tick(what))
        )


def _savings_by_setting(curves: list[Curve]) -> dict[str, list[float]]:
    """Return for each method its saving at every setting of the grid."""
    found: dict[str, list[float]] = {}
    for setting in dict.fromkeys((c.case.prior, c.case.learner.beta) for c in curves):
        own = [c for c in curves if (c.case.prior, c.case.learner.beta) == setting]
        for name, saving in paper.savings(own).items():
            found.setdefault(name, []).append(saving.value)
    return found
