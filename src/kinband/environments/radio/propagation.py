"""How signals travel: path loss, line of sight, walls and shadowing of TR 38.901, urban macro, and sector antennas."""

import numpy as np

from kinband.arrays import BoolArray, FloatArray
from kinband.environments.radio.parameters import LIGHT_SPEED, Radio

# --- Path loss, line of sight, walls and shadowing of the urban macro scenario of TR 38.901 -------------------------
#
# Formulas are those of tables 7.4.1-1 (path loss), 7.4.2-1 (line of sight) and clause 7.4.3 (outdoor to indoor);
# distances in metres, frequencies in GHz, losses in dB. Shadowing and line of sight are maps: Gaussian fields with
# the exponential correlation exp(−d/d_cor) that the report prescribes, drawn by filtering white noise with the square
# root of its spectrum on a periodic grid.

_ENVIRONMENT_HEIGHT_M = 1.0  # h_E of table 7.4.1-1, note 1, for users below 13 m


def line_of_sight_probability(distance_m: FloatArray) -> FloatArray:
    """Return P(LOS) at a ground distance, (...), for users below 13 m: table 7.4.2-1, UMa."""
    d = np.maximum(distance_m, 18.0)
    probability: FloatArray = 18 / d + np.exp(-d / 63) * (1 - 18 / d)
    return probability


def path_loss_db(
    distance_m: FloatArray, sight: BoolArray, *, frequency_ghz: float, base_height_m: float, user_height_m: float
) -> FloatArray:
    """Return the UMa path loss, (...), for ground distances of 10 m and more: table 7.4.1-1.

    Args:
        distance_m: Distance on the ground, (...); nearer than 10 m counts as 10 m.
        sight: Whether there is line of sight, (...).
        frequency_ghz: Carrier frequency.
        base_height_m: Height of the antenna.
        user_height_m: Height of the user.
    """
    d2 = np.maximum(distance_m, 10.0)
    d3 = np.hypot(d2, base_height_m - user_height_m)
    carrier = 20 * np.log10(frequency_ghz)
    above = (base_height_m - _ENVIRONMENT_HEIGHT_M) * (user_height_m - _ENVIRONMENT_HEIGHT_M)
    break_point = 4 * above * frequency_ghz * 1e9 / LIGHT_SPEED
    near = 28.0 + 22 * np.log10(d3) + carrier
    far = 28.0 + 40 * np.log10(d3) + carrier - 9 * np.log10(break_point**2 + (base_height_m - user_height_m) ** 2)
    los = np.where(d2 <= break_point, near, far)
    nlos = 13.54 + 39.08 * np.log10(d3) + carrier - 0.6 * (user_height_m - 1.5)
    loss: FloatArray = np.where(sight, los, np.maximum(los, nlos))
    return loss


def wall_loss_db(frequency_ghz: float, *, high: bool) -> float:
    """Return the loss through an outer wall, table 7.4.3-2: the low-loss or the high-loss building."""
    glass, coated = 2 + 0.2 * frequency_ghz, 23 + 0.3 * frequency_ghz  # table 7.4.3-1
    concrete = 5 + 4 * frequency_ghz
    if high:
        through = 0.7 * 10 ** (-coated / 10) + 0.3 * 10 ** (-concrete / 10)
    else:
        through = 0.3 * 10 ** (-glass / 10) + 0.7 * 10 ** (-concrete / 10)
    return float(5 - 10 * np.log10(through))


WALL_DEVIATION_DB = (4.4, 6.5)
"""Standard deviation of the wall loss, low and high: table 7.4.3-2."""

INDOOR_LOSS_DB_M = 0.5
"""Loss per metre indoors, table 7.4.3-2; the depth is the smaller of two even draws up to 25 m (UMa)."""

INDOOR_DEPTH_M = 25.0


def correlated_field(
    shape: tuple[int, int], distance_m: float, *, resolution_m: float, rng: np.random.Generator
) -> FloatArray:
    """Return a standard normal field, `shape`, whose correlation falls as exp(−d/distance)."""
    # A rim of three correlation distances keeps the two ends of the periodic grid independent.
    rows, columns = (size + int(np.ceil(6 * distance_m / resolution_m)) for size in shape)
    y, x = (np.minimum(np.arange(n), n - np.arange(n)) * resolution_m for n in (rows, columns))
    covariance = np.exp(-np.hypot(y[:, None], x[None, :]) / distance_m)
    spectrum = np.maximum(np.fft.fft2(covariance).real, 0.0)
    noise = np.fft.fft2(rng.standard_normal((rows, columns)))
    field: FloatArray = np.fft.ifft2(np.sqrt(spectrum) * noise).real[: shape[0], : shape[1]]
    return field


# --- Sector antennas: the pattern of TR 36.814 table A.2.1.1-2, horizontal and vertical cuts added up ---------------


def antenna_gain_db(
    off_azimuth_deg: FloatArray, elevation_deg: FloatArray, *, tilt_deg: float, radio: Radio
) -> FloatArray:
    """Return the gain relative to the boresight, (...), never positive.

    Args:
        off_azimuth_deg: Angle between the user and the sector's azimuth, any turn, (...).
        elevation_deg: Angle below the horizon at which the user is seen, (...).
        tilt_deg: How far the antenna looks below the horizon.
        radio: Beam widths and limits.
    """
    off = (off_azimuth_deg + 180) % 360 - 180
    horizontal = np.minimum(12 * (off / radio.horizontal_beam_deg) ** 2, radio.front_to_back_db)
    vertical = np.minimum(12 * ((elevation_deg - tilt_deg) / radio.vertical_beam_deg) ** 2, radio.side_lobe_db)
    gain: FloatArray = -np.minimum(horizontal + vertical, radio.front_to_back_db)
    return gain


def planned_tilt_deg(site_distance_m: float, *, radio: Radio) -> float:
    """Return the tilt of a sector whose next site is so far away.

    The upper half-power edge of the beam points at two thirds of the distance, the farthest corner of a hexagonal
    sector: the angle to that point plus half a beam (assumption: a planner's rule). At 500 m this gives 9 degrees
    and at 1,732 m 6; ITU-R M.2292 has 10 for urban and 6 for suburban macro cells.
    """
    height = radio.base_height_m - radio.user_height_m
    return float(np.degrees(np.arctan(height / (2 / 3 * site_distance_m))) + radio.vertical_beam_deg / 2)
