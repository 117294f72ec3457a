"""A log parted for a comparison: disjoint, in the right place, and refused where nothing could be compared."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from kinband import ConfigurationSpace, Trace
from kinband.environments import SmoothTraceEnvironment
from kinband.errors import BadInputError
from kinband.experiments.problems import drawn_by_seed, part_trace, problem_from
from kinband.space import Categories

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


def test_the_token_of_a_problem_follows_from_what_its_parts_hold() -> None:
    token = problem_from(*part_trace(trace_of(), 5)).token
    assert token == problem_from(*part_trace(trace_of(), 5)).token
    others = [problem_from(*part_trace(trace_of(), 6)), problem_from(*part_trace(trace_of(seed=4), 5))]
    assert len({token, *(other.token for other in others)}) == 3


def test_a_parted_trace_is_learned_from_in_one_part_and_played_on_in_the_other() -> None:
    trace = trace_of(load=np.full(3 * ROWS, 0.25))
    log, rest = part_trace(trace, 5)
    problem = problem_from(log, rest)
    assert sorted(problem.log.y.tolist()) == sorted(log.reward.tolist())
    world = problem.environment
    assert isinstance(world, SmoothTraceEnvironment)
    assert world.stations == trace.stations
    assert all(rest.reward.min() <= reward <= rest.reward.max() for reward in world.truth("a").expected)
    assert not drawn_by_seed(problem)
