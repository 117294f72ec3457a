"""Whose evidence a station's page and a decision's page name, where that takes long: why not, and the button."""

import re
from pathlib import Path

import pytest
from tests.support.dashboard_network import Network, network

from kinband.service.dashboard import decision
from kinband.service.operations import Operations, outlooks

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
def test_of_many_rewards_the_closest_are_weighed_while_somebody_decides(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    with network(tmp_path) as web:
        web.play(4)
        monkeypatch.setattr(outlooks, "MOST_ROWS", 0)
        monkeypatch.setattr(Operations.explain, "__kwdefaults__", {"most_rows": 5, "closest": True})
        with web.operations.looking() as read_model:
            last = str(read_model.station("1217").last)
        address = f"{path.format(last=last)}?evidence=1"
        monkeypatch.setattr(type(web.operations.ledger), "deciding", None)  # who looks takes no turn
        text = web.browser().get(address).text
        assert len(lent(text)) == 2
        assert ("Weighed from the 5 rewards that are closest to it" in text) == path.startswith("/decisions")


def test_the_guide_names_the_limits_that_hold() -> None:
    guide = (Path(__file__).parents[4] / "docs" / "serve.md").read_text()
    assert f"up to {outlooks.MOST_ROWS:,} rewards" in guide
    assert f"more than {decision.QUICK}," in guide
    assert f"the {outlooks.WEIGHED:,} that are closest" in guide
