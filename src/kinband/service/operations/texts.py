"""What people may write and call stations, and what is said of states that look wrong."""

import unicodedata
from collections.abc import Iterable, Mapping
from math import isfinite

from kinband.contexts import StateScaler
from kinband.errors import BadInputError, ConflictError

# --- What stations may be called and what people may say about what they do -----------------------------------------
#
# A name that looks like another one is a trap for whoever reads a plan: blanks at its ends are not seen, and an
# accented letter can be written as one character or as a letter and an accent (Unicode's normal forms NFC and NFD, UAX
# #15), which look the same and are not. Such names are refused when a station joins; what a ledger was started with
# stays.

LONGEST_COMMENT = 2_000
"""Characters of a comment."""

_LINES = "\n\r\t"  # the control characters that a comment of several lines has


def checked_comment(text: object) -> str:
    r"""Return a comment, or say what is wrong with it.

    Example:
        >>> checked_comment("too close to the match\nwait a week")
        'too close to the match\nwait a week'
        >>> checked_comment("quiet\x00")
        Traceback (most recent call last):
            ...
        kinband.errors.BadInputError: a comment must be text without control characters, got 'quiet\x00'
    """
    if not isinstance(text, str) or len(text) > LONGEST_COMMENT:
        raise BadInputError(f"a comment is text of at most {LONGEST_COMMENT:,} characters")
    if any(unicodedata.category(mark) == "Cc" and mark not in _LINES for mark in text):
        raise BadInputError(f"a comment must be text without control characters, got {text!r:.60}")
    return text


def check_newcomer(name: object, known: Iterable[str]) -> None:
    """Refuse a name that nobody could tell from another one, or from none; who was here before may come back.

    Args:
        name: What the station is to be called.
        known: What stations are called, those that have left among them.

    Example:
        >>> check_newcomer(" 3716", ["3714"])
        Traceback (most recent call last):
            ...
        kinband.errors.BadInputError: a station cannot be called ' 3716', with blanks at an end: leave them out
        >>> check_newcomer("Plo\u0308n", ["Pl\u00f6n"])
        Traceback (most recent call last):
            ...
        kinband.errors.ConflictError: a station is called ... already, written with other characters that look ...
    """
    names = list(known)
    if not isinstance(name, str) or name in names:
        return
    if name != name.strip():
        raise BadInputError(f"a station cannot be called {name!r:.80}, with blanks at an end: leave them out")
    same = unicodedata.normalize("NFC", name)
    if alike := [other for other in names if unicodedata.normalize("NFC", other) == same]:
        raise ConflictError(
            f"a station is called {alike[0]!a:.90} already, written with other characters that look the same as "
            f"{name!a:.90}: use that name, or another one"
        )


# --- States that are far from anything the controller was made for: answered, and said to be ------------------------
#
# A counter in another unit, or one that has overflowed, is a number like any other: nothing is refused, and a decision
# far from all evidence is made all the same. Where the controller knows what its features are like, by the ranges that
# were declared or by the log that it learned from, whoever asks is told.

FAR = 10.0
"""Standard deviations from the middle of what was declared or learned from."""
MOST = 5
"""Sentences that one request is answered with."""


def far_outside(scaler: StateScaler, states: Mapping[str, Mapping[str, float]]) -> list[str]:
    """Return a sentence for each value that is far from what its feature was declared or learned to be.

    Where features were only named, nothing is known of them, and nothing is said.

    Args:
        scaler: Middle and spread of the features.
        states: Values by station and feature.

    Example:
        >>> scaler = StateScaler.from_ranges({"load": (0, 1)})
        >>> far_outside(scaler, {"3714": {"load": 0.4}, "3715": {"load": 40.0}})
        ["load of '3715' is 40, 137 standard deviations from what this controller was made for: check its unit"]
        >>> far_outside(StateScaler.identity(["load"]), {"3714": {"load": 1e15}})
        []
    """
    if (scaler.centre == 0).all() and (scaler.scale == 1).all():
        return []
    known = {n: (float(c), float(s)) for n, c, s in zip(scaler.names, scaler.centre, scaler.scale, strict=True) if s}
    found: list[str] = []
    for station, state in states.items():
        for name, value in state.items():
            centre, scale = known.get(name, (value, 1.0))
            distance = abs(value - centre) / scale
            if distance > FAR or not isfinite(distance):
                found.append(
                    f"{name} of {station!r:.80} is {value:g}, {distance:.0f} standard deviations from what this "
                    "controller was made for: check its unit"
                )
    further = len(found) - MOST
    return found[:MOST] + ([f"and {further} more such values"] if further > 0 else [])
