"""Logs and decisions as data frames."""

import numpy as np
import pytest

from kinband import ConfigurationSpace, Controller, Trace
from kinband.errors import BadInputError


def test_a_log_comes_back_as_the_frame_it_was() -> None:
    log = {"cell": ["a", "b"], "load": [0.5, 0.25], "tilt": [2, 4], "good": [0.75, 0.5]}
    frame = Trace.from_frame(log, {"station": "cell", "reward": "good", "configuration": ["tilt"]}).frame()
    assert frame.to_dict("list") == {"station": ["a", "b"], "reward": [0.75, 0.5], "load": [0.5, 0.25], "tilt": [2, 4]}


def test_decisions_are_rows_with_rewards_as_corrected_and_awaited_ones_left_open() -> None:
    controller = Controller(ConfigurationSpace(tilt=[2, 4], mean=[1, 2]), ["a", "b"], state=["load"], mean=0.5)
    first = controller.ask("a", {"load": 0.25})
    made = controller.ask_all({"a": {"load": 0.5}, "b": {"load": 0.75}})
    controller.tell(first.id, 0.25)
    controller.tell(made["b"].id, 0.5)
    controller.correct(first.id, 0.75)
    frame = controller.decisions_frame()
    assert frame["id"].tolist() == ["d000001", "d000002", "d000003"]
    assert frame["station"].tolist() == ["a", "a", "b"]
    assert frame["load"].tolist() == [0.25, 0.5, 0.75]
    assert frame["mean"].tolist() == [dict(d.configuration or {})["mean"] for d in (first, *made.values())]  # a knob
    assert frame["mean_"].tolist() == [first.mean, made["a"].mean, made["b"].mean]
    np.testing.assert_array_equal(frame["reward"], [0.75, np.nan, 0.5])
    assert frame["status"].tolist() == ["told", "awaited", "told"]
    assert frame["round"].isna().tolist() == [True, False, False]


def test_rewards_stand_beside_what_ran() -> None:
    controller = Controller(ConfigurationSpace(tilt=[2, 4]), ["a"], state=["load"], mean=0.5)
    first, second = (controller.ask("a", {"load": 0.25}) for _ in range(2))
    other = {"tilt": 6 - dict(first.configuration or {})["tilt"]}
    controller.ran(first.id, other)
    controller.tell(first.id, 0.75)
    controller.call_off(second.id)
    frame = controller.decisions_frame()
    assert frame["tilt"].tolist() == [other["tilt"], dict(second.configuration or {})["tilt"]]
    assert frame["replaced"].tolist() == [True, False]
    assert frame["status"].tolist() == ["told", "called off"]


def test_columns_and_types_are_the_same_before_the_first_decision() -> None:
    controller = Controller(ConfigurationSpace(tilt=[2, 4]), ["a"], state=["load"], mean=0.5)
    before = controller.decisions_frame()
    controller.ask("a", {"load": 0.25})
    after = controller.decisions_frame()
    assert list(before) == list(after)
    assert before.dtypes.to_dict() == after.dtypes.to_dict()


def test_decisions_over_context_rows_name_their_arm() -> None:
    controller = Controller(ConfigurationSpace(arm=[0, 1]), ["a"], features=["x"])
    decision = controller.ask("a", contexts=[[0.0], [1.0]])
    assert controller.decisions_frame()["arm"].tolist() == [decision.arm]
    assert Controller(ConfigurationSpace(arm=[0, 1]), ["a"]).decisions_frame().empty


def test_without_pandas_one_is_told_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pandas", None)
    with pytest.raises(BadInputError, match="pip install pandas"):
        Controller(ConfigurationSpace(arm=[0, 1]), ["a"]).decisions_frame()
