"""The audit log: who did what, between which times, and without verdicts that had nothing to review."""

import csv
import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.support.dashboard_network import Browser, Network, network

from kinband.service.dashboard import audit
from kinband.service.dashboard.audit import first_since
from kinband.service.dashboard.chosen import period
from kinband.service.ledger import Event

NAMES = [f"s{i}" for i in range(8)]


@contextmanager
def busy(folder: Path) -> Iterator[Network]:
    """A network that has found its configurations: most decisions are to stay."""
    with network(folder, NAMES, knobs={"tilt": [2, 4, 6, 8]}, mode="autonomous") as web:
        web.play(9)
        web.operations.freeze("s3", why="swap", actor="bertil")
        web.operations.set_mode("shadow", ["s1"], actor="anna")
        yield web


def numbers(text: str) -> list[int]:
    return [int(number) for number in re.findall(r'data-head="No.">(\d+)<', text)]


def walked(client: Browser, path: str) -> list[int]:
    """The numbers of all events, page after page."""
    seen = list[int]()
    while path:
        text = client.get(path).text
        seen += numbers(text)
        older = re.search(r'href="(/audit\?[^"]*before=\d+)">Older', text)
        path = older[1].replace("&amp;", "&") if older else ""
    return seen


def trivial(event: Event) -> bool:
    """An independent reading of what had nothing to review."""
    return event.kind == "verdict" and "nothing else was asked for" in event.text and '"kept"' in event.text


def test_a_preset_of_the_range_counts_from_now_as_on_other_pages(tmp_path: Path) -> None:
    with network(tmp_path) as web:
        web.play(30)
        client = web.browser()
        rows = {
            name: client.get(f"/audit.csv?kind=decision&range={name}").text.count("\n") for name in ("6h", "24h", "all")
        }
        assert rows == {"6h": 1 + 3 * 7, "24h": 1 + 3 * 25, "all": 1 + 3 * 30}
        page = client.get("/audit?range=6h&kind=decision").text
        assert 'href="/audit?kind=decision&amp;range=24h"' in page
        assert client.get("/audit?since=2026-11-21&until=2026-11-20").status_code == 422


@pytest.mark.parametrize("most", [audit.MOST_READ, audit.PAGE + 1, 20])
def test_what_people_did_and_changed_comes_first_and_the_rest_on_demand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    monkeypatch.setattr(audit, "MOST_READ", most)
    with busy(tmp_path) as web:
        client = web.browser()
        events = web.operations.events(limit=10_000)
        quiet = ("decision", "ran", "verdict", "outcome", "similarity")
        wanted = [event.seq for event in reversed(events) if event.kind not in quiet]
        assert 10 < len(wanted) < len(events) - 10
        assert walked(client, "/audit") == wanted
        assert walked(client, "/audit?every=1") == [event.seq for event in reversed(events)]
        verdicts = [event.seq for event in reversed(events) if event.kind == "verdict" and not trivial(event)]
        assert walked(client, "/audit?kind=verdict") == verdicts


def test_the_page_says_how_many_verdicts_it_left_out_and_has_a_switch(tmp_path: Path) -> None:
    with busy(tmp_path) as web:
        client = web.browser()
        text = client.get("/audit?actor=nms&kind=verdict").text
        shown = numbers(text)
        events = web.operations.events(actor="nms", kinds=["verdict"], after=shown[-1] - 1, limit=10_000)
        left = sum(map(trivial, events))
        assert left > 1
        assert len(shown) == len(events) - left
        assert f"{left} verdicts on decisions that change nothing are left out among these" in text
        switch = re.search(r'<a href="([^"]+)">Show them</a>', text)
        assert switch is not None
        text = client.get(switch[1].replace("&amp;", "&")).text
        assert "What people did and what changed</a>" in text
        events = web.operations.events(actor="nms", kinds=["verdict"], limit=10_000)
        assert numbers(text) == [event.seq for event in reversed(events)][: audit.PAGE]
        assert 'name="every" value="1"' in text


@pytest.mark.parametrize("number", [2**63, 10**30, -5])
def test_any_number_of_an_event_may_be_asked_for(tmp_path: Path, number: int) -> None:
    with busy(tmp_path) as web:
        page = web.browser().get(f"/audit?before={number}")
        assert (page.status_code, bool(numbers(page.text))) == (200, number > 0)


def test_a_page_reads_no_more_than_it_may(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with busy(tmp_path) as web:
        read, real = list[int](), web.operations.events

        def counted(**given: object) -> list[Event]:
            found = real(**given)  # type: ignore[arg-type]
            read.append(len(found))
            return found

        monkeypatch.setattr(web.operations, "events", counted)
        monkeypatch.setattr(audit, "had_nothing_to_review", lambda said: True)
        monkeypatch.setattr(audit, "MOST_READ", 60)
        web.browser().get("/audit?kind=verdict")
        assert sum(read) == 60


def test_a_column_says_who_and_leads_to_what_they_did(tmp_path: Path) -> None:
    with busy(tmp_path) as web:
        text = web.browser().get("/audit?kind=switch").text
        assert '<th scope="col">Who</th>' in text
        assert re.search(r'data-head="Who"><a [^>]*href="/audit\?actor=bertil"[^>]*>bertil</a>', text)
        text = web.browser().get("/audit?actor=bertil&kind=switch&station=s3").text
        assert "bertil froze s3: “swap”." in text
        assert len(numbers(text)) == 1
        assert len(web.browser().get("/audit.csv?actor=bertil").text.splitlines()) == 2


def test_events_are_found_by_time_to_the_minute(tmp_path: Path) -> None:
    with busy(tmp_path) as web:
        client, events = web.browser(), web.operations.events(limit=10_000)
        at = {event.seq: datetime.fromisoformat(event.at) for event in events}
        since, until = min(at.values()) + timedelta(hours=3), min(at.values()) + timedelta(hours=5)
        form = "%Y-%m-%dT%H:%M"
        path = f"/audit?every=1&since={since:{form}}&until={until:{form}}"
        minute = since.replace(second=0, microsecond=0), until.replace(second=0, microsecond=0) + timedelta(minutes=1)
        wanted = [seq for seq in sorted(at, reverse=True) if minute[0] <= at[seq] < minute[1]]
        assert 10 < len(wanted) < len(events)
        assert walked(client, path) == wanted
        assert f'name="since" value="{since:{form}}"' in client.get(path).text
        rows = list(csv.reader(client.get(path.replace("/audit", "/audit.csv")).text.splitlines()))[1:]
        assert [int(row[0]) for row in rows] == wanted
        day = f"{since:%Y-%m-%d}"
        assert walked(client, f"/audit?every=1&since={day}&until={day}") == sorted(at, reverse=True)
        assert walked(client, "/audit?every=1&since=2031-01-01") == []
        assert client.get("/audit?since=soon").status_code == 422
        assert client.get("/audit.csv?until=soon").status_code == 422


def test_the_first_event_since_a_time_is_found_whatever_the_time(tmp_path: Path) -> None:
    with busy(tmp_path) as web:
        events = web.operations.events(limit=10_000)
        at = [datetime.fromisoformat(event.at) for event in events]
        for moment in (*at[::37], at[0] - timedelta(days=9), at[-1] + timedelta(seconds=1)):
            naive = next((event.seq for event, when in zip(events, at, strict=True) if when >= moment), len(events) + 1)
            assert first_since(web.operations, moment) == naive


@pytest.mark.parametrize(
    ("text", "begin", "seconds"),
    [
        ("2026-11-20", datetime(2026, 11, 20, tzinfo=UTC), 86_400),
        ("2026-11-20T10:04", datetime(2026, 11, 20, 10, 4, tzinfo=UTC), 60),
        ("2026-11-20T10:04:09", datetime(2026, 11, 20, 10, 4, 9, tzinfo=UTC), 1),
        ("2026-11-20T10:04:00+02:00", datetime(2026, 11, 20, 8, 4, tzinfo=UTC), 1),
    ],
)
def test_a_time_stands_for_as_long_as_it_is_exact(text: str, begin: datetime, seconds: int) -> None:
    assert period(text, name="from") == (begin, begin + timedelta(seconds=seconds))
