"""What takes a change back where it is judged by stations that did not change."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import numpy as np
import pytest

from kinband import ConfigurationSpace
from kinband.arrays import FloatArray
from kinband.errors import BadInputError
from kinband.guardrails import Changed, ClockSet, Event, Fallback, Guard, History, Proposal, Rails, Rewarded, Verdict
from kinband.guardrails.falls import KEPT_LEARNED, Fall, Loss, Unjudged, fall_after_change
from kinband.guardrails.history import KEPT_REWARDS, Earned
from kinband.judging import HORIZON, LEAST_BEFORE, LEAST_CONTROLS, Comparison, Watch, looks, nearest

START, HOUR = datetime(2026, 3, 1, tzinfo=UTC), timedelta(hours=1)
STATIONS = [f"s{n:02d}" for n in range(14)]
MADE, END = 72, 96
"""Slots before the change of s00, and slots in all."""
SPACE = ConfigurationSpace(tilt=[0, 2, 4])
RAILS = Rails(fallback=Fallback(rate=0.05))


def city(seed: int = 0, *, slots: int = END) -> FloatArray:
    """Rewards with an evening that stations have more or less, (slots, 14)."""
    rng = np.random.default_rng(seed)
    evening = np.sin(np.arange(slots) * 2 * np.pi / 24)[:, None] * rng.uniform(0.05, 0.15, len(STATIONS))
    return np.asarray(0.8 + evening + 0.01 * rng.normal(size=(slots, len(STATIONS))))


def lossy(size: float, seed: int = 0) -> FloatArray:
    Y = city(seed)
    Y[MADE:, 0] -= size
    return Y


def hour(slot: float) -> datetime:
    return START + slot * HOUR


def earned(Y: FloatArray, *, when: Callable[[int, int], float] = lambda slot, _: slot) -> list[Event]:
    rows = [(slot, n) for slot in range(len(Y)) for n in range(Y.shape[1])]
    return [Rewarded(hour(when(k, n)), STATIONS[n], float(Y[k, n])) for k, n in rows if np.isfinite(Y[k, n])]


def changed(slot: float, station: str = "s00", *, arm: int = 1, before: int = 0, by: Any = "controller") -> Changed:
    return Changed(hour(slot), station, arm=arm, before=before, by=by)


CHANGE = changed(MADE)


def judged(events: Iterable[Event], rails: Rails = RAILS) -> Fall | Loss | Unjudged | None:
    return fall_after_change(rails, History.of(events), "s00", running=1)


def verdict_on(events: Iterable[Event], rails: Rails = RAILS) -> Verdict:
    return Guard(rails, SPACE).review([Proposal("s00", 1, (2,))], History.of(events), now=hour(END))["s00"]


def test_what_the_whole_city_loses_takes_nothing_back_and_what_the_station_loses_alone_does() -> None:
    dip = city()
    dip[MADE:] -= 0.3
    own = Rails(fallback=Fallback(drop=0.1, slots=3))
    assert verdict_on([*earned(dip), CHANGE]).outcome == "allowed"
    assert verdict_on([*earned(dip), CHANGE], own).outcome == "rolled back"  # the rule of own slots cannot tell
    verdict = verdict_on([*earned(lossy(0.1)), CHANGE])
    assert (verdict.outcome, verdict.arm) == ("rolled back", 0)


def test_the_verdict_says_how_much_was_lost_against_how_many_and_how_sure_that_is() -> None:
    Y = lossy(0.1)
    found = Comparison.of(Y[:MADE, 0], Y[:MADE, 1:])
    watch = Watch.begin(found)
    for row in Y[MADE:]:
        watch = watch if watch.lost else watch.told(float(row[0]), row[1:])
    assert verdict_on([*earned(Y), CHANGE]).reason == (
        f"back to tilt=0: its own reward lost {watch.loss:.3g} against 13 stations that did not change, over "
        f"{watch.lost} slot{'s' * (watch.lost > 1)}; chance does {watch.bound:.3g} at most in all but 5% of changes"
    )


def test_the_watch_is_that_of_the_judgement_of_changes_whatever_is_drawn() -> None:
    for seed in range(12):
        Y = lossy(0.02, seed)
        chosen = nearest(Y[:MADE, 0], Y[:MADE, 1:]) + 1
        watch = Watch.begin(Comparison.of(Y[:MADE, 0], Y[:MADE, chosen])).through(Y[MADE:, 0], Y[MADE:, chosen])
        loss = judged([*earned(Y), CHANGE])
        assert (loss.slots if isinstance(loss, Loss) else 0) == watch.lost


def test_who_changed_meanwhile_is_no_control_and_who_changed_before_is() -> None:
    Y = lossy(0.1)
    others = [changed(40 + n, STATIONS[n], by="operator") for n in range(1, 7)]
    loss = judged([*earned(Y), *others, CHANGE])
    assert isinstance(loss, Loss)
    assert loss.controls == 13  # within the last 24 slots before the change nobody else did
    others = [changed(MADE + n, STATIONS[n], by="operator") for n in range(1, 6)]
    loss = judged([*earned(Y), CHANGE, *others])
    assert isinstance(loss, Loss)
    assert loss.controls == 8
    same = [changed(MADE + n, STATIONS[n], arm=0) for n in range(1, 6)]
    loss = judged([*earned(Y), CHANGE, *same])  # told to run what it ran
    assert isinstance(loss, Loss)
    assert loss.controls == 13


def test_neighbours_are_watched_and_are_no_controls() -> None:
    Y = city()
    Y[MADE:, 1] -= 0.1
    rails = replace(RAILS, neighbours={"s00": frozenset({"s01", "s02"})})
    loss = judged([*earned(Y), CHANGE], rails)
    assert isinstance(loss, Loss)
    assert (loss.whose, loss.controls) == ("s01", 11)
    assert loss.words.startswith("the reward of its neighbour 's01' lost 0.")
    assert judged([*earned(Y), CHANGE, changed(MADE, "s01")], rails) is None  # it changed itself at once
    alone = Rails(fallback=Fallback(rate=0.05, neighbours=False), neighbours=rails.neighbours)
    assert judged([*earned(Y), CHANGE], alone) is None


def test_those_who_are_watched_share_the_rate() -> None:
    Y, rails = lossy(0.1), replace(RAILS, neighbours={"s00": frozenset({"s01", "s02", "s03", "s04"})})
    alone = replace(rails, fallback=Fallback(rate=0.01, neighbours=False))
    shared, own = judged([*earned(Y), CHANGE], rails), judged([*earned(Y), CHANGE], alone)
    assert isinstance(shared, Loss)
    assert isinstance(own, Loss)
    assert (shared.chance, shared.slots) == (own.chance, own.slots)
    assert (shared.rate, own.rate) == (0.05, 0.01)  # as the file has it


@pytest.mark.parametrize(
    ("known", "others", "words"),
    [
        (LEAST_BEFORE - 1, 13, f"in {LEAST_BEFORE - 1} slots of which the reward is known, and it takes 24"),
        (
            MADE,
            LEAST_CONTROLS - 1,
            "only 7 of the stations that are no neighbours ran one configuration all the while",
        ),
        (LEAST_BEFORE, LEAST_CONTROLS, ""),
    ],
)
def test_too_little_to_judge_by_is_said_and_the_rule_of_own_slots_counts_where_it_is_given(
    known: int, others: int, words: str
) -> None:
    events = [*earned(lossy(0.4)[MADE - known :, : others + 1], when=lambda slot, _: slot + MADE - known), CHANGE]
    verdict, both = verdict_on(events), Rails(fallback=Fallback(drop=0.1, slots=3, rate=0.05))
    assert (verdict.outcome == "rolled back") == (not words)
    assert words in verdict.reason
    assert ("its latest change is not judged: " in verdict.reason) == bool(words)
    other = verdict_on(events, both)
    assert other.outcome == "rolled back"
    assert ("by its own slots" in other.reason) == bool(words)
    assert words in other.reason


def test_controls_that_never_vary_are_said_to() -> None:
    Y = lossy(0.1)
    Y[:, 1:] = 1.0
    found = judged([*earned(Y), CHANGE])
    assert isinstance(found, Unjudged)
    assert "never vary" in found.why


def test_a_slot_counts_once_half_of_the_others_have_told_theirs() -> None:
    Y = lossy(0.3)
    waiting = Y.copy()
    waiting[MADE:, 2:] = np.nan  # an evening may be why, and nobody can say
    assert judged([*earned(waiting), CHANGE]) is None
    told = set(earned(waiting))
    late = [event for event in earned(Y) if event not in told]
    assert isinstance(judged([*earned(waiting), CHANGE, *late]), Loss)


def test_some_slots_that_are_missing_or_told_twice_change_little() -> None:
    Y, rng = lossy(0.1), np.random.default_rng(3)
    Y[:, 1:][rng.random((END, 13)) < 0.1] = np.nan
    Y[MADE + 1, 0] = np.nan
    again = [Rewarded(hour(3), "s04", 0.1), Rewarded(hour(3), "s04", float(city()[3, 4]))]
    loss = judged([*earned(Y), *again, CHANGE])
    assert isinstance(loss, Loss)
    assert loss.lost == pytest.approx(0.1, abs=0.04)


def test_slots_that_begin_when_they_are_asked_for_are_held_against_those_nearest() -> None:
    apart = earned(lossy(0.1), when=lambda slot, n: slot + 0.03 * n)
    together, loss = judged([*earned(lossy(0.1)), CHANGE]), judged([*apart, CHANGE])
    assert isinstance(together, Loss)
    assert isinstance(loss, Loss)
    assert loss.lost == pytest.approx(together.lost, abs=1e-9)


def test_slots_are_watched_for_as_long_as_the_file_says() -> None:
    Y = city()
    Y[MADE + 6 :, 0] -= 0.3
    short, long = (Rails(fallback=Fallback(rate=0.05, within=n * HOUR)) for n in (6, 12))
    assert judged([*earned(Y), CHANGE], short) is None
    assert isinstance(judged([*earned(Y), CHANGE], long), Loss)
    days = Y[np.arange(END + 24 * 12) % END]
    days[END:, 0] -= 0.3
    later = changed(MADE, before=0)
    assert judged([*earned(days), later], long) is None  # twelve slots of watch, then as many to make up for it
    assert HORIZON == 96


def test_a_loss_that_went_away_before_it_was_taken_back_is_none() -> None:
    Y = lossy(0.3)
    Y[MADE + 3 :, 0] += 0.6
    assert isinstance(judged([*earned(Y[: MADE + 3]), CHANGE]), Loss)
    assert judged([*earned(Y), CHANGE]) is None


def test_a_clock_that_was_set_right_leaves_the_comparison_as_it_is() -> None:
    Y, ahead = lossy(0.1), 1_000
    before = earned(Y[:MADE], when=lambda slot, _: slot + ahead)
    after = earned(Y[MADE:], when=lambda slot, _: slot + MADE)
    made = [ClockSet(hour(MADE)), *after, changed(MADE)]
    loss, plain = judged([*before, *made]), judged([*earned(Y), CHANGE])
    assert isinstance(plain, Loss)
    assert loss == replace(plain, change=replace(plain.change, epoch=1))


def test_a_guard_that_has_reviewed_before_says_what_a_new_one_says_of_the_same_events() -> None:
    """Late, missing, corrected rewards, in chunks: what is kept along the way changes no verdict."""
    rng = Random(5)
    Y = lossy(0.02, seed=4)
    kept = [event for event in earned(Y) if rng.random() > 0.03]
    shuffled = sorted(kept, key=lambda event: event.at + rng.choice([0, 0, 0, 1, 5]) * HOUR)
    again = [Rewarded(event.at, f"s{rng.randrange(14):02d}", 0.7) for event in rng.sample(kept, 30)]
    events: list[Event] = [*shuffled[: 14 * MADE], CHANGE, *shuffled[14 * MADE :], *again]
    guard, past = Guard(RAILS, SPACE), History()
    done = 0
    for end in range(14 * MADE - 40, len(events) + 33, 33):
        past, done = past.after(events[done:end]), end
        proposals = [Proposal("s00", None, (1,))]
        warm = guard.review(proposals, past, now=hour(END))
        cold = Guard(RAILS, SPACE).review(proposals, History.of(events[:end]), now=hour(END))
        assert warm == cold


def test_arrays_of_a_history_are_those_of_its_rewards_however_they_came() -> None:
    rng, past = Random(1), History()
    for _ in range(40):
        slots = [rng.randrange(4 * KEPT_REWARDS) for _ in range(rng.randrange(200))]
        past = past.after(Rewarded(hour(slot), "s00", slot + rng.random()) for slot in slots)
        if rng.random() < 0.5:
            past = past.after([Rewarded(past.time or hour(rng.randrange(9_000)), "s00", 1.0)])
        found, fresh = past.earned("s00"), Earned.of(past.rewards["s00"])
        assert np.array_equal(found.times, fresh.times)
        assert np.array_equal(found.rewards, fresh.rewards)
        assert (np.diff(found.times) > 0).all()


def test_the_cache_is_bounded_and_what_was_learned_is_found_in_it() -> None:
    learned: dict[bytes, Comparison | None] = {bytes([n % 256, n // 256]): None for n in range(KEPT_LEARNED)}
    past = History.of([*earned(lossy(0.1)), CHANGE])
    first = fall_after_change(RAILS, past, "s00", running=1, learned=learned)
    assert len(learned) == KEPT_LEARNED
    again = fall_after_change(RAILS, past, "s00", running=1, learned=learned)
    assert again == first is not None


@pytest.mark.parametrize(
    ("options", "words"),
    [({}, "needs rate"), ({"rate": 0.0}, "above 0 and below 50%"), ({"rate": 0.5}, "above 0 and below 50%")],
)
def test_a_fallback_without_anything_to_judge_by_is_refused(options: dict[str, float], words: str) -> None:
    with pytest.raises(BadInputError, match=words):
        Fallback(**options)  # type: ignore[arg-type]


def test_looks_do_not_go_beyond_the_watch() -> None:
    assert looks(1) == (1,)
