"""Whatever people and stations do: no change is made that the rails forbid, and nothing depends on who holds the pen.

A referee reads the events of the ledger alone and judges every change by the witness of `test_guard`, which shares no
code with the guard. A life is led twice, by one process and by several that are restarted again and again: every event
must say the same, numbers up to what a replay may be off by.
"""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.golden.record import same
from tests.property.test_guard import BEGIN, LONG_AGO, MINUTES, SPACE, STATIONS, Witness, all_rails
from tests.support.operations_life import Clock, plain, whole

from kinband import Controller
from kinband.errors import BadInputError, ConflictError, NotFoundError
from kinband.guardrails import CalledOff as TakenBack
from kinband.guardrails import Changed, Rails, Rewarded, event_from
from kinband.records import TOLERANCE
from kinband.service.ledger import Event, Ledger, replay
from kinband.service.operations import Mode, Operations
from kinband.service.schemas import MANNERS

# --- The referee --------------------------------------------------------------------------------------------


@dataclass
class Referee:
    """Reads events in order and says where something was done that must not be."""

    witness: Witness
    runs: dict[str, int]
    modes: dict[str, Mode] = field(default_factory=dict)
    said_yes: set[str] = field(default_factory=set)
    ran: dict[str, int] = field(default_factory=dict)  # by decision
    began: dict[str, datetime] = field(default_factory=dict)
    station: dict[str, str] = field(default_factory=dict)
    learned: dict[str, float] = field(default_factory=dict)
    ordered: list[tuple[Event, dict[str, Any]]] = field(default_factory=list)  # changes of the review being read
    pending: dict[str, tuple[str, Changed]] = field(default_factory=dict)  # by station, orders that are not made yet

    def read(self, event: Event) -> None:
        payload = event.payload
        if event.kind in ("decision", "outcome", "mode", "switch"):
            self.judge()
        if event.kind in ("verdict", "approval", "order"):
            self.approved(event, payload)
        match event.kind:
            case "mode":
                for name in payload["stations"] or STATIONS:
                    self.modes[name] = payload["mode"]
            case "switch":
                self.witness.log.append(event_from(payload["event"]))
            case "decision":
                self.station[str(event.decision)] = event.station
            case "verdict":
                key = str(event.decision)
                self.ran[key], self.began[key] = self.runs[event.station], datetime.fromisoformat(payload["at"])
            case "applied":
                self.take(event, payload)
            case "outcome" | "correction" if "reward" in payload["entry"]:
                self.earned(str(event.decision), payload["entry"]["reward"])

    def approved(self, event: Event, payload: dict[str, Any]) -> None:
        """Judge what is ordered as if it were made, beside all else that is ordered; the network makes it later."""
        if event.kind == "approval" and payload["approved"]:
            self.said_yes.add(str(event.decision))
        if self.pending.get(event.station, ("",))[0] == event.decision:
            del self.pending[event.station]
        if payload["status"] != "ordered":
            return
        self.judge()
        assert event.station not in self.pending
        now, verdict, earlier = datetime.fromisoformat(payload["at"]), payload["verdict"], list(self.pending.values())
        by = "roll-back" if verdict["outcome"] == "rolled back" else "controller"
        others = [replace(change, at=now) for _, change in earlier]
        self.check(event.station, str(event.decision), verdict["running"], verdict["arm"], by, now, others)
        made = Changed(now, event.station, verdict["arm"], verdict["running"], by)  # type: ignore[arg-type]
        self.pending[event.station] = str(event.decision), made

    def take(self, event: Event, payload: dict[str, Any]) -> None:
        if self.pending.get(event.station, ("",))[0] == payload.get("order"):
            del self.pending[event.station]
        if payload.get("reported") and "order" in payload:
            self.judge()
            self.log(event, payload)
        elif payload["by"] in ("controller", "roll-back"):
            if self.ordered and self.ordered[-1][1]["at"] != payload["at"]:
                self.judge()  # no two calls are made at the same moment
            self.ordered.append((event, payload))
        else:
            self.judge()
            self.log(event, payload)

    def log(self, event: Event, payload: dict[str, Any]) -> None:
        """Take note of a change, by whomever."""
        at, arm, by = datetime.fromisoformat(payload["at"]), payload["arm"], payload["by"]
        assert payload["before"] == self.runs[event.station]
        if payload.get("taken_back"):
            latest = self.witness.of(event.station)[-1]
            assert (latest.arm, latest.before) == (payload["before"], arm)
            self.witness.log.remove(latest)
        elif arm != payload["before"]:
            known = {"controller": "controller", "network": "operator"}.get(by, "roll-back")
            change = Changed(at, event.station, arm=arm, before=payload["before"], by=known)  # type: ignore[arg-type]
            self.witness.log.append(change)
        self.runs[event.station] = arm
        if event.decision is not None and by != "operator":
            self.ran[event.decision] = arm
            if arm != payload["before"]:
                self.began[event.decision] = at

    def judge(self) -> None:
        """Judge the changes of one review, roll-backs first: the others have to do without what those use up."""
        ordered, self.ordered = self.ordered, []
        for event, payload in sorted(ordered, key=lambda pair: pair[1]["by"] != "roll-back"):
            station, now = event.station, datetime.fromisoformat(payload["at"])
            key = str(payload.get("order", event.decision))
            self.check(station, key, payload["before"], payload["arm"], payload["by"], now, [])
            self.log(event, payload)

    def check(
        self, station: str, key: str, before: int, arm: int, by: str, now: datetime, earlier: list[Changed]
    ) -> None:
        """Hold one change against the witness."""
        mode = self.modes[station]
        if by == "roll-back":
            assert mode != "shadow"
            fallback, latest = self.witness.rails.fallback, self.witness.of(station)[-1]
            assert fallback is not None
            assert self.witness.fell(station)
            assert (latest.arm, self.witness.back(station)) == (before, arm)
            assert self.witness.quiet(station, now, windows=not fallback.outside_windows)
            assert self.witness.in_range(station, arm)
        else:
            assert mode == "autonomous" or (mode == "assist" and key in self.said_yes)
            assert self.witness.may(station, arm, now=now, earlier=earlier)

    def earned(self, key: str, reward: float) -> None:
        """Take note of a reward: the guard is to see it, and it is to be learned for what ran."""
        self.learned[key] = reward
        self.witness.log.append(Rewarded(self.began[key], self.station[key], reward))


def referee_of(operations: Operations, running: dict[str, int]) -> Referee:
    witness = Witness(operations.guard.rails)
    witness.log += [Changed(LONG_AGO, name, arm, None, "operator") for name, arm in running.items()]
    referee = Referee(witness, dict(running))
    for event in operations.ledger.read():
        referee.read(event)
    referee.judge()
    return referee


@st.composite
def loose_rails(draw: st.DrawFn) -> Rails:
    """Rails that let something happen: without a switch in the file, and with room for a change now and then."""
    rails = draw(all_rails())
    changes: dict[str, Any] = {"stop": False}
    if draw(st.booleans()):
        changes |= {"maintenance": None, "forbidden": ()}
    for name in ("per_day", "per_round"):
        if getattr(rails, name) is not None:
            changes[name] = max(getattr(rails, name), 1)
    return replace(rails, **changes)


# --- A life -------------------------------------------------------------------------------------------------

KINDS = (
    ["ask"] * 9 + ["tell"] * 9 + ["approve"] * 6 + ["mode", "reject", "correct", "call off", "applied", "hand"]
    + ["stop"] + ["resume"] * 4 + ["freeze"] + ["thaw"] * 4 + ["roll back"] + ["confirm"] * 5 + ["fail", "withdraw"]
)  # fmt: skip
SOME_MODES: list[Mode] = ["shadow", "assist", "assist", "assist", "autonomous", "autonomous"]
REFUSALS = (BadInputError, ConflictError, NotFoundError)


def act(operations: Operations, rng: Random, clock: Clock) -> None:
    """Do something; what is drawn depends on nothing but the generator and what can be seen."""
    kind, station = rng.choice(KINDS), rng.choice(STATIONS)
    picked = rng.sample(STATIONS, rng.choice([1, 1, 1, 2, 4]))
    with operations.looking() as read_model:
        open_ = [key for key, record in read_model.decisions.items() if record.open]
        told = [key for key, record in read_model.decisions.items() if record.reward is not None]
        waiting = [record.id for record in read_model.waiting()]
        orders = [record.id for record in read_model.orders()]
    kind = "approve" if waiting and rng.random() < 0.4 else kind
    some = rng.sample(waiting, rng.choice([1, len(waiting), len(waiting)])) if waiting else []
    states = {name: {"load": rng.choice([0.1, 0.5, 0.9])} for name in picked}
    arm, reward = rng.randrange(len(SPACE)), rng.choice([0.2, 0.6, 0.6, 0.9])
    match kind:
        case "ask":
            allowed = {picked[0]: {"tilt": [0, 1, 2, 8]}} if rng.random() < 0.2 else None
            operations.ask(states, allowed=allowed)
        case "hand":
            operations.ask(states, running={picked[-1]: SPACE[arm]})
        case "tell" if open_:
            operations.tell({key: rng.choice([0.2, 0.6, 0.9]) for key in rng.sample(open_, rng.randint(1, len(open_)))})
        case "approve" if some:
            operations.approve(some, key=f"yes {some[0]}")
        case "reject" if some:
            operations.reject(some)
        case "confirm" if orders:
            operations.confirm(rng.choice(orders))
        case "fail" if orders:
            operations.fail(rng.choice(orders), why="locked")
        case "withdraw" if orders:
            operations.withdraw([rng.choice(orders)])
        case "correct" if told:
            operations.correct(rng.choice(told), reward)
        case "call off" if open_:
            operations.call_off(rng.choice(open_))
        case "applied" if open_:
            operations.applied(
                open_[-1], rng.choice([None, SPACE[arm], SPACE[operations.decision(open_[-1]).running or 0]])
            )
        case "mode":
            operations.set_mode(rng.choice(SOME_MODES), rng.choice([None, picked]))
        case "stop" | "resume":
            operations.stop(why="x") if kind == "stop" else operations.resume()
        case "freeze" | "thaw":
            operations.freeze(station) if kind == "freeze" else operations.thaw(station)
        case "roll back":
            operations.roll_back(station, override=rng.random() < 0.2)


def tried(operations: Operations, rng: Random, clock: Clock) -> None:
    """Do something that may be refused; then nothing may have happened."""
    clock.now += timedelta(minutes=rng.choice(MINUTES), microseconds=1)
    operations.orders.settle()
    before = operations.read_model.seq
    try:
        act(operations, rng, clock)
    except REFUSALS:
        assert operations.read_model.seq == before
        assert len(list(operations.ledger.read(after=before))) == 0


def settings_of(rng: Random) -> tuple[Controller, dict[str, int]]:
    numbers = np.random.default_rng(rng.randrange(2**32))
    A = numbers.normal(size=(len(STATIONS), 2))
    running = {name: rng.randrange(len(SPACE)) for name in STATIONS}
    controller = Controller(
        SPACE, STATIONS, state=["load"], similarity=A @ A.T + 0.3 * np.eye(len(STATIONS)),
        noise=float(numbers.uniform(0.02, 0.3)), mean=float(numbers.normal(0.5, 0.3)),
        beta=float(numbers.uniform(0.3, 2)), running={name: SPACE[arm] for name, arm in running.items()},
        policy=rng.choice(["ucb", "ucb", "ucb", "thompson", "random"]), seed=rng.randrange(1000),
    )  # fmt: skip
    return controller, running


@pytest.fixture(scope="module")
def empty() -> Iterator[Path]:
    """A ledger without events, to be copied: making its tables takes longer than a life."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "empty.db"
        Ledger.open(path).close()
        yield path


@contextmanager
def copy_of(empty: Path) -> Iterator[Ledger]:
    with TemporaryDirectory() as folder:
        ledger = Ledger.open(shutil.copy(empty, Path(folder) / "ledger.db"), clock=lambda: BEGIN)
        yield ledger
        ledger.close()


def led(ledger: Ledger, rails: Rails, seed: int, *, restarts: bool) -> tuple[Operations, dict[str, int]]:
    """Lead a life of some steps by one process, or by two that take turns and are restarted."""
    rng, luck, clock = Random(seed), Random(seed + 1), Clock(BEGIN)
    controller, running = settings_of(rng)

    def opened(start: Controller | None = None) -> Operations:
        return Operations.open(
            ledger, start, rails=rails, clock=clock, mode=SOME_MODES[seed % 6], manner=MANNERS[seed % 2],
            snapshot_every=25,
        )  # fmt: skip

    hands = [opened(controller)]
    if restarts:
        hands.append(opened())
    for _ in range(40):
        if restarts and luck.random() < 0.3:
            hands[luck.randrange(2)] = opened()
        hand = hands[luck.randrange(2)] if restarts else hands[0]
        hand.refresh()
        tried(hand, rng, clock)
    for hand in hands:
        hand.refresh()
        assert same(plain(whole(hand)), plain(whole(hands[0])), tolerance=TOLERANCE) == []
    return hands[0], running


@settings(max_examples=25, deadline=None)
@given(rails=loose_rails(), seed=st.integers(0, 2**32))
def test_no_change_is_made_that_the_rails_forbid_and_what_ran_is_learned(empty: Path, rails: Rails, seed: int) -> None:
    with copy_of(empty) as ledger:
        operations, running = led(ledger, rails, seed, restarts=False)
        referee = referee_of(operations, running)
        assert {
            name: station_state.running for name, station_state in operations.read_model.stations.items()
        } == referee.runs
        expected = [(STATIONS.index(referee.station[key]), referee.ran[key], r) for key, r in referee.learned.items()]
        observed = [(one.task, one.arm, one.reward) for one in operations.controller.observations()]
        assert observed == expected
        changes = [e for e in referee.witness.log if isinstance(e, Changed | TakenBack) and e.at != LONG_AGO]
        assert changes == sorted(
            (change for made in operations.read_model.history.changes.values() for change in made), key=changes.index
        )


@settings(max_examples=12, deadline=None)
@given(rails=loose_rails(), seed=st.integers(0, 2**32))
def test_restarts_and_several_processes_change_nothing(empty: Path, rails: Rails, seed: int) -> None:
    with copy_of(empty) as one, copy_of(empty) as many:
        alone, _ = led(one, rails, seed, restarts=False)
        together, _ = led(many, rails, seed, restarts=True)
        assert same(list(map(_line, one.read())), list(map(_line, many.read())), tolerance=TOLERANCE) == []
        assert same(plain(whole(alone)), plain(whole(together)), tolerance=TOLERANCE) == []
        some = list(alone.read_model.decisions)[:: max(len(alone.read_model.decisions) // 4, 1)]
        assert all(replay(one, key).same for key in some)


def _line(event: Event) -> list[Any]:
    return [event.seq, event.kind, event.station, event.decision, event.key, event.payload]
