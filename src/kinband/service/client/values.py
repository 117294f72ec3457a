"""What a client may send: plain values of JSON, made of what programs have at hand.

Rewards and states often come out of NumPy, whose numbers JSON does not know. They are taken for what they are, without
loading NumPy for it. NaN and infinity are no numbers that can be told: JSON has none (RFC 8259), and a reward that is
not known is better left out.
"""

from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Any

from kinband.errors import BadInputError


def sendable(value: Any, place: str = "") -> Any:
    """Return a value as JSON can hold it, or say what cannot be sent and where it is.

    Args:
        value: Anything.
        place: What to call it in a complaint.

    Example:
        >>> import numpy as np
        >>> sendable({"outcomes": [{"decision": "d1", "reward": np.float32(0.5)}]})
        {'outcomes': [{'decision': 'd1', 'reward': 0.5}]}
        >>> sendable({"outcomes": [{"decision": "d1", "reward": float("nan")}]})
        Traceback (most recent call last):
            ...
        kinband.errors.BadInputError: outcomes[0].reward is nan, which cannot be sent: leave out what is not known
    """
    match value:
        case None | bool() | str() | int():
            return value
        case float():
            if not isfinite(value):
                raise BadInputError(f"{_named(place)} is {value}, which cannot be sent: leave out what is not known")
            return float(value)
        case Mapping():
            return {str(sendable(name)): sendable(one, f"{place}.{name}".lstrip(".")) for name, one in value.items()}
        case bytes() | bytearray():
            pass  # which are sequences of numbers
        case Sequence():
            return [sendable(one, f"{place}[{number}]") for number, one in enumerate(value)]
    plain = _plain(value)
    if plain is value:
        raise BadInputError(
            f"{_named(place)} is of type {type(value).__name__}, which cannot be sent: give plain values"
        )
    return sendable(plain, place)


def _plain(value: Any) -> Any:
    """Return the plain value of a number or an array of NumPy; anything else as it is."""
    of_numpy = type(value).__module__.partition(".")[0] == "numpy" and hasattr(value, "tolist")
    return value.tolist() if of_numpy else value


def _named(place: str) -> str:
    return place or "what is to be sent"
