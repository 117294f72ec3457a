"""Numbers of NumPy where plain ones are meant: taken, and kept as plain ones, so that what was taken can be saved."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kinband import ConfigurationSpace, Controller
from kinband.drift import Drift
from kinband.errors import BadInputError
from kinband.kpis import KpiFloor
from kinband.policies import Conservative, Floor, SwitchingCost

F32: Any = np.float32  # not what annotations ask for, but what tables and arrays hand out
I64: Any = np.int64
BOOL: Any = np.bool_
SPAN: Any = np.timedelta64
THIRD = F32(1 / 3)
MODEL = {"mean": F32(0.4), "deviation": F32(0.2), "noise": F32(0.01)}


def make(**given: Any) -> Controller:
    return Controller(ConfigurationSpace(tilt=[2, 4]), ["a", "b"], mean=0.6, noise=0.02, running={"tilt": 2}, **given)


@pytest.mark.parametrize(
    "given",
    [
        {"safety": Floor(THIRD)},
        {"safety": Floor(F32("inf"))},
        {"safety": Floor(0.3, delta=THIRD)},
        {"safety": Conservative(THIRD, delta=F32(0.07), least=F32(-0.3), per_station=BOOL(True))},
        {"safety": Conservative(I64(1), least=I64(-2))},
        {"safety": SwitchingCost(THIRD)},
        {"safety": SwitchingCost(I64(2))},
        {"kpis": KpiFloor("load", at_most=F32(0.9), confidence=F32(0.85), **MODEL)},
        {"drift": Drift(F32(30.5), keep=THIRD)},
        {"seed": I64(3)},
    ],
)
def test_what_is_taken_can_be_saved_and_loaded(given: dict[str, Any], tmp_path: Path) -> None:
    controller = make(**given)
    controller.tell(controller.ask("a").id, 0.7)
    controller.save(tmp_path / "state")
    settings = Controller.load(tmp_path / "state").setup
    for name, value in given.items():
        if name not in ("kpis", "safety"):
            assert getattr(settings.config, name) == value
    assert settings.rules == controller.setup.rules
    assert [vars(kpi.floor) for kpi in settings.kpis] == [vars(kpi.floor) for kpi in controller.setup.kpis]


def test_rules_hold_plain_numbers() -> None:
    rule = Conservative(THIRD, least=F32(-0.5), per_station=BOOL(False))
    plain = [rule.alpha, rule.least, rule.per_station, Floor(THIRD).drop, SwitchingCost(I64(2)).cost]
    assert [type(value) for value in plain] == [float, float, bool, float, float]
    assert rule.alpha == float(THIRD)


@pytest.mark.parametrize("odd", [1, 0, "yes", None, I64(1)])
def test_a_budget_by_station_is_a_yes_or_no(odd: Any) -> None:
    with pytest.raises(BadInputError, match="per_station is True or False, got"):
        Conservative(0.1, per_station=odd)


@pytest.mark.parametrize(
    ("span", "same"),
    [
        (SPAN(2, "W"), timedelta(weeks=2)),
        (SPAN(7, "D"), timedelta(days=7)),
        (SPAN(90, "m"), timedelta(minutes=90)),
        (SPAN(1500, "ms"), timedelta(seconds=1.5)),
        (SPAN(3_000_000_000, "ns"), timedelta(seconds=3)),
    ],
)
def test_a_half_life_of_numpy_is_a_time_span(span: Any, same: timedelta) -> None:
    assert Drift(span) == Drift(same)
    with pytest.raises(BadInputError, match="needs a clock of dates"):
        Drift(span, clock="decisions")


@pytest.mark.parametrize("odd", [SPAN(3), SPAN(3, "M"), SPAN(3, "Y"), SPAN("NaT", "D")])
def test_a_half_life_of_no_fixed_length_is_refused(odd: Any) -> None:
    with pytest.raises(BadInputError, match="half_life must be a time span of fixed length"):
        Drift(odd)
    with pytest.raises(BadInputError, match="half_life must be above zero"):
        Drift(SPAN(-3, "D"))
