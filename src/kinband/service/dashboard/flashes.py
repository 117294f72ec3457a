"""A message that the next page shows once: what came of a form.

It travels in a cookie for a minute, so that nothing is stored and any process can show it. Its HMAC-SHA256 is keyed
with the session's own secret, so that nobody without it can put words into our mouth; without access control there is
no secret, and anybody at the machine may.
"""

import hashlib
import hmac
import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from dataclasses import asdict, dataclass
from typing import Literal

COOKIE = "kinband-said"
"""The name of the cookie."""
MAX_AGE = 60
"""Seconds that a message waits for its page."""
_LONGEST = 700  # characters, of four bytes at most; a browser keeps 4,096 bytes of a cookie

Tone = Literal["good", "bad"]


@dataclass(frozen=True, slots=True)
class Flash:
    """A message and its tone.

    Example:
        >>> Flash("2 changes were carried out.").tone
        'good'
    """

    text: str
    tone: Tone = "good"


def packed(flash: Flash, key: str) -> str:
    """Return a message as the value of a cookie.

    Example:
        >>> unpacked(packed(Flash("Done."), "secret"), "secret")
        Flash(text='Done.', tone='good')
        >>> unpacked(packed(Flash("Done."), "secret"), "another") is None
        True
    """
    text = flash.text if len(flash.text) <= _LONGEST else flash.text[: _LONGEST - 1] + "…"
    body = urlsafe_b64encode(json.dumps(asdict(Flash(text, flash.tone)), ensure_ascii=False).encode()).decode()
    return f"{body.rstrip('=')}.{_mark(body.rstrip('='), key)}"


def unpacked(value: str | None, key: str) -> Flash | None:
    """Return the message of a cookie; None where there is none, or where it is not ours."""
    body, _, mark = (value or "").partition(".")
    if not mark.isascii() or not hmac.compare_digest(mark, _mark(body, key)):
        return None
    said = json.loads(urlsafe_b64decode(body + "=" * (-len(body) % 4)))
    return Flash(str(said["text"]), "bad" if said["tone"] == "bad" else "good")


def _mark(body: str, key: str) -> str:
    return hmac.digest(f"flash {key}".encode(), body.encode(), hashlib.sha256).hex()
