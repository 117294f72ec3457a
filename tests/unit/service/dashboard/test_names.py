"""What people call the reward, knobs and features is declared once, on record, and said on every page."""

import re
from pathlib import Path

import pytest
from tests.support.dashboard_network import Clock, Network, network
from tests.unit.service.dashboard.test_pages import PAGES, read, shown

from kinband.cli.serve import _names
from kinband.errors import BadInputError
from kinband.service.dashboard.rows import Names
from kinband.service.ledger import Ledger
from kinband.service.operations import Operations
from kinband.service.operations.records import Called
from kinband.space import ConfigurationSpace

CALLED = {
    "reward": Called("good-user share", "%"),
    "threshold_dbm": Called("HO threshold", "dBm"),
    "load": Called("cell load"),
}


def with_names(web: Network, names: dict[str, Called]) -> Network:
    """The same network after a start that gave names."""
    operations = Operations.open(web.operations.ledger, names=names, clock=web.clock, actor="service")
    return Network(operations, web.clock)


def test_pages_call_things_as_people_do_and_nowhere_by_the_names_of_columns(tmp_path: Path) -> None:
    rails = "knobs: {threshold_dbm: {step: 1}}\n"
    with network(tmp_path, [f"s{i}" for i in range(5)], rails=rails, mode="autonomous") as plain:
        plain.play(2)
        web = with_names(plain, CALLED)
        ids = web.play(4)
        web.operations.freeze("s3", actor="anna")
        with web.operations.looking() as read_model:
            refused = next(one.id for one in read_model.latest() if one.verdict is not None and one.verdict.refusals)
        pages = [*PAGES, "/stations/s1", f"/decisions/{ids[0]}", f"/decisions/{refused}"]
        told = {path: " ".join(" ".join(shown(web, path).texts).split()) for path in pages if path != "/help"}
        for path, words in told.items():
            assert "threshold_dbm" not in words.replace("threshold_dbm is HO threshold", ""), path
        assert re.search(r"HO threshold −\d+ dBm", told["/stations/s1"])
        assert "Mean good-user share" in told["/"]
        assert "Recent good-user share" in told["/stations"]
        assert "cell load" in told["/stations/s1"]
        said = " ".join(shown(web, "/audit?kind=names").texts)
        assert "ervice said what things are called: reward is good-user share, %; threshold_dbm is HO threshold" in said
        assert re.search(r"HO threshold from -\d+ to -\d+ is further", told[f"/decisions/{refused}"])


def test_names_stay_through_restarts_and_snapshots_until_others_are_given(tmp_path: Path) -> None:
    with network(tmp_path) as plain:
        assert plain.operations.read_model.called == {}
        web = with_names(plain, CALLED)
        web.play(1)
        web.operations.turns.snapshot()
        assert with_names(web, {}).operations.read_model.called == CALLED
        assert len(web.operations.events(kinds=["names"])) == 1
        assert len(with_names(web, CALLED).operations.events(kinds=["names"])) == 1
        other = CALLED | {"load": Called("users")}
        assert with_names(web, other).operations.read_model.called == other
        assert len(web.operations.events(kinds=["names"])) == 2
    ledger = Ledger.open(tmp_path / "ledger.db", clock=Clock())
    try:
        assert Operations.open(ledger, clock=Clock()).read_model.called == other
    finally:
        ledger.close()


@pytest.mark.parametrize("text", ["", ",dBm", "x" * 41, "ok, " + "u" * 13, "two\nlines"])
def test_a_name_is_short_and_on_one_line(text: str) -> None:
    with pytest.raises(BadInputError, match="a name takes 1 to 40"):
        Called.parse(text)


def test_a_name_for_what_there_is_not_says_what_there_is(tmp_path: Path) -> None:
    with network(tmp_path) as web, pytest.raises(BadInputError, match="no 'tilt'") as caught:
        with_names(web, {"tilt": Called("Tilt")})
    assert "threshold_dbm" in str(caught.value.hint)
    assert web.operations.events(kinds=["names"]) == []


def test_names_that_are_markup_are_only_text(tmp_path: Path) -> None:
    evil = Called("<script>alert(1)</script>", "<b>")
    with network(tmp_path) as plain:
        web = with_names(plain, dict.fromkeys(CALLED, evil))
        web.play(2)
        for path in (*PAGES, "/stations/3714"):
            text = web.browser().get(path).text
            assert "<script>alert" not in text
            read(text)


def test_the_command_takes_names_and_the_log_says_what_the_reward_is() -> None:
    given = ["tilt=Tilt, °", " reward = Good users "]
    assert _names(given, {"reward": "good_share"}) == {"tilt": Called("Tilt", "°"), "reward": Called("Good users")}
    assert _names([], {"reward": "good_share"}) == {"reward": Called("good_share")}
    assert _names([], {"reward": "reward"}) == _names([], {}) == {}
    with pytest.raises(BadInputError, match="COLUMN=NAME"):
        _names(["tilt"], {})


def test_sentences_name_whole_knobs_only() -> None:
    space = ConfigurationSpace(tilt=[2, 4], tilt_max=[8, 9], scheduler=["pf", "rr-1"])
    names = Names(space, {"tilt": Called("Tilt", "°"), "scheduler": Called("Sched.")})
    for text, said in {
        "tilt=-2.5: no rail forbids it": "Tilt −2.5\xa0°: no rail forbids it",
        "from tilt=2, scheduler=rr-1.": "from Tilt 2\xa0°, Sched. rr−1.",
        "tilt_max=8 and tilt from 2 to 4": "tilt_max=8 and Tilt from 2 to 4",
        "tiltable, my_tilt, a.tilt": "tiltable, my_tilt, a.tilt",
        "": "",
    }.items():
        assert names.words(text) == said
    assert Names(space).words("tilt=2") == "tilt=2"
    assert names.kpi == Called("reward")
