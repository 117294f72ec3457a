"""The rule by which sharing is kept in check; `adapting` carries it out."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

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
        if self.again is not None and finite_number(self.again, name="again") <= 1:
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
        kinband.errors.BadInputError: sharing is "adaptive", a Sharing(...) or None, got 'always'
    """
    if given is None or given is False:
        return None
    if given is True or given == "adaptive":
        return Sharing()
    if isinstance(given, Sharing):
        return given
    raise BadInputError(f'sharing is "adaptive", a Sharing(...) or None, got {given!r:.60}')


def as_in_the_paper(given: Mapping[str, Any], **beyond: Any) -> dict[str, Any]:
    """Return what to change in arguments so that a controller keeps to the paper; refuse what goes beyond it.

    Args:
        given: Arguments of the controller, by name.
        beyond: Further ones that the paper knows nothing of.

    Example:
        >>> as_in_the_paper({"engine": "auto", "mean": 0.0, "sharing": None})
        {'engine': 'exact', 'mean': 0.0, 'sharing': False}
        >>> as_in_the_paper({"engine": "auto", "mean": 0.0, "sharing": "adaptive"})
        Traceback (most recent call last):
            ...
        kinband.errors.BadInputError: paper=True keeps to the paper, which has no sharing=: leave one of them out
    """
    for name in ("sharing", "safety", "neighbours", "reward"):
        beyond[name] = given.get(name)
    for name, value in beyond.items():
        if value is not None and value is not False:
            raise BadInputError(f"paper=True keeps to the paper, which has no {name}=: leave one of them out")
    options = given.get("options")
    if isinstance(options, Mapping) and options.get("rounds", "plain") != "plain":
        raise BadInputError("paper=True keeps to the paper, whose rounds are plain: leave options={'rounds': ...} out")
    if given["engine"] not in ("auto", "exact", "schur"):
        raise BadInputError(f"paper=True needs an exact posterior, 'exact' or 'schur', not engine={given['engine']!r}")
    if given["mean"]:
        raise BadInputError(f"paper=True has prior mean 0, got mean={given['mean']!r}: leave one of them out")
    return {"engine": "exact" if given["engine"] == "auto" else given["engine"], "mean": 0.0, "sharing": False}
