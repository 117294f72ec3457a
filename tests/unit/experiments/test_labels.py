"""Names in pictures: short, told apart, of any script, and drawn without a warning."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kinband import TaskMatrix
from kinband.experiments.report.pictures import lending_picture
from kinband.similarity.picture import LONGEST, labels_of, width_of, written

LONG = {
    "alike in front": [f"operator-north-region-site-of-many-{n}" for n in range(8)],
    "alike at both ends": [f"operator-north-region-site-{n:06d}-sector-1-carrier-a" for n in range(8)],
    "200 letters": ["x" * 190 + f"{n:010d}" for n in range(8)],
    "another script": [f"北京市朝阳区第{n}基站西扇区北京市朝阳区" for n in range(8)],
    "with marks": [f"a\nb\t{n} $x_{n}$ <b>" for n in range(8)],
}


@pytest.mark.parametrize("names", LONG.values(), ids=LONG.keys())
@pytest.mark.parametrize("longest", [12, LONGEST])
def test_labels_are_short_and_told_apart(names: list[str], longest: int) -> None:
    labels = labels_of(names, longest=longest)
    assert len(set(labels)) == 8
    assert max(map(width_of, labels)) <= longest
    assert not any("\n" in label for label in labels)


def test_short_names_stay_as_they_are() -> None:
    names = ["3714", "site 9/2", "a" * LONGEST]
    assert labels_of(names) == names


def test_both_ends_are_kept_and_what_is_common_goes_first() -> None:
    assert labels_of(["north-harbour-quay-4-sector-2"], longest=15) == ["north-h…ector-2"]
    first, second = labels_of(LONG["alike at both ends"][:2])
    assert "000000" in first
    assert "000001" in second


@given(st.lists(st.text(min_size=1, max_size=60), min_size=1, max_size=12), st.integers(8, 30))
def test_labels_are_different_where_names_are(names: list[str], longest: int) -> None:
    labels = labels_of(names, longest=longest)
    apart = dict(zip(names, labels, strict=True))
    assert len(set(apart.values())) == len(set(names))
    assert [apart[name] for name in names] == labels
    assert max(map(width_of, labels)) <= longest


@pytest.mark.parametrize("names", LONG.values(), ids=LONG.keys())
def test_pictures_of_long_names_are_drawn_without_a_warning_and_leave_room_for_the_map(
    names: list[str], tmp_path: Path
) -> None:
    matrix = TaskMatrix(tuple(names), 0.4 + 0.6 * np.eye(8), "given")
    for ending in ("png", "svg"):
        matrix.heatmap(tmp_path / f"alike.{ending}")  # warnings are errors here
    audit: Any = SimpleNamespace(
        transfer=SimpleNamespace(shares=np.full((8, 8), 0.125)), stations=tuple(names), order=tuple(range(8))
    )
    picture = lending_picture(audit)
    assert picture is not None
    assert picture.write(tmp_path).stat().st_size > 0
    assert _share_of_map(picture, names) > 0.3
    assert labels_of(names)[3].replace("<", "&lt;").replace(">", "&gt;") in picture.svg()


def _share_of_map(picture: Any, names: list[str]) -> float:
    """The share of the picture's width that its map takes."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=picture.wide, layout="constrained")
    with written(names):
        picture.draw(figure, False)
        figure.draw_without_rendering()
    return float(figure.axes[0].get_position().width)
