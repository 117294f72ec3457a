"""A floor under a KPI, or a ceiling over it, and how sure it must be kept.

A configuration keeps a floor if the KPI, as predicted for the state at hand, is above it with a given probability: for
a posterior with mean m and width s that is m − βs ≥ floor, β being the quantile of the normal distribution. The
prediction is of the KPI's expected value; single measurements scatter around it by their noise.

The idea of a constraint with a model of its own, beside that of what is maximised, is that of constrained Bayesian
optimisation (Gelbart, Snoek and Adams 2014) and of SafeOpt with several constraints (Berkenkamp, Krause and Schoellig
2021). Like the latter we look at the pessimistic end.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from statistics import NormalDist
from typing import Any

import numpy as np

from kinband.arrays import FloatArray, finite_number, positive_number
from kinband.errors import BadInputError
from kinband.kernels import Kernel, kernel_from_dict


@dataclass(frozen=True, eq=False)
class KpiFloor:
    """What must hold of a KPI, with a stated probability, for a configuration to be chosen.

    Attributes:
        name: The KPI, as it is told and as the log calls it.
        at_least: The floor, if there is one.
        at_most: The ceiling, if there is one.
        confidence: Probability with which the expected KPI must keep them under the model, at least one half.
        mean: What the KPI is before anything is known; from a log, fitted where it is not given.
        deviation: By how much configurations and states move it, one standard deviation; likewise.
        noise: Variance of a measurement around what is expected; likewise.

    Example:
        >>> KpiFloor("drop_free_share", at_least=0.97).confidence
        0.95
        >>> KpiFloor("drop_free_share")
        Traceback (most recent call last):
            ...
        kinband.errors.BadInputError: KPI 'drop_free_share' has no floor: give at_least= or at_most=
    """

    name: str
    at_least: float | None = field(default=None, kw_only=True)
    at_most: float | None = field(default=None, kw_only=True)
    confidence: float = field(default=0.95, kw_only=True)
    mean: float | None = field(default=None, kw_only=True)
    deviation: float | None = field(default=None, kw_only=True)
    noise: float | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise BadInputError(f"a KPI needs a name, got {self.name!r}")
        if self.at_least is None and self.at_most is None:
            raise BadInputError(f"KPI {self.name!r} has no floor: give at_least= or at_most=")
        limits = {"at_least": finite_number, "at_most": finite_number, "mean": finite_number}
        checks = {**limits, "deviation": positive_number, "noise": positive_number}
        for what, check in checks.items():
            if getattr(self, what) is not None:
                object.__setattr__(self, what, check(getattr(self, what), name=f"{what} of KPI {self.name!r}"))
        object.__setattr__(self, "confidence", finite_number(self.confidence, name="confidence"))
        if not 0.5 <= self.confidence < 1:
            raise BadInputError(f"confidence is a probability from 0.5 to below 1, got {self.confidence:g}")
        if (low := self.at_least) is not None and (high := self.at_most) is not None and low >= high:
            raise BadInputError(f"KPI {self.name!r} cannot be at least {low:g} and at most {high:g}")

    @property
    def beta(self) -> float:
        """The weight of a width: the quantile of the normal distribution that belongs to the confidence."""
        return NormalDist().inv_cdf(self.confidence)

    def margin(self, mean: FloatArray, width: FloatArray) -> FloatArray:
        """Return by how much the pessimistic bounds of m predictions keep the floor, (m,); below zero they break it.

        Example:
            >>> KpiFloor("load", at_most=0.9, confidence=0.5).margin(np.array([0.7, 0.95]), np.ones(2)).round(2)
            array([ 0.2 , -0.05])
        """
        above = inf if self.at_least is None else mean - self.beta * width - self.at_least
        below = inf if self.at_most is None else self.at_most - mean - self.beta * width
        least: FloatArray = np.minimum(above, below)
        return least

    def text(self) -> str:
        """Return the demand in words.

        Example:
            >>> KpiFloor("load", at_least=0.1, at_most=0.9).text()
            'at least 0.1 and at most 0.9'
        """
        parts = {"at least": self.at_least, "at most": self.at_most}
        return " and ".join(f"{words} {limit:g}" for words, limit in parts.items() if limit is not None)


@dataclass(frozen=True, eq=False)
class Kpi:
    """A floor and the model of its KPI: mean + scale · g, where g has a kernel and the stations' task matrix.

    Attributes:
        floor: What must hold, with mean, deviation and noise filled in.
        kernel: Context kernel of g.
        scale: From g to units of the KPI.

    Example:
        >>> from kinband.kernels import RBF
        >>> floor = KpiFloor("load", at_most=0.9, mean=0.5, deviation=0.2, noise=0.01)
        >>> kpi = Kpi(floor, RBF(0.5), scale=0.2)
        >>> kpi.name, round(kpi.noise, 9), kpi_from_dict(kpi_to_dict(kpi)).floor.at_most
        ('load', 0.25, 0.9)
    """

    floor: KpiFloor
    kernel: Kernel
    scale: float

    @property
    def name(self) -> str:
        """The KPI."""
        return self.floor.name

    @property
    def noise(self) -> float:
        """Variance of a measurement, in units of g."""
        return float(self.floor.noise or 0.0) / self.scale**2

    @property
    def mean(self) -> float:
        """What the KPI is before anything is known."""
        return float(self.floor.mean or 0.0)


KpisLike = KpiFloor | Sequence[KpiFloor] | None


def floors_from(given: KpisLike) -> tuple[KpiFloor, ...]:
    """Return the floors that one, several or none stand for.

    Example:
        >>> [floor.name for floor in floors_from(KpiFloor("load", at_most=0.9))], floors_from(None)
        (['load'], ())
    """
    listed: list[Any] = [] if given is None else list(given) if isinstance(given, list | tuple) else [given]
    names: set[str] = set()
    for floor in listed:
        if not isinstance(floor, KpiFloor):
            raise BadInputError(f"kpis takes KpiFloor(...) or a list of them, got {floor!r:.60}")
        if floor.name in names:
            raise BadInputError(f"kpis names {floor.name!r} twice: a floor may have at_least= and at_most= together")
        names.add(floor.name)
    return tuple(listed)


def kpi_to_dict(kpi: Kpi) -> dict[str, Any]:
    """Return a KPI as JSON-able values."""
    return {"floor": dict(vars(kpi.floor)), "kernel": kpi.kernel.to_dict(), "scale": kpi.scale}


def kpi_from_dict(values: Mapping[str, Any]) -> Kpi:
    """Return the KPI that `kpi_to_dict` wrote."""
    return Kpi(KpiFloor(**values["floor"]), kernel_from_dict(values["kernel"]), values["scale"])


def filled(floor: KpiFloor, **model: float) -> KpiFloor:
    """Return a floor whose model is filled in where it was not given.

    Example:
        >>> filled(KpiFloor("load", at_most=0.9, mean=0.5), mean=0.4, noise=0.01).mean
        0.5
    """
    missing: dict[str, Any] = {name: value for name, value in model.items() if getattr(floor, name) is None}
    return replace(floor, **missing)
