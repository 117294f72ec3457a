"""Counters as they come, on every store: states to ask with, rewards by period; late, again, in parts, in dispute."""

import gzip
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.support.ledger_stores import fresh_database
from tests.support.operations_life import NOON, Clock, Wish, begin, learned, want, whole, wishful

from kinband.errors import BadInputError, ConflictError
from kinband.kpis import NeighbourReward
from kinband.service.ledger import Ledger
from kinband.service.operations import Operations, ReadModel
from kinband.service.operations.feeds import Feed
from kinband.service.operations.slots import ticks_of

HOUR = timedelta(hours=1)


@pytest.fixture(params=["sqlite", "postgresql"])
def ledger(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Ledger]:
    sqlite = request.param == "sqlite"
    opened = Ledger.open(str(tmp_path / "l.db") if sqlite else fresh_database(request.getfixturevalue("server")))
    yield opened
    opened.close()


def row(station: str, at: datetime, **values: Any) -> dict[str, Any]:
    return {"station": station, "time": at.isoformat(), **values}


def again(operations: Operations) -> Operations:
    """Another process at the same ledger."""
    return Operations.open(operations.ledger, clock=Clock(operations.now()), policy=Wish.build)


def test_counters_are_asked_with_and_pay_for_what_was_decided_in_their_period(ledger: Ledger) -> None:
    operations = begin(ledger, mode="autonomous")
    taken = operations.counters([row("a", NOON - HOUR, want=2.001), row("b", NOON - HOUR, want=3.001)])
    assert (taken.rows, taken.stations, taken.told, taken.unused) == (2, 2, [], [])
    other = again(operations)
    made = other.ask(stations=["a", "b"], slot="2026-03-04T12:00")
    assert [record.arm for record in made] == [2, 3]
    assert other.read_model.stations["a"].state == {"want": 2.001}
    operations.refresh()
    taken = operations.counters([row("b", NOON, want=1.001, reward=0.7), row("a", NOON, want=1.001, reward=0.6)])
    assert (sorted(taken.told), taken.stations) == (sorted(record.id for record in made), 2)
    assert sorted(learned(operations)) == [(0, 2, 0.6), (1, 3, 0.7)]
    last = operations.ask(stations=["a"], slot="2026-03-04T13:00")[0]
    assert (last.arm, last.begins) == (1, NOON + HOUR)
    repeated = again(operations).ask(stations=["a"], slot="2026-03-04T13:00")[0]
    assert repeated.id == last.id
    assert whole(again(operations)) == whole(operations)
    assert ledger.verify() == len(list(ledger.read()))


def test_the_same_rows_again_change_nothing_and_late_ones_find_their_slot(ledger: Ledger) -> None:
    operations = begin(ledger, mode="autonomous")
    made = [operations.ask({"a": want(n)}, slot=f"2026-03-04T0{n}:00")[0] for n in range(1, 5)]
    rows = [row("a", NOON.replace(hour=n), want=n + 0.5, reward=n / 10) for n in (3, 1, 4, 2)]
    first = operations.counters(rows)
    assert sorted(first.told) == [record.id for record in made]
    head = operations.ledger.head()
    second = again(operations).counters(rows[::-1])
    assert (second.repeated, second.told, second.stations, second.differing) == (4, [], 0, 0)
    assert operations.ledger.head() == head
    assert [point.reward for point in operations.read_model.points("a")] == [0.1, 0.2, 0.3, 0.4]


def test_of_contradicting_rows_the_later_to_arrive_counts(ledger: Ledger) -> None:
    operations = begin(ledger, mode="autonomous")
    record = operations.ask({"a": want(1)}, slot="2026-03-04T12:00")[0]
    operations.counters([row("a", NOON, want=1.0, reward=0.5)])
    taken = operations.counters([row("a", NOON, want=2.0, reward=0.9), row("a", NOON, want=2.5, reward=0.4)])
    assert (taken.differing, taken.corrected, taken.told, taken.left) == (2, [record.id], [], 0)
    assert learned(operations) == [(0, 1, 0.4)]
    assert operations.decision(record.id).reward == 0.4
    operations.ask(stations=["a"], slot="2026-03-04T13:00")
    assert operations.read_model.stations["a"].state == {"want": 2.5}
    assert operations.counters([row("a", NOON, want=2.5, reward=0.4)]).repeated == 1
    assert whole(again(operations)) == whole(operations)


def test_a_row_may_come_in_parts(ledger: Ledger) -> None:
    controller = wishful(state=["want", "load"])
    operations = begin(ledger, controller)
    operations.counters([row("a", NOON - HOUR, want=2.0)])
    with pytest.raises(ConflictError, match="no complete counters of 'a' are known from before 2026-03-04T12:00"):
        operations.ask(stations=["a"], slot="2026-03-04T12:00")
    operations.counters([row("a", NOON - HOUR, load=0.5)])
    operations.ask(stations=["a"], slot="2026-03-04T12:00")
    assert operations.read_model.stations["a"].state == {"want": 2.0, "load": 0.5}


def test_stale_counters_are_refused_and_so_is_a_state_beside_them(ledger: Ledger) -> None:
    operations = begin(ledger)
    operations.counters([row(name, NOON - 3 * HOUR, want=2.0) for name in "ab"])
    with pytest.raises(ConflictError, match=r"counters of 'a' and of 1 more stations are stale: from .*T09:00:00"):
        operations.ask(stations=["a", "b"], slot="2026-03-04T12:00")
    with pytest.raises(ConflictError, match="no complete counters of 'c'"):
        operations.ask(stations=["c"], slot="2026-03-04T12:00")
    with pytest.raises(BadInputError, match="'a' has a state, and is among stations"):
        operations.ask({"a": want(1)}, stations=["a"])
    assert operations.ask(stations=["a"], slot="2026-03-04T10:59")[0].begins == NOON - timedelta(minutes=61)
    assert len(list(ledger.read(kinds=["decision"]))) == 1


def test_a_value_that_is_none_takes_no_other_with_it(ledger: Ledger) -> None:
    operations = begin(ledger, wishful(state=["want", "load"]), mode="autonomous")
    taken = operations.counters(
        [
            {"station": "a", "time": "2026-03-04T11:00Z", "want": 1.0, "load": 0.5},
            {"station": "b", "time": "2026-03-04T11:00Z", "want": "much", "load": 0.25},
            {"station": "c", "time": "2026-03-04T11:00Z", "want": 2.0, "load": "inf"},
        ]
    )
    assert {one["code"]: one["places"] for one in taken.unused} == {
        "no_number": ["row 2: want is 'much'", "row 3: load is 'inf'"]
    }
    seen = operations.read_model.seen
    assert seen.before("a", ticks_of(NOON)).state == {"want": 1.0, "load": 0.5}  # type: ignore[union-attr]
    assert seen.before("b", ticks_of(NOON)).state == {"load": 0.25}  # type: ignore[union-attr]
    assert seen.before("c", ticks_of(NOON)).state == {"want": 2.0}  # type: ignore[union-attr]


def test_counters_of_a_time_to_come_are_those_of_a_wrong_clock_and_push_nothing_out(ledger: Ledger) -> None:
    operations = begin(ledger, mode="autonomous")
    operations.counters([row("a", NOON - HOUR, want=2.0)])
    ahead = operations.now() + 2 * HOUR
    taken = operations.counters([row("a", ahead + n * HOUR, want=float(n), reward=0.5) for n in range(30)])
    [unused] = taken.unused
    assert (unused["code"], unused["count"], taken.unmatched) == ("future", 30, 0)
    assert "check the clock and the zone" in unused["text"]
    assert operations.ask(stations=["a"], slot="2026-03-04T12:00")[0].station == "a"


def test_what_cannot_be_used_is_counted_and_named_and_the_rest_is_used(ledger: Ledger) -> None:
    operations = begin(ledger, wishful(reward_range=(0, 1)), text="zone: Europe/Berlin\n", mode="autonomous")
    operations.ask({"a": want(1)}, slot="2026-03-04T12:00Z")
    rolled = operations.ask({"b": want(2)}, slot="2026-03-04T12:00Z")[0]
    operations.roll_back("b", comment="complaints")
    operations.remove_station("c")
    taken = operations.counters(
        [
            {"station": "X9", "time": "2026-03-04T13:00", "want": 1.0, "reward": 0.5},
            {"station": "c", "time": "2026-03-04T13:00", "want": 1.0},
            {"station": "a", "time": "2026-10-25T02:30", "want": 1.0},
            {"station": "a", "time": "2026-03-29 02:30", "want": 1.0},
            {"station": "a", "time": "soon", "want": 1.0},
            {"station": None, "time": "2026-03-04T12:00", "want": 1.0},
            {"station": "a", "time": "2026-03-04T14:00"},
            {"station": "b", "time": "2026-03-04T13:00", "reward": 0.5},
            {"station": "a", "time": "2026-03-04T13:00", "want": 4.5, "reward": 99.0},
        ]
    )
    found = {one["code"]: (one["count"], one["places"]) for one in taken.unused}
    assert found == {
        "unknown_station": (1, ["row 1: 'X9'"]),
        "left": (1, ["row 2: 'c'"]),
        "clock_change": (2, ["row 3: '2026-10-25T02:30'", "row 4: '2026-03-29 02:30'"]),
        "no_time": (1, ["row 5: 'soon'"]),
        "no_station": (1, ["row 6"]),
        "nothing": (1, ["row 7: 'a'"]),
        "rolled_back": (1, ["row 8: 'b'"]),
        "reward_range": (1, ["row 9"]),
    }
    assert operations.decision(rolled.id).reward is None
    operations.ask(stations=["a"], slot="2026-03-04T13:00Z")  # of the hour from 12:00 UTC, which is 13:00 in Berlin
    assert operations.read_model.stations["a"].state == {"want": 4.5}


def test_a_feed_says_how_counters_are_read_in_every_process(ledger: Ledger) -> None:
    feed = Feed({"station": "Zelle", "time": "Datum", "reward": "0.5*gut+0.5*sehr"}, {}, True, "", 900.0)
    operations = begin(ledger, feed=feed, mode="autonomous", clock=Clock(NOON + HOUR))
    record = operations.ask({"a": want(3)}, slot="2026-03-04T12:00")[0]
    text = "Zelle;Datum;want;gut;sehr\na;04.03.2026 12:00;2,5;80;60\na;04.03.2026 12:15;1,5;;\n"
    other = again(operations)
    assert other.feed == feed
    taken = other.counters(gzip.compress(text.encode()))
    assert (taken.told, taken.stations, taken.unused) == ([record.id], 1, [])
    assert learned(other) == [(0, 3, 0.7)]
    other.ask(stations=["a"], slot="2026-03-04T12:15")
    assert other.read_model.stations["a"].state == {"want": 2.5}
    kept = [event.payload for event in ledger.read(kinds=["feed"])]
    Operations.open(ledger, clock=Clock(), policy=Wish.build, feed=feed)
    assert [event.payload for event in ledger.read(kinds=["feed"])] == kept == [feed.to_dict()]


def test_a_key_has_counters_taken_in_once_and_answers_the_same(ledger: Ledger) -> None:
    operations = begin(ledger)
    rows = [row("a", NOON, want=1.0)]
    first = operations.counters(rows, key="k1", actor="nms")
    operations.counters([row("a", NOON, want=2.0)], key="k2", actor="nms")
    assert operations.counters(rows, key="k1", actor="nms") == first
    assert operations.read_model.seen.before("a", 10**17) is not None
    with pytest.raises(ConflictError, match="the key 'k1' was used before for another call"):
        operations.counters([row("b", NOON, want=1.0)], key="k1", actor="nms")


def test_neighbours_without_a_decision_count_with_what_their_counters_say(ledger: Ledger) -> None:
    rule = NeighbourReward({"a": ["b"]}, weight=0.5)
    operations = begin(ledger, wishful(neighbours=rule), mode="autonomous")
    operations.ask({"a": want(2)}, slot="2026-03-04T12:00")
    operations.counters([row("a", NOON, reward=1.0), row("b", NOON, reward=0.0)])
    assert learned(operations) == [(0, 2, 0.5)]


def test_what_is_seen_is_kept_for_a_day_of_periods_and_survives_a_snapshot(ledger: Ledger) -> None:
    operations = begin(ledger, clock=Clock(NOON + 30 * HOUR))
    operations.counters([row("a", NOON + n * HOUR, want=float(n)) for n in range(30)])
    operations.counters([row("b", NOON, want=1.0)])
    late = operations.counters([row("a", NOON, want=0.0)])
    assert (late.repeated, late.stations) == (1, 0)
    read_model = operations.read_model
    stored = read_model.stored()()
    copy = ReadModel(operations.setup, read_model._past)
    copy.take_up(stored)
    rows = list(read_model.seen.rows())
    assert list(copy.seen.rows()) == rows
    assert list(again(operations).read_model.seen.rows()) == rows
    assert [one.state["want"] for station, one in rows if station == "a"] == [float(n) for n in range(6, 30)]


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ([{"station": "a", "want": 1.0}], "the rows have no column for the time, 'time'; the columns are 'station'"),
        ([{"station": "a", "time": "2026-03-04T12:00"}], "the rows have none of the columns 'want', 'reward'"),
        (b"\x1f\x8bnot gzip", "the body cannot be unpacked"),
        (gzip.compress(b"station,time,want\n" * 99, mtime=0)[:-9], "the body ends before it is unpacked"),
        (b"<measCollecFile/>", "a measurement file came, and nobody said what its counters are"),
        (b"\x89PNG\r\n\x1a\n", "the body is not CSV text but a PNG image"),
        (b"", "the body is empty"),
        (b"station,time,want\n", "the body"),
        (gzip.compress(b" " * (65 << 20), mtime=0), "the body unpacks to more than 64 MB"),
    ],
    ids=["no time", "no value", "no gzip", "cut off", "no mapping", "picture", "empty", "no rows", "too large"],
)
def test_bodies_that_are_no_counters_are_refused_with_a_sentence(tmp_path: Path, body: Any, says: str) -> None:
    operations = begin(Ledger.open(str(tmp_path / "l.db")))
    with pytest.raises(BadInputError, match=says) as refused:
        operations.counters(body)
    assert str(tmp_path.parent) not in str(refused.value)
    assert "body.csv" not in str(refused.value)
