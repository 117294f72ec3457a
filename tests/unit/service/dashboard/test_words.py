"""Numbers, times and events in words."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from tests.support.dashboard_network import HOSTILE

from kinband.service.dashboard import rendering, text
from kinband.service.dashboard.text import KIND_WORDS, STATUS_WORDS, sentence
from kinband.service.ledger import Event
from kinband.service.ledger.events import KINDS
from kinband.service.operations import STATUSES
from kinband.service.paths import read

SPACE = {0: {"tilt": 2}, 1: {"tilt": 4}}


def event(kind: str, payload: dict[str, Any], *, actor: str = "anna", station: str = "3714") -> Event:
    said = json.dumps(payload)
    return Event(7, kind, "2026-11-20T10:00:00Z", actor, station, "d000001", None, None, None, said, "")


def test_every_kind_and_every_status_has_its_words() -> None:
    assert set(KIND_WORDS) == set(KINDS)
    assert set(STATUS_WORDS) == set(STATUSES)


@pytest.mark.parametrize(
    ("kind", "payload", "words"),
    [
        (
            "mode",
            {"mode": "assist", "stations": ["3714", "3715"], "comment": ""},
            "anna put 3714, 3715 into assist mode.",
        ),
        ("switch", {"event": {"event": "stopped"}, "comment": "outage"}, "anna stopped everything: “outage”."),
        ("switch", {"event": {"event": "frozen"}, "comment": ""}, "anna froze 3714."),
        (
            "applied",
            {"arm": 1, "before": 0, "by": "operator", "comment": "complaints"},
            "anna rolled 3714 back from tilt 2 to tilt 4: “complaints”.",
        ),
        ("applied", {"arm": 0, "before": 1, "by": "roll-back"}, "The guard rolled 3714 back from tilt 4 to tilt 2."),
        ("applied", {"arm": 9, "before": None, "by": "controller"}, "3714 was changed to configuration 9."),
        ("approval", {"approved": False, "comment": "no"}, "anna rejected d000001 of 3714: “no”."),
        ("outcome", {"entry": {"entry": "told", "reward": 0.5}}, "anna reported the reward 0.500 of 3714 for d000001."),
        ("station", {"entry": {"entry": "left"}}, "anna removed station 3714."),
        (
            "access",
            {"action": "revoked", "name": "nms", "role": "viewer"},
            "anna revoked the token nms with the role viewer.",
        ),
        ("tea break", {"at": "five"}, "anna recorded an event of kind tea break about 3714."),
    ],
)
def test_an_event_is_one_sentence(kind: str, payload: dict[str, Any], words: str) -> None:
    assert sentence(event(kind, payload), SPACE.get) == words


@pytest.mark.parametrize("kind", KINDS)
def test_an_event_whose_payload_holds_nothing_is_still_a_sentence(kind: str) -> None:
    said = sentence(event(kind, {}, actor=""), SPACE.get)
    assert said[0].isupper() or said.startswith("3714")
    assert said.endswith(".")


def test_what_is_not_known_is_a_dash_and_negative_zero_is_zero() -> None:
    assert text.figure(None) == text.figure(float("nan")) == text.DASH
    assert text.figure(-0.0001) == "0.000"
    assert text.signed(-0.0001) == text.signed(0.0001) == "0.000"


def test_times_are_shown_in_utc_whatever_they_came_in() -> None:
    assert text.time_text("2026-11-20T10:00:00+02:00") == "20 Nov 2026 08:00"
    assert 'datetime="2026-11-20T08:00:00Z"' in text.time_tag("2026-11-20T10:00:00+02:00")
    assert text.utc(datetime(2026, 1, 1)).tzinfo is UTC


@pytest.mark.parametrize("name", [*HOSTILE, ".", "...", "~", "~..", "/", "a?b#c", "a b+c"])
def test_names_survive_an_address(name: str) -> None:
    from urllib.parse import unquote, urljoin, urlsplit

    url = urljoin("https://kinband.example/", text.station_url(name, "freeze"))  # as a browser resolves it
    path = unquote(urlsplit(url).path)
    assert urlsplit(url).query == urlsplit(url).fragment == ""
    assert read(path.removeprefix("/stations/").removesuffix("/freeze")) == name


@pytest.mark.parametrize(
    "given", ["//evil.example", "https://evil.example", "/\\evil.example", "javascript:alert(1)", "", "/a\nb"]
)
def test_nobody_is_sent_elsewhere_after_signing_in(given: str) -> None:
    assert text.own_path(given) == "/"


def test_a_message_is_shown_only_to_the_session_it_was_for() -> None:
    value = rendering.packed(rendering.Flash("3 changes were “approved”.", "good"), "mine")
    assert rendering.unpacked(value, "mine") == rendering.Flash("3 changes were “approved”.", "good")
    assert rendering.unpacked(value, "yours") is None
    assert rendering.unpacked(value[:-1], "mine") is None
    assert rendering.unpacked("rubbish", "mine") is rendering.unpacked(None, "mine") is None
    assert len(rendering.packed(rendering.Flash("😀" * 5000), "mine")) < 4096
