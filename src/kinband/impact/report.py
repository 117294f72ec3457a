"""What changes brought: every change of a log judged, their mean, and what could not be judged and why."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

import numpy as np

from kinband.arrays import BoolArray, FloatArray, IntArray
from kinband.errors import BadInputError
from kinband.impact.changes import Change, Order
from kinband.impact.panel import Panel
from kinband.judging import (
    KNOWN,
    LEAST_AFTER,
    LEAST_BEFORE,
    LEAST_CONTROLS,
    Comparison,
    Verdict,
    mean_verdict,
    nearest,
)
from kinband.planning.plan import in_reward, rounded, write_csv
from kinband.similarity import TaskMatrix
from kinband.stats import Estimate, counted, share_of

MOST_BEFORE = 1000
"""Slots before a change that controls are found from, at most."""
CANDIDATES = 2000
"""Stations that are looked at as controls of a change, at most; of more, so many at even distances."""

Why = Literal["not in the log", "never seen", "too little before", "too little after", "no controls", "nothing varies"]
"""Why nothing is said of a change, in a few words that a program can count."""
UNSEEN = frozenset({"not in the log", "never seen"})
"""Of these, why a change was ordered and cannot be found."""


@dataclass(frozen=True, eq=False)
class Judged:
    """One change and what it brought.

    Attributes:
        station: Who.
        when: From when on.
        present: What it ran before.
        set: What it ran then.
        verdicts: What it brought, by column, the reward first.
        controls: What the reward was compared with, and with which weight, the heaviest first.
        before: Slots before, of the reward.
        after: Slots after.
        change: Where it is in the panel.
        weights: Of all stations, by column, (N,).
        window: The first slot after the change, and the first that does not count any more.
        curve: Slot from the change on, what was earned and what would have been, (t, 3), of the reward.
    """

    station: str
    when: str
    present: Mapping[str, Any]
    set: Mapping[str, Any]
    verdicts: Mapping[str, Verdict]
    controls: tuple[tuple[str, float], ...]
    before: int
    after: int
    change: Change
    weights: Mapping[str, FloatArray]
    window: tuple[int, int]
    curve: FloatArray

    @property
    def moves(self) -> dict[str, tuple[Any, Any]]:
        """The knobs that moved, each with what it was and what it was then."""
        return {knob: (value, self.set[knob]) for knob, value in self.present.items() if self.set[knob] != value}


@dataclass(frozen=True)
class Unjudged:
    """A change of which nothing can be said.

    Attributes:
        station: Who.
        when: From when on; empty where it is not known.
        why: One of a few fixed phrases.
        reason: The same in a sentence.
        rolled_back: Whether it was undone.
    """

    station: str
    when: str
    why: Why
    reason: str
    rolled_back: bool = False


@dataclass(frozen=True, eq=False)
class Impact:
    """What the changes of a log brought.

    Attributes:
        judged: Changes of which something can be said, in the order in which they were made.
        unjudged: The others.
        columns: What was judged, the reward first.
        per_day: Slots of a day; 0 where slots have no dates.
        period: What was looked at, in words.
    """

    judged: tuple[Judged, ...]
    unjudged: tuple[Unjudged, ...]
    columns: tuple[str, ...]
    per_day: int = 0
    period: str = ""
    gains: Mapping[str, Estimate] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "gains", {name: self._mean(name) for name in self.columns})

    def _mean(self, column: str) -> Estimate:
        known = [one for one in self.judged if column in one.verdicts]
        if not known:
            return Estimate(math.nan)
        weights = np.array([one.weights[column] for one in known])
        windows = np.array([one.window for one in known], dtype=np.float64)
        return mean_verdict([one.verdicts[column] for one in known], weights, windows)

    @property
    def reward(self) -> str:
        """The first column that was judged."""
        return self.columns[0]

    @property
    def gain(self) -> Estimate:
        """What a judged change brought in the reward, on average."""
        return self.gains[self.reward]

    @property
    def goes_on(self) -> bool:
        """Whether a roll-out in waves goes on: unless the judged changes lost for certain, on average."""
        return self.gain.side(0.0) >= 0

    @property
    def sides(self) -> dict[int, int]:
        """How many changes gained for certain (1), cannot be told (0), lost for certain (-1)."""
        sides = [one.verdicts[self.reward].gain.side(0.0) for one in self.judged]
        return {side: sides.count(side) for side in (1, 0, -1)}

    @property
    def predicted(self) -> list[Judged]:
        """The judged changes whose gain a plan had expected."""
        return [one for one in self.judged if one.change.expected is not None]

    @property
    def signs(self) -> Estimate:
        """How often the sign of the measured gain is the expected one."""
        return share_of(sum(map(self._right, self.predicted)), len(self.predicted))

    @property
    def certain_signs(self) -> tuple[int, int]:
        """Of the expected gains whose measured sign is certain: how many are right, and how many there are."""
        sure = [one for one in self.predicted if one.verdicts[self.reward].gain.side(0.0)]
        return sum(map(self._right, sure)), len(sure)

    def _right(self, one: Judged) -> bool:
        expected = one.change.expected
        return expected is not None and expected.value * one.verdicts[self.reward].gain.value > 0

    @property
    def rolled_back(self) -> list[str]:
        """The stations whose change was undone."""
        gone = [one.station for one in self.judged if one.change.rolled_back]
        return [*gone, *(one.station for one in self.unjudged if one.rolled_back)]

    def in_words(self) -> list[str]:
        """Return what matters in a few lines."""
        made, judged = len(self.judged) + len(self.unjudged), len(self.judged)
        spec = f"+.{self.gain.decimals(3)}f"
        gain = self.gain
        ends = f"95 % interval {gain.low:{spec}} to {gain.high:{spec}}"
        told = {1: "The changes helped", 0: "It cannot be told whether the changes helped", -1: "The changes harmed"}
        sides = self.sides
        lines = [
            f"{told[gain.side(0.0)]}: {gain.value:{spec}} {in_reward(self.reward)} on average ({ends}), "
            f"{counted(judged, 'change')} of {made:,} judged.",
            f"One by one: {sides[1]:,} gained for certain, {sides[-1]:,} lost, {sides[0]:,} cannot be told.",
        ]
        if self.predicted:
            right, sure = self.certain_signs
            share = self.signs
            lines.append(
                f"The predicted sign was right in {share.value:.0%} of {counted(len(self.predicted), 'change')} "
                f"({share.low:.0%} to {share.high:.0%}); where the measured one is certain, in {right:,} of {sure:,}."
            )
        if self.rolled_back:
            lines.append(f"Rolled back: {counted(len(self.rolled_back), 'change')}.")
        return lines

    def to_dict(self) -> dict[str, Any]:
        """Return everything as JSON-able values."""
        right, sure = self.certain_signs
        return {
            "period": self.period,
            "columns": list(self.columns),
            "gains": {name: gain.to_dict() for name, gain in self.gains.items()},
            "changes": [_plain(one) for one in self.judged],
            "unjudged": [vars(one) for one in self.unjudged],
            "predicted": len(self.predicted),
            "predicted_sign_right": self.signs.to_dict(),
            "certain_signs": {"right": right, "of": sure},
            "rolled_back": self.rolled_back,
        }

    def write(
        self, folder: Path, *, origin: str = "", notes: Sequence[str] = (), made_at: datetime | None = None
    ) -> list[Path]:
        """Write impact.html and impact.csv, and return their paths."""
        from kinband.impact.page import impact_page

        page, rows = folder / "impact.html", folder / "impact.csv"
        made = [_row(self, one) for one in self.judged]
        left = [{"station": one.station, "since": one.when, "why": one.reason} for one in self.unjudged]
        header = dict.fromkeys(name for row in [*made, *left] for name in row)
        write_csv(rows, list(header), [*made, *left])
        page.write_text(impact_page(self, origin=origin, notes=notes, made=made_at), encoding="utf-8")
        return [page, rows]


def _plain(one: Judged) -> dict[str, Any]:
    expected = one.change.expected
    return {
        "station": one.station,
        "since": one.when,
        "present": dict(one.present),
        "set": dict(one.set),
        "gains": {name: verdict.gain.to_dict() for name, verdict in one.verdicts.items()},
        "earned": {name: verdict.earned for name, verdict in one.verdicts.items()},
        "otherwise": {name: verdict.otherwise for name, verdict in one.verdicts.items()},
        "expected_gain": None if expected is None else expected.to_dict(),
        "slots_before": one.before,
        "slots_after": one.after,
        "controls": [{"station": name, "weight": weight} for name, weight in one.controls],
        "rolled_back": one.change.rolled_back,
    }


def _row(impact: Impact, one: Judged) -> dict[str, Any]:
    found: dict[str, Any] = {"station": one.station, "since": one.when}
    for name, verdict in one.verdicts.items():
        ends = {"gain": verdict.gain.value, "low": verdict.gain.low, "high": verdict.gain.high}
        ends |= {"earned": verdict.earned, "otherwise": verdict.otherwise}
        found |= {part if name == impact.reward else f"{name}_{part}": rounded(value) for part, value in ends.items()}
    expected = one.change.expected
    found |= {"expected_gain": "" if expected is None else rounded(expected.value)}
    found |= {"slots_before": one.before, "slots_after": one.after, "rolled_back": one.change.rolled_back}
    return found | {"controls": "; ".join(f"{name} {weight:.3f}" for name, weight in one.controls)}


# --- Judging ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Windows:
    """How many slots before and after a change count, at most."""

    before: int = 336
    after: int = 672


def judge_changes(
    panel: Panel,
    changes: Sequence[Change],
    *,
    windows: Windows | None = None,
    alike: TaskMatrix | None = None,
    neighbours: Mapping[str, Sequence[str]] | None = None,
    missing: Sequence[tuple[Order, str]] = (),
    per_day: int = 0,
    period: str = "",
    tick: Callable[[], object] = lambda: None,
) -> Impact:
    """Judge every change against stations that did not change in the same slots.

    Args:
        panel: The log.
        changes: What changed.
        windows: How much of the log before and after counts.
        alike: How alike stations are; weight goes to those alike.
        neighbours: Whose rewards a station's change may touch: they are no controls of it.
        missing: Orders that the log does not show, each with why.
        per_day: Slots of a day, for charts.
        period: What is looked at, in words.
        tick: Called after every change.

    Example:
        >>> from kinband import Trace
        >>> from kinband.impact import found_changes
        >>> rng, hours = np.random.default_rng(1), 72
        >>> log = {"station": np.tile([f"s{n}" for n in range(12)], hours), "time": np.repeat(np.arange(hours), 12)}
        >>> log["tilt"] = np.where((log["station"] == "s3") & (log["time"] >= 48), 4, 2)
        >>> log["reward"] = 0.8 + np.sin(log["time"] / 4) / 9 + 0.02 * rng.normal(size=864) - 0.02 * (log["tilt"] - 2)
        >>> panel = Panel.of(Trace.from_frame(log, {"configuration": ["tilt"]}))
        >>> impact = judge_changes(panel, found_changes(panel))
        >>> impact.judged[0].station, impact.sides[-1]  # one loses for certain
        ('s3', 1)
    """
    judged, unjudged = list[Judged](), [_missing(order, why) for order, why in missing]
    for change in changes:
        found = _judged(panel, change, windows or Windows(), alike, _near(panel, change, neighbours))
        judged.append(found) if isinstance(found, Judged) else unjudged.append(found)
        tick()
    return Impact(tuple(judged), tuple(unjudged), tuple(panel.values), per_day=per_day, period=period)


def _near(panel: Panel, change: Change, neighbours: Mapping[str, Sequence[str]] | None) -> BoolArray:
    near = {panel.stations[change.station], *(neighbours or {}).get(panel.stations[change.station], ())}
    return np.array([name in near for name in panel.stations])


def _missing(order: Order, why: str) -> Unjudged:
    sets = ", ".join(f"{knob} {value}" for knob, value in order.set.items())
    since = "" if order.since is None else f" after {order.since}, up to where its plan knew the log,"
    reasons = {
        "not in the log": "The log has no rows of this station.",
        "never seen": f"The log has no row{since} in which this station begins to run {sets or 'anything else'}.",
    }
    return Unjudged(order.station, "", why, reasons[why], rolled_back=order.undone)  # type: ignore[arg-type]


def _judged(
    panel: Panel, change: Change, windows: Windows, alike: TaskMatrix | None, near: BoolArray
) -> Judged | Unjudged:
    """Judge one change over windows that are halved until there are enough controls."""
    kept: Unjudged | None = None
    before, after = min(windows.before, MOST_BEFORE), windows.after
    while True:
        scope = _Scope(panel, change, before, after)
        slots = scope.slots(panel.values[scope.reward])
        if why := _lacking(slots):
            return kept or scope.unjudged(*why)
        controls = _controls(panel, slots, near)
        if len(controls) >= LEAST_CONTROLS:
            return _verdicts(scope, controls, alike)
        kept = scope.unjudged("no controls", _nobody(panel, slots, len(controls)))
        if (before, after) == (LEAST_BEFORE, LEAST_AFTER):
            return kept
        before, after = max(before // 2, LEAST_BEFORE), max(after // 2, LEAST_AFTER)


Slots = tuple[IntArray, IntArray]
"""The slots before and after a change that count, (B,) and (A,)."""


@dataclass(frozen=True, eq=False)
class _Scope:
    """One change, and how much before and after it is looked at."""

    panel: Panel
    change: Change
    before: int
    after: int

    @property
    def reward(self) -> str:
        return next(iter(self.panel.values))

    @property
    def named(self) -> tuple[str, str]:
        return self.panel.stations[self.change.station], self.panel.when(self.change.slot)

    def slots(self, table: FloatArray) -> Slots:
        """The slots in which the station has a value."""
        at = self.change
        first, last = max(at.begins, at.slot - self.before), min(at.ends, at.slot + self.after)
        known = np.flatnonzero(np.isfinite(table[first:last, at.station])) + first
        return known[known < at.slot], known[known >= at.slot]

    def unjudged(self, why: Why, reason: str) -> Unjudged:
        return Unjudged(*self.named, why, reason, self.change.rolled_back)


def _lacking(slots: Slots) -> tuple[Why, str] | None:
    """What there is too little of."""
    before, after = map(len, slots)
    if before < LEAST_BEFORE:
        ran = f"It ran what it had before in {counted(before, 'slot')} of the log only"
        return "too little before", f"{ran}; it takes {LEAST_BEFORE}."
    if after < LEAST_AFTER:
        return "too little after", f"The log has {counted(after, 'slot')} after the change; it takes {LEAST_AFTER}."
    return None


def _ends(slots: Slots) -> tuple[int, int]:
    return int(slots[0][0]), int(slots[1][-1]) + 1


def _controls(panel: Panel, slots: Slots, near: BoolArray) -> IntArray:
    """The stations that did not change in these slots, have most of them, and are no neighbours."""
    fit = panel.unchanged(*_ends(slots)) & ~near
    reward = next(iter(panel.values.values()))
    for part in slots:
        fit &= np.isfinite(reward[part]).mean(axis=0) >= KNOWN
    found = np.flatnonzero(fit)
    return found[:: max(1, -(-len(found) // CANDIDATES))]


def _nobody(panel: Panel, slots: Slots, count: int) -> str:
    still = int(panel.unchanged(*_ends(slots)).sum())
    around = f"between {panel.when(_ends(slots)[0])} and {panel.when(_ends(slots)[1] - 1)}"
    if not still:
        return f"All {len(panel.stations):,} stations changed {around}, so that none is left to compare with."
    fit = "" if count == still else f", {count:,} of them with enough rows and no neighbours"
    return f"Only {counted(still, 'station')} did not change {around}{fit}; it takes {LEAST_CONTROLS} to compare with."


@dataclass(frozen=True, eq=False)
class _Column:
    """What a change did to one column."""

    verdict: Verdict
    weights: FloatArray
    slots: Slots
    curve: FloatArray


def _verdicts(scope: _Scope, controls: IntArray, alike: TaskMatrix | None) -> Judged | Unjudged:
    panel, change = scope.panel, scope.change
    tried = {name: _column(scope, table, controls, alike) for name, table in panel.values.items()}
    found = {name: one for name, one in tried.items() if one is not None}
    if scope.reward not in found:
        return scope.unjudged("nothing varies", "Most stations to compare with never vary: nobody knows what is usual.")
    reward, ran = found[scope.reward], panel.runs[: change.slot, change.station]
    heaviest = np.argsort(-reward.weights, kind="stable")[:5]
    return Judged(
        *scope.named,
        present=panel.configurations[int(ran[ran >= 0][-1])],
        set=panel.configurations[int(panel.runs[change.slot, change.station])],
        verdicts={name: one.verdict for name, one in found.items()},
        controls=tuple((panel.stations[j], float(reward.weights[j])) for j in heaviest if reward.weights[j] >= 0.005),
        before=len(reward.slots[0]),
        after=len(reward.slots[1]),
        change=change,
        weights={name: one.weights for name, one in found.items()},
        window=(change.slot, _ends(reward.slots)[1]),
        curve=reward.curve,
    )


def _column(scope: _Scope, table: FloatArray, controls: IntArray, alike: TaskMatrix | None) -> _Column | None:
    """Judge a column; None where nothing can be said of it."""
    slots, station = scope.slots(table), scope.change.station
    theirs = controls
    for part in slots:
        theirs = theirs[np.isfinite(table[np.ix_(part, theirs)]).mean(axis=0) >= KNOWN] if len(part) else theirs[:0]
    if _lacking(slots) or len(theirs) < LEAST_CONTROLS:
        return None
    before, after = (table[part, station] for part in slots)
    chosen = theirs[nearest(before, table[np.ix_(slots[0], theirs)])]
    related = None if alike is None else _related(scope.panel, alike, [station, *chosen.tolist()])
    try:
        found = Comparison.of(before, table[np.ix_(slots[0], chosen)], alike=related)
    except BadInputError:
        return None
    verdict = found.judged(after, table[np.ix_(slots[1], chosen)])
    weights = np.zeros(len(scope.panel.stations))
    weights[chosen] = found.weights[0]
    every = np.concatenate(slots)
    own = table[every, station]
    rest = found.differences(own, table[np.ix_(every, chosen)])[:, 0]
    return _Column(verdict, weights, slots, np.column_stack([every - scope.change.slot, own, own - rest]))


def _related(panel: Panel, alike: TaskMatrix, units: Sequence[int]) -> FloatArray:
    """Similarity of some stations, (k, k); 0 with those that the matrix does not have."""
    known = {name: place for place, name in enumerate(alike.stations)}
    places = np.array([known.get(panel.stations[unit], -1) for unit in units])
    found, there = alike.correlation()[np.ix_(places, places)], places >= 0
    return np.asarray(np.where(there[:, None] & there, found, np.eye(len(units))))
