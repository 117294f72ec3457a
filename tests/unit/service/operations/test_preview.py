"""What other rails would have made of the last days, on both stores."""

from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta

import numpy as np
import pytest
from tests.support.operations_life import NOON, Clock, ask, begin, want

from kinband.errors import BadInputError
from kinband.service.ledger import Ledger
from kinband.service.operations import Operations, preview
from kinband.service.operations.past import first_since, replayed
from kinband.service.operations.preview import previewed
from kinband.service.schemas import Manner


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def ledger(url: str, clock: Clock) -> Iterator[Ledger]:
    with closing(Ledger.open(url, clock=clock)) as opened:
        yield opened


def live(operations: Operations, clock: Clock, slots: int, seed: int = 3) -> None:
    """Lead a life of changes, rewards, roll-backs, freezes and stops."""
    rng = np.random.default_rng(seed)
    for slot in range(slots):
        clock.pass_(minutes=15)
        made = operations.ask({name: want(int(rng.integers(6))) for name in "abc"}, slot=f"{seed} {slot}")
        told = {one.id: float(rng.uniform(0.4, 1)) for one in made if rng.random() < 0.8}
        clock.pass_(minutes=10)
        if told:
            operations.tell(told)
        match int(rng.integers(12)):
            case 0:
                operations.freeze("b", actor="ada")
            case 1:
                operations.thaw("b", actor="ada")
            case 2:
                operations.stop(actor="ada")
            case 3:
                operations.resume(actor="ada")


@pytest.mark.parametrize(
    "text",
    [
        "knobs: {tilt: {step: 2}}\n",
        "changes: {min_time: 1h, per_day: 5}\n",
        "changes: {per_round: 1, round: 30min}\nforbidden: [{from: '13:00', to: '15:00'}]\n",
        "fallback: {drop: 10%, slots: 2, before: 4, retry_after: 2h}\n",
    ],
)
def test_the_rails_that_were_in_force_judge_as_they_did(ledger: Ledger, clock: Clock, text: str) -> None:
    operations = begin(ledger, text=text, mode="autonomous", clock=clock)
    live(operations, clock, 40)
    found = previewed(operations, text)
    assert (found.decisions, found.counts.total(), +found.rails) == (120, 0, {})
    assert found.changes > 10


@pytest.mark.parametrize("manner", ["assumed", "confirmed"])
def test_so_do_they_where_changes_wait_for_a_window_and_are_ordered(
    ledger: Ledger, clock: Clock, manner: Manner
) -> None:
    text = "maintenance: [{from: '15:00', to: '16:00'}, {from: '20:00', to: '21:00'}]\nchanges: {min_time: 30min}\n"
    operations = begin(ledger, text=text, mode="autonomous", manner=manner, clock=clock)
    live(operations, clock, 40)
    with operations.looking() as read_model:
        assert {"deferred", "refused"} <= {i.verdict.outcome for i in read_model.decisions.values() if i.verdict}
    found = previewed(operations, text)
    assert (found.decisions, found.counts.total(), +found.rails) == (120, 0, {})


def test_what_would_wait_for_a_window_is_let_through_later_and_without_it_sooner(ledger: Ledger, clock: Clock) -> None:
    operations = begin(ledger, text="{}", mode="assist", clock=clock)
    ask(operations, a=3, b=0)
    clock.pass_(minutes=15)
    window = "maintenance: [{from: '22:00', to: '23:00'}]\n"
    operations.set_rails(window)
    ask(operations, c=2)
    by_window = previewed(operations, window)
    assert [(one.station, one.fate, one.verdict.outcome) for one in by_window.listed] == [("a", "later", "deferred")]
    assert by_window.rails["maintenance"] == 1
    assert [(one.station, one.fate) for one in previewed(operations, "{}").listed] == [("c", "let through")]
    earlier = previewed(operations, "maintenance: [{from: '21:00', to: '23:00'}]\n")
    assert {one.station: one.fate for one in earlier.listed} == {"a": "later", "c": "let through"}
    never = previewed(operations, "freeze: [a, c]\n")
    assert never.counts == {"refused": 2}


def test_a_doubt_about_state_or_time_is_none_of_the_rails(ledger: Ledger, clock: Clock) -> None:
    operations = begin(ledger, mode="autonomous", clock=clock)
    clock.pass_(days=2)
    ask(operations, a=1)
    clock.pass_(days=-1)
    assert ask(operations, a=3)["a"].status == "refused"
    assert previewed(operations, "changes: {per_day: 5}\n", days=9).counts.total() == 0


def test_a_part_of_the_past_is_known_where_the_days_begin(ledger: Ledger, clock: Clock) -> None:
    text = "changes: {min_time: 3h}\nfallback: {drop: 10%, slots: 2, before: 4, retry_after: 2h}\n"
    operations = begin(ledger, text=text, mode="autonomous", clock=clock)
    live(operations, clock, 40)
    clock.now = NOON + timedelta(days=7, hours=8)  # the first of it is longer ago than a week by then
    found = previewed(operations, text)
    assert 0 < found.decisions < 120
    assert found.counts.total() == 0


def test_what_is_refused_let_through_and_put_in_its_place_is_told(ledger: Ledger, clock: Clock) -> None:
    operations = begin(ledger, text="knobs: {tilt: {max: 3}}\n", mode="autonomous", clock=clock)
    made = ask(operations, a=3, b=5)
    assert [one.arm for one in made.values()] == [3, 3]
    clock.pass_(hours=1)
    operations.freeze("c", actor="ada")
    frozen = ask(operations, c=2)
    assert frozen["c"].status == "refused"
    stricter = previewed(operations, "knobs: {tilt: {max: 2}}\nfreeze: [b]\n")
    assert {one.station: one.fate for one in stricter.listed} == {"a": "another", "b": "refused"}
    assert (stricter.decisions, stricter.changes, stricter.rails["freeze"]) == (3, 2, 1)
    looser = previewed(operations, "{}")
    assert [(one.station, one.fate, one.verdict.arm) for one in looser.listed] == [("b", "another", 5)]
    assert looser.rails["range"] == -1
    assert operations.rails_in_force()[0].text == "knobs: {tilt: {max: 3}}\n"


def test_a_refusal_of_the_rails_alone_is_let_through_by_others(ledger: Ledger, clock: Clock) -> None:
    operations = begin(ledger, text="freeze: [a]\n", mode="assist", clock=clock)
    ask(operations, a=3)
    assert [(one.fate, one.was.outcome) for one in previewed(operations, "{}").listed] == [("let through", "refused")]


def test_work_is_bounded_and_says_so(ledger: Ledger, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    operations = begin(ledger, mode="autonomous", clock=clock)
    live(operations, clock, 20)
    monkeypatch.setattr(preview, "MOST_DECISIONS", 9)
    found = previewed(operations, "stop: on\n")
    assert (found.decisions, found.cut) == (9, True)
    monkeypatch.setattr(preview, "LISTED", 2)
    assert len(previewed(operations, "stop: on\n").listed) == 2


def test_rails_that_cannot_be_read_and_a_ledger_without_decisions(ledger: Ledger, clock: Clock) -> None:
    operations = begin(ledger, clock=clock)
    with pytest.raises(BadInputError, match="rails, line 1: there is no key 'knob'"):
        previewed(operations, "knob: {}")
    empty = previewed(operations, "{}")
    assert (empty.decisions, empty.since, empty.cut) == (0, None, False)


def test_the_whole_ledger_through_a_read_model_of_its_own_ends_where_the_present_one_is(
    ledger: Ledger, clock: Clock
) -> None:
    operations = begin(ledger, text="fallback: {drop: 10%, slots: 2, before: 4}\n", mode="autonomous", clock=clock)
    live(operations, clock, 30)
    end = ledger.head().seq + 1
    *_, (_, model) = replayed(operations, 1, end)
    with operations.looking() as now:
        assert model.gain() == now.gain()
        assert model.rails_refused == now.rails_refused
        assert model.history.frozen == now.history.frozen
        assert {n: len(c) for n, c in model.history.changes.items()} == {
            n: len(c) for n, c in now.history.changes.items()
        }
    assert first_since(ledger, NOON) == 1
    assert first_since(ledger, clock.now + timedelta(days=1)) == end
