"""Traces: how long the parts of a request take, as spans of OpenTelemetry.

Off unless the environment says where to send them, by the variables of OpenTelemetry's specification
(`OTEL_EXPORTER_OTLP_ENDPOINT`, `OTEL_TRACES_EXPORTER`, `OTEL_SDK_DISABLED`); while they are off none of its SDK is
imported, and a span costs a look at a variable. A span has numbers and the names of routes: neither people, stations
nor what an error says.
"""

import logging
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import wraps
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from kinband.errors import BadInputError
from kinband.service.access.middleware import Around
from kinband.version import __version__

if TYPE_CHECKING:
    from opentelemetry.sdk.trace.export import SpanExporter
    from opentelemetry.trace import Tracer

P = ParamSpec("P")
T = TypeVar("T")

_LOG = logging.getLogger("kinband.service")
_QUIET = ("/healthz", "/readyz", "/metrics", "/static/")  # what is asked all the time and tells nothing
_FLUSH = 3_000  # milliseconds for the last spans when the service ends
_NOTHING = nullcontext()
_tracer: "Tracer | None" = None


def span(name: str, **attributes: int | str) -> AbstractContextManager[Any]:
    """Return what measures a part of the work, as `kinband.` and its name."""
    return _NOTHING if _tracer is None else _measured(_tracer, f"kinband.{name}", attributes)


def traced(name: str) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Return a decorator that measures a function."""

    def around(act: Callable[P, T]) -> Callable[P, T]:
        @wraps(act)
        def measured(*args: P.args, **named: P.kwargs) -> T:
            with span(name):
                return act(*args, **named)

        return measured

    return around


@contextmanager
def _measured(tracer: "Tracer", name: str, attributes: Mapping[str, int | str]) -> Iterator[Any]:
    from opentelemetry.trace import Status, StatusCode

    said = {f"kinband.{key}": value for key, value in attributes.items()}
    with tracer.start_as_current_span(
        name, attributes=said, record_exception=False, set_status_on_exception=False
    ) as found:
        try:
            yield found
        except BaseException as error:
            found.set_status(Status(StatusCode.ERROR, type(error).__name__))
            raise


def wanted(environment: Mapping[str, str]) -> bool:
    """Return whether the environment asks for traces.

    Example:
        >>> wanted({}), wanted({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://localhost:4318"})
        (False, True)
        >>> wanted({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://localhost:4318", "OTEL_TRACES_EXPORTER": "none"})
        False
    """
    if environment.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return False
    exporter = environment.get("OTEL_TRACES_EXPORTER", "").strip().lower()
    if exporter:
        return exporter != "none"
    return any(environment.get(f"OTEL_EXPORTER_OTLP_{kind}ENDPOINT") for kind in ("", "TRACES_"))


@contextmanager
def tracing(environment: Mapping[str, str] = os.environ, *, exporter: "SpanExporter | None" = None) -> Iterator[bool]:
    """Have spans sent for a while, if the environment asks for it; give whether they are.

    Args:
        environment: Variables.
        exporter: Where spans go in place of what the environment says.
    """
    global _tracer
    if exporter is None and not wanted(environment):
        yield False
        return
    try:
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ModuleNotFoundError:
        _LOG.warning("no traces, though OTEL_ variables ask for them: pip install 'kinband[telemetry]'")
        yield False
        return
    own = {"service.version": __version__}
    if "OTEL_SERVICE_NAME" not in environment and "service.name" not in environment.get("OTEL_RESOURCE_ATTRIBUTES", ""):
        own["service.name"] = "kinband"
    provider = TracerProvider(resource=Resource.create(own))
    provider.add_span_processor(BatchSpanProcessor(exporter or _over_http(environment)))
    _tracer = provider.get_tracer("kinband", __version__)
    try:
        yield True
    finally:
        _tracer = None
        provider.force_flush(_FLUSH)
        provider.shutdown()


def _over_http(environment: Mapping[str, str]) -> "SpanExporter":
    """Return what sends spans by OTLP over HTTP, or refuse what else the environment asks for."""
    known = (("OTEL_TRACES_EXPORTER", "otlp"), ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf"),
             ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "http/protobuf"))  # fmt: skip
    for name, only in known:
        given = environment.get(name, "").strip().lower()
        if given and given != only:
            raise BadInputError(f"{name} is {given!r:.40}, and traces go out by {only} alone: leave it out")
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

    return OTLPSpanExporter()


class Traced(Around):
    """Measures requests, below the span of a caller who names one (W3C Trace Context)."""

    def __init__(self, app: ASGIApp) -> None:
        super().__init__(app)

    async def answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if _tracer is None or scope["path"].startswith(_QUIET):
            await self.app(scope, receive, send)
            return
        from opentelemetry.propagate import extract
        from opentelemetry.trace import SpanKind, Status, StatusCode

        method = scope["method"]
        with _tracer.start_as_current_span(
            method, extract(Headers(scope=scope)), SpanKind.SERVER, {"http.request.method": method},
            record_exception=False, set_status_on_exception=False,
        ) as found:  # fmt: skip

            async def noting(message: Message) -> None:
                if message["type"] == "http.response.start":
                    found.set_attribute("http.response.status_code", message["status"])
                    found.set_attribute("kinband.request_id", Headers(raw=message["headers"]).get("x-request-id", ""))
                    if message["status"] >= 500:
                        found.set_status(Status(StatusCode.ERROR))
                await send(message)

            try:
                await self.app(scope, receive, noting)
            finally:
                if route := getattr(scope.get("route"), "path", None):
                    found.set_attribute("http.route", route)
                    found.update_name(f"{method} {route}")
