"""The controllers of the learners: which reward each counts, what it keeps above a floor, and whose rewards it adds."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from benchmarks.studies.neighbours.network import COUNT, COVERAGE, SHARE, environment_of
from benchmarks.studies.neighbours.plan import BESIDE, CELL, FLOORED, SECTOR, Plan
from kinband.arrays import FloatArray
from kinband.controller import Controller
from kinband.environments.radio import KNOB, RadioEnvironment
from kinband.kpis import KpiFloor, NeighbourReward
from kinband.trace import Trace

_COUNTED = (SHARE, COUNT, COVERAGE)


def controller_of(plan: Plan, learner: str, *, seed: int, log: Mapping[str, Any]) -> Controller:
    """Return the controller of a learner that has learned from a log."""
    name = reward_of(learner)
    states = [column for column in log if column not in ("station", "time", KNOB) and not column.startswith(_COUNTED)]
    columns = {"reward": name, "noise": f"{name}_noise", "configuration": [KNOB], "state": states}
    environment = environment_of(plan, seed)
    extra: dict[str, Any] = {}
    rule = rule_of(plan, learner, environment)
    if rule is not None and name == SHARE:
        extra["neighbours"] = rule
    if learner == FLOORED:
        columns["kpis"] = [SHARE]
        extra["kpis"] = KpiFloor(SHARE, at_least=plan.floor)
        extra["running"] = {KNOB: int(environment.parameters.start_threshold_dbm)}
    trace = Trace.from_frame(log if rule is None or extra else _with_coverage(log, rule), columns, duplicates="drop")
    controller = Controller.from_trace(
        trace, environment.space, similarity=plan.similarity, beta=plan.beta, engine="exact", seed=seed, **extra
    )
    if rule is None or extra:
        return controller
    settings = controller.settings
    return Controller.from_settings(replace(settings, config=settings.config.replace(neighbours=rule)))


def rule_of(plan: Plan, learner: str, environment: RadioEnvironment) -> NeighbourReward | None:
    """Return whose rewards count for a learner: coverage cells for a cell, other sectors for a sector."""
    if BESIDE not in learner:
        return None
    reward, weight = learner.split(BESIDE)
    if reward == SECTOR:
        return NeighbourReward(environment.neighbours(plan.neighbours), weight=float(weight))
    near = environment.coverage_cells(plan.neighbours)
    named = {station: {_coverage_name(name): part for name, part in cells.items()} for station, cells in near.items()}
    cells = [_coverage_name(station) for station in environment.stations]
    return NeighbourReward(named, weight=float(weight), others=cells)


def coverage_of(columns: Mapping[str, FloatArray], stations: Sequence[str]) -> dict[str, tuple[float, float]]:
    """Return the share of every coverage cell, with its variance, as neighbours' rewards."""
    pairs = zip(columns[COVERAGE].tolist(), columns[f"{COVERAGE}_noise"].tolist(), strict=True)
    return {_coverage_name(station): pair for station, pair in zip(stations, pairs, strict=True)}


def _with_coverage(log: Mapping[str, Any], rule: NeighbourReward) -> dict[str, Any]:
    """A log in which the count of a cell is mixed with those of coverage cells in the same slot."""
    at: dict[int, dict[str, Any]] = {}
    for time, station, share, noise in zip(
        log["time"], log["station"], log[COVERAGE], log[f"{COVERAGE}_noise"], strict=True
    ):
        at.setdefault(time, {})[_coverage_name(station)] = (share, noise)
    own = zip(log["time"], log["station"], log[COUNT], log[f"{COUNT}_noise"], strict=True)
    mixed = [rule.mixed(station, (share, noise), at[time]) for time, station, share, noise in own]
    return {**log, COUNT: [reward for reward, _ in mixed], f"{COUNT}_noise": [noise for _, noise in mixed]}


def _coverage_name(station: str) -> str:
    return f"{station}, coverage"


def reward_of(learner: str) -> str:
    """Return the column that a learner counts as its reward."""
    return COUNT if learner.startswith(CELL) else SHARE
