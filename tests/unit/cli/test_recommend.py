"""What `kinband recommend` prints of a plan."""

from kinband.cli.recommend import left_table
from kinband.planning import LeftAlone


def test_stations_left_alone_for_the_same_reason_are_one_line() -> None:
    alone = [LeftAlone(f"s{m:02d}", {"tilt": 2}, "never tried", "It never ran anything but 2.") for m in range(30)]
    other = LeftAlone("best", {"tilt": 4}, "best already", "None of its 3 choices is better.")
    table = left_table([*alone[:7], other, *alone[7:]])
    who, why, _ = (list(map(str, column.cells)) for column in table.columns)
    assert (who, why) == (["30 stations, such as s00", "best"], ["never tried", "best already"])
    assert table.caption is None


def test_stations_beyond_the_lines_shown_are_counted() -> None:
    left = [LeftAlone(f"s{m:02d}", {"tilt": 2}, "best already", f"Reason {m // 2}.") for m in range(50)]
    assert left_table(left).caption == "and 10 more in left_alone.csv"
