"""Change and roll-back as bulk CM files (the shape of TS 32.615), for managers without NETCONF.

Objects are nested as their names are, and have `modifier="update"`. A maker's attributes are put into a
`VsDataContainer`; where objects have the maker's prefix too, they are such containers themselves. What an attribute
should be before it is set stands beside it in a comment, since the format has no other place for it.
"""

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from kinband.counters.files import parts_of
from kinband.counters.writing import BulkCm
from kinband.deploy.orders import Item
from kinband.errors import BadInputError

FILE = "http://www.3gpp.org/ftp/specs/archive/32_series/32.615#configData"
_GENERIC = ("SubNetwork", "MeContext", "ManagedElement", "ManagementNode")  # classes of the generic model


def write_bulk_cm(items: Sequence[Item], file: Path, style: BulkCm, *, now: datetime) -> list[Path]:
    """Write the change into a file, and what undoes it into one beside it; return their paths.

    Args:
        items: What to set where.
        file: The file of the change; that of the roll-back has -rollback in its name.
        style: Namespaces, and how a maker's attributes are written.
        now: The time, which the files carry.

    Example:
        >>> write_bulk_cm([], Path("change.xml"), BulkCm(), now=datetime(2026, 11, 1))
        Traceback (most recent call last):
            ...
        kinband.errors.BadInputError: the plan moves no knob: there is nothing to write
    """
    moving = [item for item in items if item.moves]
    if not moving:
        raise BadInputError("the plan moves no knob: there is nothing to write")
    back = file.with_name(f"{file.stem}-rollback{file.suffix}")
    for path in (back, file):
        if path.exists():
            raise BadInputError(f"{path} exists and may still be needed: choose another name, or remove it")
    back.write_bytes(_document([(one, one.after, one.before) for one in moving], style, now=now))
    file.write_bytes(_document([(one, one.before, one.after) for one in moving], style, now=now))
    return [back, file]


def _document(settings: Sequence[tuple[Item, str, str]], style: BulkCm, *, now: datetime) -> bytes:
    from lxml import etree

    spaces = {(prefix or None): space for prefix, space in {"": FILE, **style.namespaces}.items()}
    own = f"{{{spaces[None]}}}"
    root = etree.Element(f"{own}bulkCmConfigDataFile", nsmap=spaces)
    etree.SubElement(root, f"{own}fileHeader", fileFormatVersion="32.615 V9.2", vendorName="")
    prefix = _prefix(settings)
    data = etree.SubElement(root, f"{own}configData", dnPrefix=",".join(prefix))
    known: dict[tuple[str, ...], Any] = {(): data}
    for item, before, after in settings:
        owner = _object(known, tuple(parts_of(item.dn)[len(prefix) :]), style)
        place = _attributes(owner, parts_of(item.dn)[-1], style)
        expected = f" {item.attribute} should be {before} before "
        place.append(etree.Comment(expected.replace("--", "- -")))
        space = style.namespaces[style.vendor or style.objects]
        etree.SubElement(place, f"{{{space}}}{item.attribute}").text = after
    etree.SubElement(root, f"{own}fileFooter", dateTime=now.isoformat(timespec="seconds"))
    return bytes(etree.tostring(root, xml_declaration=True, encoding="UTF-8", pretty_print=True))


def _prefix(settings: Sequence[tuple[Item, str, str]]) -> list[str]:
    """The parts that all names begin with and that are no objects of the model, such as DC=a.com."""
    found = [[part for part in parts_of(item.dn) if part.startswith("DC=")] for item, _, _ in settings]
    if any(one != found[0] for one in found):
        raise BadInputError("the objects of the plan have different DC parts: write a file for each network")
    return found[0]


def _object(known: dict[tuple[str, ...], Any], parts: tuple[str, ...], style: BulkCm) -> Any:
    """Return the element of an object, made with those above it if it is not there."""
    if parts not in known:
        above = _object(known, parts[:-1], style)
        kind, _, name = parts[-1].partition("=")
        if style.objects == style.vendor and kind not in _GENERIC:
            known[parts] = _container(above, kind, name, style)
        else:
            prefix = "xn" if kind in _GENERIC else style.objects
            known[parts] = _sub(above, style.namespaces[prefix], kind, id=name)
    return known[parts]


def _attributes(owner: Any, part: str, style: BulkCm) -> Any:
    """Return the element into which attributes of an object go."""
    generic = style.namespaces["xn"]
    kind, _, name = part.partition("=")
    vendor = style.namespaces.get(style.vendor, "")
    inner = owner.find(f"{{{generic}}}attributes/{{{vendor}}}vsData{kind}")
    if inner is not None:  # the object is a container of the maker's
        owner.set("modifier", "update")
        return inner
    if not style.vendor:
        owner.set("modifier", "update")
        space = owner.tag[1:].partition("}")[0]
        found = owner.find(f"{{{space}}}attributes")
        if found is None:
            found = _sub(owner, space, "attributes")
            owner.insert(0, found)
        return found
    inside = next((one for one in owner if one.get("id") == name and one.tag == f"{{{generic}}}VsDataContainer"), None)
    if inside is None:
        inside = _container(owner, kind, name, style)
    inside.set("modifier", "update")
    return inside.find(f"{{{generic}}}attributes/{{{vendor}}}vsData{kind}")


def _container(above: Any, kind: str, name: str, style: BulkCm) -> Any:
    generic, vendor = style.namespaces["xn"], style.namespaces[style.vendor]
    made = _sub(above, generic, "VsDataContainer", id=name)
    attributes = _sub(made, generic, "attributes")
    _sub(attributes, generic, "vsDataType").text = f"vsData{kind}"
    _sub(attributes, generic, "vsDataFormatVersion").text = style.format
    _sub(attributes, vendor, f"vsData{kind}")
    return made


def _sub(above: Any, space: str, name: str, **attributes: str) -> Any:
    from lxml import etree

    return etree.SubElement(above, f"{{{space}}}{name}", **attributes)
