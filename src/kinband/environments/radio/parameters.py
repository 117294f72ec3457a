"""Every number of the radio network, with where it comes from.

Values of the standard carry the document and the table; values that the standard leaves to the operator, or that
describe people and buildings, say *assumption* and why they are reasonable. Carriers are in `layers`, people in
`land_use`. A network is rebuilt from its layout's seed and these records alone, so they are what the trace's side
file stores.
"""

from dataclasses import asdict, dataclass, field
from typing import Any

from kinband.arrays import finite_number, positive_number
from kinband.environments.radio.land_use import LAND_USES, LandUse
from kinband.environments.radio.layers import CAPACITY, COVERAGE, Layer, checked_layers
from kinband.errors import BadInputError

LIGHT_SPEED = 299_792_458.0  # m/s
SUBCARRIER_HZ = 15e3  # TS 36.211 clause 6.2.3
THERMAL_NOISE_DBM_HZ = -174.0  # kT at 290 K, TR 36.814 table A.2.1.1-2
# TS 36.213 table 7.2.3-1: bits per symbol of CQI 1 to 15.
CQI_EFFICIENCIES = (
    *(0.1523, 0.2344, 0.3770, 0.6016, 0.8770, 1.1758, 1.4766, 1.9141),
    *(2.4063, 2.7305, 3.3223, 3.9023, 4.5234, 5.1152, 5.5547),
)
GOOD_CQI = 10  # TS 36.213 table 7.2.3-1: 64QAM from here on


@dataclass(frozen=True)
class Radio:
    """Antennas, receivers and the rate that a signal buys.

    Example:
        >>> round(Radio().noise_dbm, 1)  # in one resource element
        -123.2
    """

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
    """Handover rules in the words of TS 36.331 and their costs; all levels in dB or dBm.

    Example:
        >>> Mobility().return_margin_db
        4.0
    """

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
    """What users load, and when they are satisfied.

    Example:
        >>> Traffic().file_bytes
        2000000.0
    """

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
class Parameters:
    """All parameters of a network.

    Attributes:
        load: Multiplies the number of connected users.
        layers: The carriers of every sector from capacity to coverage, two or more: the numbers 0, 1, … of a layer
            everywhere. A sector's threshold acts on all but the last, shifted by each layer's offset.

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

    def __post_init__(self) -> None:
        positive_number(self.load, name="load")
        positive_number(self.step_s, name="step_s")
        finite_number(self.start_threshold_dbm, name="start_threshold_dbm")
        object.__setattr__(self, "layers", checked_layers(self.layers))
        if len(self.land_uses) != len(LAND_USES):
            raise BadInputError(f"a layout has {len(LAND_USES)} kinds of land use, got {len(self.land_uses)}")

    def to_dict(self) -> dict[str, Any]:
        """Return all parameters as JSON-able values."""
        return asdict(self)
