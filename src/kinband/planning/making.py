"""From a log and the present states to a change plan."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from kinband.arrays import BoolArray, FloatArray, IntArray, finite_number
from kinband.contexts import ContextEncoder, StateScaler
from kinband.controller import Controller, Settings
from kinband.controller.explain import listed
from kinband.controller.stations import CurrentSettings
from kinband.errors import BadInputError, KinbandError
from kinband.planning.borrowing import beliefs_of, shares, std_alone, told_rows
from kinband.planning.plan import (
    Change,
    ChangePlan,
    LeftAlone,
    Why,
    best_reason,
    change_reason,
    check_step,
    limit_reason,
    loan_reason,
    never_reason,
    small_reason,
    tried_reason,
    uncertain_reason,
    within_steps,
)
from kinband.policies import Constant
from kinband.posterior import BlockedPosterior
from kinband.space import ConfigurationSpace
from kinband.stats import Estimate, normal
from kinband.trace.columns import Table, table_of
from kinband.trace.files import check_file, read_csv, read_parquet
from kinband.trace.values import floats, station_names

# --- The stations as they are now: the state each is in and the configuration it runs -------------------------------
#
# They come as a table with one row per station: a column with its name, one for each state feature and one for each
# knob, named as in the log; other columns are ignored, so the last hour of an export will do. What is wrong with the
# table (a column missing, text for numbers, a station twice) is an error; what is missing of one station concerns that
# station alone: it stays unknown here, and a plan leaves the station as it is and says why.


@dataclass(frozen=True)
class Present:
    """The present state and configuration of one station.

    Attributes:
        state: State features by name, nan where unknown.
        configuration: Knob values by name, None where unknown.

    Example:
        >>> Present({"load": 0.4}, {"tilt": 4}).configuration["tilt"]
        4
    """

    state: Mapping[str, float]
    configuration: Mapping[str, Any]


def present_of(
    frame: Any,
    space: ConfigurationSpace,
    *,
    state: Sequence[str],
    station: str = "station",
    what: str = "the table of present states",
) -> dict[str, Present]:
    """Return the stations of a pandas, polars or pyarrow table, or of a mapping from column name to values.

    Args:
        frame: The table, one row per station.
        space: Names the knobs.
        state: Names of the state features.
        station: Column of the station names.
        what: What the table is called in messages.

    Example:
        >>> table = {"station": [7, 8], "load": [0.2, None], "tilt": [2, 4]}
        >>> now = present_of(table, ConfigurationSpace(tilt=[2, 4]), state=["load"])
        >>> now["7"]
        Present(state={'load': 0.2}, configuration={'tilt': 2})
        >>> now["8"].state
        {'load': nan}
    """
    try:
        table = table_of(frame)
    except BadInputError as error:
        raise BadInputError(str(error).replace("a trace is made from", f"{what} must be", 1)) from error
    knobs = list(space.knobs)
    _check_columns(table, {station: "the station"}, dict.fromkeys(state, "a state feature"), knobs=knobs, what=what)
    names = station_names(table.get(station), label=f"column {station!r} of {what}").tolist()
    if not names:
        raise BadInputError(f"{what} has columns but no rows: give one row for each station to plan for")
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise BadInputError(f"{what} lists station {twice!r} {names.count(twice)} times: give its present row only")
    states = {name: _feature(table, name, what=what) for name in state}
    settings = {knob: [_known(value) for value in table.get(knob).tolist()] for knob in knobs}
    return {
        name: Present(
            {feature: float(values[row]) for feature, values in states.items()},
            {knob: values[row] for knob, values in settings.items()},
        )
        for row, name in enumerate(names)
    }


def read_present(
    path: str | Path,
    space: ConfigurationSpace,
    *,
    state: Sequence[str],
    station: str = "station",
    delimiter: str = ",",
    decimal_point: str = ".",
) -> dict[str, Present]:
    r"""Read the stations as they are now from a .csv, .csv.gz or .parquet file.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder) / "now.csv"
        ...     _ = path.write_text("station,load,tilt,vendor\n0012,0.2,4,x\n", encoding="utf-8")
        ...     read_present(path, ConfigurationSpace(tilt=[2, 4]), state=["load"])
        {'0012': Present(state={'load': 0.2}, configuration={'tilt': 4})}
    """
    path = Path(path)
    if check_file(path) == ".parquet":
        table = read_parquet(path)
    else:  # an inferred type would turn the station "0012", or a category "1", into a number
        text = [station, *(knob for knob, values in space.knobs.items() if isinstance(values[0], str))]
        types = dict.fromkeys(text, "string")
        table = read_csv(path, types=types, delimiter=delimiter, decimal_point=decimal_point)
    return present_of(table, space, state=state, station=station, what=str(path))


def _check_columns(table: Table, *wanted: Mapping[str, str], knobs: Sequence[str], what: str) -> None:
    needed = {name: role for part in wanted for name, role in part.items()} | dict.fromkeys(knobs, "a knob")
    missing = [f"{name!r} ({role})" for name, role in needed.items() if name not in table.names]
    if missing:
        has = ", ".join(map(repr, table.names))
        raise BadInputError(
            f"{what} lacks the column {' and '.join(missing)}; it has {has}: add it, named as in the log"
        )


def _feature(table: Table, name: str, *, what: str) -> FloatArray:
    values = floats(table.get(name), label=f"column {name!r} of {what}", unknown=True)
    if np.isnan(values).all():
        raise BadInputError(f"column {name!r} of {what} is empty: fill in the present state of each station")
    return values


def _known(value: Any) -> Any:
    return None if value is None or value == "" or value != value else value


# --- What states and settings the log has seen, so that nothing is recommended far from all experience --------------
#
# A posterior answers anywhere, with its prior where it knows nothing, and a mistaken unit (per cent for a share) lands
# there. A state is familiar while each of its features lies in the range of the rows told, give or take one standard
# deviation of that feature over these rows. A feature that never varied must have its one value.
#
# A setting is known where every quantity lies in the range that was tried and every category is one that was. Most logs
# hold no random trials: a station ran two or three settings for months, and others tell all there is about the rest.

BEYOND = 1.0
"""How many standard deviations outside the range of the log a feature may lie."""
_ROUNDING = 1e-9


@dataclass(frozen=True, eq=False)
class Seen:
    """The range of every state feature in the rows told, in the feature's own unit.

    Attributes:
        names: The p state features.
        low: Smallest value, (p,).
        high: Largest value, (p,).
        spread: Standard deviation, (p,).

    Example:
        >>> seen = Seen.of(StateScaler.identity(["load"]), np.array([[0.2, 7.0], [0.4, 9.0]]))
        >>> seen.strange(np.array([0.45])), seen.strange(np.array([43.0]))
        (None, 'its load is 43, the log has 0.2 to 0.4')
    """

    names: tuple[str, ...]
    low: FloatArray
    high: FloatArray
    spread: FloatArray

    @classmethod
    def of(cls, scaler: StateScaler, X: FloatArray) -> "Seen":
        """Return what contexts X (n, d) hold of a state; without rows, everything is familiar."""
        p = len(scaler.names)
        if not len(X):
            return cls(scaler.names, np.full(p, -np.inf), np.full(p, np.inf), np.zeros(p))
        S = scaler.centre + X[:, :p] * scaler.scale  # an ignored feature has scale 0 and its one value as centre
        return cls(scaler.names, S.min(axis=0), S.max(axis=0), S.std(axis=0))

    def strange(self, state: FloatArray) -> str | None:
        """Return in words which feature of a state (p,) is furthest outside, or None for a familiar state."""
        outside = np.maximum(self.low - state, state - self.high)
        slack = BEYOND * self.spread + _ROUNDING * (1.0 + np.abs(state))
        far = np.flatnonzero(outside > slack)
        if not len(far):
            return None
        worst = far[np.argmax((outside - slack)[far] / np.maximum(self.spread[far], _ROUNDING))]
        low, high = (f"{limit[worst]:.4g}" for limit in (self.low, self.high))
        known = f"only ever {low}" if low == high else f"{low} to {high}"
        return f"its {self.names[worst]} is {state[worst]:.4g}, the log has {known}"


@dataclass(frozen=True, eq=False)
class Tried:
    """Who ran which configuration.

    Attributes:
        space: All configurations.
        tasks: Station of each row told, (n,).
        arms: What ran in it, (n,).

    Example:
        >>> encoder = ContextEncoder(StateScaler.identity([]), ConfigurationSpace(tilt=[2, 4, 6, 8]))
        >>> tried = Tried.of(encoder, np.array([0, 0, 1]), encoder.space.features[[1, 1, 3]])
        >>> tried.within(tried.tasks < 2).tolist(), tried.stations(1).tolist(), tried.stations(2).tolist()
        ([False, True, True, True], [0], [])
    """

    space: ConfigurationSpace
    tasks: IntArray
    arms: IntArray

    @classmethod
    def of(cls, encoder: ContextEncoder, tasks: IntArray, X: FloatArray) -> "Tried":
        """Return what ran in rows of tasks (n,) with contexts X (n, d); rows outside the space are left out."""
        known, p = encoder.space.features, len(encoder.state.names)
        rows = X[:, p : p + known.shape[1]] if len(X) else known[:0]
        number = np.unique((np.vstack([known, rows]) / _ROUNDING).round(), axis=0, return_inverse=True)[1].ravel()
        arm_of = np.full(len(number), -1, dtype=np.int64)
        arm_of[number[: len(known)]] = np.arange(len(known))
        arms = arm_of[number[len(known) :]]
        return cls(encoder.space, tasks[arms >= 0], arms[arms >= 0])

    def within(self, rows: BoolArray) -> BoolArray:
        """Return which configurations lie within what some rows (n,) tried, (N,)."""
        ran = np.unique(self.arms[rows])
        inside = np.full(len(self.space), len(ran) > 0)
        for name in self.space.knobs if len(ran) else ():
            column, knob = self.space.knob(name)
            codes = self.space.codes[:, column]
            if knob.categorical:
                inside &= np.isin(codes, codes[ran])
                continue
            values = np.array(knob.values, dtype=np.float64)[codes]
            inside &= (values >= values[ran].min()) & (values <= values[ran].max())
        return inside

    def stations(self, arm: int) -> IntArray:
        """Return the tasks that ran a configuration, ascending."""
        return np.unique(self.tasks[self.arms == arm])


# --- One station of a plan: which change would be best for it, and whether that is worth making ---------------------

_TIE = 1e-12  # a score that is better by rounding alone is not better


@dataclass(frozen=True, eq=False)
class Desk:
    """What every station of a plan is looked at with.

    Attributes:
        settings: Stations, encoder and task matrix.
        beliefs: The posterior.
        seen: The states that the beliefs come from.
        tried: The configurations that they come from.
        own_rows: How many rows each station has, (M,).
        beta: Weight of the standard deviation; None where the plan does not explore.
        least_gain: What a change must gain to be worth making.
        steps: The furthest each knob may move.
    """

    settings: CurrentSettings
    beliefs: BlockedPosterior
    seen: Seen
    tried: Tried
    own_rows: IntArray
    beta: float | None
    least_gain: float
    steps: Mapping[str, float]

    @property
    def space(self) -> ConfigurationSpace:
        """The configurations to choose from."""
        return self.settings.encoder.space


@dataclass(frozen=True, eq=False)
class Draft:
    """A change under consideration.

    Attributes:
        station: Whom it is for.
        task: The station's number.
        arm: The proposed configuration's number.
        x: Context of the proposed configuration, (d,).
        present: What the station runs.
        proposed: What it could run.
        expected: Expected reward of that.
        unchanged: Expected reward of the present configuration.
        std: Standard deviation of the estimate for the proposed one.
        gain: What it gains over the present configuration.
        merit: By how much its score is the better one; plans are ordered by it.
    """

    station: str
    task: int
    arm: int
    x: FloatArray
    present: Mapping[str, Any]
    proposed: Mapping[str, Any]
    expected: float
    unchanged: float
    std: float
    gain: Estimate
    merit: float

    @property
    def moves(self) -> dict[str, Any]:
        """The new values of the knobs that move."""
        return {knob: value for knob, value in self.proposed.items() if value != self.present[knob]}


def looked_at(desk: Desk, station: str, *, present: Present) -> Draft | LeftAlone:
    """Return the change that would be best for a station, or why it is left alone."""
    known = {knob: _plain(value) for knob, value in present.configuration.items() if value is not None}
    if refusal := _refusal(desk, station, present):
        return LeftAlone(station, known, *refusal)
    arm = desk.space.index(present.configuration)
    allowed = within_steps(desk.space, arm, steps=desk.steps)
    if allowed.sum() == 1:
        reason = "No other configuration of the log is within the steps allowed."
        return LeftAlone(station, known, "no other choice", reason)
    if desk.beta is None:  # exploring is about what was never tried, and says so
        lenders = np.flatnonzero(desk.settings.K_Z[desk.settings.task(station)])
        rows = np.isin(desk.tried.tasks, lenders)
        allowed &= desk.tried.within(rows)
        allowed[arm] = True
        if allowed.sum() == 1:
            ran = [desk.space[int(one)] for one in np.unique(desk.tried.arms[rows])]
            return LeftAlone(station, known, "never tried", never_reason(ran))
    draft = _best(desk, station, present, arm=arm, allowed=allowed)
    refused = _judgement(desk, draft, choices=int(allowed.sum()))
    return LeftAlone(station, draft.present, *refused) if refused else draft


def _refusal(desk: Desk, station: str, present: Present) -> tuple[Why, str] | None:
    """Return why nothing can be said about a station, or None if something can."""
    if station not in desk.settings.active:
        return "not in the log", "The log has no rows of this station, so it is not known which others it resembles."
    unset = [knob for knob in desk.space.knobs if present.configuration.get(knob) is None]
    if unset:
        return "configuration unknown", f"Its present configuration is not known: no {listed(unset)} is given."
    try:
        desk.space.index(present.configuration)
    except KinbandError as error:
        return "configuration unknown", f"Its present configuration never occurs in the log: {error}."
    names = desk.settings.encoder.state.names
    missing = [name for name in names if not np.isfinite(present.state.get(name, np.nan))]
    if missing:
        return "state incomplete", f"Its present state is not known: no {listed(missing)} is given."
    strange = desk.seen.strange(np.array([present.state[name] for name in names]))
    return ("state unfamiliar", f"Its state is far outside what the log has seen: {strange}.") if strange else None


def _best(desk: Desk, station: str, present: Present, *, arm: int, allowed: BoolArray) -> Draft:
    """Return the best change of a station; where nothing beats the present configuration, that one."""
    task, encoder = desk.settings.task(station), desk.settings.encoder
    X = encoder.contexts({name: present.state[name] for name in encoder.state.names})
    arms = np.flatnonzero(allowed)
    prediction = desk.beliefs.predict(np.full(len(arms), task), X[arms])
    score = prediction.mean + (desk.beta or 0.0) * prediction.std  # (12)
    here, best = int(np.flatnonzero(arms == arm)[0]), int(np.argmax(score))
    if score[best] <= score[here] + _TIE * max(1.0, abs(float(score[here]))):
        best = here
    return Draft(
        station,
        task,
        int(arms[best]),
        X[arms[best]],
        present=desk.space[arm],
        proposed=desk.space[int(arms[best])],
        expected=float(prediction.mean[best]),
        unchanged=float(prediction.mean[here]),
        std=float(prediction.std[best]),
        gain=gain_of(desk.beliefs, task, X[arms[best]], instead_of=X[arms[here]]),
        merit=float(score[best] - score[here]),
    )


def gain_of(beliefs: BlockedPosterior, task: int, x: FloatArray, *, instead_of: FloatArray) -> Estimate:
    """Return what a task is expected to gain at context x (d,) over another one, f(x) − f(x₀), with its interval.

    The two beliefs hang together: the variance is var f(x) + var f(x₀) − 2 cov(f(x), f(x₀)), from the joint posterior,
    and most often far smaller than the two variances alone would suggest.

    Example:
        >>> from kinband.kernels import RBF
        >>> from kinband.posterior import make_posterior
        >>> posterior = make_posterior(RBF(1.0), [[1.0]], noise=0.01)
        >>> posterior.update([0, 0], [[0.0], [0.5]], [0.2, 0.6])
        >>> f"{gain_of(posterior, 0, np.array([0.5]), instead_of=np.array([0.0])):.2f}"
        '0.37 (0.10 to 0.63)'
    """
    found = beliefs.predict(task, np.array([x, instead_of]))
    mean, C = found.mean, found.covariance()
    return normal(float(mean[0] - mean[1]), float(np.sqrt(max(C[0, 0] + C[1, 1] - 2.0 * C[0, 1], 0.0))))


def _judgement(desk: Desk, draft: Draft, *, choices: int) -> tuple[Why, str] | None:
    """Return why a draft is not worth a change, or None if it is."""
    explore = desk.beta is not None
    if not draft.moves:
        return "best already", best_reason(draft.unchanged, draft.std, choices=choices, explore=explore)
    if (draft.gain.high if explore else draft.gain.value) < desk.least_gain:
        return "gain too small", small_reason(draft.moves, draft.gain, least=desk.least_gain, explore=explore)
    if not explore and draft.gain.low <= 0:
        return "gain not certain", uncertain_reason(draft.moves, draft.gain)
    return None


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


# --- From what a controller believes and the stations as they are now to a change plan ------------------------------
#
# For every station the configuration with the largest expected reward (9) is compared with the present one or, when
# exploring, the one with the largest f̂ + βσ (12). A plan that plays safe changes a station only where the whole 95 %
# interval of its gain is above zero, and never to what nobody tried that it can learn from, beyond the range of what
# was; `drafts` looks at the stations one by one.
#
# All stations are looked at with the same beliefs, as in Algorithm 1. Nothing is recorded and nothing is learned: a
# plan is a proposal that a person approves.

_LENDERS = 3  # how many are named


def plan_changes(
    controller: Controller,
    now: Mapping[str, Present] | Any,
    *,
    explore: bool = False,
    beta: float | None = None,
    least_gain: float = 0.0,
    max_changes: int | None = None,
    steps: Mapping[str, float] | None = None,
    tick: Callable[[str], None] | None = None,
) -> ChangePlan:
    """Return which stations should change, to what and why, and which are better left alone.

    Args:
        controller: Knows the log; it is not changed.
        now: Present state and configuration by station, or a table with the columns `station`, the state features and
            the knobs.
        explore: Whether to propose what is most worth trying rather than what is expected to earn most.
        beta: Weight of the standard deviation when exploring; None for the controller's own.
        least_gain: Gains below this are not worth a change. When exploring, what counts is the interval's upper end.
        max_changes: The most changes to make, the most worthwhile ones; None for no limit.
        steps: The furthest a knob may move from its present value; 0 keeps it.
        tick: Called with the name of each station that has been looked at.

    Example:
        >>> from kinband import ConfigurationSpace, Trace
        >>> rng = np.random.default_rng(0)
        >>> log = {"station": ["a", "b"] * 30, "load": rng.random(60), "tilt": rng.integers(0, 5, 60)}
        >>> log["reward"] = 1.0 - 0.1 * (log["tilt"] - 3) ** 2 + 0.01 * rng.normal(size=60)
        >>> controller = Controller.from_trace(Trace.from_frame(log, {"configuration": ["tilt"]}), similarity="pooled")
        >>> plan = plan_changes(controller, {"station": ["a", "b"], "load": [0.5, 0.5], "tilt": [1, 3]})
        >>> [(change.station, dict(change.proposed)) for change in plan.changes]
        [('a', {'tilt': 3})]
        >>> [(station.station, station.why) for station in plan.left_alone]
        [('b', 'best already')]
    """
    _check(controller, max_changes=max_changes, least_gain=least_gain, steps=steps)
    stations = _stations(now, controller.settings)
    desk = _desk(controller, explore=explore, beta=beta, least_gain=least_gain, steps=steps or {})
    found: dict[str, Draft | LeftAlone] = {}
    for station, present in stations.items():
        found[station] = looked_at(desk, station, present=present)
        if tick is not None:
            tick(station)
    drafts = sorted((d for d in found.values() if isinstance(d, Draft)), key=lambda draft: -draft.merit)
    most = len(drafts) if max_changes is None else max_changes
    for draft in drafts[most:]:
        reason = limit_reason(draft.moves, draft.gain, most=most)
        found[draft.station] = LeftAlone(draft.station, draft.present, "beyond the limit", reason)
    left_alone = tuple(station for station in found.values() if isinstance(station, LeftAlone))
    return ChangePlan(tuple(desk.space.knobs), _changes(desk, drafts[:most]), left_alone, explore)


def _check(controller: Any, *, max_changes: Any, least_gain: Any, steps: Any) -> None:
    """Refuse what is of another kind than it should be."""
    if not isinstance(controller, Controller):
        raise BadInputError(
            f"plan_changes takes a Controller, got {controller!r:.60}: Controller.from_trace(trace) makes one of a log"
        )
    whole = isinstance(max_changes, int | np.integer) and not isinstance(max_changes, bool)
    if max_changes is not None and not (whole and max_changes >= 1):
        raise BadInputError(f"max_changes must be a whole number of at least 1, got {max_changes!r:.60}")
    if steps is not None and not isinstance(steps, Mapping):
        raise BadInputError(f'steps must map knobs to numbers, such as {{"tilt": 2}}, got {steps!r:.60}')
    numbers = {"least_gain": least_gain, **{f"the step of {knob!r}": step for knob, step in (steps or {}).items()}}
    for name, number in numbers.items():
        if isinstance(number, bool | np.bool_):
            raise BadInputError(f"{name} must be a number, got {number!r}")


def _stations(now: Mapping[str, Present] | Any, settings: Settings) -> Mapping[str, Present]:
    if settings.features is not None:
        raise BadInputError("a plan needs states and configurations: this controller is asked with context rows")
    if isinstance(now, Mapping) and now and all(isinstance(value, Present) for value in now.values()):
        return now
    return present_of(now, settings.encoder.space, state=settings.encoder.state.names)


def _desk(
    controller: Controller, *, explore: bool, beta: float | None, least_gain: float, steps: Mapping[str, float]
) -> Desk:
    settings = controller.current
    if finite_number(least_gain, name="least_gain") < 0:
        raise BadInputError(f"least_gain must not be negative, got {least_gain:g}")
    for knob, step in steps.items():
        check_step(settings.encoder.space, knob, step=step)
    beliefs = beliefs_of(controller)
    tasks, X = told_rows(beliefs)
    rule = settings.exploration if beta is None else Constant(beta)
    weight = rule.beta(known=len(beliefs), arms=len(settings.encoder.space), noise=settings.noise)
    return Desk(
        settings,
        beliefs,
        Seen.of(settings.encoder.state, X),
        Tried.of(settings.encoder, tasks, X),
        own_rows=np.bincount(tasks, minlength=len(settings.stations)),
        beta=weight if explore else None,
        least_gain=float(least_gain),
        steps=steps,
    )


def _changes(desk: Desk, drafts: Sequence[Draft]) -> tuple[Change, ...]:
    """Return drafts with what they borrowed, solved for all together."""
    if not drafts:
        return ()
    tasks, X = np.array([draft.task for draft in drafts]), np.array([draft.x for draft in drafts])
    lent = shares(desk.beliefs, tasks, X, K_Z=desk.settings.K_Z)
    return tuple(_change(desk, draft, lent=row) for draft, row in zip(drafts, lent, strict=True))


def _change(desk: Desk, draft: Draft, *, lent: FloatArray) -> Change:
    others = np.where(np.arange(len(lent)) == draft.task, 0.0, lent)
    top = [int(m) for m in np.argsort(-others, kind="stable")[:_LENDERS] if others[m] > 0]
    lenders = tuple((desk.settings.stations[m], float(others[m])) for m in top)
    alone = std_alone(desk.beliefs, draft.task, x=draft.x, K_Z=desk.settings.K_Z)
    total, own_rows = float(others.sum()), int(desk.own_rows[draft.task])
    reason = change_reason(draft.expected, draft.unchanged, gain=draft.gain, explore=desk.beta is not None)
    loan = loan_reason(lenders, borrowed=total, own_rows=own_rows, std=draft.std, alone=alone)
    return Change(
        draft.station,
        draft.present,
        draft.proposed,
        expected=draft.expected,
        expected_unchanged=draft.unchanged,
        gain=draft.gain,
        std=draft.std,
        std_alone=alone,
        own_rows=own_rows,
        borrowed=total,
        lenders=lenders,
        reason=" ".join([reason, *_never_ran(desk, draft), loan]),
    )


def _never_ran(desk: Desk, draft: Draft) -> list[str]:
    """Whose trials a change rests on, where its station never ran what is proposed."""
    ran = desk.tried.stations(draft.arm)
    if draft.task in ran:
        return []
    between = bool(desk.tried.within(desk.tried.tasks == draft.task)[draft.arm])
    similar = int((desk.settings.K_Z[draft.task, ran] > 0).sum())
    return [tried_reason(draft.station, draft.proposed, similar=similar, between=between)]
