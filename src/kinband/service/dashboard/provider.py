"""Signing in through an identity provider: there, and back with a code.

What a sign-in has to know when the browser is back (state, nonce, verifier, the page that was asked for) is in a sealed
cookie for ten minutes, which no script reads. It comes along from the provider's site, as the cookie of sessions does
not: so the page after a sign-in is one of our own that leads on by itself, and then the browser sends the session too.
"""

import hmac
import json
from collections.abc import Callable
from datetime import datetime
from math import ceil
from typing import Annotated, Any

from fastapi import APIRouter, Query
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from kinband.service.access.middleware import LOG, Limiter, address_of
from kinband.service.access.oidc import CALLBACK, Person, Provider, refused, word
from kinband.service.access.provider import ProviderAwayError
from kinband.service.access.sessions import COOKIE, COOKIE_ATTRIBUTES, LIFETIME, CookieAttributes, Sessions
from kinband.service.access.tokens import NotSignedInError, Tokens
from kinband.service.dashboard.rendering import plain_page, redirect
from kinband.service.dashboard.sign_in import Visitors, sign_in_page
from kinband.service.dashboard.text import own_path

BEGUN = f"{COOKIE}-oidc"
"""The name of the cookie of a sign-in that has begun."""
_ATTRIBUTES: CookieAttributes = {**COOKIE_ATTRIBUTES, "samesite": "lax"}
_MINUTES = 10
_PURPOSE, _MARK = "sign-in", "kbo1."

Short = Annotated[str, Query(max_length=500)]


def add_provider(
    router: APIRouter, visitors: Visitors, provider: Provider, *, tokens: Tokens, failures: Limiter
) -> None:
    """Add the way to an identity provider and back; `failures` is how often an address may fail."""
    sessions = Sessions(tokens) if visitors.sessions is None else visitors.sessions

    def seconds() -> int:
        return int(datetime.fromisoformat(tokens.ledger.now()).timestamp())

    def attempted(request: Request, act: Callable[[], Response]) -> Response:
        try:
            return act()
        except ProviderAwayError as error:
            return sign_in_page(visitors, next="/", said=str(error), status=503)
        except NotSignedInError as error:
            LOG.warning("a sign-in through the identity provider was refused: %s", error)
            if wait := failures.take(address_of(request.client.host if request.client else None)):
                raise HTTPException(429, f"too many sign-ins were refused from here: wait {ceil(wait)} s") from error
            return sign_in_page(visitors, next="/", said=str(error), status=401)

    @router.get("/sign-in/provider")
    def begin(request: Request, next: Short = "/") -> Response:  # noqa: A002 - the name of the field
        def act() -> Response:
            begun = provider.begin()
            said = [begun.state, begun.nonce, begun.verifier, own_path(next), seconds() + 60 * _MINUTES]
            response = redirect(begun.url)
            sealed = sessions.sealed(_PURPOSE, _MARK + json.dumps(said).encode().hex())
            response.set_cookie(BEGUN, sealed, max_age=60 * _MINUTES, **_ATTRIBUTES)
            return response

        return attempted(request, act)

    @router.get(CALLBACK)
    def back(
        request: Request,
        code: Annotated[str, Query(max_length=4000)] = "",
        state: Short = "",
        iss: Annotated[str | None, Query(max_length=500)] = None,
        error: Short = "",
    ) -> Response:
        def act() -> Response:
            known, nonce, verifier, then, _ = _begun(sessions, request, now=seconds())
            if not hmac.compare_digest(known.encode(), state.encode()):
                raise refused("this answer does not belong to the sign-in that was begun here: sign in again")
            if error or not code:
                raise refused(f"the identity provider refused the sign-in ({word(error)}): sign in again")
            person = provider.finish(code, nonce=nonce, verifier=verifier, issuer=iss, now=seconds())
            return _signed_in(person, visitors, sessions, tokens, then=then)

        response = attempted(request, act)
        response.delete_cookie(BEGUN, **_ATTRIBUTES)
        return response


def _begun(sessions: Sessions, request: Request, *, now: int) -> list[Any]:
    """Return what is known of the sign-in that a browser comes back from."""
    found = sessions.unsealed(_PURPOSE, request.cookies.get(BEGUN, ""))
    said: list[Any] = [] if found is None else json.loads(bytes.fromhex(found.removeprefix(_MARK)))
    if not said or said[-1] <= now:
        raise refused(
            f"this sign-in was begun in another browser, under another address or more than {_MINUTES} minutes ago: "
            "sign in again"
        )
    return said


def _signed_in(person: Person, visitors: Visitors, sessions: Sessions, tokens: Tokens, *, then: str) -> Response:
    """Return the page that leads on, with a session."""
    made = tokens.sign_in(person.subject, person.name, person.role, expires_in=LIFETIME)
    visitors.vouched.keep(made.record.id, person.token, turn=visitors.vouched.turn)
    LOG.info("%s signed in through the identity provider as %s", made.record.id, person.role)
    response = plain_page("onwards.html", title="Signed in", to=then, said=f"You are signed in as {made.record.name}.")
    response.set_cookie(COOKIE, sessions.new_session(made.token), max_age=sessions.max_age, **COOKIE_ATTRIBUTES)
    return response
