"""What the tests of operations share: a policy whose wishes a test can choose, a clock, and a way to look at all."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, astuple, fields, is_dataclass
from datetime import UTC, datetime, timedelta
from math import isnan
from typing import Any

import numpy as np

from kinband import ConfigurationSpace, Controller
from kinband.guardrails import Rails, rails_from_text
from kinband.policies.base import PolicySpec
from kinband.records import Choice, Observation, Query
from kinband.service.ledger import Ledger
from kinband.service.operations import DecisionRecord, Operations

NOON = datetime(2026, 3, 4, 12, tzinfo=UTC)
TILTS = range(6)
SPACE = ConfigurationSpace(tilt=TILTS)
STATIONS = ("a", "b", "c")


class Wish:
    """Wants what the state says: the nearer an arm is to it, the better its score; learns nothing."""

    @classmethod
    def build(cls, spec: PolicySpec) -> "Wish":
        return cls()

    def choose(self, query: Query, rng: np.random.Generator) -> Choice:
        score = -np.abs(query.X[query.arms, 0] - query.arms)
        return Choice(int(query.arms[score.argmax()]), query.arms, mean=score / 2, std=-score / 2, score=score)

    def learn(self, observation: Observation) -> None:
        pass


class Clock:
    """Shows what it was set to."""

    def __init__(self, now: datetime = NOON) -> None:
        self.now = now

    def __call__(self) -> datetime:
        return self.now

    def pass_(self, **span: float) -> None:
        self.now += timedelta(**span)


def want(tilt: float) -> dict[str, float]:
    """The state in which `Wish` wants a tilt; a little more of it than the tilt makes the next one second best."""
    return {"want": tilt + 0.001}


def wishful(stations: Sequence[str] = STATIONS, **changes: Any) -> Controller:
    """A controller that wants what it is told to want; all stations run tilt 0."""
    given: dict[str, Any] = {"state": ["want"], "policy": Wish.build, "running": {"tilt": 0}, "seed": 5}
    return Controller(SPACE, stations, **(given | changes))


def rails(text: str, space: ConfigurationSpace = SPACE, stations: Sequence[str] = STATIONS) -> Rails:
    return rails_from_text(text, space, stations=stations)


def begin(ledger: Ledger, controller: Controller | None = None, text: str = "", **further: Any) -> Operations:
    """Operations of a wishful controller under rails."""
    made = wishful() if controller is None and ledger_is_empty(ledger) else controller
    given: dict[str, Any] = {"clock": Clock(), "policy": Wish.build} | further
    limits = rails(text) if text else None
    return Operations.open(ledger, made, rails=limits, rails_text=text, **given)


def ledger_is_empty(ledger: Ledger) -> bool:
    return not list(ledger.read(limit=1))


def ask(operations: Operations, **tilts: float) -> dict[str, DecisionRecord]:
    """Ask with the wishes of stations."""
    return {item.station: item for item in operations.ask({s: want(tilt) for s, tilt in tilts.items()})}


def learned(operations: Operations) -> list[tuple[int, int, float]]:
    """Station, arm and reward of everything that was learned."""
    return [(one.task, one.arm, one.reward) for one in operations.controller.observations()]


def whole(operations: Operations) -> dict[str, Any]:
    """Everything that can be seen in a read model."""
    with operations.looking() as read_model:
        stations = list(read_model.stations)
        return {
            "seq": read_model.seq, "mode": read_model.mode, "stopped": read_model.stopped, "rails": read_model.rails,
            "cards": {name: asdict(station_state) for name, station_state in read_model.stations.items()},
            "items": dict(read_model.decisions), "order": list(read_model.decisions), "waiting": read_model.waiting(),
            "points": {name: read_model.points(name) for name in stations},
            "latest": [read_model.latest(limit=7)] + [read_model.latest(station=name, limit=3) for name in stations],
            "gains": [[None if isnan(n) else n for n in astuple(read_model.gain(of))] for of in (None, *stations)],
            "recent": {name: read_model.recent(name, 3) for name in stations},
            "worst": [(station_state.station, reward) for station_state, reward in read_model.worst(2)],
            "fleet": read_model.fleet(9), "counts": dict(read_model.counts), "pending": read_model.pending,
            "history": read_model.history, "unconfirmed": read_model.unconfirmed(operations.now()),
        }  # fmt: skip


def plain(value: Any) -> Any:
    """The same in mappings, lists and plain values, so that numbers can be compared up to rounding."""
    if is_dataclass(value) and not isinstance(value, type):
        return {one.name: plain(getattr(value, one.name)) for one in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plain(one) for key, one in value.items()}
    return [plain(one) for one in value] if isinstance(value, Sequence) and not isinstance(value, str) else value
