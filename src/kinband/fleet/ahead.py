"""The log that is written ahead: every call of a fleet is on disk before its caller gets an answer.

`ahead.log` stands beside the saved fleet and holds what happened since, one call a line: a checksum, then JSON with the
entries of every shard concerned. A line that a crash cut short belongs to a call that never returned, and is dropped;
damage anywhere else is refused. Saving the fleet begins a new one.
"""

import json
import os
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from kinband.controller.events import Entry, check_entry, entry_from_dict, entry_to_dict
from kinband.errors import KinbandError, SavedStateError
from kinband.fleet.errors import FleetError
from kinband.fleet.log import ShardLog

_NAME = "ahead.log"


class AheadLog:
    r"""Writes what happens to a saved fleet.

    Args:
        folder: The saved fleet; a log that is there is continued.

    Example:
        >>> import tempfile
        >>> from kinband.controller.events import CalledOff
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     AheadLog(Path(folder)).write({3: [CalledOff("d000012")]})
        ...     (Path(folder) / "ahead.log").read_text().partition(" ")[2]
        '{"3": [{"entry": "called-off", "id": "d000012"}]}\n'
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._file = folder / _NAME
        self._size = sum(len(line) for line in _lines(self._file))  # up to here every line is whole

    def write(self, answers: Mapping[int, Sequence[Entry]]) -> None:
        """Append the entries of a call, by shard, whole and for good, or not at all."""
        entries = {str(shard): [entry_to_dict(entry) for entry in new] for shard, new in answers.items()}
        line = _line(json.dumps(entries, allow_nan=False))
        try:
            with self._file.open("ab") as opened:
                opened.truncate(self._size)  # takes away what a crash left behind
                opened.write(line)
                opened.flush()
                os.fsync(opened.fileno())
        except OSError as error:
            with suppress(OSError):
                os.truncate(self._file, self._size)
            raise FleetError(
                f"{self._file} could not be written ({error.strerror or error}): nothing of the call was recorded; "
                "make room and call again"
            ) from error
        self._size += len(line)


def replay_ahead(folder: Path, logs: Sequence[ShardLog]) -> None:
    """Add what was written ahead to the logs of the shards, or say why it cannot have happened."""
    file = folder / _NAME
    configurations = [dict(enumerate(log.settings.encoder.space)) for log in logs] if file.is_file() else []
    for number, line in enumerate(_lines(file), start=1):
        text = line.decode(errors="replace")
        try:
            if _line(text[9:-1]) != line:
                raise ValueError("its checksum differs")
            for shard, entries in json.loads(text[9:]).items():
                _add(logs[int(shard)], entries, configurations[int(shard)])
        except (KinbandError, AttributeError, KeyError, IndexError, TypeError, ValueError) as error:
            raise SavedStateError(f"line {number} of {file} is damaged or out of place: {error}") from error


def _add(log: ShardLog, entries: Sequence[Mapping[str, Any]], configurations: Mapping[int, Mapping[str, Any]]) -> None:
    for values in entries:
        entry = entry_from_dict(values, configurations)
        check_entry(entry, log.journal, log.settings)
        log.add([entry])


def _line(text: str) -> bytes:
    body = text.encode()
    return f"{zlib.crc32(body):08x} ".encode() + body + b"\n"


def _lines(file: Path) -> Iterator[bytes]:
    """Return the lines that end, one by one; the last may have been cut short."""
    if not file.is_file():
        return
    with file.open("rb") as opened:
        for line in opened:
            if line.endswith(b"\n"):
                yield line
