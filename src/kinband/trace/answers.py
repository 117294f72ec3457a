"""What a log can answer, and which of its columns give the answer away.

Every command on a log asks one of four questions. Two need trials at the stations themselves: a station that ran one
setting says nothing about another, whatever is made of its rows, and a number would come out all the same. So the log
is looked at first, in one pass over its rows, and what it cannot answer is said before any work is done.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from shlex import quote
from typing import Any, Literal

import numpy as np

from kinband.arrays import FloatArray, IntArray
from kinband.errors import BadInputError
from kinband.stats import counted, listed
from kinband.trace.problems import MANY
from kinband.trace.table import Trace, station_numbers

FEW = 20
"""With fewer rows than this, whom a station resembles is a guess."""

_SHOWN = 8  # names in a list

Question = Literal["similarity", "compare", "evaluate", "recommend"]
Verdict = Literal["yes", "partly", "no"]

QUESTIONS: dict[Question, str] = {
    "similarity": "who is like whom",
    "compare": "whether sharing would have helped",
    "evaluate": "what another policy would have earned",
    "recommend": "what to set",
}
"""What is asked of a log, by the command that asks it."""

# --- What is in a log -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Answer:
    """Whether a log can answer a question, and why.

    Example:
        >>> Answer("compare", "no", "every station ran one setting only").verdict
        'no'
    """

    question: Question
    verdict: Verdict
    reason: str


@dataclass(frozen=True)
class LogQuestions:
    """What a log holds, and what it can answer.

    Attributes:
        stations: How many stations.
        rows: How many rows.
        rows_used: How many of them a command learns from.
        rows_per_station: Fewest, median and most.
        period: First and last time as text; None without a time.
        hours: How many hours of the day occur; None where times are no dates.
        configurations: How many different ones ran.
        tried: How many of them a station ran: fewest, median and most.
        evenly: As how many configurations in equal shares they count, exp(entropy), median over stations.
        one_setting: Stations that ran a single configuration.
        few_rows: Stations of which fewer rows than `FEW` are used.
        state: Names of the state features.
        knobs: Names of the knobs.
        most_used: Most rows that are used of a station.
        answers: The questions, each with a verdict and a reason.

    Example:
        >>> log = {"station": ["a", "a", "b", "b"], "tilt": [2, 4, 2, 2], "reward": [0.8, 0.9, 0.7, 0.6]}
        >>> found = log_questions(Trace.from_frame(log, {"configuration": ["tilt"]}))
        >>> found.configurations, found.tried, found.one_setting
        (2, (1, 1.5, 2), ('b',))
        >>> found.answer("compare").verdict
        'partly'
    """

    stations: int
    rows: int
    rows_used: int
    rows_per_station: tuple[int, float, int]
    period: tuple[str, str] | None
    hours: int | None
    configurations: int
    tried: tuple[int, float, int]
    evenly: float
    one_setting: tuple[str, ...]
    few_rows: tuple[str, ...]
    state: tuple[str, ...]
    knobs: tuple[str, ...]
    most_used: int
    answers: tuple[Answer, ...] = ()

    def answer(self, question: Question) -> Answer:
        """Return what is said of one question."""
        return next(one for one in self.answers if one.question == question)

    def check(self, question: Question) -> None:
        """Refuse a question that the log cannot answer."""
        if (found := self.answer(question)).verdict == "no":
            raise BadInputError(
                f"this log cannot tell {QUESTIONS[question]}: {found.reason}",
                hint="plan a few trials with `kinband design`, and come back with their rows",
                code="no_trials",
                argument="configuration",
            )

    def in_words(self) -> list[str]:
        """Return the log in three to five lines: what was read, what was tried, and what it can tell."""
        doubts: dict[tuple[str, str], list[str]] = {}
        for one in self.answers:
            if one.verdict != "yes":
                doubts.setdefault((one.verdict, one.reason), []).append(QUESTIONS[one.question])
        said = [
            f"{'cannot tell' if verdict == 'no' else 'tells in part'} {listed(names)}: {reason}"
            for (verdict, reason), names in doubts.items()
        ]
        return [self._read(), self._tried(), *(said or [f"tells {listed(list(QUESTIONS.values()))}"])]

    def _read(self) -> str:
        rows = f"{counted(self.rows, 'row')} of {counted(self.stations, 'station')}"
        if self.rows_used < self.rows:
            most = f"at most {self.most_used:,} a station (--rows takes more or fewer)"
            rows = f"{self.rows_used:,} of {rows}, drawn at random, {most}"
        state = some_of(self.state) if len(self.state) > MANY else ", ".join(self.state)
        return f"log: {rows}; state: {state or 'none'}; knobs: {', '.join(self.knobs)}"

    def _tried(self) -> str:
        low, middle, high = self.tried
        each = f"{low}" if low == high else f"{low} to {high}, {middle:g} at the median,"
        evenly = f" (as if {self.evenly:.1f} in equal shares)" if high > 1 else ""
        time = "" if self.period is None else f"; time: {self.period[0]} to {self.period[1]}"
        hours = "" if self.hours is None else f", {counted(self.hours, 'hour')} of the day"
        return f"tried: {counted(self.configurations, 'setting')} in all, {each} a station{evenly}{time}{hours}"

    def to_dict(self) -> dict[str, Any]:
        """Return the same in JSON's types."""
        plain = asdict(self)
        for name in ("rows_per_station", "tried"):
            plain[name] = dict(zip(("fewest", "median", "most"), plain[name], strict=True))
        plain["answers"] = {one.question: {"verdict": one.verdict, "reason": one.reason} for one in self.answers}
        return plain


def log_questions(trace: Trace, used: Trace | None = None) -> LogQuestions:
    """Return what a log holds and can answer, from one pass over its rows.

    Args:
        trace: The log.
        used: The rows of it that are learned from; all if not given.

    Example:
        >>> log = {"station": ["a", "a", "b", "b"], "tilt": [2, 2, 4, 4], "reward": [0.8, 0.9, 0.7, 0.6]}
        >>> for line in log_questions(Trace.from_frame(log, {"configuration": ["tilt"]})).in_words():
        ...     print(line)
        log: 4 rows of 2 stations; state: none; knobs: tilt
        tried: 2 settings in all, 1 a station
        tells in part who is like whom: fewer than 20 rows, so that similarity is a guess: a, b
        cannot tell whether sharing would have helped and what another policy would have earned: every station ...
        cannot tell what to set: no station ran two settings, so that what looks like their difference may be ...
    """
    used = trace if used is None else used
    station, arm = station_numbers(trace), _arms(trace)
    rows, settings = np.bincount(station), int(arm.max()) + 1
    pair, count = np.unique(station * settings + arm, return_counts=True)
    who = pair // settings
    share = count / rows[who]
    tried = np.bincount(who)
    each = np.bincount(station_numbers(used)) if used is not trace else rows
    found = LogQuestions(
        len(rows), len(trace), len(used), _middle(rows), *_times(trace), settings, _middle(tried),
        evenly=float(np.median(np.exp(-np.bincount(who, weights=share * np.log(share))))),
        one_setting=_named(trace.stations, tried == 1), few_rows=_named(used.stations, each < FEW),
        state=trace.state_names, knobs=tuple(trace.configuration), most_used=int(each.max()),
    )  # fmt: skip
    return replace(found, answers=(_similarity(found), *_by_trials(found), _recommend(found)))


def some_of(names: Sequence[str]) -> str:
    """Return the first of many names, and how many more there are."""
    more = f" and {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more


def _arms(trace: Trace) -> IntArray:
    """Number the configurations that ran, (n,)."""
    code = np.zeros(len(trace), dtype=np.int64)
    for values in trace.configuration.values():
        known, numbers = np.unique(values, return_inverse=True)
        code = np.unique(code * len(known) + numbers, return_inverse=True)[1]
    return code


def _middle(counts: IntArray) -> tuple[int, float, int]:
    return int(counts.min()), float(np.median(counts)), int(counts.max())


def _named(stations: Sequence[str], which: Any) -> tuple[str, ...]:
    return tuple(stations[number] for number in np.flatnonzero(which).tolist())


def _times(trace: Trace) -> tuple[tuple[str, str] | None, int | None]:
    """Return first and last time as text, and how many hours of the day there are."""
    if trace.time is None:
        return None, None
    ends = trace.time.min(), trace.time.max()
    if trace.time.dtype.kind != "M":
        return (f"{ends[0]:g}", f"{ends[1]:g}"), None
    hours = np.unique(trace.time.astype("datetime64[h]").astype(np.int64) % 24)
    first, last = (str(end.astype("datetime64[m]")).replace("T", " ") for end in ends)
    return (first, last), len(hours)


# --- What can be answered ---------------------------------------------------------------------------------------------


def _similarity(found: LogQuestions) -> Answer:
    if found.stations < 2:
        return Answer("similarity", "no", "it holds one station")
    if found.few_rows:
        reason = f"fewer than {FEW} rows, so that similarity is a guess: {some_of(found.few_rows)}"
        return Answer("similarity", "partly", reason)
    if found.tried[2] == 1:
        return Answer("similarity", "partly", "no station ran two settings, so not by how they answer to settings")
    return Answer("similarity", "yes", "every station has rows enough")


def _by_trials(found: LogQuestions) -> tuple[Answer, Answer]:
    """Return the answers that rest on stations that ran several settings."""
    alone, verdict = len(found.one_setting), "yes"
    reason = "every station ran several settings"
    if found.tried[2] == 1:
        verdict, reason = "no", "every station ran one setting only, and what others would have earned is not in it"
    elif alone:
        verdict, reason = "partly", f"{alone:,} of {counted(found.stations, 'station')} ran one setting only"
    made: Any = verdict
    return Answer("compare", made, reason), Answer("evaluate", made, reason)


def _recommend(found: LogQuestions) -> Answer:
    if found.configurations == 1:
        return Answer("recommend", "no", "every row ran the same setting")
    if found.tried[2] == 1:
        reason = "no station ran two settings, so that what looks like their difference may be one between stations"
        return Answer("recommend", "no", reason)
    if alone := len(found.one_setting):
        own = counted(found.stations - alone, "station")
        return Answer("recommend", "partly", f"{own} by trials of their own, {alone:,} by trials of others only")
    return Answer("recommend", "yes", "every station has trials of its own")


# --- State columns that are known only after the setting was chosen ------------------------------------------------
#
# Numeric columns that nobody mapped become state. One that was measured in the same slot as the reward, such as the
# throughput that the reward is made of, is then taken for something known beforehand: all other columns seem to matter
# little, knobs among them, and whatever is concluded is surely wrong. Two things give it away: it nearly is the reward,
# or it depends on the setting. Where the setting was chosen by the state, the second looks the same from the rows of a
# slot, and leaving such a state out would do as much harm. But a state lasts: then its value of the row before, or the
# hour of the day, tells the setting too, which it does not where settings were tried without looking.
#
# All is looked at within stations, since stations differ in everything. The correlation is taken over what is left
# of state and reward within a station, and must hold within its settings too; and settings must not matter beside the
# column, as they do beside a load that most of the reward hangs on. The share of a state's variance within stations
# that settings explain, R², is held against chance by the F-test and counted as the adjusted R², which is 0 on
# average where there is nothing to explain. A state of the slot before depends on the setting of then, which often
# still runs: where times are known, only rows right after a change are looked at.

CLOSE = 0.95
"""Correlation with the reward, up or down, above which a column is suspected."""
EXPLAINED = 0.3
"""Share of a variance that settings explain, adjusted, above which they matter."""

_CHANCE = 1e-4  # of a false alarm, for all columns together
_FEW_FREE = 15  # degrees of freedom below which nothing is said
_ROUNDING = 1e-12


@dataclass(frozen=True)
class Leak:
    """A state column that seems to be measured after the setting was chosen.

    Attributes:
        name: The column.
        why: What gives it away.
        chosen: Whether the setting may have been chosen by it instead, as it can be told from what was before.
    """

    name: str
    why: str
    chosen: bool = False

    def __str__(self) -> str:
        return (
            f"state column {self.name!r} {self.why}: a state must be known before the setting is chosen; if this one "
            "was measured in the same slot, leave it out (columns={'ignore': ...}; on the command line, "
            f"--ignore {quote(self.name)})"
        )


def without_leaks(trace: Trace) -> tuple[Trace, list[str]]:
    """Return a log without the states that surely are measured too late, and a sentence for each that is left out.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> log = {"station": ["a", "b"] * 50, "tilt": rng.integers(0, 4, 100), "load": rng.random(100)}
        >>> log["reward"] = 0.1 * log["tilt"] - log["load"] + 0.3 * rng.normal(size=100)
        >>> log["rate"] = 5 * log["reward"] + 0.1 * rng.normal(size=100)
        >>> trace, [sentence] = without_leaks(Trace.from_frame(log, {"configuration": ["tilt"]}))
        >>> trace.state_names, sentence.partition(":")[0]
        (('load',), "column 'rate' is left out of the state")
    """
    leaks = {leak.name: leak for leak in suspicious_states(trace) if not leak.chosen}
    kept = [i for i, name in enumerate(trace.state_names) if name not in leaks]
    states = tuple(trace.state_names[i] for i in kept)
    said = [
        f"column {name!r} is left out of the state: it {leak.why}, so it seems to be measured after the setting was "
        f"chosen; to keep it, name the states, it among them ({_as_options([*states[:_SHOWN], name])})"
        for name, leak in leaks.items()
    ]
    return (replace(trace, state=trace.state[:, kept], state_names=states) if leaks else trace), said


def _as_options(states: Sequence[str]) -> str:
    return " ".join(f"--state {quote(name)}" for name in states)


def suspicious_states(trace: Trace) -> list[Leak]:
    """Return the state columns that seem to be measured after the setting was chosen.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> log = {"station": ["a", "b"] * 50, "tilt": rng.integers(0, 4, 100), "load": rng.random(100)}
        >>> log["reward"] = 0.1 * log["tilt"] - log["load"] + 0.3 * rng.normal(size=100)
        >>> log["rate"] = 5 * log["reward"] + 0.1 * rng.normal(size=100)
        >>> suspicious_states(Trace.from_frame(log, {"configuration": ["tilt"]}))
        [Leak(name='rate', why='is almost the same as the reward (correlation 0.999 within stations)', chosen=False)]
    """
    station, arm = station_numbers(trace), _arms(trace)
    cell = _pairs(station, arm)
    n = len(trace)
    if n - len(trace.stations) < _FEW_FREE:
        return []
    inside = int(cell.max()) + 1 <= n - _FEW_FREE
    reward = _rest(trace.reward, station), _rest(trace.reward, cell if inside else station)
    before, fresh = _just_changed(trace, station, arm)
    found, chance = list[Leak](), _CHANCE / max(1, len(trace.state_names))
    for name, s in zip(trace.state_names, trace.state.T, strict=True):
        rest = _rest(s, station), _rest(s, cell if inside else station)
        if not _varies(s, rest[0]):
            continue
        close, within = (_correlation(a, b) for a, b in zip(rest, reward, strict=True))
        if min(abs(close), abs(within)) > CLOSE and close * within > 0 and _varies(trace.reward, reward[0]):
            left = reward[0] - rest[0] * float(rest[1] @ reward[1]) / float(rest[1] @ rest[1])
            if not _varies(trace.reward, left) or _explained(left, station, cell, chance=chance) <= EXPLAINED:
                found.append(Leak(name, f"is almost the same as the reward (correlation {close:.3f} within stations)"))
                continue
        share = _explained(s[fresh], station[fresh], cell[fresh], chance=chance)
        if share > EXPLAINED:
            chosen = _foreseen(trace, s, arm, before=before, fresh=fresh)
            found.append(
                Leak(name, f"depends on the setting, which explains {share:.0%} of it within stations", chosen)
            )
    return found


def _pairs(a: IntArray, b: IntArray) -> IntArray:
    """Number the pairs that occur, (n,)."""
    return np.asarray(np.unique(a * (int(b.max(initial=0)) + 1) + b, return_inverse=True)[1])


def _foreseen(trace: Trace, s: FloatArray, arm: IntArray, *, before: IntArray, fresh: IntArray) -> bool:
    """Return whether a setting goes with what was known before it: the state in the row before, or the hour.

    Args:
        trace: The log.
        s: The state feature, (n,).
        arm: Which setting each row ran, (n,).
        before: The rows before every change of a setting.
        fresh: Those after it.
    """
    if trace.time is None:
        return False
    station = station_numbers(trace)
    since = _pairs(station[before], arm[before])  # where it came from tells where it went, as it must be elsewhere
    if _explained(s[before], since, _pairs(since, arm[fresh]), chance=_CHANCE) > 0:
        return True
    if trace.time.dtype.kind != "M":
        return False
    hour = (trace.time[fresh].astype("datetime64[h]").astype(np.int64) % 24) * (np.pi / 12.0)
    here, cell = station[fresh], _pairs(station[fresh], arm[fresh])
    return any(_explained(wave(hour), here, cell, chance=_CHANCE) > 0 for wave in (np.cos, np.sin) if np.ptp(hour) > 0)


def _rest(values: FloatArray, group: IntArray) -> FloatArray:
    """Return what values (n,) differ by from the mean of their group (n,), on a scale that can be squared."""
    scale = float(np.abs(values).max()) or 1.0
    v = values / scale
    return np.asarray(v - (np.bincount(group, weights=v) / np.maximum(np.bincount(group), 1))[group])


def _varies(values: FloatArray, rest: FloatArray) -> bool:
    return bool(np.ptp(values) > _ROUNDING * np.abs(values).max() and np.abs(rest).max() > _ROUNDING)


def _correlation(a: FloatArray, b: FloatArray) -> float:
    size = float(np.sqrt((a @ a) * (b @ b)))
    return float(a @ b) / size if size > 0 else 0.0


def _just_changed(trace: Trace, station: IntArray, arm: IntArray) -> tuple[IntArray, IntArray]:
    """Return the rows before and after every change of a station's setting; all twice where time is not known."""
    if trace.time is None:
        return np.arange(len(trace)), np.arange(len(trace))
    order = np.lexsort((trace.time, station))
    changed = (np.diff(station[order]) == 0) & (np.diff(arm[order]) != 0)
    return order[:-1][changed], order[1:][changed]


def _explained(s: FloatArray, station: IntArray, cell: IntArray, *, chance: float) -> float:
    """Return the adjusted share of a state (n,) that settings explain within stations; 0 where chance would do.

    Args:
        s: The state feature.
        station: Station of each row, (n,).
        cell: Number of each row's pair of station and setting, (n,).
        chance: How likely a false alarm may be.
    """
    from scipy.stats import f

    stations, cells = len(np.unique(station)), len(np.unique(cell))
    between, within = cells - stations, len(s) - cells
    if between < 1 or within < _FEW_FREE:
        return 0.0
    total, left = (float(np.square(_rest(s, group)).sum()) for group in (station, cell))
    if left <= _ROUNDING * total:
        return 1.0 if total > _ROUNDING else 0.0
    ratio = (total - left) / between / (left / within)
    likely = float(f.sf(ratio, between, within)) > chance
    return 0.0 if likely else 1.0 - left / within / (total / (between + within))
