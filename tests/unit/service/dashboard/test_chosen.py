"""What a reader chooses goes with the address: over which time, which stations, what of the map."""

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from tests.support.dashboard_network import HOSTILE, Network, network
from tests.unit.service.dashboard.test_pages import read, shown

from kinband.errors import BadInputError
from kinband.service.dashboard.chosen import Ends, Filters, Range
from kinband.service.dashboard.map_view import ZOOMS, Label, View, names_on
from kinband.service.dashboard.rows import Looks, names_of

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
NAMES = ["north-1", "north-2", "south-1", "south-2", "east-1"]


def listed(web: Network, query: str) -> list[str]:
    """The stations on the list."""
    return re.findall(r'<th scope="row"><a href="/stations/([^"?]+)', web.browser().get(f"/stations?{query}").text)


@pytest.mark.parametrize(
    ("chosen", "hours"),
    [
        (Range(), (None, None)),
        (Range(range="nonsense"), (None, None)),
        (Range(range="6h"), (-6, None)),
        (Range(range="24h"), (-24, None)),
        (Range(range="7d"), (-168, None)),
        (Range(range="6h", since="2026-11-20T09:00"), (-3, None)),
        (Range(since="2026-11-19", until="2026-11-19"), (-36, -12)),
        (Range(until="2026-11-20T12:00+02:00"), (None, -2 + 1 / 3600)),
    ],
)
def test_a_range_is_a_preset_or_lies_between_two_times(chosen: Range, hours: tuple[float | None, float | None]) -> None:
    assert chosen.ends(NOON) == Ends(*(None if h is None else NOON + timedelta(hours=h) for h in hours))


def test_a_range_that_ends_before_it_begins_is_refused_with_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match="before it"):
        Range(since="2026-11-20", until="2026-11-19").ends(NOON)
    with network(tmp_path) as web:
        for path in ("/?since=2026-11-20&until=2026-11-19", "/stations/3714?since=soon", "/?until=2026-99-01"):
            answer = web.browser().get(path)
            assert answer.status_code == 422, path
            read(answer.text)


def test_charts_show_the_slots_of_the_range_and_links_keep_it(tmp_path: Path) -> None:
    with network(tmp_path, mode="autonomous") as web:
        web.play(30)
        client = web.browser()

        def slots(path: str) -> list[int]:
            charts = re.findall(r'data-first="[^"]+" data-long="\d+" data-at="([^"]*)"', client.get(path).text)
            return [len(points.split(",")) for points in charts]

        assert slots("/")[0] == 30
        assert slots("/?range=6h")[0] == 7  # the last began now
        assert slots("/stations/3714?range=24h")[0] == 25
        last = web.clock.now
        since, until = last - timedelta(hours=9), last - timedelta(hours=5)
        query = f"since={since:%Y-%m-%dT%H:%M}&until={until:%Y-%m-%dT%H:%M}"
        assert slots(f"/?{query}")[0] == slots(f"/stations/3714?{query}")[0] == 5
        assert "No reward is known of that time." in client.get("/?until=2020-01-01").text
        assert "No slot of that time is on record." in client.get("/stations/3714?until=2020-01-01").text
        links = read(client.get(f"/?{query}&mode=autonomous").text).links
        for path in ("/stations", "/audit", "/stations/3714"):
            kept = [parse_qs(urlsplit(link).query) for link in links if urlsplit(link).path == path]
            assert {"since": [f"{since:%Y-%m-%dT%H:%M}"], "until": [f"{until:%Y-%m-%dT%H:%M}"]} in kept, path
        presets = [parse_qs(urlsplit(link).query) for link in links if "range=6h" in link]
        assert presets == [{"mode": ["autonomous"], "range": ["6h"]}]


def test_stations_are_filtered_by_what_they_are(tmp_path: Path) -> None:
    rails = "freeze: [{station: south-1, why: crane}]\n"
    with network(tmp_path, NAMES, rails=rails) as web:
        web.operations.set_mode("shadow", ["east-1"], actor="anna")
        web.play(3)
        web.operations.freeze("south-2", why="antenna swap", actor="anna")
        assert listed(web, "q=NORTH") == ["north-1", "north-2"]
        assert listed(web, "mode=shadow") == ["east-1"]
        assert listed(web, "frozen=any") == ["south-1", "south-2"]
        assert listed(web, "frozen=rails") == ["south-1"]
        assert listed(web, "frozen=person&q=south") == ["south-2"]
        with web.operations.looking() as read_model:
            came = {name: read_model.decisions[str(one.last)].status for name, one in read_model.stations.items()}
        for status in set(came.values()):
            assert sorted(listed(web, f"status={status}")) == sorted(n for n in NAMES if came[n] == status)
        for query in ("mode=nonsense", "status=no", "frozen=maybe", "group=99", "group=x", "q=%3Cscript%3E"):
            assert listed(web, query) == []
            page = web.browser().get(f"/stations?{query}").text
            assert "No station fits these filters." in page
            assert "Show all 5" in page
            read(page)
            over = " ".join(shown(web, f"/?{query}").texts)
            assert "No station fits these filters." in over


def test_a_group_of_the_page_on_similarity_can_be_shown_alone(tmp_path: Path) -> None:
    with network(tmp_path, NAMES) as web:
        web.operations.add_station("twin", None, {"south-1": 0.97}, actor="anna")
        assert set(listed(web, "group=1")) == {"south-1", "twin"}
        page = web.browser().get("/similarity?alike=0.7").text
        members = re.search(r'id="members-1">.*?</details>', page, re.DOTALL)
        assert members is not None
        assert set(re.findall(r'href="/stations/([^"]+)"', members[0])) == {"south-1", "twin"}


def test_a_filter_goes_along_with_order_and_pages(tmp_path: Path) -> None:
    with network(tmp_path, [f"s{i:03}" for i in range(230)]) as web:
        assert listed(web, "page=3") == [f"s{i:03}" for i in range(200, 230)]
        text = web.browser().get("/stations?q=s1&mode=assist&range=24h").text
        assert len(listed(web, "q=s1&mode=assist")) == 100
        for link in read(text).links:
            if link.startswith("/stations?") and "sort" in link:
                assert {"q", "mode", "range"} <= set(parse_qs(urlsplit(link).query)), link


def test_a_station_frozen_by_rails_shows_as_frozen(tmp_path: Path) -> None:
    with network(tmp_path, NAMES) as web:
        client = web.browser()
        assert "frozen by rails" not in client.get("/stations").text
        web.operations.set_rails("freeze: [{station: north-1, why: crane, until: 2026-11-21}]\n", actor="ada")
        assert "frozen by rails" in client.get("/stations").text
        over = client.get("/").text
        assert "north-1: no reward known yet" in over
        assert "frozen by the rails" in over
        assert '<i class="dashes"></i> frozen <b>1</b>' in over
        web.clock.now += timedelta(days=3)  # the day is over
        assert "frozen by rails" not in client.get("/stations").text


def test_what_is_kept_of_stations_is_what_they_are(tmp_path: Path) -> None:
    with network(tmp_path, NAMES, mode="autonomous") as web:
        kept = Looks()
        for number in range(6):
            web.play(1)
            if number == 2:
                web.operations.freeze("south-1", actor="anna")
            if number == 3:
                web.operations.set_mode("shadow", actor="anna")
                web.operations.remove_station("east-1", actor="anna")
            if number == 4:
                with web.operations.looking() as read_model:
                    made = next(r for r in read_model.latest() if r.reward is not None)
                web.operations.correct(made.id, 0.123, actor="anna")
            names = names_of(web.operations)
            assert kept.of(web.operations, names) == Looks().of(web.operations, names)


def test_the_most_to_gain_is_what_was_believed_over_what_runs(tmp_path: Path) -> None:
    with network(tmp_path, NAMES) as web:
        web.play(4)
        looks = {look.station: look for look in Looks().of(web.operations, names_of(web.operations))}
        assert any(look.hope for look in looks.values())
        with web.operations.looking() as read_model:
            for name, look in looks.items():
                state = read_model.stations[name]
                made = read_model.decisions[str(state.last)].decision
                means = {one.arm: one.mean for one in made.alternatives if one.mean is not None}
                now = means.get(state.running) if state.running is not None else None
                gain = 0.0 if now is None else max(means.values()) - now
                assert (look.hope.gain if look.hope else 0.0) == pytest.approx(gain)
        best = max(looks.values(), key=lambda look: look.hope.gain if look.hope else 0.0)
        page = web.browser().get("/").text
        first = page[page.index("hopes-title") :]
        assert re.findall(r'<th scope="row"><a href="/stations/([^"]+)"', first)[0] == best.station
        assert listed(web, "sort=hope&down=1")[0] == best.station


@pytest.mark.parametrize("zoom", [-1, 0, 1, 2, 3, 7, 99])
@pytest.mark.parametrize("x", [-5.0, 0.0, 0.4, 1.0, float("nan"), float("inf")])
def test_a_view_lies_within_the_map(zoom: int, x: float) -> None:
    view = View(zoom=zoom, x=x, y=x)
    left, top, w, h = view.box(1000.0, 600.0)
    assert view.close in ZOOMS
    assert 0 <= left <= 1000 - w + 1e-9
    assert 0 <= top <= 600 - h + 1e-9
    assert w / h == pytest.approx(1000 / 600)


def test_arrows_lead_over_the_whole_map_and_end_at_its_edges() -> None:
    view, seen = View(zoom=4, x=0.0, y=0.0), 0
    while link := view.links("/")["east"]:
        query = parse_qs(urlsplit(link).query)
        view = View(zoom=int(query["zoom"][0]), x=float(query["x"][0]), y=float(query["y"][0]))
        seen += 1
    assert seen == 6
    left, _, w, _ = view.box(1.0, 1.0)
    assert left + w == pytest.approx(1.0)
    assert view.links("/")["west"]
    assert not View().links("/")["further"]


def test_names_on_the_map_do_not_touch_and_a_phone_has_room_for_fewer() -> None:
    labels = [Label(f"s{i:03}", 37.0 * (i % 27), 29.0 * (i // 27)) for i in range(500)]
    drawn = names_on(labels, (0.0, 0.0, 1000.0, 700.0))
    places = [
        (float(x) / 100, float(y) / 100, "roomy" in look)
        for x, y, look in re.findall(r'<text x="([\d.]+)%" y="([\d.]+)%" dy=".35em"([^>]*)>', drawn)
    ]
    for wide, shown_ones in ((620.0, places), (330.0, [place for place in places if not place[2]])):
        assert len(shown_ones) > 20
        for i, (x, y, _) in enumerate(shown_ones):
            for a, b, _ in shown_ones[:i]:
                assert abs(x - a) * wide > 4 * 6.0 or abs(y - b) * wide * 0.7 > 13.0
    assert sum(roomy for *_, roomy in places) > 20


def test_a_station_is_found_on_the_map_by_part_of_its_name(tmp_path: Path) -> None:
    with network(tmp_path, [*NAMES, *HOSTILE]) as web:
        client = web.browser()
        page = client.get("/?at=SOUTH").text
        assert re.findall(r'<a href="/stations/([^"]+)" class="sector-link found"', page) == ["south-1"]
        assert 'data-zoom="4"' in page
        nobody = client.get("/?at=%3Cb%3Enobody").text
        assert "No station has “&lt;b&gt;nobody” in its name." in nobody
        assert 'data-zoom="1"' in nobody
        read(nobody)
        faded = client.get("/?q=south").text
        assert len(re.findall(r'class="sector-link faded"', faded)) == len(NAMES) + len(HOSTILE) - 2
        assert client.get("/?zoom=two").status_code == 422


def test_filters_of_nothing_let_everybody_through(tmp_path: Path) -> None:
    with network(tmp_path, NAMES) as web:
        looks = Looks().of(web.operations, names_of(web.operations))
        assert Filters().fit(looks, {}) == looks
        assert not Filters().given
