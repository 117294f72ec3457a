"""Receivers of messages on this machine: a web server that answers as a test says, and a mail server."""

import datetime as dt
import json
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from socketserver import StreamRequestHandler, ThreadingTCPServer
from time import monotonic, sleep
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


@dataclass
class Receiver:
    """What came, and what is answered.

    Attributes:
        port: Where it listens.
        answers: Statuses of the next answers, "never" for none at all; 200 once there are no more.
        headers: Sent with every answer.
        came: Headers and body of requests, or the text of mails.
    """

    port: int = 0
    answers: list[int | str] = field(default_factory=list)
    headers: dict[str, str] = field(default_factory=dict)
    came: list[Any] = field(default_factory=list)
    taken: list[Any] = field(default_factory=list)
    ended: threading.Event = field(default_factory=threading.Event)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook/a-secret-path"

    def bodies(self) -> list[dict[str, Any]]:
        """What was taken of a web server, parsed."""
        return [json.loads(body) for _, body in self.taken]

    def wait(self, count: int, *, seconds: float = 60.0) -> None:
        """Wait until so many were taken."""
        end = monotonic() + seconds
        while len(self.taken) < count:
            assert monotonic() < end, f"{len(self.taken)} of {count} came: {self.came}"
            sleep(0.01)


@contextmanager
def web_receiver() -> Iterator[Receiver]:
    """A web server."""
    receiver = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            came = {name.lower(): value for name, value in self.headers.items()}, body
            receiver.came.append(came)
            answer = receiver.answers.pop(0) if receiver.answers else 200
            if answer == "never":
                receiver.ended.wait(30)
                return
            if answer == "slowly":
                receiver.ended.wait(1.5)
            status = answer if isinstance(answer, int) else 200
            if status < 300:
                receiver.taken.append(came)
            self.send_response(status)
            for name, value in receiver.headers.items():
                self.send_header(name, value)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    with _served(ThreadingHTTPServer(("127.0.0.1", 0), Handler), receiver):
        yield receiver


@contextmanager
def mail_receiver(*, certificate: Path | None = None, password: str = "") -> Iterator[Receiver]:
    """A mail server, with STARTTLS where it has a certificate."""
    receiver = Receiver()

    class Handler(StreamRequestHandler):
        def handle(self) -> None:
            if receiver.answers[:1] == ["never"]:
                receiver.ended.wait(30)
                return
            self.say("220 mail.test")
            try:
                while words := self.rfile.readline().decode().split():
                    self.obey(words)
                    if words[0].upper() == "QUIT":
                        return
            finally:
                if isinstance(self.connection, ssl.SSLSocket):
                    self.rfile.close()
                    self.connection.close()

        def say(self, line: str) -> None:
            self.wfile.write(f"{line}\r\n".encode())

        def obey(self, words: list[str]) -> None:
            match words[0].upper():
                case "EHLO":
                    offers = ["AUTH PLAIN"] if password and isinstance(self.connection, ssl.SSLSocket) else []
                    offers += ["STARTTLS"] if certificate and not isinstance(self.connection, ssl.SSLSocket) else []
                    lines = ["mail.test", *offers]
                    for number, line in enumerate(lines):
                        self.say(f"250{' ' if number == len(lines) - 1 else '-'}{line}")
                case "STARTTLS" if certificate is not None:
                    self.say("220 go on")
                    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
                    context.load_cert_chain(certificate)
                    self.connection = context.wrap_socket(self.connection, server_side=True)
                    self.rfile, self.wfile = self.connection.makefile("rb"), self.connection.makefile("wb", 0)
                case "AUTH":
                    self.say("235 well" if _password(words[2]) == password else "535 no")
                case "DATA":
                    self.take()
                case "QUIT":
                    self.say("221 well")
                case _:
                    self.say("250 well")

        def take(self) -> None:
            self.say("354 go on")
            lines: list[bytes] = []
            while (line := self.rfile.readline()) != b".\r\n":
                lines.append(line)
            text = b"".join(lines).decode()
            receiver.came.append(text)
            answer = receiver.answers.pop(0) if receiver.answers else 250
            if answer == 250:
                receiver.taken.append(text)
            self.say(f"{answer} said")

    server = ThreadingTCPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    with _served(server, receiver):
        yield receiver


def _password(given: str) -> str:
    from base64 import b64decode

    return b64decode(given).decode().split("\0")[2]


@contextmanager
def _served(server: Any, receiver: Receiver) -> Iterator[None]:
    receiver.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield
    finally:
        receiver.ended.set()
        server.shutdown()
        server.server_close()
        thread.join()


def free_port() -> int:
    """A port where nobody listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


def certificate_in(folder: Path) -> Path:
    """A certificate for localhost with its key, which is its own authority."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = dt.datetime.now(dt.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    file = folder / "localhost.pem"
    plain = serialization.NoEncryption()
    form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    file.write_bytes(made.public_bytes(serialization.Encoding.PEM) + key.private_bytes(*form, plain))
    return file
