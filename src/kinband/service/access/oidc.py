"""Signing in through an identity provider: OpenID Connect Core 1.0, by the authorisation code flow.

A browser is sent to the provider with a *state*, by which we know our own request again, a *nonce*, by which we know
its token again, and the hash of a *verifier*, which only we can show (PKCE, RFC 7636). It comes back with a code; for
code and verifier the provider gives us an ID token, signed by one of its keys. These come from its JWKS, which is read
again where a token names a key that is not known (rotation), though seldom, since anybody can name one.

Algorithms are those with public keys: neither `none` nor a secret that is shared. Whoever waits for the provider holds
nobody else up: one asks it at a time, and others go on with what is known or are told to come again.
"""

import logging
import secrets
import ssl
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from time import monotonic
from typing import Any
from urllib.parse import urlsplit

import httpx
from authlib.oauth2.rfc6749.parameters import prepare_grant_uri
from authlib.oauth2.rfc7636 import create_s256_code_challenge
from authlib.oidc.core import CodeIDToken
from authlib.oidc.discovery import get_well_known_url
from joserfc import jwt
from joserfc.errors import (
    BadSignatureError,
    ExpiredTokenError,
    InvalidClaimError,
    InvalidKeyIdError,
    JoseError,
    MissingClaimError,
)
from joserfc.jwk import KeySet

from kinband.service.access.provider import ProviderAwayError, ProviderSettings
from kinband.service.access.tokens import NotSignedInError, Role

ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA", "Ed25519")
"""How tokens may be signed."""

CALLBACK = "/sign-in/callback"
"""Where the provider sends browsers back to."""

LEEWAY = 60
"""Seconds that the provider's clock may differ from ours."""

_LOG = logging.getLogger("kinband.service")
_FRESH, _SELDOM, _AFTER_FAILURE = 3600.0, 30.0, 5.0  # seconds: of what is known, between look-ups of unknown keys
_WAIT = 3.0  # seconds that others wait for what nobody knows yet
_PATIENCE = httpx.Timeout(5.0, connect=3.0)
_MOST = 1_000_000  # bytes of an answer
_LONGEST = 200  # characters of a subject that fit into the record beside the issuer


def refused(why: str) -> NotSignedInError:
    """Return a refusal in one sentence, which goes into the log as well."""
    return NotSignedInError("provider", why)


@dataclass(frozen=True, slots=True)
class Person:
    """Somebody whom the provider vouches for.

    Attributes:
        subject: Who, for ever: the issuer and its name for the person, or for a program.
        name: What the provider calls the person at present.
        role: What that allows here.
        ends: When its token ends, in seconds since 1970.
        token: The ID token, by which the provider knows whom to sign out.
    """

    subject: str
    name: str
    role: Role
    ends: int
    token: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True)
class Request:
    """A sign-in that has begun.

    Attributes:
        url: Where the browser goes.
        state: By which we know the request again.
        nonce: By which we know the token again.
        verifier: What shows that the code was meant for us.
    """

    url: str = field(repr=False)
    state: str = field(repr=False)
    nonce: str = field(repr=False)
    verifier: str = field(repr=False)


class Provider:
    """An identity provider. Threads may share it.

    Args:
        settings: What is known of it.
        clock: What measures how old is what it said, in seconds.
    """

    def __init__(self, settings: ProviderSettings, *, clock: Callable[[], float] = monotonic) -> None:
        self.settings = settings
        verify = ssl.create_default_context(cafile=None if settings.ca_file is None else str(settings.ca_file))
        self._http = httpx.Client(timeout=_PATIENCE, verify=verify, follow_redirects=False)
        self._metadata = _Known("metadata", self._discover, clock=clock)
        self._keys = _Known("keys", self._key_set, clock=clock)

    def close(self) -> None:
        """Let connections go."""
        self._http.close()

    # Signing in

    def begin(self) -> Request:
        """Return where to send a browser, and what to know it by when it comes back."""
        state, nonce, verifier = (secrets.token_urlsafe(32) for _ in range(3))
        settings, metadata = self.settings, self._metadata.get()
        url = prepare_grant_uri(
            metadata["authorization_endpoint"], settings.client_id, "code", settings.url + CALLBACK,
            " ".join(settings.scopes), state, nonce=nonce, code_challenge=create_s256_code_challenge(verifier),
            code_challenge_method="S256",
        )  # fmt: skip
        return Request(url, state, nonce, verifier)

    def finish(self, code: str, *, nonce: str, verifier: str, issuer: str | None, now: int) -> Person:
        """Return who comes back with a code, or refuse.

        Args:
            code: What the provider gave the browser.
            nonce: Of the request.
            verifier: Of the request.
            issuer: Who the answer says that it comes from (RFC 9207), if it does.
            now: The time, in seconds since 1970.
        """
        metadata = self._metadata.get()
        said = metadata.get("authorization_response_iss_parameter_supported") is True
        if (issuer is not None or said) and issuer != self.settings.issuer:
            raise refused("the answer comes from another identity provider than the one that was asked: sign in again")
        token = self._exchanged(metadata["token_endpoint"], code, verifier)
        claims = self._checked(token, audience=self.settings.client_id, now=now, nonce=nonce)
        return self._person(claims, token)

    def _exchanged(self, endpoint: str, code: str, verifier: str) -> str:
        settings = self.settings
        form = {
            "grant_type": "authorization_code", "code": code, "redirect_uri": settings.url + CALLBACK,
            "client_id": settings.client_id, "code_verifier": verifier,
        }  # fmt: skip
        methods = self._metadata.get().get("token_endpoint_auth_methods_supported") or ["client_secret_basic"]
        auth = None
        if settings.secret is not None and "client_secret_basic" in methods:
            auth = httpx.BasicAuth(settings.client_id, settings.secret)
        elif settings.secret is not None:
            form["client_secret"] = settings.secret
        try:
            answer = self._http.post(endpoint, data=form, auth=auth or httpx.USE_CLIENT_DEFAULT)
        except httpx.HTTPError as error:
            _LOG.warning("the identity provider did not answer: %s", type(error).__name__)
            raise ProviderAwayError from error
        said = _json(answer)
        if answer.status_code >= httpx.codes.INTERNAL_SERVER_ERROR:
            _LOG.warning("the identity provider answered a code with %d", answer.status_code)
            raise ProviderAwayError
        if answer.status_code != httpx.codes.OK or not isinstance(said.get("id_token"), str):
            raise refused(f"the identity provider did not take the sign-in ({word(said.get('error'))}): sign in again")
        return str(said["id_token"])

    # Programs that come with an access token (RFC 9068)

    def identify(self, token: str, *, now: int) -> Person:
        """Return who comes with an access token, or refuse."""
        if self.settings.audience is None:
            raise refused(
                "access tokens of the identity provider are not taken here: come with a token of this service"
            )
        return self._person(self._checked(token, audience=self.settings.audience, now=now, nonce=None))

    # What both need

    def sign_out_url(self, token: str | None) -> str | None:
        """Return where a browser goes to sign out of the provider too; None where it has no such place."""
        metadata = self._metadata.known()
        end = None if metadata is None else metadata.get("end_session_endpoint")
        if not isinstance(end, str):
            return None
        said = {"client_id": self.settings.client_id, "post_logout_redirect_uri": f"{self.settings.url}/sign-in"}
        return str(httpx.URL(end).copy_merge_params(said | ({} if token is None else {"id_token_hint": token})))

    def _checked(self, token: str, *, audience: str, now: int, nonce: str | None) -> Mapping[str, Any]:
        """Return the claims of a token that is signed by the provider, for us, and of today."""
        kind = "sign-in" if nonce is not None else "access token"
        options: Any = {
            "iss": {"essential": True, "value": self.settings.issuer}, "sub": {"essential": True},
            "aud": {"essential": True, "value": audience}, "exp": {"essential": True},
        }  # fmt: skip
        try:
            read = self._read(token)
            if nonce is not None:
                params = {"nonce": nonce, "client_id": audience}
                CodeIDToken(read.claims, read.header, options, params).validate(now=now, leeway=LEEWAY)
            else:
                jwt.JWTClaimsRegistry(now=now, leeway=LEEWAY, **options).validate(read.claims)
        except ExpiredTokenError as error:
            raise refused(f"this {kind} has expired: sign in again, and check the clocks") from error
        except (InvalidClaimError, MissingClaimError) as error:
            claim = str(getattr(error, "claim", "") or "")
            raise refused(f"this {kind} {_CLAIMS.get(claim, 'cannot be used here')}: sign in again") from error
        except (JoseError, ValueError, TypeError, KeyError, AttributeError) as error:
            detail = "is not signed by the identity provider"
            raise refused(f"this {kind} {detail}: sign in again") from error
        return read.claims

    def _read(self, token: str) -> jwt.Token:
        """Return a token whose signature is good, with keys that are read anew where it names one that is not known."""
        try:
            return jwt.decode(token, self._keys.get(), algorithms=list(ALGORITHMS))
        except (InvalidKeyIdError, BadSignatureError):
            return jwt.decode(token, self._keys.get(anew=True), algorithms=list(ALGORITHMS))

    def _person(self, claims: Mapping[str, Any], token: str = "") -> Person:
        settings, subject = self.settings, claims["sub"]
        if not isinstance(subject, str) or not subject.isprintable() or not 0 < len(subject) <= _LONGEST:
            raise refused("the identity provider names its people in a way that cannot be kept on record")
        role = settings.role_in(claims)
        if role is None:
            raise refused(
                f"nothing in {settings.claim!r} gives {settings.name_in(claims)!r} a role here: ask an administrator"
            )
        return Person(f"{settings.issuer} {subject}", settings.name_in(claims), role, int(claims["exp"]), token)

    # Asking the provider

    def _discover(self) -> dict[str, Any]:
        found = self._got(get_well_known_url(self.settings.issuer, external=True))
        if found.get("issuer") != self.settings.issuer:
            _LOG.warning("the identity provider calls itself %r, not %s", found.get("issuer"), self.settings.issuer)
            raise ProviderAwayError
        for name in ("authorization_endpoint", "token_endpoint", "jwks_uri", "end_session_endpoint"):
            place = found.get(name)
            if place is None and name == "end_session_endpoint":
                continue
            parts = urlsplit(place if isinstance(place, str) else "")
            if parts.scheme != "https" and not (self.settings.local and parts.scheme == "http"):
                _LOG.warning("the identity provider names no https address as its %s", name)
                raise ProviderAwayError
        return found

    def _key_set(self) -> KeySet:
        said = self._got(self._metadata.get()["jwks_uri"])
        keys = [key for key in said.get("keys", []) if isinstance(key, dict) and key.get("kty") in ("RSA", "EC", "OKP")]
        keys = [key for key in keys if key.get("use") in (None, "sig")]
        try:
            return KeySet.import_key_set({"keys": keys})
        except (JoseError, ValueError, TypeError, KeyError) as error:
            _LOG.warning("the keys of the identity provider cannot be read: %s", type(error).__name__)
            raise ProviderAwayError from error

    def _got(self, url: str) -> dict[str, Any]:
        try:
            answer = self._http.get(url, headers={"Accept": "application/json"})
        except httpx.HTTPError as error:
            _LOG.warning("the identity provider did not answer at %s: %s", url, type(error).__name__)
            raise ProviderAwayError from error
        found = _json(answer)
        if answer.status_code != httpx.codes.OK or not found:
            _LOG.warning("the identity provider answered at %s with %d", url, answer.status_code)
            raise ProviderAwayError
        return found


_CLAIMS = {
    "iss": "comes from another identity provider",
    "aud": "is meant for another service",
    "azp": "is meant for another service",
    "nonce": "does not belong to the one that was begun here",
    "iat": "is of the future, by this clock",
    "nbf": "is not valid yet, by this clock",
}


def _json(answer: httpx.Response) -> dict[str, Any]:
    if len(answer.content) > _MOST:
        return {}
    try:
        found = answer.json()
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def word(said: object) -> str:
    """Return what a provider calls an error, as far as it is a word."""
    good = isinstance(said, str) and said.isascii() and said.replace("_", "").isalnum() and len(said) <= 60
    return str(said) if good else "without a reason"


class _Known:
    """Something that the provider said, asked for again when it is old; one thread asks at a time.

    Args:
        name: What it is.
        ask: Asks for it.
        clock: What measures its age.
    """

    def __init__(self, name: str, ask: Callable[[], Any], *, clock: Callable[[], float]) -> None:
        self._name, self._ask, self._clock = name, ask, clock
        self._value: Any = None
        self._since, self._tried = float("-inf"), float("-inf")
        self._lock = threading.Lock()

    def known(self) -> Any:
        """Return what was said last, None where nothing was."""
        return self._value

    def get(self, *, anew: bool = False) -> Any:
        """Return what is known, asked for where it is old or, now and then, where it is to be had anew."""
        pause = _SELDOM if anew else _AFTER_FAILURE
        if self._due(anew, pause) and self._lock.acquire(timeout=_WAIT if self._value is None else 0):
            try:
                if self._due(anew, pause):  # or somebody has asked meanwhile
                    self._value, self._since = self._ask(), self._clock()
            except ProviderAwayError:
                if self._value is None:
                    raise
                _LOG.warning("the identity provider is away: what it said before of its %s holds", self._name)
            finally:
                self._tried = self._clock()
                self._lock.release()
        if self._value is None:
            raise ProviderAwayError
        return self._value

    def _due(self, anew: bool, pause: float) -> bool:
        now = self._clock()
        wanted = anew or self._value is None or now >= self._since + _FRESH
        return wanted and now >= self._tried + pause
