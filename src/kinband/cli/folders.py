"""Folders for results: made and tried before any work, so that nothing is computed that could not be kept."""

import tempfile
from pathlib import Path

from kinband.errors import BadInputError


def make_folder(out: Path) -> None:
    """Make a folder and try to write to it, or say what is in the way.

    Example:
        >>> make_folder(Path(__file__) / "results")
        Traceback (most recent call last):
            ...
        kinband.errors.BadInputError: cannot write to ...results (not a directory): choose another folder with --out
    """
    try:
        out.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=out):
            pass
    except OSError as error:
        reason = "a file of that name is in the way" if out.is_file() else (error.strerror or str(error)).lower()
        raise BadInputError(f"cannot write to {out} ({reason}): choose another folder with --out") from error
