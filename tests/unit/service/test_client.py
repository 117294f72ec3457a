"""The client: a method for everything, tries that never do a thing twice, and a token that is never shown."""

import math
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from tests.support.http_service import RAILS, STATIONS, TILTS, Served, served

from kinband.errors import BadInputError, KinbandError
from kinband.service.client import LONGEST, KinbandClient, ServiceError

Answer = httpx.Response | Exception | None


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Served]:
    with served(tmp_path) as found:
        yield found


@pytest.fixture
def client(service: Served) -> Iterator[KinbandClient]:
    with connect(service) as found:
        yield found


def connect(service: Served, role: str = "admin", transport: httpx.BaseTransport | None = None) -> KinbandClient:
    return KinbandClient(
        "http://kinband.test", service.texts[role], transport=transport or service.transport(), sleep=lambda _: None
    )


class Flaky(httpx.BaseTransport):
    """Answers some calls itself, before or after the service has heard of them."""

    def __init__(self, inner: httpx.BaseTransport, *, before: list[Answer] = [], after: list[Answer] = []) -> None:  # noqa: B006
        self.inner, self.before, self.after = inner, list(before), list(after)
        self.keys: list[str | None] = []

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        self.keys.append(request.headers.get("Idempotency-Key"))
        if self.before and (instead := self.before.pop(0)) is not None:
            return _given(instead)
        answer = self.inner.handle_request(request)
        if self.after and (instead := self.after.pop(0)) is not None:
            return _given(instead)
        return answer


def _given(answer: httpx.Response | Exception) -> httpx.Response:
    if isinstance(answer, Exception):
        raise answer
    return answer


def test_a_day_in_operation(client: KinbandClient, tmp_path: Path) -> None:
    made = client.ask(
        {name: {"load": 0.3} for name in STATIONS}, slot="ten", allowed={name: {"tilt": [2, 6]} for name in STATIONS}
    )
    assert [one.station for one in made] == STATIONS
    assert made[0].run == {"tilt": 4}
    assert made[0].verdict is not None
    assert made[0].verdict.outcome == "allowed"
    plan = client.plan()
    assert [one.id for one in plan] == [one.id for one in made]
    assert plan[0].expected is not None
    assert plan[0].expected.proposed == made[0].mean
    assert plan[0].expected.before is None  # what runs was not among what was allowed, so that it has no score
    assert plan[0].expected.gain == pytest.approx(0.0)  # but the gain over it is worked out: nothing is known of either
    [applied] = client.approve([made[0].id], comment="go")
    assert (applied.status, applied.run) == ("applied", made[0].proposed)
    [rejected] = client.reject([made[1].id])
    assert rejected.status == "rejected"
    assert client.applied(made[2].id, {"tilt": 8}).run == {"tilt": 8}
    told = client.tell({made[0].id: 0.5, made[1].id: 0.25}, noise={made[1].id: 0.02})
    assert [one.reward for one in told] == [0.5, 0.25]
    assert client.call_off(made[2].id).called_off
    assert client.correct(made[0].id, 0.75).reward == 0.75
    assert client.decision(made[0].id).reward == 0.75
    assert client.explain(made[0].id).text.startswith("a should run tilt=")
    assert client.roll_back("a", comment="complaints").running == {"tilt": 4}
    assert client.export("decisions", tmp_path / "d.csv").read_text().count("\n") == 1 + len(STATIONS)


def test_numbers_of_numpy_are_numbers(client: KinbandClient) -> None:
    states: Any = {"a": {"load": np.array([0.25, 0.75])[0]}, "b": {"load": np.float32(0.5)}}
    made = client.ask(states, running={"a": {"tilt": np.int64(2)}}, allowed={"b": {"tilt": np.array([2, 6])}})
    assert made[0].before == {"tilt": 2}
    rewards: Any = {made[0].id: np.float64(0.5), made[1].id: np.int32(1)}
    noise: Any = {made[0].id: np.float32(0.25)}
    assert [one.reward for one in client.tell(rewards, noise=noise)] == [0.5, 1]


@pytest.mark.parametrize(
    ("reward", "sentence"),
    [
        (math.nan, r"outcomes\[0\].reward is nan, which cannot be sent: leave out what is not known"),
        (np.float64("inf"), "reward is inf, which cannot be sent"),
        (np.float32("nan"), "reward is nan, which cannot be sent"),
        (1j, "reward is of type complex, which cannot be sent: give plain values"),
        (b"0.5", "reward is of type bytes"),
    ],
)
def test_what_is_no_number_is_refused_before_it_is_sent(client: KinbandClient, reward: Any, sentence: str) -> None:
    [made] = client.ask({"a": {"load": 0.5}})
    with pytest.raises(BadInputError, match=sentence):
        client.tell({made.id: reward})
    assert client.decision(made.id).open


def test_what_looks_wrong_with_states_is_logged(client: KinbandClient, caplog: pytest.LogCaptureFixture) -> None:
    client.ask({"a": {"load": 0.5}})
    assert caplog.text == ""
    client.ask({"b": {"load": 1e9}})
    assert "load of 'b' is 1e+09" in caplog.text


def test_stations_modes_and_switches(client: KinbandClient) -> None:
    assert client.add_station("d/1", similarity={"a": 0.5}) == pytest.approx({"a": 0.5, "b": 0.5, "=c": 0.5})
    assert [one.station for one in client.stations()] == [*STATIONS, "d/1"]
    assert client.station("a").running == {"tilt": 4}
    assert client.set_mode("autonomous", ["b"]).stations["b"] == "autonomous"
    assert client.mode().mode == "assist"
    assert client.freeze("a", "swap").frozen == "swap"
    assert client.thaw("a").frozen is None
    assert client.stop("storm").stopped == "storm"
    assert client.resume().stopped is None
    assert client.remove_station("=c") == []
    assert not client.station("=c").active


def test_what_there_is_to_look_at(client: KinbandClient) -> None:
    for slot in range(5):
        client.ask({"a": {"load": 0.1 * slot}, "b": {"load": 0.5}}, slot=f"s{slot}")
    assert [one.id for one in client.decisions(page=3)] == [f"d{number:06d}" for number in range(10, 0, -1)]
    assert {one.station for one in client.decisions(station="b", page=2)} == {"b"}
    assert [event.seq for event in client.events(order="oldest", page=7)][:3] == [1, 2, 3]
    assert {event.kind for event in client.events(kind=["decision", "verdict"])} == {"decision", "verdict"}
    assert [option.configuration["tilt"] for option in client.outlook("a").options] == TILTS
    assert len(client.history("a", last=3)) == 3
    assert client.similarity().matrix[0] == [1.0, 1.0, 1.0]
    assert [one["tilt"] for one in client.configurations()] == TILTS
    assert client.rails().text == RAILS


def busy(**headers: str) -> httpx.Response:
    return httpx.Response(503, headers=headers, json={"detail": "later"})


@pytest.mark.parametrize(
    "trouble",
    [
        lambda: httpx.ConnectError("refused"),
        lambda: httpx.ReadTimeout("slow"),
        busy,
        lambda: httpx.Response(429, headers={"Retry-After": "1"}),
        lambda: httpx.Response(502, text="<html>"),
    ],
)
def test_a_lost_answer_is_asked_for_again_and_nothing_is_done_twice(
    service: Served, trouble: Callable[[], httpx.Response | Exception]
) -> None:
    flaky = Flaky(service.transport(), before=[trouble(), None], after=[trouble()])
    client = connect(service, transport=flaky)
    [made] = client.ask({"a": {"load": 0.3}})  # fails on the way there, then on the way back
    assert made.id == "d000001"
    assert len(flaky.keys) == 3
    assert len({*flaky.keys}) == 1
    assert flaky.keys[0]
    flaky.keys, flaky.before, flaky.after = [], [None, None], [trouble()]
    client.tell({made.id: 0.5})
    assert len(flaky.keys) == 2
    kinds = [event.kind for event in client.events()]
    assert (kinds.count("decision"), kinds.count("outcome")) == (1, 1)


def test_every_call_has_a_key_of_its_own_and_yours_is_taken(service: Served) -> None:
    flaky = Flaky(service.transport())
    client = connect(service, transport=flaky)
    client.ask({"a": {"load": 0.3}})
    client.ask({"a": {"load": 0.3}})
    client.ask({"a": {"load": 0.3}}, key="mine")
    client.plan()
    assert flaky.keys[0] != flaky.keys[1]
    assert flaky.keys[2:] == ["mine", None]


def test_pauses_follow_what_the_service_says_and_grow(service: Served) -> None:
    pauses: list[float] = []
    trouble: list[Answer] = [
        busy(**{"Retry-After": "7"}),
        busy(),
        httpx.ConnectError("x"),
        busy(**{"Retry-After": "99"}),
    ]
    flaky = Flaky(service.transport(), before=trouble)
    client = KinbandClient(
        "http://kinband.test", service.texts["viewer"], transport=flaky, retries=4, sleep=pauses.append
    )
    client.mode()
    assert 7.0 <= pauses[0] <= 7.5
    assert 0.0 <= pauses[1] <= 1.0
    assert 0.0 <= pauses[2] <= 2.0
    assert pauses[3] == LONGEST


def test_it_gives_up_in_the_end_and_says_why(service: Served) -> None:
    flaky = Flaky(service.transport(), before=[busy() for _ in range(9)])
    with pytest.raises(ServiceError, match="later") as caught:
        connect(service, transport=flaky).mode()
    assert caught.value.status == 503
    assert len(flaky.keys) == 4
    gone = Flaky(service.transport(), before=[httpx.ConnectError("no route") for _ in range(9)])
    with pytest.raises(ServiceError, match=r"cannot be reached at http://kinband.test \(no route\)") as caught:
        connect(service, transport=gone).ask({"a": {"load": 0.3}})
    assert caught.value.status == 0


def test_what_is_refused_is_not_tried_again(service: Served) -> None:
    flaky = Flaky(service.transport())
    with pytest.raises(ServiceError) as caught:
        connect(service, "viewer", transport=flaky).stop()
    assert (caught.value.status, len(flaky.keys)) == (403, 1)
    assert "needs the role operator" in caught.value.detail
    assert caught.value.request_id
    assert isinstance(caught.value, KinbandError)
    with pytest.raises(ServiceError, match="404"):
        connect(service).decision("d9")
    odd = Flaky(service.transport(), before=[httpx.Response(418, text="teapot")])
    with pytest.raises(ServiceError, match="the service answered 418"):
        connect(service, transport=odd).mode()


def test_a_page_that_leads_elsewhere_is_not_followed(service: Served) -> None:
    page = {"decisions": [], "next": "https://evil.example/v1/decisions"}
    flaky = Flaky(service.transport(), before=[httpx.Response(200, json=page)])
    with pytest.raises(BadInputError, match="below /v1/"):
        list(connect(service, transport=flaky).decisions())


def test_the_token_is_never_shown(service: Served) -> None:
    client = connect(service)
    secret = service.texts["admin"]
    shown = [repr(client), str(client), repr(vars(client)), repr(client._http.headers)]
    with pytest.raises(ServiceError) as caught:
        client.decision("d9")
    shown += [repr(caught.value), str(caught.value)]
    assert not any(secret in text or secret.split("_", 2)[2] in text for text in shown)


@pytest.mark.parametrize(
    ("wrong", "word"),
    [({"base_url": "kinband.test"}, "base_url"), ({"retries": -1}, "retries"), ({"retries": True}, "retries")],
)
def test_bad_settings_are_refused(wrong: dict[str, object], word: str) -> None:
    with pytest.raises(BadInputError, match=word):
        KinbandClient(**{"base_url": "http://kinband.test", **wrong})  # type: ignore[arg-type]


def test_noise_belongs_to_a_reward(client: KinbandClient) -> None:
    with pytest.raises(BadInputError, match="not told a reward"):
        client.tell({"d1": 0.5}, noise={"d2": 0.1})


def test_importing_the_client_loads_nothing_of_the_service() -> None:
    heavy = ["sqlalchemy", "fastapi", "starlette", "prometheus_client", "kinband.service.api", "kinband.controller"]
    code = f"import sys, kinband.service.client; print([name for name in {heavy!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
