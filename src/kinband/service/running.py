"""The service as a process."""

import errno
import gc
import logging
import signal
import socket
import ssl
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from time import gmtime
from types import FrameType
from typing import TYPE_CHECKING, Any

import uvicorn
from fastapi import FastAPI

from kinband.errors import BadInputError, KinbandError
from kinband.service.access.redaction import install_redaction
from kinband.service.access.tokens import Tokens
from kinband.service.api import Limits, create_app
from kinband.service.connections import SECONDS, Seldom, patient
from kinband.service.dashboard import dashboard_router, error_page
from kinband.service.operations import Operations

if TYPE_CHECKING:
    from kinband.service.access.oidc import Provider

# --- Running the service: where it listens, what it logs, how it starts from a ledger, and how it ends --------------
#
# The socket is taken first, so that a port in use is found before anything is read. Operations are opened from the
# ledger, the application is put around them, and uvicorn serves it. On SIGTERM or SIGINT no new request is taken, those
# under way are answered, beliefs are stored for a quick start the next time, the ledger is closed, and the process ends
# well.

LEVELS = ("debug", "info", "warning", "error")
"""How much is logged."""

_LOG = logging.getLogger("kinband.service")
_SWITCH = 0.001  # seconds for which a thread keeps the interpreter while others want it: a stop hands it on ten times
_GRACE = 20  # seconds for requests under way when the service ends
_QUIET = ("httpx", "httpcore", "ncclient", "paramiko")  # libraries that tell more than we want to hear


@dataclass(frozen=True)
class Place:
    """Where the service listens.

    Attributes:
        host: A name or an address of this machine.
        port: The port; 0 for any that is free.
        tls_cert: The file with its certificate and those between it and the root; None for plain HTTP.
        tls_key: The file with the certificate's key.
        proxy_headers: Whether a proxy on this machine says from where requests come, and whether by https.
    """

    host: str = "127.0.0.1"
    port: int = 8420
    tls_cert: Path | None = None
    tls_key: Path | None = None
    proxy_headers: bool = False

    @property
    def loopback(self) -> bool:
        """Whether only this machine can reach it."""
        try:
            return self.host == "localhost" or ip_address(self.host).is_loopback
        except ValueError:
            return False

    def check(self, *, insecure_local: bool) -> None:
        """Refuse what cannot be, before anything is opened."""
        if insecure_local and not self.loopback:
            raise BadInputError(
                f"without access control the service is for this machine alone, not for {self.host!r:.80}: leave out "
                "--host or --insecure-local"
            )
        if (self.tls_cert is None) != (self.tls_key is None):
            raise BadInputError("https needs a certificate and its key: give both --tls-cert and --tls-key")
        if self.tls_cert is not None and self.tls_key is not None:
            _check_certificate(self.tls_cert, self.tls_key)

    def url(self, taken: socket.socket) -> str:
        """Return the address to visit, once the socket is taken."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http{'' if self.tls_cert is None else 's'}://{host}:{taken.getsockname()[1]}"


def _check_certificate(cert: Path, key: Path) -> None:
    for file in (cert, key):
        if not file.is_file():
            raise BadInputError(f"{file} cannot be read: there is no such file")
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(cert, key, password=lambda: b"")
    except (ssl.SSLError, OSError, ValueError) as error:
        raise BadInputError(
            f"{cert} and {key} are not a certificate and its key in PEM without a password: check both files"
        ) from error


def take_socket(place: Place) -> socket.socket:
    """Take the port, or say that somebody has it."""
    try:
        family, kind, number, _, address = socket.getaddrinfo(
            place.host, place.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except (OSError, UnicodeError) as error:
        raise BadInputError(f"there is no host {place.host!r:.80} here: give an address of this machine") from error
    taken = socket.socket(family, kind, number)
    try:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind(address)
        taken.listen()  # from here on the port is ours alone
    except OSError as error:
        taken.close()
        reason = (error.strerror or "refused").lower()
        why = "is taken" if error.errno == errno.EADDRINUSE else f"cannot be had ({reason})"
        raise BadInputError(
            f"port {place.port} of {place.host} {why}: end what runs there, or choose another with --port"
        ) from error
    return taken


def set_up_logs(level: str) -> None:
    """Log to standard error: time, level, who, the id of the request, what; no secrets, no query strings.

    Args:
        level: One of `LEVELS`.
    """
    handler = logging.StreamHandler()
    formatter = logging.Formatter(
        "%(asctime)s.%(msecs)03dZ %(levelname)s %(name)s %(request_id)s %(message)s", "%Y-%m-%dT%H:%M:%S"
    )
    formatter.converter = gmtime
    handler.setFormatter(formatter)
    handler.addFilter(Seldom())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    for name in _QUIET:
        logging.getLogger(name).setLevel(logging.WARNING)
    logging.getLogger("uvicorn.access").addFilter(_without_query)
    install_redaction()


def _without_query(record: logging.LogRecord) -> bool:
    """Cut the query string off the path of a line of uvicorn's access log."""
    if isinstance(record.args, tuple) and len(record.args) == 5:
        client, method, path, *rest = record.args
        record.args = (client, method, str(path).partition("?")[0], *rest)
    return True


def application(
    operations: Operations,
    *,
    tokens: Tokens | None,
    insecure_local: bool = False,
    limits: Limits | None = None,
    provider: "Provider | None" = None,
) -> FastAPI:
    """Return the service with its dashboard.

    Args:
        operations: What it serves.
        tokens: Who may come in; None only together with `insecure_local`.
        insecure_local: Whether there is no access control.
        limits: How much callers may ask for.
        provider: The identity provider that people may sign in through.
    """
    known = limits or Limits.usual()
    pages = dashboard_router(
        operations,
        tokens=tokens,
        insecure_local=insecure_local,
        failures=known.failures,
        requests=known.requests,
        provider=provider,
    )
    return create_app(
        operations,
        tokens=tokens,
        insecure_local=insecure_local,
        pages=pages,
        missing=error_page,
        limits=known,
        cacheable=("/static/",),
        provider=provider,
    )


class _Server(uvicorn.Server):
    """Says when it is ready and when it ends."""

    def __init__(self, config: uvicorn.Config, ready: Callable[[], None], ending: Callable[[], None]) -> None:
        super().__init__(config)
        self._ready, self._ending = ready, ending

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._ending()
        await super().shutdown(sockets)


def run(
    app: FastAPI,
    place: Place,
    taken: socket.socket,
    *,
    level: str = "info",
    ready: Callable[[], None] = lambda: None,
    ending: Callable[[], None] = lambda: None,
    patience: float = SECONDS,
) -> None:
    """Serve until SIGTERM or SIGINT comes; requests under way are answered before it returns.

    Args:
        app: What is served.
        place: Where.
        taken: The socket, from `take_socket`.
        level: How much is logged.
        ready: Called once requests are taken.
        ending: Called when no more are.
        patience: How many seconds a request may take to arrive.
    """
    set_up_logs(level)
    gc.collect()
    sys.setswitchinterval(_SWITCH)
    gc.freeze()  # what was read from the ledger stays: looking for garbage in it would stop everything for a while
    config = uvicorn.Config(
        app,
        http=patient(patience),
        ws="none",
        log_config=None,
        log_level=level,
        server_header=False,
        proxy_headers=place.proxy_headers,
        forwarded_allow_ips="127.0.0.1,::1",
        ssl_certfile=place.tls_cert,
        ssl_keyfile=place.tls_key,
        timeout_graceful_shutdown=_GRACE,
    )
    with _signals_end_well():
        _Server(config, ready, ending).run(sockets=[taken])


@contextmanager
def _signals_end_well() -> Iterator[None]:
    """Let signals that uvicorn has acted upon, and then raises again, do nothing more."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    signals = (signal.SIGINT, signal.SIGTERM)
    before: dict[signal.Signals, Any] = {number: signal.signal(number, _nothing) for number in signals}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _nothing(number: int, frame: FrameType | None) -> None:
    del number, frame


def store_beliefs(operations: Operations) -> None:
    """Store what is believed at the end, so that the next start is quick, and log the head."""
    operations.turns.end()
    try:
        operations.turns.snapshot()
        _LOG.info("the head of the ledger %s is %s", operations.ledger.name, operations.ledger.head())
    except KinbandError as error:  # the next start takes longer, that is all
        _LOG.warning("no snapshot could be stored at the end: %s", error)
