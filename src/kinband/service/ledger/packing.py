"""Arrays as bytes and back, without pickle: what settings and beliefs are stored as."""

import hashlib
import io
import zipfile
from collections.abc import Mapping
from typing import Any

import numpy as np

from kinband.errors import SavedStateError


def packed(arrays: Mapping[str, Any]) -> bytes:
    """Return arrays by name as the bytes of an npz file.

    Example:
        >>> unpacked(packed({"K_Z": np.eye(2)}), what="the settings")["K_Z"].tolist()
        [[1.0, 0.0], [0.0, 1.0]]
    """
    with io.BytesIO() as file:
        np.savez(file, **arrays)
        return file.getvalue()


def unpacked(data: bytes, *, what: str) -> dict[str, Any]:
    """Return the arrays that `packed` wrote.

    Example:
        >>> unpacked(b"?", what="the settings")
        Traceback (most recent call last):
            ...
        kinband.errors.SavedStateError: the settings cannot be read: ...
    """
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as stored:
            return {name: stored[name] for name in stored.files}
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        raise SavedStateError(f"{what} cannot be read: {error}") from error


def digest(*parts: bytes) -> str:
    """Return the SHA-256 of parts, one after the other.

    Example:
        >>> digest(b"ab") == digest(b"a", b"b"), len(digest())
        (True, 64)
    """
    total = hashlib.sha256()
    for part in parts:
        total.update(part)
    return total.hexdigest()
