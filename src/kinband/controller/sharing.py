"""The rule by which sharing is kept in check; `adapting` carries it out."""

from dataclasses import dataclass

import numpy as np

from kinband.arrays import finite_number
from kinband.errors import BadInputError


@dataclass(frozen=True)
class Sharing:
    """How sharing is kept in check.

    Attributes:
        weighed: Whether every station borrows only as far as that has foretold its own rewards.
        again: By which factor rows must have grown before the task matrix is estimated again; None for never.
        first: Rows a station before the first estimate, where there was no log.

    Example:
        >>> Sharing(again=1.5).weighed
        True
        >>> Sharing(again=1.0)
        Traceback (most recent call last):
            ...
        kinband.errors.BadInputError: again is a factor above 1, got 1
    """

    weighed: bool = True
    again: float | None = 2.0
    first: int = 20

    def __post_init__(self) -> None:
        if not isinstance(self.weighed, bool):
            raise BadInputError(f"weighed is True or False, got {self.weighed!r}")
        if self.again is not None and not isinstance(self.again, int | float | np.integer | np.floating):
            raise BadInputError(f"again is a factor above 1, or None, got {self.again!r:.60}")
        if self.again is not None:
            object.__setattr__(self, "again", finite_number(self.again, name="again"))
            if self.again <= 1:
                raise BadInputError(f"again is a factor above 1, got {self.again:g}")
        if isinstance(self.first, bool) or not isinstance(self.first, int) or self.first < 2:
            raise BadInputError(f"first is a number of rows a station, from 2 on, got {self.first!r}")


SharingLike = str | bool | Sharing | None


def sharing_from(given: SharingLike) -> Sharing | None:
    """Return the rule that was asked for: "adaptive" or True for the usual one, None or False for none.

    Example:
        >>> sharing_from("adaptive") == Sharing(), sharing_from(None) is None
        (True, True)
        >>> sharing_from("always")
        Traceback (most recent call last):
            ...
        kinband.errors.BadInputError: sharing is "adaptive" or True, a Sharing(...), or None or False for none, got ...
    """
    if given is None or given is False:
        return None
    if given is True or (isinstance(given, str) and given == "adaptive"):
        return Sharing()
    if isinstance(given, Sharing):
        return given
    raise BadInputError(f'sharing is "adaptive" or True, a Sharing(...), or None or False for none, got {given!r:.60}')
