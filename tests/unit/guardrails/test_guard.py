"""The guard's verdicts, one rail at a time, by hand."""

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from kinband import ConfigurationSpace, Decision
from kinband.errors import BadInputError, NotFoundError
from kinband.guardrails import (
    CalledOff,
    Changed,
    ClockSet,
    Event,
    Fallback,
    Freeze,
    Frozen,
    Guard,
    History,
    KnobLimit,
    Proposal,
    Rails,
    Resumed,
    Rewarded,
    Stopped,
    Thawed,
    Verdict,
    Window,
    changes_of,
    event_from,
)
from kinband.records import Alternatives

SPACE = ConfigurationSpace(tilt=[0, 2, 4, 6, 8])
NOON = datetime(2026, 3, 4, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)


def verdict_on(
    rails: Rails, arms: Sequence[int], *, running: int | None = 2, past: Sequence[Event] = (), now: datetime = NOON
) -> Verdict:
    return Guard(rails, SPACE).review([Proposal("a", running, arms)], History.of(past), now=now)["a"]


def changed(hours: float, arm: int, before: int, *, station: str = "a", by: Any = "controller") -> Changed:
    return Changed(NOON + hours * HOUR, station, arm, before, by)


def earned(rewards: dict[float, float], station: str = "a") -> list[Event]:
    return [Rewarded(NOON + hours * HOUR, station, reward) for hours, reward in rewards.items()]


# --- Outcomes -----------------------------------------------------------------------------------------------


def test_without_rails_the_first_choice_runs() -> None:
    verdict = verdict_on(Rails(), [4, 3])
    assert (verdict.outcome, verdict.arm, verdict.refusals) == ("allowed", 4, ())


def test_the_next_best_that_may_run_takes_the_place_of_what_may_not() -> None:
    verdict = verdict_on(Rails(knobs={"tilt": KnobLimit(high=5)}), [4, 3, 1, 0])
    assert (verdict.outcome, verdict.arm, verdict.asked) == ("replaced", 1, 4)
    assert [(refusal.arm, refusal.code) for refusal in verdict.refusals] == [(4, "range"), (3, "range")]
    assert verdict.reason == "tilt=2 in place of tilt=8: tilt=8 is not at most 5"


def test_what_runs_is_kept_rather_than_something_that_is_liked_less() -> None:
    verdict = verdict_on(Rails(knobs={"tilt": KnobLimit(high=5)}), [4, 2, 1])
    assert (verdict.outcome, verdict.arm, verdict.changes) == ("refused", 2, False)
    assert verdict.reason == "keeps tilt=4: tilt=8 is not at most 5"


def test_what_runs_is_kept_when_nothing_is_allowed_or_nothing_is_asked_for() -> None:
    verdict = verdict_on(Rails(knobs={"tilt": KnobLimit(high=5)}), [4, 3])
    assert (verdict.outcome, verdict.arm) == ("refused", 2)
    for arms in ([], [2, 4]):
        verdict = verdict_on(Rails(stop=True), arms)
        assert (verdict.outcome, verdict.arm, verdict.refusals) == ("allowed", 2, ())


def test_verdicts_and_their_changes_go_through_json() -> None:
    verdict = verdict_on(Rails(knobs={"tilt": KnobLimit(high=5)}), list(np.array([4, 1])))
    assert Verdict.from_dict(json.loads(json.dumps(verdict.to_dict()))) == verdict
    (change,) = changes_of([verdict], NOON)
    assert (change.arm, change.before, change.by) == (1, 2, "controller")
    assert event_from(json.loads(json.dumps(change.to_dict()))) == change


def test_thousands_of_refusals_are_not_all_listed() -> None:
    space = ConfigurationSpace(tilt=range(1000))
    guard = Guard(Rails(knobs={"tilt": KnobLimit(high=3)}), space)
    verdict = guard.review([Proposal("a", 0, range(999, 2, -1))], History(), now=NOON)["a"]
    assert verdict.arm == 3
    assert 0 < len(verdict.refusals) < 100


def test_a_decision_becomes_a_proposal_with_its_alternatives_behind_it() -> None:
    ranked = Alternatives([(4, 0.9, 0.1, 1.0), (3, 0.8, 0.1, 0.9), (1, 0.7, 0.1, 0.8)], SPACE)
    decision = Decision("d1", "a", 3, SPACE[3], 0.8, 0.1, 0.9, alternatives=ranked)
    assert Proposal.of(decision, running=2) == Proposal("a", 2, (3, 4, 1))


# --- One rail at a time -------------------------------------------------------------------------------------


def test_the_stop_switches_stop_everything() -> None:
    stop, go = Stopped(NOON, why="outage"), Resumed(NOON)
    assert verdict_on(Rails(stop=True), [3], past=[go]).codes == ("stop",)
    assert verdict_on(Rails(), [3], past=[stop]).reason == "keeps tilt=4: everything is stopped: outage"
    assert verdict_on(Rails(), [3], past=[stop, go]).arm == 3


def test_frozen_stations_are_left_alone_until_their_day_is_over() -> None:
    rails = Rails(zone=ZoneInfo("Europe/Berlin"), freeze=(Freeze("a", until=date(2026, 3, 4)),))
    assert verdict_on(rails, [3], now=datetime(2026, 3, 4, 22, 59, tzinfo=UTC)).codes == ("freeze",)
    assert verdict_on(rails, [3], now=datetime(2026, 3, 4, 23, 0, tzinfo=UTC)).arm == 3
    assert verdict_on(Rails(freeze=(Freeze("a"),)), [3], past=[Thawed(NOON, "a")]).codes == ("freeze",)
    assert verdict_on(Rails(), [3], past=[Frozen(NOON, "a")]).codes == ("freeze",)
    assert verdict_on(Rails(), [3], past=[Frozen(NOON, "a"), Thawed(NOON, "a")]).arm == 3


def test_windows_hold_for_the_stations_they_name() -> None:
    lunch, night = Window(start=11 * 60, end=14 * 60), Window(start=22 * 60, end=5 * 60)
    elsewhere = Window(start=11 * 60, end=14 * 60, stations=frozenset({"b"}))
    assert verdict_on(Rails(forbidden=(night, lunch)), [3]).codes == ("forbidden",)
    assert verdict_on(Rails(forbidden=(night, elsewhere)), [3]).arm == 3
    assert verdict_on(Rails(maintenance=(night, lunch)), [3]).arm == 3
    assert verdict_on(Rails(maintenance=(night, elsewhere)), [3]).codes == ("maintenance",)


@pytest.mark.parametrize(("hours", "allowed"), [(-3.9, False), (-4, True), (0, False), (0.01, False)])
def test_changes_keep_their_distance(hours: float, allowed: bool) -> None:
    verdict = verdict_on(Rails(min_time=4 * HOUR), [3], past=[changed(hours, 2, 1)])
    assert verdict.codes == (() if allowed else ("min_time",))


@pytest.mark.parametrize("ahead", [0.02, 4, 4000])
def test_while_the_clock_is_behind_the_history_only_roll_backs_are_made(ahead: float) -> None:
    frozen: Event = Frozen(NOON + ahead * HOUR, "b")  # whatever was recorded, of whomever
    verdict = verdict_on(Rails(min_time=HOUR), [3], past=[changed(-9, 2, 1), frozen])
    assert (verdict.arm, verdict.codes) == (2, ("clock",))
    assert "which is before the latest event" in verdict.reason
    fell: list[Event] = [*earned({-8: 0.9, -6: 0.2}), changed(-7, 2, 1), frozen]
    assert verdict_on(Rails(fallback=Fallback(drop=0.1, slots=1)), [3], past=fell).outcome == "rolled back"


def test_a_change_made_while_the_clock_was_ahead_is_counted_from_when_it_was_set_right() -> None:
    past: list[Event] = [changed(100, 2, 1), ClockSet(NOON)]
    assert verdict_on(Rails(min_time=HOUR), [3], past=past, now=NOON + 0.9 * HOUR).codes == ("min_time",)
    assert verdict_on(Rails(min_time=HOUR), [3], past=past, now=NOON + HOUR).arm == 3
    full = Rails(per_day=1)
    assert verdict_on(full, [3], past=past, now=NOON + 11 * HOUR).codes == ("per_day",)
    assert verdict_on(full, [3], past=past, now=NOON + 12 * HOUR).arm == 3


@pytest.mark.parametrize("within", [None, 3 * HOUR])
def test_a_change_made_while_the_clock_was_ahead_is_taken_back_when_rewards_fall(within: timedelta | None) -> None:
    rails = Rails(fallback=Fallback(drop=0.1, slots=2, within=within))
    ahead: list[Event] = [*earned({99: 0.9}), changed(100, 2, 1), *earned({101: 0.2})]
    late = Rewarded(NOON + 102 * HOUR, "a", 0.9, epoch=0)  # told after the clock was set right, of a slot before that
    past: list[Event] = [*ahead, ClockSet(NOON), *earned({1: 0.2, 2: 0.2})]
    assert verdict_on(rails, [3], past=past, now=NOON + 3 * HOUR).outcome == "rolled back"
    assert verdict_on(rails, [3], past=[*ahead, ClockSet(NOON), *earned({1: 0.2})], now=NOON + HOUR).arm == 1
    assert verdict_on(rails, [3], past=[*ahead, ClockSet(NOON), late, *earned({1: 0.2})], now=NOON + HOUR).arm == 3


def test_the_distance_of_changes_is_true_time_in_the_night_of_a_clock_change() -> None:
    berlin = ZoneInfo("Europe/Berlin")  # 02:00 becomes 03:00: from 01:30 to 03:30 is one hour
    past = [Changed(datetime(2026, 3, 29, 1, 30, tzinfo=berlin), "a", arm=2, before=1)]
    rails = Rails(min_time=2 * HOUR)
    assert verdict_on(rails, [3], past=past, now=datetime(2026, 3, 29, 4, 29, tzinfo=berlin)).codes == ("min_time",)
    assert verdict_on(rails, [3], past=past, now=datetime(2026, 3, 29, 4, 30, tzinfo=berlin)).arm == 3


def test_days_are_local() -> None:
    berlin = Rails(zone=ZoneInfo("Europe/Berlin"), per_day=1)
    past = [Changed(datetime(2026, 3, 4, 23, 30, tzinfo=UTC), "a", arm=2, before=1)]  # already the 5th in Berlin
    evening = [Changed(datetime(2026, 3, 4, 22, 30, tzinfo=UTC), "a", arm=2, before=1)]  # still the 4th
    assert verdict_on(berlin, [3], past=evening, now=datetime(2026, 3, 4, 23, tzinfo=UTC)).arm == 3
    assert verdict_on(berlin, [3], past=past, now=datetime(2026, 3, 5, 22, 59, tzinfo=UTC)).codes == ("per_day",)
    assert verdict_on(berlin, [3], past=past, now=datetime(2026, 3, 5, 23, 0, tzinfo=UTC)).arm == 3


@pytest.mark.parametrize("back", [False, True])
def test_an_order_holds_until_a_window_closes(back: bool) -> None:
    lunch = Window(start=11 * 60, end=12 * 60 + 3, why="lunch")
    guard = Guard(Rails(maintenance=(lunch,), fallback=Fallback(0.1, 1, outside_windows=True)), SPACE)
    held = guard.holding("a", History(), now=NOON, span=HOUR / 12, back="a" if back else "")["a"]
    assert held == (None, NOON + timedelta(minutes=5 if back else 3))
    refusal, until = guard.holding("a", History(stopped="storm"), now=NOON, span=HOUR / 12)["a"]
    assert (refusal and refusal.reason, until) == ("everything is stopped: storm", NOON + HOUR / 12)


def test_a_local_day_of_twenty_five_hours_is_one_day() -> None:
    rails = Rails(zone=ZoneInfo("Europe/Berlin"), per_day=1)
    past = [Changed(datetime(2026, 10, 24, 22, 0, tzinfo=UTC), "a", arm=2, before=1)]  # 25 October, 00:00
    assert verdict_on(rails, [3], past=past, now=datetime(2026, 10, 25, 22, 59, tzinfo=UTC)).codes == ("per_day",)
    assert verdict_on(rails, [3], past=past, now=datetime(2026, 10, 25, 23, 0, tzinfo=UTC)).arm == 3


def test_a_round_is_full_across_reviews_too() -> None:
    rails = Rails(per_round=2, round=HOUR)
    past = [changed(-0.5, 1, 0, station="b"), changed(-1, 1, 0, station="c")]
    assert verdict_on(rails, [3], past=past).arm == 3
    assert verdict_on(rails, [3], past=[*past, changed(0, 1, 0, station="d")]).codes == ("per_round",)


def test_neighbours_do_not_change_in_one_round_whoever_names_whom() -> None:
    rails = Rails(neighbours={"b": frozenset({"a"})}, neighbours_together=False, round=HOUR)
    wanted = [Proposal("a", 2, [3]), Proposal("b", 2, [3]), Proposal("c", 2, [3])]
    verdicts = Guard(rails, SPACE).review(wanted, History(), now=NOON)
    assert [verdict.changes for verdict in verdicts.values()] == [True, False, True]
    assert verdicts["b"].reason == "keeps tilt=4: its neighbour 'a' changes in the same round"
    assert verdict_on(rails, [3], past=[changed(-0.9, 1, 0, station="b")]).codes == ("neighbours",)
    assert verdict_on(rails, [3], past=[changed(-1, 1, 0, station="b")]).arm == 3


def test_a_station_is_held_to_its_own_limits_and_to_those_of_all() -> None:
    rails = Rails(
        knobs={"tilt": KnobLimit(high=6)}, stations={"a": {"tilt": KnobLimit(low=2)}, "b": {"tilt": KnobLimit(high=0)}}
    )
    assert [verdict_on(rails, [arm]).arm for arm in range(5)] == [2, 1, 2, 3, 2]


def test_steps_start_from_what_runs() -> None:
    rails = Rails(knobs={"tilt": KnobLimit(step=2)})
    assert [verdict_on(rails, [arm]).arm for arm in range(5)] == [2, 1, 2, 3, 2]
    assert verdict_on(rails, [3], running=None).codes == ("step",)
    assert verdict_on(rails, [3], running=None).arm is None
    assert verdict_on(rails, [3], running=None, past=[changed(-1, 2, 0)]).arm == 3
    assert verdict_on(Rails(), [3], running=None).arm == 3


def test_sums_of_steps_are_not_outside_by_rounding() -> None:
    space = ConfigurationSpace(offset=[0.0, 0.1, 0.1 * 3])
    guard = Guard(Rails(knobs={"offset": KnobLimit(high=0.3, step=0.2)}), space)
    assert guard.review([Proposal("a", 1, [2])], History(), now=NOON)["a"].arm == 2


def test_categories_are_limited_by_their_values() -> None:
    space = ConfigurationSpace(mode=["pf", "rr", "max"], idle=[False, True])
    guard = Guard(Rails(knobs={"mode": KnobLimit(values=frozenset({"pf", "rr"})), "idle": KnobLimit(step=0)}), space)
    allowed = [guard.review([Proposal("a", 0, [arm])], History(), now=NOON)["a"].changes for arm in range(6)]
    assert [space[arm] for arm in range(6) if allowed[arm]] == [{"mode": "rr", "idle": False}]


def test_a_station_that_runs_what_nobody_recorded_does_not_change() -> None:
    verdict = verdict_on(Rails(), [3], past=[changed(-9, 1, 0)])
    assert (verdict.codes, verdict.arm) == (("running",), 2)
    assert verdict_on(Rails(), [3], past=[changed(-9, 1, 0), changed(-8, 2, 1, by="operator")]).arm == 3


# --- Fallback -----------------------------------------------------------------------------------------------

FELL = [*earned({-5: 0.8, -4: 0.9, -3: 1.0, -2: 0.8, -1: 0.7}), changed(-2, 2, 4)]
"""The mean of three slots before the change is 0.9, the slots since are 0.1 and 0.2 below."""


def with_fallback(**options: Any) -> Rails:
    return Rails(fallback=Fallback(**{"drop": 0.09, "slots": 2, **options}))


def test_a_station_returns_to_what_it_ran_before_its_rewards_fell() -> None:
    verdict = verdict_on(with_fallback(), [3], past=FELL)
    assert (verdict.outcome, verdict.arm, verdict.asked) == ("rolled back", 4, 3)
    assert verdict.reason == "back to tilt=8: its own reward fell from 0.9 to at most 0.8 for 2 slot(s)"


@pytest.mark.parametrize(
    ("options", "falls"),
    [
        ({"drop": 0.1}, False),  # not by more
        ({"slots": 3}, False),  # not for so long
        ({"drop": 0.11, "slots": 1}, True),
        ({"drop": 0.115, "share": True}, False),  # 0.1035 of 0.9
        ({"drop": 0.11, "share": True}, True),  # 0.099 of 0.9
        ({"drop": 0.12, "before": 1, "slots": 2}, True),  # from 1.0
        ({"own": False}, False),
        ({"within": HOUR}, False),  # the second slot is not watched
        ({"within": HOUR, "slots": 1}, True),
    ],
)
def test_a_fall_is_as_deep_and_as_long_as_declared(options: dict[str, Any], falls: bool) -> None:
    assert (verdict_on(with_fallback(**options), [3], past=FELL).outcome == "rolled back") is falls


@pytest.mark.parametrize(("limit", "arm"), [({"low": 2}, 4), ({"low": 2, "high": 6}, 1), ({"values": {4}}, 2)])
def test_a_fall_leads_back_to_what_ran_last_within_the_ranges(limit: dict[str, Any], arm: int) -> None:
    past = [changed(-9, 1, 0), changed(-8, 3, 1), changed(-7, 1, 3, by="roll-back"), changed(-6, 4, 1), *FELL]
    rails = replace(with_fallback(), knobs={"tilt": KnobLimit(**limit)})
    verdict = verdict_on(rails, [2], past=past)
    assert verdict.arm == arm  # tilt is twice the arm; 3 was taken back, and 2 runs
    assert (verdict.outcome == "rolled back") == (arm != 2)
    assert verdict.codes == (() if arm != 2 else ("fallback", "range"))


def test_rewards_that_recover_take_nothing_back() -> None:
    assert verdict_on(with_fallback(), [3], past=[*FELL, *earned({0: 0.9})]).arm == 3


def test_a_corrected_reward_counts_as_corrected() -> None:
    assert verdict_on(with_fallback(), [3], past=[*FELL, *earned({-1: 0.9})]).arm == 3


@pytest.mark.parametrize("by", ["operator", "roll-back"])
def test_what_a_person_wanted_and_what_was_taken_back_stay(by: str) -> None:
    past = [*earned({-3: 0.9, -2: 0.1, -1: 0.1}), changed(-2, 2, 4, by=by)]
    assert verdict_on(with_fallback(), [3], past=past).outcome == "allowed"


def test_nothing_is_taken_back_without_rewards_from_before() -> None:
    earlier = changed(-2.5, 4, 1)  # what ran until half an hour before earned nothing yet
    assert verdict_on(with_fallback(), [3], past=[*FELL[:-1], earlier, FELL[-1]]).outcome == "allowed"


def test_what_was_taken_back_is_not_tried_again_for_a_while() -> None:
    past = [*FELL, changed(0, 4, 2, by="roll-back")]
    rails = with_fallback(retry_after=5 * HOUR)
    again = verdict_on(rails, [2, 3], running=4, past=past, now=NOON + 4.9 * HOUR)
    assert (again.outcome, again.arm, again.codes) == ("replaced", 3, ("retry",))
    assert verdict_on(rails, [2, 3], running=4, past=past, now=NOON + 5 * HOUR).arm == 2


def test_a_neighbours_fall_is_seen_until_the_neighbour_changes_itself() -> None:
    rails = Rails(fallback=Fallback(drop=0.1, slots=2), neighbours={"b": frozenset({"a"})})
    past = [*earned({-3: 0.9, -2: 0.5, -1: 0.6}, "b"), changed(-2, 2, 4)]
    verdict = verdict_on(rails, [3], past=past)
    assert (verdict.outcome, verdict.arm) == ("rolled back", 4)
    assert "its neighbour 'b' fell from 0.9 to at most 0.6" in verdict.reason
    assert verdict_on(rails, [3], past=[*past, changed(-1.5, 0, 1, station="b")]).arm == 3


HARMLESS: dict[str, Any] = {
    "min_time": 9 * HOUR,
    "per_day": 1,
    "per_round": 0,
    "round": 9 * HOUR,
    "knobs": {"tilt": KnobLimit(step=1)},
    "neighbours": {"a": frozenset({"b"})},
    "neighbours_together": False,
}


def test_limits_that_keep_changes_rare_do_not_hold_up_a_roll_back() -> None:
    rails = Rails(fallback=Fallback(drop=0.05, slots=2), **HARMLESS)
    past = [*FELL, changed(-0.1, 1, 0, station="b")]
    assert verdict_on(rails, [3], past=past).outcome == "rolled back"
    assert set(verdict_on(Rails(**HARMLESS), [3], past=past).codes) >= {
        "min_time",
        "per_day",
        "per_round",
        "neighbours",
    }


@pytest.mark.parametrize(
    ("rails", "code"),
    [
        ({"stop": True}, "stop"),
        ({"freeze": (Freeze("a"),)}, "freeze"),
        ({"forbidden": (Window(),)}, "forbidden"),
        ({"maintenance": (Window(start=60, end=120),)}, "maintenance"),
        ({"knobs": {"tilt": KnobLimit(high=7)}}, "range"),
    ],
)
def test_what_a_person_decided_holds_up_a_roll_back_and_the_verdict_says_so(rails: dict[str, Any], code: str) -> None:
    verdict = verdict_on(Rails(fallback=Fallback(drop=0.05, slots=2), **rails), [2], past=FELL)
    assert (verdict.outcome, verdict.arm) == ("refused", 2)
    assert verdict.codes[:2] == ("fallback", code)
    assert "cannot return to tilt=8" in verdict.reason


def test_a_roll_back_is_made_outside_windows_where_the_rails_let_it() -> None:
    rails = Rails(fallback=Fallback(drop=0.05, slots=2, outside_windows=True), maintenance=(Window(start=60, end=120),))
    assert verdict_on(rails, [3], past=FELL).outcome == "rolled back"


def test_roll_backs_come_before_changes_that_were_proposed_earlier() -> None:
    rails = Rails(fallback=Fallback(drop=0.05, slots=2), per_round=1, round=HOUR)
    wanted = [Proposal("b", 2, [3]), Proposal("a", 2, [3])]
    verdicts = Guard(rails, SPACE).review(wanted, History.of(FELL), now=NOON)
    assert list(verdicts) == ["b", "a"]
    assert verdicts["a"].outcome == "rolled back"
    assert verdicts["b"].codes == ("per_round",)


# --- History and doors --------------------------------------------------------------------------------------


def test_a_change_that_was_called_off_does_not_count() -> None:
    past: list[Event] = [changed(-9, 2, 0), changed(-1, 4, 2), CalledOff(NOON, "a")]
    assert verdict_on(Rails(min_time=4 * HOUR), [3], past=past).arm == 3


def test_a_history_does_not_change() -> None:
    past = History.of(FELL)
    later = past.after(earned({0: 0.5}))
    assert len(past.rewards["a"]) + 1 == len(later.rewards["a"])


@pytest.mark.parametrize(
    ("proposals", "words"),
    [
        ([Proposal("a", 0, [1]), Proposal("a", 0, [2])], "'a' is proposed twice"),
        ([Proposal("a", 0, [5])], "no configuration 5"),
        ([Proposal("a", -1, [1])], "no configuration -1"),
    ],
)
def test_a_review_refuses_proposals_that_make_no_sense(proposals: list[Proposal], words: str) -> None:
    with pytest.raises(BadInputError, match=words):
        Guard(Rails(), SPACE).review(proposals, History(), now=NOON)


def test_times_must_say_their_zone() -> None:
    with pytest.raises(BadInputError, match="now must be a datetime with a time zone"):
        Guard(Rails(), SPACE).review([], History(), now=datetime(2026, 3, 4))
    with pytest.raises(BadInputError, match="time of an event"):
        Stopped(datetime(2026, 3, 4))


@pytest.mark.parametrize(
    ("saved", "words"),
    [
        ({"event": "exploded", "at": "2026-03-04T00:00:00+00:00"}, "exploded"),
        ({"event": "stopped", "at": "yesterday"}, "yesterday"),
        ({"event": "stopped"}, "at"),
        ({"event": "thawed", "at": "2026-03-04T00:00:00+00:00"}, "station"),
        ({"event": "rewarded", "at": "2026-03-04T00:00:00+00:00", "station": "a", "reward": "nan"}, "finite"),
        ({"event": "changed", "at": "2026-03-04T00:00:00+00:00", "station": "a", "arm": -1, "before": 0}, "-1"),
    ],
)
def test_events_that_are_none_are_refused(saved: dict[str, Any], words: str) -> None:
    with pytest.raises(BadInputError, match=words):
        event_from(saved)


def test_a_guard_refuses_rails_that_do_not_fit_the_space() -> None:
    with pytest.raises(NotFoundError, match="no knob 'power'"):
        Guard(Rails(knobs={"power": KnobLimit(high=5)}), SPACE)
    limits = {"tilt": KnobLimit(high=3)}
    with pytest.raises(BadInputError, match="leave station 'b' no configuration"):
        Guard(Rails(knobs=limits, stations={"b": {"tilt": KnobLimit(low=4)}}), SPACE)
