"""From signals to served bits: SINR, rate, CQI and how the sessions of a cell share its time.

Interference is coupled to load: a neighbour disturbs for the share of resources it uses, reference symbols at
least. The rate is the truncated and attenuated Shannon bound of TR 36.942 annex A.2. Active sessions of a cell get
equal shares of its time (processor sharing); what a session does not need any more within a step goes to the others.
"""

from dataclasses import dataclass

import numpy as np

from kinband.arrays import FloatArray, IntArray
from kinband.environments.radio.maps import Float32Array
from kinband.environments.radio.parameters import CQI_EFFICIENCIES, Radio

_CQI = np.array(CQI_EFFICIENCIES)


def interference_mw(power: Float32Array, load: Float32Array) -> Float32Array:
    """Return the power received from all cells of each layer, weighted by their load, (n, L).

    Args:
        power: Received power per resource element, (n, L, S).
        load: Share of resources in use, (L, S).

    Example:
        >>> power = np.array([[[2.0, 4.0], [1.0, 1.0]]], dtype=np.float32)
        >>> interference_mw(power, np.array([[0.5, 0.25], [1.0, 0.0]], dtype=np.float32)).tolist()
        [[2.0, 1.0]]
    """
    # einsum and not matmul: its sums do not depend on the number of BLAS threads.
    return np.asarray(np.einsum("nls,ls->nl", power, load), dtype=np.float32)


def bits_per_hz(sinr: FloatArray | Float32Array, *, radio: Radio) -> FloatArray:
    """Return the spectral efficiency at a linear SINR, (n,): 0 below the least, α·log2(1 + SINR), at most the cap.

    Example:
        >>> bits_per_hz(np.array([0.05, 3.0, 1e6]), radio=Radio()).round(3).tolist()
        [0.0, 1.2, 4.4]
    """
    efficiency = np.minimum(radio.shannon_share * np.log2(1 + sinr), radio.most_bits_hz)
    return np.where(sinr < 10 ** (radio.least_sinr_db / 10), 0.0, efficiency)


def cqi_of(sinr: FloatArray | Float32Array, *, radio: Radio) -> IntArray:
    """Return the CQI, 0 to 15, whose efficiency a linear SINR supports, (n,).

    Example:
        >>> cqi_of(np.array([0.01, 10.0, 1000.0]), radio=Radio()).tolist()
        [0, 7, 15]
    """
    return np.asarray(np.searchsorted(_CQI, np.log2(1 + sinr / radio.cqi_gap), side="right"), dtype=np.int64)


@dataclass(frozen=True, eq=False)
class Service:
    """What one step gave the n active sessions and took from the cells.

    Attributes:
        bits: Bits served, (n,).
        finished: Whether nothing remains, (n,).
        elapsed: Share of the step after which a finished session had its last bit, 1 for the others, (n,).
        airtime: Share of the step that each cell spent on bulk sessions, (cells,).

    Example:
        >>> Service(np.array([8e6]), np.array([True]), np.array([0.5]), np.array([0.5])).bits.tolist()
        [8000000.0]
    """

    bits: FloatArray
    finished: np.typing.NDArray[np.bool_]
    elapsed: FloatArray
    airtime: FloatArray


def share_cells(
    cell: IntArray, rate_bps: FloatArray, remaining: FloatArray, *, free: FloatArray, step_s: float
) -> Service:
    """Serve active sessions for one step.

    Args:
        cell: Cell of each session, (n,).
        rate_bps: What the session would get alone, (n,).
        remaining: Bits to go, (n,).
        free: Share of each cell's time that small packets leave, (cells,).
        step_s: Length of the step.

    Example:
        >>> cell, rate = np.array([0, 0]), np.array([10.0, 10.0])
        >>> service = share_cells(cell, rate, np.array([2.0, 50.0]), free=np.ones(1), step_s=1.0)
        >>> service.bits.tolist(), service.finished.tolist(), service.elapsed.tolist(), service.airtime.tolist()
        ([2.0, 8.0], [True, False], [0.4, 1.0], [1.0])
    """
    cells = len(free)
    need = remaining / np.maximum(rate_bps, 1e-9)  # seconds alone in the cell
    share = (free * step_s / np.maximum(np.bincount(cell, minlength=cells), 1))[cell]
    used = np.minimum(need, share)
    hungry = need > share
    left = np.bincount(cell, share - used, minlength=cells)
    extra = (left / np.maximum(np.bincount(cell[hungry], minlength=cells), 1))[cell] * hungry
    used = np.minimum(need, share + extra)
    finished = need <= share + extra
    elapsed = np.where(finished, np.minimum(need / np.maximum(share + extra, 1e-12), 1.0), 1.0)
    bits = np.where(finished, remaining, used * rate_bps)
    return Service(bits, finished, elapsed, np.bincount(cell, used, minlength=cells) / step_s)
