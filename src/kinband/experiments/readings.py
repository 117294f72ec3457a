"""What the print leaves open, as readings that are declared beforehand, and what sharing saves under each.

The paper prints neither whose rows its simulator answers from, nor how many it averages, nor λ, β and the length-scale
of its bandits. Each of them is varied alone around the declared setting, the one of the headline: the station's own
rows, 5 neighbours, and the kernel, λ and β that are best for the baseline. Beside these stand combinations of them
that favour sharing. The protocol is the paper's: one kernel for all, cold start, and the same β for all.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from kinband.experiments.compare import Beta
from kinband.experiments.paper import (
    PRINTED,
    Figure,
    HyperParameters,
    Reproducer,
    alone,
    alone_on_the_grid,
    baseline_cases,
    savings,
    setting_of,
    sharing,
    sharing_beta,
)
from kinband.experiments.problems import NEIGHBOURS
from kinband.experiments.runner import Case, Curve, Prior, effort_of
from kinband.stats import Estimate

LEARNERS = ("embedding", "pooled")
"""Those whose savings are told; the print has the embedding's alone."""

SEEDS = range(1, 4)

_LENGTH_SCALES = (1.0, 2.0, 4.0)
_NOISES = (0.1, 0.3, 1.0)
_BETAS: tuple[Beta, ...] = (0.3, 1.0, 2.0, "printed")
_NEIGHBOURS = (5, 25, 100)
_DECLARED = "as declared"
_SLOTS = {"synthetic": 300}  # at most; others are as long as the headline's
_COMBINED: dict[str, tuple[tuple[Prior, Beta], ...]] = {
    "synthetic": ((Prior(1.0, 0.1), 2.0), (Prior(1.0, 0.1), "printed")),
    "trace": ((Prior(4.0, 0.1), 0.3), (Prior(2.0, 0.1), 1.0)),
}


@dataclass(frozen=True)
class Reading:
    """One way to read what the print leaves open.

    Attributes:
        figure: The comparison of the paper that it reads.
        words: In what it differs from the declared setting.
        prior: Length-scale and λ.
        beta: Weight of the standard deviation; "printed" is Theorem 1's as printed.
        slots: Slots of a run.
        everybody: Whether a trace answers from everybody's rows instead of the station's own.
        neighbours: How many rows of a trace are averaged.
    """

    figure: Figure
    words: str
    prior: Prior
    beta: Beta
    slots: int
    everybody: bool = False
    neighbours: int = NEIGHBOURS

    @property
    def problem(self) -> str:
        """Its name; the usual answers bear the usual one, so that runs of the headline are used again."""
        if not self.everybody and self.neighbours == NEIGHBOURS:
            return self.figure.problem
        return f"{self.figure.problem}:{'all' if self.everybody else 'own'}:{self.neighbours}"

    def cases(self, seeds: Iterable[int]) -> list[Case]:
        """Return the runs of the baseline and of those that share."""
        learners = [alone(self.beta), *(sharing(name, sharing_beta(self.figure, self.beta)) for name in LEARNERS)]
        played = replace(self.figure, problem=self.problem, slots=self.slots)
        return [played.paper_case(one, seed, self.prior) for one in learners for seed in seeds]


@dataclass(frozen=True)
class Found:
    """What was saved of the regret of learning alone under one reading, by learner."""

    reading: Reading
    saved: dict[str, Estimate]

    @property
    def printed(self) -> float:
        """What the paper's embedding saves."""
        return PRINTED[self.reading.figure.name]["embedding"]

    @property
    def reached(self) -> list[str]:
        """The learners that save at least as much as is printed."""
        return [name for name in LEARNERS if self.saved[name].value >= self.printed]

    def row(self) -> dict[str, object]:
        """Return the row of the table."""
        saved = {f"{name} saves": self.saved[name] for name in LEARNERS}
        about = {"problem": self.reading.figure.name, "reading": self.reading.words, "slots": self.reading.slots}
        return {"experiment": "readings", **about, **saved, "printed": self.printed} | {
            "reached by": " and ".join(self.reached) or "none"
        }


def readings_of(figure: Figure, setting: HyperParameters) -> list[Reading]:
    """Return the readings of a comparison: the declared setting, what differs from it in one thing, combinations."""
    prior, beta = setting
    slots = min(figure.slots, _SLOTS.get(figure.name, figure.slots))
    rows = "" if _plays_no_rows(figure) else f", the station's own rows, {NEIGHBOURS} neighbours"
    declared = Reading(figure, f"{_DECLARED}: {_kernel(prior, beta)}{rows}", prior, beta, slots)
    varied = [*_of_rows(declared), *_of_kernel(declared)]
    return [declared, *(one for one in varied if _values(one) != _values(declared)), *_combined(figure, slots)]


def carry_out(runner: Reproducer, figure: Figure, *, seeds: Sequence[int] = SEEDS) -> list[Found]:
    """Carry out what the print leaves open around the setting that is best for the baseline."""
    readings = readings_of(figure, setting_of(runner.best_of_baseline(figure)[0].case))
    cases = _cases_of(readings, seeds)
    curves = runner.run(f"readings, {figure.name}", list(cases.values()))
    found = dict(zip(cases, curves, strict=True))
    return [found_of(reading, [found[case.key] for case in reading.cases(seeds)]) for reading in readings]


def effort(figure: Figure, *, seeds: Sequence[int] = SEEDS) -> float:
    """Return about how many seconds of one core the readings of a comparison take."""
    any_setting = (figure.grid[0], figure.betas[0])
    cases = alone_on_the_grid(figure) + baseline_cases(figure, [any_setting] * figure.finalists)
    cases += _cases_of(readings_of(figure, any_setting), seeds).values()
    return sum(map(effort_of, cases))


def _cases_of(readings: Sequence[Reading], seeds: Sequence[int]) -> dict[str, Case]:
    """The runs of readings by key; those that two readings have in common come once."""
    return {case.key: case for reading in readings for case in reading.cases(seeds)}


def found_of(reading: Reading, curves: Sequence[Curve]) -> Found:
    """Return what the curves of a reading's cases say."""
    return Found(reading, savings(curves))


def in_words(found: Sequence[Found]) -> list[str]:
    """Return where the printed savings are reached, a sentence for each comparison, and what that says."""
    by_problem: dict[str, list[Found]] = {}
    for one in found:
        by_problem.setdefault(one.reading.figure.name, []).append(one)
    return [*(_reached(name, own) for name, own in by_problem.items()), _conclusion(found, by_problem.values())]


def _reached(name: str, found: Sequence[Found]) -> str:
    """Where one comparison reaches its printed saving, and how far it gets."""
    parts = []
    for learner in LEARNERS:
        there = [one for one in found if learner in one.reached]
        best = max(found, key=lambda one: one.saved[learner].value)
        where = f" ({'; '.join(one.reading.words for one in there)})" if there else ""
        parts.append(
            f"{learner} reaches it at {len(there)} of {len(found)} readings{where}, saves "
            f"{_percent(found[0].saved[learner].value)} {_DECLARED} and {_percent(best.saved[learner].value)} at most "
            f"({best.reading.words.partition(':')[0]})"
        )
    return f"{name}: {_percent(found[0].printed)} printed; {'; '.join(parts)}."


def _conclusion(found: Sequence[Found], by_problem: Iterable[Sequence[Found]]) -> str:
    """What all readings together say of the print."""
    values = [[one.saved["embedding"].value for one in own] for own in by_problem]
    moved = sorted(round(100 * (max(own) - min(own))) for own in values)
    span = f"{moved[0]} to {moved[-1]}" if moved[0] < moved[-1] else f"{moved[0]}"
    words = [f"What the print leaves open moves what the embedding saves by {span} points."]
    there = [one for one in found if "embedding" in one.reached]
    if not there:
        words.append(
            "No reading gives the embedding its printed saving: what is varied here does not explain the print."
        )
    else:
        words.append(
            f"The embedding reaches its printed saving at {len(there)} of {len(found)} readings: without the settings "
            "the print can be neither confirmed nor refuted."
        )
    reached = [one for one in found if one.reached and not _plays_no_rows(one.reading.figure)]
    if reached and all(one.reading.everybody for one in reached):
        words.append(
            "On the city a printed saving is reached from everybody's rows alone: all stations then have one reward "
            "function, and sharing is right by construction."
        )
    pooling = sum(one.saved["pooled"].value > one.saved["embedding"].value for one in found)
    words.append(
        f"Pooling, which asks nobody who is alike, saves more than the embedding at {pooling} of {len(found)}."
    )
    return " ".join(words)


def _of_rows(declared: Reading) -> list[Reading]:
    """The readings of the simulator's rows."""
    if _plays_no_rows(declared.figure):
        return []
    fewer_or_more = [replace(declared, words=f"{k} neighbours", neighbours=k) for k in _NEIGHBOURS]
    return [replace(declared, words="everybody's rows", everybody=True), *fewer_or_more]


def _of_kernel(declared: Reading) -> list[Reading]:
    """The readings of λ, length-scale and β."""
    prior = declared.prior
    lengths = [replace(prior, length_scale=length) for length in _LENGTH_SCALES]
    noises = [replace(prior, noise=noise) for noise in _NOISES]
    return [
        *(replace(declared, words=f"length-scale {one.length_scale:g}", prior=one) for one in lengths),
        *(replace(declared, words=f"λ {one.noise:g}", prior=one) for one in noises),
        *(replace(declared, words=_weight(beta), beta=beta) for beta in _BETAS),
    ]


def _combined(figure: Figure, slots: int) -> list[Reading]:
    """Several things at once."""
    settings = _COMBINED["synthetic" if _plays_no_rows(figure) else "trace"]
    own = [Reading(figure, _kernel(prior, beta), prior, beta, slots) for prior, beta in settings]
    if _plays_no_rows(figure):
        return own
    return [
        replace(one, words=f"everybody's rows, {k} neighbours, {one.words}", everybody=True, neighbours=k)
        for k in (100, NEIGHBOURS)
        for one in own
    ]


def _plays_no_rows(figure: Figure) -> bool:
    return figure.problem == "synthetic"


def _values(reading: Reading) -> tuple[object, ...]:
    return reading.prior, reading.beta, reading.everybody, reading.neighbours


def _kernel(prior: Prior, beta: Beta) -> str:
    return f"length-scale {prior.length_scale:g}, λ {prior.noise:g}, {_weight(beta)}"


def _weight(beta: Beta) -> str:
    named = {"printed": "β as printed", "krause-ong": "β by CGP-UCB's schedule for the baseline"}
    return named.get(beta, beta) if isinstance(beta, str) else f"β {beta:g}"


def _percent(share: float) -> str:
    return f"{round(100 * share)} %"
