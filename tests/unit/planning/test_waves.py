"""Waves of a plan: who is held back, how large waves are, and what plans in waves say."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from kinband.errors import BadInputError
from kinband.judging import LEAST_CONTROLS
from kinband.planning import Change, ChangePlan, LeftAlone, Staging, Waves
from kinband.planning.plan import RECEIPT, check_folder
from kinband.planning.waves import CONTROLS, held_back, lacks_controls, number_held_back, staged
from kinband.stats import Estimate


def change(station: str, proposed: int = 4) -> Change:
    gain = Estimate(0.1, 0.05, 0.15)
    return Change(station, {"tilt": 2}, {"tilt": proposed}, 0.9, 0.8, gain, 0.02, 0.03, 40, 0.3, (), "because")


def plan_of(many: int, left: int = 0) -> ChangePlan:
    changes = tuple(change(f"s{n:02d}", 4 if n % 4 else 6) for n in range(many))
    alone = tuple(LeftAlone(f"l{n}", {"tilt": 2}, "best already", "Nothing is better.") for n in range(left))
    return ChangePlan(("tilt",), changes, alone)


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def test_as_many_controls_are_wanted_as_the_judgement_needs() -> None:
    assert CONTROLS == LEAST_CONTROLS


def test_those_held_back_are_spread_evenly_over_what_is_proposed() -> None:
    changes = plan_of(40).changes  # 10 to tilt 6, 30 to tilt 4
    to = {one.station: one.proposed["tilt"] for one in changes}
    for seed in range(20):
        settings = [to[name] for name in held_back(changes, 8, rng(seed))]
        assert (settings.count(6), settings.count(4)) == (2, 6)


def test_every_change_has_the_same_chance_of_being_held_back() -> None:
    changes, draws, k = plan_of(12).changes, 3000, 4
    counts = dict.fromkeys((one.station for one in changes), 0)
    generator = rng(1)
    for _ in range(draws):
        for name in held_back(changes, k, generator):
            counts[name] += 1
    p = k / 12
    error = np.sqrt(p * (1 - p) / draws)
    assert max(abs(count / draws - p) for count in counts.values()) < 4 * error


@pytest.mark.parametrize(
    ("many", "left", "share", "held"),
    [
        (40, 20, 0.1, 4),
        (41, 20, 0.1, 5),
        (40, 0, 0.1, 8),  # a control group of eight
        (40, 5, 0.05, 3),  # of which five are there already
        (10, 0, 0.1, 5),  # but never more than half
        (1, 0, 0.1, 0),
        (40, 0, 0.0, 0),
    ],
)
def test_the_share_is_held_back_and_more_where_controls_lack(many: int, left: int, share: float, held: int) -> None:
    assert number_held_back(plan_of(many, left), share) == held


def test_waves_are_even_and_the_first_never_the_largest() -> None:
    plan = staged(plan_of(11), [], Staging(3))
    assert plan.waves is not None
    assert plan.waves.sizes == [3, 4, 4]
    assert [plan.waves.label(one.station) for one in plan.changes] == ["1"] * 3 + ["2"] * 4 + ["3"] * 4


def test_there_are_no_more_waves_than_changes_and_none_without_changes() -> None:
    assert staged(plan_of(2), [], Staging(5)).waves == Waves(2, {"s00": 1, "s01": 2})
    assert staged(plan_of(0), [], Staging(5)).waves is None


def test_the_lot_is_that_of_the_seed() -> None:
    drawn = [staged(plan_of(30), [], Staging(2, hold_back=0.2, seed=seed)).waves for seed in (1, 1, 2)]
    assert drawn[0] == drawn[1] != drawn[2]


def test_too_few_controls_are_told() -> None:
    staging = Staging(2)
    (said,) = lacks_controls(staged(plan_of(9, 3), [], staging), staging)
    assert "needs 8 stations that stay as they are, and after the last wave 3 do: --hold-back keeps some" in said
    assert lacks_controls(staged(plan_of(9, 8), [], staging), staging) == []


def test_files_say_the_wave_and_the_roll_back_is_whole(tmp_path: Path) -> None:
    plan = staged(plan_of(12, 8), [], Staging(2, hold_back=0.25))
    plan.write(tmp_path)
    with (tmp_path / "plan.csv").open() as file:
        waves = [row["wave"] for row in csv.DictReader(file)]
    assert sorted(waves) == ["1"] * 4 + ["2"] * 5 + ["held back"] * 3
    assert len((tmp_path / "rollback.csv").read_text().splitlines()) == 13
    page = (tmp_path / "plan.html").read_text()
    assert (page.count(">wave 1<"), page.count(">held back<")) == (4, 3)
    assert "In 2 waves of 4 and 5, first those from which the others learn most; 3 held back by lot." in page
    told = json.loads(json.dumps(plan.to_dict()))
    assert told["waves"]["sizes"] == [4, 5]
    assert sorted(one["wave"] for one in told["changes"]) == sorted(waves)


def test_without_waves_nothing_is_said_of_them(tmp_path: Path) -> None:
    plan = plan_of(3)
    plan.write(tmp_path)
    assert "wave" not in "".join((tmp_path / name).read_text() for name in ("plan.csv", "plan.html", "rollback.csv"))
    assert "wave" not in json.dumps(plan.to_dict())


def test_a_folder_of_which_a_wave_was_carried_out_is_kept(tmp_path: Path) -> None:
    (tmp_path / "wave-1").mkdir()
    (tmp_path / "wave-1" / RECEIPT).write_text("station\n")
    with pytest.raises(BadInputError, match="was carried out"):
        check_folder(tmp_path, replace=True)


@pytest.mark.parametrize(("waves", "share"), [(0, 0.1), (True, 0.1), (2, 1.0), (2, -0.1), (2, float("nan"))])
def test_nonsense_is_refused(waves: int, share: float) -> None:
    with pytest.raises(BadInputError, match="must be"):
        Staging(waves, hold_back=share)
