"""What is said of changes, and when nothing is: one clear reason, no number."""

from typing import Any

import numpy as np
import pytest

from kinband.impact import Impact, Panel, Windows, found_changes, judge_changes
from kinband.impact.page import impact_page
from kinband.similarity import TaskMatrix
from kinband.stats import Estimate
from kinband.trace import Trace

SLOTS, CUT = 96, 72


def network(changed: int, *, stations: int = 20, cut: int = CUT, slots: int = SLOTS, gain: float = 0.05) -> Panel:
    """A city with an evening; the first stations go from tilt 2 to 4 in one slot and gain by it."""
    rng, time = np.random.default_rng(5), np.arange(slots)
    Y = 0.8 - 0.1 * (time % 24 > 18)[:, None] + 0.01 * rng.normal(size=(slots, stations))
    Y[cut:, :changed] += gain
    tilt = np.full((slots, stations), 2)
    tilt[cut:, :changed] = 4
    log: dict[str, Any] = {"station": np.tile([f"s{n:02d}" for n in range(stations)], slots)}
    log |= {"time": np.datetime64("2024-05-01", "us") + np.repeat(time, stations) * np.timedelta64(3600, "s")}
    log |= {"tilt": tilt.ravel(), "reward": Y.ravel(), "drops": 1.0 - Y.ravel()}
    return Panel.of(Trace.from_frame(log, {"configuration": ["tilt"], "kpis": ["drops"]}), reward="good <share>")


def judged(panel: Panel, **options: Any) -> Impact:
    return judge_changes(panel, found_changes(panel), **options)


def test_every_change_and_their_mean_are_judged_in_the_reward_and_in_kpis() -> None:
    found = judged(network(5))
    assert len(found.judged) == 5
    assert found.sides == {1: 5, 0: 0, -1: 0}
    assert found.gain.value == pytest.approx(0.05, abs=0.01)
    assert found.gains["drops"].value == pytest.approx(-0.05, abs=0.01)
    widths = [one.verdicts[found.reward].gain.high - one.verdicts[found.reward].gain.low for one in found.judged]
    assert found.gain.high - found.gain.low < min(widths)


@pytest.mark.parametrize(
    ("panel", "why", "reason"),
    [
        (network(20), "no controls", "All 20 stations changed between"),
        (network(15), "no controls", "Only 5 stations did not change between"),
        (network(3, cut=20), "too little before", "It ran what it had before in 20 slots"),
        (network(3, cut=93), "too little after", "The log has 3 slots after the change; it takes 4."),
    ],
)
def test_where_nothing_can_be_said_there_is_a_reason_and_no_number(panel: Panel, why: str, reason: str) -> None:
    changes = [move for n in range(3) for move in [_first_move(panel, n)]]
    found = judge_changes(panel, changes)
    assert found.judged == ()
    assert {one.why for one in found.unjudged} == {why}
    assert found.unjudged[0].reason.startswith(reason)
    assert not np.isfinite(found.gain.value)
    assert found.to_dict()["gains"]["good <share>"]["value"] is None


def _first_move(panel: Panel, station: int) -> Any:
    from kinband.impact.changes import _moves

    return _moves(panel, station)[0]


def test_controls_that_change_later_are_found_in_shorter_windows() -> None:
    panel = network(4)
    runs = panel.runs.copy()
    runs[CUT + 12 :, 6:] = runs[CUT, 0]
    later = Panel(panel.stations, panel.slots, panel.values, runs, panel.configurations)
    found = judge_changes(later, [_first_move(later, n) for n in range(4)])
    assert [one.after for one in found.judged] == [10] * 4  # 672 slots halved until twelve or fewer are left


def test_neighbours_are_not_compared_with() -> None:
    panel = network(1)
    near = [f"s{n:02d}" for n in range(1, 8)]
    (found,) = judged(panel, neighbours={"s00": near}).judged
    assert not set(near) & {name for name, _ in found.controls}


def test_similarity_moves_the_weights_to_those_alike() -> None:
    panel = network(1)
    alike = np.eye(20)
    alike[:6, :6] = 1.0
    (found,) = judged(panel, alike=TaskMatrix(panel.stations, alike, "given")).judged
    (plain,) = judged(panel).judged
    weight = [one.weights["good <share>"][1:6].sum() for one in (found, plain)]
    assert weight[0] > weight[1]


def test_windows_limit_what_counts() -> None:
    (found,) = judged(network(1), windows=Windows(before=48, after=6)).judged
    assert (found.before, found.after) == (48, 6)


def test_signs_count_what_was_predicted_right() -> None:
    from dataclasses import replace

    panel = network(4)
    guesses = [Estimate(0.02), Estimate(0.1), Estimate(-0.01), None]
    changes = [replace(one, expected=guess) for one, guess in zip(found_changes(panel), guesses, strict=True)]
    found = judge_changes(panel, changes)
    assert found.signs.value == pytest.approx(2 / 3)
    assert found.certain_signs == (2, 3)
    assert "The predicted sign was right in 67% of 3 changes" in " ".join(found.in_words())


def test_the_page_shows_changes_without_scripts_and_with_names_escaped() -> None:
    page = impact_page(judged(network(5)), origin="a <log>")
    assert "The changes helped" in page
    assert "good &lt;share&gt;" in page
    assert "a &lt;log&gt;" in page
    assert "<script" not in page
    assert page.count('<tbody class="each">') == 5


def test_the_page_says_what_cannot_be_judged() -> None:
    page = impact_page(judged(network(20)))
    assert "No change can be judged" in page
    assert "All 20 stations changed between" in page
    assert "leave some stations unchanged for a while" in page
