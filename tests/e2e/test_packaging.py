"""What is in packaging/ fits the service: commands and options exist, ports and paths agree, figures are exported.

What other programs say of the files (hadolint, promtool, systemd-analyze, the schema of compose files) is looked at by
hand; of these hadolint comes with the extra `dev`.
"""

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import promql_parser
import pytest
import yaml
from tests.support.http_service import served

from kinband.cli import main
from kinband.service.api.app import schema_of
from kinband.service.api.routes import ROUTERS

ROOT = Path(__file__).parents[2]
PACKAGING = ROOT / "packaging"
COMPOSE: dict[str, Any] = yaml.safe_load((PACKAGING / "compose.yaml").read_text())
RULES: list[dict[str, Any]] = yaml.safe_load((PACKAGING / "alerts.yaml").read_text())["groups"][0]["rules"]
DASHBOARD: dict[str, Any] = json.loads((PACKAGING / "grafana.json").read_text())
CONTAINER = (PACKAGING / "Containerfile").read_text().replace("\\\n", " ")
UNIT = (PACKAGING / "kinband.service").read_text().replace("\\\n", " ")
VOLUME, PORT = "/var/lib/kinband", "8420"


def unit(key: str) -> list[str]:
    return re.findall(rf"^{key}=(.*)$", UNIT, re.MULTILINE)


def instructions(name: str) -> list[str]:
    return re.findall(rf"^\s*{name} (.*)$", CONTAINER, re.MULTILINE)


def check_command(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Every option of a command is one that its help names."""
    assert main([words[0], "--help"]) == 0
    known = set(re.findall(r"--[a-z][a-z-]*", capsys.readouterr().out))
    given = {word.partition("=")[0] for word in words if word.startswith("--")}
    assert given
    assert given <= known


# --- Container, compose file and unit -------------------------------------------------------------------------------


def test_the_container_file_passes_its_linter() -> None:
    hadolint = Path(sys.executable).with_name("hadolint")
    done = subprocess.run([hadolint, PACKAGING / "Containerfile"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")


def test_the_container_has_no_root_one_volume_and_nothing_that_was_not_hashed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert instructions("USER") == ["10001:10001"]
    assert instructions("VOLUME") == instructions("WORKDIR") == [VOLUME]
    assert instructions("EXPOSE") == [PORT]
    assert len(instructions("FROM")) == 2
    assert not any("/" in image for image in instructions("FROM"))  # no host of a registry
    for install in re.findall(r"pip install ([^&]*)", CONTAINER):
        assert "--require-hashes" in install or {"--no-deps", "--no-index"} <= set(install.split())
    copied = [word for line in instructions("COPY") if "--from" not in line for word in line.split()[:-1]]
    allowed = (PACKAGING / "Containerfile.dockerignore").read_text()
    assert all(f"!{word}" in allowed.splitlines() for word in copied)
    assert (ROOT / "requirements-service.txt").is_file()
    assert f"KINBAND_LEDGER={VOLUME}/ledger.db" in CONTAINER
    assert instructions("ENTRYPOINT") == ['["kinband"]']
    check_command(json.loads(instructions("CMD")[-1]), capsys)


def test_what_asks_for_the_health_of_the_container_asks_a_route_that_is_open_to_anybody() -> None:
    (address,) = re.findall(r"http://127\.0\.0\.1:(\d+)(/\w+)", CONTAINER)
    schema = schema_of([route for router in ROUTERS for route in router.routes])
    assert address[0] == PORT
    assert schema["paths"][address[1]]["get"]["security"] == []


def test_the_compose_file_names_what_there_is(capsys: pytest.CaptureFixture[str]) -> None:
    service, database = COMPOSE["services"]["kinband"], COMPOSE["services"]["database"]
    check_command(service["command"], capsys)
    assert service["read_only"]
    assert service["cap_drop"] == ["ALL"]
    assert service["build"]["dockerfile"] == "packaging/Containerfile"
    assert service["ports"] == [f"127.0.0.1:{PORT}:{PORT}"]
    assert f"kinband:{VOLUME}" in service["volumes"]
    assert re.fullmatch(r"postgresql://(\w+)@database/(\w+)", service["environment"]["KINBAND_LEDGER"])
    place = service["environment"]["KINBAND_LEDGER_PASSWORD_FILE"]
    assert place == database["environment"]["POSTGRES_PASSWORD_FILE"] == f"/run/secrets/{service['secrets'][0]}"
    assert "PASSWORD" not in "".join(name for name in database["environment"] if not name.endswith("_FILE"))
    for one in COMPOSE["services"].values():
        assert set(one["secrets"]) <= set(COMPOSE["secrets"])
        assert set(one["networks"]) <= set(COMPOSE["networks"])
        named = {place.partition(":")[0] for place in one["volumes"] if not place.startswith(".")}
        assert named <= set(COMPOSE["volumes"])


def test_the_unit_runs_a_command_that_exists_and_may_write_to_its_folder_alone(
    capsys: pytest.CaptureFixture[str],
) -> None:
    program, *words = shlex.split(unit("ExecStart")[0])
    assert program == "/opt/kinband/bin/kinband"
    check_command(words, capsys)
    assert words[words.index("--port") + 1] == PORT
    assert unit("ReadWritePaths") == unit("WorkingDirectory") == [VOLUME]
    assert unit("ProtectSystem") == ["strict"]
    assert unit("CapabilityBoundingSet") == [""]
    assert unit("RestartPreventExitStatus") == ["2"]  # bad input is no reason to try again


@pytest.mark.parametrize("name", sorted(path.name for path in PACKAGING.iterdir()))
def test_every_file_is_in_the_docs(name: str) -> None:
    page = (ROOT / "docs" / "deploy.md").read_text()
    assert f"packaging/{name.removesuffix('.dockerignore')}" in page


# --- Alerts and dashboard -------------------------------------------------------------------------------------------


def expressions() -> Iterator[str]:
    """Every query in PromQL, with variables of the dashboard in place."""
    yield from (rule["expr"] for rule in RULES)
    queries = [target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"]]
    queries += [note["expr"] for note in DASHBOARD["annotations"]["list"]]
    yield from (query.replace("$job", "kinband").replace("$instance", ".*") for query in queries)


@pytest.fixture(scope="module")
def scraped(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What Prometheus reads from a running service that has done a few things, and refused some."""
    with served(tmp_path_factory.mktemp("service")) as service:
        client = service.client("viewer")
        for path in ("/v1/mode", "/v1/nowhere", "/v1/stations"):
            client.get(path)
        return client.get("/metrics").text


@pytest.fixture(scope="module")
def exported(scraped: str) -> set[str]:
    """The names of everything that the service exports, also of what has no value yet."""
    found = set[str]()
    for name, kind in re.findall(r"^# TYPE (\w+) (\w+)$", scraped, re.MULTILINE):
        found |= {f"{name}{end}" for end in ("_bucket", "_count", "_sum")} if kind == "histogram" else {name}
    return found


@pytest.mark.parametrize("query", sorted(set(expressions())))
def test_queries_can_be_read_and_name_figures_that_are_exported(query: str, exported: set[str]) -> None:
    assert promql_parser.parse(query) is not None
    named = set(re.findall(r"\bkinband_\w+", query))
    assert named <= exported
    assert named or "up{" in query or query == "vector(0.95)"


def test_labels_of_queries_are_those_that_the_figures_have(scraped: str) -> None:
    by_prometheus, had = {"job", "instance"}, dict[str, set[str]]()
    for name, labels in re.findall(r"^(kinband_\w+)(?:\{(.*)\})? ", scraped, re.MULTILINE):
        had.setdefault(name, set()).update(re.findall(r'(\w+)="', labels))
    looked = 0
    for query in expressions():
        for name, labels in re.findall(r"\b(kinband_\w+)\{([^}]*)\}", query):
            given = set(re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", labels)) - by_prometheus
            assert given <= had.get(name, given), query  # what has no value yet shows no labels
            looked += bool(given and name in had)
        for by in re.findall(r"by \(([^)]*)\)", query):
            wanted = {one.strip() for one in by.split(",")} - by_prometheus
            assert wanted <= set[str]().union(*(had.get(n, wanted) for n in re.findall(r"\bkinband_\w+", query))), query
    assert looked


def test_alerts_say_what_to_do_and_dashboards_draw_every_panel_somewhere_else() -> None:
    assert len({rule["alert"] for rule in RULES}) == len(RULES)
    for rule in RULES:
        assert rule["labels"]["severity"] in ("critical", "warning", "info")
        assert rule["annotations"]["summary"]
        assert rule["annotations"]["action"].endswith(".")
    taken = [
        (place["x"] + i, place["y"] + j)
        for place in (panel["gridPos"] for panel in DASHBOARD["panels"])
        for i in range(place["w"])
        for j in range(place["h"])
    ]
    assert len(taken) == len(set(taken))
    assert max(x for x, _ in taken) < 24
    assert all(panel["description"] for panel in DASHBOARD["panels"])


def test_every_figure_of_the_service_is_watched_or_drawn(exported: set[str]) -> None:
    apart = {"kinband_ledger_head_checksum", "kinband_request_seconds_sum", "kinband_request_seconds_created"}
    told = set(re.findall(r"\bkinband_\w+", " ".join(expressions())))
    assert exported - told <= apart
