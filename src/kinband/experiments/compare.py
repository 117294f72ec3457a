"""A fair comparison of learners on problems: `kinband.compare`.

Every learner, the baseline included, gets the same log, learns its kernel from it by likelihood, starts from it, meets
the same slots on the same seeds, and plays with the weight β that suited it best, out of the same grid, on seeds that
do not count. What is saved of the baseline's regret is counted in pairs of runs on one seed, with a 95 % interval.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from kinband.arrays import FloatArray, IntArray, data_frame
from kinband.errors import BadInputError, NotFoundError
from kinband.experiments.pages import draw_regret
from kinband.experiments.problems import as_problem
from kinband.experiments.runner import Case, Curve, Learner, Mode, effort_of, run_cases
from kinband.parallel import processes
from kinband.policies import POLICIES
from kinband.progress import stage
from kinband.similarity import NAMES, TaskMatrix
from kinband.stats import Estimate

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame

BASELINE, OURS = "independent", "joint"
LABELS = {
    "independent": "each station alone",
    "pooled": "all stations as one",
    "embedding": "shared, conditional embedding",
    "prediction": "shared, mutual R²",
    "coregionalisation": "shared, coregionalisation",
    "joint": "shared, as kinband does by default",
}
BETAS = (0.1, 0.3, 1.0)
TUNING_SEEDS = (101, 102, 103)
ENOUGH = 5
"""Runs below which an interval is too rough to tell anything from chance."""

Measure = Literal["expected", "realised"]
Beta = float | str

_SHARING_POLICIES = ("ucb", "thompson", "super-ucb")  # others have no use for a task matrix that shares
_RESAMPLES = 4000
_OF = "of the regret of learning alone"

# --- Who is compared ------------------------------------------------------------------------------------------------


def learner_of(given: Any, name: str | None = None) -> Learner:
    """Return the learner that a name, a similarity, a policy's factory or a `Learner` stands for.

    Example:
        >>> learner_of("embedding").similarity, learner_of("linucb").policy
        ('embedding', 'linucb')
        >>> learner_of("magic")
        Traceback (most recent call last):
            ...
        kinband.errors.NotFoundError: no learner is called 'magic': choose one of ...
    """
    if isinstance(given, Learner):
        return replace(given, name=name or given.name)
    if isinstance(given, str):
        return _named(given, name or given)
    called = name or str(getattr(given, "__name__", type(given).__name__))
    if hasattr(given, "fit") or isinstance(given, TaskMatrix | np.ndarray | list):
        return Learner(called, given)
    if callable(given) or hasattr(given, "build"):
        return Learner(called, policy=given)
    raise BadInputError(
        f"a learner is a name, a similarity with fit(log), a factory of policies or a Learner, not {given!r:.60}",
        argument="learners",
        value=given,
    )


def _named(what: str, name: str) -> Learner:
    if what == BASELINE:  # with the schedule that its authors published, too
        return Learner(name, BASELINE, "kernel-ucb", own_betas=("krause-ong",))
    if what in NAMES:
        return Learner(name, what)
    if what in POLICIES:
        return Learner(name, OURS if what in _SHARING_POLICIES else BASELINE, what)
    choices = ", ".join(dict.fromkeys([*NAMES, *POLICIES]))
    raise NotFoundError(
        f"no learner is called {what!r}", hint=f"choose one of {choices}, or pass your own", argument="learners"
    )


def _learners(given: Any, baseline: str) -> dict[str, Learner]:
    """The learners by name, the baseline first; it plays whether it was named or not."""
    if isinstance(given, Mapping):
        found = {name: learner_of(one, name) for name, one in given.items()}
    else:
        several = given if isinstance(given, Iterable) and not isinstance(given, str | np.ndarray) else [given]
        made = [learner_of(one) for one in several]
        found = {one.name: one for one in made}
        if len(found) < len(made):
            raise BadInputError("two learners have one name", hint="pass a dict of them", argument="learners")
    if baseline not in found:
        found = {baseline: learner_of(baseline)} | found
    return {baseline: found[baseline]} | found


def _problems(given: Any, log_rows: int) -> dict[str, Any]:
    """The problems by name, ready to be played."""
    if isinstance(given, Mapping):
        return {name: _problem(one, log_rows) for name, one in given.items()}
    several = given if isinstance(given, list | tuple) else [given]
    names = [one if isinstance(one, str) else type(one).__name__ for one in several]
    if len(set(names)) < len(names):
        raise BadInputError("two problems have one name", hint="pass a dict of them", argument="problems")
    return {name: as_problem(one, log_rows=log_rows) for name, one in zip(names, several, strict=True)}


def _problem(given: Any, log_rows: int) -> Any:
    """A problem, or one for each seed."""
    if isinstance(given, Mapping):
        return {seed: as_problem(one, log_rows=log_rows) for seed, one in given.items()}
    return as_problem(given, log_rows=log_rows)


# --- What came out --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Standing:
    """What one learner paid on one problem, and what it saved of the baseline's regret.

    Attributes:
        beta: The weight that was chosen for it.
        regret: At the end of a run, mean over runs.
        saved: Share of the baseline's regret, None for the baseline itself and where it paid none.
        runs: How many runs there were.
    """

    beta: Beta
    regret: Estimate
    saved: Estimate | None
    runs: int

    @property
    def verdict(self) -> str:
        """Whether it pays less than the baseline: where the whole interval says so, of runs enough to have one."""
        if self.saved is None:
            return "-"
        if self.runs < ENOUGH:
            return "too few runs"
        return {1: "better", 0: "no clear difference", -1: "worse"}[self.saved.side(0.0)]


@dataclass(frozen=True, eq=False)
class Comparison:
    """The runs of a comparison, and what they say.

    Attributes:
        learners: Their names, the baseline first.
        betas: The weight β that was chosen for each learner, by problem.
        curves: The runs that count, by problem.
        cold: The same without the log in their beliefs, where that was asked for.
        measure: Which regret counts: in expectation, or against the best reward there was.
    """

    learners: tuple[str, ...]
    betas: Mapping[str, Mapping[str, Beta]]
    curves: Mapping[str, Sequence[Curve]]
    cold: Mapping[str, Sequence[Curve]] = field(default_factory=dict)
    measure: Measure = "expected"

    @property
    def problems(self) -> tuple[str, ...]:
        """Names of the problems."""
        return tuple(self.curves)

    @property
    def baseline(self) -> str:
        """The learner that the others are held against."""
        return self.learners[0]

    def regrets(self, problem: str, *, cold: bool = False) -> dict[str, FloatArray]:
        """Return each learner's regret at the end of every run, by seed, (runs,)."""
        return final_regrets((self.cold if cold else self.curves)[problem], measure=self.measure)

    def standings(self, problem: str, *, cold: bool = False) -> dict[str, Standing]:
        """Return for every learner what it paid and what it saved."""
        regrets = self.regrets(problem, cold=cold)
        paid = regrets[self.baseline]
        saved = {
            name: saving_of(own, paid) for name, own in regrets.items() if name != self.baseline and paid.sum() > 0
        }
        return {
            name: Standing(self.betas[problem][name], mean_over_runs(own), saved.get(name), len(own))
            for name, own in regrets.items()
        }

    def frame(self) -> "DataFrame":
        """Return a tidy frame: problem, learner, beta, start, seed, round, and what was summed up to that round."""
        rows: list[tuple[Any, ...]] = []
        for start, by_problem in (("log", self.curves), ("cold", self.cold)):
            for problem, curve in ((name, one) for name, curves in by_problem.items() for one in curves):
                which = (problem, curve.case.learner.name, curve.case.learner.beta, start, curve.case.seed)
                columns = (curve.slot, _regret(curve, self.measure), curve.pseudo, curve.realised, curve.reward)
                rows += [(*which, *point) for point in zip(*(c.tolist() for c in columns), strict=True)]
        return data_frame(dict(zip(_COLUMNS, map(list, zip(*rows, strict=True)), strict=True)))

    def summary(self) -> "DataFrame":
        """Return one row for each problem and learner: regret, what is saved of the baseline's, and a verdict."""
        return data_frame({name: [row[name] for row in self._rows] for name in self._rows[0]})

    @cached_property
    def _rows(self) -> list[dict[str, Any]]:
        return [
            {"problem": problem, "learner": name, "beta": one.beta, "verdict": one.verdict}
            | _parts("regret", one.regret)
            | _parts("saved", one.saved)
            for problem in self.problems
            for name, one in self.standings(problem).items()
        ]

    def plot(self, ax: "Axes | None" = None, *, problem: str | None = None) -> Any:
        """Draw cumulated regret by learner, with bands of two standard errors, and return the axes.

        Args:
            ax: Axes of Matplotlib to draw on; new ones, a panel for each problem, if not given.
            problem: Which problem; on given axes there is room for one.
        """
        shown = self.problems if problem is None else (problem,)
        if ax is not None and len(shown) > 1:
            raise BadInputError("one axes has room for one problem", hint="say which with problem=", argument="ax")
        if ax is None:
            from matplotlib.figure import Figure

            figure = Figure(figsize=(5.5 * len(shown), 4.2), layout="constrained")
            panels = list(figure.subplots(1, len(shown), squeeze=False)[0])
        else:
            panels = [ax]
        for axes, name in zip(panels, shown, strict=True):
            self._draw(axes, name)
        return panels[0] if len(panels) == 1 else panels

    def _draw(self, axes: "Axes", problem: str) -> None:
        curves = self.curves[problem]
        axes.set_title(problem, loc="left")
        axes.set_xlabel("round" if curves[0].case.mode == "parallel" else "decision")
        axes.set_ylabel("cumulated regret, all stations")
        draw_regret(axes, curves[0].slot, regrets_of(curves, measure=self.measure), labels=LABELS)

    def __repr__(self) -> str:
        runs = len({curve.case.seed for curve in self.curves[self.problems[0]]})
        lines = [f"{len(self.learners)} learners, {runs} paired runs each; saved of the regret of {self.baseline!r}:"]
        wide = max(map(len, self.learners))
        for problem in self.problems:
            lines.append(problem)
            for name, one in self.standings(problem).items():
                saved = "" if one.saved is None else f"  saved {one.saved:.0%}"
                lines.append(f"  {name:{wide}}  regret {one.regret:.3g}{saved}  {one.verdict}")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        return str(self.summary().to_html(index=False, float_format=lambda value: f"{value:.3g}"))


_COLUMNS = (
    "problem", "learner", "beta", "start", "seed", "round", "regret", "expected_regret", "realised_regret", "reward",
)  # fmt: skip


def _parts(name: str, estimate: Estimate | None) -> dict[str, float]:
    value, low, high = (np.nan,) * 3 if estimate is None else (estimate.value, estimate.low, estimate.high)
    return {name: value, f"{name}_low": low, f"{name}_high": high}


def _regret(curve: Curve, measure: Measure) -> FloatArray:
    return curve.pseudo if measure == "expected" else curve.realised


def regrets_of(curves: Sequence[Curve], *, measure: Measure = "realised") -> dict[str, FloatArray]:
    """Return each learner's summed regret, (runs, points)."""
    names = dict.fromkeys(c.case.learner.name for c in curves)
    return {name: np.array([_regret(c, measure) for c in curves if c.case.learner.name == name]) for name in names}


def final_regrets(curves: Iterable[Curve], *, measure: Measure = "realised") -> dict[str, FloatArray]:
    """Return each learner's regret at the end of every run, by seed, (runs,)."""
    found: dict[str, list[tuple[int, float]]] = {}
    for curve in curves:
        regret = float(_regret(curve, measure)[-1])
        found.setdefault(curve.case.learner.name, []).append((curve.case.seed, regret))
    return {name: np.array([regret for _, regret in sorted(pairs)]) for name, pairs in found.items()}


def best_betas(curves: Sequence[Curve], *, measure: Measure = "realised") -> dict[str, Beta]:
    """Return for every learner the β with the smallest mean regret."""
    totals: dict[str, dict[Beta, list[float]]] = {}
    for curve in curves:
        learner = curve.case.learner
        by_beta = totals.setdefault(learner.name, {})
        by_beta.setdefault(learner.beta, []).append(float(_regret(curve, measure)[-1]))
    return {name: min(by_beta, key=lambda beta: float(np.mean(by_beta[beta]))) for name, by_beta in totals.items()}


# --- Numbers with intervals: by bootstrap over runs, or over pairs of them on one seed (Efron 1979)


def mean_over_runs(values: FloatArray) -> Estimate:
    """Return the mean of one number per run, (runs,), with a bootstrap interval over runs.

    Example:
        >>> mean_over_runs(np.array([1.0, 1.0, 1.0]))
        Estimate(value=1.0, low=1.0, high=1.0)
    """
    means = values[_picks(len(values), seed=0)].mean(axis=1)
    return _estimate(float(values.mean()), means, runs=len(values))


def saving_of(ours: FloatArray, baseline: FloatArray, *, seed: int = 0) -> Estimate:
    """Return the share of the baseline's regret that is saved, from pairs of runs on the same seeds, (runs,) each.

    The interval is by bootstrap over pairs, so that what a seed does to both cancels. Draws in which the baseline pays
    nothing say nothing, and are left out.

    Example:
        >>> round(saving_of(np.array([5.0, 6.0]), np.array([10.0, 10.0])).value, 3)
        0.45
    """
    picks = _picks(len(ours), seed=seed)
    paid = baseline[picks].sum(axis=1)
    resampled = 1.0 - ours[picks].sum(axis=1)[paid > 0] / paid[paid > 0]
    return _estimate(float(1.0 - ours.sum() / baseline.sum()), resampled, runs=len(ours))


def _picks(runs: int, *, seed: int) -> IntArray:
    return np.random.default_rng(seed).integers(runs, size=(_RESAMPLES, runs))


def _estimate(value: float, resampled: FloatArray, *, runs: int) -> Estimate:
    low, high = np.quantile(resampled, [0.025, 0.975]) if runs > 1 else (np.nan, np.nan)
    return Estimate(value, float(low), float(high))


# --- The comparison -------------------------------------------------------------------------------------------------


_BUSY, _MODEL = 6.0, 6.0  # how much slower than `effort_of` says cores are, and the seconds of a model


@dataclass(frozen=True)
class Plan:
    """What is played in a comparison; `compare` explains the parts.

    Attributes:
        learners: By name, the baseline first.
        problems: By name, as `problem_of` takes them; or one for each seed.
    """

    learners: Mapping[str, Learner]
    problems: Mapping[str, Any]
    seeds: tuple[int, ...]
    rounds: int
    log_rows: int
    mode: Mode
    betas: tuple[Beta, ...]
    tuning_seeds: tuple[int, ...]
    tuning_rounds: int
    cold: bool
    measure: Measure

    def __post_init__(self) -> None:
        if not self.seeds or set(self.seeds) & set(self.tuning_seeds):
            problem = "seeds that count must be others than those that choose β"
            raise BadInputError(problem, argument="seeds", value=self.seeds)

    @property
    def effort(self) -> float:
        """About how many seconds of one core it takes."""
        return sum(effort_of(case) for _, case in [*self._tuning(), *self._counted(self._first)])

    @property
    def seconds(self) -> float:
        """The same with the models, on cores that others use, too: what to tell a user beforehand."""
        models = len(self.learners) * sum(len(one) if isinstance(one, Mapping) else 1 for one in self.problems.values())
        return _BUSY * self.effort + _MODEL * models

    def run(
        self, folder: Path | None, *, n_jobs: int | None, ray: str | None, tell: Callable[[str, float], None]
    ) -> Comparison:
        """Choose every learner's β, play the runs that count, and return them."""
        how: dict[str, Any] = {"n_jobs": n_jobs, "ray": ray}
        tuned = _curves(self._tuning(), folder, tick=partial(tell, "choosing β"), **how)
        best = {name: best_betas(own, measure=self.measure) for name, own in tuned.items()}
        betas = {name: first | best.get(name, {}) for name, first in self._first.items()}
        played = _curves(self._counted(betas), folder, tick=partial(tell, "playing"), **how)
        warm, cold = (
            {name: [c for c in own if c.case.start is start] for name, own in played.items()} for start in (True, False)
        )
        return Comparison(tuple(self.learners), betas, warm, cold if self.cold else {}, self.measure)

    @property
    def _first(self) -> dict[str, dict[str, Beta]]:
        """The first weight of every learner, by problem."""
        return {name: dict.fromkeys(self.learners, self.betas[0]) for name in self.problems}

    def _tuning(self) -> list[tuple[str, Case]]:
        """The runs that choose every learner's β, with the names of their problems; none where there is no choice."""
        if len(self.betas) == 1:
            return []
        return [
            (name, self._case(problem, one, beta, seed, slots=self.tuning_rounds))
            for name, problem in self.problems.items()
            for one in self.learners.values()
            for beta in (*self.betas, *one.own_betas)
            for seed in self.tuning_seeds
        ]

    def _counted(self, betas: Mapping[str, Mapping[str, Beta]]) -> list[tuple[str, Case]]:
        """The runs that count, every learner with its β."""
        return [
            (name, self._case(problem, one, betas[name][one.name], seed, start=start))
            for name, problem in self.problems.items()
            for start in ((True, False) if self.cold else (True,))
            for one in self.learners.values()
            for seed in self.seeds
        ]

    def _case(self, problem: Any, learner: Learner, beta: Beta, seed: int, **other: Any) -> Case:
        problem = problem[seed] if isinstance(problem, Mapping) else problem
        usual = {"slots": self.rounds, "log_rows": self.log_rows, "mode": self.mode}
        return Case(problem, replace(learner, beta=beta, own_betas=()), seed=seed, **(usual | other))


def _curves(cases: Sequence[tuple[str, Case]], folder: Path | None, **how: Any) -> dict[str, list[Curve]]:
    """The curves of cases by problem."""
    found: dict[str, list[Curve]] = {}
    for (name, _), curve in zip(cases, run_cases([case for _, case in cases], folder, **how), strict=True):
        found.setdefault(name, []).append(curve)
    return found


def compare(
    learners: Any = (OURS,),
    problems: Any = ("x264:kbs:40", "gcc:exec"),
    *,
    baseline: str = BASELINE,
    seeds: int | Sequence[int] = 5,
    rounds: int = 10,
    log_rows: int = 5,
    mode: Mode = "parallel",
    betas: Sequence[Beta] = BETAS,
    tuning_seeds: Sequence[int] = TUNING_SEEDS,
    tuning_rounds: int | None = None,
    cold: bool = False,
    measure: Measure = "expected",
    n_jobs: int | None = None,
    ray: str | None = None,
    folder: str | Path | None = None,
    progress: bool | Callable[[str, float], None] = False,
) -> Comparison:
    """Compare learners on problems, fairly: same logs, same slots, β of each chosen on seeds that do not count.

    Args:
        learners: Names (of similarities, such as "embedding", or of policies, such as "linucb"), objects with
            `fit(log)` that return a task matrix, factories that build a policy from a `PolicySpec`, `Learner`s of both;
            one, a list, or a dict that gives them names.
        problems: Names (`kinband.experiments.problems` lists them), environments that know their truth and draw logs,
            tables of measurements, traces, which are parted by time; one, a list, or a dict, in which one may stand for
            each seed by number: groups of a large network.
        baseline: The learner that the others are held against; it plays in any case.
        seeds: How many runs, or the seeds of them.
        rounds: Rounds of a run, in each of which every station decides; decisions where mode is "sequential".
        log_rows: Rows of every station to learn from beforehand.
        mode: Parallel rounds (Algorithm 1), or one station at a time (Algorithm 2).
        betas: The weights that every learner tries; with a single one nothing is chosen.
        tuning_seeds: Seeds on which β is chosen.
        tuning_rounds: Rounds of the runs that choose; as many as count, if not given.
        cold: Whether to play everything once more without the log in what learners believe.
        measure: The regret that counts: in expectation, or "realised", against the best reward there was.
        n_jobs: Processes; None for one per core.
        ray: Address of a Ray cluster to run on instead, or "auto" for this machine's.
        folder: Where runs are kept, so that what is interrupted goes on where it stopped.
        progress: Whether to say on standard error how far it is, or what is called with a word and the seconds that
            something took, about.

    Example:
        >>> found = compare("pooled", "gcc:exec:6", seeds=2, rounds=2, log_rows=3, betas=[0.3], n_jobs=1)
        >>> found.summary()[["problem", "learner", "beta"]].values.tolist()
        [['gcc:exec:6', 'independent', 0.3], ['gcc:exec:6', 'pooled', 0.3]]
        >>> found.frame().columns.tolist()[:7]
        ['problem', 'learner', 'beta', 'start', 'seed', 'round', 'regret']
    """
    counted = tuple(range(1, seeds + 1) if isinstance(seeds, int) else seeds)
    plan = Plan(
        _learners(learners, baseline), _problems(problems, log_rows), counted, rounds, log_rows, mode, tuple(betas),
        tuple(tuning_seeds), tuning_rounds or rounds, cold, measure,
    )  # fmt: skip
    with _telling(progress, plan, workers=processes(n_jobs)) as tell:
        return plan.run(None if folder is None else Path(folder), n_jobs=n_jobs, ray=ray, tell=tell)


@contextmanager
def _telling(
    progress: bool | Callable[[str, float], None], plan: Plan, *, workers: int
) -> Iterator[Callable[[str, float], None]]:
    if callable(progress):
        yield progress
    elif not progress:
        yield lambda _what, _effort: None
    else:
        what = f"comparing {len(plan.learners)} learners in {len(plan.seeds)} runs each"
        with stage(what, plan.effort, seconds=plan.seconds / workers) as step:
            yield step


# --- In words -------------------------------------------------------------------------------------------------------


def in_words(found: Comparison, problem: str) -> str:
    """Return whether sharing helps on a problem: where it does, the whole interval of what it saves is above zero."""
    saved = _savings(found, problem)
    if not saved:
        return "There is nothing to save here: learning alone pays no regret at all."
    name, best = _best(saved)
    answer = f"Sharing makes no clear difference here: the best, {name}, {_change(best)} {_OF}."
    if best.low > 0:
        answer = f"Sharing helps here: {name} {_change(best)} {_OF}."
    elif best.high < 0:
        answer = f"Sharing hurts here: even the best, {name}, {_change(best)} {_OF}."
    if OURS in saved and saved[OURS] != best:
        answer += f" What kinband does by default {_change(saved[OURS])}."
    cold = _savings(found, problem, cold=True) if found.cold else {}
    if not cold:
        return answer
    name, best = _best(cold)
    return f"{answer} Without the log to start from, the best is {name} and {_change(best)}."


def _savings(found: Comparison, problem: str, *, cold: bool = False) -> dict[str, Estimate]:
    standings = found.standings(problem, cold=cold)
    return {name: one.saved for name, one in standings.items() if one.saved is not None}


def _change(saved: Estimate) -> str:
    """What is saved, or what it costs where nothing is."""
    if saved.value >= 0:
        return f"saves {saved:.0%}"
    return f"costs {-saved:.0%}"


def _best(saved: Mapping[str, Estimate]) -> tuple[str, Estimate]:
    """The learner that saves most, as the table calls it, and what it saves."""
    name, most = max(saved.items(), key=lambda item: item[1].value)
    return LABELS.get(name, name).removeprefix("shared, "), most
