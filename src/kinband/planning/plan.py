"""A change plan: what changes and why, what is left alone, and its files."""

import csv
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from math import floor, inf, isnan, log10, nan
from pathlib import Path
from statistics import fmean
from typing import Any, Literal

from kinband.errors import BadInputError
from kinband.html import table
from kinband.stats import Estimate, counted, listed
from kinband.trace.guesses import in_per_cent

# --- A plan: the stations to change with the gain expected of each, and those left alone with the reason why --------

Why = Literal[
    "not in the log",
    "silent",
    "state incomplete",
    "state unfamiliar",
    "configuration unknown",
    "frozen",
    "no other choice",
    "never tried",
    "best already",
    "gain too small",
    "gain not certain",
    "beyond the limit",
    "beside a change",
    "a floor would be broken",
]
"""Why a station is left alone, in a few words that a program can count."""


@dataclass(frozen=True)
class Support:
    """How often the log has what is proposed.

    Attributes:
        own: Rows of the station itself.
        others: Rows of other stations that it learns from.
        stations: How many of these stations there are.

    Example:
        >>> str(Support(own=40, others=900, stations=31))
        'ran here 40 times, at 31 similar stations 900 times'
    """

    own: int
    others: int
    stations: int

    def __str__(self) -> str:
        here = f"ran here {counted(self.own, 'time')}" if self.own else "never ran here"
        there = f"at {counted(self.stations, 'similar station')} {counted(self.others, 'time')}"
        return f"{here}, {there}" if self.others else here


@dataclass(frozen=True)
class Change:
    """One station to be changed.

    Gains and standard deviations are those of the expected reward f; a single measurement scatters more, by the noise.

    Attributes:
        station: Whom to change.
        present: What it runs now.
        proposed: What it should run.
        expected: Expected reward of the proposed configuration, on average over the period (or in the present state).
        expected_unchanged: Expected reward of the present one.
        gain: The difference of the two, with its 95 % interval.
        std: Standard deviation of the estimate for the proposed configuration.
        std_alone: What it would be from the station's own rows alone.
        own_rows: How many rows of the station itself were told.
        borrowed: Share of the estimate that rests on other stations' rows, 0 to 1.
        lenders: The three stations that contributed most, with their shares.
        reason: The same in words.
        by_hour: The gain in each hour of the day that the period has.
        support: How often the log has the proposed configuration.
        users: How many more users, or samples, a row of the log would then count as good, where it says of how many
            its rewards are shares; neighbours left out.
        around: What its neighbours gain by it, as much as they count, where they do: a part of the gain.
        kpis: What each KPI with a floor is expected to be, on average over the period.

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
    by_hour: Mapping[int, Estimate] = field(default_factory=dict)
    support: Support | None = None
    users: float | None = None
    around: Estimate | None = None
    kpis: Mapping[str, Estimate] = field(default_factory=dict)

    @property
    def worst_hour(self) -> tuple[int, Estimate] | None:
        """The hour of the day in which it gains least; None where hours are not known."""
        return min(self.by_hour.items(), key=lambda item: item[1].value) if self.by_hour else None

    @property
    def moves(self) -> dict[str, Any]:
        """The new values of the knobs that move."""
        return _moves(self.present, self.proposed)


def _moves(present: Mapping[str, Any], proposed: Mapping[str, Any]) -> dict[str, Any]:
    return {knob: value for knob, value in proposed.items() if value != present[knob]}


@dataclass(frozen=True)
class LeftAlone:
    """One station that stays as it is.

    Attributes:
        station: Who.
        present: What it runs now, as far as it is known.
        why: One of a few fixed phrases.
        reason: The same in a sentence.
        proposed: The change that was looked at, if there was one.
        gain: What it was expected to gain.

    Example:
        >>> LeftAlone("a", {"tilt": 2}, "best already", "Nothing is better.").why
        'best already'
    """

    station: str
    present: Mapping[str, Any]
    why: Why
    reason: str
    proposed: Mapping[str, Any] | None = None
    gain: Estimate | None = None

    @property
    def moves(self) -> dict[str, Any]:
        """The new values of the knobs that would have moved."""
        return _moves(self.present, self.proposed or {})


@dataclass(frozen=True)
class Origin:
    """Where a plan comes from, as its page says it; what is not given is left out.

    Attributes:
        made: When it was made.
        log: The file that it was learned from.
        read: What is in the log, in sentences.
        notes: What else a reader should know.
        places: How far to the east and to the north each station is.
        metres: Whether that is in metres.
        present: From where and when it is known what stations run now, in a sentence.
        ranges: The lowest and the highest value of knobs that the log has, of which a move may be a large part.
        last_rows: When the last row of each station is in the log, in words: no change of this plan can be older.

    Example:
        >>> Origin(log="export.csv", places={"a": (0.0, 500.0)}).metres
        True
    """

    made: datetime | None = None
    log: str = ""
    read: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    places: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    metres: bool = True
    present: str = ""
    ranges: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    last_rows: Mapping[str, str] = field(default_factory=dict)


_WORTH = 5  # stations that are named as those most worth a trial
HELD_BACK = "held back"
"""What a plan in waves says of changes that are drawn to stay undone, so that the proof has a control group."""


@dataclass(frozen=True)
class Waves:
    """In which order the changes of a plan are made.

    Attributes:
        number: How many waves there are.
        of: The wave of each station that the plan would change, from 1; 0 for those held back.

    Example:
        >>> waves = Waves(2, {"a": 1, "b": 2, "c": 0})
        >>> waves.sizes, waves.label("b"), waves.label("c")
        ([1, 1], '2', 'held back')
    """

    number: int
    of: Mapping[str, int]

    @property
    def sizes(self) -> list[int]:
        """How many stations change in each wave."""
        counts = Counter(self.of.values())
        return [counts[wave] for wave in range(1, self.number + 1)]

    @property
    def held_back(self) -> list[str]:
        """The stations that stay as they are, by lot."""
        return [station for station, wave in self.of.items() if not wave]

    def label(self, station: str) -> str:
        """Return the wave of a station, as files and pages say it."""
        return str(self.of[station]) if self.of[station] else HELD_BACK

    def in_words(self) -> list[str]:
        """Return who goes first, who waits, and when to stop.

        Example:
            >>> Waves(2, {"a": 1, "b": 2, "c": 0}).in_words()[0]
            'In 2 waves of 1 and 1, first those from which the others learn most; 1 held back by lot.'
        """
        back = f"; {len(self.held_back):,} held back by lot" if self.held_back else ""
        sizes = listed([f"{size:,}" for size in self.sizes])
        first = f"In {counted(self.number, 'wave')} of {sizes}"
        order = ", first those from which the others learn most" if self.number > 1 else ""
        return [
            f"{first}{order}{back}.",
            "Between waves: stop, and undo the wave, if kinband impact finds a certain loss (the 95 % interval of its "
            "mean gain below zero); else go on, best with a plan made anew from the log with the new rows.",
        ]


def mean_gain_of(gains: Sequence[Estimate]) -> Estimate:
    """Return the mean of some gains, with an interval that holds however they hang together.

    The standard deviation of a mean is never above the mean of the standard deviations, which it is where all are wrong
    in the same way. Stations learn from each other, so they may be.

    Example:
        >>> f"{mean_gain_of([Estimate(0.2, 0.1, 0.3), Estimate(0.4, 0.1, 0.7)]):.2f}"
        '0.30 (0.10 to 0.50)'
    """
    if not gains:
        return Estimate(nan)
    return Estimate(*(fmean(getattr(one, part) for one in gains) for part in ("value", "low", "high")))


def decimals_of(number: float) -> int:
    """Return how many decimals show two digits of a number.

    Example:
        >>> decimals_of(0.0123), decimals_of(-4.6), decimals_of(123.0)
        (3, 1, 0)
    """
    return max(0, 1 - floor(log10(abs(number)))) if 0 < abs(number) < inf else 3


def decimals_of_ends(gain: Estimate, decimals: int) -> int:
    """Return how many decimals, at least so many and two more at most, tell the ends of an interval from zero.

    Example:
        >>> decimals_of_ends(Estimate(0.6, -0.04, 1.3), 1), decimals_of_ends(Estimate(0.6, 0.1, 1.3), 1)
        (2, 1)
    """
    ends = [end for end in (gain.low, gain.high) if end and not isnan(end)]
    return next((d for d in (decimals, decimals + 1) if all(round(end, d) for end in ends)), decimals + 2)


def in_reward(reward: str) -> str:
    """Return in what a gain is: the reward, and of one in per cent that a difference is in points.

    Example:
        >>> in_reward("good_share"), in_reward("satisfied [%]")
        ('in good_share', 'percentage points in satisfied [%]')
    """
    return f"percentage points in {reward}" if in_per_cent(reward) else f"in {reward}"


def _said(gain: Estimate, decimals: int) -> str:
    if not gain.known:
        return f"{gain.value:+.{decimals}f}"
    spec = f"+.{decimals_of_ends(gain, decimals)}f"
    return f"{gain.value:+.{decimals}f} (95 % interval {gain.low:{spec}} to {gain.high:{spec}})"


@dataclass(frozen=True)
class ChangePlan:
    """What to change, largest gain first, and what not.

    Attributes:
        knobs: Names of the knobs.
        changes: The stations to change.
        left_alone: The others, in the order they were asked for.
        explore: Whether the plan tries what is little known, or plays safe.
        reward: What the reward is called in the log.
        period: What the plan is for, in words.
        limits: What limited it, in sentences.
        waves: In which order it is carried out; None for all at once.

    Example:
        >>> plan = ChangePlan(("tilt",), (), (LeftAlone("a", {"tilt": 2}, "best already", "Nothing is better."),))
        >>> plan.to_dict()["left_alone"][0]["why"]
        'best already'
    """

    knobs: tuple[str, ...]
    changes: tuple[Change, ...]
    left_alone: tuple[LeftAlone, ...]
    explore: bool = False
    reward: str = "reward"
    period: str = "the present state"
    limits: tuple[str, ...] = ()
    waves: Waves | None = None

    @property
    def mean_gain(self) -> float:
        """What a changed station gains on average; 0 without changes."""
        return sum(one.gain.value for one in self.changes) / len(self.changes) if self.changes else 0.0

    @property
    def gain(self) -> Estimate:
        """What a changed station gains on average, with an interval (`mean_gain_of`); nan without changes."""
        return mean_gain_of([one.gain for one in self.changes])

    @property
    def by_hour(self) -> dict[int, Estimate]:
        """The same in each hour of the day, over the stations whose period has that hour."""
        hours = sorted({hour for one in self.changes for hour in one.by_hour})
        return {
            hour: mean_gain_of([one.by_hour[hour] for one in self.changes if hour in one.by_hour]) for hour in hours
        }

    @property
    def users(self) -> float | None:
        """By how many users or samples a row of a changed station then counts more as good, on average."""
        known = [one.users for one in self.changes if one.users is not None]
        return sum(known) / len(known) if known else None

    @property
    def why_left(self) -> dict[Why, int]:
        """How many stations are left alone for which reason, the most frequent first."""
        return dict(Counter(one.why for one in self.left_alone).most_common())

    @property
    def worth_a_trial(self) -> list[LeftAlone]:
        """The few stations left alone at which a trial may bring most: their intervals hold zero and reach furthest."""
        doubted = [one for one in self.left_alone if one.why == "gain not certain" and one.gain and one.gain.known]
        return sorted(doubted, key=lambda one: -one.gain.high if one.gain else 0.0)[:_WORTH]

    @property
    def decimals(self) -> int:
        """How many decimals show two digits of a mean gain."""
        size = fmean(abs(one.gain.value) for one in self.changes) if self.changes else 0.0
        return decimals_of(size)

    def losing(self) -> str:
        """Return which changes lose in some hour of the day, the whole interval of it; empty if none does.

        Example:
            >>> ChangePlan(("tilt",), (), ()).losing()
            ''
        """
        worst = [(one.station, *one.worst_hour) for one in self.changes if one.worst_hour]
        lose = [(station, hour, gain) for station, hour, gain in worst if gain.known and gain.high < 0]
        if not lose:
            return ""
        station, hour, gain = min(lose, key=lambda one: one[2].value)
        verb = "loses" if len(lose) == 1 else "lose"
        said = f"{len(lose):,} of {len(self.changes):,} {verb} in some hour"
        return f"{said}, {station} the most: {gain.value:+.{self.decimals}f} at {hour:02d} h."

    def in_words(self) -> list[str]:
        """Return what matters in a few lines: changes and gain, the worst hour, who is left alone.

        Example:
            >>> left = LeftAlone("a", {"tilt": 2}, "best already", "Nothing is better.")
            >>> ChangePlan(("tilt",), (), (left,)).in_words()
            ['None of 1 station changes.', 'Left alone: 1 best already.']
        """
        stations = counted(len(self.changes) + len(self.left_alone), "station")
        lines = [f"None of {stations} changes."]
        if many := len(self.changes):
            verb = f"try{'' if many > 1 else 's'} something new" if self.explore else f"change{'' if many > 1 else 's'}"
            users = (
                ""
                if self.users is None
                else f"; that is {self.users:+,.{decimals_of(self.users)}f} users or samples a row of the log"
            )
            gain = f"a mean gain of {_said(self.gain, self.decimals)} {in_reward(self.reward)}"
            lines = [f"{many:,} of {stations} {verb.replace('trys', 'tries')}, for {gain}{users}."]
        if by_hour := self.by_hour:
            hour = min(by_hour, key=lambda hour: by_hour[hour].value)
            lose = f" {losing}" if (losing := self.losing()) else ""
            lines.append(f"Worst hour of the day: {hour:02d} h, with {_said(by_hour[hour], self.decimals)}.{lose}")
        if self.left_alone:
            reasons = (f"{count:,} {why}" for why, count in self.why_left.items())
            lines.append(f"Left alone: {', '.join(reasons)}.")
        return lines + (self.waves.in_words() if self.waves else [])

    def _repr_html_(self) -> str:
        rows = [
            (one.station, one.present, one.proposed, one.expected, one.gain.value, one.gain.low, one.gain.high)
            for one in self.changes
        ]
        head = ["station", "present", "proposed", "expected", "gain", "95 % from", "to"]
        caption = f"{counted(len(rows), 'change')}, {counted(len(self.left_alone), 'station')} left alone"
        return table(head, rows, caption=caption)

    def write(self, folder: str | Path, *, replace: bool = False, origin: Origin | None = None) -> list[Path]:
        """Write rollback.csv, plan.csv, left_alone.csv and plan.html, and return their paths.

        The roll-back comes first, so that there is no plan without one. A plan that may have been carried out is not
        lost by accident: a folder that holds one is refused unless `replace` is set.

        Args:
            folder: Where to; made if it is not there.
            replace: Whether a plan that is there may be replaced.
            origin: When and from what the plan was made, and where stations are, for the page.

        Example:
            >>> import tempfile
            >>> plan = ChangePlan(("tilt",), (), ())
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     [path.name for path in plan.write(folder)]
            ['rollback.csv', 'plan.csv', 'left_alone.csv', 'plan.html']
        """
        from kinband.planning.page import plan_page

        origin = origin or Origin()
        folder, page = Path(folder), plan_page(self, origin)
        check_folder(folder, replace=replace)
        folder.mkdir(parents=True, exist_ok=True)
        present, target = (prefixed(side, dict.fromkeys(self.knobs)) for side in ("present", "set"))
        write_csv(folder / "rollback.csv", ["station", *present, *target], map(_undone, self.changes))
        kpis = dict.fromkeys(column for change in self.changes for column in _further_gains(change))
        header = [
            "station",
            *present,
            *target,
            *_NUMBERS,
            *kpis,
            "lenders",
            "reason",
            "made",
            *([LAST_ROW] if origin.last_rows else []),
            *(["wave"] if self.waves else []),
        ]
        made = "" if origin.made is None else origin.made.isoformat(timespec="seconds")
        write_csv(
            folder / "plan.csv",
            header,
            (
                {**_row(one), "made": made, LAST_ROW: origin.last_rows.get(one.station, ""), **self._wave(one)}
                for one in self.changes
            ),
        )
        left = ({**vars(one), **prefixed("present", one.present)} for one in self.left_alone)
        write_csv(folder / "left_alone.csv", ["station", *present, "why", "reason"], left)
        (folder / "plan.html").write_text(page, encoding="utf-8")
        return [folder / name for name in FILES]

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as JSON-able values."""
        return {
            "explore": self.explore,
            "reward": self.reward,
            "period": self.period,
            "knobs": list(self.knobs),
            "mean_gain": self.mean_gain,
            "changes": [{**_plain(change), **self._wave(change)} for change in self.changes],
            "left_alone": [_plain_left(station) for station in self.left_alone],
            **({"waves": {"sizes": self.waves.sizes, "held_back": self.waves.held_back}} if self.waves else {}),
        }

    def _wave(self, change: Change) -> dict[str, str]:
        return {"wave": self.waves.label(change.station)} if self.waves else {}


def _plain(change: Change) -> dict[str, Any]:
    gain, lenders = change.gain, [{"station": name, "share": share} for name, share in change.lenders]
    by_hour = {str(hour): one.to_dict() for hour, one in change.by_hour.items()}
    found = asdict(change) | {"gain": gain.value, "low": gain.low, "high": gain.high, "lenders": lenders}
    around = None if change.around is None else change.around.to_dict()
    return found | {"by_hour": by_hour, "around": around, "kpis": {k: one.to_dict() for k, one in change.kpis.items()}}


def _plain_left(left: LeftAlone) -> dict[str, Any]:
    gain = left.gain
    if gain is None:
        return {"station": left.station, "present": dict(left.present), "why": left.why, "reason": left.reason}
    return asdict(left) | {"gain": gain.value, "low": gain.low, "high": gain.high}


# --- A plan on disk: CSV files that people read in a spreadsheet and scripts read to carry them out -----------------
#
# `plan.csv` and `rollback.csv` both have the columns `station`, `present_<knob>` (what should run before) and
# `set_<knob>`, so that whatever carries out the one undoes it with the other, and can compare before it does. Numbers
# are written as they are. Text that a spreadsheet would take for a formula is written with an apostrophe before it;
# text that is itself a number needs none.

FILES = ("rollback.csv", "plan.csv", "left_alone.csv", "plan.html")
_FORMULA = tuple("=+-@＝＋－＠\t\r\n")  # full-width signs are taken for the narrow ones
_NUMBER = r"\d*\.?\d+(?:[eE][+-]?\d+)?"
_INSIDE = re.compile(rf"([;,|\t\n][\s\"]*)([=@＝＋－＠]|[+-](?!{_NUMBER}\s*(?:[;,|\t\n\]}})\"]|$)))")
_SAFE_INSIDE = re.compile(r"([;,|\t\n][\s\"]*)'([=@＝＋－＠+-])")
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
    "ran_here": lambda change: change.support.own if change.support else nan,
    "ran_at_others": lambda change: change.support.others if change.support else nan,
    "worst_hour": lambda change: change.worst_hour[0] if change.worst_hour else nan,
    "gain_in_worst_hour": lambda change: change.worst_hour[1].value if change.worst_hour else nan,
}


RECEIPT = "applied.csv"
"""What was carried out of a plan, in its folder."""
LAST_ROW = "last_row"
"""The column of a plan that says until when the log goes that it was learned from, for each station."""


def check_folder(folder: Path, *, replace: bool) -> None:
    """Refuse a folder that already holds a plan, unless it may be replaced; one that was carried out never may."""
    if any(folder.glob(RECEIPT)) or any(folder.glob(f"wave-*/{RECEIPT}")):
        raise BadInputError(
            f"{folder} holds a plan that was carried out, and {RECEIPT} is needed to undo it: choose another folder"
        )
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
    So does what follows a semicolon, a comma, a bar or a tabulator, where a program takes that for what parts cells.

    Example:
        >>> safe_text("=HYPERLINK(1)"), safe_text("-98.5"), safe_text("wait\r=1+1")
        ("'=HYPERLINK(1)", '-98.5', "wait\n'=1+1")
        >>> safe_text("a;=1+1"), safe_text("1;-98.5")
        ("a;'=1+1", '1;-98.5')
    """
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    begins = text.startswith(_FORMULA) and not _is_number(text)
    return ("'" if begins else "") + _INSIDE.sub(r"\1'\2", text)


def plain_text(text: str) -> str:
    """Return a cell of a file as it was before `safe_text`.

    Example:
        >>> plain_text("'=HYPERLINK(1)"), plain_text("-98.5"), plain_text("a;'=1+1")
        ('=HYPERLINK(1)', '-98.5', 'a;=1+1')
    """
    text = text[1:] if text.startswith("'") and text[1:].startswith(_FORMULA) else text
    return _SAFE_INSIDE.sub(r"\1\2", text)


def safe_json(text: str) -> str:
    r"""Return a JSON text that says the same and that no spreadsheet takes for a formula.

    Example:
        >>> safe_json('{"stations":["a","=1+1"],"x":[1,-2]}')
        '{"stations":["a","\\u003d1+1"],"x":[1,-2]}'
    """
    return _INSIDE.sub(lambda found: f"{found[1]}\\u{ord(found[2]):04x}", text)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return text == text.strip()


def _undone(change: Change) -> dict[str, Any]:
    return {"station": change.station, **prefixed("present", change.proposed), **prefixed("set", change.present)}


def _row(change: Change) -> dict[str, Any]:
    return {
        "station": change.station,
        **prefixed("present", change.present),
        **prefixed("set", change.proposed),
        **{name: _cell(number(change)) for name, number in _NUMBERS.items()},
        **_further_gains(change),
        "lenders": "; ".join(f"{name} {share:.3f}" for name, share in change.lenders),
        "reason": change.reason,
    }


def _further_gains(change: Change) -> dict[str, float | str]:
    """What is expected of neighbours and of KPIs with floors, by column, where they count."""
    found = {f"kpi_{name}": one for name, one in change.kpis.items()}
    found |= {} if change.around is None else {"gain_of_neighbours": change.around}
    ends = {"": "value", "_low": "low", "_high": "high"}
    return {f"{name}{end}": _cell(getattr(one, of)) for name, one in found.items() for end, of in ends.items()}


def _cell(value: float) -> float | str:
    """A number, or nothing where it is not known."""
    return "" if isnan(value) else rounded(value)


def prefixed(side: str, configuration: Mapping[str, Any]) -> dict[str, Any]:
    """Return a configuration as columns of a plan, `set_<knob>` and the like."""
    return {f"{side}_{knob}": value for knob, value in configuration.items()}


def rounded(value: float) -> float:
    """Six significant digits: more would be noise to read."""
    return value if isinstance(value, int) else float(f"{value:.6g}")


def write_csv(path: Path, header: list[str], rows: Iterable[dict[str, Any]]) -> None:
    """Write rows under a header; text that a spreadsheet would take for a formula is made harmless."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, header, extrasaction="ignore", lineterminator="\n")
        writer.writeheader()
        for row in rows:
            writer.writerow({name: safe_text(v) if isinstance(v, str) else v for name, v in row.items()})
