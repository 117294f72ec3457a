"""What a ledger's controller was made with: written once, bound into the chain by the first event."""

import json
from typing import Any

import numpy as np
from sqlalchemy import Connection, select

from kinband.controller import Settings
from kinband.controller.settings import settings_from_parts, settings_to_parts
from kinband.errors import ConflictError, NotFoundError, SavedStateError
from kinband.policies import PolicyFactory
from kinband.service.ledger.events import Draft, digest, packed, unpacked
from kinband.service.ledger.store import Ledger, Writer, events, meta
from kinband.version import __version__

_NAME = "settings"


def write_settings(writer: Writer, settings: Settings, *, actor: str = "") -> bool:
    """Start a ledger with the settings of its controller; False where it was started, with the same, before."""
    stored = _row(writer.connection)
    policy = settings.config.policy
    if stored is not None:
        if not _same(_settings(stored, None if isinstance(policy, str) else policy), settings):
            raise ConflictError(
                "this ledger belongs to a controller with other settings: open it without settings to go on with those "
                "it has, or start another ledger"
            )
        return False
    values, arrays = settings_to_parts(settings)
    text, data = json.dumps(values, allow_nan=False), packed(arrays)
    checksum = digest(text.encode(), data)
    writer.connection.execute(meta.insert().values(name=_NAME, text=text, data=data, checksum=checksum))
    payload = {"settings": checksum, "kinband": __version__, "stations": list(settings.stations)}
    writer.append([Draft("started", payload, actor=actor)])
    return True


def read_settings(ledger: Ledger, *, policy: PolicyFactory | None = None) -> Settings:
    """Return what the ledger's controller was made with.

    Args:
        ledger: Where.
        policy: The factory of a policy of your own, which cannot be stored.
    """
    with ledger.reading() as connection:
        row = _row(connection)
        started = connection.execute(select(events.c.payload).where(events.c.kind == "started")).scalar()
    if row is None or started is None:
        raise NotFoundError(f"the ledger {ledger.name} has no controller yet: give settings= to start one")
    same = digest(row.text.encode(), row.data) == row.checksum == json.loads(started)["settings"]
    if not same:
        raise SavedStateError(f"the settings of the ledger {ledger.name} were changed: restore it from a backup")
    return _settings(row, policy)


def _row(connection: Connection) -> Any:
    return connection.execute(select(meta).where(meta.c.name == _NAME)).one_or_none()


def _settings(row: Any, policy: PolicyFactory | None) -> Settings:
    return settings_from_parts(json.loads(row.text), unpacked(row.data, what="the settings"), policy=policy)


def _same(one: Settings, other: Settings) -> bool:
    """Whether two settings say the same; both are written anew, so that how they were written does not count."""
    (values, arrays), (others, further) = settings_to_parts(one), settings_to_parts(other)
    same = json.dumps(values, sort_keys=True) == json.dumps(others, sort_keys=True) and arrays.keys() == further.keys()
    return same and all(np.array_equal(array, further[name], equal_nan=True) for name, array in arrays.items())
