"""Maps of received power: what an outdoor user gets from every cell, at every pixel of the city.

Power is the RSRP in milliwatt per resource element: transmitted element power, antenna, path loss and shadowing.
Pixels are rows, so that one user's powers from all cells lie side by side in memory; between pixels they are
interpolated, otherwise a pedestrian would jump by several dB at every border. A map is built once for a layout;
indoor losses belong to users and are applied later.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kinband.arrays import FloatArray, IntArray
from kinband.environments.radio.antenna import antenna_gain_db
from kinband.environments.radio.layers import Layer
from kinband.environments.radio.layout import Layout
from kinband.environments.radio.parameters import Parameters, Radio
from kinband.environments.radio.propagation import correlated_field, line_of_sight_probability, path_loss_db

Float32Array = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class PowerMap:
    """RSRP outdoors from all L layers of every sector.

    Attributes:
        layout: The city.
        power: Milliwatt per resource element, (R·C, L, S).

    Example:
        >>> from kinband.environments.radio.layout import draw_layout
        >>> map_ = build_map(draw_layout(3), Parameters())
        >>> map_.at(np.array([100.0]), np.array([100.0])).shape
        (1, 2, 3)
    """

    layout: Layout
    power: Float32Array

    def at(self, x: FloatArray, y: FloatArray) -> Float32Array:
        """Return the power at positions x, y (n,) in metres, interpolated between four pixels, (n, L, S)."""
        rows, columns = self.layout.shape
        c, r = (np.clip(v / self.layout.resolution_m - 0.5, 0, m - 1.001) for v, m in ((x, columns), (y, rows)))
        left, low = c.astype(np.int64), r.astype(np.int64)
        right, up = (c - left).astype(np.float32)[:, None, None], (r - low).astype(np.float32)[:, None, None]
        pixel = low * columns + left
        here = self.power[pixel] * (1 - right) + self.power[pixel + 1] * right
        above = self.power[pixel + columns] * (1 - right) + self.power[pixel + columns + 1] * right
        power: Float32Array = here * (1 - up) + above * up
        return power

    def best_sector(self, layer: int) -> IntArray:
        """Return the strongest sector of a layer at each pixel, (R·C,)."""
        return np.asarray(self.power[:, layer].argmax(axis=1), dtype=np.int64)

    def sector_demand(self) -> FloatArray:
        """Return the share of each land use's users whose strongest capacity cell is the sector's, (4, S)."""
        best, sectors = self.best_sector(0), len(self.layout.names)
        return np.stack([np.bincount(best, weights, minlength=sectors) for weights in self.layout.demand])


def build_map(layout: Layout, parameters: Parameters) -> PowerMap:
    """Compute the map of a layout; shadowing and line of sight are drawn from the layout's seed.

    All layers of a site share one shadowing field, and so do its sectors (TR 36.942: correlation 1 within a site).

    Example:
        >>> from kinband.environments.radio.layout import draw_layout
        >>> a, b = (build_map(draw_layout(3), Parameters()).power for _ in range(2))
        >>> bool((a == b).all())
        True
    """
    rng = np.random.default_rng([layout.seed, 2])
    centres, sectors = layout.pixel_centres(), len(layout.names)
    power = np.empty((len(centres), len(parameters.layers), sectors), dtype=np.float32)
    common = _shadow_fields(layout, parameters.radio, rng)
    for site, position in enumerate(layout.sites):
        east, north = (centres - position).T
        distance = np.hypot(east, north)
        shadowing, sight = _shadowing(layout, distance, common, radio=parameters.radio, rng=rng)
        bearing = np.degrees(np.arctan2(north, east))
        for number, layer in enumerate(parameters.layers):
            level = _level_dbm(layer, distance, sight, radio=parameters.radio) + shadowing
            for sector in np.flatnonzero(layout.site == site):
                gain = _sector_gain_db(layout, int(sector), distance, bearing, radio=parameters.radio)
                power[:, number, sector] = 10 ** ((level + gain) / 10)
    power.setflags(write=False)
    return PowerMap(layout, power)


def _level_dbm(layer: Layer, distance: FloatArray, sight: NDArray[np.bool_], *, radio: Radio) -> FloatArray:
    """RSRP on boresight without shadowing."""
    loss = path_loss_db(
        distance,
        sight,
        frequency_ghz=layer.frequency_ghz,
        base_height_m=radio.base_height_m,
        user_height_m=radio.user_height_m,
    )
    level: FloatArray = layer.element_power_dbm + layer.antenna_gain_dbi - loss
    return level


def _sector_gain_db(
    layout: Layout, sector: int, distance: FloatArray, bearing: FloatArray, *, radio: Radio
) -> FloatArray:
    below = np.degrees(np.arctan2(radio.base_height_m - radio.user_height_m, distance))
    tilt = float(layout.tilt_deg[sector])
    return antenna_gain_db(bearing - layout.azimuth_deg[sector], below, tilt_deg=tilt, radio=radio)


def _shadow_fields(layout: Layout, radio: Radio, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
    """Standard normal fields for LOS and for NLOS, (R·C,) each."""
    draws = (radio.correlation_los_m, radio.correlation_nlos_m)
    los, nlos = (correlated_field(layout.shape, d, resolution_m=layout.resolution_m, rng=rng).ravel() for d in draws)
    return los, nlos


def _shadowing(
    layout: Layout,
    distance: FloatArray,
    common: tuple[FloatArray, FloatArray],
    *,
    radio: Radio,
    rng: np.random.Generator,
) -> tuple[FloatArray, NDArray[np.bool_]]:
    """Shadowing in dB (minus: weaker) and line of sight of one site, (R·C,) each."""
    from math import erf, sqrt

    own = _shadow_fields(layout, radio, rng)
    a, b = sqrt(radio.site_correlation), sqrt(1 - radio.site_correlation)
    los, nlos = (a * c + b * o for c, o in zip(common, own, strict=True))
    state = correlated_field(layout.shape, radio.correlation_sight_m, resolution_m=layout.resolution_m, rng=rng).ravel()
    # An even number from the normal field makes neighbours share their state and keeps P(LOS) at every distance.
    levels = np.linspace(-5, 5, 2001)
    even = np.interp(state, levels, [(1 + erf(v / sqrt(2))) / 2 for v in levels])
    sight = even < line_of_sight_probability(distance)
    return np.where(sight, radio.shadowing_los_db * los, radio.shadowing_nlos_db * nlos), sight
