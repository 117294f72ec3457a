"""A seal over the head of a ledger, by a key that is kept elsewhere: who rewrites history has no key to seal it with.

Checksums tell that something was changed by whoever did not recompute those after it; they are computed by anybody. The
seal is an HMAC over number and checksum of the last event, which every transaction that records events puts in the
place of the one before. Since the last checksum covers all that came before, so does the seal. A tail that was cut off
together with its seal is found by a head that was noted elsewhere (`Ledger.verify`). Snapshots bear seals of their own.
"""

import hashlib
import hmac
import secrets
from pathlib import Path

from sqlalchemy import Connection, inspect, literal, select, true

from kinband.errors import BadInputError, SavedStateError
from kinband.service.ledger.engines import open_private
from kinband.service.ledger.events import FIRST, Head
from kinband.service.ledger.schema import events, seals
from kinband.version import __version__

_LEAST = 32  # bytes of a key


class Key:
    """What a ledger is sealed with.

    Args:
        secret: At least 32 bytes, which nobody can guess.

    Example:
        >>> Key(b"k" * 32).over(Head(1, "0" * 64)) == Key(b"l" * 32).over(Head(1, "0" * 64))
        False
    """

    def __init__(self, secret: bytes) -> None:
        if len(secret) < _LEAST:
            raise BadInputError(f"the key of a ledger has at least {_LEAST} bytes, this one has {len(secret)}")
        self._secret = secret

    @classmethod
    def read(cls, file: Path) -> "Key":
        """Return the key in a file, or say why there is none."""
        try:
            return cls(file.read_bytes().strip())
        except OSError as error:
            why = (error.strerror or "it cannot be read").lower()
            raise BadInputError(
                f"there is no key of a ledger in {file} ({why}): kinband ledger seal makes one"
            ) from error

    @classmethod
    def make(cls, file: Path) -> "Key":
        """Put a new key into a file that only its owner may read."""
        try:
            with open_private(file) as opened:
                opened.write(secrets.token_hex(_LEAST) + "\n")
        except OSError as error:
            raise BadInputError(f"no key can be put into {file} ({error.strerror}): name another file") from error
        return cls.read(file)

    def over(self, head: Head) -> str:
        """Return the seal of a head."""
        return hmac.new(self._secret, f"kinband ledger\n{head}".encode(), hashlib.sha256).hexdigest()

    def over_snapshot(self, head: Head, data: bytes) -> str:
        """Return the seal of a snapshot that was taken after a head."""
        found = hmac.new(self._secret, f"kinband snapshot\n{head}\n{__version__}\n".encode(), hashlib.sha256)
        found.update(data)
        return found.hexdigest()


def write_seal(connection: Connection, key: Key, head: Head) -> None:
    """Put the seal of a head in the place of the one before."""
    connection.execute(seals.delete())
    connection.execute(seals.insert().values(seq=head.seq, mac=key.over(head)))


def sealed_head(connection: Connection) -> tuple[Head, Head | None]:
    """Return number and checksum of the last event, and number and mac of the seal; read at one moment."""
    head, nothing = select(events.c.seq, events.c.checksum), literal(None)
    if inspect(connection).has_table(seals.name):
        both = head.add_columns(seals.c.seq, seals.c.mac).outerjoin_from(events, seals, true())
    else:  # an older ledger, looked at as it is
        both = head.add_columns(nothing, nothing.label("mac"))
    row = connection.execute(both.order_by(events.c.seq.desc()).limit(1)).one_or_none()
    if row is None:
        return Head(0, FIRST), None
    seq, checksum, sealed, mac = row
    return Head(int(seq), str(checksum)), None if mac is None else Head(int(sealed), str(mac))


def checked_head(connection: Connection, key: Key | None, *, where: str, writes: bool) -> Head:
    """Return the head, unless its seal is missing or wrong; without the key, refuse to write where there is one."""
    head, seal = sealed_head(connection)
    if key is None:
        if seal is not None and writes:
            raise BadInputError(f"the ledger {where} is sealed: give the file with its key (--key)")
    elif seal is None:
        if head.seq:
            raise SavedStateError(
                f"the ledger {where} has no seal, or lost it: look at it by kinband ledger verify, then seal it by "
                "kinband ledger seal"
            )
    elif seal.seq != head.seq or not hmac.compare_digest(seal.checksum, key.over(head)):
        raise SavedStateError(
            f"the seal of the ledger {where} does not fit its head, event {head.seq}: somebody without the key has "
            "changed it, or the key is another; restore it from a backup"
        )
    return head
