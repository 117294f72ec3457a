"""Traces: the same log from every source, exact files, and a clear sentence for whatever is wrong."""

import gzip
import json
import pickle
import subprocess
import sys
import warnings
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import csv, parquet

from kinband.contexts import ContextEncoder, StateScaler
from kinband.errors import BadInputError, KinbandError, NotFoundError
from kinband.space import Categories, ConfigurationSpace
from kinband.trace import Trace
from kinband.trace.columns import RowError
from kinband.trace.rewards import mixes_units

COLUMNS: Mapping[str, Any] = {
    "station": "cell",
    "time": "when",
    "reward": "good",
    "configuration": ["threshold", "scheduler", "boost"],
    "state": {"load": "L", "users": "users"},
}


def log(rows: int = 12) -> dict[str, list[Any]]:
    """Plain lists, as an export would hold them."""
    rng = np.random.default_rng(5)
    start = datetime(2024, 5, 1, 14)
    return {
        "cell": [int(c) for c in rng.choice([3714, 98, 120], rows)],
        "when": [start + timedelta(minutes=15 * i) for i in range(rows)],
        "L": rng.uniform(size=rows).tolist(),
        "users": rng.integers(0, 400, rows).tolist(),
        "threshold": rng.integers(-112, -84, rows).tolist(),
        "scheduler": rng.choice(["rr", "pf"], rows).tolist(),
        "boost": [bool(b) for b in rng.integers(0, 2, rows)],
        "good": rng.uniform(size=rows).tolist(),
        "remark": ['a, "b"'] * rows,
    }


def simple(**changes: Any) -> dict[str, Any]:
    columns = {
        "station": ["a", "a", "b", "b"],
        "time": [1, 2, 1, 2],
        "load": [0.1, 0.2, 0.3, 0.5],
        "tilt": [2, 4, 2, 6],
        "reward": [0.5, 0.75, 0.25, 1.0],
    }
    return {name: column for name, column in (columns | changes).items() if column is not None}


def trace_of(*, columns: Mapping[str, Any] | None = None, **changes: Any) -> Trace:
    return Trace.from_frame(simple(**changes), {"configuration": ["tilt"], **(columns or {})})


def full_trace() -> Trace:
    return Trace.from_frame(log(), COLUMNS)


# Where a log comes from does not matter.


def from_csv(columns: Mapping[str, Any], path: Path) -> Trace:
    pl.DataFrame(columns).write_csv(path / "log.csv")
    return Trace.read(path / "log.csv", COLUMNS)


def from_gzip(columns: Mapping[str, Any], path: Path) -> Trace:
    text = pd.DataFrame(columns).to_csv(index=False)
    with gzip.open(path / "log.csv.gz", "wt") as file:
        file.write(text)
    return Trace.read(path / "log.csv.gz", COLUMNS)


def from_parquet(columns: Mapping[str, Any], path: Path) -> Trace:
    parquet.write_table(pa.table(dict(columns)), path / "log.parquet")
    return Trace.read(str(path / "log.parquet"), COLUMNS)


def from_odd_pandas(columns: Mapping[str, Any], path: Path) -> Trace:
    frame = pd.DataFrame(columns).astype({"cell": float, "users": "Int64", "scheduler": "category", "boost": "boolean"})
    frame["when"] = frame["when"].astype("datetime64[ns]").dt.tz_localize("UTC").dt.tz_convert("Europe/Paris")
    return Trace.from_frame(frame.set_index(frame.index + 7), COLUMNS)


def from_odd_polars(columns: Mapping[str, Any], path: Path) -> Trace:
    frame = pl.DataFrame(columns).with_columns(
        pl.col("scheduler").cast(pl.Categorical), pl.col("cell").cast(pl.String), pl.col("users").cast(pl.UInt16)
    )
    return Trace.from_frame(frame, COLUMNS)


def from_strings(columns: Mapping[str, Any], path: Path) -> Trace:
    return Trace.from_frame({**columns, "when": [moment.isoformat(" ") for moment in columns["when"]]}, COLUMNS)


def from_zoned_strings(columns: Mapping[str, Any], path: Path) -> Trace:
    zoned = [(m + timedelta(hours=2)).isoformat() + "+02:00" for m in columns["when"]]
    return Trace.from_frame({**columns, "when": zoned}, COLUMNS)


SOURCES: list[Callable[[Mapping[str, Any], Path], Trace]] = [
    lambda columns, _: Trace.from_frame(pd.DataFrame(columns), COLUMNS),
    lambda columns, _: Trace.from_frame(pl.DataFrame(columns), COLUMNS),
    lambda columns, _: Trace.from_frame(pa.table(dict(columns)), COLUMNS),
    lambda columns, _: Trace.from_frame({name: np.array(column) for name, column in columns.items()}, COLUMNS),
    from_csv,
    from_gzip,
    from_parquet,
    from_odd_pandas,
    from_odd_polars,
    from_strings,
    from_zoned_strings,
]


@pytest.mark.parametrize("source", SOURCES)
def test_every_source_gives_the_same_trace(source: Callable[[Mapping[str, Any], Path], Trace], tmp_path: Path) -> None:
    columns = log()
    trace = source(columns, tmp_path)
    assert trace.station.tolist() == [str(cell) for cell in columns["cell"]]
    assert trace.time is not None
    assert trace.time.dtype == "datetime64[us]"
    assert trace.time.tolist() == columns["when"]
    assert trace.state_names == ("load", "users")
    assert trace.state.tolist() == [[a, float(b)] for a, b in zip(columns["L"], columns["users"], strict=True)]
    for knob in ("threshold", "scheduler", "boost"):
        assert trace.configuration[knob].tolist() == columns[knob]
    assert trace.reward.tolist() == columns["good"]
    assert trace == full_trace()


def test_state_defaults_to_the_numeric_columns_left_over() -> None:
    trace = trace_of(users=[1, 2, 3, 4], remark=list("wxyz"), samples=[9, 8, 7, 6], noise=[0.1, 0.2, 0.3, 0.4])
    assert trace.state_names == ("load", "users")
    assert trace.time is not None
    assert trace.noise is not None
    assert trace.sample_count is not None
    left = trace_of(columns={"time": None, "noise": None}, noise=[0.1, 0.2, 0.3, 0.4])
    assert (left.time, left.noise, left.state_names) == (None, None, ("time", "load", "noise"))
    assert trace_of(columns={"state": ["time"]}).time is None


def test_a_trace_without_state_works() -> None:
    samples = trace_of(columns={"state": []}).samples()
    assert samples.features == ("tilt",)
    assert samples.X.shape == (4, 1)


def test_one_station_and_one_row_are_enough() -> None:
    trace = Trace.from_frame({"station": ["x"], "tilt": [2], "reward": [0.5]}, {"configuration": "tilt"})
    assert (trace.stations, len(trace), trace.time) == (("x",), 1, None)


def test_leading_zeros_of_station_names_survive_csv(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text("cell,tilt,reward\n0012,2,0.5\n12,2,0.5\n")
    trace = Trace.read(tmp_path / "log.csv", {"station": "cell", "configuration": ["tilt"]})
    assert trace.stations == ("0012", "12")


def test_csv_with_semicolons_decimal_commas_and_byte_order_mark(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text("\ufeffstation;tilt;reward\na;2,5;0,5\n", encoding="utf-8")
    trace = Trace.read(tmp_path / "log.csv", {"configuration": ["tilt"]}, delimiter=";", decimal_point=",")
    assert (trace.reward.tolist(), trace.configuration["tilt"].tolist()) == ([0.5], [2.5])
    with pytest.raises(BadInputError, match="not parted by ',': pass delimiter=';'"):
        Trace.read(tmp_path / "log.csv", {"configuration": ["tilt"]}, delimiter=",")
    assert Trace.read(tmp_path / "log.csv", {"configuration": ["tilt"]}) == trace


def test_single_precision_settings_mean_what_was_written() -> None:
    trace = trace_of(tilt=np.array([0.1, 0.2, 0.1, 0.3], dtype=np.float32))
    assert trace.configuration["tilt"].tolist() == [0.1, 0.2, 0.1, 0.3]


# Files give back what was written.


@pytest.mark.parametrize("name", ["log.parquet", "log.csv", "log.csv.gz", "LOG.CSV"])
def test_files_give_back_the_same_trace(name: str, tmp_path: Path) -> None:
    space = ConfigurationSpace(threshold=range(-112, -83), scheduler=["pf", "rr"], boost=Categories([True, False]))
    for trace in (full_trace(), full_trace().with_space(space)):
        trace.write(tmp_path / name)
        again = Trace.read(tmp_path / name)
        assert again == trace
        assert again.time is not None
        assert again.time.dtype == "datetime64[us]"
        assert {k: v.dtype.kind for k, v in again.configuration.items()} == {
            "threshold": "i",
            "scheduler": "U",
            "boost": "b",
        }
        assert again.carried == trace.carried


@pytest.mark.parametrize("name", ["log.parquet", "log.csv"])
@settings(deadline=None, max_examples=25)
@given(data=st.data())
def test_files_keep_every_bit(name: str, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    finite, rows = st.floats(allow_nan=False, allow_infinity=False), data.draw(st.integers(1, 5))
    text = st.text(min_size=1, max_size=5).filter(lambda t: "\0" not in t)

    def column(values: st.SearchStrategy[Any]) -> list[Any]:
        return data.draw(st.lists(values, min_size=rows, max_size=rows))

    trace = Trace(
        station=np.array(column(text)),
        reward=np.array(column(finite)),
        configuration={"time": np.array(column(text)), "tilt": np.array(column(st.floats(-90, 90)))},
        state=np.array(column(st.lists(finite, min_size=2, max_size=2))),
        state_names=("reward", "samples"),
        time=np.array(column(st.datetimes()), dtype="datetime64[us]") if data.draw(st.booleans()) else None,
        noise=np.array(column(st.floats(1e-300, 1e300) | st.just(np.nan))) if data.draw(st.booleans()) else None,
        sample_count=np.array(column(st.integers(1, 99)), dtype=float) if data.draw(st.booleans()) else None,
    )
    path = tmp_path_factory.mktemp("files") / name
    trace.write(path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # equal rows are drawn now and then
        again = Trace.read(path)
    assert again == trace
    assert again.reward.tobytes() == trace.reward.tobytes()
    assert again.state.tobytes() == trace.state.tobytes()


def test_numbers_that_are_strings_stay_strings_in_csv(tmp_path: Path) -> None:
    trace = trace_of(tilt=["1", "2", "1", "10"])
    trace.write(tmp_path / "log.csv")
    assert Trace.read(tmp_path / "log.csv").configuration["tilt"].tolist() == ["1", "2", "1", "10"]


def test_the_column_map_lies_in_the_file_or_beside_it(tmp_path: Path) -> None:
    trace_of().write(tmp_path / "log.parquet")
    stored = json.loads(parquet.read_schema(tmp_path / "log.parquet").metadata[b"kinband"])
    assert stored["columns"]["configuration"] == ["tilt"]
    trace_of().write(tmp_path / "log.csv")
    assert json.loads((tmp_path / "log.csv.columns.json").read_text())["columns"] == stored["columns"]


def test_a_given_column_map_goes_before_the_stored_one(tmp_path: Path) -> None:
    trace_of().write(tmp_path / "log.parquet")
    again = Trace.read(tmp_path / "log.parquet", {"configuration": ["load"], "state": ["tilt"]})
    assert (again.state_names, list(again.configuration)) == (("tilt",), ["load"])


@pytest.mark.parametrize("note", ["{", "[]", "{}", '{"format": 1, "columns": 3}', '{"format": 99, "columns": {}}'])
def test_a_damaged_column_map_is_refused(note: str, tmp_path: Path) -> None:
    trace_of().write(tmp_path / "log.csv")
    (tmp_path / "log.csv.columns.json").write_text(note)
    with pytest.raises(BadInputError, match="pass columns="):
        Trace.read(tmp_path / "log.csv")


# What is wrong with a file.


def write_png(path: Path) -> None:
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(50))


def write_cut_parquet(path: Path) -> None:
    parquet.write_table(pa.table({"a": list(range(1000))}), path)
    path.write_bytes(path.read_bytes()[:-20])


def write_cut_gzip(path: Path) -> None:
    path.write_bytes(gzip.compress(np.random.default_rng(0).bytes(5000))[:40])


@pytest.mark.parametrize(
    ("name", "prepare", "message"),
    [
        ("none.parquet", lambda path: None, "there is no file .*none.parquet"),
        ("dir.parquet", lambda path: path.mkdir(), "is a directory"),
        ("log.docx", lambda path: path.write_bytes(b"PK\x03\x04"), "none of the suffixes .csv, .csv.gz, .parquet"),
        ("log.csv", lambda path: path.touch(), "is empty"),
        ("log.parquet", lambda path: path.touch(), "is empty"),
        ("log.parquet", write_png, "is not a Parquet file but a PNG image"),
        ("log.csv", write_png, "is not CSV text but a PNG image"),
        ("log.parquet", lambda path: path.write_text("station,reward\n"), "is not a Parquet file but text"),
        ("log.parquet", write_cut_parquet, "is damaged"),
        ("log.csv", lambda path: path.write_bytes(b"a,b\n\0\0"), "some binary file"),
        ("log.csv.gz", lambda path: path.write_text("a,b\n1,2"), "is not a gzip file but text"),
        ("log.csv.gz", write_cut_gzip, "is damaged"),
        ("log.csv.gz", lambda path: path.write_bytes(b"\x1f\x8b\0\0damaged"), "is damaged"),
        (
            "log.csv",
            lambda path: path.write_text("station,tilt,reward\na,1,2\n3\n"),
            "line 3 has 1 column.*, the header has 3",
        ),
        ("log.csv", lambda path: path.write_text("station,tilt,reward\n"), "no rows"),
        (
            "log.csv",
            lambda path: path.write_text("station,tilt,reward,tilt\na,1,2,3\n"),
            "several columns named 'tilt'",
        ),
    ],
)
def test_a_file_that_is_not_what_it_says_is_refused(
    name: str, prepare: Callable[[Path], object], message: str, tmp_path: Path
) -> None:
    prepare(tmp_path / name)
    with pytest.raises(BadInputError, match=message) as caught:
        Trace.read(tmp_path / name, {"configuration": ["tilt"]})
    assert "\n" not in str(caught.value)


def test_writing_needs_a_known_suffix_and_a_directory(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match="none of the suffixes"):
        trace_of().write(tmp_path / "log.txt")
    with pytest.raises(BadInputError, match="no directory"):
        trace_of().write(tmp_path / "none" / "log.csv")


def test_a_foreign_file_needs_to_be_told_its_configuration(tmp_path: Path) -> None:
    csv.write_csv(pa.table(simple()), tmp_path / "log.csv")
    with pytest.raises(
        BadInputError, match=r"'station', 'time', 'load', 'tilt', 'reward': pass columns=\{\"configuration"
    ):
        Trace.read(tmp_path / "log.csv")


# What is wrong with columns and their roles.


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"configuration": []}, "configuration columns are not known"),
        ({"configuration": ["tlt"]}, "no column 'tlt' .the configuration., did you mean 'tilt'.*'load', 'tilt'"),
        (
            {"configuration": ["tilt"], "reward": "good"},
            r"no column 'good' .the reward.*pass columns=\{\"reward\": \"...\"",
        ),
        ({"configuration": ["tilt"], "state": ["lod", "x"]}, "'lod' .the state., did you mean 'load'.* and 'x'"),
        ({"configuration": ["tilt"], "station": "cell"}, "no column 'cell' .the station."),
        ({"configuration": ["tilt"], "stations": "a"}, "unknown role 'stations', did you mean 'station'"),
        ({"configuration": ["tilt"], "reward": None}, "must be the name of a column, got None"),
        ({"configuration": ["tilt"], "reward": ["reward"]}, "must be the name of a column"),
        ({"configuration": [3]}, "must hold column names"),
        ({"configuration": 3}, "must hold column names"),
        ({"configuration": ["tilt", "tilt"]}, "names a column twice"),
        ({"configuration": ["tilt"], "state": ["tilt"]}, "'tilt' is used as configuration and as state"),
        ({"configuration": ["tilt"], "state": ["reward"]}, "'reward' is used as"),
        ({"configuration": {"x": "tilt", "y": "tilt"}}, "'tilt' is used as configuration and as configuration"),
        ({"configuration": {"x": "tilt"}, "state": {"x": "load"}}, "'x' twice"),
        ("tilt", "columns must be a mapping"),
    ],
)
def test_a_bad_column_map_is_refused(columns: Any, message: str) -> None:
    with pytest.raises(BadInputError, match=message):
        Trace.from_frame(simple(), columns)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"load": [0.1, None, np.nan, 0.3]}, "column 'load' has 2 missing or infinite value.*row 2, counted from 1"),
        ({"load": [0.1, 0.2, np.inf, 0.3]}, "column 'load' has 1 missing or infinite .*row 3, counted from 1"),
        ({"reward": [0.1, 0.2, 0.3, np.nan]}, "column 'reward' has 1 missing"),
        ({"tilt": [2.0, np.nan, 2.0, 2.0]}, "column 'tilt' has 1 missing .*row 2, counted from 1"),
        ({"tilt": ["x", None, "", "y"]}, "column 'tilt' has 2 missing .*row 2, counted from 1"),
        ({"station": ["a", None, "b", ""]}, "column 'station' has 2 missing .*row 2, counted from 1"),
        ({"station": [1.0, 2.5, 3.0, 4.0]}, "names or whole numbers, got 2.5 in row 2"),
        ({"time": ["2024-05-01", None, "2024-05-01", "2024-05-01"]}, "column 'time' has 1 missing"),
        ({"time": np.array(["2024-05-01", "NaT"] * 2, dtype="datetime64[s]")}, "column 'time' has 2 missing"),
        ({"time": ["01/02/2024 14:00"] * 4}, "ISO date-times .* got '01/02/2024 14:00' in row 1"),
        ({"time": ["2024-05-01T14:00", "2024-05-01T14:00Z"] * 2}, "with and without a time zone"),
        (
            {"reward": ["high", "low", "low", "low"]},
            "column 'reward' must hold numbers, got 'high' in row 1, counted from 1",
        ),
        ({"tilt": np.array(["2024-05-01"] * 4, dtype="datetime64[s]")}, "numbers, strings or booleans"),
        ({"tilt": np.array([2**63] * 4, dtype=np.uint64)}, "numbers, strings or booleans"),
        ({"tilt": [1, "x", 2, 3]}, "mixes int and str"),
        ({"load": [0.1]}, "differ in length"),
        ({"load": 0.1}, "one value per row, got 0.1"),
        ({"load": [[0.1, 0.2]] * 4}, "one value per row"),
        ({"noise": [0.1, 0.0, 0.1, 0.1]}, "noise must be above 0, got 0 in row 2, counted from 1"),
        ({"noise": [0.1, np.inf, 0.1, 0.1]}, "'noise' has 1 missing or infinite"),
        ({"samples": [3, 0, 1, 1]}, "sample count must be at least 1, got 0 in row 2, counted from 1"),
        ({"station": [], "time": [], "load": [], "tilt": [], "reward": []}, "no rows"),
    ],
)
def test_a_bad_column_is_refused_by_name_and_row(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInputError, match=message) as caught:
        trace_of(**changes)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame, pa.table])
def test_missing_values_of_every_library_are_seen(frame: Callable[[Any], Any]) -> None:
    for name, column in [
        ("load", [0.1, None, 0.3, 0.3]),
        ("tilt", ["x", None, "y", "y"]),
        ("station", [1, None, 2, 2]),
    ]:
        with pytest.raises(BadInputError, match=f"column '{name}' has 1 missing .*row 2,"):
            Trace.from_frame(frame(simple(**{name: column})), {"configuration": ["tilt"], "state": ["load"]})


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame, pa.table])
def test_text_in_a_state_column_is_refused(frame: Callable[[Any], Any]) -> None:
    with pytest.raises(BadInputError, match=r"column 'load' must hold numbers, got '.' in row 3,"):
        Trace.from_frame(frame(simple(load=["0.1", "0.2", "?", "1"])), {"configuration": ["tilt"], "state": ["load"]})


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (3, "got <class 'int'>"),
        (np.zeros((2, 2)), "mapping of columns"),
        (pl.LazyFrame(simple()), "must be collected first"),
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), "Expected unique column names"),
        (pd.DataFrame([[1, 2]]), "must be strings, got 0"),
        (pa.table([[1], [2]], names=["a", "a"]), "several columns named 'a'"),
        ({3: [1]}, "must be strings, got 3"),
    ],
)
def test_what_is_no_table_is_refused(frame: Any, message: str) -> None:
    with pytest.raises(BadInputError, match=message):
        Trace.from_frame(frame, {"configuration": ["tilt"]})


def test_rewards_outside_their_range_are_refused() -> None:
    columns = {"configuration": ["tilt"]}
    assert len(Trace.from_frame(simple(), columns, reward_range=(0.25, 1))) == 4
    with pytest.raises(
        BadInputError,
        match=r"'reward' has 1 value.* outside \[0, 0.9\], the first is 1 in row 4, counted from 1: repair",
    ):
        Trace.from_frame(simple(), columns, reward_range=(0, 0.9))
    with pytest.raises(BadInputError, match=r"has 3 value.*look like per cent, say so with per_cent=True"):
        Trace.from_frame(simple(reward=[93.1, 0.9, 88, 41]), columns, reward_range=(0, 1))
    with pytest.raises(BadInputError, match="repair these rows"):
        Trace.from_frame(simple(reward=[93.1, -4, 88, 41]), columns, reward_range=(0, 1))


def test_repeated_rows_are_kept_with_a_warning_or_dropped_or_refused() -> None:
    doubled = {name: column + column[1:3] for name, column in simple().items()}
    columns = {"configuration": ["tilt"]}
    with pytest.warns(UserWarning, match=r"2 row.* repeat another exactly"):
        assert len(Trace.from_frame(doubled, columns)) == 6
    assert Trace.from_frame(doubled, columns, duplicates="drop") == trace_of()
    with pytest.raises(BadInputError, match=r"2 row.* the first in row 5,"):
        Trace.from_frame(doubled, columns, duplicates="error")
    with pytest.raises(BadInputError, match="'keep', 'drop' or 'error'"):
        Trace.from_frame(doubled, columns, duplicates="no")  # type: ignore[arg-type]


def test_rows_that_repeat_with_unknown_noise_are_seen() -> None:
    same = {"station": ["a", "a"], "tilt": [1, 1], "reward": [0.5, 0.5], "noise": [np.nan, np.nan]}
    assert len(Trace.from_frame(same, {"configuration": ["tilt"]}, duplicates="drop")) == 1


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"configuration": {}}, "at least one configuration"),
        ({"state": np.zeros((2, 2))}, "2 columns and 1 names"),
        ({"state": np.zeros((3, 1))}, "differ in length"),
        ({"state": np.full((2, 1), np.nan)}, "nan"),
        ({"reward": np.zeros(0)}, "differ in length"),
    ],
)
def test_arrays_are_checked_too(changes: dict[str, Any], message: str) -> None:
    good: dict[str, Any] = {
        "station": np.array(["a", "b"]),
        "reward": np.zeros(2),
        "configuration": {"tilt": np.array([1, 2])},
        "state": np.zeros((2, 1)),
        "state_names": ("load",),
    }
    assert len(Trace(**good)) == 2
    with pytest.raises(BadInputError, match=message):
        Trace(**(good | changes))


# Working with a trace.


def test_stations_are_in_natural_order_whatever_the_rows() -> None:
    names = ["10", "9", "cell10", "cell9", "9a", "B", "a"]
    for order in (names, names[::-1]):
        columns = {"station": order, "tilt": range(7), "reward": range(7)}
        trace = Trace.from_frame(columns, {"configuration": ["tilt"]})
        assert trace.stations == ("9", "9a", "10", "B", "a", "cell9", "cell10")


def test_a_trace_cannot_be_changed_from_outside() -> None:
    reward = np.array([0.5, 0.75, 0.25, 1.0])
    trace = trace_of(reward=reward)
    reward[0] = 9
    assert trace.reward[0] == 0.5
    with pytest.raises(ValueError, match="read-only"):
        trace.reward[0] = 9
    samples = trace.samples()
    samples.y[0] = 9
    assert trace.reward[0] == 0.5


def test_select_takes_a_mask_or_row_numbers() -> None:
    trace = trace_of(noise=[0.1, 0.2, 0.3, 0.4], samples=[1, 2, 3, 4])
    expected = Trace.from_frame(
        {name: column[2:] for name, column in simple(noise=[0.1, 0.2, 0.3, 0.4], samples=[1, 2, 3, 4]).items()},
        {"configuration": ["tilt"]},
    )
    assert trace.select([2, 3]) == trace.select(trace.station == "b") == expected
    assert trace.select([3, 0, 3]).reward.tolist() == [1.0, 0.5, 1.0]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([], "no row is selected"),
        ([False] * 4, "no row is selected"),
        ([True], "1 booleans, the trace has 4"),
        ([4], "numbered 0 to 3"),
        ([-1], "numbered 0 to 3"),
        ([0.5], "booleans or of row numbers"),
        (2, "booleans or of row numbers"),
    ],
)
def test_select_refuses_rows_that_are_not_there(rows: Any, message: str) -> None:
    with pytest.raises(BadInputError, match=message):
        trace_of().select(rows)


def test_sample_takes_at_most_so_many_rows_of_each_station() -> None:
    n = 60
    columns = {"station": ["a"] * 50 + ["b"] * 10, "tilt": range(n), "reward": range(n)}
    trace = Trace.from_frame(columns, {"configuration": ["tilt"]})
    some = trace.sample(20, np.random.default_rng(4))
    assert some.station.tolist() == ["a"] * 20 + ["b"] * 10
    assert len(set(some.reward)) == 30
    assert some.reward.tolist() == sorted(some.reward)
    assert some == trace.sample(20, np.random.default_rng(4))
    assert some != trace.sample(20, np.random.default_rng(5))
    with pytest.raises(BadInputError, match="at least 1"):
        trace.sample(0, np.random.default_rng(4))


def test_split_parts_the_rows_at_a_time() -> None:
    moments = ["2024-05-01 14:00", "2024-05-01 15:00", "2024-05-02", "2024-05-03"]
    trace = trace_of(time=moments)
    ats = ["2024-05-02", datetime(2024, 5, 2, tzinfo=UTC), np.datetime64("2024-05-02"), pd.Timestamp("2024-05-02")]
    for at in ats:
        before, after = trace.split(at)
        assert (before.reward.tolist(), after.reward.tolist()) == ([0.5, 0.75], [0.25, 1.0])
    before, after = trace_of(time=[1.5, 2, 3, 1]).split(2)
    assert (before.reward.tolist(), after.reward.tolist()) == ([0.5, 1.0], [0.75, 0.25])


@pytest.mark.parametrize(
    ("at", "time", "message"),
    [
        (5, [1, 2, 3, 4], "5 does not split the trace, which runs from 1 to 4"),
        (1, [1, 2, 3, 4], "does not split"),
        ("2024-05-01", [1, 2, 3, 4], "are numbers, got '2024-05-01'"),
        (3, ["2024-05-01"] * 4, "are date-times, got 3"),
        ("soon", ["2024-05-01"] * 4, "a time must be an ISO date-time .* got 'soon'"),
        (3, None, "has no time"),
    ],
)
def test_split_refuses_a_time_that_does_not_part(at: object, time: Any, message: str) -> None:
    with pytest.raises(BadInputError, match=message):
        trace_of(time=time).split(at)


def test_noise_of_a_share_is_the_binomial_variance_of_the_smoothed_share() -> None:
    trace = trace_of(samples=[8, 2, None, 1], reward=[1.0, 0.5, 7.0, 0.0])
    noise = trace.reward_noise()
    assert noise is not None
    # p = 9/10, 2/4, -, 1/3
    np.testing.assert_allclose(noise, [0.9 * 0.1 / 8, 0.25 / 2, np.nan, 2 / 9], rtol=1e-14)
    given_first = trace_of(
        samples=[8, 2, 4, 1], noise=[None, 0.3, None, 0.4], reward=[1.0, 0.5, 0.0, 0.0]
    ).reward_noise()
    assert given_first is not None
    np.testing.assert_allclose(given_first, [0.9 * 0.1 / 8, 0.3, (1 / 6) * (5 / 6) / 4, 0.4], rtol=1e-14)
    assert trace_of().reward_noise() is None
    with pytest.raises(BadInputError, match=r"shares in \[0, 1\] only"):
        trace_of(samples=[8, 2, 4, 1], reward=[1.0, 0.5, 7.0, 0.0]).reward_noise()


def test_the_space_of_one_knob_is_its_sorted_values() -> None:
    assert trace_of().space() == ConfigurationSpace(tilt=[2, 4, 6])
    assert trace_of(tilt=["m10", "m9", "m9", "m9"]).space() == ConfigurationSpace(tilt=["m9", "m10"])


def test_the_space_of_several_knobs_is_the_list_of_what_was_seen() -> None:
    trace = trace_of(columns={"configuration": ["tilt", "mode"]}, mode=["y", "x", "x", "x"])
    assert list(trace.space()) == [
        {"tilt": 2, "mode": "x"},
        {"tilt": 2, "mode": "y"},
        {"tilt": 4, "mode": "x"},
        {"tilt": 6, "mode": "x"},
    ]
    assert trace.select([3, 2, 1, 0]).space() == trace.space()


def test_a_carried_space_goes_before_the_observed_one() -> None:
    space = ConfigurationSpace(tilt=range(10))
    trace = trace_of().with_space(space)
    assert trace.space() is space
    assert trace.select([0]).space() is space
    assert trace != trace_of()
    np.testing.assert_array_equal(trace.samples().X[:, 1], space.features[[2, 4, 2, 6], 0])


def test_rows_outside_a_space_are_refused() -> None:
    with pytest.raises(
        NotFoundError, match=r"1 row.* the first is row 4, counted from 1: .*no value 6: .* nearest known value is 4"
    ):
        trace_of().with_space(ConfigurationSpace(tilt=[2, 4]))
    with pytest.raises(BadInputError, match=r"'tilt'.* knobs .*'power'"):
        trace_of().with_space(ConfigurationSpace(power=[2, 4]))


def test_scaler_warns_of_a_state_that_never_varies() -> None:
    trace = trace_of(load=[3, 3, 3, 3])
    with pytest.warns(UserWarning, match="'load' never vary"):
        assert trace.scaler().constant == ("load",)


def test_samples_number_the_stations_and_encode_the_rows() -> None:
    trace = trace_of(station=[10, 9, 10, 9], noise=[0.1, None, 0.3, 0.4])
    encoder = trace.encoder()
    samples = trace.samples()
    assert samples.stations == ("9", "10")
    assert samples.tasks.tolist() == [1, 0, 1, 0]
    assert samples.features == ("load", "tilt")
    assert samples.y.tolist() == [0.5, 0.75, 0.25, 1.0]
    assert samples.noise is not None
    assert np.isnan(samples.noise).tolist() == [False, True, False, False]
    for row, tilt in enumerate([2, 4, 2, 6]):
        asked = encoder.contexts({"load": trace.state[row, 0]})[encoder.space.index({"tilt": tilt})]
        assert samples.X[row].tobytes() == asked.tobytes()


def test_samples_mark_the_columns_of_categories() -> None:
    samples = full_trace().samples()
    assert samples.features == ("load", "users", "threshold", "scheduler", "boost")
    assert samples.categorical == (3, 4)


def test_a_part_of_a_trace_can_use_the_encoder_and_stations_of_the_whole() -> None:
    trace = full_trace()
    encoder, rows = trace.encoder(), np.flatnonzero(trace.station == "3714")
    part = trace.select(rows).samples(encoder, stations=trace.stations)
    whole = trace.samples(encoder)
    assert part.stations == whole.stations == ("98", "120", "3714")
    assert part.tasks.tolist() == [2] * len(rows)
    assert part.X.tobytes() == whole.X[rows].tobytes()


def test_state_columns_are_matched_by_name() -> None:
    trace = trace_of(columns={"time": None, "state": ["load", "time"]})
    encoder = ContextEncoder(StateScaler.identity(["time", "load"]), trace.space())
    assert trace.samples(encoder).X[:, :2].tolist() == trace.state[:, ::-1].tolist()


def test_samples_refuse_an_encoder_or_stations_of_another_trace() -> None:
    space = ConfigurationSpace(tilt=[2, 4, 6])
    with pytest.raises(BadInputError, match=r"'load'.* encoder was made for .*'users'"):
        trace_of().samples(ContextEncoder(StateScaler.identity(["users"]), space))
    with pytest.raises(NotFoundError, match=r"1 station.* not listed, such as 'b'"):
        trace_of().samples(stations=["a"])


def test_a_large_log_is_quick(tmp_path: Path) -> None:
    rng, n = np.random.default_rng(1), 56_580
    columns = {
        "station": rng.integers(0, 105, n),
        "time": np.datetime64("2024-05-01") + np.arange(n),
        "load": rng.uniform(size=n),
        "tilt": rng.integers(-112, -83, n),
        "reward": rng.uniform(size=n),
    }
    parquet.write_table(pa.table(columns), tmp_path / "log.parquet")
    trace = Trace.read(tmp_path / "log.parquet", {"configuration": ["tilt"]})
    assert trace.samples().X.shape == (n, 2)
    assert len(trace.stations) == 105


def test_pandas_and_polars_are_not_needed(tmp_path: Path) -> None:
    full_trace().write(tmp_path / "log.csv")
    full_trace().write(tmp_path / "log.parquet")
    code = (
        "import sys\n"
        "class Absent:\n"
        "    def find_spec(self, name, *_):\n"
        "        if name.split('.')[0] in ('pandas', 'polars'): raise ModuleNotFoundError(name)\n"
        "sys.meta_path.insert(0, Absent())\n"
        "from kinband.trace import Trace\n"
        "assert not {'pyarrow', 'narwhals', 'scipy', 'sklearn'} & set(sys.modules)\n"
        "trace = Trace.read('log.csv')\n"
        "trace.write('again.parquet')\n"
        "assert Trace.read('again.parquet') == trace == Trace.read('log.parquet')\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=tmp_path)


def test_every_refusal_is_one_of_ours() -> None:
    with pytest.raises(KinbandError):
        Trace.from_frame({}, {"configuration": ["tilt"]})


def test_text_in_another_encoding_is_read_as_it_was_meant(tmp_path: Path) -> None:
    text = "station;größe;tilt;reward\nä;1.0;2;0.5\n"
    for name, encoding in [("latin.csv", "cp1252"), ("wide.csv", "utf-16"), ("bare.csv", "utf-16-le")]:
        (tmp_path / name).write_bytes(text.encode(encoding))
        trace = Trace.read(tmp_path / name, {"configuration": ["tilt"]})
        assert (trace.stations, trace.state_names) == (("ä",), ("größe",))


def test_a_space_of_another_kind_is_refused() -> None:
    log = Trace.from_frame({"station": ["a"], "tilt": [2], "reward": [0.5]}, {"configuration": ["tilt"]})
    with pytest.raises(BadInputError, match="must be a ConfigurationSpace, got dict"):
        log.with_space({"tilt": [2]})  # type: ignore[arg-type]


# Where in a file something is wrong.


def complaint(path: Path, columns: Mapping[str, Any] | None = None, **options: Any) -> str:
    """What is said of a file that is refused."""
    with pytest.raises(BadInputError) as caught:
        Trace.read(path, {"configuration": ["tilt"], **(columns or {})}, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_rows_of_a_csv_file_are_named_by_their_line(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("station,tilt,reward\na,2,0.5\n\n\na,4,\nb,2,\n")
    assert "column 'reward': 2 cells are missing, first in line 5" in complaint(path)
    path.write_text('station,remark,tilt,reward\na,"one\ntwo\nthree",2,0.5\na,"x,y",4,nan\n')
    assert "first in line 5:" in complaint(path)


@pytest.mark.parametrize("name", ["log.csv", "log.csv.gz"])
def test_the_line_of_a_value_is_the_one_an_editor_shows(name: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(11)
    for _ in range(20):
        lines = ["\ufeffstation;tilt;reward"]
        bad = int(rng.integers(0, 12))
        for row in range(12):
            lines += [""] * int(rng.integers(0, 3))
            station = f'"cell{chr(10) * int(rng.integers(0, 3))}{row}"'  # a quoted cell may run over several lines
            lines.append(f"{station};{row};{'' if row == bad else 0.5}")
        text = "\n".join(lines) + "\n"
        data = text.encode()
        (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith("gz") else data)
        begun = text.index(next(line for line in lines if line.endswith(f";{bad};")))
        assert f"in line {text.count(chr(10), 0, begun) + 1}:" in complaint(tmp_path / name, delimiter=";")


def test_rows_of_other_files_and_frames_are_counted_from_1_and_it_is_said(tmp_path: Path) -> None:
    parquet.write_table(pa.table(simple(reward=[0.5, 0.5, None, 0.5])), tmp_path / "log.parquet")
    assert "first in row 3:" in complaint(tmp_path / "log.parquet")
    with pytest.raises(BadInputError, match="the first in row 3, counted from 1: "):
        trace_of(reward=[0.5, 0.5, None, 0.5])


@pytest.mark.parametrize(
    ("row", "columns", "options", "message"),
    [
        ("a,1,0.1,2,-3", {}, {"reward_range": (0, 1)}, "the first is -3 in line 6"),
        ("a,1,many,2,0.5", {"state": ["load"]}, {}, "first 'many' in line 6"),
        ("a,soon,0.1,2,0.5", {}, {}, "first 'soon' in line 6"),
        ("a,1,0.1,2,0.5", {}, {"duplicates": "error"}, "1 row(s) repeat another exactly, the first in line 6"),
        ("a,1,-0.1,2,0.5", {"noise": "load"}, {}, "noise must be above 0, got -0.1 in line 6"),
        ("a,1,0.1,2,0.5,7", {}, {}, "line 6 has 6 column(s), the header has 5"),
        ("a,1,0.1,2", {}, {}, "line 6 has 4 column(s), the header has 5"),
    ],
)  # fmt: skip
def test_every_complaint_about_a_row_names_its_line(
    row: str, columns: dict[str, Any], options: dict[str, Any], message: str, tmp_path: Path
) -> None:
    good = ["a,1,0.1,2,0.5", "a,2,0.2,4,0.75", "b,1,0.3,2,0.25", "b,2,0.5,6,1.0"]
    (tmp_path / "log.csv").write_text("\n".join(["station,time,load,tilt,reward", *good, row]) + "\n")
    assert message in complaint(tmp_path / "log.csv", columns, **options)


def test_a_complaint_about_a_row_survives_the_way_to_another_process() -> None:
    error = pickle.loads(pickle.dumps(RowError("the reward is missing", 6, "repair it", "some_code")))  # noqa: S301
    assert str(error) == "the reward is missing in row 7, counted from 1: repair it"
    assert (error.code, error.hint) == ("some_code", "repair it")


# Units, and columns that are not what they seem.


def test_rewards_in_per_cent_become_shares_together_with_their_noise() -> None:
    columns = simple(reward=[50, 75, 25, 100], noise=[4.0, 9.0, 1.0, 16.0])
    trace = Trace.from_frame(columns, {"configuration": ["tilt"]}, per_cent=True, reward_range=(0, 1))
    assert trace.reward.tolist() == [0.5, 0.75, 0.25, 1.0]
    assert trace.noise is not None
    np.testing.assert_allclose(trace.noise, [4e-4, 9e-4, 1e-4, 16e-4], rtol=1e-15)


def test_sample_counts_of_rewards_in_per_cent_say_what_to_do() -> None:
    columns = simple(reward=[50, 75, 25, 100], samples=[8, 2, 4, 1])
    with pytest.raises(BadInputError, match="look like per cent, say so with per_cent=True") as caught:
        Trace.from_frame(columns, {"configuration": ["tilt"]}).reward_noise()
    assert caught.value.code == "per_cent"
    noise = Trace.from_frame(columns, {"configuration": ["tilt"]}, per_cent=True).reward_noise()
    assert noise is not None
    assert noise[3] == pytest.approx(2 / 9)  # p = (1·1 + 1)/(1 + 2)


def test_two_units_in_one_column_are_noticed_and_one_is_not_mistaken_for_two() -> None:
    rng = np.random.default_rng(8)
    for _ in range(50):
        share = 0.06 + 0.94 * rng.beta(float(rng.uniform(2, 9)), float(rng.uniform(2, 9)), size=60)
        others = rng.permutation(share)[: int(rng.integers(15, 60))]
        assert mixes_units(np.append(share, 100 * others))
        assert not mixes_units(share)
        assert not mixes_units(100 * share)
        assert not mixes_units(rng.exponential(rng.uniform(5, 15), size=120).clip(0, 100))  # throughput in Mbit/s
        assert not mixes_units(rng.integers(0, 60, 120).astype(float))  # counts
        assert not mixes_units(np.append(share, [99.0, 98.0]))  # two outliers are no unit


def test_ignored_columns_are_no_state() -> None:
    trace = trace_of(number=[7, 8, 9, 10], columns={"ignore": ["number"]})
    assert trace.state_names == ("load",)
    with pytest.raises(BadInputError, match=r"no column 'numbr' .to ignore., did you mean 'number'"):
        trace_of(number=[7, 8, 9, 10], columns={"ignore": ["numbr"]})


def test_a_word_among_numbers_does_not_lose_the_column_unnoticed(tmp_path: Path) -> None:
    rows = [f"a,{i / 10},{i % 3},{i}" for i in range(9)] + ["a,-,2,0.25"]
    (tmp_path / "log.csv").write_text("\n".join(["station,load,tilt,reward", *rows]) + "\n")
    assert "column 'load': 1 cell is missing, first in line 11" in complaint(tmp_path / "log.csv")
    assert Trace.read(tmp_path / "log.csv", {"configuration": ["tilt"], "ignore": ["load"]}).state_names == ()
    text = "\n".join(["station,load,tilt,reward", *(f"a,cell{i},{i % 3},{i / 10}" for i in range(9))])
    (tmp_path / "log.csv").write_text(text + "\n")  # words that hold digits are words
    assert Trace.read(tmp_path / "log.csv", {"configuration": ["tilt"]}).state_names == ()


def test_decimal_commas_are_read_unless_another_mark_is_given(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text("station;load;tilt;reward\na;0,5;2;1\nb;0,25;4;0\n")
    found = complaint(tmp_path / "log.csv", decimal_point=".")
    assert "column 'load' holds numbers, but '0,5' in line 2" in found
    assert Trace.read(tmp_path / "log.csv", {"configuration": ["tilt"]}).state.tolist() == [[0.5], [0.25]]


def test_among_numbered_times_the_word_is_complained_of() -> None:
    with pytest.raises(BadInputError, match="got 'yesterday' in row 3,"):
        trace_of(time=["1", "2", "yesterday", "4"])


def test_where_stations_are_is_no_state_unless_it_is_called_one_or_changes() -> None:
    log = {"station": ["a", "a", "b"], "Lat": [1.0, 1.0, 2.0], "lon": [3.0, 3.0, None], "load": [0.1, 0.2, 0.3]}
    log |= {"tilt": [2, 4, 2], "reward": [0.5, 0.6, 0.7]}
    tilt = {"configuration": ["tilt"]}
    assert Trace.from_frame(pl.DataFrame(log), tilt).state_names == ("load",)
    log["lon"] = [3.0, 3.0, 3.5]
    assert Trace.from_frame(log, {**tilt, "state": ["Lat", "load"]}).state_names == ("Lat", "load")
    assert Trace.from_frame(log | {"Lat": [1.0, 1.5, 2.0]}, tilt).state_names == ("Lat", "lon", "load")
    assert Trace.from_frame({name: log[name] for name in log if name != "lon"}, tilt).state_names == ("Lat", "load")
