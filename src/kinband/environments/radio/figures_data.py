"""Numbers behind the engineer's check figures; the figures themselves are drawn elsewhere.

Coupling loss and SINR distributions to lay beside published calibration curves, CQI and load histograms, handovers
and ping-pongs per user-hour, and the satisfied share against the threshold for the network and for six named sectors
(the two busiest of each of the three kinds of sector that matter most).
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from kinband.arrays import FloatArray
from kinband.environments.radio.checks import GRID_DBM, measure
from kinband.environments.radio.counters import Report
from kinband.environments.radio.maps import PowerMap
from kinband.environments.radio.network import Network
from kinband.environments.radio.parameters import CQI_EFFICIENCIES, Parameters
from kinband.environments.radio.sharing import cqi_of

QUANTILES = tuple(np.linspace(0, 1, 101).tolist())


def check_figures(
    map_: PowerMap,
    parameters: Parameters,
    *,
    hour: float = 18.0,
    seconds: float = 300.0,
    seeds: Sequence[int] = (0,),
    thresholds: Sequence[float] = GRID_DBM,
) -> dict[str, Any]:
    """Run the network and return the data of all check figures, JSON-able.

    Returns:
        "quantiles": 0, 0.01, …, 1; "coupling_loss_db" and "sinr_db": values at these, for each layer's users;
        "cqi_histogram": share of CQI 0 to 15; "load_histogram": for each layer, cells per tenth of utilisation;
        "thresholds"; against them "handovers_per_user_hour" (down, up, within), "ping_pong_share" of all handovers,
        "network_share", "own_cell_share" and "sectors", a mapping from six station names to shares.

    Example:
        >>> from kinband.environments.radio.layout import draw_layout
        >>> from kinband.environments.radio.maps import build_map
        >>> data = check_figures(
        ...     build_map(draw_layout(6), Parameters()), Parameters(), seconds=10, thresholds=[-104, -92]
        ... )
        >>> len(data["network_share"]), len(data["sectors"])
        (2, 6)
    """
    S = len(map_.layout.names)
    middle = float(parameters.start_threshold_dbm)
    network = Network(map_, parameters, seed=seeds[0], hour=hour)
    report = network.run_period(np.full(S, middle), seconds=seconds)
    runs = [
        [measure(map_, parameters, np.full(S, float(t)), seed=s, hour=hour, seconds=seconds) for s in seeds]
        for t in thresholds
    ]
    return _snapshot(network, report) | _against_threshold(map_, runs, thresholds)


def _snapshot(network: Network, report: Report) -> dict[str, Any]:
    """Distributions over the users that are connected at the end of a run."""
    p, alive = network.parameters, network.people.alive
    sinr = network.sinr()[alive]
    layer = network.layer[alive]
    loss, quality = {}, {}
    for number, carrier in enumerate(p.layers):
        received = network.serving_dbm()[alive][layer == number]
        loss[carrier.name] = _quantiles(carrier.element_power_dbm - received)
        quality[carrier.name] = _quantiles(10 * np.log10(sinr[layer == number]))
    cqi = np.bincount(cqi_of(sinr, radio=p.radio), minlength=len(CQI_EFFICIENCIES) + 1)
    histogram = [np.histogram(used, bins=10, range=(0, 1.0001))[0].tolist() for used in report.utilisation]
    return {
        "quantiles": list(QUANTILES),
        "coupling_loss_db": loss,
        "sinr_db": quality,
        "cqi_histogram": (cqi / max(1, cqi.sum())).tolist(),
        "load_histogram": dict(zip((layer.name for layer in p.layers), histogram, strict=True)),
    }


def _against_threshold(map_: PowerMap, runs: list[list[Report]], thresholds: Sequence[float]) -> dict[str, Any]:
    hours = np.array([sum(r.users.sum() * r.seconds / 3600 for r in row) for row in runs])
    handovers = np.array([sum(r.handovers.sum(axis=1) for r in row) for row in runs])
    back = np.array([sum(int(r.ping_pongs.sum()) for r in row) for row in runs])
    named = _six_sectors(map_)
    share = [_share([r.satisfied for r in row], [r.sessions for r in row]) for row in runs]
    return {
        "thresholds": [float(t) for t in thresholds],
        "handovers_per_user_hour": {
            kind: (handovers[:, k] / np.maximum(hours, 1e-9)).tolist()
            for k, kind in enumerate(("down", "up", "within"))
        },
        "ping_pong_share": (back / np.maximum(handovers.sum(axis=1), 1)).tolist(),
        "network_share": [_total(row, "satisfied", "sessions") for row in runs],
        "own_cell_share": [_total(row, "capacity_satisfied", "capacity_sessions") for row in runs],
        "sectors": {map_.layout.names[s]: [float(shares[s]) for shares in share] for s in named},
    }


def _total(row: list[Report], part: str, whole: str) -> float:
    return float(sum(getattr(r, part).sum() for r in row) / max(1, sum(getattr(r, whole).sum() for r in row)))


def _share(part: list[Any], whole: list[Any]) -> FloatArray:
    return np.asarray(np.sum(part, axis=0) / np.maximum(np.sum(whole, axis=0), 1), dtype=np.float64)


def _six_sectors(map_: PowerMap) -> list[int]:
    """The two sectors with the most demand of business, homes and hot spots, (6,) all different where possible."""
    demand, chosen = map_.sector_demand(), list[int]()
    for use in (0, 1, 3):
        order = [int(s) for s in np.argsort(-demand[use], kind="stable") if int(s) not in chosen]
        chosen += order[:2]
    return chosen


def _quantiles(values: Any) -> list[float]:
    return [float(v) for v in np.quantile(values, QUANTILES)] if len(values) else []
