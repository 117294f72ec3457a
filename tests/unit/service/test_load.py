"""The load test: percentiles against counting by hand, callers that send everything once, one controller for all, pages
that are looked at as often as said.
"""

import json
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks.service.calling import Address, LoadError, Timings, all_at_once, one_by_one, percentile
from benchmarks.service.pages import AIM, EMPTY, Browser, News, Took, figures
from benchmarks.service.past import Past, record_past
from benchmarks.service.problem import load_controller, rewards_of, states_of, station_names

from kinband.errors import BadInputError
from kinband.service.ledger import Ledger


@pytest.mark.parametrize("share", [0.07, 0.5, 0.9, 0.99, 1.0])
@pytest.mark.parametrize("count", [1, 2, 7, 99, 100, 101, 250])
def test_a_percentile_is_the_least_time_that_so_many_do_not_exceed(share: float, count: int) -> None:
    times = np.random.default_rng([count, round(100 * share)]).exponential(0.3, count).tolist()
    hundredths = round(100 * share)  # counted in whole numbers, as by hand
    enough = [t for t in times if 100 * sum(other <= t for other in times) >= hundredths * count]
    assert percentile(times, share) == min(enough)


@pytest.mark.parametrize(("times", "share"), [([], 0.5), ([0.3], 0.0), ([0.3], 1.2), ([0.3], -0.1)])
def test_percentiles_of_nothing_are_refused(times: list[float], share: float) -> None:
    with pytest.raises(BadInputError, match="a percentile is of some times"):
        percentile(times, share)


def test_two_times_of_measuring_are_taken_together() -> None:
    both = Timings((0.25, 0.5), 0.8).and_then(Timings((4.0,), 4.2))
    assert (both.p50, both.p99) == (0.5, 4.0)
    assert both.rate == pytest.approx(3 / 5.0)
    assert both.each * both.rate == pytest.approx(1.0)


class Echo(BaseHTTPRequestHandler):
    """Notes what it is sent, and refuses what says so."""

    protocol_version = "HTTP/1.1"
    seen: list[tuple[str, str, int]] = []  # noqa: RUF012

    def do_POST(self) -> None:
        sent = self.rfile.read(int(self.headers["Content-Length"]))
        if self.path == "/sign-in":
            self._let_in(sent)
            return
        body = json.loads(sent)
        if "/v1/" in self.path:
            self._answer_as_a_service(body)
            return
        self.seen.append((self.path, self.headers.get("Authorization", ""), body["n"]))
        answer = json.dumps({"got": body["n"]}).encode()
        self.send_response(503 if body["n"] < 0 else 201)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def _let_in(self, sent: bytes) -> None:
        good = sent == b"token=kb_x"
        self.send_response(303 if good else 401)
        if good:
            self.send_header("Set-Cookie", "session=s3; Path=/; Secure")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def _answer_as_a_service(self, body: Any) -> None:
        """Make a decision for every station asked for, by numbers that go on; take rewards by them."""
        made = [{"id": f"d{number}"} for number, _ in enumerate(body.get("states", ()), 1)]
        told = [int(outcome["decision"][1:]) for outcome in body.get("outcomes", ())]
        self.seen.append((self.path, "", told[0] if told else len(made)))
        answer = json.dumps({"decisions": made}).encode()
        self.send_response(201)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def do_GET(self) -> None:
        self.seen.append((self.path, self.headers.get("Cookie", ""), 0))
        self.send_response(404 if "nowhere" in self.path else 200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def echo() -> Iterator[Address]:
    Echo.seen = []
    with ThreadingHTTPServer(("127.0.0.1", 0), Echo) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield Address(server.server_address[1], "kb_x")
        server.shutdown()
        thread.join()


def test_every_body_is_sent_once_and_timed(echo: Address) -> None:
    timings = one_by_one(echo, "/one", [{"n": n} for n in range(7)])
    assert [n for *_, n in Echo.seen] == list(range(7))
    assert set(Echo.seen[0][:2]) == {"/one", "Bearer kb_x"}
    assert len(timings.times) == 7
    assert sum(timings.times) <= timings.elapsed


def test_callers_at_once_send_their_shares_each_in_its_order(echo: Address) -> None:
    shares = [[{"n": 10 * caller + n} for n in range(3)] for caller in range(5)]
    timings = all_at_once(echo, "/many", shares)
    sent = [n for *_, n in Echo.seen]
    assert sorted(sent) == sorted(body["n"] for share in shares for body in share)
    for caller in range(5):
        assert [n for n in sent if n // 10 == caller] == [10 * caller + n for n in range(3)]
    assert len(timings.times) == 15
    assert max(timings.times) <= timings.elapsed


def test_an_answer_that_is_no_success_ends_the_measurement(echo: Address) -> None:
    with pytest.raises(LoadError, match="POST /one was answered 503"):
        one_by_one(echo, "/one", [{"n": -3}])
    with pytest.raises(LoadError, match="503"):
        all_at_once(echo, "/many", [[{"n": 4}], [{"n": -4}]])


def test_two_processes_would_ask_the_same_controller() -> None:
    names, rng = station_names(5), np.random.default_rng(4)
    states = states_of(names, rng)
    one, other = (load_controller(9, stations=5, rows=60) for _ in range(2))
    assert [d.arm for d in one.ask_all(states).values()] == [d.arm for d in other.ask_all(states).values()]
    assert {outcome["decision"] for outcome in rewards_of(["d1", "d2"], rng)} == {"d1", "d2"}


def test_somebody_who_has_signed_in_looks_at_pages(echo: Address) -> None:
    browser = Browser(echo)
    with closing(browser):
        assert min(browser.look("/plan"), browser.look("/audit?kind=mode")) > 0
        with pytest.raises(LoadError, match="GET /nowhere was answered 404"):
            browser.look("/nowhere")
    looked = [(path, cookie) for path, cookie, _ in Echo.seen]
    assert looked == [(path, "session=s3") for path in ("/plan", "/audit?kind=mode", "/nowhere")]
    with pytest.raises(LoadError, match="signing in was answered 401"):
        Browser(Address(echo.port, "kb_y"))


def test_pages_are_held_against_the_empty_one_of_the_same_kind_of_look() -> None:
    rng = np.random.default_rng(3)
    times = {name: Took(*(rng.exponential(0.3, 21).tolist() for _ in range(3))) for name in (EMPTY, "plan", "audit")}
    lines = {line.name: line for line in figures(times)}
    assert len(lines) == 3 * 3 * 2
    for name, took in times.items():
        for which, seconds in zip(Took._fields, took, strict=True):
            middle, slow = (lines[f"pages.{name}.{which}.{end}"] for end in ("p50", "p95"))
            assert middle.seconds == sorted(seconds)[10]  # 11 of 21 do not exceed it
            assert slow.seconds == sorted(seconds)[19]  # 20 of 21: the least that are 95 of 100
            if name != EMPTY:
                empty = sorted(getattr(times[EMPTY], which))
                assert (middle.reference_seconds, slow.reference_seconds) == (empty[10], empty[19])
                assert (middle.aim, slow.aim) == (AIM if which != "work" else "", "")


def test_without_processor_times_there_are_no_lines_of_them() -> None:
    times = {name: Took([0.1, 0.2], [0.1, 0.1], [float("nan")] * 2) for name in (EMPTY, "plan")}
    assert {line.name.split(".")[2] for line in figures(times)} == {"first", "again"}
    assert np.isnan(Address(80).worked())


def test_every_reward_of_a_slot_is_told_once_before_all_are_asked_for_again(echo: Address) -> None:
    past = Past(stations=4)
    news = News(echo, past)
    for _ in range(9):
        news.come()
    asked = [told for path, _, told in Echo.seen if path == "/v1/decisions"]
    told = [told for path, _, told in Echo.seen if path == "/v1/outcomes"]
    assert asked == [4, 4, 4]
    assert sorted(told[:4]) == sorted(told[4:8]) == [1, 2, 3, 4]


def test_a_past_holds_what_pages_show(tmp_path: Path) -> None:
    past, said = Past(stations=12, slots=9, seed=4), list[str]()
    found = record_past(str(tmp_path / "ledger.db"), past, tick=said.append)
    assert (len(found.stations), len(found.decisions)) == (12, 12 * 9)
    with closing(Ledger.open(tmp_path / "ledger.db", create=False)) as ledger:
        assert ledger.verify() == found.events
        kinds = Counter(event.kind for event in ledger.read())
    assert (kinds["decision"], kinds["verdict"], kinds["outcome"]) == (12 * 9, 12 * 9, 12 * 8)
    assert min(kinds["applied"], kinds["approval"], kinds["mode"], kinds["switch"], kinds["rails"]) > 0
    assert said
