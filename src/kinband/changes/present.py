"""The stations as they are now: the state each is in and the configuration it runs.

They come as a table with one row per station: a column with its name, one for each state feature and one for each
knob, named as in the log; other columns are ignored, so the last hour of an export will do. What is wrong with the
table (a column missing, text for numbers, a station twice) is an error; what is missing of one station concerns that
station alone: it stays unknown here, and a plan leaves the station as it is and says why.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from kinband.arrays import FloatArray
from kinband.errors import BadInputError
from kinband.space import ConfigurationSpace
from kinband.trace.columns import Table, table_of
from kinband.trace.files import check_file, read_csv, read_parquet
from kinband.trace.values import floats, station_names


@dataclass(frozen=True)
class Present:
    """The present state and configuration of one station.

    Attributes:
        state: State features by name, nan where unknown.
        configuration: Knob values by name, None where unknown.

    Example:
        >>> Present({"load": 0.4}, {"tilt": 4}).configuration["tilt"]
        4
    """

    state: Mapping[str, float]
    configuration: Mapping[str, Any]


def present_of(
    frame: Any,
    space: ConfigurationSpace,
    *,
    state: Sequence[str],
    station: str = "station",
    what: str = "the table of present states",
) -> dict[str, Present]:
    """Return the stations of a pandas, polars or pyarrow table, or of a mapping from column name to values.

    Args:
        frame: The table, one row per station.
        space: Names the knobs.
        state: Names of the state features.
        station: Column of the station names.
        what: What the table is called in messages.

    Example:
        >>> table = {"station": [7, 8], "load": [0.2, None], "tilt": [2, 4]}
        >>> now = present_of(table, ConfigurationSpace(tilt=[2, 4]), state=["load"])
        >>> now["7"]
        Present(state={'load': 0.2}, configuration={'tilt': 2})
        >>> now["8"].state
        {'load': nan}
    """
    try:
        table = table_of(frame)
    except BadInputError as error:
        raise BadInputError(str(error).replace("a trace is made from", f"{what} must be", 1)) from error
    knobs = list(space.knobs)
    _check_columns(table, {station: "the station"}, dict.fromkeys(state, "a state feature"), knobs=knobs, what=what)
    names = station_names(table.get(station), label=f"column {station!r} of {what}").tolist()
    if not names:
        raise BadInputError(f"{what} has columns but no rows: give one row for each station to plan for")
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise BadInputError(f"{what} lists station {twice!r} {names.count(twice)} times: give its present row only")
    states = {name: _feature(table, name, what=what) for name in state}
    settings = {knob: [_known(value) for value in table.get(knob).tolist()] for knob in knobs}
    return {
        name: Present(
            {feature: float(values[row]) for feature, values in states.items()},
            {knob: values[row] for knob, values in settings.items()},
        )
        for row, name in enumerate(names)
    }


def read_present(
    path: str | Path,
    space: ConfigurationSpace,
    *,
    state: Sequence[str],
    station: str = "station",
    delimiter: str = ",",
    decimal_point: str = ".",
) -> dict[str, Present]:
    r"""Read the stations as they are now from a .csv, .csv.gz or .parquet file.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder) / "now.csv"
        ...     _ = path.write_text("station,load,tilt,vendor\n0012,0.2,4,x\n", encoding="utf-8")
        ...     read_present(path, ConfigurationSpace(tilt=[2, 4]), state=["load"])
        {'0012': Present(state={'load': 0.2}, configuration={'tilt': 4})}
    """
    path = Path(path)
    if check_file(path) == ".parquet":
        table = read_parquet(path)
    else:  # an inferred type would turn the station "0012", or a category "1", into a number
        text = [station, *(knob for knob, values in space.knobs.items() if isinstance(values[0], str))]
        types = dict.fromkeys(text, "string")
        table = read_csv(path, types=types, delimiter=delimiter, decimal_point=decimal_point)
    return present_of(table, space, state=state, station=station, what=str(path))


def _check_columns(table: Table, *wanted: Mapping[str, str], knobs: Sequence[str], what: str) -> None:
    needed = {name: role for part in wanted for name, role in part.items()} | dict.fromkeys(knobs, "a knob")
    missing = [f"{name!r} ({role})" for name, role in needed.items() if name not in table.names]
    if missing:
        has = ", ".join(map(repr, table.names))
        raise BadInputError(
            f"{what} lacks the column {' and '.join(missing)}; it has {has}: add it, named as in the log"
        )


def _feature(table: Table, name: str, *, what: str) -> FloatArray:
    values = floats(table.get(name), label=f"column {name!r} of {what}", unknown=True)
    if np.isnan(values).all():
        raise BadInputError(f"column {name!r} of {what} is empty: fill in the present state of each station")
    return values


def _known(value: Any) -> Any:
    return None if value is None or value == "" or value != value else value
