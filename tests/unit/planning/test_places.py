"""Where stations are, read from a file."""

from pathlib import Path

import pytest

from kinband.errors import BadInputError
from kinband.planning.places import Places, read_places


def test_places_are_read_by_the_names_of_their_columns(tmp_path: Path) -> None:
    file = tmp_path / "sites.csv"
    file.write_text("cell,Lat,Lon\na,60.0,10.0\na,60.0,10.0\nb,60.0,10.1\nc,,\n", encoding="utf-8")
    found = read_places(file, station="cell")
    assert found is not None
    assert set(found.at) == {"a", "b"}
    assert found.at["b"][0] - found.at["a"][0] == pytest.approx(0.1 * 111_195 * 0.5)
    file.write_text("cell,x,y\na,1,2\n", encoding="utf-8")
    assert read_places(file, station="cell") == Places({"a": (1.0, 2.0)}, metres=False)


def test_columns_that_are_no_places_are_not_taken_for_them(tmp_path: Path) -> None:
    file = tmp_path / "sites.csv"
    for text in ("cell,x,load\na,1,2\n", "cell,x,y\na,1,2\na,1,3\n", "cell,x,y\na,left,right\n"):
        file.write_text(text, encoding="utf-8")
        assert read_places(file, station="cell") is None
    with pytest.raises(BadInputError, match="lacks the column 'station'"):
        read_places(file)
