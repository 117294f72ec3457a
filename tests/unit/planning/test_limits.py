"""Guard rails in plans: each is held, or said to be judged later."""

from dataclasses import fields
from datetime import timedelta

from kinband import ConfigurationSpace
from kinband.guardrails import KnobLimit, Rails
from kinband.planning.limits import LATER, Limits

HELD = {"stop", "knobs", "stations", "per_round", "neighbours_together", "neighbours", "freeze"}
NO_LIMIT = {"zone", "round", "fallback"}  # of times, of what a round is (a plan is one), of what happens afterwards


def said(rails: Rails) -> str:
    return " ".join(Limits(ConfigurationSpace(tilt=[0, 2]), {}, rails).in_words())


def test_of_every_rail_it_is_known_what_plans_make_of_it() -> None:
    assert {one.name for one in fields(Rails)} == HELD | set(LATER) | NO_LIMIT
    assert not HELD & set(LATER)


def test_rails_that_a_plan_cannot_hold_are_named() -> None:
    assert said(Rails(knobs={"tilt": KnobLimit(high=2)})) == "Guard rails: tilt is at most 2."
    found = said(Rails(min_time=timedelta(hours=2), per_day=1))
    words = "least time between changes and changes in a day"
    assert found == f"Not held by the plan, but judged when a change is carried out: {words}."
