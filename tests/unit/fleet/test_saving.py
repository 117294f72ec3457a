"""A fleet on disk: whole or refused, and with everything that happened since it was saved."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kinband import ConfigurationSpace, Controller, Decision
from kinband.errors import BadInputError, SavedStateError
from kinband.fleet import Fleet, FleetError, shard_stations
from kinband.fleet import saving as fleet_saving
from kinband.kernels import RBF
from kinband.policies import Policy, Setting
from kinband.policies.ucb import UCB

SPACE = ConfigurationSpace(tilt=range(7))
STATIONS = [f"st{m}" for m in range(7)]


def make(**changes: Any) -> Fleet:
    Z = np.random.default_rng(8).normal(size=(len(STATIONS), 2))
    K_Z = np.exp(-0.4 * ((Z[:, None] - Z[None]) ** 2).sum(axis=2))
    options: dict[str, Any] = {"kernel": RBF(0.7, variance=0.4), "noise": 0.037, "mean": 0.55, "beta": 1.4, "seed": 9}
    return Fleet(SPACE, shard_stations(K_Z, stations=STATIONS, size=3), state=["load"], **(options | changes))


def play(fleet: Fleet, rounds: int, *, first: int = 0) -> list[dict[str, Decision]]:
    played = []
    for number in range(first, first + rounds):
        rng = np.random.default_rng(number)
        played.append(fleet.ask_all({station: {"load": float(rng.random())} for station in STATIONS}))
        fleet.tell_all({d.id: float(np.cos(2.0 * d.arm + number)) for d in played[-1].values()})
    return played


@pytest.fixture
def fleet() -> Fleet:
    made = make()
    play(made, 3)
    made.ask("st3", {"load": 0.2})
    return made


@pytest.mark.parametrize("beliefs", [True, False])
@pytest.mark.parametrize("rebuild", [True, False])
def test_a_loaded_fleet_goes_on_bit_for_bit(fleet: Fleet, tmp_path: Path, beliefs: bool, rebuild: bool) -> None:
    fleet.save(tmp_path / "state", beliefs=beliefs)
    loaded = Fleet.load(tmp_path / "state", rebuild=rebuild)
    assert (loaded.pending, loaded.shards, loaded.lost) == (fleet.pending, fleet.shards, fleet.lost)
    assert str(loaded.explain(loaded.pending[0])) == str(fleet.explain(fleet.pending[0]))
    for both in (loaded, fleet):
        both.tell(both.pending[0], 0.31)
    assert play(loaded, 2, first=3) == play(fleet, 2, first=3)


def test_every_shard_is_a_saved_controller(fleet: Fleet, tmp_path: Path) -> None:
    fleet.save(tmp_path / "state")
    assert sorted(f.name for f in (tmp_path / "state").iterdir()) == ["fleet.json", "s000", "s001", "s002"]
    controller = Controller.load(tmp_path / "state" / "s001")
    assert controller.stations == fleet.shards[1]
    station, state = controller.stations[0], {"load": 0.77}
    alone, together = controller.ask(station, state), fleet.ask(station, state)
    assert together.id == f"s001-{alone.id}"
    assert together.alternatives == alone.alternatives


def test_a_fleet_without_workers_can_be_saved_without_beliefs(fleet: Fleet, tmp_path: Path) -> None:
    fleet.close()
    with pytest.raises(FleetError, match="closed"):
        fleet.save(tmp_path / "state")
    fleet.save(tmp_path / "state", beliefs=False)
    assert len(Fleet.load(tmp_path / "state")) == len(fleet)
    assert [f.name for f in tmp_path.iterdir()] == ["state"]


def test_what_is_kept_survives_a_crash(tmp_path: Path) -> None:
    fleet, twin = make(), make()
    play(fleet, 2)
    play(twin, 2)
    fleet.keep(tmp_path / "state")
    for both in (fleet, twin):
        play(both, 2, first=2)
        both.call_off(both.ask("st1", {"load": 0.9}).id)
        both.ask("st2", {"load": 0.4})
    del fleet  # the process dies: nothing is saved in the end
    loaded = Fleet.load(tmp_path / "state", keep=True)
    assert loaded.pending == twin.pending
    assert len(loaded) == len(twin)
    assert play(loaded, 1, first=4) == play(twin, 1, first=4)
    again = Fleet.load(tmp_path / "state")  # which went on being kept
    assert play(again, 1, first=5) == play(twin, 1, first=5)


def test_a_correction_after_saving_is_learned_again(fleet: Fleet, tmp_path: Path) -> None:
    fleet.keep(tmp_path / "state")
    fleet.correct("s000-d000001", -0.8)
    loaded = Fleet.load(tmp_path / "state")
    assert loaded.reward("s000-d000001") == -0.8
    assert play(loaded, 1, first=3) == play(fleet, 1, first=3)


def test_saving_begins_a_new_log(fleet: Fleet, tmp_path: Path) -> None:
    fleet.keep(tmp_path / "state")
    play(fleet, 1, first=3)
    assert (tmp_path / "state" / "ahead.log").stat().st_size > 0
    fleet.save(tmp_path / "state")
    assert not (tmp_path / "state" / "ahead.log").exists()
    play(fleet, 1, first=4)
    fleet.save(tmp_path / "elsewhere")
    assert len(Fleet.load(tmp_path / "state")) == len(fleet) == len(Fleet.load(tmp_path / "elsewhere"))


@pytest.mark.parametrize("cut", [1, 30])
def test_a_line_that_a_crash_cut_short_never_happened(fleet: Fleet, tmp_path: Path, cut: int) -> None:
    fleet.keep(tmp_path / "state")
    play(fleet, 1, first=3)
    before = len(fleet)
    decision = fleet.ask("st0", {"load": 0.6})
    file = tmp_path / "state" / "ahead.log"
    file.write_bytes(file.read_bytes()[:-cut])
    loaded = Fleet.load(tmp_path / "state", keep=True)
    assert len(loaded) == before
    assert decision.id not in loaded.pending
    assert loaded.ask("st0", {"load": 0.6}) == decision
    assert decision.id in Fleet.load(tmp_path / "state").pending


@pytest.mark.parametrize(
    "edit",
    [
        lambda lines: [lines[0].replace(b"asked", b"Asked"), *lines[1:]],
        lambda lines: lines[1:],
        lambda lines: [*lines, lines[0]],
        lambda lines: [b"0 nonsense\n", *lines],
        lambda lines: [b"\xff\xfe\n", *lines],
    ],
)
def test_a_damaged_log_is_refused(fleet: Fleet, tmp_path: Path, edit: Callable[[list[bytes]], list[bytes]]) -> None:
    fleet.keep(tmp_path / "state")
    play(fleet, 1, first=3)
    file = tmp_path / "state" / "ahead.log"
    file.write_bytes(b"".join(edit(file.read_bytes().splitlines(keepends=True))))
    with pytest.raises(SavedStateError, match=r"line \d of .*ahead\.log is damaged or out of place"):
        Fleet.load(tmp_path / "state")


def test_a_full_disk_while_keeping_records_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fleet, twin = make(), make()
    fleet.keep(tmp_path / "state")
    play(fleet, 2)
    play(twin, 2)
    written = (tmp_path / "state" / "ahead.log").read_bytes()

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(FleetError, match=r"No space left on device.*nothing of the call was recorded"):
            fleet.ask_all({station: {"load": 0.5} for station in STATIONS})
    assert fleet.pending == []
    assert Fleet.load(tmp_path / "state").pending == []
    assert (tmp_path / "state" / "ahead.log").read_bytes() == written
    assert play(fleet, 2, first=2) == play(twin, 2, first=2)
    assert len(Fleet.load(tmp_path / "state")) == len(twin)


def test_a_full_disk_while_saving_keeps_the_old_state(
    fleet: Fleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet.save(tmp_path / "state")
    told = len(fleet)
    play(fleet, 1, first=3)
    saved = np.savez
    count = 0

    def full(*arguments: Any, **arrays: Any) -> None:
        nonlocal count
        count += 1
        if count == 4:  # in the middle of the second shard
            raise OSError(28, "No space left on device")
        saved(*arguments, **arrays)

    with monkeypatch.context() as patch:
        patch.setattr(np, "savez", full)
        with pytest.raises(FleetError, match=r"could not be saved to .*state \(No space left on device\)"):
            fleet.save(tmp_path / "state")
    assert len(Fleet.load(tmp_path / "state")) == told
    assert [f.name for f in tmp_path.iterdir()] == ["state"]
    fleet.save(tmp_path / "state")
    assert len(Fleet.load(tmp_path / "state")) == len(fleet)


def test_a_crash_between_the_two_moves_of_saving_loses_nothing(fleet: Fleet, tmp_path: Path) -> None:
    fleet.save(tmp_path / "state")
    (tmp_path / "state").rename(tmp_path / ".state-old")
    assert len(Fleet.load(tmp_path / "state")) == len(fleet)
    assert [f.name for f in tmp_path.iterdir()] == ["state"]


def test_a_crash_after_the_two_moves_leaves_the_new_state(fleet: Fleet, tmp_path: Path) -> None:
    fleet.save(tmp_path / "state")
    (tmp_path / "state").rename(tmp_path / ".state-old")
    play(fleet, 1, first=3)
    fleet_saving.save_logs(fleet._books.logs, tmp_path / "new", beliefs=None, lost=None)
    (tmp_path / "new").rename(tmp_path / "state")
    assert len(Fleet.load(tmp_path / "state")) == len(fleet)
    assert [f.name for f in tmp_path.iterdir()] == ["state"]


def test_a_folder_with_something_else_in_it_is_not_overwritten(
    fleet: Fleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(BadInputError, match="not a saved fleet"):
        fleet.save(tmp_path)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(BadInputError, match="is the present folder"):
        fleet.save(".")
    Controller(SPACE, ["a"]).save(tmp_path / "one")
    with pytest.raises(BadInputError, match="not a saved fleet"):
        fleet.save(tmp_path / "one")
    assert (tmp_path / "thesis.tex").read_text() == "years of work"


def test_shards_of_different_times_are_refused(fleet: Fleet, tmp_path: Path) -> None:
    fleet.save(tmp_path / "old")
    play(fleet, 1, first=3)
    fleet.save(tmp_path / "new")
    for file in (tmp_path / "new" / "s001").iterdir():
        file.unlink()
    (tmp_path / "new" / "s001").rmdir()
    with pytest.raises(SavedStateError, match="s001 is missing"):
        Fleet.load(tmp_path / "new")
    (tmp_path / "old" / "s001").rename(tmp_path / "new" / "s001")
    with pytest.raises(SavedStateError, match="of another time"):
        Fleet.load(tmp_path / "new")


@pytest.mark.parametrize("text", ["", "{", "[]", '{"schema": "x"}', '{"schema": 1}', "\x00"])
def test_a_damaged_manifest_is_noticed(fleet: Fleet, tmp_path: Path, text: str) -> None:
    fleet.save(tmp_path / "state")
    (tmp_path / "state" / "fleet.json").write_text(text)
    with pytest.raises(SavedStateError, match="damaged"):
        Fleet.load(tmp_path / "state")


def test_a_manifest_of_a_newer_kinband_asks_for_an_upgrade(fleet: Fleet, tmp_path: Path) -> None:
    fleet.save(tmp_path / "state")
    file = tmp_path / "state" / "fleet.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"schema": 99, "kinband": "9.0"}))
    with pytest.raises(SavedStateError, match=r"newer kinband \(9.0, schema 99"):
        Fleet.load(tmp_path / "state")
    with pytest.raises(SavedStateError, match=r"fleet\.json is missing"):
        Fleet.load(tmp_path / "nowhere")


def test_a_policy_of_ones_own_must_be_handed_in_again(tmp_path: Path) -> None:
    def factory(setting: Setting) -> Policy:
        return UCB.build(setting)

    fleet = make(policy=factory)
    play(fleet, 2)
    fleet.save(tmp_path / "state")
    with pytest.raises(SavedStateError, match="pass its factory again"):
        Fleet.load(tmp_path / "state")
    assert play(Fleet.load(tmp_path / "state", policy=factory), 1, first=2) == play(fleet, 1, first=2)


@pytest.mark.parametrize("policy", ["random", "linucb"])
def test_policies_of_every_kind_are_kept(tmp_path: Path, policy: str) -> None:
    fleet = make(policy=policy)
    fleet.keep(tmp_path / "state")
    play(fleet, 2)
    assert play(Fleet.load(tmp_path / "state"), 2, first=2) == play(fleet, 2, first=2)
