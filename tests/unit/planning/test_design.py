"""Trial plans: how many stations, within which limits, with which files, and what is refused."""

import csv
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kinband import ConfigurationSpace, Controller, Trace
from kinband.errors import BadInputError, KinbandError
from kinband.guardrails import Freeze, KnobLimit, Rails
from kinband.planning import Present, plan_changes
from kinband.planning.design import (
    TrialPlan,
    controller_for_trials,
    design_trials,
    trial_stations,
    usual_present,
)

SPACE = ConfigurationSpace(tilt=[0, 2, 4, 6, 8])


def log(stations: int = 8, rows: int = 12, *, seed: int = 0) -> Trace:
    """A log in which every station ran one setting."""
    rng = np.random.default_rng(seed)
    names = np.repeat([f"s{m}" for m in range(stations)], rows)
    tilt = np.repeat(rng.choice([2, 4, 6], stations), rows)
    load = rng.random(len(names))
    reward = 0.8 - 0.2 * load - 0.01 * (tilt - 4) ** 2 + 0.02 * rng.normal(size=len(names))
    columns = {"station": names, "load": load, "tilt": tilt, "reward": reward}
    return Trace.from_frame(columns, {"configuration": ["tilt"]})


def designed(trace: Trace | None = None, **given: Any) -> TrialPlan:
    trace = log() if trace is None else trace
    controller = Controller.from_trace(trace, SPACE, similarity="pooled", seed=0)
    return design_trials(controller, usual_present(trace), **given)


@pytest.mark.parametrize(("network", "few"), [(2, 1), (9, 1), (10, 1), (60, 6), (100, 10), (1500, 10)])
def test_a_tenth_of_the_stations_try_something_and_ten_at_most(network: int, few: int) -> None:
    assert trial_stations(network) == few


@pytest.mark.parametrize(("network", "asked"), [(2, 2), (8, 5), (60, 60)])
def test_more_than_half_of_a_network_is_refused(network: int, asked: int) -> None:
    with pytest.raises(BadInputError, match=f"{asked} of {network} stations are too many"):
        trial_stations(network, asked)
    assert trial_stations(network, network // 2) == network // 2


def test_a_network_of_one_station_is_refused() -> None:
    with pytest.raises(BadInputError, match="network of one station"):
        designed(log(1))


@pytest.mark.parametrize(("stations", "settings"), [(1, 1), (3, 1), (4, 2)])
def test_no_more_stations_and_settings_than_asked_for(stations: int, settings: int) -> None:
    plan = designed(stations=stations, settings=settings)
    names = [trial.station for trial in plan.trials]
    assert len(set(names)) == stations
    assert max(map(names.count, names)) == settings
    assert len({(one.station, one.setting["tilt"]) for one in plan.trials}) == len(plan.trials)
    assert all(one.setting != one.present for one in plan.trials)


def test_settings_of_a_station_come_one_after_the_other() -> None:
    plan = designed(stations=2, settings=3, periods=5)
    for name in {trial.station for trial in plan.trials}:
        begins = [trial.begin for trial in plan.trials if trial.station == name]
        assert begins == [1, 6, 11][: len(begins)]


def test_steps_hold_from_the_present_and_from_one_trial_to_the_next() -> None:
    plan = designed(stations=4, settings=3, steps={"tilt": 4})
    for name in {trial.station for trial in plan.trials}:
        mine = [trial for trial in plan.trials if trial.station == name]
        way = [mine[0].present["tilt"], *(one.setting["tilt"] for one in mine), mine[0].present["tilt"]]
        assert max(abs(a - b) for a, b in pairwise(way)) <= 4
    assert len(plan.trials) > 4


def test_rails_hold() -> None:
    frozen = tuple(Freeze(f"s{m}") for m in (0, 1, 2))
    own = {"s3": {"tilt": KnobLimit(step=0)}}
    plan = designed(stations=4, rails=Rails(knobs={"tilt": KnobLimit(high=6)}, stations=own, freeze=frozen))
    assert not {"s0", "s1", "s2", "s3"} & {trial.station for trial in plan.trials}
    assert max(trial.setting["tilt"] for trial in plan.trials) <= 6
    assert "s0" in plan.widths  # those left alone learn all the same
    assert "s3" not in plan.widths  # nothing to choose, nothing to learn


def test_neighbours_do_not_try_together_where_rails_say_so() -> None:
    pairs = {f"s{m}": frozenset({f"s{m + 1}"}) for m in range(7)}
    plan = designed(stations=4, rails=Rails(neighbours=pairs, neighbours_together=False))
    numbers = sorted({int(trial.station[1:]) for trial in plan.trials})
    assert len(numbers) > 1
    assert min(np.diff(numbers)) > 1
    assert len({t.station for t in designed(stations=4, rails=Rails(per_round=2)).trials}) == 2


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"steps": {"tilt": 0}}, "nothing may be tried"),
        ({"rails": Rails(stop=True)}, "stop switch"),
        ({"steps": {"tlt": 1}}, "no knob 'tlt'"),
        ({"periods": 0}, "periods must be a whole number"),
        ({"settings": True}, "settings must be a whole number"),
        ({"stations": 8}, "8 of 8 stations are too many"),
    ],
)
def test_what_cannot_be_planned_is_refused(given: dict[str, Any], sentence: str) -> None:
    with pytest.raises(KinbandError, match=sentence):
        designed(**given)


def test_a_present_setting_outside_the_space_is_named() -> None:
    trace = log()
    controller = Controller.from_trace(trace, SPACE, similarity="pooled")
    other = usual_present(trace) | {"s1": Present({"load": 0.5}, {"tilt": 3})}
    with pytest.raises(BadInputError, match="what 's1' runs is none of the settings"):
        design_trials(controller, other)
    with pytest.raises(BadInputError, match="none of the present stations"):
        design_trials(controller, {"z": other["s0"]})


def test_more_trials_and_longer_ones_teach_more_and_never_less() -> None:
    after = [designed(stations=s, settings=1, periods=p).after for s, p in ((1, 2), (1, 8), (3, 8), (4, 8))]
    assert after == sorted(after, reverse=True)
    assert len(set(after)) == 4
    for before, left in designed(stations=2).widths.values():
        assert left <= before


def test_shares_of_what_is_taught_add_up_and_are_all_its_own_where_nothing_is_shared() -> None:
    trace = log()
    alone = Controller.from_trace(trace, SPACE, similarity="independent", seed=0)
    plan = design_trials(alone, usual_present(trace), stations=3, settings=1)
    assert [(one.own, one.learners) for one in plan.trials] == [(1.0, ())] * 3
    assert sum(after < before for before, after in plan.widths.values()) == 3
    shared = designed(stations=2).trials[0]
    assert 0 < shared.own < 0.5
    assert len(shared.learners) == 3


def test_files_undo_every_station_once(tmp_path: Path) -> None:
    plan = designed(stations=3, settings=2, periods=4)
    files = plan.write(tmp_path)
    back, trials = (list(csv.DictReader(file.read_text().splitlines())) for file in files)
    assert [row["station"] for row in back] == list(dict.fromkeys(row["station"] for row in trials))
    ran = {name: one.configuration["tilt"] for name, one in usual_present(log()).items()}
    assert {row["station"]: int(row["set_tilt"]) for row in back} == {
        row["station"]: ran[row["station"]] for row in back
    }
    assert {row["periods"] for row in trials} == {"4"}
    with pytest.raises(BadInputError, match="already holds a plan"):
        plan.write(tmp_path)
    plan.write(tmp_path, replace=True)


def test_only_a_log_without_trials_has_its_knobs_assumed() -> None:
    assumed, notes = controller_for_trials(log(), SPACE, similarity="pooled")
    assert "tilt, and who answers alike to it, is assumed" in notes[0]
    fitted: Any = Controller.from_trace(log(), SPACE, similarity="pooled").setup.kernel
    kernel: Any = assumed.setup.kernel
    moved = [n for n, a, b in zip(kernel.names, kernel.theta, fitted.theta, strict=True) if not np.isclose(a, b)]
    assert moved == ["rbf.length_scale[tilt]"]
    varied = {"station": ["a", "b"] * 20, "tilt": [2, 4, 4, 2] * 10, "reward": np.random.default_rng(1).random(40)}
    assert controller_for_trials(Trace.from_frame(varied, {"configuration": ["tilt"]}))[1] == []


@pytest.mark.parametrize("explore", [False, True])
def test_a_station_of_one_setting_is_never_called_best_already(explore: bool) -> None:
    trace = log()
    plan = plan_changes(Controller.from_trace(trace, seed=0), usual_present(trace), explore=explore)
    whys = [left.why for left in plan.left_alone]
    assert "best already" not in whys
    assert "never tried" in whys
    assert all("trial" in left.reason.lower() for left in plan.left_alone if left.why == "never tried")


def test_a_difference_that_may_be_one_of_stations_is_no_reason_to_change() -> None:
    # Poor stations run 2 and good ones 4; the setting itself does nothing.
    rng = np.random.default_rng(5)
    names, good = np.repeat([f"s{m}" for m in range(8)], 20), np.repeat([0, 1] * 4, 20)
    columns = {"station": names, "tilt": 2 + 2 * good, "reward": 0.6 + 0.2 * good + 0.02 * rng.normal(size=160)}
    trace = Trace.from_frame(columns, {"configuration": ["tilt"]})
    plan = plan_changes(Controller.from_trace(trace, seed=0), usual_present(trace))
    assert plan.changes == ()
    assert {left.why for left in plan.left_alone} == {"never tried"}
    assert all("may be one of stations" in left.reason for left in plan.left_alone)
