"""The log that a ledger was started with is shown before the first decision, from the ledger's own data."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
from tests.support.operations_life import Clock

from kinband import Controller, Trace
from kinband.controller.logged import Logged
from kinband.service.ledger import Ledger
from kinband.service.operations import Operations

DAY = datetime(2026, 3, 1, tzinfo=UTC)


def started(tmp_path: Path) -> tuple[Trace, Operations]:
    rng, hours = np.random.default_rng(2), 30
    frame = {
        "station": ["a", "b"] * hours,
        "time": [(DAY + timedelta(hours=h)).isoformat() for h in range(hours) for _ in "ab"],
        "load": rng.random(2 * hours).round(3).tolist(),
        "tilt": rng.choice([2, 4, 6], 2 * hours).tolist(),
        "reward": rng.random(2 * hours).round(3).tolist(),
    }
    trace = Trace.from_frame(frame, {"configuration": ["tilt"]})
    ledger = Ledger.open(str(tmp_path / "l.db"))
    controller = Controller.from_trace(trace, similarity="pooled", running={"tilt": 2})
    Operations.open(ledger, controller, clock=Clock(DAY))
    return trace, Operations.open(ledger, clock=Clock(DAY + timedelta(hours=28)))


def test_rows_of_the_log_come_before_the_first_decision_and_end_there(tmp_path: Path) -> None:
    trace, operations = started(tmp_path)
    own = trace.station == "b"
    read_model = operations.read_model
    points = read_model.points("b")
    assert [point.reward for point in points] == trace.reward[own].tolist()
    assert [operations.space[point.arm or 0]["tilt"] for point in points] == trace.configuration["tilt"][own].tolist()
    assert [point.at for point in points] == [DAY + timedelta(hours=h) for h in range(30)]
    assert [point.changed for point in points[1:]] == (np.diff([point.arm or 0 for point in points]) != 0).tolist()
    assert [row[1] for row in read_model.fleet()] == [float(np.mean(two)) for two in trace.reward.reshape(-1, 2)]
    made = operations.ask({"b": {"load": 0.5}}, slot="2026-03-02T04:00")[0]  # the 28th hour
    operations.tell({made.id: 0.25})
    points = read_model.points("b", last=4)
    assert [(point.at - DAY) / timedelta(hours=1) for point in points] == [25, 26, 27, 28]
    assert [point.decision for point in points] == [None, None, None, made.id]
    assert [row[0] for row in read_model.fleet(3)] == [point.at for point in points[1:]]
    assert len(read_model.points("a")) == 30
    assert read_model.points("a", last=0) == []


def test_of_many_rows_the_latest_are_kept_and_fewer_of_many_stations() -> None:
    tasks = np.tile(np.arange(2000), 600)
    times = np.repeat(np.arange(600), 2000).astype("datetime64[h]")
    found = Logged.of(tasks, times, np.zeros(len(tasks), dtype=int), np.repeat(np.arange(600.0), 2000))
    assert found is not None
    assert found.rewards[found.of_task(1999)].tolist() == list(range(100, 600))
    many = Logged.of(np.tile(np.arange(5000), 600), np.repeat(np.arange(600), 5000).astype("datetime64[h]"),
                     np.zeros(3_000_000, dtype=int), np.zeros(3_000_000))  # fmt: skip
    assert many is not None
    assert len(many.times) == 1_000_000


def test_the_same_controller_opens_a_ledger_that_was_begun_without_the_rows(tmp_path: Path) -> None:
    from dataclasses import replace

    trace, operations = started(tmp_path)
    controller = Controller.from_trace(trace, similarity="pooled", running={"tilt": 2})
    assert controller.setup.logged is not None
    bare = replace(controller.setup, logged=None)
    assert Operations.open(operations.ledger, bare, clock=Clock(DAY)).read_model.points("a")
