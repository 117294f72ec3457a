"""How fast power falls at a street corner: sight on or off in pixels, as in the simulated city, and soft sight.

The city has line of sight or none in each pixel of 25 m and interpolates power in milliwatts. TR 38.901 clause 7.6.3.3
describes a soft state instead: with z = F(d) + G, positive where there is sight, the two powers are mixed with the
weights s² and 1 − s², s = 1/2 + arctan(√(20 m/λ)·z)/π. Both are drawn from the same fields of sight and shadowing
around one site, along the same straight ways; weights and mixture are functions of handoverlab (PyPI: handoverlab).

Run it: python -m pip install handoverlab, then python tools/cross_check_corners.py
"""

# ruff: noqa: T201  (a report on the screen is all it does)

from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from types import SimpleNamespace
from typing import Any

import numpy as np
from scipy.special import ndtri

from kinband.arrays import FloatArray
from kinband.environments.radio import PowerMap
from kinband.environments.radio.parameters import CAPACITY, Radio
from kinband.environments.radio.propagation import correlated_field, line_of_sight_probability, path_loss_db

SIDE, PIXEL_M = 80, 25.0
WAYS, LENGTH_M, SAMPLE_M, STRETCH_M = 400, 400.0, 0.5, 5.0


@dataclass(frozen=True, eq=False)
class Surroundings:
    """Fields around one site in the middle of SIDE × SIDE pixels, each (SIDE²,).

    Attributes:
        z: Positive where there is line of sight.
        seen: Gain with sight in dB: path loss and shadowing.
        hidden: Gain without sight in dB.
    """

    z: FloatArray
    seen: FloatArray
    hidden: FloatArray


def draw_surroundings(rng: np.random.Generator) -> Surroundings:
    """Draw sight and shadowing as `kinband.environments.radio.city` does for one site."""
    radio = Radio()
    state, los, nlos = (
        correlated_field((SIDE, SIDE), distance, resolution_m=PIXEL_M, rng=rng).ravel()
        for distance in (radio.correlation_sight_m, radio.correlation_los_m, radio.correlation_nlos_m)
    )
    row, column = np.divmod(np.arange(SIDE**2), SIDE)
    distance = np.hypot(column + 0.5 - SIDE / 2, row + 0.5 - SIDE / 2) * PIXEL_M
    heights = {"base_height_m": radio.base_height_m, "user_height_m": radio.user_height_m}
    seen, hidden = (
        deviation * field
        - path_loss_db(distance, np.full(SIDE**2, sight), frequency_ghz=CAPACITY.frequency_ghz, **heights)
        for deviation, field, sight in ((radio.shadowing_los_db, los, True), (radio.shadowing_nlos_db, nlos, False))
    )
    return Surroundings(ndtri(np.clip(line_of_sight_probability(distance), 1e-9, 1 - 1e-9)) - state, seen, hidden)


def draw_ways(rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
    """Return x and y along straight ways, (WAYS, samples) each."""
    start, angle = rng.uniform(0.3, 0.7, (WAYS, 2)) * SIDE * PIXEL_M, rng.uniform(0, 2 * np.pi, WAYS)
    away = np.arange(0, LENGTH_M, SAMPLE_M)
    return start[:, [0]] + away * np.cos(angle)[:, None], start[:, [1]] + away * np.sin(angle)[:, None]


def between_pixels(values: FloatArray, x: FloatArray, y: FloatArray) -> FloatArray:
    """Interpolate a field, (SIDE²,), by the code that interpolates the maps of the city."""
    grid: Any = SimpleNamespace(shape=(SIDE, SIDE), resolution_m=PIXEL_M)
    field: Any = values[:, None, None]
    return np.asarray(PowerMap(grid, field).at(x.ravel(), y.ravel())[:, 0, 0].reshape(x.shape), dtype=np.float64)


def main() -> None:
    """Print how much of its power a user loses within five metres."""
    if find_spec("handoverlab") is None:
        print("skipped: handoverlab is not installed; python -m pip install handoverlab brings it")
        return
    soft_los = import_module("handoverlab.channel.pathloss")
    rng = np.random.default_rng(5)
    around, (x, y) = draw_surroundings(rng), draw_ways(rng)
    pixels = 10 ** (np.where(around.z > 0, around.seen, around.hidden) / 10)
    z, seen, hidden = (between_pixels(field, x, y) for field in (around.z, around.seen, around.hidden))
    weight = soft_los.soft_los_power_weight(z, CAPACITY.frequency_ghz)
    levels = {
        f"on or off in pixels of {PIXEL_M:g} m": 10 * np.log10(between_pixels(pixels, x, y)),
        "soft, TR 38.901 clause 7.6.3.3": soft_los.mix_db(weight, seen, hidden),
    }
    apart = int(STRETCH_M / SAMPLE_M)
    print(f"loss within {STRETCH_M:g} m on {WAYS} ways of {LENGTH_M:g} m around a site, {CAPACITY.frequency_ghz} GHz")
    for name, level in levels.items():
        lost = (level[:, :-apart] - level[:, apart:]).ravel()
        below = ", ".join(f"{100 * q:g} of 100 below {np.quantile(lost, q):.1f} dB" for q in (0.99, 0.999))
        above = ", ".join(f"{np.mean(lost > db):.2%} above {db} dB" for db in (10, 20))
        print(f"  sight {name}: {below}, largest {lost.max():.1f} dB; {above}")


if __name__ == "__main__":
    main()
