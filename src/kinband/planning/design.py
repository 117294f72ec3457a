"""Trial plans: which few stations should try which settings, so that the whole network learns most from it.

A log in which everybody ran what they always run cannot say what another setting would earn. A few trials can, if they
are made where others learn from them. What a trial will teach is known before it is made: the variance of a posterior
does not depend on the rewards. Trials are chosen one after the other, each the one that most reduces

    Σ_m Σ_a var(f_m(a) − f_m(a₀)),   a₀ the present setting of station m, a what it may be set to,

by cov(f_j, f_m(a) − f_m(a₀))² / (var f_j + λ/p) for a trial j of p periods. Such a sum has diminishing returns nearly
always, so that greedy choices are near the best (Krause, Singh and Guestrin 2008; the criterion is A-optimality for the
differences that a plan will rest on). States are the usual ones of each station.

Never the whole network: a tenth of the stations, ten at most, unless more are asked for, and never more than half.
Those that stay as they are show what changed everywhere, and a mistake stays small.
"""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from kinband.arrays import BoolArray, FloatArray, IntArray
from kinband.contexts import ContextEncoder
from kinband.controller import Controller
from kinband.controller.explain import configuration_text, listed
from kinband.errors import BadInputError, KinbandError
from kinband.guardrails import KnobLimit, Rails
from kinband.likelihood import starting_kernel
from kinband.planning.beliefs import beliefs_of
from kinband.planning.making import check_step
from kinband.planning.plan import Present, _prefixed, _rounded, _write_csv, check_folder
from kinband.posterior import BlockedPosterior
from kinband.space import ConfigurationSpace
from kinband.stats import REACH, Estimate, counted, normal
from kinband.trace import Trace
from kinband.trace.answers import log_questions, station_numbers

MOST_STATIONS, SHARE = 10, 0.1
"""Stations that try something unless more are asked for: at most so many, and at most this share of all."""

_POINTS = 3000  # contexts of stations that learn together, of which all covariances are kept
_FEWEST = 4  # settings of a station that are looked at, the present one among them
_CHUNK = 64
_ROUNDING = 1e-9

# --- What is learned before anything is planned ---------------------------------------------------------------------


def controller_for_trials(
    trace: Trace, space: ConfigurationSpace | None = None, **given: Any
) -> tuple[Controller, list[str]]:
    """Return a controller that has learned from a log, and notes on what it could not learn.

    Where no station ran two settings, how fast rewards change with a knob cannot be told from how stations differ:
    the length-scales of knobs are then those of the prior.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> log = {"station": ["a", "b", "c"] * 20, "tilt": [2, 4, 4] * 20, "reward": rng.random(60)}
        >>> trace = Trace.from_frame(log, {"configuration": ["tilt"]})
        >>> controller, notes = controller_for_trials(trace)
        >>> notes
        ['no station ran two settings: how fast rewards change with tilt is assumed, not learned']
    """
    controller = Controller.from_trace(trace, space, **given)
    if log_questions(trace).tried[2] > 1 or "kernel" in given:
        return controller, []
    encoder = controller.settings.encoder
    usual = starting_kernel(trace.with_space(encoder.space).samples(encoder))
    fitted: Any = controller.settings.kernel
    knobs = encoder.space.feature_names
    theta = fitted.theta.copy()
    for place, (name, prior) in enumerate(zip(fitted.names, usual.theta, strict=True)):
        if any(f"length_scale[{knob}]" in name for knob in knobs):
            theta[place] = prior
    assumed = Controller.from_trace(trace, space, **{**given, "kernel": fitted.with_theta(theta)})
    names = listed(list(encoder.space.knobs))
    return assumed, [f"no station ran two settings: how fast rewards change with {names} is assumed, not learned"]


def usual_present(trace: Trace) -> dict[str, Present]:
    """Return what every station ran last, in its usual state, the median of its rows; without times, ran most.

    Example:
        >>> log = {"station": ["a", "a", "a"], "time": [1, 2, 3], "load": [0.1, 0.5, 0.4], "tilt": [2, 2, 4]}
        >>> usual_present(Trace.from_frame({**log, "reward": [0.8, 0.9, 0.7]}, {"configuration": ["tilt"]}))
        {'a': Present(state={'load': 0.4}, configuration={'tilt': 4})}
    """
    station = station_numbers(trace)
    order = np.lexsort((np.arange(len(trace)) if trace.time is None else trace.time, station))
    ends = np.append(np.flatnonzero(np.diff(station[order])) + 1, len(order))
    found, arms = {}, trace.space().indices(trace.configuration)
    for name, rows in zip(trace.stations, np.split(order, ends[:-1]), strict=True):
        last = rows[-1]
        if trace.time is None:
            last = rows[np.argmax(arms[rows] == np.bincount(arms[rows]).argmax())]
        state = dict(zip(trace.state_names, np.median(trace.state[rows], axis=0).tolist(), strict=True))
        found[name] = Present(state, {knob: values[last].item() for knob, values in trace.configuration.items()})
    return found


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
        stations: How many stations the plan is to teach something about.
        before: How well differences to the present setting are known now: standard deviation, root mean square.
        after: The same after the trials.
        widths: The two by station.
        loss: What all trials together are expected to lose, in reward times periods, with its interval.

    Example:
        >>> plan = TrialPlan(("tilt",), (), 3, before=0.2, after=0.1, widths={}, loss=Estimate(0.0, -1.0, 1.0))
        >>> plan.to_dict()["after"]
        0.1
    """

    knobs: tuple[str, ...]
    trials: tuple[Trial, ...]
    stations: int
    before: float
    after: float
    widths: Mapping[str, tuple[float, float]]
    loss: Estimate

    def write(self, folder: str | Path, *, replace: bool = False) -> list[Path]:
        """Write rollback.csv, then design.csv, and return their paths; see `ChangePlan.write`.

        Example:
            >>> import tempfile
            >>> plan = TrialPlan(("tilt",), (), 3, before=0.2, after=0.1, widths={}, loss=Estimate(0.0))
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     [path.name for path in plan.write(folder)]
            ['rollback.csv', 'design.csv']
        """
        folder = Path(folder)
        check_folder(folder, replace=replace)
        folder.mkdir(parents=True, exist_ok=True)
        files = [folder / "rollback.csv", folder / "design.csv"]
        present, target = (list(_prefixed(side, dict.fromkeys(self.knobs))) for side in ("present", "set"))
        back = {one.station: {"station": one.station, **_prefixed("set", one.present)} for one in self.trials}
        _write_csv(files[0], ["station", *target], iter(back.values()))
        numbers = ["from_period", "periods", "expected_gain", "gain_low", "gain_high"]
        _write_csv(files[1], ["station", *present, *target, *numbers, "reason"], map(_row, self.trials))
        return files

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as JSON-able values."""
        trials = [asdict(one) | {"gain": one.gain.to_dict(), "learners": dict(one.learners)} for one in self.trials]
        widths = {name: {"before": before, "after": after} for name, (before, after) in self.widths.items()}
        plain = {"knobs": list(self.knobs), "trials": trials, "stations": self.stations}
        return {**plain, "before": self.before, "after": self.after, "widths": widths, "loss": self.loss.to_dict()}


def _row(one: Trial) -> dict[str, Any]:
    gain = one.gain
    numbers = {"expected_gain": gain.value, "gain_low": gain.low, "gain_high": gain.high}
    return {
        "station": one.station,
        **_prefixed("present", one.present),
        **_prefixed("set", one.setting),
        "from_period": one.begin,
        "periods": one.periods,
        **{name: _rounded(number) for name, number in numbers.items()},
        "reason": one.reason,
    }


# --- What may be tried ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Limits:
    """What limits trials.

    Attributes:
        rails: Hard limits, the steps asked for among them.
        space: All configurations.
        max_loss: The most that a period of a trial may lose, by the lower end of its interval; None for any.
    """

    rails: Rails
    space: ConfigurationSpace
    max_loss: float | None

    def reach(self, station: str, arm: int) -> BoolArray:
        """Return to which configurations a station may be set from configuration `arm`, (N,)."""
        allowed = np.ones(len(self.space), dtype=np.bool_)
        for name, limit in self.rails.limits(station):
            column, knob = self.space.knob(name)
            before = knob.values[self.space.codes[arm, column]]
            fine = np.array([limit.allows(value) and limit.reaches(before, value) for value in knob.values])
            allowed &= fine[self.space.codes[:, column]]
        return allowed

    def frozen(self) -> frozenset[str]:
        """Return the stations that are left alone."""
        return frozenset(freeze.station for freeze in self.rails.freeze)


def _limits(
    space: ConfigurationSpace, rails: Rails | None, steps: Mapping[str, float], max_loss: float | None
) -> _Limits:
    rails = Rails() if rails is None else rails
    if rails.stop:
        raise BadInputError("the stop switch of the rails is on, so nothing may be tried", argument="rails")
    for knob, step in steps.items():
        check_step(space, knob, step=step)
    if max_loss is not None and not max_loss >= 0:
        raise BadInputError(f"max_loss must not be negative, got {max_loss!r}", argument="max_loss", value=max_loss)
    limits = {name: KnobLimit(step=step) for name, step in steps.items()}
    own = {name: dict(knobs) for name, knobs in rails.stations.items()}
    if limits:  # on top of those of the rails, under a name of their own: both hold
        merged = {name: _tighter(rails.knobs.get(name), limit) for name, limit in limits.items()}
        rails = replace(rails, knobs={**rails.knobs, **merged}, stations=own)
    return _Limits(rails, space, max_loss)


def _tighter(one: KnobLimit | None, other: KnobLimit) -> KnobLimit:
    """Return a limit with the smaller step of two."""
    if one is None:
        return other
    steps = [step for step in (one.step, other.step) if step is not None]
    return replace(one, step=min(steps))


def _spread(features: FloatArray, arms: IntArray, first: int, most: int) -> IntArray:
    """Return at most so many of the arms, `first` among them, each the one furthest from those before."""
    chosen = [first]
    far = np.full(len(arms), np.inf)
    while len(chosen) < min(most, len(arms)):
        far = np.minimum(far, np.square(features[arms] - features[chosen[-1]]).sum(axis=1))
        chosen.append(int(arms[np.argmax(far)]))
    return np.array(chosen)


# --- Choosing -------------------------------------------------------------------------------------------------------


class _Group:
    """Stations that learn from each other, and what is believed of their settings together.

    Args:
        beliefs: The posterior.
        tasks: Station of each context, (P,).
        arms: Setting of each context, (P,).
        X: The contexts, (P, d).
        base: Position of the context of the same station's present setting, (P,).
    """

    def __init__(
        self, beliefs: BlockedPosterior, tasks: IntArray, arms: IntArray, *, X: FloatArray, base: IntArray
    ) -> None:
        self.tasks, self.arms, self.X, self.base = tasks, arms, X, base
        found = beliefs.predict(tasks, X)
        every = np.arange(len(tasks))
        parts = (found.covariance(every[at : at + _CHUNK], every) for at in range(0, len(every), _CHUNK))
        self.C = np.vstack(list(parts))
        self.gain = found.mean - found.mean[base]
        self.targets = np.flatnonzero(base != every)
        self.allowed = base != every
        self.first = self.variances()
        self.noise = beliefs.noise
        self._worth: FloatArray | None = None

    def variances(self) -> FloatArray:
        """Return the variance of every difference to the present setting, (P,)."""
        v = np.diagonal(self.C)
        at = np.arange(len(v))
        return np.maximum(v + v[self.base] - 2.0 * self.C[at, self.base], 0.0)

    def forbid_losses(self, max_loss: float) -> None:
        """Allow only settings whose gain is above minus a loss with the whole of its interval."""
        self.allowed &= self.gain - REACH * np.sqrt(self.first) >= -max_loss - _ROUNDING

    def reductions(self, position: int, periods: int) -> FloatArray:
        """Return by how much a trial reduces the variance of every target, (T,)."""
        c = self.C[:, position]
        difference = c[self.targets] - c[self.base[self.targets]]
        return np.asarray(difference**2 / (c[position] + self.noise / periods))

    def worth(self, periods: int) -> FloatArray:
        """Return what every context, tried for so many periods, takes off the sum of variances, (P,)."""
        if self._worth is None:
            D = self.C[self.targets] - self.C[self.base[self.targets]]
            total = np.einsum("tp,tp->p", D, D) / (np.diagonal(self.C) + self.noise / periods)
            self._worth = np.where(self.allowed, total, -np.inf)
        return self._worth

    def learn(self, position: int, periods: int) -> None:
        """Take up that a context will be tried."""
        c = self.C[:, position].copy()
        self.C -= np.outer(c, c) / (c[position] + self.noise / periods)
        self._worth = None

    def forbid(self, positions: BoolArray) -> None:
        """Allow no trial at some contexts, (P,)."""
        self.allowed &= ~positions
        self._worth = None if self._worth is None else np.where(positions, -np.inf, self._worth)


def design_trials(
    controller: Controller,
    present: Mapping[str, Present],
    *,
    stations: int | None = None,
    periods: int = 8,
    settings: int = 2,
    steps: Mapping[str, float] | None = None,
    max_loss: float | None = None,
    rails: Rails | None = None,
) -> TrialPlan:
    """Return which stations should try which settings, for the network to learn most.

    Args:
        controller: Knows the log; it is not changed.
        present: Usual state and present setting by station, see `usual_present`.
        stations: How many stations may try something; a tenth of them, ten at most, if not given.
        periods: Of how many periods the trials of a station may last together.
        settings: How many settings a station tries, one after the other.
        steps: The furthest a knob may move from its present value, and from one trial to the next.
        max_loss: What a period of a trial may lose at most, by the lower end of the interval of its gain.
        rails: Hard limits: ranges, steps, frozen stations, changes in a round, neighbours.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> log = {"station": ["a", "b", "c"] * 20, "tilt": [2, 4, 4] * 20, "reward": 0.1 * rng.random(60)}
        >>> trace = Trace.from_frame(log, {"configuration": ["tilt"]})
        >>> space = ConfigurationSpace(tilt=[2, 4, 6])
        >>> controller = Controller.from_trace(trace, space)
        >>> plan = design_trials(controller, usual_present(trace), settings=1)
        >>> len(plan.trials), plan.after < plan.before
        (1, True)
    """
    now = _known(controller, present)
    most = _most(stations, len(now), periods=periods, settings=settings)
    limits = _limits(controller.settings.encoder.space, rails, steps or {}, max_loss)
    if limits.rails.per_round is not None:
        most = min(most, limits.rails.per_round)
    beliefs = beliefs_of(controller)
    groups = list(_groups(controller, beliefs, now, limits))
    each = _shares(periods, settings)
    chosen = _chosen(controller, groups, limits, stations=most, each=each)
    if not chosen:
        raise BadInputError(_nothing(groups, limits), argument="max_loss", value=max_loss, code="nothing_to_try")
    trials = tuple(_trial(controller, one, each) for one in chosen)
    widths = _widths(controller, groups)
    before, after = (float(np.sqrt(np.mean(np.concatenate(part)))) for part in _variances(groups))
    return TrialPlan(
        tuple(limits.space.knobs), trials, len(widths), before, after, widths, _loss(beliefs, chosen, each)
    )


def _known(controller: Controller, present: Mapping[str, Present]) -> dict[str, tuple[int, Present]]:
    """Return the stations that the controller knows, with the number of their present setting."""
    space, found = controller.settings.encoder.space, dict[str, tuple[int, Present]]()
    for name in controller.stations:
        if (one := present.get(name)) is not None:
            try:
                found[name] = space.index(one.configuration), one
            except KinbandError as error:
                raise BadInputError(f"what {name!r} runs is none of the settings to choose from: {error}") from error
    if not found:
        raise BadInputError("none of the present stations is in the log: check the column of the stations")
    return found


def _most(stations: int | None, all_of: int, *, periods: int, settings: int) -> int:
    """Return how many stations may try something."""
    for name, number in (("stations", stations), ("periods", periods), ("settings", settings)):
        whole = isinstance(number, int | np.integer) and not isinstance(number, bool)
        if number is not None and not (whole and number >= 1):
            raise BadInputError(f"{name} must be a whole number of at least 1, got {number!r:.60}", argument=name)
    if settings > periods:
        raise BadInputError(f"{settings} settings do not fit into {periods} periods: give more periods, or fewer")
    if stations is None:
        return min(MOST_STATIONS, max(1, int(SHARE * all_of)))
    if stations > max(1, all_of // 2):
        raise BadInputError(
            f"{stations:,} of {all_of:,} stations are too many to try something at once: at most half may, "
            "the others show what changed everywhere",
            argument="stations",
            value=stations,
        )
    return stations


def _shares(periods: int, settings: int) -> list[int]:
    """Return how many periods each setting of a station is tried for."""
    return [periods // settings + (number < periods % settings) for number in range(settings)]


def _groups(
    controller: Controller, beliefs: BlockedPosterior, now: Mapping[str, tuple[int, Present]], limits: _Limits
) -> Iterator[_Group]:
    """Yield the stations that learn from each other, group by group."""
    current, frozen = controller.current, limits.frozen()
    encoder: ContextEncoder = current.encoder
    numbers = {current.task(name): name for name in now}
    for _, members in beliefs.parts():
        names = [(m, numbers[m]) for m in members.tolist() if m in numbers]
        if not names:
            continue
        most = max(_FEWEST, _POINTS // len(names))
        parts, free = [], list[bool]()
        for task, name in names:
            arm, one = now[name]
            arms = _spread(limits.space.features, np.flatnonzero(limits.reach(name, arm)), arm, most)
            X = encoder.contexts({feature: one.state[feature] for feature in encoder.state.names})[arms]
            parts.append((np.full(len(arms), task), arms, X))
            free += [name not in frozen] * len(arms)
        tasks, arms, X = (np.concatenate(columns) for columns in zip(*parts, strict=True))
        sizes = [len(part[1]) for part in parts]
        base = np.repeat(np.cumsum([0, *sizes[:-1]]), sizes)
        group = _Group(beliefs, tasks, arms, X=X, base=base)
        group.forbid(~np.array(free))
        if limits.max_loss is not None:
            group.forbid_losses(limits.max_loss)
        yield group


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


def _chosen(
    controller: Controller, groups: list[_Group], limits: _Limits, *, stations: int, each: list[int]
) -> list[_Choice]:
    """Return the trials that teach most, one after the other."""
    names, found = controller.current.stations, list[_Choice]()
    counts: dict[int, int] = {}
    while len(found) < stations * len(each):
        best = max(groups, key=lambda group: float(group.worth(each[0]).max()))
        position = int(np.argmax(best.worth(each[0])))
        if not best.worth(each[0])[position] > 0:
            break
        task, arm = int(best.tasks[position]), int(best.arms[position])
        number = counts.get(task, 0)
        counts[task] = number + 1
        found.append(_Choice(best, position, number, _taught(best, position, each[number])))
        best.learn(position, each[number])
        best.forbid((best.tasks == task) & ~limits.reach(names[task], arm)[best.arms])
        best.forbid((best.tasks == task) & ((best.arms == arm) | (number + 1 == len(each))))
        alone = set() if limits.rails.neighbours_together else limits.rails.neighbours.get(names[task], frozenset())
        full = len(counts) == stations
        for group in groups:
            new = ~np.isin(group.tasks, list(counts))
            group.forbid(new & (full | np.isin(group.tasks, [m for m, name in enumerate(names) if name in alone])))
    return found


def _taught(group: _Group, position: int, periods: int) -> dict[int, float]:
    """Return whose differences a trial tells of, as shares that add up to 1, largest first."""
    reduced = group.reductions(position, periods)
    sums = np.bincount(group.tasks[group.targets], weights=reduced)
    order = np.argsort(-sums, kind="stable")
    return {int(m): float(sums[m] / sums.sum()) for m in order if sums[m] > 0}


def _nothing(groups: list[_Group], limits: _Limits) -> str:
    """Return why there is nothing to try."""
    if limits.max_loss is None:
        return "nothing may be tried: steps, rails and the settings of the log leave no other setting (see --values)"
    low = [group.gain - REACH * np.sqrt(group.first) for group in groups]
    least = max((float(part[group.targets].max(initial=-np.inf)) for part, group in zip(low, groups, strict=True)))
    return (
        f"no trial surely loses at most {limits.max_loss:g} a period: the one that comes closest may lose "
        f"{-least:.3g}; allow that with --max-loss, or smaller steps"
    )


# --- What a plan says -----------------------------------------------------------------------------------------------


def _trial(controller: Controller, one: _Choice, each: list[int]) -> Trial:
    current, group, at = controller.current, one.group, one.position
    space, task = current.encoder.space, int(group.tasks[at])
    gain = normal(float(group.gain[at]), float(np.sqrt(group.first[at])))
    others = tuple((current.stations[m], share) for m, share in one.taught.items() if m != task)[:3]
    trial = Trial(
        current.stations[task],
        present=space[int(group.arms[group.base[at]])],
        setting=space[int(group.arms[at])],
        begin=1 + sum(each[: one.number]),
        periods=each[one.number],
        gain=gain,
        own=one.taught.get(task, 0.0),
        learners=others,
        reason="",
    )
    return replace(trial, reason=_reason(trial, sum(share >= 0.005 for share in one.taught.values()) - 1))


def _reason(trial: Trial, others: int) -> str:
    """Return why a trial is worth making, and what it may cost."""
    named = [f"{name} ({share:.0%})" for name, share in trial.learners if share >= 0.005]
    also = f", {1 - trial.own:.0%} about {counted(others, 'other station')}, most {listed(named)}" if named else ""
    gain = f"{trial.gain.value:+.3g} (95 % interval {trial.gain.low:+.3g} to {trial.gain.high:+.3g})"
    return (
        f"{configuration_text(trial.setting, -1)} instead of {configuration_text(trial.present, -1)}: {trial.own:.0%} "
        f"of what it teaches is about the station itself{also}. A period is expected to gain {gain}."
    )


def _variances(groups: list[_Group]) -> tuple[list[FloatArray], list[FloatArray]]:
    """Return the variances of all differences before and after, by group."""
    before = [group.first[group.targets] for group in groups]
    return before, [group.variances()[group.targets] for group in groups]


def _widths(controller: Controller, groups: list[_Group]) -> dict[str, tuple[float, float]]:
    """Return how well the differences of each station are known before and after."""
    found = {}
    for group, before, after in zip(groups, *_variances(groups), strict=True):
        tasks = group.tasks[group.targets]
        for task in np.unique(tasks).tolist():
            own = tasks == task
            ends = (float(np.sqrt(part[own].mean())) for part in (before, after))
            found[controller.current.stations[task]] = (next(ends), next(ends))
    return found


def _loss(beliefs: BlockedPosterior, chosen: list[_Choice], each: list[int]) -> Estimate:
    """Return what all trials together are expected to lose."""
    periods = np.array([each[one.number] for one in chosen], dtype=np.float64)
    ends = [(one.group, place) for one in chosen for place in (one.position, int(one.group.base[one.position]))]
    found = beliefs.predict([group.tasks[at] for group, at in ends], np.array([group.X[at] for group, at in ends]))
    a = np.column_stack([periods, -periods]).ravel()
    return -normal(float(a @ found.mean), float(np.sqrt(max(a @ found.covariance() @ a, 0.0))))
