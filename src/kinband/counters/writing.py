"""What a mapping says of writing: where objects are listed, and how a knob is called in NETCONF and in bulk CM files.

The keys `inventory`, `netconf` and `bulk_cm` of the mapping; names of objects and units are those of reading. A path is
written as in XPath, `/c:ManagedElement[id={ManagedElement}]/EUtranCellFDD[id={id}]/a2ThresholdRsrp`: what is in braces
comes from the distinguished name, and a name without a prefix has the namespace of the step before.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from kinband.counters.files import parts_of
from kinband.guardrails.yaml import Entry, got

Path = tuple["Element", ...]
"""Where a value is in a tree of XML: the elements from the root on."""
Element = tuple[str, tuple[tuple[str, str], ...]]
"""A name, {namespace}name, and the texts of the children that tell it from others."""

GENERIC = "http://www.3gpp.org/ftp/specs/archive/32_series/32.625#genericNrm"
EUTRAN = "http://www.3gpp.org/ftp/specs/archive/32_series/32.765#eutranNrm"

_NAME = r"[A-Za-z_][\w.\-]*"
_KEY = re.compile(rf"\[(?:({_NAME}):)?({_NAME})=([^\[\]]+)\]")
_STEP = re.compile(rf"/(?:({_NAME}):)?({_NAME})((?:\[[^\[\]]*\])*)")


@dataclass(frozen=True)
class BulkCm:
    """How change files are written.

    Attributes:
        namespaces: Prefixes to namespaces; `xn` is that of the generic objects, "" that of the file.
        objects: Prefix of the other objects.
        vendor: Prefix of a maker's attributes, which are put into a container; "" where they are standard ones.
        format: The maker's name and version of that container.
    """

    namespaces: Mapping[str, str] = field(default_factory=lambda: {"xn": GENERIC, "en": EUTRAN})
    objects: str = "en"
    vendor: str = ""
    format: str = ""


@dataclass(frozen=True)
class Writing:
    """What a mapping says of writing.

    Attributes:
        inventory: File with the names of the objects and the nodes where they are.
        paths: Name of a knob to where its value is, as a template.
        bulk_cm: How change files are written.
    """

    inventory: str = ""
    paths: Mapping[str, Path] = field(default_factory=dict)
    bulk_cm: BulkCm = field(default_factory=BulkCm)


@lru_cache(maxsize=65_536)
def filled(template: str, dn: str) -> str | None:
    """Return a text whose {Class} are replaced by the parts of a distinguished name, {id} by the last.

    Example:
        >>> filled("{ManagedElement}-{id}", "ManagedElement=7,EUtranCellFDD=2")
        '7-2'
    """
    parts = [part.partition("=") for part in parts_of(dn)]
    values = {kind: value for kind, _, value in parts} | {"id": parts[-1][2]}
    if any(name not in values for name in re.findall(r"\{([^{}]+)\}", template)):
        return None
    return re.sub(r"\{([^{}]+)\}", lambda m: values[m[1]], template)


def path_of(template: Path, dn: str) -> Path | None:
    """Return where the value of an object is; None if its name lacks a part of the path."""
    found = []
    for name, keys in template:
        own = [(key, filled(text, dn)) for key, text in keys]
        if any(text is None for _, text in own):
            return None
        found.append((name, tuple((key, str(text)) for key, text in own)))
    return tuple(found)


# --- The sections of the file ---------------------------------------------------------------------------------------


def writing_of(top: Mapping[str, Entry], knobs: Mapping[str, object]) -> Writing:
    """Return what the keys of a mapping say of writing."""
    return Writing(
        inventory=got(top, "inventory", Entry.text, ""),
        paths=got(top, "netconf", lambda entry: _paths(entry, knobs), {}),
        bulk_cm=got(top, "bulk_cm", _bulk_cm, BulkCm()),
    )


def _paths(entry: Entry, knobs: Mapping[str, object]) -> dict[str, Path]:
    given = entry.mapping(["namespaces", "paths"])
    if "paths" not in given:
        entry.fail(f"{entry.path} needs paths, from each knob to where its value is")
    spaces = got(given, "namespaces", _texts, {})
    return {name: _template(own, spaces) for name, own in given["paths"].mapping(knobs).items()}


def _texts(entry: Entry) -> dict[str, str]:
    return {name: own.text() for name, own in entry.mapping().items()}


def _template(entry: Entry, spaces: Mapping[str, str]) -> Path:
    text = entry.text("a path such as /c:Cell[id={id}]/a2Threshold")
    steps = list(_STEP.finditer(text))
    if "".join(step[0] for step in steps) != text or len(steps) < 2:
        entry.fail(f"{entry.path} must be a path such as /c:Cell[id={{id}}]/a2Threshold, got {text!r:.60}")
    found: list[Element] = []
    space = ""
    for step in steps:
        space = _space(entry, step[1], spaces) if step[1] else space
        if not space:
            entry.fail(f"{entry.path} begins without a prefix: name one of namespaces, such as /c:{step[2]}")
        keys = list(_KEY.finditer(step[3]))
        if "".join(key[0] for key in keys) != step[3]:
            entry.fail(f"{entry.path} has {step[3]!r:.40}: write keys as [id={{id}}]")
        named = [(f"{{{_space(entry, key[1], spaces) if key[1] else space}}}{key[2]}", key[3]) for key in keys]
        found.append((f"{{{space}}}{step[2]}", tuple((key, text.strip("\"'")) for key, text in named)))
    return tuple(found)


def _space(entry: Entry, prefix: str, spaces: Mapping[str, str]) -> str:
    if prefix not in spaces:
        entry.fail(f"{entry.path} has the prefix {prefix!r}, which is not among namespaces: add it there")
    return spaces[prefix]


def _bulk_cm(entry: Entry) -> BulkCm:
    given = entry.mapping(["namespaces", "objects", "vendor", "format"])
    standard = BulkCm()
    made = BulkCm(
        namespaces={**standard.namespaces, **got(given, "namespaces", _texts, {})},
        objects=got(given, "objects", Entry.text, standard.objects),
        vendor=got(given, "vendor", Entry.text, ""),
        format=got(given, "format", Entry.text, ""),
    )
    for name, prefix in (("objects", made.objects), ("vendor", made.vendor)):
        if prefix and prefix not in made.namespaces:
            given[name].fail(f"{entry.path}.{name} is {prefix!r}, which is not among namespaces: add it there")
    return made
