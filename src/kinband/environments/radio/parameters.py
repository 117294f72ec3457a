"""Every number of the radio network, with where it comes from.

Values of the standard carry the document and the table; values that the standard leaves to the operator, or that
describe people and buildings, say *assumption* and why they are reasonable. A network is rebuilt from its layout's seed
and these records alone, so they are what the trace's side file stores.
"""

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from math import log10
from typing import Any

from kinband.arrays import finite_number, positive_number
from kinband.environments.contract import whole_number
from kinband.errors import BadInputError

# --- The carriers of a sector, its frequency layers, in order from capacity to coverage -----------------------------
#
# Every sector has the same layers. The first is where users should be: wide, at a high frequency, hence with a short
# reach; the last is where they end up when nothing else reaches them. Event A2 takes a user down this list and event
# A4 up, one layer at a time. A lower layer reaches farther: less path loss (20·log10 of the frequency), thinner walls.
#
# A sector has one threshold for all its layers, which each layer may shift. Unshifted, a layer between the first and
# the last would hold only the few users whom the 3 dB between 2.6 and 1.8 GHz lift over the same threshold, and stay
# nearly empty; operators therefore leave such layers at a lower level than the first.

RESOURCE_BLOCK_HZ = 180e3  # TS 36.211 table 6.2.3-1: 12 subcarriers of 15 kHz
SUBCARRIERS = 12  # per resource block, TS 36.211 table 6.2.3-1
FREQUENCIES_GHZ = (0.5, 100.0)  # TR 38.901 table 7.4.1-1, note 2: where its path loss holds
# Assumption: how far below the first layer's threshold the last but one is left. The lowest threshold of the paper,
# −112 dBm, becomes −120 dBm there, 3 dB above the noise of a resource element.
LOWEST_OFFSET_DB = -8.0


@dataclass(frozen=True)
class Layer:
    """One carrier that every sector has.

    Attributes:
        name: What figures and files call it.
        frequency_ghz: Carrier frequency.
        resource_blocks: Bandwidth in blocks of 180 kHz.
        power_dbm: Transmitted power of a cell over the whole band.
        antenna_gain_dbi: Gain of the sector's antenna on its boresight.
        threshold_offset_db: Added to the sector's threshold on this layer, for event A2 of its users and event A4 of
            those who come up to it; means nothing on the last layer.

    Example:
        >>> CAPACITY.occupied_hz / 1e6, round(CAPACITY.element_power_dbm, 1)
        (18.0, 18.2)
    """

    name: str
    frequency_ghz: float
    resource_blocks: int
    power_dbm: float
    antenna_gain_dbi: float
    threshold_offset_db: float = 0.0

    def __post_init__(self) -> None:
        low, high = FREQUENCIES_GHZ
        if not low <= positive_number(self.frequency_ghz, name="frequency_ghz") <= high:
            raise BadInputError(f"a layer lies between {low:g} and {high:g} GHz, got {self.frequency_ghz:g}")
        whole_number(self.resource_blocks, name="resource_blocks", least=1)
        finite_number(self.power_dbm, name="power_dbm")
        finite_number(self.antenna_gain_dbi, name="antenna_gain_dbi")
        finite_number(self.threshold_offset_db, name="threshold_offset_db")

    @property
    def occupied_hz(self) -> float:
        """Bandwidth of all resource blocks."""
        return self.resource_blocks * RESOURCE_BLOCK_HZ

    @property
    def element_power_dbm(self) -> float:
        """Power of one resource element, P − 10·log10(12·N_RB): what RSRP is measured on (TS 36.214 clause 5.1.1)."""
        return self.power_dbm - 10 * log10(SUBCARRIERS * self.resource_blocks)


# TS 36.101 table 5.6-1: 100 blocks in 20 MHz, 50 in 10 MHz. TR 36.814 table A.2.1.1-2: 46 dBm in 10 MHz, 49 in 20.
# Gains: 17 dBi for urban macro in ITU-R M.2135 (TR 36.814 annex A.2.1 has 14 with cable losses, ITU-R M.2292 16);
# 2 dB less at 0.8 GHz is an assumption: a panel of the same size is less directive there, and TR 36.942 clause 4.2
# also has a smaller gain at 900 MHz than at 2 GHz.
CAPACITY = Layer("capacity", frequency_ghz=2.6, resource_blocks=100, power_dbm=49.0, antenna_gain_dbi=17.0)
COVERAGE = Layer("coverage", frequency_ghz=0.8, resource_blocks=50, power_dbm=46.0, antenna_gain_dbi=15.0)


def layers_at(frequencies_ghz: Sequence[float]) -> tuple[Layer, ...]:
    """Return layers at some frequencies, from capacity to coverage: 20 MHz from 1 GHz on, 10 MHz below.

    Power and antenna gain are those of the default layer of the same width, so that `layers_at([2.6, 0.8])` are
    the default layers. Thresholds of the layers in between go down evenly to LOWEST_OFFSET_DB on the last but one.
    Build `Layer`s yourself for anything else.

    Example:
        >>> [(layer.name, layer.resource_blocks, layer.threshold_offset_db) for layer in layers_at([2.6, 1.8, 0.8])]
        [('capacity', 100, 0.0), ('1.8 GHz', 100, -8.0), ('coverage', 50, 0.0)]
    """
    ghz = [positive_number(f, name="a layer's frequency in GHz") for f in frequencies_ghz]
    if len(ghz) < 2 or any(low >= high for high, low in pairwise(ghz)):
        raise BadInputError(f"name two frequencies or more in falling order, such as 2.6, 1.8, 0.8; got {_list(ghz)}")
    names = ("capacity", *(f"{f:g} GHz" for f in ghz[1:-1]), "coverage")
    between = len(ghz) - 2
    offsets = (0.0, *(LOWEST_OFFSET_DB * number / between for number in range(1, between + 1)), 0.0)
    return tuple(_layer(name, f, offset_db) for name, f, offset_db in zip(names, ghz, offsets, strict=True))


def layers_named(text: str) -> tuple[Layer, ...]:
    """Return the layers of a list such as "2.6,1.8,0.8", in GHz from capacity to coverage.

    Example:
        >>> layers_named("2.6, 0.8") == (CAPACITY, COVERAGE)
        True
    """
    parts = [part.strip() for part in text.split(",")]
    if not all(re.fullmatch(r"\d+(\.\d*)?|\.\d+", part) for part in parts):
        raise BadInputError(f"layers are frequencies in GHz parted by commas, such as 2.6,1.8,0.8; got {text!r}")
    return layers_at([float(part) for part in parts])


def checked_layers(layers: Sequence[Layer]) -> tuple[Layer, ...]:
    """Return two or more layers with names of their own, or say what is wrong."""
    if not isinstance(layers, Sequence) or not all(isinstance(layer, Layer) for layer in layers):
        raise BadInputError(f"layers must be Layer records from capacity to coverage, got {layers!r}")
    if len(layers) < 2:
        raise BadInputError(f"the threshold moves users between layers: give two or more, got {len(layers)}")
    names = [layer.name for layer in layers]
    if len(set(names)) < len(names):
        raise BadInputError(f"layers need names of their own, got {', '.join(names)}: rename all but one")
    return tuple(layers)


def _layer(name: str, ghz: float, offset_db: float) -> Layer:
    like = CAPACITY if ghz >= 1 else COVERAGE
    return Layer(
        name,
        frequency_ghz=ghz,
        resource_blocks=like.resource_blocks,
        power_dbm=like.power_dbm,
        antenna_gain_dbi=like.antenna_gain_dbi,
        threshold_offset_db=offset_db,
    )


def _list(numbers: Sequence[float]) -> str:
    return ", ".join(f"{number:g}" for number in numbers) or "none"


# --- People of the four kinds of place: business, homes, outskirts and hot spots ------------------------------------
#
# Each kind has its own hours, walls, vehicles and appetite; together with where the places are, that is what makes
# stations differ and their best thresholds move during the day. Numbers marked *assumption* have no standard behind
# them: they are set so that a city of 105 stations has about 3,000 connected users and is really loaded from late
# afternoon on, while the centre empties in the evening and homes are quiet in the afternoon.


@dataclass(frozen=True)
class LandUse:
    """People of one kind of place: how many, when, how they move and what they load.

    `profile` is the number of connected users relative to the busiest hour, at 0, 2, …, 22 h, linear in between. The
    shapes follow the office, residential, transport and entertainment patterns of Xu et al., "Understanding mobile
    traffic patterns of large scale cellular towers in urban environment" (IEEE/ACM Trans. Networking 25(2), 2017),
    drawn by eye: assumption.
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


# --- Radio, handover rules, traffic, sleep --------------------------------------------------------------------------

LIGHT_SPEED = 299_792_458.0  # m/s
SUBCARRIER_HZ = 15e3  # TS 36.211 clause 6.2.3
THERMAL_NOISE_DBM_HZ = -174.0  # kT at 290 K, TR 36.814 table A.2.1.1-2
# TS 36.213 table 7.2.3-1: bits per symbol of CQI 1 to 15.
CQI_EFFICIENCIES = (
    *(0.1523, 0.2344, 0.3770, 0.6016, 0.8770, 1.1758, 1.4766, 1.9141),
    *(2.4063, 2.7305, 3.3223, 3.9023, 4.5234, 5.1152, 5.5547),
)
CQI_LEVELS = 1 + len(CQI_EFFICIENCIES)  # 0 stands for out of range
GOOD_CQI = 10  # TS 36.213 table 7.2.3-1: 64QAM from here on


@dataclass(frozen=True)
class Radio:
    """Antennas, receivers and the rate that a signal buys."""

    base_height_m: float = 25.0  # TR 38.901 table 7.2-1, UMa
    user_height_m: float = 1.5  # TR 38.901 table 7.2-1, outdoors and on the ground floor
    floor_height_m: float = 3.0  # TR 36.873 table 6-1: 3 m a floor
    floors: tuple[int, int] = (4, 8)  # TR 36.873 table 6-1: a building has 4 to 8, the user is on any of them
    height_gain_db_m: float = 0.6  # TR 38.901 table 7.4.1-1, UMa NLOS: the path loss falls so much per metre
    horizontal_beam_deg: float = 70.0  # TR 36.814 table A.2.1.1-2
    front_to_back_db: float = 25.0  # TR 36.814 table A.2.1.1-2
    vertical_beam_deg: float = 10.0  # TR 36.814 table A.2.1.1-2
    side_lobe_db: float = 20.0  # TR 36.814 table A.2.1.1-2
    noise_figure_db: float = 9.0  # TR 36.814 table A.2.1.1-2
    shadowing_los_db: float = 4.0  # TR 38.901 table 7.4.1-1
    shadowing_nlos_db: float = 6.0  # TR 38.901 table 7.4.1-1
    correlation_los_m: float = 37.0  # TR 38.901 table 7.5-6 part 1, UMa
    correlation_nlos_m: float = 50.0  # TR 38.901 table 7.5-6 part 1, UMa
    correlation_sight_m: float = 50.0  # TR 38.901 table 7.6.3.1-2: LOS/NLOS state, UMa
    site_correlation: float = 0.5  # TR 36.942 and TR 36.814 table A.2.1.1-2: between sites; 1 within one
    shannon_share: float = 0.6  # alpha, TR 36.942 annex A.2
    least_sinr_db: float = -10.0  # TR 36.942 annex A.2
    most_bits_hz: float = 4.4  # TR 36.942 annex A.2
    # Gap to capacity of QAM at a bit error rate of 5e-5, −ln(5·BER)/1.5: turns SINR into the efficiency that a CQI
    # promises (Piro et al., IEEE Trans. Vehicular Technology 60(2), 2011; also the default of ns-3's LTE module).
    cqi_gap: float = 5.53
    # Cell-specific reference symbols of two ports take 16 of 168 resource elements (TS 36.211 clause 6.10.1.2): an
    # empty cell interferes this much of the time.
    idle_load: float = 0.095
    load_memory: float = 0.5  # assumption: weight of the last second in the load that neighbours see

    @property
    def noise_dbm(self) -> float:
        """Thermal noise in one resource element of 15 kHz."""
        from math import log10

        return THERMAL_NOISE_DBM_HZ + 10 * log10(SUBCARRIER_HZ) + self.noise_figure_db


@dataclass(frozen=True)
class Mobility:
    """Handover rules in the words of TS 36.331 and their costs; all levels in dB or dBm."""

    a2_hysteresis_db: float = 1.0  # TS 36.331 IE Hysteresis: steps of 0.5 dB; assumption within 0..15
    return_margin_db: float = 4.0  # assumption (operator practice): back up at threshold + 4 dB, event A4
    a3_offset_db: float = 3.0  # TS 36.331 IE a3-Offset, steps of 0.5 dB; 2 to 3 dB in the study TR 36.839
    a3_hysteresis_db: float = 0.0  # assumption: the offset alone decides
    time_to_trigger_s: float = 0.64  # TS 36.331 IE TimeToTrigger: one of its sixteen values
    filter_coefficient: int = 4  # TS 36.331 clause 5.5.3.2, default fc4: a = 1/2^(k/4) per sample
    sample_period_s: float = 0.2  # TS 36.133 clause 8.1.2.2: layer-1 measurement period of 200 ms
    # Assumption: what fast fading leaves in a layer-1 sample; TS 36.133 clause 9.1.2 only bounds the error by 6 dB.
    sample_error_db: float = 1.0
    interruption_s: float = 0.05  # about 50 ms without data: TS 36.133 clause 5.1.2, with the target cell known
    gap_length_s: float = 0.006  # TS 36.133 table 8.1.2.1-1
    gap_period_s: float = 0.08  # TS 36.133 table 8.1.2.1-1, pattern 1
    ping_pong_s: float = 5.0  # assumption: TR 36.839 takes 1 s, which is one step here

    @property
    def gap_share(self) -> float:
        """Share of time that a user with measurement gaps cannot receive."""
        return self.gap_length_s / self.gap_period_s


@dataclass(frozen=True)
class Traffic:
    """What users load, and when they are satisfied."""

    file_bytes: float = 2e6  # TR 36.814 clause A.2.1.3.1: FTP model 1, 2 Mbytes
    # NGMN, "Radio access performance evaluation methodology" (2008), FTP: lognormal, mean 2 Mbytes, sd 0.722, cut at 5.
    file_deviation_bytes: float = 0.722e6
    file_most_bytes: float = 5e6
    good_bps: float = 5e6  # the paper: users with throughput of at least 5 Mbps
    patience: float = 4.0  # assumption: a session is given up at four times the time that 5 Mbps would take
    connected_s: float = 240.0  # assumption: mean time that a user stays connected
    packet_bytes: float = 300.0  # assumption: a voice frame has under 100 bytes, a chat message or a feed item more
    bulk_sdu_bytes: float = 1500.0  # Ethernet's largest payload, RFC 894
    pedestrian_kmh: float = 3.0  # TR 38.901 table 7.2-1
    turn_s: float = 60.0  # assumption: mean time between changes of direction


@dataclass(frozen=True)
class EnergySaving:
    """When capacity carriers sleep and wake, and what a carrier takes (`sleeping`)."""

    # Auer et al., IEEE Wireless Communications 18(5), 2011, table II: a macro base station, by transceiver. Its three
    # sectors have two transceivers each in 10 MHz, our coverage carrier; 49 dBm in 20 MHz need four.
    most_w: float = 20.0  # P_max, at the antenna
    fixed_w: float = 130.0  # P_0, at the least output that is not zero
    slope: float = 4.7  # Delta_p, more taken for each watt put out
    asleep_w: float = 75.0  # P_sleep
    hold_s: float = 60.0  # assumption: TS 28.541 clause 4.3.58 has a timeDuration, and no value for it
    wake_margin: float = 10.0  # assumption: per cent of the coverage carrier above the threshold, so that none flaps
    memory_s: float = 30.0  # assumption: the load is a mean that forgets within so many seconds

    def __post_init__(self) -> None:
        for name in ("most_w", "fixed_w", "slope", "asleep_w", "memory_s"):
            positive_number(getattr(self, name), name=name)
        for name in ("hold_s", "wake_margin"):
            if finite_number(getattr(self, name), name=name) < 0:
                raise BadInputError(f"{name} must be 0 or more, got {getattr(self, name):g}")


@dataclass(frozen=True)
class Parameters:
    """All parameters of a network.

    Attributes:
        load: Multiplies the number of connected users.
        layers: The carriers of every sector from capacity to coverage, two or more: the numbers 0, 1, … of a layer
            everywhere. A sector's threshold acts on all but the last, shifted by each layer's offset.
        saving: If given, capacity carriers sleep at little load, and the load below which they do is what sectors
            choose; handover thresholds then stay at `start_threshold_dbm`.

    Example:
        >>> Parameters(load=0.5).to_dict()["load"]
        0.5
    """

    load: float = 1.0
    layers: tuple[Layer, ...] = (CAPACITY, COVERAGE)
    radio: Radio = field(default_factory=Radio)
    mobility: Mobility = field(default_factory=Mobility)
    traffic: Traffic = field(default_factory=Traffic)
    land_uses: tuple[LandUse, ...] = LAND_USES
    step_s: float = 1.0
    start_threshold_dbm: float = -100.0
    saving: EnergySaving | None = None

    def __post_init__(self) -> None:
        positive_number(self.load, name="load")
        positive_number(self.step_s, name="step_s")
        finite_number(self.start_threshold_dbm, name="start_threshold_dbm")
        object.__setattr__(self, "layers", checked_layers(self.layers))
        if len(self.land_uses) != len(LAND_USES):
            raise BadInputError(f"a layout has {len(LAND_USES)} kinds of land use, got {len(self.land_uses)}")

    def to_dict(self) -> dict[str, Any]:
        """Return all parameters as JSON-able values, without `saving` where nothing sleeps."""
        return {name: value for name, value in asdict(self).items() if name != "saving" or value is not None}
