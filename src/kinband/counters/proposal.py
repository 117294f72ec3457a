"""A mapping to begin with, written from what files hold: a person looks at it, changes it, and says `--map`."""

import json
import re
from collections import Counter
from collections.abc import Iterable
from typing import Any

from kinband.counters.cm import settings_of
from kinband.counters.files import class_of, parts_of
from kinband.counters.formulas import Leaf
from kinband.counters.mapping import UNITS
from kinband.counters.survey import Survey

_CELL = re.compile("cell|sector", re.IGNORECASE)
_BUSY = re.compile("ConnMean|UEActive|RrcConn|Users|PrbUs|Load", re.IGNORECASE)
_FAULT = re.compile("Rej|Fail|Disc|Drop|Abn", re.IGNORECASE)
_LIKELY = (re.compile(r"Th(r|ro|rou)?(ugh)?p|Tput", re.IGNORECASE), re.compile("good|satisf|succ", re.IGNORECASE))
_UNITS = {"a2ThresholdRsrp": "lte-rsrp", "a5Threshold1Rsrp": "lte-rsrp", "a3Offset": "half-db"}
_VALUES = 60  # of an attribute that differs between objects; more are identities
_WHOLE = 0.9  # share of objects that are written down at a time, in snapshots
_MOST = 200  # counters that are listed in a comment


def propose(found: Survey, *, cm: Any = None) -> str:
    """Return the text of a mapping with comments; guesses are by names and may be wrong.

    Args:
        found: What the measurement files hold.
        cm: Configuration files, for the knobs.
    """
    kind = _station_class(found)
    names = [dn for dn in found.periods if class_of(dn) == kind]
    counters = sorted(found.counters[kind])
    ratios = _ratios(counters)
    reward = _reward(counters, ratios)
    busy = [name for name in counters if _BUSY.search(name) and not _FAULT.search(name)][:3] or counters[:1]
    lines = [
        "# A proposal, guessed from names: check every line, then kinband counters ... --map this-file.",
        f"# Classes of objects: {', '.join(f'{n} {k}' for k, n in list(found.classes.items())[:12])}.",
        "station:",
        f"  object: {json.dumps(kind)}   # the objects whose configuration is decided",
        f"  name: {json.dumps(_template(names, kind))}   # parts of the distinguished name; {{id}} is the last",
        "# zone: Europe/Berlin   # of times that have none; UTC if left out",
        "# period: 15min   # where files have periods of several lengths",
        "# counters:   # those that only grow: what they grew by is taken",
        f"#   {_key(counters[0])}: {{cumulative: true, wrap: 4294967296}}",
        *(["kpis:   # of the period itself"] if ratios else []),
        *(f"  {name}: {json.dumps(formula)}" for name, formula in list(ratios.items())[:5]),
        "state:   # of the period before",
        *(f"  {_plain(name)}: {json.dumps(_written(name))}" for name in busy),
        f"reward: {json.dumps(reward)}   # the higher the better"
        if reward
        else "# reward: name one   # the higher the better; no counter is called as such are",
        "# samples: 'HO.ExeAtt'   # of how many users or trials the reward is the share",
        *_configured(cm, kind),
        "# aliases: {old name: new name}   # stations that were renamed",
        f"# Counters of {kind}{' (the first)' if len(counters) > _MOST else ''}:",
        *(f"#   {name}" for name in counters[:_MOST]),
    ]
    return "\n".join(lines) + "\n"


def _reward(counters: Iterable[str], ratios: Iterable[str]) -> str:
    """What is the higher the better by its name: a share, a throughput, or what is called good; "" where none is."""
    named = [name for likely in _LIKELY for name in counters if likely.search(name) and not _FAULT.search(name)]
    return next(iter(ratios), "") or next(map(_written, named), "")


def _station_class(found: Survey) -> str:
    """The class that looks like a cell, has the most counters, and the most objects."""
    classes = found.classes
    return max(
        classes,
        key=lambda kind: (bool(_CELL.search(kind)) and "=" not in kind, len(found.counters[kind]), classes[kind]),
    )


def _template(names: list[str], kind: str) -> str:
    """The fewest parts, from the last upwards, by which objects differ."""
    parts = [{part.partition("=")[0]: part.partition("=")[2] for part in parts_of(dn)} for dn in names]
    shared = [one for one in reversed([part.partition("=")[0] for part in parts_of(names[0])]) if one != kind]
    chosen = [kind]
    for upper in ["", *sorted(shared, key=lambda one: one not in ("ManagedElement", "MeContext"))]:
        chosen = [upper, kind] if upper else [kind]
        if all(set(chosen) <= set(own) for own in parts) and len(
            {tuple(own[c] for c in chosen) for own in parts}
        ) == len(names):
            return "-".join(f"{{{one}}}" for one in chosen)
    return ",".join(f"{one}={{{one}}}" for one in [*reversed(shared), kind])


def _ratios(counters: Iterable[str]) -> dict[str, str]:
    """Successes over attempts, where names differ in that word alone."""
    known, found = set(counters), dict[str, str]()
    for name in sorted(known):
        tries = next(
            (t for t in (name.replace("Succ", word) for word in ("Att", "Req")) if t != name and t in known), None
        )
        if tries is not None:
            found[_plain(name) + "_rate"] = f"{_written(name)} / {_written(tries)}"
    return found


def _configured(cm: Any, kind: str) -> list[str]:
    """The lines of the mapping that say what the knobs are and how the configuration tells of them."""
    seen = _Seen() if cm is None else _Seen.of(cm)
    found = seen.knobs(kind)
    if not found:
        return [
            "knobs:   # attributes of the configuration (--cm)",
            f"  a2_threshold_dbm: {{attribute: a2ThresholdRsrp, unit: lte-rsrp}}   # units: {', '.join(UNITS)};",
            "  #   or scale and offset; and object: its class, if it is not the station",
            "# configuration: {kind: changes}   # if it is a log of changes; snapshots if left out",
        ]
    how = "changes" if seen.changes() else "snapshots"
    return [
        "knobs:   # attributes of the configuration: the first that was changed at an object, if any was",
        *found.values(),
        f"configuration: {{kind: {how}}}   # changes, where a value holds until the next, or snapshots",
    ]


class _Seen:
    """What configuration files hold: values by class and attribute, and when which objects were written down."""

    def __init__(self) -> None:
        self.values: dict[tuple[str, str], set[str]] = {}
        self.last: dict[tuple[str, str], str] = {}  # of an object's attribute
        self.moved: Counter[tuple[str, str]] = Counter()
        self.times: dict[str, set[int]] = {}
        self.modified = False

    @classmethod
    def of(cls, cm: Any) -> "_Seen":
        made = cls()
        for one in settings_of(cm, zone=None, columns={}):
            made.modified |= one.change
            made.times.setdefault(one.dn, set()).add(one.time)
            if one.value is not None:
                key = class_of(one.dn), one.attribute
                made.values.setdefault(key, set()).add(one.value)
                made.moved[key] += made.last.setdefault((one.dn, one.attribute), one.value) != one.value
                made.last[one.dn, one.attribute] = one.value
        return made

    def changes(self) -> bool:
        """Whether this is a log of changes: objects are written down at times of their own, not all at each time."""
        together = len({time for own in self.times.values() for time in own})
        return self.modified or sum(map(len, self.times.values())) < _WHOLE * together * len(self.times)

    def knobs(self, kind: str) -> dict[str, str]:
        """Attributes with several values: the first is proposed, those behind it are comments.

        What was changed at an object goes before what differs between objects, such as identities; then those of
        the stations.
        """
        varying = [key for key, own in self.values.items() if 1 < len(own) <= _VALUES or self.moved[key]]
        order = sorted(varying, key=lambda key: (not self.moved[key], key[1] not in _UNITS, key[0] != kind, key))
        found: dict[str, str] = {}
        for owner, attribute in order[:8]:
            extra = "" if owner == kind else f", object: {json.dumps(owner)}"
            extra += f", unit: {_UNITS[attribute]}" if attribute in _UNITS else ""
            line = f"  {_plain(attribute)}: {{attribute: {json.dumps(attribute)}{extra}}}"
            differs = "" if self.moved[owner, attribute] else "   # differs between objects, was never changed"
            found.setdefault(attribute, f"  # {line.strip()}{differs}" if found else f"{line}{differs}")
        return found


def _written(name: str) -> str:
    return str(Leaf(name))


def _key(name: str) -> str:
    return json.dumps(name)


def _plain(name: str) -> str:
    return re.sub(r"\W+", "_", name).strip("_").lower() or "counter"
