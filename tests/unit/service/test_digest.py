"""A week in figures: sums that agree with a count by hand, on both stores, as a page and as a file."""

from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from statistics import fmean

import pytest
from tests.support.dashboard_network import network
from tests.support.operations_life import NOON, Clock, ask, begin
from tests.unit.service.operations.test_preview import live

from kinband.errors import BadInputError
from kinband.service.digest import digest_file, digest_of, week_named, week_of
from kinband.service.ledger import Ledger
from kinband.service.operations.records import expected_gain

RAILS = "knobs: {tilt: {step: 3}}\nfallback: {drop: 10%, slots: 2, before: 4}\nchanges: {per_day: 6}\n"


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def ledger(url: str, clock: Clock) -> Iterator[Ledger]:
    with closing(Ledger.open(url, clock=clock)) as opened:
        yield opened


def test_a_week_counts_what_an_independent_count_of_its_events_does(ledger: Ledger, clock: Clock) -> None:
    operations = begin(ledger, text=RAILS, mode="autonomous", clock=clock)
    live(operations, clock, 20)
    clock.now = NOON + timedelta(days=7)
    live(operations, clock, 20, seed=4)
    operations.roll_back("a", actor="bob", override=True)
    clock.pass_(days=7)
    week = week_of(NOON + timedelta(days=7))
    found = digest_of(operations, week)
    begins = week_named(week)
    events = [one for one in ledger.read() if begins.isoformat() <= one.at < (begins + timedelta(days=7)).isoformat()]
    changes = [one.payload for one in events if one.kind == "applied"]
    made = Counter(one["by"] for one in changes if one["arm"] != one["before"])
    assert found.by == made
    assert made["roll-back"] + made["operator"] == len(found.back) > 0
    assert found.decisions == 60 == sum(one.kind == "verdict" for one in events)
    refused = Counter[str]()
    for event in events:
        if event.kind == "verdict":
            refused.update({one["code"] for one in event.payload["verdict"]["refusals"]})
    assert found.refused == refused
    acts = Counter(one.actor for one in events if one.kind == "switch")
    assert found.actors["ada"] == acts["ada"] > 0
    assert found.actors["bob"] == 1
    with operations.looking() as seen:
        gained = [
            record.reward - record.baseline
            for record in seen.decisions.values()
            if record.at >= begins and record.reward is not None and record.baseline is not None
        ]
    assert found.gain.slots == len(gained) > 0
    assert found.gain.mean == pytest.approx(fmean(gained))
    told = Counter(one.station for one in events if one.kind == "outcome" and one.payload["entry"]["entry"] == "told")
    assert {one.station: one.rewards for one in found.gaps}.items() <= told.items()
    assert found.silent == len(found.gaps) > 0


def test_a_change_that_was_confirmed_counts_with_what_was_expected_of_it(ledger: Ledger, clock: Clock) -> None:
    operations = begin(ledger, mode="assist", manner="confirmed", clock=clock)
    made = ask(operations, a=3, b=2)
    operations.approve([one.id for one in made.values()], actor="ada")
    clock.pass_(minutes=20)
    ask(operations, a=3)  # a slot later, which the change is recorded with
    operations.confirm(made["a"].id, actor="nms")
    operations.fail(made["b"].id, why="locked", actor="nms")
    found = digest_of(operations, week_of(clock.now))
    [change] = found.changes
    assert (change.station, change.arm, change.gain) == ("a", 3, expected_gain(operations.decision(made["a"].id)))
    assert found.statuses == Counter({"applied": 1, "failed": 1, "refused": 1})
    assert found.actors == {"ada": 2, "nms": 1}  # who confirms does what was asked for


def test_a_week_without_anything_and_one_that_does_not_exist(ledger: Ledger, clock: Clock) -> None:
    operations = begin(ledger, clock=clock)
    empty = digest_of(operations, "2019-W01")
    assert (empty.decisions, empty.by.total(), empty.acts) == (0, 0, [])
    assert "Nothing was changed." in digest_file(empty, operations)
    assert "Nothing is known of the gain." in empty.words
    for name in ("", "2026", "2026-W54", "2026-W00", "0000-W01", "last", "2026-W471"):
        with pytest.raises(BadInputError, match="a week is a year and a number such as 2026-W47"):
            digest_of(operations, name)


def test_the_file_needs_nothing_from_elsewhere_and_escapes_what_people_wrote(ledger: Ledger, clock: Clock) -> None:
    operations = begin(ledger, text=RAILS, mode="autonomous", clock=clock)
    live(operations, clock, 10)
    operations.stop(why="<script>alert(1)</script>", actor="eve")
    text = digest_file(digest_of(operations, week_of(clock.now)), operations)
    assert "&lt;script&gt;" in text
    for foreign in ("<script", "http://", "https://", "src=", "<link", "url("):
        assert foreign not in text, foreign


def test_the_page_of_a_week(tmp_path: Path) -> None:
    with network(tmp_path, mode="autonomous") as web:
        web.play(6)
        web.operations.stop(why="smoke", actor="anna")
        client = web.browser()
        week = week_of(web.operations.now())
        text = client.get("/digest").text
        assert f"<h1>Week {week}</h1>" in text
        assert "anna stopped everything" in text
        assert "Week after" not in text
        assert client.get("/digest?week=2026-W99").status_code == 422
        before = client.get("/digest?week=2019-W30")
        assert before.status_code == 200
        assert "Nobody did anything." in before.text
        file = client.get(f"/digest/file?week={week}")
        assert f'filename="kinband-{week}.html"' in file.headers["content-disposition"]
        assert "anna stopped everything" in file.text
