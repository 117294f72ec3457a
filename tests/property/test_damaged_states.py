"""A saved controller that was damaged anywhere is loaded or refused by kinband's own errors, and by no others."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest

from kinband import ConfigurationSpace, Controller
from kinband.controller import storage
from kinband.errors import KinbandError, SavedStateError
from kinband.policies.safety import Conservative

WILD: list[Any] = [
    None, True, -1, 0, 2**63, 10**400, 1e308, float("nan"), float("inf"), "", "a", "\ud800", [], {}, [[]], {"a": 1},
    [1, 2, 3], "x" * 1000, 1.5, "2026-01-01", 1e-320, [None],
]  # fmt: skip


def lived(**further: Any) -> Controller:
    """A controller with every kind of entry in its journal."""
    space, running = ConfigurationSpace(tilt=[2, 4, 6], mode=["x", "y"]), {"tilt": 4, "mode": "x"}
    controller = Controller(
        space, ["a", "b"], state={"load": (0, 1)}, similarity=[[1, 0.5], [0.5, 1]], mean=0.7, noise=0.03,
        running=running, seed=3, **further,
    )  # fmt: skip
    for n in range(4):
        made = controller.ask_all({"a": {"load": 0.1 * n}, "b": {"load": 0.2}})
        controller.tell_all({decision.id: 0.5 + 0.01 * n for decision in made.values()})
    controller.correct("d000002", 0.4)
    controller.call_off(controller.ask("a", {"load": 0.3}).id)
    controller.add_station("z", similarity={"a": 0.3, "b": 0.2}, running=running)
    controller.remove_station("b")
    return controller


@pytest.fixture(scope="module")
def saved() -> Iterator[Path]:
    with TemporaryDirectory() as folder:
        lived().save(Path(folder) / "plain")
        lived(safety=Conservative(0.05)).save(Path(folder) / "careful")
        yield Path(folder)


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every place of a JSON value."""
    for key in value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
        yield (*path, key)
        yield from places(value[key], (*path, key))


def changed(value: Any, rng: Random) -> Any:
    """A JSON value with something else, or nothing, in one of its places."""
    *path, last = rng.choice(list(places(value)))
    inner = value
    for key in path:
        inner = inner[key]
    if rng.random() < 0.2:
        del inner[last]
    else:
        inner[last] = rng.choice(WILD)
    return value


def flipped(data: bytes, rng: Random) -> bytes:
    found = bytearray(data)
    for _ in range(rng.choice([1, 1, 8])):
        found[rng.randrange(len(found))] = rng.randrange(256)
    return bytes(found[: rng.randrange(len(found)) if rng.random() < 0.2 else None])


def damage(folder: Path, rng: Random) -> None:
    """Damage a state somewhere; mostly with checksums that are right, so that what is inside is read."""
    log, manifest = folder / "log.jsonl", json.loads((folder / "manifest.json").read_text())
    match rng.choice(["settings", "settings", "log", "log", "arrays", "manifest", "bytes"]):
        case "settings":
            manifest["settings"] = changed(manifest["settings"], rng)
        case "log":
            lines = log.read_text().splitlines()
            place = rng.randrange(len(lines))
            lines[place] = rng.choice([json.dumps(changed(json.loads(lines[place]), rng)), lines[0], "[" * 100_000])
            log.write_text("\n".join(lines))
        case "arrays":
            file = folder / rng.choice(["arrays.npz", "beliefs.npz"])
            file.write_bytes(flipped(file.read_bytes(), rng))
        case "manifest":
            manifest = changed(manifest, rng)
        case "bytes":
            file = rng.choice(sorted(folder.iterdir()))
            file.write_bytes(flipped(file.read_bytes(), rng))
            return
    if isinstance(manifest.get("files"), dict):
        manifest["files"] |= {
            name: storage._checksum(folder / name) for name in ("log.jsonl", "arrays.npz", "beliefs.npz")
        }
    manifest["checksum"] = storage._manifest_checksum(manifest)
    (folder / "manifest.json").write_text(json.dumps(manifest))


@pytest.mark.parametrize("seed", range(6))
def test_a_damaged_state_is_loaded_or_refused_in_one_sentence(saved: Path, tmp_path: Path, seed: int) -> None:
    rng, folder, refused = Random(seed), tmp_path / "state", 0
    for number in range(100):
        shutil.copytree(saved / ("plain" if number % 2 else "careful"), folder)
        damage(folder, rng)
        with np.errstate(all="ignore"):
            try:
                Controller.load(folder, rebuild=rng.random() < 0.2)
            except KinbandError as error:
                assert isinstance(error, SavedStateError)  # noqa: PT017 - which of the two is drawn
                refused += 1
        shutil.rmtree(folder)
    assert refused > 50


@pytest.mark.parametrize("text", ["[" * 100_000, '{"manifest.json": []}', "[]", "3", '{"files": 3}'])
def test_a_damaged_manifest_is_refused(saved: Path, tmp_path: Path, text: str) -> None:
    shutil.copytree(saved / "plain", tmp_path / "state")
    (tmp_path / "state" / "manifest.json").write_text(text)
    with pytest.raises(SavedStateError):
        Controller.load(tmp_path / "state")
