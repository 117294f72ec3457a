"""The page of a plan: all of it is there, nothing in it runs, and thousands of stations fit."""

import re
from dataclasses import replace
from datetime import UTC, datetime
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, get_args

import pytest

from kinband.planning import Change, ChangePlan, LeftAlone, Origin, Support
from kinband.planning.page import LISTED, TO_DO, plan_map, plan_page
from kinband.planning.plan import Why, mean_gain_of
from kinband.planning.reasons import evidence_reason, gain_reason, promise, worst_reason
from kinband.stats import Estimate

VOID = {"meta", "input", "br"}
HOSTILE = ("<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "=cmd|' /C calc'!A0", "a & b", "{{ 7 * 7 }}")


class Checked(HTMLParser):
    """Reads a page, and holds it against what pages of the house are."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.texts: list[str] = []
        self.feed(page)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        assert tag not in ("script", "img", "link", "iframe", "object", "form", "base")
        for name, value in attrs:
            assert not name.startswith("on")
            assert name not in ("src", "style")
            assert name != "href" or (value or "").startswith("#")
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.texts).split())


def change(station: str = "a", gain: float = 0.1, **changed: Any) -> Change:
    made = Change(
        station, {"tilt": 2}, {"tilt": 4}, expected=0.8 + gain, expected_unchanged=0.8, std=0.02,
        gain=Estimate(gain, gain - 0.04, gain + 0.04), std_alone=0.03, own_rows=40, borrowed=0.3,
        lenders=(("b", 0.2), ("c", 0.1)), reason="A good reason.", support=Support(40, 900, 31),
    )  # fmt: skip
    return replace(made, **changed)


def left(station: str = "z", why: Why = "best already") -> LeftAlone:
    return LeftAlone(station, {"tilt": 2}, why, "Nothing is better.")


def plan(*changes: Change, others: tuple[LeftAlone, ...] = (), **about: Any) -> ChangePlan:
    return ChangePlan(("tilt",), changes, others, **about)


def test_the_page_says_what_changes_what_it_brings_and_what_is_left_alone() -> None:
    made = plan(change("a", 0.3), change("b", 0.1), others=(left(), left("y", "never tried")), reward="good_share")
    origin = Origin(
        datetime(2026, 5, 4, 21, 5, tzinfo=UTC), "export.csv", ("1,200 rows of 4 stations.",), notes=("Few.",)
    )
    text = Checked(plan_page(made, origin)).text
    for said in (
        "2 of 4 stations to change",
        "made on 2026-05-04 at 21:05 UTC from export.csv",
        "+0.20 in good_share, from 0.80 to 1.00; 95 %: +0.16 to +0.24",
        "1,200 rows of 4 stations.",
        "Few.",
        "+0.30 +0.26 to +0.34",
        "40 here 900 at 31 others",
        "30 % b",
        "A good reason.",
        "never tried 1 let a few stations try other settings",
        "z 2 best already Nothing is better.",
        "set_tilt",
        "(tilt 2 at 2 stations)",
    ):
        assert said in text, said


def test_the_interval_of_a_mean_is_that_of_gains_which_all_err_alike() -> None:
    mean = mean_gain_of([Estimate(0.1, 0.0, 0.2), Estimate(0.3, 0.0, 0.6)])
    assert (mean.value, mean.low, mean.high) == pytest.approx((0.2, 0.0, 0.4))
    assert not mean_gain_of([Estimate(0.1, 0.0, 0.2), Estimate(0.3)]).known
    assert str(plan().gain.value) == "nan"


def test_gains_by_hour_are_means_over_the_stations_that_have_the_hour() -> None:
    one = change("a", by_hour={7: Estimate(0.2, 0.1, 0.3), 20: Estimate(-0.4, -0.5, -0.3)})
    made = plan(one, change("b", by_hour={7: Estimate(0.4, 0.3, 0.5)}))
    assert {hour: gain.value for hour, gain in made.by_hour.items()} == pytest.approx({7: 0.3, 20: -0.4})
    text = Checked(plan_page(made, Origin())).text
    assert "Worst hour of the day 20 h" in text
    assert "20 h: −0.40 (−0.50 to −0.30)" in text
    worst = "Worst hour of the day: 20 h, with -0.40 (95 % interval -0.50 to -0.30)."
    assert made.in_words()[1] == f"{worst} 1 of 2 loses in some hour, a the most: -0.40 at 20 h."


def test_users_are_a_mean_over_stations_where_they_are_known() -> None:
    made = plan(change("a", users=2.0), change("b", users=4.0), change("c"))
    assert made.users == 3.0
    assert made.in_words()[0].endswith("in reward; that is +3.0 users or samples a row of the log.")
    assert "Users" not in Checked(plan_page(plan(change()), Origin())).text


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_are_text_wherever_they_stand(name: str) -> None:
    hostile = change(
        name, present={name: name}, proposed={name: "4"}, lenders=((name, 0.3),), reason=name,
        by_hour={0: Estimate(0.1, 0.0, 0.2)},
    )  # fmt: skip
    alone = replace(left(name), present={name: name}, reason=name)
    made = ChangePlan((name,), (hostile,), (alone,), reward=name, period=name, limits=(name,))
    places = {name: (0.0, 0.0), "b": (1.0, 0.0)}
    made = replace(made, left_alone=(*made.left_alone, left("b")))
    page = plan_page(made, Origin(log=name, read=(name,), notes=(name,), places=places))
    assert Checked(page).text.count(name) >= 11
    assert "default-src 'none'" in page


def test_a_plan_without_changes_says_so_and_shows_no_empty_parts() -> None:
    text = Checked(plan_page(plan(others=(left(),)), Origin(places={"z": (0.0, 0.0)}))).text
    assert "None of 1 station to change" in text
    for absent in ("What changes where", "How to carry it out", "Gain by hour", "Where they are"):
        assert absent not in text
    assert Checked(plan_page(plan(), Origin())).text.startswith("Change plan: None of 0 stations")


def test_of_several_knobs_those_that_move_are_named() -> None:
    two = change(present={"tilt": 2, "power": 40}, proposed={"tilt": 4, "power": 40})
    text = Checked(plan_page(ChangePlan(("tilt", "power"), (two,), ()), Origin())).text
    assert "tilt 2 → 4" in text
    assert "power 40 →" not in text
    assert "tilt 2, power 40 at 1 station" in text


def test_that_gains_are_certain_is_said_only_where_they_are() -> None:
    certain, rest = "the whole 95 % interval of its gain lies above zero", "Not all of these changes are certain"
    texts = [Checked(plan_page(plan(change("a"), change("b", gain)), Origin())).text for gain in (0.1, 0.03)]
    assert [(certain in text, rest in text) for text in texts] == [(True, False), (False, True)]


def test_sentences_have_the_precision_and_the_minus_of_the_page_and_the_name_of_the_reward() -> None:
    hour = {3: Estimate(-0.012345, -0.09, 0.06)}
    made = change(present={"dbm": -102}, proposed={"dbm": -98}, by_hour=hour)
    reasons = (gain_reason(made, explore=False), worst_reason(made), evidence_reason(made))
    made = replace(made, reason=" ".join(reasons))
    unsure = Estimate(0.000726, -0.0315, 0.0328)
    rest = LeftAlone("y", {"dbm": -102}, "gain not certain", "", {"dbm": -98}, unsure)
    rest = replace(rest, reason=f"{promise(rest)}, which may be a loss.")
    assert "-0.0123 (95 % interval -0.09 to +0.06)" in made.reason
    page = plan_page(ChangePlan(("dbm",), (made,), (rest,), reward="good_share"), Origin())
    text = Checked(page).text
    assert "Expected good_share 0.90 instead of 0.80, a gain of +0.10 (95 % interval +0.06 to +0.14)." in text
    assert "At 03 h it may lose: −0.01 (95 % interval −0.09 to +0.06)." in text
    assert "30 % of this is learned from other stations" in text
    assert "dbm=−98 is expected to bring a gain of +0.00 (95 % interval −0.03 to +0.03), which may be a loss." in text
    assert "−102 → −98" in text
    assert not re.search(r"[\s(=]-\d", text[text.index("Change plan by") :])


def test_large_moves_and_settings_new_to_a_station_are_flagged() -> None:
    bold = change("a", present={"tilt": 0}, proposed={"tilt": 6}, support=Support(0, 900, 31))
    made = plan(bold, change("b"))
    text = Checked(plan_page(made, Origin(ranges={"tilt": (0.0, 8.0)}))).text
    assert "0 → 6 large move new here" in text
    assert "2 → 4 +0.10" in text
    twice = "Look twice: of 2 changes, 1 moves a knob over more than half of its range, and 1 sets what"
    assert twice in text
    assert "Look twice" not in Checked(plan_page(plan(change("b")), Origin(ranges={"tilt": (0.0, 8.0)}))).text


def test_whether_neighbours_count_is_said() -> None:
    alone = Checked(plan_page(plan(change()), Origin())).text
    assert "What a change does to its neighbours is not counted." in alone
    counted = Checked(plan_page(plan(change(around=Estimate(0.01, 0.0, 0.02))), Origin())).text
    assert "What a change does to its neighbours is counted in its gain." in counted
    assert "is not counted" not in counted


def test_where_what_runs_now_is_known_from_is_said() -> None:
    text = Checked(plan_page(plan(change()), Origin(present="the file now.csv, 3 days before this plan"))).text
    assert "What runs now is from the file now.csv, 3 days before this plan" in text
    assert "(from the file now.csv, 3 days before this plan)" in text


def test_trials_are_called_so() -> None:
    made = plan(change(gain=-0.01), others=(left(),), explore=True)
    page = Checked(plan_page(made, Origin(places={"a": (1.0, 2.0), "z": (3.0, 4.0)}))).text
    assert "1 of 2 stations for a trial" in page
    assert "each may lose" in page
    assert "expected to lose" in page
    assert made.in_words()[0].startswith("1 of 2 stations tries something new, for a mean gain of -0.010")


def test_thousands_of_stations_stay_a_page(tmp_path: Path) -> None:
    hours = {hour: Estimate(0.1, 0.0, 0.2) for hour in range(24)}
    many = tuple(change(f"LTE_{i:05d}_1", 0.3 - i / 1e4, by_hour=hours, reason="Because. " * 40) for i in range(2000))
    rest = tuple(left(f"REST_{i:05d}") for i in range(2000))
    names = [*(one.station for one in many), *(one.station for one in rest)]
    places = {name: (float(i % 60), float(i // 60)) for i, name in enumerate(names)}
    page = plan_page(plan(*many, others=rest), Origin(places=places))
    assert len(page.encode()) < 3e6
    text = Checked(page).text
    assert f"And {2000 - LISTED:,} more in plan.csv" in text
    assert f"And {2000 - LISTED:,} more in left_alone.csv" in text
    assert "LTE_00299_1" in text
    assert "LTE_00300_1" not in text


def test_folds_are_for_screens_only() -> None:
    page = plan_page(
        plan(*(change(f"s{i}") for i in range(30)), others=tuple(left(f"z{i}") for i in range(30))), Origin()
    )
    hidden = [line for line in page.splitlines() if ":not(:checked)" in line]
    assert len(hidden) == 2
    assert "@media screen {\n" + "\n".join(hidden) + "\n}" in page


def test_every_reason_has_something_to_do() -> None:
    assert set(TO_DO) == set(get_args(Why))


# --- The map --------------------------------------------------------------------------------------------------------


def dots(made: dict[str, Any]) -> dict[str, tuple[float, float, float]]:
    """Name to x, y and radius of each dot."""
    found = re.findall(r'cx="([\d.]+)" cy="([\d.]+)" r="([\d.]+)"[^>]*><title>([^:]*):', made["svg"])
    return {name: (float(x), float(y), float(r)) for x, y, r, name in found}


def test_north_is_up_east_is_right_and_a_larger_gain_is_fuller() -> None:
    made = plan(change("a", 0.4), change("b", 0.2), others=(left(),))
    drawn = plan_map(made, {"a": (0.0, 0.0), "b": (900.0, 0.0), "z": (0.0, 900.0)}, metres=True)
    at = dots(drawn)
    assert at["a"][0] < at["b"][0]
    assert at["z"][1] < at["a"][1]
    assert (at["a"][1], at["a"][0]) == (at["b"][1], at["z"][0])
    assert [float(x) for x in re.findall(r'fill-opacity="([\d.]+)"', drawn["svg"])] == [0.6, 1.0]
    assert drawn["bar"] == "200 m"


def test_names_stand_beside_few_dots_and_cover_nothing() -> None:
    def named(count: int, names: str = "site {}") -> list[str]:
        made = plan(*(change(names.format(i)) for i in range(count)))
        places = {names.format(i): (500.0 * (i % 7), 500.0 * (i // 7)) for i in range(count)}
        return re.findall(r'class="name"[^>]*>([^<]*)<', str(plan_map(made, places, metres=True)["svg"]))

    assert sorted(named(40)) == sorted(f"site {i}" for i in range(40))
    assert named(41) == []
    assert named(20, "a name that is far too long to stand anywhere beside the dot of its station {}") == []


def test_stations_of_one_site_do_not_cover_each_other() -> None:
    names = [f"s{i}" for i in range(6)]
    made = plan(*(change(name) for name in names))
    assert plan_map(made, dict.fromkeys(names, (0.0, 0.0)), metres=True) == {}
    places = {name: (500.0 * (i // 3), 0.0) for i, name in enumerate(names)}
    at = list(dots(plan_map(made, places, metres=True)).values())
    apart = [abs(complex(a[0] - b[0], a[1] - b[1])) for i, a in enumerate(at) for b in at[:i]]
    assert min(apart) >= 2 * at[0][2] - 0.2


def test_a_gain_in_per_cent_is_in_points_and_no_end_of_an_interval_reads_as_zero() -> None:
    near = replace(change("a", 1.26), gain=Estimate(1.26, 0.03, 2.6))
    made = plan(near, reward="good users [%]")
    said = "a mean gain of +1.3 (95 % interval +0.03 to +2.60) percentage points in good users [%]."
    assert said in made.in_words()[0]
    text = Checked(plan_page(made, Origin())).text
    assert "percentage points in good users [%], from 0.8 to 2.1; 95 %: +0.03 to +2.60" in text
    assert "percentage points" not in Checked(plan_page(plan(near, reward="good_share"), Origin())).text


def test_the_worst_hour_is_at_the_head_of_the_page_only_where_it_is_worse() -> None:
    alike = {hour: Estimate(0.3 - 0.001 * hour, 0.25, 0.35) for hour in range(24)}
    assert "Worst hour of the day" not in Checked(plan_page(plan(change("a", 0.3, by_hour=alike)), Origin())).text
    worse = {**alike, 20: Estimate(0.1, 0.05, 0.15)}
    assert "Worst hour of the day 20 h" in Checked(plan_page(plan(change("a", 0.3, by_hour=worse)), Origin())).text


def test_stations_at_which_a_trial_may_bring_most_are_named_and_reasons_are_told_apart() -> None:
    doubted = [
        replace(left(f"d{n}", "gain not certain"), gain=Estimate(0.1, -0.1, 0.1 * n), proposed={"tilt": 4})
        for n in range(1, 8)
    ]
    made = plan(change(), others=(*doubted, left("y", "never tried")))
    assert [one.station for one in made.worth_a_trial] == ["d7", "d6", "d5", "d4", "d3"]
    text = Checked(plan_page(made, Origin())).text
    for said in (
        "no other setting can be judged there",
        "Trials may bring most at d7 (up to +0.70), d6 (up to +0.60)",
        "another setting is expected to earn more, and the 95 % interval of its gain holds zero",
    ):
        assert said in text
    assert "kinband impact says whether the changes helped" in text
    assert "has the same columns" not in text
    assert plan(change(), others=(left(),)).worth_a_trial == []
