"""Ctrl-C while there is nothing to tidy up: the process says so and ends.

An exception would have to pass through whatever is being loaded just then, and some libraries lose it: Arrow loads
pandas with its first array and takes an interruption there for a missing pandas.
"""

import os
import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType

KEEPING = ("compare", "demo", "reproduce")
"""Commands that keep every run that is finished and go on there when they are called again."""

_called: list[str] = []  # what this process was asked for


def remember(arguments: Sequence[str]) -> None:
    """Keep in mind what was asked for, so that an interruption can say what became of it.

    Example:
        >>> remember(["evaluate", "demo.csv"]), interrupted()
        (None, 'interrupted')
        >>> remember(["demo", "--runs", "3"]), interrupted()
        (None, 'interrupted; work that was finished is kept')
    """
    _called[:] = arguments


def interrupted() -> str:
    """Return what to say of an interruption."""
    command = next((word for word in _called if not word.startswith("-")), "")
    return "interrupted; work that was finished is kept" if command in KEEPING else "interrupted"


@contextmanager
def ctrl_c_ends_at_once() -> Iterator[None]:
    """End the process on Ctrl-C meanwhile; where somebody else minds the signal, leave it to them.

    Example:
        >>> with ctrl_c_ends_at_once():
        ...     signal.getsignal(signal.SIGINT) is signal.default_int_handler
        False
    """
    main = threading.current_thread() is threading.main_thread()
    if not main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    signal.signal(signal.SIGINT, _end)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _end(number: int, frame: FrameType | None) -> None:
    del number, frame
    os.write(2, f"kinband: {interrupted()}\n".encode())
    os._exit(130)
