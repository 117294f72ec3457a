"""The problems on which learners are compared: real tables and traces, classes, drawn functions, the city."""

from dataclasses import dataclass
from pathlib import Path

from kinband.experiments.runner import Mode


@dataclass(frozen=True)
class Contest:
    """A problem that all learners play.

    Attributes:
        name: In words.
        environment: As `kinband.experiments.runner.Case` has it.
        slots: How many are played: rounds of all stations, or single decisions.
        log_rows: Rows a station to learn from beforehand.
        mode: Rounds, or one station at a time.
        start: Whether beliefs start from the log, or only the model is learned from it.
        real: Whether it is made of measurements of a real system.
        intervals: Whether predictive intervals are aimed at: not for rewards of 0 and 1, nor for ColO-RAN.
    """

    name: str
    environment: str
    slots: int
    log_rows: int
    mode: Mode = "parallel"
    start: bool = True
    real: bool = False
    intervals: bool = True


def contests(coloran: Path | None) -> list[Contest]:
    """Return the problems; those of ColO-RAN, which is not ours to ship, where its table is (docs/simulator.md)."""
    runs = f"runs:{coloran}"
    traces = [
        Contest("ColO-RAN, 10 rows", runs, 600, 10, "sequential", real=True, intervals=False),
        Contest("ColO-RAN, 60 rows", runs, 600, 60, "sequential", real=True, intervals=False),
        Contest("ColO-RAN, cold", runs, 600, 60, "sequential", start=False, real=True, intervals=False),
    ]
    return [
        Contest("x264 bitrate", "measured:x264:kbs:40", 10, 5, real=True),
        Contest("x264 time", "measured:x264:etime:40", 10, 5, real=True),
        Contest("sqlite q2", "measured:sqlite:q2:40", 10, 5, real=True),
        Contest("sqlite q13", "measured:sqlite:q13:40", 10, 5, real=True),
        Contest("sqlite q15", "measured:sqlite:q15:40", 10, 5, real=True),
        Contest("gcc exec", "measured:gcc:exec", 10, 5, real=True),
        Contest("nodejs", "measured:nodejs:ops:40", 10, 3, real=True),
        Contest("gcc exec, 40 rounds", "measured:gcc:exec", 40, 5, real=True),
        Contest("nodejs, 40 rounds", "measured:nodejs:ops:40", 40, 3, real=True),
        *([] if coloran is None else traces),
        Contest("digits", "classes:digits", 40, 20, intervals=False),
        Contest("digits, half relabelled", "classes:digits:relabelled", 40, 20, intervals=False),
        Contest("wine", "classes:wine", 40, 20, intervals=False),
        Contest("wine, half relabelled", "classes:wine:relabelled", 40, 20, intervals=False),
        Contest("synthetic bandit", "synthetic", 200, 20),
        Contest("smooth city, 5 rows", "smooth", 10, 5),
        Contest("smooth city, 20 rows", "smooth", 10, 20),
        Contest("drawn alike", "drawn:alike", 40, 5),
        Contest("drawn, half opposed", "drawn:opposed", 40, 5),
        Contest("drawn, opposed, permuted", "drawn:permuted", 40, 5),
        Contest("drawn unrelated", "drawn:unrelated", 40, 5),
    ]
