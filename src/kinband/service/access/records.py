"""What is known of a token, and how its text is made.

A token reads `kb_<id>_<secret>`: an id of 8 letters and digits, by which it is found and named in logs, and 32 random
bytes as base64url. The prefix lets secret scanners, and our own logs (`redaction`), recognise one.

At rest there is only a hash of the secret. A fast one is right here: slow hashes (scrypt, Argon2) make guessing of
what people choose expensive, and nobody guesses 256 random bits at any speed. It is applied twice. SHA-256 of the
secret is the *proof*, which a browser's session carries so that the secret itself need not leave the sign-in; SHA-256
of the proof is what the database holds. So whoever reads the database, the key of the sessions included, has nothing to
sign in with.
"""

import hashlib
import re
import secrets
import string
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from kinband.service.access.roles import Identity, Role

TOKEN = re.compile(r"kb_(?P<id>[0-9A-Za-z]{8})_(?P<secret>[0-9A-Za-z_-]{43})")
"""What a token reads like."""

_ALPHABET = string.ascii_letters + string.digits  # no "-": an id must not look like an option on a command line


@dataclass(frozen=True, slots=True)
class TokenRecord:
    """What is known of a token: all but its secret.

    Attributes:
        id: By which it is found.
        name: Whom or what it was given to.
        role: What it allows.
        created: When it was made, UTC, as ISO text.
        expires: Until when it may be used; None for ever.
        revoked: Since when it may not be used any more.
        by: Who made it.
        last_used: When it was last used, to the minute.

    Example:
        >>> record = TokenRecord("k3Vq90Xz", "nms", Role.OPERATOR, "2026-11-20T10:00:00.000000Z", None, None, "anna")
        >>> record.state("2026-11-20T11:00:00.000000Z")
        'live'
    """

    id: str
    name: str
    role: Role
    created: str
    expires: str | None
    revoked: str | None
    by: str
    last_used: str | None = None

    def state(self, now: str) -> Literal["live", "revoked", "expired"]:
        """Return whether it may be used at a time that is written as the ledger writes it."""
        if self.revoked is not None:
            return "revoked"
        return "expired" if self.expires is not None and self.expires <= now else "live"

    @property
    def identity(self) -> Identity:
        """Who comes with it."""
        return Identity(self.id, self.name, self.role)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that JSON can hold."""
        return asdict(self) | {"role": self.role.value}


@dataclass(frozen=True, slots=True)
class Created:
    """A new token, whose text is never seen again.

    Attributes:
        token: The text; whoever has it comes in.
        record: What is kept.

    Example:
        >>> record = TokenRecord("k3Vq90Xz", "nms", Role.VIEWER, "2026-11-20T10:00:00.000000Z", None, None, "anna")
        >>> "kb_" in repr(Created("kb_k3Vq90Xz_...", record))
        False
    """

    token: str = field(repr=False)
    record: TokenRecord


def new_id() -> str:
    """Return an id at random.

    Example:
        >>> len(new_id()), new_id() == new_id()
        (8, False)
    """
    return "".join(secrets.choice(_ALPHABET) for _ in range(8))


def new_secret() -> str:
    """Return a secret of 32 random bytes.

    Example:
        >>> bool(TOKEN.fullmatch(f"kb_{new_id()}_{new_secret()}"))
        True
    """
    return secrets.token_urlsafe(32)


def proof_of(secret: str) -> str:
    """Return what shows that its bearer has seen a secret.

    Example:
        >>> len(proof_of("abc"))
        64
    """
    return hashlib.sha256(secret.encode()).hexdigest()


def hash_of(proof: str) -> str:
    """Return what is stored of a proof.

    Example:
        >>> hash_of(proof_of("abc")) == hash_of(proof_of("abd"))
        False
    """
    return hashlib.sha256(proof.encode()).hexdigest()
