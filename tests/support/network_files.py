"""Writes small measurement and configuration files in every form that networks write them."""

import gzip
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import escape, quoteattr

FORMS = ("listed", "numbered", "28.532", "prefixed", "misplaced")
"""TS 32.435 with lists, with numbers; TS 28.532; a namespace prefix; an instruction before the declaration."""


@dataclass(frozen=True)
class Info:
    """A block of a measurement file: objects to counters to values as text."""

    values: Mapping[str, Mapping[str, str]]
    end: str = "2026-11-01T14:15:00+02:00"
    duration: str = "PT900S"
    suspect: tuple[str, ...] = ()


def pm_text(
    infos: Sequence[Info], *, form: str = "numbered", prefix: str = "DC=a", element: str = "ManagedElement=7"
) -> str:
    """The text of a measurement file."""
    p = "m:" if form == "prefixed" else ""
    entity = "measEntity" if form == "28.532" else "managedElement"
    root = "measDataFile" if form == "28.532" else "measCollecFile"
    space = "28_series/28.532#measData" if form == "28.532" else "32_series/32.435#measCollec"
    blocks = "".join(_info(info, p, listed=form == "listed") for info in infos)
    text = (
        f'<{p}{root} xmlns{":m" if p else ""}="http://www.3gpp.org/ftp/specs/archive/{space}">'
        f"<{p}fileHeader dnPrefix={quoteattr(prefix)}><{p}fileSender/></{p}fileHeader>"
        f"<{p}measData><{p}{entity} localDn={quoteattr(element)}/>{blocks}</{p}measData><{p}fileFooter/></{p}{root}>"
    )
    style, declared = '<?xml-stylesheet type="text/xsl" href="a.xsl"?>\n', '<?xml version="1.0" encoding="UTF-8"?>\n'
    return (style + declared if form == "misplaced" else declared + style) + text


def _info(info: Info, p: str, *, listed: bool) -> str:
    names = list(next(iter(info.values.values())))
    period = f'<{p}granPeriod duration="{info.duration}" endTime="{info.end}"/>'
    if listed:
        types = f"<{p}measTypes>{' '.join(names)}</{p}measTypes>"
    else:
        types = "".join(f'<{p}measType p="{n}">{escape(name)}</{p}measType>' for n, name in enumerate(names, 1))
    rows = "".join(_row(dn, own, p, listed=listed, suspect=dn in info.suspect) for dn, own in info.values.items())
    return f'<{p}measInfo measInfoId="x"><{p}job jobId="1"/>{period}{types}{rows}</{p}measInfo>'


def _row(dn: str, own: Mapping[str, str], p: str, *, listed: bool, suspect: bool) -> str:
    if listed:
        cells = f"<{p}measResults>{' '.join(value or 'NIL' for value in own.values())}</{p}measResults>"
    else:
        cells = "".join(f'<{p}r p="{n}">{value}</{p}r>' for n, value in enumerate(own.values(), 1))
    mark = f"<{p}suspect>true</{p}suspect>" if suspect else ""
    return f"<{p}measValue measObjLdn={quoteattr(dn)}>{cells}{mark}</{p}measValue>"


def write(path: Path, text: str) -> Path:
    """Write a text, gzipped if the name says so."""
    data = text.encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def bulk_text(cells: Mapping[str, Mapping[str, str]], *, time: str, modifier: str = "", vendor: bool = True) -> str:
    """The text of a bulk CM file: cell id to attributes, in the maker's container or as plain ones."""
    mark = f' modifier="{modifier}"' if modifier else ""
    objects = "".join(_cell(name, own, mark, vendor=vendor) for name, own in cells.items())
    return (
        '<?xml version="1.0"?><bulkCmConfigDataFile xmlns="c" xmlns:xn="x" xmlns:un="u" xmlns:es="e"><fileHeader/>'
        f'<configData dnPrefix="DC=a"><xn:ManagedElement id="7"><un:ENBFunction id="1">{objects}'
        f'</un:ENBFunction></xn:ManagedElement></configData><fileFooter dateTime="{time}"/></bulkCmConfigDataFile>'
    )


def _cell(name: str, own: Mapping[str, str], mark: str, *, vendor: bool) -> str:
    if not vendor:
        inner = "".join(f"<un:{key}>{value}</un:{key}>" for key, value in own.items())
        return f'<un:Cell id="{name}"{mark}><un:attributes>{inner}</un:attributes></un:Cell>'
    inner = "".join(f"<es:{key}>{value}</es:{key}>" for key, value in own.items())
    return (
        f'<un:Cell id="{name}"><un:attributes><un:userLabel>c</un:userLabel></un:attributes>'
        f'<xn:VsDataContainer id="{name}"{mark}><xn:attributes><xn:vsDataType>vsDataCell</xn:vsDataType>'
        "<xn:vsDataFormatVersion>V1</xn:vsDataFormatVersion>"
        f"<es:vsDataCell>{inner}</es:vsDataCell></xn:attributes></xn:VsDataContainer></un:Cell>"
    )
