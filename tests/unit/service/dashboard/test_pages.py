"""Pages of the dashboard: they show what is on record, to whom may see it, and nothing breaks them."""

import json
import re
import sys
from collections.abc import Callable
from datetime import timedelta
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import quote, urlsplit

import pytest
from tests.support.dashboard_network import HOSTILE, Network, network

from kinband.errors import NotFoundError, SavedStateError
from kinband.service.api.metrics import recent_reward
from kinband.service.dashboard.map import contrast
from kinband.service.dashboard.rendering import assets
from kinband.service.dashboard.text import figure
from kinband.service.ledger import LedgerRefusedError, LedgerUnavailableError

PAGES = ("/", "/?colour=mode", "/?colour=change", "/stations", "/plan", "/similarity", "/audit", "/help")
VOID = {"meta", "link", "input", "img", "br", "wbr"}


class Checker(HTMLParser):
    """Reads a page: whether elements are closed in turn, which ids, links, styles and handlers there are."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.bad: list[str] = []
        self.texts: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in VOID:
            self.open.append(tag)
        self._look(tag, dict(attrs))

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._look(tag, dict(attrs))

    def _look(self, tag: str, values: dict[str, str | None]) -> None:
        self.bad += [f"{tag} {name}" for name in values if name == "style" or name.startswith("on")]
        if tag == "script" and not (values.get("src") or "").startswith("/static/"):
            self.bad.append("inline script")
        self.ids += [str(values["id"])] if "id" in values else []
        self.links += [str(values[name]) for name in ("href", "src", "action", "formaction") if values.get(name)]

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.bad.append(f"</{tag}> out of turn")

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def read(text: str) -> Checker:
    checker = Checker()
    checker.feed(text)
    checker.close()
    assert not checker.bad, checker.bad
    assert not checker.open
    assert len(set(checker.ids)) == len(checker.ids), checker.ids
    return checker


def shown(web: Network, path: str, role: str = "admin") -> Checker:
    answer = web.browser(role).get(path)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-security-policy"].startswith(
        "default-src 'none'; script-src 'self'; style-src 'self'"
    )
    return read(answer.text)


def test_every_page_is_there_before_anything_happened(tmp_path: Path) -> None:
    with network(tmp_path) as web:
        for path in (*PAGES, "/stations/3714"):
            shown(web, path)


@pytest.mark.parametrize(
    "knobs", [{"tilt": range(2, 9)}, {"tilt": [2, 4], "scheduler": ["pf", "rr"], "boost": [True, False]}]
)
@pytest.mark.parametrize("placed", [True, False])
def test_every_page_is_there_for_a_network_at_work(
    tmp_path: Path, placed: bool, knobs: dict[str, list[object]]
) -> None:
    with network(tmp_path, [f"s{i}" for i in range(7)], knobs=knobs, placed=placed) as web:
        web.operations.set_mode("autonomous", ["s1", "s2"], actor="anna")
        ids = web.play(4)
        web.operations.freeze("s3", why="antenna swap", actor="anna")
        web.operations.stop(why="outage", actor="anna")
        for path in (
            *PAGES,
            "/stations/s1",
            "/stations/s0",
            "/stations/s3",
            f"/decisions/{ids[0]}",
            f"/decisions/{ids[-1]}?evidence=1",
        ):
            words = " ".join(shown(web, path).texts)
            assert "outage" in words


def test_a_page_that_remembers_what_it_made_is_as_one_that_has_made_nothing_yet(tmp_path: Path) -> None:
    with network(tmp_path, [f"s{i}" for i in range(7)], mode="autonomous") as web:
        client, ids = web.browser(), web.play(30)
        paths = [*PAGES, "/?range=6h", "/?zoom=2&at=s3", "/stations?sort=hope", "/stations/s0", "/stations/s6?range=6h"]

        def pages() -> list[str]:
            return [client.get(path).text for path in paths]

        happenings: list[Callable[[], object]] = [
            lambda: web.operations.tell({ids[-1]: 0.7}, actor="nms"),
            lambda: web.operations.correct(ids[0], 0.1, actor="nms"),
            lambda: web.operations.set_mode("shadow", ["s2"], actor="anna"),
            lambda: web.operations.freeze("s6", why="antenna swap", actor="anna"),
            lambda: web.operations.roll_back("s0", comment="complaints", override=True, actor="anna"),
            lambda: web.play(1),
            lambda: setattr(web.clock, "now", web.clock.now + timedelta(minutes=59)),
        ]
        for happens in happenings:
            pages()
            happens()
            remembering = pages()
            forget()
            assert pages() == remembering


@pytest.mark.parametrize("written", ["d1", "d01", "d0000001", "d" + 5000 * "1", "d-00001", "d٠٠٠٠٠١", "D000001"])
def test_an_id_that_is_written_otherwise_is_no_decision(tmp_path: Path, written: str) -> None:
    with network(tmp_path) as web:
        assert web.play(1)[0] == "d000001"
        answer = web.browser().get(f"/decisions/{quote(written)}")
        assert answer.status_code == 404
        assert "decisions are on record" in answer.text
        read(answer.text)
        with web.operations.looking() as read_model, pytest.raises(NotFoundError):
            read_model.decision(written)


def forget() -> None:
    """Have the dashboard forget what it made."""
    for name, module in list(sys.modules.items()):
        if name.startswith(("kinband.service.dashboard", "kinband.html")):
            for value in vars(module).values():
                if hasattr(value, "cache_clear"):
                    value.cache_clear()


@pytest.mark.parametrize("role", ["viewer", "operator", "admin"])
def test_links_on_pages_lead_somewhere(tmp_path: Path, role: str) -> None:
    with network(tmp_path, ["a", *HOSTILE]) as web:
        web.play(2)
        client, seen, todo = web.browser(role), set[str](), ["/?q=nobody", "/stations?mode=assist", "/"]
        while todo:
            path = todo.pop()
            kind = re.sub(r"\d+", "0", urlsplit(path).path.split("/")[1])
            if path in seen or sum(urlsplit(p).path.split("/")[1] == kind for p in seen) > 12:
                continue
            seen.add(path)
            answer = client.get(path)
            assert answer.status_code == 200, path
            if answer.headers["content-type"].startswith("text/html"):
                links = [link for link in read(answer.text).links if not link.startswith("#")]
                assert all(link.startswith("/") and not link.startswith("//") for link in links)
                forms = ("/plan/", "/rails/form", "/sign-out", "/stop", "/resume", "/mode")
                todo += [
                    link
                    for link in links
                    if not link.startswith(forms) and not re.search(r"/(freeze|thaw|mode|roll-back)$", link)
                ]
        assert {"/plan", "/audit", "/help", "/similarity", "/plan.csv"} <= {urlsplit(path).path for path in seen}


def test_hostile_names_are_only_ever_text(tmp_path: Path) -> None:
    with network(tmp_path, HOSTILE) as web:
        ids = web.play(2)
        client = web.browser()
        with web.operations.looking() as read_model:
            names = list(read_model.stations)
        pages = [*PAGES, *(f"/decisions/{key}" for key in ids), "/audit?station=%3Cscript%3E&actor=%22%3E"]
        from kinband.service.dashboard.text import station_url

        for path in [*pages, *map(station_url, names)]:
            answer = client.get(path)
            assert answer.status_code == 200, path
            assert "<script>alert" not in answer.text
            assert " onload='" not in answer.text
            read(answer.text)
        for name in names:
            assert name in "".join(read(client.get(station_url(name)).text).texts)


def test_the_overview_shows_the_figures_of_the_picture(tmp_path: Path) -> None:
    with network(tmp_path) as web:
        web.play(3)
        with web.operations.looking() as read_model:
            waiting, gain = len(read_model.waiting()), read_model.gain()
        words = " ".join(" ".join(shown(web, "/").texts).split())
        assert waiting > 0
        assert f"Waiting for approval {waiting} " in words
        assert "estimated" in words
        assert f"over {gain.slots} slots" in words


def test_the_mean_reward_is_the_mean_of_what_stations_show_and_that_of_the_metric(tmp_path: Path) -> None:
    with network(tmp_path, ["a", "b", "c"]) as web:
        for number in range(30):  # one of them is asked for far more often, and one has left
            web.clock.now += timedelta(hours=1)
            names = ["a"] if number % 5 else ["a", "b", "c"]
            records = web.operations.ask({name: {"load": 0.5} for name in names}, actor="nms")
            web.operations.tell(
                {record.id: {"a": 0.2, "b": 0.9, "c": 0.7}[record.station] for record in records}, actor="nms"
            )
        web.operations.remove_station("c", actor="anna")
        with web.operations.looking() as read_model:
            metric = recent_reward(read_model)
        words = " ".join(" ".join(shown(web, "/").texts).split())
        assert metric == pytest.approx((0.2 + 0.9) / 2)
        assert f"Mean reward {figure(metric)} mean over 2 stations of the last 24 rewards known of each" in words


def test_counts_of_stations_stand_apart(tmp_path: Path) -> None:
    with network(tmp_path, ["a", "b", "c"]) as web:
        web.operations.freeze("b", why="swap", actor="anna")
        text = web.browser().get("/").text
        assert (
            '<li><span class="mode m-assist">assist</span> <b>3</b></li><li><i class="dashes"></i> frozen <b>1</b>'
            in text
        )


def test_the_map_links_every_station_once(tmp_path: Path) -> None:
    names = [f"s{i}" for i in range(6)]
    with network(tmp_path, names) as web:
        web.operations.add_station("newcomer", None, {"s0": 0.5}, actor="anna")
        text = web.browser().get("/").text
        sectors = re.findall(r'<a href="/stations/(\w+)" class="sector-link', text)
        assert sorted(sectors) == sorted([*names, "newcomer"])
        assert "1 station without a known place" in text


def test_stations_are_found_by_name_and_sorted(tmp_path: Path) -> None:
    with network(tmp_path, ["north-1", "north-2", "south-1"]) as web:
        web.play(3)
        client = web.browser()

        def listed(query: str) -> list[str]:
            return re.findall(r'<th scope="row"><a href="/stations/([^"?]+)', client.get(f"/stations?{query}").text)

        assert listed("q=NORTH") == ["north-1", "north-2"]
        assert listed("q=nothing") == []
        assert listed("sort=name&down=1") == ["south-1", "north-2", "north-1"]
        with web.operations.looking() as read_model:
            rewards = {name: read_model.recent(name) or -1.0 for name in read_model.stations}
        assert listed("sort=reward") == sorted(rewards, key=lambda name: rewards[name])


def test_the_plan_lists_what_waits_and_its_file_cannot_be_a_formula(tmp_path: Path) -> None:
    with network(tmp_path, ["=cmd", "b"]) as web:
        web.play(1, told=False)
        with web.operations.looking() as read_model:
            waiting = [record.id for record in read_model.waiting()]
        client = web.browser("viewer")
        assert waiting
        text = client.get("/plan").text
        assert all(f"/decisions/{key}" in text for key in waiting)
        assert not re.search("Approve(?!d)", text)
        rows = client.get("/plan.csv").text.splitlines()
        assert len(rows) == 1 + len(waiting)
        assert any(",'=cmd," in row for row in rows)


def test_the_decision_page_says_why_and_what_the_guard_said(tmp_path: Path) -> None:
    rails = "knobs:\n  threshold_dbm: {step: 1}\n"
    with network(tmp_path, rails=rails) as web:
        web.play(2)
        with web.operations.looking() as read_model:
            record = next(i for i in read_model.decisions.values() if i.verdict is not None and i.verdict.refusals)
        words = " ".join(shown(web, f"/decisions/{record.id}").texts)
        assert web.operations.controller.explain(record.id, most_rows=400).text.split(".")[0] in words
        assert record.verdict is not None
        assert record.verdict.refusals[0].reason in words
        assert "step" in words


def test_what_ran_before_a_decision_is_not_said_to_have_run_in_its_slot(tmp_path: Path) -> None:
    with network(tmp_path, mode="autonomous") as web:
        web.play(2)
        with web.operations.looking() as read_model:
            record = next(i for i in read_model.decisions.values() if i.changes and i.reward is not None)
        text = web.browser().get(f"/decisions/{record.id}").text
        assert '<span class="tagged">ran before</span>' in text
        assert '<span class="tagged">ran</span>' not in text
        assert "runs now" not in text
        assert "<dt>Ran in this slot</dt>" in text


def test_the_heat_map_orders_all_stations_and_its_numbers_are_the_matrix(tmp_path: Path) -> None:
    with network(tmp_path, ["a", "b", "c"]) as web:
        client = web.browser()
        text = client.get("/similarity?station=b&alike=0.5").text
        data, image = (re.search(rf'"(/similarity/{name}\?v=\w+)"', text) for name in ("data.json", "picture.png"))
        assert data is not None
        assert image is not None
        found = client.get(data[1]).json()
        assert sorted(found["stations"]) == ["a", "b", "c"]
        assert client.get(image[1]).content.startswith(b"\x89PNG")
        assert "immutable" in client.get(image[1]).headers["cache-control"]
        assert "no-store" in client.get("/similarity/picture.png?v=other").headers["cache-control"]
        assert json.dumps(found)


def test_an_unchanged_network_is_answered_in_a_line_and_a_changed_one_in_full(tmp_path: Path) -> None:
    with network(tmp_path) as web:
        web.play(1)
        client = web.browser()
        for path in (*PAGES, "/stations/3714"):
            etag = client.get(path).headers["etag"]
            assert etag.startswith('W/"')
            again = client.get(path, headers={"If-None-Match": etag})
            assert (again.status_code, again.content) == (304, b"")
        etag = client.get("/").headers["etag"]
        assert web.browser("viewer").get("/", headers={"If-None-Match": etag}).status_code == 200
        assert client.get("/?colour=mode", headers={"If-None-Match": etag}).status_code == 200
        web.operations.freeze("3714", actor="anna")
        assert client.get("/", headers={"If-None-Match": etag}).status_code == 200


def test_static_files_are_kept_for_ever_under_their_digest(tmp_path: Path) -> None:
    with network(tmp_path) as web:
        client = web.browser(None)
        for asset in assets().values():
            answer = client.get(asset.url)
            assert answer.content == asset.content
            assert "immutable" in answer.headers["cache-control"]
            assert client.get(asset.url, headers={"If-None-Match": answer.headers["etag"]}).status_code == 304
        assert client.get("/static/kinband.css?v=old").headers["cache-control"] == "no-cache"
        assert client.get("/static/..%2Froutes.py").status_code == 404


def test_what_nobody_knows_is_a_page_with_a_sentence(tmp_path: Path) -> None:
    with network(tmp_path) as web:
        client = web.browser()
        for path, words in (("/stations/nobody", "no station"), ("/decisions/d999999", "no decision")):
            answer = client.get(path)
            assert answer.status_code == 404
            assert words in answer.text.lower()
            read(answer.text)
        assert client.get("/audit?before=soon").status_code == 422


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_ledger_that_is_away_is_a_page_that_does_not_tell_where_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, method: str
) -> None:
    with network(tmp_path) as web:
        client = web.browser()
        csrf, place = web.csrf(client), web.operations.ledger.name
        assert str(tmp_path) in place

        def away(*_args: object, **_given: object) -> None:
            raise LedgerUnavailableError(f"the ledger cannot be reached at {place}", recorded=None)

        monkeypatch.setattr(web.operations, "events", away)
        monkeypatch.setattr(web.operations, "stop", away)
        answer = client.get("/audit") if method == "GET" else client.post("/stop", {"csrf": csrf})
        assert answer.status_code == 503
        assert str(tmp_path) not in answer.text
        assert "ledger is away" in answer.text
        assert "not certain" in answer.text
        assert place in caplog.text


@pytest.mark.parametrize("error", [SavedStateError, LedgerRefusedError])
def test_a_damaged_or_closed_ledger_keeps_its_place_to_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    with network(tmp_path) as web:

        def broken(*_args: object, **_given: object) -> None:
            raise error(f"the ledger {web.operations.ledger.name} is damaged: restore it from a backup")

        monkeypatch.setattr(web.operations, "events", broken)
        answer = web.browser().get("/audit")
        assert answer.status_code >= 500
        assert str(tmp_path) not in answer.text


def test_a_failure_of_ours_is_a_page_that_tells_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with network(tmp_path) as web:

        def broken() -> None:
            raise RuntimeError("secret inside")

        monkeypatch.setattr(web.operations, "similarity", broken)
        answer = web.browser().get("/similarity")
        assert answer.status_code == 500
        assert "secret inside" not in answer.text


def _variables(css: str, block: str) -> dict[str, str]:
    found = re.search(rf"{re.escape(block)} \{{(.*?)\}}", css, re.DOTALL)
    assert found is not None
    return dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", found[1]))


@pytest.mark.parametrize("block", [":root", ':root[data-theme="dark"]'])
def test_texts_have_enough_contrast_in_both_themes(block: str) -> None:
    colours = _variables(assets()["kinband.css"].content.decode(), block)
    for text, papers in {
        "ink": ("paper", "page", "soft"),
        "faint": ("paper", "page", "soft"),
        "link": ("paper", "page"),
        "accent": ("paper",),
        "good-ink": ("good",),
        "bad-ink": ("bad", "paper"),
        "warn-ink": ("warn",),
    }.items():
        for paper in papers:
            assert contrast(colours[text], colours[paper]) >= 4.5, (text, paper)
    for button in ("primary", "danger"):
        assert contrast("#ffffff", colours[button]) >= 4.5, button
    for line in ("one", "two", "three"):
        assert contrast(colours[line], colours["paper"]) >= 3.0, line


def test_the_dark_theme_is_the_same_by_preference_and_by_choice() -> None:
    css = assets()["kinband.css"].content.decode()
    assert _variables(css, ':root:not([data-theme="light"])') == _variables(css, ':root[data-theme="dark"]')


def test_two_knobs_are_drawn_as_cells_that_mark_what_runs_and_what_would_be_chosen(tmp_path: Path) -> None:
    with network(tmp_path, knobs={"tilt": [2, 4, 6], "scheduler": ["pf", "rr"]}) as web:
        web.play(3)
        page = web.browser().get("/stations/3714").text
        read(page)
        outlook = web.operations.outlook("3714")
        part = page[page.index("outlook-title") : page.index("lenders-title")]
        assert part.count('class="cell"') == 6
        assert part.count('class="at-running"') == part.count('class="at-chosen on"') == 1
        assert "<h3>scheduler, over tilt</h3>" in part
        assert outlook.mean is not None
        best = outlook.configurations[outlook.mean.index(max(outlook.mean))]
        assert f"Highest: tilt {best['tilt']}, scheduler {best['scheduler']}: " in part
