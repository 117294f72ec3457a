"""The carriers of a sector, its frequency layers, in order from capacity to coverage.

Every sector has the same layers. The first is where users should be: wide, at a high frequency, hence with a short
reach; the last is where they end up when nothing else reaches them. Event A2 takes a user down this list and event
A4 up, one layer at a time. A lower layer reaches farther: less path loss (20·log10 of the frequency), thinner walls.

A sector has one threshold for all its layers, which each layer may shift. Unshifted, a layer between the first and the
last would hold only the few users whom the 3 dB between 2.6 and 1.8 GHz lift over the same threshold, and stay
nearly empty; operators therefore leave such layers at a lower level than the first.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import log10

from kinband.arrays import finite_number, positive_number
from kinband.environments.contract import whole_number
from kinband.errors import BadInputError

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
    """Return two or more layers with names of their own, or say what is wrong.

    Example:
        >>> checked_layers([CAPACITY, COVERAGE])[0].name
        'capacity'
    """
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
