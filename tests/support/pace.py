"""Time that passes faster than it does, and clocks that are wrong: a file says both, and a process follows."""

import json
import time
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path


@dataclass(frozen=True)
class Pace:
    """How time passes.

    Attributes:
        start: What time it was when the machine's stopwatch showed `zero`.
        zero: Seconds of that stopwatch (`time.monotonic`), which all processes share.
        speed: Seconds that pass in one of them.
    """

    start: datetime
    zero: float
    speed: float

    def at(self, moment: float) -> datetime:
        """Return what time it truly is when the stopwatch shows a moment."""
        return self.start + timedelta(seconds=self.passed(moment))

    def passed(self, moment: float) -> float:
        """Return how many seconds truly have passed by then."""
        return (moment - self.zero) * self.speed

    def seconds(self) -> float:
        """Return what a stopwatch shows that runs at this pace."""
        return time.monotonic() * self.speed


def write_pace(file: Path, pace: Pace, *, ahead: float = 0.0) -> None:
    """Have whoever reads the file live at a pace, with a clock that is so many seconds ahead."""
    said = {"start": pace.start.isoformat(), "zero": pace.zero, "speed": pace.speed, "ahead": ahead}
    new = file.with_suffix(".new")
    new.write_text(json.dumps(said))
    new.replace(file)


def read_pace(file: Path) -> tuple[Pace, float]:
    """Return the pace of a file, and how far a clock is ahead."""
    said = json.loads(file.read_text())
    return Pace(datetime.fromisoformat(said["start"]), said["zero"], said["speed"]), said["ahead"]
