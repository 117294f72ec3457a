"""What counters bring: the states that stations are asked with, and the rewards of what was decided.

A row says what was measured of a station in a period. Its state features are the state of the station for a slot that
begins when the period ends; its reward is that of the decision whose slot began in the period. Rows may come late,
again, in parts, and contradict each other: what is known already changes nothing, and of two values the later to
arrive counts.
"""

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from math import isclose
from typing import Any, NamedTuple

import numpy as np

from kinband.controller import Setup
from kinband.drift import untimed
from kinband.errors import BadInputError, ConflictError
from kinband.service.ledger.snapshots import Shown
from kinband.service.operations.feeds import Arrived, Row, Unused
from kinband.service.operations.records import DecisionRecord, StationState
from kinband.service.operations.slots import at_ticks, ticks_of

KEPT_PERIODS = 24
"""Of how many periods of a station the state is kept at hand."""
_AHEAD = timedelta(minutes=5)  # that another clock may be ahead
MOST_CORRECTIONS = 100
"""How many rewards one call puts right; the rest waits until the rows are sent again."""


# --- What is known of stations, by period ---------------------------------------------------------------------------


class Known(NamedTuple):
    """The state features of a station in a period, which began and ended at a time in microseconds since 1970."""

    begin: int
    end: int
    state: Mapping[str, float]


class Seen:
    """The latest states of stations, as their counters tell.

    Example:
        >>> seen = Seen()
        >>> seen.put("a", Known(0, 3600, {"load": 0.4}))
        >>> seen.put("a", Known(0, 3600, {"users": 7.0}))
        >>> seen.before("a", 4000).state
        {'load': 0.4, 'users': 7.0}
        >>> seen.before("a", 3599) is None
        True
    """

    def __init__(self) -> None:
        self._known: dict[str, list[Known]] = {}

    def put(self, station: str, row: Known) -> None:
        """Take in a row: in the place of what it contradicts, and beside what it does not."""
        rows = self._known.setdefault(station, [])
        found = self._place(rows, row.begin)
        if found is not None:
            rows[found] = Known(row.begin, row.end, {**rows[found].state, **row.state})
            return
        insort(rows, row, key=lambda one: one.begin)
        if len(rows) > KEPT_PERIODS:
            del rows[0]

    def at(self, station: str, begin: int) -> Known | None:
        """Return what is known of the period that began at a time."""
        rows = self._known.get(station, [])
        found = self._place(rows, begin)
        return None if found is None else rows[found]

    def oldest(self, station: str) -> int | None:
        """Return when the oldest period began that is kept, where no more fit; None where there is room."""
        rows = self._known.get(station, [])
        return rows[0].begin if len(rows) >= KEPT_PERIODS else None

    def before(self, station: str, at: int) -> Known | None:
        """Return the last period that had ended by a time."""
        return next((row for row in reversed(self._known.get(station, [])) if row.end <= at), None)

    def rows(self) -> Iterator[tuple[str, Known]]:
        """Give stations with each of their periods."""
        return ((station, row) for station, rows in self._known.items() for row in rows)

    @staticmethod
    def _place(rows: Sequence[Known], begin: int) -> int | None:
        found = bisect_left(rows, begin, key=lambda one: one.begin)
        return found if found < len(rows) and rows[found].begin == begin else None

    def stored(self) -> Shown:
        """Return it as values and arrays."""
        flat = [row for rows in self._known.values() for row in rows]
        names = list(dict.fromkeys(name for row in flat for name in row.state))
        values = np.array([[row.state.get(name, np.nan) for name in names] for row in flat], dtype=np.float64)
        ends = np.array([row[:2] for row in flat], dtype=np.int64).reshape(-1, 2)
        stations = [[station, len(rows)] for station, rows in self._known.items()]
        return Shown(
            {"names": names, "stations": stations}, {"ends": ends, "values": values.reshape(len(flat), len(names))}
        )

    @classmethod
    def of(cls, stored: Shown) -> "Seen":
        """Return what `stored` returned."""
        made, at = cls(), 0
        ends, values = stored.arrays["ends"].tolist(), stored.arrays["values"].tolist()
        for station, count in stored.values["stations"]:
            made._known[station] = [
                Known(
                    ends[row][0],
                    ends[row][1],
                    {n: v for n, v in zip(stored.values["names"], values[row], strict=False) if v == v},
                )
                for row in range(at, at + count)
            ]
            at += count
        return made


# --- What a call brings ---------------------------------------------------------------------------------------------


class Correction(NamedTuple):
    """A reward that is another than the one that was told."""

    decision: str
    reward: float | None
    kpis: Mapping[str, float] | None


@dataclass
class Intake:
    """What rows bring that was not known.

    Attributes:
        states: New or other state features, by station.
        told: Rewards of decisions that had none, by the period: decision to row.
        others: Rewards of stations without a decision, by the period.
        corrections: Rewards that differ from those that were told.
        repeated: Rows that bring nothing new.
        differing: Rows that contradict what came before.
        unmatched: Rewards of periods in which nothing was decided.
        unused: What could not be used.
    """

    states: list[tuple[str, Known]] = field(default_factory=list)
    told: dict[tuple[int, int], dict[str, Row]] = field(default_factory=dict)
    others: dict[tuple[int, int], dict[str, float]] = field(default_factory=dict)
    corrections: list[Correction] = field(default_factory=list)
    repeated: int = 0
    differing: int = 0
    unmatched: int = 0
    unused: Unused = field(default_factory=Unused)

    def payload(self) -> dict[str, Any]:
        """Return what goes on record of the states: by period and station, values in the order of the names."""
        names = list(dict.fromkeys(name for _, row in self.states for name in row.state))
        periods: dict[tuple[int, int], dict[str, list[float | None]]] = {}
        for station, row in self.states:
            periods.setdefault(row[:2], {})[station] = [row.state.get(name) for name in names]
        return {
            "names": names,
            "periods": [
                {"from": at_ticks(begin).isoformat(), "until": at_ticks(end).isoformat(), "states": rows}
                for (begin, end), rows in periods.items()
            ],
        }


def put_on_record(seen: Seen, payload: Mapping[str, Any]) -> None:
    """Take in what an event of the kind "counters" says."""
    for period in payload["periods"]:
        begin, end = (ticks_of(datetime.fromisoformat(period[name])) for name in ("from", "until"))
        for station, values in period["states"].items():
            state = {n: float(v) for n, v in zip(payload["names"], values, strict=True) if v is not None}
            seen.put(station, Known(begin, end, state))


def intake_of(
    arrived: Arrived,
    seen: Seen,
    stations: Mapping[str, StationState],
    decisions: Mapping[str, DecisionRecord],
    setup: Setup,
    *,
    id_of: Any,
    now: datetime,
) -> Intake:
    """Return what rows bring, as things stand; nothing is changed.

    Args:
        arrived: The rows.
        seen: What is known of states.
        stations: Stations by name.
        decisions: Decisions by id.
        setup: What rewards may be.
        id_of: From the number of a decision to its id.
        now: The time; periods that begin later were measured by a clock that is wrong.
    """
    made, fresh, earned = Intake(), Seen(), dict[str, Row]()
    for row in arrived.rows:
        station = stations.get(row.station)
        if station is None or not station.active:
            what = "of stations that nobody knows" if station is None else "of stations that have left"
            code = "unknown_station" if station is None else "left"
            made.unused.add(code, f"{what}: let them join, or check the column", f"{row.place}: {row.station!r:.40}")
            continue
        if row.begin > now + _AHEAD:
            what = "of periods that have not begun: check the clock and the zone of who sends them"
            made.unused.add("future", what, f"{row.place}: {row.begin.isoformat()}")
            continue
        news, other = _state(fresh, seen, row)
        matched, again = _reward(made, earned, row, station, decisions, setup, id_of)
        made.differing += other or again == "other"
        made.repeated += not (news or matched)
    made.states = list(fresh.rows())
    for key, row in earned.items():
        _sort(made, key, row, decisions[key], setup)
    return made


def _state(fresh: Seen, seen: Seen, row: Row) -> tuple[bool, bool]:
    """Take in the state of a row; whether it is new, and whether it contradicts what came before."""
    begin, end = ticks_of(row.begin), ticks_of(row.end)
    oldest = seen.oldest(row.station)
    if not row.state or (oldest is not None and begin < oldest):
        return False, False  # nobody can decide by it any more
    before = {one: v for found in (seen.at(row.station, begin), fresh.at(row.station, begin)) if found
              for one, v in found.state.items()}  # fmt: skip
    news = {name: value for name, value in row.state.items() if before.get(name) != value}
    if not news:
        return False, False
    fresh.put(row.station, Known(begin, end, news))
    return True, any(name in before for name in news)


def _reward(
    made: Intake,
    earned: dict[str, Row],
    row: Row,
    station: StationState,
    decisions: Mapping[str, DecisionRecord],
    setup: Setup,
    id_of: Any,
) -> tuple[bool, str]:
    """Find the decision that a row is the reward of; whether it says anything new, and whether it says otherwise."""
    weights = setup.config.reward
    if row.reward is None and (weights is None or any(name not in row.kpis for name in weights.weights)):
        return False, ""
    try:
        reward = setup.check_reward(_own(row, setup))
    except BadInputError as error:
        made.unused.add("reward_range", f"of a reward that cannot be: {error.problem}", row.place)
        return True, ""
    keys = [id_of(number) for number in station.slots.within(row.begin, row.end)]
    if not keys:
        made.unmatched += 1
        made.others.setdefault((ticks_of(row.begin), ticks_of(row.end)), {})[row.station] = reward
        return False, ""
    if len(keys) > 1:
        what = "of periods with several decisions, which earned one reward together"
        made.unused.add("several", what, f"{row.place}: {row.station!r:.40}")
        return True, ""
    record = decisions[keys[0]]
    if record.status == "rolled back" and not (record.verdict and record.verdict.outcome == "rolled back"):
        what = "of slots in which a person rolled back, so that two configurations earned the reward"
        made.unused.add("rolled_back", what, f"{row.place}: {row.station!r:.40}")
        return True, ""
    before = earned.get(record.id)
    known = record.reward if before is None else _own(before, setup)
    if known is not None and isclose(known, reward, rel_tol=1e-12, abs_tol=1e-15):
        return False, ""
    earned[record.id] = row
    return True, "" if known is None else "other"


def _sort(made: Intake, key: str, row: Row, record: DecisionRecord, setup: Setup) -> None:
    """Put a reward where it belongs: to be told, or to be put right."""
    weights = setup.config.reward
    if record.reward is None:
        made.told.setdefault((ticks_of(row.begin), ticks_of(row.end)), {})[key] = row
    elif not isclose(record.reward, _own(row, setup), rel_tol=1e-12, abs_tol=1e-15):
        told = _kpis(row, setup)
        made.corrections.append(Correction(key, None if weights is not None else row.reward, told or None))


def _own(row: Row, setup: Setup) -> float:
    """Return the reward of a row, made of KPIs where that is how this controller has it."""
    weights = setup.config.reward
    if weights is None:
        assert row.reward is not None  # noqa: S101
        return row.reward
    return weights.of({name: (row.kpis[name], None) for name in weights.weights})[0]


def _kpis(row: Row, setup: Setup) -> dict[str, float]:
    known = wanted_kpis(setup)
    return {name: value for name, value in row.kpis.items() if name in known}


def told_of(rows: Mapping[str, Row], others: Mapping[str, float], setup: Setup) -> dict[str, Any]:
    """Return what a controller is told of a period: decision to row, and rewards of stations without a decision."""
    kpis = {key: found for key, row in rows.items() if (found := _kpis(row, setup))}
    said: dict[str, Any] = {"kpis": kpis or None}
    if setup.config.reward is None:
        said["rewards"] = {key: row.reward for key, row in rows.items()}
        said["noise"] = {key: row.noise for key, row in rows.items() if row.noise is not None} or None
    if (rule := setup.config.neighbours) is not None:
        known = {name for station in rule.neighbours for name in rule.of(station)}
        said["others"] = {name: reward for name, reward in others.items() if name in known} or None
    return said


def wanted_states(setup: Setup) -> tuple[str, ...]:
    """Return the state features that a controller is asked with."""
    return untimed(setup.encoder.state.names)


def wanted_kpis(setup: Setup) -> list[str]:
    """Return the KPIs that a controller is told."""
    weights = setup.config.reward
    return list(dict.fromkeys([*(kpi.name for kpi in setup.kpis), *(weights.weights if weights is not None else ())]))


# --- The states that stations are asked with ------------------------------------------------------------------------


def states_before(seen: Seen, stations: Iterable[str], names: Sequence[str], *, at: datetime) -> dict[str, Any]:
    """Return the state of each station in the period before a time, or say whose is not known or too old.

    Args:
        seen: What counters told.
        stations: Whose.
        names: The state features.
        at: When the slot begins.
    """
    found, missing, stale = dict[str, Any](), list[str](), list[tuple[str, Known]]()
    for station in stations:
        row = seen.before(station, ticks_of(at))
        if row is None or any(name not in row.state for name in names):
            missing.append(station)
        elif ticks_of(at) - row.end >= row.end - row.begin:
            stale.append((station, row))
        else:
            found[station] = {name: row.state[name] for name in names}
    how = "send those of the period before the slot, give the state, or leave the station out"
    if missing:
        more = f" and {len(missing) - 1:,} more stations" if len(missing) > 1 else ""
        raise ConflictError(
            f"no complete counters of {missing[0]!r:.80}{more} are known from before {at.isoformat()}",
            hint=how, code="no_counters", argument="stations", value=missing[0],
        )  # fmt: skip
    if stale:
        (station, row), more = stale[0], f" and of {len(stale) - 1:,} more stations" if len(stale) > 1 else ""
        span = f"from {at_ticks(row.begin).isoformat()} to {at_ticks(row.end).isoformat()}"
        raise ConflictError(
            f"the latest counters of {station!r:.80}{more} are stale: {span}, for a slot at {at.isoformat()}",
            hint=how, code="stale_counters", argument="stations", value=station,
        )  # fmt: skip
    return found


@dataclass(frozen=True)
class Taken:
    """What became of counters that came.

    Attributes:
        rows: How many rows there were.
        stations: Of how many stations the state is new.
        told: Decisions whose reward is known now.
        corrected: Decisions whose reward was put right, since the later value counts.
        repeated: Rows that brought nothing new.
        differing: Rows that contradict what came before.
        unmatched: Rewards of periods in which nothing was decided.
        left: Rewards that are still to be put right: send the rows again.
        unused: What could not be used, by reason: code, count, places, text.
    """

    rows: int
    stations: int
    told: list[str]
    corrected: list[str]
    repeated: int
    differing: int
    unmatched: int
    left: int
    unused: list[dict[str, Any]]


def taken_of(arrived: Arrived, intake: Intake) -> Taken:
    """Return what becomes of rows, rewards that are to be put right apart."""
    return Taken(
        rows=arrived.count,
        stations=len({station for station, _ in intake.states}),
        told=[key for rows in intake.told.values() for key in rows],
        corrected=[],
        repeated=intake.repeated,
        differing=intake.differing,
        unmatched=intake.unmatched,
        left=0,
        unused=[*arrived.unused.listed(), *intake.unused.listed()],
    )
