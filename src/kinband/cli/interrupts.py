"""Ctrl-C while there is nothing to tidy up: the process says so and ends.

An exception would have to pass through whatever is being loaded just then, and some libraries lose it: Arrow loads
pandas with its first array and takes an interruption there for a missing pandas.
"""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

INTERRUPTED = "interrupted; work that was finished is kept"


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
    os.write(2, f"kinband: {INTERRUPTED}\n".encode())
    os._exit(130)
