"""Writes measurement files (TS 32.435 `measCollecFile`) and logs of configuration changes, as networks export them.

One file for each measurement period and network element, named as TS 32.432 says; values are lists in the order of
`measTypes`. What is written here, `pm` and `cm` read.
"""

import csv
import gzip
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from xml.sax.saxutils import quoteattr

SPACE = "http://www.3gpp.org/ftp/specs/archive/32_series/32.435#measCollec"


@dataclass(frozen=True)
class Measured:
    """The counters of the objects of one network element in one period.

    Attributes:
        prefix: The part of all names above the element: DC=a.com.
        element: The element: ManagedElement=7.
        begin: When the period begins; a time without a zone is UTC.
        end: When it ends.
        counters: Their names.
        values: Name of an object below the element to its values as text, in the order of the counters.

    Example:
        >>> from datetime import timedelta
        >>> begin = datetime(2026, 11, 1, 14)
        >>> hour = Measured("DC=a", "ManagedElement=7", begin, begin + timedelta(hours=1), ("X",), {"Cell=1": ("3",)})
        >>> hour.file_name
        'A20261101.1400+0000-1500+0000_7.xml'
    """

    prefix: str
    element: str
    begin: datetime
    end: datetime
    counters: tuple[str, ...]
    values: Mapping[str, tuple[str, ...]]

    @property
    def file_name(self) -> str:
        """The name of its file; it has minutes and no seconds."""
        begin, end = _utc(self.begin), _utc(self.end)
        return f"A{begin:%Y%m%d.%H%M}+0000-{end:%H%M}+0000_{self.element.rpartition('=')[2]}.xml"

    @property
    def text(self) -> str:
        """The text of its file."""
        begin, end = (_utc(time).isoformat(timespec="seconds") for time in (self.begin, self.end))
        length = f"PT{(self.end - self.begin).total_seconds():.0f}S"
        rows = "".join(
            f"<measValue measObjLdn={quoteattr(name)}><measResults>{' '.join(own)}</measResults></measValue>\n"
            for name, own in self.values.items()
        )
        return (
            f'<?xml version="1.0" encoding="UTF-8"?>\n<measCollecFile xmlns="{SPACE}">\n'
            f'<fileHeader fileFormatVersion="32.435 V10.0" dnPrefix={quoteattr(self.prefix)}>'
            f'<fileSender localDn={quoteattr(self.element)}/><measCollec beginTime="{begin}"/></fileHeader>\n'
            f"<measData><managedElement localDn={quoteattr(self.element)}/>\n<measInfo>"
            f'<granPeriod duration="{length}" endTime="{end}"/><repPeriod duration="{length}"/>\n'
            f"<measTypes>{' '.join(self.counters)}</measTypes>\n{rows}</measInfo></measData>\n"
            f'<fileFooter><measCollec endTime="{end}"/></fileFooter>\n</measCollecFile>\n'
        )

    def write(self, folder: Path, *, gzipped: bool = False) -> Path:
        """Write its file into a folder."""
        path = folder / (self.file_name + ".gz" * gzipped)
        data = self.text.encode()
        path.write_bytes(gzip.compress(data, mtime=0) if gzipped else data)
        return path


def write_changes(path: Path, attribute: str, changes: Iterable[tuple[str, datetime, str]]) -> None:
    """Write a log of changes as CSV: the name of an object, from when on, and the value of the attribute."""
    with path.open("w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(["DN", "time", attribute])
        rows.writerows([dn, _utc(time).isoformat(timespec="seconds"), value] for dn, time, value in changes)


def _utc(time: datetime) -> datetime:
    return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)
