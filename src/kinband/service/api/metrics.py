"""Metrics: what Prometheus sees of the service and of its network."""

from collections.abc import Iterator, Sequence
from math import sqrt
from statistics import fmean
from typing import get_args

from prometheus_client import CollectorRegistry, Histogram, Info
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from kinband.controller.journal import Journal
from kinband.errors import KinbandError
from kinband.guardrails import Code
from kinband.service.ledger import Ledger
from kinband.service.operations import Operations, ReadModel
from kinband.service.operations.read_model import KEPT_RECENT
from kinband.service.schemas import STATUSES
from kinband.stats import REACH
from kinband.version import __version__

# --- Whether intervals hold, lately: a cheap look at what `kinband.diagnostics` examines in depth -------------------
# A reward, less what was predicted of the configuration that ran and over its standard deviation (σ² as stored when
# asking, the controller's noise, and what was told of the reward's own), is standard normal if model and noise are
# right. Of the last few hundred rewards, 95 % should then lie inside ±1.96; a share that falls is the first sign that
# the network has changed.

LAST = 500
"""Rewards that are looked at."""
NO_DEVIATIONS = ("linucb",)
"""Policies whose widths are no standard deviations."""


def recent_z(journal: Journal, *, noise: float, last: int = LAST) -> list[float]:
    """Return the last rewards less their predictions, over their standard deviations, newest first.

    Args:
        journal: What was decided, ran and was told.
        noise: The controller's.
        last: Rewards to look at; those without a prediction count, and give nothing.
    """
    found = []
    for told in journal.latest_told(last):
        predicted = journal.predicted(told.id)
        if predicted is not None:
            mean, std = predicted
            found.append((told.reward - mean) / sqrt(std**2 + noise + (told.noise or 0.0)))
    return found


# --- What Prometheus sees: how long requests take, what was decided and refused, what is earned, whether intervals
# hold
#
# Times are measured as requests come. All else is read when somebody looks, so that it is the state of
# the ledger, whichever process recorded it and however often the service was restarted. Numbers by status are gauges: a
# decision that waited is applied later, and moves from one to the other.

BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class Metrics:
    """The figures of one application.

    Args:
        operations: What they are of.
    """

    def __init__(self, operations: Operations) -> None:
        self.registry = CollectorRegistry()
        self.latency = Histogram(
            "kinband_request_seconds",
            "Time to answer, by route, method and status.",
            ["route", "method", "status"],
            buckets=BUCKETS,
            registry=self.registry,
        )
        Info("kinband_build", "What runs.", registry=self.registry).info({"version": __version__})
        self.registry.register(Network(operations))


class Network(Collector):
    """The state of a network, read when somebody looks.

    Args:
        operations: What it is of.
    """

    def __init__(self, operations: Operations) -> None:
        self._operations = operations

    def collect(self) -> Iterator[Metric]:
        """Give every figure; the read model is held for as short as possible."""
        operations = self._operations
        setup, journal = operations.setup, operations.turns.unlocked.journal
        with operations.looking() as read_model:
            head, waiting = read_model.head, len(read_model.waiting())
            statuses: dict[str, int] = {name: read_model.statuses[name] for name in STATUSES}
            refusals: dict[str, int] = {code: read_model.rails_refused[code] for code in get_args(Code)}
            stopped = read_model.stopped is not None or operations.guard.rails.stop
            made, told, recent = (
                read_model.counts.get("decisions", 0),
                read_model.counts.get("told", 0),
                recent_reward(read_model),
            )
            stations, pending = (
                sum(station_state.active for station_state in read_model.stations.values()),
                read_model.pending,
            )
        z = [] if setup.config.policy in NO_DEVIATIONS else recent_z(journal, noise=setup.noise)
        doubt = bool(operations.reading().doubt)
        yield CounterMetricFamily("kinband_decisions_made", "Decisions on record.", value=made)
        yield CounterMetricFamily("kinband_told", "Outcomes on record.", value=told)
        yield _by("kinband_decisions", "Decisions by what became of them.", "status", statuses)
        yield _by("kinband_refusals", "Decisions by the guard rails that refused something.", "code", refusals)
        yield _gauge("kinband_pending", "Decisions whose outcome is awaited.", pending)
        yield _gauge("kinband_waiting", "Decisions that wait for a person.", waiting)
        yield _gauge("kinband_stations", "Stations that are decided for.", stations)
        yield _gauge("kinband_stopped", "1 while everything is stopped.", int(stopped))
        yield _gauge(
            "kinband_clock_in_doubt", "1 while the clock cannot be trusted, so that nothing changes.", int(doubt)
        )
        yield _gauge("kinband_ledger_events", "Events on record.", head.seq)
        yield _gauge(
            "kinband_ledger_head_checksum",
            "The first 12 digits of the last event's checksum, as a number.",
            head.number,
        )
        ready = operations.try_refresh() and _is_ready(operations)
        yield _gauge("kinband_ready", "1 while the service can decide and record.", int(ready))
        yield from taken(operations.ledger if ready else None)
        yield _gauge("kinband_recent_reward", f"Mean over stations of the last {KEPT_RECENT} known rewards.", recent)
        yield from calibration(z)


def _is_ready(operations: Operations) -> bool:
    try:
        operations.check_ready()
    except KinbandError:
        return False
    return True


def taken(ledger: Ledger | None) -> Iterator[Metric]:
    """Give the bytes of a ledger, as far as they can be told; none where nothing can be asked."""
    try:
        found = {} if ledger is None else ledger.size()
    except (KinbandError, OSError):
        found = {}
    parts: dict[str, int] = {part: found[part] for part in ("database", "archive") if part in found}
    yield _by("kinband_ledger_bytes", "Bytes that the ledger takes.", "part", parts)
    yield _gauge("kinband_ledger_free_bytes", "Bytes that the disk of an SQLite ledger has left.", found.get("free"))


def recent_reward(read_model: ReadModel) -> float | None:
    """Return the mean over active stations of what they earned of late; the read model must be held."""
    found = (read_model.recent(name) for name, station_state in read_model.stations.items() if station_state.active)
    known = [reward for reward in found if reward is not None]
    return fmean(known) if known else None


def calibration(z: Sequence[float]) -> Iterator[Metric]:
    """Give how errors in standard deviations, (n,), lie in the 95 % interval."""
    share = "Share of the last rewards inside their 95 % interval: 0.95 if widths are right."
    inside = sum(abs(value) <= REACH for value in z) / len(z) if z else None
    yield _gauge("kinband_calibration_inside_95_ratio", share, inside)
    bias = "Mean of the last rewards less their predictions, in standard deviations: 0 if there is no drift."
    yield _gauge("kinband_calibration_mean_z", bias, fmean(z) if z else None)
    yield _gauge("kinband_calibration_rewards", "Rewards that calibration looks at.", len(z))


def _gauge(name: str, text: str, value: float | None) -> Metric:
    """Return a gauge; without a sample where nothing is known yet."""
    family = GaugeMetricFamily(name, text)
    if value is not None:
        family.add_metric([], value)
    return family


def _by(name: str, text: str, label: str, values: dict[str, int]) -> Metric:
    family = GaugeMetricFamily(name, text, labels=[label])
    for key, value in values.items():
        family.add_metric([key], value)
    return family
