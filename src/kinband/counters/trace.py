"""From counters and configuration to a log: one row for each station and period in which all of it is known.

A row of a period has the reward of that period, the state of the period *before* it, as it was known when somebody
could decide, and the knobs, which must have been constant all through the period. What is missing takes the row away;
`Joined` says how many rows went for which reason.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from math import nan
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinband.arrays import BoolArray, FloatArray, IntArray
from kinband.counters.cm import Timeline, check_attributes, settings_of, timelines
from kinband.counters.files import SECOND
from kinband.counters.formulas import Formula, Leaf, evaluate, number_of
from kinband.counters.mapping import ROUNDED, CounterMap, Knob
from kinband.counters.survey import Survey, Values, shown, survey
from kinband.errors import BadInputError
from kinband.guardrails.yaml import near
from kinband.trace import Trace
from kinband.trace.problems import ended_as_others_began

_STEPS, _GROWS = 20, 0.95  # from a period to the next, and the share of them in which a counter grows that only does so
_TORN = 0.5  # share of periods between snapshots that differ, from which on these are probably changes


@dataclass(frozen=True, eq=False)
class Joined:
    """A log, and what became of the periods that it was made from.

    Attributes:
        trace: The log.
        survey: What the files held.
        periods: Stations times periods that had counters of the mapping.
        lost: Why periods were left out, and how many.
        notes: What is odd and was not refused.
    """

    trace: Trace
    survey: Survey
    periods: int
    lost: Mapping[str, int]
    notes: tuple[str, ...]


def read_trace(paths: Any, mapping: CounterMap | str | PathLike[str], *, cm: Any) -> Trace:
    """Return the log that measurement files and configuration files make.

    Args:
        paths: A file, a directory, a pattern such as `pm/*.xml.gz`, or several of them.
        mapping: What is what: a YAML file, or what it was read to.
        cm: The configuration: bulk CM or CSV files, likewise.

    Example:
        >>> read_trace("no-such-folder", "no-such.yaml", cm="cm.csv")
        Traceback (most recent call last):
            ...
        kinband.errors.BadInputError: no-such.yaml cannot be read: No such file or directory
    """
    return join(paths, mapping, cm=cm).trace


def join(paths: Any, mapping: CounterMap | str | PathLike[str], *, cm: Any, watch: bool = False) -> Joined:
    """Return the log of `read_trace` with an account of what was joined and lost; `watch` says how far it is."""
    known = mapping if isinstance(mapping, CounterMap) else CounterMap.read(mapping)
    settings, seen = timelines(settings_of(cm, zone=known.zone, columns=known.columns), known)
    found = survey(paths, known, zone=known.zone, watch=watch)
    joining = _Join(found, known, settings)
    check_attributes(settings, known, seen)
    return joining.made()


class _Join:
    """Stations and periods as rows, sorted, each with the number of the period before it."""

    def __init__(self, found: Survey, mapping: CounterMap, settings: dict[str, dict[str, Timeline]]) -> None:
        self.found, self.mapping, self.settings = found, mapping, settings
        values = found.values if found.values is not None else Values(())
        if not values.rows:
            kinds = found.classes
            meant = [near(wrong, kinds) for wrong in mapping.stations.objects if get_close_matches(wrong, kinds, n=1)]
            raise BadInputError(
                f"{mapping.stations.line}: no object is a station by the mapping; there are {_some(kinds)}",
                hint=next(iter(meant), "check station in the mapping, or write one with --propose"),
                code="no_station",
            )
        self._check_counters()
        keys = list(values.rows)
        station = np.array([key[0] for key in keys])
        begin, end = (np.array([key[n] for key in keys], dtype=np.int64) for n in (1, 2))
        picked = self._of_one_length(station, begin, end)
        self.station, self.begin, self.end = station[picked], begin[picked], end[picked]
        self.before = self._before()
        self.columns = {leaf: self._column(leaf, np.array(own)[picked]) for leaf, own in values.columns.items()}

    def _check_counters(self) -> None:
        stations, names = self.mapping.stations, set[str]()
        classes = set(stations.objects) if stations.pattern is None else set(self.found.counters)
        for kind in classes & set(self.found.counters):
            names |= self.found.counters[kind] | {f"{kind}.{name}" for name in self.found.counters[kind]}
        self.mapping.check_counters(names)

    def _of_one_length(self, station: NDArray[Any], begin: IntArray, end: IntArray) -> IntArray:
        """The rows of the one length of period, sorted by station and time."""
        lengths, wanted = np.unique(end - begin), self.mapping.period
        if wanted is None and len(lengths) > 1:
            seconds = " and ".join(f"{length // SECOND} s" for length in lengths[:4])
            raise BadInputError(
                f"the stations have periods of {seconds}", hint="choose one in the mapping, such as period: 15min"
            )
        rows: IntArray = np.lexsort((begin, station))
        rows = rows[(end - begin)[rows] == (lengths[0] if wanted is None else wanted)]
        if not len(rows):
            raise BadInputError("no period of a station has the length that the mapping asks for: check period")
        return rows

    def _before(self) -> IntArray:
        """The number of the row of the period just before, (n,), -1 where there is none."""
        follows = np.zeros(len(self.station), dtype=np.bool_)
        follows[1:] = (self.station[1:] == self.station[:-1]) & (self.begin[1:] == self.end[:-1])
        return np.where(follows, np.arange(len(follows)) - 1, -1)

    def _earlier(self, values: FloatArray) -> FloatArray:
        """The values of the period before, (n,), nan where there is none."""
        return np.where(self.before >= 0, values[self.before], nan)

    def _column(self, leaf: Leaf, values: FloatArray) -> FloatArray:
        """The values of a leaf in each period, (n,); a cumulative one is what it grew by."""
        wrap = self.mapping.cumulative.get(leaf.counter)
        if wrap is None:
            return values
        grown = values - self._earlier(values)
        wrapped = grown + wrap  # believed if it is a step of less than half the way round; else it was a reset
        return np.where(grown >= 0, grown, np.where((wrapped >= 0) & (wrapped < wrap / 2), wrapped, nan))

    def _of(self, formula: Formula) -> FloatArray:
        return evaluate(formula, self.columns, len(self.station))

    def made(self) -> Joined:
        mapping, size = self.mapping, len(self.station)
        reward = self._of(mapping.reward)
        state = {name: self._earlier(self._of(formula)) for name, formula in mapping.state.items()}
        kept, lost = np.ones(size, dtype=np.bool_), dict[str, int]()

        def lose(why: str, rows: BoolArray) -> None:
            lost[why] = int((kept & rows).sum())
            kept[rows] = False

        lose("the reward is missing", np.isnan(reward))
        if state:
            lose("there is no period before it", self.before < 0)
        for name, values in state.items():
            lose(f"the state {name} is missing in the period before", np.isnan(values))
        knobs = {}
        for name in mapping.knobs:
            held, changed = self._knob(name)
            lose(f"{name} changed within it or between snapshots", changed)
            lose(f"{name} is not known", np.array([value is None for value in held], dtype=np.bool_))
            knobs[name] = held
        self._check_some(kept, lost)
        knobs = {name: _decoded(knobs[name][kept], knob, name) for name, knob in mapping.knobs.items()}
        trace = self._trace(kept, reward=reward, state=state, knobs=knobs)
        torn = sum(count for why, count in lost.items() if why.endswith("or between snapshots"))
        notes = tuple(self._notes(torn / size))
        return Joined(trace, self.found, size, {why: n for why, n in lost.items() if n}, notes)

    def _trace(self, kept: BoolArray, *, reward: FloatArray, state: Any, knobs: Any) -> Trace:
        mapping = self.mapping
        features = [values[kept] for values in state.values()]
        samples = None if mapping.samples is None else self._of(mapping.samples)[kept]
        return Trace(
            station=self.station[kept],
            reward=reward[kept],
            configuration=knobs,
            state=np.column_stack(features) if features else np.empty((int(kept.sum()), 0)),
            state_names=tuple(state),
            time=self.begin[kept].astype("datetime64[us]"),
            sample_count=None if samples is None else np.where(samples >= 1, samples, nan),
            kpis={name: self._of(formula)[kept] for name, formula in mapping.kpis.items()},
            reward_name=mapping.reward_name,
        )

    def _knob(self, name: str) -> tuple[NDArray[Any], BoolArray]:
        held, changed = np.full(len(self.station), None, dtype=object), np.zeros(len(self.station), dtype=np.bool_)
        starts = np.flatnonzero(np.r_[True, self.station[1:] != self.station[:-1]])
        for first, last in zip(starts, [*starts[1:], len(self.station)], strict=True):
            line, rows = self.settings[name].get(str(self.station[first])), slice(first, last)
            if line is not None:
                held[rows], changed[rows] = line.during(self.begin[rows], self.end[rows], changes=self.mapping.changes)
        return held, changed

    def _check_some(self, kept: BoolArray, lost: Mapping[str, int]) -> None:
        if kept.any():
            return
        why, count = max(lost.items(), key=lambda item: item[1])
        raise BadInputError(
            f"no period is left of {len(kept):,}: in {count:,} of them {why}", hint=self._advice(why), code="no_rows"
        )

    def _advice(self, why: str) -> str:
        name = next((name for name in self.mapping.knobs if why == f"{name} is not known"), None)
        if name is None:
            return "check the formulas, the files and the mapping"
        configured = self.settings[name]
        if not set(configured) & set(self.station.tolist()):
            return (
                f"counters are of stations such as {str(self.station[0])!r}, the configuration of "
                f"{next(iter(configured))!r}; set station: name in the mapping so that they are the same"
            )
        if not self.mapping.changes:
            return "a period counts between two snapshots that agree; is it a log of changes (configuration: kind)?"
        return "give configuration from before the first period"

    def _notes(self, torn: float) -> list[str]:
        """What is odd; `torn` is the share of periods in which a knob is not known to be constant."""
        empty = [str(leaf) for leaf, values in self.columns.items() if np.isnan(values).all()]
        found = [f"{name} has no value in any period" for name in empty]
        if self.found.zoneless and self.mapping.zone is None:
            found.append("times without a zone were taken as UTC: say which with zone in the mapping")
        if torn > _TORN and not self.mapping.changes:
            found.append(
                f"{100 * torn:.0f} % of the periods lie between snapshots that differ: if the configuration is a log "
                "of changes, in which a value holds until the next, write configuration: {kind: changes} in the mapping"
            )
        return [*found, *self._growing(), *self._renamed()]

    def _growing(self) -> Iterator[str]:
        """Say which counters only grow, but for wraps and resets, and are not said to be cumulative."""
        follows = self.before >= 0
        for leaf, values in self.columns.items():
            grown = (values - self._earlier(values))[follows]
            grown = grown[np.isfinite(grown)]
            if leaf.counter in self.mapping.cumulative or len(grown) < _STEPS:
                continue
            if (grown > 0).mean() > _GROWS:
                yield (
                    f"{leaf} grows from nearly every period to the next, as a counter does that is never set back: if "
                    f"it is one, say so in the mapping, counters: {{{leaf.counter}: {{cumulative: true}}}}"
                )

    def _renamed(self) -> Iterator[str]:
        """Say where stations end when as many others begin, as they do when they are renamed."""
        for end, before, after in ended_as_others_began(self.station, self.begin, self.end):
            yield (
                f"{_few(before)} end at {shown(int(end))}, when {_few(after)} begin: if they were renamed, say so in "
                f"the mapping, aliases: {{{before[0]!r}: {after[0]!r}}} and so on"
            )


def _decoded(held: NDArray[Any], knob: Knob, name: str) -> NDArray[Any]:
    """The values of a knob, (n,): numbers where all are, and else text."""
    texts = [str(value) for value in held.tolist()]
    numbers = np.array([number_of(text) for text in texts], dtype=np.float64)
    if np.isnan(numbers).any():
        if knob.coded:
            odd = texts[int(np.flatnonzero(np.isnan(numbers))[0])]
            raise BadInputError(f"{knob.line}: {name} has a unit, scale or offset, but {knob.attribute} is {odd!r:.40}")
        return np.array(texts)
    values: NDArray[Any] = np.round(knob.scale * numbers + knob.offset, ROUNDED)
    return values.astype(np.int64) if (values == np.round(values)).all() else values


def _few(names: list[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3:,} more stations" if len(names) > 3 else "")


def _some(names: Mapping[str, int]) -> str:
    listed = list(names)
    return (", ".join(listed[:8]) + (", ..." if len(listed) > 8 else "")) or "no objects at all"
