"""A saved controller: whole or refused, never half of one, never a pickle."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from kinband import ConfigurationSpace, Controller
from kinband.controller import storage
from kinband.errors import BadInputError, SavedStateError
from kinband.policies import Policy, PolicySpec
from kinband.policies.baselines import RandomArm


@pytest.fixture
def controller() -> Controller:
    made = Controller(ConfigurationSpace(tilt=range(6)), ["a", "b"], state=["load"], similarity="pooled", seed=3)
    for step in range(5):
        made.tell(made.ask("ab"[step % 2], {"load": step / 5}).id, 0.1 * step)
    made.ask("a", {"load": 0.3})
    return made


def test_a_folder_holds_plain_files_only(controller: Controller, tmp_path: Path) -> None:
    controller.save(tmp_path / "state")
    assert sorted(f.name for f in (tmp_path / "state").iterdir()) == [
        "arrays.npz",
        "beliefs.npz",
        "log.jsonl",
        "manifest.json",
    ]
    assert len((tmp_path / "state" / "log.jsonl").read_text().splitlines()) == 11
    with np.load(tmp_path / "state" / "beliefs.npz", allow_pickle=False) as beliefs:
        assert len(beliefs["y"]) == 5
    assert [f.name for f in tmp_path.iterdir()] == ["state"]


def test_everything_comes_back(controller: Controller, tmp_path: Path) -> None:
    controller.save(tmp_path / "deep" / "state")
    loaded = Controller.load(str(tmp_path / "deep" / "state"))
    assert list(loaded.journal.asked) == list(controller.journal.asked)
    assert [a.decision for a in loaded.journal.asked.values()] == [
        a.decision for a in controller.journal.asked.values()
    ]
    assert loaded.pending == controller.pending
    assert loaded.explain("d000002").text == controller.explain("d000002").text
    loaded.tell(loaded.pending[0], 0.4)


def test_saving_again_replaces_the_old_state(controller: Controller, tmp_path: Path) -> None:
    controller.save(tmp_path / "state")
    controller.tell(controller.pending[0], 0.9)
    controller.save(tmp_path / "state", beliefs=False)
    assert len(Controller.load(tmp_path / "state")) == 6
    assert not (tmp_path / "state" / "beliefs.npz").exists()


def test_a_failure_while_saving_keeps_the_old_state(
    controller: Controller, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    controller.save(tmp_path / "state")

    def full_disk(*_: object, **__: object) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(np, "savez", full_disk)
    controller.tell(controller.pending[0], 0.9)
    with pytest.raises(OSError, match="no space"):
        controller.save(tmp_path / "state")
    assert len(Controller.load(tmp_path / "state")) == 5
    assert [f.name for f in tmp_path.iterdir()] == ["state"]


def test_a_folder_with_something_else_in_it_is_not_overwritten(controller: Controller, tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(BadInputError, match="not a saved controller"):
        controller.save(tmp_path)
    assert (tmp_path / "thesis.tex").read_text() == "years of work"
    with pytest.raises(BadInputError, match="not a saved controller"):
        controller.save(tmp_path / "thesis.tex")


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-20])


def _flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0xFF
    path.write_bytes(bytes(data))


@pytest.mark.parametrize("damage", [_cut, _flip, Path.unlink])
@pytest.mark.parametrize("name", ["arrays.npz", "beliefs.npz", "log.jsonl"])
def test_damage_is_noticed(controller: Controller, tmp_path: Path, name: str, damage: Callable[[Path], None]) -> None:
    controller.save(tmp_path / "state")
    damage(tmp_path / "state" / name)
    with pytest.raises(SavedStateError, match=r"damaged|incomplete"):
        Controller.load(tmp_path / "state")


@pytest.mark.parametrize("text", ["", "{", "[]", '{"schema": "x"}', '{"schema": 1}', "\x00\x01"])
def test_a_damaged_manifest_is_noticed(controller: Controller, tmp_path: Path, text: str) -> None:
    controller.save(tmp_path / "state")
    (tmp_path / "state" / "manifest.json").write_text(text)
    with pytest.raises(SavedStateError):
        Controller.load(tmp_path / "state")


def test_a_settings_value_that_does_not_fit_is_noticed(controller: Controller, tmp_path: Path) -> None:
    controller.save(tmp_path / "state")
    file = tmp_path / "state" / "manifest.json"
    manifest = json.loads(file.read_text())
    manifest["settings"]["config"]["kernel"] = {"kind": "os.system"}
    manifest["checksum"] = storage._manifest_checksum(manifest)
    file.write_text(json.dumps(manifest))
    with pytest.raises(SavedStateError, match="does not fit together"):
        Controller.load(tmp_path / "state")


@pytest.mark.parametrize("key", ["mean", "noise", "seed", "stations"])
def test_an_edited_manifest_is_noticed(controller: Controller, tmp_path: Path, key: str) -> None:
    controller.save(tmp_path / "state")
    file = tmp_path / "state" / "manifest.json"
    manifest = json.loads(file.read_text())
    manifest["settings"][key] = ["x", "y"] if key == "stations" else 0.123
    file.write_text(json.dumps(manifest))
    with pytest.raises(SavedStateError, match="edited"):
        Controller.load(tmp_path / "state")


def _rewrite_log(folder: Path, edit: Callable[[list[str]], list[str]]) -> None:
    """Edit the log and make every checksum fit, as somebody would who means to."""
    log, file = folder / "log.jsonl", folder / "manifest.json"
    log.write_text("".join(line + "\n" for line in edit(log.read_text().splitlines())))
    manifest = json.loads(file.read_text())
    manifest["files"]["log.jsonl"] = storage._checksum(log)
    manifest["checksum"] = storage._manifest_checksum(manifest)
    file.write_text(json.dumps(manifest))


@pytest.mark.parametrize("rebuild", [True, False])
@pytest.mark.parametrize(
    "edit",
    [
        lambda lines: lines[2:],
        lambda lines: [*lines, lines[1]],
        lambda lines: [lines[0].replace('"task": 0', '"task": 9'), *lines[1:]],
        lambda lines: [line.replace('"reward": 0.1', '"reward": "x"') for line in lines],
    ],
)
def test_a_log_that_cannot_have_happened_is_refused(
    controller: Controller, tmp_path: Path, edit: Callable[[list[str]], list[str]], rebuild: bool
) -> None:
    controller.save(tmp_path / "state")
    _rewrite_log(tmp_path / "state", edit)
    with pytest.raises(SavedStateError, match="does not fit together"):
        Controller.load(tmp_path / "state", rebuild=rebuild)


def test_a_crash_between_the_two_moves_of_saving_loses_nothing(controller: Controller, tmp_path: Path) -> None:
    controller.save(tmp_path / "state")
    (tmp_path / "state").rename(tmp_path / ".state-old")  # what such a crash leaves
    assert len(Controller.load(tmp_path / "state")) == 5
    assert [f.name for f in tmp_path.iterdir()] == ["state"]


@pytest.mark.parametrize(("schema", "advice"), [(99, "upgrade kinband"), (4, "make the controller anew")])
def test_a_state_of_another_version_is_refused(
    controller: Controller, tmp_path: Path, schema: int, advice: str
) -> None:
    controller.save(tmp_path / "state")
    file = tmp_path / "state" / "manifest.json"
    manifest = json.loads(file.read_text())
    file.write_text(json.dumps(manifest | {"schema": schema, "kinband": "9.0"}))
    with pytest.raises(SavedStateError) as caught:
        Controller.load(tmp_path / "state")
    assert (caught.value.code, caught.value.hint) == ("saved_by_another_version", advice)


def test_a_folder_without_a_state_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SavedStateError, match=r"manifest\.json is missing"):
        Controller.load(tmp_path / "nowhere")


def test_a_policy_of_ones_own_must_be_handed_in_again(tmp_path: Path) -> None:
    def factory(spec: PolicySpec) -> Policy:
        return RandomArm.build(spec)

    made = Controller(ConfigurationSpace(tilt=range(6)), ["a"], policy=factory, seed=3)
    made.tell(made.ask("a").id, 0.5)
    made.save(tmp_path / "state")
    with pytest.raises(SavedStateError, match="pass its factory again"):
        Controller.load(tmp_path / "state")
    loaded = Controller.load(tmp_path / "state", policy=factory)
    assert loaded.ask("a") == made.ask("a")


def test_damaged_beliefs_are_no_hindrance_to_learning_the_log_anew(tmp_path: Path) -> None:
    controller = Controller(ConfigurationSpace(tilt=[2, 4]), ["a"])
    controller.tell(controller.ask("a").id, 0.7)
    controller.save(tmp_path / "state")
    (tmp_path / "state" / "beliefs.npz").write_bytes(b"damaged")
    with pytest.raises(SavedStateError, match="or load with rebuild=True"):
        Controller.load(tmp_path / "state")
    assert len(Controller.load(tmp_path / "state", rebuild=True)) == 1
