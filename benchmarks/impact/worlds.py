"""Networks whose changes have a known effect: rewards by slot and station, with a daily pattern that all share.

Two kinds. *Streets* are drawn: a level and a daily pattern of each station's own kind, a shock of every day and a
disturbance of the city that stations feel more or less, and each station's own rewards, correlated from slot to slot.
*Radio* is the simulated city, slot after slot of whole days at thresholds that stay, and once more with the same people
and a few thresholds changed: the difference of the two runs is what the change did.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from kinband.arrays import FloatArray, IntArray
from kinband.environments.radio.city import build_map, draw_layout
from kinband.environments.radio.network import Network
from kinband.environments.radio.parameters import Parameters

SLOTS = 24
"""Slots of a day in streets."""


@dataclass(frozen=True)
class Streets:
    """How networks are drawn; all sizes are standard deviations, in points of a reward from 0 to 1.

    Attributes:
        stations: How many.
        days: How many days of 24 slots.
        dip: Depth of the evening's dip, on average; stations differ by half of it.
        shock: What the whole city has in common on a day.
        city: What it has in common for some slots.
        own: A station's own disturbance, correlated from slot to slot.
        correlation: By how much, from one slot to the next.
        noise: What is left, independent.
    """

    stations: int = 40
    days: int = 28
    dip: float = 0.10
    shock: float = 0.03
    city: float = 0.02
    own: float = 0.02
    correlation: float = 0.6
    noise: float = 0.02


def drawn(kind: Streets, *, seed: int) -> FloatArray:
    """Return the rewards of a drawn network, (slots, stations)."""
    rng = np.random.default_rng([seed, 18])
    T, N = kind.days * SLOTS, kind.stations
    hour = np.arange(T) % SLOTS
    centre = 18.5 + rng.choice([-6.0, 0.0, 1.5], N, p=[0.3, 0.5, 0.2])  # offices are busy at noon, homes in the evening
    pattern = np.exp(-0.5 * ((hour[:, None] - centre) / 2.5) ** 2)
    depth, felt = kind.dip * rng.uniform(0.5, 1.5, N), rng.uniform(0.4, 1.6, N)
    shock = np.repeat(kind.shock * rng.standard_normal(kind.days), SLOTS)
    common = shock + _correlated(T, 1, 0.9, rng)[:, 0] * kind.city
    own = kind.own * _correlated(T, N, kind.correlation, rng)
    return np.asarray(0.85 - depth * pattern + felt * common[:, None] + own + kind.noise * rng.standard_normal((T, N)))


def _correlated(T: int, N: int, rho: float, rng: np.random.Generator) -> FloatArray:
    """Disturbances of variance 1, (T, N), each slot correlated with the one before."""
    from scipy.signal import lfilter

    fresh = rng.standard_normal((T, N)) * np.sqrt(1 - rho**2)
    fresh[0] /= np.sqrt(1 - rho**2)
    return np.asarray(lfilter([1.0], [1.0, -rho], fresh, axis=0))


# --- The simulated city -----------------------------------------------------------------------------------------------

CITY = 42
"""Sectors of the simulated city."""
MEASURED_S = 300
"""Seconds of a slot that are simulated."""
LAPSE = 6
"""The hour of the day goes so many times faster than sessions and users: a slot stands for half an hour."""
FIRST_HOUR, LAST_HOUR = 6, 24
A_DAY = (LAST_HOUR - FIRST_HOUR) * 3600 // (MEASURED_S * LAPSE)
"""Slots of a day in the simulated city."""
DAYS, CHANGED_FROM = 7, 4
"""Days simulated, and the first of those on which thresholds are changed in the second run."""
LOAD = 1.5
CHANGED = 8
"""Stations that change."""


class _Lapse(Network):
    """A city whose day passes fast."""

    @property
    def hour(self) -> float:
        return float((self._start_s + LAPSE * self.now) / 3600 % 24)


def thresholds(seed: int, *, changed: int = 0) -> tuple[FloatArray, IntArray]:
    """Return the thresholds of a city's stations, (42,), and which of them are changed, by 16 dB and up."""
    rng = np.random.default_rng([seed, 19])
    kept = rng.integers(-108, -99, CITY).astype(np.float64)
    who = np.sort(rng.permutation(CITY)[:changed])
    kept[who] += 16.0
    return kept, who


def simulated_day(seed: int, day: int, changed: int) -> dict[str, Any]:
    """Simulate a day of a city and return its rewards, (slots, stations), as lists; nan where nobody was served."""
    parameters = Parameters(load=LOAD)
    map_ = build_map(draw_layout(CITY, seed=seed), parameters)
    runs, _ = thresholds(seed, changed=changed)
    lapse = MEASURED_S * LAPSE / 3600
    network = _Lapse(map_, parameters, seed=(seed, day), hour=FIRST_HOUR - lapse)
    network.run_period(runs, seconds=MEASURED_S)
    reports = [network.run_period(runs, seconds=MEASURED_S) for _ in range(A_DAY)]
    rewards = [
        [None if n == 0 else g for g, n in zip(one.good_share.tolist(), one.sessions.tolist(), strict=True)]
        for one in reports
    ]
    return {"rewards": rewards, "stations": list(map_.layout.names)}
