"""A past to look at: 105 stations that were decided for, hour after hour, until 50,000 events are on record; or 1,500
and 500,000 events.

It is made by operations themselves on a clock of its own that ends now, so that the ledger holds what any other does:
decisions with their scores, verdicts, approvals, changes, rewards, a few refusals, a frozen station, and changes that
wait for a person. The controller knows little (48 inducing points, one state feature), which makes an hour cheap to
play; what pages show does not depend on how much it knows.
"""

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import numpy as np

from benchmarks.service.problem import STATIONS, station_names
from kinband.arrays import FloatArray
from kinband.controller import Controller
from kinband.guardrails import rails_from_text
from kinband.kernels import RBF
from kinband.service.ledger import Ledger
from kinband.service.operations import Operations
from kinband.space import ConfigurationSpace

SPACE = ConfigurationSpace(handover_threshold_dbm=range(-112, -83))
RUNNING = {"handover_threshold_dbm": -98}
SLOT = timedelta(hours=1)

_POINTS = 48  # of the posterior
_APART = 500.0  # metres between sites
_RAILS = "knobs:\n  handover_threshold_dbm: {step: 6}\nchanges:\n  min_time: 3h\n"
_MEAN, _NOISE = 0.8, 0.0004

Tick = Callable[[str], None]


@dataclass(frozen=True)
class Past:
    """How much happened.

    Attributes:
        stations: How many there are.
        slots: In how many slots all of them were decided for; about 430 events each.
        seed: Draws everything random.

    Example:
        >>> Past.quick().slots < Past().slots
        True
    """

    stations: int = STATIONS
    slots: int = 120
    seed: int = 0

    @classmethod
    def quick(cls) -> "Past":
        """Return a small one, for a look."""
        return cls(stations=21, slots=24)

    @classmethod
    def large(cls) -> "Past":
        """Return one of a large network; to record it takes ten minutes."""
        return cls(stations=1500, slots=82)


@dataclass(frozen=True)
class Recorded:
    """What came of it.

    Attributes:
        events: How many are on record.
        stations: Their names.
        decisions: The ids of all decisions, oldest first.
    """

    events: int
    stations: tuple[str, ...]
    decisions: tuple[str, ...]


def past_controller(past: Past) -> Controller:
    """Return the controller that decided: three sectors a site, seven kinds of stations.

    Example:
        >>> len(past_controller(Past(stations=5)).stations)
        5
    """
    rng = np.random.default_rng([past.seed, 3])
    kind = np.arange(past.stations) % 7
    A = rng.standard_normal((7, 4))[kind] + 0.3 * rng.standard_normal((past.stations, 4))
    D2: FloatArray = ((A[:, None] - A[None]) ** 2).sum(axis=-1)
    return Controller(
        SPACE, station_names(past.stations), state={"load": (0, 1)}, similarity=np.exp(-0.2 * D2),
        kernel=RBF([0.5, 1.0], variance=0.02), noise=_NOISE, mean=_MEAN, beta=0.5, engine="sparse",
        inducing_points=_POINTS, running=RUNNING, reward_range=(0, 1),
        descriptors=_sites(past.stations), seed=past.seed,
    )  # fmt: skip


def _sites(stations: int) -> dict[str, dict[str, float]]:
    """Return where sectors stand and look: sites in rows of six, every second row shifted by half."""
    found = {}
    for number, name in enumerate(station_names(stations)):
        row, column = divmod(number // 3, 6)
        east, north = _APART * (column + 0.5 * (row % 2)), _APART * 3**0.5 / 2 * row
        found[name] = {"x_m": east, "y_m": north, "azimuth_deg": 30.0 + 120.0 * (number % 3)}
    return found


def record_past(url: str, past: Past, *, tick: Tick) -> Recorded:
    """Put a past into an empty ledger, and return what came of it.

    Args:
        url: The ledger.
        past: How much happened.
        tick: Called now and then with how far it is.
    """
    clock = [datetime.now(UTC) - past.slots * SLOT]
    with closing(Ledger.open(url, clock=lambda: clock[0])) as ledger:
        controller = past_controller(past)
        rails = rails_from_text(_RAILS, SPACE, stations=list(controller.stations))
        operations = Operations.open(
            ledger, controller, rails=rails, rails_text=_RAILS, mode="assist", clock=lambda: clock[0], actor="load"
        )  # fmt: skip
        player = Player(operations, past)
        player.set_up()
        for number in range(past.slots):
            if number % 10 == 0:
                tick(f"recording a past, slot {number} of {past.slots}")
            player.play(last=number == past.slots - 1)
            clock[0] += SLOT
        operations.turns.snapshot()
        with operations.looking() as read_model:
            return Recorded(read_model.seq, tuple(read_model.stations), tuple(read_model.decisions))


class Player:
    """Plays network manager and people.

    Args:
        operations: Who decides.
        past: How much happened.
    """

    def __init__(self, operations: Operations, past: Past) -> None:
        self._operations = operations
        self._names = station_names(past.stations)
        self._rng = np.random.default_rng([past.seed, 4])
        self._best = -98.0 + 6.0 * np.sin(np.arange(past.stations) % 7)

    def set_up(self) -> None:
        """Put a half of the stations into autonomous mode and a sixth into shadow mode, and freeze one."""
        half, sixth = len(self._names) // 2, len(self._names) // 6
        self._operations.set_mode("autonomous", self._names[:half], comment="a quiet week", actor="anna")
        self._operations.set_mode("shadow", self._names[-sixth:], actor="anna")
        self._operations.freeze(self._names[0], why="antenna is replaced", actor="bert")

    def play(self, *, last: bool) -> None:
        """Decide for all in one slot; unless it is the last, people look at the plan and rewards come in."""
        now = self._operations.now()
        load = np.clip(0.5 + 0.3 * np.sin(now.hour / 24 * 2 * np.pi) + 0.05 * self._normal(), 0.0, 1.0)
        states = {name: {"load": float(value)} for name, value in zip(self._names, load, strict=True)}
        items = self._operations.ask(states, slot=now.isoformat(), actor="nms")
        if last:
            return
        waiting = [item.id for item in items if item.status == "waiting"]
        if waiting[3:]:
            self._operations.approve(waiting[3:], comment="looks good", actor="anna")
            self._operations.reject(waiting[:1], comment="an event nearby", actor="bert")
        with self._operations.looking() as read_model:
            ran = [read_model.decision(item.id).arm for item in items]
        threshold = np.array([-98.0 if arm is None else SPACE[arm]["handover_threshold_dbm"] for arm in ran])
        reward = 0.92 - 0.1 * load - ((threshold - self._best) / 26.0) ** 2 + 0.02 * self._normal()
        told = dict(zip([item.id for item in items], np.clip(reward, 0.0, 1.0).tolist(), strict=True))
        self._operations.tell(told, actor="nms")

    def _normal(self) -> FloatArray:
        return self._rng.standard_normal(len(self._names))
