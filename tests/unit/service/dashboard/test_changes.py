"""What a change did: judged by stations that did not change where there are enough, else before against after."""

import re
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest
from tests.support.dashboard_network import Network, network
from tests.unit.service.dashboard.test_pages import read, shown

from kinband.service.dashboard.changes import change, effects_of, plain_difference
from kinband.service.dashboard.rows import names_of
from kinband.stats import Estimate

NAMES = [f"s{i:02}" for i in range(14)]


@pytest.fixture
def web(tmp_path: Path) -> Iterator[Network]:
    """A network in which nobody changes, but for `s03` in the slot 40, which then earns 0.1 less."""
    with network(tmp_path, NAMES, mode="shadow") as made:
        yield made


def live_on(web: Network, *, slots: int, changed: int, loss: float, others: bool = False) -> None:
    """Let slots pass: `s03` is reported to run something else from one on, with others or alone."""
    rng = np.random.default_rng(7)
    for number in range(slots):
        web.clock.now += timedelta(hours=1)
        who = NAMES if others else ["s03"]
        made = web.operations.ask({name: {"load": 0.5} for name in NAMES}, slot=web.clock.now.isoformat(), actor="nms")
        if number == changed:
            for one in made:
                if one.station in who:
                    web.operations.applied(one.id, {"threshold_dbm": -98}, actor="nms")
        hour = 0.1 * np.sin(number / 4)
        rewards = {
            one.id: 0.6 + hour + 0.01 * rng.normal() - (loss if one.station in who and number >= changed else 0.0)
            for one in made
        }
        web.operations.tell(rewards, actor="nms")


def made_at(web: Network) -> str:
    with web.operations.looking() as read_model:
        (one,) = (c for c in read_model.changes("s03") if c.arm != c.before)
    return one.at.isoformat()


def test_a_change_is_judged_by_stations_that_did_not_change(web: Network) -> None:
    live_on(web, slots=44, changed=30, loss=0.1)
    found = change(web.operations, "s03", made_at(web))
    assert found["verdict"] is not None
    assert found["verdict"].gain.low < -0.1 < found["verdict"].gain.high < 0.0
    assert found["judged"].before == 30
    assert found["judged"].after == 14
    words = " ".join(" ".join(shown(web, f"/changes?station=s03&at={made_at(web).replace('+', '%2B')}").texts).split())
    assert re.search(
        r"Judged against \d+ stations? that ran one configuration over 30 slots before and 14 after", words
    )
    assert "without the change" in words


def test_where_all_change_at_once_there_is_the_plain_difference_and_why(web: Network) -> None:
    live_on(web, slots=44, changed=30, loss=0.1, others=True)
    found = change(web.operations, "s03", made_at(web))
    assert found["verdict"] is None
    assert "to compare with" in found["why"]
    assert found["slots"] == (24, 14)
    with web.operations.looking() as read_model:
        rewards = [one.reward or 0.0 for one in read_model.points("s03")]
    assert found["before"] == pytest.approx(np.mean(rewards[6:30]))
    assert found["after"] == pytest.approx(np.mean(rewards[30:44]))
    assert found["difference"].value == pytest.approx(found["after"] - found["before"])
    words = " ".join(" ".join(shown(web, f"/changes?station=s03&at={made_at(web).replace('+', '%2B')}").texts).split())
    assert "No comparison with other stations" in words
    assert "has the hour of the day" in words


def test_a_change_of_just_now_has_nothing_after_it_yet(web: Network) -> None:
    live_on(web, slots=6, changed=5, loss=0.0)
    (made,) = web.operations.ask({"s04": {"load": 0.5}}, slot="now", actor="nms")
    web.operations.applied(made.id, {"threshold_dbm": -99}, actor="nms")
    for station in ("s03", "s04"):
        with web.operations.looking() as read_model:
            at = read_model.changes(station)[-1].at.isoformat()
        found = change(web.operations, station, at)
        assert found["verdict"] is None
        assert found["why"]
        shown(web, f"/changes?station={station}&at={at.replace('+', '%2B')}")


def test_the_page_of_a_station_tells_what_its_changes_did_and_leads_to_each(web: Network) -> None:
    live_on(web, slots=9, changed=6, loss=0.1)
    client = web.browser()
    page = client.get("/stations/s03").text
    part = page[page.index("effects-title") : page.index("last-title")]
    (link,) = re.findall(r'href="(/changes[^"]+)"', part)
    answer = client.get(link.replace("&amp;", "&"))
    assert answer.status_code == 200
    read(answer.text)
    with web.operations.looking() as read_model:
        points, changes = read_model.points("s03"), read_model.changes("s03")
    (effect,) = effects_of("s03", points, changes, names_of(web.operations), most=8)
    assert effect.difference.value == pytest.approx((effect.after or 0) - (effect.before or 0))
    assert "effects-title" not in client.get("/stations/s04").text


def test_a_change_that_never_was_is_a_page_with_a_sentence(web: Network) -> None:
    for path in ("/changes", "/changes?station=nobody&at=now", "/changes?station=s03&at=%3Cscript%3E"):
        answer = web.browser().get(path)
        assert answer.status_code == 404, path
        assert "<script>" not in answer.text.replace('<script src="/static', "")
        read(answer.text)


def test_the_plain_difference_is_that_of_welch_with_the_fewer_slots() -> None:
    from scipy.stats import t

    a, b = [0.5, 0.6, 0.4, 0.55], [0.7, 0.75, 0.8]
    found = plain_difference(a, b)
    reach = t.ppf(0.975, 2) * np.sqrt(np.var(a, ddof=1) / 4 + np.var(b, ddof=1) / 3)
    assert (found.value, found.low, found.high) == pytest.approx((0.2375, 0.2375 - reach, 0.2375 + reach))
    assert not plain_difference([0.5], [0.6]).known
    assert plain_difference([0.5], [0.6]).value == pytest.approx(0.1)
    assert np.isnan(plain_difference([], [0.6]).value)
    assert isinstance(found, Estimate)
