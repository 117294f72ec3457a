"""People of the four kinds of place: business, homes, outskirts and hot spots.

Each kind has its own hours, walls, vehicles and appetite; together with where the places are, that is what makes
stations differ and their best thresholds move during the day. Numbers marked *assumption* have no standard behind
them: they are set so that a city of 105 stations has about 3,000 connected users and is really loaded from late
afternoon on, while the centre empties in the evening and homes are quiet in the afternoon.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class LandUse:
    """People of one kind of place: how many, when, how they move and what they load.

    `profile` is the number of connected users relative to the busiest hour, at 0, 2, …, 22 h, linear in between. The
    shapes follow the office, residential, transport and entertainment patterns of Xu et al., "Understanding mobile
    traffic patterns of large scale cellular towers in urban environment" (IEEE/ACM Trans. Networking 25(2), 2017),
    drawn by eye: assumption.

    Example:
        >>> LAND_USES[0].name, LAND_USES[0].indoor
        ('business', 0.8)
    """

    name: str
    users: float  # connected users in the busiest hour, in a city of 105 stations at load 1: assumption
    profile: tuple[float, ...]
    indoor: float  # share; 0.8 in TR 38.901 table 7.2-1
    high_loss: (
        float  # share of indoor users in high-loss buildings; 0.2 in ITU-R M.2412, dense urban: assumption around it
    )
    vehicles: float  # share of outdoor users that ride: assumption
    vehicle_kmh: float  # ITU-R M.2412, dense urban: 30 km/h in cars; 60 on outer roads: assumption
    sessions_per_minute: float  # bulk sessions of a connected user: assumption, sets the load
    packets_per_s: float  # small packets of a connected user: assumption


LAND_USES = (
    LandUse(
        name="business",
        users=1350,
        profile=(0.06, 0.05, 0.05, 0.15, 0.70, 1.00, 0.95, 1.00, 0.90, 0.50, 0.28, 0.14),
        indoor=0.8,
        high_loss=0.4,
        vehicles=0.3,
        vehicle_kmh=30.0,
        sessions_per_minute=1.8,
        packets_per_s=24.0,
    ),
    LandUse(
        name="residential",
        users=1700,
        profile=(0.35, 0.15, 0.10, 0.25, 0.40, 0.38, 0.42, 0.40, 0.55, 0.85, 1.00, 0.90),
        indoor=0.8,
        high_loss=0.15,
        vehicles=0.3,
        vehicle_kmh=30.0,
        sessions_per_minute=2.1,
        packets_per_s=14.0,
    ),
    LandUse(
        name="outskirts",
        users=460,
        profile=(0.20, 0.10, 0.10, 0.40, 0.80, 0.50, 0.50, 0.50, 0.80, 1.00, 0.75, 0.50),
        indoor=0.6,
        high_loss=0.1,
        vehicles=0.7,
        vehicle_kmh=60.0,
        sessions_per_minute=1.8,
        packets_per_s=14.0,
    ),
    LandUse(
        name="hot spot",
        users=480,
        profile=(0.10, 0.05, 0.05, 0.15, 0.35, 0.55, 0.75, 0.70, 0.85, 1.00, 0.80, 0.35),
        indoor=0.6,
        high_loss=0.3,
        vehicles=0.1,
        vehicle_kmh=30.0,
        sessions_per_minute=2.0,
        packets_per_s=20.0,
    ),
)
