"""Charts of the dashboard: geometry that can be worked out by hand."""

import json
import math
import re
import struct
import zlib
from base64 import b64decode
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from xml.etree import ElementTree as ET

import numpy as np
import pytest

from kinband.html.svg import Scale, around, round_ticks, tag
from kinband.kernels import in_blocks
from kinband.service.dashboard.charts import (
    MOST_POINTS,
    Belief,
    Line,
    Marker,
    band_chart,
    cell_chart,
    curve,
    ramp,
    sparkline,
    thinned,
    time_chart,
    time_ticks,
)
from kinband.service.dashboard.map import (
    AGE_COLOURS,
    BEAM,
    LINE,
    MODE_COLOURS,
    REACH,
    Sector,
    contrast,
    letters_on,
    lines_of,
    luminance,
    sector_map,
    sector_tiles,
    shortened,
    spacing,
    wedge_path,
)
from kinband.service.dashboard.rendering import environment
from kinband.service.dashboard.similarity import GROUP_COLOURS, Band, Sorted, heat_map, png, shades, similarity
from kinband.service.dashboard.stations import best_first
from kinband.similarity import TaskMatrix
from kinband.stats import REACH as STDS

DAY = datetime(2026, 11, 20, tzinfo=UTC)
NUMBER = r"-?\d+(?:\.\d+)?"


def xml(text: str) -> ET.Element:
    return ET.fromstring(text)  # noqa: S314 - we made it


def macro(name: str, *given: object) -> str:
    """Return what a macro of the templates draws."""
    module = environment().get_template("macros.html").module
    return str(getattr(module, name)(*given))


def hours(count: int) -> list[datetime]:
    return [DAY + timedelta(hours=h) for h in range(count)]


def test_a_scale_takes_its_ends_to_its_ends_and_the_middle_to_the_middle() -> None:
    scale = Scale(-3.0, 7.0, 210.0, 10.0)
    assert [scale(-3.0), scale(7.0), scale(2.0)] == [210.0, 10.0, 110.0]
    assert Scale(0.4, 0.4, 100.0, 0.0)(0.4) == 50.0, "without extent, everything is in the middle"


@pytest.mark.parametrize(("low", "high"), [(0.13, 0.97), (-112.0, -84.0), (0.0, 1e-4), (-5e6, 3e6), (0.8123, 0.8125)])
@pytest.mark.parametrize("most", [2, 4, 5, 9])
def test_ticks_are_few_evenly_spaced_and_within(low: float, high: float, most: int) -> None:
    ticks = round_ticks(low, high, most=most)
    assert 1 <= len(ticks) <= most
    assert all(low - 1e-9 <= t <= high + 1e-9 for t in ticks)
    steps = np.diff(ticks)
    assert np.allclose(steps, steps[0] if len(steps) else 0.0)
    if len(steps):
        mantissa = steps[0] / 10.0 ** math.floor(math.log10(steps[0]) + 1e-9)
        assert min(abs(mantissa - round_one) for round_one in (1.0, 2.0, 5.0, 10.0)) < 1e-6


def test_a_range_holds_every_value_with_room_and_survives_a_single_one() -> None:
    low, high = around([0.2, None, 0.6], margin=0.1)
    assert low == pytest.approx(0.16)
    assert high == pytest.approx(0.64)
    low, high = around([0.7, 0.7])
    assert low < 0.7 < high


@pytest.mark.parametrize("span", [timedelta(minutes=3), timedelta(hours=30), timedelta(days=20), timedelta(days=4000)])
def test_times_on_an_axis_are_few_and_within(span: timedelta) -> None:
    first = DAY + timedelta(hours=3, minutes=17)
    ticks = time_ticks(first, first + span, most=5)
    assert 1 <= len(ticks) <= 5
    assert all(first <= at <= first + span for at, _ in ticks)


def test_long_series_are_thinned_to_means_and_keep_their_mean() -> None:
    values = [math.sin(i / 50) for i in range(3000)]
    times, (thin,) = thinned(hours(3000), values)
    assert len(times) == len(thin) <= MOST_POINTS
    known = [value for value in thin if value is not None]
    assert sum(known) / len(known) == pytest.approx(sum(values) / len(values))


def test_a_curve_breaks_where_a_value_is_missing_and_a_lone_point_is_drawn() -> None:
    y = Scale(0.0, 1.0, 10.0, 0.0)
    path, alone = curve([0.0, 0.5, None, None, 1.0, None, 0.2, 0.4], [float(i) for i in range(8)], y=y)
    assert path == "M0 10L1 5M6 8L7 6"
    assert alone == "M4 0h0"
    assert curve([None, None], [0.0, 1.0], y=y) == ("", "")


@pytest.mark.parametrize(
    ("values", "dots"),
    [
        ([None, 0.5, None, 0.2, 0.4], [1]),
        ([0.5, None, 0.2, None, 0.4], [0, 2, 4]),
        ([0.5], [0]),
        ([0.5, 0.6, None, None], []),
        ([None, None], []),
    ],
)
def test_a_value_between_gaps_is_a_dot_and_one_of_a_curve_is_not(values: list[float | None], dots: list[int]) -> None:
    y = Scale(0.0, 1.0, 10.0, 0.0)
    _, path = curve(values, [7.0 * i for i in range(len(values))], y=y)
    found = [(float(x), float(height)) for x, height in re.findall(rf"M({NUMBER}) ({NUMBER})h0", path)]
    assert [x for x, _ in found] == [7.0 * i for i in dots]
    assert [height for _, height in found] == pytest.approx([10.0 - 10.0 * (values[i] or 0.0) for i in dots])
    svg = time_chart(hours(len(values)), [Line("reward", values, "two")], says="")
    assert svg.count('class="line two lone"') == bool(dots)


def test_a_step_curve_holds_its_value_until_the_next() -> None:
    y = Scale(0.0, 4.0, 40.0, 0.0)
    assert curve([1.0, 3.0, 2.0], [0.0, 10.0, 20.0], y=y, steps=True) == ("M0 30H10V10H20V20", "")


def test_a_time_chart_spans_its_width_and_places_markers_by_time() -> None:
    times = hours(5)
    marker = Marker(times[1], "operator", "changed by hand", 0.5)
    svg = time_chart(times, [Line("reward", [0.1, 0.5, 0.9, None, 0.3], "one")], says="It varies.", markers=[marker])
    paths = re.findall(r'<path class="line one(?: lone)?" d="([^"]+)"', svg)
    xs = [float(x) for path in paths for x in re.findall(rf"[ML]({NUMBER}) ", path)]
    assert xs == [0.0, 250.0, 500.0, 1000.0]
    assert '<svg x="25%"' in svg
    assert "<title>changed by hand</title>" in svg
    xml(svg)


def test_an_empty_chart_is_nothing() -> None:
    assert time_chart([], [Line("reward", [], "one")], says="") == ""


def test_charts_carry_no_style_and_no_script_and_escape_what_they_are_told() -> None:
    evil = "<script>'\"&"
    svg = time_chart(hours(2), [Line(evil, [0.1, 0.2], "one")], says=evil, markers=[Marker(DAY, "operator", evil, 0.1)])
    svg += sector_map([Sector(evil, "#000000", "/s", evil, (0.0, 0.0), 90.0)], says=evil)[0]
    svg += band_chart([Belief(evil, 0.1, 0.1), Belief(evil, 0.2, 0.1, x=1)], says=evil)
    assert "<script" not in svg
    assert "style=" not in svg
    root = xml(f"<g>{svg}</g>")
    titles = {element.text for element in root.iter("title")}
    assert evil in titles


@pytest.mark.parametrize("azimuth", [0.0, 47.0, 90.0, 135.0, 180.0, 270.0, 359.0])
def test_a_wedge_points_where_its_antenna_looks(azimuth: float) -> None:
    radius, centre = 100.0, (500.0, 300.0)
    path = wedge_path(centre, azimuth, outer=radius)
    start = [tuple(map(float, pair)) for pair in re.findall(rf"[ML]({NUMBER}) ({NUMBER})", path)]
    end = re.search(rf"0 0 1 ({NUMBER}) ({NUMBER})Z", path)
    assert start[0] == centre
    assert end is not None
    edges = [start[1], (float(end[1]), float(end[2]))]
    bearings = [
        math.degrees(math.atan2(x - centre[0], centre[1] - y)) % 360.0 for x, y in edges
    ]  # from north, eastwards
    assert all(math.dist(edge, centre) == pytest.approx(radius, abs=0.02) for edge in edges)
    assert (bearings[0] - azimuth + BEAM / 2 + 180) % 360 == pytest.approx(180, abs=0.02)
    assert (bearings[1] - azimuth - BEAM / 2 + 180) % 360 == pytest.approx(180, abs=0.02)


def test_the_map_has_north_above_and_east_to_the_right() -> None:
    places = {"south": (0.0, 0.0), "north": (0.0, 900.0), "east": (900.0, 0.0)}
    svg, _ = sector_map([Sector(n, "#000000", f"/{n}", n, place) for n, place in places.items()], says="Three.")
    root = xml(svg)
    found = {
        a.get("href"): (float(c.get("cx", "")), float(c.get("cy", "")))
        for a in root.iter("a")
        for c in a.iter("circle")
    }
    assert found["/north"][1] < found["/south"][1]
    assert found["/north"][0] == found["/south"][0]
    assert found["/east"][0] > found["/south"][0]
    assert found["/east"][1] == found["/south"][1]


def test_wedges_of_neighbouring_sites_do_not_overlap() -> None:
    places = [(0.0, 0.0), (0.0, 0.0), (700.0, 0.0), (1400.0, 0.0)]
    assert spacing(places) == 700.0
    svg, _ = sector_map([Sector("", "#000000", "/", "", place, 90.0) for place in places[1:]], says="")
    radius = float(re.findall(rf"A({NUMBER}) ", svg)[0])
    box = [float(part) for part in re.findall(r'viewBox="([^"]+)"', svg)[0].split()]
    metres = box[2] / (1400.0 + 2 * REACH * 700.0)
    assert 2 * radius / metres < 700.0


def test_carriers_of_one_antenna_share_its_wedge_as_rings() -> None:
    same = [Sector(f"c{i}", "#000000", f"/c{i}", "", (0.0, 0.0), 30.0) for i in range(3)]
    svg, _ = sector_map(same, says="")
    radii = [sorted({float(r) for r in re.findall(rf"A({NUMBER}) ", d)}) for d in re.findall(r' d="(M[^"]+Z)"', svg)]
    outer = max(map(max, radii))
    assert [max(pair) / outer for pair in radii] == pytest.approx([1.0, 2 / 3, 1 / 3], abs=1e-3)
    assert [min(pair) / outer for pair in radii] == pytest.approx([2 / 3, 1 / 3, 1 / 3], abs=1e-3)


def test_stations_without_a_place_get_tiles_with_their_names_on_them() -> None:
    names = ["7", "3714", "Nordstadt-12-sector-3", "Nordstadt-12-sector-4", "<b>&"]
    placed = Sector("elsewhere", "#000000", "/", "", (0.0, 0.0))
    tiles = sector_tiles([*(Sector(name, "#000000", f"/{i}", f"{name}: 0.9") for i, name in enumerate(names)), placed],
                         says="Five.")  # fmt: skip
    root = xml(tiles)
    links = list(root.iter("a"))
    assert [link.get("href") for link in links] == [f"/{i}" for i in range(5)]
    assert [next(link.iter("title")).text for link in links] == [f"{name}: 0.9" for name in names]
    written = [[part.text or "" for part in link.iter("text")] for link in links]
    assert ["".join(lines) for lines in written] == names
    assert all(len(line) <= LINE for lines in written for line in lines)
    assert sector_tiles([placed], says="") == ""


def test_a_name_that_fits_is_left_alone_and_another_keeps_both_ends() -> None:
    assert shortened("x" * 2 * LINE) == "x" * 2 * LINE
    cut = shortened("ab" + "x" * 2 * LINE + "yz")
    assert (len(cut), cut[:2], cut[-2:]) == (2 * LINE, "ab", "yz")


@pytest.mark.parametrize("name", ["7", "north-west-4", "Berlin Mitte 12", "x" * 22, "ab" * 40, "SiteTwoSectorB"])
def test_a_name_has_two_lines_at_most_that_fit_and_loses_nothing_it_need_not(name: str) -> None:
    lines = lines_of(name)
    assert 1 <= len(lines) <= 2
    assert all(len(line) <= LINE for line in lines)
    assert "".join(lines) == shortened(name)


@pytest.mark.parametrize("share", [i / 20 for i in range(21)])
def test_letters_on_a_tile_can_be_read_whatever_its_colour(share: float) -> None:
    for colour in (ramp(share), *MODE_COLOURS.values(), *AGE_COLOURS):
        assert contrast(letters_on(colour), colour) >= 4.5


def test_a_band_is_the_interval_of_its_beliefs() -> None:
    belief = Belief("tilt 3", 0.6, 0.05)
    assert belief.interval == pytest.approx((0.6 - STDS * 0.05, 0.6 + STDS * 0.05))
    svg = macro("whisker", belief, (0.5, 0.7), "runs", "would be chosen")
    assert 'cx="50%"' in svg
    ends = [float(end) / 100 for end in re.findall(rf'whisker plain" x1="({NUMBER})%" x2="({NUMBER})%"', svg)[0]]
    assert [0.5 + 0.2 * end for end in ends] == pytest.approx(list(belief.interval), abs=1e-4)


def test_a_belief_of_the_past_says_what_ran_before_and_one_of_now_what_runs() -> None:
    now = Belief("tilt 3", 0.6, 0.05, running=True, chosen=True)
    assert now.says.endswith("runs now, would be chosen")
    assert now._replace(past=True).says.endswith("ran before, chosen")


def test_what_runs_and_what_is_chosen_is_always_listed() -> None:
    beliefs = [Belief(str(i), 1.0 - i / 100, 0.1, running=i == 70, chosen=i == 80) for i in range(100)]
    assert [belief.name for belief in best_first(beliefs)] == [*map(str, range(15)), "70", "80"]


def test_bars_are_as_long_as_their_share_and_never_longer_than_their_track() -> None:
    assert 'class="bar" width="30%"' in macro("bar", 0.3)
    assert 'class="bar own" width="100%"' in macro("bar", 3.0, "own")
    assert 'class="bar" width="0%"' in macro("bar", -0.2)
    svg = macro("shares", [("a", "#000000", 2), ("b", "#ffffff", 6)], 8)
    assert re.findall(rf'x="({NUMBER})%" width="({NUMBER})%"', svg) == [("0", "25"), ("25", "75")]


def test_a_png_can_be_read_back_pixel_by_pixel() -> None:
    rng = np.random.default_rng(3)
    pixels = rng.integers(0, 256, (7, 5)).astype(np.uint8)
    data = png(pixels)
    place, chunks = 8, {}
    while place < len(data):
        (size,) = struct.unpack(">I", data[place : place + 4])
        kind, body = data[place + 4 : place + 8], data[place + 8 : place + 8 + size]
        assert struct.unpack(">I", data[place + 8 + size : place + 12 + size])[0] == zlib.crc32(kind + body)
        chunks[kind] = body
        place += 12 + size
    assert struct.unpack(">II", chunks[b"IHDR"][:8]) == (5, 7)
    rows = np.frombuffer(zlib.decompress(chunks[b"IDAT"]), dtype=np.uint8).reshape(7, 6)
    assert not rows[:, 0].any()
    assert np.array_equal(rows[:, 1:], pixels)
    assert f"#{chunks[b'PLTE'][:3].hex()}" == ramp(0.0)


def test_shades_run_from_low_to_high_and_are_cut_off_beyond() -> None:
    assert shades(np.array([[-2.0, 0.0], [0.5, 9.0]]), low=-1.0, high=1.0).tolist() == [[0, 128], [191, 255]]


def test_the_similarity_of_many_stations_in_groups_is_shown_by_evenly_chosen_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rng = np.random.default_rng(0)
    B = rng.normal(size=(12, 3))
    of = np.arange(12) % 3
    whole = np.where(np.equal.outer(of, of), B @ B.T, 0.0) + np.eye(12)
    names = [f"s{m}" for m in range(12)]
    plain, blocks = (Sorted.of(TaskMatrix(names, K, "given"), "0") for K in (whole, in_blocks(whole)))
    nearest = [dict(similarity(one, level=0.7, station="s4")["nearest"][:2]) for one in (plain, blocks)]
    assert nearest[1] == pytest.approx(nearest[0])
    assert {frozenset(group) for group in plain.groups[0.5]} == {frozenset(group) for group in blocks.groups[0.5]}
    monkeypatch.setattr("kinband.service.dashboard.similarity.PIXELS", 5)
    few = Sorted.of(TaskMatrix(names, in_blocks(whole), "given"), "0")
    said = json.loads(few.data)
    assert few.shown.shape == (4, 4)
    assert said["stations"] == list(few.stations[::3])
    assert len(b64decode(said["shades"])) == 16
    assert 'data-rows="4"' in str(similarity(few, level=0.7, station="")["heat"])


def test_a_heat_map_has_a_boundary_between_groups_and_strips_as_long_as_they() -> None:
    bands = [Band("one", 3, "#111111", "#a"), Band("two", 1, "#222222", "#b")]
    svg = heat_map(bands, pixels=3, image="/p.png", says="Two groups.", values="/v")
    lengths = [float(width) for width in re.findall(rf'width="({NUMBER})" height="22" fill', svg)]
    assert lengths == [750.0, 250.0]
    assert svg.count('class="bound"') == 2


def test_the_ramp_grows_lighter_all_the_way() -> None:
    light = [luminance(ramp(i / 50)) for i in range(51)]
    assert all(b > a for a, b in pairwise(light))


@pytest.mark.parametrize("paper", ["#ffffff", "#1b232b"])
def test_colours_with_a_meaning_differ_from_one_another(paper: str) -> None:
    for colours in (tuple(MODE_COLOURS.values()), AGE_COLOURS, GROUP_COLOURS):
        assert len(set(colours)) == len(colours)
        assert all(contrast(colour, paper) > 1.15 for colour in colours)


def test_elements_escape_what_they_hold_and_leave_out_what_is_none() -> None:
    assert str(tag("a", "<b>", href='"x"', title=None)) == '<a href="&quot;x&quot;">&lt;b&gt;</a>'


def test_cells_are_brightest_where_most_is_expected_and_mark_what_runs() -> None:
    values = [(column, row) for row in range(2) for column in range(3)]
    beliefs = [
        Belief(f"c{i}", mean, 0.1, running=i == 1, chosen=i == 4)
        for i, mean in enumerate([0.1, 0.2, 0.3, 0.4, 0.9, 0.5])
    ]
    svg = cell_chart(beliefs, across=["2", "4", "6"], down=["pf", "rr"], places=values, says="Six.")
    root = xml(svg)
    cells = [cell for cell in root.iter("rect") if cell.get("class") == "cell"]
    assert [cell.get("fill") for cell in cells] == [ramp((belief.mean - 0.1) / 0.8) for belief in beliefs]
    assert cells[4].get("fill") == ramp(1.0)
    titles = [title.text for title in root.iter("title")]
    assert titles[1] == beliefs[1].says
    assert "would be chosen" in str(titles[4])
    assert svg.count("at-running") == svg.count("at-chosen") == 1
    alike = cell_chart([Belief("a", 0.5, 0.1)] * 2, across=["1", "2"], down=["x"], places=[(0, 0), (1, 0)], says="")
    assert "nan" not in alike


@pytest.mark.parametrize("values", [(), (0.5,), (0.5, 0.5, 0.5), (0.1, 0.9, 0.4), (-1e9, 1e9)])
def test_a_small_curve_lies_within_its_place(values: tuple[float, ...]) -> None:
    svg = sparkline(values)
    if len(values) < 2:
        assert svg == ""
        return
    path = next(element.get("d", "") for element in xml(svg).iter("path"))
    points = [tuple(map(float, point.split())) for point in re.findall(rf"[ML]({NUMBER} {NUMBER})", path)]
    assert len(points) == len(values)
    assert all(0 <= x <= 84 and 0 <= y <= 22 for x, y in points)
    assert points[values.index(max(values))][1] == min(y for _, y in points)
