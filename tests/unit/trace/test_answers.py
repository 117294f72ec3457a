"""What a log can answer: by arithmetic that one can do by hand."""

from typing import Any

import numpy as np
import pytest

from kinband import Trace
from kinband.errors import BadInputError
from kinband.trace.answers import LogQuestions, log_questions


def asked(tilts: dict[str, list[int]], **more: Any) -> LogQuestions:
    """What is said of a log in which stations ran these tilts."""
    station = [name for name, ran in tilts.items() for _ in ran]
    tilt = [value for ran in tilts.values() for value in ran]
    log = {"station": station, "tilt": tilt, "reward": np.linspace(0, 1, len(tilt)), **more}
    return log_questions(Trace.from_frame(log, {"configuration": ["tilt"]}))


def verdicts(found: LogQuestions) -> dict[str, str]:
    return {one.question: one.verdict for one in found.answers}


def test_settings_are_counted_by_station_and_by_how_evenly_they_ran() -> None:
    found = asked({"a": [1, 2] * 15, "b": [1] * 29 + [3], "c": [2, 3, 4, 5] * 10})
    assert (found.stations, found.rows, found.configurations) == (3, 100, 5)
    assert found.rows_per_station == (30, 30.0, 40)
    assert found.tried == (2, 2.0, 4)
    assert found.evenly == pytest.approx(2.0)  # b counts as 1.16, a as 2 and c as 4
    assert verdicts(found) == dict.fromkeys(["similarity", "compare", "evaluate", "recommend"], "yes")
    assert found.in_words()[-1].startswith("tells who is like whom, whether sharing would have helped, ")


def test_one_setting_a_station_answers_neither_comparison_nor_evaluation_nor_what_to_set() -> None:
    found = asked({"a": [1] * 30, "b": [2] * 30})
    expected = {"similarity": "partly", "compare": "no", "evaluate": "no", "recommend": "no"}
    assert verdicts(found) == expected
    assert found.one_setting == ("a", "b")
    with pytest.raises(
        BadInputError, match=r"cannot tell whether sharing .* one setting only.*kinband design"
    ) as caught:
        found.check("compare")
    assert caught.value.code == "no_trials"
    found.check("similarity")
    assert 3 <= len(found.in_words()) <= 5


def test_one_setting_in_all_cannot_say_what_to_set() -> None:
    assert asked({"a": [1] * 30, "b": [1] * 30}).answer("recommend").verdict == "no"


def test_stations_without_trials_of_their_own_are_counted() -> None:
    found = asked({"a": [1, 2] * 15, "b": [2] * 30, "c": [1] * 30})
    assert found.answer("compare").reason == "2 of 3 stations ran one setting only"
    assert found.answer("recommend").reason == "1 station by trials of their own, 2 by trials of others only"


def test_few_rows_are_those_used() -> None:
    rng = np.random.default_rng(0)
    log = {"station": ["b", "a"] * 30, "tilt": [1, 1, 2, 2] * 15, "reward": rng.random(60)}
    trace = Trace.from_frame(log, {"configuration": ["tilt"]})
    assert log_questions(trace).few_rows == ()
    found = log_questions(trace, trace.sample(8, rng))
    assert (found.few_rows, found.rows_used, found.most_used) == (("a", "b"), 16, 8)
    assert "16 of 60 rows of 2 stations, drawn at random, at most 8 a station" in found.in_words()[0]


@pytest.mark.parametrize(
    ("times", "period", "hours"),
    [
        (["2024-05-01T23:30", "2024-05-02T01:00", "2024-05-03T01:59"], ("2024-05-01 23:30", "2024-05-03 01:59"), 2),
        ([3.0, 1.0, 2.0], ("1", "3"), None),
    ],
)
def test_times_give_a_period_and_hours_of_the_day(times: list[Any], period: tuple[str, str], hours: int | None) -> None:
    found = asked({"a": [1, 2, 1]}, time=times)
    assert (found.period, found.hours) == (period, hours)


def test_several_knobs_make_settings_together() -> None:
    log = {"station": ["a"] * 4, "tilt": [1, 1, 2, 2], "mode": ["x", "y", "x", "x"], "reward": [1.0, 2.0, 3.0, 4.0]}
    assert log_questions(Trace.from_frame(log, {"configuration": ["tilt", "mode"]})).tried == (3, 3.0, 3)


def test_json_has_the_same_words_for_machines() -> None:
    told = asked({"a": [1] * 30, "b": [2] * 30}).to_dict()
    assert told["tried"] == {"fewest": 1, "median": 1.0, "most": 1}
    assert told["answers"]["evaluate"]["verdict"] == "no"
