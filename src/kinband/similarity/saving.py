"""Task matrices on disk: `.npz` for machines, `.csv` for people.

The `.npz` holds the matrix and one JSON text with the names, the method and its details; it is read without
pickle, so a file can hold wrong numbers but cannot run anything. The `.csv` is a square table, names along the
top and down the side, the method in the corner; numbers are written with as many digits as it takes to
read back the same bits. Details do not fit into a table and are left to the `.npz`.
"""

import csv
import json
import zipfile
from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from kinband.arrays import FloatArray
from kinband.errors import BadInputError, SavedStateError
from kinband.trace.files import path_of

FORMAT = "kinband task matrix"
VERSION = 1

Parts = tuple[tuple[str, ...], FloatArray, str, dict[str, Any]]
"""Stations, matrix, method, details: what a file holds, not yet checked for meaning."""


def write_task_matrix(
    path: str | PathLike[str],
    stations: Sequence[str],
    *,
    matrix: FloatArray,
    method: str,
    details: Mapping[str, Any],
) -> None:
    """Write a task matrix (M, M) with its names to a `.npz` or `.csv` file, in a folder that is made if need be.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     write_task_matrix(f"{folder}/k.csv", ["a"], matrix=np.eye(1), method="given", details={})
        ...     read_task_matrix(f"{folder}/k.csv")
        (('a',), array([[1.]]), 'given', {})
    """
    path = path_of(path, what="a task matrix")
    suffix = _suffix(path)
    _make_folder(path)
    if suffix == ".csv":
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow([method, *stations])
            for name, row in zip(stations, matrix.tolist(), strict=True):
                writer.writerow([name, *map(repr, row)])
        return
    about = {"format": FORMAT, "version": VERSION, "stations": list(stations), "method": method}
    text = json.dumps({**about, "details": dict(details)}, allow_nan=False)
    with path.open("wb") as binary:  # a path would let NumPy change the name
        np.savez(binary, matrix=matrix, about=np.array(text))


def read_task_matrix(path: str | PathLike[str]) -> Parts:
    """Return stations, matrix (M, M), method and details from a `.npz` or `.csv` file.

    Example:
        >>> read_task_matrix("no/such/file.npz")
        Traceback (most recent call last):
            ...
        kinband.errors.BadInputError: there is no file no/such/file.npz
    """
    path = path_of(path, what="a task matrix")
    suffix = _suffix(path)
    if not path.is_file():
        raise BadInputError(f"there is no file {path}")
    return _read_csv(path) if suffix == ".csv" else _read_npz(path)


def _make_folder(path: Path) -> None:
    """Make the folder of a file, or say what is in the way."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadInputError(f"there is no folder {path.parent} and none can be made ({error.strerror})") from error
    if path.is_dir():
        raise BadInputError(f"{path} is a folder: name a file to write")


def _suffix(path: Path) -> str:
    suffix = path.suffix.lower()
    if suffix not in (".npz", ".csv"):
        raise BadInputError(f"a task matrix is stored as .npz or .csv, got {path.name!r}: choose one of these endings")
    return suffix


def _read_npz(path: Path) -> Parts:
    try:
        with path.open("rb") as binary, np.load(binary, allow_pickle=False) as file:
            matrix = np.asarray(file["matrix"], dtype=np.float64)
            about = json.loads(str(file["about"][()]))
        if about["format"] != FORMAT:
            raise ValueError(f"its format is {about['format']!r}")
        version = int(about["version"])
        parts = (tuple(about["stations"]), matrix, about["method"], dict(about["details"]))
    except (
        OSError,
        EOFError,
        zipfile.BadZipFile,
        ValueError,
        KeyError,
        TypeError,
        IndexError,
        AttributeError,
    ) as error:
        raise SavedStateError(f"{path} is not a task matrix that kinband wrote, or it is damaged: {error}") from error
    if version > VERSION:
        raise SavedStateError(f"{path} has version {version}, this kinband reads up to {VERSION}: upgrade kinband")
    return parts


def _read_csv(path: Path) -> Parts:
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:  # spreadsheets begin their files with a mark
            rows = [row for row in csv.reader(file) if row]
    except (csv.Error, UnicodeDecodeError) as error:
        raise BadInputError(f"{path} is not a table of text: {error}") from error
    if len(rows) < 2:
        raise BadInputError(f"{path} holds no table: expected station names along the top and down the side")
    (corner, *names), body = rows[0], rows[1:]
    if [row[0] for row in body] != names:
        raise BadInputError(f"{path} must name the same stations, in the same order, along the top and down the side")
    for row in body:
        if len(row) != len(names) + 1:
            raise BadInputError(f"{path} has {len(row) - 1} numbers for station {row[0]!r}, expected {len(names)}")
    try:
        matrix = np.array([[float(cell) for cell in row[1:]] for row in body])
    except ValueError as error:
        raise BadInputError(f"{path} holds something that is not a number: {error}") from error
    return tuple(names), matrix, corner or "given", {}
