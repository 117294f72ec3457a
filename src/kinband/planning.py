"""Change plans: what each station should be set to tonight, why, and how to undo it.

For every station the configuration with the largest expected reward (9) is compared with the present one or, when
exploring, the one with the largest f̂ + βσ (12). A plan that plays safe changes a station only where the whole 95 %
interval of its gain is above zero, and never to what nobody tried that it can learn from. All stations are looked at
with the same beliefs, as in Algorithm 1; nothing is recorded and nothing is learned: a person approves a plan.
"""

import csv
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from kinband.arrays import BoolArray, FloatArray, IntArray, finite_number
from kinband.contexts import ContextEncoder, StateScaler
from kinband.controller import Controller, Settings
from kinband.controller.attribution import Hindsight, shares_of
from kinband.controller.explain import configuration_text, listed
from kinband.controller.stations import CurrentSettings
from kinband.errors import BadInputError, KinbandError
from kinband.html import table
from kinband.policies import UCB, Constant
from kinband.policies.base import learn_block
from kinband.policies.safety import Constrained
from kinband.posterior import LARGEST_LOG, BlockedPosterior, ExactPosterior, SchurPosterior
from kinband.posterior.base import Rows
from kinband.similarity import TaskMatrix
from kinband.space import ConfigurationSpace
from kinband.stats import Estimate, counted, normal
from kinband.trace.columns import floats, station_names, table_of
from kinband.trace.files import check_file, read_csv, read_parquet

__all__ = [
    "Change",
    "ChangePlan",
    "LeftAlone",
    "Present",
    "contributions",
    "gain_of",
    "plan_changes",
    "present_of",
    "read_present",
]

# --- The stations as they are now: the state each is in and the configuration it runs -------------------------------
#
# They come as a table with one row per station, with columns named as in the log; other columns are ignored, so the
# last hour of an export will do. What is wrong with the table is an error; what is missing of one station stays unknown
# here, and a plan leaves that station as it is and says why.


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
    table = table_of(frame, what=what)
    roles = {station: "the station", **dict.fromkeys(state, "a state feature"), **dict.fromkeys(space.knobs, "a knob")}
    if missing := [f"{name!r} ({role})" for name, role in roles.items() if name not in table.names]:
        has = ", ".join(map(repr, table.names))
        raise BadInputError(
            f"{what} lacks the column {' and '.join(missing)}; it has {has}: add it, named as in the log"
        )
    names = station_names(table.get(station), label=f"column {station!r} of {what}").tolist()
    if not names:
        raise BadInputError(f"{what} has columns but no rows: give one row for each station to plan for")
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise BadInputError(f"{what} lists station {twice!r} {names.count(twice)} times: give its present row only")
    states = {name: floats(table.get(name), label=f"column {name!r} of {what}", unknown=True) for name in state}
    if empty := next((name for name, values in states.items() if np.isnan(values).all()), None):
        raise BadInputError(f"column {empty!r} of {what} is empty: fill in the present state of each station")
    settings = {knob: [_known(value) for value in table.get(knob).tolist()] for knob in space.knobs}
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


def _known(value: Any) -> Any:
    return None if value is None or value == "" or value != value else value


# --- A plan: the stations to change with the gain expected of each, and those left alone with the reason why --------

Why = Literal[
    "not in the log",
    "state incomplete",
    "state unfamiliar",
    "configuration unknown",
    "no other choice",
    "never tried",
    "best already",
    "gain too small",
    "gain not certain",
    "beyond the limit",
]
"""Why a station is left alone, in a few words that a program can count."""


@dataclass(frozen=True)
class Change:
    """One station to be changed.

    Gains and standard deviations are those of the expected reward f; a single measurement scatters more, by the noise.

    Attributes:
        station: Whom to change.
        present: What it runs now.
        proposed: What it should run.
        expected: Expected reward of the proposed configuration in the present state.
        expected_unchanged: Expected reward of the present one.
        gain: The difference of the two, with its 95 % interval.
        std: Standard deviation of the estimate for the proposed configuration.
        std_alone: What it would be from the station's own rows alone.
        own_rows: How many rows of the station itself were told.
        borrowed: Share of the estimate that rests on other stations' rows, 0 to 1.
        lenders: The three stations that contributed most, with their shares.
        reason: The same in words.

    Example:
        >>> change = Change("a", {"tilt": 2}, {"tilt": 4}, expected=0.9, expected_unchanged=0.8, std=0.02,
        ...     gain=Estimate(0.1, 0.05, 0.15), std_alone=0.03, own_rows=40, borrowed=0.3, lenders=(), reason="...")
        >>> f"{change.gain:+.2f}", change.moves
        ('+0.10 (+0.05 to +0.15)', {'tilt': 4})
    """

    station: str
    present: Mapping[str, Any]
    proposed: Mapping[str, Any]
    expected: float
    expected_unchanged: float
    gain: Estimate
    std: float
    std_alone: float
    own_rows: int
    borrowed: float
    lenders: tuple[tuple[str, float], ...]
    reason: str

    @property
    def moves(self) -> dict[str, Any]:
        """The new values of the knobs that move."""
        return {knob: value for knob, value in self.proposed.items() if value != self.present[knob]}


@dataclass(frozen=True)
class LeftAlone:
    """One station that stays as it is.

    Attributes:
        station: Who.
        present: What it runs now, as far as it is known.
        why: One of a few fixed phrases.
        reason: The same in a sentence.

    Example:
        >>> LeftAlone("a", {"tilt": 2}, "best already", "Nothing is better.").why
        'best already'
    """

    station: str
    present: Mapping[str, Any]
    why: Why
    reason: str


@dataclass(frozen=True)
class ChangePlan:
    """What to change, largest gain first, and what not.

    Attributes:
        knobs: Names of the knobs.
        changes: The stations to change.
        left_alone: The others, in the order they were asked for.
        explore: Whether the plan tries what is little known, or plays safe.

    Example:
        >>> plan = ChangePlan(("tilt",), (), (LeftAlone("a", {"tilt": 2}, "best already", "Nothing is better."),))
        >>> plan.to_dict()["left_alone"][0]["why"]
        'best already'
    """

    knobs: tuple[str, ...]
    changes: tuple[Change, ...]
    left_alone: tuple[LeftAlone, ...]
    explore: bool = False

    def _repr_html_(self) -> str:
        rows = [
            (one.station, one.present, one.proposed, one.expected, one.gain.value, one.gain.low, one.gain.high)
            for one in self.changes
        ]
        head = ["station", "present", "proposed", "expected", "gain", "95 % from", "to"]
        caption = f"{counted(len(rows), 'change')}, {counted(len(self.left_alone), 'station')} left alone"
        return table(head, rows, caption=caption)

    def write(self, folder: str | Path, *, replace: bool = False) -> list[Path]:
        """Write rollback.csv, plan.csv and left_alone.csv, and return their paths.

        The roll-back comes first, so that there is no plan without one. A plan that may have been carried out is not
        lost by accident: a folder that holds one is refused unless `replace` is set.

        Example:
            >>> import tempfile
            >>> plan = ChangePlan(("tilt",), (), ())
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     [path.name for path in plan.write(folder)]
            ['rollback.csv', 'plan.csv', 'left_alone.csv']
        """
        folder = Path(folder)
        check_folder(folder, replace=replace)
        folder.mkdir(parents=True, exist_ok=True)
        present, target = (_prefixed(side, dict.fromkeys(self.knobs)) for side in ("present", "set"))
        _write_csv(folder / "rollback.csv", ["station", *target], map(_undone, self.changes))
        header = ["station", *present, *target, *_NUMBERS, "lenders", "reason"]
        _write_csv(folder / "plan.csv", header, map(_row, self.changes))
        left = ({**vars(one), **_prefixed("present", one.present)} for one in self.left_alone)
        _write_csv(folder / "left_alone.csv", ["station", *present, "why", "reason"], left)
        return [folder / name for name in FILES]

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as JSON-able values."""
        return {
            "explore": self.explore,
            "knobs": list(self.knobs),
            "changes": [_plain(change) for change in self.changes],
            "left_alone": [asdict(station) for station in self.left_alone],
        }


def _plain(change: Change) -> dict[str, Any]:
    gain, lenders = change.gain, [{"station": name, "share": share} for name, share in change.lenders]
    return asdict(change) | {"gain": gain.value, "low": gain.low, "high": gain.high, "lenders": lenders}


# --- A plan on disk: CSV files that people read in a spreadsheet and scripts read to carry them out -----------------
#
# `plan.csv` and `rollback.csv` have the same target columns, `station` and `set_<knob>` for every knob, so that
# whatever carries out the one undoes it with the other. Numbers are written as they are. Text that a spreadsheet would
# take for a formula is written with an apostrophe before it; text that is itself a number needs none.

FILES = ("rollback.csv", "plan.csv", "left_alone.csv")
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")
_NUMBERS: dict[str, Callable[[Change], float]] = {
    "expected_gain": lambda change: change.gain.value,
    "gain_low": lambda change: change.gain.low,
    "gain_high": lambda change: change.gain.high,
    "expected_reward": lambda change: change.expected,
    "expected_reward_unchanged": lambda change: change.expected_unchanged,
    "std": lambda change: change.std,
    "std_alone": lambda change: change.std_alone,
    "own_rows": lambda change: change.own_rows,
    "borrowed_share": lambda change: change.borrowed,
}


def check_folder(folder: Path, *, replace: bool) -> None:
    """Refuse a folder that already holds a plan, unless it may be replaced."""
    if not replace and any((folder / name).exists() for name in FILES):
        raise BadInputError(
            f"{folder} already holds a plan, whose roll-back may still be needed",
            hint="choose another folder, or allow it to be replaced",
            code="plan_exists",
            argument="folder",
        )


def safe_text(text: str) -> str:
    r"""Return text that no spreadsheet takes for a formula, and that stays in its cell.

    A carriage return by itself is not quoted, ends a line all the same, and what follows would begin a cell of its own.

    Example:
        >>> safe_text("=HYPERLINK(1)"), safe_text("-98.5"), safe_text("wait\r=1+1")
        ("'=HYPERLINK(1)", '-98.5', 'wait\n=1+1')
    """
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    return f"'{text}" if text.startswith(_FORMULA) and not _is_number(text) else text


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return text == text.strip()


def _undone(change: Change) -> dict[str, Any]:
    return {"station": change.station, **_prefixed("set", change.present)}


def _row(change: Change) -> dict[str, Any]:
    return {
        "station": change.station,
        **_prefixed("present", change.present),
        **_prefixed("set", change.proposed),
        **{name: _rounded(number(change)) for name, number in _NUMBERS.items()},
        "lenders": "; ".join(f"{name} {share:.3f}" for name, share in change.lenders),
        "reason": change.reason,
    }


def _prefixed(side: str, configuration: Mapping[str, Any]) -> dict[str, Any]:
    return {f"{side}_{knob}": value for knob, value in configuration.items()}


def _rounded(value: float) -> float:
    """Six significant digits: more would be noise to read."""
    return value if isinstance(value, int) else float(f"{value:.6g}")


def _write_csv(path: Path, header: list[str], rows: "Iterator[dict[str, Any]] | map[dict[str, Any]]") -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, header, extrasaction="ignore", lineterminator="\n")
        writer.writeheader()
        for row in rows:
            writer.writerow({name: safe_text(v) if isinstance(v, str) else v for name, v in row.items()})


# --- Attribution: how much of an estimate rests on whose rows, by the beliefs of now --------------------------------
#
# What a station's share is, `kinband.controller.attribution` says. The exact posterior keeps a factor of the matrix,
# not the weights of its rows, so they are solved for here, once for all contexts of a plan. Decisions of the past are
# looked at with the beliefs of then (`Controller.explain`, `kinband.diagnostics`).

_Keeper = ExactPosterior | SchurPosterior  # a posterior that keeps its rows


def beliefs_of(controller: Controller) -> BlockedPosterior:
    """Return what a controller's model believes, whatever its policy makes of it; nothing is changed.

    Contributions can only be told where rows are kept: for a sparse posterior an exact one learns the same log.
    """
    settings, policy = controller.current, controller.policy
    if isinstance(policy, Constrained):
        policy = policy.inner
    known = policy.posterior if settings.config.policy == "ucb" and isinstance(policy, UCB) else None
    if isinstance(known, BlockedPosterior) and all(isinstance(block, _Keeper) for block in known.blocks):
        return known
    observations = controller.observations()
    if len(observations) > LARGEST_LOG:
        raise BadInputError(
            f"a change plan weighs every row told, {len(observations):,} here, and can do so for {LARGEST_LOG:,}: "
            "start a controller from the latest of them"
        )
    setting = settings.setting()
    engine = "schur" if setting.engine == "schur" else "exact"
    posterior = replace(setting, engine=engine, configurations=None).posterior()
    if observations:
        learn_block(posterior, observations)
    return posterior


def contributions(posterior: BlockedPosterior, task: int, *, x: ArrayLike, similarity: TaskMatrix) -> dict[str, float]:
    """Return each station's share in the estimate for one task at context x (d,), largest first.

    The station's own share is among them, stations without any are left out, and the shares add up to 1; without rows
    there is nothing to share and the answer is empty.

    Args:
        posterior: What is believed.
        task: Number of the station that the estimate is for.
        x: The context.
        similarity: The task matrix that the posterior was made with, for its names and its groups.

    Example:
        >>> from kinband.kernels import RBF
        >>> alike = TaskMatrix(("a", "b"), np.array([[1.0, 0.5], [0.5, 1.0]]), "given")
        >>> posterior = BlockedPosterior(RBF(0.5), alike.matrix, noise=0.25)
        >>> posterior.update([0, 1], [[0.0], [0.0]], [0.9, 0.7])
        >>> {name: round(share, 3) for name, share in contributions(posterior, 0, x=[0.0], similarity=alike).items()}
        {'a': 0.889, 'b': 0.111}
    """
    X = np.asarray(x, dtype=np.float64)[None]
    row = shares(posterior, np.array([task]), X, K_Z=similarity.matrix)[0]
    order = [int(m) for m in np.argsort(-row, kind="stable") if row[m] > 0]
    return {similarity.stations[m]: float(row[m]) for m in order}


def shares(posterior: BlockedPosterior, tasks: IntArray, X: FloatArray, *, K_Z: FloatArray) -> FloatArray:
    """Return the share of every task's rows in the estimates at tasks (m,) and contexts X (m, d), (m, M).

    A row of the answer adds up to 1, or is 0 where no told row says anything about the context.
    """
    found = np.zeros((len(tasks), len(K_Z)))
    for group, members in _groups(posterior):
        asked = np.flatnonzero(np.isin(tasks, members))
        if not len(asked) or not len(group):
            continue
        rows = Rows(group.rows.tasks, group.rows.X, group.rows.y, group.rows.noise)
        past = Hindsight(group.kernel, rows, mean=group.mean)
        a = past.weights(np.searchsorted(members, tasks[asked]), X[asked], known=len(group))  # (K̃ + diag(noise))⁻¹ k̃
        found[np.ix_(asked, members)] = shares_of(a, rows.tasks, size=len(members))
    return found


def std_alone(posterior: BlockedPosterior, task: int, *, x: FloatArray, K_Z: FloatArray) -> float:
    """Return the standard deviation of the estimate for a task at context x (d,) from the task's own rows alone."""
    group, members = next(part for part in _groups(posterior) if task in part[1])
    alone = ExactPosterior(group.kernel.context, [[K_Z[task, task]]], noise=group.noise, mean=group.mean)
    rows = group.rows
    own = rows.tasks == np.searchsorted(members, task)
    if own.any():
        alone.update(np.zeros(int(own.sum()), dtype=np.int64), rows.X[own], rows.y[own], noise=rows.noise[own])
    return float(alone.predict([0], x[None]).std[0])


def _told_rows(posterior: BlockedPosterior) -> tuple[IntArray, FloatArray]:
    """Return task (n,) and context (n, d) of every row told, in no particular order."""
    parts = [(members[group.rows.tasks], group.rows.X) for group, members in _groups(posterior) if len(group)]
    if not parts:
        return np.empty(0, dtype=np.int64), np.empty((0, 0))
    return np.concatenate([tasks for tasks, _ in parts]), np.concatenate([X for _, X in parts])


def _groups(posterior: BlockedPosterior) -> Iterator[tuple[_Keeper, IntArray]]:
    """The posteriors that make up a shared one, each with the tasks that its own numbers 0, 1, ... stand for."""
    for block, members in posterior.parts():
        if not isinstance(block, _Keeper):
            raise BadInputError(
                "a sparse posterior keeps no rows to weigh", hint="ask an exact one that has learned the same log"
            )
        yield block, members


# --- What states and settings the log has seen, so that nothing is recommended far from all experience --------------
#
# A posterior answers anywhere, with its prior where it knows nothing, and a mistaken unit (per cent for a share) lands
# there. A state is familiar while each of its features lies in the range of the rows told, give or take one standard
# deviation of that feature over these rows. A feature that never varied must have its one value.
#
# A setting is known where every quantity lies in the range that was tried and every category is one that was. Most logs
# hold no random trials: a station ran two or three settings for months, and others tell all there is about the rest.

_BEYOND = 1.0  # standard deviations outside the range of the log that a feature may lie
_ROUNDING = 1e-9


@dataclass(frozen=True, eq=False)
class Seen:
    """The range of every state feature in the rows told, in the feature's own unit.

    Attributes:
        names: The p state features.
        low: Smallest value, (p,).
        high: Largest value, (p,).
        spread: Standard deviation, (p,).
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
        slack = _BEYOND * self.spread + _ROUNDING * (1.0 + np.abs(state))
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
            values, categorical = _values(self.space, name)
            if categorical:
                inside &= np.isin(values, values[ran])
            else:
                inside &= (values >= values[ran].min()) & (values <= values[ran].max())
        return inside

    def stations(self, arm: int) -> IntArray:
        """Return the tasks that ran a configuration, ascending."""
        return np.unique(self.tasks[self.arms == arm])


def _values(space: ConfigurationSpace, name: str) -> tuple[FloatArray, bool]:
    """Return the values of a knob in all configurations, (N,), and whether they are numbers of categories."""
    column, knob = space.knob(name)
    numbers = range(len(knob.values)) if knob.categorical else knob.values
    return np.array(numbers, dtype=np.float64)[space.codes[:, column]], knob.categorical


def check_step(space: ConfigurationSpace, knob: str, *, step: float) -> None:
    """Refuse a step, the furthest a knob may move, that its knob cannot have; 0 keeps a knob of any kind as it is."""
    _, found = space.knob(knob)
    if finite_number(step, name=f"the step of {knob!r}") < 0:
        raise BadInputError(f"the step of {knob!r} must not be negative, got {step:g}")
    if found.categorical and step > 0:
        raise BadInputError(f"knob {knob!r} holds categories, which have no step: 0 keeps it as it is")


def _within_steps(space: ConfigurationSpace, arm: int, steps: Mapping[str, float]) -> BoolArray:
    """Return which configurations are within reach of configuration `arm`, (N,), itself among them."""
    allowed = np.ones(len(space), dtype=np.bool_)
    for name, step in steps.items():
        values, _ = _values(space, name)  # a category has a step of 0
        allowed &= np.abs(values - values[arm]) <= step + _ROUNDING * float(np.abs(values).max())
    return allowed


# --- One station of a plan: which change would be best for it, and whether that is worth making ---------------------

_TIE = 1e-12  # a score that is better by rounding alone is not better


@dataclass(frozen=True, eq=False)
class _Desk:
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
class _Draft:
    """A change under consideration, without its attribution.

    Attributes:
        change: The change.
        task: The station's number.
        arm: The proposed configuration's number.
        x: Context of the proposed configuration, (d,).
        merit: By how much its score is the better one; plans are ordered by it.
    """

    change: Change
    task: int
    arm: int
    x: FloatArray
    merit: float


def _looked_at(desk: _Desk, station: str, present: Present) -> _Draft | LeftAlone:
    """Return the change that would be best for a station, or why it is left alone."""
    known = {knob: _python(value) for knob, value in present.configuration.items() if value is not None}
    if refusal := _refusal(desk, station, present):
        return LeftAlone(station, known, *refusal)
    arm = desk.space.index(present.configuration)
    allowed = _within_steps(desk.space, arm, desk.steps)
    if allowed.sum() == 1:
        reason = "No other configuration of the log is within the steps allowed."
        return LeftAlone(station, known, "no other choice", reason)
    if desk.beta is None:  # exploring is about what was never tried, and says so
        rows = np.isin(desk.tried.tasks, np.flatnonzero(desk.settings.K_Z[desk.settings.task(station)]))
        allowed &= desk.tried.within(rows)
        allowed[arm] = True
        if allowed.sum() == 1:
            return LeftAlone(station, known, "never tried", _never_reason(desk, np.unique(desk.tried.arms[rows])))
    draft = _best(desk, station, present, arm=arm, allowed=allowed)
    refused = _judgement(desk, draft.change, choices=int(allowed.sum()))
    return LeftAlone(station, draft.change.present, *refused) if refused else draft


def _python(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _refusal(desk: _Desk, station: str, present: Present) -> tuple[Why, str] | None:
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


def _best(desk: _Desk, station: str, present: Present, *, arm: int, allowed: BoolArray) -> _Draft:
    """Return the best change of a station; where nothing beats the present configuration, that one."""
    task, encoder = desk.settings.task(station), desk.settings.encoder
    X = encoder.contexts({name: present.state[name] for name in encoder.state.names})
    arms = np.flatnonzero(allowed)
    prediction = desk.beliefs.predict(np.full(len(arms), task), X[arms])
    score = prediction.mean + (desk.beta or 0.0) * prediction.std  # (12)
    here, best = int(np.flatnonzero(arms == arm)[0]), int(np.argmax(score))
    if score[best] <= score[here] + _TIE * max(1.0, abs(float(score[here]))):
        best = here
    x = X[arms[best]]
    change = Change(
        station,
        present=desk.space[arm],
        proposed=desk.space[int(arms[best])],
        expected=float(prediction.mean[best]),
        expected_unchanged=float(prediction.mean[here]),
        gain=gain_of(desk.beliefs, task, x, instead_of=X[arm]),
        std=float(prediction.std[best]),
        std_alone=np.nan,
        own_rows=int(desk.own_rows[task]),
        borrowed=np.nan,
        lenders=(),
        reason="",
    )
    return _Draft(change, task, int(arms[best]), x, merit=float(score[best] - score[here]))


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


def _judgement(desk: _Desk, change: Change, *, choices: int) -> tuple[Why, str] | None:
    """Return why a change is not worth making, or None if it is."""
    explore, gain = desk.beta is not None, change.gain
    if not change.moves:
        better = "is more worth trying" if explore else "is expected to earn more"
        present = f"the present {change.expected_unchanged:.4g} (standard deviation {change.std:.2g})"
        return "best already", f"None of its {choices:,} choices {better} than {present}."
    if (gain.high if explore else gain.value) < desk.least_gain:
        less = "even at best less" if explore else "less"
        return "gain too small", f"{_promise(change)}, {less} than the {desk.least_gain:g} that is worth a change."
    if not explore and gain.low <= 0:
        return "gain not certain", f"{_promise(change)}, which may be a loss."
    return None


# --- The whole plan -------------------------------------------------------------------------------------------------


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
    found: dict[str, _Draft | LeftAlone] = {}
    for station, present in stations.items():
        found[station] = _looked_at(desk, station, present)
        if tick is not None:
            tick(station)
    drafts = sorted((d for d in found.values() if isinstance(d, _Draft)), key=lambda draft: -draft.merit)
    most = len(drafts) if max_changes is None else max_changes
    for change in (draft.change for draft in drafts[most:]):
        reason = f"{_promise(change)}, but others are more worthwhile and the plan is limited to {most}."
        found[change.station] = LeftAlone(change.station, change.present, "beyond the limit", reason)
    left_alone = tuple(station for station in found.values() if isinstance(station, LeftAlone))
    return ChangePlan(tuple(desk.space.knobs), _attributed(desk, drafts[:most]), left_alone, explore)


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
    if finite_number(least_gain, name="least_gain") < 0:
        raise BadInputError(f"least_gain must not be negative, got {least_gain:g}")


def _stations(now: Mapping[str, Present] | Any, settings: Settings) -> Mapping[str, Present]:
    if settings.features is not None:
        raise BadInputError("a plan needs states and configurations: this controller is asked with context rows")
    if isinstance(now, Mapping) and now and all(isinstance(value, Present) for value in now.values()):
        return now
    return present_of(now, settings.encoder.space, state=settings.encoder.state.names)


def _desk(
    controller: Controller, *, explore: bool, beta: float | None, least_gain: float, steps: Mapping[str, float]
) -> _Desk:
    settings = controller.current
    for knob, step in steps.items():
        check_step(settings.encoder.space, knob, step=step)
    beliefs = beliefs_of(controller)
    tasks, X = _told_rows(beliefs)
    rule = settings.exploration if beta is None else Constant(beta)
    weight = rule.beta(known=len(beliefs), arms=len(settings.encoder.space), noise=settings.noise)
    return _Desk(
        settings,
        beliefs,
        Seen.of(settings.encoder.state, X),
        Tried.of(settings.encoder, tasks, X),
        own_rows=np.bincount(tasks, minlength=len(settings.stations)),
        beta=weight if explore else None,
        least_gain=float(least_gain),
        steps=steps,
    )


_NAMED = 3  # how many of the stations that contributed are named


def _attributed(desk: _Desk, drafts: Sequence[_Draft]) -> tuple[Change, ...]:
    """Return changes with whose rows they rest on, solved for all together, and their reasons."""
    if not drafts:
        return ()
    tasks, X = np.array([draft.task for draft in drafts]), np.array([draft.x for draft in drafts])
    changes = []
    for draft, row in zip(drafts, shares(desk.beliefs, tasks, X, K_Z=desk.settings.K_Z), strict=True):
        row[draft.task] = 0.0
        top = [int(m) for m in np.argsort(-row, kind="stable")[:_NAMED] if row[m] > 0]
        change = replace(
            draft.change,
            std_alone=std_alone(desk.beliefs, draft.task, x=draft.x, K_Z=desk.settings.K_Z),
            borrowed=float(row.sum()),
            lenders=tuple((desk.settings.stations[m], float(row[m])) for m in top),
        )
        reasons = (_gain_reason(change, explore=desk.beta is not None), _tried_reason(desk, draft))
        changes.append(replace(change, reason=" ".join(filter(None, [*reasons, _evidence_reason(change)]))))
    return tuple(changes)


# --- The reasons of a plan in words, for an engineer who has to approve it ------------------------------------------

NEGLIGIBLE = 0.005
"""A share below this, half a per cent, is not worth a word."""


def share_text(share: float) -> str:
    """Return a share in whole per cent."""
    return f"{100 * share:.0f} %"


def _gain_text(gain: Estimate) -> str:
    return f"a gain of {gain.value:+.3g} (95 % interval {gain.low:+.3g} to {gain.high:+.3g})"


def _promise(change: Change) -> str:
    return f"{configuration_text(change.moves, -1)} is expected to bring {_gain_text(change.gain)}"


def _gain_reason(change: Change, *, explore: bool) -> str:
    """Return why a station should change."""
    instead = f"{change.expected:.4g} instead of {change.expected_unchanged:.4g}"
    trial = "A trial, which may lose. " if explore and change.gain.low <= 0 else ""
    return f"{trial}Expected reward {instead}, {_gain_text(change.gain)}."


def _evidence_reason(change: Change) -> str:
    """Return whose experience an estimate rests on, and what it would be worth without the others."""
    own = f"its own {counted(change.own_rows, 'row')}"
    if change.borrowed < NEGLIGIBLE:
        return f"The evidence is {own} (standard deviation {change.std:.2g})."
    named = [f"{name} ({share_text(share)})" for name, share in change.lenders if share >= NEGLIGIBLE]
    most = f", most from {listed(named)}" if named else ""
    if not change.own_rows:
        return f"It has no rows of its own: all evidence is borrowed{most} (standard deviation {change.std:.2g})."
    return (
        f"{share_text(change.borrowed)} of the evidence is borrowed{most}; from {own} alone the standard deviation "
        f"would be {change.std_alone:.2g}, not {change.std:.2g}."
    )


def _tried_reason(desk: _Desk, draft: _Draft) -> str:
    """Return whose trials a change rests on, where its station never ran what is proposed; else nothing."""
    ran = desk.tried.stations(draft.arm)
    if draft.task in ran:
        return ""
    similar = int((desk.settings.K_Z[draft.task, ran] > 0).sum())
    never = f"{draft.change.station} never ran {configuration_text(draft.change.proposed, -1)}"
    others = counted(similar, "similar station") if similar else "no similar station"
    if desk.tried.within(desk.tried.tasks == draft.task)[draft.arm]:
        return f"{never}, but settings on both sides of it; {others} did."
    if similar:
        return f"{never}; this rests on {others} that did."
    return f"{never}, and {others} did: this is a guess from other settings."


def _never_reason(desk: _Desk, ran: IntArray) -> str:
    """Return why a station has nothing to change to, where all it can learn from ran these configurations."""
    if len(ran) == 1:
        return (
            "The log holds no trials: of all that this station can learn from, every row ran "
            f"{configuration_text(desk.space[int(ran[0])], -1)}, so nothing can be learned about other settings."
        )
    return "No other choice lies within what was tried by any station that it can learn from."
