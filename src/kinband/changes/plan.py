"""A change plan: the stations to change with the gain expected of each, and those left alone with the reason why."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

Why = Literal[
    "not in the log",
    "state incomplete",
    "state unfamiliar",
    "configuration unknown",
    "no other choice",
    "never tried",
    "best already",
    "gain too small",
    "gain not certain",
    "beyond the limit",
]
"""Why a station is left alone, in a few words that a program can count."""


@dataclass(frozen=True)
class Change:
    """One station to be changed.

    Gains and widths are those of the expected reward f; a single measurement scatters more, by the noise.

    Attributes:
        station: Whom to change.
        present: What it runs now.
        proposed: What it should run.
        expected: Expected reward of the proposed configuration in the present state.
        expected_unchanged: Expected reward of the present one.
        gain: The difference of the two.
        low: Lower end of the gain's 95 % interval.
        high: Upper end.
        width: Standard deviation of the estimate for the proposed configuration.
        width_alone: What it would be from the station's own rows alone.
        own_rows: How many rows of the station itself were told.
        borrowed: Share of the estimate that rests on other stations' rows, 0 to 1.
        lenders: The three largest lenders with their shares.
        reason: The same in words.

    Example:
        >>> Change("a", {"tilt": 2}, {"tilt": 4}, expected=0.9, expected_unchanged=0.8, gain=0.1, low=0.05, high=0.15,
        ...     width=0.02, width_alone=0.03, own_rows=40, borrowed=0.3, lenders=(("b", 0.3),), reason="...").gain
        0.1
    """

    station: str
    present: Mapping[str, Any]
    proposed: Mapping[str, Any]
    expected: float
    expected_unchanged: float
    gain: float
    low: float
    high: float
    width: float
    width_alone: float
    own_rows: int
    borrowed: float
    lenders: tuple[tuple[str, float], ...]
    reason: str


@dataclass(frozen=True)
class LeftAlone:
    """One station that stays as it is.

    Attributes:
        station: Who.
        present: What it runs now, as far as it is known.
        why: One of a few fixed phrases.
        reason: The same in a sentence.

    Example:
        >>> LeftAlone("a", {"tilt": 2}, "best already", "Nothing is better.").why
        'best already'
    """

    station: str
    present: Mapping[str, Any]
    why: Why
    reason: str


@dataclass(frozen=True)
class ChangePlan:
    """What to change, largest gain first, and what not.

    Attributes:
        knobs: Names of the knobs.
        changes: The stations to change.
        left_alone: The others, in the order they were asked for.
        explore: Whether the plan tries what is little known, or plays safe.

    Example:
        >>> plan = ChangePlan(("tilt",), (), (LeftAlone("a", {"tilt": 2}, "best already", "Nothing is better."),))
        >>> plan.to_dict()["left_alone"][0]["why"]
        'best already'
    """

    knobs: tuple[str, ...]
    changes: tuple[Change, ...]
    left_alone: tuple[LeftAlone, ...]
    explore: bool = False

    def write(self, folder: str | Path, *, replace: bool = False) -> list[Path]:
        """Write plan.csv, rollback.csv and left_alone.csv, and return their paths.

        A plan that may have been carried out is not lost by accident: a folder that holds one is refused unless
        `replace` is set.

        Example:
            >>> import tempfile
            >>> plan = ChangePlan(("tilt",), (), ())
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     [path.name for path in plan.write(folder)]
            ['rollback.csv', 'plan.csv', 'left_alone.csv']
        """
        from kinband.changes.files import write_plan

        return write_plan(self, Path(folder), replace=replace)

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as JSON-able values."""
        return {
            "explore": self.explore,
            "knobs": list(self.knobs),
            "changes": [_plain(asdict(change)) for change in self.changes],
            "left_alone": [asdict(station) for station in self.left_alone],
        }


def _plain(change: dict[str, Any]) -> dict[str, Any]:
    return change | {"lenders": [{"station": name, "share": share} for name, share in change["lenders"]]}
