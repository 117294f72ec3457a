"""The simulated city, what it counts in a slot, and a log of random thresholds drawn on other traffic."""

from typing import Any

import numpy as np

from benchmarks.studies.neighbours.plan import Plan
from kinband.arrays import FloatArray
from kinband.environments.radio import KNOB, Parameters, RadioEnvironment, Report

SHARE, COUNT, COVERAGE = "sector_share", "cell_share", "coverage_share"
_LOG_TRAFFIC = 50_000  # added to a seed: the log is of traffic that nobody is judged on


def environment_of(plan: Plan, seed: int) -> RadioEnvironment:
    """Return the city of a plan with the traffic of a seed, from five in the afternoon on."""
    hours = (17.0, 17.0 + max(plan.slots, plan.log_slots) * plan.period_s / 3600)
    parameters = Parameters(load=plan.load)
    return RadioEnvironment(plan.stations, seed=seed, period_s=plan.period_s, hours=hours, parameters=parameters)


def drawn_log(plan: Plan, seed: int) -> dict[str, Any]:
    """Return a log of random thresholds: one row a sector and slot, with states from the slot before."""
    environment = environment_of(plan, seed + _LOG_TRAFFIC)
    rng = np.random.default_rng([seed, 4])
    rows: dict[str, list[Any]] = {}
    for t in range(plan.log_slots):
        states = environment.slot.states
        arms = {station: int(rng.integers(environment.arms)) for station in environment.stations}
        environment.play(arms)
        columns = columns_of(environment.earned)
        for i, station in enumerate(environment.stations):
            row = {"station": station, "time": t, KNOB: environment.space[arms[station]][KNOB], **states[station]}
            row |= {name: float(values[i]) for name, values in columns.items()}
            for name, value in row.items():
                rows.setdefault(name, []).append(value)
    return rows


def columns_of(report: Report) -> dict[str, FloatArray]:
    """Return the shares of sectors, of their capacity and of their other cells, with their variances, (S,) each."""
    satisfied, sessions = report.capacity_satisfied, report.capacity_sessions
    counts = {SHARE: (report.satisfied, report.sessions), COUNT: (satisfied, sessions)}
    counts[COVERAGE] = report.satisfied - satisfied, report.sessions - sessions
    found: dict[str, FloatArray] = {}
    for name, (satisfied, sessions) in counts.items():
        n, p = np.maximum(sessions, 1), (satisfied + 1) / (sessions + 2)
        found[name] = np.where(sessions > 0, satisfied / n, 0.5)
        found[f"{name}_noise"] = np.where(sessions > 0, p * (1 - p) / n, 1 / 12)
    return found
