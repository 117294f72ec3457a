"""Where stations are: two columns of a file."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from kinband.errors import BadInputError
from kinband.trace.columns import floats, places_in, station_names, table_of
from kinband.trace.files import read_table

_METRES_PER_DEGREE = 111_195.0  # of latitude, on a sphere of 6,371 km


@dataclass(frozen=True)
class Places:
    """How far to the east and to the north stations are, by name, and whether that is known to be in metres."""

    at: Mapping[str, tuple[float, float]]
    metres: bool = True


def read_places(path: str | Path, *, station: str = "station", **written: Any) -> Places | None:
    r"""Return where stations are by the first row of each in a file; None if no two columns of numbers say so.

    Columns are `longitude` and `latitude` (or `lon`, `lng`, `lat`), `x_m` and `y_m`, `x` and `y`, or `easting` and
    `northing`, in small or capital letters.

    Args:
        path: The file.
        station: Its column of station names.
        written: How it is written, as `read_table` takes it.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder) / "sites.csv"
        ...     _ = path.write_text("station,x_m,y_m\na,0,500\nb,250,0\n", encoding="utf-8")
        ...     read_places(path)
        Places(at={'a': (0.0, 500.0), 'b': (250.0, 0.0)}, metres=True)
    """
    path = Path(path)
    table = table_of(read_table(path, text=[station], noted=False, **written).cleaned.table, what=str(path))
    if station not in table.names:
        raise BadInputError(f"{path} lacks the column {station!r} (the station)")
    columns = places_in(table, table.names, station=station)
    if columns is None:
        return None
    names = station_names(table.get(station), label=f"column {station!r} of {path}")
    first = np.unique(names, return_index=True)[1]
    x, y = (floats(table.get(name), label=f"column {name!r} of {path}", unknown=True)[first] for name in columns)
    known = np.isfinite(x) & np.isfinite(y)
    metres = "x_m" in columns[0].lower() or columns[0].lower() == "easting"
    if columns[1].lower().startswith("lat"):
        middle = math.radians(float(y[known].mean())) if known.any() else 0.0
        x, y, metres = x * math.cos(middle) * _METRES_PER_DEGREE, y * _METRES_PER_DEGREE, True
    found = zip(names[first][known].tolist(), x[known].tolist(), y[known].tolist(), strict=True)
    return Places({name: (east, north) for name, east, north in found}, metres)
