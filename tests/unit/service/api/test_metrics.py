"""Figures for Prometheus: they count what happened, and calibration is what it says."""

from collections.abc import Iterator
from math import sqrt
from pathlib import Path

import pytest
from numpy.random import default_rng
from prometheus_client.parser import text_string_to_metric_families
from tests.support.http_service import STATIONS, Served, served

from kinband import ConfigurationSpace, Controller
from kinband.diagnostics.calibration import predictions_of
from kinband.service.api.metrics import calibration, recent_z


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Served]:
    with served(tmp_path) as found:
        yield found


def figures(service: Served) -> dict[tuple[str, ...], float]:
    """Every sample: its name and its labels, sorted, and its value."""
    answer = service.client("viewer").get("/metrics")
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/plain")
    return {
        (sample.name, *(f"{name}={value}" for name, value in sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
    }


def test_an_empty_network_has_figures_and_no_made_up_ones(service: Served) -> None:
    found = figures(service)
    assert found["kinband_stations",] == len(STATIONS)
    assert found["kinband_decisions_made_total",] == found["kinband_pending",] == found["kinband_stopped",] == 0
    assert ("kinband_recent_reward",) not in found
    assert ("kinband_calibration_inside_95_ratio",) not in found


def test_a_service_that_works_is_ready_and_tells_what_its_ledger_takes(service: Served, tmp_path: Path) -> None:
    found = figures(service)
    assert found["kinband_ready",] == 1
    files = [tmp_path / name for name in ("ledger.db", "ledger.db-wal")]
    assert found["kinband_ledger_bytes", "part=database"] == sum(file.stat().st_size for file in files)
    assert found["kinband_ledger_bytes", "part=archive"] == 0
    assert found["kinband_ledger_free_bytes",] > 0


def test_a_service_without_its_database_is_not_ready_and_asks_it_for_nothing(service: Served, tmp_path: Path) -> None:
    figures(service)
    (tmp_path / "ledger.db").rename(tmp_path / "gone.db")
    found = figures(service)
    assert found["kinband_ready",] == 0
    assert ("kinband_ledger_bytes", "part=database") not in found
    assert found["kinband_stations",] == len(STATIONS)


def test_decisions_refusals_and_rewards_are_counted(service: Served) -> None:
    operations = service.operations
    first = operations.ask({name: {"load": 0.5} for name in STATIONS}, allowed={"a": {"tilt": [8]}})
    refused = sum(bool(record.verdict and "range" in record.verdict.codes) for record in first)
    assert refused >= 1
    operations.tell({first[0].id: 0.25, first[1].id: 0.75})
    operations.ask({"a": {"load": 0.5}}, allowed={"a": {"tilt": [6]}})
    operations.stop(why="test")
    found = figures(service)
    assert found["kinband_decisions_made_total",] == 4
    assert found["kinband_told_total",] == 2
    assert found["kinband_pending",] == 2
    assert found["kinband_refusals", "code=range"] == refused
    assert found["kinband_stopped",] == 1
    assert found["kinband_recent_reward",] == pytest.approx((0.25 + 0.75) / 2)
    with operations.looking() as read_model:
        assert found["kinband_waiting",] == len(read_model.waiting())
        assert found["kinband_ledger_events",] == read_model.seq
        assert f"{int(found['kinband_ledger_head_checksum',]):012x}" == operations.ledger.head().checksum[:12]
    by_status = {key[1]: value for key, value in found.items() if key[0] == "kinband_decisions"}
    assert sum(by_status.values()) == 4
    assert by_status["status=waiting"] == found["kinband_waiting",]


def test_requests_are_timed_by_template_and_not_by_id(service: Served) -> None:
    client = service.client("operator")
    client.get("/v1/stations/a")
    client.get("/v1/stations/nobody")
    client.get("/no/such/path")
    client.request("BREW", "/v1/stations/a")
    found = figures(service)
    counts = {key[1:]: value for key, value in found.items() if key[0] == "kinband_request_seconds_count"}
    assert counts["method=GET", "route=/v1/stations/{name}", "status=200"] == 1
    assert counts["method=GET", "route=/v1/stations/{name}", "status=404"] == 1
    assert counts["method=GET", "route=none", "status=404"] == 1
    assert not any("nobody" in label or "BREW" in label for key in counts for label in key)


def test_calibration_agrees_with_an_audit_of_the_same_journal() -> None:
    rng = default_rng(11)
    controller = Controller(
        ConfigurationSpace(tilt=[2, 4, 6]), ["a", "b"], state={"load": (0, 1)}, noise=0.07, mean=0.4, seed=3
    )
    for _ in range(15):
        made = controller.ask_all({name: {"load": float(rng.random())} for name in ("a", "b")})
        for decision in made.values():
            controller.tell(decision.id, float(rng.normal(0.5, 0.6)), noise=float(rng.uniform(0.01, 0.2)))
    expected = predictions_of(controller).z
    found = recent_z(controller.journal, noise=controller.setup.noise)
    assert sorted(found) == pytest.approx(sorted(expected.tolist()))
    share, mean, rewards = (metric.samples[0].value for metric in calibration(found))
    assert rewards == 30
    assert share == pytest.approx(sum(abs(z) <= 1.959963985 for z in expected) / 30)
    assert mean == pytest.approx(expected.mean())
    assert len(recent_z(controller.journal, noise=0.07, last=4)) == 4


def test_calibration_goes_by_what_ran(service: Served) -> None:
    """In assist nothing was approved: the station ran on as before, and that is what the reward is held against."""
    [record] = service.operations.ask({"a": {"load": 0.5}}, allowed={"a": {"tilt": [4, 6]}})
    ran = next(other for other in record.decision.alternatives if other.arm == record.running)
    service.operations.tell({record.id: 0.1}, noise={record.id: 0.02})
    assert ran.mean is not None
    assert ran.std is not None
    z = (0.1 - ran.mean) / sqrt(ran.std**2 + service.operations.setup.noise + 0.02)
    assert figures(service)["kinband_calibration_mean_z",] == pytest.approx(z)
