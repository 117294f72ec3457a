"""A controller on disk: a folder of plain files, no pickle, nothing run on loading.

`manifest.json` holds the schema version, the setup, and a checksum of every file and of itself; `log.jsonl` the
journal, one entry a line; `arrays.npz` the task matrix and the starting rows; `beliefs.npz`, optional, what the policy
believes, so that loading need not learn the log again. A folder is written beside its place and then moved there; a
crash between the two moves leaves the old state beside it, where the next load or save finds it.
"""

import hashlib
import json
import os
import shutil
import struct
import tempfile
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from kinband.controller.events import entry_from_dict, entry_to_dict
from kinband.controller.journal import Journal
from kinband.controller.setup import Setup, setup_from_parts, setup_to_parts
from kinband.errors import BadInputError, KinbandError, SavedStateError
from kinband.policies.base import KeepsState, Policy, PolicyFactory
from kinband.trace.files import path_of
from kinband.version import __version__

if TYPE_CHECKING:
    from kinband.cluster import OnRay
    from kinband.controller.controller import Controller

SCHEMA = 5
"""Of the folder; a state of another version is refused."""

_MANIFEST, _LOG, _ARRAYS, _BELIEFS = "manifest.json", "log.jsonl", "arrays.npz", "beliefs.npz"
_OLD = ".{}-old"  # where the old state waits while the new one takes its place


_DAMAGED = (
    KinbandError,
    ArithmeticError,
    AttributeError,
    EOFError,
    LookupError,
    MemoryError,
    OSError,
    RuntimeError,  # nested too deeply, or packed in a way that is not known
    TypeError,
    ValueError,
    struct.error,
    zipfile.BadZipFile,
    zlib.error,
)
"""What reading a damaged state breaks on, wherever the damage is."""


class Kept(Protocol):
    """What a folder keeps of a controller."""

    @property
    def setup(self) -> Setup:
        """What it was made with."""

    @property
    def journal(self) -> Journal:
        """What was asked and told."""

    @property
    def policy(self) -> Policy:
        """What believes."""


def save_controller(controller: Kept, path: str | PathLike[str], *, beliefs: bool) -> None:
    """Write a controller to the folder `path`, replacing an earlier state there."""
    path = _folder(path)
    if path.resolve() == Path.cwd():
        raise BadInputError(f"{path} is the present folder, which a save would replace: name a folder inside it")
    if path.exists() and not (path.is_dir() and (_is_state(path) or not any(path.iterdir()))):
        raise BadInputError(f"{path} exists and is not a saved controller: choose another folder")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _recover(path)
        fresh = Path(tempfile.mkdtemp(prefix=f".{path.name}-", dir=path.parent))
    except OSError as error:
        raise BadInputError(
            f"nothing can be saved in {path.parent} ({error.strerror}): choose another folder"
        ) from error
    try:
        _write(controller, fresh, beliefs=beliefs)
        _swap(fresh, path)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def load_controller(
    path: str | PathLike[str], *, policy: PolicyFactory | None, rebuild: bool, on: "OnRay | None" = None
) -> "Controller":
    """Read a controller from the folder `path`."""
    path = _folder(path)
    try:
        _recover(path)
        manifest = _read_manifest(path)
        sums = {name: one for name, one in manifest["files"].items() if not (rebuild and name == _BELIEFS)}
        _check_files(path, sums)
        return _assemble(path, manifest, policy=policy, rebuild=rebuild, on=on)
    except SavedStateError:
        raise
    except _DAMAGED as error:
        raise SavedStateError(f"the saved state in {path} does not fit together: {error}") from error


def _folder(path: object) -> Path:
    """Return the folder of a state under a name of its own, which "." and ".." do not give."""
    folder = path_of(path, what="a saved controller")
    return folder if folder.name not in ("", "..") else folder.resolve()


def _write(controller: Kept, folder: Path, *, beliefs: bool) -> None:
    values, arrays = setup_to_parts(controller.setup)
    lines = (json.dumps(entry_to_dict(entry), allow_nan=False) for entry in controller.journal)
    (folder / _LOG).write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    np.savez(folder / _ARRAYS, **arrays)
    if beliefs and isinstance(controller.policy, KeepsState):
        np.savez(folder / _BELIEFS, **controller.policy.state())
    sums = {file.name: _checksum(file) for file in sorted(folder.iterdir())}
    manifest = {"schema": SCHEMA, "kinband": __version__, "files": sums, "settings": values}
    manifest["checksum"] = _manifest_checksum(manifest)
    text = json.dumps(manifest, indent=1, allow_nan=False)
    (folder / _MANIFEST).write_text(text + "\n", encoding="utf-8")
    for file in folder.iterdir():
        with file.open("rb") as opened:
            os.fsync(opened.fileno())


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
    shutil.rmtree(old)


def _recover(path: Path) -> None:
    """Put back the old state where a crash came between taking it away and putting the new one in its place."""
    old = path.with_name(_OLD.format(path.name))
    if not path.exists() and _is_state(old):
        old.rename(path)


def _assemble(
    path: Path, manifest: Mapping[str, Any], *, policy: PolicyFactory | None, rebuild: bool, on: "OnRay | None"
) -> "Controller":
    from kinband.controller.controller import Controller

    setup = setup_from_parts(manifest["settings"], _read_arrays(path / _ARRAYS), policy=policy)
    configurations = dict(enumerate(setup.encoder.space))
    lines = (path / _LOG).read_text(encoding="utf-8").splitlines()
    entries = [entry_from_dict(json.loads(line), configurations) for line in lines]
    stored = _read_arrays(path / _BELIEFS) if _BELIEFS in manifest["files"] and not rebuild else None
    return Controller.resume(replace(setup, on=on), entries, beliefs=stored)


def _read_manifest(path: Path) -> dict[str, Any]:
    file = path / _MANIFEST
    if not file.is_file():
        raise SavedStateError(f"{path} holds no saved controller: {_MANIFEST} is missing")
    try:
        manifest = json.loads(file.read_text(encoding="utf-8"))
        schema = manifest["schema"]
        complete = {"files", "settings"} <= set(manifest)
    except (UnicodeDecodeError, ValueError, TypeError, KeyError) as error:
        raise SavedStateError(f"{file} is damaged: restore it from a backup") from error
    if isinstance(schema, int) and schema != SCHEMA:
        age, advice = ("a newer", "upgrade kinband") if schema > SCHEMA else ("an older", "make the controller anew")
        raise SavedStateError(
            f"{path} was written by {age} kinband ({manifest.get('kinband')}, schema {schema}; this reads {SCHEMA})",
            hint=advice, code="saved_by_another_version",
        )  # fmt: skip
    if not complete or manifest.get("checksum") != _manifest_checksum(manifest):
        raise SavedStateError(f"{file} is damaged or was edited: restore it from a backup")
    return dict(manifest)


def _check_files(path: Path, sums: Mapping[str, str]) -> None:
    for name in {_LOG, _ARRAYS, *sums}:
        file = path / Path(name).name
        if not file.is_file():
            raise SavedStateError(f"the saved state in {path} is incomplete: {name} is missing{_advice(name)}")
        if _checksum(file) != sums.get(name):
            raise SavedStateError(f"{file} is damaged (its checksum differs): restore it from a backup{_advice(name)}")


def _advice(name: str) -> str:
    return ", or load with rebuild=True, which learns the log again" if name == _BELIEFS else ""


def _read_arrays(file: Path) -> dict[str, Any]:
    try:
        with file.open("rb") as binary, np.load(binary, allow_pickle=False) as stored:
            return {name: stored[name] for name in stored.files}
    except (OSError, EOFError, NotImplementedError, ValueError, zipfile.BadZipFile, zlib.error) as error:
        raise SavedStateError(f"{file} is damaged: {error}") from error


def _checksum(file: Path) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def _manifest_checksum(manifest: Mapping[str, Any]) -> str:
    """Return a digest of all that a manifest says but the digest itself."""
    said = {key: value for key, value in manifest.items() if key != "checksum"}
    return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()


def _is_state(path: Path) -> bool:
    return (path / _MANIFEST).is_file()
