"""What changed when: as a log shows it, and as files say it."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kinband.errors import BadInputError
from kinband.impact import Panel, found_changes, ordered_changes, read_orders
from kinband.trace import Trace


def panel(*runs: list[int], dated: bool = False, step: int = 1) -> Panel:
    """Stations a, b, …, each with what it ran slot by slot; 0 for a slot without a row."""
    rows = [(chr(97 + n), slot, tilt) for n, own in enumerate(runs) for slot, tilt in enumerate(own) if tilt]
    log: dict[str, Any] = {"station": [row[0] for row in rows], "tilt": [row[2] for row in rows]}
    hours = np.array([row[1] for row in rows]) * step
    log["time"] = np.datetime64("2024-05-01T00", "us") + hours * np.timedelta64(3600, "s") if dated else hours
    return Panel.of(Trace.from_frame(log | {"reward": [0.5] * len(rows)}, {"configuration": ["tilt"]}))


def test_a_change_for_good_is_found_and_trials_are_not() -> None:
    found = found_changes(panel([2] * 30 + [4] * 10, [2, 4, 6, 2] * 10, [2] * 40))
    assert [(one.station, one.slot, one.begins, one.ends) for one in found] == [(0, 30, 0, 40)]


def test_a_change_that_was_undone_is_one_change_and_says_so() -> None:
    (found,) = found_changes(panel([2] * 30 + [4] * 26 + [2] * 20, [2] * 76))
    assert (found.slot, found.ends, found.rolled_back) == (30, 56, True)


def test_one_undone_at_once_is_told_too() -> None:
    (found,) = found_changes(panel([2] * 30 + [4] * 2 + [2] * 20, [2] * 52))
    assert found.rolled_back


def test_slots_without_a_row_end_no_stretch() -> None:
    assert panel([2, 0, 0, 2, 4, 0, 4], [2] * 7).stretches(0) == [(0, 4, 0), (4, 7, 1)]


def test_a_station_that_changed_is_no_control_of_that_time() -> None:
    found = panel([2] * 6, [2, 2, 4, 4, 4, 4], [0, 0, 0, 2, 2, 2])
    assert found.unchanged(0, 6).tolist() == [True, False, True]
    assert found.unchanged(2, 6).tolist() == [True, True, True]
    assert found.unchanged(0, 2).tolist() == [True, True, False]


def test_stations_with_clocks_of_their_own_are_put_into_slots() -> None:
    minutes = np.array([[0, 15, 30, 45], [1, 16, 31, 46], [3, 18, 33, 48]])
    log = {"station": np.repeat(["a", "b", "c"], 4), "time": minutes.ravel(), "tilt": [2] * 12, "reward": [0.5] * 12}
    found = Panel.of(Trace.from_frame(log, {"configuration": ["tilt"]}))
    assert found.slots.tolist() == [0, 15, 30, 45]
    assert np.isfinite(found.values["reward"]).all()


def test_a_log_without_times_is_refused() -> None:
    trace = Trace.from_frame({"station": ["a"], "tilt": [2], "reward": [0.5]}, {"configuration": ["tilt"]})
    with pytest.raises(BadInputError, match="no times"):
        Panel.of(trace)


# --- Files ------------------------------------------------------------------------------------------------------------


def written(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def test_a_plan_is_found_in_the_log_with_what_it_expected(tmp_path: Path) -> None:
    file = written(tmp_path / "plan.csv", "station,set_tilt,expected_gain,gain_low,gain_high\na,4,0.02,0.01,0.03\n")
    found, missing = ordered_changes(panel([2] * 30 + [4] * 10, [2] * 40), read_orders(file))
    assert [(one.slot, str(one.expected)) for one in found] == [(30, "Estimate(value=0.02, low=0.01, high=0.03)")]
    assert missing == []


def test_the_receipt_of_a_folder_says_what_was_done_and_undone_and_the_plan_what_was_expected(tmp_path: Path) -> None:
    written(tmp_path / "plan.csv", "station,set_tilt,expected_gain\na,4,0.02\nb,4,0.03\nc,4,0.04\n")
    head = "station,knob,present,set,runs,state,at"
    rows = "a,tilt,2,4,4,confirmed,2024-05-02T06:00:00+00:00\nb,tilt,2,4,2,undone,2024-05-02T06:00:00+00:00"
    written(tmp_path / "applied.csv", f"{head}\n{rows}\n")
    log = panel([2] * 30 + [4] * 10, [2] * 30 + [4] * 3 + [2] * 7, [2] * 40, dated=True)
    found, _ = ordered_changes(log, read_orders(tmp_path))
    assert [(one.station, one.slot, one.rolled_back) for one in found] == [(0, 30, False), (1, 30, True)]
    assert [one.expected.value for one in found if one.expected] == [0.02, 0.03]


def test_of_a_plan_in_waves_what_was_carried_out_counts_and_what_is_held_back_does_not(tmp_path: Path) -> None:
    rows = "a,4,0.02,1\nb,4,0.03,2\nc,4,0.04,held back\n"
    file = written(tmp_path / "plan.csv", f"station,set_tilt,expected_gain,wave\n{rows}")
    assert (
        [(one.station, one.wave) for one in read_orders(file)]
        == [("a", "1"), ("b", "2")]
        == [(one.station, one.wave) for one in read_orders(tmp_path)]
    )
    (tmp_path / "wave-1").mkdir()
    row = "a,tilt,2,4,4,confirmed,2024-05-02T06:00:00+00:00,1"
    written(tmp_path / "wave-1" / "applied.csv", f"station,knob,present,set,runs,state,at,wave\n{row}\n")
    for folder in (tmp_path, tmp_path / "wave-1"):
        (order,) = read_orders(folder)
        assert (order.station, order.wave, order.expected and order.expected.value) == ("a", "1", 0.02)


def test_of_several_moves_to_the_same_setting_the_time_decides(tmp_path: Path) -> None:
    log = panel([2] * 30 + [4] * 30 + [2] * 30 + [4] * 30, [2] * 120, dated=True)
    at = written(tmp_path / "list.csv", "station,time,set_tilt\na,2024-05-02 05:00,4\n")
    without = written(tmp_path / "late.csv", "station,set_tilt\na,4\n")
    assert [ordered_changes(log, read_orders(file))[0][0].slot for file in (at, without)] == [30, 90]


def test_what_the_log_does_not_show_is_told_with_why(tmp_path: Path) -> None:
    file = written(tmp_path / "plan.csv", "station,set_tilt\na,6\nz,4\n")
    found, missing = ordered_changes(panel([2] * 30 + [4] * 10, [2] * 40), read_orders(file))
    assert found == []
    assert [(order.station, why) for order, why in missing] == [("a", "never seen"), ("z", "not in the log")]


def test_times_of_another_kind_and_a_folder_without_a_plan_are_refused(tmp_path: Path) -> None:
    file = written(tmp_path / "list.csv", "station,time\na,yesterday\n")
    with pytest.raises(BadInputError, match="'yesterday' as the time of station 'a'"):
        ordered_changes(panel([2] * 30 + [4] * 10, [2] * 40, dated=True), read_orders(file))
    (tmp_path / "empty").mkdir()
    with pytest.raises(BadInputError, match=r"neither applied\.csv nor plan\.csv"):
        read_orders(tmp_path / "empty")


# --- What is older than the plan --------------------------------------------------------------------------------------

TRIED_THEN_STAYED = [2] * 30 + [4] * 10 + [2] * 30


@pytest.mark.parametrize(
    ("since", "later"),
    [
        ("last_row\na,4,2024-05-03T21:00", 70),  # slot 69
        ("made,last_row\na,4,2026-11-20T00:45:17+00:00,2024-05-03T21:00", 70),  # a log of the past, planned for today
        ("made\na,4,2024-05-03T22:45:00+00:00", 70),  # in slot 70
        ("made\na,4,2024-05-04T00:45:00+02:00", 70),  # the same, where the log may be in local time
    ],
)
def test_what_a_station_tried_before_its_plan_was_made_is_no_change_of_the_plan(
    since: str, later: int, tmp_path: Path
) -> None:
    file = written(tmp_path / "plan.csv", f"station,set_tilt,{since}\n")
    found, missing = ordered_changes(panel(TRIED_THEN_STAYED, [2] * 70, dated=True), read_orders(file))
    assert (found, [why for _, why in missing]) == ([], ["never seen"])
    done = panel([*TRIED_THEN_STAYED, *[4] * 10], [2] * 80, dated=True)
    found, missing = ordered_changes(done, read_orders(file))
    assert ([one.slot for one in found], missing) == ([later], [])


def test_a_receipt_is_not_older_than_its_plan_either_as_a_file_of_its_own_and_in_its_folder(tmp_path: Path) -> None:
    written(tmp_path / "plan.csv", "station,set_tilt,expected_gain,last_row\na,4,0.02,2024-05-03T21:00\n")
    row = "a,tilt,2,4,4,confirmed,2024-05-04T06:00:00+00:00"
    receipt = written(tmp_path / "applied.csv", f"station,knob,present,set,runs,state,at\n{row}\n")
    for path in (tmp_path, receipt):
        found, missing = ordered_changes(panel(TRIED_THEN_STAYED, [2] * 70, dated=True), read_orders(path))
        assert (found, [why for _, why in missing]) == ([], ["never seen"])


def test_where_times_of_plan_and_log_are_of_two_kinds_all_moves_count_as_before(tmp_path: Path) -> None:
    file = written(tmp_path / "plan.csv", "station,set_tilt,made\na,4,2026-11-20T00:45:17+00:00\n")
    found, _ = ordered_changes(panel([2] * 30 + [4] * 10, [2] * 40), read_orders(file))
    assert [one.slot for one in found] == [30]
    file = written(tmp_path / "numbers.csv", "station,set_tilt,last_row\na,4,29\n")
    found, _ = ordered_changes(panel([2] * 30 + [4] * 10, [2] * 40), read_orders(file))
    assert [one.slot for one in found] == [30]
    file = written(tmp_path / "numbers.csv", "station,set_tilt,last_row\na,4,30\n")
    assert ordered_changes(panel([2] * 30 + [4] * 10, [2] * 40), read_orders(file))[0] == []


def test_a_plan_for_a_knob_that_the_log_lacks_is_refused(tmp_path: Path) -> None:
    file = written(tmp_path / "plan.csv", "station,set_ElectricalTilt\na,4\n")
    with pytest.raises(BadInputError, match="set the knob 'ElectricalTilt', and the log has 'tilt'") as refused:
        ordered_changes(panel([2] * 30 + [4] * 10, [2] * 40), read_orders(file))
    assert (refused.value.code, refused.value.value) == ("unknown_knob", "ElectricalTilt")
