"""A small identity provider on loopback: OpenID Connect as far as the service uses it, with switches for faults.

It lets in whoever it was told last (`person`), without asking. `spoil` changes claims of the next tokens, `header` what
is before them, `signs` the key.
"""

import json
import threading
from base64 import b64decode, urlsafe_b64encode
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from time import time
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from joserfc import jwt
from joserfc.jwk import RSAKey

CLIENT, SECRET, AUDIENCE = "kinband", "a secret of the client", "https://kinband.example/api"


def new_key(name: str) -> RSAKey:
    return RSAKey.generate_key(2048, {"kid": name, "use": "sig", "alg": "RS256"})


_first_key = cache(lambda: new_key("first"))  # one of this size takes a while to make


@dataclass
class IdentityProvider:
    """What it is about to say, and what it was asked.

    Attributes:
        url: Its issuer.
        person: Claims of whoever signs in.
        keys: Those that it publishes; it signs with the last.
        spoil: Changes the claims of tokens.
        header: What is added to the header of tokens.
        signs: Another key to sign with.
        refuses: An error in place of a code.
        asked: Paths that were asked for, in order.
        forms: What was sent to the token endpoint.
    """

    url: str
    person: dict[str, Any]
    now: Callable[[], float] = time
    keys: list[RSAKey] = field(default_factory=lambda: [_first_key()])
    spoil: dict[str, Any] = field(default_factory=dict)
    header: dict[str, Any] = field(default_factory=dict)
    signs: RSAKey | None = None
    unsigned: bool = False
    refuses: str = ""
    broken: bool = False
    asked: list[str] = field(default_factory=list)
    forms: list[dict[str, str]] = field(default_factory=list)
    codes: dict[str, dict[str, str]] = field(default_factory=dict)

    def token(self, **claims: Any) -> str:
        """Return a token with claims, signed by the newest key unless it is told otherwise."""
        now = int(self.now())
        said = {"iss": self.url, "aud": CLIENT, "iat": now, "exp": now + 300, **self.person, **claims, **self.spoil}
        said = {name: value for name, value in said.items() if value is not None}
        if self.unsigned:
            parts = ({"alg": "none"}, said)
            return ".".join(urlsafe_b64encode(json.dumps(one).encode()).rstrip(b"=").decode() for one in parts) + "."
        key = self.signs or self.keys[-1]
        return jwt.encode({"alg": "RS256", "kid": self.keys[-1].kid, **self.header}, said, key)

    def access_token(self, **claims: Any) -> str:
        return self.token(aud=AUDIENCE, **claims)

    def document(self) -> dict[str, Any]:
        return {
            "issuer": self.url,
            "authorization_endpoint": f"{self.url}/authorize",
            "token_endpoint": f"{self.url}/token",
            "jwks_uri": f"{self.url}/keys",
            "end_session_endpoint": f"{self.url}/out",
            "response_types_supported": ["code"],
            "token_endpoint_auth_methods_supported": ["client_secret_basic"],
        }

    def authorize(self, asked: dict[str, str]) -> str:
        """Return where a browser goes back to."""
        if self.refuses:
            said = {"error": self.refuses, "state": asked["state"]}
        else:
            code = f"code-{len(self.codes)}"
            self.codes[code] = asked
            said = {"code": code, "state": asked["state"], "iss": self.url}
        return f"{asked['redirect_uri']}?{urlencode(said)}"

    def exchange(self, form: dict[str, str], authorization: str) -> tuple[int, dict[str, Any]]:
        """Answer a code, which counts once, with its verifier and the client's secret."""
        self.forms.append(form)
        asked = self.codes.pop(form.get("code", ""), None)
        given = b64decode(authorization.removeprefix("Basic ")).decode()
        if given != f"{CLIENT}:{SECRET}":
            return 401, {"error": "invalid_client"}
        if asked is None or form["redirect_uri"] != asked["redirect_uri"]:
            return 400, {"error": "invalid_grant"}
        challenge = urlsafe_b64encode(sha256(form["code_verifier"].encode()).digest()).rstrip(b"=").decode()
        if asked["code_challenge_method"] != "S256" or challenge != asked["code_challenge"]:
            return 400, {"error": "invalid_grant"}
        answer = {"access_token": "opaque", "token_type": "Bearer", "id_token": self.token(nonce=asked["nonce"])}
        return 200, answer


class _Handler(BaseHTTPRequestHandler):
    provider: IdentityProvider

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        said = {name: values[0] for name, values in parse_qs(parts.query).items()}
        self.provider.asked.append(self.path)
        if self.provider.broken:
            self._answer(500, {"error": "broken"})
        elif parts.path == "/.well-known/openid-configuration":
            self._answer(200, self.provider.document())
        elif parts.path == "/keys":
            self._answer(200, {"keys": [key.as_dict(private=False) for key in self.provider.keys]})
        elif parts.path == "/authorize":
            self._redirect(self.provider.authorize(said))
        elif parts.path == "/out":
            self._redirect(said["post_logout_redirect_uri"])
        else:
            self._answer(404, {})

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"])).decode()
        form = {name: values[0] for name, values in parse_qs(body).items()}
        self.provider.asked.append(self.path)
        self._answer(*self.provider.exchange(form, self.headers.get("authorization", "")))

    def _answer(self, status: int, said: dict[str, Any]) -> None:
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.end_headers()
        self.wfile.write(json.dumps(said).encode())

    def _redirect(self, to: str) -> None:
        self.send_response(303)
        self.send_header("location", to)
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name of the library
        """Say nothing."""


@contextmanager
def identity_provider(**person: Any) -> Iterator[IdentityProvider]:
    """Run one for as long as it is needed, for one person."""
    known = {"sub": "248289761001", "name": "Ada Lovelace", "groups": ["noc", "everybody"], **person}

    class Handler(_Handler):
        """That of this provider."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        provider = Handler.provider = IdentityProvider(f"http://127.0.0.1:{server.server_port}", known)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        try:
            yield provider
        finally:
            server.shutdown()
            thread.join()
