"""The common keys of a rails file as the fields of a form, and back into the text; what a form has no field for stays.

A section whose fields are as they were keeps its text, comments and all. One that was changed is written anew, with the
keys that it has beside those of the form. What fields hold is not judged here: the text is read as any other file is.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kinband.errors import BadInputError
from kinband.guardrails.yaml import _yaml, entry_of

CHANGES = ("min_time", "per_day", "per_round", "round")
LIMITS = ("min", "max", "step")
FALLBACK = ("by", "rate", "drop", "slots", "retry_after", "outside_windows")
LISTS = ("maintenance", "forbidden", "freeze")
_BESIDE = "fallback"


@dataclass(frozen=True)
class Form:
    """What the fields of a form hold, as text; empty where a key is not given.

    Attributes:
        knobs: By knob, `LIMITS` and what they are.
        changes: `CHANGES` and what they are.
        lists: The windows `maintenance` and `forbidden`, and the list `freeze`: one item a line.
        fallback: `FALLBACK` and what they are.
    """

    knobs: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    changes: Mapping[str, str] = field(default_factory=dict)
    lists: Mapping[str, str] = field(default_factory=dict)
    fallback: Mapping[str, str] = field(default_factory=dict)


def form_of(text: str, knobs: Iterable[str]) -> Form:
    r"""Return the fields for the text of a rails file.

    Args:
        text: The text; one that is no YAML is refused with the line.
        knobs: The knobs that there are fields for.

    Example:
        >>> form = form_of("knobs: {tilt: {max: 4}}\nmaintenance:\n- {days: mon-fri, from: '22:00'}\n", ["tilt"])
        >>> form.knobs["tilt"], form.lists["maintenance"]
        ({'min': '', 'max': '4', 'step': ''}, "days: mon-fri, from: '22:00'")
    """
    top = _top(text)
    given = _pairs(top.get("knobs"))
    return Form(
        {name: _texts(given.get(name), LIMITS) for name in knobs},
        _texts(top.get("changes"), CHANGES),
        {name: "\n".join(_items(top.get(name))) for name in LISTS},
        _texts(top.get(_BESIDE), FALLBACK),
    )


def text_with(text: str, form: Form) -> str:
    r"""Return the text of a rails file with what a form holds.

    Example:
        >>> before = "zone: UTC  # ours\nchanges: {min_time: 4h, neighbours_together: no, round: 1h}\n"
        >>> print(text_with(before, Form(changes={"min_time": "6h", "round": "1h"})), end="")
        zone: UTC  # ours
        changes:
          min_time: 6h
          neighbours_together: no
          round: 1h
    """
    top, before = _top(text), form_of(text, form.knobs)
    if not top and not _blank(text):  # a file without rails says so by braces
        braces = entry_of(text, source="rails").node
        text = text[: braces.start_mark.index] + text[braces.end_mark.index :].lstrip("\n")
    elif top and entry_of(text, source="rails").node.flow_style:
        raise BadInputError("rails in braces from the first line on cannot be changed by a form: change the YAML")
    written: dict[str, list[str]] = {}
    if form.knobs != before.knobs:
        given = _pairs(top.get("knobs"))
        own = {name: _mapped(given.get(name), values, LIMITS) for name, values in form.knobs.items()}
        others = {name: _flow(node) for name, node in given.items() if name not in own}
        lines = [f"{_word(name)}: {{{', '.join(one)}}}" for name, one in own.items() if one]
        written["knobs"] = [*lines, *(f"{_word(name)}: {flow}" for name, flow in others.items())]
    if dict(form.changes) != {name: before.changes[name] for name in form.changes}:
        written["changes"] = _mapped(top.get("changes"), form.changes, CHANGES)
    if dict(form.fallback) != {name: before.fallback[name] for name in form.fallback}:
        wanted = any(form.fallback.get(name) for name in ("by", "drop", "slots"))
        written[_BESIDE] = _mapped(top.get(_BESIDE), form.fallback, FALLBACK) if wanted else []
    for name, lines_ in form.lists.items():
        if _clean(lines_) != _clean(before.lists[name]):
            written[name] = [f"- {_item(line, name)}" for line in _clean(lines_)]
    return _spliced(text, written)


def _top(text: str) -> dict[str, Any]:
    """Return the nodes at the top of a text, by key; an empty text has none."""
    return (
        {} if not text.strip() else {name: one.node for name, one in entry_of(text, source="rails").mapping().items()}
    )


def _pairs(node: Any) -> dict[str, Any]:
    return {str(key.value): value for key, value in node.value} if getattr(node, "id", "") == "mapping" else {}


def _texts(node: Any, names: Sequence[str]) -> dict[str, str]:
    given = _pairs(node)
    return {name: str(given[name].value) if getattr(given.get(name), "id", "") == "scalar" else "" for name in names}


def _items(node: Any) -> list[str]:
    """Return the items of a list, each on a line: a mapping without its braces, a name as it is."""
    if getattr(node, "id", "") != "sequence":
        return []
    return [
        _flow(one).removeprefix("{").removesuffix("}") if one.id == "mapping" else str(one.value) for one in node.value
    ]


def _flow(node: Any) -> str:
    """Return a node on one line."""
    yaml = _yaml()
    if node.id == "scalar":
        return f'"{node.value}"' if node.style else str(node.value)
    return str(yaml.serialize(_flowing(node), width=100_000)).strip()


def _flowing(node: Any) -> Any:
    node.flow_style = True
    for one in node.value:
        for part in one if isinstance(one, tuple) else (one,):
            if part.id != "scalar":
                _flowing(part)
    return node


def _mapped(node: Any, values: Mapping[str, str], names: Sequence[str]) -> list[str]:
    """Return the lines of a mapping: its keys in their order with what a form has for them, then those that are new."""
    given = _pairs(node)
    lines = []
    for name in [*given, *(name for name in names if name not in given)]:
        value = values.get(name, "").strip() if name in names else _flow(given[name])
        if value:
            lines.append(f"{_word(name)}: {_scalar(value) if name in names else value}")
    return lines


def _scalar(text: str) -> str:
    """Return what somebody typed so that it is one value and no other YAML."""
    plain = text.isascii() and all(letter.isalnum() or letter in ".-+%" for letter in text)
    return text if plain else '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _word(name: str) -> str:
    plain = name.isascii() and name.replace("_", "").isalnum() and not name[0].isdigit()
    return name if plain else _scalar(name) if not name.isascii() or not name.isalnum() else f'"{name}"'


def _item(line: str, name: str) -> str:
    if ":" in line:
        return f"{{{line}}}"
    if name == "freeze":
        return '"' + line.replace("\\", "\\\\").replace('"', '\\"') + '"'
    raise BadInputError(f"a window of {name} is written as days: mon-fri, from: '22:00', to: '05:00', got {line!r:.60}")


def _blank(text: str) -> bool:
    """Whether a text has no line but comments."""
    return all(not line.strip() or line.lstrip().startswith("#") for line in text.splitlines())


def _clean(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip()]


def _spliced(text: str, written: Mapping[str, Sequence[str]]) -> str:
    """Return a text whose sections are as written; those without lines are left out."""
    spans = _spans(text)
    parts, at = [], 0
    for name, (start, end) in spans.items():
        if name in written:
            parts += [text[at:start], _section(name, written[name])]
            at = end
    parts.append(text[at:])
    whole = "".join(parts)
    further = [_section(name, lines) for name, lines in written.items() if name not in spans and lines]
    if further and whole and not whole.endswith("\n"):
        whole += "\n"
    whole = whole + "".join(further)
    return f"{whole}{{}}\n" if _blank(whole) else whole


def _section(name: str, lines: Sequence[str]) -> str:
    return "".join([f"{name}:\n", *(f"  {line}\n" for line in lines)]) if lines else ""


def _spans(text: str) -> dict[str, tuple[int, int]]:
    """Return where each section begins and ends: with its last line, comments of the next one not among it."""
    if _blank(text):
        return {}
    node = entry_of(text, source="rails").node
    found = {}
    for key, value in node.value:
        end = value.end_mark.index
        stop = text.find("\n", max(end - 1, 0))
        block = getattr(value, "flow_style", None) is False
        if block:  # its end mark stands where the next key does
            stop = _last_line(text, key.start_mark.index, end)
        found[str(key.value)] = key.start_mark.index, len(text) if stop < 0 else stop + 1
    return found


def _last_line(text: str, start: int, end: int) -> int:
    """Return where the last line of a block ends that is neither empty nor a comment."""
    at, last = start, start
    for line in text[start:end].splitlines(keepends=True):
        at += len(line)
        if line.strip() and not (line.lstrip().startswith("#") and not line.startswith(" ")):
            last = at
    return last - 1
