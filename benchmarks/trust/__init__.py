"""Learning that an operator can trust: every target, measured, with its interval and whether it is kept.

A part turns an experiment into targets (`targets`): it runs what it needs through a `Runner`, which keeps every
run, and holds the results against the numbers promised. `table` writes them down. `make trust` is the command.

To add a part, write a module with `measure(size, runner)`, `targets(results, size)` and a `PART`, and list it here.
"""

from collections.abc import Sequence

from benchmarks.trust import drift, evaluation, neighbours, newcomers, rounds, safety, speed
from benchmarks.trust.targets import Part, Runner, Size, Target
from kinband.errors import NotFoundError

__all__ = ["PARTS", "Part", "Runner", "Size", "Target", "measured", "parts_named"]

PARTS: dict[str, Part] = {
    module.PART.name: module.PART for module in (rounds, safety, newcomers, drift, evaluation, neighbours, speed)
}
"""The parts, in the order of the table."""


def parts_named(names: Sequence[str]) -> list[Part]:
    """Return parts by name, in the order of the table; all of them where none is named.

    Example:
        >>> [part.name for part in parts_named(["safety", "rounds"])]
        ['rounds', 'safety']
    """
    for name in names:
        if name not in PARTS:
            raise NotFoundError(f"there is no part {name!r}: choose from {', '.join(PARTS)}")
    return [part for name, part in PARTS.items() if not names or name in names]


def measured(parts: Sequence[Part], size: Size, runner: Runner) -> list[Target]:
    """Run what parts need and return their targets, in order."""
    return [target for part in parts for target in part.targets(part.measure(size, runner), size)]
