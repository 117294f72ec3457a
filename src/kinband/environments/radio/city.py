"""The city: where sites stand and people are, and what an outdoor user receives from every cell at every place."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinband.arrays import FloatArray, IntArray
from kinband.environments.contract import whole_number
from kinband.environments.radio.parameters import LAND_USES, Layer, Parameters, Radio
from kinband.environments.radio.propagation import (
    antenna_gain_db,
    correlated_field,
    line_of_sight_probability,
    path_loss_db,
    planned_tilt_deg,
)

# --- Where the sites stand and where people are: a city with a dense centre, homes, outskirts and hot spots ---------
#
# Sites lie on a hexagonal lattice that is stretched outwards, so that the distance between neighbours grows from
# about 450 m downtown to some 800 m at the edge, and are then moved a little, as roofs are where they are.
# Each site has three sectors. Land use follows the distance to the centre with frayed borders; within a kind of
# land use the density of people varies smoothly, and hot spots (a mall, a station, a campus) stand on top. All that
# makes one station differ from another is in here: nothing is drawn per station later on.

SECTORS = 3  # per site
_CENTRE_DISTANCE_M = 420.0  # assumption: between sites downtown; TR 36.814 case 1 has 500 m
_STRETCH = 0.14  # assumption: growth of that distance per lattice step outwards
_JITTER = 0.12  # assumption: how far a site is off its place, in distances to the next site
_BUSINESS, _HOMES = 0.36, 0.74  # assumption: where the centre and the homes end, in radii of the city
_HOT_SPOT_M = 60.0  # assumption: standard deviation of a hot spot, about a block
_SITES_PER_HOT_SPOT = 3  # assumption


@dataclass(frozen=True, eq=False)
class Layout:
    """A city of S sectors on a grid of R × C pixels.

    Attributes:
        seed: What it was drawn from.
        names: Station (sector) names, four digits, ascending, (S,).
        sites: Positions of the sites in metres, (n, 2).
        site: Site of each sector, (S,).
        azimuth_deg: Direction of each sector, anticlockwise from east, (S,).
        tilt_deg: Downtilt of each sector, (S,).
        spacing_m: Distance of each site to the next, (n,).
        hot_spots: Positions of the hot spots, (h, 2).
        demand: For each land use the share of its users in each pixel, (4, R·C), rows sum to 1.
        shape: Pixels of the grid, (R, C); pixel (r, c) is number r·C + c and covers the square above and right of
            (c·resolution, r·resolution).
        resolution_m: Side of a pixel.

    Example:
        >>> layout = draw_layout(9, seed=1)
        >>> len(layout.names), layout.sites.shape, layout.demand.sum(axis=1).round(6).tolist()
        (9, (3, 2), [1.0, 1.0, 1.0, 1.0])
    """

    seed: int
    names: tuple[str, ...]
    sites: FloatArray
    site: IntArray
    azimuth_deg: FloatArray
    tilt_deg: FloatArray
    spacing_m: FloatArray
    hot_spots: FloatArray
    demand: FloatArray
    shape: tuple[int, int]
    resolution_m: float

    @property
    def extent_m(self) -> tuple[float, float]:
        """Width and height of the area."""
        return self.shape[1] * self.resolution_m, self.shape[0] * self.resolution_m

    def pixel_centres(self) -> FloatArray:
        """Positions of all pixels, (R·C, 2)."""
        return _centres(self.shape, self.resolution_m)

    def to_dict(self) -> dict[str, Any]:
        """Return what a map needs, as JSON-able values; the demand is drawn again from the seed."""
        arrays = ("sites", "site", "azimuth_deg", "tilt_deg", "spacing_m", "hot_spots")
        plain = {name: np.round(getattr(self, name), 3).tolist() for name in arrays}
        return (
            {"seed": self.seed, "names": list(self.names), "shape": list(self.shape)}
            | plain
            | {"resolution_m": self.resolution_m}
        )


RESOLUTION_M = 25.0
"""Side of a pixel of a drawn city; the shadowing decorrelates over 37 m to 50 m."""


def draw_layout(stations: int = 105, *, seed: int = 0) -> Layout:
    """Draw a city with so many sectors, three to a site (the last site may have fewer).

    Args:
        stations: Number of sectors, S.
        seed: Draws the jitter, the land use and the hot spots.

    Example:
        >>> draw_layout(6).names == draw_layout(6).names
        True
    """
    whole_number(stations, name="stations", least=1)
    rng = np.random.default_rng([whole_number(seed, name="seed", least=0), 1])
    sites = _draw_sites(-(-stations // SECTORS), rng)
    spacing = _spacing(sites)
    margin = 0.75 * float(spacing.max())
    sites = sites - sites.min(axis=0) + margin
    shape_xy = np.ceil((sites.max(axis=0) + margin) / RESOLUTION_M).astype(int)
    shape = (int(shape_xy[1]), int(shape_xy[0]))
    site = np.arange(stations) // SECTORS
    turn = rng.uniform(-15, 15, len(sites))  # assumption: sectors follow the streets, not the lattice
    azimuth = (30.0 + 120.0 * (np.arange(stations) % SECTORS) + turn[site]) % 360
    tilt = np.array([planned_tilt_deg(d, radio=Radio()) for d in spacing])[site]
    names = tuple(str(n) for n in np.sort(rng.choice(9000, stations, replace=False) + 1000))
    hot_spots, demand = _draw_demand(sites, spacing, shape, RESOLUTION_M, rng)
    return Layout(seed, names, sites, site, azimuth, tilt, spacing, hot_spots, demand, shape, RESOLUTION_M)


def _draw_sites(count: int, rng: np.random.Generator) -> FloatArray:
    """Positions around the origin, nearest first, (count, 2)."""
    reach = int(np.ceil(np.sqrt(count))) + 2
    i, j = np.meshgrid(np.arange(-reach, reach + 1), np.arange(-reach, reach + 1))
    # A centre between the lattice points: no site stands in the exact middle of the city.
    lattice = np.column_stack([(i + j / 2).ravel() + 0.21, (j * np.sqrt(3) / 2).ravel() + 0.13])
    radius = np.hypot(*lattice.T)
    nearest = np.argsort(radius, kind="stable")[:count]
    lattice, radius = lattice[nearest], radius[nearest]
    local = _CENTRE_DISTANCE_M * (1 + 2 * _STRETCH * radius)
    jitter = rng.normal(0, _JITTER, (count, 2)) * local[:, None]
    sites: FloatArray = lattice * (_CENTRE_DISTANCE_M * (1 + _STRETCH * radius))[:, None] + jitter
    return sites


def _spacing(sites: FloatArray) -> FloatArray:
    """Mean distance of each site to its next three, (n,); a lone site gets the downtown distance."""
    if len(sites) == 1:
        return np.array([_CENTRE_DISTANCE_M])
    distance = np.sort(np.hypot(*(sites[:, None] - sites[None]).transpose(2, 0, 1)), axis=1)
    spacing: FloatArray = distance[:, 1:4].mean(axis=1)
    return spacing


def _draw_demand(
    sites: FloatArray, spacing: FloatArray, shape: tuple[int, int], resolution_m: float, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray]:
    """Hot spots (h, 2) and the share of each land use's users in each pixel, (4, R·C)."""
    centres, middle = _centres(shape, resolution_m), sites.mean(axis=0)
    radius = np.hypot(*(sites - middle).T)
    reach = float((radius + 0.6 * spacing).max())
    # Assumption: borders of land use fray over about 600 m, densities vary over about 300 m by a factor of 1.6.
    fray = correlated_field(shape, 600.0, resolution_m=resolution_m, rng=rng).ravel()
    density = np.exp(0.5 * correlated_field(shape, 300.0, resolution_m=resolution_m, rng=rng).ravel())
    from_middle = np.hypot(*(centres - middle).T) / reach
    frayed = from_middle * (1 + 0.15 * fray)
    inside = from_middle < 1
    zones = np.digitize(frayed, [_BUSINESS, _HOMES])
    weights = np.stack([np.where(inside & (zones == zone), density, 0.0) for zone in range(3)])
    spots = _draw_hot_spots(sites, spacing, rng)
    near = [np.exp(-0.5 * (np.hypot(*(centres - spot).T) / _HOT_SPOT_M) ** 2) for spot in spots]
    weights = np.vstack([weights, np.sum(near, axis=0)])
    weights[weights.sum(axis=1) == 0] = inside  # a tiny city may lack a zone
    demand: FloatArray = weights / weights.sum(axis=1, keepdims=True)
    if len(demand) != len(LAND_USES):
        raise AssertionError("one row of demand per land use")
    return spots, demand


def _draw_hot_spots(sites: FloatArray, spacing: FloatArray, rng: np.random.Generator) -> FloatArray:
    """One hot spot for every few sites, somewhere in the reach of a site of its own, (h, 2)."""
    count = max(1, len(sites) // _SITES_PER_HOT_SPOT)
    hosts = rng.choice(len(sites), count, replace=False)
    angle, far = rng.uniform(0, 2 * np.pi, count), rng.uniform(0.15, 0.55, count)
    away = np.column_stack([np.cos(angle), np.sin(angle)]) * (far * spacing[hosts])[:, None]
    return sites[hosts] + away


def _centres(shape: tuple[int, int], resolution_m: float) -> FloatArray:
    row, column = np.divmod(np.arange(shape[0] * shape[1]), shape[1])
    return (np.column_stack([column, row]) + 0.5) * resolution_m


# --- Maps of received power: what an outdoor user gets from every cell, at every pixel of the city ------------------
#
# Power is the RSRP in milliwatt per resource element: transmitted element power, antenna, path loss and shadowing.
# Pixels are rows, so that one user's powers from all cells lie side by side in memory; between pixels they are
# interpolated, otherwise a pedestrian would jump by several dB at every border. A map is built once for a layout;
# indoor losses belong to users and are applied later.

Float32Array = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class PowerMap:
    """RSRP outdoors from all L layers of every sector.

    Attributes:
        layout: The city.
        power: Milliwatt per resource element, (R·C, L, S).

    Example:
        >>> from kinband.environments.radio import draw_layout
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
        >>> from kinband.environments.radio.city import draw_layout
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
