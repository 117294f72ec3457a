"""Slots have times: what is told of afterwards lands where it belongs, and changes nothing of today."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest
from tests.support.ledger_stores import fresh_database
from tests.support.operations_life import NOON, Clock, Wish, begin, want, whole

from kinband.errors import BadInputError, ConflictError
from kinband.service.ledger import Ledger
from kinband.service.operations import Operations, ReadModel
from kinband.service.operations.slots import time_of_slot


@pytest.fixture(params=["sqlite", "postgresql"])
def ledger(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Ledger]:
    sqlite = request.param == "sqlite"
    opened = Ledger.open(str(tmp_path / "l.db") if sqlite else fresh_database(request.getfixturevalue("server")))
    yield opened
    opened.close()


def named(at: datetime) -> str:
    return at.strftime("%Y-%m-%dT%H:%M")


def test_a_backfill_in_any_order_is_shown_by_the_time_of_its_slots(ledger: Ledger) -> None:
    operations = begin(ledger, mode="autonomous")
    now = operations.ask({"a": want(2)}, slot=named(NOON))[0]
    operations.tell({now.id: 0.5})
    earned = {}
    for hours in np.random.default_rng(3).permutation(np.arange(2, 9)).tolist():
        at = NOON - timedelta(hours=hours)
        record = operations.ask({"a": want(3)}, slot=named(at), running={"a": {"tilt": 1}})[0]
        assert (record.status, record.past, record.begins) == ("shadow", True, at)
        earned[at] = hours / 10
        operations.tell({record.id: earned[at]})
    read_model = operations.read_model
    points = read_model.points("a")
    assert [point.at for point in points] == [*sorted(earned), NOON]
    assert [point.reward for point in points] == [*(earned[at] for at in sorted(earned)), 0.5]
    assert [point.arm for point in points] == [1] * 7 + [2]
    assert [row[0] for row in read_model.fleet(3)] == [point.at for point in points][-3:]
    assert [row[:2] for row in read_model.fleet()] == [(point.at, point.reward) for point in points]
    assert read_model.recent("a", 2) == pytest.approx((0.5 + earned[NOON - timedelta(hours=2)]) / 2)
    state = read_model.stations["a"]
    assert (state.running, state.last, state.state) == (2, now.id, want(2))
    assert whole(Operations.open(ledger, clock=Clock(), policy=Wish.build)) == whole(operations)
    again = ReadModel(operations.setup, read_model._past)
    again.take_up(read_model.stored()())
    assert (again.points("a"), again.fleet(), again.stations) == (points, read_model.fleet(), read_model.stations)


def test_what_is_told_of_the_past_does_not_end_what_waits_today(ledger: Ledger) -> None:
    operations = begin(ledger, mode="assist")
    waits = operations.ask({"a": want(2)}, slot=named(NOON))[0]
    operations.ask({"a": want(4)}, slot=named(NOON - timedelta(days=1)))
    assert [record.id for record in operations.read_model.waiting()] == [waits.id]
    assert operations.approve([waits.id])[0].status == "applied"


def test_a_slot_that_is_asked_for_late_or_was_named_years_ahead_is_decided_for_as_ever(ledger: Ledger) -> None:
    operations = begin(ledger, mode="autonomous")
    operations.ask({"a": want(1)}, slot="2062-03-04T12:00")  # a slip, after which the station has to go on
    late = operations.ask({"a": want(2)}, slot=named(NOON - timedelta(minutes=30)))[0]
    assert (late.status, late.past) == ("applied", False)


def test_naive_times_are_on_the_clock_of_the_rails_and_stay_where_they_were_put(ledger: Ledger) -> None:
    operations = begin(ledger, text="zone: Europe/Berlin\n")
    first = operations.ask({"a": want(1)}, slot="2026-03-04 11:00")[0]
    assert first.begins == datetime(2026, 3, 4, 10, tzinfo=UTC)
    operations.set_rails("zone: UTC\n")
    assert operations.decision(first.id).begins == first.begins
    second = operations.ask({"a": want(1)}, slot="2026-03-04 11:00:00")[0]
    assert second.begins == datetime(2026, 3, 4, 11, tzinfo=UTC)


def test_from_says_when_a_slot_begins_and_must_not_be_another_time_later(ledger: Ledger) -> None:
    operations = begin(ledger)
    record = operations.ask({"a": want(1)}, slot="shift 3", begins="2026-03-04T13:00+01:00")[0]
    assert (record.slot, record.begins) == ("shift 3", NOON)
    assert operations.ask({"a": want(1)}, slot="shift 3", begins="2026-03-04T12:00Z")[0].id == record.id
    with pytest.raises(ConflictError, match="in the slot 'shift 3', with the time 2026-03-04T12:00:00"):
        operations.ask({"a": want(1)}, slot="shift 3", begins="2026-03-04T12:01Z")
    with pytest.raises(BadInputError, match=r"begins at an ISO time, got 'noon': write one such as"):
        operations.ask({"a": want(1)}, begins="noon")
    alone = operations.ask({"b": want(1)}, begins="2026-03-04T12:00Z")[0]
    assert (alone.slot, alone.begins) == ("2026-03-04T12:00Z", NOON)


@pytest.mark.parametrize("name", ["10:00", "week 5", "2026-02-30T10:00", "2026-11-20T25:00", "20261120", "0001-01-01T"])
def test_other_names_have_no_time(name: str) -> None:
    assert time_of_slot(name) is None
