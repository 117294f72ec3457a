"""Random numbers keyed by who and when, so that demand does not depend on how the network treats it.

A user's sessions and turns are looked up, not drawn in sequence: the same traffic seed brings the same people with
the same wishes whatever thresholds are played, and two settings can be compared in pairs. The mixing is the
finaliser of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014), applied once per key.
"""

import numpy as np
from numpy.typing import NDArray

from kinband.arrays import FloatArray

KeyArray = NDArray[np.uint64]

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


def mixed(keys: KeyArray) -> KeyArray:
    """Return well-mixed 64-bit words of keys, (n,).

    Example:
        >>> len(set(mixed(np.arange(100, dtype=np.uint64)).tolist()))
        100
    """
    z = keys + _GOLDEN
    z = (z ^ (z >> np.uint64(30))) * _FIRST
    z = (z ^ (z >> np.uint64(27))) * _SECOND
    return z ^ (z >> np.uint64(31))


def uniforms(keys: KeyArray, *, moment: int, stream: int) -> FloatArray:
    """Return numbers spread evenly over (0, 1), one per key, (n,), for a moment and a purpose.

    Example:
        >>> keys = np.arange(3, dtype=np.uint64)
        >>> bool((uniforms(keys, moment=5, stream=0) == uniforms(keys, moment=5, stream=0)).all())
        True
        >>> bool((uniforms(keys, moment=5, stream=0) == uniforms(keys, moment=6, stream=0)).any())
        False
    """
    salt = mixed(np.array([moment * 16 + stream], dtype=np.uint64))
    words = mixed(mixed(keys) ^ salt)
    numbers: FloatArray = ((words >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53
    return numbers
