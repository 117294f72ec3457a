"""The load test: percentiles against counting by hand, callers that send everything once, one controller for all."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest

from kinband.errors import BadInputError
from kinband.service.load.calling import Address, LoadError, all_at_once, one_by_one
from kinband.service.load.problem import load_controller, rewards_of, states_of, station_names
from kinband.service.load.statistics import Timings, percentile


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
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.seen.append((self.path, self.headers.get("Authorization", ""), body["n"]))
        answer = json.dumps({"got": body["n"]}).encode()
        self.send_response(503 if body["n"] < 0 else 201)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

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
