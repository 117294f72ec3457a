"""Make a trace: the log of a city in which every station's threshold is changed at random several times a day.

Every second of the observed hours is simulated: at about 3 ms a step, five days of eight hours (144,000 steps) take
some seven minutes on one core, so there is no need to sample shorter windows or to speed time up, and users,
queues and handovers carry over from period to period as they do in a network. Nights are not simulated; each day
starts with that hour's number of users and one period of warm-up, which also gives the first row its state.

The default period is 8 h/108 = 4 min 26⅔ s (whole seconds, so 266 or 267 steps): 108 periods a day, 540 rows for each
of 105 stations, 56,700 in all, less the few rows in which a station had no session to judge. A row holds the state
measured in the period before, the threshold of the period, and the reward of the period. Thresholds follow shuffled
rounds of all 29 values, so that a station tries every value before it repeats one. Where capacity carriers may sleep
(`Parameters.saving`), what is tried are the loads below which they do, and the reward is the energy saved.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinband.arrays import FloatArray, positive_number
from kinband.environments.contract import whole_number
from kinband.environments.radio.city import Layout, PowerMap, build_map, draw_layout
from kinband.environments.radio.environment import KNOB, SLEEP_KNOB, Knob, checked_hours, knob_of
from kinband.environments.radio.network import STATE_NAMES, Network, Report
from kinband.environments.radio.parameters import Parameters
from kinband.errors import BadInputError
from kinband.space import ConfigurationSpace
from kinband.trace import Trace
from kinband.trace.files import write_table
from kinband.version import __version__

FIRST_DAY = datetime(2024, 5, 13)  # a Monday; the date means nothing else
REWARD, SAMPLES = "good_throughput_share", "sessions"
COLUMNS = ("station", "time", *STATE_NAMES, KNOB, REWARD, SAMPLES)
"""The columns of the written table: those of the paper's sample data, and the number of sessions behind the reward."""

ROLES = {
    "station": "station",
    "time": "time",
    "reward": REWARD,
    "noise": None,
    "samples": SAMPLES,
    "state": list(STATE_NAMES),
    "configuration": [KNOB],
}
"""What each of them is to a `Trace`; the file carries this map."""

ENERGY_SAVED, SATISFIED = "energy_saved", "satisfied_users"
ENERGY_COLUMNS = ("station", "time", *STATE_NAMES, SLEEP_KNOB, ENERGY_SAVED, SATISFIED)
"""The columns where capacity carriers may sleep: the share of the energy at full load that was not taken, and the other
table's reward as a KPI."""

ENERGY_ROLES = ROLES | {"reward": ENERGY_SAVED, "samples": None, "configuration": [SLEEP_KNOB], "kpis": [SATISFIED]}

Progress = Callable[[float], None]


@dataclass(frozen=True, eq=False)
class Period:
    """A measurement period of the city.

    Attributes:
        begin: When it began.
        seconds: How long it was, a whole number.
        thresholds: What the sectors ran: in dBm, or in per cent where carriers may sleep, (S,).
        report: What was measured.
    """

    begin: datetime
    seconds: int
    thresholds: FloatArray
    report: Report


@dataclass(frozen=True, eq=False)
class SimulatedTrace:
    """A trace and how it came about.

    Attributes:
        trace: The log, with sample counts, carrying the space of 29 thresholds; or that of energy saving.
        columns: The same table under the names of COLUMNS, or ENERGY_COLUMNS.
        metadata: JSON-able: seed, version, arguments, layout and every parameter.
        layout: Where the sectors are.
        periods: All measurements, with the period before each day's first.

    Example:
        >>> made = simulate_trace(3, days=1, hours=(18, 18.1), period_minutes=1.0)
        >>> made.trace.stations == tuple(made.metadata["layout"]["names"])
        True
    """

    trace: Trace
    columns: dict[str, NDArray[Any]]
    metadata: dict[str, Any]
    layout: Layout
    periods: tuple[Period, ...]

    def write(self, path: str | Path) -> Path:
        """Write the table (.parquet, .csv, .csv.gz) and, beside it, its metadata as .json; return that file."""
        side = Path(path).with_suffix(".json")
        write_table(
            Path(path), self.columns, note={"columns": _roles(self.columns), "space": self.trace.space().to_dict()}
        )
        side.write_text(json.dumps(self.metadata, indent=1) + "\n", encoding="utf-8")
        return side


def simulate_trace(
    stations: int = 105,
    *,
    days: int = 5,
    hours: tuple[float, float] = (14.0, 22.0),
    period_minutes: float = 40 / 9,
    changes_per_day: float = 12.0,
    load: float = 1.0,
    seed: int = 0,
    layout_seed: int | None = None,
    parameters: Parameters | None = None,
    thresholds: FloatArray | None = None,
    first_day: datetime = FIRST_DAY,
    progress: Progress | None = None,
) -> SimulatedTrace:
    """Simulate a city with random thresholds, or with given ones, and return its log.

    Args:
        stations: Number of sectors.
        days: Number of days.
        hours: First and last hour of each day.
        period_minutes: Length of a measurement period.
        changes_per_day: How often a station's threshold changes in a day's hours, on average.
        load: Multiplies the number of users; ignored where `parameters` are given.
        seed: Draws the traffic and the thresholds, and the city unless `layout_seed` does.
        layout_seed: Draws the city.
        parameters: Everything else about the network; with `saving`, thresholds are the loads in per cent below which
            capacity carriers sleep.
        thresholds: What each station runs in each period, (days times periods of a day, stations), in the order of the
            layout's names; a day's first also before it. Drawn at random if not given.
        first_day: The date of the first day.
        progress: Called after every period with the share that is done.

    Example:
        >>> made = simulate_trace(3, days=1, hours=(20, 20.05), period_minutes=1.0, load=0.5)
        >>> len(made.trace) <= 9, made.metadata["parameters"]["load"]
        (True, 0.5)
    """
    whole_number(days, name="days", least=1)
    whole_number(seed, name="seed", least=0)
    parameters = parameters or Parameters(load=load)
    bounds = _period_bounds(hours, 60 * positive_number(period_minutes, name="period_minutes"))
    layout_seed = seed if layout_seed is None else layout_seed
    map_ = build_map(draw_layout(stations, seed=layout_seed), parameters)
    periods = len(bounds) - 1
    chance = positive_number(changes_per_day, name="changes_per_day") / periods
    drawn, knob = thresholds is None, knob_of(parameters)
    if thresholds is None:
        thresholds = _random_thresholds(knob, stations, days * periods, chance, np.random.default_rng((seed, 5)))
    elif thresholds.shape != (days * periods, stations):
        raise BadInputError(
            f"thresholds have the shape {thresholds.shape}: they need {days * periods} periods and {stations} stations"
        )
    found: list[Period] = []
    parts: list[dict[str, NDArray[Any]]] = []
    for day in range(days):
        plan = thresholds[day * periods : (day + 1) * periods]
        # Drawn ones begin after the warm-up: the state of the first slot must not know them.
        before = np.full(stations, knob.start) if drawn else plan[0]
        network = Network(map_, parameters, seed=(seed, day), hour=hours[0] - bounds[1] / 3600)
        start = first_day + timedelta(days=day, hours=hours[0])
        for k, period in enumerate(_day(network, np.vstack([before, plan]), bounds, start=start)):
            if k:
                parts.append(_rows(map_.layout.names, found[-1].report, period, knob))
            found.append(period)
            if progress is not None and k:
                progress((day * periods + k) / (days * periods))
    columns = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    arguments = {
        "stations": stations,
        "days": days,
        "hours": [float(h) for h in hours],
        "period_minutes": float(period_minutes),
        "changes_per_day": float(changes_per_day),
        "layout_seed": layout_seed,
        "first_day": first_day.date().isoformat(),
        "thresholds": "drawn" if drawn else "given",
    }
    metadata = {
        "simulator": "kinband radio",
        "version": __version__,
        "seed": seed,
        "arguments": arguments,
        "rows": len(columns["station"]),
        "columns": list(columns),
        "layout": map_.layout.to_dict() | _land_use(map_, parameters),
        "parameters": parameters.to_dict(),
    }
    return SimulatedTrace(_trace(columns, knob), columns, metadata, map_.layout, tuple(found))


def _period_bounds(hours: tuple[float, float], period_s: float) -> list[int]:
    """Seconds after the first hour at which periods start and end, whole numbers."""
    first, last = checked_hours(hours)
    count = int((last - first) * 3600 / period_s + 1e-6)
    if not count or period_s < 1:
        raise BadInputError(f"a period of {period_s:g} s does not fit into the hours {hours}: choose another")
    return [round(k * period_s) for k in range(count + 1)]


def _random_thresholds(knob: Knob, stations: int, periods: int, chance: float, rng: np.random.Generator) -> FloatArray:
    """Threshold of each station in each period, (periods, stations); each changes with the same chance."""
    values = np.array(knob.values, dtype=np.float64)
    changes = (rng.random((periods, stations)) < chance).cumsum(axis=0)
    rounds = -(-(int(changes.max()) + 1) // len(values))
    order = np.concatenate(
        [rng.permuted(np.tile(values, (stations, 1)), axis=1) for _ in range(rounds)], axis=1
    )  # (stations, rounds·29)
    return np.take_along_axis(order, changes.T, axis=1).T


def _day(network: Network, plan: FloatArray, bounds: list[int], *, start: datetime) -> Iterator[Period]:
    """Yield the warm-up of a day and then its periods; `plan` has what they run."""
    for begin, end, thresholds in zip([-bounds[1], *bounds], bounds, plan, strict=False):
        report = network.run_period(thresholds, seconds=end - begin)
        yield Period(start + timedelta(seconds=begin), end - begin, thresholds, report)


def _rows(names: tuple[str, ...], before: Report, period: Period, knob: Knob) -> dict[str, NDArray[Any]]:
    report = period.report
    judged = report.sessions > 0
    earned: dict[str, NDArray[Any]] = {REWARD: report.good_share, SAMPLES: report.sessions}
    if report.energy is not None:  # known without a session, too
        earned = {ENERGY_SAVED: report.energy.saved, SATISFIED: np.where(judged, report.good_share, np.nan)}
        judged = np.ones(len(names), dtype=bool)
    columns: dict[str, NDArray[Any]] = {
        "station": np.array(names),
        "time": np.full(len(names), np.datetime64(period.begin, "us")),
        **{name: getattr(before, name) for name in STATE_NAMES},
        knob.name: period.thresholds.astype(np.int64),
        **earned,
    }
    return {name: column[judged] for name, column in columns.items()}


def _roles(columns: Mapping[str, object]) -> dict[str, Any]:
    return ENERGY_ROLES if ENERGY_SAVED in columns else ROLES


def _trace(columns: dict[str, NDArray[Any]], knob: Knob) -> Trace:
    trace = Trace.from_frame(columns, _roles(columns), reward_range=(0.0, 1.0))
    return trace.with_space(ConfigurationSpace(**{knob.name: knob.values}))


def _land_use(map_: PowerMap, parameters: Parameters) -> dict[str, Any]:
    """The land use that brings most users to each sector, and how many in its busiest hour."""
    most = np.array([use.users for use in parameters.land_uses]) * parameters.load
    users = map_.sector_demand() * most[:, None] * len(map_.layout.names) / 105
    names = [use.name for use in parameters.land_uses]
    return {"land_use": [names[k] for k in users.argmax(axis=0)], "busiest_users": users.round(2).T.tolist()}
