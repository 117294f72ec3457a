"""Where the log never, or hardly, tried what a policy wants: there an estimate rests on the model alone.

No reweighting can tell what was never run. What counts is what the station itself ran, in all of its log: neighbours
inform the model, and their habits may stand in for the station's in estimated propensities, but neither is a trial.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinband.arrays import FloatArray, IntArray
from kinband.controller.explain import configuration_text
from kinband.evaluation.targets import Choices
from kinband.space import ConfigurationSpace

FEW = 5
"""With fewer rows than this, a station has hardly tried a configuration."""
_NAMED = 5  # stations and configurations that are named
_WORTH = 0.005  # a share that is worth a word


@dataclass(frozen=True)
class Support:
    """How much of what a policy wants was tried.

    Attributes:
        never: Share of its decisions for a configuration that the station never ran.
        hardly: Share of its decisions for one that the station ran in one to four rows.
        by_station: Share of a station's decisions that it never tried, largest first, stations without any left out.
        by_configuration: Configuration in words to the share of all decisions that want it untried, largest first.
        single: Stations that ran one configuration only.

    Example:
        >>> space, ran = ConfigurationSpace(tilt=[2, 4]), np.array([0] * 9 + [1])
        >>> station, wants = np.array(["a"] * 5 + ["b"] * 5), Choices.certain(np.ones(10, dtype=np.int64))
        >>> found = support_of(wants, station, log_station=station, ran=ran, space=space)
        >>> found.never, found.hardly, found.by_configuration, found.single
        (0.5, 0.5, {'tilt=4': 0.5}, ('a',))
    """

    never: float
    hardly: float
    by_station: Mapping[str, float]
    by_configuration: Mapping[str, float]
    single: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the shares in JSON's types."""
        return {
            "never_tried": self.never,
            "hardly_tried": self.hardly,
            "by_station": dict(self.by_station),
            "by_configuration": dict(self.by_configuration),
            "single_configuration": list(self.single),
        }

    def warnings(self) -> list[str]:
        """Return in words where the log has no answer."""
        said = []
        if self.never >= _WORTH:
            said.append(
                f"{self.never:.0%} of the decisions want what the station never ran, where the numbers rest on the "
                f"model alone; most at station {_some(self.by_station)}; most often {_some(self.by_configuration)}"
            )
        if self.hardly >= _WORTH:
            said.append(f"{self.hardly:.0%} of the decisions want what the station ran in fewer than {FEW} rows")
        if self.single:
            names = ", ".join(self.single[:_NAMED])
            more = f" and {len(self.single) - _NAMED:,} more" if len(self.single) > _NAMED else ""
            said.append(f"ran one configuration only, so that their rows say nothing about others: {names}{more}")
        return said


def tried_rows(
    choices: Choices,
    station: NDArray[np.str_],
    *,
    log_station: NDArray[np.str_],
    ran: IntArray,
    possible: FloatArray | None = None,
) -> IntArray:
    """Return in how many rows of the log a station ran what a policy wants, (n, c).

    Args:
        choices: What it wants in n rows.
        station: Stations of these rows, (n,).
        log_station: Station of every row of the log, (l,).
        ran: What ran in every row of the log, (l,).
        possible: The log's own probabilities of all configurations in the n rows, (n, N), where they are known: what
            was possible counts as tried often enough, and what was impossible as never tried.
    """
    if possible is not None:
        return np.where(np.take_along_axis(possible, choices.arms, axis=1) > 0, FEW, 0)
    names, N = np.unique(log_station), int(max(ran.max(), choices.arms.max())) + 1
    known, counts = np.unique(np.searchsorted(names, log_station) * N + ran, return_counts=True)
    wanted = np.searchsorted(names, station)[:, None] * N + choices.arms
    at = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
    return np.where(known[at] == wanted, counts[at], 0)


def support_of(
    choices: Choices,
    station: NDArray[np.str_],
    *,
    log_station: NDArray[np.str_],
    ran: IntArray,
    space: ConfigurationSpace,
    possible: FloatArray | None = None,
) -> Support:
    """Return how much of what a policy wants was tried; for the arguments see `tried_rows`."""
    tried = tried_rows(choices, station, log_station=log_station, ran=ran, possible=possible)
    never = np.where(tried == 0, choices.shares, 0.0)
    hardly = np.where((tried > 0) & (tried < FEW), choices.shares, 0.0)
    by_station = {name: float(never[station == name].sum(axis=1).mean()) for name in np.unique(station).tolist()}
    by_arm = np.bincount(choices.arms.ravel(), weights=never.ravel(), minlength=len(space)) / len(station)
    words = {configuration_text(space[int(arm)], int(arm)): float(by_arm[arm]) for arm in np.flatnonzero(by_arm)}
    single = [name for name in np.unique(log_station).tolist() if len(np.unique(ran[log_station == name])) == 1]
    return Support(
        float(never.sum() / len(station)),
        float(hardly.sum() / len(station)),
        _largest(by_station),
        _largest(words),
        tuple(single),
    )


def _largest(shares: Mapping[str, float]) -> dict[str, float]:
    kept = {name: share for name, share in shares.items() if share > 0}
    return dict(sorted(kept.items(), key=lambda item: -item[1]))


def _some(shares: Mapping[str, float]) -> str:
    """The largest shares in words."""
    named = ", ".join(f"{name} ({share:.0%})" for name, share in list(shares.items())[:_NAMED])
    return f"{named} and {len(shares) - _NAMED:,} more" if len(shares) > _NAMED else named
