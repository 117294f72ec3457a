"""A YAML file as a tree whose every leaf knows its line.

The file is parsed into nodes (`yaml.compose`), never into objects: nothing in a file can run, and every complaint names
the line it is about. Leaves are read as what the reader expects there, from the text as it was written. YAML's own
guesses, by which 22:00 is the number 1320, 007 is 7 and NO is false, thus have no say: a station named 007 is "007".
"""

import difflib
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any, NoReturn, TypeVar

from kinband.errors import BadInputError, KinbandError

T = TypeVar("T")

_TAG = "tag:yaml.org,2002:"
_PLAIN = {_TAG + kind for kind in ("str", "int", "float", "bool", "null", "timestamp", "map", "seq")}
_KINDS = {"map": "a mapping", "seq": "a list"}
_NUMBER = re.compile(r"[-+]?(0|[1-9]\d*)?(\.\d+)?(e[-+]?\d+)?", re.IGNORECASE)
_TIME = re.compile(r"(\d\d?):(\d\d)")
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(s|min|m|h|d|w)")
_SECONDS = {"s": 1, "m": 60, "min": 60, "h": 3600, "d": 86_400, "w": 604_800}
_SWITCHES = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}


@dataclass(frozen=True)
class Entry:
    r"""One place of a file: a value, and what to call it in a complaint.

    Attributes:
        node: The node of the YAML tree.
        source: Name of the file.
        path: Where it stands, such as knobs.tilt.min.
        line: Line of its key, from 1.

    Example:
        >>> entry = entry_of("changes:\n  min_time: soon", source="rails.yaml").mapping(["changes"])["changes"]
        >>> entry.mapping(["min_time"])["min_time"].duration()
        Traceback (most recent call last):
            ...
        kinband.errors.BadInputError: rails.yaml, line 2: changes.min_time must be a time with its unit, ...
    """

    node: Any
    source: str
    path: str
    line: int

    def fail(self, what: str) -> NoReturn:
        """Complain about this place."""
        raise BadInputError(f"{self.source}, line {self.line}: {what}")

    def make(self, build: Callable[[], T]) -> T:
        """Return what `build` makes; its complaints become complaints about this place."""
        try:
            return build()
        except KinbandError as error:
            self.fail(str(error))

    @property
    def kind(self) -> str:
        """What stands here: "map", "seq" or "scalar"."""
        if self.node.tag not in _PLAIN:
            self.fail(
                f"{self.path or 'the file'} has the tag {self.node.tag.removeprefix(_TAG)!r}: write a plain value"
            )
        if self.node.tag == _TAG + "null" and self.node.style is None:
            self.fail(f"{self.path or 'the file'} is empty: give it a value, or remove the line")
        return {"mapping": "map", "sequence": "seq"}.get(self.node.id, "scalar")

    def mapping(self, known: Iterable[str] | None = None) -> dict[str, "Entry"]:
        """Return the entries of a mapping by key; keys must be among those known, and appear once."""
        self._expect("map", "a mapping from names to values")
        found: dict[str, Entry] = {}
        for key, value in self.node.value:
            line = key.start_mark.line + 1
            name = Entry(key, self.source, f"a key of {self.path}" if self.path else "a key", line).text()
            entry = Entry(value, self.source, f"{self.path}.{name}" if self.path else name, line)
            if name in found:
                entry.fail(f"{entry.path} is given twice, first on line {found[name].line}: keep one of them")
            if known is not None and name not in (names := list(known)):
                entry.fail(f"there is no key {name!r} {self._here()}: {near(name, names)}")
            found[name] = entry
        return found

    def items(self) -> list["Entry"]:
        """Return the entries of a list."""
        self._expect("seq", "a list")
        return [
            Entry(node, self.source, f"{self.path}[{number}]", node.start_mark.line + 1)
            for number, node in enumerate(self.node.value, start=1)
        ]

    def text(self, expected: str = "one word or number") -> str:
        """Return a leaf as it was written."""
        self._expect("scalar", expected)
        return str(self.node.value)

    def number(self) -> float:
        """Return a leaf as a decimal number."""
        text = self.text("a number")
        if self.node.style is not None or not any(map(str.isdigit, text)) or not _NUMBER.fullmatch(text):
            self.fail(f"{self.path} must be a number, got {self.node.value!r:.40}")
        value = float(text)
        return value if abs(value) <= 1e100 else self.fail(f"{self.path} must be at most 1e100, got {text}")

    def count(self, *, least: int) -> int:
        """Return a leaf as a whole number."""
        value = self.number()
        if value != int(value) or value < least:
            self.fail(f"{self.path} must be a whole number from {least}, got {self.node.value}")
        return int(value)

    def switch(self) -> bool:
        """Return a leaf as on or off."""
        text = self.text("on or off")
        if text.lower() not in _SWITCHES:
            self.fail(f"{self.path} must be on or off, got {text!r:.40}")
        return _SWITCHES[text.lower()]

    def duration(self) -> timedelta:
        """Return a leaf as a length of time."""
        text = self.text("a time with its unit")
        match = _DURATION.fullmatch(text)
        if match is None or float(match[1]) * _SECONDS[match[2]] > 1e9:
            self.fail(f"{self.path} must be a time with its unit, such as 90s, 15min, 4h, 2d or 1w, got {text!r:.40}")
        return timedelta(seconds=float(match[1]) * _SECONDS[match[2]])

    def minute(self) -> int:
        """Return a leaf as a minute of the day."""
        text = self.text("a time such as 22:00")
        match = _TIME.fullmatch(text)
        minute = int(match[1]) * 60 + int(match[2]) if match and int(match[2]) < 60 else -1
        if not 0 <= minute <= 24 * 60:
            self.fail(f"{self.path} must be a time of the day from 00:00 to 24:00, got {text!r:.40}")
        return minute

    def day(self) -> date:
        """Return a leaf as a date."""
        text = self.text("a date such as 2026-12-24")
        try:
            return date.fromisoformat(text)
        except ValueError:
            self.fail(f"{self.path} must be a date such as 2026-12-24, got {text!r:.40}")

    def _expect(self, kind: str, words: str) -> None:
        if self.kind != kind:
            came = _KINDS.get(self.kind) or repr(self.node.value)[:40]
            self.fail(f"{self.path or 'the file'} must be {words}, got {came}")

    def _here(self) -> str:
        return f"in {self.path}" if self.path else "at the top of the file"


def entry_of(text: str, *, source: str) -> Entry:
    r"""Return the root of a YAML text.

    Example:
        >>> entry_of("stop: on", source="rails.yaml").mapping()["stop"].switch()
        True
        >>> entry_of("a: 1\nb: [", source="rails.yaml")
        Traceback (most recent call last):
            ...
        kinband.errors.BadInputError: rails.yaml, line 2: this is not YAML: ...
    """
    yaml = _yaml()
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise BadInputError(f"{source}, line {mark.line + 1}: this is not YAML: {error.problem}") from error
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise BadInputError(f"{source}, line {line}: a character that YAML does not allow: remove it") from error
    except RecursionError as error:
        raise BadInputError(f"{source}, line 1: this is nested too deeply: write it flat") from error
    if node is None:
        raise BadInputError(f"{source}, line 1: the file is empty: write {{}} for no rails at all")
    return Entry(node, source, "", node.start_mark.line + 1)


def near(name: str, known: Iterable[str]) -> str:
    """Return what a name that is not known might have meant.

    Example:
        >>> near("stepp", ["min", "max", "step"]), near("x", ["min", "max"])
        ("did you mean 'step'?", 'there is min, max')
    """
    names = list(known)
    close = difflib.get_close_matches(name, names, n=1)
    if close:
        return f"did you mean {close[0]!r}?"
    return f"there is {', '.join(names[:12])}{', ...' if len(names) > 12 else ''}" if names else "none is known"


def _yaml() -> Any:
    try:
        import yaml
    except ImportError as error:
        raise ModuleNotFoundError("PyYAML is not installed: pip install 'kinband[service]'") from error
    return yaml
