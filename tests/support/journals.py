"""Journals compared as a replay is: numbers up to rounding."""

from typing import Any

from tests.golden.record import same

from kinband import Controller
from kinband.controller.events import entry_to_dict
from kinband.records import TOLERANCE


class Written:
    """What a controller's journal says, entry by entry; equal to another that says the same up to rounding."""

    def __init__(self, controller: Controller) -> None:
        self.entries: list[dict[str, Any]] = [entry_to_dict(entry) for entry in controller.journal]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Written) and same(self.entries, other.entries, tolerance=TOLERANCE) == []

    __hash__ = None  # type: ignore[assignment]

    def __len__(self) -> int:
        return len(self.entries)
