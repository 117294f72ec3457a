"""Signatures of webhooks, as Standard Webhooks has them (standardwebhooks.com): HMAC-SHA256 over id, time and body.

A receiver computes the same, compares in constant time, and refuses what is older than a few minutes, so that nobody
can send an old message again. What it has seen, it knows by the id: a message may come twice.
"""

import base64
import binascii
import hashlib
import hmac
from collections.abc import Mapping
from datetime import datetime, timedelta

from kinband.errors import BadInputError

WINDOW = timedelta(minutes=5)
"""How old, or how far ahead, a message may be."""

_PREFIX = "whsec_"
_LEAST = 24  # bytes of a key
ID, TIME, SIGNATURE = "webhook-id", "webhook-timestamp", "webhook-signature"


def key_of(secret: str) -> bytes:
    """Return the key of a secret: what follows `whsec_` is base64, anything else is taken as it is.

    Example:
        >>> key_of("whsec_a2luYmFuZCBzaWducyBpdHMgbWVzc2FnZXM=")
        b'kinband signs its messages'
    """
    key = secret.encode()
    if secret.startswith(_PREFIX):
        try:
            key = base64.b64decode(secret.removeprefix(_PREFIX), validate=True)
        except binascii.Error as error:
            raise BadInputError("the secret begins with whsec_ and goes on with what is not base64") from error
    if len(key) < _LEAST:
        raise BadInputError(
            f"the secret has {len(key)} bytes, and needs {_LEAST}: make one with openssl rand -base64 32"
        )
    return key


def signed(body: bytes, *, secret: str, name: str, at: datetime) -> dict[str, str]:
    """Return the headers of a message."""
    seconds = str(int(at.timestamp()))
    return {ID: name, TIME: seconds, SIGNATURE: _signature(body, key_of(secret), name, seconds)}


def verified(body: bytes, headers: Mapping[str, str], *, secret: str, now: datetime) -> str:
    """Return the id of a message that was sent by who has the secret, lately; else say what is wrong with it.

    Args:
        body: As it came, byte for byte.
        headers: Of the request; their names in lower case.
        secret: That of the target.
        now: The time.

    Example:
        >>> from datetime import UTC
        >>> noon, secret = datetime(2026, 11, 20, 12, tzinfo=UTC), "a secret of 24 bytes or more"
        >>> headers = signed(b"{}", secret=secret, name="m_1", at=noon)
        >>> verified(b"{}", headers, secret=secret, now=noon)
        'm_1'
        >>> verified(b"{}", headers, secret=secret, now=noon + timedelta(hours=1))
        Traceback (most recent call last):
            ...
        kinband.errors.BadInputError: the message is not of the last 5 minutes: it may be an old one sent again
    """
    name, seconds = headers.get(ID, ""), headers.get(TIME, "")
    right = _signature(body, key_of(secret), name, seconds).encode()
    given = headers.get(SIGNATURE, "").split()
    if not any(hmac.compare_digest(one.encode(), right) for one in given):
        raise BadInputError("the signature is not that of the message: it was changed, or signed with another secret")
    if not seconds.isdigit() or abs(int(now.timestamp()) - int(seconds)) > WINDOW.total_seconds():
        raise BadInputError("the message is not of the last 5 minutes: it may be an old one sent again")
    return name


def _signature(body: bytes, key: bytes, name: str, seconds: str) -> str:
    digest = hmac.new(key, b".".join([name.encode(), seconds.encode(), body]), hashlib.sha256).digest()
    return f"v1,{base64.b64encode(digest).decode()}"
