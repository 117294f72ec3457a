"""The page of the plan: its parts, filters and order, what is said after an act, and two people at once."""

import csv
import io
import json
import re
from base64 import urlsafe_b64decode
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from httpx import Response
from tests.support.dashboard_network import Browser, Network, network

from kinband.service.dashboard.rendering import SAID

NIGHT = "maintenance:\n  - {from: '00:00', to: '05:00'}\nzone: UTC\n"
NAMES = ["north-1", "north-2", "north-3", "south-1", "south-2"]


@contextmanager
def evening(folder: Path, rails: str = NIGHT) -> Iterator[tuple[Network, list[str]]]:
    """A network at 18:00 whose window opens at midnight, and the ids of what waits, in the order of `NAMES`."""
    with network(folder, NAMES, rails=rails) as web:
        web.play(3)
        web.clock.now = web.clock.now.replace(hour=17)
        ids = web.play(1, told=False)
        assert [web.operations.decision(key).status for key in ids] == ["waiting"] * len(NAMES)
        yield web, ids


def stations(client: Browser, query: str = "") -> list[str]:
    """The stations on the page, in order."""
    return re.findall(r'<th scope="row"><a href="/stations/([^"]+)"', client.get(f"/plan{query}").text)


def sent(web: Network, client: Browser, path: str, **values: object) -> Response:
    return client.post(path, data={"csrf": web.csrf(client), **values})


def said(answer: Response) -> tuple[str, str, list[str]]:
    """The words, the tone and what may be undone of a redirection's message."""
    words, tone, undo = json.loads(urlsafe_b64decode(answer.cookies[SAID].partition(".")[0] + "=="))
    return words, tone, undo


def test_the_address_says_what_is_shown_and_in_which_order(tmp_path: Path) -> None:
    with evening(tmp_path) as (web, _):
        client = web.browser("viewer")
        with web.operations.looking() as read_model:
            gains = {one.station: one.gain[0] for one in read_model.waiting() if one.gain is not None}
        by_gain = sorted(NAMES, key=lambda name: -gains[name])
        assert stations(client) == by_gain == stations(client, "?sort=nonsense&down=0&show=nothing&only=what")
        assert stations(client, "?sort=gain&down=0") == by_gain[::-1]
        assert stations(client, "?sort=station") == NAMES
        assert stations(client, "?sort=station&down=1") == NAMES[::-1]
        assert stations(client, "?q=SOUTH&sort=station") == ["south-1", "south-2"]
        assert stations(client, "?q=west") == []
        assert "None of 5 changes is like that" in client.get("/plan?q=west").text
        with web.operations.looking() as read_model:
            records = read_model.waiting()
        certain = {one.station for one in records if one.gain is not None and one.gain[1] > 0}
        trials = {i.station for i in records if (i.expected.proposed or 0) < (i.expected.before or 0)}
        assert set(stations(client, "?only=certain")) == certain
        assert set(stations(client, "?only=trials")) == trials
        assert stations(client, "?only=old") == []
        assert client.get("/plan?q=%00&sort=" + "x" * 400).status_code == 200


def test_headings_and_tabs_lead_to_the_same_with_something_else(tmp_path: Path) -> None:
    with evening(tmp_path) as (web, _):
        text = web.browser("viewer").get("/plan?q=north&only=trials&sort=station").text
        links = [urlsplit(link.replace("&amp;", "&")) for link in re.findall(r'href="(/plan[^"]*)"', text)]
        asked = [{key: values[0] for key, values in parse_qs(link.query).items()} for link in links]
        for show in ("approved", "ordered", "done"):
            assert {"q": "north", "only": "trials", "sort": "station", "show": show} in asked
        assert {"q": "north", "only": "trials", "sort": "station", "down": "1"} in asked
        assert {"q": "north", "only": "trials", "sort": "tried"} in asked
        assert any(link.path == "/plan.csv" and "q=north" in link.query for link in links)


def test_a_line_has_its_reason_and_what_was_tried_and_no_noise(tmp_path: Path) -> None:
    with evening(tmp_path) as (web, ids):
        text = web.browser("viewer").get("/plan").text
        assert "no rail forbids it" not in text
        for key in ids:
            record = web.operations.decision(key)
            assert record.support is not None
            ran = [
                one.arm for one in web.operations.controller.observations() if one.task == NAMES.index(record.station)
            ]
            assert record.support.own == ran.count(record.wanted)
            assert f"<small>{record.support}</small>" in text
            assert record.gain is not None
        assert "is expected, not" in text


def test_the_file_has_the_columns_and_the_choice_of_the_page(tmp_path: Path) -> None:
    with evening(tmp_path) as (web, ids):
        client = web.browser("viewer")
        rows = list(csv.DictReader(io.StringIO(client.get("/plan.csv?q=south&sort=station").text)))
        assert [row["station"] for row in rows] == ["south-1", "south-2"]
        record = web.operations.decision(ids[3])
        assert record.gain is not None
        assert record.support is not None
        assert [float(rows[0][name]) for name in ("expected_gain", "gain_low", "gain_high")] == list(record.gain)
        assert [int(rows[0][name]) for name in ("ran_here", "ran_at_similar", "similar_stations")] == [
            record.support.own, record.support.others, record.support.stations,
        ]  # fmt: skip
        assert rows[0]["status"] == "waiting"


def test_what_is_about_to_be_approved_is_summed_up_and_nothing_is_done_yet(tmp_path: Path) -> None:
    with evening(tmp_path) as (web, ids):
        client = web.browser("operator")
        text = sent(web, client, "/plan/check", id=[*ids[:2], "d999999"], comment="quiet <night>").text
        assert "<h1>Approve 2 changes?</h1>" in text
        assert "2</b> wait for their window" in text
        assert "quiet &lt;night&gt;" in text
        assert "1 other can no longer be decided about" in text
        assert all(web.operations.decision(key).status == "waiting" for key in ids)
        assert "Tick at least one" in sent(web, client, "/plan/check").text
        assert web.browser("viewer").post("/plan/check", {"csrf": "x"}).status_code == 403
        viewer = web.browser("viewer")
        assert sent(web, viewer, "/plan/check", id=ids).status_code == 403


def test_what_was_approved_is_named_and_can_be_taken_back_until_it_is_ordered(tmp_path: Path) -> None:
    with evening(tmp_path) as (web, ids):
        client = web.browser("operator")
        words, tone, undo = said(sent(web, client, "/plan/approve", id=ids[:2], comment="quiet night"))
        assert words.startswith("Approved, due 21 Nov 2026 00:00 UTC: north-1 (threshold_dbm ")
        assert (tone, undo) == ("good", ids[:2])
        page = client.get("/plan").text
        assert 'action="/plan/withdraw"' in page
        assert "quiet night" in client.get("/plan?show=approved").text
        assert stations(client, "?show=approved&sort=station") == NAMES[:2]
        assert stations(client, "?sort=station") == NAMES[2:]
        words, tone, _ = said(sent(web, client, "/plan/withdraw", id=ids[0]))
        assert words.startswith("Waits for a person again: north-1")
        assert web.operations.decision(ids[0]).status == "waiting"
        web.clock.now += timedelta(hours=7)
        web.operations.orders.settle()
        words, tone, _ = said(sent(web, client, "/plan/withdraw", id=ids[1]))
        assert tone == "bad"
        assert "north-2 was decided about before: carried out, by the service at 21 Nov 2026 01:00 UTC" in words
        assert stations(client, "?show=done") == ["north-2"]


def test_of_two_people_one_is_first_and_the_other_is_told_by_whom(tmp_path: Path) -> None:
    with evening(tmp_path) as (web, ids):
        anna, bert = web.browser("operator"), web.browser("operator")
        assert said(sent(web, anna, "/plan/reject", id=ids[0], comment="match day"))[0].startswith("Rejected: north-1")
        words, tone, undo = said(sent(web, bert, "/plan/approve", id=ids[:2]))
        assert (tone, undo) == ("bad", ids[1:2])
        assert "Approved, due" in words
        assert re.search(
            r"north-1 was decided about before: rejected by a person, by operator \d at .*“match day”", words
        )
        page = bert.get("/plan").text
        assert "match day" in page
        text = sent(web, bert, "/plan/check", id=[ids[0], ids[2]]).text
        assert "<h1>Approve 1 change?</h1>" in text
        assert "north-1 was decided about before" in text
        assert web.operations.decision(ids[0]).status == "rejected"


def test_orders_are_confirmed_or_failed_on_the_page_where_nobody_else_does_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with evening(tmp_path) as (web, ids):
        monkeypatch.setattr(web.operations.read_model, "manner", "confirmed")
        client = web.browser("operator")
        sent(web, client, "/plan/approve", id=ids[:3])
        web.clock.now += timedelta(hours=6, minutes=5)
        web.operations.orders.settle()
        assert sorted(stations(client, "?show=ordered")) == NAMES[:3]
        assert said(sent(web, client, "/plan/confirm", id=ids[0]))[0].startswith("Carried out: north-1")
        assert said(sent(web, client, "/plan/fail", id=ids[1], comment="cell locked"))[0].startswith(
            "Reported as failed"
        )
        done = client.get("/plan?show=done").text
        assert "cell locked" in done
        assert sorted(stations(client, "?show=done")) == NAMES[:2]
        text = client.get(f"/decisions/{ids[1]}").text
        steps = re.findall(r'<li[^>]*><span class="status s-([\w-]+)"', text)
        assert steps == ["waiting", "approved", "ordered", "failed"]
        assert "has to be confirmed before" in client.get(f"/decisions/{ids[2]}").text


def test_a_forged_undo_does_nothing(tmp_path: Path) -> None:
    with evening(tmp_path) as (web, ids):
        client = web.browser("operator")
        sent(web, client, "/plan/approve", id=ids[0])
        assert client.post("/plan/withdraw", {"id": ids[0], "csrf": "guessed"}).status_code == 403
        assert "Nothing was done" in said(sent(web, client, "/plan/withdraw", id="nonsense"))[0]
        assert "Nothing was done" in said(sent(web, client, "/plan/confirm", id=ids[0]))[0]
        assert web.operations.decision(ids[0]).status == "approved"
