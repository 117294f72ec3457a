"""Traces: which spans a request has, where they go, and that nothing is there while nobody asks for them."""

import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from tests.support import serving
from tests.support.http_service import served

from kinband import ConfigurationSpace, Controller
from kinband.cli import main
from kinband.errors import BadInputError
from kinband.service.tracing import span, tracing

NAMED = {"OTEL_SERVICE_NAME": "kinband"}


class Kept(SpanExporter):
    """Spans, as they ended."""

    def __init__(self) -> None:
        self.spans: list[ReadableSpan] = []

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self.spans += spans
        return SpanExportResult.SUCCESS

    def tree(self) -> dict[str, str | None]:
        """The name of every span's parent by its name."""
        names = {one.context.span_id: one.name for one in self.spans if one.context is not None}
        return {one.name: None if one.parent is None else names.get(one.parent.span_id) for one in self.spans}

    def named(self, name: str) -> ReadableSpan:
        return next(one for one in self.spans if one.name == name)


def test_a_request_has_spans_for_what_it_does(tmp_path: Path) -> None:
    kept = Kept()
    with served(tmp_path) as service, tracing(NAMED, exporter=kept) as on:
        assert on
        client = service.client("operator")
        parent = {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}
        made = client.post("/v1/decisions", json={"states": {"a": {"load": 0.5}, "b": {"load": 0.1}}}, headers=parent)
        assert made.status_code == 201
        key = made.json()["decisions"][0]["id"]
        client.post("/v1/outcomes", json={"outcomes": [{"decision": key, "reward": 0.7}]})
        client.get("/v1/stations/nobody")
        for quiet in ("/healthz", "/readyz", "/metrics"):
            client.get(quiet)
    ask, tell = "POST /v1/decisions", "POST /v1/outcomes"
    tree = kept.tree()
    assert tree == {
        ask: None, "kinband.ask": ask, "kinband.decide": "kinband.ask", "kinband.review": "kinband.ask",
        "kinband.commit": "kinband.tell", tell: None, "kinband.tell": tell, "GET /v1/stations/{name}": None,
    }  # fmt: skip
    assert [one.name for one in kept.spans].count("kinband.commit") == 2
    server = kept.named(ask)
    assert server.parent is not None
    assert f"{server.parent.trace_id:032x}" == "0af7651916cd43dd8448eb211c80319c"
    said = dict(server.attributes or {})
    assert said.pop("kinband.request_id") == made.headers["x-request-id"]
    assert said == {"http.request.method": "POST", "http.route": "/v1/decisions", "http.response.status_code": 201}
    assert dict(kept.named("kinband.decide").attributes or {}) == {"kinband.stations": 2}


def test_spans_tell_that_something_failed_and_not_what_it_said() -> None:
    kept = Kept()
    with tracing(NAMED, exporter=kept), pytest.raises(BadInputError), span("ask"):
        raise BadInputError("the station 'secret' is not known")
    (found,) = kept.spans
    assert (found.status.is_ok, found.status.description) == (False, "BadInputError")
    assert "secret" not in found.to_json()
    assert found.events == ()


def test_nothing_is_imported_or_measured_while_nobody_asks_for_traces() -> None:
    with tracing({}) as on, span("ask"):
        assert not on
    program = (
        "import sys, kinband.service.running, kinband.service.starting; from kinband.service.tracing import tracing\n"
        "with tracing({}): pass\n"
        "assert not any(name.startswith(('opentelemetry.sdk', 'opentelemetry.exporter')) for name in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.parametrize(
    ("name", "value"), [("OTEL_TRACES_EXPORTER", "zipkin"), ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")]
)
def test_another_way_than_ours_is_refused_in_a_sentence(name: str, value: str) -> None:
    asked = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://localhost:4318", name: value}
    with pytest.raises(BadInputError, match=f"{name} is '{value}', and traces go out by"), tracing(asked):
        pass


def test_without_the_extra_the_service_runs_and_says_how_to_get_it(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.resources", None)
    with tracing({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://localhost:4318"}) as on:
        assert not on
    assert "pip install 'kinband[telemetry]'" in caplog.text


# --- Over the network -----------------------------------------------------------------------------------------------


@contextmanager
def collector() -> Iterator[tuple[str, list[ExportTraceServiceRequest]]]:
    """A receiver of OTLP over HTTP: its address and what has come."""
    came: list[ExportTraceServiceRequest] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            if self.path == "/v1/traces" and self.headers["content-type"] == "application/x-protobuf":
                came.append(ExportTraceServiceRequest.FromString(body))
            self.send_response(200)
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name of the library
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}", came
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("listens", [True, False])
def test_a_service_sends_its_spans_where_the_environment_says_and_ends_well_where_nobody_listens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], listens: bool
) -> None:
    made = Controller(ConfigurationSpace(tilt=[2, 4]), ["a"], state={"load": (0, 1)}, running={"tilt": 2}, mean=0.7)
    made.save(tmp_path / "state")
    ledger = str(tmp_path / "ledger.db")
    assert main(["token", "create", "--ledger", ledger, "--name", "nms", "--role", "operator"]) == 0
    token = capsys.readouterr().out.strip()
    with collector() as (url, came):
        endpoint = url if listens else "http://127.0.0.1:9"
        monkeypatch.setitem(serving.ENVIRONMENT, "OTEL_EXPORTER_OTLP_ENDPOINT", endpoint)
        with serving.served("--ledger", ledger, "--start", str(tmp_path / "state")) as service:
            with service.client(token) as client:
                client.ask({"a": {"load": 0.5}}, slot="10:00")
            code, log = service.end()
    assert code == 0
    assert token not in log
    assert "Traceback" not in log
    resources = [one for request in came for one in request.resource_spans]
    names = {found.name for one in resources for scope in one.scope_spans for found in scope.spans}
    expected = {"POST /v1/decisions", "kinband.ask", "kinband.decide", "kinband.review", "kinband.commit"}
    assert names >= expected if listens else not names
    services = {
        item.value.string_value for one in resources for item in one.resource.attributes if item.key == "service.name"
    }
    assert services == ({"kinband"} if listens else set())
