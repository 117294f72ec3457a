"""What a turn leaves behind when it fails, and who waits for it."""

import threading
from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.support.operations_life import ask, begin, want, whole

from kinband import ConfigurationSpace, Controller
from kinband.controller.memory import Memory, Relearning
from kinband.errors import BadInputError, KinbandError
from kinband.kernels import RBF
from kinband.service.ledger import Ledger, LedgerUnavailableError, replay
from kinband.service.ledger.restoring import restored
from kinband.service.ledger.snapshots import Snapshot, newest_snapshot, write_snapshot
from kinband.service.ledger.store import Writable, Writer
from kinband.service.operations import Operations, turns
from kinband.service.running import store_beliefs

STEP = "knobs:\n  tilt: {step: 1}\n"


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    found = Ledger.open(tmp_path / "ledger.db")
    yield found
    found.close()


def never_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a turn that reads the ledger anew fail."""

    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("the ledger was read again from its start")

    monkeypatch.setattr(turns, "restored", refuse)


def same_as_read_anew(operations: Operations, ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    """What stands in memory is what the ledger leads to, to the next decision."""
    monkeypatch.undo()
    other = begin(ledger, text=STEP)
    assert whole(other) == whole(operations)
    assert list(map(repr, other.controller.journal)) == list(map(repr, operations.controller.journal))
    assert other.controller.consider("a", want(3)).arm == operations.controller.consider("a", want(3)).arm


def test_a_question_that_is_refused_after_deciding_costs_no_reading_of_the_ledger(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    operations = begin(ledger, text=STEP, mode="autonomous")
    ask(operations, a=1)
    operations.add_station("new")
    never_read_again(monkeypatch)
    for _ in range(3):
        with pytest.raises(BadInputError, match="not known"):
            ask(operations, b=1, new=4)
    operations.stop()
    with pytest.raises(BadInputError, match="not known"):
        ask(operations, new=4)
    assert [record.id for record in ask(operations, b=1, c=1).values()] == ["d000002", "d000003"]
    assert operations.controller.journal.asked["d000002"].decision.round == 0
    same_as_read_anew(operations, ledger, monkeypatch)


def test_a_full_disk_costs_no_reading_of_the_ledger(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    operations = begin(ledger, text=STEP, mode="autonomous")
    made = ask(operations, a=1)["a"]
    operations.applied(made.id, {"tilt": 2})
    never_read_again(monkeypatch)

    def full(*_: Any) -> None:
        raise LedgerUnavailableError("the disk is full", code="full")

    with monkeypatch.context() as patched:
        patched.setattr(Writer, "append", full)
        for act in (
            lambda: ask(operations, a=2, b=1),
            lambda: operations.applied(made.id, {"tilt": 3}),
            lambda: operations.call_off(made.id),
        ):
            with pytest.raises(LedgerUnavailableError, match="full"):
                act()
    assert operations.controller.journal.ran(made.id) == 2
    assert operations.controller.pending == [made.id]
    assert ask(operations, b=1)["b"].id == "d000002"
    same_as_read_anew(operations, ledger, monkeypatch)


def test_rewards_that_cannot_be_recorded_cost_one_reading_of_the_ledger_and_no_more(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    operations = begin(ledger, text=STEP, mode="autonomous")
    made = ask(operations, a=1)["a"]
    read, error = list[int](), LedgerUnavailableError("the disk is full", code="full")

    def full(*_: Any) -> Any:
        raise error

    def counted(*given: Any, **said: Any) -> Any:
        read.append(1)
        return restored(*given, **said)

    with monkeypatch.context() as patched:
        patched.setattr(Writer, "append", full)
        patched.setattr(Writable, "_try", lambda _: error)
        patched.setattr(turns, "restored", counted)
        for _ in range(4):
            with pytest.raises(LedgerUnavailableError, match="full"):
                operations.tell({made.id: 0.4})
        assert read == [1]
    operations.turns.writable = Writable(ledger)
    assert operations.tell({made.id: 0.4})[0].reward == 0.4
    same_as_read_anew(operations, ledger, monkeypatch)


def sparse(**changes: Any) -> Controller:
    """A controller that keeps no rows, so that a correction has everything learned anew."""
    given: dict[str, Any] = {"similarity": "pooled", "engine": "sparse", "inducing_points": 4, "mean": 0.5, "seed": 3}
    return Controller(
        ConfigurationSpace(tilt=[2, 4, 6]), ["a", "b"], state={"load": (0, 1)}, running={"tilt": 4}, noise=0.05,
        kernel=RBF(0.5), **(given | changes),
    )  # fmt: skip


def play(operations: Operations, slots: int) -> list[str]:
    """Ask and tell for so many slots."""
    rng, ids = np.random.default_rng(slots), list[str]()
    for _ in range(slots):
        made = operations.ask({name: {"load": float(rng.random())} for name in "ab"})
        ids += [record.id for record in made]
        operations.tell({record.id: float(rng.random()) for record in made})
    return ids


def as_learned_anew(operations: Operations, ledger: Ledger) -> None:
    anew = restored(ledger, operations.setup, snapshots=False).controller
    for station in operations.controller.current.active:
        one, other = (each.consider(station, {"load": 0.3}) for each in (operations.controller, anew))
        assert one.arm == other.arm
        assert one.mean == pytest.approx(other.mean, abs=1e-12)
        assert one.std == pytest.approx(other.std, abs=1e-12)


@pytest.mark.parametrize("meanwhile", ["rewards", "another correction", "a newcomer"])
def test_others_decide_and_learn_while_a_correction_has_everything_learned_anew(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch, meanwhile: str
) -> None:
    operations = Operations.open(ledger, sparse(), mode="autonomous")
    ids = play(operations, 6)
    at_work, go_on = threading.Event(), threading.Event()
    learn = Relearning.learn

    def long(self: Relearning, **given: Any) -> bool:
        if threading.current_thread() is working:
            at_work.set()
            assert go_on.wait(30)
        return learn(self, **given)

    monkeypatch.setattr(Relearning, "learn", long)
    working = threading.Thread(target=operations.correct, args=(ids[0], 0.9), kwargs={"key": "c"})
    working.start()
    assert at_work.wait(30)
    later = play(operations, 15)
    if meanwhile == "another correction":  # by another process
        Operations.open(ledger).correct(ids[1], 0.1)
    if meanwhile == "a newcomer":
        operations.add_station("c", similarity={"a": 0.9}, running={"tilt": 2})
    assert operations.decision(ids[0]).reward != 0.9
    go_on.set()
    working.join(30)
    assert operations.decision(ids[0]).reward == 0.9
    operations.correct(ids[0], 0.9, key="c")
    assert len(list(ledger.read(kinds=["correction"]))) == 1 + (meanwhile == "another correction")
    last = play(operations, 1)
    as_learned_anew(operations, ledger)
    for decision_id in (ids[-1], later[-1], last[-1]):
        assert replay(ledger, decision_id, snapshots=False).same


@pytest.mark.parametrize("meanwhile", ["rewards", "a correction", "another newcomer", "the same newcomer"])
def test_others_decide_and_learn_while_a_newcomer_has_everything_learned_anew(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch, meanwhile: str
) -> None:
    """Its two like ones shared nothing before, and their posteriors keep no rows that could be joined."""
    operations = Operations.open(ledger, sparse(similarity=np.eye(2)), mode="autonomous")
    ids, like = play(operations, 6), {"a": 0.6, "b": 0.5}
    at_work, go_on, failed = threading.Event(), threading.Event(), list[Exception]()
    learn = Relearning.learn

    def long(self: Relearning, **given: Any) -> bool:
        if threading.current_thread() is working:
            at_work.set()
            assert go_on.wait(30)
        return learn(self, **given)

    def join() -> None:
        try:
            operations.add_station("new", similarity=like, running={"tilt": 2}, key="n")
        except KinbandError as error:
            failed.append(error)

    monkeypatch.setattr(Relearning, "learn", long)
    working = threading.Thread(target=join)
    working.start()
    assert at_work.wait(30)
    play(operations, 15)
    assert "new" not in operations.controller.current.stations
    if meanwhile == "a correction":  # by another process, as are the newcomers
        Operations.open(ledger).correct(ids[0], 0.9)
    if meanwhile == "another newcomer":
        Operations.open(ledger).add_station("c", similarity={"a": 0.9}, running={"tilt": 2})
    if meanwhile == "the same newcomer":
        Operations.open(ledger).add_station("new", running={"tilt": 2})
    go_on.set()
    working.join(30)
    assert len(failed) == (meanwhile == "the same newcomer")
    joined = [event.station for event in ledger.read(kinds=["station"])]
    assert joined == ["c"] * (meanwhile == "another newcomer") + ["new"]
    if not failed:
        assert operations.add_station("new", similarity=like, running={"tilt": 2}, key="n")["a"] == pytest.approx(0.6)
    last = operations.ask({"new": {"load": 0.4}})[0]
    operations.tell({last.id: 0.4})
    as_learned_anew(operations, ledger)
    assert replay(ledger, last.id, snapshots=False).same


def test_a_correction_is_given_up_where_the_service_ends(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    operations = Operations.open(ledger, sparse(), mode="autonomous")
    ids, put_right = play(operations, 6), Memory.apply_in_place

    def ending(self: Memory, *given: Any) -> bool:
        store_beliefs(operations)
        return put_right(self, *given)

    monkeypatch.setattr(Memory, "apply_in_place", ending)
    with pytest.raises(LedgerUnavailableError, match="the service ends: nothing was recorded"):
        operations.correct(ids[0], 0.9)
    assert list(ledger.read(kinds=["correction"])) == []


def test_a_large_snapshot_is_written_while_others_decide(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    operations = Operations.open(ledger, sparse(), mode="autonomous", snapshot_every=10)
    monkeypatch.setattr(turns, "_SMALL", 0)
    written, found, go_on = list[int](), list[Snapshot | None](), threading.Event()

    def long(ledger: Ledger, seq: int, *stored: Any) -> int:
        written.append(seq)
        assert go_on.wait(30)
        size = write_snapshot(ledger, seq, *stored)
        found.append(newest_snapshot(ledger, before=seq + 1))
        return size

    monkeypatch.setattr(turns, "write_snapshot", long)
    play(operations, 1)
    while not written:
        play(operations, 1)
    ids = play(operations, 2)
    go_on.set()
    assert operations.turns.snapshot()
    assert [None if one is None else one.seq for one in found] == written
    assert replay(ledger, ids[-1]).same


@pytest.mark.parametrize("again", ["shown", "read"])
def test_a_database_that_goes_away_while_the_record_is_read_anew_leaves_no_part_of_it_to_be_seen(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch, again: str
) -> None:
    operations = begin(ledger, mode="autonomous")
    made = [ask(operations, a=n)["a"].id for n in range(3)]
    wanted = whole(operations)["items"]
    if again == "shown":  # an event that could not be shown, for the database was asked for an old decision
        operations.turns._shown = None
    else:  # an event that was shown and is not on record
        operations.turns._controller = None
        assert operations.turns._shown is not None
        operations.turns._shown = replace(operations.turns._shown, checksum="0" * 64)
    reads = count()
    real = Ledger.read

    def gone(self: Ledger, **given: Any) -> Any:
        if next(reads) > 0 or again == "shown":
            raise LedgerUnavailableError("the database is away")
        return real(self, **given)

    with monkeypatch.context() as patched:
        patched.setattr(Ledger, "read", gone)
        with pytest.raises(LedgerUnavailableError):
            operations.tell({made[0]: 0.5})
        assert not operations.try_refresh()
        with pytest.raises(LedgerUnavailableError), operations.looking():
            pass
    operations.tell({made[1]: 0.5})
    assert operations.decision(made[1]).reward == 0.5
    with operations.looking() as read_model:
        assert [*read_model.decisions] == [*wanted]
