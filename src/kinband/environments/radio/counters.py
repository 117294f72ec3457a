"""What a sector counts in a measurement period, and the report that comes of it.

The report holds the state features of the paper's table, the reward (satisfied sessions over all layers of the
sector) and, beside it, what an engineer asks for next: the capacity cell's own count, loads and handovers. A cell
that sheds its weak users looks good by its own count while the sector does not; only the sector's is the reward.
"""

from dataclasses import dataclass

import numpy as np

from kinband.arrays import FloatArray, IntArray

STATE_NAMES = ("active_users", "cqi_share", "small_packet_sdu_share", "small_packet_volume_share", "users")
"""The state features, in the order of the paper's table."""


@dataclass(frozen=True, eq=False)
class Report:
    """Measurements of S sectors with L layers over one period.

    Attributes:
        seconds: Length of the period.
        users: Mean number of connected users (compare RRC.ConnMean), (S,).
        active_users: Mean number of users with a bulk session under way (compare DRB.UEActive), (S,).
        cqi_share: Share of CQI reports of 10 and above, where 64QAM starts (compare CARR.WBCQIDist), (S,).
        small_packet_sdu_share: Share of small packets among all packets, (S,).
        small_packet_volume_share: Share of small packets in the volume, (S,).
        sessions: Bulk sessions decided in the period, over all layers, (S,).
        satisfied: Those with at least 5 Mbps, (S,).
        capacity_sessions: Sessions decided on the first layer's cell alone, (S,).
        capacity_satisfied: Those with at least 5 Mbps, (S,).
        utilisation: Mean share of resources in use, from capacity to coverage, (L, S).
        handovers: By sector left: down a layer, up a layer, within a layer, (3, S).
        ping_pongs: Handovers back to the cell that was left a few seconds ago, by sector left, (S,).

    Example:
        >>> report = Counters(2).report()
        >>> report.good_share.tolist(), report.noise.round(4).tolist()  # nobody asked: even odds, little known
        ([0.5, 0.5], [0.0833, 0.0833])
    """

    seconds: float
    users: FloatArray
    active_users: FloatArray
    cqi_share: FloatArray
    small_packet_sdu_share: FloatArray
    small_packet_volume_share: FloatArray
    sessions: IntArray
    satisfied: IntArray
    capacity_sessions: IntArray
    capacity_satisfied: IntArray
    utilisation: FloatArray
    handovers: IntArray
    ping_pongs: IntArray

    @property
    def good_share(self) -> FloatArray:
        """The reward: share of satisfied sessions of the sector, (S,); one half where there was none."""
        return np.where(self.sessions > 0, self.satisfied / np.maximum(self.sessions, 1), 0.5)

    @property
    def noise(self) -> FloatArray:
        """Variance of the reward, p(1 − p)/n with p = (satisfied + 1)/(n + 2), (S,); 1/12 where n = 0.

        It counts sessions as independent. Sessions of one period share their cell's luck, so the true variance is
        larger.
        """
        n = np.maximum(self.sessions, 1)
        p = (self.satisfied + 1) / (self.sessions + 2)
        return np.where(self.sessions > 0, p * (1 - p) / n, 1 / 12)

    @property
    def network_share(self) -> float:
        """Share of satisfied sessions of the whole network."""
        return float(self.satisfied.sum() / max(1, self.sessions.sum()))

    @property
    def states(self) -> FloatArray:
        """State features in the order of STATE_NAMES, (S, 5)."""
        return np.column_stack([getattr(self, name) for name in STATE_NAMES])


class Counters:
    """Sums over the steps of a period, for S sectors with L layers.

    Example:
        >>> counters = Counters(2)
        >>> counters.verdicts(np.array([0, 1]), np.array([1, 1]), np.array([True, False]))
        >>> counters.report().sessions.tolist(), counters.report().satisfied.tolist()
        ([0, 2], [0, 1])
    """

    def __init__(self, sectors: int, *, layers: int = 2, bulk_sdu_bytes: float = 1500.0) -> None:
        self._bulk_sdu_bytes = bulk_sdu_bytes
        self.seconds = 0.0
        zeros = np.zeros
        self.user_seconds, self.active_seconds = zeros(sectors), zeros(sectors)
        self.reports, self.good_reports = zeros(sectors), zeros(sectors)
        self.small_packets, self.small_bytes = zeros(sectors), zeros(sectors)
        self.bulk_bytes = zeros(sectors)
        cells = (layers, sectors)
        self.sessions, self.satisfied = zeros(cells, dtype=np.int64), zeros(cells, dtype=np.int64)
        self.used_seconds = zeros(cells)
        self.handovers, self.ping_pongs = zeros((3, sectors), dtype=np.int64), zeros(sectors, dtype=np.int64)

    def verdicts(self, layer: IntArray, sector: IntArray, satisfied: np.typing.NDArray[np.bool_]) -> None:
        """Count decided sessions by layer and sector, (n,) each."""
        np.add.at(self.sessions, (layer, sector), 1)
        np.add.at(self.satisfied, (layer[satisfied], sector[satisfied]), 1)

    def report(self) -> Report:
        """Return the measurements of the period so far."""
        seconds = max(self.seconds, 1e-9)
        bulk_packets = self.bulk_bytes / self._bulk_sdu_bytes
        return Report(
            seconds=self.seconds,
            users=self.user_seconds / seconds,
            active_users=self.active_seconds / seconds,
            cqi_share=_share(self.good_reports, self.reports),
            small_packet_sdu_share=_share(self.small_packets, self.small_packets + bulk_packets),
            small_packet_volume_share=_share(self.small_bytes, self.small_bytes + self.bulk_bytes),
            sessions=self.sessions.sum(axis=0),
            satisfied=self.satisfied.sum(axis=0),
            capacity_sessions=self.sessions[0].copy(),
            capacity_satisfied=self.satisfied[0].copy(),
            utilisation=self.used_seconds / seconds,
            handovers=self.handovers.copy(),
            ping_pongs=self.ping_pongs.copy(),
        )


def _share(part: FloatArray, whole: FloatArray) -> FloatArray:
    """Return part / whole, 0 where there is nothing."""
    return np.divide(part, whole, out=np.zeros_like(part), where=whole > 0)
