"""Groups of stations alike, by which lists are filtered and the page on similarity is ordered."""

from collections.abc import Sequence

from kinband.service.operations import Operations

LEVELS = (0.5, 0.7, 0.9)
"""How alike the stations of a group are on average, to choose from."""


class Groups:
    """The groups of stations alike, as the page numbers them, found once a matrix."""

    def __init__(self) -> None:
        self._kept: tuple[object, tuple[str, ...], dict[str, int]] = None, (), {}

    def of(self, operations: Operations) -> dict[str, int]:
        """Return the group of those stations that are in one, from 1; nobody who decides is waited for."""
        controller = operations.turns.unlocked
        matrix, stations = controller.current.K_Z, tuple(controller.stations)
        known, of, found = self._kept
        if known is not matrix or of != stations:
            groups = numbered_groups(controller.similarity.groups(alike=LEVELS[1]))
            found = {station: 1 + number for group, number in groups.items() for station in group}
            self._kept = matrix, stations, found
        return found


def numbered_groups(groups: Sequence[tuple[str, ...]]) -> dict[tuple[str, ...], int]:
    """Return the groups of more than one with their numbers, the largest first, from 0."""
    several = [group for group in groups if len(group) > 1]
    return {group: i for i, group in enumerate(sorted(several, key=len, reverse=True))}
