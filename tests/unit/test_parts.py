"""A log parted for a comparison: disjoint, in the right place, and refused where nothing could be compared."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kinband import Categories, ConfigurationSpace, Trace
from kinband.environments import SmoothTraceEnvironment
from kinband.errors import BadInputError
from kinband.experiments.metrics import Estimate
from kinband.experiments.paper.reproduce import FairProtocol
from kinband.experiments.paper.verdict import in_words, standings
from kinband.experiments.play.cases import Case, Learner
from kinband.experiments.play.problems import part_trace, problem_of, read_parts, store_parts
from kinband.experiments.play.runs import Curve

ROWS = 20


def trace_of(stations: str = "abc", *, rows: int = ROWS, seed: int = 3, **changes: Any) -> Trace:
    rng = np.random.default_rng(seed)
    n = rows * len(stations)
    columns: dict[str, Any] = {
        "station": np.repeat(list(stations), rows),
        "time": rng.permutation(n),
        "load": rng.random(n),
        "tilt": rng.integers(0, 4, n),
        "reward": rng.random(n),
    }
    columns |= changes
    return Trace.from_frame({name: c for name, c in columns.items() if c is not None}, {"configuration": ["tilt"]})


def rows_of(trace: Trace) -> set[tuple[str, float]]:
    return set(zip(trace.station.tolist(), trace.reward.tolist(), strict=True))


def test_the_log_is_the_earliest_rows_of_every_station() -> None:
    trace = trace_of()
    log, rest = part_trace(trace, 7)
    assert rows_of(log) | rows_of(rest) == rows_of(trace)
    assert not rows_of(log) & rows_of(rest)
    for station in "abc":
        known, later = log.select(log.station == station), rest.select(rest.station == station)
        assert len(known) == 7
        assert known.time is not None
        assert later.time is not None
        assert known.time.max() < later.time.min()


def test_groups_are_never_torn_apart() -> None:
    trace = trace_of(rows=40, time=None)
    days = np.tile(np.repeat(np.arange(8), 5), 3)
    for seed in range(5):
        log, rest = part_trace(trace, 6, groups=days, seed=seed)
        assert [int((log.station == s).sum()) for s in "abc"] == [6, 6, 6]
        day = {row: int(label) for row, label in zip(zip(trace.station, trace.reward, strict=True), days, strict=True)}
        assert not {day[row] for row in rows_of(log)} & {day[row] for row in rows_of(rest)}
        assert len({day[row] for row in rows_of(rest)}) == 4
    assert part_trace(trace, 6, groups=days, seed=1)[0] != part_trace(trace, 6, groups=days, seed=2)[0]


def test_both_parts_carry_the_space_of_the_whole() -> None:
    trace = trace_of().with_space(ConfigurationSpace(tilt=Categories(range(9))))
    for part in part_trace(trace, 5):
        assert part.space() == trace.space()


def test_short_stations_are_refused_or_left_out() -> None:
    rng = np.random.default_rng(5)
    short = trace_of("d", rows=6, time=rng.permutation(6))
    whole = trace_of()
    columns = {
        name: np.concatenate([getattr(whole, name), getattr(short, name)]) for name in ("station", "time", "reward")
    }
    columns["tilt"] = np.concatenate([whole.configuration["tilt"], short.configuration["tilt"]])
    trace = Trace.from_frame(columns, {"configuration": ["tilt"]})
    with pytest.raises(BadInputError, match=r"1 of 4 station.* such as 'd' with 6: .* log_rows, .* skip_short"):
        part_trace(trace, 10)
    log, rest = part_trace(trace, 10, skip_short=True)
    assert log.stations == rest.stations == ("a", "b", "c")


@pytest.mark.parametrize(
    ("changes", "options", "message"),
    [
        ({"stations": "a"}, {}, "holds one station, 'a'"),
        ({"time": None}, {}, "has no time"),
        ({"tilt": np.full(3 * ROWS, 2)}, {}, "one configuration, {'tilt': 2}"),
        ({"reward": np.full(3 * ROWS, 0.5)}, {}, "all rewards to play for are 0.5"),
        ({}, {"log_rows": ROWS - 9}, "3 of 3 station"),
        ({}, {"log_rows": ROWS - 9, "skip_short": True}, "only 0 of 3 station"),
        ({}, {"groups": [1] * 3 * ROWS}, "all rows are of one group, 1"),
        ({}, {"groups": [1, 2]}, "one per row"),
    ],
)
def test_what_cannot_be_compared_is_refused(changes: Mapping[str, Any], options: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInputError, match=message):
        part_trace(trace_of(**changes), options.pop("log_rows", 5), **options)


def test_the_place_of_the_parts_follows_from_what_they_hold(tmp_path: Path) -> None:
    log, rest = part_trace(trace_of(), 5)
    place = store_parts(log, rest, tmp_path)
    assert read_parts(place) == (log, rest)
    before = (place / "log.parquet").stat().st_mtime_ns
    os.utime(place / "log.parquet", ns=(before - 10**9, before - 10**9))
    assert store_parts(log, rest, tmp_path) == place
    assert (place / "log.parquet").stat().st_mtime_ns == before - 10**9  # what is there is left as it is
    others = [
        store_parts(*part_trace(trace_of(), 6), tmp_path),
        store_parts(*part_trace(trace_of(seed=4), 5), tmp_path),
    ]
    assert len({place, *others}) == 3
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(path.name for path in (place, *others))


def test_a_case_on_parts_learns_from_one_and_plays_on_the_other(tmp_path: Path) -> None:
    trace = trace_of(load=np.full(3 * ROWS, 0.25))  # a feature that never varies is no news to every process
    log, rest = part_trace(trace, 5)
    case = Case("t", "fair", str(store_parts(log, rest, tmp_path)), Learner("x", "pooled"), "sequential", 3, 1)
    problem = problem_of(case)
    assert sorted(problem.log.y.tolist()) == sorted(log.reward.tolist())
    world = problem.environment
    assert isinstance(world, SmoothTraceEnvironment)
    assert world.stations == trace.stations
    assert all(rest.reward.min() <= reward <= rest.reward.max() for reward in world.truth("a").expected)


# What a comparison says.


def curves(**regrets: list[float]) -> list[Curve]:
    made = []
    for name, values in regrets.items():
        for seed, value in enumerate(values, start=1):
            case = Case("t", "fair", "x", Learner(name, name), "sequential", 4, seed)
            made.append(Curve(case, np.array([4]), np.array([value]), np.array([value]), np.array([0.0]), 0.0))
    return made


def verdict(alone: list[float], shared: list[float]) -> FairProtocol:
    warm = curves(independent=alone, embedding=shared, prediction=[20.0, 20.0, 20.0])
    cold = curves(independent=[10.0, 10.0, 10.0], embedding=[12.0, 12.0, 12.0], prediction=[8.0, 8.0, 8.0])
    return FairProtocol({"independent": "krause-ong", "embedding": 0.3, "prediction": 1.0}, warm, cold)


@pytest.mark.parametrize(
    ("alone", "shared", "answer"),
    [
        ([10.0, 10.0, 10.0], [6.0, 7.0, 8.0], "Sharing helps here: conditional embedding saves 30% (20% to 40%) of"),
        ([10.0, 10.0, 10.0], [12.0, 13.0, 14.0], "Sharing hurts here: even the best, conditional embedding, costs 30%"),
        ([10.0, 10.0, 10.0], [8.0, 10.0, 12.0], "Sharing makes no clear difference here: the best, conditional"),
        ([20.0, 0.0, 10.0], [12.0, 0.0, 6.0], "Sharing helps here: conditional embedding saves 40% (40% to 40%)"),
        ([0.0, 0.0, 0.0], [8.0, 10.0, 12.0], "There is nothing to save here"),
    ],
)  # fmt: skip
def test_the_answer_follows_the_interval_of_the_best(alone: list[float], shared: list[float], answer: str) -> None:
    said = in_words(verdict(alone, shared))
    assert said.startswith(answer)
    assert ("the best is mutual R² and saves 20%" in said) == (max(alone) > 0)


def test_standings_say_for_every_learner_what_it_paid_and_saved() -> None:
    rows = {row["learner"]: row for row in standings(verdict([10.0, 20.0, 30.0], [5.0, 10.0, 15.0]))}
    assert rows["independent"]["saved"] is None
    assert rows["independent"]["beta"] == "krause-ong"
    assert rows["independent"]["regret"]["mean"] == pytest.approx(20.0)
    assert Estimate(rows["embedding"]["saved"]["mean"], *rows["embedding"]["saved"]["interval"]).value == 0.5
    assert rows["embedding"]["saved"]["interval"] == pytest.approx([0.5, 0.5])
    assert rows["prediction"]["cold"]["saved"]["mean"] == pytest.approx(0.2)
