"""A loss of power, without one: files go back to what was synced, or to any mixture of that and what was not.

A small library (`synced.c`), preloaded by the processes of a service, keeps of every file what it held when it was last
synced. After they were killed, `lose` puts that in the place of the files. A disk may have written anything else since,
in any order, so half of the times every block of 512 bytes that differs is drawn from either. Not covered: folders
(a file that was synced once is there), what is in them, such as snapshots, and blocks that are neither the old nor the
new.
"""

import shutil
import subprocess
from pathlib import Path

import numpy as np

BLOCK = 512
"""Bytes that a disk writes whole."""


def built(folder: Path) -> Path | None:
    """Compile the library into a folder; None where there is no C compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        return None
    source, made = Path(__file__).with_name("synced.c"), folder / "synced.so"
    subprocess.run(  # noqa: S603 - our own source
        [compiler, "-shared", "-fPIC", "-O2", "-o", made, source, "-ldl"], check=True
    )
    return made


def watched(library: Path, *, files: Path, copies: Path) -> dict[str, str]:
    """Return the environment of a process whose synced files below a folder are to be kept."""
    return {"LD_PRELOAD": str(library), "SOAK_SYNCED_FROM": str(files.resolve()), "SOAK_SYNCED_TO": str(copies)}


def lose(file: Path, copy: Path, *, rng: np.random.Generator | None = None) -> int:
    """Put back what was synced of a file, and return how many bytes that changes.

    Args:
        file: As its processes left it.
        copy: What was synced of it; it is gone where nothing ever was.
        rng: Draws of every block that differs whether it was written after all; nothing was if not given.
    """
    now = file.read_bytes()
    if not copy.exists():
        file.unlink()
        return len(now)
    kept = copy.read_bytes() if rng is None else _mixed(now, copy.read_bytes(), rng)
    file.write_bytes(kept)
    return sum(a != b for a, b in zip(now, kept, strict=False)) + abs(len(now) - len(kept))


def _mixed(now: bytes, synced: bytes, rng: np.random.Generator) -> bytes:
    whole = max(len(now), len(synced)) if rng.random() < 0.5 else len(synced)
    found = bytearray(synced.ljust(whole, b"\0"))
    for at in range(0, min(whole, len(now)), BLOCK):
        if rng.random() < 0.5:
            part = now[at : min(at + BLOCK, whole)]
            found[at : at + len(part)] = part
    return bytes(found)
