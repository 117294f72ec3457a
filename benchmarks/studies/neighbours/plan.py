"""What is played, and the learners by name."""

from dataclasses import dataclass

TODAY, CELL, FLOORED, SECTOR = "today", "cell", "cell, floor", "sector"
BESIDE = ", neighbours "
"""What stands between a reward and the neighbours' share of it in the name of a learner."""


@dataclass(frozen=True)
class Plan:
    """What is played.

    Attributes:
        stations: Sectors of the city.
        load: Multiplies the number of users.
        period_s: Length of a slot in simulated seconds.
        log_slots: Slots of the log, with thresholds drawn at random.
        slots: Slots of a run.
        tail: Slots at its end that count.
        cell_weights: Shares of a cell's reward that are the coverage cells'.
        sector_weights: Shares of a sector's reward that are its neighbours'.
        neighbours: How many each has.
        floor: What the share of a sector must not fall below.
        similarity: How likeness is learned from the log.
        beta: Weight of the width.
    """

    stations: int = 21
    load: float = 1.2
    period_s: float = 60.0
    log_slots: int = 12
    slots: int = 100
    tail: int = 50
    cell_weights: tuple[float, ...] = (0.5, 0.8)
    sector_weights: tuple[float, ...] = (0.3,)
    neighbours: int = 4
    floor: float = 0.85
    similarity: str = "joint"
    beta: float = 0.3

    @property
    def learners(self) -> tuple[str, ...]:
        """The learners by name."""
        cells = (f"{CELL}{BESIDE}{w:g}" for w in self.cell_weights)
        return (TODAY, CELL, *cells, FLOORED, SECTOR, *(f"{SECTOR}{BESIDE}{w:g}" for w in self.sector_weights))


QUICK = Plan(stations=6, period_s=20.0, log_slots=4, slots=6, tail=3, cell_weights=(0.8,), similarity="pooled")
"""A plan to see that everything runs; it says nothing."""
