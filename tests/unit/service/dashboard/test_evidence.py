"""Whose evidence a station's page and a decision's page name, where that takes long: why not, and the button."""

import re
from pathlib import Path

import pytest
from tests.support.dashboard_network import Network, network

from kinband.service.dashboard import decision
from kinband.service.ledger import Ledger, Replayed, replay
from kinband.service.operations import outlooks

LENT = re.compile(r'<span class="what">(?:its own|<a [^>]*>([^<]*)</a>)</span><svg.*?</svg><span class="num">([^<]*)<')


def lent(text: str) -> dict[str, str]:
    """Shares by station, as a page shows them; its own by an empty name. 1217 has none of its own."""
    return {name or "": share for name, share in LENT.findall(text)}


def rewards(web: Network) -> int:
    return len(web.operations.controller)


def test_up_to_the_limit_shares_are_shown_and_no_button(tmp_path: Path) -> None:
    with network(tmp_path) as web:
        web.play(3)
        text = web.browser().get("/stations/1217").text
        assert len(lent(text)) == 2
        assert "Work out whose" not in text


def test_beyond_the_limit_the_page_says_so_and_offers_to_weigh_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with network(tmp_path) as web:
        web.play(3)
        monkeypatch.setattr(outlooks, "MOST_ROWS", rewards(web) - 1)
        client = web.browser("viewer")
        text = client.get("/stations/1217").text
        assert not lent(text)
        words = (
            f"{rewards(web)} rewards are known. Beyond {rewards(web) - 1}, who lent what is worked out only when asked."
        )
        assert words in text
        assert "no model" not in text
        button = re.search(r'<a class="button" href="([^"]+)">Work out whose evidence', text)
        assert button is not None
        weighed = client.get(button[1]).text
        with web.operations.looking() as read_model:
            last = read_model.station("1217").last
        assert last is not None
        found = web.operations.explain(last).of.evidence
        assert found is not None
        assert set(lent(weighed)) == {"" if name == "1217" else name for name in found.shares}
        assert f"/decisions/{last}" in weighed
        assert 'data-etag=""' in weighed, "such a page does not work it out again every few seconds"


def test_the_reason_why_nobody_is_named_is_the_true_one(tmp_path: Path) -> None:
    with network(tmp_path) as web:
        client = web.browser()
        web.play(1, told=False)
        text = client.get("/stations/1217").text
        assert "No reward is known yet." in text
        assert "Work out whose" not in text


@pytest.mark.parametrize("path", ["/stations/1217", "/decisions/{last}"])
def test_what_would_keep_others_waiting_is_weighed_from_the_ledger_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    with network(tmp_path) as web:
        web.play(4)
        monkeypatch.setattr(outlooks, "MOST_ROWS", 0)
        with web.operations.looking() as read_model:
            last = str(read_model.station("1217").last)
        client, address = web.browser(), f"{path.format(last=last)}?evidence=1"
        before = lent(client.get(address).text)
        assert len(before) == 2
        monkeypatch.setattr(decision, "AT_ONCE", 2)
        used = list[str]()

        def counted(ledger: Ledger, decision_id: str, *, most_rows: int) -> Replayed:
            used.append(decision_id)
            return replay(ledger, decision_id, most_rows=most_rows)

        monkeypatch.setattr(decision, "replay", counted)
        assert lent(web.browser().get(address).text) == before
        assert used == [last]


def test_beyond_what_pages_weigh_the_command_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with network(tmp_path) as web:
        web.play(4)
        monkeypatch.setattr(outlooks, "MOST_ROWS", 0)
        monkeypatch.setattr(decision, "AT_ONCE", 2)
        monkeypatch.setattr(decision, "MOST", 3)
        with web.operations.looking() as read_model:
            last = str(read_model.station("1217").last)
        for path in ("/stations/1217", f"/decisions/{last}"):
            text = web.browser().get(f"{path}?evidence=1").text
            assert not lent(text)
            assert "More than 3 rewards bear on it, too many for a page" in text
            assert f"kinband replay LEDGER {last} --most-rows" in text


def test_the_guide_names_the_limits_that_hold() -> None:
    guide = (Path(__file__).parents[4] / "docs" / "serve.md").read_text()
    assert f"up to {outlooks.MOST_ROWS:,} rewards" in guide
    assert f"more than {decision.QUICK}," in guide
    assert f"up to {decision.MOST:,} rewards" in guide
