"""Trial plans: which few stations should try which settings, so that the whole network learns most from it.

A log in which everybody ran what they always run cannot say what another setting would earn. A few trials can, if they
are made where others learn from them. What a trial will teach is known before it is made: the variance of a posterior
does not depend on the rewards. Trials are chosen one after the other, each the one that most reduces

    Σ_m Σ_a var(f_m(a) − f_m(a₀)),   a₀ the present setting of station m, a what it may be set to,

by cov(f_j, f_m(a) − f_m(a₀))² / (var f_j + λ/p) for a trial j of p periods. Such a sum has diminishing returns nearly
always, so that greedy choices are near the best (Krause, Singh and Guestrin 2008; the criterion is A-optimality for the
differences that a plan will rest on). Trials are chosen in the usual state of each station; what they leave unknown is
then worked out once more, for periods in states as the log has them.

Never the whole network: a tenth of the stations, ten at most, unless more are asked for, and never more than half.
Those that stay as they are show what changed everywhere, and a mistake stays small.
"""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from kinband.arrays import BoolArray, FloatArray, IntArray
from kinband.controller import Controller
from kinband.controller.explain import configuration_text
from kinband.errors import BadInputError, KinbandError
from kinband.guardrails import Rails
from kinband.likelihood import starting_kernel
from kinband.planning.beliefs import beliefs_of, told_rows
from kinband.planning.limits import Limits
from kinband.planning.period import Present
from kinband.planning.plan import check_folder, prefixed, rounded, write_csv
from kinband.planning.reasons import share_text
from kinband.posterior import BlockedPosterior
from kinband.space import ConfigurationSpace
from kinband.stats import Estimate, counted, listed, normal
from kinband.trace import Trace
from kinband.trace.answers import log_questions
from kinband.trace.table import station_numbers

MOST_STATIONS, SHARE = 10, 0.1
"""Stations that try something unless more are asked for: at most so many, and at most this share of all."""

_POINTS = 1500  # contexts of stations that learn together, of which all covariances are kept
_FEWEST = 4  # settings of a station that are looked at, the present one among them
_NAMED = 3  # other stations that learn from a trial, by name
_WORTH_A_WORD = 0.005  # share of what is learned

# --- What is learned before anything is planned ---------------------------------------------------------------------


def controller_for_trials(
    trace: Trace, space: ConfigurationSpace | None = None, **given: Any
) -> tuple[Controller, list[str]]:
    """Return a controller that has learned from a log, and notes on what it could not learn.

    Where no station ran two settings, how fast rewards change with a knob cannot be told from how stations differ:
    the length-scales of knobs are then those of the prior. That stations which answer alike to states answer alike to
    settings is then an assumption too; the rows of the trials will show whether it holds.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> log = {"station": ["a", "b", "c"] * 20, "tilt": [2, 4, 4] * 20, "reward": rng.random(60)}
        >>> trace = Trace.from_frame(log, {"configuration": ["tilt"]})
        >>> controller, notes = controller_for_trials(trace)
        >>> notes
        ['no station ran two settings: how fast rewards change with tilt, and who answers alike to it, is assumed']
    """
    controller = Controller.from_trace(trace, space, **given)
    if log_questions(trace).tried[2] > 1 or "kernel" in given:
        return controller, []
    encoder, fitted = controller.setup.encoder, controller.setup.kernel
    usual = starting_kernel(trace.with_space(encoder.space).samples(encoder))
    knobs = [f"length_scale[{knob}]" for knob in encoder.space.feature_names]
    of_knobs = [any(knob in name for knob in knobs) for name in fitted.names]
    assumed = fitted.with_theta(np.where(of_knobs, usual.theta, fitted.theta))
    names = listed(list(encoder.space.knobs))
    note = f"no station ran two settings: how fast rewards change with {names}, and who answers alike to it, is assumed"
    return Controller.from_trace(trace, space, **{**given, "kernel": assumed}), [note]


def usual_present(trace: Trace) -> dict[str, Present]:
    """Return what every station ran last, in its usual state, the median of its rows; without times, ran most.

    Example:
        >>> log = {"station": ["a", "a", "a"], "time": [1, 2, 3], "load": [0.1, 0.5, 0.4], "tilt": [2, 2, 4]}
        >>> usual_present(Trace.from_frame({**log, "reward": [0.8, 0.9, 0.7]}, {"configuration": ["tilt"]}))
        {'a': Present(state={'load': 0.4}, configuration={'tilt': 4}, period=None)}
    """
    station, arms, found = station_numbers(trace), trace.space().indices(trace.configuration), {}
    order = np.lexsort((np.arange(len(trace)) if trace.time is None else trace.time, station))
    starts = np.flatnonzero(np.diff(station[order])) + 1
    for name, rows in zip(trace.stations, np.split(order, starts), strict=True):
        usual = rows[np.argmax(arms[rows] == np.bincount(arms[rows]).argmax())] if trace.time is None else rows[-1]
        state = dict(zip(trace.state_names, np.median(trace.state[rows], axis=0).tolist(), strict=True))
        found[name] = Present(state, {knob: values[usual].item() for knob, values in trace.configuration.items()})
    return found


def trial_stations(network: int, asked: int | None = None) -> int:
    """Return how many stations of a network may try something at once, or refuse what was asked for.

    Example:
        >>> trial_stations(60), trial_stations(1500), trial_stations(60, 20)
        (6, 10, 20)
    """
    if network < 2:
        raise BadInputError("a network of one station has none that stays as it is while it tries something")
    if asked is None:
        return min(MOST_STATIONS, max(1, int(SHARE * network)))
    if asked > network // 2:
        raise BadInputError(
            f"{asked:,} of {network:,} stations are too many to try something at once",
            hint="let at most half do so, the others show what changed everywhere; `kinband design` finds the few "
            "from which all learn most",
            code="too_many_trials",
            argument="stations",
            value=asked,
        )
    return asked


# --- A plan of trials -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Trial:
    """One station that tries one setting for some periods.

    Attributes:
        station: Who.
        present: What it runs now, and again afterwards.
        setting: What it tries.
        begin: First period of the trial, from 1.
        periods: How many periods it lasts.
        gain: What a period is expected to gain over the present setting, with its interval; a loss below zero.
        own: Share of what is learned from it that is about the station itself.
        learners: The other stations that learn most from it, with their shares.
        reason: The same in words.

    Example:
        >>> trial = Trial("a", {"tilt": 2}, {"tilt": 4}, begin=1, periods=8, gain=Estimate(0.0, -0.1, 0.1), own=0.5,
        ...     learners=(("b", 0.3),), reason="...")
        >>> trial.setting["tilt"]
        4
    """

    station: str
    present: Mapping[str, Any]
    setting: Mapping[str, Any]
    begin: int
    periods: int
    gain: Estimate
    own: float
    learners: tuple[tuple[str, float], ...]
    reason: str


@dataclass(frozen=True)
class TrialPlan:
    """Which stations try what, what that teaches and what it costs.

    Attributes:
        knobs: Names of the knobs.
        trials: The trials, the most instructive first.
        before: How well differences to the present setting are known now: standard deviation, root mean square.
        after: The same after the trials.
        widths: The two by station, for all stations that have a choice.
        loss: What all trials together are expected to lose, in reward times periods, with its interval.

    Example:
        >>> plan = TrialPlan(("tilt",), (), before=0.2, after=0.1, widths={}, loss=Estimate(0.0, -1.0, 1.0))
        >>> plan.to_dict()["after"]
        0.1
    """

    knobs: tuple[str, ...]
    trials: tuple[Trial, ...]
    before: float
    after: float
    widths: Mapping[str, tuple[float, float]]
    loss: Estimate

    def write(self, folder: str | Path, *, replace: bool = False) -> list[Path]:
        """Write rollback.csv, then design.csv, and return their paths; see `ChangePlan.write`.

        Example:
            >>> import tempfile
            >>> plan = TrialPlan(("tilt",), (), before=0.2, after=0.1, widths={}, loss=Estimate(0.0))
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     [path.name for path in plan.write(folder)]
            ['rollback.csv', 'design.csv']
        """
        folder = Path(folder)
        check_folder(folder, replace=replace)
        folder.mkdir(parents=True, exist_ok=True)
        files = [folder / "rollback.csv", folder / "design.csv"]
        present, target = (list(prefixed(side, dict.fromkeys(self.knobs))) for side in ("present", "set"))
        back = {one.station: {"station": one.station, **prefixed("set", one.present)} for one in self.trials}
        write_csv(files[0], ["station", *target], back.values())
        numbers = ["from_period", "periods", "expected_gain", "gain_low", "gain_high"]
        write_csv(files[1], ["station", *present, *target, *numbers, "reason"], map(_row, self.trials))
        return files

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as JSON-able values."""
        trials = [asdict(one) | {"gain": one.gain.to_dict(), "learners": dict(one.learners)} for one in self.trials]
        widths = {name: {"before": before, "after": after} for name, (before, after) in self.widths.items()}
        known = {"before": self.before, "after": self.after, "widths": widths}
        return {"knobs": list(self.knobs), "trials": trials, **known, "loss": self.loss.to_dict()}


def _row(one: Trial) -> dict[str, Any]:
    numbers = {"expected_gain": one.gain.value, "gain_low": one.gain.low, "gain_high": one.gain.high}
    return {
        "station": one.station,
        **prefixed("present", one.present),
        **prefixed("set", one.setting),
        "from_period": one.begin,
        "periods": one.periods,
        **{name: rounded(number) for name, number in numbers.items()},
        "reason": one.reason,
    }


# --- What may be tried ----------------------------------------------------------------------------------------------


def _choices(limits: Limits, station: str, arm: int, most: int) -> IntArray:
    """Return at most so many settings within reach, the present one first, each far from those before, (k,)."""
    features, others = limits.space.features, np.flatnonzero(limits.reach(station, arm))
    others, chosen = others[others != arm], [arm]
    far = np.full(len(others), np.inf)
    while len(chosen) < min(most, len(others) + 1):
        far = np.minimum(far, np.square(features[others] - features[chosen[-1]]).sum(axis=1))
        chosen.append(int(others[np.argmax(far)]))
    return np.array(chosen)


# --- Choosing -------------------------------------------------------------------------------------------------------


@dataclass(eq=False)
class _Group:
    """Stations that learn from each other, and what is believed of their settings together.

    Attributes:
        beliefs: The posterior.
        tasks: Station of each context, (P,).
        arms: Setting of each context, (P,).
        X: The contexts, (P, d).
        base: Position of the context of the same station's present setting, (P,).
        allowed: Which contexts may be tried, (P,).
        noise: Variance of the reward of one period.
        periods: How long a trial lasts.
    """

    beliefs: BlockedPosterior
    tasks: IntArray
    arms: IntArray
    X: FloatArray
    base: IntArray
    allowed: BoolArray
    noise: float
    periods: int
    worth: FloatArray = field(init=False)

    def __post_init__(self) -> None:
        found = self.beliefs.predict(self.tasks, self.X)
        self.C = found.covariance()
        self.gain = found.mean - found.mean[self.base]
        self.targets = np.flatnonzero(self.base != np.arange(len(self.base)))
        self.allowed = self.allowed & (self.base != np.arange(len(self.base)))
        v = np.diagonal(self.C)
        self.variance = np.maximum(v + v[self.base] - 2.0 * self.C[np.arange(len(v)), self.base], 0.0)
        self._weigh()

    def _weigh(self) -> None:
        """Work out what every context, if tried, takes off the sum of variances, (P,)."""
        D = self.C[self.targets] - self.C[self.base[self.targets]]
        total = np.einsum("tp,tp->p", D, D) / (np.diagonal(self.C) + self.noise / self.periods)
        self.worth = np.where(self.allowed, total, 0.0)

    def taught(self, position: int) -> dict[int, float]:
        """Return whose differences a trial tells of, as shares that add up to 1, largest first."""
        c = self.C[:, position]
        sums = np.bincount(self.tasks[self.targets], weights=np.square(c[self.targets] - c[self.base[self.targets]]))
        order = np.argsort(-sums, kind="stable")
        return {int(m): float(sums[m] / sums.sum()) for m in order if sums[m] > 0}

    def learn(self, position: int) -> None:
        """Take up that a context will be tried."""
        c = self.C[:, position].copy()
        self.C -= np.outer(c, c / (c[position] + self.noise / self.periods))
        self._weigh()

    def forbid(self, positions: BoolArray) -> None:
        """Allow no trial at some contexts, (P,)."""
        self.allowed &= ~positions
        self.worth[positions] = 0.0

    def variance_after(self, tasks: IntArray, X: FloatArray) -> FloatArray:
        """Return the variance of every difference to the present setting once rows (e,), (e, d) are told, (P,)."""
        e = len(tasks)
        found = self.beliefs.predict(np.concatenate([tasks, self.tasks]), np.vstack([X, self.X]))
        C = found.covariance(np.arange(e), np.arange(e + len(self.tasks)))
        A = C[:, e:] - C[:, e + self.base]
        reduced = np.einsum("ep,ep->p", A, np.linalg.solve(C[:, :e] + self.noise * np.eye(e), A))
        return np.asarray(np.maximum(self.variance - reduced, 0.0))


@dataclass(frozen=True, eq=False)
class _Choice:
    """A trial that was chosen.

    Attributes:
        group: Where.
        position: Which of its contexts.
        number: The how-manieth setting of its station, from 0.
        taught: Share of every station in what is learned, by task.
    """

    group: _Group
    position: int
    number: int
    taught: Mapping[int, float]

    @property
    def task(self) -> int:
        """The station."""
        return int(self.group.tasks[self.position])


def design_trials(
    controller: Controller,
    present: Mapping[str, Present],
    *,
    stations: int | None = None,
    periods: int = 8,
    settings: int = 2,
    steps: Mapping[str, float] | None = None,
    rails: Rails | None = None,
) -> TrialPlan:
    """Return which stations should try which settings, for the network to learn most.

    Args:
        controller: Knows the log; it is not changed.
        present: Usual state and present setting by station, see `usual_present`.
        stations: How many stations may try something; a tenth of them, ten at most, if not given.
        periods: How many rows of the log a trial lasts.
        settings: How many settings a station tries at most, one after the other.
        steps: The furthest a knob may move from its present value, and from one trial to the next.
        rails: Hard limits: ranges, steps, frozen stations, changes in a round, neighbours.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> log = {"station": ["a", "b", "c"] * 20, "tilt": [2, 4, 4] * 20, "reward": 0.1 * rng.random(60)}
        >>> trace = Trace.from_frame(log, {"configuration": ["tilt"]})
        >>> controller = Controller.from_trace(trace, ConfigurationSpace(tilt=[2, 4, 6]))
        >>> plan = design_trials(controller, usual_present(trace), settings=1)
        >>> len(plan.trials), plan.after < plan.before
        (1, True)
    """
    for name, number in (("stations", stations), ("periods", periods), ("settings", settings)):
        whole = isinstance(number, int | np.integer) and not isinstance(number, bool)
        if number is not None and not (whole and number >= 1):
            raise BadInputError(f"{name} must be a whole number of at least 1, got {number!r:.60}", argument=name)
    now = _located(controller, present)
    limits = Limits(controller.current.encoder.space, steps or {}, rails or Rails())
    most = min(
        trial_stations(len(controller.stations), stations),
        len(now) if limits.rails.per_round is None else limits.rails.per_round,
    )
    beliefs = beliefs_of(controller)
    groups = list(_groups(controller, beliefs, now, limits, periods))
    chosen = _chosen(controller, groups, limits, stations=most, settings=settings)
    if not chosen:
        raise BadInputError(
            "nothing may be tried: no station has another setting within steps and rails",
            hint="name more values of a knob, or widen the steps",
            code="nothing_to_try",
        )
    trials = tuple(_trial(controller, one) for one in chosen)
    after = _after(controller, groups, chosen)
    before, left = (np.concatenate(part) for part in zip(*after.values(), strict=True))
    known = float(np.sqrt(before.mean())), float(np.sqrt(left.mean()))
    widths = {name: (float(np.sqrt(a.mean())), float(np.sqrt(b.mean()))) for name, (a, b) in after.items()}
    return TrialPlan(tuple(limits.space.knobs), trials, *known, widths, _loss(beliefs, chosen, periods))


def _located(controller: Controller, present: Mapping[str, Present]) -> dict[str, tuple[int, Present]]:
    """Return the stations that the controller knows, with the number of their present setting."""
    space, found = controller.current.encoder.space, dict[str, tuple[int, Present]]()
    for name in controller.stations:
        if (one := present.get(name)) is not None:
            try:
                found[name] = space.index(one.configuration), one
            except KinbandError as error:
                raise BadInputError(f"what {name!r} runs is none of the settings to choose from: {error}") from error
    if not found:
        raise BadInputError("none of the present stations is in the log: check the column of the stations")
    return found


def _groups(
    controller: Controller,
    beliefs: BlockedPosterior,
    now: Mapping[str, tuple[int, Present]],
    limits: Limits,
    periods: int,
) -> Iterator[_Group]:
    """Yield the stations that learn from each other, group by group."""
    current = controller.current
    encoder, numbers = current.encoder, {current.task(name): name for name in now}
    for block, members in beliefs.parts():
        names = [(m, numbers[m]) for m in members.tolist() if m in numbers]
        if not names:
            continue
        parts = []
        for task, name in names:
            arm, one = now[name]
            arms = _choices(limits, name, arm, max(_FEWEST, _POINTS // len(names)))
            X = encoder.contexts({feature: one.state[feature] for feature in encoder.state.names})[arms]
            parts.append((np.full(len(arms), task), arms, X, np.full(len(arms), name not in limits.frozen)))
        tasks, arms, X, free = (np.concatenate(columns) for columns in zip(*parts, strict=True))
        sizes = [len(part[1]) for part in parts]
        base = np.repeat(np.cumsum([0, *sizes[:-1]]), sizes)
        rows: Any = getattr(block, "rows", None)  # told with a variance of their own where samples were counted
        noise = float(rows.noise.mean()) if rows is not None and len(block) else beliefs.noise
        yield _Group(beliefs, tasks, arms, X=X, base=base, allowed=free, noise=noise, periods=periods)


def _chosen(
    controller: Controller, groups: list[_Group], limits: Limits, *, stations: int, settings: int
) -> list[_Choice]:
    """Return the trials that teach most, one after the other."""
    names, found, counts = np.array(controller.current.stations), list[_Choice](), dict[int, int]()
    while len(found) < stations * settings:
        best = max(groups, key=lambda group: float(group.worth.max()))
        position = int(np.argmax(best.worth))
        if not best.worth[position] > 0:
            break
        task, arm = int(best.tasks[position]), int(best.arms[position])
        found.append(_Choice(best, position, counts.get(task, 0), best.taught(position)))
        counts[task] = counts.get(task, 0) + 1
        best.learn(position)
        station = str(names[task])
        out_of_reach = ~limits.reach(station, arm)[best.arms] | (best.arms == arm) | (counts[task] == settings)
        best.forbid((best.tasks == task) & out_of_reach)
        alone = np.isin(names, list(limits.apart(station)))
        for group in groups:
            started = np.isin(group.tasks, list(counts))
            group.forbid(~started & (alone[group.tasks] | (len(counts) == stations)))
    return found


# --- What a plan says -----------------------------------------------------------------------------------------------


def _trial(controller: Controller, one: _Choice) -> Trial:
    current, group, at = controller.current, one.group, one.position
    space = current.encoder.space
    others = tuple((current.stations[m], share) for m, share in one.taught.items() if m != one.task)
    trial = Trial(
        current.stations[one.task],
        present=space[int(group.arms[group.base[at]])],
        setting=space[int(group.arms[at])],
        begin=1 + group.periods * one.number,
        periods=group.periods,
        gain=normal(float(group.gain[at]), float(np.sqrt(group.variance[at]))),
        own=one.taught.get(one.task, 0.0),
        learners=others[:_NAMED],
        reason="",
    )
    return replace(trial, reason=_reason(trial, sum(share >= _WORTH_A_WORD for _, share in others)))


def _reason(trial: Trial, others: int) -> str:
    """Return why a trial is worth making, and what it may cost."""
    named = [f"{name} ({share_text(share)})" for name, share in trial.learners if share >= _WORTH_A_WORD]
    also = f", {share_text(1 - trial.own)} about {counted(others, 'other station')}, most {listed(named)}"
    gain = f"{trial.gain.value:+.3g} (95 % interval {trial.gain.low:+.3g} to {trial.gain.high:+.3g})"
    return (
        f"{configuration_text(trial.setting, -1)} instead of {configuration_text(trial.present, -1)}: "
        f"{share_text(trial.own)} of what it teaches is about the station itself{also if named else ''}. "
        f"A period is expected to gain {gain}."
    )


def _after(
    controller: Controller, groups: list[_Group], chosen: list[_Choice]
) -> dict[str, tuple[FloatArray, FloatArray]]:
    """Return the variances of the differences of each station before and after the trials."""
    told, found = told_rows(groups[0].beliefs), {}
    for group in groups:
        rows = [_trial_rows(controller, one, told) for one in chosen if one.group is group]
        tasks, X = (
            (np.concatenate(part) for part in zip(*rows, strict=True)) if rows else (group.tasks[:0], group.X[:0])
        )
        after, own = group.variance_after(tasks, X), group.tasks[group.targets]
        for task in np.unique(own).tolist():
            mine = group.targets[own == task]
            found[controller.current.stations[task]] = group.variance[mine], after[mine]
    return found


def _trial_rows(controller: Controller, one: _Choice, told: tuple[IntArray, FloatArray]) -> tuple[IntArray, FloatArray]:
    """Return the rows that a trial will bring, in states as its station had them: (p,), (p, d)."""
    periods, states = one.group.periods, len(controller.current.encoder.state.names)
    X = np.tile(one.group.X[one.position], (periods, 1))
    own = told[1][told[0] == one.task]
    if len(own):
        X[:, :states] = own[np.linspace(0, len(own) - 1, periods).round().astype(int), :states]
    return np.full(periods, one.task), X


def _loss(beliefs: BlockedPosterior, chosen: list[_Choice], periods: int) -> Estimate:
    """Return what all trials together are expected to lose."""
    ends = [(one.group, place) for one in chosen for place in (one.position, int(one.group.base[one.position]))]
    found = beliefs.predict([group.tasks[at] for group, at in ends], np.array([group.X[at] for group, at in ends]))
    a = np.tile([periods, -periods], len(chosen))
    return -normal(float(a @ found.mean), float(np.sqrt(max(a @ found.covariance() @ a, 0.0))))
