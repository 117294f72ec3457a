"""Speed, measured as ratios in one run on one machine: ours against the bare arithmetic, and against peers.

Seconds say little on a machine that others use too; a ratio of two things timed side by side does. Each module times
one thing and returns `Measured` rows with names that stay the same from version to version.
"""

from benchmarks.speed.measure import Measured, machine

__all__ = ["Measured", "machine"]
