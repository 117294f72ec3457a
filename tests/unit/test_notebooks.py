"""What notebooks show of a value: a small table, with everything in it escaped."""

from typing import Any

import numpy as np
import pytest

from kinband import ConfigurationSpace, Controller, TaskMatrix
from kinband.html import MOST_ROWS, table
from kinband.planning import Change, ChangePlan, LeftAlone
from kinband.records import Alternative, Decision
from kinband.stats import Estimate

EVIL = "<b>&\"'"
ESCAPED = "&lt;b&gt;&amp;&quot;&#x27;"


def controller() -> Controller:
    made = Controller(ConfigurationSpace(tilt=[2, 4], scheduler=[EVIL, "pf"]), [EVIL, "a"], mean=0.5, seed=0)
    for reward in (0.7, 0.8):
        made.tell(made.ask(EVIL).id, reward)
    return made


def decision() -> Decision:
    others = [Alternative(1, {"tilt": EVIL}, 0.9, 0.05, 0.95), Alternative(0, {"tilt": 2}, 0.8, 0.05, 0.85)]
    return Decision("d1", EVIL, 1, {"tilt": EVIL}, 0.9, 0.05, 0.95, others, known=1)


def plan() -> ChangePlan:
    change = Change(
        EVIL, {"tilt": 2}, {"tilt": 4}, 0.91, 0.8, Estimate(0.11, -0.02, 0.3), 0.1, 0.1, 3, 0.4, (), "Better."
    )
    return ChangePlan(("tilt",), (change,), (LeftAlone("b", {"tilt": 2}, "best already", "Nothing is better."),))


@pytest.mark.parametrize(
    ("value", "cells"),
    [
        (controller(), ["2", "0.8", "0", "–"]),
        (decision(), [f"Decision d1 for {ESCAPED}, 1 reward known", "chosen", "0.9", "0.95", "tilt 2", "0.85"]),
        (plan(), ["1 change, 1 station left alone", "tilt 2", "tilt 4", "0.11", "−0.02", "0.3"]),
        (TaskMatrix((EVIL, "b"), np.array([[1.0, 0.25], [0.25, 1.0]]), "given"), ["2 stations, given", "0.25"]),
    ],
    ids=["controller", "decision", "plan", "similarity"],
)
def test_a_notebook_shows_a_table_in_which_names_are_text(value: Any, cells: list[str]) -> None:
    html = value._repr_html_()
    assert html.startswith("<table>")
    assert "<b>" not in html
    assert ESCAPED in html
    for cell in cells:
        assert f">{cell}<" in html or f" {cell}<" in html or f">{cell}," in html, cell


def test_a_long_table_is_cut_and_says_so() -> None:
    html = table(["n"], [[n] for n in range(1, 1001)], caption="Many")
    assert "<caption>Many; the first 12 of 1,000</caption>" in html
    assert html.count("<td>") == MOST_ROWS
    big = TaskMatrix(tuple(f"s{i}" for i in range(30)), np.eye(30), "independent")._repr_html_()
    assert big.count("<td>") == MOST_ROWS * (1 + MOST_ROWS)
