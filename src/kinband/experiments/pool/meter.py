"""How far a pool of jobs has come, finer than whole jobs: each leaves a note of its share, a thread adds them up.

Processes share nothing but the folder they write to, so a note is a small file. One that is being written when it is
read counts as what it was before; nothing but a progress bar depends on it.
"""

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

Report = Callable[[float], None]

_EVERY = 0.25  # seconds between two looks
_ALMOST = 0.9  # a job that leaves no note gets so much of its share by the clock alone


@dataclass
class Work:
    """One job as a meter sees it.

    Attributes:
        file: What it writes in the end.
        seconds: How long it may take; what counts is the proportion to other jobs.
        note: Where it notes its share, None for a job that cannot tell.
        share: What was last seen.
    """

    file: Path
    seconds: float
    note: Path | None = None
    share: float = 0.0

    def look(self, elapsed: float) -> float:
        """Return the share that is done, given the seconds since all began."""
        if self.file.exists():
            self.share = 1.0
        elif self.note is None:
            self.share = min(_ALMOST, elapsed / self.seconds)
        else:
            self.share = max(self.share, _read(self.note))
        return self.share


class Meter:
    """Reports the share of all work that is done, from a thread of its own, while a block runs.

    Example:
        >>> import tempfile
        >>> seen = []
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     work = Work(Path(folder) / "result", 2.0, Path(folder) / "note")
        ...     leave_note(work.note, 0.5)
        ...     with Meter([work], seen.append):
        ...         pass
        >>> seen
        [0.5]
    """

    def __init__(self, works: Sequence[Work], report: Report | None) -> None:
        self._works, self._report = works, report
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._begun = 0.0

    def __enter__(self) -> Self:
        self._begun = time.monotonic()
        if self._report is not None and self._works:
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        if self._thread.is_alive():
            self._thread.join()

    def _watch(self) -> None:
        while not self._over.wait(_EVERY):
            self._tell()
        self._tell()

    def _tell(self) -> None:
        elapsed = time.monotonic() - self._begun
        done = sum(work.seconds * work.look(elapsed) for work in self._works)
        if self._report is not None:
            self._report(done / sum(work.seconds for work in self._works))


def leave_note(file: Path, share: float) -> None:
    """Write down the share of a job that is done."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"{share:.6f}", encoding="ascii")


def _read(file: Path) -> float:
    try:
        return min(1.0, float(file.read_text(encoding="ascii")))
    except (OSError, ValueError):  # not there yet, or half written
        return 0.0
