"""A fleet on disk: a folder of saved controllers.

`fleet.json` names the shards and holds a checksum of each one's manifest and of itself; every shard is a folder that
`Controller.load` can read on its own. A folder is written beside its place and then moved there, so a disk that fills
up or a crash leaves the old state whole. What happened since is in the log that is written ahead (`ahead`).
"""

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Any

from kinband.controller import Controller, Settings
from kinband.controller.events import Journal
from kinband.controller.storage import save_controller
from kinband.errors import BadInputError, SavedStateError
from kinband.fleet.engine import FleetError, ShardLog, one_blas_thread, replay_ahead
from kinband.policies.base import KeepsState, Policy, PolicyFactory
from kinband.trace.files import path_of
from kinband.version import __version__

SCHEMA = 1
_MANIFEST, _SHARD_MANIFEST = "fleet.json", "manifest.json"
_OLD = ".{}-old"  # where the old state waits while the new one takes its place

Beliefs = Callable[[int], Mapping[str, Any] | None]


def folder_of(path: str | PathLike[str]) -> Path:
    """Return the folder of a fleet, the same wherever the process goes, under a name of its own.

    Example:
        >>> folder_of("state/country").name
        'country'
    """
    folder = path_of(path, what="a saved fleet").absolute()
    return folder if folder.name not in ("", "..") else folder.resolve()


def save_logs(logs: Sequence[ShardLog], path: Path, *, beliefs: Beliefs | None, lost: float | None) -> None:
    """Write a fleet to the folder `path`, replacing an earlier fleet there."""
    if path.resolve() == Path.cwd():
        raise BadInputError(f"{path} is the present folder, which a save would replace: name a folder inside it")
    if path.exists() and not (path.is_dir() and (_is_fleet(path) or not any(path.iterdir()))):
        raise BadInputError(f"{path} exists and is not a saved fleet: choose another folder")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _recover(path)
        fresh = Path(tempfile.mkdtemp(prefix=f".{path.name}-", dir=path.parent))
        try:
            _write(logs, fresh, beliefs=beliefs, lost=lost)
            _swap(fresh, path)
        finally:
            shutil.rmtree(fresh, ignore_errors=True)
    except (OSError, BadInputError) as error:  # a shard's own saving tells of a full disk in a sentence
        why = getattr(error, "strerror", None) or error
        raise FleetError(
            f"the fleet could not be saved to {path} ({why}): what was there before is unchanged; make room or choose "
            "another folder"
        ) from error


def load_logs(path: Path, *, policy: PolicyFactory | None, rebuild: bool) -> tuple[list[ShardLog], float | None]:
    """Read the logs of all shards from the folder `path`, and the share of likeness that lies between them."""
    _recover(path)
    manifest = _read_manifest(path)
    logs: list[ShardLog] = []
    for shard, (name, checksum) in enumerate(manifest["shards"].items()):
        folder = path / Path(name).name
        if not (folder / _SHARD_MANIFEST).is_file() or _checksum(folder / _SHARD_MANIFEST) != checksum:
            raise SavedStateError(f"{folder} is missing, damaged or of another time: restore the fleet from a backup")
        logs.append(_read_shard(shard, folder, policy=policy, rebuild=rebuild))
    replay_ahead(path, logs)
    return logs, manifest["lost"]


def _write(logs: Sequence[ShardLog], folder: Path, *, beliefs: Beliefs | None, lost: float | None) -> None:
    sums: dict[str, str] = {}
    for log in logs:
        name = f"s{log.shard:03d}"
        _write_shard(log, folder / name, None if beliefs is None else beliefs(log.shard))
        sums[name] = _checksum(folder / name / _SHARD_MANIFEST)
    manifest: dict[str, Any] = {"schema": SCHEMA, "kinband": __version__, "lost": lost, "shards": sums}
    manifest["checksum"] = _manifest_checksum(manifest)
    with (folder / _MANIFEST).open("w", encoding="utf-8") as opened:
        opened.write(json.dumps(manifest, indent=1, allow_nan=False) + "\n")
        opened.flush()
        os.fsync(opened.fileno())


@dataclass(frozen=True, eq=False)
class _Kept:
    """A shard as its folder keeps it."""

    settings: Settings
    journal: Journal
    policy: Policy


def _write_shard(log: ShardLog, folder: Path, beliefs: Mapping[str, Any] | None) -> None:
    """Save a shard as a controller that has its log and, where they are given, its beliefs."""
    controller = Controller.from_settings(replace(log.settings, start=None))
    if beliefs is not None and isinstance(controller.policy, KeepsState):
        controller.policy.restore(beliefs)
    save_controller(_Kept(log.settings, log.journal, controller.policy), folder, beliefs=beliefs is not None)


def _read_shard(shard: int, folder: Path, *, policy: PolicyFactory | None, rebuild: bool) -> ShardLog:
    with one_blas_thread():  # where it must learn the log anew
        controller = Controller.load(folder, policy=policy, rebuild=rebuild)
    entries = tuple(controller.journal)
    beliefs = controller.policy.state() if isinstance(controller.policy, KeepsState) else None
    return ShardLog(shard, controller.settings, entries=entries, beliefs=beliefs, covered=len(entries))


def _swap(fresh: Path, path: Path) -> None:
    """Put a finished folder in the place of an old one."""
    if not path.exists():
        fresh.rename(path)
        return
    old = path.with_name(_OLD.format(path.name))
    path.rename(old)
    try:
        fresh.rename(path)
    except OSError:
        old.rename(path)
        raise
    shutil.rmtree(old, ignore_errors=True)


def _recover(path: Path) -> None:
    """Put back the old state where a crash came between the two moves, and clear it away where it came after."""
    old = path.with_name(_OLD.format(path.name))
    if not _is_fleet(old):
        return
    if not path.exists():
        old.rename(path)
    elif _is_fleet(path):
        shutil.rmtree(old, ignore_errors=True)


def _read_manifest(path: Path) -> dict[str, Any]:
    file = path / _MANIFEST
    if not file.is_file():
        raise SavedStateError(f"{path} holds no saved fleet: {_MANIFEST} is missing")
    try:
        manifest = dict(json.loads(file.read_text(encoding="utf-8")))
        schema = manifest["schema"]
    except (UnicodeDecodeError, ValueError, TypeError, KeyError) as error:
        raise SavedStateError(f"{file} is damaged: restore it from a backup") from error
    if isinstance(schema, int) and schema > SCHEMA:
        raise SavedStateError(
            f"{path} was written by a newer kinband ({manifest.get('kinband')}, schema {schema}; this one reads "
            f"{SCHEMA}): upgrade kinband"
        )
    if manifest.get("checksum") != _manifest_checksum(manifest) or not manifest.get("shards"):
        raise SavedStateError(f"{file} is damaged or was edited: restore it from a backup")
    return manifest


def _checksum(file: Path) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def _manifest_checksum(manifest: Mapping[str, Any]) -> str:
    said = {key: value for key, value in manifest.items() if key != "checksum"}
    return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()


def _is_fleet(path: Path) -> bool:
    return (path / _MANIFEST).is_file()
