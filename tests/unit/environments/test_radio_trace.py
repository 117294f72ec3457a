"""The simulated trace: its columns, its size, and what its rows mean."""

import json
from pathlib import Path

import numpy as np
import pytest
from pyarrow import csv, parquet

from kinband.environments.radio import KNOB, STATE_NAMES, Parameters, SimulatedTrace, layers_at, simulate_trace
from kinband.environments.radio.trace_writer import COLUMNS, REWARD, SAMPLES
from kinband.errors import BadInputError
from kinband.trace import Trace
from kinband.trace.files import bundled_file


@pytest.fixture(scope="module")
def made() -> SimulatedTrace:
    return simulate_trace(6, days=2, hours=(18.0, 18.1), period_minutes=0.75, changes_per_day=3, seed=11)


def test_columns_are_those_of_the_papers_table_and_the_session_count(made: SimulatedTrace) -> None:
    names = "station time active_users cqi_share small_packet_sdu_share small_packet_volume_share users "
    names += "handover_threshold_dbm good_throughput_share sessions"
    assert tuple(names.split()) == COLUMNS == tuple(made.columns)
    assert made.trace.state_names == STATE_NAMES
    assert list(made.trace.configuration) == [KNOB]
    assert len(made.trace.space()) == 29


def test_there_is_a_row_for_every_station_period_and_day(made: SimulatedTrace) -> None:
    # Six minutes make 8 periods of 45 s; every period of this busy city has sessions.
    assert len(made.trace) == 2 * 8 * 6
    assert (made.columns["sessions"] > 0).all()
    rewards = made.columns["good_throughput_share"]
    assert 0 <= rewards.min() < rewards.max() <= 1
    times = np.unique(made.columns["time"])
    assert len(times) == 16
    assert np.diff(times[:8]).tolist() == [np.timedelta64(45, "s").item()] * 7


def test_thresholds_change_now_and_then_and_lie_in_the_papers_range(made: SimulatedTrace) -> None:
    thresholds = made.columns[KNOB].reshape(16, 6)
    assert thresholds.min() >= -112
    assert thresholds.max() <= -84
    changed = (np.diff(thresholds, axis=0) != 0).mean()
    assert 0.1 < changed < 0.7


def test_a_rows_state_was_measured_before_its_reward(made: SimulatedTrace) -> None:
    # The same traffic with other thresholds from the start: the states of the first rows cannot tell them apart.
    other = simulate_trace(6, days=1, hours=(18.0, 18.025), period_minutes=0.75, changes_per_day=1.9, seed=11)
    assert (other.columns[KNOB][6:12] != made.columns[KNOB][6:12]).any()
    for name in STATE_NAMES:
        np.testing.assert_array_equal(other.columns[name][:6], made.columns[name][:6])


def test_same_seed_gives_the_same_trace_and_other_seeds_others() -> None:
    make = {"days": 1, "hours": (20.0, 20.05), "period_minutes": 1.0, "layout_seed": 1}
    one, two, other = (simulate_trace(3, seed=seed, **make) for seed in (3, 3, 4))  # type: ignore[arg-type]
    assert one.trace == two.trace
    assert one.trace.stations == other.trace.stations
    assert one.trace != other.trace


def test_trace_and_metadata_come_back_from_their_files(made: SimulatedTrace, tmp_path: Path) -> None:
    side = made.write(tmp_path / "city.parquet")
    assert Trace.read(tmp_path / "city.parquet") == made.trace
    saved = json.loads(side.read_text(encoding="utf-8"))
    assert saved == json.loads(json.dumps(made.metadata))
    assert saved["seed"] == 11
    assert len(saved["layout"]["azimuth_deg"]) == 6
    assert saved["parameters"]["mobility"]["a3_offset_db"] == 3.0


def test_files_hold_the_papers_columns_under_their_own_names_and_in_their_order(
    made: SimulatedTrace, tmp_path: Path
) -> None:
    for name in ("city.parquet", "city.csv"):
        made.write(tmp_path / name)
        read = (parquet.read_table if name.endswith("parquet") else csv.read_csv)(tmp_path / name)
        assert tuple(read.column_names) == COLUMNS
        assert read.column(REWARD).to_pylist() == made.columns[REWARD].tolist()
        assert read.column(SAMPLES).to_pylist() == made.columns[SAMPLES].tolist()
        assert Trace.read(tmp_path / name) == made.trace


def test_a_file_says_what_its_columns_are(made: SimulatedTrace, tmp_path: Path) -> None:
    made.write(tmp_path / "city.csv.gz")
    trace = Trace.read(tmp_path / "city.csv.gz")
    np.testing.assert_array_equal(trace.reward, made.columns[REWARD])
    n, p = made.columns[SAMPLES], (made.columns[REWARD] * made.columns[SAMPLES] + 1) / (made.columns[SAMPLES] + 2)
    noise = trace.reward_noise()
    assert noise is not None
    np.testing.assert_allclose(noise, p * (1 - p) / n)
    assert trace.space() == made.trace.space()


def test_the_bundled_trace_has_the_papers_columns_and_is_small() -> None:
    file = bundled_file("city.parquet")
    assert tuple(parquet.read_schema(file).names) == COLUMNS
    assert file.stat().st_size < 3_000_000
    side = json.loads(file.with_suffix(".json").read_text(encoding="utf-8"))
    assert tuple(side["columns"]) == COLUMNS
    assert side["parameters"] == json.loads(json.dumps(Parameters().to_dict()))
    assert side["rows"] == len(Trace.bundled()) == 56_700


def test_a_trace_of_three_layers_notes_them_and_differs_from_one_of_two() -> None:
    make = {"days": 1, "hours": (20.0, 20.05), "period_minutes": 1.0, "seed": 3}
    two, three = (
        simulate_trace(3, parameters=Parameters(layers=layers_at(ghz)), **make)  # type: ignore[arg-type]
        for ghz in ((2.6, 0.8), (2.6, 1.8, 0.8))
    )
    assert [layer["frequency_ghz"] for layer in three.metadata["parameters"]["layers"]] == [2.6, 1.8, 0.8]
    np.testing.assert_array_equal(two.columns[KNOB], three.columns[KNOB])
    assert (two.columns["cqi_share"] != three.columns["cqi_share"]).any()


def test_progress_is_told_and_ends_at_one() -> None:
    told: list[float] = []
    simulate_trace(3, days=1, hours=(15.0, 15.05), period_minutes=1.0, progress=told.append)
    assert told == [1 / 3, 2 / 3, 1.0]


def test_a_period_longer_than_the_day_is_refused() -> None:
    with pytest.raises(BadInputError, match="does not fit into the hours"):
        simulate_trace(3, hours=(14.0, 14.5), period_minutes=31.0)
