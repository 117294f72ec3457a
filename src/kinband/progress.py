"""What a command is doing, on standard error: a bar on a terminal, elsewhere a plain line for each stage.

A line says how many seconds have passed since the first stage began, and how much memory this process took so far:
`kinband: 12 s, 0.4 GB: learning from 144,000 rows of 1,500 stations`. A stage of less than two seconds is not worth a
line, so that what is quick stays quiet. Whoever wants silence sends standard error away.
"""

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Step = Callable[..., None]
"""Takes a word on what was done, and how much it was; one by default."""

Clock = Callable[[], float]

_SHORT = 2.0  # seconds before which nothing is said of a stage
_LONG = 30.0  # seconds from which on a stage says beforehand how long it will take
_EVERY = 60.0  # seconds after which a stage that goes on says how far it is

_begun: list[float] = []  # when the first stage of this process began


@contextmanager
def stage(
    what: str,
    total: float | None = None,
    *,
    seconds: float = 0.0,
    gigabytes: float = 0.0,
    after: float = _SHORT,
    clock: Clock = time.monotonic,
) -> Iterator[Step]:
    """Say what is being done, and how far it is; yields a function that steps.

    Args:
        what: In words.
        total: Of what steps add up to; None where nobody knows.
        seconds: About how long it will take; said if that is long.
        gigabytes: About how much memory it will take, said along with the time.
        after: Seconds before which nothing is said.
        clock: Says the time.
    """
    _begun[:] = _begun or [clock()]
    if seconds > _LONG:
        what, after = f"{what} ({expected_text(seconds, gigabytes)})", 0.0
    shown = _bar(what, total, clock=clock) if sys.stderr.isatty() else _lines(what, total, after=after, clock=clock)
    with shown as step:
        yield step


def expected_text(seconds: float, gigabytes: float = 0.0) -> str:
    """Return about how long something will take, and how much memory.

    Example:
        >>> expected_text(50), expected_text(200, 1.24), expected_text(9000)
        ('about a minute', 'about 3 minutes and 1.2 GB', 'about 2.5 hours')
    """
    minutes = seconds / 60
    long = f"{minutes:.0f} minutes" if minutes < 90 else f"{minutes / 60:.1f} hours"
    memory = f" and {gigabytes:.1f} GB" if gigabytes >= 0.1 else ""
    return f"about {'a minute' if minutes < 1.5 else long}{memory}"


@contextmanager
def _lines(what: str, total: float | None, *, after: float, clock: Clock) -> Iterator[Step]:
    """A line after a while, and one a minute as long as it goes on."""
    said, done, lock = None, 0.0, threading.Lock()

    def say() -> None:
        nonlocal said
        with lock:
            if said is None:
                said = clock()
                _line(what, said)

    def step(part: str, amount: float = 1.0) -> None:
        nonlocal said, done
        done += amount
        if said is not None and (now := clock()) - said >= _EVERY:
            said = now
            _line(f"{part}, {done / total:.0%}" if total else part, now)

    waiting = threading.Timer(after, say)
    waiting.daemon = True
    if after > 0:
        waiting.start()
    else:
        say()
    try:
        yield step
    finally:
        waiting.cancel()


def _line(text: str, now: float) -> None:
    held = gigabytes_held()
    memory = f", {held:.1f} GB" if held else ""
    sys.stderr.write(f"kinband: {now - _begun[0]:.0f} s{memory}: {text}\n")
    sys.stderr.flush()


@contextmanager
def _bar(what: str, total: float | None, *, clock: Clock) -> Iterator[Step]:
    """A bar with the time left, or a spinner where nobody knows; it is gone in the end."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TaskProgressColumn, TextColumn, TimeRemainingColumn

    left = (TextColumn("time left"), TimeRemainingColumn(elapsed_when_finished=True))
    known = (BarColumn(), TaskProgressColumn(), *left) if total else ()
    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), *known)
    # Runs last minutes: look back far to tell how fast they are.
    with Progress(
        *columns, console=Console(stderr=True), transient=True, speed_estimate_period=900, get_time=clock
    ) as shown:
        task = shown.add_task(what, total=total)

        def step(part: str, amount: float = 1.0) -> None:
            shown.update(task, advance=amount, description=part)

        yield step


def gigabytes_held() -> float:
    """Return the most memory that this process ever held, in GB; 0 where the system does not say."""
    try:
        import resource
    except ImportError:  # not on Windows
        return 0.0
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e9
