"""Sector antennas: the pattern of TR 36.814 table A.2.1.1-2, horizontal and vertical cuts added up."""

import numpy as np

from kinband.arrays import FloatArray
from kinband.environments.radio.parameters import Radio


def antenna_gain_db(
    off_azimuth_deg: FloatArray, elevation_deg: FloatArray, *, tilt_deg: float, radio: Radio
) -> FloatArray:
    """Return the gain relative to the boresight, (...), never positive.

    Args:
        off_azimuth_deg: Angle between the user and the sector's azimuth, any turn, (...).
        elevation_deg: Angle below the horizon at which the user is seen, (...).
        tilt_deg: How far the antenna looks below the horizon.
        radio: Beam widths and limits.

    Example:
        >>> at = np.array([0.0, 35.0, 70.0, 180.0])
        >>> (-antenna_gain_db(at, np.full(4, 8.0), tilt_deg=8.0, radio=Radio())).tolist()
        [0.0, 3.0, 12.0, 25.0]
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

    Example:
        >>> round(planned_tilt_deg(500.0, radio=Radio()), 1)
        9.0
    """
    height = radio.base_height_m - radio.user_height_m
    return float(np.degrees(np.arctan(height / (2 / 3 * site_distance_m))) + radio.vertical_beam_deg / 2)
