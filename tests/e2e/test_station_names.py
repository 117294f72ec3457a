"""Stations with names that need encoding, through a server of its own: API, client, pages, and a plain socket."""

import socket
from collections.abc import Iterator
from urllib.parse import quote, urlsplit

import httpx
import pytest
from tests.support.service_process import Options, ServiceProcess, make_tokens, service

from kinband.service.access.sessions import COOKIE
from kinband.service.client import KinbandClient
from kinband.service.paths import written

NAMES = [
    "plain", "a/b", "a/outlook", "/lead", "trail/", "a//b", "100%", "a%2Fb", "a b", "#1", "what?", "north & south", "+",
    ".", "..", "...", "~", "~x", "~..", "~~x", "x;y=1", "Straße 北", "a\\b", "<b>", "freeze", "\"quoted\"",
]  # fmt: skip


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServiceProcess]:
    folder = tmp_path_factory.mktemp("names")
    with service(Options(str(folder / "ledger.db"), names=NAMES, rails="{}", mode="assist"), folder) as found:
        yield found
        assert found.stop() == 0
        assert "Traceback" not in found.log_text()


@pytest.fixture(scope="module")
def token(process: ServiceProcess) -> str:
    return make_tokens(process.options.url, {"ada": "admin"})["ada"]


@pytest.fixture(scope="module")
def client(process: ServiceProcess, token: str) -> Iterator[KinbandClient]:
    with KinbandClient(process.base, token) as found:
        found.ask({name: {"load": 0.5} for name in NAMES}, slot="1")
        yield found


@pytest.mark.parametrize("name", NAMES)
def test_the_client_reaches_a_station_of_any_name(client: KinbandClient, name: str) -> None:
    assert client.station(name).station == name
    assert client.outlook(name).station == name
    assert [point.decision for point in client.history(name)] == [one.id for one in client.decisions(station=name)]
    assert client.freeze(name, "odd").frozen == "odd"
    assert [one.station for one in client.stations() if one.frozen] == [name]
    assert client.thaw(name).frozen is None


@pytest.mark.parametrize("name", NAMES)
def test_pages_link_to_a_station_of_any_name(process: ServiceProcess, token: str, name: str) -> None:
    with process.client() as browser:
        cookies = browser.post("/sign-in", data={"token": token}, headers={"Sec-Fetch-Site": "same-origin"}).headers
        session = {"Cookie": cookies["set-cookie"].partition(";")[0]}
        assert session["Cookie"].startswith(COOKIE)
        page = browser.get(f"/stations/{written(name)}", headers=session)
        assert page.status_code == 200
        shown = name.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace('"', "&#34;")
        assert f'<h1 class="name">{shown}</h1>' in page.text
        assert f'action="/stations/{written(name)}/freeze"' in page.text


def test_a_name_may_be_sent_by_anybody_who_encodes_it(process: ServiceProcess, token: str) -> None:
    with process.client(token) as plain:
        for name in ("a/b", "a/outlook", "100%", "a%2Fb", "Straße 北", "~x", "what?"):
            assert plain.get(f"/v1/stations/{quote(name, safe='')}").json()["station"] == name
        for path in ("a%2fb", "%61%2F%62"):  # other ways to encode the same
            assert plain.get(f"/v1/stations/{path}").json()["station"] == "a/b"
        assert plain.get("/v1/stations/a/b").status_code == 404
        assert plain.get("/v1/stations/a%2Fc").json()["detail"].startswith("there is no station 'a/c'")
        assert plain.get("/v1/stations/%2e%2e%2fplan").status_code == 404
        answer = plain.post("/v1/stations/a%2Fb")
        assert (answer.status_code, answer.headers["allow"]) == (405, "DELETE, GET, HEAD")


def test_encoded_dots_are_taken_as_they_come_where_nobody_resolves_them(process: ServiceProcess, token: str) -> None:
    where = urlsplit(process.base)
    head = f"GET /v1/stations/%2E%2E HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\nConnection: close\r\n\r\n"
    with socket.create_connection((where.hostname, where.port), timeout=20) as wire:
        wire.sendall(head.encode())
        said = b"".join(iter(lambda: wire.recv(65536), b""))
    assert b"200 OK" in said.splitlines()[0]
    assert b'"station":".."' in said


def test_a_station_of_an_odd_name_joins_and_leaves(client: KinbandClient) -> None:
    client.add_station("new/one?", running={"tilt": 4})
    assert client.station("new/one?").active
    assert client.remove_station("new/one?") == []
    assert not client.station("new/one?").active


def test_the_figures_do_not_count_names_as_routes(process: ServiceProcess, token: str) -> None:
    with httpx.Client(base_url=process.base, headers={"Authorization": f"Bearer {token}"}) as plain:
        plain.get("/v1/stations/a%2Fb").raise_for_status()
        figures = plain.get("/metrics").text
    assert 'route="/v1/stations/{name}"' in figures
    assert "a%2Fb" not in figures
    assert "a/b" not in figures
